//! The consequences of conditions that were met.
//!
//! # Invariants
//! 1. After an event, and after a completed write, no dependency is satisfied and unprocessed.

use super::dep::{DepId, DepKind, EntryChange, Level, WriteState};
use super::engine::Softdep;
use super::heap::release;
use super::invariant::broken;
use super::pagedep::{key_of, lbn_of};
use super::pointers::Way;
use crate::ordering::rules::{Rule, holds};
use ffs_ondisk::Ino;

impl Softdep {
    /// Processes satisfied dependencies, until there are none.
    pub(super) fn process_satisfied(&mut self) {
        loop {
            while let Some(id) = self.graph.next_satisfied() {
                self.process(id);
            }
            let Some(id) = self.written_entries.pop() else { break };
            self.entry_written(id);
        }
        release(&mut self.written_entries);
        if self.graph.len() == 0 {
            self.nameorder.forget_published();
        }
    }

    /// `id` requires nothing any more.
    fn process(&mut self, id: DepId) {
        let Some(dep) = self.graph.get(id) else {
            return broken("a dependency that ended is processed");
        };
        match dep.kind() {
            DepKind::Entry(_) if dep.state() == WriteState::Durable => self.set_reachable(id),
            DepKind::DropLinks { .. } | DepKind::FreeBlks { .. } | DepKind::FreeFile { .. } => {
                self.perform(id);
            }
            DepKind::PublishedNames => _ = self.complete(id),
            // It is written next, or its owner ends it.
            DepKind::Entry(_)
            | DepKind::Alloc(_)
            | DepKind::SizeCeiling { .. }
            | DepKind::SizeFloor(_)
            | DepKind::ExtAttr(_)
            | DepKind::NameBarrier
            | DepKind::SyncPoint => {}
        }
    }

    /// The value `id` of an entry is in its block, on the device. If the device does not show this
    /// block in its directory yet, it may show an older one in its place: then the value counts
    /// when the pointer is durable.
    pub(super) fn entry_written(&mut self, id: DepId) {
        // A later change may have ended it while the write was in flight.
        let Some(entry) = self.graph.entry(id) else { return };
        let at = entry.at;
        let pointer = self.allocs_to(at.dir, lbn_of(&self.g, at), Way::FromInode).pop();
        let pointer = pointer.filter(|_| holds(Rule::PointerBeforeEntry));
        match pointer.and_then(|pointer| self.graph.alloc_mut(pointer)) {
            Some(alloc) => {
                // Each write of the block reports all the entries in it.
                if let Err(place) = alloc.entries.binary_search(&id) {
                    alloc.entries.insert(place, id);
                }
            }
            None => self.entry_durable(id),
        }
    }

    /// The device shows the value `id` of an entry.
    fn entry_durable(&mut self, id: DepId) {
        let Some(entry) = self.graph.entry(id) else {
            return broken("an entry that ended becomes durable");
        };
        let (at, change) = (entry.at, entry.change);
        let key = key_of(&self.g, at);
        let (mut older, mut is_last) = (Default::default(), false);
        if let Some(versions) = self.pagedeps.entry_mut(key, at.off)
            && versions.pending().contains(&id)
        {
            older = versions.set_durable(id, change.value());
            is_last = versions.pending().is_empty();
        }
        if is_last {
            self.pagedeps.remove_entry(key, at.off);
        }
        // A durable name that is not reachable yet has no versions. It may be `id` itself.
        let unreachable = self.pagedeps.take_unreachable(at).filter(|older| *older != id);
        for version in older.into_iter().chain(unreachable) {
            // The newer value keeps the promises of the older one.
            let ino = self.value_of(version).map_or(Ino(0), |value| value.ino);
            self.inodedeps.unlist_name(ino, version);
            self.complete(version);
        }
        match change {
            EntryChange::Clear | EntryChange::ClearAndDrop { .. } => {
                self.reservation_durable(id, at, is_last);
            }
            EntryChange::Set { .. } => {
                self.graph.mark_durable(id);
                self.require_size(id, at);
                self.graph.announce(id, Level::Durable);
                let extra = self.inodedeps.extra_mut(at.dir);
                let is_dotdot =
                    extra.is_some_and(|e| e.dotdot.take_if(|dotdot| *dotdot == id).is_some());
                if is_dotdot {
                    self.complete(id);
                    self.inodedeps.drop_idle(at.dir);
                } else if self.graph.is_satisfied(id) {
                    self.set_reachable(id);
                } else {
                    self.pagedeps.insert_unreachable(at, id);
                }
            }
        }
    }
}
