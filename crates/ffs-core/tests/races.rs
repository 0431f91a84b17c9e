//! Many threads in a few directories: no deadlock, no unexpected error, and an undamaged volume.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use crate::common::{check, mount_on};
use ffs_core::{Cred, Ffs, MountOptions, NodeKind, OrderingPolicy, RenameMode, Result, Vnode};
use ffs_core::{NamecachePrime, SetAttr, TunableValues, WriteMode};
use ffs_device::BlockDevice;
use ffs_ondisk::{Endian, Format, Ino};
use ffs_testkit::rng::SplitMix64;

/// Errors caused by the changes of other threads: ENOENT, EEXIST, ENOTDIR, EISDIR, EINVAL,
/// ENOTEMPTY, ESTALE, and EPERM of links to directories.
const EXPECTED: [i32; 8] = [1, 2, 17, 20, 21, 22, 39, 116];

fn name(rng: &mut SplitMix64) -> Vec<u8> {
    let len = [1, 1, 1, 30, 100][rng.below(5) as usize];
    vec![b'a' + rng.below(4) as u8; len]
}

/// A directory found by following random names from the root.
fn somewhere(fs: &Ffs, rng: &mut SplitMix64) -> Result<Vnode> {
    let mut at = fs.root()?;
    for _ in 0..rng.below(4) {
        match fs.lookup(&Cred::root(), &at, &name(rng)) {
            Ok(next) if fs.getattr(&next).kind == ffs_ondisk::FileType::Directory => at = next,
            _ => break,
        }
    }
    Ok(at)
}

fn step(fs: &Ffs, rng: &mut SplitMix64) -> Result<()> {
    let cred = Cred::root();
    let (d, e) = (somewhere(fs, rng)?, somewhere(fs, rng)?);
    let (a, b) = (name(rng), name(rng));
    let modes =
        [RenameMode::Replace, RenameMode::Replace, RenameMode::Exchange, RenameMode::NoReplace];
    match rng.below(14) {
        0 | 1 => fs.mkdir(&cred, &d, &a, 0o755).map(drop),
        2 | 3 => fs.create(&cred, &d, &a, NodeKind::Regular, 0o644).map(drop),
        4 => fs.unlink(&cred, &d, &a),
        5 => fs.rmdir(&cred, &d, &a),
        6 => {
            let f = fs.lookup(&cred, &d, &a)?;
            fs.link(&cred, &f, &e, &b)
        }
        7 => fs.symlink(&cred, &d, &a, &[b't'; 200]).map(drop),
        8 => {
            let f = fs.lookup(&cred, &d, &a)?;
            fs.write(&cred, &f, rng.below(40_000), &[1; 3000], WriteMode::default()).map(drop)
        }
        9 => {
            let f = fs.lookup(&cred, &d, &a)?;
            let set = SetAttr { size: Some(rng.below(30_000)), ..SetAttr::default() };
            fs.setattr(&cred, &f, &set).map(drop)
        }
        10 => fs.readdir(&d, 0, &mut |entry| {
            drop(fs.lookup(&cred, &d, entry.name));
            true
        }),
        _ => {
            let mode = modes[rng.below(4) as usize];
            fs.rename(&cred, (&d, &a), (&e, &b), mode)
        }
    }
}

/// Counts the files reachable from the root; every directory's `..` must name its parent.
fn walk(fs: &Ffs, d: &Vnode, up: Ino, depth: u32) -> usize {
    assert!(depth < 1000, "a loop");
    assert_eq!(fs.lookup(&Cred::root(), d, b"..").unwrap().ino(), up);
    let mut names = Vec::new();
    fs.readdir(d, 0, &mut |e| {
        names.push(e.name.to_vec());
        true
    })
    .unwrap();
    let mut all = 1;
    for n in names.iter().filter(|n| **n != b"." && **n != b"..") {
        let child = fs.lookup(&Cred::root(), d, n).unwrap();
        if fs.getattr(&child).kind == ffs_ondisk::FileType::Directory {
            all += walk(fs, &child, d.ino(), depth + 1);
        }
    }
    all
}

/// A directory, a name, and its file or errno.
type Meaning = (Ino, Vec<u8>, std::result::Result<Ino, i32>);

/// Every name of [`name`] in `d` and below it.
fn meanings(fs: &Ffs, d: &Vnode, all: &mut Vec<Meaning>) {
    for len in [1, 30, 100] {
        for letter in b'a'..=b'd' {
            let name = vec![letter; len];
            let found = fs.lookup(&Cred::root(), d, &name);
            if let Ok(child) = &found
                && fs.getattr(child).kind == ffs_ondisk::FileType::Directory
            {
                meanings(fs, child, all);
            }
            all.push((d.ino(), name, found.map(|v| v.ino()).map_err(|e| e.errno())));
        }
    }
}

