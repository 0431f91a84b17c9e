//! The area of the journal: what is in use, and which blocks still have to be written in place.
//!
//! Positions count the journal's blocks since the start and never decrease; the place on the disk
//! is the position modulo the size of the area.
//!
//! # Invariants
//! 1. Blocks of the area are reused only after every block that their transaction logged was
//!    written in place, was logged again by a later transaction, or was dropped.
//! 2. A block is in at most one transaction's list: that of the last one that logged it. So it is
//!    written in place once, however many transactions logged it.
//! 3. No two blocks that wait for a checkpoint overlap.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

/// A block of the journal, bytes.
pub(super) const LOG_BLOCK: u64 = 4096;
/// Blocks that one descriptor can list: 8 bytes each, after a header of 12 bytes and the volume's
/// number of 16 bytes.
const TAGS: u64 = (LOG_BLOCK - 12 - 16) / 8;
/// The block that records the end of a transaction.
const COMMIT_BLOCK: u64 = 1;

/// A range of the volume that is logged as a whole, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) offset: u64,
    pub(super) len: u64,
}

impl Block {
    pub(super) fn new(offset: u64, len: u64) -> Block {
        Block { offset, len }
    }

    fn end(self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    /// Blocks of the journal for its content.
    pub(super) fn logged(self) -> u64 {
        self.len.div_ceil(LOG_BLOCK)
    }
}

/// Blocks by their offsets, none of which overlap.
#[derive(Debug, Default)]
pub(super) struct BlockMap<T> {
    blocks: BTreeMap<u64, (u64, T)>,
    /// The length of the longest block that was ever in it.
    longest: u64,
}

impl<T: Copy> BlockMap<T> {
    pub(super) fn new() -> BlockMap<T> {
        BlockMap { blocks: BTreeMap::new(), longest: 0 }
    }

    /// Adds a block, in place of those that it overlaps. Returns their values.
    pub(super) fn insert(&mut self, block: Block, value: T) -> Vec<T> {
        let replaced = self.remove(block);
        self.longest = self.longest.max(block.len);
        self.blocks.insert(block.offset, (block.len, value));
        replaced
    }

    /// Removes the blocks that overlap `block`. Returns their values.
    pub(super) fn remove(&mut self, block: Block) -> Vec<T> {
        let found: Vec<u64> = self.overlapping(block).collect();
        found.iter().filter_map(|offset| self.blocks.remove(offset)).map(|(_, v)| v).collect()
    }

    /// Whether a block overlaps `block`.
    pub(super) fn touches(&self, block: Block) -> bool {
        self.overlapping(block).next().is_some()
    }

    /// The offsets of the blocks that overlap `block`.
    fn overlapping(&self, block: Block) -> impl Iterator<Item = u64> + '_ {
        let first = block.offset.saturating_sub(self.longest);
        let near = self.blocks.range(first..block.end());
        near.filter(move |(offset, (len, _))| Block::new(**offset, *len).end() > block.offset)
            .map(|(offset, _)| *offset)
    }

    /// The value of the block that contains all of `block`.
    pub(super) fn around(&self, block: Block) -> Option<T> {
        let (offset, (len, value)) = self.blocks.range(..=block.offset).next_back()?;
        (Block::new(*offset, *len).end() >= block.end()).then_some(*value)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Block, T)> + '_ {
        self.blocks.iter().map(|(offset, (len, value))| (Block::new(*offset, *len), *value))
    }
}

/// A logged block that was not written in place yet.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    transaction: u64,
    since: Duration,
}

/// A transaction in the area.
#[derive(Debug)]
struct Logged {
    /// The position after its commit block.
    end: u64,
    /// Its blocks that wait for a checkpoint.
    waiting: usize,
}

/// Where a transaction is written: positions of the descriptors and blocks, and of the commit
/// block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) body: Range<u64>,
    pub(super) commit: u64,
}

/// The area of the journal.
#[derive(Debug)]
pub(super) struct Log {
    size: u64,
    head: u64,
    tail: u64,
    /// The transactions from `tail` on.
    transactions: VecDeque<Logged>,
    /// The number of the first of them.
    first: u64,
    waiting: BlockMap<Waiting>,
}

impl Log {
    /// An empty area of `size` blocks.
    pub(super) fn new(size: u64) -> Log {
        let (transactions, waiting) = (VecDeque::new(), BlockMap::new());
        Log { size, head: 0, tail: 0, transactions, first: 0, waiting }
    }

    /// Blocks that one transaction may take, with its descriptors and its commit block
    /// (`j_max_transaction_buffers`).
    pub(super) fn largest(&self) -> u64 {
        self.size / 4
    }

    /// Blocks that a transaction with `logged` blocks of content takes.
    pub(super) fn with_overhead(logged: u64) -> u64 {
        logged + logged.div_ceil(TAGS) + COMMIT_BLOCK
    }

    pub(super) fn free(&self) -> u64 {
        self.size - (self.head - self.tail)
    }

    #[cfg(test)]
    pub(super) fn tail(&self) -> u64 {
        self.tail
    }

    /// Adds a transaction at time `now`. There must be space for it.
    pub(super) fn append(&mut self, blocks: &[Block], now: Duration) -> Placed {
        let logged = blocks.iter().map(|block| block.logged()).sum();
        let begin = self.head;
        self.head += Log::with_overhead(logged);
        debug_assert!(self.head - self.tail <= self.size, "the transaction has no space");
        let transaction = self.first + self.transactions.len() as u64;
        for block in blocks {
            self.drop_block(*block);
            self.waiting.insert(*block, Waiting { transaction, since: now });
        }
        self.transactions.push_back(Logged { end: self.head, waiting: blocks.len() });
        Placed { body: begin..self.head - COMMIT_BLOCK, commit: self.head - COMMIT_BLOCK }
    }

    /// The block is not written in place any more: it was written, logged again or freed.
    pub(super) fn drop_block(&mut self, block: Block) {
        for Waiting { transaction, .. } in self.waiting.remove(block) {
            let at = usize::try_from(transaction - self.first).unwrap_or(usize::MAX);
            if let Some(logged) = self.transactions.get_mut(at) {
                logged.waiting -= 1;
            }
        }
    }

    /// Whether all of `block` waits for a checkpoint, so that memory has it.
    pub(super) fn has(&self, block: Block) -> bool {
        self.waiting.around(block).is_some()
    }

    /// The blocks that have waited since `limit` or longer, by offset.
    pub(super) fn due(&self, limit: Duration) -> Vec<Block> {
        let due = self.waiting.iter().filter(|(_, waiting)| waiting.since <= limit);
        due.map(|(block, _)| block).collect()
    }

    /// All blocks that wait, by offset.
    pub(super) fn all(&self) -> Vec<Block> {
        self.waiting.iter().map(|(block, _)| block).collect()
    }

    /// Frees the space of the oldest transactions without blocks that wait. Returns whether there
    /// were any.
    pub(super) fn move_tail(&mut self) -> bool {
        let before = self.tail;
        while let Some(oldest) = self.transactions.front().filter(|oldest| oldest.waiting == 0) {
            self.tail = oldest.end;
            self.transactions.pop_front();
            self.first += 1;
        }
        self.tail != before
    }
}
