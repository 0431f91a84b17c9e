//! A device that records the operations on it.
//!
//! Counts transfers for `stat` and for tests of the I/O cost of an operation. Keeps the writes and
//! flushes, with their bytes, so that crash experiments can rebuild every possible state of the
//! medium. Computes one hash of all transfers, so that two runs can be compared.
//!
//! **Invariants.**
//! 1. In a log, `seq` increases by one from 0. A write precedes a flush only if it completed before
//!    the flush began.
//! 2. Replaying a log onto a copy of the initial device gives the present device, unless an entry
//!    [`Event::Failed`] leaves the effect of a failed write open.
//!
//! **Locking.** While it keeps a log or a hash, the recorder makes one change at a time, under its
//! own lock, so that the order of the log is the order on the medium. While it only counts it takes
//! no lock.

use std::io::{IoSlice, IoSliceMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::total_len;
use crate::{BlockDevice, DeviceError, Durability, Operation};

/// What a [`Recorder`] records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Counters only.
    Count,
    /// Counters, and the hash of all transfers in their order.
    Hash,
    /// Counters, hash, and every change with its bytes.
    Log,
}

/// An operation on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A write completed.
    Write {
        /// Position in the log.
        seq: u64,
        /// First byte.
        offset: u64,
        /// The bytes written.
        bytes: Arc<[u8]>,
    },
    /// A flush completed: all writes before it are durable.
    Flush {
        /// Position in the log.
        seq: u64,
    },
    /// A range was discarded.
    Discard {
        /// Position in the log.
        seq: u64,
        /// First byte.
        offset: u64,
        /// Length, bytes.
        len: u64,
    },
    /// A label from the user of the recorder.
    Mark {
        /// Position in the log.
        seq: u64,
        /// The label.
        label: String,
    },
    /// A write, flush or discard failed; a write may have written some of its bytes.
    Failed {
        /// Position in the log.
        seq: u64,
        /// The operation.
        operation: Operation,
        /// First byte.
        offset: u64,
        /// Length, bytes.
        len: u64,
        /// Error number.
        errno: i32,
    },
}

/// Transfers so far. A vectored transfer counts as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Reads attempted.
    pub reads: u64,
    /// Bytes in them.
    pub read_bytes: u64,
    /// Writes attempted.
    pub writes: u64,
    /// Bytes in them.
    pub written_bytes: u64,
    /// Flushes attempted.
    pub flushes: u64,
    /// Discards attempted.
    pub discards: u64,
    /// Failures of all kinds.
    pub errors: u64,
}

#[derive(Debug, Default)]
struct AtomicCounters {
    reads: AtomicU64,
    read_bytes: AtomicU64,
    writes: AtomicU64,
    written_bytes: AtomicU64,
    flushes: AtomicU64,
    discards: AtomicU64,
    errors: AtomicU64,
}

#[derive(Debug)]
struct Log {
    events: Vec<Event>,
    next_seq: u64,
    hash: Fnv,
}

/// Wraps a device and records the operations on it.
#[derive(Debug)]
pub struct Recorder<D> {
    inner: D,
    level: Level,
    counters: AtomicCounters,
    log: Mutex<Log>,
}

impl<D: BlockDevice> Recorder<D> {
    /// Records all operations on `inner` from now on.
    pub fn new(inner: D) -> Self {
        Self::with_level(inner, Level::Log)
    }

    /// Records what `level` selects.
    pub fn with_level(inner: D, level: Level) -> Self {
        let log = Mutex::new(Log { events: Vec::new(), next_seq: 0, hash: Fnv::new() });
        Self { inner, level, counters: AtomicCounters::default(), log }
    }

    /// The inner device.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Transfers so far.
    pub fn counters(&self) -> Counters {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let all = &self.counters;
        Counters {
            reads: get(&all.reads),
            read_bytes: get(&all.read_bytes),
            writes: get(&all.writes),
            written_bytes: get(&all.written_bytes),
            flushes: get(&all.flushes),
            discards: get(&all.discards),
            errors: get(&all.errors),
        }
    }

    /// A copy of the log; empty below [`Level::Log`]. The bytes are shared, not copied.
    pub fn events(&self) -> Vec<Event> {
        self.log().events.clone()
    }

    /// Returns the log and empties it. Sequence numbers continue.
    pub fn take_events(&self) -> Vec<Event> {
        std::mem::take(&mut self.log().events)
    }

