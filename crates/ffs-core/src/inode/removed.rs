//! Removed files that wait for the device: they have no names and no users, but the device may
//! still show one of their names.

use super::InodeTable;
use ffs_ondisk::Ino;
use foldhash::fast::FixedState;
use std::collections::HashMap;

/// Removed files whose space the ordering mode does not have yet.
#[derive(Debug, Default)]
pub(super) struct RemovedFiles {
    /// Fragments, by file.
    files: HashMap<Ino, u64, FixedState>,
    frags: u64,
}

impl RemovedFiles {
    pub(super) fn enter(&mut self, ino: Ino, frags: u64) {
        self.leave(ino);
        self.files.insert(ino, frags);
        self.frags += frags;
    }

    pub(super) fn leave(&mut self, ino: Ino) {
        self.frags -= self.files.remove(&ino).unwrap_or(0);
    }
}

impl InodeTable {
    /// Fragments and inodes that will be free.
    pub(crate) fn will_be_free(&self) -> (u64, u64) {
        let pending = self.ump.ordering.pending();
        let removed = self.removed.lock();
        (pending.frags + removed.frags, pending.inodes + removed.files.len() as u64)
    }
}
