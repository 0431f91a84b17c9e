//! Random operations in the standard tree: long traces, and operations after a crash.

use ffs_device::{Rng, SplitMix64};
use ffs_ondisk::geometry::NDADDR;

use super::super::geometry::Shape;
use super::super::op::{Op, Path, Space};
use super::core::pointers;
use super::{join, path, pick};

/// What the operations of a part of a trace have in common.
#[derive(Clone, Copy)]
enum Part {
    Any,
    /// Names that are made, moved and removed.
    Moves,
    /// Two sparse files whose sizes change.
    Sizes,
}

impl Part {
    fn op(self, shape: &Shape, rng: &SplitMix64, dir: &str, other: &str) -> Op {
        match self {
            Part::Any => random_op(shape, rng, dir, other),
            Part::Moves => random_move(rng),
            Part::Sizes => random_size(shape, rng, dir),
        }
    }

    /// A file that operations of this part use.
    fn file(self, rng: &SplitMix64, dir: &str) -> Path {
        match self {
            Part::Moves => moved_file(rng),
            Part::Any | Part::Sizes => some_file(rng, dir),
        }
    }
}

/// A long trace of three writers in turns, each with its own directory and a common one.
pub(super) fn trace(shape: &Shape, rng: &SplitMix64, length: u32) -> Vec<Op> {
    let dirs = ["A", "B", "A/C"];
    let mut ops = Vec::new();
    let mut part = Part::Any;
    for number in 0..length {
        let writer = rng.below(3) as usize;
        let own = dirs[writer];
        let dir = if rng.below(4) == 0 { "" } else { own };
        if number % PART_LENGTH == 0 {
            part = pick(rng, &[Part::Any, Part::Moves, Part::Sizes]);
        }
        let other = dirs[rng.below(3) as usize];
        let file = |rng| part.file(rng, dir);
        ops.push(part.op(shape, rng, dir, other));
        match rng.below(40) {
            0 => ops.push(Op::Sync),
            1..=3 => ops.push(Op::Fsync(file(rng))),
            4 => ops.push(Op::Fsync(path(dir))),
            5 => ops.push(Op::Fdatasync(some_file(rng, dir))),
            6..=11 => ops.push(Op::Wait(pick(rng, &[1, 1, 1, 5, 29, 31]))),
            12 => ops.push(Op::Open(some_file(rng, dir))),
            13 => ops.push(Op::Close),
            _ => {}
        }
    }
    ops
}

/// Creates the missing files that random operations use, in each of these directories.
pub(super) fn populated(dirs: &[&str]) -> Vec<Op> {
    let names = FILES.iter().filter(|name| **name != "foo");
    let all = dirs.iter().flat_map(|dir| names.clone().map(move |name| join(dir, name)));
    all.flat_map(|at| [Op::Create(at.clone()), Op::Append(at, 700)]).collect()
}

/// A trace of one of several writers, which uses its own directory and the one below.
pub(super) fn in_directory(shape: &Shape, rng: &SplitMix64, dir: &str, length: u32) -> Vec<Op> {
    let own = [dir.to_owned(), format!("{dir}/C")];
    let some = |rng: &SplitMix64| own[rng.below(2) as usize].clone();
    let mut ops = Vec::new();
    for _ in 0..length {
        let (at, other) = (some(rng), some(rng));
        ops.push(random_op(shape, rng, &at, &other));
        match rng.below(10) {
            0..=1 => ops.push(Op::Fsync(some_file(rng, &at))),
            2 => ops.push(Op::Fsync(path(&at))),
            3 => ops.push(Op::Fdatasync(some_file(rng, &at))),
            _ => {}
        }
    }
    ops
}

/// The names that random operations use in every directory.
const FILES: [&str; 6] =
    ["foo", "bar", "x", "y", "z", "a-rather-long-name-that-fills-directories-sooner"];

pub(super) fn some_file(rng: &SplitMix64, dir: &str) -> Path {
    join(dir, pick(rng, &FILES))
}

/// Operations of a part of a trace.
const PART_LENGTH: u32 = 30;

/// Parents of directories that are moved.
const PARENTS: [&str; 4] = ["", "A", "B", "A/C"];

/// A directory of a small tree, in which moves often meet.
fn moved_directory(rng: &SplitMix64) -> Path {
    join(pick(rng, &PARENTS), pick(rng, &["d1", "d2"]))
}

/// A file in such a directory, or beside it.
fn moved_file(rng: &SplitMix64) -> Path {
    let name = pick(rng, &["x", "x", "y"]);
    match rng.below(3) {
        0 => join(pick(rng, &PARENTS), name),
        _ => path(&format!("{}/{name}", moved_directory(rng))),
    }
}

