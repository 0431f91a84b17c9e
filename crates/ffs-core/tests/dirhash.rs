//! Dirhash through the public interface: counted work, rebuilds, limits, switches, unusual states.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests stop at surprises")]

use crate::common::{World, mount_on};
use ffs_core::{CounterValues, Cred, MountOptions, NodeKind, OrderingPolicy, RenameMode, Vnode};
use ffs_ondisk::{Endian, Format};
use ffs_testkit::rng::SplitMix64;

/// A volume for many files, with no cache but dirhash for directories.
fn large(options: &[(&str, &str)]) -> World {
    let mem = ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 32768, 4096, 64 << 20).unwrap();
    let mut opts = MountOptions { ordering: OrderingPolicy::None, ..MountOptions::default() };
    opts.tunables.set("namecache", Some("0")).unwrap();
    for (name, value) in options {
        opts.tunables.set(name, Some(value)).unwrap();
    }
    mount_on(mem, &opts)
}

/// Names of one file in a directory: entries without further inodes.
fn links(w: &World, d: &Vnode, names: &[String]) {
    let cred = Cred::root();
    for chunk in names.chunks(30_000) {
        let file = w.fs.create(&cred, &w.root, b"file", NodeKind::Regular, 0o644).unwrap();
        for n in chunk {
            w.fs.link(&cred, &file, d, n.as_bytes()).unwrap();
        }
        w.fs.unlink(&cred, &w.root, b"file").unwrap();
    }
}

fn numbered(n: usize) -> Vec<String> {
    (0..n).map(|i| format!("f{i:06}")).collect()
}

fn shuffled(mut names: Vec<String>, seed: u64) -> Vec<String> {
    println!("seed {seed}");
    let mut rng = SplitMix64::new(seed);
    for i in (1..names.len()).rev() {
        names.swap(i, rng.below(i as u64 + 1) as usize);
    }
    names
}

fn gauge(w: &World, name: &str) -> u64 {
    let all = w.fs.gauges();
    all.iter().find(|g| g.name == name).expect(name).value
}

/// The increase of a counter.
type Grown = Box<dyn Fn(fn(&CounterValues) -> u64) -> u64>;

/// The increases of the counters while `f` ran.
fn work(w: &World, f: impl FnOnce()) -> Grown {
    let before = w.fs.counters();
    f();
    let after = w.fs.counters();
    Box::new(move |what| what(&after) - what(&before))
}

fn end(w: World, d: Vnode) {
    assert_eq!(w.fs.counters().dirhash_check_failures, 0);
    assert_eq!(w.fs.counters().dirhash_gone_doubt, 0);
    drop(d);
    w.end();
}

/// A hit reads one block of the directory, a miss none, in a directory of any size.
#[test]
fn lookups_cost_one_block_and_misses_none() {
    for n in [300, 30_000] {
        let w = large(&[]);
        let d = w.dir(&w.root, "d");
        let names = numbered(n);
        links(&w, &d, &names);
        let order = shuffled(names, 9);
        let did = work(&w, || order.iter().for_each(|name| drop(w.get(&d, name).unwrap())));
        let n = n as u64;
        assert_eq!(did(|c| c.dirhash_hits), n);
        assert!(
            did(|c| c.dirhash_blocks_read) * 10 <= n * 11,
            "{}",
            did(|c| c.dirhash_blocks_read)
        );
        assert!(did(|c| c.dirhash_inspected) * 10 <= n * 11, "{}", did(|c| c.dirhash_inspected));
        assert_eq!(did(|c| c.dir_bytes_scanned), 0, "the linear code rests");
        let did = work(&w, || {
            for i in 0..n {
                assert!(w.get(&d, &format!("m{i:06}")).is_err());
            }
        });
        assert_eq!(did(|c| c.dirhash_misses), n);
        assert!(did(|c| c.dirhash_blocks_read) * 100 <= n, "{}", did(|c| c.dirhash_blocks_read));
        // At most 8.5 at the highest load.
        assert!(did(|c| c.dirhash_probes) < 9 * n, "{}", did(|c| c.dirhash_probes));
        assert_eq!(did(|c| c.dir_bytes_scanned), 0);
        end(w, d);
    }
}

