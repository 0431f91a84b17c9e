//! Damaged superblocks, journals, soft updates, snapshots, failing devices.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::sync::Arc;

use crate::fsck_util::{Img, KINDS};
use ffs_admin::fsck::{Answer, Answers, Fsck, FsckOptions, Id, Mode, Phase, exit, quick_check};
use ffs_device::record::{Event, Recorder};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::superblock::FsFlags;
use ffs_ondisk::{CgNo, FileFlags, Format, Superblock};
use ffs_testkit::fixtures;

fn ids(img: &Img, options: FsckOptions) -> (Vec<Id>, u8) {
    let report = img.fsck(options);
    let mut ids: Vec<Id> = report.findings.iter().map(|f| f.id).collect();
    ids.dedup();
    (ids, report.exit_code)
}

fn home(img: &Img) -> u64 {
    match img.g.format {
        Format::Ufs1 => 8192,
        Format::Ufs2 => 65536,
    }
}

fn edit_superblock(img: &Img, change: impl FnOnce(&mut Superblock)) {
    let at = home(img);
    let mut sb = Superblock::decode(&img.read(at, 8192), at).unwrap();
    change(&mut sb);
    img.write(at, &sb.encode());
}

#[test]
fn kf2_01_a_destroyed_superblock_is_replaced_by_a_backup() {
    for kind in KINDS {
        let img = Img::with_tree(kind);
        let tree = img.tree();
        img.write(home(&img), &[0; 8192]);
        let before = img.bytes();
        let report = img.fsck(FsckOptions::preen());
        assert_eq!(report.exit_code, exit::ERROR, "{:#?}", report.findings);
        assert!(img.bytes() == before);
        assert!(img.fsck(FsckOptions::no()).counts.contains_key(&Id::SbBad));
        let report = img.fsck(FsckOptions::yes());
        assert_eq!(report.exit_code, exit::OK, "{:#?}", report.findings);
        img.silent();
        assert_eq!(img.tree(), tree);
    }
}

#[test]
fn kf2_01_one_bad_field_takes_the_constants_of_a_backup() {
    for kind in KINDS {
        for (off, value) in [(48u64, 0u8), (56, 3), (120, 0xee), (44, 0xff), (188, 1)] {
            let img = Img::with_tree(kind);
            let tree = img.tree();
            img.write(home(&img) + off, &[value; 4]);
            let report = img.fsck(FsckOptions::yes());
            assert_eq!(report.exit_code, exit::OK, "{kind:?} {off}: {:#?}", report.findings);
            assert!(
                report.counts.contains_key(&Id::SbBad),
                "{kind:?} {off}: {:#?}",
                report.findings
            );
            img.silent();
            assert_eq!(img.tree(), tree);
        }
    }
}

#[test]
fn kf1_08_a_torn_superblock_is_repaired_even_by_preen() {
    let img = Img::with_tree(KINDS[0]);
    edit_superblock(&img, |sb| sb.f.clean = 0);
    // The second sector is from another time: totals and time.
    img.write(home(&img) + 1072, &[7; 4]);
    assert_eq!(ids(&img, FsckOptions::preen()), (vec![Id::SbTorn], exit::OK));
    img.silent();
}

/// A volume with soft updates, a torn superblock, and a file without a name.
fn torn_with_lost_file() -> (Img, u32) {
    let mut img = Img::with_tree(KINDS[0]);
    edit_superblock(&img, |sb| {
        sb.f.clean = 0;
        sb.set_flags(sb.flags() | FsFlags::DOSOFTDEP);
    });
    let lost = img.file(2, "lost", 5000);
    let (at, _) = img.entry(2, "lost");
    img.write(at, &[0; 4]);
    img.write(home(&img) + 1072, &[7; 4]);
    (img, lost)
}

#[test]
fn a_torn_superblock_still_shows_that_soft_updates_are_kept() {
    let (img, lost) = torn_with_lost_file();
    let (ids, code) = ids(&img, FsckOptions::preen());
    assert_eq!(code, exit::OK, "{ids:?}");
    assert!(ids.contains(&Id::SbTorn) && ids.contains(&Id::InoUnref), "{ids:?}");
    assert!(!ids.contains(&Id::LfCreate), "what has no name is cleared, not reconnected: {ids:?}");
    assert_eq!(img.inode(lost).mode, 0);
    img.silent();
}

