//! Damaged or foreign images: truncated, zeroed, with flipped bits.

use crate::disk::{Disk, KINDS, mount, options};
use crate::memory;
use crate::ordeal::{EIO, compare, ordeal_with, work};
use crate::walk::walk;
use ffs_admin::fsck::{FsckOptions, exit, quick_check};
use ffs_core::{Error, MountOptions};
use ffs_device::partition::Window;
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::{CgNo, Format};
use ffs_testkit::rng::SplitMix64;
use std::sync::Arc;

fn refusal(dev: Arc<dyn BlockDevice>) -> Error {
    match mount(dev, &options()) {
        Err(e) => e,
        Ok(fs) => panic!("mounted: {:?}", fs.read_only_reason()),
    }
}

/// Truncated anywhere: refused, and the error has the missing bytes; the image is not read beyond
/// its end and not written.
#[test]
fn bad_truncated_images() {
    for kind in KINDS {
        let bytes = Disk::new(kind).bytes();
        let len = bytes.len();
        for keep in
            [0, 1, 511, 4096, 8192, 9000, 65536, 66000, 80_000, len / 2, len - 8192, len - 1]
        {
            let dev = Arc::new(MemDevice::from_bytes(&bytes[..keep]));
            let (e, most) = memory::peak(|| refusal(dev.clone()));
            let text = e.to_string();
            assert_eq!(e.errno(), EIO, "{kind:?} {keep}: {text}");
            let home = if kind.0 == Format::Ufs1 { 8192 } else { 65536 };
            if keep >= home + 8192 {
                let words = [format!("{len} bytes"), format!("only {keep} are"), "missing".into()];
                assert!(words.iter().all(|w| text.contains(w)), "{kind:?} {keep}: {text}");
            } else {
                assert!(text.contains("no UFS") || text.contains("superblock"), "{keep}: {text}");
            }
            assert!(most < 1 << 20, "{kind:?} {keep}: {most} bytes");
            assert!(dev.to_vec() == bytes[..keep], "{kind:?} {keep}: written");
            let dev: Arc<dyn BlockDevice> = dev;
            let report = ffs_admin::fsck::Fsck::new(dev, FsckOptions::yes()).run();
            assert_eq!(
                report.exit_code,
                exit::SUPERBLOCK,
                "{kind:?} {keep}: {:?}",
                report.findings
            );
            assert!(!report.modified);
        }
    }
}

/// Only zeros, ones or noise; text; a volume that newfs did not finish.
#[test]
fn bad_images_of_nothing() {
    let mut rng = SplitMix64::new(1);
    let noise = rng.bytes(1 << 20);
    let text = b"This is not a file system.\n".repeat(10_000);
    for bytes in [vec![0; 1 << 20], vec![0xff; 1 << 20], noise, text] {
        let e = refusal(Arc::new(MemDevice::from_bytes(&bytes)));
        assert!(matches!(e, Error::Format(_)) && e.to_string().contains("no UFS"), "{e}");
    }
    for kind in KINDS {
        let disk = Disk::new(kind);
        let (at, e) = (disk.home() + 1372, kind.1);
        let mut magic = [0; 4];
        ffs_ondisk::wire::put(&mut magic, 0, e, 0x1996_0408u32);
        disk.write(at, &magic);
        let e = refusal(disk.device());
        assert!(e.to_string().contains("newfs did not finish"), "{kind:?}: {e}");
    }
}

/// Zeroed parts: the superblock, each part of the groups, inode blocks, directories, the summary
/// area.
#[test]
fn bad_zeroed_pieces() {
    for kind in KINDS {
        let g = Disk::new(kind).g;
        let home = Disk::new(kind).home();
        let mut pieces = vec![("superblock", home, 8192u64, true), ("boot area", 0, 8192, true)];
        for c in (0..g.ncg).map(CgNo) {
            let byte = |f: ffs_ondisk::FragNo| g.frag_to_byte(f);
            pieces.push(("backup", byte(g.cgsblock(c)), 8192, true));
            pieces.push(("group", byte(g.cgtod(c)), g.cgsize.into(), true));
            pieces.push(("half a group", byte(g.cgtod(c)) + 4096, 4096, true));
            pieces.push(("inodes", byte(g.cgimin(c)), g.bsize.into(), false));
        }
        pieces.push(("summary area", g.frag_to_byte(g.csaddr), g.cssize.into(), true));
        for (what, at, len, harmless) in pieces {
            let disk = Disk::new(kind);
            disk.write(at, &vec![0; len as usize]);
            let hurt: &[&str] = if harmless { &[] } else { &["", "/"] };
            let what = format!("zeroed {what} at {at}");
            let out = ordeal_with(&disk, &what, hurt, &options());
            assert!(out.refused.is_none() || !harmless, "{kind:?} {what}: {:?}", out.refused);
        }
    }
}

