//! The states that a loss of power can leave during an operation: every prefix of its writes, and
//! each write alone after the writes that the previous flush made durable. `fsck -p` must repair
//! each.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test")]

use crate::common;
use crate::common::examine::repair;
use crate::common::{START, World, at, mount_on, soft_updates, soft_volume, volume};
use ffs_admin::fsck::{Fsck, FsckOptions, quick_check};
use ffs_core::{
    Cred, Env, Error, Ffs, FileType, Ino, MountOptions, OrderingPolicy, RenameMode, WriteMode,
};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::record::Event;
use ffs_device::{BlockDevice, Durability, MemDevice};
use ffs_ondisk::superblock::FsFlags;
use ffs_ondisk::{Endian, Format, Superblock};
use std::sync::Arc;

const SHAPES: [common::Shape; 2] =
    [(Endian::Little, Format::Ufs2, 16384, 2048), (Endian::Big, Format::Ufs1, 8192, 1024)];
const ORDERED: [OrderingPolicy; 2] = [OrderingPolicy::Sync, OrderingPolicy::SoftUpdates];

fn root() -> Cred {
    Cred::root()
}

/// A new volume on a device whose writes are durable only after a flush, mounted.
fn mounted(shape: common::Shape, ordering: OrderingPolicy) -> World {
    let make = if ordering == OrderingPolicy::SoftUpdates { soft_volume } else { volume };
    let dev = make(shape, 8 << 20).with_durability(Durability::OnFlush);
    mount_on(dev, &MountOptions { ordering, ..MountOptions::default() })
}

/// Runs `each` on every state that a loss of power during `work` can leave, after a repair.
fn states(w: &World, work: impl FnOnce(&World), each: impl Fn(&Ffs, &str)) {
    w.fs.sync().unwrap();
    let now = w.record();
    let mut durable = now.snapshot();
    work(w);
    let look = |state: MemDevice, which: String| {
        let state = Arc::new(state);
        match w.fs.ordering() {
            "softdep" => drop(repair(&state).unwrap_or_else(|e| panic!("{which}: {e}"))),
            _ => preen(&state, &which),
        }
        let options = MountOptions { read_only: true, ..MountOptions::default() };
        let clock = Arc::new(ManualClock::new(Timestamp::new(START, 0)));
        let fs = Ffs::mount(state, &options, Env::seeded(clock, 1)).unwrap();
        each(&fs, &which);
    };
    for (n, event) in w.dev.take_events().into_iter().enumerate() {
        match event {
            Event::Write { offset, bytes, .. } => {
                now.write_at(offset, &bytes).unwrap();
                look(now.snapshot(), format!("up to event {n}, at {offset}"));
                let alone = durable.snapshot();
                alone.write_at(offset, &bytes).unwrap();
                look(alone, format!("event {n} alone, at {offset}"));
            }
            Event::Flush { .. } => durable = now.snapshot(),
            _ => {}
        }
    }
}

/// Without ordered maps, and with orphaned files in lost+found, `fsck -p` must still repair
/// everything.
fn preen(state: &Arc<MemDevice>, which: &str) {
    let report = Fsck::new(state.clone() as Arc<dyn BlockDevice>, FsckOptions::preen()).run();
    assert!(report.exit_code == 0 && report.clean, "{which}: {:?}", report.findings);
    let left = quick_check(&(state.clone() as Arc<dyn BlockDevice>));
    assert!(left.is_empty(), "{which}: {left:?}");
}

/// The inode number and type of a path.
fn what(fs: &Ffs, path: &str) -> Option<(Ino, FileType)> {
    match at(fs, path) {
        Ok(v) => Some((v.ino(), fs.getattr(&v).kind)),
        Err(Error::NotFound) => None,
        Err(e) => panic!("{path}: {e}"),
    }
}

fn content(fs: &Ffs, path: &str) -> Vec<u8> {
    let v = at(fs, path).unwrap();
    let mut bytes = vec![0; fs.getattr(&v).size as usize];
    let n = fs.read(&v, 0, &mut bytes).unwrap();
    bytes.truncate(n);
    bytes
}

