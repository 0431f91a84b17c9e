//! Progress reports of a workload, at most one for every few hundred calls.

use super::{PhaseRecorder, PhaseResult};
use crate::error::{LabError, Result};
use crate::systems::Target;
use crate::watch::Watch;

/// Steps between reports.
const STRIDE: u64 = 256;

/// Counts steps and reports them to a [`Watch`].
pub(super) struct ProgressMeter<'a> {
    watch: &'a mut dyn Watch,
    unreported: u64,
}

impl<'a> ProgressMeter<'a> {
    pub(super) fn new(watch: &'a mut dyn Watch) -> ProgressMeter<'a> {
        ProgressMeter { watch, unreported: 0 }
    }

    /// Names the work that begins.
    pub(super) fn step(&mut self, what: &str) {
        self.watch.step(what);
    }

    /// Names the work that begins, and measures it as the phase `id`.
    pub(super) fn phase<'r>(
        &mut self,
        recorder: &'r mut PhaseRecorder,
        target: &mut dyn Target,
        id: &str,
        work: impl FnOnce(&mut dyn Target, &mut ProgressMeter<'a>) -> Result<f64>,
    ) -> Result<&'r PhaseResult> {
        self.step(id);
        recorder.phase(target, id, |target| work(target, self))
    }

    /// Counts one step.
    pub(super) fn tick(&mut self) -> Result<()> {
        self.unreported += 1;
        if self.unreported < STRIDE { Ok(()) } else { self.report() }
    }

    fn report(&mut self) -> Result<()> {
        let steps = std::mem::take(&mut self.unreported);
        if self.watch.done(steps) { Ok(()) } else { Err(LabError::Interrupted) }
    }
}
