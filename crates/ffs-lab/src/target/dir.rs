//! Any mounted directory, through system calls relative to an open directory.
//!
//! **Invariants.**
//! 1. All work is below a subdirectory made here under a name that was free; only that is removed.
//! 2. Names are forgotten by the kernel's own means (`vm.drop_caches`), or the result says that they
//!    were not.

use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, RawDir};
use rustix::io::Errno;

use super::{DirId, Facts, Forgotten, Stat, Target, failed};
use crate::error::{LabError, Result};
use crate::timer::Timer;

/// What makes Linux forget names and inodes nobody uses.
const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
/// Bytes of directory read at once, as C libraries do.
const LIST_BUFFER: usize = 32 << 10;
/// Names tried for the subdirectory.
const TRIES: u32 = 1000;

/// A mounted directory as a target.
pub struct DirTarget {
    label: String,
    timer: Arc<dyn Timer>,
    /// The directory the user named.
    base: OwnedFd,
    fs: &'static str,
    work: Option<Work>,
    /// Names not tried yet.
    next: u32,
}

/// The subdirectory.
struct Work {
    name: String,
    /// Open directories; the first is the subdirectory.
    dirs: Vec<OwnedFd>,
}

fn open_dir(at: &OwnedFd, name: &[u8]) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(at, name, flags, Mode::empty())
}

/// The name of a file system, by its number.
fn fs_name(magic: u64) -> &'static str {
    match magic {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x0102_1994 => "tmpfs",
        0x6573_5546 => "fuse",
        0x794c_7630 => "overlay",
        0x0001_1954 => "ufs",
        0xf2f5_2010 => "f2fs",
        0x2fc1_2fc1 => "zfs",
        _ => "unknown",
    }
}

impl DirTarget {
    /// Opens the directory; nothing is written yet.
    ///
    /// # Errors
    /// [`LabError::Unusable`] if it cannot be opened.
    pub fn open(label: &str, path: &Path, timer: Arc<dyn Timer>) -> Result<DirTarget> {
        let refuse = |error: Errno| LabError::unusable(label, error);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let base = rustix::fs::open(path, flags, Mode::empty()).map_err(refuse)?;
        let found = rustix::fs::fstatfs(&base).map_err(refuse)?;
        let fs = fs_name(found.f_type as u64);
        Ok(DirTarget { label: label.to_owned(), timer, base, fs, work: None, next: 0 })
    }

    fn dir(&self, at: DirId) -> Result<&OwnedFd> {
        let dir = self.work.as_ref().and_then(|work| work.dirs.get(at.0));
        dir.ok_or_else(|| LabError::unusable(&self.label, "no such directory is in use"))
    }

    #[cold]
    fn failed(&self, op: &str, name: &[u8], error: Errno) -> LabError {
        failed(&self.label, op, name, error, matches!(error, Errno::NOSPC | Errno::DQUOT))
    }

