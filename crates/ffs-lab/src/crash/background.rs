//! Checks in the background, under load, of volumes that a crash left.
//!
//! **Purpose.** The volume after a drawn crash is mounted unrepaired and checked in the background.
//! Between the steps of the check, and between its corrections, the operations of a workload run.
//! Every state of what is written meanwhile is examined.
//!
//! Reference: `spec/fsck-and-crash.md` §7.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

use bsdffs::bgfsck::{self, CheckOptions, Outcome};
use ffs_core::Ffs;
use ffs_device::record::Recorder;
use ffs_device::{Durability, ManualClock, MemDevice};

use super::exec::Executor;
use super::geometry::BaseVolume;
use super::history::{Action, History, Step};
use super::mounting::{failed, mount, options, wait};
use super::op::{Op, Workload};
use super::record::{Recording, Setting, windows};
use super::snapshots::SnapshotLog;
use crate::error::Result;

/// Performs the operations of a workload, one at each call.
struct Load<'a> {
    executor: Executor,
    recorder: &'a Recorder<MemDevice>,
    clock: &'a ManualClock,
    ops: std::iter::Enumerate<std::slice::Iter<'a, Op>>,
    steps: Vec<Step>,
    snapshots: SnapshotLog,
    failures: Vec<(usize, String)>,
    /// An operation that found the volume damaged.
    damage: Option<crate::error::LabError>,
}

impl Load<'_> {
    fn step(&mut self) -> bool {
        let Some((at, op)) = self.ops.next() else { return false };
        let began = self.recorder.logged();
        let done = match op {
            Op::Wait(secs) => {
                wait(&self.executor.fs, self.clock, (*secs).min(31)).map(|()| Vec::new())
            }
            op => self.executor.perform(op),
        };
        let (ended, number) = (self.recorder.logged(), u32::try_from(at).ok());
        match done {
            Ok(done) => {
                let step = |what| Step { began, at: ended, op: number, what };
                self.steps.extend(done.into_iter().map(step));
                let noted = self.snapshots.note(&mut self.executor, &self.steps, (began, ended));
                self.damage = self.damage.take().or(noted.err());
            }
            Err(error @ ffs_core::Error::Format(_)) => {
                self.damage = Some(failed(&format!("operation {}, {op}", at + 1), &error));
            }
            Err(error) => self.failures.push((at, error.to_string())),
        }
        true
    }
}

/// Checks `base`, which a crash left, in the background, while the operations of `workload` run.
///
/// # Errors
/// [`crate::LabError::Failed`] if the volume cannot be mounted, checked or unmounted.
pub(super) fn record(
    base: &BaseVolume,
    workload: &Workload,
    setting: Setting,
) -> Result<Recording> {
    let device = base.device.snapshot().with_durability(Durability::OnFlush);
    let recorder = Arc::new(Recorder::new(device));
    let mut options = options(setting.ordering, setting.soft_of(workload), workload);
    options.force = false;
    let (fs, clock) = mount(Arc::clone(&recorder) as _, &options, setting.seed)?;
    let mut executor = Executor::new(fs.clone(), base.tree.clone());
    base.snapshots.iter().for_each(|known| executor.add_snapshot(known.obj, &known.hashes));
    let load = Load {
        executor,
        recorder: &recorder,
        clock: &clock,
        ops: workload.ops.iter().enumerate(),
        steps: base.steps.clone(),
        snapshots: SnapshotLog::new(&base.snapshots, false),
        failures: Vec::new(),
        damage: None,
    };
    let load = check(&fs, load)?;
    let Load { mut executor, mut steps, mut snapshots, failures, damage, .. } = load;
    if let Some(damage) = damage {
        return Err(damage);
    }
    let began = recorder.logged();
    let removed = executor.make_space().map_err(|error| failed("unmount", &error))?;
    let ended = recorder.logged();
    let step = |what| Step { began, at: ended, op: None, what };
    steps.extend(removed.into_iter().map(step));
    snapshots.note(&mut executor, &steps, (began, ended))?;
    let (began, tree) = (recorder.logged(), executor.tree.clone());
    drop(executor);
    fs.unmount().map_err(|error| failed("unmount", &error))?;
    steps.push(Step { began, at: recorder.logged(), op: None, what: Action::Synced });
    let windows = windows(&recorder.take_events(), true)?;
    Ok(Recording {
        failed: failures,
        snapshots: snapshots.into_records(),
        background: true,
        ..Recording::new(windows, History { steps }, setting.soft_of(workload), tree)
    })
}

/// Runs the check and the load, then the rest of the load.
fn check<'a>(fs: &Ffs, load: Load<'a>) -> Result<Load<'a>> {
    let load = Mutex::new(load);
    let step = || load.lock().unwrap_or_else(PoisonError::into_inner).step();
    let report = bgfsck::run(
        fs,
        CheckOptions {
            force: true,
            paced: false,
            interrupt: Arc::new(AtomicBool::new(false)),
            max_memory: None,
            changed: &mut |_| {
                step();
            },
            progress: &mut |_| {
                step();
            },
        },
    );
    match report.outcome {
        Outcome::Completed | Outcome::Failed(_) | Outcome::Impossible(_) => {}
        other => return Err(failed("the check in the background", &other)),
    }
    let mut load = load.into_inner().unwrap_or_else(PoisonError::into_inner);
    while load.step() {}
    load.executor.close();
    Ok(load)
}
