//! Writing the dirty buffers that the ordering mode allows to be written now.
//!
//! A *pass* writes the dirty buffers that are ready and then flushes the device once. The flush
//! makes further buffers ready. Ordering modes that hold nothing back need one pass.

use super::UfsMount;
use crate::buf::{BufRef, Written};
use crate::counters::bump;
use crate::error::Result;
use crate::ordering::{Pending, Readiness};

/// Most passes of one operation that found too many dirty buffers.
const THROTTLE_PASSES: u32 = 16;

/// The number of dirty buffers, and the pending changes of the ordering mode. A pass that does not
/// change this value had no effect.
pub(crate) type Outstanding = (usize, Pending);

impl UfsMount {
    /// The number of dirty buffers, and the pending changes of the ordering mode.
    pub(crate) fn outstanding(&self) -> Outstanding {
        (self.cache.dirty_count(), self.pending())
    }

    /// The pending changes of the ordering mode.
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
        bump(&self.cache.counters.passes);
        self.cache.flush_device()
    }

    /// Runs passes while too many buffers are dirty. `work` does deferred work after each pass and
    /// returns how many items it did.
    ///
    /// # Errors
    /// The device's, if still too many buffers are dirty. Other failed writes are reported to the
    /// operations that wait for them.
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

    /// Writes while too many buffers are dirty. The operation in progress may have inodes locked,
    /// so this does no deferred work.
    ///
    /// # Errors
    /// As [`UfsMount::write_while_too_dirty`].
    pub(crate) fn throttle_within(&self) -> Result<()> {
        self.write_while_too_dirty(|| 0)
    }
}
