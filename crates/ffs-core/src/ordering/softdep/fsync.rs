//! The blocks that an fsync must write (FreeBSD: `softdep_fsync`, `flush_deplist`).
//!
//! An fsync waits for its file, and by default for every older change of names. A sync point is a
//! dependency that requires these changes; the graph passes it on to the changes that take their
//! place.
//!
//! # Invariants
//! 1. [`Softdep::blocks_to_write`] returns every block that the target requires, whether it can be
//!    written whole now or not. It returns no content of other files unless a name requires it.
//! 2. Nothing requires a sync point.
//!
//! Reference: `docs/spec/soft-updates.md` §8.1, §8.3.

use super::dep::{Condition, DepId, DepKind, Holds, Level, PtrPlace, WriteState};
use super::engine::{Softdep, content_of};
use super::graph::Dep;
use super::inodedep::{InodeDep, InodeExtra};
use super::pagedep::key_of;
use crate::buf::BufKey;
use crate::ordering::rules::{Rule, holds};
use crate::ordering::{DirPos, FragRun, OlderNames, SyncPoint, SyncTarget};
use ffs_ondisk::Ino;
use std::collections::BTreeSet;

/// A step of a walk.
enum Step {
    Condition(Condition),
    /// The whole file.
    File(Ino),
}

/// A walk over the requirements of a target.
#[derive(Default)]
struct Walk {
    blocks: BTreeSet<BufKey>,
    files: BTreeSet<Ino>,
    /// Files whose pointers and sizes were visited.
    pointers: BTreeSet<Ino>,
    deps: BTreeSet<DepId>,
    steps: Vec<Step>,
}

impl Walk {
    fn push_block(&mut self, key: BufKey) {
        self.steps.push(Step::Condition(Condition::Block(key)));
    }

    fn push_dep(&mut self, id: DepId) {
        self.steps.push(Step::Condition(Condition::Dep(id, Level::Durable)));
    }
}

impl Softdep {
    /// See [`crate::ordering::Ordering::blocks_to_write`].
    pub(super) fn blocks_to_write(&self, target: SyncTarget) -> Vec<BufKey> {
        let mut walk = Walk::default();
        match target {
            SyncTarget::File(ino) => walk.steps.push(Step::File(ino)),
            SyncTarget::Directory(dir) => {
                walk.steps.push(Step::File(dir));
                for (key, entries) in self.pagedeps.blocks(content_of(dir)) {
                    walk.blocks.insert(key);
                    let last = entries.iter().filter_map(|(_, versions)| versions.last());
                    last.for_each(|id| walk.push_dep(id));
                }
                walk.blocks.extend(self.writes.keys(content_of(dir)));
            }
            SyncTarget::Names(point) => {
                self.nameorder.sync_point(point).into_iter().for_each(|id| walk.push_dep(id));
            }
        }
        while let Some(step) = walk.steps.pop() {
            match step {
                Step::File(ino) => self.walk_file(&mut walk, ino),
                Step::Condition(Condition::Block(key)) => self.walk_block(&mut walk, key),
                Step::Condition(Condition::Inode(ino)) => self.walk_inode(&mut walk, ino),
                Step::Condition(Condition::Dep(id, _)) => self.walk_dep(&mut walk, id),
            }
        }
        self.graph.count_steps(walk.blocks.len() + walk.files.len() + walk.deps.len());
        walk.blocks.into_iter().collect()
    }

    fn walk_block(&self, walk: &mut Walk, key: BufKey) {
        if walk.blocks.insert(key) {
            self.bmsafemaps.blocks_before(key).iter().for_each(|key| walk.push_block(*key));
            self.last_pointer_held(key).into_iter().for_each(|id| walk.push_dep(id));
        }
    }

    /// The blocks that show the inode as it is stored now, with or without its newest pointers.
    fn walk_inode(&self, walk: &mut Walk, ino: Ino) {
        walk.push_block(self.inode_block(ino));
        if self.inodedeps.is_hidden(ino) {
            walk.push_block(self.group_of_ino(ino));
        }
    }

