//! What an fsync promises of names: those that lead to its file, and by default every older change of names.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod common;

use common::{World, at, mount_on, soft_updates, soft_volume};
use ffs_core::acl::{Acl, Entry, Who};
use ffs_core::{
    Cred, Env, Error, Fallocate, Ffs, FileFlags, FsyncScope, MountOptions, RenameMode, SetAttr,
    Vnode, WriteMode,
};
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

/// The device as it is now, repaired, and mounted to be read.
fn after_a_cut(dev: &MemDevice) -> Ffs {
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

/// Every path, with its kind and, of a symbolic link, nothing more.
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

/// The file was there before its directory got another name: after fsync that name is on the device, and the
/// old one is not.
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
            w.fs.fsync(&foo, false).unwrap();
            let path = if same_parent { "b/foo" } else { "p/b/foo" };
            let fs = after_a_cut(w.dev.inner());
            assert_eq!(content(&fs, path).as_deref(), Some("two"), "{scope:?} {path}");
            drop((p, a, foo));
            w.end();
        }
    }
}

/// The same with the renamed directory two levels above, and a file that is made after it.
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
        w.fs.fsync(&order, false).unwrap();
        let fs = after_a_cut(w.dev.inner());
        assert_eq!(content(&fs, "live/deep/order").as_deref(), Some("acknowledged"), "{scope:?}");
        drop((stage, deep, order));
        w.end();
    }
}

/// A file that is moved or linked to a name of its own has the content there that it had then.
#[test]
fn a_published_name_has_its_content() {
    for by_link in [false, true] {
        let w = world(FsyncScope::All);
        let other = w.file(&w.root, "other");
        let new = w.file(&w.root, "new.tmp");
        w.fs.sync().unwrap();
        write(&w, &new, "content");
        if by_link {
            w.fs.link(&Cred::root(), &new, &w.root, b"new").unwrap();
        } else {
            mv(&w, (&w.root, "new.tmp"), (&w.root, "new"));
        }
        let before = w.record();
        w.fs.fsync(&other, false).unwrap();
        let mut seen = 0;
        w.each_write(&before, |dev, offset| {
            if let Some(found) = content(&after_a_cut(dev), "new") {
                assert_eq!(found, "content", "by link: {by_link}, a write at {offset}");
                seen += 1;
            }
        });
        assert!(seen > 0, "by link: {by_link}: the name is not there after an fsync");
        drop((other, new));
        w.end();
    }
}

/// After an fsync of any file the names on the device are those in memory.
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
                // Many fail, for want of a name or because it is there.
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
            w.fs.fsync(&anchor, false).unwrap();
            let found = tree(&after_a_cut(w.dev.inner()));
            assert_eq!(found, tree(&w.fs), "seed {seed}");
        }
        drop(anchor);
        w.end();
    }
}

/// A file made without a name is linked, or one renamed over another and then on, and a third file removed before or
/// after: that is gone only when the name before it is there.
#[test]
fn a_removal_comes_after_older_links_and_renames() {
    for case in 0..4 {
        let w = world(FsyncScope::All);
        let (c, d, e) = (Cred::root(), w.dir(&w.root, "d"), w.dir(&w.root, "e"));
        for (dir, name) in [(&w.root, "old"), (&w.root, "z"), (&d, "f"), (&e, "k")] {
            write(&w, &w.file(dir, name), name);
        }
        w.fs.sync().unwrap();
        let before = w.record();
        if case < 2 {
            let v = w.fs.create_unnamed(&c, &d, 0o600, true).unwrap();
            write(&w, &v, "new");
            w.fs.link(&c, &v, &e, b"new").unwrap();
        } else {
            mv(&w, (&d, "f"), (&e, "k"));
        }
        w.fs.unlink(&c, &w.root, b"old").unwrap();
        match case {
            1 => mv(&w, (&e, "new"), (&d, "moved")),
            3 => mv(&w, (&e, "k"), (&d, "moved")),
            _ => {}
        }
        let z = at(&w.fs, "z").unwrap();
        w.fs.fsync(&z, false).unwrap();
        w.each_write(&before, |dev, offset| {
            let fs = after_a_cut(dev);
            if content(&fs, "old").is_some() {
                return;
            }
            let (k, new) = (content(&fs, "e/k"), content(&fs, "e/new"));
            let moved = content(&fs, "d/moved");
            let what = format!("{case}: write at {offset}: {k:?} {new:?} {moved:?}");
            match case {
                0 | 1 => assert!(new.or(moved).as_deref() == Some("new"), "{what}"),
                _ => {
                    assert_ne!(k.as_deref(), Some("k"), "{what}");
                    assert!(k.or(moved).as_deref() == Some("f"), "{what}");
                }
            }
        });
        drop((d, e, z));
        w.end();
    }
}

