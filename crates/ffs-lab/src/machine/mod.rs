//! The simulated machine of 2002: one processor, one disk and a virtual clock.
//!
//! | module | holds |
//! | --- | --- |
//! | `parameters` | the parameters of a machine |
//! | `preset` | machine files |
//! | `geometry` | the position of each sector on the platter |
//! | `drive` | arm, platters, read-ahead buffer and write cache |
//! | `flash`, `smr` | flash memory; overlapping tracks |
//! | `simulator` | the clock, the processor and the disk queue |
//! | `cpu_costs` | the processor time of each kind of work |
//! | `sparse_store` | the bytes on the disk |
//! | `disk` | the machine as a block device |
//! | `journal` | a journal of metadata in front of the disk, as under ext3 |
//! | `foreign_volume` | volumes that only the laboratory mounts |
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
//! Reference: `docs/spec/benchmarks.md` §6 and `docs/lab/README.md`.

mod aging;
#[cfg(test)]
mod calibration;
mod cpu_costs;
mod disk;
mod drive;
mod flash;
mod foreign_volume;
mod geometry;
mod journal;
mod kernel_limits;
mod parameters;
mod preset;
mod simulator;
mod smr;
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
use cpu_costs::CpuCosts;
pub(crate) use cpu_costs::{Call, SearchWork};
pub(crate) use disk::SimDisk;
use disk::Wait;
use drive::Direction;
pub(crate) use foreign_volume::{ForeignVolume, mark as mark_foreign};
use geometry::Extent;
#[cfg(test)]
pub(crate) use journal::JournalCounters;
pub(crate) use journal::{COMMIT_SECONDS, DataMode, JOURNAL_SIZES, JournalSettings, JournaledDisk};
pub(crate) use kernel_limits::{KernelLimits, MEMORY};
pub(crate) use preset::Preset;
pub(crate) use simulator::MachineCounters;
use simulator::Simulator;

/// The time at which the clocks of machines begin: 2002-06-10 00:00 UTC, in seconds.
pub(crate) const CLOCK_START: i64 = 1_023_667_200;

/// Reads the work counters of the file system on the machine.
pub(crate) type Probe = Box<dyn Fn() -> CounterValues + Send>;

/// A processor, a disk and a clock.
pub(crate) struct Machine {
    simulator: Mutex<Simulator>,
    meter: Mutex<CostMeter>,
    prices: CpuCosts,
    /// How many times as fast as the machine of 2002 the processor is.
    processor: f64,
    in_background: AtomicBool,
}

/// The work that the processor has been charged for.
#[derive(Default)]
struct CostMeter {
    probe: Option<Probe>,
    paid: CounterValues,
    /// Size of the directory in use, bytes.
    directory: u64,
    /// The remainder below a nanosecond, picoseconds.
    rest: u64,
    /// The cost of all searches of directories, picoseconds.
    searches: u64,
}

impl fmt::Debug for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").field("now", &self.now()).finish_non_exhaustive()
    }
}

impl Clock for Machine {
    fn now(&self) -> Timestamp {
        Timestamp::new(CLOCK_START, 0).plus(self.now())
    }
}

impl Machine {
    /// A machine. `seed` determines the angle of its platters at the start.
    #[must_use]
    pub(crate) fn new(preset: &Preset, seed: u64) -> Machine {
        Machine {
            simulator: Mutex::new(Simulator::new(preset, seed)),
            meter: Mutex::default(),
            prices: CpuCosts::new(&preset.cpu.faster(preset.host.processor)),
            processor: preset.host.processor,
            in_background: AtomicBool::new(false),
        }
    }

    fn simulator(&self) -> MutexGuard<'_, Simulator> {
        self.simulator.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn meter(&self) -> MutexGuard<'_, CostMeter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since the machine started.
    #[must_use]
    pub(crate) fn now(&self) -> Duration {
        Duration::from_nanos(self.simulator().now())
    }

    /// The totals since the start.
    #[must_use]
    pub(crate) fn done(&self) -> MachineCounters {
        let search = self.meter().searches / 1000;
        MachineCounters { search, ..self.simulator().done() }
    }

