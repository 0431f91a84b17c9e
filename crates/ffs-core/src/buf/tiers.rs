//! Which blocks are in memory, in which of two tiers, and what goes when room is wanted.
//!
//! # Invariants
//! 1. A block in **tier 1** has a buffer header: at most `nbuf` of them, with at most `hibufspace` bytes. A
//!    block in **tier 2 only** lies in pages of the one cache, clean and without users; a lookup gives it a
//!    header again, without the device. Blocks of both that are backed by pages hold at most `cache` bytes.
//! 2. Every block is backed by pages (sizes rounded up to 4096), but directory blocks only while
//!    `vmiodirenable` is on. Otherwise their memory is the header's own: up to 2048 bytes in multiples of
//!    512 while `maxbufmallocspace` has room, else rounded up to 4096 and counted in `bufspace`. Such a block
//!    is gone when it loses its header.
//! 3. Dirty blocks and blocks in use keep their headers; if these alone exceed a limit, it is exceeded. Else
//!    the limits hold whenever a block comes in.
//! 4. What goes first: of tier 2, the block that lost its header first; of tier 1, the oldest header that was
//!    not used since it was looked at last (second chance), so that a hit moves nothing.
//! 5. The numbers in [`Use`] are the sums over the slots at any time the lock is free.
//!
//! Reference: `spec/directories-and-caches.md` §7.

use super::limits::CacheLimits;
use super::pool::Pool;
use super::stats::{CacheStats, ClassStats};
use super::{Buf, BufKey, BufKind, BufRef};
use crate::openhash::{NIL, OpenHash};
use crate::prefetch;
use ffs_ondisk::Ino;
use foldhash::fast::FixedState;
use std::collections::{BTreeMap, HashMap};
use std::hash::BuildHasher;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Bytes of a page.
const PAGE: u32 = 4096;
/// Granularity of small private buffers, bytes.
const MALLOC_UNIT: u32 = 512;
/// Largest buffer that is not made of pages, bytes.
const MALLOC_MOST: u32 = 2048;

/// Where a block's bytes are accounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Home {
    /// Pages of the one cache, in both tiers.
    Pages,
    /// Small private memory.
    Malloc,
    /// Private memory rounded up to pages.
    Private,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tier {
    One,
    Two,
}

/// References to a buffer that the cache has itself: its slot's, and the index's, as at a hundred thousand blocks
/// each step on the way to one waits for memory.
const OWN: usize = 2;

/// A block in memory.
struct Slot {
    buf: Option<BufRef>,
    /// When it came to the end of its queue.
    stamp: u64,
    bytes: u32,
    /// Bytes with the rounding of its home.
    cost: u32,
    older: u32,
    newer: u32,
    /// Neighbours among the blocks of the same file.
    prev: u32,
    next: u32,
    kind: BufKind,
    home: Home,
    tier: Tier,
    /// Dirty slots are on no queue.
    dirty: bool,
    /// Found since it was looked at for eviction.
    used: bool,
}

/// Clean slots in the order in which they go.
#[derive(Clone, Copy)]
struct Queue {
    oldest: u32,
    newest: u32,
    len: usize,
}

const EMPTY: Queue = Queue { oldest: NIL, newest: NIL, len: 0 };

/// Tier 1 backed by pages, tier 1 with memory of its own, tier 2.
const HEADERS: usize = 0;
const PRIVATE: usize = 1;
const PAGES: usize = 2;

/// Blocks of one file.
#[derive(Clone, Copy)]
struct Owner {
    first: u32,
    blocks: u32,
    directory_blocks: u32,
}

/// Memory in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Use {
    /// Blocks in tier 1.
    pub(super) headers: usize,
    /// Bytes of tier 1 but for small private memory.
    pub(super) bufspace: usize,
    /// Bytes of small private memory.
    pub(super) mallocspace: usize,
    /// Bytes of pages, both tiers.
    pub(super) pages: usize,
    /// Bytes lost by rounding.
    pub(super) waste: usize,
    /// Directories with a block in memory.
    pub(super) directories: usize,
    /// Blocks and bytes by kind and tier.
    pub(super) by_kind: [[(usize, usize); 2]; BufKind::ALL.len()],
}

