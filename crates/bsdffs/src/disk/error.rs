//! Why a disk could not be built or changed.

use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ffs_device::{DeviceError, host_words};

use super::MAX_NAME;
use crate::build::BuildError;
use crate::text::{escape, human_size};

/// Why a disk could not be built or changed.
#[derive(Debug)]
#[non_exhaustive]
pub enum DiskError {
    /// The size of the disk is not a number of sectors.
    NotWholeSectors {
        /// The size, bytes.
        size: u64,
        /// Bytes of a sector.
        sector: u64,
    },
    /// The disk is too small for the partition table.
    TooSmall {
        /// Its size, bytes.
        size: u64,
        /// The size of the table and its backup, bytes.
        needs: u64,
    },
    /// The table has no entry for so many partitions.
    TooManyPartitions,
    /// The table cannot have this label.
    BadLabel(String),
    /// Two partitions have this label.
    SameLabel(String),
    /// The boot code has no bytes.
    EmptyBootCode,
    /// The boot code is too long.
    BootCodeTooLong {
        /// Its length, bytes.
        len: usize,
        /// The greatest length, bytes.
        most: u64,
    },
    /// A file cannot be read.
    Source {
        /// Its path.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
    /// A file cannot be on a FAT volume.
    NotForFat {
        /// Its path.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// A volume is larger than FAT32 can be.
    FatTooLarge {
        /// Its size, bytes.
        size: u64,
        /// The greatest size, bytes.
        most: u64,
    },
    /// A disk is larger than a file can be.
    TooLarge {
        /// Its size, bytes.
        size: u64,
    },
    /// The observer cancelled the build.
    Cancelled,
    /// The content of a partition is longer than its size.
    ContentTooLong {
        /// Its length, bytes.
        len: u64,
        /// The size of the partition, bytes.
        most: u64,
    },
    /// The rest of the disk is too small for the partition.
    TooLong {
        /// Bytes that are left.
        has: u64,
        /// Bytes that the partition needs.
        needs: u64,
    },
    /// The FAT volume has too little space.
    FatTooSmall {
        /// Its size, bytes.
        size: u64,
        /// The size that the files need, bytes.
        needs: u64,
    },
    /// The disk cannot be read or written.
    Device(DeviceError),
    /// The disk has no partition table that can be changed.
    Table(String),
    /// The file cannot be made, or a UFS volume cannot be built.
    Build(BuildError),
    /// An error of one partition.
    Partition {
        /// Its label.
        label: String,
        /// The error.
        error: Box<DiskError>,
    },
}

impl DiskError {
    pub(super) fn in_partition(self, label: &str) -> DiskError {
        DiskError::Partition { label: label.to_owned(), error: Box::new(self) }
    }

    /// The error itself, without the label of the partition.
    #[must_use]
    pub fn inner(&self) -> &DiskError {
        match self {
            DiskError::Partition { error, .. } => error.inner(),
            other => other,
        }
    }
}

impl From<BuildError> for DiskError {
    fn from(error: BuildError) -> DiskError {
        match error {
            BuildError::DeviceTooSmall { has, needs } => DiskError::TooLong { has, needs },
            other => DiskError::Build(other),
        }
    }
}

/// A path without characters that change a terminal.
fn shown(path: &Path) -> String {
    escape(path.as_os_str().as_bytes())
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DiskError::NotWholeSectors { size, sector } => {
                write!(f, "a size of {size} bytes is not one or more sectors of {sector} bytes")
            }
            DiskError::TooSmall { size, needs } => {
                write!(f, "has {size} bytes, but the partition table alone needs {needs}")
            }
            DiskError::TooManyPartitions => f.write_str("a GPT has at most 128 partitions"),
            DiskError::BadLabel(label) => write!(
                f,
                "the label {label:?} is not 1 to {MAX_NAME} characters, none of them a control \
                 character"
            ),
            DiskError::SameLabel(label) => write!(f, "two partitions have the label {label}"),
            DiskError::EmptyBootCode => f.write_str("the boot code is empty"),
            DiskError::BootCodeTooLong { len, most } => {
                write!(f, "the boot code has {len} bytes, expected at most {most}")
            }
            DiskError::Source { path, error } => {
                write!(f, "{}: {}", shown(path), host_words(error))
            }
            DiskError::NotForFat { path, why } => write!(f, "{}: {why}", shown(path)),
            DiskError::FatTooLarge { size, most } => {
                let [size, most] = [size, most].map(|&bytes| human_size(bytes));
                write!(f, "a FAT32 volume of {size} is too large; it can have {most}")
            }
            DiskError::TooLarge { size } => {
                write!(f, "a disk of {} is larger than a file can be", human_size(*size))
            }
            DiskError::ContentTooLong { len, most } => {
                write!(f, "its content has {len} bytes, but the partition {most}")
            }
            DiskError::Cancelled => f.write_str("interrupted"),
            DiskError::TooLong { has, needs } => {
                let texts = [needs, has].map(|&bytes| human_size(bytes));
                let [needs, has] = match texts[0] == texts[1] {
                    true => [needs, has].map(|bytes| format!("{bytes} bytes")),
                    false => texts,
                };
                write!(f, "needs {needs}, but the disk has {has} left")
            }
            DiskError::FatTooSmall { size, needs } => {
                let [size, needs] = [size, needs].map(|&bytes| human_size(bytes));
                write!(f, "a FAT32 volume of {size} is too small; the files need {needs}")
            }
            DiskError::Device(error) => f.write_str(&host_words(error)),
            DiskError::Table(why) => f.write_str(why),
            DiskError::Build(error) => error.fmt(f),
            DiskError::Partition { label, error } => write!(f, "partition {label}: {error}"),
        }
    }
}

impl std::error::Error for DiskError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            DiskError::Source { error, .. } => Some(error),
            DiskError::Device(error) => Some(error),
            DiskError::Build(error) => Some(error),
            DiskError::Partition { error, .. } => Some(&**error),
            _ => None,
        }
    }
}
