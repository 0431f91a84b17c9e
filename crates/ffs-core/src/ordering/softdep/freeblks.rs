//! Work that becomes due: link counts to lower, blocks and inodes to mark free.
//!
//! # Invariants
//! 1. A run is free when no pointer on the device names it.
//! 2. An inode is free after its blocks.
//!
//! Reference: `docs/spec/soft-updates.md` §4.5, §6.12.

use super::dep::{DepId, DepKind, Holds, Level};
use super::engine::Softdep;
use crate::buf::BufKey;
use crate::ordering::rules::{Rule, holds};
use crate::ordering::{FreeWhen, FreedRuns};
use ffs_ondisk::{FragNo, Ino};

impl Softdep {
    /// Puts an item of work that requires nothing on the worklist.
    pub(super) fn perform(&mut self, id: DepId) {
        match self.complete(id) {
            Some(DepKind::DropLinks { ino, by, name }) => {
                if let Some((hash, change)) = name {
                    self.pagedeps.forget_merged(hash, change.get());
                }
                self.links_can_drop(id, ino, by);
            }
            Some(DepKind::FreeBlks { ino, runs }) => {
                if let Some(extra) = self.inodedeps.extra_mut(ino) {
                    extra.freeblks.remove(&id);
                }
                self.worklist.free_blocks(*runs);
                self.inodedeps.drop_idle(ino);
            }
            Some(DepKind::FreeFile { ino, was_dir }) => self.worklist.free_file(ino, was_dir),
            other => debug_assert!(other.is_none(), "{other:?} is no work"),
        }
    }

    pub(super) fn perform_if_satisfied(&mut self, id: DepId) {
        if self.graph.is_satisfied(id) {
            self.perform(id);
        }
    }

    /// Frees `runs` when the inode as it is stored now is durable, and the indirect blocks
    /// `partial` with their pointers cleared.
    pub(super) fn free_after(&mut self, ino: Ino, runs: FreedRuns, partial: &[i64]) {
        if runs.is_empty() {
            return;
        }
        if !holds(Rule::ClearBeforeFree) {
            return self.worklist.free_blocks_now(runs);
        }
        self.worklist.expect_frags(&runs);
        let id = self.graph.insert(DepKind::FreeBlks { ino, runs: Box::new(runs) });
        self.inodedeps.extra_or_default(ino).freeblks.replace(id);
        self.require_inode(id, ino);
        for &block in partial {
            // The block as it was when the pointers were cleared: it has no new change.
            self.require_block(id, BufKey::File(ino, block));
        }
        let ext_attr = self.inodedeps.extra(ino).and_then(|extra| extra.ext_attr);
        for on in ext_attr.into_iter().chain(self.pending_holes(ino)) {
            self.graph.require(id, on, Level::Durable, Holds::Write);
        }
        self.perform_if_satisfied(id);
    }

    /// Frees indirect blocks when the groups in which the blocks below them are free are durable:
    /// `groups` are blocks of these groups.
    pub(super) fn leaves_freed(&mut self, groups: &[FragNo], runs: FreedRuns) {
        self.worklist.expect_frags(&runs);
        let id = self.graph.insert(DepKind::FreeBlks { ino: Ino(0), runs: Box::new(runs) });
        for &at in groups {
            let group = self.group_of(at);
            self.writes.note_change(group);
            if holds(Rule::LeavesBeforeTree) {
                self.require_block(id, group);
            }
        }
        self.perform_if_satisfied(id);
    }

    /// See [`crate::ordering::Event::BlocksReleased`].
    pub(super) fn blocks_released(&self, ino: Ino) -> FreeWhen {
        if self.inodedeps.is_unwritten(ino) { FreeWhen::Now } else { FreeWhen::Later }
    }
}
