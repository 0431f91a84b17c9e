//! Aged volumes.
//!
//! A new volume is filled to its share. Then files are removed and made until the written bytes are
//! the multiple of the capacity that the preset requires. The old `dirpref` places the directories.
//! Benchmarks use the remaining free space.
//!
//! # Invariants
//! 1. The volume depends only on preset and seed, to the byte. The options under study do not
//!    affect it.
//! 2. A process makes each volume once. Callers get clones.
//!
//! Reference: `docs/spec/benchmarks.md` §4, §6.3.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use ffs_admin::newfs::{NewfsOptions, Release, newfs};
use ffs_core::{
    AllocPolicy, Atime, Cred, DirPref, Env, Ffs, MountOptions, NodeKind, OrderingPolicy, Vnode,
    WriteMode,
};
use ffs_device::{ManualClock, Rng, SplitMix64, Timestamp};
use ffs_ondisk::Format;

use super::CLOCK_START;
use super::disk::SimDisk;
use super::parameters::VolumePreset;
use super::sparse_store::SparseStore;

/// Directories directly below the root.
const TOP: u64 = 24;
/// Directories below one of them.
const SECOND: u64 = 40;
/// The size of a write, bytes.
const PIECE: usize = 1 << 20;
/// The byte that files consist of.
const CONTENT: u8 = b'a';
/// One of this many files is large.
const LARGE: u64 = 10;
/// The largest file, bytes.
const LARGEST: u64 = 16 << 20;
/// The used space varies by this much while the volume ages, in percent of the target.
const SWING: u64 = 15;
/// Percentiles of the sizes of source files: percent, bytes.
const SIZES: [(u64, u64); 8] = [
    (0, 20),
    (10, 215),
    (25, 1165),
    (50, 3315),
    (75, 9108),
    (90, 24_613),
    (99, 164_243),
    (100, 2 << 20),
];
/// The most volumes in memory.
const KEPT: usize = 16;

type Cell = Arc<OnceLock<Result<SparseStore, String>>>;

/// The aged volumes of this process.
#[derive(Debug)]
pub(crate) struct AgedVolumes(Mutex<BTreeMap<String, Cell>>);

static ALL: AgedVolumes = AgedVolumes(Mutex::new(BTreeMap::new()));

impl AgedVolumes {
    /// The volume of this preset and seed. The first call makes it.
    ///
    /// # Errors
    /// The reason why it cannot be made.
    pub(crate) fn get(preset: &VolumePreset, seed: u64) -> Result<SparseStore, String> {
        let name = format!("{seed} {preset:?}");
        let cell = {
            let mut all = ALL.0.lock().unwrap_or_else(PoisonError::into_inner);
            if all.len() >= KEPT && !all.contains_key(&name) {
                all.pop_first();
            }
            Arc::clone(all.entry(name).or_default())
        };
        cell.get_or_init(|| age(preset, seed)).clone()
    }
}

/// The directory in which a benchmark makes its own: a name in the root, and one in that directory.
pub(crate) fn workplace(seed: u64) -> [String; 2] {
    let rng = SplitMix64::new(seed ^ 0x776f_726b);
    [format!("d{}", rng.below(TOP)), format!("s{}", rng.below(SECOND))]
}

fn age(preset: &VolumePreset, seed: u64) -> Result<SparseStore, String> {
    let disk = Arc::new(SimDisk::timeless(SparseStore::new(preset.size_mb << 20)));
    let clock = Arc::new(ManualClock::new(Timestamp::new(CLOCK_START - 365 * 86_400, 0)));
    let options = NewfsOptions {
        release: Release::Freebsd4,
        format: Some(Format::Ufs1),
        bsize: Some(preset.block),
        fsize: Some(preset.fragment),
        density: Some(preset.bytes_per_inode),
        avgfilesize: preset.avgfilesize,
        avgfpdir: preset.avgfpdir,
        // In cylinders of the newfs of FreeBSD 4, 2 MB each.
        max_group: Some((preset.group_mb / 2).max(1)),
        no_snap: true,
        ..NewfsOptions::default()
    };
    let rng = SplitMix64::new(seed);
    newfs(&*disk, &options, &*clock, &rng, &mut |_, _| {}).map_err(|e| e.to_string())?;
    let mut options = MountOptions {
        ordering: OrderingPolicy::None,
        atime: Atime::Never,
        ..MountOptions::default()
    };
    options.tunables.dirpref = DirPref::Old;
    options.tunables.alloc = AllocPolicy::Y2001;
    let env = Env::seeded(clock, seed);
    let fs = Ffs::mount(disk.clone(), &options, env).map_err(|e| e.to_string())?;
    let mut life = AgingRun {
        rng: SplitMix64::new(seed ^ 0x6167_6564),
        cred: Cred::root(),
        dirs: Vec::new(),
        files: Vec::new(),
        content: vec![CONTENT; PIECE],
        made: 0,
        used: 0,
        written: 0,
        fs,
    };
    life.live(preset).map_err(|e| format!("ageing: {e}"))?;
    life.dirs.clear();
    life.fs.unmount().map_err(|e| e.to_string())?;
    Ok(disk.snapshot())
}

