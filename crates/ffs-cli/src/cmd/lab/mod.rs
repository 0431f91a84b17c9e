//! `ffs lab`: the laboratory's experiments.

mod apps;
mod chart;
mod compare;
mod crash;
mod dirs;
mod draw;
mod export;
mod figures;
mod indexes;
mod record;
mod replay;
pub(crate) mod report;
mod serve;
#[cfg(target_os = "linux")]
mod stress;
pub(crate) mod study;
mod sweep;
mod threads;

use std::sync::Arc;

use clap::Subcommand;
use ffs_lab::systems::Context;
use ffs_lab::{LabError, RealTimer, Watch};

use super::Doc;
use crate::fail::{Failure, Outcome};
use crate::progress::Progress;
use crate::{hugepages, signals};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        (
            "ffs lab run paper --out DIR",
            "the paper's whole study on the machine of 2002; again, it goes on where it ended",
        ),
        ("ffs lab run --quick --out DIR", "the same small, in less than a minute"),
        (
            "ffs lab run mh postmark --factor dh --factor softdep=sync/softdep --out DIR",
            "two workloads under two switches",
        ),
        (
            "ffs lab run paper --shard 3/8 --out part3; ffs lab merge part* -o DIR",
            "an eighth of it, say on one of eight computers; and all eight joined",
        ),
        ("ffs lab compare dirs -n 100000", "what directory operations cost in the library"),
        (
            "ffs lab compare dirs -n 1000000 --target core --target /mnt/ext4",
            "the library and a mounted directory side by side; stat-cold needs root",
        ),
        (
            "ffs lab compare dirs --target core --target core:maxvnodes=4000",
            "the same file system under two sets of switches (`ffs mount -o help` lists them)",
        ),
        (
            "ffs lab compare dirs -n 10000 -n 3000000",
            "whether cost stays flat as the directory grows",
        ),
        (
            "ffs lab compare postmark:number=20000,transactions=50000 --target core \
             --target /mnt/ext4",
            "a mail server's small files in the library and in a mounted directory; `ffs lab list` \
             shows the other workloads",
        ),
        (
            "ffs lab compare x11:tree=/usr/src --sync --target core --target /mnt/xfs",
            "extract, list and remove a real tree; each phase ends with a sync",
        ),
        (
            "ffs lab compare postmark --json --target core >>r; ffs lab chart r --html r.html",
            "results of several comparisons, together on a page",
        ),
        (
            "ffs lab record --out build.trace -- sh -c 'cp -r /src . && make -C src'",
            "the file system calls of a build, in a volume of ffs in memory",
        ),
        (
            "ffs lab replay build.trace --target core --target sim:softdep --target /mnt/ext4",
            "the same calls on the library, on the machine of 2002 and on a mounted directory",
        ),
        (
            "ffs lab run trace:file=build.trace --out study",
            "the same calls under every combination of the paper's switches",
        ),
        ("ffs lab figures > figures.csv", "the paper's Figures 2 to 6: cost as a directory grows"),
        (
            "ffs lab sweep postmark --over memory=16m,64m,256m,1g --curve su --curve su+dh",
            "whether the hash matters with more memory",
        ),
        (
            "ffs lab indexes --out indexes",
            "linear search, dirhash, HTree and other directory indexes; tables and charts",
        ),
        (
            "ffs lab crash --max-states 1000000 --seed 7",
            "examine a million states that a power failure may leave",
        ),
        (
            "ffs lab crash --workload mine.crash --shrink",
            "a workload of your own; a violation is reduced to the fewest operations",
        ),
        (
            "ffs lab apps sqlite git --side ffs --side ffs:stable --side ext4",
            "databases and git after power failures, on ffs and on ext4 (root)",
        ),
        (
            "ffs lab stress /mnt/ffs/work --seconds 60 -p 8",
            "random operations by eight processes, each kind for a minute",
        ),
        (
            "ffs lab report study",
            "the report of a study: study/report.html and its figures; a summary here",
        ),
        (
            "ffs lab report study --with memory64",
            "the same, with another study to choose in the what-if panel of the page",
        ),
        ("ffs lab serve study", "the report in the browser while the study runs; ^C ends it"),
        (
            "ffs lab draw disk.img --html -o disk.html",
            "a volume drawn block by block, and a crash and its repair in steps",
        ),
        (
            "ffs lab export study --out csv",
            "its runs, phases and counters as CSV, with a dictionary, for R, pandas and others",
        ),
        ("ffs lab compare dirs --json > dirs.json", "one line a phase and target, for a program"),
    ],
    exit: &[
        (
            "0",
            "everything was measured; a line names each phase that a target cannot run; ^C ended \
             serve",
        ),
        (
            "1",
            "a target cannot be used or failed; results are missing; a crash state breaks a rule",
        ),
        ("64", "a workload file is wrong"),
        ("130", "interrupted; what was made is removed, finished jobs of a study are kept"),
    ],
    see_also: &["ffs-mount(8)", "ffs-newfs(8)"],
    section: "1",
    usage_code: 64,
};

