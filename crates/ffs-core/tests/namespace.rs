//! Names, link counts and errors of the operations, as POSIX requires. Times and permissions:
//! `attributes.rs`.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common;
use crate::common::{World, errno, fresh, list, mv, rename, root, world};
use ffs_core::{
    Access, Checks, Cred, MountOptions, NodeKind, OrderingPolicy, RenameMode, SetAttr, Vnode,
    WriteMode,
};
use ffs_ondisk::dinode::LINK_MAX;
use ffs_ondisk::{Endian, FileType, Format};

const EPERM: i32 = 1;
const ENOENT: i32 = 2;
const EEXIST: i32 = 17;
const ENOTDIR: i32 = 20;
const EISDIR: i32 = 21;
const EINVAL: i32 = 22;
const EROFS: i32 = 30;
const EMLINK: i32 = 31;
const ENAMETOOLONG: i32 = 36;
const ENOTEMPTY: i32 = 39;
const ESTALE: i32 = 116;

#[test]
fn names_are_checked() {
    let w = fresh();
    let long = [b'x'; 256];
    let f = w.file(&w.root, "f");
    for (name, want) in
        [(&b""[..], EINVAL), (b"a/b", EINVAL), (b"a\0b", EINVAL), (&long, ENAMETOOLONG)]
    {
        let r = &w.root;
        assert_eq!(errno(w.fs.lookup(&root(), r, name)), want);
        assert_eq!(errno(w.fs.create(&root(), r, name, NodeKind::Regular, 0)), want);
        assert_eq!(errno(w.fs.mkdir(&root(), r, name, 0)), want);
        assert_eq!(errno(w.fs.symlink(&root(), r, name, b"t")), want);
        assert_eq!(errno(w.fs.link(&root(), &f, r, name)), want);
        assert_eq!(errno(w.fs.unlink(&root(), r, name)), want);
        assert_eq!(errno(w.fs.rmdir(&root(), r, name)), want);
        assert_eq!(errno(w.fs.rename(&root(), (r, b"f"), (r, name), RenameMode::Replace)), want);
        assert_eq!(errno(w.fs.rename(&root(), (r, name), (r, b"g"), RenameMode::Replace)), want);
    }
    let longest = "y".repeat(255);
    drop(w.file(&w.root, &longest));
    assert_eq!(w.get(&w.root, &longest).unwrap().ino(), list(&w.fs, &w.root).last().unwrap().1);
    drop(f);
    w.end();
}

#[test]
fn dot_and_dotdot() {
    let w = fresh();
    let a = w.dir(&w.root, "a");
    let b = w.dir(&a, "b");
    assert_eq!(w.get(&b, ".").unwrap().ino(), b.ino());
    assert_eq!(w.get(&b, "..").unwrap().ino(), a.ino());
    assert_eq!(w.get(&w.root, "..").unwrap().ino(), w.root.ino());
    for dots in ["..", "."] {
        let n = dots.as_bytes();
        assert_eq!(errno(w.fs.mkdir(&root(), &a, n, 0o755)), EEXIST);
        assert_eq!(errno(w.fs.create(&root(), &a, n, NodeKind::Fifo, 0)), EEXIST);
        assert_eq!(errno(w.fs.unlink(&root(), &a, n)), EISDIR);
        assert_eq!(mv(&w, (&a, dots), (&w.root, "x")), EINVAL);
        assert_eq!(mv(&w, (&a, "b"), (&w.root, dots)), EINVAL);
    }
    assert_eq!(errno(w.fs.rmdir(&root(), &b, b".")), EINVAL);
    assert_eq!(errno(w.fs.rmdir(&root(), &b, b"..")), ENOTEMPTY);
    drop((a, b));
    w.end();
}

#[test]
fn what_is_no_directory_has_no_names() {
    let w = fresh();
    let f = w.file(&w.root, "f");
    assert_eq!(errno(w.get(&f, "x")), ENOTDIR);
    assert_eq!(errno(w.get(&f, ".")), ENOTDIR);
    assert_eq!(errno(w.fs.create(&root(), &f, &[b'x'; 300], NodeKind::Regular, 0)), ENOTDIR);
    assert_eq!(errno(w.fs.unlink(&root(), &f, b"x")), ENOTDIR);
    assert_eq!(errno(w.fs.readdir(&f, 0, &mut |_| true)), ENOTDIR);
    assert_eq!(mv(&w, (&f, "x"), (&w.root, "y")), ENOTDIR);
    assert_eq!(mv(&w, (&w.root, "f"), (&f, "y")), ENOTDIR);
    assert_eq!(errno(w.fs.link(&root(), &f, &f, b"x")), ENOTDIR);
    drop(f);
    w.end();
}

