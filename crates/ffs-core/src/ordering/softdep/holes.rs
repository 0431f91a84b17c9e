//! Cleared pointers of an inode that writes show until the file has another end.
//!
//! A file never ends in a hole: fsck would shorten it. A write that showed a pointer cleared, and
//! no block behind it, would end the file before the hole, perhaps shorter than it ever was. So
//! such a pointer gets a version that is a hole. A write shows it if it shows a block behind it;
//! where the file was truncated, if it shows the new last block.
//!
//! # Invariants
//! 1. A hole is the last version of a pointer that is cleared in memory. It requires nothing: the
//!    rest of the inode in the write decides ([`Softdep::shown_versions`]).
//! 2. The run of the pointer is freed after the hole is durable ([`Softdep::pending_holes`]).
//! 3. While holes lie beyond the size, a floor of [`FILE_END`] keeps the size that covers them: a
//!    write shows the old end, or the new last block and the new end.
//! 4. A write that shows an indirect block which the file has lost shows at least the size to which
//!    that block may lead.
//! 5. A write that shows a larger size than the file has shows no fragments before that size.
//!
//! Reference: `docs/spec/soft-updates.md` §4.3, §6.11; `docs/spec/fsck-and-crash.md` G8.

use super::dep::{DepId, FILE_END, Holds, Level, PtrPlace};
use super::engine::Softdep;
use super::graph::DepIds;
use super::inodedep::InodeExtra;
use super::pointer::{Shown, first_block, pointer_in};
use crate::ordering::FragRun;
use crate::ordering::rules::{Rule, holds};
use ffs_ondisk::geometry::{NDADDR, NIADDR};
use ffs_ondisk::{Dinode, FragNo, Ino, Lbn};
use smallvec::SmallVec;

/// The old end of a file that a write shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct OldEnd {
    /// Index of the pointer at the new end, if the file was truncated into a hole.
    last: Option<usize>,
    /// Bytes of the old end.
    pub(super) size: u64,
}

impl Softdep {
    /// See [`crate::ordering::Event::HolePunched`].
    pub(super) fn hole_punched(&mut self, ino: Ino, index: usize, old: FragRun, size: u64) {
        let pointers = self.inodedeps.extra(ino).map(|extra| extra.pointers());
        let is_held_behind = pointers.into_iter().flatten().any(|(i, _)| i > index);
        if is_held_behind && holds(Rule::NoTrailingHole) {
            let is_set = self.set_hole(ino, index, old, self.end_in_indirects(ino, size));
            if !is_set {
                self.move_new_end(ino, index);
            }
        }
    }

    /// Pointer `index`, which no write contained, is cleared. If it is the last block of a
    /// truncated file, the next one takes its place.
    fn move_new_end(&mut self, ino: Ino, index: usize) {
        let Some(id) = self.newest_floor(ino, FILE_END) else { return };
        if self.graph.floor(id).and_then(|floor| floor.last) != u32::try_from(index).ok() {
            return;
        }
        let pointers = self.inodedeps.extra(ino).map(|extra| extra.pointers());
        let next = pointers.into_iter().flatten().find_map(|(at, versions)| {
            let alloc = versions.last().filter(|id| at > index && !self.is_hole(*id))?;
            Some((at, alloc))
        });
        let Some((at, alloc)) = next else { return self.release_old_end(ino) };
        self.names_wait_for(ino, alloc);
        if let Some(floor) = self.graph.floor_mut(id) {
            floor.last = u32::try_from(at).ok();
        }
    }

    /// The names that wait for content which is truncated become durable with the new end.
    fn names_wait_for(&mut self, ino: Ino, alloc: DepId) {
        let names = DepIds::from(self.inodedeps.names(ino));
        for name in names {
            self.graph.require(name, alloc, Level::Durable, Holds::Write);
        }
    }

