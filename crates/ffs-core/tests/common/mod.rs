//! Common code of the tests: small volumes in memory whose writes are recorded, and a check of
//! them.
#![allow(dead_code, reason = "each test uses a part")]
#![allow(clippy::unwrap_used, reason = "a test")]

pub(crate) mod examine;
pub(crate) mod place;

use ffs_admin::tunefs::{TunefsOptions, tunefs};
use ffs_core::{
    Cred, Env, Error, Ffs, MountOptions, NodeKind, OrderingPolicy, RenameMode, Result, Vnode,
};
use ffs_device::clock::{Clock, ManualClock, Timestamp};
use ffs_device::record::{Event, Level, Recorder};
use ffs_device::{BlockDevice, MemDevice};
use ffs_ondisk::{Endian, Format, Ino};
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A mounted volume, its device and its root.
pub(crate) struct World {
    pub(crate) fs: Ffs,
    pub(crate) root: Vnode,
    pub(crate) dev: Arc<Recorder<MemDevice>>,
    pub(crate) clock: Arc<ManualClock>,
}

/// The time at which volumes are mounted, seconds.
pub(crate) const START: i64 = 1_700_000_000;

/// Byte order, format, bytes of a block and of a fragment.
pub(crate) type Shape = (Endian, Format, u32, u32);

/// A new volume.
pub(crate) fn volume((endian, format, bsize, fsize): Shape, bytes: u64) -> MemDevice {
    ffs_admin::newfs::quick(endian, format, bsize, fsize, bytes).unwrap()
}

/// A new volume with the soft updates flag.
pub(crate) fn soft_volume(shape: Shape, bytes: u64) -> MemDevice {
    let dev = volume(shape, bytes);
    let soft = TunefsOptions { soft_updates: Some(true), ..TunefsOptions::default() };
    tunefs(&dev, &soft).unwrap();
    dev
}

/// The volume of a test with soft updates, by seed: both formats, both byte orders, 8 MB.
pub(crate) fn soft_volume_of(seed: u64) -> MemDevice {
    let shape = match seed % 3 {
        0 => (Endian::Little, Format::Ufs2, 4096, 512),
        1 => (Endian::Big, Format::Ufs1, 8192, 1024),
        _ => (Endian::Little, Format::Ufs2, 16384, 2048),
    };
    soft_volume(shape, 8 << 20)
}

/// A mount with soft updates.
pub(crate) fn soft_updates() -> MountOptions {
    MountOptions { ordering: OrderingPolicy::SoftUpdates, ..MountOptions::default() }
}

/// A little-endian UFS2 volume of 16 MB, 16K/2K.
pub(crate) fn world(policy: OrderingPolicy) -> World {
    world_of((Endian::Little, Format::Ufs2, 16384, 2048), policy)
}

pub(crate) fn world_of(shape: Shape, policy: OrderingPolicy) -> World {
    let opts = MountOptions { ordering: policy, ..MountOptions::default() };
    mount_on(volume(shape, 16 << 20), &opts)
}

/// The same without ordered writes.
pub(crate) fn fresh() -> World {
    world(OrderingPolicy::None)
}

pub(crate) fn mount_on(mem: MemDevice, opts: &MountOptions) -> World {
    mount_recorded(mem, opts, Level::Log)
}

pub(crate) fn mount_recorded(mem: MemDevice, opts: &MountOptions, level: Level) -> World {
    let dev = Arc::new(Recorder::with_level(mem, level));
    let clock = Arc::new(ManualClock::new(Timestamp::new(START, 0)));
    let env = Env::seeded(Arc::clone(&clock) as Arc<dyn Clock>, 1);
    let fs = Ffs::mount(Arc::clone(&dev) as Arc<dyn BlockDevice>, opts, env).unwrap();
    let root = fs.root().unwrap();
    World { fs, root, dev, clock }
}

impl World {
    pub(crate) fn file(&self, dir: &Vnode, name: &str) -> Vnode {
        self.fs.create(&Cred::root(), dir, name.as_bytes(), NodeKind::Regular, 0o644).unwrap()
    }

    pub(crate) fn dir(&self, dir: &Vnode, name: &str) -> Vnode {
        self.fs.mkdir(&Cred::root(), dir, name.as_bytes(), 0o755).unwrap()
    }

    pub(crate) fn get(&self, dir: &Vnode, name: &str) -> Result<Vnode> {
        self.fs.lookup(&Cred::root(), dir, name.as_bytes())
    }

    pub(crate) fn nlink(&self, v: &Vnode) -> u32 {
        self.fs.getattr(v).nlink
    }

    /// Advances the time by a second.
    pub(crate) fn tick(&self) -> i64 {
        self.clock.advance(Duration::from_secs(1));
        self.clock.now().secs
    }

