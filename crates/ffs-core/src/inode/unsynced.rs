//! Whether an fsync has something to do for an inode.

use std::sync::atomic::{AtomicU32, Ordering};

/// Whether size or pointers may have changed since an fsync last wrote the inode's block: so it is of
/// an inode that just entered memory. The low bit says whether, the others count the changes, so that
/// an fsync takes back only what it has seen.
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

    /// What [`Unsynced::clear`] takes back.
    pub(crate) fn seen(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// All changes up to `seen` are durable.
    pub(crate) fn clear(&self, seen: u32) {
        let to = seen & !1;
        // If it fails, there are others.
        let _ = self.0.compare_exchange(seen, to, Ordering::Relaxed, Ordering::Relaxed);
    }
}