#[test]
fn kinds_keep_what_they_were_made_with() {
    for (endian, format) in [(Endian::Little, Format::Ufs1), (Endian::Big, Format::Ufs2)] {
        let w = common::world_of((endian, format, 8192, 1024), OrderingPolicy::Sync);
        let cred = Cred { checks: Checks::Done, ..Cred::user(10, 20) };
        let kinds = [
            (NodeKind::Fifo, FileType::Fifo, 0),
            (NodeKind::Socket, FileType::Socket, 0),
            (NodeKind::Char(0x1234), FileType::Char, 0x1234),
            (NodeKind::Block(0x0502), FileType::Block, 0x0502),
        ];
        for (i, (kind, ..)) in kinds.iter().enumerate() {
            w.fs.create(&cred, &w.root, format!("n{i}").as_bytes(), *kind, 0o6751).unwrap();
        }
        let long = vec![b't'; 1023];
        w.fs.symlink(&cred, &w.root, b"long", &long).unwrap();
        w.fs.symlink(&cred, &w.root, b"short", b"target").unwrap();
        assert_eq!(errno(w.fs.symlink(&cred, &w.root, b"x", b"")), ENOENT);
        assert_eq!(errno(w.fs.symlink(&cred, &w.root, b"x", &[b't'; 1024])), ENAMETOOLONG);
        let mem = {
            let World { fs, root, dev, .. } = w;
            drop(root);
            fs.unmount().unwrap();
            common::check(&dev);
            dev.inner().snapshot()
        };
        let w = common::mount_on(mem, &MountOptions::default());
        for (i, (_, kind, rdev)) in kinds.iter().enumerate() {
            let a = w.fs.getattr(&w.get(&w.root, &format!("n{i}")).unwrap());
            assert_eq!((a.kind, a.rdev, a.perm, a.nlink), (*kind, *rdev, 0o6751, 1));
            assert_eq!((a.uid, a.gid, a.size, a.blocks), (10, 20, 0, 0));
        }
        assert_eq!(w.fs.readlink(&w.get(&w.root, "long").unwrap()).unwrap(), long);
        assert_eq!(w.fs.readlink(&w.get(&w.root, "short").unwrap()).unwrap(), b"target");
        assert_eq!(w.fs.getattr(&w.get(&w.root, "short").unwrap()).perm, 0o777);
        assert_eq!(errno(w.fs.readlink(&w.root)), EINVAL);
        w.end();
    }
}

#[test]
fn link_counts() {
    let w = fresh();
    let f = w.file(&w.root, "f");
    w.fs.link(&root(), &f, &w.root, b"g").unwrap();
    assert_eq!(w.nlink(&f), 2);
    assert_eq!(errno(w.fs.link(&root(), &f, &w.root, b"g")), EEXIST);
    assert_eq!(errno(w.fs.link(&root(), &w.root, &w.root, b"r")), EPERM);
    w.fs.unlink(&root(), &w.root, b"f").unwrap();
    assert_eq!(w.nlink(&f), 1);
    w.fs.unlink(&root(), &w.root, b"g").unwrap();
    assert_eq!(w.nlink(&f), 0);
    assert_eq!(errno(w.fs.link(&root(), &f, &w.root, b"again")), ENOENT);
    let before = w.nlink(&w.root);
    let d = w.dir(&w.root, "d");
    assert_eq!((w.nlink(&w.root), w.nlink(&d)), (before + 1, 2));
    assert_eq!(errno(w.fs.unlink(&root(), &w.root, b"d")), EISDIR);
    w.dir(&d, "e");
    assert_eq!(errno(w.fs.rmdir(&root(), &w.root, b"d")), ENOTEMPTY);
    w.fs.rmdir(&root(), &d, b"e").unwrap();
    w.fs.rmdir(&root(), &w.root, b"d").unwrap();
    assert_eq!((w.nlink(&w.root), w.nlink(&d)), (before, 0));
    drop((f, d));
    w.end();
}

#[test]
fn a_removed_directory_in_use_is_empty_and_stays_so() {
    let w = fresh();
    let d = w.dir(&w.root, "d");
    let f = w.file(&w.root, "f");
    w.fs.rmdir(&root(), &w.root, b"d").unwrap();
    assert_eq!(errno(w.get(&d, "x")), ENOENT);
    assert_eq!(errno(w.get(&d, "..")), ENOENT);
    assert_eq!(errno(w.fs.create(&root(), &d, b"x", NodeKind::Regular, 0)), ENOENT);
    assert_eq!(errno(w.fs.link(&root(), &f, &d, b"x")), ENOENT);
    assert_eq!(mv(&w, (&w.root, "f"), (&d, "x")), ENOENT);
    let again = w.dir(&w.root, "d");
    assert_ne!(again.ino(), d.ino());
    drop((d, f, again));
    w.end();
}

