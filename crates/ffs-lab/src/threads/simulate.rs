//! Any number of processors in virtual time: how far an operation gains by more of them, and which
//! locks hold it up.
//!
//! **Model.** Real threads run one at a time. The time that a thread works between two locks is
//! measured, and passes on its virtual processor. The thread whose processor is furthest behind
//! runs next, so that locks are taken in the order of virtual time. A lock that another processor
//! had last costs [`TRANSFER`] more: its cache line moves.
//!
//! **Limits.** A step is before a lock is taken; a release is none. So a lock is found held only if
//! its holder takes another one meanwhile, and the gain by more processors is an upper bound: waits
//! for a lock under which no other is taken are missing, and others are too short. Other shared
//! cache lines and the bandwidth of memory are not in the model either.
//!
//! # Invariants
//! 1. Between two steps exactly one thread runs.
//! 2. Between two steps another thread has always run, also with one processor. So the caches of
//!    the real processor are disturbed equally with any number.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ffs_core::schedule::{self, LockId, Scheduler, Step};
use serde::Serialize;

use super::client::{Client, Place};
use super::{Phase, Sharing};
use crate::error::{LabError, Result};
use crate::systems::{Context, TargetSpec};
use crate::watch::Watch;

/// What a lock costs more that another processor had last: a cache line from another core.
pub const TRANSFER: Duration = Duration::from_nanos(60);
/// Steps in a row in which threads wait: a deadlock.
const MOST_IDLE: u32 = 20_000;

/// A phase with a number of processors.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SimulatedRow {
    /// Where the threads worked.
    pub directory: Sharing,
    /// The operation.
    pub phase: &'static str,
    /// Processors, of one thread each.
    pub processors: u32,
    /// Operations a second of virtual time.
    pub per_second: f64,
    /// Locks that an operation takes.
    pub locks: f64,
    /// Those of them that another processor had last.
    pub transfers: f64,
    /// The same by kind of lock, those first that moved most.
    pub kinds: Vec<LockKind>,
    /// The locks that were found held, the longest wait first.
    pub waits: Vec<LockWait>,
}

/// What an operation takes of one kind of lock.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LockKind {
    /// The type of the lock.
    pub lock: String,
    /// Locks that an operation takes.
    pub locks: f64,
    /// Those of them that another processor had last.
    pub transfers: f64,
}

/// The time that threads waited for locks of a kind, as far as the model has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LockWait {
    /// The type of the lock.
    pub lock: String,
    /// The share of the threads' time, percent.
    pub percent: f64,
}

/// Simulates the phases on the library in process.
///
/// # Errors
/// The target is another one, an operation failed, or threads wait for each other.
pub fn run(
    spec: &TargetSpec,
    context: &Context,
    processors: &[u32],
    files: u32,
    watch: &mut dyn Watch,
) -> Result<Vec<SimulatedRow>> {
    if spec.as_core().is_none() {
        return Err(LabError::spec(&spec.label, "only the library in process is simulated"));
    }
    let mut rows = Vec::new();
    for directory in Sharing::ALL {
        for &n in processors {
            watch.step(&format!("{} {n}", directory.name()));
            let mut place = Place::open(spec, context, u64::from(n) * u64::from(files))?;
            let clients = place.clients(directory, n)?;
            for phase in Phase::ALL {
                let state = simulate(&clients, phase, files)?;
                rows.push(state.row(directory, phase, n, files));
                if !watch.done(u64::from(n) * u64::from(files)) {
                    return Err(LabError::Interrupted);
                }
            }
            drop(clients);
            place.close()?;
        }
    }
    Ok(rows)
}

/// The virtual processors, and the thread that only takes turns (the last one).
struct Processors {
    state: Mutex<State>,
    /// One for each thread: others that wake would disturb what is measured.
    turns: Vec<Condvar>,
}

struct State {
    /// Virtual time of each processor, nanoseconds.
    clocks: Vec<u64>,
    running: Vec<bool>,
    /// The thread that runs; the number of processors: the one that only takes turns.
    current: usize,
    /// The one that runs after that.
    next: usize,
    resumed: Instant,
    /// The processor that had each lock last.
    owners: BTreeMap<usize, usize>,
    /// The lock that each thread tries to take.
    wanted: Vec<Option<LockId>>,
    /// The threads whose last step was a wait.
    blocked: Vec<bool>,
    /// Locks taken, and those of them that moved, by type.
    kinds: BTreeMap<&'static str, (u64, u64)>,
    waited: BTreeMap<&'static str, u64>,
    idle: u32,
}

