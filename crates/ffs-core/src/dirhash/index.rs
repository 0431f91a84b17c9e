//! The index of one directory: slots and room, built and kept up together.
//!
//! # Invariants
//! 1. It answers for a directory of exactly [`Index::size`] bytes.
//! 2. A change it cannot follow is an error, upon which the caller drops it: see [`Gone`].
//!
//! Reference: `spec/directories-and-caches.md` §3.3, §3.4, §3.7.

use super::hash::NameHasher;
use super::space::{Space, WORD, WORDS};
use super::table::{BLOCK, Seen, Table};
use ffs_ondisk::DirOff;
use ffs_ondisk::dinode::MAXDIRSIZE;
use ffs_ondisk::dir::dirsiz;
use ffs_ondisk::geometry::DIRBLKSIZ;
use std::mem::size_of;

/// Why a directory has no index any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Gone {
    /// Three quarters of its slots were in use.
    Full,
    /// The directory has more chunks than there is place to note.
    Outgrown,
    /// The directory became so small that most of the memory is wasted.
    Shrunk,
    /// The directory was removed, is too small, or the switch was set so.
    Unwanted,
    /// It did not agree with the directory.
    Doubt,
}

/// What a search did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Work {
    /// Slots looked at.
    pub(crate) probes: u64,
    /// Records looked at.
    pub(crate) inspected: u64,
    /// The prediction was in the chain: whether it was right.
    pub(crate) predicted: Option<bool>,
}

/// Name to offset for one directory, and room.
#[derive(Debug)]
pub(crate) struct Index {
    hasher: NameHasher,
    table: Table,
    space: Space,
    /// The paper's faults (see `table`, `space`).
    paper: bool,
}

/// How large the parts for a directory of some size are.
struct Sizing {
    blocks: usize,
    chunks: u32,
    most: u32,
}

impl Sizing {
    /// Half as much again as the directory can need: 12 bytes is the smallest record.
    fn of(size: u32) -> Sizing {
        let slots = (size as usize / dirsiz(1) * 3).div_ceil(2);
        let chunks = size.div_ceil(DIRBLKSIZ as u32);
        let largest = (MAXDIRSIZE / DIRBLKSIZ as u64) as u32;
        Sizing {
            blocks: slots.div_ceil(BLOCK).max(1),
            chunks,
            most: (chunks * 3).div_ceil(2).min(largest).max(chunks),
        }
    }

    fn charge(&self) -> u64 {
        let block = size_of::<Box<[u32; BLOCK]>>() + size_of::<[u32; BLOCK]>();
        (size_of::<Index>() + block * self.blocks + self.most as usize) as u64
    }
}

/// Words a record of a name of so many bytes needs.
fn words(namlen: usize) -> i16 {
    (dirsiz(namlen) / WORD) as i16
}

fn chunk_number(off: DirOff) -> u32 {
    off.0 / DIRBLKSIZ as u32
}

impl Index {
    /// Bytes of memory for the index of a directory of `size` bytes.
    pub(super) fn charge_for(size: u32) -> u64 {
        Sizing::of(size).charge()
    }

    /// An index of nothing, for a directory of `size` bytes.
    pub(super) fn new(size: u32, hasher: NameHasher, paper: bool) -> Index {
        let s = Sizing::of(size);
        let end = u64::from(s.most) * DIRBLKSIZ as u64;
        let (table, space) = (Table::new(s.blocks, end), Space::new(s.chunks, s.most, paper));
        Index { hasher, table, space, paper }
    }

    /// Bytes of memory it takes.
    pub(super) fn charge(&self) -> u64 {
        let blocks = self.table.len() as usize / BLOCK;
        Sizing { blocks, chunks: 0, most: self.space.most() }.charge()
    }

    /// Its hash function.
    pub(crate) fn hasher(&self) -> NameHasher {
        self.hasher
    }

    /// Bytes of the directory it is right for.
    pub(crate) fn size(&self) -> u64 {
        u64::from(self.space.chunks()) * DIRBLKSIZ as u64
    }

    /// Building: enters a record. Another of the same name, as `same` tells, is an error.
    ///
    /// # Errors
    /// `same`'s; [`Gone::Doubt`] as such.
    pub(crate) fn build_entry<E: From<Gone>>(
        &mut self,
        hash: u32,
        off: DirOff,
        mut same: impl FnMut(DirOff) -> Result<bool, E>,
    ) -> Result<(), E> {
        let home = self.table.home(hash);
        for seen in self.table.chain(home) {
            if let Seen::Candidate(other) = seen
                && same(other)?
            {
                return Err(Gone::Doubt.into());
            }
        }
        if self.table.insert(home, off) { Ok(()) } else { Err(Gone::Doubt.into()) }
    }

    /// Building: chunk `n` has `free` bytes of room.
    ///
    /// # Errors
    /// It cannot have.
    pub(crate) fn build_chunk(&mut self, n: u32, free: usize) -> Result<(), Gone> {
        self.space.set(n, u8::try_from(free / WORD).unwrap_or(u8::MAX))
    }

