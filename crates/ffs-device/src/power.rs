//! A disk with a volatile write cache and a power switch.
//!
//! Shows what a loss of power leaves on a real image: of the sectors that were written and not
//! flushed, some have reached the medium and others have not.
//!
//! **Invariants.**
//! 1. The inner device has all writes before the last flush. Later writes are in the cache, or were
//!    written to the inner device because the cache was full.
//! 2. After the loss of power every transfer fails, and the inner device does not change.
//! 3. The same transfers and the same seed produce the same bytes.
//!
//! **Locking.** One lock, held during transfers: they are serialised.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock::{Rng, SplitMix64};
use crate::error::{check_range, check_writable};
use crate::{BlockDevice, DeviceError, Durability, Operation};

/// Most bytes in one write to the inner device.
const MOST: usize = 1 << 20;

/// The effect of a loss of power on the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PowerLoss {
    /// Sectors of the cache that reached the medium.
    pub kept: u64,
    /// Sectors that did not: the medium has their previous content.
    pub lost: u64,
}

/// Wraps a device and adds a volatile cache.
#[derive(Debug)]
pub struct PowerSwitch<D> {
    inner: D,
    name: Arc<str>,
    /// Capacity of the cache, sectors.
    capacity: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Sectors that were written and not flushed, by number.
    cache: BTreeMap<u64, Box<[u8]>>,
    rng: SplitMix64,
    /// Writes until the loss of power.
    left: Option<u64>,
    loss: Option<PowerLoss>,
}

impl<D: BlockDevice> PowerSwitch<D> {
    /// A disk with the medium `inner` and a cache of `cache_bytes`. `seed` selects the sectors that
    /// survive a loss of power.
    pub fn new(inner: D, cache_bytes: usize, seed: u64) -> Self {
        let capacity = (cache_bytes / inner.sector_size() as usize).max(1);
        let state =
            State { cache: BTreeMap::new(), rng: SplitMix64::new(seed), left: None, loss: None };
        Self { inner, name: Arc::from("disk"), capacity, state: Mutex::new(state) }
    }

    /// Loses power at the `writes`th write from now on; 1 is the next.
    pub fn lose_power_at(&self, writes: u64) {
        self.state().left = Some(writes);
    }

    /// Switches the power off, unless it is off. Returns the effect on the cache.
    ///
    /// # Errors
    /// The inner device's.
    pub fn lose_power(&self) -> Result<PowerLoss, DeviceError> {
        let mut state = self.state();
        self.switch_off(&mut state)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn switch_off(&self, state: &mut State) -> Result<PowerLoss, DeviceError> {
        if let Some(loss) = state.loss {
            return Ok(loss);
        }
        let mut loss = PowerLoss::default();
        let mut cache = std::mem::take(&mut state.cache);
        cache.retain(|_, _| {
            let keep = state.rng.below(2) == 1;
            *if keep { &mut loss.kept } else { &mut loss.lost } += 1;
            keep
        });
        state.loss = Some(loss);
        self.settle(cache)?;
        Ok(loss)
    }

    fn powered(&self, state: &State, operation: Operation) -> Result<(), DeviceError> {
        match state.loss {
            None => Ok(()),
            Some(_) => {
                let source = io::Error::other("the power is off");
                Err(DeviceError::new(&self.name, operation, source))
            }
        }
    }

    /// Writes sectors to the inner device, adjacent ones together.
    fn settle(&self, sectors: BTreeMap<u64, Box<[u8]>>) -> Result<(), DeviceError> {
        let size = u64::from(self.sector_size());
        let (mut start, mut run) = (0, Vec::new());
        for (number, bytes) in sectors {
            let at = number * size;
            if at != start + run.len() as u64 || run.len() >= MOST {
                self.settle_run(start, &run)?;
                (start, run) = (at, Vec::new());
            }
            run.extend_from_slice(&bytes);
        }
        self.settle_run(start, &run)
    }

    fn settle_run(&self, start: u64, run: &[u8]) -> Result<(), DeviceError> {
        if run.is_empty() { Ok(()) } else { self.inner.write_at(start, run) }
    }

    /// Splits `len` bytes at `offset` by sector: sector number, offset in it, range of the bytes.
    fn parts(
        &self,
        offset: u64,
        len: usize,
    ) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> + use<D> {
        let size = u64::from(self.sector_size());
        let mut done = 0;
        std::iter::from_fn(move || {
            let at = offset + done as u64;
            let within = (at % size) as usize;
            let take = (size as usize - within).min(len - done);
            let part = (at / size, within, done..done + take);
            done += take;
            (take > 0).then_some(part)
        })
    }

    /// The sector `number` as it is on the medium; the last one may be short.
    fn sector(&self, number: u64) -> Result<Box<[u8]>, DeviceError> {
        let size = u64::from(self.sector_size());
        let at = number * size;
        let len = size.min(self.len_bytes().saturating_sub(at));
        let mut bytes = vec![0; len as usize].into_boxed_slice();
        self.inner.read_at(at, &mut bytes)?;
        Ok(bytes)
    }
}

impl<D: BlockDevice> BlockDevice for PowerSwitch<D> {
    crate::as_inner!(len_bytes -> u64, sector_size -> u32, is_read_only -> bool);

