//! Checks of the engine's invariants, as the `KASSERT`s of `ffs_softdep.c` are.
//!
//! Debug builds check all of them after calls of the engine, at most as often as the checks cost as
//! much as the calls: once in as many calls as there are dependencies, edges, blocks and inodes.

use super::dep::{Condition, DepId, DepKind, EntryChange, WriteState};
use super::direntries::bit;
use super::engine::Softdep;
use super::pagedep::key_of;
use super::pointer::PointerVersions;
use crate::ordering::{DirPos, WorkItem};
use ffs_ondisk::DirOff;

/// Calls between two audits, besides the size of the engine.
const REST: u64 = 32;

impl Softdep {
    /// Audits if it is time to.
    pub(super) fn audit_sometimes(&mut self) {
        self.unaudited += 1;
        let size = self.graph.len() + self.inodedeps.len() + self.writes.len();
        if self.unaudited > REST + size as u64 + self.edges() {
            self.unaudited = 0;
            let found = self.audit();
            assert!(found.is_ok(), "soft updates: {found:?}");
        }
    }

    /// Checks the invariants of the engine.
    ///
    /// # Errors
    /// The first one that does not hold, in words.
    pub(super) fn audit(&self) -> Result<(), String> {
        self.graph.audit()?;
        let requires = |id, condition| self.graph.get(id).is_some_and(|d| d.requires(condition));
        self.writes.audit(|id, key| requires(id, Condition::Block(key)))?;
        self.inodedeps.audit(|id, ino| requires(id, Condition::Inode(ino)))?;
        self.bmsafemaps.audit()?;
        self.audit_waiters()?;
        self.audit_pointers()?;
        self.audit_entries()?;
        self.audit_links()?;
        self.audit_totals()
    }

    /// Every requirement for a block or an inode is listed there.
    fn audit_waiters(&self) -> Result<(), String> {
        for (id, dep) in self.graph.iter() {
            for requirement in dep.requirements() {
                let is_listed = match requirement.condition() {
                    Condition::Block(key) => self.writes.waits_since(id, key).is_some(),
                    Condition::Inode(ino) => self.inodedeps.is_waiting(id, ino),
                    Condition::Dep(..) => true,
                };
                if !is_listed {
                    return Err(format!("{id:?} {:?} requires {requirement:?}", dep.kind()));
                }
            }
        }
        Ok(())
    }

    /// Every version of a pointer exists and names the pointer, and the other way round.
    fn audit_pointers(&self) -> Result<(), String> {
        let check = |versions: &PointerVersions, place: String| {
            for &id in versions.pending() {
                let named = self.graph.alloc(id).map(|alloc| alloc.place);
                let found = named.and_then(|named| self.pointer(named));
                if !found.is_some_and(|found| std::ptr::eq(found, versions)) {
                    return Err(format!("{place} has version {id:?} of {named:?}"));
                }
            }
            Ok(versions.pending().len())
        };
        let mut listed = 0;
        for (ino, dep) in self.inodedeps.iter() {
            for (index, versions) in dep.extra().into_iter().flat_map(|extra| extra.pointers()) {
                listed += check(versions, format!("pointer {index} of {ino:?}"))?;
            }
        }
        for (key, indirdep) in self.indirdeps.iter() {
            for (index, versions) in indirdep {
                listed += check(versions, format!("pointer {index} of {key:?}"))?;
            }
        }
        let is_alloc = |kind: &DepKind| matches!(kind, DepKind::Alloc(_));
        let allocs = self.graph.iter().filter(|(_, dep)| is_alloc(dep.kind())).count();
        if allocs != listed {
            return Err(format!("{allocs} allocations, {listed} versions of pointers"));
        }
        Ok(())
    }

    /// Every value of an entry exists and names the entry, and the other way round.
    fn audit_entries(&self) -> Result<(), String> {
        let mut listed = 0;
        for (key, entries) in self.pagedeps.iter() {
            for (off, versions) in entries.iter() {
                for &id in versions.pending() {
                    let at = self.graph.entry(id).map(|entry| entry.at);
                    let here = |at: DirPos| key_of(&self.g, at) == key && at.off == DirOff(off);
                    if !at.is_some_and(here) {
                        return Err(format!("{key:?} has value {id:?} of {at:?} at {off}"));
                    }
                    listed += 1;
                }
                let is_clear = versions.last().is_some_and(|id| self.is_clear(id));
                if is_clear != (entries.reserved_in(off) & bit(off) != 0) {
                    return Err(format!("{key:?}: the entry at {off} is reserved: {is_clear}"));
                }
            }
        }
        for (at, id) in self.pagedeps.unreachable() {
            let dep = self.graph.get(id);
            let is_durable = dep.is_some_and(|dep| dep.state() == WriteState::Durable);
            if !is_durable || self.graph.entry(id).is_none_or(|entry| entry.at != at) {
                return Err(format!("{id:?} at {at:?} is listed as unreachable"));
            }
            listed += 1;
        }
        let entries = self.graph.iter().filter(|(_, d)| matches!(d.kind(), DepKind::Entry(_)));
        let entries = entries.count();
        if entries != listed {
            return Err(format!("{entries} values of entries, {listed} listed"));
        }
        Ok(())
    }

    /// The names of inodes exist and name them.
    fn audit_links(&self) -> Result<(), String> {
        for (ino, dep) in self.inodedeps.iter() {
            for &id in dep.names() {
                let change = self.graph.entry(id).map(|entry| entry.change);
                if !matches!(change, Some(EntryChange::Set { ino: named, .. }) if named == ino) {
                    return Err(format!("{ino:?} lists the name {id:?}: {change:?}"));
                }
            }
            let has_ended = |id: &&DepId| !self.graph.contains(**id);
            if let Some(id) = dep.old_names().iter().find(has_ended) {
                return Err(format!("{ino:?} lists the link drop {id:?}, which ended"));
            }
        }
        Ok(())
    }

    /// The totals of pending work agree with the dependencies and the worklist.
    fn audit_totals(&self) -> Result<(), String> {
        let (mut removals, mut frags, mut inodes) = (0u64, 0u64, 0u64);
        for (_, dep) in self.graph.iter() {
            match dep.kind() {
                DepKind::Entry(entry) => {
                    removals += u64::from(matches!(entry.change, EntryChange::ClearAndDrop { .. }));
                }
                DepKind::DropLinks { .. } => removals += 1,
                DepKind::FreeBlks { runs, .. } => frags += runs.frags(),
                DepKind::FreeFile { .. } => inodes += 1,
                _ => {}
            }
        }
        for item in self.worklist.items() {
            match item {
                WorkItem::FreeBlks(runs) => frags += runs.frags(),
                WorkItem::FreeFile { .. } => inodes += 1,
                WorkItem::DropLinks { .. } => {}
            }
        }
        let totals = self.worklist.totals();
        let counted = (totals.removals, totals.frags, totals.inodes);
        if counted != (removals, frags, inodes) {
            let held = (removals, frags, inodes);
            return Err(format!("removals, fragments, inodes: {held:?}, counted {counted:?}"));
        }
        Ok(())
    }
}
