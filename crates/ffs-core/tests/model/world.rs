//! A file system and its model.

use crate::compare;
use ffs_admin::fsck::quick_check;
use ffs_core::{
    Cred, DirPref, Env, Error, Ffs, Limit, MountOptions, NamecachePrime, OrderingPolicy,
    TunableValues, Vnode, WriteInPlace,
};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::Endian;
use ffs_ondisk::geometry::Format;
use ffs_testkit::model::{Body, Model, NodeId};
use ffs_testkit::rng::SplitMix64;
use std::sync::Arc;
use std::time::Duration;

/// `EIO`.
pub(crate) const EIO: i32 = 5;

/// The configuration of one test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    pub(crate) format: Format,
    pub(crate) endian: Endian,
    pub(crate) bsize: u32,
    pub(crate) fsize: u32,
    pub(crate) dirpref: DirPref,
    pub(crate) ordering: OrderingPolicy,
    pub(crate) caches: Caches,
    /// Blocks of the volume.
    pub(crate) blocks: u32,
}

/// The optimisations in memory that are on; none of them may change a result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caches {
    pub(crate) vmiodir: bool,
    pub(crate) dirhash: bool,
    /// The name cache, and how it is primed.
    pub(crate) names: Option<NamecachePrime>,
}

impl Caches {
    /// Combination number `i`, modulo their count.
    pub(crate) fn number(i: usize) -> Caches {
        let names = match i / 4 % 3 {
            0 => None,
            1 => Some(NamecachePrime::All),
            _ => Some(NamecachePrime::Off),
        };
        Caches { vmiodir: i % 2 == 1, dirhash: i / 2 % 2 == 1, names }
    }
}

impl Config {
    /// A size so small that space and inodes sometimes run out.
    pub(crate) fn image_bytes(&self) -> u64 {
        u64::from(self.bsize) * u64::from(self.blocks)
    }

    /// A seed that differs between the configurations.
    pub(crate) fn default_seed(&self) -> u64 {
        let name = format!("{self:?}");
        name.bytes().fold(2002, |h: u64, b| h.wrapping_mul(31).wrapping_add(b.into()))
    }
}

/// A mounted file system, its model, and the operations so far.
pub(crate) struct World {
    pub(crate) config: Config,
    pub(crate) dev: Arc<dyn BlockDevice>,
    pub(crate) fs: Ffs,
    pub(crate) model: Model,
    pub(crate) rng: SplitMix64,
    pub(crate) log: Vec<String>,
    /// Errors of the device are expected; the result of an operation with such an error is
    /// uncertain.
    pub(crate) faulty: bool,
    /// An operation met an error of the device.
    pub(crate) troubled: bool,
    /// The nodes of the current operation.
    pub(crate) touched: Vec<NodeId>,
    clock: Arc<ManualClock>,
}

impl World {
    pub(crate) fn new(config: Config, seed: u64) -> World {
        World::on(config, seed, Arc::new(fresh(&config)))
    }

    /// A world on the given new device.
    pub(crate) fn on(config: Config, seed: u64, dev: Arc<dyn BlockDevice>) -> World {
        let clock = Arc::new(ManualClock::new(Timestamp::new(1_000_000_000, 0)));
        let fs = mount(&config, &dev, &clock, seed);
        let mut model = Model::new(fs.geometry().maxfilesize);
        // newfs creates .snap.
        if fs.lookup(&Cred::root(), &fs.root().unwrap(), b".snap").is_ok() {
            let id =
                model.make(Model::ROOT, b".snap", Body::Dir(Default::default()), 0o775).unwrap();
            let snap = fs.lookup(&Cred::root(), &fs.root().unwrap(), b".snap").unwrap();
            let attr = fs.getattr(&snap);
            let node = model.node_mut(id).unwrap();
            (node.perm, node.gid) = (attr.perm, attr.gid);
        }
        let rng = SplitMix64::new(seed);
        World {
            config,
            dev,
            fs,
            model,
            rng,
            log: Vec::new(),
            faulty: false,
            troubled: false,
            touched: Vec::new(),
            clock,
        }
    }

