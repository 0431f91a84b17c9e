//! A block device as a stream, for the crates that read and write streams.

use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use ffs_device::{BlockDevice, DeviceError};

/// A block device with a position.
pub(super) struct DeviceStream {
    device: Arc<dyn BlockDevice>,
    at: u64,
}

impl DeviceStream {
    pub(super) fn new(device: &Arc<dyn BlockDevice>) -> DeviceStream {
        DeviceStream { device: Arc::clone(device), at: 0 }
    }

    /// How much of `len` bytes is before the end.
    fn within(&self, len: usize) -> usize {
        usize::try_from(self.device.len_bytes().saturating_sub(self.at)).unwrap_or(len).min(len)
    }
}

impl Read for DeviceStream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let have = self.within(buf.len());
        self.device.read_at(self.at, &mut buf[..have]).map_err(cause)?;
        self.at += have as u64;
        Ok(have)
    }
}

impl Write for DeviceStream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let have = self.within(buf.len());
        self.device.write_at(self.at, &buf[..have]).map_err(cause)?;
        self.at += have as u64;
        Ok(have)
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

/// Collects what is written to a device of `len` bytes, so that it can be written in another order.
pub(super) struct Recorder {
    pub(super) len: u64,
    pub(super) at: u64,
    /// The places, and what was written there.
    pub(super) writes: Vec<(u64, Vec<u8>)>,
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

fn cause(error: DeviceError) -> io::Error {
    io::Error::new(error.source.kind(), error)
}
