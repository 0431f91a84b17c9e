//! The system calls under test, with paths relative to the case's directory and errors as `Errno`.
//!
//! Thin on purpose: a wrapper adds nothing but the types that make a case short.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{self, AtFlags, CWD, Dev, FileType, Mode, OFlags, Timespec, Timestamps};
use rustix::fs::{RenameFlags, StatxFlags};
use rustix::path::Arg;
use std::ffi::CString;

pub(crate) use rustix::io::Errno;

/// What a call answers.
pub(crate) type R<T = ()> = Result<T, Errno>;

/// Types of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Regular,
    Directory,
    Fifo,
    Char,
    Block,
    Socket,
    Symlink,
}

impl Kind {
    /// Every type.
    pub(crate) const ALL: [Kind; 7] = [
        Kind::Regular,
        Kind::Directory,
        Kind::Fifo,
        Kind::Char,
        Kind::Block,
        Kind::Socket,
        Kind::Symlink,
    ];
    /// Every type but directories.
    pub(crate) const FILES: [Kind; 6] =
        [Kind::Regular, Kind::Fifo, Kind::Char, Kind::Block, Kind::Socket, Kind::Symlink];
    /// Types that have permissions of their own.
    pub(crate) const WITH_MODE: [Kind; 6] =
        [Kind::Regular, Kind::Directory, Kind::Fifo, Kind::Char, Kind::Block, Kind::Socket];
    /// Types that also those without rights can make.
    pub(crate) const FREE: [Kind; 5] =
        [Kind::Regular, Kind::Directory, Kind::Fifo, Kind::Socket, Kind::Symlink];

    pub(crate) fn file_type(self) -> FileType {
        match self {
            Kind::Regular => FileType::RegularFile,
            Kind::Directory => FileType::Directory,
            Kind::Fifo => FileType::Fifo,
            Kind::Char => FileType::CharacterDevice,
            Kind::Block => FileType::BlockDevice,
            Kind::Socket => FileType::Socket,
            Kind::Symlink => FileType::Symlink,
        }
    }

    fn of(t: FileType) -> Kind {
        match t {
            FileType::RegularFile => Kind::Regular,
            FileType::Directory => Kind::Directory,
            FileType::Fifo => Kind::Fifo,
            FileType::CharacterDevice => Kind::Char,
            FileType::BlockDevice => Kind::Block,
            FileType::Socket => Kind::Socket,
            FileType::Symlink => Kind::Symlink,
            FileType::Unknown => panic!("a file of unknown type"),
        }
    }
}

/// A moment: seconds and nanoseconds.
pub(crate) type Time = (i64, i64);

/// Attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct St {
    pub(crate) ino: u64,
    pub(crate) kind: Kind,
    /// The low 12 bits of the mode.
    pub(crate) mode: u32,
    pub(crate) nlink: u64,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) size: i64,
    /// 512-byte units.
    pub(crate) blocks: i64,
    /// Major and minor number.
    pub(crate) rdev: (u32, u32),
    pub(crate) atime: Time,
    pub(crate) mtime: Time,
    pub(crate) ctime: Time,
}

// The widths of `stat` fields differ between machines.
#[allow(clippy::unnecessary_cast)]
fn st(s: fs::Stat) -> St {
    let rdev = s.st_rdev as u64;
    St {
        ino: s.st_ino as u64,
        kind: Kind::of(FileType::from_raw_mode(s.st_mode)),
        mode: s.st_mode & 0o7777,
        nlink: s.st_nlink as u64,
        uid: s.st_uid,
        gid: s.st_gid,
        size: s.st_size as i64,
        blocks: s.st_blocks as i64,
        rdev: (fs::major(rdev), fs::minor(rdev)),
        atime: (s.st_atime as i64, s.st_atime_nsec as i64),
        mtime: (s.st_mtime as i64, s.st_mtime_nsec as i64),
        ctime: (s.st_ctime as i64, s.st_ctime_nsec as i64),
    }
}

fn mode(m: u32) -> Mode {
    Mode::from_raw_mode(m)
}

pub(crate) fn stat(p: impl Arg) -> R<St> {
    fs::statat(CWD, p, AtFlags::empty()).map(st)
}

pub(crate) fn lstat(p: impl Arg) -> R<St> {
    fs::statat(CWD, p, AtFlags::SYMLINK_NOFOLLOW).map(st)
}

pub(crate) fn fstat(fd: impl AsFd) -> R<St> {
    fs::fstat(fd).map(st)
}

/// As [`fstat`], but bypasses the kernel's cached attributes: with a write-back cache the kernel's
/// number of blocks is out of date.
pub(crate) fn fresh(fd: impl AsFd) -> R<St> {
    let how = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
    let s = fs::statx(&fd, "", how, StatxFlags::BASIC_STATS)?;
    Ok(St { blocks: s.stx_blocks as i64, size: s.stx_size as i64, ..fstat(fd)? })
}

