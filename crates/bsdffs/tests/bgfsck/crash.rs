//! Losses of power inside the check, with and without operations: `fsck -p` and another check in
//! the background both repair what is left, and lose nothing.

use super::world::{
    Actor, Disk, START, Tree, assert_sound, check, check_all, crashed, preen, tree_on,
};
use bsdffs::bgfsck::Outcome;
use ffs_admin::fsck::Id;
use ffs_device::BlockDevice;
use ffs_testkit::envvar::number;
use ffs_testkit::rng::SplitMix64;
use std::sync::Arc;

const STATES: u64 = 120;
/// Writes during a check of these volumes, roughly.
const WRITES: u64 = 80;

/// What `fsck -p` makes of the volume.
fn preened(dev: &Arc<dyn BlockDevice>, at: &str) -> Tree {
    let report = preen(dev);
    assert_eq!(report.exit_code, 0, "{at}: {:#?}", report.findings);
    assert_sound(dev, at);
    tree_on(dev)
}

/// What a check in the background makes of the volume; `None` if its superblock is torn.
fn checked(state: ffs_device::MemDevice, seed: u64, at: &str) -> Option<Tree> {
    let disk = Disk::mount(state, seed, START + 200).unwrap();
    if disk.fs.read_only_reason().is_some() {
        return None;
    }
    assert_eq!(check_all(&disk.fs, at).rounds, 1, "{at}");
    let dev = disk.unmounted();
    assert_sound(&dev, at);
    Some(tree_on(&dev))
}

/// The trees without the files that grew from what is only in part on the device.
fn assert_same(found: &Tree, expected: &Tree, at: &str) {
    let paths = |tree: &Tree| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(paths(found), paths(expected), "{at}");
    for (path, file) in expected {
        assert!(found[path] == *file, "{at}: {path}");
    }
}

#[test]
fn a_check_that_loses_power_starts_over_and_loses_nothing() {
    let first = number("FFS_BGFSCK_SEED").unwrap_or(1);
    let (mut lost, mut completed) = (0, 0);
    for seed in first..first + number("FFS_BGFSCK_STATES").unwrap_or(STATES) {
        let at = format!("FFS_BGFSCK_SEED={seed}");
        let state = crashed(seed);
        let expected = preened(&(Arc::new(state.snapshot()) as Arc<dyn BlockDevice>), &at);
        let disk = Disk::mount(state, seed, START + 50).unwrap();
        if disk.fs.read_only_reason().is_some() {
            continue;
        }
        let mut rng = SplitMix64::new(seed);
        disk.power.lose_power_at(1 + rng.below(WRITES));
        match check(&disk.fs, || ()).outcome {
            Outcome::Completed => completed += 1,
            Outcome::Failed(_) => lost += 1,
            other => panic!("{at}: {other:?}"),
        }
        let left = disk.crash();
        let by_preen = preened(&(Arc::new(left.snapshot()) as Arc<dyn BlockDevice>), &at);
        assert_same(&by_preen, &expected, &at);
        if let Some(by_check) = checked(left, seed, &at) {
            assert_same(&by_check, &expected, &at);
        }
    }
    println!("{lost} lost power, {completed} completed before");
    assert!(lost > completed);
}

/// States with directories without names that are examined at every write of their check.
const TREES: u64 = 12;

#[test]
fn directories_without_names_are_free_before_what_they_name() {
    let first = number("FFS_BGFSCK_SEED").unwrap_or(1);
    let (mut trees, mut states) = (0, 0);
    for seed in first..first + 400 {
        let at = format!("FFS_BGFSCK_SEED={seed}");
        let state = crashed(seed);
        let found = preen(&(Arc::new(state.snapshot()) as Arc<dyn BlockDevice>));
        if !found.counts.contains_key(&Id::DirUnref) {
            continue;
        }
        trees += 1;
        for writes in 1.. {
            let at = format!("{at}, power lost at write {writes}");
            let disk = Disk::mount(state.snapshot(), seed + writes, START + 50).unwrap();
            if disk.fs.read_only_reason().is_some() {
                break;
            }
            disk.power.lose_power_at(writes);
            let completed = check(&disk.fs, || ()).outcome == Outcome::Completed;
            let left: Arc<dyn BlockDevice> = Arc::new(disk.crash());
            preened(&left, &at);
            states += 1;
            if completed {
                break;
            }
        }
        if trees == TREES {
            break;
        }
    }
    println!("{states} states of {trees} trees");
}

#[test]
fn operations_during_a_check_that_loses_power_leave_what_both_checks_repair() {
    let first = number("FFS_BGFSCK_SEED").unwrap_or(1);
    for seed in first..first + number("FFS_BGFSCK_STATES").unwrap_or(STATES) {
        let at = format!("FFS_BGFSCK_SEED={seed}");
        let disk = Disk::mount(crashed(seed), seed, START + 50).unwrap();
        if disk.fs.read_only_reason().is_some() {
            continue;
        }
        let (mut actor, mut rng) = (Actor::new(!seed, "n"), SplitMix64::new(seed));
        disk.power.lose_power_at(1 + rng.below(3 * WRITES));
        let mut left = 60;
        let report = check(&disk.fs, || {
            if left > 0 {
                left -= 1;
                actor.step(&disk.fs);
                disk.tick();
            }
        });
        assert!(
            matches!(report.outcome, Outcome::Completed | Outcome::Failed(_)),
            "{at}: {:?}",
            report.outcome
        );
        let left = disk.crash();
        let expected = preened(&(Arc::new(left.snapshot()) as Arc<dyn BlockDevice>), &at);
        if let Some(found) = checked(left, seed, &at) {
            assert_same(&found, &expected, &at);
        }
    }
}