    /// Bytes to which the indirect blocks of a file of `size` bytes may lead: those that it still
    /// shows may have pointers up to an older size.
    fn end_in_indirects(&self, ino: Ino, size: u64) -> u64 {
        let Some(extra) = self.inodedeps.extra(ino) else { return size };
        let floors = extra.indirect_floors().filter_map(|id| self.graph.floor(id));
        floors.fold(size.max(extra.old_roots_end), |end, floor| end.max(floor.size))
    }

    /// See [`crate::ordering::Event::InodeTruncated`].
    pub(super) fn inode_truncated(
        &mut self,
        ino: Ino,
        last: Option<usize>,
        size: u64,
        cleared: &[(usize, FragRun)],
    ) {
        let indirect_end = self.end_in_indirects(ino, size);
        let in_hole = |last: &usize| {
            let versions = self.pointer(PtrPlace::Inode(ino, *last));
            versions.is_some_and(|v| v.durable().is_none() && !v.is_empty())
        };
        let last = last.filter(|last| in_hole(last) && holds(Rule::NoTrailingHole));
        let alloc = last.and_then(|last| self.newest_alloc(PtrPlace::Inode(ino, last)));
        // The new end is not a hole on the device: writes may show it.
        let (Some(last), Some(alloc)) = (last, alloc) else { return self.release_old_end(ino) };
        self.names_wait_for(ino, alloc);
        for &(index, old) in cleared {
            self.set_hole(ino, index, old, indirect_end);
        }
        // An older floor keeps its size until the device shows the end that it is for.
        let end = self.end_of_holes(ino, last, size);
        if end > 0 || self.truncated_size(ino) > 0 {
            self.keep_old_end(ino, end, last);
        }
    }

    /// Bytes of the file to the end of the blocks behind `last` that holes hide, if it has `size`
    /// bytes; 0 if there are none.
    fn end_of_holes(&self, ino: Ino, last: usize, size: u64) -> u64 {
        let Some(extra) = self.inodedeps.extra(ino) else { return 0 };
        let behind = extra.pointers().filter(|(index, versions)| {
            *index > last && versions.last().is_some_and(|id| self.is_hole(id))
        });
        let ends = behind.map(|(index, _)| match index {
            0..NDADDR => self.g.lblktosize(Lbn(index as u64 + 1)).min(size),
            _ => extra.old_roots_end,
        });
        ends.max().unwrap_or(0)
    }

    fn truncated_size(&self, ino: Ino) -> u64 {
        self.inodedeps.extra(ino).map_or(0, |extra| extra.truncated_size(&self.graph))
    }

    /// Writes show no size below `size` until they show the block of pointer `last`.
    fn keep_old_end(&mut self, ino: Ino, size: u64, last: usize) {
        let newest = self.newest_floor(ino, FILE_END);
        let id = match newest.filter(|&id| self.graph.is_unwritten(id)) {
            Some(id) => id,
            None => self.add_floor(ino, FILE_END),
        };
        if let Some(floor) = self.graph.floor_mut(id) {
            floor.size = floor.size.max(size);
            floor.last = u32::try_from(last).ok();
        }
    }

    /// Writes may show the file's end at once.
    fn release_old_end(&mut self, ino: Ino) {
        let extra = self.inodedeps.extra(ino);
        let floors: DepIds = extra.map(|e| e.floors_of(FILE_END).collect()).unwrap_or_default();
        for id in floors {
            if let Some(floor) = self.graph.floor_mut(id) {
                floor.last = None;
            }
        }
    }

    /// The old end that a write of `d` shows; `None` if it may show the new one. A write shows the
    /// new end and the new last block, which may be a fragment, at once. It shows the old end, too,
    /// while it shows an old indirect block. `raised`: the size that a bound requires, if it is
    /// larger than that of `d`.
    pub(super) fn old_end_shown(
        &self,
        d: &Dinode,
        extra: &InodeExtra,
        raised: Option<u64>,
    ) -> Option<OldEnd> {
        let newest = extra.floors_of(FILE_END).next_back();
        let last = newest.and_then(|id| self.graph.floor(id)?.last).map(|last| last as usize);
        let in_hole = last.is_some_and(|last| {
            extra.pointer(last).is_some_and(|versions| {
                let waits = |id: DepId| self.is_end_before(last, id, raised);
                let shown = versions.shown(&self.graph, pointer_in(d, last), waits);
                shown == Shown::Durable && versions.durable().is_none()
            })
        });
        let roots_end = self.is_old_indirect_shown(d, extra).then_some(extra.old_roots_end);
        (in_hole || roots_end.is_some()).then(|| {
            let size = extra.truncated_size(&self.graph).max(roots_end.unwrap_or(0));
            OldEnd { last, size }
        })
    }