    fn walk_file(&self, walk: &mut Walk, ino: Ino) {
        if !walk.files.insert(ino) {
            return;
        }
        self.walk_inode(walk, ino);
        // All of an inode without dependencies is in its block.
        let Some(dep) = self.inodedeps.get(ino) else { return };
        dep.names().iter().chain(dep.old_names()).for_each(|id| walk.push_dep(*id));
        dep.extra().and_then(|extra| extra.dotdot).into_iter().for_each(|id| walk.push_dep(id));
        self.walk_pointers(walk, ino);
    }

    /// The pending pointers and bounds of the file.
    fn walk_pointers(&self, walk: &mut Walk, ino: Ino) {
        if !walk.pointers.insert(ino) {
            return;
        }
        if let Some(extra) = self.inodedeps.extra(ino) {
            let pointers = extra.pointers().flat_map(|(_, versions)| versions.pending());
            pointers.for_each(|id| walk.push_dep(*id));
            extra.bounds().chain(extra.ext_attr).for_each(|id| walk.push_dep(id));
        }
        for (key, indirdep) in self.indirdeps.of_file(ino) {
            walk.blocks.insert(key);
            let versions = indirdep.values().flat_map(|versions| versions.pending());
            versions.for_each(|id| walk.push_dep(*id));
        }
    }

    fn walk_dep(&self, walk: &mut Walk, id: DepId) {
        if !walk.deps.insert(id) {
            return;
        }
        // The dependency may have ended.
        let Some(dep) = self.graph.get(id) else { return };
        match dep.kind() {
            DepKind::Entry(entry) => {
                walk.push_block(key_of(&self.g, entry.at));
                // The block may have moved since.
                if self.inodedeps.extra(entry.at.dir).is_some() {
                    walk.steps.push(Step::File(entry.at.dir));
                }
            }
            DepKind::Alloc(alloc) => match alloc.place {
                PtrPlace::Indirect { ino, block, .. } => {
                    walk.push_block(BufKey::File(ino, block));
                    // The size has to cover the block first.
                    self.walk_inode(walk, ino);
                }
                PtrPlace::Inode(ino, _) => {
                    self.walk_inode(walk, ino);
                    // Other pointers of the file may keep it out of writes: a fragment before it
                    // that grows; for a hole, even one that a write showed, no block behind it.
                    // Fragments wait while a write shows the old end of the file.
                    let is_part = |run: FragRun| run.frags < self.g.frag;
                    let may_be_rolled_back = dep.state() == WriteState::Unwritten
                        || self.run_of(id).is_some_and(is_part);
                    if dep.is_ready() && may_be_rolled_back {
                        self.walk_pointers(walk, ino);
                    }
                }
            },
            DepKind::SizeCeiling { ino, .. } => self.walk_inode(walk, *ino),
            DepKind::SizeFloor(floor) => {
                self.walk_inode(walk, floor.ino);
                // A pointer that is not ready may keep the old end.
                if dep.is_ready() {
                    self.walk_pointers(walk, floor.ino);
                }
            }
            DepKind::ExtAttr(ext_attr) => self.walk_inode(walk, ext_attr.ino),
            DepKind::DropLinks { .. }
            | DepKind::FreeBlks { .. }
            | DepKind::FreeFile { .. }
            | DepKind::NameBarrier
            | DepKind::PublishedNames
            | DepKind::SyncPoint => {}
        }
        walk.steps.extend(dep.requirements().map(|r| Step::Condition(r.condition())));
    }

    /// See [`crate::ordering::Ordering::is_durable`].
    pub(super) fn is_durable(&self, target: SyncTarget) -> bool {
        match target {
            SyncTarget::File(ino) => self.is_file_durable(ino),
            SyncTarget::Directory(dir) => {
                self.is_file_durable(dir)
                    && self.pagedeps.blocks(content_of(dir)).next().is_none()
                    && self.writes.are_durable(content_of(dir))
            }
            SyncTarget::Names(point) => {
                let dep = self.nameorder.sync_point(point).and_then(|id| self.graph.get(id));
                dep.is_none_or(Dep::is_satisfied)
            }
        }
    }

