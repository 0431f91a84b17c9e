//! Reading file content.
//!
//! Blocks in memory are copied. Of the others, a large read gets each extent of whole blocks with
//! one read from the device into the caller's buffer; a small read brings its block into the buffer
//! cache. Where the device is a file of the host, a large read can get the ranges of that file
//! instead of the content.
//!
//! Reference: `spec/on-disk-format.md` §7.7, §11.

use super::InodeView;
use super::bmap::data_key;
use crate::counters::{add, bump};
use crate::error::Result;
use ffs_device::HostRange;
use ffs_ondisk::{FragNo, Lbn};
use smallvec::SmallVec;

/// The length of an extent of whole blocks, in bytes, from which on it is read past the cache.
pub(crate) const DIRECT_BYTES: u64 = 64 << 10;
/// Most ranges of the host's file for one read. With more, copying is faster.
const MAX_RANGES: usize = 8;

/// The content of a read, as ranges of the host's file.
pub(crate) type HostRanges<'a> = SmallVec<[HostRange<'a>; MAX_RANGES]>;

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

    /// The ranges of the host's file that have the content from byte `off`: `len` bytes, or those
    /// to the end of the file. `None` if a part is dirty, is a hole or is not in a file of the
    /// host, or if the read is small or in many pieces. The ranges have the content until the inode
    /// is unlocked.
    ///
    /// # Errors
    /// As [`InodeView::read_at`].
    pub(crate) fn host_ranges(self, off: u64, len: u64) -> Result<Option<HostRanges<'a>>> {
        let g = self.g();
        let end = off.saturating_add(len).min(self.data.d.size);
        if end.saturating_sub(off) < DIRECT_BYTES || self.data.is_snapshot() {
            return Ok(None);
        }
        // The content changes under the exclusive lock only, and is dirty until it is written.
        let key = |pos| data_key(self.ip.ino, g.lblkno(pos));
        if self.ump.cache.has_dirty(key(off)..=key(end - 1)) {
            return Ok(None);
        }
        let mut ranges = HostRanges::new();
        let mut pos = off;
        while pos < end {
            let (lbn, skip) = (g.lblkno(pos), u64::from(g.blkoff(pos)));
            let blocks = (skip + (end - pos)).div_ceil(g.bsize.into());
            let (Some(at), run) = self.extent(lbn, blocks)? else { return Ok(None) };
            if ranges.len() == MAX_RANGES {
                return Ok(None);
            }
            let n = (run * u64::from(g.bsize) - skip).min(end - pos);
            let Some(range) = self.ump.cache.dev.host_range(g.frag_to_byte(at) + skip, n) else {
                return Ok(None);
            };
            ranges.push(range);
            pos += n;
        }
        Ok(Some(ranges))
    }

    /// Counts and notes that `ranges` were read.
    pub(crate) fn note_read(self, ranges: &[HostRange<'_>]) {
        let c = &self.ump.cache.counters;
        add(&c.reads, ranges.len() as u64);
        add(&c.bytes_read, ranges.iter().map(|range| range.length).sum());
        self.touch_accessed();
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
