//! Interrupted offline commands: library calls without ordering, `tunefs` and `growfs`.
//!
//! `ffs cp`, `mv`, `rm` and `build` mount the image without ordering, perform file operations, and
//! unmount. A workload without ordering models them.

use std::sync::Arc;

use ffs_admin::newfs::Optim;
use ffs_admin::tunefs::{TunefsOptions, tunefs};
use ffs_core::OrderingPolicy;
use ffs_device::MemDevice;
use ffs_device::record::Recorder;

use super::command::{Command, TIME, WholeSectors};
use super::geometry::{BaseVolume, Shape};
use super::history::{Action, History, Step};
use super::mounting::failed;
use super::op::Workload;
use super::record::{Recording, Setting, record, windows};
use super::tag::POISON;
use crate::error::Result;

/// The size of a journal, bytes: the least that there may be.
const JOURNAL: u64 = ffs_ondisk::journal::MIN_BYTES;
/// Changes by `tunefs`, each with the change that a volume gets before.
fn tunings() -> Vec<(TunefsOptions, TunefsOptions)> {
    let none = TunefsOptions::default;
    let all = |options: TunefsOptions| TunefsOptions { all_copies: true, ..options };
    let soft = |on| TunefsOptions { soft_updates: Some(on), ..none() };
    let acls = |on| TunefsOptions { acls: Some(on), ..none() };
    let nfs4 = TunefsOptions { nfs4acls: Some(true), ..none() };
    let label = TunefsOptions { label: Some("lab".to_owned()), ..none() };
    let policy = TunefsOptions {
        maxbpg: Some(64),
        avgfilesize: Some(4096),
        avgfpdir: Some(3),
        metaspace: Some(64),
        ..none()
    };
    let space = TunefsOptions { minfree: Some(3), optim: Some(Optim::Space), ..none() };
    let flags =
        TunefsOptions { multilabel: Some(true), gjournal: Some(true), trim: Some(true), ..none() };
    let several = TunefsOptions { soft_updates: Some(false), ..policy.clone() };
    [
        (none(), all(acls(true))),
        (acls(true), all(acls(false))),
        (none(), nfs4),
        (none(), label.clone()),
        (none(), all(label)),
        (none(), policy.clone()),
        (none(), all(policy)),
        (none(), all(space)),
        (none(), all(flags)),
        (none(), soft(false)),
        (soft(false), soft(true)),
        (soft(false), all(soft(true))),
        (none(), all(several)),
    ]
    .into()
}

/// As [`tunings`], of the journal.
fn journal_tunings() -> Vec<(TunefsOptions, TunefsOptions)> {
    let none = TunefsOptions::default;
    let journal = |on| TunefsOptions {
        journal: Some(on),
        journal_size: Some(JOURNAL),
        now: super::mounting::START + TIME,
        ..none()
    };
    let all = |options: TunefsOptions| TunefsOptions { all_copies: true, ..options };
    let soft = TunefsOptions { soft_updates: Some(false), ..none() };
    let neither = TunefsOptions { soft_updates: Some(false), ..journal(false) };
    [
        (none(), journal(true)),
        (soft, journal(true)),
        (none(), all(journal(true))),
        (journal(true), journal(false)),
        (journal(true), all(journal(false))),
        (journal(true), neither),
    ]
    .into()
}

/// The changes by `tunefs` that volumes of `shape` may have.
fn tunings_of(shape: &Shape) -> Vec<(TunefsOptions, TunefsOptions)> {
    let mut all = tunings();
    // A journal needs space.
    if shape.bytes >= 2 * JOURNAL && !shape.full {
        all.extend(journal_tunings());
    }
    all
}

/// How many changes by `tunefs` there are of volumes of `shape`.
pub(super) fn tuning_count(shape: &Shape) -> u32 {
    tunings_of(shape).len() as u32
}

/// Sizes to which volumes of `shape` grow, bytes: within the last group, beyond it, and so far
/// that the summary area moves.
fn sizes(shape: &Shape) -> Vec<u64> {
    let (bytes, group) = (shape.bytes, u64::from(shape.group) * u64::from(shape.fsize));
    let part = bytes + group / 3;
    let mut all = vec![part / 512 * 512, bytes + group, bytes + 2 * group + 12_288];
    // A group has 16 bytes in the summary area.
    let groups = u64::from(shape.fsize) / 16 + 3;
    if groups * group <= 32 << 20 {
        all.push(groups * group + group / 2);
    }
    all
}

/// How many growths there are of volumes of `shape`.
pub(super) fn growth_count(shape: &Shape) -> u32 {
    sizes(shape).len() as u32
}

/// Runs `workload` as offline commands do.
///
/// # Errors
/// Those of [`record`].
pub(super) fn commands(
    base: &BaseVolume,
    workload: &Workload,
    setting: Setting,
) -> Result<Recording> {
    let recording = record(base, workload, Setting { ordering: OrderingPolicy::None, ..setting })?;
    Ok(Recording { offline: true, ..recording })
}

/// Runs `tunefs` number `n` on `base`. Returns the volume before, too.
///
/// # Errors
/// [`crate::LabError::Failed`] if it refuses.
pub(super) fn tune(
    base: &BaseVolume,
    n: u32,
    setting: Setting,
) -> Result<(Arc<BaseVolume>, Recording)> {
    let all = tunings_of(base.shape);
    let (before, change) = all[n as usize % all.len()].clone();
    let device = base.device.snapshot();
    tunefs(&device, &before).map_err(|error| failed("tunefs before", &error))?;
    let base = Arc::new(base.on(device));
    let recording = recorded(&base, Command::Tunefs(Box::new(change)), setting)?;
    Ok((base, recording))
}

/// Runs `growfs` number `n` on `base`. Returns the volume before, too, whose device has the size
/// that it grows to.
///
/// # Errors
/// [`crate::LabError::Failed`] if it refuses.
pub(super) fn grow(
    base: &BaseVolume,
    n: u32,
    setting: Setting,
) -> Result<(Arc<BaseVolume>, Recording)> {
    let all = sizes(base.shape);
    let size = all[n as usize % all.len()];
    let mut image = base.device.to_vec();
    image.resize(usize::try_from(size).unwrap_or(0), POISON);
    let base = Arc::new(base.on(MemDevice::from_bytes(&image)));
    let recording = recorded(&base, Command::Growfs(size), setting)?;
    Ok((base, recording))
}

fn recorded(base: &BaseVolume, command: Command, setting: Setting) -> Result<Recording> {
    let recorder = Arc::new(Recorder::new(base.device.snapshot()));
    command
        .run(&WholeSectors(&recorder))
        .map_err(|error| failed(&format!("{command:?}"), &error))?;
    let at = recorder.logged();
    let mut steps = base.steps.clone();
    steps.push(Step { began: 0, at, op: None, what: Action::Synced });
    let windows = windows(&recorder.take_events(), true)?;
    let (history, tree) = (History { steps }, base.tree.clone());
    Ok(Recording {
        offline: true,
        again: Some(command),
        ..Recording::new(windows, history, setting.soft, tree)
    })
}
