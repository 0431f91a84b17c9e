//! The state of the cache: which blocks are in memory, in which of the two tiers.
//!
//! # Invariants
//! 1. A block in **tier 1** has a buffer header: at most `nbuf` of them, with at most `hibufspace`
//!    bytes. A block in **tier 2** has only pages of the page cache; it is clean and has no users,
//!    except lookups that are about to give it a header again, without reading the device. The
//!    blocks of both tiers that are backed by pages have at most `cache` bytes.
//! 2. Every block is backed by pages (its size rounded up to 4096), but directory blocks only while
//!    `vmiodirenable` is on. Otherwise a directory block has private memory: up to 2048 bytes in
//!    multiples of 512 while `maxbufmallocspace` has space, else rounded up to 4096 and counted in
//!    `bufspace`. Such a block is dropped when it loses its header.
//! 3. Dirty blocks and blocks in use keep their headers; if these alone exceed a limit, the limit
//!    is exceeded. Otherwise the limits hold whenever a block is added.
//! 4. Eviction order: in tier 2, the block that lost its header first; in tier 1, the oldest header
//!    that was not used since it was last examined (second chance), so that a hit moves nothing.
//!
//! Reference: `spec/directories-and-caches.md` §7.

mod evict;

use super::block::{BlockTable, CachedBlock, Tier};
use super::dirty::DirtyList;
use super::dirty_count::DirtyCount;
use super::file_lists::FileLists;
use super::limits::CacheLimits;
use super::queues::Queues;
use super::space::SpaceUse;
use super::spare::SpareBuffers;
use super::stats::{CacheStats, ClassStats};
use super::{Buf, BufKey, BufKind, BufRef};
use crate::counters::bump;
use crate::openhash::{ItemId, NIL, OpenHash};
use crate::per_thread::PerThread;
use ffs_ondisk::Ino;
use foldhash::fast::FixedState;
use std::hash::BuildHasher;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// References to a buffer that the cache itself has: one in the table of blocks and one in the
/// index. The index has its own because with a hundred thousand blocks each step of a lookup waits
/// for memory.
const OWN_REFERENCES: usize = 2;

/// The state that the cache's lock guards.
pub(super) struct CacheState {
    blocks: BlockTable,
    /// Blocks by key.
    index: OpenHash<BufRef>,
    hasher: FixedState,
    files: FileLists,
    queues: Queues,
    limits: CacheLimits,
    space: SpaceUse,
    /// Hits of blocks with a header, by kind of block.
    hits: PerThread<[AtomicU64; BufKind::ALL.len()]>,
    /// Other lookups, and evictions, by kind of block; the sizes in it are not kept here.
    counts: [ClassStats; BufKind::ALL.len()],
    pub(super) dirty: DirtyList,
    dirty_count: Arc<DirtyCount>,
    pub(super) spare: SpareBuffers,
}

impl CacheState {
    pub(super) fn new(limits: CacheLimits, dirty_count: Arc<DirtyCount>) -> CacheState {
        dirty_count.set_limits(&limits);
        CacheState {
            blocks: BlockTable::default(),
            index: OpenHash::default(),
            hasher: FixedState::default(),
            files: FileLists::default(),
            queues: Queues::default(),
            limits,
            space: SpaceUse::default(),
            hits: PerThread::default(),
            counts: Default::default(),
            dirty: DirtyList::default(),
            dirty_count,
            spare: SpareBuffers::default(),
        }
    }

    fn hash(&self, key: BufKey) -> u32 {
        (self.hasher.hash_one(key) >> 32) as u32
    }

    fn find(&self, key: BufKey) -> Option<(ItemId, &BufRef)> {
        let found = self.index.find(self.hash(key), |_, buf| buf.is_some_and(|b| b.key == key));
        found.and_then(|(id, buf)| Some((id, buf?)))
    }

    fn find_id(&self, key: BufKey) -> Option<ItemId> {
        self.find(key).map(|(id, _)| id)
    }

    /// The buffer of `key`, without marking it as used.
    pub(super) fn peek(&self, key: BufKey) -> Option<&Buf> {
        self.find(key).map(|(_, buf)| &**buf)
    }

    /// Fetches the index entry of `key`, which is about to be looked up, into the processor's
    /// cache.
    pub(super) fn prefetch(&self, key: BufKey) {
        self.index.prefetch(self.hash(key));
    }

