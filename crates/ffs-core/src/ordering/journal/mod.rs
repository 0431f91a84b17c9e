//! Soft updates with a journal (SU+J): the records that let a recovery find what a crash left
//! marked in use, without a check of everything.
//!
//! [`Journaled`] is soft updates with one more rule: before a block of metadata is written, every
//! record of the changes so far is durable. Soft updates alone decide what a block may show, so a
//! journal that is lost or damaged costs a full check and nothing else.
//!
//! | file | concept | `ffs_softdep.c` |
//! | --- | --- | --- |
//! | `notes` | from events to records | `newjaddref`, `newjremref`, `newjnewblk`, ... |
//! | `ring` | segments in the journal's file | `jblocks`, `jseg` |
//!
//! # Invariants
//! 1. A record is made before the buffer shows its change ([`Ordering::notify`]), and is durable
//!    before a block of metadata is written ([`WriteHooks::commit_records`]).
//! 2. Segments are declared unnecessary only when everything is durable and no operation is in
//!    progress ([`Ordering::checkpoint`]).
//! 3. If the ring is full all the same, an end mark makes the journal unusable before any block is
//!    written without its record.
//!
//! # Locking
//! The ring is locked during I/O; buffers' write locks come before it. The notes are locked
//! briefly, after it.
//!
//! Reference: `docs/spec/soft-updates.md` §13, §13.1.

mod notes;
mod ring;
#[cfg(test)]
mod tests;

use super::rules::{Rule, holds};
use super::{
    DirPos, Event, JournalSpace, JournalStats, OlderNames, Ordering, Pending, Readiness,
    ReservedMask, Response, SoftUpdates, SyncPoint, SyncTarget, WorkItem,
};
use crate::buf::{BufKey, BufKind, WriteHooks, WriteResult, WriteStart};
use crate::error::Result;
use crate::sync::Mutex;
use ffs_device::{BlockDevice, Durability};
use ffs_ondisk::journal::Record;
use ffs_ondisk::{CgNo, DirOff, Geometry, Ino};
use notes::Notes;
pub(crate) use ring::JournalFile;
use ring::Ring;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use tracing::{debug, warn};

/// The target of this module's events in the log.
const LOG: &str = "ffs::journal";

/// Records that freeing an inode without a name takes, at a guess.
const RECORDS_PER_FREE: usize = 2;

/// The ordering mode: soft updates, and the journal if it is kept.
pub(crate) struct Journaled {
    inner: SoftUpdates,
    dev: Arc<dyn BlockDevice>,
    ring: Mutex<Option<Ring>>,
    notes: Mutex<Notes>,
    /// Records are made.
    kept: AtomicBool,
    counts: Counts,
}

/// Answers that are read without a lock, and counters.
#[derive(Debug, Default)]
struct Counts {
    /// Sectors of the ring.
    capacity: AtomicU64,
    /// Records in a sector.
    per_sector: AtomicU64,
    /// Records in memory, and those that pending frees will need.
    pending: AtomicU64,
    /// Sectors of segments.
    on_device: AtomicU64,
    records: AtomicU64,
    segments: AtomicU64,
    bytes: AtomicU64,
    flushes: AtomicU64,
    checkpoints: AtomicU64,
    overflows: AtomicU64,
}

impl Journaled {
    /// For a volume without pending changes; `secret` keys the hashes of names. No journal is kept
    /// before [`Ordering::start_journal`].
    pub(crate) fn new(g: Geometry, secret: u64, dev: Arc<dyn BlockDevice>) -> Journaled {
        Journaled {
            inner: SoftUpdates::new(g, secret),
            dev,
            ring: Mutex::new(None),
            notes: Mutex::new(Notes::new(g)),
            kept: AtomicBool::new(false),
            counts: Counts::default(),
        }
    }

    /// Publishes how full the ring is with `notes`.
    fn publish_used(&self, notes: &Notes) {
        let records = notes.len() + notes.unnamed().saturating_mul(RECORDS_PER_FREE);
        self.counts.pending.store(records as u64, Relaxed);
    }

    /// Makes `records` durable. If they do not fit, the journal is given up.
    fn append(&self, kept: &mut Option<Ring>, records: Vec<Record>) -> Result<()> {
        let Some(ring) = kept.as_mut() else { return Ok(()) };
        self.counts.records.fetch_add(records.len() as u64, Relaxed);
        ring.add(records);
        loop {
            ring.place();
            let stuck = ring.to_write().is_empty() && ring.has_waiting();
            // A durable segment may make space: it declares older ones unnecessary.
            self.write(ring)?;
            if stuck {
                return self.give_up(kept);
            }
            if !ring.has_waiting() {
                return Ok(());
            }
        }
    }

