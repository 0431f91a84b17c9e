//! The jobs of a study that have not begun, within a limit of memory.
//!
//! # Invariants
//! 1. Jobs begin in the order of the list.
//! 2. The running jobs together need at most the limit. A job that needs more than the limit runs
//!    alone.
//!
//! # Locking
//! One mutex holds the list and the memory in use. A worker waits on the condition variable until
//! the next job fits; the end of each job wakes all workers.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::plan::Job;

/// The jobs that have not begun, and the memory of those that run.
#[derive(Debug)]
pub(super) struct JobQueue {
    state: Mutex<State>,
    ended: Condvar,
    limit: u64,
}

#[derive(Debug)]
struct State {
    /// The jobs and the bytes that each needs.
    left: std::vec::IntoIter<(Job, u64)>,
    next: Option<(Job, u64)>,
    running: usize,
    used: u64,
}

/// A job that has begun. It has ended when this is dropped.
#[derive(Debug)]
pub(super) struct RunningJob<'a> {
    queue: &'a JobQueue,
    pub(super) job: Job,
    bytes: u64,
}

impl JobQueue {
    /// A queue of jobs, with the bytes that each needs. All that run need `limit` at most.
    pub(super) fn new(jobs: Vec<(Job, u64)>, limit: u64) -> JobQueue {
        let mut left = jobs.into_iter();
        let next = left.next();
        let state = State { left, next, running: 0, used: 0 };
        JobQueue { state: Mutex::new(state), ended: Condvar::new(), limit }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the next job, as soon as there is memory for it. `None` if no job is left.
    pub(super) fn begin(&self) -> Option<RunningJob<'_>> {
        let mut state = self.state();
        loop {
            let (job, bytes) = state.next?;
            if state.fits(bytes, self.limit) {
                state.next = state.left.next();
                state.running += 1;
                state.used = state.used.saturating_add(bytes);
                return Some(RunningJob { queue: self, job, bytes });
            }
            state = self.ended.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    /// Whether a job that needs `bytes` may begin.
    fn fits(&self, bytes: u64, limit: u64) -> bool {
        self.running == 0 || self.used.saturating_add(bytes) <= limit
    }
}

impl Drop for RunningJob<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.state();
        state.running -= 1;
        state.used = state.used.saturating_sub(self.bytes);
        drop(state);
        self.queue.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    fn queue(bytes: &[u64], limit: u64) -> JobQueue {
        let job = |item| Job { item, combination: 0, replicate: 0 };
        let jobs = bytes.iter().enumerate().map(|(item, bytes)| (job(item), *bytes)).collect();
        JobQueue::new(jobs, limit)
    }

    /// The most memory in use and the most jobs at a time, with four workers.
    fn most(bytes: &[u64], limit: u64) -> (u64, usize) {
        let queue = queue(bytes, limit);
        let most = Mutex::new((0, 0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while let Some(running) = queue.begin() {
                        let state = queue.state();
                        let mut most = most.lock().unwrap();
                        *most = (most.0.max(state.used), most.1.max(state.running));
                        drop((state, most));
                        std::thread::yield_now();
                        drop(running);
                    }
                });
            }
        });
        assert!(queue.begin().is_none() && queue.state().used == 0);
        most.into_inner().unwrap()
    }

    #[test]
    fn running_jobs_stay_within_the_limit_and_all_run() {
        let (used, _) = most(&[1, 4, 1, 4, 4, 1, 1, 1, 4, 1, 1, 1], 5);
        assert!(used <= 5, "{used} of 5");
        assert_eq!(most(&[4, 4, 4, 4], 5), (4, 1));
    }

    #[test]
    fn a_job_that_needs_more_than_the_limit_runs_alone() {
        assert_eq!(most(&[9, 9, 9], 5), (9, 1));
        let queue = queue(&[1, 9, 1], 5);
        let small = queue.begin().unwrap();
        std::thread::scope(|scope| {
            let large = scope.spawn(|| queue.begin().unwrap().job.item);
            let state = queue.state();
            assert!(!state.fits(9, 5), "the large job may begin beside another one");
            assert_eq!(state.running, 1, "the large job began beside another one");
            drop(state);
            drop(small);
            assert_eq!(large.join().unwrap(), 1);
        });
        assert_eq!(queue.begin().unwrap().job.item, 2, "in the order of the list");
    }
}
