//! Groups 1 to 4: damaged superblocks.

use crate::disk::{Disk, KINDS, file, fresh, mount, options};
use crate::memory;
use crate::ordeal::{compare, names, ordeal, ordeal_blind, ordeal_with};
use crate::walk::walk;
use ffs_admin::fsck::{FsckOptions, exit};
use ffs_core::{Cred, Error, Ffs, MountOptions, Result};
use ffs_device::MemDevice;
use ffs_ondisk::superblock::SbFields;
use ffs_ondisk::{Format, Superblock};
use ffs_testkit::rng::SplitMix64;
use std::sync::Arc;

/// A damaged value, and the field that the error names.
const HOSTILE: &[(&str, i128, &str)] = &[
    ("bsize", 0, "bsize"),
    ("bsize", 2048, "bsize"),
    ("bsize", 1 << 30, "bsize"),
    ("fsize", 0, "fsize"),
    ("fsize", 3, "fsize"),
    ("frag", 0, "frag"),
    ("frag", 255, "frag"),
    ("sbsize", 0, "sbsize"),
    ("sbsize", 1 << 30, "sbsize"),
    ("bmask", 0, "bmask"),
    ("bshift", 77, "bshift"),
    ("fragshift", -1, "fragshift"),
    ("fsbtodb", 99, "fsbtodb"),
    ("nindir", 0, "nindir"),
    ("inopb", 0, "inopb"),
    ("ncg", 0, "ncg"),
    ("ncg", 0x7fff_ffff, "ncg"),
    ("ncg", 1 << 12, "size"),
    ("fpg", 0, "fpg"),
    ("fpg", 8, "fpg"),
    ("ipg", 0, "ipg"),
    ("ipg", 1 << 31, "ipg"),
    ("sblkno", -8, "sblkno"),
    ("cblkno", 1, "cblkno"),
    ("iblkno", 0, "iblkno"),
    ("dblkno", 1 << 30, "dblkno"),
    ("cgsize", 0, "cgsize"),
    ("cgsize", 1 << 30, "cgsize"),
    ("size", 0, "size"),
    ("size", -1, "size"),
    ("csaddr", 0, "csaddr"),
    ("csaddr", -1, "csaddr"),
    ("cssize", 0, "cssize"),
    ("cssize", 0x7fff_fc00, "cssize"),
    ("maxbsize", 12345, "maxbsize"),
    ("contigsumsize", 0x7fff_ffff, "contigsumsize"),
];

fn refused(r: Result<Ffs>) -> Error {
    match r {
        Err(e) => e,
        Ok(fs) => panic!("mounted, {:?}", fs.read_only_reason()),
    }
}

/// Every copy has the same invalid value: the mount fails, and the error has the reason.
#[test]
fn kf2_01_hostile_values_in_every_copy_are_refused_by_name() {
    for kind in KINDS {
        for &(name, value, word) in HOSTILE {
            if kind.0 == Format::Ufs1 && name == "maxbsize" {
                // This marks the layout before FreeBSD 5, which is a different kind of volume.
                continue;
            }
            let disk = Disk::new(kind);
            disk.set_all_sb(name, value);
            let before = disk.bytes();
            let (e, most) = memory::peak(|| refused(disk.mount()));
            let what = format!("{kind:?} {name} = {value}");
            names(&what, e.errno(), &e.to_string(), &["superblock at byte ", word]);
            assert!(most < 1 << 20, "{what}: {most} bytes");
            assert!(before == disk.bytes(), "{what}: written");
        }
    }
}

/// Only the standard copy is damaged: a backup is used for reading, and the check repairs it.
#[test]
fn kf2_01_hostile_values_in_the_standard_superblock_leave_the_backups() {
    for kind in KINDS {
        for &(name, value, _) in HOSTILE {
            let disk = Disk::new(kind);
            disk.set_sb(name, value);
            let out = ordeal(&disk, &format!("{name} = {value}"), &[]);
            assert!(out.refused.is_none(), "{kind:?} {name} = {value}: {:?}", out.refused);
            assert!(out.read_only.is_some_and(|why| why.contains("superblock")), "{name}");
            assert!(out.walk.is_empty(), "{kind:?} {name} = {value}: {:?}", out.walk);
        }
    }
}

