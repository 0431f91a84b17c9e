//! A process with a mounted volume is repeatedly killed (SIGKILL) under load.
//!
//! The child, which is this program again, mounts an image file with soft updates. Its writers run
//! the scripts of `ffs_testkit::killtest`, and report each operation over a pipe after it returned.
//! The parent kills the child at a random time and checks the image: `fsck -p` repairs it, only
//! with repairs that lose nothing; a full check has no findings; every name and byte reported as
//! durable is there, and everything else has existed at some time. Then the next child continues
//! with the same image and removes the old trees. One time in three it continues without a repair,
//! and does not remove old trees: a directory may have two names there.
//!
//! The page cache survives the death of a process. So the test covers whether fsync reports the
//! truth and whether the *stream* of writes may end anywhere, but not the losses of a drive. `ffs
//! lab crash` and [`overlapping`] test those.
//!
//! The same load also runs in this process with recorded writes: *every* prefix of them is repaired
//! and checked ([`recorded`]), and so are states with several writes in flight, and states after a
//! loss of power ([`overlapping`]).
//!
//! `FFS_KILL_ROUNDS` is the number of kills, `FFS_RECORD_ROUNDS` and `FFS_OVERLAP_ROUNDS` of
//! recorded loads of the two kinds (by default a few), `FFS_KILL_SEED` the first seed (default 1),
//! `FFS_KILL_SEEDS` the number of seeds over which the rounds are divided (default 3). The image is
//! in `/dev/shm` if that exists.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod child;
#[path = "../common/mod.rs"]
mod common;
mod overlapping;
mod recorded;

use common::{examine, soft_volume};
use ffs_device::MemDevice;
use ffs_ondisk::{Endian, Format};
use ffs_testkit::envvar::number;
use ffs_testkit::killtest::{SyncCalls, Verified, save_image};
use ffs_testkit::rng::SplitMix64;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Writers of a child.
pub(crate) const WRITERS: u8 = 4;
/// The byte that a child sends when the load begins.
pub(crate) const READY: u8 = 0xff;
/// Kills after which a new volume is created.
const LIFE: u64 = 40;
/// Most operations before a kill.
const MOST_OPERATIONS: u64 = 500;

/// The formats and sizes of the volumes.
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
        // The test harness queries the list of tests.
        Some("--list") => {}
        _ => parent(),
    }
}

fn parent() {
    let set = |name, default| number(name).unwrap_or(default);
    let (first, seeds) = (set("FFS_KILL_SEED", 1), set("FFS_KILL_SEEDS", 3).max(1));
    for way in [Way::Record, Way::Overlap, Way::Kill] {
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

/// How a load ends.
#[derive(Clone, Copy)]
enum Way {
    /// The process is killed.
    Kill,
    /// The load ends by itself, and every prefix of its writes is examined.
    Record,
    /// The load ends by itself, and states with several writes in flight are examined.
    Overlap,
}

impl Way {
    /// The environment variable with the number of loads, and its default.
    fn rounds(self) -> (&'static str, u64) {
        match self {
            Way::Kill => ("FFS_KILL_ROUNDS", 30),
            Way::Record => ("FFS_RECORD_ROUNDS", 9),
            Way::Overlap => ("FFS_OVERLAP_ROUNDS", 9),
        }
    }
}

/// The numbers of operations and checks.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) states: u64,
    /// Most writes in flight in a state.
    pub(crate) in_flight: usize,
    /// States after a loss of power.
    pub(crate) power_losses: u64,
    pub(crate) unrepaired: u64,
    pub(crate) operations: u64,
    pub(crate) repaired: u64,
    pub(crate) promises: Verified,
}

impl Tally {
    fn add(&mut self, more: &Tally) {
        self.states += more.states;
        self.in_flight = self.in_flight.max(more.in_flight);
        self.power_losses += more.power_losses;
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
            "{} states ({} volumes mounted again without a repair), {} operations, {names} names \
             and {files} files promised and kept, {} repairs by fsck -p, all of leaks and counts",
            self.states, self.unrepaired, self.operations, self.repaired
        )?;
        match self.in_flight {
            0 => Ok(()),
            most => {
                let losses = self.power_losses;
                write!(f, ", at most {most} writes in flight, {losses} states after a power loss")
            }
        }
    }
}

/// What a load has reported.
#[derive(Default)]
pub(crate) struct Reports {
    /// Whether it had begun.
    ready: bool,
    /// Operations of each writer that returned.
    done: [usize; WRITERS as usize],
}

