//! `ffs lab replay`.

use std::path::PathBuf;

use clap::ValueEnum;
use ffs_lab::compare::WorkloadRequest;
use ffs_lab::trace::resolve::Program;
use ffs_lab::trace::{self, ReadOptions};
use ffs_lab::workload::{PhaseOptions, TREE_DIFFERS, of_program};
use ffs_lab::{LabError, TargetSpec};

use super::compare;
use crate::fail::{Failure, Outcome};

/// The recorded calls of a program, on one or several targets
///
/// TRACE is what `ffs lab record` wrote, the output of `strace -f -ttt -o TRACE COMMAND`, or a job
/// file of fio. The calls are made one after another, in the order of the trace. What the program
/// found when it began is made first and is not measured; content is one repeated byte. Calls that
/// no replay makes are listed. If the trace has the tree that the program left, that of each target
/// is compared with it; exit code 1 if one differs.
///
/// A target is as for `ffs lab compare`: `core`, `sim`, both with settings, or a directory. As the
/// workload `trace:file=TRACE`, a trace also runs under `ffs lab run` with every factor.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The trace
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// Targets; ratios are relative to the first
    #[arg(long, value_name = "TARGET", default_values_t = ["core".to_owned()])]
    target: Vec<String>,

    /// The format, if its beginning does not show it
    #[arg(long, value_name = "FORMAT")]
    format: Option<TraceFormat>,

    /// strace: only calls on paths below this directory, which becomes the root [default: --cwd]
    #[arg(long, value_name = "DIR")]
    below: Option<String>,

    /// strace: the directory in which the program was started [default: /]
    #[arg(long, value_name = "DIR")]
    cwd: Option<String>,

    /// On `sim`, this part of the time between two calls is processor time of the program
    #[arg(long, value_name = "PERCENT", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=10_000))]
    think: u32,

    /// Random offsets of fio follow from it, and the volume of `sim`
    #[arg(long, default_value_t = 2002)]
    seed: u64,

    /// Rounds; the table shows the middle one
    #[arg(long, value_name = "R", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,

    /// The time ends when everything is durable
    #[arg(long)]
    sync: bool,

    /// Names and inodes are forgotten before the first call, as far as the target can
    #[arg(long)]
    cold: bool,

    /// Print one line of JSON a result and target
    #[arg(long)]
    json: bool,
}

/// The formats by their words on a command line.
#[derive(Clone, Copy, ValueEnum)]
enum TraceFormat {
    /// What `ffs lab record` writes
    Ffs,
    /// The output of strace -f -ttt
    Strace,
    /// A job file of fio
    Fio,
}

pub(super) fn run(args: &Args) -> Outcome {
    let options = ReadOptions {
        format: args.format.map(|format| match format {
            TraceFormat::Ffs => trace::Format::Own,
            TraceFormat::Strace => trace::Format::Strace,
            TraceFormat::Fio => trace::Format::Fio,
        }),
        below: args.below.clone(),
        cwd: args.cwd.clone(),
        seed: args.seed,
    };
    let program = Program::of(&trace::read(&args.trace, &options)?)?;
    let title =
        format!("{}: {} calls of {}", args.trace.display(), program.calls(), program.source);
    let workload = of_program(program, f64::from(args.think) / 100.0);
    let targets = args.target.iter().map(|t| TargetSpec::parse(t));
    let request = WorkloadRequest {
        workload: &*workload,
        targets: targets.collect::<Result<_, LabError>>()?,
        seed: args.seed,
        rounds: args.rounds,
        options: PhaseOptions { sync: args.sync, cold: args.cold },
        setup: String::new(),
    };
    let found = compare::measure(&request)?;
    compare::print(&title, &request, &found, args.json)?;
    if found.notes.iter().any(|note| note.contains(TREE_DIFFERS)) {
        return Err(Failure::plain("a target has another tree than the program left"));
    }
    Ok(0)
}
