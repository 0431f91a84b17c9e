//! The index and the linear code, compared entry by entry over random histories and damaged
//! directories.
#![allow(clippy::unwrap_used, reason = "tests stop at surprises")]

mod faults;
mod reserving;

use super::hashed::{self, IndexHit};
use super::search::{find_linear, find_slot, find_slot_linear, lookup_linear};
use super::*;
use crate::tunables::{DirHashFunction, DirTruncate};
use crate::{Cred, Env, Ffs, MountOptions, NodeKind, OrderingPolicy, RenameMode, Vnode};
use ffs_device::clock::{ManualClock, Rng, SplitMix64, Timestamp};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::dir::{self, Record};
use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::{Endian, Format, Lbn};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn mounted(dev: MemDevice, opts: &MountOptions) -> Ffs {
    let clock = Arc::new(ManualClock::new(Timestamp::new(1_700_000_000, 0)));
    let fs = Ffs::mount(Arc::new(dev), opts, Env::seeded(clock, 3)).unwrap();
    fs.set_tunable("dirhash_docheck", "1").unwrap();
    fs
}

fn options() -> MountOptions {
    MountOptions { ordering: OrderingPolicy::None, ..MountOptions::default() }
}

fn with_dir<T>(fs: &Ffs, v: &Vnode, look: impl FnOnce(Dir<'_>) -> T) -> T {
    let ip = fs.0.table.get(v.ino()).unwrap();
    let data = ip.read();
    look(Dir::new(&fs.0.ump, &ip, &data))
}

/// Searches for `name` by both. The results must be equal except for the choice of a slot.
fn compare(d: Dir<'_>, name: &[u8]) {
    // Errors of damaged directories are compared by their text.
    let text = |r: crate::Result<Option<Entry>>| r.map_err(|e| e.to_string());
    assert_eq!(text(find(d, name)), text(find_linear(d, name)), "{name:?}");
    // The linear lookup starts where the last one ended, which matters only with duplicate names.
    let hint = d.ip.dir.diroff.swap(0, std::sync::atomic::Ordering::Relaxed);
    let indexed = text(lookup(d, name));
    d.ip.dir.diroff.store(0, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(indexed, text(lookup_linear(d, name)), "{name:?}");
    d.ip.dir.diroff.store(hint, std::sync::atomic::Ordering::Relaxed);
    match (find_slot(d, name), find_slot_linear(d, name)) {
        (Ok(SlotSearch::Free(_)), Ok(SlotSearch::Free(_))) => {}
        (Ok(SlotSearch::Exists(a)), Ok(SlotSearch::Exists(b))) => assert_eq!(a, b),
        (a, b) => assert_eq!(a.map_err(|e| e.to_string()), b.map_err(|e| e.to_string())),
    }
}

/// Checks the format of every chunk (`spec/directories-and-caches.md` §1.3). Returns the names and
/// inodes.
fn check_format(d: Dir<'_>) -> BTreeMap<Vec<u8>, Ino> {
    let mut names = BTreeMap::new();
    let found = d.walk(0..d.size(), |_, chunk| {
        for r in dir::records(d.fmt(), chunk) {
            let r = r?;
            assert!(r.live() || r.off == 0, "a free record in mid-chunk");
            if r.live() {
                assert!(names.insert(r.name.to_vec(), Ino(r.ino)).is_none());
            }
        }
        Ok(std::ops::ControlFlow::<()>::Continue(()))
    });
    assert!(found.unwrap().is_none());
    names
}

/// A name of any length, from a set so small that names recur.
fn random_name(rng: &SplitMix64) -> String {
    let (which, stem) = (rng.below(8), rng.below(60));
    let len = match which {
        0 => 1 + rng.below(3),
        1..=4 => 4 + stem % 12,
        5 => 16 + stem,
        6 => 250 + stem % 6,
        _ => 1 + stem * 4,
    } as usize;
    let mut name = format!("{stem:02}{which}");
    while name.len() < len {
        name.push(char::from(b'a' + (name.len() % 26) as u8));
    }
    name.truncate(len);
    name
}

struct History<'a> {
    fs: &'a Ffs,
    d: Vnode,
    elsewhere: Vnode,
    model: BTreeSet<String>,
    rng: SplitMix64,
}

impl History<'_> {
    /// Makes one change, here and in the model.
    fn step(&mut self, shrinking: bool) {
        let (cred, fs, d) = (Cred::root(), self.fs, &self.d);
        let (mut a, b) = (random_name(&self.rng), random_name(&self.rng));
        if shrinking && !self.model.is_empty() {
            let nth = self.rng.below(self.model.len() as u64) as usize;
            a = self.model.iter().nth(nth).cloned().unwrap();
            assert!(fs.unlink(&cred, d, a.as_bytes()).is_ok(), "{a}");
            self.model.remove(&a);
            return;
        }
        let (n, m) = (a.as_bytes(), b.as_bytes());
        let (has_a, has_b) = (self.model.contains(&a), self.model.contains(&b));
        match self.rng.below(10) {
            0..=3 => {
                let done = fs.create(&cred, d, n, NodeKind::Regular, 0o644);
                assert_eq!(done.is_ok(), !has_a, "{a}");
                self.model.insert(a);
            }
            4..=6 => {
                assert_eq!(fs.unlink(&cred, d, n).is_ok(), has_a, "{a}");
                self.model.remove(&a);
            }
            7 => {
                let done = fs.rename(&cred, (d, n), (d, m), RenameMode::Replace);
                assert_eq!(done.is_ok(), has_a, "{a}");
                if has_a && a != b {
                    self.model.remove(&a);
                    self.model.insert(b);
                }
            }
            8 => {
                let done = fs.rename(&cred, (d, n), (d, m), RenameMode::Exchange);
                assert_eq!(done.is_ok(), has_a && has_b);
            }
            _ => {
                let out = (&self.elsewhere, n);
                if fs.rename(&cred, (d, n), out, RenameMode::Replace).is_ok() {
                    self.model.remove(&a);
                }
                if fs.rename(&cred, out, (d, m), RenameMode::Replace).is_ok() {
                    self.model.insert(b);
                }
            }
        }
    }
}

