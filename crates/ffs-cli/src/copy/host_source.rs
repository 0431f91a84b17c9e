//! A tree of the host, told file by file.
//!
//! **Invariants.**
//! 1. Every step goes through the descriptor of the directory: paths may be of any length, and what
//!    is swapped for a link meanwhile is not followed.
//! 2. Holes are found with `SEEK_HOLE` and are not read.
//! 3. A file that changes while it is read is reported.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ffs_core::{DeviceNumber, Timespec, linux_xattr};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use super::host_xattrs::{
    ACCESS, DEFAULT, HostXattrs, add_xattr, host_xattrs, host_xattrs_by_name, lost_space,
    sort_xattrs,
};
use super::{AccessList, CHUNK, Deaf, Emit, Entry, Event, Kind, Meta, SMALL, Said, Xattr};
use crate::namei::join;

/// What of the tree is wanted.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostOptions {
    /// Extended attributes too.
    pub xattrs: bool,
    /// Several names of one file are told as such.
    pub links: bool,
    /// The data of files; without it only sizes and, for sparse files, where data lies.
    pub data: bool,
    /// The named file may be a symbolic link to what is meant.
    pub follow: bool,
    /// The named file may be a pipe or a character device: what can be read from it is its content.
    pub stream: bool,
    /// Files to leave out, by device and inode number: the image that is being made.
    pub skip: Vec<(u64, u64)>,
}

/// Walks host trees.
pub(crate) struct HostSource<'a> {
    options: HostOptions,
    emit: &'a mut Emit,
    /// First path, and the number it was told under, of every file with several names.
    firsts: BTreeMap<(u64, u64), (u64, Vec<u8>)>,
}

/// Where a file is.
struct Names {
    /// Path told to the sink.
    path: Vec<u8>,
    /// Path on the host, for messages.
    shown: Vec<u8>,
}

/// A directory being walked.
struct Frame {
    fd: OwnedFd,
    names: Names,
    /// Names still to go, the next one last.
    todo: Vec<CString>,
}

impl<'a> HostSource<'a> {
    /// A walker that tells `emit`.
    pub(crate) fn new(options: HostOptions, emit: &'a mut Emit) -> HostSource<'a> {
        raise_descriptor_limit();
        HostSource { options, emit, firsts: BTreeMap::new() }
    }

    /// Tells the tree at `root` as `to`.
    pub(crate) fn walk(&mut self, root: &Path, to: &[u8]) -> Said {
        let shown = root.as_os_str().as_bytes().to_vec();
        let Ok(name) = CString::new(shown.clone()) else {
            return self.emit.failed(&shown, "a path with a NUL byte");
        };
        let follow = self.options.follow;
        let mut stack = Vec::new();
        stack.extend(self.file(CWD, &name, follow, Names { path: to.to_vec(), shown })?);
        while let Some(frame) = stack.last_mut() {
            let Some(name) = frame.todo.pop() else {
                stack.pop();
                continue;
            };
            let path = join(&frame.names.path, name.as_bytes());
            let shown = join(&frame.names.shown, name.as_bytes());
            let below = self.file(frame.fd.as_fd(), &name, false, Names { path, shown })?;
            stack.extend(below);
        }
        Ok(())
    }

    /// Tells one file; of a directory, what is to be walked next.
    fn file(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        follow: bool,
        names: Names,
    ) -> Result<Option<Frame>, Deaf> {
        let at = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        let stat = match rustix::fs::statat(dir, name, at) {
            Ok(stat) => stat,
            Err(error) => return self.emit.failed(&names.shown, error).map(|()| None),
        };
        let id = (stat.st_dev as u64, stat.st_ino as u64);
        if self.options.skip.contains(&id) {
            return Ok(None);
        }
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Directory {
            return self.directory(dir, name, follow, names);
        }
        if self.options.stream && matches!(kind, FileType::Fifo | FileType::CharacterDevice) {
            return self.streamed(dir, name, names, meta(&stat)).map(|()| None);
        }
        let mut identity = None;
        if self.options.links && stat.st_nlink > 1 {
            if let Some((number, first)) = self.firsts.get(&id) {
                let (kind, identity) = (Kind::Link(first.clone()), Some(*number));
                let entry = Entry { path: names.path, kind, meta: meta(&stat), identity };
                return self.emit.entry(entry).map(|()| None);
            }
            let number = self.firsts.len() as u64;
            self.firsts.insert(id, (number, names.path.clone()));
            identity = Some(number);
        }
        if kind == FileType::RegularFile {
            return self.regular(dir, name, follow, &stat, (names, identity)).map(|()| None);
        }
        let kind = match special(dir, name, &stat) {
            Ok(kind) => kind,
            Err(why) => return self.emit.failed(&names.shown, why).map(|()| None),
        };
        let mut meta = meta(&stat);
        if !matches!(kind, Kind::Symlink(_)) {
            self.node_xattrs(dir, name, &mut meta, &names.shown)?;
        }
        self.emit.entry(Entry { path: names.path, kind, meta, identity }).map(|()| None)
    }

    fn directory(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        follow: bool,
        names: Names,
    ) -> Result<Option<Frame>, Deaf> {
        let mut how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        how.set(OFlags::NOFOLLOW, !follow);
        let opened = rustix::fs::openat(dir, name, how, Mode::empty());
        let read = opened.and_then(|fd| Ok((rustix::fs::fstat(&fd)?, names_in(&fd)?, fd)));
        let (stat, todo, fd) = match read {
            Ok(read) => read,
            Err(error) => return self.emit.failed(&names.shown, error).map(|()| None),
        };
        let mut meta = meta(&stat);
        self.xattrs(&fd, &mut meta, &names.shown)?;
        let path = names.path.clone();
        self.emit.entry(Entry { path, kind: Kind::Directory, meta, identity: None })?;
        Ok(Some(Frame { fd, names, todo }))
    }

    fn regular(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        follow: bool,
        stat: &Stat,
        (names, identity): (Names, Option<u64>),
    ) -> Said {
        let Names { path, shown } = names;
        let size = stat.st_size as u64;
        if !self.options.data && !self.options.xattrs && !is_sparse(stat) {
            let kind = Kind::File(size);
            self.emit.entry(Entry { path, kind, meta: meta(stat), identity })?;
            self.emit.send(Event::Extent(0, size))?;
            return self.emit.send(Event::End);
        }
        // The file that was opened is the one that is told, whatever was there before.
        let opened = open_to_read(dir, name, follow).and_then(|fd| {
            let stat = rustix::fs::fstat(&fd)?;
            match FileType::from_raw_mode(stat.st_mode) {
                FileType::RegularFile => Ok((fd, stat)),
                _ => Err(Errno::STALE),
            }
        });
        let (fd, stat) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.emit.failed(&shown, error),
        };
        let mut meta = meta(&stat);
        self.xattrs(&fd, &mut meta, &shown)?;
        let size = stat.st_size as u64;
        if self.options.data && size <= SMALL && !is_sparse(&stat) {
            return match read_full(&fd, 0, self.emit.room(size as usize)) {
                Ok(len) if len as u64 == size => {
                    self.emit.whole(Entry { path, kind: Kind::File(size), meta, identity }, len)
                }
                Ok(_) => self.emit.failed(&shown, SHRANK),
                Err(error) => self.emit.failed(&shown, error),
            };
        }
        let kind = Kind::File(size);
        self.emit.entry(Entry { path, kind, meta, identity })?;
        match self.extents(&fd, size, is_sparse(&stat))? {
            Ok(()) => self.emit.send(Event::End),
            Err(why) => {
                self.emit.failed(&shown, why)?;
                self.emit.send(Event::Broken)
            }
        }
    }

