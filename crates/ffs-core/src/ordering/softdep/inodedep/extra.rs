//! The parts of an inodedep that few inodes have.
//!
//! # Invariants
//! 1. The pointers are in the order of their indices.
//! 2. The ceilings are in the order of their sizes, the floors of a block in the order of their
//!    numbers.

use super::super::dep::{DepId, FILE_END};
use super::super::graph::{DepIds, Graph};
use super::super::heap::{heap, tree_bytes};
use super::super::pointer::PointerVersions;
use super::super::smallset::SmallSet;
use super::DeviceSize;
use ffs_ondisk::geometry::NDADDR;
use ffs_ondisk::{DirOff, Ino};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The parts of an inodedep that few inodes have.
#[derive(Debug, Default)]
pub(in super::super) struct InodeExtra {
    pointers: SmallVec<[(u8, PointerVersions); 2]>,
    ceilings: VecDeque<DepId>,
    /// By the in-core name of the indirect block that loses pointers (or [`FILE_END`]), and number.
    floors: BTreeMap<(i64, u64), DepId>,
    /// Extended attributes whose blocks are not durable.
    pub(in super::super) ext_attr: Option<DepId>,
    /// An exchange gave the file one of its names that are not reachable.
    pub(in super::super) exchanged: bool,
    /// The name that makes a new directory reachable.
    pub(in super::super) first_name: Option<DepId>,
    /// The `..` that names a directory's new parent.
    pub(in super::super) dotdot: Option<DepId>,
    /// The directory whose link count drops when this removed one is cleared.
    pub(in super::super) removed_from: Option<Ino>,
    /// Number of reserved entries.
    pub(in super::super) reserved: u32,
    /// Entries that were reserved and are free; [`crate::ordering::Ordering::take_freed_entries`]
    /// has not returned them.
    pub(in super::super) freed: BTreeSet<DirOff>,
    /// The `freeblks` that come before the inode's `freefile`.
    pub(in super::super) freeblks: SmallSet<DepId>,
    /// The pending link drops of a directory.
    pub(in super::super) link_drops: SmallVec<[DepId; 1]>,
    /// Bytes to which indirect blocks that the file has lost may lead; 0 while no root has pending
    /// versions.
    pub(in super::super) old_roots_end: u64,
    /// The size on the device, while pointers in indirect blocks wait for it.
    pub(in super::super) device_size: Option<DeviceSize>,
}

impl InodeExtra {
    /// The pointers with pending versions, by index: roots of indirect blocks follow the direct
    /// ones.
    pub(in super::super) fn pointers(
        &self,
    ) -> impl DoubleEndedIterator<Item = (usize, &PointerVersions)> + ExactSizeIterator {
        self.pointers.iter().map(|(index, versions)| (usize::from(*index), versions))
    }

    pub(in super::super) fn pointer(&self, index: usize) -> Option<&PointerVersions> {
        let at = self.find(index).ok()?;
        self.pointers.get(at).map(|(_, versions)| versions)
    }

    pub(in super::super) fn pointer_mut(&mut self, index: usize) -> Option<&mut PointerVersions> {
        let at = self.find(index).ok()?;
        self.pointers.get_mut(at).map(|(_, versions)| versions)
    }

    /// The versions of a pointer, made by `new` if it has none.
    pub(in super::super) fn pointer_or_insert(
        &mut self,
        index: usize,
        new: impl FnOnce() -> PointerVersions,
    ) -> &mut PointerVersions {
        let at = self.find(index).unwrap_or_else(|at| {
            self.pointers.insert(at, (index as u8, new()));
            at
        });
        &mut self.pointers[at].1
    }

    pub(in super::super) fn remove_pointer(&mut self, index: usize) -> Option<PointerVersions> {
        let at = self.find(index).ok()?;
        let removed = self.pointers.remove(at).1;
        if self.pointers.last().is_none_or(|(index, _)| usize::from(*index) < NDADDR) {
            self.old_roots_end = 0;
        }
        Some(removed)
    }

