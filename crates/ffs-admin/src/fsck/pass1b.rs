//! Phase 1b: contested fragments.
//!
//! **Purpose.** A second scan finds the first owner of every fragment that was claimed twice. Either each later
//! owner gets copies of its own, or all owners become candidates for clearing and phase 2 asks which to keep.
//!
//! **Invariants.**
//! 1. The scan meets inodes and pointers in the order of phase 1, so "first" means the same in both.
//! 2. Copies take free fragments of a limited number: pointers that multiply blocks without end run out of it,
//!    and their inode becomes a candidate.
//!
//! References: spec/fsck-and-crash.md §3.2.

use ffs_ondisk::{CgNo, FragNo, Ino};

use super::Checker;
use super::bits::Bits;
use super::claim::{SNAP_NOCOPY, SNAP_OTHER};
use super::judge::{Draft, Res};
use super::node::Node;
use super::report::{Id, Phase};
use super::store::Class;
use super::tables::State;
use super::walk::{Action, Run, Visitor};

/// Fragments that may be copied in one pass.
const COPY_LIMIT: u64 = 1 << 16;

impl Checker<'_> {
    /// Settles what phase 1 found contested; nothing to do if it found nothing.
    pub(super) fn phase1b(&mut self) -> Res<()> {
        if self.dups.is_none() {
            return Ok(());
        }
        let inodes = (0..self.g.ncg).map(|c| self.inodes.in_group(CgNo(c)).len() as u64).sum();
        self.enter(Phase::Duplicates, inodes)?;
        let mut rescan = Rescan {
            owned: Bits::new(self.g.size),
            snapshot: false,
            copy: self.copying,
            forced: None,
            budget: COPY_LIMIT,
            mine: false,
            failed: false,
        };
        for c in 0..self.g.ncg {
            for index in 0..self.inodes.in_group(CgNo(c)).len() as u32 {
                let ino = Ino(c * self.g.ipg + index);
                if self.inodes.get(ino).state != State::Free && ino.0 >= 2 {
                    self.rescan_inode(ino, &mut rescan)?;
                }
                self.advance(1);
            }
            self.check_interrupt()?;
        }
        if self.copying {
            self.restart();
        }
        self.leave()
    }

    fn rescan_inode(&mut self, ino: Ino, rescan: &mut Rescan) -> Res<()> {
        let mut node = self.node(ino)?;
        rescan.begin(&node);
        self.walk(&mut node, rescan)?;
        if node.changed {
            self.save(&mut node)?;
        }
        if rescan.failed || (rescan.mine && !rescan.copy) {
            self.inodes.update(ino, |r| r.state = State::Candidate);
            self.dirs.remove(ino);
            if rescan.failed {
                let message = "no room for copies of contested fragments: clear the inode";
                let draft = Draft::fatal(Id::InoBadDup, message).ino(ino);
                if self.ask(draft)? {
                    self.zero_inode(ino)?;
                }
            }
        }
        Ok(())
    }

    /// A copy of the blocks of `run` in free fragments; `None` if there is no room.
    fn copy_run(&mut self, run: &Run) -> Res<Option<FragNo>> {
        let Some(new) = self.alloc_frags(run.frags)? else { return Ok(None) };
        let bytes = self.store.read(run.frag(), (run.frags * self.g.fsize) as usize)?;
        self.store.write(new, &bytes, Class::Data)?;
        Ok(Some(new))
    }
}

/// Finds first and later owners.
struct Rescan {
    owned: Bits,
    snapshot: bool,
    copy: bool,
    /// Below a copied indirect block of this level everything is contested.
    forced: Option<usize>,
    budget: u64,
    mine: bool,
    failed: bool,
}

impl Rescan {
    fn begin(&mut self, node: &Node) {
        self.snapshot = node.is_snapshot();
        self.forced = None;
        self.mine = false;
        self.failed = false;
    }

    /// Whether an earlier pointer owns a part of the run; if none does this one owns it.
    fn later(&mut self, ck: &Checker<'_>, run: &Run) -> bool {
        if self.forced.is_some_and(|level| run.ext || run.level >= level) {
            self.forced = None;
        }
        let from = run.frag().0;
        let range = from..from + u64::from(run.frags);
        if self.forced.is_some() {
            return true;
        }
        let contested: Vec<u64> = range.filter(|&f| ck.contested(f)).collect();
        self.mine |= !contested.is_empty();
        if contested.iter().any(|&f| self.owned.get(f)) {
            return true;
        }
        contested.into_iter().for_each(|f| self.owned.set(f));
        false
    }
}

impl Visitor for Rescan {
    fn run(&mut self, ck: &mut Checker<'_>, run: &Run) -> Res<Action> {
        let mark = run.at == SNAP_NOCOPY || run.at == SNAP_OTHER;
        if (self.snapshot && !run.ext && mark) || ck.g.run_problem(run.frag(), run.frags).is_some()
        {
            return Ok(Action::Skip);
        }
        if !self.later(ck, run) {
            return Ok(Action::Keep);
        }
        if !self.copy {
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
        if run.level > 0 && self.forced.is_none() {
            self.forced = Some(run.level);
        }
        Ok(Action::Replace(i64::try_from(new.0).unwrap_or(0)))
    }
}
