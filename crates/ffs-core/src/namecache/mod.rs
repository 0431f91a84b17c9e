//! The name cache: which inode a name in a directory refers to, or that there is no such name.
//!
//! An entry records that `name` in directory number *d* refers to inode number *i*, or to nothing
//! (a negative entry). It has a reference ([`VnodeRef`]) to the inode. The table of inodes in
//! memory ([`VnodeTable`]) owns the cache, and the table's lock guards it.
//!
//! # Invariants
//! 1. An entry agrees with its directory. It is made only while the directory is locked, after the
//!    directory was searched or changed. An operation that is about to change a name has the
//!    directory locked exclusively and removes the name's entry first ([`NameCache::zap`]). So a
//!    hit under the directory's lock is right, and a change that fails half way leaves no entry
//!    behind.
//! 2. Directory and target of every entry are in memory: an inode that leaves memory takes the
//!    names in it and the names of it along ([`NameCache::purge`]). So an entry never outlives the
//!    file that its numbers referred to.
//! 3. Positive entries have no order of age: they live as long as their inodes. After an insertion
//!    at most one entry in `neg_factor` is negative; the one that was not looked up for longest is
//!    removed first.
//! 4. With `entries` entries the cache is full and nothing is inserted.
//!
//! `.` has no entry. `..` is kept in the [`NameLinks`] of a directory: it is content of that
//! directory, read and changed under its own lock. (BSD sets it when a name *of* the directory is
//! entered; on a damaged volume the two differ.)
//!
//! The lock has many readers or one writer, and a lookup only reads. If it finds a negative entry,
//! the caller takes the lock again to note the use ([`NameCache::note_negative`]).
//!
//! The counters are those of `vfs.cache`.
//!
//! Reference: `spec/directories-and-caches.md` §4, §6.

mod entry;
#[cfg(test)]
mod tests;

use crate::counters::{Counters, bump};
use crate::openhash::{ItemId, NIL, OpenHash};
use entry::{Entries, List, ListHead};
use ffs_ondisk::Ino;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// The lists of an inode in memory.
#[derive(Debug, Default)]
pub(crate) struct NameLinks {
    /// Positive entries for names in this directory (`v_cache_src`).
    src: ListHead,
    /// Negative entries for names in this directory.
    src_negative: ListHead,
    /// Entries for names of this file (`v_cache_dst`).
    dst: ListHead,
    /// The inode that `..` of this directory names (`v_cache_dd`); 0 if that is not known.
    dotdot: AtomicU32,
    /// Whether the inode is in memory, so that entries may refer to it.
    resident: AtomicBool,
}

impl NameLinks {
    /// Whether the inode is in memory. Names in it and names of it are entered only while it is.
    pub(crate) fn is_resident(&self) -> bool {
        self.resident.load(Ordering::Relaxed)
    }

    /// Records that the inode enters memory or leaves it. The caller holds the lock that guards the
    /// cache; before the inode leaves, it calls [`NameCache::purge`].
    pub(crate) fn set_resident(&self, resident: bool) {
        self.resident.store(resident, Ordering::Relaxed);
    }

    /// Whether the cache has names from this directory.
    pub(crate) fn has_names(&self) -> bool {
        self.src.get() != NIL || self.src_negative.get() != NIL
    }
}

/// A reference to an inode in memory.
pub(crate) trait VnodeRef: Clone {
    /// Its links.
    fn links(&self) -> &NameLinks;
    /// Fetches the inode, which is about to be used, into the processor's cache.
    fn prefetch(&self);
}

/// The table of the inodes in memory.
pub(crate) trait VnodeTable {
    /// A reference to an inode.
    type Ref: VnodeRef;
    /// The inode `ino`, if it is in memory.
    fn get(&self, ino: Ino) -> Option<&Self::Ref>;
}

/// The result of [`NameCache::lookup`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CacheLookup<H> {
    /// The name refers to this file.
    Positive(H),
    /// There is no such name.
    Negative,
    /// There is no entry: the directory must be searched.
    Miss,
}

/// The limits of the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameCacheLimits {
    /// Most entries (2 x `desiredvnodes`).
    pub(crate) entries: usize,
    /// At most one of this many entries may be negative (`debug.ncnegfactor`).
    pub(crate) neg_factor: usize,
}

/// The name cache.
pub(crate) struct NameCache<H> {
    /// `debug.vfscache`. While it is off, every lookup is a miss and nothing is entered or counted.
    on: bool,
    entries: Entries,
    index: OpenHash<H>,
    /// The negative entry that was looked up last.
    newest_negative: ListHead,
    /// The negative entry that was not looked up for longest.
    oldest_negative: ItemId,
    negatives: usize,
    hasher: foldhash::fast::FixedState,
    counters: Arc<Counters>,
}

