//! Group 12: inodes with wrong content.

use crate::disk::{Disk, KINDS};
use crate::memory;
use crate::ordeal::{EIO, names, one_names, ordeal};
use crate::walk::walk;
use ffs_core::{Cred, SetAttr, WriteMode, XattrNamespace, XattrSet};
use ffs_ondisk::dinode::{Dinode1, Dinode2};
use ffs_ondisk::{CgNo, Format, FragNo};
use ffs_testkit::rng::SplitMix64;

#[test]
fn kf2_12_types_and_sizes() {
    for kind in KINDS {
        for (path, field, value, word) in [
            ("/one", "mode", 0o030_644, "mode"),
            ("/one", "mode", 0o170_644, "mode"),
            ("/one", "size", -1, "size"),
            ("/one", "size", i128::from(i64::MAX), "size"),
            ("/one", "size", i128::from(i64::MIN), "size"),
            ("/a/short", "size", 8193, "size"),
            ("/a/short", "size", 1 << 62, "size"),
            ("/a/long", "size", -1, "size"),
            ("/a/b/c/fifo", "size", 1, "size"),
            ("/a/b/c/null", "size", 4096, "size"),
        ] {
            let disk = Disk::new(kind);
            let ino = disk.ino(path);
            disk.set_inode(ino, field, 0, value);
            let what = format!("{path}: {field} = {value}");
            let (out, most) = memory::peak(|| ordeal(&disk, &what, &[path]));
            one_names(&what, &out.walk, path, &[&format!("inode {ino}"), word]);
            assert!(most < 64 << 20 && !out.clean, "{kind:?} {what}: {most} bytes");
        }
    }
}

/// A symbolic link whose size exceeds its text in the inode, or whose blocks do not exist.
#[test]
fn kf2_12_symbolic_links() {
    for kind in KINDS {
        let capacity = kind.0.short_symlink_capacity() as i128;
        for (path, field, value) in [
            ("/a/short", "size", capacity + 1),
            ("/a/short", "size", 8192),
            ("/a/short", "blocks", 16),
            ("/a/short", "size", 0),
            ("/a/long", "size", 3),
            ("/a/long", "blocks", 0),
            ("/a/long", "size", 1024),
        ] {
            let disk = Disk::new(kind);
            disk.set_inode(disk.ino(path), field, 0, value);
            ordeal(&disk, &format!("{path}: {field} = {value}"), &[path]);
        }
    }
}

/// Wrong block counts have no other effect.
#[test]
fn kf2_12_block_counts_that_disagree() {
    for kind in KINDS {
        for value in [0, 1, 1 << 31, 0xffff_ffff] {
            let disk = Disk::new(kind);
            disk.set_inode(disk.ino("/a/big"), "blocks", 0, value);
            let fs = disk.mount().unwrap();
            let (cred, root) = (Cred::root(), fs.root().unwrap());
            let a = fs.lookup(&cred, &root, b"a").unwrap();
            let f = fs.lookup(&cred, &a, b"big").unwrap();
            fs.write(&cred, &f, 30 * 8192, &[1; 9000], WriteMode::default()).unwrap();
            fs.setattr(&cred, &f, &SetAttr { size: Some(5), ..SetAttr::default() }).unwrap();
            drop((root, a, f));
            fs.unmount().unwrap();
            ordeal(&disk, &format!("blocks = {value}"), &["/a/big"]);
        }
    }
}

/// Indirect blocks that contain themselves or each other: bounded work in every operation.
#[test]
fn kf2_12_cycles_of_indirect_blocks() {
    for kind in KINDS {
        let disk = Disk::new(kind);
        let ino = disk.ino("/a/b/triple");
        let top = disk.inode(ino).ib[2];
        let nindir = disk.g.nindir;
        for slot in 0..nindir {
            disk.set_slot(top, slot, top);
        }
        let before = disk.transfers();
        let fs = disk.mount().unwrap();
        let cred = Cred::root();
        let ab = ["a", "b"]
            .iter()
            .fold(fs.root().unwrap(), |at, name| fs.lookup(&cred, &at, name.as_bytes()).unwrap());
        let f = fs.lookup(&cred, &ab, b"triple").unwrap();
        let mut buf = vec![0; 100_000];
        let mut at = 0;
        for _ in 0..50 {
            let r = fs.read(&f, at, &mut buf);
            assert!(r.as_ref().map_or_else(|e| e.errno() == EIO, |_| true), "{r:?}");
            at += 16 * 8192 * u64::from(nindir);
        }
        let shrunk = fs.setattr(&cred, &f, &SetAttr { size: Some(1), ..SetAttr::default() });
        assert!(shrunk.is_err(), "{kind:?}: the blocks cannot be freed twice");
        drop((ab, f));
        fs.unmount().unwrap();
        let spent = disk.transfers() - before;
        assert!(spent < 10_000, "{kind:?}: {spent} transfers");
        assert!(!disk.is_clean());
        ordeal(&disk, "triple indirect cycle", &["/a/b/triple"]);
    }
}

