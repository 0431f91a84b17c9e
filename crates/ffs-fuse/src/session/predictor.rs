//! Which requests will take long.

use crate::wire::{Request, is_release, op};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// An operation that took this long has waited, for the disk or for a lock.
const SLOW: Duration = Duration::from_micros(100);
/// A second slow operation among so many begins a run. A single one may have lost its processor to
/// another program.
const PAIR: u32 = 8;
/// The number of operations after that which are expected to be slow too.
const RUN: u32 = 64;
/// A transfer of this many bytes is served beside others, on a second processor.
const LARGE_TRANSFER: usize = 64 << 10;

/// After a large write, the number of requests among which another one is expected.
const WRITE_RUN: u32 = 8;

/// Predicts which requests will take long, from their kind and from the recent past.
#[derive(Default)]
pub(super) struct SlowPredictor {
    /// Operations among which another slow one begins a run.
    alert: AtomicU32,
    /// Operations that are still expected to be slow.
    remaining: AtomicU32,
    /// Requests among which another large write is expected.
    writes: AtomicU32,
}

impl SlowPredictor {
    /// Whether the next request may be a large write.
    pub(super) fn expects_large_write(&self) -> bool {
        self.writes.load(Ordering::Relaxed) > 0
    }

    /// Notes the request, and returns whether it will take long.
    pub(super) fn expects_slow(&self, r: &Request<'_>) -> bool {
        match r.opcode {
            op::WRITE if is_large(r) => self.writes.store(WRITE_RUN, Ordering::Relaxed),
            _ => {
                count_down(&self.writes);
            }
        }
        if matches!(r.opcode, op::FORGET | op::BATCH_FORGET) || is_release(r.opcode) {
            // These come before later requests, which may need the space that they free. The kernel
            // forgets a file only after the reply to its release.
            return false;
        }
        if self.remaining.load(Ordering::Relaxed) > 0 {
            return true;
        }
        match r.opcode {
            op::FSYNC | op::FSYNCDIR | op::SYNCFS | op::FALLOCATE => true,
            // The first frees what was removed. The second may make the volume read-only, which
            // waits for a check in the background, and that for the kernel and its requests.
            op::STATFS | op::IOCTL => true,
            op::READ | op::WRITE => is_large(r),
            _ => false,
        }
    }

    /// Records how long an operation took. Threads that record at the same time may lose a count.
    pub(super) fn record(&self, took: Duration) {
        let alert = count_down(&self.alert);
        if took < SLOW {
            count_down(&self.remaining);
            return;
        }
        self.alert.store(PAIR, Ordering::Relaxed);
        if alert {
            self.remaining.store(RUN, Ordering::Relaxed);
        }
    }
}

/// Whether a READ or WRITE moves many bytes.
fn is_large(r: &Request<'_>) -> bool {
    r.args().io_size().is_ok_and(|n| n >= LARGE_TRANSFER)
}

/// Counts `left` down to 0. Returns whether it was more.
fn count_down(left: &AtomicU32) -> bool {
    let n = left.load(Ordering::Relaxed);
    if n > 0 {
        left.store(n - 1, Ordering::Relaxed);
    }
    n > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(opcode: u32, io_size: u32) -> Vec<u8> {
        let mut b = vec![0; 80];
        b[..4].copy_from_slice(&80u32.to_ne_bytes());
        b[4..8].copy_from_slice(&opcode.to_ne_bytes());
        b[56..60].copy_from_slice(&io_size.to_ne_bytes());
        b
    }

    #[test]
    fn two_slow_operations_begin_a_run_and_one_does_not() {
        let predictor = SlowPredictor::default();
        let slow =
            |opcode, size| predictor.expects_slow(&Request::parse(&request(opcode, size)).unwrap());
        assert!(slow(op::FSYNC, 0) && slow(op::READ, 1 << 20) && !slow(op::READ, 4096));
        predictor.record(SLOW);
        for _ in 0..PAIR {
            assert!(!slow(op::LOOKUP, 0));
            predictor.record(Duration::ZERO);
        }
        predictor.record(SLOW);
        assert!(!slow(op::LOOKUP, 0));
        predictor.record(SLOW);
        for _ in 0..RUN {
            assert!(slow(op::LOOKUP, 0) && !slow(op::RELEASE, 0));
            predictor.record(Duration::ZERO);
        }
        assert!(!slow(op::LOOKUP, 0));
    }
}
