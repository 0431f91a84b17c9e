//! The worklist: work that has become safe, and totals of the work to come.
//!
//! # Invariants
//! 1. The totals count work from its first mention until [`Worklist::take`] has returned it;
//!    removals only until their work is on the list.

use super::log::LOG;
use crate::ordering::{FreedRuns, Pending, WorkItem};
use ffs_ondisk::Ino;
use std::collections::VecDeque;
use tracing::trace;

/// Items for which an empty list keeps its memory.
const KEPT: usize = 64;

/// The worklist.
#[derive(Debug, Default)]
pub(super) struct Worklist {
    items: VecDeque<WorkItem>,
    removals: u64,
    frags: u64,
    inodes: u64,
}

/// Lowers a total, which counts at least `by`.
fn subtract(total: &mut u64, by: u64) {
    debug_assert!(*total >= by, "a total of {total} loses {by}");
    *total = total.saturating_sub(by);
}

impl Worklist {
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Takes the oldest items, at most `max`.
    pub(super) fn take(&mut self, max: usize) -> Vec<WorkItem> {
        let n = max.min(self.items.len());
        let taken: Vec<WorkItem> = self.items.drain(..n).collect();
        if self.items.is_empty() {
            self.items.shrink_to(max.min(KEPT));
        }
        for item in &taken {
            trace!(target: LOG, ?item, "work taken");
            match item {
                WorkItem::FreeBlks(runs) => subtract(&mut self.frags, runs.frags()),
                WorkItem::FreeFile { .. } => subtract(&mut self.inodes, 1),
                WorkItem::DropLinks { .. } => {}
            }
        }
        taken
    }

    fn push(&mut self, item: WorkItem) {
        trace!(target: LOG, ?item, "work is due");
        self.items.push_back(item);
    }

    /// Runs will be free later.
    pub(super) fn expect_frags(&mut self, runs: &FreedRuns) {
        self.frags += runs.frags();
    }

    /// Runs of [`Worklist::expect_frags`] can be marked free.
    pub(super) fn free_blocks(&mut self, runs: FreedRuns) {
        if !runs.is_empty() {
            self.push(WorkItem::FreeBlks(runs));
        }
    }

    /// Runs can be marked free at once.
    pub(super) fn free_blocks_now(&mut self, runs: FreedRuns) {
        self.expect_frags(&runs);
        self.free_blocks(runs);
    }

    /// An inode will be free later.
    pub(super) fn expect_inode(&mut self) {
        self.inodes += 1;
    }

    /// An inode of [`Worklist::expect_inode`] can be marked free.
    pub(super) fn free_file(&mut self, ino: Ino, was_dir: bool) {
        self.push(WorkItem::FreeFile { ino, was_dir });
    }

    /// A name was removed; its link drops later.
    pub(super) fn expect_removal(&mut self) {
        self.removals += 1;
    }

    /// A removal of [`Worklist::expect_removal`] is settled.
    pub(super) fn settle_removal(&mut self) {
        subtract(&mut self.removals, 1);
    }

    /// Links of `ino` can be dropped.
    pub(super) fn drop_links(&mut self, ino: Ino, by: u16) {
        if by > 0 {
            self.push(WorkItem::DropLinks { ino, by });
        }
    }

    /// Names removed whose links are not dropped.
    pub(super) fn removals(&self) -> u64 {
        self.removals
    }

    /// The totals.
    pub(super) fn totals(&self) -> Pending {
        let Worklist { removals, frags, inodes, .. } = *self;
        Pending { removals, frags, inodes, ..Pending::default() }
    }

    pub(super) fn items(&self) -> impl Iterator<Item = &WorkItem> {
        self.items.iter()
    }

    pub(super) fn bytes(&self) -> usize {
        let runs = self.items.iter().map(|item| match item {
            WorkItem::FreeBlks(runs) => runs.heap_bytes(),
            WorkItem::DropLinks { .. } | WorkItem::FreeFile { .. } => 0,
        });
        self.items.capacity() * size_of::<WorkItem>() + runs.sum::<usize>()
    }
}
