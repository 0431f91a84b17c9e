//! Phase 4: reference counts.
//!
//! **Purpose.** Inodes without names are reconnected or cleared. Inodes with names get the right
//! link count.
//!
//! **Invariants.**
//! 1. Directories are cleared before files are checked, because clearing a directory removes names.
//! 2. Clearing an inode frees exactly the fragments that no other inode uses.
//!
//! References: spec/fsck-and-crash.md §3.5.

use ffs_ondisk::{CgNo, Ino};

use super::checker::Checker;
use super::corrections::Correction;
use super::inoinfo::{InoStat, NLINK_MAX, State};
use super::report::{Id, Phase};
use super::resolve::{Draft, Res};

/// What to do with the blocks of a cleared inode.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blocks {
    /// Free them.
    Free,
    /// Keep them marked used; the next round finds them free.
    Keep,
}

impl Checker<'_> {
    /// Checks the link counts of all inodes.
    pub(super) fn phase4(&mut self) -> Res<()> {
        let inodes: u64 = (0..self.g.ncg).map(|c| self.inodes.in_group(CgNo(c)).len() as u64).sum();
        // Two scans: directories first.
        self.begin_phase(Phase::References, 2 * inodes)?;
        self.each_inode(Self::check_directory)?;
        self.each_inode(Self::check_references)?;
        self.end_phase()
    }

    fn each_inode(&mut self, mut f: impl FnMut(&mut Self, Ino, InoStat) -> Res<()>) -> Res<()> {
        for c in 0..self.g.ncg {
            self.check_interrupt()?;
            let inodes = self.inodes.in_group(CgNo(c)).len() as u32;
            for index in 0..inodes {
                let rec = self.inodes.in_group(CgNo(c)).get(index as usize).copied();
                if let Some(rec) =
                    rec.filter(|r| r.state != State::Unallocated && !r.is_consistent())
                {
                    f(self, Ino(c * self.g.ipg + index), rec)?;
                }
            }
            self.advance(inodes.into());
        }
        Ok(())
    }

    /// Clears directories that will not remain.
    fn check_directory(&mut self, ino: Ino, rec: InoStat) -> Res<()> {
        if !rec.is_dir() {
            return Ok(());
        }
        match rec.state {
            State::Used => {
                // The repair of phase 3 was refused, for this directory or for the top of its tree.
                let draft = Draft::benign(Id::DirClear, "unreferenced directory: clear").ino(ino);
                if self.should_fix(draft)? {
                    self.uncount_single(ino)?;
                    self.clear(ino, Blocks::Free)?;
                }
            }
            State::Clear => {
                let draft = Draft::benign(Id::DirClear, "unreferenced directory: clear").ino(ino);
                if self.should_fix(draft)? {
                    self.clear(ino, Blocks::Free)?;
                }
            }
            State::ZeroDir if !rec.has_name() => {
                let draft = Draft::benign(Id::DirClear, "directory of size 0: clear").ino(ino);
                if self.should_fix(draft)? {
                    self.clear(ino, Blocks::Free)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Uncounts the names in a directory that is cleared although the inodes they name may remain.
    fn uncount_single(&mut self, ino: Ino) -> Res<()> {
        self.uncount_names(ino)?;
        self.rerun_after_phase4();
        Ok(())
    }

    fn check_references(&mut self, ino: Ino, rec: InoStat) -> Res<()> {
        match rec.state {
            State::DupBad => {
                let draft = Draft::fatal(Id::InoBadDup, "bad or duplicate blocks: clear").ino(ino);
                if self.should_fix(draft)? {
                    self.clear(ino, Blocks::Keep)?;
                    self.rerun_after_phase4();
                }
                return Ok(());
            }
            State::Unallocated | State::ZeroDir | State::Clear => return Ok(()),
            State::Used if rec.is_dir() => return Ok(()),
            State::Used | State::Found => {}
        }
        if rec.has_name() || rec.state == State::Found {
            return self.adjust_links(ino, rec);
        }
        if rec.has_no_links() {
            let draft = Draft::benign(Id::InoUnref0, "link count 0 and no name: clear").ino(ino);
            if self.should_fix(draft)? {
                self.clear(ino, Blocks::Free)?;
            }
            return Ok(());
        }
        self.check_orphan_file(ino)
    }

    /// Handles a file that has links but no name.
    fn check_orphan_file(&mut self, ino: Ino) -> Res<()> {
        let size = self.read_inode(ino)?.d.size;
        let crash = self.resolver.is_preen() && self.softdep && self.resolver.resolved;
        let clear = size == 0 || (crash && !self.keep_orphans);
        let what = if clear { "no name: clear" } else { "no name: reconnect" };
        let draft = Draft::benign(Id::InoUnref, what).ino(ino).before(format!("size {size}"));
        if self.should_fix(draft)? {
            if clear {
                return self.clear(ino, Blocks::Free);
            }
            if self.reconnect(ino)? {
                let rec = self.inodes.get(ino);
                return self.adjust_links(ino, rec);
            }
            self.resolver.repair_failed();
        } else if clear {
            return Ok(());
        }
        let draft = Draft::fatal(Id::InoUnref, "no name and not reconnected: clear").ino(ino);
        if !self.resolver.is_preen() && self.should_fix(draft.alternative())? {
            self.clear(ino, Blocks::Free)?;
        }
        Ok(())
    }

    fn adjust_links(&mut self, ino: Ino, rec: InoStat) -> Res<()> {
        let names = i64::from(rec.nlink) - i64::from(rec.unaccounted);
        let right = u16::try_from(names.clamp(0, NLINK_MAX.into())).unwrap_or(NLINK_MAX);
        if right == rec.nlink {
            return Ok(());
        }
        let draft = if right < rec.nlink {
            Draft::benign(Id::LinkHigh, "link count too high")
        } else {
            Draft::fatal(Id::LinkLow, "link count too low")
        };
        if self.should_fix(draft.ino(ino).before(rec.nlink).after(right))? {
            if self.in_background() {
                let file = self.file_id(ino)?;
                self.correct(Correction::AdjRefCnt { file, less: rec.nlink - right });
            }
            let mut node = self.read_inode(ino)?;
            node.d.nlink = right;
            self.write_inode(&mut node)?;
            self.inodes.update(ino, |r| {
                r.nlink = right;
                r.unaccounted = 0;
            });
        }
        Ok(())
    }

    /// Clears inode `ino`.
    fn clear(&mut self, ino: Ino, blocks: Blocks) -> Res<()> {
        if self.in_background() {
            return self.correct_nameless(ino, self.inodes.get(ino).nlink);
        }
        if blocks == Blocks::Free {
            let mut node = self.read_inode(ino)?;
            self.release(&mut node)?;
        }
        self.clear_inode(ino)?;
        self.inodes.set(ino, InoStat::default());
        self.dirs.remove(ino);
        Ok(())
    }
}
