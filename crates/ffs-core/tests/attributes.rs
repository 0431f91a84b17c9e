//! Times, permissions, owners and flags: who may change them, and which change automatically, as
//! POSIX requires.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common;
use crate::common::{World, errno, fresh, mv, rename, root};
use ffs_core::{
    Access, Checks, Cred, Fallocate, MountOptions, NodeKind, RenameMode, SetAttr, SetIdBits,
    SetTime, Vnode, WriteMode, XattrNamespace, XattrSet,
};
use ffs_ondisk::{Endian, FileFlags, Format, Timespec};

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EACCES: i32 = 13;
const EEXIST: i32 = 17;
const EISDIR: i32 = 21;

fn times(w: &World, v: &Vnode) -> (i64, i64) {
    let a = w.fs.getattr(v);
    (a.mtime.secs, a.ctime.secs)
}

#[test]
fn operations_set_the_times_that_posix_requires() {
    let w = fresh();
    let d = w.dir(&w.root, "d");
    let f = w.file(&d, "f");
    let t = w.tick();
    let g = w.file(&d, "g");
    assert_eq!((times(&w, &d), times(&w, &g)), ((t, t), (t, t)));
    let t1 = w.tick();
    w.fs.link(&root(), &f, &d, b"h").unwrap();
    assert_eq!((times(&w, &d), times(&w, &f).1), ((t1, t1), t1));
    let t2 = w.tick();
    w.fs.unlink(&root(), &d, b"h").unwrap();
    assert_eq!((times(&w, &d), times(&w, &f).1), ((t2, t2), t2));
    let t3 = w.tick();
    assert_eq!(mv(&w, (&d, "f"), (&w.root, "f")), 0);
    assert_eq!((times(&w, &d), times(&w, &w.root), times(&w, &f).1), ((t3, t3), (t3, t3), t3));
    let t4 = w.tick();
    w.fs.write(&root(), &f, 0, b"x", WriteMode::default()).unwrap();
    assert_eq!(times(&w, &f), (t4, t4));
    let t5 = w.tick();
    w.fs.write(&root(), &f, 0, b"", WriteMode::default()).unwrap();
    assert_eq!(times(&w, &f), (t4, t4));
    w.fs.setattr(&root(), &f, &SetAttr { perm: Some(0o600), ..SetAttr::default() }).unwrap();
    assert_eq!(times(&w, &f), (t4, t5));
    let t6 = w.tick();
    w.fs.setattr(&root(), &f, &SetAttr { size: Some(1), ..SetAttr::default() }).unwrap();
    assert_eq!(times(&w, &f), (t6, t6));
    let old = Timespec { secs: -5, nsec: 7 };
    let set = SetAttr {
        atime: Some(SetTime::To(old)),
        mtime: Some(SetTime::To(old)),
        ..SetAttr::default()
    };
    let t7 = w.tick();
    let a = w.fs.setattr(&root(), &f, &set).unwrap();
    assert_eq!((a.atime, a.mtime, a.ctime.secs), (old, old, t7));
    drop((d, f, g));
    w.end();
}

fn set_perm(w: &World, v: &Vnode, perm: u16, uid: u32, gid: u32) {
    let set = SetAttr { perm: Some(perm), uid: Some(uid), gid: Some(gid), ..SetAttr::default() };
    w.fs.setattr(&root(), v, &set).unwrap();
}

