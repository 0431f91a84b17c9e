//! The master boot record: four slices, and the logical drives of those that are extended.
//!
//! An extended slice has a chain of sectors like the MBR: the first entry of each is a logical
//! drive, the second leads to the next sector.

use super::{Partition, PartitionKind, PartitionTable, Scheme, le16, le32, read_bytes};
use crate::{BlockDevice, DeviceError};

const TABLE: usize = 446;
const ENTRY: usize = 16;
/// MBR addresses count 512-byte sectors on all known images; disks with larger sectors use GPT.
const SECTOR: u64 = 512;

/// Kinds of slices that may have a table of Solaris.
pub(super) const SOLARIS: &str = "Solaris slice";
pub(super) const SOLARIS_OR_SWAP: &str = "Linux swap or Solaris";

const TYPE_PROTECTIVE: u8 = 0xee;
const TYPES_EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
/// Most logical drives. The chain may be a circle.
const MAX_LOGICAL: u32 = 128;
/// The number of the first logical drive.
const FIRST_LOGICAL: u32 = 5;

/// One of the four entries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slice {
    kind: u8,
    start: u32,
    len: u32,
}

impl Slice {
    /// Whether the slice only protects a disk with a GPT from MBR programs.
    pub(super) fn is_protective(&self) -> bool {
        self.kind == TYPE_PROTECTIVE
    }

    fn is_extended(&self) -> bool {
        TYPES_EXTENDED.contains(&self.kind)
    }

    fn is_used(&self) -> bool {
        // A slice that begins at sector 0 would contain the table itself. BSD boot blocks have such
        // an entry for old firmware, on disks without slices.
        self.kind != 0 && self.start > 0 && self.len > 0
    }
}

/// The four entries, or `None` if sector 0 has no table.
pub(super) fn read(device: &dyn BlockDevice) -> Result<Option<[Slice; 4]>, DeviceError> {
    Ok(entries(device, 0)?.filter(|slices| slices.iter().any(Slice::is_used)))
}

/// The four entries of the table at byte `offset`, used or not, or `None` if there is no table.
fn entries(device: &dyn BlockDevice, offset: u64) -> Result<Option<[Slice; 4]>, DeviceError> {
    let Some(sector) = read_bytes(device, offset, 512)? else {
        return Ok(None);
    };
    let entry = |index: usize| &sector[TABLE + index * ENTRY..TABLE + (index + 1) * ENTRY];
    let flags_plausible = (0..4).all(|index| matches!(entry(index)[0], 0 | 0x80));
    if le16(&sector, 510) != 0xaa55 || !flags_plausible {
        return Ok(None);
    }
    let slice = |index| {
        let entry = entry(index);
        Slice { kind: entry[4], start: le32(entry, 8), len: le32(entry, 12) }
    };
    Ok(Some([slice(0), slice(1), slice(2), slice(3)]))
}

/// Lists the slices in use, and the logical drives.
pub(super) fn table(
    device: &dyn BlockDevice,
    slices: &[Slice; 4],
) -> Result<PartitionTable, DeviceError> {
    let mut table = PartitionTable::new(Scheme::Mbr);
    for (slice, index) in slices.iter().zip(1u32..).filter(|(slice, _)| slice.is_used()) {
        table.add(device, partition(slice, index, slice.start.into()));
    }
    let mut next = FIRST_LOGICAL;
    for slice in slices.iter().filter(|slice| slice.is_used() && slice.is_extended()) {
        logical_drives(device, slice, &mut next, &mut table)?;
    }
    Ok(table)
}

fn partition(slice: &Slice, index: u32, sector: u64) -> Partition {
    let declared_len = u64::from(slice.len) * SECTOR;
    Partition {
        index,
        name: format!("s{index}"),
        label: String::new(),
        start: sector * SECTOR,
        len: declared_len,
        declared_len,
        kind: kind(slice.kind),
    }
}

