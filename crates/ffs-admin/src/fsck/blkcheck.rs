//! Phase 1: checks of the block pointers of one inode.
//!
//! References: spec/fsck-and-crash.md §3.1.

use ffs_ondisk::Ino;

use super::checker::Checker;
use super::corrections::{Correction, FileId};
use super::inode::Inode;
use super::report::Id;
use super::resolve::{Draft, Res, Stop};
use super::walk::{Action, BlockPointer, Visitor};

/// An inode with more bad pointers than this is invalid as a whole (`MAXBAD`).
const MAX_BAD: u32 = 10;
/// In a snapshot: the block was free.
pub(super) const SNAP_NOCOPY: i64 = 1;
/// In a snapshot: the block belongs to another snapshot.
pub(super) const SNAP_OTHER: i64 = 2;

/// Checks the block pointers of one inode and marks its fragments used.
#[derive(Debug)]
pub(super) struct BlockCheck {
    ino: Ino,
    file: FileId,
    size: u64,
    snapshot: bool,
    /// It is a snapshot that the superblock lists.
    listed: bool,
    /// The inode is cleared: it is a snapshot that has lost a block.
    pub(super) removed: bool,
    /// The answer on bad pointers, once given.
    drop_bad: Option<bool>,
    /// The answer on pointers beyond the size, once given.
    drop_extra: Option<bool>,
    /// Bad pointers.
    bad: u32,
    /// Pointers to fragments that were in use before.
    pub(super) dups: u32,
    /// Fragments of the inode.
    pub(super) frags: u64,
    /// Logical block after the last allocated one.
    pub(super) end: u64,
    /// The first logical block below the size that is not allocated.
    pub(super) first_hole: Option<u64>,
    /// A crash may leave pointers beyond the size: soft updates write a directory's pointer before
    /// the size that covers it.
    may_be_ahead: bool,
    /// A repair changed the size, so the next round checks the block count.
    pub(super) reshaped: bool,
}

