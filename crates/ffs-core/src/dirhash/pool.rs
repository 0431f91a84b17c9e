//! The memory of all indexes of a mount, and their recycling.
//!
//! # Invariants
//! 1. A cell is in the list exactly while it has an index. `used` is the sum of the charges of
//!    these indexes and of those being built.
//! 2. The list is ordered roughly from least to most recently used: a use moves a cell one place,
//!    and only past one whose score is not higher.
//! 3. An index at the head of the list is recycled only at score 0. If the limit was lowered or
//!    memory is short, indexes are recycled from the head on, with any score.
//!
//! Reference: `spec/directories-and-caches.md` §3.9.

use super::cell::{BuildError, Cell, NIL};
use super::hash::NameHasher;
use super::index::Index;
use crate::counters::{Counters, Gauge, bump};
use crate::sync::Mutex;
use crate::tunables::Tunables;
use ffs_device::clock::{Rng, SplitMix64};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

/// Least value of the limit `auto`, bytes: FreeBSD's fixed limit of 2002.
const AUTO_MIN: u64 = 2 << 20;

/// The indexes of a mount.
pub(crate) struct Pool {
    tunables: Arc<Tunables>,
    counters: Arc<Counters>,
    secret: u64,
    nonces: SplitMix64,
    list: Mutex<List>,
    /// Bytes of all indexes; changed under the list's lock.
    used: AtomicU64,
    max_used: AtomicU64,
    /// The last node of the list.
    last: AtomicU32,
    /// The time last set, seconds.
    now: AtomicI64,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("used", &self.used).finish_non_exhaustive()
    }
}

/// Recycled indexes, which are freed when no lock is held.
#[allow(clippy::vec_box, reason = "they come in boxes")]
type Recycled = Vec<Box<Index>>;

/// The cells with an index, least recently used first.
struct List {
    nodes: Vec<Node>,
    free: Vec<u32>,
    first: u32,
    last: u32,
    len: usize,
}

struct Node {
    cell: Option<Arc<Cell>>,
    before: u32,
    after: u32,
}

impl Pool {
    /// A pool without indexes; `secret` keys the hash functions.
    pub(crate) fn new(tunables: Arc<Tunables>, counters: Arc<Counters>, secret: u64) -> Arc<Pool> {
        let list = List { nodes: Vec::new(), free: Vec::new(), first: NIL, last: NIL, len: 0 };
        Arc::new(Pool {
            tunables,
            counters,
            secret,
            nonces: SplitMix64::new(!secret),
            list: Mutex::new(list),
            used: AtomicU64::new(0),
            max_used: AtomicU64::new(0),
            last: AtomicU32::new(NIL),
            now: AtomicI64::new(0),
        })
    }

