//! The entries, each one cache line, and the lists over them.

use crate::openhash::{ItemId, NIL};
use crate::prefetch;
use ffs_ondisk::Ino;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

/// Longest name kept in the entry itself, bytes.
const INLINE_MAX: usize = 35;

/// The neighbours of an entry in a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    prev: ItemId,
    next: ItemId,
}

const UNLINKED: Link = Link { prev: NIL, next: NIL };

/// A name of a directory, and the inode that it names.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(super) struct Entry {
    pub(super) hash: u32,
    pub(super) dir: Ino,
    /// The inode that the name refers to; 0 in a negative entry.
    pub(super) target: Ino,
    /// In the list of the positive or negative names in its directory (`nc_src`). In a free entry
    /// `next` is the next free entry.
    src: Link,
    /// In the list of the names of its target (`nc_dst`), or of all negative entries.
    dst: Link,
    len: u8,
    /// The name if it fits; a longer name is in `Entries::long_names`.
    name: [u8; INLINE_MAX],
}

/// The first entry of a list.
#[derive(Debug)]
pub(super) struct ListHead(AtomicU32);

impl Default for ListHead {
    fn default() -> ListHead {
        ListHead(AtomicU32::new(NIL))
    }
}

// Relaxed loads and stores suffice: a thread that changes a list holds the cache's lock.
impl ListHead {
    pub(super) fn get(&self) -> ItemId {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, id: ItemId) {
        self.0.store(id, Ordering::Relaxed);
    }
}

/// The two lists that an entry is on.
#[derive(Clone, Copy, Debug)]
pub(super) enum List {
    /// The positive or the negative names in a directory.
    Src,
    /// The names of a file, or all negative entries.
    Dst,
}

impl Entry {
    fn link(&mut self, list: List) -> &mut Link {
        match list {
            List::Src => &mut self.src,
            List::Dst => &mut self.dst,
        }
    }
}

/// All entries.
#[derive(Debug)]
pub(super) struct Entries {
    all: Vec<Entry>,
    /// The first free entry.
    free: ItemId,
    /// Entries in use.
    live: usize,
    /// Names longer than [`INLINE_MAX`], by entry.
    long_names: HashMap<ItemId, Box<[u8]>, foldhash::fast::FixedState>,
    /// Bytes of `long_names`.
    long_bytes: usize,
}

impl Default for Entries {
    fn default() -> Entries {
        let long_names = HashMap::default();
        Entries { all: Vec::new(), free: NIL, live: 0, long_names, long_bytes: 0 }
    }
}

impl Entries {
    pub(super) fn get(&self, id: ItemId) -> Option<&Entry> {
        self.all.get(id as usize)
    }

    /// Fetches an entry into the processor's cache.
    pub(super) fn prefetch(&self, id: ItemId) {
        if let Some(e) = self.all.get(id as usize) {
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

    /// Whether an entry is for this name in this directory.
    pub(super) fn is_for(&self, id: ItemId, dir: Ino, name: &[u8]) -> bool {
        let Some(e) = self.all.get(id as usize) else { return false };
        e.dir == dir
            && usize::from(e.len) == name.len()
            && match e.name.get(..name.len()) {
                Some(own) => own == name,
                None => self.long_names.get(&id).is_some_and(|own| **own == *name),
            }
    }

    /// A new entry, on no list. `None` if all numbers are in use.
    pub(super) fn alloc(
        &mut self,
        hash: u32,
        dir: Ino,
        name: &[u8],
        target: Ino,
    ) -> Option<ItemId> {
        let len = u8::try_from(name.len()).ok()?;
        let mut own = [0; INLINE_MAX];
        if let Some(own) = own.get_mut(..name.len()) {
            own.copy_from_slice(name);
        }
        let new = Entry { hash, dir, target, src: UNLINKED, dst: UNLINKED, len, name: own };
        let id = match self.all.get_mut(self.free as usize) {
            Some(e) => {
                let id = self.free;
                self.free = e.src.next;
                *e = new;
                id
            }
            None => {
                let id = ItemId::try_from(self.all.len()).ok().filter(|id| *id != NIL)?;
                self.all.push(new);
                id
            }
        };
        if name.len() > INLINE_MAX {
            self.long_names.insert(id, name.into());
            self.long_bytes += name.len();
        }
        self.live += 1;
        Some(id)
    }

    /// Frees an entry that is on no list.
    pub(super) fn free(&mut self, id: ItemId) {
        let Some(e) = self.all.get_mut(id as usize) else { return };
        if usize::from(e.len) > INLINE_MAX {
            self.long_bytes -= self.long_names.remove(&id).map_or(0, |name| name.len());
        }
        e.src.next = self.free;
        self.free = id;
        self.live -= 1;
    }

    /// Puts an entry at the beginning of a list.
    pub(super) fn push(&mut self, list: List, head: &ListHead, id: ItemId) {
        let first = head.get();
        if let Some(e) = self.all.get_mut(first as usize) {
            e.link(list).prev = id;
        }
        if let Some(e) = self.all.get_mut(id as usize) {
            *e.link(list) = Link { prev: NIL, next: first };
        }
        head.set(id);
    }

    /// Removes an entry from a list. `head` is called only if the entry is the first.
    pub(super) fn remove<'a>(
        &mut self,
        list: List,
        head: impl FnOnce() -> Option<&'a ListHead>,
        id: ItemId,
    ) {
        let Some(e) = self.all.get_mut(id as usize) else { return };
        let Link { prev, next } = std::mem::replace(e.link(list), UNLINKED);
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

    /// The number of entries on a list.
    pub(super) fn count(&self, list: List, head: &ListHead) -> usize {
        let entry = |id: ItemId| self.all.get(id as usize);
        let after = |e: &&Entry| match list {
            List::Src => entry(e.src.next),
            List::Dst => entry(e.dst.next),
        };
        std::iter::successors(entry(head.get()), after).count()
    }

    /// The entry before `id` in a list, or [`NIL`].
    pub(super) fn prev(&self, list: List, id: ItemId) -> ItemId {
        self.all.get(id as usize).map_or(NIL, |e| match list {
            List::Src => e.src.prev,
            List::Dst => e.dst.prev,
        })
    }
}
