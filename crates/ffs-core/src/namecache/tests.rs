//! Every case of the lookup rules, and the cache against a map.

use super::*;
use ffs_testkit::rng::SplitMix64;
use std::collections::BTreeMap;

/// An inode in memory.
type File = Arc<(Ino, NameLinks)>;

/// Inodes in memory.
struct Table(BTreeMap<Ino, File>);

impl Table {
    fn links(&self, ino: Ino) -> &NameLinks {
        self.0.get(&ino).unwrap().links()
    }
}

impl VnodeTable for Table {
    type Ref = File;

    fn get(&self, ino: Ino) -> Option<&File> {
        self.0.get(&ino)
    }
}

impl VnodeRef for File {
    fn links(&self) -> &NameLinks {
        &self.1
    }

    fn prefetch(&self) {}
}

const D: Ino = Ino(2);
const E: Ino = Ino(3);
const F: Ino = Ino(10);
const G: Ino = Ino(11);

/// A cache and a table of inodes.
struct Bench {
    c: NameCache<File>,
    t: Table,
    limits: NameCacheLimits,
}

fn found(found: CacheLookup<File>) -> CacheLookup<Ino> {
    match found {
        CacheLookup::Positive(file) => CacheLookup::Positive(file.0),
        CacheLookup::Negative => CacheLookup::Negative,
        CacheLookup::Miss => CacheLookup::Miss,
    }
}

fn file(ino: Ino) -> (Ino, File) {
    let links = NameLinks::default();
    links.set_resident(true);
    (ino, Arc::new((ino, links)))
}

impl Bench {
    fn new(inodes: impl IntoIterator<Item = Ino>) -> Bench {
        Bench {
            c: NameCache::new(true, 7, Arc::new(Counters::default())),
            t: Table(inodes.into_iter().map(file).collect()),
            limits: NameCacheLimits { entries: 1 << 20, neg_factor: 1 },
        }
    }

    fn find(&mut self, dir: Ino, name: &[u8]) -> CacheLookup<Ino> {
        let found = found(self.c.lookup(dir, name));
        if found == CacheLookup::Negative {
            self.c.note_negative(dir, name);
        }
        found
    }

    fn purge(&mut self, ino: Ino) {
        self.c.purge(&self.t, self.t.links(ino));
    }

    fn purge_all(&mut self) {
        self.c.purge_all(&self.t, self.t.0.values().map(VnodeRef::links));
    }

