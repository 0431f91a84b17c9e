//! Which files are copied: patterns, existing targets, prompts, and copies that change nothing.

use std::io::{self, Write};
use std::sync::Arc;

use bsdffs::copy::{
    CopyReport, Entry, EntryKind, Found, PartialFile, Select, Sink, SinkError, SinkResult, Targets,
    Verdict,
};
use ffs_core::FileType;

use super::flags::Stay;
use super::watch::Names;
use crate::fail::show;
use crate::parse::pattern::{self, Pattern};
use crate::{progress, signals};

/// The selection that the options make.
pub(super) struct Choose {
    pub targets: Arc<dyn Targets>,
    pub exclude: Vec<Pattern>,
    pub stay: Stay,
    /// A file with the size and the time of its source has its content.
    pub trust_times: bool,
}

impl Select for Choose {
    fn excludes(&self, path: &[u8]) -> bool {
        pattern::excludes(&self.exclude, path)
    }

    fn excludes_directory(&self, path: &[u8]) -> bool {
        pattern::excludes_directory(&self.exclude, path)
    }

    fn verdict(&self, entry: &Entry) -> Verdict {
        let unused = self.stay == Stay::None && !self.trust_times;
        if unused || entry.kind == EntryKind::Directory {
            return Verdict::Copy;
        }
        let found = self.targets.find(&entry.path, false);
        let Some(found) = found.filter(|found| found.kind != FileType::Directory) else {
            return Verdict::Copy;
        };
        let mtime = entry.meta.mtime;
        match self.stay {
            Stay::All => return Verdict::Keep,
            Stay::NotOlder => {
                // The content is written through a link.
                let follow = matches!(entry.kind, EntryKind::File(_));
                let there = self.targets.find(&entry.path, follow).unwrap_or(found);
                if (there.mtime.secs, there.mtime.nsec) >= (mtime.secs, mtime.nsec) {
                    return Verdict::Keep;
                }
            }
            Stay::None => {}
        }
        let EntryKind::File(size) = entry.kind else { return Verdict::Copy };
        let complete = Found { kind: FileType::Regular, size, mtime };
        if self.trust_times && found == complete { Verdict::Unchanged } else { Verdict::Copy }
    }
}

/// Only the patterns of a selection.
pub(super) struct Excludes(pub Vec<Pattern>);

impl Select for Excludes {
    fn excludes(&self, path: &[u8]) -> bool {
        pattern::excludes(&self.0, path)
    }

    fn excludes_directory(&self, path: &[u8]) -> bool {
        pattern::excludes_directory(&self.0, path)
    }
}

/// A target with nothing in it: a pipe.
pub(super) struct NoTargets;

impl Targets for NoTargets {
    fn find(&self, _: &[u8], _: bool) -> Option<Found> {
        None
    }
}

/// Prompts before an existing file is overwritten.
pub(super) struct AskSink<'a> {
    pub sink: &'a mut dyn Sink,
    pub targets: &'a dyn Targets,
    pub names: &'a Names,
}

impl AskSink<'_> {
    fn may_overwrite(&self, entry: &Entry) -> bool {
        let found = self.targets.find(&entry.path, false);
        if found.is_none_or(|found| found.kind == FileType::Directory) {
            return true;
        }
        let target = show(self.names.target(&entry.path));
        progress::suspend(|| {
            // Without standard error there is no place to report this error.
            let _ = write!(io::stderr(), "ffs cp: overwrite '{target}'? ");
        });
        let answer = signals::read_line().unwrap_or_default();
        matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes")
    }
}

impl Sink for AskSink<'_> {
    fn inner(&mut self) -> Option<&mut dyn Sink> {
        Some(self.sink)
    }

    fn entry(&mut self, entry: &Entry, report: &mut CopyReport) -> SinkResult {
        if entry.kind != EntryKind::Directory && !self.may_overwrite(entry) {
            return Err(SinkError::Keep);
        }
        self.sink.entry(entry, report)
    }

    fn data(&mut self, offset: u64, bytes: &[u8]) -> SinkResult {
        self.sink.data(offset, bytes)
    }

    fn end(&mut self, report: &mut CopyReport) -> SinkResult {
        self.sink.end(report)
    }

    fn abort(&mut self) -> Option<PartialFile> {
        self.sink.abort()
    }
}

/// Changes nothing, and fails where the kind of an existing target forbids a copy.
pub(super) struct DrySink {
    targets: Arc<dyn Targets>,
    /// Bytes of the file that is open: the source sends no content.
    len: u64,
}

impl DrySink {
    pub(super) fn new(targets: Arc<dyn Targets>) -> DrySink {
        DrySink { targets, len: 0 }
    }
}

impl Sink for DrySink {
    fn entry(&mut self, entry: &Entry, _: &mut CopyReport) -> SinkResult {
        let directory = entry.kind == EntryKind::Directory;
        self.len = if let EntryKind::File(len) = entry.kind { len } else { 0 };
        match self.targets.find(&entry.path, false) {
            Some(found) if directory && !entry.path.is_empty() => match found.kind {
                FileType::Directory => Ok(()),
                _ => Err(SinkError::skip("exists and is not a directory")),
            },
            Some(found) if !directory && found.kind == FileType::Directory => {
                Err(SinkError::skip("exists and is a directory"))
            }
            _ => Ok(()),
        }
    }

    fn data(&mut self, _: u64, _: &[u8]) -> SinkResult {
        Ok(())
    }

    fn end(&mut self, report: &mut CopyReport) -> SinkResult {
        report.bytes = report.bytes.saturating_add(std::mem::take(&mut self.len));
        Ok(())
    }

    fn abort(&mut self) -> Option<PartialFile> {
        None
    }
}
