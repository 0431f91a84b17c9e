//! Random damage. The check never panics, one run of `-y` converges, preen repairs everything or
//! nothing, and files that the damage did not touch keep their content.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::fsck_util::{Img, Item, KINDS};
use ffs_admin::fsck::{FsckOptions, FsckReport, Id, Severity, exit};
use ffs_ondisk::cg::CgFields;
use ffs_ondisk::dinode::{Dinode1, Dinode2};
use ffs_ondisk::superblock::SbFields;
use ffs_ondisk::{CgNo, Format, FragNo, Superblock};
use ffs_testkit::fixtures;
use ffs_testkit::rng::SplitMix64;

type Tree = std::collections::BTreeMap<String, Item>;

/// The objects that a mutation may affect.
#[derive(Debug, Default)]
struct Affected {
    log: Vec<String>,
    inodes: BTreeSet<u32>,
    /// An unknown location: no assertion about any file.
    anything: bool,
}

/// One of the ways in which XFS's tests damage a field, or a plausible wrong value.
fn damage_value(rng: &mut SplitMix64, old: &[u8]) -> Vec<u8> {
    let mut new = old.to_vec();
    let last = new.len() - 1;
    match rng.below(9) {
        0 => new.fill(0),
        1 => new.fill(0xff),
        2 => new[0] ^= 0x80,
        3 => new[last] ^= 1,
        4 => new[last / 2] ^= 0x10,
        5 => new[0] = new[0].wrapping_add(1),
        6 => new[last] = new[last].wrapping_sub(1),
        7 => rng.fill_bytes(&mut new),
        _ => new[0] = rng.below(64) as u8,
    }
    new
}

/// Bytes of the device.
struct Bytes {
    at: u64,
    len: usize,
}

fn damage(img: &Img, rng: &mut SplitMix64, bytes: Bytes, affected: &mut Affected, what: String) {
    let Bytes { at, len } = bytes;
    let old = img.read(at, len);
    let new = damage_value(rng, &old);
    img.write(at, &new);
    affected.log.push(format!("{what} at byte {at}: {old:x?} -> {new:x?}"));
}

fn mutate(img: &Img, rng: &mut SplitMix64, tree: &Tree, affected: &mut Affected) {
    let items: Vec<(&String, &Item)> = tree.iter().collect();
    let (path, item) = pick(rng, &items);
    match rng.below(14) {
        0 => mutate_superblock(img, rng, affected),
        1..=3 => mutate_group(img, rng, affected),
        4..=6 => mutate_inode(img, rng, path, item.ino, affected),
        7 => {
            // A pointer that another inode has too.
            let (_, other) = pick(rng, &items);
            let stolen = img.inode(other.ino).db[rng.below(4) as usize];
            let slot = rng.below(12) as usize;
            img.edit(item.ino, |d| d.db[slot] = stolen);
            affected.log.push(format!("{path} db[{slot}] = {stolen}, of inode {}", other.ino));
            affected.inodes.insert(item.ino);
        }
        8 | 9 => mutate_directory(img, rng, path, item.ino, affected),
        10 => mutate_indirect(img, rng, path, item.ino, affected),
        11 => {
            let (a, b) = (img.inode_at(item.ino), img.inode_at(pick(rng, &items).1.ino));
            let size = img.g.format.dinode_size();
            let (x, y) = (img.read(a, size), img.read(b, size));
            img.write(a, &y);
            img.write(b, &x);
            affected.log.push(format!("inodes swapped: {path} with byte {b}"));
            affected.anything = true;
        }
        12 => {
            let at = rng.below(img.dev_len() - 512) & !511;
            let mut noise = vec![0; 512];
            if rng.one_in(2) {
                rng.fill_bytes(&mut noise);
            }
            img.write(at, &noise);
            affected.log.push(format!("sector at byte {at} lost"));
            affected.anything = true;
        }
        _ => {
            let g = img.g;
            let c = rng.below(g.ncg.into()) as u32;
            let at = g.frag_to_byte(g.csaddr) + u64::from(c) * 16 + 4 * rng.below(4);
            damage(img, rng, Bytes { at, len: 4 }, affected, format!("summary of group {c}"));
            let at = g.frag_to_byte(g.cgsblock(CgNo(c))) + rng.below(1376);
            damage(img, rng, Bytes { at, len: 1 }, affected, format!("backup superblock {c}"));
        }
    }
}

