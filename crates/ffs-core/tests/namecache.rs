//! The name cache and the inode cache through the public interface; counters show where a result
//! came from.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use crate::common;
use crate::common::{World, errno, mount_on};
use ffs_core::{CounterValues, Cred, Env, Ffs, MountOptions, NamecachePrime, NodeKind};
use ffs_core::{Limit, OrderingPolicy, RenameMode, TunableValues, Vnode, WriteMode};
use ffs_device::Operation;
use ffs_device::fault::{EIO, Fault, FaultInjector, Rule};
use ffs_ondisk::{Endian, Format};
use std::sync::Arc;

const ENOENT: i32 = 2;

fn mounted(tunables: TunableValues) -> World {
    let mem = ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 8192, 1024, 24 << 20).unwrap();
    let opts = MountOptions { ordering: OrderingPolicy::None, tunables, ..MountOptions::default() };
    mount_on(mem, &opts)
}

fn primed(prime: NamecachePrime) -> World {
    mounted(TunableValues { namecache_prime: prime, ..TunableValues::default() })
}

fn gauge(w: &World, name: &str) -> u64 {
    w.fs.gauges().iter().find(|g| g.name == name).unwrap().value
}

/// The increases: misses, misszaps, poszaps, poshits, negzaps, neghits.
fn counts(w: &World, before: &CounterValues) -> [u64; 6] {
    let c = w.fs.counters();
    [
        c.cache_nummiss - before.cache_nummiss,
        c.cache_nummisszap - before.cache_nummisszap,
        c.cache_numposzaps - before.cache_numposzaps,
        c.cache_numposhits - before.cache_numposhits,
        c.cache_numnegzaps - before.cache_numnegzaps,
        c.cache_numneghits - before.cache_numneghits,
    ]
}

fn during(w: &World, op: impl FnOnce()) -> [u64; 6] {
    let before = w.fs.counters();
    op();
    counts(w, &before)
}

/// Buffer lookups, and inodes loaded.
fn work(w: &World) -> [u64; 4] {
    let c = w.fs.counters();
    [c.buf_hits, c.buf_misses, c.dir_bytes_scanned, c.inodes_loaded]
}

/// Whether a lookup of `name` reads neither directory nor disk.
fn is_cached(w: &World, dir: &Vnode, name: &str) -> bool {
    let before = work(w);
    let _ = w.get(dir, name);
    work(w) == before
}

/// Enters enough names to allow negative entries.
fn fill(w: &World, dir: &Vnode, n: usize) {
    for i in 0..n {
        drop(w.file(dir, &format!("fill{i}")));
        w.get(dir, &format!("fill{i}")).unwrap();
    }
}

#[test]
fn operations_keep_to_the_rules() {
    let w = primed(NamecachePrime::Off);
    let (cred, d) = (Cred::root(), w.dir(&w.root, "d"));
    fill(&w, &d, 40);
    let look = |name: &str| during(&w, || drop(w.get(&d, name)));
    assert_eq!(during(&w, || drop(w.file(&d, "f"))), [0, 1, 0, 0, 0, 0], "create");
    assert_eq!(look("f"), [1, 0, 0, 0, 0, 0], "created names are not kept");
    assert_eq!(look("f"), [0, 0, 0, 1, 0, 0]);
    assert!(is_cached(&w, &d, "f"));
    let unlink = || w.fs.unlink(&cred, &d, b"f").unwrap();
    assert_eq!(during(&w, unlink), [0, 0, 1, 0, 0, 0], "unlink of a kept name");
    assert_eq!(look("f"), [1, 0, 0, 0, 0, 0]);
    assert_eq!(look("f"), [0, 0, 0, 0, 0, 1], "absences are kept");
    assert!(is_cached(&w, &d, "f"));
    assert_eq!(during(&w, || drop(w.file(&d, "f"))), [0, 0, 0, 0, 1, 0], "create after one");
    // A failed operation searches the directory as well.
    look("f");
    let again = || drop(w.fs.create(&cred, &d, b"f", NodeKind::Regular, 0o600).unwrap_err());
    assert_eq!(during(&w, again), [0, 0, 1, 0, 0, 0], "create of an existing name");
    look("f");
    look("g");
    let rename = || w.fs.rename(&cred, (&d, b"f"), (&d, b"g"), RenameMode::Replace).unwrap();
    assert_eq!(during(&w, rename), [0, 0, 1, 0, 1, 0], "rename to a known absence");
    assert_eq!([look("f"), look("g")], [[1, 0, 0, 0, 0, 0]; 2]);
    let dot = w.fs.counters();
    assert_eq!(w.get(&d, ".").unwrap().ino(), d.ino());
    assert_eq!(w.fs.counters().cache_dothits, dot.cache_dothits + 1);
    assert_eq!(w.fs.counters().cache_numcalls(), dot.cache_numcalls() + 1);
    drop(d);
    w.end();
}

