//! The changes of metadata that the file system reports to its ordering mode.
//!
//! An [`Event`] names one step of an operation in the words of `ffs_softdep.c`. The operation
//! sends it with [`super::Ordering::notify`] and obeys the [`Response`].
//!
//! # Invariants
//! 1. An event holds everything that its ordering mode needs: the mode never reads the file system.
//! 2. The text of an event ([`std::fmt::Display`]), which the log shows, has all its values; of an
//!    inode only those that other tools print as well. The text contains no content of files.

use crate::buf::{BufKey, Disposition};
use ffs_ondisk::bmap::{self, Named};
use ffs_ondisk::{Dinode, DirOff, FragNo, Geometry, Ino, Lbn};
use std::collections::VecDeque;
use std::fmt;
use std::ops::{Range, RangeInclusive};

/// A run of fragments inside one block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FragRun {
    /// First fragment.
    pub(crate) at: FragNo,
    /// Number of fragments.
    pub(crate) frags: u32,
}

/// Runs of fragments to be marked free. A run may be longer than a block.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct FreedRuns {
    /// Those that can be marked free first.
    pub(crate) first: Vec<FragRun>,
    /// Indirect blocks, by level. Their groups are written after those of the blocks before them in
    /// this order (FreeBSD: `freedep`), because the recovery follows a freed indirect block as long
    /// as the map marks it in use.
    pub(crate) then: VecDeque<Vec<FragRun>>,
}

impl FreedRuns {
    /// Runs without an order.
    pub(crate) fn unordered(first: Vec<FragRun>) -> FreedRuns {
        FreedRuns { first, then: VecDeque::new() }
    }

    /// Whether there is no run.
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_empty() && self.then.iter().all(Vec::is_empty)
    }

    /// All runs.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &FragRun> {
        self.first.iter().chain(self.then.iter().flatten())
    }

    /// Fragments of all runs.
    pub(crate) fn frags(&self) -> u64 {
        self.iter().map(|run| u64::from(run.frags)).sum()
    }

    /// The runs after the first ones.
    pub(crate) fn rest(mut self) -> FreedRuns {
        let first = self.then.pop_front().unwrap_or_default();
        FreedRuns { first, then: self.then }
    }

    /// Bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let runs = self.first.capacity() + self.then.iter().map(Vec::capacity).sum::<usize>();
        runs * size_of::<FragRun>() + self.then.capacity() * size_of::<Vec<FragRun>>()
    }
}

/// A block pointer, by its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PtrSlot {
    /// `db[index]` of an inode.
    Direct(Ino, usize),
    /// `ib[index]` of an inode.
    IndirectRoot(Ino, usize),
    /// Entry `index` of the indirect block with in-core name `block`.
    Indirect {
        /// The file.
        ino: Ino,
        /// In-core name of the indirect block.
        block: i64,
        /// Entry in it.
        index: u32,
    },
    /// `extb[index]` of an inode.
    ExtAttr(Ino, usize),
}

/// The content of a newly allocated block. It decides whether the content must be written first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BlockContent {
    /// File data.
    Data,
    /// Extended attributes.
    ExtAttr,
    /// The first block of a new directory, with `.` and `..` (FreeBSD: `MKDIR_BODY`).
    DirectoryBody,
    /// A later block of a directory, or more fragments of its last one (FreeBSD: `newdirblk`):
    /// free records, and the name that is entered next.
    DirectoryGrowth,
    /// The last fragment run of a directory, grown to a full block because another block follows.
    DirectoryExtended,
    /// A zeroed indirect block.
    Indirect,
}

impl PtrSlot {
    /// The file, and the in-core name of the block to which the pointer leads.
    pub(crate) fn named(self, g: &Geometry) -> (Ino, i64) {
        let child = |block, index: u32| match bmap::parse_name(g, block) {
            Some(Named::Indirect { level, first }) => {
                let below = bmap::blocks_per_pointer(g, level).saturating_mul(index.into());
                let first = first.plus(below);
                match level {
                    1 => i64::try_from(first.0).unwrap_or(i64::MAX),
                    _ => bmap::indirect_name(first, level - 1),
                }
            }
            _ => 0,
        };
        match self {
            PtrSlot::Direct(ino, index) => (ino, index as i64),
            PtrSlot::IndirectRoot(ino, root) => {
                (ino, bmap::indirect_name(bmap::first_of_root(g, root), root + 1))
            }
            PtrSlot::Indirect { ino, block, index } => (ino, child(block, index)),
            PtrSlot::ExtAttr(ino, index) => (ino, -1 - index as i64),
        }
    }
}

