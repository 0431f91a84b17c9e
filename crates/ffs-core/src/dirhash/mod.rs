//! Dirhash: for every large directory in use an index in memory from name to offset, and a summary
//! of the room in its chunks. It is never written; the directory itself says what is true.
//!
//! The index holds only offsets; who asks it looks at the record there to see whether it has the
//! right name. A slot is 32 bits: as many as the directory's size needs for the offset, the rest a
//! tag of the name's hash, so that other names' records are practically never looked at, and a name
//! that is not there costs no look into the directory at all. Slots come in blocks of 256 and
//! collide into their neighbours (linear probing).
//!
//! Memory is limited. All indexes stand in one list from least to most recently used; each use
//! moves one a place and raises its score, each need for memory lowers the score of the first, and
//! takes it when the score is used up. So a working set much larger than the pool builds one index
//! in eight accesses at most, instead of one an access.
//!
//! | module | holds |
//! | --- | --- |
//! | `hash` | hash functions of names |
//! | `table` | the slots |
//! | `space` | room in chunks: which chunk a new name goes to, where the useful end is |
//! | `index` | both for one directory, built and kept up |
//! | `cell` | the place of a directory's index, whether there is one or not |
//! | `pool` | all of a mount: memory, recycling |
//!
//! # Invariants
//! 1. An index names every record in use of its directory, at its offset, and nothing else;
//!    directories with two records of one name have none. It follows every change, or goes.
//! 2. Any doubt (a record that is not where it should be, a size that differs, no memory) ends in
//!    the linear search, never in an error or an answer the linear search would not give.
//! 3. Memory charged to the pool is the memory the indexes take, to the byte, without the
//!    allocator's own; it exceeds the limit only when the limit was lowered.
//!
//! # Locking
//! A directory's lock is held shared by whoever asks or builds, alone by whoever changes. A cell's
//! lock comes after it, shared to ask, alone to build, change and recycle. The pool's list comes
//! last and is held for moments; under it cells are only tried, never waited for.
//!
//! Reference: `spec/directories-and-caches.md` §3.

mod cell;
mod hash;
mod index;
mod pool;
mod space;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use cell::DirHash;
pub(crate) use hash::NameHasher;
pub(crate) use index::{Gone, Index, Work};
pub(crate) use pool::Pool;
