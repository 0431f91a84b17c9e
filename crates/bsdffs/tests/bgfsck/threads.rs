//! Threads that use the volume while the check runs.

use super::world::{Actor, Disk, START, assert_sound, check, crashed};
use bsdffs::bgfsck::Outcome;
use ffs_testkit::envvar::number;
use std::sync::atomic::{AtomicBool, Ordering};

const STATES: u64 = 4;

/// Ends the threads when it is dropped.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn threads_work_while_the_check_runs() {
    let first = number("FFS_BGFSCK_SEED").unwrap_or(1);
    for seed in first..first + STATES {
        let at = format!("FFS_BGFSCK_SEED={seed}");
        let disk = Disk::mount(crashed(seed), seed, START + 50).unwrap();
        if disk.fs.read_only_reason().is_some() {
            continue;
        }
        let stop = AtomicBool::new(false);
        let report = std::thread::scope(|scope| {
            for thread in 0..3 {
                let (fs, stop) = (&disk.fs, &stop);
                scope.spawn(move || {
                    let mut actor = Actor::new(seed * 7 + thread, "n");
                    actor.renames = false;
                    while !stop.load(Ordering::Relaxed) {
                        actor.step(fs);
                    }
                });
            }
            // Also if the check panics.
            let _stop = Stop(&stop);
            check(&disk.fs, std::thread::yield_now)
        });
        // The threads may change what the corrections concern again and again, or fill the volume.
        if report.outcome != Outcome::Completed {
            assert!(matches!(report.outcome, Outcome::Failed(_)), "{at}: {:?}", report.outcome);
            let again = check(&disk.fs, || ());
            if matches!(again.outcome, Outcome::Failed(_)) {
                continue;
            }
            assert_eq!(again.outcome, Outcome::Completed, "{at}: {:#?}", again.findings);
        }
        assert_sound(&disk.unmounted(), &at);
    }
}