impl BlockCheck {
    /// A check of `node` on a volume with or without soft updates. `listed`: it is a snapshot that
    /// the superblock lists.
    pub(super) fn new(node: &Inode, softdep: bool, listed: bool) -> BlockCheck {
        BlockCheck {
            may_be_ahead: softdep && node.d.is_dir(),
            ino: node.ino,
            file: node.id(),
            size: node.d.size,
            snapshot: node.is_snapshot(),
            listed,
            removed: false,
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

    /// Whether the repair of bad pointers was granted.
    pub(super) fn dropped_bad(&self) -> bool {
        self.drop_bad == Some(true)
    }

    /// Whether the repair of bad pointers was refused.
    pub(super) fn keeps_bad(&self) -> bool {
        self.drop_bad == Some(false)
    }

    fn bad_pointer(&mut self, ck: &mut Checker<'_>, run: &BlockPointer, why: &str) -> Res<Action> {
        self.bad += 1;
        if self.bad > MAX_BAD {
            return Ok(Action::Stop);
        }
        if self.listed && !run.ext {
            return self.lost_block(ck, run, why);
        }
        let drop = match self.drop_bad {
            Some(drop) => drop,
            None => {
                let message = format!("pointer {why}: drop such pointers");
                let draft = Draft::fatal(Id::BlkBad, message).ino(self.ino).place(run.place(&ck.g));
                let drop = ck.should_fix(draft.before(run.at).after(0))?;
                self.drop_bad = Some(drop);
                drop
            }
        };
        Ok(if drop { Action::Replace(0) } else { Action::Skip })
    }

    /// A listed snapshot has lost a block. The pointer 0 would show the present content of the
    /// volume, so the snapshot is removed.
    fn lost_block(&mut self, ck: &mut Checker<'_>, run: &BlockPointer, why: &str) -> Res<Action> {
        if self.drop_bad.is_none() {
            let why = format!("{}: pointer {} {why}", run.place(&ck.g), run.at);
            self.removed = ck.remove_snapshot(self.ino, &why)?;
            self.drop_bad = Some(false);
        }
        Ok(if self.removed { Action::Stop } else { Action::Skip })
    }
}

impl BlockCheck {
    /// Marks the blocks beyond the size used: the mount frees them when it drops the pointer.
    fn keep_past_end(&mut self, ck: &mut Checker<'_>, run: &BlockPointer) -> Res<Action> {
        if !ck.mark_if_unused(run) {
            return Err(Stop::Fatal);
        }
        if run.level > 0 {
            ck.walk_whole_indirect(run, self)?;
        }
        Ok(Action::Skip)
    }
}

impl Visitor for BlockCheck {
    fn visit(&mut self, ck: &mut Checker<'_>, run: &BlockPointer) -> Res<Action> {
        if self.snapshot && !run.ext && (run.at == SNAP_NOCOPY || run.at == SNAP_OTHER) {
            return Ok(Action::Skip);
        }
        if !ck.mark_if_unused(run) {
            if let Some(why) = ck.g.run_problem(run.frag(), run.frags) {
                return self.bad_pointer(ck, run, why);
            }
            ck.mark_used(run.frag(), run.frags);
            self.dups += 1;
            // Phase 1b removes a listed snapshot with duplicates.
            if self.dups == 1 && !self.listed {
                ck.report_dup(self.ino, run)?;
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

    fn past_end(&mut self, ck: &mut Checker<'_>, run: &BlockPointer) -> Res<Action> {
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
                let drop = ck.should_fix(draft.before(run.at).after(0))?;
                self.drop_extra = Some(drop);
                if drop {
                    let (file, size) = (self.file, self.size);
                    ck.correct(Correction::SetSize { file, size });
                }
                drop
            }
        };
        if drop && ck.in_background() {
            return self.keep_past_end(ck, run);
        }
        Ok(if drop { Action::Replace(0) } else { Action::Keep })
    }
}

/// Counts the fragments of an inode whose pointers have been checked.
#[derive(Debug, Default)]
pub(super) struct FragCount {
    /// Fragments of the inode.
    pub(super) frags: u64,
}

impl Visitor for FragCount {
    fn visit(&mut self, _: &mut Checker<'_>, run: &BlockPointer) -> Res<Action> {
        self.frags += u64::from(run.frags);
        Ok(Action::Keep)
    }
}

impl Checker<'_> {
    /// Marks the fragments of `run` used; `false`, with no change, if one of them is in use or they
    /// are not inside one block.
    ///
    /// An unused fragment is not metadata, because metadata is marked used first.
    fn mark_if_unused(&mut self, run: &BlockPointer) -> bool {
        let at = run.frag().0;
        let one_block = self.g.fragnum(run.frag()) + run.frags <= self.g.frag;
        at > 0 && one_block && self.used.set_run(at, run.frags)
    }

    /// Marks `n` fragments used; those that were in use before become duplicates.
    fn mark_used(&mut self, at: ffs_ondisk::FragNo, n: u32) {
        for f in at.0..at.0 + u64::from(n) {
            if self.used.get(f) {
                let size = self.g.size;
                self.dups.get_or_insert_with(|| super::bitmap::Bitmap::new(size)).set(f);
            } else {
                self.used.set(f);
            }
        }
    }

    /// Whether fragment `f` is a duplicate: more than one pointer refers to it.
    pub(super) fn is_dup(&self, f: u64) -> bool {
        self.dups.as_ref().is_some_and(|d| d.get(f))
    }

    /// Reports that inode `ino` refers to fragments that are in use already.
    fn report_dup(&mut self, ino: Ino, run: &BlockPointer) -> Res<()> {
        let message = "fragments that are in use already: give it copies of its own";
        let draft = Draft::fatal(Id::BlkDup, message).ino(ino).place(run.place(&self.g));
        let copy = self.should_fix(draft.before(run.at))?;
        self.copying |= copy;
        Ok(())
    }
}
