//! Volumes on a disk that loses power, random operations, and what a volume shows.

use bsdffs::bgfsck::{CheckOptions, CheckReport, Outcome, run};
use ffs_admin::fsck::{Fsck, FsckOptions, FsckReport, quick_check};
use ffs_admin::tunefs::{TunefsOptions, tunefs};
use ffs_core::{
    Cred, Env, Error, Ffs, FileType, MountOptions, NodeKind, RenameMode, SetAttr, WriteMode,
};
use ffs_core::{Result, Vnode};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::power::PowerSwitch;
use ffs_device::{BlockDevice, Durability, MemDevice};
use ffs_ondisk::{Endian, FileFlags, Format};
use ffs_testkit::rng::SplitMix64;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The time of the first mount, seconds.
pub(crate) const START: i64 = 1_700_000_000;
/// Larger than the volume: only a flush writes the cache of the disk to the medium.
const CACHE: usize = 64 << 20;
/// Bytes of a volume.
const VOLUME: u64 = 6 << 20;

/// A new volume with soft updates.
pub(crate) fn volume(seed: u64) -> MemDevice {
    let (endian, format, bsize, fsize) = match seed % 3 {
        0 => (Endian::Little, Format::Ufs2, 4096, 512),
        1 => (Endian::Big, Format::Ufs1, 8192, 1024),
        _ => (Endian::Little, Format::Ufs2, 16384, 2048),
    };
    let dev = ffs_admin::newfs::quick(endian, format, bsize, fsize, VOLUME).unwrap();
    let soft = TunefsOptions { soft_updates: Some(true), ..TunefsOptions::default() };
    tunefs(&dev, &soft).unwrap();
    dev.with_durability(Durability::OnFlush)
}

/// A mounted volume on a disk with a power switch.
pub(crate) struct Disk {
    pub(crate) power: Arc<PowerSwitch<Arc<MemDevice>>>,
    pub(crate) medium: Arc<MemDevice>,
    pub(crate) fs: Ffs,
    pub(crate) clock: Arc<ManualClock>,
}

impl Disk {
    /// Mounts the volume on `medium`.
    pub(crate) fn mount(medium: MemDevice, seed: u64, at: i64) -> Result<Disk> {
        let medium = Arc::new(medium);
        let power = Arc::new(PowerSwitch::new(Arc::clone(&medium), CACHE, seed));
        let clock = Arc::new(ManualClock::new(Timestamp::new(at, 0)));
        let dev: Arc<dyn BlockDevice> = power.clone();
        let env = Env::seeded(clock.clone(), seed);
        let fs = Ffs::mount(dev, &MountOptions::default(), env)?;
        Ok(Disk { power, medium, fs, clock })
    }

    pub(crate) fn tick(&self) {
        self.clock.advance(Duration::from_secs(3));
        // Without power it fails.
        let _ = self.fs.tick();
    }

    /// Unmounts, and returns what the medium has.
    pub(crate) fn unmounted(self) -> Arc<dyn BlockDevice> {
        self.fs.unmount().unwrap();
        self.medium
    }

    /// Loses power, and returns what the medium has.
    pub(crate) fn crash(self) -> MemDevice {
        self.power.lose_power().unwrap();
        self.medium.snapshot()
    }
}

/// Options of a check without pauses.
pub(crate) fn check(fs: &Ffs, mut each: impl FnMut() + Send) -> CheckReport {
    let each = std::sync::Mutex::new(&mut each);
    let call = || (each.lock().unwrap())();
    run(
        fs,
        CheckOptions {
            force: false,
            paced: false,
            interrupt: Arc::new(AtomicBool::new(false)),
            max_memory: None,
            changed: &mut |_| call(),
            progress: &mut |_| call(),
        },
    )
}

/// Checks in the background, which must succeed.
pub(crate) fn check_all(fs: &Ffs, at: &str) -> CheckReport {
    let report = check(fs, || ());
    assert_eq!(report.outcome, Outcome::Completed, "{at}: {:#?}", report.findings);
    report
}

/// The volume is marked clean, and `fsck` finds nothing.
pub(crate) fn assert_sound(dev: &Arc<dyn BlockDevice>, at: &str) {
    let found = quick_check(dev);
    assert!(found.is_empty(), "{at}: {found:#?}");
    let volume = ffs_admin::Volume::open(&**dev).unwrap();
    assert!(volume.sb.is_clean(), "{at}: not marked clean");
}

/// `fsck -p`.
pub(crate) fn preen(dev: &Arc<dyn BlockDevice>) -> FsckReport {
    Fsck::new(Arc::clone(dev), FsckOptions::preen().at(START + 50)).run()
}

/// Kind, permissions, links and content of each file, by path; without `/.snap`.
pub(crate) type Tree = BTreeMap<String, (FileType, u16, u32, Vec<u8>)>;

pub(crate) fn tree_of(fs: &Ffs) -> Tree {
    let mut tree = Tree::new();
    let mut todo = vec![(String::new(), fs.root().unwrap())];
    while let Some((path, file)) = todo.pop() {
        let attr = fs.getattr(&file);
        let mut content = Vec::new();
        match attr.kind {
            FileType::Directory => {
                for name in names(fs, &file) {
                    if path.is_empty() && name == ".snap" {
                        continue;
                    }
                    let child = fs.lookup(&Cred::root(), &file, name.as_bytes()).unwrap();
                    todo.push((format!("{path}/{name}"), child));
                }
            }
            FileType::Regular if !attr.flags.contains(FileFlags::SF_SNAPSHOT) => {
                content = vec![0; attr.size as usize];
                let n = fs.read(&file, 0, &mut content).unwrap();
                assert_eq!(n, content.len(), "{path}");
            }
            _ => {}
        }
        // The root has one link more with `.snap`.
        let nlink = if path.is_empty() { 0 } else { attr.nlink };
        tree.insert(path, (attr.kind, attr.perm, nlink, content));
    }
    tree
}

