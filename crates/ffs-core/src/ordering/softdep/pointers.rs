//! Block pointers by their places, and the ways through indirect blocks.
//!
//! # Invariants
//! 1. A pointer has versions only while one of them is pending.

use super::dep::{Condition, DepId, Holds, Level, PtrPlace};
use super::engine::Softdep;
use super::graph::DepIds;
use super::pointer::PointerVersions;
use crate::buf::BufKey;
use crate::ordering::FragRun;
use ffs_ondisk::bmap::{self, Named, Path, first_of_root, parse_name};
use ffs_ondisk::geometry::NIADDR;
use ffs_ondisk::{FragNo, Ino, Lbn};
use smallvec::SmallVec;
use std::iter;

/// Which pointers on the way to a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// From the inode down.
    FromInode,
    /// In indirect blocks only.
    InIndirects,
}

impl Softdep {
    pub(super) fn pointer(&self, place: PtrPlace) -> Option<&PointerVersions> {
        match place {
            PtrPlace::Inode(ino, index) => self.inodedeps.extra(ino)?.pointer(index),
            PtrPlace::Indirect { ino, block, index } => {
                self.indirdeps.pointer(BufKey::File(ino, block), index)
            }
        }
    }

    pub(super) fn pointer_mut(&mut self, place: PtrPlace) -> Option<&mut PointerVersions> {
        match place {
            PtrPlace::Inode(ino, index) => self.inodedeps.extra_mut(ino)?.pointer_mut(index),
            PtrPlace::Indirect { ino, block, index } => {
                self.indirdeps.pointer_mut(BufKey::File(ino, block), index)
            }
        }
    }

    /// The versions of a pointer; if it has none, `durable` is its value on the device.
    pub(super) fn pointer_or_insert(
        &mut self,
        place: PtrPlace,
        durable: Option<FragRun>,
    ) -> &mut PointerVersions {
        let new = || PointerVersions::new(durable);
        match place {
            PtrPlace::Inode(ino, index) => {
                self.inodedeps.extra_or_default(ino).pointer_or_insert(index, new)
            }
            PtrPlace::Indirect { ino, block, index } => {
                self.indirdeps.pointer_or_insert(BufKey::File(ino, block), index, new)
            }
        }
    }

    /// The last version of a pointer, if it is pending.
    pub(super) fn newest_alloc(&self, place: PtrPlace) -> Option<DepId> {
        self.pointer(place)?.last()
    }

    /// Removes the versions of a pointer if none is pending.
    pub(super) fn drop_settled_pointer(&mut self, place: PtrPlace) {
        if self.pointer(place).is_none_or(|versions| !versions.is_empty()) {
            return;
        }
        match place {
            PtrPlace::Inode(ino, index) => {
                self.inodedeps.extra_mut(ino).and_then(|extra| extra.remove_pointer(index));
                self.inodedeps.drop_idle(ino);
            }
            PtrPlace::Indirect { ino, block, index } => {
                self.indirdeps.remove_range(BufKey::File(ino, block), index..index + 1);
                self.stop_tracking_size(ino);
                self.inodedeps.drop_idle(ino);
            }
        }
    }

    /// Forgets the size of `ino` on the device if no pointer in an indirect block waits for it.
    pub(super) fn stop_tracking_size(&mut self, ino: Ino) {
        if !self.indirdeps.has_file(ino)
            && let Some(extra) = self.inodedeps.extra_mut(ino)
        {
            extra.device_size = None;
        }
    }

    pub(super) fn run_of(&self, id: DepId) -> Option<FragRun> {
        self.graph.alloc(id).map(|alloc| alloc.run)
    }

    /// Whether `id` is a cleared pointer.
    pub(super) fn is_hole(&self, id: DepId) -> bool {
        self.run_of(id).is_some_and(|run| run.at == FragNo::HOLE)
    }

    /// The cleared pointers of a file that writes do not show yet.
    pub(super) fn pending_holes(&self, ino: Ino) -> DepIds {
        let pointers = self.inodedeps.extra(ino).map(|extra| extra.pointers());
        let last = pointers.into_iter().flatten().filter_map(|(_, versions)| versions.last());
        last.filter(|id| self.is_hole(*id)).collect()
    }

    /// The indirect blocks on the way to a block, from the root down: in-core name, and index of
    /// the pointer.
    fn indirects_to(&self, lbn: Lbn) -> SmallVec<[(i64, u32); NIADDR]> {
        let mut way = SmallVec::new();
        // A direct block, or one that no pointer can name.
        let Some(Path::Indirect { levels, index }) = bmap::path(&self.g, lbn) else { return way };
        let mut first = first_of_root(&self.g, levels - 1);
        for (level, &index) in (1..=levels).rev().zip(&index) {
            way.push((bmap::indirect_name(first, level), index));
            let per_pointer = bmap::blocks_per_pointer(&self.g, level);
            first = first.plus(per_pointer.saturating_mul(index.into()));
        }
        way
    }

    /// The indirect blocks, by in-core name, on the way to a block of a file.
    pub(super) fn indirects_above(&self, key: BufKey) -> SmallVec<[i64; NIADDR]> {
        // Inode blocks and groups have fixed places.
        let BufKey::File(_, name) = key else { return SmallVec::new() };
        let (lbn, level) = match parse_name(&self.g, name) {
            Some(Named::Data(lbn)) => (lbn, 0),
            Some(Named::Indirect { level, first }) => (first, level),
            Some(Named::ExtAttr(_)) | None => return SmallVec::new(),
        };
        let way = self.indirects_to(lbn);
        let above = way.len().saturating_sub(level);
        way.iter().take(above).map(|(name, _)| *name).collect()
    }

