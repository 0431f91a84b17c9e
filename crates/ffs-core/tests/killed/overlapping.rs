//! The load in this process, on a slow device: many writes are in flight at once.
//!
//! A kill leaves none of a write in flight, all of it or a part, independently of the others.
//! [`recorded`] examines only whole writes in one order. Here each write and each flush is logged
//! where it begins and where it ends, and waits for other threads in between. A state is examined
//! after each begin of a write, each flush, and each operation that returned: the writes that have
//! ended, and some sectors of those in flight. A kill leaves the first sectors of a write; any
//! others stand for a write that a drive tore.
//!
//! One state in three is that of a drive that lost its power. It also lacks sectors of writes that
//! have ended, if no flush that began after their end has returned.
//!
//! [`recorded`]: crate::recorded

use crate::child::run_here;
use crate::{Reports, Round, Tally};
use ffs_device::{BlockDevice, DeviceError, Durability, MemDevice};
use ffs_testkit::rng::SplitMix64;
use std::io::IoSlice;
use std::sync::{Arc, Mutex};

/// Most operations of a run.
const MOST_OPERATIONS: u64 = 240;
/// Most states examined of a run.
const MOST_STATES: u64 = 400;
/// The unit that reaches the image whole, bytes.
const SECTOR: usize = 512;
/// Most events of other threads for which a write waits.
const MOST_EVENTS: u64 = 12;
/// Most times that it yields to other threads meanwhile.
const MOST_YIELDS: u32 = 200;

/// Runs on `image` and checks states. Returns one of them.
pub(crate) fn run(
    image: &MemDevice,
    round: &Round,
    rng: &mut SplitMix64,
    tally: &mut Tally,
) -> MemDevice {
    let events = record(image, round, 1 + rng.below(MOST_OPERATIONS), rng.next_u64());
    let points = events.iter().filter(|event| event.is_point()).count() as u64;
    let (stride, chosen) = (points.div_ceil(MOST_STATES).max(1), 1 + rng.below(points.max(1)));
    let mut replay = Replay::new(image);
    let (mut reports, mut point) = (Reports::default(), 0);
    let mut left = image.snapshot();
    for (at, event) in (0..).zip(&events) {
        match event {
            Event::Begin(write) => replay.begin(write, round),
            Event::End(number) => replay.end(*number, at, Reached::Cache),
            Event::EndDurable(number) => replay.end(*number, at, Reached::Medium),
            Event::FlushBegin => {}
            Event::FlushEnd(number) => replay.flushed(*number),
            Event::Mark(report) => reports.add(*report),
        }
        if !event.is_point() {
            continue;
        }
        let (state, loses) = match rng.below(3) {
            0 => (replay.state_after_power_loss(rng), true),
            1 => (replay.state_with_some(rng), false),
            _ => (replay.state_with_last(matches!(event, Event::Begin(_))), false),
        };
        point += 1;
        if point % stride == 0 {
            let (writes, unflushed) = (replay.in_flight.len(), replay.unflushed.len());
            let kind = if loses { "power loss" } else { "kill" };
            let place = format_args!(
                "point {point} of {points}, {kind}, {writes} writes in flight, {unflushed} ended \
                 without a flush"
            );
            round.check(&state, &reports, place, tally);
            tally.in_flight = tally.in_flight.max(writes);
            tally.power_losses += u64::from(loses);
        }
        if point == chosen {
            left = state;
        }
    }
    tally.operations += reports.operations();
    left
}

/// Where a write is that has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reached {
    /// In the volatile cache of the drive.
    Cache,
    Medium,
}

/// The image and its writes at a point of a run.
struct Replay<'e> {
    /// With the writes that a flush has made durable.
    durable: MemDevice,
    /// With all writes that have ended.
    ended: MemDevice,
    /// The other writes that have ended, in the order in which they ended, each with the number of
    /// that event. A durable write is among them, because it may replace sectors of an older one.
    unflushed: Vec<(u64, &'e Write, Reached)>,
    /// The writes that have not ended, in the order in which they began.
    in_flight: Vec<&'e Write>,
}

impl<'e> Replay<'e> {
    fn new(image: &MemDevice) -> Replay<'e> {
        let (durable, ended) = (image.snapshot(), image.snapshot());
        Replay { durable, ended, unflushed: Vec::new(), in_flight: Vec::new() }
    }

    fn begin(&mut self, write: &'e Write, round: &Round) {
        let other = self.in_flight.iter().find(|other| other.overlaps(write));
        assert!(other.is_none(), "{}: two writes of byte {}", round.what, write.offset);
        self.in_flight.push(write);
    }

    /// The write with this number ended with the event `at`.
    fn end(&mut self, number: u64, at: u64, reached: Reached) {
        let place = self.in_flight.iter().position(|write| write.number == number).unwrap();
        let write = self.in_flight.remove(place);
        write.apply(&self.ended);
        self.unflushed.push((at, write, reached));
    }

    /// A flush that began with the event `began` has returned.
    fn flushed(&mut self, began: u64) {
        let covered = self.unflushed.partition_point(|(ended, ..)| *ended < began);
        self.unflushed.drain(..covered).for_each(|(_, write, _)| write.apply(&self.durable));
    }

    /// After a kill: some sectors of the writes in flight.
    fn state_with_some(&self, rng: &mut SplitMix64) -> MemDevice {
        let state = self.ended.snapshot();
        self.in_flight.iter().for_each(|write| write.apply_some(&state, rng));
        state
    }

    /// After a kill: of the writes in flight only the one that has just `begun`.
    fn state_with_last(&self, begun: bool) -> MemDevice {
        let state = self.ended.snapshot();
        if begun && let Some(write) = self.in_flight.last() {
            write.apply(&state);
        }
        state
    }

    /// Of the writes that are not durable: some sectors, all but one, only one, or the last ones.
    fn state_after_power_loss(&self, rng: &mut SplitMix64) -> MemDevice {
        let state = self.durable.snapshot();
        let ended = self.unflushed.iter().map(|(_, write, reached)| (*write, *reached));
        let begun = self.in_flight.iter().map(|write| (*write, Reached::Cache));
        let writes: Vec<(&Write, Reached)> = ended.chain(begun).collect();
        let (way, chosen) = (rng.below(4), rng.below(writes.len() as u64) as usize);
        for (n, (write, reached)) in writes.into_iter().enumerate() {
            let is_kept = match way {
                _ if reached == Reached::Medium => true,
                0 => {
                    write.apply_some(&state, rng);
                    continue;
                }
                1 => n != chosen,
                2 => n == chosen,
                _ => n >= chosen,
            };
            if is_kept {
                write.apply(&state);
            }
        }
        state
    }
}

