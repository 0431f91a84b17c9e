//! How far a check is.
//!
//! **Invariants.**
//! 1. In a phase of a pass `done` only rises, never beyond `total`, and `total` stays; a phase that gets to its end
//!    reports `done == total`.
//! 2. A phase reports at most [`REPORTS`] times and twice, whatever its steps are.

use super::judge::Res;
use super::report::Phase;
use super::{Checker, Progress};

/// Reports of one phase between its beginning and its end.
const REPORTS: u64 = 200;

/// Steps of the phase at hand.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Meter {
    done: u64,
    total: u64,
    /// The next report is due then.
    due: u64,
}

impl Checker<'_> {
    /// Begins a phase of `total` steps.
    pub(super) fn enter(&mut self, phase: Phase, total: u64) -> Res<()> {
        self.judge.phase = phase;
        self.meter = Meter { done: 0, total, due: total.div_ceil(REPORTS) };
        self.report_progress();
        self.check_interrupt()
    }

    /// `steps` more are done.
    pub(super) fn advance(&mut self, steps: u64) {
        let meter = &mut self.meter;
        meter.done = meter.done.saturating_add(steps).min(meter.total);
        // The end is reported by `leave`.
        if meter.done >= meter.due && meter.done < meter.total {
            meter.due = meter.done + meter.total.div_ceil(REPORTS);
            self.report_progress();
        }
    }

    /// Ends a phase that got to its end.
    pub(super) fn leave(&mut self) -> Res<()> {
        self.meter.done = self.meter.total;
        self.report_progress();
        self.report_bad_reads()
    }

    fn report_progress(&mut self) {
        let Meter { done, total, .. } = self.meter;
        let (phase, pass) = (self.judge.phase, self.pass);
        if let Some(report) = self.report.as_deref_mut() {
            report(Progress { phase, pass, done, total });
        }
    }
}
