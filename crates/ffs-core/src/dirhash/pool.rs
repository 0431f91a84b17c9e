//! The memory for all indexes of a mount, and who gives it back.
//!
//! # Invariants
//! 1. A cell is in the list exactly while it holds an index; `used` is the sum of their charges and
//!    of those being built.
//! 2. The list goes from least to most recently used, roughly: a use moves a cell one place, and
//!    only past one that does not have a higher score.
//! 3. Memory is taken from the first of the list only when its score is used up, except when the
//!    limit was lowered by hand or memory is short: then from the first on, whatever the score.
//!
//! Reference: `spec/directories-and-caches.md` §3.9.

use super::cell::{Cell, Refused};
use super::hash::NameHasher;
use super::index::Index;
use crate::counters::{Counters, Gauge, bump};
use crate::sync::Mutex;
use crate::tunables::Tunables;
use ffs_device::clock::{Rng, SplitMix64};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

/// No node.
pub(super) const NIL: u32 = u32::MAX;
/// What `auto` is at least, bytes: FreeBSD's fixed limit of 2002.
const AUTO_LEAST: u64 = 2 << 20;

/// The indexes of a mount.
pub(crate) struct Pool {
    tunables: Arc<Tunables>,
    counters: Arc<Counters>,
    secret: u64,
    nonces: SplitMix64,
    list: Mutex<List>,
    /// Bytes; changed under the list's lock.
    used: AtomicU64,
    most_used: AtomicU64,
    /// The list's last node.
    last: AtomicU32,
    /// Seconds, as last told.
    now: AtomicI64,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").field("used", &self.used).finish_non_exhaustive()
    }
}

/// Indexes taken from their cells: freed when no lock is held.
#[allow(clippy::vec_box, reason = "they come in boxes")]
type Recycled = Vec<Box<Index>>;