/// The time of birth, where it is kept.
pub(crate) fn birthtime(p: impl Arg) -> R<Option<Time>> {
    let s = fs::statx(CWD, p, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::BTIME)?;
    let known = s.stx_mask & StatxFlags::BTIME.bits() != 0;
    Ok(known.then_some((s.stx_btime.tv_sec, s.stx_btime.tv_nsec.into())))
}

pub(crate) fn open(p: impl Arg, flags: OFlags, m: u32) -> R<OwnedFd> {
    fs::openat(CWD, p, flags | OFlags::CLOEXEC, mode(m))
}

pub(crate) fn openat(dir: impl AsFd, p: impl Arg, flags: OFlags, m: u32) -> R<OwnedFd> {
    fs::openat(dir, p, flags | OFlags::CLOEXEC, mode(m))
}

/// Makes a new regular file, open for reading and writing.
pub(crate) fn create(p: impl Arg, m: u32) -> R<OwnedFd> {
    open(p, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, m)
}

pub(crate) fn mkdir(p: impl Arg, m: u32) -> R {
    fs::mkdirat(CWD, p, mode(m))
}

pub(crate) fn mkfifo(p: impl Arg, m: u32) -> R {
    fs::mknodat(CWD, p, FileType::Fifo, mode(m), 0)
}

pub(crate) fn mknod(p: impl Arg, kind: Kind, m: u32, dev: (u32, u32)) -> R {
    let dev: Dev = fs::makedev(dev.0, dev.1);
    fs::mknodat(CWD, p, kind.file_type(), mode(m), dev)
}

/// Makes a file of any type.
pub(crate) fn make(kind: Kind, p: impl Arg, m: u32) -> R {
    match kind {
        Kind::Regular => create(p, m).map(drop),
        Kind::Directory => mkdir(p, m),
        Kind::Symlink => symlink("target of a link", p),
        Kind::Fifo | Kind::Socket | Kind::Char | Kind::Block => mknod(p, kind, m, (1, 3)),
    }
}

pub(crate) fn symlink(target: impl Arg, p: impl Arg) -> R {
    fs::symlinkat(target, CWD, p)
}

pub(crate) fn readlink(p: impl Arg) -> R<Vec<u8>> {
    fs::readlinkat(CWD, p, Vec::new()).map(CString::into_bytes)
}

pub(crate) fn link(from: impl Arg, to: impl Arg) -> R {
    fs::linkat(CWD, from, CWD, to, AtFlags::empty())
}

pub(crate) fn link_following(from: impl Arg, to: impl Arg) -> R {
    fs::linkat(CWD, from, CWD, to, AtFlags::SYMLINK_FOLLOW)
}

pub(crate) fn rename(from: impl Arg, to: impl Arg) -> R {
    fs::renameat(CWD, from, CWD, to)
}

pub(crate) fn rename_with(from: impl Arg, to: impl Arg, flags: RenameFlags) -> R {
    fs::renameat_with(CWD, from, CWD, to, flags)
}

pub(crate) fn unlink(p: impl Arg) -> R {
    fs::unlinkat(CWD, p, AtFlags::empty())
}

pub(crate) fn rmdir(p: impl Arg) -> R {
    fs::unlinkat(CWD, p, AtFlags::REMOVEDIR)
}

/// Removes a file of any type.
pub(crate) fn remove(kind: Kind, p: impl Arg) -> R {
    if kind == Kind::Directory { rmdir(p) } else { unlink(p) }
}

pub(crate) fn chmod(p: impl Arg, m: u32) -> R {
    fs::chmodat(CWD, p, mode(m), AtFlags::empty())
}

pub(crate) fn fchmod(fd: impl AsFd, m: u32) -> R {
    fs::fchmod(fd, mode(m))
}

fn ids(uid: Option<u32>, gid: Option<u32>) -> (Option<fs::Uid>, Option<fs::Gid>) {
    (uid.map(fs::Uid::from_raw), gid.map(fs::Gid::from_raw))
}

pub(crate) fn chown(p: impl Arg, uid: Option<u32>, gid: Option<u32>) -> R {
    let (u, g) = ids(uid, gid);
    fs::chownat(CWD, p, u, g, AtFlags::empty())
}

pub(crate) fn lchown(p: impl Arg, uid: Option<u32>, gid: Option<u32>) -> R {
    let (u, g) = ids(uid, gid);
    fs::chownat(CWD, p, u, g, AtFlags::SYMLINK_NOFOLLOW)
}

pub(crate) fn fchown(fd: impl AsFd, uid: Option<u32>, gid: Option<u32>) -> R {
    let (u, g) = ids(uid, gid);
    fs::fchown(fd, u, g)
}

pub(crate) fn access(p: impl Arg, how: fs::Access) -> R {
    fs::accessat(CWD, p, how, AtFlags::empty())
}

fn errno_of(failed: bool) -> R {
    if failed {
        let code = std::io::Error::last_os_error().raw_os_error().unwrap_or_default();
        return Err(Errno::from_raw_os_error(code));
    }
    Ok(())
}