fn names_of(model: &BTreeSet<String>) -> BTreeSet<Vec<u8>> {
    let dots = [b".".to_vec(), b"..".to_vec()];
    model.iter().map(|n| n.clone().into_bytes()).chain(dots).collect()
}

fn history(seed: u64, which: DirHashFunction, truncate: DirTruncate, steps: u64) {
    println!("seed {seed:#x}, {which:?}, {truncate:?}");
    let shape = if seed.is_multiple_of(2) {
        (Endian::Big, Format::Ufs1)
    } else {
        (Endian::Little, Format::Ufs2)
    };
    let dev = ffs_admin::newfs::quick(shape.0, shape.1, 8192, 1024, 16 << 20).unwrap();
    let mut opts = options();
    (opts.tunables.dirhash_hash, opts.tunables.dir_truncate) = (which, truncate);
    opts.tunables.dirhash_minsize = 1024;
    let fs = mounted(dev.snapshot(), &opts);
    let (cred, root) = (Cred::root(), fs.root().unwrap());
    let d = fs.mkdir(&cred, &root, b"d", 0o755).unwrap();
    let elsewhere = fs.mkdir(&cred, &root, b"e", 0o755).unwrap();
    let mut h =
        History { fs: &fs, d, elsewhere, model: BTreeSet::new(), rng: SplitMix64::new(seed) };
    let mut indexed = 0;
    for step in 0..steps {
        h.step(step % 1000 > 850);
        with_dir(&fs, &h.d, |d| {
            indexed += u64::from(hashed::audit(d).is_some());
            if step % 8 == 0 {
                for _ in 0..4 {
                    compare(d, random_name(&h.rng).as_bytes());
                }
            }
            if step % 64 == 0 {
                assert_eq!(
                    check_format(d).into_keys().collect::<BTreeSet<_>>(),
                    names_of(&h.model)
                );
            }
        });
        if step % 500 == 499 {
            fs.low_memory();
        }
    }
    let c = fs.counters();
    assert!(indexed > steps / 3, "{indexed} of {steps} steps had an index");
    assert_eq!(
        (c.dirhash_check_failures, c.dirhash_gone_doubt, c.dirhash_refused_damaged),
        (0, 0, 0)
    );
    assert!(c.dir_chunks_compacted > 0 && c.dirhash_builds > 1 && c.dirhash_recycled > 0);
    assert_eq!(c.dir_trimmed > 0, truncate == DirTruncate::CreateDelete);
    let History { d, elsewhere, model, .. } = h;
    let before = with_dir(&fs, &d, check_format);
    drop((d, elsewhere, root));
    fs.unmount().unwrap();
    let again = mounted_again(&fs, &opts);
    let d = again.lookup(&cred, &again.root().unwrap(), b"d").unwrap();
    with_dir(&again, &d, |d| {
        assert_eq!(check_format(d), before, "reopened");
        model.iter().for_each(|n| compare(d, n.as_bytes()));
    });
}

/// Mounts the volume of an unmounted mount again.
fn mounted_again(fs: &Ffs, opts: &MountOptions) -> Ffs {
    let dev = &fs.0.ump.cache.dev;
    let mut bytes = vec![0; dev.len_bytes() as usize];
    dev.read_at(0, &mut bytes).unwrap();
    let mem = MemDevice::new(bytes.len() as u64);
    mem.write_at(0, &bytes).unwrap();
    mounted(mem, opts)
}

