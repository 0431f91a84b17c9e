//! The workloads of the laboratory, each by its name.
//!
//! | name | workload |
//! | --- | --- |
//! | `g4` | number 4 of the list of patterns that have broken file systems before |
//! | `1.17` | one operation: every operation of the set, each with every way to make it durable |
//! | `2.1043` | two operations: every pair |
//! | `3.5` | three operations, drawn by the seed |
//! | `r.2` | a long trace, drawn by the seed |
//! | `d.2` | a trace in a directory of more than twelve blocks, drawn by the seed |
//! | `file` | the one that was given |
//!
//! # Invariants
//! 1. A workload follows from the shape of its volume, its name and the seed.
//!
//! Reference: `spec/fsck-and-crash.md` §12.2.

mod directory;
pub(super) use directory::{further_names, is_long};
mod patterns;

use std::fmt;
use std::str::FromStr;

use ffs_device::{Rng, SplitMix64};

use super::geometry::Shape;
use super::op::{Op, Path, Space, Workload};

/// Operations of a long trace.
const TRACE: u32 = 1000;
/// Of so many workloads one is run on a device without a volatile cache, another one in tight memory.
const VARIANTS: u64 = 6;

/// Which workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// The one that was given.
    File,
    /// A known pattern.
    Pattern(u32),
    /// One operation.
    One(u32),
    /// Two.
    Two(u32),
    /// Three, drawn.
    Three(u32),
    /// A long trace.
    Trace(u32),
    /// A trace in a long directory.
    Directory(u32),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::File => f.write_str("file"),
            Source::Pattern(n) => write!(f, "g{n}"),
            Source::One(n) => write!(f, "1.{n}"),
            Source::Two(n) => write!(f, "2.{n}"),
            Source::Three(n) => write!(f, "3.{n}"),
            Source::Trace(n) => write!(f, "r.{n}"),
            Source::Directory(n) => write!(f, "d.{n}"),
        }
    }
}

impl FromStr for Source {
    type Err = ();

    fn from_str(text: &str) -> Result<Source, ()> {
        let number = |text: &str| text.parse::<u32>().map_err(|_| ());
        if text == "file" {
            return Ok(Source::File);
        }
        if let Some(rest) = text.strip_prefix('g') {
            return number(rest).map(Source::Pattern);
        }
        let (kind, rest) = text.split_once('.').ok_or(())?;
        let number = number(rest)?;
        match kind {
            "1" => Ok(Source::One(number)),
            "2" => Ok(Source::Two(number)),
            "3" => Ok(Source::Three(number)),
            "r" => Ok(Source::Trace(number)),
            "d" => Ok(Source::Directory(number)),
            _ => Err(()),
        }
    }
}

/// Makes the workloads for one shape of volume.
#[derive(Debug)]
pub struct Generator {
    shape: &'static Shape,
    seed: u64,
    core: Vec<Op>,
}

/// What follows an operation to make it durable, or to let time do so.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Nothing,
    Wait(u32),
    File,
    Data,
    Directory,
    Sync,
}

/// After an operation that another one follows.
const BETWEEN: [Then; 6] =
    [Then::Nothing, Then::Wait(1), Then::Wait(31), Then::File, Then::Directory, Then::Sync];
/// After the last one.
const LAST: [Then; 4] = [Then::File, Then::Data, Then::Directory, Then::Sync];
/// After the only one.
const ONLY: [Then; 8] = [
    Then::Nothing,
    Then::Wait(1),
    Then::Wait(29),
    Then::Wait(31),
    Then::File,
    Then::Data,
    Then::Directory,
    Then::Sync,
];

fn path(text: &str) -> Path {
    Path::parse(text).unwrap_or_else(|| unreachable!("a constant"))
}

/// What makes `op` durable in this way.
fn persist(op: &Op, how: Then) -> Option<Op> {
    let used = op.paths().last().map_or_else(|| path(""), |path| (*path).clone());
    // A removed name cannot be opened: its directory stands for it.
    let gone = matches!(op, Op::Unlink(_) | Op::Rmdir(_));
    let file = if gone { used.parent() } else { used.clone() };
    match how {
        Then::Nothing => None,
        Then::Wait(secs) => Some(Op::Wait(secs)),
        Then::File => Some(Op::Fsync(file)),
        Then::Data => Some(Op::Fdatasync(file)),
        Then::Directory => Some(Op::Fsync(used.parent())),
        Then::Sync => Some(Op::Sync),
    }
}

