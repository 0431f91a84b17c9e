//! The usage is that of the inodes: after random operations, in each ordering mode, after a loss of
//! power, and after mounts without quotas.

use super::*;
use ffs_admin::fsck::{Fsck, FsckOptions};
use ffs_core::{Fallocate, RenameMode, XattrNamespace, XattrSet};
use ffs_ondisk::{FileFlags, Ino};
use ffs_testkit::rng::SplitMix64;

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
