//! Ordering is a policy: operations say what happened, a tenant says when it may reach the disk.
//!
//! | tenant | promise |
//! | --- | --- |
//! | [`SyncOrdered`] | metadata writes are waited for in the order that keeps the tree sound |
//! | [`SoftUpdates`] | nothing is waited for, and the device is sound at every moment |
//! | [`Unordered`] | none until `sync`, `fsync` or unmount (`mount -o async`) |
//!
//! # Invariants
//! 1. Operations execute the same steps in memory, in the order of `spec/soft-updates.md` §6, for
//!    every tenant; after each step they report it here and hand the answer to
//!    [`crate::buf::BufCache::apply`]. No operation asks which tenant is in force.
//! 2. A tenant never calls the file system back.
//! 3. Other threads write buffers between any two steps. So a step is reported while its buffer is locked, or
//!    before it is dirty; what a name waits for that a later step tells, behind [`Ordering::name_held`].
//!
//! Reference: `spec/soft-updates.md` §11.

mod none;
pub(crate) mod rules;
mod softdep;
mod sync;

pub(crate) use none::Unordered;
pub(crate) use softdep::SoftUpdates;
pub(crate) use sync::SyncOrdered;

pub(crate) use crate::buf::Disposition;
use crate::buf::{BufKey, BufKind, WriteHooks};
use ffs_ondisk::{Dinode, DirOff, FragNo, Ino, Lbn};

/// A run of fragments inside one block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FragRun {
    /// First fragment.
    pub(crate) at: FragNo,
    /// Number of fragments.
    pub(crate) frags: u32,
}

/// The pointer that names a block.
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

/// What the newly claimed block holds; decides whether its content must be written first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClaimOf {
    /// File data.
    Data,
    /// Extended attributes.
    Attributes,
    /// The first block of a new directory, with `.` and `..`.
    DirectoryBody,
    /// A later block of a directory, or more fragments of its last one: free records, and the name
    /// that is entered next.
    DirectoryGrowth,
    /// The last fragment run of a directory, grown to a full block because another block follows.
    DirectoryExtended,
    /// A zeroed indirect block.
    Indirect,
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
    /// One link less, its name already gone.
    NlinkDec,
    /// Attributes, times.
    Attr,
    /// Size or pointers of a growing file.
    Grow,
    /// A directory grew by a chunk that a name was just entered in.
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

/// What a directory record names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NamedInode {
    /// Inode number.
    pub(crate) ino: Ino,
    /// `d_type`.
    pub(crate) dtype: u8,
}

/// What kind of name is entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NameKind {
    /// A file that was there before, named by a rename, an exchange or a link.
    Plain,
    /// A new file, of any type but directory.
    New,
    /// A new directory.
    Mkdir,
    /// `..` of a directory moved to another parent.
    DotDot,
}

/// When freed resources may be marked free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FreeNow {
    /// At once.
    Yes,
    /// When the device does not name them any more: the tenant asks for it as [`Work`].
    Later,
}

/// The `..` that goes with a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DotDot {
    /// None.
    None,
    /// That of a removed directory: the parent's count drops when the directory is gone.
    Removed(Ino),
    /// That of a directory moved away from this parent: its count drops when both the name is gone
    /// and the directory's `..` names the new parent.
    Moved(Ino),
}

/// What goes with a name that is removed, or that names another file from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gone {
    /// Names the file keeps without this one.
    pub(crate) names_left: u16,
    /// Links that go: 1, of a removed directory 2 (its name and its `.`).
    pub(crate) drops: u16,
    /// Whose count drops besides.
    pub(crate) dotdot: DotDot,
    /// The file was renamed: its new name, already entered, has to be there first.
    pub(crate) moved: bool,
}

impl Gone {
    /// A name of a file that is no directory and keeps `names_left` others.
    pub(crate) fn name(names_left: u16) -> Gone {
        Gone { names_left, drops: 1, dotdot: DotDot::None, moved: false }
    }

    /// The name of a directory in `parent`.
    pub(crate) fn directory(parent: Ino) -> Gone {
        Gone { names_left: 0, drops: 2, dotdot: DotDot::Removed(parent), moved: false }
    }
}

/// Which records of a chunk are reserved ([`Removal::reserve`]): bit `k` is the record at its byte `4 k`.
pub(crate) type ReservedMask = u128;

