//! Each test injects one defect, expects an exact list of findings, repairs, and expects no
//! findings afterwards.
#![allow(clippy::unwrap_used, reason = "a test")]

use crate::fsck_util::{Img, KINDS};
use ffs_admin::fsck::Id::{self, *};
use ffs_admin::fsck::{FsckOptions, Severity, exit};
use ffs_ondisk::wire::put;
use ffs_ondisk::{CgMut, Format, extattr};

thread_local! {
    static FAILED: std::cell::RefCell<Vec<String>> = const { std::cell::RefCell::new(Vec::new()) };
}

/// Ends a test: fails with all its errors.
fn verdict() {
    let failed = FAILED.take();
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

fn list(findings: &[ffs_admin::fsck::Finding]) -> String {
    findings.iter().map(|f| format!("\n    {f}")).collect()
}

/// Damages a copy of every kind of volume and runs every mode on it.
fn defect(name: &str, damage: impl Fn(&mut Img), expected: &[Id]) {
    defect_where(name, |_| true, damage, expected);
}

fn defect_where(
    name: &str,
    kinds: impl Fn(&Img) -> bool,
    damage: impl Fn(&mut Img),
    expected: &[Id],
) {
    for kind in KINDS {
        let good = Img::with_tree(kind);
        if !kinds(&good) {
            continue;
        }
        let mut img = good.copy();
        damage(&mut img);
        let what = format!("{name} on {:?} {:?}", good.g.format, good.g.endian);
        if let Err(why) = preen(&img).and_then(|()| one(&img, expected)) {
            FAILED.with_borrow_mut(|f| f.push(format!("{what}: {why}")));
        }
    }
}

fn one(img: &Img, expected: &[Id]) -> Result<(), String> {
    let fail = |ok: bool, why: String| if ok { Ok(()) } else { Err(why) };
    let before = img.bytes();
    let look = img.fsck(FsckOptions::no());
    fail(!look.is_silent(), "not found".into())?;
    fail(img.bytes() == before, "-n wrote".into())?;
    let repair = img.fsck(FsckOptions::yes());
    let mut ids: Vec<Id> = repair.findings.iter().map(|f| f.id).collect();
    ids.dedup();
    let all = list(&repair.findings);
    fail(ids == expected, format!("{ids:?}, expected {expected:?}:{all}"))?;
    let good = repair.exit_code == exit::OK && repair.clean && repair.modified;
    fail(good && repair.findings.iter().all(|f| f.repaired), format!("not repaired:{all}"))?;
    let again = img.fsck(FsckOptions::no());
    fail(again.is_silent(), format!("second run:{} after{all}", list(&again.findings)))?;
    let yes = img.bytes();
    fail(!img.fsck(FsckOptions::yes()).modified, "a silent run wrote".into())?;
    fail(img.bytes() == yes, "a silent run changed the image".into())
}

/// Checks that preen repairs benign findings and refuses all others without a write, repeatably in
/// both cases.
fn preen(img: &Img) -> Result<(), String> {
    let fail = |ok: bool, why: String| if ok { Ok(()) } else { Err(why) };
    let copy = img.copy();
    let before = copy.bytes();
    let report = copy.fsck(FsckOptions::preen());
    let all = list(&report.findings);
    if report.findings.iter().any(|f| f.severity == Severity::Fatal) {
        fail(report.exit_code == exit::ERROR, format!("preen: exit {}{all}", report.exit_code))?;
        return fail(!report.modified && copy.bytes() == before, "preen refused and wrote".into());
    }
    fail(report.exit_code == exit::OK, format!("preen: exit {}{all}", report.exit_code))?;
    let second = img.copy();
    second.fsck(FsckOptions::preen());
    fail(second.bytes() == copy.bytes(), "preen is no function of the image".into())?;
    for options in [FsckOptions::preen(), FsckOptions::no()] {
        let again = copy.fsck(options).findings;
        let quiet = again.iter().all(|f| f.id == DupName);
        fail(quiet, format!("after preen:{}{all}", list(&again)))?;
    }
    Ok(())
}

/// Findings that follow from changed allocations.
const SUMS: [Id; 3] = [CgSummary, CsCg, CsTotal];

fn then(first: &[Id], rest: &[Id]) -> Vec<Id> {
    first.iter().chain(rest).copied().collect()
}

#[test]
fn groups() {
    defect("magic", |i| i.edit_group(1, |g, b| put(b, 4, g.endian, 7u32)), &[CgMagic]);
    defect("cgx", |i| i.edit_group(1, |g, b| put(b, 12, g.endian, 0u32)), &[CgMagic]);
    defect("freeoff", |i| i.edit_group(0, |g, b| put(b, 96, g.endian, 9u32)), &[CgMagic]);
    defect("ndblk", |i| i.edit_group(0, |g, b| put(b, 20, g.endian, 99u32)), &[CgMagic]);
    let ufs2 = |i: &Img| i.g.format == Format::Ufs2;
    defect_where(
        "initediblk",
        ufs2,
        |i| i.edit_group(0, |g, b| put(b, 120, g.endian, 0u32)),
        &[CgMagic],
    );
    defect_where(
        "hash",
        ufs2,
        |i| {
            let at = i.group_at(1) + 132;
            i.write(at, &[1, 2, 3, 4]);
        },
        &[CgHash],
    );
    verdict();
}

#[test]
fn counts() {
    let spot = |i: &mut Img, off: usize| i.edit_group(0, |g, b| put(b, off, g.endian, 1u32));
    for off in [28, 32, 36, 56, 60] {
        defect("count", |i| spot(i, off), &[CgSummary]);
    }
    defect("rotor", |i| i.edit_group(0, |g, b| put(b, 40, g.endian, u32::MAX)), &[CgSummary]);
    defect(
        "summary area",
        |i| {
            let at = i.g.frag_to_byte(i.g.csaddr);
            i.write(at, &[9, 9, 9, 9]);
        },
        &[CsCg],
    );
    defect(
        "leaked block",
        |i| {
            let free = last_free_block(i, 1);
            i.edit_group(1, |g, b| CgMut::new(g, b).set_block_free(free, false));
        },
        &[CgLeak],
    );
    defect(
        "leaked inode",
        |i| i.edit_group(0, |g, b| CgMut::new(g, b).set_inode_used(9, true)),
        &[CgLeak],
    );
    defect(
        "used inode marked free",
        |i| {
            let ino = i.ino("a");
            i.edit_group(0, |g, b| CgMut::new(g, b).set_inode_used(ino, false));
        },
        &[CgAllocFree],
    );
    defect(
        "used block marked free",
        |i| {
            let at = i.inode(i.ino("a/blocks")).db[1] as u32 / i.g.frag;
            i.edit_group(0, |g, b| CgMut::new(g, b).set_block_free(at, true));
        },
        &[CgAllocFree],
    );
    defect_where(
        "cluster bit",
        |i| i.g.contigsumsize > 0,
        |i| {
            let free = last_free_block(i, 1);
            i.edit_group(1, |g, b| CgMut::new(g, b).set_cluster_free(free, false));
        },
        &[CgMaps],
    );
    defect(
        "padding",
        |i| {
            let end = i.g.cgsize as usize;
            i.edit_group(1, |_, b| b[end - 1] = 1);
        },
        &[CgMaps],
    );
    verdict();
}

fn last_free_block(i: &Img, c: u32) -> u32 {
    let b = i.read(i.group_at(c), i.g.cgsize as usize);
    let view = ffs_ondisk::Cg::new(&i.g, &b);
    (0..view.nblocks()).rev().find(|&n| view.block_free(n)).unwrap()
}

#[test]
fn inodes() {
    let freed = then(&[EntUnalloc, CgLeak], &SUMS);
    let clear = |id| then(&[id], &freed);
    defect("type", |i| i.edit(i.ino("a/blocks"), |d| d.mode = 0o170_644), &clear(InoType));
    defect("size", |i| i.edit(i.ino("a/blocks"), |d| d.size = 1 << 62), &clear(InoSize));
    // A fifo has no blocks to free.
    let special = then(&[InoSpecial, EntUnalloc, CgLeak], &SUMS);
    defect("fifo size", |i| i.edit(i.ino("a/fifo"), |d| d.size = 5), &special);
    defect("device", |i| i.edit(i.ino("a/dev"), |d| d.db[0] = -1), &special);
    defect("past the end", |i| i.edit(i.ino("a/blocks"), |d| d.db[8] = 77), &[InoPastEnd]);
    defect("root past the end", |i| i.edit(i.ino("a/blocks"), |d| d.ib[1] = 77), &[InoPastEnd]);
    defect("fifo pointer", |i| i.edit(i.ino("a/fifo"), |d| d.db[0] = 77), &[InoPastEnd]);
    defect("block count", |i| i.edit(i.ino("a/blocks"), |d| d.blocks = 3), &[InoBlocks]);
    defect("link count of 0", |i| i.edit(i.ino("small"), |d| d.nlink = 0), &[LinkLow]);
    defect("link count too low", |i| i.edit(i.ino("a/hard"), |d| d.nlink = 1), &[LinkLow]);
    defect("link count too high", |i| i.edit(i.ino("a"), |d| d.nlink = 9), &[LinkHigh]);
    defect(
        "free inode with a pointer",
        |i| {
            let at = i.inode_at(9) + if i.g.format == Format::Ufs1 { 40 } else { 112 };
            i.write(at, &[5; 8]);
        },
        &[InoPartial],
    );
    defect_where(
        "check hash",
        |i| i.g.format == Format::Ufs2,
        |i| {
            let at = i.inode_at(i.ino("small")) + 244;
            i.write(at, &[1, 1, 1, 1]);
        },
        &[InoHash],
    );
    defect(
        "hole at the end",
        |i| {
            let d = i.inode(i.ino("a/b/indirect"));
            i.set_slot(d.ib[0], 2, 0);
        },
        &then(&[InoEndHole, InoBlocks, CgLeak], &SUMS),
    );
    defect(
        "pointers past the end in an indirect block",
        |i| {
            let d = i.inode(i.ino("a/b/indirect"));
            i.set_slot(d.ib[0], 40, 12345);
        },
        &[IndTrunc],
    );
    defect_where(
        "attribute size",
        |i| i.g.format == Format::Ufs2,
        |i| i.edit(i.ino("small"), |d| d.extsize = 100),
        &[Ext],
    );
    defect_where(
        "attribute pointer",
        |i| i.g.format == Format::Ufs2,
        |i| i.edit(i.ino("small"), |d| d.extb[1] = 100),
        &[Ext],
    );
    verdict();
}

/// A malformed record hides all later ones, and a file system refuses operations on the file.
#[test]
fn records_of_attributes_are_checked() {
    for kind in KINDS {
        let mut good = Img::with_tree(kind);
        if good.g.format != Format::Ufs2 {
            continue;
        }
        let (endian, b) = (good.g.endian, good.g.bsize as usize);
        let mut area = Vec::new();
        for (name, len) in [(b"first", 20), (b"other", b / 2), (b"third", b / 2 + 100)] {
            let (ns, value) = (extattr::Namespace::User, vec![7; len]);
            area = extattr::set(endian, &area, ns, name, &value, 2 * b).unwrap();
        }
        let ino = good.ino("small");
        good.attributes(ino, &area);
        good.fsck(FsckOptions::yes());
        good.silent();
        let starts: Vec<usize> =
            extattr::records(endian, &area).map(|record| record.unwrap().off).collect();
        for (record, off) in starts.into_iter().enumerate() {
            let img = good.copy();
            let at = img.inode(ino).extb[off / b] as u64 * u64::from(img.g.fsize);
            img.write(at + (off % b) as u64, &[0xff; 4]);
            preen(&img).unwrap();
            let freed = then(&[Ext, CgLeak], &SUMS);
            one(&img, &freed).unwrap();
            let d = img.inode(ino);
            assert_eq!(d.extsize as usize, off, "record {record}");
            assert_eq!(d.extb.map(|p| p != 0), [off > 0, off > b]);
            let kept = &area[..off];
            assert_eq!(extattr::records(endian, kept).filter(|r| r.is_ok()).count(), record);
        }
    }
}

#[test]
fn blocks() {
    let lost = then(&[BlkBad, InoBlocks, CgLeak], &SUMS);
    for bad in [-5i64, 1, 20_000_000, i64::from(i32::MAX)] {
        defect("bad pointer", |i| i.edit(i.ino("a/blocks"), |d| d.db[2] = bad), &lost);
    }
    defect(
        "bad pointer in an indirect block",
        |i| {
            let d = i.inode(i.ino("a/b/indirect"));
            i.set_slot(d.ib[0], 0, 3);
        },
        &lost,
    );
    defect("unaligned block", |i| i.edit(i.ino("a/blocks"), |d| d.db[2] += 1), &lost);
    defect(
        "garbage pointers",
        |i| {
            let n = i.ino("a/b/indirect");
            i.edit(n, |d| d.db = [3; 12]);
        },
        &then(&[BlkBad, EntDupBad, InoBadDup, CgLeak], &SUMS),
    );
    defect(
        "directory with a hole",
        |i| i.edit(i.ino("a/b"), |d| d.db[0] = 0),
        &then(
            &[
                DirHole, EntZeroDir, DirUnref, LfCreate, DirClear, LinkHigh, InoUnref, LinkHigh,
                CgLeak,
            ],
            &SUMS,
        ),
    );
    verdict();
}

#[test]
fn contested_blocks_are_copied() {
    for kind in KINDS {
        let good = Img::with_tree(kind);
        let img = good.copy();
        let first = img.inode(img.ino("small")).db[0];
        let (n, m) = (img.ino("a/blocks"), img.ino("a/b/indirect"));
        img.edit(n, |d| d.db[5] = first);
        let other = img.inode(n).ib[0];
        assert_eq!(other, 0);
        let shared = img.inode(n).db[0];
        img.edit(m, |d| d.ib[0] = shared);
        let content: Vec<_> = img.tree().into_iter().map(|(p, i)| (p, i.content)).collect();
        let what = format!("dups on {:?}", good.g.format);
        preen(&img).unwrap();
        let report = img.fsck(FsckOptions::yes());
        assert_eq!(report.exit_code, exit::OK, "{what} {:#?}", report.findings);
        assert!(report.counts.contains_key(&BlkDup), "{what} {:#?}", report.findings);
        let again = img.fsck(FsckOptions::no());
        assert!(again.is_silent(), "{what} {:#?}", again.findings);
        let after: Vec<_> = img.tree().into_iter().map(|(p, i)| (p, i.content)).collect();
        for (was, is) in content.iter().zip(&after) {
            // The shared block contained data, so it is invalid as an indirect block.
            if was.0 != "/a/b/indirect" {
                assert_eq!(was, is, "{what}");
            }
        }
    }
    verdict();
}

#[test]
fn directories() {
    defect("short", |i| i.edit(i.ino("a/b/empty"), |d| d.size = 12), &[DirShort]);
    defect("odd size", |i| i.edit(i.ino("a/b/empty"), |d| d.size = 500), &[DirMult]);
    let entry = |i: &Img, dir: &str, name: &str| i.entry(i.ino(dir), name).0;
    defect(
        "dot",
        |i| {
            let at = entry(i, "a/b", ".");
            i.write(at, &[0, 0, 2, 0]);
        },
        &[DotBad],
    );
    defect("dot type", |i| i.write(entry(i, "a/b", ".") + 6, &[8]), &[DotType]);
    defect("dotdot type", |i| i.write(entry(i, "a/b", "..") + 6, &[8]), &[DotDotType]);
    defect("type", |i| i.write(entry(i, "a", "blocks") + 6, &[4]), &[EntType]);
    defect(
        "dotdot",
        |i| {
            let at = entry(i, "a/b", "..");
            let mut two = [0; 4];
            put(&mut two, 0, i.g.endian, 2u32);
            i.write(at, &two);
        },
        &[DotDotWrong],
    );
    defect(
        "dot is another name",
        |i| i.write(entry(i, "a/b", ".") + 8, b"x"),
        &[DotMissing, EntHardDir],
    );
    defect(
        "no dotdot",
        |i| i.write(entry(i, "a/b", "..") + 8, b"xy"),
        &[EntHardDir, DotDotMissing],
    );
    let out = |i: &mut Img| {
        let at = entry(i, "a", "blocks");
        i.write(at, &[0x7f; 4]);
    };
    defect("range", out, &then(&[EntRange, InoUnref, LfCreate], &SUMS));
    defect(
        "whiteout",
        |i| i.write(entry(i, "a", "blocks") + 6, &[14]),
        &then(&[EntWhiteout, InoUnref, LfCreate], &SUMS),
    );
    defect(
        "unallocated",
        |i| {
            let ino = i.ino("a/b/empty");
            i.write(i.inode_at(ino), &vec![0; i.g.format.dinode_size()]);
        },
        &then(&[EntUnalloc, LinkHigh, CgLeak], &SUMS),
    );
    defect(
        "slash in a name",
        |i| i.write(entry(i, "a", "blocks") + 9, b"/"),
        &then(&[DirCorrupt, InoUnref, LfCreate], &SUMS),
    );
    defect(
        "record length",
        |i| i.write(entry(i, "a", "blocks") + 4, &[0, 0]),
        // The rest of the directory block is lost: files are reconnected, the fifo and the device
        // (size 0) are cleared.
        &then(&[DirCorrupt, InoUnref, LfCreate, LinkHigh, InoUnref, CgLeak], &SUMS),
    );
    defect("extra dot", |i| i.add_entry(i.ino("a/b"), b".", 5, 4), &[DotExtra]);
    defect("extra dotdot", |i| i.add_entry(i.ino("a/b"), b"..", 5, 4), &[DotDotExtra]);
    verdict();
}

#[test]
fn names() {
    defect(
        "second name of a directory",
        |i| i.add_entry(2, b"again", i.ino("a/b"), 4),
        &[EntHardDir],
    );
    defect(
        "the same file twice",
        |i| {
            i.add_entry(2, b"small", i.ino("small"), 8);
            i.edit(i.ino("small"), |d| d.nlink = 2);
        },
        &[DupName, LinkHigh],
    );
    defect(
        "two files of one name",
        |i| {
            i.add_entry(2, b"small", i.ino("a/hard"), 8);
            i.edit(i.ino("a/hard"), |d| d.nlink = 3);
        },
        &[DupName],
    );
    defect(
        "unreferenced directory",
        |i| {
            let (at, _) = i.entry(i.ino("a"), "b");
            i.write(at, &[0; 4]);
        },
        &then(&[DirUnref, LfCreate, LinkHigh], &SUMS),
    );
    defect(
        "circle",
        |i| {
            let (a, e) = (i.ino("a/b"), i.ino("a/b/empty"));
            let (at, _) = i.entry(i.ino("a"), "b");
            i.write(at, &[0; 4]);
            let (dots, _) = i.entry(a, "..");
            let mut raw = [0; 4];
            put(&mut raw, 0, i.g.endian, e);
            i.write(dots, &raw);
            i.add_entry(e, b"up", a, 4);
            i.edit(e, |d| d.nlink = 3);
            i.edit(i.ino("a"), |d| d.nlink -= 1);
        },
        &then(&[DirLoop, LfCreate, LinkHigh], &SUMS),
    );
    verdict();
}

#[test]
fn roots() {
    defect("root type", |i| i.edit(2, |d| d.mode = 0o100_644), &[RootType]);
    defect("root mode", |i| i.edit(2, |d| d.mode = 0o070_644), &[RootType]);
    defect("root mode 0", |i| i.edit(2, |d| d.mode = 0), &[RootUnalloc]);
    verdict();
}
