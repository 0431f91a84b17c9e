//! Files: the inode table, the block map, reading, writing, truncation, attributes.
//!
//! | module | contents |
//! | --- | --- |
//! | `table`, `state`, `map` | inodes in memory: finding, keeping, recycling |
//! | `names` | the name cache of the table |
//! | `locked` | [`LockedInode`] and [`InodeView`]: what the operations below work with |
//! | `lifecycle`, `removed` | making and freeing files |
//! | `links` | link counts |
//! | `update`, `unsynced` | writing inodes into their blocks |
//! | `times` | times and attributes |
//! | `bmap` | logical block to address |
//! | `balloc` | allocation of blocks: fragment growth, indirect blocks |
//! | `pref` | where new blocks should go |
//! | `read`, `write` | file content |
//! | `realloc` | moving the blocks of a sequential writer together |
//! | `unmap`, `freeblks` | clearing the pointers to a range of blocks; freeing the blocks |
//! | `truncate` | sizes |
//! | `holes` | `SEEK_DATA`, `SEEK_HOLE`; punching, zeroing and allocating ranges |
//! | `symlink`, `extattr` | symbolic links, extended attributes |
//! | `dirstate` | hints of the directory code |
//!
//! # Invariants
//! 1. There is at most one [`Inode`] of a number, and it holds the newest state. The buffer of its
//!    block holds the state of the last [`LockedInode::update`]; only noted times may be newer
//!    (`times`).
//! 2. The last block of a file holds exactly the fragments that `g.blksize(size, lbn)` gives; no
//!    pointer beyond the size is set. A call that changes one changes the other. No call makes the
//!    last block a hole: fsck would truncate the file before it.
//! 3. `di_blocks` counts the blocks that the pointers name; it saturates on a damaged image.
//! 4. No pointer is followed before [`ffs_ondisk::Geometry::check_run`] accepted it.
//! 5. A block is freed only after its buffer was discarded, and a call that fails frees again what
//!    it allocated.
//! 6. A read error never loses a pointer that an indirect block must get: an operation reads
//!    everything it needs before it changes anything.
//!
//! # Locking
//! An inode's lock ([`Inode::read`], [`Inode::lock`]) comes before the locks of buffers. The table's
//! lock, which also guards the name cache, is held for moments; under it only the lock of an inode
//! block's buffer and those of the buffer cache are taken.
//!
//! Reference: `spec/on-disk-format.md` §4, §5.2, §7, §10, §11; `spec/allocation.md` §4, §6.4;
//! `spec/soft-updates.md` §6.9 to §6.13.

mod balloc;
mod bmap;
mod dirstate;
mod extattr;
mod freeblks;
mod holes;
mod lifecycle;
mod links;
mod locked;
mod map;
mod names;
mod pref;
mod read;
mod realloc;
mod removed;
mod state;
mod symlink;
mod table;
mod times;
mod truncate;
mod unmap;
mod unsynced;
mod update;
mod write;

pub(crate) use balloc::{BufFill, Granted};
pub(crate) use dirstate::{DirState, Moved};
pub(crate) use holes::Growth;
pub(crate) use locked::{InodeView, LockedInode};
pub(crate) use table::InodeTable;

use crate::namecache::NameLinks;
use crate::prefetch;
use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use ffs_ondisk::{Dinode, FragNo, Ino, Lbn};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64};
use unsynced::Unsynced;

/// A file in memory. In the order written: what every use touches lies together.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Inode {
    /// Its number.
    pub(crate) ino: Ino,
    /// Users ([`InodeTable::hold`]).
    refs: AtomicU32,
    /// When its last use ended, as the table's clock counts.
    last_use: AtomicU64,
    /// Whether it is in the table's queue of unused inodes.
    queued: AtomicBool,
    /// It may have no links: it was locked for changes since that was last looked at.
    suspect: AtomicBool,
    /// Size or pointers may have changed since an fsync last wrote the inode's block.
    pub(crate) unsynced: Unsynced,
    /// What the name cache knows of it; guarded by the table's lock.
    names: NameLinks,
    data: RwLock<InodeData>,
    /// With what time it is in the queue.
    entry: AtomicU64,
    /// What the directory code remembers.
    pub(crate) dir: DirState,
}

