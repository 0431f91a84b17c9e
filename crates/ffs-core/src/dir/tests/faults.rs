//! Operations that fail half way: afterwards the directory, its index and the name cache agree.

use super::*;
use crate::{Error, WriteMode};
use ffs_device::{Fault, FaultInjector, Operation, Rule};

/// Number of worlds, each with its own seed, and of changes in each.
const WORLDS: u64 = 24;
const CHANGES: u64 = 120;

struct Failing {
    fs: Ffs,
    dev: Arc<FaultInjector<MemDevice>>,
    /// Two directories with files, and one that is moved between them.
    dirs: [Vnode; 2],
    moving: Vnode,
    rng: SplitMix64,
    failed: u64,
    full: u64,
}

fn world(seed: u64) -> Failing {
    let shape = [(Endian::Little, Format::Ufs2), (Endian::Big, Format::Ufs1)][seed as usize % 2];
    let mem = ffs_admin::newfs::quick(shape.0, shape.1, 8192, 1024, 4 << 20).unwrap();
    let dev = Arc::new(FaultInjector::new(mem, Vec::new()));
    let ordering = if seed.is_multiple_of(3) { OrderingPolicy::None } else { OrderingPolicy::Sync };
    let mut opts = MountOptions { ordering, ..MountOptions::default() };
    opts.tunables.dirhash_minsize = 512;
    opts.tunables.cache = 2 << 20;
    opts.tunables.maxvnodes = 100;
    opts.tunables.dir_truncate =
        [DirTruncate::Create, DirTruncate::CreateDelete][seed as usize / 2 % 2];
    let clock = Arc::new(ManualClock::new(Timestamp::new(1_700_000_000, 0)));
    let fs = Ffs::mount(dev.clone(), &opts, Env::seeded(clock, seed)).unwrap();
    let (cred, root) = (Cred::root(), fs.root().unwrap());
    let dirs = [b"d", b"e"].map(|n| fs.mkdir(&cred, &root, n, 0o755).unwrap());
    let moving = fs.mkdir(&cred, &dirs[0], b"moving", 0o755).unwrap();
    let rng = SplitMix64::new(seed);
    for d in &dirs {
        for _ in 0..100 {
            drop(fs.create(&cred, d, random_name(&rng).as_bytes(), NodeKind::Regular, 0o644));
        }
    }
    if seed % 4 > 1 {
        // No space for a directory to grow beyond its fragment.
        let filler = fs.create(&cred, &root, b"filler", NodeKind::Regular, 0o644).unwrap();
        let fill = |v: &Vnode, at| fs.write(&cred, v, at, &[1; 1024], WriteMode::default()).is_ok();
        (0..).take_while(|n| fill(&filler, n * 1024)).for_each(drop);
        // The rest of the space, which is too small for a block of a large file.
        let fragment = |n: u64| {
            let name = format!("filler{n}");
            let v = fs.create(&cred, &root, name.as_bytes(), NodeKind::Regular, 0o644);
            v.is_ok_and(|v| fill(&v, 0))
        };
        (0..).take_while(|n| fragment(*n)).for_each(drop);
    }
    Failing { fs, dev, dirs, moving, rng, failed: 0, full: 0 }
}

impl Failing {
    fn change(&self) -> crate::Result<()> {
        let (cred, fs, rng) = (Cred::root(), &self.fs, &self.rng);
        let (a, b) = (random_name(rng), random_name(rng));
        let (a, b) = (a.as_bytes(), b.as_bytes());
        let (d, e) = match rng.below(4) {
            0 | 1 => (&self.dirs[0], &self.dirs[0]),
            2 => (&self.dirs[0], &self.dirs[1]),
            _ => (&self.dirs[1], &self.dirs[0]),
        };
        match rng.below(12) {
            0..=4 => fs.create(&cred, d, a, NodeKind::Regular, 0o644).map(drop),
            5..=7 => fs.unlink(&cred, d, a),
            8 => fs.rename(&cred, (d, a), (e, b), RenameMode::Replace),
            9 => fs.rename(&cred, (d, a), (e, b), RenameMode::Exchange),
            10 => fs.rename(&cred, (d, b"moving"), (e, b"moving"), RenameMode::Replace),
            _ => fs.mkdir(&cred, d, a, 0o755).map(drop),
        }
    }

