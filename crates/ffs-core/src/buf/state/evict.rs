//! Eviction: which blocks lose their header or their place in memory.

use super::super::block::{Backing, CachedBlock, Tier};
use super::super::limits::CacheLimits;
use super::super::queues::QueueId;
use super::super::{BufKey, BufKind};
use super::CacheState;
use crate::openhash::{ItemId, NIL};

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
        let Some(id) = self.index.id(key) else { return };
        let buf = self.blocks[id].buf.as_ref();
        if buf.is_none_or(|buf| buf.is_dirty()) {
            return;
        }
        buf.inspect(|buf| _ = buf.take_used());
        self.take_header(id);
        self.queues.remove(&mut self.blocks, id);
        self.queues.push_oldest(&mut self.blocks, id);
    }

    /// Sets new limits and the policy for directories. Directory blocks that the new policy would
    /// not keep are evicted; dirty blocks and blocks in use stay and are charged anew. Returns how
    /// many blocks it evicted.
    pub(in super::super) fn set_limits(&mut self, limits: CacheLimits) -> u64 {
        let policy_changed = limits.vmiodir != self.limits.vmiodir;
        self.limits = limits;
        self.pressure.set_limits(&self.limits);
        let mut evicted = 0;
        for id in self.blocks.ids() {
            let block = &self.blocks[id];
            let is_directory = block.buf.is_some() && block.kind == BufKind::Directory;
            if !is_directory || (limits.vmiodir && !policy_changed) {
                continue;
            }
            let (tier, bytes) = (block.tier, block.bytes);
            match tier {
                Tier::PagesOnly if self.evict(id) => evicted += 1,
                // A lookup has just found it.
                Tier::PagesOnly => {
                    self.move_to(id, Tier::Header);
                    self.recharge(id, bytes);
                }
                Tier::Header => self.recharge(id, bytes),
            }
        }
        evicted + self.evict_headers(0, 0) + self.evict_pages(0)
    }

    /// Evicts a block unless it is in use. Returns whether it did.
    fn evict(&mut self, id: ItemId) -> bool {
        let idle = self.blocks[id].buf.as_ref().is_some_and(|b| self.index.remove_idle(id, b));
        if idle {
            self.counts[self.blocks[id].kind as usize].evictions += 1;
            self.remove_unindexed(id);
        }
        idle
    }

    /// Takes the header of a block of tier 1 that is backed by pages, unless it is in use. Returns
    /// whether it did.
    fn take_header(&mut self, id: ItemId) -> bool {
        let CachedBlock { backing, tier, .. } = self.blocks[id];
        let taken = backing == Backing::Pages
            && tier == Tier::Header
            && self.blocks[id].buf.as_ref().is_some_and(|buf| self.index.take_header(buf));
        if taken {
            self.move_to(id, Tier::PagesOnly);
        }
        taken
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
            let pages = self.blocks[id].backing == Backing::Pages;
            if pages && self.take_header(id) {
                continue;
            }
            if !pages && self.evict(id) {
                evicted += 1;
                continue;
            }
            self.requeue(id);
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
            if self.evict(id) {
                evicted += 1;
                continue;
            }
            self.requeue(id);
        }
        evicted
    }

    /// Moves a block that was used since it was last examined to the newest end of its queue.
    /// Returns whether it did.
    fn give_second_chance(&mut self, id: ItemId) -> bool {
        let spared = self.blocks[id].buf.as_ref().is_some_and(|buf| buf.take_used());
        if spared {
            self.requeue(id);
        }
        spared
    }

    /// Moves a clean block to the newest end of its queue.
    fn requeue(&mut self, id: ItemId) {
        self.queues.remove(&mut self.blocks, id);
        self.queues.push_newest(&mut self.blocks, id);
    }
}
