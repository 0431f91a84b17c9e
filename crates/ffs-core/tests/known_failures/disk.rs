//! A volume with a known tree, and tools to damage it field by field.

use crate::walk::{Item, walk};
use ffs_admin::fsck::{Fsck, FsckOptions, FsckReport, quick_check};
use ffs_admin::newfs::{self, NewfsOptions};
use ffs_core::{
    Cred, Env, Ffs, MountOptions, NodeKind, Result, Vnode, WriteMode, XattrNamespace, XattrSet,
};
use ffs_device::clock::{ManualClock, SplitMix64, Timestamp};
use ffs_device::{BlockDevice, FaultInjector, MemDevice};
use ffs_ondisk::cg::CgFields;
use ffs_ondisk::dinode::{self, Dinode1, Dinode2};
use ffs_ondisk::dir::DirFormat;
use ffs_ondisk::fields::TABLES;
use ffs_ondisk::hash::check_hash;
use ffs_ondisk::superblock::SbFields;
use ffs_ondisk::wire::{Field, get, put};
use ffs_ondisk::{CgNo, Dinode, Endian, Format, FragNo, Geometry, Ino, Lbn, bmap, cg, sbsearch};
use ffs_testkit::rng::fill;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Format and byte order.
pub(crate) type Kind = (Format, Endian);

/// The formats and byte orders of all tests.
pub(crate) const KINDS: [Kind; 4] = [
    (Format::Ufs1, Endian::Little),
    (Format::Ufs1, Endian::Big),
    (Format::Ufs2, Endian::Little),
    (Format::Ufs2, Endian::Big),
];

/// Bytes of a test volume: four groups.
const BYTES: u64 = 8 << 20;
/// Offset of the check hash in the superblock.
const SB_CKHASH: usize = 1304;

/// The tree by path.
pub(crate) type Tree = BTreeMap<String, Item>;

/// A volume in memory whose tree is known.
pub(crate) struct Disk {
    pub(crate) dev: Arc<FaultInjector<MemDevice>>,
    pub(crate) g: Geometry,
    /// The tree after creation.
    pub(crate) tree: Arc<Tree>,
    pub(crate) kind: Kind,
}

struct Base {
    dev: MemDevice,
    g: Geometry,
    tree: Arc<Tree>,
}

static BASES: [OnceLock<Base>; 4] = [const { OnceLock::new() }; 4];

impl Disk {
    /// An undamaged volume: 8K/1K, four groups, one file of each type, unmounted.
    pub(crate) fn new(kind: Kind) -> Disk {
        let at = KINDS.iter().position(|k| *k == kind).unwrap();
        let base = BASES[at].get_or_init(|| make(kind));
        let dev = Arc::new(FaultInjector::new(base.dev.snapshot(), Vec::new()));
        Disk { dev, g: base.g, tree: Arc::clone(&base.tree), kind }
    }

    /// The volume on another device; its tree is read now.
    pub(crate) fn of(mem: MemDevice) -> Disk {
        let dev = Arc::new(FaultInjector::new(mem, Vec::new()));
        let g = geometry(&*dev);
        let mut disk = Disk { dev, g, tree: Arc::default(), kind: (g.format, g.endian) };
        let fs = disk.mount_read_only().unwrap();
        let w = walk(&fs);
        assert!(w.errors.is_empty(), "{:?}", w.errors);
        disk.tree = Arc::new(w.items);
        disk
    }

    /// An independent copy.
    pub(crate) fn copy(&self) -> Disk {
        let dev = Arc::new(FaultInjector::new(self.dev.inner().snapshot(), Vec::new()));
        Disk { dev, g: self.g, tree: Arc::clone(&self.tree), kind: self.kind }
    }

    pub(crate) fn device(&self) -> Arc<dyn BlockDevice> {
        Arc::clone(&self.dev) as Arc<dyn BlockDevice>
    }