/// What follows from a name that was entered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Addition {
    /// For the directory block.
    pub(crate) then: Disposition,
    /// The chunk's records, as [`Ordering::reserved_in`] has them now.
    pub(crate) reserved: ReservedMask,
}

/// What becomes of the record of a removed name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Removal {
    /// For the directory block.
    pub(crate) then: Disposition,
    /// The chunk's records, as [`Ordering::reserved_in`] has them now: with this one, if it is.
    pub(crate) reserved: ReservedMask,
    /// The record stays where it is, name and all, with inode number 0: the name may have to be
    /// written once more. Until it is among [`Ordering::take_freed_slots`] it is neither free space
    /// nor moved nor cut off.
    pub(crate) reserve: bool,
}

/// What is stored of an inode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InodeAnswer {
    /// For the inode block.
    pub(crate) then: Disposition,
    /// Links more than the file has: names removed in memory that the device may still show.
    pub(crate) more_links: u16,
}

/// Something a tenant asks for once it is safe; done in order, with no lock held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Work {
    /// Lowers the link count stored in the inode's block, tells [`Ordering::unlinked`] under the
    /// block's lock, and frees the file if it has neither links nor users.
    Unlink {
        /// The file.
        ino: Ino,
        /// By how much.
        by: u16,
    },
    /// Marks runs of fragments free. They may be longer than a block.
    FreeRuns(Vec<FragRun>),
    /// Marks an inode free.
    FreeInode {
        /// Which.
        ino: Ino,
        /// Whether it was a directory.
        was_dir: bool,
    },
}

/// How much of a block's image would be held back now.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Readiness {
    /// Nothing.
    Whole,
    /// Some changes.
    Part,
    /// It would show nothing new, or what looks better when something else is written.
    Nothing,
}

/// What an fsync waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Goal {
    /// The file, and every name and directory above it.
    File(Ino),
    /// The names of a directory, besides.
    Directory(Ino),
    /// Older changes of names.
    Names(SyncPoint),
}

/// Which older changes of names an fsync makes durable besides what leads to its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OlderNames {
    /// All, as the commit of a journal does.
    All,
    /// New names of directories that were renamed: any of them may be above the file.
    MovedDirectories,
}

/// The changes of names that were outstanding at a moment ([`Ordering::begin_sync_point`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct SyncPoint(pub(crate) u64);

/// What a tenant has not finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pending {
    /// Records of changes not yet durable.
    pub(crate) records: u64,
    /// Blocks and inodes that something is known of, and needs.
    pub(crate) known: u64,
    /// What was looked at for all this since the mount: nodes, needs, waiters.
    pub(crate) steps: u64,
    /// Removals among them.
    pub(crate) removals: u64,
    /// Fragments that will be free.
    pub(crate) frags: u64,
    /// Inodes that will be free.
    pub(crate) inodes: u64,
}

/// A tenant.
///
/// The defaults are those of a tenant that promises nothing: everything is delayed and free at once.
pub(crate) trait Ordering: WriteHooks {
    /// The tenant's name as mount options spell it.
    fn name(&self) -> &'static str;

    /// Inode `ino` was taken in its group's map, whose lock the caller holds; answers for the
    /// group's buffer.
    fn inode_allocated(&self, _ino: Ino) -> Disposition {
        Disposition::Delay
    }

    /// `fresh`, a block of never used inodes, was initialised before its group counts it; answers
    /// for the inode block's buffer.
    fn inode_block_initialised(&self, _fresh: FragRun) -> Disposition {
        Disposition::Delay
    }

    /// `run` was taken in its group's map, whose lock the caller holds; answers for the group's
    /// buffer.
    fn block_allocated(&self, _run: FragRun) -> Disposition {
        Disposition::Delay
    }

    /// `slot` will name `new` (before: `old`), a block with buffer `block` that is marked dirty
    /// later; answers for that buffer. The caller has the file locked and has changed no pointer
    /// yet. With an `old`, it is not taken back.
    fn claim_set(
        &self,
        _slot: PtrSlot,
        _new: FragRun,
        _old: Option<FragRun>,
        _what: ClaimOf,
        _block: BufKey,
    ) -> Disposition {
        Disposition::Delay
    }

