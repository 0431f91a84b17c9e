//! Replies whose content stays in the kernel: splice(2) moves it from the image to the device.
//!
//! **Purpose.** A read through the worker's buffer copies the content twice: from the page cache of
//! the image, and to that of the mount. With a pipe of page references the first copy is saved.
//!
//! **Invariants.**
//! 1. A pipe is empty between replies. One in which a transfer failed is closed, not used again.
//! 2. The pipe never blocks: a content that does not fit is not begun.
//! 3. After [`SpliceSender::send`] the request has its reply, or the caller sends one.

use super::HEADER;
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
}

/// Bytes of a slot.
fn page() -> u64 {
    rustix::param::page_size() as u64
}

impl Ends {
    fn new() -> rustix::io::Result<Ends> {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        // Only CAP_SYS_RESOURCE allows more than /proc/sys/fs/pipe-max-size, usually 1 MiB.
        for size in [2 * super::MAX_IO, super::MAX_IO] {
            if rustix::pipe::fcntl_setpipe_size(&writer, size).is_ok() {
                break;
            }
        }
        let size = rustix::pipe::fcntl_getpipe_size(&writer)?;
        Ok(Ends { reader, writer, slots: size as u64 / page() })
    }

    /// Whether a header and these ranges fit.
    fn holds(&self, ranges: &[HostRange<'_>]) -> bool {
        let page = page();
        let slots = |range: &HostRange<'_>| (range.offset % page + range.length).div_ceil(page);
        // The header has a slot of its own.
        ranges.iter().map(slots).sum::<u64>() < self.slots
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

/// What sends the reply to one request by splice(2).
pub(crate) struct SpliceSender<'b> {
    /// `/dev/fuse`.
    device: BorrowedFd<'b>,
    pipe: &'b mut SplicePipe,
    unique: u64,
}

impl<'b> SpliceSender<'b> {
    /// For the request `unique` of the FUSE device.
    pub(crate) fn new(device: BorrowedFd<'b>, pipe: &'b mut SplicePipe, unique: u64) -> Self {
        SpliceSender { device, pipe, unique }
    }

    /// Sends the content of `ranges` as the reply. Returns `false` if it could not be sent in this
    /// way; the caller then sends a copy. `true` includes a request that was interrupted.
    pub(crate) fn send(&mut self, ranges: &[HostRange<'_>]) -> bool {
        if matches!(self.pipe, SplicePipe::Closed) {
            *self.pipe = Ends::new().map_or(SplicePipe::Unusable, SplicePipe::Open);
        }
        let SplicePipe::Open(ends) = &*self.pipe else { return false };
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
    use std::io::{Read, Write};

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
            assert!(SpliceSender::new(writer.as_fd(), &mut pipe, unique).send(&ranges));
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
        assert!(!SpliceSender::new(writer.as_fd(), &mut pipe, 1).send(&[range(4096, 100_000)]));
        // The pipe with a part of the reply is closed: the next reply does not begin with it.
        assert!(matches!(pipe, SplicePipe::Closed));
        assert!(SpliceSender::new(writer.as_fd(), &mut pipe, 2).send(&[range(0, 100)]));
        let mut got = vec![0; HEADER + 100];
        std::fs::File::from(reader).read_exact(&mut got).unwrap();
        assert_eq!(got[8..16], 2u64.to_ne_bytes());
        let huge = [range(0, 1 << 30)];
        assert!(!SpliceSender::new(writer.as_fd(), &mut pipe, 3).send(&huge));
        assert!(matches!(pipe, SplicePipe::Open(_)), "nothing was begun");
    }
}
