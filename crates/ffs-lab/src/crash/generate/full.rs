//! Workloads on nearly full volumes: every operation with a given free space, and traces.
//!
//! The free space is measured for the current user: only the super-user may use the reserve
//! (`minfree`).
//!
//! # Invariants
//! 1. The volumes are made nearly full, so that filling them takes a few writes.

use ffs_device::{Rng, SplitMix64};

use super::super::geometry::Shape;
use super::super::op::{Op, Path, Space, Workload};
use super::{LAST, join, path, persist, pick};

/// A user other than the super-user.
const USER: u32 = 1001;
/// The file that takes the free space.
const FILLER: &str = "filler";
/// Operations of a trace.
const TRACE: u32 = 250;
/// Ways in which a workload fills the volume.
const WAYS: usize = 3;

/// Free bytes: none, a fragment, less than a block, more than a block.
fn free_sizes(shape: &Shape) -> [u64; 4] {
    let (block, frag) = (u64::from(shape.bsize), u64::from(shape.fsize));
    [0, frag, 3 * frag, block + 2 * frag]
}

/// How many workloads of one operation there are.
pub(super) fn count(shape: &Shape, core: &[Op]) -> u32 {
    if shape.full { (core.len() * free_sizes(shape).len() * WAYS) as u32 } else { 0 }
}

/// Gives all users access to all directories and files.
fn open_to_all() -> Vec<Op> {
    let dirs = ["", "A", "B", "A/C", "B/e"].map(|dir| Op::Chmod(path(dir), 0o777));
    let files = ["foo", "A/foo", "B/foo", "A/C/foo"].map(|file| Op::Chmod(path(file), 0o666));
    [dirs.to_vec(), files.to_vec()].concat()
}

/// Number `n`: the operation with little free space, made durable; then again after the filler was
/// removed.
pub(super) fn workload(shape: &Shape, core: &[Op], n: u32) -> Option<Workload> {
    if !shape.full {
        return None;
    }
    let n = n as usize;
    let (way, n) = (n % WAYS, n / WAYS);
    let free_sizes = free_sizes(shape);
    let free = free_sizes[n % free_sizes.len()];
    let op = core.get(n / free_sizes.len())?;
    let last = LAST[(n + way) % LAST.len()];
    let mut ops = Vec::new();
    if way == 2 {
        ops.push(Op::User(USER));
    }
    ops.extend([Op::Create(path(FILLER)), Op::Fill(path(FILLER), free)]);
    if way > 0 {
        ops.push(Op::Sync);
    }
    ops.push(op.clone());
    ops.extend(persist(op, last));
    ops.push(Op::Append(path("A/foo"), u64::from(shape.fsize)));
    ops.push(Op::Unlink(path(FILLER)));
    ops.push(op.clone());
    ops.extend([Op::Append(path("foo"), u64::from(shape.bsize)), Op::Fsync(path("foo"))]);
    let setup = if way == 2 { open_to_all() } else { Vec::new() };
    Some(Workload { standard_tree: true, setup, ops, ..Workload::default() })
}

/// Trace number `n`, drawn by `rng`: small files are created, removed and grow by fragments while
/// there is hardly a free block, so that growth moves fragments, fails, and is reversed.
pub(super) fn trace(shape: &Shape, rng: &SplitMix64, n: u32) -> Option<Workload> {
    if !shape.full {
        return None;
    }
    let mut setup = open_to_all();
    setup.extend([Op::Create(path(FILLER)), Op::Fill(path("full"), 0)]);
    setup.extend(super::patterns::fragments_filled());
    // Some space is freed: fragments and a block.
    let given = |at: &str| Op::Truncate(path(at), 0);
    setup.extend(["A/C/s0", "A/C/s3"].map(given));
    let hole = rng.below(shape.bytes / 2 / u64::from(shape.bsize)) * u64::from(shape.bsize);
    setup.push(Op::Space(Space::Punch, path("full"), hole, u64::from(shape.bsize)));
    let mut ops = Vec::new();
    for _ in 0..TRACE {
        step(shape, rng, &mut ops);
    }
    Some(Workload {
        standard_tree: true,
        write_through: n % 4 == 3,
        tight_memory: n % 4 == 1,
        fsync_file: n % 2 == 1,
        setup,
        ops,
        ..Workload::default()
    })
}

/// A small file.
fn small(rng: &SplitMix64) -> Path {
    let dir = pick(rng, &["", "A", "B", "A/C"]);
    join(dir, pick(rng, &["s0", "s1", "s2", "s3", "s4", "s5", "foo"]))
}

