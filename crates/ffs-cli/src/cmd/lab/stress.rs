//! `ffs lab stress`.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use ffs_lab::stress::{KINDS, Kind, Limit, Report, Task, owned, run_all, work};

use crate::fail::{Failure, Outcome};
use crate::output;
use crate::progress::Progress;
use crate::signals;

/// Random operations by several processes on a mounted directory
///
/// `fsx`: each process has one file, and reads and changes it in every way (calls, shared memory,
/// direct transfers, holes) beside a model in memory. `sparse`: the same for large sparse files.
/// `tree`: every operation on names and files, in directories that all processes share; the answers
/// are not checked, but the volume must stay consistent. `owned`: each process has files of its own
/// in shared directories and checks the content of each; `--verify` checks it again later, for
/// example after the volume was unmounted, checked and mounted.
///
/// The operations follow from the seed; those of several processes meet as they happen to.
#[derive(clap::Args)]
pub(super) struct Args {
    /// A directory to work in; what is made stays there
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// fsx, sparse, tree or owned; may be given several times; all if none is given
    #[arg(long, value_name = "KIND")]
    kind: Vec<String>,

    /// Processes, for each kind in turn
    #[arg(short, long, value_name = "N", default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(1..=256))]
    processes: u32,

    /// End after so long
    #[arg(long, value_name = "N", conflicts_with = "operations",
        value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,

    /// End after so many operations of each process (10,000 if no time is given either)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    operations: Option<u64>,

    /// The operations follow from it
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,

    /// Leave these operations out, in the kinds that have them
    #[arg(long, value_name = "OPERATION", value_delimiter = ',')]
    without: Vec<String>,

    /// Compare what `owned` left in DIR with what it should be, and do nothing else
    #[arg(long)]
    verify: bool,

    /// Print one JSON document
    #[arg(long)]
    json: bool,

    /// Be this worker of the first kind and print its report
    #[arg(long, value_name = "NUMBER", hide = true)]
    worker: Option<u32>,
}

impl Args {
    fn kinds(&self) -> Result<Vec<Kind>, Failure> {
        if self.kind.is_empty() {
            return Ok(KINDS.iter().map(|(_, kind)| *kind).collect());
        }
        Ok(self.kind.iter().map(|name| Kind::find(name)).collect::<Result<_, _>>()?)
    }

    /// Each operation to leave out must be one of some kind.
    fn check_without(&self) -> Result<(), Failure> {
        let all: Vec<&str> = KINDS.iter().flat_map(|(_, kind)| kind.operations()).collect();
        match self.without.iter().find(|name| !all.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                let near = ffs_core::nearest(name, all.into_iter());
                let hint = ffs_core::suggestion(near);
                Err(Failure::usage(format!("no operation '{name}'{hint}")))
            }
        }
    }

    fn limit(&self) -> Limit {
        let operations = match (self.operations, self.seconds) {
            (None, None) => Some(10_000),
            (operations, _) => operations,
        };
        Limit { operations, time: self.seconds.map(Duration::from_secs) }
    }

    fn task(&self, kind: Kind, number: u32) -> Task {
        Task {
            kind,
            dir: self.dir.clone(),
            number,
            seed: self.seed,
            limit: self.limit(),
            without: self.without.clone(),
        }
    }

    /// The command that does a task.
    fn command(&self, exe: &PathBuf, task: &Task) -> Command {
        let mut command = Command::new(exe);
        command.args(["lab", "stress"]).arg(&task.dir);
        command.args(["--kind", task.kind.name(), "--worker", &task.number.to_string()]);
        command.args(["--seed", &task.seed.to_string()]);
        if let Some(operations) = task.limit.operations {
            command.args(["--operations", &operations.to_string()]);
        }
        if let Some(time) = task.limit.time {
            command.args(["--seconds", &time.as_secs().to_string()]);
        }
        if !task.without.is_empty() {
            command.args(["--without", &task.without.join(",")]);
        }
        command
    }
}

pub(super) fn run(args: Args) -> Outcome {
    let kinds = args.kinds()?;
    if let (Some(number), Some(kind)) = (args.worker, kinds.first()) {
        output::json(&work(&args.task(*kind, number))?)?;
        return Ok(0);
    }
    if args.verify {
        let names = owned::verify(&args.dir)?;
        let mut out = output::stdout();
        writeln!(out, "{names} names hold what was written")?;
        out.flush()?;
        return Ok(0);
    }
    args.check_without()?;
    let exe = std::env::current_exe().map_err(|error| Failure::new("ffs", error))?;
    let mut reports = BTreeMap::new();
    for kind in kinds {
        let mut progress = Progress::items("stress", None);
        progress.message(kind.name().to_owned());
        let tasks: Vec<Task> = (0..args.processes).map(|number| args.task(kind, number)).collect();
        let spawn = |task: &Task| args.command(&exe, task);
        reports.insert(kind.name(), run_all(&tasks, spawn, || !signals::interrupted())?);
    }
    if args.json {
        output::json(&reports)?;
    } else {
        let mut out = output::stdout();
        table(&mut out, &args, &reports)?;
        out.flush()?;
    }
    Ok(u8::from(reports.values().any(|report| report.violation.is_some())))
}

fn table(
    out: &mut impl Write,
    args: &Args,
    reports: &BTreeMap<&str, Report>,
) -> Result<(), Failure> {
    writeln!(out, "Stress, seed {}, {} processes\n", args.seed, args.processes)?;
    let mut lines = vec![["", "operation", "done", "ok", ""].map(str::to_owned).to_vec()];
    for (kind, report) in reports {
        for (name, outcomes) in &report.operations {
            let done: u64 = outcomes.values().sum();
            let ok = outcomes.get("ok").copied().unwrap_or(0);
            let mut others: Vec<_> = outcomes.iter().filter(|(what, _)| *what != "ok").collect();
            others.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            let others: Vec<String> =
                others.iter().map(|(what, count)| format!("{what} {count}")).collect();
            let (done, ok) = (done.to_string(), ok.to_string());
            lines.push(vec![(*kind).to_owned(), name.clone(), done, ok, others.join(", ")]);
        }
    }
    writeln!(out, "{}", output::table(lines, &[2, 3]))?;
    for (kind, report) in reports {
        let what = match &report.violation {
            None => format!("{} operations, nothing wrong", report.total()),
            Some(what) => format!("WRONG: {what}"),
        };
        writeln!(out, "{kind}: {what}")?;
    }
    Ok(())
}
