//! Writing inodes into the buffers of their blocks (`ffs_update`).

use super::LockedInode;
use crate::buf::BufRef;
use crate::error::Result;
use crate::ordering::{Event, InodeChange};
use ffs_ondisk::Dinode;

impl<'a> LockedInode<'a> {
    /// Encodes the inode into `block`, its block's buffer, without a dependency, and marks the
    /// buffer dirty.
    pub(crate) fn store_unordered(&mut self, block: &BufRef) {
        let at = self.g().ino_to_fsbo(self.ip.ino);
        if let Some(place) = block.write().bytes.get_mut(at..) {
            self.data.d.encode(self.g(), place);
        }
        self.ump.cache.mark_dirty(block);
    }

    /// The size in the buffer of the inode's block. While a call allocates blocks, the inode in
    /// memory has a larger size, and no write shows that before the call stores it. If the block
    /// cannot be read, the size in memory.
    pub(super) fn stored_size(&self) -> u64 {
        let Ok(block) = self.ump.inode_block(self.ip.ino) else { return self.data.d.size };
        let stored = block.read();
        let at = self.g().ino_to_fsbo(self.ip.ino);
        let dinode = stored.bytes.get(at..).map(|place| Dinode::decode(self.g(), place));
        dinode.map_or(self.data.d.size, |stored| stored.size)
    }

    /// Encodes the inode into its block's buffer. The ordering mode decides whether the buffer is
    /// written before the call returns.
    ///
    /// # Errors
    /// The device's. The inode in memory does not change.
    pub(crate) fn update(&mut self, why: InodeChange) -> Result<()> {
        let block = self.ump.inode_block(self.ip.ino)?;
        let at = self.data.atime();
        self.data.set_atime(at);
        if why != InodeChange::Attr {
            self.ip.unsynced.set();
        }
        let answer = {
            let mut b = block.write();
            let answer = self.ump.ordering.notify(Event::InodeUpdated {
                ino: self.ip.ino,
                why,
                dinode: &self.data.d,
            });
            if let Some(place) = b.bytes.get_mut(self.g().ino_to_fsbo(self.ip.ino)..) {
                let links = self.data.d.nlink;
                self.data.d.nlink = links.saturating_add(answer.nlink_delta);
                self.data.d.encode(self.g(), place);
                self.data.d.nlink = links;
            }
            answer
        };
        self.data.retimed = false;
        self.ump.cache.apply(&block, answer.disposition)
    }
}
