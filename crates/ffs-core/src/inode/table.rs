//! Inodes in memory: finding, keeping, recycling; and with them the names that lead to them.
//!
//! # Invariants
//! 1. An inode somebody holds a reference to is in the table (unless it was freed): it is dropped only
//!    when the table's and those of its names are the only references, tested under the table's lock, under
//!    which alone references are handed out.
//! 2. An inode enters the table decoded from its block's buffer under the table's lock, so it cannot
//!    be older than an inode of the same number that left the table before.
//! 3. An inode leaves together with the names from and to it: the name cache speaks of inodes in the
//!    table only.
//! 4. Every inode without users is in the queue once, with the time (counted in uses) it was last used, or an
//!    earlier one: using an inode again costs no lock. Who comes first with an earlier time is put
//!    back with the right one; so the first with the right one is the one unused longest. Entries that are no
//!    inode's any more never outnumber the others.
//! 5. Beyond `minvnodes` inodes, if `wantfreevnodes` have no users, the first of the queue is dropped,
//!    passing over those with blocks or names of theirs in memory; beyond `maxvnodes`, any without
//!    users, until only `wantfreevnodes` are without.
//!
//! Reference: `spec/directories-and-caches.md` §4.3, §5; `spec/on-disk-format.md` §5.2, §18.3.

use super::map::InodeMap;
use super::removed::RemovedFiles;
use super::state::{Oldest, TableState};
use super::{Inode, InodeData};
use crate::buf::BufKey;
use crate::counters::{Gauge, bump};
use crate::error::{Error, Result};
use crate::namecache::NameCache;
use crate::ordering::InodeChange;
use crate::sync::{Mutex, MutexGuard};
use crate::ufsmount::UfsMount;
use ffs_device::clock::Rng;
use ffs_ondisk::wire::get;
use ffs_ondisk::{Dinode, Geometry, Ino, dinode};
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The inodes of a mount.
pub(crate) struct InodeTable {
    pub(crate) ump: Arc<UfsMount>,
    /// Inodes with users.
    held: AtomicUsize,
    /// Inodes in the table.
    count: AtomicUsize,
    /// Uses that ended so far. Changed without care: two that end at once have ended at once.
    clock: AtomicU64,
    pub(super) state: Mutex<TableState>,
    /// Removed files that are not freed yet.
    pub(super) removed: Mutex<RemovedFiles>,
}

/// Inodes looked at to make room for one.
const TRIES: usize = 16;

