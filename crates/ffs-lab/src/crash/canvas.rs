//! A device whose content can be laid over a base and wiped off again.
//!
//! **Purpose.** Thousands of crash states a second differ from a common base by a few sectors. A canvas
//! is the base, as flat bytes, and one state at a time painted onto it; going back costs what the
//! state, and whoever wrote to the device since, has changed.
//!
//! # Invariants
//! 1. Every sector that may differ from the base is in the list of touched ones, once.
//!
//! **Locking.** One lock around everything, held for the copy or the look.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ffs_device::{BlockDevice, DeviceError, Durability, MemDevice};
use foldhash::quality::FixedState;

use super::tag::SECTOR;

/// See the module.
#[derive(Debug)]
pub struct Canvas {
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
    /// Ranges of the base that may differ from the origin.
    settled: Vec<Range<usize>>,
}

/// Sectors that differ from a base, with their bytes.
pub type Overlay = Vec<(u32, [u8; SECTOR])>;

/// A number for these bytes in that sector.
#[must_use]
pub fn sector_hash(sector: u32, bytes: &[u8]) -> u64 {
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
                // A canvas is far below 2 TiB.
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

impl Canvas {
    /// A canvas on `origin`, whole sectors.
    #[must_use]
    pub fn new(origin: Arc<Vec<u8>>, durability: Durability) -> Canvas {
        let base = origin.to_vec();
        debug_assert!(base.len().is_multiple_of(SECTOR));
        let sectors = base.len() / SECTOR;
        let len = base.len() as u64;
        let inner = Inner {
            now: base.clone(),
            base,
            touched: Vec::new(),
            is_touched: vec![false; sectors],
            settled: Vec::new(),
        };
        Canvas { inner: Mutex::new(inner), origin, len, durability }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it was made on.
    #[must_use]
    pub fn origin(&self) -> &Arc<Vec<u8>> {
        &self.origin
    }

    /// Wipes everything off, and makes the base what it was in the beginning.
    pub fn rewind(&self) {
        let mut inner = self.inner();
        inner.reset();
        for range in std::mem::take(&mut inner.settled) {
            let Inner { base, now, .. } = &mut *inner;
            base[range.clone()].copy_from_slice(&self.origin[range.clone()]);
            now[range.clone()].copy_from_slice(&self.origin[range]);
        }
    }

    /// Wipes everything off.
    pub fn reset(&self) {
        self.inner().reset();
    }

    /// Paints whole sectors from byte `offset` on; what does not fit is left out.
    pub fn paint(&self, offset: u64, bytes: &[u8]) {
        if offset.saturating_add(bytes.len() as u64) <= self.len {
            self.inner().write(offset, bytes);
        }
    }

    /// Paints an overlay.
    pub fn lay(&self, overlay: &Overlay) {
        let mut inner = self.inner();
        for (sector, bytes) in overlay {
            inner.write(u64::from(*sector) * SECTOR as u64, bytes);
        }
    }

    /// Makes `bytes` at `offset` part of the base, under whatever is painted.
    pub fn settle(&self, offset: u64, bytes: &[u8]) {
        if offset.saturating_add(bytes.len() as u64) > self.len {
            return;
        }
        let mut inner = self.inner();
        inner.reset();
        let range = offset as usize..offset as usize + bytes.len();
        inner.base[range.clone()].copy_from_slice(bytes);
        inner.now[range.clone()].copy_from_slice(bytes);
        inner.settled.push(range);
    }

    /// What differs from the base.
    #[must_use]
    pub fn overlay(&self) -> Overlay {
        let inner = self.inner();
        let mut overlay: Overlay = Vec::new();
        for sector in inner.differing() {
            let mut bytes = [0; SECTOR];
            bytes.copy_from_slice(&inner.now[place(sector)]);
            overlay.push((sector, bytes));
        }
        overlay
    }

    /// A number that two contents over one base share if, and practically only if, they are the same.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let inner = self.inner();
        inner
            .differing()
            .fold(0, |sum, sector| sum ^ sector_hash(sector, &inner.now[place(sector)]))
    }

    /// The first byte at which the content is not the base with `overlay` on it.
    #[must_use]
    pub fn differs(&self, overlay: &Overlay) -> Option<u64> {
        let inner = self.inner();
        let wanted: BTreeMap<u32, &[u8]> =
            overlay.iter().map(|(sector, bytes)| (*sector, &bytes[..])).collect();
        let suspects: BTreeSet<u32> = inner.touched.iter().chain(wanted.keys()).copied().collect();
        suspects.into_iter().find_map(|sector| {
            let wanted = wanted.get(&sector).copied().unwrap_or(&inner.base[place(sector)]);
            let now = &inner.now[place(sector)];
            let at = now.iter().zip(wanted).position(|(now, wanted)| now != wanted)?;
            Some(u64::from(sector) * SECTOR as u64 + at as u64)
        })
    }

    /// Has `f` look at the bytes.
    pub fn look<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(&self.inner().now)
    }

    /// Has `f` look at the bytes of the base.
    pub fn look_at_base<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(&self.inner().base)
    }

    /// The device as it would refuse a range.
    fn check(&self, offset: u64, len: usize, write: bool) -> Result<(), DeviceError> {
        if offset.saturating_add(len as u64) <= self.len {
            return Ok(());
        }
        // The words of an error are the device room's.
        let device = MemDevice::new(self.len);
        if write { device.write_at(self.len, &[0]) } else { device.read_at(self.len, &mut [0]) }
    }
}

impl BlockDevice for Canvas {
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
        let canvas = Canvas::new(Arc::new(vec![1; 4096]), Durability::OnFlush);
        canvas.paint(512, &[2; 512]);
        canvas.write_at(1000, &[3; 100]).unwrap();
        canvas.paint(2048, &[1; 512]);
        let print = canvas.fingerprint();
        let overlay = canvas.overlay();
        assert_eq!(overlay.len(), 2, "equal sectors do not count");
        canvas.look(|bytes| {
            assert_eq!((bytes[511], bytes[512], bytes[1050], bytes[1100]), (1, 2, 3, 1))
        });
        canvas.reset();
        canvas.look(|bytes| assert!(bytes.iter().all(|&byte| byte == 1)));
        assert_eq!(canvas.fingerprint(), 0);
        assert_eq!(canvas.differs(&overlay), Some(512));
        canvas.lay(&overlay);
        assert_eq!((canvas.fingerprint(), canvas.differs(&overlay)), (print, None));
        canvas.settle(0, &[9; 512]);
        canvas.look(|bytes| assert_eq!((bytes[0], bytes[512]), (9, 1)));
        canvas.rewind();
        canvas.look(|bytes| assert!(bytes.iter().all(|&byte| byte == 1)));
        assert!(canvas.read_at(4090, &mut [0; 7]).is_err());
        assert!(canvas.write_at(u64::MAX, &[0; 7]).is_err());
    }
}
