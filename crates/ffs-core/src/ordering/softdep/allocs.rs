//! Allocations: inodes, inode blocks, and pointers to blocks (FreeBSD: `allocdirect`,
//! `allocindir`).
//!
//! # Invariants
//! 1. A run that a version before the last one names is not free. It is freed when a newer version
//!    is durable, or at once if no write contained it.
//!
//! Reference: `docs/spec/soft-updates.md` §4.3 to §4.5.

use super::bmsafemap::NewInode;
use super::dep::{AllocDep, DepId, DepKind, PtrPlace};
use super::engine::Softdep;
use super::invariant::broken;
use super::pointer::PointerVersions;
use crate::buf::BufKey;
use crate::ordering::rules::{Rule, holds};
use crate::ordering::{BlockContent, FragRun, FreedRuns, PtrSlot};
use ffs_ondisk::{FragNo, Ino};

impl Softdep {
    /// See [`crate::ordering::Event::InodeAllocated`].
    pub(super) fn inode_allocated(&mut self, ino: Ino) {
        let group = self.group_of_ino(ino);
        let waits = holds(Rule::MapBeforeInode);
        let number = self.inodedeps.allocate(ino, !waits);
        let change = self.writes.note_change(group);
        if waits {
            let inode = NewInode { change, ino, allocation: number as u32 };
            self.bmsafemaps.add_inode(group, inode);
        }
    }

    /// See [`crate::ordering::Event::InodeBlockInitialized`].
    pub(super) fn inode_block_initialized(&mut self, run: FragRun) {
        let (group, block) = (self.group_of(run.at), BufKey::Meta(run.at));
        let change = self.writes.note_change(block);
        self.bmsafemaps.add_inode_block(group, block, change);
    }

    /// Whether the group must not be written yet.
    pub(super) fn is_group_held(&self, key: BufKey) -> bool {
        holds(Rule::InodeBlockBeforeGroup) && !self.bmsafemaps.blocks_before(key).is_empty()
    }

    /// See [`crate::ordering::Event::PointerSet`].
    pub(super) fn pointer_set(
        &mut self,
        slot: PtrSlot,
        (new, old): (FragRun, Option<FragRun>),
        content: BlockContent,
        block: BufKey,
    ) {
        self.writes.note_change(block);
        if let PtrSlot::ExtAttr(ino, index) = slot {
            return self.set_ext_attr(ino, index, new, block);
        }
        let Some(place) = PtrPlace::of(slot) else {
            return broken("a block pointer has no place");
        };
        let moved = old.filter(|old| old.at != new.at);
        let last = self.pointer_or_insert(place, old).last();
        let replaced = last.filter(|&id| self.graph.is_unwritten(id));
        let mut frees: Vec<FragRun> = moved.into_iter().collect();
        // A run that only grew in place since may be on the device as it was before.
        let may_show = |run: FragRun| {
            self.pointer(place).is_some_and(|p| p.may_show(&self.graph, run.at, replaced))
        };
        if replaced.is_some() && moved.is_some_and(|run| !may_show(run)) {
            self.worklist.free_blocks_now(FreedRuns::unordered(std::mem::take(&mut frees)));
        }
        let id = self.push_alloc(AllocDep { place, run: new, frees, entries: Vec::new() });
        if let PtrPlace::Indirect { ino, .. } = place
            && holds(Rule::SizeBeforeIndirect)
        {
            let extra = self.inodedeps.extra_or_default(ino);
            if content.is_directory() {
                // A directory's size must not cover a hole: the pointer comes before the size.
                extra.device_size = None;
            } else {
                extra.device_size.get_or_insert_default();
            }
        }
        self.require_allocated(id, block, new);
    }

    /// Adds a version to a pointer that has versions. It takes the place of the last one if no
    /// write contained that.
    pub(super) fn push_alloc(&mut self, alloc: AllocDep) -> DepId {
        let place = alloc.place;
        let last = self.newest_alloc(place);
        let id = self.graph.insert(DepKind::Alloc(Box::new(alloc)));
        if let Some(replaced) = last.filter(|&id| self.graph.is_unwritten(id)) {
            self.pointer_mut(place).and_then(PointerVersions::pop);
            self.graph.pass(replaced, Some(id));
            if let Some(DepKind::Alloc(replaced)) = self.cancel(replaced)
                && let Some(alloc) = self.graph.alloc_mut(id)
            {
                alloc.frees.extend(replaced.frees);
                alloc.entries = replaced.entries;
            }
        }
        match self.pointer_mut(place) {
            Some(versions) => versions.push(id),
            None => broken("a pointer gets a version and has no list of them"),
        }
        id
    }

