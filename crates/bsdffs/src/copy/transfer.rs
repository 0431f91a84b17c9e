//! Moves the files of a source to a sink.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::emitter::{BATCHES, Batch, Emitter, Event, Piece};
use super::entry::{Entry, EntryKind};
use super::error::{CopyError, SinkError, SinkResult, SkipReason, SkippedFile};
use super::report::CopyReport;
use super::select::{Select, Verdict};
use super::sink::{CopyOutcome, Observer, Sink, Source};
use crate::text::{escape, human_size};

/// Copies the tree of `source` into `sink`.
///
/// A file that cannot be copied is passed to [`Observer::skipped`] and counted in
/// [`CopyReport::failed`].
///
/// # Errors
/// [`CopyError`]: nothing more can be copied, or the copy was cancelled. Files that were complete
/// stay.
pub fn transfer(
    source: impl Source,
    sink: &mut dyn Sink,
    observer: &mut dyn Observer,
) -> Result<CopyReport, CopyError> {
    transfer_selected(source, None, sink, observer)
}

/// As [`transfer()`], without the files that `select` leaves out.
///
/// # Errors
/// As [`transfer()`].
pub fn transfer_selected(
    source: impl Source,
    select: Option<Arc<dyn Select>>,
    sink: &mut dyn Sink,
    observer: &mut dyn Observer,
) -> Result<CopyReport, CopyError> {
    std::thread::scope(|scope| {
        let (from, return_to) = spawn_selected(scope, source, select);
        let mut transfer = Transfer {
            sink,
            observer,
            report: CopyReport::default(),
            open: None,
            bytes_before: 0,
            skipped_directory: None,
        };
        let result = transfer.receive(from, &return_to);
        if result.is_err() {
            transfer.abort();
            transfer.sink.stopped();
        }
        result.map(|()| transfer.report)
    })
}

/// Starts a source in a thread of its own. Returns the channel on which its batches come, and that
/// for empty ones.
pub(crate) fn spawn<'scope, 'env>(
    scope: &'scope std::thread::Scope<'scope, 'env>,
    source: impl Source + 'scope,
) -> (Receiver<Batch>, SyncSender<Batch>) {
    spawn_selected(scope, source, None)
}

fn spawn_selected<'scope, 'env>(
    scope: &'scope std::thread::Scope<'scope, 'env>,
    source: impl Source + 'scope,
    select: Option<Arc<dyn Select>>,
) -> (Receiver<Batch>, SyncSender<Batch>) {
    let (to, from) = sync_channel(BATCHES);
    let (return_to, returned) = sync_channel(BATCHES);
    scope.spawn(move || {
        let mut emitter = Emitter::new(to, returned, select);
        // After an error the receiver has ended, and its own error is reported.
        if source.send(&mut emitter).is_ok() {
            emitter.flush();
        }
    });
    (from, return_to)
}

/// The receiving side of a copy.
struct Transfer<'a> {
    sink: &'a mut dyn Sink,
    observer: &'a mut dyn Observer,
    report: CopyReport,
    /// The file that is open in the sink, and its size.
    open: Option<(Entry, u64)>,
    /// Bytes copied before that file.
    bytes_before: u64,
    /// A directory that could not be created: entries below it are ignored.
    skipped_directory: Option<Vec<u8>>,
}

