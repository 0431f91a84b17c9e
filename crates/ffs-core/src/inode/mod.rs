//! Files: the inode table, the block map, reading, writing, truncation, attributes.
//!
//! | module | contents |
//! | --- | --- |
//! | `table`, `state`, `map` | inodes in memory: lookup, users, recycling |
//! | `names` | the name cache of the table |
//! | `locked` | [`LockedInode`] and [`InodeView`], on which the operations below are methods |
//! | `lifecycle`, `removed` | creating and freeing files |
//! | `links` | link counts |
//! | `update`, `unsynced` | writing inodes into their blocks |
//! | `times` | times and attributes |
//! | `bmap` | logical block to address |
//! | `balloc` | allocation of blocks: fragment growth, indirect blocks |
//! | `pref` | preferred addresses of new blocks |
//! | `quota` | charging the owners of files |
//! | `read`, `write` | file content |
//! | `write_run` | large writes of whole blocks, past the cache |
//! | `realloc` | making the blocks of a sequential writer contiguous |
//! | `unmap`, `freeblks` | clearing the pointers to a range of blocks; freeing the blocks |
//! | `truncate` | truncation and extension |
//! | `holes` | `SEEK_DATA`, `SEEK_HOLE`; punching, zeroing and allocating ranges |
//! | `symlink`, `extattr` | symbolic links, extended attributes |
//! | `snapshots` | snapshot files |
//! | `dirstate` | hints for the directory code |
//!
//! # Invariants
//! 1. There is at most one [`Inode`] for a number, and it has the newest state. The buffer of its
//!    block has the state of the last [`LockedInode::update`]. Only times may be newer in memory
//!    (`times`).
//! 2. The last block of a file has exactly the fragments that `g.blksize(size, lbn)` gives, and no
//!    pointer beyond the size is set. A call that changes the size changes fragments and pointers
//!    too. No call makes the last block a hole, because fsck would truncate the file before it.
//! 3. `di_blocks` counts the blocks to which the pointers lead. It saturates on a damaged image.
//! 4. No pointer is followed before [`ffs_ondisk::Geometry::check_run`] accepted it.
//! 5. A block is freed only after its buffer was discarded. A call that fails frees the blocks that
//!    it allocated.
//! 6. An operation reads all metadata it needs before it changes anything. So a read error never
//!    leaves a new block without the pointer to it.
//!
//! # Locking
//! An inode's lock ([`Inode::read`], [`Inode::lock`]) comes before the locks of buffers. The
//! table's lock, which also guards the name cache, is held for a short time. Lookups share it.
//! Under it only the lock of an inode block's buffer and those of the buffer cache are taken.
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
mod queue;
mod quota;
mod read;
mod realloc;
mod removed;
mod snapshots;
mod state;
mod symlink;
mod table;
mod times;
mod truncate;
mod unmap;
mod unsynced;
mod update;
mod write;
mod write_run;

pub(crate) use balloc::{BufFill, Granted};
pub(crate) use dirstate::{DirState, Moved};
pub(crate) use holes::Growth;
pub(crate) use locked::{InodeView, LockedInode};
pub(crate) use read::DIRECT_BYTES;
pub(crate) use table::InodeTable;

use crate::namecache::NameLinks;
use crate::prefetch;
use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use ffs_ondisk::{Dinode, FragNo, Ino, Lbn};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64};
use unsynced::Unsynced;

/// A file in memory. `repr(C)` keeps the order of the fields: those that every use reads or writes
/// share cache lines.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Inode {
    /// The inode number.
    pub(crate) ino: Ino,
    /// The number of users ([`InodeTable::hold`]).
    refs: AtomicU32,
    /// The end of the last use, in ticks of the table's clock.
    last_use: AtomicU64,
    /// Whether it is in the table's queue of unused inodes.
    queued: AtomicBool,
    /// The link count may be 0: the inode was locked for changes since `is_unlinked` read it.
    suspect: AtomicBool,
    /// Size or pointers may have changed since an fsync last wrote the inode's block.
    pub(crate) unsynced: Unsynced,
    /// The inode's list heads in the name cache; guarded by the table's lock.
    names: NameLinks,
    data: RwLock<InodeData>,
    /// The time of its valid entry in the queue.
    entry: AtomicU64,
    /// Hints for the directory code.
    pub(crate) dir: DirState,
}

/// The fields that an inode's lock guards. `repr(C)` for the same reason as [`Inode`].
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
    /// The file never had a name, and may get one (`O_TMPFILE`).
    pub(crate) linkable: bool,
    /// The cluster that is being written.
    cluster: Cluster,
}

/// No access is noted.
const NOT_ACCESSED: i64 = i64::MIN;

/// Logical blocks that were written in sequence at the end of a file and are contiguous on disk.
#[derive(Clone, Copy, Debug, Default)]
struct Cluster {
    /// The first block.
    start: Lbn,
    /// The number of blocks; 0: there is no cluster.
    len: u32,
    /// The address of the last block.
    last: FragNo,
    /// The address at which the next search starts, after one that found no free run.
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

    /// Prefetches the cache lines that a lookup and `stat` of this inode read.
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

    /// Whether this is a file without links. The last user calls this without the inode's lock: a
    /// thread that removes a link is a user, so its change is complete.
    fn is_unlinked(&self) -> bool {
        if !self.suspect.load(Relaxed) {
            return false;
        }
        let data = self.read();
        let unlinked = data.d.nlink == 0 && data.alive();
        // Stored under the lock: a later holder of the exclusive lock sets it again.
        self.suspect.store(unlinked, Relaxed);
        unlinked
    }

    /// Whether the inode is in the table, that is, was not freed.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.names.is_resident()
    }

    /// Whether the caller is its only user.
    pub(crate) fn is_used_once(&self) -> bool {
        self.refs.load(std::sync::atomic::Ordering::Acquire) == 1
    }

    /// Locks the inode for changes, unless another thread has it locked.
    fn try_write(&self) -> Option<RwLockWriteGuard<'_, InodeData>> {
        let data = self.data.try_write()?;
        self.suspect.store(true, Relaxed);
        Some(data)
    }
}

impl InodeData {
    /// Whether this is a file still. For an inode that was freed, operations return `ESTALE`.
    pub(crate) fn alive(&self) -> bool {
        self.d.mode != 0
    }
}

#[cfg(test)]
mod tests;
