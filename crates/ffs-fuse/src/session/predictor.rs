//! Which requests will take long.

use super::thread::voluntary_switches;
use crate::wire::{Request, is_release, op};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// An operation that took this long is slow if it waited, for the disk or for a lock.
const SLOW: Duration = Duration::from_micros(100);
/// A second slow operation among so many begins a run. A single one may have computed, or lost its
/// processor to another program.
const PAIR: u32 = 8;
/// The number of operations after that which are expected to be slow too.
const RUN: u32 = 64;
/// A transfer of this many bytes is served beside others, on a second processor.
const LARGE_TRANSFER: usize = 64 << 10;

/// After a large write, the number of requests among which another one is expected.
const WRITE_RUN: u32 = 8;

/// The time of an operation.
pub(super) struct Stopwatch {
    start: Instant,
    /// How often the thread had waited at the start, if that matters.
    switches: Option<libc::c_long>,
}

/// How an operation went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Took {
    /// Little time, or only computing.
    Little,
    /// Long, and whether it waited is not known.
    Long,
    /// Long, because it waited.
    Waiting,
}

impl Stopwatch {
    fn took(&self) -> Took {
        if self.start.elapsed() < SLOW {
            return Took::Little;
        }
        let Some(before) = self.switches else { return Took::Long };
        match voluntary_switches() == Some(before) {
            true => Took::Little,
            false => Took::Waiting,
        }
    }
}

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

    /// Starts the time of an operation. The count of waits is a system call, so it is read only
    /// while slow operations are likely.
    pub(super) fn start(&self) -> Stopwatch {
        let likely = [&self.alert, &self.remaining].map(|n| n.load(Ordering::Relaxed)) != [0, 0];
        let switches = if likely { voluntary_switches() } else { None };
        Stopwatch { start: Instant::now(), switches }
    }

    /// Records an operation that ends now.
    pub(super) fn record(&self, operation: &Stopwatch) {
        self.note(operation.took());
    }

    /// Notes an operation. Threads that do so at the same time may lose a count.
    fn note(&self, took: Took) {
        let alert = count_down(&self.alert);
        if took == Took::Little {
            count_down(&self.remaining);
            return;
        }
        self.alert.store(PAIR, Ordering::Relaxed);
        if alert && took == Took::Waiting {
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
        let expects =
            |opcode, size| predictor.expects_slow(&Request::parse(&request(opcode, size)).unwrap());
        let slow = |opcode| expects(opcode, 0);
        assert!(slow(op::FSYNC) && expects(op::READ, 1 << 20) && !expects(op::READ, 4096));
        predictor.note(Took::Waiting);
        for _ in 0..PAIR {
            assert!(!slow(op::LOOKUP));
            predictor.note(Took::Little);
        }
        predictor.note(Took::Waiting);
        assert!(!slow(op::LOOKUP));
        predictor.note(Took::Waiting);
        for _ in 0..RUN {
            assert!(slow(op::LOOKUP) && slow(op::READ) && !slow(op::RELEASE));
            predictor.note(Took::Little);
        }
        assert!(!slow(op::LOOKUP));
        // Two that began before the first one ended: whether they waited is not known.
        predictor.note(Took::Long);
        predictor.note(Took::Long);
        assert!(!slow(op::LOOKUP));
        predictor.note(Took::Waiting);
        assert!(slow(op::LOOKUP));
    }

    #[test]
    fn an_operation_that_computes_is_not_slow() {
        let predictor = SlowPredictor::default();
        let compute = || {
            let operation = predictor.start();
            while operation.start.elapsed() < SLOW {}
            operation.took()
        };
        assert_eq!(compute(), Took::Long, "the first one: only its time is known");
        predictor.note(Took::Long);
        assert_eq!(compute(), Took::Little);
        let operation = predictor.start();
        std::thread::spawn(|| ()).join().unwrap();
        while operation.start.elapsed() < SLOW {}
        // This thread waited for the other one, unless that had ended before.
        let waits = operation.switches != voluntary_switches();
        assert_eq!(operation.took() == Took::Waiting, waits);
    }
}
