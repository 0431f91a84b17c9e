//! The check of a snapshot of a mounted volume: findings become corrections for the mount.
//!
//! **Purpose.** The phases are those of preen. They run on a device that shows a snapshot. Repairs
//! go into the buffer of the check, where later phases see them, and are never written. Each one is
//! also recorded as a [`Correction`] in terms of operations of the mounted file system.
//!
//! **Invariants.**
//! 1. A finding that no correction can repair ends the check: the list of corrections is then
//!    useless, and the unmounted volume must be checked.
//!
//! References: spec/fsck-and-crash.md §7.

use std::collections::BTreeMap;
use std::sync::Arc;

use ffs_device::BlockDevice;

use super::LOG;
use super::checker::Checker;
use super::corrections::{Correction, Corrections};
use super::locate;
use super::options::FsckOptions;
use super::progress::Progress;
use super::report::{Finding, Id, Totals};
use super::resolve::{Mode, Res, Stop};
use super::run::explain;

/// How the check of a snapshot ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckEnd {
    /// The corrections repair everything that was found.
    Repairable,
    /// Only a check of the unmounted volume can repair what was found, for this reason.
    Unrepairable(String),
    /// The check failed, for this reason.
    Failed(String),
    /// The caller has interrupted it.
    Interrupted,
}

/// The result of the check of a snapshot.
#[derive(Debug)]
pub struct SnapshotCheck {
    /// How it ended.
    pub end: CheckEnd,
    /// Findings in order; at most [`MAX_FINDINGS`](super::report::MAX_FINDINGS).
    pub findings: Vec<Finding>,
    /// Number of findings of each id, including those beyond the limit.
    pub counts: BTreeMap<Id, u64>,
    /// Totals of the snapshot; zeros if the check did not complete.
    pub totals: Totals,
    /// What the mount has to correct, in no order; nothing unless it is repairable.
    pub corrections: Vec<Correction>,
    /// There are more corrections than the list can hold.
    pub incomplete: bool,
}

/// Checks the snapshot that `dev` shows, of a volume that is mounted with soft updates. Of the
/// options, those for repairs have no effect.
#[must_use]
pub fn check_snapshot(
    dev: &Arc<dyn BlockDevice>,
    options: FsckOptions,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> SnapshotCheck {
    let options = FsckOptions {
        mode: Mode::Preen,
        keep_orphans: false,
        stop_on_read_error: true,
        superblock: None,
        ..options
    };
    check(dev, options, progress).unwrap_or_else(|stop| SnapshotCheck {
        end: end_of(stop),
        findings: Vec::new(),
        counts: BTreeMap::new(),
        totals: Totals::default(),
        corrections: Vec::new(),
        incomplete: false,
    })
}

/// Checks the snapshot. An error: the check did not begin.
fn check(
    dev: &Arc<dyn BlockDevice>,
    options: FsckOptions,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Res<SnapshotCheck> {
    let located = locate::locate(&**dev, None)?;
    let (found, fields) = (located.found, located.corrections);
    let (source, warnings) = (found.source, found.warnings.clone());
    let mut ck = Checker::of_snapshot(dev, found, options, progress)?;
    let outcome = ck.check_superblock(source, &warnings, &fields).and_then(|()| {
        ck.begin_round(1);
        // No repair of a crash's traces needs a second round.
        if ck.run_phases_once()? && ck.resolver.resolved { Ok(()) } else { Err(Stop::Fatal) }
    });
    ck.add_paths();
    let Corrections { list, incomplete } = ck.corrections.take().unwrap_or_default();
    let repairable = outcome.is_ok();
    let mut findings = ck.resolver.findings;
    findings.iter_mut().for_each(|f| f.repaired &= repairable);
    tracing::info!(target: LOG, findings = findings.len(), corrections = list.len(), "checked");
    Ok(SnapshotCheck {
        end: outcome.map_or_else(end_of, |()| CheckEnd::Repairable),
        findings,
        counts: ck.resolver.counts,
        totals: ck.totals,
        corrections: if repairable { list } else { Vec::new() },
        incomplete,
    })
}

/// How a check that stopped early has ended.
fn end_of(stop: Stop) -> CheckEnd {
    let why = "UNEXPECTED SOFT UPDATE INCONSISTENCY; unmount it and run ffs fsck";
    match stop {
        Stop::Fatal => CheckEnd::Unrepairable(why.to_owned()),
        Stop::Interrupted => CheckEnd::Interrupted,
        Stop::Device(_) | Stop::Refused(..) => CheckEnd::Failed(explain(stop, why).1),
    }
}