/// As XFS tests it: every element of every field is set to zeros, ones, neighbours, flips and
/// noise. A volume that mounts is usable, an error names the reason, and nothing is lost.
#[test]
fn kf2_01_every_field_of_the_superblock_with_every_kind_of_damage() {
    let mut rng = SplitMix64::new(crate::rounds(2101, 1).0);
    let (mut refusals, mut writable) = (0, 0);
    for kind in KINDS {
        for f in SbFields::FIELDS {
            for n in 0..f.count().min(3) {
                let disk = Disk::new(kind);
                let old = f.value(&disk.read(disk.home(), 8192), n, kind.1);
                let bit = 1i128 << rng.below(8 * f.elem as u64);
                let noise = i128::from(rng.next_u64());
                let value = *rng.pick(&[0, -1, old + 1, old - 1, old ^ bit, noise]).unwrap();
                if value == old {
                    continue;
                }
                disk.set_sb_at(disk.home(), f.name, n, value);
                let what = format!("{}[{n}] {old} -> {value}", f.name);
                let (out, most) = memory::peak(|| match f.name {
                    // The layout of directories and of the groups.
                    // Accepted because of the valid check hash, in spite of the backups.
                    "csaddr" if kind.0 == Format::Ufs2 => {
                        ordeal_with(&disk, &what, &["", "/"], &options())
                    }
                    "csaddr" | "maxsymlinklen" | "old_inodefmt" | "old_cgoffset" | "old_cgmask" => {
                        ordeal_blind(&disk, &what)
                    }
                    _ => ordeal(&disk, &what, &[]),
                });
                assert!(most < 64 << 20, "{kind:?} {what}: {most} bytes");
                match out.refused {
                    Some(e) => {
                        refusals += 1;
                        assert!(matches!(e, Error::Format(_)), "{kind:?} {what}: {e}");
                    }
                    None => writable += u32::from(out.read_only.is_none()),
                }
            }
        }
    }
    println!("{refusals} refused, {writable} writable");
    assert!(writable > 50, "{writable}");
}

/// The summary area of a hostile superblock overlaps a file, which must not be overwritten.
#[test]
fn kf2_01_a_summary_area_on_top_of_a_file() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        disk.set_sb("csaddr", disk.block_of(disk.ino("/a/big"), 2).into());
        let before = disk.bytes();
        let fs = disk.mount().unwrap();
        let why = fs.read_only_reason().unwrap_or("nothing");
        assert!(why.contains("summary area"), "{kind:?}: {why}");
        fs.unmount().unwrap();
        assert!(before == disk.bytes(), "{kind:?}: written");
        if kind.0 == Format::Ufs1 {
            // The backups agree and are used; with a valid check hash the standard superblock is.
            let report = disk.fsck(FsckOptions::yes());
            assert_eq!(report.exit_code, exit::OK, "{:?}", report.findings);
            let out = ordeal(&disk, "csaddr repaired", &[]);
            assert!(out.read_only.is_none() && out.findings.is_empty(), "{:?}", out.findings);
        }
    }
}

/// Sizes that only a huge device could have: memory follows the actual size, not the stored one.
#[test]
fn kf2_01_memory_is_bounded_for_any_stored_size() {
    for kind in KINDS {
        // A sparse image of 256 GiB in groups of 2 MiB, with the superblock changed so that all of
        // it is in use.
        let small = fresh(kind, 8 << 20, |_| {});
        let mem = MemDevice::new(256 << 30);
        let mut bytes = small.to_vec();
        let disk = Disk::of(MemDevice::from_bytes(&bytes));
        let ncg: i128 = (256 << 30) / (2 << 20) - 1;
        let cssize = (ncg * 16 + 1023) / 1024 * 1024;
        for (name, v) in [("ncg", ncg), ("size", ncg * 2048), ("cssize", cssize), ("dsize", 1)] {
            disk.set_sb(name, v);
        }
        disk.set_sb("old_size", ncg * 2048);
        bytes = disk.bytes();
        ffs_device::BlockDevice::write_at(&mem, 0, &bytes).unwrap();
        let dev = Arc::new(mem);
        let (r, most) = memory::peak(|| mount(dev, &options()));
        let text = match r {
            Ok(fs) => format!("{:?}", fs.read_only_reason()),
            Err(e) => e.to_string(),
        };
        assert!(most < 64 << 20, "{kind:?}: {most} bytes: {text}");
    }
}

