//! The prepared volumes: all formats and byte orders, several geometries, clean and dirty, with a
//! small tree.
//!
//! **Invariants.**
//! 1. A prepared volume is created once; a run uses a copy that shares memory with it.
//! 2. [`Base::spots`] lists every structure of a volume that can be damaged, by class.

use crate::{extra, variants};
use ffs_admin::newfs::{self, NewfsOptions, Release};
use ffs_core::acl::Acl;
use ffs_core::{
    Cred, Env, Ffs, FileFlags, MountOptions, NodeKind, OrderingPolicy, SetAttr, Vnode, WriteMode,
    XattrNamespace, XattrSet,
};
use ffs_device::clock::{ManualClock, SplitMix64, Timestamp};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::acl::{Entry, Who};
use ffs_ondisk::dir::{self, DirFormat};
use ffs_ondisk::fields::TABLES;
use ffs_ondisk::wire::Field;
use ffs_ondisk::{CgNo, Dinode, Endian, Format, FragNo, Geometry, Ino, Superblock, extattr};
use std::sync::{Arc, OnceLock};

/// The time in every run, seconds since 1970.
pub const NOW: i64 = 1_000_000_100;

/// The classes of structures that can be damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Class {
    /// The standard superblock.
    Superblock,
    /// Backup superblocks.
    Backup,
    /// Headers of cylinder groups.
    Group,
    /// Inodes in use.
    Inode,
    /// Inodes not in use.
    FreeInode,
    /// Directory records.
    Entry,
    /// Pointers in indirect blocks.
    Pointer,
    /// The summary area.
    Summary,
    /// Records of extended attributes.
    Attribute,
    /// Sectors of a journal.
    Journal,
}

/// The number of classes.
pub const CLASSES: usize = Class::Journal as usize + 1;

/// A structure on a volume.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    /// Byte offset.
    pub at: u64,
    /// Its length, bytes.
    pub len: usize,
    /// Its fields.
    pub fields: &'static [Field],
}

/// A prepared volume.
pub struct Base {
    /// Its device.
    pub dev: MemDevice,
    /// Its geometry.
    pub geo: Geometry,
    /// The structures that can be damaged, by class.
    pub spots: [Vec<Spot>; CLASSES],
    /// It is of another system: ffs only reads it, and it has no check hashes.
    pub foreign: bool,
}

/// How a prepared volume is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// New, without files.
    Empty,
    /// With a tree, unmounted.
    Clean,
    /// With operations interrupted by a crash.
    Crashed(OrderingPolicy),
    /// With a snapshot of the volume.
    Snapshot,
    /// With a soft-updates journal and two removed files on its list.
    Journal,
}

type Row = (Kind, Release, Format, Endian, u32, u32, u64);

const KINDS: [Row; 16] = {
    use Endian::{Big, Little};
    use Format::{Ufs1, Ufs2};
    use Kind::{Clean, Crashed, Empty, Journal, Snapshot};
    use Release::{Current, Freebsd4, Freebsd10};
    [
        (Clean, Current, Ufs2, Little, 4096, 512, 1 << 20),
        (Clean, Current, Ufs2, Big, 8192, 1024, 2 << 20),
        (Clean, Current, Ufs1, Little, 4096, 512, 1 << 20),
        (Clean, Current, Ufs1, Big, 8192, 1024, 2 << 20),
        (Clean, Current, Ufs2, Little, 8192, 8192, 2 << 20),
        (Clean, Current, Ufs2, Little, 16384, 2048, 2 << 20),
        (Clean, Freebsd4, Ufs1, Little, 8192, 1024, 4 << 20),
        (Clean, Freebsd10, Ufs2, Little, 8192, 1024, 2 << 20),
        (Crashed(OrderingPolicy::None), Current, Ufs2, Little, 4096, 512, 1 << 20),
        (Crashed(OrderingPolicy::Sync), Current, Ufs1, Big, 4096, 1024, 1 << 20),
        (Snapshot, Current, Ufs2, Little, 4096, 512, 1 << 20),
        (Snapshot, Current, Ufs1, Big, 8192, 1024, 1 << 20),
        (Journal, Current, Ufs2, Little, 8192, 1024, 6 << 20),
        (Journal, Current, Ufs1, Big, 8192, 2048, 6 << 20),
        (Clean, Current, Ufs2, Big, 65536, 8192, 4 << 20),
        (Empty, Current, Ufs2, Little, 32768, 4096, 2 << 20),
    ]
};

