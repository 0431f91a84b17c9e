//! A tree of the host as a source.
//!
//! # Invariants
//! 1. Each step uses the descriptor of the directory: paths may have any length, and a file that is
//!    replaced by a symbolic link during the copy is not followed.
//! 2. Holes are found with `SEEK_HOLE` and are not read.
//! 3. A file that becomes shorter while it is read is reported.

mod ahead;
mod content;

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use ffs_core::{DeviceNumber, Timespec, linux_xattr};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use ahead::Ahead;
pub(crate) use content::next_data;
use content::read_full;

use super::xattrs::{ACCESS, DEFAULT, HostXattrs, file_xattrs, loss_of_attribute, path_xattrs};
use super::{FileId, raise_descriptor_limit};
use crate::copy::acl::PosixAcl;
use crate::copy::emitter::{CopyEnded, Emitter, Event, SMALL_FILE};
use crate::copy::entry::{Entry, EntryKind, EntryMeta, Xattr};
use crate::copy::sink::Source;
use crate::namei::join;

/// Options of a [`HostSource`].
#[derive(Clone, Debug, Default)]
pub struct HostSourceOptions {
    /// Send extended attributes.
    pub xattrs: bool,
    /// Send further names of a file as hard links.
    pub hard_links: bool,
    /// Send each name of a file as a file, with the number of the file as [`Entry::identity`].
    pub identities: bool,
    /// Send the data of files; otherwise only where files contain data.
    pub data: bool,
    /// Follow the top of the tree if it is a symbolic link.
    pub follow: bool,
    /// Follow symbolic links below the top, too. A link to a directory above it is reported.
    pub follow_all: bool,
    /// Send a directory on another file system than the top without its content.
    pub one_file_system: bool,
    /// If the top is a pipe or a character device, send what can be read from it as a file.
    pub stream: bool,
    /// Files and directories to leave out, such as the image that is being built.
    pub skip: Vec<FileId>,
}

/// A tree of the host.
#[derive(Clone, Debug)]
pub struct HostSource {
    top: PathBuf,
    target: Vec<u8>,
    options: HostSourceOptions,
}

impl HostSource {
    /// The file or tree at `top`, which is copied to the relative path `target`.
    pub fn new(
        top: impl Into<PathBuf>,
        target: impl Into<Vec<u8>>,
        options: HostSourceOptions,
    ) -> HostSource {
        HostSource { top: top.into(), target: target.into(), options }
    }
}

impl Source for HostSource {
    fn send(self, emitter: &mut Emitter) -> Result<(), CopyEnded> {
        raise_descriptor_limit();
        let shown = self.top.as_os_str().as_bytes().to_vec();
        let Ok(name) = CString::new(shown.clone()) else {
            return emitter.failed(&shown, "a path with a NUL byte");
        };
        let follow = self.options.follow;
        let (first_paths, top_len) = (BTreeMap::new(), self.target.len());
        let (options, ahead) = (self.options, Ahead::default());
        let mut walk = HostWalk { options, emitter, first_paths, top_len, ahead, device: None };
        walk.tree(Location { dir: CWD, name: &name, follow }, Paths { target: self.target, shown })
    }
}

/// The walk of a tree.
struct HostWalk<'a> {
    options: HostSourceOptions,
    emitter: &'a mut Emitter,
    /// Identity and first path of each file with several names.
    first_paths: BTreeMap<FileId, (u64, Vec<u8>)>,
    /// Length of the target path of the top.
    top_len: usize,
    ahead: Ahead,
    /// The file system of the top, if that is a directory.
    device: Option<u64>,
}

/// A name in an open directory.
#[derive(Clone, Copy)]
struct Location<'a> {
    dir: BorrowedFd<'a>,
    name: &'a CStr,
    /// Follow the name if it is a symbolic link.
    follow: bool,
}

/// The paths of a file.
struct Paths {
    /// Relative path in the copy.
    target: Vec<u8>,
    /// Path on the host, for messages.
    shown: Vec<u8>,
}

/// A directory during the walk.
struct OpenDirectory {
    fd: Arc<OwnedFd>,
    /// Names that are read ahead.
    requested: usize,
    id: FileId,
    paths: Paths,
    /// Names that remain, the next one last.
    remaining: Vec<CString>,
}