    /// Tells what can be read from a pipe or a device as a file.
    fn streamed(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        Names { path, shown }: Names,
        meta: Meta,
    ) -> Said {
        let how = OFlags::RDONLY | OFlags::CLOEXEC;
        let fd = match rustix::fs::openat(dir, name, how, Mode::empty()) {
            Ok(fd) => fd,
            Err(error) => return self.emit.failed(&shown, error),
        };
        self.emit.entry(Entry { path, kind: Kind::File(0), meta, identity: None })?;
        let mut at = 0;
        loop {
            match rustix::io::read(&fd, self.emit.room(CHUNK)) {
                Ok(0) => return self.emit.send(Event::End),
                Ok(len) => {
                    self.emit.data(at, len)?;
                    at += len as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => {
                    self.emit.failed(&shown, error)?;
                    return self.emit.send(Event::Broken);
                }
            }
        }
    }

    /// Tells the data of a large or sparse file, or why that cannot be.
    fn extents(
        &mut self,
        fd: &OwnedFd,
        size: u64,
        sparse: bool,
    ) -> Result<Result<(), String>, Deaf> {
        let mut at = 0;
        while at < size {
            let range = if sparse { next_data(fd, at, size) } else { Ok((at, size)) };
            let (start, end) = match range {
                Ok(range) => range,
                Err(error) => return Ok(Err(error.to_string())),
            };
            if start >= size {
                break;
            }
            if !self.options.data {
                self.emit.send(Event::Extent(start, end))?;
            } else if let Err(why) = self.range(fd, start, end)? {
                return Ok(Err(why));
            }
            at = end;
        }
        Ok(Ok(()))
    }

    fn range(&mut self, fd: &OwnedFd, start: u64, end: u64) -> Result<Result<(), String>, Deaf> {
        let mut at = start;
        while at < end {
            // Pieces end at whole chunks, and so at whole blocks.
            let len = (end - at).min(CHUNK as u64 - at % CHUNK as u64);
            match read_full(fd, at, self.emit.room(len as usize)) {
                Ok(got) if got as u64 == len => self.emit.data(at, got)?,
                Ok(_) => return Ok(Err(SHRANK.to_owned())),
                Err(error) => return Ok(Err(error.to_string())),
            }
            at += len;
        }
        Ok(Ok(()))
    }

    fn xattrs(&mut self, fd: &OwnedFd, meta: &mut Meta, shown: &[u8]) -> Said {
        if !self.options.xattrs {
            return Ok(());
        }
        let attrs = host_xattrs(fd);
        self.add_xattrs(attrs, meta, shown)
    }

    /// The attributes of what is not opened: neither a file nor a directory nor a link.
    fn node_xattrs(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &CStr,
        meta: &mut Meta,
        shown: &[u8],
    ) -> Said {
        if !self.options.xattrs {
            return Ok(());
        }
        let how = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let attrs = rustix::fs::openat(dir, name, how, Mode::empty())
            .and_then(|fd| host_xattrs_by_name(&fd));
        self.add_xattrs(attrs, meta, shown)
    }

    fn add_xattrs(
        &mut self,
        attrs: rustix::io::Result<HostXattrs>,
        meta: &mut Meta,
        shown: &[u8],
    ) -> Said {
        let attrs = match attrs {
            Ok(attrs) => attrs,
            Err(error) => {
                // There may be a list that allows less than the mode.
                meta.lists.access = Some(AccessList::Unclear);
                return self.emit.failed(shown, format!("extended attributes: {error}"));
            }
        };
        for (full, value) in attrs {
            match full.as_slice() {
                ACCESS => {
                    let list = AccessList::from_linux(&value);
                    meta.lists.access = Some(list).filter(AccessList::says_more);
                }
                DEFAULT => meta.lists.default = Some(AccessList::from_linux(&value)),
                _ => match linux_xattr::from_linux(&full) {
                    Some((namespace, name)) => {
                        add_xattr(meta, Xattr { namespace, name: name.to_vec(), value });
                    }
                    None => {
                        self.emit.send(Event::Lost(lost_space(&full), shown.to_vec()))?;
                    }
                },
            }
        }
        sort_xattrs(meta);
        Ok(())
    }
}

const SHRANK: &str = "became shorter while it was read";

fn is_sparse(stat: &Stat) -> bool {
    (stat.st_blocks as u64).saturating_mul(512) < stat.st_size as u64
}

/// The kind of what is neither a directory nor a regular file.
fn special(dir: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> Result<Kind, String> {
    let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
    let device = DeviceNumber { major, minor };
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => {
            let text = rustix::fs::readlinkat(dir, name, Vec::new());
            Kind::Symlink(text.map_err(|error| error.to_string())?.into_bytes())
        }
        FileType::Fifo => Kind::Fifo,
        FileType::Socket => Kind::Socket,
        FileType::CharacterDevice => Kind::Char(device),
        FileType::BlockDevice => Kind::Block(device),
        _ => return Err("a kind of file that UFS does not have".to_owned()),
    })
}

