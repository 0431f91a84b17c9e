//! Finding, filling, dirtying and evicting buffers.

use super::limits::CacheLimits;
use super::stats::CacheStats;
use super::tiers::State;
use super::{Buf, BufData, BufKey, BufKind, BufRef, Disposition, WriteHooks};
use crate::counters::{Counters, add, bump};
use crate::error::{Error, Result};
use crate::prefetch;
use crate::sync::{Mutex, RwLock};
use crate::tunables::Tunables;
use ffs_device::BlockDevice;
use ffs_device::clock::Clock;
use ffs_ondisk::{FragNo, Geometry, Ino};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The cache of one mount.
pub(crate) struct BufCache {
    pub(crate) g: Geometry,
    pub(crate) dev: Arc<dyn BlockDevice>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counters: Arc<Counters>,
    pub(super) hooks: Arc<dyn WriteHooks>,
    pub(super) state: Mutex<State>,
    /// See [`BufCache::in_trouble`].
    trouble: AtomicBool,
    /// See [`BufCache::is_damaged`].
    damage: AtomicBool,
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
        BufCache {
            g,
            dev,
            clock,
            counters,
            hooks,
            state: Mutex::new(State::new(limits)),
            trouble: AtomicBool::new(false),
            damage: AtomicBool::new(false),
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
        self.state.lock().count_miss(kind);
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
            self.resized(&buf, old_len, len);
        } else {
            bump(&self.counters.buf_hits);
        }
        buf
    }

    /// The buffer of `key` if it is in memory and filled.
    pub(crate) fn incore(&self, key: BufKey) -> Option<BufRef> {
        let buf = self.state.lock().lookup(key)?;
        let valid = buf.data.read().valid;
        if valid {
            bump(&self.counters.buf_hits);
        }
        valid.then_some(buf)
    }

    /// The `len` bytes at `at` of the block of `key` will be needed: has them fetched if they are in memory.
    pub(crate) fn prefetch(&self, key: BufKey, at: usize, len: usize) {
        let st = self.state.lock();
        if let Some(data) = st.peek(key).and_then(|buf| buf.data.try_read()) {
            prefetch::bytes(data.bytes.get(at..at + len).unwrap_or(&[]));
        }
    }

    /// The block of `key` will be asked for: as [`BufCache::prefetch`], but only the first step of the way to it.
    pub(crate) fn prefetch_place(&self, key: BufKey) {
        self.state.lock().prefetch(key);
    }

    /// Whether the block of `key` is in memory, perhaps not filled yet. Uses nothing.
    pub(crate) fn holds(&self, key: BufKey) -> bool {
        self.state.lock().contains(key)
    }

    fn is_current(&self, buf: &Buf, addr: FragNo, len: usize) -> bool {
        buf.data.read().is_of(addr, len)
    }

    /// Reads the block from the device into `buf` unless another thread has.
    fn fill(&self, buf: &BufRef, addr: FragNo, len: usize) -> Result<()> {
        let mut d = buf.data.write();
        if d.is_of(addr, len) {
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
                self.resized(buf, old, len);
                return Err(e.into());
            }
        }
        drop(d);
        self.resized(buf, old, len);
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
        if let Some(buf) = st.lookup(key) {
            return buf;
        }
        add(&self.counters.buf_evictions, st.make_room(kind, len));
        let bytes = st.pool.take(len, zero);
        let data = BufData { addr, bytes, valid: false, version: 0 };
        let buf = Arc::new(Buf { key, kind, data: RwLock::new(data), io: Mutex::new(()) });
        st.insert(buf.clone(), len);
        buf
    }

    fn resized(&self, buf: &Buf, old: usize, new: usize) {
        if old != new {
            self.state.lock().resized(buf, new);
        }
    }

    /// Other limits, or the other policy for directory blocks, from now on.
    pub(crate) fn retune(&self, t: &Tunables) {
        let mut st = self.state.lock();
        // Read under the lock: of two changes at once, the later sees both.
        let gone = st.retune(CacheLimits::of(t));
        add(&self.counters.buf_evictions, gone);
    }

    /// Lookups and memory by kind of block.
    pub(crate) fn stats(&self) -> CacheStats {
        self.state.lock().stats()
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
    /// Waits for a write of the buffer to the old place: that place may be another's at once. The policy
    /// is told, by `told`, before the next one: a write to the new place would count for the old one.
    pub(crate) fn relocate<T>(
        &self,
        buf: &BufRef,
        addr: FragNo,
        len: usize,
        told: impl FnOnce() -> T,
    ) -> T {
        let (old, answer) = {
            let _io = buf.io.lock();
            let mut d = buf.write();
            let old = d.bytes.len();
            d.addr = addr;
            d.bytes.resize(len, 0);
            d.valid = true;
            (old, told())
        };
        self.resized(buf, old, len);
        answer
    }

    /// Drops the buffer of `key`, changes and all: its block is about to be freed. On return no
    /// write of it is under way or will be; the caller holds no guard of it.
    pub(crate) fn forget(&self, key: BufKey) {
        let seen = self.state.lock().remove_key(key);
        if let Some(buf) = seen {
            buf.kill();
        }
    }

    /// Drops all buffers of a file with logical number in `range`, as [`BufCache::forget`] does:
    /// they are truncated away.
    pub(crate) fn forget_file(&self, ino: Ino, range: std::ops::RangeInclusive<i64>) {
        let seen = self.state.lock().remove_range(ino, range);
        for buf in seen {
            buf.kill();
        }
    }

    /// Whether blocks of a file are in memory.
    pub(crate) fn has_file(&self, ino: Ino) -> bool {
        self.state.lock().has_file(ino)
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
            self.damage.store(true, Ordering::Relaxed);
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

    /// Whether a structure on the device was found damaged.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damage.load(Ordering::Relaxed)
    }

    /// Whether so much waits to be written that who changes things has to wait.
    pub(crate) fn too_dirty(&self) -> bool {
        self.state.lock().too_dirty()
    }

    /// Whether half as much does.
    pub(crate) fn half_dirty(&self) -> bool {
        self.state.lock().half_dirty()
    }

    /// Whether `buf` is in the cache and changed since it was written. Under its `io` lock a no
    /// means that its newest state is on the device.
    pub(crate) fn is_dirty(&self, buf: &Buf) -> bool {
        let st = self.state.lock();
        st.dirty.get(&buf.key).is_some_and(|d| std::ptr::eq(Arc::as_ptr(&d.buf), buf))
    }
}
