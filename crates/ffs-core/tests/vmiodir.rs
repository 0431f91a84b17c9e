//! Two policies for directory blocks: when each evicts them, and switching between them under load.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests stop at surprises"
)]

use crate::common;
use crate::common::{World, mount_on};
use ffs_core::{
    CacheStats, Cred, FileType, Limit, MountOptions, NodeKind, OrderingPolicy, SetAttr,
    TunableValues, Vnode, WriteMode,
};
use ffs_ondisk::{Endian, Format};
use ffs_testkit::rng::SplitMix64;
use std::sync::atomic::{AtomicBool, Ordering};

const PER_PARENT: usize = 100;

/// A volume with `dirs` small directories, a hundred in each parent, and a file of `mib` MB.
fn planted(dirs: usize, mib: u64, tunables: TunableValues) -> World {
    let mem = ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 8192, 1024, 160 << 20).unwrap();
    let opts = MountOptions { ordering: OrderingPolicy::None, tunables, ..MountOptions::default() };
    let w = mount_on(mem, &opts);
    for p in 0..dirs / PER_PARENT {
        let parent = w.dir(&w.root, &format!("p{p}"));
        for d in 0..PER_PARENT {
            let dir = w.dir(&parent, &format!("d{d}"));
            w.file(&dir, "f");
        }
    }
    let file = w.file(&w.root, "big");
    let block = vec![7; 1 << 20];
    for i in 0..mib {
        w.fs.write(&Cred::root(), &file, i << 20, &block, WriteMode::default()).unwrap();
    }
    w.fs.sync().unwrap();
    w
}

/// Reads every directory, as find(1) does. Returns the directory blocks read from the device.
fn find(w: &World) -> u64 {
    fn walk(w: &World, dir: &Vnode) -> usize {
        let mut seen = 1;
        let mut names: Vec<Vec<u8>> = Vec::new();
        w.fs.readdir(dir, 0, &mut |e| {
            if e.kind == Some(FileType::Directory) && e.name != b"." && e.name != b".." {
                names.push(e.name.to_vec());
            }
            true
        })
        .unwrap();
        for name in names {
            seen += walk(w, &w.fs.lookup(&Cred::root(), dir, &name).unwrap());
        }
        seen
    }
    let before = w.fs.cache_stats().directories.misses;
    assert!(walk(w, &w.root) > PER_PARENT);
    w.fs.cache_stats().directories.misses - before
}

/// Reads the file in small pieces, so that every block goes through the cache.
fn stream(w: &World, mib: u64) {
    let file = w.get(&w.root, "big").unwrap();
    let mut piece = vec![0; 4096];
    for at in (0..mib << 20).step_by(piece.len()) {
        assert_eq!(w.fs.read(&file, at, &mut piece).unwrap(), piece.len());
    }
}

fn flip(w: &World, on: bool) -> CacheStats {
    w.fs.set_tunable("vfs.vmiodirenable", if on { "1" } else { "0" }).unwrap();
    w.fs.cache_stats()
}

/// The paper's machine: 37 MB of buffers, 190 MB of pages.
fn machine(vmiodirenable: bool) -> TunableValues {
    TunableValues {
        vmiodirenable,
        cache: 190 << 20,
        nbuf: Limit::Of(2290),
        hibufspace: Limit::Of(36_900 << 10),
        ..TunableValues::default()
    }
}

#[test]
fn small_directories_survive_a_stream_in_pages_and_not_in_buffers() {
    for on in [false, true] {
        let w = planted(5000, 60, machine(on));
        find(&w);
        stream(&w, 60);
        let again = find(&w);
        let s = w.fs.cache_stats();
        println!("vmiodirenable={on}: {again} directory blocks read again; {s:?}");
        if on {
            assert!(again == 0 && s.resident_directories >= 5000, "{again}");
        } else {
            assert!(again > 4000 && s.resident_directories < 2500, "{again}");
        }
        w.end();
    }
}

#[test]
fn with_little_page_cache_rounding_up_costs_more_than_buffers_do() {
    let reread = |vmiodirenable| {
        let w = planted(
            1500,
            1,
            TunableValues {
                vmiodirenable,
                cache: 2 << 20,
                nbuf: Limit::Of(4096),
                hibufspace: Limit::Of(8 << 20),
                maxbufmallocspace: Limit::Of(2 << 20),
                ..TunableValues::default()
            },
        );
        find(&w);
        let again = find(&w);
        w.end();
        again
    };
    let (pages, buffers) = (reread(true), reread(false));
    assert!(pages > 1000 && buffers == 0, "pages {pages}, buffers {buffers}");
}

