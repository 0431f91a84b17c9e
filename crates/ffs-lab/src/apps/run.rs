//! Runs every program on every file system.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use super::draw::StateId;
use super::driver::{Answer, Driver, Program, Promise};
use super::examine::{Environment, StateResult, States};
use super::failed;
use super::keep::{self, Label};
use super::record::{Run, Serve, record};
use super::side::{Host, Side, View};
use crate::error::{LabError, Result};
use crate::watch::Watch;

/// The plan of a run.
pub struct Plan<'a> {
    /// Names of programs or prefixes of names; empty: all programs.
    pub programs: Vec<String>,
    /// The file systems.
    pub sides: Vec<Side>,
    /// States of each recording to examine.
    pub states: usize,
    /// Steps of each program.
    pub steps: u32,
    /// The seed of contents and states.
    pub seed: u64,
    /// Bytes of a volume.
    pub size: u64,
    /// The `ffs` command.
    pub ffs: PathBuf,
    /// An empty directory for temporary files.
    pub work: &'a Path,
    /// The directory for recordings; `None`: they are not kept.
    pub keep: Option<PathBuf>,
    /// Serves a device as a file.
    pub serve: Serve<'a>,
}

/// The first state with some defect.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// The name of the state in the recording.
    pub state: String,
    /// How it was mounted.
    pub view: String,
    /// The number of acknowledged steps.
    pub acked: usize,
    /// The defect.
    pub why: String,
}

/// The results of one program on one file system.
#[derive(Clone, Debug, Serialize)]
pub struct ProgramResults {
    /// The program.
    pub program: String,
    /// Its guarantee.
    pub promise: Promise,
    /// The file system.
    pub side: String,
    /// States examined; each mounted in every way of the file system.
    pub states: usize,
    /// States in which acknowledged steps are missing.
    pub lost: usize,
    /// The most steps that are missing in one state.
    pub lost_most: u64,
    /// States in which the program cannot use its data.
    pub broken: usize,
    /// States that are mounted read-only before a repair.
    pub read_only: usize,
    /// States that cannot be mounted before a repair.
    pub unmountable: usize,
    /// The first of `lost`.
    pub first_lost: Option<Found>,
    /// The first of `broken`, `read_only` and `unmountable`.
    pub first_broken: Option<Found>,
    /// The reason why it could not be run.
    pub skipped: Option<String>,
    /// The time that it took, seconds.
    pub seconds: f64,
}

impl ProgramResults {
    fn new(program: &Program, side: &Side) -> ProgramResults {
        ProgramResults {
            program: program.name.clone(),
            promise: program.promise,
            side: side.to_string(),
            states: 0,
            lost: 0,
            lost_most: 0,
            broken: 0,
            read_only: 0,
            unmountable: 0,
            first_lost: None,
            first_broken: None,
            skipped: None,
            seconds: 0.0,
        }
    }

    /// States that break the guarantee of the program.
    #[must_use]
    pub fn violations(&self) -> usize {
        match self.promise {
            Promise::Durable => self.lost + self.broken,
            Promise::Usable => self.broken,
            Promise::None => 0,
        }
    }

    /// Adds the results of one state.
    fn count(&mut self, results: &[StateResult]) {
        let found = |result: &StateResult, why: String| Found {
            state: result.state.to_string(),
            view: result.view.to_string(),
            acked: result.acked,
            why,
        };
        self.states += 1;
        if let Some(result) = results.iter().max_by_key(|result| result.answer.lost)
            && result.answer.lost > 0
        {
            self.lost += 1;
            self.lost_most = self.lost_most.max(result.answer.lost);
            let why = format!("{} of {} steps are missing", result.answer.lost, result.acked);
            self.first_lost.get_or_insert_with(|| found(result, why));
        }
        if let Some((result, why)) =
            worst(results).and_then(|result| Some((result, result.answer.broken.clone()?)))
        {
            // After `fsck -p` a state must be usable. Before, a torn superblock may prevent a
            // mount.
            *(match waits(result) {
                true if result.answer.read_only => &mut self.read_only,
                true => &mut self.unmountable,
                false => &mut self.broken,
            }) += 1;
            self.first_broken.get_or_insert_with(|| found(result, why));
        }
    }
}

