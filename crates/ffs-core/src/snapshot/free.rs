//! Blocks that are freed while snapshots exist (FreeBSD: `ffs_snapblkfree`).
//!
//! # Invariants
//! 1. A whole block that a snapshot reads in place stays allocated: the oldest such snapshot takes
//!    it over. The new pointer needs no order: until it is durable, pointer 0 leads to the same
//!    block.
//! 2. Before a part of a block is freed, every snapshot that reads the block in place gets a copy.
//!
//! Reference: `spec/snapshots.md` §6, §12.

use super::{Snapshots, State};
use crate::counters::bump;
use crate::error::Result;
use crate::ordering::FragRun;
use ffs_ondisk::Lbn;
use ffs_ondisk::snapshot::{BLK_NOCOPY, BLK_SNAP, image_blocks};

/// Changed indirect blocks of a snapshot at which they are written.
const MAX_CHANGED: usize = 32;

/// What happens to a run that its file gives up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// The caller marks it free.
    Free,
    /// A snapshot owns it now: it stays allocated.
    TakenOver,
}

impl Snapshots {
    /// A run within one block is about to be marked free.
    ///
    /// # Errors
    /// A copy could not be made: the run must stay allocated.
    pub(crate) fn before_free(&self, run: FragRun) -> Result<Fate> {
        if !self.is_active() {
            return Ok(Fate::Free);
        }
        let lbn = self.g().fragstoblks(run.at);
        if lbn.0 >= image_blocks(self.g()) {
            return Ok(Fate::Free);
        }
        let mut st = self.lock();
        if run.frags == self.g().frag {
            return self.offer(&mut st, lbn);
        }
        let frags = run.at.0..run.at.0 + u64::from(run.frags);
        self.copy(&mut st, &mut std::iter::once(frags))?;
        self.give_up(&mut st, lbn)?;
        Ok(Fate::Free)
    }

    /// Offers a whole block to the snapshots, oldest first.
    fn offer(&self, st: &mut State, lbn: Lbn) -> Result<Fate> {
        for index in 0..st.list.len() {
            let Some(s) = st.list.get_mut(index) else { break };
            if s.needs(self.dev(), lbn)? {
                let own = self.g().blkstofrags(lbn);
                s.map.set(self.dev(), lbn, own.pointer())?;
                s.growth += self.block_sectors();
                if s.map.changed() >= MAX_CHANGED {
                    // The rest is written later.
                    drop(s.map.write(self.dev()));
                }
                st.log_block(index, own);
                bump(&self.cache.counters.snapshot_takeovers);
                return Ok(Fate::TakenOver);
            }
            if s.map.pointer(self.dev(), lbn)? == BLK_SNAP {
                s.map.set(self.dev(), lbn, BLK_NOCOPY)?;
            }
        }
        Ok(Fate::Free)
    }

    /// An older snapshot gave up (a part of) the block.
    fn give_up(&self, st: &mut State, lbn: Lbn) -> Result<()> {
        for s in &mut st.list {
            if s.map.pointer(self.dev(), lbn)? == BLK_SNAP {
                s.map.set(self.dev(), lbn, BLK_NOCOPY)?;
            }
        }
        Ok(())
    }
}
