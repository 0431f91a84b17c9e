//! Any mounted directory, through system calls relative to an open directory.
//!
//! **Invariants.**
//! 1. A target works below a new subdirectory, and removes nothing else.
//! 2. The kernel drops its cached names (`vm.drop_caches`), or the result states that it did not.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::host;
use super::mounted;
use super::slots::Slots;
use super::volume::{CONTENT, PIECE};
use super::{Demand, DirId, Facts, FileId, Forgotten, Kind, Open, Stat, Target, failed};
use crate::error::{LabError, Result};
use crate::timer::Timer;

/// The file by which Linux drops unused names and inodes.
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
/// Most names tried for the subdirectory.
const TRIES: u32 = 1000;
/// Permissions of a new file.
const NEW_FILE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP).union(Mode::ROTH);

/// A mounted directory as a target.
pub(crate) struct DirTarget {
    label: String,
    timer: Arc<dyn Timer>,
    /// The directory that the user named.
    base: OwnedFd,
    fs: &'static str,
    work: Option<Work>,
    /// Names not tried yet.
    next: u32,
    /// The bytes to write.
    content: Vec<u8>,
    /// The buffer for reading.
    sink: Vec<u8>,
}

/// The subdirectory.
struct Work {
    name: String,
    /// The open subdirectory.
    top: OwnedFd,
    /// Open directories; the first is the subdirectory, too.
    dirs: Slots<OwnedFd>,
    files: Slots<OwnedFd>,
}

fn open_dir(at: &OwnedFd, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

impl DirTarget {
    /// Opens the directory without writing to it.
    ///
    /// # Errors
    /// [`LabError::Unusable`] if it cannot be opened.
    pub(crate) fn open(label: &str, path: &Path, timer: Arc<dyn Timer>) -> Result<DirTarget> {
        let refuse = |error: Errno| LabError::unusable(label, error);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let base = rustix::fs::open(path, flags, Mode::empty()).map_err(refuse)?;
        let fs = host::fs_name(&base).map_err(refuse)?;
        Ok(DirTarget {
            label: label.to_owned(),
            timer,
            base,
            fs,
            work: None,
            next: 0,
            content: Vec::new(),
            sink: Vec::new(),
        })
    }

    /// The subdirectory between [`Target::begin`] and [`Target::end`].
    pub(crate) fn top(&self) -> Option<&OwnedFd> {
        self.work.as_ref().map(|work| &work.top)
    }

    fn dir(&self, at: DirId) -> Result<&OwnedFd> {
        let dir = self.work.as_ref().and_then(|work| work.dirs.get(at.0));
        dir.ok_or_else(|| self.not_in_use())
    }

    fn file(&self, file: FileId) -> Result<&OwnedFd> {
        let file = self.work.as_ref().and_then(|work| work.files.get(file.0));
        file.ok_or_else(|| self.not_in_use())
    }

    #[cold]
    fn not_in_use(&self) -> LabError {
        LabError::unusable(&self.label, "no such directory or file is in use")
    }

    fn use_dir(&mut self, dir: OwnedFd) -> Result<DirId> {
        match &mut self.work {
            Some(work) => Ok(DirId(work.dirs.insert(dir))),
            None => Err(self.not_in_use()),
        }
    }

    #[cold]
    fn failed(&self, op: &str, name: &[u8], error: Errno) -> LabError {
        failed(&self.label, op, name, error, matches!(error, Errno::NOSPC | Errno::DQUOT))
    }

    fn check_space(&self, demand: Demand) -> Result<()> {
        let Demand { files, bytes } = demand;
        let refuse = |why: String| LabError::unusable(&self.label, why);
        let found = rustix::fs::fstatvfs(&self.base).map_err(|error| refuse(error.to_string()))?;
        // File systems that allocate inodes on demand report none.
        if found.f_files > 0 && found.f_favail < files {
            let free = found.f_favail;
            return Err(refuse(format!(
                "has {free} free inodes, {files} are needed; take fewer files (-n, --scale) or a \
                 larger file system"
            )));
        }
        let free = found.f_bavail.saturating_mul(found.f_frsize);
        // Most file systems use at least one block for a file.
        let wanted = if bytes == 0 { 0 } else { bytes.saturating_add(files.saturating_mul(4096)) };
        if free < wanted {
            let (free, wanted) = (free >> 20, (wanted >> 20) + 1);
            return Err(refuse(format!(
                "has {free} MB free, {wanted} MB are needed; take a smaller --scale or a larger \
                 file system"
            )));
        }
        Ok(())
    }

    /// Makes the subdirectory.
    fn make(&mut self) -> Result<Work> {
        for _ in 0..TRIES {
            let name = format!("ffs-lab.{}.{}", std::process::id(), self.next);
            self.next += 1;
            match rustix::fs::mkdirat(&self.base, &name, Mode::RWXU) {
                Ok(()) => {
                    let open = || open_dir(&self.base, name.as_bytes());
                    let opened = open().and_then(|top| Ok((top, open()?)));
                    let (top, dir) =
                        opened.map_err(|error| self.failed("open", name.as_bytes(), error))?;
                    let mut dirs = Slots::default();
                    dirs.insert(dir);
                    return Ok(Work { name, top, dirs, files: Slots::default() });
                }
                Err(Errno::EXIST) => {}
                Err(error @ (Errno::ACCESS | Errno::PERM | Errno::ROFS)) => {
                    let why = format!("{error}; the target must be a directory you may write in");
                    return Err(LabError::unusable(&self.label, why));
                }
                Err(error) => return Err(self.failed("mkdir", name.as_bytes(), error)),
            }
        }
        Err(LabError::unusable(&self.label, "no name is free for a subdirectory"))
    }
}

/// Calls a function with each name and its kind.
fn names(dir: &OwnedFd, each: &mut dyn FnMut(&CStr, Kind)) -> rustix::io::Result<()> {
    // A separate open directory: readers do not share its position.
    let dir = open_dir(dir, b".")?;
    host::entries(dir, &mut |name, kind| {
        if name != c"." && name != c".." {
            let kind = match kind {
                rustix::fs::FileType::RegularFile => Kind::File,
                rustix::fs::FileType::Directory => Kind::Directory,
                _ => Kind::Other,
            };
            each(name, kind);
        }
    })
}

/// Removes everything below `dir`. Removals may change the order of a listing, so it lists again
/// until the directory is empty.
fn empty(dir: &OwnedFd) -> rustix::io::Result<()> {
    loop {
        let (mut seen, mut failed, mut dirs) = (false, None, Vec::new());
        names(dir, &mut |name, kind| {
            seen = true;
            if kind != Kind::File {
                dirs.push(name.to_owned());
            } else if let Err(error) = rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
                failed.get_or_insert(error);
            }
        })?;
        for name in dirs {
            match rustix::fs::unlinkat(dir, &*name, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY | Errno::EXIST) => {
                    empty(&open_dir(dir, name.to_bytes())?)?;
                    rustix::fs::unlinkat(dir, &*name, AtFlags::REMOVEDIR)?;
                }
                Err(Errno::NOTDIR) => rustix::fs::unlinkat(dir, &*name, AtFlags::empty())?,
                other => other?,
            }
        }
        match failed {
            Some(error) => return Err(error),
            None if !seen => return Ok(()),
            None => {}
        }
    }
}