/// The number of all prepared volumes.
const ALL: usize = COUNT + variants::COUNT;
static BASES: [OnceLock<Base>; ALL] = [const { OnceLock::new() }; ALL];

/// The number of prepared volumes that ffs writes. Those of other systems follow them.
pub const COUNT: usize = KINDS.len();

/// Prepared volume number `n`, modulo their number.
pub fn base(n: u8) -> &'static Base {
    let n = usize::from(n) % ALL;
    BASES[n].get_or_init(|| match KINDS.get(n) {
        Some(row) => make(*row),
        None => Base::of(variants::make(n - COUNT), true),
    })
}

/// The number of a prepared volume that ffs writes, by any number.
#[must_use]
pub fn writable(n: u8) -> u8 {
    n % COUNT as u8
}

/// The number of a prepared volume with a journal, by any number.
#[must_use]
pub fn journal(n: u8) -> u8 {
    let with = (0..).zip(KINDS).filter(|(_, row)| row.0 == Kind::Journal).map(|(at, _)| at);
    let with: Vec<u8> = with.collect();
    with.get(usize::from(n) % with.len().max(1)).copied().unwrap_or(0)
}

/// A clock and random numbers that are the same in every run.
#[must_use]
pub fn env() -> Env {
    Env::seeded(Arc::new(ManualClock::new(Timestamp::new(NOW, 0))), 1)
}

fn make((kind, release, format, endian, bsize, fsize, bytes): Row) -> Base {
    let dev = Arc::new(MemDevice::new(bytes));
    let opts = NewfsOptions {
        release,
        endian,
        format: Some(format),
        bsize: Some(bsize),
        fsize: Some(fsize),
        // Several groups even on a small volume.
        max_group: (release != Release::Freebsd4).then(|| (bytes / 3) as u32 / fsize),
        density: Some(8192),
        soft_updates: kind == Kind::Journal || release == Release::Freebsd10,
        ..NewfsOptions::default()
    };
    let clock = ManualClock::new(Timestamp::new(NOW - 50, 0));
    newfs::newfs(&*dev, &opts, &clock, &SplitMix64::new(1), &mut |_, _| {}).unwrap();
    match kind {
        Kind::Empty => {}
        Kind::Clean => grow(&dev, format, bsize),
        Kind::Crashed(ordering) => {
            grow(&dev, format, bsize);
            extra::crash(&dev, ordering);
        }
        Kind::Snapshot => {
            grow(&dev, format, bsize);
            extra::snapshot(&dev);
        }
        Kind::Journal => {
            grow(&dev, format, bsize);
            extra::journal(&dev);
        }
    }
    Base::of(MemDevice::snapshot(&dev), false)
}

/// Mounts the volume read-write.
pub(crate) fn mount(dev: &Arc<MemDevice>, ordering: OrderingPolicy) -> Ffs {
    let opts = MountOptions { ordering, force: true, ..MountOptions::default() };
    Ffs::mount(dev.clone(), &opts, env()).unwrap()
}

pub(crate) fn grow(dev: &Arc<MemDevice>, format: Format, bsize: u32) {
    let fs = mount(dev, OrderingPolicy::None);
    populate(&fs, format, bsize);
    fs.unmount().unwrap();
}

fn populate(fs: &Ffs, format: Format, bsize: u32) {
    let root = Cred::root();
    let top = fs.root().unwrap();
    let dir = fs.mkdir(&root, &top, b"dir", 0o755).unwrap();
    let sub = fs.mkdir(&root, &dir, b"sub", 0o755).unwrap();
    for i in 0..24 {
        let name = format!("file with a longer name {i}");
        fs.create(&root, &dir, name.as_bytes(), NodeKind::Regular, 0o644).unwrap();
    }
    let big = fs.create(&root, &sub, b"big", NodeKind::Regular, 0o600).unwrap();
    let blocks = if bsize > 16384 { 3 } else { 13 };
    let data = vec![7u8; bsize as usize * blocks];
    fs.write(&root, &big, 0, &data, WriteMode::default()).unwrap();
    let sparse = fs.create(&root, &sub, b"sparse", NodeKind::Regular, 0o600).unwrap();
    let far = u64::from(bsize) * (u64::from(bsize) / 4 + 20);
    fs.write(&root, &sparse, far, b"end", WriteMode::default()).unwrap();
    fs.link(&root, &sparse, &top, b"link").unwrap();
    fs.symlink(&root, &top, b"short", b"dir/sub").unwrap();
    fs.symlink(&root, &top, b"long", &[b'x'; 300]).unwrap();
    fs.create(&root, &top, b"fifo", NodeKind::Fifo, 0o600).unwrap();
    fs.create(&root, &top, b"null", NodeKind::Char(0x103), 0o666).unwrap();
    let locked = fs.create(&root, &top, b"locked", NodeKind::Regular, 0o444).unwrap();
    fs.write(&root, &locked, 0, b"text", WriteMode::default()).unwrap();
    let set = SetAttr { flags: Some(FileFlags::UF_IMMUTABLE), ..SetAttr::default() };
    fs.setattr(&root, &locked, &set).unwrap();
    if format == Format::Ufs2 {
        attributes(fs, &big, &dir);
    }
}

