//! The promises of fsync about names: the names that lead to its file, and by default every older
//! change of names.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod access_lists;
#[path = "../common/mod.rs"]
mod common;
mod content;
mod removals;

use common::{World, at, mount_on, soft_updates, soft_volume};
use ffs_core::{Cred, Env, Ffs, FsyncScope, MountOptions, RenameMode, Vnode, WriteMode};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::{BlockDevice, MemDevice, Rng, SplitMix64};
use ffs_ondisk::{Endian, FileType, Format};
use std::collections::BTreeMap;
use std::sync::Arc;

const SCOPES: [FsyncScope; 2] = [FsyncScope::All, FsyncScope::File];

fn options(scope: FsyncScope) -> MountOptions {
    let mut options = soft_updates();
    options.tunables.fsync = scope;
    options
}

fn world(scope: FsyncScope) -> World {
    let shape = (Endian::Little, Format::Ufs2, 8192, 1024);
    mount_on(soft_volume(shape, 16 << 20), &options(scope))
}

fn write(w: &World, v: &Vnode, text: &str) {
    w.fs.write(&Cred::root(), v, 0, text.as_bytes(), WriteMode::default()).unwrap();
}

fn mv(w: &World, from: (&Vnode, &str), to: (&Vnode, &str)) {
    let (from, to) = ((from.0, from.1.as_bytes()), (to.0, to.1.as_bytes()));
    w.fs.rename(&Cred::root(), from, to, RenameMode::Replace).unwrap();
}

/// The present state of the device, repaired and mounted read-only.
fn after_power_loss(dev: &MemDevice) -> Ffs {
    let dev = Arc::new(dev.snapshot());
    common::examine::repair(&dev).unwrap();
    let options = MountOptions { read_only: true, acls: Some(true), ..MountOptions::default() };
    let clock = Arc::new(ManualClock::new(Timestamp::new(1_800_000_000, 0)));
    Ffs::mount(dev as Arc<dyn BlockDevice>, &options, Env::seeded(clock, 1)).unwrap()
}

fn content(fs: &Ffs, path: &str) -> Option<String> {
    let v = at(fs, path).ok()?;
    let mut bytes = vec![0; fs.getattr(&v).size as usize];
    fs.read(&v, 0, &mut bytes).unwrap();
    Some(String::from_utf8(bytes).unwrap())
}

/// Every path with the type of its file.
fn tree(fs: &Ffs) -> BTreeMap<String, FileType> {
    let mut all = BTreeMap::new();
    let mut todo = vec![String::new()];
    while let Some(path) = todo.pop() {
        let dir = at(fs, &path).unwrap();
        for (name, _) in common::list(fs, &dir) {
            if name == "." || name == ".." || name == "lost+found" {
                continue;
            }
            let below = format!("{path}/{name}");
            let kind = fs.getattr(&at(fs, &below).unwrap()).kind;
            if kind == FileType::Directory {
                todo.push(below.clone());
            }
            all.insert(below, kind);
        }
    }
    all
}

/// A file exists before its directory is renamed. After fsync the new name of the directory is on
/// the device, and the old name is not.
#[test]
fn a_file_below_a_renamed_directory() {
    for scope in SCOPES {
        for same_parent in [true, false] {
            let w = world(scope);
            let (p, a) = (w.dir(&w.root, "p"), w.dir(&w.root, "a"));
            let foo = w.file(&a, "foo");
            w.fs.sync().unwrap();
            let to = if same_parent { &w.root } else { &p };
            mv(&w, (&w.root, "a"), (to, "b"));
            write(&w, &foo, "two");
            w.fs.fsync(&foo).unwrap();
            let path = if same_parent { "b/foo" } else { "p/b/foo" };
            let fs = after_power_loss(w.dev.inner());
            assert_eq!(content(&fs, path).as_deref(), Some("two"), "{scope:?} {path}");
            drop((p, a, foo));
            w.end();
        }
    }
}

/// A directory two levels above is renamed, then a file is made and synced.
#[test]
fn a_new_file_below_a_renamed_directory() {
    for scope in SCOPES {
        let w = world(scope);
        let stage = w.dir(&w.root, "stage");
        let deep = w.dir(&stage, "deep");
        w.fs.sync().unwrap();
        mv(&w, (&w.root, "stage"), (&w.root, "live"));
        let order = w.file(&deep, "order");
        write(&w, &order, "acknowledged");
        w.fs.fsync(&order).unwrap();
        let fs = after_power_loss(w.dev.inner());
        assert_eq!(content(&fs, "live/deep/order").as_deref(), Some("acknowledged"), "{scope:?}");
        drop((stage, deep, order));
        w.end();
    }
}

