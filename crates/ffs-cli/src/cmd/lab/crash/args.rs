//! The options of `ffs lab crash`, and the plan that follows from them.

use std::path::PathBuf;
use std::thread::available_parallelism;

use ffs_lab::crash::examine::Rates;
use ffs_lab::crash::generate::Source;
use ffs_lab::crash::oracle::{FsyncScope, SoftUpdateOptions};
use ffs_lab::crash::run::{Plan, StateId};
use ffs_lab::crash::states::Effort;
use ffs_lab::crash::{ORDERINGS, geometry, ordering, text};

use crate::fail::Failure;

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
pub(in crate::cmd::lab) struct Args {
    /// Everything drawn follows from it
    #[arg(long, value_name = "S", default_value_t = SEED)]
    pub(super) seed: u64,

    /// End when so many different images have been examined
    #[arg(long, value_name = "N", default_value_t = 100_000,
        value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) max_states: u64,

    /// The ordering under test
    #[arg(long, value_name = "NAME", default_value = ORDERINGS[0].0, help = orderings())]
    pub(super) ordering: String,

    /// What an fsync makes durable under soft updates, as the mount option: all older names, or its
    /// file alone
    #[arg(long, value_name = "all|file", default_value = "all",
        value_parser = ["all", "file"])]
    pub(super) fsync: String,

    /// Whether under soft updates a name given by a rename or a link waits for its file's content,
    /// as the mount option (no)replace_order
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = ["on", "off"])]
    pub(super) replace_order: String,

    /// Only volumes of this kind; may be given several times
    #[arg(long, value_name = "NAME", help = geometries())]
    pub(super) geometry: Vec<String>,

    /// Operations of the longest systematic workloads: all of 1, all of 2, some of 3; 0 for none
    #[arg(long, value_name = "0-3", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(0..=3))]
    pub(super) length: u32,

    /// Long random traces for each kind of volume
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(super) random: u32,

    /// Traces in directories of more than twelve blocks, for each kind of volume that is large
    /// enough
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(super) directories: u32,

    /// Traces that fill a small journal, for each kind of volume (`--ordering suj` only)
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(super) journals: u32,

    /// Traces at the edge of a full volume, for each kind of volume that is nearly full
    #[arg(long, value_name = "N", default_value_t = 2,
        value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(super) edges: u32,

    /// Chains of up to ten crashes without a check in between, for each kind of volume (soft
    /// updates only)
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(super) chains: u32,

    /// Workloads of offline commands, which order nothing, for each kind of volume (soft updates
    /// only)
    #[arg(long, value_name = "N", default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(super) offline: u32,

    /// Random traces and chains of crashes with snapshots, for each kind of volume with space for
    /// them, besides every single operation before, after and between snapshots; 0: no snapshots
    #[arg(long, value_name = "N", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(super) snapshots: u32,

    /// Checks in the background under load, of what a crash left, for each kind of volume (soft
    /// updates only)
    #[arg(long, value_name = "N", default_value_t = 0,
        value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(super) background: u32,

    /// Interrupt growfs and tunefs, too (soft updates only)
    #[arg(long)]
    pub(super) commands: bool,

    /// Workloads of three threads, of which the seed decides which one runs, for each kind of
    /// volume
    #[cfg(feature = "schedule")]
    #[arg(long, value_name = "N", default_value_t = 4,
        value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub(super) writers: u32,

    /// Print the crash contract, the rules by their labels, and examine nothing
    #[arg(long, exclusive = true)]
    pub(super) rules: bool,

    /// Run this workload instead (docs/lab/crash.md describes the format)
    #[arg(long, value_name = "FILE")]
    pub(super) workload: Option<PathBuf>,

    /// Examine the one state of this name, with all checks
    #[arg(long, value_name = "GEOMETRY/WORKLOAD:WINDOW:STATE", conflicts_with = "max_states")]
    pub(super) only: Option<String>,

    /// Print all log events of soft updates before the crash, not only the last ones
    #[arg(long, requires = "only")]
    pub(super) events: bool,

    /// Reduce the workload of each broken rule's first state to the fewest operations
    #[arg(long)]
    pub(super) shrink: bool,

    /// Random subsets of more than 12 writes
    #[arg(long, value_name = "N", default_value_t = 128,
        value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(super) subsets: u32,

    /// Random subsets of the sectors between two flushes
    #[arg(long, value_name = "N", default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub(super) sectors: u32,

    /// Most states between two flushes
    #[arg(long, value_name = "N", default_value_t = 6000,
        value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub(super) window: u32,

    /// One state in so many is mounted unrepaired and worked on (soft updates only); 0 for none
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(super) remount_every: u32,

    /// In one state of N, interrupt fsck after each of its writes; 0 for none
    #[arg(long, value_name = "N", default_value_t = 500)]
    pub(super) interrupt_every: u32,

    /// One state in so many is mounted unrepaired and checked in the background
    /// (soft updates only); 0 for none
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(super) check_every: u32,

    /// Workers; by default one for each core
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(super) threads: Option<u16>,

    /// Print one JSON document
    #[arg(long)]
    pub(super) json: bool,

    /// Break this ordering rule; `all`, or several with commas: each in turn, until it is found
    #[cfg(feature = "mutants")]
    #[arg(long = "break", value_name = "RULE")]
    pub(super) broken_rule: Option<String>,
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
    pub(super) fn plan(&self) -> Result<Plan, Failure> {
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
            snapshots: self.snapshots,
            background: self.background,
            commands: self.commands,
            #[cfg(feature = "schedule")]
            writers: self.writers,
            #[cfg(not(feature = "schedule"))]
            writers: 0,
            workload,
            max_states: self.max_states,
            effort: Effort { subsets: self.subsets, sectors: self.sectors, window: self.window },
            until_broken: false,
            rates: Rates {
                remount: self.remount_every,
                interrupt: self.interrupt_every,
                background: self.check_every,
            },
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
    pub(super) fn begin(&self) -> String {
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
    pub(super) fn command(&self, id: StateId) -> String {
        let mut command = self.begin();
        if let (Source::File, Some(path)) = (id.work.source, &self.workload) {
            command += &format!(" --workload {}", path.display());
        }
        format!("{command} --only {id}")
    }
}
