//! Freeing blocks and fragment runs (`spec/allocation.md` §5.4).

use super::group::GroupEdit;
use super::{Alloc, LOG};
use crate::error::{Error, Result};
use crate::ordering::FragRun;
use ffs_ondisk::cg::{full_pattern, runs};
use ffs_ondisk::{Csum, Place, Structure};
use tracing::trace;

impl Alloc {
    /// Frees a run within one block.
    ///
    /// # Errors
    /// [`Error::Format`] if a part of it is free already or is metadata, or if its group is
    /// damaged;
    /// the device's.
    pub(crate) fn free_frags(&self, run: FragRun) -> Result<()> {
        self.check_run(run)?;
        let g = self.g();
        self.edit(g.dtog(run.at), |e| e.free_run(g.dtogd(run.at), run.frags))
    }

    /// As [`Alloc::free_frags`], unless the whole block would be free then: in that case the whole
    /// block becomes used. Returns whether the run was freed.
    ///
    /// # Errors
    /// As [`Alloc::free_frags`].
    pub(crate) fn free_part(&self, run: FragRun) -> Result<bool> {
        self.check_run(run)?;
        let g = self.g();
        self.edit(g.dtog(run.at), |e| e.free_part(g.dtogd(run.at), run.frags))
    }

    /// A run that is to be freed is in the data area.
    fn check_run(&self, run: FragRun) -> Result<()> {
        let g = self.g();
        if let Some(why) = g.run_problem(run.at, run.frags) {
            let found = format!("{} fragments to be freed, {why}", run.frags);
            let (s, p) = (Structure::Inode, Place::Frag(run.at));
            let e = Error::corrupt(s, p, "block pointer", found, "a run in the data area");
            return Err(self.cache.record_damage(e));
        }
        trace!(target: LOG, fragment = run.at.0, frags = run.frags, "free");
        Ok(())
    }
}

impl GroupEdit<'_> {
    /// Marks `frags` fragments from `first` of the group on, within one block, as free.
    pub(super) fn free_run(&mut self, first: u32, frags: u32) -> Result<()> {
        let (before, freed) = self.used_run(first, frags)?;
        let (frag, blk) = (self.g.frag, first / self.g.frag);
        self.cg.set_run_free(first, frags, true);
        let after = before | freed;
        self.account_runs(before, -1);
        if after == full_pattern(frag) {
            let pieces = i64::from(before.count_ones());
            self.add_to_cluster(blk);
            self.count(Csum { nbfree: 1, nffree: -pieces, ..Csum::default() });
        } else {
            self.account_runs(after, 1);
            self.count(Csum { nffree: frags.into(), ..Csum::default() });
        }
        Ok(())
    }

    /// See [`Alloc::free_part`].
    fn free_part(&mut self, first: u32, frags: u32) -> Result<bool> {
        let (before, freed) = self.used_run(first, frags)?;
        let is_part = before | freed != full_pattern(self.g.frag);
        if is_part {
            self.free_run(first, frags)?;
        } else {
            self.fill_block(first - first % self.g.frag);
        }
        Ok(is_part)
    }

    /// The free fragments of a block, and a run in it that is to be freed.
    fn used_run(&self, first: u32, frags: u32) -> Result<(u8, u8)> {
        let before = self.cg.view().block_pattern(first / self.g.frag);
        let freed = full_pattern(frags) << (first % self.g.frag);
        if before & freed != 0 {
            let at = self.g.cgbase(self.c).plus(first.into());
            let found = format!("{frags} fragments at {at} to be freed, some of them free");
            return Err(self.corrupt("blksfree", found, "all of them marked used"));
        }
        Ok((before, freed))
    }

    /// Adds the free runs of a partly used block to `frsum`, or subtracts them.
    pub(super) fn account_runs(&mut self, pattern: u8, sign: i32) {
        for (n, count) in (0..).zip(runs(pattern, self.g.frag)).take(self.g.frag as usize).skip(1) {
            if count > 0 {
                self.cg.add_frsum(n, sign * i32::from(count));
            }
        }
    }
}
