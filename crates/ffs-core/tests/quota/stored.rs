//! A limit that is set is in the quota file. One that cannot be stored is an error to the caller,
//! and the old one stays.

use super::*;
use crate::common::{START, errno};
use ffs_core::{Env, Grace};
use ffs_device::Operation;
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::fault::{Fault, FaultInjector, Rule};

const ENOSPC: i32 = 28;
const EIO: i32 = 5;

/// The record of an id in the quota file.
fn stored(dev: &dyn BlockDevice, kind: QuotaType, id: u32) -> Dqblk {
    counted(dev)[kind.index()].records.get(&id).cloned().unwrap_or_default()
}

#[test]
fn a_limit_for_which_the_volume_has_no_space_is_refused() {
    for shape in [UFS2, UFS1] {
        for ordering in [OrderingPolicy::None, OrderingPolicy::SoftUpdates] {
            let w = quota_world(shape, ordering);
            w.fs.set_quota(QuotaType::User, 10, &limits([0, 7], [0, 0])).unwrap();
            let file = w.file(&w.root, "all");
            let mut at = 0;
            while let Ok(n) = write(&w, &Cred::root(), &file, at, 4096) {
                at += n as u64;
            }
            let size = w.fs.getattr(&w.get(&w.root, "quota.user").unwrap()).size;
            let set = |id| w.fs.set_quota(QuotaType::User, id, &limits([0, 9], [0, 0]));
            assert_eq!(errno(set(2_000_000)), ENOSPC);
            assert_eq!(record(&w.fs, QuotaType::User, 2_000_000), Dqblk::default());
            assert_eq!(w.fs.getattr(&w.get(&w.root, "quota.user").unwrap()).size, size);
            // The record of 10 has its place.
            set(10).unwrap();
            // Space that a removal is about to free is used.
            drop(file);
            w.fs.unlink(&Cred::root(), &w.root, b"all").unwrap();
            set(2_000_000).unwrap();
            let dev = w.dev.clone();
            end_checked(w);
            for id in [10, 2_000_000] {
                assert_eq!(stored(dev.inner(), QuotaType::User, id).bhardlimit, 9);
            }
        }
    }
}

#[test]
fn ids_without_a_record_and_negative_periods_are_refused() {
    const EINVAL: i32 = 22;
    let w = quota_world(UFS2, OrderingPolicy::None);
    for id in [1 << 31, u32::MAX] {
        let set = w.fs.set_quota(QuotaType::Group, id, &limits([0, 9], [0, 0]));
        assert_eq!(errno(set), EINVAL);
    }
    for (blocks, inodes) in [(-1, 0), (0, -1)] {
        assert_eq!(errno(w.fs.set_quota_grace(QuotaType::Group, Grace { blocks, inodes })), EINVAL);
    }
    let week = 7 * 86400;
    let grace = w.fs.quota_grace(QuotaType::Group);
    assert_eq!(grace, Some(Grace { blocks: week, inodes: week }));
    end_checked(w);
}

/// A write of the device fails at each place in turn.
#[test]
fn a_device_that_fails_leaves_the_old_limit_or_has_the_new_one() {
    let w = quota_world(UFS2, OrderingPolicy::Sync);
    w.fs.set_quota(QuotaType::User, 10, &limits([0, 7], [0, 0])).unwrap();
    let made = unmounted(w);
    let mut failed = 0;
    for (id, before) in [(10, 7), (400_000, 0)] {
        for n in 1.. {
            let dev = Arc::new(FaultInjector::new(made.snapshot(), Vec::new()));
            let clock = Arc::new(ManualClock::new(Timestamp::new(START, 0)));
            let sync = options(OrderingPolicy::Sync);
            let fs = Ffs::mount(dev.clone(), &sync, Env::seeded(clock, 1)).unwrap();
            dev.add(Rule::new(Operation::Write, Fault::Errno(EIO)).nth(n).times(1));
            let set = fs.set_quota(QuotaType::User, id, &limits([0, 9], [0, 0]));
            failed += i32::from(set.is_err());
            let now = if set.is_ok() { 9 } else { before };
            assert_eq!(record(&fs, QuotaType::User, id).bhardlimit, now, "{id}, write {n}");
            assert!(set.is_ok() || dev.counts().injected == 1, "{id}, write {n}: {set:?}");
            let synced = fs.sync();
            // A later write that fails is reported by the sync, and repeated by the next one.
            let synced = synced.or_else(|_| fs.sync());
            assert!(synced.is_ok(), "{id}, write {n}: {synced:?}");
            if fs.unmount().is_err() {
                // It was the unmount that failed.
                continue;
            }
            drop(fs);
            assert_eq!(stored(dev.inner(), QuotaType::User, id).bhardlimit, now, "{id}, write {n}");
            if dev.counts().injected == 0 {
                break;
            }
        }
    }
    assert!(failed > 0);
}
