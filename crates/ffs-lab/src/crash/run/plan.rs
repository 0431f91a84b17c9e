//! The plan of a run: its volumes, its workloads, and how many states of each are examined.

use ffs_core::OrderingPolicy;
use ffs_device::{Rng, SplitMix64};

use super::super::examine::Rates;
use super::super::generate::{Generator, Source};
use super::super::geometry::Shape;
use super::super::id::WorkloadId;
use super::super::keeps_contract;
use super::super::op::Workload;
use super::super::oracle::SoftUpdateOptions;
use super::super::record::Setting;
use super::super::states::Effort;
use crate::error::{LabError, Result};

/// Workloads of three operations that are drawn for each shape.
const THREES: u32 = 20_000;
/// Most states of a window of a long trace.
const TRACE_STATES: u32 = 64;
/// Windows of a long trace that are examined.
const TRACE_WINDOWS: usize = 200;
/// Workloads of one operation between two long ones.
const SHORT_TO_LONG: usize = 50;

/// Makes the workloads of a kind, for each volume as many as the function of its generator returns.
type Each<'a> = dyn Fn(fn(u32) -> Source, &dyn Fn(&Generator) -> u32) -> Vec<WorkloadId> + 'a;

/// The plan of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The seed of everything that is drawn.
    pub seed: u64,
    /// The ordering mode under test.
    pub ordering: OrderingPolicy,
    /// The mount options that decide what soft updates promise.
    pub soft: SoftUpdateOptions,
    /// The volumes.
    pub shapes: Vec<&'static Shape>,
    /// Operations of the longest systematic workloads: 0 to 3.
    pub length: u32,
    /// Long traces.
    pub traces: u32,
    /// Traces in long directories.
    pub directories: u32,
    /// Traces that fill a small journal.
    pub journals: u32,
    /// Traces at the edge of a full volume.
    pub edges: u32,
    /// Chains of crashes without a check.
    pub chains: u32,
    /// Workloads of commands without ordering.
    pub offline: u32,
    /// Traces with snapshots; none: no workloads with snapshots at all.
    pub snapshots: u32,
    /// Checks in the background under load.
    pub background: u32,
    /// Whether `growfs` and `tunefs` are interrupted.
    pub commands: bool,
    /// Workloads of several threads; without the feature `schedule` there are none.
    pub writers: u32,
    /// A workload file, which replaces all others.
    pub workload: Option<Workload>,
    /// The run ends when so many different images were examined.
    pub max_states: u64,
    /// Limits on the states of each window.
    pub effort: Effort,
    /// Whether the run ends with the first window that breaks a rule, too.
    pub until_broken: bool,
    /// The rates of C5 and C6.
    pub rates: Rates,
    /// Whether recordings keep the log events of soft updates.
    pub keeps_events: bool,
    /// Workers.
    pub threads: usize,
}

impl Plan {
    pub(super) fn setting(&self) -> Setting {
        Setting {
            ordering: self.ordering,
            seed: self.seed,
            soft: self.soft,
            keeps_events: self.keeps_events,
        }
    }

    /// The workloads in their order: patterns; single operations with a long workload now and then;
    /// the rest mixed.
    pub(super) fn workloads(&self) -> Vec<WorkloadId> {
        if self.workload.is_some() {
            return self
                .shapes
                .iter()
                .map(|&shape| WorkloadId { shape, source: Source::File })
                .collect();
        }
        let generators: Vec<Generator> =
            self.shapes.iter().map(|shape| Generator::new(shape, self.seed)).collect();
        let each = |kind: fn(u32) -> Source, count: &dyn Fn(&Generator) -> u32| {
            let of = self.shapes.iter().zip(&generators);
            of.flat_map(|(&shape, generator)| {
                (0..count(generator)).map(move |n| WorkloadId { shape, source: kind(n) })
            })
            .collect::<Vec<WorkloadId>>()
        };
        let mut workloads = Vec::new();
        let mut short = Vec::new();
        if self.length >= 1 {
            workloads.extend(each(Source::Pattern, &Generator::patterns));
            self.shuffle(&mut workloads, 1);
            short.extend(each(Source::One, &Generator::ones));
            short.extend(each(Source::Full, &Generator::fulls));
            self.shuffle(&mut short, 1);
        }
        if self.snapshots > 0 && self.ordering != OrderingPolicy::None {
            let mut around = each(Source::Snapshot, &Generator::snapshots);
            self.shuffle(&mut around, 4);
            short.extend(around);
        }
        let mut long = self.long(&each);
        self.shuffle(&mut long, 3);
        let mut long = long.into_iter();
        for some in short.chunks(SHORT_TO_LONG) {
            workloads.extend(some);
            workloads.extend(long.next());
        }
        let mut rest: Vec<WorkloadId> = long.collect();
        if self.length >= 2 {
            rest.extend(each(Source::Two, &Generator::twos));
        }
        if self.length >= 3 {
            rest.extend(each(Source::Three, &|_| THREES));
        }
        self.shuffle(&mut rest, 2);
        workloads.extend(rest);
        workloads
    }