    /// The record that `same` accepts among those whose names may have this hash. The one at
    /// `predicted` is tried first if it is among them.
    ///
    /// # Errors
    /// `same`'s.
    #[inline]
    pub(crate) fn search<E>(
        &self,
        hash: u32,
        predicted: Option<DirOff>,
        work: &mut Work,
        mut same: impl FnMut(DirOff) -> Result<bool, E>,
    ) -> Result<Option<DirOff>, E> {
        let home = self.table.home(hash);
        if let Some(q) = predicted {
            let (mut first, mut there) = (None, false);
            for seen in self.table.chain(home) {
                work.probes += 1;
                if let Seen::Candidate(off) = seen {
                    first = first.or(Some(off));
                    there = off == q;
                    if there {
                        break;
                    }
                }
            }
            if there {
                work.inspected += 1;
                let right = same(q)?;
                work.predicted = Some(right);
                if right {
                    return Ok(Some(q));
                }
            } else if first.is_none() {
                return Ok(None);
            }
        }
        for seen in self.table.chain(home) {
            work.probes += 1;
            if let Seen::Candidate(off) = seen {
                work.inspected += 1;
                if same(off)? {
                    return Ok(Some(off));
                }
            }
        }
        Ok(None)
    }

    /// A name with this hash will be searched or entered.
    pub(crate) fn prefetch(&self, hash: u32) {
        self.table.prefetch(self.table.home(hash));
    }

    /// Where a record for a name of `namlen` bytes goes: the start of a chunk with room for it.
    pub(crate) fn find_room(&self, namlen: usize) -> Option<DirOff> {
        self.space.find(words(namlen) as usize).map(|n| DirOff(n * DIRBLKSIZ as u32))
    }

    /// The directory grew by a chunk at its end.
    ///
    /// # Errors
    /// [`Gone::Outgrown`].
    pub(crate) fn grown(&mut self) -> Result<(), Gone> {
        self.space.grow().map(drop)
    }

    /// A name of `namlen` bytes was entered at `off`.
    ///
    /// # Errors
    /// [`Gone::Full`]; [`Gone::Doubt`] if there was no room.
    pub(crate) fn added(&mut self, hash: u32, namlen: usize, off: DirOff) -> Result<(), Gone> {
        self.entered(hash, off)?;
        self.space.adjust(chunk_number(off), -words(namlen))
    }

    /// A name was entered at `off`; [`Index::set_room`] follows.
    ///
    /// # Errors
    /// As [`Index::added`].
    pub(crate) fn entered(&mut self, hash: u32, off: DirOff) -> Result<(), Gone> {
        if self.table.used() >= self.table.len() / 4 * 3 {
            return Err(Gone::Full);
        }
        if !self.table.insert(self.table.home(hash), off) {
            return Err(Gone::Doubt);
        }
        Ok(())
    }

    /// The record of a name of `namlen` bytes at `off` was removed.
    ///
    /// # Errors
    /// [`Gone::Doubt`] if there was none.
    pub(crate) fn removed(&mut self, hash: u32, namlen: usize, off: DirOff) -> Result<(), Gone> {
        self.left(hash, off)?;
        self.space.adjust(chunk_number(off), words(namlen))
    }

    /// The record at `off` was removed; [`Index::set_room`] follows.
    ///
    /// # Errors
    /// [`Gone::Doubt`] if there was none.
    pub(crate) fn left(&mut self, hash: u32, off: DirOff) -> Result<(), Gone> {
        match self.table.remove(self.table.home(hash), off, self.paper) {
            true => Ok(()),
            false => Err(Gone::Doubt),
        }
    }

    /// The chunk at `off` has `free` bytes of room.
    ///
    /// # Errors
    /// [`Gone::Doubt`] if it cannot have.
    pub(crate) fn set_room(&mut self, off: DirOff, free: usize) -> Result<(), Gone> {
        self.build_chunk(chunk_number(off), free)
    }

    /// A record was slid to another place of its chunk.
    ///
    /// # Errors
    /// As [`Index::removed`].
    pub(crate) fn moved(&mut self, hash: u32, from: DirOff, to: DirOff) -> Result<(), Gone> {
        let home = self.table.home(hash);
        if self.table.replace(home, from, to) { Ok(()) } else { Err(Gone::Doubt) }
    }

    /// The directory was cut to `size` bytes.
    ///
    /// # Errors
    /// [`Gone::Shrunk`]; [`Gone::Doubt`] if what was cut off was in use.
    pub(crate) fn cut(&mut self, size: u64) -> Result<(), Gone> {
        let chunks = u32::try_from(size / DIRBLKSIZ as u64).map_err(|_| Gone::Doubt)?;
        if chunks < self.space.most() / 8 && self.table.len() as usize > BLOCK {
            return Err(Gone::Shrunk);
        }
        self.space.cut(chunks)
    }

    /// Where the chunks that are in use end, bytes.
    pub(crate) fn end_useful(&self) -> u64 {
        u64::from(self.space.useful()) * DIRBLKSIZ as u64
    }

    /// Whether a record of a name with this hash is known at `off`.
    pub(crate) fn holds(&self, hash: u32, off: DirOff) -> bool {
        self.table.holds(self.table.home(hash), off)
    }

    /// Whether the chunk at `off`, which has `free` bytes of room, is known so.
    pub(crate) fn notes_room(&self, off: DirOff, free: usize) -> bool {
        let free = u8::try_from(free / WORD).unwrap_or(WORDS + 1);
        self.space.is_noted(chunk_number(off), free)
    }

    /// Recounts everything; panics where it differs. Returns the number of entries.
    #[cfg(test)]
    pub(crate) fn audit(&self) -> u32 {
        let (live, used) = self.table.count();
        assert_eq!(used, self.table.used());
        self.space.audit();
        live
    }

    /// Slots, and those in use.
    #[cfg(test)]
    pub(super) fn slots(&self) -> (u32, u32) {
        (self.table.len(), self.table.used())
    }
}
