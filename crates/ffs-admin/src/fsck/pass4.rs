//! Phase 4: reference counts.
//!
//! **Purpose.** What has no name gets one or is cleared; what has names gets the right link count.
//!
//! **Invariants.**
//! 1. Directories are cleared before files are judged, because clearing one takes away names.
//! 2. Clearing an inode marks exactly the fragments free that only it claims.
//!
//! References: spec/fsck-and-crash.md §3.5.

use ffs_ondisk::{CgNo, Ino};

use super::Checker;
use super::judge::{Draft, Res};
use super::report::{Id, Phase};
use super::tables::{NLINK_MAX, Rec, State};

impl Checker<'_> {
    /// Looks at the counts of all inodes.
    pub(super) fn phase4(&mut self) -> Res<()> {
        let inodes: u64 = (0..self.g.ncg).map(|c| self.inodes.in_group(CgNo(c)).len() as u64).sum();
        // Twice: directories first.
        self.enter(Phase::References, 2 * inodes)?;
        self.each_inode(Self::settle_directory)?;
        self.each_inode(Self::settle_count)?;
        self.leave()
    }

    fn each_inode(&mut self, mut f: impl FnMut(&mut Self, Ino, Rec) -> Res<()>) -> Res<()> {
        for c in 0..self.g.ncg {
            self.check_interrupt()?;
            let inodes = self.inodes.in_group(CgNo(c)).len() as u32;
            for index in 0..inodes {
                let rec = self.inodes.in_group(CgNo(c)).get(index as usize).copied();
                if let Some(rec) = rec.filter(|r| r.state != State::Free && !r.is_settled()) {
                    f(self, Ino(c * self.g.ipg + index), rec)?;
                }
            }
            self.advance(inodes.into());
        }
        Ok(())
    }

    /// Directories that will not stay.
    fn settle_directory(&mut self, ino: Ino, rec: Rec) -> Res<()> {
        if !rec.is_dir() {
            return Ok(());
        }
        match rec.state {
            State::Used => {
                // Phase 3 was not allowed to reconnect it, or what it hangs on.
                let draft = Draft::benign(Id::DirClear, "unreferenced directory: clear").ino(ino);
                if self.ask(draft)? {
                    self.doom_single(ino)?;
                    self.clear(ino, true)?;
                }
            }
            State::Doomed => {
                let draft = Draft::benign(Id::DirClear, "unreferenced directory: clear").ino(ino);
                if self.ask(draft)? {
                    self.clear(ino, true)?;
                }
            }
            State::ZeroDir if !rec.named() => {
                let draft = Draft::benign(Id::DirClear, "directory of size 0: clear").ino(ino);
                if self.ask(draft)? {
                    self.clear(ino, true)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A directory goes although what it contains may stay: its names no longer count.
    fn doom_single(&mut self, ino: Ino) -> Res<()> {
        self.give_back(ino)?;
        self.again();
        Ok(())
    }

    fn settle_count(&mut self, ino: Ino, rec: Rec) -> Res<()> {
        match rec.state {
            State::Candidate => {
                let draft = Draft::fatal(Id::InoBadDup, "bad or contested blocks: clear").ino(ino);
                if self.ask(draft)? {
                    self.clear(ino, false)?;
                    self.again();
                }
                return Ok(());
            }
            State::Free | State::ZeroDir | State::Doomed => return Ok(()),
            State::Used if rec.is_dir() => return Ok(()),
            State::Used | State::Found => {}
        }
        if rec.named() || rec.state == State::Found {
            return self.settle_links(ino, rec);
        }
        if rec.unlinked() {
            let draft = Draft::benign(Id::InoUnref0, "link count 0 and no name: clear").ino(ino);
            if self.ask(draft)? {
                self.clear(ino, true)?;
            }
            return Ok(());
        }
        self.unreferenced_file(ino)
    }

    /// A file with links but without a name.
    fn unreferenced_file(&mut self, ino: Ino) -> Res<()> {
        let size = self.node(ino)?.d.size;
        let crash = self.judge.preen() && self.softdep && self.judge.resolved;
        let clear = size == 0 || (crash && !self.keep_orphans);
        let what = if clear { "no name: clear" } else { "no name: reconnect" };
        let draft = Draft::benign(Id::InoUnref, what).ino(ino).before(format!("size {size}"));
        if self.ask(draft)? {
            if clear {
                return self.clear(ino, true);
            }
            if self.reconnect(ino)? {
                let rec = self.inodes.get(ino);
                return self.settle_links(ino, rec);
            }
            self.judge.repair_failed();
        } else if clear {
            return Ok(());
        }
        let draft = Draft::fatal(Id::InoUnref, "no name and not reconnected: clear").ino(ino);
        if !self.judge.preen() && self.ask(draft.place("clear"))? {
            self.clear(ino, true)?;
        }
        Ok(())
    }

    fn settle_links(&mut self, ino: Ino, rec: Rec) -> Res<()> {
        let names = i64::from(rec.nlink) - i64::from(rec.remaining);
        let right = u16::try_from(names.clamp(0, NLINK_MAX.into())).unwrap_or(NLINK_MAX);
        if right == rec.nlink {
            return Ok(());
        }
        let draft = if right < rec.nlink {
            Draft::benign(Id::LinkHigh, "link count too high")
        } else {
            Draft::fatal(Id::LinkLow, "link count too low")
        };
        if self.ask(draft.ino(ino).before(rec.nlink).after(right))? {
            let mut node = self.node(ino)?;
            node.d.nlink = right;
            self.save(&mut node)?;
            self.inodes.update(ino, |r| {
                r.nlink = right;
                r.remaining = 0;
            });
        }
        Ok(())
    }

    /// Frees inode `ino`; with `exact` its blocks too (else a later pass finds them free).
    fn clear(&mut self, ino: Ino, exact: bool) -> Res<()> {
        if exact {
            let mut node = self.node(ino)?;
            self.release(&mut node)?;
        }
        self.zero_inode(ino)?;
        self.inodes.set(ino, Rec::default());
        self.dirs.remove(ino);
        Ok(())
    }
}
