//! What a copy prints: names, JSON, errors, and the progress bar.

use std::io::{self, Write};

use bsdffs::copy::{CopyOutcome, CopyReport, Entry, EntryKind, Observer, SkippedFile};
use bsdffs::namei::join;
use ffs_admin::counted;
use serde::Serialize;

use super::survey::Survey;
use crate::copying::{JsonCounts, skipped_message};
use crate::fail::{Failure, show};
use crate::output::{self, JsonName};
use crate::progress::{self, Progress};
use crate::signals;

/// The names of the files of one source and of their targets.
#[derive(Clone, Default)]
pub(super) struct Names {
    /// The source as its user named it.
    pub source: Vec<u8>,
    /// The target as its user named it.
    pub target: Vec<u8>,
    /// The path of the source's top below the directory of the sink.
    pub top: Vec<u8>,
    /// The top is the target itself, not a file in it.
    pub renamed: bool,
}

impl Names {
    /// The path of an entry below the top of its source.
    pub(super) fn below<'a>(&self, path: &'a [u8]) -> &'a [u8] {
        let rest = path.get(self.top.len()..).unwrap_or_default();
        rest.strip_prefix(b"/").unwrap_or(rest)
    }

    fn joined(top: &[u8], below: &[u8]) -> Vec<u8> {
        if below.is_empty() { top.to_vec() } else { join(top, below) }
    }

    pub(super) fn source(&self, path: &[u8]) -> Vec<u8> {
        Names::joined(&self.source, self.below(path))
    }

    pub(super) fn target(&self, path: &[u8]) -> Vec<u8> {
        Names::joined(&self.target, if self.renamed { self.below(path) } else { path })
    }
}

/// Observes a copy.
pub(super) struct Watch {
    pub progress: Progress,
    pub verbose: bool,
    pub json: bool,
    /// Standard output is the target: names go to standard error.
    pub to_stderr: bool,
    pub names: Names,
    /// The modes of the sources do not matter.
    pub default_modes: bool,
    /// The source is on another volume, whose inode numbers mean nothing in the target.
    pub other_volume: bool,
    survey: Option<Survey>,
    /// The survey counts all sources, not only this one.
    counts_all: bool,
    /// Bytes and files so far of what the survey counts, and bytes of the open file.
    bytes: u64,
    files: u64,
    file_bytes: u64,
    /// The number of sources, and of this one.
    pub sources: (usize, usize),
    /// Why standard output could not be written.
    error: Option<Failure>,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Json {
    File {
        source: JsonName,
        target: JsonName,
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
        result: &'static str,
    },
    Failed {
        name: String,
        reason: String,
    },
    Total {
        #[serde(flatten)]
        counts: JsonCounts,
        unchanged: u64,
        kept: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        verified: Option<u64>,
    },
}

impl Watch {
    pub(super) fn new(verbose: bool, json: bool, sources: usize) -> Watch {
        Watch {
            progress: Progress::bytes("copy", None),
            verbose,
            json,
            to_stderr: false,
            default_modes: false,
            names: Names::default(),
            other_volume: false,
            survey: None,
            counts_all: false,
            bytes: 0,
            files: 0,
            file_bytes: 0,
            sources: (sources, 0),
            error: None,
        }
    }

    /// `survey` counts all sources if the copy takes longer.
    pub(super) fn count_all(&mut self, survey: Survey) {
        (self.survey, self.counts_all) = (Some(survey), true);
    }

    /// The survey ends: the volumes that it reads are unmounted next.
    pub(super) fn end_survey(&mut self) {
        self.survey = None;
    }

    /// Whether the next source needs a survey of its own.
    pub(super) fn wants_survey(&self) -> bool {
        self.progress.is_wanted() && !self.counts_all
    }

    /// A source begins. `survey` counts its files if the copy takes longer.
    pub(super) fn begin(&mut self, names: Names, survey: Option<Survey>) {
        self.names = names;
        self.file_bytes = 0;
        self.sources.1 += 1;
        if self.counts_all {
            return;
        }
        self.survey = survey;
        (self.bytes, self.files) = (0, 0);
        if self.sources.1 > 1 && self.progress.is_shown() {
            self.progress.begin(String::new());
        }
    }

    /// The source ended.
    pub(super) fn end(&mut self) -> Result<(), Failure> {
        if !self.counts_all {
            self.survey = None;
        }
        self.error.take().map_or(Ok(()), Err)
    }