/// Follows the chain in an extended slice.
fn logical_drives(
    device: &dyn BlockDevice,
    extended: &Slice,
    next: &mut u32,
    table: &mut PartitionTable,
) -> Result<(), DeviceError> {
    // Sums of 32-bit sector numbers fit.
    let first = u64::from(extended.start);
    let mut sector = first;
    for _ in 0..MAX_LOGICAL {
        let Some([drive, link, ..]) = entries(device, sector * SECTOR)? else {
            table.note(format!("sector {sector} has no table of logical drives: the rest is lost"));
            return Ok(());
        };
        if drive.is_used() && !drive.is_extended() {
            table.add(device, partition(&drive, *next, sector + u64::from(drive.start)));
            *next += 1;
        }
        if !(link.is_used() && link.is_extended()) {
            return Ok(());
        }
        sector = first + u64::from(link.start);
    }
    table.note(format!("more than {MAX_LOGICAL} logical drives, or a circle: the rest is ignored"));
    Ok(())
}

fn kind(mbr_type: u8) -> PartitionKind {
    match mbr_type {
        0xa5 | 0xa6 | 0xa9 => PartitionKind::BsdSlice,
        0xa8 => PartitionKind::Ufs,
        0x01 | 0x04 | 0x06 | 0x0b | 0x0c | 0x0e => PartitionKind::Foreign("FAT"),
        0x05 | 0x0f | 0x85 => PartitionKind::Foreign("extended"),
        0x82 => PartitionKind::Foreign(SOLARIS_OR_SWAP),
        0xbf => PartitionKind::Foreign(SOLARIS),
        0xab => PartitionKind::Foreign("Apple boot"),
        0xaf => PartitionKind::Foreign("HFS"),
        0xef => PartitionKind::Foreign("EFI system"),
        other => PartitionKind::Unknown(format!("{other:#04x}")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::MemDevice;

    fn entry(disk: &mut [u8], sector: usize, place: usize, kind: u8, start: u32, len: u32) {
        let at = sector * 512 + TABLE + ENTRY * place;
        disk[at + 4] = kind;
        disk[at + 8..at + 12].copy_from_slice(&start.to_le_bytes());
        disk[at + 12..at + 16].copy_from_slice(&len.to_le_bytes());
        disk[sector * 512 + 510..sector * 512 + 512].copy_from_slice(&[0x55, 0xaa]);
    }

    /// A primary slice, and an extended one with two logical drives.
    fn extended() -> Vec<u8> {
        let mut disk = vec![0; 4000 * 512];
        entry(&mut disk, 0, 0, 0x83, 10, 90);
        entry(&mut disk, 0, 1, 0x05, 100, 3000);
        entry(&mut disk, 100, 0, 0xa5, 8, 492);
        entry(&mut disk, 100, 1, 0x05, 500, 1000);
        entry(&mut disk, 600, 0, 0xa5, 16, 984);
        disk
    }

    fn names(disk: &[u8]) -> Vec<(u32, String, u64, u64)> {
        let table = crate::partition::scan(&MemDevice::from_bytes(disk)).unwrap();
        let row = |p: &Partition| (p.index, p.name.clone(), p.start / 512, p.len / 512);
        table.partitions.iter().map(row).collect()
    }

    #[test]
    fn logical_drives_are_listed_from_five() {
        let row = |index, name: &str, start, len| (index, name.to_owned(), start, len);
        let want = [
            row(1, "s1", 10, 90),
            row(2, "s2", 100, 3000),
            row(5, "s5", 108, 492),
            row(6, "s6", 616, 984),
        ];
        assert_eq!(names(&extended()), want);
    }

    #[test]
    fn a_chain_in_a_circle_ends() {
        let mut disk = extended();
        // The second sector leads to itself.
        entry(&mut disk, 600, 1, 0x05, 500, 1000);
        let table = crate::partition::scan(&MemDevice::from_bytes(&disk)).unwrap();
        assert_eq!(table.partitions.len(), 2 + MAX_LOGICAL as usize);
        assert!(table.notes[0].contains("circle"), "{:?}", table.notes);
        disk[600 * 512 + 510] = 0;
        let table = crate::partition::scan(&MemDevice::from_bytes(&disk)).unwrap();
        assert!(table.notes[0].contains("no table of logical drives"), "{:?}", table.notes);
    }
}