#[test]
fn link_limits() {
    let w = world(OrderingPolicy::None);
    let f = w.file(&w.root, "f");
    // Several directories, since the linear code reads a whole directory for each new name.
    let dirs: Vec<Vnode> = (0..64).map(|i| w.dir(&w.root, &format!("d{i}"))).collect();
    for i in 1..u32::from(LINK_MAX) {
        let name = i.to_string();
        w.fs.link(&root(), &f, &dirs[i as usize % 64], name.as_bytes()).unwrap();
    }
    assert_eq!(w.nlink(&f), u32::from(LINK_MAX));
    assert_eq!(errno(w.fs.link(&root(), &f, &w.root, b"more")), EMLINK);
    assert_eq!(mv(&w, (&w.root, "f"), (&w.root, "g")), EMLINK, "a rename needs one for a moment");
    w.fs.unlink(&root(), &dirs[1], b"1").unwrap();
    w.fs.link(&root(), &f, &w.root, b"more").unwrap();
    drop((f, dirs));
    w.end();
}

#[test]
fn numbers_and_generations() {
    let w = fresh();
    let f = w.file(&w.root, "f");
    let (ino, generation) = (f.ino(), w.fs.getattr(&f).generation);
    drop(f);
    assert_eq!(w.fs.vget(ino, Some(generation)).unwrap().ino(), ino);
    assert_eq!(errno(w.fs.vget(ino, Some(generation + 1))), ESTALE);
    w.fs.unlink(&root(), &w.root, b"f").unwrap();
    assert_eq!(errno(w.fs.vget(ino, None)), ESTALE);
    let again = w.file(&w.root, "g");
    assert_eq!(again.ino(), ino, "the number is used again");
    assert_eq!(errno(w.fs.vget(ino, Some(generation))), ESTALE);
    assert_eq!(errno(w.fs.vget(ffs_ondisk::Ino(u32::MAX), None)), ESTALE);
    assert_eq!(errno(w.fs.vget(ffs_ondisk::Ino(0), None)), ESTALE);
    drop(again);
    w.end();
}

#[test]
fn rename_replaces_files_and_empty_directories() {
    let w = fresh();
    let (d, e) = (w.dir(&w.root, "d"), w.dir(&w.root, "e"));
    let (f, g) = (w.file(&d, "f"), w.file(&e, "g"));
    assert_eq!(mv(&w, (&d, "f"), (&e, "g")), 0);
    assert_eq!((w.nlink(&f), w.nlink(&g)), (1, 0));
    assert_eq!(w.get(&e, "g").unwrap().ino(), f.ino());
    assert_eq!(errno(w.get(&d, "f")), ENOENT);
    assert_eq!(mv(&w, (&w.root, "d"), (&e, "g")), ENOTDIR);
    assert_eq!(mv(&w, (&e, "g"), (&w.root, "d")), EISDIR);
    assert_eq!(mv(&w, (&w.root, "d"), (&w.root, "e")), ENOTEMPTY);
    assert_eq!(mv(&w, (&w.root, "nothing"), (&w.root, "e")), ENOENT);
    let below = w.dir(&d, "below");
    assert_eq!(w.nlink(&w.root), 5, ".snap, d, e");
    // A directory replaces an empty one in another parent: `..` changes.
    let (sub, target) = (w.dir(&e, "sub"), w.dir(&d, "target"));
    assert_eq!(mv(&w, (&e, "sub"), (&d, "target")), 0);
    assert_eq!((w.nlink(&sub), w.nlink(&target), w.nlink(&d), w.nlink(&e)), (2, 0, 4, 2));
    assert_eq!(w.get(&sub, "..").unwrap().ino(), d.ino());
    // And in the same parent.
    assert_eq!(mv(&w, (&d, "below"), (&d, "target")), 0);
    assert_eq!((w.nlink(&d), w.nlink(&below)), (3, 2));
    // Up and down, without a target.
    assert_eq!(mv(&w, (&d, "target"), (&w.root, "up")), 0);
    assert_eq!((w.nlink(&d), w.nlink(&w.root)), (2, 6));
    assert_eq!(w.get(&below, "..").unwrap().ino(), w.root.ino());
    drop((d, e, f, g, below, sub, target));
    w.end();
}

