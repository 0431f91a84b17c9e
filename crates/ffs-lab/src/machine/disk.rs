//! The simulated disk as a block device.
//!
//! # Invariants
//! 1. A read returns the last write at once; only time is modelled. Loss of power is simulated by
//!    [`crate::crash`], not here.
//! 2. The device has no clock. It reports each request to the [`Machine`], which advances its
//!    clock.

use std::io::IoSlice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ffs_device::{BlockDevice, DeviceError, Durability, Operation};

use super::Machine;
use super::geometry::{Extent, SECTOR};
use super::sparse_store::SparseStore;

/// `EINVAL`.
const INVALID: i32 = 22;

/// A disk, with or without a machine whose time it takes.
#[derive(Debug)]
pub(crate) struct SimDisk {
    name: Arc<str>,
    len: u64,
    store: Mutex<SparseStore>,
    machine: Option<Arc<Machine>>,
    /// The first sector of the store on the machine's disk.
    first: u64,
}

/// Whether a writer waits for its write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    Yes,
    No,
}

impl SimDisk {
    /// `store` as the part of the machine's disk that begins at byte `offset`.
    pub(crate) fn new(store: SparseStore, machine: Arc<Machine>, offset: u64) -> SimDisk {
        SimDisk { machine: Some(machine), first: offset / SECTOR, ..SimDisk::timeless(store) }
    }

    /// `store` as a disk that takes no time.
    pub(crate) fn timeless(store: SparseStore) -> SimDisk {
        let (len, store) = (store.len(), Mutex::new(store));
        SimDisk { name: Arc::from("simulated disk"), len, store, machine: None, first: 0 }
    }

    /// A copy of the content.
    pub(crate) fn snapshot(&self) -> SparseStore {
        self.store().clone()
    }

    fn store(&self) -> MutexGuard<'_, SparseStore> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, operation: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => {
                let why = std::io::Error::from_raw_os_error(INVALID);
                Err(DeviceError::at(&self.name, operation, offset, len, why))
            }
        }
    }

    /// The sectors of the machine's disk that have these bytes.
    pub(super) fn extent(&self, offset: u64, len: u64) -> Extent {
        let lba = offset / SECTOR;
        let sectors = (offset + len).div_ceil(SECTOR) - lba;
        Extent { lba: self.first + lba, sectors }
    }

    /// Writes without a request to the machine. Returns the number of bytes.
    pub(super) fn put_untimed(
        &self,
        offset: u64,
        bufs: &[IoSlice<'_>],
    ) -> Result<u64, DeviceError> {
        let len: u64 = bufs.iter().map(|buf| buf.len() as u64).sum();
        self.check(Operation::Write, offset, len)?;
        let mut store = self.store();
        let mut at = offset;
        for buf in bufs {
            store.write(at, buf);
            at += buf.len() as u64;
        }
        Ok(len)
    }

    /// Reads without a request to the machine.
    pub(super) fn read_untimed(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check(Operation::Read, offset, buf.len() as u64)?;
        self.store().read(offset, buf);
        Ok(())
    }

    /// Writes, and waits for the end of the write or not.
    pub(super) fn put(
        &self,
        offset: u64,
        bufs: &[IoSlice<'_>],
        wait: Wait,
    ) -> Result<(), DeviceError> {
        let len = self.put_untimed(offset, bufs)?;
        if let Some(machine) = self.machine.as_ref().filter(|_| len > 0) {
            machine.write(self.extent(offset, len), wait);
        }
        Ok(())
    }
}

impl BlockDevice for SimDisk {
    fn len_bytes(&self) -> u64 {
        self.len
    }

    fn sector_size(&self) -> u32 {
        SECTOR as u32
    }

    fn durability(&self) -> Durability {
        if self.machine.is_some() { Durability::OnFlush } else { Durability::OnCompletion }
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn delays_writes(&self) -> bool {
        self.machine.is_some()
    }

    fn wait_for_writes(&self, offset: u64, len: u64) {
        if let Some(machine) = &self.machine {
            machine.wait_for_writes(self.extent(offset, len));
        }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let len = buf.len() as u64;
        self.check(Operation::Read, offset, len)?;
        if let Some(machine) = self.machine.as_ref().filter(|_| len > 0) {
            machine.read(self.extent(offset, len));
        }
        self.store().read(offset, buf);
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.put(offset, &[IoSlice::new(buf)], Wait::No)
    }

    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<(), DeviceError> {
        self.put(offset, bufs, Wait::No)
    }

    fn write_durable_vectored_at(
        &self,
        offset: u64,
        bufs: &[IoSlice<'_>],
    ) -> Result<(), DeviceError> {
        self.put(offset, bufs, Wait::Yes)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        if let Some(machine) = &self.machine {
            machine.flush();
        }
        Ok(())
    }
}
