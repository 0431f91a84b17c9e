//! The GUID partition table.
//!
//! **Invariants.** A header or an entry array is used only if its CRC matches. If that of the copy
//! at the start of the disk does not, the copy at the end is used, with a note.

use super::{
    Partition, PartitionTable, PartitionType, Scheme, array, le32, le64, read_bytes, sector_sizes,
};
use crate::{BlockDevice, DeviceError};

const SIGNATURE: &[u8; 8] = b"EFI PART";
const REVISION: u32 = 0x0001_0000;
const MIN_HEADER: u32 = 92;
const MIN_ENTRY: u32 = 128;
/// Tables have 128 entries of 128 bytes; a much larger count is invalid.
const MAX_ENTRIES: u32 = 1024;
const MAX_ENTRY: u32 = 1024;

struct Header {
    alternate_lba: u64,
    entries_lba: u64,
    entry_count: u32,
    entry_size: u32,
    entries_crc: u32,
}

/// Reads the table. `protective` is whether the MBR indicates a GPT: then a disk without a valid
/// copy is damaged, and the result is an empty table with notes. Otherwise `None` means that the
/// disk has no GPT.
pub(super) fn read(
    device: &dyn BlockDevice,
    protective: bool,
) -> Result<Option<PartitionTable>, DeviceError> {
    let mut lost = PartitionTable::new(Scheme::Gpt);
    for sector in sector_sizes(device) {
        let primary = match copy_at(device, sector, 1)? {
            Copy::Sound(header, entries) => {
                return Ok(Some(list(device, sector, &header, &entries, Vec::new())));
            }
            Copy::Absent => None,
            Copy::Damaged(why, alternate) => Some((why, alternate)),
        };
        if primary.is_none() && !protective {
            continue;
        }
        let (why, alternate) =
            primary.unwrap_or_else(|| ("no header in sector 1".to_owned(), None));
        let last = (device.len_bytes() / sector).checked_sub(1);
        for lba in [last, alternate].into_iter().flatten() {
            if let Copy::Sound(header, entries) = copy_at(device, sector, lba)? {
                let note = format!(
                    "the GPT at the front of the disk is damaged ({why}): used its backup copy"
                );
                return Ok(Some(list(device, sector, &header, &entries, vec![note])));
            }
        }
        lost.note(format!("GPT with {sector}-byte sectors: {why}; no sound backup copy either"));
    }
    Ok((!lost.notes.is_empty()).then_some(lost))
}

enum Copy {
    Sound(Header, Vec<u8>),
    Absent,
    /// The error, and the location of the other copy according to the header.
    Damaged(String, Option<u64>),
}

fn copy_at(device: &dyn BlockDevice, sector: u64, lba: u64) -> Result<Copy, DeviceError> {
    let block = match lba.checked_mul(sector) {
        // A sector has 512 or 4096 bytes.
        Some(offset) => read_bytes(device, offset, sector as usize)?,
        None => None,
    };
    let Some(block) = block.filter(|block| block.starts_with(SIGNATURE)) else {
        return Ok(Copy::Absent);
    };
    let header = match parse_header(&block, lba) {
        Ok(header) => header,
        Err(why) => return Ok(Copy::Damaged(why, Some(le64(&block, 32)))),
    };
    let damaged = |why: &str| Copy::Damaged(why.to_owned(), Some(header.alternate_lba));
    let Some(offset) = header.entries_lba.checked_mul(sector) else {
        return Ok(damaged("the entries lie beyond the end"));
    };
    // Both factors were checked: at most 1 MiB.
    let len = (header.entry_count * header.entry_size) as usize;
    match read_bytes(device, offset, len)? {
        None => Ok(damaged("the entries lie beyond the end")),
        Some(entries) if crc32(&entries) != header.entries_crc => {
            Ok(damaged("wrong checksum of the entries"))
        }
        Some(entries) => Ok(Copy::Sound(header, entries)),
    }
}

fn parse_header(block: &[u8], lba: u64) -> Result<Header, String> {
    let size = le32(block, 12);
    if le32(block, 8) != REVISION {
        return Err(format!("header revision {:#x}, expected {REVISION:#x}", le32(block, 8)));
    }
    if size < MIN_HEADER || size as usize > block.len() {
        return Err(format!("header size {size}, expected {MIN_HEADER} to {}", block.len()));
    }
    let mut covered = block[..size as usize].to_vec();
    covered[16..20].fill(0);
    if crc32(&covered) != le32(block, 16) {
        return Err("wrong checksum of the header".to_owned());
    }
    if le64(block, 24) != lba {
        return Err(format!("header is for sector {}, but is in sector {lba}", le64(block, 24)));
    }
    let header = Header {
        alternate_lba: le64(block, 32),
        entries_lba: le64(block, 72),
        entry_count: le32(block, 80),
        entry_size: le32(block, 84),
        entries_crc: le32(block, 88),
    };
    let Header { entry_count, entry_size, .. } = header;
    if !(MIN_ENTRY..=MAX_ENTRY).contains(&entry_size) || !entry_size.is_power_of_two() {
        return Err(format!(
            "entry size {entry_size}, expected a power of two, {MIN_ENTRY} to {MAX_ENTRY}"
        ));
    }
    if entry_count > MAX_ENTRIES {
        return Err(format!("{entry_count} entries, expected at most {MAX_ENTRIES}"));
    }
    Ok(header)
}

fn list(
    device: &dyn BlockDevice,
    sector: u64,
    header: &Header,
    entries: &[u8],
    notes: Vec<String>,
) -> PartitionTable {
    let sector_size = u32::try_from(sector).ok();
    let mut table = PartitionTable { notes, sector_size, ..PartitionTable::new(Scheme::Gpt) };
    for (entry, index) in entries.chunks_exact(header.entry_size as usize).zip(1u32..) {
        let guid: [u8; 16] = array(entry, 0);
        if guid == [0; 16] {
            continue;
        }
        let (first, last) = (le64(entry, 32), le64(entry, 40));
        let sectors = last.checked_sub(first).and_then(|count| count.checked_add(1));
        let start = first.checked_mul(sector);
        let len = sectors.and_then(|count| count.checked_mul(sector));
        let (Some(start), Some(declared_len), 1..) = (start, len, first) else {
            table.note(format!("GPT entry {index} has sectors {first} to {last}: ignored"));
            continue;
        };
        let partition = Partition {
            index,
            name: format!("p{index}"),
            label: label(&entry[56..128]),
            start,
            len: declared_len,
            declared_len,
            kind: PartitionType::of_disk(guid).partition_kind(),
        };
        table.add(device, partition);
    }
    table
}

/// A UTF-16 name as printable text.
fn label(utf16: &[u8]) -> String {
    let units = utf16.chunks_exact(2).map(|unit| u16::from_le_bytes(array(unit, 0)));
    char::decode_utf16(units.take_while(|&unit| unit != 0))
        .map(|c| c.ok().filter(|c| !c.is_control()).unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

/// CRC-32 as in Ethernet and GPT, bit by bit: a partition table has a few kilobytes.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            if crc & 1 == 1 { (crc >> 1) ^ 0xedb8_8320 } else { crc >> 1 }
        })
    })
}
