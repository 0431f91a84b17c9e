//! Errors of the on-disk format, with the structure, its location and the field.

use crate::units::{CgNo, DirOff, FragNo, Ino};
use std::fmt;

/// The kinds of on-disk structure an error can name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Structure {
    /// Superblock.
    Superblock,
    /// Cylinder group block.
    CylinderGroup,
    /// Summary area.
    SummaryArea,
    /// Inode.
    Inode,
    /// Indirect block.
    IndirectBlock,
    /// Directory.
    Directory,
    /// Extended-attribute area.
    ExtAttr,
    /// Snapshot file.
    Snapshot,
    /// Soft-updates journal.
    Journal,
    /// Quota file.
    QuotaFile,
}

impl fmt::Display for Structure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Structure::Superblock => "superblock",
            Structure::CylinderGroup => "cylinder group",
            Structure::SummaryArea => "summary area",
            Structure::Inode => "inode",
            Structure::IndirectBlock => "indirect block",
            Structure::Directory => "directory",
            Structure::ExtAttr => "extended attributes",
            Structure::Snapshot => "snapshot",
            Structure::Journal => "journal",
            Structure::QuotaFile => "quota file",
        })
    }
}

/// The location of a structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Place {
    /// Byte offset from the start of the partition.
    Byte(u64),
    /// A cylinder group.
    Group(CgNo),
    /// An inode.
    Inode(Ino),
    /// A fragment.
    Frag(FragNo),
    /// A byte of a directory.
    Dir(Ino, DirOff),
    /// Unknown.
    Unknown,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Byte(b) => write!(f, " at byte {b}"),
            Place::Group(c) => write!(f, " {c}"),
            Place::Inode(i) => write!(f, " {i}"),
            Place::Frag(d) => write!(f, " at fragment {d}"),
            Place::Dir(i, o) => write!(f, " {i} at offset {o}"),
            Place::Unknown => Ok(()),
        }
    }
}

/// A structure that breaks a rule of the format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Corrupt {
    /// Which kind of structure.
    pub structure: Structure,
    /// Its location.
    pub place: Place,
    /// The field.
    pub field: &'static str,
    /// The value found.
    pub found: String,
    /// The values that the format allows.
    pub expected: String,
}

impl Corrupt {
    /// An error about `field` of the structure at `place`.
    pub fn new(
        structure: Structure,
        place: Place,
        field: &'static str,
        found: impl fmt::Display,
        expected: impl fmt::Display,
    ) -> Corrupt {
        Corrupt {
            structure,
            place,
            field,
            found: found.to_string(),
            expected: expected.to_string(),
        }
    }
}

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Corrupt { structure, place, field, found, expected } = self;
        let of = match (structure, place) {
            (Structure::IndirectBlock | Structure::ExtAttr, Place::Inode(_)) => " of inode",
            _ => "",
        };
        write!(f, "{structure}{of}{place}: {field} is {found}, expected {expected}")
    }
}

/// Why a record in a sequence of records (directory, extended attributes, journal) is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} is {found} in the record at offset {off}, expected {expected}")]
pub struct BadRecord {
    /// Byte offset in the sequence.
    pub off: usize,
    /// The field.
    pub field: &'static str,
    /// Its value.
    pub found: u32,
    /// The rule.
    pub expected: &'static str,
}

impl BadRecord {
    /// The error, with the structure and its location.
    #[must_use]
    pub fn error(&self, structure: Structure, place: Place) -> Error {
        let found = format!("{} in the record at offset {}", self.found, self.off);
        Corrupt::new(structure, place, self.field, found, self.expected).into()
    }
}

/// Errors of reading a volume.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rule of the format is violated.
    #[error("{0}")]
    Corrupt(Box<Corrupt>),
    /// The volume is of an unsupported kind.
    #[error("not supported: {0}")]
    Unsupported(String),
    /// The volume has newfs' "not finished" magic number.
    #[error("newfs did not finish on this volume (superblock at byte {0}): make it again")]
    NewfsUnfinished(u64),
    /// A growfs did not finish. Another one restores the old volume and enlarges it again.
    #[error(
        "growfs did not finish on this volume (superblock at byte {0}): run ffs growfs again, \
         which restores the old volume and enlarges it again"
    )]
    GrowfsUnfinished(u64),
    /// No superblock of the family was found.
    #[error("no UFS file system found: {0}")]
    NotUfs(String),
    /// The volume is of another system.
    #[error("this is {0}, not a UFS file system")]
    Foreign(&'static str),
    /// The volume is larger than its device.
    #[error(
        "the file system has {need} bytes, but only {have} are here: the last {} are missing; get \
         the whole image, or extend a copy of it (truncate -s +{0} COPY) and repair that with \
         ffs fsck",
        .need - .have
    )]
    Truncated {
        /// Bytes of the volume by its superblock.
        need: u64,
        /// Bytes of the device, fewer.
        have: u64,
    },
    /// Fewer bytes than the structure has.
    #[error("{structure}: {have} bytes given, {need} needed")]
    Short {
        /// The structure.
        structure: Structure,
        /// Bytes it has.
        need: usize,
        /// Bytes there were.
        have: usize,
    },
}

impl Error {
    /// What the user can do about `image`, unless the error message includes it.
    #[must_use]
    pub fn advice(&self, image: &str) -> Option<String> {
        match self {
            Error::Corrupt(_) => Some(format!("`ffs fsck -n {image}` reports details")),
            Error::Foreign(what) => Some(crate::other_content::next_step(what, image)),
            Error::NotUfs(_) => Some(format!(
                "is it the right image? If so, `ffs fsck -b SECTOR {image}` tries a backup \
                 superblock"
            )),
            _ => None,
        }
    }
}

impl From<Corrupt> for Error {
    fn from(c: Corrupt) -> Error {
        Error::Corrupt(Box::new(c))
    }
}
