//! The buffer cache: blocks in memory, and the one path by which they reach the device.
//!
//! Blocks are in one of two tiers ([`tiers`]): with a buffer header, or in pages of the cache only. Whether
//! directory blocks take part in the second is a switch.
//!
//! # Invariants
//! 1. A buffer holds the newest state of its block; what is written is a copy ("image") made under
//!    the buffer's lock, sealed (check hash) and passed through the ordering policy's
//!    [`WriteHooks`]. File data may be borrowed instead of copied: nothing is undone in it.
//! 2. A dirty buffer is never evicted: a failed write leaves it dirty, and the error goes to whoever
//!    waits for it (`sync`, `fsync`). It is forgotten only with its block, and then
//!    never written, not even by a flush that had listed it before.
//! 3. At most one write of a buffer is in flight, so an older image cannot overtake a newer one.
//! 4. A buffer is clean exactly if no modification came after its last written image (versions).
//! 5. The order in which things are written is a function of the calls alone: no randomised hashing.
//!
//! # Locking
//! The cache's own lock is held for moments and never across I/O. A buffer's `data` lock is held
//! across the read that fills it; its `io` lock across a write of it. Whoever holds one buffer's
//! lock must not write others ([`BufCache::write_bufs`]).
//!
//! Reference: `spec/soft-updates.md` §2, §11, §12; `spec/directories-and-caches.md` §7.

mod cache;
mod epoch;
mod limits;
mod pool;
mod stats;
#[cfg(test)]
mod tests;
mod tiers;
mod writeback;

pub(crate) use cache::BufCache;
pub(crate) use epoch::{Delays, Written};
pub(crate) use limits::CacheLimits;
pub use stats::{CacheStats, ClassStats};

use crate::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use ffs_ondisk::{FragNo, Ino};
use std::sync::Arc;

/// What a buffer is the block of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum BufKey {
    /// A block with a fixed place: inode block, cylinder group, summary area.
    Meta(FragNo),
    /// A block of a file, which may move: data at its logical block number (0 and up), extended
    /// attributes at -1 and -2, indirect blocks at their in-core names (-12 and down).
    File(Ino, i64),
}

/// What has to be recomputed in an image before it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BufKind {
    /// Cylinder group: time and check hash.
    CylinderGroup,
    /// Inodes: their hashes are kept up when they change.
    Inodes,
    /// Directory content.
    Directory,
    /// Indirect block.
    Indirect,
    /// File content or extended attributes; written from where it is.
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

/// When a changed buffer must reach the device: what an ordering policy answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Disposition {
    /// Some time.
    Delay,
    /// Durable before the operation goes on.
    WriteAndWait,
}

/// What an ordering policy answers when a block is about to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Image {
    /// Everything that is in it may be on disk.
    Whole,
    /// Some changes were taken back in the copy: the buffer stays dirty.
    Undone,
    /// It must not be written now: the buffer stays dirty.
    Held,
}

/// The ordering policy's part of the write path. What has a default is of use only to a policy that
/// takes changes back.
pub(crate) trait WriteHooks: Send + Sync {
    /// An image of block `key` is about to be written; the buffer is locked against changes since
    /// before the copy was made. Takes back, in the copy, every change that must not be on disk yet.
    /// File data is not copied: then `copy` is `None`, and the answer is not
    /// [`Image::Undone`]. Unless held, [`WriteHooks::written`] follows.
    fn make_image(&self, _key: BufKey, _kind: BufKind, _copy: Option<&mut [u8]>) -> Image {
        Image::Whole
    }
    /// The write of the last image of `key` ended; `durable` tells whether a flush is not needed any
    /// more. Answers whether the buffer must be written again all the same.
    fn written(&self, _key: BufKey, _ok: bool, _durable: bool) -> bool {
        false
    }
    /// A device flush begins; the number is passed to [`WriteHooks::flushed`].
    fn flushing(&self) -> u64 {
        0
    }
    /// The flush succeeded: everything written before it began is durable.
    fn flushed(&self, _began: u64) {}
}

/// A block in memory. Shared by reference; content behind its lock.
#[derive(Debug)]
pub(crate) struct Buf {
    pub(crate) key: BufKey,
    pub(crate) kind: BufKind,
    data: RwLock<BufData>,
    /// Held across a write of this buffer.
    io: Mutex<()>,
}

/// A counted reference; a buffer that is referenced is not evicted.
pub(crate) type BufRef = Arc<Buf>;

/// Content of a buffer.
#[derive(Debug)]
pub(crate) struct BufData {
    /// Where the block lies now.
    pub(crate) addr: FragNo,
    /// The block; its length is the block's size on disk, bytes.
    pub(crate) bytes: Vec<u8>,
    /// Whether `bytes` were read or made, and not forgotten since.
    valid: bool,
    /// Grows with every modification.
    version: u64,
}

impl BufData {
    /// Whether it is what the `len` bytes at `addr` are to be.
    fn is_of(&self, addr: FragNo, len: usize) -> bool {
        self.valid && self.addr == addr && self.bytes.len() == len
    }
}

impl Buf {
    /// The content, shared.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, BufData> {
        self.data.read()
    }

    /// Waits for a write under way and prevents every later one: the block is somebody else's.
    fn kill(&self) {
        let _io = self.io.lock();
        self.data.write().valid = false;
    }

    /// The content, to be changed: call [`BufCache::dirty`] after dropping the guard.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, BufData> {
        let mut g = self.data.write();
        g.version += 1;
        g
    }
}