/// A buffer that waits to be written.
pub(super) struct Dirty {
    pub(super) buf: BufRef,
    /// Since when: the time last told before it was first changed.
    pub(super) since: i64,
    /// An image of it has been written that left changes out: then `since` is when.
    pub(super) part: bool,
}

/// What the cache's lock guards.
pub(super) struct State {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Slots by key.
    index: OpenHash<BufRef>,
    hasher: FixedState,
    owners: HashMap<Ino, Owner, FixedState>,
    queues: [Queue; 3],
    tick: u64,
    limits: CacheLimits,
    in_use: Use,
    counts: [ClassStats; BufKind::ALL.len()],
    dirty_bytes: usize,
    pub(super) dirty: BTreeMap<BufKey, Dirty>,
    /// Seconds since 1970 as last told.
    pub(super) now: i64,
    pub(super) pool: Pool,
}

impl State {
    pub(super) fn new(limits: CacheLimits) -> State {
        State {
            slots: Vec::new(),
            free: Vec::new(),
            index: OpenHash::default(),
            hasher: FixedState::default(),
            owners: HashMap::default(),
            queues: [EMPTY; 3],
            tick: 0,
            limits,
            in_use: Use::default(),
            counts: Default::default(),
            dirty_bytes: 0,
            dirty: BTreeMap::new(),
            now: 0,
            pool: Pool::default(),
        }
    }

    fn hash(&self, key: BufKey) -> u32 {
        (self.hasher.hash_one(key) >> 32) as u32
    }

    fn place(&self, key: BufKey) -> Option<(u32, &BufRef)> {
        let found = self.index.find(self.hash(key), |at, buf| {
            // Slot and buffer lie anywhere in memory: they come at the same time.
            self.slots.get(at as usize).inspect(|slot| prefetch::line(*slot));
            buf.is_some_and(|buf| buf.key == key)
        });
        found.and_then(|(at, buf)| Some((at, buf?)))
    }

    fn find(&self, key: BufKey) -> Option<u32> {
        self.place(key).map(|(at, _)| at)
    }

    /// The buffer of `key`, no use of it.
    pub(super) fn peek(&self, key: BufKey) -> Option<&Buf> {
        self.place(key).map(|(_, buf)| &**buf)
    }

    /// The block of `key` will be asked for.
    pub(super) fn prefetch(&self, key: BufKey) {
        self.index.prefetch(self.hash(key));
    }

    pub(super) fn contains(&self, key: BufKey) -> bool {
        self.find(key).is_some()
    }

    pub(super) fn has_file(&self, ino: Ino) -> bool {
        self.owners.contains_key(&ino)
    }

    /// The buffer of `key`, which is in tier 1 from now on; a hit is counted.
    pub(super) fn lookup(&mut self, key: BufKey) -> Option<BufRef> {
        let (at, buf) = self.place(key)?;
        let buf = Arc::clone(buf);
        let slot = &mut self.slots[at as usize];
        slot.used = true;
        let (tier, kind) = (slot.tier, slot.kind);
        let count = &mut self.counts[kind as usize];
        if tier == Tier::One {
            count.tier1_hits += 1;
        } else {
            count.tier2_hits += 1;
            self.move_to(at, Tier::One);
            self.shed_headers(0, 0);
        }
        Some(buf)
    }

    /// Counts a lookup that has to read.
    pub(super) fn count_miss(&mut self, kind: BufKind) {
        self.counts[kind as usize].misses += 1;
    }

