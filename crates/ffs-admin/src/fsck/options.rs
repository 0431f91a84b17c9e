//! Options of a check.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::resolve::{Answers, Mode};

/// What to check and how.
#[derive(Debug)]
pub struct FsckOptions {
    /// Full or preen.
    pub mode: Mode,
    /// Check even if the volume is marked clean (`-f`). A full check always does.
    pub force: bool,
    /// Skip a clean volume also in a full check (`-C`).
    pub skip_clean: bool,
    /// Use the superblock at this 512-byte sector (`-b`); implies `force`.
    pub superblock: Option<u64>,
    /// Permissions of a new `lost+found` (`-m`).
    pub lostfound_mode: u16,
    /// In preen, reconnect unreferenced files that have content instead of clearing them.
    pub keep_orphans: bool,
    /// Zero unused bytes of directories (`-z`).
    pub zero_unused: bool,
    /// Shrink the initialised part of UFS2 inode areas to the inodes in use (`-r`; not in preen).
    pub shrink_initialised: bool,
    /// Stop at a read error instead of reading zeros (`-S`).
    pub stop_on_read_error: bool,
    /// Zero free space (`-Z`), and then discard it (`-E`), if the check succeeds.
    pub erase: Erase,
    /// Limit on the memory for tables and repairs, bytes.
    pub max_memory: Option<u64>,
    /// Threads that read ahead; 0: none. `None`: by the number of processors and the size.
    pub threads: Option<usize>,
    /// Seconds since 1970 for the superblock and new directories.
    pub now: i64,
    /// Another thread sets this to end the check.
    pub interrupt: Option<Arc<AtomicBool>>,
}

/// What to do with free space after a successful check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Erase {
    /// Overwrite it with zeros.
    pub zero: bool,
    /// Discard it on the device (TRIM).
    pub discard: bool,
}

impl Default for FsckOptions {
    fn default() -> Self {
        FsckOptions {
            mode: Mode::Full(Answers::No),
            force: false,
            skip_clean: false,
            superblock: None,
            lostfound_mode: 0o1777,
            keep_orphans: false,
            zero_unused: false,
            shrink_initialised: false,
            stop_on_read_error: false,
            erase: Erase::default(),
            max_memory: None,
            threads: None,
            now: 0,
            interrupt: None,
        }
    }
}

impl FsckOptions {
    /// `-y`: repair everything.
    #[must_use]
    pub fn yes() -> Self {
        FsckOptions { mode: Mode::Full(Answers::Yes), ..Self::default() }
    }

    /// `-n`: report only.
    #[must_use]
    pub fn no() -> Self {
        Self::default()
    }

    /// `-p -f`: repair what a crash may leave, even if the volume is marked clean.
    #[must_use]
    pub fn preen() -> Self {
        FsckOptions { mode: Mode::Preen, force: true, ..Self::default() }
    }

    /// The same options with the time `now`, seconds since 1970.
    #[must_use]
    pub fn at(mut self, now: i64) -> Self {
        self.now = now;
        self
    }
}
