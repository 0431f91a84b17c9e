//! Ordering is a policy: operations say what happened, a tenant says when it may reach the disk.
//!
//! | tenant | promise |
//! | --- | --- |
//! | [`SyncOrdered`] | metadata writes are waited for in the order that keeps the tree sound |
//! | [`Unordered`] | none until `sync`, `fsync` or unmount (`mount -o async`) |
//!
//! # Invariants
//! 1. Operations execute the same steps in memory, in the order of `spec/soft-updates.md` §6, for
//!    every tenant; after each step they report it here and hand the answer to
//!    [`crate::buf::BufCache::apply`]. No operation asks which tenant is in force.
//! 2. A tenant never calls the file system back.
//!
//! Reference: `spec/soft-updates.md` §11.

mod none;
mod sync;

pub(crate) use none::Unordered;
pub(crate) use sync::SyncOrdered;

pub(crate) use crate::buf::Disposition;
use crate::buf::WriteHooks;
use ffs_ondisk::{DirOff, FragNo, Ino};

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
    /// A file, of any type but directory, or a directory that already has a name.
    Plain,
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
}

/// A tenant.
pub(crate) trait Ordering: WriteHooks {
    /// The tenant's name as mount options spell it.
    fn name(&self) -> &'static str;

    /// Inode `ino` was taken in its group's map; answers for the group's buffer.
    fn inode_allocated(&self, ino: Ino) -> Disposition;

    /// `fresh`, a block of never used inodes, was initialised before its group counts it; answers
    /// for the inode block's buffer.
    fn inode_block_initialised(&self, fresh: FragRun) -> Disposition;

    /// `run` was taken in its group's map; answers for the group's buffer.
    fn block_allocated(&self, run: FragRun) -> Disposition;

    /// `slot` now names `new` (before: `old`); answers for the buffer of the block itself.
    fn claim_set(
        &self,
        slot: PtrSlot,
        new: FragRun,
        old: Option<FragRun>,
        what: ClaimOf,
    ) -> Disposition;

    /// An indirect block of `ino` that was in use got a pointer to a block claimed as `what`;
    /// answers for the indirect block's buffer.
    fn indirect_changed(&self, ino: Ino, what: ClaimOf) -> Disposition;

    /// An inode changed; answers for its inode block's buffer.
    fn inode_changed(&self, ino: Ino, why: InodeChange) -> Disposition;

    /// A name was entered; answers for the directory block.
    fn name_added(&self, at: DirPos, target: NamedInode, kind: NameKind) -> Disposition;

    /// The record at `at` names `new` instead of `old`; answers for the directory block.
    fn name_replaced(
        &self,
        at: DirPos,
        old: NamedInode,
        new: NamedInode,
        kind: NameKind,
    ) -> Disposition;

    /// A name was removed; answers for the directory block.
    fn name_removed(&self, at: DirPos, old: NamedInode) -> Disposition;

    /// Compaction moved a live record.
    fn entry_moved(&self, from: DirPos, to: DirPos);

    /// Pointers of `ino` were cleared (its inode was reported as [`InodeChange::Truncate`] and
    /// applied): may their blocks be marked free?
    fn blocks_released(&self, ino: Ino) -> FreeNow;

    /// `ino` was cleared ([`InodeChange::Free`]): may its number be marked free?
    fn inode_released(&self, ino: Ino) -> FreeNow;

    /// A partly kept block (last data block or indirect block) was changed by a truncation.
    fn truncated_block(&self, ino: Ino) -> Disposition;
}
