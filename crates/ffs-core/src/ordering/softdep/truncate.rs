//! Truncation: pointers that are cleared in an inode or an indirect block, and sizes that shrink.
//!
//! # Invariants
//! 1. After an inode is stored, every pointer with versions has its last version in the inode, or
//!    that version will be in it while the file is locked.
//!
//! Reference: `docs/spec/soft-updates.md` §4.5, §6.10, §6.11.

use super::dep::{DepId, DepKind};
use super::engine::Softdep;
use super::graph::DepIds;
use super::inodedep::InodeExtra;
use super::pagedep::block_key;
use super::pointer::{first_block, pointer_in};
use crate::buf::BufKey;
use crate::ordering::FreedRuns;
use crate::ordering::rules::{Rule, holds};
use ffs_ondisk::geometry::{NDADDR, NIADDR};
use ffs_ondisk::{Dinode, FragNo, Ino, Lbn};
use std::ops::Range;

impl Softdep {
    /// Makes the pointers and bounds of the inode agree with `d`, which is stored now: pointers
    /// that were cleared, a last block that became shorter, a size below one that had a bound.
    pub(super) fn reconcile(&mut self, ino: Ino, d: &Dinode) {
        // Without an extra part no pointer, bound or attribute is pending.
        let Some(extra) = self.inodedeps.extra(ino) else { return };
        // Writes may show an older size, and the pointers up to it.
        let end = d.size.max(extra.truncated_size(&self.graph));
        let (kept, cleared): (Vec<usize>, Vec<usize>) =
            extra.pointers().map(|(index, _)| index).partition(|&index| {
                let last = extra.pointer(index).and_then(|versions| versions.last());
                let stored = pointer_in(d, index);
                let is_last = last.and_then(|id| self.run_of(id)).is_some_and(|r| r.at.0 == stored);
                // A hole beyond the size is none.
                is_last && (stored != 0 || self.g.lblktosize(first_block(&self.g, index)) < end)
            });
        let bounds = self.outgrown_bounds(extra, d);
        for index in kept.into_iter().filter(|index| *index < NDADDR) {
            let frags = self.g.blksize(d.size, Lbn(index as u64)) / self.g.fsize;
            let versions = self.inodedeps.extra_mut(ino).and_then(|e| e.pointer_mut(index));
            if let Some(versions) = versions.filter(|_| frags > 0) {
                versions.shorten(&mut self.graph, FragNo(pointer_in(d, index)), frags);
            }
        }
        let mut frees = Vec::new();
        for index in cleared {
            let extra = self.inodedeps.extra_mut(ino);
            let Some(versions) = extra.and_then(|extra| extra.remove_pointer(index)) else {
                continue;
            };
            // The device may show the block that the hole hides.
            let hole = versions.last().filter(|id| self.is_hole(*id));
            hole.into_iter().for_each(|id| self.require_inode_instead(id, ino));
            frees.extend(self.end_cleared_allocs(versions.pending().iter().copied(), ino, &[]));
        }
        for id in bounds {
            self.require_inode_instead(id, ino);
            self.end_bound(id);
        }
        if d.extsize == 0 {
            self.ext_attr_removed(ino);
        }
        self.free_after(ino, FreedRuns::unordered(frees), &[]);
    }

    /// The bounds of the inode that `d` has no use for.
    fn outgrown_bounds(&self, extra: &InodeExtra, d: &Dinode) -> DepIds {
        let mut bounds = DepIds::new();
        // Without indirect blocks none of their pointers is beyond the size.
        if d.ib == [0; NIADDR] {
            bounds.extend(extra.indirect_floors());
        }
        let is_above = |id: &&DepId| match self.graph.kind(**id) {
            Some(DepKind::SizeCeiling { new, .. }) => *new > d.size,
            _ => false,
        };
        bounds.extend(extra.ceilings().iter().rev().take_while(is_above).copied());
        bounds
    }

    /// See [`crate::ordering::Event::IndirectTruncated`].
    pub(super) fn indirect_truncated(
        &mut self,
        ino: Ino,
        block: i64,
        entries: Range<usize>,
        size: u64,
    ) {
        let key = BufKey::File(ino, block);
        self.writes.note_change(key);
        if holds(Rule::TruncateBeforeSize) {
            self.set_floor(ino, block, size, &entries);
        }
        let range = entries.start as u32..entries.end as u32;
        let cleared = self.indirdeps.remove_range(key, range);
        self.stop_tracking_size(ino);
        let versions = cleared.iter().flat_map(|versions| versions.pending().iter().copied());
        let frees = self.end_cleared_allocs(versions, ino, &[block]);
        self.free_after(ino, FreedRuns::unordered(frees), &[block]);
        self.inodedeps.drop_idle(ino);
    }

    /// A directory was truncated to `size` bytes, perhaps inside a block: names behind the new end
    /// disappear with the inode, and not with the rest of the block.
    pub(super) fn directory_truncated(&mut self, dir: Ino, size: u64) {
        let key = block_key(dir, self.g.lblkno(size));
        let waiting: Vec<DepId> =
            self.writes.waiting(key).filter(|id| self.awaits_removal(*id)).collect();
        for id in waiting {
            self.require_truncated(id, dir);
        }
    }
}
