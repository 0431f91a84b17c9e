//! Histories that soft updates once got wrong.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod common;

use common::{World, mount_on, soft_updates, soft_volume};
use ffs_admin::fsck::{Fsck, FsckOptions};
use ffs_core::{
    Cred, Env, Ffs, MountOptions, RenameMode, SetAttr, Vnode, WriteMode, XattrNamespace, XattrSet,
};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::record::Event;
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::{Endian, Format};
use std::collections::BTreeSet;
use std::sync::Arc;

fn world(bsize: u32, fsize: u32) -> World {
    let shape = (Endian::Little, Format::Ufs2, bsize, fsize);
    mount_on(soft_volume(shape, 16 << 20), &soft_updates())
}

/// The old parent's count waited for ever for a removal that had been taken back.
#[test]
fn a_directory_moved_away_and_back_leaves_nothing_to_wait_for() {
    let w = world(8192, 1024);
    let (p, q) = (w.dir(&w.root, "p"), w.dir(&w.root, "q"));
    drop(w.dir(&p, "x"));
    w.fs.sync().unwrap();
    let c = Cred::root();
    w.fs.rename(&c, (&p, b"x"), (&q, b"x"), RenameMode::Replace).unwrap();
    w.fs.rename(&c, (&q, b"x"), (&p, b"x"), RenameMode::Replace).unwrap();
    w.fs.sync().unwrap();
    assert_eq!((w.nlink(&p), w.nlink(&q)), (3, 2));
    drop((p, q));
    w.end();
}

/// Two directories that changed places, half of it durable, and came back: the name of one waited for its `..`,
/// that for the record to lose the name it had there before, and that for the name.
#[test]
fn directories_exchanged_and_exchanged_back_leave_nothing_to_wait_for() {
    let w = world(8192, 1024);
    let (p, q) = exchanged(&w);
    w.fs.rename(&Cred::root(), (&p, b"x"), (&q, b"y"), RenameMode::Exchange).unwrap();
    w.fs.sync().unwrap();
    assert_eq!((w.nlink(&p), w.nlink(&q)), (3, 3));
    drop((p, q));
    w.end();
}

/// The same by renames: the removal of a name that the device never saw waited for the file's next name.
#[test]
fn directories_exchanged_and_moved_on_leave_nothing_to_wait_for() {
    let w = world(8192, 1024);
    let (p, q) = exchanged(&w);
    let c = Cred::root();
    w.fs.rename(&c, (&q, b"y"), (&p, b"z"), RenameMode::Replace).unwrap();
    w.fs.rename(&c, (&p, b"x"), (&q, b"y"), RenameMode::Replace).unwrap();
    w.fs.sync().unwrap();
    assert_eq!((w.nlink(&p), w.nlink(&q)), (3, 3));
    drop((p, q));
    w.end();
}

/// Two directories, each with one in it; these have changed places, and the names of the second are durable.
fn exchanged(w: &World) -> (Vnode, Vnode) {
    let (p, q) = (w.dir(&w.root, "p"), w.dir(&w.root, "q"));
    drop((w.dir(&p, "x"), w.dir(&q, "y")));
    w.fs.sync().unwrap();
    w.fs.rename(&Cred::root(), (&p, b"x"), (&q, b"y"), RenameMode::Exchange).unwrap();
    w.fs.fsync(&q, false).unwrap();
    (p, q)
}

/// An area of two blocks replaced by one of a single block before any image was thought to be never there.
#[test]
fn attributes_that_shrink_before_they_are_written_are_durable_after_fsync() {
    let w = world(4096, 512);
    let (c, v) = (Cred::root(), w.file(&w.root, "f"));
    w.fs.setxattr(&c, &v, XattrNamespace::User, b"k", &[1; 5000], XattrSet::Any).unwrap();
    w.fs.setxattr(&c, &v, XattrNamespace::User, b"k", &[2; 100], XattrSet::Any).unwrap();
    w.fs.fsync(&v, false).unwrap();
    drop(v);
    w.end();
}

