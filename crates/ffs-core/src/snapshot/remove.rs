//! Removing a snapshot (FreeBSD: `ffs_snapremove`).
//!
//! A removed snapshot becomes an ordinary file, which an ordinary truncation frees. Blocks that it
//! took over are offered to the other snapshots when they are freed ([`super::free`]). By then the
//! pointer of the removed snapshot is cleared and durable, so a block never has two owners. Until
//! the other snapshot's pointer is durable, its pointer 0 leads to the same block.
//!
//! # Invariants
//! 1. When the file is an ordinary one, its pointers are 0 or blocks of the file.
//!
//! Reference: `spec/snapshots.md` §7, §12.

use super::map::blocks_of_leaf;
use super::{LOG, PointerMap, Snapshots};
use crate::error::Result;
use crate::ordering::rules::{Rule, holds};
use ffs_ondisk::snapshot::{image_blocks, is_mark};
use ffs_ondisk::{Dinode, FileFlags, Ino, Lbn};
use tracing::info;

impl Snapshots {
    /// Makes the snapshot `ino` an ordinary file: it is about to be freed. Clears its flag in `d`;
    /// the caller stores `d`.
    ///
    /// # Errors
    /// The device's. Then the snapshot stays a snapshot, though no longer an active one.
    pub(crate) fn make_ordinary(&self, ino: Ino, d: &mut Dinode) -> Result<()> {
        let mut map = match self.deactivate(ino) {
            Some(map) => map,
            None => PointerMap::load(self.g(), self.dev(), ino, d)?,
        };
        if holds(Rule::MarksBeforeOrdinary) {
            self.clear_marks(&mut map)?;
        }
        self.write_map(&mut map)?;
        self.flush()?;
        info!(target: LOG, ino = ino.0, "snapshot removed");
        if !self.is_active() {
            // No snapshot needs copies any more.
            self.release_places();
        }
        d.db = map.direct();
        d.flags.remove(FileFlags::SF_SNAPSHOT);
        Ok(())
    }

    /// Clears the pointers of `map` that are no addresses.
    fn clear_marks(&self, map: &mut PointerMap) -> Result<()> {
        let g = *self.g();
        let image = image_blocks(&g);
        let direct = 0..blocks_of_leaf(&g, 0, image).start.min(image);
        let leaves = (0..map.leaves().len() as u64).map(|k| blocks_of_leaf(&g, k, image));
        for lbn in std::iter::once(direct).chain(leaves).flatten().map(Lbn) {
            let raw = map.pointer(self.dev(), lbn)?;
            if is_mark(&g, raw) {
                map.set(self.dev(), lbn, 0)?;
            }
        }
        Ok(())
    }
}
