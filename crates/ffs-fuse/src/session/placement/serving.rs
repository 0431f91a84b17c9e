//! A serving thread, as its owner changes it: what it notes of its requests, and when it begins to
//! yield and ends that.
//!
//! **Invariants.**
//! 1. A request costs no system call. Examining the thread costs some, and happens at most once in
//!    a [`WINDOW`], or for every [`BUSY`] requests until it yields.
//! 2. The thread does not hold the list of threads while it yields: the watchdog may wait for that.

use super::decider::{BUSY, Leave, WINDOW, is_late};
use super::lock;
use super::watchdog::{ServingThread, State, Watched};
use crate::session::thread::{Linux, Scheduled, System};
use rustix::thread::gettid;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How old the counts may be that decide whether a thread begins to yield.
const RECENT: Duration = Duration::from_millis(20);

/// This thread, which serves. Dropping this lets it run as any other.
pub(in crate::session) struct Serving<S: System = Linux> {
    watched: Arc<Watched<S>>,
    thread: Arc<ServingThread<S>>,
    follows: bool,
    /// Whether it yielded when it was last examined.
    yields: bool,
    /// Quick requests since then, and when that was.
    requests: u32,
    examined: Instant,
    /// How it was scheduled until this time.
    scheduled: Scheduled,
    until: Option<Instant>,
}

impl<S: System> Serving<S> {
    /// # Errors
    /// There is no `/proc`, or it shows other processes.
    pub(super) fn start(watched: Arc<Watched<S>>, follows: bool) -> io::Result<Serving<S>> {
        let thread = Arc::new(ServingThread {
            id: gettid(),
            files: watched.system.files_of_this_thread()?,
            requests: AtomicU64::new(0),
            state: Mutex::new(State::default()),
            rescued: AtomicBool::new(false),
        });
        watched.add(Arc::clone(&thread));
        Ok(Serving {
            watched,
            thread,
            follows,
            yields: false,
            requests: 0,
            examined: Instant::now(),
            scheduled: Scheduled::default(),
            until: None,
        })
    }

    /// Notes a quick request of the thread `client`, that began at `now`. `client` is 0 if the
    /// kernel itself has sent it, or a program that this process cannot see.
    pub(in crate::session) fn note_quick(&mut self, client: u32, now: Instant) {
        if self.follows && client == 0 && !self.yields {
            return;
        }
        // Only this thread writes it.
        let requests = self.thread.requests.load(Ordering::Relaxed) + 1;
        self.thread.requests.store(requests, Ordering::Relaxed);
        self.requests += 1;
        let due = now.saturating_duration_since(self.examined) >= WINDOW;
        let busy = self.requests >= BUSY;
        if due || (busy && !self.yields) {
            (self.requests, self.examined) = (0, now);
            if busy || self.yields {
                self.examine(client, busy, now);
            }
        }
    }

    /// Examines this thread. Few requests do not let it begin to yield.
    fn examine(&mut self, client: u32, busy: bool, now: Instant) {
        let state = &mut *lock(&self.thread.state);
        let rescued = self.thread.rescued.swap(false, Ordering::SeqCst);
        let yields = state.decider.yields();
        if yields || (busy && !state.decider.backs_off(now)) {
            let Ok(scheduled) = self.watched.system.scheduled(&self.thread.files) else { return };
            let since = scheduled.since(&std::mem::replace(&mut self.scheduled, scheduled));
            let until = self.until.replace(now);
            let recent = until.is_some_and(|until| now.saturating_duration_since(until) < RECENT);
            if yields && (rescued || is_late(&since)) {
                self.watched.leave(self.thread.id, state, Leave::Contended, now);
            } else if yields {
                self.follow(state, client, now);
            } else if recent && state.decider.may_enter(now, &since) {
                self.enter(state, client, now);
            }
        }
        self.yields = state.decider.yields();
    }

    /// Moves to the processor where the client is now.
    fn follow(&self, state: &mut State, client: u32, now: Instant) {
        let (watched, thread) = (&self.watched, self.thread.id);
        if !self.follows || client == 0 {
            return;
        }
        let processor = watched.system.processor_of(client);
        if !processor.is_some_and(|processor| watched.bind(thread, state, processor)) {
            // It belongs to another container, or runs where this process may not.
            watched.leave(thread, state, Leave::Quiet, now);
            state.decider.back_off(now);
        }
    }

    fn enter(&self, state: &mut State, client: u32, now: Instant) {
        // The thread of a ring stays where it is. A program that computes would keep it from its
        // clients.
        let place = match self.follows {
            true => self.watched.system.processor_of(client).map(Some),
            false => (!self.watched.is_crowded()).then_some(None),
        };
        let Some(processor) = place else { return state.decider.back_off(now) };
        self.watched.enter(&self.thread, state, processor, now);
    }

    /// Lets this thread run as any other: it may wait for long now, or start a thread.
    pub(in crate::session) fn leave(&mut self, now: Instant) {
        if !self.yields {
            return;
        }
        let state = &mut *lock(&self.thread.state);
        if state.decider.yields() {
            self.watched.leave(self.thread.id, state, Leave::Quiet, now);
        }
        self.yields = state.decider.yields();
    }
}

impl<S: System> Drop for Serving<S> {
    fn drop(&mut self) {
        self.leave(Instant::now());
        self.watched.remove(&self.thread);
    }
}
