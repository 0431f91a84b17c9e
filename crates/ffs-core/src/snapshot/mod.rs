//! Snapshots of a mounted volume: copy-on-write, blocks that are freed, and removal.
//!
//! A snapshot is a file with one pointer for each block of the volume (`spec/snapshots.md` §3).
//! While the pointer is 0, the live block still has the old content. This module copies that
//! content before anyone overwrites the block, and takes blocks over that are freed.
//!
//! | module | contents | FreeBSD (`ffs_snapshot.c`) |
//! | --- | --- | --- |
//! | [`map`] | the pointers of one snapshot | `ffs_balloc` of a snapshot |
//! | [`copy`] | copy-on-write | `ffs_copyonwrite` |
//! | [`places`] | blocks for copies, marked used on the device | `ffs_balloc` with `BA_CLRBUF` |
//! | [`free`] | blocks that are freed | `ffs_snapblkfree` |
//! | [`remove`] | a snapshot is removed | `ffs_snapremove` |
//! | [`make`] | the blocks of a new snapshot | `ffs_snapshot` |
//!
//! # Invariants
//! 1. A copy, and the pointer to it, are durable before the block is overwritten, except with the
//!    ordering mode `async`.
//! 2. A block is used for a copy only if no snapshot reads it in place, and only after its bit in
//!    the cylinder group is durable.
//! 3. The blocks of cylinder groups, superblock and summary area were copied when the snapshot was
//!    made: their writes need no copy, so copy-on-write may allocate.
//! 4. A snapshot's pointers are read and written past the buffer cache, under the lock of this
//!    module.
//!
//! # Locking
//! The lock of [`Snapshots`] comes after the locks of inodes and the `io` locks of buffers other
//! than those of cylinder groups; buffers of cylinder groups come after it. It is held during I/O,
//! as FreeBSD's `si_snapdata` lock is.
//!
//! Reference: `spec/snapshots.md`.

mod copy;
mod free;
mod make;
mod map;
mod places;
mod remove;

pub(crate) use make::{Draft, Excluded};
pub(crate) use map::PointerMap;

use crate::alloc::Alloc;
use crate::buf::BufCache;
use crate::error::Result;
use crate::ordering::rules::{Rule, holds};
use crate::sync::{Mutex, MutexGuard};
use ffs_device::BlockDevice;
use ffs_ondisk::snapshot::{Content, classify, image_blocks, is_mark};
use ffs_ondisk::{Dinode, FragNo, Geometry, Ino, Lbn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The target of this module's log events.
const LOG: &str = "ffs::snapshot";

/// Pointers that are read with the lock held.
const STEP: u64 = 4096;

/// Most active snapshots of a volume.
pub(crate) const FSMAXSNAP: usize = 20;

/// Whether a copy is durable before the block is overwritten.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CopyOrder {
    /// Yes: every ordering mode but `async`.
    BeforeOverwrite,
    /// No.
    None,
}

/// The active snapshots of a mount.
pub(crate) struct Snapshots {
    cache: Arc<BufCache>,
    alloc: Arc<Alloc>,
    order: CopyOrder,
    /// Whether there is an active snapshot; read without the lock.
    active: AtomicBool,
    state: Mutex<State>,
}

/// The state that the lock guards.
#[derive(Debug, Default)]
struct State {
    /// Oldest first.
    list: Vec<Snapshot>,
    /// Blocks for copies: allocated, and marked used on the device.
    spare: Vec<FragNo>,
    /// Blocks that snapshots acquired since [`Snapshots::begin_log`]. `None` also if a snapshot was
    /// removed since.
    log: Option<Vec<FragNo>>,
    /// Pointers were changed and are not durable: a block must not be overwritten before they are.
    unfinished: bool,
}

/// One active snapshot.
#[derive(Debug)]
struct Snapshot {
    map: PointerMap,
    /// Sectors by which its blocks grew (or shrank) since its inode was updated.
    growth: i64,
    /// Whether the superblock lists it.
    listed: bool,
    /// Whether it may still be read.
    live: bool,
    /// The blocks that it acquired since copy-on-write began, until it is complete.
    acquired: Option<Vec<FragNo>>,
}

impl State {
    /// Notes that the snapshot at `index` of the list acquired a block.
    fn log_block(&mut self, index: usize, at: FragNo) {
        if let Some(acquired) = self.list.get_mut(index).and_then(|s| s.acquired.as_mut()) {
            acquired.push(at);
        }
        if let Some(log) = &mut self.log {
            log.push(at);
        }
    }
}

impl Snapshot {
    /// Whether the snapshot reads block `lbn` in place.
    fn needs(&mut self, dev: &dyn BlockDevice, lbn: Lbn) -> Result<bool> {
        Ok(self.live && self.map.is_uncopied(dev, lbn)?)
    }
}

