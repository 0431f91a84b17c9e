//! The checks of one crash state.
//!
//! | check | question |
//! | --- | --- |
//! | C1 | Does the image, unrepaired, keep the contract? (`raw`, and the oracle) |
//! | C2 | Does `fsck -p` repair it, with only the repairs that a crash may call for? |
//! | C3 | Does a full check find nothing then, write nothing, and see the clean mark? |
//! | J3 | As C3, after a recovery by the journal |
//! | C4 | Is the repaired tree one that the workload may have left? |
//! | C5 | Mounted unrepaired and used, does it keep the contract? (a sample; soft updates only) |
//! | C6 | Does an interrupted `fsck -p`, run again, end in the same bytes, times aside? (sample) |
//! | C7 | Checked in the background, does the unrepaired volume keep C3 and C4? (a sample) |
//! | C8 | Does the interrupted growfs or tunefs leave a volume that its next run completes? |
//!
//! If C2 fails, a full repair must still end in a volume that C3 accepts.
//!
//! # Invariants
//! 1. C1 to C4 examine every state. The seed and the state decide whether C5 to C7 do. C8 takes the
//!    place of all of them where a command ran.
//! 2. After a state was examined the overlay shows the base again.
//!
//! Reference: `spec/fsck-and-crash.md` §8, §11.3.

mod background;
mod commands;
mod interrupt;

use std::collections::BTreeMap;
use std::sync::Arc;

use ffs_admin::fsck::{Finding, Fsck, FsckOptions, FsckReport, Id, Severity};
use ffs_core::{Env, Ffs};
use ffs_device::{BlockDevice, Rng, SplitMix64};

use super::exec::Executor;
use super::generate;
use super::geometry::BaseVolume;
use super::history::{Allowed, CrashPoint, Violation};
use super::mounting::{self, START};
use super::op::Workload;
use super::oracle::{Condition, Expectation, Promise};
use super::overlay::{Changes, OverlayDevice};
use super::raw;
use super::record::{Recording, Setting, Window};
use super::snapshots::{self, Listed};
use super::states::{Layout, WindowStates};
use super::suj::{self, Recovery};

/// What preen may repair after a crash (`spec/fsck-and-crash.md` §8).
const REPAIRS: &[Id] = &[
    Id::SbSnapshot,
    Id::CgLeak,
    Id::CgMaps,
    Id::CgHash,
    Id::CgSummary,
    Id::CgLostDir,
    Id::CsCg,
    Id::CsTotal,
    Id::InoUnref0,
    Id::InoUnref,
    Id::InoBlocks,
    Id::InoEndHole,
    Id::InoHash,
    Id::DirUnref,
    Id::DirClear,
    Id::LinkHigh,
    Id::EntExchange,
    Id::EntHardDir,
    Id::DotDotWrong,
    Id::SbTorn,
];

/// The time at which volumes are repaired, seconds.
const REPAIR: i64 = START + 100_000;
/// Operations after a crash (C5).
const FURTHER_WORK: u32 = 50;

/// The rate of the checks that examine a sample: one state in so many; 0: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// C5.
    pub remount: u32,
    /// C6.
    pub interrupt: u32,
    /// C7.
    pub background: u32,
}

/// The findings in a state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// The violations.
    pub violations: Vec<Violation>,
    /// The allowed states (A1 to A16) that it shows.
    pub seen: Allowed,
    /// Whether C5 examined it.
    pub remounted: bool,
    /// Whether C7 examined it.
    pub checked: bool,
    /// Crashes inside fsck (C6).
    pub interrupted: u64,
    /// How `fsck -p` made the volume consistent.
    pub recovery: Recovery,
}

/// The memory that one examiner passes on to the next.
#[derive(Debug, Default)]
pub(crate) struct ExaminerBuffers {
    overlay: Option<Arc<OverlayDevice>>,
    checker: raw::Checker,
}

/// Examines the states of a recording, one after the other.
pub(crate) struct Examiner<'a> {
    base: &'a BaseVolume,
    recording: &'a Recording,
    setting: Setting,
    rates: Rates,
    overlay: Arc<OverlayDevice>,
    checker: &'a mut raw::Checker,
    expected: BTreeMap<CrashPoint, Expectation>,
}

impl<'a> Examiner<'a> {
    /// An examiner at the first window of `recording`, which was made on `base`.
    #[must_use]
    pub(crate) fn new(
        base: &'a BaseVolume,
        recording: &'a Recording,
        setting: Setting,
        rates: Rates,
        buffers: &'a mut ExaminerBuffers,
    ) -> Self {
        let ExaminerBuffers { overlay, checker } = buffers;
        let overlay = match overlay {
            Some(overlay) if Arc::ptr_eq(overlay.origin(), &base.image) => {
                overlay.rewind();
                Arc::clone(overlay)
            }
            _ => {
                let new =
                    OverlayDevice::new(Arc::clone(&base.image), ffs_device::Durability::OnFlush);
                Arc::clone(overlay.insert(Arc::new(new)))
            }
        };
        Examiner { base, recording, setting, rates, overlay, checker, expected: BTreeMap::new() }
    }

