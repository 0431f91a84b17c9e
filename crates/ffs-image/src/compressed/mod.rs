//! Compressed images, read in place.
//!
//! A compressed file is divided into units that are decompressed separately: the blocks of xz, the
//! frames of zstd. A file of gzip or bzip2, and an xz file that was compressed in one block, is one
//! unit. What was decompressed is kept in a temporary file without a name, which has holes where
//! the disk has zeros. A read decompresses from the start of its units to its end; a later read
//! continues there. One unit at a time can be continued: another that was left before its end
//! begins again.
//!
//! | file | size of the disk | first read at byte N of a unit |
//! | --- | --- | --- |
//! | xz, zstd with sizes in its frames | from the index | decompresses the unit up to N |
//! | gzip, bzip2, zstd without sizes | decompresses everything when it is opened | nothing |
//!
//! **Invariants.**
//! 1. Memory is bounded: the decoder's window (at most 256 MiB, of a usual file 8 MiB), and 48
//!    bytes for each unit, of which there are at most a million.
//! 2. Damage is an error of the reads that need the damaged unit.
//!
//! **Locking.** One lock, held while a unit is decompressed.

mod expand;
mod members;
mod stream;
mod xz;
mod zstd;

pub use expand::{Progress, expand, expanded_name, spool};
pub use stream::{Content, decompress, is_compressed};

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use ffs_device::error::{check_range, check_writable};
use ffs_device::{BlockDevice, DeviceError, Durability, Operation};

use crate::image::{DiskImage, Refused};
use crate::magic::Format;

/// Most units of a file.
const MAX_UNITS: usize = 1 << 20;
/// Bytes that are decompressed at a time.
const PIECE: usize = 128 << 10;
/// Bytes that are written to the temporary file or left out at a time.
const HOLE: usize = 4096;

/// A part of the file that is decompressed separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Unit {
    /// Its place and length in the file.
    at: u64,
    packed: u64,
    /// Its place on the disk.
    start: u64,
    /// Its length on the disk; `None` if only decompression shows it.
    len: Option<u64>,
    /// The place of the header of its stream (xz).
    header: u64,
}

/// A source of decompressed bytes.
type Decoder = Box<dyn Read + Send>;

/// The state behind the lock.
struct State {
    /// Bytes of each unit that the temporary file has.
    done: Vec<u64>,
    /// The unit in progress, and its decoder.
    live: Option<(usize, Decoder)>,
    buffer: Vec<u8>,
}

/// A compressed disk.
struct CompressedDisk {
    name: Arc<str>,
    file: Arc<dyn BlockDevice>,
    format: Format,
    len: u64,
    units: Vec<Unit>,
    cache: File,
    state: Mutex<State>,
}

/// Opens the disk in `file`, whose name is `path`.
pub(crate) fn open(
    file: Arc<dyn BlockDevice>,
    path: &Path,
    format: Format,
) -> Result<Arc<dyn DiskImage>, Refused> {
    let whole = Unit { at: 0, packed: file.len_bytes(), start: 0, len: None, header: 0 };
    let units = match format {
        Format::Xz => xz::units(&file)?,
        Format::Zstd => zstd::units(&file)?.unwrap_or_else(|| vec![whole]),
        _ => vec![whole],
    };
    let cache = tempfile::tempfile().map_err(|error| {
        let (dir, why) = (std::env::temp_dir(), ffs_device::host_words(error));
        let dir = dir.display();
        Refused::Damaged(format!(
            "no temporary file in {dir}: {why}; set TMPDIR to a directory with space"
        ))
    })?;
    let done = vec![0; units.len()];
    let state = Mutex::new(State { done, live: None, buffer: vec![0; PIECE] });
    let name = Arc::from(path.to_string_lossy());
    let mut disk = CompressedDisk { name, file, format, len: 0, units, cache, state };
    disk.len = match disk.units.last() {
        None => 0,
        Some(&Unit { start, len: Some(len), .. }) => start.saturating_add(len),
        Some(_) => {
            let all = disk.fill(0, u64::MAX);
            let why = |error| Refused::Damaged(ffs_device::host_words(error));
            all.map_err(why)?;
            disk.state.get_mut().unwrap_or_else(PoisonError::into_inner).done[0]
        }
    };
    let sized = disk.cache.set_len(disk.len);
    sized.map_err(|error| Refused::Damaged(no_place(error).to_string()))?;
    Ok(Arc::new(disk))
}

