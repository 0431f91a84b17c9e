//! A session: the threads that serve one mount, from the handshake until everything is durable.
//!
//! | module, top down | holds |
//! | --- | --- |
//! | `rings` | the threads of a mount whose requests pass over io_uring, and its handshake |
//! | `workers` | the threads that receive requests from `/dev/fuse` |
//! | `predictor` | which requests will take long |
//! | `placement` | on which processor a thread serves, and with which policy |
//! | `thread` | the system calls about the scheduling of threads |
//!
//! This module has what both ways share: how a request is served, and how a session ends.
//!
//! **Invariants.**
//! 1. The session ends when the kernel has released the mount, or when a signal arrived and the
//!    users of the mount had [`GRACE`] to leave it.
//! 2. At the end, everything is written and the volume is marked clean before the image is
//!    unlocked.
//! 3. A thread waits for no other request than the one that it serves, except in the core.

mod placement;
mod predictor;
mod rings;
mod thread;
mod workers;

use crate::checker::Checker;
use crate::error::MountError;
use crate::kernel::{self, Force};
use crate::log::LOG;
use crate::notifier::Notifier;
use crate::params::CheckFn;
use crate::recorder::{CallRecorder, ServedCall};
use crate::server::Server;
use crate::trace::RequestTrace;
use crate::wire::{Device, Errno, Pages, Reply, Request};
use placement::Placement;
use predictor::SlowPredictor;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use workers::WorkBuffers;

pub(crate) use rings::Rings;

/// The time that users of a detached mount have to leave it.
const GRACE: Duration = Duration::from_secs(5);

/// The state that all threads of a session share.
pub(crate) struct Session {
    device: Arc<Device>,
    notifier: Notifier,
    server: Server,
    checker: Arc<Checker>,
    recorder: Option<Arc<dyn CallRecorder>>,
    mount_point: PathBuf,
    receiver: workers::Receiver,
    /// Held while FORGETs are read beside the rings: the buffers for that.
    forgets: Mutex<Option<WorkBuffers>>,
    predictor: SlowPredictor,
    placement: Placement,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// Threads that serve requests.
    workers: usize,
    /// A signal has arrived.
    stopping: bool,
    /// Users still had the mount in use after [`GRACE`].
    grace_over: bool,
    /// The error that ended a worker.
    failure: Option<io::Error>,
}

/// What is left to do for a request after its reply was completed.
struct Served {
    /// Whether the kernel expects the reply.
    expects_reply: bool,
    succeeded: bool,
    /// What the kernel must drop from its page cache before it gets the reply.
    stale_pages: Option<Pages>,
}

