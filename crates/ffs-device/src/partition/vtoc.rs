//! The tables of Solaris: the label of SPARC disks in sector 0, big-endian, and the VTOC of x86
//! disks in sector 1 of an MBR slice, little-endian.
//!
//! **References.** `sys/dklabel.h` and `sys/vtoc.h` of Solaris; spec/on-disk-format.md §19.

use super::{Partition, PartitionKind, PartitionTable, Scheme, be16, be32, le16, le32, read_bytes};
use crate::{BlockDevice, DeviceError};

const SECTOR: u64 = 512;
const LABEL_MAGIC: u16 = 0xdabe;
const VTOC_SANITY: u32 = 0x600d_deee;
const VTOC_VERSION: u32 = 1;
const SPARC_PARTITIONS: usize = 8;
const X86_PARTITIONS: usize = 16;

/// The label of a SPARC disk.
pub(super) enum Sparc {
    Absent,
    Label(PartitionTable),
    /// What is wrong with a label that has the magic number.
    Damaged(String),
}

/// Reads the label of a SPARC disk.
pub(super) fn read_sparc(device: &dyn BlockDevice) -> Result<Sparc, DeviceError> {
    let Some(block) = read_bytes(device, 0, 512)? else { return Ok(Sparc::Absent) };
    if be16(&block, 508) != LABEL_MAGIC {
        return Ok(Sparc::Absent);
    }
    let damaged = |why: String| Ok(Sparc::Damaged(format!("Sun label in sector 0: {why}")));
    let stored = be16(&block, 510);
    let sum = block[..510].chunks_exact(2).fold(0, |sum, pair| sum ^ be16(pair, 0));
    if stored != sum {
        return damaged(format!("checksum {stored:#06x}, expected {sum:#06x}"));
    }
    // Partitions begin at cylinders.
    let (tracks, sectors) = (be16(&block, 436), be16(&block, 438));
    let cylinder = u64::from(tracks) * u64::from(sectors);
    if cylinder == 0 {
        return damaged(format!("{tracks} tracks of {sectors} sectors, expected at least 1 of 1"));
    }
    // Before Solaris the label had no types.
    let typed = be32(&block, 188) == VTOC_SANITY;
    let mut table = PartitionTable::new(Scheme::Sun);
    for (place, letter) in (0..SPARC_PARTITIONS).zip('a'..) {
        let (start, sectors) = (be32(&block, 444 + 8 * place), be32(&block, 448 + 8 * place));
        let tag = if typed { be16(&block, 142 + 4 * place) } else { 0 };
        let whole = !typed && place == 2;
        if sectors == 0 {
            continue;
        }
        table.add(
            device,
            Partition {
                index: place as u32 + 1,
                name: letter.to_string(),
                label: String::new(),
                // Below 2^32 cylinders of below 2^32 sectors of 2^9 bytes.
                start: u64::from(start).saturating_mul(cylinder).saturating_mul(SECTOR),
                len: 0,
                declared_len: u64::from(sectors) * SECTOR,
                kind: if whole { PartitionKind::Foreign(WHOLE) } else { kind(tag) },
            },
        );
    }
    Ok(Sparc::Label(table))
}

/// Adds the partitions of the VTOC in `slice`, if there is one.
pub(super) fn append_x86(
    device: &dyn BlockDevice,
    table: &mut PartitionTable,
    slice: &Partition,
) -> Result<(), DeviceError> {
    let Some(block) = read_bytes(device, slice.start.saturating_add(SECTOR), 512)? else {
        return Ok(());
    };
    if le32(&block, 12) != VTOC_SANITY {
        return Ok(());
    }
    let (name, version) = (&slice.name, le32(&block, 16));
    if version != VTOC_VERSION {
        table.note(format!(
            "the VTOC in {name} has version {version}, expected {VTOC_VERSION}: ignored"
        ));
        return Ok(());
    }
    let sector = match le16(&block, 28) {
        0 => SECTOR,
        size => u64::from(size),
    };
    let stored = usize::from(le16(&block, 30));
    if stored > X86_PARTITIONS {
        table.note(format!(
            "the VTOC in {name} has {stored} partitions, expected at most {X86_PARTITIONS}: the \
             rest is ignored"
        ));
    }
    let count = stored.min(X86_PARTITIONS);
    let mut next = table.partitions.iter().map(|partition| partition.index).max().unwrap_or(0);
    for (place, letter) in (0..count).zip('a'..) {
        let at = 72 + 12 * place;
        let (tag, start, sectors) = (le16(&block, at), le32(&block, at + 4), le32(&block, at + 8));
        if sectors == 0 {
            continue;
        }
        next += 1;
        table.add(
            device,
            Partition {
                index: next,
                name: format!("{}{letter}", slice.name),
                label: String::new(),
                // 32-bit numbers of sectors of 16 bits.
                start: slice.start.saturating_add(u64::from(start) * sector),
                len: 0,
                declared_len: u64::from(sectors) * sector,
                kind: kind(tag),
            },
        );
    }
    Ok(())
}

const WHOLE: &str = "the whole disk";

