//! The experiment: workloads under every combination of mount options, several runs of each, in
//! random order.
//!
//! | module | content |
//! | --- | --- |
//! | `plan`, `factor` | workloads, factors and replicates of a study; its jobs and their seeds |
//! | `builtin_plans` | the plans `paper` and `quick` |
//! | `run`, `job_queue`, `job_runner` | runs jobs on several threads, within a limit of memory |
//! | `results_file`, `file_format`, `checksum` | the results file: durable, resumable; its lines |
//! | `results` | the finished jobs of a study |
//! | `origin` | the program version and the simulated computers of a study |
//! | `merge` | joins the parts of a study |

mod builtin_plans;
mod checksum;
mod factor;
mod file_format;
mod job_queue;
mod job_runner;
mod merge;
mod origin;
mod plan;
mod results;
mod results_file;
mod run;
#[cfg(test)]
mod tests;

pub use factor::Factor;
pub(crate) use factor::check_number;
pub use job_runner::{WorkloadRunner, check_workloads, largest_job};
pub use merge::merge;
pub use origin::Origin;
pub use plan::{Job, Plan, PlanItem, Shard};
pub use results::{JobResult, Results};
pub use results_file::ResultsFile;
pub use run::{JobRunner, RunEnd, RunRequest, StudyProgress, StudyWatch, run};