/// The worst result of a state. Unusable data is worse than a volume that cannot be mounted yet.
fn worst(results: &[StateResult]) -> Option<&StateResult> {
    let broken = results.iter().filter(|result| result.answer.broken.is_some());
    broken.min_by_key(|result| waits(result))
}

/// Whether a state only waits for a repair.
fn waits(result: &StateResult) -> bool {
    let Answer { unmountable, read_only, .. } = result.answer;
    (unmountable || read_only) && result.view == View::AsFound
}

/// The programs of the plan.
///
/// # Errors
/// [`LabError::Plan`] for a name that no program has.
fn chosen(plan: &Plan<'_>, all: Vec<Program>) -> Result<Vec<Program>> {
    for name in &plan.programs {
        if !all.iter().any(|program| program.name.starts_with(name)) {
            let near = ffs_core::nearest(name, all.iter().map(|program| &*program.name));
            let why = format!("no program '{name}'{}", ffs_core::suggestion(near));
            return Err(LabError::Plan(why));
        }
    }
    let names: BTreeSet<String> = all.iter().map(|program| program.name.clone()).collect();
    // A complete name selects that program only.
    let means = |name: &String, program: &Program| {
        if names.contains(name) { program.name == *name } else { program.name.starts_with(name) }
    };
    let wanted = |program: &Program| {
        plan.programs.is_empty() || plan.programs.iter().any(|name| means(name, program))
    };
    Ok(all.into_iter().filter(wanted).collect())
}

/// Runs the plan and calls `row` with the results of each program on each file system.
///
/// # Errors
/// [`LabError::Plan`] for an unknown program, [`LabError::Interrupted`]. A failure on one file
/// system is part of its results.
pub fn run(
    plan: &Plan<'_>,
    watch: &mut dyn Watch,
    mut row: impl FnMut(ProgramResults),
) -> Result<()> {
    let driver = driver(plan.work)?;
    for program in chosen(plan, driver.list()?)? {
        for side in &plan.sides {
            watch.step(&format!("{} on {side}", program.name));
            let done = match &program.missing {
                Some(why) => ProgramResults {
                    skipped: Some(why.clone()),
                    ..ProgramResults::new(&program, side)
                },
                None => one(plan, &driver, &program, side, watch)?,
            };
            row(done);
        }
    }
    Ok(())
}

/// Writes the scripts to a directory below `work`.
fn driver(work: &Path) -> Result<Driver> {
    let scripts = work.join("scripts");
    fs::create_dir_all(&scripts).map_err(|e| failed("apps", "scripts", e))?;
    Driver::new(&scripts)
}

/// Runs one program on one file system.
fn one(
    plan: &Plan<'_>,
    driver: &Driver,
    program: &Program,
    side: &Side,
    watch: &mut dyn Watch,
) -> Result<ProgramResults> {
    let started = Instant::now();
    let mut row = ProgramResults::new(program, side);
    let outcome = try_one(plan, driver, side, &mut row, watch);
    row.seconds = started.elapsed().as_secs_f64();
    match outcome {
        Err(LabError::Interrupted) => Err(LabError::Interrupted),
        Err(_) if !watch.done(0) => Err(LabError::Interrupted),
        Err(LabError::Unusable { why, .. }) => {
            row.skipped = Some(why);
            Ok(row)
        }
        Err(error) => {
            // A program that fails on a file system cannot use its data there.
            row.broken += 1;
            let (state, view) = ("-".to_owned(), "at work".to_owned());
            row.first_broken = Some(Found { state, view, acked: 0, why: error.to_string() });
            Ok(row)
        }
        Ok(()) => Ok(row),
    }
}

