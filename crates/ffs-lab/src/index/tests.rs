//! Every index against the linear search, and against damaged blocks.

use std::collections::BTreeMap;

use ffs_device::{Rng, SplitMix64};

use super::error::IndexError;
use super::hash::HashVersion;
use super::store::{Image, MemoryStore};
use super::{Index, IndexKind};

const INDEXES: [IndexKind; 4] =
    [IndexKind::Control, IndexKind::Chunk, IndexKind::Htree, IndexKind::Btree];
/// The smallest blocks, so that few names make deep trees.
const BLOCK: usize = 1024;

fn open(kind: IndexKind, store: &MemoryStore, hash: HashVersion) -> Box<dyn Index> {
    kind.open_with(Box::new(store.clone()), hash).unwrap()
}

fn listed(index: &mut dyn Index) -> BTreeMap<Vec<u8>, u32> {
    let mut all = BTreeMap::new();
    index
        .list(&mut |name, ino| {
            let twice = all.insert(name.to_vec(), ino);
            assert_eq!(twice, None, "{} is listed twice", name.escape_ascii());
        })
        .unwrap();
    all
}

/// A source of names.
type Names = fn(&SplitMix64) -> Vec<u8>;

fn numbers(rng: &SplitMix64) -> Vec<u8> {
    format!("file{}", rng.below(3000)).into_bytes()
}

/// Names of every length, with every byte that a name may have.
fn any_length(rng: &SplitMix64) -> Vec<u8> {
    let length = 1 + rng.below(255);
    let own = SplitMix64::new(rng.below(400));
    let byte = |_| match (own.below(255) + 1) as u8 {
        b'/' => b'-',
        byte => byte,
    };
    (0..length).map(byte).collect()
}

/// Random operations on `kind` and on a map, with reopening in between.
fn compare((kind, hash): (IndexKind, HashVersion), names: Names, seed: u64, operations: u32) {
    println!("{} with {hash:?} and seed {seed}", kind.name());
    let rng = SplitMix64::new(seed);
    let store = MemoryStore::new(BLOCK);
    let mut index = open(kind, &store, hash);
    let mut linear = open(IndexKind::Control, &MemoryStore::new(BLOCK), hash);
    for n in 0..operations {
        let name = names(&rng);
        // Phases in which the directory grows, and phases in which it shrinks.
        let grows = (n / (operations / 6).max(1)).is_multiple_of(2);
        match rng.below(10) {
            0 | 1 => assert_eq!(index.lookup(&name).unwrap(), linear.lookup(&name).unwrap()),
            2..=6 if grows => insert_both(&mut *index, &mut *linear, &name, n + 1),
            2 if !grows => insert_both(&mut *index, &mut *linear, &name, n + 1),
            _ => assert_eq!(index.remove(&name).unwrap(), linear.remove(&name).unwrap()),
        }
        if rng.below(500) == 0 {
            assert_eq!(listed(&mut *index), listed(&mut *linear));
            index.check().unwrap();
            index = open(kind, &store, hash);
        }
    }
    let all = listed(&mut *index);
    assert_eq!(all, listed(&mut *linear));
    for (name, ino) in &all {
        assert_eq!(index.remove(name).unwrap(), Some(*ino), "{}", name.escape_ascii());
    }
    index.check().unwrap();
    assert!(listed(&mut *index).is_empty());
    // The emptied directory takes the names again.
    for (name, ino) in &all {
        index.insert(name, *ino).unwrap();
    }
    index.check().unwrap();
    assert_eq!(listed(&mut *index), all);
}

fn insert_both(index: &mut dyn Index, linear: &mut dyn Index, name: &[u8], ino: u32) {
    match (index.insert(name, ino), linear.insert(name, ino)) {
        (Ok(()), Ok(())) | (Err(IndexError::Exists), Err(IndexError::Exists)) => {}
        (one, other) => panic!("{}: {one:?}, linear {other:?}", name.escape_ascii()),
    }
}

fn seeds() -> impl Iterator<Item = u64> {
    let own = std::env::var("FFS_MODEL_SEED").ok().and_then(|seed| seed.parse().ok());
    let first: u64 = own.unwrap_or(2002);
    first..first + if own.is_some() { 1 } else { 3 }
}

#[test]
fn every_index_agrees_with_the_linear_search() {
    for kind in INDEXES {
        for seed in seeds() {
            compare((kind, HashVersion::HalfMd4), numbers, seed, 6000);
            compare((kind, HashVersion::HalfMd4), any_length, seed, 1500);
        }
    }
}

#[test]
fn names_whose_hashes_collide_are_distinct() {
    for kind in [IndexKind::Htree, IndexKind::Btree] {
        for seed in seeds() {
            compare((kind, HashVersion::Weak), numbers, seed, 4000);
            compare((kind, HashVersion::Legacy), numbers, seed, 4000);
            compare((kind, HashVersion::Tea), any_length, seed, 1000);
        }
    }
}

