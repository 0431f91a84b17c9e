//! The check of a snapshot of the mounted volume: whether it is needed, its progress, its result.
//!
//! # Invariants
//! 1. A volume that was not unmounted cleanly stays unclean until a check has completed:
//!    `FS_UNCLEAN` is cleared only after every correction is durable. Unmounting before, and a
//!    crash, leave the volume as unclean as it was.
//! 2. One check runs at a time.
//!
//! Reference: `spec/fsck-and-crash.md` §7.

use super::{Ffs, LOG, Mount};
use crate::counters::Gauge;
use crate::error::{Error, Result};
use crate::ordering::rules::{Rule, holds};
use crate::sync::Mutex;
use ffs_ondisk::CgNo;
use ffs_ondisk::superblock::FsFlags;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use tracing::{info, warn};

/// Whether a mounted volume needs a check, and whether a check of a snapshot can be it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckNeed {
    /// Nothing is known to be wrong.
    Clean,
    /// It was not unmounted cleanly: a check of a snapshot would find lost space.
    Wanted,
    /// It needs the check of the unmounted volume, for this reason.
    Foreground(&'static str),
    /// The mount permits no check of a snapshot, for this reason.
    Impossible(&'static str),
}

/// The progress of the check of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckProgress {
    /// Whether a check runs.
    pub running: bool,
    /// The phase, 0 to 5; 6 while corrections are made.
    pub phase: u64,
    /// Steps of the phase that are done.
    pub done: u64,
    /// Steps of the phase.
    pub total: u64,
}

/// The state of the check of a mount.
#[derive(Debug)]
pub(super) struct CheckState {
    running: AtomicBool,
    /// The mount needed a check for itself, before the one that runs: something could not be freed.
    was_needed: AtomicBool,
    phase: AtomicU64,
    done: AtomicU64,
    total: AtomicU64,
    /// Groups whose blocks on the device have wrong counts or a wrong check hash. The mount has
    /// corrected them in memory.
    stale_groups: Mutex<Vec<CgNo>>,
}

impl CheckState {
    pub(super) fn new(stale_groups: Vec<CgNo>) -> CheckState {
        CheckState {
            running: AtomicBool::new(false),
            was_needed: AtomicBool::new(false),
            phase: AtomicU64::new(0),
            done: AtomicU64::new(0),
            total: AtomicU64::new(0),
            stale_groups: Mutex::new(stale_groups),
        }
    }
}

impl Mount {
    /// Begins a check.
    ///
    /// # Errors
    /// [`Error::Busy`] if one runs; [`Error::NotSupported`] if the mount permits none.
    pub(crate) fn begin_check(&self) -> Result<()> {
        match self.check_need() {
            CheckNeed::Clean | CheckNeed::Wanted => {}
            CheckNeed::Foreground(why) | CheckNeed::Impossible(why) => {
                return Err(Error::NotSupported(why));
            }
        }
        match self.check.running.compare_exchange(false, true, AcqRel, Acquire) {
            Ok(_) => {
                // A snapshot that is made from here on shows what made a check necessary.
                self.check.was_needed.store(self.ump.cache.take_needs_check(), Relaxed);
                Ok(())
            }
            Err(_) => Err(Error::Busy("another check of this mount runs")),
        }
    }

    /// The check has ended, with or without a result.
    pub(crate) fn end_check(&self) {
        if self.check.was_needed.swap(false, Relaxed) {
            self.ump.cache.set_needs_check();
        }
        self.note_check_progress(0, 0, 0);
        self.check.running.store(false, Release);
    }

    pub(crate) fn note_check_progress(&self, phase: u64, done: u64, total: u64) {
        self.check.phase.store(phase, Relaxed);
        self.check.done.store(done, Relaxed);
        self.check.total.store(total, Relaxed);
    }

