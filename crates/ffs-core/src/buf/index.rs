//! The index of the blocks in memory by key. Its parts have locks of their own, so that a thread
//! that finds a block does not wait for threads that look for others.
//!
//! # Invariants
//! 1. The index has the blocks of the table. Blocks enter and leave it under the cache's lock,
//!    which is taken before the lock of a part.
//! 2. A lookup takes only the lock of a part. A block loses its header, or is evicted, under the
//!    lock of its part and only without users. So a block that a lookup has returned keeps its
//!    header and stays in memory until its users have dropped it, unless it is removed with its
//!    file.
//! 3. Which part a key has, and the order in a part, depend on the calls alone: no hash is
//!    randomised.

use super::{Buf, BufKey, BufKind, BufRef};
use crate::openhash::{ItemId, OpenHash};
use crate::padded::Padded;
use crate::sync::{Mutex, MutexGuard};
use foldhash::fast::FixedState;
use std::hash::BuildHasher;
use std::sync::Arc;

/// References to a buffer that the cache itself has: one in the table of blocks and one in the
/// index. The index has its own because with a hundred thousand blocks each step of a lookup waits
/// for memory.
pub(super) const OWN_REFERENCES: usize = 2;

/// The number of parts, a power of two: enough that 16 threads seldom meet in one.
const PARTS: usize = 64;

/// Hits of blocks with a header, by kind of block.
pub(super) type Hits = [u64; BufKind::ALL.len()];

/// The blocks in memory by key.
pub(super) struct BlockIndex {
    parts: Box<[Padded<Mutex<Part>>]>,
    hasher: FixedState,
}

#[derive(Default)]
struct Part {
    blocks: OpenHash<BufRef>,
    hits: Hits,
}

/// The result of a lookup that found a block.
pub(super) struct Found {
    pub(super) buf: BufRef,
    /// It has a header.
    pub(super) has_header: bool,
}

impl BlockIndex {
    pub(super) fn new() -> BlockIndex {
        let parts = std::iter::repeat_with(Padded::default).take(PARTS).collect();
        BlockIndex { parts, hasher: FixedState::default() }
    }

    /// The part that has `key`, locked, and the hash of `key` in it.
    fn part(&self, key: BufKey) -> (MutexGuard<'_, Part>, u32) {
        let hash = self.hasher.hash_one(key);
        // The table in the part takes the low bits of the other half.
        (self.parts[hash as usize % PARTS].lock(), (hash >> 32) as u32)
    }

    /// Finds the block of `key`, marks it as used, and counts the hit if it has a header.
    pub(super) fn lookup(&self, key: BufKey) -> Option<Found> {
        let (mut part, hash) = self.part(key);
        let buf = Arc::clone(part.find(hash, key)?.1);
        buf.mark_used();
        let has_header = buf.has_header();
        if has_header {
            part.hits[buf.kind as usize] += 1;
        }
        Some(Found { buf, has_header })
    }

    /// Calls `f` with the buffer of `key`, which does not count as used.
    pub(super) fn peek<T>(&self, key: BufKey, f: impl FnOnce(&Buf) -> T) -> Option<T> {
        let (part, hash) = self.part(key);
        part.find(hash, key).map(|(_, buf)| f(buf))
    }

    /// The number of the block of `key`.
    pub(super) fn id(&self, key: BufKey) -> Option<ItemId> {
        let (part, hash) = self.part(key);
        part.find(hash, key).map(|(id, _)| id)
    }

    /// Fetches the entry of `key`, which is about to be looked up, into the processor's cache.
    pub(super) fn prefetch(&self, key: BufKey) {
        let (part, hash) = self.part(key);
        part.blocks.prefetch(hash);
    }

    /// Adds a block that is not in the index.
    pub(super) fn insert(&self, id: ItemId, buf: BufRef) {
        let (mut part, hash) = self.part(buf.key);
        part.blocks.insert(hash, id, Some(buf));
    }

    /// Removes block `id`, which has `key`.
    pub(super) fn remove(&self, id: ItemId, key: BufKey) {
        let (mut part, hash) = self.part(key);
        part.blocks.remove(hash, id);
    }

    /// Removes block `id` unless it is in use. Returns whether it did. `buf` is the reference of
    /// the table.
    pub(super) fn remove_idle(&self, id: ItemId, buf: &BufRef) -> bool {
        let (mut part, hash) = self.part(buf.key);
        let idle = is_idle(buf);
        if idle {
            part.blocks.remove(hash, id);
        }
        idle
    }

    /// Takes the header of a block away unless it is in use. Returns whether it did. `buf` is the
    /// reference of the table.
    pub(super) fn take_header(&self, buf: &BufRef) -> bool {
        let _part = self.part(buf.key);
        let idle = is_idle(buf);
        if idle {
            buf.set_header(false);
        }
        idle
    }

    /// Hits of all blocks with a header.
    pub(super) fn hits(&self) -> Hits {
        let mut all = Hits::default();
        for part in &self.parts {
            let hits = part.lock().hits;
            all.iter_mut().zip(hits).for_each(|(sum, n)| *sum += n);
        }
        all
    }

    /// The number of blocks.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.lock().blocks.len()).sum()
    }
}

impl Part {
    fn find(&self, hash: u32, key: BufKey) -> Option<(ItemId, &BufRef)> {
        let found = self.blocks.find(hash, |_, buf| buf.is_some_and(|buf| buf.key == key));
        found.and_then(|(id, buf)| Some((id, buf?)))
    }
}

/// Whether only the cache has the buffer. The part of the block is locked, so it stays so.
fn is_idle(buf: &BufRef) -> bool {
    Arc::strong_count(buf) == OWN_REFERENCES
}
