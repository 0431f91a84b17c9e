//! Requests over io_uring: a ring and a thread for each processor.
//!
//! The kernel puts a request into the queue of the processor on which its caller runs. The thread
//! of that processor is bound to it, so that no message passes between processors. It serves a
//! request that should be quick itself, and passes one that may wait to a helper. The helper gives
//! the complete reply back, and the thread passes it to the kernel.
//!
//! FORGETs and interrupts still come from `/dev/fuse`, which one more thread reads.
//!
//! **Invariants.**
//! 1. The kernel uses the rings once it has an entry of each queue, and all of them only together:
//!    a failure before that ends them, and the caller mounts again without.
//! 2. A thread of a ring waits only for its ring, and in the core. A helper waits only for a
//!    request that a thread passes to it, and in the core.
//! 3. A FORGET waits at most [`FORGET_PAUSE`], and does not wait if a request lacks space, changes
//!    the mount or measures it.
//! 4. The kernel loses a reply only when the mount ends. Then all references are dropped, so none
//!    is taken back.

use super::placement::Serving;
use super::thread::single;
use super::workers::{ReceiveRight, WorkBuffers};
use super::{Session, Worker};
use crate::notifier::Limit;
use crate::wire::device::Received;
use crate::wire::ring::{Entry, Event, Ring, Waker};
use crate::wire::{Device, Errno, Reply, is_release, op};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Requests of a processor that may be served or wait for a helper at a time.
const ENTRIES: usize = 8;
/// The same for a processor that has no thread: this process may not run on it, or it is off.
const ENTRIES_ELSEWHERE: usize = 2;

/// How long FORGETs may gather. A thread that reads each at once takes the processor from the
/// program that removes files.
const FORGET_PAUSE: Duration = Duration::from_millis(5);
/// Looks for FORGETs before a request fails because the volume is full.
const FORGET_LOOKS: u32 = 200;

/// A processor, and the kernel's queues that its thread serves, with their numbers of entries.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// `None`: the thread runs on any.
    processor: Option<usize>,
    queues: Vec<(u16, usize)>,
}

/// The plans for `queues` queues, given the processors on which this process may run.
fn plans(queues: u16, allowed: impl Fn(usize) -> bool) -> Vec<Plan> {
    let (own, other): (Vec<u16>, Vec<u16>) = (0..queues).partition(|q| allowed(usize::from(*q)));
    let plan = |q: u16| Plan { processor: Some(usize::from(q)), queues: vec![(q, ENTRIES)] };
    let mut plans: Vec<Plan> = own.into_iter().map(plan).collect();
    if plans.is_empty() {
        plans.push(Plan { processor: None, queues: Vec::new() });
    }
    let threads = plans.len();
    for (i, queue) in other.into_iter().enumerate() {
        plans[i % threads].queues.push((queue, ENTRIES_ELSEWHERE));
    }
    plans
}

/// The number of processors in a list such as `0-3,8`.
fn count(list: &str) -> Option<u16> {
    let range = |range: &str| -> Option<u16> {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    };
    list.trim().split(',').try_fold(0, |sum: u16, part| sum.checked_add(range(part)?))
}

/// A step of the thread of a ring.
enum Step {
    Register(Arc<Device>),
    Serve(Worker, Sender<Job>),
}

/// The rings of a mount, before they serve requests. Dropping this ends them.
pub(crate) struct Rings {
    threads: Vec<Sender<Step>>,
    reports: Receiver<io::Result<()>>,
}

impl Rings {
    /// Makes the rings.
    ///
    /// # Errors
    /// The kernel does not let this process use io_uring.
    pub(crate) fn new() -> io::Result<Rings> {
        let list = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
        let queues = count(&list).ok_or_else(|| io::Error::other("unknown processors"))?;
        let allowed = sched_getaffinity(None)?;
        let (report, reports) = channel();
        let mut threads = Vec::new();
        for plan in plans(queues, |cpu| cpu < CpuSet::MAX_CPU && allowed.is_set(cpu)) {
            let (step, steps) = channel();
            let report = report.clone();
            let thread = std::thread::Builder::new().name(format!("queue {}", threads.len()));
            thread.spawn(move || run(&plan, &steps, &report))?;
            threads.push(step);
        }
        drop(report);
        let rings = Rings { threads, reports };
        rings.reported()?;
        Ok(rings)
    }

    /// Makes the kernel use the rings for the requests of `device`, after the handshake.
    ///
    /// # Errors
    /// The kernel refused, and may never send a request. The mount cannot be used.
    pub(crate) fn register(&self, device: &Arc<Device>) -> io::Result<()> {
        for thread in &self.threads {
            // A thread that has ended has reported an error, or its report is missing.
            let _ = thread.send(Step::Register(Arc::clone(device)));
        }
        self.reported()
    }

