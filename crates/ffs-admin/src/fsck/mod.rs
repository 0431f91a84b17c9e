//! Checks and repairs file systems.
//!
//! **Purpose.** The checker as a library: [`Fsck`] runs the five phases over an unmounted volume and hands back
//! a [`FsckReport`]; [`quick_check`] is the read-only check for tests.
//!
//! | module | holds |
//! | --- | --- |
//! | [`report`] | findings, their ids, totals, exit codes |
//! | `judge` | modes and answers: what is repaired |
//! | `store` | the device behind a write-back buffer; the order of writing |
//! | `locate` | which superblock |
//! | `setup` | what is wrong with it |
//! | `groups`, `pass1`, `pass1b`, `pass2` ... `pass5` | the phases |
//! | `ordinary` | phase 1 of the inodes nothing is wrong with |
//! | `reader` | phase 2's way to the blocks of directories |
//! | `tables`, `bits` | what the phases remember |
//! | `node`, `walk`, `claim`, `dirio`, `chunk`, `dupnames` | inodes, block pointers, directories |
//! | `alloc`, `lostfound`, `snapshots`, `root` | repairs that need room or care |
//! | `describe`, `names` | what a finding says of its inode; paths |
//! | `meter` | how far the check is |
//! | `run` | the loop of the phases, the commit, the report |
//!
//! **Invariants.**
//! 1. `-n` never writes. Preen writes nothing unless it can repair everything it finds, and is a pure function
//!    of the image.
//! 2. One run converges: whenever a repair has changed what earlier phases judged, the phases run again inside
//!    the same run, until a pass repairs nothing before phase 5. What a run leaves, the next finds nothing in.
//! 3. Nothing read from the device decides how much memory is used but through validated sizes.
//!
//! **Memory.** `size / 8` bytes for the used-fragment map (three times that while contested fragments are
//! settled), 8 bytes per inode up to the last one in use of each group, 32 bytes per directory, 8 bytes per
//! cylinder group, 8 bytes per entry of the directory at hand, and the repairs not yet written. A volume of 1 TiB
//! with 4 KiB fragments and 10 million inodes needs about 32 MiB + 80 MiB.
//!
//! **Locking.** None: the caller makes sure that nobody else writes the device.
//!
//! References: spec/fsck-and-crash.md part I.

mod alloc;
mod bits;
mod chunk;
mod claim;
mod describe;
mod dirio;
mod dupnames;
mod erase;
mod exchange;
mod groups;
mod judge;
mod locate;
mod lostfound;
mod meter;
mod names;
mod node;
mod ordinary;
mod pass1;
mod pass1b;
mod pass2;
mod pass3;
mod pass4;
mod pass5;
mod reader;
pub mod report;
mod root;
mod run;
mod setup;
mod snapshots;
mod store;
mod tables;
mod walk;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ffs_device::BlockDevice;
use ffs_ondisk::superblock::{CkHash, FsFlags};
use ffs_ondisk::{Geometry, Ino, Superblock, Timespec};

use bits::Bits;
use judge::{Judge, Res, Stop};
use meter::Meter;
use names::Names;
use store::Store;
use tables::{Dirs, Group, Inodes};

pub use judge::{Answer, Answers, Operator};
pub use report::{Finding, FsckReport, Id, InodeInfo, Phase, Severity, Totals, exit};

/// Times the phases may run in one check.
const MAX_PASSES: u32 = 40;
/// Memory for repairs if the caller sets no limit.
const DEFAULT_MEMORY: u64 = 1 << 30;

/// How to check.
#[derive(Debug)]
pub enum Mode {
    /// Everything, with answers from somewhere.
    Full(Answers),
    /// Only what a crash may leave (`-p`); anything else ends the check before it has written.
    Preen,
}

/// What to check and how.
#[derive(Debug)]
pub struct FsckOptions {
    /// Full or preen.
    pub mode: Mode,
    /// Check although the volume is marked clean (`-f`). A full check always does.
    pub force: bool,
    /// Skip a clean volume also in a full check (`-C`).
    pub skip_clean: bool,
    /// Use the superblock at this 512-byte block (`-b`); implies `force`.
    pub superblock: Option<u64>,
    /// Permissions of a new `lost+found` (`-m`).
    pub lostfound_mode: u16,
    /// In preen, reconnect nameless files with content instead of clearing them.
    pub keep_orphans: bool,
    /// Zero unused bytes of directories (`-z`).
    pub zero_unused: bool,
    /// Shrink the initialised part of UFS2 inode areas to what is in use (`-r`; not in preen).
    pub shrink_initialised: bool,
    /// Stop at a read error instead of going on with zeros (`-S`).
    pub stop_on_read_error: bool,
    /// Zero free space (`-Z`), and then discard it (`-E`), if the check succeeds.
    pub erase: Erase,
    /// Most bytes of memory for tables and repairs.
    pub max_memory: Option<u64>,
    /// Seconds since 1970 for the superblock and new directories.
    pub now: i64,
    /// Set by another thread to end the check.
    pub interrupt: Option<Arc<AtomicBool>>,
}