fn pick<T: Copy>(rng: &mut SplitMix64, items: &[T]) -> T {
    items[rng.below(items.len() as u64) as usize]
}

fn mutate_superblock(img: &Img, rng: &mut SplitMix64, affected: &mut Affected) {
    let f = pick(rng, SbFields::FIELDS);
    let home = if img.g.format == Format::Ufs1 { 8192 } else { 65536 };
    let at = home + f.offset as u64;
    damage(img, rng, Bytes { at, len: f.size }, affected, format!("superblock {}", f.name));
    if rng.one_in(2)
        && let Ok(mut sb) = Superblock::decode(&img.read(home, 8192), home)
    {
        sb.f.clean = 0;
        img.write(home, &sb.encode());
    }
}

fn mutate_group(img: &Img, rng: &mut SplitMix64, affected: &mut Affected) {
    let c = rng.below(img.g.ncg.into()) as u32;
    if rng.one_in(3) {
        let at = img.group_at(c) + 168 + rng.below(u64::from(img.g.cgsize) - 180);
        damage(img, rng, Bytes { at, len: 8 }, affected, format!("maps of group {c}"));
        img.edit_group(c, |_, _| {});
        return;
    }
    let f = pick(rng, CgFields::FIELDS);
    let at = img.group_at(c) + f.offset as u64;
    damage(img, rng, Bytes { at, len: f.size }, affected, format!("group {c} {}", f.name));
    if rng.one_in(2) {
        img.edit_group(c, |_, _| {});
    }
}

fn mutate_inode(img: &Img, rng: &mut SplitMix64, path: &str, ino: u32, affected: &mut Affected) {
    let fields = match img.g.format {
        Format::Ufs1 => Dinode1::FIELDS,
        Format::Ufs2 => Dinode2::FIELDS,
    };
    let f = pick(rng, fields);
    let part = rng.below(f.size as u64 / 8 + 1) * 8;
    let (off, len) = if f.size > 8 { (part.min(f.size as u64 - 8), 8) } else { (0, f.size) };
    let at = img.inode_at(ino) + f.offset as u64;
    damage(img, rng, Bytes { at: at + off, len }, affected, format!("inode {path} {}", f.name));
    affected.inodes.insert(ino);
    if rng.one_in(2) {
        img.edit(ino, |_| {});
    }
}

fn mutate_directory(
    img: &Img,
    rng: &mut SplitMix64,
    path: &str,
    ino: u32,
    affected: &mut Affected,
) {
    let d = img.inode(ino);
    if d.is_dir() && img.g.run_problem(FragNo(d.db[0].max(0) as u64), 1).is_none() {
        let at = d.db[0] as u64 * u64::from(img.g.fsize) + rng.below(d.size.min(512));
        damage(img, rng, Bytes { at, len: 4 }, affected, format!("directory {path}"));
        affected.inodes.insert(ino);
    }
}

fn mutate_indirect(img: &Img, rng: &mut SplitMix64, path: &str, ino: u32, affected: &mut Affected) {
    let d = img.inode(ino);
    let sound = |p: i64| p > 0 && img.g.run_problem(FragNo(p as u64), img.g.frag).is_none();
    if d.mode >> 12 != 8 || !sound(d.ib[0]) {
        return;
    }
    let slot = rng.below(img.g.nindir.into()) as u32;
    let to = match rng.below(4) {
        0 => d.ib[0],
        1 => d.db[0],
        2 => rng.below(img.g.size) as i64,
        _ => rng.next_u64() as i64,
    };
    img.set_slot(d.ib[0], slot, to);
    affected.log.push(format!("indirect block of {path}: slot {slot} = {to}"));
    affected.inodes.insert(ino);
}

