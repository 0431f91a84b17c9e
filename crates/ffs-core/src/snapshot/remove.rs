//! Removing a snapshot (FreeBSD: `ffs_snapremove`).
//!
//! # Invariants
//! 1. A block that the snapshot took over goes to the oldest other snapshot that reads it in place.
//!    The removed snapshot's pointer is cleared and durable before the other one's is written, so a
//!    block never has two owners. In between it has none and stays allocated, and pointer 0 of the
//!    other snapshot leads to it.
//! 2. On return the map has no marks: its pointers are 0 or blocks of the file, which an ordinary
//!    truncation frees.
//!
//! Reference: `spec/snapshots.md` §7, §12.

use super::map::blocks_of_leaf;
use super::{Fate, LOG, PointerMap, Snapshots};
use crate::error::Result;
use ffs_ondisk::snapshot::image_blocks;
use ffs_ondisk::{Dinode, FileFlags, FragNo, Ino, Lbn};
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
        let passed = self.clear_marks(&mut map)?;
        map.write(self.dev())?;
        self.flush()?;
        let lost = self.block_sectors().saturating_mul(passed.len() as i64);
        info!(target: LOG, ino = ino.0, passed = passed.len(), "snapshot removed");
        self.take_over(&passed)?;
        if !self.is_active() {
            // No snapshot needs copies any more.
            self.release_places();
        }
        d.db = map.direct();
        d.blocks = d.blocks.saturating_sub(lost.unsigned_abs());
        d.flags.remove(FileFlags::SF_SNAPSHOT);
        Ok(())
    }

    /// Clears the marks in `map`, and the pointers to blocks that other snapshots need.
    fn clear_marks(&self, map: &mut PointerMap) -> Result<Vec<Lbn>> {
        let g = *self.g();
        let image = image_blocks(&g);
        let mut passed = Vec::new();
        let direct = 0..blocks_of_leaf(&g, 0, map.blocks()).start.min(image);
        let leaves = (0..map.leaves().len() as u64).map(|k| blocks_of_leaf(&g, k, image));
        for blocks in std::iter::once(direct).chain(leaves) {
            // One leaf at a time: writers need the lock.
            let mut st = self.lock();
            for lbn in blocks.map(Lbn) {
                let raw = map.pointer(self.dev(), lbn)?;
                let own = lbn.0.saturating_mul(g.frag.into());
                if raw == 0 {
                    continue;
                }
                if raw > 0 && raw < i64::from(g.frag).max(3) {
                    map.set(self.dev(), lbn, 0)?;
                } else if u64::try_from(raw) == Ok(own) {
                    let mut is_needed = false;
                    for s in &mut st.list {
                        is_needed |= s.needs(self.dev(), lbn)?;
                    }
                    if is_needed {
                        map.set(self.dev(), lbn, 0)?;
                        passed.push(lbn);
                    }
                }
            }
        }
        Ok(passed)
    }

    /// Offers blocks without an owner to the other snapshots, and frees those that none needs any
    /// more.
    fn take_over(&self, passed: &[Lbn]) -> Result<()> {
        let mut left = Vec::new();
        {
            let mut st = self.lock();
            for &lbn in passed {
                if self.offer(&mut st, lbn)? == Fate::Free {
                    left.push(FragNo(lbn.0.saturating_mul(self.g().frag.into())));
                }
            }
            st.list.iter_mut().try_for_each(|s| s.map.write(self.dev()))?;
        }
        self.free_places(&left);
        Ok(())
    }
}
