//! Copying trees: a source tells what it holds, a sink makes it anew.
//!
//! **Purpose.** Host, image and archive are sources; host and image are sinks. The source runs in a
//! thread of its own and sends [`Event`]s; the sink works on what has arrived.
//!
//! **Invariants.**
//! 1. A directory is told before what is in it, the first name of a file before its other names.
//! 2. The order of events depends on the tree alone: names are told in byte order, depth first.
//! 3. A file that cannot be copied whole is reported. A new one is not left behind half; of one that
//!    was written over the message says what is left.
//! 4. What cannot be kept (owners without root, attributes the other side has no place for) is
//!    counted and said.
//! 5. Memory is bounded by the number of directories and of files with several names, not by data.

pub(crate) mod flags;
pub(crate) mod host_sink;
pub(crate) mod host_source;
pub(crate) mod host_xattrs;
pub(crate) mod image_sink;
pub(crate) mod image_source;
pub(crate) mod lists;
pub(crate) mod policy;
pub(crate) mod stream_sink;
mod tally;

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use ffs_core::{DeviceNumber, FileFlags, Ino, Timespec, XattrNamespace};

use crate::fail::Failure;
use crate::output;
use crate::progress::Progress;
use crate::signals;

pub(crate) use lists::{AccessList, Lists, Nfs4List};
pub(crate) use policy::{Existing, Policy, left_over};
pub(crate) use tally::Tally;

/// Bytes in one read of a file.
pub(crate) const CHUNK: usize = 512 << 10;
/// Files up to this size travel in one piece.
pub(crate) const SMALL: u64 = 256 << 10;
/// Batches under way between the two threads.
const BATCHES: usize = 8;
/// Events and bytes in a batch.
const BATCH_EVENTS: usize = 128;
const BATCH_BYTES: usize = 1 << 20;

/// What every file has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Meta {
    /// Low 12 bits of the mode.
    pub perm: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Access time.
    pub atime: Timespec,
    /// Modification time.
    pub mtime: Timespec,
    /// Creation time.
    pub birthtime: Timespec,
    /// BSD's file flags.
    pub flags: FileFlags,
    /// Extended attributes.
    pub xattrs: Vec<Xattr>,
    /// Access lists. With one the group bits of the mode are its mask.
    pub lists: Lists,
    /// Inode number, where the source is in the image that is copied to.
    pub source: Option<Ino>,
}

/// An extended attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Xattr {
    /// Name space.
    pub namespace: XattrNamespace,
    /// Name without it.
    pub name: Vec<u8>,
    /// Value.
    pub value: Vec<u8>,
}

/// What kind of file, with what belongs to the kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Directory.
    Directory,
    /// Regular file of this many bytes.
    File(u64),
    /// Symbolic link with its text.
    Symlink(Vec<u8>),
    /// Named pipe.
    Fifo,
    /// Socket.
    Socket,
    /// Character device.
    Char(DeviceNumber),
    /// Block device.
    Block(DeviceNumber),
    /// Another name of the file at this path, told before.
    Link(Vec<u8>),
}

/// A file to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Path relative to the sink, without leading or double slashes; empty for the sink itself.
    pub path: Vec<u8>,
    /// Kind.
    pub kind: Kind,
    /// The rest.
    pub meta: Meta,
    /// Number of a file that may be told again under other names.
    pub identity: Option<u64>,
}

/// What a source says.
#[derive(Debug)]
pub(crate) enum Event {
    /// A file. After a regular one [`Event::Data`] and [`Event::End`] follow, and what they leave out
    /// are holes.
    Entry(Box<Entry>),
    /// A regular file with all of its data.
    Whole(Box<Entry>, Piece),
    /// Data of the file that began, at an offset.
    Data(u64, Piece),
    /// Where data of the file that began lies, begin and end, told instead of the data.
    Extent(u64, u64),
    /// It is complete.
    End,
    /// It cannot be read further, for a reason that was sent as [`Event::Failed`].
    Broken,
    /// Something could not be read: what and why.
    Failed(String),
    /// Something of the file at this path cannot be told: a line for the end, counted.
    Lost(Loss, Vec<u8>),
}

