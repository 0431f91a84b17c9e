//! What the lock of the inode table guards: the inodes, their names, and the queue of unused
//! inodes.

use super::Inode;
use super::map::InodeMap;
use crate::namecache::NameCache;
use ffs_ondisk::{Dinode, Ino};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What the table's lock guards.
pub(super) struct TableState {
    pub(super) map: InodeMap,
    pub(super) names: NameCache<Arc<Inode>>,
    /// Inodes that may be without users, by time of last use. An entry counts if the inode has its time
    /// ([`Inode::entry`]).
    pub(super) unused: BinaryHeap<Reverse<(u64, Ino)>>,
    /// Memory of freed files, for the next ones; together with the inodes there are, at most `maxvnodes`.
    pub(super) spare: Vec<Arc<Inode>>,
}

/// What became of the first inode of the queue.
pub(super) enum Oldest {
    Dropped(Arc<Inode>),
    Accessed(Arc<Inode>),
    Kept,
    /// It was used since it came into the queue.
    Used,
    /// There is none.
    None,
}

impl TableState {
    /// An inode, not in the table yet; where there was a freed one, if nobody looks at that any more.
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

    /// Takes out an inode that is in the table.
    pub(super) fn remove(&mut self, ip: &Inode) -> Option<Arc<Inode>> {
        self.names.purge(&self.map, &ip.names);
        self.map.remove(ip.ino)
    }

    /// Puts an inode of the table in the queue.
    pub(super) fn push(&mut self, ip: &Inode) {
        let time = ip.last_use.load(Ordering::Relaxed);
        ip.entry.store(time, Ordering::Relaxed);
        ip.queued.store(true, Ordering::SeqCst);
        self.unused.push(Reverse((time, ip.ino)));
        self.tidy();
    }

    /// Takes entries of inodes that left out of the queue once they are the greater part.
    pub(super) fn tidy(&mut self) {
        if self.unused.len() > 2 * self.map.len() + 64 {
            let map = &self.map;
            let valid = |Reverse((time, ino)): &Reverse<(u64, Ino)>| {
                map.get(*ino).is_some_and(|ip| ip.entry.load(Ordering::Relaxed) == *time)
            };
            self.unused.retain(valid);
            self.unused.shrink_to(4 * self.map.len() + 128);
        }
    }

    /// Takes the first inode out of the queue.
    fn pop(&mut self) -> Option<Arc<Inode>> {
        loop {
            let Reverse((time, ino)) = self.unused.pop()?;
            let found = self.map.get(ino).filter(|ip| ip.entry.load(Ordering::Relaxed) == time);
            if let Some(ip) = found {
                return Some(Arc::clone(ip));
            }
        }
    }

    /// Drops the first inode of the queue unless it is used, `keep` says so, or its access time is not in
    /// its block yet: then it goes behind the others, as if used `now`.
    pub(super) fn drop_oldest(
        &mut self,
        now: impl FnOnce() -> u64,
        keep: impl FnOnce(&Inode) -> bool,
    ) -> Oldest {
        let Some(ip) = self.pop() else { return Oldest::None };
        ip.queued.store(false, Ordering::SeqCst);
        if ip.refs.load(Ordering::SeqCst) > 0 {
            // Its last user queues it.
            return Oldest::Kept;
        }
        if ip.last_use.load(Ordering::Relaxed) != ip.entry.load(Ordering::Relaxed) {
            self.push(&ip);
            return Oldest::Used;
        }
        let accessed = ip.data.try_read().is_some_and(|d| d.times_noted());
        // The table's reference, this one, and those of the names.
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
