//! Buffers that are discarded with their changes: of truncated and removed files.
//!
//! # Invariants
//! 1. The dependents of a discarded block require the inode, and the indirect blocks, that do not
//!    name the block any more.

use super::dep::{Condition, DepKind, Holds, Level};
use super::engine::Softdep;
use super::invariant::broken;
use super::writes::Waiter;
use crate::buf::BufKey;
use crate::ordering::FreedRuns;
use ffs_ondisk::Ino;
use std::ops::RangeInclusive;

impl Softdep {
    /// See [`crate::ordering::Event::BuffersDiscarded`].
    pub(super) fn buffers_discarded(&mut self, ino: Ino, blocks: RangeInclusive<i64>) {
        let keys = BufKey::File(ino, *blocks.start())..=BufKey::File(ino, *blocks.end());
        let dirs: Vec<BufKey> = self.pagedeps.blocks(keys.clone()).map(|(key, _)| key).collect();
        let written: Vec<BufKey> = self.writes.keys(keys.clone()).collect();
        let indirects = self.indirdeps.keys(keys);
        dirs.into_iter().for_each(|key| self.forget_directory_block(ino, key));
        indirects.into_iter().for_each(|key| self.forget_indirect(ino, key));
        written.into_iter().for_each(|key| self.forget_block(ino, key));
        self.inodedeps.drop_idle(ino);
    }

    /// An indirect block is discarded with its pointers.
    fn forget_indirect(&mut self, ino: Ino, key: BufKey) {
        let Some(indirdep) = self.indirdeps.remove(key) else {
            return broken("an indirect block is discarded that is not listed");
        };
        self.stop_tracking_size(ino);
        let versions = indirdep.values().flat_map(|versions| versions.pending().iter().copied());
        // The device may still show the way to this block.
        let above = self.indirects_above(key);
        let frees = self.end_cleared_allocs(versions, ino, &above);
        self.free_after(ino, FreedRuns::unordered(frees), &above);
    }

    /// The block will not be written. Its waiters wait for the inode and the indirect blocks above:
    /// one of them lost the pointer.
    fn forget_block(&mut self, ino: Ino, key: BufKey) {
        let Some(waiters) = self.writes.remove(key) else {
            return broken("a block is discarded that has no pending change");
        };
        let above = self.indirects_above(key);
        for Waiter { id, .. } in waiters {
            if let Some(ext_attr) = self.graph.ext_attr_mut(id) {
                // No write contained it, so no write shows it.
                ext_attr.new = [0; 2];
            }
            self.require_inode(id, ino);
            if self.graph.kind(id).is_some_and(DepKind::is_work) {
                // Images may show the way to this block longer than the inode as stored now.
                for on in self.pending_holes(ino) {
                    self.graph.require(id, on, Level::Durable, Holds::Write);
                }
            }
            for &block in &above {
                self.require_block(id, BufKey::File(ino, block));
            }
            self.graph.satisfy(id, Condition::Block(key));
        }
    }
}
