//! Makes files on the host.
//!
//! **Invariants.**
//! 1. Every step goes through the descriptor of the directory. The only links that are followed lead
//!    to a file that is written over, and were there before the copy: an image cannot make its copy
//!    write outside the target.
//! 2. A new file gets its name when it is complete.
//! 3. Directories whose attributes are kept get mode, owner and times last, in [`Sink::finish`].

mod attributes;

use std::collections::BTreeSet;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ffs_core::DeviceNumber;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::policy::{DANGLING, JUST_MADE, LINK_JUST_MADE, SAME_FILE};
use super::{
    Entry, Existing, Kind, Loss, Meta, Policy, Sink, SinkError, SinkResult, Tally, left_over,
    split_last,
};
use crate::fail::Failure;
use crate::namei::components;

/// Writes a tree below a directory of the host.
pub(crate) struct HostSink {
    shown: String,
    root: OwnedFd,
    policy: Policy,
    /// Files that are not written to, by device and inode number: the images that are read.
    images: Vec<(u64, u64)>,
    /// Symbolic links that this copy made; with [`Policy::guard`] all its files but directories.
    made: BTreeSet<(u64, u64)>,
    stack: Vec<(Vec<u8>, OwnedFd)>,
    directories: Vec<(Vec<u8>, Meta)>,
    open: Option<Open>,
    temporaries: u64,
}

struct Open {
    fd: OwnedFd,
    dir: OwnedFd,
    slot: Slot,
    size: u64,
    /// End of the data written last.
    written: u64,
    meta: Meta,
}

/// How a file came by its name.
enum Slot {
    /// It is new and has this name.
    New(CString),
    /// It is new and has the name `temporary` until it is complete; `old` is what it replaces then.
    Replacing { temporary: CString, name: CString, old: Option<Stat> },
    /// It was there and is written over.
    Existing,
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
    pub(crate) fn new(
        root: &Path,
        policy: Policy,
        images: Vec<(u64, u64)>,
    ) -> Result<HostSink, Failure> {
        super::host_source::raise_descriptor_limit();
        let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let shown = crate::fail::show(root.as_os_str().as_bytes());
        let root = rustix::fs::openat(CWD, root, how, Mode::empty())
            .map_err(|error| Failure::new(&shown, error))?;
        Ok(HostSink {
            shown,
            root,
            policy,
            images,
            made: BTreeSet::new(),
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
        let mut new = false;
        if !name.is_empty() {
            self.enter(dir)?;
            let c_name = c_name(name)?;
            let perm = if self.policy.preserve { 0o700 } else { entry.meta.perm & 0o1777 | 0o700 };
            let mode = Mode::from_raw_mode(perm.into());
            match rustix::fs::mkdirat(self.top(), c_name.as_c_str(), mode) {
                Ok(()) => new = true,
                Err(Errno::EXIST) => {
                    let stat = self.stat(&c_name)?;
                    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                        let why = "is there and is not a directory";
                        return Err(SinkError::Skip(why.to_owned()));
                    }
                }
                Err(error) => return Err(skip(error)),
            }
        }
        // Its owner may fill a new one, whatever its mode is to be.
        if self.policy.preserve || new && entry.meta.perm & 0o700 != 0o700 {
            self.directories.push((entry.path.clone(), entry.meta.clone()));
        }
        Ok(())
    }

    fn stat(&self, name: &CString) -> Result<Stat, SinkError> {
        rustix::fs::statat(self.top(), name.as_c_str(), AtFlags::SYMLINK_NOFOLLOW).map_err(skip)
    }

    /// What has the name already, if it may be written over or replaced.
    fn there(&self, name: &CString) -> Result<Stat, SinkError> {
        let stat = self.stat(name)?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return Err(SinkError::Skip("is there and is a directory".to_owned()));
        }
        if self.policy.existing == Existing::Keep {
            return Err(SinkError::Leave);
        }
        self.may_change(&stat)?;
        Ok(stat)
    }

