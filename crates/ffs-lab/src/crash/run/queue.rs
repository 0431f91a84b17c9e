//! What is still to be done, for any worker to take.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Execution;
use crate::crash::tally::WindowTally;
use crate::error::LabError;

/// Windows of a workload that was run.
pub(super) struct Batch {
    /// The workload's number in the plan.
    pub(super) number: usize,
    /// Which batch of its windows.
    pub(super) batch: usize,
    /// What it left.
    pub(super) ran: Arc<Execution>,
}

/// Something to do.
pub(super) enum Job {
    /// Run the workload of this number.
    Run(usize),
    /// Examine a batch.
    Examine(Batch),
}

/// What a worker tells.
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
    /// States that were examined just now.
    Progress(u64),
    /// A batch was examined.
    Examined {
        /// The workload's number.
        number: usize,
        /// The batch.
        batch: usize,
        /// What its windows showed.
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
    /// Workloads being run, whose batches are still to come.
    running: usize,
    stopped: bool,
}

/// See the module.
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

    /// The next thing to do; waits while workloads being run may bring more; `None` at the end.
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

    /// The workload of that number was run; its windows are in so many batches.
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

    /// Nothing more is wanted.
    pub(super) fn stop(&self) {
        self.state().stopped = true;
        self.more.notify_all();
    }

    pub(super) fn stopped(&self) -> bool {
        self.state().stopped
    }
}
