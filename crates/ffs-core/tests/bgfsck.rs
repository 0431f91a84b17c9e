//! The calls by which a check in the background makes its corrections: each looks at the volume as
//! it is, and changes nothing that does not fit.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use crate::common::{Shape, World, check, mount_on, soft_updates, soft_volume};
use crate::edit::edit;
use ffs_core::{
    Adjusted, BackgroundCheck, CheckNeed, Cred, Error, Ffs, Ino, MountOptions, OrderingPolicy,
    SecondName, Vnode, WriteMode,
};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::superblock::FsFlags;
use ffs_ondisk::{CgNo, Endian, Format, FragNo, Geometry, cg};

const SHAPES: [Shape; 3] = [
    (Endian::Little, Format::Ufs2, 4096, 512),
    (Endian::Big, Format::Ufs1, 8192, 1024),
    (Endian::Little, Format::Ufs2, 16384, 2048),
];

fn refused(result: ffs_core::Result<Adjusted>) -> bool {
    matches!(result.unwrap(), Adjusted::Refused(_))
}

fn write(fs: &Ffs, file: &Vnode, at: u64, len: usize) {
    fs.write(&Cred::root(), file, at, &vec![7; len], WriteMode::default()).unwrap();
}

/// A volume that was in use when its computer stopped, changed by `change` and mounted again.
fn crashed(shape: Shape, change: impl FnOnce(&World, &MemDevice)) -> World {
    let w = mount_on(soft_volume(shape, 8 << 20), &soft_updates());
    let d = w.dir(&w.root, "d");
    write(&w.fs, &w.file(&w.root, "a"), 0, 30_000);
    write(&w.fs, &w.file(&d, "b"), 0, 300);
    w.dir(&d, "e");
    w.fs.sync().unwrap();
    let left = w.dev.inner().snapshot();
    change(&w, &left);
    mount_on(left, &soft_updates())
}

fn begin(w: &World) -> BackgroundCheck {
    let mut check = w.fs.begin_check().unwrap();
    check.release_image();
    check
}

fn id(w: &World, file: &Vnode) -> (Ino, u32) {
    let attr = w.fs.getattr(file);
    (attr.ino, attr.generation)
}

fn flags(dev: &MemDevice) -> (FsFlags, bool) {
    let volume = ffs_admin::Volume::open(dev).unwrap();
    (volume.sb.flags(), volume.sb.is_clean())
}

#[test]
fn a_check_that_completes_makes_the_volume_clean_and_nothing_else_does() {
    let w = crashed(SHAPES[0], |_, _| ());
    assert_eq!(w.fs.check_need(), CheckNeed::Wanted);
    assert!(flags(w.dev.inner()).0.contains(FsFlags::UNCLEAN));
    drop(begin(&w));
    w.fs.unmount().unwrap();
    assert!(!flags(w.dev.inner()).1, "unmounted without a complete check");

    let w = mount_on(w.dev.inner().snapshot(), &soft_updates());
    let check_now = begin(&w);
    assert!(matches!(w.fs.begin_check(), Err(Error::Busy(_))));
    assert!(check_now.complete().unwrap());
    assert_eq!((w.fs.check_need(), w.fs.unchecked()), (CheckNeed::Clean, None));
    let (now, clean) = flags(w.dev.inner());
    assert!(!now.contains(FsFlags::UNCLEAN) && now.contains(FsFlags::DOSOFTDEP) && !clean);
    // A crash after it: the volume is unclean again.
    let again = mount_on(w.dev.inner().snapshot(), &soft_updates());
    assert_eq!(again.fs.check_need(), CheckNeed::Wanted);
    w.fs.remount(true).unwrap();
    w.fs.remount(false).unwrap();
    w.end();
}

