//! Quotas: limits are enforced, and the usage is that of the inodes, which quotacheck's independent
//! count confirms: after random operations, in each ordering mode, and after a loss of power.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test")]

mod common;

use common::{Shape, World, at, errno, mount_on, soft_volume, volume};
use ffs_admin::Volume;
use ffs_admin::fsck::{Fsck, FsckOptions};
use ffs_admin::quotacheck::{self, QuotaFile};
use ffs_core::{
    Cred, Dqblk, Env, Error, Fallocate, Ffs, Grace, MountOptions, NodeKind, OrderingPolicy,
    QuotaOption, QuotaOptions, QuotaType, RenameMode, SetAttr, Vnode, WriteMode, XattrNamespace,
    XattrSet,
};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::{BlockDevice, Durability, MemDevice};
use ffs_ondisk::{Endian, FileFlags, Format, Ino};
use ffs_testkit::rng::SplitMix64;
use std::sync::Arc;
use std::time::Duration;

const EDQUOT: i32 = 122;
const UFS2: Shape = (Endian::Little, Format::Ufs2, 16384, 2048);
const UFS1: Shape = (Endian::Big, Format::Ufs1, 8192, 1024);
const BOTH: QuotaOptions = QuotaOptions { user: QuotaOption::On, group: QuotaOption::On };

fn options(ordering: OrderingPolicy) -> MountOptions {
    MountOptions { ordering, quotas: BOTH, ..MountOptions::default() }
}

/// A volume with both quota files and a directory `d` that everyone may write, mounted with quotas.
fn quota_world(shape: Shape, ordering: OrderingPolicy) -> World {
    let soft = ordering == OrderingPolicy::SoftUpdates;
    let dev = if soft { soft_volume } else { volume }(shape, 16 << 20);
    let plain = MountOptions { ordering: OrderingPolicy::None, ..MountOptions::default() };
    let dev = prepare(dev, &plain);
    mount_on(dev.with_durability(Durability::OnFlush), &options(ordering))
}

fn prepare(dev: MemDevice, plain: &MountOptions) -> MemDevice {
    let w = mount_on(dev, plain);
    for kind in QuotaType::ALL {
        assert!(w.fs.create_quota_file(kind).unwrap());
        assert!(!w.fs.create_quota_file(kind).unwrap());
    }
    let d = w.dir(&w.root, "d");
    let open = SetAttr { perm: Some(0o777), ..SetAttr::default() };
    w.fs.setattr(&Cred::root(), &d, &open).unwrap();
    let World { fs, root, dev, .. } = w;
    drop((root, d));
    fs.unmount().unwrap();
    dev.inner().snapshot()
}

fn user() -> Cred {
    Cred::user(10, 20)
}

fn limits(blocks: [u64; 2], inodes: [u64; 2]) -> Dqblk {
    let ([bsoftlimit, bhardlimit], [isoftlimit, ihardlimit]) = (blocks, inodes);
    Dqblk { bsoftlimit, bhardlimit, isoftlimit, ihardlimit, ..Dqblk::default() }
}

fn record(fs: &Ffs, kind: QuotaType, id: u32) -> Dqblk {
    let all = fs.quotas(kind).unwrap();
    all.into_iter().find(|(i, _)| *i == id).map(|(_, r)| r).unwrap_or_default()
}

fn new_file(w: &World, cred: &Cred, name: &str) -> ffs_core::Result<Vnode> {
    let d = w.get(&w.root, "d")?;
    w.fs.create(cred, &d, name.as_bytes(), NodeKind::Regular, 0o644)
}

fn write(w: &World, cred: &Cred, file: &Vnode, at: u64, len: usize) -> ffs_core::Result<usize> {
    w.fs.write(cred, file, at, &vec![7; len], WriteMode::default())
}