/// In the order of the directory the prediction is right, except where a record leaves slack.
#[test]
fn lookups_in_order_inspect_one_record() {
    let w = large(&[]);
    let d = w.dir(&w.root, "d");
    // 16-byte records, 32 to a chunk without slack.
    let names: Vec<String> = (0..3000).map(|i| format!("f{i:05}")).collect();
    links(&w, &d, &names);
    let did = work(&w, || names.iter().for_each(|n| drop(w.get(&d, n).unwrap())));
    assert_eq!((did(|c| c.dirhash_hits), did(|c| c.dirhash_inspected)), (3000, 3000));
    assert!(did(|c| c.dirhash_seq_hits) > 2950, "{}", did(|c| c.dirhash_seq_hits));
    let removed: Vec<&String> = names.iter().step_by(7).collect();
    removed.iter().for_each(|n| w.fs.unlink(&Cred::root(), &d, n.as_bytes()).unwrap());
    let did = work(&w, || {
        for (i, n) in names.iter().enumerate() {
            assert_eq!(w.get(&d, n).is_ok(), i % 7 != 0, "{n}");
        }
    });
    assert!(did(|c| c.dirhash_seq_hits) > 1900, "{}", did(|c| c.dirhash_seq_hits));
    end(w, d);
}

/// The expectations of the paper: growth by half costs a build, for any size; two or three entries
/// are built for each name.
#[test]
fn growing_builds_as_often_as_the_logarithm() {
    // Names, bytes of a record; builds and entries within a factor of the prediction.
    for (n, name, builds, entries) in
        [(10_000, "f{}", 8..=16, 20_000..=40_000), (33_164, "g{}", 11..=20, 70_000..=140_000)]
    {
        let w = large(&[]);
        let d = w.dir(&w.root, "d");
        let names: Vec<String> = (0..n).map(|i| name.replace("{}", &format!("{i:05}"))).collect();
        let did = work(&w, || links(&w, &d, &names));
        let (b, e) = (did(|c| c.dirhash_builds), did(|c| c.dirhash_build_entries));
        println!("{n}: {b} builds, {e} entries");
        assert!(builds.contains(&b) && entries.contains(&e), "{n}: {b} builds, {e} entries");
        let (full, outgrown) = (did(|c| c.dirhash_gone_full), did(|c| c.dirhash_gone_outgrown));
        assert_eq!(full + outgrown, b - 1, "each but the first has a cause");
        // Memory: half a byte for each byte of the directory, and the reserve for growth.
        let size = w.fs.getattr(&d).size as f64;
        let (mem, paper) = (gauge(&w, "vfs.ufs.dirhash_mem") as f64, 278.0 + 0.507 * size);
        assert!(mem <= paper * 1.1 && mem > paper / 1.6, "{mem} {paper}");
        end(w, d);
    }
}

/// 12-byte records fill the slots before the chunks.
#[test]
fn short_names_rebuild_at_three_quarters() {
    let w = large(&[]);
    let d = w.dir(&w.root, "d");
    let letters: Vec<char> = ('!'..='~').filter(|c| *c != '/').collect();
    let mut names = Vec::new();
    for a in &letters {
        for b in &letters {
            names.push(format!("{a}{b}x"));
        }
    }
    let did = work(&w, || links(&w, &d, &names));
    let (builds, full) = (did(|c| c.dirhash_builds), did(|c| c.dirhash_gone_full));
    println!("{} names, {builds} builds", names.len());
    assert!(full > 8 && did(|c| c.dirhash_gone_outgrown) <= builds - full, "{builds} {full}");
    assert!((12..=30).contains(&builds), "{builds}");
    end(w, d);
}

#[test]
fn only_directories_of_minsize_have_one() {
    let w = large(&[]);
    let d = w.dir(&w.root, "d");
    let mut i = 0;
    while w.fs.getattr(&d).size < 2048 {
        links(&w, &d, &[format!("name{i:05}")]);
        i += 1;
    }
    w.get(&d, "name00000").unwrap();
    assert_eq!(w.fs.counters().dirhash_builds, 0);
    while w.fs.getattr(&d).size < 2560 {
        links(&w, &d, &[format!("name{i:05}")]);
        i += 1;
    }
    w.get(&d, "name00000").unwrap();
    assert_eq!((w.fs.counters().dirhash_builds, gauge(&w, "vfs.ufs.dirhash_count")), (1, 1));
    // One byte more than its size: the next access drops the index.
    w.fs.set_tunable("vfs.ufs.dirhash_minsize", "2561").unwrap();
    w.get(&d, "name00000").unwrap();
    assert_eq!((gauge(&w, "vfs.ufs.dirhash_count"), gauge(&w, "vfs.ufs.dirhash_mem")), (0, 0));
    end(w, d);
}

