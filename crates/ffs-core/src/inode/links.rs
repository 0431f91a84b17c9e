//! Link counts.

use super::LockedInode;
use crate::error::Result;
use crate::ordering::InodeChange;

impl LockedInode<'_> {
    /// Adds a link, for a name or a `..` that the caller is about to write. If the inode cannot be
    /// updated, the link is taken back.
    pub(crate) fn add_link(&mut self) -> Result<()> {
        self.data.d.nlink = self.data.d.nlink.saturating_add(1);
        self.touch_changed();
        self.update(InodeChange::NlinkInc).inspect_err(|_| self.take_link_back())
    }

    /// Drops a link, whose name or `..` was removed.
    pub(crate) fn drop_link(&mut self) -> Result<()> {
        self.data.d.nlink = self.data.d.nlink.saturating_sub(1);
        self.touch_changed();
        self.update(InodeChange::NlinkDec)
    }

    /// Undoes [`LockedInode::add_link`] of an operation that failed. The caller reports the first
    /// error, so an error here is dropped.
    pub(crate) fn take_link_back(&mut self) {
        drop(self.drop_link());
    }
}