pub(crate) fn truncate(p: impl Arg, size: i64) -> R {
    p.into_with_c_str(|p| {
        // SAFETY: `p` is a string with its NUL that lives during the call.
        errno_of(unsafe { libc::truncate(p.as_ptr(), size) } != 0)
    })
}

pub(crate) fn ftruncate(fd: impl AsFd, size: i64) -> R {
    use std::os::fd::AsRawFd;
    // SAFETY: no memory is handed over.
    errno_of(unsafe { libc::ftruncate(fd.as_fd().as_raw_fd(), size) } != 0)
}

/// What to set a time to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum To {
    Now,
    Omit,
    At(Time),
}

fn timestamps(a: To, m: To) -> Timestamps {
    let one = |t| match t {
        To::Now => Timespec { tv_sec: 0, tv_nsec: fs::UTIME_NOW as _ },
        To::Omit => Timespec { tv_sec: 0, tv_nsec: fs::UTIME_OMIT as _ },
        To::At((s, ns)) => Timespec { tv_sec: s, tv_nsec: ns as _ },
    };
    Timestamps { last_access: one(a), last_modification: one(m) }
}

pub(crate) fn utimens(p: impl Arg, atime: To, mtime: To) -> R {
    fs::utimensat(CWD, p, &timestamps(atime, mtime), AtFlags::empty())
}

pub(crate) fn lutimens(p: impl Arg, atime: To, mtime: To) -> R {
    fs::utimensat(CWD, p, &timestamps(atime, mtime), AtFlags::SYMLINK_NOFOLLOW)
}

pub(crate) fn futimens(fd: impl AsFd, atime: To, mtime: To) -> R {
    fs::futimens(fd, &timestamps(atime, mtime))
}

pub(crate) fn pread(fd: impl AsFd, len: usize, at: u64) -> R<Vec<u8>> {
    let mut out = vec![0; len];
    let mut got = 0;
    while got < len {
        let n = rustix::io::pread(&fd, &mut out[got..], at + got as u64)?;
        if n == 0 {
            break;
        }
        got += n;
    }
    out.truncate(got);
    Ok(out)
}

pub(crate) fn pwrite(fd: impl AsFd, bytes: &[u8], at: u64) -> R<usize> {
    rustix::io::pwrite(fd, bytes, at)
}

pub(crate) fn write(fd: impl AsFd, bytes: &[u8]) -> R<usize> {
    rustix::io::write(fd, bytes)
}

/// Passes what the kernel has cached of a file on to the file system, without making it durable.
pub(crate) fn pass_on(fd: impl AsFd) -> R {
    use std::os::fd::AsRawFd;
    let before = libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE;
    let flags = before | libc::SYNC_FILE_RANGE_WAIT_AFTER;
    // SAFETY: no memory is involved.
    errno_of(unsafe { libc::sync_file_range(fd.as_fd().as_raw_fd(), 0, 0, flags) } != 0)
}

/// The whole content of a file.
pub(crate) fn content(p: impl Arg) -> R<Vec<u8>> {
    let fd = open(p, OFlags::RDONLY, 0)?;
    let size = fstat(&fd)?.size;
    pread(&fd, usize::try_from(size).unwrap() + 1, 0)
}

/// Makes a file with a content.
pub(crate) fn put(p: impl Arg, bytes: &[u8]) -> R {
    let fd = open(p, OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC, 0o644)?;
    let mut done = 0;
    while done < bytes.len() {
        done += write(&fd, &bytes[done..])?;
    }
    Ok(())
}

/// An entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) ino: u64,
    pub(crate) kind: FileType,
    /// The position of the next entry.
    pub(crate) next: u64,
}

/// Reads entries from the descriptor's position on, by one `getdents64` with a buffer of `bytes`.
pub(crate) fn getdents(fd: impl AsFd, bytes: usize) -> R<Vec<Entry>> {
    let mut buf = Vec::with_capacity(bytes);
    let mut dir = fs::RawDir::new(fd, buf.spare_capacity_mut());
    let mut out = Vec::new();
    while let Some(e) = dir.next() {
        let e = e?;
        out.push(Entry {
            name: e.file_name().to_bytes().to_vec(),
            ino: e.ino(),
            kind: e.file_type(),
            next: e.next_entry_cookie(),
        });
        if dir.is_buffer_empty() {
            break;
        }
    }
    Ok(out)
}

/// All entries of an open directory, from its position on.
pub(crate) fn getdents_all(fd: impl AsFd) -> R<Vec<Entry>> {
    let mut all = Vec::new();
    loop {
        let some = getdents(&fd, 4096)?;
        if some.is_empty() {
            return Ok(all);
        }
        all.extend(some);
    }
}

/// All entries of a directory but `.` and `..`, by name.
pub(crate) fn list(p: impl Arg) -> R<Vec<Vec<u8>>> {
    let fd = open(p, OFlags::RDONLY | OFlags::DIRECTORY, 0)?;
    let mut names: Vec<_> = getdents_all(fd)?.into_iter().map(|e| e.name).collect();
    names.retain(|n| n != b"." && n != b"..");
    names.sort();
    Ok(names)
}
