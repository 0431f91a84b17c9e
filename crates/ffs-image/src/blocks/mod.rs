//! Formats that divide the disk into blocks, of which a table has the places in the file: VHD, VDI
//! and VMDK.
//!
//! Drivers for one file without a parent. Other variants (differencing disks, several extents) are
//! left to `qemu-nbd`.
//!
//! **Invariants.**
//! 1. A block that is new is entered in the table of the file by the flush that follows, after its
//!    content is durable. A power failure leaves the old table or the new one, and both are valid.
//! 2. Every number of a table is checked against the file before it is used.
//!
//! **Locking.** One lock: reads share it, writes take it alone only to allocate.

mod vdi;
mod vhd;
mod vmdk;

pub(crate) use vmdk::vmdk_descriptor;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use ffs_device::error::{check_range, check_writable};
use ffs_device::{BlockDevice, DeviceError, Durability, FailedFlush, FileDevice, Operation};

use crate::bytes::{le32, le64};
use crate::image::{DiskImage, Refused};
use crate::magic::Format;

/// Most blocks of a disk.
const MAX_BLOCKS: u64 = 1 << 28;
/// Largest block.
const MAX_BLOCK: u64 = 64 << 20;

/// Where a block is.
enum Place {
    /// Nowhere: it reads as zeros.
    Absent,
    /// At this byte of the file.
    At(u64),
    /// Compressed, at this byte of the file.
    Packed(u64),
}

/// The new blocks that the table of the file does not have yet, with the place of their content.
type New = BTreeMap<u64, u64>;

/// The shape of a disk.
#[derive(Debug, Clone, Copy)]
struct Shape {
    /// Size of the disk, bytes.
    len: u64,
    /// Size of a block, bytes; a multiple of 512.
    block: u64,
}

/// A format.
trait Layout: Send + Sync {
    fn shape(&self) -> Shape;

    /// The place of a block by the table of the file.
    fn lookup(&self, file: &FileDevice, block: u64) -> Result<Place, DeviceError>;

    /// The content of a compressed block at byte `at`.
    fn unpack(&self, file: &FileDevice, at: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let (_, _, _) = (file, at, into);
        Ok(())
    }

    /// Makes place for a block, with zeros, and returns it.
    fn allocate(&mut self, file: &FileDevice) -> Result<u64, DeviceError>;

    /// Prepares a write to a block that has the place `at`.
    fn touch(&mut self, file: &FileDevice, at: u64) -> Result<(), DeviceError> {
        let (_, _) = (file, at);
        Ok(())
    }

    /// Writes what must be durable before the table names new blocks.
    fn seal(&mut self, file: &FileDevice) -> Result<(), DeviceError> {
        let _ = file;
        Ok(())
    }

    /// Enters new blocks in the table.
    fn enter(&mut self, file: &FileDevice, new: &New) -> Result<(), DeviceError>;
}

/// What the lock guards.
struct State {
    layout: Box<dyn Layout>,
    new: New,
}

/// A disk of one of the formats.
struct BlockDisk {
    name: Arc<str>,
    file: Arc<FileDevice>,
    format: Format,
    shape: Shape,
    state: RwLock<State>,
    failed_flush: FailedFlush,
    /// The compressed block that was read last, and its place.
    unpacked: Mutex<(u64, Vec<u8>)>,
}

/// Opens the disk in `file`, whose name is `path`.
pub(crate) fn open(
    file: &Arc<FileDevice>,
    path: &Path,
    format: Format,
) -> Result<Arc<dyn DiskImage>, Refused> {
    let layout: Box<dyn Layout> = match format {
        Format::Vhd => vhd::open(file)?,
        Format::Vdi => vdi::open(file)?,
        _ => vmdk::open(file)?,
    };
    let shape = layout.shape();
    let valid = shape.block.is_multiple_of(512) && (512..=MAX_BLOCK).contains(&shape.block);
    if !valid || shape.len.div_ceil(shape.block.max(1)) > MAX_BLOCKS {
        let Shape { len, block } = shape;
        return Err(Refused::Damaged(format!("a disk of {len} bytes in blocks of {block}")));
    }
    Ok(Arc::new(BlockDisk {
        name: Arc::from(path.to_string_lossy()),
        file: Arc::clone(file),
        format,
        shape,
        state: RwLock::new(State { layout, new: New::new() }),
        failed_flush: FailedFlush::default(),
        unpacked: Mutex::new((0, Vec::new())),
    }))
}

/// The error of a header.
fn damaged<T>(why: impl Into<String>) -> Result<T, Refused> {
    Err(Refused::Damaged(why.into()))
}

/// The error of a table that is found only when it is used.
fn bad_table(block: u64, at: u64) -> DeviceError {
    let why = format!("the table has byte {at} for block {block}, beyond the end of the file");
    let name: Arc<str> = Arc::from("image");
    DeviceError::new(&name, Operation::Read, io::Error::other(why))
}

