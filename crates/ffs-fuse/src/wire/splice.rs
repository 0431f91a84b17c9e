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
            .map_err(ReceiveError::Device)?;
        let lost = |_| ReceiveError::Lost;
        let large = WRITE_START as u64 + ffs_core::Ffs::LEAST_IN_PLACE;
        let start = if length as u64 >= large { WRITE_START } else { length };
        self.read(buf.get_mut(..start).unwrap_or(&mut [])).map_err(lost)?;
        let opcode = buf.get(4..8).and_then(|b| b.try_into().ok()).map_or(0, u32::from_ne_bytes);
        let rest = length - start;
        if opcode == op::WRITE && rest as u64 >= ffs_core::Ffs::LEAST_IN_PLACE {
            (self.content, self.failed) = (rest, None);
            return Ok(start);
        }
        self.read(buf.get_mut(start..length).unwrap_or(&mut [])).map_err(lost)?;
        Ok(length)
    }

    /// Fills `to` from the pipe.
    fn read(&self, to: &mut [u8]) -> rustix::io::Result<()> {
        let mut done = 0;
        while let Some(rest) = to.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match rustix::io::retry_on_intr(|| rustix::io::read(&self.reader, &mut *rest))? {
                0 => return Err(Errno::IO),
                n => done += n,
            }
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
        match self.read(rest) {
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
enum ReceiveError {
    /// The device gave none.
    Device(Errno),
    /// The pipe failed, and with it the request.
    Lost,
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
    pub(super) fn receive(
        &mut self,
        device: BorrowedFd<'_>,
        buf: &mut [u8],
    ) -> rustix::io::Result<usize> {
        let Some(ends) = self.open().filter(|ends| ends.holds_requests()) else {
            return rustix::io::read(device, buf);
        };
        match ends.receive(device, buf) {
            Ok(n) => Ok(n),
            Err(ReceiveError::Device(Errno::INVAL | Errno::OPNOTSUPP)) => {
                *self = SplicePipe::Unusable;
                rustix::io::read(device, buf)
            }
            Err(ReceiveError::Device(e)) => Err(e),
            Err(ReceiveError::Lost) => {
                *self = SplicePipe::Closed;
                // The worker ends with this error.
                Err(Errno::IO)
            }
        }
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
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use rustix::fd::AsFd;
    use std::io::{Read, Seek, Write};

    /// The header and the content arrive. A pipe takes what the device takes.
    #[test]
    fn a_reply_has_its_header_and_its_ranges_in_order() {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..300_000u32).map(|i| (i / 7) as u8).collect();
        file.write_all(&bytes).unwrap();
        let range = |offset, length| HostRange { file: file.as_fd(), offset, length };
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::pipe::fcntl_setpipe_size(&writer, 1 << 20).unwrap();
        let mut pipe = SplicePipe::Closed;
        for unique in [77u64, 78] {
            let ranges = [range(100_001, 65_536), range(5, 20_000)];
            assert!(Splice::new(writer.as_fd(), &mut pipe, unique).send(&ranges));
            let mut got = vec![0; HEADER + 85_536];
            std::fs::File::from(reader.try_clone().unwrap()).read_exact(&mut got).unwrap();
            assert_eq!(got[..4], (got.len() as u32).to_ne_bytes());
            assert_eq!(got[4..8], [0; 4]);
            assert_eq!(got[8..16], unique.to_ne_bytes());
            assert!(got[16..].iter().eq(bytes[100_001..165_537].iter().chain(&bytes[5..20_005])));
        }
    }

    #[test]
    fn a_range_past_the_end_or_too_large_is_left_to_the_copy() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 8192]).unwrap();
        let range = |offset, length| HostRange { file: file.as_fd(), offset, length };
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let mut pipe = SplicePipe::Closed;
        assert!(!Splice::new(writer.as_fd(), &mut pipe, 1).send(&[range(4096, 100_000)]));
        // The pipe with a part of the reply is closed: the next reply does not begin with it.
        assert!(matches!(pipe, SplicePipe::Closed));
        assert!(Splice::new(writer.as_fd(), &mut pipe, 2).send(&[range(0, 100)]));
        let mut got = vec![0; HEADER + 100];
        std::fs::File::from(reader).read_exact(&mut got).unwrap();
        assert_eq!(got[8..16], 2u64.to_ne_bytes());
        let huge = [range(0, 1 << 30)];
        assert!(!Splice::new(writer.as_fd(), &mut pipe, 3).send(&huge));
        assert!(matches!(pipe, SplicePipe::Open(_)), "nothing was begun");
    }

    /// A pipe gives what a device gives, but for the limits of a message.
    fn request(opcode: u32, content: &[u8]) -> Vec<u8> {
        let mut message = vec![0; WRITE_START];
        let length = (WRITE_START + content.len()) as u32;
        message[..4].copy_from_slice(&length.to_ne_bytes());
        message[4..8].copy_from_slice(&opcode.to_ne_bytes());
        message.extend(content);
        message
    }

    /// Sends `message` and receives it. Returns the bytes that were received into the buffer.
    fn receive(pipe: &mut SplicePipe, message: &[u8]) -> Vec<u8> {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::pipe::fcntl_setpipe_size(&writer, 1 << 20).unwrap();
        rustix::io::write(&writer, message).unwrap();
        let mut buf = vec![0xee; MAX_IO + 4096];
        let n = pipe.receive(reader.as_fd(), &mut buf).unwrap();
        buf.truncate(n);
        buf
    }

    #[test]
    fn only_the_content_of_a_large_write_stays_in_the_pipe() {
        let mut pipe = SplicePipe::Closed;
        let content: Vec<u8> = (0..200_000u32).map(|i| (i / 3) as u8).collect();
        for (opcode, content) in
            [(op::LOOKUP, &content[..]), (op::WRITE, &content[..65_535]), (op::READ, &[])]
        {
            let message = request(opcode, content);
            assert!(receive(&mut pipe, &message) == message);
            assert_eq!(pipe.content(), 0);
        }
        let message = request(op::WRITE, &content);
        assert!(receive(&mut pipe, &message) == message[..WRITE_START]);
        assert_eq!(pipe.content(), content.len());
        let device = tempfile::tempfile().unwrap();
        let mut splice = Splice::new(device.as_fd(), &mut pipe, 1);
        let mut piped = splice.content().unwrap();
        let mut first = vec![0; 1000];
        piped.take(&mut first).unwrap();
        assert!(first == content[..1000]);
        let file = tempfile::tempfile().unwrap();
        let range = HostRange { file: file.as_fd(), offset: 4097, length: 150_000 };
        piped.put(range).unwrap();
        assert_eq!(piped.left(), 49_000);
        let mut rest = vec![0; 49_000];
        piped.take(&mut rest).unwrap();
        assert!(rest == content[151_000..]);
        let mut written = Vec::new();
        (&file).seek(std::io::SeekFrom::Start(4097)).unwrap();
        (&file).read_to_end(&mut written).unwrap();
        assert!(written == content[1000..151_000]);
        pipe.clear();
        assert!(matches!(pipe, SplicePipe::Open(_)), "an empty pipe is used again");
    }

    #[test]
    fn content_that_is_not_written_stays() {
        let mut pipe = SplicePipe::Closed;
        let content: Vec<u8> = (0..100_000u32).map(|i| (i / 3) as u8).collect();
        receive(&mut pipe, &request(op::WRITE, &content));
        let device = tempfile::tempfile().unwrap();
        let mut splice = Splice::new(device.as_fd(), &mut pipe, 1);
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let range = HostRange { file: full.as_fd(), offset: 0, length: 70_000 };
        let errno = |e: std::io::Error| e.raw_os_error();
        let mut piped = splice.content().unwrap();
        let error = piped.put(range).map_err(errno);
        assert_eq!((error, piped.left()), (Err(Some(libc::ENOSPC)), content.len()));
        // What was not written can still be taken, in any parts.
        let mut back = vec![0; content.len()];
        let (first, rest) = back.split_at_mut(50_001);
        piped.take(first).unwrap();
        piped.take(rest).unwrap();
        assert!(back == content && piped.left() == 0);
        pipe.clear();
        assert!(matches!(pipe, SplicePipe::Open(_)));
        // In parts: a second refusal keeps the order.
        receive(&mut pipe, &request(op::WRITE, &content));
        let mut splice = Splice::new(device.as_fd(), &mut pipe, 1);
        let mut piped = splice.content().unwrap();
        for length in [70_000, 10_000] {
            let range = HostRange { file: full.as_fd(), offset: 0, length };
            assert!(piped.put(range).is_err());
        }
        piped.take(&mut back).unwrap();
        assert!(back == content);
        // A call for more than the content does not wait.
        receive(&mut pipe, &request(op::WRITE, &[1; 100_000]));
        let mut splice = Splice::new(device.as_fd(), &mut pipe, 2);
        assert!(splice.content().unwrap().take(&mut vec![0; 100_001]).is_err());
        pipe.clear();
        receive(&mut pipe, &request(op::WRITE, &[1; 100_000]));
        pipe.clear();
        assert!(matches!(pipe, SplicePipe::Closed), "content that was not used is dropped");
    }
}
