//! The check of a mounted volume in the background: BSD's `fsck -B`.
//!
//! The check runs on a snapshot, while the volume is in use. Its corrections are made through calls
//! of the mounted file system, which looks at the volume as it is then ([`BackgroundCheck`]).
//!
//! # Invariants
//! 1. Nothing is corrected unless everything that was found can be corrected. Otherwise the volume
//!    is marked as one that needs the check of the unmounted volume.
//! 2. The volume is marked as checked only after every correction was made. If the volume has
//!    changed so that one did not fit any more, another snapshot is checked.
//! 3. An interruption at any moment leaves the volume unclean, and the next check starts over.
//! 4. A directory without a name is freed, durably, before what it names loses links.
//!
//! Reference: `spec/fsck-and-crash.md` §7.

mod apply;
mod pace;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ffs_admin::fsck::{
    CheckEnd, Finding, FsckOptions, Phase, Progress, SnapshotCheck, Totals, check_snapshot,
};
pub use ffs_core::Changed;
use ffs_core::{BackgroundCheck, CheckNeed, Error, Ffs};
use ffs_device::BlockDevice;

use crate::snapshot::SnapshotDevice;
use apply::Applied;
use pace::PacedDevice;

/// Snapshots that are checked at most.
const MAX_ROUNDS: u32 = 8;
/// The check ends if less than this part of the volume is free: copies for the snapshot must not
/// take the space that writers need.
const LEAST_FREE: u64 = 64;
/// The phase that [`BackgroundCheck::note_progress`] gets while corrections are made.
const CORRECTING: u64 = 6;

/// How to check.
pub struct CheckOptions<'a> {
    /// Check although nothing is known to be wrong.
    pub force: bool,
    /// Pause between reads, so that others get the device.
    pub paced: bool,
    /// Another thread sets this to end the check.
    pub interrupt: Arc<AtomicBool>,
    /// Limit on the memory for tables, bytes.
    pub max_memory: Option<u64>,
    /// Called with each file and name that a correction changed.
    pub changed: &'a mut (dyn FnMut(Changed<'_>) + Send),
    /// Called with the progress of the phases.
    pub progress: &'a mut (dyn FnMut(Progress) + Send),
}

/// The result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was not needed.
    Skipped,
    /// Everything was corrected. Unmounting marks the volume clean.
    Completed,
    /// Damage was found, which only the check of the unmounted volume can repair. The volume is
    /// marked so (`FS_NEEDSFSCK`).
    Unrepairable(String),
    /// There is no check in the background of this mount, for this reason.
    Impossible(String),
    /// The check failed, for this reason. The volume stays unclean.
    Failed(String),
    /// It was interrupted. The volume stays unclean.
    Interrupted,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Skipped => f.write_str("FILE SYSTEM CLEAN; SKIPPING CHECKS"),
            Outcome::Completed => f.write_str("checked"),
            Outcome::Unrepairable(why) => write!(f, "marked as needing a full check: {why}"),
            Outcome::Impossible(why) => write!(f, "no check in the background: {why}"),
            Outcome::Failed(why) => write!(f, "the check failed: {why}"),
            Outcome::Interrupted => f.write_str("interrupted; the check will start over"),
        }
    }
}

/// What a check found and did.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// The result.
    pub outcome: Outcome,
    /// The findings in the snapshots.
    pub findings: Vec<Finding>,
    /// Totals of the last snapshot.
    pub totals: Totals,
    /// Corrections that were made.
    pub corrections: u64,
    /// Corrections that did not fit the volume any more.
    pub refused: u64,
    /// Snapshots that were checked.
    pub rounds: u32,
}

/// Checks the volume that is mounted as `fs`.
pub fn run(fs: &Ffs, mut options: CheckOptions<'_>) -> CheckReport {
    let mut report = CheckReport {
        outcome: Outcome::Skipped,
        findings: Vec::new(),
        totals: Totals::default(),
        corrections: 0,
        refused: 0,
        rounds: 0,
    };
    report.outcome = match fs.check_need() {
        CheckNeed::Clean if !options.force => Outcome::Skipped,
        CheckNeed::Clean | CheckNeed::Wanted => {
            check(fs, &mut options, &mut report).unwrap_or_else(outcome_of)
        }
        CheckNeed::Foreground(why) => Outcome::Unrepairable(why.to_owned()),
        CheckNeed::Impossible(why) => Outcome::Impossible(why.to_owned()),
    };
    report
}

