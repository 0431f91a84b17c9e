//! The observer of copies and builds: draws a progress bar and prints errors.

use bsdffs::build::{BuildObserver, BuildPhase};
use bsdffs::copy::{CopyError, CopyReport, Observer, SkipReason, SkippedFile};

use serde::Serialize;

use crate::fail::Failure;
use crate::output;
use crate::progress::Progress;
use crate::signals;

/// The hint for a file that a failed copy has overwritten in part.
const ATOMIC: &str = "--atomic keeps the old content until the new file is complete";

/// What was copied, in JSON.
#[derive(Serialize)]
pub(crate) struct JsonCounts {
    files: u64,
    directories: u64,
    hard_links: u64,
    symlinks: u64,
    special: u64,
    bytes: u64,
    failed: u64,
}

impl From<&CopyReport> for JsonCounts {
    fn from(report: &CopyReport) -> JsonCounts {
        let &CopyReport {
            files, directories, hard_links, symlinks, special, bytes, failed, ..
        } = report;
        JsonCounts { files, directories, hard_links, symlinks, special, bytes, failed }
    }
}

/// Shows the progress of a copy; a signal cancels it.
pub(crate) struct CopyProgress(pub Progress);

impl Observer for CopyProgress {
    fn progress(&mut self, bytes: u64) {
        self.0.add(bytes);
    }

    fn skipped(&mut self, file: &SkippedFile) {
        output::error(skipped_message(file));
    }

    fn is_cancelled(&self) -> bool {
        signals::interrupted()
    }
}

impl BuildObserver for CopyProgress {
    fn begin(&mut self, phase: BuildPhase) {
        self.0 = match phase {
            BuildPhase::Measure => Progress::items("measure", None),
            BuildPhase::Copy { bytes } => Progress::bytes("build", bytes),
        };
    }
}

/// The message for a file that could not be copied, with the option that helps.
pub(crate) fn skipped_message(file: &SkippedFile) -> String {
    let hint = match &file.reason {
        _ if file.partial.is_some() => ATOMIC,
        SkipReason::DanglingLink => "remove it first, or replace it with --atomic",
        SkipReason::NotWritable(_) => "-f replaces it",
        SkipReason::FileFlag(_) => {
            "a file flag such as schg forbids it (ffs ls -lo shows flags, ffs chflags clears them)"
        }
        _ => return file.to_string(),
    };
    format!("{file}; {hint}")
}

impl From<CopyError> for Failure {
    fn from(error: CopyError) -> Failure {
        match error.kind() {
            std::io::ErrorKind::Interrupted => return Failure::interrupted(),
            std::io::ErrorKind::BrokenPipe => return Failure::pipe_closed(),
            _ => {}
        }
        let full = error.kind() == std::io::ErrorKind::StorageFull;
        let failure = Failure { full, ..Failure::plain(&error) };
        if error.partial().is_some() { failure.hint(ATOMIC) } else { failure }
    }
}

/// Prints a warning for each kind of attribute that could not be preserved.
pub(crate) fn warn_of_losses(report: &CopyReport) {
    report.loss_messages().into_iter().for_each(output::warn);
}