fn step(shape: &Shape, rng: &SplitMix64, ops: &mut Vec<Op>) {
    let (block, frag) = (u64::from(shape.bsize), u64::from(shape.fsize));
    let at = small(rng);
    let some = |rng: &SplitMix64| frag * (1 + rng.below(3)) - rng.below(2);
    match rng.below(24) {
        0..=2 => ops.extend([Op::Create(at.clone()), Op::Append(at, some(rng))]),
        3..=6 => ops.push(Op::Append(at, some(rng))),
        // After the block of the tail: the tail must become a whole block first.
        7..=9 => {
            let offset = block * (1 + rng.below(3));
            ops.push(Op::Write { at, offset, len: frag, sync: rng.below(4) == 0 });
        }
        10 => ops.push(Op::Write { at, offset: 13 * block, len: frag, sync: false }),
        11..=12 => ops.push(Op::Truncate(at, pick(rng, &[0, 0, frag, block, block + frag]))),
        13..=14 => ops.push(Op::Unlink(at)),
        15 => ops.extend([
            Op::Append(at.clone(), frag),
            Op::Space(Space::Punch, at, 0, block * (1 + rng.below(2))),
        ]),
        16 => ops.push(Op::Rename(at, small(rng))),
        17 => ops.push(Op::Exchange(at, small(rng))),
        18 => ops.push(Op::Mkdir(join(pick(rng, &["A", "B"]), "d"))),
        19 => ops.push(Op::Rmdir(join(pick(rng, &["A", "B"]), "d"))),
        20 => ops.push(Op::Link(at, small(rng))),
        21 => ops.push(Op::SetXattr(at, "k".to_owned(), rng.below(2 * frag) as u32)),
        22 => ops.push(Op::Fill(path(FILLER), pick(rng, &free_sizes(shape)))),
        _ => ops.push(Op::Truncate(path(FILLER), block * rng.below(4))),
    }
    match rng.below(12) {
        0..=2 => ops.push(Op::Fsync(small(rng))),
        3 => ops.push(Op::Fdatasync(small(rng))),
        4 => ops.push(Op::Fsync(path(pick(rng, &["", "A", "B"])))),
        5 => ops.push(Op::Wait(pick(rng, &[1, 29, 31]))),
        6 => ops.push(Op::User(pick(rng, &[0, USER]))),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::geometry::find;
    use super::super::super::oracle::SoftUpdateOptions;
    use super::super::super::record::{Setting, record};
    use super::super::core;
    use super::*;
    use crate::crash::Updates;
    use ffs_core::OrderingPolicy;
    use std::collections::BTreeSet;

    /// The verbs of operations that failed for lack of space.
    fn without_space(workload: &Workload, shape: &'static Shape) -> Vec<String> {
        let base = shape.base(Updates::Soft, true).unwrap().with(&workload.setup).unwrap();
        let ordering = OrderingPolicy::SoftUpdates;
        let setting =
            Setting { ordering, seed: 1, soft: SoftUpdateOptions::default(), keeps_events: false };
        let recording = record(&base, workload, setting).unwrap();
        let full = recording.failed.iter().filter(|(_, why)| why.contains("no space"));
        full.map(|(number, _)| {
            let text = workload.ops[*number].to_string();
            text.split(' ').next().unwrap_or_default().to_owned()
        })
        .collect()
    }

    #[test]
    fn every_operation_that_needs_space_fails_on_a_full_volume() {
        let shape = find("ufs2-full").unwrap();
        let ops = core::ops(shape);
        let mut full_volume_errors = BTreeSet::new();
        for (at, op) in ops.iter().enumerate() {
            // No free space, as the super-user and as a user. An exchange needs none.
            for way in [1, 2] {
                let n = (at * free_sizes(shape).len() * WAYS + way) as u32;
                if !matches!(op, Op::Exchange(..) | Op::Fill(..)) {
                    full_volume_errors
                        .extend(without_space(&workload(shape, &ops, n).unwrap(), shape));
                }
            }
        }
        for verb in ["mkdir", "symlink", "append", "write", "truncate", "allocate", "setxattr"] {
            assert!(full_volume_errors.contains(verb), "{verb}: {full_volume_errors:?}");
        }
    }

    #[test]
    fn a_long_directory_cannot_grow_on_a_full_volume() {
        let shape = find("ufs2-2m").unwrap();
        let workload = super::super::directory::workload(shape, &SplitMix64::new(5), 2).unwrap();
        let full_volume_errors: BTreeSet<String> =
            without_space(&workload, shape).into_iter().collect();
        assert!(
            full_volume_errors.contains("link") && full_volume_errors.contains("create"),
            "{full_volume_errors:?}"
        );
    }

    #[test]
    fn traces_at_the_edge_fail_and_succeed() {
        let shape = find("ufs2-full").unwrap();
        let workload = trace(shape, &SplitMix64::new(3), 0).unwrap();
        let full = without_space(&workload, shape).len();
        assert!(full > 10 && full < workload.ops.len() / 2, "{full} of {}", workload.ops.len());
    }
}
