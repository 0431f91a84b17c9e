//! The graph of dependencies.
//!
//! A [`Dep`] is a change that is rolled back in writes until its requirements are met, or an item
//! of work that is done then. A requirement is a [`Condition`]: a write of a block, a write of an
//! inode, or another dependency. The graph owns the dependencies and the edges between them. The
//! tables of blocks and inodes list the dependencies that wait for them; the engine keeps both
//! sides equal.
//!
//! [`Graph::next_satisfied`] hands out the dependencies whose last requirement was met.
//!
//! # Invariants
//! 1. The requirements of a dependency are exactly the conditions that are not met.
//! 2. `a` is among the dependents of `b` exactly while `a` requires `b`.
//! 3. The graph has no cycle. A dependency requires only dependencies that existed before it, with
//!    two exceptions: a dependency that ends passes its dependents on after [`Graph::depends_on`]
//!    found no path back; and entries come to require sizes, as no size requires an entry.
//!
//! The engine's audit checks them in debug builds.
//!
//! Reference: `docs/spec/soft-updates.md` §2, §3.2.

mod cycles;
mod edges;
#[cfg(test)]
mod tests;

use super::arena::Arena;
use super::dep::{
    AllocDep, Condition, DepId, DepKind, EntryDep, ExtAttrDep, Holds, Level, Requirement,
    SizeFloor, WriteState,
};
use super::smallset::SmallSet;
use smallvec::SmallVec;
use std::cell::Cell;

/// A few dependencies.
pub(super) type DepIds = SmallVec<[DepId; 4]>;

/// A dependency.
#[derive(Debug)]
pub(super) struct Dep {
    kind: DepKind,
    state: WriteState,
    requirements: SmallSet<Requirement>,
    dependents: SmallSet<DepId>,
}

impl Dep {
    pub(super) fn kind(&self) -> &DepKind {
        &self.kind
    }

    pub(super) fn into_kind(self) -> DepKind {
        self.kind
    }

    pub(super) fn state(&self) -> WriteState {
        self.state
    }

    /// Whether a write may contain the change.
    pub(super) fn is_ready(&self) -> bool {
        self.requirements.iter().all(|r| !r.holds_write())
    }

    /// Whether it requires nothing.
    pub(super) fn is_satisfied(&self) -> bool {
        self.requirements.is_empty()
    }

    pub(super) fn requirements(&self) -> impl Iterator<Item = Requirement> {
        self.requirements.iter().copied()
    }

    pub(super) fn requires(&self, condition: Condition) -> bool {
        self.requirements.contains(&Requirement::new(condition, Holds::Write))
    }

    pub(super) fn dependents(&self) -> impl Iterator<Item = DepId> {
        self.dependents.iter().copied()
    }

    /// Its requirements for `on`, of either level.
    fn requirements_for(&self, on: DepId) -> SmallVec<[Requirement; 2]> {
        let conditions = [Level::Durable, Level::Reachable].map(|level| Condition::Dep(on, level));
        let of = |c: &Condition| self.requirements.get(&Requirement::new(*c, Holds::Write));
        conditions.iter().filter_map(of).copied().collect()
    }

    /// Bytes that it allocated.
    fn heap_bytes(&self) -> usize {
        let own = match &self.kind {
            DepKind::Alloc(alloc) => {
                size_of::<AllocDep>()
                    + alloc.frees.capacity() * size_of::<crate::ordering::FragRun>()
                    + alloc.entries.capacity() * size_of::<DepId>()
            }
            DepKind::ExtAttr(_) => size_of::<ExtAttrDep>(),
            DepKind::SizeFloor(_) => size_of::<SizeFloor>(),
            DepKind::FreeBlks { runs, .. } => size_of_val(&**runs) + runs.heap_bytes(),
            _ => 0,
        };
        own + self.requirements.bytes() + self.dependents.bytes()
    }
}

/// The dependencies and their edges.
#[derive(Debug)]
pub(super) struct Graph {
    deps: Arena<Dep>,
    /// Requirements of all dependencies.
    edges: u64,
    /// Dependencies that may have no requirements left.
    satisfied: Vec<DepId>,
    /// Dependencies, edges and waiters visited: the cost of the bookkeeping.
    steps: Cell<u64>,
}

impl Graph {
    pub(super) fn new() -> Graph {
        Graph { deps: Arena::new(), edges: 0, satisfied: Vec::new(), steps: Cell::new(0) }
    }

    /// Adds a dependency without requirements.
    pub(super) fn insert(&mut self, kind: DepKind) -> DepId {
        self.deps.insert(Dep {
            kind,
            state: WriteState::Unwritten,
            requirements: SmallSet::default(),
            dependents: SmallSet::default(),
        })
    }

    pub(super) fn get(&self, id: DepId) -> Option<&Dep> {
        self.deps.get(id)
    }

    pub(super) fn contains(&self, id: DepId) -> bool {
        self.deps.contains_key(id)
    }

