//! Writes that fail, torn or whole, at every point of a workload under soft updates.
//!
//! Whoever asks for durability is told of a failure, or what was asked for is there: after the failure, and
//! after each operation that follows, the device is cut off, repaired by `fsck -p` with nothing but the
//! repairs that lose nothing, and every promise made until then is kept. When the device is well
//! again so is the volume: everything reaches it, and a full check is silent. `FFS_MODEL_SEED` repeats a seed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "killed/examine.rs"]
#[allow(dead_code, reason = "the judge of several writers")]
mod examine;
#[path = "killed/place.rs"]
#[allow(dead_code, reason = "what only the killed process needs")]
mod place;

use ffs_core::{Env, Error, Ffs, MountOptions, OrderingPolicy};
use ffs_device::clock::{ManualClock, Timestamp};
use ffs_device::fault::EIO;
use ffs_device::{BlockDevice, Durability, Fault, FaultInjector, MemDevice, Operation, Rule};
use ffs_ondisk::{Endian, Format};
use ffs_testkit::killed::{COMMON, Op, Place, Script, judge};
use place::Mounted;
use std::sync::Arc;
use std::time::Duration;

/// Operations of a run.
const OPERATIONS: usize = 60;
/// Operations after a failure that are each followed by a cut; later ones now and then.
const CLOSE: usize = 6;
const RARELY: usize = 15;

/// How the device fails.
#[derive(Clone, Copy, Debug)]
struct Failure {
    /// The first write to fail, from 1.
    from: u64,
    /// Writes that fail.
    times: u64,
    fault: Fault,
}

struct Run {
    dev: Arc<FaultInjector<MemDevice>>,
    place: Mounted,
    script: Script,
    seed: u64,
    done: usize,
}

fn volume(seed: u64) -> MemDevice {
    let (endian, format, bsize, fsize) = match seed % 3 {
        0 => (Endian::Little, Format::Ufs2, 4096, 512),
        1 => (Endian::Big, Format::Ufs1, 8192, 1024),
        _ => (Endian::Little, Format::Ufs2, 16384, 2048),
    };
    let dev = ffs_admin::newfs::quick(endian, format, bsize, fsize, 8 << 20).unwrap();
    let soft = ffs_admin::tunefs::TunefsOptions { soft_updates: Some(true), ..Default::default() };
    ffs_admin::tunefs::tunefs(&dev, &soft).unwrap();
    dev.with_durability(Durability::OnFlush)
}

impl Run {
    /// A volume with the common directories on it, and a device that will fail as told.
    fn new(seed: u64, failure: Option<Failure>) -> Run {
        let dev = Arc::new(FaultInjector::new(volume(seed), Vec::new()));
        let clock = Arc::new(ManualClock::new(Timestamp::new(1_700_000_000, 0)));
        let options =
            MountOptions { ordering: OrderingPolicy::SoftUpdates, ..MountOptions::default() };
        let device = Arc::clone(&dev) as Arc<dyn BlockDevice>;
        let fs = Ffs::mount(device, &options, Env::seeded(clock.clone(), seed)).unwrap();
        let place = Mounted { fs, clock };
        for directory in COMMON {
            place.mkdir(directory).unwrap();
            place.fsync(directory).unwrap();
        }
        if let Some(f) = failure {
            dev.add(Rule::new(Operation::Write, f.fault).nth(f.from).times(f.times));
        }
        Run { dev, place, script: Script::new(seed, 0, true), seed, done: 0 }
    }

    /// All operations, each tried until it is told that it is done.
    fn run(mut self) -> Result<u64, String> {
        let before = self.dev.counts().writes;
        let mut since = None;
        while self.done < OPERATIONS {
            let op = self.script.next_op();
            let told = self.insist(&op)?;
            self.script.model.apply(&op, true);
            self.done += 1;
            self.place.clock.advance(Duration::from_millis(400));
            let ticked = if self.done.is_multiple_of(5) { self.place.fs.tick() } else { Ok(()) };
            only_eio(ticked.err()).map_err(|e| format!("tick: {e}"))?;
            if since.is_none() && (told || self.dev.counts().injected > 0) {
                since = Some(self.done);
            }
            if since.is_some_and(|at| self.done - at < CLOSE || self.done.is_multiple_of(RARELY)) {
                self.cut()?;
            }
        }
        let writes = self.dev.counts().writes - before;
        self.heal()?;
        Ok(writes)
    }

    /// Does `op`; whether a failure was told. Only what asks for durability may be told of one, and then it may
    /// be asked again.
    fn insist(&self, op: &Op) -> Result<bool, String> {
        let mut told = false;
        loop {
            match self.script.perform(&self.place, op) {
                Ok(()) => return Ok(told),
                Err(e) => only_eio(Some(e)).map_err(|e| format!("{op}: {e}"))?,
            }
            let asks = matches!(
                op,
                Op::Fsync { .. } | Op::FsyncDir { .. } | Op::Sync | Op::Write { sync: true, .. }
            );
            if !asks {
                return Err(format!("{op}: an error that was nobody's business here"));
            }
            told = true;
            self.cut()?;
        }
    }

    /// What is on the device now can be repaired, and keeps what was promised.
    fn cut(&self) -> Result<(), String> {
        let cut = Arc::new(self.dev.inner().snapshot());
        examine::repair(&cut)?;
        let found = examine::tree(&(cut as Arc<dyn BlockDevice>))?;
        judge(self.seed, 0, self.done, true, &found).map(drop)
    }

    /// The device is well again: so is the volume.
    fn heal(self) -> Result<(), String> {
        self.dev.heal();
        self.place.fs.sync().map_err(|e| format!("sync of a device that is well: {e}"))?;
        self.place.fs.unmount().map_err(|e| format!("unmount: {e}"))?;
        self.cut()
    }
}

fn only_eio(error: Option<Error>) -> Result<(), String> {
    match error {
        Some(e) if e.errno() != EIO => Err(format!("not EIO: {e}")),
        _ => Ok(()),
    }
}

fn every_point(fault: impl Fn(u64) -> Fault, times: u64) {
    let asked = std::env::var("FFS_MODEL_SEED").ok().map(|s| s.parse().unwrap());
    for seed in asked.map_or_else(|| vec![1, 2, 3], |s: u64| vec![s]) {
        let writes = Run::new(seed, None).run().unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert!(writes > 20, "a workload that writes: {writes}");
        for from in 1..=writes {
            let failure = Failure { from, times, fault: fault(seed ^ from) };
            let outcome = Run::new(seed, Some(failure)).run();
            outcome.unwrap_or_else(|e| panic!("FFS_MODEL_SEED={seed}, {failure:?}: {e}"));
        }
    }
}

#[test]
fn one_torn_write() {
    every_point(|seed| Fault::Torn { seed }, 1);
}

#[test]
fn writes_that_fail_for_a_while() {
    every_point(|_| Fault::Errno(EIO), 7);
}

#[test]
fn writes_that_are_torn_for_a_while() {
    every_point(|seed| Fault::Torn { seed }, 7);
}