/// The quota files of the device and the usage by quotacheck's count.
fn counted(dev: &dyn BlockDevice) -> [QuotaFile; 2] {
    let vol = Volume::open(dev).unwrap();
    quotacheck::check(&vol, [true; 2]).unwrap().map(Option::unwrap)
}

/// Unmounts, and checks that the quota files have the usage that quotacheck counts.
fn end_checked(w: World) -> [QuotaFile; 2] {
    let dev = Arc::clone(&w.dev);
    w.end();
    let files = counted(dev.inner());
    for file in &files {
        assert_eq!(file.differences(), [], "inode {}", file.ino);
    }
    files
}

#[test]
fn a_hard_limit_stops_a_user_before_anything_changes() {
    for shape in [UFS2, UFS1] {
        let w = quota_world(shape, OrderingPolicy::None);
        w.fs.set_quota(QuotaType::User, 10, &limits([0, 65], [0, 0])).unwrap();
        let file = new_file(&w, &user(), "a").unwrap();
        assert_eq!(write(&w, &user(), &file, 0, 32768).unwrap(), 32768);
        let before = w.fs.getattr(&file);
        assert_eq!(errno(write(&w, &user(), &file, 32768, 1)), EDQUOT);
        let after = w.fs.getattr(&file);
        assert_eq!((after.size, after.blocks), (before.size, before.blocks));
        assert_eq!(record(&w.fs, QuotaType::User, 10).curblocks, 64);
        // An overwrite needs no space; root is not stopped, but charged.
        assert_eq!(write(&w, &user(), &file, 100, 500).unwrap(), 500);
        write(&w, &Cred::root(), &file, 32768, 1).unwrap();
        assert!(record(&w.fs, QuotaType::User, 10).curblocks > 64);
        w.fs.unlink(&user(), &w.get(&w.root, "d").unwrap(), b"a").unwrap();
        drop(file);
        assert_eq!(record(&w.fs, QuotaType::User, 10).curblocks, 0);
        end_checked(w);
    }
}

#[test]
fn inode_limits_stop_creations_of_every_kind() {
    let w = quota_world(UFS2, OrderingPolicy::None);
    w.fs.set_quota(QuotaType::Group, 20, &limits([0, 0], [0, 2])).unwrap();
    let file = new_file(&w, &user(), "a").unwrap();
    let d = w.get(&w.root, "d").unwrap();
    let free = w.fs.statfs().inodes_free;
    assert_eq!(errno(new_file(&w, &user(), "b")), EDQUOT);
    assert_eq!(errno(w.fs.mkdir(&user(), &d, b"b", 0o755)), EDQUOT);
    assert_eq!(errno(w.fs.symlink(&user(), &d, b"b", b"x")), EDQUOT);
    assert_eq!(errno(w.fs.create_unnamed(&user(), &d, 0o600, true)), EDQUOT);
    assert_eq!((w.fs.statfs().inodes_free, w.names(&d)), (free, vec!["a".to_owned()]));
    // A further name needs no inode. The other group has no limit.
    w.fs.link(&user(), &file, &d, b"c").unwrap();
    new_file(&w, &Cred::user(10, 21), "d").unwrap();
    drop((file, d));
    end_checked(w);
}

