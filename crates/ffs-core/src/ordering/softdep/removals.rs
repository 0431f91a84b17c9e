//! Names that are removed or replaced (FreeBSD: `dirrem`), and the changes that they require.
//!
//! # Invariants
//! 1. A name that no write contained is removed without a trace, unless other changes rely on it
//!    and cannot rely on another name.
//! 2. A name that nothing guards is removed with the next write of its block.
//!
//! Reference: `docs/spec/soft-updates.md` §6.3, §6.3b, §6.5, §6.7, §6.8.

use super::dep::{DepId, DepKind, EntryChange, Holds, Level, NO_ENTRY};
use super::engine::{BlockChange, Softdep};
use super::graph::{DepIds, Graph};
use super::guards::{is_point, is_removal_barrier};
use super::invariant::broken;
use super::links::AbsentAfter;
use super::pagedep::{RemovedEntry, key_of};
use crate::buf::BufKey;
use crate::ordering::{DirPos, EntryKind, EntryTarget, RemovedName};
use ffs_ondisk::Ino;
use std::num::NonZeroU64;

/// The rest of a name that was retracted: the work that was due when it had replaced another name,
/// and the guards that it had because of that.
#[derive(Default)]
struct Retracted {
    work: DepIds,
    guards: DepIds,
}

/// The removal of a name.
#[derive(Clone, Copy)]
struct Removal {
    at: DirPos,
    old: EntryTarget,
    removed: RemovedName,
    hash: u64,
    /// The name, if it is pending.
    own: Option<DepId>,
    guardian: Option<DepId>,
    barrier: Option<DepId>,
}

impl Softdep {
    /// See [`crate::ordering::Event::EntryReplaced`].
    pub(super) fn entry_replaced(
        &mut self,
        at: DirPos,
        old: EntryTarget,
        new: EntryTarget,
        kind: EntryKind,
        removed: RemovedName,
    ) {
        self.writes.note_change(key_of(&self.g, at));
        let id = self.new_value(at, new);
        self.require_target(id, at, new, kind);
        if kind == EntryKind::DotDot {
            return self.dotdot_replaced(id, at, old, new);
        }
        let own = self.pending_name(old.ino, at);
        let guardian = self.guardian(old.ino, own, removed);
        self.guard_removed_directory((id, own), old.ino, removed);
        self.push_value(at, old, id);
        match own.and_then(|own| self.retract(own, old.ino, at, id)) {
            Some(retracted) => {
                self.drop_dot_after_older_names(old.ino, removed);
                self.require_guardian(id, guardian, &retracted.work);
                self.require_guards(id, &retracted.guards);
                self.move_work(&retracted.work, id);
            }
            None => {
                self.require_guardian(id, guardian, &[]);
                self.drop_links_after(old, removed, AbsentAfter::Entry(id));
            }
        }
        self.drop_parent_link_after(old.ino, removed, AbsentAfter::Entry(id));
        self.list_name(id, new.ino, kind);
    }

    /// The `..` of a directory names another parent, with value `id`.
    fn dotdot_replaced(&mut self, id: DepId, at: DirPos, old: EntryTarget, new: EntryTarget) {
        // Fsck keeps the name that `..` agrees with: not one in a directory that is lost itself.
        let parent = self.first_name(new.ino);
        parent.into_iter().for_each(|name| self.require_reachable(id, name));
        self.require_old_names_absent(id, at.dir);
        self.push_value(at, old, id);
        self.inodedeps.extra_or_default(at.dir).dotdot = Some(id);
        self.require_dotdot(at.dir, id);
    }

    /// See [`crate::ordering::Event::EntryRemoved`]. Returns whether the entry is reserved.
    pub(super) fn entry_removed(
        &mut self,
        at: DirPos,
        old: EntryTarget,
        name: &[u8],
        removed: RemovedName,
    ) -> bool {
        let hash = self.pagedeps.hash(at.dir, name);
        let own = self.pending_name(old.ino, at);
        let guardian = self.guardian(old.ino, own, removed);
        let barrier = if removed.renamed { None } else { self.removal_barrier() };
        let removal = Removal { at, old, removed, hash, own, guardian, barrier };
        let is_guarded = guardian.is_some() || barrier.is_some() || removed.drops >= 2;
        if own.is_none() && !is_guarded {
            // Most removals: the name is on the device.
            let block = self.merge_entry(at, hash);
            let absent = AbsentAfter::Change { block, hash };
            self.drop_links_after(old, removed, absent);
            self.drop_parent_link_after(old.ino, removed, absent);
            return false;
        }
        self.remove_guarded(removal)
    }

