//! Finding, filling, dirtying and evicting buffers.

use super::pool::Pool;
use super::{Buf, BufData, BufKey, BufKind, BufRef, Disposition, WriteHooks};
use crate::counters::{Counters, add, bump};
use crate::error::{Error, Result};
use crate::sync::{Mutex, RwLock};
use ffs_device::BlockDevice;
use ffs_device::clock::Clock;
use ffs_ondisk::{FragNo, Geometry, Ino};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

type Map<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

/// How much the cache may hold, bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheLimits {
    /// All buffers.
    pub(crate) total: usize,
    /// Dirty buffers; beyond it, [`BufCache::throttle`] writes.
    pub(crate) dirty: usize,
}

/// The cache of one mount.
pub(crate) struct BufCache {
    pub(crate) g: Geometry,
    pub(crate) dev: Arc<dyn BlockDevice>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counters: Arc<Counters>,
    pub(super) hooks: Arc<dyn WriteHooks>,
    pub(super) state: Mutex<State>,
    limits: CacheLimits,
    /// See [`BufCache::in_trouble`].
    trouble: AtomicBool,
}

/// No slot: end of a list.
const NIL: usize = usize::MAX;

/// What the cache's lock guards.
pub(super) struct State {
    slots: Vec<Slot>,
    free: Vec<usize>,
    meta: Map<FragNo, usize>,
    files: Map<Ino, BTreeMap<i64, usize>>,
    /// Clean buffers, least recently used first.
    oldest: usize,
    newest: usize,
    total_bytes: usize,
    pub(super) dirty_bytes: usize,
    pub(super) dirty: BTreeMap<BufKey, BufRef>,
    pub(super) pool: Pool,
}

struct Slot {
    buf: Option<BufRef>,
    bytes: usize,
    dirty: bool,
    older: usize,
    newer: usize,
}

impl BufCache {
    pub(crate) fn new(
        g: Geometry,
        dev: Arc<dyn BlockDevice>,
        clock: Arc<dyn Clock>,
        counters: Arc<Counters>,
        hooks: Arc<dyn WriteHooks>,
        limits: CacheLimits,
    ) -> BufCache {
        let state = State {
            slots: Vec::new(),
            free: Vec::new(),
            meta: Map::default(),
            files: Map::default(),
            oldest: NIL,
            newest: NIL,
            total_bytes: 0,
            dirty_bytes: 0,
            dirty: BTreeMap::new(),
            pool: Pool::default(),
        };
        BufCache {
            g,
            dev,
            clock,
            counters,
            hooks,
            state: Mutex::new(state),
            limits,
            trouble: AtomicBool::new(false),
        }
    }

    /// The buffer of `key`, read from `addr` (`len` bytes) unless it is in memory.
    ///
    /// # Errors
    /// The device's; the next caller tries again.
    pub(crate) fn bread(
        &self,
        key: BufKey,
        kind: BufKind,
        addr: FragNo,
        len: usize,
    ) -> Result<BufRef> {
        let buf = self.lookup_or_insert(key, kind, addr, len, false);
        if self.is_current(&buf, addr, len) {
            bump(&self.counters.buf_hits);
            return Ok(buf);
        }
        bump(&self.counters.buf_misses);
        self.fill(&buf, addr, len)?;
        Ok(buf)
    }

    /// The buffer of `key` without reading: for a block about to be wholly (re)written.
    ///
    /// With `zero` a new buffer is zeros; without, its bytes are arbitrary and the caller must
    /// overwrite all of them before anybody else can see them (it holds the inode's lock).
    pub(crate) fn getblk(
        &self,
        key: BufKey,
        kind: BufKind,
        addr: FragNo,
        len: usize,
        zero: bool,
    ) -> BufRef {
        let buf = self.lookup_or_insert(key, kind, addr, len, zero);
        if !self.is_current(&buf, addr, len) {
            let old_len = {
                let mut d = buf.data.write();
                let old = d.bytes.len();
                d.bytes.resize(len, 0);
                if zero {
                    d.bytes.fill(0);
                }
                d.addr = addr;
                d.valid = true;
                d.version += 1;
                old
            };
            self.resized(key, old_len, len);
        }
        buf
    }

