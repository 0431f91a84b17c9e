//! Traces that fill a small soft-updates journal, so that it begins again, operations wait for it,
//! and it is given up; and patterns, of which each needs one rule of the journal.
//!
//! # Invariants
//! 1. Between two waits a burst makes more records than the smallest journals hold, now and then.
//!
//! Reference: `spec/soft-updates.md` §13.1.

use ffs_device::{Rng, SplitMix64};

use super::super::geometry::Shape;
use super::super::op::{Op, Path, Space, Workload};
use super::super::text;
use super::{join, path, pick};

/// Bursts of a trace.
const BURSTS: u32 = 40;
/// Directories of the trace.
const DIRS: [&str; 4] = ["", "A", "B", "A/C"];

/// Patterns on the standard tree, with a journal of one block unless they name another size.
/// `{name}` is a part of a name, 100 bytes long.
const PATTERNS: &[&str] = &[
    // A removed file is in use when a checkpoint retires the records of its removal.
    "open /foo\nunlink /foo\nsync\ncreate /n\nfsync /n\nwait 2\nclose\nwait 31",
    "mkdir /D\nsync\nopen /D\nrmdir /D\nsync\ncreate /n\nfsync /n\nclose\nwait 31",
    // A file without a name while blocks are written early.
    "tight-memory\ntmpfile /t 70000\nwait 2\nunlink /t\nwait 31",
    "tight-memory\ntmpfile /A/t 200000\nfsync /A/t\nwait 31",
    // An entry moves inside its directory while a write shows its older value.
    "fsync-file\ncreate /A/C/a{name}\ncreate /A/C/b{name}\ncreate /A/C/c{name}\n\
     create /A/C/r\nsync\nunlink /A/C/a{name}\nsync\nrename /foo /A/C/r\n\
     create /A/C/d{name}nnnnnnnnnnnnnnnnnnnn\nfsync /A/C/d{name}nnnnnnnnnnnnnnnnnnnn\nwait 31",
    "fsync-file\ncreate /A/C/a{name}\ncreate /A/C/b{name}\ncreate /A/C/c{name}\n\
     create /A/C/r\ncreate /n\nsync\nunlink /A/C/a{name}\nsync\nlink /B/foo /A/C/t\n\
     rename /A/C/t /A/C/r\nmkdir /A/C/d{name}nnnnnnnnnnnnnnnn\n\
     fsync /A/C/d{name}nnnnnnnnnnnnnnnn\nwait 31",
    // One write of more blocks than the journal has records.
    "append /foo 450000\nfsync /foo\ncreate /n\nappend /n 100\nwait 31\nunlink /foo\nwait 31",
    "append /n 1\ncreate /n\nappend /n 450000\nwait 31\nunlink /n\nwait 31\nmkdir /D\nwait 31",
    // Two mounts in one second: the second one's segments are followed by those of the first.
    "link /foo /b\nfsync /foo\ncreate /x\nfsync /x\nunlink /b\nfsync /\nremount ro\nremount rw\n\
     create /z\nfsync /z\nlink /foo /c\nfsync /foo\nwait 2",
    "link /foo /b\nfsync /foo\nunlink /b\nfsync /\nremount ro\nremount rw\nlink /foo /c\n\
     fsync /foo\nwait 31",
    // A file whose indirect block and the blocks below it are in several groups.
    "journal 4194304\nappend /foo 900000\nsync\nunlink /foo\nwait 31\nwait 31",
    "journal 4194304\ncreate /n\nappend /n 900000\nsync\ntruncate /n 0\nfsync /n\nwait 31",
    // A commit of several segments after a checkpoint, at the end of the ring.
    "create /a1\nfsync /a1\ncreate /a2\nfsync /a2\ncreate /a3\nfsync /a3\ncreate /a4\nfsync /a4\n\
     sync\nappend /foo 150000\nfsync /foo\nunlink /a1\nsync",
    "create /a1\nfsync /a1\ncreate /a2\nfsync /a2\ncreate /a3\nfsync /a3\nsync\n\
     append /foo 200000\nfsync /foo\nsync\nappend /foo 200000\nfsync /foo",
];

/// The patterns for volumes of this shape.
pub(super) fn patterns(shape: &Shape) -> impl Iterator<Item = Workload> {
    let small = u64::from(shape.bsize);
    let name = "n".repeat(100);
    PATTERNS.iter().filter_map(move |text| {
        let read = text::parse(&text.replace("{name}", &name)).ok()?;
        let journal_bytes = read.journal_bytes.or(Some(small));
        Some(Workload { standard_tree: true, journal_bytes, ..read })
    })
}

