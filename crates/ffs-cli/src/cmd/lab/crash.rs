//! `ffs lab crash`.

#[cfg(feature = "mutants")]
mod mutants;
mod rules;
mod table;

use std::io::Write;
use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::Instant;

use ffs_lab::Watch;
use ffs_lab::crash::examine::Rates;
use ffs_lab::crash::generate::Source;
use ffs_lab::crash::oracle::{FsyncScope, SoftUpdateOptions};
use ffs_lab::crash::run::{Plan, StateId};
use ffs_lab::crash::shrink::{Shrunk, shrink};
use ffs_lab::crash::states::Effort;
use ffs_lab::crash::tally::{Broken, Tally, UNRUN};
use ffs_lab::crash::{ORDERINGS, geometry, ordering, run as runs, text};
use serde::Serialize;

use crate::fail::{Failure, Outcome};
use crate::output;
use crate::progress::Progress;
use crate::signals;

/// Most log events of soft updates in the report of a state.
const EVENTS: usize = 20;

/// The seed if none is given.
const SEED: u64 = 1;

/// Examine the states that a power failure may leave
///
/// Runs workloads on small volumes in memory, records every write, and examines the states that a
/// power failure may leave at every moment: each prefix of the writes that are not durable yet,
/// each subset of up to 12 of them, random subsets of more, writes torn between sectors, and power
/// failures during fsck. A state must keep the crash contract unrepaired, need only harmless
/// repairs of `fsck -p`, pass a full check, and have a tree that the workload may have left.
///
/// Which states are examined follows from the options, not from the number of threads. Each has a
/// name by which `--only` examines it again, with all checks.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Everything drawn follows from it
    #[arg(long, value_name = "S", default_value_t = SEED)]
    seed: u64,

    /// End when so many different images have been examined
    #[arg(long, value_name = "N", default_value_t = 100_000,
        value_parser = clap::value_parser!(u64).range(1..))]
    max_states: u64,

    /// The ordering under test
    #[arg(long, value_name = "NAME", default_value = ORDERINGS[0].0, help = orderings())]
    ordering: String,

    /// What an fsync makes durable under soft updates, as the mount option: all older names, or its
    /// file alone
    #[arg(long, value_name = "all|file", default_value = "all",
        value_parser = ["all", "file"])]
    fsync: String,

    /// Whether under soft updates a name given by a rename or a link waits for its file's content,
    /// as the mount option (no)replace_order
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = ["on", "off"])]
    replace_order: String,

    /// Only volumes of this kind; may be given several times
    #[arg(long, value_name = "NAME", help = geometries())]
    geometry: Vec<String>,

    /// Operations of the longest systematic workloads: all of 1, all of 2, some of 3; 0 for none
    #[arg(long, value_name = "0-3", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(0..=3))]
    length: u32,

    /// Long random traces for each kind of volume
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(0..=100_000))]
    random: u32,

    /// Traces in directories of more than twelve blocks, for each kind of volume that is large
    /// enough
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(0..=100_000))]
    directories: u32,

    /// Traces that fill a small journal, for each kind of volume (`--ordering suj` only)
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(0..=100_000))]
    journals: u32,

    /// Traces at the edge of a full volume, for each kind of volume that is nearly full
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(0..=100_000))]
    edges: u32,

    /// Chains of up to ten crashes without a check in between, for each kind of volume (soft
    /// updates only)
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(0..=100_000))]
    chains: u32,

    /// Workloads of offline commands, which order nothing, for each kind of volume (soft updates
    /// only)
    #[arg(long, value_name = "N", default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(0..=100_000))]
    offline: u32,

    /// Workloads of three threads, of which the seed decides which one runs, for each kind of
    /// volume
    #[cfg(feature = "schedule")]
    #[arg(long, value_name = "N", default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(0..=100_000))]
    writers: u32,

    /// Print the crash contract, the rules by their labels, and examine nothing
    #[arg(long, exclusive = true)]
    rules: bool,

    /// Run this workload instead (docs/lab/crash.md describes the format)
    #[arg(long, value_name = "FILE")]
    workload: Option<PathBuf>,

    /// Examine the one state of this name, with all checks
    #[arg(long, value_name = "GEOMETRY/WORKLOAD:WINDOW:STATE", conflicts_with = "max_states")]
    only: Option<String>,

    /// Print all log events of soft updates before the crash, not only the last ones
    #[arg(long, requires = "only")]
    events: bool,

    /// Reduce the workload of each broken rule's first state to the fewest operations
    #[arg(long)]
    shrink: bool,

    /// Random subsets of more than 12 writes
    #[arg(long, value_name = "N", default_value_t = 128,
        value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    subsets: u32,

    /// Random subsets of the sectors between two flushes
    #[arg(long, value_name = "N", default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    sectors: u32,

    /// Most states between two flushes
    #[arg(long, value_name = "N", default_value_t = 6000,
        value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    window: u32,

    /// One state in so many is mounted unrepaired and worked on (soft updates only); 0 for none
    #[arg(long, value_name = "N", default_value_t = 200)]
    remount_every: u32,

    /// In one state of N, interrupt fsck after each of its writes; 0 for none
    #[arg(long, value_name = "N", default_value_t = 500)]
    interrupt_every: u32,

    /// Workers; by default one for each core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,

    /// Print one JSON document
    #[arg(long)]
    json: bool,

    /// Break this ordering rule of soft updates; `all`: each in turn, until it is found
    #[cfg(feature = "mutants")]
    #[arg(long = "break", value_name = "RULE")]
    broken_rule: Option<String>,
}

