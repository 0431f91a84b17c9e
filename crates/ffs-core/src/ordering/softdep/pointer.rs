//! The values of a block pointer that writes may show.
//!
//! A pointer has versions: its value on the device, and its values since, oldest first, each an
//! `allocdirect` or `allocindir` ([`AllocDep`](super::dep::AllocDep)). A write shows the newest one
//! that is ready. A version that no write contained ends when a newer one is set.
//!
//! # Invariants
//! 1. The device shows `durable` or a version that a write contained.
//! 2. The last version is the pointer in memory, or will be before the file is unlocked.

use super::dep::DepId;
use super::graph::Graph;
use super::heap::heap;
use super::invariant::broken;
use crate::ordering::FragRun;
use ffs_ondisk::bmap::first_of_root;
use ffs_ondisk::geometry::NDADDR;
use ffs_ondisk::{Dinode, FragNo, Geometry, Lbn};
use smallvec::SmallVec;

/// The versions of a pointer.
#[derive(Debug, Default)]
pub(super) struct PointerVersions {
    /// The value on the device.
    durable: Option<FragRun>,
    /// The values since then, oldest first.
    pending: SmallVec<[DepId; 1]>,
}

/// Which version of a pointer a write shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Shown {
    /// The one on the device.
    Durable,
    /// A pending one that is not the last.
    Older(DepId),
    /// The last one: nothing is rolled back.
    Last(DepId),
}

impl Shown {
    /// The pending version that is shown.
    pub(super) fn dep(self) -> Option<DepId> {
        match self {
            Shown::Durable => None,
            Shown::Older(id) | Shown::Last(id) => Some(id),
        }
    }

    pub(super) fn is_last(self) -> bool {
        matches!(self, Shown::Last(_))
    }
}

impl PointerVersions {
    pub(super) fn new(durable: Option<FragRun>) -> PointerVersions {
        PointerVersions { durable, pending: SmallVec::new() }
    }

    /// The value on the device.
    pub(super) fn durable(&self) -> Option<FragRun> {
        self.durable
    }

    /// The values since then, oldest first.
    pub(super) fn pending(&self) -> &[DepId] {
        &self.pending
    }

    pub(super) fn last(&self) -> Option<DepId> {
        self.pending.last().copied()
    }

    /// The values after the one that a write shows.
    pub(super) fn since(&self, shown: Shown) -> &[DepId] {
        let at = self.pending.iter().position(|id| Some(*id) == shown.dep());
        self.pending.get(at.map_or(0, |at| at + 1)..).unwrap_or_default()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    pub(super) fn push(&mut self, id: DepId) {
        self.pending.push(id);
    }

    /// Removes the last version.
    pub(super) fn pop(&mut self) -> Option<DepId> {
        self.pending.pop()
    }

    /// `id`, of which `run` is the value, is durable. Returns it and the versions before it.
    pub(super) fn set_durable(&mut self, id: DepId, run: FragRun) -> SmallVec<[DepId; 2]> {
        let Some(at) = self.pending.iter().position(|version| *version == id) else {
            broken("a pointer does not list its version");
            return SmallVec::new();
        };
        self.durable = Some(run).filter(|run| run.at != FragNo::HOLE);
        self.pending.drain(..=at).collect()
    }

    /// Whether a version with the run at `at` may be on the device, or will be, besides `but`.
    pub(super) fn may_show(&self, graph: &Graph, at: FragNo, but: Option<DepId>) -> bool {
        let others = self.pending.iter().filter(|id| Some(**id) != but);
        let pending = others.filter_map(|id| graph.alloc(*id)).map(|alloc| alloc.run);
        self.durable.into_iter().chain(pending).any(|run| run.at == at)
    }

    /// The run at `at` has at most `frags` fragments from now on in every version: the rest is
    /// freed, and no write may show it.
    pub(super) fn shorten(&mut self, graph: &mut Graph, at: FragNo, frags: u32) {
        let shorten = |run: &mut FragRun| {
            if run.at == at {
                run.frags = run.frags.min(frags);
            }
        };
        self.durable.iter_mut().for_each(shorten);
        for id in &self.pending {
            if let Some(alloc) = graph.alloc_mut(*id) {
                shorten(&mut alloc.run);
            }
        }
    }

    /// The version that a write of a block with pointer `stored` shows, but none for which `waits`
    /// holds. The last version counts only if the block contains it: its operation may still fail.
    pub(super) fn shown(&self, graph: &Graph, stored: u64, waits: impl Fn(DepId) -> bool) -> Shown {
        let last = self.last();
        for &id in self.pending.iter().rev().filter(|id| !waits(**id)) {
            let is_stored = || graph.alloc(id).is_some_and(|alloc| alloc.run.at.0 == stored);
            if !graph.is_ready(id) {
                continue;
            }
            if Some(id) != last {
                return Shown::Older(id);
            }
            if is_stored() {
                return Shown::Last(id);
            }
        }
        Shown::Durable
    }

    /// The run of a version.
    pub(super) fn run(&self, graph: &Graph, shown: Shown) -> Option<FragRun> {
        match shown.dep() {
            Some(id) => graph.alloc(id).map(|alloc| alloc.run),
            None => self.durable,
        }
    }

    /// Bytes that it allocated.
    pub(super) fn heap_bytes(&self) -> usize {
        heap(&self.pending)
    }
}

/// The first block that pointer `index` of an inode leads to; the roots of indirect blocks follow
/// the direct pointers.
pub(super) fn first_block(g: &Geometry, index: usize) -> Lbn {
    if index < NDADDR { Lbn(index as u64) } else { first_of_root(g, index - NDADDR) }
}

/// Pointer `index` of an inode; 0 for a value that is no address.
pub(super) fn pointer_in(d: &Dinode, index: usize) -> u64 {
    let pointer = d.db.get(index).or_else(|| d.ib.get(index.wrapping_sub(NDADDR)));
    pointer.map_or(0, |&pointer| address(pointer))
}

pub(super) fn set_pointer_in(d: &mut Dinode, index: usize, run: Option<FragRun>) {
    let pointer = match d.db.get_mut(index) {
        Some(pointer) => Some(pointer),
        None => d.ib.get_mut(index.wrapping_sub(NDADDR)),
    };
    if let Some(pointer) = pointer {
        *pointer = pointer_to(run);
    }
}

/// The address in a pointer; 0 for a value that is no address.
pub(super) fn address(pointer: i64) -> u64 {
    u64::try_from(pointer).unwrap_or(0)
}

/// The pointer to a run; 0 for none.
pub(super) fn pointer_to(run: Option<FragRun>) -> i64 {
    run.map_or(0, |run| run.at.pointer())
}
