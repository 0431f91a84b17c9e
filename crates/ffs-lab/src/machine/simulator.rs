//! The clock, the processor and the disk queue of the simulated computer.
//!
//! Virtual time advances when the processor works ([`Simulator::work`]) or a caller waits for the
//! disk. Meanwhile the disk serves its queue in ascending order from the last position and then
//! from the start again (C-LOOK): one command at a time, or as many as flash memory takes.
//!
//! # Invariants
//! 1. At each moment, exactly the commands that ended by then are complete.
//! 2. Background requests wait in a backlog until the writes in flight have space for them. A
//!    caller that waits for the disk does not wait for the backlog.
//! 3. Processor time of the background is owed. It is paid while the processor is idle, or else by
//!    the next work.
//! 4. A barrier in the backlog lets nothing behind it into the queue before the writes that are in
//!    flight when it comes to the front are complete.
//! 5. No real time and no random order enter.
//!
//! Reference: `docs/spec/benchmarks.md` §6.2, §6.6, §6.7.

use std::collections::{BTreeMap, VecDeque};

use super::drive::{Direction, Drive};
use super::geometry::Extent;
use super::preset::Preset;

/// The totals of a machine since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MachineCounters {
    /// Processor time, nanoseconds.
    pub(crate) cpu: u64,
    /// Of it, searches of directories. [`super::Machine`] adds them.
    pub(crate) search: u64,
    /// Time during which the disk had a command, nanoseconds.
    pub(crate) busy: u64,
    /// Read commands.
    pub(crate) reads: u64,
    /// Write commands.
    pub(crate) writes: u64,
    /// Sectors read.
    pub(crate) sectors_read: u64,
    /// Sectors written.
    pub(crate) sectors_written: u64,
    /// Movements of the arm.
    pub(crate) seeks: u64,
    /// Reads answered from the drive's buffer.
    pub(crate) buffer_hits: u64,
    /// Time during which a caller waited for the disk, nanoseconds.
    pub(crate) waited: u64,
}

/// A request to the disk.
#[derive(Debug, Clone, Copy)]
struct Request {
    extent: Extent,
    direction: Direction,
}

/// A command that the drive executes.
#[derive(Debug)]
struct Active {
    /// The numbers of its requests.
    ids: Vec<u64>,
    /// Its sectors, if it is a write.
    running: u64,
    extent: Extent,
    /// When it ends.
    done: u64,
}

/// An entry of the backlog.
#[derive(Debug, Clone, Copy)]
enum Deferred {
    Request(Request),
    Barrier,
}

/// The machine's state.
#[derive(Debug)]
pub(crate) struct Simulator {
    now: u64,
    drive: Drive,
    /// The waiting requests by first sector and number.
    queue: BTreeMap<(u64, u64), Request>,
    /// The commands of the drive, in the order in which they end.
    active: VecDeque<Active>,
    /// The most commands of the drive.
    commands: usize,
    /// When the last of all commands so far ends.
    busy_until: u64,
    /// The sector after the last command.
    head: u64,
    next_id: u64,
    /// Sectors of the writes in flight: in the queue or in the drive.
    running: u64,
    backlog: VecDeque<Deferred>,
    /// The barrier at the front of the backlog waits for the writes with smaller numbers.
    barrier: Option<u64>,
    /// Whether the backlog fills the queue until `high` is reached.
    feeding: bool,
    owed: u64,
    high: u64,
    low: u64,
    largest: u64,
    request_cost: u64,
    hash: u64,
    done: MachineCounters,
    /// The write commands in the order in which they began.
    #[cfg(test)]
    pub(crate) written: Vec<Extent>,
}

const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

impl Simulator {
    pub(crate) fn new(preset: &Preset, phase: u64) -> Simulator {
        let sectors = |kb: u32| u64::from(kb) * 2;
        Simulator {
            now: 0,
            drive: Drive::new(&preset.disk, phase),
            queue: BTreeMap::new(),
            active: VecDeque::new(),
            commands: preset.disk.flash.as_ref().map_or(1, |flash| flash.commands as usize),
            busy_until: 0,
            head: 0,
            next_id: 0,
            running: 0,
            backlog: VecDeque::new(),
            barrier: None,
            feeding: true,
            owed: 0,
            high: sectors(preset.host.running_kb),
            low: sectors(preset.host.running_low_kb),
            largest: sectors(preset.host.request_kb),
            request_cost: (preset.cpu.disk_request / preset.host.processor * 1e3) as u64,
            hash: FNV_BASIS,
            done: MachineCounters::default(),
            #[cfg(test)]
            written: Vec::new(),
        }
    }