    /// Writes the segments of `ring` that are not on the device, and waits until they are durable.
    fn write(&self, ring: &mut Ring) -> Result<()> {
        if ring.to_write().is_empty() {
            return Ok(());
        }
        let mut bytes = 0;
        for placed in ring.to_write() {
            self.dev.write_at(placed.at, &placed.bytes)?;
            bytes += placed.bytes.len() as u64;
        }
        if holds(Rule::RecordBeforeMetadata) {
            self.flush()?;
        }
        let before = self.counts.segments.swap(ring.segments(), Relaxed);
        self.counts.bytes.fetch_add(bytes, Relaxed);
        debug!(target: LOG, segments = ring.segments() - before, bytes, "journal written");
        ring.written();
        self.counts.on_device.store(ring.needed() as u64, Relaxed);
        Ok(())
    }

    /// Makes everything written so far durable, blocks included.
    fn flush(&self) -> Result<()> {
        if self.dev.durability() == Durability::OnFlush {
            self.counts.flushes.fetch_add(1, Relaxed);
            let began = self.inner.flush_started();
            self.dev.flush()?;
            self.inner.flush_completed(began);
        }
        Ok(())
    }

    /// Makes the journal unusable and stops keeping it.
    fn give_up(&self, ring: &mut Option<Ring>) -> Result<()> {
        let Some(full) = ring.as_ref() else { return Ok(()) };
        warn!(target: LOG, "the journal is full: after a crash the volume needs a full check");
        let mark = full.end_mark();
        if holds(Rule::MarkBeforeOverflow) {
            self.dev.write_at(mark.at, &mark.bytes)?;
        }
        self.flush()?;
        self.counts.overflows.fetch_add(1, Relaxed);
        *ring = None;
        self.stop();
        Ok(())
    }

    fn stop(&self) {
        self.kept.store(false, Release);
        self.counts.capacity.store(0, Relaxed);
    }
}

impl Counts {
    /// Sectors that segments and pending records need.
    fn used(&self) -> u64 {
        let per_sector = self.per_sector.load(Relaxed).max(1);
        self.on_device.load(Relaxed) + self.pending.load(Relaxed).div_ceil(per_sector)
    }
}

impl WriteHooks for Journaled {
    fn start_write(&self, key: BufKey, kind: BufKind, copy: Option<&mut [u8]>) -> WriteStart {
        if let (BufKind::CylinderGroup, BufKey::Meta(at)) = (kind, key)
            && self.kept.load(Acquire)
        {
            let mut notes = self.notes.lock();
            let c = notes.geometry().dtog(at);
            notes.note_group(c);
        }
        self.inner.start_write(key, kind, copy)
    }
    fn write_completed(&self, key: BufKey, result: WriteResult) -> bool {
        self.inner.write_completed(key, result)
    }
    fn flush_started(&self) -> u64 {
        self.inner.flush_started()
    }
    fn flush_completed(&self, started: u64) {
        self.inner.flush_completed(started);
    }
    fn has_records(&self) -> bool {
        self.kept.load(Acquire)
    }
    fn data_needs_records(&self, run: Range<u64>) -> bool {
        self.kept.load(Acquire) && self.notes.lock().was_indirect(run)
    }
    fn commit_records(&self) -> Result<()> {
        if !self.kept.load(Acquire) {
            return Ok(());
        }
        // Another thread may be writing records of this image: the lock waits for it.
        let mut guard = self.ring.lock();
        let Some(ring) = guard.as_mut() else { return Ok(()) };
        if !holds(Rule::DurableBeforeCheckpoint) {
            ring.retire();
        }
        let records = self.notes.lock().take();
        let written = self.append(&mut guard, records);
        drop(guard);
        self.publish_used(&self.notes.lock());
        written
    }
}

