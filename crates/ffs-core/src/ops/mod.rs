//! The operations of a mounted volume, for library callers, the command and the FUSE server.
//!
//! | module | contents |
//! | --- | --- |
//! | `vfsops` | mounting |
//! | `vnode` | [`Vnode`], a file in use; finding files by number |
//! | `cached` | lookups through the name cache, and its updates |
//! | `names` | lookup, create, mkdir, symlink, link |
//! | `remove` | unlink, rmdir |
//! | `rename` | rename in all its modes |
//! | `snapshot` | making snapshots |
//! | `bgfsck` | checking a snapshot of the mounted volume |
//! | `files` | reading, writing, space of file content |
//! | `attrs` | attributes and access |
//! | `xattrs` | extended attributes |
//! | [`acl`] | POSIX access lists, stored in extended attributes |
//! | `listing` | reading directories and symbolic links |
//! | `perm` | permission checks |
//! | `quota` | turning quotas on, quota files |
//! | `publish` | dependencies of a new name besides its inode |
//! | `locks` | locking several inodes |
//!
//! # Invariants
//! 1. The steps of an operation, in memory and as notified to the ordering mode, come in the order
//!    of `spec/soft-updates.md` §6: a link count is raised before its name is entered, and lowered
//!    after the name is removed.
//! 2. A failed operation leaves no change behind: it reverses the steps it has made. One exception:
//!    if the update of the inode fails after its name was removed, the operation returns the error
//!    and the name stays removed.
//! 3. Errors have this precedence: read-only mount, not a directory, no search permission, an
//!    invalid name, a missing or existing entry, no permission to change, all others.
//! 4. Permissions are checked only for callers with [`crate::Checks::Here`]. The rules of the
//!    format (file flags; limits of links, names and sizes) hold for all callers.
//!
//! # Locking
//! See `locks`. No callback of a caller runs while a lock is held.
//!
//! Reference: `spec/soft-updates.md` §6, §11.2; POSIX.

pub mod acl;
mod attrs;
mod bgfsck;
mod cached;
mod files;
mod listing;
mod locks;
mod names;
mod perm;
mod publish;
mod quota;
mod remove;
mod rename;
mod snapshot;
mod vfsops;
mod vnode;
mod xattrs;

pub use bgfsck::{Adjusted, BackgroundCheck, Changed, SecondName};
pub use quota::QuotaRepair;
pub use snapshot::SnapshotInfo;
pub use vnode::Vnode;

use crate::alloc::Reserve;
use crate::counters::bump;
use crate::cred::Cred;
use crate::dir::{self, Dir, Entry};
use crate::error::{Error, Result};
use crate::inode::{Inode, InodeData, InodeView, LockedInode};
use crate::mount::{Ffs, Mount};
use crate::sync::RwLockReadGuard;
use ffs_ondisk::dir::{MAXNAMLEN, name_ok};
use ffs_ondisk::{Ino, Place, Structure};
use std::sync::Arc;
use tracing::debug;
use vnode::Held;

/// An operation in progress that changes the volume. It is created before any inode is locked and
/// dropped after the last lock; the drop starts writeback if too many buffers are dirty.
struct Op<'a> {
    mp: &'a Mount,
    _mount_lock: RwLockReadGuard<'a, ()>,
}

impl Drop for Op<'_> {
    fn drop(&mut self) {
        // Buffers that could not be written stay dirty; `sync`, `fsync` or unmount report the
        // error.
        drop(self.mp.syncer.throttle());
    }
}

impl Ffs {
    /// Starts an operation that changes the volume.
    fn begin(&self) -> Result<Op<'_>> {
        self.relieve_journal();
        let mount_lock = self.0.begin_write()?;
        self.0.syncer.relieve()?;
        Ok(Op { mp: &self.0, _mount_lock: mount_lock })
    }

    /// Runs `operation`, which begins and ends an [`Op`]. If the volume is full, or a quota is
    /// reached, and pending removals will free space, waits until they are durable and runs
    /// `operation` again.
    fn retry_after_reclaim<T>(&self, mut operation: impl FnMut() -> Result<T>) -> Result<T> {
        match operation() {
            Err(Error::NoSpace | Error::NoInodes | Error::Quota) if self.reclaim() => {
                debug!(target: "ffs::ops", "no space or quota: trying again after removals");
                operation().inspect(|_| bump(&self.0.ump.counters().space_found))
            }
            result => result,
        }
    }

    /// Waits for pending removals to free space. Returns whether there were any. The caller holds
    /// no lock.
    fn reclaim(&self) -> bool {
        self.0.begin_write().is_ok_and(|_mount_lock| self.0.syncer.reclaim())
    }

    /// Makes these files durable if the mount requires it ([`crate::MountOptions::stable`]). Called
    /// at the end of an operation that changed names or attributes. The caller holds no lock.
    fn sync_if_stable(&self, files: &[&Vnode]) -> Result<()> {
        let wanted = if self.0.stable { files } else { &[] };
        wanted.iter().try_for_each(|file| self.fsync(file))
    }

    /// Rejects a file of another mount.
    fn same_mount(&self, v: &Vnode) -> Result<()> {
        if v.is_of(&self.0) { Ok(()) } else { Err(Error::Invalid("a file of another mount")) }
    }
}

