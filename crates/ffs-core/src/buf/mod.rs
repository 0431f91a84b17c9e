//! The buffer cache: blocks in memory, and the one path by which they reach the device.
//!
//! A block is in one of two tiers ([`state`]): with a buffer header, or only in pages of the page
//! cache. `vmiodirenable` decides whether directory blocks may be in the second tier.
//!
//! | module | contents |
//! | --- | --- |
//! | [`cache`] | [`BufCache`]: finding, filling, changing and dropping buffers |
//! | [`writeback`] | writing buffers, flushing the device |
//! | [`in_place`], [`put_content`] | writing file data from a source, past the buffers |
//! | [`hooks`] | [`WriteHooks`], [`CopyOnWrite`]: ordering modes and snapshots in the write path |
//! | [`state`] | which blocks are in memory; eviction |
//! | [`flags`] | what a thread may ask of a buffer without the cache's lock |
//! | [`block`], [`links`] | the table of blocks |
//! | [`queues`], [`file_lists`], [`dirty`] | the lists over it |
//! | [`space`], [`limits`], [`dirty_count`], [`stats`] | memory: in use, allowed, reported |
//! | [`spare`] | memory of dropped blocks, kept for new ones |
//!
//! # Terms
//! * The **write image** of a block is the copy of its buffer that goes to the device. Changes that
//!   must not be on disk yet are *rolled back* in it.
//! * A **writeback pass** writes the dirty buffers that may be written, then flushes the device
//!   once. [`BufCache::write_bufs`] and [`BufCache::flush_device`] are its two steps; the syncer
//!   decides which buffers a pass writes.
//!
//! # Invariants
//! 1. A buffer has the newest state of its block. A write image is made under the buffer's lock,
//!    passed to the ordering mode ([`WriteHooks`]), and then given its check hash. File data is
//!    written from the buffer itself: nothing is rolled back in it. The exception is a buffer of
//!    [`BufCache::write_in_place`], whose content the device has alone until it is dropped.
//! 2. A dirty buffer is never evicted. A failed write leaves it dirty, and the caller that waits
//!    for the write (`sync`, `fsync`) gets the error. A dirty buffer is dropped only with its
//!    block; it is not written after that, not even by a flush that had listed it before.
//! 3. At most one write of a buffer is in flight, so an older write image cannot overtake a newer
//!    one.
//! 4. A buffer is clean exactly if its last write image has all changes (`version`).
//! 5. The order of writes is a function of the calls alone: no hash is randomised.
//!
//! # Locking
//! The cache's own lock is held for moments and never across I/O. Lookups of blocks with a header
//! share it, and marking a dirty buffer dirty takes no lock. A buffer's `data` lock is held across
//! the read that fills it; its `io` lock across a write of it. A thread that holds the lock of one
//! buffer must not write others ([`BufCache::write_bufs`]).
//!
//! Reference: `spec/soft-updates.md` §2, §11, §12; `spec/directories-and-caches.md` §7.

mod block;
mod cache;
mod dirty;
mod dirty_count;
mod file_lists;
mod flags;
mod hooks;
mod in_place;
mod limits;
mod links;
mod put_content;
mod queues;
mod space;
mod spare;
mod state;
mod stats;
#[cfg(test)]
mod tests;
mod writeback;
mod written;

pub(crate) use cache::{BufCache, CacheParts};
pub(crate) use dirty::Delays;
pub(crate) use hooks::{CopyOnWrite, Disposition, WriteHooks, WriteResult, WriteStart};
pub(crate) use in_place::NotPut;
pub(crate) use limits::CacheLimits;
pub(crate) use spare::NewContent;
pub use stats::{CacheStats, ClassStats};
pub(crate) use written::Written;

use crate::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use ffs_ondisk::{FragNo, Ino};
use std::sync::Arc;

/// The target of this module's events in the log.
const LOG: &str = "ffs::buf";

