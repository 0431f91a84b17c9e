//! Groups 7 and 8: input that broke fsck on other systems; the mounted file system must report it
//! first.

use crate::disk::{Disk, KINDS, list};
use crate::ordeal::{names, one_names, ordeal};
use crate::walk::walk;
use ffs_admin::fsck::{FsckOptions, Id, exit};
use ffs_core::{Cred, MountOptions};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::{CgMut, Format};
use ffs_testkit::fixtures;
use ffs_testkit::rng::SplitMix64;
use std::sync::Arc;

/// Entries with inode numbers that are out of range or belong to free inodes.
#[test]
fn kf2_07_entries_with_numbers_out_of_range() {
    for kind in KINDS {
        let g = Disk::new(kind).g;
        let last = g.inodes() - 1;
        for ino in [g.inodes(), g.inodes() + 1, u32::MAX, i32::MAX as u32, last] {
            let disk = Disk::new(kind);
            let (dir, at) = (disk.ino("/a"), disk.record_at(disk.ino("/a"), b"frags"));
            disk.set_record(at, "ino", ino.into());
            let what = format!("entry of inode {ino}");
            let fs = disk.mount().unwrap();
            let a = fs.vget(ffs_core::Ino(dir), None).unwrap();
            let e = fs.lookup(&Cred::root(), &a, b"frags").unwrap_err();
            let words =
                [&format!("directory {dir} at offset")[..], "inode number", &ino.to_string()];
            names(&what, e.errno(), &e.to_string(), &words);
            let e = fs.unlink(&Cred::root(), &a, b"frags").unwrap_err();
            names(&what, e.errno(), &e.to_string(), &words);
            drop(a);
            drop(fs);
            let out = ordeal(&disk, &what, &["/a/frags"]);
            let want = if ino == last { Id::EntUnalloc } else { Id::EntRange };
            assert!(out.findings.contains(&want), "{kind:?} {what}: {:?}", out.findings);
        }
    }
}

/// `.` and `..` with bad numbers are corrected, not removed.
#[test]
fn kf2_07_dot_and_dot_dot_with_bad_numbers_are_corrected() {
    for kind in KINDS {
        for (off, value) in [(0, 0xffff_fff0u32), (0, 3), (12, 0xffff_fff0), (12, 3), (12, 0)] {
            let disk = Disk::new(kind);
            disk.set_record(disk.dir_at(disk.ino("/a/b")) + off, "ino", value.into());
            ordeal(&disk, &format!("offset {off}: {value}"), &[]);
            let fs = disk.mount().unwrap();
            let b = fs.vget(ffs_core::Ino(disk.ino("/a/b")), None).unwrap();
            let up = fs.lookup(&Cred::root(), &b, b"..").unwrap();
            assert_eq!(up.ino().0, disk.ino("/a"));
            let here = fs.lookup(&Cred::root(), &b, b".").unwrap();
            assert_eq!(here.ino(), b.ino());
        }
    }
}

/// Both the groups and the structures in them are damaged.
#[test]
fn kf2_07_groups_are_checked_before_they_are_rebuilt() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        for c in 0..disk.g.ncg {
            disk.write(disk.group_at(c), &vec![0xff; disk.g.cgsize as usize]);
        }
        disk.set_record(disk.record_at(disk.ino("/a"), b"frags"), "ino", 0xffff_0000);
        disk.set_inode(disk.ino("/a/big"), "db", 1, -5);
        let out = ordeal(&disk, "everything at once", &["/a/frags", "/a/big"]);
        assert!(out.findings.contains(&Id::CgMagic), "{:?}", out.findings);
    }
}

/// Blocks out of range are not freed, and an inode with such a block past its end is kept.
#[test]
fn kf2_07_an_invalid_block_past_the_end_is_dropped_and_the_inode_kept() {
    for kind in KINDS {
        for value in [-1, i64::from(i32::MAX), 8] {
            let disk = Disk::new(kind);
            disk.set_inode(disk.ino("/a/frags"), "db", 7, value.into());
            let out = ordeal(&disk, &format!("db[7] = {value}"), &[]);
            assert!(!out.findings.is_empty(), "{kind:?}");
        }
    }
}

/// Freeing a directory does not interpret its content.
#[test]
fn kf2_07_a_directory_of_noise_without_a_name() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        let (ino, mut rng) = (disk.ino("/many"), SplitMix64::new(2707));
        disk.write(disk.dir_at(ino), &rng.bytes(1024));
        disk.set_record(disk.record_at(2, b"many"), "ino", 0);
        ordeal(&disk, "noise", &["/many"]);
    }
}

/// lost+found gets an inode although none is free.
#[test]
fn kf2_07_lost_and_found_without_a_free_inode() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        // Every inode of the volume is an empty file without a name.
        for c in 0..disk.g.ncg {
            let (g, used) = (disk.g, disk.tree.values().map(|i| i.ino).collect::<Vec<_>>());
            let first = if c == 0 { 3 } else { 0 };
            let inited = if kind.0 == Format::Ufs1 { g.ipg } else { g.inopb };
            for i in (first..inited).filter(|i| !used.contains(&(c * g.ipg + i))) {
                disk.edit_inode(c * g.ipg + i, |d| (d.mode, d.nlink) = (0o100_600, 1));
            }
            disk.edit_group(c, |_, b| {
                let mut cg = CgMut::new(&g, b);
                (0..inited).for_each(|i| cg.set_inode_used(i, true));
            });
        }
        let w = walk(&disk.mount_read_only().unwrap());
        assert!(w.errors.is_empty());
        let report = disk.fsck(FsckOptions::yes());
        assert_eq!(report.exit_code, exit::OK, "{kind:?}: {}", list(&report.findings));
        disk.silent("lost and found");
        let w = walk(&disk.mount().unwrap());
        assert!(w.errors.is_empty(), "{kind:?}: {:?}", w.errors);
        crate::ordeal::compare(&disk, &w, "lost and found", &[]);
    }
}