    fn enter(&mut self, dir: Ino, name: &[u8], target: Option<Ino>) {
        let file =
            |ino| self.t.get(ino).cloned().unwrap_or_else(|| Arc::new((ino, NameLinks::default())));
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
fn every_case_of_the_rules() {
    let mut b = Bench::new([D, F]);
    assert_eq!(b.find(D, b"f"), CacheLookup::Miss);
    assert_eq!(b.counts(), [1, 0, 0, 0, 0, 0], "no entry, wanted");
    b.zap(D, b"f");
    assert_eq!(b.counts(), [1, 1, 0, 0, 0, 0], "no entry, not wanted");
    b.enter(D, b"f", Some(F));
    assert_eq!(b.find(D, b"f"), CacheLookup::Positive(F));
    assert_eq!(b.counts(), [1, 1, 0, 1, 0, 0], "positive, wanted");
    b.zap(D, b"f");
    assert_eq!(b.counts(), [1, 1, 1, 1, 0, 0], "positive, not wanted");
    assert_eq!(b.find(D, b"f"), CacheLookup::Miss);
    b.enter(D, b"f", None);
    assert_eq!(b.find(D, b"f"), CacheLookup::Negative);
    assert_eq!(b.counts(), [2, 1, 1, 1, 0, 1], "negative, wanted");
    b.zap(D, b"f");
    assert_eq!(b.counts(), [2, 1, 1, 1, 1, 1], "negative, not wanted");
    assert_eq!(b.find(D, b"f"), CacheLookup::Miss);
    assert_eq!((b.c.len(), b.c.negatives()), (0, 0));
    let c = b.c.counters.values();
    assert_eq!(c.nchstats(), [1, 1, 2, 0, 4, 0, 0, 0]);
    assert_eq!((c.cache_numcalls(), c.cache_numchecks), (8, 4));
}

#[test]
fn names_of_all_lengths_and_bytes_are_distinguished() {
    let mut b = Bench::new((2..600).map(Ino));
    let names: Vec<Vec<u8>> = (1..=255).map(|len| vec![(len % 7) as u8; len]).collect();
    for (i, name) in names.iter().enumerate() {
        b.enter(D, name, Some(Ino(10 + i as u32)));
        b.enter(E, name, Some(Ino(300 + i as u32)));
    }
    for (i, name) in names.iter().enumerate() {
        assert_eq!(b.find(D, name), CacheLookup::Positive(Ino(10 + i as u32)));
        assert_eq!(b.find(E, name), CacheLookup::Positive(Ino(300 + i as u32)));
        let mut other = name.clone();
        *other.last_mut().unwrap() ^= 1;
        assert_eq!(b.find(D, &other), CacheLookup::Miss);
    }
    assert_eq!(b.c.len(), 510);
    let long = b.c.entries.bytes();
    b.purge(D);
    assert!(b.c.entries.bytes() < long, "the memory of long names is freed");
    assert!(names.iter().all(|n| found(b.c.lookup(D, n)) == CacheLookup::Miss));
    assert!(names.iter().all(|n| found(b.c.lookup(E, n)) != CacheLookup::Miss));
    b.purge_all();
    assert_eq!((b.c.len(), b.c.bytes()), (0, 0));
}

#[test]
fn negative_entries_keep_to_their_share_and_the_oldest_is_evicted() {
    let mut b = Bench::new((2..1000).map(Ino));
    b.limits.neg_factor = 16;
    b.enter(D, b"n", None);
    assert_eq!(b.c.len(), 0, "one of one is too many");
    for i in 0..150u32 {
        b.enter(D, format!("f{i}").as_bytes(), Some(Ino(10 + i)));
    }
    for i in 0..10 {
        b.enter(D, format!("n{i}").as_bytes(), None);
        assert!(b.c.negatives() * 16 <= b.c.len());
    }
    // 150 + 10 entries allow 10. The one looked up last outlives those entered after it.
    assert_eq!(b.c.negatives(), 10);
    assert_eq!(b.find(D, b"n0"), CacheLookup::Negative);
    b.enter(D, b"n10", None);
    assert_eq!(b.find(D, b"n1"), CacheLookup::Miss);
    assert_eq!(b.find(D, b"n0"), CacheLookup::Negative);
    assert_eq!(b.c.counters.values().cache_numnegevicted, 2);
    // The next insertion evicts until the share of negative entries is right again.
    for i in 0..100u32 {
        b.zap(D, format!("f{i}").as_bytes());
    }
    b.enter(D, b"last", Some(F));
    assert!(b.c.negatives() * 16 <= b.c.len() && b.c.negatives() > 0);
}

#[test]
fn purge_removes_names_in_and_of_an_inode_only() {
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
    assert_eq!(
        (b.find(D, b"none"), b.find(E, b"none")),
        (CacheLookup::Miss, CacheLookup::Negative)
    );
    b.purge(E);
    assert_eq!(b.c.parent(b.t.links(E)), None);
    assert_eq!(b.find(D, b"f"), CacheLookup::Positive(F));
    for (dir, name) in [(D, &b"e"[..]), (E, b"f"), (E, b"g"), (E, b"none")] {
        assert_eq!(b.find(dir, name), CacheLookup::Miss);
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
    b.limits.entries = 2;
    for name in [b"a", b"b", b"c"] {
        b.enter(D, name, Some(F));
    }
    assert_eq!((b.c.len(), b.c.counters.values().cache_refused), (2, 1));
    b.c.set_on(false);
    b.purge_all();
    let before = b.counts();
    b.limits.entries = 10;
    b.enter(D, b"a", Some(F));
    b.zap(D, b"a");
    b.c.set_parent(b.t.links(D), D);
    assert_eq!((b.find(D, b"a"), b.c.parent(b.t.links(D))), (CacheLookup::Miss, None));
    assert_eq!((b.counts(), b.c.len()), (before, 0), "off: nothing is counted either");
}

/// Over random histories a hit is the value that was entered last and not removed since.
#[test]
fn agrees_with_a_map() {
    const SEED: u64 = 0xcac4_e5ee;
    println!("seed {SEED:#x}");
    let mut rng = SplitMix64::new(SEED);
    let mut b = Bench::new((2..40).map(Ino));
    b.limits = NameCacheLimits { entries: 300, neg_factor: 4 };
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
                CacheLookup::Miss => {}
                CacheLookup::Positive(ino) => {
                    assert_eq!(model.get(&key), Some(&Some(ino)), "step {step}")
                }
                CacheLookup::Negative => assert_eq!(model.get(&key), Some(&None), "step {step}"),
            },
        }
        assert!(b.c.len() <= 300 && b.c.len() <= model.len(), "step {step}");
        let names = model.values().flatten().count();
        assert!(b.c.len() - b.c.negatives() <= names, "step {step}");
    }
    let known = model.keys().cloned().collect::<Vec<_>>();
    let hits = known.iter().filter(|(d, n)| found(b.c.lookup(*d, n)) != CacheLookup::Miss).count();
    assert_eq!(hits, b.c.len(), "every entry can be found");
    assert!(hits > 20);
}