#[test]
fn damage_that_the_check_finds_needs_the_check_of_the_unmounted_volume() {
    let w = crashed(SHAPES[1], |_, _| ());
    begin(&w).require_fsck().unwrap();
    assert!(matches!(w.fs.check_need(), CheckNeed::Foreground(_)));
    assert!(matches!(w.fs.begin_check(), Err(Error::NotSupported(_))));
    w.fs.unmount().unwrap();
    let (now, clean) = flags(w.dev.inner());
    assert!(now.contains(FsFlags::NEEDSFSCK) && !clean);
    let w = mount_on(w.dev.inner().snapshot(), &soft_updates());
    assert!(w.fs.read_only_reason().is_some());
}

#[test]
fn only_a_mount_with_soft_updates_that_is_writable_can_be_checked() {
    let opts = MountOptions { ordering: OrderingPolicy::Sync, ..MountOptions::default() };
    let w = mount_on(soft_volume(SHAPES[0], 8 << 20), &opts);
    assert!(matches!(w.fs.check_need(), CheckNeed::Impossible(_)));
    assert!(matches!(w.fs.begin_check(), Err(Error::NotSupported(_))));
    let w = mount_on(soft_volume(SHAPES[0], 8 << 20), &soft_updates());
    assert_eq!(w.fs.check_need(), CheckNeed::Clean);
    w.fs.remount(true).unwrap();
    assert!(matches!(w.fs.begin_check(), Err(Error::NotSupported(_))));
}

#[test]
fn what_is_in_the_way_of_the_snapshot_is_named_and_stays() {
    let w = crashed(SHAPES[0], |_, _| ());
    let named = |w: &World, path: &str| match w.fs.begin_check() {
        Err(Error::InTheWay { path: found, .. }) => assert_eq!(found, path),
        other => panic!("{:?}", other.map(drop)),
    };
    // What an interrupted check leaves: its snapshot, or the empty file for it.
    let snap = w.get(&w.root, ".snap").unwrap();
    drop(w.fs.snapshot(&Cred::root(), &snap, b"fsck_snapshot").unwrap());
    drop(begin(&w));
    w.file(&snap, "fsck_snapshot");
    drop(begin(&w));
    assert!(w.get(&snap, "fsck_snapshot").is_err());

    write(&w.fs, &w.file(&snap, "fsck_snapshot"), 0, 10);
    named(&w, "/.snap/fsck_snapshot");
    assert_eq!(w.fs.getattr(&w.get(&snap, "fsck_snapshot").unwrap()).size, 10);
    w.fs.unlink(&Cred::root(), &snap, b"fsck_snapshot").unwrap();
    w.dir(&snap, "fsck_snapshot");
    named(&w, "/.snap/fsck_snapshot");
    w.fs.rmdir(&Cred::root(), &snap, b"fsck_snapshot").unwrap();
    drop(snap);
    w.fs.rmdir(&Cred::root(), &w.root, b".snap").unwrap();
    write(&w.fs, &w.file(&w.root, ".snap"), 0, 10);
    named(&w, "/.snap");
    assert_eq!(w.fs.getattr(&w.get(&w.root, ".snap").unwrap()).size, 10);
    w.fs.unlink(&Cred::root(), &w.root, b".snap").unwrap();
    assert!(begin(&w).complete().unwrap());
}

#[test]
fn a_crash_leaves_no_snapshot_of_the_check() {
    let w = crashed(SHAPES[2], |_, _| ());
    let running = w.fs.begin_check().unwrap();
    assert!(running.image().is_some());
    w.fs.sync().unwrap();
    assert!(w.fs.snapshots().is_empty());
    let w = mount_on(w.dev.inner().snapshot(), &soft_updates());
    assert!(w.fs.snapshots().is_empty() && w.fs.read_only_reason().is_none());
    let snap = w.get(&w.root, ".snap").unwrap();
    assert!(w.names(&snap).is_empty());
}

