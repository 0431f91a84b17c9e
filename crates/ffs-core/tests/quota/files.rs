//! Quota files: what they keep, and hostile ones.

use super::*;
use crate::common::{self, errno};
use ffs_admin::fsck::{Fsck, FsckOptions};
use ffs_core::{Env, Error, Grace, QuotaRepair};
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
        (0, b"Q", Some(0), "size is 0, expected at least 64 (`ffs quotacheck` repairs it"),
        (0, b"Q", Some(63), "size is 63, expected at least 64 (`ffs quotacheck` repairs it"),
        (0, b"Q", Some(64 + 7), "size is 71, with 7 bytes of a record at its end"),
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

/// A user who may write a quota file sets the limits of all. A second name may be in a directory of
/// a user.
#[test]
fn a_quota_file_that_others_may_change_is_refused() {
    type Change = fn(&World, &Vnode);
    let cases: [(Change, &str); 5] = [
        (
            |w, v| {
                let uid = Some(10);
                w.fs.setattr(&Cred::root(), v, &SetAttr { uid, ..SetAttr::default() }).unwrap();
            },
            "quota.user is not used as a quota file: user 10 owns it; check its content, then \
             `chown 0:5 quota.user`",
        ),
        (
            |w, v| {
                let perm = Some(0o642);
                w.fs.setattr(&Cred::root(), v, &SetAttr { perm, ..SetAttr::default() }).unwrap();
            },
            "its mode 642 lets others write; check its content, then `chmod 640 quota.user`",
        ),
        (
            |w, v| {
                let perm = Some(0o660);
                w.fs.setattr(&Cred::root(), v, &SetAttr { perm, ..SetAttr::default() }).unwrap();
            },
            "its mode 660 lets others write",
        ),
        (
            |w, v| w.fs.link(&Cred::root(), v, &w.get(&w.root, "d").unwrap(), b"mine").unwrap(),
            "it has 2 names; remove all others",
        ),
        (
            |w, _| {
                w.fs.unlink(&Cred::root(), &w.root, b"quota.user").unwrap();
                w.dir(&w.root, "quota.user");
            },
            "it is no regular file; remove it, and create one with `ffs quotacheck`",
        ),
    ];
    let made = prepare(volume(UFS2, 16 << 20), &MountOptions::default());
    let group = QuotaOptions { user: QuotaOption::Off, group: QuotaOption::On };
    for (change, expected) in cases {
        let w = mount_on(made.snapshot(), &MountOptions::default());
        change(&w, &w.get(&w.root, "quota.user").unwrap());
        for wanted in [BOTH, QuotaOptions::PRESENT, group] {
            let error = w.fs.quotaon(wanted).unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(error.errno(), 1);
        }
        assert_eq!(w.fs.quotas(QuotaType::Group), None, "they stay off");
        w.end();
    }
}

/// What [`Ffs::repair_quota_file`] corrects, and what it leaves.
#[test]
fn a_truncated_quota_file_is_repaired() {
    let w = quota_world(UFS2, OrderingPolicy::None);
    for id in [5, 6] {
        w.fs.set_quota(QuotaType::User, id, &limits([0, 9], [0, 0])).unwrap();
    }
    let made = unmounted(w);
    let cases = [
        (0, Some(QuotaRepair::Header), [false, false]),
        (20, Some(QuotaRepair::Header), [false, false]),
        (64, None, [false, false]),
        (64 * 7 + 1, Some(QuotaRepair::Record(6)), [true, false]),
        (64 * 8 - 1, Some(QuotaRepair::Record(6)), [true, false]),
        (64 * 8, None, [true, true]),
    ];
    for (size, repair, kept) in cases {
        let w = mount_on(made.snapshot(), &MountOptions::default());
        let file = w.get(&w.root, "quota.user").unwrap();
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        w.fs.setattr(&Cred::root(), &file, &set).unwrap();
        for repair in [repair, None] {
            assert_eq!(w.fs.quotaon(BOTH).is_err(), repair.is_some(), "{size}");
            w.fs.quotaoff(QuotaType::User);
            w.fs.quotaoff(QuotaType::Group);
            assert_eq!(w.fs.repair_quota_file(QuotaType::User).unwrap(), repair, "{size}");
        }
        w.fs.quotaon(BOTH).unwrap();
        let found = [5, 6].map(|id| record(&w.fs, QuotaType::User, id).bhardlimit == 9);
        assert_eq!(found, kept, "{size}");
        drop(file);
        w.end();
    }
    // Other bytes may be a file of somebody.
    let w = mount_on(made, &MountOptions::default());
    let file = w.get(&w.root, "quota.user").unwrap();
    w.fs.write(&Cred::root(), &file, 0, b"X", WriteMode::default()).unwrap();
    let set = SetAttr { size: Some(9), ..SetAttr::default() };
    w.fs.setattr(&Cred::root(), &file, &set).unwrap();
    assert_eq!(w.fs.repair_quota_file(QuotaType::User).unwrap(), None);
}
