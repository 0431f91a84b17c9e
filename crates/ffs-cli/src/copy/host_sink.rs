//! Makes files on the host.
//!
//! **Invariants.**
//! 1. Every step goes through the descriptor of the directory and follows no link: an image cannot
//!    make its copy write outside the target.
//! 2. A file gets its name when it is complete; what was there before stays until then.
//! 3. Directories get mode, owner and times last, in [`Sink::finish`].

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ffs_core::{DeviceNumber, Timespec, linux_xattr};
use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use super::{Entry, Kind, Loss, Meta, Sink, SinkError, SinkResult, Tally, flags, split_last};
use crate::fail::Failure;
use crate::namei::components;

/// Writes a tree below a directory of the host.
pub(crate) struct HostSink {
    shown: String,
    root: OwnedFd,
    /// Everything is kept as with `cp -a`; else new files are their maker's.
    keep: bool,
    /// Permission bits nobody gets, without `keep`.
    umask: u16,
    stack: Vec<(Vec<u8>, OwnedFd)>,
    directories: Vec<(Vec<u8>, Meta)>,
    open: Option<Open>,
    temporaries: u64,
}

struct Open {
    fd: OwnedFd,
    dir: OwnedFd,
    name: CString,
    replaces: Option<CString>,
    size: u64,
    meta: Meta,
}

fn skip(error: Errno) -> SinkError {
    match error {
        Errno::NOSPC | Errno::DQUOT | Errno::IO | Errno::ROFS => {
            let hint = "what is complete stays";
            SinkError::Stop(Failure::plain(error).hint(hint))
        }
        other => SinkError::Skip(other.to_string()),
    }
}

fn c_name(name: &[u8]) -> Result<CString, SinkError> {
    CString::new(name).map_err(|_| SinkError::Skip("the name has a NUL byte in it".to_owned()))
}

impl HostSink {
    /// A sink for the directory `root`, which must exist.
    pub(crate) fn new(root: &Path, keep: bool) -> Result<HostSink, Failure> {
        super::host_source::raise_descriptor_limit();
        let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let shown = crate::fail::show(root.as_os_str().as_bytes());
        let root = rustix::fs::openat(CWD, root, how, Mode::empty())
            .map_err(|error| Failure::new(&shown, error))?;
        let umask = rustix::process::umask(Mode::empty());
        rustix::process::umask(umask);
        Ok(HostSink {
            shown,
            root,
            keep,
            umask: umask.bits() as u16,
            stack: Vec::new(),
            directories: Vec::new(),
            open: None,
            temporaries: 0,
        })
    }