/// A name is replaced, and the new file removed at once: what the device shows under the name, which is the old
/// file, goes when the names are there that were given before; in the end, and when another removal waits.
#[test]
fn a_name_replaced_and_removed_goes_after_older_renames() {
    for case in 0..8 {
        let (elsewhere, removal, again) = (case & 1 == 1, case & 2 == 2, case & 4 == 4);
        let w = world(FsyncScope::All);
        let (c, d, e) = (Cred::root(), w.dir(&w.root, "d"), w.dir(&w.root, "e"));
        for (dir, name) in [(&w.root, "x"), (&w.root, "old"), (&w.root, "z"), (&e, "k")] {
            write(&w, &w.file(dir, name), name);
        }
        w.fs.sync().unwrap();
        let before = w.record();
        let (to, path) = if elsewhere { (&d, "d/x2") } else { (&w.root, "x2") };
        mv(&w, (&w.root, "x"), (to, "x2"));
        write(&w, &w.file(&e, "tmp"), "new");
        mv(&w, (&e, "tmp"), (&e, "k"));
        if again {
            write(&w, &w.file(&e, "tmp"), "newer");
            mv(&w, (&e, "tmp"), (&e, "k"));
        }
        if removal {
            w.fs.unlink(&c, &w.root, b"old").unwrap();
        }
        w.fs.unlink(&c, &e, b"k").unwrap();
        let z = at(&w.fs, "z").unwrap();
        w.fs.fsync(&z, false).unwrap();
        w.each_write(&before, |dev, offset| {
            let fs = after_a_cut(dev);
            let renamed = content(&fs, path).is_some();
            let k = content(&fs, "e/k");
            assert!(renamed || k.is_some(), "{case}: 'e/k' is gone, write at {offset}");
            let gone = content(&fs, "old").is_none();
            let is_old = k.as_deref() == Some("k");
            assert!(!gone || renamed && !is_old, "{case}: 'old' is gone, write at {offset}");
        });
        drop((d, e, z));
        w.end();
    }
}

/// An fdatasync that has metadata to write covers older names, too; one that has none writes the content alone.
#[test]
fn an_fdatasync_with_metadata_to_write_covers_older_names() {
    let w = world(FsyncScope::All);
    let v = w.file(&w.root, "log");
    write(&w, &v, "one line");
    w.fs.sync().unwrap();
    let (d, moved) = (w.dir(&w.root, "d"), w.file(&w.root, "before"));
    mv(&w, (&w.root, "before"), (&d, "after"));
    w.fs.write(&Cred::root(), &v, 60_000, b"more", WriteMode::default()).unwrap();
    w.fs.fsync(&v, true).unwrap();
    let fs = after_a_cut(w.dev.inner());
    assert_eq!(tree(&fs), tree(&w.fs));
    assert_eq!(fs.getattr(&at(&fs, "log").unwrap()).size, 60_004);
    drop((v, d, moved));
    w.end();
}

