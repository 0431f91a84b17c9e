//! Servers killed (SIGKILL) under load, again and again. The test `killed` of `ffs-core` does the
//! same with the library; this one goes through the kernel.
//!
//! Four writers run the operations of `ffs_testkit::killtest` on the mount, and count each
//! operation after it returned. After the kill, `fsck -p` must repair the image with lossless
//! repairs only, a full check must find nothing, and every name and byte of a completed sync must
//! be there. The next server uses the same image.
//!
//! `FFS_KILL_SERVERS` is the number of kills (default 4), `FFS_KILL_SEED` the first seed (default
//! 1), `FFS_KILL_SEEDS` among how many the kills are divided (default 2).

use crate::Test;
use crate::examine::examine;
use crate::harness::{Image, lost_server};
use ffs_admin::tunefs::{TunefsOptions, tunefs};
use ffs_device::{FileDevice, MemDevice};
use ffs_ondisk::{Endian, Format};
use ffs_testkit::envvar::number;
use ffs_testkit::killtest::{COMMON, FileOps, Script, SyncCalls, SyncFlag, Verified, save_image};
use ffs_testkit::rng::SplitMix64;
use rustix::fs::FallocateFlags;
use rustix::process::Signal;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) const TESTS: &[Test] =
    &[("servers_killed_under_load_keep_their_promises", servers_killed_under_load)];

const WRITERS: u8 = 4;
/// Operations before a kill at most.
const MOST_OPERATIONS: u64 = 400;
/// Kills after which a new volume is made.
const LIFE: u64 = 20;
/// Changes do not wait, so that the syncer takes part in what takes moments.
const OPTIONS: &str = "filedelay=0,dirdelay=0,metadelay=0";

fn servers_killed_under_load() {
    let set = |name, default| number(name).unwrap_or(default);
    let (kills, first) = (set("FFS_KILL_SERVERS", 4), set("FFS_KILL_SEED", 1));
    let seeds = set("FFS_KILL_SEEDS", 2).max(1);
    let (mut promises, mut repairs, mut operations) = (Verified::default(), 0, 0);
    for seed in first..first + seeds {
        let kills = kills / seeds + u64::from(seed - first < kills % seeds);
        let (mut rng, mut image) = (SplitMix64::new(seed), volume(0));
        for kill in 0..kills {
            if kill > 0 && kill % LIFE == 0 {
                image = volume(kill / LIFE);
            }
            let what = format!("FFS_KILL_SEED={seed}, kill {kill}");
            let script = rng.next_u64();
            let done = load_and_kill(&image, kill, script, 1 + rng.below(MOST_OPERATIONS));
            let left = fs::read(image.path()).unwrap();
            let dev = Arc::new(MemDevice::from_bytes(&left));
            let outcome = examine(&dev, (script, SyncCalls::Omit), Some(&done));
            let (repaired, kept) = outcome.unwrap_or_else(|why| {
                let saved = save_image(&left, seed, kill);
                panic!("{what}, script {script}, {done:?}: {why}; {saved}")
            });
            fs::write(image.path(), dev.to_vec()).unwrap();
            (repairs, promises) = (repairs + repaired, {
                promises += kept;
                promises
            });
            operations += done.iter().sum::<usize>();
        }
    }
    let Verified { names, files } = promises;
    println!(
        "{kills} kills, {operations} operations, {names} names and {files} files promised and \
         kept, {repairs} repairs by fsck -p"
    );
}

/// A new volume with soft updates.
fn volume(number: u64) -> Image {
    let format = if number.is_multiple_of(2) { Format::Ufs2 } else { Format::Ufs1 };
    let image = Image::of((format, Endian::Little, 8192, 1024), 16 << 20);
    let soft = TunefsOptions { soft_updates: Some(true), ..TunefsOptions::default() };
    tunefs(&FileDevice::open(&image.path(), true).unwrap(), &soft).unwrap();
    image
}

/// The number of operations that returned, for each writer.
fn load_and_kill(image: &Image, kill: u64, seed: u64, operations: u64) -> Vec<usize> {
    let mount = image.mount(OPTIONS);
    let place = Dir(image.mount_point());
    prepare(&place, kill).unwrap();
    let done: Vec<AtomicUsize> = (0..WRITERS).map(|_| AtomicUsize::new(0)).collect();
    std::thread::scope(|s| {
        let writers = (0..WRITERS).zip(&done).map(|(writer, done)| {
            let place = &place;
            s.spawn(move || write(place, seed, writer, done))
        });
        let writers: Vec<_> = writers.collect();
        let sum = || done.iter().map(|n| n.load(Ordering::Relaxed) as u64).sum::<u64>();
        while sum() < operations && !writers.iter().all(|w| w.is_finished()) {
            std::thread::yield_now();
        }
        assert_eq!(mount.signal(Signal::KILL), None, "the server ended by itself");
    });
    image.unmount().unwrap();
    done.iter().map(|n| n.load(Ordering::Relaxed)).collect()
}

/// The writers' directories, new; those of the server before stay under another name.
fn prepare(place: &Dir, kill: u64) -> io::Result<()> {
    if place.at(COMMON[0]).exists() {
        place.rename(COMMON[0], &format!("old{kill}"))?;
    }
    for directory in COMMON {
        place.mkdir(directory)?;
        place.fsync(directory)?;
    }
    Ok(())
}

/// Works until the server is dead.
fn write(place: &Dir, seed: u64, writer: u8, done: &AtomicUsize) {
    let mut script = Script::new(seed, writer, SyncCalls::Omit);
    loop {
        match script.step(place) {
            Ok(()) => done.fetch_add(1, Ordering::Relaxed),
            Err((_, e)) if lost_server(&e) => return,
            Err((op, e)) => panic!("writer {writer}: {op}: {e}"),
        };
    }
}

/// A mounted directory as a place for scripts.
struct Dir(PathBuf);

impl Dir {
    fn at(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }
}

impl FileOps for Dir {
    type Error = io::Error;
    fn create(&self, path: &str) -> io::Result<()> {
        OpenOptions::new().write(true).create_new(true).open(self.at(path)).map(drop)
    }
    fn write(&self, path: &str, offset: u64, bytes: &[u8], sync: SyncFlag) -> io::Result<()> {
        let flags = if sync == SyncFlag::OSync { libc::O_SYNC } else { 0 };
        let file = OpenOptions::new().write(true).custom_flags(flags).open(self.at(path))?;
        file.write_all_at(bytes, offset)
    }
    fn truncate(&self, path: &str, size: u64) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.at(path))?.set_len(size)
    }
    fn punch_hole(&self, path: &str, offset: u64, len: u64) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(self.at(path))?;
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(file, how, offset, len).map_err(io::Error::from)
    }
    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        fs::hard_link(self.at(from), self.at(to))
    }
    fn unlink(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.at(path))
    }
    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.at(from), self.at(to))
    }
    fn mkdir(&self, path: &str) -> io::Result<()> {
        fs::create_dir(self.at(path))
    }
    fn rmdir(&self, path: &str) -> io::Result<()> {
        fs::remove_dir(self.at(path))
    }
    fn fsync(&self, path: &str) -> io::Result<()> {
        File::open(self.at(path))?.sync_all()
    }
    fn sync(&self) -> io::Result<()> {
        rustix::fs::syncfs(File::open(&self.0)?).map_err(io::Error::from)
    }
}