    /// The workloads of many operations. `each` makes the workloads of a kind for every volume.
    fn long(&self, each: &Each<'_>) -> Vec<WorkloadId> {
        let mut all = each(Source::Trace, &|_| self.traces);
        if self.ordering == OrderingPolicy::Journaled {
            all.extend(each(Source::Journal, &|_| self.journals));
        }
        let long = |of: &Generator| if of.has_long_directories() { self.directories } else { 0 };
        all.extend(each(Source::Directory, &long));
        let edges = |of: &Generator| if of.is_full() { self.edges } else { 0 };
        all.extend(each(Source::Edge, &edges));
        if keeps_contract(self.ordering) {
            all.extend(each(Source::Chain, &|_| self.chains));
            all.extend(each(Source::Offline, &|_| self.offline));
            let some = |of: &Generator| if of.has_snapshots() { self.snapshots } else { 0 };
            all.extend(each(Source::SnapshotTrace, &some));
            all.extend(each(Source::SnapshotChain, &some));
            all.extend(each(Source::Background, &|_| self.background));
            if self.commands {
                all.extend(each(Source::Growth, &Generator::growths));
                all.extend(each(Source::Tuning, &Generator::tunings));
            }
            #[cfg(feature = "schedule")]
            all.extend(each(Source::Writers, &|_| self.writers));
        }
        all
    }

    /// Mixes the workloads, so that an interrupted run has examined some of every kind.
    fn shuffle(&self, workloads: &mut [WorkloadId], salt: u64) {
        let rng = SplitMix64::new(self.seed ^ salt << 32);
        for at in (1..workloads.len()).rev() {
            workloads.swap(at, rng.below(at as u64 + 1) as usize);
        }
    }

    /// The workload of that name.
    ///
    /// # Errors
    /// [`LabError::Plan`] if there is none.
    pub fn find(&self, work: WorkloadId) -> Result<Workload> {
        let found = match work.source {
            Source::File => self.workload.clone(),
            source => {
                let made = Generator::new(work.shape, self.seed).workload(source);
                made.map(|workload| self.on_journal(work, 0, workload))
            }
        };
        found.ok_or_else(|| LabError::Plan(format!("there is no workload {work}")))
    }

    /// The workload with the size of its journal, if it has one: that of a few blocks, so that it
    /// begins again and again, or becomes full; or the whole file. `link` is that of a chain.
    pub(super) fn on_journal(&self, work: WorkloadId, link: u32, workload: Workload) -> Workload {
        if self.ordering != OrderingPolicy::Journaled || workload.unflagged {
            return workload;
        }
        let mix = SplitMix64::new(self.seed ^ 13 << 40 ^ u64::from(link) << 32);
        let rng = SplitMix64::new(mix.next_u64() ^ work.source.hash());
        let sizes = [None, Some(1), Some(2), Some(2), Some(3), Some(5)];
        let drawn = sizes.get(rng.below(sizes.len() as u64) as usize).copied().flatten();
        let drawn = drawn.map(|blocks: u64| blocks * u64::from(work.shape.bsize));
        Workload { journal_bytes: workload.journal_bytes.or(drawn), ..workload }
    }

    /// The limits on the states of a window of `work`.
    pub(super) fn effort(&self, work: WorkloadId) -> Effort {
        let window = match work.source {
            Source::Trace(_)
            | Source::Directory(_)
            | Source::Edge(_)
            | Source::Journal(_)
            | Source::SnapshotTrace(_) => self.effort.window.min(TRACE_STATES),
            _ => self.effort.window,
        };
        Effort { window, ..self.effort }
    }

    /// Which windows are examined. Of a long trace some are drawn.
    pub(super) fn chosen(&self, work: WorkloadId, windows: usize) -> Vec<bool> {
        let trace = is_trace(work.source);
        if !trace || windows <= TRACE_WINDOWS {
            return vec![true; windows];
        }
        let rng = SplitMix64::new(self.seed ^ 7 << 40);
        let (mut left, mut wanted) = (windows as u64, TRACE_WINDOWS as u64);
        let mut draw = |_| {
            let take = rng.below(left) < wanted;
            left -= 1;
            wanted -= u64::from(take);
            take
        };
        (0..windows).map(&mut draw).collect()
    }
}

/// Whether only some windows of the workload are examined, and some states of each.
fn is_trace(source: Source) -> bool {
    use Source::{
        Background, Chain, Directory, Edge, Journal, Offline, SnapshotChain, SnapshotTrace,
    };
    use Source::{Trace, Writers};
    let drawn = matches!(source, SnapshotTrace(_) | SnapshotChain(_) | Background(_) | Journal(_));
    drawn
        || matches!(source, Trace(_) | Directory(_) | Edge(_) | Chain(_) | Writers(_) | Offline(_))
}
