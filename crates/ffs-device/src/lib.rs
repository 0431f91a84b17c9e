//! Block devices: places that hold bytes at offsets and may forget what was not flushed.
//!
//! **Purpose.** Everything above this room reads and writes through [`BlockDevice`]; everything
//! that differs between a file, a disk, memory, a partition, a recorded or a failing device is
//! behind it. This room knows no file systems: where one must be recognised (several partitions on
//! one disk) the caller passes a function.
//!
//! **Invariants.**
//! 1. A transfer is whole or an error; nothing is transferred beyond `len_bytes()`, which never
//!    changes.
//! 2. A successful `write_at` is visible to every later `read_at` of the same device.
//! 3. With [`Durability::OnFlush`] a completed write survives a power cut only if a `flush` that
//!    began after the completion has succeeded. A flush that failed is never followed by one that
//!    succeeds.
//! 4. Devices compose: wrappers ([`partition::Window`], [`record::Recorder`],
//!    [`fault::FaultInjector`], [`power::PowerSwitch`]) keep 1-3.
//!
//! **Locking.** Devices are shared freely between threads. Two transfers that overlap and run at
//! the same time are not ordered by the device: callers order them.

pub mod clock;
mod error;
pub mod fault;
pub mod file;
pub mod lock;
pub mod mem;
pub mod open;
pub mod partition;
pub mod power;
pub mod record;

use std::io::{IoSlice, IoSliceMut};
use std::sync::Arc;

pub use clock::{Clock, ManualClock, Rng, SplitMix64, SystemClock, Timestamp};
pub use error::{DeviceError, Operation, host_words};
pub use fault::{Fault, FaultInjector, Rule};
pub use file::FileDevice;
pub use lock::LockWait;
pub use mem::MemDevice;
pub use open::{OpenError, OpenOptions, Opened, open_image};
pub use power::PowerSwitch;
pub use record::Recorder;

/// When a completed write survives a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// A write that returned is durable; `flush` has nothing left to do.
    OnCompletion,
    /// A write that returned may still sit in a volatile cache until the next `flush`.
    OnFlush,
}

/// A device of fixed size, read and written at byte offsets.
///
/// Offsets and lengths need not be multiples of the sector size, but only whole sectors can be
/// hoped to reach the medium untorn.
pub trait BlockDevice: Send + Sync {
    /// Size in bytes.
    fn len_bytes(&self) -> u64;

    /// Bytes in the unit that the medium writes at once: 512 or 4096.
    fn sector_size(&self) -> u32;

    /// When a completed write is durable.
    fn durability(&self) -> Durability;

    /// Whether every write, and every discard, is refused with `EROFS`.
    fn is_read_only(&self) -> bool;

    /// Fills the whole of `buf` from byte `offset`.
    ///
    /// # Errors
    /// `EINVAL` if the range passes the end of the device, or what the medium reports; `buf` is
    /// then unspecified.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError>;

    /// Fills all of `bufs`, one after the other, from one range that begins at byte `offset`.
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
    /// `EINVAL` past the end, `EROFS` on a read-only device, or what the medium reports; any part
    /// of the range, in whole sectors, may then have been written.
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

    /// As [`BlockDevice::write_vectored_at`]; on return the bytes are durable. A device that can
    /// wait for one transfer does so; others flush.
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
    /// What the medium reports. The failure is final: which writes were lost is unknown, so all
    /// later flushes of the device fail too.
    fn flush(&self) -> Result<(), DeviceError>;

    /// Says that the range holds nothing of value: later reads may return zeros or the old bytes. A
    /// hint: a device that cannot use it succeeds.
    ///
    /// # Errors
    /// `EINVAL` past the end, `EROFS` on a read-only device, or what the medium reports.
    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        let _ = (offset, len);
        Ok(())
    }
}

/// Properties that a device has from the one in its field `inner`.
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
            fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
                (**self).discard(offset, len)
            }
        }
    };
}

forward_block_device!(&T);
forward_block_device!(Arc<T>);
forward_block_device!(Box<T>);