    /// A number below `n`.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.rng.below(n.max(1))
    }

    /// The file of a node, looked up from the root.
    ///
    /// `None` if the device failed as expected.
    pub(crate) fn vnode(&mut self, id: NodeId) -> Option<Vnode> {
        self.touched.push(id);
        let mut at = self.fs.root();
        for name in self.path(id) {
            at = at.and_then(|dir| self.fs.lookup(&Cred::root(), &dir, &name));
        }
        self.certain("walk", at)
    }

    /// The value of an operation that must succeed; `None` if the device failed as expected.
    pub(crate) fn certain<T>(&mut self, what: &str, result: Result<T, Error>) -> Option<T> {
        match result {
            Ok(v) => Some(v),
            Err(e) if self.faulty && e.errno() == EIO => {
                self.log.push(format!("{what}: {e}"));
                self.troubled = true;
                None
            }
            Err(e) => self.fail(&format!("{what}: {e}")),
        }
    }

    /// Names from the root to a node; one of them if it has several.
    pub(crate) fn path(&self, id: NodeId) -> Vec<Vec<u8>> {
        if id == Model::ROOT {
            return Vec::new();
        }
        for (dir, node) in self.model.nodes() {
            let Body::Dir(names) = &node.body else { continue };
            if let Some((name, _)) = names.iter().find(|(_, child)| **child == id) {
                let mut path = self.path(dir);
                path.push(name.clone());
                return path;
            }
        }
        panic!("node {id} has no name");
    }

    /// Unmounts, checks that fsck has no findings, mounts, compares everything.
    pub(crate) fn remount(&mut self) {
        if self.faulty {
            return;
        }
        self.log.push("remount".into());
        self.check_indexes();
        if let Err(e) = self.fs.unmount() {
            self.fail(&format!("unmount: {e}"));
        }
        let findings = quick_check(&self.dev);
        if !findings.is_empty() {
            self.fail(&format!("fsck is not silent: {findings:#?}"));
        }
        self.mount_again();
        self.compare();
    }

    /// Mounts the device as it is.
    pub(crate) fn mount_again(&mut self) {
        let seed = self.rng.next_u64();
        self.clock.advance(Duration::from_secs(7));
        self.fs = mount(&self.config, &self.dev, &self.clock, seed);
    }

    /// Whether the unmounted volume is marked clean.
    pub(crate) fn is_clean(&self) -> bool {
        let opts = MountOptions { read_only: false, ..MountOptions::default() };
        let env = Env::seeded(self.clock.clone(), 1);
        let fs = Ffs::mount(Arc::clone(&self.dev), &opts, env).unwrap();
        let clean = !fs.is_read_only() && fs.unchecked().is_none();
        fs.unmount().unwrap();
        clean
    }

    /// Compares the two trees.
    pub(crate) fn compare(&self) {
        if self.faulty {
            return;
        }
        if let Err(difference) = compare::trees(&self.fs, &self.model) {
            self.fail(&difference);
        }
    }

    /// Checks that no directory ever disagreed with its index.
    fn check_indexes(&self) {
        let c = self.fs.counters();
        let doubts = (c.dirhash_check_failures, c.dirhash_gone_doubt, c.dirhash_refused_damaged);
        if doubts != (0, 0, 0) {
            self.fail(&format!("indexes that disagreed, were doubted, could not be: {doubts:?}"));
        }
    }

    /// Ends the run.
    pub(crate) fn finish(self) {
        self.check_indexes();
        self.fs.unmount().unwrap();
    }

    /// Fails the test with the data to repeat it.
    pub(crate) fn fail(&self, what: &str) -> ! {
        let from = self.log.len().saturating_sub(30);
        panic!(
            "{:?}\nafter {} operations, the last being\n  {}\n{what}",
            self.config,
            self.log.len(),
            self.log[from..].join("\n  ")
        );
    }
}

fn mount(config: &Config, dev: &Arc<dyn BlockDevice>, clock: &Arc<ManualClock>, seed: u64) -> Ffs {
    let caches = config.caches;
    let opts = MountOptions {
        ordering: config.ordering,
        tunables: TunableValues {
            dirpref: config.dirpref,
            cache: 4 << 20,
            maxvnodes: 64,
            vmiodirenable: caches.vmiodir,
            // Every directory of at least a chunk has an index, and each change is checked.
            dirhash_minsize: 512,
            dirhash_maxmem: if caches.dirhash { Limit::Auto } else { Limit::Of(0) },
            dirhash_docheck: caches.dirhash,
            vfscache: caches.names.is_some(),
            namecache_prime: caches.names.unwrap_or_default(),
            // No result depends on it.
            write_in_place: match seed % 2 {
                0 => WriteInPlace::Always,
                _ => WriteInPlace::Off,
            },
            ..TunableValues::default()
        },
        ..MountOptions::default()
    };
    let fs = Ffs::mount(Arc::clone(dev), &opts, Env::seeded(clock.clone(), seed)).unwrap();
    assert!(!fs.is_read_only(), "mounted read-only: {:?}", fs.read_only_reason());
    fs
}

/// A fresh in-memory image of a configuration.
pub(crate) fn fresh(config: &Config) -> MemDevice {
    ffs_admin::newfs::quick(
        config.endian,
        config.format,
        config.bsize,
        config.fsize,
        config.image_bytes(),
    )
    .unwrap()
}