    fn top(&self) -> BorrowedFd<'_> {
        self.stack.last().map_or(self.root.as_fd(), |(_, fd)| fd.as_fd())
    }

    /// Makes `path` the directory worked in.
    fn enter(&mut self, path: &[u8]) -> SinkResult {
        let mut depth = 0;
        let mut names = components(path);
        let mut next = names.next();
        while let (Some(name), Some((have, _))) = (next, self.stack.get(depth)) {
            if name != have {
                break;
            }
            depth += 1;
            next = names.next();
        }
        self.stack.truncate(depth);
        while let Some(name) = next {
            let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let fd = rustix::fs::openat(self.top(), c_name(name)?.as_c_str(), how, Mode::empty());
            self.stack.push((name.to_vec(), fd.map_err(skip)?));
            next = names.next();
        }
        Ok(())
    }

    fn make_directory(&mut self, entry: &Entry) -> SinkResult {
        let (dir, name) = split_last(&entry.path);
        if name.is_empty() {
            if self.keep {
                self.directories.push((Vec::new(), entry.meta.clone()));
            }
            return Ok(());
        }
        self.enter(dir)?;
        let c_name = c_name(name)?;
        match rustix::fs::mkdirat(self.top(), c_name.as_c_str(), Mode::RWXU) {
            Ok(()) => self.directories.push((entry.path.clone(), entry.meta.clone())),
            Err(Errno::EXIST) => {
                let how = AtFlags::SYMLINK_NOFOLLOW;
                let stat = rustix::fs::statat(self.top(), c_name.as_c_str(), how).map_err(skip)?;
                if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                    return Err(SinkError::Skip("is there and is not a directory".to_owned()));
                }
                if self.keep {
                    self.directories.push((entry.path.clone(), entry.meta.clone()));
                }
            }
            Err(error) => return Err(skip(error)),
        }
        Ok(())
    }

    /// Runs `make` with the name; where that is taken, with another that then replaces it.
    fn make<T>(
        &mut self,
        name: &[u8],
        mut make: impl FnMut(BorrowedFd<'_>, &CString) -> rustix::io::Result<T>,
    ) -> Result<(T, CString, Option<CString>), SinkError> {
        let wanted = c_name(name)?;
        match make(self.top(), &wanted) {
            Err(Errno::EXIST) => {}
            Ok(made) => return Ok((made, wanted, None)),
            Err(error) => return Err(skip(error)),
        }
        let how = AtFlags::SYMLINK_NOFOLLOW;
        let stat = rustix::fs::statat(self.top(), wanted.as_c_str(), how).map_err(skip)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return Err(SinkError::Skip("is there and is a directory".to_owned()));
        }
        loop {
            let temporary = c_name(&super::temporary_name(self.temporaries))?;
            self.temporaries += 1;
            match make(self.top(), &temporary) {
                Err(Errno::EXIST) => {}
                Ok(made) => return Ok((made, temporary, Some(wanted))),
                Err(error) => return Err(skip(error)),
            }
        }
    }

    fn link(&mut self, entry: &Entry, first: &[u8]) -> SinkResult {
        let (dir, first) = split_last(first);
        self.enter(dir)?;
        let from = self.top().try_clone_to_owned().map_err(clone_failed)?;
        let first = c_name(first)?;
        let (dir, name) = split_last(&entry.path);
        self.enter(dir)?;
        let ((), name, replaces) = self.make(name, |dir, name| {
            rustix::fs::linkat(&from, first.as_c_str(), dir, name.as_c_str(), AtFlags::empty())
        })?;
        rename(self.top(), &name, replaces.as_ref())
    }

    fn node(&mut self, entry: &Entry, tally: &mut Tally) -> SinkResult {
        let (dir, name) = split_last(&entry.path);
        self.enter(dir)?;
        let made = self.make(name, |dir, name| match &entry.kind {
            Kind::Symlink(text) => {
                rustix::fs::symlinkat(OsStr::from_bytes(text), dir, name.as_c_str())
            }
            kind => make_node(dir, name, kind),
        });
        let (name, replaces) = match (made, &entry.kind) {
            (Ok(((), name, replaces)), _) => (name, replaces),
            (Err(SinkError::Skip(_)), Kind::Char(_) | Kind::Block(_)) if !is_root() => {
                tally.lose(Loss::Device);
                tally.special -= 1;
                return Ok(());
            }
            (Err(SinkError::Skip(_)), Kind::Socket) => {
                tally.lose(Loss::Socket);
                tally.special -= 1;
                return Ok(());
            }
            (Err(error), _) => return Err(error),
        };
        if let Err(error) = self.node_attributes(&name, entry, tally) {
            let _ = rustix::fs::unlinkat(self.top(), name.as_c_str(), AtFlags::empty());
            return Err(error);
        }
        rename(self.top(), &name, replaces.as_ref())
    }

    fn node_attributes(&self, name: &CString, entry: &Entry, tally: &mut Tally) -> SinkResult {
        let (dir, meta) = (self.top(), &entry.meta);
        let symlink = matches!(entry.kind, Kind::Symlink(_));
        if !self.keep {
            if !symlink {
                let mode = Mode::from_raw_mode((meta.perm & 0o777 & !self.umask).into());
                rustix::fs::chmodat(dir, name.as_c_str(), mode, AtFlags::empty()).map_err(skip)?;
            }
            return Ok(());
        }
        if !meta.xattrs.is_empty() {
            tally.lose(Loss::Xattr);
        }
        if !meta.flags.is_empty() {
            tally.lose(Loss::Flags);
        }
        let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
        let how = AtFlags::SYMLINK_NOFOLLOW;
        let given = rustix::fs::chownat(dir, name.as_c_str(), Some(uid), Some(gid), how);
        let kept = owner_kept(given, meta, tally)?;
        if !symlink {
            let mode = Mode::from_raw_mode(mode_to_set(meta, kept).into());
            rustix::fs::chmodat(dir, name.as_c_str(), mode, AtFlags::empty()).map_err(skip)?;
        }
        rustix::fs::utimensat(dir, name.as_c_str(), &times(meta), how).map_err(skip)
    }

    /// Mode, owner, attributes and times of an open file or directory.
    fn attributes(&self, fd: BorrowedFd<'_>, meta: &Meta, tally: &mut Tally) -> SinkResult {
        if !self.keep {
            let mode = Mode::from_raw_mode((meta.perm & 0o777 & !self.umask).into());
            return rustix::fs::fchmod(fd, mode).map_err(skip);
        }
        xattrs(fd, meta, tally)?;
        let (uid, gid) = (Uid::from_raw(meta.uid), Gid::from_raw(meta.gid));
        let kept = owner_kept(rustix::fs::fchown(fd, Some(uid), Some(gid)), meta, tally)?;
        let mode = Mode::from_raw_mode(mode_to_set(meta, kept).into());
        rustix::fs::fchmod(fd, mode).map_err(skip)?;
        rustix::fs::futimens(fd, &times(meta)).map_err(skip)
    }
}