#[test]
fn permissions_of_directories() {
    let w = fresh();
    let d = w.dir(&w.root, "d");
    drop(w.file(&d, "f"));
    let user = Cred::user(1, 1);
    set_perm(&w, &d, 0o700, 0, 0);
    assert_eq!(errno(w.fs.lookup(&user, &d, b"f")), EACCES);
    assert_eq!(errno(w.fs.lookup(&user, &d, b"none")), EACCES);
    set_perm(&w, &d, 0o755, 0, 0);
    assert_eq!(errno(w.fs.lookup(&user, &d, b"f")), 0);
    assert_eq!(errno(w.fs.lookup(&user, &d, b"none")), ENOENT);
    assert_eq!(errno(w.fs.create(&user, &d, b"f", NodeKind::Regular, 0)), EEXIST);
    assert_eq!(errno(w.fs.create(&user, &d, b"g", NodeKind::Regular, 0)), EACCES);
    assert_eq!(errno(w.fs.unlink(&user, &d, b"f")), EACCES);
    let passed = Cred { checks: Checks::Done, ..user.clone() };
    w.fs.create(&passed, &d, b"g", NodeKind::Regular, 0).unwrap();
    // A directory of another user that may be written, but not the subdirectory to be moved.
    set_perm(&w, &d, 0o777, 0, 0);
    set_perm(&w, &w.root, 0o777, 0, 0);
    w.dir(&d, "sub");
    let moved = w.fs.rename(&user, (&d, b"sub"), (&w.root, b"sub"), RenameMode::Replace);
    assert_eq!(errno(moved), EACCES);
    let stays = w.fs.rename(&user, (&d, b"sub"), (&d, b"bus"), RenameMode::Replace);
    assert_eq!(errno(stays), 0);
    drop(d);
    w.end();
}

#[test]
fn sticky_directories() {
    let w = fresh();
    let d = w.dir(&w.root, "d");
    set_perm(&w, &d, 0o1777, 5, 5);
    let (owner, other, third) = (Cred::user(1, 1), Cred::user(2, 2), Cred::user(5, 5));
    for n in ["a", "b", "c"] {
        w.fs.create(&owner, &d, n.as_bytes(), NodeKind::Regular, 0o666).unwrap();
    }
    w.fs.create(&other, &d, b"x", NodeKind::Regular, 0o666).unwrap();
    assert_eq!(errno(w.fs.unlink(&other, &d, b"a")), EPERM);
    let over = w.fs.rename(&other, (&d, b"x"), (&d, b"a"), RenameMode::Replace);
    assert_eq!(errno(over), EPERM);
    let away = w.fs.rename(&other, (&d, b"a"), (&d, b"y"), RenameMode::Replace);
    assert_eq!(errno(away), EPERM);
    assert_eq!(errno(w.fs.unlink(&owner, &d, b"a")), 0, "the file's owner");
    assert_eq!(errno(w.fs.unlink(&third, &d, b"b")), 0, "the directory's owner");
    assert_eq!(errno(w.fs.unlink(&root(), &d, b"c")), 0);
    drop(d);
    w.end();
}

#[test]
fn file_flags() {
    let w = fresh();
    let flag = |v: &Vnode, f: FileFlags| {
        w.fs.setattr(&root(), v, &SetAttr { flags: Some(f), ..SetAttr::default() }).map(drop)
    };
    let d = w.dir(&w.root, "d");
    let f = w.file(&d, "f");
    for locks in [FileFlags::UF_IMMUTABLE, FileFlags::SF_APPEND, FileFlags::SF_NOUNLINK] {
        flag(&f, locks).unwrap();
        assert_eq!(errno(w.fs.unlink(&root(), &d, b"f")), EPERM, "{locks:?}");
        assert_eq!(mv(&w, (&d, "f"), (&d, "g")), EPERM, "{locks:?}");
        assert_eq!(rename(&w, (&d, "f"), (&w.root, "f"), RenameMode::NoReplace), EPERM);
    }
    flag(&f, FileFlags::UF_IMMUTABLE).unwrap();
    let mode = WriteMode::default();
    assert_eq!(errno(w.fs.write(&root(), &f, 0, b"x", mode)), EPERM);
    assert_eq!(errno(w.fs.link(&root(), &f, &d, b"g")), EPERM);
    assert_eq!(errno(w.fs.access(&root(), &f, Access::WRITE)), EPERM);
    let chmod = SetAttr { perm: Some(0), ..SetAttr::default() };
    assert_eq!(errno(w.fs.setattr(&root(), &f, &chmod)), EPERM);
    flag(&f, FileFlags::UF_APPEND).unwrap();
    let append = WriteMode { append: true, ..mode };
    assert_eq!(w.fs.write(&root(), &f, 99, b"one", append).unwrap(), 3);
    assert_eq!(w.fs.write(&root(), &f, 3, b"two", mode).unwrap(), 3);
    assert_eq!(errno(w.fs.write(&root(), &f, 2, b"x", mode)), EPERM);
    let truncate = SetAttr { size: Some(0), ..SetAttr::default() };
    assert_eq!(errno(w.fs.setattr(&root(), &f, &truncate)), EPERM);
    flag(&f, FileFlags::empty()).unwrap();
    flag(&d, FileFlags::SF_APPEND).unwrap();
    drop(w.file(&d, "added"));
    assert_eq!(errno(w.fs.unlink(&root(), &d, b"f")), EPERM);
    flag(&d, FileFlags::SF_IMMUTABLE).unwrap();
    assert_eq!(errno(w.fs.create(&root(), &d, b"more", NodeKind::Regular, 0)), EPERM);
    assert_eq!(errno(w.fs.create(&root(), &d, b"f", NodeKind::Regular, 0)), EEXIST);
    flag(&d, FileFlags::empty()).unwrap();
    // Users may set their own flags, but none while system flags are set.
    let user = Cred::user(1, 1);
    set_perm(&w, &f, 0o644, 1, 1);
    let by_user = |f: &Vnode, flags| {
        errno(w.fs.setattr(&user, f, &SetAttr { flags: Some(flags), ..SetAttr::default() }))
    };
    assert_eq!(by_user(&f, FileFlags::UF_NODUMP), 0);
    assert_eq!(by_user(&f, FileFlags::SF_ARCHIVED), EPERM);
    assert_eq!(errno(flag(&f, FileFlags::SF_SNAPSHOT)), EPERM);
    flag(&f, FileFlags::SF_NOUNLINK).unwrap();
    assert_eq!(by_user(&f, FileFlags::empty()), EPERM);
    assert_eq!(by_user(&d, FileFlags::UF_NODUMP), EPERM);
    drop((d, f));
    w.end();
}

