//! The inode table: inodes in memory, their users, and recycling.
//!
//! # Invariants
//! 1. An inode to which a reference (`Arc`) exists is in the table, unless it was freed. The table
//!    drops an inode only if its own reference and those of the name cache are the only ones. It
//!    tests this while it has its lock alone, and references are handed out only under this lock.
//! 2. An inode is decoded from its block's buffer and entered under the table's lock. So it cannot
//!    be older than an inode of the same number that was dropped before.
//! 3. An inode is dropped together with the names in it and to it: the name cache refers only to
//!    inodes in the table.
//! 4. Every inode without users has one valid entry in the queue. The time of the entry (counted in
//!    uses) is that of the last use or an earlier one, so that another use of the inode takes no
//!    lock. An entry with an earlier time that comes to the front is put back with the right time.
//!    So the first entry with the right time is the inode that was unused longest. At most half of
//!    the entries (and 64 more) are invalid.
//! 5. While there are more than `minvnodes` inodes, and more than `wantfreevnodes` of them have
//!    no users, the first inode of the queue is dropped. Inodes with blocks or names in memory
//!    are kept. Where nothing but such inodes comes to the front, one of them is examined for
//!    each new inode, so the table may grow by as many inodes as are kept before it drops
//!    others. While there are more than `maxvnodes` inodes, they are dropped too, until only
//!    `wantfreevnodes` inodes have no users.
//!
//! Reference: `spec/directories-and-caches.md` §4.3, §5; `spec/on-disk-format.md` §5.2, §18.3.

use super::map::InodeMap;
use super::queue::UseQueue;
use super::removed::RemovedFiles;
use super::state::{Oldest, TableState};
use super::{Inode, InodeData};
use crate::buf::BufKey;
use crate::counters::{Gauge, bump};
use crate::error::{Error, Result};
use crate::namecache::NameCache;
use crate::ordering::InodeChange;
use crate::sync::{Mutex, RwLock, RwLockWriteGuard};
use crate::ufsmount::UfsMount;
use ffs_device::clock::Rng;
use ffs_ondisk::wire::get;
use ffs_ondisk::{Dinode, Geometry, Ino, dinode};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The inodes of a mount.
pub(crate) struct InodeTable {
    pub(crate) ump: Arc<UfsMount>,
    /// The number of inodes with users.
    held: AtomicUsize,
    /// The number of inodes in the table.
    count: AtomicUsize,
    /// The number of uses that ended. Load and store are not one atomic operation: two uses that
    /// end at the same time may get the same number.
    clock: AtomicU64,
    pub(super) state: RwLock<TableState>,
    /// Removed files that are not freed yet.
    pub(super) removed: Mutex<RemovedFiles>,
}

/// The number of inodes that are examined at most to make space for one. Each one that is kept
/// makes it smaller by one, down to one, until an inode is dropped: the rest of the queue is
/// probably like it, and to examine an inode that no cache of the processor has is slow.
const TRIES: usize = 16;

/// The number of entries that may be put back with the right time meanwhile. Each of these inodes
/// was used since it was queued, so the average is one entry a use.
const ROUNDS: usize = 1024;

/// Whether a file without links may enter the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unlinked {
    Accept,
    Refuse,
}

/// How many inodes to keep.
struct Bounds {
    min: usize,
    max: usize,
    want_free: usize,
}

impl InodeTable {
    /// An empty table; `secret` keys the hashes of names.
    pub(crate) fn new(ump: Arc<UfsMount>, secret: u64) -> InodeTable {
        let counters = Arc::clone(&ump.cache.counters);
        let names = NameCache::new(ump.tunables.vfscache(), secret, counters);
        let (map, unused, spare) = (InodeMap::default(), UseQueue::default(), Vec::new());
        InodeTable {
            ump,
            held: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            clock: AtomicU64::new(0),
            state: RwLock::new(TableState { map, names, unused, spare, tries: TRIES }),
            removed: Mutex::default(),
        }
    }

    pub(crate) fn g(&self) -> &Geometry {
        self.ump.g()
    }