impl BlockContent {
    /// Whether the block belongs to a directory.
    pub(crate) fn is_directory(self) -> bool {
        match self {
            BlockContent::DirectoryBody
            | BlockContent::DirectoryGrowth
            | BlockContent::DirectoryExtended => true,
            BlockContent::Data | BlockContent::ExtAttr | BlockContent::Indirect => false,
        }
    }
}

/// Why an inode changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InodeChange {
    /// A new inode, to be named next.
    Init,
    /// A new directory's inode got its first block and size (after `Init` was only made in memory).
    InitDirectory,
    /// One more link, to be named next.
    NlinkInc,
    /// One link less, its name already removed.
    NlinkDec,
    /// Attributes, times.
    Attr,
    /// Size or pointers of a growing file.
    Grow,
    /// A directory grew by one `DIRBLKSIZ` chunk with a new name.
    DirectoryGrow,
    /// Shrunk, pointers cleared; blocks are freed next.
    Truncate,
    /// Extended by truncate, last block allocated.
    TruncateExtend,
    /// Extended attributes replaced.
    ExtAttr,
    /// Mode and link count cleared; the inode number is freed next.
    Free,
}

/// A place in a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DirPos {
    /// The directory.
    pub(crate) dir: Ino,
    /// Byte offset of the record.
    pub(crate) off: DirOff,
}

/// The inode that a directory entry names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EntryTarget {
    /// Inode number.
    pub(crate) ino: Ino,
    /// `d_type`.
    pub(crate) dtype: u8,
}

/// Why an entry is added or changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EntryKind {
    /// A rename, an exchange or a link names an existing file.
    Existing,
    /// A new file, of any type but directory.
    New,
    /// A new directory.
    Mkdir,
    /// `..` of a directory moved to another parent.
    DotDot,
}

/// The link count of a parent directory that goes down with a removed name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ParentLink {
    /// None.
    None,
    /// `..` of a removed directory: the parent's count drops when the directory is cleared on the
    /// device.
    Removed(Ino),
    /// `..` of a directory moved away from this parent: its count drops when the old name is absent
    /// and the directory's `..` names the new parent.
    Moved(Ino),
}

/// A name that is removed, or that names another file from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RemovedName {
    /// Names that the file keeps.
    pub(crate) names_left: u16,
    /// Links that the file loses: 1, a removed directory 2 (its name and its `.`).
    pub(crate) drops: u16,
    /// The parent's link that goes with the name.
    pub(crate) parent: ParentLink,
    /// A rename removes the name: the new name, already entered, must be durable first.
    pub(crate) renamed: bool,
}

impl RemovedName {
    /// A name of a file that is no directory and keeps `names_left` others.
    pub(crate) fn file(names_left: u16) -> RemovedName {
        RemovedName { names_left, drops: 1, parent: ParentLink::None, renamed: false }
    }

    /// The name of a directory in `parent`.
    pub(crate) fn directory(parent: Ino) -> RemovedName {
        let parent = ParentLink::Removed(parent);
        RemovedName { names_left: 0, drops: 2, parent, renamed: false }
    }
}

/// When freed blocks and inodes may be marked free.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum FreeWhen {
    /// At once.
    #[default]
    Now,
    /// When the device does not name them any more: the ordering mode hands them out as
    /// [`super::WorkItem`]s.
    Later,
}

/// The reserved records of a directory chunk ([`Response::reserve`]): bit `k` is the record at its
/// byte `4 k`.
pub(crate) type ReservedMask = u128;