/// Measure workloads on several file systems, and examine the states that a crash may leave.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    Compare(compare::Args),
    Chart(chart::Args),
    List(compare::ListArgs),
    Run(study::RunArgs),
    Merge(study::MergeArgs),
    Report(report::Args),
    Serve(serve::Args),
    Draw(draw::Args),
    Export(export::Args),
    Record(record::Args),
    Replay(replay::Args),
    Figures(figures::Args),
    Sweep(sweep::Args),
    Indexes(indexes::Args),
    Crash(crash::Args),
    Apps(apps::Args),
    #[cfg(target_os = "linux")]
    Stress(stress::Args),
}

pub(crate) fn run(args: Args) -> Outcome {
    if matches!(args.experiment, Experiment::Record(_)) {
        // The setting for huge pages would change the recorded program, too.
        signals::listen_before_fork();
    } else {
        hugepages::enable();
        signals::listen();
    }
    match args.experiment {
        Experiment::Compare(args) => compare::run(args),
        Experiment::Chart(args) => chart::run(args),
        Experiment::List(args) => compare::list(args),
        Experiment::Run(args) => study::run_study(&args),
        Experiment::Merge(args) => study::run_merge(&args),
        Experiment::Report(args) => report::run(&args),
        Experiment::Serve(args) => serve::run(&args),
        Experiment::Draw(args) => draw::run(&args),
        Experiment::Export(args) => export::run(&args),
        Experiment::Record(args) => record::run(&args),
        Experiment::Replay(args) => replay::run(&args),
        Experiment::Figures(args) => figures::run(args),
        Experiment::Sweep(args) => sweep::run(args),
        Experiment::Indexes(args) => indexes::run(args),
        Experiment::Crash(args) => crash::run(args),
        Experiment::Apps(args) => apps::run(args),
        #[cfg(target_os = "linux")]
        Experiment::Stress(args) => stress::run(args),
    }
}

/// What an experiment needs from outside.
fn context(seed: u64) -> Context {
    Context { timer: Arc::new(RealTimer::start()), seed }
}

/// Shows progress; ^C ends the work.
struct Bar(Progress);

impl Bar {
    fn new(operations: u64) -> Bar {
        Bar(Progress::items("measure", Some(operations)))
    }
}

impl Watch for Bar {
    fn step(&mut self, what: &str) {
        self.0.message(what.to_owned());
    }

    fn done(&mut self, n: u64) -> bool {
        self.0.add(n);
        !signals::interrupted()
    }
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Failure {
        match error {
            LabError::Interrupted => Failure::interrupted(),
            LabError::Spec { .. } | LabError::Plan(_) => Failure::usage(error),
            LabError::Unusable { .. } | LabError::Failed { .. } => Failure::plain(error),
        }
    }
}
