//! What memory costs: reads of which each waits for the one before.
//!
//! An operation on a directory that no cache of the processor holds takes as much longer as it waits for memory.
//! Beside the time of one such wait that can be judged: no arrangement of an index makes a read of a place known
//! only now cost less.

use std::hint::black_box;

use crate::order::{Purpose, shuffled};
use crate::timer::Timer;

/// Numbers of a place: a line of the processor's cache.
const LINE: usize = 16;

/// Bytes that no processor's cache holds, nearly.
pub const LARGE: usize = 256 << 20;

/// Reads that are timed at most.
const READS: usize = 1 << 20;

/// Microseconds of processor time a read takes whose place the one before told, anywhere in `bytes` of memory.
#[must_use]
pub fn dependent_read(timer: &dyn Timer, bytes: usize) -> f64 {
    let lines = (bytes / (LINE * size_of::<u32>())).clamp(2, u32::MAX as usize);
    let order = shuffled(lines as u32, 0, Purpose::Memory);
    let mut memory = vec![[0u32; LINE]; lines];
    // One round through all of them.
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
        // The timer stands still between two readings of the processor's time.
        assert_eq!(dependent_read(&StepTimer::new(1000), 64 << 10), 0.0);
        assert!(dependent_read(&crate::RealTimer::start(), 1 << 20) > 0.0);
        // No memory at all is two places.
        assert!(dependent_read(&crate::RealTimer::start(), 0) >= 0.0);
    }
}
