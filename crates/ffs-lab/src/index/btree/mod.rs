//! A directory with an index on disk of the kind of XFS: entries in data blocks in the order of
//! their creation, a B+tree from hashes to entries, and a map of free space.
//!
//! | block | content |
//! | --- | --- |
//! | 0 | header: magic, root, levels, blocks of the free-space map |
//! | map | the data blocks it is for, and the largest free record in each |
//! | node | a leaf: (hash, address) pairs; an inner node: (key, child) pairs |
//! | data | directory records |
//!
//! A listing is in the order of the data blocks. XFS's own layout differs: it puts the three kinds
//! at fixed places of a sparse file, has another hash, and keeps small directories in the inode.
//!
//! # Invariants
//! 1. A key is (hash, address), so keys are unique. Child *i* of a node has the keys from its own
//!    up to that of the next one.
//! 2. A name's record never moves.
//! 3. An insertion writes the record, the map, then the leaf. A removal writes the leaf, the
//!    record, then the map.
//! 4. Nodes are never merged, and the directory does not shrink. XFS joins nodes; this tree keeps
//!    empty leaves for later keys.
//!
//! Reference: `docs/spec/directories-and-caches.md` §8.4.

mod header;
mod node;
mod tree;

use self::header::Header;
use self::node::Node;
use super::Index;
use super::error::{IndexError, Result};
use super::hash::HashVersion;
use super::record::{Records, check_name};
use super::store::{Store, read_block, write_changes};
use crate::machine::SearchWork;

/// Records within whole blocks, as in XFS.
const RECORDS: Records = Records::Ext2;
/// Bytes of an address's unit: records begin at multiples of it.
const UNIT: usize = 4;

/// A directory with a B+tree.
pub(super) struct Btree {
    store: Box<dyn Store>,
    header: Header,
    hash: HashVersion,
    work: SearchWork,
    block: Vec<u8>,
    old: Vec<u8>,
    /// The first slot of the map whose data block may have space.
    hint: usize,
}

/// The place of an entry.
struct Found {
    key: u64,
    block: u32,
    off: usize,
    ino: u32,
}

fn bad(block: u32, why: &'static str) -> IndexError {
    IndexError::damaged("directory data", block, "a record", why)
}

impl Btree {
    /// The directory in `store`; a new one if the store is empty.
    ///
    /// # Errors
    /// A damaged header; those of the store.
    pub(super) fn open(mut store: Box<dyn Store>, hash: HashVersion) -> Result<Btree> {
        let size = store.block_size();
        if !(1024..=32768).contains(&size) {
            let expected = "1024 to 32768 bytes";
            return Err(IndexError::damaged("block size", 0, size, expected));
        }
        if store.blocks() == 0 {
            store.append(&Header::new(size).bytes)?;
            store.append(&Node::new(size, 0, &[]).bytes)?;
        }
        let mut bytes = Vec::new();
        read_block(&mut *store, 0, &mut bytes)?;
        let header = Header::read(bytes, store.blocks())?;
        let (work, block, old) = (SearchWork::default(), Vec::new(), Vec::new());
        Ok(Btree { store, header, hash, work, block, old, hint: 0 })
    }

    fn hash_of(&self, name: &[u8]) -> u32 {
        self.hash.hash(name, [0; 4]).0
    }

    fn address(&self, block: u32, off: usize) -> u32 {
        block * (self.store.block_size() / UNIT) as u32 + (off / UNIT) as u32
    }

    fn place(&self, key: u64) -> (u32, usize) {
        let per_block = (self.store.block_size() / UNIT) as u32;
        let address = key as u32;
        (address / per_block, (address % per_block) as usize * UNIT)
    }

    /// Searches for a name: the records whose keys have its hash.
    fn find(&mut self, name: &[u8], hash: u32) -> Result<Option<Found>> {
        let mut cursor = self.seek(u64::from(hash) << 32)?;
        while let Some(key) = self.key_at(&mut cursor)? {
            if (key >> 32) as u32 != hash {
                break;
            }
            let (block, off) = self.place(key);
            read_block(&mut *self.store, block, &mut self.block)?;
            self.work.references += 1;
            if let Some(ino) = RECORDS.matches(&self.block, off, name) {
                return Ok(Some(Found { key, block, off, ino }));
            }
            cursor.at += 1;
        }
        Ok(None)
    }

