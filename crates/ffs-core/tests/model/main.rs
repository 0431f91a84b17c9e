//! Model tests: random operations on the file system and on a model must agree in every result and
//! errno. After every unmount fsck must have no findings and the trees must be equal.
//!
//! Every combination of format, byte order, geometry, `dirpref` and ordering is a separate test,
//! each with another combination of vmiodir, dirhash and name cache, so that every `dirpref` is
//! tested with all of them. A failure prints the seed and the operations; `FFS_MODEL_SEED` repeats
//! a seed, `FFS_MODEL_OPS` sets the length.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests stop at surprises"
)]

mod combinations;
mod compare;
mod faults;
mod step;
mod world;

use ffs_core::{DirPref, OrderingPolicy};
use ffs_ondisk::Endian;
use ffs_ondisk::geometry::Format;
use ffs_testkit::envvar::number;
use world::{Caches, Config, World};

/// Runs the random operations of one configuration.
fn run(config: Config) {
    let ops = number("FFS_MODEL_OPS").unwrap_or(1200);
    let seed = number("FFS_MODEL_SEED").unwrap_or_else(|| config.default_seed());
    println!("{config:?}: seed {seed} (FFS_MODEL_SEED={seed}), {ops} operations");
    let mut world = World::new(config, seed);
    for _ in 0..ops {
        world.step();
    }
    world.remount();
    world.finish();
}

/// Blocks of a volume so small that space and inodes sometimes run out.
const SMALL: u32 = 300;

macro_rules! grid {
    ($($n:literal $name:ident: $format:ident $endian:ident $bsize:literal/$fsize:literal;)*) => {$(
        mod $name {
            use super::*;

            fn config(dirpref: DirPref, ordering: OrderingPolicy) -> Config {
                let turn = if ordering == OrderingPolicy::Sync { 0 } else { 5 };
                Config {
                    format: Format::$format,
                    endian: Endian::$endian,
                    bsize: $bsize,
                    fsize: $fsize,
                    dirpref,
                    ordering,
                    caches: Caches::number($n + turn),
                    blocks: SMALL,
                }
            }

            #[test]
            fn old_sync() {
                run(config(DirPref::Old, OrderingPolicy::Sync));
            }
            #[test]
            fn old_none() {
                run(config(DirPref::Old, OrderingPolicy::None));
            }
            #[test]
            fn new_sync() {
                run(config(DirPref::New, OrderingPolicy::Sync));
            }
            #[test]
            fn new_none() {
                run(config(DirPref::New, OrderingPolicy::None));
            }
            #[test]
            fn soft_updates() {
                run(config(DirPref::New10, OrderingPolicy::SoftUpdates));
            }
            #[test]
            fn injected_errors() {
                faults::run(config(DirPref::New10, OrderingPolicy::Sync));
                faults::run(config(DirPref::Depth, OrderingPolicy::None));
                faults::run(config(DirPref::New, OrderingPolicy::SoftUpdates));
            }
        }
    )*};
}

grid! {
    0 ufs1_le_8k: Ufs1 Little 8192/1024;
    1 ufs1_le_16k: Ufs1 Little 16384/2048;
    2 ufs1_le_32k: Ufs1 Little 32768/4096;
    3 ufs1_be_8k: Ufs1 Big 8192/1024;
    4 ufs1_be_16k: Ufs1 Big 16384/2048;
    5 ufs1_be_32k: Ufs1 Big 32768/4096;
    6 ufs2_le_8k: Ufs2 Little 8192/1024;
    7 ufs2_le_16k: Ufs2 Little 16384/2048;
    8 ufs2_le_32k: Ufs2 Little 32768/4096;
    9 ufs2_be_8k: Ufs2 Big 8192/1024;
    10 ufs2_be_16k: Ufs2 Big 16384/2048;
    11 ufs2_be_32k: Ufs2 Big 32768/4096;
}