/// Logs are rotated: each takes the name that the one before has just left. However long the chain, none of
/// them may ever be without a name.
#[test]
fn a_long_chain_of_renames_loses_no_file() {
    const LOGS: usize = 90;
    let w = world(8192, 1024);
    let c = Cred::root();
    for i in 0..LOGS {
        let v = w.file(&w.root, &format!("log.{i}"));
        w.fs.write(&c, &v, 0, format!("{i:03}").as_bytes(), WriteMode::default()).unwrap();
    }
    w.fs.sync().unwrap();
    let before = w.record();
    for i in (0..LOGS).rev() {
        let (from, to) = (format!("log.{i}"), format!("log.{}", i + 1));
        let root = &w.root;
        w.fs.rename(&c, (root, from.as_bytes()), (root, to.as_bytes()), RenameMode::Replace)
            .unwrap();
    }
    w.fs.sync().unwrap();
    let state = before;
    for event in w.dev.take_events() {
        if let Event::Write { offset, bytes, .. } = event {
            // Every sector may be the last that arrived.
            for (i, sector) in bytes.chunks(512).enumerate() {
                let torn = state.snapshot();
                torn.write_at(offset + i as u64 * 512, sector).unwrap();
                assert_eq!(contents(torn).len(), LOGS, "sector {i} of a write at {offset}");
            }
            state.write_at(offset, &bytes).unwrap();
            assert_eq!(contents(state.snapshot()).len(), LOGS, "a write at {offset}");
        }
    }
    w.end();
}

/// A file cut short in a hole behind its direct blocks, and perhaps appended to: its old end was gone before
/// its new one was there, and a check made it end before the hole.
#[test]
fn a_file_cut_short_in_a_hole_is_never_shorter_than_that() {
    const BLOCK: u64 = 8192;
    let cut_to = 12 * BLOCK + 5;
    for more in [0, 50_000] {
        let w = world(8192, 1024);
        let (c, v) = (Cred::root(), w.file(&w.root, "f"));
        w.fs.write(&c, &v, 0, &[1; 13 * BLOCK as usize + 2048], WriteMode::default()).unwrap();
        w.fs.sync().unwrap();
        w.fs.fallocate(&c, &v, 11 * BLOCK, 2 * BLOCK, ffs_core::Fallocate::PunchHole).unwrap();
        w.fs.sync().unwrap();
        let state = w.record();
        let cut = SetAttr { size: Some(cut_to), ..SetAttr::default() };
        w.fs.setattr(&c, &v, &cut).unwrap();
        w.fs.write(&c, &v, cut_to, &vec![2; more], WriteMode::default()).unwrap();
        w.fs.fsync(&v, true).unwrap();
        w.each_write(&state, |state, offset| {
            let fs = repaired(state.snapshot());
            let v = fs.lookup(&c, &fs.root().unwrap(), b"f").unwrap();
            let size = fs.getattr(&v).size;
            assert!(size >= cut_to, "{size} after a write at {offset}, {more} appended");
        });
        drop(v);
        w.end();
    }
}