    /// Compares the cache, the index and the linear code for all names. Returns the number of
    /// indexes.
    fn agree(&self, what: &str) -> u64 {
        let (cred, mut indexed) = (Cred::root(), 0);
        for d in &self.dirs {
            for _ in 0..12 {
                let name = random_name(&self.rng);
                // The first result may come from the cache, and leaves an entry there for later
                // changes.
                let cached = match self.fs.lookup(&cred, d, name.as_bytes()) {
                    Ok(v) => Ok(Some(v.ino())),
                    Err(Error::NotFound) => Ok(None),
                    Err(e) => Err(e.to_string()),
                };
                let there = with_dir(&self.fs, d, |d| {
                    compare(d, name.as_bytes());
                    find_linear(d, name.as_bytes()).unwrap().map(|e| e.ino)
                });
                assert_eq!(cached, Ok(there), "{name}, {what}");
            }
            with_dir(&self.fs, d, |d| indexed += u64::from(hashed::audit(d).is_some()));
        }
        let up = self.fs.lookup(&cred, &self.moving, b"..").map(|v| v.ino());
        let there = with_dir(&self.fs, &self.moving, |d| parent_of(d).unwrap());
        assert_eq!(up.unwrap(), there, "'..', {what}");
        indexed
    }
}

#[test]
fn failures_half_way_leave_one_opinion() {
    let (mut failed, mut full, mut indexed) = (0, 0, 0);
    for seed in 0..WORLDS {
        let mut w = world(seed);
        w.agree("new");
        for n in 0..CHANGES {
            if w.rng.below(3) > 0 {
                let op = [Operation::Read, Operation::Write, Operation::Write];
                let rule = Rule::new(op[w.rng.below(3) as usize], Fault::Errno(5));
                // One transfer fails, or all from one on: in that case the reversal fails too.
                let rule = rule.nth(1 + w.rng.below(3));
                w.dev.add(if w.rng.below(2) == 0 { rule.times(1) } else { rule });
            }
            let done = w.change();
            w.dev.heal();
            match &done {
                Err(Error::Io(_)) => w.failed += 1,
                Err(Error::NoSpace) => w.full += 1,
                _ => {}
            }
            indexed += w.agree(&format!("seed {seed}, change {n}: {done:?}"));
        }
        (failed, full) = (failed + w.failed, full + w.full);
    }
    println!("{failed} failed, {full} found no space; {indexed} indexes compared");
    assert!(failed > 100 && full > 20 && indexed > WORLDS * CHANGES);
}

#[test]
fn a_chunk_that_cannot_be_read_fails_no_check() {
    let mem = ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 8192, 1024, 4 << 20).unwrap();
    let dev = Arc::new(FaultInjector::new(mem, Vec::new()));
    let opts = MountOptions { ordering: OrderingPolicy::None, ..MountOptions::default() };
    let fs = Ffs::mount(dev.clone(), &opts, Env::system()).unwrap();
    let (cred, root) = (Cred::root(), fs.root().unwrap());
    let d = fs.mkdir(&cred, &root, b"d", 0o755).unwrap();
    for i in 0..200 {
        let name = format!("name{i:04}");
        fs.create(&cred, &d, name.as_bytes(), NodeKind::Regular, 0o644).unwrap();
    }
    fs.sync().unwrap();
    with_dir(&fs, &d, |d| compare(d, b"name0000"));
    let check = || {
        with_dir(&fs, &d, |d| {
            d.ump.cache.invalidate_range(d.ip.ino, 0..=i64::MAX);
            hashed::check(d, d.ip.dir.index().unwrap(), 512);
            (d.block(512).is_ok(), hashed::end_useful(d).is_some())
        })
    };
    assert_eq!(check(), (true, true));
    dev.add(Rule::new(Operation::Read, Fault::Errno(ffs_device::fault::EIO)).times(u64::MAX));
    assert_eq!(check(), (false, true));
    dev.heal();
    assert_eq!(check(), (true, true));
    assert_eq!(fs.counters().dirhash_check_failures, 0);
}