impl Transfer<'_> {
    fn receive(
        &mut self,
        from: Receiver<Batch>,
        return_to: &SyncSender<Batch>,
    ) -> Result<(), CopyError> {
        for mut batch in from {
            if self.observer.is_cancelled() {
                return Err(CopyError::cancelled());
            }
            let Batch { events, data, .. } = &mut batch;
            for event in events.drain(..) {
                self.event(event, data)?;
            }
            batch.clear();
            // Fails if the source has ended or has enough batches.
            let _ = return_to.try_send(batch);
        }
        match self.sink.finish(&mut self.report) {
            Ok(skipped) => skipped.into_iter().try_for_each(|(path, reason)| {
                self.skip(&path, SkippedFile { name: String::new(), reason, partial: None })
            }),
            Err(error) => self.settle(Err(error), b"", None),
        }
    }

    fn event(&mut self, event: Event, data: &[u8]) -> Result<(), CopyError> {
        match event {
            Event::Entry(entry) => self.entry(*entry),
            Event::SmallFile(entry, piece) => {
                self.entry(*entry)?;
                self.data(0, piece, data)?;
                self.end()
            }
            Event::Data(offset, piece) => self.data(offset, piece, data),
            Event::Extent(start, end) => {
                self.sink.extent(start, end);
                Ok(())
            }
            Event::Attributes(meta) => {
                self.sink.late_attributes(*meta);
                Ok(())
            }
            Event::End => self.end(),
            Event::Unselected(entry, verdict) => self.unselected(*entry, verdict),
            Event::Abort => {
                self.abort();
                Ok(())
            }
            Event::Failed { name, why } => {
                self.report.failed += 1;
                let reason = SkipReason::other(why);
                self.observer.skipped(&SkippedFile { name, reason, partial: None });
                Ok(())
            }
            Event::Lost(loss, path) => {
                self.report.record_loss(loss);
                self.report.set_path_of_losses(&path);
                Ok(())
            }
        }
    }

    fn entry(&mut self, mut entry: Entry) -> Result<(), CopyError> {
        if self.skipped_directory.as_deref().is_some_and(|dir| is_below(&entry.path, dir)) {
            return Ok(());
        }
        self.observer.adjust(&mut entry);
        let result = self.sink.entry(&entry, &mut self.report);
        let outcome = match &result {
            Ok(()) => Some(CopyOutcome::Copied),
            Err(SinkError::Keep) => Some(CopyOutcome::Kept),
            Err(SinkError::Ignore) => Some(CopyOutcome::LeftOut),
            Err(_) => None,
        };
        let size = if let EntryKind::File(size) = entry.kind { Some(size) } else { None };
        self.settle(result, &entry.path, size)?;
        match outcome {
            Some(CopyOutcome::Copied) => {
                self.report.count(&entry.kind);
                self.observer.started(&entry);
                match size {
                    Some(size) => self.open = Some((entry, size)),
                    None => self.observer.finished(&entry, CopyOutcome::Copied),
                }
                self.bytes_before = self.report.bytes;
            }
            other => {
                if let Some(outcome) = other {
                    self.report.kept += u64::from(outcome == CopyOutcome::Kept);
                    self.observer.finished(&entry, outcome);
                }
                if entry.kind == EntryKind::Directory {
                    self.skipped_directory = Some(entry.path);
                }
            }
        }
        Ok(())
    }

    /// Notes a file that the selection leaves out.
    fn unselected(&mut self, mut entry: Entry, verdict: Verdict) -> Result<(), CopyError> {
        if self.skipped_directory.as_deref().is_some_and(|dir| is_below(&entry.path, dir)) {
            return Ok(());
        }
        self.observer.adjust(&mut entry);
        if verdict != Verdict::Unchanged {
            self.report.kept += 1;
            self.observer.finished(&entry, CopyOutcome::Kept);
            return Ok(());
        }
        let result = self.sink.unchanged(&entry, &mut self.report);
        let complete = result.is_ok();
        self.settle(result, &entry.path, None)?;
        if complete {
            self.report.unchanged += 1;
            self.observer.finished(&entry, CopyOutcome::Unchanged);
        }
        Ok(())
    }

    /// Aborts the open file, if there is one.
    fn abort(&mut self) {
        let Some((entry, _)) = self.open.take() else { return };
        self.uncount();
        if let Some(partial) = self.sink.abort() {
            let reason = SkipReason::other("the rest of the source was not copied");
            let file = SkippedFile { name: escape(entry.path), reason, partial: Some(partial) };
            self.observer.skipped(&file);
        }
    }

    /// Takes the open file out of the counts.
    fn uncount(&mut self) {
        self.report.files -= 1;
        self.report.bytes = self.bytes_before;
    }

    /// Writes to the open file, if there is one; aborts it if that fails.
    fn data(&mut self, offset: u64, piece: Piece, data: &[u8]) -> Result<(), CopyError> {
        let bytes = piece.of(data);
        if self.open.is_none() || bytes.is_empty() {
            return Ok(());
        }
        let Err(mut error) = self.sink.data(offset, bytes) else {
            self.observer.progress(bytes.len() as u64);
            self.report.bytes += bytes.len() as u64;
            return Ok(());
        };
        self.uncount();
        let Some((Entry { path, .. }, size)) = self.open.take() else { return Ok(()) };
        let partial = self.sink.abort();
        if let SinkError::Skip(reason) = error {
            return self.skip(&path, SkippedFile { name: String::new(), reason, partial });
        }
        if let SinkError::Stop(stop) = &mut error {
            stop.set_partial(partial);
        }
        self.settle(Err(error), &path, Some(size))
    }

    fn end(&mut self) -> Result<(), CopyError> {
        let Some((entry, size)) = self.open.take() else { return Ok(()) };
        let before = self.report.unchanged;
        let result = self.sink.end(&mut self.report);
        let unchanged = self.report.unchanged > before;
        let complete = result.is_ok();
        if !complete || unchanged {
            self.uncount();
        }
        self.settle(result, &entry.path, Some(size))?;
        if complete {
            let outcome = if unchanged { CopyOutcome::Unchanged } else { CopyOutcome::Copied };
            self.observer.finished(&entry, outcome);
        }
        Ok(())
    }

    /// Handles the result of a step for the file at `path`, which has `size` bytes if it is
    /// regular.
    fn settle(
        &mut self,
        result: SinkResult,
        path: &[u8],
        size: Option<u64>,
    ) -> Result<(), CopyError> {
        self.report.set_path_of_losses(path);
        match result {
            Ok(()) | Err(SinkError::Ignore | SinkError::Keep) => Ok(()),
            Err(SinkError::Skip(reason)) => {
                self.skip(path, SkippedFile { name: String::new(), reason, partial: None })
            }
            Err(SinkError::Stop(error)) if path.is_empty() => Err(error),
            Err(SinkError::Stop(error)) if error.kind() == io::ErrorKind::Interrupted => Err(error),
            Err(SinkError::Stop(error)) => {
                let size = size.map(|size| format!(" ({})", human_size(size)));
                Err(error.in_file(escape(path) + &size.unwrap_or_default()))
            }
        }
    }

    fn skip(&mut self, path: &[u8], file: SkippedFile) -> Result<(), CopyError> {
        self.report.set_path_of_losses(path);
        self.report.failed += 1;
        self.observer.skipped(&SkippedFile { name: escape(path), ..file });
        Ok(())
    }
}

/// Whether `path` is in the directory `dir`, at any depth.
pub(crate) fn is_below(path: &[u8], dir: &[u8]) -> bool {
    dir.is_empty() || path.strip_prefix(dir).is_some_and(|rest| rest.starts_with(b"/"))
}
