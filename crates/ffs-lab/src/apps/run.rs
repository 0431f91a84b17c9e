//! Every program on every file system.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use super::draw::StateId;
use super::driver::{Driver, Program, Promise};
use super::examine::{Look, Place, States};
use super::failed;
use super::keep::{self, Label};
use super::record::{Run, Serve, record};
use super::side::{Host, Side, View};
use crate::error::{LabError, Result};
use crate::watch::Watch;

/// What is to be run.
pub struct Plan<'a> {
    /// Names of programs, or their beginnings; all if there are none.
    pub programs: Vec<String>,
    /// The file systems.
    pub sides: Vec<Side>,
    /// States of each recording.
    pub states: usize,
    /// Steps of each program.
    pub steps: u32,
    /// Seeds contents and states.
    pub seed: u64,
    /// Bytes of a volume.
    pub size: u64,
    /// The `ffs` command.
    pub ffs: PathBuf,
    /// An empty directory to work in.
    pub work: &'a Path,
    /// Where recordings are kept.
    pub keep: Option<PathBuf>,
    /// How a device becomes a file.
    pub serve: Serve<'a>,
}

/// The first state of its kind.
#[derive(Clone, Debug, Serialize)]
pub struct Found {
    /// Its name in the recording.
    pub state: String,
    /// How it was mounted.
    pub view: String,
    /// Steps that had been acknowledged.
    pub acked: usize,
    /// What is wrong.
    pub why: String,
}

/// What came of one program on one file system.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The program.
    pub program: String,
    /// What it promises.
    pub promise: Promise,
    /// The file system.
    pub side: String,
    /// States examined; each mounted in every way of the file system.
    pub states: usize,
    /// States in which acknowledged steps are missing.
    pub lost: usize,
    /// Steps missing at most.
    pub lost_most: u64,
    /// States in which the program cannot use its data.
    pub broken: usize,
    /// States that cannot be mounted to be written before they are repaired.
    pub unmountable: usize,
    /// The first of `lost`.
    pub first_lost: Option<Found>,
    /// The first of `broken`, or of `unmountable`.
    pub first_broken: Option<Found>,
    /// Why it could not be run.
    pub skipped: Option<String>,
    /// How long it took.
    pub seconds: f64,
}

impl Row {
    fn new(program: &Program, side: &Side) -> Row {
        Row {
            program: program.name.clone(),
            promise: program.promise,
            side: side.to_string(),
            states: 0,
            lost: 0,
            lost_most: 0,
            broken: 0,
            unmountable: 0,
            first_lost: None,
            first_broken: None,
            skipped: None,
            seconds: 0.0,
        }
    }

    /// States that break what the program promises.
    #[must_use]
    pub fn violations(&self) -> usize {
        match self.promise {
            Promise::Durable => self.lost + self.broken,
            Promise::Usable => self.broken,
            Promise::None => 0,
        }
    }

    /// Counts the looks at one state.
    fn count(&mut self, looks: &[Look]) {
        let found = |look: &Look, why: String| Found {
            state: look.state.to_string(),
            view: look.view.to_string(),
            acked: look.acked,
            why,
        };
        self.states += 1;
        if let Some(look) = looks.iter().max_by_key(|look| look.answer.lost)
            && look.answer.lost > 0
        {
            self.lost += 1;
            self.lost_most = self.lost_most.max(look.answer.lost);
            let why = format!("{} of {} steps are missing", look.answer.lost, look.acked);
            self.first_lost.get_or_insert_with(|| found(look, why));
        }
        if let Some((look, why)) =
            worst(looks).and_then(|look| Some((look, look.answer.broken.clone()?)))
        {
            // What `fsck -p` leaves has to be usable; before it a torn superblock may be in the
            // way.
            let waits = look.answer.unmountable && look.view == View::AsFound;
            *(if waits { &mut self.unmountable } else { &mut self.broken }) += 1;
            self.first_broken.get_or_insert_with(|| found(look, why));
        }
    }
}

/// The look at a state that says most against it: the program cannot use its data, rather than that
/// nobody could mount it yet.
fn worst(looks: &[Look]) -> Option<&Look> {
    let broken = looks.iter().filter(|look| look.answer.broken.is_some());
    broken.min_by_key(|look| look.answer.unmountable && look.view == View::AsFound)
}

/// The programs that the plan names.
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
    // A whole name means that program alone.
    let means = |name: &String, program: &Program| {
        if names.contains(name) { program.name == *name } else { program.name.starts_with(name) }
    };
    let wanted = |program: &Program| {
        plan.programs.is_empty() || plan.programs.iter().any(|name| means(name, program))
    };
    Ok(all.into_iter().filter(wanted).collect())
}

/// Runs the plan; `row` gets each row as it is done.
///
/// # Errors
/// [`LabError::Plan`], [`LabError::Interrupted`]; what fails on one file system is said in its row.
pub fn run(plan: &Plan<'_>, watch: &mut dyn Watch, mut row: impl FnMut(Row)) -> Result<()> {
    let driver = driver(plan.work)?;
    for program in chosen(plan, driver.list()?)? {
        for side in &plan.sides {
            watch.step(&format!("{} on {side}", program.name));
            let done = match &program.missing {
                Some(why) => Row { skipped: Some(why.clone()), ..Row::new(&program, side) },
                None => one(plan, &driver, &program, side, watch)?,
            };
            row(done);
        }
    }
    Ok(())
}

/// The scripts, in a directory below `work`.
fn driver(work: &Path) -> Result<Driver> {
    let scripts = work.join("scripts");
    fs::create_dir_all(&scripts).map_err(|e| failed("apps", "scripts", e))?;
    Driver::new(&scripts)
}

/// One program on one file system.
fn one(
    plan: &Plan<'_>,
    driver: &Driver,
    program: &Program,
    side: &Side,
    watch: &mut dyn Watch,
) -> Result<Row> {
    let started = Instant::now();
    let mut row = Row::new(program, side);
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
    row: &mut Row,
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
    let mut place = Place { host: &host, side, checker, work: plan.work };
    let mut looks: Vec<Look> = Vec::new();
    states.examine(plan.states, &mut place, watch, |look| {
        if looks.first().is_some_and(|first| first.state != look.state) {
            row.count(&looks);
            looks.clear();
        }
        looks.push(look);
    })?;
    if !looks.is_empty() {
        row.count(&looks);
    }
    Ok(())
}

/// Looks at one state of a kept recording again; its image stays in the recording's directory as
/// `state`.
///
/// # Errors
/// No such recording or state.
pub fn again(dir: &Path, state: StateId, ffs: &Path, work: &Path) -> Result<(Label, Vec<Look>)> {
    let (label, recording) = keep::load(dir)?;
    let side: Side = label.side.parse()?;
    let (driver, host) = (driver(work)?, Host { ffs: ffs.to_owned() });
    let states = States::new(&recording, label.seed)?;
    let mut checker = driver.checker(&label.program, label.seed)?;
    let mut place = Place { host: &host, side: &side, checker: &mut checker, work };
    let looks = states.examine_one(state, &mut place, &dir.join("state"))?;
    Ok((label, looks))
}