/// The body of a new directory is written before its inode, and the inode before the name.
/// Otherwise, on a full disk, the body has the old content of the block.
#[test]
fn a_new_directory_is_one_at_every_moment() {
    for (shape, ordering) in SHAPES.into_iter().flat_map(|s| ORDERED.map(|o| (s, o))) {
        let w = mounted(shape, ordering);
        // The blocks of the directories had other content.
        for name in ["a", "b", "c"] {
            let f = w.file(&w.root, name);
            w.fs.write(&root(), &f, 0, &[0x5a; 40_000], WriteMode::default()).unwrap();
        }
        w.fs.sync().unwrap();
        for name in ["a", "b", "c"] {
            w.fs.unlink(&root(), &w.root, name.as_bytes()).unwrap();
        }
        w.fs.sync().unwrap();
        let work = |w: &World| {
            let d = w.dir(&w.root, "d");
            w.dir(&d, "e");
            w.fs.sync().unwrap();
        };
        states(&w, work, |fs, which| {
            for path in ["d", "d/e"] {
                let found = what(fs, path).map(|(_, kind)| kind);
                assert!([None, Some(FileType::Directory)].contains(&found), "{which}: {path}");
            }
        });
        assert_eq!(w.nlink(&w.root), if at(&w.fs, ".snap").is_ok() { 4 } else { 3 });
        w.end();
    }
}

/// A rename with a whiteout: when the old name does not name the file any more, it names the
/// whiteout, and the file has its new name.
#[test]
fn a_whiteout_comes_in_one_step_with_the_rename() {
    for (shape, ordering) in SHAPES.into_iter().flat_map(|s| ORDERED.map(|o| (s, o))) {
        for (from, to) in
            [("f", "g"), ("f", "d/g"), ("f", "taken"), ("d/sub", "moved"), ("d/sub", "d/moved")]
        {
            let w = mounted(shape, ordering);
            let d = w.dir(&w.root, "d");
            let sub = w.dir(&d, "sub");
            w.file(&sub, "inside");
            w.file(&w.root, "f");
            w.file(&w.root, "taken");
            let before = what(&w.fs, from).unwrap();
            let parent = |path: &'static str| match path.rsplit_once('/') {
                Some((dir, name)) => (at(&w.fs, dir).unwrap(), name),
                None => (w.fs.root().unwrap(), path),
            };
            let ((a, from_name), (b, to_name)) = (parent(from), parent(to));
            let work = |w: &World| {
                let how = RenameMode::Whiteout { replace: true };
                let (one, two) = ((&a, from_name.as_bytes()), (&b, to_name.as_bytes()));
                w.fs.rename(&root(), one, two, how).unwrap();
                assert_eq!(what(&w.fs, to), Some(before));
                assert_eq!(what(&w.fs, from).unwrap().1, FileType::Char);
                w.fs.sync().unwrap();
            };
            states(&w, work, |fs, which| {
                let (old, new) = (what(fs, from), what(fs, to));
                let which = format!("{ordering:?}: {from} to {to}: {which}: {old:?} {new:?}");
                if new == Some(before) {
                    // A directory has one name after a check: the other may be free.
                    let whiteout = old.is_some_and(|(_, kind)| kind == FileType::Char);
                    let checked = before.1 == FileType::Directory && old.is_none();
                    assert!(whiteout || checked || old == Some(before), "{which}");
                } else {
                    assert!(old == Some(before), "{which}");
                }
            });
            let whiteout = at(&w.fs, from).unwrap();
            let attr = w.fs.getattr(&whiteout);
            assert_eq!((attr.rdev, attr.perm, attr.nlink, attr.size), (0, 0, 1, 0));
            drop((a, b, d, sub, whiteout));
            w.end();
        }
    }
}

