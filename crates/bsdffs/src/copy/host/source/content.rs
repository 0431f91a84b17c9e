//! The content of files of the host: ranges with data, and pipes.

use std::os::fd::OwnedFd;

use rustix::fs::{OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use super::{HostWalk, Location, Paths, SHRANK, is_sparse};
use crate::copy::emitter::{CopyEnded, Event, READ_SIZE};
use crate::copy::entry::{Entry, EntryKind, EntryMeta};

impl HostWalk<'_> {
    /// Sends what can be read from a pipe or a device as a regular file.
    pub(super) fn stream(
        &mut self,
        at: Location<'_>,
        Paths { target: path, shown }: Paths,
        meta: EntryMeta,
    ) -> Result<(), CopyEnded> {
        let fd = match (Location { follow: true, ..at }).open(OFlags::RDONLY) {
            Ok(fd) => fd,
            Err(error) => return self.emitter.failed(&shown, error),
        };
        self.emitter.entry(Entry { path, kind: EntryKind::File(0), meta, identity: None })?;
        let mut offset = 0;
        loop {
            match rustix::io::read(&fd, self.emitter.buffer(READ_SIZE)) {
                Ok(0) => return self.emitter.send(Event::End),
                Ok(len) => {
                    self.emitter.data(offset, len)?;
                    offset += len as u64;
                }
                Err(Errno::INTR) => {}
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
