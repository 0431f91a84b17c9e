//! Holes: finding them, making them, filling them.
//!
//! Reference: `spec/on-disk-format.md` §7.7.

use super::{BufFill, InodeData, InodeView, LockedInode};
use crate::alloc::Reserve;
use crate::error::{Error, Result};
use crate::ordering::InodeChange;
use ffs_ondisk::{FileType, Lbn, Timespec};

/// Zeros to be written, up to the next multiple of as many: whole blocks.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// Whether allocating blocks may make a file longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    Allowed,
    KeepSize,
}

impl<'a> InodeView<'a> {
    /// First offset from `off` on that has data.
    ///
    /// # Errors
    /// [`Error::NoData`] if there is none; [`Error::Format`]; the device's.
    pub(crate) fn seek_data(self, off: u64) -> Result<u64> {
        self.seek(off, true)?.ok_or(Error::NoData)
    }

    /// First offset from `off` on in a hole; the size, if no hole comes before it.
    ///
    /// # Errors
    /// [`Error::NoData`] from the size on; [`Error::Format`]; the device's.
    pub(crate) fn seek_hole(self, off: u64) -> Result<u64> {
        if off >= self.data.d.size {
            return Err(Error::NoData);
        }
        Ok(self.seek(off, false)?.unwrap_or(self.data.d.size))
    }

    /// First offset from `off` on, before the size, that has data or has not.
    fn seek(self, off: u64, wanted: bool) -> Result<Option<u64>> {
        let g = self.g();
        let mut lbn = g.lblkno(off);
        // A file has no more rows than this, unless an image names blocks twice.
        let mut steps = (g.size / u64::from(g.frag)).saturating_mul(4).saturating_add(64);
        while g.lblktosize(lbn) < self.data.d.size {
            let (at, n) = self.extent(lbn, u64::MAX)?;
            if at.is_some() == wanted {
                let found = off.max(g.lblktosize(lbn));
                return Ok((found < self.data.d.size).then_some(found));
            }
            lbn = lbn.plus(n);
            steps -= 1;
            if steps == 0 {
                return Err(self.bad_size());
            }
        }
        Ok(None)
    }

    /// Zeros `from..end`, which lies inside one block, unless it is a hole.
    fn zero_part(self, from: u64, end: u64) -> Result<()> {
        if from >= end {
            return Ok(());
        }
        let g = self.g();
        let start = g.blkoff(from) as usize;
        self.zero_in_block(g.lblkno(from), start, start + (end - from) as usize)
    }

    /// End of the range, if the file may be that long.
    fn range_end(self, off: u64, len: u64) -> Result<u64> {
        let end = off.checked_add(len).ok_or(Error::TooBig)?;
        if end > self.size_limit() { Err(Error::TooBig) } else { Ok(end) }
    }
}

impl<'a> LockedInode<'a> {
    /// Makes a hole: frees the whole blocks of the range and zeros the rest of it. The size stays, and
    /// with it the last block: no file ends in a hole.
    ///
    /// # Errors
    /// [`Error::Format`], the device's.
    pub(crate) fn punch_hole(&mut self, off: u64, len: u64) -> Result<()> {
        let g = self.g();
        only_regular(&self.data)?;
        let end = off.saturating_add(len).min(self.data.d.size);
        if off >= end {
            return Ok(());
        }
        let _inode_block = self.ump.inode_block(self.ip.ino)?;
        let first = Lbn(off.div_ceil(g.bsize.into()));
        let past = g.lblkno(end).min(g.lblkno(self.data.d.size - 1));
        let plan = match past.0.checked_sub(1).map(Lbn) {
            Some(last) if first <= last => Some(self.view().plan(first, last)?),
            _ => None,
        };
        let head_end = end.min(g.lblktosize(first));
        self.view().zero_part(off, head_end)?;
        self.view().zero_part(head_end.max(g.lblktosize(past)), end)?;
        self.touch_modified();
        self.data.cluster.len = 0;
        match plan {
            Some(plan) => self.cut(&plan, Vec::new(), |_| {}),
            None => self.update(InodeChange::Attr),
        }
    }