    /// The last [`Ordering::claim_set`] of `slot`, which had no block before, is taken back: its operation
    /// failed before the inode was updated.
    fn claim_dropped(&self, _slot: PtrSlot, _new: FragRun) {}

    /// Pointer `index` of the inode, which named `old`, is cleared for a hole: the file goes on behind it. The
    /// inode is updated next, and `old` passed to [`Ordering::free_later`].
    fn hole_made(&self, _ino: Ino, _index: usize, _old: FragRun) {}

    /// A file of `size` bytes is cut short and will end in direct block `last`, or behind those: its pointers
    /// `cleared` (roots of indirect blocks behind the direct ones), with what they named, are cleared. The
    /// inode is updated next, and what they named passed to [`Ordering::free_later`].
    fn tail_cut(&self, _ino: Ino, _last: Option<usize>, _size: u64, _cleared: &[(usize, FragRun)]) {
    }

    /// A claim moved a block away from another place: may that be marked free now? Otherwise the policy
    /// asks for it.
    fn run_replaced(&self) -> FreeNow {
        FreeNow::Yes
    }

    /// The attribute area of `ino`, until now at `old` with `old_size` bytes, has other places, each
    /// reported by [`Ordering::claim_set`] before; the inode is updated next.
    fn attributes_replaced(&self, _ino: Ino, _old: [i64; 2], _old_size: u32) {}

    /// An indirect block of `ino` that was in use got a pointer to a block claimed as `what`;
    /// answers for the indirect block's buffer.
    fn indirect_changed(&self, _ino: Ino, _what: ClaimOf) -> Disposition {
        Disposition::Delay
    }

    /// Pointers of an indirect block that is kept were cleared; its buffer is locked. `size`: the file's
    /// until now.
    fn pointers_cleared(
        &self,
        _ino: Ino,
        _block: i64,
        _entries: std::ops::Range<usize>,
        _size: u64,
    ) {
    }

    /// An inode changed: `d` will be stored in its block, whose buffer is locked.
    fn inode_changed(&self, _ino: Ino, _why: InodeChange, _d: &Dinode) -> InodeAnswer {
        InodeAnswer { then: Disposition::Delay, more_links: 0 }
    }

    /// Links that the stored count of `ino` has more than the file.
    fn links_pending(&self, _ino: Ino) -> u16 {
        0
    }

    /// [`Work::Unlink`] was done in the block, which is locked. Answers how many links it still has
    /// too many.
    fn unlinked(&self, _ino: Ino, _by: u16) -> u16 {
        0
    }

    /// The directory `dir` is about to get a name below the directories `above`: as long as one of these
    /// is under way itself, the device may show it below `dir`.
    fn moves_below(&self, _dir: Ino, _above: &[Ino]) {}

    /// Names entered for `ino` from now on are in no image before [`Ordering::name_let_go`]: some of what they
    /// wait for is told after them.
    fn name_held(&self, _ino: Ino) {}

    /// All is told.
    fn name_let_go(&self, _ino: Ino) {}

    /// A name was entered; answers for the directory block, whose buffer is locked.
    fn name_added(
        &self,
        _at: DirPos,
        _target: NamedInode,
        _kind: NameKind,
        _name: &[u8],
    ) -> Addition {
        Addition { then: Disposition::Delay, reserved: 0 }
    }

    /// The record at `at` names `new` instead of `old`; answers for the directory block, whose
    /// buffer is locked.
    fn name_replaced(
        &self,
        _at: DirPos,
        _old: NamedInode,
        _new: NamedInode,
        _kind: NameKind,
        _gone: Gone,
    ) -> Disposition {
        Disposition::Delay
    }

    /// A name is about to be removed; the directory block's buffer is locked.
    fn name_removed(&self, _at: DirPos, _old: NamedInode, _name: &[u8], _gone: Gone) -> Removal {
        Removal { then: Disposition::Delay, reserved: 0, reserve: false }
    }

    /// Compaction moved a live record; the directory block's buffer is locked.
    fn entry_moved(&self, _from: DirPos, _to: DirPos) {}

    /// A directory of `old` bytes will have `new`: the chunks between are in its block `lbn`, whose
    /// buffer is locked. The name entered there is reported next.
    fn directory_grew(&self, _dir: Ino, _lbn: Lbn, _old: u64, _new: u64) {}

