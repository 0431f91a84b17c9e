//! Measures what a snapshot costs: the time for which it stops writers, and overwrites and removals
//! with and without one.
//!
//! `snapcost DIRECTORY [FILES] [GIB]` makes sparse images of GIB GiB in the directory.
//! `bench/snapshot.sh` runs it. Both sides of a ratio have the same medium, the same ordering mode
//! (soft updates) and the same number of `sync` calls.

use ffs_admin::newfs::{NewfsOptions, newfs};
use ffs_core::{Cred, Env, Ffs, MountOptions, NodeKind, OrderingPolicy, Vnode, WriteMode};
use ffs_device::{BlockDevice, FileDevice, SplitMix64, SystemClock};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Bytes of the file that is overwritten, and of one write.
const LARGE: u64 = 256 << 20;
const WRITE: usize = 1 << 20;
/// Files that are removed, and their size.
const REMOVED: usize = 20_000;
const SMALL: usize = 6000;
/// Files in one directory.
const PER_DIRECTORY: usize = 1000;
/// Rounds of each measurement; the fastest counts.
const ROUNDS: usize = 3;

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().collect();
    let dir = args.get(1).ok_or("usage: snapcost DIRECTORY [FILES] [GIB]")?;
    let files: usize = args.get(2).map_or(Ok(1_000_000), |s| s.parse())?;
    let gib: u64 = args.get(3).map_or(Ok(100), |s| s.parse())?;
    let dir = Path::new(dir);
    println!("a volume of {gib} GiB with {files} files, one writer");
    suspension(&dir.join("suspend.img"), files, gib << 30)?;
    println!("overwriting {} MiB, removing {REMOVED} files of {SMALL} bytes", LARGE >> 20);
    let mut best: [[f64; 3]; 2] = [[f64::MAX; 3]; 2];
    for _ in 0..ROUNDS {
        // In turns, so that both sides see the same machine.
        for (with, best) in best.iter_mut().enumerate() {
            let took = costs(&dir.join("costs.img"), with == 1)?;
            for (best, took) in best.iter_mut().zip(took) {
                *best = best.min(took);
            }
        }
    }
    let [without, with] = best;
    let names = ["first overwrite", "second overwrite", "removal"];
    println!("{:18} {:>10} {:>10} {:>6}", "", "without", "with", "ratio");
    for ((name, without), with) in names.iter().zip(without).zip(with) {
        println!("{name:18} {without:>8.3} s {with:>8.3} s {:>6.2}", with / without);
    }
    Ok(())
}

/// A new volume with soft updates.
fn volume(image: &Path, bytes: u64) -> Outcome<Ffs> {
    let _ = std::fs::remove_file(image);
    let dev: Arc<dyn BlockDevice> = Arc::new(FileDevice::create_sparse(image, bytes)?);
    let options = NewfsOptions { soft_updates: true, ..NewfsOptions::default() };
    newfs(&*dev, &options, &SystemClock, &SplitMix64::new(1), &mut |_, _| {})?;
    let options = MountOptions { ordering: OrderingPolicy::SoftUpdates, ..MountOptions::default() };
    Ok(Ffs::mount(dev, &options, Env::system())?)
}

/// Makes `count` files of `size` bytes in directories of `PER_DIRECTORY`.
fn fill(fs: &Ffs, count: usize, size: usize) -> Outcome<Vec<Vnode>> {
    let (cred, root, bytes) = (Cred::root(), fs.root()?, vec![7; size]);
    let mut dirs = Vec::new();
    for n in 0..count {
        if n % PER_DIRECTORY == 0 {
            dirs.push(fs.mkdir(&cred, &root, format!("d{n}").as_bytes(), 0o755)?);
        }
        let dir = dirs.last().ok_or("no directory")?;
        let file = fs.create(&cred, dir, format!("f{n}").as_bytes(), NodeKind::Regular, 0o644)?;
        fs.write(&cred, &file, 0, &bytes, WriteMode::default())?;
    }
    Ok(dirs)
}

/// Makes a snapshot while a thread writes, and prints for how long it stopped.
fn suspension(image: &Path, files: usize, bytes: u64) -> Outcome<()> {
    let fs = volume(image, bytes)?;
    let dirs = fill(&fs, files, 100)?;
    fs.sync()?;
    let (cred, root) = (Cred::root(), fs.root()?);
    let (stop, longest, writes) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let made = std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = fs.create(&cred, &root, b"writer", NodeKind::Regular, 0o644);
            let Ok(file) = file else { return };
            while !stop.load(Ordering::Relaxed) {
                let began = Instant::now();
                let at = writes.fetch_add(1, Ordering::Relaxed) % 4096 * 4096;
                if fs.write(&cred, &file, at, &[1; 4096], WriteMode::default()).is_err() {
                    return;
                }
                let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
                longest.fetch_max(took, Ordering::Relaxed);
            }
        });
        let began = Instant::now();
        let made = fs.snapshot(&cred, &root, b"snapshot").map(|(_, stats)| stats);
        stop.store(true, Ordering::Relaxed);
        made.map(|stats| (stats, began.elapsed()))
    });
    let (stats, whole) = made?;
    println!(
        "snapshot: {:.2} s, of which operations waited {:.1} ms ({} of {} groups copied again)",
        whole.as_secs_f64(),
        stats.suspended.as_secs_f64() * 1000.0,
        stats.groups_again,
        stats.groups
    );
    println!(
        "the longest of the writer's {} calls took {:.1} ms",
        writes.load(Ordering::Relaxed),
        longest.load(Ordering::Relaxed) as f64 / 1000.0
    );
    drop((dirs, root));
    fs.unmount()?;
    std::fs::remove_file(image)?;
    Ok(())
}

/// Seconds of overwriting a large file once and once more, and of removing files; each with the
/// `sync` after it.
fn costs(image: &Path, with_snapshot: bool) -> Outcome<[f64; 3]> {
    let fs = volume(image, 4 << 30)?;
    let (cred, root) = (Cred::root(), fs.root()?);
    let dirs = fill(&fs, REMOVED, SMALL)?;
    let large = fs.create(&cred, &root, b"large", NodeKind::Regular, 0o644)?;
    overwrite(&fs, &large, 1)?;
    if with_snapshot {
        fs.snapshot(&cred, &root, b"snapshot")?;
    }
    let first = overwrite(&fs, &large, 2)?;
    let second = overwrite(&fs, &large, 3)?;
    let began = Instant::now();
    for n in 0..REMOVED {
        let dir = dirs.get(n / PER_DIRECTORY).ok_or("no directory")?;
        fs.unlink(&cred, dir, format!("f{n}").as_bytes())?;
    }
    fs.sync()?;
    let removal = began.elapsed().as_secs_f64();
    drop((dirs, large, root));
    fs.unmount()?;
    std::fs::remove_file(image)?;
    Ok([first, second, removal])
}

fn overwrite(fs: &Ffs, file: &Vnode, byte: u8) -> Outcome<f64> {
    let (began, bytes) = (Instant::now(), vec![byte; WRITE]);
    for at in (0..LARGE).step_by(WRITE) {
        fs.write(&Cred::root(), file, at, &bytes, WriteMode::default())?;
    }
    fs.sync()?;
    Ok(began.elapsed().as_secs_f64())
}
