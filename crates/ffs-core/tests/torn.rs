//! Failed writes, torn or not, and failed flushes, at every point of a sequence of operations under
//! soft updates.
//!
//! A call that requests durability returns the failure, or its data is durable. After the failure
//! and after each later operation the device loses power and `fsck -p` repairs it, only with
//! repairs that lose nothing; every operation reported as durable is there. A loss of power keeps
//! either all writes, or only those that a successful flush has covered. When the device works
//! again, everything reaches it, and a full check has no findings. `FFS_MODEL_SEED` repeats a seed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use crate::common::place::Mounted;
use crate::common::{examine, soft_volume_of};
use ffs_core::Error;
use ffs_device::fault::EIO;
use ffs_device::power::PowerSwitch;
use ffs_device::{BlockDevice, Durability, Fault, FaultInjector, MemDevice, Operation, Rule};
use ffs_testkit::envvar::number;
use ffs_testkit::killtest::{Op, Script, SyncCalls, check_found};
use std::sync::Arc;
use std::time::Duration;

/// Operations of a run.
const OPERATIONS: usize = 60;
/// Operations after a failure that are each followed by a loss of power; later ones only sometimes.
const CLOSE: usize = 6;
const RARELY: usize = 15;

/// The failure of the device.
#[derive(Clone, Copy, Debug)]
struct Failure {
    /// The operation that fails: write or flush.
    what: Operation,
    /// The first that fails, from 1.
    from: u64,
    /// The number of failures.
    times: u64,
    fault: Fault,
}

/// The writes that a loss of power keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Left {
    All,
    /// Only those that were flushed.
    Flushed,
}

/// Larger than the volume: only a flush writes the cache to the medium.
const CACHE: usize = 64 << 20;

struct Run {
    dev: Arc<FaultInjector<Arc<dyn BlockDevice>>>,
    /// The medium after a loss of power.
    medium: Arc<MemDevice>,
    place: Mounted,
    script: Script,
    seed: u64,
    done: usize,
}

impl Run {
    /// A volume with the common directories, on a device with the given failure.
    fn new(seed: u64, left: Left, failure: Option<Failure>) -> Run {
        let medium = Arc::new(soft_volume_of(seed).with_durability(Durability::OnFlush));
        let disk: Arc<dyn BlockDevice> = match left {
            Left::All => Arc::clone(&medium) as _,
            Left::Flushed => Arc::new(PowerSwitch::new(Arc::clone(&medium), CACHE, seed)),
        };
        let dev = Arc::new(FaultInjector::new(disk, Vec::new()));
        let place = Mounted::begin(dev.clone(), seed);
        if let Some(f) = failure {
            dev.add(Rule::new(f.what, f.fault).nth(f.from).times(f.times));
        }
        Run { dev, medium, place, script: Script::new(seed, 0, SyncCalls::Include), seed, done: 0 }
    }

    /// Makes all operations, each repeated until it succeeds. Returns the numbers of writes and
    /// flushes.
    fn run(mut self) -> Result<(u64, u64), String> {
        let before = self.dev.counts();
        let mut since = None;
        while self.done < OPERATIONS {
            let op = self.script.next_op();
            let reported = self.insist(&op)?;
            self.script.complete(&op);
            self.done += 1;
            self.place.clock.advance(Duration::from_millis(400));
            let ticked = if self.done.is_multiple_of(5) { self.place.fs.tick() } else { Ok(()) };
            only_eio(ticked.err()).map_err(|e| format!("tick: {e}"))?;
            if since.is_none() && (reported || self.dev.counts().injected > 0) {
                since = Some(self.done);
            }
            if since.is_some_and(|at| self.done - at < CLOSE || self.done.is_multiple_of(RARELY)) {
                self.check_power_loss()?;
            }
        }
        let after = self.dev.counts();
        self.heal()?;
        Ok((after.writes - before.writes, after.flushes - before.flushes))
    }

    /// Makes `op`; returns whether it reported a failure. Only calls that request durability may
    /// report one, and are then repeated.
    fn insist(&self, op: &Op) -> Result<bool, String> {
        let mut reported = false;
        loop {
            match self.script.perform(&self.place, op) {
                Ok(()) => return Ok(reported),
                Err(e) => only_eio(Some(e)).map_err(|e| format!("{op}: {e}"))?,
            }
            let asks = matches!(
                op,
                Op::Fsync { .. } | Op::FsyncDir { .. } | Op::Sync | Op::Write { sync: true, .. }
            );
            if !asks {
                return Err(format!("{op}: an unexpected error"));
            }
            reported = true;
            self.check_power_loss()?;
        }
    }

    /// The present state of the device can be repaired and has everything that was reported as
    /// durable.
    fn check_power_loss(&self) -> Result<(), String> {
        let crashed = Arc::new(self.medium.snapshot());
        examine::repair(&crashed)?;
        let found = examine::tree(&(crashed as Arc<dyn BlockDevice>))?;
        check_found(self.seed, 0, self.done, SyncCalls::Include, &found).map(drop)
    }

    /// The device works again: the volume must recover.
    fn heal(self) -> Result<(), String> {
        self.dev.heal();
        self.place.fs.sync().map_err(|e| format!("sync of a device that is well: {e}"))?;
        self.place.fs.unmount().map_err(|e| format!("unmount: {e}"))?;
        self.check_power_loss()
    }
}

fn only_eio(error: Option<Error>) -> Result<(), String> {
    match error {
        Some(e) if e.errno() != EIO => Err(format!("not EIO: {e}")),
        _ => Ok(()),
    }
}

fn every_point(what: Operation, left: Left, fault: impl Fn(u64) -> Fault, times: u64) {
    let chosen = number("FFS_MODEL_SEED");
    for seed in chosen.map_or_else(|| vec![1, 2, 3], |s: u64| vec![s]) {
        let outcome = Run::new(seed, left, None).run();
        let (writes, flushes) = outcome.unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert!(writes > 20 && flushes > 20, "a workload that writes: {writes}, {flushes}");
        let points = if what == Operation::Flush { flushes } else { writes };
        for from in 1..=points {
            let failure = Failure { what, from, times, fault: fault(seed ^ from) };
            let outcome = Run::new(seed, left, Some(failure)).run();
            outcome.unwrap_or_else(|e| panic!("FFS_MODEL_SEED={seed}, {left:?}, {failure:?}: {e}"));
        }
    }
}

#[test]
fn one_torn_write() {
    every_point(Operation::Write, Left::All, |seed| Fault::Torn { seed }, 1);
}

#[test]
fn one_torn_write_and_the_cache_lost() {
    every_point(Operation::Write, Left::Flushed, |seed| Fault::Torn { seed }, 1);
}

#[test]
fn writes_that_fail_for_a_while() {
    every_point(Operation::Write, Left::All, |_| Fault::Errno(EIO), 7);
}

#[test]
fn writes_that_are_torn_for_a_while() {
    every_point(Operation::Write, Left::All, |seed| Fault::Torn { seed }, 7);
}

#[test]
fn one_flush_that_fails() {
    for left in [Left::All, Left::Flushed] {
        every_point(Operation::Flush, left, |_| Fault::Errno(EIO), 1);
    }
}

#[test]
fn flushes_that_fail_for_a_while() {
    every_point(Operation::Flush, Left::Flushed, |_| Fault::Errno(EIO), 7);
}
