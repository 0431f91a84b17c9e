//! Reading two files side by side.

use std::os::fd::OwnedFd;

use ffs_core::{Error, Ffs, Vnode};
use rustix::io::Errno;

use super::Side;
use crate::copy::{READ_SIZE, next_data};

/// An open regular file.
pub(super) enum Content<'a> {
    Image(&'a Ffs, Vnode),
    Host(OwnedFd),
}

impl Content<'_> {
    /// The first byte at or after `at` that is not in a hole; `size` if there is none.
    fn next_data(&self, at: u64, size: u64) -> Result<u64, String> {
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
    fn read(&self, at: u64, buf: &mut [u8]) -> Result<(), String> {
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

/// Two buffers.
pub(super) struct Buffers(Vec<u8>, Vec<u8>);

impl Buffers {
    pub(super) fn new() -> Buffers {
        Buffers(vec![0; READ_SIZE], vec![0; READ_SIZE])
    }
}

/// The offset of the first byte in which two files of `size` bytes differ. `progress` receives the
/// bytes compared, and returns whether to continue.
pub(super) fn first_difference(
    old: &Content<'_>,
    new: &Content<'_>,
    size: u64,
    buffers: &mut Buffers,
    mut progress: impl FnMut(u64) -> bool,
) -> Result<Option<u64>, (Side, String)> {
    let mut at = 0;
    while at < size {
        let start = old.next_data(at, size).map_err(|why| (Side::Old, why))?;
        at = new.next_data(at, size).map_err(|why| (Side::New, why))?.min(start);
        // Reads end at multiples of READ_SIZE, and so at multiples of the block size.
        let len = (size - at).min(READ_SIZE as u64 - at % READ_SIZE as u64) as usize;
        let (a, b) = (&mut buffers.0[..len], &mut buffers.1[..len]);
        old.read(at, a).map_err(|why| (Side::Old, why))?;
        new.read(at, b).map_err(|why| (Side::New, why))?;
        if a != b {
            let place = a.iter().zip(&*b).position(|(a, b)| a != b).unwrap_or(0);
            return Ok(Some(at + place as u64));
        }
        at += len as u64;
        if !progress(len as u64) {
            break;
        }
    }
    Ok(None)
}
