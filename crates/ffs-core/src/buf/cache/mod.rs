//! Finding, filling, changing and dropping buffers.

mod dirty_bufs;

use super::dirty_count::DirtyCount;
use super::hooks::{CopyOnWrite, Disposition, WriteHooks};
use super::limits::CacheLimits;
use super::spare::NewContent;
use super::state::CacheState;
use super::stats::CacheStats;
use super::{Buf, BufKey, BufKind, BufRef, DiskBlock, LOG};
use crate::counters::{Counters, add, bump};
use crate::error::{Error, Result};
use crate::prefetch;
use crate::sync::RwLock;
use crate::tunables::Tunables;
use ffs_device::BlockDevice;
use ffs_device::clock::Clock;
use ffs_ondisk::{FragNo, Geometry, Ino};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use tracing::{error, trace};

/// The cache of one mount.
pub(crate) struct BufCache {
    pub(crate) g: Geometry,
    pub(crate) dev: Arc<dyn BlockDevice>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counters: Arc<Counters>,
    pub(super) hooks: Arc<dyn WriteHooks>,
    /// See [`BufCache::set_copy_on_write`].
    pub(super) copy_on_write: OnceLock<Weak<dyn CopyOnWrite>>,
    pub(super) state: RwLock<CacheState>,
    /// The sums in `state` of what is dirty.
    dirty_count: Arc<DirtyCount>,
    /// The device delays writes, so a buffer in use has to wait for them.
    delays_writes: bool,
    /// See [`BufCache::needs_check`].
    needs_check: AtomicBool,
    /// See [`BufCache::is_damaged`].
    damaged: AtomicBool,
}

/// The parts of a new cache.
pub(crate) struct CacheParts {
    pub(crate) g: Geometry,
    pub(crate) dev: Arc<dyn BlockDevice>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) hooks: Arc<dyn WriteHooks>,
    pub(crate) limits: CacheLimits,
}

impl BufCache {
    pub(crate) fn new(parts: CacheParts) -> BufCache {
        let CacheParts { g, dev, clock, counters, hooks, limits } = parts;
        let delays_writes = dev.delays_writes();
        let dirty_count = Arc::default();
        let state = CacheState::new(limits, Arc::clone(&dirty_count));
        BufCache {
            g,
            dev,
            clock,
            counters,
            hooks,
            copy_on_write: OnceLock::new(),
            state: RwLock::new(state),
            dirty_count,
            delays_writes,
            needs_check: AtomicBool::new(false),
            damaged: AtomicBool::new(false),
        }
    }

    /// From now on `hook` is called before blocks are overwritten, while it exists. Blocks of
    /// cylinder groups are excepted: every snapshot has copies of them.
    pub(crate) fn set_copy_on_write(&self, hook: Weak<dyn CopyOnWrite>) {
        // A second hook would be an error of the mount code.
        let set = self.copy_on_write.set(hook);
        debug_assert!(set.is_ok(), "one hook for each cache");
    }

    /// The buffer of `block`, read from the device unless it is in memory.
    ///
    /// # Errors
    /// The device's; the next caller tries again.
    pub(crate) fn bread(&self, block: DiskBlock) -> Result<BufRef> {
        let buf = self.lookup_or_insert(block, NewContent::Arbitrary);
        if buf.read().is_of(block.addr, block.len) {
            bump(&self.counters.buf_hits);
            self.wait_for_writes(&block);
            return Ok(buf);
        }
        let DiskBlock { key, kind, addr, len } = block;
        trace!(target: LOG, %key, ?kind, fragment = addr.0, len, "read");
        bump(&self.counters.buf_misses);
        self.state.write().count_miss(kind);
        self.fill(&buf, addr, len)?;
        Ok(buf)
    }

