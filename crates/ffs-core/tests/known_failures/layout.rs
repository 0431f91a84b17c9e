//! Groups 15 and 16: padding, flags with other meanings on other systems, unknown fields.

use crate::disk::{Disk, KINDS};
use crate::ordeal::ordeal;
use ffs_admin::fsck::{FsckOptions, exit};
use ffs_device::MemDevice;
use ffs_ondisk::cg::CgLayout;
use ffs_ondisk::{CgNo, Format};
use ffs_testkit::fixtures;

/// Bits and bytes after the maps of a group are harmless, and the check clears them.
#[test]
fn kf2_15_padding_of_the_maps() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        for c in 0..disk.g.ncg {
            disk.edit_group(c, |g, b| {
                let lay = CgLayout::of(g);
                for byte in &mut b[lay.nextfreeoff as usize..g.cgsize as usize] {
                    *byte = 0xff;
                }
                // Bits of fragments after the end of the last group.
                let frags = g.cg_frags(CgNo(c));
                for f in frags..g.fpg {
                    b[(lay.freeoff + f / 8) as usize] |= 1 << (f % 8);
                }
            });
        }
        let out = ordeal(&disk, "padding", &[]);
        assert!(out.walk.is_empty() && out.work.is_empty(), "{kind:?}: {:?}", out.work);
        for c in 0..disk.g.ncg {
            let b = disk.read(disk.group_at(c), disk.g.cgsize as usize);
            let end = CgLayout::of(&disk.g).nextfreeoff as usize;
            assert!(b[end..].iter().all(|b| *b == 0), "{kind:?}: group {c} keeps its padding");
        }
    }
}

/// NetBSD's flags have other meanings: a journal or quotas are respected, and FreeBSD's meanings
/// are not assumed.
#[test]
fn kf2_15_flags_that_collide() {
    for kind in KINDS {
        for flag in [0x100, 0x200, 0x300, 0x800, 0x8000, 1 << 31] {
            let disk = Disk::new(kind);
            let flags = disk.sb_field("flags");
            disk.set_all_sb("flags", flags | flag);
            let fs = disk.mount().unwrap();
            let (ro, why) = (fs.is_read_only(), fs.read_only_reason());
            assert!(
                !ro || why.is_some_and(|w| w.contains("NetBSD")),
                "{kind:?} {flag:#x}: {why:?}"
            );
            fs.unmount().unwrap();
            let kept = disk.sb_field("flags") & !0x2ff;
            assert_eq!(kept, (flags | flag) & !0x2ff, "{kind:?} {flag:#x}");
            ordeal(&disk, &format!("flag {flag:#x}"), &[]);
        }
    }
}

/// makefs puts the superblock of UFS2 at 8192.
#[test]
fn kf2_15_a_superblock_of_ufs2_at_8192() {
    for name in ["makefs-ufs2-sb8k-le", "makefs-ufs2-sb8k-be"] {
        let Some(raw) = fixtures::load(name) else { continue };
        let disk = Disk::of(MemDevice::from_bytes(&raw));
        let fs = disk.mount().unwrap();
        assert_eq!((fs.superblock_location(), fs.read_only_reason()), (8192, None), "{name}");
        drop(fs);
        let fs = Disk::of(MemDevice::from_bytes(&raw)).mount().unwrap();
        fs.unmount().unwrap();
    }
}

/// Tools of different age: fields unknown to both are preserved by mounting, operations and the
/// check.
#[test]
fn kf2_16_unknown_fields_are_preserved() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        // Spare bytes of the superblock, which are in no known field.
        let mut spares: Vec<u64> = (728..848).chain(1220..1296).collect();
        spares.extend(1376..1400);
        let sbsize = disk.sb_field("sbsize") as u64;
        spares.retain(|o| *o < sbsize);
        for (i, off) in spares.iter().enumerate() {
            disk.write(disk.home() + off, &[i as u8 | 1]);
        }
        disk.set_sb("spare1", disk.sb_field("spare1"));
        // Spare bytes of the groups and inodes.
        for c in 0..disk.g.ncg {
            disk.edit_group(c, |_, b| b[144..168].fill(0x7e));
        }
        let ino = disk.ino("/one");
        if kind.0 == Format::Ufs2 {
            disk.set_inode(ino, "spare", 0, 0x1357);
            disk.set_inode(ino, "kernflags", 0, 0x2468);
            disk.set_inode(ino, "blksize", 0, 0x9999);
        }
        let before: Vec<u8> = spares.iter().map(|o| disk.read(disk.home() + o, 1)[0]).collect();
        let fs = disk.mount().unwrap();
        assert!(!fs.is_read_only(), "{kind:?}: {:?}", fs.read_only_reason());
        let failed = crate::ordeal::work(&fs, "work");
        assert!(failed.is_empty(), "{failed:?}");
        let v = fs.vget(ffs_core::Ino(ino), None).unwrap();
        let set = ffs_core::SetAttr { perm: Some(0o604), ..Default::default() };
        fs.setattr(&ffs_core::Cred::root(), &v, &set).unwrap();
        drop(v);
        fs.unmount().unwrap();
        let report = disk.fsck(FsckOptions::yes());
        assert_eq!(report.exit_code, exit::OK, "{:?}", report.findings);
        let after: Vec<u8> = spares.iter().map(|o| disk.read(disk.home() + o, 1)[0]).collect();
        assert_eq!(before, after, "{kind:?}: superblock");
        for c in 0..disk.g.ncg {
            let b = disk.read(disk.group_at(c), 168);
            assert!(b[144..168].iter().all(|b| *b == 0x7e), "{kind:?}: group {c}: {:?}", &b[144..]);
        }
        if kind.0 == Format::Ufs2 {
            assert_eq!(disk.inode(ino).unused, [0x9999, 0x2468, 0x1357, 0], "{kind:?}");
        }
    }
}
