//! Content that stays in the kernel: splice(2) moves it between the image and the device.
//!
//! **Purpose.** A read through the worker's buffer copies the content twice: from the page cache of
//! the image, and to that of the mount. With a pipe of page references the first copy is saved. Of
//! a write, the pipe has references to the writer's pages, and one copy leads to the image instead
//! of three: to the worker, to a buffer of the file system, to the image.
//!
//! **Invariants.**
//! 1. A pipe is empty between requests. One in which a transfer failed is closed, not used again.
//! 2. The pipe never blocks: a reply that does not fit is not begun, and no request is received
//!    with a pipe that may be too small for it.
//! 3. After [`Splice::send`] the request has its reply, or the caller sends one.
//! 4. What a transfer wrote is no longer in the pipe, and no more. Content that could not be read
//!    has the same error for every later call.
//! 5. A worker without a usable pipe copies. A request that was lost with a pipe is reported to the
//!    caller ([`ReceiveError::Lost`]): the kernel sends no request twice.

use super::request::WRITE_START;
use super::{HEADER, MAX_IO, MAX_WRITE, op};
use ffs_core::WriteSource;
use ffs_device::HostRange;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};

/// The pipe of a worker.
pub(crate) enum SplicePipe {
    /// None yet.
    Closed,
    Open(Ends),
    /// The system refused one, or a transfer: the worker copies.
    Unusable,
}

pub(crate) struct Ends {
    reader: OwnedFd,
    writer: OwnedFd,
    /// Slots, of a page each. A range can begin and end within one.
    slots: u64,
    /// Bytes of the content of a WRITE in the pipe.
    content: usize,
    /// The first of this content: read from the pipe, and not written.
    held: Vec<u8>,
    /// The error number of content that could not be read.
    failed: Option<i32>,
}

/// Bytes of a slot.
fn page() -> u64 {
    rustix::param::page_size() as u64
}

impl Ends {
    fn new() -> rustix::io::Result<Ends> {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        // Only CAP_SYS_RESOURCE allows more than /proc/sys/fs/pipe-max-size, usually 1 MiB.
        for size in [2 * MAX_IO, MAX_IO] {
            if rustix::pipe::fcntl_setpipe_size(&writer, size).is_ok() {
                break;
            }
        }
        let size = rustix::pipe::fcntl_getpipe_size(&writer)?;
        let slots = size as u64 / page();
        Ok(Ends { reader, writer, slots, content: 0, held: Vec::new(), failed: None })
    }

    /// Whether a header and these ranges fit.
    fn holds(&self, ranges: &[HostRange<'_>]) -> bool {
        let page = page();
        let slots = |range: &HostRange<'_>| (range.offset % page + range.length).div_ceil(page);
        // The header has a slot of its own.
        ranges.iter().map(slots).sum::<u64>() < self.slots
    }

    /// Whether every request fits: its header, and content that begins and ends within a page.
    fn holds_requests(&self) -> bool {
        (MAX_WRITE as u64).div_ceil(page()) + 2 <= self.slots
    }

    /// Receives a request into the pipe, and into `buf` all of it but the content of a large WRITE.
    /// Returns the bytes in `buf`.
    fn receive(&mut self, device: BorrowedFd<'_>, buf: &mut [u8]) -> Result<usize, ReceiveError> {
        let flags = SpliceFlags::empty();
        let length = rustix::pipe::splice(device, None, &self.writer, None, buf.len(), flags)
            .map_err(|e| match e {
                // The kernel took the request from its queue before it found no space in the pipe
                // (EIO) or no reader of it (EPIPE).
                Errno::IO | Errno::PIPE => ReceiveError::Lost(None),
                e => ReceiveError::Device(e),
            })?;
        let large = WRITE_START as u64 + ffs_core::Ffs::LEAST_IN_PLACE;
        let start = if length as u64 >= large { WRITE_START } else { length };
        let mut done = 0;
        if self.read(buf.get_mut(..start).unwrap_or(&mut []), &mut done).is_err() {
            return Err(ReceiveError::Lost(unique(buf.get(..done))));
        }
        let opcode = buf.get(4..8).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes);
        let rest = length - start;
        if opcode == op::WRITE && rest as u64 >= ffs_core::Ffs::LEAST_IN_PLACE {
            (self.content, self.failed) = (rest, None);
            return Ok(start);
        }
        match self.read(buf.get_mut(start..length).unwrap_or(&mut []), &mut 0) {
            Ok(()) => Ok(length),
            Err(_) => Err(ReceiveError::Lost(unique(buf.get(..start)))),
        }
    }