fn orderings() -> String {
    let names: Vec<&str> = ORDERINGS.iter().map(|(name, _)| *name).collect();
    format!("The ordering under test: {}", names.join(", "))
}

fn geometries() -> String {
    let line = |shape: &geometry::Shape| format!("{} ({})", shape.name, shape.purpose);
    let lines: Vec<String> = geometry::SHAPES.iter().map(line).collect();
    format!("Only volumes of this kind; may be given several times: {}", lines.join("; "))
}

impl Args {
    fn plan(&self) -> Result<Plan, Failure> {
        let shapes = match self.geometry.as_slice() {
            [] => geometry::SHAPES.iter().collect(),
            names => {
                let mut shapes: Vec<_> =
                    names.iter().map(|name| geometry::find(name)).collect::<Result<_, _>>()?;
                shapes.dedup();
                shapes
            }
        };
        let workload = match &self.workload {
            None => None,
            Some(path) => {
                let shown = path.display();
                let text = std::fs::read_to_string(path)
                    .map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
                let parsed = text::parse(&text);
                Some(parsed.map_err(|error| Failure::usage(format!("{shown}: {error}")))?)
            }
        };
        let cores = || available_parallelism().map_or(1, usize::from);
        Ok(Plan {
            seed: self.seed,
            ordering: ordering(&self.ordering)?,
            soft: self.soft(),
            shapes,
            length: self.length,
            traces: self.random,
            directories: self.directories,
            journals: self.journals,
            edges: self.edges,
            chains: self.chains,
            offline: self.offline,
            #[cfg(feature = "schedule")]
            writers: self.writers,
            workload,
            max_states: self.max_states,
            effort: Effort { subsets: self.subsets, sectors: self.sectors, window: self.window },
            until_broken: false,
            rates: Rates { remount: self.remount_every, interrupt: self.interrupt_every },
            keeps_events: false,
            threads: self.threads.map_or_else(cores, usize::from),
        })
    }

    /// The mount options that decide what soft updates promise.
    fn soft(&self) -> SoftUpdateOptions {
        let fsync = if self.fsync == "file" { FsyncScope::File } else { FsyncScope::All };
        SoftUpdateOptions { fsync, replace_order: self.replace_order == "on" }
    }

    /// The command with what every run of it needs.
    fn begin(&self) -> String {
        let mut command = "ffs lab crash".to_owned();
        if self.ordering != ORDERINGS[0].0 {
            command += &format!(" --ordering {}", self.ordering);
        }
        if self.fsync != "all" {
            command += &format!(" --fsync {}", self.fsync);
        }
        if self.replace_order != "on" {
            command += &format!(" --replace-order {}", self.replace_order);
        }
        if self.seed != SEED {
            command += &format!(" --seed {}", self.seed);
        }
        #[cfg(feature = "mutants")]
        if let Some(rule) = &self.broken_rule {
            command += &format!(" --break {rule}");
        }
        command
    }

    /// The shortest command that examines the state again.
    fn command(&self, id: StateId) -> String {
        let mut command = self.begin();
        if let (Source::File, Some(path)) = (id.work.source, &self.workload) {
            command += &format!(" --workload {}", path.display());
        }
        format!("{command} --only {id}")
    }
}

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
    if let Some(name) = &args.broken_rule {
        if name == "all" {
            return mutants::table(plan);
        }
        ffs_core::break_rule(Some(ffs_lab::crash::rule(name)?));
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
