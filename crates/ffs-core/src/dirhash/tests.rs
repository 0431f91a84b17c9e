//! Dirhash without a directory: slots against a map, probes, memory, the rules of the pool.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests stop at surprises")]

use super::*;
use crate::counters::Counters;
use crate::tunables::{DirHashFunction, Limit, TunableValues, Tunables};
use ffs_device::clock::{Rng, SplitMix64};
use ffs_ondisk::DirOff;
use std::collections::BTreeMap;
use std::sync::Arc;

type HashMap<K, V> = std::collections::HashMap<K, V, foldhash::fast::FixedState>;

const FUNCTIONS: [DirHashFunction; 3] =
    [DirHashFunction::Fnv1, DirHashFunction::Fnv1Salted, DirHashFunction::SipHash];

/// The offset of record `n`: names up to 31 bytes, 40 bytes apart, 12 to a chunk.
fn place(n: u32) -> DirOff {
    DirOff(n / 12 * 512 + n % 12 * 40)
}

fn find(
    index: &Index,
    names: &HashMap<u32, String>,
    name: &str,
    work: &mut SearchCost,
) -> Option<DirOff> {
    let hash = index.hasher().hash(name.as_bytes());
    let same = |off: DirOff| Ok::<_, ()>(names.get(&off.0).is_some_and(|n| n == name));
    index.search(hash, None, work, same).unwrap()
}

fn build(names: &[String], size: u32, which: DirHashFunction) -> (Index, HashMap<u32, String>) {
    let mut index = Index::new(size, NameHasher::new(which, 11, 12), false);
    let mut at = HashMap::default();
    for (i, name) in names.iter().enumerate() {
        let off = DirOff(i as u32 * 4);
        let hash = index.hasher().hash(name.as_bytes());
        index.build_entry::<DropReason>(hash, off, |_| Ok(false)).unwrap();
        at.insert(off.0, name.clone());
    }
    (index, at)
}

/// Mean probes of a hit and of a miss.
fn probes(names: &[String], missing: &[String], record: u32, which: DirHashFunction) -> (f64, f64) {
    let size = (names.len() as u32 * record).next_multiple_of(512);
    let (index, at) = build(names, size, which);
    let (mut hit, mut miss) = (SearchCost::default(), SearchCost::default());
    for n in names {
        assert!(find(&index, &at, n, &mut hit).is_some());
    }
    for n in missing {
        assert!(find(&index, &at, n, &mut miss).is_none());
    }
    // Almost no records of other names are read.
    let others = hit.inspected - names.len() as u64 + miss.inspected;
    assert!(others * 50 <= (names.len() + missing.len()) as u64, "{others} looks in vain");
    let mean = |w: SearchCost, n: usize| w.probes as f64 / n as f64;
    (mean(hit, names.len()), mean(miss, missing.len()))
}

#[test]
fn index_follows_a_map() {
    const SEED: u64 = 0xd1_4a54;
    println!("seed {SEED:#x}");
    let rng = SplitMix64::new(SEED);
    for which in FUNCTIONS {
        for compat in [false, true] {
            // Slots and offsets stay far from their limits.
            let mut index = Index::new(512 * 60, NameHasher::new(which, 1, 2), compat);
            let mut model: BTreeMap<String, DirOff> = BTreeMap::new();
            let mut names: HashMap<u32, String> = HashMap::default();
            for _ in 0..20_000 {
                let name = format!("{:x<1$}", rng.below(400), rng.below(20) as usize);
                let hash = index.hasher().hash(name.as_bytes());
                let off = place(rng.below(700) as u32);
                let free = !names.contains_key(&off.0);
                match (model.get(&name).copied(), rng.below(3)) {
                    (None, _) if free && off.0 < 512 * 60 => {
                        index.add(hash, name.len(), off).unwrap();
                        model.insert(name.clone(), off);
                        names.insert(off.0, name.clone());
                    }
                    (Some(at), 0) => {
                        index.remove(hash, name.len(), at).unwrap();
                        model.remove(&name);
                        names.remove(&at.0);
                    }
                    (Some(at), 1) if free && off.0 / 512 == at.0 / 512 => {
                        index.move_entry(hash, at, off).unwrap();
                        names.remove(&at.0);
                        names.insert(off.0, name.clone());
                        model.insert(name.clone(), off);
                    }
                    _ => {}
                }
                let sought = find(&index, &names, &name, &mut SearchCost::default());
                assert_eq!(sought, model.get(&name).copied(), "{name}");
            }
            if compat {
                continue;
            }
            assert_eq!(index.audit() as usize, model.len());
            for (name, off) in &model {
                assert!(index.contains(index.hasher().hash(name.as_bytes()), *off));
            }
        }
    }
}

