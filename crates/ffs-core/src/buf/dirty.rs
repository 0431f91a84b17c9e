//! The dirty list: the buffers that wait to be written, and their age.
//!
//! # Invariants
//! 1. The age of a buffer counts from its first change after it was clean, in seconds of the time
//!    that [`DirtyList::set_time`] set. A write that leaves changes starts the age anew: those
//!    changes came during the write, or wait for other blocks, and writing the block every second
//!    would not help.
//!
//! Reference: `spec/soft-updates.md` §7.1, §10.3.

use super::{Buf, BufKey, BufKind, BufRef};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Seconds for which changes may wait, by kind of block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delays {
    /// File content (`filedelay`): longest, as content removed meanwhile is never written.
    pub(crate) file: i64,
    /// Directories (`dirdelay`): after the inodes that they name.
    pub(crate) dir: i64,
    /// All other metadata (`metadelay`).
    pub(crate) meta: i64,
    /// Changes that were rolled back in the last write image of a block.
    pub(crate) rolled_back: i64,
}

impl Delays {
    fn of(&self, dirty: &DirtyBuf) -> i64 {
        let delay = match dirty.buf.kind {
            BufKind::Data => self.file,
            BufKind::Directory => self.dir,
            BufKind::CylinderGroup | BufKind::Inodes | BufKind::Indirect => self.meta,
        };
        if dirty.partly_written { delay.min(self.rolled_back) } else { delay }
    }

    /// All delays, longer by `seconds`.
    pub(crate) fn later(self, seconds: i64) -> Delays {
        let Delays { file, dir, meta, rolled_back } = self;
        let [file, dir, meta, rolled_back] =
            [file, dir, meta, rolled_back].map(|delay| delay + seconds);
        Delays { file, dir, meta, rolled_back }
    }
}

/// A buffer that waits to be written.
struct DirtyBuf {
    buf: BufRef,
    /// When its age began, seconds since 1970.
    since: i64,
    /// Its last write left changes; then `since` is the time of that write.
    partly_written: bool,
}

/// The dirty buffers, in the order of their keys.
#[derive(Default)]
pub(super) struct DirtyList {
    bufs: BTreeMap<BufKey, DirtyBuf>,
    /// Sum of their lengths.
    bytes: usize,
    /// The time last set, seconds since 1970.
    now: i64,
}

impl DirtyList {
    /// Sets the time, seconds since 1970.
    pub(super) fn set_time(&mut self, now: i64) {
        self.now = now;
    }

    /// How many buffers are dirty.
    pub(super) fn len(&self) -> usize {
        self.bufs.len()
    }

    /// How many bytes they have.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a buffer of `bytes` bytes that is not dirty.
    pub(super) fn insert(&mut self, buf: &BufRef, bytes: u32) {
        let dirty = DirtyBuf { buf: buf.clone(), since: self.now, partly_written: false };
        self.bufs.insert(buf.key, dirty);
        self.bytes += bytes as usize;
    }

    /// Removes the buffer of `key`, which has `bytes` bytes.
    pub(super) fn remove(&mut self, key: BufKey, bytes: u32) {
        self.bufs.remove(&key);
        self.bytes -= bytes as usize;
    }

    /// A dirty buffer changed its length.
    pub(super) fn resize(&mut self, old: u32, new: u32) {
        self.bytes = self.bytes + new as usize - old as usize;
    }

    /// The dirty buffer `buf` was written, but not all its changes.
    pub(super) fn restart_age(&mut self, buf: &Buf) {
        if let Some(dirty) = self.bufs.get_mut(&buf.key).filter(|d| d.is(buf)) {
            (dirty.since, dirty.partly_written) = (self.now, true);
        }
    }

    /// The dirty buffer of `key`.
    pub(super) fn get(&self, key: BufKey) -> Option<BufRef> {
        self.bufs.get(&key).map(|d| d.buf.clone())
    }

    /// Whether a dirty buffer has its key in `keys`.
    pub(super) fn has_any(&self, keys: RangeInclusive<BufKey>) -> bool {
        self.bufs.range(keys).next().is_some()
    }

    /// All dirty buffers.
    pub(super) fn all(&self) -> Vec<BufRef> {
        self.bufs.values().map(|d| d.buf.clone()).collect()
    }

    /// The dirty buffers whose keys are in `keys`.
    pub(super) fn in_range(&self, keys: RangeInclusive<BufKey>) -> Vec<BufRef> {
        self.bufs.range(keys).map(|(_, d)| d.buf.clone()).collect()
    }

    /// All dirty buffers with the second in which their age began.
    pub(super) fn with_age(&self) -> Vec<(i64, BufRef)> {
        self.bufs.values().map(|d| (d.since, d.buf.clone())).collect()
    }

    /// The buffers that have waited as long as `delays` allows.
    pub(super) fn due(&self, delays: Delays) -> Vec<BufRef> {
        let due = self.bufs.values().filter(|d| self.now - d.since >= delays.of(d));
        due.map(|d| d.buf.clone()).collect()
    }
}

impl DirtyBuf {
    fn is(&self, buf: &Buf) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.buf), buf)
    }
}