#[test]
fn index_and_linear_code_agree_over_random_histories() {
    for (seed, which, truncate) in [
        (0x5eed_0001, DirHashFunction::SipHash, DirTruncate::Create),
        (0x5eed_0002, DirHashFunction::Fnv1Salted, DirTruncate::CreateDelete),
        (0x5eed_0003, DirHashFunction::Fnv1, DirTruncate::CreateDelete),
    ] {
        history(seed, which, truncate, 3000);
    }
}

/// A directory with `n` files, and its mount.
fn filled(n: usize) -> (Ffs, Vnode) {
    let dev = ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 8192, 1024, 16 << 20).unwrap();
    let fs = mounted(dev, &options());
    let cred = Cred::root();
    let d = fs.mkdir(&cred, &fs.root().unwrap(), b"d", 0o755).unwrap();
    for i in 0..n {
        fs.create(&cred, &d, format!("name{i:04}").as_bytes(), NodeKind::Regular, 0o644).unwrap();
    }
    (fs, d)
}

/// Changes a chunk in memory without the index, and drops the index, as if the chunk had been read
/// so.
fn tamper(fs: &Ffs, v: &Vnode, n: usize, change: impl FnOnce(DirFormat, &mut [u8])) {
    with_dir(fs, v, |d| {
        d.ip.dir.drop_index();
        d.ip.dir.unhashable.store(false, std::sync::atomic::Ordering::Relaxed);
        let buf = d.block((n * DIRBLKSIZ) as u32).unwrap();
        let at = n * DIRBLKSIZ % d.g().bsize as usize;
        change(d.fmt(), &mut buf.write().bytes[at..at + DIRBLKSIZ]);
    });
}

/// Whether the directory gets an index. Compares all names in either case.
fn agree(fs: &Ffs, v: &Vnode) -> bool {
    with_dir(fs, v, |d| {
        for i in 0..220 {
            compare(d, format!("name{i:04}").as_bytes());
            compare(d, format!("none{i:04}").as_bytes());
        }
        hashed::search(d, b"name0000").is_some()
    })
}

fn offset_of(fmt: DirFormat, chunk: &[u8], nth: usize) -> usize {
    dir::records(fmt, chunk).nth(nth).unwrap().unwrap().off
}

#[test]
fn free_records_in_mid_chunk_are_no_damage() {
    let (fs, d) = filled(200);
    assert!(agree(&fs, &d));
    // Clears entries as fsck does: the inode number only.
    for (chunk, nth) in [(1, 3), (1, 4), (2, 0), (2, 24), (3, 1)] {
        tamper(&fs, &d, chunk, |fmt, b| dir::set_ino(fmt, b, offset_of(fmt, b, nth), 0));
    }
    assert!(agree(&fs, &d));
    let cred = Cred::root();
    let before = fs.getattr(&d).size;
    // Their space is reused, entries between them are moved, and no entry is lost.
    for name in ["a-name-of-some-length-for-two", "bbbbbbb", "ccccccc", "dddddddd", "e"] {
        fs.create(&cred, &d, name.as_bytes(), NodeKind::Regular, 0o644).unwrap();
        with_dir(&fs, &d, |d| {
            compare(d, name.as_bytes());
            hashed::audit(d).unwrap();
        });
    }
    assert!(agree(&fs, &d));
    assert_eq!((fs.getattr(&d).size, fs.counters().dirhash_check_failures), (before, 0));
}

#[test]
fn whiteouts_are_reused_in_place() {
    let (fs, d) = filled(200);
    tamper(&fs, &d, 2, |fmt, b| {
        let at = offset_of(fmt, b, 5);
        dir::set_ino(fmt, b, at, Ino::WHITEOUT.0);
        dir::set_type(fmt, b, at, dir::DT_WHT);
    });
    assert!(agree(&fs, &d));
    let lost = with_dir(&fs, &d, |d| {
        let lost: Vec<String> = (0..200)
            .map(|i| format!("name{i:04}"))
            .filter(|n| find(d, n.as_bytes()).unwrap().is_none())
            .collect();
        assert!(matches!(hashed::search(d, lost[0].as_bytes()), Some(IndexHit::Whiteout(_))));
        lost
    });
    assert_eq!(lost.len(), 1);
    fs.create(&Cred::root(), &d, lost[0].as_bytes(), NodeKind::Regular, 0o644).unwrap();
    with_dir(&fs, &d, |d| {
        assert_eq!(hashed::audit(d), Some(202), "200 and the dots");
        compare(d, lost[0].as_bytes());
    });
}

