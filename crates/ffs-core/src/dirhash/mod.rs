//! Dirhash: for each large directory in use, an index in memory from names to offsets, and a
//! summary of the free space in its chunks. The index is never written; the directory is
//! authoritative.
//!
//! A *chunk* is `DIRBLKSIZ` (512) bytes of a directory, which FreeBSD calls a directory block.
//!
//! The index has only offsets. A lookup reads the record at an offset to compare its name. A slot
//! has 32 bits: as many as the directory's size needs for the offset; the others are a tag of the
//! name's hash. So a lookup reads almost no records of other names, and for a name that does not
//! exist it reads nothing of the directory. Slots are allocated in blocks of 256 and collide into
//! the next slot (linear probing).
//!
//! Memory is limited. All indexes are in one list, from least to most recently used. Each use moves
//! an index one place and raises its score. Each need for memory lowers the score of the first
//! index, and recycles it at score 0. So with a working set much larger than the pool at most one
//! access in eight builds an index, instead of each access.
//!
//! | module | contents |
//! | --- | --- |
//! | `hash` | hash functions of names |
//! | `table` | the slots |
//! | `space` | free space of chunks: the chunk for a new name, the end of the part in use |
//! | `index` | table and free space of one directory |
//! | `cell` | the index of a directory and its place in the pool's list |
//! | `handle` | [`DirHash`]: building, reading and updating a directory's index |
//! | `pool` | all indexes of a mount: memory, recycling |
//!
//! # Invariants
//! 1. An index names every record in use of its directory, at its offset, and nothing else. A
//!    directory with two records of one name has no index. An index follows every change of its
//!    directory, or is dropped.
//! 2. In any doubt (a record that is not where it should be, a size that differs, no memory) the
//!    linear search answers. Dirhash causes no error and no result that the linear search would not
//!    give.
//! 3. The memory charged to the pool is the memory of the indexes, to the byte, without the
//!    allocator's own. It exceeds the limit only after the limit was lowered.
//!
//! # Locking
//! 1. A directory's lock is held shared to read or build its index, exclusively to change it.
//! 2. A cell's lock comes after it: shared to read, exclusive to build, change and recycle.
//! 3. The lock of the pool's list comes last and is held for moments. Under it cells are tried,
//!    never waited for.
//!
//! Reference: `spec/directories-and-caches.md` §3.

mod cell;
mod drop_reason;
mod handle;
mod hash;
mod index;
mod pool;
mod space;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use drop_reason::DropReason;
pub(crate) use handle::DirHash;
pub(crate) use hash::NameHasher;
pub(crate) use index::{Index, SearchCost};
pub(crate) use pool::Pool;
