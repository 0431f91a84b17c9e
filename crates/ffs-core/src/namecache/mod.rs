//! Names in memory: which file a name of a directory means, or that it means none.
//!
//! An entry says that `name` in directory number *d* names inode number *i*, or nothing, and has a handle
//! ([`Handle`]) of that inode. What keeps inodes themselves ([`Vnodes`]) owns the cache, and its lock guards it.
//!
//! # Invariants
//! 1. An entry is what its directory holds. It is made only while the directory is locked and after the
//!    directory answered, or was changed, so; and whoever is about to change a name in a directory has
//!    it locked alone and takes the name's entry out first ([`NameCache::zap`]). So a hit under the
//!    directory's lock is right, and a change that fails half way leaves no entry behind.
//! 2. Directory and target of every entry are in memory: an inode that leaves memory takes the names from
//!    and to it along ([`NameCache::purge`]), and is in memory when an entry is made. So an entry never
//!    outlives the file its numbers meant.
//! 3. Positive entries have no order of age: they live as long as their inodes. After an insertion at most
//!    one entry in `negatives_one_in` is negative; the one not asked for longest goes first.
//! 4. At `most` entries nothing is inserted.
//!
//! `.` has no entry. `..` is kept in the [`Links`] of a directory: it is content of that directory, known
//! and changed under its own lock. (BSD sets it when a name *to* the directory is entered; on a
//! damaged volume the two differ.)
//!
//! Counters are those of `vfs.cache`; they are changed under the lock only.
//!
//! Reference: `spec/directories-and-caches.md` §4, §6.

mod entry;
#[cfg(test)]
mod tests;

use crate::counters::{Counters, bump_alone};
use crate::openhash::{At, NIL, OpenHash};
use entry::{Entries, Head, List};
use ffs_ondisk::Ino;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// What the cache knows of an inode; part of it in memory.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// Names in this directory.
    from: Head,
    /// Names it is known not to have.
    without: Head,
    /// Names of this file.
    to: Head,
    /// What `..` of this directory names; 0: not known.
    parent: AtomicU32,
    /// The inode is in memory: it may have names.
    here: AtomicBool,
}

impl Links {
    /// Whether the inode is kept in memory, as was said last. Only while it is, names from and to it are entered.
    pub(crate) fn is_here(&self) -> bool {
        self.here.load(Ordering::Relaxed)
    }

    /// The inode enters memory or leaves it, under the lock that guards the cache; if it leaves, after
    /// [`NameCache::purge`].
    pub(crate) fn set_here(&self, here: bool) {
        self.here.store(here, Ordering::Relaxed);
    }

    /// Whether the cache has names from this directory.
    pub(crate) fn has_names(&self) -> bool {
        self.from.get() != NIL || self.without.get() != NIL
    }
}

/// A reference to an inode in memory.
pub(crate) trait Handle: Clone {
    /// Its links.
    fn links(&self) -> &Links;
    /// It will be used at once: has it fetched from memory.
    fn prefetch(&self);
}

/// Whoever keeps inodes in memory.
pub(crate) trait Vnodes {
    /// What refers to them.
    type Handle: Handle;
    /// An inode in memory.
    fn get(&self, ino: Ino) -> Option<&Self::Handle>;
}

/// Answer of [`NameCache::find`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found<H> {
    /// The name means this file.
    File(H),
    /// There is no such name.
    Absent,
    /// The directory must be asked.
    Unknown,
}

/// The bounds of the cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Most entries (2 x `desiredvnodes`).
    pub(crate) most: usize,
    /// One entry in so many may be negative (`debug.ncnegfactor`).
    pub(crate) negatives_one_in: usize,
}

/// The names.
pub(crate) struct NameCache<H> {
    /// `debug.vfscache`. Off: nothing is answered, entered or counted.
    on: bool,
    entries: Entries,
    index: OpenHash<H>,
    /// The negative entry asked for last, and the one not asked for longest.
    newest: Head,
    oldest: At,
    negatives: usize,
    hasher: foldhash::fast::FixedState,
    counters: Arc<Counters>,
}

