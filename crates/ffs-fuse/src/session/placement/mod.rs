//! Where threads that serve requests run: on the processor of the program, and only when it waits.
//!
//! **Purpose.** A program waits for each reply, so it and the server need one processor in turns.
//! The scheduler gives them two: the one that is woken while the other still runs goes to a
//! processor that is idle, and waking that one takes several times as long as the request. A
//! processor whose only running thread has the policy `SCHED_IDLE` counts as idle, so a program
//! stays on the processor of a server with that policy, and finds it there.
//!
//! **How.** A thread that serves quick requests moves to the processor of its client and takes the
//! policy: it is then *near*. (The thread of a ring is bound to the processor of its clients
//! anyway.) Every few milliseconds it looks where its client is now. With this policy a thread gets
//! almost no time beside other programs. So it returns to the usual one if it waited long for its
//! processor, and rests. As it may not get to run at all, the watchdog, another thread, looks after
//! it more rarely, and takes it back for it.
//!
//! | module | holds |
//! | --- | --- |
//! | `judge` | the decision, from what happened since the last one |
//! | `thread` | the system calls: policies, processors, and how long a thread waited for one |
//!
//! **Invariants.**
//! 1. Only the owner of a seat and the watchdog change the thread, each under the lock of its
//!    place. The owner takes the seat back before the thread ends, so that no other thread gets its
//!    number.
//! 2. A thread that may wait for long, or start another thread, is not near.
//! 3. Without permission to return from `SCHED_IDLE` (`CAP_SYS_NICE`, or a limit of `nice`) no
//!    thread is ever near. Neither if the user chose another policy, or one processor.

mod judge;
mod thread;

use crate::log::LOG;
use crate::server::SchedIdleCounts;
use judge::{BUSY, Judge, Scheduled, TICK, Verdict, WINDOW};
use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_setaffinity};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Thread;
use std::time::Instant;
use thread::{Policy, Schedstat};

/// The placement of the threads of a session. Dropping this ends the watchdog.
pub(super) struct Placement {
    /// `None`: threads stay where the system puts them.
    watched: Option<(Arc<Watched>, Thread)>,
}

/// What the watchdog and the serving threads share.
struct Watched {
    seats: Mutex<Vec<Arc<Seat>>>,
    /// The processors on which this process may run.
    allowed: CpuSet,
    /// The watchdog sleeps until a thread wakes it.
    asleep: AtomicBool,
    closed: AtomicBool,
    counts: Arc<SchedIdleCounts>,
}

/// A serving thread, as it and the watchdog know it.
struct Seat {
    thread: Pid,
    /// Quick requests so far.
    served: AtomicU64,
    place: Mutex<Place>,
}

/// Where a thread is.
struct Place {
    judge: Judge,
    stat: Schedstat,
    /// The processor of a client that the thread is bound to.
    processor: Option<usize>,
    /// [`Seat::served`], and how the thread was scheduled, at the watchdog's last look.
    served: u64,
    watched: Scheduled,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Placement {
    /// Starts the watchdog if placing is `wanted` and the system permits it.
    ///
    /// # Errors
    /// No thread can be created.
    pub(super) fn start(wanted: bool, counts: Arc<SchedIdleCounts>) -> io::Result<Placement> {
        let allowed = sched_getaffinity(None);
        let Some(allowed) = allowed.ok().filter(|set| wanted && set.count() > 1) else {
            return Ok(Placement { watched: None });
        };
        let watched = Arc::new(Watched {
            seats: Mutex::default(),
            allowed,
            asleep: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            counts,
        });
        let theirs = Arc::clone(&watched);
        let (report, reported) = sync_channel(1);
        let watchdog = std::thread::Builder::new().name("watchdog".to_owned());
        let watchdog = watchdog.spawn(move || {
            // A thread that cannot return from the policy ends.
            let able = thread::can_return();
            let _ = report.send(able.is_ok());
            match able {
                Ok(()) => theirs.watch(),
                Err(e) => {
                    tracing::debug!(target: LOG, reason = %e, "threads stay with their policy");
                }
            }
        })?;
        let able = reported.recv().unwrap_or(false);
        Ok(Placement { watched: able.then(|| (watched, watchdog.thread().clone())) })
    }

    /// A seat for this thread, which `follows` its clients or is bound to their processor. `None`:
    /// it stays where the system puts it.
    pub(super) fn seat(&self, follows: bool) -> Option<Seated> {
        let (watched, watchdog) = self.watched.as_ref()?;
        let place = Place {
            judge: Judge::default(),
            stat: Schedstat::of_this_thread().ok()?,
            processor: None,
            served: 0,
            watched: Scheduled::default(),
        };
        let seat = Seat { thread: gettid(), served: AtomicU64::new(0), place: Mutex::new(place) };
        let seat = Arc::new(seat);
        lock(&watched.seats).push(Arc::clone(&seat));
        Some(Seated {
            watched: Arc::clone(watched),
            watchdog: watchdog.clone(),
            seat,
            follows,
            near: false,
            since: 0,
            looked: Instant::now(),
            own: Scheduled::default(),
        })
    }
}

impl Drop for Placement {
    fn drop(&mut self) {
        if let Some((watched, watchdog)) = &self.watched {
            watched.closed.store(true, Ordering::Release);
            watchdog.unpark();
        }
    }
}

impl Watched {
    /// The work of the watchdog.
    fn watch(&self) {
        while !self.closed.load(Ordering::Acquire) {
            let now = Instant::now();
            let mut any = false;
            for seat in lock(&self.seats).iter() {
                any |= self.look(seat, now);
            }
            if any {
                std::thread::park_timeout(TICK);
            } else {
                self.asleep.store(true, Ordering::Release);
                std::thread::park();
                self.asleep.store(false, Ordering::Release);
            }
        }
    }

