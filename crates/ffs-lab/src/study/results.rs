//! The results of a study.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::file_format::FinishedJobs;
use super::plan::{Job, Plan};
use super::results_file;
use crate::error::{LabError, Result};
use crate::workload::Outcome;

/// The result of a job: one workload, one combination, one replicate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobResult {
    /// The workload, as in [`super::PlanItem::workload`].
    pub workload: String,
    /// The factors that were on: bits in the order of [`Plan::factors`].
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
    /// Reads a results file, or the one in a directory, and changes nothing. Damage is reported to
    /// `note`.
    ///
    /// # Errors
    /// [`LabError::Unusable`] if the file does not exist or cannot be read.
    pub fn read(path: &Path, note: &mut dyn FnMut(String)) -> Result<Results> {
        let (path, found) = results_file::read(path)?;
        results_file::report_damage(&path, &found, note);
        let Some(plan) = found.plan else {
            let why = "the line that holds its plan is damaged; repeat the command that made it";
            return Err(LabError::unusable(&path.display().to_string(), why));
        };
        let mut finished = FinishedJobs::default();
        let tag = plan.tag()?;
        for (of, result, line) in found.jobs {
            if of != tag || !finished.add(&plan, result, line)? {
                let why = "holds a job that is not in its plan";
                return Err(LabError::unusable(&path.display().to_string(), why));
            }
        }
        let jobs = finished.results().cloned().collect();
        Ok(Results { plan, jobs })
    }

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