/// The bytes of the file from `at` on.
struct Source {
    file: Arc<dyn BlockDevice>,
    at: u64,
    end: u64,
}

impl Source {
    fn new(file: &Arc<dyn BlockDevice>, at: u64, len: u64) -> Source {
        let end = at.saturating_add(len).min(file.len_bytes());
        Source { file: Arc::clone(file), at, end }
    }
}

impl Read for Source {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let take = buf.len().min(left);
        self.file.read_at(self.at, &mut buf[..take])?;
        self.at += take as u64;
        Ok(take)
    }
}

impl CompressedDisk {
    /// Decompresses unit `index` until the temporary file has its first `upto` bytes, or all.
    fn fill(&self, index: usize, upto: u64) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let unit = self.units[index];
        if state.done[index] >= upto.min(unit.len.unwrap_or(u64::MAX)) {
            return Ok(());
        }
        let mut decoder = match state.live.take() {
            Some((live, decoder)) if live == index => decoder,
            _ => {
                // A decoder cannot be stopped and continued later: this unit starts again.
                state.done[index] = 0;
                self.decoder(&unit)?
            }
        };
        while state.done[index] < upto {
            let count = decoder.read(&mut state.buffer).map_err(damage)?;
            let done = state.done[index];
            let end = done + count as u64;
            if count == 0 || unit.len.is_some_and(|len| end >= len) {
                if unit.len.is_some_and(|len| end != len) {
                    return Err(other_length());
                }
                self.keep(unit.start + done, &state.buffer[..count])?;
                // The end of the data, where decoders check the checksum.
                let extra = if count == 0 { 0 } else { decoder.read(&mut [0]).map_err(damage)? };
                if extra > 0 {
                    return Err(other_length());
                }
                state.done[index] = end;
                return Ok(());
            }
            self.keep(unit.start + done, &state.buffer[..count])?;
            state.done[index] = end;
        }
        state.live = Some((index, decoder));
        Ok(())
    }

    fn decoder(&self, unit: &Unit) -> io::Result<Decoder> {
        let source = Source::new(&self.file, unit.at, unit.packed);
        let source = io::BufReader::with_capacity(PIECE, source);
        match self.format {
            Format::Xz => xz::decoder(&self.file, unit),
            format => Ok(stream::decoder(format, source)),
        }
    }

    /// Writes decompressed bytes to the temporary file, except zeros.
    fn keep(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        expand::write_sparse(&self.cache, bytes, at).map_err(no_place)
    }

    fn read(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let end = offset + buf.len() as u64;
        let first = self.units.partition_point(|unit| unit.start <= offset).saturating_sub(1);
        for (index, unit) in self.units.iter().enumerate().skip(first) {
            if unit.start >= end {
                break;
            }
            self.fill(index, end - unit.start)?;
        }
        self.cache.read_exact_at(buf, offset)
    }
}

fn other_length() -> io::Error {
    damage(io::Error::other("a unit has another length than in the index"))
}

/// The error of a read, after that of a decoder.
fn damage(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::OutOfMemory {
        let text = "decompression needs more than 256 MiB of memory; decompress it first, with its \
                    own program";
        return io::Error::new(error.kind(), text);
    }
    let error = ffs_device::host_words(error.to_string());
    io::Error::other(format!("the compressed data is damaged or truncated: {error}"))
}

fn no_place(error: io::Error) -> io::Error {
    let why = ffs_device::host_words(&error);
    let text =
        format!("the temporary file of the decompressed data: {why}; TMPDIR chooses its place");
    io::Error::new(error.kind(), text)
}

impl BlockDevice for CompressedDisk {
    fn len_bytes(&self) -> u64 {
        self.len
    }

    fn sector_size(&self) -> u32 {
        512
    }

    fn durability(&self) -> Durability {
        Durability::OnCompletion
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let length = buf.len() as u64;
        check_range(&self.name, self.len, Operation::Read, offset, length)?;
        self.read(offset, buf)
            .map_err(|source| DeviceError::at(&self.name, Operation::Read, offset, length, source))
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        check_writable(&self.name, true, Operation::Write, offset, buf.len() as u64)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        check_writable(&self.name, true, Operation::Discard, offset, len)
    }
}

impl DiskImage for CompressedDisk {
    fn format(&self) -> Format {
        self.format
    }

    fn remarks(&self) -> Vec<String> {
        let one = "compressed in one piece: a read decompresses everything before it, once, into a \
                   temporary file (TMPDIR)";
        if self.units.len() == 1 { vec![one.to_owned()] } else { Vec::new() }
    }
}