/// Times outside every calendar.
#[test]
fn kf2_07_absurd_times() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        for field in ["atime", "mtime", "ctime"] {
            disk.set_inode(disk.ino("/one"), field, 0, i128::from(i64::MIN));
            disk.set_inode(disk.ino("/a/big"), field, 0, i128::from(i64::MAX));
        }
        for field in ["atimensec", "mtimensec", "ctimensec"] {
            disk.set_inode(disk.ino("/one"), field, 0, i128::from(i32::MIN));
            disk.set_inode(disk.ino("/a/big"), field, 0, i128::from(i32::MAX));
        }
        let out = ordeal(&disk, "times", &["/one", "/a/big"]);
        assert!(out.walk.is_empty() && out.work.is_empty(), "{:?}", out.walk);
    }
}

/// A negative size is treated as one beyond every limit.
#[test]
fn kf2_07_a_negative_size() {
    for kind in KINDS {
        for path in ["/one", "/empty", "/a/long"] {
            let disk = Disk::new(kind);
            let ino = disk.ino(path);
            disk.set_inode(ino, "size", 0, -4096);
            let out = ordeal(&disk, path, &[path]);
            one_names(path, &out.walk, path, &[&format!("inode {ino}"), "size"]);
            assert!(!out.clean, "{kind:?} {path}");
        }
    }
}

/// A device that transfers only whole sectors of 4096 bytes.
struct Sectors(MemDevice);

fn aligned(offset: u64, len: usize) {
    let whole = offset.is_multiple_of(4096) && (len as u64).is_multiple_of(4096);
    assert!(whole, "a transfer of {len} bytes at {offset}");
}

impl BlockDevice for Sectors {
    fn len_bytes(&self) -> u64 {
        self.0.len_bytes()
    }
    fn sector_size(&self) -> u32 {
        4096
    }
    fn durability(&self) -> ffs_device::Durability {
        self.0.durability()
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), ffs_device::DeviceError> {
        self.0.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), ffs_device::DeviceError> {
        // The superblock is smaller than a sector; the device layer assembles it.
        if buf.len() > 4096 {
            aligned(offset, buf.len());
        }
        self.0.write_at(offset, buf)
    }
    fn flush(&self) -> Result<(), ffs_device::DeviceError> {
        self.0.flush()
    }
}

#[test]
fn kf2_08_sectors_of_4096_bytes() {
    for kind in KINDS {
        let mem = crate::disk::fresh(kind, 32 << 20, |o| {
            (o.bsize, o.fsize, o.max_group) = (Some(32768), Some(4096), None);
        });
        let dev: Arc<dyn BlockDevice> = Arc::new(Sectors(mem.with_sector_size(4096)));
        let fs = crate::disk::mount(Arc::clone(&dev), &crate::disk::options()).unwrap();
        let failed = crate::ordeal::work(&fs, "work");
        assert!(failed.is_empty(), "{failed:?}");
        drop(crate::disk::file(&fs, &fs.root().unwrap(), "f", 0, 50_000));
        fs.unmount().unwrap();
        let findings = ffs_admin::fsck::quick_check(&dev);
        assert!(findings.is_empty(), "{kind:?}: {}", list(&findings));
    }
}

/// Damaged journals of other systems, on which their fsck crashed during replay. This fsck reads no
/// journal.
#[test]
fn kf2_08_a_damaged_soft_updates_journal() {
    for name in ["suj-ufs2-64m", "suj-ufs1-64m"] {
        let Some(raw) = fixtures::load(name) else { continue };
        let good = Disk::of(MemDevice::from_bytes(&raw));
        let journal = good.ino("/.sujournal");
        let mut rng = SplitMix64::new(2808);
        for round in 0..6 {
            let disk = good.copy();
            let d = disk.inode(journal);
            for at in d.db.iter().filter(|p| **p > 0) {
                let at = disk.g.frag_to_byte(ffs_ondisk::FragNo(*at as u64));
                disk.write(at + 512 * rng.below(8), &rng.bytes(512));
            }
            disk.set_sb("clean", 0);
            let suj = [0, 5, journal.into(), -1, i128::from(i32::MAX)][round % 5];
            disk.set_sb("sujfree", suj);
            let fs = disk.mount().unwrap();
            let why = fs.read_only_reason().unwrap_or("nothing");
            assert!(why.contains("journal"), "{why}");
            drop(fs);
            let forced = disk.mount_with(&MountOptions { force: true, ..crate::disk::options() });
            assert!(forced.unwrap().is_read_only(), "not even by force");
            let report = disk.fsck(FsckOptions::preen());
            let report = match report.exit_code {
                exit::OK => report,
                _ => disk.fsck(FsckOptions::yes()),
            };
            assert_eq!(report.exit_code, exit::OK, "{}", list(&report.findings));
            disk.silent("journal");
            let w = walk(&disk.mount_read_only().unwrap());
            crate::ordeal::compare(&disk, &w, "journal", &["/.sujournal"]);
        }
    }
}
