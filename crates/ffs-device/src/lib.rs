//! Block devices: bytes at offsets, of which a loss of power may drop writes that were not flushed.
//!
//! **Purpose.** The other crates read and write through [`BlockDevice`]. Files, disks, memory,
//! partitions, recorders and fault injectors implement it. The crate also locks images, and finds
//! the partitions of a disk. It does not depend on a file system: to recognise one among several
//! partitions, the caller passes a function.
//!
//! ```
//! use ffs_device::record::Recorder;
//! use ffs_device::{BlockDevice, MemDevice};
//!
//! let device = Recorder::new(MemDevice::new(1 << 20));
//! device.write_at(4096, b"superblock")?;
//! device.flush()?;
//!
//! let mut bytes = [0; 10];
//! device.read_at(4096, &mut bytes)?;
//! assert_eq!(&bytes, b"superblock");
//! assert_eq!(device.counters().writes, 1);
//! # Ok::<(), ffs_device::DeviceError>(())
//! ```
//!
//! **Invariants.**
//! 1. A transfer is complete or an error. No transfer exceeds `len_bytes()`, which never changes.
//! 2. A successful `write_at` is visible to every later `read_at` of the same device.
//! 3. With [`Durability::OnFlush`] a completed write survives a loss of power only if a `flush`
//!    that began after the completion has succeeded. After a flush has failed, no later flush
//!    succeeds.
//! 4. Devices compose: wrappers ([`partition::Window`], [`record::Recorder`],
//!    [`fault::FaultInjector`], [`power::PowerSwitch`]) preserve 1-3.
//!
//! **Locking.** Threads may share devices. The device does not order two transfers that overlap
//! and run at the same time; callers must.

pub mod clock;
pub mod error;
pub mod fault;
pub mod file;
pub mod flush;
pub mod lock;
pub mod mem;
pub mod partition;
pub mod power;
pub mod process;
pub mod record;

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

pub use clock::{Clock, ManualClock, Rng, SplitMix64, SystemClock, Timestamp};
pub use error::{DeviceError, Operation, host_words, shell_word};
pub use fault::{Fault, FaultInjector, Rule};
pub use file::FileDevice;
pub use flush::FailedFlush;
pub use lock::LockWait;
pub use mem::MemDevice;
pub use power::PowerSwitch;
pub use record::Recorder;

/// When a completed write survives a loss of power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// A write that returned is durable; `flush` does nothing.
    OnCompletion,
    /// A write that returned may be in a volatile cache until the next `flush`.
    OnFlush,
}

/// A range of a file of the host.
#[derive(Debug, Clone, Copy)]
pub struct HostRange<'a> {
    /// The file, open for reading, or for reading and writing.
    pub file: BorrowedFd<'a>,
    /// The first byte of the range in the file.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl HostRange<'_> {
    /// Writes the first bytes of `bytes`, as many as the range has, to the range, and removes those
    /// that were written from `bytes`.
    ///
    /// # Errors
    /// The system's, and `EINVAL` if `bytes` is shorter than the range: nothing was written.
    pub fn write(&self, bytes: &mut &[u8]) -> io::Result<()> {
        let length = usize::try_from(self.length).unwrap_or(usize::MAX);
        let mut left = bytes.get(..length).ok_or(rustix::io::Errno::INVAL)?;
        let mut at = self.offset;
        while !left.is_empty() {
            match rustix::io::retry_on_intr(|| rustix::io::pwrite(self.file, left, at))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => {
                    left = left.get(n..).unwrap_or(&[]);
                    *bytes = bytes.get(n..).unwrap_or(&[]);
                    at = at.saturating_add(n as u64);
                }
            }
        }
        Ok(())
    }
}

/// A device of fixed size, read and written at byte offsets.
///
/// Offsets and lengths need not be multiples of the sector size. Only writes of whole sectors can
/// be atomic.
pub trait BlockDevice: Send + Sync {
    /// Size, bytes.
    fn len_bytes(&self) -> u64;

    /// Size of the unit that the medium writes at once, bytes: 512 or 4096.
    fn sector_size(&self) -> u32;

    /// When a completed write is durable.
    fn durability(&self) -> Durability;

    /// Whether every write and every discard fails with `EROFS`.
    fn is_read_only(&self) -> bool;

