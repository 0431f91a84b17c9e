//! Crashes while a snapshot is made, kept up and removed.
//!
//! The device keeps everything up to a flush, and of the writes after it some: each prefix, and
//! random choices of sectors. In every state the volume mounts without a check, `fsck` would find
//! at most lost space, and each snapshot that the mount has shows its tree.

use super::common::{START, World, mount_on, soft_updates, soft_volume};
use super::view::{Tree, image_of, tree_of, view_of};
use super::{SHAPES, remove, snapshot, write_file};
use ffs_admin::fsck::{Fsck, FsckOptions, Severity, quick_check};
use ffs_core::{Cred, Env, Ffs};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::record::Event;
use ffs_device::{BlockDevice, Durability, MemDevice, Rng, SplitMix64};
use std::collections::BTreeMap;
use std::sync::Arc;

const SECTOR: usize = 512;
/// Random states of a window between two flushes.
const SAMPLES: usize = 12;

/// What each snapshot has to show, by name.
pub(crate) type Expected = BTreeMap<String, Tree>;

/// The states that a crash may leave of the recorded writes.
pub(crate) fn each_state(
    base: &MemDevice,
    events: Vec<Event>,
    seed: u64,
    mut each: impl FnMut(MemDevice, String),
) {
    let rng = SplitMix64::new(seed);
    let base = base.snapshot();
    let mut window: Vec<(u64, Arc<[u8]>)> = Vec::new();
    let mut window_no = 0;
    for event in events.into_iter().chain([Event::Flush { seq: u64::MAX }]) {
        match event {
            Event::Write { offset, bytes, .. } => window.push((offset, bytes)),
            Event::Flush { .. } => {
                let state = base.snapshot();
                for (n, (offset, bytes)) in window.iter().enumerate() {
                    each(state.snapshot(), format!("window {window_no} prefix {n}"));
                    state.write_at(*offset, bytes).unwrap();
                }
                for sample in 0..if window.len() > 1 { SAMPLES } else { 0 } {
                    let state = base.snapshot();
                    for (offset, bytes) in &window {
                        for (k, sector) in bytes.chunks(SECTOR).enumerate() {
                            if rng.below(2) == 0 {
                                state.write_at(offset + (k * SECTOR) as u64, sector).unwrap();
                            }
                        }
                    }
                    each(state, format!("window {window_no} sample {sample}"));
                }
                for (offset, bytes) in window.drain(..) {
                    base.write_at(offset, &bytes).unwrap();
                }
                window_no += 1;
            }
            _ => {}
        }
    }
    each(base, "the end".to_owned());
}

/// Examines one state, as it is and repaired. Returns the number of snapshots that it has.
fn examine(dev: MemDevice, expected: &Expected, required: &[&str], at: &str) -> usize {
    let repaired: Arc<dyn BlockDevice> = Arc::new(dev.snapshot());
    check_repair(&repaired, at);
    let found = use_again(repaired, expected, required, &format!("{at}, repaired"));
    // A torn superblock needs the check first.
    found.unwrap_or(0).max(use_again(Arc::new(dev), expected, required, at).unwrap_or(0))
}

/// Mounts the volume and changes it. `None`: it can only be read.
pub(crate) fn use_again(
    dev: Arc<dyn BlockDevice>,
    expected: &Expected,
    required: &[&str],
    at: &str,
) -> Option<usize> {
    let clock = Arc::new(ManualClock::new(Timestamp::new(START + 100, 0)));
    let fs = Ffs::mount(dev, &soft_updates(), Env::seeded(clock, 3)).unwrap();
    if let Some(why) = fs.read_only_reason() {
        assert!(why.contains("superblock") && !at.ends_with("repaired"), "{at}: {why}");
        return None;
    }
    let found = check_snapshots(&fs, expected, required, at);
    write_file(&fs, "after", &[0xcc; 30_000]);
    write_file(&fs, "a", &[0xdd; 30_000]);
    fs.sync().unwrap();
    check_snapshots(&fs, expected, required, at);
    Some(found)
}

/// `fsck -p` repairs the volume, and nothing is left.
pub(crate) fn check_repair(dev: &Arc<dyn BlockDevice>, at: &str) {
    let report = Fsck::new(Arc::clone(dev), FsckOptions::preen()).run();
    let fatal: Vec<_> = report.findings.iter().filter(|f| f.severity == Severity::Fatal).collect();
    assert!(fatal.is_empty() && report.stopped.is_none(), "{at}: {fatal:?}");
    let left = quick_check(dev);
    assert!(left.is_empty(), "{at}: {left:?}");
}