    /// Fills `to` from the pipe. Sets `done` to the bytes that were read.
    fn read(&self, to: &mut [u8], done: &mut usize) -> rustix::io::Result<()> {
        let mut at = 0;
        while let Some(rest) = to.get_mut(at..).filter(|rest| !rest.is_empty()) {
            match rustix::io::retry_on_intr(|| rustix::io::read(&self.reader, &mut *rest))? {
                0 => return Err(Errno::IO),
                n => at += n,
            }
            *done = at;
        }
        Ok(())
    }

    /// Moves content from the pipe to `range`.
    fn move_to(&mut self, range: HostRange<'_>) -> std::io::Result<()> {
        let (mut at, mut left) = (range.offset, range.length as usize);
        if !self.held.is_empty() {
            return self.copy_to(range, at, left);
        }
        while left > 0 {
            let (to, flags) = (range.file, SpliceFlags::empty());
            match rustix::pipe::splice(&self.reader, None, to, Some(&mut at), left, flags) {
                Err(Errno::INTR) => {}
                // The file system of the image has no splice(2).
                Err(Errno::INVAL | Errno::OPNOTSUPP) => return self.copy_to(range, at, left),
                moved => match moved? {
                    0 => return Err(Errno::IO.into()),
                    n => {
                        left -= n.min(left);
                        self.content -= n.min(self.content);
                    }
                },
            }
        }
        Ok(())
    }

    /// Copies the last `left` bytes of `range` from the pipe, to byte `at` of the file.
    fn copy_to(&mut self, range: HostRange<'_>, at: u64, left: usize) -> std::io::Result<()> {
        let mut bytes = vec![0; left];
        self.take(&mut bytes)?;
        let mut rest = &bytes[..];
        let written = HostRange { offset: at, length: left as u64, ..range }.write(&mut rest);
        self.content += rest.len();
        self.held.splice(..0, rest.iter().copied());
        written
    }

    /// Fills `to` with content.
    fn take(&mut self, to: &mut [u8]) -> std::io::Result<()> {
        let held = to.len().min(self.held.len());
        let (first, rest) = to.split_at_mut(held);
        first.iter_mut().zip(self.held.drain(..held)).for_each(|(to, byte)| *to = byte);
        match self.read(rest, &mut 0) {
            Ok(()) => self.content -= to.len().min(self.content),
            Err(e) => self.failed = Some(e.raw_os_error()),
        }
        match self.failed {
            Some(errno) => Err(std::io::Error::from_raw_os_error(errno)),
            None => Ok(()),
        }
    }

    /// Whether `length` bytes of content can be moved.
    fn check_content(&self, length: usize) -> std::io::Result<()> {
        match self.failed {
            Some(errno) => Err(std::io::Error::from_raw_os_error(errno)),
            None if length > self.content => Err(Errno::IO.into()),
            None => Ok(()),
        }
    }

    /// Puts the reply into the pipe.
    fn fill(&self, header: &[u8; HEADER], ranges: &[HostRange<'_>]) -> rustix::io::Result<()> {
        if rustix::io::write(&self.writer, header)? != HEADER {
            return Err(Errno::AGAIN);
        }
        for range in ranges {
            let (mut at, mut left) = (range.offset, range.length as usize);
            while left > 0 {
                // Not to block on a pipe that is full against expectation.
                let flags = SpliceFlags::NONBLOCK;
                let moved = match rustix::pipe::splice(
                    range.file,
                    Some(&mut at),
                    &self.writer,
                    None,
                    left,
                    flags,
                ) {
                    Err(Errno::INTR) => continue,
                    moved => moved?,
                };
                if moved == 0 {
                    return Err(Errno::NODATA);
                }
                left -= moved.min(left);
            }
        }
        Ok(())
    }
}

/// Why no request was received.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReceiveError {
    /// The device gave none.
    Device(Errno),
    /// The pipe failed, and the request is lost. Its id, if that was read.
    Lost(Option<u64>),
}

/// Whether the device returns this error instead of a request without having failed.
pub(super) fn is_no_failure(e: Errno) -> bool {
    // ENOENT: the caller was interrupted before the request was read. ENOMEM: it got the error.
    let again = [Errno::INTR, Errno::AGAIN, Errno::NOENT, Errno::NOMEM];
    let ended = [Errno::NODEV, Errno::CONNABORTED];
    again.contains(&e) || ended.contains(&e)
}

/// The id of the request that begins with `start`.
fn unique(start: Option<&[u8]>) -> Option<u64> {
    start?.get(8..16)?.try_into().ok().map(u64::from_ne_bytes)
}

impl SplicePipe {
    /// The open pipe; `None` if the system refused one.
    fn open(&mut self) -> Option<&mut Ends> {
        if matches!(self, SplicePipe::Closed) {
            *self = Ends::new().map_or(SplicePipe::Unusable, SplicePipe::Open);
        }
        match self {
            SplicePipe::Open(ends) => Some(ends),
            SplicePipe::Closed | SplicePipe::Unusable => None,
        }
    }