    /// Looks at a thread. Returns whether it is near.
    fn look(&self, seat: &Seat, now: Instant) -> bool {
        let place = &mut *lock(&seat.place);
        if !place.judge.is_near() {
            return false;
        }
        let served = seat.served.load(Ordering::Relaxed);
        let quick = served - std::mem::replace(&mut place.served, served);
        let Ok(scheduled) = place.stat.since(&mut place.watched) else { return false };
        let runnable = || thread::is_runnable(seat.thread);
        if let Verdict::Leave { contended } = place.judge.watched(now, quick, &scheduled, runnable)
        {
            self.counts.contended.fetch_add(u64::from(contended), Ordering::Relaxed);
            self.leave(seat.thread, place);
            return false;
        }
        true
    }

    /// Lets a thread run as any other.
    fn leave(&self, thread: Pid, place: &mut Place) {
        if let Err(e) = thread::set_policy(thread, Policy::Other) {
            tracing::error!(target: LOG, error = %e, "a thread keeps the policy SCHED_IDLE");
        }
        if place.processor.take().is_some() {
            // This fails only if processors were taken away meanwhile. The thread runs then, too.
            let _ = sched_setaffinity(Some(thread), &self.allowed);
        }
    }

    /// Binds a thread to the processor of its client. Returns whether it is there.
    fn follow(&self, thread: Pid, place: &mut Place, client: u32) -> bool {
        let allowed = |&p: &usize| p < CpuSet::MAX_CPU && self.allowed.is_set(p);
        let Some(processor) = thread::processor_of(client).filter(allowed) else { return false };
        if place.processor != Some(processor) {
            let mut set = CpuSet::new();
            set.set(processor);
            if sched_setaffinity(Some(thread), &set).is_err() {
                return false;
            }
            place.processor = Some(processor);
        }
        true
    }
}

/// The seat of this thread. Dropping this takes the thread back.
pub(super) struct Seated {
    watched: Arc<Watched>,
    watchdog: Thread,
    seat: Arc<Seat>,
    follows: bool,
    /// Whether the thread was near after its last look at itself.
    near: bool,
    /// Quick requests since then, when that was, and how the thread was scheduled until then.
    since: u32,
    looked: Instant,
    own: Scheduled,
}

impl Seated {
    /// Notes a quick request of the thread `client`, or of the kernel (0), that began at `now`.
    pub(super) fn note_quick(&mut self, client: u32, now: Instant) {
        // Only this thread writes it.
        let served = self.seat.served.load(Ordering::Relaxed) + 1;
        self.seat.served.store(served, Ordering::Relaxed);
        self.since += 1;
        let due = now.saturating_duration_since(self.looked) >= WINDOW;
        let busy = self.since >= BUSY;
        if due || (busy && !self.near) {
            (self.since, self.looked) = (0, now);
            // A thread with few requests need not come.
            if busy || self.near {
                self.look(client, now);
            }
        }
    }

    /// Looks at this thread, which serves quick requests.
    fn look(&mut self, client: u32, now: Instant) {
        let place = &mut *lock(&self.seat.place);
        let Ok(scheduled) = place.stat.since(&mut self.own) else { return };
        let (watched, thread) = (&self.watched, self.seat.thread);
        let verdict = place.judge.serves(now, &scheduled);
        if let Verdict::Leave { .. } = verdict {
            watched.counts.contended.fetch_add(1, Ordering::Relaxed);
            watched.leave(thread, place);
        }
        if place.judge.is_near() {
            let follows = self.follows && client != 0;
            let there = !follows || watched.follow(thread, place, client);
            let comes = verdict == Verdict::Come;
            if !there || (comes && thread::set_policy(thread, Policy::Idle).is_err()) {
                // The client has ended, belongs to another container, or runs where this process
                // may not.
                place.judge.rest(now);
                watched.leave(thread, place);
            } else if comes {
                watched.counts.entered.fetch_add(1, Ordering::Relaxed);
                if watched.asleep.swap(false, Ordering::AcqRel) {
                    self.watchdog.unpark();
                }
            }
        }
        self.near = place.judge.is_near();
    }

    /// Lets this thread run as any other: it may wait for long now, or start a thread.
    pub(super) fn leave(&mut self) {
        let place = &mut *lock(&self.seat.place);
        if place.judge.left() {
            self.watched.leave(self.seat.thread, place);
        }
        self.near = false;
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        lock(&self.watched.seats).retain(|seat| !Arc::ptr_eq(seat, &self.seat));
        self.leave();
    }
}
