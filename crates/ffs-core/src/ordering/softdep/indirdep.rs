//! Dependencies on indirect blocks (FreeBSD: `indirdep`): the pointers with pending versions.
//!
//! # Invariants
//! 1. A block is listed exactly while one of its pointers has pending versions.

use super::heap::tree_bytes;
use super::pointer::PointerVersions;
use crate::buf::BufKey;
use ffs_ondisk::Ino;
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

/// Pointers with pending versions of one indirect block, by index.
pub(super) type IndirDep = BTreeMap<u32, PointerVersions>;

/// Dependencies on all indirect blocks, by their buffers.
#[derive(Debug, Default)]
pub(super) struct IndirDeps(BTreeMap<BufKey, IndirDep>);

/// The buffers of the indirect blocks of a file. Those of its extended attributes are among them,
/// but have no pointers.
fn indirect_blocks(ino: Ino) -> Range<BufKey> {
    BufKey::File(ino, i64::MIN)..BufKey::File(ino, 0)
}

impl IndirDeps {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, key: BufKey) -> Option<&IndirDep> {
        self.0.get(&key)
    }

    pub(super) fn pointer(&self, key: BufKey, index: u32) -> Option<&PointerVersions> {
        self.0.get(&key)?.get(&index)
    }

    pub(super) fn pointer_mut(&mut self, key: BufKey, index: u32) -> Option<&mut PointerVersions> {
        self.0.get_mut(&key)?.get_mut(&index)
    }

    /// The versions of a pointer, made by `new` if it has none.
    pub(super) fn pointer_or_insert(
        &mut self,
        key: BufKey,
        index: u32,
        new: impl FnOnce() -> PointerVersions,
    ) -> &mut PointerVersions {
        self.0.entry(key).or_default().entry(index).or_insert_with(new)
    }

    /// Removes the versions of the pointers in a range.
    pub(super) fn remove_range(&mut self, key: BufKey, range: Range<u32>) -> Vec<PointerVersions> {
        // No pointer of the block is pending.
        let Some(dep) = self.0.get_mut(&key) else { return Vec::new() };
        let indices: Vec<u32> = dep.range(range).map(|(index, _)| *index).collect();
        let removed = indices.iter().filter_map(|index| dep.remove(index)).collect();
        if dep.is_empty() {
            self.0.remove(&key);
        }
        removed
    }

    /// Removes the block.
    pub(super) fn remove(&mut self, key: BufKey) -> Option<IndirDep> {
        self.0.remove(&key)
    }

    /// The indirect blocks of a file.
    pub(super) fn of_file(&self, ino: Ino) -> impl Iterator<Item = (BufKey, &IndirDep)> {
        self.0.range(indirect_blocks(ino)).map(|(key, dep)| (*key, dep))
    }

    pub(super) fn has_file(&self, ino: Ino) -> bool {
        self.of_file(ino).next().is_some()
    }

    /// The blocks of a range of buffers.
    pub(super) fn keys(&self, range: RangeInclusive<BufKey>) -> Vec<BufKey> {
        self.0.range(range).map(|(key, _)| *key).collect()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (BufKey, &IndirDep)> {
        self.0.iter().map(|(key, dep)| (*key, dep))
    }

    pub(super) fn bytes(&self) -> usize {
        let of_block = |dep: &IndirDep| {
            tree_bytes::<u32, PointerVersions>(dep.len())
                + dep.values().map(PointerVersions::heap_bytes).sum::<usize>()
        };
        tree_bytes::<BufKey, IndirDep>(self.0.len()) + self.0.values().map(of_block).sum::<usize>()
    }
}