impl Session {
    /// A session that serves the mount on `mount_point`, whose requests arrive on `device`. `check`
    /// checks the volume in the background, and `recorder` receives each request. `sched_idle`
    /// permits that threads have that policy.
    ///
    /// # Errors
    /// No thread can be created.
    pub(crate) fn new(
        device: Arc<Device>,
        server: Server,
        mount_point: PathBuf,
        check: Option<CheckFn>,
        recorder: Option<Arc<dyn CallRecorder>>,
        sched_idle: bool,
    ) -> io::Result<Arc<Session>> {
        let placement = Placement::start(sched_idle, server.sched_idle_counts())?;
        let state = State { workers: 0, stopping: false, grace_over: false, failure: None };
        let checker = Arc::new(Checker::new(server.fs().clone(), check, Arc::clone(&device)));
        server.set_checker(Arc::clone(&checker));
        Ok(Arc::new(Session {
            notifier: Notifier::start(Arc::clone(&device))?,
            checker,
            device,
            server,
            recorder,
            mount_point,
            receiver: workers::Receiver::default(),
            forgets: Mutex::default(),
            predictor: SlowPredictor::default(),
            placement,
            state: Mutex::new(state),
            changed: Condvar::new(),
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Releases forgotten files. The workers do so after each request, and none may come.
    pub(crate) fn idle(&self) {
        self.server.release_forgotten();
    }

    /// Checks the volume in the background if it was not unmounted cleanly.
    pub(crate) fn check_in_background(&self) {
        self.checker.start_if_wanted();
    }

    /// Starts a thread that does `work`. The session lasts until all of them have ended, or until
    /// one has returned an error or has panicked.
    ///
    /// # Errors
    /// No thread can be created.
    fn spawn(
        self: &Arc<Self>,
        name: String,
        work: impl FnOnce(&Arc<Session>) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let worker = Worker::new(self);
        std::thread::Builder::new().name(name).spawn(move || worker.run(work)).map(drop)
    }

    /// As [`Session::spawn`], for threads of which one is enough.
    fn spawn_some(
        self: &Arc<Self>,
        n: usize,
        name: &str,
        work: impl FnOnce(&Arc<Session>) -> io::Result<()> + Clone + Send + 'static,
    ) -> io::Result<()> {
        for i in 0..n {
            if let Err(e) = self.spawn(format!("{name} {i}"), work.clone()) {
                if i == 0 {
                    return Err(e);
                }
                tracing::error!(target: LOG, started = i, of = n, error = %e, "too few threads");
                break;
            }
        }
        Ok(())
    }

    /// Serves a request and completes the reply. If the volume has no space for it, and
    /// `find_space` may have found some, the request is tried again.
    fn serve(
        &self,
        request: &Request<'_>,
        reply: &mut Reply,
        find_space: impl FnOnce() -> io::Result<bool>,
    ) -> io::Result<Served> {
        reply.start();
        let trace = RequestTrace::start();
        let began = self.recorder.as_ref().map(|_| Instant::now());
        self.server.count(request);
        let mut outcome = self.server.handle(request, reply);
        if matches!(outcome, Err(Errno::NOSPC | Errno::DQUOT)) && find_space()? {
            reply.start();
            outcome = self.server.handle(request, reply);
        }
        trace.finish(request, outcome.map(|_| reply.len()));
        if let (Some(recorder), Some(began)) = (&self.recorder, began)
            && let Some(call) = ServedCall::of(request, reply, outcome, began)
        {
            recorder.call(&call);
        }
        let succeeded = outcome.is_ok();
        if let (true, Some(node)) = (succeeded, reply.stale) {
            // Before the reply: its receiver may read the attributes at once.
            self.device.send(&Reply::stale_attributes(node));
        }
        if let (true, Some(last)) = (succeeded, reply.longer) {
            self.device.send(&Reply::last_byte(last));
        }
        for node in reply.stale_listings.drain(..) {
            self.device.send(&Reply::stale_listing(node));
        }
        reply.finish(request.unique, outcome.map(drop));
        let mut stale_pages = reply.stale_pages;
        if let (false, Some(pages)) = (succeeded, stale_pages) {
            // The kernel holds these pages until it has the reply, which therefore does not wait.
            self.notifier.drop_pages(pages);
            stale_pages = None;
        }
        Ok(Served { expects_reply: outcome != Ok(false), succeeded, stale_pages })
    }

    /// Detaches the mount. The session ends when its users have left, or after [`GRACE`].
    pub(crate) fn stop(&self) {
        if std::mem::replace(&mut self.state().stopping, true) {
            return;
        }
        // Writes in the kernel's cache must reach the server while it serves.
        if let Ok(root) = std::fs::File::open(&self.mount_point) {
            let _ = rustix::fs::syncfs(&root);
        }
        let detached = kernel::unmount(&self.mount_point, Force { lazy: true, force: false });
        if let Err(e) = detached {
            // Another process unmounted first, or only another user may. The session ends anyway.
            let mount_point = self.mount_point.display();
            tracing::error!(target: LOG, %mount_point, error = %e, "unmounting failed");
        }
        let state = self.state();
        let waited = self.changed.wait_timeout_while(state, GRACE, |s| s.workers > 0);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.grace_over = state.workers > 0;
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for the end of the session, then writes everything and marks the volume clean.
    ///
    /// # Errors
    /// The FUSE device failed, or a write failed.
    pub(crate) fn wait(&self, fs: &ffs_core::Ffs) -> Result<(), MountError> {
        let state = self.state();
        let ended = self.changed.wait_while(state, |s| s.workers > 0 && !s.grace_over);
        let mut state = ended.unwrap_or_else(PoisonError::into_inner);
        let failure = state.failure.take();
        drop(state);
        self.checker.close();
        self.server.forget_all();
        let written = fs.unmount().map_err(|source| MountError::FileSystem {
            image: self.mount_point.display().to_string(),
            source,
        });
        match failure {
            Some(e) => written.and(Err(MountError::Session(e))),
            None => written,
        }
    }
}

/// A thread that serves requests, from before it starts to its end, also by a panic.
struct Worker {
    session: Arc<Session>,
    /// If it panics, the session ends: everything is written, and the end of the process ends the
    /// mount. Otherwise the caller of its request would wait for ever.
    panicked: bool,
}

impl Worker {
    fn new(session: &Arc<Session>) -> Worker {
        session.state().workers += 1;
        Worker { session: Arc::clone(session), panicked: true }
    }

    /// Does the work of the thread. An error becomes that of the session, and ends it: the device
    /// failed, or a request is lost whose caller would wait as long as other threads serve.
    fn run(mut self, work: impl FnOnce(&Arc<Session>) -> io::Result<()>) {
        let ended = work(&self.session);
        self.panicked = false;
        if let Err(e) = ended {
            let mut state = self.session.state();
            state.failure = Some(e);
            state.grace_over = true;
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let mut state = self.session.state();
        state.workers -= 1;
        state.grace_over |= self.panicked;
        drop(state);
        self.session.changed.notify_all();
    }
}