    /// Whether any record of `dir` is reserved ([`Removal::reserve`]); so are those not yet told by
    /// [`Ordering::take_freed_slots`].
    fn has_reserved(&self, _dir: Ino) -> bool {
        false
    }

    /// Which records of the chunk at `base` of `dir` are reserved. A record is until
    /// [`Ordering::take_freed_slots`] has told it, or a name was entered there: so it changes only while
    /// somebody has the directory locked for changes.
    fn reserved_in(&self, _dir: Ino, _base: DirOff) -> ReservedMask {
        0
    }

    /// The reserved record of `name` in `dir`, or of a name that looks like it from afar: a new entry of
    /// that name must take it ([`Ordering::name_added`] there).
    fn reserved_for(&self, _dir: Ino, _name: &[u8]) -> Option<DirOff> {
        None
    }

    /// Records of `dir` that were reserved and are free space now. Each is told once.
    fn take_freed_slots(&self, _dir: Ino) -> Vec<DirOff> {
        Vec::new()
    }

    /// Pointers of `ino` were cleared (its inode was reported as [`InodeChange::Truncate`] and
    /// applied): may their blocks be marked free? If later, the caller passes them to
    /// [`Ordering::free_later`].
    fn blocks_released(&self, _ino: Ino) -> FreeNow {
        FreeNow::Yes
    }

    /// Runs that `ino` does not name any more; they may be longer than a block. `partial`: the
    /// indirect blocks, by in-core name, in which pointers to some of them were cleared.
    fn free_later(&self, _ino: Ino, _runs: Vec<FragRun>, _partial: &[i64]) {}

    /// The buffers of these blocks of `ino` were forgotten, changes and all.
    fn blocks_forgotten(&self, _ino: Ino, _blocks: std::ops::RangeInclusive<i64>) {}

    /// `ino` was cleared ([`InodeChange::Free`]): may its number be marked free?
    fn inode_released(&self, _ino: Ino, _was_dir: bool) -> FreeNow {
        FreeNow::Yes
    }

    /// A partly kept block (last data block or indirect block) was changed by a truncation.
    fn truncated_block(&self, _ino: Ino, _block: BufKey) -> Disposition {
        Disposition::Delay
    }

    /// The name last entered for `ino` waits for the content that `dirty` blocks of it have now: a
    /// rename replaced another file with it (`replace_order`).
    fn data_before_name(&self, _ino: Ino, _dirty: &[BufKey]) {}

    /// What can be done now, oldest first, at most `max` pieces.
    fn take_work(&self, _max: usize) -> Vec<Work> {
        Vec::new()
    }

    /// How whole an image of the block would be now.
    fn readiness(&self, _key: BufKey, _kind: BufKind) -> Readiness {
        Readiness::Whole
    }

    /// What has to be written before block `key` may be written at all ([`Readiness::Nothing`]).
    fn held_by(&self, _key: BufKey) -> Vec<BufKey> {
        Vec::new()
    }

    /// The blocks to be written next to reach `goal`; none if it is reached, or if nothing that
    /// could be written would bring it nearer.
    fn next_for(&self, _goal: Goal) -> Vec<BufKey> {
        Vec::new()
    }

    /// Whether everything that `goal` asks for is durable, besides the file's own dirty blocks.
    fn reached(&self, _goal: Goal) -> bool {
        true
    }

    /// The names of the file were changed by an exchange, just now.
    fn note_exchanged(&self, _ino: Ino) {}

    /// Whether an exchange gave the file a name that may not be on the device yet.
    fn is_exchanged(&self, _ino: Ino) -> bool {
        false
    }

    /// Whether the record at `at` is on the device as it is in memory, and can be reached.
    fn name_is_settled(&self, _at: DirPos) -> bool {
        true
    }

    /// Has the changes of names that are outstanding now kept account of, as [`Goal::Names`]; `None` if there
    /// are none. The caller ends it.
    fn begin_sync_point(&self, _which: OlderNames) -> Option<SyncPoint> {
        None
    }

    /// Nobody waits for it any more.
    fn end_sync_point(&self, _point: SyncPoint) {}

    /// What is not finished.
    fn pending(&self) -> Pending {
        Pending::default()
    }

    /// [`Pending::records`], for those who ask at every operation.
    fn records(&self) -> u64 {
        0
    }

    /// Bytes that all this takes: counted when asked for.
    fn memory(&self) -> u64 {
        0
    }
}
