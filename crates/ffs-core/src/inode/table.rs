//! Inodes in memory: finding, keeping, recycling.
//!
//! # Invariants
//! 1. An inode somebody holds a reference to is in the table (unless it was freed): it is dropped only
//!    when the table's is the only reference, tested under the table's lock, under which alone
//!    references are handed out.
//! 2. An inode enters the table decoded from its block's buffer under the table's lock, so it cannot
//!    be older than an inode of the same number that left the table before.
//! 3. Beyond `maxvnodes` inodes without users, those unused longest are dropped.
//!
//! Reference: `spec/directories-and-caches.md` (vnodes); `spec/on-disk-format.md` §5.2, §18.3.

use super::{Inode, InodeData};
use crate::alloc::Alloc;
use crate::buf::{BufCache, BufKey, BufKind, BufRef};
use crate::counters::bump;
use crate::error::{Error, Result};
use crate::options::Atime;
use crate::ordering::InodeChange;
use crate::sync::Mutex;
use ffs_device::clock::Rng;
use ffs_ondisk::wire::get;
use ffs_ondisk::{Geometry, Ino, dinode};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The inodes of a mount.
pub(crate) struct InodeTable {
    pub(super) alloc: Arc<Alloc>,
    pub(super) atime: Atime,
    pub(super) read_only: Arc<AtomicBool>,
    /// Inodes with users.
    held: AtomicUsize,
    pub(super) state: Mutex<TableState>,
}

/// What the table's lock guards.
#[derive(Default)]
pub(super) struct TableState {
    map: HashMap<Ino, Arc<Inode>, foldhash::fast::FixedState>,
    /// Inodes that became unused, in that order. An entry counts if its ticket is the inode's.
    unused: VecDeque<(u64, Ino)>,
    next_ticket: u64,
}

impl InodeTable {
    pub(crate) fn new(alloc: Arc<Alloc>, atime: Atime, read_only: Arc<AtomicBool>) -> InodeTable {
        let state = Mutex::new(TableState::default());
        InodeTable { alloc, atime, read_only, held: AtomicUsize::new(0), state }
    }

    /// The allocator below.
    pub(crate) fn alloc(&self) -> &Alloc {
        &self.alloc
    }

    pub(super) fn g(&self) -> &Geometry {
        &self.alloc.cache.g
    }

    pub(super) fn cache(&self) -> &BufCache {
        &self.alloc.cache
    }

