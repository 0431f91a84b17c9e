//! Groups 13 and 14: snapshots, and files removed while in use.

use crate::disk::{Disk, KINDS, file};
use crate::ordeal::{compare, ordeal};
use crate::walk::walk;
use ffs_admin::fsck::{FsckOptions, exit};
use ffs_core::{Cred, RenameMode, SetAttr, WriteMode};
use ffs_device::MemDevice;
use ffs_ondisk::FileFlags;
use ffs_ondisk::superblock::FsFlags;
use ffs_testkit::fixtures;
use ffs_testkit::rng::SplitMix64;

/// A real volume with snapshots is mounted read-write, and stays sound.
#[test]
fn kf2_13_a_volume_with_snapshots_is_kept_up() {
    let Some(raw) = fixtures::load("nb-ufs2-snap") else { return };
    let disk = Disk::of(MemDevice::from_bytes(&raw));
    let fs = disk.mount().unwrap();
    assert_eq!(fs.read_only_reason(), None);
    assert_eq!(fs.snapshots().len(), 2);
    fs.unmount().unwrap();
    disk.silent("as it came");
}

/// Damaged block pointers of a snapshot: bounded work, a named error, repaired; other files are
/// unchanged.
#[test]
fn kf2_13_damaged_snapshots() {
    let Some(raw) = fixtures::load("nb-ufs2-snap") else { return };
    let good = Disk::of(MemDevice::from_bytes(&raw));
    let (snap, mut rng) = (good.ino("/.snap/s1"), SplitMix64::new(2813));
    let frags = good.g.size as i64;
    for round in 0..24u64 {
        let disk = good.copy();
        let d = disk.inode(snap);
        let value = [-1, frags, frags - 1, 3, i64::MAX, 8, 1 << 33][(round % 7) as usize];
        match round % 3 {
            0 => disk.set_inode(snap, "db", rng.below(12) as usize, value.into()),
            1 => disk.set_inode(snap, "ib", 0, value.into()),
            _ if d.ib[0] > 0 => disk.set_slot(d.ib[0], rng.below(100) as u32, value),
            _ => {}
        }
        // Damage that the mount does not see is found when the block is read.
        let fs = disk.mount().unwrap();
        let w = walk(&fs);
        // Snapshots include each other's blocks.
        compare(&disk, &w, &format!("round {round}"), &["/.snap"]);
        drop(fs);
        let report = disk.fsck(FsckOptions::yes());
        assert_eq!(report.exit_code, exit::OK, "{round}: {:?}", report.findings);
        disk.silent("snapshot");
        let w = walk(&disk.mount().unwrap());
        compare(&disk, &w, &format!("round {round}, repaired"), &["/.snap"]);
    }
}

/// The superblock lists a file that is no snapshot; a file has the flag but is not listed.
#[test]
fn kf2_13_files_wrongly_marked_as_snapshots() {
    for kind in KINDS {
        for value in [0x7fff_ffff, -1, 2, 3, i128::from(Disk::new(kind).ino("/one"))] {
            let disk = Disk::new(kind);
            disk.set_sb("snapinum", value);
            let fs = disk.mount().unwrap();
            assert!(!fs.is_read_only() && fs.snapshots().is_empty());
            compare(&disk, &walk(&fs), "snapinum", &[]);
            drop(fs);
            let report = disk.fsck(FsckOptions::yes());
            assert_eq!(report.exit_code, exit::OK, "{:?}", report.findings);
            let out = ordeal(&disk, &format!("snapinum = {value}"), &[]);
            assert!(out.read_only.is_none(), "{kind:?} {value}: {:?}", out.read_only);
        }
        for path in ["/one", "/a/big", "/a/sparse", "/empty", "/a/short"] {
            let disk = Disk::new(kind);
            let flag = FileFlags::SF_SNAPSHOT.bits();
            disk.set_inode(disk.ino(path), "flags", 0, flag.into());
            let before = disk.transfers();
            let fs = disk.mount().unwrap();
            let v = fs.vget(ffs_core::Ino(disk.ino(path)), None).unwrap();
            let r = fs.write(&Cred::root(), &v, 0, b"x", WriteMode::default());
            assert!(r.is_err(), "{kind:?} {path}: a snapshot was written");
            let r = fs.setattr(&Cred::root(), &v, &SetAttr { size: Some(1), ..SetAttr::default() });
            assert!(r.is_err() || path == "/one", "{kind:?} {path}: a snapshot was truncated");
            drop(v);
            fs.unmount().unwrap();
            ordeal(&disk, &format!("{path} with the flag"), &[path]);
            assert!(disk.transfers() - before < 40_000);
        }
    }
}

