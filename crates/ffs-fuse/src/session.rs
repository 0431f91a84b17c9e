//! A session: the worker threads of one mount, from the handshake until everything is durable.
//!
//! One worker at a time receives requests. It serves a request that should be quick itself, and
//! keeps the right to receive: waking another worker would cost more than the operation. Before a
//! request that may wait, it passes the right on.
//!
//! **Invariants.**
//! 1. The session ends when the kernel has released the mount, or when a signal arrived and the
//!    users of the mount had [`GRACE`] to leave it.
//! 2. At the end, everything is written and the volume is marked clean before the image is
//!    unlocked.
//! 3. A worker waits only for the right to receive, for the kernel's next request, and in the core.

use crate::checker::{CheckFn, Checker};
use crate::error::MountError;
use crate::kernel::{self, Force};
use crate::log::LOG;
use crate::notifier::Notifier;
use crate::recorder::{CallRecorder, ServedCall};
use crate::server::Server;
use crate::trace::RequestTrace;
use crate::wire::device::Received;
use crate::wire::{Device, Errno, Reply, Request, op};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time that users of a detached mount have to leave it.
const GRACE: Duration = Duration::from_secs(5);

/// Requests to serve at most while looking for FORGETs: the kernel sends at most 8 other requests
/// before a FORGET that waits.
const MAX_DRAINED: usize = 64;
/// Polls at most for another worker to become idle.
const MAX_POLLS: usize = 1000;
/// Consecutive idle polls that are needed: the worker may have received a request and not have
/// marked itself as serving yet.
const IDLE_POLLS: usize = 16;

/// The number of operations after a slow one that are expected to be slow too.
const SLOW_RUN: u32 = 64;
/// A transfer of this many bytes is served beside others, on a second processor.
const LARGE_TRANSFER: usize = 64 << 10;

/// Seconds and nanoseconds of the coarse clock, which advances every few milliseconds.
type CoarseTime = (i64, i64);

fn coarse_now() -> CoarseTime {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    (t.tv_sec, t.tv_nsec)
}

/// Predicts which requests will take long, from their kind and from the recent past.
#[derive(Default)]
struct SlowPredictor {
    /// Operations that are still expected to be slow.
    remaining: AtomicU32,
}

impl SlowPredictor {
    fn expects_slow(&self, request: &[u8]) -> bool {
        let Some(r) = Request::parse(request) else { return false };
        if matches!(r.opcode, op::FORGET | op::BATCH_FORGET | op::RELEASE | op::RELEASEDIR) {
            // These come before later requests, which may need the space that they free. The kernel
            // forgets a file only after the reply to its release.
            return false;
        }
        if self.remaining.load(Ordering::Relaxed) > 0 {
            return true;
        }
        match r.opcode {
            op::FSYNC | op::FSYNCDIR | op::SYNCFS | op::FALLOCATE => true,
            op::WRITE => request.len() >= LARGE_TRANSFER,
            op::READ => r.args().read_size().is_ok_and(|n| n >= LARGE_TRANSFER),
            _ => false,
        }
    }

    /// Records the start and the end of an operation. The clock is cheap and coarse: it is likely
    /// to advance during an operation that waits, and unlikely to advance during a quick one.
    fn record(&self, start: CoarseTime, end: CoarseTime) {
        let remaining = self.remaining.load(Ordering::Relaxed);
        if start != end {
            self.remaining.store(SLOW_RUN, Ordering::Relaxed);
        } else if remaining > 0 {
            self.remaining.store(remaining - 1, Ordering::Relaxed);
        }
    }
}

/// The buffers of a worker.
struct WorkBuffers {
    request: Vec<u8>,
    reply: Reply,
}

impl WorkBuffers {
    fn new() -> WorkBuffers {
        WorkBuffers { request: Device::buffer(), reply: Reply::new() }
    }
}

/// The right to receive, as the worker that serves a request has it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReceiveRight {
    /// This worker holds it.
    Held,
    /// Another worker may hold it.
    Passed,
    /// This worker serves pending requests to find space, and does not look for more.
    Draining,
}

/// The state that all threads of a session share.
pub(crate) struct Session {
    device: Arc<Device>,
    notifier: Notifier,
    server: Server,
    checker: Arc<Checker>,
    recorder: Option<Arc<dyn CallRecorder>>,
    mount_point: PathBuf,
    /// The right to receive: held while a worker receives, and while it serves a quick request.
    receive: Mutex<()>,
    /// Whether the worker that holds `receive` serves a request.
    serving: AtomicBool,
    predictor: SlowPredictor,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    workers: usize,
    /// A signal has arrived.
    stopping: bool,
    /// Users still had the mount in use after [`GRACE`].
    grace_over: bool,
    /// The error that ended a worker.
    failure: Option<io::Error>,
}

