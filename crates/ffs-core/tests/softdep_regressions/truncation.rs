//! Truncated files and directories, holes, and attribute areas that shrink.

use crate::{content, names, repaired, world};
use ffs_core::{Cred, Fallocate, RenameMode, SetAttr, WriteMode, XattrNamespace, XattrSet};
use std::collections::BTreeSet;

/// An attribute area of two blocks was replaced by one of a single block before the first was
/// written. The second was then treated as one that had never been set.
#[test]
fn attributes_that_shrink_before_they_are_written_are_durable_after_fsync() {
    let w = world(4096, 512);
    let (c, v) = (Cred::root(), w.file(&w.root, "f"));
    w.fs.setxattr(&c, &v, XattrNamespace::User, b"k", &[1; 5000], XattrSet::Any).unwrap();
    w.fs.setxattr(&c, &v, XattrNamespace::User, b"k", &[2; 100], XattrSet::Any).unwrap();
    w.fs.fsync(&v).unwrap();
    drop(v);
    w.end();
}

/// A file is truncated in a hole behind its direct blocks, and perhaps appended to. Its old end was
/// removed from the device before its new end was there, and a check made it end before the hole.
#[test]
fn a_file_truncated_in_a_hole_is_never_shorter() {
    const BLOCK: u64 = 8192;
    let new_size = 12 * BLOCK + 5;
    for more in [0, 50_000] {
        let w = world(8192, 1024);
        let (c, v) = (Cred::root(), w.file(&w.root, "f"));
        w.fs.write(&c, &v, 0, &[1; 13 * BLOCK as usize + 2048], WriteMode::default()).unwrap();
        w.fs.sync().unwrap();
        w.fs.fallocate(&c, &v, 11 * BLOCK, 2 * BLOCK, Fallocate::PunchHole).unwrap();
        w.fs.sync().unwrap();
        let state = w.record();
        let truncate = SetAttr { size: Some(new_size), ..SetAttr::default() };
        w.fs.setattr(&c, &v, &truncate).unwrap();
        w.fs.write(&c, &v, new_size, &vec![2; more], WriteMode::default()).unwrap();
        w.fs.fdatasync(&v).unwrap();
        w.each_write(&state, |state, offset| {
            let fs = repaired(state.snapshot());
            let v = fs.lookup(&c, &fs.root().unwrap(), b"f").unwrap();
            let size = fs.getattr(&v).size;
            assert!(size >= new_size, "{size} after a write at {offset}, {more} appended");
        });
        drop(v);
        w.end();
    }
}

