//! A device that shows changes on top of a base and can drop them again.
//!
//! **Purpose.** Crash states differ from a common base by a few sectors. The device holds the base
//! as flat bytes and one set of changes at a time. Dropping the changes costs time in proportion to
//! the number of changed sectors.
//!
//! # Invariants
//! 1. Every sector that may differ from the base is in the list `touched`, once.
//!
//! **Locking.** One lock guards everything. It is held while bytes are copied or read.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ffs_device::{BlockDevice, DeviceError, Durability, MemDevice};
use foldhash::quality::FixedState;

use super::history::SECTOR;

/// A device that shows changes on top of a base.
#[derive(Debug)]
pub(crate) struct OverlayDevice {
    inner: Mutex<Inner>,
    origin: Arc<Vec<u8>>,
    len: u64,
    durability: Durability,
}

#[derive(Debug)]
struct Inner {
    base: Vec<u8>,
    now: Vec<u8>,
    touched: Vec<u32>,
    is_touched: Vec<bool>,
    /// Ranges of the base that may differ from `origin`.
    committed: Vec<Range<usize>>,
}

/// Sectors that differ from a base, with their bytes.
pub(crate) type Changes = Vec<(u32, [u8; SECTOR])>;

/// A hash of the sector number and its bytes.
#[must_use]
pub(crate) fn sector_hash(sector: u32, bytes: &[u8]) -> u64 {
    FixedState::with_seed(u64::from(sector)).hash_one(bytes)
}

fn place(sector: u32) -> Range<usize> {
    let from = sector as usize * SECTOR;
    from..from + SECTOR
}

impl Inner {
    fn touch(&mut self, offset: usize, len: usize) {
        for sector in offset / SECTOR..(offset + len).div_ceil(SECTOR) {
            if let Some(touched) = self.is_touched.get_mut(sector).filter(|touched| !**touched) {
                *touched = true;
                // The device is far smaller than 2 TiB.
                self.touched.push(sector as u32);
            }
        }
    }

    fn reset(&mut self) {
        for sector in self.touched.drain(..) {
            self.now[place(sector)].copy_from_slice(&self.base[place(sector)]);
            self.is_touched[sector as usize] = false;
        }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        // The device has checked the range.
        let from = offset as usize;
        self.touch(from, bytes.len());
        self.now[from..from + bytes.len()].copy_from_slice(bytes);
    }

    fn differing(&self) -> impl Iterator<Item = u32> {
        let differs = |sector: &u32| self.now[place(*sector)] != self.base[place(*sector)];
        self.touched.iter().copied().filter(differs)
    }
}

impl OverlayDevice {
    /// A device whose base is `origin`, whole sectors.
    #[must_use]
    pub(crate) fn new(origin: Arc<Vec<u8>>, durability: Durability) -> OverlayDevice {
        let base = origin.to_vec();
        debug_assert!(base.len().is_multiple_of(SECTOR));
        let sectors = base.len() / SECTOR;
        let len = base.len() as u64;
        let inner = Inner {
            now: base.clone(),
            base,
            touched: Vec::new(),
            is_touched: vec![false; sectors],
            committed: Vec::new(),
        };
        OverlayDevice { inner: Mutex::new(inner), origin, len, durability }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The image that [`OverlayDevice::new`] got.
    #[must_use]
    pub(crate) fn origin(&self) -> &Arc<Vec<u8>> {
        &self.origin
    }

    /// Drops all changes and restores the base to the original image.
    pub(crate) fn rewind(&self) {
        let mut inner = self.inner();
        inner.reset();
        for range in std::mem::take(&mut inner.committed) {
            let Inner { base, now, .. } = &mut *inner;
            base[range.clone()].copy_from_slice(&self.origin[range.clone()]);
            now[range.clone()].copy_from_slice(&self.origin[range]);
        }
    }

    /// Drops all changes.
    pub(crate) fn reset(&self) {
        self.inner().reset();
    }

    /// Writes whole sectors from byte `offset` on; ignores what does not fit.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) {
        if offset.saturating_add(bytes.len() as u64) <= self.len {
            self.inner().write(offset, bytes);
        }
    }

    /// Writes the sectors of `changes`.
    pub(crate) fn apply(&self, changes: &Changes) {
        let mut inner = self.inner();
        for (sector, bytes) in changes {
            inner.write(u64::from(*sector) * SECTOR as u64, bytes);
        }
    }