/// What to do with free space after a successful check.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Erase {
    /// Overwrite it with zeros.
    pub zero: bool,
    /// Tell the device that it is free.
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

    /// `-n`: only look.
    #[must_use]
    pub fn no() -> Self {
        Self::default()
    }

    /// `-p -f`: repair what a crash may have left, although the volume may be marked clean.
    #[must_use]
    pub fn preen() -> Self {
        FsckOptions { mode: Mode::Preen, force: true, ..Self::default() }
    }

    /// The same at time `now`, seconds since 1970.
    #[must_use]
    pub fn at(mut self, now: i64) -> Self {
        self.now = now;
        self
    }
}

/// How far a check is.
///
/// In a phase of a pass `total` stays the same and `done` only rises, from 0 to `total`. The steps of phases 1, 1b
/// and 4 are inodes, those of phase 2 512-byte chunks of directories, of phase 3 directories, else cylinder groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The phase.
    pub phase: Phase,
    /// Which round of the phases, from 1.
    pub pass: u32,
    /// Steps done in this phase.
    pub done: u64,
    /// Steps of this phase; 0 if there is nothing to do in it.
    pub total: u64,
}

/// A check of one volume.
pub struct Fsck {
    dev: Arc<dyn BlockDevice>,
    options: FsckOptions,
    progress: Option<Box<dyn FnMut(Progress) + Send>>,
}

impl Fsck {
    /// A check of the volume on `dev`.
    #[must_use]
    pub fn new(dev: Arc<dyn BlockDevice>, options: FsckOptions) -> Fsck {
        Fsck { dev, options, progress: None }
    }

    /// Has `each` called as the check goes on.
    #[must_use]
    pub fn with_progress(mut self, each: impl FnMut(Progress) + Send + 'static) -> Fsck {
        self.progress = Some(Box::new(each));
        self
    }

    /// Runs the check.
    #[must_use]
    pub fn run(self) -> FsckReport {
        let Fsck { dev, options, mut progress } = self;
        run::run(dev, options, progress.as_deref_mut().map(|f| f as Report<'_>))
    }
}

type Report<'a> = &'a mut (dyn FnMut(Progress) + Send);

/// Everything wrong with the volume on `dev`: a full check that changes nothing.
///
/// A volume without a usable superblock yields one finding, `SB-BAD`.
#[must_use]
pub fn quick_check(dev: &Arc<dyn BlockDevice>) -> Vec<Finding> {
    let options = FsckOptions { force: true, ..FsckOptions::no() };
    let report = Fsck::new(Arc::clone(dev), options).run();
    let mut findings = report.findings;
    if let Some(why) = report.stopped {
        findings.push(Finding::new(Id::SbBad, Severity::Fatal, why));
    }
    findings
}

/// The state of a check.
struct Checker<'a> {
    g: Geometry,
    /// The superblock as it will be written.
    sb: Superblock,
    store: Store,
    judge: Judge,
    used: Bits,
    dups: Option<Bits>,
    inodes: Inodes,
    dirs: Dirs,
    groups: Vec<Group>,
    /// Inodes with the snapshot flag.
    snapshots: Vec<Ino>,
    /// Snapshots that the superblock lists.
    listed: Vec<Ino>,
    /// The volume is used with soft updates.
    softdep: bool,
    /// Clear the journal's list of unlinked inodes.
    sujfree: bool,
    /// The superblock has to be written whatever else happens.
    sb_damaged: bool,
    /// A backup superblock to write, at this byte.
    rewrite_backup: Option<u64>,
    /// Contested fragments are to be copied.
    copying: bool,
    /// The phases run again at the end of this phase.
    restarting: bool,
    /// The phases run again after phase 4.
    repeating: bool,
    /// Where the last allocation was.
    alloc_hint: u32,
    new_frags: BTreeSet<u64>,
    new_inodes: BTreeSet<u32>,
    /// Where names are, for the paths in findings.
    names: Option<Names>,
    /// Times names may be looked for again.
    name_searches: u32,
    lostfound: Option<Option<Ino>>,
    /// Hashes of the names in `lost+found`.
    lostfound_names: BTreeSet<u64>,
    /// The directory that grew last, and from which offset on it may have room.
    insert_hint: (Ino, u64),
    /// Check hashes that are being introduced.
    adopting: CkHash,
    erase: Erase,
    totals: Totals,
    pass: u32,
    meter: Meter,
    lostfound_mode: u16,
    keep_orphans: bool,
    zero_unused: bool,
    shrink: bool,
    now: i64,
    interrupt: Option<Arc<AtomicBool>>,
    report: Option<Report<'a>>,
}