#[test]
fn link_counts_fall_to_the_number_of_names_and_no_further() {
    for shape in SHAPES {
        let g = |w: &World| *w.fs.geometry();
        let w = crashed(shape, |w, dev| {
            let more = |file: &Vnode, n| edit(dev, &g(w), file.ino(), |d| d.nlink += n);
            more(&w.get(&w.root, "a").unwrap(), 2);
            more(&w.get(&w.root, "d").unwrap(), 1);
        });
        let (a, d) = (w.get(&w.root, "a").unwrap(), w.get(&w.root, "d").unwrap());
        let ((ino, generation), dir) = (id(&w, &a), id(&w, &d));
        let check_now = begin(&w);
        assert_eq!(check_now.adjrefcnt(ino, generation ^ 1, 1).unwrap(), Adjusted::Unneeded);
        assert!(refused(check_now.adjrefcnt(ino, generation, 4)), "{shape:?}");
        assert_eq!(check_now.adjrefcnt(ino, generation, 2).unwrap(), Adjusted::Done);
        assert_eq!(w.nlink(&a), 1);
        // `d` has the directory `e`: at least 3 links.
        assert!(refused(check_now.adjrefcnt(dir.0, dir.1, 2)), "{shape:?}");
        assert_eq!(check_now.adjrefcnt(dir.0, dir.1, 1).unwrap(), Adjusted::Done);
        assert!(refused(check_now.adjrefcnt(dir.0, dir.1, 1)), "{shape:?}");
        // A directory in use is not freed; the root never is.
        assert!(refused(check_now.adjrefcnt(dir.0, dir.1, 3)), "{shape:?}");
        let root = id(&w, &w.root);
        assert!(refused(check_now.adjrefcnt(root.0, root.1, w.nlink(&w.root) as u16)));
        assert!(check_now.complete().unwrap());
        drop((a, d));
        w.end();
    }
}

#[test]
fn a_file_without_names_is_freed_with_its_blocks() {
    for shape in SHAPES {
        let mut lost = None;
        let w = crashed(shape, |w, dev| {
            // A file with one link and no name: the name is cleared on the device.
            let a = w.get(&w.root, "a").unwrap();
            lost = Some(id(w, &a));
            let g = *w.fs.geometry();
            let at = g.frag_to_byte(first_block(dev, &g, Ino::ROOT));
            let mut dirblk = vec![0; 512];
            dev.read_at(at, &mut dirblk).unwrap();
            let fmt = ffs_ondisk::dir::DirFormat::of(&g);
            let named = |r: &ffs_ondisk::dir::Record<'_>| r.name == b"a";
            let found = ffs_ondisk::dir::records(fmt, &dirblk).flatten().find(named).unwrap().off;
            ffs_ondisk::dir::set_ino(fmt, &mut dirblk, found, 0);
            dev.write_at(at, &dirblk).unwrap();
        });
        let (ino, generation) = lost.unwrap();
        let check_now = begin(&w);
        w.fs.sync().unwrap();
        let before = w.fs.statfs();
        // The inode is in use, so it is no lost one.
        assert!(refused(check_now.freefiles(ino, 1)), "{shape:?}");
        assert_eq!(check_now.adjrefcnt(ino, generation, 1).unwrap(), Adjusted::Done);
        assert_eq!(check_now.adjrefcnt(ino, generation, 1).unwrap(), Adjusted::Unneeded);
        w.fs.sync().unwrap();
        let after = w.fs.statfs();
        assert_eq!(after.inodes_free, before.inodes_free + 1);
        let frags = 30_000u64.div_ceil(after.fsize.into());
        assert!(after.frags_free >= before.frags_free + frags, "{shape:?}");
        assert!(check_now.complete().unwrap());
        w.end();
    }
}

/// The first block of a file on the device.
fn first_block(dev: &MemDevice, g: &Geometry, ino: Ino) -> FragNo {
    let mut first = 0;
    edit(dev, g, ino, |d| first = d.db[0]);
    FragNo(first.unsigned_abs())
}

