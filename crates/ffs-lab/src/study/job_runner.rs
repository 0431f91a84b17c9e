//! Runs one job of a study: a workload on a target of its own.

use std::sync::Arc;

use super::plan::{Job, Plan};
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

impl JobRunner for WorkloadRunner {
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
