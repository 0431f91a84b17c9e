//! Phase 1b: duplicate fragments.
//!
//! **Purpose.** A second scan finds the first owner of every duplicate fragment. Either each later
//! owner gets its own copies, or all owners become candidates for clearing and phase 2 asks which
//! to keep. A listed snapshot with duplicates is removed: its pointer may be the wrong one, and a
//! snapshot shows no content that may be wrong.
//!
//! **Invariants.**
//! 1. The scan visits inodes and pointers in the order of phase 1, so that both have the same first
//!    owner.
//! 2. The number of copied fragments is limited. An inode whose pointers would need more becomes a
//!    candidate for clearing.
//!
//! References: spec/fsck-and-crash.md §3.2.

use ffs_ondisk::{CgNo, FragNo, Ino};

use super::bitmap::Bitmap;
use super::blkcheck::{SNAP_NOCOPY, SNAP_OTHER};
use super::buffered::Class;
use super::checker::Checker;
use super::inode::Inode;
use super::inoinfo::State;
use super::report::{Id, Phase};
use super::resolve::{Draft, Res};
use super::walk::{Action, BlockPointer, Visitor};

/// Limit on the fragments copied in one round.
const COPY_LIMIT: u64 = 1 << 16;

impl Checker<'_> {
    /// Handles the duplicates that phase 1 found, if any.
    pub(super) fn phase1b(&mut self) -> Res<()> {
        if self.dups.is_none() {
            return Ok(());
        }
        let inodes = (0..self.g.ncg).map(|c| self.inodes.in_group(CgNo(c)).len() as u64).sum();
        self.begin_phase(Phase::Duplicates, inodes)?;
        let mut rescan = Rescan {
            owned: Bitmap::new(self.g.size),
            snapshot: false,
            listed: false,
            copy: self.copying,
            all_dup_level: None,
            budget: COPY_LIMIT,
            has_dups: false,
            failed: false,
        };
        for c in 0..self.g.ncg {
            for index in 0..self.inodes.in_group(CgNo(c)).len() as u32 {
                let ino = Ino(c * self.g.ipg + index);
                if self.inodes.get(ino).state != State::Unallocated && ino.0 >= 2 {
                    self.rescan_inode(ino, &mut rescan)?;
                }
                self.advance(1);
            }
            self.check_interrupt()?;
        }
        if self.copying {
            self.restart_after_phase();
        }
        self.end_phase()
    }

    fn rescan_inode(&mut self, ino: Ino, rescan: &mut Rescan) -> Res<()> {
        let mut node = self.read_inode(ino)?;
        let listed = self.is_listed_snapshot(&node);
        rescan.begin_inode(&node, listed);
        self.walk(&mut node, rescan)?;
        if listed && rescan.has_dups {
            if !self.remove_snapshot(ino, "others use its blocks, too")? {
                self.inodes.update(ino, |r| r.state = State::DupBad);
            }
            return Ok(());
        }
        if node.changed {
            self.write_inode(&mut node)?;
        }
        if rescan.failed || (rescan.has_dups && !rescan.copy) {
            self.inodes.update(ino, |r| r.state = State::DupBad);
            self.dirs.remove(ino);
            if rescan.failed {
                let message = "no space for copies of duplicate fragments: clear the inode";
                let draft = Draft::fatal(Id::InoBadDup, message).ino(ino);
                if self.should_fix(draft)? {
                    self.clear_inode(ino)?;
                }
            }
        }
        Ok(())
    }

    /// Copies the blocks of `run` to free fragments; `None` if there is no space.
    fn copy_run(&mut self, run: &BlockPointer) -> Res<Option<FragNo>> {
        let Some(new) = self.alloc_frags(run.frags)? else { return Ok(None) };
        let bytes = self.disk.read(run.frag(), (run.frags * self.g.fsize) as usize)?;
        self.disk.write(new, &bytes, Class::Data)?;
        Ok(Some(new))
    }
}

/// Finds the first and the later owners of duplicate fragments.
struct Rescan {
    owned: Bitmap,
    snapshot: bool,
    /// A snapshot that the superblock lists: its blocks are not copied.
    listed: bool,
    copy: bool,
    /// Below a copied indirect block of this level every block is a duplicate.
    all_dup_level: Option<usize>,
    budget: u64,
    has_dups: bool,
    failed: bool,
}

impl Rescan {
    fn begin_inode(&mut self, node: &Inode, listed: bool) {
        self.snapshot = node.is_snapshot();
        self.listed = listed;
        self.all_dup_level = None;
        self.has_dups = false;
        self.failed = false;
    }

    /// Whether an earlier pointer owns a part of the run; if not, this pointer becomes its owner.
    fn is_later_owner(&mut self, ck: &Checker<'_>, run: &BlockPointer) -> bool {
        if self.all_dup_level.is_some_and(|level| run.ext || run.level >= level) {
            self.all_dup_level = None;
        }
        let from = run.frag().0;
        let range = from..from + u64::from(run.frags);
        if self.all_dup_level.is_some() {
            return true;
        }
        let dups: Vec<u64> = range.filter(|&f| ck.is_dup(f)).collect();
        self.has_dups |= !dups.is_empty();
        if dups.iter().any(|&f| self.owned.get(f)) {
            return true;
        }
        dups.into_iter().for_each(|f| self.owned.set(f));
        false
    }
}

impl Visitor for Rescan {
    fn visit(&mut self, ck: &mut Checker<'_>, run: &BlockPointer) -> Res<Action> {
        let special = run.at == SNAP_NOCOPY || run.at == SNAP_OTHER;
        if (self.snapshot && !run.ext && special)
            || ck.g.run_problem(run.frag(), run.frags).is_some()
        {
            return Ok(Action::Skip);
        }
        if !self.is_later_owner(ck, run) {
            return Ok(Action::Keep);
        }
        if !self.copy || self.listed {
            return Ok(Action::Skip);
        }
        let cost = u64::from(run.frags);
        if self.budget < cost {
            self.failed = true;
            return Ok(Action::Stop);
        }
        self.budget -= cost;
        let Some(new) = ck.copy_run(run)? else {
            self.failed = true;
            return Ok(Action::Stop);
        };
        if run.level > 0 && self.all_dup_level.is_none() {
            self.all_dup_level = Some(run.level);
        }
        Ok(Action::Replace(new.pointer()))
    }
}