    pub(super) fn contains(&self, key: BufKey) -> bool {
        self.find(key).is_some()
    }

    pub(super) fn has_file(&self, ino: Ino) -> bool {
        self.files.has_file(ino)
    }

    /// Finds the buffer of `key` and marks it as used. If it has no header, the caller calls
    /// [`CacheState::give_header`].
    pub(super) fn lookup(&self, key: BufKey) -> Option<BufRef> {
        let (_, buf) = self.find(key)?;
        buf.mark_referenced();
        if buf.has_header() {
            bump(&self.hits[buf.kind as usize]);
        }
        Some(Arc::clone(buf))
    }

    /// Gives the block of `buf`, which a lookup found without one, a header, and counts the hit.
    pub(super) fn give_header(&mut self, buf: &Buf) {
        // A block that was dropped meanwhile has no place.
        let Some(id) = buf.place() else { return };
        match self.blocks[id].tier {
            // Another thread was faster.
            Tier::Header => bump(&self.hits[buf.kind as usize]),
            Tier::PagesOnly => {
                self.counts[buf.kind as usize].tier2_hits += 1;
                self.move_to(id, Tier::Header);
                self.evict_headers(0, 0);
            }
        }
    }

    /// Counts a lookup that has to read the device.
    pub(super) fn count_miss(&mut self, kind: BufKind) {
        self.counts[kind as usize].misses += 1;
    }

    /// Adds a block that is not in memory, in tier 1. `bytes` is its length.
    pub(super) fn insert(&mut self, buf: BufRef, bytes: usize) {
        let (key, bytes) = (buf.key, bytes as u32);
        let backing = self.space.backing_for(&self.limits, buf.kind, bytes);
        let block = CachedBlock::new(Arc::clone(&buf), bytes, backing);
        self.space.charge(&block);
        let id = self.blocks.insert(block);
        buf.set_place(id);
        self.index.insert(self.hash(key), id, Some(buf));
        if let BufKey::File(ino, _) = key {
            self.files.push(&mut self.blocks, ino, id);
        }
        self.queues.push_newest(&mut self.blocks, id);
    }

    /// Removes a block from every list. Its memory becomes spare, unless another thread has the
    /// buffer: then the buffer is returned.
    fn remove(&mut self, id: ItemId) -> Option<BufRef> {
        let buf = self.blocks[id].buf.as_ref()?;
        let key = buf.key;
        if buf.is_dirty() {
            buf.set_dirty(false);
            self.dirty.remove(key, self.blocks[id].bytes);
            self.note_dirty();
        } else {
            self.queues.remove(&mut self.blocks, id);
        }
        self.space.discharge(&self.blocks[id]);
        if let BufKey::File(ino, _) = key {
            self.files.remove(&mut self.blocks, ino, id);
        }
        self.index.remove(self.hash(key), id);
        let buf = self.blocks[id].buf.take()?;
        buf.set_place(NIL);
        self.blocks.release(id);
        match Arc::try_unwrap(buf) {
            Ok(buf) => {
                self.spare.put(buf.into_bytes());
                None
            }
            Err(shared) => Some(shared),
        }
    }

    /// Removes the block of `key`; returns its buffer if another thread has it.
    pub(super) fn remove_key(&mut self, key: BufKey) -> Option<BufRef> {
        self.find_id(key).and_then(|id| self.remove(id))
    }

    /// Removes the blocks of a file with logical numbers in `range`; returns the buffers that other
    /// threads have.
    pub(super) fn remove_range(&mut self, ino: Ino, range: RangeInclusive<i64>) -> Vec<BufRef> {
        let width = range.end().checked_sub(*range.start());
        let ids = if width.is_some_and(|width| width < i64::from(self.files.len(ino))) {
            range.filter_map(|lbn| self.find_id(BufKey::File(ino, lbn))).collect()
        } else {
            self.files.in_range(&self.blocks, ino, &range)
        };
        ids.into_iter().filter_map(|id| self.remove(id)).collect()
    }

    /// Marks `buf` dirty, unless its block was dropped: the block that has its key now did not
    /// change.
    pub(super) fn set_dirty(&mut self, buf: &BufRef) {
        let Some(id) = buf.place().filter(|_| !buf.is_dirty()) else { return };
        self.queues.remove(&mut self.blocks, id);
        buf.set_dirty(true);
        self.dirty.insert(buf, self.blocks[id].bytes);
        self.note_dirty();
    }

