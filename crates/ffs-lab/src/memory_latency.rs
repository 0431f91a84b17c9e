//! The time of one read of main memory, measured by reads that each depend on the one before.
//!
//! An operation on a directory that is not in the processor's caches waits for memory. The time of
//! a read shows how much of the operation's cost is that wait, which no index can avoid.

use std::hint::black_box;

use crate::shuffle::{Purpose, shuffled};
use crate::timer::Timer;

/// Numbers in a cache line of the processor.
const LINE: usize = 16;

/// More bytes than the caches of most processors hold.
pub const LARGE: usize = 256 << 20;

/// Most reads that are timed.
const READS: usize = 1 << 20;

/// Microseconds of processor time of one dependent read in `bytes` of memory.
#[must_use]
pub fn dependent_read(timer: &dyn Timer, bytes: usize) -> f64 {
    let lines = (bytes / (LINE * size_of::<u32>())).clamp(2, u32::MAX as usize);
    let order = shuffled(lines as u32, 0, Purpose::Memory);
    let mut memory = vec![[0u32; LINE]; lines];
    // One cycle through all lines.
    for (at, next) in order.iter().zip(order.iter().cycle().skip(1)) {
        memory[*at as usize][0] = *next;
    }
    let (reads, mut at) = (lines.min(READS), order[0]);
    let start = timer.cpu();
    for _ in 0..reads {
        at = memory[at as usize][0];
    }
    let took = timer.cpu().saturating_sub(start);
    black_box(at);
    took.as_secs_f64() * 1e6 / reads as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timer::StepTimer;

    #[test]
    fn takes_the_time_of_all_reads_together() {
        // The processor time of a StepTimer does not advance.
        assert_eq!(dependent_read(&StepTimer::new(1000), 64 << 10), 0.0);
        assert!(dependent_read(&crate::RealTimer::start(), 1 << 20) > 0.0);
        // At least two lines are allocated.
        assert!(dependent_read(&crate::RealTimer::start(), 0) >= 0.0);
    }
}
