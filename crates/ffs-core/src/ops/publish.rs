//! Dependencies of a new name besides the inode: the content of a file, the `..` of a directory.
//!
//! # Invariants
//! 1. Dependencies that are reported to the ordering mode after a name was entered are reported
//!    under a [`NameBarrier`]: no other thread can write the name before.

use crate::inode::{Inode, InodeData};
use crate::mount::Mount;
use crate::ordering::Event;
use ffs_ondisk::{FileType, Ino};

/// A barrier that keeps a new name of a file out of write images until all its dependencies are
/// reported.
pub(super) struct NameBarrier<'a> {
    mp: &'a Mount,
    ino: Ino,
}

impl<'a> NameBarrier<'a> {
    pub(super) fn new(mp: &'a Mount, ip: &Inode) -> NameBarrier<'a> {
        mp.syncer.begin_name_barrier(ip.ino);
        NameBarrier { mp, ino: ip.ino }
    }
}

impl Drop for NameBarrier<'_> {
    fn drop(&mut self) {
        self.mp.syncer.end_name_barrier(self.ino);
    }
}

impl Mount {
    /// Whether a new name of this file depends on its content (`replace_order`), if it has any.
    pub(super) fn awaits_content(&self, data: &InodeData) -> bool {
        let regular = data.d.file_type() == Some(FileType::Regular);
        self.replace_order && regular && data.d.blocks > 0
    }

    /// Makes the name just entered for the file, under a [`NameBarrier`], depend on the present
    /// content of the file.
    pub(super) fn content_before_name(&self, ip: &Inode) {
        let dirty = self.ump.cache.dirty_content(ip.ino);
        let keys: Vec<_> = dirty.iter().map(|buf| buf.key).collect();
        self.ump.ordering.notify(Event::ContentBeforeName { ino: ip.ino, dirty: &keys });
        self.ump.cache.redirty(&dirty);
    }
}
