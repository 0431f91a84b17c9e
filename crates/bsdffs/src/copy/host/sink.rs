//! A directory of the host as a sink.
//!
//! # Invariants
//! 1. Each step uses the descriptor of the directory. Only a symbolic link that existed before the
//!    copy is followed, to the file to overwrite: an image cannot make a copy write outside the
//!    target.
//! 2. A new file gets its name when it is complete.
//! 3. Directories get the attributes to preserve last, in [`Sink::finish`].

mod attributes;
mod nodes;
mod unfinished;

use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{FileId, raise_descriptor_limit};
use crate::copy::entry::{Entry, EntryKind, EntryMeta};
use crate::copy::error::{CopyError, PartialFile, SinkError, SinkResult, SkipReason};
use crate::copy::options::{CopyOptions, Existing};
use crate::copy::path::{PathStack, split_last, temporary_name};
use crate::copy::report::CopyReport;
use crate::copy::resume::Resume;
use crate::copy::sink::{Sink, SkippedPath};
use crate::text::escape;

/// Creates a tree below a directory of the host.
pub struct HostSink {
    root: OwnedFd,
    options: CopyOptions,
    /// Files that may not be changed: the images that are read.
    images: Vec<FileId>,
    /// Symbolic links that this copy created; with [`CopyOptions::protect_created`] all files
    /// except directories.
    created: BTreeSet<FileId>,
    /// Descriptors of the directories below the root.
    stack: PathStack<OwnedFd>,
    /// Directories that get their attributes last; those with `true` are new.
    directories: Vec<(Vec<u8>, EntryMeta, bool)>,
    open: Option<OpenFile>,
    /// Temporary names used so far.
    temporaries: u64,
}

/// The file that receives data.
struct OpenFile {
    fd: OwnedFd,
    dir: OwnedFd,
    target: Target,
    /// Bytes.
    size: u64,
    /// End of the data written last, bytes.
    written: u64,
    meta: EntryMeta,
    /// The old content is compared with that of the source.
    resume: Option<Resume>,
}

/// An open file, how it gets its name, and whether its content is compared.
type Opened = (OwnedFd, Target, Option<Resume>);

/// How a file gets its name.
enum Target {
    /// It is new and has its name.
    New(CString),
    /// It is new and has the name `temporary` until it is complete. Then it is renamed to `name`,
    /// and replaces `old`.
    Replacing { temporary: CString, name: CString, old: Option<Stat> },
    /// It existed, and its content is overwritten.
    Existing,
}

/// The error of the copy after a system call failed.
fn failed(error: Errno) -> SinkError {
    let stop = |error| SinkError::Stop(CopyError::new(io::Error::from(error).kind(), error));
    match error {
        Errno::NOSPC | Errno::DQUOT | Errno::IO | Errno::ROFS => stop(error),
        other => SinkError::skip(other),
    }
}

fn c_name(name: &[u8]) -> Result<CString, SinkError> {
    CString::new(name).map_err(|_| SinkError::skip("the name has a NUL byte in it"))
}

