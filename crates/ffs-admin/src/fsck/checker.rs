//! State of a check.
//!
//! The phases and repairs are methods of [`Checker`], each group of them in its own module.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ffs_device::BlockDevice;
use ffs_ondisk::sbsearch::Found;
use ffs_ondisk::superblock::{CkHash, FsFlags};
use ffs_ondisk::{Geometry, Ino, Superblock, Timespec, snapshot};

use super::LOG;
use super::bitmap::Bitmap;
use super::buffered::{BufferedDevice, OnFull, OnReadError};
use super::corrections::{Corrections, is_adjustable};
use super::inoinfo::{CgState, InoInfos, InoStats};
use super::inorder::Threads;
use super::nametable::{self, NameTable};
use super::options::{Erase, FsckOptions};
use super::progress::{PhaseProgress, ProgressFn};
use super::report::{Phase, Totals, exit};
use super::resolve::{Answers, Mode, Res, Resolver, Stop};

/// Memory for repairs if the caller sets no limit, bytes.
const DEFAULT_MEMORY: u64 = 1 << 30;

/// State of a check.
pub(super) struct Checker<'a> {
    pub(super) g: Geometry,
    /// The superblock that the commit writes.
    pub(super) sb: Superblock,
    pub(super) disk: BufferedDevice,
    pub(super) resolver: Resolver,
    /// Threads that read ahead.
    pub(super) threads: Threads,
    /// Fragments in use.
    pub(super) used: Bitmap,
    /// Duplicate fragments: fragments with more than one owner.
    pub(super) dups: Option<Bitmap>,
    pub(super) inodes: InoStats,
    pub(super) dirs: InoInfos,
    pub(super) groups: Vec<CgState>,
    /// Inodes with the snapshot flag.
    pub(super) snapshots: Vec<Ino>,
    /// Snapshots that the superblock lists.
    pub(super) listed: Vec<Ino>,
    /// The volume is used with soft updates.
    pub(super) softdep: bool,
    /// A check that ends early makes no repair: it is a preen, or the volume has snapshots. Copies
    /// for snapshots come before the repairs, and only a complete check finds all of them.
    pub(super) all_or_nothing: bool,
    /// The flags of the superblock as read.
    pub(super) flags_read: FsFlags,
    /// Clear the journal's list of unlinked inodes.
    pub(super) sujfree: bool,
    /// The commit must write the superblock even if nothing else changes.
    pub(super) sb_damaged: bool,
    /// Byte offset of a backup superblock that the commit must write.
    pub(super) rewrite_backup: Option<u64>,
    /// Phase 1b copies duplicate fragments.
    pub(super) copying: bool,
    /// The round ends after the current phase and another begins.
    pub(super) restarting: bool,
    /// The round ends after phase 4 and another begins, if the round has changed anything.
    pub(super) repeating: bool,
    /// [`Checker::changes`] at the beginning of the round.
    changes_before_round: (u64, u64),
    /// Group of the last allocation.
    pub(super) alloc_hint: u32,
    /// Fragments that repairs allocated.
    pub(super) new_frags: BTreeSet<u64>,
    /// Inodes that repairs allocated.
    pub(super) new_inodes: BTreeSet<u32>,
    /// Locations of names, for the paths in findings.
    pub(super) names: Option<NameTable>,
    /// Name tables that may still be built.
    pub(super) name_searches: u32,
    /// `lost+found`: not looked up yet, absent, or its inode.
    pub(super) lostfound: Option<Option<Ino>>,
    /// Hashes of the names in `lost+found`.
    pub(super) lostfound_names: BTreeSet<u64>,
    /// The directory that got the last new entry, and the offset of the block that took it.
    pub(super) insert_hint: (Ino, u64),
    /// Check hashes that this check introduces.
    pub(super) adopting: CkHash,
    pub(super) erase: Erase,
    /// What a mounted volume has to correct, if this is the check of a snapshot of it.
    pub(super) corrections: Option<Corrections>,
    pub(super) totals: Totals,
    /// Round of the phases, counted from 1.
    pub(super) round: u32,
    progress: PhaseProgress,
    pub(super) lostfound_mode: u16,
    pub(super) keep_orphans: bool,
    pub(super) zero_unused: bool,
    pub(super) shrink: bool,
    /// Seconds since 1970.
    pub(super) now: i64,
    interrupt: Option<Arc<AtomicBool>>,
    report: Option<ProgressFn<'a>>,
}

