//! File content: reading, writing, space, durability.

use super::perm::{self, UNWRITABLE};
use super::xattrs::drop_capability;
use super::{Vnode, check_alive, reserve_of};
use crate::cred::Cred;
use crate::error::{Error, Result};
use crate::inode::{DIRECT_BYTES, Growth, InodeData, LockedInode};
use crate::mount::Ffs;
use crate::ordering::InodeChange;
use crate::source::WriteSource;
use crate::types::{Fallocate, SetIdBits, SyncScope, WriteMode};
use ffs_device::HostRange;
use ffs_ondisk::{FileFlags, FileType};

/// Checks that the inode has content to read or write.
fn check_regular(data: &InodeData) -> Result<()> {
    check_alive(data)?;
    match data.d.file_type() {
        Some(FileType::Regular) => Ok(()),
        Some(FileType::Directory) => Err(Error::IsDirectory),
        _ => Err(Error::Invalid("not a regular file")),
    }
}

impl Ffs {
    /// Reads at `offset`. Returns fewer bytes than `buf` holds only at the end of the file.
    ///
    /// # Errors
    /// [`Error::IsDirectory`], [`Error::Invalid`] for other kinds; EIO for a bad block pointer and
    /// the device's, if no byte before it could be read.
    pub fn read(&self, file: &Vnode, offset: u64, buf: &mut [u8]) -> Result<usize> {
        let data = file.ip.read();
        check_regular(&data)?;
        self.0.view(&file.ip, &data).read_at(offset, buf)
    }

    /// The least that [`Ffs::read_in_place`] reads, bytes. Below it a copy is cheaper.
    pub const LEAST_IN_PLACE: u64 = DIRECT_BYTES;

