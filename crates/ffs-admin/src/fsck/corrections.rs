//! Repairs of a snapshot's check as operations of the mounted file system.
//!
//! **Invariants.**
//! 1. The list has at most [`MAX_CORRECTIONS`] entries. If there are more, the check is repeated
//!    after those were made.
//!
//! References: spec/fsck-and-crash.md §7.

use ffs_ondisk::{CgNo, FragNo, Ino};

use super::report::Id;

/// Limit on the corrections of one check. They need about 100 megabytes.
const MAX_CORRECTIONS: usize = 2 << 20;

/// A file, by its inode and its generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileId {
    /// Inode number.
    pub ino: Ino,
    /// `di_gen`.
    pub generation: u32,
}

/// A repair as an operation of the mounted file system. The names are those of FreeBSD's sysctls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Correction {
    /// Remove the second name of a directory.
    Unlink {
        /// The directory with the name.
        dir: Ino,
        /// The name.
        name: Vec<u8>,
        /// The directory that it names.
        target: FileId,
        /// The directory that has its other name.
        kept_in: Ino,
    },
    /// Set `..` of a directory.
    SetDotDot {
        /// The directory.
        dir: FileId,
        /// The directory that its `..` names.
        from: Ino,
        /// The directory that has its name.
        to: Ino,
    },
    /// Free a directory that has no name.
    FreeDirectory {
        /// The directory.
        dir: FileId,
        /// Its link count.
        links: u16,
        /// Directories without a name above it. Those must be freed before, durably.
        depth: u32,
    },
    /// Lower a link count; at 0 the file is freed.
    AdjRefCnt {
        /// The file.
        file: FileId,
        /// How many links it has too many.
        less: u16,
    },
    /// Correct the block count of a file.
    AdjBlkCnt {
        /// The file.
        file: FileId,
    },
    /// Shorten a file that ends behind its last block, or drop a directory's pointers beyond its
    /// size.
    SetSize {
        /// The file.
        file: FileId,
        /// The right size, bytes.
        size: u64,
    },
    /// Free inodes that no file has.
    FreeFiles {
        /// The first one.
        first: Ino,
        /// Their number.
        count: u32,
    },
    /// Free inodes that no file has, and that their group counts as directories.
    FreeDirs {
        /// The first one.
        first: Ino,
        /// Their number.
        count: u32,
    },
    /// Free fragments that nothing has.
    FreeBlks {
        /// The first one.
        first: FragNo,
        /// Their number.
        count: u64,
    },
    /// Correct the number of directories of a group.
    AdjNDir {
        /// The group.
        group: CgNo,
        /// The difference.
        delta: i64,
    },
    /// Write a group with the counts of its maps.
    WriteGroup {
        /// The group.
        group: CgNo,
    },
}

/// The corrections that a check has recorded.
#[derive(Debug, Default)]
pub(super) struct Corrections {
    pub(super) list: Vec<Correction>,
    /// There were more than the list can hold.
    pub(super) incomplete: bool,
}

impl Corrections {
    /// Adds a correction.
    pub(super) fn add(&mut self, correction: Correction) {
        if self.list.len() < MAX_CORRECTIONS {
            self.list.push(correction);
        } else {
            self.incomplete = true;
        }
    }
}

/// The ids that corrections repair, or that the mount repairs by itself: it counts the maps of each
/// group, and writes the summary area.
pub(super) fn is_adjustable(id: Id) -> bool {
    matches!(
        id,
        Id::InoBlocks
            | Id::InoEndHole
            | Id::IndTrunc
            | Id::EntHardDir
            | Id::DotDotWrong
            | Id::DirUnref
            | Id::DirClear
            | Id::InoUnref0
            | Id::InoUnref
            | Id::LinkHigh
            | Id::CgLeak
            | Id::CgMaps
            | Id::CgSummary
            | Id::CgHash
            | Id::CsCg
            | Id::CsTotal
    )
}