impl<'a> Checker<'a> {
    /// A check of the volume on `dev` by the superblock `found`.
    pub(super) fn new(
        dev: &Arc<dyn BlockDevice>,
        found: Found,
        options: FsckOptions,
        report: Option<ProgressFn<'a>>,
    ) -> Res<Checker<'a>> {
        let mode = effective_mode(&**dev, options.mode)?;
        Checker::in_mode(dev, found, FsckOptions { mode, ..options }, report)
    }

    /// The check of a snapshot that `dev` shows, of a volume that is mounted with soft updates.
    pub(super) fn of_snapshot(
        dev: &Arc<dyn BlockDevice>,
        found: Found,
        options: FsckOptions,
        report: ProgressFn<'a>,
    ) -> Res<Checker<'a>> {
        let mut checker = Checker::in_mode(dev, found, options, Some(report))?;
        checker.softdep = true;
        // Programs use the volume, so the check leaves most of the disk to them.
        checker.threads = Threads::new(Some(0));
        checker.corrections = Some(Corrections::default());
        checker.resolver.permit_only(is_adjustable);
        Ok(checker)
    }

    fn in_mode(
        dev: &Arc<dyn BlockDevice>,
        found: Found,
        options: FsckOptions,
        report: Option<ProgressFn<'a>>,
    ) -> Res<Checker<'a>> {
        let (g, sb) = (found.geometry, found.sb);
        let resolver = Resolver::new(options.mode);
        if resolver.can_write() && sb.has_dirty_wapbl() {
            let why = "NetBSD's journal has to be replayed first: mount it there, or check with -n";
            return Err(Stop::Refused(exit::ERROR, why.into()));
        }
        let limit = memory_left(&g, options.max_memory)?;
        let all_or_nothing = resolver.is_preen() || !snapshot::active(&sb).is_empty();
        let on_full = if all_or_nothing { OnFull::Stop } else { OnFull::Spill };
        let on_read_error =
            if options.stop_on_read_error { OnReadError::Stop } else { OnReadError::Zeros };
        // A system that mounts the volume without soft updates sets NEEDSFSCK.
        let flags = found.flags;
        let softdep = flags.contains(FsFlags::DOSOFTDEP) && !flags.contains(FsFlags::NEEDSFSCK);
        Ok(Checker {
            disk: BufferedDevice::new(Arc::clone(dev), &g, limit, on_full, on_read_error),
            resolver,
            threads: Threads::new(options.threads),
            used: Bitmap::new(0),
            dups: None,
            inodes: InoStats::default(),
            dirs: InoInfos::default(),
            groups: vec![CgState::default(); g.ncg as usize],
            snapshots: Vec::new(),
            listed: Vec::new(),
            softdep,
            all_or_nothing,
            flags_read: flags,
            sujfree: false,
            sb_damaged: false,
            rewrite_backup: None,
            copying: false,
            restarting: false,
            repeating: false,
            changes_before_round: (0, 0),
            alloc_hint: 0,
            new_frags: BTreeSet::new(),
            new_inodes: BTreeSet::new(),
            names: None,
            name_searches: nametable::SEARCHES,
            lostfound: None,
            lostfound_names: BTreeSet::new(),
            insert_hint: (Ino(0), 0),
            adopting: CkHash::empty(),
            erase: options.erase,
            corrections: None,
            totals: Totals::default(),
            round: 0,
            progress: PhaseProgress::default(),
            lostfound_mode: options.lostfound_mode,
            keep_orphans: options.keep_orphans,
            zero_unused: options.zero_unused,
            shrink: options.shrink_initialised,
            now: options.now,
            interrupt: options.interrupt,
            report,
            g,
            sb,
        })
    }

    /// Forgets the tables of the last round.
    pub(super) fn begin_round(&mut self, round: u32) {
        self.round = round;
        self.used = Bitmap::new(self.g.size);
        self.dups = None;
        self.inodes = InoStats::new(&self.g);
        self.dirs = InoInfos::default();
        self.snapshots.clear();
        self.listed.clear();
        self.lostfound = None;
        self.lostfound_names.clear();
        self.insert_hint = (Ino(0), 0);
        self.copying = false;
        self.restarting = false;
        self.repeating = false;
        self.changes_before_round = self.changes();
    }

    /// Repairs that were granted, and changes of the buffered device.
    fn changes(&self) -> (u64, u64) {
        (self.resolver.granted, self.disk.revision())
    }

    /// Whether the round ends after phase 4 and another begins. If it has changed nothing, because
    /// the operator refused the repairs, another one finds the same.
    pub(super) fn is_to_repeat(&self) -> bool {
        self.repeating && self.changes() != self.changes_before_round
    }

    /// Begins another round after the current phase: a repair changed data that an earlier phase
    /// has checked.
    pub(super) fn restart_after_phase(&mut self) {
        self.restarting = self.resolver.can_write();
    }

    /// Begins another round after phase 4, for the same reason.
    pub(super) fn rerun_after_phase4(&mut self) {
        self.repeating = self.resolver.can_write();
    }

    /// Begins a phase of `total` steps.
    pub(super) fn begin_phase(&mut self, phase: Phase, total: u64) -> Res<()> {
        self.resolver.phase = phase;
        tracing::debug!(target: LOG, ?phase, steps = total, "phase");
        self.progress = PhaseProgress::new(total);
        self.report_progress();
        self.check_interrupt()
    }

    /// Counts `steps` steps of the phase.
    pub(super) fn advance(&mut self, steps: u64) {
        if self.progress.advance(steps) {
            self.report_progress();
        }
    }

    /// Ends a phase that has completed.
    pub(super) fn end_phase(&mut self) -> Res<()> {
        self.progress.complete();
        self.report_progress();
        self.report_bad_reads()
    }

    fn report_progress(&mut self) {
        let progress = self.progress.report(self.resolver.phase, self.round);
        if let Some(report) = self.report.as_deref_mut() {
            report(progress);
        }
    }

    /// Ends the check if the caller has interrupted it.
    pub(super) fn check_interrupt(&self) -> Res<()> {
        match &self.interrupt {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(Stop::Interrupted),
            _ => Ok(()),
        }
    }

    /// The time of the check.
    pub(super) fn timespec(&self) -> Timespec {
        Timespec { secs: self.now, nsec: 0 }
    }
}

/// The mode in which `dev` can be checked: a full check of a read-only device repairs nothing.
fn effective_mode(dev: &dyn BlockDevice, mode: Mode) -> Res<Mode> {
    match mode {
        mode if !dev.is_read_only() => Ok(mode),
        Mode::Full(_) => Ok(Mode::Full(Answers::No)),
        Mode::Preen => Err(Stop::Refused(exit::ERROR, "the device cannot be written".into())),
    }
}

/// Memory left for repairs after the tables, bytes.
fn memory_left(g: &Geometry, limit: Option<u64>) -> Res<u64> {
    let tables = g.size / 8 + u64::from(g.ncg) * 64;
    let limit = limit.unwrap_or(DEFAULT_MEMORY.saturating_add(tables));
    match limit.checked_sub(tables) {
        Some(left) if left >= 1 << 20 => Ok(left),
        _ => {
            let need = tables + (1 << 20);
            let why = format!("a volume of this size needs at least {need} bytes of memory");
            Err(Stop::Refused(exit::ERROR, why))
        }
    }
}
