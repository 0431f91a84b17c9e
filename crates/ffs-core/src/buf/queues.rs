//! The queues of clean blocks, in the order of eviction.
//!
//! # Invariants
//! 1. A clean block is on exactly one queue, the one that [`queue_of`] names; a dirty block is on
//!    none.
//! 2. Within a queue `queued_at` grows from the oldest block to the newest.

use super::block::{Backing, BlockTable, CachedBlock, Tier};
use super::links::Links;
use crate::openhash::{ItemId, NIL};

/// Names of the queues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum QueueId {
    /// Blocks of tier 1 that are backed by pages.
    Headers,
    /// Blocks of tier 1 with private memory.
    Private,
    /// Blocks of tier 2.
    Pages,
}

/// A doubly linked list of blocks.
#[derive(Clone, Copy)]
struct Queue {
    oldest: ItemId,
    newest: ItemId,
    len: usize,
}

/// The queue that a block is on while it is clean.
fn queue_of(block: &CachedBlock) -> QueueId {
    match (block.tier, block.backing) {
        (Tier::PagesOnly, _) => QueueId::Pages,
        (Tier::Header, Backing::Pages) => QueueId::Headers,
        (Tier::Header, Backing::Malloc | Backing::Private) => QueueId::Private,
    }
}

/// The queues, and the clock that orders blocks across them.
pub(super) struct Queues {
    queues: [Queue; 3],
    /// Blocks queued so far.
    clock: u64,
}

impl Default for Queues {
    fn default() -> Queues {
        Queues { queues: [Queue { oldest: NIL, newest: NIL, len: 0 }; 3], clock: 0 }
    }
}

impl Queues {
    /// Blocks on a queue.
    pub(super) fn len(&self, queue: QueueId) -> usize {
        self.queues[queue as usize].len
    }

    /// The oldest block of a queue, or [`NIL`].
    pub(super) fn oldest(&self, queue: QueueId) -> ItemId {
        self.queues[queue as usize].oldest
    }

    /// The block of tier 1 that was queued first, or [`NIL`].
    pub(super) fn oldest_header(&self, blocks: &BlockTable) -> ItemId {
        let queued_at = |id: ItemId| blocks[id].queued_at;
        match (self.oldest(QueueId::Headers), self.oldest(QueueId::Private)) {
            (NIL, id) | (id, NIL) => id,
            (a, b) if queued_at(a) < queued_at(b) => a,
            (_, b) => b,
        }
    }

    /// Puts a clean block at the newest end of its queue.
    pub(super) fn push_newest(&mut self, blocks: &mut BlockTable, id: ItemId) {
        self.clock += 1;
        let queue = &mut self.queues[queue_of(&blocks[id]) as usize];
        let last = queue.newest;
        blocks[id].queue_links = Links { prev: last, next: NIL };
        blocks[id].queued_at = self.clock;
        match blocks.get_mut(last) {
            Some(block) => block.queue_links.next = id,
            None => queue.oldest = id,
        }
        queue.newest = id;
        queue.len += 1;
    }

    /// Puts a clean block at the oldest end of its queue: it is evicted first.
    pub(super) fn push_oldest(&mut self, blocks: &mut BlockTable, id: ItemId) {
        let queue = &mut self.queues[queue_of(&blocks[id]) as usize];
        let first = queue.oldest;
        blocks[id].queue_links = Links { prev: NIL, next: first };
        blocks[id].queued_at = 0;
        match blocks.get_mut(first) {
            Some(block) => block.queue_links.prev = id,
            None => queue.newest = id,
        }
        queue.oldest = id;
        queue.len += 1;
    }

    /// Takes a clean block off its queue.
    pub(super) fn remove(&mut self, blocks: &mut BlockTable, id: ItemId) {
        let queue = &mut self.queues[queue_of(&blocks[id]) as usize];
        let Links { prev: older, next: newer } = blocks[id].queue_links;
        match blocks.get_mut(older) {
            Some(block) => block.queue_links.next = newer,
            None => queue.oldest = newer,
        }
        match blocks.get_mut(newer) {
            Some(block) => block.queue_links.prev = older,
            None => queue.newest = older,
        }
        queue.len -= 1;
    }

    /// Checks that each queue has as many blocks as it counts; returns their sum.
    #[cfg(test)]
    pub(super) fn recount(&self, blocks: &BlockTable) -> usize {
        let block = |id: ItemId| (id != NIL).then_some(id);
        for queue in &self.queues {
            let newer = |id: &ItemId| block(blocks[*id].queue_links.next);
            let walk = std::iter::successors(block(queue.oldest), newer);
            assert_eq!(walk.count(), queue.len);
        }
        self.queues.iter().map(|queue| queue.len).sum()
    }
}
