//! Directories under an ordering mode that reserves the records of removed names for some time and
//! then frees them. The directories always agree with the model, and no reserved record is moved,
//! changed or used.

use super::*;
use crate::buf::WriteHooks;
use crate::ordering::{DirPos, Event, Ordering, ReservedMask, Response};
use crate::sync::Mutex;
use ffs_ondisk::DirOff;

/// The reserved records of the ordering mode.
#[derive(Debug, Default)]
struct Slots {
    /// The reserved records and their names.
    held: BTreeMap<(Ino, DirOff), Vec<u8>>,
    /// Freed records that [`Ordering::take_freed_entries`] has not returned yet.
    freed: BTreeSet<(Ino, DirOff)>,
    /// The number of the removal that reserved a record last.
    by: BTreeMap<(Ino, DirOff), u64>,
    /// The number of names that were entered in their reserved records.
    retaken: u64,
    reserved: u64,
}

/// Reserves removed names at random.
#[derive(Debug)]
struct Reserving {
    rng: SplitMix64,
    /// Reserved removals, percent.
    percent: u64,
    slots: Mutex<Slots>,
}

impl Reserving {
    fn new(seed: u64, percent: u64) -> Arc<Reserving> {
        Arc::new(Reserving { rng: SplitMix64::new(seed), percent, slots: Mutex::default() })
    }

    /// Frees each reserved record with a probability of one in `of`.
    fn free_some(&self, of: u64) {
        let mut s = self.slots.lock();
        let freed: Vec<_> = s.held.keys().copied().filter(|_| self.rng.below(of) == 0).collect();
        for at in freed {
            s.held.remove(&at);
            s.freed.insert(at);
        }
    }

    /// A removed name of `dir` whose record is reserved.
    fn some_name(&self, dir: Ino) -> Option<String> {
        let s = self.slots.lock();
        let all: Vec<_> = s.held.iter().filter(|((d, _), _)| *d == dir).collect();
        let nth = self.rng.below(all.len().max(1) as u64) as usize;
        let (_, name) = all.get(nth)?;
        Some(String::from_utf8((*name).clone()).unwrap()).filter(|n| !n.starts_with('.'))
    }

    fn reserved_beside(&self, at: DirPos) -> ReservedMask {
        self.reserved_in(at.dir, DirOff(at.off.0 / 512 * 512))
    }

    fn is_reserved(&self, at: DirPos) -> bool {
        let (s, at) = (self.slots.lock(), (at.dir, at.off));
        s.held.contains_key(&at) || s.freed.contains(&at)
    }
}

impl Reserving {
    fn entry_added(&self, at: DirPos, name: &[u8]) -> Response {
        let mut s = self.slots.lock();
        assert!(!s.freed.contains(&(at.dir, at.off)), "{name:?} entered before it was free");
        if let Some(was) = s.held.remove(&(at.dir, at.off)) {
            assert_eq!(was, name, "another name in a reserved record");
            s.retaken += 1;
        }
        let elsewhere = s.held.iter().find(|((dir, _), held)| *dir == at.dir && *held == name);
        assert!(elsewhere.is_none(), "{name:?} entered beside its reserved record");
        drop(s);
        Response { reserved: self.reserved_beside(at), ..Response::DELAY }
    }

    fn entry_removed(&self, at: DirPos, name: &[u8]) -> Response {
        assert!(!self.is_reserved(at));
        let reserve = self.rng.below(100) < self.percent;
        if reserve {
            let mut s = self.slots.lock();
            s.held.insert((at.dir, at.off), name.to_vec());
            s.reserved += 1;
            let nth = s.reserved;
            s.by.insert((at.dir, at.off), nth);
        }
        Response { reserved: self.reserved_beside(at), reserve, ..Response::DELAY }
    }
}

impl WriteHooks for Reserving {}

