//! The syncer thread: once a second the core writes old dirty data, and returns memory if the
//! system is short of it.
//!
//! **Purpose.** sync(2) does not reach an ordinary FUSE server. The syncer limits how much a crash
//! can lose.

use crate::log::LOG;
use crate::pressure::Pressure;
use ffs_core::Ffs;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const PERIOD: Duration = Duration::from_secs(1);

#[derive(Default)]
struct Stop {
    requested: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    /// Sleeps for a period. Returns whether the syncer has to end.
    fn wait(&self) -> bool {
        let requested = self.requested.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(requested, PERIOD, |requested| !*requested);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn request(&self) {
        *self.requested.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }
}

/// The running syncer. Dropping this ends the thread and waits for it.
pub struct Syncer {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

impl Syncer {
    /// Starts the thread for the volume `fs`. It also calls `each` every second.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(fs: Ffs, each: impl Fn() + Send + 'static) -> std::io::Result<Syncer> {
        let stop = Arc::new(Stop::default());
        let theirs = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("syncer".to_owned())
            .spawn(move || run(&fs, &theirs, each))?;
        Ok(Syncer { stop, thread: Some(thread) })
    }
}

fn run(fs: &Ffs, stop: &Stop, each: impl Fn()) {
    let mut failing = false;
    let mut pressure = Pressure::default();
    while !stop.wait() {
        each();
        if pressure.is_high() {
            fs.low_memory();
        }
        match fs.tick() {
            Ok(()) => {
                if std::mem::replace(&mut failing, false) {
                    tracing::info!(target: LOG, "writing back succeeds again");
                }
            }
            // One message for a series of failures, not one a second.
            Err(e) if !failing => {
                failing = true;
                tracing::error!(target: LOG, error = %e, "writing back failed");
            }
            Err(_) => {}
        }
    }
}

impl Drop for Syncer {
    fn drop(&mut self) {
        self.stop.request();
        if let Some(thread) = self.thread.take() {
            // A panic of the syncer was reported when it happened.
            let _ = thread.join();
        }
    }
}
