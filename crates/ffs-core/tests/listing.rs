//! Listings of directories that change meanwhile: unchanged names are listed exactly once.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common::{World, world};
use ffs_core::{Cred, NodeKind, OrderingPolicy, RenameMode, Vnode};
use ffs_testkit::rng::SplitMix64;
use std::collections::BTreeMap;

/// A listing in progress.
struct Reader {
    at: u64,
    /// Names that have existed since it began, and how often each was listed.
    stable: BTreeMap<String, u32>,
}

impl Reader {
    fn new(names: &[String]) -> Reader {
        Reader { at: 0, stable: names.iter().map(|n| (n.clone(), 0)).collect() }
    }

    /// Reads up to `count` entries; true at the end.
    fn step(&mut self, w: &World, d: &Vnode, count: u64) -> bool {
        let mut left = count;
        w.fs.readdir(d, self.at, &mut |e| {
            if left == 0 {
                return false;
            }
            left -= 1;
            self.at = e.next;
            let name = String::from_utf8(e.name.to_vec()).unwrap();
            if let Some(seen) = self.stable.get_mut(&name) {
                *seen += 1;
            }
            true
        })
        .unwrap();
        left > 0
    }
}

/// Makes one random change. Returns the name that disappeared, if one did.
fn change(
    w: &World,
    d: &Vnode,
    names: &mut Vec<String>,
    rng: &mut SplitMix64,
    n: u32,
) -> Option<String> {
    let cred = Cred::root();
    let fresh = format!("{n}{}", "-".repeat(rng.below(90) as usize));
    let victim = rng.below(names.len().max(1) as u64) as usize;
    match rng.below(5) {
        0 | 1 => {
            w.fs.create(&cred, d, fresh.as_bytes(), NodeKind::Fifo, 0o600).unwrap();
            names.push(fresh);
            None
        }
        2 | 3 if !names.is_empty() => {
            let removed = names.swap_remove(victim);
            w.fs.unlink(&cred, d, removed.as_bytes()).unwrap();
            Some(removed)
        }
        4 if !names.is_empty() => {
            let removed = names.swap_remove(victim);
            let (from, to) = ((d, removed.as_bytes()), (d, fresh.as_bytes()));
            w.fs.rename(&cred, from, to, RenameMode::NoReplace).unwrap();
            names.push(fresh);
            Some(removed)
        }
        _ => None,
    }
}

fn run(seed: u64) {
    let mut rng = SplitMix64::new(seed);
    let w = world(OrderingPolicy::None);
    let d = w.dir(&w.root, "d");
    let mut names = Vec::new();
    let mut n = 0;
    while names.len() < 60 {
        change(&w, &d, &mut names, &mut rng, n);
        n += 1;
    }
    let mut readers: Vec<Reader> = (0..6).map(|_| Reader::new(&names)).collect();
    for _ in 0..900 {
        for _ in 0..rng.below(6) {
            n += 1;
            if let Some(removed) = change(&w, &d, &mut names, &mut rng, n) {
                for r in &mut readers {
                    r.stable.remove(&removed);
                }
            }
        }
        let i = rng.below(readers.len() as u64) as usize;
        if readers[i].step(&w, &d, rng.between(1, 9)) {
            let wrong: Vec<_> = readers[i].stable.iter().filter(|(_, seen)| **seen != 1).collect();
            assert!(wrong.is_empty(), "seed {seed}: not seen exactly once: {wrong:?}");
            readers[i] = Reader::new(&names);
        }
    }
    assert!(w.fs.counters().dir_chunks_compacted > 10, "seed {seed}: too little happened");
    drop(d);
    w.end();
}

#[test]
fn entries_that_stay_are_listed_exactly_once() {
    for seed in 0..12 {
        run(seed);
    }
}

#[test]
fn positions_work_alone() {
    let w = world(OrderingPolicy::None);
    let d = w.dir(&w.root, "d");
    for i in 0..100 {
        drop(w.file(&d, &format!("file{i}")));
    }
    let mut all = Vec::new();
    w.fs.readdir(&d, 0, &mut |e| {
        all.push((e.name.to_vec(), e.next));
        true
    })
    .unwrap();
    assert_eq!(all.len(), 102);
    assert_eq!((&all[0].0[..], &all[1].0[..]), (&b"."[..], &b".."[..]));
    for (i, (_, next)) in all.iter().enumerate() {
        let mut name = None;
        w.fs.readdir(&d, *next, &mut |e| {
            name = Some(e.name.to_vec());
            false
        })
        .unwrap();
        assert_eq!(name.as_ref(), all.get(i + 1).map(|(n, _)| n));
    }
    // Any number is a valid position.
    for at in [1, 7, 511, 512, 513, u64::from(u32::MAX), 1 << 40, u64::MAX] {
        w.fs.readdir(&d, at, &mut |_| true).unwrap();
    }
    drop(d);
    w.end();
}

/// The callback may use the directory.
#[test]
fn a_listing_holds_no_lock() {
    let w = world(OrderingPolicy::None);
    for i in 0..50 {
        drop(w.file(&w.root, &format!("f{i}")));
    }
    let mut removed = 0;
    w.fs.readdir(&w.root, 0, &mut |e| {
        if e.name.starts_with(b"f") {
            w.fs.unlink(&Cred::root(), &w.root, e.name).unwrap();
            removed += 1;
        }
        true
    })
    .unwrap();
    assert_eq!(removed, 50);
    w.end();
}