/// The outcome of a check that ended with an error.
fn outcome_of(error: Error) -> Outcome {
    match error {
        Error::NotSupported(_) | Error::TooBig | Error::TooManySnapshots => {
            Outcome::Impossible(error.to_string())
        }
        error => Outcome::Failed(error.to_string()),
    }
}

fn check(
    fs: &Ffs,
    options: &mut CheckOptions<'_>,
    report: &mut CheckReport,
) -> ffs_core::Result<Outcome> {
    while report.rounds < MAX_ROUNDS {
        if let Some(why) = lack_of_space(fs) {
            return Ok(Outcome::Failed(why));
        }
        let mut check = fs.begin_check()?;
        report.rounds += 1;
        let found = examine(&check, options)?;
        check.release_image();
        report.findings.extend(found.findings);
        report.totals = found.totals;
        match found.end {
            CheckEnd::Repairable => {}
            CheckEnd::Unrepairable(why) => {
                check.require_fsck()?;
                return Ok(Outcome::Unrepairable(why));
            }
            CheckEnd::Failed(why) => return Ok(Outcome::Failed(why)),
            CheckEnd::Interrupted => return Ok(Outcome::Interrupted),
        }
        let Applied { made, refused, interrupted } =
            apply::apply(&check, found.corrections, options)?;
        report.corrections += made;
        report.refused += refused;
        if interrupted {
            return Ok(Outcome::Interrupted);
        }
        if refused == 0 && !found.incomplete && check.complete()? {
            return Ok(Outcome::Completed);
        }
    }
    Ok(Outcome::Failed("the volume changes too fast".to_owned()))
}

/// Checks the snapshot of `check`.
fn examine(
    check: &BackgroundCheck,
    options: &mut CheckOptions<'_>,
) -> ffs_core::Result<SnapshotCheck> {
    let image = check.image().ok_or(Error::Stale)?;
    let shown = SnapshotDevice::of_check(check.fs(), image, "the snapshot of the check");
    let device: Arc<dyn BlockDevice> = match options.paced {
        true => Arc::new(PacedDevice::new(shown)),
        false => Arc::new(shown),
    };
    let fsck = FsckOptions {
        interrupt: Some(Arc::clone(&options.interrupt)),
        max_memory: options.max_memory,
        ..FsckOptions::default()
    };
    let (interrupt, progress) = (Arc::clone(&options.interrupt), &mut *options.progress);
    let mut lack = None;
    let mut found = check_snapshot(&device, fsck, &mut |at: Progress| {
        check.note_progress(number(at.phase), at.done, at.total);
        if lack.is_none() && !interrupt.load(Ordering::Relaxed) {
            lack = lack_of_space(check.fs());
            interrupt.fetch_or(lack.is_some(), Ordering::Relaxed);
        }
        progress(at);
    });
    if let Some(why) = lack {
        options.interrupt.store(false, Ordering::Relaxed);
        found.end = CheckEnd::Failed(why);
    }
    Ok(found)
}

/// Why there is too little space for a snapshot, if so.
fn lack_of_space(fs: &Ffs) -> Option<String> {
    let space = fs.statfs();
    let little = space.frags_free < space.frags / LEAST_FREE;
    little.then(|| "there is too little free space for the copies of a snapshot".to_owned())
}

/// The number of a phase, as BSD prints it.
fn number(phase: Phase) -> u64 {
    match phase {
        Phase::Setup | Phase::Groups => 0,
        Phase::Blocks | Phase::Duplicates => 1,
        Phase::Names => 2,
        Phase::Connectivity => 3,
        Phase::References | Phase::Quotas => 4,
        Phase::Summaries => 5,
    }
}
