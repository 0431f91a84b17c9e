//! The results of a study.

use serde::{Deserialize, Serialize};

use super::plan::{Job, Plan};
use crate::workload::Outcome;

/// The result of a job: one workload, one combination, one replicate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    /// The workload, as in [`super::PlanItem::workload`].
    pub workload: String,
    /// The options that were on: bits in the order of [`Plan::factors`] and their levels.
    pub combination: u32,
    /// The number of the run, from 0.
    pub replicate: u32,
    /// Its seed.
    pub seed: u64,
    /// The measurements.
    pub outcome: Outcome,
}

/// A plan and its finished jobs, ordered by workload, combination and replicate.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// The plan.
    pub plan: Plan,
    /// The finished jobs.
    pub jobs: Vec<JobResult>,
}

impl Results {
    /// The jobs of the plan that are not finished.
    #[must_use]
    pub fn missing(&self) -> Vec<Job> {
        let there = |job: &Job| {
            let item = self.plan.workloads.get(job.item);
            self.jobs.iter().any(|result| {
                item.is_some_and(|item| item.workload == result.workload)
                    && (result.combination, result.replicate) == (job.combination, job.replicate)
            })
        };
        self.plan.jobs().into_iter().filter(|job| !there(job)).collect()
    }
}