/// Cells with an index, least recently used first.
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
    /// `secret` keys the hash functions.
    pub(crate) fn new(tunables: Arc<Tunables>, counters: Arc<Counters>, secret: u64) -> Arc<Pool> {
        let list = List { nodes: Vec::new(), free: Vec::new(), first: NIL, last: NIL, len: 0 };
        Arc::new(Pool {
            tunables,
            counters,
            secret,
            nonces: SplitMix64::new(!secret),
            list: Mutex::new(list),
            used: AtomicU64::new(0),
            most_used: AtomicU64::new(0),
            last: AtomicU32::new(NIL),
            now: AtomicI64::new(0),
        })
    }

    /// The switches.
    pub(crate) fn tunables(&self) -> &Tunables {
        &self.tunables
    }

    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    pub(super) fn new_hasher(&self) -> NameHasher {
        NameHasher::new(self.tunables.dirhash_hash(), self.secret, self.nonces.next_u64())
    }

    pub(super) fn is_paper(&self) -> bool {
        self.tunables.dirhash_compat()
    }

    /// The limit in force, bytes. `auto` is half of what blocks may take: enough to index a
    /// directory that fills half of the cache.
    pub(super) fn limit(&self) -> u64 {
        self.tunables.dirhash_maxmem().or(|| (self.tunables.cache() / 2).max(AUTO_LEAST))
    }

    /// Bytes in use (`vfs.ufs.dirhash_mem`).
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// What the sysctl room tells of it.
    pub(crate) fn gauges(&self) -> Vec<Gauge> {
        let most = self.most_used.load(Ordering::Relaxed);
        let count = self.list.lock().len as u64;
        [
            ("vfs.ufs.dirhash_mem", self.used(), "Bytes of directory hashes."),
            ("vfs.ufs.dirhash_mem_most", most, "Most bytes there ever were."),
            ("vfs.ufs.dirhash_limit", self.limit(), "The limit in force, bytes."),
            ("vfs.ufs.dirhash_count", count, "Number of directory hashes."),
        ]
        .map(|(name, value, meaning)| Gauge { name, value, meaning })
        .to_vec()
    }

    pub(super) fn time(&self) -> i64 {
        self.now.load(Ordering::Relaxed)
    }

    /// It is `now`, seconds. Ages are as exact as this is called often.
    pub(crate) fn set_time(&self, now: i64) {
        self.now.store(now, Ordering::Relaxed);
    }

    /// Whether the pool may be used; if the limit was lowered it is brought below it first, by the
    /// rule of the scores.
    pub(crate) fn usable(&self) -> bool {
        let limit = self.limit();
        if self.used() <= limit {
            return limit > 0;
        }
        if limit == 0 {
            self.settle();
            return false;
        }
        let mut freed = Vec::new();
        let mut list = self.list.lock();
        self.recycle(&mut list, 0, limit, &mut freed)
    }

    /// Brings the pool below its limit at once, which was lowered.
    pub(crate) fn settle(&self) {
        let limit = self.limit();
        self.take_from_first(|_, _| self.used() > limit);
    }

    /// Memory is short: gives back every index not used for `dirhash_reclaimage` seconds (0: does
    /// not count), and at least `dirhash_reclaimpercent` of the pool.
    pub(crate) fn lowmem(&self) {
        bump(&self.counters.dirhash_lowmem);
        let (age, percent) =
            (self.tunables.dirhash_reclaimage(), self.tunables.dirhash_reclaimpercent());
        let oldest = self.time().saturating_sub(i64::try_from(age).unwrap_or(i64::MAX));
        let enough = (self.used() * percent).div_ceil(100);
        self.take_from_first(|cell, freed| {
            freed < enough || age > 0 && cell.used_at.load(Ordering::Relaxed) < oldest
        });
    }

    /// Takes the index of every cell for which `wanted` holds, told how many bytes were freed
    /// before, and that nobody has locked.
    fn take_from_first(&self, wanted: impl Fn(&Cell, u64) -> bool) {
        let mut gone = Vec::new();
        let mut freed = 0;
        let mut list = self.list.lock();
        let mut at = list.first;
        while let Some(node) = list.nodes.get(at as usize) {
            let (after, cell) = (node.after, node.cell.clone());
            if let Some(cell) = cell.filter(|c| wanted(c, freed))
                && let Some(index) = self.try_take(&mut list, &cell)
            {
                freed += index.charge();
                gone.push(index);
            }
            at = after;
        }
        // The memory itself is given back after the lock.
        drop(list);
    }

    /// Recycles a cell unless somebody has it locked.
    fn try_take(&self, list: &mut List, cell: &Arc<Cell>) -> Option<Box<Index>> {
        let index = cell.index.try_write()?.take()?;
        self.unlink(list, cell);
        self.used.fetch_sub(index.charge(), Ordering::Relaxed);
        bump(&self.counters.dirhash_recycled);
        Some(index)
    }

    /// Sees to it that `need` more bytes stay within `limit`, by the rule of the scores.
    fn recycle(&self, list: &mut List, need: u64, limit: u64, gone: &mut Recycled) -> bool {
        let mut at = list.first;
        while self.used() + need > limit {
            let Some(node) = list.nodes.get(at as usize) else { return false };
            let (after, Some(cell)) = (node.after, node.cell.clone()) else { return false };
            let score = cell.score.load(Ordering::Relaxed).saturating_sub(1);
            cell.score.store(score, Ordering::Relaxed);
            if score > 0 {
                return false;
            }
            match self.try_take(list, &cell) {
                Some(index) => {
                    gone.push(index);
                    at = list.first;
                }
                None => at = after,
            }
        }
        true
    }

    /// Sets aside `charge` bytes.
    pub(super) fn reserve(&self, charge: u64) -> Result<(), Refused> {
        let limit = self.limit();
        if charge > limit / 2 {
            bump(&self.counters.dirhash_refused_large);
            return Err(Refused::TooLarge);
        }
        let mut gone = Vec::new();
        let mut list = self.list.lock();
        if !self.recycle(&mut list, charge, limit, &mut gone) {
            drop(list);
            bump(&self.counters.dirhash_refused_memory);
            return Err(Refused::NoMemory);
        }
        let used = self.used.fetch_add(charge, Ordering::Relaxed) + charge;
        self.most_used.fetch_max(used, Ordering::Relaxed);
        drop(list);
        Ok(())
    }

    /// Gives back what was set aside.
    pub(super) fn credit(&self, charge: u64) {
        let _list = self.list.lock();
        self.used.fetch_sub(charge, Ordering::Relaxed);
    }

    /// Puts a cell at the end of the list.
    pub(super) fn enter(&self, cell: &Arc<Cell>) {
        let mut list = self.list.lock();
        let at = list.insert(Arc::clone(cell));
        cell.node.store(at, Ordering::Relaxed);
        self.last.store(list.last, Ordering::Relaxed);
    }

    /// Takes a cell, which gave back its index of `charge` bytes, out of the list.
    pub(super) fn leave(&self, cell: &Cell, charge: u64) {
        let mut list = self.list.lock();
        self.unlink(&mut list, cell);
        self.used.fetch_sub(charge, Ordering::Relaxed);
    }

    fn unlink(&self, list: &mut List, cell: &Cell) {
        list.remove(cell.node.swap(NIL, Ordering::Relaxed));
        self.last.store(list.last, Ordering::Relaxed);
    }

    /// Moves a cell one place back in the list, unless the one there has a higher score. If the
    /// list is locked it stays: nothing depends on it.
    #[inline]
    pub(super) fn step_back(&self, cell: &Cell) {
        if self.last.load(Ordering::Relaxed) == cell.node.load(Ordering::Relaxed) {
            return;
        }
        let Some(mut list) = self.list.try_lock() else { return };
        let at = cell.node.load(Ordering::Relaxed);
        let Some(after) = list.nodes.get(at as usize).map(|n| n.after) else { return };
        let Some(next) = list.nodes.get(after as usize).and_then(|n| n.cell.as_ref()) else {
            return;
        };
        if cell.score.load(Ordering::Relaxed) >= next.score.load(Ordering::Relaxed) {
            list.swap_with_next(at, after);
            self.last.store(list.last, Ordering::Relaxed);
        }
    }

    /// Number of cells, and whether the list and the charges are sound.
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
        assert!(self.most_used.load(Ordering::Relaxed) >= charge);
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

    /// `after` comes directly behind `before`; either may be an end.
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
