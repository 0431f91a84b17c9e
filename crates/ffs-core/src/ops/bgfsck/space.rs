//! Inodes and blocks that no file has (FreeBSD: `vfs.ffs.freefiles`, `vfs.ffs.freedirs`,
//! `vfs.ffs.freeblks`, `vfs.ffs.adjndir`).
//!
//! The totals need no calls of their own, as FreeBSD's `adjnbfree`, `adjnifree`, `adjnffree` and
//! `adjnumclusters` are: the mount counts the maps of each group itself, when it reads the group.

use super::{Adjusted, BackgroundCheck};
use crate::error::Result;
use crate::mount::Mount;
use crate::ordering::FragRun;
use ffs_ondisk::{CgNo, FragNo, Ino};

use Adjusted::{Done, Refused};

impl BackgroundCheck {
    /// Frees `count` inodes from `first` on, which are marked used but belong to no file.
    ///
    /// # Errors
    /// The device's; that of a damaged group.
    pub fn freefiles(&self, first: Ino, count: u32) -> Result<Adjusted> {
        self.free_inodes(first, count, false)
    }

    /// As [`BackgroundCheck::freefiles`], for inodes that their group counts as directories.
    ///
    /// # Errors
    /// As [`BackgroundCheck::freefiles`].
    pub fn freedirs(&self, first: Ino, count: u32) -> Result<Adjusted> {
        self.free_inodes(first, count, true)
    }

    fn free_inodes(&self, first: Ino, count: u32, dirs: bool) -> Result<Adjusted> {
        self.adjust(|mp| {
            let end = first.0.saturating_add(count);
            if end > mp.ump.g().inodes() || !self.pass_inodes(first, Ino(end)) {
                return Ok(Refused("the inodes were freed already, or are out of range"));
            }
            let mut result = Done;
            for ino in (first.0..end).map(Ino) {
                if !mp.free_lost_inode(ino, dirs)? {
                    result = Refused("an inode is in use, or free, now");
                }
            }
            Ok(result)
        })
    }

    /// Frees `count` fragments from `first` on, which are marked used but belong to nothing.
    ///
    /// # Errors
    /// The device's; that of a damaged group. The rest stays allocated.
    pub fn freeblks(&self, first: FragNo, count: u64) -> Result<Adjusted> {
        self.adjust(|mp| {
            let end = FragNo(first.0.saturating_add(count));
            if end.0 > mp.ump.g().size || !self.pass_frags(first, end) {
                return Ok(Refused("the fragments were freed already, or are out of range"));
            }
            let (mut at, mut result) = (first, Done);
            while at < end {
                let frag = u64::from(mp.ump.g().frag);
                let frags = (frag - at.0 % frag).min(end.0 - at.0) as u32;
                let run = FragRun { at, frags };
                if mp.ump.alloc.is_marked_used(run)? {
                    mp.ump.free_frags(run)?;
                } else {
                    result = Refused("a fragment is free now, or is metadata");
                }
                at = at.plus(frags.into());
            }
            Ok(result)
        })
    }

    /// Adds `delta` to the number of directories of group `c`.
    ///
    /// # Errors
    /// The device's; that of a damaged group.
    pub fn adjndir(&self, c: CgNo, delta: i64) -> Result<Adjusted> {
        self.adjust(|mp| {
            let in_range = c.0 < mp.ump.g().ncg;
            let done = in_range && mp.ump.alloc.adjust_ndir(c, delta)?;
            Ok(if done { Done } else { Refused("the group's count is another one now") })
        })
    }

    /// Has group `c` written with the counts and the check hash of its maps.
    ///
    /// # Errors
    /// The device's; that of a damaged group.
    pub fn write_group(&self, c: CgNo) -> Result<Adjusted> {
        self.adjust(|mp| {
            if c.0 >= mp.ump.g().ncg {
                return Ok(Refused("there is no such group"));
            }
            mp.ump.alloc.write_group(c).map(|()| Done)
        })
    }

    /// Whether inodes from `first` to `end` come after all that were freed.
    fn pass_inodes(&self, first: Ino, end: Ino) -> bool {
        let mut not_freed = self.not_freed.lock();
        let ascends = not_freed.ino <= first && first > Ino::ROOT;
        if ascends {
            not_freed.ino = end;
        }
        ascends
    }

    /// Whether fragments from `first` to `end` come after all that were freed.
    fn pass_frags(&self, first: FragNo, end: FragNo) -> bool {
        let mut not_freed = self.not_freed.lock();
        let ascends = not_freed.frag <= first;
        if ascends {
            not_freed.frag = end;
        }
        ascends
    }
}

impl Mount {
    /// Frees an inode that is marked used, if it belongs to no file.
    fn free_lost_inode(&self, ino: Ino, was_dir: bool) -> Result<bool> {
        // No file gets the number meanwhile, because it is marked used.
        if self.table.is_loaded(ino) || !self.ump.alloc.inode_initialised(ino)? {
            return Ok(false);
        }
        if self.table.stored(ino)?.mode != 0 {
            return Ok(false);
        }
        self.ump.alloc.free_lost_inode(ino, was_dir)
    }
}