    /// The newest pending versions of the pointers on the way to a block.
    pub(super) fn allocs_to(&self, ino: Ino, lbn: Lbn, which: Way) -> DepIds {
        let places = self.places_on_way(ino, lbn, which);
        places.into_iter().filter_map(|place| self.newest_alloc(place)).collect()
    }

    /// All pending versions of the pointers on the way to a block.
    pub(super) fn all_allocs_to(&self, ino: Ino, lbn: Lbn) -> DepIds {
        let places = self.places_on_way(ino, lbn, Way::FromInode);
        let versions = places.into_iter().filter_map(|place| self.pointer(place));
        versions.flat_map(|versions| versions.pending().iter().copied()).collect()
    }

    /// The pointers on the way to a block; none if none is pending.
    fn places_on_way(&self, ino: Ino, lbn: Lbn, which: Way) -> SmallVec<[PtrPlace; NIADDR + 1]> {
        let extra = self.inodedeps.extra(ino);
        if extra.is_none_or(|e| e.pointers().len() == 0) && self.indirdeps.is_empty() {
            return SmallVec::new();
        }
        let way = self.indirects_to(lbn);
        let root = match (bmap::path(&self.g, lbn), way.len()) {
            (Some(Path::Direct(i)), _) => Some(PtrPlace::Inode(ino, i)),
            (_, levels @ 1..) => Some(PtrPlace::root(ino, levels - 1)),
            // A block that no pointer can name.
            _ => None,
        };
        let below = way.iter().map(|&(block, index)| PtrPlace::Indirect { ino, block, index });
        let root = root.filter(|_| which == Way::FromInode);
        root.into_iter().chain(below).collect()
    }

    /// `id` requires the pointers on the way to a block, as far as they are pending.
    pub(super) fn require_pointers(&mut self, id: DepId, ino: Ino, lbn: Lbn, which: Way) {
        for alloc in self.allocs_to(ino, lbn, which) {
            self.graph.require(id, alloc, Level::Durable, Holds::Write);
        }
    }

    /// Whether the size of the file on the device covers the block of pointer `index` of an
    /// indirect block ([`crate::ordering::rules::Rule::SizeBeforeIndirect`]).
    pub(super) fn is_size_durable_over(&self, key: BufKey, index: u32) -> bool {
        // Only indirect blocks have pointers, and their buffers belong to files.
        let BufKey::File(ino, name) = key else { return true };
        let extra = self.inodedeps.extra(ino);
        // The size is tracked only while a pointer waits for it.
        let Some(on_device) = extra.and_then(|extra| extra.device_size.as_ref()) else {
            return true;
        };
        // Only indirect blocks have pointers.
        let Some(Named::Indirect { level, first }) = parse_name(&self.g, name) else {
            return true;
        };
        let skip = bmap::blocks_per_pointer(&self.g, level).saturating_mul(index.into());
        self.g.lblktosize(first.plus(skip)) < on_device.durable()
    }

    /// Whether writes roll back pointer `index` of an indirect block, whose last version is `id`.
    pub(super) fn is_indirect_held(&self, key: BufKey, index: u32, id: Option<DepId>) -> bool {
        id.is_some_and(|id| self.graph.is_held(id)) || !self.is_size_durable_over(key, index)
    }

    /// The last pointer of a truncated indirect block that is not ready. A write now would show the
    /// truncated pointers cleared, and not the block that becomes the last one: the file would end
    /// in a hole, and fsck would shorten it. Nothing that the pointer requires requires this block,
    /// and if no write shows the way to the block, the order does not matter.
    pub(super) fn last_pointer_held(&self, key: BufKey) -> Option<DepId> {
        // Inode blocks and groups are not indirect blocks.
        let BufKey::File(ino, block) = key else { return None };
        if !self.may_be_shown(ino, block) {
            return None;
        }
        let held = |index: u32| {
            let last = self.newest_alloc(PtrPlace::Indirect { ino, block, index });
            last.filter(|&id| self.is_indirect_held(key, index, Some(id)))
        };
        self.inodedeps.extra(ino)?.floors_of(block).find_map(|id| {
            let waits = self.graph.get(id)?.requires(Condition::Block(key));
            let last = self.graph.floor(id)?.last;
            last.filter(|_| waits).and_then(held)
        })
    }

    /// Whether a write may show the way to an indirect block: not if the pointer to it, or one
    /// above, was in no write.
    fn may_be_shown(&self, ino: Ino, block: i64) -> bool {
        // Other blocks have no floors, so the caller finds none for them.
        let Some(Named::Indirect { first, .. }) = parse_name(&self.g, block) else { return true };
        let way = self.indirects_to(first);
        let root = PtrPlace::root(ino, way.len().saturating_sub(1));
        let above = way.iter().take_while(|(name, _)| *name != block);
        let above = above.map(|&(block, index)| PtrPlace::Indirect { ino, block, index });
        let mut allocs = iter::once(root).chain(above).filter_map(|place| self.newest_alloc(place));
        allocs.all(|id| !self.graph.is_unwritten(id))
    }
}
