//! Measures operations in laps, so that progress reports are not timed.

use std::time::Duration;

use crate::error::{LabError, Result};
use crate::file_names::FileNames;
use crate::systems::Target;
use crate::watch::Watch;

/// The time of some operations.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// The number of operations.
    pub ops: u64,
    /// Their total time.
    pub total: Duration,
    /// Their total processor time.
    pub cpu: Duration,
}

impl Timing {
    /// Microseconds for each operation; 0 without operations.
    #[must_use]
    pub fn us_per_op(&self) -> f64 {
        self.per_op(self.total)
    }

    /// Microseconds of processor time for each operation; 0 without operations.
    #[must_use]
    pub fn cpu_us_per_op(&self) -> f64 {
        self.per_op(self.cpu)
    }

    fn per_op(&self, time: Duration) -> f64 {
        if self.ops == 0 { 0.0 } else { time.as_secs_f64() * 1e6 / self.ops as f64 }
    }
}

/// Operations between readings of the clock. There are so many that reading it costs little, and so
/// few that an interruption ends the work soon.
const LAP: usize = 4096;

/// Calls `each` for every name. Each lap is timed; progress is reported between laps.
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
