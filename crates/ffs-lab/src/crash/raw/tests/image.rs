//! Small volumes with a bit of everything, and ways to spoil them.

use std::sync::Arc;

use ffs_admin::newfs::{NewfsOptions, newfs};
use ffs_core::{
    Cred, Env, Ffs, MountOptions, NodeKind, Vnode, WriteMode, XattrNamespace, XattrSet,
};
use ffs_device::{BlockDevice, ManualClock, MemDevice, SplitMix64, Timestamp};
use ffs_ondisk::{Endian, Format, Ino};

use crate::crash::raw::order::Order;
use crate::crash::raw::volume::Volume;
use crate::crash::raw::{Checker, Inode};

/// The geometries of the test plan: format, bytes, block, fragment, groups.
pub(super) const SHAPES: [(Format, u64, u32, u32, u32); 4] = [
    (Format::Ufs1, 1 << 20, 4096, 512, 2),
    (Format::Ufs2, 2 << 20, 4096, 512, 4),
    (Format::Ufs2, 8 << 20, 8192, 1024, 4),
    (Format::Ufs2, 32 << 20, 32768, 4096, 4),
];

/// An empty volume.
pub(super) fn empty(shape: (Format, u64, u32, u32, u32), endian: Endian) -> MemDevice {
    let (format, bytes, bsize, fsize, groups) = shape;
    let dev = MemDevice::new(bytes);
    let opts = NewfsOptions {
        endian,
        format: Some(format),
        bsize: Some(bsize),
        fsize: Some(fsize),
        max_group: Some((bytes / u64::from(fsize)) as u32 / groups),
        ..NewfsOptions::default()
    };
    let clock = ManualClock::new(Timestamp::new(1_000_000_000, 0));
    newfs(&dev, &opts, &clock, &SplitMix64::new(1), &mut |_, _| {}).unwrap();
    dev
}

/// A volume that holds: `/a`, `/b`, `/b/d` directories; `/foo`, `/bar` files of one fragment,
/// `/foo` also as `/b/link`; `/big` with an indirect block; `/short`, `/long` symbolic links;
/// `/a/empty`; an extended attribute on `/foo` (UFS2).
pub(super) fn furnished(shape: (Format, u64, u32, u32, u32), endian: Endian) -> Vec<u8> {
    let dev = empty(shape, endian);
    let dev: Arc<dyn BlockDevice> = Arc::new(dev);
    let clock = Arc::new(ManualClock::new(Timestamp::new(1_000_000_000, 0)));
    let fs = Ffs::mount(dev.clone(), &MountOptions::default(), Env::seeded(clock, 1)).unwrap();
    let cred = Cred::root();
    let root = fs.root().unwrap();
    let file = |dir: &Vnode, name: &str, len: usize| {
        let file = fs.create(&cred, dir, name.as_bytes(), NodeKind::Regular, 0o644).unwrap();
        let data: Vec<u8> = (0..len).map(|i| i as u8 | 1).collect();
        fs.write(&cred, &file, 0, &data, WriteMode::default()).unwrap();
        file
    };
    let a = fs.mkdir(&cred, &root, b"a", 0o755).unwrap();
    let b = fs.mkdir(&cred, &root, b"b", 0o755).unwrap();
    fs.mkdir(&cred, &b, b"d", 0o755).unwrap();
    let foo = file(&root, "foo", 300);
    file(&root, "bar", 400);
    file(&root, "big", 12 * shape.2 as usize + 100);
    file(&a, "empty", 0);
    fs.link(&cred, &foo, &b, b"link").unwrap();
    fs.symlink(&cred, &root, b"short", b"b/d").unwrap();
    fs.symlink(&cred, &root, b"long", &[b'x'; 200]).unwrap();
    if shape.0 == Format::Ufs2 {
        let user = XattrNamespace::User;
        fs.setxattr(&cred, &foo, user, b"colour", b"blue", XattrSet::Any).unwrap();
    }
    drop((a, b, foo, root));
    fs.unmount().unwrap();
    bytes(&*dev)
}

/// All bytes of a device.
pub(super) fn bytes(dev: &dyn BlockDevice) -> Vec<u8> {
    let mut bytes = vec![0; dev.len_bytes() as usize];
    dev.read_at(0, &mut bytes).unwrap();
    bytes
}

