//! `ffs lab compare WORKLOAD` and `ffs lab list`.

use std::io::Write;

use clap::Subcommand;
use ffs_lab::compare::results::{ResultGroup, groups};
use ffs_lab::compare::{WorkloadComparison, WorkloadRequest};
use ffs_lab::workload::{LookupShares, PhaseOptions, all, by_name, unknown};
use ffs_lab::{LabError, TargetSpec};

use super::{Bar, context, dirs, threads};
use crate::fail::{Failure, Outcome};
use crate::output;

/// One workload on several targets, which take turns
///
/// A workload is a name, or a name with parameters: `postmark:number=20000,transactions=50000`.
/// `ffs lab list` shows all of them; `dirs`, one directory phase by phase, and `threads`, several
/// threads at once, have options of their own.
///
/// A target is `core` (the library in process, on a new volume in memory), `core:NAME=VALUE,...`
/// (the same with mount options; also format=, endian=, bsize=, fsize=, size=, image=FILE), `sim`
/// (the library on a machine of 2002, in virtual time) with `:softdep`, `:machine=FILE` or mount
/// options, or a directory you may write in: the work is done through system calls in a
/// subdirectory of it, which is removed.
///
/// Targets differ in what is durable when a call returns; the output states it for each target.
/// With --sync each phase ends when everything is durable, on every target.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Args {
    #[command(subcommand)]
    own: Option<Own>,

    /// What to run: `ffs lab list` shows what there is
    #[arg(required = true)]
    workload: Option<String>,

    /// Targets to measure; ratios are relative to the first
    #[arg(long, value_name = "TARGET", default_values_t = ["core".to_owned()])]
    target: Vec<String>,

    /// All counts of the workload are multiplied by it
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    scale: f64,

    /// What the workload draws follows from it
    #[arg(long, default_value_t = 2002)]
    seed: u64,

    /// Rounds; the table shows the middle one
    #[arg(long, value_name = "R", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// Every phase ends with a sync, which is part of its time
    #[arg(long)]
    sync: bool,

    /// Names and inodes are forgotten before every phase, as far as the target can
    #[arg(long)]
    cold: bool,

    /// Print also how the lookups were answered: for each phase of the last round the share of the
    /// name cache, the share of the time in which the processor worked, and the share of that in
    /// searches of directories
    #[arg(long, conflicts_with = "json")]
    lookups: bool,

    /// Print one line of JSON a result and target
    #[arg(long)]
    json: bool,

    /// Words about the setup, which each line of --json repeats
    #[arg(long, value_name = "WORDS", default_value = "", requires = "json")]
    setup: String,

    /// Print the last outcome of each target as the original program does, where it has a form of
    /// its own
    #[arg(long, conflicts_with = "json")]
    original: bool,
}

/// Comparisons with options of their own.
#[derive(Subcommand)]
enum Own {
    Dirs(dirs::Args),
    Threads(threads::Args),
}

pub(super) fn run(args: Args) -> Outcome {
    match args.own {
        Some(Own::Dirs(args)) => return dirs::run(args),
        Some(Own::Threads(args)) => return threads::run(args),
        None => {}
    }
    let words = args.workload.unwrap_or_default();
    let name = words.split(':').next().unwrap_or_default();
    if !all().iter().any(|info| info.name == name) {
        return Err(unknown(name, &["dirs", "threads"]).into());
    }
    let workload = by_name(&words, args.scale)?;
    let targets = args.target.iter().map(|t| TargetSpec::parse(t));
    let request = WorkloadRequest {
        workload: &*workload,
        targets: targets.collect::<Result<_, LabError>>()?,
        seed: args.seed,
        rounds: args.rounds,
        options: PhaseOptions { sync: args.sync, cold: args.cold },
        setup: args.setup,
    };
    let found = measure(&request)?;
    let mut out = output::stdout();
    let printed = args.original && original(&mut out, &request, &found)?;
    out.flush()?;
    if !printed {
        print(&words, &request, &found, args.json)?;
    }
    if args.lookups {
        print_lookups(&mut output::stdout(), &found)?;
    }
    Ok(0)
}

/// Runs the comparison, with a progress bar.
pub(super) fn measure(request: &WorkloadRequest<'_>) -> Result<WorkloadComparison, Failure> {
    let mut bar = Bar::new(request.operations());
    Ok(request.run(&context(request.seed), &mut bar)?)
}

