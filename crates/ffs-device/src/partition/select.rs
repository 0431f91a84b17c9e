//! Selecting a partition.

use std::fmt;

use super::{Partition, PartitionKind, PartitionTable, Scheme, Window};
use crate::{BlockDevice, DeviceError};

/// Whether a device has a file system of the wanted kind. The result is false for a device that
/// cannot be read.
pub type Probe = fn(&dyn BlockDevice) -> bool;

/// How the user specified the partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    /// Not at all: select it automatically.
    Auto,
    /// The disk itself; partition tables are ignored.
    Whole,
    /// By its number as listed.
    Number(u32),
    /// By its BSD name as listed: `p2`, `s1a`.
    Name(String),
}

impl fmt::Display for Pick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pick::Auto => f.write_str("by itself"),
            Pick::Whole => f.write_str("@0"),
            Pick::Number(number) => write!(f, "@{number}"),
            Pick::Name(name) => write!(f, "@{name}"),
        }
    }
}

/// Why no partition was selected.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SelectError {
    /// The requested partition does not exist.
    #[error("there is no partition {pick}; {}", listing(.table))]
    NoSuchPartition {
        /// The request.
        pick: Pick,
        /// The partitions that exist.
        table: PartitionTable,
    },
    /// Several partitions match.
    #[error(
        "several file systems could be meant{}: add @N to name one of\n{}",
        if *.whole { " (the whole disk, @0, looks like one too)" } else { "" },
        lines(.candidates)
    )]
    Ambiguous {
        /// The matching partitions.
        candidates: Vec<Partition>,
        /// Whether the disk as a whole matches too.
        whole: bool,
    },
    /// There are partitions, but none matches.
    #[error("no UFS partition found; {}", listing(.table))]
    NoCandidate {
        /// The partitions that exist.
        table: PartitionTable,
    },
    /// A partition could not be read.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

fn lines(partitions: &[Partition]) -> String {
    let lines: Vec<String> = partitions.iter().map(|partition| format!("  {partition}")).collect();
    lines.join("\n")
}

fn listing(table: &PartitionTable) -> String {
    let mut text = match (table.scheme, table.partitions.is_empty()) {
        (Scheme::Whole, _) => "the image has no partition table (use it without @N)".to_owned(),
        (_, true) => "the partition table lists none".to_owned(),
        (_, false) => format!("there are\n{}", lines(&table.partitions)),
    };
    for note in &table.notes {
        text.push_str("\nnote: ");
        text.push_str(note);
    }
    text
}

/// The partition of `device` that `pick` selects; `None` is the disk as a whole.
///
/// With [`Pick::Auto`], the only partition that `probe` recognises is selected, or the whole disk
/// if it is recognised and no partition is. If nothing is recognised, or without a probe, the types
/// in the table decide, so that a file system with a lost superblock is still accessible. A disk
/// without a table is selected as a whole.
///
/// # Errors
/// The partition does not exist, none matches, or several match.
pub fn select(
    device: &dyn BlockDevice,
    table: &PartitionTable,
    pick: &Pick,
    probe: Option<Probe>,
) -> Result<Option<Partition>, SelectError> {
    let found = match pick {
        Pick::Whole | Pick::Number(0) => return Ok(None),
        Pick::Auto => return find(device, table, probe),
        Pick::Number(number) => table.partitions.iter().find(|p| p.index == *number),
        Pick::Name(name) => table.partitions.iter().find(|p| p.name == *name),
    };
    match found {
        Some(partition) => Ok(Some(partition.clone())),
        None => Err(SelectError::NoSuchPartition { pick: pick.clone(), table: table.clone() }),
    }
}

fn find(
    device: &dyn BlockDevice,
    table: &PartitionTable,
    probe: Option<Probe>,
) -> Result<Option<Partition>, SelectError> {
    if table.scheme == Scheme::Whole {
        return Ok(None);
    }
    if let Some(probe) = probe {
        let hits = volumes(device, table, probe)?;
        // A partition that begins at the start of the disk has the same file system as the disk,
        // with the right end.
        let whole = hits.iter().all(|hit| hit.start > 0) && probe(device);
        match (hits.as_slice(), whole) {
            ([], true) => return Ok(None),
            ([], false) => {}
            ([only], false) => return Ok(Some(only.clone())),
            _ => return Err(SelectError::Ambiguous { candidates: hits, whole }),
        }
    }
    let of_kind = |kind: PartitionKind| -> Vec<Partition> {
        innermost(table).filter(|partition| partition.kind == kind).cloned().collect()
    };
    let mut candidates = of_kind(PartitionKind::Ufs);
    if candidates.is_empty() {
        candidates = of_kind(PartitionKind::BsdSlice);
    }
    match candidates.as_slice() {
        [] => Err(SelectError::NoCandidate { table: table.clone() }),
        [only] => Ok(Some(only.clone())),
        _ => Err(SelectError::Ambiguous { candidates, whole: false }),
    }
}

/// The partitions for which `probe` is true. Of those that begin at the same byte only the
/// innermost is examined.
///
/// # Errors
/// A partition is not within the device.
pub fn volumes(
    device: &dyn BlockDevice,
    table: &PartitionTable,
    probe: Probe,
) -> Result<Vec<Partition>, DeviceError> {
    let mut hits = Vec::new();
    for partition in innermost(table) {
        if probe(&Window::of(device, partition, "")?) {
            hits.push(partition.clone());
        }
    }
    Ok(hits)
}

/// The partitions that may be a UFS. Of those that begin at the same byte only the last one is
/// included, which is the innermost.
fn innermost(table: &PartitionTable) -> impl Iterator<Item = &Partition> {
    let all = &table.partitions;
    let foreign = |partition: &Partition| matches!(partition.kind, PartitionKind::Foreign(_));
    all.iter().enumerate().filter_map(move |(place, partition)| {
        let inside = |later: &Partition| later.start == partition.start && !foreign(later);
        let covered = all.iter().skip(place + 1).any(inside);
        (!covered && !foreign(partition)).then_some(partition)
    })
}