impl Target for DirTarget {
    fn label(&self) -> &str {
        &self.label
    }

    fn facts(&self) -> Facts {
        let durability = rustix::fs::fstat(&self.base).map(|stat| mounted::durability(&stat));
        let durability = durability.unwrap_or_default();
        Facts { fs: self.fs.to_owned(), durability, computes: false }
    }

    fn now(&self) -> Duration {
        self.timer.now()
    }

    fn cpu(&self) -> Duration {
        self.timer.cpu()
    }

    fn begin(&mut self, demand: Demand) -> Result<DirId> {
        self.end()?;
        self.check_space(demand)?;
        self.work = Some(self.make()?);
        Ok(DirId(0))
    }

    fn end(&mut self) -> Result<()> {
        let Some(work) = self.work.take() else { return Ok(()) };
        drop((work.dirs, work.files));
        empty(&work.top)
            .and_then(|()| rustix::fs::unlinkat(&self.base, work.name.as_str(), AtFlags::REMOVEDIR))
            .map_err(|error| self.failed("remove", work.name.as_bytes(), error))
    }

    fn mkdir(&mut self, at: DirId, name: &[u8]) -> Result<DirId> {
        let dir = self.dir(at)?;
        let made = rustix::fs::mkdirat(dir, name, Mode::RWXU).and_then(|()| open_dir(dir, name));
        let made = made.map_err(|error| self.failed("mkdir", name, error))?;
        self.use_dir(made)
    }

    fn open_dir(&mut self, at: DirId, name: &[u8]) -> Result<DirId> {
        let dir = open_dir(self.dir(at)?, name);
        let dir = dir.map_err(|error| self.failed("open directory", name, error))?;
        self.use_dir(dir)
    }

