//! The experiment: every combination of switches, several times, in random order.
//!
//! | module | holds |
//! | --- | --- |
//! | [`plan`], [`factor`] | what is to be run: workloads, switches, replicates; jobs, seeds and their order |
//! | [`mod@run`], [`mod@bench`] | jobs on all cores; what a job is |
//! | [`store`], `lines` | the results file: durable, resumed, repaired |
//! | [`origin`] | by which program, on which machines |
//! | [`mod@merge`] | parts of a study joined |
//! | [`results`] | what came out |

pub mod bench;
pub mod factor;
mod lines;
pub mod merge;
pub mod origin;
pub mod plan;
mod plans;
pub mod results;
pub mod run;
pub mod store;
#[cfg(test)]
mod tests;

pub use bench::Lab;
pub use factor::Factor;
pub use merge::merge;
pub use origin::Origin;
pub use plan::{Item, Job, Plan, Shard};
pub use results::{JobResult, Results};
pub use run::{Bench, Ended, Onlooker, Progress, Request, run};
pub use store::Store;