#[test]
fn ownership_of_new_files() {
    for bsdgroups in [false, true] {
        let mem =
            ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 16384, 2048, 16 << 20).unwrap();
        let w = common::mount_on(mem, &MountOptions { bsdgroups, ..MountOptions::default() });
        let d = w.dir(&w.root, "d");
        set_perm(&w, &d, 0o777, 7, 70);
        let user = Cred::user(1, 1);
        let gid = |name: &[u8], kind| {
            let v = w.fs.create(&user, &d, name, kind, 0o2755).unwrap();
            (w.fs.getattr(&v).gid, w.fs.getattr(&v).perm)
        };
        let plain = if bsdgroups { (70, 0o755) } else { (1, 0o2755) };
        assert_eq!(gid(b"a", NodeKind::Regular), plain);
        set_perm(&w, &d, 0o2777, 7, 70);
        assert_eq!(gid(b"b", NodeKind::Regular), (70, 0o755), "not the group's member");
        let sub = w.fs.mkdir(&user, &d, b"sub", 0o755).unwrap();
        let want = if bsdgroups { 0o755 } else { 0o2755 };
        assert_eq!((w.fs.getattr(&sub).gid, w.fs.getattr(&sub).perm), (70, want));
        drop((d, sub));
        w.end();
    }
}

#[test]
fn changing_attributes_needs_ownership() {
    let w = fresh();
    let f = w.file(&w.root, "f");
    set_perm(&w, &f, 0o666, 1, 1);
    let (owner, other) = (Cred { groups: vec![3], ..Cred::user(1, 1) }, Cred::user(2, 2));
    let set = |cred: &Cred, set: SetAttr| errno(w.fs.setattr(cred, &f, &set));
    let d = SetAttr::default();
    assert_eq!(set(&other, SetAttr { perm: Some(0o777), ..d }), EPERM);
    assert_eq!(set(&owner, SetAttr { uid: Some(2), ..d }), EPERM);
    assert_eq!(set(&owner, SetAttr { gid: Some(2), ..d }), EPERM);
    assert_eq!(set(&owner, SetAttr { uid: Some(1), gid: Some(3), ..d }), 0);
    assert_eq!(set(&other, SetAttr { gid: Some(2), ..d }), EPERM);
    let at = SetTime::To(Timespec { secs: 1, nsec: 0 });
    assert_eq!(set(&other, SetAttr { mtime: Some(at), ..d }), EPERM);
    let present = SetAttr { atime: Some(SetTime::Now), mtime: Some(SetTime::Now), ..d };
    assert_eq!(set(&other, present), 0, "it may write");
    assert_eq!(set(&other, SetAttr { mtime: Some(SetTime::Now), ..d }), EPERM, "one alone");
    assert_eq!(set(&other, SetAttr { size: Some(5), ..d }), 0);
    set_perm(&w, &f, 0o644, 1, 1);
    assert_eq!(set(&other, present), EACCES);
    assert_eq!(set(&other, SetAttr { size: Some(0), ..d }), EACCES);
    assert_eq!(errno(w.fs.setattr(&root(), &w.root, &SetAttr { size: Some(0), ..d })), EISDIR);
    drop(f);
    w.end();
}

