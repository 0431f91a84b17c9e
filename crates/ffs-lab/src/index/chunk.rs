//! NetApp's chunk hash (Rakitzis and Watson): small hash tables in memory, UFS's format on disk.
//!
//! The directory is divided into parts of 24 KB. Each part has a table of 4096 slots of one byte.
//! The byte is the number of a region of 96 bytes, in which the name begins. So a lookup visits
//! every part, and in each compares the few names to which the hash leads.
//!
//! # Invariants
//! 1. The blocks are those of [`super::linear`]: UFS's directory without an index.
//! 2. A live entry has one slot, in the table of its part, with the region where it begins.
//! 3. A table is built when its part is first searched, and has at most 2016 entries, so that half
//!    of its slots stay empty.
//!
//! Reference: `docs/spec/directories-and-caches.md` §8.3.

use super::Index;
use super::error::{IndexError, Result};
use super::linear::{empty_block, list_blocks};
use super::record::{Records, check_name};
use super::space::FreeSpace;
use super::store::{Store, read_block, write_changes};
use crate::machine::SearchWork;

const RECORDS: Records = Records::Ufs;
const CHUNK: usize = 512;
/// Chunks of a part.
const PART: u32 = 48;
/// Bytes of a region.
const REGION: usize = 96;
const SLOTS: usize = 4096;
/// Bytes of memory of a table: slots, and two bits for each.
const TABLE_BYTES: u64 = SLOTS as u64 + 2 * SLOTS as u64 / 8;

/// The state of a slot. In memory it takes two bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Empty,
    Deleted,
    Region(u8),
}

/// The hash table of a part.
type Table = Box<[Slot]>;

/// A directory with a hash table for each part.
pub(super) struct ChunkHash {
    store: Box<dyn Store>,
    work: SearchWork,
    tables: Vec<Table>,
    space: FreeSpace,
    block: Vec<u8>,
    old: Vec<u8>,
}

/// The place of an entry.
struct Found {
    /// Chunk of the directory.
    chunk: u32,
    /// Byte in the chunk.
    off: usize,
    slot: usize,
    ino: u32,
}

fn bad(block: u32, why: &'static str) -> IndexError {
    IndexError::damaged("directory", block, "a record", why)
}

fn hash(name: &[u8]) -> usize {
    let start = 0x0200_0023_u32;
    let fnv = |hash: u32, byte: &u8| hash.wrapping_mul(0x0100_0193) ^ u32::from(*byte);
    name.iter().fold(start, fnv) as usize % SLOTS
}

/// The region of byte `off` of a chunk, in its part.
fn region(chunk: u32, off: usize) -> u8 {
    (((chunk % PART) as usize * CHUNK + off) / REGION) as u8
}

fn enter(table: &mut Table, name: &[u8], region: u8) {
    let home = hash(name);
    let free = (0..SLOTS).map(|step| (home + step) % SLOTS);
    let free = free.into_iter().find(|slot| !matches!(table[*slot], Slot::Region(_)));
    if let Some(slot) = free {
        table[slot] = Slot::Region(region);
    }
}

/// Empties a slot, and the deleted slots before it if it ends a chain.
fn leave(table: &mut Table, slot: usize) {
    table[slot] = Slot::Deleted;
    let mut at = slot;
    while table[(at + 1) % SLOTS] == Slot::Deleted && at < slot + SLOTS {
        at += 1;
    }
    if table[(at + 1) % SLOTS] != Slot::Empty {
        return;
    }
    let mut at = at % SLOTS;
    while table[at] == Slot::Deleted {
        table[at] = Slot::Empty;
        at = (at + SLOTS - 1) % SLOTS;
    }
}

impl ChunkHash {
    /// The directory in `store`.
    pub(super) fn open(store: Box<dyn Store>) -> ChunkHash {
        let (tables, block, old) = (Vec::new(), Vec::new(), Vec::new());
        let (work, space) = (SearchWork::default(), FreeSpace::new());
        ChunkHash { store, work, tables, space, block, old }
    }

    fn chunks(&self) -> u32 {
        self.store.blocks() * self.per_block()
    }

    fn per_block(&self) -> u32 {
        (self.store.block_size() / CHUNK) as u32
    }

    /// The block of a chunk, and the chunk's first byte in it.
    fn place(&self, chunk: u32) -> (u32, usize) {
        let per_block = self.per_block();
        (chunk / per_block, (chunk % per_block) as usize * CHUNK)
    }