    /// Pointer `index`, which names `old`, is cleared; writes may go on to show it. `end`: bytes to
    /// which it may lead if it is a root. Returns false if no write contained a block there: the
    /// device has a hole.
    fn set_hole(&mut self, ino: Ino, index: usize, old: FragRun, end: u64) -> bool {
        let place = PtrPlace::Inode(ino, index);
        let versions = self.pointer_or_insert(place, Some(old));
        let in_hole = versions.durable().is_none() && versions.pending().len() == 1;
        let last = versions.last();
        if in_hole && last.is_some_and(|id| self.graph.is_unwritten(id)) {
            return false;
        }
        self.push_hole(place);
        if index >= NDADDR {
            let extra = self.inodedeps.extra_or_default(ino);
            extra.old_roots_end = extra.old_roots_end.max(end);
        }
        true
    }

    /// Whether a write of `d` may show an indirect block that the file has lost, because the new
    /// one is not ready. The old one may have pointers up to the old end. A hole between the two
    /// does not count, as it may have to wait for a block behind it.
    fn is_old_indirect_shown(&self, d: &Dinode, extra: &InodeExtra) -> bool {
        let mut roots = extra.pointers().filter(|(index, _)| *index >= NDADDR);
        roots.any(|(index, versions)| {
            let waits = |id: DepId| self.is_hole(id) && versions.last() != Some(id);
            let shown = versions.shown(&self.graph, pointer_in(d, index), waits);
            let run = versions.run(&self.graph, shown);
            !shown.is_last() && run.is_some_and(|run| run.at != FragNo::HOLE)
        })
    }

    /// Whether the version `id` of pointer `index` is a run of fragments that ends before the size
    /// `raised` that a write shows. Fragments end a file, so the write cannot show them.
    fn is_end_before(&self, index: usize, id: DepId, raised: Option<u64>) -> bool {
        let (Some(size), Some(run)) = (raised, self.run_of(id)) else { return false };
        let end = self.g.lblktosize(Lbn(index as u64)) + u64::from(run.frags * self.g.fsize);
        let is_short = run.at != FragNo::HOLE && run.frags < self.g.frag;
        index < NDADDR && is_short && end < size
    }

    /// The version of each pointer that a write of `d` shows, in the order of the pointers.
    /// `raised`: the size of `d`, if it is larger than the stored one.
    pub(super) fn shown_versions(
        &self,
        d: &Dinode,
        extra: &InodeExtra,
        old_end: Option<OldEnd>,
        raised: Option<u64>,
    ) -> SmallVec<[Shown; 2]> {
        let mut behind = NDADDR + NIADDR;
        let mut has_block_behind = false;
        let mut all: SmallVec<[Shown; 2]> = SmallVec::new();
        for (index, versions) in extra.pointers().rev() {
            // Pointers without versions are shown as they are stored.
            has_block_behind |= (index + 1..behind).any(|k| pointer_in(d, k) != 0);
            behind = index;
            let start = self.g.lblktosize(first_block(&self.g, index));
            let hole_waits = match old_end {
                Some(OldEnd { last: Some(last), .. }) if index > last => true,
                _ => !has_block_behind && start < d.size,
            };
            let waits =
                |id: DepId| hole_waits && self.is_hole(id) || self.is_end_before(index, id, raised);
            let shown = versions.shown(&self.graph, pointer_in(d, index), waits);
            let run = versions.run(&self.graph, shown);
            has_block_behind |= run.is_some_and(|run| run.at != FragNo::HOLE);
            all.push(shown);
        }
        all.reverse();
        all
    }
}
