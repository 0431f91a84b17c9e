//! Soft updates on a mounted volume: when blocks are written, what is durable when a call returns,
//! when space is free, and which volumes may be mounted.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

use crate::common::{START, Shape, World, mount_on, soft_updates, soft_volume, volume};
use ffs_core::{Cred, Env, Error, Ffs, MountOptions, NodeKind, OrderingPolicy, Vnode, WriteMode};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::fault::{Fault, FaultInjector, Rule};
use ffs_device::{BlockDevice, MemDevice, Operation};
use ffs_ondisk::{Endian, Format};
use std::sync::Arc;

const EIO: i32 = 5;

fn shape(format: Format) -> Shape {
    (Endian::Little, format, 8192, 1024)
}

fn plain(format: Format) -> MemDevice {
    volume(shape(format), 8 << 20)
}

fn world(format: Format) -> World {
    mount_on(plain(format), &soft_updates())
}

fn put(w: &World, name: &str, content: &[u8]) -> Vnode {
    let v = w.file(&w.root, name);
    if !content.is_empty() {
        let n = w.fs.write(&Cred::root(), &v, 0, content, WriteMode::default()).unwrap();
        assert_eq!(n, content.len());
    }
    v
}

/// The volume after a power cut at this moment.
fn crashed(w: &World) -> MemDevice {
    w.dev.inner().snapshot()
}

fn check(dev: MemDevice) {
    let dev: Arc<dyn BlockDevice> = Arc::new(dev);
    let findings = ffs_admin::fsck::quick_check(&dev);
    assert!(findings.is_empty(), "{findings:?}");
}

fn found(dev: MemDevice, path: &[&str]) -> Option<Vec<u8>> {
    let clock = Arc::new(ManualClock::new(Timestamp::new(START, 0)));
    let opts = MountOptions { read_only: true, ..soft_updates() };
    let fs = Ffs::mount(Arc::new(dev), &opts, Env::seeded(clock, 1)).unwrap();
    let mut v = fs.root().unwrap();
    for name in path {
        v = match fs.lookup(&Cred::root(), &v, name.as_bytes()) {
            Ok(v) => v,
            Err(Error::NotFound) => return None,
            Err(e) => panic!("{name}: {e}"),
        };
    }
    let mut content = vec![0; fs.getattr(&v).size as usize];
    if !path.is_empty() && fs.read(&v, 0, &mut content).is_err() {
        content.clear();
    }
    Some(content)
}

const FORMATS: [Format; 2] = [Format::Ufs1, Format::Ufs2];

#[test]
fn unmounting_leaves_a_clean_volume_with_everything_done() {
    for format in FORMATS {
        let w = world(format);
        let free = w.fs.statfs().frags_free;
        let a = w.dir(&w.root, "a");
        for i in 0..200 {
            drop(w.file(&a, &format!("f{i}")));
        }
        drop(put(&w, "big", &vec![3; 300_000]));
        w.fs.sync().unwrap();
        for i in 0..200 {
            w.fs.unlink(&Cred::root(), &a, format!("f{i}").as_bytes()).unwrap();
        }
        w.fs.rmdir(&Cred::root(), &w.root, b"a").unwrap();
        w.fs.unlink(&Cred::root(), &w.root, b"big").unwrap();
        drop(a);
        w.fs.sync().unwrap();
        assert_eq!(w.fs.statfs().frags_free, free, "{format:?}");
        w.fs.unmount().unwrap();
        let dev = crashed(&w);
        check(dev);
    }
}

#[test]
fn a_file_is_found_after_fsync_with_every_directory_above_it() {
    for format in FORMATS {
        let w = world(format);
        let (a, c) = (w.dir(&w.root, "a"), Cred::root());
        let b = w.dir(&a, "b");
        let v = w.file(&b, "f");
        w.fs.write(&c, &v, 0, &[7; 200_000], WriteMode::default()).unwrap();
        assert_eq!(found(crashed(&w), &["a"]), None, "{format:?}: written early");
        let before = w.fs.counters();
        w.fs.fdatasync(&v).unwrap();
        let after = w.fs.counters();
        let passes = after.passes - before.passes;
        assert!(passes <= 5, "{format:?}: {passes} passes");
        assert!(found(crashed(&w), &["a", "b", "f"]) == Some(vec![7; 200_000]), "{format:?}");
        w.file(&b, "g");
        w.fs.fsync(&b).unwrap();
        assert_eq!(found(crashed(&w), &["a", "b", "g"]), Some(Vec::new()));
    }
}

