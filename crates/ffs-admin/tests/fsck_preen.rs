//! `-p` on volumes with soft updates, and its memory use.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use crate::fsck_util::{Img, KINDS, Kind};
use ffs_admin::fsck::{FsckOptions, Id, Severity, exit};
use ffs_ondisk::superblock::FsFlags;
use ffs_ondisk::{CgMut, Endian, Format, Superblock, dir};

/// A volume that crashed, with soft updates or without.
fn crashed(kind: Kind, softdep: bool) -> Img {
    let img = Img::with_tree(kind);
    let home = if img.g.format == Format::Ufs1 { 8192 } else { 65536 };
    let mut sb = Superblock::decode(&img.read(home, 8192), home).unwrap();
    sb.f.clean = 0;
    if softdep {
        sb.set_flags(sb.flags() | FsFlags::DOSOFTDEP);
    }
    img.write(home, &sb.encode());
    img
}

/// Marks an inode, or the blocks of a file, free in the map although they are in use.
fn free_in_the_map(img: &Img, inode: bool) {
    if inode {
        let ino = img.ino("a/blocks");
        img.edit_group(0, |g, b| CgMut::new(g, b).set_inode_used(ino, false));
    } else {
        let at = img.inode(img.ino("a/blocks")).db[1] as u32 / img.g.frag;
        img.edit_group(0, |g, b| CgMut::new(g, b).set_block_free(at, true));
    }
}

/// Soft updates mark a map before the first pointer and clear it after the last. An allocation in
/// use that is marked free cannot come from a crash. Preen stops, changes nothing, and prints what
/// to do; a full check repairs it.
#[test]
fn in_use_but_marked_free_stops_preen_on_soft_updates() {
    for kind in KINDS {
        let img = crashed(kind, true);
        free_in_the_map(&img, false);
        let before = img.bytes();
        let report = img.fsck(FsckOptions::preen());
        assert_eq!((report.exit_code, report.modified, report.clean), (exit::ERROR, false, false));
        assert!(img.bytes() == before, "it wrote");
        let found = report.findings.iter().find(|f| f.id == Id::CgAllocFree).unwrap();
        assert_eq!(found.severity, Severity::Fatal);
        assert!(found.message.contains("soft updates exclude this"), "{found}");
        assert!(!found.repaired);
        let why = report.stopped.unwrap();
        for words in ["UNEXPECTED SOFT UPDATE INCONSISTENCY", "nothing was changed", "without -p"] {
            assert!(why.contains(words), "{why}");
        }
        let report = img.fsck(FsckOptions::yes());
        assert_eq!(report.exit_code, exit::OK, "{:#?}", report.findings);
        assert!(report.counts.contains_key(&Id::CgAllocFree));
        img.silent();
    }
}

