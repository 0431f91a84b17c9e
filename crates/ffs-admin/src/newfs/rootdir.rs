//! The first directories of a volume: the root and `.snap` (`spec/on-disk-format.md` §17.3).

use ffs_ondisk::dir::{self, DirFormat, Record};
use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::snapshot::SNAP_DIR;
use ffs_ondisk::{Dinode, FileType, Format, Geometry, Ino, Timespec};

use super::options::{NewfsOptions, Release};

/// Inode of `.snap`.
pub(super) const SNAP_INO: Ino = Ino(3);
/// Permissions of the root.
const ROOT_MODE: u16 = 0o755;
/// Permissions of `.snap`: operators make snapshots.
const SNAP_MODE: u16 = 0o775;

/// The only directory block of the root.
pub(super) fn root_dirblk(g: &Geometry, with_snap: bool) -> [u8; DIRBLKSIZ] {
    let names = [(Ino::ROOT, &b"."[..]), (Ino::ROOT, b".."), (SNAP_INO, SNAP_DIR.as_bytes())];
    dirblk(g, &names[..if with_snap { 3 } else { 2 }])
}

/// The only directory block of `.snap`.
pub(super) fn snap_dirblk(g: &Geometry) -> [u8; DIRBLKSIZ] {
    dirblk(g, &[(SNAP_INO, b"."), (Ino::ROOT, b"..")])
}

fn dirblk(g: &Geometry, names: &[(Ino, &[u8])]) -> [u8; DIRBLKSIZ] {
    let mut bytes = [0; DIRBLKSIZ];
    let mut off = 0;
    for (i, (ino, name)) in names.iter().enumerate() {
        let last = i + 1 == names.len();
        let reclen = if last { DIRBLKSIZ - off } else { dir::dirsiz(name.len()) };
        let dtype = FileType::Directory.dirent();
        dir::write(DirFormat::of(g), &mut bytes, &Record { off, ino: ino.0, reclen, dtype, name });
        off += reclen;
    }
    bytes
}

/// The inode of the root, its data in fragment `at`.
pub(super) fn root_inode(g: &Geometry, opts: &NewfsOptions, now: i64, at: u32) -> Dinode {
    let links = if opts.no_snap { 2 } else { 3 };
    directory(g, now, at, ROOT_MODE, links)
}

/// The inode of `.snap`, its data in fragment `at`.
pub(super) fn snap_inode(g: &Geometry, opts: &NewfsOptions, now: i64, at: u32) -> Dinode {
    Dinode {
        gid: opts.operator_gid,
        // The depth below the root, which newer kernels keep for directory placement.
        freelink: u32::from(opts.release == Release::Current),
        ..directory(g, now, at, SNAP_MODE, 2)
    }
}

fn directory(g: &Geometry, now: i64, at: u32, mode: u16, nlink: u16) -> Dinode {
    let time = Timespec { secs: now, nsec: 0 };
    let mut inode = Dinode {
        mode: FileType::Directory.mode_bits() | mode,
        nlink,
        size: DIRBLKSIZ as u64,
        blocks: g.frags_to_sectors(1),
        atime: time,
        mtime: time,
        ctime: time,
        birthtime: if g.format == Format::Ufs2 { time } else { Timespec::default() },
        ..Dinode::default()
    };
    inode.db[0] = at.into();
    inode
}
