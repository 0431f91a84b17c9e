//! Blocks that are freed while snapshots exist (FreeBSD: `ffs_snapblkfree`).
//!
//! FreeBSD copies a block before a part of it is freed. Here it is copied only when the part is
//! overwritten: the write is preceded by the copy in any case.
//!
//! # Invariants
//! 1. A block that a snapshot reads in place never becomes wholly free: the oldest such snapshot
//!    takes it over. So the block is not used for a copy, whose write nothing precedes.
//! 2. Until the new pointer is durable, pointer 0 leads to the same block. The device may show
//!    parts of the block free: those that were freed before, and those by which a file grew. They
//!    are marked used there before the pointer is written.
//!
//! Reference: `spec/snapshots.md` §6, §12.

use super::{Snapshots, State};
use crate::counters::bump;
use crate::error::Result;
use crate::ordering::FragRun;
use crate::ordering::rules::{Rule, holds};
use ffs_ondisk::Lbn;
use ffs_ondisk::snapshot::{BLK_NOCOPY, BLK_SNAP, image_blocks};

/// Changed indirect blocks of a snapshot at which they are written.
const MAX_CHANGED: usize = 32;

impl Snapshots {
    /// Frees a run within one block, unless a snapshot takes the block over.
    ///
    /// # Errors
    /// As [`Alloc::free_frags`](crate::alloc::Alloc::free_frags); the device's. The run stays
    /// allocated.
    pub(crate) fn free_frags(&self, run: FragRun) -> Result<()> {
        let lbn = self.g().fragstoblks(run.at);
        if !self.is_active() || lbn.0 >= image_blocks(self.g()) {
            return self.alloc.free_frags(run);
        }
        // Held until the run is free: two runs of a block must not both leave the other one.
        let mut st = self.lock();
        if run.frags == self.g().frag {
            if !self.take_over(&mut st, lbn)? {
                self.alloc.free_frags(run)?;
            }
            return Ok(());
        }
        if !self.is_read_in_place(&mut st, run.at)? {
            self.pass_on(&mut st, lbn)?;
            return self.alloc.free_frags(run);
        }
        if !self.alloc.free_part(run)? {
            self.take_over(&mut st, lbn)?;
        }
        Ok(())
    }

    /// The oldest snapshot that reads a whole block in place becomes its owner. Returns whether
    /// there is one.
    fn take_over(&self, st: &mut State, lbn: Lbn) -> Result<bool> {
        for index in 0..st.list.len() {
            let Some(s) = st.list.get_mut(index) else { break };
            if s.needs(self.dev(), lbn)? && holds(Rule::TakeOverFreed) {
                let own = s.map.take_over(self.dev(), lbn)?;
                s.growth += self.block_sectors();
                st.log_block(index, own);
                bump(&self.cache.counters.snapshot_takeovers);
                if st.list.iter().any(|s| s.map.changed() >= MAX_CHANGED) {
                    // The rest is written later.
                    drop(self.write_pointers(st));
                }
                return Ok(true);
            }
            if s.map.pointer(self.dev(), lbn)? == BLK_SNAP {
                s.map.set(self.dev(), lbn, BLK_NOCOPY)?;
            }
        }
        Ok(false)
    }

    /// No snapshot owns the block, and a part of it is freed: a newer snapshot has nothing to wait
    /// for.
    fn pass_on(&self, st: &mut State, lbn: Lbn) -> Result<()> {
        for s in &mut st.list {
            if s.map.pointer(self.dev(), lbn)? == BLK_SNAP {
                s.map.set(self.dev(), lbn, BLK_NOCOPY)?;
            }
        }
        Ok(())
    }
}