#[test]
fn dotdot_is_remembered_and_follows_a_move() {
    for prime in NamecachePrime::ALL {
        let w = primed(*prime);
        let (cred, a, b) = (Cred::root(), w.dir(&w.root, "a"), w.dir(&w.root, "b"));
        let c = w.dir(&a, "c");
        let up = || w.get(&c, "..").unwrap().ino();
        assert_eq!((up(), up()), (a.ino(), a.ino()));
        let hits = w.fs.counters().cache_dotdothits;
        assert!(hits > 0 && is_cached(&w, &c, ".."));
        w.fs.rename(&cred, (&a, b"c"), (&b, b"c"), RenameMode::Replace).unwrap();
        assert_eq!((up(), up()), (b.ino(), b.ino()), "{prime:?}");
        let e = w.dir(&a, "e");
        assert_eq!(w.get(&e, "..").unwrap().ino(), a.ino());
        w.fs.rename(&cred, (&a, b"e"), (&b, b"c"), RenameMode::Exchange).unwrap();
        assert_eq!((up(), w.get(&e, "..").unwrap().ino()), (a.ino(), b.ino()), "{prime:?}");
        assert_eq!(w.get(&w.root, "..").unwrap().ino(), w.root.ino());
        drop((a, b, c, e));
        w.end();
    }
}

/// A move that fails half way, and perhaps cannot be reversed, leaves no cached `..` that differs
/// from that of the directory.
#[test]
fn dotdot_in_memory_is_the_directorys_after_a_failed_move() {
    for (mode, times) in [RenameMode::Replace, RenameMode::Exchange]
        .into_iter()
        .flat_map(|mode| [1, u64::MAX].map(|times| (mode, times)))
    {
        let failed = (1..100).take_while(|n| !moved_in_spite_of_failure(*n, times, mode));
        assert!(failed.count() >= 3, "{mode:?}, {times}: hardly anything was written");
    }
}

/// Moves a directory while writes fail from the `n`th on, and compares. Returns whether none
/// failed.
fn moved_in_spite_of_failure(n: u64, times: u64, mode: RenameMode) -> bool {
    let mem = common::volume((Endian::Little, Format::Ufs2, 8192, 1024), 8 << 20);
    let dev = Arc::new(FaultInjector::new(mem, Vec::new()));
    let opts = MountOptions { ordering: OrderingPolicy::Sync, ..MountOptions::default() };
    let fs = Ffs::mount(dev.clone(), &opts, Env::system()).unwrap();
    let (cred, root) = (Cred::root(), fs.root().unwrap());
    let mkdir = |dir: &Vnode, name: &[u8]| fs.mkdir(&cred, dir, name, 0o755).unwrap();
    let (a, b) = (mkdir(&root, b"a"), mkdir(&root, b"b"));
    let children = [mkdir(&a, b"x"), mkdir(&b, b"y")];
    let up = || children.each_ref().map(|c| fs.lookup(&cred, c, b"..").unwrap().ino());
    assert_eq!(up(), [a.ino(), b.ino()]);
    fs.sync().unwrap();
    dev.add(Rule::new(Operation::Write, Fault::Errno(EIO)).nth(n).times(times));
    let to: &[u8] = if mode == RenameMode::Exchange { b"y" } else { b"z" };
    let moved = fs.rename(&cred, (&a, b"x"), (&b, to), mode);
    let failed = dev.counts().injected > 0;
    dev.heal();
    let in_memory = up();
    fs.purge_names();
    assert_eq!(in_memory, up(), "{mode:?}, write {n}, {times}: {moved:?}");
    !failed
}