/// What an inode's lock guards. In the order written, as [`Inode`].
#[derive(Debug)]
#[repr(C)]
pub(crate) struct InodeData {
    /// An access not yet in `d`: nanoseconds since 1970, or [`NOT_ACCESSED`]. Set under the shared
    /// lock.
    accessed: AtomicI64,
    /// The inode. Its `atime` is read through [`InodeData::atime`] and changed through
    /// [`InodeData::set_atime`].
    pub(crate) d: Dinode,
    /// Other times in `d` are newer than those in the inode's block.
    retimed: bool,
    /// It never had a name, and may get one.
    pub(crate) linkable: bool,
    /// The row of blocks being written.
    cluster: Cluster,
}

/// No access is noted.
const NOT_ACCESSED: i64 = i64::MIN;

/// A row of logical blocks written one after the other at the end of a file, contiguous on disk.
#[derive(Clone, Copy, Debug, Default)]
struct Cluster {
    /// First block.
    start: Lbn,
    /// Number of blocks; 0: none.
    len: u32,
    /// Where the last one lies.
    last: FragNo,
    /// Where to look first after a search that found nothing.
    retry: Option<FragNo>,
}

impl Inode {
    fn new(ino: Ino, d: Dinode) -> Inode {
        let data = InodeData {
            d,
            accessed: AtomicI64::new(NOT_ACCESSED),
            retimed: false,
            linkable: false,
            cluster: Cluster::default(),
        };
        Inode {
            ino,
            dir: DirState::default(),
            data: RwLock::new(data),
            refs: AtomicU32::new(0),
            last_use: AtomicU64::new(0),
            queued: AtomicBool::new(false),
            suspect: AtomicBool::new(true),
            entry: AtomicU64::new(0),
            names: NameLinks::default(),
            unsynced: Unsynced::new(),
        }
    }

    /// It will be looked at: has fetched what finding it and showing its attributes touches.
    pub(crate) fn prefetch(&self) {
        prefetch::line(&self.ino);
        prefetch::line(&self.data);
        prefetch::line(&self.entry);
    }

    /// Locks the inode shared.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, InodeData> {
        self.data.read()
    }

    /// Locks the inode for changes.
    fn write(&self) -> RwLockWriteGuard<'_, InodeData> {
        let data = self.data.write();
        self.suspect.store(true, Relaxed);
        data
    }

    /// Whether it is a file without links, for its last user, who need not have it locked: who took the links
    /// was a user before.
    fn is_unlinked(&self) -> bool {
        if !self.suspect.load(Relaxed) {
            return false;
        }
        let data = self.read();
        let unlinked = data.d.nlink == 0 && data.alive();
        // With the lock held: who gets it for changes comes later.
        self.suspect.store(unlinked, Relaxed);
        unlinked
    }

    /// Whether it was not freed meanwhile.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.names.is_resident()
    }

    /// Whether the caller is its only user.
    pub(crate) fn is_used_once(&self) -> bool {
        self.refs.load(std::sync::atomic::Ordering::Acquire) == 1
    }

    /// Locks the inode for changes if nobody has it locked.
    fn try_write(&self) -> Option<RwLockWriteGuard<'_, InodeData>> {
        let data = self.data.try_write()?;
        self.suspect.store(true, Relaxed);
        Some(data)
    }
}

impl InodeData {
    /// Whether this is a file still. A holder that finds it is not answers `ESTALE`.
    pub(crate) fn alive(&self) -> bool {
        self.d.mode != 0
    }
}

#[cfg(test)]
mod tests;
