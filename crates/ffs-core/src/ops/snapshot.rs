//! Making snapshots (FreeBSD: `mount -u -o snapshot`).
//!
//! Reference: `spec/snapshots.md` §4, §10.

use super::Vnode;
use crate::cred::Cred;
use crate::error::{Error, Result};
use crate::inode::LockedInode;
use crate::mount::{Ffs, Mount, SnapshotStats};
use crate::types::NodeKind;
use ffs_ondisk::{FileFlags, FileType, Ino};

/// The permissions of a new snapshot.
const MODE: u16 = 0o400;

impl Ffs {
    /// Makes a snapshot of the volume as the file `name` in `dir`. Operations of other threads wait
    /// for a short part of the call.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] unless `cred` is root; [`Error::Exists`];
    /// [`Error::TooManySnapshots`]; [`Error::NoSpace`]; [`Error::TooBig`] if the format cannot hold
    /// a file as long as the volume; as [`Ffs::create`]. The volume has no new file then.
    pub fn snapshot(
        &self,
        cred: &Cred,
        dir: &Vnode,
        name: &[u8],
    ) -> Result<(Vnode, SnapshotStats)> {
        may_make(cred)?;
        let file = self.create(cred, dir, name, NodeKind::Regular, MODE)?;
        match self.snapshot_into(cred, &file) {
            Ok(stats) => Ok((file, stats)),
            Err(e) => {
                // The error of the snapshot is the one that matters. An empty file may remain.
                drop(self.unlink(cred, dir, name));
                Err(e)
            }
        }
    }

    /// Makes a snapshot of the volume in `file`, an empty file with one name.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the file is not empty, or has no name; otherwise as
    /// [`Ffs::snapshot`]. The file stays empty then.
    pub fn snapshot_into(&self, cred: &Cred, file: &Vnode) -> Result<SnapshotStats> {
        may_make(cred)?;
        self.same_mount(file)?;
        let attr = self.getattr(file);
        if attr.kind != FileType::Regular || attr.blocks != 0 || attr.nlink != 1 {
            return Err(Error::Invalid("a snapshot is made in an empty file with one name"));
        }
        self.fsync(file)?;
        self.0.make_snapshot(&file.ip)
    }

    /// The active snapshots of a read-write mount, oldest first.
    #[must_use]
    pub fn snapshots(&self) -> Vec<Ino> {
        self.0.ump.snapshots.listed()
    }
}

/// Only root may make snapshots: a snapshot shows all files.
fn may_make(cred: &Cred) -> Result<()> {
    if cred.is_root() { Ok(()) } else { Err(Error::NotPermitted) }
}

impl Mount {
    /// `file` is about to lose a name: a snapshot that loses the last one leaves the list.
    pub(super) fn before_unlink(&self, file: &LockedInode<'_>) -> Result<()> {
        if file.d.flags.contains(FileFlags::SF_SNAPSHOT) && file.d.nlink <= 1 {
            self.delist_snapshot(file.ip.ino, !file.ip.is_used_once())?;
        }
        Ok(())
    }
}
