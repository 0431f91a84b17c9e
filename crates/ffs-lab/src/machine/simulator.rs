//! One processor, one disk, one clock: what happens when.
//!
//! Virtual time goes on when the processor works ([`Simulator::work`]) or somebody waits for the disk. Meanwhile
//! the disk serves what is queued, in an order that goes over it one way and begins anew (C-LOOK), one command
//! at a time.
//!
//! # Invariants
//! 1. Whatever the disk finished before the present moment has been noted; nothing is noted before its time.
//! 2. Requests of the background wait in a backlog until there is room among the writes under way, as the
//!    syncer waits in its kernel; who waits for the disk meanwhile does not wait for them.
//! 3. Processor time of the background is owed, and paid when the processor is idle, or else by who works next.
//! 4. No real time, no random order.
//!
//! Reference: `spec/benchmarks.md` §6.2, §6.6, §6.7.

use std::collections::{BTreeMap, VecDeque};

use super::drive::{Drive, Extent};
use super::preset::Preset;

/// What a machine has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MachineCounters {
    /// Processor time, nanoseconds.
    pub cpu: u64,
    /// Time in which the disk had a command, nanoseconds.
    pub busy: u64,
    /// Commands that read.
    pub reads: u64,
    /// Commands that wrote.
    pub writes: u64,
    /// Sectors read.
    pub sectors_read: u64,
    /// Sectors written.
    pub sectors_written: u64,
    /// Movements of the arm.
    pub seeks: u64,
    /// Reads answered from the drive's buffer.
    pub buffer_hits: u64,
    /// Time somebody waited for the disk, nanoseconds.
    pub waited: u64,
}

/// A request on its way.
#[derive(Debug, Clone, Copy)]
struct Request {
    what: Extent,
    write: bool,
}

/// The command the drive has.
#[derive(Debug)]
struct Active {
    ids: Vec<u64>,
    /// Of writes, sectors.
    running: u64,
    done: u64,
}