    fn bounds(&self) -> Bounds {
        let t = &self.ump.tunables;
        let size = |n| usize::try_from(n).unwrap_or(usize::MAX);
        let max = size(t.maxvnodes());
        let min = size(t.minvnodes().or(|| t.maxvnodes())).min(max);
        Bounds { min, max, want_free: size(t.wantfreevnodes()) }
    }

    /// The file, from memory or from disk. A caller that keeps the inode calls
    /// [`InodeTable::hold`].
    ///
    /// # Errors
    /// [`Error::Stale`] if the inode is free; [`Error::Format`] if it is damaged; the device's.
    pub(crate) fn get(&self, ino: Ino) -> Result<Arc<Inode>> {
        self.load(ino, Unlinked::Refuse)
    }

    /// As [`InodeTable::get`], also for a file without links: a snapshot that is being removed, or
    /// a file that a crash left.
    ///
    /// # Errors
    /// As [`InodeTable::get`].
    pub(crate) fn get_unlinked(&self, ino: Ino) -> Result<Arc<Inode>> {
        self.load(ino, Unlinked::Accept)
    }

    pub(super) fn load(&self, ino: Ino, unlinked: Unlinked) -> Result<Arc<Inode>> {
        if let Some(ip) = self.in_table(ino) {
            return Ok(ip);
        }
        if ino.0 < Ino::ROOT.0
            || ino.0 >= self.g().inodes()
            // If the group cannot be read, an inode that passes its own check is valid.
            || !self.ump.alloc.inode_initialised(ino).unwrap_or(true)
        {
            return Err(Error::Stale);
        }
        let block = self.ump.inode_block(ino)?;
        let mut st = self.state.write();
        if let Some(ip) = st.map.get(ino) {
            return Ok(ip.clone());
        }
        let mut d = {
            let block = block.read();
            let bytes = block.bytes.get(self.g().ino_to_fsbo(ino)..).unwrap_or(&[]);
            if get::<u16>(bytes, 0, self.g().endian) == 0 {
                return Err(Error::Stale);
            }
            let mut d =
                dinode::check(self.g(), ino, bytes).map_err(|e| self.ump.cache.record_damage(e))?;
            // Read with the block locked: the ordering mode changes it with the block.
            d.nlink = d.nlink.saturating_sub(self.ump.ordering.nlink_delta(ino));
            d
        };
        if d.nlink == 0 && unlinked == Unlinked::Refuse {
            // The file was removed and is not free yet, or a crash left it for fsck. In the table,
            // its last user would free it, even if the count is wrong and a name still leads to it.
            return Err(Error::Stale);
        }
        if d.generation == 0 && !self.ump.is_read_only() {
            d.generation = self.ump.alloc.rng.next_u32() | 1;
        }
        bump(&self.ump.cache.counters.inodes_loaded);
        let ip = st.make(ino, d);
        self.insert(st, &ip);
        Ok(ip)
    }

    /// Whether the inode is in memory.
    pub(crate) fn is_loaded(&self, ino: Ino) -> bool {
        self.in_table(ino).is_some()
    }

    /// The inode if it is in memory.
    fn in_table(&self, ino: Ino) -> Option<Arc<Inode>> {
        self.state.read().map.get(ino).cloned()
    }

    /// All inodes in memory for which `wanted` is true, by number. They are locked shared
    /// meanwhile.
    pub(super) fn select(&self, wanted: impl Fn(&InodeData) -> bool) -> Vec<Arc<Inode>> {
        let mut all: Vec<Arc<Inode>> = self.state.read().map.values().cloned().collect();
        all.retain(|ip| wanted(&ip.read()));
        all.sort_by_key(|ip| ip.ino);
        all
    }

    /// Whether a file without links is in memory, which means that it has a user.
    pub(crate) fn has_unlinked(&self) -> bool {
        !self.select(|d| d.alive() && d.d.nlink == 0).is_empty()
    }

    /// Adds a new file to the table.
    pub(super) fn enter(&self, ino: Ino, d: Dinode) -> Arc<Inode> {
        let mut st = self.state.write();
        let ip = st.make(ino, d);
        self.insert(st, &ip);
        ip
    }

    fn insert(&self, mut st: RwLockWriteGuard<'_, TableState>, ip: &Arc<Inode>) {
        ip.last_use.store(self.now_used(), Ordering::Relaxed);
        st.insert(ip);
        let tries = st.tries;
        self.make_space(st, tries);
    }

