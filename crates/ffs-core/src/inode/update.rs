//! Inodes into their blocks.

use super::{Inode, InodeData, InodeTable};
use crate::error::Result;
use crate::ordering::InodeChange;
use std::sync::atomic::Ordering;

impl InodeTable {
    /// Encodes the inode into its block's buffer; the ordering policy says whether the buffer must
    /// reach the device before this returns.
    ///
    /// # Errors
    /// The device's. In memory the inode stays as it is.
    pub(crate) fn update(&self, ip: &Inode, data: &mut InodeData, why: InodeChange) -> Result<()> {
        let block = self.inode_block(ip.ino)?;
        let at = data.atime();
        data.set_atime(at);
        if why != InodeChange::Attr {
            ip.unsynced.store(true, Ordering::Relaxed);
        }
        let then = self.alloc.ordering.inode_changed(ip.ino, why);
        {
            let mut b = block.write();
            if let Some(place) = b.bytes.get_mut(self.g().ino_to_fsbo(ip.ino)..) {
                data.d.encode(self.g(), place);
            }
        }
        data.retimed = false;
        self.cache().apply(&block, then)
    }
}
