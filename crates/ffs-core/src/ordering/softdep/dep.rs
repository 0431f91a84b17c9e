//! The kinds of dependencies, and the conditions that they require.
//!
//! | here | `ffs_softdep.c` |
//! | --- | --- |
//! | [`EntryDep`] with [`EntryChange::Set`] | `diradd`, and the `mkdir` pair |
//! | [`EntryDep`] with [`EntryChange::Clear`], [`DepKind::DropLinks`] | `dirrem` |
//! | [`AllocDep`] in an inode, in an indirect block | `allocdirect`, `allocindir` |
//! | [`ExtAttrDep`] | `allocdirect` on `id_extupdt` |
//! | [`DepKind::FreeBlks`], [`DepKind::FreeFile`] | `freeblks`, `freefrag`, `freefile` |
//!
//! # Invariants
//! 1. Two requirements are equal if their conditions are: a dependency has at most one of each.

use super::arena::ArenaKey;
use crate::buf::BufKey;
use crate::ordering::{DirPos, EntryTarget, FragRun, FreedRuns, PtrSlot};
use ffs_ondisk::Ino;
use ffs_ondisk::geometry::NDADDR;
use std::cmp::Ordering;
use std::num::NonZeroU64;

/// The key of a dependency.
pub(super) type DepId = ArenaKey;

/// How far another dependency must have come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Level {
    /// It is durable.
    Durable,
    /// It is a name, it is durable, and so is every name from the root down to it.
    Reachable,
}

/// A condition that a dependency waits for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Condition {
    /// A write of the block that was issued after the condition was recorded is durable.
    Block(BufKey),
    /// A write that shows the inode as it was stored then, or later, is durable.
    Inode(Ino),
    /// Another dependency has come so far.
    Dep(DepId, Level),
}

/// The step of a change that a requirement holds back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Holds {
    /// The change is rolled back in writes.
    Write,
    /// The change may be written, but does not count as reachable.
    Reachable,
}

/// A condition, and whether it holds back writes or reachability. There are more requirements than
/// dependencies: 16 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Requirement {
    /// [`Condition::Block`], for writes.
    Block(BufKey),
    /// [`Condition::Inode`], for writes.
    Inode(Ino),
    /// [`Condition::Dep`].
    Dep(DepId, Level, Holds),
}

impl Ord for Requirement {
    fn cmp(&self, other: &Requirement) -> Ordering {
        self.condition().cmp(&other.condition())
    }
}

impl PartialOrd for Requirement {
    fn partial_cmp(&self, other: &Requirement) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Requirement {
    fn eq(&self, other: &Requirement) -> bool {
        self.condition() == other.condition()
    }
}

impl Eq for Requirement {}

impl Requirement {
    pub(super) fn new(condition: Condition, holds: Holds) -> Requirement {
        match condition {
            Condition::Block(key) => Requirement::Block(key),
            Condition::Inode(ino) => Requirement::Inode(ino),
            Condition::Dep(id, level) => Requirement::Dep(id, level, holds),
        }
    }

    pub(super) fn condition(&self) -> Condition {
        match *self {
            Requirement::Block(key) => Condition::Block(key),
            Requirement::Inode(ino) => Condition::Inode(ino),
            Requirement::Dep(id, level, _) => Condition::Dep(id, level),
        }
    }

    /// Whether the change is rolled back in writes because of it.
    pub(super) fn holds_write(&self) -> bool {
        !matches!(self, Requirement::Dep(_, _, Holds::Reachable))
    }

    /// The dependency that it waits for, if it waits for one.
    pub(super) fn dep(&self) -> Option<DepId> {
        match *self {
            Requirement::Dep(id, ..) => Some(id),
            Requirement::Block(_) | Requirement::Inode(_) => None,
        }
    }
}

/// Whether the device may have a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WriteState {
    /// No write contained it.
    Unwritten,
    /// A write that contains it was issued; it may have failed.
    Issued,
    /// The device has it.
    Durable,
}

/// The kind of a dependency.
#[derive(Debug)]
pub(super) enum DepKind {
    /// The value of a directory entry.
    Entry(EntryDep),
    /// The value of a block pointer.
    Alloc(Box<AllocDep>),
    /// A write shows no size of directory `ino` above `limit` until the bytes up to `new` are
    /// durable.
    SizeCeiling { ino: Ino, limit: u64, new: u64 },
    /// A write shows no size of a file below this one.
    SizeFloor(Box<SizeFloor>),
    /// The blocks of an inode's extended attributes.
    ExtAttr(Box<ExtAttrDep>),
    /// An operation has not reported all its steps: it keeps a name out of writes.
    NameBarrier,
    /// The older names that renames and links gave: a removal requires them.
    PublishedNames,
    /// The changes of names that an fsync waits for.
    SyncPoint,
    /// Work: lower a link count. `name`: the hash of the removed name, and the number of the
    /// block's change, if the entry was removed from its block at once.
    DropLinks { ino: Ino, by: u16, name: Option<(u64, NonZeroU64)> },
    /// Work: free blocks of the inode.
    FreeBlks { ino: Ino, runs: Box<FreedRuns> },
    /// Work: free the inode's number.
    FreeFile { ino: Ino, was_dir: bool },
}

