//! Partition tables: finding the file system on a disk.
//!
//! Reads the tables of BSD disks (GPT, MBR slices with a BSD disklabel inside, a disklabel alone)
//! and of Solaris disks (the VTOC of SPARC, or of x86 in an MBR slice), lists the partitions, and
//! selects the UFS partition if there is only one. [`Window`] makes a device of a partition.
//!
//! **Invariants.**
//! 1. Every listed partition is within the device, even if its table is wrong: a partition beyond
//!    the end is truncated, and [`Partition::declared_len`] has its full length.
//! 2. Reading a table takes bounded time and memory for any content.
//! 3. Numbers are stable: an entry of the outermost table has its position in that table, from 1;
//!    partitions inside a slice are numbered after these, in order.
//!
//! The Apple label (`LABL` at byte 7168 of a file system) has no partitions and is ignored.
//!
//! **References.** spec/on-disk-format.md §19; UEFI specification, chapter 5.

mod bsdlabel;
mod gpt;
mod mbr;
mod select;
#[cfg(test)]
mod tests;
mod types;
mod vtoc;
mod window;

use std::fmt;

use crate::{BlockDevice, DeviceError};

pub use select::{Pick, Probe, SelectError, select, volumes};
pub use types::{PartitionType, UnknownType, guid_on_disk};
pub use window::Window;

/// Most notes for one table.
const MAX_NOTES: usize = 32;
/// Most partitions listed: every entry of a large GPT, and the labels of about a dozen slices.
const MAX_LISTED: usize = 512;

/// The kind of partition table.
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
    /// The label of a SPARC disk (SunOS, Solaris).
    Sun,
}

/// The type of a partition according to the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PartitionKind {
    /// A Berkeley file system.
    Ufs,
    /// A slice of a BSD system: contains a disklabel, or a file system directly.
    BsdSlice,
    /// Another type, described; certainly no UFS.
    Foreign(&'static str),
    /// A type of a GPT, by its name for gpart(8); the partition may contain anything.
    Named(&'static str),
    /// An unknown type, as in the table.
    Unknown(String),
}

impl fmt::Display for PartitionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PartitionKind::Ufs => f.write_str("UFS"),
            PartitionKind::BsdSlice => f.write_str("BSD slice"),
            PartitionKind::Foreign(what) | PartitionKind::Named(what) => f.write_str(what),
            PartitionKind::Unknown(what) => write!(f, "type {what}"),
        }
    }
}

/// A partition, as far as it is on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    /// The number that selects it: `IMAGE@index`.
    pub index: u32,
    /// Its BSD name without that of the disk: `p2`, `s1`, `s1a`, `a`.
    pub name: String,
    /// The label of the partition (GPT); may be empty.
    pub label: String,
    /// First byte on the device.
    pub start: u64,
    /// Its length on the device, bytes.
    pub len: u64,
    /// Its length according to the table, bytes; more than `len` if the image is truncated.
    pub declared_len: u64,
    /// Its type.
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

/// The partitions of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionTable {
    /// The kind of table.
    pub scheme: Scheme,
    /// Partitions in the order of their numbers.
    pub partitions: Vec<Partition>,
    /// Problems of the table, as messages for users; empty if there are none.
    pub notes: Vec<String>,
    /// Bytes of a sector of the disk. Only a GPT shows it, by the place of its header.
    pub sector_size: Option<u32>,
}

impl PartitionTable {
    fn new(scheme: Scheme) -> Self {
        Self { scheme, partitions: Vec::new(), notes: Vec::new(), sector_size: None }
    }

    fn note(&mut self, note: String) {
        if self.notes.len() < MAX_NOTES {
            self.notes.push(note);
        }
    }

    /// Adds the partition, truncated to the device; ignores one that begins beyond its end.
    fn add(&mut self, device: &dyn BlockDevice, mut partition: Partition) {
        let available = device.len_bytes().saturating_sub(partition.start);
        partition.len = partition.declared_len.min(available);
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

/// Reads the partition table of `device`, if it has one. An invalid table counts as none; a damaged
/// one gives its valid partitions, and notes.
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
        return with_labels(device, mbr::table(device, &slices)?);
    }
    let mut table = PartitionTable::new(Scheme::BsdLabel);
    match vtoc::read_sparc(device)? {
        vtoc::Sparc::Label(table) => return Ok(table),
        vtoc::Sparc::Damaged(why) => table.note(why),
        vtoc::Sparc::Absent => {}
    }
    if bsdlabel::append(device, &mut table, None)? {
        return Ok(table);
    }
    table.scheme = Scheme::Whole;
    Ok(table)
}

/// Adds the partitions of the disklabels in BSD slices, and of the tables in Solaris slices.
fn with_labels(
    device: &dyn BlockDevice,
    mut table: PartitionTable,
) -> Result<PartitionTable, DeviceError> {
    for slice in table.partitions.clone() {
        match slice.kind {
            PartitionKind::BsdSlice => {
                bsdlabel::append(device, &mut table, Some(&slice))?;
            }
            PartitionKind::Foreign(mbr::SOLARIS | mbr::SOLARIS_OR_SWAP) => {
                vtoc::append_x86(device, &mut table, &slice)?;
            }
            _ => {}
        }
    }
    Ok(table)
}

/// Sector sizes that a table may be based on, the device's own first.
fn sector_sizes(device: &dyn BlockDevice) -> impl Iterator<Item = u64> {
    let own = u64::from(device.sector_size());
    std::iter::once(own).chain([512, 4096].into_iter().filter(move |&size| size != own))
}

/// `len` bytes at `offset`, or `None` if the device ends before.
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

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(bytes, at))
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(bytes, at))
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
