//! What a thread may ask of a buffer without the cache's lock.
//!
//! # Invariants
//! 1. `place`, `dirty` and `header` change only while a thread has the cache's lock alone. A buffer
//!    in use does not lose its header.
//! 2. A thread that has changed a buffer and finds `dirty` true need not mark it: a write makes it
//!    false only with the content locked and unchanged since the write image was made.

use super::Buf;
use crate::openhash::{ItemId, NIL};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The state of a block in the cache.
#[derive(Debug)]
pub(super) struct Flags {
    /// Its number in the table of blocks; [`NIL`] if it is in no table (any more).
    place: AtomicU32,
    dirty: AtomicBool,
    header: AtomicBool,
    /// A lookup found the block since the eviction scan last passed it.
    referenced: AtomicBool,
}

impl Flags {
    /// The flags of a clean block with a header that is in no table yet.
    pub(super) fn new() -> Flags {
        Flags {
            place: AtomicU32::new(NIL),
            dirty: AtomicBool::new(false),
            header: AtomicBool::new(true),
            referenced: AtomicBool::new(false),
        }
    }
}

impl Buf {
    /// The number of its block, unless the block was dropped: another block may have its key now.
    /// The caller has the cache's lock: numbers are used again.
    pub(super) fn place(&self) -> Option<ItemId> {
        Some(self.flags.place.load(Ordering::Relaxed)).filter(|id| *id != NIL)
    }

    pub(super) fn set_place(&self, id: ItemId) {
        self.flags.place.store(id, Ordering::Relaxed);
    }

    /// Whether it is in the cache and changed since it was written. If the caller holds its `io`
    /// lock, `false` means that its newest state is on the device.
    pub(crate) fn is_dirty(&self) -> bool {
        self.flags.dirty.load(Ordering::Acquire)
    }

    pub(super) fn set_dirty(&self, dirty: bool) {
        self.flags.dirty.store(dirty, Ordering::Release);
    }

    /// Whether it is in tier 1.
    pub(super) fn has_header(&self) -> bool {
        self.flags.header.load(Ordering::Relaxed)
    }

    pub(super) fn set_header(&self, header: bool) {
        self.flags.header.store(header, Ordering::Relaxed);
    }

    /// Records that a lookup found it.
    pub(super) fn mark_referenced(&self) {
        // A store takes the cache line from other processors.
        if !self.flags.referenced.load(Ordering::Relaxed) {
            self.flags.referenced.store(true, Ordering::Relaxed);
        }
    }

    /// Forgets that lookups found it. Returns whether one did.
    pub(super) fn take_referenced(&self) -> bool {
        self.flags.referenced.swap(false, Ordering::Relaxed)
    }
}