    /// Marks the dirty buffer `buf` clean, unless its block was dropped: the write of a dropped
    /// buffer does not clean the block that has its key now.
    pub(super) fn set_clean(&mut self, buf: &Buf) {
        let Some(id) = buf.place().filter(|_| buf.is_dirty()) else { return };
        buf.set_dirty(false);
        self.dirty.remove(buf.key, self.blocks[id].bytes);
        self.note_dirty();
        self.queues.push_newest(&mut self.blocks, id);
    }

    /// The block of `buf` has `bytes` bytes from now on, unless it was dropped.
    pub(super) fn resize(&mut self, buf: &Buf, bytes: usize) {
        if let Some(id) = buf.place() {
            self.recharge(id, bytes as u32);
        }
    }

    /// Stores the sums of the dirty list where threads read them without the cache's lock.
    fn note_dirty(&self) {
        self.dirty_count.set(self.dirty.bytes(), self.dirty.len());
    }

    /// Charges a block anew for `bytes` bytes.
    fn recharge(&mut self, id: ItemId, bytes: u32) {
        let CachedBlock { kind, bytes: old, .. } = self.blocks[id];
        let dirty = self.blocks[id].buf.as_ref().is_some_and(|buf| buf.is_dirty());
        if dirty {
            self.dirty.resize(old, bytes);
            self.note_dirty();
        } else {
            self.queues.remove(&mut self.blocks, id);
        }
        self.space.discharge(&self.blocks[id]);
        let (backing, charged) = self.space.backing_for(&self.limits, kind, bytes);
        let block = &mut self.blocks[id];
        (block.bytes, block.backing, block.charged) = (bytes, backing, charged);
        self.space.charge(block);
        if !dirty {
            self.queues.push_newest(&mut self.blocks, id);
        }
    }

    /// Gives a clean block its header or takes it away.
    fn move_to(&mut self, id: ItemId, tier: Tier) {
        self.queues.remove(&mut self.blocks, id);
        self.space.discharge(&self.blocks[id]);
        self.blocks[id].tier = tier;
        if let Some(buf) = &self.blocks[id].buf {
            buf.set_header(tier == Tier::Header);
        }
        self.space.charge(&self.blocks[id]);
        self.queues.push_newest(&mut self.blocks, id);
    }

    pub(super) fn stats(&self) -> CacheStats {
        let directories = self.files.directories();
        let mut counts = self.counts;
        for hits in self.hits.all() {
            for (count, hits) in counts.iter_mut().zip(hits) {
                count.tier1_hits += hits.load(Ordering::Relaxed);
            }
        }
        CacheStats::new(&counts, &self.space, self.dirty.bytes(), directories)
    }

    /// Checks every list, and the sums against the blocks.
    #[cfg(test)]
    pub(super) fn audit(&self) {
        let mut space = SpaceUse::default();
        let mut directories = std::collections::BTreeSet::new();
        let (mut clean, mut of_files, mut all) = (0, 0, 0);
        for block in self.blocks.in_use() {
            let buf = block.buf.as_ref().expect("a block in use has a buffer");
            let pages = block.backing == super::block::Backing::Pages;
            assert!(block.charged >= block.bytes && (block.tier == Tier::Header || pages));
            let dirty = buf.is_dirty();
            assert!(!dirty || block.tier == Tier::Header);
            assert_eq!(buf.has_header(), block.tier == Tier::Header);
            assert!(buf.place() == self.find_id(buf.key) && buf.place().is_some());
            let users = Arc::strong_count(buf) - OWN_REFERENCES;
            assert!(block.tier == Tier::Header || users == 0, "a block in use lost its header");
            space.charge(block);
            if let BufKey::File(ino, _) = buf.key {
                of_files += 1;
                if block.kind == BufKind::Directory {
                    directories.insert(ino);
                }
            }
            clean += usize::from(!dirty);
            all += 1;
        }
        assert_eq!(self.space, space);
        assert_eq!(self.files.directories(), directories.len());
        assert_eq!(self.queues.recount(&self.blocks), clean);
        assert_eq!(self.index.len(), all);
        assert_eq!(self.files.recount(&self.blocks), of_files);
    }

    #[cfg(test)]
    pub(super) fn space(&self) -> SpaceUse {
        self.space
    }

    #[cfg(test)]
    pub(super) fn limits(&self) -> CacheLimits {
        self.limits
    }
}