/// `N` bytes at `at`.
fn read<const N: usize>(file: &FileDevice, at: u64) -> Result<[u8; N], DeviceError> {
    let mut bytes = [0; N];
    file.read_at(at, &mut bytes)?;
    Ok(bytes)
}

impl State {
    fn place(&self, file: &FileDevice, block: u64) -> Result<Place, DeviceError> {
        match self.new.get(&block) {
            Some(&at) => Ok(Place::At(at)),
            None => self.layout.lookup(file, block),
        }
    }
}

impl BlockDisk {
    /// The blocks of a range: number, offset in the block, range of the caller's buffer.
    fn pieces(
        &self,
        offset: u64,
        len: usize,
    ) -> impl Iterator<Item = (u64, u64, std::ops::Range<usize>)> + use<> {
        let block = self.shape.block;
        let mut done = 0;
        std::iter::from_fn(move || {
            let at = offset + done as u64;
            let within = at % block;
            // A block has at most 64 MiB.
            let take = ((block - within) as usize).min(len - done);
            let piece = (at / block, within, done..done + take);
            done += take;
            (take > 0).then_some(piece)
        })
    }

    /// Gives the error the name and the range of the request.
    fn named(
        &self,
        operation: Operation,
        offset: u64,
        len: u64,
        error: &DeviceError,
    ) -> DeviceError {
        let source = match error.source.raw_os_error() {
            Some(errno) => io::Error::from_raw_os_error(errno),
            None => io::Error::new(error.source.kind(), error.source.to_string()),
        };
        DeviceError::at(&self.name, operation, offset, len, source)
    }

    fn read_piece(&self, block: u64, within: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let packed = match state.place(&self.file, block)? {
            Place::Absent => {
                buf.fill(0);
                return Ok(());
            }
            Place::At(at) => return self.file.read_at(at + within, buf),
            Place::Packed(at) => at,
        };
        let mut unpacked = self.unpacked.lock().unwrap_or_else(PoisonError::into_inner);
        if unpacked.0 != packed {
            let mut content = std::mem::take(&mut unpacked.1);
            unpacked.0 = 0;
            content.resize(self.shape.block as usize, 0);
            state.layout.unpack(&self.file, packed, &mut content)?;
            *unpacked = (packed, content);
        }
        let within = within as usize;
        buf.copy_from_slice(&unpacked.1[within..within + buf.len()]);
        Ok(())
    }

    fn write_piece(&self, block: u64, within: u64, buf: &[u8]) -> Result<(), DeviceError> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let at = match state.place(&self.file, block)? {
            Place::At(at) => {
                state.layout.touch(&self.file, at)?;
                at
            }
            Place::Absent | Place::Packed(_) => {
                let at = state.layout.allocate(&self.file)?;
                state.new.insert(block, at);
                at
            }
        };
        drop(state);
        self.file.write_at(at + within, buf)
    }

    /// Makes everything durable: content, then the tables.
    fn settle(&self, state: &mut State) -> Result<(), DeviceError> {
        if !state.new.is_empty() {
            state.layout.seal(&self.file)?;
            self.file.flush()?;
            let new = std::mem::take(&mut state.new);
            let entered = state.layout.enter(&self.file, &new);
            if entered.is_err() {
                state.new = new;
            }
            entered?;
        }
        self.file.flush()
    }
}

impl BlockDevice for BlockDisk {
    fn len_bytes(&self) -> u64 {
        self.shape.len
    }

    fn sector_size(&self) -> u32 {
        512
    }

    fn durability(&self) -> Durability {
        Durability::OnFlush
    }

    fn is_read_only(&self) -> bool {
        self.file.is_read_only()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        let length = buf.len() as u64;
        check_range(&self.name, self.shape.len, Operation::Read, offset, length)?;
        for (block, within, range) in self.pieces(offset, buf.len()) {
            self.read_piece(block, within, &mut buf[range])
                .map_err(|error| self.named(Operation::Read, offset, length, &error))?;
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        let length = buf.len() as u64;
        check_writable(&self.name, self.is_read_only(), Operation::Write, offset, length)?;
        check_range(&self.name, self.shape.len, Operation::Write, offset, length)?;
        for (block, within, range) in self.pieces(offset, buf.len()) {
            self.write_piece(block, within, &buf[range])
                .map_err(|error| self.named(Operation::Write, offset, length, &error))?;
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        if self.is_read_only() {
            return Ok(());
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        self.failed_flush.guard(&self.name, || {
            let settled = self.settle(&mut state);
            settled.map_err(|error| self.named(Operation::Flush, 0, 0, &error))
        })
    }
}

impl DiskImage for BlockDisk {
    fn format(&self) -> Format {
        self.format
    }
}

impl Drop for BlockDisk {
    fn drop(&mut self) {
        let new = !self.state.get_mut().unwrap_or_else(PoisonError::into_inner).new.is_empty();
        if new {
            // Users flush before; this keeps writes of one that did not.
            let _ = self.flush();
        }
    }
}