impl Ordering for Journaled {
    fn name(&self) -> &'static str {
        if self.kept.load(Relaxed) { "suj" } else { self.inner.name() }
    }
    fn notify(&self, event: Event<'_>) -> Response {
        if self.kept.load(Relaxed) && notes::matters(&event) {
            let older = match &event {
                Event::EntryMoved { from, .. } => self.inner.older_values(*from),
                _ => Vec::new(),
            };
            let mut notes = self.notes.lock();
            notes.note(&event);
            notes.note_older(&event, &older);
            self.publish_used(&notes);
        }
        self.inner.notify(event)
    }
    fn wants_journal(&self) -> bool {
        true
    }
    fn keeps_journal(&self) -> bool {
        self.kept.load(Relaxed)
    }
    fn start_journal(&self, file: JournalFile) -> bool {
        let ring = Ring::new(file);
        let kept = ring.is_some();
        let capacity = ring.as_ref().map_or(0, Ring::capacity) as u64;
        let mut notes = self.notes.lock();
        let g = *notes.geometry();
        *notes = Notes::new(g);
        drop(notes);
        let per_sector = ring.as_ref().map_or(1, Ring::per_sector) as u64;
        self.counts.per_sector.store(per_sector, Relaxed);
        self.counts.capacity.store(capacity, Relaxed);
        self.counts.pending.store(0, Relaxed);
        self.counts.on_device.store(0, Relaxed);
        *self.ring.lock() = ring;
        self.kept.store(kept, Release);
        kept
    }
    fn stop_journal(&self) {
        *self.ring.lock() = None;
        self.stop();
    }
    fn name_groups(&self, groups: &[CgNo]) -> Result<()> {
        if !self.kept.load(Acquire) {
            return Ok(());
        }
        let mut notes = self.notes.lock();
        groups.iter().for_each(|&c| notes.note_group(c));
        drop(notes);
        self.commit_records()
    }
    fn checkpoint(&self) -> Result<()> {
        let mut guard = self.ring.lock();
        let Some(ring) = guard.as_mut() else { return Ok(()) };
        self.counts.checkpoints.fetch_add(1, Relaxed);
        ring.retire();
        self.counts.on_device.store(0, Relaxed);
        let mut notes = self.notes.lock();
        notes.checkpoint();
        let records = notes.take();
        drop(notes);
        let written = self.append(&mut guard, records);
        drop(guard);
        self.publish_used(&self.notes.lock());
        written
    }
    fn journal_space(&self) -> JournalSpace {
        let capacity = self.counts.capacity.load(Relaxed);
        let used = self.counts.used();
        if used > capacity - capacity / 10 {
            JournalSpace::Full
        } else if used > capacity - capacity / 3 {
            JournalSpace::Low
        } else {
            JournalSpace::Enough
        }
    }
    fn journal_stats(&self) -> JournalStats {
        let read = |counter: &AtomicU64| counter.load(Relaxed);
        let c = &self.counts;
        JournalStats {
            kept: self.keeps_journal(),
            sectors: read(&c.capacity),
            used: c.used().min(read(&c.capacity)),
            records: read(&c.records),
            segments: read(&c.segments),
            bytes: read(&c.bytes),
            flushes: read(&c.flushes),
            checkpoints: read(&c.checkpoints),
            overflows: read(&c.overflows),
        }
    }
    fn nlink_delta(&self, ino: Ino) -> u16 {
        self.inner.nlink_delta(ino)
    }
    fn nlink_deltas(&self) -> Vec<(Ino, u16)> {
        self.inner.nlink_deltas()
    }
    fn has_reserved(&self, dir: Ino) -> bool {
        self.inner.has_reserved(dir)
    }
    fn reserved_in(&self, dir: Ino, base: DirOff) -> ReservedMask {
        self.inner.reserved_in(dir, base)
    }
    fn reserved_for(&self, dir: Ino, name: &[u8]) -> Option<DirOff> {
        self.inner.reserved_for(dir, name)
    }
    fn take_freed_entries(&self, dir: Ino) -> Vec<DirOff> {
        self.inner.take_freed_entries(dir)
    }
    fn take_work(&self, max: usize) -> Vec<WorkItem> {
        self.inner.take_work(max)
    }
    fn readiness(&self, key: BufKey, kind: BufKind) -> Readiness {
        self.inner.readiness(key, kind)
    }
    fn held_by(&self, key: BufKey) -> Vec<BufKey> {
        self.inner.held_by(key)
    }
    fn blocks_to_write(&self, target: SyncTarget) -> Vec<BufKey> {
        self.inner.blocks_to_write(target)
    }
    fn is_durable(&self, target: SyncTarget) -> bool {
        self.inner.is_durable(target)
    }
    fn is_exchanged(&self, ino: Ino) -> bool {
        self.inner.is_exchanged(ino)
    }
    fn is_entry_durable(&self, at: DirPos) -> bool {
        self.inner.is_entry_durable(at)
    }
    fn begin_sync_point(&self, which: OlderNames) -> Option<SyncPoint> {
        self.inner.begin_sync_point(which)
    }
    fn end_sync_point(&self, point: SyncPoint) {
        self.inner.end_sync_point(point);
    }
    fn pending(&self) -> Pending {
        self.inner.pending()
    }
    fn deps(&self) -> u64 {
        self.inner.deps()
    }
    fn memory(&self) -> u64 {
        self.inner.memory() + self.notes.lock().memory()
    }
}