/// Flipped bits in metadata, with or without check hashes: no panic, bounded work, repaired in one
/// run.
#[test]
fn bad_flipped_bits() {
    let (seed, rounds) = crate::rounds(4711, 120);
    for (i, kind) in (0u64..).zip(KINDS) {
        let mut rng = SplitMix64::new(seed + i);
        for round in 0..rounds {
            // Offsets are looked up on an undamaged volume.
            let (disk, good) = (Disk::new(kind), Disk::new(kind));
            let g = disk.g;
            let mut what = format!("seed {seed} round {round}:");
            for _ in 0..rng.between(1, 4) {
                let c = CgNo(rng.below(4) as u32);
                let (base, span) = match rng.below(5) {
                    0 => (disk.home(), 1376),
                    1 => (g.frag_to_byte(g.cgtod(c)), 2048),
                    2 => (good.dir_at(disk.ino("/many")), 2048),
                    3 => (disk.inode_at(disk.ino("/a")), 256),
                    _ => (g.frag_to_byte(g.cgimin(c)), u64::from(g.bsize)),
                };
                let at = base + rng.below(span);
                let bit = rng.below(8);
                let byte = disk.read(at, 1)[0];
                disk.write(at, &[byte ^ 1 << bit]);
                what += &format!(" byte {at} bit {bit}");
            }
            let (_, most) = memory::peak(|| ordeal_with(&disk, &what, &["", "/"], &options()));
            assert!(most < 64 << 20, "{kind:?} {what}: {most} bytes");
        }
    }
}

/// Flipped bits on damaged volumes that are mounted read-write by force.
#[test]
fn bad_flipped_bits_by_force() {
    let (seed, rounds) = crate::rounds(4811, 60);
    let opts = MountOptions { force: true, ..options() };
    for (i, kind) in (0u64..).zip(KINDS) {
        let mut rng = SplitMix64::new(seed + i);
        for round in 0..rounds {
            let disk = Disk::new(kind);
            disk.set_sb("clean", 0);
            let mut what = format!("forced, seed {seed} round {round}:");
            for _ in 0..rng.between(1, 6) {
                let c = CgNo(rng.below(4) as u32);
                let base = disk.g.frag_to_byte(disk.g.cgsblock(c));
                let span = disk.g.frag_to_byte(disk.g.cgdmin(c)) + 65536 - base;
                let at = base + rng.below(span);
                let byte = disk.read(at, 1)[0] ^ 1 << rng.below(8);
                disk.write(at, &[byte]);
                what += &format!(" byte {at} = {byte:#x}");
            }
            ordeal_with(&disk, &what, &["", "/"], &opts);
        }
    }
}

/// The wrong partition: it begins too early or too late, or ends too soon.
#[test]
fn bad_wrong_partition() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        let len = disk.dev.len_bytes();
        let big = MemDevice::new(3 * len);
        big.write_at(len, &disk.bytes()).unwrap();
        let big = Arc::new(big);
        let window = |start: u64, len: u64| {
            Arc::new(Window::new(Arc::clone(&big), start, len, "partition").unwrap())
        };
        let right = mount(window(len, len), &options()).unwrap();
        compare(&disk, &walk(&right), "window", &[]);
        assert!(!right.is_read_only());
        right.unmount().unwrap();
        let before = big.to_vec();
        for start in [0, len - 512, len + 512, len + 4096, len - 65536 + 8192, len + 65536] {
            let Err(e) = mount(window(start, len), &options()) else {
                panic!("{kind:?}: mounted from {start}");
            };
            assert_eq!(e.errno(), EIO, "{kind:?} {start}: {e}");
        }
        let e = refusal(window(len, len - 8192));
        assert!(e.to_string().contains("the last 8192 are missing"), "{e}");
        assert!(big.to_vec() == before, "{kind:?}: written");
    }
}

/// Every superblock copy has a size larger than the image: mount and check fail, and nothing is
/// written.
#[test]
fn bad_image_larger_than_its_file() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        let more = i128::from(disk.g.size) + 1;
        disk.set_all_sb("size", more);
        disk.set_all_sb("old_size", more);
        let e = refusal(disk.device());
        assert!(e.to_string().contains("superblock"), "{kind:?}: {e}");
        let before = disk.bytes();
        let report = disk.fsck(FsckOptions::preen());
        assert_ne!(report.exit_code, exit::OK, "{kind:?}");
        assert!(disk.bytes() == before, "{kind:?}: preen wrote");
    }
}

/// A volume smaller than its image is not damaged.
#[test]
fn an_image_smaller_than_its_file_is_fine() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        let mut bytes = disk.bytes();
        bytes.extend([0xaa; 100_000]);
        let dev: Arc<dyn BlockDevice> = Arc::new(MemDevice::from_bytes(&bytes));
        let fs = mount(Arc::clone(&dev), &options()).unwrap();
        assert!(work(&fs, "work").is_empty());
        compare(&disk, &walk(&fs), "larger file", &[]);
        fs.unmount().unwrap();
        assert!(quick_check(&dev).is_empty());
    }
}

/// Directories of noise, mixed with blocks of other directories.
#[test]
fn bad_directories_of_noise() {
    let (seed, rounds) = crate::rounds(99, 40);
    let mut rng = SplitMix64::new(seed);
    for kind in KINDS {
        for round in 0..rounds {
            let disk = Disk::new(kind);
            let path = ["", "/a", "/a/b", "/many"][(round % 4) as usize];
            let at = disk.dir_at(if path.is_empty() { 2 } else { disk.ino(path) });
            let chunk = disk.read(at, 512);
            let mut noisy = chunk.clone();
            for _ in 0..rng.between(1, 30) {
                let i = rng.below(512) as usize;
                noisy[i] = rng.next_u64() as u8;
            }
            disk.write(at, &noisy);
            ordeal_with(
                &disk,
                &format!("noise in {path:?}, seed {seed} round {round}"),
                &["", "/"],
                &options(),
            );
        }
    }
}