/// The first write of the repair is the superblock. With a mark in it that the volume was mounted
/// without soft updates, the next check would reconnect what this one clears.
#[test]
fn a_check_of_a_torn_superblock_that_is_interrupted_clears_the_same_the_next_time() {
    let (img, lost) = torn_with_lost_file();
    let copy = Arc::new(Recorder::new(img.dev.snapshot()));
    let report = Fsck::new(Arc::clone(&copy) as _, FsckOptions::preen()).run();
    assert_eq!(report.exit_code, exit::OK);
    let first = copy.take_events().into_iter().find_map(|event| match event {
        Event::Write { offset, bytes, .. } => Some((offset, bytes)),
        _ => None,
    });
    let (offset, bytes) = first.unwrap();
    assert_eq!(offset, home(&img));
    img.write(offset, &bytes);
    let (ids, code) = ids(&img, FsckOptions::preen());
    assert_eq!(code, exit::OK, "{ids:?}");
    assert!(ids.contains(&Id::InoUnref) && !ids.contains(&Id::LfCreate), "{ids:?}");
    assert_eq!(img.inode(lost).mode, 0);
    img.silent();
}

#[test]
fn a_damaged_backup_is_written_again() {
    for kind in KINDS {
        let img = Img::with_tree(kind);
        let at = img.g.frag_to_byte(img.g.cgsblock(CgNo(img.g.ncg - 1)));
        img.write(at + 1372, &[0; 4]);
        assert_eq!(ids(&img, FsckOptions::preen()).1, exit::ERROR);
        assert_eq!(ids(&img, FsckOptions::yes()), (vec![Id::SbAlternate], exit::OK));
        img.silent();
    }
}

#[test]
fn fields_with_a_substitute_are_repaired() {
    for kind in KINDS {
        let img = Img::with_tree(kind);
        edit_superblock(&img, |sb| {
            sb.f.optim = 7;
            sb.f.minfree = -3;
        });
        assert_eq!(ids(&img, FsckOptions::yes()), (vec![Id::SbField], exit::OK));
        img.silent();
        let img = Img::with_tree(kind);
        edit_superblock(&img, |sb| sb.f.cstotal = [1, 2, 3, 4, 0]);
        assert_eq!(ids(&img, FsckOptions::preen()), (vec![Id::CsTotal], exit::OK));
        img.silent();
    }
}

#[test]
fn kf2_03_a_backup_can_be_named_and_stale_hash_bits_are_dropped() {
    let img = Img::with_tree(KINDS[0]);
    let block = img.g.frag_to_byte(img.g.cgsblock(CgNo(1))) / 512;
    let options = FsckOptions { superblock: Some(block), ..FsckOptions::no() };
    assert!(ids(&img, options).0.contains(&Id::SbBad));
    edit_superblock(&img, |sb| {
        sb.f.metackhash = 7;
        sb.set_flags(sb.flags() - FsFlags::METACKHASH);
    });
    assert_eq!(ids(&img, FsckOptions::preen()), (vec![Id::SbCkhash], exit::OK));
    img.silent();
}

#[test]
fn a_clean_volume_is_skipped_and_a_dirty_one_marked_clean() {
    let img = Img::with_tree(KINDS[1]);
    let dev: Arc<dyn BlockDevice> = img.dev.clone();
    let preen = || FsckOptions { mode: Mode::Preen, ..FsckOptions::default() };
    let report = Fsck::new(dev.clone(), preen()).run();
    assert!(report.skipped && report.clean && report.totals.files > 5, "{report:?}");
    for flags in [FsFlags::empty(), FsFlags::NEEDSFSCK, FsFlags::UNCLEAN] {
        edit_superblock(&img, |sb| {
            sb.f.clean = 0;
            sb.set_flags(sb.flags() | flags);
        });
        assert!(quick_check(&dev).is_empty(), "not being clean is no finding");
        let report = Fsck::new(dev.clone(), preen()).run();
        assert!(!report.skipped && report.clean && report.modified, "{report:?}");
        let report = Fsck::new(dev.clone(), preen()).run();
        assert!(report.skipped, "{report:?}");
    }
}