    /// Transfers so far, to bound the work.
    pub(crate) fn transfers(&self) -> u64 {
        let c = self.dev.counts();
        c.reads + c.writes + c.flushes
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.dev.inner().to_vec()
    }

    // --- mounting and checking ---

    pub(crate) fn mount_with(&self, opts: &MountOptions) -> Result<Ffs> {
        mount(self.device(), opts)
    }

    pub(crate) fn mount(&self) -> Result<Ffs> {
        self.mount_with(&options())
    }

    pub(crate) fn mount_read_only(&self) -> Result<Ffs> {
        self.mount_with(&MountOptions { read_only: true, ..options() })
    }

    pub(crate) fn mount_forced(&self) -> Result<Ffs> {
        self.mount_with(&MountOptions { force: true, ..options() })
    }

    pub(crate) fn fsck(&self, opts: FsckOptions) -> FsckReport {
        let opts = FsckOptions { force: true, max_memory: Some(64 << 20), ..opts };
        Fsck::new(self.device(), opts.at(1_000_000_500)).run()
    }

    /// Fails unless the check has no findings.
    pub(crate) fn silent(&self, when: &str) {
        let findings = quick_check(&self.device());
        assert!(findings.is_empty(), "{:?} {when}: {}", self.kind, list(&findings));
    }

    /// Whether the volume is marked clean.
    pub(crate) fn is_clean(&self) -> bool {
        let fs = self.copy().mount().unwrap();
        !fs.is_read_only() && fs.unchecked().is_none()
    }

    // --- places ---

    /// Byte offset of the standard superblock.
    pub(crate) fn home(&self) -> u64 {
        match self.g.format {
            Format::Ufs1 => 8192,
            Format::Ufs2 => 65536,
        }
    }

    /// Byte offset of the backup in group `c`.
    pub(crate) fn backup(&self, c: u32) -> u64 {
        self.g.frag_to_byte(self.g.cgsblock(CgNo(c)))
    }

    /// Byte offset of inode `ino`.
    pub(crate) fn inode_at(&self, ino: u32) -> u64 {
        let ino = Ino(ino);
        self.g.frag_to_byte(self.g.ino_to_fsba(ino)) + self.g.ino_to_fsbo(ino) as u64
    }

    /// Byte offset of the block of group `c`.
    pub(crate) fn group_at(&self, c: u32) -> u64 {
        self.g.frag_to_byte(self.g.cgtod(CgNo(c)))
    }

    /// The number of the file at `path`.
    pub(crate) fn ino(&self, path: &str) -> u32 {
        self.tree.get(path).unwrap_or_else(|| panic!("no {path}")).ino
    }

    pub(crate) fn read(&self, at: u64, len: usize) -> Vec<u8> {
        let mut b = vec![0; len];
        self.dev.inner().read_at(at, &mut b).unwrap();
        b
    }

    pub(crate) fn write(&self, at: u64, bytes: &[u8]) {
        self.dev.inner().write_at(at, bytes).unwrap();
    }

    // --- damage ---

    /// Sets a field of the superblock at byte `at` and updates its check hash.
    pub(crate) fn set_sb_at(&self, at: u64, name: &str, n: usize, value: i128) {
        let mut b = self.read(at, 8192);
        field(SbFields::FIELDS, name).set(&mut b, n, self.g.endian, value);
        self.rehash_sb(&mut b);
        self.write(at, &b);
    }

    fn rehash_sb(&self, b: &mut [u8]) {
        let e = self.g.endian;
        let kept: u32 = get(b, SB_CKHASH + 4, e);
        let promised: u32 = get(b, SB_CKHASH + 8, e);
        if self.g.format == Format::Ufs2 && promised & 0x200 != 0 && kept & 1 != 0 {
            let size = usize::try_from(get::<i32>(b, 104, e)).unwrap_or(0).clamp(1376, 8192);
            let hash = check_hash(&b[..size], SB_CKHASH);
            put(b, SB_CKHASH, e, hash);
        }
    }