/// The defect, the findings of preen, and the change that makes it.
type Damage = (&'static str, Id, fn(&Img));

/// An inode in use that is marked free stops preen, with or without a name; so does a free inode
/// with content. Preen has no findings only if a full check has none.
#[test]
fn an_inode_in_use_but_marked_free_stops_preen_on_soft_updates() {
    let damage: [Damage; 3] = [
        ("named", Id::CgAllocFree, |img| free_in_the_map(img, true)),
        ("nameless", Id::CgAllocFree, |img| img.edit(unused(img), |d| d.mode = 0o100_644)),
        ("free, with a size", Id::InoPartial, |img| img.edit(unused(img), |d| d.size = 5)),
    ];
    for kind in KINDS {
        for (what, id, damage) in &damage {
            let img = crashed(kind, true);
            damage(&img);
            let before = img.bytes();
            let report = img.fsck(FsckOptions::preen());
            assert_eq!(report.exit_code, exit::ERROR, "{what}");
            assert!(img.bytes() == before && report.stopped.is_some(), "{what}");
            let found = report.findings.iter().find(|f| f.severity == Severity::Fatal).unwrap();
            assert_eq!(found.id, *id, "{what}: {found}");
            assert_eq!(img.fsck(FsckOptions::yes()).exit_code, exit::OK, "{what}");
            img.silent();
        }
    }
}

/// An unused inode among those that the first group has initialised.
fn unused(img: &Img) -> u32 {
    let bytes = img.read(img.group_at(0), img.g.cgsize as usize);
    let cg = ffs_ondisk::Cg::new(&img.g, &bytes);
    (3..img.g.ipg.min(2 * img.g.inopb))
        .find(|&index| ffs_ondisk::cg::bit(cg.inosused(), index) == Some(false))
        .unwrap()
}

/// Ordered writes do not order the maps: preen repairs and reports the finding.
#[test]
fn in_use_but_marked_free_is_repaired_and_reported_without_soft_updates() {
    for kind in KINDS {
        for inode in [false, true] {
            let img = crashed(kind, false);
            let tree = img.tree();
            free_in_the_map(&img, inode);
            let report = img.fsck(FsckOptions::preen());
            assert_eq!(report.exit_code, exit::OK, "{:#?}", report.findings);
            let found = report.findings.iter().find(|f| f.id == Id::CgAllocFree).unwrap();
            assert!(found.repaired && found.message.starts_with("in use but marked free"));
            img.silent();
            assert_eq!(img.tree(), tree);
        }
    }
}

/// The names of a directory that is cleared are not held in memory. A memory limit that suffices
/// for all other repairs suffices for a directory larger than the limit.
#[test]
fn a_cleared_directory_may_be_larger_than_the_memory() {
    let kind = (Endian::Little, Format::Ufs2, 4096, 512, 16 << 20);
    let mut img = crashed(kind, true);
    let b = u64::from(img.g.bsize);
    let blocks = (3 << 20) / b;
    let child = img.file(2, "child", 100);
    let top = img.file(2, "top", blocks * b);
    let d = img.inode(top);
    let fmt = img.fmt();
    let (mut dirblk, mut names) = (vec![0; 512], 0u16);
    for l in 0..blocks {
        let at = img.pointer(&d, l) as u64 * u64::from(img.g.fsize);
        for i in 0..b / 512 {
            dir::clear_chunk(fmt, &mut dirblk);
            let first = (l, i) == (0, 0);
            let own = |name| dir::Record { off: 0, ino: top, reclen: 12, dtype: 4, name };
            if first {
                dir::write(fmt, &mut dirblk, &own(b"."));
                let up = dir::Record { off: 12, ino: 2, reclen: 500, dtype: 4, name: b".." };
                dir::write(fmt, &mut dirblk, &up);
            } else {
                let name = format!("n{l}-{i}").into_bytes();
                let rec = dir::Record { off: 0, ino: child, reclen: 512, dtype: 8, name: &name };
                dir::write(fmt, &mut dirblk, &rec);
                names += 1;
            }
            img.write(at + i * 512, &dirblk);
        }
    }
    img.edit(top, |d| (d.mode, d.nlink) = (0o040_755, 2));
    // The directory was removed: it has no name, and its child has only names in it.
    for name in ["top", "child"] {
        let (at, _) = img.entry(2, name);
        img.write(at, &[0; 4]);
    }
    img.edit(child, |d| d.nlink = names);
    let tables = img.g.size / 8 + u64::from(img.g.ncg) * 64;
    let max_memory = Some(tables + (1 << 20));
    let report = img.fsck(FsckOptions { max_memory, ..FsckOptions::preen() });
    assert_eq!(report.exit_code, exit::OK, "{:?} {:#?}", report.stopped, report.findings);
    assert!(report.counts.contains_key(&Id::DirClear));
    // All names were cleared before the inode that they name.
    for l in [0, 1, blocks - 1] {
        let at = img.pointer(&d, l) as u64 * u64::from(img.g.fsize) + 512;
        assert_eq!(img.read(at, 4), [0; 4], "block {l}");
    }
    img.silent();
}