/// A file that never had a name leaves nothing, whichever of its blocks are durable.
#[test]
fn a_file_without_a_name_leaves_nothing() {
    for (shape, ordering) in SHAPES.into_iter().flat_map(|s| ORDERED.map(|o| (s, o))) {
        let w = mounted(shape, ordering);
        let before = w.fs.statfs();
        let work = |w: &World| {
            let f = w.fs.create_unnamed(&root(), &w.root, 0o600, true).unwrap();
            w.fs.write(&root(), &f, 0, &[7; 50_000], WriteMode::default()).unwrap();
            w.fs.fsync(&f).unwrap();
            assert_eq!(w.nlink(&f), 0);
            w.fs.write(&root(), &f, 50_000, &[8; 500_000], WriteMode::default()).unwrap();
            w.fs.sync().unwrap();
            drop(f);
            w.fs.sync().unwrap();
        };
        states(&w, work, |fs, which| {
            let s = fs.statfs();
            let free = (s.frags_free, s.inodes_free);
            assert_eq!(free, (before.frags_free, before.inodes_free), "{which}");
        });
        let s = w.fs.statfs();
        assert_eq!((s.frags_free, s.inodes_free), (before.frags_free, before.inodes_free));
        // Neither does a file that is still open when the volume is unmounted.
        let open = w.fs.create_unnamed(&root(), &w.root, 0o600, true).unwrap();
        w.fs.write(&root(), &open, 0, &[7; 50_000], WriteMode::default()).unwrap();
        w.end();
        drop(open);
    }
}

/// The first name of a file that was created without one appears only with its inode and content.
#[test]
fn the_first_name_comes_with_the_content() {
    for (shape, fsync) in SHAPES.into_iter().flat_map(|s| [false, true].map(|f| (s, f))) {
        for ordering in if fsync { &ORDERED[..] } else { &ORDERED[1..] } {
            let w = mounted(shape, *ordering);
            let d = w.dir(&w.root, "d");
            let bytes: Vec<u8> = (0..200_000u32).map(|n| (n % 251) as u8 | 1).collect();
            let work = |w: &World| {
                let f = w.fs.create_unnamed(&root(), &w.root, 0o640, true).unwrap();
                w.fs.write(&root(), &f, 0, &bytes, WriteMode::default()).unwrap();
                if fsync {
                    w.fs.fsync(&f).unwrap();
                }
                w.fs.link(&root(), &f, &d, b"named").unwrap();
                assert_eq!(w.nlink(&f), 1);
                w.fs.fsync(&f).unwrap();
                w.fs.sync().unwrap();
            };
            states(&w, work, |fs, which| {
                if what(fs, "d/named").is_some() {
                    assert!(content(fs, "d/named") == bytes, "{ordering:?}, {fsync}: {which}");
                }
            });
            assert!(content(&w.fs, "d/named") == bytes);
            drop(d);
            w.end();
        }
    }
}

#[test]
fn who_may_get_a_first_name() {
    let w = mounted(SHAPES[0], OrderingPolicy::SoftUpdates);
    let secret = w.fs.create_unnamed(&root(), &w.root, 0o600, false).unwrap();
    assert!(matches!(w.fs.link(&root(), &secret, &w.root, b"n"), Err(Error::NotFound)));
    let f = w.fs.create_unnamed(&root(), &w.root, 0o600, true).unwrap();
    assert!(matches!(w.fs.link(&root(), &f, &w.root, b".."), Err(Error::Exists)));
    w.fs.link(&root(), &f, &w.root, b"n").unwrap();
    w.fs.link(&root(), &f, &w.root, b"m").unwrap();
    for name in [b"n", b"m"] {
        w.fs.unlink(&root(), &w.root, name).unwrap();
    }
    // It had names and has lost them.
    assert!(matches!(w.fs.link(&root(), &f, &w.root, b"n"), Err(Error::NotFound)));
    let file = w.file(&w.root, "plain");
    assert!(matches!(w.fs.create_unnamed(&root(), &file, 0o600, true), Err(Error::NotDirectory)));
    let user = Cred::user(5, 5);
    assert!(matches!(w.fs.create_unnamed(&user, &w.root, 0o600, true), Err(Error::Access)));
    drop((secret, f, file));
    w.end();
}