/// A file cut short in a hole among its direct blocks: until its new last block is there it has its old end, and
/// never one that it did not have.
#[test]
fn a_file_cut_short_in_a_direct_hole_keeps_its_old_end_until_then() {
    const BLOCK: u64 = 8192;
    let c = Cred::root();
    let set = |size| SetAttr { size: Some(size), ..SetAttr::default() };
    // The old end: direct, in fragments, behind an indirect block, behind two.
    for old in [7 * BLOCK, 6 * BLOCK + 700, 14 * BLOCK + 700, (12 + 2048) * BLOCK + 8 * BLOCK] {
        for case in 0..8 {
            let w = world(8192, 1024);
            let (v, beside) = (w.file(&w.root, "f"), w.file(&w.root, "g"));
            w.fs.write(&c, &v, old - 700, &[1; 700], WriteMode::default()).unwrap();
            w.fs.sync().unwrap();
            let state = w.record();
            let mut sizes = vec![old];
            let cut = |size, sizes: &mut Vec<u64>| {
                w.fs.setattr(&c, &v, &set(size)).unwrap();
                sizes.push(size);
            };
            cut(4 * BLOCK + 5, &mut sizes);
            match case % 4 {
                1 => cut(2 * BLOCK + 100, &mut sizes),
                2 => {
                    w.fs.write(&c, &v, 5 * BLOCK, &[2; 300], WriteMode::default()).unwrap();
                    // What is there while the block is not: the file up to the one before it.
                    sizes.extend([5 * BLOCK + 300, 5 * BLOCK]);
                    cut(3 * BLOCK + 9, &mut sizes);
                }
                3 => {
                    cut(0, &mut sizes);
                    cut(BLOCK + 9, &mut sizes);
                }
                _ => {}
            }
            if case >= 4 {
                // The inode is written before the new last block is there.
                w.fs.write(&c, &beside, 0, &[1; 600], WriteMode::default()).unwrap();
                w.fs.fsync(&beside, true).unwrap();
            }
            w.fs.fsync(&v, true).unwrap_or_else(|e| panic!("{old} {case}: {e}"));
            w.each_write(&state, |state, offset| {
                let fs = repaired(state.snapshot());
                let v = fs.lookup(&c, &fs.root().unwrap(), b"f").unwrap();
                let size = fs.getattr(&v).size;
                assert!(sizes.contains(&size), "{old} {case}: {size} after a write at {offset}");
                let mut byte = [0];
                let read = fs.read(&v, size.saturating_sub(1), &mut byte).unwrap();
                assert!(size != old || (read, byte) == (1, [1]), "{old} {case}: the old end");
            });
            drop((v, beside));
            w.end();
        }
    }
}

/// A name in fragments that its directory was cut short by counted as gone as soon as the rest of the block was
/// written: on the device the directory had its old size still, and the name in it. (Behind an indirect block
/// it ended in a hole, if that was written first.)
#[test]
fn a_name_that_was_cut_off_is_there_until_the_inode_is_shorter() {
    let c = Cred::root();
    // In the first block, behind it, and behind an indirect block, the last time in a block of its own, which is not
    // cut off; the inode's block due late or early; and the name entered again in between, in a chunk that stays.
    for case in 0..16 {
        let (chunks, early, again) = ([2, 9, 112, 113][case % 4], case / 4 % 2 == 1, case >= 8);
        let what = format!("{chunks} chunks, early {early}, again {again}");
        let w = world(4096, 512);
        let (d, y) = (w.dir(&w.root, "d"), w.file(&w.root, "y"));
        let beside = w.file(&d, "beside");
        let long = |n: u32| format!("{n:0200}").into_bytes();
        // Two in each chunk, but for the last.
        for n in 1..2 * chunks {
            w.fs.link(&c, &y, &d, &long(n)).unwrap();
        }
        w.fs.sync().unwrap();
        let state = w.record();
        let size = w.fs.getattr(&d).size;
        // The inode's block has to wait for its neighbour's content, or is written without.
        let neighbour = || w.fs.write(&c, &beside, 0, &[1; 600], WriteMode::default()).unwrap();
        if early {
            neighbour();
            w.pass(15);
        }
        w.fs.unlink(&c, &d, &long(2 * chunks - 1)).unwrap();
        if again {
            w.fs.unlink(&c, &d, &long(1)).unwrap();
        }
        w.pass(5);
        w.fs.link(&c, &y, &d, b"z").unwrap();
        assert_eq!(w.fs.getattr(&d).size < size, chunks != 113);
        if early {
            w.pass(11);
        } else {
            neighbour();
            w.pass(20);
        }
        for second in 0..20 {
            w.pass(1);
            if again && second == 8 {
                w.fs.link(&c, &y, &d, &long(2 * chunks - 1)).unwrap();
            }
            w.fs.fsync(&y, false).unwrap();
        }
        w.each_write(&state, |state, offset| {
            let twice = names(&repaired(state.snapshot()), "d");
            let once: BTreeSet<_> = twice.iter().collect();
            assert_eq!(once.len(), twice.len(), "{what}, a write at {offset}");
        });
        drop((d, y, beside));
        w.end();
    }
}

/// What happens to the file that took the place of another.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Next {
    Moved,
    Exchanged,
    /// It gets another name and is replaced itself.
    Linked,
}

