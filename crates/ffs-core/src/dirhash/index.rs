//! The index of one directory: the hash table and the free space of its chunks.
//!
//! # Invariants
//! 1. The index is valid for a directory of exactly [`Index::size`] bytes.
//! 2. A change that the index cannot follow is an error; the caller then drops the index
//!    ([`DropReason`]).
//!
//! Reference: `spec/directories-and-caches.md` §3.3, §3.4, §3.7.

use super::drop_reason::DropReason;
use super::hash::NameHasher;
use super::space::{Space, WORD, WORDS};
use super::table::{BLOCK, Probe, Table};
use ffs_ondisk::DirOff;
use ffs_ondisk::dinode::MAXDIRSIZE;
use ffs_ondisk::dir::dirsiz;
use ffs_ondisk::geometry::DIRBLKSIZ;
use std::mem::size_of;

/// The cost of a search.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct SearchCost {
    /// Slots read.
    pub(crate) probes: u64,
    /// Records read.
    pub(crate) inspected: u64,
    /// Whether the prediction was right, if it was in the chain.
    pub(crate) predicted: Option<bool>,
}

/// The records of one directory by the hash of their names, and the free space of its chunks.
#[derive(Debug)]
pub(crate) struct Index {
    hasher: NameHasher,
    table: Table,
    space: Space,
    /// Whether to repeat two defects of the code that the paper measured (see [`Table::remove`],
    /// `space`).
    compat: bool,
}

/// The sizes of the parts of an index.
struct Sizing {
    blocks: usize,
    chunks: u32,
    capacity: u32,
}

impl Sizing {
    /// One and a half times the slots that the directory can need: the smallest record has 12
    /// bytes.
    fn of(size: u32) -> Sizing {
        let slots = (size as usize / dirsiz(1) * 3).div_ceil(2);
        let chunks = size.div_ceil(DIRBLKSIZ as u32);
        let largest = (MAXDIRSIZE / DIRBLKSIZ as u64) as u32;
        Sizing {
            blocks: slots.div_ceil(BLOCK).max(1),
            chunks,
            capacity: (chunks * 3).div_ceil(2).min(largest).max(chunks),
        }
    }

    fn charge(&self) -> u64 {
        let block = size_of::<Box<[u32; BLOCK]>>() + size_of::<[u32; BLOCK]>();
        (size_of::<Index>() + block * self.blocks + self.capacity as usize) as u64
    }
}

/// Words of a record for a name of `namlen` bytes.
fn words(namlen: usize) -> i16 {
    (dirsiz(namlen) / WORD) as i16
}

fn chunk_number(off: DirOff) -> u32 {
    off.0 / DIRBLKSIZ as u32
}

impl Index {
    /// Memory of the index of a directory of `size` bytes, bytes.
    pub(super) fn charge_for(size: u32) -> u64 {
        Sizing::of(size).charge()
    }

    /// An empty index for a directory of `size` bytes.
    pub(super) fn new(size: u32, hasher: NameHasher, compat: bool) -> Index {
        let s = Sizing::of(size);
        let end = u64::from(s.capacity) * DIRBLKSIZ as u64;
        let (table, space) = (Table::new(s.blocks, end), Space::new(s.chunks, s.capacity, compat));
        Index { hasher, table, space, compat }
    }

    /// Memory of the index, bytes.
    pub(super) fn charge(&self) -> u64 {
        let blocks = self.table.len() as usize / BLOCK;
        Sizing { blocks, chunks: 0, capacity: self.space.capacity() }.charge()
    }

    /// The hash function of the index.
    pub(crate) fn hasher(&self) -> NameHasher {
        self.hasher
    }

    /// Size of the directory that the index is valid for, bytes.
    pub(crate) fn size(&self) -> u64 {
        u64::from(self.space.chunks()) * DIRBLKSIZ as u64
    }

    /// While building: enters a record. `is_same` compares the names of two records with one hash.
    ///
    /// # Errors
    /// Those of `is_same`; [`DropReason::Inconsistent`] if another record has the same name.
    pub(crate) fn build_entry<E: From<DropReason>>(
        &mut self,
        hash: u32,
        off: DirOff,
        mut is_match: impl FnMut(DirOff) -> Result<bool, E>,
    ) -> Result<(), E> {
        let home = self.table.home(hash);
        for probe in self.table.chain(home) {
            if let Probe::Candidate(other) = probe
                && is_match(other)?
            {
                return Err(DropReason::Inconsistent.into());
            }
        }
        if self.table.insert(home, off) { Ok(()) } else { Err(DropReason::Inconsistent.into()) }
    }

    /// While building: sets the free space of chunk `n`, bytes.
    ///
    /// # Errors
    /// [`DropReason::Inconsistent`] if a chunk cannot have so much.
    pub(crate) fn build_chunk(&mut self, n: u32, free: usize) -> Result<(), DropReason> {
        self.space.set(n, u8::try_from(free / WORD).unwrap_or(u8::MAX))
    }

    /// Finds the record that `is_match` accepts among those whose names may have this hash. The
    /// record at `predicted` is tried first if it is among them.
    ///
    /// # Errors
    /// Those of `is_match`.
    #[inline]
    pub(crate) fn search<E>(
        &self,
        hash: u32,
        predicted: Option<DirOff>,
        cost: &mut SearchCost,
        mut is_match: impl FnMut(DirOff) -> Result<bool, E>,
    ) -> Result<Option<DirOff>, E> {
        let home = self.table.home(hash);
        if let Some(q) = predicted {
            let (mut first, mut there) = (None, false);
            for probe in self.table.chain(home) {
                cost.probes += 1;
                if let Probe::Candidate(off) = probe {
                    first = first.or(Some(off));
                    there = off == q;
                    if there {
                        break;
                    }
                }
            }
            if there {
                cost.inspected += 1;
                let right = is_match(q)?;
                cost.predicted = Some(right);
                if right {
                    return Ok(Some(q));
                }
            } else if first.is_none() {
                return Ok(None);
            }
        }
        for probe in self.table.chain(home) {
            cost.probes += 1;
            if let Probe::Candidate(off) = probe {
                cost.inspected += 1;
                if is_match(off)? {
                    return Ok(Some(off));
                }
            }
        }
        Ok(None)
    }

