//! Fitting the partition table of a disk that became larger: the backup of the table moves to the
//! new end, and the last partition reaches up to it.
//!
//! # Invariants
//! 1. [`Growth::plan`] decides everything, for the length that the disk will have, and writes
//!    nothing. A disk whose table is refused keeps its length.
//! 2. After a crash one of the two copies of the table is valid: the new backup is durable before
//!    the first copy is changed.
//! 3. A table that is damaged, or that has an unusual layout, is not changed. Nothing that the disk
//!    contains leads to a panic or to an allocation without a bound.

use std::sync::Arc;

use ffs_device::BlockDevice;
use ffs_device::partition::{self, Scheme};
use gptman::{GPT, GPTHeader, GPTPartitionEntry};

use super::stream::{DeviceStream, Recorder};
use super::table::{self, MBR_TABLE, Writes};
use super::{DiskError, MAX_PARTITIONS, SectorSize};

/// Partitions end at a multiple of this, bytes.
const ALIGN_END: u64 = 4096;
/// The type of the protective entry, which is the first of the MBR, and the place of its length in
/// sectors.
const PROTECTIVE_TYPE: u8 = 0xee;
const PROTECTIVE_LEN: usize = MBR_TABLE + 12;

/// What becomes of the last partition.
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
    /// Its length afterwards, bytes.
    pub len: u64,
}

/// The change of a table that fits it to a longer disk.
#[derive(Debug)]
pub struct Growth {
    /// The last partition.
    pub grown: Grown,
    writes: Writes,
}

/// A valid table of the usual layout.
struct Table {
    sector: SectorSize,
    header: GPTHeader,
    entries: Vec<GPTPartitionEntry>,
}

impl Growth {
    /// Plans the change of the table of `device`, a whole disk that has or will have `new_len`
    /// bytes. The file system in the partition stays as large as it is.
    ///
    /// # Errors
    /// [`DiskError::Table`] if the disk has no valid table of the usual kind, or no partition in
    /// it; [`DiskError::NotWholeSectors`]; [`DiskError::TooSmall`] if the partitions do not fit;
    /// [`DiskError::Device`].
    pub fn plan(device: &Arc<dyn BlockDevice>, new_len: u64) -> Result<Growth, DiskError> {
        let found = partition::scan(&**device).map_err(DiskError::Device)?;
        if found.scheme != Scheme::Gpt {
            return refuse("the disk has no GUID partition table");
        }
        // The backup is not looked for while the first copy is valid.
        if let Some(note) = found.notes.first() {
            return refuse(note.clone());
        }
        let Table { sector, header, entries } = table_of(device)?;
        let is_new = new_len != device.len_bytes();
        if is_new && !new_len.is_multiple_of(sector.bytes()) {
            return Err(DiskError::NotWholeSectors { size: new_len, sector: sector.bytes() });
        }
        let needs = table::first_usable(sector) + table::backup_bytes(sector);
        if new_len < needs {
            return Err(DiskError::TooSmall { size: new_len, needs });
        }
        let mut disk = Recorder::new(new_len);
        let mut gpt = GPT::new_from(&mut disk, sector.bytes(), header.disk_guid)
            .map_err(|error| table::failed(&error))?;
        gpt.header.first_usable_lba = gpt.header.first_usable_lba.max(header.first_usable_lba);
        let used = || (1..).zip(&entries).filter(|(_, entry)| entry.is_used());
        let Some((number, last)) = used().max_by_key(|(_, entry)| entry.ending_lba) else {
            return refuse("the table has no partition");
        };
        let usable = gpt.header.last_usable_lba;
        if last.ending_lba > usable || last.starting_lba > last.ending_lba {
            return refuse(format!(
                "partition {number} is in sectors {} to {}, but the last one may be {usable}",
                last.starting_lba, last.ending_lba
            ));
        }
        let whole = ALIGN_END / sector.bytes();
        let end = (usable + 1 - (usable + 1) % whole).max(last.ending_lba + 1);
        for (n, entry) in used() {
            gpt[n] = entry.clone();
        }
        gpt[number].ending_lba = end - 1;
        let protective = protective(&**device, new_len / sector.bytes())?;
        let writes = Writes::of(&mut gpt, disk, Some(protective))?;
        let bytes = |from: u64, to: u64| (to - from) * sector.bytes();
        let grown = Grown {
            number,
            label: last.partition_name.as_str().to_owned(),
            start: bytes(0, last.starting_lba),
            before: bytes(last.starting_lba, last.ending_lba + 1),
            len: bytes(last.starting_lba, end),
        };
        Ok(Growth { grown, writes })
    }

    /// Changes the table of `device`, which has the length of the plan by now.
    ///
    /// # Errors
    /// [`DiskError::Device`].
    pub fn apply(&self, device: &Arc<dyn BlockDevice>) -> Result<(), DiskError> {
        self.writes.apply(device)
    }
}

fn refuse<T>(why: impl Into<String>) -> Result<T, DiskError> {
    Err(DiskError::Table(why.into()))
}

/// The first copy of the table, with sectors of the size that gives a valid one.
fn table_of(device: &Arc<dyn BlockDevice>) -> Result<Table, DiskError> {
    let own = u64::from(device.sector_size());
    let mut sizes = [SectorSize::B512, SectorSize::B4096];
    sizes.sort_by_key(|size| size.bytes() != own);
    for sector in sizes {
        let mut stream = DeviceStream::at(device, sector.bytes());
        let Ok(header) = GPTHeader::read_from(&mut stream) else { continue };
        let entries = (header.partition_entry_lba, header.number_of_partition_entries);
        // The crate trusts these numbers.
        if header.primary_lba != 1
            || entries != (2, MAX_PARTITIONS as u32)
            || u64::from(header.size_of_partition_entry) != table::ENTRY
        {
            return refuse(
                "the table does not have the usual 128 entries of 128 bytes from sector 2 on",
            );
        }
        if let Ok(entries) = header.read_partitions(&mut stream, sector.bytes()) {
            return Ok(Table { sector, header, entries });
        }
    }
    refuse("the disk has no valid first copy of its table")
}