    /// The buffer of `key` if it is in memory and filled.
    pub(crate) fn incore(&self, key: BufKey) -> Option<BufRef> {
        let mut st = self.state.lock();
        let slot = st.find(key)?;
        st.touch(slot);
        let buf = st.slots.get(slot)?.buf.clone()?;
        drop(st);
        let valid = buf.data.read().valid;
        valid.then_some(buf)
    }

    fn is_current(&self, buf: &Buf, addr: FragNo, len: usize) -> bool {
        let d = buf.data.read();
        d.valid && d.addr == addr && d.bytes.len() == len
    }

    /// Reads the block from the device into `buf` unless another thread has.
    fn fill(&self, buf: &BufRef, addr: FragNo, len: usize) -> Result<()> {
        let mut d = buf.data.write();
        if d.valid && d.addr == addr && d.bytes.len() == len {
            return Ok(());
        }
        let old = d.bytes.len();
        d.bytes.resize(len, 0);
        d.addr = addr;
        d.valid = false;
        bump(&self.counters.reads);
        add(&self.counters.bytes_read, len as u64);
        match self.dev.read_at(self.g.frag_to_byte(addr), &mut d.bytes) {
            Ok(()) => d.valid = true,
            Err(e) => {
                drop(d);
                if buf.kind != BufKind::Data {
                    self.note_trouble();
                }
                // It stays, without content: another thread may be about to fill and change it.
                self.resized(buf.key, old, len);
                return Err(e.into());
            }
        }
        drop(d);
        self.resized(buf.key, old, len);
        Ok(())
    }

    fn lookup_or_insert(
        &self,
        key: BufKey,
        kind: BufKind,
        addr: FragNo,
        len: usize,
        zero: bool,
    ) -> BufRef {
        let mut st = self.state.lock();
        if let Some(slot) = st.find(key) {
            st.touch(slot);
            if let Some(buf) = st.slots.get(slot).and_then(|s| s.buf.clone()) {
                return buf;
            }
        }
        self.make_room(&mut st, len);
        let bytes = st.pool.take(len, zero);
        let data = BufData { addr, bytes, valid: false, version: 0 };
        let buf = Arc::new(Buf { key, kind, data: RwLock::new(data), io: Mutex::new(()) });
        st.insert(buf.clone(), len);
        buf
    }

    /// Evicts clean unreferenced buffers until `len` more bytes fit (or nothing more can go).
    fn make_room(&self, st: &mut State, len: usize) {
        let mut at = st.oldest;
        while st.total_bytes + len > self.limits.total && at != NIL {
            let Some(slot) = st.slots.get(at) else { return };
            let next = slot.newer;
            let idle = slot.buf.as_ref().is_some_and(|b| Arc::strong_count(b) == 1);
            if idle {
                st.remove(at);
                bump(&self.counters.buf_evictions);
            }
            at = next;
        }
    }

    fn resized(&self, key: BufKey, old: usize, new: usize) {
        if old == new {
            return;
        }
        let mut st = self.state.lock();
        if let Some(i) = st.find(key)
            && let Some(slot) = st.slots.get_mut(i)
        {
            let (before, dirty) = (slot.bytes, slot.dirty);
            slot.bytes = new;
            st.total_bytes = st.total_bytes + new - before;
            if dirty {
                st.dirty_bytes = st.dirty_bytes + new - before;
            }
        }
    }

    /// Notes that `buf` was changed: it will be written some time (`bdwrite`).
    pub(crate) fn dirty(&self, buf: &BufRef) {
        // A buffer that was forgotten meanwhile belongs to a freed block: nothing to write.
        self.state.lock().set_dirty(buf);
    }

    /// Notes a change and does what the policy asks (`bdwrite` or `bwrite`).
    ///
    /// # Errors
    /// The device's, if the write is waited for.
    pub(crate) fn apply(&self, buf: &BufRef, d: Disposition) -> Result<()> {
        self.dirty(buf);
        match d {
            Disposition::Delay => Ok(()),
            Disposition::WriteAndWait => self.bwrite(buf),
        }
    }