    fn has_room(&self, files: u64) -> Result<()> {
        let refuse = |why: String| LabError::unusable(&self.label, why);
        let found = rustix::fs::fstatvfs(&self.base).map_err(|error| refuse(error.to_string()))?;
        // File systems that make inodes as they need them say that they have none.
        if found.f_files > 0 && found.f_favail < files {
            let free = found.f_favail;
            return Err(refuse(format!(
                "has {free} free inodes, {files} are needed; take fewer files (-n) or a larger file system"
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
                    let dir = open_dir(&self.base, name.as_bytes());
                    let dir = dir.map_err(|error| self.failed("open", name.as_bytes(), error))?;
                    return Ok(Work { name, dirs: vec![dir] });
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

/// Shows names and whether each may be a directory.
fn names(dir: &OwnedFd, each: &mut dyn FnMut(&CStr, bool)) -> rustix::io::Result<()> {
    // Its own open directory: positions are not shared with other readers.
    let dir = open_dir(dir, b".")?;
    let mut buffer = Vec::with_capacity(LIST_BUFFER);
    let mut raw = RawDir::new(dir, buffer.spare_capacity_mut());
    while let Some(entry) = raw.next() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            each(name, entry.file_type() != rustix::fs::FileType::RegularFile);
        }
    }
    Ok(())
}

/// Removes everything below `dir`. What a list shows may change as entries go: again until it is empty.
fn empty(dir: &OwnedFd) -> rustix::io::Result<()> {
    loop {
        let (mut seen, mut failed, mut dirs) = (false, None, Vec::new());
        names(dir, &mut |name, perhaps_dir| {
            seen = true;
            if perhaps_dir {
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
        let durability = "as the mount has it; by default nothing before sync";
        Facts { fs: self.fs.to_owned(), durability: durability.to_owned() }
    }

    fn now(&self) -> Duration {
        self.timer.now()
    }

    fn cpu(&self) -> Duration {
        self.timer.cpu()
    }

    fn begin(&mut self, files: u64) -> Result<DirId> {
        self.end()?;
        self.has_room(files)?;
        self.work = Some(self.make()?);
        Ok(DirId(0))
    }

    fn end(&mut self) -> Result<()> {
        let Some(work) = self.work.take() else { return Ok(()) };
        let emptied = work.dirs.first().map_or(Ok(()), empty);
        drop(work.dirs);
        emptied
            .and_then(|()| rustix::fs::unlinkat(&self.base, work.name.as_str(), AtFlags::REMOVEDIR))
            .map_err(|error| self.failed("remove", work.name.as_bytes(), error))
    }

    fn mkdir(&mut self, at: DirId, name: &[u8]) -> Result<DirId> {
        let dir = self.dir(at)?;
        let made = rustix::fs::mkdirat(dir, name, Mode::RWXU).and_then(|()| open_dir(dir, name));
        let made = made.map_err(|error| self.failed("mkdir", name, error))?;
        let dirs = self.work.as_mut().map(|work| &mut work.dirs);
        let dirs = dirs.ok_or_else(|| LabError::unusable("directory", "is not in use"))?;
        dirs.push(made);
        Ok(DirId(dirs.len() - 1))
    }

    fn create(&mut self, at: DirId, name: &[u8]) -> Result<()> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR | Mode::RGRP | Mode::ROTH;
        // Dropping the handle closes it.
        rustix::fs::openat(self.dir(at)?, name, flags, mode)
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
        let dir = self.dir(at)?;
        rustix::fs::renameat(dir, from, dir, to).map_err(|error| self.failed("rename", from, error))
    }

    fn unlink(&mut self, at: DirId, name: &[u8]) -> Result<()> {
        rustix::fs::unlinkat(self.dir(at)?, name, AtFlags::empty())
            .map_err(|error| self.failed("unlink", name, error))
    }

    fn list(&mut self, at: DirId, each: &mut dyn FnMut(&[u8])) -> Result<()> {
        names(self.dir(at)?, &mut |name, _| each(name.to_bytes()))
            .map_err(|error| self.failed("list", b"", error))
    }

    fn sync(&mut self) -> Result<()> {
        rustix::fs::syncfs(&self.base).map_err(|error| self.failed("sync", b"", error))
    }

    fn forget(&mut self) -> Result<Forgotten> {
        if self.fs == "tmpfs" {
            let why = "a tmpfs has its names nowhere but in the kernel's cache of names";
            return Ok(Forgotten::Impossible(why.to_owned()));
        }
        // What is dirty cannot be forgotten.
        self.sync()?;
        Ok(match std::fs::write(DROP_CACHES, "2") {
            Ok(()) => Forgotten::Done(
                "synced, then the kernel dropped unused names and inodes (vm.drop_caches=2); blocks stay",
            ),
            Err(error) => Forgotten::Impossible(format!("{DROP_CACHES}: {error} (needs root)")),
        })
    }
}

impl Drop for DirTarget {
    fn drop(&mut self) {
        // Whoever wanted to know has called end.
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
        let at = t.begin(10).unwrap();
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
        let error = t.begin(inodes + 1).unwrap_err().to_string();
        assert!(error.contains("free inodes"), "{error}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
