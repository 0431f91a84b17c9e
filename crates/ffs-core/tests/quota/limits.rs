//! Limits, grace periods, and what a refused call leaves.

use super::*;
use crate::common::{at, errno};
use ffs_core::{Grace, XattrNamespace, XattrSet};
use std::time::Duration;

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
    // Root may give it to a user who has no quota left; a negative id is not counted.
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

/// Creates files until there is no inode or no space left; the errno that ended it.
fn fill(w: &World, len: usize) -> i32 {
    for n in 0.. {
        let made = new_file(w, &user(), &format!("fill{n}"));
        let done = made.and_then(|file| {
            let mut at = 0;
            while at < len as u64 {
                at += write(w, &user(), &file, at, (len - at as usize).min(8192))? as u64;
            }
            Ok(())
        });
        if let Err(e) = done {
            return e.errno();
        }
    }
    0
}

#[test]
fn a_full_volume_charges_nothing_for_what_failed() {
    const ENOSPC: i32 = 28;
    for shape in [UFS2, UFS1] {
        for len in [0, 3_000_000] {
            let w = quota_world(shape, OrderingPolicy::None);
            assert_eq!(fill(&w, len), ENOSPC);
            assert_eq!(errno(new_file(&w, &user(), "one more")), if len == 0 { ENOSPC } else { 0 });
            end_checked(w);
        }
    }
}

#[test]
fn an_id_that_stays_is_not_charged_again() {
    let w = quota_world(UFS2, OrderingPolicy::None);
    w.fs.set_quota_grace(QuotaType::User, Grace { blocks: 60, inodes: 60 }).unwrap();
    w.fs.set_quota(QuotaType::User, 10, &limits([32, 33], [0, 2])).unwrap();
    let cred = Cred { groups: vec![21], ..user() };
    let file = new_file(&w, &cred, "a").unwrap();
    write(&w, &cred, &file, 0, 16384).unwrap();
    let ends = record(&w.fs, QuotaType::User, 10).btime;
    w.clock.advance(Duration::from_secs(30));
    // The user is at both limits: only the group changes.
    for gid in [21, 20, 20] {
        let set = SetAttr { uid: Some(10), gid: Some(gid), ..SetAttr::default() };
        w.fs.setattr(&cred, &file, &set).unwrap();
    }
    let r = record(&w.fs, QuotaType::User, 10);
    assert_eq!((r.curblocks, r.curinodes, r.btime), (32, 1, ends));
    drop(file);
    end_checked(w);
}
