//! The nodes of the tree: the root in block 0, and inner nodes.
//!
//! # Invariants
//! 1. A node that was read has 1 to `limit` entries, and `limit` is that of its block.

use super::super::bytes::{get, put};
use super::super::error::{IndexError, Result};
use super::super::hash::HashVersion;
use super::{DOTS, LEVELS};
use crate::machine::SearchWork;

/// Where the entries of the root and of an inner node begin.
pub(super) const ROOT_ENTRIES: usize = 32;
const INNER_ENTRIES: usize = 8;
/// Bytes of an entry: hash and block.
const ENTRY: usize = 8;
/// The root's information behind `.` and `..`: reserved, version, length, levels, flags.
const VERSION: usize = 0x1c;
const INFO_LENGTH: usize = 0x1d;
const INDIRECT_LEVELS: usize = 0x1e;

/// A node.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) bytes: Vec<u8>,
    base: usize,
}

/// Writes `.` and `..`, which the laboratory's directories name 0 as their inode 2.
pub(super) fn write_dots(block: &mut [u8]) {
    let rest = block.len() - DOTS;
    put::<u32>(block, 0, 2);
    put::<u16>(block, 4, 12);
    put::<u16>(block, 6, 1 | 2 << 8);
    block[8] = b'.';
    put::<u32>(block, 12, 2);
    put::<u16>(block, 16, 12);
    put::<u16>(block, 18, 2 | 2 << 8);
    block[20..22].copy_from_slice(b"..");
    // One free record for the names of a directory of one block.
    put::<u32>(block, DOTS, 0);
    put::<u16>(block, DOTS + 4, rest as u16);
}

/// Whether `..` covers the rest of a block of `size` bytes, as in a root.
pub(super) fn is_root(dots: &[u8], size: usize) -> bool {
    usize::from(get::<u16>(dots, 16)) == size - 12
}

impl Node {
    /// Checks the bytes of a node in block `at.0` of `at.1`.
    ///
    /// # Errors
    /// [`IndexError::Damaged`].
    pub(super) fn read(
        bytes: Vec<u8>,
        at: (u32, u32),
        root: bool,
        hash: HashVersion,
    ) -> Result<Node> {
        let (block, blocks) = at;
        let wrong = |structure, found: usize, expected| {
            Err(IndexError::damaged(structure, block, found, expected))
        };
        let base = if root { ROOT_ENTRIES } else { INNER_ENTRIES };
        let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
        if root {
            if HashVersion::of(byte(VERSION)) != Some(hash) {
                return wrong("hash version", byte(VERSION).into(), "that of the directory");
            }
            if byte(INFO_LENGTH) != 8 {
                return wrong("length of the root's information", byte(INFO_LENGTH).into(), "8");
            }
            if usize::from(byte(INDIRECT_LEVELS)) >= LEVELS {
                return wrong("levels", byte(INDIRECT_LEVELS).into(), "at most 1");
            }
        } else if get::<u32>(&bytes, 0) != 0 || usize::from(get::<u16>(&bytes, 4)) != bytes.len() {
            return wrong("index node", get::<u16>(&bytes, 4).into(), "a free record of a block");
        }
        let node = Node { bytes, base };
        let limit = usize::from(get::<u16>(&node.bytes, base));
        if limit != node.limit() {
            return wrong("limit of a node", limit, "the entries that fit the block");
        }
        let count = node.count();
        if count == 0 || count > limit {
            return wrong("count of a node", count, "1 to the limit");
        }
        let outside =
            (0..count).map(|at| node.child(at)).find(|child| *child == 0 || *child >= blocks);
        match outside {
            Some(child) => wrong("block in a node", child as usize, "a block of the directory"),
            None => Ok(node),
        }
    }

    /// A node of a block of `size` bytes, with these hashes and blocks. The first hash is ignored.
    pub(super) fn new(size: usize, root: Option<(HashVersion, u8)>, all: &[(u32, u32)]) -> Node {
        let mut bytes = vec![0; size];
        let base = match root {
            Some((hash, levels)) => {
                write_dots(&mut bytes);
                // `..` covers the rest of the block, which looks empty to a linear search.
                put::<u16>(&mut bytes, 16, (size - 12) as u16);
                bytes[24..32].fill(0);
                bytes[VERSION] = hash as u8;
                bytes[INFO_LENGTH] = 8;
                bytes[INDIRECT_LEVELS] = levels;
                ROOT_ENTRIES
            }
            None => {
                put::<u16>(&mut bytes, 4, size as u16);
                INNER_ENTRIES
            }
        };
        let mut node = Node { bytes, base };
        let limit = node.limit() as u16;
        put::<u16>(&mut node.bytes, base, limit);
        node.set_all(all);
        node
    }

    /// The levels of inner nodes below the root.
    pub(super) fn levels(&self) -> usize {
        self.bytes.get(INDIRECT_LEVELS).map_or(0, |levels| usize::from(*levels))
    }

    /// The entries that fit.
    pub(super) fn limit(&self) -> usize {
        (self.bytes.len() - self.base) / ENTRY
    }

    pub(super) fn count(&self) -> usize {
        usize::from(get::<u16>(&self.bytes, self.base + 2))
    }

    /// The hash of an entry; that of the first is 0.
    pub(super) fn hash(&self, at: usize) -> u32 {
        if at == 0 { 0 } else { get::<u32>(&self.bytes, self.base + at * ENTRY) }
    }

    pub(super) fn child(&self, at: usize) -> u32 {
        get::<u32>(&self.bytes, self.base + at * ENTRY + 4)
    }

    /// The entries from `from` on.
    pub(super) fn entries(&self, from: usize) -> Vec<(u32, u32)> {
        (from..self.count()).map(|at| (self.hash(at), self.child(at))).collect()
    }

    fn set(&mut self, at: usize, (hash, block): (u32, u32)) {
        if at > 0 {
            put::<u32>(&mut self.bytes, self.base + at * ENTRY, hash);
        }
        put::<u32>(&mut self.bytes, self.base + at * ENTRY + 4, block);
    }

    /// Replaces all entries.
    pub(super) fn set_all(&mut self, all: &[(u32, u32)]) {
        for (at, entry) in all.iter().enumerate() {
            self.set(at, *entry);
        }
        put::<u16>(&mut self.bytes, self.base + 2, all.len() as u16);
    }

    /// Keeps the first `count` entries.
    pub(super) fn truncate(&mut self, count: usize) {
        put::<u16>(&mut self.bytes, self.base + 2, count as u16);
    }

    /// Adds an entry behind entry `at`. The node is not full.
    pub(super) fn insert_after(&mut self, at: usize, entry: (u32, u32), work: &mut SearchWork) {
        let count = self.count();
        let from = self.base + (at + 1) * ENTRY;
        let end = self.base + count * ENTRY;
        self.bytes.copy_within(from..end, from + ENTRY);
        work.moved += (end - from) as u64;
        self.set(at + 1, entry);
        put::<u16>(&mut self.bytes, self.base + 2, count as u16 + 1);
    }

    /// The last entry whose hash is not above `hash`, by binary search.
    pub(super) fn search(&self, hash: u32, work: &mut SearchWork) -> usize {
        work.references += 1;
        let (mut low, mut high) = (1, self.count());
        while low < high {
            let middle = low + (high - low) / 2;
            work.records += 1;
            if self.hash(middle) > hash { high = middle } else { low = middle + 1 }
        }
        low - 1
    }
}