impl Generator {
    /// A generator for `shape`.
    #[must_use]
    pub fn new(shape: &'static Shape, seed: u64) -> Generator {
        Generator { shape, seed, core: core_ops(shape) }
    }

    /// How many patterns there are.
    #[must_use]
    pub fn patterns(&self) -> u32 {
        patterns::all(self.shape).len() as u32
    }

    /// How many workloads of one operation there are.
    #[must_use]
    pub fn ones(&self) -> u32 {
        (self.core.len() * ONLY.len()) as u32
    }

    /// How many workloads of two operations there are.
    #[must_use]
    pub fn twos(&self) -> u32 {
        (self.core.len() * self.core.len() * BETWEEN.len() * LAST.len()) as u32
    }

    /// Whether directories can be made long on such a volume.
    #[must_use]
    pub fn has_long_directories(&self) -> bool {
        directory::fits(self.shape)
    }

    /// The workload; `None` if there is none of that name.
    #[must_use]
    pub fn workload(&self, source: Source) -> Option<Workload> {
        let ops = match source {
            Source::File => return None,
            Source::Pattern(n) => patterns::all(self.shape).into_iter().nth(n as usize)?,
            Source::One(n) => self.one(n as usize)?,
            Source::Two(n) => self.two(n as usize)?,
            Source::Three(n) => self.three(n),
            Source::Trace(n) => self.trace(n, TRACE),
            Source::Directory(n) => return directory::workload(self.shape, &self.rng(5, n), n),
        };
        let (write_through, tight_memory) = match source {
            Source::Trace(n) => (n % 4 == 3, true),
            Source::Pattern(_) => (false, false),
            Source::One(n) | Source::Two(n) | Source::Three(n) => {
                let number = self.rng(6, n).below(VARIANTS);
                (number == 0, number == 1)
            }
            Source::File | Source::Directory(_) => return None,
        };
        Some(Workload {
            standard_tree: true,
            write_through,
            tight_memory,
            ops,
            ..Workload::default()
        })
    }

    fn rng(&self, kind: u64, number: u32) -> SplitMix64 {
        let mix = SplitMix64::new(self.seed ^ kind << 48);
        SplitMix64::new(mix.next_u64() ^ u64::from(number))
    }

    fn one(&self, n: usize) -> Option<Vec<Op>> {
        let op = self.core.get(n / ONLY.len())?;
        let mut ops = vec![op.clone()];
        ops.extend(persist(op, ONLY[n % ONLY.len()]));
        Some(ops)
    }

    fn two(&self, n: usize) -> Option<Vec<Op>> {
        let (n, last) = (n / LAST.len(), LAST[n % LAST.len()]);
        let (n, between) = (n / BETWEEN.len(), BETWEEN[n % BETWEEN.len()]);
        let (first, second) =
            (self.core.get(n / self.core.len())?, &self.core[n % self.core.len()]);
        let mut ops = vec![first.clone()];
        ops.extend(persist(first, between));
        ops.push(second.clone());
        ops.extend(persist(second, last));
        Some(ops)
    }

    fn three(&self, n: u32) -> Vec<Op> {
        let rng = self.rng(3, n);
        let mut ops = Vec::new();
        for at in 0..3 {
            let op = self.core[rng.below(self.core.len() as u64) as usize].clone();
            let how = if at < 2 { pick(&rng, &BETWEEN) } else { pick(&rng, &LAST) };
            let persist = persist(&op, how);
            ops.push(op);
            ops.extend(persist);
        }
        ops
    }

