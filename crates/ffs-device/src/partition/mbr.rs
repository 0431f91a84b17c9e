//! The master boot record: four slices.

use super::{Partition, PartitionKind, PartitionTable, Scheme, le16, le32, read_bytes};
use crate::{BlockDevice, DeviceError};

const TABLE: usize = 446;
const ENTRY: usize = 16;
/// MBR addresses count 512-byte sectors on all known images; disks with larger sectors use GPT.
const SECTOR: u64 = 512;

const TYPE_PROTECTIVE: u8 = 0xee;

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

    fn is_used(&self) -> bool {
        // A slice that begins at sector 0 would contain the table itself. BSD boot blocks have such
        // an entry for old firmware, on disks without slices.
        self.kind != 0 && self.start > 0 && self.len > 0
    }
}

/// The four entries, or `None` if sector 0 has no table.
pub(super) fn read(device: &dyn BlockDevice) -> Result<Option<[Slice; 4]>, DeviceError> {
    let Some(sector) = read_bytes(device, 0, 512)? else {
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
    let slices = [slice(0), slice(1), slice(2), slice(3)];
    Ok(slices.iter().any(Slice::is_used).then_some(slices))
}

/// Lists the slices in use.
pub(super) fn table(device: &dyn BlockDevice, slices: &[Slice; 4]) -> PartitionTable {
    let mut table = PartitionTable::new(Scheme::Mbr);
    for (slice, index) in slices.iter().zip(1u32..).filter(|(slice, _)| slice.is_used()) {
        let declared_len = u64::from(slice.len) * SECTOR;
        let partition = Partition {
            index,
            name: format!("s{index}"),
            label: String::new(),
            start: u64::from(slice.start) * SECTOR,
            len: declared_len,
            declared_len,
            kind: kind(slice.kind),
        };
        table.add(device, partition);
    }
    table
}

fn kind(mbr_type: u8) -> PartitionKind {
    match mbr_type {
        0xa5 | 0xa6 | 0xa9 => PartitionKind::BsdSlice,
        0xa8 => PartitionKind::Ufs,
        0x01 | 0x04 | 0x06 | 0x0b | 0x0c | 0x0e => PartitionKind::Foreign("FAT"),
        0x05 | 0x0f | 0x85 => PartitionKind::Foreign("extended"),
        0xab => PartitionKind::Foreign("Apple boot"),
        0xaf => PartitionKind::Foreign("HFS"),
        0xef => PartitionKind::Foreign("EFI system"),
        other => PartitionKind::Unknown(format!("{other:#04x}")),
    }
}
