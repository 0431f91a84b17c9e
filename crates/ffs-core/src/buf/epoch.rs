//! Which buffers wait to be written, how long already, and what became of those that were.
//!
//! # Invariants
//! 1. The age of a buffer counts from its first change after it was clean, in the seconds that
//!    [`BufCache::tell_time`] told. A write that leaves changes starts it anew: they came during the
//!    write, or wait for other blocks, which writing the block every second would not help.
//!
//! Reference: `spec/soft-updates.md` §7.1, §10.3.

use super::tiers::Dirty;
use super::{BufCache, BufKey, BufKind, BufRef};
use crate::error::{Error, Result};
use ffs_ondisk::Ino;
use std::ops::RangeInclusive;

/// Seconds that changes may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delays {
    /// File content: the last chance to be removed first.
    pub(crate) file: i64,
    /// Directories: after the inodes they name.
    pub(crate) dir: i64,
    /// Everything else.
    pub(crate) meta: i64,
    /// What the last image of a block left out.
    pub(crate) rest: i64,
}

impl Delays {
    fn of(&self, dirty: &Dirty) -> i64 {
        let whole = match dirty.buf.kind {
            BufKind::Data => self.file,
            BufKind::Directory => self.dir,
            BufKind::CylinderGroup | BufKind::Inodes | BufKind::Indirect => self.meta,
        };
        if dirty.part { whole.min(self.rest) } else { whole }
    }

    /// All of them longer by `seconds`.
    pub(crate) fn later(self, seconds: i64) -> Delays {
        let Delays { file, dir, meta, rest } = self;
        let [file, dir, meta, rest] = [file, dir, meta, rest].map(|delay| delay + seconds);
        Delays { file, dir, meta, rest }
    }
}

/// What became of a buffer that was to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// There was nothing to write.
    Clean,
    /// Written with all its changes.
    Whole,
    /// Written without some.
    Undone,
    /// Not written: the ordering policy held it.
    Held,
}

/// What became of many.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Buffers written, with or without all their changes.
    pub(crate) images: usize,
    /// Those that have changes left which they had before.
    pub(crate) kept: Vec<BufRef>,
    /// Those whose write failed.
    pub(crate) failed: Vec<BufKey>,
    /// The first failure.
    pub(crate) error: Option<Error>,
}

impl Written {
    /// Notes what became of some buffers.
    pub(super) fn note<'a>(
        &mut self,
        bufs: impl ExactSizeIterator<Item = &'a BufRef>,
        fate: Result<Fate>,
    ) {
        match fate {
            Ok(Fate::Clean) => {}
            Ok(Fate::Whole) => self.images += bufs.len(),
            Ok(Fate::Undone) => {
                self.images += bufs.len();
                self.kept.extend(bufs.cloned());
            }
            Ok(Fate::Held) => self.kept.extend(bufs.cloned()),
            Err(e) => {
                self.failed.extend(bufs.map(|b| b.key));
                self.error.get_or_insert(e);
            }
        }
    }

    /// Nothing, or the first failure.
    ///
    /// # Errors
    /// That.
    pub(crate) fn result(self) -> Result<()> {
        self.error.map_or(Ok(()), Err)
    }
}

impl BufCache {
    /// Tells the time, seconds since 1970: about once a second.
    pub(crate) fn tell_time(&self, now: i64) {
        self.state.lock().now = now;
    }

    /// All buffers that wait to be written.
    pub(crate) fn dirty_bufs(&self) -> Vec<BufRef> {
        self.state.lock().dirty.values().map(|d| d.buf.clone()).collect()
    }

    /// The half of them that waits longest.
    pub(crate) fn oldest_dirty(&self) -> Vec<BufRef> {
        let st = self.state.lock();
        let mut all: Vec<_> = st.dirty.values().map(|d| (d.since, d.buf.clone())).collect();
        drop(st);
        // Of one second in the order of their keys.
        all.sort_by_key(|(since, _)| *since);
        all.truncate(all.len().div_ceil(2));
        all.into_iter().map(|(_, buf)| buf).collect()
    }

    /// How many there are.
    pub(crate) fn dirty_count(&self) -> usize {
        self.state.lock().dirty.len()
    }

    /// Those that have waited as long as they may.
    pub(crate) fn due(&self, delays: Delays) -> Vec<BufRef> {
        let st = self.state.lock();
        let now = st.now;
        let due = st.dirty.values().filter(|d| now - d.since >= delays.of(d));
        due.map(|d| d.buf.clone()).collect()
    }

    /// The buffer of `key` if it waits to be written.
    pub(crate) fn dirty_buf(&self, key: BufKey) -> Option<BufRef> {
        self.state.lock().dirty.get(&key).map(|d| d.buf.clone())
    }

    /// Those of a file (data, indirect blocks, extended attributes).
    pub(crate) fn dirty_of(&self, ino: Ino) -> Vec<BufRef> {
        self.dirty_among(BufKey::File(ino, i64::MIN)..=BufKey::File(ino, i64::MAX))
    }

    /// The dirty ones that hold content of a file.
    pub(crate) fn dirty_content(&self, ino: Ino) -> Vec<BufRef> {
        let all = self.dirty_among(BufKey::File(ino, 0)..=BufKey::File(ino, i64::MAX));
        all.into_iter().filter(|buf| buf.kind == BufKind::Data).collect()
    }

    /// Has buffers written that the caller found dirty, even those of which a write was under way or
    /// has ended since.
    pub(crate) fn write_once_more(&self, bufs: &[BufRef]) {
        for buf in bufs {
            drop(buf.write());
            self.dirty(buf);
        }
    }

    pub(super) fn dirty_among(&self, keys: RangeInclusive<BufKey>) -> Vec<BufRef> {
        self.state.lock().dirty.range(keys).map(|(_, d)| d.buf.clone()).collect()
    }

    /// Writes all that is dirty, once, without making it durable.
    #[cfg(test)]
    pub(crate) fn write_delayed(&self) -> Result<()> {
        self.write_bufs(self.dirty_bufs()).result()
    }

    /// Writes all that is dirty, once, and makes it durable.
    #[cfg(test)]
    pub(crate) fn flush_all(&self) -> Result<()> {
        let written = self.write_delayed();
        let flushed = self.flush_device();
        written.and(flushed)
    }
}
