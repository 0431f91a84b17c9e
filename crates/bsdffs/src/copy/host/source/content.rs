//! The content of files of the host: ranges with data, and pipes.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use super::{HostWalk, Location, Paths, SHRANK, is_sparse};
use crate::copy::emitter::{CopyEnded, Event, READ_SIZE};
use crate::copy::entry::{Entry, EntryKind, EntryMeta};

/// How long a pipe without data delays the end of a copy that is cancelled.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

impl HostWalk<'_> {
    /// Sends what can be read from a pipe or a device as a regular file.
    pub(super) fn stream(
        &mut self,
        at: Location<'_>,
        Paths { target: path, shown }: Paths,
        meta: EntryMeta,
    ) -> Result<(), CopyEnded> {
        // An open that waits for the writer of a pipe could not be cancelled.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let opened = match at.name.to_bytes() {
            // Opened again, a pipe whose writer has ended would have no end.
            b"/dev/stdin" => rustix::io::dup(rustix::stdio::stdin()),
            _ => (Location { follow: true, ..at }).open(flags),
        };
        let fd = match opened {
            Ok(fd) => fd,
            Err(error) => return self.emitter.failed(&shown, error),
        };
        self.emitter.entry(Entry { path, kind: EntryKind::File(0), meta, identity: None })?;
        let mut offset = 0;
        loop {
            match has_data(&fd) {
                Ok(true) => {}
                Ok(false) => {
                    self.emitter.wait()?;
                    continue;
                }
                Err(error) => {
                    self.emitter.failed(&shown, error)?;
                    return self.emitter.send(Event::Abort);
                }
            }
            match rustix::io::read(&fd, self.emitter.buffer(READ_SIZE)) {
                Ok(0) => return self.emitter.send(Event::End),
                Ok(len) => {
                    self.emitter.data(offset, len)?;
                    offset += len as u64;
                }
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => {
                    self.emitter.failed(&shown, error)?;
                    return self.emitter.send(Event::Abort);
                }
            }
        }
    }

    /// Sends the data of a large or sparse file; the inner error is why it cannot be read.
    pub(super) fn extents(
        &mut self,
        fd: &OwnedFd,
        stat: &Stat,
    ) -> Result<Result<(), String>, CopyEnded> {
        let (size, sparse) = (stat.st_size as u64, is_sparse(stat));
        let mut at = 0;
        while at < size {
            let range = if sparse { next_data(fd, at, size) } else { Ok((at, size)) };
            let (start, end) = match range {
                Ok(range) => range,
                Err(error) => return Ok(Err(error.to_string())),
            };
            if start >= size {
                break;
            }
            if !self.options.data {
                self.emitter.send(Event::Extent(start, end))?;
            } else if let Err(why) = self.range(fd, start, end)? {
                return Ok(Err(why));
            }
            at = end;
        }
        Ok(Ok(()))
    }

    fn range(
        &mut self,
        fd: &OwnedFd,
        start: u64,
        end: u64,
    ) -> Result<Result<(), String>, CopyEnded> {
        let mut at = start;
        while at < end {
            // Reads end at multiples of READ_SIZE, and so at multiples of the block size.
            let len = (end - at).min(READ_SIZE as u64 - at % READ_SIZE as u64);
            match read_full(fd, at, self.emitter.buffer(len as usize)) {
                Ok(got) if got as u64 == len => self.emitter.data(at, got)?,
                Ok(_) => return Ok(Err(SHRANK.to_owned())),
                Err(error) => return Ok(Err(error.to_string())),
            }
            at += len;
        }
        Ok(Ok(()))
    }
}

/// Waits for data or the end of a pipe or device; `false` if neither came within [`PATIENCE`].
fn has_data(fd: &OwnedFd) -> rustix::io::Result<bool> {
    let mut fds = [PollFd::new(fd, PollFlags::IN)];
    match poll(&mut fds, Some(&PATIENCE)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Reads from the offset `at` until `buf` is full or the file ends; returns the bytes read.
pub(super) fn read_full(fd: &OwnedFd, at: u64, buf: &mut [u8]) -> rustix::io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match rustix::io::pread(fd, &mut buf[done..], at + done as u64) {
            Ok(0) => break,
            Ok(len) => done += len,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// The next range with data at or after `at`; `(size, size)` if there is none.
pub(crate) fn next_data(fd: &OwnedFd, at: u64, size: u64) -> rustix::io::Result<(u64, u64)> {
    let start = match rustix::fs::seek(fd, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok((size, size)),
        // The file system has no holes.
        Err(Errno::INVAL | Errno::NOTSUP) => return Ok((at, size)),
        Err(error) => return Err(error),
    };
    let end = rustix::fs::seek(fd, SeekFrom::Hole(start))?;
    Ok((start, end.clamp(start, size.max(start))))
}
