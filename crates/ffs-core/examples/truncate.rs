//! Writes and truncates a sparse file alternately, with soft updates, and prints the cost of the
//! rounds.
//!
//! `truncate ROUNDS` prints, after each tenth of the rounds, the microseconds of a round since the
//! last line and the memory of soft updates in bytes. Neither may grow: `bench/truncate.sh`.

use ffs_admin::newfs;
use ffs_core::{Cred, Env, Ffs, MountOptions, NodeKind, OrderingPolicy, SetAttr, WriteMode};
use ffs_device::{BlockDevice, Rng, SplitMix64};
use ffs_ondisk::{Endian, Format};
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

/// Size of the range that is written and truncated, bytes.
const SPAN: u64 = 256 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let rounds: u64 = std::env::args().nth(1).ok_or("usage: truncate ROUNDS")?.parse()?;
    let dev = newfs::quick(Endian::Little, Format::Ufs2, 16384, 2048, 1 << 30)?;
    let opts = MountOptions { ordering: OrderingPolicy::SoftUpdates, ..MountOptions::default() };
    let fs = Ffs::mount(Arc::new(dev) as Arc<dyn BlockDevice>, &opts, Env::system())?;
    let (cred, rng) = (Cred::root(), SplitMix64::new(1));
    let file = fs.create(&cred, &fs.root()?, b"f", NodeKind::Regular, 0o644)?;
    let mut began = Instant::now();
    println!("{:>8} {:>12} {:>12}", "rounds", "us a round", "bytes");
    for round in 1..=rounds {
        fs.write(&cred, &file, rng.below(SPAN), &[7; 512], WriteMode::default())?;
        let size = SetAttr { size: Some(rng.below(SPAN)), ..SetAttr::default() };
        fs.setattr(&cred, &file, &size)?;
        if round % (rounds / 10).max(1) == 0 {
            let all = fs.gauges();
            let bytes = all.iter().find(|g| g.name == "debug.softdep.mem").map_or(0, |g| g.value);
            let each = began.elapsed().as_secs_f64() * 1e6 / (rounds / 10).max(1) as f64;
            println!("{round:>8} {each:>12.2} {bytes:>12}");
            began = Instant::now();
        }
    }
    drop(file);
    fs.unmount()?;
    Ok(())
}