/// Marks an inode and fragments of group 0 used on the device. Returns them.
fn leak(dev: &MemDevice, g: &Geometry) -> (Ino, FragNo, u32) {
    let at = g.frag_to_byte(g.cgtod(CgNo(0)));
    let mut block = vec![0; g.cgsize as usize];
    dev.read_at(at, &mut block).unwrap();
    let view = ffs_ondisk::Cg::new(g, &block);
    let ino = (3..g.ipg).find(|i| !view.inode_used(*i)).unwrap();
    let blk = (0..g.blocks_per_group()).rev().find(|b| view.block_free(*b)).unwrap();
    let frags = g.frag - 1;
    let mut change = ffs_ondisk::CgMut::new(g, &mut block);
    change.set_inode_used(ino, true);
    change.set_run_free(blk * g.frag, frags, false);
    cg::rehash(g, &mut block);
    dev.write_at(at, &block).unwrap();
    (Ino(ino), g.cgbase(CgNo(0)).plus((blk * g.frag).into()), frags)
}

#[test]
fn lost_space_is_freed_once_and_only_if_it_is_marked_used() {
    for shape in SHAPES {
        let mut lost = None;
        let w = crashed(shape, |w, dev| lost = Some(leak(dev, w.fs.geometry())));
        let (ino, at, frags) = lost.unwrap();
        let g = *w.fs.geometry();
        let check_now = begin(&w);
        w.fs.sync().unwrap();
        let before = w.fs.statfs();
        assert!(refused(check_now.freefiles(Ino(g.inodes() - 1), 2)), "out of range");
        assert!(refused(check_now.freefiles(Ino::ROOT, 1)), "the root");
        assert_eq!(check_now.freefiles(ino, 1).unwrap(), Adjusted::Done);
        assert!(refused(check_now.freefiles(ino, 1)), "freed already");
        assert!(refused(check_now.freefiles(Ino(ino.0 + 1), 1)), "free");
        assert!(refused(check_now.freeblks(g.cgtod(CgNo(0)), g.frag.into())), "metadata");
        assert_eq!(check_now.freeblks(at, frags.into()).unwrap(), Adjusted::Done);
        assert!(refused(check_now.freeblks(at, frags.into())), "freed already");
        assert!(refused(check_now.freeblks(at.plus(frags.into()), 1)), "free");
        assert!(refused(check_now.freeblks(FragNo(g.size), 1)), "behind the volume");
        assert!(
            refused(check_now.adjndir(CgNo(0), -100)) && refused(check_now.adjndir(CgNo(99), 1))
        );
        let after = w.fs.statfs();
        assert_eq!(after.inodes_free, before.inodes_free + 1);
        assert_eq!(after.frags_free, before.frags_free + u64::from(frags));
        assert_eq!(w.fs.counters().bgfsck_corrections, 2);
        assert!(check_now.complete().unwrap());
        w.end();
    }
}

#[test]
fn a_block_count_is_counted_when_it_is_corrected() {
    for shape in SHAPES {
        let w = crashed(shape, |w, dev| {
            let a = w.get(&w.root, "a").unwrap();
            edit(dev, w.fs.geometry(), a.ino(), |d| d.blocks += 64);
        });
        let a = w.get(&w.root, "a").unwrap();
        // It has changed since the snapshot.
        write(&w.fs, &a, 0, 90_000);
        let check_now = begin(&w);
        let (ino, generation) = id(&w, &a);
        assert_eq!(check_now.adjblkcnt(ino, generation ^ 1).unwrap(), Adjusted::Unneeded);
        assert_eq!(check_now.adjblkcnt(ino, generation).unwrap(), Adjusted::Done);
        assert!(check_now.complete().unwrap());
        drop(a);
        w.end();
    }
}

