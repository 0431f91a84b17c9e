//! The paper's sixteen combinations: the same operations have the same results and leave the same
//! tree, with any set of optimisations.

use crate::world::{Caches, Config, World};
use ffs_core::{DirPref, NamecachePrime, OrderingPolicy};
use ffs_ondisk::Endian;
use ffs_ondisk::geometry::Format;
use ffs_testkit::envvar::number;

/// dirpref, vmiodir, dirhash and name cache, on or off.
fn combination(i: u32) -> Config {
    let on = |bit: u32| i >> bit & 1 == 1;
    Config {
        format: Format::Ufs2,
        endian: Endian::Little,
        bsize: 8192,
        fsize: 1024,
        dirpref: if on(0) { DirPref::New } else { DirPref::Old },
        ordering: OrderingPolicy::None,
        caches: Caches {
            vmiodir: on(1),
            dirhash: on(2),
            names: on(3).then_some(NamecachePrime::All),
        },
        // Enough space: where it runs out depends on the layout.
        blocks: 6000,
    }
}

#[test]
fn all_sixteen_leave_the_same_tree() {
    let ops = number("FFS_MODEL_OPS").unwrap_or(600);
    let seed = number("FFS_MODEL_SEED").unwrap_or(16);
    println!("seed {seed} (FFS_MODEL_SEED={seed}), {ops} operations");
    let mut first = None;
    for i in 0..16 {
        let mut world = World::new(combination(i), seed);
        for _ in 0..ops {
            world.step();
        }
        // Compares the tree with the model.
        world.remount();
        assert!(!world.log.iter().any(|l| l.contains("no space") || l.contains("short")));
        let left = (world.log.clone(), format!("{:?}", world.model));
        match &first {
            None => first = Some(left),
            Some((log, model)) => {
                assert_eq!(*log, left.0, "combination {i}: other answers");
                assert_eq!(*model, left.1, "combination {i}: another tree");
            }
        }
        world.finish();
    }
}