#[test]
fn soft_updates_leftovers_are_cleared_by_preen_in_one_run() {
    for kind in KINDS {
        let mut img = Img::with_tree(kind);
        edit_superblock(&img, |sb| sb.set_flags(sb.flags() | FsFlags::DOSOFTDEP));
        // A removed directory tree whose inodes remain, with a file that also has a name elsewhere.
        let (at, _) = img.entry(img.ino("a"), "b");
        img.write(at, &[0; 4]);
        // A file that was created and never named, and one that was removed while open.
        let lost = img.file(2, "lost", 5000);
        let (at, _) = img.entry(2, "lost");
        img.write(at, &[0; 4]);
        let open = img.file(2, "open", 100);
        let (at, _) = img.entry(2, "open");
        img.write(at, &[0; 4]);
        img.edit(open, |d| d.nlink = 0);
        let kept = img.tree();
        let report = img.fsck(FsckOptions::preen());
        assert_eq!(report.exit_code, exit::OK, "{:#?}", report.findings);
        let count = |id| report.counts.get(&id).copied().unwrap_or(0);
        assert_eq!(count(Id::DirUnref), 1, "{:#?}", report.findings);
        assert_eq!(count(Id::DirClear), 2, "{:#?}", report.findings);
        assert_eq!(count(Id::InoUnref), 3, "{:#?}", report.findings);
        assert_eq!(count(Id::InoUnref0), 1, "{:#?}", report.findings);
        img.silent();
        for ino in [lost, open] {
            assert_eq!(img.inode(ino).mode, 0);
        }
        let left = img.tree();
        assert!(kept.keys().eq(left.keys()), "{:?} {:?}", kept.keys(), left.keys());
        assert_eq!(left["/a/hard"].nlink, 1);
        assert_eq!(left["/a"].nlink, 2);
    }
}

#[test]
fn orphans_are_kept_on_request() {
    let mut img = Img::with_tree(KINDS[0]);
    edit_superblock(&img, |sb| sb.set_flags(sb.flags() | FsFlags::DOSOFTDEP));
    let (at, _) = img.entry(img.ino("a"), "b");
    img.write(at, &[0; 4]);
    let lost = img.file(2, "lost", 5000);
    let (at, _) = img.entry(2, "lost");
    img.write(at, &[0; 4]);
    let options = FsckOptions { keep_orphans: true, ..FsckOptions::preen() };
    assert_eq!(ids(&img, options).1, exit::OK);
    img.silent();
    let tree = img.tree();
    let name = tree.iter().find(|(_, i)| i.ino == lost).map(|(p, _)| p.clone());
    assert!(name.is_some_and(|n| n.starts_with("/lost+found/#0")), "{:?}", tree.keys());
    assert!(tree.keys().any(|k| k.ends_with("/indirect")));
    assert_eq!(tree["/lost+found"].mode, 0o041_777);
}

#[test]
fn kf2_14_the_journals_list_of_unlinked_inodes_goes_and_the_journal_stays() {
    for name in ["suj-ufs2-64m", "suj-ufs1-64m"] {
        let Some(raw) = fixtures::load(name) else { continue };
        let mut img = Img::of(&raw);
        let open = img.file(2, "open", 100);
        let (at, _) = img.entry(2, "open");
        img.write(at, &[0; 4]);
        img.edit(open, |d| d.nlink = 0);
        edit_superblock(&img, |sb| {
            sb.f.sujfree = open as i32;
            sb.f.clean = 0;
        });
        let journal = img.tree()["/.sujournal"].clone();
        let modrev = img.inode(journal.ino).modrev;
        let report = img.fsck(FsckOptions::preen());
        assert_eq!(report.exit_code, exit::OK, "{:#?}", report.findings);
        assert!(report.counts.contains_key(&Id::SujChain));
        img.silent();
        assert_eq!(img.tree()["/.sujournal"], journal);
        let sb = Superblock::decode(&img.read(home(&img), 8192), home(&img)).unwrap();
        assert_eq!(sb.f.sujfree, 0);
        assert_ne!(sb.f.mtime as u64, modrev, "no system may replay the journal now");
    }
}

#[test]
fn kf2_13_a_freed_block_goes_to_the_snapshot_that_reads_it() {
    let Some(raw) = fixtures::load("nb-ufs2-snap") else { return };
    let img = Img::of(&raw);
    let flagged = |d: &ffs_ondisk::Dinode| d.flags.contains(FileFlags::SF_SNAPSHOT);
    let tree = img.tree();
    let snaps = tree.values().filter(|i| flagged(&img.inode(i.ino))).count();
    assert_eq!(snaps, 2);
    // A file loses its name: its whole blocks that the snapshots read in place must stay in use.
    let frag = u64::from(img.g.frag);
    let snap = img.inode(img.ino(".snap/s1"));
    let read_in_place = |d: &ffs_ondisk::Dinode| {
        let whole = d.size / u64::from(img.g.bsize);
        (0..whole.min(12)).any(|l| {
            let at = img.pointer(d, l) as u64;
            at > 0 && at.is_multiple_of(frag) && img.pointer(&snap, at / frag) == 0
        })
    };
    let Some((path, item)) = tree.iter().find(|(p, i)| {
        let d = img.inode(i.ino);
        i.nlink == 1 && d.mode >> 12 == 8 && !flagged(&d) && read_in_place(&d) && p.len() > 1
    }) else {
        panic!("the fixture has no such file");
    };
    let slash = path.rfind('/').unwrap();
    let dir = if slash == 0 { 2 } else { tree[&path[..slash]].ino };
    let (at, _) = img.entry(dir, &path[slash + 1..]);
    img.write(at, &[0; 4]);
    img.edit(item.ino, |d| d.nlink = 0);
    let pointers = ["s1", "s2"].map(|s| img.inode(img.ino(&format!(".snap/{s}"))).ib[0]);
    let views: Vec<_> = ["s1", "s2"].map(|s| view(&img, &format!(".snap/{s}"))).into();
    let report = img.fsck(FsckOptions::preen());
    assert_eq!(report.exit_code, exit::OK, "{:#?}", report.findings);
    for (name, was) in ["s1", "s2"].iter().zip(&views) {
        let is = view(&img, &format!(".snap/{name}"));
        // As in FreeBSD, a snapshot has no copies of blocks of pointers of snapshots: no file of
        // its image has them.
        let own = |l: &usize| pointers.contains(&(*l as i64 * img.g.frag as i64));
        let differ: Vec<usize> =
            (0..was.len()).filter(|&l| was[l] != is[l]).filter(|l| !own(l)).collect();
        assert!(differ.is_empty(), "blocks of {name}: {differ:?}");
    }
    let given = report.findings.iter().filter(|f| f.message.contains("snapshot")).count();
    assert!(given > 0, "{:#?}", report.findings);
    img.silent();
}