/// Several fields at once, and noise on which FreeBSD's fsck crashed.
#[test]
fn kf2_02_sums_of_hostile_values_overflow_nothing() {
    let (seed, rounds) = crate::rounds(2202, 150);
    for (i, kind) in (0u64..).zip(KINDS) {
        let mut rng = SplitMix64::new(seed + i);
        for round in 0..rounds {
            let disk = Disk::new(kind);
            let mut what = format!("seed {seed} round {round}:");
            if round % 5 == 0 {
                disk.write(disk.home() + 839, &rng.bytes(122));
                what += " noise from byte 839 to 960";
            }
            for _ in 0..rng.between(2, 5) {
                let f = rng.pick(SbFields::FIELDS).unwrap();
                let value = match rng.below(4) {
                    0 => i128::from(rng.next_u64()),
                    1 => (1 << (8 * f.elem - 1)) - 1,
                    2 => 1 << rng.below(8 * f.elem as u64),
                    _ => -1,
                };
                disk.set_sb(f.name, value);
                what += &format!(" {} = {value}", f.name);
            }
            let (_, most) = memory::peak(|| ordeal_blind(&disk, &what));
            assert!(most < 64 << 20, "{kind:?} {what}: {most} bytes");
        }
    }
}

/// A wrong check hash is a torn write unless a backup contradicts it: readable, writable by force,
/// repaired even by preen (`spec/known-failures.md` §1.8).
#[test]
fn kf1_08_and_kf2_03_a_torn_superblock_is_read_and_repaired() {
    for kind in KINDS.into_iter().filter(|k| k.0 == Format::Ufs2) {
        for preen in [true, false] {
            let disk = Disk::new(kind);
            // The third sector is from another time: its time and totals differ.
            disk.write(disk.home() + 1072, &[0x13; 4]);
            let fs = disk.mount().unwrap();
            let why = fs.read_only_reason().unwrap_or("none");
            assert!(why.contains("superblock is damaged"), "{why}");
            let e = fs.mkdir(&Cred::root(), &fs.root().unwrap(), b"no", 0o755).unwrap_err();
            assert_eq!(e.errno(), 30, "{e}");
            compare(&disk, &walk(&fs), "torn", &[]);
            fs.unmount().unwrap();
            let forced = disk.copy();
            let opts = MountOptions { force: true, ..options() };
            let out = ordeal_with(&forced, "torn, forced", &[], &opts);
            assert!(out.work.is_empty() && out.read_only.is_none(), "{:?}", out.work);
            let opts = if preen { FsckOptions::preen() } else { FsckOptions::yes() };
            let report = disk.fsck(opts);
            assert_eq!(report.exit_code, exit::OK, "{:?}", report.findings);
            assert!(disk.is_clean());
            let out = ordeal(&disk, "torn, checked", &[]);
            assert!(out.read_only.is_none() && out.findings.is_empty(), "{:?}", out.findings);
        }
    }
}

/// Every torn state of a superblock write of three sectors, between two mounts of the volume.
#[test]
fn kf1_08_any_torn_write_of_the_superblock_is_survived() {
    for kind in KINDS {
        let old = Disk::new(kind);
        let new = Disk::new(kind);
        let fs = new.mount().unwrap();
        fs.sync().unwrap();
        drop(fs);
        let (a, b) = (old.read(old.home(), 1536), new.read(new.home(), 1536));
        for mask in 1u32..8 {
            let disk = Disk::new(kind);
            let mut torn = a.clone();
            for s in (0..3usize).filter(|s| mask >> s & 1 == 1) {
                torn[s * 512..(s + 1) * 512].copy_from_slice(&b[s * 512..(s + 1) * 512]);
            }
            disk.write(disk.home(), &torn);
            let preened = disk.copy();
            let report = preened.fsck(FsckOptions::preen());
            assert_eq!(report.exit_code, exit::OK, "{mask:b}: {:?}", report.findings);
            assert!(preened.is_clean());
            let out = ordeal(&disk, &format!("torn write {mask:03b}"), &[]);
            assert!(out.refused.is_none() && out.walk.is_empty(), "{mask:b}: {:?}", out.walk);
        }
    }
}

