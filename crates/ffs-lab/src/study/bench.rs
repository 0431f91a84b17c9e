//! The jobs of a study, carried out: a workload on a target of its own.

use std::sync::Arc;

use super::plan::{Job, Plan};
use super::run::Bench;
use crate::error::{LabError, Result};
use crate::target::{Context, TargetSpec};
use crate::timer::RealTimer;
use crate::watch::Watch;
use crate::work::{self, Finish, Outcome};

/// The laboratory itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lab;

impl Lab {
    /// Refuses a plan whose workloads are not known.
    ///
    /// # Errors
    /// [`LabError::Plan`], with the name that was probably meant.
    pub fn knows(plan: &Plan) -> Result<()> {
        for item in &plan.workloads {
            let name = item.workload.split(':').next().unwrap_or_default();
            if !work::all().iter().any(|info| info.name == name) {
                return Err(work::unknown(name, &["paper"]));
            }
            work::by_name(&item.workload, item.scale)?;
        }
        Ok(())
    }
}

impl Bench for Lab {
    fn run(&self, plan: &Plan, job: &Job, watch: &mut dyn Watch) -> Result<Outcome> {
        let item = plan.workloads.get(job.item);
        let item = item.ok_or_else(|| LabError::Plan("a job without a workload".to_owned()))?;
        let workload = work::by_name(&item.workload, item.scale)?;
        let seed = plan.seed_of(job.replicate);
        let spec = TargetSpec::parse(&plan.target_in(job.combination))?;
        let mut target = spec.open(&Context { timer: Arc::new(RealTimer::start()), seed })?;
        work::measure(&*workload, &mut *target, seed, Finish::default(), watch)
    }
}
