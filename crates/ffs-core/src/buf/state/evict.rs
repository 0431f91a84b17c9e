//! Eviction: which blocks lose their header or their place in memory.

use super::super::block::{Backing, Tier};
use super::super::limits::CacheLimits;
use super::super::queues::QueueId;
use super::super::{BufKey, BufKind};
use super::{CacheState, OWN_REFERENCES};
use crate::openhash::{ItemId, NIL};
use std::sync::Arc;

impl CacheState {
    /// Makes space for a new block of `bytes` bytes. Returns how many blocks it evicted.
    pub(in super::super) fn make_space(&mut self, kind: BufKind, bytes: usize) -> u64 {
        let (backing, charged) = self.space.backing_for(&self.limits, kind, bytes as u32);
        let bufspace = if backing == Backing::Malloc { 0 } else { charged as usize };
        let pages = if backing == Backing::Pages { charged as usize } else { 0 };
        self.evict_headers(1, bufspace) + self.evict_pages(pages)
    }

    /// Makes the block of `key`, if it is clean, the first to be evicted.
    pub(in super::super) fn age(&mut self, key: BufKey) {
        let Some((id, buf)) = self.find(key).filter(|(_, buf)| !buf.is_dirty()) else { return };
        buf.take_referenced();
        if self.is_idle(id) && self.blocks[id].backing == Backing::Pages {
            self.move_to(id, Tier::PagesOnly);
        }
        self.queues.remove(&mut self.blocks, id);
        self.queues.push_oldest(&mut self.blocks, id);
    }

    /// Sets new limits and the policy for directories. Directory blocks that the new policy would
    /// not keep are evicted; dirty blocks and blocks in use stay and are charged anew. Returns how
    /// many blocks it evicted.
    pub(in super::super) fn set_limits(&mut self, limits: CacheLimits) -> u64 {
        let policy_changed = limits.vmiodir != self.limits.vmiodir;
        self.limits = limits;
        self.dirty_count.set_limits(&self.limits);
        let mut evicted = 0;
        for id in self.blocks.ids() {
            let block = &self.blocks[id];
            let is_directory = block.buf.is_some() && block.kind == BufKind::Directory;
            if !is_directory || (limits.vmiodir && !policy_changed) {
                continue;
            }
            match block.tier {
                Tier::PagesOnly => {
                    self.evict(id);
                    evicted += 1;
                }
                Tier::Header => self.recharge(id, block.bytes),
            }
        }
        evicted + self.evict_headers(0, 0) + self.evict_pages(0)
    }

    /// Whether only the cache has the buffer.
    fn is_idle(&self, id: ItemId) -> bool {
        let buf = self.blocks[id].buf.as_ref();
        buf.is_some_and(|buf| Arc::strong_count(buf) == OWN_REFERENCES)
    }

    fn evict(&mut self, id: ItemId) {
        self.counts[self.blocks[id].kind as usize].evictions += 1;
        self.remove(id);
    }

    /// Takes headers from clean blocks until `headers` more headers and `bytes` more bytes fit.
    /// Returns how many blocks it evicted.
    pub(super) fn evict_headers(&mut self, headers: usize, bytes: usize) -> u64 {
        let mut evicted = 0;
        let mut steps = 2 * (self.queues.len(QueueId::Headers) + self.queues.len(QueueId::Private));
        while steps > 0
            && (self.space.headers + headers > self.limits.headers
                || self.space.bufspace + bytes > self.limits.bufspace)
        {
            steps -= 1;
            let id = self.queues.oldest_header(&self.blocks);
            if id == NIL || self.give_second_chance(id) {
                continue;
            }
            if self.blocks[id].backing == Backing::Pages {
                self.move_to(id, Tier::PagesOnly);
            } else {
                self.evict(id);
                evicted += 1;
            }
        }
        evicted
    }

    /// Evicts clean blocks backed by pages until `bytes` more bytes fit. Returns how many.
    fn evict_pages(&mut self, bytes: usize) -> u64 {
        let mut evicted = 0;
        let mut steps = 2 * (self.queues.len(QueueId::Headers) + self.queues.len(QueueId::Pages));
        while steps > 0 && self.space.pages + bytes > self.limits.pages {
            steps -= 1;
            let id = match self.queues.oldest(QueueId::Pages) {
                NIL => self.queues.oldest(QueueId::Headers),
                id => id,
            };
            if id == NIL || self.give_second_chance(id) {
                continue;
            }
            self.evict(id);
            evicted += 1;
        }
        evicted
    }

    /// Moves a block that is in use, or was since it was last examined, to the newest end of its
    /// queue. Returns whether it did.
    fn give_second_chance(&mut self, id: ItemId) -> bool {
        let used = self.blocks[id].buf.as_ref().is_some_and(|buf| buf.take_referenced());
        let spared = used || !self.is_idle(id);
        if spared {
            self.queues.remove(&mut self.blocks, id);
            self.queues.push_newest(&mut self.blocks, id);
        }
        spared
    }
}
