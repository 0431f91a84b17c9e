//! The undecided records of a directory block, in the order of their places.
//!
//! # Invariants
//! 1. A chunk is listed exactly while a record of it is.
//! 2. A chunk's mask `known` has exactly its records: how many bits are below a record's is its place in the
//!    list, so that none has to be looked at to find it.
//! 3. The mask `reserved` has the records whose newest value is "nothing": who enters a value says so.

use super::names::{Chain, Value, chunk_of};
use ffs_ondisk::DirOff;
use ffs_ondisk::geometry::DIRBLKSIZ;

/// Records of a block. An operation changes one or two of them, an image reads all.
#[derive(Debug, Default)]
pub(super) struct Records(Vec<Chunk>);

/// Records of a chunk.
#[derive(Debug)]
struct Chunk {
    /// Its number in the directory.
    number: u32,
    known: u128,
    reserved: u128,
    records: Vec<Chain>,
}

/// The bit of a record in its chunk's mask: records start at multiples of four bytes.
pub(super) fn bit(off: u32) -> u128 {
    1 << (off % DIRBLKSIZ as u32 / 4)
}

impl Records {
    fn find(&self, number: u32) -> Result<usize, usize> {
        // Most often there is something of every chunk.
        let first = self.0.first().map_or(0, |c| c.number);
        let at = number.wrapping_sub(first) as usize;
        if self.0.get(at).is_some_and(|c| c.number == number) {
            return Ok(at);
        }
        self.0.binary_search_by_key(&number, |c| c.number)
    }

    fn chunk(&self, off: u32) -> Option<&Chunk> {
        self.0.get(self.find(chunk_of(DirOff(off))).ok()?)
    }

    fn chunk_mut(&mut self, off: u32) -> &mut Chunk {
        let number = chunk_of(DirOff(off));
        let at = self.find(number).unwrap_or_else(|at| {
            // Most often there will be one: a directory changes here and there.
            let records = Vec::with_capacity(1);
            self.0.insert(at, Chunk { number, known: 0, reserved: 0, records });
            at
        });
        &mut self.0[at]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, off: u32) -> Option<&Chain> {
        let chunk = self.chunk(off)?;
        chunk.records.get(chunk.find(off)?)
    }

    pub(super) fn get_mut(&mut self, off: u32) -> Option<&mut Chain> {
        let chunk = self.find(chunk_of(DirOff(off))).ok()?;
        let chunk = self.0.get_mut(chunk)?;
        let at = chunk.find(off)?;
        chunk.records.get_mut(at)
    }

    /// The chain of the record, which gets another value; a new one has `base` on the device.
    /// `reserved`: whether that value is "nothing".
    pub(super) fn enter(&mut self, off: u32, base: Value, reserved: bool) -> &mut Chain {
        let chunk = self.chunk_mut(off);
        let bit = bit(off);
        chunk.reserved = if reserved { chunk.reserved | bit } else { chunk.reserved & !bit };
        let at = chunk.place(off);
        if chunk.known & bit == 0 {
            chunk.known |= bit;
            chunk.records.insert(at, Chain::new(base, off));
        }
        &mut chunk.records[at]
    }

    /// The chain of a record that is not reserved came to another place, in which nothing is known.
    pub(super) fn insert(&mut self, off: u32, chain: Chain) {
        let base = chain.base();
        self.enter(off, base, false).versions = chain.versions;
    }

    pub(super) fn remove(&mut self, off: u32) -> Option<Chain> {
        let number = self.find(chunk_of(DirOff(off))).ok()?;
        let chunk = self.0.get_mut(number)?;
        let at = chunk.find(off)?;
        chunk.known &= !bit(off);
        chunk.reserved &= !bit(off);
        let chain = chunk.records.remove(at);
        if chunk.records.is_empty() {
            self.0.remove(number);
        }
        Some(chain)
    }

    pub(super) fn bytes(&self) -> usize {
        let records = |c: &Chunk| {
            let lists = c.records.iter().map(|chain| chain.versions.bytes()).sum::<usize>();
            c.records.capacity() * size_of::<Chain>() + lists
        };
        size_of::<Records>()
            + self.0.capacity() * size_of::<Chunk>()
            + self.0.iter().map(records).sum::<usize>()
    }

    /// The reserved records of the chunk of `off`, as [`bit`] has them.
    pub(super) fn reserved_in(&self, off: u32) -> u128 {
        self.chunk(off).map_or(0, |c| c.reserved)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Chain)> {
        self.0.iter().flat_map(Chunk::records)
    }

    pub(super) fn into_chains(self) -> impl Iterator<Item = Chain> {
        self.0.into_iter().flat_map(|c| c.records)
    }
}

impl Chunk {
    fn records(&self) -> impl Iterator<Item = (u32, &Chain)> {
        let base = self.number * DIRBLKSIZ as u32;
        self.records.iter().map(move |chain| (base + u32::from(chain.within), chain))
    }

    /// Where the record is in the list, or would be.
    fn place(&self, off: u32) -> usize {
        (self.known & (bit(off) - 1)).count_ones() as usize
    }

    fn find(&self, off: u32) -> Option<usize> {
        (self.known & bit(off) != 0).then(|| self.place(off))
    }
}