impl Location<'_> {
    fn stat(self) -> rustix::io::Result<Stat> {
        let flags = if self.follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        rustix::fs::statat(self.dir, self.name, flags)
    }

    fn open(self, mut flags: OFlags) -> rustix::io::Result<OwnedFd> {
        flags.set(OFlags::NOFOLLOW, !self.follow);
        rustix::fs::openat(self.dir, self.name, flags | OFlags::CLOEXEC, Mode::empty())
    }

    /// Opens a regular file for reading; returns its attributes, too.
    fn open_regular(self) -> rustix::io::Result<(OwnedFd, Stat)> {
        let fd = self.open_without_atime()?;
        let stat = rustix::fs::fstat(&fd)?;
        // Another file may have taken the name since.
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Ok((fd, stat)),
            _ => Err(Errno::STALE),
        }
    }

    fn open_without_atime(self) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        #[cfg(target_os = "linux")]
        match self.open(flags | OFlags::NOATIME) {
            // Only the owner may open a file so.
            Err(Errno::PERM) => {}
            other => return other,
        }
        self.open(flags)
    }

    /// The kind of a file that is neither a directory nor regular.
    fn special_kind(self, stat: &Stat) -> Result<EntryKind, String> {
        let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
        let device = DeviceNumber { major, minor };
        Ok(match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => {
                let target = rustix::fs::readlinkat(self.dir, self.name, Vec::new());
                EntryKind::Symlink(target.map_err(|error| error.to_string())?.into_bytes())
            }
            FileType::Fifo => EntryKind::Fifo,
            FileType::Socket => EntryKind::Socket,
            FileType::CharacterDevice => EntryKind::Char(device),
            FileType::BlockDevice => EntryKind::Block(device),
            _ => return Err("a kind of file that UFS does not have".to_owned()),
        })
    }
}

