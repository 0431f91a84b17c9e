//! Writing file content.
//!
//! # Invariants
//! 1. Bytes of a block that were never written are zeros: a new block is, a block whose end was not
//!    written is zeroed to its end, and when a file grows past its old end the rest of the old last
//!    block is zeroed, whatever another system left there.
//! 2. After a short write size, times and blocks are those of the bytes written.
//!
//! Reference: `spec/soft-updates.md` §6.9.

use super::{BufFill, InodeView, LockedInode};
use crate::alloc::Reserve;
use crate::error::{Error, Result};
use crate::ordering::InodeChange;
use ffs_ondisk::Lbn;

/// Bytes written between two looks at the amount of dirty buffers. Whole blocks: no image of a block
/// shows half of what one call writes to it.
const THROTTLE_BYTES: usize = 1 << 20;

impl<'a> LockedInode<'a> {
    /// Writes `bytes` at byte `off`; returns how many were written: fewer than given if space or the
    /// device ended in the middle. Sets the times and updates the inode. Set-id bits are the
    /// caller's business.
    ///
    /// # Errors
    /// [`Error::TooBig`], [`Error::NoSpace`], [`Error::Format`], the device's: nothing was written.
    pub(crate) fn write_at(&mut self, off: u64, bytes: &[u8], reserve: Reserve) -> Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let end = off.checked_add(bytes.len() as u64).ok_or(Error::TooBig)?;
        if end > self.view().size_limit() {
            return Err(Error::TooBig);
        }
        self.ump.throttle_within()?;
        // Pinned, so that the update at the end finds it.
        let _inode_block = self.ump.inode_block(self.ip.ino)?;
        self.view().zero_gap(off)?;
        let mut done = 0;
        let mut stopped = None;
        while done < bytes.len() {
            let within = (off + done as u64) as usize % THROTTLE_BYTES;
            let upto = bytes.len().min(done + THROTTLE_BYTES - within);
            let part = bytes.get(done..upto).unwrap_or(&[]);
            let (n, error) = self.write_part(off + done as u64, part, reserve);
            done += n;
            let error = error.or_else(|| {
                // The end is the next call's first look.
                (done < bytes.len()).then(|| self.ump.throttle_within().err()).flatten()
            });
            if error.is_some() {
                stopped = error;
                break;
            }
        }
        match stopped {
            Some(e) if done == 0 => Err(e),
            _ => {
                self.touch_modified();
                self.update(InodeChange::Grow)?;
                Ok(done)
            }
        }
    }

    /// Writes block by block; returns how far it came and why not further.
    pub(super) fn write_part(
        &mut self,
        off: u64,
        bytes: &[u8],
        reserve: Reserve,
    ) -> (usize, Option<Error>) {
        let mut done = 0;
        while let Some(rest) = bytes.get(done..).filter(|r| !r.is_empty()) {
            match self.write_block(off + done as u64, rest, reserve) {
                Ok(n) => done += n,
                Err(e) => return (done, Some(e)),
            }
        }
        (done, None)
    }

    /// Writes the head of `bytes` into the one block that holds byte `pos`.
    fn write_block(&mut self, pos: u64, bytes: &[u8], reserve: Reserve) -> Result<usize> {
        let g = self.g();
        let (lbn, skip) = (g.lblkno(pos), g.blkoff(pos) as usize);
        let n = bytes.len().min(g.bsize as usize - skip);
        let end = pos + n as u64;
        let replaces_all = skip == 0 && (n == g.bsize as usize || end >= self.data.d.size);
        let upto = (skip + n) as u32;
        let fill = if replaces_all { BufFill::Arbitrary } else { BufFill::Valid };
        let granted = self.balloc(lbn, upto, fill, reserve)?;
        let at = {
            let mut block = granted.buf.write();
            if let (Some(to), Some(from)) = (block.bytes.get_mut(skip..skip + n), bytes.get(..n)) {
                to.copy_from_slice(from);
            }
            if replaces_all && let Some(rest) = block.bytes.get_mut(n..) {
                rest.fill(0);
            }
            block.addr
        };
        self.ump.cache.apply(&granted.buf, granted.then)?;
        drop(granted);
        if skip + n == g.bsize as usize {
            self.cluster_written(lbn, at);
        }
        Ok(n)
    }
}

impl<'a> InodeView<'a> {
    /// Before the file grows to hold byte `off`: zeros what the old last block has beyond the end.
    pub(super) fn zero_gap(self, off: u64) -> Result<()> {
        let g = self.g();
        let (size, skip) = (self.data.d.size, g.blkoff(self.data.d.size) as usize);
        if off <= size || skip == 0 {
            return Ok(());
        }
        let last = g.lblkno(size);
        let upto = if g.lblkno(off) == last { g.blkoff(off) as usize } else { g.bsize as usize };
        self.zero_in_block(last, skip, upto)
    }

    /// Zeros bytes `from..upto` of a block, as far as it has a place.
    pub(super) fn zero_in_block(self, lbn: Lbn, from: usize, upto: usize) -> Result<()> {
        let Some(buf) = self.read_block(lbn)? else { return Ok(()) };
        let zero = {
            let block = buf.read();
            let upto = upto.min(block.bytes.len());
            block.bytes.get(from..upto).is_none_or(|b| b.iter().all(|&b| b == 0))
        };
        if zero {
            return Ok(());
        }
        {
            let mut block = buf.write();
            let upto = upto.min(block.bytes.len());
            if let Some(b) = block.bytes.get_mut(from..upto) {
                b.fill(0);
            }
        }
        self.ump.cache.mark_dirty(&buf);
        Ok(())
    }
}
