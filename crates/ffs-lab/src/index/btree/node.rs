//! The nodes of the tree.
//!
//! A leaf has keys of 8 bytes. An inner node has a key of 8 bytes and a child of 4 bytes for each
//! child; the key of the first child counts as 0.

use super::super::bytes::{get, put};
use super::super::error::{IndexError, Result};
use crate::machine::SearchWork;

const MAGIC: u32 = u32::from_le_bytes(*b"LabN");
const LEVEL: usize = 4;
const COUNT: usize = 6;
/// The leaf to the right; 0 for none.
const RIGHT: usize = 8;
const KEYS: usize = 16;

/// A node.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) bytes: Vec<u8>,
}

impl Node {
    /// A node with these keys and children. A leaf is at level 0, and its children are ignored.
    pub(super) fn new(size: usize, level: u16, all: &[(u64, u32)]) -> Node {
        let mut node = Node { bytes: vec![0; size] };
        put::<u32>(&mut node.bytes, 0, MAGIC);
        put::<u16>(&mut node.bytes, LEVEL, level);
        node.set_all(all);
        node
    }

    /// Checks the bytes of a node at `level` in `block` of `blocks`.
    ///
    /// # Errors
    /// [`IndexError::Damaged`].
    pub(super) fn read(bytes: Vec<u8>, level: u32, (block, blocks): (u32, u32)) -> Result<Node> {
        let node = Node { bytes };
        let wrong =
            |what, found: u64, expected| Err(IndexError::damaged(what, block, found, expected));
        let (magic, stored) = (get::<u32>(&node.bytes, 0), get::<u16>(&node.bytes, LEVEL));
        if magic != MAGIC {
            return wrong("index node", magic.into(), "the magic of a node");
        }
        if u32::from(stored) != level {
            return wrong("level of a node", stored.into(), "one less than that of its parent");
        }
        let count = node.count();
        if count > node.limit() || (level > 0 && count == 0) {
            return wrong("count of a node", count as u64, "keys that fit the block");
        }
        if node.right() >= blocks {
            return wrong("right neighbour", node.right().into(), "a block of the directory");
        }
        let outside = |child: &u32| *child == 0 || *child >= blocks;
        let children = if level > 0 { 0..count } else { 0..0 };
        match children.map(|at| node.child(at)).find(outside) {
            Some(child) => wrong("child of a node", child.into(), "a block of the directory"),
            None => Ok(node),
        }
    }

    fn is_leaf(&self) -> bool {
        get::<u16>(&self.bytes, LEVEL) == 0
    }

    fn entry(&self) -> usize {
        if self.is_leaf() { 8 } else { 12 }
    }

    pub(super) fn limit(&self) -> usize {
        (self.bytes.len() - KEYS) / self.entry()
    }

    pub(super) fn count(&self) -> usize {
        usize::from(get::<u16>(&self.bytes, COUNT))
    }

    pub(super) fn right(&self) -> u32 {
        get::<u32>(&self.bytes, RIGHT)
    }

    pub(super) fn set_right(&mut self, block: u32) {
        put::<u32>(&mut self.bytes, RIGHT, block);
    }

    pub(super) fn key(&self, at: usize) -> u64 {
        get::<u64>(&self.bytes, KEYS + at * self.entry())
    }

    pub(super) fn child(&self, at: usize) -> u32 {
        if self.is_leaf() { 0 } else { get::<u32>(&self.bytes, KEYS + at * self.entry() + 8) }
    }

    pub(super) fn entries(&self, from: usize) -> Vec<(u64, u32)> {
        (from..self.count()).map(|at| (self.key(at), self.child(at))).collect()
    }

    fn set(&mut self, at: usize, (key, child): (u64, u32)) {
        let (place, leaf) = (KEYS + at * self.entry(), self.is_leaf());
        put::<u64>(&mut self.bytes, place, key);
        if !leaf {
            put::<u32>(&mut self.bytes, place + 8, child);
        }
    }

    fn set_all(&mut self, all: &[(u64, u32)]) {
        for (at, entry) in all.iter().enumerate() {
            self.set(at, *entry);
        }
        put::<u16>(&mut self.bytes, COUNT, all.len() as u16);
    }

    pub(super) fn truncate(&mut self, count: usize) {
        put::<u16>(&mut self.bytes, COUNT, count as u16);
    }

    /// Inserts an entry at `at`. The node is not full.
    pub(super) fn insert(&mut self, at: usize, entry: (u64, u32), work: &mut SearchWork) {
        let (count, wide) = (self.count(), self.entry());
        let (from, end) = (KEYS + at * wide, KEYS + count * wide);
        self.bytes.copy_within(from..end, from + wide);
        work.moved += (end - from) as u64;
        self.set(at, entry);
        put::<u16>(&mut self.bytes, COUNT, count as u16 + 1);
    }

    pub(super) fn remove(&mut self, at: usize, work: &mut SearchWork) {
        let (count, wide) = (self.count(), self.entry());
        let (from, end) = (KEYS + (at + 1) * wide, KEYS + count * wide);
        self.bytes.copy_within(from..end, from - wide);
        work.moved += (end - from) as u64;
        put::<u16>(&mut self.bytes, COUNT, count as u16 - 1);
    }

    /// The number of keys below `key`, by binary search; of an inner node without its first.
    pub(super) fn search(&self, key: u64, inclusive: bool, work: &mut SearchWork) -> usize {
        work.references += 1;
        let (mut low, mut high) = (usize::from(!self.is_leaf()), self.count());
        while low < high {
            let middle = low + (high - low) / 2;
            work.records += 1;
            let found = self.key(middle);
            let left = found < key || (inclusive && found == key);
            if left { low = middle + 1 } else { high = middle }
        }
        low
    }
}