/// Prints the results under `title`, or as JSON.
pub(super) fn print(
    title: &str,
    request: &WorkloadRequest<'_>,
    found: &WorkloadComparison,
    json: bool,
) -> Result<(), Failure> {
    let mut out = output::stdout();
    if json {
        found.rows.iter().try_for_each(|row| output::json_line(&mut out, row))?;
        found.notes.iter().for_each(output::note);
    } else {
        tables(&mut out, title, request, found)?;
    }
    out.flush()?;
    Ok(())
}

/// Prints the results of one workload: results down, targets across.
pub(super) fn print_group(out: &mut impl Write, group: &ResultGroup) -> Result<(), Failure> {
    let rows = group.table();
    let right: Vec<usize> = (2..rows.first().map_or(2, Vec::len)).collect();
    writeln!(out, "{}", output::table(rows, &right))?;
    if let [first, _, ..] = &group.targets[..] {
        writeln!(out, "x: times as long for the same work as {first}\n")?;
    }
    for fact in group.facts() {
        writeln!(out, "{fact}")?;
    }
    Ok(())
}

/// Prints how the lookups of the last round were answered.
fn print_lookups(out: &mut impl Write, found: &WorkloadComparison) -> Result<(), Failure> {
    let percent = |share: Option<f64>| share.map_or("-".to_owned(), |share| format!("{share:.1}"));
    let head = ["phase", "target", "name cache %", "processor %", "search %"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (target, outcome) in &found.last {
        for phase in &outcome.phases {
            let LookupShares { name_cache, processor, search } = LookupShares::of(phase);
            let mut row = vec![phase.phase.clone(), target.clone()];
            row.extend([name_cache, processor, search].map(percent));
            rows.push(row);
        }
    }
    writeln!(out, "\n{}", output::table(rows, &[2, 3, 4]))?;
    writeln!(out, "name cache: lookups that it answered; processor: of the time; search: of the")?;
    writeln!(out, "processor's time, in searches of directories")?;
    out.flush()?;
    Ok(())
}

/// The original programs' own forms; false if there is none.
fn original(
    out: &mut impl Write,
    request: &WorkloadRequest,
    found: &WorkloadComparison,
) -> Result<bool, Failure> {
    for (target, outcome) in &found.last {
        let Some(text) = request.workload.report(outcome) else {
            output::note("this workload has no form of its own");
            return Ok(false);
        };
        writeln!(out, "{target}:\n{text}")?;
    }
    Ok(true)
}

/// Prints the table and what a reader of it needs.
fn tables(
    out: &mut impl Write,
    words: &str,
    request: &WorkloadRequest,
    found: &WorkloadComparison,
) -> Result<(), Failure> {
    let rounds = request.rounds;
    let finish = found.rows.first().map_or("", |row| row.finish.as_str());
    writeln!(
        out,
        "{words}, median of {rounds} (seed {}); a phase ends with: {finish}\n",
        request.seed
    )?;
    for group in groups(found.rows.clone()) {
        print_group(out, &group)?;
    }
    for note in &found.notes {
        writeln!(out, "{note}")?;
    }
    Ok(())
}

/// The workloads there are, and what can be set
#[derive(clap::Args)]
pub(super) struct ListArgs {
    /// Only this one
    workload: Option<String>,
}

pub(super) fn list(args: ListArgs) -> Outcome {
    let mut out = output::stdout();
    if let Some(name) = args.workload.as_ref().filter(|n| !all().iter().any(|i| i.name == **n)) {
        return Err(unknown(name, &[]).into());
    }
    for info in all().iter().filter(|info| args.workload.as_ref().is_none_or(|n| n == info.name)) {
        writeln!(out, "{}: {}", info.name, info.about)?;
        let results: Vec<String> = match info.name {
            // A result for every point of every curve.
            "micro" => Vec::new(),
            name => by_name(name, 1.0)?.phases().into_iter().map(|phase| phase.id).collect(),
        };
        if !results.is_empty() {
            writeln!(out, "  results: {}", results.join(", "))?;
        }
        for param in info.params {
            let default = if param.default.is_empty() { "none" } else { param.default };
            writeln!(out, "  {}= ({default}): {}", param.name, param.meaning)?;
        }
        writeln!(out, "  from: {}\n", info.source)?;
    }
    out.flush()?;
    Ok(0)
}
