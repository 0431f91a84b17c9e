//! Clocks.

#[cfg(test)]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A monotonic clock.
pub trait Timer: Send + Sync {
    /// Time since a fixed moment; never decreases.
    fn now(&self) -> Duration;

    /// Processor time of this thread, in the kernel too. Other programs disturb it less than
    /// [`Timer::now`].
    fn cpu(&self) -> Duration;
}

/// The monotonic clock of the operating system.
#[derive(Debug, Clone, Copy)]
pub struct RealTimer(Instant);

impl RealTimer {
    /// A clock that starts at 0 now.
    #[must_use]
    pub fn start() -> RealTimer {
        RealTimer(Instant::now())
    }
}

impl Timer for RealTimer {
    fn now(&self) -> Duration {
        self.0.elapsed()
    }

    fn cpu(&self) -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::try_from(now).unwrap_or_default()
    }
}

/// A clock that advances by a fixed step whenever it is read: each measurement takes one step.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct StepTimer {
    step: u64,
    reads: AtomicU64,
}

#[cfg(test)]
impl StepTimer {
    /// A clock that advances by `step` nanoseconds.
    #[must_use]
    pub(crate) fn new(step: u64) -> StepTimer {
        StepTimer { step, reads: AtomicU64::new(0) }
    }
}

#[cfg(test)]
impl Timer for StepTimer {
    fn now(&self) -> Duration {
        let reads = self.reads.fetch_add(1, Ordering::Relaxed);
        Duration::from_nanos(reads.saturating_mul(self.step))
    }

    fn cpu(&self) -> Duration {
        Duration::from_nanos(self.reads.load(Ordering::Relaxed).saturating_mul(self.step))
    }
}
