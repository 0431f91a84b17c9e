//! Several threads on one volume. One runs at a time, and the seed decides which one.
//!
//! **Purpose.** A thread may be stopped wherever it takes a lock, and before and after every
//! transfer of the device. So another thread runs between any two of its steps, and transfers end
//! in another order than they began. All of it follows from the seed.
//!
//! # Invariants
//! 1. Between two steps exactly one thread runs: the current one.
//! 2. A thread that waits for a lock lets another one run. If all wait, all end.
//! 3. Each writer stays in its own directory, so that the others do not change what it may find.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use ffs_core::schedule::{self, Scheduler, Step};
use ffs_device::record::Recorder;
use ffs_device::{BlockDevice, DeviceError, Durability, Rng, SplitMix64};

use super::exec::Executor;
use super::geometry::BaseVolume;
use super::history::{Action, History, Step as Did};
use super::mounting::{failed, mount, options, wait};
use super::op::{Op, Workload};
use super::record::{Recording, Setting, windows};
use crate::error::Result;

/// One lock in so many lets another thread run; of transfers one in two does.
const LOCKS: u64 = 12;
/// Steps in a row in which all threads wait for locks: a deadlock.
const MOST_IDLE: u32 = 10_000;
/// Steps of all threads; more of them are a livelock.
const MOST_STEPS: u32 = 20_000_000;
/// Virtual seconds while the writers run.
const SECONDS: u32 = 40;

/// Which thread runs.
struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    current: usize,
    running: Vec<usize>,
    rng: SplitMix64,
    /// Steps in a row in which threads waited for locks.
    idle: u32,
    /// Steps so far.
    steps: u32,
}

