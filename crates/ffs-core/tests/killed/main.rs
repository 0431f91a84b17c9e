//! A process that has a volume mounted is killed (SIGKILL) under load, again and again.
//!
//! The child, which is this program again, mounts an image file with soft updates; its writers do
//! what `ffs_testkit::killtest` says, and count each operation over a pipe after it returned. The
//! parent kills it at a seeded moment and asks of the image: `fsck -p` repairs it, with nothing but
//! the repairs that lose nothing; a full check is silent; every name and every byte is there that
//! somebody was told is durable, and what else is there is something that was. Then the next child
//! goes on with the same image, and removes the trees of those before; or one time in three, with
//! the image just as it was left, and then it leaves old trees alone: a directory may have two
//! names there.
//!
//! The system's page cache survives the death of a process: what is tried is that fsync says the
//! truth and that the *stream* of writes may be cut off anywhere, not what a drive loses. For that
//! there is `ffs lab crash`.
//!
//! The same load also runs in this process, its writes recorded, and *every* prefix of them is
//! repaired and judged ([`recorded`]).
//!
//! `FFS_KILL_ROUNDS` is the number of kills, `FFS_CUT_ROUNDS` of recorded loads (by default a few),
//! `FFS_KILL_SEED` the first seed (default 1), `FFS_KILL_SEEDS` among how many the rounds are
//! divided (default 3). The image is in `/dev/shm` if there is one.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod child;
#[path = "../common/mod.rs"]
mod common;
mod recorded;

use common::{examine, soft_volume};
use ffs_device::MemDevice;
use ffs_ondisk::{Endian, Format};
use ffs_testkit::envvar::number;
use ffs_testkit::killtest::{SyncCalls, Verified};
use ffs_testkit::rng::SplitMix64;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Writers of a child.
pub(crate) const WRITERS: u8 = 4;
/// What a child says when the load begins.
pub(crate) const READY: u8 = 0xff;
/// Kills after which a new volume is made.
const LIFE: u64 = 40;
/// Operations before a kill at most.
const MOST_OPERATIONS: u64 = 500;

/// The shapes of the volumes, and their bytes.
const SHAPES: [(common::Shape, u64); 5] = [
    ((Endian::Little, Format::Ufs2, 4096, 512), 16 << 20),
    ((Endian::Little, Format::Ufs1, 8192, 1024), 16 << 20),
    ((Endian::Little, Format::Ufs2, 32768, 4096), 32 << 20),
    ((Endian::Big, Format::Ufs1, 4096, 512), 16 << 20),
    ((Endian::Big, Format::Ufs2, 16384, 2048), 24 << 20),
];

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("child") => child::run(&arguments[1..]),
        // The harness is asked what it holds.
        Some("--list") => {}
        _ => parent(),
    }
}

fn parent() {
    let set = |name, default| number(name).unwrap_or(default);
    let (first, seeds) = (set("FFS_KILL_SEED", 1), set("FFS_KILL_SEEDS", 3).max(1));
    for way in [Way::Cut, Way::Kill] {
        let (variable, default) = way.rounds();
        let rounds = set(variable, default);
        let begun = Instant::now();
        let mut all = Tally::default();
        for seed in first..first + seeds {
            let rounds = rounds / seeds + u64::from(seed - first < rounds % seeds);
            let mut tally = Tally::default();
            series(seed, rounds, way, &mut tally);
            println!("seed {seed}: {tally}");
            all.add(&tally);
        }
        println!("all: {all}; {:.1} s", begun.elapsed().as_secs_f64());
    }
}

/// How loads end.
#[derive(Clone, Copy)]
enum Way {
    /// The process is killed.
    Kill,
    /// The load ends by itself, and its writes are cut off after each.
    Cut,
}

impl Way {
    /// The variable that says how many loads, and how many there are without it.
    fn rounds(self) -> (&'static str, u64) {
        match self {
            Way::Kill => ("FFS_KILL_ROUNDS", 30),
            Way::Cut => ("FFS_CUT_ROUNDS", 9),
        }
    }
}

/// What was done and asked.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) kills: u64,
    pub(crate) unrepaired: u64,
    pub(crate) operations: u64,
    pub(crate) repaired: u64,
    pub(crate) promises: Verified,
}

