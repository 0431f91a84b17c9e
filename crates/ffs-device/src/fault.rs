//! A device that injects faults.
//!
//! Tests choose which transfers fail, how, and how often, and read afterwards what happened. The
//! same rules and transfers fail in the same way every time.
//!
//! **Invariants.**
//! 1. An injected fault is reported: the operation returns an error.
//! 2. A failed write writes whole sectors: each has its old or its new content.
//! 3. Rules are evaluated in order, and the first that applies decides. All rules count all
//!    transfers.
//!
//! Unlike other devices this one may let a flush succeed after one that failed, if its rules say
//! so: real disks and kernels do the same, and the layers above must survive it.
//!
//! **Locking.** One lock guards the state of the rules. It is not held during the transfer.

use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;

use crate::clock::{Rng, SplitMix64};
use crate::error::total_len;
use crate::{BlockDevice, DeviceError, Durability, Operation};

/// Error number of a medium that fails.
pub const EIO: i32 = Errno::IO.raw_os_error();
/// Error number of a medium without free space (a sparse file's host, a thin pool).
pub const ENOSPC: i32 = Errno::NOSPC.raw_os_error();

/// The effect of a rule that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is transferred; the operation fails with this error number.
    Errno(i32),
    /// A write writes its first `sectors` sectors and fails with `errno`. Other operations only
    /// fail.
    Short {
        /// Sectors that are written.
        sectors: u64,
        /// Error number.
        errno: i32,
    },
    /// A write writes some of its sectors, chosen by `seed`, and fails with `EIO`. Other operations
    /// only fail.
    Torn {
        /// Selects the sectors that are written.
        seed: u64,
    },
    /// As [`Fault::Torn`]; afterwards every operation fails with `EIO` until
    /// [`FaultInjector::heal`].
    PowerLoss {
        /// Selects the sectors that are written.
        seed: u64,
    },
}

/// Selects the transfers that fail, and how they fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    operation: Operation,
    fault: Fault,
    range: Option<Range<u64>>,
    skip: u64,
    times: Option<u64>,
}

impl Rule {
    /// Every `operation` fails with `fault`, unless the methods below restrict the rule.
    #[must_use]
    pub fn new(operation: Operation, fault: Fault) -> Self {
        Self { operation, fault, range: None, skip: 0, times: None }
    }

    /// Restricts the rule to transfers that touch a byte of `range`.
    #[must_use]
    pub fn within(mut self, range: Range<u64>) -> Self {
        self.range = Some(range);
        self
    }

    /// The first transfer that fails is the `n`th of those selected (from 1).
    #[must_use]
    pub fn nth(mut self, n: u64) -> Self {
        self.skip = n.saturating_sub(1);
        self
    }

    /// The rule ends after `times` failures.
    #[must_use]
    pub fn times(mut self, times: u64) -> Self {
        self.times = Some(times);
        self
    }

    fn concerns(&self, operation: Operation, offset: u64, len: u64) -> bool {
        self.operation == operation
            && self
                .range
                .as_ref()
                .is_none_or(|range| offset < range.end && offset.saturating_add(len) > range.start)
    }

    /// Counts a selected transfer. Returns whether the rule applies to it.
    fn strikes(&mut self) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        match &mut self.times {
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
            None => true,
        }
    }
}

/// The operations of an injector so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultCounts {
    /// Reads attempted.
    pub reads: u64,
    /// Writes attempted.
    pub writes: u64,
    /// Flushes attempted.
    pub flushes: u64,
    /// Discards attempted.
    pub discards: u64,
    /// Injected failures.
    pub injected: u64,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    counts: FaultCounts,
    dead: bool,
}

/// Wraps a device and makes transfers fail by rules.
#[derive(Debug)]
pub struct FaultInjector<D> {
    inner: D,
    name: Arc<str>,
    state: Mutex<State>,
}

impl<D: BlockDevice> FaultInjector<D> {
    /// Makes transfers to `inner` fail according to `rules`.
    pub fn new(inner: D, rules: Vec<Rule>) -> Self {
        let state = State { rules, ..State::default() };
        Self { inner, name: Arc::from("fault injector"), state: Mutex::new(state) }
    }

    /// The inner device, without faults.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Adds a rule. It counts transfers from now on.
    pub fn add(&self, rule: Rule) {
        self.state().rules.push(rule);
    }

