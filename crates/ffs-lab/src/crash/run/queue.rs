//! What is still to be done, for any worker to take.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use super::Ran;
use crate::crash::tally::WindowTally;
use crate::error::LabError;

/// Windows of a workload that was run.
pub(super) struct Chunk {
    /// The workload's number in the plan.
    pub(super) number: usize,
    /// Which chunk of its windows.
    pub(super) chunk: usize,
    /// What it left.
    pub(super) ran: Arc<Ran>,
}

/// Something to do.
pub(super) enum Job {
    /// Run the workload of this number.
    Run(usize),
    /// Examine a chunk.
    Examine(Chunk),
}

/// What a worker tells.
pub(super) enum Message {
    /// A workload was run.
    Ran {
        /// Its number.
        number: usize,
        /// Chunks that will be examined.
        chunks: usize,
        /// Operations that failed, and why.
        failed: Vec<(usize, String)>,
    },
    /// States that were examined just now.
    Progress(u64),
    /// A chunk was examined.
    Examined {
        /// The workload's number.
        number: usize,
        /// The chunk.
        chunk: usize,
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
    chunks: VecDeque<Chunk>,
    /// Workloads being run, whose chunks are still to come.
    running: usize,
    stopped: bool,
}

/// See the module.
pub(super) struct Queue {
    works: usize,
    state: Mutex<State>,
    more: Condvar,
}

impl Queue {
    pub(super) fn new(works: usize) -> Queue {
        Queue { works, state: Mutex::default(), more: Condvar::new() }
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
            if let Some(chunk) = state.chunks.pop_front() {
                return Some(Job::Examine(chunk));
            }
            if state.next < self.works {
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

    /// The workload of that number was run; its windows are in so many chunks.
    pub(super) fn add(&self, number: usize, ran: Arc<Ran>, chunks: usize) {
        let mut state = self.state();
        state.running -= 1;
        let chunk = |chunk| Chunk { number, chunk, ran: Arc::clone(&ran) };
        state.chunks.extend((0..chunks).map(chunk));
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