fn try_one(
    plan: &Plan<'_>,
    driver: &Driver,
    side: &Side,
    row: &mut ProgramResults,
    watch: &mut dyn Watch,
) -> Result<()> {
    let host = Host { ffs: plan.ffs.clone() };
    let program = row.program.clone();
    let recording = record(&Run {
        driver,
        host: &host,
        serve: plan.serve,
        side,
        program: &program,
        seed: plan.seed,
        steps: plan.steps,
        size: plan.size,
        work: plan.work,
    })?;
    if let Some(dir) = &plan.keep {
        let label = Label { program: program.clone(), side: side.to_string(), seed: plan.seed };
        let name = format!("{program}@{side}").replace(['/', ':', ','], "-");
        keep::save(&dir.join(name), &label, &recording)?;
    }
    let states = States::new(&recording, plan.seed)?;
    let mut checker = driver.checker(&program, plan.seed)?;
    let checker = &mut checker;
    let mut environment = Environment { host: &host, side, checker, work: plan.work };
    let mut results: Vec<StateResult> = Vec::new();
    states.examine(plan.states, &mut environment, watch, |result| {
        if results.first().is_some_and(|first| first.state != result.state) {
            row.count(&results);
            results.clear();
        }
        results.push(result);
    })?;
    if !results.is_empty() {
        row.count(&results);
    }
    Ok(())
}

/// Examines one state of a kept recording again. Its image stays in the recording's directory as
/// `state`.
///
/// # Errors
/// [`LabError::Plan`] if there is no such recording or state.
pub fn again(
    dir: &Path,
    state: StateId,
    ffs: &Path,
    work: &Path,
) -> Result<(Label, Vec<StateResult>)> {
    let (label, recording) = keep::load(dir)?;
    let side: Side = label.side.parse()?;
    let (driver, host) = (driver(work)?, Host { ffs: ffs.to_owned() });
    let states = States::new(&recording, label.seed)?;
    let mut checker = driver.checker(&label.program, label.seed)?;
    let mut environment = Environment { host: &host, side: &side, checker: &mut checker, work };
    let results = states.examine_one(state, &mut environment, &dir.join("state"))?;
    Ok((label, results))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(view: View, answer: Answer) -> StateResult {
        StateResult { state: "1:p0".parse().unwrap(), view, acked: 3, answer }
    }

    /// A volume that is mounted read-only can be read: it is no unmountable one.
    #[test]
    fn read_only_and_unmountable_states_are_counted_apart() {
        let program = Program {
            name: "one".to_owned(),
            what: String::new(),
            promise: Promise::Durable,
            version: None,
            missing: None,
        };
        let mut row = ProgramResults::new(&program, &"ffs".parse().unwrap());
        let fine = Answer { lost: 0, broken: None, unmountable: false, read_only: false };
        let bad = |unmountable, read_only| Answer {
            broken: Some("why".to_owned()),
            unmountable,
            read_only,
            ..fine.clone()
        };
        let (found, repaired) = (View::AsFound, View::Repaired);
        let counts = |row: &ProgramResults| [row.read_only, row.unmountable, row.broken];
        row.count(&[result(found, bad(false, true)), result(repaired, fine.clone())]);
        assert_eq!((counts(&row), row.violations()), ([1, 0, 0], 0));
        row.count(&[result(found, bad(true, false)), result(repaired, fine.clone())]);
        assert_eq!((counts(&row), row.violations()), ([1, 1, 0], 0));
        // After a repair it must be writable.
        row.count(&[result(found, bad(false, true)), result(repaired, bad(false, true))]);
        assert_eq!((counts(&row), row.violations()), ([1, 1, 1], 1));
        row.count(&[result(found, bad(false, false)), result(repaired, fine)]);
        assert_eq!((counts(&row), row.violations()), ([1, 1, 2], 2));
    }
}