#[test]
fn the_switch_turns_while_mounted() {
    let w = planted(3000, 1, machine(true));
    find(&w);
    assert_eq!(find(&w), 0);
    let s = flip(&w, false);
    assert!(s.directories.tier2_blocks == 0 && s.resident_directories <= 2290, "{s:?}");
    assert!(find(&w) > 500);
    assert!(find(&w) > 500);
    let s = flip(&w, true);
    assert_eq!(s.bufmallocspace, 0);
    find(&w);
    assert_eq!(find(&w), 0);
    w.end();
}

/// Threads create, rename and remove directories while another changes the switch and the limits.
#[test]
fn nothing_is_lost_when_the_switch_turns_under_load() {
    let small = TunableValues { cache: 2 << 20, maxvnodes: 64, ..TunableValues::default() };
    for seed in 1..4_u64 {
        println!("seed {seed}");
        let mem =
            ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 8192, 1024, 32 << 20).unwrap();
        let opts = MountOptions {
            tunables: small,
            ordering: OrderingPolicy::None,
            ..MountOptions::default()
        };
        let w = mount_on(mem, &opts);
        let done = AtomicBool::new(false);
        let names: Vec<Vec<String>> = std::thread::scope(|s| {
            let workers: Vec<_> = (0..3)
                .map(|t| {
                    let w = &w;
                    s.spawn(move || work(w, seed, t))
                })
                .collect();
            s.spawn(|| {
                let mut rng = SplitMix64::new(seed);
                while !done.load(Ordering::Relaxed) {
                    let on = if rng.one_in(2) { "1" } else { "0" };
                    w.fs.set_tunable("vfs.vmiodirenable", on).unwrap();
                    let n = (16 + rng.below(200)).to_string();
                    w.fs.set_tunable("kern.nbuf", &n).unwrap();
                    std::thread::yield_now();
                }
            });
            let names = workers.into_iter().map(|h| h.join().unwrap()).collect();
            done.store(true, Ordering::Relaxed);
            names
        });
        for (t, names) in names.into_iter().enumerate() {
            let dir = w.get(&w.root, &format!("t{t}")).unwrap();
            for name in names {
                let sub = w.get(&dir, &name).unwrap();
                assert_eq!(
                    w.fs.getattr(&w.get(&sub, "f").unwrap()).perm,
                    0o600,
                    "seed {seed} {name}"
                );
            }
        }
        let dev = std::sync::Arc::clone(&w.dev);
        w.end();
        common::check(&dev);
    }
}

/// Returns the directories that exist at the end.
fn work(w: &World, seed: u64, t: u64) -> Vec<String> {
    let (fs, cred) = (&w.fs, Cred::root());
    let mut rng = SplitMix64::new(seed * 10 + t);
    let dir = w.dir(&w.root, &format!("t{t}"));
    let mut names: Vec<String> = Vec::new();
    for i in 0..1200 {
        if rng.below(3) > 0 || names.is_empty() {
            let name = format!("d{i}");
            let sub = w.dir(&dir, &name);
            let file = fs.create(&cred, &sub, b"f", NodeKind::Regular, 0o644).unwrap();
            let perm = SetAttr { perm: Some(0o600), ..SetAttr::default() };
            fs.setattr(&cred, &file, &perm).unwrap();
            names.push(name);
        } else {
            let name = names.swap_remove(rng.below(names.len() as u64) as usize);
            let sub = w.get(&dir, &name).unwrap();
            fs.unlink(&cred, &sub, b"f").unwrap();
            drop(sub);
            fs.rmdir(&cred, &dir, name.as_bytes()).unwrap();
        }
    }
    names
}

#[test]
fn every_name_is_listed_once_and_read_only_ones_are_marked() {
    let w = planted(100, 1, TunableValues::default());
    let all = w.fs.sysctl();
    assert!(all.is_sorted_by(|a, b| a.name < b.name), "a name is listed twice");
    for s in &all {
        let set = w.fs.set_tunable(s.name, &s.value).map_err(|e| e.to_string());
        match s.nature {
            ffs_core::Nature::Switch(_) => assert_eq!(set.unwrap().value, s.value),
            _ => assert_eq!(set.unwrap_err(), format!("'{}' is read-only", s.name)),
        }
    }
    w.end();
}
