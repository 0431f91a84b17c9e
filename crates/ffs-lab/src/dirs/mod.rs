//! The cost of each operation in one directory with N empty files.
//!
//! A round makes a new directory and runs the phases in it. A name is `f` and a padded number, so
//! entries of up to a million names have 16 bytes. Each phase visits the names in its own order,
//! which depends on the seed, or in the order of the directory.
//!
//! Reference: `docs/spec/benchmarks.md` §4.8, §4.9.

mod measure;

use std::time::Duration;

pub use measure::Timing;
use measure::timed;

use crate::error::{LabError, Result};
use crate::file_names::{FileNames, digits};
use crate::shuffle::{Purpose, shuffled};
use crate::systems::{Demand, DirId, Forgotten, Target};
use crate::watch::Watch;

/// The fewest digits of a name, so that a million names have the same length.
const LEAST_DIGITS: usize = 6;

/// A phase of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Create the files in shuffled order.
    Create,
    /// List the directory.
    List,
    /// `stat` of names that were looked up just before.
    Stat,
    /// `stat` of names that are not in the name cache.
    StatCold,
    /// `stat` of names that do not exist, each once.
    Miss,
    /// Rename each file to a name of the same length.
    Rename,
    /// Remove the files.
    Unlink,
}

impl Phase {
    /// All phases, in the order of a round.
    pub const ALL: [Phase; 7] = [
        Phase::Create,
        Phase::List,
        Phase::Stat,
        Phase::StatCold,
        Phase::Miss,
        Phase::Rename,
        Phase::Unlink,
    ];

    /// Its name in the results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Phase::Create => "create",
            Phase::List => "list",
            Phase::Stat => "stat",
            Phase::StatCold => "stat-cold",
            Phase::Miss => "miss",
            Phase::Rename => "rename",
            Phase::Unlink => "unlink",
        }
    }

    fn changes(self) -> bool {
        matches!(self, Phase::Create | Phase::Rename | Phase::Unlink)
    }
}

/// The order in which the phases after `create` visit the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VisitOrder {
    /// Shuffled, differently in each phase.
    #[default]
    Shuffled,
    /// The order of the directory.
    Listing,
}

impl VisitOrder {
    /// Its name in the results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            VisitOrder::Shuffled => "shuffled",
            VisitOrder::Listing => "listing",
        }
    }
}

/// The plan of a round.
#[derive(Debug, Clone, Copy)]
pub struct DirPlan {
    /// The number of files.
    pub n: u32,
    /// The seed of the orders.
    pub seed: u64,
    /// The order of the names in `stat`, `stat-cold`, `rename` and `unlink`.
    pub order: VisitOrder,
}

impl DirPlan {
    fn digits(&self) -> usize {
        digits(self.n).max(LEAST_DIGITS)
    }

    /// The names with `prefix`, shuffled for `purpose`.
    #[must_use]
    pub fn names(&self, prefix: &str, purpose: Purpose) -> FileNames {
        FileNames::new(prefix, self.digits(), shuffled(self.n, self.seed, purpose))
    }
}

/// The cost of a phase.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseCost {
    /// The operations and their time.
    pub(crate) timing: Timing,
    /// The time of the sync after the phase, which `timing` does not include.
    pub sync: Duration,
    /// How the target dropped names before the phase.
    pub forgot: Option<&'static str>,
}

/// The result of a phase.
#[derive(Debug, Clone, PartialEq)]
pub enum PhaseOutcome {
    /// It was measured.
    Measured(PhaseCost),
    /// It was skipped for this reason.
    Skipped(String),
}

/// A directory under test.
pub struct Round<'a> {
    target: &'a mut dyn Target,
    dir: DirId,
    plan: DirPlan,
}

