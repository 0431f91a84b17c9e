//! The check in the background, for `ffs mount` and `ffs fsck -B`.

use std::sync::Arc;

use bsdffs::bgfsck::{CheckOptions, CheckReport, Outcome, run};
use ffs_admin::counted;
use ffs_admin::fsck::exit;
use ffs_core::Ffs;
use ffs_fuse::{CheckResult, CheckRun};

/// `-F`, `-B`: the volume has no soft updates.
pub(crate) const NO_SOFTDEP: u8 = 5;
/// `-F`, `-B`: no check in the background is possible.
pub(crate) const NO_BACKGROUND: u8 = 6;

/// Checks the volume of a mount, in a thread of its server.
pub(crate) fn of_mount(check: &CheckRun<'_>) -> CheckResult {
    let options = CheckOptions {
        force: check.force,
        paced: true,
        interrupt: Arc::clone(&check.interrupt),
        max_memory: None,
        changed: &mut |what| (check.changed)(what),
        progress: &mut |_| {},
    };
    let report = run(check.fs, options);
    for finding in &report.findings {
        tracing::info!(target: "ffs::fsck", "{finding}");
    }
    let later = match report.outcome {
        Outcome::Completed => "; unmounting marks it clean",
        _ => "",
    };
    CheckResult { code: code(check.fs, &report), text: format!("{}{later}", summary(&report)) }
}

/// The exit code of `-B`.
pub(crate) fn code(fs: &Ffs, report: &CheckReport) -> u8 {
    match report.outcome {
        Outcome::Skipped | Outcome::Completed => exit::OK,
        Outcome::Unrepairable(_) | Outcome::Failed(_) => exit::ERROR,
        Outcome::Impossible(_) if fs.ordering() != "softdep" => NO_SOFTDEP,
        Outcome::Impossible(_) => NO_BACKGROUND,
        Outcome::Interrupted => exit::INTERRUPTED,
    }
}

/// The result in a line.
pub(crate) fn summary(report: &CheckReport) -> String {
    match report.outcome {
        Outcome::Completed => {
            let (found, made) = (report.findings.len() as u64, report.corrections);
            let (found, made) = (counted(found, "finding"), counted(made, "correction"));
            format!("{}; {found}, {made}; {}", report.outcome, report.totals)
        }
        _ => report.outcome.to_string(),
    }
}