    /// Zeros the range, with blocks allocated for all of it; grows the file to its end.
    ///
    /// # Errors
    /// As [`LockedInode::allocate_range`].
    pub(crate) fn zero_range(&mut self, off: u64, len: u64, reserve: Reserve) -> Result<()> {
        only_regular(&self.data)?;
        let end = self.view().range_end(off, len)?;
        let _inode_block = self.ump.inode_block(self.ip.ino)?;
        self.view().zero_gap(end)?;
        let before = Before::of(&self.data);
        let mut at = off;
        let mut result = Ok(());
        while at < end && result.is_ok() {
            let within = at % ZEROS.len() as u64;
            let n = (end - at).min(ZEROS.len() as u64 - within) as usize;
            let (done, error) = self.write_part(at, ZEROS.get(..n).unwrap_or(&[]), reserve);
            at += done as u64;
            result = error.map_or_else(|| self.ump.throttle_within(), Err);
        }
        let seen = at > off && off < before.size;
        self.range_done(&before, seen, result)
    }

    /// Fills the holes of the range with blocks of zeros. With [`Growth::Allowed`] the file
    /// grows to the end of the range. With [`Growth::KeepSize`] nothing is allocated beyond the
    /// end of the file: the format has no place for blocks there.
    ///
    /// # Errors
    /// [`Error::TooBig`], [`Error::NoSpace`], [`Error::Format`], the device's. The size is as before
    /// then; holes already filled stay so.
    pub(crate) fn allocate_range(
        &mut self,
        off: u64,
        len: u64,
        growth: Growth,
        reserve: Reserve,
    ) -> Result<()> {
        only_regular(&self.data)?;
        let end = self.view().range_end(off, len)?;
        let end = match growth {
            Growth::Allowed => end,
            Growth::KeepSize => end.min(self.data.d.size),
        };
        if off >= end {
            return Ok(());
        }
        let _inode_block = self.ump.inode_block(self.ip.ino)?;
        self.view().zero_gap(end)?;
        let before = Before::of(&self.data);
        let result = self.fill_holes(off, end, reserve);
        self.range_done(&before, false, result)
    }

    fn fill_holes(&mut self, off: u64, end: u64, reserve: Reserve) -> Result<()> {
        let g = self.g();
        let mut lbn = g.lblkno(off);
        while g.lblktosize(lbn) < end {
            let (at, n) = self.view().extent(lbn, u64::MAX)?;
            // Blocks wholly inside the old size need nothing; the last one may have to grow.
            let inside = Lbn(self.data.d.size / u64::from(g.bsize)).0.saturating_sub(lbn.0);
            if at.is_some() && inside > 0 {
                lbn = lbn.plus(n.min(inside));
                continue;
            }
            let upto = end.max(self.data.d.size).min(g.lblktosize(lbn.plus(1)));
            let size = (upto - g.lblktosize(lbn)) as u32;
            let granted = self.balloc(lbn, size, BufFill::Valid, reserve)?;
            self.ump.cache.apply(&granted.buf, granted.then)?;
            drop(granted);
            self.ump.throttle_within()?;
            lbn = lbn.plus(1);
        }
        Ok(())
    }

    /// Ends a call that may have grown the file: on failure it shrinks back, and unless a reader can see what
    /// was done (`seen`), nothing was modified.
    fn range_done(&mut self, before: &Before, seen: bool, result: Result<()>) -> Result<()> {
        let failed = result.is_err();
        if failed && self.data.d.size > before.size {
            self.shrink(before.size, Reserve::Allowed)?;
        }
        if failed && !seen {
            self.data.d.mtime = before.mtime;
        } else {
            self.touch_modified();
        }
        self.update(InodeChange::Grow)?;
        result
    }
}

/// What a call that fails goes back to.
struct Before {
    size: u64,
    mtime: Timespec,
}

impl Before {
    fn of(data: &InodeData) -> Before {
        Before { size: data.d.size, mtime: data.d.mtime }
    }
}

fn only_regular(data: &InodeData) -> Result<()> {
    if data.d.file_type() != Some(FileType::Regular) {
        return Err(Error::Invalid("not a regular file"));
    }
    if data.is_snapshot() { Err(Error::NotPermitted) } else { Ok(()) }
}