#[derive(Default, Debug)]
struct Tally {
    images: u32,
    silent: u32,
    preened: u32,
    unusable: u32,
    rounds: u32,
    slowest: Duration,
}

fn timed(img: &Img, options: FsckOptions, tally: &mut Tally) -> FsckReport {
    let start = Instant::now();
    let report = img.fsck(options);
    tally.slowest = tally.slowest.max(start.elapsed());
    tally.rounds = tally.rounds.max(report.totals.rounds);
    report
}

fn list(report: &FsckReport) -> String {
    let lines: String = report.findings.iter().take(40).map(|f| format!("\n    {f}")).collect();
    format!("exit {} {:?}{lines}", report.exit_code, report.stopped)
}

fn check_repairs(
    tree: &Tree,
    img: &Img,
    affected: &Affected,
    tally: &mut Tally,
) -> Result<(), String> {
    let fail = |ok: bool, why: String| if ok { Ok(()) } else { Err(why) };
    tally.images += 1;
    let before = img.bytes();
    let look = timed(img, FsckOptions::no(), tally);
    fail(img.bytes() == before, "-n wrote".into())?;
    let preened = img.copy();
    let report = timed(&preened, FsckOptions::preen(), tally);
    if report.exit_code == exit::OK {
        tally.preened += 1;
        let again = timed(&preened, FsckOptions::preen(), tally);
        let loud = again.findings.iter().any(|f| f.id != Id::DupName);
        fail(!loud, format!("second preen {} after {}", list(&again), list(&report)))?;
    } else {
        fail(preened.bytes() == before, format!("preen failed and wrote: {}", list(&report)))?;
    }
    let repair = timed(img, FsckOptions::yes(), tally);
    if look.is_silent() {
        tally.silent += 1;
        fail(repair.is_silent(), format!("-n silent, -y not: {}", list(&repair)))?;
    }
    if repair.exit_code == exit::SUPERBLOCK {
        tally.unusable += 1;
        println!("unusable: {:?} {:?}", affected.log, repair.stopped);
        return fail(img.bytes() == before, "no superblock, but written".into());
    }
    fail(repair.exit_code == exit::OK && repair.clean, format!("-y: {}", list(&repair)))?;
    let again = timed(img, FsckOptions::no(), tally);
    fail(again.is_silent(), format!("second run: {} after {}", list(&again), list(&repair)))?;
    let preen = timed(img, FsckOptions::preen(), tally);
    fail(preen.is_silent() && !preen.modified, format!("preen afterwards: {}", list(&preen)))?;
    if affected.anything {
        return Ok(());
    }
    for (path, item) in tree {
        let file = item.mode >> 12 == 8 && item.size > 0 && !affected.inodes.contains(&item.ino);
        if !file {
            continue;
        }
        let d = img.inode(item.ino);
        let same = d.mode == item.mode && d.size == item.size && img.content(&d) == item.content;
        fail(same, format!("{path} was not damaged and has changed: {}", list(&repair)))?;
    }
    Ok(())
}

/// Damages copies of `good`, `rounds` times, with `seed`.
fn campaign(name: &str, good: &Img, seed: u64, rounds: u64) {
    let tree = good.tree();
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    for round in 0..rounds {
        let mut rng = SplitMix64::new(seed ^ (round << 8));
        let img = good.copy();
        let mut affected = Affected::default();
        for _ in 0..rng.between(1, setting("FFS_DAMAGE_HITS", 3)) {
            mutate(&img, &mut rng, &tree, &mut affected);
        }
        if let Err(why) = check_repairs(&tree, &img, &affected, &mut tally) {
            failures.push(format!("{name} seed {seed} round {round}: {:#?}\n{why}", affected.log));
        }
    }
    println!("{name} seed {seed}: {tally:?}");
    let n = failures.len();
    assert!(n == 0, "{n} of {rounds} failed:\n{}", failures[..n.min(5)].join("\n\n"));
    assert!(tally.slowest < Duration::from_secs(20), "{tally:?}");
    assert!(tally.silent < tally.images * 4 / 5, "the damage does nothing: {tally:?}");
}

