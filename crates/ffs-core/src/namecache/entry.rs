//! Entries: a cache line each, and the lists they are on.

use super::{At, NIL};
use crate::prefetch;
use ffs_ondisk::Ino;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

/// Longest name kept in the entry itself, bytes.
const INLINE: usize = 35;

/// Neighbours in a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    prev: At,
    next: At,
}

const ALONE: Link = Link { prev: NIL, next: NIL };

/// A name in memory.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Entry {
    pub(super) hash: u32,
    pub(super) dir: Ino,
    /// What the name means; 0: nothing, the entry is negative.
    pub(super) target: Ino,
    /// Among the names of its kind, positive or negative, from its directory; of a free entry `next`
    /// is the next free one.
    from: Link,
    /// Among the names to its target, or among all negative ones.
    to: Link,
    len: u8,
    /// The name unless it is longer; then it is elsewhere.
    name: [u8; INLINE],
}

/// Where a list of the names from or to an inode begins.
#[derive(Debug)]
pub(super) struct Head(AtomicU32);

impl Default for Head {
    fn default() -> Head {
        Head(AtomicU32::new(NIL))
    }
}

// Loads and stores suffice: who changes a list holds the cache's lock.
impl Head {
    pub(super) fn get(&self) -> At {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, at: At) {
        self.0.store(at, Ordering::Relaxed);
    }
}

/// Which list.
#[derive(Clone, Copy, Debug)]
pub(super) enum List {
    /// Names from a directory.
    From,
    /// Names to a file, or all negative ones.
    To,
}

impl Entry {
    fn link(&mut self, list: List) -> &mut Link {
        match list {
            List::From => &mut self.from,
            List::To => &mut self.to,
        }
    }
}

/// All entries.
#[derive(Debug)]
pub(super) struct Entries {
    all: Vec<Entry>,
    free: At,
    live: usize,
    long: HashMap<At, Box<[u8]>, foldhash::fast::FixedState>,
    long_bytes: usize,
}

impl Default for Entries {
    fn default() -> Entries {
        let long = HashMap::default();
        Entries { all: Vec::new(), free: NIL, live: 0, long, long_bytes: 0 }
    }
}

impl Entries {
    pub(super) fn get(&self, at: At) -> Option<&Entry> {
        self.all.get(at as usize)
    }

    /// Has entry `at` fetched.
    pub(super) fn prefetch(&self, at: At) {
        if let Some(e) = self.all.get(at as usize) {
            prefetch::line(e);
        }
    }

    /// Entries in use.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// Memory in use, bytes.
    pub(super) fn bytes(&self) -> usize {
        self.all.capacity() * size_of::<Entry>() + self.long_bytes
    }

    /// Whether entry `at` is of this name of this directory.
    pub(super) fn is(&self, at: At, dir: Ino, name: &[u8]) -> bool {
        let Some(e) = self.all.get(at as usize) else { return false };
        e.dir == dir
            && usize::from(e.len) == name.len()
            && match e.name.get(..name.len()) {
                Some(own) => own == name,
                None => self.long.get(&at).is_some_and(|own| **own == *name),
            }
    }

    /// A new entry, on no list. `None` if there are as many as can be numbered.
    pub(super) fn make(&mut self, hash: u32, dir: Ino, name: &[u8], target: Ino) -> Option<At> {
        let len = u8::try_from(name.len()).ok()?;
        let mut own = [0; INLINE];
        if let Some(own) = own.get_mut(..name.len()) {
            own.copy_from_slice(name);
        }
        let new = Entry { hash, dir, target, from: ALONE, to: ALONE, len, name: own };
        let at = match self.all.get_mut(self.free as usize) {
            Some(e) => {
                let at = self.free;
                self.free = e.from.next;
                *e = new;
                at
            }
            None => {
                let at = At::try_from(self.all.len()).ok().filter(|at| *at != NIL)?;
                self.all.push(new);
                at
            }
        };
        if name.len() > INLINE {
            self.long.insert(at, name.into());
            self.long_bytes += name.len();
        }
        self.live += 1;
        Some(at)
    }

    /// Gives an entry back that is on no list any more.
    pub(super) fn free(&mut self, at: At) {
        let Some(e) = self.all.get_mut(at as usize) else { return };
        if usize::from(e.len) > INLINE {
            self.long_bytes -= self.long.remove(&at).map_or(0, |name| name.len());
        }
        e.from.next = self.free;
        self.free = at;
        self.live -= 1;
    }

    /// Puts an entry at the beginning of a list.
    pub(super) fn push(&mut self, list: List, head: &Head, at: At) {
        let first = head.get();
        if let Some(e) = self.all.get_mut(first as usize) {
            e.link(list).prev = at;
        }
        if let Some(e) = self.all.get_mut(at as usize) {
            *e.link(list) = Link { prev: NIL, next: first };
        }
        head.set(at);
    }

    /// Takes an entry out of a list; `head` is asked for only if the list begins with it.
    pub(super) fn take<'a>(&mut self, list: List, head: impl FnOnce() -> Option<&'a Head>, at: At) {
        let Some(e) = self.all.get_mut(at as usize) else { return };
        let Link { prev, next } = std::mem::replace(e.link(list), ALONE);
        if let Some(e) = self.all.get_mut(next as usize) {
            e.link(list).prev = prev;
        }
        match self.all.get_mut(prev as usize) {
            Some(e) => e.link(list).next = next,
            None => {
                if let Some(head) = head() {
                    head.set(next);
                }
            }
        }
    }

    /// How many entries are on a list.
    pub(super) fn count(&self, list: List, head: &Head) -> usize {
        let entry = |at: At| self.all.get(at as usize);
        let after = |e: &&Entry| match list {
            List::From => entry(e.from.next),
            List::To => entry(e.to.next),
        };
        std::iter::successors(entry(head.get()), after).count()
    }

    /// The entry after the last one's neighbour, towards the beginning of the list.
    pub(super) fn before(&self, list: List, at: At) -> At {
        self.all.get(at as usize).map_or(NIL, |e| match list {
            List::From => e.from.prev,
            List::To => e.to.prev,
        })
    }
}