    /// Sets a field of the standard superblock.
    pub(crate) fn set_sb(&self, name: &str, value: i128) {
        self.set_sb_at(self.home(), name, 0, value);
    }

    /// Sets a field of every copy of the superblock.
    pub(crate) fn set_all_sb(&self, name: &str, value: i128) {
        self.set_sb(name, value);
        for c in 0..self.g.ncg {
            self.set_sb_at(self.backup(c), name, 0, value);
        }
    }

    pub(crate) fn sb_field(&self, name: &str) -> i128 {
        let b = self.read(self.home(), 8192);
        field(SbFields::FIELDS, name).value(&b, 0, self.g.endian)
    }

    /// Changes the block of group `c` and updates its check hash.
    pub(crate) fn edit_group(&self, c: u32, change: impl FnOnce(&Geometry, &mut [u8])) {
        let mut b = self.read(self.group_at(c), self.g.cgsize as usize);
        change(&self.g, &mut b);
        cg::rehash(&self.g, &mut b);
        self.write(self.group_at(c), &b);
    }

    /// Sets a field of the header of group `c`.
    pub(crate) fn set_cg(&self, c: u32, name: &str, n: usize, value: i128) {
        let f = field(CgFields::FIELDS, name);
        self.edit_group(c, |g, b| f.set(b, n, g.endian, value));
    }

    fn inode_fields(&self) -> &'static [Field] {
        match self.g.format {
            Format::Ufs1 => Dinode1::FIELDS,
            Format::Ufs2 => Dinode2::FIELDS,
        }
    }

    /// Sets a field of an inode and updates its check hash.
    pub(crate) fn set_inode(&self, ino: u32, name: &str, n: usize, value: i128) {
        let mut b = self.read(self.inode_at(ino), self.g.format.dinode_size());
        field(self.inode_fields(), name).set(&mut b, n, self.g.endian, value);
        dinode::rehash(&self.g, &mut b);
        self.write(self.inode_at(ino), &b);
    }

    /// The inode, decoded without checks.
    pub(crate) fn inode(&self, ino: u32) -> Dinode {
        Dinode::decode(&self.g, &self.read(self.inode_at(ino), self.g.format.dinode_size()))
    }

    /// Replaces an inode and updates its check hash.
    pub(crate) fn edit_inode(&self, ino: u32, change: impl FnOnce(&mut Dinode)) {
        let mut raw = self.read(self.inode_at(ino), self.g.format.dinode_size());
        let mut d = Dinode::decode(&self.g, &raw);
        change(&mut d);
        d.encode(&self.g, &mut raw);
        self.write(self.inode_at(ino), &raw);
    }

    /// The first fragment of logical block `l` of file `ino`; only direct and single indirect
    /// blocks.
    pub(crate) fn block_of(&self, ino: u32, l: u64) -> i64 {
        let d = self.inode(ino);
        match bmap::path(&self.g, Lbn(l)) {
            Some(bmap::Path::Direct(i)) => d.db[i],
            Some(bmap::Path::Indirect { levels: 1, index }) => self.slot(d.ib[0], index[0]),
            other => panic!("{other:?}"),
        }
    }

    fn slot_at(&self, block: i64, slot: u32) -> u64 {
        let frag = FragNo(u64::try_from(block).unwrap());
        self.g.frag_to_byte(frag) + u64::from(slot) * self.g.format.pointer_size() as u64
    }

    /// Pointer `slot` of the indirect block at `block`.
    pub(crate) fn slot(&self, block: i64, slot: u32) -> i64 {
        let raw = self.read(self.slot_at(block, slot), self.g.format.pointer_size());
        match self.g.format {
            Format::Ufs1 => get::<i32>(&raw, 0, self.g.endian).into(),
            Format::Ufs2 => get(&raw, 0, self.g.endian),
        }
    }

    pub(crate) fn set_slot(&self, block: i64, slot: u32, value: i64) {
        let mut raw = vec![0; self.g.format.pointer_size()];
        match self.g.format {
            Format::Ufs1 => put(&mut raw, 0, self.g.endian, value as i32),
            Format::Ufs2 => put(&mut raw, 0, self.g.endian, value),
        }
        self.write(self.slot_at(block, slot), &raw);
    }

    pub(crate) fn dir_format(&self) -> DirFormat {
        DirFormat::of(&self.g)
    }

    /// Byte offset of the first block of directory `ino`.
    pub(crate) fn dir_at(&self, ino: u32) -> u64 {
        self.g.frag_to_byte(FragNo(u64::try_from(self.inode(ino).db[0]).unwrap()))
    }

    /// Byte offset of the record `name` of directory `ino`, which is in one of its direct blocks.
    pub(crate) fn record_at(&self, ino: u32, name: &[u8]) -> u64 {
        let d = self.inode(ino);
        for (l, &p) in d.db.iter().enumerate().filter(|(_, p)| **p > 0) {
            let len = self.g.blksize(d.size, Lbn(l as u64)) as usize;
            let at = self.g.frag_to_byte(FragNo(p as u64));
            for (i, chunk) in self.read(at, len).chunks(512).enumerate() {
                let mut records = ffs_ondisk::dir::records(self.dir_format(), chunk).flatten();
                if let Some(r) = records.find(|r| r.live() && r.name == name) {
                    return at + (i * 512 + r.off) as u64;
                }
            }
        }
        panic!("no {name:?} in {ino}");
    }

    /// Sets a field (`ino`, `reclen`, `type`, `namlen`) of the directory record at byte `at`.
    pub(crate) fn set_record(&self, at: u64, name: &str, value: i128) {
        let table = TABLES.iter().find(|t| t.name == "directory record").unwrap();
        let mut b = self.read(at, 8);
        field(table.fields, name).set(&mut b, 0, self.g.endian, value);
        self.write(at, &b);
    }
}

