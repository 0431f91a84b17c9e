//! Inodes without a name and their blocks, and new link counts.
//!
//! **Invariants.**
//! 1. The names in a directory that is freed are cleared before the inodes that they name
//!    (`spec/fsck-and-crash.md` §5).

use ffs_ondisk::Ino;

use super::links::Verdict;
use super::truncate::{Keep, Walked};
use super::{Recovery, Step, unusable};

impl Recovery<'_> {
    /// Frees the inodes of `verdict`.
    pub(super) fn release_inodes(&mut self, verdict: &Verdict) -> Step<()> {
        for (&ino, &(is_dir, free)) in &verdict.freed {
            self.examined.remove(&ino);
            self.freed.insert(ino, is_dir);
            if free {
                continue;
            }
            self.report.inodes += 1;
            self.report.directories += u64::from(is_dir);
            let mut node = self.inode(Ino(ino))?;
            if node.is_snapshot() {
                return unusable(format!("inode {ino} is a snapshot"));
            }
            if is_dir {
                self.ck.remove_all_names(Ino(ino))?;
            }
            let mut walked = Walked::new(node.d.size, Keep::Nothing);
            if !self.ck.walk(&mut node, &mut walked)? {
                return unusable(format!("inode {ino}: {}", walked.problem));
            }
            for (at, frags) in walked.dropped {
                self.release_run(at, frags)?;
            }
            self.ck.clear_inode(Ino(ino))?;
        }
        self.indirect = None;
        self.to_scan.extend(&verdict.directories);
        Ok(())
    }

    /// Sets the link counts of `verdict`.
    pub(super) fn correct_links(&mut self, verdict: &Verdict) -> Step<()> {
        for (&ino, &count) in &verdict.counts {
            let mut node = self.inode(Ino(ino))?;
            node.d.nlink = count;
            self.ck.write_inode(&mut node)?;
            self.report.links += 1;
        }
        Ok(())
    }
}
