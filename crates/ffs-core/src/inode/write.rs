//! Writing file content.
//!
//! # Invariants
//! 1. Bytes of a block that were never written are zeros. A new block is zeroed, or zeroed from the
//!    end of the write. Before a file grows past its old end, the rest of the old last block is
//!    zeroed, because another system may have left other bytes there.
//! 2. After a short write, size, times and block count are those of the bytes written, and the
//!    other bytes are unchanged.
//! 3. A new block whose content cannot be taken from the source is zeroed.
//!
//! Large runs of whole blocks go past the cache: see `write_run`.
//!
//! Reference: `spec/soft-updates.md` §6.9.

use super::{BufFill, InodeView, LockedInode};
use crate::alloc::Reserve;
use crate::error::{Error, Result};
use crate::ordering::InodeChange;
use crate::source::{WriteSource, unreadable};
use ffs_ondisk::Lbn;

/// The number of bytes between two checks of the amount of dirty buffers. It is a multiple of the
/// block size, so that no write image has a part of the bytes that one call writes to a block.
const THROTTLE_BYTES: usize = 1 << 20;

/// The error that ended a write.
pub(super) struct Stopped {
    pub(super) error: Error,
    /// Blocks behind the bytes that were written have a part of the new content.
    pub(super) amid_blocks: bool,
}

impl Stopped {
    pub(super) fn between_blocks(error: Error) -> Stopped {
        Stopped { error, amid_blocks: false }
    }
}

impl<'a> LockedInode<'a> {
    /// Writes what `source` has left at byte `off` and returns the number of bytes written. It is
    /// less if an error occurs after the first bytes. Sets the times and updates the inode. The
    /// caller clears the set-id bits.
    ///
    /// # Errors
    /// [`Error::TooBig`], [`Error::NoSpace`], [`Error::Format`]: nothing was written. The device's
    /// and those of `source`: any of the bytes may be written, because blocks that the device
    /// failed to overwrite have a part of the new content.
    pub(crate) fn write_at(
        &mut self,
        off: u64,
        source: &mut dyn WriteSource,
        reserve: Reserve,
    ) -> Result<usize> {
        let want = source.left();
        if want == 0 {
            return Ok(0);
        }
        let end = off.checked_add(want as u64).ok_or(Error::TooBig)?;
        if end > self.view().size_limit() {
            return Err(Error::TooBig);
        }
        self.ump.throttle_within()?;
        // The inode block stays in memory, so the update at the end needs no read.
        let _inode_block = self.ump.inode_block(self.ip.ino)?;
        self.view().zero_gap(off)?;
        let old_size = self.data.d.size;
        let mut done = 0;
        let mut stopped = None;
        while done < want {
            let within = (off + done as u64) as usize % THROTTLE_BYTES;
            let part = (want - done).min(THROTTLE_BYTES - within);
            let (n, error) = self.write_part(off + done as u64, part, source, reserve);
            done += n;
            let error = error.or_else(|| {
                // After the last part the next call checks first.
                let throttled = (done < want).then(|| self.ump.throttle_within());
                throttled?.err().map(Stopped::between_blocks)
            });
            if error.is_some() {
                stopped = error;
                break;
            }
        }
        let size = old_size.max(off + done as u64);
        if stopped.is_some() && self.data.d.size > size {
            // Blocks were allocated whose content did not come. On an error they hold zeros.
            let _ = self.shrink(size, Reserve::Allowed);
        }
        if done > 0 || stopped.as_ref().is_some_and(|s| s.amid_blocks) {
            self.touch_modified();
            self.update(InodeChange::Grow)?;
        }
        match stopped {
            Some(s) if done == 0 || s.amid_blocks => Err(s.error),
            _ => Ok(done),
        }
    }

    /// Writes the next `len` bytes of `source`. Returns the number of bytes written, and the error
    /// that ended the call.
    pub(super) fn write_part(
        &mut self,
        off: u64,
        len: usize,
        source: &mut dyn WriteSource,
        reserve: Reserve,
    ) -> (usize, Option<Stopped>) {
        let mut done = 0;
        while done < len {
            let (pos, rest) = (off + done as u64, len - done);
            let blocks = self.blocks_past_cache(pos, rest);
            let (n, error) = match blocks {
                0 => match self.write_block(pos, rest, source, reserve) {
                    Ok(n) => (n, None),
                    Err(e) => (0, Some(Stopped::between_blocks(e))),
                },
                _ => self.write_run(self.g().lblkno(pos), blocks, source, reserve),
            };
            done += n;
            if error.is_some() {
                return (done, error);
            }
        }
        (done, None)
    }

    /// Writes at most `len` bytes of `source` into the block of byte `pos`, up to the end of the
    /// block.
    fn write_block(
        &mut self,
        pos: u64,
        len: usize,
        source: &mut dyn WriteSource,
        reserve: Reserve,
    ) -> Result<usize> {
        let g = self.g();
        let (lbn, skip) = (g.lblkno(pos), g.blkoff(pos) as usize);
        let n = len.min(g.bsize as usize - skip);
        let end = pos + n as u64;
        let replaces_all = skip == 0 && (n == g.bsize as usize || end >= self.data.d.size);
        let upto = (skip + n) as u32;
        let fill = if replaces_all { BufFill::Arbitrary } else { BufFill::Valid };
        let granted = self.balloc(lbn, upto, fill, reserve)?;
        let (at, taken) = {
            let mut block = granted.buf.write();
            let to = block.bytes.get_mut(skip..skip + n).unwrap_or(&mut []);
            let taken = source.take(to);
            if taken.is_err() && replaces_all {
                to.fill(0);
            }
            if replaces_all && let Some(rest) = block.bytes.get_mut(n..) {
                rest.fill(0);
            }
            (block.addr, taken)
        };
        self.ump.cache.apply(&granted.buf, granted.then)?;
        drop(granted);
        taken.map_err(|e| unreadable(n, e))?;
        if skip + n == g.bsize as usize {
            self.cluster_written((lbn, at), lbn);
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
