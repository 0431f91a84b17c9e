//! Independent jobs on several threads, for one caller that waits for all of them.
//!
//! # Invariants
//! 1. The results are in the order of the jobs, with any number of threads.
//! 2. After the caller stops the work, no job begins, and running jobs learn it from their
//!    [`Progress`]. After a job has failed, no job begins either.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};

use crate::error::{LabError, Result};
use crate::watch::Watch;

/// Reports the progress of a job to the caller.
pub(crate) struct Progress<'a> {
    sender: Sender<(u64, String)>,
    stop: &'a AtomicBool,
}

impl Progress<'_> {
    /// Reports `count` finished operations of the job that is `what`. `false`: the job has to end.
    pub(crate) fn done(&self, count: u64, what: &str) -> bool {
        // The receiver lives until all jobs have ended.
        let _ = self.sender.send((count, what.to_owned()));
        !self.stop.load(Ordering::Relaxed)
    }
}

/// Runs `job` for each number of `order`, which has each number below its length once: jobs begin
/// in this order. Returns the results by number.
///
/// # Errors
/// [`LabError::Interrupted`] if `watch` stops the work; otherwise that of a job that failed.
pub(crate) fn run<T: Send>(
    order: &[usize],
    threads: usize,
    watch: &mut dyn Watch,
    job: impl Fn(usize, &Progress<'_>) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let (next, stop, failed) =
        (AtomicUsize::new(0), AtomicBool::new(false), AtomicBool::new(false));
    let ended = Mutex::new(Vec::new());
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, order.len().max(1)) {
            let progress = Progress { sender: sender.clone(), stop: &stop };
            let (next, failed, ended, job) = (&next, &failed, &ended, &job);
            scope.spawn(move || {
                while let Some(&at) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if progress.stop.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed) {
                        break;
                    }
                    let result = job(at, &progress);
                    if result.is_err() {
                        failed.store(true, Ordering::Relaxed);
                    }
                    ended.lock().unwrap_or_else(PoisonError::into_inner).push((at, result));
                }
            });
        }
        drop(sender);
        for (count, what) in &receiver {
            watch.step(&what);
            if !watch.done(count) {
                stop.store(true, Ordering::Relaxed);
            }
        }
    });
    if stop.load(Ordering::Relaxed) {
        return Err(LabError::Interrupted);
    }
    let mut ended = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
    ended.sort_by_key(|(at, _)| *at);
    ended.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::watch::Unwatched;

    /// Stops after so many operations.
    struct Limit(u64);

    impl Watch for Limit {
        fn done(&mut self, n: u64) -> bool {
            self.0 = self.0.saturating_sub(n);
            self.0 > 0
        }
    }

    #[test]
    fn results_are_in_the_order_of_the_jobs() {
        for threads in [1, 2, 7, 100] {
            let order: Vec<usize> = (0..20).rev().collect();
            let found = run(&order, threads, &mut Unwatched, |at, _| Ok(at * at)).unwrap();
            assert_eq!(found, (0..20).map(|at| at * at).collect::<Vec<usize>>());
        }
        assert_eq!(run(&[], 3, &mut Unwatched, |at, _| Ok(at)).unwrap(), [0; 0]);
    }

    #[test]
    fn no_job_begins_after_one_has_failed() {
        let begun = Mutex::new(Vec::new());
        let fail = |at: usize, _: &Progress<'_>| {
            begun.lock().unwrap().push(at);
            if at == 3 { Err(LabError::Plan(at.to_string())) } else { Ok(at) }
        };
        let error = run(&[5, 4, 3, 2, 1, 0], 1, &mut Unwatched, fail).unwrap_err();
        assert!(matches!(error, LabError::Plan(at) if at == "3"));
        assert_eq!(begun.into_inner().unwrap(), [5, 4, 3]);
    }

    #[test]
    fn a_caller_that_stops_ends_running_jobs() {
        // A job ends only when its progress requires it.
        let job = |_: usize, progress: &Progress<'_>| {
            while progress.done(1, "job") {}
            Ok(())
        };
        let stopped = run(&[0, 1, 2], 2, &mut Limit(10), job);
        assert!(matches!(stopped, Err(LabError::Interrupted)));
    }
}