#[test]
fn what_cannot_be_followed_is_an_error() {
    let mut index = Index::new(512 * 10, NameHasher::Fnv1, false);
    assert_eq!(index.remove(7, 3, DirOff(0)), Err(DropReason::Inconsistent), "not there");
    assert_eq!(
        index.move_entry(7, DirOff(0), DirOff(12)),
        Err(DropReason::Inconsistent),
        "not there"
    );
    assert_eq!(index.add(7, 3, DirOff(512 * 10)), Err(DropReason::Inconsistent), "beyond the end");
    let mut index = Index::new(512 * 10, NameHasher::Fnv1, false);
    index.add(7, 255, DirOff(0)).unwrap();
    assert_eq!(
        index.add(8, 255, DirOff(264)),
        Err(DropReason::Inconsistent),
        "more than a chunk has"
    );
    let mut index = Index::new(512 * 10, NameHasher::Fnv1, false);
    index.add(7, 255, DirOff(512 * 5)).unwrap();
    assert_eq!(index.truncate(512), Err(DropReason::Inconsistent), "a truncated chunk is in use");
    for _ in 10..15 {
        index.add_chunk().unwrap();
    }
    assert_eq!(index.add_chunk(), Err(DropReason::Outgrown));
    let mut index = Index::new(512 * 100, NameHasher::Fnv1, false);
    assert_eq!(index.truncate(512 * 19), Ok(()), "an eighth of 150");
    assert_eq!(index.truncate(512 * 17), Err(DropReason::Shrunk));
}

/// Three quarters of the slots are the limit; deleted slots count.
#[test]
fn full_at_three_quarters() {
    let mut index = Index::new(512 * 100, NameHasher::Fnv1, false);
    let (slots, _) = index.slots();
    let mut n = 0;
    let why = loop {
        // 12-byte records, 42 to a chunk, 100 chunks: space for 4200; slots 6400.
        if n == 4200 {
            break None;
        }
        if let Err(why) = index.add(n, 1, DirOff(n / 42 * 512 + n % 42 * 12)) {
            break Some(why);
        }
        n += 1;
    };
    assert_eq!((why, slots), (None, 6400));
    for _ in 0..50 {
        index.add_chunk().unwrap();
    }
    let why = (4200..).find_map(|n| index.add(n, 1, DirOff(n / 42 * 512 + n % 42 * 12)).err());
    assert_eq!(why, Some(DropReason::Full));
    assert_eq!(index.slots(), (6400, 4800));
}

/// Creating and deleting one name in turn leaves no deleted slots behind.
#[test]
fn deleted_slots_come_back() {
    for which in FUNCTIONS {
        let names: Vec<String> = (0..1000).map(|i| format!("file{i}")).collect();
        let (mut index, _) = build(&names, 512 * 40, which);
        let before = index.slots();
        for i in 0..1_000_000 {
            let hash = index.hasher().hash(format!("tmp{}", i % 7).as_bytes());
            index.add(hash, 4, DirOff(512 * 30)).unwrap();
            index.remove(hash, 4, DirOff(512 * 30)).unwrap();
        }
        assert_eq!(index.slots(), before);
    }
}