#[test]
fn what_is_removed_or_moved_takes_its_names_along() {
    let w = primed(NamecachePrime::Off);
    let (cred, d, e) = (Cred::root(), w.dir(&w.root, "d"), w.dir(&w.root, "e"));
    fill(&w, &e, 64);
    let names = || gauge(&w, "vfs.cache.numcache");
    // rmdir removes the negative entries of the directory.
    let removed = w.dir(&d, "removed");
    let before = names();
    w.get(&d, "removed").unwrap();
    assert_eq!(errno(w.get(&removed, "x")), ENOENT);
    assert_eq!((names(), gauge(&w, "vfs.cache.numneg")), (before + 2, 1));
    w.fs.rmdir(&cred, &d, b"removed").unwrap();
    assert_eq!((names(), gauge(&w, "vfs.cache.numneg")), (before, 0));
    assert_eq!(errno(w.get(&removed, "x")), ENOENT);
    drop(removed);
    // The last use of a removed file: its inode number may be reused.
    let f = w.file(&d, "f");
    let ino = f.ino();
    w.get(&d, "f").unwrap();
    w.fs.unlink(&cred, &d, b"f").unwrap();
    drop(f);
    let next = w.file(&d, "next");
    assert_eq!(next.ino(), ino, "the number is used again");
    assert_eq!(errno(w.get(&d, "f")), ENOENT);
    // A rename removes the file's other names from the cache, and the negative entries of a
    // directory.
    w.fs.link(&cred, &next, &e, b"other").unwrap();
    w.get(&e, "other").unwrap();
    assert_eq!(errno(w.get(&e, "absent")), ENOENT);
    assert!(is_cached(&w, &e, "other") && is_cached(&w, &e, "absent"));
    w.fs.rename(&cred, (&d, b"next"), (&e, b"moved"), RenameMode::Replace).unwrap();
    assert!(!is_cached(&w, &e, "other") && !is_cached(&w, &e, "absent"));
    assert_eq!(w.get(&e, "moved").unwrap().ino(), ino);
    // Everything is removed.
    assert!(names() > 60);
    w.fs.purge_names();
    assert_eq!((names(), gauge(&w, "vfs.ffs.namecache_mem")), (0, 0));
    assert!(!is_cached(&w, &e, "moved") && is_cached(&w, &e, "moved"));
    drop((d, e, next));
    w.end();
}

#[test]
fn the_switch_purges_and_what_changed_meanwhile_is_seen() {
    let w = primed(NamecachePrime::All);
    let (cred, d) = (Cred::root(), w.dir(&w.root, "d"));
    fill(&w, &d, 40);
    assert!(is_cached(&w, &d, "fill1"));
    w.fs.set_tunable("debug.vfscache", "0").unwrap();
    assert_eq!(gauge(&w, "vfs.cache.numcache"), 0);
    let before = w.fs.counters();
    assert!(!is_cached(&w, &d, "fill1") && !is_cached(&w, &d, "fill1"));
    w.get(&d, "..").unwrap();
    w.get(&d, ".").unwrap();
    assert_eq!(counts(&w, &before), [0; 6]);
    assert_eq!(w.fs.counters().cache_numcalls(), before.cache_numcalls());
    w.fs.unlink(&cred, &d, b"fill1").unwrap();
    w.fs.rename(&cred, (&d, b"fill2"), (&d, b"fill3"), RenameMode::Replace).unwrap();
    w.fs.set_tunable("debug.vfscache", "1").unwrap();
    assert_eq!(errno(w.get(&d, "fill1")), ENOENT);
    assert_eq!(errno(w.get(&d, "fill2")), ENOENT);
    w.get(&d, "fill3").unwrap();
    assert!(is_cached(&w, &d, "fill3"));
    drop(d);
    w.end();
}