impl Turns {
    fn new(threads: usize, seed: u64) -> Turns {
        let running = (0..threads).collect();
        let state = State { current: 0, running, rng: SplitMix64::new(seed), idle: 0, steps: 0 };
        Turns { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `me` is the current thread.
    fn wait(&self, me: usize, mut state: MutexGuard<'_, State>) {
        while state.current != me {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Lets a drawn thread run; not `me`, if `me` is blocked and there are others.
    fn pass(&self, me: usize, other: bool) {
        let mut state = self.state();
        let others = state.running.iter().copied().filter(|&thread| !other || thread != me);
        let choice: Vec<usize> = others.collect();
        let drawn = state.rng.below(choice.len().max(1) as u64) as usize;
        state.current = choice.get(drawn).copied().unwrap_or(me);
        self.changed.notify_all();
        self.wait(me, state);
    }

    fn leave(&self, me: usize) {
        let mut state = self.state();
        state.running.retain(|&thread| thread != me);
        let drawn = state.rng.below(state.running.len().max(1) as u64) as usize;
        if let Some(&next) = state.running.get(drawn) {
            state.current = next;
        }
        self.changed.notify_all();
    }
}

/// One of the threads.
struct Turn {
    turns: Arc<Turns>,
    me: usize,
}

impl Scheduler for Turn {
    fn step(&self, step: Step) {
        let mut state = self.turns.state();
        let blocked = matches!(step, Step::Blocked(_));
        state.idle = if blocked { state.idle + 1 } else { 0 };
        state.steps += 1;
        let stuck = state.idle > MOST_IDLE || state.steps > MOST_STEPS;
        let pass = match step {
            Step::Lock(_) => state.rng.below(LOCKS) == 0,
            Step::Transfer => state.rng.below(2) == 0,
            Step::Blocked(_) => true,
        };
        drop(state);
        if stuck {
            // A panic is the only way out of waiting for a lock.
            std::panic::resume_unwind(Box::new("threads wait for each other's locks"));
        }
        if pass {
            self.turns.pass(self.me, blocked);
        }
    }
}

/// Removes a thread from the schedule when it ends.
struct Ends(Arc<Turns>, usize);

impl Drop for Ends {
    fn drop(&mut self) {
        schedule::follow(None);
        self.0.leave(self.1);
    }
}

/// A device whose transfers begin and end at steps of the schedule.
struct Stepping<D>(D);

impl<D: BlockDevice> BlockDevice for Stepping<D> {
    fn len_bytes(&self) -> u64 {
        self.0.len_bytes()
    }

    fn sector_size(&self) -> u32 {
        self.0.sector_size()
    }

    fn durability(&self) -> Durability {
        self.0.durability()
    }

    fn is_read_only(&self) -> bool {
        self.0.is_read_only()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::result::Result<(), DeviceError> {
        schedule::step(Step::Transfer);
        self.0.read_at(offset, buf)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> std::result::Result<(), DeviceError> {
        schedule::step(Step::Transfer);
        let done = self.0.write_at(offset, buf);
        schedule::step(Step::Transfer);
        done
    }

    fn flush(&self) -> std::result::Result<(), DeviceError> {
        schedule::step(Step::Transfer);
        let done = self.0.flush();
        schedule::step(Step::Transfer);
        done
    }
}

/// The steps of a writer, and its failed operations.
type Outcome = (Vec<Did>, Vec<(usize, String)>);

/// Runs all `writers` on `base`, one at a time.
///
/// # Errors
/// [`crate::LabError::Failed`] if the volume cannot be mounted or unmounted, or the threads wait
/// for each other.
pub(super) fn record(
    base: &BaseVolume,
    writers: &[Vec<Op>],
    setting: Setting,
) -> Result<Recording> {
    let device = base.device.snapshot().with_durability(Durability::OnFlush);
    let recorder = Arc::new(Recorder::new(device));
    let options = options(setting.ordering, setting.soft, &Workload::default());
    let device = Arc::new(Stepping(Arc::clone(&recorder)));
    let (fs, clock) = mount(device, &options, setting.seed)?;
    let turns = Arc::new(Turns::new(writers.len() + 1, setting.seed));
    let take_part = |me: usize| {
        let ends = Ends(Arc::clone(&turns), me);
        schedule::follow(Some(Arc::new(Turn { turns: Arc::clone(&turns), me })));
        turns.wait(me, turns.state());
        ends
    };
    let starts = writers.iter().scan(0, |next, ops| {
        let first = *next;
        *next += ops.len();
        Some(first)
    });
    let starts: Vec<usize> = starts.collect();
    let (done, time) = std::thread::scope(|scope| {
        let threads: Vec<_> = writers
            .iter()
            .zip(starts)
            .enumerate()
            .map(|(me, (ops, first))| {
                let mut executor = Executor::new(fs.clone(), base.tree.lane(me, writers.len()));
                let (recorder, take_part) = (&recorder, &take_part);
                scope.spawn(move || {
                    let _ends = take_part(me);
                    write(&mut executor, recorder, ops, first)
                })
            })
            .collect();
        let syncer = scope.spawn(|| {
            let _ends = take_part(writers.len());
            (0..SECONDS).try_for_each(|_| wait(&fs, &clock, 1))
        });
        let done: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        (done, syncer.join())
    });
    let stuck = || failed("writers", &"threads wait for each other's locks");
    // Errors of the syncer do not matter: it tries again.
    drop(time.map_err(|_| stuck())?);
    let mut steps = base.steps.clone();
    let mut failures = Vec::new();
    let mut all = Vec::new();
    for thread in done {
        let (did, failed): Outcome = thread.map_err(|_| stuck())?;
        all.extend(did);
        failures.extend(failed);
    }
    // The sort is stable: the steps of one writer stay in order.
    all.sort_by_key(|step| (step.began, step.at));
    steps.extend(all);
    let began = recorder.logged();
    fs.unmount().map_err(|error| failed("unmount", &error))?;
    steps.push(Did { began, at: recorder.logged(), op: None, what: Action::Synced });
    let windows = windows(&recorder.take_events(), true)?;
    let (history, tree) = (History { steps }, base.tree.clone());
    let recording = Recording::new(windows, history, setting.soft, tree);
    Ok(Recording { failed: failures, alone: false, ..recording })
}

/// Performs the operations of one writer. `first` is the number of its first operation.
fn write<D: BlockDevice>(
    executor: &mut Executor,
    recorder: &Recorder<D>,
    ops: &[Op],
    first: usize,
) -> Outcome {
    let (mut did, mut failed) = (Vec::new(), Vec::new());
    for (number, op) in (first..).zip(ops) {
        schedule::step(Step::Transfer);
        let began = recorder.logged();
        let done = executor.perform(op);
        let (at, op) = (recorder.logged(), u32::try_from(number).ok());
        match done {
            Ok(done) => did.extend(done.into_iter().map(|what| Did { began, at, op, what })),
            Err(error) => failed.push((number, error.to_string())),
        }
    }
    executor.close();
    (did, failed)
}

#[cfg(test)]
mod tests {
    use super::super::Updates;
    use super::*;
    use crate::crash::generate::Generator;
    use crate::crash::geometry::SHAPES;
    use crate::crash::oracle::SoftUpdateOptions;
    use ffs_core::OrderingPolicy;

    fn recorded(seed: u64) -> Recording {
        let shape = &SHAPES[1];
        let (setup, writers) = Generator::new(shape, 1).writers(0);
        let base = shape.base(Updates::Soft, false).unwrap().with(&setup).unwrap();
        let ordering = OrderingPolicy::SoftUpdates;
        let soft = SoftUpdateOptions::default();
        record(&base, &writers, Setting { ordering, seed, soft, keeps_events: false }).unwrap()
    }

    #[test]
    fn the_seed_decides_who_runs() {
        let (one, again, other) = (recorded(1), recorded(1), recorded(2));
        assert_eq!((&one.windows, &one.history), (&again.windows, &again.history));
        assert_ne!(one.windows, other.windows);
        let overlap = one.history.steps.windows(2).any(|two| two[1].began < two[0].at);
        assert!(overlap, "one writer's operations begin while another's are under way");
    }
}