/// Whether the name is `.` or `..`.
fn is_dots(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

/// Checks that `name` is valid for an entry.
fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > MAXNAMLEN {
        return Err(Error::NameTooLong);
    }
    if !name_ok(name) {
        return Err(Error::Invalid("a name is 1 to 255 bytes without NUL and '/'"));
    }
    Ok(())
}

/// Checks that the inode still belongs to a file.
fn check_alive(data: &InodeData) -> Result<()> {
    if data.alive() { Ok(()) } else { Err(Error::Stale) }
}

/// Checks that the inode is a directory.
fn check_directory(data: &InodeData) -> Result<()> {
    check_alive(data)?;
    if !data.d.is_dir() {
        return Err(Error::NotDirectory);
    }
    Ok(())
}

/// Checks that names can be entered in or removed from this directory: it was not removed, and it
/// has a valid size.
fn check_in_tree(dir: Dir<'_>) -> Result<()> {
    if dir.d.nlink == 0 {
        return Err(Error::NotFound);
    }
    if dir.d.size == 0 {
        let (s, place) = (Structure::Directory, Place::Inode(dir.ip.ino));
        return Err(dir.ump.damaged(Error::corrupt(s, place, "size", 0, "at least 512")));
    }
    Ok(())
}

/// Whether `cred` may use the reserved free blocks.
fn reserve_of(cred: &Cred) -> Reserve {
    if cred.is_root { Reserve::Allowed } else { Reserve::Denied }
}

impl Mount {
    /// Records that the volume is damaged, and returns `e`.
    fn damaged(&self, e: Error) -> Error {
        self.ump.damaged(e)
    }

    /// A view of an inode that the caller has locked.
    fn view<'a>(&'a self, ip: &'a Inode, data: &'a InodeData) -> InodeView<'a> {
        InodeView::new(&self.ump, ip, data)
    }

    /// Locks an inode exclusively.
    fn lock<'a>(&'a self, ip: &'a Inode) -> LockedInode<'a> {
        ip.lock(&self.ump)
    }

    /// The file that entry `e` of the locked directory `dir` names.
    fn child(&self, dir: &Inode, e: &Entry) -> Result<Held<'_>> {
        let place = Place::Dir(dir.ino, e.off);
        match self.table.get(e.ino) {
            Ok(ip) => Ok(Held::new(self, ip)),
            Err(Error::Stale | Error::NotFound) => {
                let (s, want) = (Structure::Directory, "the number of a file");
                Err(self.damaged(Error::corrupt(s, place, "inode number", e.ino, want)))
            }
            Err(e) => Err(e),
        }
    }

    /// Finds the entry of a name that is about to be removed or redirected, and prefetches memory
    /// that the operation reads next. `was` is the file that the name cache had for the name.
    fn find_entry(&self, d: Dir<'_>, name: &[u8], was: Option<&Inode>) -> Result<Entry> {
        if let Some(ip) = was {
            self.table.prefetch_dinode_place(ip.ino);
        }
        let entry = dir::find(d, name)?.ok_or(Error::NotFound)?;
        self.table.prefetch_dinode(entry.ino);
        dir::prefetch_chunk(d, &entry);
        Ok(entry)
    }

    /// As [`Mount::child`], for an entry that is about to be removed or redirected. Such an entry
    /// cannot name its own directory or the root. `was` is the file that the name cache had for the
    /// name.
    fn victim(&self, dir: &Inode, e: &Entry, was: Option<Arc<Inode>>) -> Result<Held<'_>> {
        if e.ino == dir.ino || e.ino == Ino::ROOT {
            let (s, place) = (Structure::Directory, Place::Dir(dir.ino, e.off));
            let want = "neither this directory nor the root";
            return Err(self.damaged(Error::corrupt(s, place, "inode number", e.ino, want)));
        }
        if let Some(ip) = was.filter(|ip| ip.ino == e.ino && ip.is_in_memory()) {
            return Ok(Held::new(self, ip));
        }
        self.child(dir, e)
    }

    /// The inode number of the parent directory. The root is its own parent, even if its `..`
    /// differs.
    fn parent_of(&self, dir: Dir<'_>) -> Result<Ino> {
        if dir.ip.ino == Ino::ROOT { Ok(Ino::ROOT) } else { dir::parent_of(dir) }
    }
}