impl State {
    /// The running thread whose processor is furthest behind.
    fn behind(&self) -> Option<usize> {
        (0..self.clocks.len()).filter(|&k| self.running[k]).min_by_key(|&k| self.clocks[k])
    }

    /// Accounts for a step of thread `me`, which has worked since it was resumed.
    fn account(&mut self, me: usize, step: Step) {
        self.idle = if matches!(step, Step::Blocked(_)) { self.idle + 1 } else { 0 };
        if let Step::Blocked(lock) = step {
            self.wait(me, lock);
            return;
        }
        self.end_attempt(me);
        let worked = self.resumed.elapsed().as_nanos();
        self.clocks[me] += u64::try_from(worked).unwrap_or(u64::MAX);
        if let Step::Lock(lock) = step {
            self.kinds.entry(lock.name).or_default().0 += 1;
            self.wanted[me] = Some(lock);
        }
    }

    /// Thread `me` waits: until the holder of the lock has done its next step, or until another
    /// thread has that does not wait itself. The time of the attempt does not count.
    fn wait(&mut self, me: usize, lock: Option<LockId>) {
        self.blocked[me] = true;
        let able = |k: &usize| *k != me && self.running[*k] && !self.blocked[*k];
        let holder = lock.and_then(|lock| self.owners.get(&lock.address)).copied().filter(able);
        let first = || (0..self.clocks.len()).filter(able).min_by_key(|&k| self.clocks[k]);
        let until = holder.or_else(first).map_or(0, |k| self.clocks[k]);
        let wait = until.saturating_sub(self.clocks[me]) + 1;
        self.clocks[me] += wait;
        let name = lock.map_or("a change by another thread", |lock| lock.name);
        *self.waited.entry(name).or_default() += wait;
    }

    /// Thread `me` goes on: it has the lock that it tried to take.
    fn end_attempt(&mut self, me: usize) {
        self.blocked[me] = false;
        let Some(lock) = self.wanted[me].take() else { return };
        let before = self.owners.insert(lock.address, me);
        if before.is_some_and(|before| before != me) {
            self.kinds.entry(lock.name).or_default().1 += 1;
            self.clocks[me] += TRANSFER.as_nanos() as u64;
        }
    }

    fn row(&self, directory: Sharing, phase: Phase, n: u32, files: u32) -> SimulatedRow {
        let operations = f64::from(n) * f64::from(files);
        let end = self.clocks.iter().copied().max().unwrap_or(0).max(1);
        let all: u64 = self.clocks.iter().sum::<u64>().max(1);
        let mut waits: Vec<LockWait> = (self.waited.iter())
            .map(|(lock, ns)| LockWait {
                lock: short(lock),
                percent: *ns as f64 * 100.0 / all as f64,
            })
            .collect();
        waits.sort_by(|a, b| b.percent.total_cmp(&a.percent));
        let each = |count: u64| count as f64 / operations;
        let mut kinds: Vec<LockKind> = (self.kinds.iter())
            .map(|(lock, &(locks, moved))| LockKind {
                lock: short(lock),
                locks: each(locks),
                transfers: each(moved),
            })
            .collect();
        kinds.sort_by(|a, b| b.transfers.total_cmp(&a.transfers).then(b.locks.total_cmp(&a.locks)));
        SimulatedRow {
            directory,
            phase: phase.name(),
            processors: n,
            per_second: operations * 1e9 / end as f64,
            locks: kinds.iter().map(|kind| kind.locks).sum(),
            transfers: kinds.iter().map(|kind| kind.transfers).sum(),
            kinds,
            waits,
        }
    }
}

/// The type of a lock without the paths: `Mutex<CacheState>`.
fn short(name: &str) -> String {
    let parts = name.split_inclusive(['<', '>', ',', ' ', '(', ')']);
    parts.map(|part| part.rsplit("::").next().unwrap_or(part)).collect()
}

impl Processors {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn until_current<'s>(
        &self,
        me: usize,
        mut state: MutexGuard<'s, State>,
    ) -> MutexGuard<'s, State> {
        while state.current != me {
            state = self.turns[me].wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// Lets `thread` run.
    fn give(&self, state: &mut State, thread: usize) {
        state.current = thread;
        self.turns[thread].notify_one();
    }

    /// Waits until `me` is the current thread, and notes that it begins to work.
    fn wait(&self, me: usize, mut state: MutexGuard<'_, State>) {
        state = self.until_current(me, state);
        state.resumed = Instant::now();
    }

    /// Lets the thread run that is furthest behind, after the one that only takes turns.
    fn pass(&self, state: &mut State) {
        state.next = state.behind().unwrap_or(usize::MAX);
        let turns = state.clocks.len();
        self.give(state, turns);
    }

    /// The thread that only takes turns.
    fn take_turns(&self) {
        let mut state = self.state();
        let me = state.clocks.len();
        loop {
            state = self.until_current(me, state);
            let next = state.next;
            if next == usize::MAX {
                return;
            }
            self.give(&mut state, next);
        }
    }
}

