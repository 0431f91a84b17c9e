//! The reasons for dropping an index.

/// Why a directory has no index any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DropReason {
    /// Three quarters of its slots were in use.
    Full,
    /// The directory has more chunks than the index can record.
    Outgrown,
    /// The directory became so small that most of the memory was wasted.
    Shrunk,
    /// The directory was removed, became too small, or a switch excludes it.
    Unwanted,
    /// The index did not agree with the directory.
    Inconsistent,
}
