//! Names that are entered (FreeBSD: `diradd`, `mkdir`).
//!
//! # Invariants
//! 1. A write shows a name only if its inode, with the link counted, is durable; of a directory
//!    also the first block and the parent's link count.
//! 2. A write never shows a name twice in a directory: a name that was merged away elsewhere in the
//!    directory is absent from the device before it is entered again.
//!
//! Reference: `docs/spec/soft-updates.md` §4.6, §6.1 to §6.4, §6.9.

use super::dep::{DepId, DepKind, Holds, Level, NO_ENTRY};
use super::direntries::chunk_of;
use super::engine::Softdep;
use super::pagedep::{RemovedEntry, key_of};
use super::pointers::Way;
use crate::ordering::rules::{Rule, holds};
use crate::ordering::{DirPos, EntryKind, EntryTarget};
use ffs_ondisk::{FileType, Ino, Lbn};

impl Softdep {
    /// See [`crate::ordering::Event::EntryAdded`].
    pub(super) fn entry_added(
        &mut self,
        at: DirPos,
        target: EntryTarget,
        kind: EntryKind,
        name: &[u8],
    ) {
        let key = key_of(&self.g, at);
        self.writes.note_change(key);
        let hash = self.pagedeps.hash(at.dir, name);
        let removed = self.pagedeps.removed(hash);
        if matches!(removed, Some(RemovedEntry::Reserved(_))) {
            self.pagedeps.forget_removed(hash);
        }
        if self.restore_entry(at, target) {
            return;
        }
        let id = self.new_value(at, target);
        self.require_target(id, at, target, kind);
        if let Some(RemovedEntry::Merged { change, chunk }) = removed
            && chunk != chunk_of(at.off)
            && holds(Rule::UniqueName)
        {
            self.require_merged(id, at.dir, chunk, change);
        }
        self.replace_reservation(at, id);
        self.push_value(at, NO_ENTRY, id);
        self.list_name(id, target.ino, kind);
        if kind == EntryKind::Mkdir {
            self.inodedeps.extra_or_default(target.ino).first_name = Some(id);
        }
    }

    /// The new name `id` requires the changes that must be durable before a write shows it, and its
    /// directory. It has no dependents yet.
    pub(super) fn require_target(
        &mut self,
        id: DepId,
        at: DirPos,
        target: EntryTarget,
        kind: EntryKind,
    ) {
        if holds(Rule::InodeBeforeName) {
            self.require_inode(id, target.ino);
        }
        if kind == EntryKind::DotDot {
            return;
        }
        // The attributes may hold an access list that denies more than the mode.
        let extra = self.inodedeps.extra(target.ino);
        if let Some(on) = extra.and_then(|extra| extra.ext_attr)
            && holds(Rule::AttributesBeforeName)
        {
            self.graph.require(id, on, Level::Durable, Holds::Write);
        }
        let is_dir = target.dtype == FileType::Directory.dirent();
        if is_dir && kind == EntryKind::Existing {
            self.nameorder.note_moved(target.ino);
        }
        for on in self.nameorder.before(&self.graph, target.ino) {
            self.graph.require(id, on, Level::Reachable, Holds::Write);
        }
        if is_dir {
            self.require_parent(id, at.dir, target.ino);
        }
        let is_link = target.dtype == FileType::Symlink.dirent();
        let needs_first_block =
            is_dir && holds(Rule::BodyBeforeName) || is_link && holds(Rule::TextBeforeName);
        if needs_first_block && self.inodedeps.extra(target.ino).is_some() {
            self.require_pointers(id, target.ino, Lbn(0), Way::FromInode);
        }
        self.require_directory(id, at.dir);
    }

    /// The name `id` of the directory `ino` in `dir` requires the link count of `dir`, and a
    /// pending `..` of `ino`: see [`Softdep::require_dotdot`].
    fn require_parent(&mut self, id: DepId, dir: Ino, ino: Ino) {
        if holds(Rule::ParentBeforeName) {
            self.require_inode(id, dir);
        }
        let dotdot = self.inodedeps.extra(ino).and_then(|extra| extra.dotdot);
        if let Some(on) = dotdot.filter(|_| holds(Rule::DotDotBeforeName)) {
            self.graph.require(id, on, Level::Durable, Holds::Write);
        }
    }

    /// See [`crate::ordering::Event::DirectoryMoves`].
    pub(super) fn directory_moves(&mut self, dir: Ino, above: &[Ino]) {
        let names = above.iter().filter_map(|ino| self.inodedeps.newest_name(*ino));
        let names = if holds(Rule::NoCycle) { names.collect() } else { Vec::new() };
        self.nameorder.set_before(dir, names);
    }

    /// See [`crate::ordering::Event::NameBarrierBegin`].
    pub(super) fn begin_name_barrier(&mut self, ino: Ino) {
        let barrier = self.graph.insert(DepKind::NameBarrier);
        self.nameorder.add_barrier(ino, barrier);
    }

    /// See [`crate::ordering::Event::NameBarrierEnd`].
    pub(super) fn end_name_barrier(&mut self, ino: Ino) {
        for barrier in self.nameorder.take_barriers(&self.graph, ino) {
            self.complete(barrier);
        }
    }

    /// See [`crate::ordering::Event::EntryMoved`].
    pub(super) fn entry_moved(&mut self, from: DirPos, to: DirPos) {
        let key = key_of(&self.g, from);
        if let Some(versions) = self.pagedeps.remove_entry(key, from.off) {
            for id in versions.pending() {
                if let Some(entry) = self.graph.entry_mut(*id) {
                    entry.at = to;
                }
            }
            self.pagedeps.insert(key_of(&self.g, to), to.off, versions);
        } else if let Some(id) = self.pagedeps.take_unreachable(from) {
            // A durable name has no versions, but may not be reachable.
            if let Some(entry) = self.graph.entry_mut(id) {
                entry.at = to;
                self.pagedeps.insert_unreachable(to, id);
            }
        }
    }

    /// The pending name of `ino` in the entry at `at`.
    pub(super) fn pending_name(&self, ino: Ino, at: DirPos) -> Option<DepId> {
        let is_at = |id: &&DepId| self.graph.entry(**id).is_some_and(|entry| entry.at == at);
        self.inodedeps.names(ino).iter().find(is_at).copied()
    }
}