#[test]
fn rename_refuses_loops() {
    let w = fresh();
    let a = w.dir(&w.root, "a");
    let b = w.dir(&a, "b");
    let c = w.dir(&b, "c");
    let f = w.file(&c, "f");
    for mode in [RenameMode::Replace, RenameMode::NoReplace, RenameMode::Exchange] {
        assert_eq!(rename(&w, (&w.root, "a"), (&a, "x"), mode), EINVAL);
        assert_eq!(rename(&w, (&w.root, "a"), (&c, "x"), mode), EINVAL);
    }
    assert_eq!(mv(&w, (&b, "c"), (&w.root, "a")), ENOTEMPTY);
    assert_eq!(mv(&w, (&b, "c"), (&a, "b")), ENOTEMPTY);
    assert_eq!(mv(&w, (&c, "f"), (&b, "c")), EISDIR);
    assert_eq!(rename(&w, (&b, "c"), (&w.root, "a"), RenameMode::Exchange), EINVAL);
    assert_eq!(rename(&w, (&c, "f"), (&a, "b"), RenameMode::Exchange), EINVAL);
    assert_eq!(mv(&w, (&w.root, "a"), (&w.root, "a")), 0);
    drop((a, b, c, f));
    w.end();
}

#[test]
fn rename_of_two_names_of_a_file_does_nothing() {
    let w = fresh();
    let f = w.file(&w.root, "f");
    let d = w.dir(&w.root, "d");
    w.fs.link(&root(), &f, &d, b"g").unwrap();
    assert_eq!(mv(&w, (&w.root, "f"), (&d, "g")), 0);
    assert_eq!(rename(&w, (&w.root, "f"), (&d, "g"), RenameMode::Exchange), 0);
    assert_eq!(rename(&w, (&w.root, "f"), (&d, "g"), RenameMode::NoReplace), EEXIST);
    assert_eq!(w.nlink(&f), 2);
    assert_eq!(w.names(&d), ["g"]);
    drop((f, d));
    w.end();
}

#[test]
fn exchange_swaps_anything() {
    let w = fresh();
    let (d, e) = (w.dir(&w.root, "d"), w.dir(&w.root, "e"));
    let (f, sub) = (w.file(&d, "x"), w.dir(&e, "y"));
    let inside = w.file(&sub, "inside");
    assert_eq!(rename(&w, (&d, "x"), (&e, "none"), RenameMode::Exchange), ENOENT);
    assert_eq!(rename(&w, (&d, "x"), (&e, "y"), RenameMode::Exchange), 0);
    assert_eq!(w.get(&d, "x").unwrap().ino(), sub.ino());
    assert_eq!(w.get(&e, "y").unwrap().ino(), f.ino());
    assert_eq!((w.nlink(&d), w.nlink(&e), w.nlink(&f), w.nlink(&sub)), (3, 2, 1, 2));
    assert_eq!(w.get(&sub, "..").unwrap().ino(), d.ino());
    assert_eq!(w.get(&sub, "inside").unwrap().ino(), inside.ino());
    let other = w.dir(&e, "other");
    assert_eq!(rename(&w, (&d, "x"), (&e, "other"), RenameMode::Exchange), 0);
    assert_eq!((w.nlink(&d), w.nlink(&e)), (3, 3));
    assert_eq!(w.get(&other, "..").unwrap().ino(), d.ino());
    assert_eq!(rename(&w, (&e, "y"), (&e, "other"), RenameMode::Exchange), 0);
    assert_eq!(w.get(&e, "y").unwrap().ino(), sub.ino());
    drop((d, e, f, sub, inside, other));
    w.end();
}

#[test]
fn appending_writes_do_not_overlap() {
    let w = fresh();
    let f = w.file(&w.root, "f");
    let append = WriteMode { append: true, ..WriteMode::default() };
    std::thread::scope(|s| {
        for t in 0..4u8 {
            let (fs, f) = (&w.fs, &f);
            s.spawn(move || {
                for _ in 0..200 {
                    assert_eq!(fs.write(&root(), f, 0, &[t; 37], append).unwrap(), 37);
                }
            });
        }
    });
    let mut all = vec![9; 4 * 200 * 37];
    assert_eq!(w.fs.read(&f, 0, &mut all).unwrap(), all.len());
    assert!(all.chunks(37).all(|c| c[0] < 4 && c.iter().all(|b| *b == c[0])));
    drop(f);
    w.end();
}