/// An fsync does not write the content of other files, and with `fsync=file` not their names either.
#[test]
fn an_fsync_leaves_out_what_it_need_not_write() {
    for scope in SCOPES {
        let w = world(scope);
        let (p, q) = (w.dir(&w.root, "p"), w.dir(&w.root, "q"));
        w.fs.sync().unwrap();
        let other = w.file(&q, "other");
        w.fs.write(&Cred::root(), &other, 0, &[b'x'; 1 << 20], WriteMode::default()).unwrap();
        let v = w.file(&p, "mine");
        write(&w, &v, "text");
        let before = w.fs.counters();
        w.fs.fsync(&v, false).unwrap();
        let written = w.fs.counters().bytes_written - before.bytes_written;
        assert!(written < 512 << 10, "{scope:?}: {written} bytes");
        let fs = after_a_cut(w.dev.inner());
        assert_eq!(content(&fs, "p/mine").as_deref(), Some("text"), "{scope:?}");
        assert_eq!(at(&fs, "q/other").is_ok(), scope == FsyncScope::All, "{scope:?}");
        drop((p, q, other, v));
        w.end();
    }
}

/// A name is removed from the device only after the names that renames and links gave before, whatever was
/// synced: programs remove what a new name has replaced.
#[test]
fn a_removal_comes_after_older_renames_and_links() {
    for (scope, by_link) in SCOPES.into_iter().flat_map(|s| [false, true].map(|l| (s, l))) {
        let w = world(scope);
        let (p, q) = (w.dir(&w.root, "p"), w.dir(&w.root, "q"));
        let (new, old) = (w.file(&p, "new"), w.file(&q, "old"));
        write(&w, &new, "new");
        write(&w, &old, "old");
        w.fs.sync().unwrap();
        if by_link {
            w.fs.link(&Cred::root(), &new, &p, b"current").unwrap();
        } else {
            mv(&w, (&p, "new"), (&p, "current"));
        }
        let before = w.record();
        w.fs.unlink(&Cred::root(), &q, b"old").unwrap();
        w.fs.fsync(&q, false).unwrap();
        let mut seen = [0; 2];
        w.each_write(&before, |dev, offset| {
            let fs = after_a_cut(dev);
            let there = [content(&fs, "p/current"), content(&fs, "q/old")];
            let which = format!("{scope:?}, by link: {by_link}, a write at {offset}: {there:?}");
            assert!(there.iter().any(Option::is_some), "{which}");
            seen[usize::from(there[1].is_none())] += 1;
        });
        assert!(seen.iter().all(|n| *n > 0), "{scope:?}, by link: {by_link}: {seen:?}");
        drop((p, q, new, old));
        w.end();
    }
}

/// Threads that call fsync at the same time share passes; each finds its own name durable when it returns.
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
                    w.fs.fsync(&v, false).unwrap();
                    // What others have under way is repaired.
                    let fs = after_a_cut(w.dev.inner());
                    let path = format!("d{n}/f{i}");
                    assert_eq!(content(&fs, &path).as_deref(), Some("mine"), "{path}");
                }
            });
        }
    });
    drop(dirs);
    w.end();
}

