//! Symbolic links: text in the inode, or in a block.
//!
//! Reference: `spec/on-disk-format.md` §7.6.

use super::lifecycle::place;
use super::{Inode, InodeData, InodeTable};
use crate::alloc::Reserve;
use crate::error::{Error, Result};
use crate::ordering::InodeChange;
use ffs_ondisk::dinode::ShortLink;
use ffs_ondisk::{FileType, Lbn, Structure};

/// Longest text, bytes (`MAXPATHLEN` - 1).
const MAX_TEXT: u64 = 1023;

impl InodeTable {
    /// The text of a symbolic link. Notes the access.
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is not one; [`Error::Format`]; the device's.
    pub(crate) fn readlink(&self, ip: &Inode, data: &InodeData) -> Result<Vec<u8>> {
        if data.d.file_type() != Some(FileType::Symlink) {
            return Err(Error::Invalid("not a symbolic link"));
        }
        if data.d.is_short_symlink(self.g()) {
            self.touch_accessed(data);
            return Ok(data.d.short.text(data.d.size).to_vec());
        }
        if data.d.size > u64::from(self.g().bsize) {
            let want = "at most a block";
            let e = Error::corrupt(Structure::Inode, place(ip.ino), "size", data.d.size, want);
            return Err(e);
        }
        let mut text = vec![0; data.d.size as usize];
        self.read_at(ip, data, 0, &mut text)?;
        Ok(text)
    }

    /// Gives a link just created its text. A short text is in memory only: the caller's
    /// [`InodeTable::update`] (`Init`) follows. A long one is file content: it may come before or
    /// after that update, and is reported as growth by this call.
    ///
    /// # Errors
    /// [`Error::NameTooLong`], [`Error::Invalid`] for an empty text, [`Error::NoSpace`], the device's.
    pub(crate) fn set_symlink(
        &self,
        ip: &Inode,
        data: &mut InodeData,
        target: &[u8],
        reserve: Reserve,
    ) -> Result<()> {
        let g = self.g();
        let len = target.len() as u64;
        if len > MAX_TEXT {
            return Err(Error::NameTooLong);
        }
        if target.is_empty() {
            return Err(Error::Invalid("empty symbolic link"));
        }
        if len < u64::from(g.maxsymlinklen) {
            data.d.short = ShortLink::new(target);
            data.d.size = len;
            return Ok(());
        }
        let granted = self.balloc(ip, data, Lbn(0), target.len() as u32, true, reserve)?;
        if let Some(to) = granted.buf.write().bytes.get_mut(..target.len()) {
            to.copy_from_slice(target);
        }
        self.ump.cache.apply(&granted.buf, granted.then)?;
        self.update(ip, data, InodeChange::Grow)
    }
}