/// Inodes put back with the right time before that: as each was used since, it is one a use on average.
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
        let (map, unused, spare) = (InodeMap::default(), BinaryHeap::new(), Vec::new());
        InodeTable {
            ump,
            held: AtomicUsize::new(0),
            count: AtomicUsize::new(0),
            clock: AtomicU64::new(0),
            state: Mutex::new(TableState { map, names, unused, spare }),
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

    /// The file, from memory or disk. Whoever uses it beyond the call calls [`InodeTable::hold`].
    ///
    /// # Errors
    /// [`Error::Stale`] if the inode is free; [`Error::Format`] if it is damaged; the device's.
    pub(crate) fn get(&self, ino: Ino) -> Result<Arc<Inode>> {
        self.load(ino, Unlinked::Refuse)
    }

    pub(super) fn load(&self, ino: Ino, unlinked: Unlinked) -> Result<Arc<Inode>> {
        if let Some(ip) = self.in_table(ino) {
            return Ok(ip);
        }
        if ino.0 < Ino::ROOT.0
            || ino.0 >= self.g().inodes()
            // If the group cannot tell, an inode that passes its own check is one.
            || !self.ump.alloc.inode_initialised(ino).unwrap_or(true)
        {
            return Err(Error::Stale);
        }
        let block = self.ump.inode_block(ino)?;
        let mut st = self.state.lock();
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
            // With the block locked: both change together.
            d.nlink = d.nlink.saturating_sub(self.ump.ordering.nlink_delta(ino));
            d
        };
        if d.nlink == 0 && unlinked == Unlinked::Refuse {
            // Removed, and not free yet; or left by a crash, for fsck to judge. Were it let in, its last user
            // would free it, and with it what a wrong count or a damaged directory still names.
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

    /// The inode if it is in memory.
    fn in_table(&self, ino: Ino) -> Option<Arc<Inode>> {
        self.state.lock().map.get(ino).cloned()
    }

    /// All inodes in memory for which `wanted` holds, by number. `wanted` sees them locked shared.
    pub(super) fn select(&self, wanted: impl Fn(&InodeData) -> bool) -> Vec<Arc<Inode>> {
        let mut all: Vec<Arc<Inode>> = self.state.lock().map.values().cloned().collect();
        all.retain(|ip| wanted(&ip.read()));
        all.sort_by_key(|ip| ip.ino);
        all
    }

    /// Whether a file without links is in memory: somebody still uses it.
    pub(crate) fn has_unlinked(&self) -> bool {
        !self.select(|d| d.alive() && d.d.nlink == 0).is_empty()
    }

    /// Enters a new file.
    pub(super) fn enter(&self, ino: Ino, d: Dinode) -> Arc<Inode> {
        let mut st = self.state.lock();
        let ip = st.make(ino, d);
        self.insert(st, &ip);
        ip
    }

    fn insert(&self, mut st: MutexGuard<'_, TableState>, ip: &Arc<Inode>) {
        ip.last_use.store(self.now_used(), Ordering::Relaxed);
        st.insert(ip);
        self.make_space(st, TRIES);
    }

    /// Takes a freed inode out, before its number may be given to another file.
    pub(super) fn leave(&self, ip: &Inode) {
        let max = self.bounds().max;
        let mut st = self.state.lock();
        if st.map.has(ip) {
            let gone = st.remove(ip);
            if st.map.len() + st.spare.len() < max {
                st.spare.extend(gone.filter(|ip| ip.dir.is_bare()));
            }
            self.count.store(st.map.len(), Ordering::Relaxed);
            st.tidy();
        }
    }

    /// One more user.
    pub(crate) fn hold(&self, ip: &Inode) {
        if ip.refs.fetch_add(1, Ordering::AcqRel) == 0 {
            self.held.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Notes a use of an inode that was just found by name, is looked at and has no user for that: nobody
    /// else's counts change.
    pub(crate) fn glance(&self, ip: &Inode) {
        ip.last_use.store(self.now_used(), Ordering::Relaxed);
    }

    /// One user less. Whether the file now has neither links nor users: then the caller, who holds no
    /// inode lock, calls [`InodeTable::inactive`].
    pub(crate) fn unuse(&self, ip: &Arc<Inode>) -> bool {
        // Sequentially consistent like what follows and like `drop_oldest`: either it sees that there
        // is no user left, or `queue` sees that the inode is not in the queue.
        let before = ip.refs.fetch_sub(1, Ordering::SeqCst);
        debug_assert!(before > 0, "release of an inode nobody holds");
        if before != 1 {
            return false;
        }
        self.held.fetch_sub(1, Ordering::Relaxed);
        let unlinked = ip.is_unlinked();
        self.queue(ip);
        unlinked
    }

    /// The time of a use that ends now.
    fn now_used(&self) -> u64 {
        let now = self.clock.load(Ordering::Relaxed).wrapping_add(1);
        self.clock.store(now, Ordering::Relaxed);
        now
    }

    /// Sees to it that an inode without users is in the queue.
    fn queue(&self, ip: &Arc<Inode>) {
        ip.last_use.store(self.now_used(), Ordering::Relaxed);
        let is_in = ip.queued.load(Ordering::SeqCst);
        if is_in && self.count.load(Ordering::Relaxed) <= self.bounds().max {
            return;
        }
        let mut st = self.state.lock();
        if st.map.has(ip) && !ip.queued.load(Ordering::SeqCst) {
            st.push(ip);
        }
        self.make_space(st, TRIES);
    }

    /// Drops inodes without users while there are too many, looking at `tries` at most.
    fn make_space(&self, mut st: MutexGuard<'_, TableState>, mut tries: usize) {
        let (b, mut rounds) = (self.bounds(), tries.max(ROUNDS));
        // What an inode has is given back without the lock.
        let (mut late, mut gone) = (Vec::new(), Vec::new());
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
                    gone.push(ip);
                }
                // It keeps its place in memory until its access time is in its block.
                Oldest::Accessed(ip) => late.push(ip),
                Oldest::Kept => {}
                Oldest::None => break,
            }
        }
        self.count.store(st.map.len(), Ordering::Relaxed);
        drop(st);
        drop(gone);
        for ip in late {
            self.carry_access(&ip);
        }
    }

    /// Memory is short: gives back what is kept for files to come.
    pub(crate) fn low_memory(&self) {
        let spare = std::mem::take(&mut self.state.lock().spare);
        drop(spare);
    }

    /// Takes changed bounds into account, and the name cache's switch.
    pub(crate) fn tunables_changed(&self) {
        let mut st = self.state.lock();
        let on = self.ump.tunables.vfscache();
        if on != st.names.is_on() {
            st.names.set_on(on);
            st.purge_names();
        }
        let spare = self.bounds().max.saturating_sub(st.map.len());
        st.spare.truncate(spare);
        st.spare.shrink_to_fit();
        // Each inode may be met as used, then as accessed, before it is dropped.
        let tries = st.unused.len().saturating_mul(3);
        self.make_space(st, tries);
    }

    /// Inode `ino` will be read or changed: has its place in its block fetched.
    pub(crate) fn prefetch_dinode(&self, ino: Ino) {
        let (key, at) = (BufKey::Meta(self.g().ino_to_fsba(ino)), self.g().ino_to_fsbo(ino));
        self.ump.cache.prefetch(key, at, self.g().format.dinode_size());
    }

    /// As [`InodeTable::prefetch_dinode`], which follows: only the first step of the way to it, which waits for
    /// nothing.
    pub(crate) fn prefetch_dinode_place(&self, ino: Ino) {
        self.ump.cache.prefetch_lookup(BufKey::Meta(self.g().ino_to_fsba(ino)));
    }

    /// Inode `ino` will probably be freed.
    pub(crate) fn prefetch_removal(&self, ino: Ino) {
        self.state.lock().map.prefetch(ino);
    }

    /// Inode `ino` will be looked for in memory, and most likely read from its block.
    pub(crate) fn prefetch_inode(&self, ino: Ino) {
        self.state.lock().map.prefetch(ino);
        self.prefetch_dinode(ino);
    }

    /// How many inodes and names there are, and what memory they take.
    pub(crate) fn gauges(&self) -> Vec<Gauge> {
        let st = self.state.lock();
        let (all, held) = (st.map.len(), self.held.load(Ordering::Relaxed));
        let row = |name, value: usize, meaning| Gauge { name, value: value as u64, meaning };
        let inodes = (all + st.spare.len()) * INODE_BYTES + st.map.bytes();
        let queue = st.unused.capacity() * size_of::<(u64, Ino)>();
        vec![
            row("vfs.numvnodes", all, "Inodes in memory."),
            row("vfs.freevnodes", all.saturating_sub(held), "Of those, without users."),
            row("vfs.ffs.vnode_mem", inodes + queue, "Bytes of inodes in memory."),
            row("vfs.cache.numcache", st.names.len(), "Names in memory."),
            row("vfs.cache.numneg", st.names.negatives(), "Of those, of files that do not exist."),
            row("vfs.ffs.namecache_mem", st.names.bytes(), "Bytes of names in memory."),
        ]
    }

    /// Copies noted times into the buffers of the inode blocks. The caller holds no inode lock.
    ///
    /// # Errors
    /// The first error of the device; the other inodes are updated all the same.
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

    /// Carries a noted access into the inode's block, unless somebody has the inode locked (the
    /// caller may hold locks that one waits for) or has freed it meanwhile: then the place in the
    /// block may be another file's.
    pub(super) fn carry_access(&self, ip: &Inode) {
        let Some(mut file) = ip.try_lock(&self.ump) else { return };
        if file.alive() && file.times_noted() {
            // A failed write of an access time is not worth failing somebody else's operation.
            let _ = file.update(InodeChange::Attr);
        }
    }
}

/// What an inode in memory takes, bytes: with the counts in front of it.
const INODE_BYTES: usize = size_of::<Inode>() + 2 * size_of::<usize>();
