//! The directory index of ext2 (`dir_index`, HTree): hashes in a tree of fixed depth.
//!
//! A directory of one block is searched linearly. When the block is full, its entries move to a
//! leaf and the block becomes the root. Leaves are directory blocks, whose entries have hashes in
//! one range. A listing is in the order of hashes.
//!
//! # Invariants
//! 1. The bytes are those of ext2 with 4-byte inode numbers, at most one level of inner nodes and
//!    no checksums. ext2 has a flag in the inode; here a directory of two blocks or more has an
//!    index, unless block 0 is no root. Such a directory, which a crash may leave, is searched
//!    linearly, and not changed before a check has repaired it.
//! 2. Entry *i* of a node has the hashes from its own up to that of the next one. A low bit of 1
//!    means that the leaf before has entries with the same hash.
//! 3. A split writes the new block, then the nodes above it, then the old block.
//! 4. Blocks are never merged, and the directory does not shrink.
//!
//! Reference: `docs/spec/directories-and-caches.md` §8.2.

mod node;
mod split;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use self::node::Node;
use super::Index;
use super::error::{IndexError, Result};
use super::hash::HashVersion;
use super::record::{Place, Records, check_name};
use super::store::{Store, read_block, write_changes};
use crate::machine::SearchWork;

const RECORDS: Records = Records::Ext2;
/// The least block size: two of the longest names and the two first entries fit.
const SMALLEST: usize = 1024;
/// The largest block size: a record's length has 16 bits.
const LARGEST: usize = 32768;
/// Bytes of `.` and `..` before the names of a directory of one block.
const DOTS: usize = 24;
/// The most nodes from the root to a leaf.
const LEVELS: usize = 2;

/// A step on the way from the root to a leaf.
#[derive(Debug, Clone)]
struct Step {
    block: u32,
    node: Node,
    /// The entry that was followed.
    at: usize,
}

/// An entry: its hash and minor hash, its name, its inode number.
type Hashed = ((u32, u32), Vec<u8>, u32);

/// How a directory is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One block without an index.
    Single,
    Indexed,
    /// Several blocks without a root.
    Rootless,
}

/// An ext2 directory with an index.
pub(super) struct Htree {
    store: Box<dyn Store>,
    form: Form,
    hash: HashVersion,
    work: SearchWork,
    /// The leaf in use.
    leaf: Vec<u8>,
    old: Vec<u8>,
}

fn bad(block: u32, why: &'static str) -> IndexError {
    IndexError::damaged("directory leaf", block, "a record", why)
}

impl Htree {
    /// The directory in `store`; a new one if the store is empty.
    ///
    /// # Errors
    /// A block size that the format does not have; those of the store.
    pub(super) fn open(mut store: Box<dyn Store>, hash: HashVersion) -> Result<Htree> {
        let size = store.block_size();
        if !(SMALLEST..=LARGEST).contains(&size) {
            let expected = "1024 to 32768 bytes";
            return Err(IndexError::damaged("block size", 0, size, expected));
        }
        if store.blocks() == 0 {
            let mut block = vec![0; size];
            node::write_dots(&mut block);
            store.append(&block)?;
        }
        let mut dots = [0; DOTS];
        store.read(0, 0, &mut dots)?;
        let form = match store.blocks() {
            1 => Form::Single,
            _ if node::is_root(&dots, size) => Form::Indexed,
            _ => Form::Rootless,
        };
        let (leaf, old) = (Vec::new(), Vec::new());
        Ok(Htree { store, form, hash, work: SearchWork::default(), leaf, old })
    }

    /// The error for a change of a directory that has to be repaired first.
    fn rootless() -> IndexError {
        IndexError::damaged("index", 0, "no root", "a root in a directory of several blocks")
    }

    fn hash_of(&self, name: &[u8]) -> u32 {
        self.hash.hash(name, [0; 4]).0
    }

    fn read_node(&mut self, block: u32, root: bool) -> Result<Node> {
        let mut bytes = Vec::new();
        read_block(&mut *self.store, block, &mut bytes)?;
        Node::read(bytes, (block, self.store.blocks()), root, self.hash)
    }

    /// The way from the root to the first leaf that may have the hash.
    fn probe(&mut self, hash: u32) -> Result<Vec<Step>> {
        let root = self.read_node(0, true)?;
        let levels = root.levels();
        let mut way = vec![self.step(0, root, hash)];
        for _ in 0..levels {
            let block = way.last().map_or(0, Step::child);
            let node = self.read_node(block, false)?;
            way.push(self.step(block, node, hash));
        }
        Ok(way)
    }

