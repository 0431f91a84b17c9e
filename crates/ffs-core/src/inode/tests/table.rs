//! Users, recycling and freeing of inodes.

use super::*;
use crate::Error;
use std::time::Duration;

const SHAPE: Shape = (Format::Ufs2, Endian::Little, 4096, 8);

#[test]
fn a_file_without_links_lives_until_its_last_user_leaves() {
    for shape in SHAPES {
        let b = Bench::new(shape, 24 << 20);
        let before = b.t.ump.alloc.totals();
        let ip = b.nameless(REGULAR);
        let gen1 = ip.read().d.generation;
        b.write(&ip, 0, &vec![9; 20 * shape.2 as usize + 5]).unwrap();
        if shape.0 == Format::Ufs2 {
            let name = (crate::types::XattrNamespace::User, &b"k"[..]);
            let how = crate::types::XattrSet::Any;
            b.lock(&ip).xattr_set(name, b"v", how, Reserve::Allowed).unwrap();
        }
        b.t.hold(&ip);
        ip.write().d.nlink = 0;
        b.t.release(&ip).unwrap();
        assert_eq!(b.all(&ip).len(), 20 * shape.2 as usize + 5, "one user is left");
        b.t.release(&ip).unwrap();
        assert!(!ip.read().alive());
        assert_eq!(b.t.ump.alloc.totals(), before);
        assert!(matches!(b.t.get(ip.ino), Err(Error::Stale)));
        b.check("freed");
        let on_disk = b.on_device(ip.ino);
        assert_eq!(on_disk, Dinode { generation: gen1, ..Dinode::default() });
        let next = b.nameless(REGULAR);
        assert_eq!(next.ino, ip.ino, "the number is used again");
        assert_ne!(next.read().d.generation, gen1);
        next.write().d.nlink = 0;
        b.t.release(&next).unwrap();
        assert_eq!(b.t.ump.alloc.totals(), before);
    }
}

#[test]
fn purge_frees_what_is_still_held() {
    let b = Bench::new(SHAPE, 16 << 20);
    let before = b.t.ump.alloc.totals();
    let held: Vec<_> = (0..5).map(|_| b.nameless(REGULAR)).collect();
    for ip in &held {
        b.write(ip, 100_000, b"deep").unwrap();
        ip.write().d.nlink = 0;
    }
    let kept = b.file("kept");
    b.t.purge().unwrap();
    assert_eq!(b.t.ump.alloc.totals().nbfree, before.nbfree);
    assert!(held.iter().all(|ip| !ip.read().alive()) && kept.read().alive());
    // The users are removed later.
    for ip in &held {
        b.t.release(ip).unwrap();
    }
    b.check("purged");
}

#[test]
fn the_longest_unused_inodes_are_dropped_and_their_access_times_kept() {
    let dev = volume(SHAPE, 16 << 20);
    let b = Bench::with(dev, 64 << 20, 4, Atime::Always);
    let files: Vec<_> = (0..12).map(|i| b.file(&format!("f{i}"))).collect();
    for ip in &files {
        b.write(ip, 0, b"content").unwrap();
    }
    assert!(files.iter().all(|ip| Arc::ptr_eq(ip, &b.t.get(ip.ino).unwrap())), "all are in use");
    b.clock.advance(Duration::from_secs(1000));
    let inos: Vec<Ino> = files.iter().map(|ip| ip.ino).collect();
    for ip in files {
        b.read(&ip, 0, 3).unwrap();
        b.t.release(&ip).unwrap();
    }
    assert!(b.counters().inodes_recycled >= 4);
    let loaded = b.counters().inodes_loaded;
    let last = b.t.get(inos[11]).unwrap();
    assert_eq!(b.counters().inodes_loaded, loaded, "the youngest is still there");
    drop(last);
    for ino in &inos {
        let ip = b.t.get(*ino).unwrap();
        assert_eq!(ip.read().atime().secs, 1_700_001_000);
        assert_eq!(b.all(&ip), b"content");
    }
    assert!(b.counters().inodes_loaded > loaded);
    b.check("recycled");
    assert!(inos.iter().all(|ino| b.on_device(*ino).atime.secs == 1_700_001_000));
}

