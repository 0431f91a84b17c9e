//! A device in memory.
//!
//! For tests, the simulated machine and crash experiments, which create, copy and drop many
//! devices, up to the largest sizes that the format allows.
//!
//! **Invariants.**
//! 1. An absent chunk reads as zeros. Only chunks with other content take memory.
//! 2. A snapshot and its origin share chunks, but writes to one are invisible to the other.
//!
//! **Locking.** One reader-writer lock on the chunk map, held only while bytes are copied.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use crate::error::{check_range, check_writable};
use crate::{BlockDevice, DeviceError, Durability, Operation};

const CHUNK: usize = 32 * 1024;
const CHUNK_BYTES: u64 = CHUNK as u64;

type Chunks = BTreeMap<u64, Arc<[u8; CHUNK]>>;

/// A sparse device in memory.
#[derive(Debug)]
pub struct MemDevice {
    name: Arc<str>,
    len: u64,
    sector_size: u32,
    durability: Durability,
    read_only: bool,
    chunks: RwLock<Chunks>,
}

impl MemDevice {
    /// A writable device of `len` zero bytes with 512-byte sectors, whose writes are durable when
    /// they complete.
    #[must_use]
    pub fn new(len: u64) -> Self {
        Self {
            name: Arc::from("memory"),
            len,
            sector_size: 512,
            durability: Durability::OnCompletion,
            read_only: false,
            chunks: RwLock::new(BTreeMap::new()),
        }
    }

    /// A device with a copy of `bytes`.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let device = Self::new(bytes.len() as u64);
        device.store(0, bytes);
        device
    }

    /// The same device with sectors of `bytes` bytes (512 or 4096).
    #[must_use]
    pub fn with_sector_size(mut self, bytes: u32) -> Self {
        debug_assert!(bytes == 512 || bytes == 4096);
        self.sector_size = bytes;
        self
    }

    /// The same device with another [`BlockDevice::durability`].
    #[must_use]
    pub fn with_durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// The same device under another name in its error messages.
    #[must_use]
    pub fn with_name(mut self, name: &str) -> Self {
        self.name = Arc::from(name);
        self
    }

    /// The same device, read-only from now on.
    #[must_use]
    pub fn into_read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// An independent device with the present content; the two share memory until one of them
    /// changes.
    #[must_use]
    pub fn snapshot(&self) -> Self {
        let chunks = self.chunks.read().unwrap_or_else(PoisonError::into_inner).clone();
        Self {
            name: Arc::clone(&self.name),
            len: self.len,
            sector_size: self.sector_size,
            durability: self.durability,
            read_only: self.read_only,
            chunks: RwLock::new(chunks),
        }
    }

    /// Memory in use for content, bytes.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        self.chunks.read().unwrap_or_else(PoisonError::into_inner).len() as u64 * CHUNK_BYTES
    }

    /// The whole content. Only for devices that fit in memory.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(self.len).unwrap_or(usize::MAX)];
        self.load(0, &mut bytes);
        bytes
    }

    fn load(&self, offset: u64, buf: &mut [u8]) {
        let chunks = self.chunks.read().unwrap_or_else(PoisonError::into_inner);
        for (index, within, range) in pieces(offset, buf.len()) {
            let target = &mut buf[range];
            match chunks.get(&index) {
                Some(chunk) => target.copy_from_slice(&chunk[within..within + target.len()]),
                None => target.fill(0),
            }
        }
    }

    fn store(&self, offset: u64, buf: &[u8]) {
        let mut chunks = self.chunks.write().unwrap_or_else(PoisonError::into_inner);
        for (index, within, range) in pieces(offset, buf.len()) {
            let source = &buf[range];
            if let Some(chunk) = chunks.get_mut(&index) {
                Arc::make_mut(chunk)[within..within + source.len()].copy_from_slice(source);
            } else if source.iter().any(|&byte| byte != 0) {
                let mut chunk = Arc::new([0; CHUNK]);
                Arc::make_mut(&mut chunk)[within..within + source.len()].copy_from_slice(source);
                chunks.insert(index, chunk);
            }
        }
    }
}

/// Splits `len` bytes at `offset` at chunk boundaries: chunk number, offset in the chunk, range of
/// the caller's buffer.
fn pieces(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done == len {
            return None;
        }
        let at = offset + done as u64;
        // The remainder is below CHUNK, so it fits any usize.
        let within = (at % CHUNK_BYTES) as usize;
        let take = (CHUNK - within).min(len - done);
        let piece = (at / CHUNK_BYTES, within, done..done + take);
        done += take;
        Some(piece)
    })
}

impl BlockDevice for MemDevice {
    fn len_bytes(&self) -> u64 {
        self.len
    }

    fn sector_size(&self) -> u32 {
        self.sector_size
    }