/// Only the owner changes a file's access lists, and a call that is refused changes nothing.
#[test]
fn access_lists_are_the_owners() {
    let mut opts = options(FsyncScope::All);
    opts.acls = Some(true);
    let shape = (Endian::Little, Format::Ufs2, 8192, 1024);
    let w = mount_on(soft_volume(shape, 16 << 20), &opts);
    let (v, d) = (w.file(&w.root, "f"), w.dir(&w.root, "d"));
    let entry = |who, perm| Entry { who, perm };
    let entries = [
        entry(Who::UserObj, 6),
        entry(Who::User(1001), 6),
        entry(Who::GroupObj, 4),
        entry(Who::Mask, 4),
        entry(Who::Other, 4),
    ];
    let acl = Acl::new(entries.to_vec()).unwrap();
    let (other, owner) = (Cred::user(1001, 1001), Cred::user(7, 7));
    for list in [Some(&acl), None] {
        let set = w.fs.set_access_acl(&other, &v, list, false);
        assert!(matches!(set, Err(Error::NotPermitted)), "{set:?}");
        let set = w.fs.set_default_acl(&other, &d, list);
        assert!(matches!(set, Err(Error::NotPermitted)), "{set:?}");
    }
    assert!(w.fs.access_acl(&v).unwrap().is_none() && w.fs.default_acl(&d).unwrap().is_none());
    let root = Cred::root();
    let mut set = SetAttr { uid: Some(7), ..SetAttr::default() };
    w.fs.setattr(&root, &v, &set).unwrap();
    w.fs.set_access_acl(&owner, &v, Some(&acl), false).unwrap();
    set.flags = Some(FileFlags::UF_IMMUTABLE);
    w.fs.setattr(&root, &v, &set).unwrap();
    let removed = w.fs.set_access_acl(&owner, &v, None, false);
    assert!(matches!(removed, Err(Error::NotPermitted)), "{removed:?}");
    assert!(w.fs.access_acl(&v).unwrap().is_some());
    drop((v, d));
    w.end();
}

/// A name of a file with content that is cut short before that is written, in a hole: the name comes with the
/// content it had, or with the new end.
#[test]
fn a_published_name_waits_for_the_new_end_of_its_file() {
    const BLOCK: u64 = 8192;
    let w = world(FsyncScope::File);
    let (c, v, beside) = (Cred::root(), w.file(&w.root, "f"), w.file(&w.root, "beside"));
    w.fs.write(&c, &v, 0, &[1; BLOCK as usize], WriteMode::default()).unwrap();
    w.fs.sync().unwrap();
    let before = w.record();
    let (cut, end) = (4 * BLOCK + 100, 7 * BLOCK + 900);
    w.fs.write(&c, &v, 7 * BLOCK, &[2; 900], WriteMode::default()).unwrap();
    w.fs.link(&c, &v, &w.root, b"name").unwrap();
    let set = SetAttr { size: Some(cut), ..SetAttr::default() };
    w.fs.setattr(&c, &v, &set).unwrap();
    // The inode and the directory are written before the new last block.
    w.fs.write(&c, &beside, 0, &[3; 600], WriteMode::default()).unwrap();
    w.fs.fsync(&beside, true).unwrap();
    w.fs.fsync(&w.root, true).unwrap();
    let mut seen = 0;
    w.each_write(&before, |dev, offset| {
        let fs = after_a_cut(dev);
        let Ok(v) = at(&fs, "name") else { return };
        let size = fs.getattr(&v).size;
        assert!([cut, end].contains(&size), "{size} bytes, a write at {offset}");
        seen += 1;
    });
    assert!(seen > 0);
    drop((v, beside));
    w.end();
}

/// What a name waits for may be hidden by other content of its file, which came later: whoever waits for the name
/// writes that, too. An exchange fails if it waits in vain.
#[test]
fn what_hides_the_content_that_a_name_waits_for_is_written() {
    const BLOCK: u64 = 8192;
    let seed = ffs_testkit::envvar::number("FFS_SEED").unwrap_or(1);
    println!("FFS_SEED={seed}");
    let rng = SplitMix64::new(seed);
    let (c, mode) = (Cred::root(), WriteMode::default());
    for round in 0..1000 {
        let w = world(FsyncScope::All);
        let (d, v) = (w.dir(&w.root, "d"), w.file(&w.root, "f"));
        drop(w.file(&w.root, "y"));
        let mut told = Vec::new();
        // Where indirect blocks begin, or within few direct ones.
        let blocks = if round % 2 == 0 { 14 } else { 4 };
        for number in 0..rng.next_u64() % 40 {
            let (at, len) = (rng.next_u64() % (blocks * BLOCK), rng.next_u64() % (2 * BLOCK) + 1);
            let what = rng.next_u64() % 8;
            told.push((what, at, len));
            match what {
                0..3 => _ = w.fs.write(&c, &v, at, &vec![1; len as usize], mode).unwrap(),
                3 => w.fs.fallocate(&c, &v, at, len, Fallocate::PunchHole).unwrap(),
                4..6 => {
                    let set = SetAttr { size: Some(at), ..SetAttr::default() };
                    w.fs.setattr(&c, &v, &set).unwrap();
                }
                6 => w.fs.link(&c, &v, &w.root, format!("name{number}").as_bytes()).unwrap(),
                _ if rng.next_u64().is_multiple_of(4) => w.fs.sync().unwrap(),
                _ => _ = w.fs.fsync(&v, true),
            }
        }
        // An exchange makes names durable that are not.
        drop(w.file(&d, "x"));
        let (x, y) = ((&d, &b"x"[..]), (&w.root, &b"y"[..]));
        let done = w.fs.rename(&c, x, y, RenameMode::Exchange);
        assert!(done.is_ok(), "round {round}: {done:?} after {told:?}");
        drop((v, d));
        w.end();
    }
}