    /// As [`Ffs::read`], but passes to `send` where the content is in a file of the host: `length`
    /// bytes from `offset`, or those to the end of the file. The ranges have the content only while
    /// `send` runs. Returns what `send` returns, which is `None` if it did not read the ranges.
    /// Returns `None` without a call if [`Ffs::read`] has to copy the content: a part is dirty or
    /// is a hole, the volume is not in a file of the host, or the read is small.
    ///
    /// # Errors
    /// As [`Ffs::read`].
    pub fn read_in_place<R>(
        &self,
        file: &Vnode,
        offset: u64,
        length: u64,
        send: impl FnOnce(&[HostRange<'_>]) -> Option<R>,
    ) -> Result<Option<R>> {
        let data = file.ip.read();
        check_regular(&data)?;
        let view = self.0.view(&file.ip, &data);
        let Some(ranges) = view.host_ranges(offset, length)? else { return Ok(None) };
        let sent = send(&ranges);
        if sent.is_some() {
            view.note_read(&ranges);
        }
        Ok(sent)
    }

    /// Writes at `offset`, or at the end of the file. Returns fewer bytes than given if space ran
    /// out.
    ///
    /// The caller has checked at open time that `cred` may write; file flags are checked here.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if nothing could be written, [`Error::TooBig`], [`Error::NotPermitted`];
    /// as [`Ffs::read`].
    pub fn write(
        &self,
        cred: &Cred,
        file: &Vnode,
        offset: u64,
        mut data: &[u8],
        mode: WriteMode,
    ) -> Result<usize> {
        self.write_from(cred, file, offset, &mut data, mode)
    }

    /// As [`Ffs::write`], with the content that `source` has left. What is not written stays in
    /// `source`, unless the device or the source failed.
    ///
    /// # Errors
    /// As [`Ffs::write`], and those of `source`.
    pub fn write_from(
        &self,
        cred: &Cred,
        file: &Vnode,
        offset: u64,
        source: &mut dyn WriteSource,
        mode: WriteMode,
    ) -> Result<usize> {
        // A call that found no space took nothing.
        let mut done =
            self.retry_after_reclaim(|| self.write_once(cred, file, offset, source, mode))?;
        if source.left() > 0 && self.reclaim() {
            let at = offset.saturating_add(done as u64);
            let left = source.left();
            match self.write_once(cred, file, at, source, mode) {
                Ok(more) => done += more,
                // What it took is lost, so that the caller cannot go on behind `done`.
                Err(e) if source.left() != left => return Err(e),
                // The bytes already written count.
                Err(_) => {}
            }
        }
        if mode.sync {
            self.fsync(file)?;
        }
        Ok(done)
    }

    fn write_once(
        &self,
        cred: &Cred,
        file: &Vnode,
        offset: u64,
        source: &mut dyn WriteSource,
        mode: WriteMode,
    ) -> Result<usize> {
        let _op = self.begin()?;
        let mut inode = self.0.lock(&file.ip);
        check_regular(&inode)?;
        let offset = if mode.append { inode.d.size } else { offset };
        may_change(&inode, offset)?;
        if source.left() == 0 {
            return Ok(0);
        }
        let end = offset.checked_add(source.left() as u64).ok_or(Error::TooBig)?;
        if end > self.geometry().maxfilesize {
            return Err(Error::TooBig);
        }
        drop_capability(&mut inode, mode.set_id)?;
        let written = inode.write_at(offset, source, reserve_of(cred));
        let changed = matches!(written, Ok(_) | Err(Error::Io(_)));
        if changed && mode.set_id.are_cleared_by(cred) {
            clear_setid(&mut inode)?;
        }
        written
    }

    /// Allocates, frees or zeroes the space of a range of bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an empty range; as [`Ffs::write`].
    pub fn fallocate(
        &self,
        cred: &Cred,
        file: &Vnode,
        offset: u64,
        len: u64,
        how: Fallocate,
    ) -> Result<()> {
        self.retry_after_reclaim(|| self.fallocate_once(cred, file, offset, len, how))?;
        self.sync_if_stable(&[file])
    }

    fn fallocate_once(
        &self,
        cred: &Cred,
        file: &Vnode,
        offset: u64,
        len: u64,
        how: Fallocate,
    ) -> Result<()> {
        let _op = self.begin()?;
        if len == 0 {
            return Err(Error::Invalid("an empty range"));
        }
        let mut inode = self.0.lock(&file.ip);
        check_regular(&inode)?;
        if inode.d.flags.intersects(UNWRITABLE | FileFlags::APPEND) {
            return Err(Error::NotPermitted);
        }
        let end = offset.checked_add(len).ok_or(Error::TooBig)?;
        if end > self.geometry().maxfilesize && how != Fallocate::PunchHole {
            return Err(Error::TooBig);
        }
        let reserve = reserve_of(cred);
        drop_capability(&mut inode, SetIdBits::ByCaller)?;
        match how {
            Fallocate::Allocate => {
                inode.allocate_range(offset, len, Growth::Allowed, reserve)?;
            }
            Fallocate::AllocateKeepSize => {
                inode.allocate_range(offset, len, Growth::KeepSize, reserve)?;
            }
            Fallocate::PunchHole => inode.punch_hole(offset, len)?,
            Fallocate::ZeroRange => inode.zero_range(offset, len, reserve)?,
        }
        if SetIdBits::ByCaller.are_cleared_by(cred) { clear_setid(&mut inode) } else { Ok(()) }
    }

    /// The first offset from `offset` on that has data.
    ///
    /// # Errors
    /// [`Error::NoData`] if there is none; as [`Ffs::read`].
    pub fn seek_data(&self, file: &Vnode, offset: u64) -> Result<u64> {
        let data = file.ip.read();
        check_regular(&data)?;
        self.0.view(&file.ip, &data).seek_data(offset)
    }

    /// The first offset from `offset` on that is in a hole; the end of the file counts as one.
    ///
    /// # Errors
    /// [`Error::NoData`] beyond the end; as [`Ffs::read`].
    pub fn seek_hole(&self, file: &Vnode, offset: u64) -> Result<u64> {
        let data = file.ip.read();
        check_regular(&data)?;
        self.0.view(&file.ip, &data).seek_hole(offset)
    }

    /// Makes a file or directory durable: its content, its attributes, and its names up to the
    /// root.
    ///
    /// # Errors
    /// The device's, also for delayed writes of the file that failed since the last call.
    pub fn fsync(&self, file: &Vnode) -> Result<()> {
        self.sync_file(file, SyncScope::All)
    }

    /// As [`Ffs::fsync`], but attributes that do not affect the content, such as times, may stay in
    /// memory.
    ///
    /// # Errors
    /// As [`Ffs::fsync`].
    pub fn fdatasync(&self, file: &Vnode) -> Result<()> {
        self.sync_file(file, SyncScope::Data)
    }

    fn sync_file(&self, file: &Vnode, scope: SyncScope) -> Result<()> {
        let done = match self.begin() {
            Ok(_op) => self.0.syncer.fsync(&file.ip, scope),
            // A read-only mount has no dirty buffers.
            Err(Error::ReadOnly(_)) => Ok(()),
            Err(e) => Err(e),
        };
        match done {
            // The file may depend on changes of an operation in progress, so wait until all
            // operations end.
            Err(Error::Unwritten) => self.stop_and_sync(),
            done => done,
        }
    }
}

/// Checks that file flags permit a write at `offset`.
fn may_change(inode: &InodeData, offset: u64) -> Result<()> {
    let flags = inode.d.flags;
    if flags.intersects(UNWRITABLE) || flags.intersects(FileFlags::APPEND) && offset < inode.d.size
    {
        return Err(Error::NotPermitted);
    }
    Ok(())
}

/// Clears the set-id bits, if the file has any.
fn clear_setid(inode: &mut LockedInode<'_>) -> Result<()> {
    let mode = perm::without_setid(&inode.d);
    if mode == inode.d.mode {
        return Ok(());
    }
    inode.d.mode = mode;
    inode.update(InodeChange::Attr)
}