/// Every kind of malformed directory: no index, and the results of the linear code.
#[test]
fn malformed_directories_have_no_index() {
    type Damage = fn(DirFormat, &mut [u8], usize);
    let damages: [(&str, Damage); 8] = [
        ("reclen 0", |fmt, b, at| dir::set_reclen(fmt, b, at, 0)),
        ("reclen odd", |fmt, b, at| dir::set_reclen(fmt, b, at, 21)),
        ("reclen too small", |fmt, b, at| dir::set_reclen(fmt, b, at, 8)),
        ("reclen out of the chunk", |fmt, b, at| dir::set_reclen(fmt, b, at, 512)),
        ("namlen 0", |_, b, at| b[at + 7] = 0),
        ("namlen 255", |_, b, at| b[at + 7] = 255),
        ("type", |_, b, at| b[at + 6] = 77),
        ("noise", |_, b, at| b[at..].iter_mut().enumerate().for_each(|(i, c)| *c = i as u8 ^ 0x5a)),
    ];
    for (what, damage) in damages {
        let (fs, d) = filled(200);
        assert!(agree(&fs, &d));
        tamper(&fs, &d, 2, |fmt, b| {
            let at = offset_of(fmt, b, 7);
            damage(fmt, b, at);
        });
        assert!(!agree(&fs, &d), "{what}");
        assert_eq!(fs.counters().dirhash_refused_damaged, 1, "{what}: tried once");
    }
}

#[test]
fn double_names_and_holes_have_no_index() {
    let (fs, d) = filled(200);
    let mut name = Vec::new();
    tamper(&fs, &d, 1, |fmt, b| {
        let r = dir::records(fmt, b).nth(2).unwrap().unwrap();
        name = r.name.to_vec();
    });
    tamper(&fs, &d, 3, |fmt, b| {
        let r = dir::records(fmt, b).nth(4).unwrap().unwrap();
        let (off, ino, reclen, dtype) = (r.off, r.ino, r.reclen, r.dtype);
        dir::write(fmt, b, &Record { off, ino, reclen, dtype, name: &name });
    });
    assert!(!agree(&fs, &d));
    let (fs, d) = filled(600);
    let ip = fs.0.table.get(d.ino()).unwrap();
    assert!(agree(&fs, &d));
    {
        let mut data = ip.lock(&fs.0.ump);
        ip.dir.drop_index();
        data.d.db[1] = 0;
        fs.0.ump.cache.invalidate_range(ip.ino, 1..=1);
    }
    assert!(!agree(&fs, &d));
    assert!(with_dir(&fs, &d, |d| d.bmap(Lbn(1))).unwrap().is_none());
}

/// Memory that changed under the index: the next access detects it, and the linear code searches.
#[test]
fn a_record_that_is_not_there_ends_the_index() {
    let (fs, d) = filled(200);
    assert!(agree(&fs, &d));
    with_dir(&fs, &d, |d| {
        let e = find(d, b"name0100").unwrap().unwrap();
        let buf = d.block(e.off.0).unwrap();
        let at = (e.off.0 % d.g().bsize) as usize;
        dir::set_ino(d.fmt(), &mut buf.write().bytes, at, 0);
        assert_eq!(find(d, b"name0100").unwrap(), None);
        assert!(d.ip.dir.index().unwrap().read_index().is_none());
    });
    assert_eq!(fs.counters().dirhash_gone_doubt, 1);
    assert!(agree(&fs, &d));
}

/// `dirhash_docheck` detects a wrong index.
#[test]
fn docheck_notices() {
    let (fs, d) = filled(200);
    assert!(agree(&fs, &d));
    with_dir(&fs, &d, |d| {
        let index = d.ip.dir.index().unwrap();
        let (e, hash) = (find(d, b"name0100").unwrap().unwrap(), {
            index.read_index().as_deref().unwrap().hasher().hash(b"name0100")
        });
        assert!(index.update(|i| i.move_entry(hash, e.off, DirOff(e.off.0 + 4))));
    });
    let neighbour = with_dir(&fs, &d, |d| {
        let e = find_linear(d, b"name0100").unwrap().unwrap();
        let chunk = super::chunks::chunk_of(e.off.0);
        let near = |i: &u32| {
            let n = format!("name{i:04}");
            let o = find_linear(d, n.as_bytes()).unwrap().unwrap().off.0;
            *i != 100 && super::chunks::chunk_of(o) == chunk
        };
        format!("name{:04}", (0..200).find(near).unwrap())
    });
    fs.unlink(&Cred::root(), &d, neighbour.as_bytes()).unwrap();
    assert_eq!(fs.counters().dirhash_check_failures, 1);
    assert!(agree(&fs, &d));
}