/// A directory with names, and its blocks.
fn filled(kind: IndexKind, names: u32) -> (MemoryStore, BTreeMap<Vec<u8>, u32>) {
    let store = MemoryStore::new(BLOCK);
    let mut index = open(kind, &store, HashVersion::HalfMd4);
    for n in 1..=names {
        index.insert(format!("name-{n}").as_bytes(), n).unwrap();
    }
    let all = listed(&mut *index);
    (store, all)
}

#[test]
fn damaged_blocks_give_errors_or_results_and_never_panic() {
    for kind in INDEXES {
        let (store, names) = filled(kind, 2500);
        let image = store.image().clone();
        for seed in seeds() {
            let rng = SplitMix64::new(seed);
            for round in 0..150 {
                let mut broken = image.clone();
                damage(&mut broken, &rng);
                let store = MemoryStore::of(BLOCK, broken);
                let opened = kind.open_with(Box::new(store), HashVersion::HalfMd4);
                let Ok(mut index) = opened else { continue };
                println!("{} with seed {seed}, round {round}", kind.name());
                for name in names.keys().step_by(97) {
                    drop(index.lookup(name));
                    drop(index.remove(name));
                    drop(index.insert(name, 7));
                    drop(index.insert(&[&name[..], b"+"].concat(), 8));
                }
                let mut count = 0;
                drop(index.list(&mut |_, _| count += 1));
                assert!(count <= 200_000, "a listing of {count} names");
                drop(index.check());
            }
        }
    }
}

/// Changes a few bytes or numbers of one block, or exchanges two blocks.
fn damage(image: &mut Image, rng: &SplitMix64) {
    let blocks = image.blocks.len() as u64;
    // The first blocks have the index.
    let pick = |rng: &SplitMix64| rng.below(if rng.below(2) == 0 { 4 } else { blocks }) as usize;
    match rng.below(4) {
        0 => {
            let (one, other) = (pick(rng), pick(rng));
            image.blocks.swap(one, other);
        }
        1 => image.blocks[pick(rng)].fill(rng.below(256) as u8),
        _ => {
            let block = pick(rng);
            for _ in 0..1 + rng.below(6) {
                let at = rng.below(if rng.below(2) == 0 { 64 } else { BLOCK as u64 }) as usize;
                let values = [0, 1, 2, 4, 0x7f, 0xff, rng.below(256) as u8];
                image.blocks[block][at] = values[rng.below(7) as usize];
            }
        }
    }
}

#[test]
fn a_full_tree_of_the_htree_is_an_error() {
    // 1024-byte blocks: 124 and 127 entries in the nodes; long names, so that leaves are few.
    let store = MemoryStore::new(BLOCK);
    let mut index = open(IndexKind::Htree, &store, HashVersion::HalfMd4);
    let name = |n: u32| format!("{n:0>250}").into_bytes();
    let mut n = 0;
    let error = loop {
        n += 1;
        if let Err(error) = index.insert(&name(n), n) {
            break error;
        }
    };
    assert!(matches!(error, IndexError::Full(_)), "{error}");
    assert!(n > 124 * 63, "full at {n} names");
    assert_eq!(index.lookup(&name(n)).unwrap(), None);
    assert_eq!(index.lookup(&name(n - 1)).unwrap(), Some(n - 1));
    index.check().unwrap();
}

/// The layout by which ext2's own tools recognise the index.
#[test]
fn the_root_of_the_htree_has_ext2s_bytes() {
    let (store, _) = filled(IndexKind::Htree, 300);
    let image = store.image();
    let root = &image.blocks[0];
    assert_eq!(root[0..12], [2, 0, 0, 0, 12, 0, 1, 2, b'.', 0, 0, 0]);
    assert_eq!(root[12..24], [2, 0, 0, 0, 0xf4, 3, 2, 2, b'.', b'.', 0, 0]);
    // Reserved, half-MD4, length 8, no inner levels, no flags; the limit of entries.
    assert_eq!(root[24..34], [0, 0, 0, 0, 1, 8, 0, 0, 124, 0]);
}

#[test]
fn names_that_no_directory_has_are_refused() {
    for kind in INDEXES {
        let mut index = open(kind, &MemoryStore::new(BLOCK), HashVersion::HalfMd4);
        for name in [&b""[..], b"a/b", b"a\0b", &[b'x'; 256]] {
            let refused = index.insert(name, 1);
            assert!(matches!(refused, Err(IndexError::BadName)), "{}", kind.name());
        }
        index.insert(&[b'x'; 255], 1).unwrap();
        assert!(matches!(index.insert(&[b'x'; 255], 2), Err(IndexError::Exists)));
    }
}
