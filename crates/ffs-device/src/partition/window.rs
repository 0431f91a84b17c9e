//! A partition as a device.

use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;

use super::Partition;
use crate::error::{check_range, total_len};
use crate::{BlockDevice, DeviceError, Durability, HostRange, Operation};

/// The bytes `start..start + len` of another device.
#[derive(Debug)]
pub struct Window<D> {
    inner: D,
    name: Arc<str>,
    start: u64,
    len: u64,
}

impl<D: BlockDevice> Window<D> {
    /// The `len` bytes of `inner` from byte `start` on, with `name` for messages.
    ///
    /// # Errors
    /// `EINVAL` if the range is not within `inner`.
    pub fn new(inner: D, start: u64, len: u64, name: &str) -> Result<Self, DeviceError> {
        let name = Arc::from(name);
        check_range(&name, inner.len_bytes(), Operation::Open, start, len)?;
        Ok(Self { inner, name, start, len })
    }

    /// The part of `inner` that `partition` occupies; `disk` is the name of `inner` for messages.
    ///
    /// # Errors
    /// As [`Window::new`].
    pub fn of(inner: D, partition: &Partition, disk: &str) -> Result<Self, DeviceError> {
        Self::new(inner, partition.start, partition.len, &format!("{disk}@{}", partition.index))
    }

    /// First byte of the window on the inner device.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The offset on the inner device, after a check that the range is within the window.
    fn within(&self, operation: Operation, offset: u64, len: u64) -> Result<u64, DeviceError> {
        check_range(&self.name, self.len, operation, offset, len)?;
        Ok(self.start + offset)
    }
}

impl<D: BlockDevice> BlockDevice for Window<D> {
    fn len_bytes(&self) -> u64 {
        self.len
    }

    crate::as_inner!(sector_size -> u32, durability -> Durability, is_read_only -> bool);

    fn host_range(&self, offset: u64, length: u64) -> Option<HostRange<'_>> {
        let at = self.within(Operation::Read, offset, length).ok()?;
        self.inner.host_range(at, length)
    }

    fn write_in_place(
        &self,
        offset: u64,
        length: u64,
        put: &mut dyn FnMut(HostRange<'_>) -> io::Result<()>,
    ) -> Option<Result<(), DeviceError>> {
        match self.within(Operation::Write, offset, length) {
            Ok(at) => self.inner.write_in_place(at, length, put),
            Err(e) => Some(Err(e)),
        }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let at = self.within(Operation::Read, offset, buf.len() as u64)?;
        self.inner.read_at(at, buf)
    }

    fn read_vectored_at(
        &self,
        offset: u64,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Result<(), DeviceError> {
        let len = total_len(bufs.iter().map(|buf| buf.len()));
        let at = self.within(Operation::Read, offset, len)?;
        self.inner.read_vectored_at(at, bufs)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        let at = self.within(Operation::Write, offset, buf.len() as u64)?;
        self.inner.write_at(at, buf)
    }

    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<(), DeviceError> {
        let len = total_len(bufs.iter().map(|buf| buf.len()));
        let at = self.within(Operation::Write, offset, len)?;
        self.inner.write_vectored_at(at, bufs)
    }

    fn write_durable_vectored_at(
        &self,
        offset: u64,
        bufs: &[IoSlice<'_>],
    ) -> Result<(), DeviceError> {
        let len = total_len(bufs.iter().map(|buf| buf.len()));
        let at = self.within(Operation::Write, offset, len)?;
        self.inner.write_durable_vectored_at(at, bufs)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.inner.flush()
    }

    fn is_hole(&self, offset: u64, len: u64) -> bool {
        self.within(Operation::Read, offset, len).is_ok_and(|at| self.inner.is_hole(at, len))
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        let at = self.within(Operation::Discard, offset, len)?;
        self.inner.discard(at, len)
    }
}