/// Old tools leave check hashes outdated and clear the flag for them.
#[test]
fn kf2_03_stale_hashes_are_not_believed_and_not_spread() {
    for kind in KINDS.into_iter().filter(|k| k.0 == Format::Ufs2) {
        let disk = Disk::new(kind);
        let flags = disk.sb_field("flags");
        disk.set_all_sb("flags", flags & !0x200);
        disk.set_all_sb("metackhash", 7);
        // Check hashes with wrong values.
        disk.set_cg(0, "ckhash", 0, 0x1234);
        let fs = disk.mount().unwrap();
        assert!(fs.read_only_reason().is_none());
        fs.unmount().unwrap();
        assert_eq!(disk.sb_field("metackhash"), 0, "no hash is in use");
        let out = ordeal(&disk, "no hashes", &[]);
        assert!(out.walk.is_empty() && out.work.is_empty(), "{:?}", out.work);
    }
}

/// With 64 KiB blocks the first backup of UFS1 is at the location of UFS2's superblock.
#[test]
fn kf2_03_ufs1_with_64k_blocks_is_not_taken_for_its_backup() {
    for kind in KINDS.into_iter().filter(|k| k.0 == Format::Ufs1) {
        let mem = fresh(kind, 64 << 20, |o| {
            (o.bsize, o.fsize, o.max_group) = (Some(65536), Some(8192), None);
        });
        let fs = mount(Arc::new(mem.snapshot()), &options()).unwrap();
        assert_eq!((fs.superblock_location(), fs.is_read_only()), (8192, false));
        let disk = Disk::of(mem);
        assert_eq!(disk.backup(0), 65536);
        let fs = disk.mount().unwrap();
        drop(file(&fs, &fs.root().unwrap(), "content", 0, 100_000));
        fs.unmount().unwrap();
        let free = disk.mount_read_only().unwrap().statfs().frags_free;
        disk.silent("used");
        let stale = Superblock::decode(&disk.read(65536, 8192), 65536).unwrap();
        assert_ne!(u64::try_from(stale.cstotal().nbfree).unwrap() * 8, free, "the backup is stale");
        let out = ordeal(&disk, "64K blocks", &[]);
        assert!(out.work.is_empty() && out.read_only.is_none(), "{:?}", out.work);
    }
}

/// A root directory with far more blocks than its first ones.
#[test]
fn kf2_04_a_root_directory_with_very_many_files() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        let (cred, pad) = (Cred::root(), "n".repeat(240));
        let name = |i: u32| format!("{pad}{i:08}").into_bytes();
        let count = 420;
        let fs = disk.mount().unwrap();
        let root = fs.root().unwrap();
        let target = fs.lookup(&cred, &root, b"one").unwrap();
        for i in 0..count {
            fs.link(&cred, &target, &root, &name(i)).unwrap();
        }
        assert!(fs.getattr(&root).size > 12 * 8192, "beyond the direct blocks");
        drop((root, target));
        fs.unmount().unwrap();
        disk.silent("full root");
        let fs = disk.mount().unwrap();
        let root = fs.root().unwrap();
        for i in 0..count {
            let found = fs.lookup(&cred, &root, &name(i)).unwrap();
            assert_eq!(found.ino().0, disk.ino("/one"));
            fs.unlink(&cred, &root, &name(i)).unwrap();
        }
        drop(root);
        let w = walk(&fs);
        compare(&disk, &w, "emptied root", &[]);
        fs.unmount().unwrap();
        disk.silent("emptied root");
    }
}
