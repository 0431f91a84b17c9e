//! The content of a write, which the file system takes from its front.
//!
//! **Invariants.**
//! 1. A part that was taken or put is not taken again. After an error of [`WriteSource::put`] what
//!    was written is taken, and no more.
//! 2. [`WriteSource::left`] bytes can be taken, unless the medium of the source fails. After that
//!    every call returns an error.

use crate::error::Error;
use ffs_device::{DeviceError, HostRange, Operation};
use std::io;
use std::sync::Arc;

/// The content of a write ([`crate::Ffs::write_from`]). A slice of bytes is one.
pub trait WriteSource {
    /// Bytes that were not taken yet.
    fn left(&self) -> usize;

    /// Fills `to` with the next bytes.
    ///
    /// # Errors
    /// The next bytes cannot be read, or are fewer.
    fn take(&mut self, to: &mut [u8]) -> io::Result<()>;

    /// Writes the next bytes to `range`, as many as it has, in the way with the fewest copies.
    ///
    /// # Errors
    /// The next bytes cannot be read, are fewer, or cannot be written. Those that were written are
    /// taken.
    fn put(&mut self, range: HostRange<'_>) -> io::Result<()>;
}

impl WriteSource for &[u8] {
    fn left(&self) -> usize {
        self.len()
    }

    fn take(&mut self, to: &mut [u8]) -> io::Result<()> {
        let (next, rest) = self.split_at_checked(to.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        to.copy_from_slice(next);
        *self = rest;
        Ok(())
    }

    fn put(&mut self, range: HostRange<'_>) -> io::Result<()> {
        range.write(self)
    }
}

/// The error of a source from which `length` bytes could not be taken.
pub(crate) fn unreadable(length: usize, source: io::Error) -> Error {
    let name = Arc::from("the content of a write");
    DeviceError::at(&name, Operation::Read, 0, length as u64, source).into()
}
