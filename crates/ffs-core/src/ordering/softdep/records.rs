//! The undecided records of a directory block, in the order of their places.
//!
//! # Invariants
//! 1. A chunk is listed exactly while a record of it is.
//! 2. A chunk's mask `known` has exactly its records: how many bits are below a record's is its place in `order`,
//!    which tells where its chain is. So none has to be looked at to find one, and none moves when another comes.
//! 3. The mask `reserved` has the records whose newest value is "nothing": who enters a value says so.

use super::memory::heap;
use super::names::{Chain, Value, chunk_of};
use ffs_ondisk::DirOff;
use ffs_ondisk::geometry::DIRBLKSIZ;
use smallvec::SmallVec;

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
    /// Places of the chains, in the order of the records.
    order: SmallVec<[u8; 32]>,
    chains: Vec<Chain>,
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
            let (order, chains) = (SmallVec::new(), Vec::with_capacity(1));
            self.0.insert(at, Chunk { number, known: 0, reserved: 0, order, chains });
            at
        });
        &mut self.0[at]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, off: u32) -> Option<&Chain> {
        let chunk = self.chunk(off)?;
        chunk.chains.get(chunk.find(off)?)
    }

    pub(super) fn get_mut(&mut self, off: u32) -> Option<&mut Chain> {
        let chunk = self.find(chunk_of(DirOff(off))).ok()?;
        let chunk = self.0.get_mut(chunk)?;
        let at = chunk.find(off)?;
        chunk.chains.get_mut(at)
    }

    /// The chain of the record, which gets another value; a new one has `base` on the device.
    /// `reserved`: whether that value is "nothing".
    pub(super) fn enter(&mut self, off: u32, base: Value, reserved: bool) -> &mut Chain {
        let chunk = self.chunk_mut(off);
        let bit = bit(off);
        chunk.reserved = if reserved { chunk.reserved | bit } else { chunk.reserved & !bit };
        let place = chunk.place(off);
        if chunk.known & bit == 0 {
            chunk.known |= bit;
            chunk.order.insert(place, chunk.chains.len() as u8);
            chunk.chains.push(Chain::new(base, off));
        }
        let at = usize::from(chunk.order[place]);
        &mut chunk.chains[at]
    }

    /// The chain of a record that is not reserved came to another place, in which nothing is known.
    pub(super) fn insert(&mut self, off: u32, chain: Chain) {
        let base = chain.base();
        self.enter(off, base, false).versions = chain.versions;
    }

    pub(super) fn remove(&mut self, off: u32) -> Option<Chain> {
        let number = self.find(chunk_of(DirOff(off))).ok()?;
        let chunk = self.0.get_mut(number)?;
        let chain = chunk.remove(off)?;
        if chunk.chains.is_empty() {
            self.0.remove(number);
        }
        Some(chain)
    }

    pub(super) fn bytes(&self) -> usize {
        let records = |c: &Chunk| {
            let lists = c.chains.iter().map(|chain| chain.versions.bytes()).sum::<usize>();
            c.chains.capacity() * size_of::<Chain>() + heap(&c.order) + lists
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
        self.0.into_iter().flat_map(|c| c.chains)
    }
}

impl Chunk {
    fn records(&self) -> impl Iterator<Item = (u32, &Chain)> {
        let base = self.number * DIRBLKSIZ as u32;
        let chains = self.order.iter().filter_map(|at| self.chains.get(usize::from(*at)));
        chains.map(move |chain| (base + u32::from(chain.within), chain))
    }

    fn remove(&mut self, off: u32) -> Option<Chain> {
        let place = self.place(off);
        let at = self.find(off)?;
        self.known &= !bit(off);
        self.reserved &= !bit(off);
        self.order.remove(place);
        let chain = self.chains.swap_remove(at);
        // The last one came to its place.
        if let Some(within) = self.chains.get(at).map(|c| u32::from(c.within)) {
            let place = self.place(within);
            self.order[place] = at as u8;
        }
        Some(chain)
    }

    /// Where the record is in the order, or would be.
    fn place(&self, off: u32) -> usize {
        (self.known & (bit(off) - 1)).count_ones() as usize
    }

    fn find(&self, off: u32) -> Option<usize> {
        let known = self.known & bit(off) != 0;
        known.then(|| self.order.get(self.place(off)).copied().map(usize::from))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffs_device::{Rng, SplitMix64};
    use ffs_ondisk::Ino;
    use std::collections::BTreeMap;

    #[test]
    fn as_a_tree_by_offset() {
        let (mut all, mut model) = (Records::default(), BTreeMap::new());
        let rng = SplitMix64::new(0x4ec0);
        for n in 1..40_000u32 {
            let (chunk, slot) = (rng.below(7) as u32, rng.below(60) as u32);
            let off = 16384 + chunk * DIRBLKSIZ as u32 + slot * 8;
            let reserved = rng.below(4) == 0;
            if rng.below(2) == 0 {
                all.enter(off, (Ino(n), 8), reserved);
                model.entry(off).or_insert((n, reserved)).1 = reserved;
            } else {
                let removed = all.remove(off).map(|c| c.base().0.0);
                assert_eq!(removed, model.remove(&off).map(|(ino, _)| ino));
            }
            assert_eq!(all.get(off).map(|c| c.base().0.0), model.get(&off).map(|m| m.0));
            let mask = model.range(off / 512 * 512..off / 512 * 512 + 512);
            let mask = mask.filter(|(_, m)| m.1).fold(0, |mask, (off, _)| mask | bit(*off));
            assert_eq!(all.reserved_in(off), mask);
            assert_eq!(all.is_empty(), model.is_empty());
            let listed: Vec<_> = all.iter().map(|(off, c)| (off, c.base().0.0)).collect();
            assert_eq!(listed, model.iter().map(|(off, m)| (*off, m.0)).collect::<Vec<_>>());
        }
        let chains: BTreeMap<_, _> = all.into_chains().map(|c| (c.base().0.0, ())).collect();
        assert_eq!(chains.len(), model.len());
    }
}
