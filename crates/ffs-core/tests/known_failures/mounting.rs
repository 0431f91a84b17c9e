//! Mounting and unmounting: clean marks, damage found while mounted, failures in between.

use crate::disk::{Disk, KINDS, file, options};
use crate::ordeal::{EIO, compare, ordeal, work};
use crate::walk::walk;
use ffs_core::{Cred, MountOptions, WriteMode};
use ffs_device::Operation;
use ffs_device::fault::{Fault, Rule};

/// Damage found while reading prevents a writable mount from marking the volume clean.
#[test]
fn damage_that_was_only_read_is_remembered() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        disk.set_inode(disk.ino("/a/big"), "db", 4, -3);
        let fs = disk.mount().unwrap();
        fs.unmount().unwrap();
        assert!(disk.is_clean(), "the damage was not read yet");
        let fs = disk.mount().unwrap();
        assert!(!walk(&fs).errors.is_empty());
        fs.remount(true).unwrap();
        assert!(!disk.is_clean(), "{kind:?}: seen, and called clean");
        fs.remount(false).unwrap();
        fs.unmount().unwrap();
        assert!(!disk.is_clean(), "{kind:?}: forgotten over a remount");
        let out = ordeal(&disk, "seen", &["/a/big"]);
        assert!(out.read_only.is_some_and(|why| why.contains("fsck")));
    }
}

/// A damaged group that was skipped, while every operation succeeded.
#[test]
fn damage_that_was_worked_around_is_remembered() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        for c in 0..disk.g.ncg - 1 {
            disk.set_cg(c, "frotor", 0, 0);
            disk.set_cg(c, "cgx", 0, 99);
        }
        let fs = disk.mount().unwrap();
        drop(file(&fs, &fs.root().unwrap(), "elsewhere", 0, 50_000));
        fs.unmount().unwrap();
        assert!(!disk.is_clean(), "{kind:?}");
        ordeal(&disk, "worked around", &[]);
    }
}

/// The clean mark may or may not reach a failing device. If it does, the volume is undamaged.
#[test]
fn a_clean_mark_on_a_failing_device_is_true() {
    for kind in KINDS {
        for n in 1..40 {
            let disk = Disk::new(kind);
            let fs = disk.mount().unwrap();
            drop(file(&fs, &fs.root().unwrap(), "new", 0, 30_000));
            let seed = n * 31;
            disk.dev.add(Rule::new(Operation::Write, Fault::Torn { seed }).nth(n).times(1));
            let r = fs.remount(true);
            disk.dev.heal();
            let struck = r.is_err();
            if !struck {
                break;
            }
            assert_eq!(r.unwrap_err().errno(), EIO);
            let (cred, root) = (Cred::root(), fs.root().unwrap());
            if !fs.is_read_only() {
                let f = fs.lookup(&cred, &root, b"new").unwrap();
                fs.write(&cred, &f, 0, b"more", WriteMode::default()).unwrap();
            }
            drop(root);
            // A crash now must leave the volume marked dirty.
            let crashed = disk.copy();
            let clean = crashed.is_clean();
            let findings = ffs_admin::fsck::quick_check(&crashed.device());
            assert!(!clean || findings.is_empty(), "{kind:?} {n}: a wrong clean mark");
            let _ = fs.unmount();
            ordeal(&disk, &format!("write {n} of a remount failed"), &[]);
        }
    }
}

/// One file cannot be freed at unmount: all others are still written.
#[test]
fn an_unmount_that_fails_in_part_writes_the_rest() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        disk.set_inode(disk.ino("/a/big"), "db", 4, -3);
        let opts = MountOptions { ordering: ffs_core::OrderingPolicy::None, ..options() };
        let fs = disk.mount_with(&opts).unwrap();
        let (cred, root) = (Cred::root(), fs.root().unwrap());
        let a = fs.lookup(&cred, &root, b"a").unwrap();
        let held = fs.lookup(&cred, &a, b"big").unwrap();
        fs.unlink(&cred, &a, b"big").unwrap();
        drop(file(&fs, &root, "precious", 0, 70_000));
        drop((a, root));
        let e = fs.unmount().unwrap_err();
        assert_eq!(e.errno(), EIO, "{e}");
        drop(held);
        assert!(!disk.is_clean());
        let w = walk(&disk.mount().unwrap());
        assert!(w.items.contains_key("/precious"), "{kind:?}: lost");
        compare(&disk, &w, "unmount that failed in part", &["/a/big"]);
        ordeal(&disk, "unmount that failed in part", &["/a/big"]);
    }
}

/// A dirty volume: read-only with the reason, or read-write by force and still dirty afterwards.
#[test]
fn dirty_volumes() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        let fs = disk.mount().unwrap();
        drop(file(&fs, &fs.root().unwrap(), "new", 0, 30_000));
        fs.sync().unwrap();
        drop(fs);
        let fs = disk.mount().unwrap();
        assert!(fs.read_only_reason().is_some_and(|why| why.contains("cleanly")));
        assert_eq!(work(&fs, "work")[0].errno, 30);
        fs.unmount().unwrap();
        let fs = disk.mount_forced().unwrap();
        assert!(work(&fs, "work").is_empty());
        fs.unmount().unwrap();
        assert!(!disk.is_clean(), "{kind:?}: force is no check");
        ordeal(&disk, "dirty", &[]);
        assert!(disk.is_clean());
    }
}
