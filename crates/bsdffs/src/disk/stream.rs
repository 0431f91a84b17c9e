//! A block device as a stream, for the crates that read and write streams.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::{Arc, OnceLock};

use ffs_device::{BlockDevice, DeviceError};

/// Bytes that are read at once: the crates read a few at a time.
const PART: usize = 4 << 10;
/// Parts in memory. The crates read tables and directories in turn, and a directory again for each
/// new name.
const PARTS: usize = 1024;

/// A block device with a position.
///
/// Invariant: a part in memory has the bytes of the device, to which nothing else writes while the
/// stream exists. The part with number `n` is at `n % PARTS`, or is not in memory.
pub(super) struct DeviceStream {
    device: Arc<dyn BlockDevice>,
    at: u64,
    /// Parts that were read, with their numbers.
    parts: Vec<Option<(u64, Vec<u8>)>>,
    /// The first error. The crates between lose what it was.
    error: Arc<OnceLock<DeviceError>>,
}

impl DeviceStream {
    pub(super) fn new(device: &Arc<dyn BlockDevice>) -> DeviceStream {
        DeviceStream::at(device, 0)
    }

    /// A stream whose position is `at`.
    pub(super) fn at(device: &Arc<dyn BlockDevice>, at: u64) -> DeviceStream {
        let (device, parts) = (Arc::clone(device), vec![None; PARTS]);
        DeviceStream { device, at, parts, error: Arc::default() }
    }

    /// Where the first error will be.
    pub(super) fn error(&self) -> Arc<OnceLock<DeviceError>> {
        Arc::clone(&self.error)
    }
}

/// The number of the part with byte `at`, and the place of the byte in it.
fn part_of(at: u64) -> (u64, usize) {
    (at / PART as u64, (at % PART as u64) as usize)
}

fn failed(first: &OnceLock<DeviceError>, error: DeviceError) -> io::Error {
    let kind = error.source.kind();
    // A later error follows from the first.
    let _ = first.set(error.clone());
    io::Error::new(kind, error)
}

impl Read for DeviceStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = self.device.len_bytes().saturating_sub(self.at);
        if left == 0 {
            return Ok(0);
        }
        let (number, skip) = part_of(self.at);
        let start = self.at - skip as u64;
        let slot = &mut self.parts[(number % PARTS as u64) as usize];
        if slot.as_ref().is_none_or(|(n, _)| *n != number) {
            let here = left.saturating_add(skip as u64).min(PART as u64);
            let mut bytes = vec![0; here as usize];
            *slot = None;
            let read = self.device.read_at(start, &mut bytes);
            read.map_err(|error| failed(&self.error, error))?;
            *slot = Some((number, bytes));
        }
        let some = slot.as_ref().and_then(|(_, bytes)| bytes.get(skip..)).unwrap_or(&[]);
        let len = some.len().min(buf.len());
        buf[..len].copy_from_slice(&some[..len]);
        self.at += len as u64;
        Ok(len)
    }
}

impl Write for DeviceStream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let left = self.device.len_bytes().saturating_sub(self.at);
        let len = usize::try_from(left).unwrap_or(buf.len()).min(buf.len());
        let (mut at, mut rest) = (self.at, &buf[..len]);
        let written = self.device.write_at(at, rest);
        while !rest.is_empty() {
            let (number, skip) = part_of(at);
            let (here, after) = rest.split_at(rest.len().min(PART - skip));
            let slot = &mut self.parts[(number % PARTS as u64) as usize];
            if let Some((_, bytes)) = slot.as_mut().filter(|(n, _)| *n == number) {
                match bytes.get_mut(skip..skip + here.len()) {
                    Some(old) if written.is_ok() => old.copy_from_slice(here),
                    _ => *slot = None,
                }
            }
            at += here.len() as u64;
            rest = after;
        }
        written.map_err(|error| failed(&self.error, error))?;
        self.at = at;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for DeviceStream {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = target(to, self.at, self.device.len_bytes())?;
        Ok(self.at)
    }
}

/// A disk of `len` bytes of which only the writes matter: they are collected.
pub(super) struct Recorder {
    len: u64,
    at: u64,
    /// The places, and what was written there.
    pub(super) writes: Vec<(u64, Vec<u8>)>,
}

impl Recorder {
    pub(super) fn new(len: u64) -> Recorder {
        Recorder { len, at: 0, writes: Vec::new() }
    }
}

impl Read for Recorder {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }
}

impl Write for Recorder {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.writes.push((self.at, buf.to_vec()));
        self.at += buf.len() as u64;
        Ok(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Recorder {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.at = target(to, self.at, self.len)?;
        Ok(self.at)
    }
}

/// The position that a seek leads to.
fn target(to: SeekFrom, at: u64, len: u64) -> io::Result<u64> {
    let place = match to {
        SeekFrom::Start(place) => Some(place),
        SeekFrom::End(back) => len.checked_add_signed(back),
        SeekFrom::Current(by) => at.checked_add_signed(by),
    };
    place.ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use ffs_device::{Fault, FaultInjector, MemDevice, Operation, Rng, Rule, SplitMix64};

    /// The last 41 parts have the same places in memory as the first, and the last one is short.
    const LEN: usize = PART * (PARTS + 40) + 1000;

    #[test]
    fn a_stream_has_the_bytes_of_its_device() {
        let device: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(LEN as u64));
        let mut stream = DeviceStream::new(&device);
        let mut model = vec![0; LEN];
        let random = SplitMix64::new(7);
        for round in 0..4_000 {
            // Most places are near the ends, where parts share their place or are short.
            let within = |n: u64| random.below(n) as usize;
            let at = match within(3) {
                0 => within(20 * PART as u64),
                1 => LEN - within(45 * PART as u64),
                _ => within(LEN as u64 + 1),
            };
            let mut bytes = vec![0; within(3 * PART as u64)];
            bytes.iter_mut().for_each(|byte| *byte = random.next_u32() as u8);
            stream.seek(SeekFrom::Start(at as u64)).unwrap();
            let place = at..(at + bytes.len()).min(LEN);
            if within(2) == 0 {
                assert_eq!(stream.write(&bytes).unwrap(), place.len(), "round {round}");
                model[place.clone()].copy_from_slice(&bytes[..place.len()]);
            } else {
                let mut have = 0;
                while have < place.len() {
                    have += match stream.read(&mut bytes[have..]).unwrap() {
                        0 => break,
                        some => some,
                    };
                }
                assert!(bytes[..have] == model[place.clone()], "round {round}");
            }
            assert_eq!(stream.at, place.end as u64);
        }
        stream.seek(SeekFrom::Start(LEN as u64 + 5)).unwrap();
        assert_eq!(stream.read(&mut [0; 8]).unwrap(), 0);
    }

    #[test]
    fn a_failed_write_moves_nothing_and_leaves_nothing_in_memory() {
        let rules = vec![Rule::new(Operation::Write, Fault::Errno(5))];
        let disk = Arc::new(FaultInjector::new(MemDevice::new(1 << 20), rules));
        let device: Arc<dyn BlockDevice> = Arc::clone(&disk) as Arc<dyn BlockDevice>;
        let mut stream = DeviceStream::new(&device);
        stream.read_exact(&mut [1; 8]).unwrap();
        assert!(stream.write(&[1; PART]).is_err());
        assert_eq!(stream.at, 8);
        assert!(stream.error().get().is_some());
        disk.inner().write_at(0, &[2; 16]).unwrap();
        let mut bytes = [0; 8];
        stream.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, [2; 8]);
    }
}
