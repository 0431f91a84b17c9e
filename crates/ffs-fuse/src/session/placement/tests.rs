//! Serving threads and the watchdog on a system of the test.

use super::decider::TICK;
use super::lock;
use super::serving::Serving;
use super::watchdog::Watched;
use crate::server::SchedIdleCounts;
use crate::session::thread::{Policy, Scheduled, System, single};
use rustix::thread::{CpuSet, Pid};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What the test's system does and has done.
struct State {
    policy: Policy,
    affinity: CpuSet,
    /// The processors of the watchdog.
    process: CpuSet,
    scheduled: Scheduled,
    runnable: bool,
    /// Runnable threads of all programs.
    threads: Option<usize>,
    client: Option<usize>,
    /// Whether a thread may return to its policy.
    may_return: bool,
    /// Called at the next change of the policy to `Idle`.
    on_enter: Option<Box<dyn FnOnce() + Send>>,
}

#[derive(Clone)]
struct Fake(Arc<Mutex<State>>);

impl System for Fake {
    type Files = ();

    fn set_policy(&self, _: Pid, policy: Policy) -> io::Result<()> {
        if policy == Policy::Other && !lock(&self.0).may_return {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        lock(&self.0).policy = policy;
        let called = match policy {
            Policy::Idle => lock(&self.0).on_enter.take(),
            Policy::Other => None,
        };
        called.into_iter().for_each(|call| call());
        Ok(())
    }

    fn affinity(&self, thread: Pid) -> io::Result<CpuSet> {
        let state = lock(&self.0);
        Ok(if thread == WATCHDOG { state.process } else { state.affinity })
    }

    fn set_affinity(&self, thread: Pid, set: &CpuSet) -> io::Result<()> {
        assert_ne!(thread, WATCHDOG);
        lock(&self.0).affinity = *set;
        Ok(())
    }

    fn processor_of(&self, client: u32) -> Option<usize> {
        assert_ne!(client, 0);
        lock(&self.0).client
    }

    fn files_of_this_thread(&self) -> io::Result<()> {
        Ok(())
    }

    fn scheduled(&self, (): &()) -> io::Result<Scheduled> {
        Ok(lock(&self.0).scheduled)
    }

    fn is_runnable(&self, (): &()) -> bool {
        lock(&self.0).runnable
    }

    fn runnable_threads(&self) -> Option<usize> {
        lock(&self.0).threads
    }
}

/// Not the number of the thread of a test.
const WATCHDOG: Pid = Pid::INIT;
const CLIENT: u32 = 7;
const MS: Duration = Duration::from_millis(1);

fn processors<const N: usize>(numbers: [usize; N]) -> CpuSet {
    let mut set = CpuSet::new();
    numbers.into_iter().for_each(|processor| set.set(processor));
    set
}

/// A serving thread and a watchdog that the test calls.
struct Rig {
    system: Fake,
    counts: Arc<SchedIdleCounts>,
    watched: Arc<Watched<Fake>>,
    serving: Serving<Fake>,
    now: Instant,
}

impl Rig {
    fn new(follows: bool) -> Rig {
        let allowed = processors([0, 1, 2]);
        let system = Fake(Arc::new(Mutex::new(State {
            policy: Policy::Other,
            affinity: allowed,
            process: allowed,
            scheduled: Scheduled::default(),
            runnable: false,
            threads: Some(3),
            client: Some(1),
            may_return: true,
            on_enter: None,
        })));
        let counts = Arc::new(SchedIdleCounts::default());
        let watchdog = (WATCHDOG, std::thread::current());
        let watched = Arc::new(Watched::new(system.clone(), watchdog, Arc::clone(&counts)));
        let serving = Serving::start(Arc::clone(&watched), follows).unwrap();
        Rig { system, counts, watched, serving, now: Instant::now() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        lock(&self.system.0)
    }

    fn policy(&self) -> Policy {
        self.state().policy
    }

    /// Serves `n` requests in a millisecond, each after a short wait.
    fn serve(&mut self, n: u32, client: u32) {
        for _ in 0..n {
            self.now += MS / n;
            let mut state = self.state();
            state.scheduled.times += 1;
            state.scheduled.ran += Duration::from_micros(20);
            state.scheduled.waited += Duration::from_micros(5);
            drop(state);
            self.serving.note_quick(client, self.now);
        }
    }

    /// Serves until the thread yields.
    fn enter(&mut self) {
        (0..5).for_each(|_| self.serve(20, CLIENT));
        assert_eq!(self.policy(), Policy::Idle);
    }

    fn tick(&mut self) -> bool {
        self.now += TICK;
        self.watched.tick(self.now)
    }

    fn contended(&self) -> u64 {
        self.counts.contended.load(Ordering::Relaxed)
    }
}

#[test]
fn a_busy_thread_follows_its_client_and_returns() {
    let mut rig = Rig::new(true);
    let before = rig.state().affinity;
    rig.enter();
    assert!(rig.state().affinity == single(1));
    rig.state().client = Some(2);
    (0..3).for_each(|_| rig.serve(20, CLIENT));
    assert!(rig.state().affinity == single(2));
    // Requests of the kernel itself do not move it.
    (0..3).for_each(|_| rig.serve(20, 0));
    assert!(rig.state().affinity == single(2) && rig.policy() == Policy::Idle);
    assert!(rig.tick(), "the first tick only takes the counts");
    assert!(!rig.tick());
    assert_eq!((rig.policy(), rig.contended()), (Policy::Other, 0));
    assert!(rig.state().affinity == before);
}

#[test]
fn a_ring_does_not_yield_while_programs_compute() {
    // A thread that follows its client gains even then.
    for (follows, threads, yields) in [
        (false, Some(3), true),
        (false, Some(4), false),
        (false, None, true),
        (true, Some(4), true),
    ] {
        let mut rig = Rig::new(follows);
        rig.state().threads = threads;
        (0..5).for_each(|_| rig.serve(20, CLIENT));
        let expected = if yields { Policy::Idle } else { Policy::Other };
        assert_eq!(rig.policy(), expected, "{follows} {threads:?}");
        assert_eq!(rig.contended(), 0);
        // It tries again after a pause.
        rig.state().threads = Some(1);
        (0..10).for_each(|_| rig.serve(20, CLIENT));
        assert_eq!(rig.policy(), Policy::Idle);
    }
}

#[test]
fn processors_that_come_later_are_used() {
    let mut rig = Rig::new(true);
    rig.enter();
    let all = processors([0, 1, 2, 3]);
    rig.state().process = all;
    rig.serving.leave(rig.now);
    assert!(rig.state().affinity == all);
    for processor in [3, 4] {
        // The thread is not bound while the last one comes.
        rig.state().process.set(processor);
        rig.state().client = Some(processor);
        rig.enter();
        assert!(rig.state().affinity == single(processor));
        rig.serving.leave(rig.now);
    }
}

#[test]
fn a_change_of_the_processors_by_the_user_stays() {
    // For the whole process, also to those where the thread is already, or for this thread.
    for (process, thread) in
        [(single(2), single(2)), (single(1), single(1)), (processors([0, 1, 2]), single(2))]
    {
        for leaves in [true, false] {
            let mut rig = Rig::new(true);
            rig.enter();
            (rig.state().process, rig.state().affinity) = (process, thread);
            if leaves {
                rig.serving.leave(rig.now);
            } else {
                rig.state().client = Some(0);
                (0..3).for_each(|_| rig.serve(20, CLIENT));
            }
            assert_eq!(rig.policy(), Policy::Other);
            assert!(rig.state().affinity == thread);
        }
    }
}

#[test]
fn a_thread_that_the_user_has_bound_does_not_yield() {
    let mut rig = Rig::new(true);
    let chosen = processors([0, 1]);
    rig.state().affinity = chosen;
    (0..10).for_each(|_| rig.serve(20, CLIENT));
    assert_eq!(rig.policy(), Policy::Other);
    assert!(rig.state().affinity == chosen);
}

#[test]
fn a_thread_without_a_visible_client_does_not_yield() {
    let mut rig = Rig::new(true);
    (0..10).for_each(|_| rig.serve(20, 0));
    assert_eq!(rig.policy(), Policy::Other);
    rig.state().client = None;
    (0..10).for_each(|_| rig.serve(20, CLIENT));
    assert_eq!(rig.policy(), Policy::Other);
    // The thread of a ring is where its clients are.
    let mut rig = Rig::new(false);
    let before = rig.state().affinity;
    (0..5).for_each(|_| rig.serve(20, 0));
    assert_eq!(rig.policy(), Policy::Idle);
    assert!(rig.state().affinity == before);
}

#[test]
fn a_single_request_does_not_let_a_thread_yield_again() {
    let mut rig = Rig::new(true);
    rig.enter();
    rig.tick();
    rig.tick();
    let entered = rig.counts.entered.load(Ordering::Relaxed);
    for _ in 0..100 {
        rig.now += 150 * MS;
        rig.serve(1, CLIENT);
        assert_eq!(rig.policy(), Policy::Other);
    }
    assert_eq!(rig.counts.entered.load(Ordering::Relaxed), entered);
}

#[test]
fn a_thread_that_begins_to_yield_during_a_tick_wakes_the_watchdog() {
    let mut rig = Rig::new(true);
    (0..2).for_each(|_| rig.serve(3, CLIENT));
    // No thread yields: the watchdog will sleep, but it does not yet.
    assert!(!rig.tick() && rig.watched.sleeps());
    let watched = Arc::clone(&rig.watched);
    // The thread may not run any more when it has the policy.
    rig.state().on_enter = Some(Box::new(move || assert!(!watched.sleeps())));
    rig.enter();
    assert!(rig.state().on_enter.is_none());
    // A wake-up is there: this returns at once.
    let begin = Instant::now();
    std::thread::park_timeout(Duration::from_secs(60));
    assert!(begin.elapsed() < Duration::from_secs(60));
}

#[test]
fn a_thread_that_starves_gets_its_policy_back() {
    for (times, waited) in [(0, Duration::ZERO), (4, 9 * MS)] {
        let mut rig = Rig::new(true);
        rig.enter();
        rig.tick();
        let mut state = rig.state();
        state.runnable = true;
        state.scheduled.times += times;
        state.scheduled.waited += waited;
        drop(state);
        assert!(!rig.tick());
        assert_eq!((rig.policy(), rig.contended()), (Policy::Other, 1));
        // It backs off.
        (0..5).for_each(|_| rig.serve(20, CLIENT));
        assert_eq!(rig.policy(), Policy::Other);
        rig.now += 200 * MS;
        rig.enter();
    }
}

#[test]
fn a_thread_that_starves_with_its_lock_gets_its_policy_back() {
    let mut rig = Rig::new(true);
    rig.enter();
    let (watched, system, now) = (Arc::clone(&rig.watched), rig.system.clone(), rig.now);
    rig.serving.leave(now);
    // The thread has just taken the policy, holds the lock, and does not run any more.
    rig.state().on_enter = Some(Box::new(move || {
        lock(&system.0).runnable = true;
        for n in 1..3 {
            assert!(watched.tick(now + n * TICK));
        }
        assert_eq!(lock(&system.0).policy, Policy::Other);
    }));
    rig.now += MS;
    (0..3).for_each(|_| rig.serve(20, CLIENT));
    (0..3).for_each(|_| rig.serve(20, CLIENT));
    assert_eq!((rig.policy(), rig.contended()), (Policy::Other, 1), "its owner has noticed");
}

#[test]
fn a_policy_that_cannot_be_restored_now_is_restored_later() {
    let mut rig = Rig::new(true);
    rig.enter();
    rig.state().may_return = false;
    rig.serving.leave(rig.now);
    for _ in 0..3 {
        rig.serve(20, CLIENT);
        assert!(rig.tick(), "it yields still");
    }
    rig.state().may_return = true;
    rig.serve(20, CLIENT);
    assert!(!rig.tick(), "although it is busy");
    assert_eq!(rig.policy(), Policy::Other);
    rig.now += 10_000 * MS;
    (0..5).for_each(|_| rig.serve(20, CLIENT));
    assert_eq!(rig.policy(), Policy::Other, "no thread takes the policy any more");
}

#[test]
fn an_early_tick_decides_nothing() {
    let mut rig = Rig::new(true);
    rig.enter();
    rig.tick();
    rig.state().runnable = true;
    // Another thread has woken the watchdog.
    for _ in 0..3 {
        rig.now += MS;
        assert!(rig.watched.tick(rig.now));
    }
    assert_eq!(rig.policy(), Policy::Idle);
    assert!(!rig.tick());
}

#[test]
fn a_thread_that_ends_returns() {
    let mut rig = Rig::new(true);
    rig.enter();
    drop(rig.serving);
    assert_eq!(lock(&rig.system.0).policy, Policy::Other);
}