    /// `kern.maxvnodes`.
    fn maxvnodes(&self) -> usize {
        usize::try_from(self.alloc.tunables.maxvnodes()).unwrap_or(usize::MAX)
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Relaxed)
    }

    /// The buffer of the block that holds inode `ino`.
    pub(super) fn inode_block(&self, ino: Ino) -> Result<BufRef> {
        let (at, len) = (self.g().ino_to_fsba(ino), self.g().bsize as usize);
        self.cache().bread(BufKey::Meta(at), BufKind::Inodes, at, len)
    }

    /// The file, from memory or disk. Whoever uses it beyond the call calls [`InodeTable::hold`].
    ///
    /// # Errors
    /// [`Error::Stale`] if the inode is free; [`Error::Format`] if it is damaged; the device's.
    pub(crate) fn get(&self, ino: Ino) -> Result<Arc<Inode>> {
        if let Some(ip) = self.in_table(ino) {
            return Ok(ip);
        }
        if ino.0 < Ino::ROOT.0
            || ino.0 >= self.g().inodes()
            // If the group cannot tell, an inode that passes its own check is one.
            || !self.alloc.inode_initialised(ino).unwrap_or(true)
        {
            return Err(Error::Stale);
        }
        let block = self.inode_block(ino)?;
        let mut st = self.state.lock();
        if let Some(ip) = st.map.get(&ino) {
            return Ok(ip.clone());
        }
        let mut d = {
            let block = block.read();
            let bytes = block.bytes.get(self.g().ino_to_fsbo(ino)..).unwrap_or(&[]);
            if get::<u16>(bytes, 0, self.g().endian) == 0 {
                return Err(Error::Stale);
            }
            dinode::check(self.g(), ino, bytes).map_err(|e| self.cache().damaged(e))?
        };
        if d.nlink == 0 {
            // Left by a crash, for fsck to judge. Were it let in, its last user would free it, and
            // with it what a wrong count or a damaged directory still names.
            return Err(Error::Stale);
        }
        if d.generation == 0 && !self.is_read_only() {
            d.generation = self.alloc.rng.next_u32() | 1;
        }
        bump(&self.cache().counters.inodes_loaded);
        let ip = Arc::new(Inode::new(ino, d));
        st.insert(&ip);
        drop(st);
        self.recycle();
        Ok(ip)
    }

    /// The inode if it is in memory.
    fn in_table(&self, ino: Ino) -> Option<Arc<Inode>> {
        self.state.lock().map.get(&ino).cloned()
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

    /// Enters a newly made inode.
    pub(super) fn enter(&self, ip: &Arc<Inode>) {
        self.state.lock().insert(ip);
        self.recycle();
    }

    /// Takes a freed inode out, before its number may be given to another file.
    pub(super) fn leave(&self, ip: &Inode) {
        let mut st = self.state.lock();
        if st.map.get(&ip.ino).is_some_and(|there| std::ptr::eq(Arc::as_ptr(there), ip)) {
            st.map.remove(&ip.ino);
        }
    }

    /// One more user.
    pub(crate) fn hold(&self, ip: &Inode) {
        if ip.refs.fetch_add(1, Ordering::AcqRel) == 0 {
            self.held.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// One user less; the last user of a file without links frees it. The caller holds no inode lock.
    ///
    /// # Errors
    /// What went wrong in freeing: the file is gone all the same, perhaps not all its blocks.
    pub(crate) fn release(&self, ip: &Arc<Inode>) -> Result<()> {
        let before = ip.refs.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "release of an inode nobody holds");
        if before != 1 {
            return Ok(());
        }
        self.held.fetch_sub(1, Ordering::Relaxed);
        let unlinked = {
            let data = ip.read();
            data.d.nlink == 0 && data.alive()
        };
        let freed = if unlinked && !self.is_read_only() { self.inactive(ip) } else { Ok(()) };
        self.state.lock().requeue(ip);
        self.recycle();
        freed
    }

    /// Frees a file without links unless it has users again.
    fn inactive(&self, ip: &Inode) -> Result<()> {
        let mut data = ip.write();
        if ip.refs.load(Ordering::Acquire) > 0 || data.d.nlink > 0 || !data.alive() {
            return Ok(());
        }
        self.free_file(ip, &mut data)
    }

    /// Drops the longest unused inodes while there are too many.
    fn recycle(&self) {
        let mut late = Vec::new();
        {
            let mut st = self.state.lock();
            let held = self.held.load(Ordering::Relaxed);
            let excess = st.map.len().saturating_sub(held.saturating_add(self.maxvnodes()));
            let mut tries = st.unused.len();
            let mut left = excess;
            while left > 0 && tries > 0 {
                tries -= 1;
                match st.drop_oldest() {
                    Oldest::Dropped => {
                        left -= 1;
                        bump(&self.cache().counters.inodes_recycled);
                    }
                    // It keeps its place in memory until its access time is in its block.
                    Oldest::Accessed(ip) => late.push(ip),
                    Oldest::Kept => {}
                }
            }
        }
        for ip in late {
            self.carry_access(&ip);
        }
    }

    /// Carries a noted access into the inode's block, unless somebody has the inode locked (the
    /// caller may hold locks that one waits for) or has freed it meanwhile: then the place in the
    /// block may be another file's.
    pub(super) fn carry_access(&self, ip: &Inode) {
        let Some(mut data) = ip.try_write() else { return };
        if data.alive() && data.access_noted() {
            // A failed write of an access time is not worth failing somebody else's operation.
            let _ = self.update(ip, &mut data, InodeChange::Attr);
        }
    }
}

/// What became of the longest unused inode.
enum Oldest {
    Dropped,
    Accessed(Arc<Inode>),
    Kept,
}

impl TableState {
    fn insert(&mut self, ip: &Arc<Inode>) {
        self.map.insert(ip.ino, ip.clone());
        self.requeue(ip);
    }

    /// Puts an inode in the table at the end of the queue.
    fn requeue(&mut self, ip: &Arc<Inode>) {
        if !self.map.get(&ip.ino).is_some_and(|there| Arc::ptr_eq(there, ip)) {
            return;
        }
        self.next_ticket += 1;
        ip.ticket.store(self.next_ticket, Ordering::Relaxed);
        self.unused.push_back((self.next_ticket, ip.ino));
        if self.unused.len() > 2 * self.map.len() + 64 {
            let map = &self.map;
            let valid = |&(ticket, ino): &(u64, Ino)| {
                map.get(&ino).is_some_and(|ip| ip.ticket.load(Ordering::Relaxed) == ticket)
            };
            self.unused.retain(valid);
        }
    }

    fn drop_oldest(&mut self) -> Oldest {
        let Some((ticket, ino)) = self.unused.pop_front() else { return Oldest::Kept };
        let Some(ip) = self.map.get(&ino) else { return Oldest::Kept };
        // With a younger ticket it is further back in the queue; with users, release queues it.
        if ip.ticket.load(Ordering::Relaxed) != ticket || ip.refs.load(Ordering::Acquire) > 0 {
            return Oldest::Kept;
        }
        let ip = ip.clone();
        let accessed = ip.data.try_read().is_some_and(|d| d.access_noted());
        // The table's reference and this one.
        if Arc::strong_count(&ip) > 2 || accessed {
            self.requeue(&ip);
            return if accessed { Oldest::Accessed(ip) } else { Oldest::Kept };
        }
        self.map.remove(&ino);
        Oldest::Dropped
    }
}
