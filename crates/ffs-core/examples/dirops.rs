//! Measures the cost of directory operations inside the library: one directory, empty files, an
//! image in memory.
//!
//! `dirops [N] [ROUNDS]` prints the mean of each operation in microseconds, of the best round. A
//! busy machine does not affect instruction counts: `valgrind --tool=callgrind
//! target/release/examples/dirops 1000 1`.

use ffs_core::{Cred, Env, Ffs, MountOptions, NodeKind, OrderingPolicy, RenameMode, Vnode};
use ffs_ondisk::Endian;
use ffs_ondisk::geometry::Format;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

type Outcome = Result<(), Box<dyn Error>>;

/// One operation on file number `i` of a directory.
type Operation = fn(&Ffs, &Cred, &Vnode, usize) -> Outcome;

const PHASES: [(&str, Operation); 6] = [
    ("create", |fs, cred, dir, i| {
        fs.create(cred, dir, name('f', i).as_bytes(), NodeKind::Regular, 0o644)?;
        Ok(())
    }),
    ("lookup", |fs, cred, dir, i| {
        fs.lookup(cred, dir, name('f', i).as_bytes())?;
        Ok(())
    }),
    ("getattr", |fs, cred, dir, i| {
        let file = fs.lookup(cred, dir, name('f', i).as_bytes())?;
        std::hint::black_box(fs.getattr(&file));
        Ok(())
    }),
    ("miss", |fs, cred, dir, i| match fs.lookup(cred, dir, name('m', i).as_bytes()) {
        Ok(_) => Err("found what is not there".into()),
        Err(_) => Ok(()),
    }),
    ("rename", |fs, cred, dir, i| {
        let (from, to) = (name('f', i), name('r', i));
        fs.rename(cred, (dir, from.as_bytes()), (dir, to.as_bytes()), RenameMode::Replace)?;
        Ok(())
    }),
    ("unlink", |fs, cred, dir, i| {
        fs.unlink(cred, dir, name('r', i).as_bytes())?;
        Ok(())
    }),
];

fn name(prefix: char, i: usize) -> String {
    format!("{prefix}{i}")
}

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().collect();
    let n: usize = args.get(1).map_or(Ok(1000), |s| s.parse())?;
    let rounds: usize = args.get(2).map_or(Ok(5), |s| s.parse())?;
    let dev = ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 32768, 4096, 256 << 20)?;
    let opts = MountOptions { ordering: OrderingPolicy::None, ..MountOptions::default() };
    let fs = Ffs::mount(Arc::new(dev), &opts, Env::system())?;
    let cred = Cred::root();
    let dir = fs.mkdir(&cred, &fs.root()?, b"dir", 0o755)?;
    let mut best = [f64::INFINITY; PHASES.len()];
    for _ in 0..rounds {
        for ((_, operation), best) in PHASES.iter().zip(&mut best) {
            let start = Instant::now();
            for i in 0..n {
                operation(&fs, &cred, &dir, i)?;
            }
            *best = best.min(start.elapsed().as_secs_f64() * 1e6 / n as f64);
        }
    }
    for ((phase, _), us) in PHASES.iter().zip(best) {
        println!("{phase:<10} {us:8.3} us");
    }
    drop(dir);
    fs.unmount()?;
    Ok(())
}
