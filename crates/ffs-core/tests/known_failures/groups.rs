//! Groups 5 and 6: pointers out of range, damaged cylinder groups, free inodes with content.

use crate::disk::{Disk, KINDS, file};
use crate::ordeal::{EIO, names, one_names, ordeal};
use ffs_core::{Cred, Ffs, FileFlags, NodeKind, SetAttr, Vnode, WriteMode};
use ffs_ondisk::cg::CgFields;
use ffs_ondisk::{CgMut, CgNo, Format};
use ffs_testkit::rng::SplitMix64;

fn get(fs: &Ffs, path: &str) -> ffs_core::Result<Vnode> {
    let parts = path.split('/').filter(|p| !p.is_empty());
    parts.fold(fs.root(), |at, name| {
        at.and_then(|dir| fs.lookup(&Cred::root(), &dir, name.as_bytes()))
    })
}

/// Addresses that are invalid for files.
fn bad_addresses(disk: &Disk) -> Vec<i64> {
    let g = &disk.g;
    let at = |f: ffs_ondisk::FragNo| f.0 as i64;
    let mut all = vec![
        -1,
        i64::from(i32::MIN),
        g.size as i64,
        g.size as i64 + 1,
        i64::from(i32::MAX),
        1,
        at(g.cgsblock(CgNo(1))),
        at(g.cgtod(CgNo(2))),
        at(g.cgimin(CgNo(3))),
        at(g.csaddr),
        // Extends into the next block.
        at(g.cgdmin(CgNo(1))) + 8 + 3,
    ];
    if g.format == Format::Ufs2 {
        all.extend([i64::MIN, i64::MAX, 1 << 40]);
    }
    all
}

#[test]
fn kf2_05_out_of_range_block_pointers() {
    for kind in KINDS {
        let addresses = bad_addresses(&Disk::new(kind));
        for bad in addresses {
            for (field, n) in [("db", 0), ("db", 5), ("ib", 0)] {
                let disk = Disk::new(kind);
                let ino = disk.ino("/a/big");
                disk.set_inode(ino, field, n, bad.into());
                let what = format!("{field}[{n}] = {bad}");
                let out = ordeal(&disk, &what, &["/a/big"]);
                let place = format!("inode {ino}");
                one_names(&what, &out.walk, "/a/big", &[&place, "block pointer", &bad.to_string()]);
                assert!(!out.clean && out.work.is_empty(), "{kind:?} {what}: {:?}", out.work);
            }
        }
    }
}

#[test]
fn kf2_05_out_of_range_pointers_in_indirect_blocks() {
    for kind in KINDS {
        for bad in bad_addresses(&Disk::new(kind)) {
            let disk = Disk::new(kind);
            let ino = disk.ino("/a/big");
            disk.set_slot(disk.inode(ino).ib[0], 3, bad);
            let what = format!("indirect[3] = {bad}");
            let fs = disk.mount().unwrap();
            let f = get(&fs, "/a/big").unwrap();
            // The data before it can be read; nothing can be written there.
            let mut buf = vec![0; 8192];
            assert_eq!(fs.read(&f, 14 * 8192, &mut buf).unwrap(), 8192, "{what}");
            let e = fs.read(&f, 15 * 8192, &mut buf).unwrap_err();
            let place = format!("inode {ino}");
            names(&what, e.errno(), &e.to_string(), &["indirect block", &place, "block pointer"]);
            let e = fs.write(&Cred::root(), &f, 15 * 8192, b"x", WriteMode::default());
            assert_eq!(e.unwrap_err().errno(), EIO, "{what}");
            drop(f);
            fs.unmount().unwrap();
            assert!(!disk.is_clean(), "{kind:?} {what}");
            ordeal(&disk, &what, &["/a/big"]);
        }
    }
}

/// Removing a file with a bad pointer frees its other blocks and reports the pointer; nothing else
/// is freed.
#[test]
fn kf2_05_a_file_with_bad_pointers_can_be_removed() {
    for kind in KINDS {
        for bad in bad_addresses(&Disk::new(kind)) {
            let disk = Disk::new(kind);
            disk.set_inode(disk.ino("/a/big"), "db", 2, bad.into());
            disk.set_slot(disk.inode(disk.ino("/a/big")).ib[0], 1, bad);
            let fs = disk.mount().unwrap();
            let a = get(&fs, "/a").unwrap();
            let r = fs.unlink(&Cred::root(), &a, b"big");
            assert!(r.is_ok() || r.as_ref().is_err_and(|e| e.errno() == EIO), "{bad}: {r:?}");
            assert_eq!(get(&fs, "/a/big").unwrap_err().errno(), 2, "{kind:?} {bad}");
            drop(a);
            fs.unmount().unwrap();
            assert!(!disk.is_clean(), "{kind:?} {bad}");
            ordeal(&disk, &format!("removed with {bad}"), &["/a/big"]);
        }
    }
}

