//! What the new name of a file waits for besides its inode: its content, or the `..` of a directory.
//!
//! # Invariants
//! 1. What is reported to the ordering policy after a name was entered is reported while the name is held
//!    ([`NameHeld`]): another thread must not write the name before.

use crate::inode::{Inode, InodeData};
use crate::mount::Mount;
use crate::ordering::Event;
use ffs_ondisk::{FileType, Ino};

/// The new name of a file, which another thread must not write before all is reported that it waits for.
pub(super) struct NameHeld<'a> {
    mp: &'a Mount,
    ino: Ino,
}

impl<'a> NameHeld<'a> {
    pub(super) fn new(mp: &'a Mount, ip: &Inode) -> NameHeld<'a> {
        mp.syncer.hold_name(ip.ino);
        NameHeld { mp, ino: ip.ino }
    }
}

impl Drop for NameHeld<'_> {
    fn drop(&mut self) {
        self.mp.syncer.let_name_go(self.ino);
    }
}

impl Mount {
    /// Whether a name that is given to this file waits for its content (`replace_order`), if it has any.
    pub(super) fn awaits_content(&self, data: &InodeData) -> bool {
        let regular = data.d.file_type() == Some(FileType::Regular);
        self.replace_order && regular && data.d.blocks > 0
    }

    /// The name just entered for the file, and held, waits for the content that the file has now.
    pub(super) fn content_before_name(&self, ip: &Inode) {
        let dirty = self.ump.cache.dirty_content(ip.ino);
        let keys: Vec<_> = dirty.iter().map(|buf| buf.key).collect();
        self.ump.ordering.notify(Event::ContentBeforeName { ino: ip.ino, dirty: &keys });
        self.ump.cache.redirty(&dirty);
    }
}