/// A snapshot with the last block of the volume: because of its flag, its readers examine every
/// block up to the end.
#[test]
fn kf2_13_the_last_block_and_beyond() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        let ino = disk.ino("/a/big");
        let bytes = disk.g.size * u64::from(disk.g.fsize);
        disk.edit_inode(ino, |d| {
            d.flags = FileFlags::SF_SNAPSHOT;
            d.size = bytes + 8192;
        });
        let fs = disk.mount().unwrap();
        let v = fs.vget(ffs_core::Ino(ino), None).unwrap();
        let mut buf = vec![0; 3 * 8192];
        for at in [bytes - 8192, bytes - 1024, bytes, bytes + 8191] {
            let r = fs.read(&v, at, &mut buf);
            assert!(r.as_ref().map_or_else(|e| e.errno() == 5, |n| *n <= buf.len()), "{r:?}");
        }
        drop(v);
        fs.unmount().unwrap();
        ordeal(&disk, "last block", &["/a/big"]);
    }
}

/// A file removed while in use exists until its last use ends; then its space is free.
#[test]
fn kf2_14_a_file_removed_while_in_use() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        let fs = disk.mount().unwrap();
        let (cred, root) = (Cred::root(), fs.root().unwrap());
        let free = fs.statfs();
        let f = file(&fs, &root, "open", 0, 200_000);
        let d = fs.mkdir(&cred, &root, b"opendir", 0o755).unwrap();
        fs.unlink(&cred, &root, b"open").unwrap();
        fs.rmdir(&cred, &root, b"opendir").unwrap();
        let mut buf = [0; 100];
        assert_eq!(fs.read(&f, 199_990, &mut buf).unwrap(), 10);
        assert_eq!(fs.write(&cred, &f, 300_000, &[1; 10], WriteMode::default()).unwrap(), 10);
        assert_eq!(fs.remount(true).unwrap_err().errno(), 16);
        assert_eq!(fs.mkdir(&cred, &d, b"below", 0o755).unwrap_err().errno(), 2);
        assert_eq!(fs.link(&cred, &f, &root, b"again").unwrap_err().errno(), 2);
        drop((f, d));
        let after = fs.statfs();
        assert_eq!((after.frags_free, after.inodes_free), (free.frags_free, free.inodes_free));
        fs.remount(true).unwrap();
        assert!(disk.is_clean(), "{kind:?}");
        disk.silent("remounted");
        fs.remount(false).unwrap();
        drop(root);
        fs.unmount().unwrap();
        ordeal(&disk, "unlinked", &[]);
    }
}

/// Unmounted with open handles: removed files are freed, others can still be read.
#[test]
fn kf2_14_unmounted_while_in_use() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        let fs = disk.mount().unwrap();
        let (cred, root) = (Cred::root(), fs.root().unwrap());
        let removed = file(&fs, &root, "removed", 0, 100_000);
        let one = fs.lookup(&cred, &root, b"one").unwrap();
        fs.unlink(&cred, &root, b"removed").unwrap();
        fs.unmount().unwrap();
        assert!(disk.is_clean());
        disk.silent("unmounted");
        let mut buf = [0; 10];
        assert_eq!(fs.read(&one, 0, &mut buf).unwrap(), 1);
        assert!(fs.read(&removed, 0, &mut buf).is_err());
        let e = fs.write(&cred, &one, 0, b"x", WriteMode::default()).unwrap_err();
        assert_eq!(e.errno(), 30, "{e}");
        let before = disk.bytes();
        drop((removed, one, root, fs));
        assert!(before == disk.bytes(), "{kind:?}: written after the unmount");
        ordeal(&disk, "unmounted in use", &[]);
    }
}

