//! Conversion of attributes, times, types and device numbers from the file system's to Linux's.

use super::Server;
use crate::wire::reply::WireAttr;
use crate::wire::{Entry, Errno, ROOT, Reply, Request, node_of};
use ffs_core::{Access, Attr, DeviceNumber, FileType, Ino, Timespec};

/// The inode number of `node`.
pub(super) fn ino_of(node: u64) -> Result<Ino, Errno> {
    match node {
        ROOT => Ok(Ino::ROOT),
        n => u32::try_from(n).map(Ino).map_err(|_| Errno::STALE),
    }
}

/// As [`ino_of`], for the log.
pub(crate) fn inode_number(node: u64) -> u64 {
    if node == ROOT { u64::from(Ino::ROOT.0) } else { node }
}

/// The type bits of a mode.
pub(super) fn type_bits(kind: FileType) -> u32 {
    match kind {
        FileType::Fifo => libc::S_IFIFO,
        FileType::Char => libc::S_IFCHR,
        FileType::Directory => libc::S_IFDIR,
        FileType::Block => libc::S_IFBLK,
        FileType::Regular => libc::S_IFREG,
        FileType::Symlink => libc::S_IFLNK,
        FileType::Socket => libc::S_IFSOCK,
    }
}

/// The `DT_*` of a directory entry; unknown if the entry has no type.
pub(super) fn dirent_kind(kind: Option<FileType>) -> u32 {
    kind.map_or(0, |k| type_bits(k) >> 12)
}

/// A device number in FreeBSD's encoding, as on the volume.
fn device(rdev: u64) -> DeviceNumber {
    DeviceNumber::from_disk(rdev)
}

fn time(t: Timespec) -> (i64, u32) {
    (t.secs, u32::try_from(t.nsec).unwrap_or(0))
}

impl Server {
    /// Attributes in the kernel's format, as programs see them.
    pub(super) fn wire_attr(&self, a: &Attr) -> WireAttr {
        let owners = &self.options.owners;
        WireAttr {
            ino: u64::from(a.ino.0),
            size: a.size,
            blocks: a.blocks,
            times: [time(a.atime), time(a.mtime), time(a.ctime)],
            mode: type_bits(a.kind) | u32::from(owners.shown_perm(a.perm)),
            nlink: a.nlink,
            uid: owners.users.shown(a.uid),
            gid: owners.groups.shown(a.gid),
            rdev: device(a.rdev).to_linux() as u32,
            blksize: a.blksize,
        }
    }

    /// The node of a file with these attributes.
    pub(super) fn entry_with(&self, a: &Attr) -> Entry {
        let attr = self.wire_attr(a);
        Entry { node: node_of(a.ino), generation: u64::from(a.generation), attr }
    }

    pub(super) fn getattr(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        let a = self.fs.getattr(&self.node(r)?);
        out.attr(&self.wire_attr(&a), &self.options.timeouts);
        Ok(())
    }

    /// `statx`: the kernel sends it when a caller needs the birth time.
    pub(super) fn statx(&self, r: &Request<'_>, out: &mut Reply) -> Result<(), Errno> {
        const BASIC_AND_BTIME: u32 = 0xfff;
        let a = self.fs.getattr(&self.node(r)?);
        let t = self.options.timeouts.attr;
        out.u64(t.as_secs());
        out.u32(t.subsec_nanos());
        out.zeros(4 + 16);
        let w = self.wire_attr(&a);
        out.u32(BASIC_AND_BTIME);
        out.u32(a.blksize);
        out.u64(0);
        for v in [a.nlink, w.uid, w.gid] {
            out.u32(v);
        }
        out.u16(w.mode as u16);
        out.u16(0);
        for v in [w.ino, a.size, a.blocks, 0] {
            out.u64(v);
        }
        for t in [a.atime, a.birthtime, a.ctime, a.mtime] {
            let (secs, nsec) = time(t);
            out.u64(secs as u64);
            out.u32(nsec);
            out.u32(0);
        }
        let d = device(a.rdev);
        for v in [d.major, d.minor, 0, 0] {
            out.u32(v);
        }
        out.zeros(14 * 8);
        Ok(())
    }

    pub(super) fn statfs(&self, out: &mut Reply) -> Result<(), Errno> {
        self.release_forgotten();
        let s = self.fs.statfs();
        for v in [
            s.frags,
            s.frags_free,
            u64::try_from(s.frags_avail).unwrap_or(0),
            s.inodes,
            s.inodes_free,
        ] {
            out.u64(v);
        }
        for v in [s.bsize, s.name_max, s.fsize] {
            out.u32(v);
        }
        out.zeros(28);
        Ok(())
    }

    pub(super) fn access(&self, r: &Request<'_>) -> Result<(), Errno> {
        let mask = r.args().u32()? & 7;
        let file = self.node(r)?;
        Ok(self.fs.access(&self.cred_with_groups(r), &file, Access(mask as u8))?)
    }
}
