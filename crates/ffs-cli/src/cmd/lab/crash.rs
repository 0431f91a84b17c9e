//! `ffs lab crash`.

mod args;
#[cfg(feature = "mutants")]
mod mutants;
mod rules;
mod table;

use std::io::Write;
use std::time::Instant;

use ffs_lab::Watch;
#[cfg(feature = "mutants")]
use ffs_lab::crash::mutants::Mutant;
use ffs_lab::crash::run::{Plan, StateId};
use ffs_lab::crash::shrink::{Shrunk, shrink};
use ffs_lab::crash::tally::{Broken, Tally, UNRUN};
use ffs_lab::crash::{run as runs, text};
use serde::Serialize;

use crate::fail::{Failure, Outcome};
use crate::output;
use crate::progress::Progress;
use crate::signals;
pub(super) use args::Args;

/// Most log events of soft updates in the report of a state.
const EVENTS: usize = 20;

/// A run and what came of it.
#[derive(Serialize)]
struct Report<'a> {
    ordering: &'a str,
    seed: u64,
    threads: usize,
    seconds: f64,
    states_per_second: f64,
    /// Of processor time, of all threads: what a busy machine disturbs less.
    states_per_cpu_second: f64,
    remount_every: u32,
    interrupt_every: u32,
    check_every: u32,
    #[serde(flatten)]
    tally: &'a Tally,
    violations: Vec<Shown<'a>>,
}

/// A broken rule as it is shown.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    broken: &'a Broken,
    command: String,
    /// The last log events of soft updates before the first state.
    #[serde(skip)]
    events: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    shrunk: Option<String>,
}

pub(super) fn run(args: Args) -> Outcome {
    if args.rules {
        return rules::print_all();
    }
    let plan = args.plan()?;
    #[cfg(feature = "mutants")]
    if let Some(names) = &args.broken_rule {
        let is_journaled = plan.ordering == ffs_core::OrderingPolicy::Journaled;
        match Mutant::select(names, is_journaled)?.as_slice() {
            [one] => Mutant::break_rule(Some(*one)),
            rules => return mutants::table(plan, rules),
        }
    }
    let only: Option<StateId> = args.only.as_deref().map(str::parse).transpose()?;
    let (started, used) = (Instant::now(), cpu_seconds());
    let tally = match only {
        Some(id) => runs::only(&plan, id, if args.events { usize::MAX } else { EVENTS })?,
        None => runs::run(&plan, &mut Bar::new(started, plan.max_states))?,
    };
    let (seconds, used) = (started.elapsed().as_secs_f64(), cpu_seconds() - used);
    let states: u64 = tally.rows.iter().map(|row| row.states).sum();
    let mut violations = Vec::new();
    for broken in &tally.rules {
        let is_one = broken.id.work.source.is_one_workload();
        let shrink = args.shrink && broken.rule != UNRUN && is_one;
        let shrunk = shrink.then(|| shrunk(&plan, broken)).transpose()?.flatten();
        let shrunk = shrunk.map(|shrunk| as_file(&args, &shrunk));
        let events = match only {
            // The report of the state has them.
            Some(_) => Vec::new(),
            // A workload that cannot be run has no state.
            None => runs::ordering_events(&plan, broken.id, EVENTS).unwrap_or_default(),
        };
        violations.push(Shown { broken, command: args.command(broken.id), events, shrunk });
    }
    let report = Report {
        ordering: &args.ordering,
        seed: args.seed,
        threads: if only.is_some() { 1 } else { plan.threads },
        seconds,
        states_per_second: states as f64 / seconds.max(1e-9),
        states_per_cpu_second: states as f64 / used.max(1e-9),
        remount_every: args.remount_every,
        interrupt_every: args.interrupt_every,
        check_every: args.check_every,
        tally: &tally,
        violations,
    };
    for (number, why) in &tally.failed {
        let op = plan.workload.as_ref().and_then(|workload| workload.ops.get(*number));
        let op = op.map(ToString::to_string).unwrap_or_default();
        output::note(format!("operation {} ({op}) failed: {why}", number + 1));
    }
    if args.json {
        output::json(&report)?;
    } else {
        let mut out = output::stdout();
        table::print(&mut out, &report, only.is_some())?;
        out.flush()?;
    }
    if tally.interrupted && tally.rules.is_empty() {
        return Err(Failure::interrupted().hint("the table is of what was examined before"));
    }
    Ok(u8::from(!tally.rules.is_empty()))
}

/// Processor time of this process so far.
fn cpu_seconds() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    std::time::Duration::try_from(used).unwrap_or_default().as_secs_f64()
}

fn shrunk(plan: &Plan, broken: &Broken) -> Result<Option<Shrunk>, Failure> {
    let mut bar = Bar(Progress::items("shrink", None), Instant::now(), 0);
    bar.0.message(broken.rule.clone());
    Ok(shrink(plan, broken.id, &broken.rule, &mut bar)?)
}

/// The reduced workload as a file, with the command that runs it.
fn as_file(args: &Args, shrunk: &Shrunk) -> String {
    let command = args.begin();
    format!("# {command} --workload FILE --only {}\n{}", shrunk.id, text::print(&shrunk.workload))
}

/// Shows the number of examined states and their rate; ^C ends the work.
struct Bar(Progress, Instant, u64);

impl Bar {
    fn new(started: Instant, states: u64) -> Bar {
        Bar(Progress::items("examine", Some(states)), started, 0)
    }
}

impl Watch for Bar {
    fn done(&mut self, n: u64) -> bool {
        let Bar(progress, started, states) = self;
        *states += n;
        let rate = *states as f64 / started.elapsed().as_secs_f64().max(1e-3);
        if n > 0 {
            progress.message(format!("{rate:.0} states/s"));
        }
        progress.add(n);
        !signals::interrupted()
    }
}