/// A link is renamed away, another of the same file gets its name, and a third file takes that: the first new name is
/// there before.
#[test]
fn a_name_that_comes_back_keeps_what_its_removal_waited_for() {
    for scope in SCOPES {
        let w = world(scope);
        let (c, d) = (Cred::root(), w.dir(&w.root, "d"));
        let file = w.file(&w.root, "file");
        for name in ["out", "in", "more", "again"] {
            w.fs.link(&c, &file, &w.root, name.as_bytes()).unwrap();
        }
        write(&w, &w.file(&d, "third"), "third");
        w.fs.sync().unwrap();
        let before = w.record();
        mv(&w, (&w.root, "out"), (&d, "moved"));
        mv(&w, (&w.root, "in"), (&w.root, "out"));
        mv(&w, (&d, "third"), (&w.root, "out"));
        w.fs.fsync(&w.root, false).unwrap();
        w.each_write(&before, |dev, offset| {
            let fs = after_a_cut(dev);
            let taken = content(&fs, "out").as_deref() == Some("third");
            let moved = at(&fs, "d/moved").is_ok();
            assert!(moved || !taken, "{scope:?}: a write at {offset}");
        });
        drop((d, file));
        w.end();
    }
}

/// A file made in a directory with a default access list has its list in every state of the device in which
/// it has its name.
#[test]
fn an_inherited_access_list_is_there_with_the_name() {
    let mut opts = options(FsyncScope::All);
    opts.acls = Some(true);
    let shape = (Endian::Little, Format::Ufs2, 8192, 1024);
    let w = mount_on(soft_volume(shape, 16 << 20), &opts);
    let c = Cred::root();
    let d = w.dir(&w.root, "d");
    let entry = |who, perm| Entry { who, perm };
    let default = Acl::new(vec![
        entry(Who::UserObj, 7),
        entry(Who::User(1001), 6),
        entry(Who::GroupObj, 0),
        entry(Who::Mask, 6),
        entry(Who::Other, 0),
    ]);
    w.fs.set_default_acl(&c, &d, Some(&default.unwrap())).unwrap();
    w.fs.sync().unwrap();
    let before = w.record();
    let made = [w.file(&d, "secret"), w.dir(&d, "below")];
    let other = w.file(&d, "other");
    w.fs.fsync(&other, false).unwrap();
    let mut seen = 0;
    w.each_write(&before, |dev, offset| {
        let fs = after_a_cut(dev);
        for path in ["d/secret", "d/below"] {
            let Ok(v) = at(&fs, path) else { continue };
            seen += 1;
            let acl = fs.access_acl(&v).unwrap();
            assert!(acl.is_some(), "{path} without its list, a write at {offset}");
            let is_dir = path == "d/below";
            assert_eq!(fs.default_acl(&v).unwrap().is_some(), is_dir, "{path}, {offset}");
        }
    });
    assert!(seen > 0, "neither name was seen");
    drop((made, other, d));
    w.end();
}