    fn is_file_durable(&self, ino: Ino) -> bool {
        let is_settled = |extra: &InodeExtra| {
            extra.pointers().len() == 0
                && extra.bounds().next().is_none()
                && extra.ext_attr.is_none()
        };
        !self.indirdeps.has_file(ino)
            && self.inodedeps.get(ino).is_none_or(|dep: &InodeDep| {
                dep.is_durable()
                    && dep.names().is_empty()
                    && dep.extra().is_none_or(is_settled)
                    && !dep.old_names().iter().any(|&id| self.graph.contains(id))
            })
    }

    /// See [`crate::ordering::Ordering::begin_sync_point`].
    pub(super) fn begin_sync_point(&mut self, which: OlderNames) -> Option<SyncPoint> {
        let wanted = match which {
            OlderNames::All => self.changes_of_names(),
            OlderNames::MovedDirectories => self.names_of_moved_directories(),
        };
        if wanted.is_empty() || !holds(Rule::FsyncOlderNames) {
            return None;
        }
        let id = self.graph.insert(DepKind::SyncPoint);
        for (on, level) in wanted {
            self.graph.require(id, on, level, Holds::Write);
        }
        Some(self.nameorder.add_sync_point(id))
    }

    /// See [`crate::ordering::Ordering::end_sync_point`].
    pub(super) fn end_sync_point(&mut self, point: SyncPoint) {
        if let Some(id) = self.nameorder.remove_sync_point(point) {
            self.cancel(id);
        }
    }

    /// All pending changes of names: names entered, names to be removed, and links that drop
    /// with names that were merged away.
    fn changes_of_names(&self) -> Vec<(DepId, Level)> {
        if self.pagedeps.is_settled() && self.worklist.removals() == 0 {
            return Vec::new();
        }
        self.graph.count_steps(self.graph.len());
        let level = |dep: &Dep| match dep.kind() {
            DepKind::Entry(entry) => {
                let level = if entry.change.is_clear() { Level::Durable } else { Level::Reachable };
                Some(level).filter(|_| !self.has_name_barrier(dep))
            }
            DepKind::DropLinks { name: Some(_), .. } => Some(Level::Durable),
            _ => None,
        };
        self.graph.iter().filter_map(|(id, dep)| Some((id, level(dep)?))).collect()
    }

    /// Whether the operation that entered the name has not returned.
    fn has_name_barrier(&self, dep: &Dep) -> bool {
        let is_barrier = |on| matches!(self.graph.kind(on), Some(DepKind::NameBarrier));
        dep.requirements().filter_map(|r| r.dep()).any(is_barrier)
    }

    /// New names of directories, and the link drops of their old ones: of two names in one
    /// directory fsck keeps the one that it finds first.
    fn names_of_moved_directories(&mut self) -> Vec<(DepId, Level)> {
        let mut wanted = Vec::new();
        let inodedeps = &self.inodedeps;
        self.nameorder.retain_moved(|ino| {
            // All names of the directory are reachable, and its old names absent.
            let Some(dep) = inodedeps.get(*ino) else { return false };
            let before = wanted.len();
            let drops = dep.extra().into_iter().flat_map(|extra| &extra.link_drops);
            wanted.extend(dep.names().iter().map(|id| (*id, Level::Reachable)));
            wanted.extend(dep.old_names().iter().chain(drops).map(|id| (*id, Level::Durable)));
            wanted.len() > before
        });
        wanted
    }

    /// See [`crate::ordering::Ordering::is_exchanged`].
    pub(super) fn is_exchanged(&self, ino: Ino) -> bool {
        self.inodedeps.extra(ino).is_some_and(|extra| extra.exchanged)
    }

    /// See [`crate::ordering::Ordering::is_entry_durable`].
    pub(super) fn is_entry_durable(&self, at: DirPos) -> bool {
        let is_pending = self.pagedeps.entry(key_of(&self.g, at), at.off).is_some();
        !is_pending && !self.pagedeps.is_unreachable(at)
    }
}