/// Out-of-range pointers of attribute blocks.
#[test]
fn kf2_05_out_of_range_pointers_of_attributes() {
    for kind in KINDS.into_iter().filter(|k| k.0 == Format::Ufs2) {
        for bad in bad_addresses(&Disk::new(kind)) {
            let disk = Disk::new(kind);
            let ino = disk.ino("/a/b/hard");
            disk.set_inode(ino, "extb", 0, bad.into());
            let out =
                ordeal(&disk, &format!("extb[0] = {bad}"), &["/a/b/hard", "/a/b/c/other name"]);
            let place = format!("inode {ino}");
            one_names("extb", &out.walk, "/a/b/hard", &["extended attributes", &place]);
        }
    }
}

/// Damage to every field of a group's header: the group is not used, the others are, and the error
/// names the group.
#[test]
fn kf2_05_hostile_group_headers() {
    let mut rng = SplitMix64::new(crate::rounds(2505, 1).0);
    for kind in KINDS {
        for f in CgFields::FIELDS {
            let disk = Disk::new(kind);
            let old = f.value(&disk.read(disk.group_at(0), 256), 0, kind.1);
            let bit = 1i128 << rng.below(8 * f.elem as u64);
            for value in [0, -1, old + 1, old ^ bit] {
                if value == old {
                    continue;
                }
                let disk = Disk::new(kind);
                let group = rng.below(4) as u32;
                disk.set_cg(group, f.name, 0, value);
                let what = format!("group {group}: {} {old} -> {value}", f.name);
                let out = ordeal(&disk, &what, &[]);
                assert!(out.refused.is_none() && out.walk.is_empty(), "{what}: {:?}", out.walk);
                assert!(out.read_only.is_none() || f.name == "cs", "{what}: {:?}", out.read_only);
            }
        }
    }
}

/// The group of a file is damaged: the file's blocks cannot be freed, and the error has the reason.
#[test]
fn kf2_05_freeing_into_a_damaged_group_is_an_error_with_a_name() {
    for kind in KINDS {
        for (name, value) in [("magic", 0), ("cgx", 77), ("ndblk", 1 << 31), ("freeoff", 8)] {
            let disk = Disk::new(kind);
            let ino = disk.ino("/a/frags");
            let at = ffs_ondisk::FragNo(disk.block_of(ino, 0) as u64);
            let c = disk.g.dtog(at).0;
            disk.set_cg(c, name, 0, value);
            let fs = disk.mount().unwrap();
            let f = get(&fs, "/a/frags").unwrap();
            let e = fs.setattr(&Cred::root(), &f, &SetAttr { size: Some(0), ..SetAttr::default() });
            let e = e.unwrap_err();
            let place = format!("group {c}");
            names(name, e.errno(), &e.to_string(), &["cylinder group", &place, name]);
            drop(f);
            fs.unmount().unwrap();
            assert!(!disk.is_clean(), "{kind:?} {name}");
            ordeal(&disk, name, &["/a/frags"]);
        }
    }
}

/// All groups are damaged: nothing can be created, everything can be read.
#[test]
fn kf2_05_no_group_is_sound() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        for c in 0..disk.g.ncg {
            disk.set_cg(c, "magic", 0, 0x0bad);
        }
        let fs = disk.mount().unwrap();
        let e = fs.create(&Cred::root(), &fs.root().unwrap(), b"new", NodeKind::Regular, 0o644);
        let e = e.unwrap_err();
        names("create", e.errno(), &e.to_string(), &["cylinder group", "magic"]);
        drop(fs);
        ordeal(&disk, "no sound group", &[]);
    }
}

/// Summaries with more or fewer free items than the maps.
#[test]
fn kf2_05_wrong_counts() {
    for kind in KINDS {
        for value in [0, 1 << 30, -1, 7] {
            for n in 0..4 {
                let disk = Disk::new(kind);
                for c in 0..disk.g.ncg {
                    disk.set_cg(c, "cs", n, value);
                }
                ordeal(&disk, &format!("cs[{n}] = {value} in all groups"), &[]);
                let disk = Disk::new(kind);
                let area = disk.g.frag_to_byte(disk.g.csaddr);
                disk.write(area, &[value as u8; 64]);
                ordeal(&disk, &format!("summary area of {value}"), &[]);
            }
        }
    }
}

