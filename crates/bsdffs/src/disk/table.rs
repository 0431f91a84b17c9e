//! The partition table of a new disk: the protective MBR with boot code, the GPT, and its backup.

use std::sync::Arc;

use ffs_device::BlockDevice;
use ffs_device::partition::guid_on_disk;
use gptman::{GPT, GPTPartitionEntry};
use sha2::{Digest, Sha256};

use super::stream::Recorder;
use super::{BuiltPartition, DiskError, MAX_PARTITIONS, SectorSize};

/// The place of the table in the MBR, behind the code, bytes.
pub(super) const MBR_TABLE: usize = 446;
/// Bytes of an entry.
pub(super) const ENTRY: u64 = 128;

/// Bytes of the entries, in whole sectors.
fn entries_bytes(sector: SectorSize) -> u64 {
    (MAX_PARTITIONS as u64 * ENTRY).next_multiple_of(sector.bytes())
}

/// The first byte that a partition may have: behind the MBR, the header, and the entries.
pub(super) fn first_usable(sector: SectorSize) -> u64 {
    2 * sector.bytes() + entries_bytes(sector)
}

/// Bytes at the end of the disk that have the backup of the table.
pub(super) fn backup_bytes(sector: SectorSize) -> u64 {
    sector.bytes() + entries_bytes(sector)
}

/// Writes the boot code and the table to `disk`.
pub(super) fn write(
    disk: &Arc<dyn BlockDevice>,
    sector: SectorSize,
    pmbr: &[u8],
    partitions: &[BuiltPartition],
) -> Result<(), DiskError> {
    let mut seed = Sha256::new();
    seed.update(disk.len_bytes().to_le_bytes());
    seed.update(pmbr);
    for BuiltPartition { label, kind, start, len, .. } in partitions {
        seed.update(format!("{kind}\0{label}\0{start}\0{len}\0"));
    }
    let seed = seed.finalize();
    let unique = |n: usize| made_guid(&seed, n);
    let mut image = Recorder::new(disk.len_bytes());
    let mut gpt =
        GPT::new_from(&mut image, sector.bytes(), unique(0)).map_err(|error| failed(&error))?;
    for (n, part) in (1..).zip(partitions) {
        gpt[n] = GPTPartitionEntry {
            partition_type_guid: part.kind.on_disk(),
            unique_partition_guid: unique(n as usize),
            starting_lba: part.start / sector.bytes(),
            ending_lba: (part.start + part.len) / sector.bytes() - 1,
            attribute_bits: 0,
            partition_name: part.label.as_str().into(),
        };
    }
    GPT::write_protective_mbr_into(&mut image, sector.bytes()).map_err(|error| failed(&error))?;
    let code = pmbr.get(..MBR_TABLE).unwrap_or(pmbr);
    Writes::of(&mut gpt, image, Some((0, code.to_vec())))?.apply(disk)
}

/// The writes that store a table: the backup, then the first copy and the first sector.
#[derive(Debug)]
pub(super) struct Writes {
    backup: Vec<(u64, Vec<u8>)>,
    first: Vec<(u64, Vec<u8>)>,
}

impl Writes {
    /// Those of `gpt`, with those that `disk` has already, and `other` in the first sector.
    pub(super) fn of(
        gpt: &mut GPT,
        mut disk: Recorder,
        other: Option<(u64, Vec<u8>)>,
    ) -> Result<Writes, DiskError> {
        gpt.write_into(&mut disk).map_err(|error| failed(&error))?;
        let sector = gpt.sector_size;
        let backup = gpt.header.last_usable_lba * sector;
        let headers = [gpt.header.primary_lba, gpt.header.backup_lba].map(|lba| lba * sector);
        let mut writes = disk.writes;
        for (at, bytes) in &mut writes {
            if headers.contains(at) {
                // The rest of the sector is zeros, as UEFI asks.
                bytes.resize(usize::try_from(sector).unwrap_or(bytes.len()), 0);
            }
        }
        writes.extend(other);
        let (backup, first): (Vec<_>, Vec<_>) =
            writes.into_iter().partition(|(at, _)| *at > backup);
        Ok(Writes { backup: joined(backup), first: joined(first) })
    }

    /// Writes the backup, which is at the end of the disk, makes it durable, and then the rest.
    pub(super) fn apply(&self, disk: &Arc<dyn BlockDevice>) -> Result<(), DiskError> {
        for writes in [&self.backup, &self.first] {
            for (at, bytes) in writes {
                disk.write_at(*at, bytes).map_err(DiskError::Device)?;
            }
            disk.flush().map_err(DiskError::Device)?;
        }
        Ok(())
    }

    /// All of them, in order.
    #[cfg(test)]
    pub(super) fn steps(&self) -> Vec<(u64, Vec<u8>)> {
        self.backup.iter().chain(&self.first).cloned().collect()
    }
}

/// The same writes, by place, each with those that follow it directly.
fn joined(mut writes: Vec<(u64, Vec<u8>)>) -> Vec<(u64, Vec<u8>)> {
    // A later write to the same place stays behind an earlier one.
    writes.sort_by_key(|(at, _)| *at);
    let mut all: Vec<(u64, Vec<u8>)> = Vec::new();
    for (at, bytes) in writes {
        match all.last_mut() {
            Some((start, before)) if *start + before.len() as u64 == at => before.extend(bytes),
            _ => all.push((at, bytes)),
        }
    }
    all
}

/// A GUID of version 8, from what the table has: the same disk gets the same GUIDs.
fn made_guid(seed: &[u8], n: usize) -> [u8; 16] {
    let hash = Sha256::new().chain_update(seed).chain_update((n as u64).to_le_bytes()).finalize();
    let mut bytes = [0; 16];
    bytes.iter_mut().zip(hash).for_each(|(byte, of)| *byte = of);
    let text = u128::from_be_bytes(bytes);
    let version = text & !(0xf << 76) | 8 << 76;
    guid_on_disk(version & !(0b11 << 62) | 0b10 << 62)
}

pub(super) fn failed(error: &gptman::Error) -> DiskError {
    DiskError::Table(error.to_string())
}