impl HostSink {
    /// A sink for the directory `root`, which must exist. The files `images` are not changed.
    ///
    /// # Errors
    /// `root` cannot be opened.
    pub fn new(
        root: &Path,
        options: CopyOptions,
        images: Vec<FileId>,
    ) -> Result<HostSink, CopyError> {
        raise_descriptor_limit();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, root, flags, Mode::empty())
            .map_err(|error| CopyError::at(escape(root.as_os_str().as_bytes()), error))?;
        Ok(HostSink {
            root,
            options,
            images,
            created: BTreeSet::new(),
            stack: PathStack::new(),
            directories: Vec::new(),
            open: None,
            temporaries: 0,
        })
    }

    fn top(&self) -> BorrowedFd<'_> {
        self.stack.top().map_or(self.root.as_fd(), OwnedFd::as_fd)
    }

    /// Makes `path` the current directory.
    fn enter(&mut self, path: &[u8]) -> SinkResult {
        for name in self.stack.truncate_to(path) {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let fd = rustix::fs::openat(self.top(), c_name(name)?.as_c_str(), flags, Mode::empty());
            self.stack.push(name, fd.map_err(failed)?);
        }
        Ok(())
    }

    fn make_directory(&mut self, entry: &Entry) -> SinkResult {
        let (dir, name) = split_last(&entry.path);
        let mut new = false;
        if !name.is_empty() {
            self.enter(dir)?;
            let c_name = c_name(name)?;
            let kept = self.options.kept().mode;
            let perm = if kept { 0o700 } else { entry.meta.perm & 0o1777 | 0o700 };
            let mode = Mode::from_raw_mode(perm.into());
            match rustix::fs::mkdirat(self.top(), c_name.as_c_str(), mode) {
                Ok(()) => new = true,
                Err(Errno::EXIST) => {
                    let stat = self.stat(&c_name)?;
                    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                        return Err(SinkError::skip("exists and is not a directory"));
                    }
                }
                Err(error) => return Err(failed(error)),
            }
        }
        // A new directory is writable for its owner until it is filled.
        if self.options.preserve || new && entry.meta.perm & 0o700 != 0o700 {
            self.directories.push((entry.path.clone(), entry.meta.clone(), new));
        }
        Ok(())
    }

    fn stat(&self, name: &CString) -> Result<Stat, SinkError> {
        rustix::fs::statat(self.top(), name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW).map_err(failed)
    }

    /// The existing file `name`, if it may be overwritten or replaced.
    fn existing(&self, name: &CString) -> Result<Stat, SinkError> {
        let stat = self.stat(name)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return Err(SinkError::skip("exists and is a directory"));
        }
        if self.options.existing == Existing::Keep {
            return Err(SinkError::Keep);
        }
        self.may_change(&stat)?;
        Ok(stat)
    }

    /// Refuses to change an image that is read, and a file that this copy created.
    fn may_change(&self, stat: &Stat) -> SinkResult {
        if self.images.contains(&FileId::of(stat)) {
            return Err(SinkError::skip("is the image that is read"));
        }
        if self.options.protect_created && self.created.contains(&FileId::of(stat)) {
            return Err(SinkError::Skip(SkipReason::CreatedByThisCopy));
        }
        Ok(())
    }

    /// Calls `create` with the name; if that exists, with a temporary name.
    fn create<T>(
        &mut self,
        name: &[u8],
        mut create: impl FnMut(BorrowedFd<'_>, &CString) -> rustix::io::Result<T>,
    ) -> Result<(T, Target), SinkError> {
        let wanted = c_name(name)?;
        match create(self.top(), &wanted) {
            Err(Errno::EXIST) => {}
            Ok(made) => return Ok((made, Target::New(wanted))),
            Err(error) => return Err(failed(error)),
        }
        let old = self.existing(&wanted)?;
        self.create_temporary(wanted, Some(old), create)
    }

    /// Calls `create` with an unused temporary name.
    fn create_temporary<T>(
        &mut self,
        name: CString,
        old: Option<Stat>,
        mut create: impl FnMut(BorrowedFd<'_>, &CString) -> rustix::io::Result<T>,
    ) -> Result<(T, Target), SinkError> {
        loop {
            let temporary = c_name(&temporary_name(self.temporaries))?;
            self.temporaries += 1;
            match create(self.top(), &temporary) {
                Err(Errno::EXIST) => {}
                Ok(made) => return Ok((made, Target::Replacing { temporary, name, old })),
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Creates the regular file of `entry`, or truncates the existing one.
    fn open_file(&mut self, entry: &Entry, size: u64) -> SinkResult {
        let (dir, name) = split_last(&entry.path);
        self.enter(dir)?;
        let name = c_name(name)?;
        let old = match rustix::fs::statat(self.top(), &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Some(self.existing(&name)?),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(failed(error)),
        };
        let opened = match &old {
            Some(old) => self.open_existing(&name, old)?,
            None => self.unfinished(&name)?,
        };
        let (fd, target, resume) = match opened {
            Some(opened) => opened,
            None => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let replaces = old.is_some() || self.options.kept().mode;
                let perm = if replaces { 0o600 } else { entry.meta.perm & 0o777 };
                let mode = Mode::from_raw_mode(perm.into());
                let (fd, target) = self.create_unfinished(name, old, |dir, name| {
                    rustix::fs::openat(dir, name, flags, mode)
                })?;
                (fd, target, None)
            }
        };
        if self.options.protect_created {
            self.created.insert(FileId::of(&rustix::fs::fstat(&fd).map_err(failed)?));
        }
        let dir = self.top().try_clone_to_owned().map_err(SinkError::skip)?;
        let meta = entry.meta.clone();
        let written = resume.as_ref().map_or(0, Resume::size);
        self.open = Some(OpenFile { fd, dir, target, size, written, meta, resume });
        Ok(())
    }

    /// Opens and truncates the existing file `name`; follows a symbolic link. With
    /// [`CopyOptions::resume`] the content stays. `None` if the file is to be replaced.
    fn open_existing(&self, name: &CString, old: &Stat) -> Result<Option<Opened>, SinkError> {
        if self.options.existing == Existing::Replace {
            return Ok(None);
        }
        let link = FileType::from_raw_mode(old.st_mode) == FileType::Symlink;
        if link && self.created.contains(&FileId::of(old)) {
            return Err(SinkError::Skip(SkipReason::LinkCreatedByThisCopy));
        }
        let at = if link { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let stat = match rustix::fs::statat(self.top(), name, at) {
            Ok(stat) => stat,
            Err(Errno::NOENT) if link => return Err(SinkError::Skip(SkipReason::DanglingLink)),
            Err(error) => return Err(failed(error)),
        };
        check_regular(&stat)?;
        self.may_change(&stat)?;
        if self.options.replaces(stat.st_nlink as u64) {
            return Ok(None);
        }
        let access = if self.options.resume { OFlags::RDWR } else { OFlags::WRONLY };
        let mut flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC;
        flags.set(OFlags::NOFOLLOW, !link);
        let fd = match rustix::fs::openat(self.top(), name, flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(_) if self.options.force => return Ok(None),
            Err(error @ (Errno::ACCESS | Errno::PERM | Errno::TXTBSY)) => {
                return Err(SinkError::Skip(SkipReason::NotWritable(error.into())));
            }
            Err(error) => return Err(failed(error)),
        };
        // Another file may have replaces the name since.
        let stat = rustix::fs::fstat(&fd).map_err(failed)?;
        check_regular(&stat)?;
        self.may_change(&stat)?;
        if self.options.resume {
            let resume = Resume::new(stat.st_size as u64);
            return Ok(Some((fd, Target::Existing, Some(resume))));
        }
        rustix::fs::ftruncate(&fd, 0).map_err(failed)?;
        Ok(Some((fd, Target::Existing, None)))
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn check_regular(stat: &Stat) -> SinkResult {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        _ => Err(SinkError::skip("exists and is not a regular file; remove it first")),
    }
}

#[cfg(not(target_vendor = "apple"))]
fn make_node(
    dir: BorrowedFd<'_>,
    name: &CString,
    kind: &EntryKind,
    perm: u16,
) -> rustix::io::Result<()> {
    let device = |dev: &ffs_core::DeviceNumber| rustix::fs::makedev(dev.major, dev.minor);
    let (kind, dev) = match kind {
        EntryKind::Char(dev) => (FileType::CharacterDevice, device(dev)),
        EntryKind::Block(dev) => (FileType::BlockDevice, device(dev)),
        EntryKind::Socket => (FileType::Socket, 0),
        _ => (FileType::Fifo, 0),
    };
    rustix::fs::mknodat(dir, name.as_c_str(), kind, Mode::from_raw_mode(perm.into()), dev)
}

#[cfg(target_vendor = "apple")]
fn make_node(_: BorrowedFd<'_>, _: &CString, _: &EntryKind, _: u16) -> rustix::io::Result<()> {
    Err(Errno::NOTSUP)
}

/// Renames a complete file from its temporary name.
fn rename(dir: BorrowedFd<'_>, target: &Target) -> SinkResult {
    let Target::Replacing { temporary, name, .. } = target else { return Ok(()) };
    rustix::fs::renameat(dir, temporary.as_c_str(), dir, name.as_c_str()).map_err(|error| {
        discard(dir, target);
        failed(error)
    })
}

/// Removes a new file.
fn discard(dir: BorrowedFd<'_>, target: &Target) {
    if let Target::New(name) | Target::Replacing { temporary: name, .. } = target {
        // The error that made it necessary is reported.
        let _ = rustix::fs::unlinkat(dir, name.as_c_str(), AtFlags::empty());
    }
}

impl Sink for HostSink {
    fn entry(&mut self, entry: &Entry, report: &mut CopyReport) -> SinkResult {
        match &entry.kind {
            EntryKind::Directory => self.make_directory(entry),
            EntryKind::Link(first) => self.link(entry, first),
            EntryKind::File(size) => self.open_file(entry, *size),
            _ => self.node(entry, report),
        }
    }

    fn data(&mut self, offset: u64, bytes: &[u8]) -> SinkResult {
        let Some(open) = &mut self.open else { return Ok(()) };
        let mut done = 0;
        if let Some(resume) = &mut open.resume {
            done = resume.matching(&open.fd, offset, bytes)?;
            open.written = resume.size();
        }
        while done < bytes.len() {
            match rustix::io::pwrite(&open.fd, &bytes[done..], offset + done as u64) {
                Ok(0) => return Err(failed(Errno::NOSPC)),
                Ok(len) => {
                    done += len;
                    open.written = open.written.max(offset + done as u64);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }

    fn late_attributes(&mut self, meta: EntryMeta) {
        if let Some(open) = &mut self.open {
            open.meta = meta;
        }
    }

    fn end(&mut self, report: &mut CopyReport) -> SinkResult {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        if let Some(resume) = &mut open.resume {
            let size = open.size;
            if resume.end(&open.fd, size)? {
                report.count_unchanged();
            }
        }
        let sized = rustix::fs::ftruncate(&open.fd, open.size).map_err(failed);
        if let Err(error) = sized.and_then(|()| self.set_attributes(&open, report)) {
            discard(open.dir.as_fd(), &open.target);
            return Err(error);
        }
        rename(open.dir.as_fd(), &open.target)
    }

    fn abort(&mut self) -> Option<PartialFile> {
        let open = self.open.take()?;
        if !self.options.resume {
            discard(open.dir.as_fd(), &open.target);
        }
        if open.resume.as_ref().is_some_and(|resume| !resume.is_writing()) {
            // It is as it was.
            return None;
        }
        matches!(open.target, Target::Existing)
            .then_some(PartialFile { written: open.written, size: open.size })
    }

    fn unchanged(&mut self, entry: &Entry, report: &mut CopyReport) -> SinkResult {
        self.complete_unchanged(entry, report)
    }

    fn finish(&mut self, report: &mut CopyReport) -> Result<Vec<SkippedPath>, SinkError> {
        let mut skipped = Vec::new();
        for (path, meta, new) in std::mem::take(&mut self.directories).into_iter().rev() {
            let entered = self.enter(&path);
            let done = entered.and_then(|()| self.directory_attributes(&meta, new, report));
            report.set_path_of_losses(&path);
            match done {
                Err(SinkError::Skip(reason)) => skipped.push((path, reason)),
                other => other?,
            }
        }
        Ok(skipped)
    }
}