/// A file takes the place of another and leaves it again before the device has seen it there: what the device shows
/// in that place then went without the file's next name.
#[test]
fn what_was_replaced_is_there_until_the_next_name_is() {
    for next in [Next::Moved, Next::Exchanged, Next::Linked] {
        for (to, is_dir) in ["p", "q", "r"].into_iter().flat_map(|to| [(to, false), (to, true)]) {
            if !(is_dir && next == Next::Linked) {
                replaced_and_left(next, to, is_dir);
            }
        }
    }
}

/// That, from `p/x` to `q/e` and on to a name in `to`.
fn replaced_and_left(next: Next, to: &str, is_dir: bool) {
    let (c, w) = (Cred::root(), world(8192, 1024));
    let dirs = ["p", "q", "r"].map(|name| w.dir(&w.root, name));
    let [p, q, _] = &dirs;
    let other = w.fs.lookup(&c, &w.root, to.as_bytes()).unwrap();
    let make = |dir: &Vnode, name: &str| if is_dir { w.dir(dir, name) } else { w.file(dir, name) };
    let [x, e] = [make(p, "x"), make(q, "e")].map(|v| w.fs.getattr(&v).ino);
    drop((next == Next::Exchanged).then(|| make(&other, "d")));
    drop((next == Next::Linked).then(|| make(p, "w")));
    w.fs.sync().unwrap();
    let state = w.record();
    w.fs.rename(&c, (p, b"x"), (q, b"e"), RenameMode::Replace).unwrap();
    match next {
        Next::Moved => w.fs.rename(&c, (q, b"e"), (&other, b"d"), RenameMode::Replace).unwrap(),
        Next::Exchanged => {
            w.fs.rename(&c, (q, b"e"), (&other, b"d"), RenameMode::Exchange).unwrap()
        }
        Next::Linked => {
            let v = w.fs.lookup(&c, q, b"e").unwrap();
            w.fs.link(&c, &v, &other, b"d").unwrap();
            w.fs.rename(&c, (p, b"w"), (q, b"e"), RenameMode::Replace).unwrap();
        }
    }
    w.fs.fsync(q, false).unwrap();
    w.fs.sync().unwrap();
    w.each_write(&state, |state, offset| {
        for (fs, checked) in
            [(mounted(Arc::new(state.snapshot())), false), (repaired(state.snapshot()), true)]
        {
            let ino = |dir: &str, name: &[u8]| {
                let dir = fs.lookup(&c, &fs.root().unwrap(), dir.as_bytes()).unwrap();
                fs.lookup(&c, &dir, name).ok().map(|v| fs.getattr(&v).ino)
            };
            let (seen, d) = (ino("q", b"e"), ino(to, b"d"));
            let kept = seen == Some(e) || seen == Some(x) || d == Some(x);
            // Of two names of a directory that are in the same one a check keeps the first.
            let older = checked && is_dir && to == "p" && ino("p", b"x") == Some(x);
            let case = format!("{next:?} to {to}, directory: {is_dir}, checked: {checked}");
            assert!(kept || older, "{case}: {seen:?}, {d:?} after a write at {offset}");
        }
    });
    drop((dirs, other));
    w.end();
}

/// A large directory is emptied and cut to what fits in its direct blocks: never is there a hole in it, a name too many
/// or too few, or a pointer behind its end.
#[test]
fn a_directory_cut_to_its_direct_blocks_is_sound_at_every_write() {
    let c = Cred::root();
    for kept in [3, 190] {
        let w = world(4096, 512);
        let (d, y) = (w.dir(&w.root, "d"), w.file(&w.root, "y"));
        let long = |n: u32| format!("{n:0200}").into_bytes();
        for n in 1..300 {
            w.fs.link(&c, &y, &d, &long(n)).unwrap();
        }
        w.fs.sync().unwrap();
        let state = w.record();
        for n in kept..300 {
            w.fs.unlink(&c, &d, &long(n)).unwrap();
        }
        w.pass(5);
        w.fs.link(&c, &y, &d, b"z").unwrap();
        assert!(w.fs.getattr(&d).size <= 12 * 4096);
        for _ in 0..45 {
            w.pass(1);
            w.fs.fsync(&y, false).unwrap();
        }
        w.each_write(&state, |state, offset| {
            let found = names(&repaired(state.snapshot()), "d").len() as u32;
            assert!((kept + 1..=302).contains(&found), "{found} names, a write at {offset}");
        });
        drop((d, y));
        w.end();
    }
}