/// The write that gives the protective entry of the MBR its length: `sectors`, less the MBR. Fails
/// if the MBR has other entries, which are partitions of their own.
fn protective(device: &dyn BlockDevice, sectors: u64) -> Result<(u64, Vec<u8>), DiskError> {
    let mut mbr = [0; 512];
    device.read_at(0, &mut mbr).map_err(DiskError::Device)?;
    let only = mbr.get(MBR_TABLE + 4) == Some(&PROTECTIVE_TYPE)
        && mbr.get(MBR_TABLE + 16..510).is_some_and(|rest| rest.iter().all(|byte| *byte == 0));
    if !only {
        return refuse("the MBR has partitions beside the GPT (a hybrid MBR)");
    }
    let len = u32::try_from(sectors.saturating_sub(1)).unwrap_or(u32::MAX);
    Ok((PROTECTIVE_LEN as u64, len.to_le_bytes().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffs_device::MemDevice;

    const MIB: u64 = 1 << 20;

    /// A disk of `len` bytes with a partition of 2 MiB.
    fn disk(len: u64) -> Arc<dyn BlockDevice> {
        let device: Arc<dyn BlockDevice> = Arc::new(MemDevice::new(len));
        let part = super::super::BuiltPartition {
            label: "rootfs".to_owned(),
            kind: super::super::PartitionType::UFS,
            start: MIB,
            len: 2 * MIB,
            volume: None,
        };
        table::write(&device, SectorSize::B512, &[], &[part]).unwrap();
        device
    }

    /// The same bytes on a longer disk.
    fn longer(device: &dyn BlockDevice, len: u64) -> Arc<dyn BlockDevice> {
        let mut bytes = vec![0; device.len_bytes() as usize];
        device.read_at(0, &mut bytes).unwrap();
        let copy = MemDevice::new(len);
        copy.write_at(0, &bytes).unwrap();
        Arc::new(copy)
    }

    #[test]
    fn every_prefix_of_the_writes_leaves_a_table() {
        let small = disk(8 * MIB);
        let growth = Growth::plan(&small, 64 * MIB).unwrap();
        let steps = growth.writes.steps();
        assert!(steps.len() >= 3, "a backup, a table, the MBR");
        let mut lens = Vec::new();
        for done in 0..=steps.len() {
            let device = longer(&*small, 64 * MIB);
            // Also with the next write torn: its first sector alone is there.
            for torn in [false, true] {
                for (at, bytes) in &steps[..done] {
                    device.write_at(*at, bytes).unwrap();
                }
                if let Some((at, bytes)) = steps.get(done).filter(|_| torn) {
                    device.write_at(*at, &bytes[..bytes.len().min(512)]).unwrap();
                }
                let found = partition::scan(&*device).unwrap();
                assert_eq!(found.scheme, Scheme::Gpt, "after {done} writes");
                let [part] = &found.partitions[..] else { panic!("{found:?}") };
                assert_eq!((part.start, &*part.label), (MIB, "rootfs"), "after {done} writes");
                lens.push(part.len);
            }
        }
        assert_eq!((lens.first(), lens.last()), (Some(&(2 * MIB)), Some(&growth.grown.len)));
    }

    #[test]
    fn what_a_table_contains_is_not_trusted() {
        let small = disk(8 * MIB);
        let plain = |device: &Arc<dyn BlockDevice>| Growth::plan(device, 16 * MIB);
        assert!(plain(&small).is_ok());
        // Each field of the header and of the first entry gets each of these values, with right
        // checksums.
        let values = [0, 1, 33, u64::MAX, u64::MAX / 2, 1 << 63, u64::from(u32::MAX)];
        let fields = [(24, 8), (32, 8), (40, 8), (48, 8), (72, 8), (80, 4), (84, 4)];
        let places = fields.map(|(at, len)| (512 + at, len)).into_iter();
        let entry = [32, 40, 48].map(|at| (1024 + at, 8)).into_iter();
        for (at, len) in places.chain(entry) {
            for value in values {
                let device = longer(&*small, 8 * MIB);
                device.write_at(at, &value.to_le_bytes()[..len]).unwrap();
                seal(&*device);
                // Accepted or refused: without a panic, and what is accepted can be applied.
                if let Ok(growth) = plain(&device) {
                    let device = longer(&*device, 16 * MIB);
                    growth.apply(&device).unwrap();
                    assert!(partition::scan(&*device).unwrap().notes.is_empty());
                }
            }
        }
    }

    /// Corrects the checksums of the first copy.
    fn seal(device: &dyn BlockDevice) {
        let crc = |bytes: &[u8]| {
            !bytes.iter().fold(u32::MAX, |crc, byte| {
                (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
                    (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
                })
            })
        };
        let mut entries = vec![0; 128 * 128];
        device.read_at(1024, &mut entries).unwrap();
        device.write_at(512 + 88, &crc(&entries).to_le_bytes()).unwrap();
        device.write_at(512 + 16, &[0; 4]).unwrap();
        let mut header = [0; 92];
        device.read_at(512, &mut header).unwrap();
        device.write_at(512 + 16, &crc(&header).to_le_bytes()).unwrap();
    }
}