#[test]
fn content_removed_within_the_delay_is_never_written() {
    for format in FORMATS {
        let w = world(format);
        w.fs.sync().unwrap();
        let before = w.fs.counters();
        for round in 0..3 {
            for i in 0..50 {
                drop(put(&w, &format!("f{i}"), &[round; 3000]));
            }
            w.pass(5);
            for i in 0..50 {
                w.fs.unlink(&Cred::root(), &w.root, format!("f{i}").as_bytes()).unwrap();
            }
        }
        let written = w.fs.counters().writes_data - before.writes_data;
        assert_eq!(written, 0, "{format:?}: content of removed files");
        w.pass(40);
        let written = w.fs.counters().writes_data - before.writes_data;
        assert_eq!(written, 0, "{format:?}: content of removed files, late");
    }
}

#[test]
fn ticks_write_old_buffers_and_roll_nothing_back() {
    for format in FORMATS {
        let w = world(format);
        w.fs.sync().unwrap();
        let start = w.fs.counters();
        w.pass(1);
        drop(put(&w, "f", &[9; 5000]));
        w.pass(27);
        assert_eq!(w.fs.counters().writes_delayed, start.writes_delayed, "{format:?}: early");
        w.pass(7);
        assert!(found(crashed(&w), &["f"]) == Some(vec![9; 5000]), "{format:?}");
        assert_eq!(w.fs.counters().writes_rolled_back, start.writes_rolled_back, "{format:?}");
    }
}

#[test]
fn names_reach_the_device_while_files_are_created() {
    for format in FORMATS {
        let w = world(format);
        for second in 0..100 {
            let dir = w.dir(&w.root, &format!("d{second}"));
            for i in 0..6 {
                drop(w.file(&dir, &format!("f{i}")));
            }
            drop(dir);
            w.pass(1);
        }
        let there = |n: usize| found(crashed(&w), &[&format!("d{n}"), "f0"]).is_some();
        let first_missing = (0..100).find(|&n| !there(n)).unwrap_or(100);
        let age = 100 - first_missing;
        assert!(age <= 60, "{format:?}: a name {age} s old is not durable");
    }
}

#[test]
fn a_full_volume_frees_removed_files_before_it_fails() {
    for format in FORMATS {
        let w = world(format);
        let (c, part) = (Cred::root(), vec![5u8; 1 << 20]);
        let mut names = Vec::new();
        'fill: for i in 0.. {
            let name = format!("f{i}");
            let v = w.file(&w.root, &name);
            names.push(name);
            let mut off = 0;
            loop {
                match w.fs.write(&c, &v, off, &part, WriteMode::default()) {
                    Ok(n) => off += n as u64,
                    Err(Error::NoSpace) => break 'fill,
                    Err(e) => panic!("{e}"),
                }
                if off >= 2 << 20 {
                    break;
                }
            }
        }
        w.fs.sync().unwrap();
        let full = w.fs.statfs().frags_free;
        for name in &names {
            w.fs.unlink(&c, &w.root, name.as_bytes()).unwrap();
        }
        assert!(w.fs.statfs().frags_free > full + 4096, "{format:?}: statfs counts it");
        let v = w.file(&w.root, "again");
        let n = w.fs.write(&c, &v, 0, &vec![6; 5 << 20], WriteMode::default()).unwrap();
        assert_eq!(n, 5 << 20, "{format:?}");
        assert!(w.fs.counters().space_requests > 0);
        drop(v);
        w.fs.unmount().unwrap();
        check(crashed(&w));
    }
}

fn sysctl(w: &World, name: &str) -> u64 {
    let all = w.fs.sysctl();
    all.iter().find(|row| row.name == name).unwrap().value.parse().unwrap()
}

/// The number of changes that are not durable.
fn pending(w: &World) -> u64 {
    sysctl(w, "debug.softdep.total_records")
}

