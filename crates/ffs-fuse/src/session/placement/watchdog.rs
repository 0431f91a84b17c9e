//! All serving threads, as the watchdog changes them.
//!
//! **Invariants.**
//! 1. While a thread yields, the watchdog examines it every [`TICK`]: it announces that it sleeps
//!    before it examines the threads, and a thread wakes it before it yields.
//! 2. It tries the lock of a thread's state and never waits for it: the holder may starve. It
//!    allocates nothing, because that thread may hold the lock of the allocator.

use super::decider::{Decider, Leave, TICK, starves};
use super::lock;
use crate::log::LOG;
use crate::server::SchedIdleCounts;
use crate::session::thread::{Policy, Scheduled, System, single};
use rustix::thread::{CpuSet, Pid};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::thread::Thread;
use std::time::Instant;

/// What the watchdog and the serving threads share.
pub(super) struct Watched<S: System> {
    pub(super) system: S,
    /// The thread of the watchdog. It is never bound, so its processors are those that the system
    /// and the user let this process have at the time.
    watchdog: Pid,
    handle: Thread,
    entries: Mutex<Vec<Entry<S>>>,
    /// The watchdog sleeps until a thread wakes it, or will.
    asleep: AtomicBool,
    closed: AtomicBool,
    /// A thread could not return to its policy: no other one takes it.
    disabled: AtomicBool,
    counts: Arc<SchedIdleCounts>,
}

/// A serving thread, and what the watchdog saw of it in the last tick, if it yielded then.
struct Entry<S: System> {
    thread: Arc<ServingThread<S>>,
    last: Option<Seen>,
}

#[derive(Clone, Copy)]
struct Seen {
    at: Instant,
    requests: u64,
    scheduled: Scheduled,
}

/// A serving thread.
pub(super) struct ServingThread<S: System> {
    pub(super) id: Pid,
    pub(super) files: S::Files,
    /// Quick requests so far.
    pub(super) requests: AtomicU64,
    pub(super) state: Mutex<State>,
    /// The watchdog changed the policy while the owner held the state.
    pub(super) rescued: AtomicBool,
}

/// Whether a thread yields, and where.
#[derive(Default)]
pub(super) struct State {
    pub(super) decider: Decider,
    /// The processor that the thread is bound to.
    processor: Option<usize>,
    /// The processors that it got when it was last bound no more.
    restored: Option<CpuSet>,
}

impl<S: System> Watched<S> {
    /// For the thread `watchdog`, whose handle is `handle`.
    pub(super) fn new(
        system: S,
        (watchdog, handle): (Pid, Thread),
        counts: Arc<SchedIdleCounts>,
    ) -> Watched<S> {
        Watched {
            system,
            watchdog,
            handle,
            entries: Mutex::default(),
            asleep: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            disabled: AtomicBool::new(false),
            counts,
        }
    }

    pub(super) fn add(&self, thread: Arc<ServingThread<S>>) {
        lock(&self.entries).push(Entry { thread, last: None });
    }

    pub(super) fn remove(&self, thread: &Arc<ServingThread<S>>) {
        lock(&self.entries).retain(|entry| !Arc::ptr_eq(&entry.thread, thread));
    }

