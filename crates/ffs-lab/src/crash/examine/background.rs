//! C7: the check of an unrepaired state in the background.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use bsdffs::bgfsck::{self, CheckOptions, Outcome};
use ffs_core::{Env, Ffs};
use ffs_device::BlockDevice;

use super::super::history::Violation;
use super::super::mounting;
use super::super::op::Workload;
use super::super::oracle::Condition;
use super::super::record::Window;
use super::super::states::Layout;
use super::{Examiner, Verdict};

impl Examiner<'_> {
    /// Mounts the unrepaired volume, checks it in the background, and unmounts it: it is clean, and
    /// has everything that it must have.
    pub(super) fn check_in_background(
        &mut self,
        (window, layout): (&Window, &Layout),
        seed: u64,
        verdict: &mut Verdict,
    ) {
        let wrong = |what: String| Violation::new("C7", what);
        let soft = self.recording.soft;
        let mut options = mounting::options(self.setting.ordering, soft, &Workload::default());
        options.force = false;
        let env = Env::seeded(mounting::clock(5000), seed);
        let device = Arc::clone(&self.overlay) as Arc<dyn BlockDevice>;
        // A torn superblock needs the check of the unmounted volume.
        let Ok(fs) = Ffs::mount(device, &options, env) else { return };
        if fs.read_only_reason().is_some() {
            return;
        }
        let report = bgfsck::run(
            &fs,
            CheckOptions {
                force: false,
                paced: false,
                interrupt: Arc::new(AtomicBool::new(false)),
                max_memory: None,
                changed: &mut |_| (),
                progress: &mut |_| (),
            },
        );
        let unmounted = fs.unmount();
        match report.outcome {
            Outcome::Completed | Outcome::Skipped => {}
            // A nearly full volume has no space for a snapshot.
            Outcome::Failed(why) | Outcome::Impossible(why) if is_full(&why) => return,
            other => return verdict.violations.push(wrong(format!("the check ended: {other}"))),
        }
        if let Err(error) = unmounted {
            return verdict.violations.push(wrong(format!("unmount: {error}")));
        }
        verdict.checked = true;
        let mut found = Vec::new();
        self.silent("C3", &mut found);
        let checker = &mut *self.checker;
        let raw = self.overlay.with_bytes(|bytes| checker.check(&bytes));
        found.extend(raw.violations.iter().cloned());
        self.judge(window, layout, Condition::Recovered, &mut found);
        verdict.violations.extend(found.into_iter().map(|v| {
            let rule = v.rule.strip_prefix("C3:").unwrap_or(&v.rule);
            Violation::new(format!("C7:{rule}"), v.what.clone())
        }));
    }
}

/// Whether a check failed because the volume is full.
fn is_full(why: &str) -> bool {
    ["space", "No space"].iter().any(|word| why.contains(word))
}
