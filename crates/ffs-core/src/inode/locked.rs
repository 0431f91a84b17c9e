//! Locked inodes: the operations on one file are methods of them.
//!
//! [`LockedInode`] owns the exclusive lock of an inode; [`InodeView`] borrows either kind of lock.
//! Operations that only read are methods of the view, operations that change the file are methods
//! of the locked inode. Both have a reference to the mounted volume.

use super::{Inode, InodeData};
use crate::sync::RwLockWriteGuard;
use crate::ufsmount::UfsMount;
use ffs_ondisk::Geometry;
use std::ops::{Deref, DerefMut};

/// An inode that the caller has locked, shared or exclusively.
#[derive(Clone, Copy)]
pub(crate) struct InodeView<'a> {
    /// The volume it is on.
    pub(crate) ump: &'a UfsMount,
    pub(crate) ip: &'a Inode,
    /// The data that the lock guards.
    pub(crate) data: &'a InodeData,
}

impl<'a> InodeView<'a> {
    pub(crate) fn new(ump: &'a UfsMount, ip: &'a Inode, data: &'a InodeData) -> InodeView<'a> {
        InodeView { ump, ip, data }
    }

    /// The constants of the volume.
    pub(crate) fn g(self) -> &'a Geometry {
        self.ump.g()
    }
}

impl Deref for InodeView<'_> {
    type Target = InodeData;

    fn deref(&self) -> &InodeData {
        self.data
    }
}

/// An inode locked exclusively, until it is dropped.
pub(crate) struct LockedInode<'a> {
    /// The volume it is on.
    pub(crate) ump: &'a UfsMount,
    pub(crate) ip: &'a Inode,
    /// The data that the lock guards.
    pub(crate) data: RwLockWriteGuard<'a, InodeData>,
}

impl<'a> LockedInode<'a> {
    /// The inode, for operations that only read.
    pub(crate) fn view(&self) -> InodeView<'_> {
        InodeView { ump: self.ump, ip: self.ip, data: &self.data }
    }

    /// The constants of the volume.
    pub(crate) fn g(&self) -> &'a Geometry {
        self.ump.g()
    }
}

impl Deref for LockedInode<'_> {
    type Target = InodeData;

    fn deref(&self) -> &InodeData {
        &self.data
    }
}

impl DerefMut for LockedInode<'_> {
    fn deref_mut(&mut self) -> &mut InodeData {
        &mut self.data
    }
}

impl Inode {
    /// Locks the inode exclusively. `ump` is the volume it is on.
    pub(crate) fn lock<'a>(&'a self, ump: &'a UfsMount) -> LockedInode<'a> {
        LockedInode { ump, ip: self, data: self.write() }
    }

    /// Locks the inode exclusively, unless another thread has it locked.
    pub(crate) fn try_lock<'a>(&'a self, ump: &'a UfsMount) -> Option<LockedInode<'a>> {
        Some(LockedInode { ump, ip: self, data: self.try_write()? })
    }
}