fn kind(tag: u16) -> PartitionKind {
    match tag {
        2 | 4 | 7 | 8 => PartitionKind::Ufs,
        1 => PartitionKind::Foreign("boot"),
        3 => PartitionKind::Foreign("swap"),
        5 => PartitionKind::Foreign(WHOLE),
        9 => PartitionKind::Foreign("alternate sectors"),
        other => PartitionKind::Unknown(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use crate::MemDevice;
    use crate::partition::scan;

    fn rows(table: &PartitionTable) -> Vec<(u32, &str, u64, u64, String)> {
        let row = |p| {
            let Partition { index, name, start, len, kind, .. }: &Partition = p;
            (*index, name.as_str(), start / 512, len / 512, kind.to_string())
        };
        table.partitions.iter().map(row).collect()
    }

    #[test]
    fn the_label_of_a_sparc_disk_counts_cylinders() {
        let mut disk = vec![0; 4000 * 512];
        let mut put = |at: usize, bytes: &[u8]| disk[at..at + bytes.len()].copy_from_slice(bytes);
        put(188, &VTOC_SANITY.to_be_bytes());
        put(436, &4u16.to_be_bytes());
        put(438, &25u16.to_be_bytes());
        for (place, tag, start, len) in [(0, 2u16, 0u32, 1000u32), (1, 3, 10, 500), (2, 5, 0, 4000)]
        {
            put(142 + 4 * place, &tag.to_be_bytes());
            put(444 + 8 * place, &start.to_be_bytes());
            put(448 + 8 * place, &len.to_be_bytes());
        }
        put(508, &LABEL_MAGIC.to_be_bytes());
        let sum = disk[..510].chunks_exact(2).fold(0, |sum, pair| sum ^ be16(pair, 0));
        disk[510..512].copy_from_slice(&sum.to_be_bytes());
        let table = scan(&MemDevice::from_bytes(&disk)).unwrap();
        assert_eq!(table.scheme, Scheme::Sun);
        let row = |i, name, start, len, kind: &str| (i, name, start, len, kind.to_owned());
        assert_eq!(
            rows(&table),
            [
                row(1, "a", 0, 1000, "UFS"),
                row(2, "b", 1000, 500, "swap"),
                row(3, "c", 0, 4000, WHOLE),
            ]
        );
        disk[0] ^= 1;
        let damaged = scan(&MemDevice::from_bytes(&disk)).unwrap();
        assert_eq!(damaged.scheme, Scheme::Whole);
        assert!(damaged.notes[0].contains("checksum 0x"), "{:?}", damaged.notes);
        // No sectors in a track, with the checksum of that.
        disk[0] ^= 1;
        disk[438..440].fill(0);
        let sum = disk[..510].chunks_exact(2).fold(0, |sum, pair| sum ^ be16(pair, 0));
        disk[510..512].copy_from_slice(&sum.to_be_bytes());
        let damaged = scan(&MemDevice::from_bytes(&disk)).unwrap();
        assert_eq!(
            damaged.notes,
            ["Sun label in sector 0: 4 tracks of 0 sectors, expected at least 1 of 1"]
        );
    }

    #[test]
    fn the_table_of_an_x86_slice_counts_from_the_slice() {
        let mut disk = vec![0; 4000 * 512];
        let mut put = |at: usize, bytes: &[u8]| disk[at..at + bytes.len()].copy_from_slice(bytes);
        put(446 + 4, &[0xbf]);
        put(446 + 8, &100u32.to_le_bytes());
        put(446 + 12, &3900u32.to_le_bytes());
        put(510, &[0x55, 0xaa]);
        let label = 101 * 512;
        put(label + 12, &VTOC_SANITY.to_le_bytes());
        put(label + 16, &1u32.to_le_bytes());
        put(label + 28, &512u16.to_le_bytes());
        put(label + 30, &16u16.to_le_bytes());
        for (place, tag, start, len) in [(0, 2u16, 50u32, 1000u32), (2, 5, 0, 3900)] {
            put(label + 72 + 12 * place, &tag.to_le_bytes());
            put(label + 76 + 12 * place, &start.to_le_bytes());
            put(label + 80 + 12 * place, &len.to_le_bytes());
        }
        for (at, value, why) in [
            (30, 17u16, "the VTOC in s1 has 17 partitions, expected at most 16"),
            (16, 2, "the VTOC in s1 has version 2, expected 1"),
        ] {
            let mut damaged = disk.clone();
            damaged[label + at..label + at + 2].copy_from_slice(&value.to_le_bytes());
            let table = scan(&MemDevice::from_bytes(&damaged)).unwrap();
            assert!(table.notes[0].starts_with(why), "{:?}", table.notes);
        }
        let table = scan(&MemDevice::from_bytes(&disk)).unwrap();
        let row = |i, name, start, len, kind: &str| (i, name, start, len, kind.to_owned());
        assert_eq!(
            rows(&table),
            [
                row(1, "s1", 100, 3900, "Solaris slice"),
                row(2, "s1a", 150, 1000, "UFS"),
                row(3, "s1c", 100, 3900, WHOLE),
            ]
        );
    }
}
