//! One check: the rounds of the phases, the commit, the report.
//!
//! **Invariants.**
//! 1. The clean flag is set only if phase 5 completed and every finding is repaired. It is written
//!    last.
//! 2. A check that stops early writes nothing, with two exceptions: repairs that an operator has
//!    already granted in a full check, and exchanges of names that were completed before phase 0.
//! 3. An interactive check in which no repair was granted writes nothing, with one exception: if it
//!    completed and damage remains, it clears the clean flag, as BSD's fsck does.
//!
//! References: spec/fsck-and-crash.md §1, §5, §6.

use std::collections::BTreeMap;
use std::sync::Arc;

use ffs_device::BlockDevice;
use ffs_ondisk::sbsearch::Source;
use ffs_ondisk::superblock::FsFlags;
use ffs_ondisk::{Geometry, Superblock};

use super::LOG;
use super::alloc::Completion;
use super::checker::Checker;
use super::locate;
use super::options::{Erase, FsckOptions};
use super::progress::ProgressFn;
use super::report::{FsckReport, JournalReport, JournalUse, Totals, exit};
use super::resolve::{Mode, Res, Stop};
use super::suj;

/// Limit on the rounds of one check.
const MAX_ROUNDS: u32 = 40;

/// Checks the volume on `dev`.
pub(super) fn run(
    dev: Arc<dyn BlockDevice>,
    options: FsckOptions,
    report: Option<ProgressFn<'_>>,
) -> FsckReport {
    let (found, corrections) = match locate::locate(&*dev, options.superblock) {
        Ok(located) => (located.found, located.corrections),
        Err(stop) => return stopped(stop),
    };
    let force = options.force || options.superblock.is_some();
    let preen = matches!(options.mode, Mode::Preen);
    let primary = found.source == Source::Primary;
    let healthy = primary && corrections.is_empty();
    let clean = found.sb.is_clean() && !found.sb.flags().contains(FsFlags::NEEDSFSCK);
    if clean && healthy && !force && (preen || options.skip_clean) {
        return skipped(&found.sb, &found.geometry);
    }
    let mut journal = None;
    if !clean && healthy {
        match suj::recover(&dev, &found, &options) {
            Ok(suj::Outcome::NoJournal) => {}
            Ok(suj::Outcome::Unusable(why)) => journal = Some(JournalUse::Unusable(why)),
            Ok(suj::Outcome::Recovered(ck, done)) => return recovered(&ck, done),
            Err(stop) => return stopped(stop),
        }
    }
    let (source, warnings) = (found.source, found.warnings.clone());
    match Checker::new(&dev, found, options, report) {
        Ok(mut checker) => {
            let original = checker.sb.clone();
            let outcome =
                checker.check_superblock(source, &warnings, &corrections).and_then(|()| {
                    checker.check_journal()?;
                    checker.finish_exchanges()?;
                    checker.run_phases()
                });
            FsckReport { journal, ..checker.finish(&*dev, outcome, &original) }
        }
        Err(stop) => stopped(stop),
    }
}

/// Recovers the volume on `dev` by its journal, if it is not clean and has one. It checks
/// nothing else.
pub(super) fn by_journal(dev: &Arc<dyn BlockDevice>, now: i64) -> Option<JournalUse> {
    let located = locate::locate(&**dev, None).ok()?;
    if located.found.sb.is_clean() || !located.corrections.is_empty() {
        return None;
    }
    let options = FsckOptions { mode: Mode::Preen, now, ..FsckOptions::default() };
    match suj::recover(dev, &located.found, &options) {
        Ok(suj::Outcome::NoJournal) => None,
        Ok(suj::Outcome::Unusable(why)) => Some(JournalUse::Unusable(why)),
        Ok(suj::Outcome::Recovered(_, done)) => Some(JournalUse::Recovered(done)),
        Err(stop) => Some(JournalUse::Unusable(explain(stop, UNEXPECTED).1)),
    }
}

/// A report without findings.
fn empty_report() -> FsckReport {
    FsckReport {
        findings: Vec::new(),
        counts: BTreeMap::new(),
        totals: Totals::default(),
        exit_code: exit::OK,
        clean: false,
        skipped: false,
        modified: false,
        marked_dirty: false,
        stopped: None,
        journal: None,
    }
}

/// The report of a check that stopped before phase 0.
fn stopped(stop: Stop) -> FsckReport {
    let (exit_code, why) = explain(stop, UNEXPECTED);
    FsckReport { exit_code, stopped: Some(why), ..empty_report() }
}