    /// The mount's switches.
    pub(crate) fn tunables(&self) -> &Tunables {
        &self.tunables
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(super) fn new_hasher(&self) -> NameHasher {
        NameHasher::new(self.tunables.dirhash_hash(), self.secret, self.nonces.next_u64())
    }

    pub(super) fn is_compat(&self) -> bool {
        self.tunables.dirhash_compat()
    }

    /// The limit in force, bytes. `auto` is half of the block cache: enough to index a directory
    /// that fills half of it.
    pub(super) fn limit(&self) -> u64 {
        self.tunables.dirhash_maxmem().or(|| (self.tunables.cache() / 2).max(AUTO_MIN))
    }

    /// Bytes in use (`vfs.ufs.dirhash_mem`).
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// The present numbers under BSD's names.
    pub(crate) fn gauges(&self) -> Vec<Gauge> {
        let capacity = self.max_used.load(Ordering::Relaxed);
        let count = self.list.lock().len as u64;
        [
            ("vfs.ufs.dirhash_mem", self.used(), "Bytes of directory hashes."),
            (
                "vfs.ufs.dirhash_mem_most",
                capacity,
                "Most bytes of directory hashes since the mount.",
            ),
            ("vfs.ufs.dirhash_limit", self.limit(), "The limit in force, bytes."),
            ("vfs.ufs.dirhash_count", count, "Number of directory hashes."),
        ]
        .map(|(name, value, meaning)| Gauge::new(name, value, meaning))
        .to_vec()
    }

    pub(super) fn time(&self) -> i64 {
        self.now.load(Ordering::Relaxed)
    }

    /// Sets the time, seconds. The ages of indexes are as exact as the calls are frequent.
    pub(crate) fn set_time(&self, now: i64) {
        self.now.store(now, Ordering::Relaxed);
    }

    /// Whether indexes may be used. After the limit was lowered, first recycles indexes by their
    /// scores.
    pub(crate) fn is_usable(&self) -> bool {
        let limit = self.limit();
        if self.used() <= limit {
            return limit > 0;
        }
        if limit == 0 {
            self.shrink_to_limit();
            return false;
        }
        let mut freed = Vec::new();
        let mut list = self.list.lock();
        self.recycle(&mut list, 0, limit, &mut freed)
    }

    /// Recycles indexes until the pool is within its limit, which was lowered.
    pub(crate) fn shrink_to_limit(&self) {
        let limit = self.limit();
        self.recycle_where(|_, _| self.used() > limit);
    }

    /// Memory is short: recycles every index that was not used for `dirhash_reclaimage` seconds (if
    /// that is not 0), and at least `dirhash_reclaimpercent` of the pool.
    pub(crate) fn lowmem(&self) {
        bump(&self.counters.dirhash_lowmem);
        let (age, percent) =
            (self.tunables.dirhash_reclaimage(), self.tunables.dirhash_reclaimpercent());
        let oldest = self.time().saturating_sub(i64::try_from(age).unwrap_or(i64::MAX));
        let enough = (self.used() * percent).div_ceil(100);
        self.recycle_where(|cell, freed| freed < enough || age > 0 && cell.used_at() < oldest);
    }

    /// Recycles the index of every cell that is not locked and for which `wanted` holds. `wanted`
    /// gets the bytes freed so far.
    fn recycle_where(&self, wanted: impl Fn(&Cell, u64) -> bool) {
        let mut recycled = Vec::new();
        let mut freed = 0;
        let mut list = self.list.lock();
        let mut at = list.first;
        while let Some(node) = list.nodes.get(at as usize) {
            let (after, cell) = (node.after, node.cell.clone());
            if let Some(cell) = cell.filter(|c| wanted(c, freed))
                && let Some(index) = self.try_recycle(&mut list, &cell)
            {
                freed += index.charge();
                recycled.push(index);
            }
            at = after;
        }
        // The vector frees the memory after the lock is released.
        drop(list);
    }

    /// Recycles the index of a cell unless the cell is locked.
    fn try_recycle(&self, list: &mut List, cell: &Arc<Cell>) -> Option<Box<Index>> {
        let index = cell.index.try_write()?.take()?;
        self.unlink(list, cell);
        self.used.fetch_sub(index.charge(), Ordering::Relaxed);
        bump(&self.counters.dirhash_recycled);
        Some(index)
    }

    /// Recycles indexes by their scores until `need` more bytes fit within `limit`. Returns whether
    /// they fit.
    fn recycle(&self, list: &mut List, need: u64, limit: u64, recycled: &mut Recycled) -> bool {
        let mut at = list.first;
        while self.used() + need > limit {
            let Some(node) = list.nodes.get(at as usize) else { return false };
            let (after, Some(cell)) = (node.after, node.cell.clone()) else { return false };
            if cell.lower_score() > 0 {
                return false;
            }
            match self.try_recycle(list, &cell) {
                Some(index) => {
                    recycled.push(index);
                    at = list.first;
                }
                None => at = after,
            }
        }
        true
    }

    /// Reserves `charge` bytes.
    pub(super) fn reserve(&self, charge: u64) -> Result<(), BuildError> {
        let limit = self.limit();
        if charge > limit / 2 {
            bump(&self.counters.dirhash_refused_large);
            return Err(BuildError::TooLarge);
        }
        let mut recycled = Vec::new();
        let mut list = self.list.lock();
        if !self.recycle(&mut list, charge, limit, &mut recycled) {
            drop(list);
            bump(&self.counters.dirhash_refused_memory);
            return Err(BuildError::NoMemory);
        }
        let used = self.used.fetch_add(charge, Ordering::Relaxed) + charge;
        self.max_used.fetch_max(used, Ordering::Relaxed);
        drop(list);
        Ok(())
    }

    /// Releases reserved bytes.
    pub(super) fn release(&self, charge: u64) {
        let _list = self.list.lock();
        self.used.fetch_sub(charge, Ordering::Relaxed);
    }

    /// Puts a cell at the end of the list.
    pub(super) fn insert(&self, cell: &Arc<Cell>) {
        let mut list = self.list.lock();
        let at = list.insert(Arc::clone(cell));
        cell.node.store(at, Ordering::Relaxed);
        self.last.store(list.last, Ordering::Relaxed);
    }

    /// Removes a cell, whose index of `charge` bytes was dropped, from the list.
    pub(super) fn remove(&self, cell: &Cell, charge: u64) {
        let mut list = self.list.lock();
        self.unlink(&mut list, cell);
        self.used.fetch_sub(charge, Ordering::Relaxed);
    }

    fn unlink(&self, list: &mut List, cell: &Cell) {
        list.remove(cell.node.swap(NIL, Ordering::Relaxed));
        self.last.store(list.last, Ordering::Relaxed);
    }

    /// Moves a cell one place towards the end of the list, unless the next one has a higher score.
    /// If the list is locked the cell stays; correctness does not depend on it.
    #[inline]
    pub(super) fn move_back(&self, cell: &Cell) {
        if self.last.load(Ordering::Relaxed) == cell.node.load(Ordering::Relaxed) {
            return;
        }
        let Some(mut list) = self.list.try_lock() else { return };
        let at = cell.node.load(Ordering::Relaxed);
        let Some(after) = list.nodes.get(at as usize).map(|n| n.after) else { return };
        let Some(next) = list.nodes.get(after as usize).and_then(|n| n.cell.as_ref()) else {
            return;
        };
        if cell.score() >= next.score() {
            list.swap_with_next(at, after);
            self.last.store(list.last, Ordering::Relaxed);
        }
    }

    /// Checks the list and the charges; returns the number of cells.
    #[cfg(test)]
    pub(super) fn audit(&self) -> usize {
        let list = self.list.lock();
        let (mut at, mut n, mut charge, mut before) = (list.first, 0, 0, NIL);
        while let Some(node) = list.nodes.get(at as usize) {
            let cell = node.cell.as_ref().unwrap();
            assert_eq!((node.before, cell.node.load(Ordering::Relaxed)), (before, at));
            charge += cell.index.read().as_ref().unwrap().charge();
            n += 1;
            (before, at) = (at, node.after);
        }
        assert_eq!((list.last, list.len, charge), (before, n, self.used()));
        assert!(self.max_used.load(Ordering::Relaxed) >= charge);
        n
    }
}

impl List {
    fn insert(&mut self, cell: Arc<Cell>) -> u32 {
        let node = Node { cell: Some(cell), before: self.last, after: NIL };
        let at = match self.free.pop() {
            Some(at) => {
                if let Some(n) = self.nodes.get_mut(at as usize) {
                    *n = node;
                }
                at
            }
            None => {
                self.nodes.push(node);
                (self.nodes.len() - 1) as u32
            }
        };
        self.join(self.last, at);
        self.last = at;
        self.len += 1;
        at
    }

    fn remove(&mut self, at: u32) {
        let Some(node) = self.nodes.get_mut(at as usize) else { return };
        node.cell = None;
        let (before, after) = (node.before, node.after);
        self.join(before, after);
        if after == NIL {
            self.last = before;
        }
        self.free.push(at);
        self.len -= 1;
    }

    /// Makes `after` the successor of `before`; either may be [`NIL`], an end of the list.
    fn join(&mut self, before: u32, after: u32) {
        match self.nodes.get_mut(before as usize) {
            Some(n) => n.after = after,
            None => self.first = after,
        }
        if let Some(n) = self.nodes.get_mut(after as usize) {
            n.before = before;
        }
    }

    fn swap_with_next(&mut self, at: u32, next: u32) {
        let before = self.nodes.get(at as usize).map_or(NIL, |n| n.before);
        let behind = self.nodes.get(next as usize).map_or(NIL, |n| n.after);
        self.join(before, next);
        self.join(next, at);
        self.join(at, behind);
        if behind == NIL {
            self.last = at;
        }
    }
}