#[test]
fn pending_changes_stay_below_max_softdeps() {
    let mut opts = soft_updates();
    opts.tunables.set("max_softdeps", Some("200")).unwrap();
    let w = mount_on(plain(Format::Ufs2), &opts);
    let gauge = || pending(&w);
    for i in 0..400 {
        drop(w.file(&w.root, &format!("f{i}")));
        assert!(gauge() <= 240, "{}", gauge());
    }
    w.fs.sync().unwrap();
    for i in 0..400 {
        w.fs.unlink(&Cred::root(), &w.root, format!("f{i}").as_bytes()).unwrap();
        assert!(gauge() <= 240, "{}", gauge());
    }
    assert!(w.fs.counters().softdep_waits > 0);
    w.fs.sync().unwrap();
    assert_eq!(gauge(), 0);
}

#[test]
fn names_are_durable_on_return_with_stable() {
    let c = Cred::root();
    let w = mount_on(plain(Format::Ufs2), &MountOptions { stable: true, ..soft_updates() });
    let d = w.dir(&w.root, "d");
    assert!(found(crashed(&w), &["d"]).is_some());
    let v = w.file(&d, "f");
    assert!(found(crashed(&w), &["d", "f"]).is_some());
    w.fs.link(&c, &v, &w.root, b"g").unwrap();
    assert!(found(crashed(&w), &["g"]).is_some());
    w.fs.rename(&c, (&d, b"f"), (&w.root, b"h"), ffs_core::RenameMode::Replace).unwrap();
    assert!(found(crashed(&w), &["h"]).is_some() && found(crashed(&w), &["d", "f"]).is_none());
    w.fs.unlink(&c, &w.root, b"g").unwrap();
    assert!(found(crashed(&w), &["g"]).is_none());
    w.fs.rmdir(&c, &w.root, b"d").unwrap();
    assert!(found(crashed(&w), &["d"]).is_none());
}

#[test]
fn fsync_reports_device_errors_until_the_device_recovers() {
    let disk = Arc::new(FaultInjector::new(plain(Format::Ufs2), Vec::new()));
    let fs = Ffs::mount(disk.clone(), &soft_updates(), Env::system()).unwrap();
    let (c, root) = (Cred::root(), fs.root().unwrap());
    let v = fs.create(&c, &root, b"f", NodeKind::Regular, 0o644).unwrap();
    fs.write(&c, &v, 0, &[1; 20_000], WriteMode::default()).unwrap();
    disk.add(Rule::new(Operation::Write, Fault::Errno(EIO)));
    for _ in 0..3 {
        assert_eq!(fs.fsync(&v).unwrap_err().errno(), EIO);
        assert_eq!(fs.sync().unwrap_err().errno(), EIO);
    }
    disk.heal();
    fs.fsync(&v).unwrap();
    assert!(found(disk.inner().snapshot(), &["f"]) == Some(vec![1; 20_000]));
    fs.unlink(&c, &root, b"f").unwrap();
    drop(v);
    fs.unmount().unwrap();
}

/// A volume whose superblock selects soft updates.
fn selecting(format: Format) -> MemDevice {
    soft_volume(shape(format), 8 << 20)
}

#[test]
fn the_superblock_selects_softdep_and_a_crash_needs_no_check() {
    for format in FORMATS {
        let auto = MountOptions::default();
        let plain_volume = mount_on(plain(format), &auto);
        assert_eq!(plain_volume.fs.ordering(), "sync");
        let w = mount_on(selecting(format), &auto);
        assert_eq!(w.fs.ordering(), "softdep");
        let v = put(&w, "kept", &[4; 9000]);
        w.fs.fsync(&v).unwrap();
        drop(put(&w, "lost", &[5; 9000]));
        let again = mount_on(crashed(&w), &auto);
        assert!(!again.fs.is_read_only() && again.fs.unchecked().is_some(), "{format:?}");
        drop(put(&again, "more", &[6; 9000]));
        again.fs.unmount().unwrap();
        let third = mount_on(crashed(&again), &auto);
        assert!(third.fs.unchecked().is_some(), "{format:?}: it was not checked");
        let under_sync = MountOptions { ordering: OrderingPolicy::Sync, ..auto.clone() };
        let fourth = mount_on(crashed(&w), &under_sync);
        drop(put(&fourth, "more", &[6; 9000]));
        let fifth = mount_on(crashed(&fourth), &auto);
        assert!(fifth.fs.is_read_only(), "{format:?}: sync may leave inconsistencies");
        let under_async = MountOptions { ordering: OrderingPolicy::Async, ..auto };
        assert_eq!(mount_on(selecting(format), &under_async).fs.ordering(), "softdep");
        assert_eq!(mount_on(plain(format), &under_async).fs.ordering(), "none");
    }
}