/// Trace number `n`, drawn by `rng`.
pub(super) fn workload(shape: &Shape, rng: &SplitMix64, n: u32) -> Workload {
    let mut ops = Vec::new();
    for _ in 0..BURSTS {
        burst(shape, rng, &mut ops);
        pause(rng, &mut ops);
    }
    // Removed files stay in use over the end of a lap in one trace of two.
    if n % 2 == 1 {
        ops.insert(ops.len() / 3, Op::Open(path("B/foo")));
        ops.insert(ops.len() / 3 + 1, Op::Unlink(path("B/foo")));
    }
    let blocks = [1, 2, 2, 4];
    Workload {
        standard_tree: true,
        tight_memory: n % 3 == 1,
        write_through: n % 8 == 7,
        journal_bytes: Some(pick(rng, &blocks) * u64::from(shape.bsize)),
        ops,
        ..Workload::default()
    }
}

/// What makes the changes durable, or lets time do so.
fn pause(rng: &SplitMix64, ops: &mut Vec<Op>) {
    let dir = pick(rng, &DIRS);
    match rng.below(10) {
        0 => ops.push(Op::Sync),
        1..=3 => ops.push(Op::Fsync(name(rng, dir))),
        4 => ops.push(Op::Fsync(path(dir))),
        5..=7 => ops.push(Op::Wait(pick(rng, &[1, 2, 5, 29, 31]))),
        8 => ops.push(Op::Close),
        _ => ops.push(Op::Open(name(rng, dir))),
    }
}

fn name(rng: &SplitMix64, dir: &str) -> Path {
    join(dir, &format!("n{}", rng.below(24)))
}

/// Many operations of one kind.
fn burst(shape: &Shape, rng: &SplitMix64, ops: &mut Vec<Op>) {
    let (block, frag) = (u64::from(shape.bsize), u64::from(shape.fsize));
    let (dir, other) = (pick(rng, &DIRS), pick(rng, &DIRS));
    let times = 2 + rng.below(12);
    let how = rng.below(11);
    for _ in 0..times {
        let at = name(rng, dir);
        match how {
            0 => ops.push(Op::Create(at)),
            1 => ops.extend([Op::Create(at.clone()), Op::Append(at, 1 + rng.below(3 * frag))]),
            2 => ops.push(Op::Unlink(at)),
            3 => ops.push(Op::Rename(at, name(rng, other))),
            4 => ops.push(Op::Link(at, name(rng, other))),
            5 => {
                let sub = join(dir, &format!("m{}", rng.below(6)));
                ops.extend([Op::Mkdir(sub.clone()), Op::Create(join(other, "n1"))]);
                ops.push(if rng.below(2) == 0 { Op::Rmdir(sub) } else { Op::Unlink(at) });
            }
            6 => ops.push(Op::Append(at, 1 + rng.below(2 * block))),
            7 => {
                let to = rng.below(4) * rng.below(4 * block);
                ops.extend([
                    Op::Append(at.clone(), block + rng.below(block)),
                    Op::Truncate(at, to),
                ]);
            }
            8 => {
                let offset = rng.below(16) * block;
                ops.extend([
                    Op::Write { at: at.clone(), offset, len: 1 + rng.below(frag), sync: false },
                    Op::Space(Space::Punch, at, rng.below(12) * block, 1 + rng.below(4 * block)),
                ]);
            }
            9 => {
                let sub = join(dir, &format!("m{}", rng.below(6)));
                let to = join(other, &format!("m{}", rng.below(6)));
                ops.extend([Op::Mkdir(sub.clone()), Op::Rename(sub, to)]);
            }
            _ => ops.extend([
                Op::Create(at.clone()),
                Op::Symlink(join(dir, "s"), "foo".repeat(1 + rng.below(60) as usize)),
                Op::Unlink(join(dir, "s")),
                Op::Unlink(at),
            ]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::geometry::SHAPES;

    #[test]
    fn every_pattern_can_be_read() {
        assert_eq!(patterns(&SHAPES[0]).count(), PATTERNS.len());
    }

    #[test]
    fn traces_follow_from_the_seed_and_have_a_small_journal() {
        let of = |seed| workload(&SHAPES[0], &SplitMix64::new(seed), 1);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1).ops, of(2).ops);
        assert!(of(1).journal_bytes.is_some_and(|n| n <= 4 * 4096));
        let removed = Op::Unlink(path("B/foo"));
        assert!(of(1).ops.contains(&removed));
    }
}