    pub(super) fn len(&self) -> usize {
        self.deps.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (DepId, &Dep)> {
        self.deps.iter()
    }

    /// Requirements of all dependencies.
    pub(super) fn edges(&self) -> u64 {
        self.edges
    }

    pub(super) fn steps(&self) -> u64 {
        self.steps.get()
    }

    /// Counts `n` dependencies, edges or waiters visited.
    pub(super) fn count_steps(&self, n: usize) {
        self.steps.set(self.steps.get() + n as u64);
    }

    pub(super) fn bytes(&self) -> usize {
        self.deps.bytes()
            + self.satisfied.capacity() * size_of::<DepId>()
            + self.deps.values().map(Dep::heap_bytes).sum::<usize>()
    }

    pub(super) fn kind(&self, id: DepId) -> Option<&DepKind> {
        self.deps.get(id).map(|dep| &dep.kind)
    }

    pub(super) fn kind_mut(&mut self, id: DepId) -> Option<&mut DepKind> {
        self.deps.get_mut(id).map(|dep| &mut dep.kind)
    }

    pub(super) fn entry(&self, id: DepId) -> Option<&EntryDep> {
        match self.kind(id)? {
            DepKind::Entry(entry) => Some(entry),
            _ => None,
        }
    }

    pub(super) fn entry_mut(&mut self, id: DepId) -> Option<&mut EntryDep> {
        match self.kind_mut(id)? {
            DepKind::Entry(entry) => Some(entry),
            _ => None,
        }
    }

    pub(super) fn alloc(&self, id: DepId) -> Option<&AllocDep> {
        match self.kind(id)? {
            DepKind::Alloc(alloc) => Some(alloc),
            _ => None,
        }
    }

    pub(super) fn alloc_mut(&mut self, id: DepId) -> Option<&mut AllocDep> {
        match self.kind_mut(id)? {
            DepKind::Alloc(alloc) => Some(alloc),
            _ => None,
        }
    }

    pub(super) fn floor(&self, id: DepId) -> Option<&SizeFloor> {
        match self.kind(id)? {
            DepKind::SizeFloor(floor) => Some(floor),
            _ => None,
        }
    }

    pub(super) fn floor_mut(&mut self, id: DepId) -> Option<&mut SizeFloor> {
        match self.kind_mut(id)? {
            DepKind::SizeFloor(floor) => Some(floor),
            _ => None,
        }
    }

    pub(super) fn ext_attr_mut(&mut self, id: DepId) -> Option<&mut ExtAttrDep> {
        match self.kind_mut(id)? {
            DepKind::ExtAttr(ext) => Some(ext),
            _ => None,
        }
    }

    /// Whether it is an item of work.
    pub(super) fn is_work(&self, id: DepId) -> bool {
        self.kind(id).is_some_and(DepKind::is_work)
    }

    /// Whether no write contained it.
    pub(super) fn is_unwritten(&self, id: DepId) -> bool {
        self.get(id).is_some_and(|dep| dep.state == WriteState::Unwritten)
    }

    /// Those of `ids` that a write may have contained.
    pub(super) fn written(&self, ids: &[DepId]) -> impl Iterator<Item = DepId> {
        ids.iter().copied().filter(|id| !self.is_unwritten(*id))
    }

    /// Whether it exists, and a write may contain it.
    pub(super) fn is_ready(&self, id: DepId) -> bool {
        self.get(id).is_some_and(Dep::is_ready)
    }

    /// Whether it exists, and writes roll it back.
    pub(super) fn is_held(&self, id: DepId) -> bool {
        self.get(id).is_some_and(|dep| !dep.is_ready())
    }

    /// Whether it exists and requires nothing.
    pub(super) fn is_satisfied(&self, id: DepId) -> bool {
        self.get(id).is_some_and(Dep::is_satisfied)
    }

    /// A write that contains it is issued.
    pub(super) fn mark_issued(&mut self, id: DepId) {
        if let Some(dep) = self.deps.get_mut(id)
            && dep.state == WriteState::Unwritten
        {
            dep.state = WriteState::Issued;
        }
    }

    pub(super) fn mark_durable(&mut self, id: DepId) {
        if let Some(dep) = self.deps.get_mut(id) {
            dep.state = WriteState::Durable;
        }
    }

    /// The dependents for which `which` holds.
    pub(super) fn dependents_where(
        &self,
        id: DepId,
        which: impl Fn(&Graph, DepId) -> bool,
    ) -> DepIds {
        let all = self.get(id).map(Dep::dependents);
        all.into_iter().flatten().filter(|dep| which(self, *dep)).collect()
    }

    /// The dependents.
    pub(super) fn dependents(&self, id: DepId) -> DepIds {
        self.dependents_where(id, |_, _| true)
    }

    /// The requirements.
    pub(super) fn requirements(&self, id: DepId) -> SmallVec<[Requirement; 4]> {
        self.get(id).map(|dep| dep.requirements().collect()).unwrap_or_default()
    }
}