#[test]
fn limits_at_run_time() {
    let w = large(&[("dirhash_maxmem", "1m")]);
    let d = w.dir(&w.root, "d");
    links(&w, &d, &numbered(2000));
    assert_eq!(gauge(&w, "vfs.ufs.dirhash_count"), 1);
    for bytes in ["0", "1"] {
        w.fs.set_tunable("vfs.ufs.dirhash_maxmem", bytes).unwrap();
        assert_eq!(gauge(&w, "vfs.ufs.dirhash_mem"), 0, "given back at once");
        let did = work(&w, || drop(w.get(&d, "f000077").unwrap()));
        assert_eq!((did(|c| c.dirhash_hits), did(|c| c.dirhash_builds)), (0, 0));
        assert!(did(|c| c.dir_bytes_scanned) > 0);
    }
    let need = |w: &World| {
        w.fs.set_tunable("vfs.ufs.dirhash_maxmem", "auto").unwrap();
        w.get(&d, "f000077").unwrap();
        gauge(w, "vfs.ufs.dirhash_mem")
    };
    let charge = need(&w);
    for (limit, fits) in [(2 * charge - 1, false), (2 * charge, true)] {
        w.fs.set_tunable("vfs.ufs.dirhash_maxmem", "0").unwrap();
        w.fs.set_tunable("vfs.ufs.dirhash_maxmem", &limit.to_string()).unwrap();
        let did = work(&w, || drop(w.get(&d, "f000077").unwrap()));
        assert_eq!(did(|c| c.dirhash_hits) == 1, fits);
        assert_eq!(did(|c| c.dirhash_refused_large) == 1, !fits);
    }
    for (name, value) in [
        ("vfs.ufs.dirhash_maxmem", "-1"),
        ("vfs.ufs.dirhash_maxmem", "much"),
        ("vfs.ufs.dirhash_minsize", "1"),
        ("vfs.ufs.dirhash_reclaimpercent", "101"),
        ("vfs.ufs.dirhash_hash", "md5"),
        ("vfs.ufs.dirhash_docheck", "2"),
    ] {
        assert!(w.fs.set_tunable(name, value).is_err(), "{name}={value}");
    }
    end(w, d);
}

/// `spec/directories-and-caches.md` §9.4: a hundred directories and a pool for a few.
#[test]
fn a_small_pool_does_not_thrash() {
    let w = large(&[("dirhash_maxmem", "64k")]);
    let dirs: Vec<Vnode> = (0..100)
        .map(|i| {
            let d = w.dir(&w.root, &format!("d{i}"));
            links(&w, &d, &numbered(200));
            d
        })
        .collect();
    let accesses = 4000u64;
    let did = work(&w, || {
        for i in 0..accesses as usize {
            w.get(&dirs[i % 100], "f000123").unwrap();
            assert!(gauge(&w, "vfs.ufs.dirhash_mem") <= 64 << 10);
        }
    });
    println!("{} builds, {} hits", did(|c| c.dirhash_builds), did(|c| c.dirhash_hits));
    assert!(did(|c| c.dirhash_builds) <= accesses / 8);
    assert!(did(|c| c.dirhash_hits) + did(|c| c.dirhash_refused_memory) == accesses);
    w.fs.low_memory();
    assert!(w.fs.counters().dirhash_lowmem == 1 && gauge(&w, "vfs.ufs.dirhash_mem") < 60 << 10);
    drop(dirs);
    w.end();
}

