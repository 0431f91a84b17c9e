//! The soft-updates journal: making it, and hostile ones.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test")]

use std::sync::Arc;

use crate::fsck_util::suj::{
    MOUNT, crashed, edit_superblock, kinds, on, preen, record, superblock,
};
use crate::fsck_util::{Img, KINDS, Kind};
use ffs_admin::fsck::{Fsck, FsckOptions, JournalUse, Mode, exit};
use ffs_admin::tunefs::{TunefsOptions, tunefs};
use ffs_device::record::{Event, Level, Recorder};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::journal::{self, Blk, Record, Ref, SegHeader, Trunc};
use ffs_ondisk::superblock::FsFlags;
use ffs_ondisk::{Cg, CgNo, FileFlags, FragNo, Ino};
use ffs_testkit::fixtures;

/// Asserts that the journal is refused, for a reason that contains `why`, and that the full check
/// that follows leaves the tree as it was.
fn refused(img: &Img, why: &str) {
    let before = img.tree();
    let report = preen(img);
    match &report.journal {
        Some(JournalUse::Unusable(reason)) => assert!(reason.contains(why), "{reason}"),
        other => panic!("{why}: {other:?}"),
    }
    assert_eq!((report.exit_code, report.clean), (exit::OK, true), "{why}: {report:#?}");
    assert_eq!(img.tree(), before, "{why}");
    img.silent();
}

#[test]
fn an_empty_journal_is_recovered_without_a_check() {
    for kind in kinds() {
        let img = crashed(kind);
        let before = img.tree();
        let report = preen(&img);
        assert!(matches!(report.journal, Some(JournalUse::Recovered(_))), "{report:?}");
        assert!(report.clean && report.exit_code == exit::OK && report.findings.is_empty());
        assert_eq!(img.tree(), before);
        img.silent();
        let sb = superblock(&img);
        assert!(sb.is_clean() && sb.flags().contains(FsFlags::SUJ | FsFlags::DOSOFTDEP));
        assert_ne!(sb.f.mtime, MOUNT, "the journal is not used again");
    }
}

#[test]
fn a_journal_is_made_as_freebsds_tunefs_makes_it() {
    for kind in kinds() {
        let img = Img::with_tree(kind);
        let before = img.tree();
        let report = tunefs(&*img.dev, &on()).unwrap();
        let changes: Vec<_> = report.changes.iter().map(ToString::to_string).collect();
        assert_eq!(changes, ["soft updates journaling changes from disabled to enabled"]);
        let ino = img.ino(".sujournal");
        let d = img.inode(ino);
        let flags = FileFlags::SF_IMMUTABLE | FileFlags::SF_NOUNLINK | FileFlags::UF_NODUMP;
        assert_eq!((d.mode, d.nlink, d.flags), (0o100_400, 1, flags));
        assert_eq!((d.size, d.uid, d.gid), (4 << 20, 0, 0));
        let blocks = d.size / u64::from(img.g.bsize);
        let runs: Vec<_> = (0..blocks).map(|l| img.pointer(&d, l)).collect();
        let jumps = runs.windows(2).filter(|w| w[1] != w[0] + i64::from(img.g.frag)).count();
        assert!(jumps < 8, "the blocks are {jumps} times apart");
        let mut after = img.tree();
        after.remove("/.sujournal");
        let root = after.get_mut("").unwrap();
        root.size = before[""].size;
        assert_eq!(after, before);
        img.silent();
        let off = TunefsOptions { journal: Some(false), ..TunefsOptions::default() };
        tunefs(&*img.dev, &off).unwrap();
        tunefs(&*img.dev, &on()).unwrap();
        assert_eq!(img.ino(".sujournal"), ino, "the file is used again");
        img.silent();
    }
}

#[test]
fn sizes_of_journals_follow_freebsds_formula() {
    let img = Img::fresh((KINDS[3].0, KINDS[3].1, 32768, 4096, 64 << 20));
    for (size, bytes) in [(None, 4 << 20), (Some((9 << 20) + 5), 9 << 20)] {
        let copy = img.copy();
        tunefs(&*copy.dev, &TunefsOptions { journal_size: size, ..on() }).unwrap();
        assert_eq!(copy.inode(copy.ino(".sujournal")).size, bytes);
        copy.silent();
    }
    for (size, why) in [(1 << 20, "-S"), (1 << 40, "free space")] {
        let before = img.bytes();
        let error = tunefs(&*img.dev, &TunefsOptions { journal_size: Some(size), ..on() });
        assert!(error.unwrap_err().to_string().contains(why));
        assert!(img.bytes() == before);
    }
    let g = ffs_ondisk::Geometry { size: 1 << 40, ..img.g };
    let group = u64::from(g.fpg) * u64::from(g.fsize);
    assert_eq!(journal::default_size(&g), group.min(32 << 20));
}