    /// A long trace of three writers in turns, each with its own directory and a common one.
    fn trace(&self, n: u32, length: u32) -> Vec<Op> {
        let rng = self.rng(4, n);
        let dirs = ["A", "B", "A/C"];
        let mut ops = Vec::new();
        for _ in 0..length {
            let writer = rng.below(3) as usize;
            let own = dirs[writer];
            let dir = if rng.below(4) == 0 { "" } else { own };
            ops.push(random_op(self.shape, &rng, dir, dirs[rng.below(3) as usize]));
            match rng.below(40) {
                0 => ops.push(Op::Sync),
                1..=3 => ops.push(Op::Fsync(some_file(&rng, dir))),
                4 => ops.push(Op::Fsync(path(dir))),
                5 => ops.push(Op::Fdatasync(some_file(&rng, dir))),
                6..=11 => ops.push(Op::Wait(pick(&rng, &[1, 1, 1, 5, 29, 31]))),
                12 => ops.push(Op::Open(some_file(&rng, dir))),
                13 => ops.push(Op::Close),
                _ => {}
            }
        }
        ops
    }
}

fn pick<T: Copy>(rng: &SplitMix64, list: &[T]) -> T {
    list[rng.below(list.len() as u64) as usize]
}

/// The names random work uses in every directory.
const FILES: [&str; 6] =
    ["foo", "bar", "x", "y", "z", "a-rather-long-name-that-fills-directories-sooner"];

fn join(dir: &str, name: &str) -> Path {
    path(&format!("{dir}{}{name}", if dir.is_empty() { "" } else { "/" }))
}

fn some_file(rng: &SplitMix64, dir: &str) -> Path {
    join(dir, pick(rng, &FILES))
}