fn flags(dev: &dyn BlockDevice) -> FsFlags {
    let read = |offset: u64, want: usize| {
        let mut bytes = vec![0; want];
        dev.read_at(offset, &mut bytes).map(|()| bytes)
    };
    ffs_ondisk::sbsearch::find(read, Some(dev.len_bytes())).unwrap().flags
}

/// `-o softdep` on a volume without the soft updates flag: the flag is set while it is mounted, so
/// that a check applies the right rules, and is cleared afterwards.
#[test]
fn soft_updates_on_a_volume_that_does_not_ask_for_them() {
    const SOFT: FsFlags = FsFlags::DOSOFTDEP.union(FsFlags::SOFTDEP_TEMPORARY);
    for shape in SHAPES {
        let dev = volume(shape, 8 << 20).with_durability(Durability::OnFlush);
        let before = flags(&dev);
        assert!(!before.intersects(SOFT));
        let w = mount_on(dev, &soft_updates());
        // No block but the superblock is written before the flag is durable.
        let mut writes = 0;
        for event in w.dev.take_events() {
            match event {
                Event::Write { .. } => writes += 1,
                Event::Flush { .. } => break,
                _ => {}
            }
        }
        assert_eq!(writes, 1);
        assert!(flags(w.dev.inner()).contains(SOFT));
        let a = w.dir(&w.root, "A");
        w.dir(&a, "B");
        w.fs.sync().unwrap();
        let work = |w: &World| {
            w.fs.rmdir(&root(), &a, b"B").unwrap();
            w.fs.rmdir(&root(), &w.root, b"A").unwrap();
            w.fs.sync().unwrap();
        };
        states(&w, work, |fs, which| {
            assert!(at(fs, "lost+found").is_err(), "{which}: a removed directory came back");
        });
        drop(a);
        // After a crash the volume is mounted with soft updates, checked, or both; in the end the
        // flag is cleared in every case.
        let crashed = w.dev.inner().snapshot();
        let again = mount_on(crashed.snapshot(), &MountOptions::default());
        assert_eq!((again.fs.is_read_only(), again.fs.ordering()), (false, "softdep"));
        again.fs.unmount().unwrap();
        assert!(flags(again.dev.inner()).contains(SOFT), "it is not checked");
        for dev in [crashed, again.dev.inner().snapshot()] {
            let dev = Arc::new(dev);
            repair(&dev).unwrap();
            assert_eq!(flags(&*dev), before);
        }
        // A remount clears the flag and sets it again.
        w.fs.remount(true).unwrap();
        assert_eq!(flags(w.dev.inner()), before);
        w.fs.remount(false).unwrap();
        assert!(flags(w.dev.inner()).contains(SOFT));
        let dev = w.dev.clone();
        w.end();
        assert_eq!(flags(dev.inner()), before);
        let w = mount_on(dev.inner().snapshot(), &MountOptions::default());
        assert_eq!(w.fs.ordering(), "sync");
        w.end();
    }
}

/// A crashed volume with this mark that is mounted without soft updates gets a full check.
#[test]
fn a_crashed_volume_keeps_its_mark_under_another_order() {
    let w = mount_on(volume(SHAPES[0], 8 << 20), &soft_updates());
    w.dir(&w.root, "d");
    w.fs.sync().unwrap();
    let crashed = w.dev.inner().snapshot();
    let sync = MountOptions { ordering: OrderingPolicy::Sync, ..MountOptions::default() };
    let w = mount_on(crashed, &sync);
    assert!(!w.fs.is_read_only());
    let now = flags(w.dev.inner());
    assert!(now.contains(FsFlags::DOSOFTDEP | FsFlags::NEEDSFSCK), "{now:?}");
    w.fs.unmount().unwrap();
}

