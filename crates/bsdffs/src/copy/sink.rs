//! The interface of sinks.

use super::emitter::{CopyEnded, Emitter};
use super::entry::{Entry, EntryMeta};
use super::error::{PartialFile, SinkError, SinkResult, SkipReason, SkippedFile};
use super::report::CopyReport;

/// A tree that can be copied. Each source sends a directory before its entries, and the first name
/// of a file before its hard links.
pub trait Source: Send {
    /// Sends the tree to `emitter`.
    ///
    /// # Errors
    /// The copy ended.
    fn send(self, emitter: &mut Emitter) -> Result<(), CopyEnded>;
}

/// A path relative to the top of the copy, and why the file there is not complete.
pub type SkippedPath = (Vec<u8>, SkipReason);

/// Creates the files that a source sends.
pub trait Sink {
    /// The sink to which this one passes what it does not handle itself. The default of a method
    /// calls it; without an inner sink the default does nothing.
    fn inner(&mut self) -> Option<&mut dyn Sink> {
        None
    }

    /// Creates the file. A regular file stays open for [`Sink::data`].
    ///
    /// # Errors
    /// The file cannot be created.
    fn entry(&mut self, entry: &Entry, report: &mut CopyReport) -> SinkResult;

    /// Writes `bytes` at `offset`, bytes, of the open file. Offsets increase.
    ///
    /// # Errors
    /// The data cannot be written.
    fn data(&mut self, offset: u64, bytes: &[u8]) -> SinkResult;

    /// Notes that the bytes `start..end` of the open file contain data. Only sources that do not
    /// read data call it.
    fn extent(&mut self, start: u64, end: u64) {
        if let Some(inner) = self.inner() {
            inner.extent(start, end);
        }
    }

    /// Replaces the attributes of the open file. Only sources that learn its extended attributes
    /// after its data call it.
    fn late_attributes(&mut self, meta: EntryMeta) {
        if let Some(inner) = self.inner() {
            inner.late_attributes(meta);
        }
    }

    /// Completes the open file.
    ///
    /// # Errors
    /// The file cannot be completed; the sink removed it.
    fn end(&mut self, report: &mut CopyReport) -> SinkResult;

    /// Removes the open file if the copy created it; otherwise returns what it now contains.
    fn abort(&mut self) -> Option<PartialFile>;

    /// The existing target of `entry` has its content: completes the attributes.
    ///
    /// # Errors
    /// The attributes cannot be set.
    fn unchanged(&mut self, entry: &Entry, report: &mut CopyReport) -> SinkResult {
        self.inner().map_or(Ok(()), |inner| inner.unchanged(entry, report))
    }

    /// The copy ended early; [`Sink::abort`] was called. Errors have no place to be reported.
    fn stopped(&mut self) {
        if let Some(inner) = self.inner() {
            inner.stopped();
        }
    }

    /// Completes the tree: sets the attributes of directories. Returns the directories for which
    /// that failed.
    ///
    /// # Errors
    /// The copy ends.
    fn finish(&mut self, report: &mut CopyReport) -> Result<Vec<SkippedPath>, SinkError> {
        self.inner().map_or(Ok(Vec::new()), |inner| inner.finish(report))
    }
}

/// The end of the copy of one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyOutcome {
    /// It was copied.
    Copied,
    /// Its target had the content already.
    Unchanged,
    /// Its existing target stays.
    Kept,
    /// The target cannot represent it.
    LeftOut,
}

/// Watches and steers a copy.
pub trait Observer {
    /// Changes a file before the sink creates it.
    fn adjust(&mut self, entry: &mut Entry) {
        let _ = entry;
    }

    /// `bytes` more bytes of data are copied.
    fn progress(&mut self, bytes: u64) {
        let _ = bytes;
    }

    /// The target of a file was created or opened. Content may follow.
    fn started(&mut self, entry: &Entry) {
        let _ = entry;
    }

    /// A file is complete, or was not copied.
    fn finished(&mut self, entry: &Entry, outcome: CopyOutcome) {
        let _ = (entry, outcome);
    }

    /// A file could not be copied; the copy goes on.
    fn skipped(&mut self, file: &SkippedFile);

    /// Whether to end the copy.
    fn is_cancelled(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DigestSink, Digests, Sparse, SparseSink};
    use super::*;

    /// Notes the calls that have a default.
    #[derive(Default)]
    struct Noting(Vec<&'static str>);

    impl Sink for Noting {
        fn entry(&mut self, _: &Entry, _: &mut CopyReport) -> SinkResult {
            Ok(())
        }

        fn data(&mut self, _: u64, _: &[u8]) -> SinkResult {
            Ok(())
        }

        fn extent(&mut self, _: u64, _: u64) {
            self.0.push("extent");
        }

        fn late_attributes(&mut self, _: EntryMeta) {
            self.0.push("late_attributes");
        }

        fn end(&mut self, _: &mut CopyReport) -> SinkResult {
            Ok(())
        }

        fn abort(&mut self) -> Option<PartialFile> {
            None
        }

        fn unchanged(&mut self, _: &Entry, _: &mut CopyReport) -> SinkResult {
            self.0.push("unchanged");
            Ok(())
        }

        fn stopped(&mut self) {
            self.0.push("stopped");
        }

        fn finish(&mut self, _: &mut CopyReport) -> Result<Vec<SkippedPath>, SinkError> {
            self.0.push("finish");
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_sink_passes_on_what_it_does_not_handle() {
        let mut noting = Noting::default();
        let mut digests = Digests::default();
        let mut digest = DigestSink::new(&mut noting, &mut digests);
        let mut outer = SparseSink::new(&mut digest, Sparse::Always);
        let kind = super::super::EntryKind::Fifo;
        let entry = Entry { path: Vec::new(), kind, meta: EntryMeta::default(), identity: None };
        let mut report = CopyReport::default();
        outer.extent(0, 1);
        outer.late_attributes(EntryMeta::default());
        assert!(outer.unchanged(&entry, &mut report).is_ok());
        outer.stopped();
        assert!(outer.finish(&mut report).is_ok());
        let all = ["extent", "late_attributes", "unchanged", "stopped", "finish"];
        assert_eq!(noting.0, all);
    }
}