/// One thread on its processor.
struct OnProcessor {
    all: Arc<Processors>,
    me: usize,
}

impl Scheduler for OnProcessor {
    fn step(&self, step: Step) {
        let mut state = self.all.state();
        state.account(self.me, step);
        if state.idle > MOST_IDLE {
            drop(state);
            // A panic is the only way out of waiting for a lock.
            std::panic::resume_unwind(Box::new("threads wait for each other's locks"));
        }
        self.all.pass(&mut state);
        self.all.wait(self.me, state);
    }
}

/// Ends the part of a thread.
struct Ends(Arc<Processors>, usize);

impl Drop for Ends {
    fn drop(&mut self) {
        schedule::follow(None);
        let mut state = self.0.state();
        let worked = u64::try_from(state.resumed.elapsed().as_nanos()).unwrap_or(u64::MAX);
        state.clocks[self.1] += worked;
        state.end_attempt(self.1);
        state.running[self.1] = false;
        self.0.pass(&mut state);
    }
}

fn simulate(clients: &[Client], phase: Phase, files: u32) -> Result<State> {
    let n = clients.len();
    let all = Arc::new(Processors {
        state: Mutex::new(State {
            clocks: vec![0; n],
            running: vec![true; n],
            current: 0,
            next: 0,
            resumed: Instant::now(),
            owners: BTreeMap::new(),
            wanted: vec![None; n],
            blocked: vec![false; n],
            kinds: BTreeMap::new(),
            waited: BTreeMap::new(),
            idle: 0,
        }),
        turns: (0..=n).map(|_| Condvar::new()).collect(),
    });
    let stuck = || LabError::Plan("threads wait for each other's locks".to_owned());
    std::thread::scope(|scope| {
        let workers: Vec<_> = clients
            .iter()
            .enumerate()
            .map(|(me, client)| {
                let all = Arc::clone(&all);
                scope.spawn(move || {
                    let names = client.names(files);
                    let turn = OnProcessor { all: Arc::clone(&all), me };
                    all.wait(me, all.state());
                    let _ends = Ends(all, me);
                    schedule::follow(Some(Arc::new(turn)));
                    names.iter().try_for_each(|name| client.perform(phase, name))
                })
            })
            .collect();
        let turns = scope.spawn(|| all.take_turns());
        let ended: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        drop(turns.join());
        ended.into_iter().try_for_each(|ended| ended.unwrap_or_else(|_| Err(stuck())))
    })?;
    let all = Arc::into_inner(all).ok_or_else(stuck)?;
    Ok(all.state.into_inner().unwrap_or_else(PoisonError::into_inner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timer::RealTimer;
    use crate::watch::Unwatched;

    #[test]
    fn the_processors_share_the_work_and_locks_are_counted() {
        let context = Context { timer: Arc::new(RealTimer::start()), seed: 1 };
        let spec = TargetSpec::parse("core").unwrap();
        let rows = run(&spec, &context, &[1, 4], 30, &mut Unwatched).unwrap();
        assert_eq!(rows.len(), 2 * 2 * 5);
        for row in &rows {
            assert!(row.per_second > 0.0 && row.locks >= 1.0, "{row:?}");
            assert_eq!(row.transfers > 0.0, row.processors > 1, "{row:?}");
            assert!(row.processors > 1 || row.waits.is_empty(), "{row:?}");
        }
        let unlink = rows.iter().rfind(|row| row.phase == "unlink").unwrap();
        assert!(unlink.waits.iter().any(|wait| wait.lock.contains("InodeData")), "{unlink:?}");
        let dir = TargetSpec::parse("/tmp").unwrap();
        assert!(run(&dir, &context, &[1], 1, &mut Unwatched).is_err());
    }

    #[test]
    fn the_name_of_a_lock_has_no_paths() {
        let name = "ffs_core::sync::Mutex<ffs_core::buf::state::CacheState>";
        assert_eq!(short(name), "Mutex<CacheState>");
    }
}
