//! The state that the lock of the inode table guards: the inodes, their names, and the queue of
//! unused inodes.

use super::Inode;
use super::map::InodeMap;
use super::queue::UseQueue;
use crate::namecache::NameCache;
use ffs_ondisk::{Dinode, Ino};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The state that the table's lock guards.
pub(super) struct TableState {
    pub(super) map: InodeMap,
    pub(super) names: NameCache<Arc<Inode>>,
    /// Inodes that may be without users. An entry is valid if [`Inode::entry`] has the same time.
    pub(super) unused: UseQueue,
    /// Memory of freed files, for new ones. At most `maxvnodes`, less the inodes in the table.
    pub(super) spare: Vec<Arc<Inode>>,
    /// The number of inodes to examine the next time space is made.
    pub(super) tries: usize,
}

/// The result for the first inode of the queue.
pub(super) enum Oldest {
    Dropped(Arc<Inode>),
    /// Kept, because its access time is not in its block yet.
    Accessed(Arc<Inode>),
    /// Kept for another reason.
    Kept,
    /// Put back with the right time, because it was used since it was queued.
    Used,
    /// The queue is empty.
    None,
}

impl TableState {
    /// A new inode, not in the table yet. Uses the memory of a freed one that has no references.
    pub(super) fn make(&mut self, ino: Ino, d: Dinode) -> Arc<Inode> {
        let new = Inode::new(ino, d);
        let Some(mut ip) = self.spare.pop() else { return Arc::new(new) };
        match Arc::get_mut(&mut ip) {
            Some(place) => *place = new,
            None => ip = Arc::new(new),
        }
        ip
    }

    pub(super) fn insert(&mut self, ip: &Arc<Inode>) {
        self.map.insert(ip.clone());
        self.push(ip);
    }

    /// Removes an inode that is in the table.
    pub(super) fn remove(&mut self, ip: &Inode) -> Option<Arc<Inode>> {
        self.names.purge(&self.map, &ip.names);
        self.map.remove(ip.ino)
    }

    /// Puts an inode of the table into the queue.
    pub(super) fn push(&mut self, ip: &Inode) {
        let time = ip.last_use.load(Ordering::Relaxed);
        ip.entry.store(time, Ordering::Relaxed);
        ip.queued.store(true, Ordering::SeqCst);
        self.unused.push((time, ip.ino));
        self.tidy();
    }

    /// Removes invalid entries from the queue once they are more than half of it.
    pub(super) fn tidy(&mut self) {
        if self.unused.len() > 2 * self.map.len() + 64 {
            let map = &self.map;
            let valid = |(time, ino)| {
                map.get(ino).is_some_and(|ip| ip.entry.load(Ordering::Relaxed) == time)
            };
            self.unused.retain(valid, 3 * map.len() + 128);
        }
    }

    /// Removes the first inode from the queue.
    fn pop(&mut self) -> Option<Arc<Inode>> {
        loop {
            let (time, ino) = self.unused.pop()?;
            let found = self.map.get(ino).filter(|ip| ip.entry.load(Ordering::Relaxed) == time);
            if let Some(ip) = found {
                return Some(Arc::clone(ip));
            }
        }
    }

    /// Drops the first inode of the queue. The inode is kept if it is in use, if `keep` is true, or
    /// if its access time is not in its block yet. It then goes to the end, as if it was used
    /// `now`.
    pub(super) fn drop_oldest(
        &mut self,
        now: impl FnOnce() -> u64,
        keep: impl FnOnce(&Inode) -> bool,
    ) -> Oldest {
        let Some(ip) = self.pop() else { return Oldest::None };
        ip.queued.store(false, Ordering::SeqCst);
        if ip.refs.load(Ordering::SeqCst) > 0 {
            // The last user will queue it.
            return Oldest::Kept;
        }
        if ip.last_use.load(Ordering::Relaxed) != ip.entry.load(Ordering::Relaxed) {
            self.push(&ip);
            return Oldest::Used;
        }
        let accessed = ip.data.try_read().is_some_and(|d| d.times_noted());
        // The references of the table, of this function, and of the name cache.
        let busy = Arc::strong_count(&ip) > 2 + self.names.count_to(&ip.names);
        if busy || accessed || keep(&ip) {
            ip.last_use.store(now(), Ordering::Relaxed);
            self.push(&ip);
            return if accessed && !busy { Oldest::Accessed(ip) } else { Oldest::Kept };
        }
        self.remove(&ip);
        Oldest::Dropped(ip)
    }

    pub(super) fn purge_names(&mut self) {
        self.names.purge_all(&self.map, self.map.values().map(|ip| &ip.names));
    }
}