#[test]
fn numbered_names_do_not_cluster() {
    let names: Vec<String> = (0..30_000).map(|i| format!("file{i:06}")).collect();
    let missing: Vec<String> = (30_000..60_000).map(|i| format!("file{i:06}")).collect();
    for which in FUNCTIONS {
        let (hit, miss) = probes(&names, &missing, 20, which);
        println!("{which:?}: {hit:.2} probes a hit, {miss:.2} a miss");
        // At a load of 0.4 linear probing of evenly spread hashes needs 1.3 and 1.9 probes. Without
        // a salt, names that differ in their last digit have neighbouring hashes; other functions
        // then need a hundred probes.
        let (most_hit, most_miss) =
            if which == DirHashFunction::Fnv1 { (6.0, 9.0) } else { (1.5, 2.2) };
        assert!(hit < most_hit && miss < most_miss, "{which:?}: {hit} {miss}");
    }
}

/// Pairs of four bytes that both take FNV-1 from one state to the same state: 2^16 names with one
/// hash.
fn colliding(count: usize) -> Vec<String> {
    let step = |h: u32, b: u8| h.wrapping_mul(0x0100_0193) ^ u32::from(b);
    let letters = b"abcdefghijklmnopqrstuvwxyz012345";
    let mut state = 0x0200_0023;
    let mut pairs = Vec::new();
    while pairs.len() < 16 {
        let mut seen: HashMap<u32, [u8; 4]> = HashMap::default();
        for n in 0u32.. {
            let part = [0, 5, 10, 15].map(|s| letters[(n >> s) as usize % 32]);
            let after = part.iter().fold(state, |h, b| step(h, *b));
            if let Some(other) = seen.insert(after, part) {
                pairs.push([other, part]);
                state = after;
                break;
            }
        }
    }
    let name = |i: usize| {
        let parts = pairs.iter().enumerate().flat_map(|(bit, pair)| pair[i >> bit & 1]);
        String::from_utf8(parts.collect()).unwrap()
    };
    (0..count).map(name).collect()
}

#[test]
fn colliding_names_do_not_collide_under_a_key() {
    let names = colliding(60_000);
    let plain = NameHasher::Fnv1;
    let all = plain.hash(names[0].as_bytes());
    assert!(names.iter().all(|n| plain.hash(n.as_bytes()) == all), "they are what they should be");
    let (in_it, missing) = names.split_at(50_000);
    // The index has as many slots as 12-byte records would need: the load is much higher than in a
    // directory.
    let (hit, miss) = probes(in_it, missing, 12, DirHashFunction::SipHash);
    println!("{hit:.2} probes a hit, {miss:.2} a miss");
    assert!(hit < 2.5 && miss < 7.0, "{hit} {miss}");
}

#[test]
fn the_prediction_is_tried_first_and_never_believed() {
    let names: Vec<String> = (0..100).map(|i| format!("n{i}")).collect();
    let (index, at) = build(&names, 512 * 5, DirHashFunction::SipHash);
    let look = |name: &str, q: u32| {
        let mut work = SearchCost::default();
        let hash = index.hasher().hash(name.as_bytes());
        let same = |off: DirOff| Ok::<_, ()>(at[&off.0] == name);
        let found = index.search(hash, Some(DirOff(q)), &mut work, same).unwrap();
        (found.map(|o| o.0), work.predicted)
    };
    assert_eq!(look("n7", 28), (Some(28), Some(true)));
    assert_eq!(look("n7", 24), (Some(28), None), "another's record");
    assert_eq!(look("n7", u32::MAX - 3), (Some(28), None), "no record's place");
    assert_eq!(look("m7", 28), (None, None));
}

#[test]
fn memory_is_the_papers() {
    println!("struct {} bytes", size_of::<Index>());
    for size in [36_864u32, 169_984, 530_944, 8 << 20, 64 << 20] {
        let (charge, paper) = (Index::charge_for(size) as f64, 278.0 + 0.507 * f64::from(size));
        println!("{size}: {charge} bytes, the paper's formula {paper:.0}");
        assert!((charge / paper - 1.0).abs() < 0.10, "{size}: {charge} {paper}");
    }
    let index = Index::new(530_944, NameHasher::Fnv1, false);
    assert_eq!((index.charge(), index.slots().0), (Index::charge_for(530_944), 66_560));
    // Without the struct: 260 blocks of 256 slots and their pointers, 1556 chunks.
    assert_eq!(index.charge() - size_of::<Index>() as u64, 260 * (1024 + 8) + 1556);
}

