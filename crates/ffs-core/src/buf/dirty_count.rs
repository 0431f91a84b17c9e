//! How much is dirty (`numdirtybuffers`), and how much may be (`hidirtybuffers`). Every operation
//! asks, without a lock.

use super::limits::CacheLimits;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The sums of the dirty list and their limits.
#[derive(Debug, Default)]
pub(super) struct DirtyCount {
    bytes: AtomicUsize,
    bufs: AtomicUsize,
    limit_bytes: AtomicUsize,
    limit_bufs: AtomicUsize,
}

impl DirtyCount {
    pub(super) fn set(&self, bytes: usize, bufs: usize) {
        self.bytes.store(bytes, Ordering::Relaxed);
        self.bufs.store(bufs, Ordering::Relaxed);
    }

    pub(super) fn set_limits(&self, limits: &CacheLimits) {
        self.limit_bytes.store(limits.dirty, Ordering::Relaxed);
        self.limit_bufs.store(limits.dirty_blocks, Ordering::Relaxed);
    }

    /// Dirty buffers.
    pub(super) fn bufs(&self) -> usize {
        self.bufs.load(Ordering::Relaxed)
    }

    /// Whether so much is dirty that operations have to write (`buf_dirty_count_severe`).
    pub(super) fn is_severe(&self) -> bool {
        self.exceeds(|limit| limit)
    }

    /// Whether three quarters of a limit are reached, so that the buffer daemon is due.
    pub(super) fn daemon_due(&self) -> bool {
        self.exceeds(|limit| limit - limit / 4)
    }

    fn exceeds(&self, part: impl Fn(usize) -> usize) -> bool {
        let limit = |limit: &AtomicUsize| part(limit.load(Ordering::Relaxed));
        self.bytes.load(Ordering::Relaxed) > limit(&self.limit_bytes)
            || self.bufs() > limit(&self.limit_bufs)
    }
}