    /// Refuses to change an image that is read, and what another source of this copy became.
    fn may_change(&self, stat: &Stat) -> SinkResult {
        if self.images.contains(&id(stat)) {
            return Err(SinkError::Skip("is the image that is read".to_owned()));
        }
        if self.policy.guard && self.made.contains(&id(stat)) {
            return Err(SinkError::Skip(JUST_MADE.to_owned()));
        }
        Ok(())
    }

    /// Runs `make` with the name; where that is taken, with another that then replaces it.
    fn make<T>(
        &mut self,
        name: &[u8],
        mut make: impl FnMut(BorrowedFd<'_>, &CString) -> rustix::io::Result<T>,
    ) -> Result<(T, Slot), SinkError> {
        let wanted = c_name(name)?;
        match make(self.top(), &wanted) {
            Err(Errno::EXIST) => {}
            Ok(made) => return Ok((made, Slot::New(wanted))),
            Err(error) => return Err(skip(error)),
        }
        let old = self.there(&wanted)?;
        self.make_beside(wanted, Some(old), make)
    }

    /// Runs `make` with a name that is nobody's.
    fn make_beside<T>(
        &mut self,
        name: CString,
        old: Option<Stat>,
        mut make: impl FnMut(BorrowedFd<'_>, &CString) -> rustix::io::Result<T>,
    ) -> Result<(T, Slot), SinkError> {
        loop {
            let temporary = c_name(&super::temporary_name(self.temporaries))?;
            self.temporaries += 1;
            match make(self.top(), &temporary) {
                Err(Errno::EXIST) => {}
                Ok(made) => return Ok((made, Slot::Replacing { temporary, name, old })),
                Err(error) => return Err(skip(error)),
            }
        }
    }

    /// Makes the regular file of `entry`, or empties the one that is there.
    fn open_file(&mut self, entry: &Entry, size: u64) -> SinkResult {
        let (dir, name) = split_last(&entry.path);
        self.enter(dir)?;
        let name = c_name(name)?;
        let old = match rustix::fs::statat(self.top(), &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Some(self.there(&name)?),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(skip(error)),
        };
        let emptied = match &old {
            Some(old) => self.emptied(&name, old)?,
            None => None,
        };
        let (fd, slot) = match emptied {
            Some(fd) => (fd, Slot::Existing),
            None => {
                let how = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                let taken = old.is_some() || self.policy.preserve;
                let perm = if taken { 0o600 } else { entry.meta.perm & 0o777 };
                let mode = Mode::from_raw_mode(perm.into());
                self.make_beside(name, old, |dir, name| rustix::fs::openat(dir, name, how, mode))?
            }
        };
        if self.policy.guard {
            self.made.insert(id(&rustix::fs::fstat(&fd).map_err(skip)?));
        }
        let dir = self.top().try_clone_to_owned().map_err(clone_failed)?;
        let meta = entry.meta.clone();
        self.open = Some(Open { fd, dir, slot, size, written: 0, meta });
        Ok(())
    }

    /// The file `name`, or the one that it leads to, open and without its content; `None` if it is to
    /// be replaced.
    fn emptied(&self, name: &CString, old: &Stat) -> Result<Option<OwnedFd>, SinkError> {
        if self.policy.existing == Existing::Replace {
            return Ok(None);
        }
        let link = FileType::from_raw_mode(old.st_mode) == FileType::Symlink;
        if link && self.made.contains(&id(old)) {
            return Err(SinkError::Skip(LINK_JUST_MADE.to_owned()));
        }
        let at = if link { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let stat = match rustix::fs::statat(self.top(), name, at) {
            Ok(stat) => stat,
            Err(Errno::NOENT) if link => return Err(SinkError::Skip(DANGLING.to_owned())),
            Err(error) => return Err(skip(error)),
        };
        check_regular(&stat)?;
        self.may_change(&stat)?;
        if self.policy.replaces(stat.st_nlink as u64) {
            return Ok(None);
        }
        let mut how = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        how.set(OFlags::NOFOLLOW, !link);
        let fd = match rustix::fs::openat(self.top(), name, how, Mode::empty()) {
            Ok(fd) => fd,
            Err(_) if self.policy.force => return Ok(None),
            Err(error @ (Errno::ACCESS | Errno::PERM | Errno::TXTBSY)) => {
                return Err(SinkError::Skip(format!("{error}; -f replaces it")));
            }
            Err(error) => return Err(skip(error)),
        };
        // What was opened is what counts, whatever had the name before.
        let stat = rustix::fs::fstat(&fd).map_err(skip)?;
        check_regular(&stat)?;
        self.may_change(&stat)?;
        rustix::fs::ftruncate(&fd, 0).map_err(skip)?;
        Ok(Some(fd))
    }

    fn link(&mut self, entry: &Entry, first: &[u8]) -> SinkResult {
        let (dir, first) = split_last(first);
        self.enter(dir)?;
        let from = self.top().try_clone_to_owned().map_err(clone_failed)?;
        let first = c_name(first)?;
        let (dir, name) = split_last(&entry.path);
        self.enter(dir)?;
        let file = rustix::fs::statat(&from, first.as_c_str(), AtFlags::SYMLINK_NOFOLLOW);
        let there = rustix::fs::statat(self.top(), name, AtFlags::SYMLINK_NOFOLLOW);
        if let (Ok(file), Ok(there)) = (file, there)
            && id(&file) == id(&there)
        {
            return Ok(());
        }
        let ((), slot) = self.make(name, |dir, name| {
            rustix::fs::linkat(&from, first.as_c_str(), dir, name.as_c_str(), AtFlags::empty())
        })?;
        rename(self.top(), &slot)
    }

    /// Refuses to replace a file by a symbolic link that led to it, and would lead to itself.
    fn check_loop(&self, name: &[u8], text: &[u8]) -> SinkResult {
        let there = rustix::fs::statat(self.top(), name, AtFlags::SYMLINK_NOFOLLOW);
        let target = rustix::fs::statat(self.top(), text, AtFlags::empty());
        match (there, target) {
            (Ok(there), Ok(target)) if id(&there) == id(&target) => {
                Err(SinkError::Skip(SAME_FILE.to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn node(&mut self, entry: &Entry, tally: &mut Tally) -> SinkResult {
        let (dir, name) = split_last(&entry.path);
        self.enter(dir)?;
        if let Kind::Symlink(text) = &entry.kind {
            self.check_loop(name, text)?;
        }
        let perm = if self.policy.preserve { 0o600 } else { entry.meta.perm & 0o777 };
        let made = self.make(name, |dir, name| match &entry.kind {
            Kind::Symlink(text) => {
                rustix::fs::symlinkat(OsStr::from_bytes(text), dir, name.as_c_str())
            }
            kind => make_node(dir, name, kind, perm),
        });
        let slot = match (made, &entry.kind) {
            (Ok(((), slot)), _) => slot,
            (Err(SinkError::Skip(_)), Kind::Char(_) | Kind::Block(_)) if !is_root() => {
                tally.lose(Loss::Device);
                return Err(SinkError::Leave);
            }
            (Err(SinkError::Skip(_)), Kind::Socket) => {
                tally.lose(Loss::Socket);
                return Err(SinkError::Leave);
            }
            (Err(error), _) => return Err(error),
        };
        let (Slot::New(name) | Slot::Replacing { temporary: name, .. }) = &slot else {
            return Ok(());
        };
        if self.policy.guard || matches!(entry.kind, Kind::Symlink(_)) {
            self.made.insert(id(&self.stat(name)?));
        }
        let set =
            if self.policy.preserve { self.node_attributes(name, entry, tally) } else { Ok(()) };
        if let Err(error) = set {
            discard(self.top(), &slot);
            return Err(error);
        }
        rename(self.top(), &slot)
    }
}

fn clone_failed(error: io::Error) -> SinkError {
    SinkError::Skip(error.to_string())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
fn id(stat: &Stat) -> (u64, u64) {
    (stat.st_dev as u64, stat.st_ino as u64)
}

fn check_regular(stat: &Stat) -> SinkResult {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        _ => Err(SinkError::Skip("is there and is not a regular file; remove it first".to_owned())),
    }
}

#[cfg(not(target_vendor = "apple"))]
fn make_node(
    dir: BorrowedFd<'_>,
    name: &CString,
    kind: &Kind,
    perm: u16,
) -> rustix::io::Result<()> {
    let device = |dev: &DeviceNumber| rustix::fs::makedev(dev.major, dev.minor);
    let (kind, dev) = match kind {
        Kind::Char(dev) => (FileType::CharacterDevice, device(dev)),
        Kind::Block(dev) => (FileType::BlockDevice, device(dev)),
        Kind::Socket => (FileType::Socket, 0),
        _ => (FileType::Fifo, 0),
    };
    rustix::fs::mknodat(dir, name.as_c_str(), kind, Mode::from_raw_mode(perm.into()), dev)
}

#[cfg(target_vendor = "apple")]
fn make_node(_: BorrowedFd<'_>, _: &CString, _: &Kind, _: u16) -> rustix::io::Result<()> {
    Err(Errno::NOTSUP)
}

/// Gives a complete file the name that is its own.
fn rename(dir: BorrowedFd<'_>, slot: &Slot) -> SinkResult {
    let Slot::Replacing { temporary, name, .. } = slot else { return Ok(()) };
    rustix::fs::renameat(dir, temporary.as_c_str(), dir, name.as_c_str()).map_err(|error| {
        // The old file stays; the new one has no name it could keep.
        discard(dir, slot);
        skip(error)
    })
}

/// Takes a new file away again.
fn discard(dir: BorrowedFd<'_>, slot: &Slot) {
    if let Slot::New(name) | Slot::Replacing { temporary: name, .. } = slot {
        // Best effort: what made it necessary is reported.
        let _ = rustix::fs::unlinkat(dir, name.as_c_str(), AtFlags::empty());
    }
}

impl Sink for HostSink {
    fn entry(&mut self, entry: &Entry, tally: &mut Tally) -> SinkResult {
        match &entry.kind {
            Kind::Directory => self.make_directory(entry),
            Kind::Link(first) => self.link(entry, first),
            Kind::File(size) => self.open_file(entry, *size),
            _ => self.node(entry, tally),
        }
    }

    fn data(&mut self, offset: u64, bytes: &[u8]) -> SinkResult {
        let Some(open) = &mut self.open else { return Ok(()) };
        let mut done = 0;
        while done < bytes.len() {
            match rustix::io::pwrite(&open.fd, &bytes[done..], offset + done as u64) {
                Ok(0) => return Err(skip(Errno::NOSPC)),
                Ok(len) => {
                    done += len;
                    open.written = open.written.max(offset + done as u64);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(skip(error)),
            }
        }
        Ok(())
    }

    fn end(&mut self, tally: &mut Tally) -> SinkResult {
        let Some(open) = self.open.take() else { return Ok(()) };
        let sized = rustix::fs::ftruncate(&open.fd, open.size).map_err(skip);
        if let Err(error) = sized.and_then(|()| self.set_attributes(&open, tally)) {
            discard(open.dir.as_fd(), &open.slot);
            return Err(error);
        }
        rename(open.dir.as_fd(), &open.slot)
    }

    fn abandon(&mut self) -> Option<String> {
        let open = self.open.take()?;
        discard(open.dir.as_fd(), &open.slot);
        matches!(open.slot, Slot::Existing).then(|| left_over(open.written, open.size))
    }

    fn finish(&mut self, tally: &mut Tally) -> SinkResult {
        for (path, meta) in std::mem::take(&mut self.directories).into_iter().rev() {
            let done = self.enter(&path).and_then(|()| self.directory_attributes(&meta, tally));
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