    /// The reports of all threads on their last step.
    fn reported(&self) -> io::Result<()> {
        let missing = |_| Err(io::Error::other("a thread of a ring has ended"));
        self.threads.iter().try_for_each(|_| self.reports.recv().unwrap_or_else(missing))
    }
}

/// The thread of a ring.
fn run(plan: &Plan, steps: &Receiver<Step>, report: &Sender<io::Result<()>>) {
    // Unbound, the thread works as well, if not as fast.
    let bound = plan.processor.is_some_and(|p| sched_setaffinity(None, &single(p)).is_ok());
    let mut arrived = Vec::new();
    let mut ring = match Ring::new(&plan.queues) {
        Ok(ring) => ring,
        Err(e) => return drop(report.send(Err(e))),
    };
    let _ = report.send(Ok(()));
    let Ok(Step::Register(device)) = steps.recv() else { return };
    let _ = report.send(ring.register(device, &mut arrived));
    let Ok(Step::Serve(worker, jobs)) = steps.recv() else { return };
    worker.run(|session| {
        let entries = plan.queues.iter().map(|(_, entries)| *entries).min();
        let limit = Limit::new(entries.unwrap_or(0) / 2);
        let home = Arc::new(Home { done: Mutex::default(), waker: ring.waker(), limit });
        let buffer = Reply::buffer();
        let serving = if bound { session.placement.serving(false) } else { None };
        QueueWorker { session, ring, home, jobs, buffer, serving }.serve(arrived)
    });
}

/// Where entries of a ring come back to its thread with complete replies.
struct Home {
    done: Mutex<Vec<Entry>>,
    waker: Waker,
    /// Replies that may wait for the kernel: some entries of each queue are always free of them.
    limit: Arc<Limit>,
}

impl Home {
    fn done(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.done.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, entry: Entry) {
        let mut done = self.done();
        done.push(entry);
        // The thread takes all that are there when it wakes.
        if done.len() == 1 {
            self.waker.wake();
        }
    }

    fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut *self.done())
    }
}

/// A request for a helper.
struct Job {
    entry: Entry,
    home: Arc<Home>,
}

/// The thread of a ring, while it serves.
struct QueueWorker<'s> {
    session: &'s Session,
    ring: Ring,
    home: Arc<Home>,
    jobs: Sender<Job>,
    /// For replies to requests that occupy the memory of their entry.
    buffer: Vec<u8>,
    serving: Option<Serving>,
}

impl QueueWorker<'_> {
    /// Serves requests until the mount has ended and the kernel has no entry any more. Some may be
    /// with helpers then.
    fn serve(mut self, mut events: Vec<Event>) -> io::Result<()> {
        let mut ended = false;
        loop {
            let mut waiting = events.len();
            for event in events.drain(..) {
                waiting -= 1;
                let mut awaited = true;
                match event {
                    Event::Request(entry) => awaited = self.request(entry)?,
                    Event::Woken => {
                        for entry in self.home.take() {
                            self.ring.commit(entry)?;
                        }
                    }
                    Event::Returned(_) => ended = true,
                }
                if waiting > 0 && awaited {
                    // A reply does not wait for the next request.
                    self.ring.submit()?;
                }
            }
            if ended && !self.ring.is_in_use() {
                return Ok(());
            }
            self.ring.wait(&mut events)?;
        }
    }

    /// Serves a request, or passes it to a helper. Returns whether a program waits for the reply
    /// that goes to the kernel next.
    fn request(&mut self, mut entry: Entry) -> io::Result<bool> {
        let session = self.session;
        // The kernel sends the FORGET of a file after it has the reply to the release. So complete
        // replies go to the kernel before a request that may wait for a FORGET.
        let (slow, awaited) = match entry.request() {
            Some((r, _)) => (session.predictor.expects_slow(&r), !is_release(r.opcode)),
            None => (false, true),
        };
        if slow {
            self.ring.submit()?;
            let job = Job { entry, home: Arc::clone(&self.home) };
            let Err(unsent) = self.jobs.send(job) else { return Ok(false) };
            // No helper is left.
            entry = unsent.0.entry;
            if let Some(serving) = &mut self.serving {
                serving.leave(Instant::now());
            }
        } else if let Some(serving) = &mut self.serving {
            serving.note_quick(0, Instant::now());
        }
        let submit = || {
            // What follows may wait.
            if let Some(serving) = &mut self.serving {
                serving.leave(Instant::now());
            }
            self.ring.submit()
        };
        match session.answer_entry(entry, &mut self.buffer, &self.home, submit)? {
            Some(entry) => self.ring.commit(entry).map(|()| awaited),
            None => Ok(false),
        }
    }
}