/// A file is cut inside an indirect block of its second level, and again so that this goes, and again so that what is
/// above goes, before any of it is written: nothing waits for itself.
#[test]
fn a_file_cut_again_and_again_leaves_nothing_to_wait_for() {
    const BLOCK: u64 = 4096;
    for cuts in [&[1101, 21][..], &[1101, 550, 21], &[1601, 1101, 601, 5], &[1101, 560, 5]] {
        let w = world(4096, 512);
        let (c, v) = (Cred::root(), w.file(&w.root, "f"));
        for block in [20, 600, 1100, 1200, 1600, 1700] {
            w.fs.write(&c, &v, block * BLOCK, &[1; BLOCK as usize], WriteMode::default()).unwrap();
        }
        w.fs.sync().unwrap();
        let state = w.record();
        for blocks in cuts {
            let cut = SetAttr { size: Some(blocks * BLOCK), ..SetAttr::default() };
            w.fs.setattr(&c, &v, &cut).unwrap();
        }
        w.fs.fsync(&v, false).unwrap();
        w.fs.sync().unwrap();
        w.each_write(&state, |state, _| {
            drop(repaired(state.snapshot()));
        });
        drop(v);
        w.end();
    }
}

/// A range punched that has a hole behind the direct blocks: the indirect block had not changed, and what was freed
/// waited for it to be written.
#[test]
fn what_is_punched_beside_a_hole_waits_for_nothing_that_is_not_written() {
    const BLOCK: u64 = 8192;
    let w = world(8192, 1024);
    let (c, v) = (Cred::root(), w.file(&w.root, "f"));
    w.fs.write(&c, &v, 0, &[1; 15 * BLOCK as usize], WriteMode::default()).unwrap();
    for first in [12, 11] {
        let hole = first * BLOCK..13 * BLOCK;
        let (at, len) = (hole.start, hole.end - hole.start);
        w.fs.fallocate(&c, &v, at, len, ffs_core::Fallocate::PunchHole).unwrap();
        w.fs.sync().unwrap();
    }
    drop(v);
    w.end();
}

