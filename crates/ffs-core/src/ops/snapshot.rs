//! Making snapshots (FreeBSD: `mount -u -o snapshot`).
//!
//! Reference: `spec/snapshots.md` §4, §10.

use super::Vnode;
use crate::cred::Cred;
use crate::error::{Error, Result};
use crate::inode::LockedInode;
use crate::mount::{Ffs, Mount, SnapshotStats};
use crate::types::NodeKind;
use ffs_ondisk::geometry::DEV_BSIZE;
use ffs_ondisk::snapshot::image_bytes;
use ffs_ondisk::superblock::SBLOCKSIZE;
use ffs_ondisk::{FileFlags, Ino, Superblock};

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
        self.fsync(file)?;
        self.retry_after_reclaim(|| self.0.make_snapshot(&file.ip))
    }

    /// The properties of the active snapshots of a read-write mount, oldest first. One that is
    /// removed meanwhile is left out.
    #[must_use]
    pub fn snapshot_list(&self) -> Vec<SnapshotInfo> {
        let (at, image) = (self.superblock_location(), image_bytes(self.geometry()));
        let info = |ino| {
            let file = self.vget(ino, None).ok()?;
            let mut bytes = vec![0; SBLOCKSIZE];
            let read = self.read(&file, at, &mut bytes);
            let made = match read.map(|_| Superblock::decode(&bytes, at)) {
                Ok(Ok(sb)) => sb.f.time,
                _ => 0,
            };
            let held = self.getattr(&file).blocks.saturating_mul(DEV_BSIZE);
            Some(SnapshotInfo { ino, made, held, image })
        };
        self.snapshots().into_iter().filter_map(info).collect()
    }

    /// The active snapshots of a read-write mount, oldest first.
    #[must_use]
    pub fn snapshots(&self) -> Vec<Ino> {
        self.0.ump.snapshots.listed()
    }
}

/// The properties of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// Inode number.
    pub ino: Ino,
    /// When it was made: the last write of the superblock in it, seconds; 0 if it cannot be read.
    pub made: i64,
    /// Bytes that only the snapshot holds, with its indirect blocks and its block list.
    pub held: u64,
    /// Bytes of the volume that it shows.
    pub image: u64,
}

/// Only root may make snapshots: a snapshot shows all files.
fn may_make(cred: &Cred) -> Result<()> {
    if cred.is_root { Ok(()) } else { Err(Error::NotPermitted) }
}

impl Mount {
    /// Removes a name of `file` by `remove`. A snapshot that loses its last name leaves the list
    /// before.
    pub(super) fn without_listing<T>(
        &self,
        (ino, is_last): (Ino, bool),
        used: bool,
        remove: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        if !is_last {
            return remove();
        }
        self.delist_snapshot(ino, used)?;
        remove().inspect_err(|_| self.relist_snapshot(ino))
    }
}

/// Whether the removal of a name of `file` is that of the last name of a snapshot.
pub(super) fn is_last_of_snapshot(file: &LockedInode<'_>) -> bool {
    file.d.flags.contains(FileFlags::SF_SNAPSHOT) && file.d.nlink <= 1
}