#[test]
fn a_file_is_shortened_only_before_a_hole() {
    for shape in SHAPES {
        let bsize = u64::from(shape.2);
        let end = 13 * bsize;
        let w = crashed(shape, |w, dev| {
            let a = w.get(&w.root, "a").unwrap();
            write(&w.fs, &a, 0, end as usize);
            w.fs.sync().unwrap();
            let now = w.dev.inner().to_vec();
            dev.write_at(0, &now).unwrap();
            edit(dev, w.fs.geometry(), a.ino(), |d| d.size = 20 * bsize);
        });
        let a = w.get(&w.root, "a").unwrap();
        let (ino, generation) = id(&w, &a);
        let check_now = begin(&w);
        assert_eq!(check_now.setsize(ino, generation ^ 1, 0).unwrap(), Adjusted::Unneeded);
        assert_eq!(w.fs.getattr(&a).size, 20 * bsize);
        // A block was written behind the end that the check found.
        assert_eq!(check_now.setsize(ino, generation, end - bsize).unwrap(), Adjusted::Done);
        assert_eq!(w.fs.getattr(&a).size, end);
        assert_eq!(check_now.setsize(ino, generation, end).unwrap(), Adjusted::Unneeded);
        assert!(check_now.complete().unwrap());
        drop(a);
        w.end();
    }
}

#[test]
fn the_only_name_of_a_directory_and_its_parent_stay() {
    let w = crashed(SHAPES[0], |_, _| ());
    let (d, root) = (w.get(&w.root, "d").unwrap(), w.root.ino());
    let e = w.get(&d, "e").unwrap();
    let ((target, generation), (dir, _)) = (id(&w, &e), id(&w, &d));
    let check_now = begin(&w);
    for kept_in in [dir, root, target] {
        let name = SecondName { dir, name: b"e", target, generation, kept_in };
        assert!(refused(check_now.unlink(&name)), "{kept_in:?}");
    }
    let other = SecondName { dir, name: b"b", target, generation, kept_in: root };
    assert!(refused(check_now.unlink(&other)));
    assert!(refused(check_now.setdotdot(target, generation, root, dir)), "not its `..`");
    assert!(refused(check_now.setdotdot(target, generation, dir, root)), "no name there");
    assert!(refused(check_now.setdotdot(target, generation ^ 1, dir, dir)), "another file");
    assert!(check_now.complete().unwrap());
    drop((d, e));
    check(&w.dev);
}

/// Unmounts the volume. A full check finds no wrong number of blocks.
fn assert_counts(w: World) {
    let World { fs, root, dev, .. } = w;
    drop(root);
    fs.unmount().unwrap();
    let dev: std::sync::Arc<dyn BlockDevice> = dev;
    let found = ffs_admin::fsck::quick_check(&dev);
    let wrong: Vec<_> = found.iter().filter(|f| f.id == ffs_admin::fsck::Id::InoBlocks).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn the_sizes_of_snapshots_are_right_after_the_check() {
    for shape in SHAPES {
        let w = crashed(shape, |w, dev| {
            let snap = w.fs.snapshot(&Cred::root(), &w.root, b"snap").unwrap().0;
            w.fs.sync().unwrap();
            dev.write_at(0, &w.dev.inner().to_vec()).unwrap();
            edit(dev, w.fs.geometry(), snap.ino(), |d| d.blocks += 64);
        });
        assert!(begin(&w).complete().unwrap());
        assert_counts(w);
    }
}

#[test]
fn the_size_of_a_snapshot_whose_removal_was_interrupted_can_be_corrected() {
    for shape in SHAPES {
        let w = crashed(shape, |w, dev| {
            let snap = w.fs.snapshot(&Cred::root(), &w.root, b"snap").unwrap().0;
            w.fs.sync().unwrap();
            dev.write_at(0, &w.dev.inner().to_vec()).unwrap();
            edit(dev, w.fs.geometry(), snap.ino(), |d| d.blocks += 64);
            let mut volume = ffs_admin::Volume::open(dev).unwrap();
            volume.sb.f.snapinum = Default::default();
            volume.write_superblock().unwrap();
        });
        assert!(w.fs.snapshots().is_empty());
        let (ino, generation) = id(&w, &w.get(&w.root, "snap").unwrap());
        let check = begin(&w);
        assert_eq!(check.adjblkcnt(ino, generation).unwrap(), Adjusted::Done, "{shape:?}");
        assert!(check.complete().unwrap());
        assert_counts(w);
    }
}
