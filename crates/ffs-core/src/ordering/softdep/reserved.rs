//! Reserved entries: records of removed names that stay in place until the device has lost the
//! name, because a write may have to show it once more.
//!
//! # Invariants
//! 1. An entry whose last value is "no entry" is reserved: the directory code keeps its record and
//!    its name.
//! 2. No write shows a name twice in a directory: the reserved entry of a name is the one that the
//!    name is entered in again.
//!
//! Reference: `docs/spec/soft-updates.md` §6.3a.

use super::dep::{DepId, DepKind, EntryChange, EntryDep, NO_ENTRY};
use super::direntries::{bit, chunk_of, start_of_chunk};
use super::engine::Softdep;
use super::pagedep::{RemovedEntry, key_of};
use crate::ordering::{DirPos, EntryTarget, ReservedMask};
use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::{DirOff, Ino};

impl Softdep {
    /// The inodes that a write of the block may show in the entry at `at`, besides the present one,
    /// with their types.
    pub(super) fn older_values(&self, at: DirPos) -> Vec<EntryTarget> {
        let Some(versions) = self.pagedeps.entry(key_of(&self.g, at), at.off) else {
            return Vec::new();
        };
        let before = versions.pending().split_last().map_or(&[][..], |(_, before)| before);
        let pending = before.iter().filter_map(|id| match self.graph.kind(*id) {
            Some(DepKind::Entry(entry)) => Some(entry.change.value()),
            _ => None,
        });
        let all = std::iter::once(versions.durable()).chain(pending);
        all.filter(|value| *value != NO_ENTRY).collect()
    }

    /// The entry at `at` gets `id` as its last value. `durable`: its value on the device, if
    /// nothing about it is pending.
    pub(super) fn push_value(&mut self, at: DirPos, durable: EntryTarget, id: DepId) {
        let (key, reserved) = (key_of(&self.g, at), self.is_clear(id));
        self.pagedeps.push_version(key, at.off, durable, id, reserved);
    }

    /// The entry at `at`, whose name has a hash, is reserved by its last value `id`.
    pub(super) fn reserve(&mut self, at: DirPos, id: DepId, hash: u64) {
        self.inodedeps.extra_or_default(at.dir).reserved += 1;
        self.reserved = true;
        self.pagedeps.note_reserved(hash, at.off);
        if let Some(entry) = self.graph.entry_mut(id) {
            entry.hash = hash;
        }
    }

    /// One entry of `dir` is not reserved any more.
    pub(super) fn unreserve(&mut self, dir: Ino) {
        if let Some(extra) = self.inodedeps.extra_mut(dir) {
            debug_assert!(extra.reserved > 0, "{dir:?} has no reserved entry");
            extra.reserved = extra.reserved.saturating_sub(1);
            self.inodedeps.drop_idle(dir);
        }
    }

    /// If the reserved entry at `at` gets the name back that the device shows, cancels the removal.
    /// Returns whether it did.
    pub(super) fn restore_entry(&mut self, at: DirPos, target: EntryTarget) -> bool {
        let key = key_of(&self.g, at);
        // An entry without pending values is not reserved.
        let Some(versions) = self.pagedeps.entry(key, at.off) else { return false };
        // With several values, a write may have shown one that is not the durable one.
        let [last] = *versions.pending() else { return false };
        if versions.durable() != target || !self.graph.is_unwritten(last) || !self.is_clear(last) {
            return false;
        }
        // Of a rename: the next name of the entry must not be written before the new name.
        if self.guards_of(last).iter().any(|&on| self.value_of(on).is_some()) {
            return false;
        }
        self.pagedeps.remove_entry(key, at.off);
        self.unreserve(at.dir);
        if let Some(ino) = self.take_link_drop(last) {
            self.keep_links(last, ino, 1);
        }
        for dependent in self.graph.dependents(last) {
            // The links that would have dropped belong to the name again.
            if let Some(&DepKind::DropLinks { ino, by, .. }) = self.graph.kind(dependent)
                && ino == target.ino
            {
                self.complete(dependent);
                self.keep_links(dependent, ino, by);
            }
        }
        self.complete(last);
        true
    }

