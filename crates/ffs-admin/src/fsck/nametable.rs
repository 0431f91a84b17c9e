//! Table of the locations of names.

use ffs_ondisk::{FragNo, Ino};

/// Name tables that one check may build.
pub(super) const SEARCHES: u32 = 100;

/// Location of a name.
#[derive(Debug, Clone, Copy)]
pub(super) struct NameLocation {
    /// The inode that it names.
    pub(super) child: Ino,
    /// The directory that contains it.
    pub(super) dir: Ino,
    /// First fragment of the directory's block that contains it.
    pub(super) at: FragNo,
    /// Length of that block, bytes.
    pub(super) len: u32,
}

/// Locations of names.
#[derive(Debug)]
pub(super) struct NameTable {
    /// Sorted by inode, one name of each: the first that the search found.
    list: Vec<NameLocation>,
    /// Revision of the buffered device when the table was built.
    pub(super) revision: u64,
    /// Phase 1 had found all directories by then, also those that the root does not reach.
    pub(super) complete: bool,
}

impl NameTable {
    /// A table of the names in `list`, of which the first of each inode counts.
    pub(super) fn new(mut list: Vec<NameLocation>, revision: u64, complete: bool) -> NameTable {
        list.sort_by_key(|n| n.child);
        list.dedup_by_key(|n| n.child);
        NameTable { list, revision, complete }
    }

    /// The name of `child`.
    pub(super) fn get(&self, child: Ino) -> Option<NameLocation> {
        self.list.binary_search_by_key(&child, |n| n.child).ok().map(|i| self.list[i])
    }
}