    /// Fetches the slot of a hash that is about to be searched or entered into the processor's
    /// cache.
    pub(crate) fn prefetch(&self, hash: u32) {
        self.table.prefetch(self.table.home(hash));
    }

    /// The chunk to which a record for a name of `namlen` bytes goes.
    pub(crate) fn find_free(&self, namlen: usize) -> Option<DirOff> {
        self.space.find(words(namlen) as usize).map(|n| DirOff(n * DIRBLKSIZ as u32))
    }

    /// Adds an empty chunk at the end.
    ///
    /// # Errors
    /// [`DropReason::Outgrown`].
    pub(crate) fn add_chunk(&mut self) -> Result<(), DropReason> {
        self.space.grow().map(drop)
    }

    /// Adds the record at `off`, with a name of `namlen` bytes, and charges its space.
    ///
    /// # Errors
    /// [`DropReason::Full`]; [`DropReason::Inconsistent`] if the chunk has not enough free space.
    pub(crate) fn add(&mut self, hash: u32, namlen: usize, off: DirOff) -> Result<(), DropReason> {
        self.add_entry(hash, off)?;
        self.space.adjust(chunk_number(off), -words(namlen))
    }

    /// Adds the record at `off`. The caller then calls [`Index::set_free`].
    ///
    /// # Errors
    /// As [`Index::add`].
    pub(crate) fn add_entry(&mut self, hash: u32, off: DirOff) -> Result<(), DropReason> {
        if self.table.used() >= self.table.len() / 4 * 3 {
            return Err(DropReason::Full);
        }
        if !self.table.insert(self.table.home(hash), off) {
            return Err(DropReason::Inconsistent);
        }
        Ok(())
    }

    /// Removes the record at `off`, with a name of `namlen` bytes, and frees its space.
    ///
    /// # Errors
    /// [`DropReason::Inconsistent`] if the index has no such record.
    pub(crate) fn remove(
        &mut self,
        hash: u32,
        namlen: usize,
        off: DirOff,
    ) -> Result<(), DropReason> {
        self.remove_entry(hash, off)?;
        self.space.adjust(chunk_number(off), words(namlen))
    }

    /// Removes the record at `off`. The caller then calls [`Index::set_free`].
    ///
    /// # Errors
    /// [`DropReason::Inconsistent`] if the index has no such record.
    pub(crate) fn remove_entry(&mut self, hash: u32, off: DirOff) -> Result<(), DropReason> {
        match self.table.remove(self.table.home(hash), off, self.compat) {
            true => Ok(()),
            false => Err(DropReason::Inconsistent),
        }
    }

    /// Sets the free space of the chunk at `off`, bytes.
    ///
    /// # Errors
    /// [`DropReason::Inconsistent`] if a chunk cannot have so much.
    pub(crate) fn set_free(&mut self, off: DirOff, free: usize) -> Result<(), DropReason> {
        self.build_chunk(chunk_number(off), free)
    }

    /// Records that a record moved within its chunk.
    ///
    /// # Errors
    /// As [`Index::remove`].
    pub(crate) fn move_entry(
        &mut self,
        hash: u32,
        from: DirOff,
        to: DirOff,
    ) -> Result<(), DropReason> {
        let home = self.table.home(hash);
        if self.table.replace(home, from, to) { Ok(()) } else { Err(DropReason::Inconsistent) }
    }

    /// Truncates the directory to `size` bytes.
    ///
    /// # Errors
    /// [`DropReason::Shrunk`]; [`DropReason::Inconsistent`] if a truncated chunk was in use.
    pub(crate) fn truncate(&mut self, size: u64) -> Result<(), DropReason> {
        let chunks =
            u32::try_from(size / DIRBLKSIZ as u64).map_err(|_| DropReason::Inconsistent)?;
        if chunks < self.space.capacity() / 8 && self.table.len() as usize > BLOCK {
            return Err(DropReason::Shrunk);
        }
        self.space.truncate(chunks)
    }

    /// End of the last chunk in use, bytes.
    pub(crate) fn end_useful(&self) -> u64 {
        u64::from(self.space.chunks_used()) * DIRBLKSIZ as u64
    }

    /// Whether the index has a record with this hash at `off`.
    pub(crate) fn contains(&self, hash: u32, off: DirOff) -> bool {
        self.table.contains(self.table.home(hash), off)
    }

    /// Whether the index has `free` bytes of free space for the chunk at `off`.
    pub(crate) fn has_free(&self, off: DirOff, free: usize) -> bool {
        let free = u8::try_from(free / WORD).unwrap_or(WORDS + 1);
        self.space.has_free(chunk_number(off), free)
    }

    /// Recounts everything; panics on a difference. Returns the number of records.
    #[cfg(test)]
    pub(crate) fn audit(&self) -> u32 {
        let (live, used) = self.table.count();
        assert_eq!(used, self.table.used());
        self.space.audit();
        live
    }

    /// Number of slots, and how many are not empty.
    #[cfg(test)]
    pub(super) fn slots(&self) -> (u32, u32) {
        (self.table.len(), self.table.used())
    }
}
