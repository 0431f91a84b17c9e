//! A flag for `fsync`: whether an inode has changes that are not durable.

use std::sync::atomic::{AtomicU32, Ordering};

/// Whether size or pointers may have changed since an fsync last wrote the inode's block. The flag
/// starts set, because an inode read from its block may have changes that are not durable.
///
/// The low bit is the flag. The other bits count the changes, so that an fsync clears the flag only
/// if no change came after the changes that it wrote.
#[derive(Debug)]
pub(crate) struct Unsynced(AtomicU32);

impl Unsynced {
    pub(crate) fn new() -> Unsynced {
        Unsynced(AtomicU32::new(1))
    }

    /// Notes a change. Called with the inode locked for changes.
    pub(crate) fn set(&self) {
        let changes = self.0.load(Ordering::Relaxed) >> 1;
        self.0.store(changes.wrapping_add(1) << 1 | 1, Ordering::Relaxed);
    }

    /// The state to pass to [`Unsynced::clear`].
    pub(crate) fn seen(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// All changes up to `seen` are durable.
    pub(crate) fn clear(&self, seen: u32) {
        let to = seen & !1;
        // The exchange fails if there were later changes: the flag stays set.
        let _ = self.0.compare_exchange(seen, to, Ordering::Relaxed, Ordering::Relaxed);
    }
}