/// What the volume on `dev` shows.
pub(crate) fn tree_on(dev: &Arc<dyn BlockDevice>) -> Tree {
    let clock = Arc::new(ManualClock::new(Timestamp::new(START + 60, 0)));
    let options = MountOptions { read_only: true, ..MountOptions::default() };
    tree_of(&Ffs::mount(Arc::clone(dev), &options, Env::seeded(clock, 1)).unwrap())
}

pub(crate) fn names(fs: &Ffs, dir: &Vnode) -> Vec<String> {
    let mut all = Vec::new();
    fs.readdir(dir, 0, &mut |e| {
        if e.name != b"." && e.name != b".." {
            all.push(String::from_utf8_lossy(e.name).into_owned());
        }
        true
    })
    .unwrap();
    all
}

/// Random operations below the root. They may fail, and then do nothing.
pub(crate) struct Actor {
    pub(crate) rng: SplitMix64,
    /// Only names with this prefix are used.
    prefix: &'static str,
    /// Whether it renames.
    pub(crate) renames: bool,
    /// The volume had no space for an operation.
    pub(crate) was_full: bool,
}

impl Actor {
    pub(crate) fn new(seed: u64, prefix: &'static str) -> Actor {
        Actor { rng: SplitMix64::new(seed), prefix, renames: true, was_full: false }
    }

    fn name(&mut self) -> String {
        format!("{}{}", self.prefix, self.rng.below(6))
    }

    /// A directory, up to three levels down.
    fn dir(&mut self, fs: &Ffs) -> Option<Vnode> {
        let mut dir = fs.root().ok()?;
        for _ in 0..self.rng.below(4) {
            let name = self.name();
            match fs.lookup(&Cred::root(), &dir, name.as_bytes()) {
                Ok(child) if fs.getattr(&child).kind == FileType::Directory => dir = child,
                _ => break,
            }
        }
        Some(dir)
    }

    /// Makes one operation.
    pub(crate) fn step(&mut self, fs: &Ffs) {
        let Some(dir) = self.dir(fs) else { return };
        if let Err(Error::NoSpace | Error::NoInodes) = self.operation(fs, &dir) {
            self.was_full = true;
        }
    }

    fn operation(&mut self, fs: &Ffs, dir: &Vnode) -> Result<()> {
        let (c, name, other) = (Cred::root(), self.name(), self.name());
        let (name, other) = (name.as_bytes(), other.as_bytes());
        match self.rng.below(16) {
            0..=2 => fs.mkdir(&c, dir, name, 0o755).map(drop),
            3..=5 => {
                let file = fs.create(&c, dir, name, NodeKind::Regular, 0o644)?;
                self.write(fs, &file)
            }
            6 => self.write(fs, &fs.lookup(&c, dir, name)?),
            7 => {
                let file = fs.lookup(&c, dir, name)?;
                let size = Some(self.rng.below(60_000));
                fs.setattr(&c, &file, &SetAttr { size, ..SetAttr::default() }).map(drop)
            }
            8 | 9 => fs.unlink(&c, dir, name),
            10 => fs.rmdir(&c, dir, name),
            11 | 12 if !self.renames => Ok(()),
            11 | 12 => {
                let Some(to) = self.dir(fs) else { return Ok(()) };
                fs.rename(&c, (dir, name), (&to, other), RenameMode::Replace)
            }
            13 => {
                let Some(to) = self.dir(fs) else { return Ok(()) };
                fs.link(&c, &fs.lookup(&c, dir, name)?, &to, other).map(drop)
            }
            14 => self.fill(fs, dir),
            _ => fs.fsync(&fs.lookup(&c, dir, name)?),
        }
    }

    /// Enters many long names, so that a directory needs several blocks.
    fn fill(&mut self, fs: &Ffs, dir: &Vnode) -> Result<()> {
        let some = self.rng.below(40);
        for n in 0..some {
            let name = format!("{}-{n:0>180}", self.prefix);
            fs.create(&Cred::root(), dir, name.as_bytes(), NodeKind::Regular, 0o600)?;
        }
        Ok(())
    }

    fn write(&mut self, fs: &Ffs, file: &Vnode) -> Result<()> {
        let size = match self.rng.below(8) {
            0 => 150_000,
            1..=3 => self.rng.below(30_000),
            _ => self.rng.below(3000),
        };
        let at = if self.rng.one_in(4) { self.rng.below(100_000) } else { 0 };
        let bytes = vec![self.rng.below(255) as u8 + 1; size as usize];
        fs.write(&Cred::root(), file, at, &bytes, WriteMode::default()).map(drop)
    }
}

/// What a crash leaves of a volume with random operations.
pub(crate) fn crashed(seed: u64) -> MemDevice {
    let disk = Disk::mount(volume(seed), seed, START).unwrap();
    let mut actor = Actor::new(seed, "n");
    let steps = 40 + actor.rng.below(160);
    for step in 0..steps {
        actor.step(&disk.fs);
        if step % 4 == 0 {
            disk.tick();
        }
        if actor.rng.one_in(40) {
            let _ = disk.fs.sync();
        }
    }
    // In the middle of the writes of a sync.
    disk.power.lose_power_at(1 + actor.rng.below(60));
    let _ = disk.fs.sync();
    disk.crash()
}
