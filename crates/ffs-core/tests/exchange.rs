//! Exchange of two names: after a loss of power at any time both names have changed or neither.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use crate::common;
use crate::common::{World, at, mount_on, soft_updates, soft_volume};
use ffs_core::{Cred, Env, Ffs, RenameMode, Vnode, WriteMode};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::{BlockDevice, MemDevice, Rng, SplitMix64};
use ffs_ondisk::exchange::{ExchangeRecord, ExchangedName, PREFIX, hash};
use ffs_ondisk::{Endian, FileType, Format};
use std::sync::Arc;

fn world() -> World {
    let shape = (Endian::Little, Format::Ufs2, 4096, 512);
    mount_on(soft_volume(shape, 16 << 20), &soft_updates())
}

fn mount(dev: &Arc<MemDevice>) -> Ffs {
    let clock = Arc::new(ManualClock::new(Timestamp::new(1_800_000_000, 0)));
    let dev = Arc::clone(dev) as Arc<dyn BlockDevice>;
    Ffs::mount(dev, &soft_updates(), Env::seeded(clock, 1)).unwrap()
}

/// The text of a file, or the names in a directory. With `checked` the volume needs no further
/// check, so `..` of a moved directory must name its parent.
fn meaning(fs: &Ffs, path: &str, checked: bool) -> String {
    let v = at(fs, path).unwrap_or_else(|e| panic!("{path}: {e}"));
    if fs.getattr(&v).kind == FileType::Directory {
        let names: Vec<String> = common::list(fs, &v).into_iter().map(|(n, _)| n).collect();
        let up = fs.lookup(&Cred::root(), &v, b"..").unwrap();
        let parent = match path.rsplit_once('/') {
            Some((parent, _)) => at(fs, parent).unwrap(),
            None => fs.root().unwrap(),
        };
        let right = fs.getattr(&up).ino == fs.getattr(&parent).ino;
        assert!(right || !checked, "'..' of {path}");
        return format!("{names:?}");
    }
    let mut bytes = vec![0; fs.getattr(&v).size as usize];
    fs.read(&v, 0, &mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

fn no_record_is_left(fs: &Ffs) {
    let root = fs.root().unwrap();
    let names = common::list(fs, &root);
    assert!(names.iter().all(|(name, _)| !name.as_bytes().starts_with(PREFIX)), "{names:?}");
}

/// The pair of names after a crash with this image: after a mount, and after `fsck -p`.
fn after(dev: &MemDevice, paths: [&str; 2]) -> [[String; 2]; 2] {
    let mounted = Arc::new(dev.snapshot());
    let fs = mount(&mounted);
    no_record_is_left(&fs);
    let by_mount = paths.map(|path| meaning(&fs, path, false));
    fs.unmount().unwrap();
    // After the mount, `fsck -p` repairs the remaining damage without questions.
    common::examine::repair(&mounted).unwrap();
    let fs = mount(&mounted);
    assert_eq!(paths.map(|path| meaning(&fs, path, true)), by_mount, "a check after the mount");
    drop(fs);
    let checked = Arc::new(dev.snapshot());
    common::examine::repair(&checked).unwrap();
    let fs = mount(&checked);
    no_record_is_left(&fs);
    let by_check = paths.map(|path| meaning(&fs, path, true));
    drop(fs);
    [by_mount, by_check]
}

/// Creates a distinguishable file or directory.
fn make(w: &World, dir: &Vnode, name: &str, is_dir: bool) {
    if is_dir {
        let d = w.dir(dir, name);
        drop(w.file(&d, &format!("in-{name}")));
    } else {
        let v = w.file(dir, name);
        w.fs.write(&Cred::root(), &v, 0, name.as_bytes(), WriteMode::default()).unwrap();
    }
}

#[test]
fn a_crash_shows_both_names_changed_or_neither() {
    for kinds in [(false, false), (true, false), (false, true), (true, true)] {
        for places in [("", ""), ("p", "p"), ("p", "q"), ("", "q"), ("p", "")] {
            for durable in [true, false] {
                exchange_and_crash(kinds, places, durable);
            }
        }
    }
}

/// `durable`: the names are on the device before the exchange.
fn exchange_and_crash(kinds: (bool, bool), places: (&str, &str), durable: bool) {
    let what = format!("{kinds:?} in {places:?}, durable before: {durable}");
    println!("{what}");
    let w = world();
    let (p, q) = (w.dir(&w.root, "p"), w.dir(&w.root, "q"));
    let dir = |place: &str| match place {
        "p" => p.clone(),
        "q" => q.clone(),
        _ => w.root.clone(),
    };
    let path = |place: &str, name: &str| match place {
        "" => name.to_owned(),
        _ => format!("{place}/{name}"),
    };
    let (d1, d2) = (dir(places.0), dir(places.1));
    make(&w, &d1, "one", kinds.0);
    make(&w, &d2, "two", kinds.1);
    if durable {
        w.fs.sync().unwrap();
    }
    let (one, two) = (path(places.0, "one"), path(places.1, "two"));
    let paths = [one.as_str(), two.as_str()];
    let old = paths.map(|path| meaning(&w.fs, path, true));
    let new = [old[1].clone(), old[0].clone()];
    if !durable {
        w.fs.sync().unwrap();
    }
    let before = w.record();
    w.fs.rename(&Cred::root(), (&d1, b"one"), (&d2, b"two"), RenameMode::Exchange).unwrap();
    assert_eq!(paths.map(|path| meaning(&w.fs, path, true)), new, "{what}");
    no_record_is_left(&w.fs);
    w.fs.sync().unwrap();
    let mut states = 0;
    w.each_write(&before, |dev, offset| {
        states += 1;
        for (found, by) in after(dev, paths).into_iter().zip(["mount", "fsck -p"]) {
            assert!(found == old || found == new, "{what}: {found:?} by {by}, write at {offset}");
        }
    });
    assert!(states > 3, "{what}: {states} states");
    drop((p, q, d1, d2));
    w.end();
}

/// A name from an exchange is renamed or replaced before it is durable: both names of the exchange
/// exist at every time, and never name the same file.
#[test]
fn a_rename_after_an_exchange_comes_after_all_of_it() {
    for case in 0..12 {
        let (is_dir, second, far) = (case & 1 == 1, case & 2 == 2, case >= 8);
        let w = world();
        let (c, dirs) = (Cred::root(), ["a", "b", "c"].map(|name| w.dir(&w.root, name)));
        let [a, b, other] = &dirs;
        make(&w, a, "one", is_dir);
        make(&w, b, "two", is_dir);
        let z = w.file(&w.root, "z");
        w.fs.sync().unwrap();
        let old = ["a/one", "b/two"].map(|path| meaning(&w.fs, path, true));
        let before = w.record();
        w.fs.rename(&c, (a, b"one"), (b, b"two"), RenameMode::Exchange).unwrap();
        let (from, name): (&Vnode, &[u8]) = if second { (b, b"two") } else { (a, b"one") };
        let (kept, moved) = if second { ("a/one", "b/two") } else { ("b/two", "a/one") };
        let to = if far { other } else { from };
        w.fs.rename(&c, (from, name), (to, b"new"), RenameMode::Replace).unwrap();
        w.fs.write(&c, &z, 0, b"z", WriteMode::default()).unwrap();
        w.fs.fsync(&z).unwrap();
        w.each_write(&before, |dev, offset| {
            for by_check in [true, false] {
                let dev = Arc::new(dev.snapshot());
                if by_check {
                    common::examine::repair(&dev).unwrap();
                }
                let fs = mount(&dev);
                no_record_is_left(&fs);
                let what = format!("{case}: write at {offset}, check {by_check}");
                let of = |path| at(&fs, path).ok().map(|_| meaning(&fs, path, by_check));
                let (here, there) = (of(kept), of(moved));
                assert!(here.is_some(), "{what}: {kept} is missing");
                assert_ne!(here, there, "{what}");
                let place = if second { 0 } else { 1 };
                let is_old = here.as_ref() == Some(&old[place]);
                assert_eq!(there.is_some() && is_old, is_old, "{what}: {here:?} {there:?}");
            }
        });
        drop((dirs, z));
        w.end();
    }
}

/// A record in which one directory is both an exchanged file and the location of a name: a mount
/// and a check ignore it.
#[test]
fn a_record_that_no_exchange_writes_does_not_stop_a_mount() {
    let w = world();
    let (d, f) = (w.dir(&w.root, "d"), w.file(&w.root, "f"));
    let [dir, root] = [&d, &w.root].map(|v| w.fs.getattr(v).ino);
    let named = |dir, name| ExchangedName { dir, hash: hash(name) };
    let (first, second) = (named(root, b"d"), named(dir, b"absent"));
    let name = ExchangeRecord { first, second, other: dir }.name();
    w.fs.link(&Cred::root(), &f, &w.root, &name).unwrap();
    w.fs.sync().unwrap();
    let fs = mount(&Arc::new(w.dev.inner().snapshot()));
    assert_eq!(fs.getattr(&at(&fs, "d").unwrap()).kind, FileType::Directory);
    drop(fs);
    let checked = Arc::new(w.dev.inner().snapshot());
    common::examine::repair(&checked).unwrap();
    let fs = mount(&checked);
    assert_eq!(fs.getattr(&at(&fs, "d").unwrap()).kind, FileType::Directory);
    assert!(at(&fs, std::str::from_utf8(&name).unwrap()).is_ok(), "a check leaves it alone");
    w.fs.unlink(&Cred::root(), &w.root, &name).unwrap();
    drop((fs, d, f));
    w.end();
}

/// A directory is exchanged with a file, then fsync, then everything is removed: a record of the
/// exchange waited for ever.
#[test]
fn what_was_exchanged_can_be_removed_and_unmounted() {
    let w = world();
    let c = Cred::root();
    let d1 = w.dir(&w.root, "d1");
    drop(w.file(&w.root, "f2"));
    drop(w.dir(&d1, "d3"));
    w.fs.rename(&c, (&d1, b"d3"), (&w.root, b"f2"), RenameMode::Exchange).unwrap();
    w.fs.fsync(&w.root).unwrap();
    w.fs.unlink(&c, &d1, b"d3").unwrap();
    w.fs.rmdir(&c, &w.root, b"d1").unwrap();
    drop(d1);
    w.end();
}

/// Exchanges mixed with renames, removals and fsyncs in a small tree: the volume can always be
/// unmounted, and is undamaged.
#[test]
fn exchanges_by_chance_leave_nothing_to_wait_for() {
    for seed in 0..60 {
        println!("seed {seed}");
        let w = world();
        let (c, rng) = (Cred::root(), SplitMix64::new(seed));
        let dirs = [w.dir(&w.root, "a"), w.dir(&w.root, "b"), w.root.clone()];
        for _ in 0..60 {
            let name = || format!("n{}", rng.below(4)).into_bytes();
            let (from, to) = (name(), name());
            let (d, e) = (&dirs[rng.below(3) as usize], &dirs[rng.below(3) as usize]);
            match rng.below(9) {
                0 => drop(w.fs.create(&c, d, &from, ffs_core::NodeKind::Regular, 0o644)),
                1 => drop(w.fs.mkdir(&c, d, &from, 0o755)),
                2 => drop(w.fs.unlink(&c, d, &from)),
                3 => drop(w.fs.rmdir(&c, d, &from)),
                4 => drop(w.fs.rename(&c, (d, &from), (e, &to), RenameMode::Replace)),
                5..=7 => drop(w.fs.rename(&c, (d, &from), (e, &to), RenameMode::Exchange)),
                _ => match rng.below(3) {
                    0 => w.fs.fsync(d).unwrap(),
                    1 => w.pass(rng.below(40) as u32),
                    _ => w.fs.sync().unwrap(),
                },
            }
        }
        drop(dirs);
        w.end();
    }
}