impl<'a> Round<'a> {
    /// Makes the directory.
    ///
    /// # Errors
    /// The target is not usable.
    pub fn begin(target: &'a mut dyn Target, plan: DirPlan) -> Result<Round<'a>> {
        let dir = target.begin(Demand::files(u64::from(plan.n)))?;
        Ok(Round { target, dir, plan })
    }

    /// Removes the directory and its content.
    ///
    /// # Errors
    /// Something cannot be removed.
    pub fn end(self) -> Result<()> {
        self.target.end()
    }

    /// Runs one phase. Phases run in the order of [`Phase::ALL`].
    ///
    /// # Errors
    /// An operation failed, or `watch` stopped it.
    pub fn run(&mut self, phase: Phase, watch: &mut dyn Watch) -> Result<PhaseOutcome> {
        let mut forgot = None;
        if phase == Phase::StatCold {
            match self.target.forget()? {
                Forgotten::Done(how) => forgot = Some(how),
                Forgotten::Impossible(why) => return Ok(PhaseOutcome::Skipped(why)),
            }
        }
        let timing = self.time(phase, watch)?;
        let sync = if phase.changes() { self.sync()? } else { Duration::ZERO };
        Ok(PhaseOutcome::Measured(PhaseCost { timing, sync, forgot }))
    }

    fn sync(&mut self) -> Result<Duration> {
        let before = self.target.now();
        self.target.sync()?;
        Ok(self.target.now().saturating_sub(before))
    }

    fn time(&mut self, phase: Phase, watch: &mut dyn Watch) -> Result<Timing> {
        let dir = self.dir;
        match phase {
            Phase::Create => {
                let names = self.plan.names("f", Purpose::Create);
                create_all(self.target, dir, &names, watch)
            }
            Phase::List => self.time_list(watch),
            Phase::Stat => {
                let names = self.files("f", Purpose::Stat)?;
                // This pass fills the name cache.
                stat_all(self.target, dir, &names, watch)?;
                stat_all(self.target, dir, &names, watch)
            }
            Phase::StatCold => {
                let names = self.files("f", Purpose::Stat)?;
                stat_all(self.target, dir, &names, watch)
            }
            Phase::Miss => miss_all(self.target, dir, &self.plan.names("m", Purpose::Miss), watch),
            Phase::Rename => {
                let names = self.files("f", Purpose::Rename)?;
                let to = names.renamed("r");
                let mut to = to.iter();
                timed(self.target, &names, watch, |t, name| {
                    t.rename(dir, name, to.next().unwrap_or_default())
                })
            }
            Phase::Unlink => {
                let names = self.files("r", Purpose::Unlink)?;
                unlink_all(self.target, dir, &names, watch)
            }
        }
    }

    /// The names of the files, which now have `prefix`, in the order of the plan.
    fn files(&mut self, prefix: &str, purpose: Purpose) -> Result<FileNames> {
        match self.plan.order {
            VisitOrder::Shuffled => Ok(self.plan.names(prefix, purpose)),
            VisitOrder::Listing => listed(self.target, self.dir, &self.plan),
        }
    }

    fn time_list(&mut self, watch: &mut dyn Watch) -> Result<Timing> {
        let mut seen = 0u64;
        let (cpu, before) = (self.target.cpu(), self.target.now());
        self.target.list(self.dir, &mut |_| seen += 1)?;
        let total = self.target.now().saturating_sub(before);
        let cpu = self.target.cpu().saturating_sub(cpu);
        if seen != u64::from(self.plan.n) {
            return Err(wrong(self.target, format!("lists {seen} names of {}", self.plan.n)));
        }
        if !watch.done(seen) {
            return Err(LabError::Interrupted);
        }
        Ok(Timing { ops: seen, total, cpu })
    }
}

/// The names of the plan's files in the order of the directory.
///
/// # Errors
/// The target's.
pub fn listed(target: &mut dyn Target, dir: DirId, plan: &DirPlan) -> Result<FileNames> {
    let mut names = FileNames::listed(plan.digits() + 1);
    target.list(dir, &mut |name| names.push(name))?;
    Ok(names)
}

/// Creates files.
///
/// # Errors
/// The target's, or stopped.
pub(crate) fn create_all(
    target: &mut dyn Target,
    dir: DirId,
    names: &FileNames,
    watch: &mut dyn Watch,
) -> Result<Timing> {
    timed(target, names, watch, |t, name| t.create(dir, name))
}

/// Calls `stat` for names that exist.
///
/// # Errors
/// The target's, or stopped; or a name does not exist.
pub(crate) fn stat_all(
    target: &mut dyn Target,
    dir: DirId,
    names: &FileNames,
    watch: &mut dyn Watch,
) -> Result<Timing> {
    timed(target, names, watch, |t, name| match t.stat(dir, name)? {
        Some(_) => Ok(()),
        None => Err(wrong(t, format!("'{}' is not found", name.escape_ascii()))),
    })
}

/// Calls `stat` for names that do not exist.
///
/// # Errors
/// The target's, or stopped; or a name exists.
pub(crate) fn miss_all(
    target: &mut dyn Target,
    dir: DirId,
    names: &FileNames,
    watch: &mut dyn Watch,
) -> Result<Timing> {
    timed(target, names, watch, |t, name| match t.stat(dir, name)? {
        None => Ok(()),
        Some(_) => Err(wrong(t, format!("finds '{}'", name.escape_ascii()))),
    })
}

/// Removes files.
///
/// # Errors
/// The target's, or stopped.
pub(crate) fn unlink_all(
    target: &mut dyn Target,
    dir: DirId,
    names: &FileNames,
    watch: &mut dyn Watch,
) -> Result<Timing> {
    timed(target, names, watch, |t, name| t.unlink(dir, name))
}

/// The error for a wrong answer of the target.
#[cold]
fn wrong(target: &dyn Target, why: String) -> LabError {
    let what = "wrong answer".to_owned();
    LabError::Failed { target: target.label().to_owned(), what, why, full: false }
}

#[cfg(test)]
mod tests;