/// A file is truncated in a hole among its direct blocks. Until its new last block is on the device
/// it has its old end there, and never an end that it did not have.
#[test]
fn a_file_truncated_in_a_direct_hole_keeps_its_old_end() {
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
            let truncate = |size, sizes: &mut Vec<u64>| {
                w.fs.setattr(&c, &v, &set(size)).unwrap();
                sizes.push(size);
            };
            truncate(4 * BLOCK + 5, &mut sizes);
            match case % 4 {
                1 => truncate(2 * BLOCK + 100, &mut sizes),
                2 => {
                    w.fs.write(&c, &v, 5 * BLOCK, &[2; 300], WriteMode::default()).unwrap();
                    // Without the block the file ends where the block before it ends.
                    sizes.extend([5 * BLOCK + 300, 5 * BLOCK]);
                    truncate(3 * BLOCK + 9, &mut sizes);
                }
                3 => {
                    truncate(0, &mut sizes);
                    truncate(BLOCK + 9, &mut sizes);
                }
                _ => {}
            }
            if case >= 4 {
                // The inode is written before the new last block is there.
                w.fs.write(&c, &beside, 0, &[1; 600], WriteMode::default()).unwrap();
                w.fs.fdatasync(&beside).unwrap();
            }
            w.fs.fdatasync(&v).unwrap_or_else(|e| panic!("{old} {case}: {e}"));
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

/// A directory was truncated by the fragments that hold a name. The name counted as removed as soon
/// as the rest of the block was written, but on the device the directory still had its old size and
/// the name in it. (Behind an indirect block it ended in a hole, if that block was written first.)
#[test]
fn a_truncated_name_is_there_until_the_inode_is_shorter() {
    let c = Cred::root();
    // The name is in the first block, behind it, or behind an indirect block, the last time in a
    // block of its own, which is not truncated. The inode's block is due late or early. The name is
    // entered again in between, in a chunk that stays.
    for case in 0..16 {
        let (chunks, early, again) = ([2, 9, 112, 113][case % 4], case / 4 % 2 == 1, case >= 8);
        let what = format!("{chunks} chunks, early {early}, again {again}");
        let w = world(4096, 512);
        let (d, y) = (w.dir(&w.root, "d"), w.file(&w.root, "y"));
        let beside = w.file(&d, "beside");
        let long = |n: u32| format!("{n:0200}").into_bytes();
        // Two names in each chunk but the last.
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
            w.fs.fsync(&y).unwrap();
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

/// A large directory is emptied and truncated to its direct blocks. It never has a hole, a name too
/// many or too few, or a pointer behind its end.
#[test]
fn a_directory_truncated_to_its_direct_blocks_is_sound_at_every_write() {
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
            w.fs.fsync(&y).unwrap();
        }
        w.each_write(&state, |state, offset| {
            let found = names(&repaired(state.snapshot()), "d").len() as u32;
            assert!((kept + 1..=302).contains(&found), "{found} names, a write at {offset}");
        });
        drop((d, y));
        w.end();
    }
}

/// A file is truncated inside an indirect block of its second level, then so that this block is
/// freed, then so that the block above it is freed, before anything is written. No dependency waits
/// for itself.
#[test]
fn a_file_truncated_repeatedly_leaves_nothing_to_wait_for() {
    const BLOCK: u64 = 4096;
    for sizes in [&[1101, 21][..], &[1101, 550, 21], &[1601, 1101, 601, 5], &[1101, 560, 5]] {
        let w = world(4096, 512);
        let (c, v) = (Cred::root(), w.file(&w.root, "f"));
        for block in [20, 600, 1100, 1200, 1600, 1700] {
            w.fs.write(&c, &v, block * BLOCK, &[1; BLOCK as usize], WriteMode::default()).unwrap();
        }
        w.fs.sync().unwrap();
        let state = w.record();
        for blocks in sizes {
            let truncate = SetAttr { size: Some(blocks * BLOCK), ..SetAttr::default() };
            w.fs.setattr(&c, &v, &truncate).unwrap();
        }
        w.fs.fsync(&v).unwrap();
        w.fs.sync().unwrap();
        w.each_write(&state, |state, _| {
            drop(repaired(state.snapshot()));
        });
        drop(v);
        w.end();
    }
}

/// A range is punched that has a hole behind the direct blocks. The indirect block did not change,
/// but the freed blocks waited for it to be written.
#[test]
fn a_hole_punched_beside_a_hole_needs_no_unwritten_block() {
    const BLOCK: u64 = 8192;
    let w = world(8192, 1024);
    let (c, v) = (Cred::root(), w.file(&w.root, "f"));
    w.fs.write(&c, &v, 0, &[1; 15 * BLOCK as usize], WriteMode::default()).unwrap();
    for first in [12, 11] {
        let hole = first * BLOCK..13 * BLOCK;
        let (at, len) = (hole.start, hole.end - hole.start);
        w.fs.fallocate(&c, &v, at, len, Fallocate::PunchHole).unwrap();
        w.fs.sync().unwrap();
    }
    drop(v);
    w.end();
}

/// A file is truncated before and after it takes the name of another, and its directory is made
/// durable. The name was on the device when the inode was written with its size held back for an
/// indirect block, or without its blocks. Until the content that the file had at the rename, or
/// later content, is on the device, the other file keeps the name.
#[test]
fn a_truncated_file_replaces_another_with_its_size() {
    // The blocks: durable; before the rename; at the rename; and after it, one truncation at a
    // time.
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
    for (durable, written, renamed, later) in cases {
        for written_before in 0..4 {
            for short_by in [0, 2000] {
                Replacement { durable, written, renamed, later, written_before, short_by }.run();
            }
        }
    }
}

/// One history of [`a_truncated_file_replaces_another_with_its_size`]. Sizes are in blocks.
#[derive(Debug)]
struct Replacement {
    /// Size that is durable at the beginning.
    durable: u64,
    /// Size after more was written.
    written: u64,
    /// Size at the rename.
    renamed: u64,
    /// Sizes to which the file is truncated after the rename, its directory made durable each time.
    later: &'static [u64],
    /// How often the buffer daemon writes before the rename.
    written_before: u32,
    /// Bytes by which each size is short of whole blocks.
    short_by: u64,
}

impl Replacement {
    const BLOCK: u64 = 4096;

    fn bytes(&self, blocks: u64) -> u64 {
        (blocks * Self::BLOCK).saturating_sub(self.short_by)
    }

    fn run(&self) {
        let w = world(Self::BLOCK as u32, 512);
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
        write(0, self.bytes(self.durable));
        w.fs.sync().unwrap();
        write(self.bytes(self.durable), self.bytes(self.written));
        let state = w.record();
        let truncate = |blocks: u64| {
            let set = SetAttr { size: Some(self.bytes(blocks)), ..SetAttr::default() };
            w.fs.setattr(&c, &v, &set).unwrap();
        };
        if self.renamed < self.written {
            truncate(self.renamed);
        }
        // Inodes and names of other files are in the same blocks.
        let others = |n: u64| {
            let mode = SetAttr { perm: Some(0o600 + n as u16), ..SetAttr::default() };
            w.fs.setattr(&c, &beside, &mode).unwrap();
            w.fs.fsync(&beside).unwrap();
            w.fs.fsync(&w.file(root, &format!("y{n}"))).unwrap();
        };
        for _ in 0..self.written_before {
            w.fs.write_oldest().unwrap();
        }
        others(6);
        w.fs.rename(&c, (root, b"new"), (root, b"f"), RenameMode::Replace).unwrap();
        others(7);
        for &blocks in self.later {
            truncate(blocks);
            w.fs.fsync(root).unwrap();
            others(blocks);
        }
        w.fs.fsync(root).unwrap();
        w.fs.sync().unwrap();
        w.each_write(&state, |state, offset| {
            let found = content(state.snapshot(), "f");
            let len = found.len();
            assert!(self.is_allowed(&found), "{len} bytes: {self:?}: a write at {offset}");
        });
        drop((old, beside, v));
        w.end();
    }

    /// Whether the name `f` may have this content: that of the old file, or that of the new one.
    /// Bytes that are being truncated may be there, be zeros, or be missing.
    fn is_allowed(&self, found: &[u8]) -> bool {
        let sizes = self.later.iter().chain([&self.renamed]).map(|blocks| self.bytes(*blocks));
        let least = sizes.min().unwrap();
        found == [1; 100]
            || (least..=self.bytes(self.renamed)).contains(&(found.len() as u64)) && {
                let (kept, rest) = found.split_at(least as usize);
                kept.iter().all(|b| *b == 2) && rest.iter().all(|b| matches!(b, 0 | 2))
            }
    }
}
