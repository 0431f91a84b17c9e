//! One directory and N empty files: what each operation costs.
//!
//! A round makes a new directory and runs the phases over it. FileNames are `f` and a padded number (so
//! that records of up to a million names have 16 bytes); every phase goes through them in an order of
//! its own that follows from the seed, or in the directory's own order.
//!
//! Reference: `spec/benchmarks.md` §4.8, §4.9.

mod measure;

use std::time::Duration;

pub use measure::Timing;
use measure::timed;

use crate::error::{LabError, Result};
use crate::file_names::{FileNames, digits};
use crate::shuffle::{Purpose, shuffled};
use crate::systems::{DirId, Forgotten, Room, Target};
use crate::watch::Watch;

/// Digits of a name at least: up to a million files have names of one length.
const LEAST_DIGITS: usize = 6;

/// A part of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Make the files, names shuffled.
    Create,
    /// List the directory.
    List,
    /// Attributes of names that were looked up just before.
    Stat,
    /// Attributes of names that were forgotten.
    StatCold,
    /// Attributes of names that do not exist, none asked for twice.
    Miss,
    /// Give each file another name of the same length.
    Rename,
    /// Remove the files.
    Unlink,
}

impl Phase {
    /// Every phase, in the order of a round.
    pub const ALL: [Phase; 7] = [
        Phase::Create,
        Phase::List,
        Phase::Stat,
        Phase::StatCold,
        Phase::Miss,
        Phase::Rename,
        Phase::Unlink,
    ];

    /// Its name, as results have it.
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

/// The order in which files are looked at, renamed and removed. They are made shuffled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VisitOrder {
    /// Each phase in its own shuffle.
    #[default]
    Shuffled,
    /// As the directory lists them.
    Listing,
}

impl VisitOrder {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            VisitOrder::Shuffled => "shuffled",
            VisitOrder::Listing => "listing",
        }
    }
}

/// What a round does.
#[derive(Debug, Clone, Copy)]
pub struct DirPlan {
    /// Files.
    pub n: u32,
    /// Orders follow from it.
    pub seed: u64,
    /// Order in which to visit the names in `stat`, `stat-cold`, `rename` and `unlink`.
    pub order: VisitOrder,
}

impl DirPlan {
    fn digits(&self) -> usize {
        digits(self.n).max(LEAST_DIGITS)
    }

    /// The files' names under `prefix`, in the shuffle for `purpose`.
    #[must_use]
    pub fn names(&self, prefix: &str, purpose: Purpose) -> FileNames {
        FileNames::new(prefix, self.digits(), shuffled(self.n, self.seed, purpose))
    }
}

/// What a phase of a round cost.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseCost {
    /// Operations, and how long they took.
    pub timing: Timing,
    /// Writing back afterwards what the phase changed; not in `timing`.
    pub sync: Duration,
    /// How names were forgotten before the phase.
    pub forgot: Option<&'static str>,
}

/// Whether a phase could be measured.
#[derive(Debug, Clone, PartialEq)]
pub enum PhaseOutcome {
    /// It was.
    Measured(PhaseCost),
    /// It was not, for this reason.
    Skipped(String),
}

/// A directory under test, between its phases.
pub struct Round<'a> {
    target: &'a mut dyn Target,
    dir: DirId,
    plan: DirPlan,
}

impl<'a> Round<'a> {
    /// Makes the directory.
    ///
    /// # Errors
    /// The target cannot be used.
    pub fn begin(target: &'a mut dyn Target, plan: DirPlan) -> Result<Round<'a>> {
        let dir = target.begin(Room::files(u64::from(plan.n)))?;
        Ok(Round { target, dir, plan })
    }

    /// Removes what is left.
    ///
    /// # Errors
    /// What could not be removed.
    pub fn end(self) -> Result<()> {
        self.target.end()
    }

    /// Runs one phase; phases come in the order of [`Phase::ALL`].
    ///
    /// # Errors
    /// An operation failed, or `watch` wants to stop.
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
                // The pass that makes the name cache warm.
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

    /// The files' names, now under `prefix`, in the order of the plan.
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

/// The names of the plan's files as the directory lists them.
///
/// # Errors
/// The target's.
pub fn listed(target: &mut dyn Target, dir: DirId, plan: &DirPlan) -> Result<FileNames> {
    let mut names = FileNames::listed(plan.digits() + 1);
    target.list(dir, &mut |name| names.push(name))?;
    Ok(names)
}

/// Makes files.
///
/// # Errors
/// The target's, or stopped.
pub fn create_all(
    target: &mut dyn Target,
    dir: DirId,
    names: &FileNames,
    watch: &mut dyn Watch,
) -> Result<Timing> {
    timed(target, names, watch, |t, name| t.create(dir, name))
}

/// Looks at names that exist.
///
/// # Errors
/// The target's, or stopped; a name that is not there.
pub fn stat_all(
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

/// Looks for names that do not exist.
///
/// # Errors
/// The target's, or stopped; a name that is there.
pub fn miss_all(
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
pub fn unlink_all(
    target: &mut dyn Target,
    dir: DirId,
    names: &FileNames,
    watch: &mut dyn Watch,
) -> Result<Timing> {
    timed(target, names, watch, |t, name| t.unlink(dir, name))
}

/// A target that answers wrongly.
#[cold]
fn wrong(target: &dyn Target, why: String) -> LabError {
    let what = "wrong answer".to_owned();
    LabError::Failed { target: target.label().to_owned(), what, why, full: false }
}

#[cfg(test)]
mod tests;