/// A piece of a batch's data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    start: usize,
    len: usize,
}

/// Events and the data they speak of. Batches go round: their memory is not freed and asked for again.
struct Batch {
    events: Vec<Event>,
    data: Vec<u8>,
    /// Bytes of `data` that events speak of.
    used: usize,
}

impl Batch {
    fn new() -> Batch {
        Batch { events: Vec::with_capacity(BATCH_EVENTS), data: vec![0; BATCH_BYTES], used: 0 }
    }
}

/// What can get lost between systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Loss {
    /// Owner or group.
    Owner,
    /// A device file.
    Device,
    /// An extended attribute.
    Xattr,
    /// An attribute of the host's name space `security`.
    Security,
    /// One of the host's name space `system`.
    System,
    /// An access list.
    AccessList,
    /// A default access list.
    DefaultList,
    /// An NFSv4 access list.
    Nfs4List,
    /// An access list that its volume does not heed.
    IdleList,
    /// Flags.
    Flags,
    /// A socket.
    Socket,
}

/// Nobody listens any more: the source ends.
#[derive(Debug)]
pub(crate) struct Deaf;

/// What saying something results in.
pub(crate) type Said = Result<(), Deaf>;

/// How a source speaks.
pub(crate) struct Emit {
    batch: Batch,
    to: SyncSender<Batch>,
    /// Where batches come back.
    back: Receiver<Batch>,
    deaf: bool,
}

impl Emit {
    fn new(to: SyncSender<Batch>, back: Receiver<Batch>) -> Emit {
        Emit { batch: Batch::new(), to, back, deaf: false }
    }

    /// Says `event`.
    pub(crate) fn send(&mut self, event: Event) -> Said {
        self.batch.events.push(event);
        if self.batch.events.len() >= BATCH_EVENTS {
            self.flush();
        }
        if self.deaf { Err(Deaf) } else { Ok(()) }
    }

    /// Says that this file comes now.
    pub(crate) fn entry(&mut self, entry: Entry) -> Said {
        self.send(Event::Entry(Box::new(entry)))
    }

    /// Room for `len` bytes, [`CHUNK`] at most, that [`Emit::data`] or [`Emit::whole`] then speaks of.
    pub(crate) fn room(&mut self, len: usize) -> &mut [u8] {
        if self.batch.data.len() - self.batch.used < len {
            self.flush();
        }
        &mut self.batch.data[self.batch.used..][..len]
    }

    /// Says that the first `len` bytes in the room lie at `offset` of the file that began.
    pub(crate) fn data(&mut self, offset: u64, len: usize) -> Said {
        let piece = self.take(len);
        self.send(Event::Data(offset, piece))
    }

    /// Says that the file `entry` consists of the first `len` bytes in the room.
    pub(crate) fn whole(&mut self, entry: Entry, len: usize) -> Said {
        let piece = self.take(len);
        self.send(Event::Whole(Box::new(entry), piece))
    }

    /// Says that `what` could not be read.
    pub(crate) fn failed(&mut self, what: &[u8], why: impl std::fmt::Display) -> Said {
        self.send(Event::Failed(format!("{}: {why}", crate::fail::show(what))))
    }

    fn take(&mut self, len: usize) -> Piece {
        let start = self.batch.used;
        self.batch.used += len;
        Piece { start, len }
    }

    fn flush(&mut self) {
        let next = self.back.try_recv().unwrap_or_else(|_| Batch::new());
        let batch = std::mem::replace(&mut self.batch, next);
        self.deaf = self.to.send(batch).is_err();
    }
}

