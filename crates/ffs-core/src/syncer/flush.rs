//! Passes: what brings everything to the device, in an order that undoes as little as possible.
//!
//! A pass (an epoch) writes the dirty buffers of which nothing has to be held back, or, if there are
//! none, those of which something does; flushes the device, which makes more ready; and does the
//! work that became safe. Policies that hold nothing back need one.
//!
//! # Invariants
//! 1. No pass begins with an inode or a buffer locked; but [`Syncer::throttle_within`], which
//!    does no work.
//! 2. Passes end: when their aim is reached, or when one changed nothing. That is an error.
//! 3. A buffer whose write failed stays dirty, is left alone by further passes of the same call, and
//!    keeps no other from being written. The first error is reported.
//!
//! Reference: `spec/soft-updates.md` §7, §9.1, §9.2, §10.3.

use super::Syncer;
use crate::buf::{BufKey, BufRef, Delays};
use crate::counters::bump;
use crate::error::{Error, Result};
use crate::ordering::Readiness;
use std::collections::BTreeSet;

/// Passes in a row that may change nothing: the first of them may have met another thread's.
const IDLE: u32 = 4;
/// Passes of [`Syncer::sync`] while others change things.
const SHARED_PASSES: u32 = 64;
/// Passes of one tick, and of one operation that found too much dirty.
const FEW_PASSES: u32 = 16;
/// Seconds that a buffer may be overdue before it is written although something is held back.
const GRACE: i64 = 4;
/// Seconds until a buffer whose image left something out is due again. What an image shows makes more
/// ready in other buffers, and so on: with the whole delay at each step names would come in minutes.
const REST: i64 = 4;
/// Records for each inode that may be in memory, as BSD has it.
const RECORDS_PER_VNODE: u64 = 4;

/// Which buffers passes have to write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Write {
    /// All that were dirty at the beginning.
    AllDirty,
    /// As many as the caller's condition needs.
    Enough,
}

/// What other threads do during passes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Others {
    /// They change the volume.
    Running,
    /// They wait.
    Stopped,
}

/// When passes end.
#[derive(Clone, Copy)]
struct Bounds {
    /// Passes at most; at least one is made.
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
    /// Passes over all dirty buffers until `done` and, with `whole`, each that was dirty at the
    /// beginning was written; at most `most`, at least one. Whether that was reached. If a pass changes
    /// nothing, that is an error only if nobody else does anything (`alone`): who is in the middle of an
    /// operation may have told the policy of what is not in a buffer yet.
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
            // What an image leaves out the policy knows of.
            let tried: BTreeSet<BufKey> = bufs.iter().map(|b| b.key).collect();
            owed.retain(|b| !tried.contains(&b.key) && self.ump.cache.is_dirty(b));
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

    /// Whether the policy has finished everything.
    fn finished(&self) -> bool {
        let p = self.ump.ordering.pending();
        p.deps == 0 && p.frags == 0 && p.inodes == 0 && !self.work_waits()
    }

    /// Makes everything durable that was changed before, and does all work that follows from it.
    /// Whether that was reached: if others go on changing things it may not be, and
    /// [`Syncer::sync_alone`] has to be called.
    ///
    /// # Errors
    /// The device's: the first; [`Error::Unwritten`].
    pub(crate) fn sync(&self) -> Result<bool> {
        self.passes(Bounds { write: Write::AllDirty, ..Bounds::passes(SHARED_PASSES) }, || {
            self.finished()
        })
    }

    /// As [`Syncer::sync`] while nobody changes anything: nothing is dirty on return.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn sync_alone(&self) -> Result<()> {
        let done = || self.finished() && self.ump.cache.dirty_count() == 0;
        self.passes(
            Bounds { most: u32::MAX, write: Write::AllDirty, others: Others::Stopped },
            done,
        )
        .map(drop)
    }

    /// Writes what has waited as long as the switches allow: at first what is whole, and in parts
    /// what is [`GRACE`] seconds late. Works ahead if more than half of what may be outstanding is.
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
        let half = self.most_records() / 2;
        if result.is_ok() && self.ump.ordering.deps() > half {
            let ahead =
                self.passes(Bounds::passes(FEW_PASSES), || self.ump.ordering.deps() <= half);
            result = ahead.map(drop);
        }
        result
    }

    /// Writes the older half of what is dirty, or if none of that is ready what is, and does work.
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

    /// Writes what keeps any of `due` from being written at all, however young it is: while files are
    /// made there is always some, and the group that waits for it would wait until they are not.
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

    fn most_records(&self) -> u64 {
        let t = &self.ump.tunables;
        t.max_softdeps().or(|| t.maxvnodes().saturating_mul(RECORDS_PER_VNODE))
    }

    /// Before an operation: waits while too much is outstanding. The caller holds no lock but the
    /// gate.
    ///
    /// # Errors
    /// The device's, if as much is outstanding still: what is outstanding must not grow for ever.
    pub(crate) fn relieve(&self) -> Result<()> {
        let most = self.most_records();
        let outstanding = || self.ump.ordering.deps();
        if outstanding() <= most {
            return Ok(());
        }
        let _one = self.relief.lock();
        if outstanding() <= most {
            return Ok(());
        }
        bump(&self.ump.cache.counters.softdep_waits);
        let enough = most - most / 10;
        match self.passes(Bounds::passes(u32::MAX), || outstanding() <= enough) {
            Err(e) if outstanding() > most => Err(e),
            _ => Ok(()),
        }
    }

    /// After an operation: if too much is dirty, writes until it is not, and does work. The caller
    /// holds no lock but the gate.
    ///
    /// # Errors
    /// The device's, if too much is dirty still: what else could not be written concerns those who
    /// wait for it.
    pub(crate) fn throttle(&self) -> Result<()> {
        self.ump.write_while_too_dirty(|| self.help_work(usize::MAX))
    }

    /// Waits until everything that will be free is free, records of removed names included; whether there was any.
    /// The caller holds no lock but the gate.
    pub(crate) fn reclaim(&self) -> bool {
        let outstanding =
            || self.table.will_be_free() != (0, 0) || self.ump.ordering.pending().removals > 0;
        if !outstanding() {
            return false;
        }
        bump(&self.ump.cache.counters.space_requests);
        // What fails here is told by those who wait for it; the caller only wants space.
        drop(self.passes(Bounds::passes(SHARED_PASSES), || !outstanding()));
        true
    }
}
