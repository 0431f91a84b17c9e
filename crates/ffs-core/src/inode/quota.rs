//! Charging the owner of a file: each change of `di_blocks`, of the owner, and the inode itself
//! (`chkdq`, `chkiq`).
//!
//! # Invariants
//! 1. Only the functions of this module change `di_blocks` of a file in memory, so the usage of its
//!    owner changes with it.
//! 2. A file that `InodeView::quota_ids` excludes is charged to no id. The answer changes for a
//!    file only while quotas are turned on or off, when all usage is counted anew, and when a file
//!    becomes a snapshot.
//!
//! Reference: `spec/on-disk-format.md` §15.2.

use super::{InodeView, LockedInode};
use crate::alloc::Reserve;
use crate::error::Result;
use crate::quota::{Amount, Ids, Limits};
use crate::ufsmount::UfsMount;
use ffs_ondisk::Dinode;
use ffs_ondisk::quota::counted_ids;

/// A charge that is released when it is dropped: it keeps a part of a quota for a change to come.
pub(crate) struct QuotaHold<'a> {
    ump: &'a UfsMount,
    ids: Ids,
    amount: Amount,
}

impl Drop for QuotaHold<'_> {
    fn drop(&mut self) {
        self.ump.quotas.release(self.ids, self.amount);
    }
}

/// Whether limits apply: root, who may use the reserve, may also exceed quotas.
pub(super) fn limits_of(reserve: Reserve) -> Limits {
    match reserve {
        Reserve::Allowed => Limits::Ignored,
        Reserve::Denied => Limits::Enforced,
    }
}

impl UfsMount {
    /// Charges for `more`, if quotas are on.
    ///
    /// # Errors
    /// [`crate::Error::Quota`]: nothing was charged.
    pub(super) fn charge_quota(&self, ids: Ids, more: Amount, limits: Limits) -> Result<()> {
        match self.quotas.is_on() {
            true => self.quotas.charge(ids, more, limits, self.now().secs),
            false => Ok(()),
        }
    }
}

impl InodeView<'_> {
    /// The ids that this file is charged to: none for snapshots and quota files.
    fn quota_ids(self) -> Ids {
        self.quota_ids_of(self.data.d.uid, self.data.d.gid)
    }

    /// The ids that this file would be charged to if it had this owner and group.
    fn quota_ids_of(self, uid: u32, gid: u32) -> Ids {
        match self.data.is_snapshot() || self.ump.quotas.is_quota_file(self.ip.ino) {
            true => [None; 2],
            false => counted_ids(uid, gid),
        }
    }
}

impl<'a> LockedInode<'a> {
    /// Adds `frags` fragments, which the caller is about to allocate, to `di_blocks`.
    ///
    /// # Errors
    /// [`crate::Error::Quota`]: nothing changed.
    pub(super) fn charge(&mut self, frags: u32, reserve: Reserve) -> Result<()> {
        let sectors = Dinode::sectors(self.g(), frags);
        if self.ump.quotas.is_on() {
            let ids = self.view().quota_ids();
            self.ump.charge_quota(ids, Amount::blocks(sectors), limits_of(reserve))?;
        }
        self.data.d.blocks = self.data.d.blocks.saturating_add(sectors);
        Ok(())
    }

    /// Subtracts `frags` fragments from `di_blocks`.
    pub(super) fn uncharge(&mut self, frags: u32) {
        let sectors = Dinode::sectors(self.g(), frags);
        self.set_blocks(self.data.d.blocks.saturating_sub(sectors));
    }

    /// Sets `di_blocks`, without regard to the limits.
    pub(super) fn set_blocks(&mut self, blocks: u64) {
        let before = std::mem::replace(&mut self.data.d.blocks, blocks);
        if !self.ump.quotas.is_on() || before == blocks {
            return;
        }
        let ids = self.view().quota_ids();
        self.ump.quotas.release(ids, Amount::blocks(before.saturating_sub(blocks)));
        let more = Amount::blocks(blocks.saturating_sub(before));
        // With `Limits::Ignored` nothing is refused.
        drop(self.ump.charge_quota(ids, more, Limits::Ignored));
    }

