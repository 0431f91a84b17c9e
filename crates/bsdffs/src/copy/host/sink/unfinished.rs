//! Files that an earlier copy left unfinished.
//!
//! A new file has a name that depends on its final name until it is complete. Its descriptor holds
//! a lock, so that no other copy goes on with it at the same time.

use std::ffi::CString;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{HostSink, Opened, Target, attributes, c_name, failed};
use crate::copy::entry::Entry;
use crate::copy::error::{SinkError, SinkResult};
use crate::copy::host::FileId;
use crate::copy::host::source::next_data;
use crate::copy::path::{split_last, unfinished_name};
use crate::copy::report::CopyReport;
use crate::copy::resume::{OldContent, Resume};

impl OldContent for OwnedFd {
    fn read(&self, at: u64, buf: &mut [u8]) -> Result<usize, SinkError> {
        loop {
            match rustix::io::pread(self, &mut *buf, at) {
                Err(Errno::INTR) => {}
                other => return other.map_err(failed),
            }
        }
    }

    fn next_data(&self, at: u64, end: u64) -> Result<Option<(u64, u64)>, SinkError> {
        let (start, stop) = next_data(self, at, end).map_err(failed)?;
        Ok((start < end).then_some((start, stop)))
    }

    fn truncate(&self, size: u64) -> Result<(), SinkError> {
        rustix::fs::ftruncate(self, size).map_err(failed)
    }
}

impl HostSink {
    /// Calls `create` with the name for a file that is not complete, or with a temporary name if
    /// that exists.
    pub(super) fn create_unfinished(
        &mut self,
        name: CString,
        old: Option<Stat>,
        create: impl Fn(BorrowedFd<'_>, &CString) -> rustix::io::Result<OwnedFd>,
    ) -> Result<(OwnedFd, Target), SinkError> {
        let temporary = c_name(&unfinished_name(name.as_bytes()))?;
        match create(self.top(), &temporary) {
            Ok(fd) => {
                // Another copy finds it only in the moment before, and compares its content.
                let _ = rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive);
                Ok((fd, Target::Replacing { temporary, name, old }))
            }
            Err(Errno::EXIST) => self.create_temporary(name, old, create),
            Err(error) => Err(failed(error)),
        }
    }

    /// With [`CopyOptions::resume`](crate::copy::CopyOptions::resume) the file that an earlier copy
    /// left unfinished.
    pub(super) fn unfinished(&self, name: &CString) -> Result<Option<Opened>, SinkError> {
        if !self.options.resume {
            return Ok(None);
        }
        let temporary = c_name(&unfinished_name(name.as_bytes()))?;
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(fd) = rustix::fs::openat(self.top(), &temporary, flags, Mode::empty()) else {
            return Ok(None);
        };
        let stat = rustix::fs::fstat(&fd).map_err(failed)?;
        let own = stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_nlink == 1;
        let regular = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let lock = FlockOperation::NonBlockingLockExclusive;
        if !own || !regular || rustix::fs::flock(&fd, lock).is_err() {
            return Ok(None);
        }
        // The other copy may have completed it since.
        let there = rustix::fs::statat(self.top(), &temporary, AtFlags::SYMLINK_NOFOLLOW);
        if !there.is_ok_and(|there| FileId::of(&there) == FileId::of(&stat)) {
            return Ok(None);
        }
        let resume = Resume::new(stat.st_size as u64);
        let target = Target::Replacing { temporary, name: name.clone(), old: None };
        Ok(Some((fd, target, Some(resume))))
    }

    /// Sets the attributes of an existing file that has the content of `entry`.
    pub(super) fn complete_unchanged(
        &mut self,
        entry: &Entry,
        report: &mut CopyReport,
    ) -> SinkResult {
        let (dir, name) = split_last(&entry.path);
        self.enter(dir)?;
        let name = c_name(name)?;
        let stat = self.stat(&name)?;
        if self.options.protect_created {
            self.created.insert(FileId::of(&stat));
        }
        let kept = self.options.kept();
        let same_mode = entry.meta.perm == (stat.st_mode & 0o7777) as u16;
        let same_owner = (stat.st_uid, stat.st_gid) == (entry.meta.uid, entry.meta.gid);
        if (same_mode || !kept.mode) && (same_owner || !kept.ownership) {
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(self.top(), &name, flags, Mode::empty()).map_err(failed)?;
        attributes::attributes(&fd, &entry.meta, kept, report)
    }
}
