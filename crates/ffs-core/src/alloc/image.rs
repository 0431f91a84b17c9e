//! Groups as a snapshot shows them, and groups changed on the device by themselves.
//!
//! # Invariants
//! 1. An image agrees in itself: maps, counts and check hash.
//! 2. [`Alloc::mark_used_on_device`] sets no mark that the group's buffer does not have.
//!
//! Reference: `spec/snapshots.md` §4, §12.

use super::Alloc;
use super::check::check_in;
use super::group::GroupEdit;
use crate::error::Result;
use crate::ordering::FragRun;
use ffs_ondisk::cg::full_pattern;
use ffs_ondisk::{CgMut, CgNo, Csum, FragNo};

/// A group's block in a snapshot.
pub(crate) struct GroupImage {
    pub(crate) bytes: Vec<u8>,
    /// Its counts.
    pub(crate) sums: Csum,
    /// The number of changes of the group when it was copied.
    pub(crate) changes: u64,
}

impl Alloc {
    /// A copy of group `c` in which `runs` and `inodes` (index in the group, whether it is a
    /// directory) are free.
    ///
    /// # Errors
    /// The device's; that of a damaged group.
    pub(crate) fn group_image(
        &self,
        c: CgNo,
        runs: &[FragRun],
        inodes: &[(u32, bool)],
    ) -> Result<GroupImage> {
        let buf = self.read_group(c)?;
        let (mut bytes, changes) = {
            let mut data = buf.write_unchanged();
            self.check_in_once(c, &buf, &mut data.bytes)?;
            (data.bytes.clone(), self.sum.lock().changes(c))
        };
        let mut e = GroupEdit::new(self, c, &mut bytes);
        for run in runs {
            e.free_run(self.g().dtogd(run.at), run.frags)?;
        }
        for &(i, was_dir) in inodes {
            e.release_inode(i, was_dir)?;
        }
        let sums = e.finish_copy();
        CgMut::new(self.g(), &mut bytes).seal(self.cache.clock.now().secs);
        Ok(GroupImage { bytes, sums, changes })
    }

    /// For each group, the number of changes since the mount.
    pub(crate) fn group_changes(&self) -> Vec<u64> {
        let sum = self.sum.lock();
        (0..self.g().ncg).map(|c| sum.changes(CgNo(c))).collect()
    }

    /// Marks `blocks` of group `c`, which are allocated, used in the group's block on the device,
    /// without writing the group's buffer. The caller flushes the device.
    ///
    /// # Errors
    /// The device's; that of a group that is damaged on the device.
    pub(crate) fn mark_used_on_device(&self, c: CgNo, blocks: &[FragNo]) -> Result<()> {
        let buf = self.read_group(c)?;
        self.cache.patch_device(&buf, |bytes| {
            check_in(self.g(), c, bytes, self.torn())?;
            let mut e = GroupEdit::new(self, c, bytes);
            let marked = blocks.iter().filter(|at| e.fill_block(self.g().dtogd(**at))).count();
            e.finish_copy();
            CgMut::new(self.g(), bytes).seal(self.cache.clock.now().secs);
            Ok(marked > 0)
        })
    }
}

impl GroupEdit<'_> {
    /// Marks every fragment of the block at fragment `first` of the group used. Returns whether one
    /// of them was free.
    pub(super) fn fill_block(&mut self, first: u32) -> bool {
        let (frag, blk) = (self.g.frag, first / self.g.frag);
        let before = self.cg.view().block_pattern(blk);
        if before == 0 {
            return false;
        }
        if before == full_pattern(frag) {
            self.cg.set_run_free(first, frag, false);
            self.take_from_cluster(blk);
            self.count(Csum { nbfree: -1, ..Csum::default() });
        } else {
            self.account_runs(before, -1);
            self.cg.set_run_free(first, frag, false);
            self.count(Csum { nffree: -i64::from(before.count_ones()), ..Csum::default() });
        }
        true
    }
}