    /// Prints the total in JSON.
    pub(super) fn total(
        &mut self,
        reports: &[CopyReport],
        verified: Option<u64>,
    ) -> Result<(), Failure> {
        let mut sum = CopyReport::default();
        for report in reports {
            sum.files += report.files;
            sum.directories += report.directories;
            sum.hard_links += report.hard_links;
            sum.symlinks += report.symlinks;
            sum.special += report.special;
            sum.bytes += report.bytes;
            sum.failed += report.failed;
            sum.unchanged += report.unchanged;
            sum.kept += report.kept;
        }
        let (counts, unchanged, kept) = (JsonCounts::from(&sum), sum.unchanged, sum.kept);
        self.print(&Json::Total { counts, unchanged, kept, verified });
        self.error.take().map_or(Ok(()), Err)
    }

    fn print(&mut self, value: &Json) {
        if !self.json {
            return;
        }
        let mut line = Vec::new();
        let written = output::json_line(&mut line, value);
        let printed = written.and_then(|()| Ok(self.write(&line)?));
        if let Err(failure) = printed {
            self.error.get_or_insert(failure);
        }
    }

    fn write(&self, line: &[u8]) -> io::Result<()> {
        let mut result = Ok(());
        progress::suspend(|| {
            result = match self.to_stderr {
                true => io::stderr().write_all(line),
                false => io::stdout().write_all(line),
            };
        });
        result
    }

    /// Updates the bar.
    fn advance(&mut self, bytes: u64) {
        if !self.progress.is_wanted() {
            return;
        }
        self.bytes += bytes;
        let totals = self.survey.as_ref().and_then(|survey| {
            if self.progress.is_shown() {
                survey.start();
            }
            survey.totals()
        });
        self.progress.set(self.bytes, totals.map(|(bytes, _)| bytes.max(self.bytes)));
        if self.progress.is_shown() {
            let mut text = match totals {
                Some((_, files)) => format!("{} of {}", self.files, counted(files, "file")),
                None => counted(self.files, "file"),
            };
            if self.sources.0 > 1 {
                text += &format!(", source {} of {}", self.sources.1, self.sources.0);
            }
            self.progress.message(text);
        }
    }
}

impl Observer for Watch {
    fn adjust(&mut self, entry: &mut Entry) {
        if self.other_volume {
            entry.meta.source = None;
        }
        if self.default_modes {
            let directory = entry.kind == EntryKind::Directory;
            entry.meta.perm = if directory { 0o777 } else { 0o666 };
        }
    }

    fn started(&mut self, entry: &Entry) {
        if !self.verbose || self.json {
            return;
        }
        let (source, target) = (self.names.source(&entry.path), self.names.target(&entry.path));
        let line = format!("'{}' -> '{}'\n", show(&source), show(&target));
        if let Err(error) = self.write(line.as_bytes()) {
            self.error.get_or_insert(error.into());
        }
    }

    fn finished(&mut self, entry: &Entry, outcome: CopyOutcome) {
        self.files += 1;
        let size = if let EntryKind::File(size) = entry.kind { Some(size) } else { None };
        // The rest of the file is holes, or was not read.
        let rest = size.unwrap_or(0).saturating_sub(self.file_bytes);
        self.file_bytes = 0;
        self.advance(rest);
        if !self.json {
            return;
        }
        let result = match outcome {
            CopyOutcome::Copied => "copied",
            CopyOutcome::Unchanged => "unchanged",
            CopyOutcome::Kept => "kept",
            CopyOutcome::LeftOut => "left out",
        };
        let kind = entry.kind.file_type().map_or("link", output::kind_name);
        let source = JsonName::new(&self.names.source(&entry.path));
        let target = JsonName::new(&self.names.target(&entry.path));
        self.print(&Json::File { source, target, kind, size, result });
    }

    fn progress(&mut self, bytes: u64) {
        self.file_bytes += bytes;
        self.advance(bytes);
    }

    fn skipped(&mut self, file: &SkippedFile) {
        self.print(&Json::Failed { name: file.name.clone(), reason: file.reason.to_string() });
        output::error(skipped_message(file));
        self.file_bytes = 0;
    }

    fn is_cancelled(&self) -> bool {
        signals::interrupted() || self.error.is_some()
    }
}
