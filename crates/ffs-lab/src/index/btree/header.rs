//! The header in block 0, and the map of free space.
//!
//! # Invariants
//! 1. Slot *n* of the map is that of the *n*th data block. A map block is full before the next one
//!    is made.
//! 2. A slot has the bytes of the largest free piece in its data block, as far as 16 bits hold it.

use super::super::bytes::{get, put};
use super::super::error::{IndexError, Result};
use super::super::store::{read_block, write_changes};
use super::{Btree, RECORDS, bad};

/// The magic of the laboratory's B+tree.
pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"LabB");
const MAP_MAGIC: u32 = u32::from_le_bytes(*b"LabM");
/// The most levels: more than 2^32 entries need.
pub(super) const LEVELS: u32 = 8;
const ROOT: usize = 4;
const HEIGHT: usize = 8;
const DATA: usize = 12;
const MAPS: usize = 16;
const FIRST_MAP: usize = 20;
/// The first slot of a map block, and bytes of a slot: block, space, two unused.
const SLOTS: usize = 8;
const SLOT: usize = 8;

/// The header.
pub(super) struct Header {
    pub(super) bytes: Vec<u8>,
}

impl Header {
    /// The header of an empty directory, whose root is block 1.
    pub(super) fn new(size: usize) -> Header {
        let mut bytes = vec![0; size];
        put::<u32>(&mut bytes, 0, MAGIC);
        put::<u32>(&mut bytes, ROOT, 1);
        Header { bytes }
    }

    /// Checks the bytes of a header.
    ///
    /// # Errors
    /// [`IndexError::Damaged`].
    pub(super) fn read(bytes: Vec<u8>, blocks: u32) -> Result<Header> {
        let header = Header { bytes };
        let wrong =
            |found: u32, expected| Err(IndexError::damaged("directory header", 0, found, expected));
        let magic = get::<u32>(&header.bytes, 0);
        if magic != MAGIC {
            return wrong(magic, "the magic of the laboratory's B+tree");
        }
        if header.root() == 0 || header.root() >= blocks {
            return wrong(header.root(), "a root within the directory");
        }
        if header.height() >= LEVELS {
            return wrong(header.height(), "at most 8 levels");
        }
        let slots = header.slots_of_map() as u32;
        let maps = header.maps();
        if maps as usize > header.limit() || header.data() > maps.saturating_mul(slots) {
            return wrong(maps, "maps that fit, for all data blocks");
        }
        match (0..maps).map(|at| header.map(at as usize)).find(|at| *at == 0 || *at >= blocks) {
            Some(at) => wrong(at, "a map within the directory"),
            None => Ok(header),
        }
    }

    pub(super) fn root(&self) -> u32 {
        get::<u32>(&self.bytes, ROOT)
    }

    /// Levels of nodes above the leaves.
    pub(super) fn height(&self) -> u32 {
        get::<u32>(&self.bytes, HEIGHT)
    }

    fn data(&self) -> u32 {
        get::<u32>(&self.bytes, DATA)
    }

    fn maps(&self) -> u32 {
        get::<u32>(&self.bytes, MAPS)
    }

    fn map(&self, at: usize) -> u32 {
        get::<u32>(&self.bytes, FIRST_MAP + at * 4)
    }

    fn limit(&self) -> usize {
        (self.bytes.len() - FIRST_MAP) / 4
    }

    fn slots_of_map(&self) -> usize {
        (self.bytes.len() - SLOTS) / SLOT
    }
}

impl Btree {
    /// Writes the changes of the header since `old`.
    fn write_header(&mut self, old: &[u8]) -> Result<()> {
        write_changes(&mut *self.store, 0, old, &self.header.bytes)
    }

    /// Sets the root and its height.
    pub(super) fn set_root(&mut self, root: u32, height: u32) -> Result<()> {
        let old = self.header.bytes.clone();
        put::<u32>(&mut self.header.bytes, ROOT, root);
        put::<u32>(&mut self.header.bytes, HEIGHT, height);
        self.write_header(&old)
    }

    /// The number of data blocks.
    pub(super) fn data_blocks(&self) -> Result<usize> {
        Ok(self.header.data() as usize)
    }

    fn read_map(&mut self, map: usize) -> Result<(u32, Vec<u8>)> {
        let (block, mut bytes) = (self.header.map(map), Vec::new());
        read_block(&mut *self.store, block, &mut bytes)?;
        let magic = get::<u32>(&bytes, 0);
        if magic != MAP_MAGIC {
            return Err(IndexError::damaged("free-space map", block, magic, "the map's magic"));
        }
        Ok((block, bytes))
    }

    /// The block number of a data block.
    pub(super) fn data_block(&mut self, slot: usize) -> Result<u32> {
        let per_map = self.header.slots_of_map();
        let (map, bytes) = self.read_map(slot / per_map)?;
        let block = get::<u32>(&bytes, SLOTS + slot % per_map * SLOT);
        if block == 0 || block >= self.store.blocks() {
            let expected = "a data block within the directory";
            return Err(IndexError::damaged("free-space map", map, block, expected));
        }
        Ok(block)
    }

