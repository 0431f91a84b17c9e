//! The workloads. Each is written once and runs on any [`Target`].
//!
//! | module | content |
//! | --- | --- |
//! | `parameters` | parses `name:parameter=value,...` and suggests the nearest name |
//! | `recorder`, `outcome` | measures phases; the results of a run |
//! | `progress` | reports progress every few hundred calls |
//! | `random` | random numbers and distributions |
//! | `tree` | trees, and drawing them |
//! | `tree_shape`, `imported_tree` | trees of a recorded shape; trees read from elsewhere |
//! | `file_calls`, `open_path` | the calls of common programs; the open directories of a path |
//! | `tar` | extract, find, remove: the workloads `x11` and `ports` |
//! | the others | one workload each |
//!
//! # Invariants
//! 1. The same parameters and the same seed give the same calls in the same order on every target.
//! 2. [`measure`] removes what the workload made, also after an error.
//! 3. A workload reports progress often, and only between calls.
//!
//! Reference: `docs/spec/benchmarks.md` §4.

mod andrew;
mod bonnie;
mod buildworld;
mod file_calls;
mod imported_tree;
mod lookups;
mod mh;
mod micro;
mod netnews;
mod open_path;
mod outcome;
mod parameters;
mod postmark;
mod progress;
mod randfiles;
mod random;
mod recorder;
mod tar;
#[cfg(test)]
mod tests;
mod trace;
mod tree;
mod tree_shape;

use crate::error::{LabError, Result};
use crate::systems::{Demand, Target};
use crate::trace::resolve::Program;
use crate::watch::Watch;

pub(crate) use buildworld::PROCESSOR as BUILD_PROCESSOR;
pub use lookups::LookupShares;
pub(crate) use lookups::LookupTimes;
pub use outcome::{Metric, MetricKind, Outcome, PhaseResult};
pub use parameters::Parameter;
use parameters::Parameters;
pub use recorder::{PhaseInfo, PhaseOptions, PhaseRecorder};
pub use trace::TREE_DIFFERS;

/// Bytes that the simulated machine needs for each workload: blocks and inodes in memory, and the
/// changed parts of the aged volume.
const MACHINE_MEMORY: u64 = 400 << 20;
/// Bytes of a page of the simulated disk.
const PAGE: u64 = 4096;
/// Bytes of an inode and a directory entry on the disk, about.
const NAME: u64 = 256;

/// A benchmark: a program, or a model of one.
pub trait Workload: Send + Sync {
    /// Its name, parameters and source.
    fn info(&self) -> &'static WorkloadInfo;

    /// The title of its results: the group in Figure 10 of the paper, where it is in there.
    fn group(&self) -> String {
        self.info().group.to_owned()
    }

    /// Its results, in the order of [`Outcome::metrics`].
    fn phases(&self) -> Vec<PhaseInfo>;

    /// The files and bytes it needs at its largest.
    fn demand(&self) -> Demand;

    /// The bytes of memory that a run on the simulated machine needs at most, without the aged
    /// volume. All content is one repeated byte, so a file takes a page of the disk for its end
    /// and nothing for the rest; a file without content takes its inode and its name.
    fn memory(&self) -> u64 {
        let Demand { files, bytes } = self.demand();
        MACHINE_MEMORY + files.saturating_mul(PAGE).min(bytes) + files.saturating_mul(NAME)
    }

    /// About how many operations it reports to [`Watch::done`]: the length of a progress bar.
    fn operations(&self) -> u64;

    /// Runs it once. It calls [`Target::begin`]; [`measure`] calls [`Target::end`].
    ///
    /// # Errors
    /// The target's, or [`LabError::Interrupted`].
    fn run(
        &self,
        target: &mut dyn Target,
        seed: u64,
        recorder: &mut PhaseRecorder,
        watch: &mut dyn Watch,
    ) -> Result<()>;

    /// The outcome in the output format of the original program, if that is implemented.
    fn report(&self, outcome: &Outcome) -> Option<String> {
        let _ = outcome;
        None
    }
}

/// The description of a workload.
#[derive(Debug)]
pub struct WorkloadInfo {
    /// Its name on the command line.
    pub name: &'static str,
    /// The title of its results, unless that depends on the parameters.
    pub group: &'static str,
    /// One sentence about it.
    pub about: &'static str,
    /// Its parameters.
    pub params: &'static [Parameter],
    /// The paper, program or data it is made from.
    pub source: &'static str,
    /// Whether it models programs that use processor time: [`Target::compute`].
    pub(crate) computes: bool,
    make: fn(&Parameters) -> Result<Box<dyn Workload>>,
}

/// All workloads.
#[must_use]
pub fn all() -> &'static [WorkloadInfo] {
    const ALL: [WorkloadInfo; 11] = [
        tar::X11,
        mh::INFO,
        bonnie::INFO,
        andrew::INFO,
        postmark::INFO,
        netnews::INFO,
        buildworld::INFO,
        micro::INFO,
        randfiles::INFO,
        tar::PORTS,
        trace::INFO,
    ];
    &ALL
}

/// Parses `name` or `name:parameter=value,...`. Counts are multiplied by `scale`, given ones too.
///
/// # Errors
/// [`LabError::Plan`] names the mistake and the nearest valid name.
pub fn by_name(text: &str, scale: f64) -> Result<Box<dyn Workload>> {
    let (name, params) = text.split_once(':').unwrap_or((text, ""));
    let Some(info) = all().iter().find(|info| info.name == name) else {
        return Err(unknown(name, &[]));
    };
    (info.make)(&Parameters::parse(name, params, info.params, scale)?)
}

/// A program from a trace. `think` is the processor time that a target in virtual time spends for
/// each unit of time between two calls.
#[must_use]
pub fn of_program(program: Program, think: f64) -> Box<dyn Workload> {
    Box::new(trace::TraceWorkload::new(program, think))
}

/// The error for an unknown workload name. `also` lists other names that are valid in its place.
#[must_use]
pub fn unknown(name: &str, also: &[&str]) -> LabError {
    let names = all().iter().map(|info| info.name).chain(also.iter().copied());
    LabError::Plan(parameters::unknown("workload", name, names))
}

/// Runs a workload once and removes what it made.
///
/// # Errors
/// The target's, or [`LabError::Interrupted`]. What the workload made is removed first.
pub fn measure(
    workload: &dyn Workload,
    target: &mut dyn Target,
    seed: u64,
    options: PhaseOptions,
    watch: &mut dyn Watch,
) -> Result<Outcome> {
    let mut recorder = PhaseRecorder::new(options);
    let ran = workload.run(target, seed, &mut recorder, watch);
    let ended = target.end();
    ran?;
    ended?;
    Ok(recorder.finish(&workload.phases()))
}
