//! Dependencies on cylinder groups: new inodes whose bitmap is not durable, and new inode blocks
//! that must be written before the group that counts them.
//!
//! New blocks need no list here: their `allocdirect` requires the write of the group.
//!
//! # Invariants
//! 1. The new inodes of a group are in the order of the group's changes.
//! 2. A group lists a new inode block exactly while the block lists the group.

use super::heap::{heap, tree_bytes};
use crate::buf::BufKey;
use ffs_ondisk::Ino;
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};

/// A new inode that waits for its bitmap.
#[derive(Clone, Copy, Debug)]
pub(super) struct NewInode {
    /// Number of the group's change.
    pub(super) change: u64,
    pub(super) ino: Ino,
    /// The low half of the number of its allocation: the inode may be freed and allocated again
    /// before the bitmap is written, but not four billion states later.
    pub(super) allocation: u32,
}

/// Dependencies on one cylinder group.
#[derive(Debug, Default)]
struct BmSafeMap {
    new_inodes: VecDeque<NewInode>,
    /// Inode blocks that must be written before the group.
    new_blocks: Vec<BufKey>,
}

/// A group that waits for the first write of an inode block.
#[derive(Clone, Copy, Debug)]
struct WaitingGroup {
    /// Number of the inode block's change.
    change: u64,
    group: BufKey,
}

/// Dependencies on cylinder groups.
#[derive(Debug, Default)]
pub(super) struct BmSafeMaps {
    groups: BTreeMap<BufKey, BmSafeMap>,
    new_blocks: BTreeMap<BufKey, SmallVec<[WaitingGroup; 1]>>,
    /// New inodes of all groups.
    new_inodes: u64,
}

impl BmSafeMaps {
    /// New inodes of all groups.
    pub(super) fn new_inodes(&self) -> u64 {
        self.new_inodes
    }

    pub(super) fn add_inode(&mut self, group: BufKey, inode: NewInode) {
        let inodes = &mut self.groups.entry(group).or_default().new_inodes;
        debug_assert!(inodes.back().is_none_or(|last| last.change <= inode.change));
        inodes.push_back(inode);
        self.new_inodes += 1;
    }

    /// `group` must not be written before the `change` of the inode block.
    pub(super) fn add_inode_block(&mut self, group: BufKey, block: BufKey, change: u64) {
        self.groups.entry(group).or_default().new_blocks.push(block);
        self.new_blocks.entry(block).or_default().push(WaitingGroup { change, group });
    }

    /// The inode blocks that must be written before the group.
    pub(super) fn blocks_before(&self, group: BufKey) -> &[BufKey] {
        self.groups.get(&group).map(|map| map.new_blocks.as_slice()).unwrap_or_default()
    }

    /// The group's changes up to `change` are durable. Returns the inodes whose bitmap is.
    pub(super) fn group_durable(&mut self, group: BufKey, change: u64) -> SmallVec<[NewInode; 4]> {
        // No new inode of the group waits for its bitmap; or the block is not a group.
        let Some(map) = self.groups.get_mut(&group) else { return SmallVec::new() };
        let durable = map.new_inodes.partition_point(|inode| inode.change <= change);
        let inodes: SmallVec<[NewInode; 4]> = map.new_inodes.drain(..durable).collect();
        self.new_inodes -= inodes.len() as u64;
        self.drop_empty(group);
        inodes
    }

    /// The inode block's changes up to `change` are durable.
    pub(super) fn inode_block_durable(&mut self, block: BufKey, change: u64) {
        // No group waits for the block, which may not be an inode block.
        let Some(waiting) = self.new_blocks.get_mut(&block) else { return };
        let mut groups: SmallVec<[BufKey; 1]> = SmallVec::new();
        waiting.retain(|group| {
            let waits = group.change > change;
            if !waits {
                groups.push(group.group);
            }
            waits
        });
        if waiting.is_empty() {
            self.new_blocks.remove(&block);
        }
        for group in groups {
            if let Some(map) = self.groups.get_mut(&group) {
                map.new_blocks.retain(|key| *key != block);
            }
            self.drop_empty(group);
        }
    }

    fn drop_empty(&mut self, group: BufKey) {
        let is_empty = |map: &BmSafeMap| map.new_inodes.is_empty() && map.new_blocks.is_empty();
        if self.groups.get(&group).is_some_and(is_empty) {
            self.groups.remove(&group);
        }
    }

    /// Checks the invariants.
    pub(super) fn audit(&self) -> Result<(), String> {
        let inodes: usize = self.groups.values().map(|map| map.new_inodes.len()).sum();
        if inodes as u64 != self.new_inodes {
            return Err(format!("{inodes} new inodes, counted {}", self.new_inodes));
        }
        for (group, map) in &self.groups {
            let changes = map.new_inodes.iter().map(|inode| inode.change);
            let listed = |key: &BufKey| {
                let waiting = self.new_blocks.get(key);
                waiting.is_some_and(|groups| groups.iter().any(|waiting| waiting.group == *group))
            };
            if !changes.is_sorted() || !map.new_blocks.iter().all(listed) {
                return Err(format!("{group:?}: {map:?}"));
            }
        }
        let held: usize = self.groups.values().map(|map| map.new_blocks.len()).sum();
        let holding: usize = self.new_blocks.values().map(|groups| groups.len()).sum();
        if held != holding {
            return Err(format!("groups list {held} inode blocks, which list {holding} groups"));
        }
        Ok(())
    }

    pub(super) fn bytes(&self) -> usize {
        let of_map = |map: &BmSafeMap| {
            map.new_inodes.capacity() * size_of::<NewInode>()
                + map.new_blocks.capacity() * size_of::<BufKey>()
        };
        tree_bytes::<BufKey, BmSafeMap>(self.groups.len())
            + self.groups.values().map(of_map).sum::<usize>()
            + tree_bytes::<BufKey, SmallVec<[WaitingGroup; 1]>>(self.new_blocks.len())
            + self.new_blocks.values().map(heap).sum::<usize>()
    }
}