fn attributes(fs: &Ffs, big: &Vnode, dir: &Vnode) {
    let root = Cred::root();
    let user = XattrNamespace::User;
    fs.setxattr(&root, big, user, b"name", &[1; 700], XattrSet::Any).unwrap();
    fs.setxattr(&root, big, user, b"other", b"", XattrSet::Any).unwrap();
    let entry = |who, perm| Entry { who, perm };
    let acl = vec![
        entry(Who::UserObj, 7),
        entry(Who::User(1000), 5),
        entry(Who::GroupObj, 5),
        entry(Who::Mask, 5),
        entry(Who::Other, 1),
    ];
    let bytes = ffs_ondisk::acl::encode(fs.geometry().endian, &acl).unwrap();
    let system = XattrNamespace::System;
    fs.setxattr(&root, dir, system, b"posix1e.acl_default", &bytes, XattrSet::Any).unwrap();
    assert!(Acl::new(acl).is_ok());
}

impl Base {
    fn of(dev: MemDevice, foreign: bool) -> Base {
        let read = |at, len| -> Result<Vec<u8>, ffs_device::DeviceError> {
            let mut b = vec![0; len];
            dev.read_at(at, &mut b).map(|()| b)
        };
        let geo = ffs_ondisk::sbsearch::find(read, Some(dev.len_bytes())).unwrap().geometry;
        let mut base = Base { dev, geo, spots: Default::default(), foreign };
        base.list();
        base
    }