/// Why a sink could not do something.
#[derive(Debug)]
pub(crate) enum SinkError {
    /// This file is left out: why.
    Skip(String),
    /// This file is left out, as the user wants.
    Leave,
    /// Nothing more can be copied.
    Stop(Failure),
}

impl SinkError {
    /// The same with what is left of the file.
    fn with(self, left: &str) -> SinkError {
        match self {
            SinkError::Skip(why) => SinkError::Skip(format!("{why}; {left}")),
            SinkError::Stop(failure) if !failure.text.is_empty() => {
                SinkError::Stop(failure.hint(left))
            }
            other => other,
        }
    }
}

/// Shorthand.
pub(crate) type SinkResult = Result<(), SinkError>;

/// What makes files.
pub(crate) trait Sink {
    /// Makes the file; a regular one stays open for data.
    fn entry(&mut self, entry: &Entry, tally: &mut Tally) -> SinkResult;
    /// Writes to the open file.
    fn data(&mut self, offset: u64, bytes: &[u8]) -> SinkResult;
    /// Hears where data of the open file lies, from sources that do not tell the data.
    fn extent(&mut self, start: u64, end: u64) {
        let _ = (start, end);
    }
    /// Finishes the open file.
    fn end(&mut self, tally: &mut Tally) -> SinkResult;
    /// Removes the open file; of one that was there before, says what is left.
    fn abandon(&mut self) -> Option<String>;
    /// Does what must come last: times of directories.
    fn finish(&mut self, tally: &mut Tally) -> SinkResult;
}

/// Copies what `source` tells into `sink`. Errors of single files are printed and counted.
pub(crate) fn run<S>(
    source: S,
    sink: &mut dyn Sink,
    adjust: &mut dyn FnMut(&mut Entry),
    progress: &mut Progress,
) -> Result<Tally, Failure>
where
    S: FnOnce(&mut Emit) -> Said + Send,
{
    let (to, from) = sync_channel(BATCHES);
    let (return_to, back) = sync_channel(BATCHES);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut emit = Emit::new(to, back);
            // A listener that went away has said why.
            if source(&mut emit).is_ok() {
                emit.flush();
            }
        });
        let mut work = Work {
            sink,
            adjust,
            progress,
            tally: Tally::default(),
            current: None,
            before: 0,
            closed: None,
        };
        let result = work.all(from, &return_to);
        if result.is_err() {
            work.give_up();
        }
        result.map(|()| work.tally)
    })
}

struct Work<'a> {
    sink: &'a mut dyn Sink,
    adjust: &'a mut dyn FnMut(&mut Entry),
    progress: &'a mut Progress,
    tally: Tally,
    /// Path and size of the file that is open in the sink.
    current: Option<(Vec<u8>, u64)>,
    /// Bytes that were copied before that.
    before: u64,
    /// A directory that could not be made: what is in it is passed over.
    closed: Option<Vec<u8>>,
}