    /// Removes a name that is pending or guarded. Returns whether its entry is reserved.
    fn remove_guarded(&mut self, removal: Removal) -> bool {
        let Removal { at, old, removed, hash, own, guardian, barrier } = removal;
        let key = key_of(&self.g, at);
        // It collects the requirements of the removal. If there are any, it becomes the last value.
        let id = self.new_value(at, NO_ENTRY);
        self.guard_removed_directory((id, own), old.ino, removed);
        let is_new_record = self.pagedeps.entry(key, at.off).is_some_and(|versions| {
            versions.durable() == NO_ENTRY && versions.pending().iter().all(|v| Some(*v) == own)
        });
        let device_shows_other = !is_new_record && !removed.renamed;
        let retracted =
            own.and_then(|own| self.retract_removed(own, old.ino, (at, id), device_shows_other));
        let was_written = retracted.is_none();
        let Retracted { work, guards } = retracted.unwrap_or_default();
        if !was_written {
            if is_new_record {
                return self.forget_entry(removal, id, &work);
            }
            self.drop_dot_after_older_names(old.ino, removed);
        }
        self.require_guardian(id, guardian, &work);
        self.require_guards(id, &guards);
        self.require_removal_barrier(id, barrier, &work);
        // Dependents could not see when the block has lost the name.
        let is_free =
            self.graph.get(id).is_some_and(|d| d.is_satisfied() && d.dependents().next().is_none());
        if is_free {
            self.complete(id);
            let block = self.merge_entry(at, hash);
            let absent = AbsentAfter::Change { block, hash };
            self.move_work_to_block(&work, block, hash);
            if was_written {
                self.drop_links_after(old, removed, absent);
            }
            self.drop_parent_link_after(old.ino, removed, absent);
            return false;
        }
        self.writes.note_change(key);
        self.push_value(at, old, id);
        self.reserve(at, id, hash);
        self.move_work(&work, id);
        if was_written {
            self.drop_links_after(old, removed, AbsentAfter::Entry(id));
        }
        self.drop_parent_link_after(old.ino, removed, AbsentAfter::Entry(id));
        true
    }

    /// The device never had the name, nor another one in its entry: ends all that was recorded for
    /// it. Returns false, because the entry is not reserved.
    fn forget_entry(&mut self, removal: Removal, id: DepId, work: &[DepId]) -> bool {
        let Removal { at, old, removed, hash, barrier, .. } = removal;
        self.pagedeps.remove_entry(key_of(&self.g, at), at.off);
        self.require_older_merged(id, at.dir, hash);
        // The older names that waited for this one are now removed for good.
        let older = self.graph.dependents_where(id, |graph, id| graph.entry(id).is_some());
        for older in older {
            self.inherit_guards(id, older, None);
            self.require_removal_barrier(older, barrier, work);
        }
        self.complete(id);
        // The name that it replaced was never on the device, either.
        work.iter().for_each(|&work| self.perform_if_satisfied(work));
        self.drop_dot_after_older_names(old.ino, removed);
        self.drop_parent_link_after(old.ino, removed, AbsentAfter::Nothing);
        false
    }

    /// The name that ends with the value `id` may be on the device as the name of another file, in
    /// a record that was merged. What waits for the name then waits for the write without that
    /// record: otherwise a later removal could be durable while the name shows the other file.
    fn require_older_merged(&mut self, id: DepId, dir: Ino, hash: u64) {
        let Some(RemovedEntry::Merged { change, chunk }) = self.pagedeps.removed(hash) else {
            return;
        };
        for point in self.points_after(id) {
            self.require_merged(point, dir, chunk, change);
        }
    }

    /// Work that required a former value of an entry requires the change of the block that removes
    /// the entry.
    fn move_work_to_block(&mut self, work: &[DepId], block: BlockChange, hash: u64) {
        for &work in work {
            // The device may show another file's name there, whose links drop when it is absent.
            if let Some(DepKind::DropLinks { name, .. }) = self.graph.kind_mut(work) {
                *name = NonZeroU64::new(block.change).map(|change| (hash, change));
            }
            self.require_change(work, block);
            self.perform_if_satisfied(work);
        }
    }

    /// The entry at `at` is merged into its neighbour with the next write of its block. Returns the
    /// block's change.
    fn merge_entry(&mut self, at: DirPos, hash: u64) -> BlockChange {
        let key = key_of(&self.g, at);
        let block = BlockChange { key, change: self.writes.note_change(key) };
        let versions = self.pagedeps.remove_entry(key, at.off);
        let versions: DepIds = versions.map(|v| v.pending().into()).unwrap_or_default();
        for id in versions {
            self.split_link_drop(id);
            for work in self.work_after(id) {
                self.require_change(work, block);
                self.graph.detach(work, id);
            }
            let ino = self.value_of(id).map_or(Ino(0), |value| value.ino);
            self.inodedeps.unlist_name(ino, id);
            let other = self.inodedeps.newest_name(ino);
            let other = other.filter(|&on| self.graph.can_pass(id, on, |g, d| !g.is_work(d)));
            self.graph.pass(id, other);
            self.cancel(id);
        }
        self.pagedeps.note_merged(hash, block.change, at.off);
        block
    }

