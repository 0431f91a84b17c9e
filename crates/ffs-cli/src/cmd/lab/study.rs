//! `ffs lab run` and `ffs lab merge`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Duration;

use ffs_lab::LabError;
use ffs_lab::report::Detail;
use ffs_lab::study::{
    self, Factor, Plan, PlanItem, ResultsFile, RunEnd, RunRequest, Shard, StudyWatch,
    WorkloadRunner, merge, run,
};

use super::report;
use crate::fail::{Failure, Outcome};
use crate::memory;
use crate::output;
use crate::progress;
use crate::signals;

/// Memory that the aged volume of a replicate takes.
const VOLUME_BYTES: u64 = 600 << 20;
/// Missing jobs that are named.
const NAMED: usize = 8;

/// The paper's study: every workload under every combination of switches
///
/// A job is one workload, one combination of the factors, one replicate. Jobs run in random order
/// on all cores; each finished one is on the disk before the next is begun, in DIR/results.jsonl.
/// The same command resumes an interrupted study and gives the same report. All random choices
/// follow from the seed; on the simulated machine (`sim`) the results do, too, on every computer.
///
/// To run a study in several places, give each a part with --shard and a directory of its own, and
/// join these with `ffs lab merge`.
#[derive(clap::Args)]
pub(super) struct RunArgs {
    /// `paper`, or workloads, `NAME` or `NAME:PARAMETER=VALUE,...`
    #[arg(value_name = "paper|WORKLOAD", default_value = "paper")]
    what: Vec<String>,

    /// Small: the paper's study in less than a minute
    #[arg(long)]
    quick: bool,

    /// Aged volumes, workloads and the order of jobs follow from it
    #[arg(long, value_name = "S", default_value_t = 2002)]
    seed: u64,

    /// Runs of each combination, each with its own seed [default: 4; with --quick 1]
    #[arg(long, value_name = "N")]
    replicates: Option<u32>,

    /// Makes workloads so many times as large
    #[arg(long, value_name = "X", default_value_t = 1.0)]
    scale: f64,

    /// A switch under study instead of su, dp, vm and dh: one of these, any switch of a mount that
    /// is on or off, or NAME=OFF/ON with words for the target; may be given several times.
    /// NAME=LEVEL/LEVEL/... has more levels, the first of which is the base; for a setting, its
    /// values are enough: memory=64m/256m/1g. `none`: no switch is turned
    #[arg(long, value_name = "FACTOR")]
    factor: Vec<String>,

    /// Where: `sim` or `core`, with `:NAME=VALUE,...` for all combinations
    #[arg(long, value_name = "TARGET", default_value = "sim")]
    target: String,

    /// Jobs at a time [default: one for each core, if there is memory; 1 where time is real]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,

    /// Only this part of the jobs: `2/8` is the second of eight
    #[arg(long, value_name = "I/N", default_value_t = Shard::WHOLE)]
    shard: Shard,

    /// Directory for the results and the report; made if it is not there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
}

impl RunArgs {
    fn plan(&self) -> Result<Plan, Failure> {
        let mut plan = match self.what.as_slice() {
            [paper] if paper == "paper" && self.quick => Plan::quick(),
            [paper] if paper == "paper" => Plan::paper(),
            [paper] if paper == "quick" => Plan::quick(),
            workloads => {
                let base = if self.quick { Plan::quick() } else { Plan::paper() };
                let item = |workload: &String| PlanItem {
                    workload: workload.clone(),
                    scale: base.scale_of(workload),
                    combinations: Vec::new(),
                };
                let workloads: Vec<PlanItem> = workloads.iter().map(item).collect();
                let names: Vec<&str> =
                    workloads.iter().map(|item| item.workload.as_str()).collect();
                Plan { name: names.join(" "), workloads, ..base }
            }
        };
        plan.seed = self.seed;
        plan.target.clone_from(&self.target);
        plan.replicates = self.replicates.unwrap_or(plan.replicates);
        for item in &mut plan.workloads {
            item.scale *= self.scale;
        }
        let factors = match self.factor.as_slice() {
            [] => plan.factors.clone(),
            [none] if none == "none" => Vec::new(),
            factors => {
                let factors = factors.iter().map(|text| Factor::parse(text));
                factors.collect::<Result<_, LabError>>()?
            }
        };
        let plan = plan.with_factors(factors);
        plan.check()?;
        study::check_workloads(&plan)?;
        Ok(plan.signed()?)
    }
}

/// Memory that a plan takes with one job at a time.
pub(crate) fn memory_of(plan: &Plan) -> u64 {
    volumes_of(plan).saturating_add(study::largest_job(plan))
}

/// Memory of the aged volumes of a plan.
fn volumes_of(plan: &Plan) -> u64 {
    VOLUME_BYTES.saturating_mul(plan.replicates.into())
}

/// How many jobs of a plan are best run at a time, one for each core, and the memory for them.
pub(crate) fn threads_and_memory(plan: &Plan) -> (usize, u64) {
    // Jobs that run side by side disturb each other where time is real.
    if plan.target.split(':').next() != Some("sim") {
        return (1, u64::MAX);
    }
    let cores = available_parallelism().map_or(1, usize::from);
    let available = memory::available().unwrap_or(u64::MAX);
    (cores, available.saturating_sub(volumes_of(plan)))
}