/// The chunk with the least sufficient space is chosen, of several the first; the last class is any
/// amount.
#[test]
fn space_is_found_in_the_last_class() {
    for compat in [false, true] {
        let mut index = Index::new(512 * 10, NameHasher::Fnv1, compat);
        // Every chunk has one small record: 125 words are free.
        for n in 0..10 {
            index.add(n, 1, DirOff(n * 512)).unwrap();
        }
        let mut found = 0;
        while let Some(at) = index.find_free(255) {
            found += 1;
            index.add(1000 + found, 255, DirOff(at.0 + 12)).unwrap();
            assert!(found <= 10);
        }
        // The code that the paper measured compared the amount with the number of the class, and
        // found only the first chunk.
        assert_eq!(found, if compat { 1 } else { 10 }, "compat: {compat}");
        assert!(index.find_free(40).is_some());
    }
}

#[test]
fn useful_end() {
    let mut index = Index::new(512 * 6, NameHasher::Fnv1, false);
    index.add(1, 1, DirOff(0)).unwrap();
    index.add(2, 1, DirOff(512 * 3)).unwrap();
    assert_eq!(index.end_useful(), 512 * 4);
    index.truncate(512 * 4).unwrap();
    index.remove(2, 1, DirOff(512 * 3)).unwrap();
    assert_eq!((index.end_useful(), index.size()), (512, 512 * 4));
    index.truncate(512).unwrap();
    index.audit();
}

fn pool(maxmem: u64) -> (Arc<Pool>, Arc<Tunables>, Arc<Counters>) {
    let values = TunableValues { dirhash_maxmem: Limit::Of(maxmem), ..TunableValues::default() };
    let (tunables, counters) = (Arc::new(Tunables::new(&values)), Arc::new(Counters::default()));
    (Pool::new(Arc::clone(&tunables), Arc::clone(&counters), 5), tunables, counters)
}

/// Uses the index as the directory code does; returns whether there was one.
fn access(hash: &DirHash) -> bool {
    if hash.read_index().is_none() && hash.build(4096, |_| Some(0)).is_err() {
        return false;
    }
    hash.touch();
    true
}

/// `spec/directories-and-caches.md` §9.4: a hundred directories, a pool for twelve.
#[test]
fn a_pool_too_small_builds_once_in_eight_accesses() {
    const SEED: u64 = 77;
    println!("seed {SEED}");
    let rng = SplitMix64::new(SEED);
    let (pool, _, counters) = pool(64 << 10);
    let dirs: Vec<DirHash> = (0..100).map(|_| DirHash::new(&pool)).collect();
    let fit = (64 << 10) / Index::charge_for(4096);
    for round in [true, false] {
        let before = counters.values();
        for i in 0..8000u64 {
            let which = if round { i % 100 } else { rng.below(100) };
            access(&dirs[which as usize]);
            assert!(pool.used() <= 64 << 10);
        }
        let after = counters.values();
        let (builds, refused) = (
            after.dirhash_builds - before.dirhash_builds,
            after.dirhash_refused_memory - before.dirhash_refused_memory,
        );
        println!("{builds} builds, {refused} refusals, {fit} fit");
        assert!(builds <= 8000 / 8 + fit, "{builds} builds");
        assert!(refused > 4000 && after.dirhash_recycled > 0);
    }
    assert_eq!(pool.audit() as u64, fit);
    drop(dirs);
    assert_eq!((pool.audit(), pool.used()), (0, 0), "memory goes with the inodes");
}

