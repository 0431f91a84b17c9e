//! Deferred work that the ordering mode hands out once it is safe: dropping links, freeing space.
//!
//! # Invariants
//! 1. One thread at a time does work, in the order in which the ordering mode handed it out. If the
//!    device refuses an item, the next run tries it again; later items do not wait for it, because
//!    they concern other files.
//! 2. The thread holds no other lock when it begins: the lock of the worklist comes before the
//!    inode locks. Only calls that make changes durable wait for this lock.
//!
//! Reference: `spec/soft-updates.md` §6.3, §6.12, §7.2.

use super::Syncer;
use crate::counters::add;
use crate::error::Result;
use crate::ordering::{Event, FragRun, FreedRuns, WorkItem};
use ffs_ondisk::{Dinode, FragNo, Ino};
use std::collections::VecDeque;

/// Items taken from the ordering mode at a time.
const BATCH: usize = 64;

/// Items that were taken from the ordering mode and failed.
#[derive(Debug, Default)]
pub(super) struct Worklist(VecDeque<WorkItem>);

impl Syncer {
    /// Does up to `most` items of work and returns how many it did. The caller has no inode and no
    /// buffer locked.
    ///
    /// # Errors
    /// The first error of the device. The next call tries the failed items again.
    pub(crate) fn run_work(&self, most: usize) -> (usize, Result<()>) {
        self.work_off(&mut self.worklist.lock(), most)
    }

    /// As [`Syncer::run_work`], unless another thread is doing work.
    pub(super) fn help_work(&self, most: usize) -> usize {
        let backlog = self.worklist.try_lock();
        backlog.map_or(0, |mut backlog| self.work_off(&mut backlog, most).0)
    }

    /// Whether failed items wait to be tried again.
    pub(super) fn work_waits(&self) -> bool {
        !self.worklist.lock().0.is_empty()
    }

    fn work_off(&self, backlog: &mut Worklist, most: usize) -> (usize, Result<()>) {
        let (mut done, mut result) = (0, Ok(()));
        let again = std::mem::take(&mut backlog.0);
        let mut next = again;
        while done < most {
            if next.is_empty() {
                next.extend(self.ump.ordering.take_work(BATCH.min(most - done)));
            }
            let Some(work) = next.pop_front() else { break };
            match self.work(&work) {
                Ok(()) => done += 1,
                Err(e) => {
                    result = result.and(Err(e));
                    backlog.0.push_back(work);
                }
            }
        }
        backlog.0.append(&mut next);
        add(&self.ump.cache.counters.work_done, done as u64);
        (done, result)
    }

    fn work(&self, work: &WorkItem) -> Result<()> {
        match work {
            WorkItem::DropLinks { ino, by } => self.unlink_stored(*ino, *by)?,
            WorkItem::FreeBlks(runs) => {
                for run in &runs.first {
                    self.free_run(*run);
                }
                self.free_rest(runs)?;
            }
            WorkItem::FreeFile { ino, was_dir } => {
                if self.ump.alloc.free_inode(*ino, *was_dir).is_err() {
                    // It stays allocated until fsck.
                    self.ump.cache.set_needs_check();
                }
            }
        }
        Ok(())
    }

    /// Lowers the link count in the inode's block, and frees the file if no link is left.
    fn unlink_stored(&self, ino: Ino, by: u16) -> Result<()> {
        let block = self.ump.inode_block(ino)?;
        let is_unlinked = {
            let mut b = block.write();
            let at = self.ump.g().ino_to_fsbo(ino);
            let place = b.bytes.get_mut(at..).unwrap_or(&mut []);
            let mut d = Dinode::decode(self.ump.g(), place);
            d.nlink = d.nlink.saturating_sub(by);
            d.encode(self.ump.g(), place);
            let delta = self.ump.ordering.notify(Event::LinksDropped { ino, by }).nlink_delta;
            delta == 0 && d.nlink == 0 && d.mode != 0
        };
        self.ump.cache.mark_dirty(&block);
        if is_unlinked {
            // If freeing fails, the inode stays without names: unmounting tries again, and fsck
            // frees it.
            drop(self.table.free_unlinked(ino));
        }
        Ok(())
    }

    /// Passes on the runs that are freed after the first ones of `runs`, which are free in memory.
    fn free_rest(&self, runs: &FreedRuns) -> Result<()> {
        if runs.then.is_empty() {
            return Ok(());
        }
        let g = self.ump.g();
        let mut groups: Vec<FragNo> = runs.first.iter().map(|run| run.at).collect();
        groups.sort_by_key(|at| g.dtog(*at));
        groups.dedup_by_key(|at| g.dtog(*at));
        let rest = runs.clone().rest();
        self.ump.ordering.notify(Event::LeavesFreed { groups: &groups, runs: rest });
        // Another thread may have written a group since: a later write must follow.
        groups.iter().try_for_each(|at| self.ump.alloc.redirty_group(g.dtog(*at)))
    }

    /// Frees a run that may be longer than a block.
    fn free_run(&self, run: FragRun) {
        let frag = self.ump.g().frag;
        let (mut at, mut left) = (run.at, run.frags);
        while left > 0 {
            let within = (at.0 % u64::from(frag)) as u32;
            let frags = (frag - within).min(left);
            self.ump.free_quietly(FragRun { at, frags });
            (at, left) = (at.plus(frags.into()), left - frags);
        }
    }
}