/// Records a run. `seed` decides how long each write takes.
fn record(image: &MemDevice, round: &Round, operations: u64, seed: u64) -> Vec<Event> {
    let inner = image.snapshot().with_durability(Durability::OnFlush);
    let device = Arc::new(SlowDevice { inner, log: Mutex::default(), seed });
    run_here(device.clone(), round, operations, &|what| _ = device.log(|_| Event::Mark(what)));
    std::mem::take(&mut *device.log.lock().unwrap())
}

/// What happened, in the order of time.
enum Event {
    Begin(Write),
    /// The end of the write with this number.
    End(u64),
    /// The end of the write with this number, which is durable.
    EndDurable(u64),
    FlushBegin,
    /// The end of the flush with this number.
    FlushEnd(u64),
    /// A report of the load.
    Mark(u8),
}

impl Event {
    /// Whether a state is examined after it.
    fn is_point(&self) -> bool {
        matches!(self, Event::Begin(_) | Event::FlushEnd(_) | Event::Mark(_))
    }
}

/// A write.
struct Write {
    number: u64,
    offset: u64,
    bytes: Vec<u8>,
}

impl Write {
    fn overlaps(&self, other: &Write) -> bool {
        let end = |write: &Write| write.offset + write.bytes.len() as u64;
        self.offset < end(other) && other.offset < end(self)
    }

    fn apply(&self, device: &MemDevice) {
        device.write_at(self.offset, &self.bytes).unwrap();
    }

    /// Writes all sectors, none, the first ones, or each with a chance of one half.
    fn apply_some(&self, device: &MemDevice, rng: &mut SplitMix64) {
        let way = rng.below(4);
        let first = rng.below(1 + self.bytes.len().div_ceil(SECTOR) as u64) as usize;
        for (n, sector) in self.bytes.chunks(SECTOR).enumerate() {
            let is_written = match way {
                0 => true,
                1 => false,
                2 => n < first,
                _ => rng.one_in(2),
            };
            if is_written {
                device.write_at(self.offset + (n * SECTOR) as u64, sector).unwrap();
            }
        }
    }
}

/// A device whose writes and flushes wait for other threads.
struct SlowDevice {
    inner: MemDevice,
    log: Mutex<Vec<Event>>,
    seed: u64,
}

impl SlowDevice {
    /// Logs the event that `make` makes of its number. Returns the number.
    fn log(&self, make: impl FnOnce(u64) -> Event) -> u64 {
        let mut log = self.log.lock().unwrap();
        let number = log.len() as u64;
        log.push(make(number));
        number
    }

    fn events(&self) -> u64 {
        self.log.lock().unwrap().len() as u64
    }

    /// Writes, and logs the begin and the `end`.
    fn put(
        &self,
        offset: u64,
        parts: &[IoSlice<'_>],
        end: impl FnOnce(u64) -> Event,
    ) -> Result<(), DeviceError> {
        let bytes = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let number = self.log(|number| Event::Begin(Write { number, offset, bytes }));
        self.wait(number);
        self.inner.write_vectored_at(offset, parts)?;
        self.log(|_| end(number));
        Ok(())
    }

    /// With a chance of one half, waits until other threads have logged some events since event
    /// `number`, or have had many chances to.
    fn wait(&self, number: u64) {
        let rng = &mut SplitMix64::new(self.seed ^ number);
        let awaited = if rng.one_in(2) { 0 } else { number + 2 + rng.below(MOST_EVENTS) };
        for _ in 0..MOST_YIELDS {
            if self.events() >= awaited {
                return;
            }
            std::thread::yield_now();
        }
    }
}

impl BlockDevice for SlowDevice {
    fn len_bytes(&self) -> u64 {
        self.inner.len_bytes()
    }
    fn sector_size(&self) -> u32 {
        self.inner.sector_size()
    }
    fn durability(&self) -> Durability {
        self.inner.durability()
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.inner.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.write_vectored_at(offset, &[IoSlice::new(bytes)])
    }
    fn write_vectored_at(&self, offset: u64, parts: &[IoSlice<'_>]) -> Result<(), DeviceError> {
        self.put(offset, parts, Event::End)
    }
    fn write_durable_vectored_at(
        &self,
        offset: u64,
        parts: &[IoSlice<'_>],
    ) -> Result<(), DeviceError> {
        self.put(offset, parts, Event::EndDurable)
    }
    fn flush(&self) -> Result<(), DeviceError> {
        let number = self.log(|_| Event::FlushBegin);
        self.wait(number);
        self.inner.flush()?;
        self.log(|_| Event::FlushEnd(number));
        Ok(())
    }
}