/// For a longer search: `FFS_DAMAGE_ROUNDS=5000 FFS_DAMAGE_SEED=7 FFS_DAMAGE_HITS=20`.
fn setting(name: &str, default: u64) -> u64 {
    ffs_testkit::envvar::number(name).unwrap_or(default)
}

#[test]
fn kf2_02_damaged_volumes_are_repaired_in_one_run() {
    let (seed, rounds) = (setting("FFS_DAMAGE_SEED", 1), setting("FFS_DAMAGE_ROUNDS", 60));
    for (i, kind) in KINDS.into_iter().enumerate() {
        let good = Img::with_tree(kind);
        campaign(&format!("{kind:?}"), &good, seed + i as u64, rounds);
    }
}

#[test]
fn kf3_damaged_fixtures_are_repaired_in_one_run() {
    let (seed, rounds) = (setting("FFS_DAMAGE_SEED", 1), setting("FFS_DAMAGE_ROUNDS", 8));
    let names = [
        "freebsd12-ufs2-5m",
        "makefs-ufs1-be",
        "nb-ufs1-8k1k-be",
        "nb-ufs2-4k512-le",
        "openbsd28-ufs1-floppy",
        "freebsd14-ufs2-be-4m",
        "nb-ufs2-snap",
    ];
    for name in names {
        let Some(raw) = fixtures::load(name) else { continue };
        let good = Img::of(&raw);
        campaign(name, &good, seed, rounds);
    }
}

#[test]
fn severities_are_what_preen_goes_by() {
    let good = Img::with_tree(KINDS[0]);
    let tree = good.tree();
    for round in 0..80 {
        let mut rng = SplitMix64::new(77 + round);
        let img = good.copy();
        let mut affected = Affected::default();
        mutate(&img, &mut rng, &tree, &mut affected);
        let look = img.fsck(FsckOptions::no());
        let fatal = look.findings.iter().any(|f| f.severity == Severity::Fatal);
        let preen = img.fsck(FsckOptions::preen());
        if !fatal && look.stopped.is_none() {
            assert_eq!(preen.exit_code, exit::OK, "{:?} {}", affected.log, list(&preen));
        }
    }
}

/// The number of threads changes neither the report nor a byte of the volume.
#[test]
fn threads_change_nothing() {
    let modes = [FsckOptions::no, FsckOptions::yes, FsckOptions::preen];
    let (seed, rounds) = (setting("FFS_DAMAGE_SEED", 1), setting("FFS_DAMAGE_ROUNDS", 40));
    for kind in KINDS {
        let good = Img::with_tree(kind);
        let tree = good.tree();
        for round in 0..rounds {
            let mut rng = SplitMix64::new(seed ^ (round << 9));
            let (img, mut affected) = (good.copy(), Affected::default());
            for _ in 0..round % 4 {
                mutate(&img, &mut rng, &tree, &mut affected);
            }
            for mode in modes {
                let [alone, two, many] = [0, 2, 9].map(|threads| {
                    let copy = img.copy();
                    let report = copy.fsck(FsckOptions { threads: Some(threads), ..mode() });
                    (report, copy.bytes())
                });
                let case = format!("{kind:?} seed {seed} round {round}: {:#?}", affected.log);
                assert_eq!(alone.0, two.0, "{case}");
                assert_eq!(alone.0, many.0, "{case}");
                assert!(alone.1 == two.1 && alone.1 == many.1, "{case}");
            }
        }
    }
}
