//! Runs one job of a study: a workload on a target of its own.

use std::sync::Arc;

use super::plan::{Job, Plan, PlanItem};
use super::run::JobRunner;
use crate::error::{LabError, Result};
use crate::systems::{Context, TargetSpec};
use crate::timer::RealTimer;
use crate::watch::Watch;
use crate::workload::{self, Outcome, PhaseOptions};

/// Runs the workload of a job.
#[derive(Debug, Clone, Copy, Default)]
pub struct WorkloadRunner;

/// Refuses a plan with an unknown workload or parameter.
///
/// # Errors
/// [`LabError::Plan`] names the mistake and the nearest valid name.
pub fn check_workloads(plan: &Plan) -> Result<()> {
    for item in &plan.workloads {
        let name = item.workload.split(':').next().unwrap_or_default();
        if !workload::all().iter().any(|info| info.name == name) {
            return Err(workload::unknown(name, &["paper"]));
        }
        workload::by_name(&item.workload, item.scale)?;
    }
    Ok(())
}

/// The bytes of memory that the largest job of a plan needs.
#[must_use]
pub fn largest_job(plan: &Plan) -> u64 {
    plan.workloads.iter().map(memory_of).max().unwrap_or(0)
}

/// An unknown workload needs nothing: its job fails.
fn memory_of(item: &PlanItem) -> u64 {
    workload::by_name(&item.workload, item.scale).map_or(0, |workload| workload.memory())
}

impl JobRunner for WorkloadRunner {
    fn memory(&self, plan: &Plan, job: &Job) -> u64 {
        plan.workloads.get(job.item).map_or(0, memory_of)
    }

    fn run(&self, plan: &Plan, job: &Job, watch: &mut dyn Watch) -> Result<Outcome> {
        let item = plan.workloads.get(job.item);
        let item = item.ok_or_else(|| LabError::Plan("a job without a workload".to_owned()))?;
        let workload = workload::by_name(&item.workload, item.scale)?;
        let seed = plan.seed_of(job.replicate);
        let spec = TargetSpec::parse(&plan.target_in(job.combination))?;
        let mut target = spec.open(&Context { timer: Arc::new(RealTimer::start()), seed })?;
        workload::measure(&*workload, &mut *target, seed, PhaseOptions::default(), watch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Netnews took 4 GB at full size and the others at most 0.5 GB.
    #[test]
    fn a_workload_states_its_memory_by_its_scale() {
        let gb = |item: &PlanItem| memory_of(item) as f64 / f64::from(1 << 30);
        for item in Plan::paper().workloads {
            let least = if item.workload == "netnews" { 4.0 } else { 0.3 };
            assert!((least..1.5 * least + 0.5).contains(&gb(&item)), "{item:?}: {} GB", gb(&item));
        }
        assert!(largest_job(&Plan::paper()) > 4 << 30);
        assert!(largest_job(&Plan::quick()) < 600 << 20, "{}", largest_job(&Plan::quick()));
    }
}
