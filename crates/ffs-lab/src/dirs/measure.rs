//! Operations timed in laps, so that looking on costs nothing that counts.

use std::time::Duration;

use crate::error::{LabError, Result};
use crate::file_names::FileNames;
use crate::systems::Target;
use crate::watch::Watch;

/// How long some operations took.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// Operations.
    pub ops: u64,
    /// Time of all.
    pub total: Duration,
    /// Processor time of all.
    pub cpu: Duration,
}

impl Timing {
    /// Microseconds an operation; 0 of none.
    #[must_use]
    pub fn us_per_op(&self) -> f64 {
        self.per_op(self.total)
    }

    /// Microseconds of processor time an operation; 0 of none.
    #[must_use]
    pub fn cpu_us_per_op(&self) -> f64 {
        self.per_op(self.cpu)
    }

    fn per_op(&self, time: Duration) -> f64 {
        if self.ops == 0 { 0.0 } else { time.as_secs_f64() * 1e6 / self.ops as f64 }
    }
}

/// Operations between two readings of the time: so many that reading it does not show, so few that a wish
/// to stop is soon heard.
const LAP: usize = 4096;

/// Does `each` for every name. Time is taken around each lap; `watch` hears between them.
pub(super) fn timed(
    target: &mut dyn Target,
    names: &FileNames,
    watch: &mut dyn Watch,
    mut each: impl FnMut(&mut dyn Target, &[u8]) -> Result<()>,
) -> Result<Timing> {
    let mut timing = Timing { ops: 0, total: Duration::ZERO, cpu: Duration::ZERO };
    let mut left = names.iter();
    loop {
        let before = left.len();
        let (cpu, start) = (target.cpu(), target.now());
        for name in left.by_ref().take(LAP) {
            each(target, name)?;
        }
        let took = target.now().saturating_sub(start);
        let cpu = target.cpu().saturating_sub(cpu);
        let ops = (before - left.len()) as u64;
        if ops == 0 {
            return Ok(timing);
        }
        timing.ops += ops;
        timing.total += took;
        timing.cpu += cpu;
        if !watch.done(ops) {
            return Err(LabError::Interrupted);
        }
    }
}