fn random_op(shape: &Shape, rng: &SplitMix64, dir: &str, other: &str) -> Op {
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

/// Work after a crash that nobody repaired: `n` operations on what may be there.
#[must_use]
pub fn further_work(shape: &Shape, n: u32, seed: u64) -> Vec<Op> {
    let rng = SplitMix64::new(seed);
    let dirs = ["", "A", "B", "A/C"];
    (0..n).map(|_| random_op(shape, &rng, pick(&rng, &dirs), pick(&rng, &dirs))).collect()
}

/// The operations that workloads of one, two and three operations are made of.
fn core_ops(shape: &Shape) -> Vec<Op> {
    let (block, frag) = (u64::from(shape.bsize), u64::from(shape.fsize));
    let write = |at: &str, offset, len| Op::Write { at: path(at), offset, len, sync: false };
    let symlink = |at: &str, len: usize| Op::Symlink(path(at), "t".repeat(len));
    let rename = |a: &str, b: &str| Op::Rename(path(a), path(b));
    let mut ops = Vec::new();
    ops.extend(["bar", "A/bar", "A/C/bar"].map(|at| Op::Create(path(at))));
    ops.push(Op::Mkfifo(path("A/bar")));
    ops.extend(["D", "A/D", "B/e/D"].map(|at| Op::Mkdir(path(at))));
    ops.push(Op::Rmdir(path("B/e")));
    ops.push(Op::Link(path("foo"), path("bar")));
    ops.push(Op::Link(path("A/foo"), path("A/bar")));
    ops.push(Op::Link(path("A/foo"), path("A/C/bar")));
    ops.extend(["foo", "A/foo", "B/foo", "B/l", "A/s", "A/C/foo"].map(|at| Op::Unlink(path(at))));
    // Files: new and existing names, same and other directories, another name of the same file.
    ops.extend(
        [("foo", "bar"), ("A/foo", "A/bar"), ("A/foo", "A/C/bar"), ("A/C/foo", "bar")]
            .map(|(a, b)| rename(a, b)),
    );
    ops.extend(
        [("foo", "A/foo"), ("A/foo", "foo"), ("B/foo", "A/foo"), ("A/foo", "B/l"), ("B/l", "foo")]
            .map(|(a, b)| rename(a, b)),
    );
    // Directories: new name, other parent, over an empty one.
    ops.extend(
        [("A", "D"), ("A/C", "C"), ("A/C", "B/D"), ("A/C", "B/e"), ("B/e", "A/D")]
            .map(|(a, b)| rename(a, b)),
    );
    // Swaps: in a directory, across, of directories, of a file and a directory.
    ops.extend(
        [("foo", "A/foo"), ("A/s", "A/foo"), ("A/C", "B/e"), ("A", "B"), ("B/foo", "A/C")]
            .map(|(a, b)| Op::Exchange(path(a), path(b))),
    );
    ops.extend([symlink("A/bar", 9), symlink("bar", 200)]);
    // Within a fragment, to the end of a block, a new block, across twelve blocks.
    ops.push(Op::Append(path("foo"), 60));
    ops.push(Op::Append(path("foo"), block - 3 * frag + 100));
    ops.push(Op::Append(path("A/foo"), 2 * frag));
    ops.push(Op::Append(path("A/foo"), block));
    ops.push(Op::Append(path("B/foo"), block));
    ops.push(Op::Append(path("A/C/foo"), 13 * block));
    // In place: a part, a sector, a block; a hole; far behind the end.
    ops.push(write("foo", 100, 200));
    ops.push(write("A/foo", 0, block));
    ops.push(write("B/foo", 11 * block + 512, 2 * block));
    ops.push(write("A/C/foo", 2 * block, frag));
    ops.push(write("foo", 20 * block, frag + 9));
    ops.push(Op::Write { at: path("A/foo"), offset: block, len: 300, sync: true });
    ops.push(Op::Write { at: path("A/C/foo"), offset: 0, len: block, sync: true });
    for (at, size) in [
        ("foo", 0),
        ("A/foo", 0),
        ("B/foo", 0),
        ("foo", frag + 3),
        ("A/foo", block - 1),
        ("B/foo", 12 * block + 5),
        ("B/foo", 3 * block),
        ("foo", 3 * block),
        ("A/C/foo", 14 * block),
    ] {
        ops.push(Op::Truncate(path(at), size));
    }
    let space = |how, at: &str, offset, len| Op::Space(how, path(at), offset, len);
    // Grown with space, into a hole and across the twelve blocks; holes; zeros in place and behind.
    ops.push(space(Space::Allocate, "foo", 2 * block, frag + 9));
    ops.push(space(Space::Allocate, "A/C/foo", 11 * block, 2 * block));
    ops.push(space(Space::Punch, "B/foo", block - 100, 3 * block));
    ops.push(space(Space::Punch, "B/foo", 11 * block, 9 * block));
    ops.push(space(Space::Zero, "A/foo", 100, 2 * block));
    ops.push(Op::Chmod(path("A/foo"), 0o4711));
    ops.push(Op::Chown(path("A"), 7, 8));
    ops.push(Op::Utimes(path("foo"), 1_234_567));
    if shape.format == ffs_ondisk::Format::Ufs2 {
        ops.push(Op::SetXattr(path("foo"), "k".to_owned(), 40));
        ops.push(Op::SetXattr(path("A/foo"), "k".to_owned(), shape.fsize + 30));
    }
    ops
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::geometry::SHAPES;
    use crate::crash::text;

    #[test]
    fn every_name_is_a_workload_and_can_be_read_back() {
        for shape in SHAPES {
            let generator = Generator::new(shape, 5);
            let last = |n: u32| n - 1;
            let sources = [
                Source::Pattern(last(generator.patterns())),
                Source::One(last(generator.ones())),
                Source::Two(last(generator.twos())),
                Source::Three(12345),
                Source::Trace(3),
            ];
            let long = generator.has_long_directories().then_some(Source::Directory(2));
            for source in sources.into_iter().chain(long) {
                let workload = generator.workload(source).unwrap();
                assert_eq!(source.to_string().parse(), Ok(source));
                assert_eq!(text::parse(&text::print(&workload)), Ok(workload));
            }
            assert_eq!(generator.workload(Source::Pattern(generator.patterns())), None);
            assert_eq!(generator.workload(Source::One(generator.ones())), None);
            assert_eq!(generator.workload(Source::Two(generator.twos())), None);
        }
        for wrong in ["", "g", "4.1", "2.", "files", "1.x"] {
            assert_eq!(wrong.parse::<Source>(), Err(()), "{wrong}");
        }
    }

    #[test]
    fn drawn_workloads_follow_from_the_seed() {
        let made = |seed, source| Generator::new(&SHAPES[0], seed).workload(source);
        for source in [Source::Three(4), Source::Trace(0), Source::Directory(0)] {
            assert_eq!(made(1, source), made(1, source));
            assert_ne!(made(1, source), made(2, source));
        }
        let trace = made(1, Source::Trace(0)).unwrap().ops;
        assert!(
            trace.iter().filter(|op| op.is_persistence()).count() > 50,
            "some are made durable"
        );
    }
}