/// `spec/directories-and-caches.md` §9.6: freed space is reused.
#[test]
fn emptied_chunks_take_long_names() {
    let w = large(&[("dirhash_docheck", "1")]);
    let d = w.dir(&w.root, "d");
    let names = numbered(3000);
    links(&w, &d, &names);
    let cred = Cred::root();
    let (last, rest) = names.split_last().unwrap();
    rest.iter().for_each(|n| w.fs.unlink(&cred, &d, n.as_bytes()).unwrap());
    let size = w.fs.getattr(&d).size;
    let file = w.get(&d, last).unwrap();
    for i in 0..90 {
        w.fs.link(&cred, &file, &d, format!("{i:0>255}").as_bytes()).unwrap();
    }
    assert_eq!(w.fs.getattr(&d).size, size, "no growth");
    assert!(w.get(&d, &format!("{:0>255}", 42)).is_ok());
    drop(file);
    end(w, d);
}

/// `spec/directories-and-caches.md` §9.7: one name created and deleted alternately.
#[test]
fn one_name_coming_and_going_never_rebuilds() {
    let w = large(&[]);
    let d = w.dir(&w.root, "d");
    links(&w, &d, &numbered(500));
    let file = w.get(&d, "f000001").unwrap();
    let did = work(&w, || {
        for _ in 0..20_000 {
            w.fs.link(&Cred::root(), &file, &d, b"tmp").unwrap();
            w.fs.unlink(&Cred::root(), &d, b"tmp").unwrap();
        }
    });
    assert_eq!(did(|c| c.dirhash_builds), 0);
    drop(file);
    end(w, d);
}

/// A removal truncates only when two chunks are empty, and then both.
#[test]
fn a_removal_leaves_an_empty_chunk_alone() {
    let w = large(&[("dir_truncate", "create+delete")]);
    let (cred, d) = (Cred::root(), w.dir(&w.root, "d"));
    let names = numbered(1000);
    links(&w, &d, &names);
    let (mut size, mut truncations) = (w.fs.getattr(&d).size, 0);
    // A directory of at most eight chunks has no index.
    for n in names.iter().skip(300).rev() {
        w.fs.unlink(&cred, &d, n.as_bytes()).unwrap();
        let now = w.fs.getattr(&d).size;
        assert!(now == size || now + 1024 == size, "{n}: {size} {now}");
        (size, truncations) = (now, truncations + u32::from(now < size));
    }
    assert!(truncations > 5, "{truncations}");
    end(w, d);
}

/// Truncation on removal frees space and memory at once, truncation on creation with the next name.
#[test]
fn directories_shrink_as_configured() {
    for (switch, shrinks) in [("create", false), ("create+delete", true)] {
        let w = large(&[("dir_truncate", switch), ("dirhash_docheck", "1")]);
        let (cred, d) = (Cred::root(), w.dir(&w.root, "d"));
        let names = numbered(4000);
        links(&w, &d, &names);
        let size = w.fs.getattr(&d).size;
        for n in names.iter().skip(40).rev() {
            w.fs.unlink(&cred, &d, n.as_bytes()).unwrap();
        }
        let after = w.fs.getattr(&d).size;
        assert_eq!(after < 4096, shrinks, "{size} {after}");
        assert_eq!(w.fs.counters().dir_trimmed > 0, shrinks);
        assert_eq!(w.fs.counters().dirhash_gone_shrunk > 0, shrinks);
        // No alternation at the boundary of a chunk.
        let did = work(&w, || {
            let file = w.get(&d, "f000001").unwrap();
            for _ in 0..50 {
                for i in 0..20 {
                    w.fs.link(&cred, &file, &d, format!("edge{i:02}").as_bytes()).unwrap();
                }
                for i in 0..20 {
                    w.fs.unlink(&cred, &d, format!("edge{i:02}").as_bytes()).unwrap();
                }
            }
        });
        assert!(did(|c| c.dir_trimmed) <= 1);
        links(&w, &d, &["one-more".to_owned()]);
        assert!(w.fs.getattr(&d).size < 4096, "a creation truncates in any case");
        assert!(w.get(&d, "f000039").is_ok() && w.get(&d, "f000040").is_err());
        end(w, d);
    }
}

/// A removed directory in use: no name is found in it, and its memory is freed.
#[test]
fn removed_directories_have_none() {
    let w = large(&[]);
    let (cred, d) = (Cred::root(), w.dir(&w.root, "d"));
    let names = numbered(400);
    links(&w, &d, &names);
    names.iter().for_each(|n| w.fs.unlink(&cred, &d, n.as_bytes()).unwrap());
    assert!(gauge(&w, "vfs.ufs.dirhash_mem") > 0);
    w.fs.rmdir(&cred, &w.root, b"d").unwrap();
    assert_eq!(gauge(&w, "vfs.ufs.dirhash_mem"), 0);
    assert!(w.get(&d, "f000001").is_err());
    assert_eq!(gauge(&w, "vfs.ufs.dirhash_count"), 0);
    end(w, d);
}

