//! Passes: write dirty buffers in an order that rolls back as little as possible.
//!
//! A pass writes the dirty buffers whose images show every change or, if there are none, those
//! whose images roll some changes back. Then it flushes the device, which makes further buffers
//! ready, and does the deferred work that became safe. Ordering modes without rollback need one
//! pass.
//!
//! # Invariants
//! 1. No pass begins with an inode or a buffer locked, except those of
//!    [`UfsMount::throttle_within`](crate::ufsmount::UfsMount::throttle_within), which do no
//!    deferred work.
//! 2. Passes end when the condition of the caller holds, or when several in a row changed nothing.
//!    The second case is an error if no other thread changes the volume.
//! 3. A buffer whose write failed stays dirty. Later passes of the same call skip it and write the
//!    other buffers. The first error is reported.
//!
//! Reference: `spec/soft-updates.md` §7, §9.1, §9.2, §10.3.

use super::Syncer;
use crate::buf::{BufKey, BufRef, Delays};
use crate::counters::bump;
use crate::error::{Error, Result};
use crate::ordering::Readiness;
use std::collections::BTreeSet;

/// Most passes in a row without a change. A pass of another thread may have done the work of the
/// first of them.
const IDLE: u32 = 4;
/// Most passes of [`Syncer::sync`], while other threads change the volume.
const SHARED_PASSES: u32 = 64;
/// Most passes of one tick.
const FEW_PASSES: u32 = 16;
/// Seconds that a buffer may be overdue before it is written with changes rolled back.
const GRACE: i64 = 4;
/// Seconds until a buffer with a rolled back change is due again. A write makes other buffers
/// ready, whose writes make further buffers ready. With the whole delay at each step, names would
/// become durable after minutes.
const REST: i64 = 4;
/// Dependencies for each inode that may be in memory (FreeBSD: `max_softdeps`).
const DEPS_PER_VNODE: u64 = 4;

/// Which buffers passes have to write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    /// All that were dirty at the beginning.
    AllDirty,
    /// As many as the condition of the caller needs.
    Enough,
}

/// Whether other threads change the volume during passes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    /// They do.
    Running,
    /// They wait until the passes end.
    Stopped,
}

/// When passes end.
#[derive(Clone, Copy)]
struct Bounds {
    /// Most passes; at least one is made.
    most: u32,
    write: Write,
    others: Others,
}

impl Bounds {
    /// At most `most` passes, until the caller's condition holds, while other threads change the
    /// volume.
    fn passes(most: u32) -> Bounds {
        Bounds { most, write: Write::Enough, others: Others::Running }
    }
}

impl Syncer {
    /// Runs passes over all dirty buffers until `done` and, with [`Write::AllDirty`], until each
    /// buffer that was dirty at the beginning was written. Returns whether that was reached within
    /// `most` passes.
    ///
    /// Passes without a change are an error only with [`Others::Stopped`]. An operation of another
    /// thread may have reported a change to the ordering mode that no buffer has yet.
    fn passes(
        &self,
        Bounds { most, write, others }: Bounds,
        done: impl Fn() -> bool,
    ) -> Result<bool> {
        let mut failed: BTreeSet<BufKey> = BTreeSet::new();
        let (mut result, mut idle) = (Ok(()), 0);
        let mut owed = match write {
            Write::AllDirty => self.ump.cache.dirty_bufs(),
            Write::Enough => Vec::new(),
        };
        for _ in 0..most {
            let mut bufs = self.ump.cache.dirty_bufs();
            bufs.retain(|b| !failed.contains(&b.key));
            let (before, nothing) = (self.ump.outstanding(), bufs.is_empty());
            let (ready, mut bufs) = self.ump.readiest(bufs);
            if ready == Readiness::Held && (idle == 0 || result.is_err()) {
                bufs.clear();
            }
            // The ordering mode tracks the changes that a written image rolled back.
            let tried: BTreeSet<BufKey> = bufs.iter().map(|b| b.key).collect();
            owed.retain(|b| !tried.contains(&b.key) && b.is_dirty());
            let mut written = self.ump.cache.write_bufs(bufs);
            failed.extend(written.failed.drain(..));
            result = result.and(written.result());
            if let Err(e) = self.ump.end_pass() {
                return Err(result.err().unwrap_or(e));
            }
            let (worked, outcome) = self.run_work(usize::MAX);
            result = result.and(outcome);
            if owed.is_empty() && done() {
                return result.map(|()| true);
            }
            if worked > 0 || self.ump.outstanding() != before {
                idle = 0;
                continue;
            }
            idle += 1;
            if nothing || idle > IDLE || result.is_err() {
                return result.and(match others {
                    Others::Stopped => Err(Error::Unwritten),
                    Others::Running => Ok(false),
                });
            }
        }
        result.map(|()| false)
    }

    /// Whether no dependency and no deferred work is pending.
    fn finished(&self) -> bool {
        let p = self.ump.ordering.pending();
        p.deps == 0 && p.frags == 0 && p.inodes == 0 && !self.work_waits()
    }

    /// Whether everything is durable.
    pub(crate) fn is_idle(&self) -> bool {
        self.ump.cache.dirty_count() == 0 && self.finished()
    }

    /// Makes all earlier changes durable, and does the deferred work that follows from them.
    /// Returns whether that was reached. If not, because other threads make changes too fast, the
    /// caller uses [`Syncer::sync_alone`].
    ///
    /// # Errors
    /// The first error of the device.
    pub(crate) fn sync(&self) -> Result<bool> {
        self.passes(Bounds { write: Write::AllDirty, ..Bounds::passes(SHARED_PASSES) }, || {
            self.finished()
        })
    }