/// A file is cut short, or to nothing, before and after it takes another's name, and its directory is made durable:
/// the name was seen when the inode was written, whose size was held back for an indirect block, or whose blocks were
/// not there yet. Until its content of then is on the device, or what came after, the other keeps the name.
#[test]
fn a_file_cut_short_replaces_another_with_its_size() {
    const BLOCK: u64 = 4096;
    // Blocks that are durable; that it has then; that are left when it is renamed; and then in turn, with the directory
    // made durable in between.
    let cases: [(u64, u64, u64, &[u64]); 8] = [
        (30, 30, 17, &[]),
        (30, 30, 17, &[0]),
        (30, 30, 17, &[14, 13]),
        (0, 30, 30, &[0]),
        (0, 8, 8, &[3, 0]),
        (0, 30, 17, &[13, 0]),
        (13, 30, 30, &[13]),
        (20, 30, 30, &[16, 13, 0]),
    ];
    // How often the buffer daemon has written before; how many bytes the last block is short.
    let ways = (0..4).flat_map(|wrote| [0, 2000].map(|short| (wrote, short)));
    for (case, (wrote, short)) in cases.iter().flat_map(|c| ways.clone().map(move |w| (c, w))) {
        let &(durable, blocks, left, cuts) = case;
        let size_of = |blocks: u64| (blocks * BLOCK).saturating_sub(short);
        let w = world(BLOCK as u32, 512);
        let (c, root) = (Cred::root(), &w.root);
        // The root's inode is in another block.
        (0..16).for_each(|n| drop(w.file(root, &format!("z{n}"))));
        let (old, beside) = (w.file(root, "f"), w.file(root, "beside"));
        w.fs.write(&c, &old, 0, &[1; 100], WriteMode::default()).unwrap();
        let v = w.file(root, "new");
        let write = |from: u64, to: u64| {
            let bytes = vec![2; (to - from) as usize];
            w.fs.write(&c, &v, from, &bytes, WriteMode::default()).unwrap();
        };
        write(0, size_of(durable));
        w.fs.sync().unwrap();
        write(size_of(durable), size_of(blocks));
        let state = w.record();
        let cut_to = |blocks: u64| {
            let cut = SetAttr { size: Some(size_of(blocks)), ..SetAttr::default() };
            w.fs.setattr(&c, &v, &cut).unwrap();
        };
        if left < blocks {
            cut_to(left);
        }
        // Others' inodes and names are in the same blocks.
        let others = |n: u64| {
            let mode = SetAttr { perm: Some(0o600 + n as u16), ..SetAttr::default() };
            w.fs.setattr(&c, &beside, &mode).unwrap();
            w.fs.fsync(&beside, false).unwrap();
            w.fs.fsync(&w.file(root, &format!("y{n}")), false).unwrap();
        };
        for _ in 0..wrote {
            w.fs.write_oldest().unwrap();
        }
        others(6);
        w.fs.rename(&c, (root, b"new"), (root, b"f"), RenameMode::Replace).unwrap();
        others(7);
        for &blocks in cuts {
            cut_to(blocks);
            w.fs.fsync(root, false).unwrap();
            others(blocks);
        }
        w.fs.fsync(root, false).unwrap();
        w.fs.sync().unwrap();
        let least = cuts.iter().chain([&left]).map(|blocks| size_of(*blocks)).min().unwrap();
        w.each_write(&state, |state, offset| {
            let found = content(state.snapshot(), "f");
            // The other; or itself: what is being cut off may be there, or zeros, or not.
            let right = found == [1; 100]
                || (least..=size_of(left)).contains(&(found.len() as u64)) && {
                    let (all, rest) = found.split_at(least as usize);
                    all.iter().all(|b| *b == 2) && rest.iter().all(|b| matches!(b, 0 | 2))
                };
            let len = found.len();
            assert!(right, "{len} bytes: {case:?}, {wrote}, {short}: a write at {offset}");
        });
        drop((old, beside, v));
        w.end();
    }
}

/// What a volume is after a repair.
fn repaired(dev: MemDevice) -> Ffs {
    let dev: Arc<dyn BlockDevice> = Arc::new(dev);
    let report = Fsck::new(Arc::clone(&dev), FsckOptions::preen()).run();
    assert_eq!(report.exit_code, 0, "{:?}", report.findings);
    mounted(dev)
}

/// What a volume is, to be read.
fn mounted(dev: Arc<dyn BlockDevice>) -> Ffs {
    let clock = Arc::new(ManualClock::new(Timestamp::new(common::START, 0)));
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    Ffs::mount(dev, &options, Env::seeded(clock, 1)).unwrap()
}

/// The bytes of a file in the root after a repair.
fn content(dev: MemDevice, name: &str) -> Vec<u8> {
    let fs = repaired(dev);
    let v = fs.lookup(&Cred::root(), &fs.root().unwrap(), name.as_bytes()).unwrap();
    let mut bytes = vec![0; fs.getattr(&v).size as usize];
    assert_eq!(fs.read(&v, 0, &mut bytes).unwrap(), bytes.len());
    bytes
}

/// The names in a directory of the root.
fn names(fs: &Ffs, dir: &str) -> Vec<Vec<u8>> {
    let dir = fs.lookup(&Cred::root(), &fs.root().unwrap(), dir.as_bytes()).unwrap();
    let mut all = Vec::new();
    fs.readdir(&dir, 0, &mut |e| {
        all.push(e.name.to_vec());
        true
    })
    .unwrap();
    all
}

/// What the files hold after a repair, told apart.
fn contents(dev: MemDevice) -> BTreeSet<Vec<u8>> {
    let fs = repaired(dev);
    let (root, mut found) = (fs.root().unwrap(), BTreeSet::new());
    for name in names(&fs, ".").iter().filter(|n| n.starts_with(b"log.")) {
        let v = fs.lookup(&Cred::root(), &root, name).unwrap();
        let mut bytes = [0; 3];
        assert_eq!(fs.read(&v, 0, &mut bytes).unwrap(), 3);
        found.insert(bytes.to_vec());
    }
    found
}
