//! Interrupted offline commands: library calls without ordering, and `tunefs`.
//!
//! `ffs cp`, `mv`, `rm` and `build` mount the image without ordering, perform file operations, and
//! unmount. A workload without ordering models them.

use std::sync::Arc;

use ffs_admin::tunefs::{TunefsOptions, tunefs};
use ffs_core::OrderingPolicy;
use ffs_device::record::Recorder;

use super::geometry::BaseVolume;
use super::history::{Action, History, Step};
use super::mounting::failed;
use super::op::Workload;
use super::record::{Recording, Setting, record, windows};
use crate::error::Result;

/// The options of `tunefs` run number `n`.
fn settings(n: u32) -> TunefsOptions {
    let none = TunefsOptions::default();
    match n % 4 {
        0 => TunefsOptions { soft_updates: Some(false), ..none },
        1 => TunefsOptions { label: Some("lab".to_owned()), all_copies: true, ..none },
        2 => TunefsOptions { minfree: Some(5), acls: Some(true), ..none },
        _ => TunefsOptions { maxbpg: Some(64), avgfilesize: Some(4096), all_copies: true, ..none },
    }
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

/// Runs `tunefs`, with settings that follow from `n`.
///
/// # Errors
/// [`crate::LabError::Failed`] if it refuses.
pub(super) fn tune(base: &BaseVolume, n: u32, setting: Setting) -> Result<Recording> {
    let recorder = Arc::new(Recorder::new(base.device.snapshot()));
    tunefs(&recorder, &settings(n)).map_err(|error| failed("tunefs", &error))?;
    let at = recorder.logged();
    let mut steps = base.steps.clone();
    steps.push(Step { began: 0, at, op: None, what: Action::Synced });
    Ok(Recording {
        windows: windows(&recorder.take_events(), true)?,
        history: History { steps },
        failed: Vec::new(),
        soft: setting.soft,
        alone: true,
        offline: true,
        ordering_events: Vec::new(),
        tree: base.tree.clone(),
    })
}
