//! Dependencies on one inode (FreeBSD: `inodedep`): which of its stored states are durable, the
//! dependencies that wait for them, and the names and links that are not settled.
//!
//! # Invariants
//! 1. A new inode is shown as free (but for generation and `freelink`) until its bitmap is durable.
//! 2. States and writes are numbered in one sequence for all inodes. So a write that is in flight
//!    longer than the inodedep it was made from does not pass for one of a later state.
//! 3. The stored link count is the file's plus `nlink_delta`: one for each name or `..` that was
//!    removed in memory and that the device may show (FreeBSD: `id_nlinkdelta`).
//!
//! Reference: `docs/spec/soft-updates.md` §4.3, §6.12.

mod device_size;
mod extra;
mod table;

pub(super) use device_size::DeviceSize;
pub(super) use extra::InodeExtra;
pub(super) use table::InodeDeps;

use super::dep::DepId;
use super::smalllist::SmallList;
use super::writes::Waiters;
use ffs_ondisk::Ino;

/// Whether the device has an allocated inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Init {
    /// The device has it, or had it before.
    Done,
    /// It is new. `bitmap_durable`: the device marks it used. `issued`: a write contained it.
    New { bitmap_durable: bool, issued: bool },
}

/// An inode in a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShownInode {
    pub(super) ino: Ino,
    /// Number of the state.
    state: u64,
    /// Number of the write.
    write: u64,
}

/// Dependencies on one inode. An inode without is on the device as its block's buffer has it.
#[derive(Debug)]
pub(super) struct InodeDep {
    /// Number of the last stored state that anything may wait for.
    stored: u64,
    /// Number of the last durable one.
    durable: u64,
    init: Init,
    /// Number of its allocation: no state up to it belongs to the new inode.
    allocated: u64,
    nlink_delta: u16,
    waiters: Waiters,
    /// Names that are not reachable, oldest first.
    names: SmallList<DepId>,
    /// The drops of the names that the file had before a rename.
    old_names: SmallList<DepId>,
    /// State that few inodes have.
    extra: Option<Box<InodeExtra>>,
}

impl InodeDep {
    const NEW: InodeDep = InodeDep {
        stored: 0,
        durable: 0,
        init: Init::Done,
        allocated: 0,
        nlink_delta: 0,
        waiters: Waiters::EMPTY,
        names: SmallList::EMPTY,
        old_names: SmallList::EMPTY,
        extra: None,
    };

    /// Whether writes show it as free, because its bitmap is not durable.
    pub(super) fn is_hidden(&self) -> bool {
        matches!(self.init, Init::New { bitmap_durable: false, .. })
    }

    /// Whether the device has the last state that anything may wait for.
    pub(super) fn is_durable(&self) -> bool {
        self.init == Init::Done && self.durable >= self.stored
    }

    /// Whether it is new, and no write contained it.
    pub(super) fn is_unwritten(&self) -> bool {
        matches!(self.init, Init::New { issued: false, .. })
    }

    /// Names that are not reachable, oldest first.
    pub(super) fn names(&self) -> &[DepId] {
        &self.names
    }

    /// The drops of the names that the file had before a rename.
    pub(super) fn old_names(&self) -> &[DepId] {
        &self.old_names
    }

    pub(super) fn extra(&self) -> Option<&InodeExtra> {
        self.extra.as_deref()
    }

    /// Whether nothing depends on it, and it depends on nothing.
    fn is_idle(&self) -> bool {
        self.is_durable()
            && self.nlink_delta == 0
            && self.waiters.is_empty()
            && self.names.is_empty()
            && self.old_names.is_empty()
            && self.extra.is_none()
    }

    /// Bytes that it allocated.
    fn heap_bytes(&self) -> usize {
        self.waiters.bytes()
            + self.names.bytes()
            + self.old_names.bytes()
            + self.extra.as_deref().map_or(0, InodeExtra::bytes)
    }
}
