//! Data that an operator sees with a question: owner, mode, size, time, links and path, in every
//! phase.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::sync::{Arc, Mutex};

use crate::fsck_util::{Img, KINDS};
use ffs_admin::fsck::{Answer, Answers, Finding, FsckOptions, FsckReport, Id, Mode, Phase, exit};
use ffs_device::BlockDevice;
use ffs_ondisk::wire::put;
use ffs_ondisk::{CgMut, Format};

/// Runs a check whose operator answers with `answer`; returns the questions and the report.
fn questions(
    img: &Img,
    answer: impl Fn(&Finding) -> Answer + Send + 'static,
) -> (Vec<Finding>, FsckReport) {
    let seen: Arc<Mutex<Vec<Finding>>> = Arc::default();
    let questions = Arc::clone(&seen);
    let operator = Answers::Ask(Box::new(move |finding| {
        // Offers are not findings about the tree.
        if matches!(finding.id, Id::SbHashes | Id::SbRecovery) {
            return Answer::No;
        }
        questions.lock().unwrap().push(finding.clone());
        answer(finding)
    }));
    let report = img.fsck(FsckOptions { mode: Mode::Full(operator), ..FsckOptions::default() });
    let seen = seen.lock().unwrap().clone();
    (seen, report)
}

fn yes(_: &Finding) -> Answer {
    Answer::Yes
}

fn no(_: &Finding) -> Answer {
    Answer::No
}

/// Gives `path` a unique owner, mode and time.
fn mark(img: &Img, path: &str) -> u32 {
    let ino = img.ino(path);
    img.edit(ino, |d| {
        d.mode = d.mode & 0o170_000 | 0o2751;
        (d.uid, d.gid, d.mtime.secs) = (54321, 12345, 1_234_567_890);
    });
    ino
}

/// Asserts that the question `id` in `phase` was about an inode that [`mark`] has marked, with that
/// path.
fn assert_marked(seen: &[Finding], id: Id, phase: Phase, path: &str) {
    let found = seen.iter().find(|f| f.id == id).unwrap_or_else(|| panic!("no {id}: {seen:#?}"));
    let info = found.inode.unwrap_or_else(|| panic!("{found:#?}"));
    assert_eq!((info.uid, info.gid, info.mtime), (54321, 12345, 1_234_567_890), "{found:#?}");
    assert_eq!((info.mode & 0o7777, Some(info.ino)), (0o2751, found.ino), "{found:#?}");
    assert_eq!((found.phase, found.path.as_deref()), (phase, Some(path)), "{found:#?}");
}

#[test]
fn phase_0_asks_about_groups() {
    for answer in [yes, no] {
        let img = Img::with_tree(KINDS[0]);
        img.edit_group(1, |g, b| put(b, 4, g.endian, 7u32));
        let (seen, _) = questions(&img, answer);
        let first = &seen[0];
        assert_eq!((first.id, first.phase), (Id::CgMagic, Phase::Groups));
        assert_eq!((first.inode, first.place.as_deref()), (None, Some("group 1")));
    }
}

#[test]
fn phase_1_names_file_block_and_offset() {
    for kind in KINDS {
        for answer in [yes, no] {
            let img = Img::with_tree(kind);
            let ino = mark(&img, "a/b/indirect");
            let (size, b) = (img.inode(ino).size, img.g.bsize);
            img.edit(ino, |d| d.db[3] = img.g.size as i64 + 5);
            let (seen, _) = questions(&img, answer);
            assert_marked(&seen, Id::BlkBad, Phase::Blocks, "/a/b/indirect");
            let bad = seen.iter().find(|f| f.id == Id::BlkBad).unwrap();
            assert_eq!(bad.inode.unwrap().size, size);
            assert_eq!(bad.place, Some(format!("block 3 at offset {}", 3 * b)));
            // No question is repeated, and a refusal leaves the file unchanged.
            assert_eq!(seen.iter().filter(|f| f.id == Id::BlkBad).count(), 1);
            if bad.id == Id::BlkBad && answer(bad) == Answer::No {
                assert_eq!(img.inode(ino).db[3], img.g.size as i64 + 5);
            }
        }
    }
}

