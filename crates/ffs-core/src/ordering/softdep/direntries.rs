//! The entries of one directory block with pending values, in the order of their places.
//!
//! A `DirChunk` is `DIRBLKSIZ` bytes of a directory, 512: a sector, which the device writes whole
//! or not at all. No record crosses its end.
//!
//! # Invariants
//! 1. A chunk is listed exactly while an entry of it is.
//! 2. The mask `known` of a chunk has exactly its entries. The number of lower bits is the place of
//!    an entry in `order`, which has the place of its versions. So a search compares no entries,
//!    and an insertion moves none.
//! 3. The mask `reserved` has the entries whose last value is "no entry".

use super::dep::DepId;
use super::heap::heap;
use super::smalllist::SmallList;
use crate::ordering::{EntryTarget, ReservedMask};
use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::{DirOff, Ino};
use smallvec::SmallVec;

/// The values of an entry. There are as many of them as changes: 24 bytes.
#[derive(Debug)]
pub(super) struct EntryVersions {
    durable_ino: Ino,
    durable_type: u8,
    /// Byte offset in the chunk.
    offset: u16,
    /// The values since the durable one, oldest first.
    pending: SmallList<DepId>,
}

impl EntryVersions {
    fn new(durable: EntryTarget, off: u32) -> EntryVersions {
        let offset = (off % DIRBLKSIZ as u32) as u16;
        let EntryTarget { ino, dtype } = durable;
        let pending = SmallList::default();
        EntryVersions { durable_ino: ino, durable_type: dtype, offset, pending }
    }

    /// The value on the device.
    pub(super) fn durable(&self) -> EntryTarget {
        EntryTarget { ino: self.durable_ino, dtype: self.durable_type }
    }

    /// The values since then, oldest first.
    pub(super) fn pending(&self) -> &[DepId] {
        &self.pending
    }

    /// The values after the pending one with this index, or after the durable one.
    pub(super) fn since(&self, shown: Option<usize>) -> &[DepId] {
        self.pending.get(shown.map_or(0, |at| at + 1)..).unwrap_or_default()
    }

    pub(super) fn last(&self) -> Option<DepId> {
        self.pending.last().copied()
    }

    /// Removes the last value.
    pub(super) fn pop(&mut self) -> Option<DepId> {
        self.pending.pop()
    }

    /// Removes a value.
    pub(super) fn remove(&mut self, id: DepId) {
        self.pending.retain(|version| *version != id);
    }

    /// `id`, of which `value` is the value, is durable. Returns the values before it.
    pub(super) fn set_durable(&mut self, id: DepId, value: EntryTarget) -> SmallList<DepId> {
        let mut older = SmallList::default();
        if self.pending.contains(&id) {
            while let Some(version) = self.pending.remove(0).filter(|version| *version != id) {
                older.push(version);
            }
            (self.durable_ino, self.durable_type) = (value.ino, value.dtype);
        }
        older
    }
}

/// The entries of a block. An operation changes one or two of them, a write visits all.
#[derive(Debug, Default)]
pub(super) struct DirEntries(Vec<DirChunk>);

/// The entries of a chunk.
#[derive(Debug)]
struct DirChunk {
    /// Its number in the directory.
    number: u32,
    known: u128,
    reserved: ReservedMask,
    /// Places in `versions`, in the order of the entries.
    order: SmallVec<[u8; 32]>,
    versions: Vec<EntryVersions>,
}

/// The number of the chunk with an entry.
pub(super) fn chunk_of(off: DirOff) -> u32 {
    off.0 / DIRBLKSIZ as u32
}

/// The first byte of a chunk.
pub(super) fn start_of_chunk(number: u32) -> DirOff {
    DirOff(number.saturating_mul(DIRBLKSIZ as u32))
}

/// The bit of an entry in the masks of its chunk: records start at multiples of four bytes.
pub(super) fn bit(off: u32) -> u128 {
    1 << (off % DIRBLKSIZ as u32 / 4)
}

impl DirEntries {
    fn find(&self, number: u32) -> Result<usize, usize> {
        // Mostly all chunks of the block are listed.
        let first = self.0.first().map_or(0, |chunk| chunk.number);
        let at = number.wrapping_sub(first) as usize;
        if self.0.get(at).is_some_and(|chunk| chunk.number == number) {
            return Ok(at);
        }
        self.0.binary_search_by_key(&number, |chunk| chunk.number)
    }

    fn chunk(&self, off: u32) -> Option<&DirChunk> {
        self.0.get(self.find(chunk_of(DirOff(off))).ok()?)
    }

