//! The BSD disklabel: up to 22 partitions, in sector 1 of a slice or of the disk.
//!
//! Its offsets count from the slice (FreeBSD today) or from the disk (older FreeBSD, NetBSD,
//! OpenBSD). Only the entries show which; [`Label::base`] decides.

use super::{Partition, PartitionKind, PartitionTable, le16, le32, read_bytes, sector_sizes};
use crate::{BlockDevice, DeviceError};

const MAGIC: u32 = 0x8256_4557;
const HEADER: usize = 148;
const ENTRY: usize = 16;
/// The number of entries that fit after the header in a sector of 512 bytes.
const MAX_PARTITIONS: u16 = 22;
/// Entry `c` describes the slice or the disk as a whole.
const RAW: usize = 2;

const FS_UNUSED: u8 = 0;
const FS_UFS: u8 = 7;

struct Entry {
    offset: u64,
    sectors: u64,
    fstype: u8,
}

struct Label {
    sector: u64,
    entries: Vec<Entry>,
}

/// Adds the partitions of the label in `slice`, or at the start of the disk, to `table`. Returns
/// false if there is no label.
pub(super) fn append(
    device: &dyn BlockDevice,
    table: &mut PartitionTable,
    slice: Option<&Partition>,
) -> Result<bool, DeviceError> {
    let start = slice.map_or(0, |slice| slice.start);
    let Some(label) = find(device, table, start)? else {
        return Ok(false);
    };
    let len = slice.map_or(device.len_bytes(), |slice| slice.declared_len);
    let base = label.base(start / label.sector, len / label.sector);
    // On a disk without slices the number of a partition is its position in the label; otherwise
    // the partitions are numbered after the slices.
    let mut next = table.partitions.iter().map(|partition| partition.index).max().unwrap_or(0);
    for ((entry, letter), place) in label.entries.iter().zip(b'a'..).zip(1u32..) {
        if entry.fstype == FS_UNUSED || entry.sectors == 0 || place as usize == RAW + 1 {
            continue;
        }
        let name = format!("{}{}", slice.map_or("", |slice| &slice.name), char::from(letter));
        let Some(relative) = entry.offset.checked_sub(base) else {
            table.note(format!("partition {name} begins before its slice: ignored"));
            continue;
        };
        next += 1;
        // 32-bit sector numbers times at most 4096 and their sum are far below 2^64.
        let declared_len = entry.sectors * label.sector;
        let partition = Partition {
            index: if slice.is_some() { next } else { place },
            name,
            label: String::new(),
            start: start + relative * label.sector,
            len: declared_len,
            declared_len,
            kind: kind(entry.fstype),
        };
        table.add(device, partition);
    }
    Ok(true)
}

fn find(
    device: &dyn BlockDevice,
    table: &mut PartitionTable,
    start: u64,
) -> Result<Option<Label>, DeviceError> {
    for sector in sector_sizes(device) {
        let Some(at) = start.checked_add(sector) else { continue };
        let Some(block) = read_bytes(device, at, 512)? else { continue };
        match parse(&block) {
            None => {}
            Some(Ok(label)) => return Ok(Some(label)),
            Some(Err(why)) => table.note(format!("the disklabel at byte {at} is damaged: {why}")),
        }
    }
    Ok(None)
}

/// `None` if the block has no label; else the label, or its error.
fn parse(block: &[u8]) -> Option<Result<Label, String>> {
    if le32(block, 0) != MAGIC || le32(block, 132) != MAGIC {
        return None;
    }
    let count = le16(block, 138);
    if count == 0 || count > MAX_PARTITIONS {
        return Some(Err(format!("{count} partitions, expected 1 to {MAX_PARTITIONS}")));
    }
    let end = HEADER + ENTRY * usize::from(count);
    let sum = block[..end].chunks_exact(2).fold(0, |sum, pair| sum ^ le16(pair, 0));
    if sum != 0 {
        return Some(Err("wrong checksum".to_owned()));
    }
    let sector = u64::from(le32(block, 40));
    if !matches!(sector, 512 | 1024 | 2048 | 4096) {
        return Some(Err(format!("sectors of {sector} bytes, expected 512 to 4096")));
    }
    let entry = |at: &[u8]| Entry {
        sectors: u64::from(le32(at, 0)),
        offset: u64::from(le32(at, 4)),
        fstype: at[12],
    };
    let entries = block[HEADER..end].chunks_exact(ENTRY).map(entry).collect();
    Some(Ok(Label { sector, entries }))
}

impl Label {
    /// The value to subtract from the entries' offsets to make them relative to the slice, which
    /// begins at sector `start` of the disk and has `len` sectors.
    fn base(&self, start: u64, len: u64) -> u64 {
        let raw = self.entries.get(RAW).filter(|raw| raw.sectors > 0);
        if let Some(raw) = raw.filter(|raw| raw.offset > 0) {
            return raw.offset;
        }
        // OpenBSD's `c` is the whole disk, and all offsets count from its start. This is assumed
        // only if the offsets cannot be relative to the slice.
        let mut volumes =
            self.entries.iter().filter(|entry| entry.fstype == FS_UFS && entry.sectors > 0);
        let too_large = |entry: &Entry| entry.offset + entry.sectors > len;
        let all_behind_start = volumes.clone().all(|entry| entry.offset >= start);
        let does_not_fit = raw.is_some_and(too_large) || volumes.any(too_large);
        if all_behind_start && does_not_fit { start } else { 0 }
    }
}

fn kind(fstype: u8) -> PartitionKind {
    match fstype {
        FS_UFS => PartitionKind::Ufs,
        1 => PartitionKind::Foreign("swap"),
        8 => PartitionKind::Foreign("FAT"),
        14 => PartitionKind::Foreign("vinum"),
        17 => PartitionKind::Foreign("ext2"),
        27 => PartitionKind::Foreign("ZFS"),
        other => PartitionKind::Unknown(other.to_string()),
    }
}
