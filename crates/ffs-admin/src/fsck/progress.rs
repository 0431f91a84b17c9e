//! Progress of a check.
//!
//! **Invariants.**
//! 1. Within a phase of one round `done` only rises, `total` is constant, and `done <= total`. A
//!    phase that completes reports `done == total`.
//! 2. A phase makes at most [`REPORTS`] + 2 reports, for any number of steps.

use super::report::Phase;

/// Reports of one phase between its first and its last.
const REPORTS: u64 = 200;

/// Progress of a check.
///
/// The steps of phases 1, 1b and 4 are inodes, those of phase 2 directory blocks of 512 bytes, of
/// phase 3 directories, of all other phases cylinder groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The phase.
    pub phase: Phase,
    /// The round, counted from 1. A round is one run of the phases.
    pub round: u32,
    /// Steps done in this phase.
    pub done: u64,
    /// Steps of this phase; 0 if it has nothing to do.
    pub total: u64,
}

/// The function that receives the reports.
pub(super) type ProgressFn<'a> = &'a mut (dyn FnMut(Progress) + Send);

/// Step counter of the current phase.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PhaseProgress {
    done: u64,
    total: u64,
    /// The value of `done` at which the next report is due.
    due: u64,
}

impl PhaseProgress {
    /// A phase of `total` steps.
    pub(super) fn new(total: u64) -> PhaseProgress {
        PhaseProgress { done: 0, total, due: total.div_ceil(REPORTS) }
    }

    /// Counts `steps` steps; `true` if a report is due.
    pub(super) fn advance(&mut self, steps: u64) -> bool {
        self.done = self.done.saturating_add(steps).min(self.total);
        // `complete` reports the last step.
        let due = self.done >= self.due && self.done < self.total;
        if due {
            self.due = self.done + self.total.div_ceil(REPORTS);
        }
        due
    }

    /// Counts all steps as done.
    pub(super) fn complete(&mut self) {
        self.done = self.total;
    }

    /// The report of the current state.
    pub(super) fn report(&self, phase: Phase, round: u32) -> Progress {
        Progress { phase, round, done: self.done, total: self.total }
    }
}
