//! Executed workloads: the volumes they start from and their recordings.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use ffs_device::{Rng, SplitMix64};

use super::super::generate::{Generator, LAST_LINK, Source, is_tuning};
use super::super::geometry::BaseVolume;
use super::super::id::WorkloadId;
use super::super::op::Workload;
use super::super::overlay::OverlayDevice;
use super::super::record::{Recording, Setting, record};
use super::super::states::{Choice, WindowStates};
#[cfg(feature = "schedule")]
use super::super::writers;
use super::super::{Updates, chain, offline};
use super::plan::Plan;
use crate::error::Result;

/// States that are tried as the start of the next link of a chain.
const ATTEMPTS: u32 = 16;
/// One recorded workload on one volume. A chain of crashes has several.
#[derive(Debug)]
pub(crate) struct ChainLink {
    /// The volume before.
    pub base: Arc<BaseVolume>,
    /// The workload.
    pub workload: Workload,
    /// The recording.
    pub recording: Recording,
    /// The window of the crash from which the next link of a chain continues.
    pub crash: Option<usize>,
}

/// A workload that was run. It has one link, a chain as many as there are crashes. Windows are
/// counted over all links.
#[derive(Debug)]
pub(crate) struct Execution {
    /// The links in order.
    pub links: Vec<ChainLink>,
}

impl Execution {
    /// Windows of all links.
    #[must_use]
    pub(crate) fn windows(&self) -> usize {
        self.links.iter().map(|link| link.recording.windows.len()).sum()
    }

    /// Operations that failed, and why.
    pub(super) fn failed(&self) -> Vec<(usize, String)> {
        self.links.iter().flat_map(|link| link.recording.failed.iter().cloned()).collect()
    }
}

/// The volumes with and without the standard tree, made once.
#[derive(Debug)]
pub(crate) struct Volumes {
    made: BTreeMap<(&'static str, bool, Updates), Arc<BaseVolume>>,
}

impl Volumes {
    /// Makes the volumes that `plan` needs.
    ///
    /// # Errors
    /// Those of [`super::super::geometry::Shape::base`].
    pub(crate) fn new(plan: &Plan, workloads: &[WorkloadId]) -> Result<Volumes> {
        let mut made = BTreeMap::new();
        let given = plan.workload.as_ref();
        let tree = given.is_none_or(|workload| workload.standard_tree);
        for (work, unflagged) in workloads.iter().flat_map(|work| [(work, false), (work, true)]) {
            if given.is_some_and(|workload| workload.unflagged != unflagged) {
                continue;
            }
            let updates = Updates::of(plan.ordering, unflagged);
            if let Entry::Vacant(place) = made.entry((work.shape.name, tree, updates)) {
                place.insert(work.shape.base(updates, tree)?);
            }
        }
        Ok(Volumes { made })
    }

    /// Runs `workload`.
    ///
    /// # Errors
    /// Those of [`record`], and operations before the recording that fail.
    pub(crate) fn run(
        &self,
        plan: &Plan,
        work: WorkloadId,
        workload: &Workload,
    ) -> Result<Execution> {
        let updates = Updates::of(plan.ordering, workload.unflagged);
        let tree = workload.standard_tree;
        let made = self.made.get(&(work.shape.name, tree, updates)).cloned();
        let mut base = match made {
            Some(base) => base,
            None => work.shape.base(updates, tree)?,
        };
        if !workload.setup.is_empty() {
            base = Arc::new(base.with(&workload.setup)?);
        }
        let recording = match work.source {
            Source::Chain(n) => return chained(plan, work, n, base),
            Source::Offline(n) if is_tuning(n) => offline::tune(&base, n, plan.setting())?,
            Source::Offline(_) => offline::commands(&base, workload, plan.setting())?,
            #[cfg(feature = "schedule")]
            Source::Writers(n) => {
                let (_, writers) = Generator::new(work.shape, plan.seed).writers(n);
                let setting = plan.setting();
                let seed = setting.seed ^ u64::from(n) << 20;
                writers::record(&base, &writers, Setting { seed, ..setting })?
            }
            _ => record(&base, workload, plan.setting())?,
        };
        let workload = workload.clone();
        Ok(Execution { links: vec![ChainLink { base, workload, recording, crash: None }] })
    }
}

/// Runs chain `n`, which starts on `base`, to its last crash.
fn chained(plan: &Plan, work: WorkloadId, n: u32, mut base: Arc<BaseVolume>) -> Result<Execution> {
    let generator = Generator::new(work.shape, plan.seed);
    let rng = SplitMix64::new(plan.seed ^ 11 << 40 ^ u64::from(n));
    let mut links = Vec::new();
    for number in 0..=LAST_LINK {
        let workload = plan.on_journal(work, number, generator.link(n, number));
        // Generations of inodes are random, so no inode has one twice.
        let seed = plan.seed.wrapping_add(u64::from(number) << 32);
        let recording = record(&base, &workload, Setting { seed, ..plan.setting() })?;
        let next = crashed(plan, work, &base, &recording, &rng);
        let crash = next.as_ref().map(|(window, _)| *window);
        links.push(ChainLink { base: Arc::clone(&base), workload, recording, crash });
        match next {
            Some((_, next)) => base = Arc::new(next),
            None => break,
        }
    }
    Ok(Execution { links })
}

/// Draws a crash of `recording` from which a chain continues: its window, and the volume after it.
fn crashed(
    plan: &Plan,
    work: WorkloadId,
    base: &BaseVolume,
    recording: &Recording,
    rng: &SplitMix64,
) -> Option<(usize, BaseVolume)> {
    (0..ATTEMPTS).find_map(|_| {
        let at = rng.below(recording.windows.len().max(1) as u64) as usize;
        let window = recording.windows.get(at)?;
        let overlay = OverlayDevice::new(Arc::clone(&base.image), ffs_device::Durability::OnFlush);
        let mut base_hash = base.fingerprint;
        for before in recording.windows.iter().take(at) {
            let window_states = WindowStates::new(before, &overlay, plan.seed);
            base_hash ^= window_states
                .hash(&window_states.layout(Choice::Prefix(before.writes.len() as u32)));
            before.writes.iter().for_each(|write| overlay.commit(write.offset, &write.bytes));
        }
        let window_states = WindowStates::new(window, &overlay, plan.seed);
        let states = window_states.distinct(plan.effort(work));
        let (_, layout) = states.get(rng.below(states.len().max(1) as u64) as usize)?;
        window_states.apply_to(layout, &overlay);
        let image = overlay.with_bytes(<[u8]>::to_vec);
        let next = chain::next(base, recording, image, base_hash ^ window_states.hash(layout))?;
        Some((at, next))
    })
}