    fn durability(&self) -> Durability {
        Durability::OnFlush
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let state = self.state();
        self.powered(&state, Operation::Read)?;
        self.inner.read_at(offset, buf)?;
        for (number, within, range) in self.parts(offset, buf.len()) {
            if let Some(sector) = state.cache.get(&number) {
                let take = range.len();
                buf[range].copy_from_slice(&sector[within..within + take]);
            }
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        let length = buf.len() as u64;
        check_writable(&self.name, self.is_read_only(), Operation::Write, offset, length)?;
        check_range(&self.name, self.len_bytes(), Operation::Write, offset, length)?;
        let mut state = self.state();
        self.powered(&state, Operation::Write)?;
        for (number, within, range) in self.parts(offset, buf.len()) {
            let mut sector = match state.cache.remove(&number) {
                Some(sector) => sector,
                None => self.sector(number)?,
            };
            sector[within..within + range.len()].copy_from_slice(&buf[range]);
            state.cache.insert(number, sector);
        }
        if let Some(left) = &mut state.left {
            *left = left.saturating_sub(1);
            if *left == 0 {
                self.switch_off(&mut state)?;
                return self.powered(&state, Operation::Write);
            }
        }
        if state.cache.len() > self.capacity {
            // The lower half at once, as a disk does that sweeps over its medium.
            let middle = state.cache.keys().nth(state.cache.len() / 2).copied();
            let upper = middle.map(|number| state.cache.split_off(&number));
            let lower = std::mem::replace(&mut state.cache, upper.unwrap_or_default());
            self.settle(lower)?;
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let mut state = self.state();
        self.powered(&state, Operation::Flush)?;
        let cache = std::mem::take(&mut state.cache);
        self.settle(cache)?;
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemDevice;

    fn disk(cache: usize, seed: u64) -> (Arc<MemDevice>, PowerSwitch<Arc<MemDevice>>) {
        let medium = Arc::new(MemDevice::new(64 * 512));
        (Arc::clone(&medium), PowerSwitch::new(medium, cache, seed))
    }

    fn byte(device: &dyn BlockDevice, at: u64) -> u8 {
        let mut buf = [0];
        device.read_at(at, &mut buf).unwrap();
        buf[0]
    }

    #[test]
    fn a_loss_of_power_keeps_flushed_sectors_and_some_of_the_rest() {
        let (mut kept, mut lost) = (0, 0);
        for seed in 0..20 {
            let (medium, disk) = disk(1 << 20, seed);
            disk.write_at(0, &[1; 8 * 512]).unwrap();
            disk.flush().unwrap();
            disk.write_at(100, &[2; 16 * 512]).unwrap();
            assert_eq!((byte(&disk, 99), byte(&disk, 100), byte(&medium, 100)), (1, 2, 1));
            let loss = disk.lose_power().unwrap();
            assert_eq!(loss.kept + loss.lost, 17, "16 sectors across 17");
            assert_eq!(disk.lose_power().unwrap(), loss);
            assert_eq!(byte(&medium, 99), 1, "flushed");
            let new = (0..17).filter(|n| byte(&medium, n * 512 + 100) == 2).count();
            // The last sector was written up to its byte 100.
            let last = u64::from(byte(&medium, 16 * 512 + 99) == 2);
            assert_eq!(new as u64 + last, loss.kept, "seed {seed}");
            (kept, lost) = (kept + loss.kept, lost + loss.lost);
            assert!(disk.write_at(0, &[3]).is_err());
            assert!(disk.flush().is_err());
            assert!(disk.read_at(0, &mut [0]).unwrap_err().to_string().contains("power"));
        }
        assert!(kept > 100 && lost > 100, "{kept} kept, {lost} lost");
    }

    #[test]
    fn a_full_cache_gives_way_and_nothing_is_forgotten() {
        let (medium, disk) = disk(8 * 512, 1);
        for n in 0..64 {
            disk.write_at((n * 37 % 64) * 512, &[n as u8 + 1; 512]).unwrap();
            assert!(disk.state().cache.len() <= 8);
        }
        for n in 0..64 {
            assert_eq!(byte(&disk, (n * 37 % 64) * 512), n as u8 + 1);
        }
        disk.flush().unwrap();
        assert!((0..64).all(|n| byte(&medium, (n * 37 % 64) * 512) == n as u8 + 1));
    }

    #[test]
    fn the_power_fails_with_the_write_that_was_named() {
        let (_, disk) = disk(1 << 20, 7);
        disk.lose_power_at(3);
        assert!(disk.write_at(0, &[1]).is_ok());
        assert!(disk.write_at(512, &[1]).is_ok());
        assert!(disk.write_at(1024, &[1]).is_err());
        assert!(disk.flush().is_err());
        let loss = disk.lose_power().unwrap();
        assert_eq!(loss.kept + loss.lost, 3);
    }
}