/// An interruption leaves a volume that `fsck -p` repairs, with all its files.
#[test]
fn making_a_journal_may_be_interrupted_anywhere() {
    for kind in kinds() {
        let img = Img::with_tree(kind);
        let soft = TunefsOptions { soft_updates: Some(true), ..TunefsOptions::default() };
        tunefs(&*img.dev, &soft).unwrap();
        let before = img.tree();
        let dev = Recorder::with_level(img.dev.snapshot(), Level::Log);
        tunefs(&dev, &on()).unwrap();
        let now = img.dev.snapshot();
        let mut durable = img.dev.snapshot();
        let mut states = 0;
        let mut examine = |state: MemDevice| {
            let state = Img::of(&state.to_vec());
            let report = preen(&state);
            assert!(report.clean && report.exit_code == exit::OK, "{report:#?}");
            state.silent();
            let mut after = state.tree();
            after.remove("/.sujournal");
            after.get_mut("").unwrap().size = before[""].size;
            assert_eq!(after, before);
            states += 1;
        };
        let mut zeros = 0;
        for event in dev.take_events() {
            match event {
                Event::Write { offset, bytes, .. } => {
                    now.write_at(offset, &bytes).unwrap();
                    // The blocks of the journal belong to no file yet.
                    zeros += usize::from(bytes.iter().all(|b| *b == 0));
                    if zeros < 3 || bytes.iter().any(|b| *b != 0) {
                        examine(now.snapshot());
                        let alone = durable.snapshot();
                        alone.write_at(offset, &bytes).unwrap();
                        examine(alone);
                    }
                }
                Event::Flush { .. } => durable = now.snapshot(),
                _ => {}
            }
        }
        assert!(states > 10, "{states}");
    }
}

#[test]
fn journals_that_cannot_be_used_lead_to_a_full_check() {
    let kind = kinds().next().unwrap();
    let img = || crashed(kind);
    let v = img();
    edit_superblock(&v, |sb| sb.f.mtime += 1);
    refused(&v, "mounted or checked since");
    let v = img();
    v.edit(v.ino(".sujournal"), |d| d.flags = FileFlags::empty());
    refused(&v, "is no journal");
    let v = img();
    v.edit(v.ino(".sujournal"), |d| d.db[3] = 0);
    let report = preen(&v);
    assert!(matches!(report.journal, Some(JournalUse::Unusable(_))), "{report:?}");
    let v = img();
    v.edit_group(0, |g, b| ffs_ondisk::CgMut::new(g, b).set_rotor(0));
    let add = Ref { ino: 9, parent: 2, nlink: 0, mode: 0o100_644, diroff: 400, ..Ref::default() };
    record(&v, &[Record::AddRef(Ref { ino: v.g.inodes(), ..add.clone() })]);
    refused(&v, "inode number");
    let v = img();
    v.write(v.g.frag_to_byte(FragNo(v.inode(v.ino(".sujournal")).db[0] as u64)), &{
        let header = SegHeader { seq: 8, oldest: 7, time: MOUNT, ..SegHeader::default() };
        journal::segment(v.g.endian, 512, &header, &[Record::AddRef(add)]).unwrap()
    });
    refused(&v, "segment 7, the oldest one needed, is absent");
}