/// The content of a snapshot for every block of the volume.
fn view(img: &Img, path: &str) -> Vec<Vec<u8>> {
    let d = img.inode(img.ino(path));
    let (bsize, frag) = (img.g.bsize as usize, u64::from(img.g.frag));
    let block = |l: u64| match img.pointer(&d, l) as u64 {
        0 => img.read(l * bsize as u64, bsize),
        p if p < frag => vec![0; bsize],
        p => img.read(p * u64::from(img.g.fsize), bsize),
    };
    (0..img.g.size / frag).map(block).collect()
}

#[test]
fn an_operators_refusals_leave_the_volume_dirty_and_are_queried_once() {
    let img = Img::with_tree(KINDS[2]);
    img.edit(img.ino("a"), |d| d.nlink = 9);
    img.edit(img.ino("a/blocks"), |d| d.blocks = 1);
    let questions = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&questions);
    let answers = Answers::Ask(Box::new(move |f| {
        seen.lock().unwrap().push(f.id);
        if f.id == Id::LinkHigh { Answer::No } else { Answer::Yes }
    }));
    let report = img.fsck(FsckOptions { mode: Mode::Full(answers), ..FsckOptions::default() });
    assert_eq!(*questions.lock().unwrap(), [Id::InoBlocks, Id::LinkHigh]);
    assert_eq!(report.exit_code, exit::RERUN);
    assert!(!report.clean && report.modified);
    assert_eq!(ids(&img, FsckOptions::yes()), (vec![Id::LinkHigh], exit::OK));
}

#[test]
fn findings_speak_json() {
    let img = Img::with_tree(KINDS[0]);
    img.edit(img.ino("a"), |d| d.nlink = 9);
    let report = img.fsck(FsckOptions::no());
    let text = serde_json::to_string(&report).unwrap();
    assert!(text.contains(r#""id":"LINK-HIGH""#), "{text}");
    assert!(text.contains(r#""before":"9""#) && text.contains(r#""after":"3""#), "{text}");
    assert_eq!(serde_json::from_str::<ffs_admin::fsck::FsckReport>(&text).unwrap(), report);
    assert_eq!(report.findings[0].phase, Phase::References);
    assert_eq!(report.findings[0].path.as_deref(), Some("/a"));
    let all: Vec<&str> = Id::ALL.iter().map(|id| id.as_str()).collect();
    let mut unique = all.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(all.len(), unique.len());
}

#[test]
fn kf2_08_sectors_of_4096_bytes_are_fine() {
    for kind in KINDS {
        let img = Img::with_tree(kind);
        let dev = MemDevice::from_bytes(&img.bytes()).with_sector_size(4096);
        let dev: Arc<dyn BlockDevice> = Arc::new(dev);
        assert!(quick_check(&dev).is_empty());
    }
}

#[test]
fn a_read_only_device_is_never_written() {
    let img = Img::with_tree(KINDS[0]);
    img.edit(img.ino("a"), |d| d.nlink = 9);
    let dev: Arc<dyn BlockDevice> = Arc::new(MemDevice::from_bytes(&img.bytes()).into_read_only());
    let report = Fsck::new(dev.clone(), FsckOptions::yes()).run();
    assert_eq!(report.exit_code, exit::RERUN);
    let report = Fsck::new(dev, FsckOptions::preen()).run();
    assert_eq!(report.exit_code, exit::ERROR);
}