#[test]
fn a_removed_file_in_use_is_read_to_the_end() {
    for format in FORMATS {
        let w = world(format);
        let v = put(&w, "f", &[8; 50_000]);
        w.fs.sync().unwrap();
        w.fs.unlink(&Cred::root(), &w.root, b"f").unwrap();
        let ino = v.ino();
        w.fs.sync().unwrap();
        let mut content = vec![0; 50_000];
        assert_eq!(w.fs.read(&v, 0, &mut content).unwrap(), 50_000);
        assert!(content.iter().all(|b| *b == 8));
        let free = w.fs.statfs().inodes_free;
        drop(v);
        assert!(matches!(w.fs.vget(ino, None), Err(Error::Stale)));
        w.fs.sync().unwrap();
        assert_eq!(w.fs.statfs().inodes_free, free + 1, "{format:?}");
        w.file(&w.root, "g");
        w.fs.sync().unwrap();
        w.fs.unlink(&Cred::root(), &w.root, b"g").unwrap();
        assert!(matches!(w.fs.vget(ino, None), Err(Error::Stale)), "removed, not yet free");
        w.fs.unmount().unwrap();
    }
}

/// A name is entered and another is removed in one directory, and their inodes are in one block.
/// The first needs the inode block before the directory block, the second the reverse
/// (`spec/soft-updates.md` §2.2).
#[test]
fn blocks_in_a_cycle_have_changes_without_one() {
    for format in FORMATS {
        let w = world(format);
        drop(w.file(&w.root, "y"));
        let writes = w.writes_of(|w| {
            drop(w.file(&w.root, "x"));
            w.fs.unlink(&Cred::root(), &w.root, b"y").unwrap();
            w.fs.sync().unwrap();
        });
        let of = |kind: char| writes.chars().filter(|c| *c == kind).count();
        // The inodes with x and the links of y; both names; then y is free.
        assert_eq!((of('d'), of('i')), (1, 2), "{writes}");
        check(unmounted(w));
    }
}

fn unmounted(w: World) -> MemDevice {
    let World { fs, root, dev, .. } = w;
    drop(root);
    fs.unmount().unwrap();
    dev.inner().snapshot()
}

/// Several threads create and remove many more files than `max_softdeps` allows pending changes, on
/// a volume that they would fill: no thread waits forever, and all space is free at the end.
#[test]
fn tiny_limits_and_a_small_volume_cause_no_deadlock() {
    const THREADS: u64 = 4;
    const FILES: u64 = 2500;
    for format in FORMATS {
        let mut opts = soft_updates();
        opts.tunables.set("max_softdeps", Some("100")).unwrap();
        let w = mount_on(plain(format), &opts);
        w.fs.sync().unwrap();
        let before = w.fs.statfs();
        let content = [7; 20_000];
        let work = |thread: u64| {
            let dir = w.dir(&w.root, &format!("d{thread}"));
            for i in 0..FILES {
                let name = format!("f{i}");
                let v = w.file(&dir, &name);
                if i % 16 == 0 {
                    w.fs.write(&Cred::root(), &v, 0, &content, WriteMode::default()).unwrap();
                }
                drop(v);
                // The last few stay for a while.
                if let Some(old) = i.checked_sub(20) {
                    w.fs.unlink(&Cred::root(), &dir, format!("f{old}").as_bytes()).unwrap();
                }
                assert!(pending(&w) <= 100 + 40 * THREADS);
            }
            for i in FILES - 20..FILES {
                w.fs.unlink(&Cred::root(), &dir, format!("f{i}").as_bytes()).unwrap();
            }
            drop(dir);
            w.fs.rmdir(&Cred::root(), &w.root, format!("d{thread}").as_bytes()).unwrap();
        };
        std::thread::scope(|s| {
            for thread in 0..THREADS {
                let work = &work;
                s.spawn(move || work(thread));
            }
        });
        w.fs.sync().unwrap();
        let after = w.fs.statfs();
        assert_eq!((after.frags_free, after.inodes_free), (before.frags_free, before.inodes_free));
        assert!(w.fs.counters().softdep_waits > 0);
        check(unmounted(w));
    }
}

