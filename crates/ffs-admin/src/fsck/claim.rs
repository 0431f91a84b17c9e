//! The visitors of phase 1: who claims which fragments.
//!
//! References: spec/fsck-and-crash.md §3.1.

use ffs_ondisk::Ino;

use super::Checker;
use super::judge::{Draft, Res};
use super::node::Node;
use super::report::Id;
use super::walk::{Action, Run, Visitor};

/// An inode with more bad pointers than this is taken for garbage.
const MANY_BAD: u32 = 10;
/// In a snapshot: the block was free.
pub(super) const SNAP_NOCOPY: i64 = 1;
/// In a snapshot: the block belongs to another snapshot.
pub(super) const SNAP_OTHER: i64 = 2;

/// Claims the blocks of one inode.
#[derive(Debug)]
pub(super) struct Claims {
    ino: Ino,
    snapshot: bool,
    drop_bad: Option<bool>,
    drop_extra: Option<bool>,
    bad: u32,
    /// Runs that something else claims too.
    pub(super) dups: u32,
    /// Fragments held.
    pub(super) frags: u64,
    /// Logical block after the last allocated one.
    pub(super) end: u64,
    /// The first logical block below the size that is not allocated.
    pub(super) first_hole: Option<u64>,
    /// Soft updates let a directory's pointer come before the size that covers it.
    may_be_ahead: bool,
    /// A repair changed the size: the block count is settled by the next pass.
    pub(super) reshaped: bool,
}

impl Claims {
    /// `softdep`: the volume promises soft updates.
    pub(super) fn of(node: &Node, softdep: bool) -> Claims {
        Claims {
            may_be_ahead: softdep && node.d.is_dir(),
            ino: node.ino,
            snapshot: node.is_snapshot(),
            drop_bad: None,
            drop_extra: None,
            bad: 0,
            dups: 0,
            frags: 0,
            end: 0,
            first_hole: None,
            reshaped: false,
        }
    }

    /// Whether bad pointers were dropped.
    pub(super) fn dropped_bad(&self) -> bool {
        self.drop_bad == Some(true)
    }

    /// Whether bad pointers stay in the inode.
    pub(super) fn keeps_bad(&self) -> bool {
        self.drop_bad == Some(false)
    }

    fn bad_pointer(&mut self, ck: &mut Checker<'_>, run: &Run, why: &str) -> Res<Action> {
        self.bad += 1;
        if self.bad > MANY_BAD {
            return Ok(Action::Stop);
        }
        let drop = match self.drop_bad {
            Some(drop) => drop,
            None => {
                let message = format!("pointer {why}: drop such pointers");
                let draft = Draft::fatal(Id::BlkBad, message).ino(self.ino).place(run.place(&ck.g));
                let drop = ck.ask(draft.before(run.at).after(0))?;
                self.drop_bad = Some(drop);
                drop
            }
        };
        Ok(if drop { Action::Replace(0) } else { Action::Skip })
    }
}

impl Visitor for Claims {
    fn run(&mut self, ck: &mut Checker<'_>, run: &Run) -> Res<Action> {
        if self.snapshot && !run.ext && (run.at == SNAP_NOCOPY || run.at == SNAP_OTHER) {
            return Ok(Action::Skip);
        }
        if !ck.claim_unused(run) {
            if let Some(why) = ck.g.run_problem(run.frag(), run.frags) {
                return self.bad_pointer(ck, run, why);
            }
            ck.claim(run.frag(), run.frags);
            self.dups += 1;
            if self.dups == 1 {
                ck.contest(self.ino, run)?;
            }
            return Ok(Action::Skip);
        }
        self.frags += u64::from(run.frags);
        if run.level == 0 && !run.ext {
            self.end = run.lbn + 1;
        }
        Ok(Action::Keep)
    }

    fn hole(&mut self, lbn: u64, _blocks: u64) {
        if self.first_hole.is_none_or(|first| lbn < first) {
            self.first_hole = Some(lbn);
        }
    }

    fn past_end(&mut self, ck: &mut Checker<'_>, run: &Run) -> Res<Action> {
        if run.in_inode && !run.ext {
            return Ok(Action::Keep);
        }
        let drop = match self.drop_extra {
            Some(drop) => drop,
            None => {
                let id = if run.ext { Id::Ext } else { Id::IndTrunc };
                let ahead = self.may_be_ahead && id == Id::IndTrunc;
                let draft = Draft::fatal_if(!ahead, id, "pointers beyond the size: drop them");
                let draft = draft.ino(self.ino).place(run.place(&ck.g));
                let drop = ck.ask(draft.before(run.at).after(0))?;
                self.drop_extra = Some(drop);
                drop
            }
        };
        Ok(if drop { Action::Replace(0) } else { Action::Keep })
    }
}

/// Counts the fragments of an inode whose pointers are known to be good.
#[derive(Debug, Default)]
pub(super) struct Count {
    /// Fragments held.
    pub(super) frags: u64,
}

impl Visitor for Count {
    fn run(&mut self, _: &mut Checker<'_>, run: &Run) -> Res<Action> {
        self.frags += u64::from(run.frags);
        Ok(Action::Keep)
    }
}

impl Checker<'_> {
    /// Claims the fragments of a run of a block of the volume, none of which is claimed; `false` if it is not that.
    ///
    /// Metadata is claimed before all else, so what is unused is no metadata.
    fn claim_unused(&mut self, run: &Run) -> bool {
        let at = run.frag().0;
        let one_block = self.g.fragnum(run.frag()) + run.frags <= self.g.frag;
        at > 0 && one_block && self.used.take(at, run.frags)
    }

    /// Claims `n` fragments, and marks as contested those that were claimed before.
    fn claim(&mut self, at: ffs_ondisk::FragNo, n: u32) {
        for f in at.0..at.0 + u64::from(n) {
            if self.used.get(f) {
                let size = self.g.size;
                self.dups.get_or_insert_with(|| super::bits::Bits::new(size)).set(f);
            } else {
                self.used.set(f);
            }
        }
    }

    /// Whether fragment `f` was claimed twice.
    pub(super) fn contested(&self, f: u64) -> bool {
        self.dups.as_ref().is_some_and(|d| d.get(f))
    }

    /// Inode `ino` claims fragments that are in use already.
    fn contest(&mut self, ino: Ino, run: &Run) -> Res<()> {
        let message = "fragments that are in use already: give it copies of its own";
        let draft = Draft::fatal(Id::BlkDup, message).ino(ino).place(run.place(&self.g));
        let copy = self.ask(draft.before(run.at))?;
        self.copying |= copy;
        Ok(())
    }
}