impl<H: VnodeRef> NameCache<H> {
    /// An empty cache. `seed` keys the hash function, so that users cannot choose names that
    /// collide.
    pub(crate) fn new(on: bool, seed: u64, counters: Arc<Counters>) -> NameCache<H> {
        NameCache {
            on,
            entries: Entries::default(),
            index: OpenHash::default(),
            newest_negative: ListHead::default(),
            oldest_negative: NIL,
            negatives: 0,
            hasher: foldhash::fast::FixedState::with_seed(seed),
            counters,
        }
    }

    /// The number of entries (`numcache`).
    pub(crate) fn len(&self) -> usize {
        self.entries.live()
    }

    /// The number of negative entries (`numneg`).
    pub(crate) fn negatives(&self) -> usize {
        self.negatives
    }

    /// Memory in use, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.bytes() + self.index.bytes()
    }

    fn hash(&self, dir: Ino, name: &[u8]) -> u32 {
        let mut h = self.hasher.build_hasher();
        h.write_u32(dir.0);
        h.write(name);
        (h.finish() >> 32) as u32
    }

    fn search(&self, hash: u32, dir: Ino, name: &[u8]) -> Option<(ItemId, Option<&H>)> {
        self.index.find(hash, |id, file| {
            // The entry and the inode are far apart in memory: fetch both at once.
            self.entries.prefetch(id);
            if let Some(file) = file {
                file.prefetch();
            }
            bump(&self.counters.cache_numchecks);
            self.entries.is_for(id, dir, name)
        })
    }

    /// Looks up a name for an operation that will not change it. After a negative result the caller
    /// calls [`NameCache::note_negative`].
    pub(crate) fn lookup(&self, dir: Ino, name: &[u8]) -> CacheLookup<H> {
        if !self.on {
            return CacheLookup::Miss;
        }
        match self.search(self.hash(dir, name), dir, name) {
            Some((_, Some(file))) => {
                bump(&self.counters.cache_numposhits);
                CacheLookup::Positive(file.clone())
            }
            Some((_, None)) => {
                bump(&self.counters.cache_numneghits);
                CacheLookup::Negative
            }
            None => {
                bump(&self.counters.cache_nummiss);
                self.prefetch_eviction();
                CacheLookup::Miss
            }
        }
    }

    /// Whether the negative entry that was looked up last is for this name.
    pub(crate) fn is_newest_negative(&self, dir: Ino, name: &[u8]) -> bool {
        self.entries.is_for(self.newest_negative.get(), dir, name)
    }

    /// Makes the negative entry of a name, which was just looked up, the newest. Does nothing if it
    /// was evicted since.
    pub(crate) fn note_negative(&mut self, dir: Ino, name: &[u8]) {
        let found = self.index.find(self.hash(dir, name), |id, file| {
            file.is_none() && self.entries.is_for(id, dir, name)
        });
        if let Some((id, _)) = found {
            self.remove_negative(id);
            self.push_negative(id);
        }
    }

    /// Removes the entry of a name for an operation that will make, remove or redirect the name;
    /// the operation searches the directory in any case. Returns the file that the name referred
    /// to, if the cache had it.
    pub(crate) fn zap(&mut self, v: &impl VnodeTable<Ref = H>, dir: Ino, name: &[u8]) -> Option<H> {
        if !self.on {
            return None;
        }
        self.prefetch_eviction();
        let Some((id, _)) = self.search(self.hash(dir, name), dir, name) else {
            bump(&self.counters.cache_nummisszap);
            return None;
        };
        let file = self.remove(v, id);
        match file {
            Some(_) => bump(&self.counters.cache_numposzaps),
            None => bump(&self.counters.cache_numnegzaps),
        }
        file
    }

    /// Fetches the index entries of names, which are about to be looked up, into the processor's
    /// cache.
    pub(crate) fn prefetch(&self, dir: Ino, names: &[&[u8]]) {
        if self.on {
            names.iter().for_each(|name| self.index.prefetch(self.hash(dir, name)));
        }
    }

    /// Fetches the index entry of the oldest negative entry, which may be evicted next.
    fn prefetch_eviction(&self) {
        if let Some(e) = self.entries.get(self.oldest_negative) {
            self.index.prefetch(e.hash);
        }
    }

    /// Enters the result of a search of the directory: `target`, or `None` if there is no such
    /// name. Does nothing while the cache is full or if one of the inodes is not in memory.
    pub(crate) fn enter(
        &mut self,
        v: &impl VnodeTable<Ref = H>,
        limits: NameCacheLimits,
        (dir, dir_links, name): (Ino, &NameLinks, &[u8]),
        target: Option<(Ino, &H)>,
    ) {
        let ino = target.map_or(Ino(0), |(ino, _)| ino);
        if !self.on {
            return;
        }
        let hash = self.hash(dir, name);
        let old = self.index.find(hash, |id, _| self.entries.is_for(id, dir, name));
        if let Some((id, _)) = old {
            if self.entries.get(id).is_some_and(|e| e.target == ino) {
                // Another thread searched the directory at the same time.
                return;
            }
            self.remove(v, id);
        }
        if self.len() >= limits.entries {
            bump(&self.counters.cache_refused);
            return;
        }
        if !dir_links.is_resident() || target.is_some_and(|(_, file)| !file.links().is_resident()) {
            return;
        }
        let Some(id) = self.entries.alloc(hash, dir, name, ino) else { return };
        self.index.insert(hash, id, target.map(|(_, file)| file.clone()));
        match target {
            Some((_, file)) => {
                self.entries.push(List::Src, &dir_links.src, id);
                self.entries.push(List::Dst, &file.links().dst, id);
            }
            None => {
                self.entries.push(List::Src, &dir_links.src_negative, id);
                self.push_negative(id);
                self.negatives += 1;
            }
        }
        while self.negatives * limits.neg_factor > self.len() {
            bump(&self.counters.cache_numnegevicted);
            self.remove(v, self.oldest_negative);
        }
    }

    /// Makes an entry the newest negative one.
    fn push_negative(&mut self, id: ItemId) {
        self.entries.push(List::Dst, &self.newest_negative, id);
        if self.oldest_negative == NIL {
            self.oldest_negative = id;
        }
    }

    fn remove_negative(&mut self, id: ItemId) {
        if self.oldest_negative == id {
            self.oldest_negative = self.entries.prev(List::Dst, id);
            // The next eviction reads it.
            self.entries.prefetch(self.oldest_negative);
        }
        self.entries.remove(List::Dst, || Some(&self.newest_negative), id);
    }

    /// Removes an entry; returns the file that it referred to.
    fn remove(&mut self, v: &impl VnodeTable<Ref = H>, id: ItemId) -> Option<H> {
        let e = self.entries.get(id)?;
        let (hash, dir) = (e.hash, e.dir);
        let target = self.index.remove(hash, id);
        match &target {
            Some(file) => {
                self.entries.remove(List::Dst, || Some(&file.links().dst), id);
                self.entries.remove(List::Src, || v.get(dir).map(|d| &d.links().src), id);
            }
            None => {
                self.negatives -= 1;
                self.remove_negative(id);
                self.entries.remove(List::Src, || v.get(dir).map(|d| &d.links().src_negative), id);
            }
        }
        self.entries.free(id);
        target
    }

    /// Removes all names in an inode and of it (`cache_purge`): it is about to leave memory, or to
    /// be renamed.
    pub(crate) fn purge(&mut self, v: &impl VnodeTable<Ref = H>, links: &NameLinks) {
        self.purge_list(v, &links.src);
        self.purge_list(v, &links.src_negative);
        self.purge_list(v, &links.dst);
        links.dotdot.store(0, Ordering::Relaxed);
    }

    /// Removes the negative entries of a directory (`cache_purge_negative`).
    pub(crate) fn purge_negatives(&mut self, v: &impl VnodeTable<Ref = H>, dir: &NameLinks) {
        self.purge_list(v, &dir.src_negative);
    }

    /// The number of entries for names of a file: so many references to it the cache has.
    pub(crate) fn count_to(&self, file: &NameLinks) -> usize {
        self.entries.count(List::Dst, &file.dst)
    }

    fn purge_list(&mut self, v: &impl VnodeTable<Ref = H>, list: &ListHead) {
        while list.get() != NIL {
            bump(&self.counters.cache_numpurged);
            self.remove(v, list.get());
        }
    }

    /// Removes all names and frees the memory. `inodes` are all inodes in memory.
    pub(crate) fn purge_all<'a>(
        &mut self,
        v: &impl VnodeTable<Ref = H>,
        inodes: impl Iterator<Item = &'a NameLinks>,
    ) {
        inodes.for_each(|links| self.purge(v, links));
        debug_assert_eq!((self.len(), self.negatives, self.oldest_negative), (0, 0, NIL));
        (self.entries, self.index) = (Entries::default(), OpenHash::default());
    }

    /// Switches the cache on or off. The caller calls [`NameCache::purge_all`] when it switches it
    /// off.
    pub(crate) fn set_on(&mut self, on: bool) {
        self.on = on;
    }

    /// Whether the cache is on.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// The inode that `..` of a directory names, if that is known.
    pub(crate) fn parent(&self, dir: &NameLinks) -> Option<Ino> {
        if !self.on {
            return None;
        }
        let up = dir.dotdot.load(Ordering::Relaxed);
        if up == 0 {
            bump(&self.counters.cache_nummiss);
            return None;
        }
        bump(&self.counters.cache_dotdothits);
        Some(Ino(up))
    }

    /// Records the inode that `..` of a directory names.
    pub(crate) fn set_parent(&self, dir: &NameLinks, up: Ino) {
        if self.on && dir.is_resident() {
            dir.dotdot.store(up.0, Ordering::Relaxed);
        }
    }
}