    fn step(&mut self, block: u32, node: Node, hash: u32) -> Step {
        let at = node.search(hash, &mut self.work);
        Step { block, node, at }
    }

    /// Moves to the next leaf, if its first entries may have the hash.
    fn next_leaf(&mut self, way: &mut [Step], hash: u32) -> Result<bool> {
        let Some(level) = way.iter().rposition(|step| step.at + 1 < step.node.count()) else {
            return Ok(false);
        };
        let found = way[level].node.hash(way[level].at + 1);
        if found & 1 == 0 || found & !1 != hash {
            return Ok(false);
        }
        self.descend_right(way, level)?;
        Ok(true)
    }

    /// Follows the next entry at `level`, and the first ones below.
    fn descend_right(&mut self, way: &mut [Step], level: usize) -> Result<()> {
        way[level].at += 1;
        for below in level + 1..way.len() {
            let block = way[below - 1].child();
            way[below] = Step { block, node: self.read_node(block, false)?, at: 0 };
        }
        Ok(())
    }

    fn read_leaf(&mut self, block: u32) -> Result<()> {
        read_block(&mut *self.store, block, &mut self.leaf)
    }

    /// Searches for a name. Afterwards the leaf in use is the block that has it.
    fn find(&mut self, name: &[u8]) -> Result<Option<(u32, Place)>> {
        if self.form != Form::Indexed {
            self.work.linear_lookups += 1;
            for block in 0..self.store.blocks() {
                self.read_leaf(block)?;
                if let Some(place) = self.find_in_leaf(block, name)? {
                    return Ok(Some((block, place)));
                }
            }
            return Ok(None);
        }
        self.work.hash_lookups += 1;
        let hash = self.hash_of(name);
        let mut way = self.probe(hash)?;
        self.find_from(&mut way, name, hash)
    }

    /// Searches the leaves from the end of `way` on.
    fn find_from(
        &mut self,
        way: &mut [Step],
        name: &[u8],
        hash: u32,
    ) -> Result<Option<(u32, Place)>> {
        loop {
            let leaf = way.last().map_or(0, Step::child);
            self.read_leaf(leaf)?;
            if let Some(place) = self.find_in_leaf(leaf, name)? {
                return Ok(Some((leaf, place)));
            }
            if !self.next_leaf(way, hash)? {
                return Ok(None);
            }
        }
    }

    fn find_in_leaf(&mut self, block: u32, name: &[u8]) -> Result<Option<Place>> {
        let skip = if block == 0 { DOTS } else { 0 };
        let unit = self.leaf.get(skip..).unwrap_or(&[]);
        let found = RECORDS.find(unit, name, &mut self.work);
        let found = found.map_err(|why| bad(block, why))?;
        let moved = |place: Place| Place {
            off: place.off + skip,
            before: place.before.map(|before| before + skip),
            ..place
        };
        Ok(found.map(moved))
    }

    /// Enters a name in the block in use, if it has space.
    fn insert_in_leaf(&mut self, block: u32, name: &[u8], ino: u32) -> Result<bool> {
        self.old.clone_from(&self.leaf);
        let skip = if block == 0 { DOTS } else { 0 };
        let unit = self.leaf.get_mut(skip..).unwrap_or(&mut []);
        let entered = RECORDS.insert(unit, name, ino).map_err(|why| bad(block, why))?;
        if entered.is_some() {
            write_changes(&mut *self.store, block, &self.old, &self.leaf)?;
        }
        Ok(entered.is_some())
    }

    /// Calls `each` with every leaf in the order of the hashes, with the range of its hashes.
    fn each_leaf(
        &mut self,
        mut each: impl FnMut(&mut Htree, u32, RangeInclusive<u32>) -> Result<()>,
    ) -> Result<()> {
        let mut seen = BTreeSet::from([0]);
        let mut way = self.probe(0)?;
        let mut visit = |block: u32| {
            let expected = "a block that nothing else refers to";
            let fresh = seen.insert(block);
            if fresh { Ok(()) } else { Err(IndexError::damaged("index", block, "twice", expected)) }
        };
        for step in way.iter().skip(1) {
            visit(step.block)?;
        }
        loop {
            let leaf = way.last().map_or(0, Step::child);
            visit(leaf)?;
            let next = way.iter().rposition(|step| step.at + 1 < step.node.count());
            // Entry 0 of a node has no hash of its own: that of the entry above it counts.
            let low = way.iter().rev().find(|step| step.at > 0);
            let low = low.map_or(0, |step| step.node.hash(step.at));
            let high = next.map_or(u32::MAX, |level| way[level].node.hash(way[level].at + 1));
            // A hash that continues in the next leaf is also in this one.
            let last = if high & 1 == 1 { high } else { high.saturating_sub(1) };
            each(self, leaf, low & !1..=last)?;
            let Some(level) = next else { return Ok(()) };
            self.descend_right(&mut way, level)?;
            for step in way.iter().skip(level + 1) {
                visit(step.block)?;
            }
        }
    }

