//! The workloads: written once, over any [`Target`].
//!
//! | module | holds |
//! | --- | --- |
//! | `words` | `name:parameter=value,...` understood, with suggestions for mistyped words |
//! | [`record`], `outcome` | phases measured, and what is told about them |
//! | `draw`, `tree`, `given` | random draws; trees generated, or given as an archive or a directory |
//! | `calls` | what programs do with files, out of a target's calls |
//! | `tar`, `mh`, `bonnie`, `andrew`, `postmark`, `netnews`, `buildworld`, `micro`, `randfiles` | the workloads |
//!
//! # Invariants
//! 1. Same words, same seed: the same calls in the same order on every target.
//! 2. [`measure`] leaves nothing behind, also after an error.
//! 3. Whoever looks on is asked often whether to go on, outside of nothing but the calls themselves.
//!
//! Reference: `spec/benchmarks.md` §4.

mod andrew;
mod bonnie;
mod buildworld;
mod calls;
mod draw;
mod given;
mod mh;
mod micro;
mod netnews;
mod outcome;
mod postmark;
mod randfiles;
pub mod record;
mod tar;
mod tree;
mod words;

use crate::error::{LabError, Result};
use crate::target::{Room, Target};
use crate::watch::Watch;

pub use outcome::{Metric, MetricKind, Outcome, PhaseResult};
pub use record::{Finish, PhaseInfo, Recorder};
pub use words::Param;
use words::Words;

/// Something that users of file systems do, or a model of it.
pub trait Workload: Send + Sync {
    /// What is told about it: name, parameters, source.
    fn info(&self) -> &'static Info;

    /// What its results are called together: its group in Figure 10, where it has one.
    fn group(&self) -> String {
        self.info().group.to_owned()
    }

    /// Its results, in the order of [`Outcome::metrics`].
    fn phases(&self) -> Vec<PhaseInfo>;

    /// What it needs at its largest.
    fn room(&self) -> Room;

    /// How often the watcher hears "done", nearly: for a progress bar.
    fn operations(&self) -> u64;

    /// Does it. It calls [`Target::begin`]; [`measure`] calls [`Target::end`].
    ///
    /// # Errors
    /// The target's, or `watch` wants to stop.
    fn run(
        &self,
        target: &mut dyn Target,
        seed: u64,
        recorder: &mut Recorder,
        watch: &mut dyn Watch,
    ) -> Result<()>;

    /// The outcome as the original program prints it, if it has a form of its own.
    fn report(&self, outcome: &Outcome) -> Option<String> {
        let _ = outcome;
        None
    }
}

/// A workload that can be asked for.
#[derive(Debug)]
pub struct Info {
    /// Its name on a command line.
    pub name: &'static str,
    /// What its results are called together, unless that depends on the parameters.
    pub group: &'static str,
    /// What it is, a sentence.
    pub about: &'static str,
    /// What can be set.
    pub params: &'static [Param],
    /// Where it comes from.
    pub source: &'static str,
    /// Whether it models programs that compute: [`Target::compute`].
    pub computes: bool,
    make: fn(&Words) -> Result<Box<dyn Workload>>,
}

/// Every workload.
#[must_use]
pub fn all() -> &'static [Info] {
    const ALL: [Info; 10] = [
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
    ];
    &ALL
}

/// Understands `name` or `name:parameter=value,...`. Counts, given or not, are multiplied by `scale`.
///
/// # Errors
/// [`LabError::Plan`], with what would be right.
pub fn by_name(words: &str, scale: f64) -> Result<Box<dyn Workload>> {
    let (name, params) = words.split_once(':').unwrap_or((words, ""));
    let Some(info) = all().iter().find(|info| info.name == name) else {
        return Err(unknown(name, &[]));
    };
    (info.make)(&Words::parse(name, params, info.params, scale)?)
}

/// The error of a name that is no workload's; `also` are names that would be right where it was given.
#[must_use]
pub fn unknown(name: &str, also: &[&str]) -> LabError {
    let names = all().iter().map(|info| info.name).chain(also.iter().copied());
    LabError::Plan(words::unknown("workload", name, names))
}

/// Runs a workload once and removes what it made.
///
/// # Errors
/// The target's, or `watch` wants to stop. The target is left as it was.
pub fn measure(
    workload: &dyn Workload,
    target: &mut dyn Target,
    seed: u64,
    finish: Finish,
    watch: &mut dyn Watch,
) -> Result<Outcome> {
    let mut recorder = Recorder::new(finish);
    let ran = workload.run(target, seed, &mut recorder, watch);
    let ended = target.end();
    ran?;
    ended?;
    Ok(recorder.finish(&workload.phases()))
}

#[cfg(test)]
mod tests;
