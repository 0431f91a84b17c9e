//! Writing file content.
//!
//! # Invariants
//! 1. Bytes of a block that were never written are zeros. A new block is zeroed, or zeroed from the
//!    end of the write. Before a file grows past its old end, the rest of the old last block is
//!    zeroed, because another system may have left other bytes there.
//! 2. After a short write, size, times and block count are those of the bytes written.
//!
//! Reference: `spec/soft-updates.md` §6.9.

use super::{BufFill, InodeView, LockedInode};
use crate::alloc::Reserve;
use crate::error::{Error, Result};
use crate::ordering::InodeChange;
use ffs_ondisk::Lbn;

/// The number of bytes between two checks of the amount of dirty buffers. It is a multiple of the
/// block size, so that no write image has a part of the bytes that one call writes to a block.
const THROTTLE_BYTES: usize = 1 << 20;

impl<'a> LockedInode<'a> {
    /// Writes `bytes` at byte `off` and returns the number of bytes written. It is less than the
    /// length of `bytes` if an error occurs after the first bytes. Sets the times and updates the
    /// inode. The caller clears the set-id bits.
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
        // The inode block stays in memory, so the update at the end needs no read.
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
                // After the last part the next call checks first.
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

    /// Writes block by block. Returns the number of bytes written, and the error that ended the
    /// call.
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

    /// Writes the first bytes of `bytes` into the block of byte `pos`, up to the end of the block.
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
    /// Zeros the last block beyond the end of the file, before the file grows to byte `off`.
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

    /// Zeros bytes `from..upto` of a block, as far as fragments are allocated.
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