    /// Removes all rules and ends a loss of power. Lost writes stay lost.
    pub fn heal(&self) {
        let mut state = self.state();
        state.rules.clear();
        state.dead = false;
    }

    /// The operations so far.
    pub fn counts(&self) -> FaultCounts {
        self.state().counts
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts the operation. Returns the fault to inject, if any.
    fn judge(&self, operation: Operation, offset: u64, len: u64) -> Option<Fault> {
        let mut state = self.state();
        let counts = &mut state.counts;
        match operation {
            Operation::Read => counts.reads += 1,
            Operation::Write => counts.writes += 1,
            Operation::Flush => counts.flushes += 1,
            Operation::Discard => counts.discards += 1,
            Operation::Open | Operation::Resize => {}
        }
        let mut fault = state.dead.then_some(Fault::Errno(EIO));
        for rule in state.rules.iter_mut().filter(|rule| rule.concerns(operation, offset, len)) {
            if fault.is_none() && rule.strikes() {
                fault = Some(rule.fault);
            } else if fault.is_some() {
                // The rule counts the transfer although another rule decided.
                rule.skip = rule.skip.saturating_sub(1);
            }
        }
        state.counts.injected += u64::from(fault.is_some());
        state.dead |= matches!(fault, Some(Fault::PowerLoss { .. }));
        fault
    }

    fn pass_or_fail(&self, operation: Operation, offset: u64, len: u64) -> Result<(), DeviceError> {
        match self.judge(operation, offset, len) {
            None => Ok(()),
            Some(fault) => Err(self.failure(fault, operation, offset, len)),
        }
    }

    fn failure(&self, fault: Fault, operation: Operation, offset: u64, len: u64) -> DeviceError {
        let errno = match fault {
            Fault::Errno(errno) | Fault::Short { errno, .. } => errno,
            Fault::Torn { .. } | Fault::PowerLoss { .. } => EIO,
        };
        DeviceError::at(&self.name, operation, offset, len, io::Error::from_raw_os_error(errno))
    }

    fn write_faulty(&self, fault: Fault, offset: u64, bytes: &[u8]) -> DeviceError {
        let mut keep: Box<dyn FnMut(u64) -> bool> = match fault {
            Fault::Errno(_) => Box::new(|_| false),
            Fault::Short { sectors, .. } => Box::new(move |sector| sector < sectors),
            Fault::Torn { seed } | Fault::PowerLoss { seed } => {
                let rng = SplitMix64::new(seed);
                Box::new(move |_| rng.below(2) == 1)
            }
        };
        let sector = u64::from(self.inner.sector_size());
        let mut rest = bytes;
        let mut at = offset;
        for index in 0u64.. {
            if rest.is_empty() {
                break;
            }
            let in_sector = usize::try_from(sector - at % sector).unwrap_or(usize::MAX);
            let (piece, tail) = rest.split_at(in_sector.min(rest.len()));
            if keep(index)
                && let Err(error) = self.inner.write_at(at, piece)
            {
                return error;
            }
            at = at.saturating_add(piece.len() as u64);
            rest = tail;
        }
        self.failure(fault, Operation::Write, offset, bytes.len() as u64)
    }
}

impl<D: BlockDevice> BlockDevice for FaultInjector<D> {
    crate::as_inner!(
        len_bytes -> u64, sector_size -> u32, durability -> Durability, is_read_only -> bool
    );

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.pass_or_fail(Operation::Read, offset, buf.len() as u64)?;
        self.inner.read_at(offset, buf)
    }