impl HostWalk<'_> {
    /// Sends the file at `top` and everything below it.
    fn tree(&mut self, top: Location<'_>, paths: Paths) -> Result<(), CopyEnded> {
        let mut stack: Vec<OpenDirectory> = Vec::new();
        stack.extend(self.file(top, paths)?);
        let follow = self.options.follow_all;
        while let Some(open) = stack.last_mut() {
            if self.options.data {
                let OpenDirectory { fd, remaining, requested, .. } = open;
                self.ahead.request(fd, remaining, requested);
                *requested = requested.saturating_sub(1);
            }
            let Some(name) = open.remaining.pop() else {
                stack.pop();
                continue;
            };
            let target = join(&open.paths.target, name.as_bytes());
            if self.emitter.excludes(below_top(&target, self.top_len)) {
                continue;
            }
            let shown = join(&open.paths.shown, name.as_bytes());
            let at = Location { dir: open.fd.as_fd(), name: &name, follow };
            let below = self.file(at, Paths { target, shown })?;
            let Some(below) = below else { continue };
            if follow && stack.iter().any(|above| above.id == below.id) {
                let why = "a symbolic link leads to a directory above it";
                self.emitter.failed(&below.paths.shown, why)?;
                continue;
            }
            stack.push(below);
        }
        Ok(())
    }

    /// Sends one file; returns a directory for the walk to continue in.
    fn file(&mut self, at: Location<'_>, paths: Paths) -> Result<Option<OpenDirectory>, CopyEnded> {
        let stat = match at.stat() {
            Ok(stat) => stat,
            Err(error) => return self.emitter.failed(&paths.shown, error).map(|()| None),
        };
        if self.options.skip.contains(&FileId::of(&stat)) {
            return Ok(None);
        }
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Directory {
            if self.emitter.excludes_directory(below_top(&paths.target, self.top_len)) {
                return Ok(None);
            }
            return self.directory(at, paths);
        }
        if self.options.stream && matches!(kind, FileType::Fifo | FileType::CharacterDevice) {
            return self.stream(at, paths, meta(&stat)).map(|()| None);
        }
        let (identity, link) = self.identity(&stat, &paths);
        if let Some(kind) = link {
            let meta = meta(&stat);
            return self
                .emitter
                .entry(Entry { path: paths.target, kind, meta, identity })
                .map(|()| None);
        }
        if kind == FileType::RegularFile {
            return self.regular(at, &stat, paths, identity).map(|()| None);
        }
        let kind = match at.special_kind(&stat) {
            Ok(kind) => kind,
            Err(why) => return self.emitter.failed(&paths.shown, why).map(|()| None),
        };
        let mut meta = meta(&stat);
        if !matches!(kind, EntryKind::Symlink(_)) {
            self.special_xattrs(at, &mut meta, &paths.shown)?;
        }
        self.emitter.entry(Entry { path: paths.target, kind, meta, identity }).map(|()| None)
    }

    /// The identity of a file with several names, and the kind of a hard link if an earlier name
    /// was sent.
    fn identity(&mut self, stat: &Stat, paths: &Paths) -> (Option<u64>, Option<EntryKind>) {
        let HostSourceOptions { hard_links, identities, .. } = self.options;
        // A file that symbolic links lead to is met under several names, too.
        if !(hard_links || identities) || stat.st_nlink <= 1 && !self.options.follow_all {
            return (None, None);
        }
        if let Some((number, first)) = self.first_paths.get(&FileId::of(stat)) {
            let link = (!identities).then(|| EntryKind::Link(first.clone()));
            return (Some(*number), link);
        }
        let number = self.first_paths.len() as u64;
        self.first_paths.insert(FileId::of(stat), (number, paths.target.clone()));
        (Some(number), None)
    }

    /// The attributes of an open directory, and the names in it that are copied.
    fn names_in(&mut self, fd: &OwnedFd) -> rustix::io::Result<(Stat, Vec<CString>)> {
        let stat = rustix::fs::fstat(fd)?;
        let is_top = *self.device.get_or_insert(stat.st_dev) == stat.st_dev;
        // The names of another file system need not be readable.
        let copied = is_top || !self.options.one_file_system;
        let names = if copied { names_in(fd)? } else { Vec::new() };
        Ok((stat, names))
    }

    fn directory(
        &mut self,
        at: Location<'_>,
        paths: Paths,
    ) -> Result<Option<OpenDirectory>, CopyEnded> {
        let opened = at.open(OFlags::RDONLY | OFlags::DIRECTORY);
        let read = opened.and_then(|fd| Ok((self.names_in(&fd)?, fd)));
        let ((stat, remaining), fd) = match read {
            Ok(read) => read,
            Err(error) => return self.emitter.failed(&paths.shown, error).map(|()| None),
        };
        let mut meta = meta(&stat);
        self.xattrs(&fd, &mut meta, &paths.shown)?;
        let path = paths.target.clone();
        self.emitter.entry(Entry { path, kind: EntryKind::Directory, meta, identity: None })?;
        let (fd, id) = (Arc::new(fd), FileId::of(&stat));
        Ok(Some(OpenDirectory { fd, requested: 0, id, paths, remaining }))
    }

    fn regular(
        &mut self,
        at: Location<'_>,
        stat: &Stat,
        Paths { target: path, shown }: Paths,
        identity: Option<u64>,
    ) -> Result<(), CopyEnded> {
        let size = stat.st_size as u64;
        if !self.options.data && !self.options.xattrs && !is_sparse(stat) {
            let entry = Entry { path, kind: EntryKind::File(size), meta: meta(stat), identity };
            let Some(entry) = self.emitter.offer(entry)? else { return Ok(()) };
            self.emitter.open(entry)?;
            self.emitter.send(Event::Extent(0, size))?;
            return self.emitter.send(Event::End);
        }
        let start = Instant::now();
        let opened = at.open_regular();
        let spent = start.elapsed();
        let (fd, stat) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.emitter.failed(&shown, error),
        };
        let mut meta = meta(&stat);
        self.xattrs(&fd, &mut meta, &shown)?;
        let size = stat.st_size as u64;
        let entry = Entry { path, kind: EntryKind::File(size), meta, identity };
        let Some(entry) = self.emitter.offer(entry)? else { return Ok(()) };
        if self.options.data && size <= SMALL_FILE && !is_sparse(&stat) {
            // To wait for a free buffer is to wait for the sink.
            let buffer = self.emitter.buffer(size as usize);
            let start = Instant::now();
            let read = read_full(&fd, 0, buffer);
            self.ahead.timed(spent + start.elapsed());
            return match read {
                Ok(len) if len as u64 == size => self.emitter.small_file(entry, len),
                Ok(_) => self.emitter.failed(&shown, SHRANK),
                Err(error) => self.emitter.failed(&shown, error),
            };
        }
        self.emitter.open(entry)?;
        match self.extents(&fd, &stat)? {
            Ok(()) => self.emitter.send(Event::End),
            Err(why) => {
                self.emitter.failed(&shown, why)?;
                self.emitter.send(Event::Abort)
            }
        }
    }

    fn xattrs(
        &mut self,
        fd: &OwnedFd,
        meta: &mut EntryMeta,
        shown: &[u8],
    ) -> Result<(), CopyEnded> {
        if !self.options.xattrs {
            return Ok(());
        }
        let attrs = file_xattrs(fd);
        self.add_xattrs(attrs, meta, shown)
    }

    /// Adds the attributes of a pipe, socket or device, which is not opened for reading.
    fn special_xattrs(
        &mut self,
        at: Location<'_>,
        meta: &mut EntryMeta,
        shown: &[u8],
    ) -> Result<(), CopyEnded> {
        if !self.options.xattrs {
            return Ok(());
        }
        self.add_xattrs(path_xattrs(at.dir, at.name), meta, shown)
    }

    fn add_xattrs(
        &mut self,
        attrs: rustix::io::Result<HostXattrs>,
        meta: &mut EntryMeta,
        shown: &[u8],
    ) -> Result<(), CopyEnded> {
        let attrs = match attrs {
            Ok(attrs) => attrs,
            Err(error) => {
                // An ACL that restricts the mode may be among them.
                meta.acls.access = Some(PosixAcl::Invalid);
                return self.emitter.failed(shown, format!("extended attributes: {error}"));
            }
        };
        for (full, value) in attrs {
            match full.as_slice() {
                ACCESS => {
                    let acl = PosixAcl::from_linux(&value);
                    meta.acls.access = Some(acl).filter(PosixAcl::exceeds_mode);
                }
                DEFAULT => meta.acls.default = Some(PosixAcl::from_linux(&value)),
                _ => match linux_xattr::from_linux(&full) {
                    Some((namespace, name)) => {
                        meta.add_xattr(Xattr { namespace, name: name.to_vec(), value });
                    }
                    None => {
                        let loss = loss_of_attribute(&full);
                        self.emitter.send(Event::Lost(loss, shown.to_vec()))?;
                    }
                },
            }
        }
        meta.sort_xattrs();
        Ok(())
    }
}