    /// The device, which shows the content that is durable when the window begins.
    #[must_use]
    pub(crate) fn overlay(&self) -> &OverlayDevice {
        &self.overlay
    }

    /// Goes on to the next window: the writes of `window` become durable.
    pub(crate) fn pass(&mut self, window: &Window) {
        for write in &window.writes {
            self.overlay.commit(write.offset, &write.bytes);
        }
        self.expected.clear();
    }

    /// The violations of the order of the journal's writes in `window`.
    #[must_use]
    pub(crate) fn journal_order(&self, window: &Window) -> Vec<Violation> {
        suj::order(self.base, &self.overlay, window, self.recording.alone)
    }

    /// Runs `fsck -p` on a state and returns its report.
    #[must_use]
    pub(crate) fn preen(&self, window_states: &WindowStates<'_>, layout: &Layout) -> FsckReport {
        window_states.apply_to(layout, &self.overlay);
        let report = self.fsck(self.preen_options());
        self.overlay.reset();
        report
    }

    /// Examines a state of `window`.
    pub(crate) fn examine(
        &mut self,
        window: &Window,
        window_states: &WindowStates<'_>,
        layout: &Layout,
    ) -> Verdict {
        let mut verdict = Verdict::default();
        window_states.apply_to(layout, &self.overlay);
        let rng =
            SplitMix64::new(self.setting.seed ^ window_states.hash(layout) ^ window.begin << 40);
        let chosen = |rate: u32| rate != 0 && rng.below(rate.into()) == 0;
        let (remount, interrupt) = (chosen(self.rates.remount), chosen(self.rates.interrupt));
        let background = chosen(self.rates.background);
        let any = remount || interrupt || background || self.recording.again.is_some();
        let state = if any { self.overlay.changes() } else { Changes::new() };
        if let Some(command) = &self.recording.again {
            self.command(command, &state, interrupt, &mut verdict);
            self.overlay.reset();
            return verdict;
        }
        if self.recording.offline {
            self.offline(window, layout, &mut verdict);
            self.overlay.reset();
            return verdict;
        }
        self.untouched(window, layout, &mut verdict);
        let repaired = self.repair(window, layout, &mut verdict);
        if interrupt && repaired {
            self.interrupt(&state, &mut verdict);
        }
        if remount && super::keeps_contract(self.setting.ordering) {
            self.overlay.reset();
            self.overlay.apply(&state);
            self.work_on(rng.next_u64(), &mut verdict);
        }
        if background && super::keeps_contract(self.setting.ordering) {
            self.overlay.reset();
            self.overlay.apply(&state);
            self.check_in_background((window, layout), rng.next_u64(), &mut verdict);
        }
        self.overlay.reset();
        verdict
    }

    /// The crash points at which the device may show this state, as far as guarantees differ: the
    /// first, and the last if a guarantee was given in between.
    fn crash_points(
        &self,
        window: &Window,
        layout: &Layout,
    ) -> impl Iterator<Item = CrashPoint> + use<> {
        use super::history::Action::{Fsynced, Synced};
        let between = |at: u64| layout.crash.seen < at && at <= window.end;
        let promised = self
            .recording
            .history
            .steps
            .iter()
            .any(|step| between(step.at) && matches!(step.what, Fsynced { .. } | Synced));
        let last = promised.then_some(CrashPoint {
            seen: window.end,
            issued: layout.crash.issued.max(window.end),
        });
        std::iter::once(layout.crash).chain(last)
    }

    /// Has the oracle judge the tree that the checker has just read.
    fn judge(
        &mut self,
        window: &Window,
        layout: &Layout,
        condition: Condition,
        out: &mut Vec<Violation>,
    ) -> Allowed {
        let mut seen = Allowed::default();
        let promise = super::promise(self.setting.ordering, self.recording.soft);
        let history = &self.recording.history;
        for crash in self.crash_points(window, layout) {
            let expected = self
                .expected
                .entry(crash)
                .or_insert_with(|| Expectation::new(history, crash, promise));
            let found = self.checker.found();
            let before = out.len();
            let shows =
                self.overlay.with_bytes(|bytes| expected.judge(&bytes, found, condition, out));
            seen = seen.or(shows);
            if condition == Condition::Recovered {
                out.iter_mut().skip(before).for_each(|v| v.what.push_str(", after fsck -p"));
            }
        }
        self.judge_snapshots(window, layout, condition, out);
        seen
    }

