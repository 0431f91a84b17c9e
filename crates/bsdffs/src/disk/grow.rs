//! Fitting the partition table of a disk that became larger: the backup of the table moves to the
//! new end, and the last partition reaches up to it.
//!
//! # Invariants
//! 1. After a crash one of the two copies of the table is valid: the new backup is durable before
//!    the first copy is changed.
//! 2. A table that is damaged, or that has an unusual layout, is not changed.

use std::sync::Arc;

use ffs_device::partition::{self, Scheme};
use ffs_device::{BlockDevice, DeviceError};
use gptman::GPT;

use super::stream::DeviceStream;
use super::{DiskError, SectorSize, table};

/// Partitions end at a multiple of this, bytes.
const ALIGN_END: u64 = 4096;
/// Layout of the header: the bytes of its length, of the place of the entries, of their number, and
/// of the length of each.
const HEADER_LEN: usize = 12;
const ENTRIES_AT: usize = 72;
const ENTRY_COUNT: usize = 80;
const ENTRY_LEN: usize = 84;
/// The protective entry in the MBR, and the place of its length in sectors.
const PROTECTIVE: usize = 446;
const PROTECTIVE_LEN: usize = PROTECTIVE + 12;

/// What became of the last partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grown {
    /// Its number.
    pub number: u32,
    /// Its label.
    pub label: String,
    /// Its first byte on the disk.
    pub start: u64,
    /// Its length before, bytes.
    pub before: u64,
    /// Its length now, bytes.
    pub len: u64,
}

/// Fits the table of `device`, a whole disk, to the size that it has now, and enlarges the last
/// partition. The file system in it stays as large as it was.
///
/// # Errors
/// [`DiskError::Table`] if the disk has no table of the expected kind, or has no partition;
/// [`DiskError::Device`].
pub fn grow(device: &Arc<dyn BlockDevice>) -> Result<Grown, DiskError> {
    let sector = sector_of(&**device)?;
    let mut stream = DeviceStream::new(device);
    let mut gpt = GPT::read_from(&mut stream, sector.bytes()).map_err(table::failed)?;
    gpt.header.update_from(&mut stream, sector.bytes()).map_err(|e| table::failed(e.into()))?;
    let usable = gpt.header.last_usable_lba + 1;
    let last = gpt.iter().filter(|(_, entry)| entry.is_used()).max_by_key(|(_, e)| e.ending_lba);
    let Some((number, _)) = last else {
        return Err(DiskError::Table("the table has no partition".to_owned()));
    };
    let entry = &mut gpt[number];
    let bytes = |sectors: u64| sectors * sector.bytes();
    let whole = ALIGN_END / sector.bytes();
    let (start, end) = (entry.starting_lba, entry.ending_lba + 1);
    if end > usable {
        return Err(DiskError::Table(format!(
            "partition {number} ends behind the last sector that partitions may have"
        )));
    }
    let new_end = (usable - usable % whole).max(end);
    entry.ending_lba = new_end - 1;
    let label = entry.partition_name.as_str().to_owned();
    table::store(device, &mut gpt, protective(&**device, sector)?)?;
    let (before, len) = (bytes(end - start), bytes(new_end - start));
    Ok(Grown { number, label, start: bytes(start), before, len })
}

/// Whether [`grow`] can change the table of `device`: call it before the disk is made larger.
/// Afterwards the backup of the table is not at the end.
///
/// # Errors
/// As [`grow`].
pub fn check_growable(device: &dyn BlockDevice) -> Result<(), DiskError> {
    sector_of(device).map(|_| ())
}

/// The size of the sectors on which the table is based. Fails if the table is damaged, or has
/// another layout than the usual one, which the crate that writes it expects.
fn sector_of(device: &dyn BlockDevice) -> Result<SectorSize, DiskError> {
    let found = partition::scan(device).map_err(DiskError::Device)?;
    if found.scheme != Scheme::Gpt {
        return Err(DiskError::Table("the disk has no GUID partition table".to_owned()));
    }
    // The backup is not looked for while the first copy is valid.
    if let Some(note) = found.notes.first() {
        return Err(DiskError::Table(note.clone()));
    }
    let sizes = [SectorSize::B512, SectorSize::B4096];
    for sector in sizes {
        let mut head = [0; 92];
        read(device, sector.bytes(), &mut head)?;
        if !head.starts_with(b"EFI PART") {
            continue;
        }
        let word = |at: usize| {
            head.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |b| u32::from_le_bytes(*b))
        };
        let entries = (word(ENTRIES_AT), word(ENTRY_COUNT), word(ENTRY_LEN));
        if word(HEADER_LEN) == 92 && entries == (2, 128, 128) {
            return Ok(sector);
        }
        return Err(DiskError::Table(
            "the table does not have the usual 128 entries of 128 bytes from sector 2 on".into(),
        ));
    }
    Err(DiskError::Table("the disk has no first copy of its table".to_owned()))
}

/// The write that gives the protective entry of the MBR the length of the disk. `None` if the MBR
/// has other entries: it is a hybrid of both tables.
fn protective(
    device: &dyn BlockDevice,
    sector: SectorSize,
) -> Result<Option<(u64, Vec<u8>)>, DiskError> {
    let mut mbr = [0; 512];
    read(device, 0, &mut mbr)?;
    let only = mbr.get(PROTECTIVE + 4) == Some(&0xee)
        && mbr.get(PROTECTIVE + 16..510).is_some_and(|rest| rest.iter().all(|byte| *byte == 0));
    let sectors = u32::try_from(device.len_bytes() / sector.bytes() - 1).unwrap_or(u32::MAX);
    Ok(only.then(|| (PROTECTIVE_LEN as u64, sectors.to_le_bytes().to_vec())))
}

fn read(device: &dyn BlockDevice, at: u64, buf: &mut [u8]) -> Result<(), DiskError> {
    device.read_at(at, buf).map_err(|error: DeviceError| DiskError::Device(error))
}