#[test]
fn a_read_only_mount_refuses_before_anything_else() {
    let w = fresh();
    let f = w.file(&w.root, "f");
    w.fs.remount(true).unwrap();
    assert_eq!(errno(w.fs.create(&root(), &f, b"f", NodeKind::Regular, 0)), EROFS);
    assert_eq!(errno(w.fs.mkdir(&root(), &w.root, b"f", 0)), EROFS);
    assert_eq!(errno(w.fs.unlink(&root(), &w.root, b"none")), EROFS);
    assert_eq!(mv(&w, (&w.root, "."), (&w.root, "x")), EROFS);
    assert_eq!(errno(w.fs.setattr(&root(), &f, &SetAttr::default())), EROFS);
    assert_eq!(errno(w.fs.write(&root(), &f, 0, b"x", WriteMode::default())), EROFS);
    assert_eq!(errno(w.fs.access(&root(), &f, Access::WRITE)), EROFS);
    assert_eq!(errno(w.fs.fsync(&f)), 0);
    drop(f);
    w.end();
}

#[test]
fn files_of_another_mount_are_refused() {
    let (w, v) = (fresh(), fresh());
    let f = v.file(&v.root, "f");
    assert_eq!(errno(w.fs.link(&root(), &f, &w.root, b"g")), EINVAL);
    assert_eq!(errno(w.fs.lookup(&root(), &v.root, b"f")), EINVAL);
    assert_eq!(mv(&w, (&v.root, "f"), (&w.root, "f")), EINVAL);
    drop(f);
    w.end();
    v.end();
}

#[test]
fn a_freed_slot_is_used_again_and_a_long_directory_shrinks_on_create() {
    let w = fresh();
    let d = w.dir(&w.root, "d");
    let name = |i: usize| format!("{i:03}{}", "n".repeat(100));
    for i in 0..64 {
        drop(w.file(&d, &name(i)));
    }
    let full = w.fs.getattr(&d).size;
    assert_eq!(full, 512 * 64u64.div_ceil(4));
    for i in 6..64 {
        w.fs.unlink(&root(), &d, name(i).as_bytes()).unwrap();
    }
    assert_eq!(w.fs.getattr(&d).size, full, "removal does not truncate");
    drop(w.file(&d, "x"));
    assert_eq!(w.fs.getattr(&d).size, 1024);
    assert_eq!(w.names(&d).len(), 7);
    drop(d);
    w.end();
}

#[test]
fn compaction_only_where_no_record_has_enough_space() {
    let w = fresh();
    let d = w.dir(&w.root, "d");
    // 24 bytes for the dots, then records of 44 bytes: eleven in the first chunk.
    let name = |i: u8| format!("{}", char::from(b'a' + i)).repeat(35);
    for i in 0..11 {
        drop(w.file(&d, &name(i)));
    }
    for i in [1, 4, 7] {
        w.fs.unlink(&root(), &d, name(i).as_bytes()).unwrap();
    }
    assert_eq!(w.fs.counters().dir_chunks_compacted, 0);
    drop(w.file(&d, &"z".repeat(35)));
    assert_eq!(w.fs.counters().dir_chunks_compacted, 0);
    drop(w.file(&d, &"y".repeat(70)));
    assert_eq!(w.fs.counters().dir_chunks_compacted, 1);
    assert_eq!(w.fs.getattr(&d).size, 512);
    for i in [0, 2, 3, 5, 6, 8, 9, 10] {
        w.get(&d, &name(i)).unwrap();
    }
    drop(d);
    w.end();
}

#[test]
fn lookups_in_listing_order_cost_a_chunk() {
    let w = fresh();
    w.fs.set_tunable("vfs.ufs.dirhash_maxmem", "0").unwrap();
    let d = w.dir(&w.root, "d");
    let names: Vec<String> = (0..400).map(|i| format!("name{i:04}")).collect();
    for n in &names {
        drop(w.file(&d, n));
    }
    // The directory must be searched.
    w.fs.purge_names();
    let before = w.fs.counters();
    for n in &names {
        w.get(&d, n).unwrap();
    }
    let after = w.fs.counters();
    let scanned = after.dir_bytes_scanned - before.dir_bytes_scanned;
    assert!(scanned < 400 * 1024, "{scanned} bytes for 400 lookups in order");
    let (two, pass2) = (
        after.lookup_two_pass - before.lookup_two_pass,
        after.lookup_pass_two - before.lookup_pass_two,
    );
    assert!(two > 370 && two == pass2, "{two} {pass2}");
    assert_eq!(errno(w.get(&d, "none")), ENOENT);
    let miss = w.fs.counters().dir_bytes_scanned - after.dir_bytes_scanned;
    assert_eq!(miss, w.fs.getattr(&d).size);
    drop(d);
    w.end();
}