impl<H: Handle> NameCache<H> {
    /// An empty cache. `seed` makes hashes nobody outside can foretell.
    pub(crate) fn new(on: bool, seed: u64, counters: Arc<Counters>) -> NameCache<H> {
        NameCache {
            on,
            entries: Entries::default(),
            index: OpenHash::default(),
            newest: Head::default(),
            oldest: NIL,
            negatives: 0,
            hasher: foldhash::fast::FixedState::with_seed(seed),
            counters,
        }
    }

    /// Entries (`numcache`).
    pub(crate) fn len(&self) -> usize {
        self.entries.live()
    }

    /// Of those, negative (`numneg`).
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

    fn search(&self, hash: u32, dir: Ino, name: &[u8]) -> Option<(At, Option<&H>)> {
        self.index.find(hash, |at, file| {
            // Entry and inode lie anywhere in memory: they come at the same time.
            self.entries.prefetch(at);
            if let Some(file) = file {
                file.prefetch();
            }
            bump_alone(&self.counters.cache_numchecks);
            self.entries.is(at, dir, name)
        })
    }

    /// A lookup that wants the answer kept.
    pub(crate) fn find(&mut self, dir: Ino, name: &[u8]) -> Found<H> {
        if !self.on {
            return Found::Unknown;
        }
        match self.search(self.hash(dir, name), dir, name) {
            Some((_, Some(file))) => {
                bump_alone(&self.counters.cache_numposhits);
                Found::File(file.clone())
            }
            Some((at, None)) => {
                bump_alone(&self.counters.cache_numneghits);
                self.take_negative(at);
                self.push_negative(at);
                Found::Absent
            }
            None => {
                bump_alone(&self.counters.cache_nummiss);
                self.prefetch_eviction();
                Found::Unknown
            }
        }
    }

    /// A lookup for an operation that will make, remove or redirect the name: it asks the directory
    /// whatever the cache knows, and the cache must not know it any longer. Answers which file the name meant
    /// until now, if that was known.
    pub(crate) fn zap(&mut self, v: &impl Vnodes<Handle = H>, dir: Ino, name: &[u8]) -> Option<H> {
        if !self.on {
            return None;
        }
        self.prefetch_eviction();
        let Some((at, _)) = self.search(self.hash(dir, name), dir, name) else {
            bump_alone(&self.counters.cache_nummisszap);
            return None;
        };
        let meant = self.remove(v, at);
        match meant {
            Some(_) => bump_alone(&self.counters.cache_numposzaps),
            None => bump_alone(&self.counters.cache_numnegzaps),
        }
        meant
    }

    /// Operations on these names will follow.
    pub(crate) fn prefetch(&self, dir: Ino, names: &[&[u8]]) {
        if self.on {
            names.iter().for_each(|name| self.index.prefetch(self.hash(dir, name)));
        }
    }

    /// The oldest negative entry may have to make room for another.
    fn prefetch_eviction(&self) {
        if let Some(e) = self.entries.get(self.oldest) {
            self.index.prefetch(e.hash);
        }
    }

    /// Enters what the directory answered: `target`, or nothing if there is no such name. Refused while
    /// the cache is full, or one of the inodes is not in memory.
    pub(crate) fn enter(
        &mut self,
        v: &impl Vnodes<Handle = H>,
        limits: Limits,
        (dir, from, name): (Ino, &Links, &[u8]),
        target: Option<(Ino, &H)>,
    ) {
        let wanted = target.map_or(Ino(0), |(ino, _)| ino);
        if !self.on {
            return;
        }
        let hash = self.hash(dir, name);
        let known = self.index.find(hash, |at, _| self.entries.is(at, dir, name));
        if let Some((at, _)) = known {
            if self.entries.get(at).is_some_and(|e| e.target == wanted) {
                // Somebody else asked the directory at the same time.
                return;
            }
            self.remove(v, at);
        }
        if self.len() >= limits.most {
            bump_alone(&self.counters.cache_refused);
            return;
        }
        if !from.is_here() || target.is_some_and(|(_, to)| !to.links().is_here()) {
            return;
        }
        let Some(at) = self.entries.make(hash, dir, name, wanted) else { return };
        self.index.insert(hash, at, target.map(|(_, to)| to.clone()));
        match target {
            Some((_, to)) => {
                self.entries.push(List::From, &from.from, at);
                self.entries.push(List::To, &to.links().to, at);
            }
            None => {
                self.entries.push(List::From, &from.without, at);
                self.push_negative(at);
                self.negatives += 1;
            }
        }
        while self.negatives * limits.negatives_one_in > self.len() {
            bump_alone(&self.counters.cache_numnegevicted);
            self.remove(v, self.oldest);
        }
    }