/// The report of a recovery by the journal.
fn recovered(ck: &Checker<'_>, done: JournalReport) -> FsckReport {
    let totals = totals_of(&ck.sb, &ck.g);
    let journal = Some(JournalUse::Recovered(done));
    FsckReport { totals, clean: true, modified: true, journal, ..empty_report() }
}

/// The report on a volume that is marked clean and not checked.
fn skipped(sb: &Superblock, g: &Geometry) -> FsckReport {
    FsckReport { totals: totals_of(sb, g), clean: true, skipped: true, ..empty_report() }
}

/// The totals in the superblock.
fn totals_of(sb: &Superblock, g: &Geometry) -> Totals {
    let cs = sb.cstotal();
    let count = |n: i64| u64::try_from(n).unwrap_or(0);
    let free_frags =
        count(cs.nbfree).saturating_mul(g.frag.into()).saturating_add(count(cs.nffree));
    let used_inodes = u64::from(g.inodes()).saturating_sub(2).saturating_sub(count(cs.nifree));
    Totals {
        files: used_inodes.saturating_sub(count(cs.ndir)),
        directories: count(cs.ndir),
        data_frags: g.dsize,
        used_frags: g.dsize.saturating_sub(free_frags),
        free_frags,
        loose_frags: count(cs.nffree),
        free_blocks: count(cs.nbfree),
        free_inodes: count(cs.nifree),
        rounds: 0,
    }
}

/// The message of a check that stopped at a fatal finding.
const UNEXPECTED: &str = "UNEXPECTED INCONSISTENCY; nothing was changed; run ffs fsck without -p";
/// The same on a volume with soft updates.
const UNEXPECTED_WITH_SOFTDEP: &str = "UNEXPECTED SOFT UPDATE INCONSISTENCY; nothing was changed. \
    No crash leaves this: examine the disk, then run ffs fsck without -p";

/// Exit code and message of a check that stopped early; `fatal` is the message of a fatal finding.
pub(super) fn explain(stop: Stop, fatal: &str) -> (u8, String) {
    match stop {
        Stop::Fatal => (exit::ERROR, fatal.to_owned()),
        Stop::Device(error) => (exit::ERROR, error.to_string()),
        Stop::Interrupted => (exit::INTERRUPTED, "interrupted".to_owned()),
        Stop::Refused(code, why) => (code, why),
    }
}

