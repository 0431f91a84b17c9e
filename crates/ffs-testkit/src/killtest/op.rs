//! The operations of the load.

use std::fmt;

/// A directory, and a name in it.
pub type EntryPath = (String, String);

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the system calls")]
pub enum Op {
    Create { at: EntryPath },
    Write { at: EntryPath, offset: usize, len: usize, tag: u64, sync: bool },
    Truncate { at: EntryPath, size: usize },
    PunchHole { at: EntryPath, offset: usize, len: usize },
    Link { from: EntryPath, to: EntryPath },
    Unlink { at: EntryPath },
    Rename { from: EntryPath, to: EntryPath },
    Mkdir { at: EntryPath },
    Rmdir { at: EntryPath },
    Fsync { at: EntryPath },
    FsyncDir { directory: String },
    Sync,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
