//! Volumes that operations alone do not create: after a crash, with a snapshot, with a journal.

use crate::base::{NOW, env, mount};
use crate::edit::edit;
use ffs_core::{
    Cred, Fallocate, Ffs, FileFlags, MountOptions, NodeKind, OrderingPolicy, Vnode, WriteMode,
};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::journal::{self, Blk, Move, Ref, SegHeader, Trunc};
use ffs_ondisk::superblock::FsFlags;
use ffs_ondisk::{FragNo, Geometry, Ino, Superblock};
use std::sync::Arc;

/// Makes operations on the volume and leaves it in the state of a loss of power.
pub(crate) fn crash(dev: &Arc<MemDevice>, ordering: OrderingPolicy) {
    // The operations use a copy, which may be synced when it is dropped; the volume gets the writes
    // before that.
    let copy = Arc::new(MemDevice::snapshot(dev));
    let fs = mount(&copy, ordering);
    let root = Cred::root();
    let top = fs.root().unwrap();
    let dir = fs.lookup(&root, &top, b"dir").unwrap();
    let removed = fs.create(&root, &top, b"removed in use", NodeKind::Regular, 0o600).unwrap();
    fs.write(&root, &removed, 0, &[5; 9000], WriteMode::default()).unwrap();
    fs.sync().unwrap();
    fs.unlink(&root, &top, b"removed in use").unwrap();
    for i in 0..9 {
        let name = format!("half done {i}");
        let file = fs.create(&root, &dir, name.as_bytes(), NodeKind::Regular, 0o600).unwrap();
        fs.write(
            &root,
            &file,
            0,
            &[6; 7000],
            WriteMode { sync: i % 2 == 0, ..WriteMode::default() },
        )
        .unwrap();
        if i % 3 == 0 {
            fs.fsync(&file).unwrap();
        }
        fs.unlink(&root, &dir, format!("file with a longer name {i}").as_bytes()).unwrap();
    }
    fs.fsync(&dir).unwrap();
    copy_over(&copy, dev);
}

fn copy_over(from: &MemDevice, to: &MemDevice) {
    to.write_at(0, &from.to_vec()).unwrap();
}

/// Makes a snapshot of the volume, then changes the volume, so that the snapshot has copies of some
/// blocks and shares the others.
pub(crate) fn snapshot(dev: &Arc<MemDevice>) {
    let fs = mount(dev, OrderingPolicy::None);
    let root = Cred::root();
    let top = fs.root().unwrap();
    let list = fs.lookup(&root, &top, b".snap").unwrap();
    fs.snapshot(&root, &list, b"s1").unwrap();
    let dir = fs.lookup(&root, &top, b"dir").unwrap();
    let file = fs.lookup(&root, &dir, b"file with a longer name 1").unwrap();
    fs.write(&root, &file, 0, &[1; 3000], WriteMode::default()).unwrap();
    fs.unlink(&root, &dir, b"file with a longer name 2").unwrap();
    drop((file, dir, list, top));
    fs.unmount().unwrap();
}

/// Adds a journal with one segment, and two removed files on its list.
pub(crate) fn journal(dev: &Arc<MemDevice>) {
    let copy = Arc::new(MemDevice::snapshot(dev));
    let opts = MountOptions { ordering: OrderingPolicy::Sync, ..MountOptions::default() };
    let fs = Ffs::mount(copy.clone(), &opts, env()).unwrap();
    let root = Cred::root();
    let top = fs.root().unwrap();
    let file = fs.create(&root, &top, journal::NAME, NodeKind::Regular, 0o400).unwrap();
    fs.fallocate(&root, &file, 0, journal::MIN_BYTES, Fallocate::Allocate).unwrap();
    let removed: Vec<Vnode> = [&b"removed1"[..], b"removed2"]
        .map(|name| {
            let f = fs.create(&root, &top, name, NodeKind::Regular, 0o600).unwrap();
            fs.write(&root, &f, 0, &[8; 9000], WriteMode::default()).unwrap();
            fs.sync().unwrap();
            fs.unlink(&root, &top, name).unwrap();
            f
        })
        .into();
    fs.sync().unwrap();
    copy_over(&copy, dev);
    let g = *fs.geometry();
    let (a, b, ino) = (removed[0].ino(), removed[1].ino(), file.ino());
    let start = edit(dev, &g, ino, |d| {
        d.flags = FileFlags::SF_IMMUTABLE | FileFlags::SF_NOUNLINK | FileFlags::UF_NODUMP;
        d.modrev = NOW as u64;
    });
    edit(dev, &g, a, |d| d.freelink = b.0);
    edit_superblock(dev, &g, |sb| {
        sb.f.sujfree = a.0 as i32;
        sb.f.mtime = NOW;
        sb.set_flags(sb.flags() | FsFlags::SUJ);
    });
    dev.write_at(g.frag_to_byte(FragNo(start.db[0] as u64)), &segments(&g, a)).unwrap();
}

/// Two segments, the second of two sectors.
fn segments(g: &Geometry, ino: Ino) -> Vec<u8> {
    let mut out = vec![0; 3 * 512];
    let e = g.endian;
    for (n, seq) in [(0, 7), (1, 8), (2, 8)] {
        let two = u16::from(seq == 8) + 1;
        let head = SegHeader { seq, oldest: 7, cnt: 4 * two, blocks: two, crc: 0, time: NOW };
        let sector = &mut out[512 * n..512 * (n + 1)];
        head.encode(&mut sector[..32], e);
        let r =
            Ref { op: 1, ino: ino.0, parent: 2, nlink: 1, mode: 0o100_600, diroff: 24, unused: 0 };
        r.encode(&mut sector[32..64], e);
        let first = g.cgdmin(ffs_ondisk::CgNo(1)).0 as i64;
        let b = Blk { op: 3, ino: ino.0, blkno: first, lbn: 0, frags: 1, oldfrags: 0, unused: 0 };
        b.encode(&mut sector[64..96], e);
        let t = Trunc { op: 6, ino: ino.0, size: 0, extsize: 0, pad: [0; 3] };
        t.encode(&mut sector[96..128], e);
        let m = Move { op: 5, ino: ino.0, parent: 2, unused: 0, oldoff: 24, newoff: 36 };
        m.encode(&mut sector[128..160], e);
    }
    out
}

fn edit_superblock(dev: &MemDevice, g: &Geometry, change: impl FnOnce(&mut Superblock)) {
    let at = if g.format == ffs_ondisk::Format::Ufs1 { 8192 } else { 65536 };
    let mut raw = vec![0; 8192];
    dev.read_at(at, &mut raw).unwrap();
    let mut sb = Superblock::decode(&raw, at).unwrap();
    change(&mut sb);
    dev.write_at(at, &sb.encode()).unwrap();
}