/// The field `name` of a table.
pub(crate) fn field(fields: &'static [Field], name: &str) -> &'static Field {
    fields.iter().find(|f| f.name == name).unwrap_or_else(|| panic!("no field {name}"))
}

/// The findings as text for messages.
pub(crate) fn list(findings: &[ffs_admin::fsck::Finding]) -> String {
    findings.iter().take(12).map(|f| format!("\n  {f}")).collect()
}

/// The mount options of a test.
pub(crate) fn options() -> MountOptions {
    let tunables = ffs_core::TunableValues { cache: 4 << 20, maxvnodes: 256, ..Default::default() };
    MountOptions { tunables, ..MountOptions::default() }
}

pub(crate) fn mount(dev: Arc<dyn BlockDevice>, opts: &MountOptions) -> Result<Ffs> {
    let clock = Arc::new(ManualClock::new(Timestamp::new(1_000_000_100, 0)));
    Ffs::mount(dev, opts, Env::seeded(clock, 7))
}

fn geometry(dev: &dyn BlockDevice) -> Geometry {
    let read = |at: u64, len: usize| -> std::result::Result<Vec<u8>, ffs_device::DeviceError> {
        let mut b = vec![0; len];
        dev.read_at(at, &mut b).map(|()| b)
    };
    sbsearch::find(read, Some(dev.len_bytes())).unwrap().geometry
}

/// A new volume with the options of all tests.
pub(crate) fn fresh(kind: Kind, bytes: u64, more: impl FnOnce(&mut NewfsOptions)) -> MemDevice {
    try_fresh(kind, bytes, more).unwrap()
}

/// [`fresh`], unless newfs fails.
pub(crate) fn try_fresh(
    kind: Kind,
    bytes: u64,
    more: impl FnOnce(&mut NewfsOptions),
) -> std::result::Result<MemDevice, ffs_admin::AdminError> {
    let (format, endian) = kind;
    let mut opts = NewfsOptions {
        endian,
        format: Some(format),
        bsize: Some(8192),
        fsize: Some(1024),
        max_group: Some(2048),
        ..NewfsOptions::default()
    };
    more(&mut opts);
    let dev = MemDevice::new(bytes);
    let clock = ManualClock::new(Timestamp::new(1_000_000_000, 0));
    newfs::newfs(&dev, &opts, &clock, &SplitMix64::new(1), &mut |_, _| {})?;
    Ok(dev)
}

fn make(kind: Kind) -> Base {
    let mem = fresh(kind, BYTES, |_| {});
    let g = geometry(&mem);
    assert!(g.ncg >= 4, "{kind:?}: {} groups", g.ncg);
    let dev: Arc<FaultInjector<MemDevice>> = Arc::new(FaultInjector::new(mem, Vec::new()));
    let fs = mount(Arc::clone(&dev) as Arc<dyn BlockDevice>, &options()).unwrap();
    populate(&fs);
    let w = walk(&fs);
    assert!(w.errors.is_empty(), "{kind:?}: {:?}", w.errors);
    fs.unmount().unwrap();
    let findings = quick_check(&(Arc::clone(&dev) as Arc<dyn BlockDevice>));
    assert!(findings.is_empty(), "{kind:?}: {}", list(&findings));
    Base { dev: dev.inner().snapshot(), g, tree: Arc::new(w.items) }
}

/// Makes a file of `len` bytes from byte `at` on.
pub(crate) fn file(fs: &Ffs, dir: &Vnode, name: &str, at: u64, len: usize) -> Vnode {
    let root = Cred::root();
    let f = fs.create(&root, dir, name.as_bytes(), NodeKind::Regular, 0o644).unwrap();
    let bytes = fill(len, name.len() as u64 * 7919 + len as u64, 0);
    assert_eq!(fs.write(&root, &f, at, &bytes, WriteMode::default()).unwrap(), len);
    f
}

fn populate(fs: &Ffs) {
    let (cred, root) = (Cred::root(), fs.root().unwrap());
    let mkdir = |dir: &Vnode, name: &str| fs.mkdir(&cred, dir, name.as_bytes(), 0o755).unwrap();
    let a = mkdir(&root, "a");
    let b = mkdir(&a, "b");
    let c = mkdir(&b, "c");
    let many = mkdir(&root, "many");
    let _ = mkdir(&root, "empty");
    let _ = file(fs, &root, "one", 0, 1);
    let _ = file(fs, &a, "frags", 0, 3000);
    let _ = file(fs, &a, "big", 0, 20 * 8192 + 77);
    let _ = file(fs, &a, "sparse", 9 << 20, 5000);
    let n = u64::from(fs.geometry().nindir);
    let _ = file(fs, &b, "triple", (12 + n + n * n) * 8192, 9000);
    let hard = file(fs, &b, "hard", 0, 9000);
    fs.link(&cred, &hard, &c, b"other name").unwrap();
    let _ = fs.symlink(&cred, &a, b"short", b"frags").unwrap();
    let _ = fs.symlink(&cred, &a, b"long", &[b'x'; 400]).unwrap();
    let _ = fs.create(&cred, &c, b"fifo", NodeKind::Fifo, 0o600).unwrap();
    let _ = fs.create(&cred, &c, b"null", NodeKind::Char(0x0203), 0o666).unwrap();
    for i in 0..60 {
        let _ = file(fs, &many, &format!("file number {i}"), 0, i * 37);
    }
    if fs.geometry().format == Format::Ufs2 {
        let set = |v: &Vnode, name: &[u8], len: usize| {
            let value = fill(len, 3, 0);
            fs.setxattr(&cred, v, XattrNamespace::User, name, &value, XattrSet::Any).unwrap();
        };
        set(&hard, b"colour", 10);
        set(&hard, b"much", 9000);
        set(&a, b"kind", 3);
    }
}
