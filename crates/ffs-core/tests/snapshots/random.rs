//! Random operations while snapshots are made and removed.

use super::common::{World, mount_on, soft_volume, volume};
use super::view::{Tree, findings, image_of, tree_of, view_of};
use super::{SHAPES, check_volume, remove, with};
use ffs_core::{Cred, Error, NodeKind, OrderingPolicy, RenameMode, SetAttr, WriteMode};
use ffs_device::{Rng, SplitMix64};

/// Most snapshots at a time.
const MOST: usize = 5;

/// A volume under random operations, and the trees that its snapshots have to show.
struct Run {
    w: World,
    rng: SplitMix64,
    snapshots: Vec<(String, Tree)>,
    made: u32,
}

impl Run {
    fn name(&self) -> String {
        format!("f{}", self.rng.below(30))
    }

    /// Makes one change. A full volume refuses it.
    fn change(&self) {
        let (c, fs, root) = (Cred::root(), &self.w.fs, &self.w.root);
        let (name, other) = (self.name(), self.name());
        let full = |result: Result<(), Error>| match result {
            Ok(())
            | Err(
                Error::NoSpace
                | Error::NotFound
                | Error::Exists
                | Error::IsDirectory
                | Error::NotDirectory
                | Error::NotEmpty,
            ) => {}
            Err(e) => panic!("{name} {other}: {e}"),
        };
        match self.rng.below(10) {
            0..=3 => full((|| {
                let file = match fs.lookup(&c, root, name.as_bytes()) {
                    Ok(file) => file,
                    Err(_) => fs.create(&c, root, name.as_bytes(), NodeKind::Regular, 0o644)?,
                };
                let size = [10, 600, 5000, 40_000, 150_000][self.rng.below(5) as usize];
                let at = self.rng.below(size as u64 + 1);
                let bytes = vec![self.rng.below(255) as u8 + 1; size];
                fs.write(&c, &file, at, &bytes, WriteMode::default()).map(drop)
            })()),
            4 | 5 => full(fs.unlink(&c, root, name.as_bytes())),
            6 => full(fs.rename(
                &c,
                (root, name.as_bytes()),
                (root, other.as_bytes()),
                RenameMode::Replace,
            )),
            7 => full((|| {
                let file = fs.lookup(&c, root, name.as_bytes())?;
                let size = Some(self.rng.below(30_000));
                fs.setattr(&c, &file, &SetAttr { size, ..SetAttr::default() }).map(drop)
            })()),
            8 => full(fs.mkdir(&c, root, name.as_bytes(), 0o755).map(drop)),
            _ => full(fs.rmdir(&c, root, name.as_bytes())),
        }
    }

    fn take_snapshot(&mut self) {
        let name = format!("snap{}", self.made);
        self.made += 1;
        let tree = tree_of(&self.w.fs);
        match self.w.fs.snapshot(&Cred::root(), &self.w.root, name.as_bytes()) {
            Ok(_) => self.snapshots.push((name, tree)),
            Err(Error::NoSpace) => {}
            Err(e) => panic!("{name}: {e}"),
        }
    }

    fn check(&self, seed: u64) {
        for (name, tree) in &self.snapshots {
            let snap = self.w.get(&self.w.root, name).unwrap();
            assert_eq!(view_of(&self.w.fs, &snap), *tree, "seed {seed}: {name} changed");
            let image = image_of(&self.w.fs, &snap);
            assert_eq!(findings(&image), Vec::<String>::new(), "seed {seed}: {name}");
        }
    }
}

fn run(seed: u64, ordering: OrderingPolicy) {
    let shape = SHAPES[seed as usize % SHAPES.len()];
    let dev = match ordering {
        OrderingPolicy::SoftUpdates => soft_volume(shape, 12 << 20),
        _ => volume(shape, 12 << 20),
    };
    let w = mount_on(dev, &with(ordering));
    let mut run = Run { w, rng: SplitMix64::new(seed), snapshots: Vec::new(), made: 0 };
    for _ in 0..24 {
        for _ in 0..12 {
            run.change();
        }
        match run.rng.below(6) {
            0 | 1 if run.snapshots.len() < MOST => run.take_snapshot(),
            2 if !run.snapshots.is_empty() => {
                let at = run.rng.below(run.snapshots.len() as u64) as usize;
                let (name, _) = run.snapshots.remove(at);
                remove(&run.w.fs, &name);
            }
            3 => run.w.pass(40),
            4 => run.w.fs.sync().unwrap(),
            _ => {}
        }
        run.check(seed);
    }
    check_volume(run.w);
}

#[test]
fn snapshots_keep_their_trees_under_random_operations() {
    let seeds = ffs_testkit::envvar::number("FFS_SNAPSHOT_SEEDS").unwrap_or(24);
    for seed in 0..seeds {
        let ordering = [OrderingPolicy::SoftUpdates, OrderingPolicy::Sync, OrderingPolicy::None];
        run(seed, ordering[seed as usize / SHAPES.len() % 3]);
    }
}