impl DepKind {
    /// Whether it is work for the worklist, due as soon as it requires nothing.
    pub(super) fn is_work(&self) -> bool {
        matches!(
            self,
            DepKind::DropLinks { .. } | DepKind::FreeBlks { .. } | DepKind::FreeFile { .. }
        )
    }
}

/// The value of a directory entry.
#[derive(Debug)]
pub(super) struct EntryDep {
    pub(super) at: DirPos,
    pub(super) change: EntryChange,
    /// The keyed hash of directory and name, if the entry is reserved; else 0.
    pub(super) hash: u64,
}

/// The change that an [`EntryDep`] makes to its entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum EntryChange {
    /// The entry names an inode.
    Set { ino: Ino, dtype: u8 },
    /// The entry has no name, and its record is reserved.
    Clear,
    /// As `Clear`; the link count of the inode drops by one when it is durable.
    ClearAndDrop { ino: Ino },
}

impl EntryChange {
    pub(super) fn set(target: EntryTarget) -> EntryChange {
        EntryChange::Set { ino: target.ino, dtype: target.dtype }
    }

    pub(super) fn is_clear(self) -> bool {
        matches!(self, EntryChange::Clear | EntryChange::ClearAndDrop { .. })
    }

    /// The value of the entry after the change.
    pub(super) fn value(self) -> EntryTarget {
        match self {
            EntryChange::Set { ino, dtype } => EntryTarget { ino, dtype },
            EntryChange::Clear | EntryChange::ClearAndDrop { .. } => NO_ENTRY,
        }
    }
}

/// The value of an entry without a name.
pub(super) const NO_ENTRY: EntryTarget = EntryTarget { ino: Ino(0), dtype: 0 };

/// The place of a block pointer that has versions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PtrPlace {
    /// Pointer `index` of an inode; the roots of indirect blocks follow the direct pointers.
    Inode(Ino, usize),
    /// Pointer `index` of the indirect block with in-core name `block`.
    Indirect { ino: Ino, block: i64, index: u32 },
}

impl PtrPlace {
    /// The place of `slot`; `None` for a pointer to extended attributes, which has no versions.
    pub(super) fn of(slot: PtrSlot) -> Option<PtrPlace> {
        match slot {
            PtrSlot::Direct(ino, index) => Some(PtrPlace::Inode(ino, index)),
            PtrSlot::IndirectRoot(ino, root) => Some(PtrPlace::root(ino, root)),
            PtrSlot::Indirect { ino, block, index } => {
                Some(PtrPlace::Indirect { ino, block, index })
            }
            PtrSlot::ExtAttr(..) => None,
        }
    }

    /// The place of root `root` of an inode's indirect blocks.
    pub(super) fn root(ino: Ino, root: usize) -> PtrPlace {
        PtrPlace::Inode(ino, NDADDR + root)
    }
}

/// The value of a block pointer (FreeBSD: `allocdirect`, `allocindir`).
#[derive(Debug)]
pub(super) struct AllocDep {
    pub(super) place: PtrPlace,
    /// The run that the pointer names; [`ffs_ondisk::FragNo::HOLE`] for a cleared pointer.
    pub(super) run: FragRun,
    /// Runs that are free when the pointer is durable.
    pub(super) frees: Vec<FragRun>,
    /// Entries written in the directory block that the pointer names, and rolled back by no later
    /// write of it: they are on the device when the pointer is. Sorted, each once.
    pub(super) entries: Vec<DepId>,
}

/// The end of the file, as the block of a [`SizeFloor`]: names of indirect blocks are negative.
pub(super) const FILE_END: i64 = 0;

/// A size below which a write shows no size of a file.
#[derive(Debug)]
pub(super) struct SizeFloor {
    pub(super) ino: Ino,
    /// In-core name of the indirect block that loses pointers, or [`FILE_END`].
    pub(super) block: i64,
    /// Distinguishes the floors of a block: a later one has a larger number.
    pub(super) number: u64,
    /// Bytes.
    pub(super) size: u64,
    /// Index of the last pointer that stays in the indirect block; in an inode, of the pointer at
    /// the new end.
    pub(super) last: Option<u32>,
}

/// The blocks of an inode's extended attributes.
#[derive(Debug)]
pub(super) struct ExtAttrDep {
    pub(super) ino: Ino,
    /// `extb` when it is durable.
    pub(super) new: [i64; 2],
    /// `extb` and `extsize` that a write shows until then. `None` while the inode is not updated:
    /// then a write shows the values of the inode.
    pub(super) old: Option<([i64; 2], u32)>,
    /// The dependency before, if a write contained it and it is not durable.
    pub(super) before: Option<DepId>,
}