    /// The buffer of `block` without reading: the caller is about to write the whole block.
    ///
    /// With [`NewContent::Arbitrary`] the caller overwrites all bytes of a new buffer before
    /// another thread can see them (it holds the inode's lock).
    pub(crate) fn getblk(&self, block: DiskBlock, content: NewContent) -> BufRef {
        let buf = self.lookup_or_insert(block, content);
        if buf.read().is_of(block.addr, block.len) {
            bump(&self.counters.buf_hits);
            self.wait_for_writes(&block);
            return buf;
        }
        let old_len = {
            let mut d = buf.data.write();
            let old = d.bytes.len();
            d.bytes.resize(block.len, 0);
            if content == NewContent::Zeroed {
                d.bytes.fill(0);
            }
            d.addr = block.addr;
            d.valid = true;
            d.version += 1;
            old
        };
        self.note_len(&buf, old_len, block.len);
        buf
    }

    /// Waits for writes of the block that the device has not completed. A cylinder group is
    /// excepted, because FreeBSD writes a copy of it.
    fn wait_for_writes(&self, block: &DiskBlock) {
        if self.delays_writes && block.kind != BufKind::CylinderGroup {
            self.dev.wait_for_writes(self.g.frag_to_byte(block.addr), block.len as u64);
        }
    }

    /// The buffer of `key` if it is in memory and filled.
    pub(crate) fn incore(&self, key: BufKey) -> Option<BufRef> {
        let buf = self.lookup(key)?;
        let valid = buf.data.read().valid;
        if valid {
            bump(&self.counters.buf_hits);
        }
        valid.then_some(buf)
    }

    /// Fetches the `len` bytes at `at` of the block of `key`, which are about to be used, into the
    /// processor's cache if the block is in memory.
    pub(crate) fn prefetch(&self, key: BufKey, at: usize, len: usize) {
        let st = self.state.read();
        if let Some(data) = st.peek(key).and_then(|buf| buf.data.try_read()) {
            prefetch::bytes(data.bytes.get(at..at + len).unwrap_or(&[]));
        }
    }

    /// As [`BufCache::prefetch`], but fetches only the first memory that a lookup of `key` reads.
    pub(crate) fn prefetch_lookup(&self, key: BufKey) {
        self.state.read().prefetch(key);
    }

    /// Whether the block of `key` is in memory, perhaps not filled yet. The block does not count as
    /// used.
    pub(crate) fn contains(&self, key: BufKey) -> bool {
        self.state.read().contains(key)
    }

