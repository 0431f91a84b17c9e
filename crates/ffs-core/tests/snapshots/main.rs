//! Snapshots: their content never changes, `fsck` finds nothing in them, and the volume stays
//! sound.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

#[path = "../common/mod.rs"]
mod common;
mod crash;
mod damage;
mod device;
mod faults;
mod fsck;
mod random;
mod twenty;
mod view;

use common::{Shape, World, mount_on, soft_updates, soft_volume, volume};
use ffs_core::{Cred, Ffs, MountOptions, NodeKind, OrderingPolicy, SetAttr, WriteMode};
use ffs_device::MemDevice;
use ffs_ondisk::{Endian, Format};
use view::{findings, image_of, tree_of as shown, view_of};

const SHAPES: [Shape; 4] = [
    (Endian::Little, Format::Ufs2, 4096, 512),
    (Endian::Big, Format::Ufs1, 8192, 1024),
    (Endian::Little, Format::Ufs2, 16384, 2048),
    (Endian::Little, Format::Ufs2, 4096, 4096),
];

fn with(ordering: OrderingPolicy) -> MountOptions {
    MountOptions { ordering, ..MountOptions::default() }
}

fn write_file(fs: &Ffs, name: &str, bytes: &[u8]) {
    let (c, root) = (Cred::root(), fs.root().unwrap());
    let file = match fs.lookup(&c, &root, name.as_bytes()) {
        Ok(file) => file,
        Err(_) => fs.create(&c, &root, name.as_bytes(), NodeKind::Regular, 0o644).unwrap(),
    };
    assert_eq!(fs.write(&c, &file, 0, bytes, WriteMode::default()).unwrap(), bytes.len());
}

fn snapshot(fs: &Ffs, name: &str) -> ffs_core::Vnode {
    fs.snapshot(&Cred::root(), &fs.root().unwrap(), name.as_bytes()).unwrap().0
}

fn remove(fs: &Ffs, name: &str) {
    fs.unlink(&Cred::root(), &fs.root().unwrap(), name.as_bytes()).unwrap();
}

/// Unmounts, and returns the content of the device.
fn unmounted(w: World) -> MemDevice {
    let World { fs, root, dev, .. } = w;
    drop(root);
    fs.unmount().unwrap();
    dev.inner().snapshot()
}

fn check_volume(w: World) {
    w.fs.sync().unwrap();
    let World { fs, root, dev, .. } = w;
    drop(root);
    fs.unmount().unwrap();
    let dev: std::sync::Arc<dyn ffs_device::BlockDevice> = dev;
    assert_eq!(findings(&dev), Vec::<String>::new());
}

#[test]
fn a_snapshot_keeps_content_that_is_overwritten_truncated_and_removed() {
    for shape in SHAPES {
        for ordering in [OrderingPolicy::SoftUpdates, OrderingPolicy::Sync, OrderingPolicy::None] {
            let dev = match ordering {
                OrderingPolicy::SoftUpdates => soft_volume(shape, 8 << 20),
                _ => volume(shape, 8 << 20),
            };
            let w = mount_on(dev, &with(ordering));
            for (n, size) in [1, 700, 5000, 60_000, 300_000].into_iter().enumerate() {
                write_file(&w.fs, &format!("f{n}"), &vec![n as u8 + 1; size]);
            }
            let then = shown(&w.fs);
            let snap = snapshot(&w.fs, "snap");
            for n in 0..5 {
                write_file(&w.fs, &format!("f{n}"), &[0xee; 4000]);
            }
            w.fs.sync().unwrap();
            assert_eq!(view_of(&w.fs, &snap), then, "{shape:?} {ordering:?}: overwritten");
            for n in 0..5 {
                let file = w.fs.lookup(&Cred::root(), &w.root, format!("f{n}").as_bytes()).unwrap();
                let size = SetAttr { size: Some(100), ..SetAttr::default() };
                w.fs.setattr(&Cred::root(), &file, &size).unwrap();
            }
            w.fs.sync().unwrap();
            assert_eq!(view_of(&w.fs, &snap), then, "{shape:?} {ordering:?}: truncated");
            (0..5).for_each(|n| remove(&w.fs, &format!("f{n}")));
            w.fs.sync().unwrap();
            for n in 0..40 {
                write_file(&w.fs, &format!("g{n}"), &vec![0xaa; 30_000]);
            }
            w.fs.sync().unwrap();
            assert_eq!(view_of(&w.fs, &snap), then, "{shape:?} {ordering:?}: reused");
            assert_eq!(findings(&image_of(&w.fs, &snap)), Vec::<String>::new());
            drop(snap);
            check_volume(w);
        }
    }
}

#[test]
fn a_snapshot_survives_unmounting_and_is_kept_up_by_the_next_mount() {
    let w = mount_on(soft_volume(SHAPES[0], 8 << 20), &soft_updates());
    write_file(&w.fs, "a", &[1; 200_000]);
    let then = shown(&w.fs);
    drop(snapshot(&w.fs, "snap"));
    let dev = unmounted(w);
    let w = mount_on(dev, &soft_updates());
    assert_eq!(w.fs.read_only_reason(), None);
    write_file(&w.fs, "a", &[2; 200_000]);
    w.fs.sync().unwrap();
    let snap = w.fs.lookup(&Cred::root(), &w.root, b"snap").unwrap();
    assert_eq!(view_of(&w.fs, &snap), then);
    drop(snap);
    remove(&w.fs, "snap");
    let free_with = w.fs.statfs().frags_free;
    w.fs.sync().unwrap();
    assert!(w.fs.statfs().frags_free >= free_with);
    assert!(w.fs.snapshots().is_empty());
    check_volume(w);
}

#[test]
fn a_read_only_mount_shows_the_content_of_a_snapshot() {
    // With one or two fragments in a block, a mark may be as large as the number of fragments.
    let few = [(Endian::Little, Format::Ufs1, 8192, 4096), (Endian::Big, Format::Ufs2, 8192, 4096)];
    for shape in SHAPES.into_iter().chain(few) {
        let w = mount_on(soft_volume(shape, 8 << 20), &soft_updates());
        write_file(&w.fs, "a", &[1; 200_000]);
        drop(snapshot(&w.fs, "snap0"));
        let then = shown(&w.fs);
        drop(snapshot(&w.fs, "snap"));
        write_file(&w.fs, "a", &[2; 100_000]);
        let read_only = MountOptions { read_only: true, ..MountOptions::default() };
        let w = mount_on(unmounted(w), &read_only);
        let snap = w.fs.lookup(&Cred::root(), &w.root, b"snap").unwrap();
        assert_eq!(view_of(&w.fs, &snap), then, "{shape:?}");
        assert_eq!(findings(&image_of(&w.fs, &snap)), Vec::<String>::new(), "{shape:?}");
    }
}