#[test]
fn a_gift_is_charged_to_the_new_owner_or_refused() {
    let w = quota_world(UFS2, OrderingPolicy::None);
    let cred = Cred { groups: vec![21], ..user() };
    let file = new_file(&w, &cred, "a").unwrap();
    write(&w, &cred, &file, 0, 16384).unwrap();
    w.fs.set_quota(QuotaType::Group, 21, &limits([0, 32], [0, 0])).unwrap();
    let give = |cred: &Cred, uid, gid| {
        let set = SetAttr { uid, gid, size: Some(3), ..SetAttr::default() };
        w.fs.setattr(cred, &file, &set)
    };
    assert_eq!(errno(give(&cred, None, Some(21))), EDQUOT);
    let a = w.fs.getattr(&file);
    assert_eq!((a.gid, a.size), (20, 16384), "nothing changed");
    w.fs.set_quota(QuotaType::Group, 21, &limits([0, 33], [0, 0])).unwrap();
    give(&cred, None, Some(21)).unwrap();
    let used = |kind, id| {
        let r = record(&w.fs, kind, id);
        (r.curblocks, r.curinodes)
    };
    assert_eq!(used(QuotaType::Group, 21), (4, 1));
    assert_eq!(used(QuotaType::Group, 20), (0, 0));
    assert_eq!(used(QuotaType::User, 10), (4, 1));
    // Root may give it to a user who has no quota left; a negative id is nobody's.
    w.fs.set_quota(QuotaType::User, 11, &limits([0, 1], [0, 1])).unwrap();
    give(&Cred::root(), Some(11), None).unwrap();
    assert_eq!((used(QuotaType::User, 10), used(QuotaType::User, 11)), ((0, 0), (4, 1)));
    give(&Cred::root(), Some(u32::MAX - 1), None).unwrap();
    assert_eq!((used(QuotaType::User, 11), used(QuotaType::Group, 21)), ((0, 0), (0, 0)));
    give(&Cred::root(), Some(10), Some(20)).unwrap();
    drop(file);
    end_checked(w);
}

#[test]
fn the_grace_period_ends_and_deleting_helps() {
    for ordering in [OrderingPolicy::None, OrderingPolicy::SoftUpdates] {
        let w = quota_world(UFS2, ordering);
        w.fs.set_quota_grace(QuotaType::User, Grace { blocks: 60, inodes: 60 }).unwrap();
        w.fs.set_quota(QuotaType::User, 10, &limits([8, 0], [0, 0])).unwrap();
        let file = new_file(&w, &user(), "a").unwrap();
        write(&w, &user(), &file, 0, 16384).unwrap();
        w.pass(60);
        write(&w, &user(), &file, 16384, 2048).unwrap();
        w.pass(1);
        assert_eq!(errno(write(&w, &user(), &file, 32768, 1)), EDQUOT);
        let other = new_file(&w, &user(), "b").unwrap();
        let d = w.get(&w.root, "d").unwrap();
        drop(file);
        // With soft updates the space is free only when the removal is durable: the write waits.
        w.fs.unlink(&user(), &d, b"a").unwrap();
        write(&w, &user(), &other, 0, 1).unwrap();
        drop((other, d));
        end_checked(w);
    }
}

#[test]
fn attributes_are_charged() {
    let w = quota_world(UFS2, OrderingPolicy::Sync);
    let file = new_file(&w, &user(), "a").unwrap();
    let set = |len: usize| {
        let (ns, value) = (XattrNamespace::User, vec![1; len]);
        w.fs.setxattr(&user(), &file, ns, b"x", &value, XattrSet::Any)
    };
    set(10).unwrap();
    let used = || record(&w.fs, QuotaType::User, 10).curblocks;
    assert_eq!(used(), 4);
    w.fs.set_quota(QuotaType::User, 10, &limits([0, 9], [0, 0])).unwrap();
    set(3000).unwrap();
    assert_eq!(used(), 8);
    // The old area is freed, so the change needs nothing more.
    set(2500).unwrap();
    assert_eq!(errno(set(6000)), EDQUOT);
    assert_eq!(w.fs.getxattr(&user(), &file, XattrNamespace::User, b"x").unwrap().len(), 2500);
    assert_eq!(used(), 8);
    w.fs.removexattr(&user(), &file, XattrNamespace::User, b"x").unwrap();
    assert_eq!(used(), 0);
    drop(file);
    end_checked(w);
}

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
fn a_mount_without_quotas_leaves_counts_that_the_next_one_corrects() {
    let w = quota_world(UFS1, OrderingPolicy::Sync);
    new_file(&w, &user(), "a").unwrap();
    let dev = w.dev.clone();
    end_checked(w);
    let w = mount_on(dev.inner().snapshot(), &MountOptions::default());
    let file = new_file(&w, &user(), "b").unwrap();
    write(&w, &user(), &file, 0, 8192).unwrap();
    drop(file);
    let dev = unmounted(w);
    let [users, _] = counted(&dev);
    assert_eq!(users.differences().len(), 1);
    let w = mount_on(dev, &options(OrderingPolicy::Sync));
    let r = record(&w.fs, QuotaType::User, 10);
    assert_eq!((r.curblocks, r.curinodes), (16, 2));
    end_checked(w);
}