fn set_superblock(dev: &MemDevice, change: impl FnOnce(&mut Superblock)) {
    let read = |offset: u64, want: usize| {
        let mut bytes = vec![0; want];
        dev.read_at(offset, &mut bytes).map(|()| bytes)
    };
    let mut sb = ffs_ondisk::sbsearch::find(read, Some(dev.len_bytes())).unwrap().sb;
    change(&mut sb);
    dev.write_at(sb.location, &sb.encode()).unwrap();
}

/// Another system's check marks the volume clean and leaves the mark: the next unmount clears it.
#[test]
fn a_mark_that_another_check_leaves_goes_with_the_next_unmounting() {
    for shape in SHAPES {
        let dev = volume(shape, 8 << 20);
        let before = flags(&dev);
        let mark = FsFlags::DOSOFTDEP | FsFlags::SOFTDEP_TEMPORARY;
        set_superblock(&dev, |sb| sb.set_flags(sb.flags() | mark));
        let w = mount_on(dev, &MountOptions::default());
        w.dir(&w.root, "d");
        let dev = w.dev.clone();
        w.end();
        assert_eq!(flags(dev.inner()), before);
    }
}

/// A volume with the soft updates flag is marked as in need of a check while it is mounted without
/// soft updates, and only then.
#[test]
fn without_soft_updates_a_volume_that_asks_for_them_needs_a_check_while_it_is_mounted() {
    for ordering in [OrderingPolicy::Sync, OrderingPolicy::None] {
        let w = mount_on(
            soft_volume(SHAPES[0], 8 << 20),
            &MountOptions { ordering, ..MountOptions::default() },
        );
        assert!(flags(w.dev.inner()).contains(FsFlags::DOSOFTDEP | FsFlags::NEEDSFSCK));
        w.dir(&w.root, "d");
        let crashed = mount_on(w.dev.inner().snapshot(), &MountOptions::default());
        assert!(crashed.fs.read_only_reason().is_some_and(|why| why.contains("ffs fsck")));
        let dev = w.dev.clone();
        w.end();
        assert!(flags(dev.inner()).contains(FsFlags::DOSOFTDEP));
        assert!(!flags(dev.inner()).contains(FsFlags::NEEDSFSCK), "{ordering:?}");
    }
}

/// A record whose name never reached the device is changed to name another file, and is then
/// cleared. Work that depended on the first name does not wait for it any more. (It waited for
/// ever: neither `sync` nor unmount ended.)
#[test]
fn what_follows_from_a_name_that_was_never_seen_is_done() {
    let rename = |w: &World, from: &str, to: &str, how| {
        let parts = |path: &str| match path.rsplit_once('/') {
            Some((dir, name)) => (at(&w.fs, dir).unwrap(), name.as_bytes().to_vec()),
            None => (w.fs.root().unwrap(), path.as_bytes().to_vec()),
        };
        let ((a, from), (b, to)) = (parts(from), parts(to));
        w.fs.rename(&root(), (&a, &from), (&b, &to), how).unwrap();
    };
    let whiteout = RenameMode::Whiteout { replace: true };
    let w = mounted(SHAPES[0], OrderingPolicy::SoftUpdates);
    let p = w.dir(&w.root, "p");
    w.dir(&w.root, "q");
    w.dir(&p, "a");
    w.dir(&p, "b");
    rename(&w, "p/a", "a", whiteout);
    rename(&w, "p/b", "a", whiteout);
    rename(&w, "p/a", "q/a", RenameMode::Replace);
    w.fs.sync().unwrap();
    drop(p);
    w.end();

    let w = mounted(SHAPES[0], OrderingPolicy::SoftUpdates);
    let q = w.dir(&w.root, "q");
    w.dir(&w.root, "c");
    w.dir(&q, "a");
    rename(&w, "c", "q/a", RenameMode::Exchange);
    w.pass(38);
    w.fs.rmdir(&root(), &q, b"a").unwrap();
    w.fs.sync().unwrap();
    drop(q);
    w.end();
}