    /// Removes a freed inode from the table, before its number may be given to another file.
    pub(super) fn leave(&self, ip: &Inode) {
        let max = self.bounds().max;
        let mut st = self.state.write();
        if st.map.has(ip) {
            let removed = st.remove(ip);
            if st.map.len() + st.spare.len() < max {
                st.spare.extend(removed.filter(|ip| ip.dir.is_bare()));
            }
            self.count.store(st.map.len(), Ordering::Relaxed);
            st.tidy();
        }
    }

    /// Adds a user.
    pub(crate) fn hold(&self, ip: &Inode) {
        if ip.refs.fetch_add(1, Ordering::AcqRel) == 0 {
            self.held.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes a short use, of an inode that was just looked up. The call adds no user, so the count
    /// of users, which other threads write, is not touched.
    pub(crate) fn note_use(&self, ip: &Inode) {
        ip.last_use.store(self.now_used(), Ordering::Relaxed);
    }

    /// Removes a user. Returns whether the file now has neither links nor users. If so, the caller,
    /// which holds no inode lock, calls [`InodeTable::inactive`].
    pub(crate) fn unuse(&self, ip: &Arc<Inode>) -> bool {
        // Sequentially consistent, as are the accesses in `queue` and `drop_oldest`: either
        // `drop_oldest` sees that the inode has no user, or `queue` sees that it is not queued.
        let before = ip.refs.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "release of an inode without users");
        if before != 1 {
            return false;
        }
        self.held.fetch_sub(1, Ordering::Relaxed);
        let unlinked = ip.is_unlinked();
        self.queue(ip);
        unlinked
    }

    /// The next tick of the clock, for a use that ends now.
    fn now_used(&self) -> u64 {
        let now = self.clock.load(Ordering::Relaxed).wrapping_add(1);
        self.clock.store(now, Ordering::Relaxed);
        now
    }

    /// Puts an inode without users into the queue, unless it is there.
    fn queue(&self, ip: &Arc<Inode>) {
        ip.last_use.store(self.now_used(), Ordering::Relaxed);
        let is_in = ip.queued.load(Ordering::SeqCst);
        if is_in && self.count.load(Ordering::Relaxed) <= self.bounds().max {
            return;
        }
        let mut st = self.state.write();
        if st.map.has(ip) && !ip.queued.load(Ordering::SeqCst) {
            st.push(ip);
        }
        let tries = st.tries;
        self.make_space(st, tries);
    }

    /// Drops inodes without users while there are too many. Examines at most `tries` inodes.
    fn make_space(&self, mut st: RwLockWriteGuard<'_, TableState>, mut tries: usize) {
        let (b, mut rounds) = (self.bounds(), tries.max(ROUNDS));
        // Inodes are deallocated after the lock is released.
        let (mut accessed, mut dropped) = (Vec::new(), Vec::new());
        while tries > 0 && rounds > 0 {
            let all = st.map.len();
            let free = all.saturating_sub(self.held.load(Ordering::Relaxed));
            let hard = all > b.max && free > b.want_free.min(b.max);
            let soft = all > b.min && free > b.want_free;
            if !hard && !soft {
                break;
            }
            let keep =
                |ip: &Inode| !hard && (ip.names.has_names() || self.ump.cache.has_file(ip.ino));
            rounds -= 1;
            tries -= 1;
            match st.drop_oldest(|| self.now_used(), keep) {
                Oldest::Used => tries += 1,
                Oldest::Dropped(ip) => {
                    bump(&self.ump.cache.counters.inodes_recycled);
                    dropped.push(ip);
                    st.tries = TRIES;
                }
                // Stays in memory until its access time is in its block.
                Oldest::Accessed(ip) => accessed.push(ip),
                Oldest::Kept => st.tries = (st.tries - 1).max(1),
                Oldest::None => break,
            }
        }
        self.count.store(st.map.len(), Ordering::Relaxed);
        drop(st);
        drop(dropped);
        for ip in accessed {
            self.carry_access(&ip);
        }
    }

    /// Frees the memory that is kept for new inodes.
    pub(crate) fn low_memory(&self) {
        let spare = std::mem::take(&mut self.state.write().spare);
        drop(spare);
    }

    /// Applies changed bounds, and the switch of the name cache.
    pub(crate) fn tunables_changed(&self) {
        let mut st = self.state.write();
        let on = self.ump.tunables.vfscache();
        if on != st.names.is_on() {
            st.names.set_on(on);
            st.purge_names();
        }
        let spare = self.bounds().max.saturating_sub(st.map.len());
        st.spare.truncate(spare);
        st.spare.shrink_to_fit();
        // An inode may come to the front as used, then as accessed, before it is dropped.
        let tries = st.unused.len().saturating_mul(3);
        self.make_space(st, tries);
    }

    /// Prefetches inode `ino` in the buffer of its block.
    pub(crate) fn prefetch_dinode(&self, ino: Ino) {
        let (key, at) = (BufKey::Meta(self.g().ino_to_fsba(ino)), self.g().ino_to_fsbo(ino));
        self.ump.cache.prefetch(key, at, self.g().format.dinode_size());
    }

    /// Prefetches the entry of the buffer of inode `ino` in the buffer cache. This does not wait
    /// for memory. [`InodeTable::prefetch_dinode`] follows later.
    pub(crate) fn prefetch_dinode_place(&self, ino: Ino) {
        self.ump.cache.prefetch_lookup(BufKey::Meta(self.g().ino_to_fsba(ino)));
    }

    /// Prefetches the entry of inode `ino` in the table, before it is probably freed.
    pub(crate) fn prefetch_removal(&self, ino: Ino) {
        self.state.read().map.prefetch(ino);
    }

    /// Prefetches inode `ino` in the table and in its block, before it is probably read.
    pub(crate) fn prefetch_inode(&self, ino: Ino) {
        self.state.read().map.prefetch(ino);
        self.prefetch_dinode(ino);
    }

    /// The number of inodes and names in memory, and the memory they use.
    pub(crate) fn gauges(&self) -> Vec<Gauge> {
        let st = self.state.read();
        let (all, held) = (st.map.len(), self.held.load(Ordering::Relaxed));
        let gauge = |name, value: usize, meaning| Gauge::new(name, value as u64, meaning);
        let inodes = (all + st.spare.len()) * INODE_BYTES + st.map.bytes();
        let queue = st.unused.memory();
        vec![
            gauge("vfs.numvnodes", all, "Inodes in memory."),
            gauge("vfs.freevnodes", all.saturating_sub(held), "Of those, without users."),
            gauge("vfs.ffs.vnode_mem", inodes + queue, "Bytes of inodes in memory."),
            gauge("vfs.cache.numcache", st.names.len(), "Names in memory."),
            gauge(
                "vfs.cache.numneg",
                st.names.negatives(),
                "Of those, of files that do not exist.",
            ),
            gauge("vfs.ffs.namecache_mem", st.names.bytes(), "Bytes of names in memory."),
        ]
    }

    /// Copies noted times into the buffers of the inode blocks. The caller holds no inode lock.
    ///
    /// # Errors
    /// The first error of the device. The call updates the other inodes nevertheless.
    pub(crate) fn flush_times(&self) -> Result<()> {
        let mut result = Ok(());
        for ip in self.select(InodeData::times_noted) {
            let mut file = ip.lock(&self.ump);
            if file.alive() && file.times_noted() {
                result = result.and(file.update(InodeChange::Attr));
            }
        }
        result
    }

    /// Copies a noted access time into the buffer of the inode's block. Does nothing if another
    /// thread has the inode locked, because that thread may wait for locks of the caller. Does
    /// nothing if the inode was freed: its number may belong to another file.
    pub(super) fn carry_access(&self, ip: &Inode) {
        let Some(mut file) = ip.try_lock(&self.ump) else { return };
        if file.alive() && file.times_noted() {
            // The error is dropped: an access time must not make an unrelated operation fail.
            let _ = file.update(InodeChange::Attr);
        }
    }
}

/// Bytes of an inode in memory, with the two counts of its `Arc`.
const INODE_BYTES: usize = size_of::<Inode>() + 2 * size_of::<usize>();