    /// Where `length` bytes from byte `offset` are in a file of the host, so that the system can
    /// move them without a copy. `None` if they are in no such file, or not as they are, or if the
    /// range passes the end of the device.
    fn host_range(&self, _offset: u64, _length: u64) -> Option<HostRange<'_>> {
        None
    }

    /// Lets `put` write `length` bytes at byte `offset`, to the range of
    /// [`BlockDevice::host_range`] and perhaps without a copy. `None`, without a call of `put`, if
    /// the device has no such range.
    ///
    /// # Errors
    /// As [`BlockDevice::write_at`], and the error of `put`.
    fn write_in_place(
        &self,
        _offset: u64,
        _length: u64,
        _put: &mut dyn FnMut(HostRange<'_>) -> io::Result<()>,
    ) -> Option<Result<(), DeviceError>> {
        None
    }

    /// Reads from byte `offset` until `buf` is full.
    ///
    /// # Errors
    /// `EINVAL` if the range passes the end of the device, or the medium's error; the content of
    /// `buf` is then unspecified.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError>;

    /// Reads into all of `bufs`, one after the other, from one range that begins at byte `offset`.
    ///
    /// # Errors
    /// As [`BlockDevice::read_at`].
    fn read_vectored_at(
        &self,
        offset: u64,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Result<(), DeviceError> {
        let mut at = offset;
        for buf in bufs {
            self.read_at(at, buf)?;
            at = at.saturating_add(buf.len() as u64);
        }
        Ok(())
    }

    /// Writes the whole of `buf` at byte `offset`.
    ///
    /// # Errors
    /// `EINVAL` past the end, `EROFS` on a read-only device, or the medium's error; any sectors of
    /// the range may then have been written.
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError>;

    /// Writes all of `bufs`, one after the other, to one range that begins at byte `offset`.
    ///
    /// # Errors
    /// As [`BlockDevice::write_at`].
    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<(), DeviceError> {
        let mut at = offset;
        for buf in bufs {
            self.write_at(at, buf)?;
            at = at.saturating_add(buf.len() as u64);
        }
        Ok(())
    }

    /// As [`BlockDevice::write_vectored_at`], but the bytes are durable on return. A device that
    /// can wait for a single transfer does so; others flush.
    ///
    /// # Errors
    /// As [`BlockDevice::write_vectored_at`] and [`BlockDevice::flush`].
    fn write_durable_vectored_at(
        &self,
        offset: u64,
        bufs: &[IoSlice<'_>],
    ) -> Result<(), DeviceError> {
        match bufs {
            [one] => self.write_at(offset, one)?,
            many => self.write_vectored_at(offset, many)?,
        }
        if self.durability() == Durability::OnFlush { self.flush() } else { Ok(()) }
    }

    /// Makes every write that completed before this call durable.
    ///
    /// # Errors
    /// The medium's error. The failure is final: it is unknown which writes were lost, so all later
    /// flushes of the device fail too.
    fn flush(&self) -> Result<(), DeviceError>;

    /// Whether a write may still be on its way to the medium when it has returned, so that the
    /// user of a buffer has to wait ([`BlockDevice::wait_for_writes`]) before changing it.
    fn delays_writes(&self) -> bool {
        false
    }

    /// Waits until no write of the range is on its way to the medium.
    fn wait_for_writes(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Whether the range is a hole of a sparse file: it reads as zeros and takes no space. `false`
    /// if that is not known.
    fn is_hole(&self, offset: u64, len: u64) -> bool {
        let _ = (offset, len);
        false
    }

    /// Declares the content of the range unused: later reads may return zeros or the old bytes. A
    /// device without support for discards succeeds.
    ///
    /// # Errors
    /// `EINVAL` past the end, `EROFS` on a read-only device, or the medium's error.
    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        let _ = (offset, len);
        Ok(())
    }
}

/// Forwards properties of a device to the one in its field `inner`.
macro_rules! as_inner {
    ($($property:ident -> $type:ty),*) => {
        $(fn $property(&self) -> $type {
            self.inner.$property()
        })*
    };
}
pub(crate) use as_inner;

macro_rules! forward_block_device {
    ($pointer:ty) => {
        impl<T: ?Sized + BlockDevice> BlockDevice for $pointer {
            fn len_bytes(&self) -> u64 {
                (**self).len_bytes()
            }
            fn sector_size(&self) -> u32 {
                (**self).sector_size()
            }
            fn durability(&self) -> Durability {
                (**self).durability()
            }
            fn is_read_only(&self) -> bool {
                (**self).is_read_only()
            }
            fn delays_writes(&self) -> bool {
                (**self).delays_writes()
            }
            fn wait_for_writes(&self, offset: u64, len: u64) {
                (**self).wait_for_writes(offset, len);
            }
            fn host_range(&self, offset: u64, length: u64) -> Option<HostRange<'_>> {
                (**self).host_range(offset, length)
            }
            fn write_in_place(
                &self,
                offset: u64,
                length: u64,
                put: &mut dyn FnMut(HostRange<'_>) -> io::Result<()>,
            ) -> Option<Result<(), DeviceError>> {
                (**self).write_in_place(offset, length, put)
            }
            fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
                (**self).read_at(offset, buf)
            }
            fn read_vectored_at(
                &self,
                offset: u64,
                bufs: &mut [IoSliceMut<'_>],
            ) -> Result<(), DeviceError> {
                (**self).read_vectored_at(offset, bufs)
            }
            fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
                (**self).write_at(offset, buf)
            }
            fn write_vectored_at(
                &self,
                offset: u64,
                bufs: &[IoSlice<'_>],
            ) -> Result<(), DeviceError> {
                (**self).write_vectored_at(offset, bufs)
            }
            fn write_durable_vectored_at(
                &self,
                offset: u64,
                bufs: &[IoSlice<'_>],
            ) -> Result<(), DeviceError> {
                (**self).write_durable_vectored_at(offset, bufs)
            }
            fn flush(&self) -> Result<(), DeviceError> {
                (**self).flush()
            }
            fn is_hole(&self, offset: u64, len: u64) -> bool {
                (**self).is_hole(offset, len)
            }
            fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
                (**self).discard(offset, len)
            }
        }
    };
}

forward_block_device!(&T);
forward_block_device!(Arc<T>);
forward_block_device!(Box<T>);