    /// Events logged so far, including those taken: the `seq` of the next one.
    pub fn logged(&self) -> u64 {
        self.log().next_seq
    }

    /// Adds `label` to the log.
    pub fn mark(&self, label: impl Into<String>) {
        if self.level == Level::Log {
            let label = label.into();
            self.log().push(|seq| Event::Mark { seq, label });
        }
    }

    /// A hash of all transfers, their bytes and their order, without labels. Constant at
    /// [`Level::Count`].
    pub fn trace_hash(&self) -> u64 {
        self.log().hash.0
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, operation: Operation, len: u64) {
        let add = |counter: &AtomicU64, n| {
            counter.fetch_add(n, Ordering::Relaxed);
        };
        let all = &self.counters;
        match operation {
            Operation::Read => {
                add(&all.reads, 1);
                add(&all.read_bytes, len);
            }
            Operation::Write => {
                add(&all.writes, 1);
                add(&all.written_bytes, len);
            }
            Operation::Flush => add(&all.flushes, 1),
            Operation::Discard => add(&all.discards, 1),
            Operation::Open | Operation::Resize => {}
        }
    }

    /// Counts, makes and records one change. `bytes` returns the bytes written, for hash and log.
    fn change(
        &self,
        operation: Operation,
        offset: u64,
        len: u64,
        bytes: &[IoSlice<'_>],
        act: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        self.count(operation, len);
        if self.level == Level::Count {
            return act().inspect_err(|_| self.count_error());
        }
        let mut log = self.log();
        let result = act();
        log.hash.transfer(operation, offset, len);
        for part in bytes {
            log.hash.bytes(part);
        }
        if let Err(error) = &result {
            self.count_error();
            log.hash.number(error.errno().unsigned_abs().into());
        }
        if self.level == Level::Log {
            let errno = result.as_ref().err().map(DeviceError::errno);
            log.push(|seq| match (operation, errno) {
                (_, Some(errno)) => Event::Failed { seq, operation, offset, len, errno },
                (Operation::Write, None) => Event::Write { seq, offset, bytes: concat(bytes, len) },
                (Operation::Discard, None) => Event::Discard { seq, offset, len },
                _ => Event::Flush { seq },
            });
        }
        result
    }

    fn read(
        &self,
        offset: u64,
        len: u64,
        act: impl FnOnce() -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        self.count(Operation::Read, len);
        if self.level != Level::Count {
            self.log().hash.transfer(Operation::Read, offset, len);
        }
        act().inspect_err(|_| self.count_error())
    }

    fn count_error(&self) {
        self.counters.errors.fetch_add(1, Ordering::Relaxed);
    }
}

impl Log {
    fn push(&mut self, event: impl FnOnce(u64) -> Event) {
        self.events.push(event(self.next_seq));
        self.next_seq += 1;
    }
}

fn concat(parts: &[IoSlice<'_>], len: u64) -> Arc<[u8]> {
    let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
    for part in parts {
        bytes.extend_from_slice(part);
    }
    bytes.into()
}

/// Makes the changes of `events` on `device`; failed operations and labels change nothing.
///
/// # Errors
/// The device's.
pub fn replay<'a>(
    events: impl IntoIterator<Item = &'a Event>,
    device: &dyn BlockDevice,
) -> Result<(), DeviceError> {
    for event in events {
        match event {
            Event::Write { offset, bytes, .. } => device.write_at(*offset, bytes)?,
            Event::Flush { .. } => device.flush()?,
            Event::Discard { offset, len, .. } => device.discard(*offset, *len)?,
            Event::Mark { .. } | Event::Failed { .. } => {}
        }
    }
    Ok(())
}

/// Fowler, Noll and Vo's hash (FNV-1a, 64 bits): simple, and the same on every machine.
#[derive(Debug, Clone, Copy)]
struct Fnv(u64);

impl Fnv {
    fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    fn transfer(&mut self, operation: Operation, offset: u64, len: u64) {
        self.bytes(&[operation as u8]);
        self.number(offset);
        self.number(len);
    }
}

impl<D: BlockDevice> BlockDevice for Recorder<D> {
    crate::as_inner!(
        len_bytes -> u64, sector_size -> u32, durability -> Durability, is_read_only -> bool
    );

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.read(offset, buf.len() as u64, || self.inner.read_at(offset, buf))
    }

