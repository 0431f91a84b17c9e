//! Runs a workload and records the writes that reach the device, in windows.
//!
//! # Invariants
//! 1. A recording follows from the volume, the workload and the options alone: time is virtual,
//!    random numbers are seeded, one thread runs.
//! 2. A window holds the writes between two flushes. A crash may keep or lose each of them, by
//!    sector. The writes of earlier windows are durable. On a device without a volatile cache every
//!    write is its own window.
//!
//! Reference: `spec/fsck-and-crash.md` §11.1.

use std::sync::Arc;
use std::time::Duration;

use ffs_core::{Ffs, OrderingPolicy};
use ffs_device::fault::{EIO, Fault, FaultInjector, Rule};
use ffs_device::record::{Event, Recorder};
use ffs_device::{Durability, MemDevice, Operation};

use super::events::{Collector, OrderingEvent};
use super::exec::{Executor, Tree};
use super::geometry::BaseVolume;
use super::history::{Action, History, Step};
use super::mounting::{failed, mount, options, wait};
use super::op::{Op, Workload};
use super::oracle::{FsyncScope, SoftUpdateOptions};
use crate::error::Result;

/// Operations between two checks of the memory of the file system.
const AUDIT: usize = 8;
/// Bytes that the file system may use for changes that are not durable, in any case.
const MEMORY: u64 = 256 << 10;
const MEMORY_EACH: u64 = 1024;

/// Virtual time that each call takes.
const CALL: Duration = Duration::from_millis(10);

/// How a workload is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The ordering mode under test.
    pub ordering: OrderingPolicy,
    /// The seed of the random numbers of the file system.
    pub seed: u64,
    /// The mount options that decide what soft updates promise.
    pub soft: SoftUpdateOptions,
    /// Whether the log events of soft updates are kept ([`Recording::ordering_events`]).
    pub keeps_events: bool,
}

impl Setting {
    /// The options with which `workload` is mounted.
    #[must_use]
    pub(crate) fn soft_of(&self, workload: &Workload) -> SoftUpdateOptions {
        SoftUpdateOptions {
            fsync: if workload.fsync_file { FsyncScope::File } else { self.soft.fsync },
            replace_order: self.soft.replace_order && !workload.no_replace_order,
        }
    }
}

/// A write that a crash may keep, lose or tear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    /// Events in the log when the write had ended.
    pub at: u64,
    /// First byte, a multiple of 512.
    pub offset: u64,
    /// Whole sectors.
    pub bytes: Arc<[u8]>,
}

/// The writes between two flushes: they are volatile together.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Window {
    /// Events in the log when everything before was durable.
    pub begin: u64,
    /// Events in the log up to which any of its writes may have been missing: before the flush that
    /// ended the window; without a volatile cache, before its one write.
    pub end: u64,
    /// In the order of issue.
    pub writes: Vec<Write>,
}

/// The recording of a workload.
#[derive(Debug)]
pub(crate) struct Recording {
    /// The windows in order; the last is empty if all is durable.
    pub windows: Vec<Window>,
    /// The actions of the workload.
    pub history: History,
    /// Operations that failed: number and reason.
    pub failed: Vec<(usize, String)>,
    /// The mount options that decide what soft updates guaranteed.
    pub soft: SoftUpdateOptions,
    /// Whether one thread made all writes.
    pub alone: bool,
    /// Whether this is an offline command without ordering, on an unmounted volume.
    pub offline: bool,
    /// The log events of soft updates, if they were kept.
    pub ordering_events: Vec<OrderingEvent>,
    /// The tree at the end, as the workload expects it.
    pub(super) tree: Tree,
}

