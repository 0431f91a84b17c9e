//! Bounds on the size that writes show: ceilings for directories that grow, floors for files that
//! lose pointers in indirect blocks, or that get a new end in a hole.
//!
//! # Invariants
//! 1. A file has at most one floor for an indirect block more than writes of that block are in
//!    flight.

use super::dep::{Condition, DepId, DepKind, SizeFloor};
use super::direntries::start_of_chunk;
use super::engine::{BlockChange, Softdep};
use super::inodedep::InodeExtra;
use super::pagedep::{block_key, key_of, lbn_of};
use super::pointers::Way;
use crate::buf::BufKey;
use crate::ordering::DirPos;
use crate::ordering::rules::{Rule, holds};
use ffs_ondisk::{Ino, Lbn};
use std::collections::BTreeSet;
use std::ops::Range;

impl Softdep {
    /// Writes show no size below `size` until the indirect block is written without the pointers
    /// `entries`. A floor that waits for the same write is raised.
    pub(super) fn set_floor(&mut self, ino: Ino, block: i64, size: u64, entries: &Range<usize>) {
        let key = BufKey::File(ino, block);
        let last = entries.start.checked_sub(1).and_then(|index| u32::try_from(index).ok());
        let issued = self.writes.last_issued(key);
        let awaits = |id: &DepId| self.writes.waits_since(*id, key).unwrap_or(0) > issued;
        let id = match self.newest_floor(ino, block).filter(awaits) {
            Some(id) => id,
            None => self.add_floor(ino, block),
        };
        let to_end = entries.end >= self.g.nindir as usize;
        if let Some(floor) = self.graph.floor_mut(id) {
            floor.size = floor.size.max(size);
            // A hole leaves pointers behind it.
            floor.last = if to_end { last } else { last.max(floor.last) };
        }
        self.require_block(id, key);
    }

    pub(super) fn add_floor(&mut self, ino: Ino, block: i64) -> DepId {
        let number = self.inodedeps.next_number();
        let floor = SizeFloor { ino, block, number, size: 0, last: None };
        let id = self.graph.insert(DepKind::SizeFloor(Box::new(floor)));
        self.inodedeps.extra_or_default(ino).insert_floor(block, number, id);
        id
    }

    pub(super) fn newest_floor(&self, ino: Ino, block: i64) -> Option<DepId> {
        self.inodedeps.extra(ino)?.floors_of(block).next_back()
    }

    /// See [`crate::ordering::Event::DirectoryGrew`].
    pub(super) fn directory_grew(&mut self, dir: Ino, lbn: Lbn, old: u64, new: u64) {
        if !holds(Rule::ContentBeforeSize) {
            return;
        }
        let key = block_key(dir, lbn);
        self.writes.note_change(key);
        let id = self.graph.insert(DepKind::SizeCeiling { ino: dir, limit: old, new });
        self.inodedeps.extra_or_default(dir).push_ceiling(id);
        self.require_block(id, key);
        self.require_pointers(id, dir, lbn, Way::InIndirects);
    }

    /// The ceiling that hides an entry.
    pub(super) fn ceiling_over(&self, at: DirPos) -> Option<DepId> {
        let ceilings = self.inodedeps.extra(at.dir)?.ceilings();
        let off = u64::from(at.off.0);
        let span = |id: &DepId| match self.graph.kind(*id) {
            Some(DepKind::SizeCeiling { limit, new, .. }) => Some(*limit..*new),
            _ => None,
        };
        let covers = |id: &&DepId| span(id).is_some_and(|span| span.contains(&off));
        // They are in the order of the sizes: a truncation removes the ones above.
        let after = ceilings.partition_point(|id| span(id).is_some_and(|span| span.start <= off));
        ceilings.get(after.checked_sub(1)?).filter(covers).copied()
    }

    /// Whether a name at `at` can be reached from its directory once its block is on the device.
    pub(super) fn is_way_durable(&self, at: DirPos) -> bool {
        self.ceiling_over(at).is_none()
            && self.allocs_to(at.dir, lbn_of(&self.g, at), Way::FromInode).is_empty()
    }