    /// Makes `bytes` at `offset` part of the base and drops all changes.
    pub(crate) fn commit(&self, offset: u64, bytes: &[u8]) {
        if offset.saturating_add(bytes.len() as u64) > self.len {
            return;
        }
        let mut inner = self.inner();
        inner.reset();
        let range = offset as usize..offset as usize + bytes.len();
        inner.base[range.clone()].copy_from_slice(bytes);
        inner.now[range.clone()].copy_from_slice(bytes);
        inner.committed.push(range);
    }

    /// The sectors that differ from the base.
    #[must_use]
    pub(crate) fn changes(&self) -> Changes {
        let inner = self.inner();
        let mut changes: Changes = Vec::new();
        for sector in inner.differing() {
            let mut bytes = [0; SECTOR];
            bytes.copy_from_slice(&inner.now[place(sector)]);
            changes.push((sector, bytes));
        }
        changes
    }

    /// A hash of the content. Two contents on one base have the same hash practically only if they
    /// are equal.
    #[must_use]
    pub(crate) fn fingerprint(&self) -> u64 {
        let inner = self.inner();
        inner
            .differing()
            .fold(0, |sum, sector| sum ^ sector_hash(sector, &inner.now[place(sector)]))
    }

    /// The first byte at which the content differs from the base with `changes` on it.
    #[must_use]
    pub(crate) fn first_difference(&self, changes: &Changes) -> Option<u64> {
        let inner = self.inner();
        let wanted: BTreeMap<u32, &[u8]> =
            changes.iter().map(|(sector, bytes)| (*sector, &bytes[..])).collect();
        let suspects: BTreeSet<u32> = inner.touched.iter().chain(wanted.keys()).copied().collect();
        suspects.into_iter().find_map(|sector| {
            let wanted = wanted.get(&sector).copied().unwrap_or(&inner.base[place(sector)]);
            let now = &inner.now[place(sector)];
            let at = now.iter().zip(wanted).position(|(now, wanted)| now != wanted)?;
            Some(u64::from(sector) * SECTOR as u64 + at as u64)
        })
    }

    /// Calls `f` with the bytes of the device.
    pub(crate) fn with_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(&self.inner().now)
    }

    /// Calls `f` with the bytes of the base.
    pub(crate) fn with_base_bytes<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(&self.inner().base)
    }

    /// Checks a range and returns the error that a device returns.
    fn check(&self, offset: u64, len: usize, write: bool) -> Result<(), DeviceError> {
        if offset.saturating_add(len as u64) <= self.len {
            return Ok(());
        }
        // Crate `ffs-device` words the error.
        let device = MemDevice::new(self.len);
        if write { device.write_at(self.len, &[0]) } else { device.read_at(self.len, &mut [0]) }
    }
}

impl BlockDevice for OverlayDevice {
    fn len_bytes(&self) -> u64 {
        self.len
    }

    fn sector_size(&self) -> u32 {
        SECTOR as u32
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.check(offset, buf.len(), false)?;
        let from = offset as usize;
        buf.copy_from_slice(&self.inner().now[from..from + buf.len()]);
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.check(offset, buf.len(), true)?;
        self.inner().write(offset, buf);
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_painted_can_be_wiped_off() {
        let overlay = OverlayDevice::new(Arc::new(vec![1; 4096]), Durability::OnFlush);
        overlay.write(512, &[2; 512]);
        overlay.write_at(1000, &[3; 100]).unwrap();
        overlay.write(2048, &[1; 512]);
        let print = overlay.fingerprint();
        let changes = overlay.changes();
        assert_eq!(changes.len(), 2, "equal sectors do not count");
        overlay.with_bytes(|bytes| {
            assert_eq!((bytes[511], bytes[512], bytes[1050], bytes[1100]), (1, 2, 3, 1))
        });
        overlay.reset();
        overlay.with_bytes(|bytes| assert!(bytes.iter().all(|&byte| byte == 1)));
        assert_eq!(overlay.fingerprint(), 0);
        assert_eq!(overlay.first_difference(&changes), Some(512));
        overlay.apply(&changes);
        assert_eq!((overlay.fingerprint(), overlay.first_difference(&changes)), (print, None));
        overlay.commit(0, &[9; 512]);
        overlay.with_bytes(|bytes| assert_eq!((bytes[0], bytes[512]), (9, 1)));
        overlay.rewind();
        overlay.with_bytes(|bytes| assert!(bytes.iter().all(|&byte| byte == 1)));
        assert!(overlay.read_at(4090, &mut [0; 7]).is_err());
        assert!(overlay.write_at(u64::MAX, &[0; 7]).is_err());
    }
}
