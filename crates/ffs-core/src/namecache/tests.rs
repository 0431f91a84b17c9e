//! The rules row by row, and the cache against a map.

use super::*;
use ffs_testkit::rng::SplitMix64;
use std::collections::BTreeMap;

/// An inode in memory.
type File = Arc<(Ino, Links)>;

/// Inodes in memory.
struct Table(BTreeMap<Ino, File>);

impl Table {
    fn links(&self, ino: Ino) -> &Links {
        self.0.get(&ino).unwrap().links()
    }
}

impl Vnodes for Table {
    type Handle = File;

    fn get(&self, ino: Ino) -> Option<&File> {
        self.0.get(&ino)
    }
}

impl Handle for File {
    fn links(&self) -> &Links {
        &self.1
    }

    fn prefetch(&self) {}
}

const D: Ino = Ino(2);
const E: Ino = Ino(3);
const F: Ino = Ino(10);
const G: Ino = Ino(11);

/// A cache with its inodes.
struct Bench {
    c: NameCache<File>,
    t: Table,
    limits: Limits,
}

fn found(found: Found<File>) -> Found<Ino> {
    match found {
        Found::File(file) => Found::File(file.0),
        Found::Absent => Found::Absent,
        Found::Unknown => Found::Unknown,
    }
}

fn file(ino: Ino) -> (Ino, File) {
    let links = Links::default();
    links.set_here(true);
    (ino, Arc::new((ino, links)))
}

impl Bench {
    fn new(inodes: impl IntoIterator<Item = Ino>) -> Bench {
        Bench {
            c: NameCache::new(true, 7, Arc::new(Counters::default())),
            t: Table(inodes.into_iter().map(file).collect()),
            limits: Limits { most: 1 << 20, negatives_one_in: 1 },
        }
    }

    fn find(&mut self, dir: Ino, name: &[u8]) -> Found<Ino> {
        found(self.c.find(dir, name))
    }

    fn purge(&mut self, ino: Ino) {
        self.c.purge(&self.t, self.t.links(ino));
    }

    fn purge_all(&mut self) {
        self.c.purge_all(&self.t, self.t.0.values().map(Handle::links));
    }

    fn enter(&mut self, dir: Ino, name: &[u8], target: Option<Ino>) {
        let file =
            |ino| self.t.get(ino).cloned().unwrap_or_else(|| Arc::new((ino, Links::default())));
        let (from, to) = (file(dir), target.map(file));
        let to = target.zip(to.as_ref());
        self.c.enter(&self.t, self.limits, (dir, from.links(), name), to);
    }

    fn zap(&mut self, dir: Ino, name: &[u8]) {
        self.c.zap(&self.t, dir, name);
    }

    /// misses, misszaps, poszaps, poshits, negzaps, neghits.
    fn counts(&self) -> [u64; 6] {
        let c = self.c.counters.values();
        [
            c.cache_nummiss,
            c.cache_nummisszap,
            c.cache_numposzaps,
            c.cache_numposhits,
            c.cache_numnegzaps,
            c.cache_numneghits,
        ]
    }
}

#[test]
fn every_row_of_the_rules() {
    let mut b = Bench::new([D, F]);
    assert_eq!(b.find(D, b"f"), Found::Unknown);
    assert_eq!(b.counts(), [1, 0, 0, 0, 0, 0], "no entry, wanted");
    b.zap(D, b"f");
    assert_eq!(b.counts(), [1, 1, 0, 0, 0, 0], "no entry, not wanted");
    b.enter(D, b"f", Some(F));
    assert_eq!(b.find(D, b"f"), Found::File(F));
    assert_eq!(b.counts(), [1, 1, 0, 1, 0, 0], "positive, wanted");
    b.zap(D, b"f");
    assert_eq!(b.counts(), [1, 1, 1, 1, 0, 0], "positive, not wanted");
    assert_eq!(b.find(D, b"f"), Found::Unknown);
    b.enter(D, b"f", None);
    assert_eq!(b.find(D, b"f"), Found::Absent);
    assert_eq!(b.counts(), [2, 1, 1, 1, 0, 1], "negative, wanted");
    b.zap(D, b"f");
    assert_eq!(b.counts(), [2, 1, 1, 1, 1, 1], "negative, not wanted");
    assert_eq!(b.find(D, b"f"), Found::Unknown);
    assert_eq!((b.c.len(), b.c.negatives()), (0, 0));
    let c = b.c.counters.values();
    assert_eq!(c.nchstats(), [1, 1, 2, 0, 4, 0, 0, 0]);
    assert_eq!((c.cache_numcalls(), c.cache_numchecks), (8, 4));
}