    /// The size that the bounds which hold allow; `None` if no bound holds.
    pub(super) fn bounded_size(&self, size: u64, extra: &InodeExtra) -> Option<u64> {
        let (mut least, mut most, mut is_bounded) = (size, size, false);
        self.graph.count_steps(extra.ceilings().len() + extra.floors().len());
        for id in extra.bounds().filter(|id| self.graph.is_held(*id)) {
            is_bounded = true;
            match self.graph.kind(id) {
                Some(DepKind::SizeCeiling { limit, .. }) => least = least.min(*limit),
                Some(DepKind::SizeFloor(floor)) => most = most.max(floor.size),
                _ => {}
            }
        }
        is_bounded.then_some(if most > size { most } else { least })
    }

    /// Whether a write with this size has no use for the bound any more. `keeps_end`: it shows an
    /// old end of the file, and perhaps a larger size than any floor.
    pub(super) fn is_bound_shown(&self, id: DepId, size: u64, keeps_end: bool) -> bool {
        self.graph.is_ready(id)
            && match self.graph.kind(id) {
                Some(DepKind::SizeCeiling { new, .. }) => size >= *new,
                Some(DepKind::SizeFloor(_)) => !keeps_end,
                _ => false,
            }
    }

    /// Ends a bound: a write without it is durable, or the size will never be reached.
    pub(super) fn end_bound(&mut self, id: DepId) {
        match self.complete(id) {
            Some(DepKind::SizeCeiling { ino, .. }) => {
                self.inodedeps.extra_mut(ino).into_iter().for_each(|e| e.remove_ceiling(id));
                self.inodedeps.drop_idle(ino);
            }
            Some(DepKind::SizeFloor(floor)) => {
                let extra = self.inodedeps.extra_mut(floor.ino);
                extra.into_iter().for_each(|e| e.remove_floor(floor.block, floor.number));
                self.inodedeps.drop_idle(floor.ino);
            }
            // A write in flight names a bound that a truncation ended.
            other => debug_assert!(other.is_none(), "{other:?} is no bound"),
        }
    }

    /// The indirect blocks, by in-core name, for which the size of `ino` has a floor; each once.
    fn indirects_to_clear(&self, ino: Ino) -> BTreeSet<i64> {
        // Without an extra part the size has no floor.
        let Some(extra) = self.inodedeps.extra(ino) else { return BTreeSet::new() };
        self.graph.count_steps(extra.floors().len());
        let floors = extra.floors().filter_map(|id| self.graph.get(id));
        floors
            .flat_map(|floor| floor.requirements())
            .filter_map(|requirement| match requirement.condition() {
                Condition::Block(BufKey::File(_, block)) => Some(block),
                _ => None,
            })
            .collect()
    }

    /// `id` requires that the device has lost a record of `chunk` of `dir`, which the `change` of
    /// its block merged into another one.
    pub(super) fn require_merged(&mut self, id: DepId, dir: Ino, chunk: u32, change: u64) {
        let at = DirPos { dir, off: start_of_chunk(chunk) };
        self.require_change(id, BlockChange { key: key_of(&self.g, at), change });
        // The block may be durable at an address that the device has no pointer to.
        if holds(Rule::PointerBeforeEntry) {
            self.require_pointers(id, dir, lbn_of(&self.g, at), Way::FromInode);
        }
        // The chunk may have been truncated since.
        self.require_truncated(id, dir);
    }

    /// `id` requires that the device shows no way to the truncated part of `ino`: the inode as it
    /// is stored now, and every indirect block that lost pointers and for which the size has a
    /// floor.
    pub(super) fn require_truncated(&mut self, id: DepId, ino: Ino) {
        self.require_inode(id, ino);
        for block in self.indirects_to_clear(ino) {
            self.require_block(id, BufKey::File(ino, block));
        }
    }
}