    /// A data block with a free record of `need` bytes: the first behind the hint.
    pub(super) fn find_space(&mut self, need: usize) -> Result<Option<u32>> {
        let (per_map, data) = (self.header.slots_of_map(), self.data_blocks()?);
        let mut slot = self.hint;
        let mut hint = None;
        while slot < data {
            let (_, bytes) = self.read_map(slot / per_map)?;
            let end = data.min((slot / per_map + 1) * per_map);
            self.work.references += 1;
            while slot < end {
                let at = SLOTS + slot % per_map * SLOT;
                let space = usize::from(get::<u16>(&bytes, at + 4));
                self.work.records += 1;
                if space >= RECORDS.need(1) && hint.is_none() {
                    hint = Some(slot);
                }
                if space >= need {
                    self.hint = hint.unwrap_or(slot);
                    return self.data_block(slot).map(Some);
                }
                slot += 1;
            }
        }
        self.hint = hint.unwrap_or(data);
        Ok(None)
    }

    /// Enters a new data block.
    pub(super) fn add_to_map(&mut self, block: u32) -> Result<()> {
        let (per_map, slot) = (self.header.slots_of_map(), self.data_blocks()?);
        let (map, within) = (slot / per_map, slot % per_map);
        let old = self.header.bytes.clone();
        if within == 0 {
            if map >= self.header.limit() {
                return Err(IndexError::Full("the header has no space for another map"));
            }
            let mut bytes = vec![0; self.store.block_size()];
            put::<u32>(&mut bytes, 0, MAP_MAGIC);
            put::<u32>(&mut bytes, SLOTS, block);
            let at = self.store.append(&bytes)?;
            put::<u32>(&mut self.header.bytes, FIRST_MAP + map * 4, at);
            put::<u32>(&mut self.header.bytes, MAPS, map as u32 + 1);
        } else {
            let (at, mut bytes) = self.read_map(map)?;
            let was = bytes.clone();
            put::<u32>(&mut bytes, SLOTS + within * SLOT, block);
            write_changes(&mut *self.store, at, &was, &bytes)?;
        }
        put::<u32>(&mut self.header.bytes, DATA, slot as u32 + 1);
        self.write_header(&old)
    }

    /// The slot of a data block. Data blocks were appended in the order of their slots.
    fn slot_of(&mut self, block: u32) -> Result<(usize, u32, Vec<u8>)> {
        let (per_map, data) = (self.header.slots_of_map(), self.data_blocks()?);
        let maps = data.div_ceil(per_map);
        // The map with the last first block that is not behind `block`.
        let (mut low, mut high) = (0, maps);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            self.work.records += 1;
            if self.data_block(middle * per_map)? > block { high = middle } else { low = middle }
        }
        let (at, bytes) = self.read_map(low)?;
        let slots = per_map.min(data.saturating_sub(low * per_map));
        let (mut first, mut end) = (0, slots);
        while first < end {
            let middle = first + (end - first) / 2;
            self.work.records += 1;
            if get::<u32>(&bytes, SLOTS + middle * SLOT) < block {
                first = middle + 1
            } else {
                end = middle
            }
        }
        if first >= slots || get::<u32>(&bytes, SLOTS + first * SLOT) != block {
            return Err(bad(block, "a slot of the map"));
        }
        Ok((low * per_map + first, at, bytes))
    }

    /// Sets the largest free piece of a data block.
    pub(super) fn set_space(&mut self, block: u32, most: usize) -> Result<()> {
        let per_map = self.header.slots_of_map();
        let (slot, at, mut bytes) = self.slot_of(block)?;
        let was = bytes.clone();
        let place = SLOTS + slot % per_map * SLOT + 4;
        let space = u16::try_from(most).unwrap_or(u16::MAX);
        put::<u16>(&mut bytes, place, space);
        if most >= RECORDS.need(1) {
            self.hint = self.hint.min(slot);
        }
        write_changes(&mut *self.store, at, &was, &bytes)
    }

    /// Checks the space of every data block.
    pub(super) fn check_map(&mut self) -> Result<()> {
        let mut bytes = Vec::new();
        for slot in 0..self.data_blocks()? {
            let block = self.data_block(slot)?;
            read_block(&mut *self.store, block, &mut bytes)?;
            let (most, _) = RECORDS.free_bytes(&bytes).map_err(|why| bad(block, why))?;
            let (_, map, slots) = self.slot_of(block)?;
            let at = SLOTS + slot % self.header.slots_of_map() * SLOT + 4;
            let space = get::<u16>(&slots, at);
            if usize::from(space) != most {
                let expected = "the largest free piece of the data block";
                return Err(IndexError::damaged("free-space map", map, space, expected));
            }
        }
        Ok(())
    }
}