/// The name of a block in the cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum BufKey {
    /// A block with a fixed address: inode block, cylinder group, summary area.
    Meta(FragNo),
    /// A block of a file, whose address may change, by logical block number: data at 0 and up,
    /// extended attributes at -1 and -2, indirect blocks at -12 and down.
    File(Ino, i64),
}

impl BufKey {
    /// The number of the block in its file; `None` for a block with a fixed address.
    pub(crate) fn block(self) -> Option<i64> {
        match self {
            BufKey::Meta(_) => None,
            BufKey::File(_, block) => Some(block),
        }
    }
}

/// As `meta 1234` (the fragment), or `inode 7 block 3`.
impl std::fmt::Display for BufKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BufKey::Meta(addr) => write!(f, "meta {}", addr.0),
            BufKey::File(ino, lbn) => write!(f, "inode {} block {lbn}", ino.0),
        }
    }
}

/// The content of a block. It determines how a write image is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BufKind {
    /// Cylinder group: a write image gets a new time and check hash.
    CylinderGroup,
    /// Inodes: their check hashes are updated when they change.
    Inodes,
    /// Directory entries.
    Directory,
    /// Indirect block.
    Indirect,
    /// File content or extended attributes: written from the buffer itself.
    Data,
}

impl BufKind {
    /// Every kind, in the order of its numbers.
    const ALL: [BufKind; 5] = [
        BufKind::CylinderGroup,
        BufKind::Inodes,
        BufKind::Directory,
        BufKind::Indirect,
        BufKind::Data,
    ];
}

/// A block, and where it is on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DiskBlock {
    pub(crate) key: BufKey,
    pub(crate) kind: BufKind,
    /// Its first fragment.
    pub(crate) addr: FragNo,
    /// Its length, bytes.
    pub(crate) len: usize,
}

/// A buffer: a block in memory. Shared by reference; its content is behind its lock.
///
/// A lookup and an eviction read the first fields, which share a cache line with the counts of
/// references.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Buf {
    pub(crate) key: BufKey,
    flags: flags::Flags,
    pub(crate) kind: BufKind,
    /// Held across a write of this buffer.
    io: Mutex<()>,
    data: RwLock<BufData>,
}

/// A counted reference; a buffer that is referenced is not evicted.
pub(crate) type BufRef = Arc<Buf>;

/// The content of a buffer.
#[derive(Debug)]
pub(crate) struct BufData {
    /// The current address of the block.
    pub(crate) addr: FragNo,
    /// The block; its length is the block's length on disk.
    pub(crate) bytes: Vec<u8>,
    /// Whether `bytes` were read or made, and the block was not dropped since.
    valid: bool,
    /// Grows with every modification.
    version: u64,
}

impl BufData {
    /// Whether it is the content of the `len` bytes at `addr`.
    fn is_of(&self, addr: FragNo, len: usize) -> bool {
        self.valid && self.addr == addr && self.bytes.len() == len
    }
}

impl Buf {
    /// A buffer for `block` with `bytes`, which are not valid yet.
    fn new(block: DiskBlock, bytes: Vec<u8>) -> Buf {
        let data = BufData { addr: block.addr, bytes, valid: false, version: 0 };
        let DiskBlock { key, kind, .. } = block;
        Buf { key, kind, data: RwLock::new(data), io: Mutex::new(()), flags: flags::Flags::new() }
    }

    /// The content, shared.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, BufData> {
        self.data.read()
    }

    /// Waits for a write in flight and prevents all later ones: the block is about to be freed.
    fn invalidate(&self) {
        let _io = self.io.lock();
        self.data.write().valid = false;
    }

    /// The content, to be changed. The caller drops the guard, then calls
    /// [`BufCache::mark_dirty`].
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, BufData> {
        let mut g = self.data.write();
        g.version += 1;
        g
    }

    /// The content, locked for a change that other threads must not see as one.
    pub(crate) fn write_unchanged(&self) -> RwLockWriteGuard<'_, BufData> {
        self.data.write()
    }

    /// The memory of the block, for another use.
    fn into_bytes(self) -> Vec<u8> {
        self.data.into_inner().bytes
    }
}
