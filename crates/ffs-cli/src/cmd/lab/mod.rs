//! `ffs lab`: the laboratory's experiments.

mod crash;
mod dirs;
mod figures;

use std::sync::Arc;

use clap::Subcommand;
use ffs_lab::target::Context;
use ffs_lab::{LabError, RealTimer, Watch};

use super::Doc;
use crate::fail::{Failure, Outcome};
use crate::progress::Progress;
use crate::{hugepages, signals};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs lab compare dirs -n 100000", "what directory operations cost in the library"),
        (
            "ffs lab compare dirs -n 1000000 --target core --target /mnt/ext4",
            "the library and a mounted directory side by side; as root, names are forgotten where asked",
        ),
        (
            "ffs lab compare dirs --target core --target core:maxvnodes=4000",
            "the same file system under two sets of switches (`ffs mount --help` lists them)",
        ),
        (
            "ffs lab compare dirs -n 10000 -n 3000000",
            "whether cost stays flat as the directory grows",
        ),
        ("ffs lab figures > figures.csv", "the paper's Figures 2 to 6: cost as a directory grows"),
        (
            "ffs lab crash --max-states 1000000 --seed 7",
            "a million states that a power cut may leave, each examined",
        ),
        (
            "ffs lab crash --workload mine.crash --shrink",
            "a workload of your own; a violation is reduced to the fewest operations",
        ),
        ("ffs lab compare dirs --json > dirs.json", "one line a phase and target, for a program"),
    ],
    exit: &[
        ("0", "everything was measured; what a target cannot do is said"),
        ("1", "a target cannot be used or failed; a crash state breaks a rule"),
        ("64", "the command line or a workload file is wrong"),
        ("130", "interrupted; what was made is removed"),
    ],
    see_also: &["ffs-mount(8)", "ffs-newfs(8)"],
    section: "1",
    usage_code: 64,
};

/// Measure, and prove: workloads side by side, and every state a crash may leave.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    /// One workload on several targets, which take turns
    Compare {
        #[command(subcommand)]
        workload: Workload,
    },
    Figures(figures::Args),
    Crash(crash::Args),
}

#[derive(Subcommand)]
enum Workload {
    Dirs(dirs::Args),
}

pub(crate) fn run(args: Args) -> Outcome {
    hugepages::want();
    signals::listen();
    match args.experiment {
        Experiment::Compare { workload: Workload::Dirs(args) } => dirs::run(args),
        Experiment::Figures(args) => figures::run(args),
        Experiment::Crash(args) => crash::run(args),
    }
}

/// What an experiment needs from outside.
fn context(seed: u64) -> Context {
    Context { timer: Arc::new(RealTimer::start()), seed }
}

/// Shows progress, hears ^C.
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