    /// Builds the table of the next part.
    fn build(&mut self) -> Result<()> {
        let first = self.tables.len() as u32 * PART;
        let mut table = vec![Slot::Empty; SLOTS].into_boxed_slice();
        let mut in_memory = None;
        for chunk in first..(first + PART).min(self.chunks()) {
            let (block, at) = self.place(chunk);
            if in_memory != Some(block) {
                read_block(&mut *self.store, block, &mut self.block)?;
                in_memory = Some(block);
            }
            let unit = &self.block[at..at + CHUNK];
            let mut entries = 0;
            let each = RECORDS.each(unit, |record| {
                if record.ino != 0 {
                    enter(&mut table, record.name, region(chunk, record.off));
                    entries += 1;
                }
                true
            });
            each.map_err(|why| bad(block, why))?;
            self.work.built += entries;
            let (_, free) = RECORDS.free_bytes(unit).map_err(|why| bad(block, why))?;
            self.space.push(free);
        }
        self.tables.push(table);
        Ok(())
    }

    fn parts(&self) -> usize {
        self.chunks().div_ceil(PART) as usize
    }

    fn find(&mut self, name: &[u8]) -> Result<Option<Found>> {
        self.work.hash_lookups += 1;
        for part in 0..self.parts() {
            if part == self.tables.len() {
                self.build()?;
            }
            if let Some(found) = self.find_in(part, name)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Searches a part: the regions to which the chain of the hash leads, each once.
    fn find_in(&mut self, part: usize, name: &[u8]) -> Result<Option<Found>> {
        let home = hash(name);
        let mut seen = [0_u64; 4];
        for step in 0..SLOTS {
            let slot = (home + step) % SLOTS;
            match self.tables[part][slot] {
                Slot::Empty => return Ok(None),
                Slot::Deleted => {}
                Slot::Region(region) => {
                    let (word, bit) = (usize::from(region / 64), 1 << (region % 64));
                    if seen[word] & bit == 0 {
                        seen[word] |= bit;
                        if let Some(found) = self.find_in_region(part, region, name)? {
                            let slot = self.slot_of(part, name, region).unwrap_or(slot);
                            return Ok(Some(Found { slot, ..found }));
                        }
                    }
                }
            }
        }
        Ok(None)
    }

    fn slot_of(&self, part: usize, name: &[u8], region: u8) -> Option<usize> {
        let home = hash(name);
        let chain = (0..SLOTS).map(|step| (home + step) % SLOTS);
        let mut chain = chain.take_while(|slot| self.tables[part][*slot] != Slot::Empty);
        chain.find(|slot| self.tables[part][*slot] == Slot::Region(region))
    }

    /// Compares the names that begin in a region. It may reach into a second chunk.
    fn find_in_region(&mut self, part: usize, region: u8, name: &[u8]) -> Result<Option<Found>> {
        let from = usize::from(region) * REGION;
        let end = from + REGION;
        for within in from / CHUNK..=(end - 1) / CHUNK {
            let chunk = part as u32 * PART + within as u32;
            if chunk >= self.chunks() {
                break;
            }
            let (block, at) = self.place(chunk);
            let mut unit = [0; CHUNK];
            self.store.read(block, at, &mut unit)?;
            self.work.references += 1;
            let (mut found, mut inspected) = (None, 0);
            let each = RECORDS.each(&unit, |record| {
                let off = within * CHUNK + record.off;
                if off >= from && off < end {
                    inspected += 1;
                    if record.ino != 0 && record.name == name {
                        let (off, ino) = (record.off, record.ino);
                        found = Some(Found { chunk, off, slot: 0, ino });
                    }
                }
                off < end && found.is_none()
            });
            each.map_err(|why| bad(block, why))?;
            self.work.records += inspected;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Enters a name in a chunk that has space for it, perhaps after the others moved together.
    fn insert_in(&mut self, chunk: u32, name: &[u8], ino: u32) -> Result<()> {
        let (block, at) = self.place(chunk);
        read_block(&mut *self.store, block, &mut self.block)?;
        self.old.clone_from(&self.block);
        let unit = &mut self.block[at..at + CHUNK];
        let mut off = RECORDS.insert(unit, name, ino).map_err(|why| bad(block, why))?;
        if off.is_none() {
            let entries = RECORDS.entries(unit).map_err(|why| bad(block, why))?;
            RECORDS.pack(unit, &entries);
            self.work.moved += CHUNK as u64;
            off = RECORDS.insert(unit, name, ino).map_err(|why| bad(block, why))?;
            self.move_slots(chunk, at, block)?;
        }
        let off = off.ok_or_else(|| bad(block, "space as the summary has it"))?;
        let unit = &self.block[at..at + CHUNK];
        let (_, free) = RECORDS.free_bytes(unit).map_err(|why| bad(block, why))?;
        self.space.set(chunk, free);
        enter(&mut self.tables[(chunk / PART) as usize], name, region(chunk, off));
        write_changes(&mut *self.store, block, &self.old, &self.block)
    }

    /// Corrects the slots of the entries of a chunk that was packed.
    fn move_slots(&mut self, chunk: u32, at: usize, block: u32) -> Result<()> {
        let part = (chunk / PART) as usize;
        let list = |bytes: &[u8]| {
            let mut all: Vec<(Vec<u8>, u8)> = Vec::new();
            let unit = bytes.get(at..at + CHUNK).unwrap_or(&[]);
            let each = RECORDS.each(unit, |record| {
                if record.ino != 0 {
                    all.push((record.name.to_vec(), region(chunk, record.off)));
                }
                true
            });
            each.map(|()| all).map_err(|why| bad(block, why))
        };
        let was = list(&self.old)?;
        let is = list(&self.block)?;
        // The entry that was just added is the last, and `was` does not have it.
        for ((name, old), (_, new)) in was.iter().zip(&is) {
            if old != new {
                if let Some(slot) = self.slot_of(part, name, *old) {
                    leave(&mut self.tables[part], slot);
                }
                enter(&mut self.tables[part], name, *new);
                self.work.references += 1;
            }
        }
        Ok(())
    }

    /// Adds a block of free chunks. The table of the last part may be built already.
    fn grow(&mut self) -> Result<u32> {
        let block = self.store.append(&empty_block(self.store.block_size()))?;
        let first = block * self.per_block();
        for chunk in first..self.chunks() {
            if (chunk / PART) as usize == self.tables.len() {
                self.tables.push(vec![Slot::Empty; SLOTS].into_boxed_slice());
            }
            self.space.push(CHUNK);
        }
        Ok(first)
    }
}

impl Index for ChunkHash {
    fn lookup(&mut self, name: &[u8]) -> Result<Option<u32>> {
        Ok(self.find(name)?.map(|found| found.ino))
    }

    fn insert(&mut self, name: &[u8], ino: u32) -> Result<()> {
        check_name(name)?;
        if self.find(name)?.is_some() {
            return Err(IndexError::Exists);
        }
        let chunk = match self.space.find(RECORDS.need(name.len())) {
            Some(chunk) => chunk,
            None => self.grow()?,
        };
        self.insert_in(chunk, name, ino)
    }

    fn remove(&mut self, name: &[u8]) -> Result<Option<u32>> {
        let Some(found) = self.find(name)? else { return Ok(None) };
        let (block, at) = self.place(found.chunk);
        read_block(&mut *self.store, block, &mut self.block)?;
        self.old.clone_from(&self.block);
        let unit = &mut self.block[at..at + CHUNK];
        let place = RECORDS.place_of(unit, found.off).map_err(|why| bad(block, why))?;
        let place = place.ok_or_else(|| bad(block, "the entry that its slot has"))?;
        RECORDS.remove(unit, &place);
        let (_, free) = RECORDS.free_bytes(unit).map_err(|why| bad(block, why))?;
        self.space.set(found.chunk, free);
        leave(&mut self.tables[(found.chunk / PART) as usize], found.slot);
        write_changes(&mut *self.store, block, &self.old, &self.block)?;
        Ok(Some(found.ino))
    }

    fn list(&mut self, each: &mut dyn FnMut(&[u8], u32)) -> Result<()> {
        list_blocks(&mut *self.store, &mut self.block, each)
    }

    /// Every live entry is found by its name, and the free space of every chunk is right.
    fn check(&mut self) -> Result<()> {
        let mut all = Vec::new();
        self.list(&mut |name, ino| all.push((name.to_vec(), ino)))?;
        for (name, ino) in all {
            match self.find(&name)? {
                Some(found) if found.ino == ino => {}
                _ => {
                    let expected = "a slot for every entry";
                    return Err(IndexError::damaged("hash table", 0, ino, expected));
                }
            }
        }
        Ok(())
    }

    fn memory(&self) -> u64 {
        self.tables.len() as u64 * TABLE_BYTES + self.space.memory()
    }

    fn work(&self) -> SearchWork {
        self.work
    }

    fn bytes(&self) -> u64 {
        u64::from(self.store.blocks()) * self.store.block_size() as u64
    }
}
