//! Random operations while the check runs, on what the crash left: afterwards `fsck` finds nothing,
//! and every file has the content that it has without a check.

use super::world::{Actor, Disk, START, assert_sound, check, crashed, tree_of};
use bsdffs::bgfsck::Outcome;
use ffs_admin::fsck::Id;
use ffs_testkit::envvar::number;

const STATES: u64 = 120;
/// Operations during a check at most.
const OPERATIONS: usize = 80;

/// Makes the operations of `seed` on the volume: `each` calls `step` some times.
fn operate(fs: &ffs_core::Ffs, seed: u64, each: impl FnOnce(&mut (dyn FnMut() + Send))) -> bool {
    let (mut actor, mut left) = (Actor::new(!seed, "n"), OPERATIONS);
    each(&mut || {
        if left > 0 {
            left -= 1;
            actor.step(fs);
        }
    });
    while left > 0 {
        left -= 1;
        actor.step(fs);
    }
    actor.was_full
}

#[test]
fn operations_during_the_check_are_kept_and_leave_nothing_to_repair() {
    let first = number("FFS_BGFSCK_SEED").unwrap_or(1);
    let (mut compared, mut rounds, mut refused) = (0, 0, 0);
    for seed in first..first + number("FFS_BGFSCK_STATES").unwrap_or(STATES) {
        let at = format!("FFS_BGFSCK_SEED={seed}");
        let state = crashed(seed);
        let other = Disk::mount(state.snapshot(), seed, START + 50).unwrap();
        let disk = Disk::mount(state, seed, START + 50).unwrap();
        if disk.fs.read_only_reason().is_some() {
            // A torn superblock needs the check first.
            continue;
        }
        let mut report = None;
        let full = operate(&disk.fs, seed, |step| report = Some(check(&disk.fs, step)));
        let other_full = operate(&other.fs, seed, |_| ());
        let report = report.unwrap();
        assert_eq!(report.outcome, Outcome::Completed, "{at}: {:#?}", report.findings);
        rounds += u64::from(report.rounds);
        refused += report.refused;
        // The names that these findings concern differ.
        let names = [Id::EntHardDir, Id::DotDotWrong, Id::InoEndHole];
        let same_names = report.findings.iter().all(|f| !names.contains(&f.id));
        if same_names && !full && !other_full {
            compared += 1;
            let (expected, found) = (tree_of(&other.fs), tree_of(&disk.fs));
            let paths = |tree: &super::world::Tree| tree.keys().cloned().collect::<Vec<_>>();
            assert_eq!(paths(&expected), paths(&found), "{at}");
            for (path, (kind, perm, _, content)) in &expected {
                let file = &found[path];
                assert!((*kind, *perm) == (file.0, file.1), "{at}: {path}");
                assert!(*content == file.3, "{at}: {path}");
            }
        }
        assert_sound(&disk.unmounted(), &at);
    }
    println!("{compared} trees compared, {rounds} snapshots, {refused} corrections refused");
    assert!(compared > 0);
}