    /// Nanoseconds since the machine began.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// A hash of all commands and their times.
    #[cfg(test)]
    pub(crate) fn trace_hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn done(&self) -> MachineCounters {
        let DriveCounts { seeks, hits } = self.drive_counts();
        MachineCounters { seeks, buffer_hits: hits, ..self.done }
    }

    /// The number of background requests in the backlog.
    pub(crate) fn backlog(&self) -> usize {
        self.backlog.len()
    }

    /// The processor works for `ns` nanoseconds.
    pub(crate) fn work(&mut self, ns: u64) {
        self.done.cpu += ns;
        let mut until = self.now + ns + std::mem::take(&mut self.owed);
        loop {
            self.run_until(until);
            if self.owed == 0 {
                break;
            }
            until += std::mem::take(&mut self.owed);
        }
        self.now = until;
    }

    /// Adds processor time of the background, which is paid later.
    pub(crate) fn owe(&mut self, ns: u64) {
        self.done.cpu += ns;
        self.owed += ns;
    }

    fn run_until(&mut self, until: u64) {
        while self.active.front().is_some_and(|a| a.done <= until) {
            self.complete();
        }
    }

    /// Reads and waits.
    pub(crate) fn read(&mut self, extent: Extent) {
        let ids = self.issue(extent, Direction::Read);
        self.wait_for(ids);
    }

    /// Writes and waits.
    pub(crate) fn write_through(&mut self, extent: Extent) {
        let ids = self.issue(extent, Direction::Write);
        self.wait_for(ids);
    }

    /// Writes without waiting, unless too many writes are in flight.
    pub(crate) fn write(&mut self, extent: Extent) {
        for piece in self.pieces(extent) {
            if self.running >= self.high {
                let began = self.now;
                while self.running > self.low && !self.active.is_empty() {
                    self.now = self.complete_only();
                }
                self.waited_since(began);
            }
            self.issue(piece, Direction::Write);
        }
    }

    /// Adds a request of the background to the backlog.
    pub(crate) fn defer(&mut self, extent: Extent, direction: Direction) {
        for extent in self.pieces(extent) {
            self.backlog.push_back(Deferred::Request(Request { extent, direction }));
        }
        self.feed(self.now);
    }

    /// Adds a barrier to the backlog: what is deferred later is written after what is in the
    /// backlog and in flight now.
    pub(crate) fn defer_barrier(&mut self) {
        self.backlog.push_back(Deferred::Barrier);
        self.feed(self.now);
    }

    /// Whether the queue or the drive has a write of a part of `extent`.
    pub(crate) fn is_writing(&self, extent: Extent) -> bool {
        let overlaps = |other: &Extent| other.lba < extent.end() && extent.lba < other.end();
        let active = self.active.iter().any(|a| a.running > 0 && overlaps(&a.extent));
        // A queued request has at most `largest` sectors.
        let first = extent.lba.saturating_sub(self.largest);
        let mut queued = self.queue.range((first, 0)..(extent.end(), 0));
        active || queued.any(|(_, r)| r.direction.is_write() && overlaps(&r.extent))
    }

    /// Waits until the queue and the drive have no write of a part of `extent`.
    pub(crate) fn wait_for_writes(&mut self, extent: Extent) {
        let began = self.now;
        while !self.active.is_empty() && self.is_writing(extent) {
            self.now = self.now.max(self.complete());
        }
        self.waited_since(began);
    }

    /// Waits until the queue and the backlog are empty, and flushes the drive.
    pub(crate) fn flush(&mut self) {
        let began = self.now;
        while !self.active.is_empty() {
            self.now = self.now.max(self.complete());
        }
        self.now = self.drive.flush(self.now);
        self.waited_since(began);
    }

    /// Waits until the backlog has at most `most` requests.
    pub(crate) fn wait_for_backlog(&mut self, most: usize) {
        let began = self.now;
        while self.backlog.len() > most && !self.active.is_empty() {
            self.now = self.complete();
        }
        self.waited_since(began);
    }

    /// Records that a caller waited since `began`. The processor was idle and paid what it owed.
    fn waited_since(&mut self, began: u64) {
        let waited = self.now.saturating_sub(began);
        self.done.waited += waited;
        self.owed = self.owed.saturating_sub(waited);
    }

    fn pieces(&self, extent: Extent) -> impl Iterator<Item = Extent> + use<> {
        let (end, largest) = (extent.end(), self.largest);
        (extent.lba..end)
            .step_by(largest as usize)
            .map(move |lba| Extent { lba, sectors: largest.min(end - lba) })
    }

    /// Queues a request of the running program. Returns the numbers of its pieces.
    fn issue(&mut self, extent: Extent, direction: Direction) -> std::ops::Range<u64> {
        let first = self.next_id;
        for extent in self.pieces(extent) {
            self.work(self.request_cost);
            self.enqueue(Request { extent, direction }, self.now);
        }
        first..self.next_id
    }