    fn chunk_mut(&mut self, off: u32) -> &mut DirChunk {
        let number = chunk_of(DirOff(off));
        let at = self.find(number).unwrap_or_else(|at| {
            // Mostly it gets one entry: changes of a directory are scattered.
            let (order, versions) = (SmallVec::new(), Vec::with_capacity(1));
            self.0.insert(at, DirChunk { number, known: 0, reserved: 0, order, versions });
            at
        });
        &mut self.0[at]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn get(&self, off: u32) -> Option<&EntryVersions> {
        let chunk = self.chunk(off)?;
        chunk.versions.get(chunk.find(off)?)
    }

    pub(super) fn get_mut(&mut self, off: u32) -> Option<&mut EntryVersions> {
        let chunk = self.find(chunk_of(DirOff(off))).ok()?;
        let chunk = self.0.get_mut(chunk)?;
        let at = chunk.find(off)?;
        chunk.versions.get_mut(at)
    }

    /// The entry gets the value `id`. `durable`: its value on the device, if it has no versions
    /// yet; `reserved`: whether `id` is "no entry".
    pub(super) fn push(&mut self, off: u32, durable: EntryTarget, id: DepId, reserved: bool) {
        self.versions_or_insert(off, durable, reserved).pending.push(id);
    }

    /// The versions of an entry that is not reserved, moved here from another place.
    pub(super) fn insert(&mut self, off: u32, moved: EntryVersions) {
        let durable = moved.durable();
        self.versions_or_insert(off, durable, false).pending = moved.pending;
    }

    fn versions_or_insert(
        &mut self,
        off: u32,
        durable: EntryTarget,
        reserved: bool,
    ) -> &mut EntryVersions {
        let chunk = self.chunk_mut(off);
        let bit = bit(off);
        chunk.reserved = if reserved { chunk.reserved | bit } else { chunk.reserved & !bit };
        let place = chunk.place(off);
        if chunk.known & bit == 0 {
            chunk.known |= bit;
            chunk.order.insert(place, chunk.versions.len() as u8);
            chunk.versions.push(EntryVersions::new(durable, off));
        }
        let at = usize::from(chunk.order[place]);
        &mut chunk.versions[at]
    }

    pub(super) fn remove(&mut self, off: u32) -> Option<EntryVersions> {
        let number = self.find(chunk_of(DirOff(off))).ok()?;
        let chunk = self.0.get_mut(number)?;
        let versions = chunk.remove(off)?;
        if chunk.versions.is_empty() {
            self.0.remove(number);
        }
        Some(versions)
    }

    /// The reserved entries of the chunk of `off`, as [`bit`] numbers them.
    pub(super) fn reserved_in(&self, off: u32) -> ReservedMask {
        self.chunk(off).map_or(0, |chunk| chunk.reserved)
    }

    /// Entries with pending values, by byte offset.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &EntryVersions)> {
        self.0.iter().flat_map(DirChunk::entries)
    }

    pub(super) fn into_versions(self) -> impl Iterator<Item = EntryVersions> {
        self.0.into_iter().flat_map(|chunk| chunk.versions)
    }

    /// Bytes that it allocated.
    pub(super) fn heap_bytes(&self) -> usize {
        let of_chunk = |chunk: &DirChunk| {
            chunk.versions.capacity() * size_of::<EntryVersions>()
                + heap(&chunk.order)
                + chunk.versions.iter().map(|entry| entry.pending.bytes()).sum::<usize>()
        };
        self.0.capacity() * size_of::<DirChunk>() + self.0.iter().map(of_chunk).sum::<usize>()
    }
}

impl DirChunk {
    fn entries(&self) -> impl Iterator<Item = (u32, &EntryVersions)> {
        let base = self.number * DIRBLKSIZ as u32;
        let versions = self.order.iter().filter_map(|at| self.versions.get(usize::from(*at)));
        versions.map(move |entry| (base + u32::from(entry.offset), entry))
    }

    fn remove(&mut self, off: u32) -> Option<EntryVersions> {
        let place = self.place(off);
        let at = self.find(off)?;
        self.known &= !bit(off);
        self.reserved &= !bit(off);
        self.order.remove(place);
        let removed = self.versions.swap_remove(at);
        // The last one moved to its place.
        if let Some(offset) = self.versions.get(at).map(|entry| u32::from(entry.offset)) {
            let place = self.place(offset);
            self.order[place] = at as u8;
        }
        Some(removed)
    }

    /// The place of the entry in `order`, if it is there or is inserted.
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
    use super::super::arena::Arena;
    use super::*;
    use ffs_device::{Rng, SplitMix64};
    use std::collections::BTreeMap;

    #[test]
    fn behaves_like_a_map_by_offset() {
        let (mut all, mut model) = (DirEntries::default(), BTreeMap::new());
        let id = Arena::new().insert(());
        let rng = SplitMix64::new(0x4ec0);
        for n in 1..40_000u32 {
            let (chunk, slot) = (rng.below(7) as u32, rng.below(60) as u32);
            let off = 16384 + chunk * DIRBLKSIZ as u32 + slot * 8;
            let reserved = rng.below(4) == 0;
            if rng.below(2) == 0 {
                all.push(off, EntryTarget { ino: Ino(n), dtype: 8 }, id, reserved);
                model.entry(off).or_insert((n, reserved)).1 = reserved;
            } else {
                let removed = all.remove(off).map(|entry| entry.durable().ino.0);
                assert_eq!(removed, model.remove(&off).map(|(ino, _)| ino));
            }
            let durable = all.get(off).map(|entry| entry.durable().ino.0);
            assert_eq!(durable, model.get(&off).map(|m| m.0));
            let mask = model.range(off / 512 * 512..off / 512 * 512 + 512);
            let mask = mask.filter(|(_, m)| m.1).fold(0, |mask, (off, _)| mask | bit(*off));
            assert_eq!(all.reserved_in(off), mask);
            assert_eq!(all.is_empty(), model.is_empty());
            let listed: Vec<_> = all.iter().map(|(off, e)| (off, e.durable().ino.0)).collect();
            assert_eq!(listed, model.iter().map(|(off, m)| (*off, m.0)).collect::<Vec<_>>());
        }
        let left: BTreeMap<_, _> =
            all.into_versions().map(|entry| (entry.durable().ino.0, ())).collect();
        assert_eq!(left.len(), model.len());
    }
}