/// One step of an operation.
#[derive(Clone, Debug)]
#[allow(dead_code, reason = "the log shows every field")]
pub(crate) enum Event<'a> {
    /// Inode `ino` was taken in its group's map, whose buffer the caller has locked. The response
    /// is for that buffer.
    InodeAllocated { ino: Ino, is_dir: bool },
    /// A block of never used inodes was initialised; its group counts it next. The response is for
    /// the inode block's buffer.
    InodeBlockInitialized { block: FragRun },
    /// Fragments were taken in their group's map, whose buffer the caller has locked. The response
    /// is for that buffer.
    BlockAllocated { run: FragRun },
    /// `slot` will point to `new` instead of `old`, a block with buffer `block` that becomes dirty
    /// later. The response is for that buffer. The file is locked, and no pointer has changed yet.
    /// A change with an `old` is never cancelled.
    PointerSet {
        slot: PtrSlot,
        new: FragRun,
        old: Option<FragRun>,
        content: BlockContent,
        block: BufKey,
    },
    /// The last `PointerSet` of `slot`, which had no block before, is cancelled: its operation
    /// failed before the inode was updated.
    PointerCancelled { slot: PtrSlot, new: FragRun },
    /// An indirect block of `ino` that was in use points to a new block with `content`. The
    /// response is for the indirect block's buffer.
    IndirectUpdated { ino: Ino, content: BlockContent },
    /// The attribute area of `ino`, until now `old_size` bytes at `old`, moves to the places that
    /// `PointerSet` reported. The inode is updated next.
    ExtAttrReplaced { ino: Ino, old: [i64; 2], old_size: u32 },
    /// Pointer `index` of the inode, which named `old`, is cleared inside the file of `size` stored
    /// bytes, which goes on behind the hole. The inode is updated next, and `old` passed to
    /// `BlocksFreed`.
    HolePunched { ino: Ino, index: usize, old: FragRun, size: u64 },
    /// A file is truncated, and ends in direct block `last` or behind the direct blocks. Until now
    /// its stored size was `size`. The pointers `cleared` of the inode (roots of indirect blocks
    /// behind the direct ones), with the runs that they named, are cleared. The inode is updated
    /// next, and the runs passed to `BlocksFreed`.
    InodeTruncated { ino: Ino, last: Option<usize>, size: u64, cleared: &'a [(usize, FragRun)] },
    /// The pointers `entries` of an indirect block that stays were cleared; its buffer is locked.
    /// `size`: the file's stored size before.
    IndirectTruncated { ino: Ino, block: i64, entries: Range<usize>, size: u64 },
    /// A block that stays (last data block or indirect block) was changed by a truncation. The
    /// response is for its buffer.
    BlockTruncated { ino: Ino, block: BufKey },
    /// An inode changed: `dinode` will be stored in its block, whose buffer is locked. The response
    /// is for that buffer, and [`Response::nlink_delta`] is added to the stored link count.
    InodeUpdated { ino: Ino, why: InodeChange, dinode: &'a Dinode },
    /// [`super::WorkItem::DropLinks`] was done in the inode's block, which is locked. The
    /// response's [`Response::nlink_delta`] is the remaining number.
    LinksDropped { ino: Ino, by: u16 },
    /// Names entered for `ino` from now on stay out of every write until `NameBarrierEnd`: later
    /// steps of the operation report their dependencies.
    NameBarrierBegin { ino: Ino },
    /// The operation has reported all dependencies of the names.
    NameBarrierEnd { ino: Ino },
    /// The directory `dir` is about to get a name below the directories `above`. As long as one of
    /// these is being moved itself, the device may show it below `dir`.
    DirectoryMoves { dir: Ino, above: &'a [Ino] },
    /// A name was entered. The response is for the directory block, whose buffer is locked.
    EntryAdded { at: DirPos, target: EntryTarget, kind: EntryKind, name: &'a [u8] },
    /// The entry at `at` names `new` instead of `old`. The response is for the directory block,
    /// whose buffer is locked.
    EntryReplaced {
        at: DirPos,
        old: EntryTarget,
        new: EntryTarget,
        kind: EntryKind,
        removed: RemovedName,
    },
    /// A name is about to be removed. The response is for the directory block, whose buffer is
    /// locked.
    EntryRemoved { at: DirPos, old: EntryTarget, name: &'a [u8], removed: RemovedName },
    /// Compaction moved a live record, which names `ino`; the directory block's buffer is locked.
    EntryMoved { ino: Ino, from: DirPos, to: DirPos },
    /// A directory of `old` bytes will have `new`: the chunks between are in its block `lbn`, whose
    /// buffer is locked. The name entered there is reported next.
    DirectoryGrew { dir: Ino, lbn: Lbn, old: u64, new: u64 },
    /// An exchange just changed the names of the file.
    EntriesExchanged { ino: Ino },
    /// The name last entered for `ino` depends on the content of its `dirty` blocks: a rename
    /// replaced another file with it (`replace_order`).
    ContentBeforeName { ino: Ino, dirty: &'a [BufKey] },
    /// `nlink` is the link count of `ino` before the removals that are reported next.
    LinkCount { ino: Ino, nlink: u16 },
    /// The new directory `dir` gets `.` and `..`, which names `parent`. The count of `parent` was
    /// raised.
    DirectoryBegun { dir: Ino, parent: Ino },
    /// Pointers of `ino` are about to be cleared: the names of their blocks, and their runs. A name
    /// of an indirect block covers all blocks below it.
    PointersCleared { ino: Ino, cleared: &'a [(i64, FragRun)] },
    /// The run `old` of block `lbn` of `ino` is about to lose fragments at its end.
    RunShortened { ino: Ino, lbn: i64, old: FragRun },
    /// A block moved. [`Response::free`] is for its former place.
    BlockReplaced,
    /// Pointers of `ino` were cleared, and its inode updated. [`Response::free`] is for their
    /// blocks: if it is [`FreeWhen::Later`], the caller sends `BlocksFreed`.
    BlocksReleased { ino: Ino },
    /// Runs that `ino` does not name any more; a run may be longer than a block. `partial`: the
    /// indirect blocks, by in-core name, in which pointers to some of them were cleared.
    BlocksFreed { ino: Ino, runs: FreedRuns, partial: &'a [i64] },
    /// The first runs of a [`super::WorkItem::FreeBlks`] are marked free in their groups' buffers,
    /// which the caller marks dirty next. `runs` are the indirect blocks that led to them.
    LeavesFreed { groups: &'a [FragNo], runs: FreedRuns },
    /// The buffers of these blocks of `ino` were discarded with their changes.
    BuffersDiscarded { ino: Ino, blocks: RangeInclusive<i64> },
    /// `ino` was cleared ([`InodeChange::Free`]). [`Response::free`] is for its number.
    InodeReleased { ino: Ino, was_dir: bool },
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::InodeUpdated { ino, why, dinode } => {
                let Dinode { mode, nlink, size, .. } = dinode;
                write!(f, "InodeUpdated {{ ino: {ino:?}, why: {why:?}, mode: {mode:o}, ")?;
                write!(f, "nlink: {nlink}, size: {size} }}")
            }
            Event::EntryAdded { at, target, kind, name } => {
                write!(f, "EntryAdded {{ at: {at:?}, target: {target:?}, kind: {kind:?}, ")?;
                write!(f, "name: \"{}\" }}", name.escape_ascii())
            }
            Event::EntryRemoved { at, old, name, removed } => {
                write!(f, "EntryRemoved {{ at: {at:?}, old: {old:?}, ")?;
                write!(f, "name: \"{}\", removed: {removed:?} }}", name.escape_ascii())
            }
            other => write!(f, "{other:?}"),
        }
    }
}

/// Instructions to the caller after an event. The default is that of `mount -o async`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Response {
    /// How the buffer that the event names is written.
    pub(crate) disposition: Disposition,
    /// When the freed resource may be marked free.
    pub(crate) free: FreeWhen,
    /// Links that the stored count has more than the file: names removed in memory that the device
    /// may still show (FreeBSD: `id_nlinkdelta`).
    pub(crate) nlink_delta: u16,
    /// The record of the removed name stays in place, with its name and inode number 0, because the
    /// name may have to be written once more. Until [`super::Ordering::take_freed_entries`] returns
    /// it, it is neither free space nor moved nor truncated.
    pub(crate) reserve: bool,
    /// The reserved records of the chunk with the entry, as
    /// [`super::Ordering::reserved_in`] returns them now.
    pub(crate) reserved: ReservedMask,
}

impl Response {
    /// Delay every write, mark resources free at once.
    pub(crate) const DELAY: Response = Response {
        disposition: Disposition::Delay,
        free: FreeWhen::Now,
        nlink_delta: 0,
        reserve: false,
        reserved: 0,
    };

    /// As [`Response::DELAY`], but wait for the write.
    pub(crate) const WAIT: Response =
        Response { disposition: Disposition::WriteAndWait, ..Response::DELAY };
}
