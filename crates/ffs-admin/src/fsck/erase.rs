//! Erases free space after a successful check (`-Z`, `-E`).
//!
//! **Invariants.**
//! 1. Only fragments that the completed check found free are erased, and only after the commit.

use ffs_device::BlockDevice;
use ffs_ondisk::FragNo;

use super::checker::Checker;
use super::resolve::Res;

/// Bytes of one write.
const PIECE: u64 = 1 << 20;

impl Checker<'_> {
    /// Zeros, then discards, every run of free fragments.
    pub(super) fn erase_free_space(&mut self, dev: &dyn BlockDevice) -> Res<()> {
        let mut at = 0;
        while at < self.g.size {
            if self.used.get(at) {
                at += 1;
                continue;
            }
            let mut end = at;
            while end < self.g.size && !self.used.get(end) {
                end += 1;
            }
            self.check_interrupt()?;
            let from = self.g.frag_to_byte(FragNo(at));
            self.erase_range(dev, from, self.g.frag_to_byte(FragNo(end)) - from)?;
            at = end;
        }
        Ok(dev.flush()?)
    }

    fn erase_range(&self, dev: &dyn BlockDevice, from: u64, len: u64) -> Res<()> {
        if self.erase.zero {
            let zeros = vec![0; len.min(PIECE) as usize];
            let mut done = 0;
            while done < len {
                let n = (len - done).min(PIECE) as usize;
                dev.write_at(from + done, &zeros[..n])?;
                done += n as u64;
            }
        }
        if self.erase.discard {
            dev.discard(from, len)?;
        }
        Ok(())
    }
}