impl Session {
    /// A session that serves the mount on `mount_point`, whose requests arrive on `device`. `check`
    /// checks the volume in the background, and `recorder` receives each request.
    ///
    /// # Errors
    /// No thread can be created.
    pub(crate) fn new(
        device: Device,
        server: Server,
        mount_point: PathBuf,
        check: Option<CheckFn>,
        recorder: Option<Arc<dyn CallRecorder>>,
    ) -> io::Result<Arc<Session>> {
        let state = State { workers: 0, stopping: false, grace_over: false, failure: None };
        let device = Arc::new(device);
        let checker = Arc::new(Checker::new(server.fs().clone(), check, Arc::clone(&device)));
        server.set_checker(Arc::clone(&checker));
        Ok(Arc::new(Session {
            notifier: Notifier::start(Arc::clone(&device))?,
            checker,
            device,
            server,
            recorder,
            mount_point,
            receive: Mutex::default(),
            serving: AtomicBool::new(false),
            predictor: SlowPredictor::default(),
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

    /// Starts `n` workers.
    ///
    /// # Errors
    /// No thread can be created.
    pub(crate) fn start(self: &Arc<Self>, n: usize) -> io::Result<()> {
        for i in 0..n {
            let session = Arc::clone(self);
            self.state().workers += 1;
            let thread = std::thread::Builder::new().name(format!("worker {i}"));
            if let Err(e) = thread.spawn(move || session.work()) {
                self.state().workers -= 1;
                if i == 0 {
                    return Err(e);
                }
                tracing::error!(target: LOG, started = i, of = n, error = %e, "too few threads");
                break;
            }
        }
        Ok(())
    }

    fn work(self: Arc<Self>) {
        let outcome = self.serve();
        let mut state = self.state();
        state.workers -= 1;
        if let Err(e) = outcome {
            state.failure = Some(e);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Receives requests and serves them until the file system is unmounted.
    fn serve(&self) -> io::Result<()> {
        let mut buffers = WorkBuffers::new();
        let mut held = None;
        loop {
            let guard = held.take().unwrap_or_else(|| self.receive.lock());
            let guard = guard.unwrap_or_else(PoisonError::into_inner);
            match self.device.receive(&mut buffers.request)? {
                Received::Request(n) => {
                    let right = if self.predictor.expects_slow(&buffers.request[..n]) {
                        drop(guard);
                        ReceiveRight::Passed
                    } else {
                        self.serving.store(true, Ordering::Release);
                        held = Some(Ok(guard));
                        ReceiveRight::Held
                    };
                    let start = coarse_now();
                    if self.answer(&mut buffers, n, right)? == op::DESTROY {
                        return Ok(());
                    }
                    self.predictor.record(start, coarse_now());
                    if right == ReceiveRight::Held {
                        self.serving.store(false, Ordering::Release);
                    }
                }
                Received::Again => held = Some(Ok(guard)),
                Received::Unmounted => return Ok(()),
            }
        }
    }

    /// Serves the request of `n` bytes in the buffer and sends the reply. Returns the opcode.
    fn answer(&self, buffers: &mut WorkBuffers, n: usize, right: ReceiveRight) -> io::Result<u32> {
        let WorkBuffers { request, reply } = buffers;
        let Some(request) = Request::parse(&request[..n]) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "short FUSE request"));
        };
        reply.start();
        let trace = RequestTrace::start();
        let began = self.recorder.as_ref().map(|_| Instant::now());
        let mut outcome = self.server.handle(&request, reply);
        if outcome == Err(Errno::NOSPC) && right != ReceiveRight::Draining {
            self.drain_pending(right)?;
            reply.start();
            outcome = self.server.handle(&request, reply);
        }
        trace.finish(&request, outcome.map(|_| reply.len()));
        if let (Some(recorder), Some(began)) = (&self.recorder, began)
            && let Some(call) = ServedCall::of(&request, reply, outcome, began)
        {
            recorder.call(&call);
        }
        if outcome == Ok(false) {
            return Ok(request.opcode);
        }
        let outcome = outcome.map(drop);
        if let (Ok(()), Some(node)) = (outcome, reply.stale) {
            // Before the reply: its receiver may read the attributes at once.
            self.device.send(&Reply::stale_attributes(node));
        }
        let pages = reply.stale_pages.filter(|_| outcome.is_ok());
        let answer = reply.finish(request.unique, outcome);
        let sent = match pages {
            Some(pages) => {
                self.notifier.answer(pages, answer, &self.device);
                true
            }
            None => self.device.send(answer),
        };
        if !sent && outcome.is_ok() {
            self.server.take_back_references(reply);
        }
        self.server.release_forgotten();
        Ok(request.opcode)
    }

    /// Serves the requests that the kernel has already sent. FORGETs of removed files may be among
    /// them, which free the space that the current request lacks.
    fn drain_pending(&self, right: ReceiveRight) -> io::Result<()> {
        let held = right == ReceiveRight::Held;
        let taken = if held { None } else { self.wait_for_receiver() };
        if held || taken.is_some() {
            let mut buffers = WorkBuffers::new();
            for _ in 0..MAX_DRAINED {
                if !self.device.has_request() {
                    break;
                }
                if let Received::Request(n) = self.device.receive(&mut buffers.request)? {
                    self.answer(&mut buffers, n, ReceiveRight::Draining)?;
                }
            }
        }
        self.server.release_forgotten_and_wait();
        Ok(())
    }

    /// Takes the right to receive. Returns `None` once its holder has served all pending requests.
    fn wait_for_receiver(&self) -> Option<MutexGuard<'_, ()>> {
        let mut idle = 0;
        for _ in 0..MAX_POLLS {
            if let Ok(guard) = self.receive.try_lock() {
                return Some(guard);
            }
            let busy = self.serving.load(Ordering::Acquire) || self.device.has_request();
            idle = if busy { 0 } else { idle + 1 };
            if idle == IDLE_POLLS {
                break;
            }
            std::thread::yield_now();
        }
        None
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