    /// `len` bytes at `at`; zeros beyond the end.
    fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut b = vec![0; len];
        let _ = self.dev.read_at(at, &mut b);
        b
    }

    fn add(&mut self, class: Class, at: u64, table: &str) {
        let t = TABLES.iter().find(|t| t.name == table).unwrap();
        self.spots[class as usize].push(Spot { at, len: t.size, fields: t.fields });
    }

    fn list(&mut self) {
        let g = self.geo;
        let home = if g.format == Format::Ufs1 { 8192 } else { 65536 };
        self.add(Class::Superblock, home, "superblock");
        self.add(Class::Superblock, home, "superblock text");
        if self.foreign {
            let (len, fields) = (1376, variants::SUPERBLOCK);
            self.spots[Class::Superblock as usize].push(Spot { at: home, len, fields });
        }
        for c in (0..g.ncg).map(CgNo) {
            self.add(Class::Backup, g.frag_to_byte(g.cgsblock(c)), "superblock");
            let at = g.frag_to_byte(g.cgtod(c));
            self.add(Class::Group, at, "cylinder group");
            if g.old_groups {
                let (len, fields) = (variants::OLD_GROUP_LEN, variants::OLD_GROUP);
                self.spots[Class::Group as usize].push(Spot { at, len, fields });
            }
            let record = g.frag_to_byte(g.csaddr) + 16 * u64::from(c.0);
            self.add(Class::Summary, record, "summary record");
        }
        if g.format == Format::Ufs2 {
            let last = g.frag_to_byte(g.cgsblock(CgNo(0)).plus(0)).saturating_sub(512);
            self.add(Class::Backup, last, "recovery record");
        }
        for i in 2..g.inodes() {
            self.inode(Ino(i));
        }
    }

    fn inode(&mut self, ino: Ino) {
        let g = self.geo;
        let at = g.frag_to_byte(g.ino_to_fsba(ino)) + g.ino_to_fsbo(ino) as u64;
        let table = if g.format == Format::Ufs1 { "UFS1 inode" } else { "UFS2 inode" };
        let d = Dinode::decode(&g, &self.read(at, g.format.dinode_size()));
        if d.mode == 0 {
            if self.spots[Class::FreeInode as usize].len() < 40 {
                self.add(Class::FreeInode, at, table);
            }
            return;
        }
        self.add(Class::Inode, at, table);
        if d.is_dir() {
            self.entries(&d);
        } else if d.size >= 4 << 20 && !d.flags.contains(FileFlags::SF_SNAPSHOT) && d.db[0] != 0 {
            for n in 0..4 {
                let at = g.frag_to_byte(FragNo(d.db[0] as u64)) + 512 * n;
                self.add(Class::Journal, at, "journal segment");
                for (slot, table) in
                    ["reference", "block", "truncation", "move"].into_iter().enumerate()
                {
                    self.add(
                        Class::Journal,
                        at + 32 * (slot as u64 + 1),
                        &format!("journal {table}"),
                    );
                }
            }
        }
        if d.has_pointers(&g) {
            for (level, &p) in d.ib.iter().enumerate() {
                self.pointers(p, level);
            }
        }
        if d.extsize > 0 {
            let start = g.frag_to_byte(FragNo(d.extb[0] as u64));
            let area = self.read(start, d.extsize.min(g.bsize) as usize);
            let at: Vec<u64> =
                extattr::records(g.endian, &area).flatten().map(|a| start + a.off as u64).collect();
            at.into_iter().for_each(|at| self.add(Class::Attribute, at, "attribute record"));
        }
    }

    /// The records of a directory small enough for its direct blocks.
    fn entries(&mut self, d: &Dinode) {
        let g = self.geo;
        let fmt = DirFormat::of(&g);
        for chunk in 0..d.size / 512 {
            let lbn = (chunk * 512 / u64::from(g.bsize)) as usize;
            let Some(&p) = d.db.get(lbn).filter(|&&p| p > 0) else { continue };
            let start = g.frag_to_byte(FragNo(p as u64)) + chunk * 512 % u64::from(g.bsize);
            let bytes = self.read(start, 512);
            let at: Vec<u64> =
                dir::records(fmt, &bytes).flatten().map(|r| start + r.off as u64).collect();
            at.into_iter().for_each(|at| self.add(Class::Entry, at, "directory record"));
        }
    }

    /// The pointers of an indirect block, the nonzero ones first, and of the blocks below it.
    fn pointers(&mut self, p: i64, level: usize) {
        if p <= 0 {
            return;
        }
        let g = self.geo;
        let start = g.frag_to_byte(FragNo(p as u64));
        let bytes = self.read(start, g.bsize as usize);
        let fields = if g.format == Format::Ufs1 { POINTER1 } else { POINTER2 };
        let size = fields[0].size;
        for (n, raw) in bytes.chunks_exact(size).enumerate() {
            let set = raw.iter().any(|&b| b != 0);
            if !set && n > 2 {
                continue;
            }
            let at = start + (n * size) as u64;
            self.spots[Class::Pointer as usize].push(Spot { at, len: size, fields });
            let next = fields[0].value(raw, 0, g.endian) as i64;
            if level > 0 && set {
                self.pointers(next, level - 1);
            }
        }
    }

    /// The superblock of the volume.
    #[must_use]
    pub fn superblock(&self) -> Superblock {
        let at = self.spots[Class::Superblock as usize][0].at;
        Superblock::decode(&self.read(at, 8192), at).unwrap()
    }
}

const POINTER1: &[Field] = &[Field { name: "pointer", offset: 0, size: 4, elem: 4, signed: true }];
const POINTER2: &[Field] = &[Field { name: "pointer", offset: 0, size: 8, elem: 8, signed: true }];

#[cfg(test)]
mod tests {
    use super::*;
    use ffs_admin::fsck::{Fsck, FsckOptions, quick_check};

    #[test]
    fn prepared_volumes_are_what_they_should_be() {
        for (n, kind) in KINDS.iter().enumerate() {
            let b = base(n as u8);
            let counts: Vec<usize> = b.spots.iter().map(Vec::len).collect();
            println!("{n}: {kind:?}, {} groups, spots {counts:?}", b.geo.ncg);
            let dev: Arc<dyn BlockDevice> = Arc::new(b.dev.snapshot());
            let found = quick_check(&dev);
            let ids: std::collections::BTreeSet<String> =
                found.iter().map(|f| format!("{:?}", f.id)).collect();
            println!("   {ids:?}");
            let dirty = matches!(kind.0, Kind::Crashed(_) | Kind::Journal);
            assert_eq!(found.is_empty(), !dirty, "{found:#?}");
            let report = Fsck::new(dev.clone(), FsckOptions::yes()).run();
            assert!(report.clean, "{report:#?}");
        }
    }
}
