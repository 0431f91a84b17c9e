//! Queries of the dirty list.

use super::BufCache;
use crate::buf::{BufKey, BufKind, BufRef, Delays};
use ffs_ondisk::Ino;
use std::ops::RangeInclusive;

impl BufCache {
    /// Sets the time by which buffers age, seconds since 1970. Called about once a second.
    pub(crate) fn set_time(&self, now: i64) {
        self.state.write().dirty.set_time(now);
    }

    /// How many buffers are dirty.
    pub(crate) fn dirty_count(&self) -> usize {
        self.dirty_count.bufs()
    }

    /// All dirty buffers.
    pub(crate) fn dirty_bufs(&self) -> Vec<BufRef> {
        self.state.read().dirty.all()
    }

    /// The third of the dirty buffers that has waited longest. If three quarters of the limit are
    /// dirty, the others are half of the limit, FreeBSD's `lodirtybuffers`.
    pub(crate) fn oldest_dirty(&self) -> Vec<BufRef> {
        let mut all = self.state.read().dirty.with_age();
        // The sort is stable: buffers of one second stay in the order of their keys.
        all.sort_by_key(|(since, _)| *since);
        all.truncate(all.len().div_ceil(3));
        all.into_iter().map(|(_, buf)| buf).collect()
    }

    /// The dirty buffers that have waited as long as `delays` allows.
    pub(crate) fn due(&self, delays: Delays) -> Vec<BufRef> {
        self.state.read().dirty.due(delays)
    }

    /// The dirty buffer of `key`.
    pub(crate) fn dirty_buf(&self, key: BufKey) -> Option<BufRef> {
        self.state.read().dirty.get(key)
    }

    /// The dirty buffers of a file: data, indirect blocks, extended attributes.
    pub(crate) fn dirty_of(&self, ino: Ino) -> Vec<BufRef> {
        self.dirty_in_range(BufKey::File(ino, i64::MIN)..=BufKey::File(ino, i64::MAX))
    }

    /// The dirty buffers with content of a file.
    pub(crate) fn dirty_content(&self, ino: Ino) -> Vec<BufRef> {
        let all = self.dirty_in_range(BufKey::File(ino, 0)..=BufKey::File(ino, i64::MAX));
        all.into_iter().filter(|buf| buf.kind == BufKind::Data).collect()
    }

    /// The dirty buffers whose keys are in `keys`.
    pub(in crate::buf) fn dirty_in_range(&self, keys: RangeInclusive<BufKey>) -> Vec<BufRef> {
        self.state.read().dirty.in_range(keys)
    }

    /// Whether the device lacks the newest content of a block whose key is in `keys`.
    pub(crate) fn has_dirty(&self, keys: RangeInclusive<BufKey>) -> bool {
        self.state.read().dirty.has_any(keys)
    }

    /// Marks `bufs` dirty as if they had changed, so that they are written again even if a write of
    /// them is in flight or has ended since the caller found them dirty.
    pub(crate) fn redirty(&self, bufs: &[BufRef]) {
        for buf in bufs {
            drop(buf.write());
            self.mark_dirty(buf);
        }
    }

    /// Whether so much is dirty that operations have to write.
    pub(crate) fn is_too_dirty(&self) -> bool {
        self.dirty_count.is_severe()
    }

    /// Whether three quarters of the limit of dirty buffers are reached, in bytes or in blocks.
    pub(crate) fn buf_daemon_due(&self) -> bool {
        self.dirty_count.daemon_due()
    }
}