impl Snapshots {
    /// No snapshot is active.
    pub(crate) fn new(cache: Arc<BufCache>, alloc: Arc<Alloc>, order: CopyOrder) -> Snapshots {
        Snapshots {
            cache,
            alloc,
            order,
            active: AtomicBool::new(false),
            state: Mutex::new(State::default()),
        }
    }

    fn g(&self) -> &Geometry {
        &self.cache.g
    }

    fn dev(&self) -> &dyn BlockDevice {
        &*self.cache.dev
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Whether a snapshot is active.
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }

    /// Begins copy-on-write for the snapshot of `map`, the newest. `listed`: the superblock lists
    /// it.
    pub(crate) fn activate(&self, map: PointerMap, listed: bool) {
        let mut st = self.lock();
        let acquired = (!listed).then(Vec::new);
        st.list.push(Snapshot { map, growth: 0, listed, live: true, acquired });
        self.active.store(true, Ordering::Release);
    }

    /// Ends copy-on-write for snapshot `ino`. Returns its pointers, if it was active.
    pub(crate) fn deactivate(&self, ino: Ino) -> Option<PointerMap> {
        let mut st = self.lock();
        let at = st.list.iter().position(|s| s.map.ino() == ino)?;
        let removed = st.list.remove(at);
        st.log = None;
        self.active.store(!st.list.is_empty(), Ordering::Release);
        Some(removed.map)
    }

    /// Ends copy-on-write for snapshot `ino`, which could not be completed. Returns the blocks that
    /// it acquired.
    pub(crate) fn abandon(&self, ino: Ino) -> Vec<FragNo> {
        let acquired = {
            let mut st = self.lock();
            let found = st.list.iter_mut().find(|s| s.map.ino() == ino);
            found.and_then(|s| s.acquired.take()).unwrap_or_default()
        };
        self.deactivate(ino);
        acquired
    }

    /// Whether snapshot `ino` shows what it should.
    pub(crate) fn is_live(&self, ino: Ino) -> bool {
        self.lock().list.iter().any(|s| s.map.ino() == ino && s.live)
    }

    /// The snapshots that the superblock has to list, oldest first.
    pub(crate) fn listed(&self) -> Vec<Ino> {
        let st = self.lock();
        st.list.iter().filter(|s| s.listed).map(|s| s.map.ino()).collect()
    }

    /// All active snapshots, oldest first.
    pub(crate) fn all(&self) -> Vec<Ino> {
        self.lock().list.iter().map(|s| s.map.ino()).collect()
    }

    /// Sets whether the superblock has to list snapshot `ino`. Returns whether this is a change.
    pub(crate) fn set_listed(&self, ino: Ino, listed: bool) -> bool {
        let mut st = self.lock();
        let found = st.list.iter_mut().find(|s| s.map.ino() == ino && s.listed != listed);
        let set = |s: &mut Snapshot| {
            s.listed = listed;
            // It is complete.
            s.acquired = s.acquired.take().filter(|_| !listed);
        };
        found.map(set).is_some()
    }

    /// Ends copies for snapshot `ino`, which has no name and no user any more. So it can be removed
    /// from a full volume.
    pub(crate) fn stop_copies(&self, ino: Ino) {
        let mut st = self.lock();
        for s in st.list.iter_mut().filter(|s| s.map.ino() == ino) {
            s.live = false;
        }
    }

    /// Whether snapshot `ino` is active.
    pub(crate) fn has(&self, ino: Ino) -> bool {
        self.is_active() && self.lock().list.iter().any(|s| s.map.ino() == ino)
    }

    /// For each snapshot whose number of blocks changed: its number, and the change in sectors. The
    /// caller adds it to the inode.
    pub(crate) fn take_growth(&self) -> Vec<(Ino, i64)> {
        if !self.is_active() {
            return Vec::new();
        }
        let mut st = self.lock();
        let changed = st.list.iter_mut().filter(|s| s.growth != 0);
        changed.map(|s| (s.map.ino(), std::mem::take(&mut s.growth))).collect()
    }

    /// Gives growth back that could not be stored.
    pub(crate) fn add_growth(&self, ino: Ino, sectors: i64) {
        let mut st = self.lock();
        for s in st.list.iter_mut().filter(|s| s.map.ino() == ino) {
            s.growth += sectors;
        }
    }

