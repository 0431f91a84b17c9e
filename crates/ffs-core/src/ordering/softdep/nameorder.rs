//! The order among changes of names: the requirements of the next name of a file, the names that
//! come before later removals, and the sync points.
//!
//! # Invariants
//! 1. A name barrier is listed from its begin to its end.
//! 2. Each name that a rename or a link gave since the last removal is in `published`, or
//!    `open_barrier` requires it, until it is reachable. The barrier of removals requires the ones
//!    before.
//!
//! Reference: `docs/spec/soft-updates.md` §6, §8.3.

use super::dep::{DepId, DepKind};
use super::graph::Graph;
use super::heap::{release, table_bytes, tree_bytes};
use super::invariant::broken;
use crate::ordering::SyncPoint;
use ffs_ondisk::Ino;
use foldhash::fast::FixedState;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The order among changes of names.
#[derive(Debug, Default)]
pub(super) struct NameOrder {
    /// Names and name barriers that the next name of a file requires.
    before: HashMap<Ino, Vec<DepId>, FixedState>,
    /// Names that renames and links gave lately; some may be reachable. Most end here: a barrier
    /// takes more memory.
    published: Vec<DepId>,
    /// The next barrier of removals: it requires the names published since the last removal that
    /// are not in `published`.
    open_barrier: Option<DepId>,
    /// The barrier that the last removal required.
    removal_barrier: Option<DepId>,
    sync_points: BTreeMap<SyncPoint, DepId>,
    /// Directories that got another name, which may not be reachable.
    moved_dirs: BTreeSet<Ino>,
}

impl NameOrder {
    /// The next name of `dir` requires `names`, and no others that were set before.
    pub(super) fn set_before(&mut self, dir: Ino, names: Vec<DepId>) {
        self.before.remove(&dir);
        if !names.is_empty() {
            self.before.insert(dir, names);
        }
    }

    pub(super) fn add_barrier(&mut self, ino: Ino, barrier: DepId) {
        self.before.entry(ino).or_default().push(barrier);
    }

    /// Removes the name barriers of `ino`.
    pub(super) fn take_barriers(&mut self, graph: &Graph, ino: Ino) -> Vec<DepId> {
        let Some(before) = self.before.remove(&ino) else {
            broken("a name barrier ends that is not listed");
            return Vec::new();
        };
        let is_barrier = |id: &DepId| matches!(graph.kind(*id), Some(DepKind::NameBarrier));
        let (barriers, names): (Vec<_>, Vec<_>) = before.into_iter().partition(is_barrier);
        self.set_before(ino, names);
        barriers
    }

    /// The names and barriers that the next name of `ino` requires.
    pub(super) fn before(&mut self, graph: &Graph, ino: Ino) -> Vec<DepId> {
        if self.before.is_empty() {
            return Vec::new();
        }
        // Most names require no other name.
        let Some(mut before) = self.before.remove(&ino) else { return Vec::new() };
        before.retain(|id| graph.contains(*id));
        self.set_before(ino, before.clone());
        before
    }

    /// A rename or a link gave a name.
    pub(super) fn publish(&mut self, graph: &Graph, name: DepId) {
        if self.published.len() == self.published.capacity() {
            self.published.retain(|id| graph.contains(*id));
        }
        self.published.push(name);
    }

    /// No name is pending.
    pub(super) fn forget_published(&mut self) {
        self.published.clear();
        release(&mut self.published);
    }

    /// Takes the published names that are not reachable.
    pub(super) fn take_published(&mut self, graph: &Graph) -> Vec<DepId> {
        let mut names = std::mem::take(&mut self.published);
        names.retain(|id| graph.contains(*id));
        names
    }

    /// The next barrier of removals, if it is pending.
    pub(super) fn open_barrier(&self, graph: &Graph) -> Option<DepId> {
        self.open_barrier.filter(|id| graph.contains(*id))
    }

    pub(super) fn set_open_barrier(&mut self, barrier: DepId) {
        self.open_barrier = Some(barrier);
    }

    /// The barrier that the last removal required, if it is not satisfied.
    pub(super) fn last_barrier(&self, graph: &Graph) -> Option<DepId> {
        self.removal_barrier.filter(|id| graph.contains(*id))
    }

    /// The open barrier, or the last one, becomes the barrier of removals. Names that are published
    /// later get another one.
    pub(super) fn close_barrier(&mut self, graph: &Graph) -> Option<DepId> {
        self.removal_barrier = self.open_barrier(graph).or(self.last_barrier(graph));
        self.open_barrier = None;
        self.removal_barrier
    }

    pub(super) fn add_sync_point(&mut self, id: DepId) -> SyncPoint {
        let last = self.sync_points.keys().next_back();
        let point = SyncPoint(last.map_or(1, |last| last.0 + 1));
        self.sync_points.insert(point, id);
        point
    }

    pub(super) fn sync_point(&self, point: SyncPoint) -> Option<DepId> {
        self.sync_points.get(&point).copied()
    }

    pub(super) fn remove_sync_point(&mut self, point: SyncPoint) -> Option<DepId> {
        self.sync_points.remove(&point)
    }

    /// A directory that is not new got a name.
    pub(super) fn note_moved(&mut self, dir: Ino) {
        self.moved_dirs.insert(dir);
    }

    /// Keeps the moved directories for which `keep` holds.
    pub(super) fn retain_moved(&mut self, keep: impl FnMut(&Ino) -> bool) {
        self.moved_dirs.retain(keep);
    }

    pub(super) fn bytes(&self) -> usize {
        let before = self.before.values().map(|list| list.capacity() * size_of::<DepId>());
        table_bytes::<(Ino, Vec<DepId>)>(self.before.capacity())
            + before.sum::<usize>()
            + self.published.capacity() * size_of::<DepId>()
            + tree_bytes::<SyncPoint, DepId>(self.sync_points.len())
            + tree_bytes::<Ino, ()>(self.moved_dirs.len())
    }
}