    /// Puts an entry behind all other negative ones.
    fn push_negative(&mut self, at: At) {
        self.entries.push(List::To, &self.newest, at);
        if self.oldest == NIL {
            self.oldest = at;
        }
    }

    fn take_negative(&mut self, at: At) {
        if self.oldest == at {
            self.oldest = self.entries.before(List::To, at);
            // The next eviction looks for it.
            self.entries.prefetch(self.oldest);
        }
        self.entries.take(List::To, || Some(&self.newest), at);
    }

    /// Takes an entry out. What it meant.
    fn remove(&mut self, v: &impl Vnodes<Handle = H>, at: At) -> Option<H> {
        let e = self.entries.get(at)?;
        let (hash, dir) = (e.hash, e.dir);
        let target = self.index.remove(hash, at);
        match &target {
            Some(file) => {
                self.entries.take(List::To, || Some(&file.links().to), at);
                self.entries.take(List::From, || v.get(dir).map(|d| &d.links().from), at);
            }
            None => {
                self.negatives -= 1;
                self.take_negative(at);
                self.entries.take(List::From, || v.get(dir).map(|d| &d.links().without), at);
            }
        }
        self.entries.free(at);
        target
    }

    /// Takes all names from and to an inode in memory out; it is about to leave or to move.
    pub(crate) fn purge(&mut self, v: &impl Vnodes<Handle = H>, links: &Links) {
        self.empty(v, &links.from);
        self.empty(v, &links.without);
        self.empty(v, &links.to);
        links.parent.store(0, Ordering::Relaxed);
    }

    /// Takes the negative entries of a directory out.
    pub(crate) fn purge_negatives(&mut self, v: &impl Vnodes<Handle = H>, dir: &Links) {
        self.empty(v, &dir.without);
    }

    /// How many names a file has here: so many handles of it there are.
    pub(crate) fn count_to(&self, file: &Links) -> usize {
        self.entries.count(List::To, &file.to)
    }

    fn empty(&mut self, v: &impl Vnodes<Handle = H>, list: &Head) {
        while list.get() != NIL {
            bump_alone(&self.counters.cache_numpurged);
            self.remove(v, list.get());
        }
    }

    /// Takes all names out and gives the memory back. `inodes` are all there are in memory.
    pub(crate) fn purge_all<'a>(
        &mut self,
        v: &impl Vnodes<Handle = H>,
        inodes: impl Iterator<Item = &'a Links>,
    ) {
        inodes.for_each(|links| self.purge(v, links));
        debug_assert_eq!((self.len(), self.negatives, self.oldest), (0, 0, NIL));
        (self.entries, self.index) = (Entries::default(), OpenHash::default());
    }

    /// Switches the cache on or off; see [`NameCache::purge_all`], which whoever switches it off calls.
    pub(crate) fn switch(&mut self, on: bool) {
        self.on = on;
    }

    /// Whether it is on.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// What `..` of a directory names, if that is known.
    pub(crate) fn parent(&self, dir: &Links) -> Option<Ino> {
        if !self.on {
            return None;
        }
        let up = dir.parent.load(Ordering::Relaxed);
        if up == 0 {
            bump_alone(&self.counters.cache_nummiss);
            return None;
        }
        bump_alone(&self.counters.cache_dotdothits);
        Some(Ino(up))
    }

    /// Notes what `..` of a directory names.
    pub(crate) fn set_parent(&self, dir: &Links, up: Ino) {
        if self.on && dir.is_here() {
            dir.parent.store(up.0, Ordering::Relaxed);
        }
    }
}
