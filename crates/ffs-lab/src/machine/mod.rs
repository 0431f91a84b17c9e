//! The simulated machine of 2002: one processor, one disk and a virtual clock.
//!
//! | module | holds |
//! | --- | --- |
//! | `preset` | machines described in files |
//! | `geometry` | the position of each sector on the platter |
//! | `drive` | arm, platters, read-ahead buffer and write cache |
//! | `simulator` | the clock, the driver's queue and the requests that callers wait for |
//! | `cpu_costs` | the processor time of each kind of work |
//! | `sparse_store` | the bytes on the disk |
//! | `disk` | the machine as a block device |
//! | `aging` | volumes that have been used for years |
//!
//! # Invariants
//! 1. Time is virtual. The same operations on the same machine end at the same nanosecond with the
//!    same bytes, on every computer.
//! 2. Background work ([`Machine::background`]) takes processor and disk time. Callers wait for it
//!    only when too much of it is outstanding.
//! 3. Two runs on one machine differ only by what their workloads do.
//!
//! # Locking
//! One thread drives a machine. The locks make its types `Sync` and are held briefly.
//!
//! Reference: `docs/spec/benchmarks.md` §6 and the laboratory's manual.

mod aging;
#[cfg(test)]
mod calibration;
mod cpu_costs;
mod disk;
mod drive;
mod geometry;
pub(crate) mod preset;
mod simulator;
mod sparse_store;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ffs_core::CounterValues;
use ffs_device::{Clock, Timestamp};

pub(crate) use aging::{AgedVolumes, workplace};
pub(crate) use cpu_costs::Call;
use cpu_costs::CpuCosts;
pub(crate) use disk::SimDisk;
use drive::Extent;
pub(crate) use preset::Preset;
pub(crate) use simulator::MachineCounters;
use simulator::Simulator;

/// When the machines' clocks begin: 2002-06-10 00:00 UTC.
pub(crate) const EPOCH: i64 = 1_023_667_200;

/// Tells the work counters of what runs on the machine.
pub(crate) type Probe = Box<dyn Fn() -> CounterValues + Send>;

/// A processor, a disk and a clock.
pub struct Machine {
    simulator: Mutex<Simulator>,
    meter: Mutex<CostMeter>,
    prices: CpuCosts,
    in_background: AtomicBool,
}

/// What has been paid for.
#[derive(Default)]
struct CostMeter {
    probe: Option<Probe>,
    paid: CounterValues,
    /// Bytes of the directory in use.
    directory: u64,
    /// Picoseconds below a nanosecond.
    rest: u64,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("now", &self.now()).finish_non_exhaustive()
    }
}

impl Clock for Machine {
    fn now(&self) -> Timestamp {
        Timestamp::new(EPOCH, 0).plus(self.now())
    }
}

impl Machine {
    /// A machine whose platters stand where `seed` says.
    #[must_use]
    pub fn new(preset: &Preset, seed: u64) -> Machine {
        Machine {
            simulator: Mutex::new(Simulator::new(preset, seed)),
            meter: Mutex::default(),
            prices: CpuCosts::new(&preset.cpu),
            in_background: AtomicBool::new(false),
        }
    }

    fn simulator(&self) -> MutexGuard<'_, Simulator> {
        self.simulator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn meter(&self) -> MutexGuard<'_, CostMeter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since the machine began.
    #[must_use]
    pub fn now(&self) -> Duration {
        Duration::from_nanos(self.simulator().now())
    }

    /// What it has done so far.
    #[must_use]
    pub fn done(&self) -> MachineCounters {
        self.simulator().done()
    }

    /// A number that two machines share if, and practically only if, their disks did the same at the same
    /// times.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.simulator().trace_hash()
    }

    /// Has the counters that `probe` tells paid for from now on; `None`: nobody's.
    pub(crate) fn watch(&self, probe: Option<Probe>) {
        let mut meter = self.meter();
        meter.paid = probe.as_ref().map(|probe| probe()).unwrap_or_default();
        meter.probe = probe;
    }

    /// Tells how large the directory is that is worked in.
    pub(crate) fn in_directory(&self, bytes: u64) {
        self.meter().directory = bytes;
    }

    /// A program makes a call.
    pub(crate) fn call(&self, call: Call) {
        self.pay(self.prices.call(call));
    }

    /// Blocks got their headers back.
    pub(crate) fn page_headers(&self, blocks: u64) {
        self.pay(self.prices.page_headers(blocks));
    }

    /// The processor works for a program, or for itself.
    pub(crate) fn compute(&self, work: Duration) {
        let ns = u64::try_from(work.as_nanos()).unwrap_or(u64::MAX / 4);
        self.simulator().work(ns.min(u64::MAX / 4));
    }

    /// Pays for what has been counted since the last time.
    pub(crate) fn settle(&self) {
        let cost = {
            let mut meter = self.meter();
            let Some(probe) = &meter.probe else { return };
            let now = probe();
            let cost = self.prices.work(&meter.paid, &now, meter.directory);
            meter.paid = now;
            cost
        };
        self.pay(cost);
    }

    fn pay(&self, ps: u64) {
        let ns = {
            let mut meter = self.meter();
            let all = meter.rest + ps;
            meter.rest = all % 1000;
            all / 1000
        };
        if ns == 0 {
            return;
        }
        let mut simulator = self.simulator();
        if self.is_background() { simulator.owe(ns) } else { simulator.work(ns) }
    }

    fn is_background(&self) -> bool {
        self.in_background.load(Ordering::Relaxed)
    }

    /// Does `work` as a process of its own: what it writes goes to the disk when there is room, and what it
    /// waits for is there at once.
    pub(crate) fn background<T>(&self, work: impl FnOnce() -> T) -> T {
        self.settle();
        self.in_background.store(true, Ordering::Relaxed);
        let done = work();
        self.settle();
        self.in_background.store(false, Ordering::Relaxed);
        done
    }

    /// Waits until the background has no more than `most` blocks to write.
    pub(crate) fn wait_for_background(&self, most: usize) {
        let mut simulator = self.simulator();
        if simulator.backlog() > most {
            simulator.wait_for_backlog(most);
        }
    }

    fn read(&self, what: Extent) {
        self.settle();
        let mut simulator = self.simulator();
        if self.is_background() { simulator.defer(what, false) } else { simulator.read(what) }
    }

    fn write(&self, what: Extent, wait: bool) {
        self.settle();
        let mut simulator = self.simulator();
        match (self.is_background(), wait) {
            (true, _) => simulator.defer(what, true),
            (false, true) => simulator.write_through(what),
            (false, false) => simulator.write(what),
        }
    }

    fn flush(&self) {
        self.settle();
        if !self.is_background() {
            self.simulator().wait_for_all();
        }
    }

    /// Bytes of the whole disk.
    #[must_use]
    pub fn disk_bytes(&self) -> u64 {
        self.simulator().sectors() * geometry::SECTOR
    }
}