impl Work<'_> {
    fn all(&mut self, from: Receiver<Batch>, back: &SyncSender<Batch>) -> Result<(), Failure> {
        for mut batch in from {
            signals::check()?;
            let Batch { events, data, used } = &mut batch;
            for event in events.drain(..) {
                self.event(event, data)?;
            }
            *used = 0;
            // The source may have ended, or have enough batches.
            let _ = back.try_send(batch);
        }
        let finished = self.sink.finish(&mut self.tally);
        self.settle(finished, b"", None)
    }

    fn event(&mut self, event: Event, data: &[u8]) -> Result<(), Failure> {
        match event {
            Event::Entry(entry) => self.entry(*entry),
            Event::Whole(entry, piece) => {
                self.entry(*entry)?;
                if piece.len > 0 {
                    self.data(0, piece, data)?;
                }
                self.end()
            }
            Event::Data(offset, piece) => self.data(offset, piece, data),
            Event::Extent(start, end) => {
                self.sink.extent(start, end);
                Ok(())
            }
            Event::End => self.end(),
            Event::Broken => {
                self.give_up();
                Ok(())
            }
            Event::Failed(text) => {
                self.tally.failed += 1;
                output::error(text);
                Ok(())
            }
            Event::Lost(loss, path) => {
                self.tally.lose(loss);
                self.tally.name_losses(&path);
                Ok(())
            }
        }
    }

    fn entry(&mut self, mut entry: Entry) -> Result<(), Failure> {
        if self.closed.as_deref().is_some_and(|dir| is_below(&entry.path, dir)) {
            return Ok(());
        }
        (self.adjust)(&mut entry);
        let result = self.sink.entry(&entry, &mut self.tally);
        let made = result.is_ok();
        let size = if let Kind::File(size) = entry.kind { Some(size) } else { None };
        self.settle(result, &entry.path, size)?;
        if made {
            self.tally.count(&entry.kind);
            self.current = size.map(|size| (entry.path, size));
            self.before = self.tally.bytes;
        } else if entry.kind == Kind::Directory {
            self.closed = Some(entry.path);
        }
        Ok(())
    }

    /// Gives up the file that is open, if one is.
    fn give_up(&mut self) {
        let Some((path, _)) = self.current.take() else { return };
        self.uncount();
        if let Some(left) = self.sink.abandon() {
            output::error(format!("{}: {left}", crate::fail::show(&path)));
        }
    }

    /// The file that was open is not copied after all.
    fn uncount(&mut self) {
        self.tally.files -= 1;
        self.tally.bytes = self.before;
    }

    /// Writes to the file that is open, if one is; gives it up if that fails.
    fn data(&mut self, offset: u64, piece: Piece, data: &[u8]) -> Result<(), Failure> {
        if self.current.is_none() {
            return Ok(());
        }
        let Err(error) = self.sink.data(offset, &data[piece.start..][..piece.len]) else {
            self.progress.add(piece.len as u64);
            self.tally.bytes += piece.len as u64;
            return Ok(());
        };
        self.uncount();
        let (path, size) = self.current.take().unwrap_or_default();
        let error = match self.sink.abandon() {
            Some(left) => error.with(&left),
            None => error,
        };
        self.settle(Err(error), &path, Some(size))
    }

    fn end(&mut self) -> Result<(), Failure> {
        let Some((path, size)) = self.current.take() else { return Ok(()) };
        let result = self.sink.end(&mut self.tally);
        if result.is_err() {
            self.uncount();
        }
        self.settle(result, &path, Some(size))
    }

    /// What becomes of the copy after what was done for the file at `path`, of `size` if it has data.
    fn settle(
        &mut self,
        result: SinkResult,
        path: &[u8],
        size: Option<u64>,
    ) -> Result<(), Failure> {
        self.tally.name_losses(path);
        match result {
            Ok(()) | Err(SinkError::Leave) => Ok(()),
            Err(SinkError::Skip(why)) => {
                self.tally.failed += 1;
                output::error(format!("{}: {why}", crate::fail::show(path)));
                Ok(())
            }
            // An empty text: there is nobody to read it.
            Err(SinkError::Stop(failure)) if path.is_empty() || failure.text.is_empty() => {
                Err(failure)
            }
            Err(SinkError::Stop(failure)) => {
                let size = size.map(|size| format!(" ({})", output::human(size)));
                Err(failure.at(crate::fail::show(path) + &size.unwrap_or_default()))
            }
        }
    }
}

/// Whether `path` is in the directory `dir`, at any depth.
fn is_below(path: &[u8], dir: &[u8]) -> bool {
    dir.is_empty() || path.strip_prefix(dir).is_some_and(|rest| rest.starts_with(b"/"))
}

/// Splits a relative path into its directory and its last name.
pub(crate) fn split_last(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&byte| byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// A name in the directory of `name` that is nobody's, for what will be renamed.
pub(crate) fn temporary_name(number: u64) -> Vec<u8> {
    format!(".ffs-copy.{}.{number}", std::process::id()).into_bytes()
}
