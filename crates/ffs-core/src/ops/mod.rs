//! The operations: what a caller of the library, the command or the FUSE server may ask for.
//!
//! | module | holds |
//! | --- | --- |
//! | `vfsops` | mounting |
//! | `vnode` | [`Vnode`], a file in use; finding files by number |
//! | `cached` | the name cache asked and told |
//! | `names` | lookup, create, mkdir, symlink, link |
//! | `remove` | unlink, rmdir |
//! | `rename` | rename in all its modes |
//! | `files` | reading, writing, space of file content |
//! | `attrs` | attributes and access |
//! | `xattrs` | extended attributes |
//! | [`acl`] | POSIX access lists on top of them |
//! | `listing` | directories and links read |
//! | `perm` | who may do what |
//! | `publish` | what a new name waits for |
//! | `locks` | locking several inodes |
//!
//! # Invariants
//! 1. The steps of an operation, in memory and as reported to the ordering policy, come in the order
//!    of `spec/soft-updates.md` §6: a count is raised before the name it is for is entered, and
//!    lowered after the name is gone.
//! 2. An operation that fails has changed nothing, or has taken back what it changed. Only when a
//!    name is already gone and the inode's own update then fails is the error late news.
//! 3. Precedence of errors: read-only mount, not a directory, search permission, the name itself,
//!    (no) such entry, permission to change, everything else.
//! 4. Permissions are checked only for callers that ask for it ([`crate::Checks::Here`]); rules of
//!    the format (flags, limits of links, names and sizes) for everybody.
//!
//! # Locking
//! See `locks`. Nothing is called back with a lock held.
//!
//! Reference: `spec/soft-updates.md` §6, §11.2; POSIX.

pub mod acl;
mod attrs;
mod cached;
mod files;
mod listing;
mod locks;
mod names;
mod perm;
mod publish;
mod remove;
mod rename;
mod vfsops;
mod vnode;
mod xattrs;

pub use vnode::Vnode;

use crate::alloc::Reserve;
use crate::counters::bump;
use crate::cred::Cred;
use crate::dir::{self, Dir, DirMut, Entry};
use crate::error::{Error, Result};
use crate::inode::{Inode, InodeData, InodeView, LockedInode};
use crate::mount::{Ffs, Mount};
use crate::ordering::InodeChange;
use crate::sync::RwLockReadGuard;
use ffs_ondisk::dir::{MAXNAMLEN, name_ok};
use ffs_ondisk::{Ino, Place, Structure};
use std::sync::Arc;
use tracing::debug;
use vnode::Held;

/// An operation under way that changes the volume. Made before any lock is taken and dropped after
/// the last: then the cache writes if too much is dirty.
struct Op<'a> {
    mp: &'a Mount,
    _gate: RwLockReadGuard<'a, ()>,
}

impl Drop for Op<'_> {
    fn drop(&mut self) {
        // What could not be written stays dirty; sync, fsync or unmount report it.
        drop(self.mp.syncer.throttle());
    }
}

impl Ffs {
    /// Starts an operation that changes the volume.
    fn begin(&self) -> Result<Op<'_>> {
        let gate = self.0.begin_write()?;
        self.0.syncer.relieve()?;
        Ok(Op { mp: &self.0, _gate: gate })
    }

    /// Does `operation`, which begins and ends one; if the volume is full and some of it will be free
    /// once removals are durable, waits for that and does it again.
    fn with_space<T>(&self, operation: impl Fn() -> Result<T>) -> Result<T> {
        match operation() {
            Err(Error::NoSpace | Error::NoInodes) if self.reclaim() => {
                debug!(target: "ffs::ops", "the volume was full: trying again after removals");
                operation().inspect(|_| bump(&self.0.ump.counters().space_found))
            }
            result => result,
        }
    }

    /// Waits for what will be free; whether there was any. The caller holds no lock.
    fn reclaim(&self) -> bool {
        self.0.begin_write().is_ok_and(|_gate| self.0.syncer.reclaim())
    }

    /// At the end of a call that changed names or attributes: makes these files durable if that was
    /// asked for ([`crate::MountOptions::stable`]). The caller holds no lock.
    fn stabilise(&self, files: &[&Vnode]) -> Result<()> {
        let wanted = if self.0.stable { files } else { &[] };
        wanted.iter().try_for_each(|file| self.fsync(file, false))
    }

    /// Refuses a file of another mount.
    fn same_mount(&self, v: &Vnode) -> Result<()> {
        if v.is_of(&self.0) { Ok(()) } else { Err(Error::Invalid("a file of another mount")) }
    }
}

/// Whether the name means the directory itself or its parent.
fn is_dots(name: &[u8]) -> bool {
    name == b"." || name == b".."
}

/// Whether `name` may be an entry's.
fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > MAXNAMLEN {
        return Err(Error::NameTooLong);
    }
    if !name_ok(name) {
        return Err(Error::Invalid("a name is 1 to 255 bytes without NUL and '/'"));
    }
    Ok(())
}

/// Whether the inode is still a file.
fn check_alive(data: &InodeData) -> Result<()> {
    if data.alive() { Ok(()) } else { Err(Error::Stale) }
}

/// Whether names can be looked up in this inode.
fn check_directory(data: &InodeData) -> Result<()> {
    check_alive(data)?;
    if !data.d.is_dir() {
        return Err(Error::NotDirectory);
    }
    Ok(())
}

/// Whether names can be entered in this directory or removed: it was not itself removed, and it is
/// a directory its volume's rules allow.
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

/// Who may use the last free blocks.
fn reserve_of(cred: &Cred) -> Reserve {
    if cred.is_root() { Reserve::Allowed } else { Reserve::Denied }
}

impl Mount {
    /// Notes that the volume is damaged as `e` says, and returns it.
    fn damaged(&self, e: Error) -> Error {
        self.ump.damaged(e)
    }

    /// An inode that the caller has locked, with what its lock guards.
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

    /// Finds the entry of a name about to be removed or redirected, while what else that needs is fetched from
    /// memory. `was` is the file the name cache knew for the name.
    fn find_entry(&self, d: Dir<'_>, name: &[u8], was: Option<&Inode>) -> Result<Entry> {
        if let Some(ip) = was {
            self.table.prefetch_dinode_place(ip.ino);
        }
        let entry = dir::find(d, name)?.ok_or(Error::NotFound)?;
        self.table.prefetch_dinode(entry.ino);
        dir::prefetch_chunk(d, &entry);
        Ok(entry)
    }

    /// As [`Mount::child`] for an entry about to be removed or redirected, which cannot name the
    /// directory it is in, nor the root. `was` is the file the name cache knew for the name.
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

    /// Notes in a directory's inode that its entries changed.
    fn directory_changed(&self, d: &mut DirMut<'_>, grew: bool) -> Result<()> {
        d.note_modified();
        if grew { d.update(InodeChange::DirectoryGrow) } else { Ok(()) }
    }

    /// The number of the directory above `ip`; the root is above itself whatever its `..` says.
    fn parent_of(&self, dir: Dir<'_>) -> Result<Ino> {
        if dir.ip.ino == Ino::ROOT { Ok(Ino::ROOT) } else { dir::parent_of(dir) }
    }
}