    /// If the entry at `at` is reserved, the new name `id` takes its place and inherits the guards
    /// of the removal. A removal that was in no write ends: `id` inherits its dependents, too.
    pub(super) fn replace_reservation(&mut self, at: DirPos, id: DepId) {
        let key = key_of(&self.g, at);
        let last = self.pagedeps.entry(key, at.off).and_then(|versions| versions.last());
        // An entry in a free record, not a reserved one.
        let Some(last) = last.filter(|&last| self.is_clear(last)) else { return };
        self.unreserve(at.dir);
        if !self.graph.is_unwritten(last) {
            // A later write may roll the removal back ([`super::rollback_dir`]).
            return self.inherit_guards(last, id, None);
        }
        if self.graph.can_pass(last, id, |_, _| true) {
            self.pagedeps.entry_mut(key, at.off).and_then(|versions| versions.pop());
            self.split_link_drop(last);
            self.inherit_guards(last, id, None);
            self.graph.pass(last, Some(id));
            self.cancel(last);
        }
    }

    /// The device does not show the reserved entry at `at` any more. `is_last`: no other name was
    /// entered there, and the record is free.
    pub(super) fn reservation_durable(&mut self, id: DepId, at: DirPos, is_last: bool) {
        if is_last {
            if let Some(entry) = self.graph.entry(id) {
                self.pagedeps.forget_reserved(entry.hash, at.off);
            }
            let extra = self.inodedeps.extra_or_default(at.dir);
            let is_first = extra.freed.is_empty();
            extra.freed.insert(at.off);
            self.freed_dirs += u64::from(is_first);
            self.unreserve(at.dir);
        }
        self.complete(id);
    }

    /// See [`crate::ordering::Ordering::take_freed_entries`].
    pub(super) fn take_freed_entries(&mut self, dir: Ino) -> Vec<DirOff> {
        let extra = self.inodedeps.extra_mut(dir);
        let freed = extra.map(|extra| std::mem::take(&mut extra.freed)).unwrap_or_default();
        if !freed.is_empty() {
            self.freed_dirs = self.freed_dirs.saturating_sub(1);
            self.inodedeps.drop_idle(dir);
        }
        freed.into_iter().collect()
    }

    /// See [`crate::ordering::Ordering::reserved_for`].
    pub(super) fn reserved_for(&self, dir: Ino, name: &[u8]) -> Option<DirOff> {
        let hash = self.pagedeps.hash(dir, name);
        // A name that was not removed lately, or whose record was merged into its neighbour.
        let Some(RemovedEntry::Reserved(off)) = self.pagedeps.removed(hash) else { return None };
        let key = key_of(&self.g, DirPos { dir, off });
        let last = self.pagedeps.entry(key, off)?.last()?;
        let entry = self.graph.entry(last)?;
        (entry.change.is_clear() && entry.hash == hash).then_some(off)
    }

    /// See [`crate::ordering::Ordering::has_reserved`].
    pub(super) fn has_reserved(&self, dir: Ino) -> bool {
        self.inodedeps.extra(dir).is_some_and(|extra| extra.has_reserved())
    }

    /// See [`crate::ordering::Ordering::reserved_in`]; for the chunk with `at`.
    pub(super) fn reserved_beside(&self, at: DirPos) -> ReservedMask {
        let extra = self.inodedeps.extra(at.dir).filter(|e| self.reserved && e.has_reserved());
        // Most directories have no reserved entries.
        let Some(extra) = extra else { return 0 };
        let key = key_of(&self.g, at);
        let held = if extra.reserved > 0 { self.pagedeps.reserved_in(key, at.off) } else { 0 };
        if extra.freed.is_empty() {
            return held;
        }
        let start = start_of_chunk(chunk_of(at.off));
        let end = DirOff(start.0.saturating_add(DIRBLKSIZ as u32));
        extra.freed.range(start..end).fold(held, |mask, off| mask | bit(off.0))
    }

    /// A value for the entry at `at`.
    pub(super) fn new_value(&mut self, at: DirPos, value: EntryTarget) -> DepId {
        let change = if value == NO_ENTRY { EntryChange::Clear } else { EntryChange::set(value) };
        self.graph.insert(DepKind::Entry(EntryDep { at, change, hash: 0 }))
    }
}