    /// The pending name `own` of `ino` at `at` is replaced by the value `next`. If no write
    /// contained it, cancels it and returns the rest; its dependents then require another name of
    /// the file, or `next`. Otherwise returns `None`, and its dependents, except work, removal
    /// barriers and sync points, require another name or nothing, unless that closes a cycle.
    fn retract(&mut self, own: DepId, ino: Ino, at: DirPos, next: DepId) -> Option<Retracted> {
        // A barrier that requires `own` gets the value that follows.
        self.collect_published();
        let other = self.unlist_pending_name(own, ino);
        let key = key_of(&self.g, at);
        let versions = self.pagedeps.entry(key, at.off);
        let is_in_entry = versions.is_some_and(|versions| versions.pending().contains(&own));
        let not_work = |graph: &Graph, id| !graph.is_work(id);
        if other.is_some_and(|other| !self.graph.can_pass(own, other, not_work)) {
            // A write may skip the name: its guards hold for the next value.
            let guards = self.guards_of(own);
            self.require_guards(next, &guards);
            return None;
        }
        if !is_in_entry || !self.graph.is_unwritten(own) {
            // Without another name, the older ones wait until this one is durable or removed.
            let is_passed = |graph: &Graph, id| {
                let waits = graph.is_work(id) || is_point(graph, id);
                !waits && (other.is_some() || graph.entry(id).is_none())
            };
            self.graph.pass_where(own, other, is_passed);
            return None;
        }
        if let Some(versions) = self.pagedeps.entry_mut(key, at.off) {
            versions.remove(own);
        }
        let retracted = Retracted { work: self.work_after(own), guards: self.guards_of(own) };
        for &work in &retracted.work {
            self.graph.detach(work, own);
        }
        let points = self.points_after(own);
        if other.is_none() {
            // A dependent that `next` requires cannot require `next`: it loses this requirement.
            self.graph.pass_where(own, Some(next), |graph, id| !graph.depends_on(next, id));
        }
        self.graph.pass(own, other);
        self.cancel(own);
        // The device may show the name that `own` replaced: it must be absent too.
        for point in points {
            if !self.graph.depends_on(next, point) {
                self.graph.require(point, next, Level::Reachable, Holds::Write);
            }
        }
        Some(retracted)
    }

    /// As [`Softdep::retract`], for a removal with the value `id`. If the device shows another name
    /// in the entry, that must not go before names that were published earlier; so a published name
    /// `own` is written first.
    fn retract_removed(
        &mut self,
        own: DepId,
        ino: Ino,
        (at, id): (DirPos, DepId),
        device_shows_other: bool,
    ) -> Option<Retracted> {
        let is_published = !self.graph.dependents_where(own, is_removal_barrier).is_empty();
        if device_shows_other && is_published {
            self.unlist_pending_name(own, ino);
            // The next value of the entry may take the place of `id`, and a write then skips `own`.
            let guards = self.guards_of(own);
            self.require_guards(id, &guards);
            return None;
        }
        self.retract(own, ino, at, id)
    }

    /// `own` is no name of `ino` any more. Returns the newest of the others, which makes a
    /// directory reachable from now on.
    fn unlist_pending_name(&mut self, own: DepId, ino: Ino) -> Option<DepId> {
        self.inodedeps.unlist_name(ino, own);
        let other = self.inodedeps.newest_name(ino);
        self.replace_first_name(ino, own, other);
        other
    }

    /// The directory block was discarded with its directory, or was truncated: the dependents of
    /// its names require the directory's inode.
    pub(super) fn forget_directory_block(&mut self, dir: Ino, key: BufKey) {
        let Some(entries) = self.pagedeps.remove_block(key) else {
            return broken("a directory block is discarded that is not listed");
        };
        for versions in entries.into_versions() {
            let last = versions.last();
            for &id in versions.pending() {
                self.forget_value(dir, id, Some(id) == last);
            }
        }
    }

    /// Ends the value `id` of an entry in a discarded block of `dir`.
    fn forget_value(&mut self, dir: Ino, id: DepId, is_last: bool) {
        self.split_link_drop(id);
        for work in self.work_after(id) {
            self.require_truncated(work, dir);
            self.graph.detach(work, id);
            self.perform_if_satisfied(work);
        }
        match self.graph.entry(id).map(|entry| (entry.change, entry.hash)) {
            Some((EntryChange::Set { ino, .. }, _)) => {
                self.inodedeps.unlist_name(ino, id);
                self.replace_first_name(ino, id, None);
            }
            // An earlier reservation ended when a name was entered there.
            Some((_, hash)) if is_last => {
                self.pagedeps.forget_removed(hash);
                self.unreserve(dir);
            }
            _ => {}
        }
        if let Some(extra) = self.inodedeps.extra_mut(dir) {
            extra.dotdot.take_if(|dotdot| *dotdot == id);
        }
        self.complete(id);
    }
}