#[test]
fn set_id_bits_go_when_others_change_the_file() {
    let w = fresh();
    let f = w.file(&w.root, "f");
    let perm = || w.fs.getattr(&f).perm;
    let user = Cred { groups: vec![3], ..Cred::user(1, 1) };
    let mode = WriteMode::default();
    let d = SetAttr::default();
    set_perm(&w, &f, 0o6775, 1, 1);
    w.fs.write(&root(), &f, 0, b"x", mode).unwrap();
    assert_eq!(perm(), 0o6775, "root's");
    w.fs.write(&user, &f, 0, b"x", WriteMode { set_id: SetIdBits::Keep, ..mode }).unwrap();
    assert_eq!(perm(), 0o6775);
    w.fs.write(&user, &f, 0, b"x", mode).unwrap();
    assert_eq!(perm(), 0o775);
    set_perm(&w, &f, 0o6775, 1, 1);
    w.fs.setattr(&user, &f, &SetAttr { size: Some(0), ..d }).unwrap();
    assert_eq!(perm(), 0o775);
    set_perm(&w, &f, 0o6745, 1, 1);
    w.fs.setattr(&user, &f, &SetAttr { gid: Some(3), ..d }).unwrap();
    assert_eq!(perm(), 0o2745, "set-group-id without execution is no privilege");
    set_perm(&w, &f, 0o755, 1, 9);
    w.fs.setattr(&user, &f, &SetAttr { perm: Some(0o2755), ..d }).unwrap();
    assert_eq!(perm(), 0o755, "not the group's member");
    drop(f);
    w.end();
}

/// `security.capability` applies to the present content and owner of a file.
#[test]
fn capabilities_are_removed_when_the_file_changes() {
    const NAME: &[u8] = b"security.capability";
    let w = fresh();
    let f = w.file(&w.root, "f");
    w.fs.write(&root(), &f, 0, &[1; 5000], WriteMode::default()).unwrap();
    let system = XattrNamespace::System;
    let give = || w.fs.setxattr(&root(), &f, system, NAME, b"bits", XattrSet::Any).unwrap();
    let there = || w.fs.getxattr(&root(), &f, system, NAME).is_ok();
    let set = |set: SetAttr| {
        w.fs.setattr(&root(), &f, &set).unwrap();
    };
    let write = |mode| {
        w.fs.write(&root(), &f, 0, b"x", mode).unwrap();
    };
    let (d, keep) = (SetAttr::default(), SetIdBits::Keep);
    give();
    write(WriteMode { set_id: keep, ..WriteMode::default() });
    set(SetAttr { size: Some(100), set_id: keep, ..d });
    set(SetAttr { perm: Some(0o700), ..d });
    assert!(there());
    write(WriteMode::default());
    assert!(!there());
    give();
    set(SetAttr { size: Some(100), ..d });
    assert!(!there());
    give();
    set(SetAttr { uid: Some(5), ..d });
    assert!(!there());
    give();
    w.fs.fallocate(&root(), &f, 0, 1000, Fallocate::Allocate).unwrap();
    assert!(!there());
    // Root without the right to keep the bits.
    set_perm(&w, &f, 0o6775, 1, 1);
    set(SetAttr { gid: Some(2), set_id: SetIdBits::Drop, ..d });
    assert_eq!(w.fs.getattr(&f).perm, 0o775);
    set_perm(&w, &f, 0o6775, 1, 1);
    write(WriteMode { set_id: SetIdBits::Drop, ..WriteMode::default() });
    assert_eq!(w.fs.getattr(&f).perm, 0o775);
    drop(f);
    w.end();
}