    /// Ends the watchdog.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.handle.unpark();
    }

    /// Whether the watchdog sleeps, or will.
    #[cfg(test)]
    pub(super) fn sleeps(&self) -> bool {
        self.asleep.load(Ordering::SeqCst)
    }

    /// The work of the watchdog.
    pub(super) fn watch(&self) {
        while !self.closed.load(Ordering::Acquire) {
            match self.tick(Instant::now()) {
                true => std::thread::park_timeout(TICK),
                false => std::thread::park(),
            }
        }
    }

    /// Examines all threads. Returns whether one yields. If none does, the watchdog may sleep until
    /// it is woken.
    pub(super) fn tick(&self, now: Instant) -> bool {
        self.asleep.store(true, Ordering::SeqCst);
        let mut any = false;
        for entry in lock(&self.entries).iter_mut() {
            any |= self.examine(entry, now);
        }
        if any {
            self.asleep.store(false, Ordering::SeqCst);
        }
        any
    }

    /// Examines a thread. Returns whether it yields.
    fn examine(&self, entry: &mut Entry<S>, now: Instant) -> bool {
        let thread = &*entry.thread;
        let state = match thread.state.try_lock() {
            Ok(state) => Some(state),
            Err(TryLockError::Poisoned(e)) => Some(e.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if state.as_ref().is_some_and(|state| !state.decider.yields()) {
            entry.last = None;
            return false;
        }
        let recent = |last: &Seen| now.saturating_duration_since(last.at) < TICK / 2;
        if entry.last.as_ref().is_some_and(recent) {
            // Another thread has woken the watchdog.
            return true;
        }
        let requests = thread.requests.load(Ordering::Relaxed);
        let seen = self.system.scheduled(&thread.files).ok();
        let seen = seen.map(|scheduled| Seen { at: now, requests, scheduled });
        let last = std::mem::replace(&mut entry.last, seen);
        let (Some(seen), Some(last)) = (seen, last) else { return true };
        let (quick, scheduled) =
            (seen.requests - last.requests, seen.scheduled.since(&last.scheduled));
        let runnable = || self.system.is_runnable(&thread.files);
        match state {
            Some(mut state) => {
                let leave = state.decider.watched(quick, &scheduled, runnable);
                let disabled = self.disabled.load(Ordering::Relaxed).then_some(Leave::Quiet);
                if let Some(why) = leave.or(disabled) {
                    self.leave(thread.id, &mut state, why, now);
                }
                state.decider.yields()
            }
            None => {
                if starves(&scheduled, runnable) {
                    thread.rescued.store(true, Ordering::SeqCst);
                    let _ = self.system.set_policy(thread.id, Policy::Other);
                }
                true
            }
        }
    }

    /// Whether more threads are runnable than this process has processors.
    pub(super) fn is_crowded(&self) -> bool {
        let processors = self.system.affinity(self.watchdog).map(|set| set.count());
        let runnable = self.system.runnable_threads();
        processors.is_ok_and(|n| runnable.is_some_and(|runnable| runnable > n as usize))
    }

    /// Lets a thread yield, on `processor` if one is given. If that cannot be, it backs off.
    pub(super) fn enter(
        &self,
        thread: &ServingThread<S>,
        state: &mut State,
        processor: Option<usize>,
        now: Instant,
    ) {
        thread.rescued.store(false, Ordering::SeqCst);
        let able = !self.disabled.load(Ordering::Relaxed)
            && processor.is_none_or(|processor| self.bind(thread.id, state, processor));
        // From the next call on this thread may not run any more.
        if able && self.asleep.swap(false, Ordering::SeqCst) {
            self.handle.unpark();
        }
        if !able || self.system.set_policy(thread.id, Policy::Idle).is_err() {
            self.unbind(thread.id, state);
            state.decider.back_off(now);
            return;
        }
        state.decider.entered(now);
        self.counts.entered.fetch_add(1, Ordering::Relaxed);
    }

    /// Lets a thread run as any other.
    pub(super) fn leave(&self, thread: Pid, state: &mut State, why: Leave, now: Instant) {
        if let Err(e) = self.system.set_policy(thread, Policy::Other) {
            // Its limit of `nice` was taken. The watchdog tries again.
            if !self.disabled.swap(true, Ordering::Relaxed) {
                tracing::error!(target: LOG, error = %e, "a thread keeps the policy SCHED_IDLE");
            }
            return;
        }
        self.unbind(thread, state);
        state.decider.left(why, now);
        let contended = u64::from(why == Leave::Contended);
        self.counts.contended.fetch_add(contended, Ordering::Relaxed);
    }

    /// Binds a thread to a processor. Returns whether it is there. It is not if it may not run
    /// there, or if somebody else has changed its processors meanwhile.
    pub(super) fn bind(&self, thread: Pid, state: &mut State, processor: usize) -> bool {
        if processor >= CpuSet::MAX_CPU {
            return false;
        }
        let (Ok(current), Ok(allowed)) =
            (self.system.affinity(thread), self.system.affinity(self.watchdog))
        else {
            return false;
        };
        let expected = match state.processor {
            Some(bound) => current == single(bound),
            // The processors of the process may have changed since.
            None => current == allowed || Some(current) == state.restored,
        };
        if !expected {
            state.processor = None;
            return false;
        }
        if state.processor == Some(processor) {
            return true;
        }
        if !allowed.is_set(processor)
            || self.system.set_affinity(thread, &single(processor)).is_err()
        {
            return false;
        }
        state.processor = Some(processor);
        true
    }

    /// Gives a thread the processors of this process, unless somebody has chosen others for it.
    fn unbind(&self, thread: Pid, state: &mut State) {
        let Some(processor) = state.processor.take() else { return };
        if self.system.affinity(thread).is_ok_and(|current| current == single(processor))
            && let Ok(all) = self.system.affinity(self.watchdog)
        {
            // This fails only if processors were taken away meanwhile. The thread runs then, too.
            let _ = self.system.set_affinity(thread, &all);
            state.restored = self.system.affinity(thread).ok();
        }
    }
}
