//! A large directory, searched and hashed: the work that each operation is, counted.

use std::sync::Arc;

use ffs_admin::newfs;
use ffs_core::{
    CounterValues, Cred, Env, Error, Ffs, Limit, MountOptions, NodeKind, TunableValues, Vnode,
};
use ffs_device::{Rng, SplitMix64, SystemClock};
use ffs_ondisk::Endian;
use ffs_ondisk::geometry::Format;

use crate::fail::Failure;
use crate::output;
use crate::session::offline;

/// Names in the directory.
pub(super) const NAMES: u64 = 20_000;
/// Bytes of the volume, in memory and mostly holes.
const BYTES: u64 = 384 << 20;
/// Seed of the order in which names are looked up and removed.
const SEED: u64 = 1;

/// The table.
pub(super) fn run() -> Result<String, Failure> {
    let searched = work(false).map_err(Failure::plain)?;
    let hashed = work(true).map_err(Failure::plain)?;
    let head = ["for each name", "no hash: bytes", "hash: bytes", "records", "slots"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for ((what, plain), (_, hash)) in searched.iter().zip(&hashed) {
        rows.push(vec![
            (*what).to_owned(),
            each(plain.dir_bytes_scanned),
            each(hash.dir_bytes_scanned),
            each(hash.dirhash_inspected),
            each(hash.dirhash_probes),
        ]);
    }
    Ok(output::table(rows, &[1, 2, 3, 4]))
}

/// `count` for one of [`NAMES`].
fn each(count: u64) -> String {
    let tenths = (count * 10 + NAMES / 2) / NAMES;
    if tenths >= 1000 {
        format!("{}", tenths / 10)
    } else {
        format!("{}.{}", tenths / 10, tenths % 10)
    }
}

/// What each kind of operation did, all names one after the other.
fn work(hash: bool) -> ffs_core::Result<Vec<(&'static str, CounterValues)>> {
    let volume = newfs::quick(Endian::Little, Format::Ufs2, 32768, 4096, BYTES);
    let volume = volume.map_err(|_| Error::NoSpace)?;
    let dirhash_maxmem = if hash { Limit::Auto } else { Limit::Of(0) };
    let tunables = TunableValues { dirhash_maxmem, vfscache: false, ..offline().tunables };
    let options = MountOptions { tunables, ..offline() };
    let env = Env::seeded(Arc::new(SystemClock), SEED);
    let ffs = Ffs::mount(Arc::new(volume), &options, env)?;
    let cred = Cred::root();
    let dir = ffs.mkdir(&cred, &ffs.root()?, b"large", 0o755)?;
    let (names, mixed) = (names(), mixed());
    let mut all = Vec::new();
    let mut note = |what, before: CounterValues| all.push((what, since(&ffs, before)));

    let before = ffs.counters();
    for name in &names {
        ffs.create(&cred, &dir, name, NodeKind::Regular, 0o644)?;
    }
    note("create", before);
    let before = ffs.counters();
    for &n in &mixed {
        ffs.lookup(&cred, &dir, &names[n])?;
    }
    note("look up, in any order", before);
    let before = ffs.counters();
    for name in &names {
        let absent = [name.as_slice(), b".bak"].concat();
        match ffs.lookup(&cred, &dir, &absent) {
            Err(Error::NotFound) => {}
            Err(error) => return Err(error),
            Ok(_) => return Err(Error::Exists),
        }
    }
    note("look up what is not there", before);
    list(&ffs, &dir)?;
    let before = ffs.counters();
    for &n in &mixed {
        ffs.unlink(&cred, &dir, &names[n])?;
    }
    note("remove, in any order", before);
    drop(dir);
    ffs.unmount()?;
    Ok(all)
}

/// Lists the directory: all names, each once.
fn list(ffs: &Ffs, dir: &Vnode) -> ffs_core::Result<()> {
    let mut count = 0;
    ffs.readdir(dir, 0, &mut |_| {
        count += 1;
        true
    })?;
    // `.` and `..` besides.
    if count == NAMES + 2 { Ok(()) } else { Err(Error::NotFound) }
}

fn names() -> Vec<Vec<u8>> {
    (0..NAMES).map(|n| format!("message-{n:05}").into_bytes()).collect()
}

fn mixed() -> Vec<usize> {
    let rng = SplitMix64::new(SEED);
    let mut order: Vec<usize> = (0..NAMES as usize).collect();
    for n in (1..order.len()).rev() {
        order.swap(n, rng.below(n as u64 + 1) as usize);
    }
    order
}

fn since(ffs: &Ffs, before: CounterValues) -> CounterValues {
    let now = ffs.counters();
    CounterValues {
        dir_bytes_scanned: now.dir_bytes_scanned - before.dir_bytes_scanned,
        dirhash_inspected: now.dirhash_inspected - before.dirhash_inspected,
        dirhash_probes: now.dirhash_probes - before.dirhash_probes,
        ..CounterValues::default()
    }
}