    fn durability(&self) -> Durability {
        self.durability
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        check_range(&self.name, self.len, Operation::Read, offset, buf.len() as u64)?;
        self.load(offset, buf);
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        let length = buf.len() as u64;
        check_writable(&self.name, self.read_only, Operation::Write, offset, length)?;
        check_range(&self.name, self.len, Operation::Write, offset, length)?;
        self.store(offset, buf);
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn is_hole(&self, offset: u64, len: u64) -> bool {
        let Some(end) = offset.checked_add(len).filter(|&end| end <= self.len) else {
            return false;
        };
        let chunks = self.chunks.read().unwrap_or_else(PoisonError::into_inner);
        chunks.range(offset / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES)).next().is_none()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        check_writable(&self.name, self.read_only, Operation::Discard, offset, len)?;
        check_range(&self.name, self.len, Operation::Discard, offset, len)?;
        let first = offset.div_ceil(CHUNK_BYTES);
        let end = (offset + len) / CHUNK_BYTES;
        if first < end {
            let mut chunks = self.chunks.write().unwrap_or_else(PoisonError::into_inner);
            let mut tail = chunks.split_off(&first);
            chunks.append(&mut tail.split_off(&end));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::{IoSlice, IoSliceMut};

    #[test]
    fn a_terabyte_costs_nothing_until_written() {
        let device = MemDevice::new(1 << 40);
        device.write_at((1 << 40) - 3, b"end").unwrap();
        device.write_at(12345, &[0; 100_000]).unwrap();
        assert_eq!(device.allocated_bytes(), CHUNK_BYTES);
        let mut buf = [1; 6];
        device.read_at((1 << 40) - 6, &mut buf).unwrap();
        assert_eq!(&buf, b"\0\0\0end");
        assert!(device.read_at((1 << 40) - 5, &mut buf).is_err());
        assert!(device.write_at(1 << 40, b"x").is_err());
    }

    #[test]
    fn snapshots_are_independent() {
        let device = MemDevice::from_bytes(&[7; 100_000]);
        let before = device.snapshot();
        device.write_at(50_000, &[9; 10]).unwrap();
        before.write_at(0, &[8]).unwrap();
        assert_eq!(before.to_vec()[50_000], 7);
        assert_eq!(device.to_vec()[50_000], 9);
        assert_eq!(device.to_vec()[0], 7);
    }

    #[test]
    fn a_read_only_device_refuses_change() {
        let device = MemDevice::from_bytes(b"abc").into_read_only();
        assert!(device.is_read_only());
        assert_eq!(device.write_at(0, b"x").unwrap_err().errno(), 30);
        assert!(device.discard(0, 1).is_err());
        assert_eq!(device.to_vec(), b"abc");
    }

    #[derive(Debug, Clone)]
    enum Step {
        Write(u64, Vec<u8>),
        Vectored(u64, Vec<u8>, Vec<u8>),
        Discard(u64, u64),
        Check(u64, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let bytes = || prop::collection::vec(any::<u8>(), 0..70_000);
        prop_oneof![
            (0u64..200_000, bytes()).prop_map(|(at, data)| Step::Write(at, data)),
            (0u64..200_000, bytes(), bytes()).prop_map(|(at, a, b)| Step::Vectored(at, a, b)),
            (0u64..200_000, 0u64..150_000).prop_map(|(at, len)| Step::Discard(at, len)),
            (0u64..200_000, 0usize..150_000).prop_map(|(at, len)| Step::Check(at, len)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn behaves_like_a_vector(steps in prop::collection::vec(step(), 1..12)) {
            const LEN: usize = 180_001;
            let device = MemDevice::new(LEN as u64);
            let mut model = vec![0u8; LEN];
            let fits = |at: u64, len: usize| at as usize + len <= LEN;
            for step in steps {
                match step {
                    Step::Write(at, data) => {
                        prop_assert_eq!(device.write_at(at, &data).is_ok(), fits(at, data.len()));
                        if fits(at, data.len()) {
                            model[at as usize..at as usize + data.len()].copy_from_slice(&data);
                        }
                    }
                    Step::Vectored(at, a, b) if fits(at, a.len() + b.len()) => {
                        let slices = [IoSlice::new(&a), IoSlice::new(&b)];
                        device.write_vectored_at(at, &slices).unwrap();
                        let both = [a, b].concat();
                        model[at as usize..at as usize + both.len()].copy_from_slice(&both);
                    }
                    Step::Discard(at, len) if fits(at, len as usize) => {
                        device.discard(at, len).unwrap();
                        // The content of a discarded range is unspecified: adopt it, but only
                        // there.
                        let now = device.to_vec();
                        let range = at as usize..(at + len) as usize;
                        model[range.clone()].copy_from_slice(&now[range]);
                    }
                    Step::Check(at, len) if fits(at, len) => {
                        let (mut a, mut b) = (vec![1; len / 3], vec![2; len - len / 3]);
                        let mut slices = [IoSliceMut::new(&mut a), IoSliceMut::new(&mut b)];
                        device.read_vectored_at(at, &mut slices).unwrap();
                        prop_assert_eq!([a, b].concat(), &model[at as usize..at as usize + len]);
                    }
                    _ => {}
                }
            }
            prop_assert_eq!(device.to_vec(), model);
        }
    }
}