#[test]
fn phase_1_names_the_path_of_a_directory_and_the_mode_before_it_is_cleared() {
    for kind in KINDS {
        let img = Img::with_tree(kind);
        mark(&img, "a/b");
        img.edit(img.ino("a/b"), |d| d.blocks += 8);
        let (seen, report) = questions(&img, yes);
        assert_marked(&seen, Id::InoBlocks, Phase::Blocks, "/a/b");
        assert_eq!(report.exit_code, exit::OK);

        let img = Img::with_tree(kind);
        let ino = mark(&img, "a/blocks");
        img.edit(ino, |d| d.mode = 0o170_000 | d.mode & 0o7777);
        let (seen, report) = questions(&img, yes);
        assert_marked(&seen, Id::InoType, Phase::Blocks, "/a/blocks");
        // The next question is about its name: the directory, the entry, and the cleared inode.
        let entry = seen.iter().find(|f| f.id == Id::EntUnalloc).unwrap();
        assert_eq!(entry.path.as_deref(), Some("/a"));
        assert_eq!(entry.entry_path().as_deref(), Some("/a/blocks"));
        assert_eq!(entry.target.map(|t| (t.ino, t.mode)), Some((ino, 0)), "{entry:#?}");
        let listed = report.findings.iter().find(|f| f.id == Id::InoType).unwrap();
        assert_eq!(
            listed.path.as_deref(),
            Some("/a/blocks"),
            "the path at the time of the question"
        );
    }
}

#[test]
fn phase_1_names_both_owners_of_a_contested_block_one_after_the_other() {
    let img = Img::with_tree(KINDS[0]);
    let first = img.inode(img.ino("a/blocks")).db[1];
    mark(&img, "a/b/indirect");
    img.edit(img.ino("a/b/indirect"), |d| d.db[2] = first);
    let (seen, report) = questions(&img, |f| match f.id {
        // The copy is refused, so phase 2 asks which inode to keep.
        Id::BlkDup => Answer::No,
        _ => Answer::Yes,
    });
    assert_marked(&seen, Id::BlkDup, Phase::Blocks, "/a/b/indirect");
    let mut owners: Vec<_> = seen
        .iter()
        .filter(|f| f.id == Id::EntDupBad)
        .map(|f| (f.phase, f.entry_path().unwrap(), f.target.unwrap().size))
        .collect();
    owners.sort();
    let size = |path: &str| Img::with_tree(KINDS[0]).inode(img_ino(path)).size;
    let expected = ["/a/b/indirect", "/a/blocks"];
    let expected = expected.map(|p| (Phase::Names, p.to_owned(), size(p)));
    assert_eq!(owners, expected, "{:#?}", report.findings);
}

fn img_ino(path: &str) -> u32 {
    Img::with_tree(KINDS[0]).ino(path)
}

#[test]
fn phase_2_names_directory_entry_and_inode() {
    for kind in KINDS {
        for answer in [yes, no] {
            let img = Img::with_tree(kind);
            let target = mark(&img, "a/b/other-name");
            let (at, _) = img.entry(img.ino("a/b"), "other-name");
            // Its type is wrong.
            img.write(at + 6, &[2]);
            let (seen, _) = questions(&img, answer);
            let found = seen.iter().find(|f| f.id == Id::EntType).unwrap();
            assert_eq!((found.phase, found.path.as_deref()), (Phase::Names, Some("/a/b")));
            assert_eq!(found.entry_path().as_deref(), Some("/a/b/other-name"));
            let info = found.target.unwrap();
            assert_eq!((info.ino, info.uid, info.nlink), (target, 54321, 2), "{found:#?}");
        }
    }
}

