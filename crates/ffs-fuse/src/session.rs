//! A session: the threads that serve one mount, from the handshake to the last byte on the device.
//!
//! **Invariants.**
//! 1. The session is over when the kernel has let go of the mount, or when a signal asked for the end
//!    and those who still use the mount had time to leave.
//! 2. When it is over, everything is written and the volume marked clean, before the image's lock is
//!    given up.
//! 3. A worker waits for nothing but its turn, the kernel's next request and the core.

use crate::error::MountError;
use crate::kernel::{self, Force};
use crate::log::LOG;
use crate::notifier::Notifier;
use crate::server::Server;
use crate::trace::RequestTrace;
use crate::wire::device::Received;
use crate::wire::{Device, Errno, Reply, Request, op};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long users of a detached mount may go on before they are cut off.
const GRACE: Duration = Duration::from_secs(5);

/// The kernel sends at most 8 other requests before it sends those that wait to be forgotten.
const MOST_WAITING: usize = 64;
/// How often to look whether another worker is done.
const MOST_LOOKS: usize = 1000;
/// And how often it must look so: it may have a request that it has not begun to serve.
const ENOUGH_LOOKS: usize = 16;

/// So many operations after a slow one are taken for slow.
const SUSPECTS: u32 = 64;
/// A transfer of as many bytes is worth a second processor.
const BULKY: usize = 64 << 10;

/// A reading of the coarse clock: some milliseconds each.
type Tick = (i64, i64);

fn tick() -> Tick {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    (t.tv_sec, t.tv_nsec)
}

/// Guesses which requests will take long.
///
/// While operations do not wait, one worker serves them all, one after the other: to wake another for each
/// would cost more than the operation. Those that are expected to wait are served beside others.
#[derive(Default)]
struct Pace {
    suspects: AtomicU32,
}

impl Pace {
    fn expects_slow(&self, request: &[u8]) -> bool {
        let Some(r) = Request::parse(request) else { return false };
        if matches!(r.opcode, op::FORGET | op::BATCH_FORGET | op::RELEASE | op::RELEASEDIR) {
            // To be done before what the kernel sends later, which may count on the space. It forgets a
            // file only when it has been told that it is released.
            return false;
        }
        if self.suspects.load(Ordering::Relaxed) > 0 {
            return true;
        }
        match r.opcode {
            op::FSYNC | op::FSYNCDIR | op::SYNCFS | op::FALLOCATE => true,
            op::WRITE => request.len() >= BULKY,
            op::READ => r.args().read_size().is_ok_and(|n| n >= BULKY),
            _ => false,
        }
    }

    /// Notes how an operation went that was begun and ended at these ticks of a clock. The clock is coarse
    /// and cheap: an operation that waited is likely to see it tick, a quick one is not.
    fn note(&self, began: Tick, ended: Tick) {
        let suspects = self.suspects.load(Ordering::Relaxed);
        if began != ended {
            self.suspects.store(SUSPECTS, Ordering::Relaxed);
        } else if suspects > 0 {
            self.suspects.store(suspects - 1, Ordering::Relaxed);
        }
    }
}

/// What a worker works on.
struct Desk {
    request: Vec<u8>,
    reply: Reply,
}

impl Desk {
    fn new() -> Desk {
        Desk { request: Device::buffer(), reply: Reply::new() }
    }
}

/// What all threads of a session share.
pub(crate) struct Session {
    device: Arc<Device>,
    notifier: Notifier,
    server: Server,
    mount_point: PathBuf,
    /// Held by the worker that receives, and by it alone while it serves what it expects to be quick.
    turn: Mutex<()>,
    /// Whether who has the turn serves.
    serving: AtomicBool,
    pace: Pace,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    workers: usize,
    /// A signal asked for the end.
    stopping: bool,
    /// The grace is over.
    cut_off: bool,
    broken: Option<io::Error>,
}

