//! The engine's state: the graph and the tables, and the steps that change several of them.
//!
//! # Invariants
//! 1. A dependency requires a block or an inode exactly while it is among the waiters of that.
//! 2. The graph and the tables do not call the engine. Methods of the engine call only methods that
//!    are in the same file, or in an earlier one of the table in [`super`].

use super::bmsafemap::BmSafeMaps;
use super::dep::{Condition, DepId, DepKind, EntryChange, EntryDep, Holds};
use super::graph::{Dep, Graph};
use super::indirdep::IndirDeps;
use super::inflight::InFlight;
use super::inodedep::InodeDeps;
use super::nameorder::NameOrder;
use super::pagedep::PageDeps;
use super::worklist::Worklist;
use super::writes::Writes;
use crate::buf::BufKey;
use crate::ordering::rules::{Rule, holds};
use crate::ordering::{FragRun, Pending};
use ffs_ondisk::dir::DirFormat;
use ffs_ondisk::{FragNo, Geometry, Ino};
use std::ops::RangeInclusive;

/// Requirements for which a dependency counts once in [`Pending::deps`].
const REQUIREMENTS_PER_DEP: u64 = 4;

/// The engine of soft updates.
#[derive(Debug)]
pub(super) struct Softdep {
    pub(super) g: Geometry,
    pub(super) fmt: DirFormat,
    pub(super) graph: Graph,
    pub(super) writes: Writes,
    pub(super) bmsafemaps: BmSafeMaps,
    pub(super) inodedeps: InodeDeps,
    pub(super) indirdeps: IndirDeps,
    pub(super) pagedeps: PageDeps,
    pub(super) nameorder: NameOrder,
    pub(super) inflight: InFlight,
    pub(super) worklist: Worklist,
    /// Entries that were written, to be examined because the pointer to their block ended.
    pub(super) written_entries: Vec<DepId>,
    /// Whether an entry was reserved since the last moment without inodedeps.
    pub(super) reserved: bool,
    /// Directories with freed entries that were not returned.
    pub(super) freed_dirs: u64,
    /// Calls since the last audit.
    pub(super) unaudited: u64,
}

/// A change of a block, by its number.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockChange {
    pub(super) key: BufKey,
    pub(super) change: u64,
}

/// The buffers of the content of a file.
pub(super) fn content_of(ino: Ino) -> RangeInclusive<BufKey> {
    BufKey::File(ino, 0)..=BufKey::File(ino, i64::MAX)
}

impl Softdep {
    /// For a volume without pending changes; `secret` keys the hashes of names.
    pub(super) fn new(g: Geometry, secret: u64) -> Softdep {
        Softdep {
            g,
            fmt: DirFormat::of(&g),
            graph: Graph::new(),
            writes: Writes::default(),
            bmsafemaps: BmSafeMaps::default(),
            inodedeps: InodeDeps::new(),
            indirdeps: IndirDeps::default(),
            pagedeps: PageDeps::new(secret),
            nameorder: NameOrder::default(),
            inflight: InFlight::default(),
            worklist: Worklist::default(),
            written_entries: Vec::new(),
            reserved: false,
            freed_dirs: 0,
            unaudited: 0,
        }
    }

    /// The buffer of the cylinder group of a fragment.
    pub(super) fn group_of(&self, at: FragNo) -> BufKey {
        BufKey::Meta(self.g.cgtod(self.g.dtog(at)))
    }

    /// The buffer of the cylinder group of an inode.
    pub(super) fn group_of_ino(&self, ino: Ino) -> BufKey {
        BufKey::Meta(self.g.cgtod(self.g.ino_to_cg(ino)))
    }

    /// The buffer of the inode block of an inode.
    pub(super) fn inode_block(&self, ino: Ino) -> BufKey {
        BufKey::Meta(self.g.ino_to_fsba(ino))
    }

    /// `id` requires all changes that the block has now.
    pub(super) fn require_block(&mut self, id: DepId, key: BufKey) {
        if let Some(change) = self.writes.last_change(key) {
            self.require_change(id, BlockChange { key, change });
        }
    }

    /// `id` requires a change of a block.
    pub(super) fn require_change(&mut self, id: DepId, on: BlockChange) {
        if self.graph.contains(id) && self.writes.wait(id, on.key, on.change) {
            self.graph.record(id, Condition::Block(on.key), Holds::Write);
        }
    }

    /// `id` requires the inode as it is stored now.
    pub(super) fn require_inode(&mut self, id: DepId, ino: Ino) {
        if self.graph.contains(id) && self.inodedeps.wait(id, ino) {
            self.graph.record(id, Condition::Inode(ino), Holds::Write);
        }
    }

    /// The dependents of `id`, a change of the inode that will never be durable, require the inode
    /// without it.
    pub(super) fn require_inode_instead(&mut self, id: DepId, ino: Ino) {
        for dependent in self.graph.dependents(id) {
            self.require_inode(dependent, ino);
        }
    }

    /// `id`, a pointer to `run`, requires the content of the block and the bitmap with the run.
    pub(super) fn require_allocated(&mut self, id: DepId, block: BufKey, run: FragRun) {
        if holds(Rule::ContentBeforePointer) {
            self.require_block(id, block);
        }
        if holds(Rule::MapBeforePointer) {
            self.require_block(id, self.group_of(run.at));
        }
    }

    /// Ends a dependency that has come as far as anything can require.
    pub(super) fn complete(&mut self, id: DepId) -> Option<DepKind> {
        let dep = self.graph.complete(id)?;
        self.stop_waiting(id, &dep);
        if let DepKind::Entry(EntryDep { change: EntryChange::ClearAndDrop { ino }, .. }) =
            dep.kind()
        {
            self.links_can_drop(id, *ino, 1);
        }
        Some(dep.into_kind())
    }

    /// Ends a dependency that no write will contain, and whose dependents were passed on.
    pub(super) fn cancel(&mut self, id: DepId) -> Option<DepKind> {
        let dep = self.graph.cancel(id)?;
        self.stop_waiting(id, &dep);
        Some(dep.into_kind())
    }

    fn stop_waiting(&mut self, id: DepId, dep: &Dep) {
        for requirement in dep.requirements() {
            match requirement.condition() {
                Condition::Block(key) => self.writes.stop_waiting(id, key),
                Condition::Inode(ino) => self.inodedeps.stop_waiting(id, ino),
                Condition::Dep(..) => {}
            }
        }
    }

    /// The device does not show the name any more whose removal is `id`: `by` links of `ino` can
    /// drop.
    pub(super) fn links_can_drop(&mut self, id: DepId, ino: Ino, by: u16) {
        self.worklist.settle_removal();
        self.inodedeps.unlist_drop(ino, id);
        self.worklist.drop_links(ino, by);
    }

    /// See [`crate::ordering::Ordering::pending`].
    pub(super) fn pending(&self) -> Pending {
        let known = (self.inodedeps.len() + self.writes.len()) as u64 + self.edges();
        let steps = self.graph.steps();
        Pending { deps: self.deps(), known, steps, ..self.worklist.totals() }
    }

    /// Requirements, and new inodes that wait for their bitmap.
    pub(super) fn edges(&self) -> u64 {
        self.graph.edges() + self.bmsafemaps.new_inodes()
    }

    /// Dependencies and items of work. It bounds the memory: if dependencies have more than a few
    /// requirements each, their requirements count.
    pub(super) fn deps(&self) -> u64 {
        let deps = (self.graph.len() + self.worklist.len()) as u64;
        deps.max(self.edges() / REQUIREMENTS_PER_DEP)
    }
}