#[test]
fn phase_3_has_no_path_for_what_has_no_name_and_a_part_of_one_below() {
    for answer in [yes, no] {
        let mut img = Img::with_tree(KINDS[0]);
        let top = img.mkdir(2, "top");
        mark(&img, "top");
        let sub = img.mkdir(top, "sub");
        let file = img.file(sub, "file", 100);
        mark(&img, "top/sub/file");
        img.edit(file, |d| d.nlink = 7);
        img.edit(file, |d| d.blocks += 8);
        let (at, _) = img.entry(2, "top");
        img.write(at, &[0; 4]);
        let (seen, _) = questions(&img, answer);
        // Phase 1 does not have the list of directories yet; the root does not reach this one.
        let blocks = seen.iter().find(|f| f.id == Id::InoBlocks).unwrap();
        assert!(blocks.path.as_deref().is_none_or(|p| p.starts_with('?')), "{blocks:#?}");
        let unref = seen.iter().find(|f| f.id == Id::DirUnref).unwrap();
        assert_eq!((unref.phase, unref.path.as_deref()), (Phase::Connectivity, None));
        assert_eq!(unref.inode.unwrap().uid, 54321);
        let links = seen.iter().find(|f| f.id == Id::LinkHigh && f.ino == Some(file)).unwrap();
        let expected = if answer(links) == Answer::Yes {
            // The directory has been reconnected: the path is the new one.
            let digits = (img.g.inodes() - 1).to_string().len();
            format!("/lost+found/#{top:0digits$}/sub/file")
        } else {
            "?/sub/file".to_owned()
        };
        assert_marked(std::slice::from_ref(links), Id::LinkHigh, Phase::References, &expected);
    }
}

#[test]
fn phase_4_names_the_files_that_would_be_cleared() {
    for kind in KINDS {
        for answer in [yes, no] {
            let mut img = Img::with_tree(kind);
            let lost = img.file(2, "lost", 5000);
            mark(&img, "lost");
            let (at, _) = img.entry(2, "lost");
            img.write(at, &[0; 4]);
            let hard = mark(&img, "a/hard");
            img.edit(hard, |d| d.nlink = 9);
            let (seen, _) = questions(&img, answer);
            let unref = seen.iter().find(|f| f.id == Id::InoUnref).unwrap();
            assert_eq!((unref.phase, unref.ino), (Phase::References, Some(lost)));
            assert_eq!(unref.path, None);
            let info = unref.inode.unwrap();
            assert_eq!((info.uid, info.size, info.nlink), (54321, 5000, 1), "{unref:#?}");
            let links = seen.iter().find(|f| f.id == Id::LinkHigh).unwrap();
            assert_eq!((links.ino, links.inode.unwrap().nlink), (Some(hard), 9));
            assert!(matches!(links.path.as_deref(), Some("/a/hard" | "/a/b/other-name")));
        }
    }
}

#[test]
fn phase_5_asks_about_groups() {
    for answer in [yes, no] {
        let img = Img::with_tree(KINDS[0]);
        let ino = img.ino("a");
        img.edit_group(0, |g, b| CgMut::new(g, b).set_inode_used(ino, false));
        let (seen, _) = questions(&img, answer);
        let found = seen.iter().find(|f| f.id == Id::CgAllocFree).unwrap();
        assert_eq!((found.phase, found.place.as_deref()), (Phase::Summaries, Some("group 0")));
    }
}

/// Directories that contain each other, and one that contains itself: the search for paths ends.
#[test]
fn paths_end_on_trees_that_are_none() {
    let mut img = Img::with_tree(KINDS[0]);
    let (a, b) = (img.ino("a"), img.ino("a/b"));
    img.add_entry(b, b"up", a, 4);
    img.add_entry(b, b"self", b, 4);
    let x = img.mkdir(2, "x");
    let y = img.mkdir(x, "y");
    img.add_entry(y, b"x", x, 4);
    let (at, _) = img.entry(2, "x");
    img.write(at, &[0; 4]);
    mark(&img, "a/b");
    img.edit(b, |d| d.blocks += 8);
    let deep = img.file(y, "deep", 10);
    img.edit(deep, |d| d.nlink = 3);
    let (seen, _) = questions(&img, no);
    assert_marked(&seen, Id::InoBlocks, Phase::Blocks, "/a/b");
    let found = seen.iter().find(|f| f.ino == Some(deep)).unwrap();
    let path = found.path.as_deref().unwrap();
    assert!(path.starts_with("?/") && path.ends_with("/y/deep"), "{path}");
}