/// Records that are valid, but not of this volume: of a file with a name that the records do not
/// name, of blocks that other files use, of the root, of the journal.
#[test]
fn records_that_contradict_the_volume_are_refused() {
    for kind in kinds() {
        let img = crashed(kind);
        let (small, a) = (img.ino("small"), img.ino("a"));
        let sub = img.ino("a/b");
        let blocks = img.ino("a/blocks");
        let removed = |ino: u32, mode: u16, nlink: u16, diroff: i64| {
            Record::RemRef(Ref { ino, parent: 2, nlink, mode, diroff, ..Ref::default() })
        };
        let first = img.inode(blocks).db[0];
        let frags = img.g.frag as u16;
        let free = |ino: u32, lbn: i64, blkno: i64| {
            Record::FreeBlk(Blk { ino, lbn, blkno, frags, ..Blk::default() })
        };
        let cases: Vec<(&str, Vec<Record>)> = vec![
            ("names inode", vec![removed(small, 0o100_644, 1, 508)]),
            ("names inode", vec![removed(a, 0o040_755, 3, 480), removed(a, 0o040_755, 2, 484)]),
            ("more names removed", vec![removed(small, 0o100_644, 0, 508)]),
            (
                "links, by the records",
                vec![Record::AddRef(Ref {
                    ino: small,
                    parent: 2,
                    nlink: 5,
                    mode: 0o100_644,
                    diroff: 508,
                    ..Ref::default()
                })],
            ),
            ("which the volume needs", vec![removed(2, 0o040_755, 1, 508)]),
            // The block belongs to file `a/blocks`, which a record names, too.
            (
                "a block that the records free",
                vec![free(small, 5, first), free(blocks, 9, i64::from(img.g.dblkno) + first)],
            ),
            (
                "cannot be truncated",
                vec![Record::Trunc(Trunc { ino: sub, size: 100, ..Trunc::default() })],
            ),
        ];
        for (why, records) in cases {
            let v = img.copy();
            record(&v, &records);
            let before = v.tree();
            let report = preen(&v);
            match &report.journal {
                Some(JournalUse::Unusable(reason)) => {
                    let range = reason.contains("block") || reason.contains(why);
                    assert!(range, "{why}: {reason}");
                }
                other => panic!("{why}: {other:?}"),
            }
            assert!(report.clean, "{why}: {report:#?}");
            assert_eq!(v.tree(), before, "{why}");
            v.silent();
        }
    }
}

#[test]
fn lists_of_unlinked_inodes_are_emptied_or_refused() {
    for kind in kinds() {
        let img = crashed(kind);
        let (small, two) = (img.ino("small"), img.ino("a/two-frags"));
        // The names are removed, and the files are still open.
        for (dir, name) in [(2, "small"), (img.ino("a"), "two-frags")] {
            let (at, _) = img.entry(dir, name);
            img.write(at, &[0; 4]);
        }
        img.edit(small, |d| (d.nlink, d.freelink) = (0, two));
        img.edit(two, |d| d.nlink = 0);
        edit_superblock(&img, |sb| sb.f.sujfree = small as i32);
        for (next, why) in [(small, "twice"), (2, "names inode 2"), (img.g.inodes(), "names inode")]
        {
            let v = img.copy();
            v.edit(two, |d| d.freelink = next);
            refused(&v, why);
        }
        let report = preen(&img);
        let Some(JournalUse::Recovered(done)) = report.journal else { panic!("{report:?}") };
        assert_eq!((done.inodes, done.directories), (2, 0));
        assert_eq!(superblock(&img).f.sujfree, 0);
        img.silent();
        assert_eq!(img.inode(small).mode, 0);
    }
}

/// A removed directory whose name is not on the device any more, two unlinked open files, and a new
/// inode without a name.
fn interrupted_operations(kind: Kind) -> Img {
    let img = crashed(kind);
    let (b, empty) = (img.ino("a/b"), img.ino("a/b/empty"));
    let (small, two) = (img.ino("small"), img.ino("a/two-frags"));
    let place = |dir: u32, name: &str| {
        let (at, _) = img.entry(dir, name);
        at - img.inode(dir).db[0] as u64 * u64::from(img.g.fsize)
    };
    let off = place(b, "empty") as i64;
    for (dir, name) in [(2, "small"), (img.ino("a"), "two-frags"), (b, "empty")] {
        let (at, _) = img.entry(dir, name);
        img.write(at, &[0; 4]);
    }
    img.edit(small, |d| (d.nlink, d.freelink) = (0, two));
    img.edit(two, |d| d.nlink = 0);
    edit_superblock(&img, |sb| sb.f.sujfree = small as i32);
    let new = (10..).find(|&i| img.inode(i).mode == 0).unwrap();
    img.edit(new, |d| (d.mode, d.nlink) = (0o100_600, 1));
    img.edit_group(0, |g, b| ffs_ondisk::CgMut::new(g, b).set_inode_used(new, true));
    let mode = 0o040_755;
    let removed = |ino, parent, nlink, diroff| {
        Record::RemRef(Ref { ino, parent, nlink, mode, diroff, ..Ref::default() })
    };
    let links = img.inode(b).nlink;
    let add = Ref { ino: new, parent: 2, mode: 0o100_600, diroff: 508, ..Ref::default() };
    record(
        &img,
        &[
            removed(empty, b, 2, off),
            removed(empty, empty, 1, 0),
            removed(b, empty, links, 12),
            Record::AddRef(add),
        ],
    );
    img
}

