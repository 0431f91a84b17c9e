//! Removed files that wait for the device: they have no names and no users, but the device may
//! still show one of their names.

use ffs_ondisk::Ino;
use foldhash::fast::FixedState;
use std::collections::HashMap;

/// Removed files whose inodes and blocks the ordering mode does not have yet.
#[derive(Debug, Default)]
pub(super) struct RemovedFiles {
    /// Fragments, by file.
    files: HashMap<Ino, u64, FixedState>,
    /// Fragments of all files.
    frags: u64,
}

impl RemovedFiles {
    pub(super) fn insert(&mut self, ino: Ino, frags: u64) {
        self.remove(ino);
        self.files.insert(ino, frags);
        self.frags += frags;
    }

    pub(super) fn remove(&mut self, ino: Ino) {
        self.frags -= self.files.remove(&ino).unwrap_or(0);
    }

    /// Fragments of all files.
    pub(super) fn frags(&self) -> u64 {
        self.frags
    }

    /// Number of files.
    pub(super) fn inodes(&self) -> u64 {
        self.files.len() as u64
    }
}
