//! Freeing blocks to which no pointer of a file leads (`freeblks`, `indir_trunc`).
//!
//! # Invariants
//! 1. The buffer of a block is discarded before the block is freed.
//! 2. Freeing continues after a bad pointer, until [`MAX_BAD`] of them were found. So indirect
//!    blocks that form a cycle cost no more steps than the volume has blocks.
//!
//! Reference: `spec/soft-updates.md` §6.11, §11.2.

use super::InodeView;
use super::bmap::Node;
use super::lifecycle::place;
use crate::buf::{BufKey, BufRef};
use crate::error::{Error, Result};
use crate::ordering::{Event, FragRun, FreeWhen, FreedRuns};
use ffs_ondisk::bmap::pointer;
use ffs_ondisk::snapshot::is_mark;
use ffs_ondisk::{FragNo, Geometry, Lbn, Structure};
use std::ops::RangeInclusive;

/// The number of bad pointers after which freeing stops.
const MAX_BAD: u32 = 16;

/// A cleared pointer, whose blocks are to be freed.
pub(super) struct Detached {
    /// The value of the pointer.
    pub(super) raw: i64,
    /// The indirect block at that address; level 0 is data.
    pub(super) node: Node,
    /// The in-core name of the block.
    pub(super) name: i64,
    /// Fragments of the run; of an indirect block, a block.
    pub(super) frags: u32,
}

impl Detached {
    /// A run of data, or of attributes, of the block `name`.
    pub(super) fn data(raw: i64, frags: u32, name: i64) -> Detached {
        Detached { raw, node: Node { level: 0, first: Lbn(0) }, name, frags }
    }

    /// The whole block of a node.
    pub(super) fn block(raw: i64, node: Node, frags: u32) -> Detached {
        let name = match node.level {
            0 => i64::try_from(node.first.0).unwrap_or(i64::MAX),
            _ => node.name(),
        };
        Detached { raw, node, name, frags }
    }

    /// The name and the run, if the pointer is valid.
    pub(super) fn run(&self, g: &Geometry) -> Option<(i64, FragRun)> {
        let at = FragNo(u64::try_from(self.raw).ok()?);
        let valid = g.run_problem(at, self.frags).is_none();
        valid.then_some((self.name, FragRun { at, frags: self.frags }))
    }
}

/// The progress of freeing.
#[derive(Default)]
pub(super) struct Freed {
    /// Fragments freed.
    pub(super) frags: u64,
    /// The first error.
    pub(super) error: Option<Error>,
    /// Bad pointers.
    bad: u32,
    /// The file is a snapshot: pointer values below a block are marks without an address.
    snapshot: bool,
    /// Runs to be freed later, adjacent ones merged; `None`: blocks are freed at once.
    later: Option<FreedRuns>,
    /// Indirect blocks are freed after the blocks below them.
    in_order: bool,
}

impl Freed {
    /// Counts a bad pointer. Its blocks stay allocated.
    fn fail(&mut self, e: Error) {
        self.bad += 1;
        self.error.get_or_insert(e);
    }
}

impl<'a> InodeView<'a> {
    /// Frees the blocks of cleared pointers.
    pub(super) fn free_all(self, all: &[Detached]) -> Result<()> {
        self.free_detached(all, &[], false).error.map_or(Ok(()), Err)
    }

    /// Frees the blocks of cleared pointers. `partial` has the names of the indirect blocks in
    /// which some of these pointers were.
    pub(super) fn free_detached(self, all: &[Detached], partial: &[i64], snapshot: bool) -> Freed {
        let ordering = &self.ump.ordering;
        let later = match ordering.notify(Event::BlocksReleased { ino: self.ip.ino }).free {
            FreeWhen::Now => None,
            FreeWhen::Later => Some(FreedRuns::default()),
        };
        let in_order = ordering.keeps_journal();
        let mut freed = Freed { snapshot, later, in_order, ..Freed::default() };
        for d in all {
            self.free_tree(d, &mut freed);
        }
        if let Some(runs) = freed.later.take().filter(|runs| !runs.is_empty()) {
            ordering.notify(Event::BlocksFreed { ino: self.ip.ino, runs, partial });
        }
        if freed.bad > 0 {
            self.ump.cache.set_needs_check();
        }
        freed
    }

    /// Frees the blocks below `d`, then the run of `d` itself.
    fn free_tree(self, d: &Detached, freed: &mut Freed) {
        let g = self.g();
        let mark = freed.snapshot && is_mark(g, d.raw);
        if freed.bad >= MAX_BAD || mark {
            return;
        }
        let s = if d.node.level == 0 { Structure::Inode } else { Structure::IndirectBlock };
        let at = match g.check_run(d.raw, d.frags, s, place(self.ip.ino)) {
            Ok(at) => at.unwrap_or(FragNo::HOLE),
            Err(e) => return freed.fail(e.into()),
        };
        if d.node.level > 0 {
            match self.indirect(d.node, d.raw) {
                Ok(buf) => self.free_children(d.node, &buf, freed),
                Err(e) => freed.fail(e),
            }
            self.forget_indirect(d.node);
        }
        let run = FragRun { at, frags: d.frags };
        let result = match &mut freed.later {
            None => self.ump.free_frags(run),
            Some(runs) => {
                let level = if freed.in_order { d.node.level } else { 0 };
                push_run(list_of(runs, level), run);
                Ok(())
            }
        };
        match result {
            Ok(()) => freed.frags += u64::from(d.frags),
            Err(e) => freed.fail(e),
        }
    }

    fn free_children(self, node: Node, buf: &BufRef, freed: &mut Freed) {
        let g = self.g();
        let below: Vec<(usize, i64)> = {
            let b = buf.read();
            let all = (0..g.nindir as usize).map(|k| (k, pointer(g, &b.bytes, k)));
            all.filter(|&(_, p)| p != 0).collect()
        };
        for (k, raw) in below {
            let child = node.child(g, k);
            self.free_tree(&Detached::block(raw, child, g.frag), freed);
        }
    }

    /// Discards the buffers of the file whose numbers are in `range`, with changes not yet written.
    pub(super) fn forget_blocks(self, range: RangeInclusive<i64>) {
        self.ump.cache.invalidate_range(self.ip.ino, range.clone());
        self.ump.ordering.notify(Event::BuffersDiscarded { ino: self.ip.ino, blocks: range });
    }

    /// Discards the buffer of an indirect block.
    pub(super) fn forget_indirect(self, node: Node) {
        let name = node.name();
        self.ump.cache.invalidate(BufKey::File(self.ip.ino, name));
        self.ump.ordering.notify(Event::BuffersDiscarded { ino: self.ip.ino, blocks: name..=name });
    }
}

/// The list for the blocks of nodes of this level.
fn list_of(runs: &mut FreedRuns, level: usize) -> &mut Vec<FragRun> {
    let Some(at) = level.checked_sub(1) else { return &mut runs.first };
    while runs.then.len() <= at {
        runs.then.push_back(Vec::new());
    }
    match runs.then.get_mut(at) {
        Some(list) => list,
        None => &mut runs.first,
    }
}

/// Appends a run. If it begins where the last one ends, the last one gets longer.
fn push_run(runs: &mut Vec<FragRun>, run: FragRun) {
    match runs.last_mut() {
        Some(last) if last.at.plus(last.frags.into()) == run.at => {
            last.frags = last.frags.saturating_add(run.frags);
        }
        _ => runs.push(run),
    }
}