    /// Sets the growth of snapshot `ino`, whose inode has `stored` sectors for its blocks, to what
    /// its pointers yield.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn recount(&self, ino: Ino, stored: u64) -> Result<()> {
        let mut st = self.lock();
        let Some(s) = st.list.iter_mut().find(|s| s.map.ino() == ino) else { return Ok(()) };
        let own = s.map.count_sectors(self.dev())?;
        s.growth = own.cast_signed().saturating_sub(stored.cast_signed());
        Ok(())
    }

    /// Writes changed pointers, without making them durable.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn write(&self) -> Result<()> {
        if !self.is_active() {
            return Ok(());
        }
        self.write_pointers(&mut self.lock())
    }

    fn write_pointers(&self, st: &mut State) -> Result<()> {
        st.list.iter_mut().try_for_each(|s| self.write_map(&mut s.map))
    }

    /// Writes changed pointers of one snapshot, after the blocks that it took over are used on the
    /// device.
    fn write_map(&self, map: &mut PointerMap) -> Result<()> {
        if !map.unmarked().is_empty() && holds(Rule::MarkBeforeTakeOver) {
            self.mark_used(map.unmarked())?;
        }
        map.write(self.dev())
    }

    /// Reads block `lbn` of snapshot `ino` into `out`, a block long. `None`: the snapshot is not
    /// active.
    pub(crate) fn read_block(&self, ino: Ino, lbn: Lbn, out: &mut [u8]) -> Option<Result<()>> {
        if !self.is_active() {
            return None;
        }
        // Held during the read: an uncopied block must not be overwritten meanwhile.
        let mut st = self.lock();
        let s = st.list.iter_mut().find(|s| s.map.ino() == ino && s.live)?;
        Some(self.read_content(&mut s.map, lbn, out))
    }

    fn read_content(&self, map: &mut PointerMap, lbn: Lbn, out: &mut [u8]) -> Result<()> {
        let raw = map.pointer(self.dev(), lbn)?;
        out.fill(0);
        let at = if lbn.0 < image_blocks(self.g()) {
            match classify(self.g(), map.ino(), lbn, raw)? {
                Content::Zeros => return Ok(()),
                Content::Volume(at) | Content::Copy(at) | Content::TakenOver(at) => at,
            }
        } else {
            let (s, p) = (ffs_ondisk::Structure::Snapshot, ffs_ondisk::Place::Inode(map.ino()));
            let at = self.g().check_run(raw, self.g().frag, s, p)?;
            let Some(at) = at else { return Ok(()) };
            at
        };
        self.read_volume(at, out)
    }

    /// Reads blocks of the volume from `at` on. What is behind the volume's end stays as it is.
    fn read_volume(&self, at: FragNo, out: &mut [u8]) -> Result<()> {
        let g = self.g();
        let there = g.size.saturating_sub(at.0).saturating_mul(g.fsize.into());
        let there = usize::try_from(there).unwrap_or(usize::MAX).min(out.len());
        if let Some(out) = out.get_mut(..there) {
            self.dev().read_at(g.frag_to_byte(at), out)?;
        }
        Ok(())
    }

    /// Makes all writes durable, if copies have an order.
    fn flush(&self) -> Result<()> {
        match self.order {
            CopyOrder::BeforeOverwrite => self.cache.flush_device(),
            CopyOrder::None => Ok(()),
        }
    }

    /// As [`Snapshots::flush`], which `rule` demands.
    fn flush_if(&self, rule: Rule) -> Result<()> {
        if holds(rule) { self.flush() } else { Ok(()) }
    }

    /// The blocks of all active snapshots. Those that they acquire from now on are logged, until
    /// [`Snapshots::take_log`].
    fn begin_log(&self) -> Result<Vec<FragNo>> {
        let mut blocks = Vec::new();
        let all: Vec<Ino> = {
            let mut st = self.lock();
            st.log = Some(Vec::new());
            st.list.iter().map(|s| s.map.ino()).collect()
        };
        for ino in all {
            let mut lbn = 0;
            loop {
                // In steps: writers need the lock.
                let mut st = self.lock();
                // If it was removed, there is no log, and the scan begins again.
                let Some(s) = st.list.iter_mut().find(|s| s.map.ino() == ino) else { break };
                if lbn == 0 {
                    blocks.extend(s.map.indirect_blocks());
                }
                let end = s.map.blocks().min(lbn + STEP);
                for l in lbn..end {
                    let raw = s.map.pointer(self.dev(), Lbn(l))?;
                    if raw > 0 && !is_mark(self.g(), raw) {
                        blocks.push(FragNo(raw.unsigned_abs()));
                    }
                }
                if end == s.map.blocks() {
                    break;
                }
                lbn = end;
            }
        }
        Ok(blocks)
    }

    /// Ends the log. Returns the blocks that snapshots acquired meanwhile; `None` if one was
    /// removed.
    fn take_log(&self) -> Option<Vec<FragNo>> {
        self.lock().log.take()
    }

    /// Sectors of a block.
    fn block_sectors(&self) -> i64 {
        i64::try_from(Dinode::sectors(self.g(), self.g().frag)).unwrap_or(0)
    }
}