#[test]
fn names_of_all_lengths_and_bytes_are_told_apart() {
    let mut b = Bench::new((2..600).map(Ino));
    let names: Vec<Vec<u8>> = (1..=255).map(|len| vec![(len % 7) as u8; len]).collect();
    for (i, name) in names.iter().enumerate() {
        b.enter(D, name, Some(Ino(10 + i as u32)));
        b.enter(E, name, Some(Ino(300 + i as u32)));
    }
    for (i, name) in names.iter().enumerate() {
        assert_eq!(b.find(D, name), Found::File(Ino(10 + i as u32)));
        assert_eq!(b.find(E, name), Found::File(Ino(300 + i as u32)));
        let mut other = name.clone();
        *other.last_mut().unwrap() ^= 1;
        assert_eq!(b.find(D, &other), Found::Unknown);
    }
    assert_eq!(b.c.len(), 510);
    let long = b.c.entries.bytes();
    b.purge(D);
    assert!(b.c.entries.bytes() < long, "long names are given back");
    assert!(names.iter().all(|n| found(b.c.find(D, n)) == Found::Unknown));
    assert!(names.iter().all(|n| found(b.c.find(E, n)) != Found::Unknown));
    b.purge_all();
    assert_eq!((b.c.len(), b.c.bytes()), (0, 0));
}

#[test]
fn negative_entries_keep_to_their_share_and_the_oldest_goes() {
    let mut b = Bench::new((2..1000).map(Ino));
    b.limits.negatives_one_in = 16;
    b.enter(D, b"n", None);
    assert_eq!(b.c.len(), 0, "one of one is too many");
    for i in 0..150u32 {
        b.enter(D, format!("f{i}").as_bytes(), Some(Ino(10 + i)));
    }
    for i in 0..10 {
        b.enter(D, format!("n{i}").as_bytes(), None);
        assert!(b.c.negatives() * 16 <= b.c.len());
    }
    // 150 + 10 entries allow 10. The one asked for last outlives those entered after it.
    assert_eq!(b.c.negatives(), 10);
    assert_eq!(b.find(D, b"n0"), Found::Absent);
    b.enter(D, b"n10", None);
    assert_eq!(b.find(D, b"n1"), Found::Unknown);
    assert_eq!(b.find(D, b"n0"), Found::Absent);
    assert_eq!(b.c.counters.values().cache_numnegevicted, 2);
    // Fewer names, fewer absences: at the next insertion.
    for i in 0..100u32 {
        b.zap(D, format!("f{i}").as_bytes());
    }
    b.enter(D, b"last", Some(F));
    assert!(b.c.negatives() * 16 <= b.c.len() && b.c.negatives() > 0);
}

#[test]
fn purging_takes_both_directions_and_only_those() {
    let mut b = Bench::new([D, E, F, G]);
    b.enter(D, b"e", Some(E));
    b.enter(D, b"f", Some(F));
    b.enter(E, b"f", Some(F));
    b.enter(E, b"g", Some(G));
    b.enter(E, b"none", None);
    b.enter(D, b"none", None);
    b.c.set_parent(b.t.links(E), D);
    assert_eq!(b.c.parent(b.t.links(E)), Some(D));
    assert!(b.t.links(E).has_names() && !b.t.links(F).has_names());
    b.c.purge_negatives(&b.t, b.t.links(D));
    assert_eq!((b.find(D, b"none"), b.find(E, b"none")), (Found::Unknown, Found::Absent));
    b.purge(E);
    assert_eq!(b.c.parent(b.t.links(E)), None);
    assert_eq!(b.find(D, b"f"), Found::File(F));
    for (dir, name) in [(D, &b"e"[..]), (E, b"f"), (E, b"g"), (E, b"none")] {
        assert_eq!(b.find(dir, name), Found::Unknown);
    }
    assert!(!b.t.links(E).has_names());
    b.purge(F);
    assert_eq!((b.c.len(), b.c.negatives()), (0, 0));
}