#[test]
fn access_times_follow_the_policy() {
    for (policy, first, young, old) in [
        (Atime::Never, 0, 0, 0),
        (Atime::Relative, 10, 10, 90_000),
        (Atime::Always, 10, 20, 90_000),
    ] {
        let b = Bench::with(volume(SHAPE, 16 << 20), 64 << 20, 9, policy);
        let ip = b.file("a");
        b.write(&ip, 0, b"x").unwrap();
        let at = |secs: i64| {
            b.clock.set(Timestamp::new(1_700_000_000 + secs, 0));
            b.read(&ip, 0, 1).unwrap();
            ip.read().atime().secs - 1_700_000_000
        };
        assert_eq!([at(10), at(20), at(90_000)], [first, young, old], "{policy:?}");
        let attr = b.view(&ip, &ip.read()).attr();
        assert_eq!(attr.atime.secs - 1_700_000_000, old);
        ip.write().set_atime(ffs_ondisk::Timespec { secs: -5, nsec: 7 });
        assert_eq!(b.view(&ip, &ip.read()).attr().atime.secs, -5);
    }
}

#[test]
fn many_threads_get_one_inode_each() {
    let b = Bench::with(volume(SHAPE, 16 << 20), 64 << 20, 3, Atime::Always);
    let inos: Vec<Ino> = (0..16)
        .map(|i| {
            let ip = b.file(&format!("f{i}"));
            b.write(&ip, 0, &[0; 8]).unwrap();
            b.t.release(&ip).unwrap();
            ip.ino
        })
        .collect();
    std::thread::scope(|s| {
        for worker in 0..4u64 {
            let (b, inos) = (&b, &inos);
            s.spawn(move || {
                let mut numbers = ffs_testkit::rng::SplitMix64::new(worker);
                for _ in 0..2000 {
                    let ip = b.t.get(inos[numbers.below(16) as usize]).unwrap();
                    b.t.hold(&ip);
                    {
                        // A lost update changes the sum.
                        let mut inode = b.lock(&ip);
                        let mut n = [0; 8];
                        inode.view().read_at(0, &mut n).unwrap();
                        let n = (u64::from_le_bytes(n) + 1).to_le_bytes();
                        inode.write_at(0, &mut &n[..], Reserve::Denied).unwrap();
                        inode.d.uid += 1;
                        inode.update(InodeChange::Attr).unwrap();
                    }
                    b.t.release(&ip).unwrap();
                }
            });
        }
    });
    let mut sums = [0, 0];
    for ino in inos {
        let ip = b.t.get(ino).unwrap();
        let content = b.all(&ip);
        sums[0] += u64::from_le_bytes(content.try_into().unwrap());
        sums[1] += u64::from(ip.read().d.uid) - 10;
    }
    assert_eq!(sums, [8000, 8000]);
    b.check("threads");
}

#[test]
fn a_late_access_time_does_not_touch_the_numbers_next_file() {
    let b = Bench::new(SHAPE, 16 << 20);
    let old = b.nameless(REGULAR);
    b.write(&old, 0, b"old").unwrap();
    b.read(&old, 0, 3).unwrap();
    let locked = old.write();
    // The call does not wait for the lock, which this thread holds.
    b.t.carry_access(&old);
    assert!(locked.times_noted());
    drop(locked);
    // The file is freed before its access time is copied, and its number is used again.
    old.write().d.nlink = 0;
    b.t.release(&old).unwrap();
    let new = b.file("new");
    assert_eq!(new.ino, old.ino);
    b.write(&new, 0, b"new").unwrap();
    old.read().accessed.store(5, std::sync::atomic::Ordering::Relaxed);
    b.t.carry_access(&old);
    b.check("carried");
    assert_eq!(b.on_device(new.ino).size, 3);
}

#[test]
fn memory_of_freed_files_is_used_again_and_given_back() {
    let b = Bench::new(SHAPE, 16 << 20);
    let memory = || {
        let gauges = b.t.gauges();
        gauges.iter().find(|g| g.name == "vfs.ffs.vnode_mem").map_or(0, |g| g.value)
    };
    let free = |ip: &Arc<Inode>| {
        ip.write().d.nlink = 0;
        b.t.release(ip).unwrap();
    };
    let (kept, removed) = (b.nameless(REGULAR), b.nameless(REGULAR));
    let place = Arc::as_ptr(&removed);
    let full = memory();
    free(&removed);
    // The freed file has a reference, so its memory is not used for another file.
    let other = b.nameless(REGULAR);
    assert_ne!(Arc::as_ptr(&other), place);
    assert!(!removed.read().alive() && other.read().alive());
    free(&other);
    let place = Arc::as_ptr(&other);
    drop(other);
    assert_eq!(memory(), full, "kept for the next");
    let next = b.nameless(REGULAR);
    assert_eq!(Arc::as_ptr(&next), place);
    assert!(next.read().alive() && next.is_in_memory() && kept.is_in_memory());
    free(&next);
    drop(next);
    b.t.low_memory();
    assert!(memory() < full, "given back");
    free(&kept);
}