fn stress(seed: u64, policy: OrderingPolicy, maxvnodes: u64, namecache_prime: NamecachePrime) {
    println!("seed {seed} {policy:?} {namecache_prime:?}");
    let mem = ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 8192, 1024, 24 << 20).unwrap();
    let opts = MountOptions {
        ordering: policy,
        tunables: TunableValues { maxvnodes, namecache_prime, ..TunableValues::default() },
        ..MountOptions::default()
    };
    let w = mount_on(mem, &opts);
    std::thread::scope(|s| {
        for t in 0..6 {
            let fs = w.fs.clone();
            s.spawn(move || {
                let mut rng = SplitMix64::new(seed * 100 + t);
                for i in 0..2500 {
                    if let Err(e) = step(&fs, &mut rng) {
                        assert!(
                            EXPECTED.contains(&e.errno()),
                            "seed {seed} thread {t} step {i}: {e}"
                        );
                    }
                    if t == 0 && i % 500 == 0 {
                        fs.sync().unwrap();
                    }
                }
            });
        }
    });
    let (mut remembered, mut read) = (Vec::new(), Vec::new());
    meanings(&w.fs, &w.root, &mut remembered);
    w.fs.purge_names();
    meanings(&w.fs, &w.root, &mut read);
    assert_eq!(remembered, read, "seed {seed}: the name cache is wrong");
    assert!(walk(&w.fs, &w.root, Ino::ROOT, 0) >= 1);
    let dev = std::sync::Arc::clone(&w.dev);
    w.end();
    check(&dev);
}

#[test]
fn threads_rename_remove_and_create_without_ordering() {
    stress(1, OrderingPolicy::None, 65536, NamecachePrime::All);
    stress(2, OrderingPolicy::None, 4, NamecachePrime::All);
    stress(5, OrderingPolicy::None, 40, NamecachePrime::Off);
}

#[test]
fn threads_rename_remove_and_create_in_order() {
    stress(3, OrderingPolicy::Sync, 65536, NamecachePrime::Create);
    stress(4, OrderingPolicy::Sync, 4, NamecachePrime::All);
}

/// Without a name cache, with one, primed or not, and with hardly any inodes in memory: the same
/// operations have the same results. The name cache does not change a byte of the volume. A small
/// inode cache may, since the last write position of a file is lost with its inode.
#[test]
fn name_cache_changes_no_answer_and_no_byte() {
    const SEED: u64 = 77;
    println!("seed {SEED}");
    let off = TunableValues { vfscache: false, ..TunableValues::default() };
    let with = |namecache_prime| TunableValues { namecache_prime, ..TunableValues::default() };
    let few = TunableValues { maxvnodes: 30, ..with(NamecachePrime::All) };
    let modes = [
        off,
        with(NamecachePrime::Off),
        with(NamecachePrime::Create),
        with(NamecachePrime::All),
        few,
    ];
    let outcomes = modes.map(|tunables| {
        let mem = ffs_admin::newfs::quick(Endian::Big, Format::Ufs2, 8192, 1024, 16 << 20).unwrap();
        let ordering = OrderingPolicy::None;
        let w = mount_on(mem, &MountOptions { ordering, tunables, ..MountOptions::default() });
        let mut rng = SplitMix64::new(SEED);
        let answers: Vec<i32> =
            (0..6000).map(|_| step(&w.fs, &mut rng).map_or_else(|e| e.errno(), |()| 0)).collect();
        let hits = w.fs.counters().cache_numposhits;
        let dev = std::sync::Arc::clone(&w.dev);
        w.end();
        let mut image = vec![0; 16 << 20];
        dev.read_at(0, &mut image).unwrap();
        (answers, image, hits)
    });
    let [off, _, _, _, few] = &outcomes;
    assert_eq!(off.2, 0);
    assert!(outcomes[1..].iter().all(|o| o.2 > 500), "the cache was used");
    for (i, o) in outcomes.iter().enumerate() {
        assert_eq!(o.0, off.0, "mode {i}: other answers");
        assert!(o.1 == off.1 || std::ptr::eq(o, few), "mode {i}: another image");
    }
}

/// Directories moved around each other: the classic deadlock and the classic loop.
#[test]
fn directories_swap_parents() {
    let mem = ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 8192, 1024, 16 << 20).unwrap();
    let w = mount_on(mem, &MountOptions::default());
    let cred = Cred::root();
    for n in [b"a", b"b", b"c"] {
        w.fs.mkdir(&cred, &w.root, n, 0o755).unwrap();
    }
    let dirs: Vec<Vnode> =
        [b"a", b"b", b"c"].iter().map(|n| w.fs.lookup(&cred, &w.root, *n).unwrap()).collect();
    std::thread::scope(|s| {
        for t in 0..4u64 {
            let (fs, dirs, root, cred) = (&w.fs, &dirs, &w.root, &cred);
            s.spawn(move || {
                let mut rng = SplitMix64::new(t);
                for _ in 0..3000 {
                    // From any directory to any, with one of three names.
                    let from = dirs.get(rng.below(4) as usize).unwrap_or(root);
                    let to = dirs.get(rng.below(4) as usize).unwrap_or(root);
                    let n = [b"a", b"b", b"c"][rng.below(3) as usize];
                    match fs.rename(cred, (from, n), (to, n), RenameMode::Replace) {
                        Ok(()) => {}
                        Err(e) => assert!([2, 22, 39].contains(&e.errno()), "{e}"),
                    }
                }
            });
        }
    });
    drop(dirs);
    assert!(walk(&w.fs, &w.root, Ino::ROOT, 0) >= 2);
    w.end();
}