    /// Enters a block that is not in memory, in tier 1.
    pub(super) fn insert(&mut self, buf: BufRef, len: usize) {
        let (key, kind, bytes) = (buf.key, buf.kind, len as u32);
        let (home, cost) = self.home_of(kind, bytes);
        let slot = Slot {
            buf: Some(Arc::clone(&buf)),
            stamp: 0,
            bytes,
            cost,
            older: NIL,
            newer: NIL,
            prev: NIL,
            next: NIL,
            kind,
            home,
            tier: Tier::One,
            dirty: false,
            used: false,
        };
        let at = match self.free.pop() {
            Some(at) => {
                self.slots[at as usize] = slot;
                at
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        self.index.insert(self.hash(key), at, Some(buf));
        if let BufKey::File(ino, _) = key {
            self.adopt(ino, at);
        }
        self.account(at, true);
        self.link(at);
    }

    /// Makes room for a block of `len` bytes that is about to come. Returns how many blocks went.
    pub(super) fn make_room(&mut self, kind: BufKind, len: usize) -> u64 {
        let (home, cost) = self.home_of(kind, len as u32);
        let bufspace = if home == Home::Malloc { 0 } else { cost as usize };
        let pages = if home == Home::Pages { cost as usize } else { 0 };
        self.shed_headers(1, bufspace) + self.shed_pages(pages)
    }

    /// Where a block would be accounted, and its size there.
    fn home_of(&self, kind: BufKind, bytes: u32) -> (Home, u32) {
        let paged = bytes.next_multiple_of(PAGE);
        if kind != BufKind::Directory || self.limits.vmiodir {
            return (Home::Pages, paged);
        }
        let small = bytes.next_multiple_of(MALLOC_UNIT);
        let room = self.limits.mallocspace.saturating_sub(self.in_use.mallocspace);
        if bytes <= MALLOC_MOST && small as usize <= room {
            (Home::Malloc, small)
        } else {
            (Home::Private, paged)
        }
    }

    /// Takes a slot out of everything; its memory goes to the pool, unless somebody else looks at
    /// the buffer: then it is returned.
    fn remove(&mut self, at: u32) -> Option<BufRef> {
        let buf = self.slots[at as usize].buf.take()?;
        if self.slots[at as usize].dirty {
            self.dirty_bytes -= self.slots[at as usize].bytes as usize;
            self.dirty.remove(&buf.key);
        } else {
            self.unlink(at);
        }
        self.account(at, false);
        self.index.remove(self.hash(buf.key), at);
        if let BufKey::File(ino, _) = buf.key {
            self.abandon(ino, at);
        }
        self.free.push(at);
        match Arc::try_unwrap(buf) {
            Ok(b) => {
                self.pool.give(b.data.into_inner().bytes);
                None
            }
            Err(seen) => Some(seen),
        }
    }

    /// Takes the block of `key` out; returns its buffer if somebody else looks at it.
    pub(super) fn remove_key(&mut self, key: BufKey) -> Option<BufRef> {
        self.find(key).and_then(|at| self.remove(at))
    }

    /// Takes the blocks of a file with numbers in `range` out, as [`State::remove_key`] does.
    pub(super) fn remove_range(&mut self, ino: Ino, range: RangeInclusive<i64>) -> Vec<BufRef> {
        let Some(owner) = self.owners.get(&ino) else { return Vec::new() };
        let wide = range.end().checked_sub(*range.start());
        let gone: Vec<u32> = if wide.is_some_and(|w| w < i64::from(owner.blocks)) {
            range.filter_map(|lbn| self.find(BufKey::File(ino, lbn))).collect()
        } else {
            self.blocks_of(owner.first).filter(|at| range.contains(&self.number(*at))).collect()
        };
        gone.into_iter().filter_map(|at| self.remove(at)).collect()
    }

    fn blocks_of(&self, first: u32) -> impl Iterator<Item = u32> {
        let slot = |at: u32| (at != NIL).then_some(at);
        std::iter::successors(slot(first), move |at| slot(self.slots[*at as usize].next))
    }

    fn number(&self, at: u32) -> i64 {
        match self.slots[at as usize].buf.as_ref().map(|b| b.key) {
            Some(BufKey::File(_, lbn)) => lbn,
            _ => 0,
        }
    }

    pub(super) fn set_dirty(&mut self, buf: &BufRef) {
        let Some(at) = self.find(buf.key) else { return };
        let slot = &self.slots[at as usize];
        // A forgotten buffer may have a successor of the same name: that one did not change.
        if slot.dirty || !slot.buf.as_ref().is_some_and(|b| Arc::ptr_eq(b, buf)) {
            return;
        }
        self.unlink(at);
        let slot = &mut self.slots[at as usize];
        slot.dirty = true;
        self.dirty_bytes += slot.bytes as usize;
        self.dirty.insert(buf.key, Dirty { buf: buf.clone(), since: self.now, part: false });
    }

    /// The dirty buffer `buf` is clean now.
    pub(super) fn set_clean(&mut self, buf: &Buf) {
        let Some(at) = self.find(buf.key) else { return };
        let slot = &mut self.slots[at as usize];
        // As in `set_dirty`: the write of a forgotten buffer says nothing about its successor.
        let mine = slot.buf.as_ref().is_some_and(|b| std::ptr::eq(Arc::as_ptr(b), buf));
        if slot.dirty && mine {
            slot.dirty = false;
            self.dirty_bytes -= slot.bytes as usize;
            self.dirty.remove(&buf.key);
            self.link(at);
        }
    }

    /// The dirty buffer `buf` was written, but not all its changes.
    pub(super) fn restart_age(&mut self, buf: &Buf) {
        let dirty = self.dirty.get_mut(&buf.key);
        if let Some(d) = dirty.filter(|d| std::ptr::eq(Arc::as_ptr(&d.buf), buf)) {
            (d.since, d.part) = (self.now, true);
        }
    }

    /// Moves the buffer of `key`, if it is clean, to the end that is evicted first.
    pub(super) fn age(&mut self, key: BufKey) {
        let Some(at) = self.find(key) else { return };
        if self.slots[at as usize].dirty {
            return;
        }
        if self.idle(at) && self.slots[at as usize].home == Home::Pages {
            self.move_to(at, Tier::Two);
        }
        self.unlink(at);
        self.slots[at as usize].used = false;
        self.link_oldest(at);
    }

    /// The block of `buf` has another size, if it was not forgotten meanwhile.
    pub(super) fn resized(&mut self, buf: &Buf, new: usize) {
        let Some(at) = self.find(buf.key) else { return };
        let mine = self.slots[at as usize].buf.as_ref();
        if mine.is_some_and(|b| std::ptr::eq(Arc::as_ptr(b), buf)) {
            self.rehome(at, new as u32);
        }
    }

    /// Accounts a block anew, with its size from now on.
    fn rehome(&mut self, at: u32, bytes: u32) {
        let Slot { dirty, kind, bytes: before, .. } = self.slots[at as usize];
        if dirty {
            self.dirty_bytes = self.dirty_bytes + bytes as usize - before as usize;
        } else {
            self.unlink(at);
        }
        self.account(at, false);
        let (home, cost) = self.home_of(kind, bytes);
        let slot = &mut self.slots[at as usize];
        (slot.bytes, slot.home, slot.cost) = (bytes, home, cost);
        self.account(at, true);
        if !dirty {
            self.link(at);
        }
    }

    /// Other limits, or the other policy for directories, from now on. What the old policy keeps and the
    /// new one would not goes; dirty blocks and blocks in use stay and are accounted anew.
    pub(super) fn retune(&mut self, limits: CacheLimits) -> u64 {
        let other_policy = limits.vmiodir != self.limits.vmiodir;
        self.limits = limits;
        let mut gone = 0;
        for at in 0..self.slots.len() as u32 {
            let slot = &self.slots[at as usize];
            let concerned = slot.buf.is_some() && slot.kind == BufKind::Directory;
            if !concerned || (limits.vmiodir && !other_policy) {
                continue;
            }
            if slot.tier == Tier::Two {
                self.evict(at);
                gone += 1;
            } else {
                self.rehome(at, slot.bytes);
            }
        }
        gone + self.shed_headers(0, 0) + self.shed_pages(0)
    }

    /// Nobody but the cache has the buffer.
    fn idle(&self, at: u32) -> bool {
        self.slots[at as usize].buf.as_ref().is_some_and(|b| Arc::strong_count(b) == OWN)
    }

    fn evict(&mut self, at: u32) {
        self.counts[self.slots[at as usize].kind as usize].evictions += 1;
        self.remove(at);
    }

    /// Takes headers from clean blocks until `more` headers and `bytes` fit. Returns how many blocks went.
    fn shed_headers(&mut self, more: usize, bytes: usize) -> u64 {
        let mut gone = 0;
        let mut steps = 2 * (self.queues[HEADERS].len + self.queues[PRIVATE].len);
        while steps > 0
            && (self.in_use.headers + more > self.limits.headers
                || self.in_use.bufspace + bytes > self.limits.bufspace)
        {
            steps -= 1;
            let at = match (self.queues[HEADERS].oldest, self.queues[PRIVATE].oldest) {
                (NIL, at) | (at, NIL) => at,
                (a, b) if self.slots[a as usize].stamp < self.slots[b as usize].stamp => a,
                (_, b) => b,
            };
            if at == NIL || self.second_chance(at) {
                continue;
            }
            if self.slots[at as usize].home == Home::Pages {
                self.move_to(at, Tier::Two);
            } else {
                self.evict(at);
                gone += 1;
            }
        }
        gone
    }

    /// Drops clean blocks backed by pages until `bytes` more fit. Returns how many.
    fn shed_pages(&mut self, bytes: usize) -> u64 {
        let mut gone = 0;
        let mut steps = 2 * (self.queues[HEADERS].len + self.queues[PAGES].len);
        while steps > 0 && self.in_use.pages + bytes > self.limits.pages {
            steps -= 1;
            let at = match self.queues[PAGES].oldest {
                NIL => self.queues[HEADERS].oldest,
                at => at,
            };
            if at == NIL || self.second_chance(at) {
                continue;
            }
            self.evict(at);
            gone += 1;
        }
        gone
    }

    /// Spares a block that is in use, or was since it was last looked at.
    fn second_chance(&mut self, at: u32) -> bool {
        let spare = self.slots[at as usize].used || !self.idle(at);
        if spare {
            self.slots[at as usize].used = false;
            self.unlink(at);
            self.link(at);
        }
        spare
    }

    /// Gives a clean block its header or takes it.
    fn move_to(&mut self, at: u32, tier: Tier) {
        self.unlink(at);
        self.account(at, false);
        self.slots[at as usize].tier = tier;
        self.account(at, true);
        self.link(at);
    }

    /// Adds a slot to the sums, or takes it out of them.
    fn account(&mut self, at: u32, there: bool) {
        let slot = &self.slots[at as usize];
        let (cost, bytes) = (slot.cost as usize, slot.bytes as usize);
        let add = |sum: &mut usize, n: usize| if there { *sum += n } else { *sum -= n };
        let u = &mut self.in_use;
        if slot.tier == Tier::One {
            add(&mut u.headers, 1);
            add(if slot.home == Home::Malloc { &mut u.mallocspace } else { &mut u.bufspace }, cost);
        }
        if slot.home == Home::Pages {
            add(&mut u.pages, cost);
        }
        add(&mut u.waste, cost - bytes);
        let (blocks, sum) = &mut u.by_kind[slot.kind as usize][slot.tier as usize];
        add(blocks, 1);
        add(sum, cost);
    }

    fn adopt(&mut self, ino: Ino, at: u32) {
        let none = Owner { first: NIL, blocks: 0, directory_blocks: 0 };
        let owner = self.owners.entry(ino).or_insert(none);
        let second = std::mem::replace(&mut owner.first, at);
        owner.blocks += 1;
        if self.slots[at as usize].kind == BufKind::Directory {
            owner.directory_blocks += 1;
            self.in_use.directories += usize::from(owner.directory_blocks == 1);
        }
        self.slots[at as usize].next = second;
        if let Some(s) = self.slots.get_mut(second as usize) {
            s.prev = at;
        }
    }

    fn abandon(&mut self, ino: Ino, at: u32) {
        let Slot { prev, next, kind, .. } = self.slots[at as usize];
        if let Some(n) = self.slots.get_mut(next as usize) {
            n.prev = prev;
        }
        if let Some(p) = self.slots.get_mut(prev as usize) {
            p.next = next;
        }
        let Some(owner) = self.owners.get_mut(&ino) else { return };
        if prev == NIL {
            owner.first = next;
        }
        owner.blocks -= 1;
        if kind == BufKind::Directory {
            owner.directory_blocks -= 1;
            self.in_use.directories -= usize::from(owner.directory_blocks == 0);
        }
        if owner.blocks == 0 {
            self.owners.remove(&ino);
        }
    }

    fn queue(&self, at: u32) -> usize {
        let slot = &self.slots[at as usize];
        match (slot.tier, slot.home) {
            (Tier::Two, _) => PAGES,
            (Tier::One, Home::Pages) => HEADERS,
            (Tier::One, _) => PRIVATE,
        }
    }

    /// Puts a clean slot at the end of its queue that goes last.
    fn link(&mut self, at: u32) {
        self.tick += 1;
        let q = self.queue(at);
        let last = self.queues[q].newest;
        let slot = &mut self.slots[at as usize];
        (slot.older, slot.newer, slot.stamp) = (last, NIL, self.tick);
        match self.slots.get_mut(last as usize) {
            Some(l) => l.newer = at,
            None => self.queues[q].oldest = at,
        }
        self.queues[q].newest = at;
        self.queues[q].len += 1;
    }

    /// Puts a clean slot at the end of its queue that goes first.
    fn link_oldest(&mut self, at: u32) {
        let q = self.queue(at);
        let first = self.queues[q].oldest;
        let slot = &mut self.slots[at as usize];
        (slot.older, slot.newer, slot.stamp) = (NIL, first, 0);
        match self.slots.get_mut(first as usize) {
            Some(f) => f.older = at,
            None => self.queues[q].newest = at,
        }
        self.queues[q].oldest = at;
        self.queues[q].len += 1;
    }

    /// Takes a clean slot off its queue.
    fn unlink(&mut self, at: u32) {
        let q = self.queue(at);
        let Slot { older, newer, .. } = self.slots[at as usize];
        match self.slots.get_mut(older as usize) {
            Some(o) => o.newer = newer,
            None => self.queues[q].oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(n) => n.older = older,
            None => self.queues[q].newest = older,
        }
        self.queues[q].len -= 1;
    }

    /// Whether so much is dirty that writers have to wait.
    pub(super) fn half_dirty(&self) -> bool {
        self.dirty_bytes > self.limits.dirty / 2 || self.dirty.len() > self.limits.dirty_blocks / 2
    }

    pub(super) fn too_dirty(&self) -> bool {
        self.dirty_bytes > self.limits.dirty || self.dirty.len() > self.limits.dirty_blocks
    }

    pub(super) fn stats(&self) -> CacheStats {
        CacheStats::new(&self.counts, &self.in_use, self.dirty_bytes)
    }

    /// The sums made anew from the slots, and a check of every list, for tests.
    #[cfg(test)]
    pub(super) fn recount(&self) -> Use {
        let mut u = Use::default();
        let mut directories = std::collections::BTreeSet::new();
        let mut queued = 0;
        for slot in self.slots.iter().filter(|s| s.buf.is_some()) {
            let (cost, bytes) = (slot.cost as usize, slot.bytes as usize);
            assert!(cost >= bytes && (slot.tier == Tier::One || slot.home == Home::Pages));
            assert!(!slot.dirty || slot.tier == Tier::One);
            let users = slot.buf.as_ref().map_or(0, Arc::strong_count) - OWN;
            assert!(slot.tier == Tier::One || users == 0, "a block in use lost its header");
            if slot.tier == Tier::One {
                u.headers += 1;
                match slot.home {
                    Home::Malloc => u.mallocspace += cost,
                    Home::Pages | Home::Private => u.bufspace += cost,
                }
            }
            u.pages += if slot.home == Home::Pages { cost } else { 0 };
            u.waste += cost - bytes;
            let cell = &mut u.by_kind[slot.kind as usize][slot.tier as usize];
            *cell = (cell.0 + 1, cell.1 + cost);
            if let (BufKind::Directory, Some(BufKey::File(ino, _))) =
                (slot.kind, slot.buf.as_ref().map(|b| b.key))
            {
                directories.insert(ino);
            }
            queued += usize::from(!slot.dirty);
        }
        u.directories = directories.len();
        for q in self.queues {
            let slot = |at: u32| (at != NIL).then_some(at);
            let next = |at: &u32| slot(self.slots[*at as usize].newer);
            let walk = std::iter::successors(slot(q.oldest), next);
            assert_eq!(walk.count(), q.len);
        }
        assert_eq!(queued, self.queues.iter().map(|q| q.len).sum::<usize>());
        assert_eq!(self.index.len(), self.slots.len() - self.free.len());
        let keys = self.slots.iter().filter_map(|slot| slot.buf.as_ref()).map(|buf| buf.key);
        let of_files = keys.filter(|key| matches!(key, BufKey::File(..))).count();
        let owned: usize = self.owners.values().map(|o| self.blocks_of(o.first).count()).sum();
        assert_eq!(owned, of_files);
        u
    }

    #[cfg(test)]
    pub(super) fn in_use(&self) -> Use {
        self.in_use
    }

    #[cfg(test)]
    pub(super) fn limits(&self) -> CacheLimits {
        self.limits
    }
}