fn open_to_read(dir: BorrowedFd<'_>, name: &CStr, follow: bool) -> rustix::io::Result<OwnedFd> {
    let mut how = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    how.set(OFlags::NOFOLLOW, !follow);
    #[cfg(target_os = "linux")]
    match rustix::fs::openat(dir, name, how | OFlags::NOATIME, Mode::empty()) {
        // Only the owner may leave the access time alone.
        Err(Errno::PERM) => {}
        other => return other,
    }
    rustix::fs::openat(dir, name, how, Mode::empty())
}

/// Fills `buf` from `at`; less only at the end of the file.
fn read_full(fd: &OwnedFd, at: u64, buf: &mut [u8]) -> rustix::io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match rustix::io::pread(fd, &mut buf[done..], at + done as u64) {
            Ok(0) => break,
            Ok(len) => done += len,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// The next range with data at or after `at`; `(size, size)` if there is none.
fn next_data(fd: &OwnedFd, at: u64, size: u64) -> rustix::io::Result<(u64, u64)> {
    let start = match rustix::fs::seek(fd, SeekFrom::Data(at)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return Ok((size, size)),
        // A file system that does not know holes.
        Err(Errno::INVAL | Errno::NOTSUP) => return Ok((at, size)),
        Err(error) => return Err(error),
    };
    let end = rustix::fs::seek(fd, SeekFrom::Hole(start))?;
    Ok((start, end.clamp(start, size.max(start))))
}

/// Names in a directory, the first one last.
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

fn meta(stat: &Stat) -> Meta {
    let mtime = Timespec { secs: stat.st_mtime, nsec: stat.st_mtime_nsec as i32 };
    Meta {
        perm: (stat.st_mode & 0o7777) as u16,
        uid: stat.st_uid,
        gid: stat.st_gid,
        atime: Timespec { secs: stat.st_atime, nsec: stat.st_atime_nsec as i32 },
        mtime,
        birthtime: mtime,
        ..Meta::default()
    }
}

/// Deep trees need a descriptor for every level.
pub(crate) fn raise_descriptor_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Without it only very deep trees fail, with a message.
    let _ = setrlimit(Resource::Nofile, limit);
}