#[test]
fn nothing_is_entered_beyond_the_limit_without_inodes_or_switched_off() {
    let mut b = Bench::new([D, F]);
    b.enter(D, b"g", Some(G));
    b.enter(E, b"f", Some(F));
    b.enter(E, b"none", None);
    assert_eq!(b.c.len(), 0, "inodes that are not in memory");
    b.limits.most = 2;
    for name in [b"a", b"b", b"c"] {
        b.enter(D, name, Some(F));
    }
    assert_eq!((b.c.len(), b.c.counters.values().cache_refused), (2, 1));
    b.c.switch(false);
    b.purge_all();
    let before = b.counts();
    b.limits.most = 10;
    b.enter(D, b"a", Some(F));
    b.zap(D, b"a");
    b.c.set_parent(b.t.links(D), D);
    assert_eq!((b.find(D, b"a"), b.c.parent(b.t.links(D))), (Found::Unknown, None));
    assert_eq!((b.counts(), b.c.len()), (before, 0), "off: nothing is counted either");
}

/// Random histories: what the cache answers is what was entered last and not taken out since.
#[test]
fn agrees_with_a_map() {
    const SEED: u64 = 0xcac4_e5ee;
    println!("seed {SEED:#x}");
    let mut rng = SplitMix64::new(SEED);
    let mut b = Bench::new((2..40).map(Ino));
    b.limits = Limits { most: 300, negatives_one_in: 4 };
    let mut model = BTreeMap::<(Ino, Vec<u8>), Option<Ino>>::new();
    for step in 0..60_000 {
        let dir = Ino(2 + rng.below(6) as u32);
        let len = [3, 35, 36, 200][rng.below(4) as usize];
        let mut name = vec![b'x'; len];
        name[0] = rng.below(30) as u8;
        let key = (dir, name.clone());
        match rng.below(20) {
            0..=6 => {
                let target = rng.one_in(3).then(|| Ino(2 + rng.below(40) as u32));
                b.enter(dir, &name, target);
                model.insert(key, target);
            }
            7..=9 => {
                b.zap(dir, &name);
                model.remove(&key);
            }
            10 if rng.one_in(8) => {
                let ino = Ino(2 + rng.below(38) as u32);
                b.purge(ino);
                model.retain(|(from, _), to| *from != ino && *to != Some(ino));
            }
            11 if rng.one_in(8) => {
                b.c.purge_negatives(&b.t, b.t.links(dir));
                model.retain(|(from, _), to| *from != dir || to.is_some());
            }
            12 if rng.one_in(500) => {
                b.purge_all();
                model.clear();
            }
            _ => match b.find(dir, &name) {
                Found::Unknown => {}
                Found::File(ino) => assert_eq!(model.get(&key), Some(&Some(ino)), "step {step}"),
                Found::Absent => assert_eq!(model.get(&key), Some(&None), "step {step}"),
            },
        }
        assert!(b.c.len() <= 300 && b.c.len() <= model.len(), "step {step}");
        let names = model.values().flatten().count();
        assert!(b.c.len() - b.c.negatives() <= names, "step {step}");
    }
    let known = model.keys().cloned().collect::<Vec<_>>();
    let hits = known.iter().filter(|(d, n)| found(b.c.find(*d, n)) != Found::Unknown).count();
    assert_eq!(hits, b.c.len(), "every entry can be found");
    assert!(hits > 20);
}