/// After an fsync of any file the device has the names that memory has.
#[test]
fn an_fsync_makes_all_older_names_durable() {
    for seed in 0..20 {
        println!("seed {seed}");
        let w = world(FsyncScope::All);
        let (c, rng) = (Cred::root(), SplitMix64::new(seed));
        let anchor = w.file(&w.root, "anchor");
        for _ in 0..12 {
            for _ in 0..1 + rng.below(12) {
                let paths = tree(&w.fs);
                let dirs: Vec<&String> =
                    paths.iter().filter(|(_, k)| **k == FileType::Directory).map(|p| p.0).collect();
                let dir = || match rng.below(dirs.len() as u64 + 1) as usize {
                    0 => w.root.clone(),
                    n => at(&w.fs, dirs[n - 1]).unwrap(),
                };
                let name = || format!("n{}", rng.below(6)).into_bytes();
                let (d, e, from, to) = (dir(), dir(), name(), name());
                // Many fail because a name is missing or exists.
                match rng.below(10) {
                    0 | 1 => {
                        let kind = ffs_core::NodeKind::Regular;
                        drop(w.fs.create(&c, &d, &from, kind, 0o644));
                    }
                    2 | 3 => drop(w.fs.mkdir(&c, &d, &from, 0o755)),
                    4 => drop(w.fs.symlink(&c, &d, &from, b"somewhere")),
                    5 => drop(w.fs.unlink(&c, &d, &from)),
                    6 => drop(w.fs.rmdir(&c, &d, &from)),
                    7 => {
                        if let Ok(v) = w.fs.lookup(&c, &d, &from) {
                            drop(w.fs.link(&c, &v, &e, &to));
                        }
                    }
                    8 => {
                        drop(w.fs.rename(&c, (&d, &from), (&e, &to), RenameMode::Replace));
                    }
                    _ => {
                        drop(w.fs.rename(&c, (&d, &from), (&e, &to), RenameMode::Exchange));
                    }
                }
                if rng.below(8) == 0 {
                    w.pass(rng.below(40) as u32);
                }
            }
            write(&w, &anchor, "again");
            w.fs.fsync(&anchor).unwrap();
            let found = tree(&after_power_loss(w.dev.inner()));
            assert_eq!(found, tree(&w.fs), "seed {seed}");
        }
        drop(anchor);
        w.end();
    }
}

/// An fdatasync that has metadata to write covers older names; one that has none writes only the
/// content.
#[test]
fn an_fdatasync_with_metadata_to_write_covers_older_names() {
    let w = world(FsyncScope::All);
    let v = w.file(&w.root, "log");
    write(&w, &v, "one line");
    w.fs.sync().unwrap();
    let (d, moved) = (w.dir(&w.root, "d"), w.file(&w.root, "before"));
    mv(&w, (&w.root, "before"), (&d, "after"));
    w.fs.write(&Cred::root(), &v, 60_000, b"more", WriteMode::default()).unwrap();
    w.fs.fdatasync(&v).unwrap();
    let fs = after_power_loss(w.dev.inner());
    assert_eq!(tree(&fs), tree(&w.fs));
    assert_eq!(fs.getattr(&at(&fs, "log").unwrap()).size, 60_004);
    drop((v, d, moved));
    w.end();
}

/// An fsync does not write the content of other files, and with `fsync=file` not their names
/// either.
#[test]
fn an_fsync_writes_no_content_of_other_files() {
    for scope in SCOPES {
        let w = world(scope);
        let (p, q) = (w.dir(&w.root, "p"), w.dir(&w.root, "q"));
        w.fs.sync().unwrap();
        let other = w.file(&q, "other");
        w.fs.write(&Cred::root(), &other, 0, &[b'x'; 1 << 20], WriteMode::default()).unwrap();
        let v = w.file(&p, "mine");
        write(&w, &v, "text");
        let before = w.fs.counters();
        w.fs.fsync(&v).unwrap();
        let written = w.fs.counters().bytes_written - before.bytes_written;
        assert!(written < 512 << 10, "{scope:?}: {written} bytes");
        let fs = after_power_loss(w.dev.inner());
        assert_eq!(content(&fs, "p/mine").as_deref(), Some("text"), "{scope:?}");
        assert_eq!(at(&fs, "q/other").is_ok(), scope == FsyncScope::All, "{scope:?}");
        drop((p, q, other, v));
        w.end();
    }
}

/// Threads that call fsync at the same time share writeback passes; when a call returns, its name
/// is durable.
#[test]
fn threads_share_an_fsync() {
    let w = world(FsyncScope::All);
    let dirs: Vec<Vnode> = (0..4).map(|n| w.dir(&w.root, &format!("d{n}"))).collect();
    std::thread::scope(|s| {
        for (n, dir) in dirs.iter().enumerate() {
            let w = &w;
            s.spawn(move || {
                for i in 0..20 {
                    let v = w.file(dir, &format!("f{i}"));
                    write(w, &v, "mine");
                    w.fs.fsync(&v).unwrap();
                    // Unfinished operations of other threads are repaired.
                    let fs = after_power_loss(w.dev.inner());
                    let path = format!("d{n}/f{i}");
                    assert_eq!(content(&fs, &path).as_deref(), Some("mine"), "{path}");
                }
            });
        }
    });
    drop(dirs);
    w.end();
}
