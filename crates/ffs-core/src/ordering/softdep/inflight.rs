//! Writes that were issued, with their contents, until a flush has made them durable.
//!
//! # Invariants
//! 1. A block has at most one write in flight: its buffer is locked until the write completes.
//! 2. Completed writes are in the order of their completion.

use super::dep::DepId;
use super::heap::{heap, table_bytes, take};
use super::inodedep::ShownInode;
use crate::buf::BufKey;
use foldhash::fast::FixedState;
use smallvec::SmallVec;
use std::collections::{HashMap, VecDeque};

/// Writes for which an empty queue keeps its memory.
const KEPT: usize = 64;

/// The contents of a write of a block.
#[derive(Debug, Default)]
pub(super) struct BlockContents {
    /// Number of the last change of the block that it contains; 0 if none is pending.
    pub(super) change: u64,
    /// The dependencies that it contains, without those that a later write of the block reverted.
    pub(super) deps: Vec<DepId>,
    pub(super) inodes: SmallVec<[ShownInode; 2]>,
}

impl BlockContents {
    /// Whether its completion means anything.
    pub(super) fn is_empty(&self) -> bool {
        self.change == 0 && self.deps.is_empty() && self.inodes.is_empty()
    }

    fn heap_bytes(&self) -> usize {
        self.deps.capacity() * size_of::<DepId>() + heap(&self.inodes)
    }
}

/// A completed write that no flush has made durable.
#[derive(Debug)]
struct Unflushed {
    number: u64,
    key: BufKey,
    contents: BlockContents,
}

/// All writes that were issued and are not durable.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    issued: HashMap<BufKey, BlockContents, FixedState>,
    unflushed: VecDeque<Unflushed>,
    /// Number of the last write that completed.
    completed: u64,
}

impl InFlight {
    pub(super) fn issue(&mut self, key: BufKey, contents: BlockContents) {
        self.issued.insert(key, contents);
    }

    /// The write of the block completed.
    pub(super) fn complete(&mut self, key: BufKey) -> Option<BlockContents> {
        take(&mut self.issued, &key)
    }

    /// The write is durable after the next flush.
    pub(super) fn await_flush(&mut self, key: BufKey, contents: BlockContents) {
        self.completed += 1;
        self.unflushed.push_back(Unflushed { number: self.completed, key, contents });
    }

    /// A new write of the block rolls back the dependencies `reverted`. The earlier writes that no
    /// flush has made durable do not count for them any more.
    pub(super) fn revert(&mut self, key: BufKey, reverted: &[DepId]) {
        for write in self.unflushed.iter_mut().filter(|write| write.key == key) {
            write.contents.deps.retain(|id| !reverted.contains(id));
        }
    }

    /// The dependencies that a flush makes durable with earlier writes of the block.
    pub(super) fn shown_before(&self, key: BufKey) -> impl Iterator<Item = DepId> {
        let of_block = self.unflushed.iter().filter(move |write| write.key == key);
        of_block.flat_map(|write| write.contents.deps.iter().copied())
    }

    /// Number of the last write that completed: a flush that begins now makes it durable.
    pub(super) fn last_completed(&self) -> u64 {
        self.completed
    }

    /// The oldest write up to number `until` that no flush has made durable.
    pub(super) fn take_flushed(&mut self, until: u64) -> Option<(BufKey, BlockContents)> {
        self.unflushed.front().filter(|write| write.number <= until)?;
        let write = self.unflushed.pop_front()?;
        if self.unflushed.is_empty() {
            self.unflushed.shrink_to(KEPT);
        }
        Some((write.key, write.contents))
    }

    pub(super) fn bytes(&self) -> usize {
        let contents = self.issued.values().chain(self.unflushed.iter().map(|w| &w.contents));
        table_bytes::<(BufKey, BlockContents)>(self.issued.capacity())
            + self.unflushed.capacity() * size_of::<Unflushed>()
            + contents.map(BlockContents::heap_bytes).sum::<usize>()
    }
}
