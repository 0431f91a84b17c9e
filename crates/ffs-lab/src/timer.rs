//! Time, given from outside.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Tells how long ago a fixed moment was.
pub trait Timer: Send + Sync {
    /// Time since that moment; never goes back.
    fn now(&self) -> Duration;

    /// Processor time this thread has used, in the kernel too: what a busy machine disturbs less.
    fn cpu(&self) -> Duration;
}

/// The computer's own monotonic time.
#[derive(Debug, Clone, Copy)]
pub struct RealTimer(Instant);

impl RealTimer {
    /// Counts from now on.
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

/// A timer that goes on by a fixed step whenever it is read: whatever is measured takes one step.
#[derive(Debug)]
pub struct StepTimer {
    step: u64,
    reads: AtomicU64,
}

impl StepTimer {
    /// Goes on by `step` nanoseconds a reading.
    #[must_use]
    pub fn new(step: u64) -> StepTimer {
        StepTimer { step, reads: AtomicU64::new(0) }
    }
}

impl Timer for StepTimer {
    fn now(&self) -> Duration {
        let reads = self.reads.fetch_add(1, Ordering::Relaxed);
        Duration::from_nanos(reads.saturating_mul(self.step))
    }

    fn cpu(&self) -> Duration {
        Duration::from_nanos(self.reads.load(Ordering::Relaxed).saturating_mul(self.step))
    }
}
