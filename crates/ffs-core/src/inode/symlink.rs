//! Symbolic links, whose text is in the inode or in a block.
//!
//! Reference: `spec/on-disk-format.md` §7.6.

use super::lifecycle::place;
use super::{BufFill, InodeView, LockedInode};
use crate::alloc::Reserve;
use crate::error::{Error, Result};
use crate::ordering::InodeChange;
use ffs_ondisk::dinode::ShortLink;
use ffs_ondisk::{FileType, Lbn, Structure};

/// The longest text in bytes (`MAXPATHLEN` - 1).
const MAX_TEXT: u64 = 1023;

impl<'a> InodeView<'a> {
    /// The text of a symbolic link. Notes the access.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the file is not a symbolic link; [`Error::Format`]; the device's.
    pub(crate) fn readlink(self) -> Result<Vec<u8>> {
        if self.data.d.file_type() != Some(FileType::Symlink) {
            return Err(Error::Invalid("not a symbolic link"));
        }
        if self.data.d.is_short_symlink(self.g()) {
            self.touch_accessed();
            return Ok(self.data.d.short.text(self.data.d.size).to_vec());
        }
        if self.data.d.size > u64::from(self.g().bsize) {
            let want = "at most a block";
            let e = Error::corrupt(
                Structure::Inode,
                place(self.ip.ino),
                "size",
                self.data.d.size,
                want,
            );
            return Err(e);
        }
        let mut text = vec![0; self.data.d.size as usize];
        self.read_at(0, &mut text)?;
        Ok(text)
    }
}

impl<'a> LockedInode<'a> {
    /// Sets the text of a new link. A short text is set in memory only; the caller's
    /// [`LockedInode::update`] (`Init`) follows. A long text is file content. This call reports it
    /// as growth, before or after that update.
    ///
    /// # Errors
    /// [`Error::NameTooLong`], [`Error::Invalid`] for an empty text, [`Error::NoSpace`], the
    /// device's.
    pub(crate) fn set_symlink(&mut self, target: &[u8], reserve: Reserve) -> Result<()> {
        let g = self.g();
        let len = target.len() as u64;
        if len > MAX_TEXT {
            return Err(Error::NameTooLong);
        }
        if target.is_empty() {
            return Err(Error::Invalid("empty symbolic link"));
        }
        if len < u64::from(g.maxsymlinklen) {
            self.data.d.short = ShortLink::new(target);
            self.data.d.size = len;
            return Ok(());
        }
        let granted = self.balloc(Lbn(0), target.len() as u32, BufFill::Valid, reserve)?;
        if let Some(to) = granted.buf.write().bytes.get_mut(..target.len()) {
            to.copy_from_slice(target);
        }
        self.ump.cache.apply(&granted.buf, granted.then)?;
        self.update(InodeChange::Grow)
    }
}