    /// Gives a block of a file another place or size (fragment growth, cluster move); the content
    /// stays and grows by zeros. The caller marks it dirty.
    ///
    /// Waits for a write of the buffer to the old place: that place may be another's at once.
    pub(crate) fn relocate(&self, buf: &BufRef, addr: FragNo, len: usize) {
        let old = {
            let _io = buf.io.lock();
            let mut d = buf.write();
            let old = d.bytes.len();
            d.addr = addr;
            d.bytes.resize(len, 0);
            d.valid = true;
            old
        };
        self.resized(buf.key, old, len);
    }

    /// Drops the buffer of `key`, changes and all: its block is about to be freed. On return no
    /// write of it is under way or will be; the caller holds no guard of it.
    pub(crate) fn forget(&self, key: BufKey) {
        let seen = {
            let mut st = self.state.lock();
            st.find(key).and_then(|slot| st.remove(slot))
        };
        if let Some(buf) = seen {
            buf.kill();
        }
    }

    /// Drops all buffers of a file with logical number in `range`, as [`BufCache::forget`] does:
    /// they are truncated away.
    pub(crate) fn forget_file(&self, ino: Ino, range: std::ops::RangeInclusive<i64>) {
        let seen: Vec<BufRef> = {
            let mut st = self.state.lock();
            let gone: Vec<usize> = match st.files.get(&ino) {
                Some(blocks) => blocks.range(range).map(|(_, &slot)| slot).collect(),
                None => return,
            };
            gone.into_iter().filter_map(|slot| st.remove(slot)).collect()
        };
        for buf in seen {
            buf.kill();
        }
    }

    /// Whether blocks of a file are in memory.
    pub(crate) fn has_file(&self, ino: Ino) -> bool {
        self.state.lock().files.contains_key(&ino)
    }

    /// Notes that the device failed metadata, or a structure on it was found damaged.
    pub(crate) fn note_trouble(&self) {
        self.trouble.store(true, Ordering::Relaxed);
    }

    /// Returns `e`, and notes the damage if it tells of any. Every room that finds a structure
    /// damaged which fsck repairs passes its error through here.
    pub(crate) fn damaged(&self, e: impl Into<Error>) -> Error {
        let e = e.into();
        if matches!(e, Error::Format(_)) {
            self.note_trouble();
        }
        e
    }

    /// Whether the device failed metadata or a write, or something on it is damaged: what an
    /// operation meant to undo may be left half done, so the volume must not be called clean before
    /// a check.
    pub(crate) fn in_trouble(&self) -> bool {
        self.trouble.load(Ordering::Relaxed)
    }

    /// Bytes of dirty buffers.
    pub(crate) fn dirty_bytes(&self) -> usize {
        self.state.lock().dirty_bytes
    }

    /// Writes delayed buffers if there are too many. To be called with no buffer lock held.
    ///
    /// # Errors
    /// The device's, if there are too many still: what else could not be written concerns those who
    /// wait for it.
    pub(crate) fn throttle(&self) -> Result<()> {
        if self.dirty_bytes() <= self.limits.dirty {
            return Ok(());
        }
        let written = self.write_delayed();
        if self.dirty_bytes() <= self.limits.dirty { Ok(()) } else { written }
    }

    /// Whether `buf` is in the cache and changed since it was written. Under its `io` lock a no
    /// means that its newest state is on the device.
    pub(super) fn is_dirty(&self, buf: &Buf) -> bool {
        let st = self.state.lock();
        st.dirty.get(&buf.key).is_some_and(|b| std::ptr::eq(Arc::as_ptr(b), buf))
    }
}

impl State {
    fn find(&self, key: BufKey) -> Option<usize> {
        match key {
            BufKey::Meta(d) => self.meta.get(&d).copied(),
            BufKey::File(ino, lbn) => self.files.get(&ino)?.get(&lbn).copied(),
        }
    }