/// The machine's state.
#[derive(Debug)]
pub(crate) struct Simulator {
    now: u64,
    drive: Drive,
    /// By sector and number.
    queue: BTreeMap<(u64, u64), Request>,
    active: Option<Active>,
    /// Where the last command ended.
    head: u64,
    next_id: u64,
    /// Sectors of writes in the queue or with the drive.
    running: u64,
    backlog: VecDeque<Request>,
    /// The backlog may feed the queue until `high` is reached.
    feeding: bool,
    owed: u64,
    high: u64,
    low: u64,
    largest: u64,
    request_cost: u64,
    hash: u64,
    done: MachineCounters,
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
            active: None,
            head: 0,
            next_id: 0,
            running: 0,
            backlog: VecDeque::new(),
            feeding: true,
            owed: 0,
            high: sectors(preset.host.running_kb),
            low: sectors(preset.host.running_low_kb),
            largest: sectors(preset.host.request_kb),
            request_cost: (preset.cpu.disk_request * 1e3) as u64,
            hash: FNV_BASIS,
            done: MachineCounters::default(),
        }
    }

    /// Nanoseconds since the machine began.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// A number that two runs share if, and practically only if, the drive did the same at the same times.
    pub(crate) fn trace_hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn done(&self) -> MachineCounters {
        let DriveCounts { seeks, hits } = self.drive_counts();
        MachineCounters { seeks, buffer_hits: hits, ..self.done }
    }

    /// Requests of the background that the queue has no room for yet.
    pub(crate) fn backlog(&self) -> usize {
        self.backlog.len()
    }

    /// Sectors of the whole disk.
    pub(crate) fn sectors(&self) -> u64 {
        self.drive.sectors()
    }

    /// The processor works for so many nanoseconds.
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

    /// The processor has to work for the background, when it can.
    pub(crate) fn owe(&mut self, ns: u64) {
        self.done.cpu += ns;
        self.owed += ns;
    }

    fn run_until(&mut self, until: u64) {
        while self.active.as_ref().is_some_and(|a| a.done <= until) {
            self.complete();
        }
    }

    /// Reads and waits for it.
    pub(crate) fn read(&mut self, what: Extent) {
        let ids = self.issue(what, false);
        self.wait_for(ids);
    }

    /// Writes and waits for it.
    pub(crate) fn write_through(&mut self, what: Extent) {
        let ids = self.issue(what, true);
        self.wait_for(ids);
    }

    /// Writes; waits only if too much is under way.
    pub(crate) fn write(&mut self, what: Extent) {
        for piece in self.pieces(what) {
            if self.running >= self.high {
                let began = self.now;
                while self.running > self.low && self.active.is_some() {
                    self.now = self.complete_only();
                }
                self.waited_since(began);
            }
            self.issue(piece, true);
        }
    }

    /// Reads or writes for the background.
    pub(crate) fn defer(&mut self, what: Extent, write: bool) {
        for what in self.pieces(what) {
            self.backlog.push_back(Request { what, write });
        }
        self.feed(self.now);
    }

    /// Waits until nothing is under way or waits to be.
    pub(crate) fn wait_for_all(&mut self) {
        let began = self.now;
        while self.active.is_some() {
            self.now = self.complete();
        }
        self.waited_since(began);
    }

    /// Waits until the backlog is no longer than `most`.
    pub(crate) fn wait_for_backlog(&mut self, most: usize) {
        let began = self.now;
        while self.backlog.len() > most && self.active.is_some() {
            self.now = self.complete();
        }
        self.waited_since(began);
    }

    /// The processor had nothing else to do since `began`.
    fn waited_since(&mut self, began: u64) {
        let waited = self.now.saturating_sub(began);
        self.done.waited += waited;
        self.owed = self.owed.saturating_sub(waited);
    }

    fn pieces(&self, what: Extent) -> impl Iterator<Item = Extent> + use<> {
        let (end, largest) = (what.end(), self.largest);
        (what.lba..end)
            .step_by(largest as usize)
            .map(move |lba| Extent { lba, sectors: largest.min(end - lba) })
    }

    /// Queues a request of who is running; the numbers of its pieces.
    fn issue(&mut self, what: Extent, write: bool) -> std::ops::Range<u64> {
        let first = self.next_id;
        for what in self.pieces(what) {
            self.work(self.request_cost);
            self.enqueue(Request { what, write }, self.now);
        }
        first..self.next_id
    }

    fn enqueue(&mut self, request: Request, at: u64) {
        let id = self.next_id;
        self.next_id += 1;
        if request.write {
            self.running += request.what.sectors;
        }
        self.queue.insert((request.what.lba, id), request);
        if self.active.is_none() {
            self.start(at);
        }
    }

    /// Waits until these requests are done; the backlog's may wait longer.
    fn wait_for(&mut self, ids: std::ops::Range<u64>) {
        let began = self.now;
        let mut left = ids.end - ids.start;
        // Some may be done already: they took less than the issue of the next.
        let pending = |e: &Simulator, id: &u64| {
            e.queue.keys().any(|(_, queued)| queued == id)
                || e.active.as_ref().is_some_and(|a| a.ids.contains(id))
        };
        if left > 1 {
            left = ids.clone().filter(|id| pending(self, id)).count() as u64;
        }
        while left > 0
            && let Some(active) = &self.active
        {
            left -= active.ids.iter().filter(|id| ids.contains(id)).count() as u64;
            self.now = self.now.max(self.complete());
        }
        self.waited_since(began);
    }

    /// Ends the drive's command; when that was.
    fn complete(&mut self) -> u64 {
        let at = self.complete_only();
        self.feed(at);
        at
    }

    /// As [`Simulator::complete`], without letting the backlog take the room.
    fn complete_only(&mut self) -> u64 {
        let Some(active) = self.active.take() else { return self.now };
        self.running -= active.running;
        self.start(active.done);
        active.done
    }

    /// Lets the backlog fill the room among the writes under way.
    fn feed(&mut self, at: u64) {
        if self.running <= self.low {
            self.feeding = true;
        }
        while self.feeding {
            let Some(request) = self.backlog.pop_front() else { return };
            self.owe(self.request_cost);
            self.enqueue(request, at);
            self.feeding = self.running < self.high;
        }
    }

    /// Gives the drive its next command at time `at`, if there is one.
    fn start(&mut self, at: u64) {
        let ahead = self.queue.range((self.head, 0)..).next();
        let Some((&key, &request)) = ahead.or_else(|| self.queue.iter().next()) else { return };
        self.queue.remove(&key);
        let mut ids = vec![key.1];
        let mut what = request.what;
        // Neighbours the other side of it go with it.
        while let Some((&key, &next)) = self.queue.range((what.end(), 0)..).next()
            && key.0 == what.end()
            && next.write == request.write
            && what.sectors + next.what.sectors <= self.largest
        {
            self.queue.remove(&key);
            ids.push(key.1);
            what.sectors += next.what.sectors;
        }
        let done = if request.write {
            self.done.writes += 1;
            self.done.sectors_written += what.sectors;
            self.drive.write(at, what)
        } else {
            self.done.reads += 1;
            self.done.sectors_read += what.sectors;
            self.drive.read(at, what)
        };
        self.done.busy += done - at;
        self.head = what.end();
        for word in [at, what.lba, what.sectors, u64::from(request.write), done] {
            self.hash = (self.hash ^ word).wrapping_mul(FNV_PRIME);
        }
        let running = if request.write { what.sectors } else { 0 };
        self.active = Some(Active { ids, running, done });
    }

    fn drive_counts(&self) -> DriveCounts {
        DriveCounts { seeks: self.drive.work.seeks, hits: self.drive.work.hits }
    }
}

struct DriveCounts {
    seeks: u64,
    hits: u64,
}
