//! Rollback of pointers in the copy of an indirect block that is written (FreeBSD:
//! `initiate_write_indirdep`).
//!
//! Reference: `docs/spec/soft-updates.md` §4.4, §5.

use super::dep::DepId;
use super::engine::Softdep;
use super::graph::DepIds;
use super::log::LOG;
use super::pointer::{Shown, address, pointer_to};
use crate::buf::BufKey;
use ffs_ondisk::bmap;
use tracing::debug;

impl Softdep {
    /// Rolls back the changes that the copy `bytes` of an indirect block must not show, and lists
    /// the dependencies that it contains, and those `reverted`: rolled back although an earlier
    /// write may have shown them. Returns whether anything was rolled back.
    pub(super) fn roll_back_indirect(
        &self,
        key: BufKey,
        bytes: &mut [u8],
        contained: &mut Vec<DepId>,
        reverted: &mut DepIds,
    ) -> bool {
        // No pointer of the block is pending.
        let Some(indirdep) = self.indirdeps.get(key) else { return false };
        let mut rolled_back = false;
        for (&index, versions) in indirdep {
            let stored = address(bmap::pointer(&self.g, bytes, index as usize));
            let shown = if self.is_size_durable_over(key, index) {
                versions.shown(&self.graph, stored, |_| false)
            } else {
                Shown::Durable
            };
            contained.extend(shown.dep());
            let pointer = pointer_to(versions.run(&self.graph, shown));
            if !shown.is_last() {
                rolled_back = true;
                reverted.extend(self.graph.written(versions.since(shown)));
                debug!(target: LOG, %key, index, pointer, "pointer rolled back");
            }
            bmap::set_pointer(&self.g, bytes, index as usize, pointer);
        }
        rolled_back
    }

    /// Whether a write of the indirect block would roll anything back.
    pub(super) fn is_indirect_block_held(&self, key: BufKey) -> bool {
        self.indirdeps.get(key).is_some_and(|indirdep| {
            let mut pointers = indirdep.iter();
            pointers.any(|(&index, versions)| self.is_indirect_held(key, index, versions.last()))
        })
    }
}