    fn check_need(&self) -> CheckNeed {
        let st = self.state();
        if self.ump.is_read_only() {
            return match st.read_only_reason {
                // No check has the rules of another system.
                Some(why) if !self.ump.g().variant.is_writable() => CheckNeed::Impossible(why),
                Some(why) => CheckNeed::Foreground(why),
                None => CheckNeed::Impossible("it is mounted read-only"),
            };
        }
        if !st.summaries.keeps_softdep() {
            return CheckNeed::Impossible("it is mounted without soft updates");
        }
        if self.ump.cache.is_damaged() || st.summaries.has(FsFlags::NEEDSFSCK) {
            return CheckNeed::Foreground("damage was found: unmount it and run ffs fsck");
        }
        if st.summaries.is_sound() && !self.ump.cache.needs_check() {
            return CheckNeed::Clean;
        }
        if st.summaries.has(FsFlags::SUJ) {
            return CheckNeed::Foreground(
                "it has a soft-updates journal: unmount it, run ffs fsck",
            );
        }
        CheckNeed::Wanted
    }

    /// Records that the check completed: everything that it found was corrected. Returns false, and
    /// records nothing, if something could not be freed meanwhile.
    ///
    /// # Errors
    /// The device's; [`Error::Busy`] if damage was found meanwhile. The volume stays unclean.
    pub(crate) fn check_completed(&self) -> Result<bool> {
        for c in self.check.stale_groups.lock().clone() {
            self.ump.alloc.write_group(c)?;
        }
        // Without other operations, so that everything is durable at the end.
        let _alone = self.mount_lock.write();
        if self.ump.is_read_only() {
            return Err(Error::ReadOnly(""));
        }
        // The image of a snapshot does not show the sizes of other snapshots.
        self.table.recount_snapshots()?;
        if holds(Rule::CorrectionsBeforeChecked) {
            self.sync_alone()?;
        }
        if self.ump.cache.is_damaged() {
            return Err(Error::Busy("damage was found while the volume was checked"));
        }
        if self.ump.cache.needs_check() {
            return Ok(false);
        }
        let mut st = self.state();
        st.summaries.mark_checked();
        st.summaries.write_superblock(&*self.ump.cache.dev)?;
        st.unchecked = None;
        drop(st);
        self.ump.cache.flush_device()?;
        self.check.stale_groups.lock().clear();
        self.ump.alloc.end_torn_groups();
        self.unchecked.store(false, Relaxed);
        self.check.was_needed.store(false, Relaxed);
        info!(target: LOG, "the check in the background has completed");
        Ok(true)
    }

    /// Records that only the check of the unmounted volume can repair it (`FS_NEEDSFSCK`).
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn require_fsck(&self) -> Result<()> {
        let _mount_lock = self.mount_lock.read();
        if self.ump.is_read_only() {
            return Err(Error::ReadOnly(""));
        }
        warn!(target: LOG, "the check in the background found damage: ffs fsck is needed");
        let mut st = self.state();
        st.summaries.mark_damaged();
        st.summaries.write_superblock(&*self.ump.cache.dev)?;
        drop(st);
        self.ump.cache.flush_device()
    }
}

impl Ffs {
    /// Whether the volume needs a check, and whether a check of a snapshot can be it.
    #[must_use]
    pub fn check_need(&self) -> CheckNeed {
        self.0.check_need()
    }

    /// How far the check of a snapshot is.
    #[must_use]
    pub fn check_progress(&self) -> CheckProgress {
        let check = &self.0.check;
        CheckProgress {
            running: check.running.load(Acquire),
            phase: check.phase.load(Relaxed),
            done: check.done.load(Relaxed),
            total: check.total.load(Relaxed),
        }
    }

    /// The progress of the check as gauges.
    pub(super) fn check_gauges(&self) -> [Gauge; 3] {
        let at = self.check_progress();
        let percent = at.done.saturating_mul(100).checked_div(at.total).unwrap_or(0);
        [
            Gauge::new(
                "vfs.ffs.bgfsck.running",
                at.running.into(),
                "1 while a check in the background runs.",
            ),
            Gauge::new(
                "vfs.ffs.bgfsck.phase",
                at.phase,
                "Its phase, 0 to 5; 6 while it makes corrections.",
            ),
            Gauge::new("vfs.ffs.bgfsck.percent", percent, "Percent of this phase that are done."),
        ]
    }
}
