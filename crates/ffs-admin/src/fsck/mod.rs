//! Checks and repairs file systems: BSD's `fsck_ffs`.
//!
//! **Purpose.** [`Fsck`] runs the five phases over an unmounted volume and returns an
//! [`FsckReport`]; [`quick_check`] is the read-only check for tests.
//!
//! | module | contents |
//! | --- | --- |
//! | [`report`] | findings, their ids, totals, exit codes |
//! | `explain` | what the repair of a finding does, and what it costs |
//! | `options`, `resolve` | options; modes and answers, which decide what is repaired |
//! | `checker`, `run` | the state of a check; the rounds of the phases, the commit, the report |
//! | `buffered` | the device behind a write-back buffer; the order of writes |
//! | `locate`, `setup` | finding the superblock; checking it |
//! | `suj` | recovery by the soft-updates journal, in place of the phases |
//! | `groups`, `pass1`, `pass1b`, `pass2` ... `pass5` | the phases |
//! | `pass1_fast` | phase 1 for inodes without problems |
//! | `inorder` | threads that read ahead and examine, with results in order |
//! | `readahead` | reading directories in phase 2 |
//! | `groupmaps` | the right maps of a group in phase 5 |
//! | `inoinfo`, `bitmap` | tables: inodes, directories, groups, fragments |
//! | `inode`, `walk`, `blkcheck` | inodes and their block pointers |
//! | `dirblk`, `directory`, `dircheck`, `dupnames`, `exchange` | directories |
//! | `alloc`, `lostfound`, `snapshots`, `root`, `erase` | repairs |
//! | `describe`, `paths`, `nametable` | the inode attributes and paths in findings |
//! | `background`, `corrections`, `correct` | the check of a snapshot of a mounted volume |
//! | `progress` | progress reports |
//!
//! **Invariants.**
//! 1. `-n` never writes. Preen writes nothing unless it can repair every finding, and its result
//!    depends on the image alone.
//! 2. One run converges: after a repair that changed data which earlier phases have checked, the
//!    phases run again within the same run, until a round makes no repair before phase 5. A second
//!    run finds nothing.
//! 3. Memory use depends on validated sizes only, never on other data from the device.
//!
//! **Memory.** `size / 8` bytes for the map of used fragments (three times that while phase 1b
//! handles duplicate fragments), 8 bytes for each inode up to the last one in use of each group, 32
//! bytes for each directory and 20 more in phase 2, 12 bytes for each cylinder group, 8 bytes for
//! each entry of the current directory, and the repairs that are not yet written. A volume of 1 TiB
//! with 4 KiB fragments and 10 million inodes needs about 32 MiB + 80 MiB. Each of the threads has
//! about a MiB of reads.
//!
//! **Threads.** The check itself is one thread: it alone decides, asks, repairs and counts. Others
//! read ahead of it and examine what they read (`inorder`). They only establish that a piece has no
//! finding; the one thread checks any other piece, from the same bytes or, after a read error, from
//! a new read. So neither the report nor the repairs depend on the number of threads. The
//! check of a mounted volume has none.
//!
//! **Locking.** None: the caller ensures that no other process writes the device.
//!
//! References: spec/fsck-and-crash.md part I.

mod alloc;
mod background;
mod bitmap;
mod blkcheck;
mod buffered;
mod checker;
mod correct;
mod corrections;
mod describe;
mod dirblk;
mod dircheck;
mod directory;
mod dupnames;
mod erase;
mod exchange;
mod explain;
mod extattr;
mod groupmaps;
mod groups;
mod inode;
mod inoinfo;
mod inorder;
mod locate;
mod lostfound;
mod nametable;
mod options;
mod pass1;
mod pass1_fast;
mod pass1b;
mod pass2;
mod pass3;
mod pass4;
mod pass5;
mod paths;
mod progress;
mod quotas;
mod readahead;
pub mod report;
mod resolve;
mod root;
mod run;
mod setup;
mod snapshots;
mod suj;
mod walk;

use std::sync::Arc;

use ffs_device::BlockDevice;

pub use background::{CheckEnd, SnapshotCheck, check_snapshot};
pub use corrections::{Correction, FileId};
pub use explain::{Explanation, Preen};
pub use options::{Erase, FsckOptions};
pub use progress::Progress;
pub use report::{
    Finding, FsckReport, Id, InodeAttrs, JournalReport, JournalUse, Phase, Severity, Totals, exit,
};
pub use resolve::{Answer, Answers, Mode, Operator};

/// The target of this module's events in the log.
const LOG: &str = "ffs::fsck";

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

    /// Calls `each` with the progress of the check.
    #[must_use]
    pub fn with_progress(mut self, each: impl FnMut(Progress) + Send + 'static) -> Fsck {
        self.progress = Some(Box::new(each));
        self
    }

    /// Runs the check.
    #[must_use]
    pub fn run(self) -> FsckReport {
        let Fsck { dev, options, mut progress } = self;
        run::run(dev, options, progress.as_deref_mut().map(|f| f as progress::ProgressFn<'_>))
    }
}

/// Recovers the volume on `dev` by its soft-updates journal, as preen does, but checks nothing if
/// the journal cannot be used. `None` if the volume is clean or has no journal.
///
/// `now`: seconds since 1970.
#[must_use]
pub fn recover_by_journal(dev: &Arc<dyn BlockDevice>, now: i64) -> Option<JournalUse> {
    run::by_journal(dev, now)
}

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