/// A pointer into another file. Reading cannot detect it; the check does, and no block is freed
/// twice.
#[test]
fn kf2_12_pointers_into_other_files() {
    for kind in KINDS {
        for (theirs, l) in [("/a/b/hard", 0), ("/many", 0), ("/a/big", 13)] {
            let disk = Disk::new(kind);
            let at = disk.block_of(disk.ino(theirs), l);
            disk.set_inode(disk.ino("/a/sparse"), "db", 0, at.into());
            disk.set_inode(disk.ino("/a/sparse"), "db", 1, (at & !7).into());
            let other = if theirs == "/a/b/hard" { "/a/b/c/other name" } else { theirs };
            let hurt = ["/a/sparse", theirs, other, "/a/b/hard", "/many", "/a/big", "/one"];
            let fs = disk.mount().unwrap();
            let (cred, root) = (Cred::root(), fs.root().unwrap());
            let a = fs.lookup(&cred, &root, b"a").unwrap();
            let _ = fs.unlink(&cred, &a, b"sparse");
            drop((root, a));
            fs.unmount().unwrap();
            ordeal(&disk, &format!("/a/sparse reads {theirs}"), &hurt);
        }
    }
}

/// Damaged sizes and records of attribute areas.
#[test]
fn kf2_12_attribute_areas() {
    for kind in KINDS.into_iter().filter(|k| k.0 == Format::Ufs2) {
        let hurt = ["/a/b/hard", "/a/b/c/other name"];
        for value in [2 * 8192 + 1, 0xffff_ffff, 0x8000_0000] {
            let disk = Disk::new(kind);
            let ino = disk.ino("/a/b/hard");
            disk.set_inode(ino, "extsize", 0, value);
            let (out, most) = memory::peak(|| ordeal(&disk, "extsize", &hurt));
            one_names("extsize", &out.walk, "/a/b/hard", &[&format!("inode {ino}"), "extsize"]);
            assert!(most < 64 << 20, "{most}");
        }
        for (offset, bytes, word) in [
            (0, [0u8; 4], "length"),
            (0, [0xff; 4], "length"),
            (0, [0x7f, 0xff, 0xff, 0xf8], "length"),
            (4, [1, 255, 6, b'c'], ""),
            (4, [1, 0, 255, b'c'], "name"),
        ] {
            let disk = Disk::new(kind);
            let ino = disk.ino("/a/b/hard");
            let at = disk.g.frag_to_byte(FragNo(disk.inode(ino).extb[0] as u64)) + offset;
            disk.write(at, &bytes);
            let fs = disk.mount().unwrap();
            let w = walk(&fs);
            let place = format!("inode {ino}");
            one_names("record", &w.errors, "/a/b/hard", &["extended attributes of ", &place, word]);
            let f = fs.vget(ffs_core::Ino(ino), None).unwrap();
            let (cred, ns) = (Cred::root(), XattrNamespace::User);
            let e = fs.setxattr(&cred, &f, ns, b"new", b"v", XattrSet::Any).unwrap_err();
            names("set", e.errno(), &e.to_string(), &["extended attributes of ", &place, word]);
            // The content of the file is not affected.
            let mut buf = [0; 9000];
            assert_eq!(fs.read(&f, 0, &mut buf).unwrap(), 9000);
            drop(f);
            fs.unmount().unwrap();
        }
    }
}

/// Pointers into metadata: nothing there is read as content, written or freed.
#[test]
fn kf2_12_pointers_into_metadata() {
    for kind in KINDS {
        let g = Disk::new(kind).g;
        let places = [
            ("boot area", 8),
            ("summary area", g.csaddr.0 & !7),
            ("backup superblock", g.cgsblock(CgNo(2)).0),
            ("group block", g.cgtod(CgNo(1)).0),
            ("inodes", g.cgimin(CgNo(0)).0),
        ];
        for (what, at) in places {
            let disk = Disk::new(kind);
            disk.set_inode(disk.ino("/a/big"), "db", 3, at.into());
            disk.set_inode(disk.ino("/a/sparse"), "ib", 0, at.into());
            let out = ordeal(&disk, what, &["/a/big", "/a/sparse"]);
            one_names(what, &out.walk, "/a/big", &["block pointer", "metadata"]);
            one_names(what, &out.walk, "/a/sparse", &["block pointer", "metadata"]);
        }
    }
}

/// Every kind of damage to every field of an inode, for one file of each type.
#[test]
fn kf2_12_every_field_of_an_inode() {
    let mut rng = SplitMix64::new(crate::rounds(2212, 1).0);
    let paths = ["/a/big", "/a/sparse", "/many", "/a/long", "/a/b/c/null", "/a/b/hard"];
    for kind in KINDS {
        let fields = if kind.0 == Format::Ufs1 { Dinode1::FIELDS } else { Dinode2::FIELDS };
        for f in fields {
            for path in paths {
                let disk = Disk::new(kind);
                let ino = disk.ino(path);
                let n = rng.below(f.count() as u64) as usize;
                let raw = disk.read(disk.inode_at(ino), kind.0.dinode_size());
                let old = f.value(&raw, n, kind.1);
                let bit = 1i128 << rng.below(8 * f.elem as u64);
                let noise = i128::from(rng.next_u64());
                let value = *rng.pick(&[0, -1, old + 1, old - 1, old ^ bit, noise]).unwrap();
                disk.set_inode(ino, f.name, n, value);
                let what = format!("{path}: {}[{n}] {old} -> {value}", f.name);
                let mut hurt = vec![path, "/a/b/hard", "/a/b/c/other name"];
                if path == "/many" && f.name == "db" {
                    // It may contain the names of another directory.
                    hurt.extend(["", "/"]);
                }
                let (_, most) = memory::peak(|| ordeal(&disk, &what, &hurt));
                assert!(most < 64 << 20, "{kind:?} {what}: {most} bytes");
            }
        }
    }
}