/// A crash with removed files open leaves inodes without names, which the check frees.
#[test]
fn kf2_14_a_crash_with_removed_files_open() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        let fs = disk.mount().unwrap();
        let root = fs.root().unwrap();
        let open: Vec<_> =
            (0..5).map(|i| file(&fs, &root, &format!("open {i}"), 0, 9000)).collect();
        for i in 0..5 {
            fs.unlink(&Cred::root(), &root, format!("open {i}").as_bytes()).unwrap();
        }
        fs.sync().unwrap();
        let crashed = disk.copy();
        drop((open, root));
        fs.unmount().unwrap();
        assert!(!crashed.is_clean());
        let report = crashed.fsck(FsckOptions::preen());
        assert_eq!(report.exit_code, exit::OK, "{:?}", report.findings);
        let out = ordeal(&crashed, "crash", &[]);
        assert!(out.findings.is_empty() && out.read_only.is_none(), "{:?}", out.findings);
    }
}

/// A damaged list of unlinked inodes, on volumes with and without a journal.
#[test]
fn kf2_14_damaged_lists_of_unlinked_inodes() {
    for kind in KINDS {
        for value in [-1, 2, 0x7fff_ffff, i128::from(Disk::new(kind).ino("/one"))] {
            let disk = Disk::new(kind);
            disk.set_sb("sujfree", value);
            ordeal(&disk, &format!("sujfree = {value}, no journal"), &[]);
            let flags = disk.sb_field("flags") | i128::from(FsFlags::SUJ.bits());
            disk.set_sb("flags", flags | i128::from(FsFlags::DOSOFTDEP.bits()));
            disk.set_sb("sujfree", value);
            // The list is circular.
            disk.set_inode(disk.ino("/one"), "freelink", 0, disk.ino("/one").into());
            let fs = disk.mount().unwrap();
            assert!(fs.read_only_reason().is_some_and(|why| why.contains("journal")));
            drop(fs);
            ordeal(&disk, &format!("sujfree = {value}"), &[]);
        }
    }
}

/// Concurrent link, unlink and rename of one file, which other threads open and drop meanwhile.
#[test]
fn kf2_14_a_race_of_link_and_unlink() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        let fs = disk.mount().unwrap();
        std::thread::scope(|s| {
            for t in 0..4u64 {
                let fs = fs.clone();
                s.spawn(move || {
                    let (cred, root, mut rng) =
                        (Cred::root(), fs.root().unwrap(), SplitMix64::new(t));
                    for _ in 0..150 {
                        let names: [&[u8]; 3] = [b"x", b"y", b"z"];
                        let (from, to) =
                            (names[rng.below(3) as usize], names[rng.below(3) as usize]);
                        let r = match rng.below(4) {
                            0 => {
                                let kind = ffs_core::NodeKind::Regular;
                                fs.create(&cred, &root, from, kind, 0o644).and_then(|f| {
                                    fs.write(&cred, &f, 0, &[7; 3000], WriteMode::default())
                                        .map(drop)
                                })
                            }
                            1 => fs.unlink(&cred, &root, from),
                            2 => fs
                                .lookup(&cred, &root, from)
                                .and_then(|f| fs.link(&cred, &f, &root, to)),
                            _ => fs.rename(&cred, (&root, from), (&root, to), RenameMode::Replace),
                        };
                        if let Err(e) = r {
                            assert!([2, 17, 116].contains(&e.errno()), "{e}");
                        }
                    }
                });
            }
        });
        fs.unmount().unwrap();
        assert!(disk.is_clean());
        disk.silent("race");
    }
}
