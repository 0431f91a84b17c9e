//! The cost of soft updates: device writes compared with ordered synchronous writes, and memory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test")]

use crate::common::{World, mount_recorded};
use ffs_core::{Cred, MountOptions, OrderingPolicy, RenameMode, Vnode};
use ffs_device::record::{Event, Level};
use ffs_device::{Rng, SplitMix64};
use ffs_ondisk::{Endian, Format};
use std::collections::BTreeMap;

/// Files of the workloads whose ratio does not depend on their number.
const FEW: usize = 3000;
/// The paper's number of files in a directory.
const MANY: usize = 33_164;

fn options(policy: OrderingPolicy) -> MountOptions {
    let mut opts = MountOptions { ordering: policy, ..MountOptions::default() };
    // No buffer is written for lack of memory.
    opts.tunables.cache = 256 << 20;
    opts.tunables.maxvnodes = 200_000;
    opts
}

fn volume(policy: OrderingPolicy, files: usize, level: Level) -> World {
    let bytes = (files as u64 * 8192 * 5 / 4).max(32 << 20);
    let dev = ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 16384, 2048, bytes).unwrap();
    mount_recorded(dev, &options(policy), level)
}

/// Names that begin with `prefix`, all of one length, in a random order.
fn names(prefix: &str, n: usize) -> Vec<String> {
    let mut all: Vec<String> = (0..n).map(|i| format!("{prefix}{i:06}")).collect();
    let rng = SplitMix64::new(0x5eed ^ u64::from(prefix.as_bytes()[0]));
    for i in (1..n).rev() {
        all.swap(i, rng.below(i as u64 + 1) as usize);
    }
    all
}

fn create(w: &World, d: &Vnode, prefix: &str, n: usize) {
    for name in names(prefix, n) {
        drop(w.file(d, &name));
    }
}

fn rename(w: &World, d: &Vnode, from: &str, to: &str, n: usize) {
    for name in names(from, n) {
        let new = format!("{to}{}", &name[1..]);
        let (from, to) = ((d, name.as_bytes()), (d, new.as_bytes()));
        w.fs.rename(&Cred::root(), from, to, RenameMode::Replace).unwrap();
    }
}

fn unlink(w: &World, d: &Vnode, prefix: &str, n: usize) {
    for name in names(prefix, n) {
        w.fs.unlink(&Cred::root(), d, name.as_bytes()).unwrap();
    }
}

/// The number of writes to each place of the device so far.
fn writes(w: &World) -> BTreeMap<u64, u32> {
    let mut all = BTreeMap::new();
    for e in w.dev.take_events() {
        if let Event::Write { offset, .. } = e {
            *all.entry(offset).or_default() += 1;
        }
    }
    all
}

/// Device writes of files that are created, renamed and removed. Everything becomes durable after
/// each step if `thorough`, else at the end.
fn writes_of_a_life(policy: OrderingPolicy, thorough: bool) -> u64 {
    let w = volume(policy, FEW, Level::Count);
    let d = w.dir(&w.root, "d");
    w.fs.sync().unwrap();
    let before = w.dev.counters().writes;
    let step = || {
        if thorough {
            w.fs.sync().unwrap();
        }
    };
    create(&w, &d, "f", FEW);
    step();
    rename(&w, &d, "f", "r", FEW);
    step();
    unlink(&w, &d, "r", FEW);
    w.fs.sync().unwrap();
    let all = w.dev.counters().writes - before;
    drop(d);
    w.end();
    all
}

#[test]
fn softdep_needs_three_percent_of_the_synchronous_writes() {
    for thorough in [false, true] {
        let sync = writes_of_a_life(OrderingPolicy::Sync, thorough);
        let soft = writes_of_a_life(OrderingPolicy::SoftUpdates, thorough);
        println!("durable after each step {thorough}: {soft} writes, sync {sync}");
        assert!(sync > 5 * FEW as u64, "{sync}: synchronous writes");
        assert!(soft * 100 <= sync * 3, "{soft} writes, sync {sync}");
    }
}

#[test]
fn files_made_and_removed_within_the_delay_cause_no_writes() {
    let w = volume(OrderingPolicy::SoftUpdates, FEW, Level::Log);
    let d = w.dir(&w.root, "d");
    // Allocates the inode blocks and the directory's blocks.
    create(&w, &d, "f", FEW);
    w.fs.sync().unwrap();
    unlink(&w, &d, "f", FEW);
    w.fs.sync().unwrap();
    drop(writes(&w));
    let before = w.fs.counters();
    create(&w, &d, "g", FEW);
    rename(&w, &d, "g", "h", FEW);
    unlink(&w, &d, "h", FEW);
    assert_eq!(writes(&w).len(), 0, "a block was written early");
    let gauge = |name: &str| w.fs.gauges().iter().find(|g| g.name == name).unwrap().value;
    assert_eq!(gauge("debug.softdep.removals"), 0, "the device never saw a name");
    let dirty = gauge("vfs.ffs.dirtyspace");
    w.fs.sync().unwrap();
    let (after, counters) = (writes(&w), w.fs.counters());
    assert!(after.values().all(|&n| n == 1), "a block was written twice: {after:?}");
    let bytes = counters.bytes_written - before.bytes_written;
    println!("{dirty} dirty bytes, {bytes} written in {} places", after.len());
    // The superblock and its summary are written besides.
    assert!(bytes <= dirty + 2 * 8192, "{bytes} bytes written of {dirty}");
    assert_eq!(counters.writes_rolled_back, before.writes_rolled_back);
    drop(d);
    w.end();
}

#[test]
fn a_pending_operation_takes_at_most_four_hundred_bytes() {
    let w = volume(OrderingPolicy::SoftUpdates, MANY, Level::Count);
    let d = w.dir(&w.root, "d");
    w.fs.sync().unwrap();
    let memory = || {
        let all = w.fs.gauges();
        all.iter().find(|g| g.name == "debug.softdep.mem").unwrap().value as usize
    };
    let idle = memory();
    let check = |what: &str, names: usize| {
        let each = memory() / names;
        println!("{what}: {each} bytes");
        assert!(each <= 400, "{what}: {each} bytes");
        w.fs.sync().unwrap();
        // The free records of removed names are remembered.
        assert!(memory() <= idle + 16 * MANY, "{what}: {} bytes stay", memory());
    };
    create(&w, &d, "f", MANY);
    check("a name made", MANY);
    rename(&w, &d, "f", "r", MANY);
    check("a file renamed", MANY);
    unlink(&w, &d, "r", MANY);
    check("a name removed", MANY);
    drop(d);
    w.end();
}