struct AgingRun {
    fs: Ffs,
    rng: SplitMix64,
    cred: Cred,
    dirs: Vec<Vnode>,
    /// Index of the directory, number, size in bytes.
    files: Vec<(usize, u64, u64)>,
    content: Vec<u8>,
    made: u64,
    used: u64,
    written: u64,
}

impl AgingRun {
    fn live(&mut self, preset: &VolumePreset) -> ffs_core::Result<()> {
        let root = self.fs.root()?;
        for top in 0..TOP {
            let at = self.fs.mkdir(&self.cred, &root, format!("d{top}").as_bytes(), 0o755)?;
            for second in 0..SECOND {
                let name = format!("s{second}");
                self.dirs.push(self.fs.mkdir(&self.cred, &at, name.as_bytes(), 0o755)?);
            }
        }
        let capacity = preset.size_mb << 20;
        let target = capacity / 100 * u64::from(preset.used_percent);
        let enough = (capacity as f64 * preset.turnover) as u64;
        while self.used < target {
            self.make()?;
        }
        // The used space grows and shrinks, so that free space is filled and new gaps appear.
        let mut growing = false;
        while self.written < enough {
            let swing = target / 100 * SWING;
            if self.used > target + swing {
                growing = false;
            } else if self.used < target.saturating_sub(swing) {
                growing = true;
            }
            if growing == (self.rng.below(4) != 0) { self.make()? } else { self.remove()? }
        }
        while self.used > target {
            self.remove()?;
        }
        while self.used < target {
            self.make()?;
        }
        Ok(())
    }

    fn size(&self) -> u64 {
        if self.rng.below(LARGE) == 0 {
            // Each power of two from 64 KB on is equally likely.
            let doublings = u64::from((LARGEST >> 16).ilog2());
            let least = (64 << 10) << self.rng.below(doublings);
            return least + self.rng.below(least);
        }
        let percent = self.rng.below(100);
        let at = SIZES.partition_point(|(p, _)| *p <= percent).clamp(1, SIZES.len() - 1);
        let (low, high) = (SIZES[at - 1].1, SIZES[at].1);
        low + self.rng.below(high - low)
    }

    fn make(&mut self) -> ffs_core::Result<()> {
        let (dir, number) = (self.rng.below(self.dirs.len() as u64) as usize, self.made);
        self.made += 1;
        let size = self.size();
        let name = format!("f{number}");
        let at = &self.dirs[dir];
        let file = self.fs.create(&self.cred, at, name.as_bytes(), NodeKind::Regular, 0o644)?;
        let mut done = 0;
        while done < size {
            let n = (size - done).min(PIECE as u64);
            let piece = &self.content[..n as usize];
            self.fs.write(&self.cred, &file, done, piece, WriteMode::default())?;
            done += n;
        }
        self.used += size;
        self.written += size;
        self.files.push((dir, number, size));
        Ok(())
    }

    fn remove(&mut self) -> ffs_core::Result<()> {
        let at = self.rng.below(self.files.len() as u64) as usize;
        if self.files.is_empty() {
            return self.make();
        }
        let (dir, number, size) = self.files.swap_remove(at);
        self.fs.unlink(&self.cred, &self.dirs[dir], format!("f{number}").as_bytes())?;
        self.used -= size;
        Ok(())
    }
}