    /// The entries of a leaf in the order of their hashes.
    fn sorted(&mut self, block: u32) -> Result<Vec<Hashed>> {
        self.read_leaf(block)?;
        let skip = if block == 0 { DOTS } else { 0 };
        let entries = RECORDS.entries(self.leaf.get(skip..).unwrap_or(&[]));
        let entries = entries.map_err(|why| bad(block, why))?;
        let hash = |name: &[u8]| self.hash.hash(name, [0; 4]);
        let mut all: Vec<_> =
            entries.into_iter().map(|(name, ino)| (hash(&name), name, ino)).collect();
        all.sort();
        self.work.built += all.len() as u64;
        Ok(all)
    }
}

impl Step {
    /// The block below.
    fn child(&self) -> u32 {
        self.node.child(self.at)
    }
}

impl Index for Htree {
    fn lookup(&mut self, name: &[u8]) -> Result<Option<u32>> {
        Ok(self.find(name)?.map(|(_, place)| place.ino))
    }

    fn insert(&mut self, name: &[u8], ino: u32) -> Result<()> {
        check_name(name)?;
        if self.form == Form::Rootless {
            return Err(Htree::rootless());
        }
        if self.form == Form::Single {
            if self.find(name)?.is_some() {
                return Err(IndexError::Exists);
            }
            if self.insert_in_leaf(0, name, ino)? {
                return Ok(());
            }
            self.make_root()?;
        }
        self.work.hash_lookups += 1;
        let hash = self.hash_of(name);
        let mut way = self.probe(hash)?;
        let leaf = way.last().map_or(0, Step::child);
        if self.find_from(&mut way, name, hash)?.is_some() {
            return Err(IndexError::Exists);
        }
        if way.last().map_or(0, Step::child) != leaf {
            // The search went on to leaves with the same hash.
            way = self.probe(hash)?;
            self.read_leaf(leaf)?;
        }
        if self.insert_in_leaf(leaf, name, ino)? {
            return Ok(());
        }
        if self.make_space_above(&way)? {
            way = self.probe(hash)?;
        }
        self.split_leaf(&way, (name, hash, ino))
    }

    fn remove(&mut self, name: &[u8]) -> Result<Option<u32>> {
        if self.form == Form::Rootless {
            return Err(Htree::rootless());
        }
        let Some((block, place)) = self.find(name)? else { return Ok(None) };
        self.old.clone_from(&self.leaf);
        RECORDS.remove(&mut self.leaf, &place);
        write_changes(&mut *self.store, block, &self.old, &self.leaf)?;
        Ok(Some(place.ino))
    }

    fn list(&mut self, each: &mut dyn FnMut(&[u8], u32)) -> Result<()> {
        if self.form != Form::Indexed {
            for block in 0..self.store.blocks() {
                self.sorted(block)?.iter().for_each(|(_, name, ino)| each(name, *ino));
            }
            return Ok(());
        }
        self.each_leaf(|htree, leaf, _| {
            htree.sorted(leaf)?.iter().for_each(|(_, name, ino)| each(name, *ino));
            Ok(())
        })
    }

    fn check(&mut self) -> Result<()> {
        match self.form {
            Form::Single => return self.sorted(0).map(drop),
            Form::Rootless => return Err(Htree::rootless()),
            Form::Indexed => {}
        }
        let mut leaves = 0;
        let mut last = 0;
        self.each_leaf(|htree, leaf, range| {
            leaves += 1;
            if *range.start() < last {
                let expected = "hashes in ascending order";
                return Err(IndexError::damaged("index", leaf, range.start(), expected));
            }
            last = *range.start();
            match htree.sorted(leaf)?.iter().find(|((hash, _), _, _)| !range.contains(hash)) {
                Some(((hash, _), ..)) => {
                    let expected = "the hash of a name within the range of its leaf";
                    Err(IndexError::damaged("directory leaf", leaf, hash, expected))
                }
                None => Ok(()),
            }
        })?;
        let nodes = match self.read_node(0, true)? {
            root if root.levels() == 0 => 1,
            root => 1 + root.count(),
        };
        if nodes + leaves != self.store.blocks() as usize {
            let expected = "a place in the index for every block";
            return Err(IndexError::damaged("index", 0, nodes + leaves, expected));
        }
        Ok(())
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