/// Without an operator the report contains the same data, and preen shows the finding at which it
/// stops.
#[test]
fn reports_say_it_too() {
    let img = Img::with_tree(KINDS[0]);
    mark(&img, "a/blocks");
    img.edit(img.ino("a/blocks"), |d| d.db[1] = 3);
    for options in [FsckOptions::no(), FsckOptions::preen(), FsckOptions::yes()] {
        let report = img.fsck(options);
        assert_marked(&report.findings, Id::BlkBad, Phase::Blocks, "/a/blocks");
        let json = serde_json::to_value(&report.findings).unwrap();
        let first = json.as_array().unwrap().iter().find(|f| f["id"] == "BLK-BAD").unwrap();
        assert_eq!(first["inode"]["uid"], 54321, "{first}");
        assert_eq!(first["inode"]["mode"], 0o102_751, "{first}");
    }
}

/// Control characters in a name are escaped.
#[test]
fn names_do_not_drive_the_terminal() {
    let mut img = Img::with_tree(KINDS[0]);
    let ino = img.file(2, "\u{1b}[2Jevil", 10);
    img.edit(ino, |d| d.nlink = 2);
    let report = img.fsck(FsckOptions::no());
    let found = report.findings.iter().find(|f| f.ino == Some(ino)).unwrap();
    assert_eq!(found.path.as_deref(), Some("/\u{1b}[2Jevil"));
    assert!(found.to_string().contains(r"/\u{1b}[2Jevil"), "{found}");
}

/// All bytes of the image.
fn bytes(img: &Img) -> Vec<u8> {
    let mut all = vec![0; usize::try_from(img.dev.len_bytes()).unwrap()];
    img.dev.read_at(0, &mut all).unwrap();
    all
}

/// A check in which nothing is granted counts the volume as `-n` does, and writes the clean flag
/// alone; after that, or if the operator stops it, nothing.
#[test]
fn refusals_write_the_clean_flag_alone() {
    for kind in KINDS {
        let mut img = Img::with_tree(kind);
        let ino = img.ino("a/b/indirect");
        img.edit(ino, |d| d.db[3] = img.g.size as i64 + 5);
        let lost = img.file(2, "lost", 5000);
        let (at, _) = img.entry(2, "lost");
        img.write(at, &[0; 4]);
        img.edit(lost, |d| d.nlink = 9);
        let before = bytes(&img);
        let expected = img.fsck(FsckOptions::no());
        let (_, report) = questions(&img, |_| Answer::Quit);
        assert_eq!((report.exit_code, report.modified), (exit::INTERRUPTED, false));
        assert!(report.clean && !report.marked_dirty && before == bytes(&img), "{kind:?}");
        for first in [true, false] {
            let before = bytes(&img);
            let (seen, report) = questions(&img, no);
            assert!(!seen.is_empty() && report.totals.are_known());
            assert_eq!(report.totals.used_frags, expected.totals.used_frags, "{kind:?}");
            assert_eq!(report.totals.files, expected.totals.files, "{kind:?}");
            assert_eq!((report.marked_dirty, report.modified), (first, first), "{kind:?}");
            assert_eq!((report.clean, report.exit_code), (false, exit::RERUN));
            let after = bytes(&img);
            let at = if img.g.format == Format::Ufs1 { 8192 } else { 65536 };
            for (n, (old, new)) in before.iter().zip(&after).enumerate() {
                let flag = first && (at..at + 8192).contains(&n);
                assert!(old == new || flag, "{kind:?}: byte {n} was written");
            }
        }
    }
}