    /// Reads the block from the device into `buf`, unless another thread did meanwhile.
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
        let read = self.dev.read_at(self.g.frag_to_byte(addr), &mut d.bytes);
        d.valid = read.is_ok();
        drop(d);
        if let Err(e) = &read {
            let (key, fragment) = (buf.key, addr.0);
            error!(target: LOG, %key, fragment, len, error = %e, "read failed");
        }
        if read.is_err() && buf.kind != BufKind::Data {
            self.set_needs_check();
        }
        // After an error the buffer stays, without content: another thread may be about to fill and
        // change it.
        self.note_len(buf, old, len);
        Ok(read?)
    }

    fn lookup_or_insert(&self, block: DiskBlock, content: NewContent) -> BufRef {
        if let Some(buf) = self.lookup(block.key) {
            return buf;
        }
        let mut st = self.state.write();
        // Another thread may have been faster.
        if let Some(buf) = st.lookup(block.key) {
            if !buf.has_header() {
                st.give_header(&buf);
            }
            return buf;
        }
        add(&self.counters.buf_evictions, st.make_space(block.kind, block.len));
        let bytes = st.spare.take(block.len, content);
        let buf = Arc::new(Buf::new(block, bytes));
        st.insert(buf.clone(), block.len);
        buf
    }

    /// The buffer of `key` if it is in memory, with a header.
    fn lookup(&self, key: BufKey) -> Option<BufRef> {
        let buf = self.state.read().lookup(key)?;
        // A block in use keeps its header.
        if !buf.has_header() {
            self.state.write().give_header(&buf);
        }
        Some(buf)
    }

    fn note_len(&self, buf: &Buf, old: usize, new: usize) {
        if old != new {
            self.state.write().resize(buf, new);
        }
    }

    /// Applies new limits and the policy for directory blocks.
    pub(crate) fn retune(&self, t: &Tunables) {
        let mut st = self.state.write();
        // Read under the lock: of two changes at once, the later call sees both.
        let evicted = st.set_limits(CacheLimits::of(t));
        add(&self.counters.buf_evictions, evicted);
    }

    /// Lookups and memory by kind of block.
    pub(crate) fn stats(&self) -> CacheStats {
        self.state.read().stats()
    }

    /// Marks `buf` as changed: it will be written at a later time (`bdwrite`).
    pub(crate) fn mark_dirty(&self, buf: &BufRef) {
        // See the invariants of `super::flags`.
        if buf.is_dirty() {
            return;
        }
        // A buffer that was dropped meanwhile belongs to a freed block: nothing is to be written.
        self.state.write().set_dirty(buf);
    }

    /// Marks `buf` as changed and writes it as the ordering mode requires (`bdwrite` or `bwrite`).
    ///
    /// # Errors
    /// The device's, with [`Disposition::WriteAndWait`].
    pub(crate) fn apply(&self, buf: &BufRef, d: Disposition) -> Result<()> {
        self.mark_dirty(buf);
        match d {
            Disposition::Delay => Ok(()),
            Disposition::WriteAndWait => self.bwrite(buf),
        }
    }

    /// Gives a block of a file another address or length (fragment growth, cluster move); the
    /// content stays and grows by zeros. The caller marks the buffer dirty.
    ///
    /// Waits for a write of the buffer to the old address, which may belong to another block at
    /// once. Calls `record`, which reports the move to the ordering mode, before the next write of
    /// the buffer: otherwise a write to the new address would count for the old one. Returns the
    /// result of `record`.
    pub(crate) fn relocate<T>(
        &self,
        buf: &BufRef,
        addr: FragNo,
        len: usize,
        record: impl FnOnce() -> T,
    ) -> T {
        let (old, result) = {
            let _io = buf.io.lock();
            let mut d = buf.write();
            let old = d.bytes.len();
            d.addr = addr;
            d.bytes.resize(len, 0);
            d.valid = true;
            (old, record())
        };
        self.note_len(buf, old, len);
        result
    }

    /// Drops the buffer of `key` with all its changes: its block is about to be freed. On return no
    /// write of it is in flight, and none will begin. The caller holds no guard of it.
    pub(crate) fn invalidate(&self, key: BufKey) {
        let shared = self.state.write().remove_key(key);
        if let Some(buf) = shared {
            buf.invalidate();
        }
    }

    /// Drops all buffers of a file whose logical block numbers are in `range`, as
    /// [`BufCache::invalidate`] does: the file is truncated.
    pub(crate) fn invalidate_range(&self, ino: Ino, range: RangeInclusive<i64>) {
        let shared = self.state.write().remove_range(ino, range);
        for buf in shared {
            buf.invalidate();
        }
    }

    /// Whether blocks of a file are in memory.
    pub(crate) fn has_file(&self, ino: Ino) -> bool {
        self.state.read().has_file(ino)
    }

    /// Records that metadata could not be read, that a write failed, or that a structure on the
    /// device is damaged.
    pub(crate) fn set_needs_check(&self) {
        self.needs_check.store(true, Ordering::Relaxed);
    }

    /// Forgets that a check is needed, because one begins. Returns whether it was.
    pub(crate) fn take_needs_check(&self) -> bool {
        self.needs_check.swap(false, Ordering::Relaxed)
    }

    /// Whether the volume must not be marked clean before a check: metadata could not be read, a
    /// write failed, or a structure is damaged, so an operation may have left a change half done.
    pub(crate) fn needs_check(&self) -> bool {
        self.needs_check.load(Ordering::Relaxed)
    }

    /// Returns `e`, and records the damage if `e` reports a damaged structure. Every module that
    /// finds damage which fsck repairs passes its error through here.
    pub(crate) fn record_damage(&self, e: impl Into<Error>) -> Error {
        let e = e.into();
        if matches!(e, Error::Format(_)) {
            error!(target: LOG, error = %e, "the volume is damaged");
            self.damaged.store(true, Ordering::Relaxed);
            self.set_needs_check();
        }
        e
    }

    /// Whether a structure on the device was found damaged.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }
}
