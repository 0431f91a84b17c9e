//! Workloads run: the volumes they find, and what they leave.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use ffs_device::{Rng, SplitMix64};

use super::super::canvas::Canvas;
use super::super::generate::{Generator, LAST_LINK, Source, is_tuning};
use super::super::geometry::Base;
use super::super::op::Workload;
use super::super::record::{Recording, Setting, record};
use super::super::states::{Choice, Stage};
#[cfg(feature = "schedule")]
use super::super::writers;
use super::super::{chain, keeps_contract, offline};
use super::plan::{Plan, WorkId};
use crate::error::Result;

/// States that are tried for a chain to go on from.
const ATTEMPTS: u32 = 16;
/// A workload that was run once, on one volume.
#[derive(Debug)]
pub struct Link {
    /// The volume it found.
    pub base: Arc<Base>,
    /// What was done.
    pub workload: Workload,
    /// What it left.
    pub recording: Recording,
    /// The window with the crash that the next link of a chain goes on from.
    pub crash: Option<usize>,
}

/// A workload that was run: one link; of a chain as many as there are crashes. Windows are counted over all.
#[derive(Debug)]
pub struct Ran {
    /// In their order.
    pub links: Vec<Link>,
}

impl Ran {
    /// Windows of all links.
    #[must_use]
    pub fn windows(&self) -> usize {
        self.links.iter().map(|link| link.recording.windows.len()).sum()
    }

    /// Operations that failed, and why.
    pub(super) fn failed(&self) -> Vec<(usize, String)> {
        self.links.iter().flat_map(|link| link.recording.failed.iter().cloned()).collect()
    }
}

/// Volumes with the standard tree and without, made once.
#[derive(Debug)]
pub struct Bases {
    made: BTreeMap<(&'static str, bool, bool), Arc<Base>>,
}

impl Bases {
    /// The volumes that `plan` needs.
    ///
    /// # Errors
    /// Those of [`super::super::geometry::Shape::base`].
    pub fn new(plan: &Plan, works: &[WorkId]) -> Result<Bases> {
        let mut made = BTreeMap::new();
        let given = plan.workload.as_ref();
        let tree = given.is_none_or(|workload| workload.standard_tree);
        for (work, unflagged) in works.iter().flat_map(|work| [(work, false), (work, true)]) {
            if given.is_some_and(|workload| workload.unflagged != unflagged) {
                continue;
            }
            let flagged = keeps_contract(plan.ordering) && !unflagged;
            if let Entry::Vacant(place) = made.entry((work.shape.name, tree, flagged)) {
                place.insert(work.shape.base(flagged, tree)?);
            }
        }
        Ok(Bases { made })
    }

    /// Runs `workload`.
    ///
    /// # Errors
    /// Those of [`record`], and operations before the recording that fail.
    pub fn run(&self, plan: &Plan, work: WorkId, workload: &Workload) -> Result<Ran> {
        let flagged = keeps_contract(plan.ordering) && !workload.unflagged;
        let tree = workload.standard_tree;
        let made = self.made.get(&(work.shape.name, tree, flagged)).cloned();
        let mut base = match made {
            Some(base) => base,
            None => work.shape.base(flagged, tree)?,
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
        Ok(Ran { links: vec![Link { base, workload, recording, crash: None }] })
    }
}

/// Runs chain `n`, which begins on `base`, to its last crash.
fn chained(plan: &Plan, work: WorkId, n: u32, mut base: Arc<Base>) -> Result<Ran> {
    let generator = Generator::new(work.shape, plan.seed);
    let rng = SplitMix64::new(plan.seed ^ 11 << 40 ^ u64::from(n));
    let mut links = Vec::new();
    for number in 0..=LAST_LINK {
        let workload = generator.link(n, number);
        // Generations of inodes are drawn: no life comes twice.
        let seed = plan.seed.wrapping_add(u64::from(number) << 32);
        let recording = record(&base, &workload, Setting { seed, ..plan.setting() })?;
        let next = crashed(plan, work, &base, &recording, &rng);
        let crash = next.as_ref().map(|(window, _)| *window);
        links.push(Link { base: Arc::clone(&base), workload, recording, crash });
        match next {
            Some((_, next)) => base = Arc::new(next),
            None => break,
        }
    }
    Ok(Ran { links })
}

/// A crash of `recording` that a chain goes on from, drawn: its window, and the volume it leaves.
fn crashed(
    plan: &Plan,
    work: WorkId,
    base: &Base,
    recording: &Recording,
    rng: &SplitMix64,
) -> Option<(usize, Base)> {
    (0..ATTEMPTS).find_map(|_| {
        let at = rng.below(recording.windows.len().max(1) as u64) as usize;
        let window = recording.windows.get(at)?;
        let canvas = Canvas::new(Arc::clone(&base.image), ffs_device::Durability::OnFlush);
        let mut under = base.print;
        for before in recording.windows.iter().take(at) {
            let stage = Stage::new(before, &canvas, plan.seed);
            under ^= stage.hash(&stage.lay_out(Choice::Prefix(before.writes.len() as u32)));
            before.writes.iter().for_each(|write| canvas.settle(write.offset, &write.bytes));
        }
        let stage = Stage::new(window, &canvas, plan.seed);
        let states = stage.distinct(plan.effort(work));
        let (_, laid) = states.get(rng.below(states.len().max(1) as u64) as usize)?;
        stage.paint(laid, &canvas);
        let image = canvas.look(<[u8]>::to_vec);
        let next = chain::next(base, recording, image, under ^ stage.hash(laid))?;
        Some((at, next))
    })
}