    fn read_vectored_at(
        &self,
        offset: u64,
        bufs: &mut [IoSliceMut<'_>],
    ) -> Result<(), DeviceError> {
        let len = total_len(bufs.iter().map(|buf| buf.len()));
        self.pass_or_fail(Operation::Read, offset, len)?;
        self.inner.read_vectored_at(offset, bufs)
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        match self.judge(Operation::Write, offset, buf.len() as u64) {
            None => self.inner.write_at(offset, buf),
            Some(fault) => Err(self.write_faulty(fault, offset, buf)),
        }
    }

    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<(), DeviceError> {
        let len = total_len(bufs.iter().map(|buf| buf.len()));
        match self.judge(Operation::Write, offset, len) {
            None => self.inner.write_vectored_at(offset, bufs),
            Some(fault) => {
                let whole: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
                Err(self.write_faulty(fault, offset, &whole))
            }
        }
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.pass_or_fail(Operation::Flush, 0, 0)?;
        self.inner.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.pass_or_fail(Operation::Discard, offset, len)?;
        self.inner.discard(offset, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemDevice;

    fn injector(rules: Vec<Rule>) -> FaultInjector<MemDevice> {
        FaultInjector::new(MemDevice::new(1 << 20), rules)
    }

    #[test]
    fn the_nth_fails_and_then_it_heals() {
        let device = injector(vec![Rule::new(Operation::Read, Fault::Errno(EIO)).nth(3).times(2)]);
        let read = || device.read_at(0, &mut [0; 4]).map_err(|error| error.errno());
        let seen: Vec<_> = (0..6).map(|_| read()).collect();
        assert_eq!(seen, [Ok(()), Ok(()), Err(EIO), Err(EIO), Ok(()), Ok(())]);
        assert_eq!(
            device.counts(),
            FaultCounts { reads: 6, injected: 2, ..FaultCounts::default() }
        );
        device.write_at(0, b"x").unwrap();
    }

    #[test]
    fn a_bad_range_stays_bad() {
        let bad = Rule::new(Operation::Write, Fault::Errno(ENOSPC)).within(4096..8192);
        let device = injector(vec![bad]);
        device.write_at(0, &[1; 4096]).unwrap();
        device.write_at(8192, &[1; 10]).unwrap();
        for offset in [4095, 4096, 8191, 4000] {
            assert_eq!(device.write_at(offset, &[1; 200]).unwrap_err().errno(), ENOSPC);
        }
        device.heal();
        device.write_at(4096, &[1; 200]).unwrap();
    }

    #[test]
    fn a_short_write_leaves_its_first_sectors() {
        let short = Fault::Short { sectors: 2, errno: ENOSPC };
        let device = injector(vec![Rule::new(Operation::Write, short).times(1)]);
        // Starts 12 bytes before a sector boundary: the first "sector" that is written is those 12
        // bytes.
        let parts = [[7u8; 1000], [8; 1000]];
        let error =
            device.write_vectored_at(500, &[IoSlice::new(&parts[0]), IoSlice::new(&parts[1])]);
        assert_eq!(error.unwrap_err().errno(), ENOSPC);
        let now = device.inner().to_vec();
        assert_eq!(now[500..1024], [7; 524]);
        assert!(now[1024..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn a_torn_write_leaves_whole_sectors_the_same_each_time() {
        let torn = |seed| {
            let device = injector(vec![Rule::new(Operation::Write, Fault::Torn { seed })]);
            assert_eq!(device.write_at(512, &[9; 64 * 512]).unwrap_err().errno(), EIO);
            device.inner().to_vec()
        };
        let once = torn(5);
        assert_eq!(once, torn(5));
        assert_ne!(once, torn(6));
        let sectors: Vec<bool> = once.chunks(512).map(|sector| sector[0] == 9).collect();
        assert!(once.chunks(512).all(|sector| sector.iter().all(|&byte| byte == sector[0])));
        assert!(sectors[1..65].contains(&true) && sectors[1..65].contains(&false));
        assert!(!sectors[0] && !sectors[65]);
    }

    #[test]
    fn after_a_loss_of_power_every_operation_fails_until_healed() {
        let device =
            injector(vec![Rule::new(Operation::Write, Fault::PowerLoss { seed: 1 }).nth(2)]);
        device.write_at(0, b"kept").unwrap();
        assert!(device.write_at(4096, b"off").is_err());
        assert_eq!(device.read_at(0, &mut [0; 1]).unwrap_err().errno(), EIO);
        assert!(device.flush().is_err());
        assert!(device.write_at(0, b"lost").is_err());
        device.heal();
        let mut buf = [0; 4];
        device.read_at(0, &mut buf).unwrap();
        assert_eq!(&buf, b"kept");
    }

    #[test]
    fn rules_count_all_transfers_and_the_first_decides() {
        let first = Rule::new(Operation::Flush, Fault::Errno(EIO)).nth(1).times(1);
        let second = Rule::new(Operation::Flush, Fault::Errno(ENOSPC)).nth(3).times(1);
        let device = injector(vec![first, second]);
        let seen: Vec<_> = (0..4).map(|_| device.flush().map_err(|error| error.errno())).collect();
        assert_eq!(seen, [Err(EIO), Ok(()), Err(ENOSPC), Ok(())]);
    }
}