/// The records of old names are reserved until the new names are durable, and free from then on. So
/// a directory does not grow if all its names change repeatedly, with a hash index or without.
#[test]
fn repeated_renames_do_not_grow_a_directory() {
    let c = Cred::root();
    for files in [40, 500] {
        let w = world(Format::Ufs2);
        let dir = w.dir(&w.root, "d");
        let name = |round: usize, i: usize| format!("name-{i:04}-{round:02}");
        (0..files).for_each(|i| drop(w.file(&dir, &name(0, i))));
        w.fs.sync().unwrap();
        let size = w.fs.getattr(&dir).size;
        for round in 1..=10 {
            for i in 0..files {
                let (from, to) = (name(round - 1, i), name(round, i));
                let (from, to) = ((&dir, from.as_bytes()), (&dir, to.as_bytes()));
                w.fs.rename(&c, from, to, ffs_core::RenameMode::Replace).unwrap();
            }
            w.fs.sync().unwrap();
        }
        let now = w.fs.getattr(&dir).size;
        assert!(now <= 3 * size, "{files} files: {size} bytes, then {now}");
        assert_eq!(w.names(&dir).len(), files);
        drop(dir);
        check(unmounted(w));
    }
}

/// Every chunk of a directory has a reserved record, and the volume has no block by which the
/// directory could grow. A new name waits until the reserved records are free.
#[test]
fn a_new_name_waits_for_reserved_records_on_a_full_volume() {
    let c = Cred::root();
    let w = world(Format::Ufs2);
    let dir = w.dir(&w.root, "d");
    let name = |i: usize| format!("name-{i:03}-{}", "x".repeat(40));
    // Eight names of 60 bytes leave no space for another one in a chunk.
    (0..128).for_each(|i| drop(w.file(&dir, &name(i))));
    let size = w.fs.getattr(&dir).size;
    assert_eq!(size, 8192);
    (0..128).step_by(8).for_each(|i| w.fs.unlink(&c, &dir, name(i).as_bytes()).unwrap());
    let large = w.file(&w.root, "large");
    let full = (0..)
        .find_map(|n| w.fs.write(&c, &large, n * 1024, &[1; 1024], WriteMode::default()).err());
    assert!(matches!(full, Some(Error::NoSpace)));
    // Single fragments are left.
    let rest = (0..).find_map(|n| {
        let v = w.fs.create(&c, &w.root, format!("s{n}").as_bytes(), NodeKind::Regular, 0o644);
        v.and_then(|v| w.fs.write(&c, &v, 0, &[1; 1024], WriteMode::default())).err()
    });
    assert!(matches!(rest, Some(Error::NoSpace)));
    w.fs.sync().unwrap();
    // The new names are longer than the old ones, which stay.
    for i in (1..128).step_by(8) {
        let (from, to) = (name(i), format!("{}y", name(i)));
        let (from, to) = ((&dir, from.as_bytes()), (&dir, to.as_bytes()));
        w.fs.rename(&c, from, to, ffs_core::RenameMode::Replace).unwrap();
    }
    drop(w.file(&dir, &name(0)));
    assert_eq!(w.fs.getattr(&dir).size, size);
    drop((dir, large));
    check(unmounted(w));
}

/// A reserved record becomes free after the last change in its directory, and then the directory is
/// removed: the engine keeps no memory for it.
#[test]
fn a_removed_directory_leaves_no_memory_in_use() {
    let (c, w) = (Cred::root(), world(Format::Ufs2));
    let other = w.dir(&w.root, "other");
    let mut left = Vec::new();
    for round in 0..8 {
        drop(w.file(&w.dir(&w.root, "d"), "f"));
        w.fs.sync().unwrap();
        let (d, to) = (w.get(&w.root, "d").unwrap(), format!("f{round}"));
        let (from, to) = ((&d, &b"f"[..]), (&other, to.as_bytes()));
        w.fs.rename(&c, from, to, ffs_core::RenameMode::Replace).unwrap();
        w.fs.sync().unwrap();
        drop(d);
        w.fs.rmdir(&c, &w.root, b"d").unwrap();
        w.fs.sync().unwrap();
        left.push(sysctl(&w, "debug.softdep.mem"));
    }
    assert_eq!(left[1], left[7], "{left:?}");
    drop(other);
    check(unmounted(w));
}
