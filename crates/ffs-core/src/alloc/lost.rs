//! Corrections of a group's maps and counts by a check of a snapshot (FreeBSD: `sysctl_ffs_fsck`).
//!
//! # Invariants
//! 1. A correction that the group's maps contradict changes nothing, and is no damage: the result
//!    is false.
//!
//! Reference: `spec/fsck-and-crash.md` §7.

use super::Alloc;
use crate::error::Result;
use crate::ordering::FragRun;
use ffs_ondisk::{CgNo, Csum, Ino};

impl Alloc {
    /// Whether `run` is in the data area, within one block, and marked used.
    ///
    /// # Errors
    /// The device's; that of a damaged group.
    pub(crate) fn is_marked_used(&self, run: FragRun) -> Result<bool> {
        let g = self.g();
        if run.frags == 0 || g.run_problem(run.at, run.frags).is_some() {
            return Ok(false);
        }
        let first = g.dtogd(run.at);
        self.edit(g.dtog(run.at), |e| {
            Ok((first..first + run.frags).all(|f| !e.cg.view().frag_free(f)))
        })
    }

    /// Frees the inode if it is marked used.
    ///
    /// # Errors
    /// The device's; that of a damaged group.
    pub(crate) fn free_lost_inode(&self, ino: Ino, was_dir: bool) -> Result<bool> {
        let (c, i) = (self.g().ino_to_cg(ino), self.g().ino_to_cgi(ino));
        self.edit(c, |e| {
            let used = e.cg.view().inode_used(i);
            if used {
                e.release_inode(i, was_dir)?;
            }
            Ok(used)
        })
    }

    /// Adds `delta` to the number of directories of group `c`, unless it would be impossible.
    ///
    /// # Errors
    /// The device's; that of a damaged group.
    pub(crate) fn adjust_ndir(&self, c: CgNo, delta: i64) -> Result<bool> {
        let ipg = i64::from(self.g().ipg);
        self.edit(c, |e| {
            let counts = e.counts();
            let ndir = counts.ndir.saturating_add(delta);
            let possible = (0..=ipg - counts.nifree).contains(&ndir);
            if possible {
                e.count(Csum { ndir: delta, ..Csum::default() });
            }
            Ok(possible)
        })
    }

    /// Has the block of group `c` written, with the counts and the check hash of its maps.
    ///
    /// # Errors
    /// The device's; that of a damaged group.
    pub(crate) fn write_group(&self, c: CgNo) -> Result<()> {
        self.edit(c, |e| {
            e.count(Csum::default());
            Ok(())
        })
    }
}
