//! Files in use, and finding a file by its number.

use crate::error::{Error, Result};
use crate::inode::Inode;
use crate::mount::{Ffs, Mount};
use ffs_ondisk::Ino;
use std::sync::Arc;

/// A file in use: its inode stays in memory, and its content stays on the volume even after its
/// last name is removed.
pub struct Vnode {
    mp: Arc<Mount>,
    pub(super) ip: Arc<Inode>,
}

impl Vnode {
    pub(super) fn new(mp: &Arc<Mount>, ip: Arc<Inode>) -> Vnode {
        mp.table.hold(&ip);
        Vnode { mp: Arc::clone(mp), ip }
    }

    /// The inode number.
    #[must_use]
    pub fn ino(&self) -> Ino {
        self.ip.ino
    }

    /// Whether the file belongs to this mount.
    pub(super) fn is_of(&self, mp: &Arc<Mount>) -> bool {
        Arc::ptr_eq(&self.mp, mp)
    }
}

impl Clone for Vnode {
    fn clone(&self) -> Vnode {
        self.mp.table.hold(&self.ip);
        Vnode { mp: Arc::clone(&self.mp), ip: Arc::clone(&self.ip) }
    }
}

impl Drop for Vnode {
    fn drop(&mut self) {
        if self.mp.table.unuse(&self.ip) {
            // Freeing a removed file changes the volume, unless the mount has become read-only. If
            // it fails, an inode without names remains, which `fsck` frees.
            let mount_lock = self.mp.begin_write();
            drop(self.mp.table.inactive(&self.ip));
            drop(mount_lock);
        }
    }
}

impl std::fmt::Debug for Vnode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Vnode").field(&self.ip.ino).finish()
    }
}

/// A file that an operation uses while it holds the mount lock. The drop requires that no inode is
/// locked: declare it before the lock guards.
pub(super) struct Held<'a> {
    mp: &'a Mount,
    pub(super) ip: Arc<Inode>,
    /// Whether dropping this value ends the use.
    ours: bool,
}

impl<'a> Held<'a> {
    pub(super) fn new(mp: &'a Mount, ip: Arc<Inode>) -> Held<'a> {
        mp.table.hold(&ip);
        Held { mp, ip, ours: true }
    }

    /// Transfers the use to the caller of the operation.
    pub(super) fn into_vnode(mut self, mp: &Arc<Mount>) -> Vnode {
        self.ours = false;
        Vnode { mp: Arc::clone(mp), ip: Arc::clone(&self.ip) }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.ours {
            // A failure leaves an inode without names, which `fsck` frees.
            drop(self.mp.table.release(&self.ip));
        }
    }
}

impl Ffs {
    /// The root directory.
    ///
    /// # Errors
    /// The device's.
    pub fn root(&self) -> Result<Vnode> {
        self.vget(Ino::ROOT, None)
    }

    /// The file with number `ino`; with `generation`, only if the inode still has that generation.
    ///
    /// # Errors
    /// [`Error::Stale`] if it has another generation, or no file has the number; the device's.
    pub fn vget(&self, ino: Ino, generation: Option<u32>) -> Result<Vnode> {
        if ino < Ino::ROOT || ino.0 >= self.geometry().inodes() {
            return Err(Error::Stale);
        }
        let file = Held::new(&self.0, self.0.table.get(ino)?);
        let found = {
            let data = file.ip.read();
            // The file was removed and has no other user: it is not freed yet.
            let removed = data.d.nlink == 0 && self.0.table.removal_pending(ino);
            (data.alive() && !(removed && file.ip.is_used_once()), data.d.generation)
        };
        if !found.0 || generation.is_some_and(|g| g != found.1) {
            return Err(Error::Stale);
        }
        Ok(file.into_vnode(&self.0))
    }
}