/// Opens the regular file at `path` for reading. It does not follow a symbolic link there.
pub(crate) fn open_regular(path: &CStr) -> rustix::io::Result<OwnedFd> {
    Ok(Location { dir: CWD, name: path, follow: false }.open_regular()?.0)
}

const SHRANK: &str = "became shorter while it was read";

fn is_sparse(stat: &Stat) -> bool {
    (stat.st_blocks as u64).saturating_mul(512) < stat.st_size as u64
}

/// The part of a target path below the top.
fn below_top(target: &[u8], top_len: usize) -> &[u8] {
    let rest = target.get(top_len..).unwrap_or_default();
    rest.strip_prefix(b"/").unwrap_or(rest)
}

/// Names in a directory in reverse byte order.
fn names_in(fd: &OwnedFd) -> rustix::io::Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(fd)? {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    names.sort_unstable_by(|a, b| b.cmp(a));
    Ok(names)
}

#[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
fn meta(stat: &Stat) -> EntryMeta {
    let mtime = Timespec { secs: stat.st_mtime, nsec: stat.st_mtime_nsec as i32 };
    EntryMeta {
        perm: (stat.st_mode & 0o7777) as u16,
        uid: stat.st_uid,
        gid: stat.st_gid,
        atime: Timespec { secs: stat.st_atime, nsec: stat.st_atime_nsec as i32 },
        mtime,
        birthtime: mtime,
        nlink: stat.st_nlink as u64,
        ..EntryMeta::default()
    }
}
