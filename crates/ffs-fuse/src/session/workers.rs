//! The worker threads that receive requests from `/dev/fuse`.
//!
//! One worker at a time receives requests. It serves a request that should be quick itself, and
//! keeps the right to receive: waking another worker would cost more than the operation. Before a
//! request that may wait, it passes the right on.
//!
//! **Invariants.** A worker waits only for the right to receive, for the kernel's next request, and
//! in the core.

use super::placement::Serving;
use super::{Served, Session};
use crate::wire::device::Received;
use crate::wire::splice::{Splice, SplicePipe};
use crate::wire::{Device, Reply, Request, op};
use rustix::fd::AsFd;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Requests to serve at most while looking for FORGETs: the kernel sends at most 8 other requests
/// before a FORGET that waits.
const MAX_DRAINED: usize = 64;
/// Polls at most for another worker to become idle.
const MAX_POLLS: usize = 1000;
/// Consecutive idle polls that are needed: the worker may have received a request and not have
/// marked itself as serving yet.
const IDLE_POLLS: usize = 16;

/// The right to receive from `/dev/fuse`.
#[derive(Default)]
pub(super) struct Receiver {
    /// Held while a worker receives, and while it serves a quick request.
    right: Mutex<()>,
    /// Whether the worker that holds the right serves a request.
    serving: AtomicBool,
}

impl Receiver {
    fn take(&self) -> MutexGuard<'_, ()> {
        self.right.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The right to receive, as the worker that serves a request has it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceiveRight {
    /// This worker holds it.
    Held,
    /// Another worker may hold it.
    Passed,
    /// This worker serves pending requests to find space, and does not look for more.
    Draining,
}

/// The buffers of a worker.
pub(super) struct WorkBuffers {
    pub(super) request: Vec<u8>,
    reply: Vec<u8>,
    pipe: SplicePipe,
}

impl WorkBuffers {
    pub(super) fn new() -> WorkBuffers {
        let (request, reply) = (Device::buffer(), Reply::buffer());
        WorkBuffers { request, reply, pipe: SplicePipe::Closed }
    }
}

impl Session {
    /// Starts `n` workers.
    ///
    /// # Errors
    /// No thread can be created.
    pub(crate) fn start(self: &Arc<Self>, n: usize) -> io::Result<()> {
        self.spawn_some(n, "worker", |session| session.receive_and_serve())
    }

    /// Receives requests and serves them until the file system is unmounted.
    fn receive_and_serve(&self) -> io::Result<()> {
        let mut buffers = WorkBuffers::new();
        let mut serving = self.placement.serving(true);
        let mut held = None;
        loop {
            let guard = held.take().unwrap_or_else(|| self.receiver.take());
            let WorkBuffers { request, pipe, .. } = &mut buffers;
            let received = match self.predictor.expects_large_write() && self.server.splices() {
                true => self.device.receive_spliced(request, pipe),
                false => self.device.receive(request),
            };
            match received? {
                Received::Request(n) => {
                    let request = Request::parse_start(&request[..n], pipe.content());
                    let slow = request.is_some_and(|r| self.predictor.expects_slow(&r));
                    let now = Instant::now();
                    let right = if slow {
                        if let Some(serving) = &mut serving {
                            serving.leave(now);
                        }
                        drop(guard);
                        ReceiveRight::Passed
                    } else {
                        self.receiver.serving.store(true, Ordering::Release);
                        if let (Some(serving), Some(request)) = (&mut serving, &request) {
                            serving.note_quick(request.pid, now);
                        }
                        held = Some(guard);
                        ReceiveRight::Held
                    };
                    let operation = self.predictor.start();
                    if self.answer(&mut buffers, n, right, serving.as_mut())? == op::DESTROY {
                        return Ok(());
                    }
                    self.predictor.record(&operation);
                    if right == ReceiveRight::Held {
                        self.receiver.serving.store(false, Ordering::Release);
                    }
                }
                Received::Again => held = Some(guard),
                Received::Unmounted => return Ok(()),
            }
        }
    }

    /// Serves the request of `n` bytes in the buffer and sends the reply. Returns the opcode.
    pub(super) fn answer(
        &self,
        buffers: &mut WorkBuffers,
        n: usize,
        right: ReceiveRight,
        mut serving: Option<&mut Serving>,
    ) -> io::Result<u32> {
        let WorkBuffers { request, reply, pipe } = buffers;
        let Some(request) = Request::parse_start(&request[..n], pipe.content()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "short FUSE request"));
        };
        let splice = Splice::new(self.device.as_fd(), pipe, request.unique);
        let mut reply = Reply::new(reply).with_splice(self.server.splices().then_some(splice));
        let served = self.serve(&request, &mut reply, || {
            if let Some(serving) = &mut serving {
                serving.leave(Instant::now());
            }
            match right {
                ReceiveRight::Draining => Ok(false),
                right => self.drain_pending(right).map(|()| true),
            }
        })?;
        if served.expects_reply {
            if !reply.was_sent() {
                self.send(served, &reply);
            }
            self.server.release_forgotten();
        }
        pipe.clear();
        Ok(request.opcode)
    }

    fn send(&self, served: Served, reply: &Reply) {
        let sent = match served.stale_pages {
            Some(pages) => {
                let (device, message) = (Arc::clone(&self.device), reply.message().to_vec());
                let send = move || {
                    device.send(&message);
                };
                self.notifier.answer(pages, None, Box::new(send));
                true
            }
            None => self.device.send(reply.message()),
        };
        if !sent && served.succeeded {
            self.server.take_back_references(reply);
        }
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
                    self.answer(&mut buffers, n, ReceiveRight::Draining, None)?;
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
            if let Ok(guard) = self.receiver.right.try_lock() {
                return Some(guard);
            }
            let busy = self.receiver.serving.load(Ordering::Acquire) || self.device.has_request();
            idle = if busy { 0 } else { idle + 1 };
            if idle == IDLE_POLLS {
                break;
            }
            std::thread::yield_now();
        }
        None
    }
}