impl Ordering for Reserving {
    fn name(&self) -> &'static str {
        "reserving"
    }
    fn notify(&self, event: Event<'_>) -> Response {
        match event {
            Event::EntryAdded { at, name, .. } => self.entry_added(at, name),
            Event::EntryRemoved { at, name, .. } => self.entry_removed(at, name),
            Event::EntryReplaced { at, .. } => {
                assert!(!self.is_reserved(at));
                Response::DELAY
            }
            Event::EntryMoved { from, to, .. } => {
                assert!(!self.is_reserved(from) && !self.is_reserved(to));
                Response::DELAY
            }
            _ => Response::DELAY,
        }
    }
    fn has_reserved(&self, dir: Ino) -> bool {
        let s = self.slots.lock();
        s.held.keys().chain(&s.freed).any(|(d, _)| *d == dir)
    }
    fn reserved_in(&self, dir: Ino, base: DirOff) -> ReservedMask {
        let at = |k: u32| DirPos { dir, off: DirOff(base.0 + 4 * k) };
        (0..128).filter(|&k| self.is_reserved(at(k))).fold(0, |all, k| all | 1 << k)
    }
    fn reserved_for(&self, dir: Ino, name: &[u8]) -> Option<DirOff> {
        let s = self.slots.lock();
        s.held.iter().find(|((d, _), held)| *d == dir && *held == name).map(|((_, off), _)| *off)
    }
    fn take_freed_entries(&self, dir: Ino) -> Vec<DirOff> {
        let mut s = self.slots.lock();
        let (freed, rest) = std::mem::take(&mut s.freed).into_iter().partition(|(d, _)| *d == dir);
        s.freed = rest;
        let freed: BTreeSet<(Ino, DirOff)> = freed;
        // In random order.
        let mut freed: Vec<DirOff> = freed.into_iter().map(|(_, off)| off).collect();
        for i in (1..freed.len()).rev() {
            freed.swap(i, self.rng.below(i as u64 + 1) as usize);
        }
        freed
    }
}

/// The reserved records as they were first seen: offset and removal, then the bytes after the inode
/// number.
type Seen = BTreeMap<(DirOff, u64), Vec<u8>>;

/// Checks that every reserved record is unchanged. Returns their number.
fn check_reserved(d: Dir<'_>, mode: &Reserving, seen: &mut Seen) -> usize {
    let mut now = Seen::new();
    let found = d.walk(0..d.size(), |at, chunk| {
        for r in dir::records(d.fmt(), chunk) {
            let r = r?;
            let pos = DirPos { dir: d.ip.ino, off: DirOff(at + r.off as u32) };
            if mode.is_reserved(pos) {
                assert!(!r.live(), "a reserved record is live");
                let nth = mode.slots.lock().by[&(pos.dir, pos.off)];
                now.insert((pos.off, nth), chunk[r.off + 4..r.off + r.reclen].to_vec());
            }
        }
        Ok(std::ops::ControlFlow::<()>::Continue(()))
    });
    assert!(found.unwrap().is_none());
    let s = mode.slots.lock();
    let mine = s.held.keys().chain(&s.freed).filter(|(dir, _)| *dir == d.ip.ino);
    assert_eq!(mine.count(), now.len(), "a reserved record is missing");
    for (key @ (off, _), bytes) in &now {
        let held = s.held.get(&(d.ip.ino, *off));
        let name = held.map(|n| &bytes[4..4 + n.len()] == n.as_slice());
        assert_ne!(name, Some(false), "a reserved record lost its name");
        if let Some(before) = seen.get(key) {
            assert_eq!(before, bytes, "a reserved record changed");
        }
    }
    *seen = now;
    seen.len()
}

/// Names that a listing shows.
fn listed(fs: &Ffs, v: &Vnode) -> BTreeSet<Vec<u8>> {
    with_dir(fs, v, |d| {
        let (mut names, mut at) = (BTreeSet::new(), 0);
        while let Some(chunk) = read_chunk(d, at, &mut None).unwrap() {
            at = chunk.end();
            let mut each = |e: crate::DirEntry<'_>| names.insert(e.name.to_vec());
            assert!(chunk.show(d.g(), &mut each, &mut None));
        }
        names
    })
}

