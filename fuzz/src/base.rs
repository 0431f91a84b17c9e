//! The prepared images: every format, byte order and a few geometries, with a small tree in each.

use ffs_core::{Cred, Env, Ffs, MountOptions, NodeKind, OrderingPolicy, WriteMode, XattrNamespace, XattrSet};
use ffs_device::MemDevice;
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_ondisk::geometry::Format;
use ffs_ondisk::{Endian, Geometry};
use std::sync::{Arc, OnceLock};

const KINDS: [(Format, Endian, u32, u32, u64); 6] = [
    (Format::Ufs2, Endian::Little, 4096, 512, 1 << 20),
    (Format::Ufs2, Endian::Big, 8192, 1024, 2 << 20),
    (Format::Ufs1, Endian::Little, 4096, 512, 1 << 20),
    (Format::Ufs1, Endian::Big, 8192, 1024, 2 << 20),
    (Format::Ufs2, Endian::Little, 8192, 8192, 2 << 20),
    (Format::Ufs2, Endian::Little, 16384, 2048, 4 << 20),
];

static IMAGES: OnceLock<Vec<(Vec<u8>, Geometry)>> = OnceLock::new();

/// A copy of image number `n` (modulo their count) and its geometry.
pub fn image(n: u8) -> (Vec<u8>, Geometry) {
    let all = IMAGES.get_or_init(|| KINDS.iter().map(|k| make(*k)).collect());
    all[usize::from(n) % all.len()].clone()
}

/// Time and numbers that are the same in every run.
pub fn env() -> Env {
    Env::seeded(Arc::new(ManualClock::new(Timestamp::new(1_000_000_000, 0))), 1)
}

fn make((format, endian, bsize, fsize, bytes): (Format, Endian, u32, u32, u64)) -> (Vec<u8>, Geometry) {
    let dev = Arc::new(ffs_admin::newfs::quick(endian, format, bsize, fsize, bytes).unwrap());
    let opts = MountOptions { ordering: OrderingPolicy::None, ..MountOptions::default() };
    let fs = Ffs::mount(dev.clone(), &opts, env()).unwrap();
    populate(&fs, format, bsize);
    let geo = *fs.geometry();
    fs.unmount().unwrap();
    drop(fs);
    (MemDevice::to_vec(&dev), geo)
}

fn populate(fs: &Ffs, format: Format, bsize: u32) {
    let root = Cred::root();
    let top = fs.root().unwrap();
    let dir = fs.mkdir(&root, &top, b"dir", 0o755).unwrap();
    let sub = fs.mkdir(&root, &dir, b"sub", 0o755).unwrap();
    for i in 0..40 {
        let name = format!("file with a longer name {i}");
        fs.create(&root, &dir, name.as_bytes(), NodeKind::Regular, 0o644).unwrap();
    }
    let big = fs.create(&root, &sub, b"big", NodeKind::Regular, 0o600).unwrap();
    let data = vec![7u8; bsize as usize * 14];
    fs.write(&root, &big, 0, &data, WriteMode::default()).unwrap();
    let sparse = fs.create(&root, &sub, b"sparse", NodeKind::Regular, 0o600).unwrap();
    let far = u64::from(bsize) * (u64::from(bsize) / 4 + 20);
    fs.write(&root, &sparse, far, b"end", WriteMode::default()).unwrap();
    fs.link(&root, &sparse, &top, b"link").unwrap();
    fs.symlink(&root, &top, b"short", b"dir/sub").unwrap();
    fs.symlink(&root, &top, b"long", &[b'x'; 300]).unwrap();
    fs.create(&root, &top, b"fifo", NodeKind::Fifo, 0o600).unwrap();
    if format == Format::Ufs2 {
        fs.setxattr(&root, &big, XattrNamespace::User, b"name", &[1; 700], XattrSet::Any).unwrap();
    }
}