/// An image to be spoiled.
pub(super) struct Image {
    pub(super) bytes: Vec<u8>,
    pub(super) v: Volume,
    checker: Checker,
}

impl Image {
    pub(super) fn new(bytes: Vec<u8>) -> Image {
        let mut checker = Checker::new();
        let found = checker.check(&bytes);
        assert_eq!(found.violations, [], "the image is good to begin with");
        let v = found.tree.volume;
        Image { bytes, v, checker }
    }

    pub(super) fn order(&self) -> Order {
        self.v.order
    }

    /// The inode a path led to when the image was good.
    pub(super) fn inode(&self, path: &str) -> Inode {
        let tree = &self.checker.found().tree;
        *tree.inode(tree.resolve(path.as_bytes()).expect(path)).unwrap()
    }

    /// Byte of its dinode.
    pub(super) fn dinode(&self, path: &str) -> usize {
        self.inode(path).text as usize - if self.v.ufs2 { 112 } else { 40 }
    }

    /// First fragment of block `lbn`.
    pub(super) fn block(&self, path: &str, lbn: u64) -> u64 {
        let inode = self.inode(path);
        let tree = &self.checker.found().tree;
        tree.runs_of(inode.runs).iter().find(|run| run.lbn == lbn).unwrap().at
    }

    /// Byte of the record of `name` in `dir`.
    pub(super) fn record(&self, dir: &str, name: &[u8]) -> usize {
        let start = (self.block(dir, 0) * self.v.fsize) as usize;
        let chunk = &self.bytes[start..start + 512];
        let at = chunk
            .windows(name.len() + 1)
            .position(|w| &w[..name.len()] == name && w[name.len()] == 0);
        start + at.unwrap() - 8
    }

    pub(super) fn put16(&mut self, at: usize, value: u16) {
        let bytes = if self.order().big { value.to_be_bytes() } else { value.to_le_bytes() };
        self.bytes[at..at + 2].copy_from_slice(&bytes);
    }

    pub(super) fn put32(&mut self, at: usize, value: u32) {
        let bytes = if self.order().big { value.to_be_bytes() } else { value.to_le_bytes() };
        self.bytes[at..at + 4].copy_from_slice(&bytes);
    }

    pub(super) fn put64(&mut self, at: usize, value: u64) {
        let bytes = if self.order().big { value.to_be_bytes() } else { value.to_le_bytes() };
        self.bytes[at..at + 8].copy_from_slice(&bytes);
    }

    /// Stores address word `index` of an inode: 0 to 11 direct, 12 to 14 indirect.
    pub(super) fn put_pointer(&mut self, path: &str, index: usize, value: u64) {
        let at = self.inode(path).text as usize;
        if self.v.ufs2 {
            self.put64(at + 8 * index, value)
        } else {
            self.put32(at + 4 * index, value as u32)
        }
    }

    pub(super) fn put_size(&mut self, path: &str, value: u64) {
        let at = self.dinode(path) + if self.v.ufs2 { 16 } else { 8 };
        self.put64(at, value);
    }

    pub(super) fn put_nlink(&mut self, path: &str, value: u16) {
        let at = self.dinode(path) + 2;
        self.put16(at, value);
    }

    /// Byte and bit of an inode in its group's map.
    pub(super) fn inode_bit(&self, ino: Ino) -> (usize, u8) {
        let header = self.v.header(ino.0 / self.v.ipg) as usize;
        let map = self.order().u32(&self.bytes, header + 92) as usize;
        let index = ino.0 % self.v.ipg;
        (header + map + index as usize / 8, 1 << (index % 8))
    }

    /// Byte and bit of a fragment in its group's map.
    pub(super) fn fragment_bit(&self, frag: u64) -> (usize, u8) {
        let header = self.v.header((frag / self.v.fpg) as u32) as usize;
        let map = self.order().u32(&self.bytes, header + 96) as usize;
        let index = frag % self.v.fpg;
        (header + map + index as usize / 8, 1 << (index % 8))
    }

    /// The rules broken now.
    pub(super) fn broken(&self) -> Vec<String> {
        let mut checker = Checker::new();
        let found = checker.check(&self.bytes);
        found.violations.iter().map(|violation| violation.rule.clone()).collect()
    }
}