fn check_snapshots(fs: &Ffs, expected: &Expected, required: &[&str], at: &str) -> usize {
    let active = fs.snapshots();
    let mut found = 0;
    for (name, tree) in expected {
        let file = fs.lookup(&Cred::root(), &fs.root().unwrap(), name.as_bytes());
        let file = file.ok().filter(|file| active.contains(&fs.getattr(file).ino));
        match file {
            Some(file) => {
                assert_eq!(view_of(fs, &file), *tree, "{at}: {name}");
                let image = quick_check(&image_of(fs, &file));
                assert!(image.is_empty(), "{at}: {name}: {image:?}");
                found += 1;
            }
            None => assert!(!required.contains(&name.as_str()), "{at}: {name} is missing"),
        }
    }
    found
}

pub(crate) fn start(shape: usize) -> World {
    let w = mount_on(
        soft_volume(SHAPES[shape], 4 << 20).with_durability(Durability::OnFlush),
        &soft_updates(),
    );
    write_file(&w.fs, "a", &[1; 60_000]);
    write_file(&w.fs, "b", &[2; 700]);
    write_file(&w.fs, "c", &[3; 130_000]);
    w.fs.mkdir(&Cred::root(), &w.root, b"d", 0o755).unwrap();
    w.fs.sync().unwrap();
    w
}

fn change(w: &World, round: u8) {
    write_file(&w.fs, "a", &[round; 9000]);
    write_file(&w.fs, &format!("new{round}"), &[round; 20_000]);
    remove(&w.fs, "b");
    write_file(&w.fs, "b", &[round; 300]);
    w.fs.sync().unwrap();
    let c = w.get(&w.root, "c").unwrap();
    let size = ffs_core::SetAttr { size: Some(5000), ..Default::default() };
    w.fs.setattr(&Cred::root(), &c, &size).unwrap();
    w.fs.sync().unwrap();
}

#[test]
fn a_crash_while_a_snapshot_is_made_leaves_it_complete_or_absent() {
    for shape in 0..SHAPES.len() {
        let w = start(shape);
        let tree = tree_of(&w.fs);
        let base = w.record();
        drop(snapshot(&w.fs, "snap"));
        let expected = Expected::from([("snap".to_owned(), tree)]);
        let (mut with, mut without) = (0, 0);
        each_state(&base, w.dev.take_events(), shape as u64, |state, at| {
            match examine(state, &expected, &[], &format!("shape {shape} {at}")) {
                0 => without += 1,
                _ => with += 1,
            }
        });
        assert!(with > 0 && without > 0, "{with} states with, {without} without the snapshot");
    }
}

#[test]
fn a_crash_after_changes_leaves_every_snapshot_as_it_was() {
    for shape in 0..SHAPES.len() {
        let w = start(shape);
        let first = tree_of(&w.fs);
        drop(snapshot(&w.fs, "snap1"));
        change(&w, 7);
        let second = tree_of(&w.fs);
        drop(snapshot(&w.fs, "snap2"));
        w.fs.sync().unwrap();
        let base = w.record();
        change(&w, 8);
        let expected = Expected::from([("snap1".to_owned(), first), ("snap2".to_owned(), second)]);
        each_state(&base, w.dev.take_events(), 100 + shape as u64, |state, at| {
            examine(state, &expected, &["snap1", "snap2"], &format!("shape {shape} {at}"));
        });
    }
}

#[test]
fn a_crash_while_a_snapshot_is_removed_leaves_the_others() {
    for shape in 0..SHAPES.len() {
        let w = start(shape);
        let first = tree_of(&w.fs);
        drop(snapshot(&w.fs, "snap1"));
        change(&w, 7);
        let second = tree_of(&w.fs);
        drop(snapshot(&w.fs, "snap2"));
        change(&w, 8);
        for removed in ["snap1", "snap2"] {
            let dev = w.dev.inner().snapshot();
            let again = mount_on(dev, &soft_updates());
            let base = again.record();
            remove(&again.fs, removed);
            again.fs.sync().unwrap();
            let kept = if removed == "snap1" { "snap2" } else { "snap1" };
            let expected = Expected::from([
                ("snap1".to_owned(), first.clone()),
                ("snap2".to_owned(), second.clone()),
            ]);
            each_state(&base, again.dev.take_events(), 200 + shape as u64, |state, at| {
                examine(state, &expected, &[kept], &format!("shape {shape} -{removed} {at}"));
            });
        }
    }
}
