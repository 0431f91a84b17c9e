//! Partitions: where on a disk a file system lies.
//!
//! **Purpose.** Reads the tables BSD disks carry - GPT, MBR slices with a BSD disklabel inside, a
//! disklabel alone - lists what they hold, and picks the one UFS partition if there is just one.
//! [`Window`] makes a partition a device of its own.
//!
//! **Invariants.**
//! 1. Every listed partition lies within the device, however wrong its table: what reaches beyond
//!    the end is cut, and [`Partition::declared_len`] says so.
//! 2. Reading a table takes bounded time and memory, whatever its bytes.
//! 3. Numbers are stable: an entry of the outermost table has its place in that table, from 1;
//!    partitions inside a slice follow after the last of these, in order.
//!
//! The Apple label (`LABL` at byte 7168 of a file system) describes no partitions and is ignored.
//! Logical drives in extended MBR partitions are not followed.
//!
//! **References.** spec/on-disk-format.md §19; UEFI specification, chapter 5.

mod bsdlabel;
mod gpt;
mod mbr;
mod select;
#[cfg(test)]
mod tests;
mod window;

use std::fmt;

use crate::{BlockDevice, DeviceError};

pub use select::{Pick, Probe, SelectError, select};
pub use window::Window;

/// The most a hostile table may make us say.
const MAX_NOTES: usize = 32;
/// The most partitions listed: every entry of a large GPT, and the labels of some dozen slices.
const MAX_LISTED: usize = 512;

/// What kind of table a disk carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// None: the whole disk is one volume.
    Whole,
    /// GUID partition table.
    Gpt,
    /// MBR slices, with or without disklabels inside.
    Mbr,
    /// A BSD disklabel without slices ("dangerously dedicated").
    BsdLabel,
}

/// What a table says a partition is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionKind {
    /// A Berkeley file system.
    Ufs,
    /// A slice of a BSD system: holds a disklabel, or a file system directly.
    BsdSlice,
    /// Something else, described; certainly no UFS.
    Foreign(&'static str),
    /// A type we do not know, as the table spells it.
    Unknown(String),
}

impl fmt::Display for PartitionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartitionKind::Ufs => f.write_str("UFS"),
            PartitionKind::BsdSlice => f.write_str("BSD slice"),
            PartitionKind::Foreign(what) => f.write_str(what),
            PartitionKind::Unknown(what) => write!(f, "type {what}"),
        }
    }
}

/// One partition, as far as it lies on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// The number that picks it: `IMAGE@index`.
    pub index: u32,
    /// Its BSD name without the disk's: `p2`, `s1`, `s1a`, `a`.
    pub name: String,
    /// The label its owner gave it (GPT); may be empty.
    pub label: String,
    /// First byte on the device.
    pub start: u64,
    /// Bytes that lie on the device.
    pub len: u64,
    /// Bytes the table claims; more than `len` if the image is cut short.
    pub declared_len: u64,
    /// What it is for.
    pub kind: PartitionKind,
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Partition { index, name, label, start, len, declared_len, kind } = self;
        write!(f, "@{index}  {name}  {kind}, {declared_len} bytes at byte {start}")?;
        if !label.is_empty() {
            write!(f, ", \"{label}\"")?;
        }
        if len < declared_len {
            write!(f, " (only {len} of them within the image)")?;
        }
        Ok(())
    }
}

/// What a disk holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionTable {
    /// The kind of table.
    pub scheme: Scheme,
    /// Partitions in the order of their numbers.
    pub partitions: Vec<Partition>,
    /// What is wrong with the table, for people; empty if nothing is.
    pub notes: Vec<String>,
}

impl PartitionTable {
    fn new(scheme: Scheme) -> Self {
        Self { scheme, partitions: Vec::new(), notes: Vec::new() }
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(note);
        }
    }

    /// Lists the partition, cut to the device; leaves out what lies wholly beyond it.
    fn add(&mut self, device: &dyn BlockDevice, mut partition: Partition) {
        let room = device.len_bytes().saturating_sub(partition.start);
        partition.len = partition.declared_len.min(room);
        if partition.len == 0 {
            let Partition { name, start, .. } = &partition;
            self.note(format!(
                "partition {name} begins at byte {start}, beyond the end of the image"
            ));
        } else if self.partitions.len() == MAX_LISTED {
            self.note(format!("more than {MAX_LISTED} partitions: the rest is ignored"));
        } else {
            if partition.len < partition.declared_len {
                let Partition { name, len, declared_len, .. } = &partition;
                self.note(format!(
                    "partition {name} of {declared_len} bytes reaches beyond the end of the image: \
                     only {len} bytes of it are here"
                ));
            }
            self.partitions.push(partition);
        }
    }
}

/// Reads the partition table of `device`, if it has one. A table that cannot be read as one is
/// none; a damaged one yields what is sound in it, and notes.
///
/// # Errors
/// Only if the device cannot be read.
pub fn scan(device: &dyn BlockDevice) -> Result<PartitionTable, DeviceError> {
    let slices = mbr::read(device)?;
    let protective =
        slices.as_ref().is_some_and(|slices| slices.iter().any(mbr::Slice::is_protective));
    if slices.is_none() || protective {
        if let Some(table) = gpt::read(device, protective)? {
            return with_labels(device, table);
        }
    } else if let Some(slices) = slices {
        return with_labels(device, mbr::table(device, &slices));
    }
    let mut table = PartitionTable::new(Scheme::BsdLabel);
    if bsdlabel::append(device, &mut table, None)? {
        return Ok(table);
    }
    table.scheme = Scheme::Whole;
    Ok(table)
}

/// Adds what the disklabels inside BSD slices list.
fn with_labels(
    device: &dyn BlockDevice,
    mut table: PartitionTable,
) -> Result<PartitionTable, DeviceError> {
    let slices: Vec<Partition> = table
        .partitions
        .iter()
        .filter(|partition| partition.kind == PartitionKind::BsdSlice)
        .cloned()
        .collect();
    for slice in slices {
        bsdlabel::append(device, &mut table, Some(&slice))?;
    }
    Ok(table)
}

/// Sector sizes a table may have been written for, the device's own first.
fn sector_sizes(device: &dyn BlockDevice) -> impl Iterator<Item = u64> {
    let own = u64::from(device.sector_size());
    std::iter::once(own).chain([512, 4096].into_iter().filter(move |&size| size != own))
}

/// `len` bytes at `offset`, or `None` where the device ends before.
fn read_bytes(
    device: &dyn BlockDevice,
    offset: u64,
    len: usize,
) -> Result<Option<Vec<u8>>, DeviceError> {
    if offset.checked_add(len as u64).is_none_or(|end| end > device.len_bytes()) {
        return Ok(None);
    }
    let mut bytes = vec![0; len];
    device.read_at(offset, &mut bytes)?;
    Ok(Some(bytes))
}

/// The `N` bytes at `at`; zeros beyond the end of `bytes`.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let found = at.checked_add(N).and_then(|end| bytes.get(at..end));
    found.and_then(|slice| slice.try_into().ok()).unwrap_or([0; N])
}

fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}