    /// S1 to S5, of the tree that the checker has just read.
    fn judge_snapshots(
        &self,
        window: &Window,
        layout: &Layout,
        condition: Condition,
        out: &mut Vec<Violation>,
    ) {
        let records = &self.recording.snapshots;
        let promise = super::promise(self.setting.ordering, self.recording.soft);
        if records.is_empty() || promise == Promise::Async {
            return;
        }
        let crashes = self.crash_points(window, layout);
        let found = self.checker.found();
        let before = out.len();
        let listed = match condition {
            // The check in the background makes a snapshot of its own.
            Condition::Untouched if self.recording.background => Listed::Any,
            Condition::Untouched => Listed::Making(&self.base.listed_in_vain),
            _ => Listed::None,
        };
        self.overlay.with_bytes(|bytes| {
            snapshots::judge(records, (bytes, found), crashes, listed, out);
        });
        if condition == Condition::Recovered {
            out.iter_mut().skip(before).for_each(|v| v.what.push_str(", after a check"));
        }
    }

    /// S1 and S5, of the tree that the checker has just read. `check` is the label of the check.
    fn judge_snapshot_contents(&self, check: &str, out: &mut Vec<Violation>) {
        let (records, found) = (&self.recording.snapshots, self.checker.found());
        let mut wrong = Vec::new();
        self.overlay
            .with_bytes(|bytes| snapshots::judge_contents(records, bytes, found, &mut wrong));
        let prefixed = |v: Violation| Violation::new(format!("{check}:{}", v.rule), v.what);
        out.extend(wrong.into_iter().map(prefixed));
    }

    /// C1.
    fn untouched(&mut self, window: &Window, layout: &Layout, verdict: &mut Verdict) {
        let checker = &mut *self.checker;
        let found = self.overlay.with_bytes(|bytes| checker.check(&bytes));
        verdict.seen = found.seen;
        verdict.violations.extend(found.violations.iter().cloned());
        let shows = self.judge(window, layout, Condition::Untouched, &mut verdict.violations);
        verdict.seen = verdict.seen.or(shows);
    }

    /// C2, C3 and C4. Returns whether preen repaired the volume with allowed repairs only.
    fn repair(&mut self, window: &Window, layout: &Layout, verdict: &mut Verdict) -> bool {
        let report = self.fsck(self.preen_options());
        let before = verdict.violations.len();
        let (recovery, refused) = suj::recovery(self.base, window, &report);
        verdict.recovery = recovery;
        verdict.violations.extend(refused);
        let before_repair = verdict.violations.len();
        foreign_repairs(&report, "C2", &mut verdict.violations);
        let preened = report.exit_code == 0;
        if !preened && verdict.violations.len() == before_repair {
            let why = report.stopped.unwrap_or_else(|| "not everything was repaired".to_owned());
            let what = format!("fsck -p exits {}: {why}", report.exit_code);
            verdict.violations.push(Violation::new("C2:EXIT", what));
        }
        if !preened {
            self.fsck(FsckOptions::yes());
        }
        let allowed = preened && verdict.violations.len() == before;
        let check = if recovery == Recovery::Journal { "J3" } else { "C3" };
        self.silent(check, &mut verdict.violations);
        if preened {
            let checker = &mut *self.checker;
            let found = self.overlay.with_bytes(|bytes| checker.check(&bytes));
            let prefixed =
                |v: &Violation| Violation::new(format!("{check}:{}", v.rule), v.what.clone());
            verdict.violations.extend(found.violations.iter().map(prefixed));
            self.judge(window, layout, Condition::Recovered, &mut verdict.violations);
        }
        allowed
    }

    /// Examines a state of an interrupted offline command: a full repair must end in a sound
    /// volume, with every file on which the command did not work.
    fn offline(&mut self, window: &Window, layout: &Layout, verdict: &mut Verdict) {
        let report = self.fsck(FsckOptions::yes());
        if report.exit_code != 0 {
            let why = report.stopped.unwrap_or_else(|| "not everything was repaired".to_owned());
            let what = format!("fsck -y exits {}: {why}", report.exit_code);
            verdict.violations.push(Violation::new("C2:EXIT", what));
        }
        self.silent("C3", &mut verdict.violations);
        let checker = &mut *self.checker;
        let found = self.overlay.with_bytes(|bytes| checker.check(&bytes));
        let prefixed = |v: &Violation| Violation::new(format!("C3:{}", v.rule), v.what.clone());
        verdict.violations.extend(found.violations.iter().map(prefixed));
        let history = &self.recording.history;
        for crash in self.crash_points(window, layout) {
            let new = || Expectation::new(history, crash, Promise::Async);
            let expected = self.expected.entry(crash).or_insert_with(new);
            let found = self.checker.found();
            let out = &mut verdict.violations;
            self.overlay.with_bytes(|bytes| expected.judge_untouched(&bytes, found, out));
        }
    }

