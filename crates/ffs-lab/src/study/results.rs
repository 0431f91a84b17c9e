//! What came out of a study.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::lines::Finished;
use super::plan::{Job, Plan};
use super::store;
use crate::error::{LabError, Result};
use crate::work::Outcome;

/// A finished job: one workload, one combination, one replicate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    /// The workload, as in [`super::Item::workload`].
    pub workload: String,
    /// Switches that were on, by bit; those of [`Plan::factors`].
    pub combination: u32,
    /// Which run of it, from 0.
    pub replicate: u32,
    /// Its seed.
    pub seed: u64,
    /// What it gave.
    pub outcome: Outcome,
}

/// A plan and its finished jobs, in the plan's order: workload, combination, replicate.
#[derive(Debug, Clone, PartialEq)]
pub struct Results {
    /// What was to be run.
    pub plan: Plan,
    /// What is there of it.
    pub jobs: Vec<JobResult>,
}

impl Results {
    /// Reads a results file, or that of a directory. Nothing is changed; `note` hears what is wrong
    /// with it.
    ///
    /// # Errors
    /// [`LabError::Unusable`] if there is none, or it cannot be read.
    pub fn read(path: &Path, note: &mut dyn FnMut(String)) -> Result<Results> {
        let (path, found) = store::read(path)?;
        store::tell_damage(&path, &found, note);
        let Some(plan) = found.plan else {
            let why = "the line that holds its plan is damaged; repeat the command that made it";
            return Err(LabError::unusable(&path.display().to_string(), why));
        };
        let mut finished = Finished::default();
        let tag = plan.tag()?;
        for (of, result, line) in found.jobs {
            if of != tag || !finished.add(&plan, result, line)? {
                let why = "holds a job that its plan has not";
                return Err(LabError::unusable(&path.display().to_string(), why));
            }
        }
        let jobs = finished.results().cloned().collect();
        Ok(Results { plan, jobs })
    }

    /// Jobs of the plan that are not there.
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