    /// Sets `di_blocks` to the number that the blocks of the file were counted to be.
    pub(crate) fn correct_blocks(&mut self, blocks: u64) {
        self.set_blocks(blocks);
    }

    /// Releases what a file used that is about to be freed.
    pub(super) fn release_quota(&mut self) {
        self.set_blocks(0);
        if self.ump.quotas.is_on() {
            self.ump.quotas.release(self.view().quota_ids(), Amount::inode());
        }
    }

    /// Keeps `frags` fragments of the owner's quotas until the result is dropped.
    ///
    /// # Errors
    /// [`crate::Error::Quota`].
    pub(super) fn hold_quota(&self, frags: u32, reserve: Reserve) -> Result<Option<QuotaHold<'a>>> {
        let amount = Amount::blocks(Dinode::sectors(self.g(), frags));
        self.hold(|| self.view().quota_ids(), amount, reserve)
    }

    /// Keeps so much of the quotas of a new owner and a new group that the file can be given to
    /// them. The caller drops the result before it calls [`LockedInode::set_owner`].
    ///
    /// # Errors
    /// [`crate::Error::Quota`].
    pub(crate) fn hold_quota_of(
        &self,
        (uid, gid): (u32, u32),
        reserve: Reserve,
    ) -> Result<Option<QuotaHold<'a>>> {
        let amount = Amount { blocks: self.data.d.blocks, inodes: 1 };
        let new = || without(self.view().quota_ids_of(uid, gid), self.view().quota_ids());
        self.hold(new, amount, reserve)
    }

    fn hold(
        &self,
        ids: impl FnOnce() -> Ids,
        amount: Amount,
        reserve: Reserve,
    ) -> Result<Option<QuotaHold<'a>>> {
        if !self.ump.quotas.is_on() {
            return Ok(None);
        }
        let ids = ids();
        self.ump.charge_quota(ids, amount, limits_of(reserve))?;
        Ok(Some(QuotaHold { ump: self.ump, ids, amount }))
    }

    /// Replaces the inode in memory. A snapshot is charged to no id, so the owner's usage changes
    /// when a file becomes one, or is one no more.
    pub(crate) fn replace_dinode(&mut self, d: Dinode) {
        let amount = |d: &Dinode| Amount { blocks: d.blocks, inodes: 1 };
        if !self.ump.quotas.is_on() {
            self.data.d = d;
            return;
        }
        self.ump.quotas.release(self.view().quota_ids(), amount(&self.data.d));
        self.data.d = d;
        // With `Limits::Ignored` nothing is refused.
        let ids = self.view().quota_ids();
        drop(self.ump.charge_quota(ids, amount(&self.data.d), Limits::Ignored));
    }

    /// Gives the file to another owner and group, without regard to the limits.
    pub(crate) fn set_owner(&mut self, uid: u32, gid: u32) {
        if self.ump.quotas.is_on() {
            let all = Amount { blocks: self.data.d.blocks, inodes: 1 };
            let old = self.view().quota_ids();
            let new = self.view().quota_ids_of(uid, gid);
            self.ump.quotas.release(without(old, new), all);
            // With `Limits::Ignored` nothing is refused.
            drop(self.ump.charge_quota(without(new, old), all, Limits::Ignored));
        }
        (self.data.d.uid, self.data.d.gid) = (uid, gid);
    }
}

/// The ids that differ from those of `others`. An id that stays the same is not charged again, so
/// that its grace period does not begin anew.
fn without(mut ids: Ids, others: Ids) -> Ids {
    for (id, other) in ids.iter_mut().zip(others) {
        if *id == other {
            *id = None;
        }
    }
    ids
}
