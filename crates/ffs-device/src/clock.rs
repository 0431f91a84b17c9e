//! Time and random numbers, provided by the caller.
//!
//! The other crates never query the system for the time or for random numbers; they use the
//! [`Clock`] and [`Rng`] they were given. With [`ManualClock`] and a seeded [`SplitMix64`] the same
//! operations produce the same bytes on every machine.
//!
//! **Locking.** None; both may be shared between threads. If several threads draw from one
//! [`SplitMix64`], each number of its stream is returned once, in the order of the calls.

use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const NANOS_PER_SEC: u32 = 1_000_000_000;

/// A point in time: seconds since 1970-01-01 00:00 UTC, and nanoseconds after that second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp {
    /// Seconds since 1970-01-01 00:00 UTC, rounded down; negative before.
    pub secs: i64,
    /// 0 to 999 999 999 nanoseconds after `secs`.
    pub nanos: u32,
}

impl Timestamp {
    /// The point `secs` seconds and `nanos` nanoseconds after 1970-01-01 00:00 UTC. Whole seconds
    /// in `nanos` are carried.
    #[must_use]
    pub fn new(secs: i64, nanos: u32) -> Self {
        let carried = secs.saturating_add(i64::from(nanos / NANOS_PER_SEC));
        Self { secs: carried, nanos: nanos % NANOS_PER_SEC }
    }

    /// The point `by` later, or the last one that can be represented.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        let whole = i64::try_from(by.as_secs()).unwrap_or(i64::MAX);
        // Both parts are below a second, so their sum fits.
        Self::new(self.secs.saturating_add(whole), self.nanos + by.subsec_nanos())
    }
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self::default().plus(after),
            Err(before) => {
                let before = before.duration();
                let whole = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
                match before.subsec_nanos() {
                    0 => Self { secs: -whole, nanos: 0 },
                    nanos => Self { secs: -whole - 1, nanos: NANOS_PER_SEC - nanos },
                }
            }
        }
    }
}

/// A source of the present time.
pub trait Clock: Send + Sync {
    /// The present time.
    fn now(&self) -> Timestamp;
}

/// The computer's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        SystemTime::now().into()
    }
}

/// A clock whose time changes only when it is set.
#[derive(Debug, Default)]
pub struct ManualClock {
    now: Mutex<Timestamp>,
}

impl ManualClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        Self { now: Mutex::new(now) }
    }

    /// Makes the clock show `now`, be it earlier or later.
    pub fn set(&self, now: Timestamp) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        *now = now.plus(by);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A source of pseudorandom numbers.
pub trait Rng: Send + Sync {
    /// The next number, any of 2^64.
    fn next_u64(&self) -> u64;

    /// The next number, any of 2^32.
    fn next_u32(&self) -> u32 {
        (self.next_u64() >> 32) as u32
    }

    /// A number below `bound`; 0 if `bound` is 0.
    fn below(&self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// Steele, Lea and Flood's generator. Not for cryptography.
#[derive(Debug)]
pub struct SplitMix64 {
    state: AtomicU64,
}

impl SplitMix64 {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// The stream of `seed`, the same on every machine.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }

    /// A stream that differs from process to process and call to call.
    #[must_use]
    pub fn from_system() -> Self {
        // The keys of the standard library's hasher are random; reading them needs no
        // system-specific call.
        let mut hasher = std::hash::RandomState::new().build_hasher();
        let now = Timestamp::from(SystemTime::now());
        hasher.write_i64(now.secs);
        hasher.write_u32(now.nanos);
        Self::new(hasher.finish())
    }
}

impl Rng for SplitMix64 {
    fn next_u64(&self) -> u64 {
        let mut z = self.state.fetch_add(Self::STEP, Ordering::Relaxed).wrapping_add(Self::STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_time_changes_only_when_set() {
        let clock = ManualClock::new(Timestamp::new(10, 900_000_000));
        assert_eq!(clock.now(), clock.now());
        clock.advance(Duration::from_millis(250));
        assert_eq!(clock.now(), Timestamp { secs: 11, nanos: 150_000_000 });
        clock.set(Timestamp::new(-5, 0));
        assert_eq!(clock.now().secs, -5);
        assert_eq!(Timestamp::new(i64::MAX, 5).plus(Duration::MAX).secs, i64::MAX);
    }

    #[test]
    fn times_before_1970_count_nanoseconds_forward() {
        let before = UNIX_EPOCH - Duration::from_millis(250);
        assert_eq!(Timestamp::from(before), Timestamp { secs: -1, nanos: 750_000_000 });
        assert_eq!(
            Timestamp::from(UNIX_EPOCH - Duration::from_secs(3)),
            Timestamp { secs: -3, nanos: 0 }
        );
        assert!(SystemClock.now().secs > 1_600_000_000);
    }

    #[test]
    fn seeded_numbers_repeat_and_system_ones_do_not() {
        let (a, b) = (SplitMix64::new(1_234_567), SplitMix64::new(1_234_567));
        assert_eq!(a.next_u64(), 6_457_827_717_110_365_317, "the published first number");
        assert_eq!(b.next_u32(), (6_457_827_717_110_365_317u64 >> 32) as u32);
        assert_eq!(a.next_u64(), b.next_u64());
        assert_ne!(SplitMix64::from_system().next_u64(), SplitMix64::from_system().next_u64());
        assert!((0..100).all(|_| a.below(3) < 3));
        assert_eq!(a.below(0), 0);
    }
}
