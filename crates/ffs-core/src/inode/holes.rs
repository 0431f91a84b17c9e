//! Holes: `SEEK_DATA` and `SEEK_HOLE`, punching, and filling.
//!
//! Reference: `spec/on-disk-format.md` §7.7.

use std::sync::LazyLock;

use super::{BufFill, InodeData, InodeView, LockedInode};
use crate::alloc::Reserve;
use crate::error::{Error, Result};
use crate::ordering::InodeChange;
use ffs_ondisk::{FileType, Lbn, Timespec};

/// Zeros for [`LockedInode::zero_range`]. It writes up to the next multiple of this length, so that
/// each write is of whole blocks.
/// On the heap: the file of the program would contain an array.
static ZEROS: LazyLock<Box<[u8]>> = LazyLock::new(|| vec![0; 1 << 16].into_boxed_slice());

/// Whether allocating blocks may make a file longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    Allowed,
    KeepSize,
}

/// The target of a search.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sought {
    Data,
    Hole,
}

impl<'a> InodeView<'a> {
    /// The first offset at or after `off` that has data.
    ///
    /// # Errors
    /// [`Error::NoData`] if there is none; [`Error::Format`]; the device's.
    pub(crate) fn seek_data(self, off: u64) -> Result<u64> {
        self.seek(off, Sought::Data)?.ok_or(Error::NoData)
    }

    /// The first offset at or after `off` that is in a hole; the size, if there is no hole.
    ///
    /// # Errors
    /// [`Error::NoData`] if `off` is not less than the size; [`Error::Format`]; the device's.
    pub(crate) fn seek_hole(self, off: u64) -> Result<u64> {
        if off >= self.data.d.size {
            return Err(Error::NoData);
        }
        Ok(self.seek(off, Sought::Hole)?.unwrap_or(self.data.d.size))
    }

    /// The first offset at or after `off`, and less than the size, that has data, or has none.
    fn seek(self, off: u64, sought: Sought) -> Result<Option<u64>> {
        if self.data.is_snapshot() {
            // The whole image is data.
            return Ok((sought == Sought::Data && off < self.data.d.size).then_some(off));
        }
        let g = self.g();
        let mut lbn = g.lblkno(off);
        // A file has no more extents than this, unless pointers of a damaged image share blocks.
        let mut steps = (g.size / u64::from(g.frag)).saturating_mul(4).saturating_add(64);
        while g.lblktosize(lbn) < self.data.d.size {
            let (at, n) = self.extent(lbn, u64::MAX)?;
            if at.is_some() == (sought == Sought::Data) {
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

    /// Zeros `from..end`, which is inside one block, unless the block is a hole.
    fn zero_part(self, from: u64, end: u64) -> Result<()> {
        if from >= end {
            return Ok(());
        }
        let g = self.g();
        let start = g.blkoff(from) as usize;
        self.zero_in_block(g.lblkno(from), start, start + (end - from) as usize)
    }

    /// The end of the range, if a file may have this size.
    fn range_end(self, off: u64, len: u64) -> Result<u64> {
        let end = off.checked_add(len).ok_or(Error::TooBig)?;
        if end > self.size_limit() { Err(Error::TooBig) } else { Ok(end) }
    }
}

impl<'a> LockedInode<'a> {
    /// Makes a hole: frees the whole blocks of the range and zeros the rest of it. The size does
    /// not change. The last block of the file stays allocated, because no file ends in a hole.
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
            Some(last) if first <= last => Some(self.view().plan_unmap(first, last)?),
            _ => None,
        };
        let head_end = end.min(g.lblktosize(first));
        self.view().zero_part(off, head_end)?;
        self.view().zero_part(head_end.max(g.lblktosize(past)), end)?;
        self.touch_modified();
        self.data.cluster.len = 0;
        match plan {
            Some(plan) => self.unmap(&plan, Vec::new(), |_| {}),
            None => self.update(InodeChange::Attr),
        }
    }

    /// Zeros the range, allocates its blocks, and grows the file to its end.
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
            let mut zeros = ZEROS.get(..n).unwrap_or(&[]);
            let (done, error) = self.write_part(at, n, &mut zeros, reserve);
            at += done as u64;
            result = error.map_or_else(|| self.ump.throttle_within(), |stopped| Err(stopped.error));
        }
        let visible = at > off && off < before.size;
        self.range_done(&before, visible, result)
    }

    /// Allocates blocks of zeros for the holes of the range. With [`Growth::Allowed`] the file
    /// grows to the end of the range. With [`Growth::KeepSize`] nothing is allocated beyond the end
    /// of the file, because the format does not allow blocks there.
    ///
    /// # Errors
    /// [`Error::TooBig`], [`Error::NoSpace`], [`Error::Format`], the device's. On an error the size
    /// is as before; holes that were filled stay allocated.
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
        // The content is as before: a hole reads as zeros too.
        let visible = false;
        self.range_done(&before, visible, result)
    }

    fn fill_holes(&mut self, off: u64, end: u64, reserve: Reserve) -> Result<()> {
        let g = self.g();
        let mut lbn = g.lblkno(off);
        while g.lblktosize(lbn) < end {
            let (at, n) = self.view().extent(lbn, u64::MAX)?;
            // Allocated blocks before the last one are complete; the last one may have to grow.
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

    /// Ends a call that may have grown the file, and updates the inode. A file whose call failed
    /// gets its old size back. It gets the old `mtime` too, unless a reader can see a part of the
    /// change (`visible`).
    fn range_done(&mut self, before: &Before, visible: bool, result: Result<()>) -> Result<()> {
        let failed = result.is_err();
        if failed && self.data.d.size > before.size {
            self.shrink(before.size, Reserve::Allowed)?;
        }
        if failed && !visible {
            self.data.d.mtime = before.mtime;
        } else {
            self.touch_modified();
        }
        self.update(InodeChange::Grow)?;
        result
    }
}

/// The attributes before a call, which a failed call restores.
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