    fn read_vectored_at(
        &self,
        offset: u64,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Result<(), DeviceError> {
        let len = total_len(bufs.iter().map(|buf| buf.len()));
        self.read(offset, len, || self.inner.read_vectored_at(offset, bufs))
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        let parts = [IoSlice::new(buf)];
        let len = buf.len() as u64;
        self.change(Operation::Write, offset, len, &parts, || self.inner.write_at(offset, buf))
    }

    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<(), DeviceError> {
        let len = total_len(bufs.iter().map(|buf| buf.len()));
        self.change(Operation::Write, offset, len, bufs, || {
            self.inner.write_vectored_at(offset, bufs)
        })
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.change(Operation::Flush, 0, 0, &[], || self.inner.flush())
    }

    fn is_hole(&self, offset: u64, len: u64) -> bool {
        self.inner.is_hole(offset, len)
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.change(Operation::Discard, offset, len, &[], || self.inner.discard(offset, len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemDevice;
    use ffs_testkit::rng::SplitMix64;

    #[test]
    fn counts_and_logs_in_order() {
        let recorder = Recorder::new(MemDevice::new(8192));
        recorder.write_at(0, b"one").unwrap();
        recorder.mark("between");
        recorder.write_vectored_at(100, &[IoSlice::new(b"tw"), IoSlice::new(b"o")]).unwrap();
        recorder.flush().unwrap();
        recorder.discard(4096, 512).unwrap();
        recorder.read_at(0, &mut [0; 10]).unwrap();
        assert!(recorder.write_at(8191, b"xy").is_err());
        let events = recorder.take_events();
        let want = [
            Event::Write { seq: 0, offset: 0, bytes: Arc::from(*b"one") },
            Event::Mark { seq: 1, label: "between".into() },
            Event::Write { seq: 2, offset: 100, bytes: Arc::from(*b"two") },
            Event::Flush { seq: 3 },
            Event::Discard { seq: 4, offset: 4096, len: 512 },
            Event::Failed { seq: 5, operation: Operation::Write, offset: 8191, len: 2, errno: 22 },
        ];
        assert_eq!(events, want);
        let counters = recorder.counters();
        assert_eq!((counters.writes, counters.written_bytes), (3, 8));
        assert_eq!((counters.reads, counters.read_bytes), (1, 10));
        assert_eq!((counters.flushes, counters.discards, counters.errors), (1, 1, 1));
        assert!(recorder.events().is_empty());
        assert_eq!(recorder.logged(), 6);
        recorder.flush().unwrap();
        assert_eq!(recorder.events(), [Event::Flush { seq: 6 }]);
    }

    #[test]
    fn a_replayed_log_gives_the_same_device() {
        let seed = 77;
        println!("seed {seed}");
        let mut rng = SplitMix64::new(seed);
        let start = MemDevice::from_bytes(&rng.bytes(200_000));
        let recorder = Recorder::new(start.snapshot());
        for _ in 0..200 {
            let len = rng.below(3000);
            let offset = rng.below(200_000 - len);
            match rng.below(10) {
                0 => recorder.discard(offset, len).unwrap(),
                1 => recorder.flush().unwrap(),
                _ => recorder.write_at(offset, &rng.bytes(len as usize)).unwrap(),
            }
        }
        replay(&recorder.events(), &start).unwrap();
        assert_eq!(start.to_vec(), recorder.inner().to_vec());
    }

    #[test]
    fn the_hash_distinguishes_runs() {
        let run = |level, bytes: &[u8], read_at| {
            let recorder = Recorder::with_level(MemDevice::new(4096), level);
            recorder.write_at(1, bytes).unwrap();
            recorder.read_at(read_at, &mut [0; 1]).unwrap();
            assert_eq!(recorder.events().is_empty(), level != Level::Log);
            recorder.trace_hash()
        };
        assert_eq!(run(Level::Log, b"ab", 0), run(Level::Hash, b"ab", 0));
        assert_ne!(run(Level::Log, b"ab", 0), run(Level::Log, b"ac", 0));
        assert_ne!(run(Level::Log, b"ab", 0), run(Level::Log, b"ab", 1));
        assert_eq!(run(Level::Count, b"ab", 0), run(Level::Count, b"xy", 1));
    }
}