impl Session {
    /// Serves the mount on `mount_point`, which talks on `device`.
    ///
    /// # Errors
    /// No thread can be made.
    pub(crate) fn new(
        device: Device,
        server: Server,
        mount_point: PathBuf,
    ) -> io::Result<Arc<Session>> {
        let state = State { workers: 0, stopping: false, cut_off: false, broken: None };
        let device = Arc::new(device);
        Ok(Arc::new(Session {
            notifier: Notifier::start(Arc::clone(&device))?,
            device,
            server,
            mount_point,
            turn: Mutex::default(),
            serving: AtomicBool::new(false),
            pace: Pace::default(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        }))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees what the kernel has forgotten, in case no request comes after which it would be.
    pub(crate) fn idle(&self) {
        self.server.release_forgotten();
    }

    /// Starts `n` workers.
    ///
    /// # Errors
    /// No thread can be made.
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
            state.broken = Some(e);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Takes requests and answers them until the kernel has no more.
    fn serve(&self) -> io::Result<()> {
        let mut desk = Desk::new();
        let mut turn = None;
        loop {
            let held = turn.take().unwrap_or_else(|| self.turn.lock());
            let held = held.unwrap_or_else(PoisonError::into_inner);
            match self.device.receive(&mut desk.request)? {
                Received::Request(n) => {
                    let slow = self.pace.expects_slow(&desk.request[..n]);
                    if !slow {
                        self.serving.store(true, Ordering::Release);
                        turn = Some(Ok(held));
                    } else {
                        drop(held);
                    }
                    let began = tick();
                    if self.answer(&mut desk, n, Some(turn.is_some()))? == op::DESTROY {
                        return Ok(());
                    }
                    self.pace.note(began, tick());
                    if turn.is_some() {
                        self.serving.store(false, Ordering::Release);
                    }
                }
                Received::Again => turn = Some(Ok(held)),
                Received::Unmounted => return Ok(()),
            }
        }
    }

    /// Answers the request of `n` bytes on the desk; its opcode. `turn`: whether this worker has the turn
    /// to receive; `None` if the request may not wait for others.
    fn answer(&self, desk: &mut Desk, n: usize, turn: Option<bool>) -> io::Result<u32> {
        let Desk { request, reply } = desk;
        let Some(request) = Request::parse(&request[..n]) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "short FUSE request"));
        };
        reply.start();
        let trace = RequestTrace::start();
        let mut outcome = self.server.handle(&request, reply);
        if let (Err(Errno::NOSPC), Some(turn)) = (outcome, turn) {
            self.let_others_pass(turn)?;
            reply.start();
            outcome = self.server.handle(&request, reply);
        }
        trace.finish(&request, outcome.map(|_| reply.len()));
        if outcome == Ok(false) {
            return Ok(request.opcode);
        }
        let outcome = outcome.map(drop);
        if let (Ok(()), Some(node)) = (outcome, reply.stale) {
            // Before the answer: whoever gets that may look at once.
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
            self.server.undo(reply);
        }
        self.server.release_forgotten();
        Ok(request.opcode)
    }

    /// Has what the kernel has sent already served. Among it may be the news that removed files are not
    /// used any more, which comes after their removal, and frees the space that was just found missing.
    fn let_others_pass(&self, turn: bool) -> io::Result<()> {
        let taken = if turn { None } else { self.turn_of_another() };
        if turn || taken.is_some() {
            let mut desk = Desk::new();
            for _ in 0..MOST_WAITING {
                if !self.device.has_request() {
                    break;
                }
                if let Received::Request(n) = self.device.receive(&mut desk.request)? {
                    self.answer(&mut desk, n, None)?;
                }
            }
        }
        self.server.release_forgotten_and_wait();
        Ok(())
    }

    /// Takes the turn, or returns without it when who has it has served what was waiting.
    fn turn_of_another(&self) -> Option<MutexGuard<'_, ()>> {
        let mut idle = 0;
        for _ in 0..MOST_LOOKS {
            if let Ok(turn) = self.turn.try_lock() {
                return Some(turn);
            }
            let busy = self.serving.load(Ordering::Acquire) || self.device.has_request();
            idle = if busy { 0 } else { idle + 1 };
            if idle == ENOUGH_LOOKS {
                break;
            }
            std::thread::yield_now();
        }
        None
    }

    /// Asks for the end: takes the mount away, and after the grace ends the session even if somebody
    /// still uses it.
    pub(crate) fn stop(&self) {
        if std::mem::replace(&mut self.state().stopping, true) {
            return;
        }
        // What the kernel kept back must reach us while we still serve.
        if let Ok(root) = std::fs::File::open(&self.mount_point) {
            let _ = rustix::fs::syncfs(&root);
        }
        let detached = kernel::unmount(&self.mount_point, Force { lazy: true, force: false });
        if let Err(e) = detached {
            // Somebody was faster, or may unmount what we may not: the end comes either way.
            let mount_point = self.mount_point.display();
            tracing::error!(target: LOG, %mount_point, error = %e, "unmounting failed");
        }
        let state = self.state();
        let waited = self.changed.wait_timeout_while(state, GRACE, |s| s.workers > 0);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.cut_off = state.workers > 0;
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for the end, then writes everything and marks the volume clean.
    ///
    /// # Errors
    /// The kernel's device failed, or writing did.
    pub(crate) fn wait(&self, fs: &ffs_core::Ffs) -> Result<(), MountError> {
        let state = self.state();
        let ended = self.changed.wait_while(state, |s| s.workers > 0 && !s.cut_off);
        let mut state = ended.unwrap_or_else(PoisonError::into_inner);
        let broken = state.broken.take();
        drop(state);
        self.server.forget_all();
        let written = fs.unmount().map_err(|source| MountError::FileSystem {
            image: self.mount_point.display().to_string(),
            source,
        });
        match broken {
            Some(e) => written.and(Err(MountError::Session(e))),
            None => written,
        }
    }
}