/// Unmounts without a check.
fn unmounted(w: World) -> MemDevice {
    let World { fs, root, dev, .. } = w;
    drop(root);
    fs.unmount().unwrap();
    dev.inner().snapshot()
}

#[test]
fn fsck_corrects_old_counts_and_keeps_limits() {
    for shape in [UFS2, UFS1] {
        let w = quota_world(shape, OrderingPolicy::None);
        w.fs.set_quota(QuotaType::User, 10, &limits([7, 0], [3, 4])).unwrap();
        w.fs.set_quota(QuotaType::Group, 100_000, &limits([7, 8], [0, 0])).unwrap();
        new_file(&w, &user(), "a").unwrap();
        let dev = w.dev.clone();
        end_checked(w);
        let w = mount_on(dev.inner().snapshot(), &MountOptions::default());
        let file = new_file(&w, &user(), "b").unwrap();
        write(&w, &user(), &file, 0, 8192).unwrap();
        let give = SetAttr { gid: Some(100_000), ..SetAttr::default() };
        w.fs.setattr(&Cred::root(), &file, &give).unwrap();
        drop(file);
        let dev = Arc::new(unmounted(w));
        let look = Fsck::new(dev.clone(), FsckOptions::no()).run();
        let found: Vec<_> = look.findings.iter().map(|f| (f.id.as_str(), &f.message[..])).collect();
        assert_eq!(
            found,
            [
                ("QUOTA-USAGE", "quota.user: wrong usage of 1 id: correct"),
                ("QUOTA-USAGE", "quota.group: wrong usage of 1 id: correct")
            ]
        );
        let report = Fsck::new(dev.clone(), FsckOptions::yes()).run();
        assert!(report.clean && report.modified, "{report:?}");
        let [users, groups] = counted(&*dev);
        assert_eq!((users.differences(), groups.differences()), (vec![], vec![]));
        assert_eq!(users.records[&10].isoftlimit, 3);
        assert_eq!(groups.records[&100_000].bhardlimit, 8);
        assert!(Fsck::new(dev, FsckOptions::no()).run().is_silent());
    }
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

/// A random operation of one of three users, or of root.
fn step(w: &World, rng: &mut SplitMix64) {
    let creds = [Cred::user(10, 20), Cred::user(11, 20), Cred::user(12, 21), Cred::root()];
    let cred = rng.pick(&creds).unwrap();
    let d = w.get(&w.root, "d").unwrap();
    let name = |rng: &mut SplitMix64| format!("f{}", rng.below(12)).into_bytes();
    let (a, b) = (name(rng), name(rng));
    let file = w.fs.lookup(&Cred::root(), &d, &a);
    let size = [1, 700, 3000, 20_000, 120_000][rng.below(5) as usize];
    let place = [0, 500, 16_384, 300_000, 3_000_000][rng.below(5) as usize];
    let bytes = vec![3; size];
    let set = |set: SetAttr| drop(file.as_ref().map(|f| w.fs.setattr(cred, f, &set)));
    match rng.below(14) {
        0 => drop(w.fs.create(cred, &d, &a, NodeKind::Regular, 0o666)),
        1 => drop(w.fs.mkdir(cred, &d, &a, 0o777)),
        2 => drop(w.fs.symlink(cred, &d, &a, &bytes[..size.min(900)])),
        3 => drop(w.fs.unlink(cred, &d, &a)),
        4 => drop(w.fs.rmdir(cred, &d, &a)),
        5 => drop(w.fs.rename(cred, (&d, &a), (&d, &b), RenameMode::Replace)),
        6 => set(SetAttr { size: Some(place / 2), ..SetAttr::default() }),
        7 => {
            let (uid, gid) = (Some(10 + rng.below(3) as u32), Some(20 + rng.below(2) as u32));
            set(SetAttr { uid, gid, ..SetAttr::default() });
        }
        8 => set(SetAttr { gid: Some(20), size: Some(place), ..SetAttr::default() }),
        n => {
            let Ok(file) = &file else { return };
            let ns = XattrNamespace::User;
            match n {
                9 => drop(w.fs.setxattr(cred, file, ns, b"x", &bytes, XattrSet::Any)),
                10 => drop(w.fs.removexattr(cred, file, ns, b"x")),
                11 => {
                    let how = [Fallocate::Allocate, Fallocate::PunchHole, Fallocate::ZeroRange];
                    let how = *rng.pick(&how).unwrap();
                    drop(w.fs.fallocate(cred, file, place, size as u64, how));
                }
                _ => drop(w.fs.write(cred, file, place, &bytes, WriteMode::default())),
            }
        }
    }
}

fn set_random_limits(w: &World, rng: &mut SplitMix64) {
    for kind in QuotaType::ALL {
        for id in [10, 11, 12, 20, 21] {
            let b = rng.between(300, 3000);
            let i = rng.between(2, 12);
            w.fs.set_quota(kind, id, &limits([b / 2, b], [i / 2, i])).unwrap();
        }
    }
}

/// The usage in memory equals that of quotacheck on `dev`.
fn assert_usage(fs: &Ffs, dev: &dyn BlockDevice, what: &str) {
    for (kind, file) in QuotaType::ALL.into_iter().zip(counted(dev)) {
        for (id, used) in &file.counted {
            let r = record(fs, kind, *id);
            let found = (r.curblocks, r.curinodes);
            assert_eq!(found, (used.blocks, used.inodes), "{what}: {kind} {id}");
        }
        let all = fs.quotas(kind).unwrap();
        let known = all.iter().filter(|(_, r)| r.curinodes > 0).count();
        assert_eq!(known, file.counted.len(), "{what}: {kind}");
    }
}

#[test]
fn random_operations_leave_the_usage_that_quotacheck_counts() {
    let modes = [OrderingPolicy::None, OrderingPolicy::Sync, OrderingPolicy::SoftUpdates];
    for seed in 0..12 {
        let mut rng = SplitMix64::new(seed);
        let shape = if seed % 2 == 0 { UFS2 } else { UFS1 };
        let w = quota_world(shape, modes[seed as usize % 3]);
        set_random_limits(&w, &mut rng);
        for n in 0..400 {
            step(&w, &mut rng);
            if n % 100 == 50 {
                w.pass(31);
            }
            if n % 100 == 99 {
                w.fs.sync().unwrap();
                assert_usage(&w.fs, w.dev.inner(), &format!("seed {seed}, step {n}"));
            }
        }
        end_checked(w);
    }
}

#[test]
fn after_a_crash_quotas_are_counted_anew() {
    for seed in 0..6 {
        let mut rng = SplitMix64::new(100 + seed);
        let shape = if seed % 2 == 0 { UFS2 } else { UFS1 };
        let w = quota_world(shape, OrderingPolicy::SoftUpdates);
        set_random_limits(&w, &mut rng);
        for n in 0..300 {
            step(&w, &mut rng);
            if n % 40 == 20 {
                w.pass(20);
            }
        }
        let limit = record(&w.fs, QuotaType::User, 11).bhardlimit;
        // Without a check: the mount of a volume with soft updates accepts it.
        let unchecked = w.dev.inner().snapshot();
        let checked = Arc::new(unchecked.snapshot());
        let report = Fsck::new(checked.clone(), FsckOptions::preen()).run();
        assert!(report.clean, "{report:?}");
        let checked = checked.snapshot();
        for (dev, what) in [(unchecked, "unchecked"), (checked, "after fsck -p")] {
            let w = mount_on(dev, &options(OrderingPolicy::SoftUpdates));
            let what = format!("seed {seed}, {what}");
            assert_usage(&w.fs, w.dev.inner(), &what);
            for _ in 0..40 {
                step(&w, &mut rng);
            }
            w.fs.sync().unwrap();
            assert_usage(&w.fs, w.dev.inner(), &what);
            let kept = record(&w.fs, QuotaType::User, 11).bhardlimit;
            assert!(kept == limit || kept == 0, "a record is whole or was not written yet");
        }
    }
}

#[test]
fn quota_files_and_snapshots_are_not_counted() {
    let w = quota_world(UFS2, OrderingPolicy::None);
    let before = record(&w.fs, QuotaType::User, 0);
    w.fs.set_quota(QuotaType::User, 30_000, &limits([0, 9], [0, 0])).unwrap();
    w.fs.sync().unwrap();
    assert!(w.fs.getattr(&w.get(&w.root, "quota.user").unwrap()).blocks > 0);
    assert_eq!(record(&w.fs, QuotaType::User, 0), before);
    // The quota file keeps working without its name.
    w.fs.unlink(&Cred::root(), &w.root, b"quota.user").unwrap();
    let cursor = record(&w.fs, QuotaType::User, 0);
    assert_eq!(cursor.curinodes, before.curinodes);
    w.fs.set_quota(QuotaType::User, 30_001, &limits([0, 9], [0, 0])).unwrap();
    w.fs.sync().unwrap();
    w.end();
    let w = quota_world(UFS2, OrderingPolicy::None);
    let file = new_file(&w, &user(), "a").unwrap();
    let (ino, g): (Ino, _) = (file.ino(), *w.fs.geometry());
    drop(file);
    let dev = w.dev.clone();
    end_checked(w);
    let dev = dev.inner().snapshot();
    let mut block = vec![0; g.bsize as usize];
    let byte = g.frag_to_byte(g.ino_to_fsba(ino));
    dev.read_at(byte, &mut block).unwrap();
    let raw = &mut block[g.ino_to_fsbo(ino)..][..g.format.dinode_size()];
    let mut d = ffs_ondisk::Dinode::decode(&g, raw);
    d.flags |= FileFlags::SF_SNAPSHOT;
    d.encode(&g, raw);
    ffs_ondisk::dinode::rehash(&g, raw);
    dev.write_at(byte, &block).unwrap();
    let w = mount_on(dev, &options(OrderingPolicy::None));
    assert_eq!(record(&w.fs, QuotaType::User, 10).curinodes, 0);
}

#[test]
fn concurrent_users_do_not_exceed_a_limit_together() {
    let w = quota_world(UFS2, OrderingPolicy::None);
    w.fs.set_quota(QuotaType::Group, 20, &limits([0, 2001], [0, 0])).unwrap();
    let files: Vec<Vnode> =
        (0..4).map(|n| new_file(&w, &Cred::user(10 + n, 20), &n.to_string()).unwrap()).collect();
    std::thread::scope(|threads| {
        for (n, file) in (0..).zip(&files) {
            let w = &w;
            threads.spawn(move || {
                let cred = Cred::user(10 + n, 20);
                let mut at = 0;
                while write(w, &cred, file, at, 4096).is_ok() {
                    at += 4096;
                }
            });
        }
    });
    let used = record(&w.fs, QuotaType::Group, 20).curblocks;
    assert!((1960..=2000).contains(&used), "{used}");
    w.clock.advance(Duration::from_secs(1));
    assert!(at(&w.fs, "d/0").is_ok());
    drop(files);
    end_checked(w);
}
