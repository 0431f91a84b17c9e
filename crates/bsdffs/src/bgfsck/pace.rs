//! Reads with pauses, so that the check leaves the device to others (FreeBSD: `slowio_start`,
//! `slowio_end`).
//!
//! One read in [`TIMED`] is timed. The reader then pauses for [`TIMED`] times the running average
//! of these times. So the device works for the check at most half of the time.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ffs_device::{BlockDevice, DeviceError, Durability};

/// One read in this many is timed.
const TIMED: u32 = 8;
/// The longest pause.
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// How long reads take.
#[derive(Debug, Default)]
struct Pace {
    reads: u32,
    average: Duration,
}

impl Pace {
    /// Whether the next read is to be timed.
    fn next_is_timed(&mut self) -> bool {
        self.reads = self.reads.wrapping_add(1);
        self.reads.is_multiple_of(TIMED)
    }

    /// Notes the time of a read. Returns how long to pause.
    fn note(&mut self, took: Duration) -> Duration {
        self.average = (self.average * (TIMED - 1) + took) / TIMED;
        (self.average * TIMED).min(MAX_PAUSE)
    }
}

/// A device that is read with pauses.
pub(super) struct PacedDevice<D> {
    inner: D,
    pace: Mutex<Pace>,
}

impl<D> PacedDevice<D> {
    pub(super) fn new(inner: D) -> PacedDevice<D> {
        PacedDevice { inner, pace: Mutex::default() }
    }

    fn pace<T>(&self, with: impl FnOnce(&mut Pace) -> T) -> T {
        with(&mut self.pace.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<D: BlockDevice> BlockDevice for PacedDevice<D> {
    fn len_bytes(&self) -> u64 {
        self.inner.len_bytes()
    }

    fn sector_size(&self) -> u32 {
        self.inner.sector_size()
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        if !self.pace(Pace::next_is_timed) {
            return self.inner.read_at(offset, buf);
        }
        let began = Instant::now();
        let read = self.inner.read_at(offset, buf);
        let pause = self.pace(|pace| pace.note(began.elapsed()));
        std::thread::sleep(pause);
        read
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.inner.write_at(offset, buf)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.inner.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.inner.discard(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_read_in_eight_is_timed_and_the_pause_follows_the_average() {
        let mut pace = Pace::default();
        let timed = (0..32).filter(|_| pace.next_is_timed()).count();
        assert_eq!(timed, 4);
        let ms = Duration::from_millis;
        assert_eq!(pace.note(ms(8)), ms(8));
        let pauses: Vec<_> = (0..64).map(|_| pace.note(ms(8))).collect();
        assert!(pauses.is_sorted() && pauses[63] > ms(60) && pauses[63] <= ms(64));
        assert!((0..64).all(|_| pace.note(ms(4000)) <= MAX_PAUSE));
    }
}
