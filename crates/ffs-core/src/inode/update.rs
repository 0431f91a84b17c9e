//! Inodes into their blocks.

use super::{Inode, InodeData, InodeTable};
use crate::error::Result;
use crate::ordering::{Event, InodeChange};

impl InodeTable {
    /// Encodes the inode into its block's buffer; the ordering policy says whether the buffer must
    /// reach the device before this returns.
    ///
    /// # Errors
    /// The device's. In memory the inode stays as it is.
    pub(crate) fn update(&self, ip: &Inode, data: &mut InodeData, why: InodeChange) -> Result<()> {
        let block = self.ump.inode_block(ip.ino)?;
        let at = data.atime();
        data.set_atime(at);
        if why != InodeChange::Attr {
            ip.unsynced.set();
        }
        let answer = {
            let mut b = block.write();
            let answer =
                self.ump.ordering.notify(Event::InodeUpdated { ino: ip.ino, why, dinode: &data.d });
            if let Some(place) = b.bytes.get_mut(self.g().ino_to_fsbo(ip.ino)..) {
                let links = data.d.nlink;
                data.d.nlink = links.saturating_add(answer.nlink_delta);
                data.d.encode(self.g(), place);
                data.d.nlink = links;
            }
            answer
        };
        data.retimed = false;
        self.ump.cache.apply(&block, answer.disposition)
    }
}