    fn close_dir(&mut self, dir: DirId) -> Result<()> {
        let closed = self.work.as_mut().and_then(|work| work.dirs.remove(dir.0));
        closed.map(drop).ok_or_else(|| self.not_in_use())
    }

    fn rmdir(&mut self, at: DirId, name: &[u8]) -> Result<()> {
        rustix::fs::unlinkat(self.dir(at)?, name, AtFlags::REMOVEDIR)
            .map_err(|error| self.failed("rmdir", name, error))
    }

    fn create(&mut self, at: DirId, name: &[u8]) -> Result<()> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        // Dropping the handle closes it.
        rustix::fs::openat(self.dir(at)?, name, flags, NEW_FILE)
            .map(drop)
            .map_err(|error| self.failed("create", name, error))
    }

    fn stat(&mut self, at: DirId, name: &[u8]) -> Result<Option<Stat>> {
        match rustix::fs::statat(self.dir(at)?, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(Stat { ino: stat.st_ino, size: stat.st_size as u64 })),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.failed("stat", name, error)),
        }
    }

    fn rename(&mut self, at: DirId, from: &[u8], to: &[u8]) -> Result<()> {
        self.rename_to((at, from), (at, to))
    }

    fn rename_to(&mut self, from: (DirId, &[u8]), to: (DirId, &[u8])) -> Result<()> {
        rustix::fs::renameat(self.dir(from.0)?, from.1, self.dir(to.0)?, to.1)
            .map_err(|error| self.failed("rename", from.1, error))
    }

    fn link(&mut self, from: (DirId, &[u8]), to: (DirId, &[u8])) -> Result<()> {
        rustix::fs::linkat(self.dir(from.0)?, from.1, self.dir(to.0)?, to.1, AtFlags::empty())
            .map_err(|error| self.failed("link", to.1, error))
    }

    fn unlink(&mut self, at: DirId, name: &[u8]) -> Result<()> {
        rustix::fs::unlinkat(self.dir(at)?, name, AtFlags::empty())
            .map_err(|error| self.failed("unlink", name, error))
    }

    fn list(&mut self, at: DirId, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.list_kinds(at, &mut |name, _| each(name))
    }

    fn list_kinds(&mut self, at: DirId, each: &mut dyn FnMut(&[u8], Kind)) -> Result<()> {
        names(self.dir(at)?, &mut |name, kind| each(name.to_bytes(), kind))
            .map_err(|error| self.failed("list", b"", error))
    }

    fn open(&mut self, at: DirId, name: &[u8], how: Open) -> Result<FileId> {
        let flags = match how {
            Open::Read => OFlags::RDONLY,
            Open::Write => OFlags::RDWR,
            Open::Append => OFlags::WRONLY | OFlags::APPEND,
            Open::Create => OFlags::RDWR | OFlags::CREATE,
            Open::CreateNew => OFlags::RDWR | OFlags::CREATE | OFlags::EXCL,
            Open::Truncate => OFlags::RDWR | OFlags::CREATE | OFlags::TRUNC,
        };
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(self.dir(at)?, name, flags, NEW_FILE);
        let file = file.map_err(|error| self.failed("open", name, error))?;
        match &mut self.work {
            Some(work) => Ok(FileId(work.files.insert(file))),
            None => Err(self.not_in_use()),
        }
    }

    fn read(&mut self, file: FileId, offset: u64, len: usize) -> Result<usize> {
        let mut sink = std::mem::take(&mut self.sink);
        if sink.len() < len {
            sink.resize(len, 0);
        }
        let read = self.file(file).and_then(|fd| {
            let read =
                rustix::io::retry_on_intr(|| rustix::io::pread(fd, &mut sink[..len], offset));
            read.map_err(|error| self.failed("read", b"", error))
        });
        self.sink = sink;
        read
    }

    fn write(&mut self, file: FileId, offset: u64, len: usize) -> Result<()> {
        if self.content.len() < len.min(PIECE) {
            self.content.resize(len.min(PIECE), CONTENT);
        }
        let fd = self.file(file)?;
        let mut done = 0;
        while done < len {
            let piece = &self.content[..(len - done).min(PIECE)];
            let at = offset.saturating_add(done as u64);
            match rustix::io::pwrite(fd, piece, at) {
                Ok(0) => return Err(self.failed("write", b"", Errno::NOSPC)),
                Ok(n) => done += n,
                Err(Errno::INTR) => {}
                Err(error) => return Err(self.failed("write", b"", error)),
            }
        }
        Ok(())
    }

    fn close(&mut self, file: FileId) -> Result<()> {
        let closed = self.work.as_mut().and_then(|work| work.files.remove(file.0));
        closed.map(drop).ok_or_else(|| self.not_in_use())
    }

    fn fsync(&mut self, file: FileId) -> Result<()> {
        rustix::fs::fsync(self.file(file)?).map_err(|error| self.failed("fsync", b"", error))
    }

    fn chmod(&mut self, at: DirId, name: &[u8], mode: u16) -> Result<()> {
        let mode = Mode::from_raw_mode(mode.into());
        rustix::fs::chmodat(self.dir(at)?, name, mode, AtFlags::empty())
            .map_err(|error| self.failed("chmod", name, error))
    }

    fn set_times(&mut self, at: DirId, name: &[u8], seconds: u32) -> Result<()> {
        let to = rustix::fs::Timespec { tv_sec: seconds.into(), tv_nsec: 0 };
        let times = rustix::fs::Timestamps { last_access: to, last_modification: to };
        rustix::fs::utimensat(self.dir(at)?, name, &times, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|error| self.failed("set times of", name, error))
    }

    fn truncate(&mut self, file: FileId, size: u64) -> Result<()> {
        rustix::fs::ftruncate(self.file(file)?, size)
            .map_err(|error| self.failed("truncate", b"", error))
    }

    fn symlink(&mut self, at: DirId, name: &[u8], text: &[u8]) -> Result<()> {
        rustix::fs::symlinkat(text, self.dir(at)?, name)
            .map_err(|error| self.failed("symlink", name, error))
    }

    fn readlink(&mut self, at: DirId, name: &[u8]) -> Result<Vec<u8>> {
        let text = rustix::fs::readlinkat(self.dir(at)?, name, Vec::new());
        let text = text.map_err(|error| self.failed("readlink", name, error))?;
        Ok(text.into_bytes())
    }

    fn sync(&mut self) -> Result<()> {
        host::sync(&self.base).map_err(|error| self.failed("sync", b"", error))
    }

    fn forget(&mut self) -> Result<Forgotten> {
        if self.fs == "tmpfs" {
            let why = "a tmpfs has its names nowhere but in the kernel's cache of names";
            return Ok(Forgotten::Impossible(why.to_owned()));
        }
        // The kernel does not drop dirty inodes.
        self.sync()?;
        Ok(match std::fs::write(DROP_CACHES, "2") {
            Ok(()) => Forgotten::Done(
                "synced, then the kernel dropped unused names and inodes (vm.drop_caches=2); \
                 blocks stay",
            ),
            Err(error) => Forgotten::Impossible(format!("{DROP_CACHES}: {error} (needs root)")),
        })
    }
}