    /// As [`Syncer::sync`], while no other thread changes the volume. No buffer is dirty on return.
    ///
    /// # Errors
    /// The first error of the device; [`Error::Unwritten`].
    pub(crate) fn sync_alone(&self) -> Result<()> {
        let done = || self.finished() && self.ump.cache.dirty_count() == 0;
        self.passes(
            Bounds { most: u32::MAX, write: Write::AllDirty, others: Others::Stopped },
            done,
        )
        .map(drop)
    }

    /// Writes the buffers whose delay is over: first those that need no rollback, then, with
    /// rollback, those that are [`GRACE`] seconds overdue. If there are more than half as many
    /// dependencies as allowed, writes until there are not.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn write_due(&self) -> Result<()> {
        let delays = self.delays();
        let mut result = self.write_holders(self.ump.cache.due(delays));
        for _ in 0..FEW_PASSES {
            let (ready, bufs) = self.ump.readiest(self.ump.cache.due(delays));
            if ready != Readiness::Whole {
                break;
            }
            result = result.and(self.ump.cache.write_bufs(bufs).result());
            self.ump.end_pass()?;
            result = result.and(self.run_work(usize::MAX).1);
            if result.is_err() {
                break;
            }
        }
        let late = self.ump.cache.due(delays.later(GRACE));
        if !late.is_empty() && result.is_ok() {
            result = self.ump.write_readiest(late).result();
            self.ump.end_pass()?;
        }
        result = result.and(self.run_work(usize::MAX).1);
        let half = self.dependency_limit() / 2;
        if result.is_ok() && self.ump.ordering.deps() > half {
            let ahead =
                self.passes(Bounds::passes(FEW_PASSES), || self.ump.ordering.deps() <= half);
            result = ahead.map(drop);
        }
        result
    }

    /// Writes the oldest third of the dirty buffers or, if none of it is ready, those that are.
    /// Then does deferred work.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn write_oldest(&self) -> Result<()> {
        let oldest = self.ump.readiest(self.ump.cache.oldest_dirty());
        let (ready, bufs) = match oldest {
            (Readiness::Whole, bufs) => (Readiness::Whole, bufs),
            _ => self.ump.readiest(self.ump.cache.dirty_bufs()),
        };
        if ready != Readiness::Held {
            self.ump.cache.write_bufs(bufs).result()?;
        }
        self.ump.end_pass()?;
        self.run_work(usize::MAX).1
    }

    /// Writes the buffers that keep buffers of `due` from being written at all, without regard to
    /// their age. While files are created there are always new ones, and a cylinder group that
    /// waits for them would wait until no more files are created.
    fn write_holders(&self, due: Vec<BufRef>) -> Result<()> {
        let keys: BTreeSet<BufKey> =
            due.iter().flat_map(|b| self.ump.ordering.held_by(b.key)).collect();
        let bufs: Vec<BufRef> =
            keys.into_iter().filter_map(|key| self.ump.cache.dirty_buf(key)).collect();
        if bufs.is_empty() {
            return Ok(());
        }
        let written = self.ump.cache.write_bufs(bufs).result();
        self.ump.end_pass()?;
        written
    }

    fn delays(&self) -> Delays {
        let t = &self.ump.tunables;
        let seconds = |n: u64| i64::try_from(n).unwrap_or(i64::MAX / 2);
        Delays {
            file: seconds(t.filedelay()),
            dir: seconds(t.dirdelay()),
            meta: seconds(t.metadelay()),
            rolled_back: REST,
        }
    }

    /// The number of dependencies at which operations wait.
    fn dependency_limit(&self) -> u64 {
        let t = &self.ump.tunables;
        t.max_softdeps().or(|| t.maxvnodes().saturating_mul(DEPS_PER_VNODE))
    }

    /// Waits before an operation while there are too many dependencies. The caller holds no lock
    /// except the mount lock.
    ///
    /// # Errors
    /// The device's, if there are still too many: their number must stay bounded.
    pub(crate) fn relieve(&self) -> Result<()> {
        let most = self.dependency_limit();
        let deps = || self.ump.ordering.deps();
        if deps() <= most {
            return Ok(());
        }
        let _one = self.relief.lock();
        if deps() <= most {
            return Ok(());
        }
        bump(&self.ump.cache.counters.softdep_waits);
        let enough = most - most / 10;
        match self.passes(Bounds::passes(u32::MAX), || deps() <= enough) {
            Err(e) if deps() > most => Err(e),
            _ => Ok(()),
        }
    }

    /// Writes after an operation while too many buffers are dirty, and does deferred work. The
    /// caller holds no lock except the mount lock.
    ///
    /// # Errors
    /// The device's, if still too many buffers are dirty. Other failed writes are reported to the
    /// operations that wait for them.
    pub(crate) fn throttle(&self) -> Result<()> {
        self.ump.write_while_too_dirty(|| self.help_work(usize::MAX))
    }

    /// Waits until all pending frees are done, and until removed names no longer reserve their
    /// records. Returns whether there were any. The caller holds no lock except the mount lock.
    pub(crate) fn reclaim(&self) -> bool {
        let pending =
            || self.table.will_be_free() != (0, 0) || self.ump.ordering.pending().removals > 0;
        if !pending() {
            return false;
        }
        bump(&self.ump.cache.counters.space_requests);
        // `fsync` and `sync` report failed writes. This call only tries to free space.
        drop(self.passes(Bounds::passes(SHARED_PASSES), || !pending()));
        true
    }
}
