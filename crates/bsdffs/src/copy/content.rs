//! The content of a file of either tree.

use std::os::fd::OwnedFd;

use ffs_core::{Error, Ffs, Vnode};
use rustix::io::Errno;

use super::host::next_data;

/// An open regular file. Errors are for messages, so they are text.
pub(crate) enum Content<'a> {
    Image(&'a Ffs, Vnode),
    Host(OwnedFd),
}

impl Content<'_> {
    /// Bytes.
    pub(crate) fn size(&self) -> Result<u64, String> {
        match self {
            Content::Image(ffs, file) => Ok(ffs.getattr(file).size),
            Content::Host(fd) => {
                let stat = rustix::fs::fstat(fd).map_err(|error| error.to_string())?;
                Ok(stat.st_size as u64)
            }
        }
    }

    /// The first byte at or after `at` that is not in a hole; `size` if there is none.
    pub(crate) fn next_data(&self, at: u64, size: u64) -> Result<u64, String> {
        match self {
            Content::Image(ffs, file) => match ffs.seek_data(file, at) {
                Ok(start) => Ok(start.min(size)),
                Err(Error::NoData) => Ok(size),
                Err(error) => Err(error.to_string()),
            },
            Content::Host(fd) => match next_data(fd, at, size) {
                Ok((start, _)) => Ok(start.min(size)),
                Err(error) => Err(error.to_string()),
            },
        }
    }

    /// Reads until `buf` is full.
    pub(crate) fn read(&self, at: u64, buf: &mut [u8]) -> Result<(), String> {
        let mut done = 0;
        while done < buf.len() {
            let (place, rest) = (at + done as u64, &mut buf[done..]);
            let len = match self {
                Content::Image(ffs, file) => {
                    ffs.read(file, place, rest).map_err(|error| error.to_string())?
                }
                Content::Host(fd) => match rustix::io::pread(fd, rest, place) {
                    Err(Errno::INTR) => continue,
                    other => other.map_err(|error| error.to_string())?,
                },
            };
            if len == 0 {
                return Err("became shorter while it was read".to_owned());
            }
            done += len;
        }
        Ok(())
    }
}