/// Splits an event log into windows.
///
/// # Errors
/// [`LabError::Failed`] for a write of partial sectors, which a device could not tear by sector.
pub(crate) fn windows(events: &[Event], volatile: bool) -> Result<Vec<Window>> {
    let mut all = Vec::new();
    let mut window = Window::default();
    let mut at = 0;
    for event in events {
        let before = at;
        at = match event {
            Event::Write { seq, .. }
            | Event::Flush { seq }
            | Event::Discard { seq, .. }
            | Event::Mark { seq, .. }
            | Event::Failed { seq, .. } => seq + 1,
        };
        let ends = match event {
            Event::Write { offset, bytes, .. } => {
                if offset % 512 != 0 || bytes.len() % 512 != 0 {
                    let why =
                        format!("a write of {} bytes at {offset} breaks sectors", bytes.len());
                    return Err(failed("record", &why));
                }
                window.writes.push(Write { at, offset: *offset, bytes: Arc::clone(bytes) });
                !volatile
            }
            Event::Flush { .. } => true,
            _ => false,
        };
        if ends {
            window.end = before;
            all.push(std::mem::replace(&mut window, Window { begin: at, ..Window::default() }));
        }
    }
    window.end = at;
    all.push(window);
    Ok(all)
}

/// Runs the operations of `workload` on `base`, on which its setup is done.
///
/// # Errors
/// [`LabError::Failed`] if the volume cannot be mounted or unmounted; operations may fail.
pub(crate) fn record(
    base: &BaseVolume,
    workload: &Workload,
    setting: Setting,
) -> Result<Recording> {
    let volatile = !workload.write_through;
    let durability = if volatile { Durability::OnFlush } else { Durability::OnCompletion };
    let device = base.device.snapshot().with_durability(durability);
    let recorder = Arc::new(Recorder::new(device));
    if !setting.keeps_events {
        return record_on(&recorder, base, workload, setting);
    }
    let collector = Collector::new(Arc::clone(&recorder));
    let (recording, events) = collector.collect(|| record_on(&recorder, base, workload, setting));
    Ok(Recording { ordering_events: events, ..recording? })
}

/// As [`record`], on a copy of the volume.
fn record_on(
    recorder: &Arc<Recorder<MemDevice>>,
    base: &BaseVolume,
    workload: &Workload,
    setting: Setting,
) -> Result<Recording> {
    // The injector is outside: the recorder sees the part of a failed write that arrives.
    let device = Arc::new(FaultInjector::new(Arc::clone(recorder), Vec::new()));
    let options = options(setting.ordering, setting.soft_of(workload), workload);
    let (fs, clock) = mount(Arc::clone(&device) as _, &options, setting.seed)?;
    let mut executor = Executor::new(fs, base.tree.clone());
    executor.stable = workload.stable;
    let mut steps = base.steps.clone();
    let mut failures = Vec::new();
    for (at, op) in workload.ops.iter().enumerate() {
        clock.advance(CALL);
        let began = recorder.logged();
        let done = match op {
            Op::Wait(secs) => wait(&executor.fs, &clock, *secs).map(|()| Vec::new()),
            Op::Fault { flush, nth, torn } => {
                device.add(fault(*flush, *nth, *torn));
                Ok(Vec::new())
            }
            op => executor.perform(op),
        };
        let (ended, number) = (recorder.logged(), u32::try_from(at).ok());
        match done {
            Ok(done) => steps.extend(done.into_iter().map(|what| Step {
                began,
                at: ended,
                op: number,
                what,
            })),
            // Operations may fail, but not because the volume is damaged.
            Err(error @ ffs_core::Error::Format(_)) => {
                return Err(failed(&format!("operation {}, {op}", at + 1), &error));
            }
            Err(error) => failures.push((at, error.to_string())),
        }
        if at % AUDIT == 0 {
            audit(&executor.fs, at)?;
        }
    }
    device.heal();
    let began = recorder.logged();
    executor.close();
    executor.fs.unmount().map_err(|error| failed("unmount", &error))?;
    steps.push(Step { began, at: recorder.logged(), op: None, what: Action::Synced });
    let windows = windows(&recorder.take_events(), !workload.write_through)?;
    let soft = setting.soft_of(workload);
    Ok(Recording {
        windows,
        history: History { steps },
        failed: failures,
        soft,
        alone: true,
        offline: false,
        ordering_events: Vec::new(),
        tree: executor.tree,
    })
}

/// The fault rule of an [`Op::Fault`], which fires once.
fn fault(flush: bool, nth: u32, torn: bool) -> Rule {
    let operation = if flush { Operation::Flush } else { Operation::Write };
    let fault = if torn { Fault::Torn { seed: nth.into() } } else { Fault::Errno(EIO) };
    Rule::new(operation, fault).nth(nth.into()).times(1)
}