impl Reports {
    /// Adds [`READY`], or the number of a writer.
    pub(crate) fn add(&mut self, report: u8) {
        match report {
            READY => self.ready = true,
            writer => self.done[usize::from(writer)] += 1,
        }
    }

    /// The operations of each writer that returned; `None` if the load had not begun.
    fn done(&self) -> Option<&[usize]> {
        self.ready.then_some(&self.done)
    }

    /// The operations of all writers that returned.
    pub(crate) fn operations(&self) -> u64 {
        self.done.iter().map(|n| *n as u64).sum()
    }
}

/// A directory that is removed at the end.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.expect("a temporary directory")
}

/// One series of rounds on volumes that last for several of them.
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
            Way::Record => recorded::run(&image, &round, &mut rng, tally),
            Way::Overlap => overlapping::run(&image, &round, &mut rng, tally),
        };
        let leave = rng.one_in(3) && (number + 1) % LIFE != 0 && may_be_used(&left, &round);
        let left = Arc::new(left);
        if !leave {
            examine::repair(&left).unwrap_or_else(|why| panic!("{}: {why}", round.what));
        }
        image = left.snapshot();
        sound = !leave;
        tally.unrepaired += u64::from(leave);
    }
}

/// Whether a mount accepts the unrepaired `volume`. A mount refuses one with a torn superblock, and
/// no other.
fn may_be_used(volume: &MemDevice, round: &Round) -> bool {
    let fs = child::open(Arc::new(volume.snapshot()), round.seed, round.number.cast_signed()).fs;
    let refused = fs.is_read_only();
    let why = fs.read_only_reason();
    assert!(
        !refused || why.is_some_and(|why| why.starts_with("its superblock is damaged")),
        "{}: {why:?}",
        round.what
    );
    !refused
}

/// One load.
pub(crate) struct Round {
    image: PathBuf,
    pub(crate) seed: u64,
    /// Its number.
    pub(crate) number: u64,
    /// Whether the volume was repaired.
    pub(crate) sound: bool,
    /// The command that repeats it.
    pub(crate) what: String,
}

impl Round {
    /// Kills a process that uses `image`, and checks the result.
    fn kill(&self, image: &MemDevice, rng: &mut SplitMix64, tally: &mut Tally) -> MemDevice {
        std::fs::write(&self.image, image.to_vec()).unwrap();
        let reports = self.run_and_kill(rng);
        let left = MemDevice::from_bytes(&std::fs::read(&self.image).unwrap());
        self.check(&left, &reports, format_args!("after the kill"), tally);
        tally.operations += reports.operations();
        left
    }

    /// Repairs and checks a copy of `state`, before which the load had sent `reports`. `place`
    /// describes it in a message.
    pub(crate) fn check(
        &self,
        state: &MemDevice,
        reports: &Reports,
        place: std::fmt::Arguments<'_>,
        tally: &mut Tally,
    ) {
        let copy = Arc::new(state.snapshot());
        let done = reports.done();
        let outcome = examine::examine(&copy, (self.seed, SyncCalls::Include), done);
        let (repairs, promises) = outcome.unwrap_or_else(|why| {
            let saved = save_image(&state.to_vec(), self.seed, self.number);
            panic!("{}, {place}, {done:?}: {why}; {saved}", self.what)
        });
        tally.states += 1;
        tally.repaired += repairs;
        tally.promises += promises;
    }

    /// The reports before the kill.
    fn run_and_kill(&self, rng: &mut SplitMix64) -> Reports {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", self.image.to_str().unwrap()])
            .args([self.seed.to_string(), self.number.to_string(), self.sound.to_string()])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let early = rng.one_in(20);
        let (operations, pause) = (rng.below(MOST_OPERATIONS), rng.below(1500));
        let mut pipe = child.stdout.take().unwrap();
        let mut bytes = Vec::new();
        if !early {
            let mut byte = [0];
            while bytes.len() as u64 <= operations {
                match pipe.read(&mut byte) {
                    Ok(1) => bytes.push(byte[0]),
                    _ => self.ended(&mut child),
                }
            }
        }
        // The kill must also fall between two reports.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(pause) {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), None, "{}: the child ended by itself", self.what);
        pipe.read_to_end(&mut bytes).unwrap();
        let mut reports = Reports::default();
        bytes.into_iter().for_each(|byte| reports.add(byte));
        reports
    }

    fn ended(&self, child: &mut Child) -> ! {
        let status = child.wait().unwrap();
        panic!("{}: the child ended by itself: {status}", self.what);
    }
}