    fn enqueue(&mut self, request: Request, at: u64) {
        let id = self.next_id;
        self.next_id += 1;
        if request.direction.is_write() {
            self.running += request.extent.sectors;
        }
        self.queue.insert((request.extent.lba, id), request);
        if self.active.len() < self.commands {
            self.start(at);
        }
    }

    /// Waits until these requests are complete.
    fn wait_for(&mut self, ids: std::ops::Range<u64>) {
        let began = self.now;
        let mut left = ids.end - ids.start;
        // Some may be complete already: they took less time than issuing the next.
        let pending = |e: &Simulator, id: &u64| {
            e.queue.keys().any(|(_, queued)| queued == id)
                || e.active.iter().any(|a| a.ids.contains(id))
        };
        if left > 1 {
            left = ids.clone().filter(|id| pending(self, id)).count() as u64;
        }
        while left > 0
            && let Some(active) = self.active.front()
        {
            left -= active.ids.iter().filter(|id| ids.contains(id)).count() as u64;
            self.now = self.now.max(self.complete());
        }
        self.waited_since(began);
    }

    /// Completes the command of the drive that ends first, and fills the queue from the backlog.
    /// Returns its time.
    fn complete(&mut self) -> u64 {
        let at = self.complete_only();
        self.feed(at);
        at
    }

    /// Completes the command of the drive that ends first; the backlog does not fill the queue.
    /// Returns its time.
    fn complete_only(&mut self) -> u64 {
        let Some(active) = self.active.pop_front() else { return self.now };
        self.running -= active.running;
        self.start(active.done);
        active.done
    }

    /// Moves requests from the backlog to the queue while the writes in flight have space.
    fn feed(&mut self, at: u64) {
        if self.running <= self.low {
            self.feeding = true;
        }
        while self.feeding {
            match self.backlog.front().copied() {
                None => return,
                Some(Deferred::Barrier) if self.is_barred() => return,
                Some(Deferred::Barrier) => self.barrier = None,
                Some(Deferred::Request(request)) => {
                    self.owe(self.request_cost);
                    self.enqueue(request, at);
                    self.feeding = self.running < self.high;
                }
            }
            self.backlog.pop_front();
        }
    }

    /// Whether the barrier at the front of the backlog still has writes to wait for.
    fn is_barred(&mut self) -> bool {
        let before = *self.barrier.get_or_insert(self.next_id);
        let mut queued = self.queue.iter();
        let mut active = self.active.iter().filter(|active| active.running > 0);
        active.any(|active| active.ids.iter().any(|id| *id < before))
            || queued.any(|((_, id), request)| *id < before && request.direction.is_write())
    }

    /// Starts the next command at time `at`, if the queue has one.
    fn start(&mut self, at: u64) {
        let ahead = self.queue.range((self.head, 0)..).next();
        let Some((&key, &request)) = ahead.or_else(|| self.queue.iter().next()) else { return };
        self.queue.remove(&key);
        let mut ids = vec![key.1];
        let mut extent = request.extent;
        // Requests that continue it are merged into one command.
        while let Some((&key, &next)) = self.queue.range((extent.end(), 0)..).next()
            && key.0 == extent.end()
            && next.direction == request.direction
            && extent.sectors + next.extent.sectors <= self.largest
        {
            self.queue.remove(&key);
            ids.push(key.1);
            extent.sectors += next.extent.sectors;
        }
        let done = if request.direction.is_write() {
            self.done.writes += 1;
            self.done.sectors_written += extent.sectors;
            #[cfg(test)]
            self.written.push(extent);
            self.drive.write(at, extent)
        } else {
            self.done.reads += 1;
            self.done.sectors_read += extent.sectors;
            self.drive.read(at, extent)
        };
        self.done.busy += done.saturating_sub(at.max(self.busy_until));
        self.busy_until = self.busy_until.max(done);
        self.head = extent.end();
        for word in [at, extent.lba, extent.sectors, u64::from(request.direction.is_write()), done]
        {
            self.hash = (self.hash ^ word).wrapping_mul(FNV_PRIME);
        }
        let running = if request.direction.is_write() { extent.sectors } else { 0 };
        let after = self.active.partition_point(|a| a.done <= done);
        self.active.insert(after, Active { ids, running, extent, done });
    }

    fn drive_counts(&self) -> DriveCounts {
        DriveCounts { seeks: self.drive.work.seeks, hits: self.drive.work.hits }
    }
}

struct DriveCounts {
    seeks: u64,
    hits: u64,
}
