//! One check from beginning to end: the loop of the phases, the commit, the report.
//!
//! **Invariants.**
//! 1. The clean flag is set only if phase 5 ended with nothing left unrepaired, and is written last.
//! 2. A check that was stopped writes nothing, but for an operator's earlier answers in a full check and
//!    exchanges of names that were completed before the phases.
//!
//! References: spec/fsck-and-crash.md §1, §5, §6.

use super::judge::Draft;
use super::*;

/// Checks the volume on `dev`.
pub(super) fn run(
    dev: Arc<dyn BlockDevice>,
    options: FsckOptions,
    report: Option<Report<'_>>,
) -> FsckReport {
    let (found, corrections) = match locate::locate(&*dev, options.superblock) {
        Ok(located) => (located.found, located.corrections),
        Err(stop) => return stopped(stop),
    };
    let force = options.force || options.superblock.is_some();
    let preen = matches!(options.mode, Mode::Preen);
    let primary = found.source == ffs_ondisk::sbsearch::Source::Primary;
    let healthy = primary && corrections.is_empty();
    let clean = found.sb.is_clean() && !found.sb.flags().contains(FsFlags::NEEDSFSCK);
    if clean && healthy && !force && (preen || options.skip_clean) {
        return skipped(&found.sb, &found.geometry);
    }
    let (source, warnings) = (found.source, found.warnings.clone());
    match Checker::new(&dev, found, options, report) {
        Ok(mut checker) => {
            let original = checker.sb.clone();
            let outcome =
                checker.check_superblock(source, &warnings, &corrections).and_then(|()| {
                    checker.check_journal()?;
                    checker.settle_exchanges()?;
                    checker.phases()
                });
            checker.finish(&*dev, outcome, &original)
        }
        Err(stop) => stopped(stop),
    }
}

fn blank() -> FsckReport {
    FsckReport {
        findings: Vec::new(),
        counts: std::collections::BTreeMap::new(),
        totals: Totals::default(),
        exit_code: exit::OK,
        clean: false,
        skipped: false,
        modified: false,
        stopped: None,
    }
}

fn stopped(stop: Stop) -> FsckReport {
    let (exit_code, why) = explain(stop, false);
    FsckReport { exit_code, stopped: Some(why), ..blank() }
}

/// The report on a volume that is marked clean: its totals as the superblock has them.
fn skipped(sb: &Superblock, g: &Geometry) -> FsckReport {
    let cs = sb.cstotal();
    let count = |n: i64| u64::try_from(n).unwrap_or(0);
    let free_frags =
        count(cs.nbfree).saturating_mul(g.frag.into()).saturating_add(count(cs.nffree));
    let used_inodes = u64::from(g.inodes()).saturating_sub(2).saturating_sub(count(cs.nifree));
    let totals = Totals {
        files: used_inodes.saturating_sub(count(cs.ndir)),
        directories: count(cs.ndir),
        data_frags: g.dsize,
        used_frags: g.dsize.saturating_sub(free_frags),
        free_frags,
        loose_frags: count(cs.nffree),
        free_blocks: count(cs.nbfree),
        free_inodes: count(cs.nifree),
        passes: 0,
    };
    FsckReport { totals, clean: true, skipped: true, ..blank() }
}

/// Exit code and words for an early end; `softdep`: the volume promises soft updates.
fn explain(stop: Stop, softdep: bool) -> (u8, String) {
    match stop {
        Stop::Fatal if softdep => {
            let why = "UNEXPECTED SOFT UPDATE INCONSISTENCY; nothing was changed. No crash leaves \
                       this: examine the disk, then run ffs fsck without -p";
            (exit::ERROR, why.to_owned())
        }
        Stop::Fatal => {
            let why = "UNEXPECTED INCONSISTENCY; nothing was changed; run ffs fsck without -p";
            (exit::ERROR, why.to_owned())
        }
        Stop::Device(error) => (exit::ERROR, error.to_string()),
        Stop::Interrupted => (exit::INTERRUPTED, "interrupted".to_owned()),
        Stop::Refused(code, why) => (code, why),
    }
}