/// A free inode with size, pointers or flags: a file created in it is empty.
#[test]
fn kf2_06_free_inodes_that_are_not_empty() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        let (big, used) = (disk.inode(disk.ino("/a/big")), disk.tree.values().map(|i| i.ino));
        let used: Vec<u32> = used.collect();
        for ino in (3..disk.g.ipg).filter(|i| !used.contains(i)).take(200) {
            let initialised = kind.0 == Format::Ufs1 || ino < disk.g.inopb;
            if initialised {
                disk.edit_inode(ino, |d| {
                    *d = big.clone();
                    (d.mode, d.nlink, d.flags) = (0, 3, FileFlags::SF_IMMUTABLE);
                    (d.extsize, d.size) = (777, u64::MAX >> 1);
                });
            }
        }
        let fs = disk.mount().unwrap();
        let root = fs.root().unwrap();
        let mut made = Vec::new();
        for i in 0..150 {
            let cred = Cred::root();
            let name = format!("new {i}").into_bytes();
            let f = fs.create(&cred, &root, &name, NodeKind::Regular, 0o600).unwrap();
            let a = fs.getattr(&f);
            let clean = (a.size, a.blocks, a.nlink, a.flags);
            assert_eq!(clean, (0, 0, 1, FileFlags::empty()), "{kind:?} inode {}", a.ino);
            let names = fs.listxattr(&cred, &f);
            assert!(names.map_or(true, |n| n.is_empty()), "{kind:?}: attributes out of nowhere");
            fs.write(&cred, &f, 0, &[i; 3000], WriteMode::default()).unwrap();
            made.push((name, f));
        }
        for (name, f) in made {
            fs.unlink(&Cred::root(), &root, &name).unwrap();
            drop(f);
        }
        drop(root);
        fs.unmount().unwrap();
        ordeal(&disk, "dirty free inodes", &[]);
    }
}

/// "free inode isn't": the map has the inode as free, but it is in use. It must not be allocated.
#[test]
fn kf2_06_an_inode_in_use_marked_free_is_not_handed_out() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        let g = disk.g;
        let victims: Vec<u32> = disk.tree.values().map(|i| i.ino).filter(|i| *i > 2).collect();
        for &ino in &victims {
            let (c, i) = (ino / g.ipg, ino % g.ipg);
            disk.edit_group(c, |g, b| CgMut::new(g, b).set_inode_used(i, false));
        }
        let fs = disk.mount().unwrap();
        let root = fs.root().unwrap();
        for i in 0..40 {
            let name = format!("new {i}");
            let r = fs.create(&Cred::root(), &root, name.as_bytes(), NodeKind::Regular, 0o600);
            match r {
                Ok(f) => assert!(!victims.contains(&f.ino().0), "{kind:?}: {:?}", f.ino()),
                Err(e) => names("create", e.errno(), &e.to_string(), &["inode", "mode"]),
            }
        }
        drop(root);
        fs.unmount().unwrap();
        assert!(!disk.is_clean(), "{kind:?}");
        ordeal(&disk, "used inodes marked free", &[]);
    }
}

/// "freeing free block", "freeing free frag", "free inode of a free inode": errors, and the volume
/// stays usable.
#[test]
fn kf2_06_freeing_free_items() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        let g = disk.g;
        let free = |path: &str, l: u64, frags: u32| {
            let at = disk.block_of(disk.ino(path), l) as u64;
            let (c, first) = (at / u64::from(g.fpg), (at % u64::from(g.fpg)) as u32);
            disk.edit_group(c as u32, |g, b| CgMut::new(g, b).set_run_free(first, frags, true));
        };
        free("/a/frags", 0, 2);
        free("/a/big", 4, 8);
        let ino = disk.ino("/one");
        disk.edit_group(ino / g.ipg, |g, b| CgMut::new(g, b).set_inode_used(ino % g.ipg, false));
        let fs = disk.mount().unwrap();
        let a = get(&fs, "/a").unwrap();
        for name in [&b"frags"[..], b"big"] {
            let f = fs.lookup(&Cred::root(), &a, name).unwrap();
            let e = fs.setattr(&Cred::root(), &f, &SetAttr { size: Some(0), ..SetAttr::default() });
            let e = e.unwrap_err();
            names("truncate", e.errno(), &e.to_string(), &["cylinder group", "blksfree", "free"]);
        }
        let _ = fs.unlink(&Cred::root(), &fs.root().unwrap(), b"one");
        drop(a);
        fs.unmount().unwrap();
        assert!(!disk.is_clean(), "{kind:?}");
        ordeal(&disk, "freed twice", &["/a/frags", "/a/big", "/one"]);
    }
}

/// "map mismatch": the cluster map and the counts differ from the fragment map.
#[test]
fn kf2_06_maps_that_disagree() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        for c in 0..disk.g.ncg {
            disk.edit_group(c, |g, b| {
                let mut cg = CgMut::new(g, b);
                for blk in 0..g.blocks_per_group() {
                    cg.set_cluster_free(blk, blk % 3 == 0);
                }
                for n in 1..8 {
                    cg.set_frsum(n, 1 << 20);
                }
                for k in 1..=g.contigsumsize {
                    cg.set_clustersum(k, i32::MAX);
                }
            });
        }
        let fs = disk.mount().unwrap();
        drop(file(&fs, &fs.root().unwrap(), "large", 0, 400_000));
        fs.unmount().unwrap();
        let out = ordeal(&disk, "maps that disagree", &[]);
        assert!(out.work.is_empty(), "{kind:?}: {:?}", out.work);
    }
}