    /// `fsck -p -f`, or `fsck -p` on a volume with a journal, which `-f` does not use.
    fn preen_options(&self) -> FsckOptions {
        FsckOptions { force: self.base.journal.is_empty(), ..FsckOptions::preen() }
    }

    fn fsck(&self, options: FsckOptions) -> FsckReport {
        Fsck::new(Arc::clone(&self.overlay) as _, options.at(REPAIR)).run()
    }

    /// C3, or J3.
    fn silent(&self, check: &str, out: &mut Vec<Violation>) {
        let report = self.fsck(FsckOptions::no());
        let mut wrong =
            |rule: &str, what: String| out.push(Violation::new(format!("{check}:{rule}"), what));
        for finding in &report.findings {
            wrong(finding.id.as_str(), finding.to_string());
        }
        if let Some(why) = report.stopped {
            wrong("EXIT", why);
        }
        if report.modified {
            wrong("WRITE", "a check that may not write has written".to_owned());
        }
        if !report.clean {
            wrong("CLEAN", "the repaired volume is not marked clean".to_owned());
        }
    }

    /// C5: mounts the unrepaired volume, performs operations, unmounts and checks it. A volume with
    /// a journal cannot be mounted before it is recovered.
    fn work_on(&mut self, seed: u64, verdict: &mut Verdict) {
        verdict.remounted = true;
        if !self.base.journal.is_empty() {
            drop(self.fsck(self.preen_options()));
        }
        let wrong = |what: String| Violation::new("C5:MOUNT", what);
        let options =
            mounting::options(self.setting.ordering, self.recording.soft, &Workload::default());
        let env = Env::seeded(mounting::clock(5000), seed);
        let device = Arc::clone(&self.overlay) as Arc<dyn BlockDevice>;
        let fs = match Ffs::mount(device, &options, env) {
            Ok(fs) => fs,
            Err(error) => return verdict.violations.push(wrong(error.to_string())),
        };
        let mut executor = Executor::untracked(fs);
        let mut ops = generate::further_work(self.base.shape, FURTHER_WORK, seed);
        if generate::is_long(|path| self.base.tree.has(path)) {
            ops.extend(generate::further_names(seed));
        }
        for op in &ops {
            // The tree is not tracked: operations may fail, but not because the volume is damaged.
            if let Err(error @ (ffs_core::Error::Format(_) | ffs_core::Error::Io(_))) =
                executor.perform(op)
            {
                verdict.violations.push(Violation::new("C5:WORK", format!("{op}: {error}")));
            }
        }
        executor.close();
        match executor.fs.unmount() {
            // Without space for the copies of a snapshot it stays as a crash leaves it.
            Err(ffs_core::Error::NoSpace) if !self.recording.snapshots.is_empty() => {}
            Err(error) => verdict.violations.push(wrong(error.to_string())),
            Ok(()) => {}
        }
        let checker = &mut *self.checker;
        let found = self.overlay.with_bytes(|bytes| checker.check(&bytes));
        let prefixed = |v: &Violation| Violation::new(format!("C5:{}", v.rule), v.what.clone());
        verdict.violations.extend(found.violations.iter().map(prefixed));
        self.judge_snapshot_contents("C5", &mut verdict.violations);
        foreign_repairs(&self.fsck(FsckOptions::no()), "C5", &mut verdict.violations);
    }
}

/// Whether preen may make this repair after a crash. Besides [`REPAIRS`] that is a pointer of a
/// directory beyond its size: the pointer precedes the size, as the size must not cover a hole.
fn is_ours(finding: &Finding) -> bool {
    let ahead = finding.id == Id::IndTrunc && finding.severity == Severity::Benign;
    ahead || REPAIRS.contains(&finding.id)
}

/// Adds the findings that no crash may call for.
fn foreign_repairs(report: &FsckReport, check: &str, out: &mut Vec<Violation>) {
    let foreign = |finding: &&Finding| !is_ours(finding);
    for finding in report.findings.iter().filter(foreign) {
        out.push(Violation::new(format!("{check}:{}", finding.id), finding.to_string()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No crash may call for these repairs (`spec/fsck-and-crash.md` §11.3, C2), whether preen
    /// makes them or not.
    #[test]
    fn what_soft_updates_exclude_is_no_repair() {
        let excluded = [
            Id::CgAllocFree,
            Id::EntType,
            Id::DupName,
            Id::LinkLow,
            Id::EntUnalloc,
            Id::BlkBad,
            Id::BlkDup,
        ];
        assert!(excluded.iter().all(|id| !REPAIRS.contains(id)));
    }
}