impl Tally {
    fn add(&mut self, more: &Tally) {
        self.kills += more.kills;
        self.unrepaired += more.unrepaired;
        self.operations += more.operations;
        self.repaired += more.repaired;
        self.promises += more.promises;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Verified { names, files } = self.promises;
        write!(
            f,
            "{} cuts ({} volumes mounted again without a repair), {} operations, {names} names \
             and {files} files promised and kept, {} repairs by fsck -p, all of leaks and counts",
            self.kills, self.unrepaired, self.operations, self.repaired
        )
    }
}

/// A directory that is gone in the end.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a temporary directory")
}

/// One series of rounds on volumes that live for some of them.
fn series(seed: u64, rounds: u64, way: Way, tally: &mut Tally) {
    let (dir, mut rng) = (scratch(), SplitMix64::new(seed));
    let path = dir.path().join("image");
    let (mut shape, mut sound, mut image) = (SHAPES[0], true, MemDevice::new(0));
    for number in 0..rounds {
        if number % LIFE == 0 {
            shape = SHAPES[((seed + number / LIFE) % SHAPES.len() as u64) as usize];
            (image, sound) = (soft_volume(shape.0, shape.1), true);
        }
        let what = format!("{}: FFS_KILL_SEED={seed}, round {number}, {shape:?}", way.rounds().0);
        let round = Round { image: path.clone(), seed: rng.next_u64(), number, sound, what };
        let left = match way {
            Way::Kill => round.kill(&image, &mut rng, tally),
            Way::Cut => recorded::run(&image, &round, &mut rng, tally),
        };
        let leave = rng.one_in(3) && (number + 1) % LIFE != 0;
        let left = Arc::new(left);
        if !leave {
            examine::repair(&left).unwrap_or_else(|why| panic!("{}: {why}", round.what));
        }
        image = left.snapshot();
        sound = !leave;
        tally.unrepaired += u64::from(leave);
    }
}

/// One load.
pub(crate) struct Round {
    image: PathBuf,
    pub(crate) seed: u64,
    /// Which it is.
    pub(crate) number: u64,
    /// Whether the volume was repaired.
    pub(crate) sound: bool,
    /// How to run it again.
    pub(crate) what: String,
}

impl Round {
    /// Kills a process that works on `image`, and judges what that leaves.
    fn kill(&self, image: &MemDevice, rng: &mut SplitMix64, tally: &mut Tally) -> MemDevice {
        std::fs::write(&self.image, image.to_vec()).unwrap();
        let done = self.run_and_kill(rng);
        let left = MemDevice::from_bytes(&std::fs::read(&self.image).unwrap());
        let outcome = examine::examine(
            &Arc::new(left.snapshot()),
            (self.seed, SyncCalls::Include),
            done.as_deref(),
        );
        let (repairs, promises) = outcome.unwrap_or_else(|why| panic!("{}: {why}", self.what));
        tally.kills += 1;
        tally.operations += done.iter().flatten().map(|n| *n as u64).sum::<u64>();
        tally.repaired += repairs;
        tally.promises += promises;
        left
    }

    /// How many operations each writer was told to have done; nothing if the load had not begun.
    fn run_and_kill(&self, rng: &mut SplitMix64) -> Option<Vec<usize>> {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", self.image.to_str().unwrap()])
            .args([self.seed.to_string(), self.number.to_string(), self.sound.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let early = rng.one_in(20);
        let (operations, pause) = (rng.below(MOST_OPERATIONS), rng.below(1500));
        let mut pipe = child.stdout.take().unwrap();
        let mut said = Vec::new();
        if !early {
            let mut byte = [0];
            while said.len() as u64 <= operations {
                match pipe.read(&mut byte) {
                    Ok(1) => said.push(byte[0]),
                    _ => self.ended(&mut child),
                }
            }
        }
        // The moment is to fall between two reports, too.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(pause) {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), None, "{}: the child ended by itself", self.what);
        pipe.read_to_end(&mut said).unwrap();
        said.contains(&READY).then(|| {
            let count = |w: u8| said.iter().filter(|b| **b == w).count();
            (0..WRITERS).map(count).collect()
        })
    }

    fn ended(&self, child: &mut Child) -> ! {
        let status = child.wait().unwrap();
        panic!("{}: the child ended by itself: {status}", self.what);
    }
}