    /// Writes a name into a data block with space. Returns its address.
    fn add_record(&mut self, name: &[u8], ino: u32) -> Result<u32> {
        let need = RECORDS.need(name.len());
        let block = match self.find_space(need)? {
            Some(block) => block,
            None => {
                let mut bytes = vec![0; self.store.block_size()];
                RECORDS.clear(&mut bytes);
                let block = self.store.append(&bytes)?;
                self.add_to_map(block)?;
                block
            }
        };
        read_block(&mut *self.store, block, &mut self.block)?;
        self.old.clone_from(&self.block);
        let entered = RECORDS.insert(&mut self.block, name, ino).map_err(|why| bad(block, why))?;
        let off = entered.ok_or_else(|| bad(block, "the space that the map has"))?;
        self.work.references += 1;
        write_changes(&mut *self.store, block, &self.old, &self.block)?;
        self.update_map(block)?;
        Ok(self.address(block, off))
    }

    /// Sets the free space of the data block in use.
    fn update_map(&mut self, block: u32) -> Result<()> {
        let (most, _) = RECORDS.free_bytes(&self.block).map_err(|why| bad(block, why))?;
        self.set_space(block, most)
    }

    /// The entries of all data blocks, in their order, with their keys.
    fn each_record(&mut self, each: &mut dyn FnMut(u64, &[u8], u32)) -> Result<()> {
        for slot in 0..self.data_blocks()? {
            let block = self.data_block(slot)?;
            read_block(&mut *self.store, block, &mut self.block)?;
            let per_block = (self.block.len() / UNIT) as u32;
            let hash = self.hash;
            let listed = RECORDS.each(&self.block, |record| {
                if record.ino != 0 {
                    let address = block * per_block + (record.off / UNIT) as u32;
                    let hash = hash.hash(record.name, [0; 4]).0;
                    let key = u64::from(hash) << 32 | u64::from(address);
                    each(key, record.name, record.ino);
                }
                true
            });
            listed.map_err(|why| bad(block, why))?;
        }
        Ok(())
    }
}

impl Index for Btree {
    fn lookup(&mut self, name: &[u8]) -> Result<Option<u32>> {
        self.work.hash_lookups += 1;
        Ok(self.find(name, self.hash_of(name))?.map(|found| found.ino))
    }

    fn insert(&mut self, name: &[u8], ino: u32) -> Result<()> {
        check_name(name)?;
        self.work.hash_lookups += 1;
        let hash = self.hash_of(name);
        if self.find(name, hash)?.is_some() {
            return Err(IndexError::Exists);
        }
        let address = self.add_record(name, ino)?;
        self.add_key(u64::from(hash) << 32 | u64::from(address))
    }

    fn remove(&mut self, name: &[u8]) -> Result<Option<u32>> {
        self.work.hash_lookups += 1;
        let Some(found) = self.find(name, self.hash_of(name))? else { return Ok(None) };
        self.remove_key(found.key)?;
        read_block(&mut *self.store, found.block, &mut self.block)?;
        self.old.clone_from(&self.block);
        let place = RECORDS.place_of(&self.block, found.off);
        let place = place.map_err(|why| bad(found.block, why))?;
        let place = place.ok_or_else(|| bad(found.block, "the record that the tree has"))?;
        RECORDS.remove(&mut self.block, &place);
        write_changes(&mut *self.store, found.block, &self.old, &self.block)?;
        self.update_map(found.block)?;
        Ok(Some(found.ino))
    }

    fn list(&mut self, each: &mut dyn FnMut(&[u8], u32)) -> Result<()> {
        self.each_record(&mut |_, name, ino| each(name, ino))
    }

    /// The tree has the key of every record and no other, and the map the space of every block.
    fn check(&mut self) -> Result<()> {
        let mut records = Vec::new();
        self.each_record(&mut |key, _, _| records.push(key))?;
        records.sort_unstable();
        let keys = self.check_tree()?;
        if keys != records {
            let found = format!("{} keys for {} records", keys.len(), records.len());
            let expected = "the key of every record and no other";
            return Err(IndexError::damaged("index", 0, found, expected));
        }
        self.check_map()
    }

    fn memory(&self) -> u64 {
        self.header.bytes.len() as u64
    }

    fn work(&self) -> SearchWork {
        self.work
    }

    fn bytes(&self) -> u64 {
        u64::from(self.store.blocks()) * self.store.block_size() as u64
    }
}