    fn find(&self, index: usize) -> Result<usize, usize> {
        self.pointers.binary_search_by_key(&index, |(index, _)| usize::from(*index))
    }

    /// Adds a ceiling above all others.
    pub(in super::super) fn push_ceiling(&mut self, id: DepId) {
        self.ceilings.push_back(id);
    }

    /// The ceilings, in the order of their sizes.
    pub(in super::super) fn ceilings(&self) -> &VecDeque<DepId> {
        &self.ceilings
    }

    pub(in super::super) fn remove_ceiling(&mut self, id: DepId) {
        // It is mostly the first or the last.
        if self.ceilings.front() == Some(&id) {
            self.ceilings.pop_front();
        } else if self.ceilings.back() == Some(&id) {
            self.ceilings.pop_back();
        } else {
            self.ceilings.retain(|ceiling| *ceiling != id);
        }
    }

    pub(in super::super) fn insert_floor(&mut self, block: i64, number: u64, id: DepId) {
        self.floors.insert((block, number), id);
    }

    pub(in super::super) fn remove_floor(&mut self, block: i64, number: u64) {
        self.floors.remove(&(block, number));
    }

    /// All floors.
    pub(in super::super) fn floors(&self) -> impl ExactSizeIterator<Item = DepId> {
        self.floors.values().copied()
    }

    /// The floors of an indirect block or of [`FILE_END`], oldest first.
    pub(in super::super) fn floors_of(&self, block: i64) -> impl DoubleEndedIterator<Item = DepId> {
        self.floors.range((block, 0)..=(block, u64::MAX)).map(|(_, id)| *id)
    }

    /// Floors of indirect blocks.
    pub(in super::super) fn indirect_floors(&self) -> impl Iterator<Item = DepId> {
        let floors = self.floors.iter().filter(|((block, _), _)| *block != FILE_END);
        floors.map(|(_, id)| *id)
    }

    /// All bounds on the size that writes show.
    pub(in super::super) fn bounds(&self) -> impl Iterator<Item = DepId> {
        self.ceilings.iter().copied().chain(self.floors())
    }

    /// The size that writes show until they may show the file's new last block; 0 if there is no
    /// such size.
    pub(in super::super) fn truncated_size(&self, graph: &Graph) -> u64 {
        let floors = self.floors_of(FILE_END).filter_map(|id| graph.floor(id));
        floors.filter(|floor| floor.last.is_some()).map(|floor| floor.size).max().unwrap_or(0)
    }

    /// The dependencies that keep the inode from being written as it is stored.
    pub(in super::super) fn held_versions(&self) -> DepIds {
        let pointers = self.pointers.iter().filter_map(|(_, versions)| versions.last());
        pointers.chain(self.bounds()).chain(self.ext_attr).collect()
    }

    /// Whether an entry is reserved, or is free and was not returned.
    pub(in super::super) fn has_reserved(&self) -> bool {
        self.reserved > 0 || !self.freed.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pointers.is_empty()
            && self.ceilings.is_empty()
            && self.floors.is_empty()
            && self.freeblks.is_empty()
            && self.link_drops.is_empty()
            && !self.has_reserved()
            && !self.exchanged
            && self.device_size.is_none()
            && (self.ext_attr, self.first_name, self.dotdot) == (None, None, None)
            && self.removed_from.is_none()
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<InodeExtra>()
            + heap(&self.pointers)
            + self.pointers.iter().map(|(_, versions)| versions.heap_bytes()).sum::<usize>()
            + self.ceilings.capacity() * size_of::<DepId>()
            + tree_bytes::<(i64, u64), DepId>(self.floors.len())
            + self.freeblks.bytes()
            + heap(&self.link_drops)
            + self.device_size.as_ref().map_or(0, DeviceSize::heap_bytes)
            + tree_bytes::<DirOff, ()>(self.freed.len())
    }
}