#[test]
fn priming_answers_the_first_lookup() {
    for prime in NamecachePrime::ALL {
        let (w, cred) = (primed(*prime), Cred::root());
        let (create, all) = (*prime != NamecachePrime::Off, *prime == NamecachePrime::All);
        let d = w.dir(&w.root, "d");
        fill(&w, &d, 100);
        let f = w.file(&d, "file");
        w.fs.symlink(&cred, &d, b"link", b"target").unwrap();
        w.fs.create(&cred, &d, b"fifo", NodeKind::Fifo, 0o600).unwrap();
        for name in ["file", "link", "fifo"] {
            assert_eq!(is_cached(&w, &d, name), create, "{prime:?} {name}");
        }
        let sub = w.dir(&d, "sub");
        assert_eq!(is_cached(&w, &d, "sub"), all, "{prime:?}");
        assert_eq!(is_cached(&w, &sub, ".."), all, "{prime:?}");
        w.fs.link(&cred, &f, &d, b"second").unwrap();
        assert_eq!(is_cached(&w, &d, "second"), all, "{prime:?}");
        w.fs.rename(&cred, (&d, b"second"), (&d, b"third"), RenameMode::Replace).unwrap();
        assert_eq!(is_cached(&w, &d, "third"), all, "{prime:?}");
        assert_eq!(is_cached(&w, &d, "second"), all, "{prime:?}");
        w.fs.rename(&cred, (&d, b"third"), (&d, b"fifo"), RenameMode::Exchange).unwrap();
        assert_eq!([is_cached(&w, &d, "third"), is_cached(&w, &d, "fifo")], [all; 2], "{prime:?}");
        w.fs.unlink(&cred, &d, b"third").unwrap();
        w.fs.rmdir(&cred, &d, b"sub").unwrap();
        assert_eq!([is_cached(&w, &d, "third"), is_cached(&w, &d, "sub")], [all; 2], "{prime:?}");
        // A failed operation leaves no entry.
        assert!(w.fs.create(&cred, &d, b"file", NodeKind::Regular, 0o600).is_err());
        assert!(!is_cached(&w, &d, "file"));
        assert_eq!(w.get(&d, "file").unwrap().ino(), f.ino());
        assert_eq!(w.get(&d, "fifo").unwrap().ino(), f.ino());
        assert_eq!([errno(w.get(&d, "third")), errno(w.get(&d, "sub"))], [ENOENT; 2]);
        drop((d, f, sub));
        w.end();
    }
}

