//! The control: UFS's directory without an index, in the laboratory's frame.
//!
//! It has the records, the search and the choice of a slot of the library's own linear code
//! (`docs/spec/directories-and-caches.md` §2). A comparison of the two shows what the frame costs,
//! and the property tests compare every index with it.
//!
//! # Invariants
//! 1. Records stay within 512 bytes, and one operation changes one chunk.

use super::Index;
use super::error::{IndexError, Result};
use super::record::{Place, Records, check_name};
use super::store::{Store, read_block, write_changes};
use crate::machine::SearchWork;

const RECORDS: Records = Records::Ufs;
const CHUNK: usize = 512;

/// A directory without an index.
pub(super) struct Linear {
    store: Box<dyn Store>,
    work: SearchWork,
    block: Vec<u8>,
    old: Vec<u8>,
    /// The chunk in which the last lookup found its name (`diroff` in chunks).
    last: usize,
}

/// Where an entry is, or where one can be.
enum Found {
    Entry {
        block: u32,
        chunk: usize,
        place: Place,
    },
    /// A chunk with space, if there is one; `true` if no entry has to move.
    Slot(Option<(u32, usize, bool)>),
}

fn bad(block: u32, why: &'static str) -> IndexError {
    IndexError::damaged("directory", block, "a record", why)
}

/// A block of free chunks.
pub(super) fn empty_block(size: usize) -> Vec<u8> {
    let mut block = vec![0; size];
    block.chunks_mut(CHUNK).for_each(|chunk| RECORDS.clear(chunk));
    block
}

impl Linear {
    /// The directory in `store`.
    pub(super) fn open(store: Box<dyn Store>) -> Linear {
        Linear { store, work: SearchWork::default(), block: Vec::new(), old: Vec::new(), last: 0 }
    }

    /// Searches for `name` from chunk `from` on, and then the chunks before it. Searches for space
    /// for `need` bytes too, if that is above 0.
    fn search(&mut self, name: &[u8], need: usize, from: usize) -> Result<Found> {
        self.work.linear_lookups += 1;
        let per_block = self.store.block_size() / CHUNK;
        let chunks = self.store.blocks() as usize * per_block;
        let mut slot: Option<(u32, usize, bool)> = None;
        let mut in_memory = None;
        for step in 0..chunks {
            let at = (from + step) % chunks;
            let (block, chunk) = ((at / per_block) as u32, at % per_block * CHUNK);
            if in_memory != Some(block) {
                read_block(&mut *self.store, block, &mut self.block)?;
                in_memory = Some(block);
            }
            let unit = &self.block[chunk..chunk + CHUNK];
            let found = RECORDS.find(unit, name, &mut self.work);
            if let Some(place) = found.map_err(|why| bad(block, why))? {
                return Ok(Found::Entry { block, chunk, place });
            }
            if need == 0 || matches!(slot, Some((_, _, true))) {
                continue;
            }
            let (most, sum) = RECORDS.free_bytes(unit).map_err(|why| bad(block, why))?;
            if most >= need {
                slot = Some((block, chunk, true));
            } else if sum >= need && slot.is_none() {
                slot = Some((block, chunk, false));
            }
        }
        Ok(Found::Slot(slot))
    }
}

impl Index for Linear {
    fn lookup(&mut self, name: &[u8]) -> Result<Option<u32>> {
        match self.search(name, 0, self.last)? {
            Found::Entry { block, chunk, place } => {
                let per_block = self.store.block_size() / CHUNK;
                self.last = block as usize * per_block + chunk / CHUNK;
                Ok(Some(place.ino))
            }
            Found::Slot(_) => Ok(None),
        }
    }

    fn insert(&mut self, name: &[u8], ino: u32) -> Result<()> {
        check_name(name)?;
        let slot = match self.search(name, RECORDS.need(name.len()), 0)? {
            Found::Entry { .. } => return Err(IndexError::Exists),
            Found::Slot(slot) => slot,
        };
        let Some((block, chunk, fits)) = slot else {
            let mut bytes = empty_block(self.store.block_size());
            RECORDS.write(&mut bytes[..CHUNK], 0, CHUNK, (name, ino));
            return self.store.append(&bytes).map(drop);
        };
        read_block(&mut *self.store, block, &mut self.block)?;
        self.old.clone_from(&self.block);
        let unit = &mut self.block[chunk..chunk + CHUNK];
        if !fits {
            let entries = RECORDS.entries(unit).map_err(|why| bad(block, why))?;
            self.work.moved += CHUNK as u64;
            RECORDS.pack(unit, &entries);
        }
        RECORDS.insert(unit, name, ino).map_err(|why| bad(block, why))?;
        write_changes(&mut *self.store, block, &self.old, &self.block)
    }

    fn remove(&mut self, name: &[u8]) -> Result<Option<u32>> {
        let Found::Entry { block, chunk, place } = self.search(name, 0, 0)? else {
            return Ok(None);
        };
        self.old.clone_from(&self.block);
        RECORDS.remove(&mut self.block[chunk..chunk + CHUNK], &place);
        write_changes(&mut *self.store, block, &self.old, &self.block)?;
        Ok(Some(place.ino))
    }

    fn list(&mut self, each: &mut dyn FnMut(&[u8], u32)) -> Result<()> {
        list_blocks(&mut *self.store, &mut self.block, each)
    }

    fn check(&mut self) -> Result<()> {
        self.list(&mut |_, _| {})
    }

    fn memory(&self) -> u64 {
        0
    }

    fn work(&self) -> SearchWork {
        self.work
    }

    fn bytes(&self) -> u64 {
        u64::from(self.store.blocks()) * self.store.block_size() as u64
    }
}

/// Lists the entries of all blocks of chunks. Each block is read into `buf`.
pub(super) fn list_blocks(
    store: &mut dyn Store,
    buf: &mut Vec<u8>,
    each: &mut dyn FnMut(&[u8], u32),
) -> Result<()> {
    for block in 0..store.blocks() {
        read_block(store, block, buf)?;
        for unit in buf.chunks(CHUNK) {
            let listed = RECORDS.each(unit, |record| {
                if record.ino != 0 {
                    each(record.name, record.ino);
                }
                true
            });
            listed.map_err(|why| bad(block, why))?;
        }
    }
    Ok(())
}