/// An index that is used more is kept.
#[test]
fn a_working_set_that_fits_stays() {
    let (pool, _, counters) = pool(64 << 10);
    let dirs: Vec<DirHash> = (0..30).map(|_| DirHash::new(&pool)).collect();
    let fit = ((64 << 10) / Index::charge_for(4096)) as usize;
    let (often, rare) = dirs.split_at(fit - 2);
    let mut missed = 0;
    for i in 0..20_000 {
        missed += u64::from(!access(&often[i % often.len()]));
        if i % 10 == 0 {
            access(&rare[i / 10 % rare.len()]);
        }
    }
    println!("{missed} missed, {} recycled", counters.values().dirhash_recycled);
    assert!(counters.values().dirhash_recycled > 0, "the others come and go");
    assert!(missed < 1000, "{missed} of 20000 in vain");
}

#[test]
fn recycled_indexes_are_built_again() {
    let (pool, tunables, _) = pool(64 << 10);
    let dir = DirHash::new(&pool);
    assert!(access(&dir));
    pool.lowmem();
    assert!(
        dir.read_index().is_none() && !dir.update(|_| Ok(())),
        "a missing index is not updated"
    );
    assert!(access(&dir) && dir.update(|_| Ok(())));
    // An index that is being read is not recycled.
    let guard = dir.read_index();
    tunables.set("dirhash_maxmem", "0").unwrap();
    pool.shrink_to_limit();
    assert!(guard.is_some() && !pool.is_usable());
    drop(guard);
    assert!(!pool.is_usable() && dir.read_index().is_none());
    assert_eq!(pool.used(), 0);
}

#[test]
fn pools_of_nothing() {
    for bytes in [0, 1] {
        let (pool, _, counters) = pool(bytes);
        assert_eq!(pool.is_usable(), bytes > 0);
        assert!(!access(&DirHash::new(&pool)));
        assert_eq!((pool.used(), counters.values().dirhash_refused_large), (0, 1));
    }
}

#[test]
fn no_index_takes_more_than_half() {
    let charge = Index::charge_for(4096);
    for (limit, fits) in [(charge * 2, true), (charge * 2 - 1, false)] {
        let (pool, ..) = pool(limit);
        let dir = DirHash::new(&pool);
        assert_eq!(access(&dir), fits, "{limit}");
    }
}

#[test]
fn memory_pressure_takes_the_old_and_a_share() {
    let (pool, tunables, counters) = pool(1 << 20);
    tunables.set("vfs.ufs.dirhash_reclaimage", "60").unwrap();
    tunables.set("vfs.ufs.dirhash_reclaimpercent", "10").unwrap();
    let dirs: Vec<DirHash> = (0..20).map(|_| DirHash::new(&pool)).collect();
    pool.set_time(1000);
    assert!(dirs.iter().all(access));
    pool.set_time(1061);
    assert!(dirs.iter().skip(15).all(access));
    pool.lowmem();
    assert_eq!(pool.audit(), 5, "fifteen are older than a minute");
    pool.lowmem();
    assert_eq!(pool.audit(), 4, "a tenth, rounded up to a whole one");
    tunables.set("vfs.ufs.dirhash_reclaimpercent", "0").unwrap();
    pool.lowmem();
    assert_eq!(pool.audit(), 4);
    tunables.set("vfs.ufs.dirhash_reclaimage", "0").unwrap();
    pool.set_time(9000);
    pool.lowmem();
    assert_eq!(pool.audit(), 4, "age does not count");
    tunables.set("vfs.ufs.dirhash_reclaimpercent", "100").unwrap();
    pool.lowmem();
    assert_eq!((pool.audit(), counters.values().dirhash_lowmem), (0, 5));
}

/// A build that fails releases its reservation.
#[test]
fn failed_builds_leave_nothing() {
    let (pool, ..) = pool(1 << 20);
    let dir = DirHash::new(&pool);
    assert!(dir.build(4096, |_| None).is_err());
    assert_eq!((pool.used(), pool.audit()), (0, 0));
    assert!(dir.build(4096, |_| Some(3)).is_ok());
    assert!(dir.build(4096, |_| unreachable!()).is_ok(), "there is one");
    assert_eq!(pool.audit(), 1);
}
