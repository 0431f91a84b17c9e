//! Directories. A directory is a sequence of *chunks* of `DIRBLKSIZ` (512) bytes, which FreeBSD
//! calls directory blocks. Large directories are searched through an index in memory. All others
//! are searched by the traditional linear code, which also replaces an index that is inconsistent.
//!
//! | module | contents |
//! | --- | --- |
//! | `chunks` | walking the chunks of a directory; changing one, all or nothing |
//! | `slot` | where a record of a name is, or where a new one goes |
//! | `search` | finding a name, and the slot for a new one |
//! | `change` | entering, removing, redirecting names; growth and compaction |
//! | `hashed` | the index of a large directory: building, searching, updating it |
//! | `reserved` | records that stay reserved for some time after their removal |
//! | `reclaim` | turning them into free space |
//! | `trim` | truncating unused chunks at the end |
//! | `body` | the first block of a new directory, emptiness, the parent |
//! | `list` | reading in order, with positions that survive changes |
//!
//! # Invariants
//! 1. A walk visits each chunk once and each record of a chunk once, for any content. After a
//!    malformed record it skips the rest of the chunk, at a hole the rest of the block. A name in
//!    the other parts is found. If a name is *not* found and a part was skipped, the result is an
//!    error, never "absent".
//! 2. A change modifies one chunk (growth: one new chunk). If the device refuses the write, the
//!    chunk is restored, so that a failed operation leaves no trace in memory.
//! 3. After a change every byte of a chunk that is no header or name of a record is zero
//!    (`spec/known-failures.md` §2.9). Only the first record of a chunk, or one behind a reserved
//!    record, is ever free.
//! 4. The order of the records in a chunk never changes; compaction only closes gaps between them.
//!
//! # Locking
//! Functions take the locked inode of the directory: [`Dir`] (shared) to read, [`DirMut`]
//! (exclusive) to change.
//!
//! Reference: `spec/directories-and-caches.md` §1, §2; `spec/on-disk-format.md` §8.

mod body;
mod change;
mod chunks;
mod hashed;
mod list;
mod reclaim;
mod reserved;
mod search;
mod slot;
#[cfg(test)]
mod tests;
mod trim;

pub(crate) use body::{init_body, is_empty, parent_of};
pub(crate) use change::{NewName, enter, find_slot, remove, rewrite, rewrite_back, withdraw};
pub(crate) use hashed::prefetch;
pub(crate) use list::read_chunk;
pub(crate) use search::{find, lookup, prefetch_chunk};
pub(crate) use slot::{Slot, SlotSearch};
pub(crate) use trim::shrink;

use crate::inode::{InodeView, LockedInode};
use crate::ordering::EntryTarget;
use ffs_ondisk::dir::{BadRecord, DirFormat};
use ffs_ondisk::{DirOff, Ino};

/// The result of reading one chunk.
type InChunk<T> = std::result::Result<T, BadRecord>;

/// A directory locked for reading.
pub(crate) type Dir<'a> = InodeView<'a>;

/// A directory locked for changes.
pub(crate) type DirMut<'a> = LockedInode<'a>;

/// An entry that a search found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// Offset of its record.
    pub(crate) off: DirOff,
    /// The inode that it names; within the range of inode numbers.
    pub(crate) ino: Ino,
    /// `d_type`.
    pub(crate) dtype: u8,
}

impl Entry {
    /// The inode and type in the record.
    pub(crate) fn target(&self) -> EntryTarget {
        EntryTarget { ino: self.ino, dtype: self.dtype }
    }
}

impl Dir<'_> {
    fn fmt(&self) -> DirFormat {
        DirFormat::of(self.g())
    }

    /// Size of the directory, bytes. No inode of a directory with 2³¹ bytes or more is loaded.
    fn size(&self) -> u32 {
        u32::try_from(self.data.d.size).unwrap_or(u32::MAX)
    }
}

impl DirMut<'_> {
    fn fmt(&self) -> DirFormat {
        self.view().fmt()
    }
}