fn reserving(seed: u64, hashed: bool, percent: u64, steps: u64) -> Slots {
    println!("seed {seed:#x}, index {hashed}, {percent} % reserved");
    let shape = [(Endian::Big, Format::Ufs1), (Endian::Little, Format::Ufs2)][seed as usize % 2];
    let dev = ffs_admin::newfs::quick(shape.0, shape.1, 8192, 1024, 16 << 20).unwrap();
    let mut opts = options();
    opts.tunables.dir_truncate =
        [DirTruncate::Create, DirTruncate::CreateDelete][seed as usize / 2 % 2];
    opts.tunables.dirhash_minsize = if hashed { 512 } else { 1 << 30 };
    let mode = Reserving::new(seed, percent);
    let clock = Arc::new(ManualClock::new(Timestamp::new(1_700_000_000, 0)));
    let fs = Ffs::mount_under(&mode, Arc::new(dev), &opts, Env::seeded(clock, 3)).unwrap();
    fs.set_tunable("dirhash_docheck", "1").unwrap();
    let (cred, root) = (Cred::root(), fs.root().unwrap());
    let d = fs.mkdir(&cred, &root, b"d", 0o755).unwrap();
    let elsewhere = fs.mkdir(&cred, &root, b"e", 0o755).unwrap();
    let mut h = History {
        fs: &fs,
        d,
        elsewhere,
        model: BTreeSet::new(),
        rng: SplitMix64::new(seed ^ 0x77),
    };
    let (mut seen, mut most, mut indexed) = (Seen::new(), 0, 0);
    for step in 0..steps {
        h.step(step % 700 > 450);
        if h.rng.below(16) == 0
            && let Some(name) = mode.some_name(h.d.ino())
        {
            fs.create(&cred, &h.d, name.as_bytes(), NodeKind::Regular, 0o644).unwrap();
            h.model.insert(name);
        }
        with_dir(&fs, &h.d, |d| {
            most = most.max(check_reserved(d, &mode, &mut seen));
            indexed += u64::from(hashed::audit(d).is_some());
            for _ in 0..2 {
                compare(d, random_name(&h.rng).as_bytes());
            }
        });
        if step % 16 == 0 {
            assert_eq!(listed(&fs, &h.d), names_of(&h.model));
        }
        match h.rng.below(200) {
            0 => mode.free_some(1),
            1..=4 => mode.free_some(3),
            5..=40 => mode.free_some(10),
            _ => {}
        }
    }
    let c = fs.counters();
    assert_eq!((c.dirhash_check_failures, c.dirhash_gone_doubt), (0, 0));
    assert_eq!(indexed > steps / 3, hashed);
    assert!(most > 3 && (!hashed || c.dir_chunks_compacted > 0), "{most} reserved at most");
    free_all(h, &mode);
    std::mem::take(&mut *mode.slots.lock())
}

/// Frees all reserved records. Afterwards only ordinary free space remains, and a directory without
/// names can be removed.
fn free_all(mut h: History<'_>, mode: &Reserving) {
    let (fs, cred, root) = (h.fs, Cred::root(), h.fs.root().unwrap());
    mode.free_some(1);
    for name in [b"last".as_slice(), b"last again"] {
        fs.create(&cred, &h.d, name, NodeKind::Regular, 0o644).unwrap();
        fs.unlink(&cred, &h.d, name).unwrap();
        mode.free_some(1);
    }
    drop(fs.create(&cred, &h.d, b"last", NodeKind::Regular, 0o644).unwrap());
    h.model.insert("last".into());
    assert_eq!(listed(fs, &h.d), names_of(&h.model));
    with_dir(fs, &h.d, |d| assert_eq!(check_reserved(d, mode, &mut Seen::new()), 0));
    for name in h.model.clone() {
        fs.unlink(&cred, &h.d, name.as_bytes()).unwrap();
    }
    for name in listed(fs, &h.elsewhere).iter().filter(|n| !n.starts_with(b".")) {
        fs.unlink(&cred, &h.elsewhere, name).unwrap();
    }
    fs.rmdir(&cred, &root, b"d").unwrap();
    fs.rmdir(&cred, &root, b"e").unwrap();
}

#[test]
fn reserved_records_stay_until_they_are_freed() {
    let (mut reserved, mut retaken) = (0, 0);
    for (n, percent) in (0..).zip([30, 50, 100, 60]) {
        for (hashed, format) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
            let slots = reserving(0x5eed_1000 + 2 * n + format, hashed, percent, 1500);
            (reserved, retaken) = (reserved + slots.reserved, retaken + slots.retaken);
        }
    }
    println!("{reserved} reserved, {retaken} names entered in their old records");
    assert!(reserved > 1000 && retaken > 100);
}