/// The threshold of the paper (`spec/directories-and-caches.md` §5): with less than `minvnodes`
/// files a second run of `stat` finds every name in memory, with more hardly any; the threshold
/// moves with the limit.
#[test]
fn the_threshold_is_minvnodes() {
    let w = mounted(TunableValues {
        minvnodes: Limit::Of(300),
        maxvnodes: 2000,
        namecache_prime: NamecachePrime::Off,
        ..TunableValues::default()
    });
    let d = w.dir(&w.root, "d");
    let name = |i: usize| format!("f{i:04}");
    for i in 0..1000 {
        drop(w.file(&d, &name(i)));
    }
    let pass = |n: usize| {
        let before = w.fs.counters();
        (0..n).for_each(|i| drop(w.get(&d, &name(i)).unwrap()));
        counts(&w, &before)[3]
    };
    let second_pass = |n: usize| {
        w.fs.purge_names();
        pass(n);
        pass(n)
    };
    // The directory and the root are in memory too.
    assert_eq!(second_pass(297), 297);
    assert!(second_pass(310) < 10, "{}", second_pass(310));
    assert_eq!(second_pass(600), 0);
    w.fs.set_tunable("kern.minvnodes", "700").unwrap();
    assert_eq!(second_pass(697), 697);
    assert!(second_pass(710) < 10);
    w.fs.set_tunable("kern.minvnodes", "100").unwrap();
    assert!(gauge(&w, "vfs.numvnodes") <= 100, "a lower limit holds at once");
    assert_eq!(second_pass(97), 97);
    assert!(second_pass(110) < 10);
    w.fs.set_tunable("kern.minvnodes", "auto").unwrap();
    w.fs.set_tunable("kern.maxvnodes", "500").unwrap();
    assert_eq!(second_pass(497), 497);
    assert!(second_pass(510) < 10);
    drop(d);
    w.end();
}

#[test]
fn files_with_blocks_in_memory_stay_beyond_minvnodes() {
    let w = mounted(TunableValues {
        minvnodes: Limit::Of(50),
        maxvnodes: 900,
        ..TunableValues::default()
    });
    let d = w.dir(&w.root, "d");
    let full = |i: usize| format!("full{i}");
    for i in 0..200 {
        let f = w.file(&d, &full(i));
        w.fs.write(&Cred::root(), &f, 0, b"content", WriteMode::default()).unwrap();
    }
    (0..300).for_each(|i| drop(w.file(&d, &format!("empty{i}"))));
    let loaded = w.fs.counters().inodes_loaded;
    (0..200).for_each(|i| drop(w.get(&d, &full(i)).unwrap()));
    assert_eq!(w.fs.counters().inodes_loaded, loaded);
    // `maxvnodes` limits them although they have blocks and names.
    w.fs.set_tunable("kern.maxvnodes", "60").unwrap();
    assert!(gauge(&w, "vfs.numvnodes") <= 60);
    (0..200).for_each(|i| drop(w.get(&d, &full(i)).unwrap()));
    assert!(w.fs.counters().inodes_loaded > loaded + 100);
    drop(d);
    w.end();
}

/// A directory without users and without blocks in memory stays while the cache has names below it.
#[test]
fn directories_of_known_names_stay_beyond_minvnodes() {
    let w = mounted(TunableValues {
        cache: 2 << 20,
        minvnodes: Limit::Of(50),
        maxvnodes: 2000,
        namecache_prime: NamecachePrime::Off,
        ..TunableValues::default()
    });
    let name = |i: usize| format!("d{i}");
    let below = |i: usize| {
        let d = w.dir(&w.root, &name(i));
        drop(w.file(&d, "f"));
        w.get(&d, "f").unwrap()
    };
    // Files with users stay, and so do their names.
    let held: Vec<Vnode> = (0..30).map(below).collect();
    let (others, large) = (w.dir(&w.root, "others"), w.file(&w.root, "large"));
    let squeeze = |from: usize| {
        for _ in 0..3 {
            w.fs.sync().unwrap();
            let bytes = vec![1; 4 << 20];
            w.fs.write(&Cred::root(), &large, 0, &bytes, WriteMode::default()).unwrap();
        }
        (from..from + 200).for_each(|i| drop(w.file(&others, &format!("empty{i}"))));
    };
    let loaded = || {
        let before = w.fs.counters().inodes_loaded;
        (0..30).for_each(|i| drop(w.get(&w.root, &name(i)).unwrap()));
        w.fs.counters().inodes_loaded - before
    };
    squeeze(0);
    assert_eq!(loaded(), 0);
    w.fs.purge_names();
    squeeze(1000);
    assert_eq!(loaded(), 30, "it was the names that kept them");
    drop((held, others, large));
    w.end();
}