    /// The pointer is cleared, and writes may go on to show an older version.
    pub(super) fn push_hole(&mut self, place: PtrPlace) {
        let run = FragRun { at: FragNo::HOLE, frags: 0 };
        self.push_alloc(AllocDep { place, run, frees: Vec::new(), entries: Vec::new() });
    }

    /// See [`crate::ordering::Event::PointerCancelled`].
    pub(super) fn pointer_cancelled(&mut self, slot: PtrSlot, new: FragRun) {
        // Pointers to extended attributes have no versions.
        let Some(place) = PtrPlace::of(slot) else { return };
        let last = self.newest_alloc(place);
        // Without a version of this run there is nothing to cancel.
        let Some(id) = last.filter(|id| self.run_of(*id).is_some_and(|run| run.at == new.at))
        else {
            return;
        };
        let versions = self.pointer(place);
        let older = versions.and_then(|versions| versions.pending().iter().nth_back(1).copied());
        let is_durable = versions.is_some_and(|versions| versions.durable().is_some());
        let older_hole = older.filter(|id| self.is_hole(*id));
        if older_hole.is_none() && (older.is_some() || is_durable) {
            // The device may show an older block: the pointer is a hole again.
            self.push_hole(place);
            return;
        }
        self.graph.pass(id, older_hole);
        if let Some(DepKind::Alloc(alloc)) = self.cancel(id) {
            match older_hole.and_then(|hole| self.graph.alloc_mut(hole)) {
                Some(hole) => hole.frees.extend(alloc.frees),
                None => self.written_entries.extend(alloc.entries),
            }
        }
        self.pointer_mut(place).and_then(PointerVersions::pop);
        self.drop_settled_pointer(place);
    }

    /// The device shows the pointer with version `id`, and no older one.
    pub(super) fn alloc_durable(&mut self, id: DepId) {
        // A newer version, or a truncation, may have ended it while the write was in flight.
        let Some(alloc) = self.graph.alloc(id) else { return };
        let (place, run) = (alloc.place, alloc.run);
        let settled = self.pointer_mut(place).map(|versions| versions.set_durable(id, run));
        self.drop_settled_pointer(place);
        let frees = self.end_allocs(settled.unwrap_or_default());
        self.worklist.free_blocks_now(FreedRuns::unordered(frees));
    }

    /// Ends versions of a pointer that is cleared. Work, and what waits for a name to be absent,
    /// requires the inode and the indirect blocks `above`: one of them lost the pointer. The
    /// entries of the block end with its buffer. Returns the runs that the versions kept from being
    /// freed.
    pub(super) fn end_cleared_allocs(
        &mut self,
        ids: impl IntoIterator<Item = DepId>,
        ino: Ino,
        above: &[i64],
    ) -> Vec<FragRun> {
        let mut frees = Vec::new();
        for id in ids {
            for dependent in self.graph.dependents(id) {
                let is_work = self.graph.kind(dependent).is_some_and(DepKind::is_work);
                if is_work || self.awaits_removal(dependent) {
                    self.require_inode(dependent, ino);
                    for &block in above {
                        self.require_block(dependent, BufKey::File(ino, block));
                    }
                }
            }
            if let Some(DepKind::Alloc(alloc)) = self.complete(id) {
                frees.extend(alloc.frees);
            }
        }
        frees
    }

    /// Whether the dependency, if it requires a directory block, requires it to lose a name.
    pub(super) fn awaits_removal(&self, id: DepId) -> bool {
        use DepKind::{DropLinks, Entry, PublishedNames, SyncPoint};
        let kind = self.graph.kind(id);
        matches!(kind, Some(DropLinks { .. } | Entry(_) | PublishedNames | SyncPoint))
    }

    /// Ends versions of a pointer. Returns the runs that they kept from being freed.
    pub(super) fn end_allocs(&mut self, ids: impl IntoIterator<Item = DepId>) -> Vec<FragRun> {
        let mut frees = Vec::new();
        for id in ids {
            if let Some(DepKind::Alloc(alloc)) = self.complete(id) {
                frees.extend(alloc.frees);
                self.written_entries.extend(alloc.entries);
            }
        }
        frees
    }
}