    /// Receives a request: into `buf`, but for the content of a large WRITE ([`Splice::content`]).
    /// Without a usable pipe it is read into `buf` alone.
    pub(super) fn receive(
        &mut self,
        device: BorrowedFd<'_>,
        buf: &mut [u8],
    ) -> Result<usize, ReceiveError> {
        if let Some(ends) = self.open().filter(|ends| ends.holds_requests()) {
            match ends.receive(device, buf) {
                // What a read returns, too. It has no other meaning with a pipe.
                Err(ReceiveError::Device(e)) if is_no_failure(e) => {
                    return Err(ReceiveError::Device(e));
                }
                // The pipe failed, or the device: the read below shows which.
                Err(ReceiveError::Device(_)) => *self = SplicePipe::Unusable,
                Err(lost) => {
                    *self = SplicePipe::Unusable;
                    return Err(lost);
                }
                Ok(n) => return Ok(n),
            }
        }
        rustix::io::read(device, buf).map_err(ReceiveError::Device)
    }

    /// Bytes of content that the last received request has in the pipe.
    pub(crate) fn content(&self) -> usize {
        match self {
            SplicePipe::Open(ends) => ends.content,
            SplicePipe::Closed | SplicePipe::Unusable => 0,
        }
    }

    /// Drops content that was not used.
    pub(crate) fn clear(&mut self) {
        if let SplicePipe::Open(ends) = self
            && (ends.content > 0 || ends.failed.is_some())
        {
            *self = SplicePipe::Closed;
        }
    }
}

/// The content of a WRITE, in a pipe.
pub(crate) struct PipedContent<'p>(&'p mut Ends);

impl WriteSource for PipedContent<'_> {
    fn left(&self) -> usize {
        self.0.content
    }

    fn take(&mut self, to: &mut [u8]) -> std::io::Result<()> {
        self.0.check_content(to.len())?;
        self.0.take(to)
    }

    fn put(&mut self, range: HostRange<'_>) -> std::io::Result<()> {
        self.0.check_content(usize::try_from(range.length).unwrap_or(usize::MAX))?;
        self.0.move_to(range)
    }
}

/// What moves the content of one request by splice(2).
pub(crate) struct Splice<'b> {
    /// `/dev/fuse`.
    device: BorrowedFd<'b>,
    pipe: &'b mut SplicePipe,
    unique: u64,
}

impl<'b> Splice<'b> {
    /// For the request `unique` of the FUSE device.
    pub(crate) fn new(device: BorrowedFd<'b>, pipe: &'b mut SplicePipe, unique: u64) -> Self {
        Splice { device, pipe, unique }
    }

    /// The content of a WRITE, if it is in the pipe.
    pub(crate) fn content(&mut self) -> Option<PipedContent<'_>> {
        match self.pipe {
            SplicePipe::Open(ends) if ends.content > 0 || ends.failed.is_some() => {
                Some(PipedContent(ends))
            }
            _ => None,
        }
    }

    /// Sends the content of `ranges` as the reply. Returns `false` if it could not be sent in this
    /// way; the caller then sends a copy. `true` includes a request that was interrupted.
    pub(crate) fn send(&mut self, ranges: &[HostRange<'_>]) -> bool {
        let Some(ends) = self.pipe.open() else { return false };
        if !ends.holds(ranges) {
            return false;
        }
        let content: u64 = ranges.iter().map(|range| range.length).sum();
        let length = HEADER + content as usize;
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(&(length as u32).to_ne_bytes());
        header[8..].copy_from_slice(&self.unique.to_ne_bytes());
        if let Err(e) = ends.fill(&header, ranges) {
            // The copy reports what is wrong with the image.
            *self.pipe = match e {
                // The file system of the image has no splice(2), or the pipe has fewer slots.
                Errno::INVAL | Errno::OPNOTSUPP | Errno::AGAIN => SplicePipe::Unusable,
                _ => SplicePipe::Closed,
            };
            return false;
        }
        let (from, flags) = (&ends.reader, SpliceFlags::empty());
        match rustix::pipe::splice(from, None, self.device, None, length, flags) {
            Ok(_) => true,
            Err(e) => {
                *self.pipe = match e {
                    Errno::INVAL | Errno::OPNOTSUPP => SplicePipe::Unusable,
                    _ => SplicePipe::Closed,
                };
                // The kernel lacked memory or rejected the message, and waits for another. After
                // other errors the request has ended: it was interrupted, its reader got an error,
                // or the mount is no more.
                !matches!(e, Errno::NOMEM | Errno::AGAIN | Errno::INVAL | Errno::OPNOTSUPP)
            }
        }
    }
}

#[cfg(test)]
mod tests;