/// An operation on names only: files enter and leave directories that are made, moved and removed.
fn random_move(rng: &SplitMix64) -> Op {
    match rng.below(16) {
        0..=1 => Op::Create(moved_file(rng)),
        2..=4 => Op::Mkdir(moved_directory(rng)),
        5..=8 => Op::Rename(moved_file(rng), moved_file(rng)),
        9..=11 => Op::Rename(moved_directory(rng), moved_directory(rng)),
        12..=13 => Op::Rmdir(moved_directory(rng)),
        14 => Op::Link(moved_file(rng), moved_file(rng)),
        _ => Op::Unlink(moved_file(rng)),
    }
}

/// The files of [`random_size`] in every directory.
const SPARSE: [&str; 2] = ["x", "y"];

/// A write, a truncation or a hole in one of two files, often far from its end and at the edge of a
/// block. So a file loses blocks and its last one becomes a hole, and it grows again before the
/// device contains that. Other operations change neighbours of its inode.
fn random_size(shape: &Shape, rng: &SplitMix64, dir: &str) -> Op {
    let (block, frag) = (u64::from(shape.bsize), u64::from(shape.fsize));
    let at = join(dir, pick(rng, &SPARSE));
    let (direct, pointers) = (NDADDR as u64, pointers(shape));
    // A block among the first, around the first indirect block and around the second.
    let number = match rng.below(8) {
        0..=3 => rng.below(direct),
        4..=5 => direct - 1 + rng.below(4),
        6 => direct + pointers - 1 + rng.below(3),
        _ => direct + rng.below(pointers),
    };
    let inside = pick(rng, &[0, 0, 1, frag - 1, frag, 2 * frag + 9, block - frag, block - 1]);
    let place = number * block + inside;
    match rng.below(20) {
        0..=5 => Op::Write { at, offset: place, len: 1 + rng.below(2 * frag), sync: false },
        6 => Op::Write { at, offset: place, len: 1 + rng.below(2 * frag), sync: true },
        7..=12 => Op::Truncate(at, place),
        13 => Op::Truncate(at, 0),
        14 => Op::Append(at, 1 + rng.below(pick(rng, &[frag, block, 2 * block]))),
        15 => Op::Space(Space::Punch, at, place, 1 + rng.below(3 * block)),
        16 => Op::Space(Space::Allocate, at, place, 1 + rng.below(block)),
        17 => Op::Create(at),
        18 => Op::Append(some_file(rng, dir), 1 + rng.below(frag)),
        _ => Op::Chmod(some_file(rng, dir), 0o600 + rng.below(64) as u16),
    }
}

pub(super) fn random_op(shape: &Shape, rng: &SplitMix64, dir: &str, other: &str) -> Op {
    let (block, frag) = (u64::from(shape.bsize), u64::from(shape.fsize));
    let at = some_file(rng, dir);
    let elsewhere = some_file(rng, other);
    let sub = |rng: &SplitMix64| join(dir, pick(rng, &["d1", "d2"]));
    match rng.below(34) {
        0..=5 => Op::Create(at),
        6..=9 => Op::Unlink(at),
        10..=11 => Op::Rename(at, elsewhere),
        12 => Op::Link(at, elsewhere),
        13 => Op::Mkdir(sub(rng)),
        14 => Op::Rmdir(sub(rng)),
        15 => Op::Rename(sub(rng), join(other, "d3")),
        16 => Op::Symlink(at, "foo".repeat(1 + rng.below(60) as usize)),
        17..=21 => Op::Append(at, 1 + rng.below(pick(rng, &[frag, block, 3 * block]))),
        22..=23 => {
            let (offset, len) = (rng.below(14 * block), 1 + rng.below(block));
            Op::Write { at, offset, len, sync: rng.below(4) == 0 }
        }
        24 => Op::Truncate(at, 0),
        25 => Op::Truncate(at, rng.below(13 * block)),
        26 => Op::Chmod(at, 0o600 + rng.below(64) as u16),
        27 => Op::SetXattr(at, "k".to_owned(), rng.below(frag) as u32),
        28 => Op::RemoveXattr(at, "k".to_owned()),
        29 => Op::Exchange(at, elsewhere),
        30 => Op::Exchange(sub(rng), join(other, pick(rng, &["d1", "d3", "foo"]))),
        31 => Op::Space(Space::Allocate, at, rng.below(14 * block), 1 + rng.below(2 * block)),
        32 => {
            let how = pick(rng, &[Space::Punch, Space::Punch, Space::Zero]);
            Op::Space(how, at, rng.below(13 * block), 1 + rng.below(4 * block))
        }
        _ => Op::Rmdir(join(other, "d3")),
    }
}

/// `n` operations after an unrepaired crash, on names that may exist.
#[must_use]
pub(in crate::crash) fn further_work(shape: &Shape, n: u32, seed: u64) -> Vec<Op> {
    let rng = SplitMix64::new(seed);
    let dirs = ["", "A", "B", "A/C"];
    (0..n).map(|_| random_op(shape, &rng, pick(&rng, &dirs), pick(&rng, &dirs))).collect()
}