fn clone_failed(error: io::Error) -> SinkError {
    SinkError::Skip(error.to_string())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether the owner could be set; that others than root cannot is no error.
fn owner_kept(
    given: rustix::io::Result<()>,
    meta: &Meta,
    tally: &mut Tally,
) -> Result<bool, SinkError> {
    match given {
        Ok(()) => Ok(true),
        Err(Errno::PERM | Errno::INVAL | Errno::NOTSUP) => {
            let mine = rustix::process::geteuid().as_raw() == meta.uid
                && rustix::process::getegid().as_raw() == meta.gid;
            if !mine {
                tally.lose(Loss::Owner);
            }
            Ok(mine)
        }
        Err(error) => Err(skip(error)),
    }
}

/// Set-id bits are only for the owner they were meant for.
fn mode_to_set(meta: &Meta, owner_kept: bool) -> u16 {
    if owner_kept { meta.perm } else { meta.perm & 0o1777 }
}

fn times(meta: &Meta) -> Timestamps {
    let spec = |at: Timespec| rustix::fs::Timespec {
        tv_sec: at.secs as _,
        tv_nsec: at.nsec.clamp(0, 999_999_999) as _,
    };
    Timestamps { last_access: spec(meta.atime), last_modification: spec(meta.mtime) }
}

fn xattrs(fd: BorrowedFd<'_>, meta: &Meta, tally: &mut Tally) -> SinkResult {
    let mut set = |name: Vec<u8>, value: &[u8], loss: Loss| {
        match rustix::fs::fsetxattr(fd, name.as_slice(), value, XattrFlags::empty()) {
            Ok(()) => Ok(()),
            // Too large for the host, or no place for any, or for root alone.
            Err(Errno::NOTSUP | Errno::PERM | Errno::TOOBIG | Errno::RANGE | Errno::NOSPC) => {
                tally.lose(loss);
                Ok(())
            }
            Err(error) => Err(skip(error)),
        }
    };
    for attr in &meta.xattrs {
        set(linux_xattr::to_linux(attr.namespace, &attr.name), &attr.value, Loss::Xattr)?;
    }
    if !meta.flags.is_empty() {
        let name = [b"user.", flags::XATTR].concat();
        set(name, flags::to_text(meta.flags).as_bytes(), Loss::Flags)?;
    }
    Ok(())
}

#[cfg(not(target_vendor = "apple"))]
fn make_node(dir: BorrowedFd<'_>, name: &CString, kind: &Kind) -> rustix::io::Result<()> {
    let device = |dev: &DeviceNumber| rustix::fs::makedev(dev.major, dev.minor);
    let (kind, dev) = match kind {
        Kind::Char(dev) => (FileType::CharacterDevice, device(dev)),
        Kind::Block(dev) => (FileType::BlockDevice, device(dev)),
        Kind::Socket => (FileType::Socket, 0),
        _ => (FileType::Fifo, 0),
    };
    rustix::fs::mknodat(dir, name.as_c_str(), kind, Mode::RUSR | Mode::WUSR, dev)
}

#[cfg(target_vendor = "apple")]
fn make_node(_: BorrowedFd<'_>, _: &CString, _: &Kind) -> rustix::io::Result<()> {
    Err(Errno::NOTSUP)
}

fn rename(dir: BorrowedFd<'_>, from: &CString, to: Option<&CString>) -> SinkResult {
    let Some(to) = to else { return Ok(()) };
    rustix::fs::renameat(dir, from.as_c_str(), dir, to.as_c_str()).map_err(|error| {
        // The old file stays; the new one has no name it could keep.
        let _ = rustix::fs::unlinkat(dir, from.as_c_str(), AtFlags::empty());
        skip(error)
    })
}

impl Sink for HostSink {
    fn entry(&mut self, entry: &Entry, tally: &mut Tally) -> SinkResult {
        match &entry.kind {
            Kind::Directory => self.make_directory(entry),
            Kind::Link(first) => self.link(entry, first),
            Kind::File(size) => {
                let (dir, name) = split_last(&entry.path);
                self.enter(dir)?;
                // Under its own name only when it is complete.
                let temporary = super::temporary_name(self.temporaries);
                self.temporaries += 1;
                let how = OFlags::WRONLY
                    | OFlags::CREATE
                    | OFlags::EXCL
                    | OFlags::NOFOLLOW
                    | OFlags::CLOEXEC;
                let replaces = Some(c_name(name)?);
                let (fd, name, taken) = self.make(&temporary, |dir, name| {
                    rustix::fs::openat(dir, name.as_c_str(), how, Mode::RUSR | Mode::WUSR)
                })?;
                drop(taken);
                let dir = self.top().try_clone_to_owned().map_err(clone_failed)?;
                let (size, meta) = (*size, entry.meta.clone());
                self.open = Some(Open { fd, dir, name, replaces, size, meta });
                Ok(())
            }
            _ => self.node(entry, tally),
        }
    }

    fn data(&mut self, offset: u64, bytes: &[u8]) -> SinkResult {
        let Some(open) = &self.open else { return Ok(()) };
        let mut done = 0;
        while done < bytes.len() {
            match rustix::io::pwrite(&open.fd, &bytes[done..], offset + done as u64) {
                Ok(0) => return Err(skip(Errno::NOSPC)),
                Ok(len) => done += len,
                Err(Errno::INTR) => {}
                Err(error) => return Err(skip(error)),
            }
        }
        Ok(())
    }

    fn end(&mut self, tally: &mut Tally) -> SinkResult {
        let Some(open) = self.open.take() else { return Ok(()) };
        let sized = rustix::fs::ftruncate(&open.fd, open.size).map_err(skip);
        let set = sized.and_then(|()| self.attributes(open.fd.as_fd(), &open.meta, tally));
        if let Err(error) = set {
            let _ = rustix::fs::unlinkat(&open.dir, open.name.as_c_str(), AtFlags::empty());
            return Err(error);
        }
        rename(open.dir.as_fd(), &open.name, open.replaces.as_ref())
    }

    fn abandon(&mut self) {
        if let Some(open) = self.open.take() {
            // Best effort: what made it necessary is reported.
            let _ = rustix::fs::unlinkat(&open.dir, open.name.as_c_str(), AtFlags::empty());
        }
    }

    fn finish(&mut self, tally: &mut Tally) -> SinkResult {
        for (path, meta) in std::mem::take(&mut self.directories).into_iter().rev() {
            let done = self.enter(&path).and_then(|()| self.attributes(self.top(), &meta, tally));
            tally.name_losses(&path);
            match done {
                Err(SinkError::Skip(why)) => {
                    let path = crate::fail::show(&path);
                    let shown = &self.shown;
                    crate::output::error(format!("{shown}/{path}: {why}"));
                    tally.failed += 1;
                }
                other => other?,
            }
        }
        Ok(())
    }
}
