//! As many snapshots as a volume may have, under random load, with crashes.

use super::common::{mount_on, soft_updates, soft_volume};
use super::crash::{Expected, check_repair, each_state, use_again};
use super::view::tree_of;
use super::{SHAPES, remove, snapshot, write_file};
use ffs_core::{Cred, Error};
use ffs_device::{BlockDevice, Durability, Rng, SplitMix64};
use std::sync::Arc;

/// Snapshots that a superblock lists.
const MOST: usize = 20;
/// One state in so many is repaired and used: each of them reads all snapshots.
const EACH: u64 = 251;

#[test]
fn twenty_snapshots_under_load_keep_their_trees_after_crashes() {
    let seed = ffs_testkit::envvar::number("FFS_SNAPSHOT_SEED").unwrap_or(1);
    let rng = SplitMix64::new(seed);
    let dev = soft_volume(SHAPES[0], 24 << 20).with_durability(Durability::OnFlush);
    let w = mount_on(dev, &soft_updates());
    let mut expected = Expected::new();
    let load = |rng: &SplitMix64| {
        for _ in 0..4 {
            let name = format!("f{}", rng.below(12));
            match rng.below(4) {
                0 if w.get(&w.root, &name).is_ok() => remove(&w.fs, &name),
                _ => {
                    let len = [300, 5000, 40_000][rng.below(3) as usize];
                    write_file(&w.fs, &name, &vec![rng.below(255) as u8 + 1; len]);
                }
            }
        }
    };
    for n in 0..MOST {
        load(&rng);
        let name = format!("snap{n}");
        expected.insert(name.clone(), tree_of(&w.fs));
        drop(snapshot(&w.fs, &name));
    }
    let more = w.fs.snapshot(&Cred::root(), &w.root, b"more").map(drop);
    assert!(matches!(more, Err(Error::TooManySnapshots)), "{more:?}");
    w.fs.sync().unwrap();
    let base = w.record();
    load(&rng);
    let removed = ["snap0", "snap7", "snap19"];
    for name in removed {
        load(&rng);
        remove(&w.fs, name);
        w.fs.sync().unwrap();
    }
    expected.insert("new".to_owned(), tree_of(&w.fs));
    drop(snapshot(&w.fs, "new"));
    let kept: Vec<String> = (0..MOST).map(|n| format!("snap{n}")).collect();
    let kept: Vec<&str> =
        kept.iter().map(String::as_str).filter(|name| !removed.contains(name)).collect();
    let (mut all, mut examined) = (0, 0);
    each_state(&base, w.dev.take_events(), seed, |state, at| {
        all += 1;
        if all % EACH != 0 {
            return;
        }
        examined += 1;
        let at = format!("FFS_SNAPSHOT_SEED={seed} {at}, repaired");
        let dev: Arc<dyn BlockDevice> = Arc::new(state);
        check_repair(&dev, &at);
        assert!(use_again(dev, &expected, &kept, &at).is_some_and(|n| n >= kept.len()), "{at}");
    });
    assert!(examined > 1, "{examined} of {all} states");
}