#[test]
fn a_recovery_may_be_interrupted_anywhere() {
    for kind in kinds() {
        let img = interrupted_operations(kind);
        let dev = Arc::new(Recorder::with_level(img.dev.snapshot(), Level::Log));
        let options = || FsckOptions { mode: Mode::Preen, ..FsckOptions::default() }.at(MOUNT + 9);
        let report = Fsck::new(dev.clone() as Arc<dyn BlockDevice>, options()).run();
        let Some(JournalUse::Recovered(done)) = report.journal else { panic!("{report:?}") };
        assert_eq!((done.inodes, done.directories, done.links), (4, 1, 1), "{done:?}");
        let whole = Img::of(&dev.inner().snapshot().to_vec());
        whole.silent();
        let (now, mut states) = (img.dev.snapshot(), 0);
        for event in dev.take_events() {
            if let Event::Write { offset, bytes, .. } = event {
                now.write_at(offset, &bytes).unwrap();
                let state = Img::of(&now.to_vec());
                let report = preen(&state);
                assert!(report.clean && report.exit_code == exit::OK, "{report:#?}");
                state.silent();
                assert_eq!(state.tree(), whole.tree(), "after {states} writes");
                states += 1;
            }
        }
        assert!(states >= 4, "{states}");
    }
}

#[test]
fn a_forced_check_and_a_check_without_preen_use_no_journal() {
    let img = crashed(kinds().next().unwrap());
    let forced = FsckOptions { mode: Mode::Preen, force: true, ..FsckOptions::default() };
    for options in [forced, FsckOptions::yes(), FsckOptions::no()] {
        let copy = img.copy();
        let dev = copy.dev.clone() as Arc<dyn BlockDevice>;
        assert_eq!(Fsck::new(dev, options.at(MOUNT)).run().journal, None);
    }
}

/// The reads of a recovery do not grow with the volume.
#[test]
fn the_time_of_a_recovery_does_not_depend_on_the_size() {
    let reads = |bytes: u64| {
        let (endian, format, bsize, fsize, _) = KINDS[3];
        let img = Img::fresh((endian, format, bsize, fsize, bytes));
        tunefs(&*img.dev, &on()).unwrap();
        edit_superblock(&img, |sb| (sb.f.clean, sb.f.mtime) = (0, MOUNT));
        img.edit(img.ino(".sujournal"), |d| d.modrev = MOUNT as u64);
        let groups = u64::from(img.g.ncg);
        let dev = Arc::new(Recorder::with_level(img.dev.snapshot(), Level::Count));
        let options = FsckOptions { mode: Mode::Preen, ..FsckOptions::default() };
        let report = Fsck::new(dev.clone() as Arc<dyn BlockDevice>, options.at(MOUNT + 9)).run();
        assert!(matches!(report.journal, Some(JournalUse::Recovered(_))), "{report:?}");
        // One fragment of each group for the totals.
        dev.counters().read_bytes - groups * u64::from(fsize)
    };
    let (small, large) = (reads(64 << 20), reads(1 << 30));
    assert!(large < small + small / 8, "{small} {large}");
}

#[test]
fn the_journals_that_freebsd_made_are_recovered() {
    for name in ["suj-ufs2-64m", "suj-ufs1-64m"] {
        let Some(bytes) = fixtures::load(name) else { return };
        let img = Img::of(&bytes);
        let ino = img.ino(".sujournal");
        edit_superblock(&img, |sb| (sb.f.clean, sb.f.mtime) = (0, MOUNT));
        img.edit(ino, |d| d.modrev = MOUNT as u64);
        // A file whose creation the crash interrupted: only its inode and its map are on disk.
        let free = (4..).find(|&i| img.inode(i).mode == 0 && i != ino).unwrap();
        img.edit_group(0, |g, b| ffs_ondisk::CgMut::new(g, b).set_inode_used(free, true));
        let root = img.inode(2);
        let add = Ref { ino: free, parent: 2, mode: 0o100_644, ..Ref::default() };
        let diroff = root.size as i64 - 12;
        record(&img, &[Record::AddRef(Ref { diroff, ..add })]);
        let before = img.tree();
        let report = preen(&img);
        assert!(matches!(report.journal, Some(JournalUse::Recovered(_))), "{name} {report:?}");
        img.silent();
        assert_eq!(img.tree(), before);
        let group = img.read(img.group_at(0), img.g.cgsize as usize);
        assert!(!Cg::new(&img.g, &group).inode_used(img.g.ino_to_cgi(Ino(free))));
        assert!(ffs_ondisk::cg::validate(&img.g, CgNo(0), &group).is_ok());
    }
}