#[test]
fn trees_of_any_size_take_bounded_memory() {
    let tunables = TunableValues {
        maxvnodes: 120,
        namecache_prime: NamecachePrime::All,
        ..TunableValues::default()
    };
    let w = mounted(tunables);
    let mut held = Vec::new();
    for i in 0..60 {
        let d = w.dir(&w.root, &format!("d{i}"));
        for j in 0..12 {
            drop(w.file(&d, &format!("f{j}")));
            assert_eq!(errno(w.get(&d, &format!("g{j}"))), ENOENT);
        }
        let (vnodes, names) = (gauge(&w, "vfs.numvnodes"), gauge(&w, "vfs.cache.numcache"));
        assert!(vnodes <= 121, "{vnodes} inodes");
        assert!(names <= 240 && gauge(&w, "vfs.cache.numneg") * 16 <= names, "{names} names");
    }
    // Files with users may exceed the limit; the others shrink to `wantfreevnodes`.
    for i in 0..60 {
        let d = w.get(&w.root, &format!("d{i}")).unwrap();
        (0..12).for_each(|j| held.push(w.get(&d, &format!("f{j}")).unwrap()));
    }
    let (all, free) = (gauge(&w, "vfs.numvnodes"), gauge(&w, "vfs.freevnodes"));
    assert!(all >= 720 && free <= 25 + 1, "{all} {free}");
    drop(held);
    assert!(gauge(&w, "vfs.numvnodes") <= 120);
    w.end();
}

/// In every state of the cache, for existing, absent, removed and replaced names: both ways give
/// the same result and count the same work.
#[test]
fn attributes_by_name_are_those_of_a_lookup() {
    let w = mounted(TunableValues::default());
    let (cred, d) = (Cred::root(), w.dir(&w.root, "d"));
    fill(&w, &d, 40);
    let by_lookup = |name: &str| w.get(&d, name).map(|f| w.fs.getattr(&f));
    let by_name = |name: &str| w.fs.lookup_attr(&cred, &d, name.as_bytes());
    let same = |name: &str| match (by_name(name), by_lookup(name)) {
        (Ok(known), Ok(attr)) => assert_eq!(known, attr, "{name}"),
        (known, attr) => assert_eq!(errno(known), errno(attr), "{name}"),
    };
    for name in ["fill0", "none", ".", "..", "", "a/b", &"x".repeat(256)] {
        same(name);
        w.fs.purge_names();
        same(name);
    }
    let count = |name: &str| during(&w, || drop(by_name(name)));
    w.fs.purge_names();
    assert_eq!(count("fill1"), [1, 0, 0, 0, 0, 0]);
    assert_eq!(count("fill1"), [0, 0, 0, 1, 0, 0]);
    w.fs.rename(&cred, (&d, b"fill2"), (&d, b"fill1"), RenameMode::Replace).unwrap();
    same("fill1");
    w.fs.unlink(&cred, &d, b"fill1").unwrap();
    same("fill1");
    let file = w.file(&w.root, "file");
    assert_eq!(errno(w.fs.lookup_attr(&cred, &file, b"x")), errno(w.get(&file, "x")));
    drop((d, file));
    w.end();
}

/// Reading attributes by name is a use: that inode stays in memory, the others do not.
#[test]
fn attributes_by_name_keep_an_inode_in_memory() {
    let w = mounted(TunableValues { maxvnodes: 100, ..TunableValues::default() });
    let d = w.dir(&w.root, "d");
    fill(&w, &d, 2);
    let loaded = w.fs.counters().inodes_loaded;
    for i in 0..1000 {
        drop(w.file(&d, &format!("f{i}")));
        w.fs.lookup_attr(&Cred::root(), &d, b"fill0").unwrap();
    }
    assert_eq!(w.fs.counters().inodes_loaded, loaded, "it was never dropped");
    assert!(is_cached(&w, &d, "fill0") && !is_cached(&w, &d, "fill1"));
    drop(d);
    w.end();
}
