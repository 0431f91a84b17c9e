//! Quota files: what they keep, and hostile ones.

use super::*;
use crate::common::{self, errno};
use ffs_admin::fsck::{Fsck, FsckOptions};
use ffs_core::{Env, Error, Grace};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_testkit::rng::SplitMix64;

#[test]
fn records_last_and_quotas_can_be_turned_off() {
    let w = quota_world(UFS2, OrderingPolicy::None);
    w.fs.set_quota(QuotaType::User, 10, &limits([1, 2], [3, 4])).unwrap();
    w.fs.set_quota(QuotaType::User, 1_000_000, &limits([0, 9], [0, 0])).unwrap();
    assert_eq!(errno(w.fs.set_quota(QuotaType::User, 1 << 31, &limits([0, 9], [0, 0]))), 22);
    w.fs.set_quota_grace(QuotaType::Group, Grace { blocks: 5, inodes: 6 }).unwrap();
    let dev = w.dev.clone();
    let [users, groups] = end_checked(w);
    assert_eq!((users.records[&10].ihardlimit, users.records[&1_000_000].bhardlimit), (4, 9));
    assert_eq!((groups.records[&0].btime, groups.records[&0].itime), (5, 6));

    let w = mount_on(dev.inner().snapshot(), &options(OrderingPolicy::None));
    assert_eq!(record(&w.fs, QuotaType::User, 10).isoftlimit, 3);
    let grace = w.fs.quota_grace(QuotaType::Group);
    assert_eq!(grace, Some(Grace { blocks: 5, inodes: 6 }));
    assert!(matches!(w.fs.quotaon(BOTH), Err(Error::Busy(_))));
    w.fs.quotaoff(QuotaType::User);
    assert_eq!(w.fs.quotas(QuotaType::User), None);
    new_file(&w, &user(), "a").unwrap();
    let only = QuotaOptions { user: QuotaOption::On, group: QuotaOption::Off };
    w.fs.quotaon(only).unwrap();
    assert_eq!(record(&w.fs, QuotaType::User, 10).curinodes, 1);
}

#[test]
fn a_missing_or_damaged_quota_file_is_a_clear_error_and_nothing_is_lost() {
    let mount = |dev: &MemDevice, quotas| {
        let options = MountOptions { quotas, ..MountOptions::default() };
        let clock = Arc::new(ManualClock::new(Timestamp::new(common::START, 0)));
        Ffs::mount(Arc::new(dev.snapshot()), &options, Env::seeded(clock, 1))
    };
    let text = |r: ffs_core::Result<Ffs>| r.err().unwrap().to_string();
    let empty = volume(UFS2, 16 << 20);
    assert!(text(mount(&empty, BOTH)).contains("no quota file (quota.user)"));
    assert!(text(mount(&empty, QuotaOptions::PRESENT)).contains("quota.user, quota.group"));

    let made = prepare(volume(UFS2, 16 << 20), &MountOptions::default());
    let damage = |off: u64, bytes: &[u8], size: Option<u64>| {
        let w = mount_on(made.snapshot(), &MountOptions::default());
        let file = w.get(&w.root, "quota.user").unwrap();
        w.fs.write(&Cred::root(), &file, off, bytes, WriteMode::default()).unwrap();
        if size.is_some() {
            let set = SetAttr { size, ..SetAttr::default() };
            w.fs.setattr(&Cred::root(), &file, &set).unwrap();
        }
        drop(file);
        unmounted(w)
    };
    for (off, bytes, size, want) in [
        (8, &[9u8][..], None, "version is 0x9081104, expected 0x20081104"),
        (15, &[32][..], None, "header length is 0x20, expected 0x40"),
        (19, &[32][..], None, "record length is 0x20, expected 0x40"),
        (0, b"X", None, "format is 32-bit records, expected 64-bit ones"),
        (0, b"X", Some(7), "size is 7, without the header"),
        (0, b"Q", Some(0), "size is 0, without the header"),
    ] {
        let dev = damage(off, bytes, size);
        let error = text(mount(&dev, BOTH));
        assert!(error.starts_with("quota file ") && error.contains(want), "{error}");
        let report = Fsck::new(Arc::new(dev.snapshot()), FsckOptions::no()).run();
        assert!(report.is_silent(), "{report:?}");
        mount(&dev, QuotaOptions::default()).unwrap().unmount().unwrap();
    }
    // Any other bytes are limits and times of somebody.
    let mut rng = SplitMix64::new(5);
    let dev = damage(64, &rng.bytes(50_000), Some(1 << 40));
    let fs = mount(&dev, BOTH).unwrap();
    assert!(fs.quotas(QuotaType::User).unwrap().len() > 700);
    fs.unmount().unwrap();
}
