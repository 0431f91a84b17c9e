//! C6: crashes inside the repair of a state.

use std::sync::Arc;

use ffs_admin::fsck::{Fsck, FsckReport};
use ffs_device::record::Recorder;
use ffs_ondisk::Format;

use super::super::history::Violation;
use super::super::overlay::Changes;
use super::super::record;
use super::super::states::{Choice, Effort, WindowStates};
use super::{Examiner, REPAIR, Verdict, is_ours};

/// Random subsets of the writes of an interrupted fsck between two flushes.
const FSCK_SUBSETS: u32 = 16;
/// Most states of one window of an interrupted fsck.
const FSCK_STATES: u32 = 64;

impl Examiner<'_> {
    /// Clears the times of the repair in the superblock. The second of two repairs records a
    /// different time on purpose, so that no journal is replayed over it.
    fn forget_times(&self) {
        let superblock = match self.base.shape.format {
            Format::Ufs1 => 8192,
            Format::Ufs2 => 65536,
        };
        for (at, len) in TIMES {
            self.overlay.write(superblock + at, &[0; 8][..len]);
        }
    }

    /// Whether a repaired volume is sound, with its snapshots.
    fn is_sound(&mut self, verdict: &mut Verdict) -> bool {
        let before = verdict.violations.len();
        let mut found = Vec::new();
        self.silent("C3", &mut found);
        let prefixed = |v: Violation| {
            let rule = v.rule.strip_prefix("C3:").unwrap_or(&v.rule);
            Violation::new(format!("C6:{rule}"), v.what)
        };
        verdict.violations.extend(found.into_iter().map(prefixed));
        let checker = &mut *self.checker;
        self.overlay.with_bytes(|bytes| {
            checker.check(&bytes);
        });
        self.judge_snapshot_contents("C6", &mut verdict.violations);
        verdict.violations.len() == before && self.checker.found().violations.is_empty()
    }

    /// C6: interrupts the repair of `state` everywhere; the next repair must end in the same bytes
    /// but for times.
    pub(super) fn interrupt(&mut self, state: &Changes, verdict: &mut Verdict) {
        self.forget_times();
        let wanted = self.overlay.changes();
        let print = self.overlay.fingerprint();
        self.overlay.reset();
        self.overlay.apply(state);
        let recorder = Arc::new(Recorder::new(Arc::clone(&self.overlay)));
        let options = self.preen_options().at(REPAIR);
        // The result is known: only the writes matter here.
        drop(Fsck::new(Arc::clone(&recorder) as _, options).run());
        let windows = match record::windows(&recorder.take_events(), true) {
            Ok(windows) => windows,
            Err(error) => return verdict.violations.push(Violation::new("C6", error.to_string())),
        };
        let effort = Effort { subsets: FSCK_SUBSETS, sectors: FSCK_SUBSETS, window: FSCK_STATES };
        for (at, window) in windows.iter().enumerate() {
            let window_states = WindowStates::new(window, &self.overlay, self.setting.seed);
            for choice in window_states.choices(effort) {
                self.overlay.reset();
                self.overlay.apply(state);
                for durable in windows.iter().take(at).flat_map(|window| &window.writes) {
                    self.overlay.write(durable.offset, &durable.bytes);
                }
                window_states.apply_to(&window_states.layout(choice), &self.overlay);
                verdict.interrupted += 1;
                let later = self.preen_options().at(REPAIR + 60);
                let report = Fsck::new(Arc::clone(&self.overlay) as _, later).run();
                // A copy for a snapshot may have another place.
                let is_same = if self.recording.snapshots.is_empty() {
                    self.forget_times();
                    self.overlay.fingerprint() == print
                } else {
                    report.exit_code == 0 && self.is_sound(verdict)
                };
                if report.exit_code != 0 || !is_same {
                    let differs = self.overlay.first_difference(&wanted);
                    verdict.violations.push(again(at, choice, &report, differs));
                    return;
                }
            }
        }
    }
}

/// Superblock fields with times, and the check hash: byte, length.
const TIMES: [(u64, usize); 4] = [(32, 4), (1072, 8), (1208, 8), (1304, 4)];

/// The violation of a repair that was interrupted in that state and did not end as it should.
fn again(window: usize, choice: Choice, report: &FsckReport, differs: Option<u64>) -> Violation {
    let end = match report.findings.iter().find(|finding| !is_ours(finding)) {
        Some(finding) => finding.to_string(),
        None if report.exit_code != 0 => format!("exit code {}", report.exit_code),
        None => {
            let at = differs.unwrap_or_default();
            format!("not what it is without interruption, first at byte {at}")
        }
    };
    Violation::new(
        "C6",
        format!("fsck -p interrupted at its state {window}:{choice}, run again: {end}"),
    )
}