impl Drop for DirTarget {
    fn drop(&mut self) {
        // `end` reports errors; a drop cannot.
        let _ = self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timer::StepTimer;

    fn target(path: &Path) -> DirTarget {
        let label = path.display().to_string();
        DirTarget::open(&label, path, Arc::new(StepTimer::new(1))).unwrap()
    }

    #[test]
    fn a_directory_is_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("mine"), "untouched").unwrap();
        let mut t = target(dir.path());
        let at = t.begin(Demand::files(10)).unwrap();
        for name in [b"a", b"b", b"c"] {
            t.create(at, name).unwrap();
        }
        assert!(t.create(at, b"a").is_err(), "made twice");
        t.rename(at, b"a", b"d").unwrap();
        t.unlink(at, b"b").unwrap();
        assert_eq!(t.stat(at, b"a").unwrap(), None);
        assert_eq!(t.stat(at, b"d").unwrap().unwrap().size, 0);
        let below = t.mkdir(at, b"sub").unwrap();
        t.create(below, b"deep").unwrap();
        let mut seen = Vec::new();
        t.list(at, &mut |name| seen.push(name.to_owned())).unwrap();
        seen.sort();
        assert_eq!(seen, [&b"c"[..], b"d", b"sub"]);
        drop(t);
        let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(std::fs::read_to_string(dir.path().join("mine")).unwrap(), "untouched");
    }

    #[test]
    fn too_few_inodes_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let mut t = target(dir.path());
        let inodes = rustix::fs::statvfs(dir.path()).unwrap().f_files;
        if inodes == 0 {
            return println!("skipped: this file system has as many inodes as it likes");
        }
        let error = t.begin(Demand::files(inodes + 1)).unwrap_err().to_string();
        assert!(error.contains("free inodes"), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
