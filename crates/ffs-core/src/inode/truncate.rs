//! Truncation and extension (`ffs_truncate`).
//!
//! Reference: `spec/soft-updates.md` §6.11, §11.2; `spec/on-disk-format.md` §7.7.

use super::unmap::ShortenedBlock;
use super::{BufFill, InodeView, LockedInode};
use crate::alloc::Reserve;
use crate::buf::Disposition;
use crate::error::{Error, Result};
use crate::ordering::{Event, InodeChange};
use ffs_ondisk::Lbn;
use ffs_ondisk::dinode::ShortLink;
use ffs_ondisk::geometry::{NDADDR, NIADDR};

impl<'a> LockedInode<'a> {
    /// Sets the size of a regular file, directory or symbolic link, and its times, and updates the
    /// inode. Only regular files may grow. A file that grows gets a last block of zeros, so that it
    /// does not end in a hole.
    ///
    /// # Errors
    /// [`Error::TooBig`], [`Error::NoSpace`]: nothing changed. [`Error::Format`], the device's: a
    /// part of the call may be done.
    pub(crate) fn truncate(&mut self, new_size: u64, reserve: Reserve) -> Result<()> {
        if new_size == self.data.d.size {
            self.touch_modified();
            return self.update(InodeChange::Attr);
        }
        if self.data.is_snapshot() {
            return Err(Error::NotPermitted);
        }
        // The inode block stays in memory, so the update at the end needs no read that may fail.
        let _inode_block = self.ump.inode_block(self.ip.ino)?;
        if new_size < self.data.d.size {
            self.shrink(new_size, reserve)
        } else {
            self.extend(new_size, reserve)
        }
    }

    fn extend(&mut self, new_size: u64, reserve: Reserve) -> Result<()> {
        if self.data.d.file_type() != Some(ffs_ondisk::FileType::Regular) {
            return Err(Error::Invalid("only regular files can be extended"));
        }
        if new_size > self.view().size_limit() {
            return Err(Error::TooBig);
        }
        self.view().zero_gap(new_size)?;
        let (last, g) = (new_size - 1, self.g());
        let granted = self.balloc(g.lblkno(last), g.blkoff(last) + 1, BufFill::Valid, reserve)?;
        let truncated = Event::BlockTruncated { ino: self.ip.ino, block: granted.buf.key };
        let then = match self.ump.ordering.notify(truncated).disposition {
            Disposition::Delay => granted.then,
            Disposition::WriteAndWait => Disposition::WriteAndWait,
        };
        let written = self.ump.cache.apply(&granted.buf, then);
        self.touch_modified();
        self.update(InodeChange::TruncateExtend).and(written)
    }

    /// Truncates the file to `new_size`, which is less than its size.
    pub(super) fn shrink(&mut self, new_size: u64, reserve: Reserve) -> Result<()> {
        let g = self.g();
        if !self.data.d.has_pointers(g) {
            return self.shrink_short_link(new_size);
        }
        let first = Lbn(new_size.div_ceil(g.bsize.into()));
        let mut plan = self.view().plan_unmap(first, Lbn(u64::MAX - 1))?;
        self.fill_last_block(new_size, reserve)?;
        plan.last = self.view().shrink_last_block(new_size)?;
        self.touch_modified();
        self.data.cluster.len = 0;
        self.unmap(&plan, Vec::new(), |inode| inode.d.size = new_size)
    }

    /// Clears pointers beyond the size, which a crash may leave in a directory, and frees their
    /// blocks. The count of the blocks is then that of the pointers.
    ///
    /// # Errors
    /// [`Error::Format`]; the device's.
    pub(crate) fn drop_past_end(&mut self) -> Result<()> {
        let first = Lbn(self.data.d.size.div_ceil(self.g().bsize.into()));
        let plan = self.view().plan_unmap(first, Lbn(u64::MAX - 1))?;
        self.data.cluster.len = 0;
        self.unmap(&plan, Vec::new(), |_| ())?;
        let blocks = self.view().count_blocks()?;
        self.set_blocks(blocks);
        self.update(InodeChange::Attr)
    }

    fn shrink_short_link(&mut self, new_size: u64) -> Result<()> {
        if self.data.d.is_short_symlink(self.g()) {
            self.data.d.short = ShortLink::new(self.data.d.short.text(new_size));
        }
        self.data.d.size = new_size;
        self.touch_modified();
        self.update(InodeChange::Truncate)
    }

    /// Allocates the last block of a file of `new_size` bytes if it is a hole. No file ends in a
    /// hole: fsck takes such a file for one whose end was lost in a crash (INO-ENDHOLE).
    fn fill_last_block(&mut self, new_size: u64, reserve: Reserve) -> Result<()> {
        let g = self.g();
        let Some(end) = new_size.checked_sub(1) else { return Ok(()) };
        let last = g.lblkno(end);
        if self.view().bmap(last)?.is_some() {
            return Ok(());
        }
        let granted = self.balloc(last, g.blkoff(end) + 1, BufFill::Valid, reserve)?;
        self.ump.cache.apply(&granted.buf, granted.then)
    }

    /// Frees the content and the extended attributes of a file without links.
    pub(super) fn discard_content(&mut self) -> Result<()> {
        let d = &self.data.d;
        if d.size == 0 && d.extsize == 0 && d.blocks == 0 {
            return Ok(());
        }
        let held = d.ext_sectors(self.g());
        let ext = self.detach_ext();
        self.set_blocks(self.data.d.blocks.saturating_sub(held));
        self.view().forget_blocks(-2..=-1);
        if !self.data.d.has_pointers(self.g()) {
            self.data.d.short = ShortLink::default();
            (self.data.d.db, self.data.d.ib) = ([0; NDADDR], [0; NIADDR]);
        }
        let plan = self.view().plan_unmap(Lbn(0), Lbn(u64::MAX - 1))?;
        self.unmap(&plan, ext, |inode| inode.d.size = 0)
    }
}

impl<'a> InodeView<'a> {
    /// Zeros the bytes of the last block beyond `new_size`, and writes the block if the ordering
    /// mode requires it. Returns the block if it loses fragments.
    fn shrink_last_block(self, new_size: u64) -> Result<Option<ShortenedBlock>> {
        let g = self.g();
        let (last, keep) = (g.lblkno(new_size), g.blkoff(new_size) as usize);
        if keep == 0 {
            return Ok(None);
        }
        let Some(buf) = self.read_block(last)? else { return Ok(None) };
        // A directory loses only free chunks. They are not zeroed, so that they are valid if the
        // truncation fails, and when the directory grows again.
        if !self.data.d.is_dir()
            && let Some(rest) = buf.write().bytes.get_mut(keep..)
        {
            rest.fill(0);
        }
        let then = self
            .ump
            .ordering
            .notify(Event::BlockTruncated { ino: self.ip.ino, block: buf.key })
            .disposition;
        self.ump.cache.apply(&buf, then)?;
        let (old, new) = (g.blksize(self.data.d.size, last), g.blksize(new_size, last));
        if last.0 >= NDADDR as u64 || new == old {
            return Ok(None);
        }
        Ok(Some(ShortenedBlock { buf, old, new }))
    }
}