impl Checker<'_> {
    /// Runs the phases until a round changes no data that an earlier phase has checked.
    fn run_phases(&mut self) -> Res<()> {
        for round in 1..=MAX_ROUNDS {
            self.begin_round(round);
            if self.run_phases_once()? {
                return Ok(());
            }
        }
        self.resolver.resolved = false;
        Ok(())
    }

    /// One round; `true` if it completed phase 5.
    pub(super) fn run_phases_once(&mut self) -> Res<bool> {
        let steps: [fn(&mut Self) -> Res<()>; 6] =
            [Self::phase0, Self::phase1, Self::phase1b, Self::phase2, Self::phase3, Self::phase4];
        for step in steps {
            step(self)?;
            if self.restarting {
                return Ok(false);
            }
        }
        if self.is_to_repeat() {
            return Ok(false);
        }
        if !self.in_background() {
            // A mount with quotas counts the usage itself.
            self.check_quotas()?;
        }
        self.phase5()?;
        Ok(true)
    }

    /// Commits the repairs and makes the report.
    fn finish(
        mut self,
        dev: &dyn BlockDevice,
        outcome: Res<()>,
        original: &Superblock,
    ) -> FsckReport {
        let mut outcome = outcome;
        if !matches!(outcome, Err(Stop::Device(_) | Stop::Interrupted)) {
            self.add_paths();
        }
        let dropped = outcome.is_err() && self.all_or_nothing;
        let mut clean = original.is_clean();
        let mut marked_dirty = false;
        if self.is_refused(&outcome) {
            match self.mark_dirty(&outcome, original) {
                Ok(marked) => (marked_dirty, clean) = (marked, clean && !marked),
                Err(stop) => outcome = Err(stop),
            }
        } else if self.resolver.can_write() && !dropped && !matches!(outcome, Err(Stop::Device(_)))
        {
            let completion =
                if outcome.is_ok() { Completion::Complete } else { Completion::Stopped };
            match self.commit(completion, original) {
                Ok(now_clean) => clean = now_clean,
                Err(stop) => outcome = Err(stop),
            }
            if clean && outcome.is_ok() && self.erase != Erase::default() {
                outcome = outcome.and_then(|()| self.erase_free_space(dev));
            }
        }
        let modified = self.disk.written();
        let mut resolver = self.resolver;
        let (exit_code, why) = match outcome {
            Ok(()) if resolver.resolved => (exit::OK, None),
            Ok(()) => (exit::RERUN, None),
            Err(stop) => {
                let fatal = if self.softdep { UNEXPECTED_WITH_SOFTDEP } else { UNEXPECTED };
                let (code, mut why) = explain(stop, fatal);
                if dropped && !resolver.is_preen() {
                    why.push_str("; nothing was changed, because the volume has snapshots");
                }
                (code, Some(why))
            }
        };
        if !modified {
            // Repairs that were granted before the check stopped have not been made.
            resolver.findings.iter_mut().for_each(|f| f.repaired = false);
        }
        self.totals.rounds = self.round;
        let (findings, rounds) = (resolver.findings.len(), self.round);
        tracing::info!(target: LOG, findings, rounds, modified, clean, exit_code, "checked");
        FsckReport {
            findings: resolver.findings,
            counts: resolver.counts,
            totals: self.totals,
            exit_code,
            clean,
            skipped: false,
            modified,
            marked_dirty,
            stopped: why,
            journal: None,
        }
    }

    /// Whether an operator has granted no repair, so that nothing is to be written except a flag.
    fn is_refused(&self, outcome: &Res<()>) -> bool {
        let unresolved = outcome.is_err() || !self.resolver.resolved;
        let unchanged = self.resolver.granted == 0 && !self.disk.is_dirty();
        self.resolver.is_interactive() && unresolved && unchanged
    }

    /// Clears the clean flag of a volume with damage that a complete check has left, as BSD's fsck
    /// does; `true` if the flag was set. A superblock that is itself damaged is not written.
    fn mark_dirty(&mut self, outcome: &Res<()>, original: &Superblock) -> Res<bool> {
        if outcome.is_err() || !original.is_clean() || self.sb_damaged {
            return Ok(false);
        }
        let mut sb = original.clone();
        (sb.f.clean, sb.f.time, sb.f.mtime) = (0, self.now.max(0), self.next_mtime());
        self.disk.write_late(sb.location, sb.encode());
        self.disk.commit()?;
        Ok(true)
    }

    /// The `fs_mtime` of the repaired volume. A journal is used only if its time equals `fs_mtime`:
    /// a different one prevents that it is applied over the repairs.
    pub(super) fn next_mtime(&self) -> i64 {
        // Later than before, so that no older journal becomes usable again.
        self.now.max(self.sb.f.mtime.saturating_add(1))
    }

    /// Makes the commit first write what the superblock gets besides the mark of a clean volume. A
    /// crash may tear the last write, so that the mark arrives and the totals do not. UFS1 has no
    /// check hash that would reveal it. The flags are those that were read, without the mark that a
    /// torn superblock has in memory, so that the next check makes the same decisions.
    fn write_before_mark(&mut self, original: &Superblock) {
        let mut early = self.sb.clone();
        early.f.clean = 0;
        early.set_flags(self.flags_read);
        let mut same = original.clone();
        (same.f.clean, same.f.time, same.f.mtime) = (0, early.f.time, early.f.mtime);
        if self.sb.f.clean == 1 && early != same {
            self.disk.write_early(early.location, early.encode());
        }
    }

    /// Writes the repairs and the superblock; `true` if the volume is marked clean now.
    pub(super) fn commit(&mut self, completion: Completion, original: &Superblock) -> Res<bool> {
        self.write_new_allocations(completion)?;
        let resolved = completion == Completion::Complete && self.resolver.resolved;
        let mut flags = self.sb.flags();
        if resolved {
            flags = flags.permanent() - (FsFlags::UNCLEAN | FsFlags::NEEDSFSCK);
            self.sb.f.clean = 1;
            self.sb.f.pendingblocks = 0;
            self.sb.f.pendinginodes = 0;
            self.sb.f.fmod = 0;
        } else {
            self.sb.f.clean = 0;
        }
        if flags != self.sb.flags() {
            self.sb.set_flags(flags);
        }
        if resolved && flags.contains(FsFlags::GJOURNAL) {
            self.sb.f.unrefs = 0;
        }
        let dirty = self.disk.is_dirty() || self.sb_damaged || self.rewrite_backup.is_some();
        if !dirty && self.sb == *original {
            return Ok(resolved);
        }
        self.sb.f.time = self.now.max(0);
        self.sb.f.mtime = self.next_mtime();
        self.write_before_mark(original);
        if let Some(at) = self.rewrite_backup {
            let mut copy = self.sb.clone();
            copy.location = at;
            self.disk.write_late(at, copy.encode());
        }
        self.disk.write_late(self.sb.location, self.sb.encode());
        self.disk.commit()?;
        Ok(resolved)
    }
}
