//! Progress reports of a check, measured in steps rather than time.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::fsck_util::{Img, KINDS, Kind};
use ffs_admin::fsck::{Fsck, FsckOptions, FsckReport, Phase, Progress};
use ffs_device::BlockDevice;
use ffs_ondisk::{CgNo, Endian, Format};

fn watched(img: &Img, options: FsckOptions) -> (Vec<Progress>, FsckReport) {
    let seen: Arc<Mutex<Vec<Progress>>> = Arc::default();
    let each = Arc::clone(&seen);
    let dev: Arc<dyn BlockDevice> = img.dev.clone();
    let check = Fsck::new(dev, FsckOptions { force: true, ..options });
    let report = check.with_progress(move |at| each.lock().unwrap().push(at)).run();
    let seen = seen.lock().unwrap().clone();
    (seen, report)
}

/// The reports of each phase of each round, in order.
fn by_phase(seen: &[Progress]) -> Vec<((u32, Phase), Vec<Progress>)> {
    let mut out: Vec<((u32, Phase), Vec<Progress>)> = Vec::new();
    for &at in seen {
        match out.last_mut() {
            Some((key, list)) if *key == (at.round, at.phase) => list.push(at),
            _ => out.push(((at.round, at.phase), vec![at])),
        }
    }
    out
}

/// Every phase begins at 0, rises, keeps its total, and ends at it; the setup has no steps.
fn assert_sound(seen: &[Progress]) {
    let mut keys = Vec::new();
    for (key, list) in by_phase(seen) {
        assert!(!keys.contains(&key), "{key:?} is reported twice");
        keys.push(key);
        let total = list[0].total;
        assert_eq!(list[0].done, 0, "{list:?}");
        assert!(list.iter().all(|at| at.total == total && at.done <= total), "{list:?}");
        assert!(list.windows(2).all(|w| w[0].done <= w[1].done), "{list:?}");
        assert_eq!(list.last().unwrap().done, total, "{list:?}");
        assert!(list.len() <= 202, "{} reports of {key:?}", list.len());
    }
    assert!(keys.is_sorted(), "{keys:?}");
}

/// Inodes that phase 1 scans, read from the groups.
fn initialised(img: &Img) -> u64 {
    let of_group = |c: u32| {
        let b = img.read(img.group_at(c), img.g.cgsize as usize);
        match img.g.format {
            Format::Ufs1 => img.g.ipg,
            Format::Ufs2 => ffs_ondisk::Cg::new(&img.g, &b).initediblk(),
        }
    };
    (0..img.g.ncg).map(|c| u64::from(of_group(CgNo(c).0))).sum()
}

/// Directory blocks of all directories.
fn dirblks(img: &Img) -> u64 {
    let tree = img.tree();
    tree.values().filter(|i| i.mode & 0o170_000 == 0o040_000).map(|i| i.size / 512).sum()
}

#[test]
fn phases_count_their_work_to_the_end() {
    for kind in KINDS {
        let img = Img::with_tree(kind);
        for options in [FsckOptions::no(), FsckOptions::yes(), FsckOptions::preen()] {
            let (seen, report) = watched(&img, options);
            assert!(report.is_silent());
            assert_sound(&seen);
            let totals: BTreeMap<Phase, u64> = seen.iter().map(|p| (p.phase, p.total)).collect();
            let phases: Vec<Phase> = totals.keys().copied().collect();
            let expected = [
                Phase::Setup,
                Phase::Groups,
                Phase::Blocks,
                Phase::Names,
                Phase::Connectivity,
                Phase::References,
                Phase::Summaries,
            ];
            assert_eq!(phases, expected);
            assert_eq!(totals[&Phase::Groups], u64::from(img.g.ncg));
            assert_eq!(totals[&Phase::Blocks], initialised(&img));
            assert_eq!(totals[&Phase::Names], dirblks(&img));
            assert_eq!(totals[&Phase::Connectivity], 0);
            assert_eq!(totals[&Phase::Summaries], u64::from(img.g.ncg));
        }
    }
}

/// Progress is reported evenly over many inodes, also in a volume of one group.
#[test]
fn a_large_group_is_counted_inode_by_inode() {
    let kind: Kind = (Endian::Little, Format::Ufs1, 32768, 4096, 64 << 20);
    let img = Img::fresh(kind);
    let (seen, _) = watched(&img, FsckOptions::no());
    assert_sound(&seen);
    let blocks: Vec<Progress> = seen.into_iter().filter(|p| p.phase == Phase::Blocks).collect();
    let total = blocks[0].total;
    assert_eq!(total, u64::from(img.g.ncg * img.g.ipg));
    let largest = blocks.windows(2).map(|w| w[1].done - w[0].done).max().unwrap();
    let per_read = 256 * 1024 / 128;
    assert!(largest <= per_read.max(total.div_ceil(200) + per_read), "{largest} of {total}");
}

/// One directory of many blocks yields progress in phase 2 while it is read.
#[test]
fn a_large_directory_is_counted_chunk_by_chunk() {
    let mut img = Img::with_tree(KINDS[0]);
    let before = dirblks(&img);
    let blocks = 40u64;
    let b = u64::from(img.g.bsize);
    let ino = img.file(2, "large", blocks * b);
    let d = img.inode(ino);
    let mut dirblk = vec![0; 512];
    for l in 0..blocks {
        let at = img.pointer(&d, l) as u64 * u64::from(img.g.fsize);
        ffs_ondisk::dir::clear_chunk(img.fmt(), &mut dirblk);
        (0..b / 512).for_each(|i| img.write(at + i * 512, &dirblk));
    }
    let (at, _) = img.entry(2, "large");
    img.write(at + 6, &[4]);
    img.edit(ino, |d| (d.mode, d.nlink) = (0o040_755, 2));
    let (seen, report) = watched(&img, FsckOptions::no());
    assert!(!report.is_silent(), "it has no `.`");
    assert_sound(&seen);
    let names: Vec<Progress> = seen.into_iter().filter(|p| p.phase == Phase::Names).collect();
    assert_eq!(names[0].total, before + blocks * b / 512);
    let largest = names.windows(2).map(|w| w[1].done - w[0].done).max().unwrap();
    assert!(largest <= 2 * b / 512, "{largest}");
}

/// A check that starts another round reports each round separately.
#[test]
fn passes_are_counted_apart() {
    let img = Img::with_tree(KINDS[0]);
    img.edit(img.ino("a/b/indirect"), |d| d.db[2] = 1 << 40);
    let (seen, report) = watched(&img, FsckOptions::yes());
    assert!(report.totals.rounds > 1);
    let (last, _) = by_phase(&seen).pop().unwrap();
    assert_eq!(last, (report.totals.rounds, Phase::Summaries));
    assert_sound(&seen);
}

/// Of directories that contain each other one is reconnected; the count still reaches its end.
#[test]
fn what_is_settled_together_is_counted_to_the_end() {
    let mut img = Img::with_tree(KINDS[0]);
    let x = img.mkdir(2, "x");
    let y = img.mkdir(x, "y");
    img.add_entry(y, b"x", x, 4);
    let (at, _) = img.entry(2, "x");
    img.write(at, &[0; 4]);
    let (seen, report) = watched(&img, FsckOptions::no());
    assert!(report.counts.contains_key(&ffs_admin::fsck::Id::DirLoop));
    assert_sound(&seen);
    let all: Vec<Progress> = seen.into_iter().filter(|p| p.phase == Phase::Connectivity).collect();
    assert_eq!(all.last().map(|p| (p.done, p.total)), Some((2, 2)));
}
