//! The jobs that any worker may take.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Execution;
use crate::crash::tally::WindowTally;
use crate::error::LabError;

/// A batch of windows of a workload that was run.
pub(super) struct Batch {
    /// The workload's number in the plan.
    pub(super) number: usize,
    /// The number of the batch.
    pub(super) batch: usize,
    /// The execution of the workload.
    pub(super) ran: Arc<Execution>,
}

/// A job.
pub(super) enum Job {
    /// Run the workload of this number.
    Run(usize),
    /// Examine a batch.
    Examine(Batch),
}

/// A message from a worker.
pub(super) enum Message {
    /// A workload was run.
    Ran {
        /// Its number.
        number: usize,
        /// Chunks that will be examined.
        batches: usize,
        /// Operations that failed, and why.
        failed: Vec<(usize, String)>,
    },
    /// States that were examined since the last message.
    Progress(u64),
    /// A batch was examined.
    Examined {
        /// The workload's number.
        number: usize,
        /// The batch.
        batch: usize,
        /// The tallies of its windows.
        windows: Vec<WindowTally>,
    },
    /// A workload could not be run.
    Failed {
        /// Its number.
        number: usize,
        /// Why.
        error: LabError,
    },
}

#[derive(Default)]
struct State {
    next: usize,
    batches: VecDeque<Batch>,
    /// Workloads that are running; their batches are not in the queue yet.
    running: usize,
    stopped: bool,
}

/// The queue of jobs.
pub(super) struct Queue {
    workloads: usize,
    state: Mutex<State>,
    more: Condvar,
}

impl Queue {
    pub(super) fn new(workloads: usize) -> Queue {
        Queue { workloads, state: Mutex::default(), more: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job. Waits while running workloads may add some; `None` at the end.
    pub(super) fn take(&self) -> Option<Job> {
        let mut state = self.state();
        loop {
            if state.stopped {
                return None;
            }
            if let Some(batch) = state.batches.pop_front() {
                return Some(Job::Examine(batch));
            }
            if state.next < self.workloads {
                state.next += 1;
                state.running += 1;
                return Some(Job::Run(state.next - 1));
            }
            if state.running == 0 {
                return None;
            }
            state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Adds the batches of a workload that was run.
    pub(super) fn add(&self, number: usize, ran: Arc<Execution>, batches: usize) {
        let mut state = self.state();
        state.running -= 1;
        let batch = |batch| Batch { number, batch, ran: Arc::clone(&ran) };
        state.batches.extend((0..batches).map(batch));
        self.more.notify_all();
    }

    /// A workload could not be run.
    pub(super) fn add_nothing(&self) {
        self.state().running -= 1;
        self.more.notify_all();
    }

    /// Stops all workers.
    pub(super) fn stop(&self) {
        self.state().stopped = true;
        self.more.notify_all();
    }

    pub(super) fn stopped(&self) -> bool {
        self.state().stopped
    }
}