pub(super) fn run_study(args: &RunArgs) -> Outcome {
    let plan = args.plan()?;
    let mut store = ResultsFile::open(&args.out, &plan, &mut |text| output::note(text))?;
    let before = store.finished();
    if before > 0 {
        output::note(format!("{}: {before} jobs are finished already", args.out.display()));
    }
    let limits =
        args.jobs.map_or_else(|| threads_and_memory(&plan), |jobs| (usize::from(jobs), u64::MAX));
    let ended = carry_out(&mut store, args.shard, limits);
    conclude(&store, ended, &args.out)?;
    finish(&store, &args.out, args.shard != Shard::WHOLE)
}

/// Runs what is missing, with a bar, on so many threads and within so much memory.
pub(crate) fn carry_out(
    store: &mut ResultsFile,
    shard: Shard,
    (threads, memory): (usize, u64),
) -> RunEnd {
    let request = RunRequest { shard, threads, memory, elsewhere: std::env::temp_dir() };
    run(store, &request, &WorkloadRunner, &mut Bar(None))
}

/// The bar.
struct Bar(Option<progress::Progress>);

impl StudyWatch for Bar {
    fn progress(&mut self, progress: &study::StudyProgress) -> bool {
        let of = progress.of as u64;
        let bar = self.0.get_or_insert_with(|| progress::Progress::jobs("run", of));
        bar.message(progress.left.map_or_else(String::new, |left| format!("{} left", time(left))));
        bar.set(progress.finished as u64, Some(of));
        !signals::interrupted()
    }

    fn failed(&mut self, job: &str, why: &LabError) {
        output::warn(format!("{job}: {why}"));
    }
}

/// A time for people.
fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, s) => format!("{s} s"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

/// Fails if a run did not come to its end.
pub(crate) fn conclude(store: &ResultsFile, ended: RunEnd, out: &Path) -> Result<(), Failure> {
    let kept = format!("{} jobs are finished and kept", store.finished());
    if let Some(error) = ended.unsaved {
        let failure = Failure::plain(error);
        return Err(match ended.rescued {
            None => failure.hint(format!("{kept}; when it can be written, repeat the command")),
            Some(path) => {
                let (path, out) = (path.display(), out.display());
                failure.hint(format!(
                    "what it lacks is in {path}: when it can be written, run ffs lab merge {path} \
                     -o {out}, and then repeat the command"
                ))
            }
        });
    }
    if ended.interrupted {
        return Err(
            Failure::interrupted().hint(format!("{kept}; the same command goes on from there"))
        );
    }
    if ended.failed > 0 {
        let n = ended.failed;
        return Err(Failure::plain(format!("{n} jobs failed")).hint(format!(
            "{kept}; the same command tries the rest again, ffs lab report shows what \
                           there is"
        )));
    }
    Ok(())
}

/// Parts of a study joined
///
/// Takes the directories (or results files) of parts of one study, run with `ffs lab run --shard`,
/// and writes all their jobs to DIR. Parts of different studies are refused. When no job is
/// missing, the report is written, the same as that of a study run in one place. Otherwise the
/// missing jobs are listed; `ffs lab run --out DIR` with the options of the parts runs them.
#[derive(clap::Args)]
pub(super) struct MergeArgs {
    /// Directories of the parts, or their results files
    #[arg(value_name = "PART", required = true)]
    parts: Vec<PathBuf>,

    /// Directory for all results and the report; made if it is not there
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
}

pub(super) fn run_merge(args: &MergeArgs) -> Outcome {
    let mut seen = BTreeSet::new();
    let parts: Vec<PathBuf> =
        args.parts.iter().filter(|path| seen.insert(*path)).cloned().collect();
    let store = merge(&parts, &args.out, &mut |text| output::note(text))?;
    finish(&store, &args.out, false)
}

/// Writes the report if all jobs are there, otherwise lists the missing ones. Missing jobs are an
/// error unless they are `left` to other shards.
pub(crate) fn finish(store: &ResultsFile, out: &Path, left: bool) -> Outcome {
    let (plan, missing) = (store.plan(), store.missing());
    if missing.is_empty() {
        let made = report::make(&store.results(), out, Detail::Summary);
        let all = store.path().display();
        return made.map(|()| 0).map_err(|failure| {
            failure.hint(format!(
                "all jobs are in {all}; ffs lab report {all} --out DIR writes the report elsewhere"
            ))
        });
    }
    let names = missing.iter().take(NAMED).map(|job| plan.job_name(job));
    let names = names.collect::<Vec<String>>().join(", ");
    let more = missing.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (have, of) = (store.finished(), store.finished() + missing.len());
    let status = format!("{}: {have} of {of} jobs; missing: {names}{more}", store.path().display());
    if left {
        output::note(format!(
            "{status}; join it with the other parts: ffs lab merge PART... -o DIR"
        ));
        return Ok(0);
    }
    Err(Failure::plain(status).hint("run the other parts, and join them all"))
}