    /// A hash of all disk commands and their times. Equal runs have equal hashes.
    #[must_use]
    #[cfg(test)]
    pub(crate) fn trace_hash(&self) -> u64 {
        self.simulator().trace_hash()
    }

    /// The writes of the disk so far, in the order in which they began.
    #[must_use]
    #[cfg(test)]
    pub(crate) fn written(&self) -> Vec<Extent> {
        self.simulator().written.clone()
    }

    /// Charges the processor for the counters of `probe` from now on; with `None` for no counters.
    pub(crate) fn watch(&self, probe: Option<Probe>) {
        let mut meter = self.meter();
        meter.paid = probe.as_ref().map(|probe| probe()).unwrap_or_default();
        meter.probe = probe;
    }

    /// Sets the size of the directory in use.
    pub(crate) fn in_directory(&self, bytes: u64) {
        self.meter().directory = bytes;
    }

    /// Charges for a call of a program.
    pub(crate) fn call(&self, call: Call) {
        self.pay(self.prices.call(call));
    }

    /// Charges for the work of a directory index in a directory of `bytes`.
    pub(crate) fn search(&self, work: &SearchWork, bytes: u64) {
        let cost = self.prices.search(work, bytes);
        self.meter().searches += cost;
        self.pay(cost);
    }

    /// Charges for blocks that got a header again.
    pub(crate) fn page_headers(&self, blocks: u64) {
        self.pay(self.prices.page_headers(blocks));
    }

    /// Charges for the processor time that a program takes on the machine of 2002.
    pub(crate) fn compute(&self, work: Duration) {
        let work = work.div_f64(self.processor);
        let ns = u64::try_from(work.as_nanos()).unwrap_or(u64::MAX / 4);
        self.simulator().work(ns.min(u64::MAX / 4));
    }

    /// Charges for the counts since the last call.
    pub(crate) fn settle(&self) {
        let cost = {
            let mut meter = self.meter();
            let Some(probe) = &meter.probe else { return };
            let now = probe();
            let searches = self.prices.lookups(&meter.paid, &now, meter.directory);
            let cost = searches + self.prices.work(&meter.paid, &now);
            meter.searches += searches;
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

    /// Runs `work` as a background process. Its writes go to the backlog, and it does not wait.
    pub(crate) fn background<T>(&self, work: impl FnOnce() -> T) -> T {
        self.settle();
        self.in_background.store(true, Ordering::Relaxed);
        let done = work();
        self.settle();
        self.in_background.store(false, Ordering::Relaxed);
        done
    }

    /// Waits until the backlog has at most `most` requests.
    pub(crate) fn wait_for_background(&self, most: usize) {
        let mut simulator = self.simulator();
        if simulator.backlog() > most {
            simulator.wait_for_backlog(most);
        }
    }

    fn read(&self, extent: Extent) {
        self.settle();
        let mut simulator = self.simulator();
        if self.is_background() {
            simulator.defer(extent, Direction::Read)
        } else {
            simulator.read(extent)
        }
    }

    fn write(&self, extent: Extent, wait: Wait) {
        self.settle();
        let mut simulator = self.simulator();
        match (self.is_background(), wait) {
            (true, _) => simulator.defer(extent, Direction::Write),
            (false, Wait::Yes) => simulator.write_through(extent),
            (false, Wait::No) => simulator.write(extent),
        }
    }

    /// Waits for the writes of the extent that are in the queue or in the drive. A process in the
    /// background does not wait.
    fn wait_for_writes(&self, extent: Extent) {
        if !self.is_background() && self.simulator().is_writing(extent) {
            self.settle();
            self.simulator().wait_for_writes(extent);
        }
    }

    fn flush(&self) {
        self.settle();
        if !self.is_background() {
            self.simulator().flush();
        }
    }

    /// Lets no later write begin before the writes up to here are complete: a process in the
    /// foreground waits for them, the requests of the background wait in the backlog.
    fn barrier(&self) {
        self.settle();
        let mut simulator = self.simulator();
        if self.is_background() { simulator.defer_barrier() } else { simulator.flush() }
    }
}