/// Whether `bytes` of memory are in proportion to `records` changes that are not durable.
fn is_in_proportion(records: u64, bytes: u64) -> bool {
    bytes <= MEMORY + records * MEMORY_EACH
}

/// Checks that the memory of the file system is in proportion to the changes that are not durable.
fn audit(fs: &Ffs, at: usize) -> Result<()> {
    let gauges = fs.gauges();
    let gauge = |name| gauges.iter().find(|gauge| gauge.name == name).map_or(0, |g| g.value);
    let (records, bytes) = (gauge("debug.softdep.total_records"), gauge("debug.softdep.mem"));
    if is_in_proportion(records, bytes) {
        return Ok(());
    }
    let why = format!("after operation {}: {bytes} bytes for {records} records", at + 1);
    Err(failed("memory", &why))
}

#[cfg(test)]
mod tests {
    use super::super::Updates;
    use super::super::history::ROOT;
    use super::super::text;
    use super::*;

    fn recorded(ops: &str) -> Recording {
        let base =
            super::super::geometry::find("ufs2-2m").unwrap().base(Updates::Soft, true).unwrap();
        let setting = Setting {
            ordering: OrderingPolicy::SoftUpdates,
            seed: 1,
            soft: SoftUpdateOptions::default(),
            keeps_events: false,
        };
        record(&base, &text::parse(ops).unwrap(), setting).unwrap()
    }

    fn promises(recording: &Recording) -> usize {
        let steps = recording.history.steps.iter().filter(|step| step.op.is_some());
        steps.filter(|step| matches!(step.what, Action::Fsynced { .. })).count()
    }

    #[test]
    fn a_stable_mount_promises_each_name_and_attribute() {
        let ops = "create /n\nchmod /n 600\nrename /n /A/n\nappend /foo 100\n";
        assert_eq!(promises(&recorded(ops)), 0);
        let stable = recorded(&format!("stable\n{ops}"));
        assert_eq!(promises(&stable), 5, "file, directory; file; two directories; no content");
        let of_root = |step: &&Step| {
            step.what == Action::Fsynced { obj: ROOT, data_only: false } && step.op == Some(0)
        };
        let entered = stable.history.steps.iter().find(of_root).unwrap();
        assert!(entered.at > entered.began, "it was written before the call returned");
    }

    #[test]
    fn what_fails_promises_nothing() {
        for fault in ["fault write 1", "fault write 1 torn", "fault flush 1"] {
            let text = format!("append /foo 100\n{fault}\nfsync /foo\nfsync /foo\n");
            let recording = recorded(&text);
            let failed: Vec<usize> = recording.failed.iter().map(|(number, _)| *number).collect();
            assert_eq!((failed, promises(&recording)), (vec![2], 1), "{fault}");
        }
    }

    #[test]
    fn memory_is_in_proportion_to_what_is_not_durable() {
        assert!(is_in_proportion(0, MEMORY) && is_in_proportion(1000, 1000 * MEMORY_EACH));
        // After 48 rounds of write and truncate of a sparse file, where duplicates multiplied.
        assert!(!is_in_proportion(61, 558_284));
    }

    #[test]
    fn a_log_is_split_where_writes_become_durable() {
        let write = |seq| Event::Write { seq, offset: seq * 512, bytes: Arc::from([7; 512]) };
        let log = [write(0), write(1), Event::Flush { seq: 2 }, write(3), Event::Flush { seq: 4 }];
        let shape = |volatile| -> Vec<(u64, u64, usize)> {
            let windows = windows(&log, volatile).unwrap();
            windows.iter().map(|w| (w.begin, w.end, w.writes.len())).collect()
        };
        assert_eq!(shape(true), [(0, 2, 2), (3, 4, 1), (5, 5, 0)]);
        let through = [(0, 0, 1), (1, 1, 1), (2, 2, 0), (3, 3, 1), (4, 4, 0), (5, 5, 0)];
        assert_eq!(shape(false), through);
        let broken = Event::Write { seq: 0, offset: 3, bytes: Arc::from([7; 512]) };
        assert!(windows(&[broken], true).is_err());
    }
}
