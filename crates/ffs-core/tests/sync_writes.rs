//! The synchronous writes of each operation: `spec/soft-updates.md` §11.2, counted and in order.
//!
//! `i` is a write of an inode block, `d` of a directory or data block. Only synchronous writes
//! happen here: nothing is delayed long enough to be written.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common::{World, world};
use ffs_core::{Cred, NodeKind, OrderingPolicy, RenameMode, SetAttr, WriteMode};

fn sync_world() -> World {
    world(OrderingPolicy::Sync)
}

fn root() -> Cred {
    Cred::root()
}

#[test]
fn create_mknod_and_short_symlinks_write_inode_then_directory() {
    let w = sync_world();
    let d = w.dir(&w.root, "d");
    for (i, kind) in [NodeKind::Regular, NodeKind::Fifo, NodeKind::Char(5)].into_iter().enumerate()
    {
        let name = format!("f{i}");
        let done = w.writes_of(|w| {
            w.fs.create(&root(), &d, name.as_bytes(), kind, 0o644).unwrap();
        });
        assert_eq!(done, "id", "{kind:?}");
    }
    for target in ["short".to_string(), "long/".repeat(60)] {
        let name = format!("l{}", target.len());
        let done = w.writes_of(|w| {
            w.fs.symlink(&root(), &d, name.as_bytes(), target.as_bytes()).unwrap();
        });
        assert_eq!(done, "id", "{} bytes", target.len());
    }
    drop(d);
    w.end();
}

/// In `spec/soft-updates.md` §11.2 the body follows the new directory's inode. Here it is written
/// before, so that the inode never points to an uninitialised block.
#[test]
fn mkdir_writes_parent_inode_body_child_inode_and_name() {
    let w = sync_world();
    let done = w.writes_of(|w| {
        w.dir(&w.root, "d");
    });
    assert_eq!(done, "idid");
    w.end();
}

#[test]
fn rmdir_writes_the_name_and_the_truncated_inode() {
    let w = sync_world();
    w.dir(&w.root, "d");
    assert_eq!(w.writes_of(|w| w.fs.rmdir(&root(), &w.root, b"d").unwrap()), "di");
    w.end();
}

#[test]
fn link_writes_inode_then_directory() {
    let w = sync_world();
    let f = w.file(&w.root, "f");
    assert_eq!(w.writes_of(|w| w.fs.link(&root(), &f, &w.root, b"g").unwrap()), "id");
    drop(f);
    w.end();
}

#[test]
fn unlink_writes_the_directory_and_for_a_last_name_the_truncated_inode() {
    let w = sync_world();
    let f = w.file(&w.root, "f");
    w.fs.link(&root(), &f, &w.root, b"g").unwrap();
    w.fs.write(&root(), &f, 0, b"content", WriteMode::default()).unwrap();
    drop(f);
    assert_eq!(w.writes_of(|w| w.fs.unlink(&root(), &w.root, b"g").unwrap()), "d");
    assert_eq!(w.writes_of(|w| w.fs.unlink(&root(), &w.root, b"f").unwrap()), "di");
    w.file(&w.root, "empty");
    assert_eq!(w.writes_of(|w| w.fs.unlink(&root(), &w.root, b"empty").unwrap()), "d");
    w.fs.symlink(&root(), &w.root, b"l", b"target").unwrap();
    assert_eq!(w.writes_of(|w| w.fs.unlink(&root(), &w.root, b"l").unwrap()), "di");
    w.end();
}

#[test]
fn a_removed_file_in_use_is_truncated_at_its_last_close() {
    let w = sync_world();
    let f = w.file(&w.root, "f");
    w.fs.write(&root(), &f, 0, b"content", WriteMode::default()).unwrap();
    assert_eq!(w.writes_of(|w| w.fs.unlink(&root(), &w.root, b"f").unwrap()), "d");
    assert_eq!(w.writes_of(|_| drop(f)), "i");
    w.end();
}

fn rename(w: &World, from: &str, to: &str) {
    let (a, b) = ((&w.root, from.as_bytes()), (&w.root, to.as_bytes()));
    w.fs.rename(&root(), a, b, RenameMode::Replace).unwrap();
}

#[test]
fn rename_of_a_file_writes_inode_target_and_source() {
    let w = sync_world();
    w.file(&w.root, "a");
    assert_eq!(w.writes_of(|w| rename(w, "a", "b")), "idd");
    let f = w.file(&w.root, "c");
    w.fs.write(&root(), &f, 0, b"content", WriteMode::default()).unwrap();
    drop(f);
    assert_eq!(w.writes_of(|w| rename(w, "b", "c")), "iddi", "over an existing file");
    w.file(&w.root, "e");
    assert_eq!(w.writes_of(|w| rename(w, "c", "e")), "idd", "over an empty file");
    w.end();
}

/// In `spec/soft-updates.md` §11.2 the new parent's inode follows the name. Here it is written
/// before, so that its link count is never below the number of its subdirectories.
#[test]
fn rename_of_a_directory_to_a_new_parent_writes_five_blocks() {
    let w = sync_world();
    let to = w.dir(&w.root, "to");
    w.dir(&w.root, "d");
    let done = w.writes_of(|w| {
        w.fs.rename(&root(), (&w.root, b"d"), (&to, b"d"), RenameMode::Replace).unwrap();
    });
    assert_eq!(done, "iiddd");
    drop(to);
    w.end();
}

#[test]
fn a_directory_that_grows_writes_its_inode_too() {
    let w = sync_world();
    let d = w.dir(&w.root, "d");
    // A name that fills a chunk: the next one needs another.
    for i in 0..5 {
        let name = format!("{i}{}", "x".repeat(240));
        let done = w.writes_of(|w| drop(w.file(&d, &name)));
        assert_eq!(done, if i == 1 || i == 3 { "idi" } else { "id" }, "name {i}");
    }
    drop(d);
    w.end();
}

#[test]
fn data_and_attributes_are_delayed() {
    let w = sync_world();
    let f = w.file(&w.root, "f");
    let done = w.writes_of(|w| {
        w.fs.write(&root(), &f, 0, &[7; 100_000], WriteMode::default()).unwrap();
        let set = SetAttr { perm: Some(0o600), uid: Some(7), ..SetAttr::default() };
        w.fs.setattr(&root(), &f, &set).unwrap();
    });
    assert_eq!(done, "");
    let set =
        |w: &World, a: &SetAttr| assert_eq!(w.fs.setattr(&root(), &f, a).unwrap().ino, f.ino());
    let truncate = SetAttr { size: Some(0), ..SetAttr::default() };
    assert_eq!(w.writes_of(|w| set(w, &truncate)), "i");
    let grow = SetAttr { size: Some(5000), ..SetAttr::default() };
    assert_eq!(w.writes_of(|w| set(w, &grow)), "di");
    drop(f);
    w.end();
}

#[test]
fn without_ordering_nothing_is_waited_for() {
    let w = world(OrderingPolicy::None);
    let done = w.writes_of(|w| {
        let d = w.dir(&w.root, "d");
        let f = w.file(&d, "f");
        w.fs.link(&root(), &f, &w.root, b"g").unwrap();
        rename(w, "g", "h");
        w.fs.unlink(&root(), &d, b"f").unwrap();
        w.fs.rmdir(&root(), &w.root, b"d").unwrap();
    });
    assert_eq!(done, "");
    assert_eq!(w.fs.counters().writes_sync, 0);
    w.end();
}
