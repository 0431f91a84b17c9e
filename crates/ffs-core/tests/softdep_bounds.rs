//! The memory of soft updates and the cost of an operation depend on the pending changes, and do
//! not grow with the number of earlier operations.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use crate::common::{World, mount_recorded, soft_updates, soft_volume};
use ffs_core::{Cred, Fallocate, RenameMode, SetAttr, Vnode, WriteMode};
use ffs_device::record::Level;
use ffs_device::{Rng, SplitMix64};
use ffs_ondisk::{Endian, Format};

fn world(bytes: u64) -> World {
    let shape = (Endian::Little, Format::Ufs2, 4096, 512);
    mount_recorded(soft_volume(shape, bytes), &soft_updates(), Level::Count)
}

fn gauge(w: &World, name: &str) -> u64 {
    w.fs.gauges().iter().find(|g| g.name == name).unwrap().value
}

/// The cost of a run: the dependencies visited in each quarter of it, and the largest memory and
/// number of records.
#[derive(Debug)]
struct Cost {
    quarters: [u64; 4],
    memory: u64,
    records: u64,
}

/// Runs `operation` `rounds` times; the clock advances a second after each hundred.
fn cost(w: &World, rounds: u64, mut operation: impl FnMut(u64)) -> Cost {
    let mut cost = Cost { quarters: [0; 4], memory: 0, records: 0 };
    for quarter in 0..4 {
        let before = gauge(w, "debug.softdep.steps");
        for round in quarter * rounds / 4..(quarter + 1) * rounds / 4 {
            operation(round);
            if round % 100 == 99 {
                w.pass(1);
                cost.memory = cost.memory.max(gauge(w, "debug.softdep.mem"));
                cost.records = cost.records.max(gauge(w, "debug.softdep.total_records"));
            }
        }
        cost.quarters[quarter as usize] = gauge(w, "debug.softdep.steps") - before;
    }
    println!("{rounds} rounds: {cost:?}");
    cost
}

impl Cost {
    /// The last quarter must not cost much more than the first, which has the same work.
    fn is_flat(&self) -> bool {
        self.quarters[3] <= 3 * self.quarters[0] / 2 + 1000
    }
}

/// A sparse file is written and truncated repeatedly. The dependents of a freed indirect block once
/// required another one a second time, and memory doubled every ten rounds.
#[test]
fn a_sparse_file_written_and_truncated_costs_the_same_for_ever() {
    let w = world(64 << 20);
    let (c, f, rng) = (Cred::root(), w.file(&w.root, "f"), SplitMix64::new(1));
    let cost = cost(&w, 8000, |_| {
        w.fs.write(&c, &f, rng.below(256 << 20), &[7; 512], WriteMode::default()).unwrap();
        let size = SetAttr { size: Some(rng.below(256 << 20)), ..SetAttr::default() };
        w.fs.setattr(&c, &f, &size).unwrap();
    });
    assert!(cost.is_flat(), "{cost:?}");
    assert!(cost.memory < 8 << 20, "{cost:?}");
    drop(f);
    w.end();
}

/// As before, with holes punched in indirect blocks, and appended blocks.
#[test]
fn holes_punched_and_filled_cost_the_same_for_ever() {
    let w = world(64 << 20);
    let (c, f, rng) = (Cred::root(), w.file(&w.root, "f"), SplitMix64::new(2));
    let cost = cost(&w, 8000, |_| {
        let at = rng.below(64 << 20) & !4095;
        w.fs.write(&c, &f, at, &[7; 8192], WriteMode::default()).unwrap();
        let hole = rng.below(64 << 20);
        w.fs.fallocate(&c, &f, hole, 4 << 20, Fallocate::PunchHole).unwrap();
    });
    assert!(cost.is_flat(), "{cost:?}");
    assert!(cost.memory < 8 << 20, "{cost:?}");
    drop(f);
    w.end();
}

/// Names made, renamed, linked, replaced and removed in directories that are new themselves.
#[test]
fn random_histories_of_names_cost_the_same_for_ever() {
    for seed in 1..=3 {
        println!("seed {seed}");
        let w = world(64 << 20);
        let (c, rng) = (Cred::root(), SplitMix64::new(seed));
        let mut dirs: Vec<Vnode> = (0..4).map(|n| w.dir(&w.root, &format!("d{n}"))).collect();
        let cost = cost(&w, 8000, |round| {
            let name = |of: u64| format!("n{}", rng.below(of)).into_bytes();
            let (d, e) = (&dirs[rng.below(4) as usize], &dirs[rng.below(4) as usize]);
            // Most of them fail, because a name is missing or exists.
            match rng.below(8) {
                0..=2 => drop(w.fs.create(&c, d, &name(50), ffs_core::NodeKind::Regular, 0o644)),
                3 => drop(w.fs.unlink(&c, d, &name(50))),
                4 => drop(w.fs.rename(&c, (d, &name(50)), (e, &name(50)), RenameMode::Replace)),
                5 => drop(w.fs.rename(&c, (d, &name(50)), (e, &name(50)), RenameMode::Exchange)),
                6 => {
                    if let Ok(v) = w.fs.lookup(&c, d, &name(50)) {
                        drop(w.fs.link(&c, &v, e, &name(50)));
                    }
                }
                _ => {
                    if let Ok(v) = w.fs.lookup(&c, d, &name(50)) {
                        w.fs.write(&c, &v, rng.below(1 << 20), &[1; 3000], WriteMode::default())
                            .unwrap();
                    }
                }
            }
            if round % 1000 == 999 {
                // One directory is removed and created again.
                let n = rng.below(4) as usize;
                let to = format!("x{round}");
                let from = format!("d{n}");
                let root = (&w.root, to.as_bytes());
                w.fs.rename(&c, (&w.root, from.as_bytes()), root, RenameMode::Replace).unwrap();
                dirs[n] = w.dir(&w.root, &from);
            }
        });
        assert!(cost.is_flat(), "seed {seed}: {cost:?}");
        assert!(cost.memory < 8 << 20, "seed {seed}: {cost:?}");
        drop(dirs);
        w.end();
    }
}

/// A file with many unwritten blocks is renamed over another file. The name requires each block.
#[test]
fn a_large_file_that_replaces_another_costs_as_much_as_its_blocks() {
    let steps = |blocks: u64| {
        let w = world(128 << 20);
        let (c, f) = (Cred::root(), w.file(&w.root, "new"));
        drop(w.file(&w.root, "old"));
        for n in 0..blocks {
            // Every second block: no cluster is reallocated or written early.
            w.fs.write(&c, &f, n * 8192, &[1; 4096], WriteMode::default()).unwrap();
        }
        w.fs.rename(&c, (&w.root, b"new"), (&w.root, b"old"), RenameMode::Replace).unwrap();
        w.fs.sync().unwrap();
        let steps = gauge(&w, "debug.softdep.steps");
        drop(f);
        w.end();
        steps
    };
    let (few, many) = (steps(500), steps(4000));
    println!("500 blocks: {few} steps, 4000: {many}");
    assert!(many < 12 * few, "{few} steps for 500 blocks, {many} for 4000");
}
