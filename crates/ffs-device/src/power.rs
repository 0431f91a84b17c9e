//! A disk with a volatile write cache, and with a switch for its power.
//!
//! **Purpose.** Shows what a power cut leaves on a real image: of what was written and not flushed
//! some sectors have reached the medium and others have not.
//!
//! **Invariants.**
//! 1. The inner device holds all that a flush covered. What was written later is in the cache, or
//!    has been taken to the inner device since because the cache was full.
//! 2. Once the power is off every transfer fails, and the inner device changes no more.
//! 3. The same transfers and the same seed leave the same bytes.
//!
//! **Locking.** One lock, held during transfers: they happen one after the other.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clock::{Rng, SplitMix64};
use crate::error::{check_range, check_writable};
use crate::{BlockDevice, DeviceError, Durability, Operation};

/// Bytes in one write to the inner device.
const MOST: usize = 1 << 20;

/// What a power cut did to the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cut {
    /// Sectors of the cache that reached the medium.
    pub kept: u64,
    /// Sectors that did not: there the medium has what it had before.
    pub lost: u64,
}

/// Wraps a device into one that forgets.
#[derive(Debug)]
pub struct PowerSwitch<D> {
    inner: D,
    name: Arc<str>,
    /// Sectors the cache has room for.
    room: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Sectors that were written and not flushed, by number.
    cache: BTreeMap<u64, Box<[u8]>>,
    rng: SplitMix64,
    /// Writes until the power fails.
    left: Option<u64>,
    cut: Option<Cut>,
}

impl<D: BlockDevice> PowerSwitch<D> {
    /// A disk whose medium is `inner`, with a cache of `cache_bytes`; what a cut keeps follows from
    /// `seed`.
    pub fn new(inner: D, cache_bytes: usize, seed: u64) -> Self {
        let room = (cache_bytes / inner.sector_size() as usize).max(1);
        let state =
            State { cache: BTreeMap::new(), rng: SplitMix64::new(seed), left: None, cut: None };
        Self { inner, name: Arc::from("disk"), room, state: Mutex::new(state) }
    }

    /// The power fails with the `writes`th write from now on, 1 being the next.
    pub fn cut_at(&self, writes: u64) {
        self.state().left = Some(writes);
    }

    /// Switches the power off, unless it is. What became of the cache.
    ///
    /// # Errors
    /// The inner device's.
    pub fn cut(&self) -> Result<Cut, DeviceError> {
        let mut state = self.state();
        self.switch_off(&mut state)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn switch_off(&self, state: &mut State) -> Result<Cut, DeviceError> {
        if let Some(cut) = state.cut {
            return Ok(cut);
        }
        let mut cut = Cut::default();
        let mut cache = std::mem::take(&mut state.cache);
        cache.retain(|_, _| {
            let keep = state.rng.below(2) == 1;
            *if keep { &mut cut.kept } else { &mut cut.lost } += 1;
            keep
        });
        state.cut = Some(cut);
        self.settle(cache)?;
        Ok(cut)
    }

    fn powered(&self, state: &State, operation: Operation) -> Result<(), DeviceError> {
        match state.cut {
            None => Ok(()),
            Some(_) => {
                let source = io::Error::other("the power is off");
                Err(DeviceError::new(&self.name, operation, source))
            }
        }
    }

    /// Writes sectors to the inner device, neighbours together.
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

    /// The parts of `len` bytes at `offset` by sector: its number, where in it, where in the bytes.
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

    /// The sector `number` as the medium has it; the last one may be short.
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
        if state.cache.len() > self.room {
            // As a disk does that sweeps over its medium: the lower half, in one go.
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
    fn a_cut_keeps_what_was_flushed_and_some_sectors_of_the_rest() {
        let (mut kept, mut lost) = (0, 0);
        for seed in 0..20 {
            let (medium, disk) = disk(1 << 20, seed);
            disk.write_at(0, &[1; 8 * 512]).unwrap();
            disk.flush().unwrap();
            disk.write_at(100, &[2; 16 * 512]).unwrap();
            assert_eq!((byte(&disk, 99), byte(&disk, 100), byte(&medium, 100)), (1, 2, 1));
            let cut = disk.cut().unwrap();
            assert_eq!(cut.kept + cut.lost, 17, "16 sectors across 17");
            assert_eq!(disk.cut().unwrap(), cut);
            assert_eq!(byte(&medium, 99), 1, "flushed");
            let new = (0..17).filter(|n| byte(&medium, n * 512 + 100) == 2).count();
            // The last sector was written up to its byte 100.
            let last = u64::from(byte(&medium, 16 * 512 + 99) == 2);
            assert_eq!(new as u64 + last, cut.kept, "seed {seed}");
            (kept, lost) = (kept + cut.kept, lost + cut.lost);
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
        disk.cut_at(3);
        assert!(disk.write_at(0, &[1]).is_ok());
        assert!(disk.write_at(512, &[1]).is_ok());
        assert!(disk.write_at(1024, &[1]).is_err());
        assert!(disk.flush().is_err());
        let cut = disk.cut().unwrap();
        assert_eq!(cut.kept + cut.lost, 3);
    }
}
