//! Which files of a source are copied, and the files that exist at the target.
//!
//! # Invariants
//! 1. A selection is made in the thread of the source, before it reads content. It depends on the
//!    entry and on the target alone, never on the progress of the copy.
//! 2. The target of an entry is looked up before the copy creates anything at its path.

use std::os::fd::OwnedFd;
use std::path::Path;

use ffs_core::{Cred, DeviceNumber, Ffs, FileType, Timespec, Vnode};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat};

use super::entry::{Entry, EntryKind};
use super::error::CopyError;
use crate::namei::{Last, namei_from};
use crate::text::escape;

/// What to do with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Copy it.
    Copy,
    /// Leave its target alone.
    Keep,
    /// Its target has its content already.
    Unchanged,
    /// It is not part of the copy: nothing is counted or reported.
    Ignore,
}

/// Chooses the files of a source.
pub trait Select: Send + Sync {
    /// Whether to leave out the file at `path`, relative to the top of the source, and everything
    /// below it.
    fn excludes(&self, path: &[u8]) -> bool {
        let _ = path;
        false
    }

    /// Whether to leave out the directory at `path`, relative to the top of the source, and
    /// everything below it.
    fn excludes_directory(&self, path: &[u8]) -> bool {
        let _ = path;
        false
    }

    /// What to do with an entry.
    fn verdict(&self, entry: &Entry) -> Verdict {
        let _ = entry;
        Verdict::Copy
    }
}

/// A file that exists at the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Type.
    pub kind: FileType,
    /// Bytes.
    pub size: u64,
    /// Modification time.
    pub mtime: Timespec,
}

/// The files that exist at the target of a copy.
pub trait Targets: Send + Sync {
    /// The file at `path`, relative to the directory of the sink. `follow`: of a symbolic link the
    /// file that it leads to.
    fn find(&self, path: &[u8], follow: bool) -> Option<Found>;
}

/// The files below a directory of an image.
pub struct ImageTargets {
    ffs: Ffs,
    cred: Cred,
    root: Vnode,
}

impl ImageTargets {
    /// Those below `root`.
    #[must_use]
    pub fn new(ffs: &Ffs, cred: &Cred, root: Vnode) -> ImageTargets {
        ImageTargets { ffs: ffs.clone(), cred: cred.clone(), root }
    }
}

impl Targets for ImageTargets {
    fn find(&self, path: &[u8], follow: bool) -> Option<Found> {
        let last = if follow { Last::Follow } else { Last::Keep };
        let file = namei_from(&self.ffs, &self.cred, self.root.clone(), path, last).ok()?;
        let attr = self.ffs.getattr(&file);
        Some(Found { kind: attr.kind, size: attr.size, mtime: attr.mtime })
    }
}

/// The files below a directory of the host.
pub struct HostTargets(OwnedFd);

impl HostTargets {
    /// Those below `root`.
    ///
    /// # Errors
    /// `root` cannot be opened.
    pub fn new(root: &Path) -> Result<HostTargets, CopyError> {
        use std::os::unix::ffi::OsStrExt;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = rustix::fs::openat(CWD, root, flags, Mode::empty());
        let name = || escape(root.as_os_str().as_bytes());
        Ok(HostTargets(fd.map_err(|error| CopyError::at(name(), error))?))
    }
}

impl Targets for HostTargets {
    fn find(&self, path: &[u8], follow: bool) -> Option<Found> {
        let path = if path.is_empty() { b"." } else { path };
        let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        found(&rustix::fs::statat(&self.0, path, flags).ok()?)
    }
}

#[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
fn found(stat: &Stat) -> Option<Found> {
    let kind = match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
        rustix::fs::FileType::RegularFile => FileType::Regular,
        rustix::fs::FileType::Directory => FileType::Directory,
        rustix::fs::FileType::Symlink => FileType::Symlink,
        rustix::fs::FileType::Fifo => FileType::Fifo,
        rustix::fs::FileType::Socket => FileType::Socket,
        rustix::fs::FileType::CharacterDevice => FileType::Char,
        rustix::fs::FileType::BlockDevice => FileType::Block,
        _ => return None,
    };
    let mtime = Timespec { secs: stat.st_mtime, nsec: stat.st_mtime_nsec as i32 };
    Some(Found { kind, size: stat.st_size as u64, mtime })
}

impl EntryKind {
    /// The type of the file, if the entry has one: a hard link has that of an earlier entry.
    #[must_use]
    pub fn file_type(&self) -> Option<FileType> {
        Some(match self {
            EntryKind::Directory => FileType::Directory,
            EntryKind::File(_) => FileType::Regular,
            EntryKind::Symlink(_) => FileType::Symlink,
            EntryKind::Fifo => FileType::Fifo,
            EntryKind::Socket => FileType::Socket,
            EntryKind::Char(_) => FileType::Char,
            EntryKind::Block(_) => FileType::Block,
            EntryKind::Link(_) => return None,
        })
    }

    /// The number of a device.
    pub(crate) fn device(&self) -> Option<DeviceNumber> {
        match self {
            EntryKind::Char(number) | EntryKind::Block(number) => Some(*number),
            _ => None,
        }
    }
}
