//! The channel from a source to a sink.
//!
//! A source runs in a thread of its own and sends [`Event`]s through an [`Emitter`]. Events and the
//! data they refer to travel in batches; the receiver returns empty batches, so that their memory
//! is allocated once.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender};

use super::entry::{Entry, EntryMeta};
use super::report::Loss;
use super::select::{Select, Verdict};
use crate::text::escape;

/// Most bytes in one read of a file, and in one [`Event::Data`].
pub const READ_SIZE: usize = 512 << 10;
/// Files up to this size, bytes, are sent as one [`Event::SmallFile`].
pub(crate) const SMALL_FILE: u64 = 256 << 10;
/// Batches in flight between the two threads.
pub(super) const BATCHES: usize = 8;
/// Events and bytes in a batch.
const BATCH_EVENTS: usize = 128;
const BATCH_BYTES: usize = 1 << 20;

/// What a source sends.
#[derive(Debug)]
pub(crate) enum Event {
    /// A file. After a regular file [`Event::Data`] and [`Event::End`] follow; ranges without data
    /// are holes.
    Entry(Box<Entry>),
    /// A regular file with all of its data.
    SmallFile(Box<Entry>, Piece),
    /// Data of the open file at an offset, bytes.
    Data(u64, Piece),
    /// A range of the open file that contains data, start and end, bytes. Sources that do not read
    /// data send it in place of [`Event::Data`].
    Extent(u64, u64),
    /// The attributes of the open file, whose extended attributes came after its data.
    Attributes(Box<EntryMeta>),
    /// The open file is complete.
    End,
    /// A file that was selected not to be copied, and why.
    Unselected(Box<Entry>, Verdict),
    /// The rest of the open file cannot be read; [`Event::Failed`] gave the reason.
    Abort,
    /// A file, named for messages, cannot be read.
    Failed { name: String, why: String },
    /// An attribute of the file at this path cannot be represented.
    Lost(Loss, Vec<u8>),
}

/// A range of the data of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    start: usize,
    len: usize,
}

impl Piece {
    /// The bytes of the piece in the data of its batch.
    pub(super) fn of(self, data: &[u8]) -> &[u8] {
        &data[self.start..][..self.len]
    }
}

/// Events and the data they refer to.
pub(crate) struct Batch {
    pub(crate) events: Vec<Event>,
    pub(super) data: Vec<u8>,
    /// Bytes of `data` that events refer to.
    used: usize,
}

impl Batch {
    fn new() -> Batch {
        Batch { events: Vec::with_capacity(BATCH_EVENTS), data: vec![0; BATCH_BYTES], used: 0 }
    }

    /// Empties the batch, so that it can be filled again.
    pub(crate) fn clear(&mut self) {
        self.events.clear();
        self.used = 0;
    }
}

/// The copy ended before the source did. The source stops.
#[derive(Clone, Copy, Debug)]
pub struct CopyEnded;

/// Sends the files of a source to the sink.
pub struct Emitter {
    batch: Batch,
    to: SyncSender<Batch>,
    /// Empty batches come back here.
    returned: Receiver<Batch>,
    /// The receiver ended.
    closed: bool,
    select: Option<Arc<dyn Select>>,
}

impl Emitter {
    pub(super) fn new(
        to: SyncSender<Batch>,
        returned: Receiver<Batch>,
        select: Option<Arc<dyn Select>>,
    ) -> Emitter {
        Emitter { batch: Batch::new(), to, returned, closed: false, select }
    }

    /// Whether the file at `path`, relative to the top of the source, is left out.
    pub(crate) fn excludes(&self, path: &[u8]) -> bool {
        self.select.as_ref().is_some_and(|select| select.excludes(path))
    }

    /// Whether the directory at `path`, relative to the top of the source, is left out.
    pub(crate) fn excludes_directory(&self, path: &[u8]) -> bool {
        self.select.as_ref().is_some_and(|select| select.excludes_directory(path))
    }

    /// Returns `entry` if it is selected to be copied. Otherwise it notifies the receiver, and the
    /// source need not read the content.
    pub(crate) fn offer(&mut self, entry: Entry) -> Result<Option<Entry>, CopyEnded> {
        let verdict = self.select.as_ref().map_or(Verdict::Copy, |select| select.verdict(&entry));
        match verdict {
            Verdict::Copy => return Ok(Some(entry)),
            Verdict::Ignore => return Ok(None),
            Verdict::Keep | Verdict::Unchanged => {}
        }
        self.send(Event::Unselected(Box::new(entry), verdict)).map(|()| None)
    }

    /// Sends `event`.
    pub(crate) fn send(&mut self, event: Event) -> Result<(), CopyEnded> {
        self.batch.events.push(event);
        if self.batch.events.len() >= BATCH_EVENTS {
            self.flush();
        }
        if self.closed { Err(CopyEnded) } else { Ok(()) }
    }

    /// Sends a file.
    pub(crate) fn entry(&mut self, entry: Entry) -> Result<(), CopyEnded> {
        match self.offer(entry)? {
            Some(entry) => self.open(entry),
            None => Ok(()),
        }
    }

    /// Sends a file that [`Emitter::offer`] returned.
    pub(crate) fn open(&mut self, entry: Entry) -> Result<(), CopyEnded> {
        self.send(Event::Entry(Box::new(entry)))
    }

    /// A buffer of `len` bytes, at most [`READ_SIZE`], for [`Emitter::data`] or
    /// [`Emitter::small_file`].
    pub(crate) fn buffer(&mut self, len: usize) -> &mut [u8] {
        if self.batch.data.len() - self.batch.used < len {
            self.flush();
        }
        &mut self.batch.data[self.batch.used..][..len]
    }

    /// Sends the first `len` bytes of the buffer as the data at `offset` of the open file.
    pub(crate) fn data(&mut self, offset: u64, len: usize) -> Result<(), CopyEnded> {
        let piece = self.take(len);
        self.send(Event::Data(offset, piece))
    }

    /// Sends the regular file `entry` with the first `len` bytes of the buffer as its content.
    pub(crate) fn small_file(&mut self, entry: Entry, len: usize) -> Result<(), CopyEnded> {
        let piece = self.take(len);
        self.send(Event::SmallFile(Box::new(entry), piece))
    }

    /// Reports that `name` cannot be read.
    pub(crate) fn failed(&mut self, name: &[u8], why: impl Display) -> Result<(), CopyEnded> {
        self.send(Event::Failed { name: escape(name), why: why.to_string() })
    }

    fn take(&mut self, len: usize) -> Piece {
        let start = self.batch.used;
        self.batch.used += len;
        Piece { start, len }
    }

    /// Sends what is not sent yet, perhaps nothing, while the source waits for data: the receiver
    /// can end the copy only when something comes.
    pub(crate) fn wait(&mut self) -> Result<(), CopyEnded> {
        self.flush();
        if self.closed { Err(CopyEnded) } else { Ok(()) }
    }

    /// Sends the events that are not sent yet.
    pub(super) fn flush(&mut self) {
        let next = self.returned.try_recv().unwrap_or_else(|_| Batch::new());
        let batch = std::mem::replace(&mut self.batch, next);
        self.closed = self.to.send(batch).is_err();
    }
}
