//! The thread that checks the mounted volume in the background.
//!
//! **Purpose.** The check itself belongs to the caller of this crate ([`CheckFn`]). This module
//! starts it, ends it before the volume is unmounted, and passes what it changed to the kernel.
//!
//! **Invariants.**
//! 1. At most one check of a mount runs. It has ended before the volume becomes read-only or is
//!    unmounted.
//! 2. The thread serves no requests, so it may wait for the kernel.
//!
//! References: `spec/fsck-and-crash.md` §7.

use crate::log::LOG;
use crate::params::{CheckFn, CheckResult, CheckRun};
use crate::wire::{Device, Pages, Reply, node_of};
use ffs_core::{Changed, CheckNeed, CheckProgress, Ffs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// The lowest priority of a process.
const NICE: i32 = 19;

/// The check of a mount.
pub(crate) struct Checker {
    fs: Ffs,
    check: Option<CheckFn>,
    device: Arc<Device>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    thread: Option<JoinHandle<()>>,
    interrupt: Arc<AtomicBool>,
    /// The thread has not stored its result yet.
    running: bool,
    /// The result of the last check.
    last: Option<CheckResult>,
    /// The mount ends: no check begins any more.
    closed: bool,
}

impl Checker {
    pub(crate) fn new(fs: Ffs, check: Option<CheckFn>, device: Arc<Device>) -> Checker {
        Checker { fs, check, device, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a check if the volume was not unmounted cleanly.
    pub(crate) fn start_if_wanted(self: &Arc<Self>) {
        if self.fs.check_need() == CheckNeed::Wanted
            && let Err(why) = self.start(false)
        {
            tracing::warn!(target: LOG, why, "no check in the background");
        }
    }

    /// Starts a check, unless one runs already.
    ///
    /// # Errors
    /// Why there is none, if so.
    pub(crate) fn start(self: &Arc<Self>, force: bool) -> Result<(), &'static str> {
        let check = self.check.ok_or("this program has no check in the background")?;
        let mut state = self.state();
        if state.closed {
            return Err("the mount ends");
        }
        if state.running {
            return Ok(());
        }
        state.interrupt = Arc::default();
        state.last = None;
        let (checker, interrupt) = (Arc::clone(self), Arc::clone(&state.interrupt));
        let thread = std::thread::Builder::new().name("bgfsck".to_owned());
        let started = thread.spawn(move || {
            let mut ended = Ended { checker: &checker, result: None };
            ended.result = Some(checker.run(check, force, interrupt));
        });
        state.thread = Some(started.map_err(|_| "no thread could be created")?);
        state.running = true;
        Ok(())
    }

    fn run(&self, check: CheckFn, force: bool, interrupt: Arc<AtomicBool>) -> CheckResult {
        // On Linux, of this thread alone. A failure leaves the priority of the mount.
        let _ = rustix::process::setpriority_process(None, NICE);
        let changed = |what: Changed<'_>| {
            // This fails if the kernel does not have the file, which then is not stale.
            let _ = match what {
                Changed::Attributes(ino) => {
                    self.device.send(&Reply::stale_attributes(node_of(ino)))
                }
                Changed::Content(ino) => {
                    let pages = Pages { node: node_of(ino), offset: 0, len: u64::MAX };
                    self.device.send(&Reply::stale_content(pages))
                }
                Changed::Name(dir, name) => {
                    self.device.send(&Reply::stale_name(node_of(dir), name))
                }
            };
        };
        let result = check(&CheckRun { fs: &self.fs, force, interrupt, changed: &changed });
        tracing::info!(target: LOG, code = result.code, result = result.text, "check ended");
        result
    }

    /// Ends a running check, and waits for its end.
    pub(crate) fn stop(&self) {
        let mut state = self.state();
        state.interrupt.store(true, Ordering::Relaxed);
        let thread = state.thread.take();
        drop(state);
        if let Some(thread) = thread {
            // A panic of the thread was reported when it happened.
            let _ = thread.join();
        }
    }

    /// As [`Checker::stop`], for ever.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.stop();
    }

    /// The state of the check, for [`crate::background_check`].
    pub(crate) fn status(&self) -> String {
        let state = self.state();
        if state.running {
            let CheckProgress { phase, done, total, .. } = self.fs.check_progress();
            return format!("running\t{phase}\t{done}\t{total}");
        }
        match &state.last {
            Some(CheckResult { code, text }) => format!("done\t{code}\t{text}"),
            None => "none".to_owned(),
        }
    }
}

/// Stores the result of a check when its thread ends, also by a panic.
struct Ended<'a> {
    checker: &'a Checker,
    result: Option<CheckResult>,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        let failed = || CheckResult { code: 8, text: "the check failed".to_owned() };
        let mut state = self.checker.state();
        state.last = Some(self.result.take().unwrap_or_else(failed));
        state.running = false;
    }
}
