//! Where threads that serve requests run: on the processor of the program, and only when it waits.
//!
//! **Purpose.** A program waits for each reply, so it and the server need one processor in turns.
//! The scheduler gives them two: the one that is woken while the other still runs goes to a
//! processor that is idle, and waking that one takes several times as long as the request. A
//! processor whose only running thread has the policy `SCHED_IDLE` counts as idle, so a program
//! stays on the processor of a server with that policy, and finds it there.
//!
//! **How.** A thread that serves quick requests moves to the processor of its client and takes the
//! policy: it *yields*. (The thread of a ring is bound to the processor of its clients anyway. It
//! does not begin to yield while more threads are runnable than there are processors.)
//! Every few milliseconds it examines where its client is now. With this policy a thread gets
//! almost no time beside other programs. So it returns to the usual one if it waited long for its
//! processor, and backs off. As it may not get to run at all, the watchdog, another thread,
//! examines it more rarely, and changes its policy for it.
//!
//! | module | holds |
//! | --- | --- |
//! | `decider` | the decision, from what happened since the last one |
//! | `serving` | a serving thread, as its owner changes it |
//! | `watchdog` | all serving threads, as the watchdog changes them |
//!
//! **Invariants.**
//! 1. Only its owner and the watchdog change a thread, each under the lock of its state. One
//!    exception: the watchdog gives a thread that starves with this lock its usual policy. The
//!    owner ends its entry before the thread ends, so that no other thread gets its number.
//! 2. The watchdog waits for no thread that yields.
//! 3. A thread that may wait for long, or start another thread, does not yield.
//! 4. Without permission to return from `SCHED_IDLE` (`CAP_SYS_NICE`, or a limit of `nice`) no
//!    thread ever yields. Neither if the user chose another policy, or one processor.
//! 5. A thread that yields no more has the processors that this process has then, or those that
//!    somebody chose for it.

mod decider;
mod serving;
#[cfg(test)]
mod tests;
mod watchdog;

use super::thread::{Linux, System};
use crate::log::LOG;
use crate::server::SchedIdleCounts;
use rustix::thread::gettid;
pub(super) use serving::Serving;
use std::io;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use watchdog::Watched;

/// The placement of the threads of a session. Dropping this ends the watchdog.
pub(super) struct Placement {
    /// `None`: threads stay where the system puts them.
    watched: Option<Arc<Watched<Linux>>>,
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
        let several = Linux.affinity(gettid()).is_ok_and(|set| set.count() > 1);
        if !wanted || !several {
            return Ok(Placement { watched: None });
        }
        let (report, reported) = sync_channel(1);
        let watchdog = std::thread::Builder::new().name("watchdog".to_owned());
        watchdog.spawn(move || {
            // A thread that cannot return from the policy ends.
            if let Err(e) = Linux::can_return() {
                tracing::debug!(target: LOG, reason = %e, "threads stay with their policy");
                return;
            }
            let this = (gettid(), std::thread::current());
            let watched = Arc::new(Watched::new(Linux, this, counts));
            let _ = report.send(Arc::clone(&watched));
            watched.watch();
        })?;
        Ok(Placement { watched: reported.recv().ok() })
    }

    /// Lets this thread yield, which `follows` its clients or is bound to their processor. `None`:
    /// it stays where the system puts it.
    pub(super) fn serving(&self, follows: bool) -> Option<Serving<Linux>> {
        Serving::start(Arc::clone(self.watched.as_ref()?), follows).ok()
    }
}

impl Drop for Placement {
    fn drop(&mut self) {
        if let Some(watched) = &self.watched {
            watched.close();
        }
    }
}
