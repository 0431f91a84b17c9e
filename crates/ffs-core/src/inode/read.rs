//! Reading file content.
//!
//! Blocks in memory are copied. Of the others, a large read gets each extent of whole blocks with
//! one read from the device into the caller's buffer; a small read brings its block into the buffer
//! cache.
//!
//! Reference: `spec/on-disk-format.md` §7.7, §11.

use super::InodeView;
use super::bmap::data_key;
use crate::counters::{add, bump};
use crate::error::Result;
use ffs_ondisk::{FragNo, Lbn};

/// The length of an extent of whole blocks, in bytes, from which on it is read past the cache.
const DIRECT_BYTES: u64 = 64 << 10;

impl<'a> InodeView<'a> {
    /// Reads from byte `off` and returns the number of bytes. It is less than the length of `buf`
    /// only at the end of the file, because callers take a short read for the end. Notes the
    /// access.
    ///
    /// # Errors
    /// [`crate::Error::Format`], the device's, if a byte cannot be read.
    pub(crate) fn read_at(self, off: u64, buf: &mut [u8]) -> Result<usize> {
        let left = self.data.d.size.saturating_sub(off);
        let want = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let buf = buf.get_mut(..want).unwrap_or(&mut []);
        let mut done = 0;
        while done < want {
            let Some(rest) = buf.get_mut(done..) else { break };
            done += self.read_step(off + done as u64, rest)?;
        }
        if want > 0 {
            self.touch_accessed();
        }
        Ok(done)
    }

    /// Reads a part of `out`, at least one byte.
    fn read_step(self, pos: u64, out: &mut [u8]) -> Result<usize> {
        let g = self.g();
        let (lbn, skip) = (g.lblkno(pos), g.blkoff(pos) as usize);
        let bsize = g.bsize as usize;
        if self.data.is_snapshot() {
            return self.read_snapshot(lbn, skip, out);
        }
        if let Some(buf) = self.ump.cache.incore(data_key(self.ip.ino, lbn)) {
            return Ok(copy_out(&buf.read().bytes, skip, bsize, out));
        }
        let blocks = (skip + out.len()).div_ceil(bsize) as u64;
        let (at, run) = self.extent(lbn, blocks)?;
        let run_bytes = usize::try_from(run).unwrap_or(usize::MAX).saturating_mul(bsize);
        let Some(at) = at else {
            let n = out.len().min(run_bytes - skip);
            out.iter_mut().take(n).for_each(|b| *b = 0);
            return Ok(n);
        };
        let whole = if skip == 0 { run.min((out.len() / bsize) as u64) } else { 0 };
        let whole = self.not_in_core(lbn, whole);
        if whole * u64::from(g.bsize) >= DIRECT_BYTES {
            let n = whole as usize * bsize;
            if let Some(out) = out.get_mut(..n) {
                self.read_device(at, out)?;
            }
            return Ok(n);
        }
        let buf = self.data_block(lbn, at)?;
        let buf = buf.read();
        Ok(copy_out(&buf.bytes, skip, bsize, out))
    }

    /// The number of blocks, of the `n` from `lbn`, before the first other block that is in memory.
    fn not_in_core(self, lbn: Lbn, n: u64) -> u64 {
        let is_incore = |&k: &u64| self.ump.cache.contains(data_key(self.ip.ino, lbn.plus(k)));
        (1..n).find(is_incore).unwrap_or(n)
    }

    pub(super) fn read_device(self, at: FragNo, out: &mut [u8]) -> Result<()> {
        let c = &self.ump.cache.counters;
        bump(&c.reads);
        add(&c.bytes_read, out.len() as u64);
        Ok(self.ump.cache.dev.read_at(self.g().frag_to_byte(at), out)?)
    }
}

/// Copies the content of a block from offset `skip`. After the end of a block shorter than `bsize`
/// come zeros.
fn copy_out(block: &[u8], skip: usize, bsize: usize, out: &mut [u8]) -> usize {
    let n = out.len().min(bsize - skip);
    let from = block.get(skip..).unwrap_or(&[]);
    let have = from.len().min(n);
    if let (Some(to), Some(from)) = (out.get_mut(..have), from.get(..have)) {
        to.copy_from_slice(from);
    }
    out.iter_mut().take(n).skip(have).for_each(|b| *b = 0);
    n
}