impl<'a> Checker<'a> {
    fn new(
        dev: &Arc<dyn BlockDevice>,
        found: ffs_ondisk::sbsearch::Found,
        options: FsckOptions,
        report: Option<Report<'a>>,
    ) -> Res<Checker<'a>> {
        let (g, sb) = (found.geometry, found.sb);
        let (preen, answers) = match options.mode {
            Mode::Preen => (true, Answers::No),
            Mode::Full(answers) => (false, answers),
        };
        let answers = match dev.is_read_only() {
            true if preen => {
                return Err(Stop::Refused(exit::ERROR, "the device cannot be written".into()));
            }
            true => Answers::No,
            false => answers,
        };
        let judge = Judge::new(preen, answers);
        if judge.may_write() && sb.has_dirty_wapbl() {
            let why = "NetBSD's journal has to be replayed first: mount it there, or check with -n";
            return Err(Stop::Refused(exit::ERROR, why.into()));
        }
        let limit = memory_left(&g, options.max_memory)?;
        let strict = options.stop_on_read_error;
        // Who mounted it without keeping soft updates' promises has marked it so.
        let flags = found.flags;
        let softdep = flags.contains(FsFlags::DOSOFTDEP) && !flags.contains(FsFlags::NEEDSFSCK);
        Ok(Checker {
            store: Store::new(Arc::clone(dev), &g, limit, !preen, strict),
            judge,
            used: Bits::new(0),
            dups: None,
            inodes: Inodes::default(),
            dirs: Dirs::default(),
            groups: vec![Group::default(); g.ncg as usize],
            snapshots: Vec::new(),
            listed: Vec::new(),
            softdep,
            sujfree: false,
            sb_damaged: false,
            rewrite_backup: None,
            copying: false,
            restarting: false,
            repeating: false,
            alloc_hint: 0,
            new_frags: BTreeSet::new(),
            new_inodes: BTreeSet::new(),
            names: None,
            name_searches: names::SEARCHES,
            lostfound: None,
            lostfound_names: BTreeSet::new(),
            insert_hint: (Ino(0), 0),
            adopting: CkHash::empty(),
            erase: options.erase,
            totals: Totals::default(),
            pass: 0,
            meter: Meter::default(),
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

    /// Runs the phases until a pass changes nothing that an earlier phase has judged.
    fn phases(&mut self) -> Res<()> {
        for pass in 1..=MAX_PASSES {
            self.pass = pass;
            self.reset();
            if self.one_pass()? {
                return Ok(());
            }
        }
        self.judge.resolved = false;
        Ok(())
    }

    fn reset(&mut self) {
        self.used = Bits::new(self.g.size);
        self.dups = None;
        self.inodes = Inodes::new(&self.g);
        self.dirs = Dirs::default();
        self.snapshots.clear();
        self.listed.clear();
        self.lostfound = None;
        self.lostfound_names.clear();
        self.insert_hint = (Ino(0), 0);
        self.copying = false;
        self.restarting = false;
        self.repeating = false;
    }

    /// One pass; `true` if it got through phase 5.
    fn one_pass(&mut self) -> Res<bool> {
        let steps: [fn(&mut Self) -> Res<()>; 6] =
            [Self::phase0, Self::phase1, Self::phase1b, Self::phase2, Self::phase3, Self::phase4];
        for step in steps {
            step(self)?;
            if self.restarting {
                return Ok(false);
            }
        }
        if self.repeating {
            return Ok(false);
        }
        self.phase5()?;
        Ok(true)
    }

    /// A repair changed what earlier phases have judged: start over after this phase.
    pub(super) fn restart(&mut self) {
        self.restarting = self.judge.may_write();
    }

    /// The same, after phase 4.
    pub(super) fn again(&mut self) {
        self.repeating = self.judge.may_write();
    }

    pub(super) fn check_interrupt(&self) -> Res<()> {
        match &self.interrupt {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(Stop::Interrupted),
            _ => Ok(()),
        }
    }

    /// Reports what could not be read since the last call.
    pub(super) fn report_bad_reads(&mut self) -> Res<()> {
        for bad in self.store.take_bad() {
            let message = format!("cannot read, taken as zeros: {}", bad.reason);
            let place = format!("byte {}", bad.offset);
            self.note(Draft::fatal(Id::IoRead, message).place(place))?;
        }
        Ok(())
    }

    pub(super) fn timespec(&self) -> Timespec {
        Timespec { secs: self.now, nsec: 0 }
    }

    /// Writes what is to be written and makes the report.
    fn finish(
        mut self,
        dev: &dyn BlockDevice,
        outcome: Res<()>,
        original: &Superblock,
    ) -> FsckReport {
        let mut outcome = outcome;
        if !matches!(outcome, Err(Stop::Device(_) | Stop::Interrupted)) {
            self.name_findings();
        }
        let preen_stopped = self.judge.preen() && outcome.is_err();
        let mut clean = original.is_clean();
        if self.judge.may_write() && !preen_stopped && !matches!(outcome, Err(Stop::Device(_))) {
            let complete = outcome.is_ok();
            match self.commit(complete, original) {
                Ok(now_clean) => clean = now_clean,
                Err(stop) => outcome = Err(stop),
            }
            if clean && complete && self.erase != Erase::default() {
                outcome = outcome.and_then(|()| self.erase_free_space(dev));
            }
        }
        let modified = self.store.written();
        let mut judge = self.judge;
        let (exit_code, why) = match outcome {
            Ok(()) if judge.resolved => (exit::OK, None),
            Ok(()) => (exit::RERUN, None),
            Err(stop) => {
                let (code, why) = explain(stop, self.softdep);
                (code, Some(why))
            }
        };
        if !modified {
            // What was granted before the check stopped has not been done.
            judge.findings.iter_mut().for_each(|f| f.repaired = false);
        }
        self.totals.passes = self.pass;
        FsckReport {
            findings: judge.findings,
            counts: judge.counts,
            totals: self.totals,
            exit_code,
            clean,
            skipped: false,
            modified,
            stopped: why,
        }
    }

    /// Writes the repairs and the superblock; whether the volume is marked clean now.
    fn commit(&mut self, complete: bool, original: &Superblock) -> Res<bool> {
        self.mark_allocations(complete)?;
        let resolved = complete && self.judge.resolved;
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
        let dirty = self.store.is_dirty() || self.sb_damaged || self.rewrite_backup.is_some();
        if !dirty && self.sb == *original {
            return Ok(resolved);
        }
        self.sb.f.time = self.now.max(0);
        // Another time than the journal's own: no system replays the journal over these repairs.
        let mtime = self.sb.f.mtime;
        self.sb.f.mtime = if mtime == self.now { self.now + 1 } else { self.now };
        if let Some(at) = self.rewrite_backup {
            let mut copy = self.sb.clone();
            copy.location = at;
            self.store.write_late(at, copy.encode());
        }
        self.store.write_late(self.sb.location, self.sb.encode());
        self.store.commit()?;
        Ok(resolved)
    }
}

/// Memory left for repairs once the tables have theirs.
fn memory_left(g: &Geometry, limit: Option<u64>) -> Res<u64> {
    let tables = g.size / 8 + u64::from(g.ncg) * 64;
    let limit = limit.unwrap_or(DEFAULT_MEMORY.saturating_add(tables));
    match limit.checked_sub(tables) {
        Some(left) if left >= 1 << 20 => Ok(left),
        _ => {
            let why = format!(
                "a volume of this size needs at least {} bytes of memory",
                tables + (1 << 20)
            );
            Err(Stop::Refused(exit::ERROR, why))
        }
    }
}