    /// Advances the time second by second, with the syncer running.
    pub(crate) fn pass(&self, seconds: u32) {
        for _ in 0..seconds {
            self.tick();
            self.fs.tick().unwrap();
        }
    }

    /// The present content of the device; clears the record of writes.
    pub(crate) fn record(&self) -> MemDevice {
        self.dev.take_events();
        self.dev.inner().snapshot()
    }

    /// The device after each write since it was `from`, with the offset of that write.
    pub(crate) fn each_write(&self, from: &MemDevice, mut each: impl FnMut(&MemDevice, u64)) {
        for event in self.dev.take_events() {
            if let Event::Write { offset, bytes, .. } = event {
                from.write_at(offset, &bytes).unwrap();
                each(from, offset);
            }
        }
    }

    /// The writes of an operation: `i` for an inode block, `d` for data or a directory, in order.
    pub(crate) fn writes_of(&self, op: impl FnOnce(&World)) -> String {
        self.fs.sync().unwrap();
        self.dev.take_events();
        op(self);
        let g = *self.fs.geometry();
        let kind = |offset: u64| {
            let at = ffs_ondisk::FragNo(offset / u64::from(g.fsize));
            let c = g.dtog(at);
            if at >= g.cgimin(c) && at < g.cgdmin(c) {
                'i'
            } else if g.in_metadata(c, at) {
                'm'
            } else {
                'd'
            }
        };
        let events = self.dev.take_events();
        let writes = events.iter().filter_map(|e| match e {
            Event::Write { offset, .. } => Some(kind(*offset)),
            _ => None,
        });
        writes.collect()
    }

    /// All names but `.` and `..`, in order.
    pub(crate) fn names(&self, dir: &Vnode) -> Vec<String> {
        list(&self.fs, dir)
            .into_iter()
            .map(|(name, _)| name)
            .filter(|n| n != "." && n != "..")
            .collect()
    }

    /// Unmounts and checks the volume.
    pub(crate) fn end(self) {
        let World { fs, root, dev, .. } = self;
        drop(root);
        fs.unmount().unwrap();
        check(&dev);
    }
}

/// The file at a path.
pub(crate) fn at(fs: &Ffs, path: &str) -> Result<Vnode> {
    let mut v = fs.root()?;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        v = fs.lookup(&Cred::root(), &v, name.as_bytes())?;
    }
    Ok(v)
}

pub(crate) fn list(fs: &Ffs, dir: &Vnode) -> Vec<(String, Ino)> {
    let mut all = Vec::new();
    fs.readdir(dir, 0, &mut |e| {
        all.push((String::from_utf8_lossy(e.name).into_owned(), e.ino));
        true
    })
    .unwrap();
    all
}

/// Panics unless a full check has no findings.
pub(crate) fn check(dev: &Arc<Recorder<MemDevice>>) {
    let dev = Arc::clone(dev) as Arc<dyn BlockDevice>;
    let findings = ffs_admin::fsck::quick_check(&dev);
    let all: Vec<String> =
        findings.iter().map(|f| format!("{:?} {:?}: {}", f.id, f.ino, f.message)).collect();
    assert!(all.is_empty(), "fsck found:\n{}", all.join("\n"));
}

/// The errno of a failure; 0 for success.
pub(crate) fn errno<T>(r: Result<T>) -> i32 {
    r.err().as_ref().map_or(0, Error::errno)
}

pub(crate) fn root() -> Cred {
    Cred::root()
}

/// The errno of a rename; 0 for success.
pub(crate) fn rename(w: &World, from: (&Vnode, &str), to: (&Vnode, &str), mode: RenameMode) -> i32 {
    errno(w.fs.rename(&root(), (from.0, from.1.as_bytes()), (to.0, to.1.as_bytes()), mode))
}

/// The errno of a rename that replaces its target.
pub(crate) fn mv(w: &World, from: (&Vnode, &str), to: (&Vnode, &str)) -> i32 {
    rename(w, from, to, RenameMode::Replace)
}

/// Does `work` for each item, with a thread for each processor. Returns the results in the order of
/// the items. A test that takes long would otherwise keep one processor busy, and the others idle.
pub(crate) fn in_parallel<T, R>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R>
where
    T: Sync,
    R: Send,
{
    let (next, results) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let run = || {
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(n) else { break };
            let result = work(item);
            results.lock().unwrap().push((n, result));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(items.len());
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        for thread in started {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
    });
    let mut results = results.into_inner().unwrap();
    results.sort_by_key(|(n, _)| *n);
    assert_eq!(results.len(), items.len());
    results.into_iter().map(|(_, result)| result).collect()
}
