//! The process that is killed.

use crate::{READY, WRITERS};
use ffs_core::{
    Cred, Env, Error, Ffs, MountOptions, NodeKind, OrderingPolicy, RenameMode, Result, SetAttr,
    Vnode, WriteMode,
};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::{BlockDevice, FileDevice};
use ffs_ondisk::FileType;
use ffs_testkit::killed::{COMMON, Place, Script};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Time that goes by in each operation: some 300 are the delay after which everything is written.
const CALL: Duration = Duration::from_millis(100);
/// Operations for each time the syncer is called.
const OPERATIONS_A_TICK: u32 = 10;

/// `IMAGE SEED ROUND`: until it is killed.
pub(crate) fn run(arguments: &[String]) {
    let [image, seed, round] = arguments else { panic!("child IMAGE SEED ROUND") };
    let (seed, round): (u64, i64) = (seed.parse().unwrap(), round.parse().unwrap());
    let start = Timestamp::new(1_700_000_000 + round * 100_000, 0);
    let clock = Arc::new(ManualClock::new(start));
    let device: Arc<dyn BlockDevice> = Arc::new(FileDevice::open(image.as_ref(), true).unwrap());
    let mut options =
        MountOptions { ordering: OrderingPolicy::SoftUpdates, ..MountOptions::default() };
    if seed.is_multiple_of(3) {
        options.tunables.set("max_softdeps", Some("150")).unwrap();
    }
    let fs = Ffs::mount(device, &options, Env::seeded(clock.clone(), seed)).unwrap();
    assert!(!fs.is_read_only(), "{:?}", fs.read_only_reason());
    let place = Mounted { fs, clock };
    let old = format!("old{round}");
    if place.at(COMMON[0]).is_ok() {
        place.rename(COMMON[0], &old).unwrap();
    }
    for directory in COMMON {
        place.mkdir(directory).unwrap();
        place.fsync(directory).unwrap();
    }
    let (tick, ticks) = sync_channel(4);
    say(READY);
    std::thread::scope(|s| {
        let place = &place;
        s.spawn(move || syncer(place, ticks));
        s.spawn(|| place.remove_old());
        for writer in 0..WRITERS {
            let tick = tick.clone();
            s.spawn(move || write(place, seed, writer, &tick));
        }
    });
}

fn say(what: u8) {
    let out = std::io::stdout();
    let mut pipe = File::from(out.as_fd().try_clone_to_owned().unwrap());
    pipe.write_all(&[what]).unwrap();
}

fn stop(why: &str) -> ! {
    eprintln!("{why}");
    std::process::exit(3)
}

fn write(place: &Mounted, seed: u64, writer: u8, tick: &SyncSender<()>) {
    let mut script = Script::new(seed, writer, true);
    for n in 0u32.. {
        if let Err((op, why)) = script.step(place) {
            stop(&format!("writer {writer}: {op}: {why}"));
        }
        say(writer);
        place.clock.advance(CALL);
        if n % OPERATIONS_A_TICK == 0 {
            // If it is busy it will be called soon enough.
            let _ = tick.try_send(());
        }
    }
}

fn syncer(place: &Mounted, ticks: Receiver<()>) {
    for () in ticks {
        if let Err(why) = place.fs.tick() {
            stop(&format!("tick: {why}"));
        }
    }
}

struct Mounted {
    fs: Ffs,
    clock: Arc<ManualClock>,
}

impl Mounted {
    fn at(&self, path: &str) -> Result<Vnode> {
        let mut v = self.fs.root()?;
        for name in path.split('/') {
            v = self.fs.lookup(&Cred::root(), &v, name.as_bytes())?;
        }
        Ok(v)
    }

    fn parent<'p>(&self, path: &'p str) -> Result<(Vnode, &'p [u8])> {
        match path.rsplit_once('/') {
            Some((dir, name)) => Ok((self.at(dir)?, name.as_bytes())),
            None => Ok((self.fs.root()?, path.as_bytes())),
        }
    }

    /// Removes what earlier rounds left.
    fn remove_old(&self) {
        let root = self.fs.root().unwrap();
        for name in self.entries(&root) {
            if name.starts_with(b"old") {
                let path = String::from_utf8(name).unwrap();
                self.remove_tree(&path).unwrap_or_else(|e| stop(&format!("{path}: {e}")));
            }
        }
    }

    fn entries(&self, dir: &Vnode) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let mut each = |e: ffs_core::DirEntry<'_>| {
            all.push(e.name.to_vec());
            true
        };
        self.fs.readdir(dir, 0, &mut each).unwrap_or_else(|e| stop(&format!("readdir: {e}")));
        all.retain(|name| name != b"." && name != b"..");
        all
    }

    fn remove_tree(&self, path: &str) -> Result<()> {
        let dir = self.at(path)?;
        for name in self.entries(&dir) {
            let below = format!("{path}/{}", String::from_utf8_lossy(&name));
            if self.fs.getattr(&self.at(&below)?).kind == FileType::Directory {
                self.remove_tree(&below)?;
            } else {
                self.unlink(&below)?;
            }
        }
        drop(dir);
        self.rmdir(path)
    }
}

impl Place for Mounted {
    type Error = Error;
    fn create(&self, path: &str) -> Result<()> {
        let (dir, name) = self.parent(path)?;
        self.fs.create(&Cred::root(), &dir, name, NodeKind::Regular, 0o644).map(drop)
    }
    fn write(&self, path: &str, offset: u64, bytes: &[u8], sync: bool) -> Result<()> {
        let mode = WriteMode { sync, ..WriteMode::default() };
        let n = self.fs.write(&Cred::root(), &self.at(path)?, offset, bytes, mode)?;
        if n == bytes.len() { Ok(()) } else { Err(Error::NoSpace) }
    }
    fn truncate(&self, path: &str, size: u64) -> Result<()> {
        let set = SetAttr { size: Some(size), ..SetAttr::default() };
        self.fs.setattr(&Cred::root(), &self.at(path)?, &set).map(drop)
    }
    fn link(&self, from: &str, to: &str) -> Result<()> {
        let (dir, name) = self.parent(to)?;
        self.fs.link(&Cred::root(), &self.at(from)?, &dir, name)
    }
    fn unlink(&self, path: &str) -> Result<()> {
        let (dir, name) = self.parent(path)?;
        self.fs.unlink(&Cred::root(), &dir, name)
    }
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let ((a, from), (b, to)) = (self.parent(from)?, self.parent(to)?);
        self.fs.rename(&Cred::root(), (&a, from), (&b, to), RenameMode::Replace)
    }
    fn mkdir(&self, path: &str) -> Result<()> {
        let (dir, name) = self.parent(path)?;
        self.fs.mkdir(&Cred::root(), &dir, name, 0o755).map(drop)
    }
    fn rmdir(&self, path: &str) -> Result<()> {
        let (dir, name) = self.parent(path)?;
        self.fs.rmdir(&Cred::root(), &dir, name)
    }
    fn fsync(&self, path: &str) -> Result<()> {
        self.fs.fsync(&self.at(path)?, false)
    }
    fn sync(&self) -> Result<()> {
        self.fs.sync()
    }
}
