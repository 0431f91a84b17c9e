//! Files: the inode table, the block map, reading, writing, truncation, attributes.
//!
//! | module | holds |
//! | --- | --- |
//! | `table` | inodes in memory: finding, keeping, recycling, freeing |
//! | `update` | inodes into their blocks; attributes and times |
//! | `bmap` | logical block to address |
//! | `balloc` | blocks for logical blocks: fragment growth, indirect blocks |
//! | `read`, `write` | file content |
//! | `realloc` | moving the blocks of a sequential writer together |
//! | `truncate` | freeing blocks: truncation, punching |
//! | `holes` | `SEEK_DATA`, `SEEK_HOLE`, allocation of ranges |
//! | `symlink`, `extattr`, `fsync` | what their names say |
//!
//! # Invariants
//! 1. There is at most one [`Inode`] of a number; it holds the newest state. Its block's buffer holds
//!    the state of the last [`InodeTable::update`].
//! 2. The last block of a file holds exactly the fragments `g.blksize(size, lbn)` says; no pointer
//!    beyond the size is set. Whatever call changes one changes the other.
//! 3. `di_blocks` counts what the pointers name, saturating where an image lied.
//! 4. No pointer is followed before [`ffs_ondisk::Geometry::check_run`] passed it.
//! 5. A block is freed only after every buffer of it was forgotten, and a call that fails frees again
//!    what it allocated.
//!
//! # Locking
//! An inode's lock (`Inode::read`, `Inode::write`) comes before any buffer's; the table's own lock is
//! held for moments and takes no other but an inode block buffer's. Methods that take `&InodeData`
//! or `&mut InodeData` are called with the inode locked: that is where the reference comes from.
//!
//! Reference: `spec/on-disk-format.md` §4, §5.2, §7, §10, §11; `spec/allocation.md` §4, §6.4;
//! `spec/soft-updates.md` §6.9 to §6.13.

#![allow(dead_code, unused_variables)]

mod api;

use crate::alloc::Alloc;
use crate::buf::{BufRef, Disposition};
use crate::options::Atime;
use crate::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use ffs_ondisk::{Dinode, Ino};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize};

/// A file in memory.
#[derive(Debug)]
pub(crate) struct Inode {
    /// Its number.
    pub(crate) ino: Ino,
    /// What the directory code remembers.
    pub(crate) dir: DirState,
    data: RwLock<InodeData>,
    /// Users ([`InodeTable::hold`]).
    refs: AtomicU32,
    /// Its valid ticket in the table's queue of unused inodes.
    ticket: AtomicU64,
    /// Size or pointers changed since the last fsync wrote the inode's block.
    unsynced: AtomicBool,
}

/// Hints of the directory code; any value is right.
#[derive(Debug, Default)]
pub(crate) struct DirState {
    /// Where the last successful lookup ended (`i_diroff`), bytes.
    pub(crate) diroff: AtomicU32,
}

/// What an inode's lock guards.
#[derive(Debug)]
pub(crate) struct InodeData {
    /// The inode. Change `atime` only through [`InodeData::set_atime`]; read it, too, through
    /// [`InodeData::atime`].
    pub(crate) d: Dinode,
    /// An access not yet in `d`: nanoseconds since 1970, or `i64::MIN`. Set under the shared lock.
    accessed: AtomicI64,
    /// The cluster being written.
    cluster: Cluster,
}

/// A row of logical blocks written one after the other at the end of a file.
#[derive(Clone, Copy, Debug, Default)]
struct Cluster {
    /// First block.
    start: u64,
    /// Number of blocks.
    len: u32,
}

impl Inode {
    /// Locks the inode shared.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, InodeData> {
        self.data.read()
    }

    /// Locks the inode for changes.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, InodeData> {
        self.data.write()
    }
}

/// A block that [`InodeTable::balloc`] made sure of.
#[derive(Debug)]
pub(crate) struct Granted {
    /// The block's buffer. The caller fills it, then hands `then` to
    /// [`crate::buf::BufCache::apply`] (which also marks it dirty).
    pub(crate) buf: BufRef,
    /// Bytes of the buffer that this call added to the file; zeros where the content is kept. A
    /// directory fills them with empty chunks.
    pub(crate) fresh: Range<usize>,
    /// When the block must reach the device.
    pub(crate) then: Disposition,
}

/// The inodes of a mount.
pub(crate) struct InodeTable {
    alloc: Arc<Alloc>,
    atime: Atime,
    read_only: Arc<AtomicBool>,
    maxvnodes: usize,
    held: AtomicUsize,
}