/// The same operations with and without an index leave the same names.
#[test]
fn answers_do_not_depend_on_it() {
    let seed = 4;
    println!("seed {seed}");
    let listing = |options: &[(&str, &str)]| {
        let w = large(options);
        let (cred, d) = (Cred::root(), w.dir(&w.root, "d"));
        let mut rng = SplitMix64::new(seed);
        links(&w, &d, &numbered(300));
        let mut outcomes = Vec::new();
        for _ in 0..3000 {
            let (a, b) = (format!("f{:06}", rng.below(600)), format!("f{:06}", rng.below(600)));
            let (n, m) = (a.as_bytes(), b.as_bytes());
            outcomes.push(match rng.below(4) {
                0 => w.fs.unlink(&cred, &d, n).is_ok(),
                1 => w.fs.rename(&cred, (&d, n), (&d, m), RenameMode::NoReplace).is_ok(),
                2 => w.fs.create(&cred, &d, n, NodeKind::Fifo, 0o600).is_ok(),
                _ => w.get(&d, &a).is_ok(),
            });
        }
        let mut names = Vec::new();
        w.fs.readdir(&d, 0, &mut |e| {
            names.push(e.name.to_vec());
            true
        })
        .unwrap();
        names.sort();
        end(w, d);
        (outcomes, names)
    };
    let off = listing(&[("dirhash_maxmem", "0")]);
    for on in [
        &[("dirhash_docheck", "1")][..],
        &[("dirhash_hash", "fnv1"), ("dirhash_compat", "1")],
        &[("dirhash_hash", "fnv1-salted"), ("dir_truncate", "create+delete")],
        &[("dirhash_maxmem", "16k")],
    ] {
        assert!(listing(on) == off, "{on:?}");
    }
}

/// Lookups, changes and loss of memory at the same time: the results stay right.
#[test]
fn threads_share_a_pool_that_shrinks() {
    let w = large(&[("dirhash_maxmem", "32k"), ("dirhash_docheck", "1")]);
    let dirs: Vec<Vnode> = (0..12).map(|i| w.dir(&w.root, &format!("d{i}"))).collect();
    dirs.iter().for_each(|d| links(&w, d, &numbered(300)));
    let (w, dirs) = (&w, &dirs);
    std::thread::scope(|s| {
        for t in 0..3u64 {
            s.spawn(move || {
                let mut rng = SplitMix64::new(t);
                for _ in 0..4000 {
                    let d = &dirs[rng.below(12) as usize];
                    let i = rng.below(400);
                    assert_eq!(w.get(d, &format!("f{i:06}")).is_ok(), i < 300, "{i}");
                }
            });
        }
        s.spawn(move || {
            let cred = Cred::root();
            for i in 0..1500usize {
                let (d, e) = (&dirs[i % 12], &dirs[i * 7 % 12]);
                let (a, b) = (format!("t{i}"), format!("u{i}"));
                drop(w.fs.create(&cred, d, a.as_bytes(), NodeKind::Fifo, 0o600).unwrap());
                let to = (e, b.as_bytes());
                w.fs.rename(&cred, (d, a.as_bytes()), to, RenameMode::Replace).unwrap();
                w.fs.unlink(&cred, e, b.as_bytes()).unwrap();
            }
        });
        s.spawn(move || {
            for i in 0..600u64 {
                w.fs.low_memory();
                let limit = [0, 1, 9_000, 32 << 10][i as usize % 4];
                w.fs.set_tunable("vfs.ufs.dirhash_maxmem", &limit.to_string()).unwrap();
                assert!(gauge(w, "vfs.ufs.dirhash_count") <= 12);
            }
            w.fs.set_tunable("vfs.ufs.dirhash_maxmem", "32k").unwrap();
        });
    });
    let c = w.fs.counters();
    assert_eq!((c.dirhash_check_failures, c.dirhash_gone_doubt), (0, 0));
    assert!(c.dirhash_recycled > 0 && c.dirhash_hits > 0);
}