impl Session {
    /// Starts the threads of a mount whose requests come from `rings`, with `helpers` helpers.
    ///
    /// # Errors
    /// A thread is missing.
    pub(crate) fn start_rings(self: &Arc<Self>, rings: Rings, helpers: usize) -> io::Result<()> {
        self.device.stop_waiting()?;
        let (jobs, queue) = channel();
        let queue = Arc::new(Mutex::new(queue));
        // One may wait for another: see `SlowPredictor` about IOCTL.
        self.spawn_some(helpers.max(2), "helper", move |session| session.help(&queue))?;
        self.spawn("forgets".to_owned(), |session| session.read_forgets())?;
        for thread in &rings.threads {
            let sent = thread.send(Step::Serve(Worker::new(self), jobs.clone()));
            sent.map_err(|_| io::Error::other("a thread of a ring has ended"))?;
        }
        Ok(())
    }

    /// Serves requests that may wait, until all rings have ended.
    fn help(&self, jobs: &Mutex<Receiver<Job>>) -> io::Result<()> {
        let mut buffer = Reply::buffer();
        loop {
            let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(Job { entry, home }) = job else { return Ok(()) };
            if let Some(entry) = self.answer_entry(entry, &mut buffer, &home, || Ok(()))? {
                home.give_back(entry);
            }
        }
    }

    /// Serves the request in `entry`. Returns the entry with the reply, unless the reply waits for
    /// the kernel, and then comes `home` by itself. `buffer` is for a reply. `submit` passes the
    /// replies of this thread to the kernel.
    fn answer_entry(
        &self,
        mut entry: Entry,
        buffer: &mut [u8],
        home: &Arc<Home>,
        mut submit: impl FnMut() -> io::Result<()>,
    ) -> io::Result<Option<Entry>> {
        let operation = self.predictor.start();
        let Some((request, space)) = entry.request() else {
            let unique = entry.unique();
            entry.reply(Reply::new(buffer).finish(unique, Err(Errno::IO)));
            return Ok(Some(entry));
        };
        if matches!(request.opcode, op::STATFS | op::IOCTL) {
            // It counts the space that removed files have freed, or makes the mount read-only.
            submit()?;
            self.take_forgets()?;
        }
        let in_place = space.is_some();
        let mut reply = Reply::new(space.unwrap_or(&mut *buffer));
        let served = self.serve(&request, &mut reply, || {
            submit()?;
            // A FORGET follows the reply to a release, which another thread may be about to send.
            for _ in 0..FORGET_LOOKS {
                self.take_forgets()?;
                std::thread::yield_now();
            }
            self.server.release_forgotten_and_wait();
            Ok(true)
        })?;
        let len = reply.message().len();
        match in_place {
            true => entry.reply_in_place(len),
            false => entry.reply(&buffer[..len]),
        }
        self.predictor.record(&operation);
        Ok(match served.stale_pages {
            Some(pages) => {
                let (limit, home) = (&home.limit, Arc::clone(home));
                self.notifier.answer(pages, Some(limit), Box::new(move || home.give_back(entry)));
                None
            }
            None => Some(entry),
        })
    }

    /// Reads FORGETs until the file system is unmounted.
    fn read_forgets(&self) -> io::Result<()> {
        loop {
            self.device.wait();
            if self.take_forgets()? {
                return Ok(());
            }
            std::thread::sleep(FORGET_PAUSE);
        }
    }

    /// Serves what the kernel has sent by `/dev/fuse`. Returns whether the mount has ended.
    fn take_forgets(&self) -> io::Result<bool> {
        let mut buffers = self.forgets.lock().unwrap_or_else(PoisonError::into_inner);
        let buffers = buffers.get_or_insert_with(WorkBuffers::new);
        let ended = loop {
            match self.device.receive(&mut buffers.request)? {
                Received::Request(n) => self.answer(buffers, n, ReceiveRight::Draining, None)?,
                Received::Again => break false,
                Received::Unmounted => break true,
            };
        };
        self.server.release_forgotten();
        Ok(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_queue_has_one_thread() {
        let plan = |processor, queues: &[_]| Plan { processor, queues: queues.to_vec() };
        let (all, few) = (ENTRIES, ENTRIES_ELSEWHERE);
        let both = [plan(Some(0), &[(0, all)]), plan(Some(1), &[(1, all)])];
        assert_eq!(plans(2, |_| true), both);
        let two =
            [plan(Some(1), &[(1, all), (0, few), (3, few)]), plan(Some(4), &[(4, all), (2, few)])];
        assert_eq!(plans(5, |cpu| cpu == 1 || cpu == 4), two);
        assert_eq!(plans(2, |_| false), [plan(None, &[(0, few), (1, few)])]);
    }

    #[test]
    fn lists_of_processors_are_counted() {
        for (list, n) in [("0\n", Some(1)), ("0-1\n", Some(2)), ("0-3,8-11,20", Some(9))] {
            assert_eq!(count(list), n, "{list}");
        }
        for list in ["", "3-1", "0-", "0-65535", "a"] {
            assert_eq!(count(list), None, "{list}");
        }
    }
}
