//! Writing the dirty buffers that the ordering mode lets the mount write now.
//!
//! A *pass* writes the dirty buffers that are ready and then flushes the device once. The flush
//! makes further buffers ready. Ordering modes that hold nothing back need one pass.

use super::UfsMount;
use crate::buf::{BufRef, Written};
use crate::counters::bump;
use crate::error::Result;
use crate::ordering::{Pending, Readiness};

/// Passes of one operation that found too much dirty.
const THROTTLE_PASSES: u32 = 16;

/// How much is dirty and what the ordering mode waits for. A pass that leaves it as it was changed
/// nothing.
pub(crate) type Outstanding = (usize, Pending);

impl UfsMount {
    /// How much is dirty and what the ordering mode waits for.
    pub(crate) fn outstanding(&self) -> Outstanding {
        (self.cache.dirty_count(), self.pending())
    }

    /// What the ordering mode waits for.
    pub(crate) fn pending(&self) -> Pending {
        Pending { steps: 0, ..self.ordering.pending() }
    }

    /// The most ready of `bufs`, and how ready they are.
    pub(crate) fn readiest(&self, bufs: Vec<BufRef>) -> (Readiness, Vec<BufRef>) {
        let mut best = (Readiness::Held, Vec::new());
        for buf in bufs {
            let ready = self.ordering.readiness(buf.key, buf.kind);
            if ready < best.0 {
                best = (ready, Vec::new());
            }
            if ready == best.0 {
                best.1.push(buf);
            }
        }
        best
    }

    /// Writes the most ready of `bufs`, but none whose write would change nothing on the device.
    pub(crate) fn write_readiest(&self, bufs: Vec<BufRef>) -> Written {
        match self.readiest(bufs) {
            (Readiness::Held, _) => Written::default(),
            (Readiness::Whole | Readiness::Partial, bufs) => self.cache.write_bufs(bufs),
        }
    }

    /// Flushes the device at the end of a pass.
    pub(crate) fn end_pass(&self) -> Result<()> {
        bump(&self.cache.counters.epochs);
        self.cache.flush_device()
    }

    /// Runs passes while too much is dirty. `work` does deferred work after each and returns how
    /// many items it did.
    ///
    /// # Errors
    /// The device's, if too much is still dirty. Other failed writes are reported to the operations
    /// that wait for them.
    pub(crate) fn write_while_too_dirty(&self, work: impl Fn() -> usize) -> Result<()> {
        for _ in 0..THROTTLE_PASSES {
            if !self.cache.is_too_dirty() {
                break;
            }
            let before = self.outstanding();
            let written = self.write_readiest(self.cache.dirty_bufs());
            if !self.cache.is_too_dirty() {
                break;
            }
            written.result()?;
            self.end_pass()?;
            if work() == 0 && self.outstanding() == before {
                break;
            }
        }
        Ok(())
    }

    /// Writes while too much is dirty, in the middle of an operation that may have inodes locked:
    /// so it does no deferred work.
    ///
    /// # Errors
    /// As [`UfsMount::write_while_too_dirty`].
    pub(crate) fn throttle_within(&self) -> Result<()> {
        self.write_while_too_dirty(|| 0)
    }
}
