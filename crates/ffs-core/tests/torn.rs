//! Writes that fail, torn or whole, at every point of a workload under soft updates.
//!
//! Whoever asks for durability is told of a failure, or what was asked for is there: after the failure, and
//! after each operation that follows, the device is cut off, repaired by `fsck -p` with nothing but the
//! repairs that lose nothing, and every promise made until then is kept. When the device is well
//! again so is the volume: everything reaches it, and a full check is silent. `FFS_MODEL_SEED` repeats a seed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use common::place::Mounted;
use common::{examine, soft_volume_of};
use ffs_core::Error;
use ffs_device::fault::EIO;
use ffs_device::{BlockDevice, Durability, Fault, FaultInjector, MemDevice, Operation, Rule};
use ffs_testkit::env::number;
use ffs_testkit::killed::{Op, Script, judge};
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

impl Run {
    /// A volume with the common directories on it, and a device that will fail as told.
    fn new(seed: u64, failure: Option<Failure>) -> Run {
        let disk = soft_volume_of(seed).with_durability(Durability::OnFlush);
        let dev = Arc::new(FaultInjector::new(disk, Vec::new()));
        let place = Mounted::begin(dev.clone(), seed);
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
    let asked = number("FFS_MODEL_SEED");
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
