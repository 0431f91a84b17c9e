//! A block device as a stream, for the crates that read and write streams.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::{Arc, OnceLock};

use ffs_device::{BlockDevice, DeviceError};

/// Bytes that are read at once: the crates read a few at a time.
const AHEAD: usize = 16 << 10;

/// A block device with a position.
pub(super) struct DeviceStream {
    device: Arc<dyn BlockDevice>,
    at: u64,
    /// Bytes that were read, and their place.
    ahead: (u64, Vec<u8>),
    /// The first error. The crates between lose what it was.
    error: Arc<OnceLock<DeviceError>>,
}

impl DeviceStream {
    pub(super) fn new(device: &Arc<dyn BlockDevice>) -> DeviceStream {
        DeviceStream::at(device, 0)
    }

    /// A stream whose position is `at`.
    pub(super) fn at(device: &Arc<dyn BlockDevice>, at: u64) -> DeviceStream {
        let (device, ahead) = (Arc::clone(device), (0, Vec::new()));
        DeviceStream { device, at, ahead, error: Arc::default() }
    }

    /// Where the first error will be.
    pub(super) fn error(&self) -> Arc<OnceLock<DeviceError>> {
        Arc::clone(&self.error)
    }

    /// How much of `len` bytes is before the end.
    fn within(&self, len: usize) -> usize {
        usize::try_from(self.device.len_bytes().saturating_sub(self.at)).unwrap_or(len).min(len)
    }

    fn failed(&self, error: DeviceError) -> io::Error {
        let kind = error.source.kind();
        // A later error follows from the first.
        let _ = self.error.set(error.clone());
        io::Error::new(kind, error)
    }
}

impl Read for DeviceStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let (start, have) = (self.ahead.0, self.ahead.1.len() as u64);
        if !(start..start + have).contains(&self.at) {
            let mut bytes = std::mem::take(&mut self.ahead.1);
            bytes.resize(self.within(AHEAD), 0);
            let read = self.device.read_at(self.at, &mut bytes);
            read.map_err(|error| self.failed(error))?;
            self.ahead = (self.at, bytes);
        }
        let skip = usize::try_from(self.at - self.ahead.0).unwrap_or(usize::MAX);
        let some = self.ahead.1.get(skip..).unwrap_or(&[]);
        let len = some.len().min(buf.len());
        buf[..len].copy_from_slice(&some[..len]);
        self.at += len as u64;
        Ok(len)
    }
}

impl Write for DeviceStream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let len = self.within(buf.len());
        self.device.write_at(self.at, &buf[..len]).map_err(|error| self.failed(error))?;
        let (start, bytes) = &mut self.ahead;
        if self.at < *start + bytes.len() as u64 && *start < self.at + len as u64 {
            bytes.clear();
        }
        self.at += len as u64;
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