    fn insert(&mut self, buf: BufRef, len: usize) {
        let key = buf.key;
        let slot = Slot { buf: Some(buf), bytes: len, dirty: false, older: NIL, newer: NIL };
        let at = match self.free.pop() {
            Some(i) => {
                if let Some(s) = self.slots.get_mut(i) {
                    *s = slot;
                }
                i
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        match key {
            BufKey::Meta(d) => {
                self.meta.insert(d, at);
            }
            BufKey::File(ino, lbn) => {
                self.files.entry(ino).or_default().insert(lbn, at);
            }
        }
        self.total_bytes += len;
        self.link(at);
    }

    /// Takes a slot out of everything; its memory goes to the pool, unless somebody else looks at
    /// the buffer: then it is returned.
    fn remove(&mut self, at: usize) -> Option<BufRef> {
        let slot = self.slots.get_mut(at)?;
        let (bytes, dirty) = (slot.bytes, slot.dirty);
        let buf = slot.buf.take()?;
        if dirty {
            self.dirty_bytes -= bytes;
            self.dirty.remove(&buf.key);
        } else {
            self.unlink(at);
        }
        self.total_bytes -= bytes;
        match buf.key {
            BufKey::Meta(d) => {
                self.meta.remove(&d);
            }
            BufKey::File(ino, lbn) => {
                if let Some(blocks) = self.files.get_mut(&ino) {
                    blocks.remove(&lbn);
                    if blocks.is_empty() {
                        self.files.remove(&ino);
                    }
                }
            }
        }
        self.free.push(at);
        match Arc::try_unwrap(buf) {
            Ok(b) => {
                self.pool.give(b.data.into_inner().bytes);
                None
            }
            Err(seen) => Some(seen),
        }
    }

    fn set_dirty(&mut self, buf: &BufRef) {
        let Some(at) = self.find(buf.key) else { return };
        let Some(slot) = self.slots.get(at) else { return };
        // A forgotten buffer may have a successor of the same name: that one did not change.
        if slot.dirty || !slot.buf.as_ref().is_some_and(|b| Arc::ptr_eq(b, buf)) {
            return;
        }
        self.unlink(at);
        if let Some(slot) = self.slots.get_mut(at) {
            slot.dirty = true;
            self.dirty_bytes += slot.bytes;
        }
        self.dirty.insert(buf.key, buf.clone());
    }

    /// The dirty buffer of `key` is clean now.
    pub(super) fn set_clean(&mut self, key: BufKey) {
        let Some(at) = self.find(key) else { return };
        let Some(slot) = self.slots.get_mut(at) else { return };
        if slot.dirty {
            slot.dirty = false;
            self.dirty_bytes -= slot.bytes;
            self.dirty.remove(&key);
            self.link(at);
        }
    }

    /// Moves a clean slot to the recently used end.
    fn touch(&mut self, at: usize) {
        if self.slots.get(at).is_some_and(|s| !s.dirty) && self.newest != at {
            self.unlink(at);
            self.link(at);
        }
    }

    /// Moves the buffer of `key`, if it is clean, to the end that is evicted first.
    pub(super) fn age(&mut self, key: BufKey) {
        let Some(at) = self.find(key) else { return };
        if self.slots.get(at).is_none_or(|s| s.dirty) || self.oldest == at {
            return;
        }
        self.unlink(at);
        let first = self.oldest;
        if let Some(s) = self.slots.get_mut(at) {
            (s.older, s.newer) = (NIL, first);
        }
        match self.slots.get_mut(first) {
            Some(f) => f.older = at,
            None => self.newest = at,
        }
        self.oldest = at;
    }

    fn link(&mut self, at: usize) {
        let last = self.newest;
        if let Some(s) = self.slots.get_mut(at) {
            s.older = last;
            s.newer = NIL;
        }
        match self.slots.get_mut(last) {
            Some(l) => l.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }

    fn unlink(&mut self, at: usize) {
        let Some(s) = self.slots.get(at) else { return };
        let (older, newer) = (s.older, s.newer);
        match self.slots.get_mut(older) {
            Some(o) => o.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer) {
            Some(n) => n.older = older,
            None => self.newest = older,
        }
    }
}
