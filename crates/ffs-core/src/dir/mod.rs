//! Directories: rows of 512-byte chunks. Large ones are searched through an index in memory, all
//! others, and whatever is in doubt, by the traditional linear code.
//!
//! | module | holds |
//! | --- | --- |
//! | `chunks` | walking the chunks of a directory; changing one, all or nothing |
//! | `search` | finding a name, and room for a new one |
//! | `change` | entering, removing, redirecting names; growth and compaction |
//! | `hashed` | the index of a large directory: built, asked, kept up |
//! | `reserved` | records that a removal left in their place for a while |
//! | `trim` | cutting off the empty end |
//! | `body` | the first block of a new directory, emptiness, the parent |
//! | `list` | reading in order, with positions that survive changes |
//!
//! # Invariants
//! 1. Whatever the bytes are, a walk visits each chunk once and each record of a chunk once. A
//!    malformed chunk or a hole costs the rest of that chunk or block: a name found elsewhere is
//!    found, a name *not* found while something was malformed is an error, never "absent".
//! 2. A change touches one chunk (growth: one new chunk). If its write is refused by the device the
//!    chunk is as it was, so that a failed operation left no trace in memory.
//! 3. Every byte of a chunk that is no record's header or name is zero after we changed it
//!    (`spec/known-failures.md` §2.9), and only the first record of a chunk is ever left free, or
//!    one behind a reserved record.
//! 4. The order of the records in a chunk never changes; compaction only closes gaps between them.
//!
//! # Locking
//! Functions take the locked inode of the directory ([`Dir`], [`DirMut`]): shared to look,
//! exclusive to change.
//!
//! Reference: `spec/directories-and-caches.md` §1, §2; `spec/on-disk-format.md` §8.

mod body;
mod change;
mod chunks;
mod hashed;
mod list;
mod reserved;
mod search;
#[cfg(test)]
mod tests;
mod trim;

pub(crate) use body::{init_body, is_empty, parent_of};
pub(crate) use change::{enter, find_room, remove, rewrite, rewrite_back, withdraw};
pub(crate) use hashed::prefetch;
pub(crate) use list::read_chunk;
pub(crate) use search::{Room, Slot, find, lookup, prefetch_chunk};
pub(crate) use trim::shrink;

use crate::inode::{InodeView, LockedInode};
use crate::ordering::EntryTarget;
use ffs_ondisk::dir::{BadRecord, DirFormat};
use ffs_ondisk::{DirOff, Ino};

/// Result of looking at one chunk.
type InChunk<T> = std::result::Result<T, BadRecord>;

/// A locked directory, for operations that only read.
pub(crate) type Dir<'a> = InodeView<'a>;

/// A directory locked for changes.
pub(crate) type DirMut<'a> = LockedInode<'a>;

/// An entry that a search found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// Where its record starts.
    pub(crate) off: DirOff,
    /// What it names; a number in the range of inode numbers.
    pub(crate) ino: Ino,
    /// `d_type`.
    pub(crate) dtype: u8,
}

impl Entry {
    /// What the record names, as the ordering policy hears it.
    pub(crate) fn names(&self) -> EntryTarget {
        EntryTarget { ino: self.ino, dtype: self.dtype }
    }
}

impl Dir<'_> {
    fn fmt(&self) -> DirFormat {
        DirFormat::of(self.g())
    }

    /// Bytes. An inode is only let into memory with a directory size below 2³¹.
    fn size(&self) -> u32 {
        u32::try_from(self.data.d.size).unwrap_or(u32::MAX)
    }
}

impl DirMut<'_> {
    fn fmt(&self) -> DirFormat {
        self.view().fmt()
    }
}
