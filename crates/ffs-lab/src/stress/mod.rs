//! Stress of a mounted directory: random operations by several processes.
//!
//! | module | holds |
//! | --- | --- |
//! | `fsx` | one file with every kind of access, compared with a model in memory |
//! | `sparse` | one large sparse file, compared with a model of its sectors |
//! | `tree` | every operation on names and files, in directories that all processes share |
//! | [`owned`] | files with a known content, each of one process, in shared directories |
//! | `sys` | system calls that the standard library lacks |
//!
//! # Invariants
//! 1. The operations of a worker follow from its kind, its seed and its number.
//! 2. An operation may fail with an error of the name or the volume (`ENOENT`, `ENOSPC`). An error
//!    that no healthy file system returns (`EIO`, `EUCLEAN`, ...) is a violation and ends the
//!    worker.
//! 3. Each worker is a process with its own file descriptors.
//!
//! Reference: fsx and fsstress of the Linux Test Project and xfstests; `docs/lab/applications.md`.

mod fsx;
pub mod owned;
mod sparse;
mod sys;
mod tree;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ffs_device::{Rng, SplitMix64};
use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};

/// The kind of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// One file, compared with a model.
    Fsx,
    /// One large sparse file, compared with a model.
    Sparse,
    /// Every operation on names and files.
    Tree,
    /// [`owned`].
    Owned,
}

/// The kinds by name.
pub const KINDS: &[(&str, Kind)] =
    &[("fsx", Kind::Fsx), ("sparse", Kind::Sparse), ("tree", Kind::Tree), ("owned", Kind::Owned)];

impl Kind {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        KINDS.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// The kind of that name.
    ///
    /// # Errors
    /// [`LabError::Plan`] with the valid names.
    pub fn find(name: &str) -> Result<Kind> {
        let found = KINDS.iter().find(|(known, _)| *known == name);
        found.map(|(_, kind)| *kind).ok_or_else(|| {
            let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).collect();
            LabError::Plan(format!("no stress '{name}': expected {}", names.join(", ")))
        })
    }

    /// The names of its operations.
    #[must_use]
    pub fn operations(self) -> Vec<&'static str> {
        match self {
            Kind::Fsx => fsx::OPERATIONS.iter().map(|(name, _)| *name).collect(),
            Kind::Sparse => sparse::OPERATIONS.iter().map(|(name, _)| *name).collect(),
            Kind::Tree => tree::OPERATIONS.iter().map(|(name, ..)| *name).collect(),
            Kind::Owned => owned::OPERATIONS.iter().map(|(name, _)| *name).collect(),
        }
    }
}

/// The task of one worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The kind of worker.
    pub kind: Kind,
    /// A directory that all workers share.
    pub dir: PathBuf,
    /// The number of the worker.
    pub number: u32,
    /// The seed; the operations follow from it and the number.
    pub seed: u64,
    /// The end of the task.
    pub limit: Limit,
    /// Operations to leave out.
    pub without: Vec<String>,
}

/// When a worker ends: whichever comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limit {
    /// After so many operations.
    pub operations: Option<u64>,
    /// After so long.
    pub time: Option<Duration>,
}

/// The results of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The number of each outcome (`ok` or the error) of each operation.
    pub operations: BTreeMap<String, BTreeMap<String, u64>>,
    /// The violation, with the operations before it.
    pub violation: Option<String>,
}

impl Report {
    /// Operations in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.operations.values().flat_map(BTreeMap::values).sum()
    }

    /// Adds the results of another worker; keeps the first violation.
    pub fn add(&mut self, other: Report) {
        for (name, outcomes) in other.operations {
            let mine = self.operations.entry(name).or_default();
            for (outcome, count) in outcomes {
                *mine.entry(outcome).or_default() += count;
            }
        }
        self.violation = self.violation.take().or(other.violation);
    }

    fn count(&mut self, name: &str, outcome: &str) {
        let outcomes = self.operations.entry(name.to_owned()).or_default();
        *outcomes.entry(outcome.to_owned()).or_default() += 1;
    }
}

/// The reason of a failed operation.
#[derive(Debug)]
enum Failed {
    /// The call failed.
    Call(rustix::io::Errno),
    /// The content or the names differ from the expected ones.
    Wrong(String),
}

impl From<rustix::io::Errno> for Failed {
    fn from(errno: rustix::io::Errno) -> Failed {
        Failed::Call(errno)
    }
}

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Failed {
        match error.raw_os_error() {
            Some(errno) => Failed::Call(rustix::io::Errno::from_raw_os_error(errno)),
            None => Failed::Wrong(error.to_string()),
        }
    }
}

/// The result of an operation of a worker.
type Done = std::result::Result<(), Failed>;

/// A worker that takes one step after the other.
trait Worker {
    /// Performs one operation. Returns its name and result.
    fn step(&mut self, rng: &SplitMix64) -> (&'static str, Done);

    /// Checks everything at the end.
    fn end(&mut self) -> Done {
        Ok(())
    }

    /// Further errors that are violations, besides those of [`is_unhealthy`].
    fn forbids(&self, _errno: rustix::io::Errno) -> bool {
        false
    }

    /// The last operations, for a report.
    fn last(&self) -> String {
        String::new()
    }
}

/// Whether no healthy file system returns this error.
fn is_unhealthy(errno: rustix::io::Errno) -> bool {
    use rustix::io::Errno as E;
    let errors = [
        E::IO,
        E::UCLEAN,
        E::NOTCONN,
        E::CONNABORTED,
        E::BADF,
        E::FAULT,
        E::STALE,
        E::TIMEDOUT,
        E::NOMEM,
        E::DEADLK,
        E::PROTO,
        E::BADMSG,
        E::ROFS,
    ];
    errors.contains(&errno)
}

/// A number that starts the operations of worker `number`.
fn worker_seed(seed: u64, number: u32) -> u64 {
    SplitMix64::new(seed ^ u64::from(number).rotate_left(32)).next_u64()
}

/// Performs a task in this process.
///
/// # Errors
/// [`LabError::Failed`] if the directory cannot be used.
pub fn work(task: &Task) -> Result<Report> {
    let seed = worker_seed(task.seed, task.number);
    let made: std::io::Result<Box<dyn Worker>> = match task.kind {
        Kind::Fsx => fsx::Fsx::new(task).map(|worker| Box::new(worker) as _),
        Kind::Sparse => sparse::Sparse::new(task).map(|worker| Box::new(worker) as _),
        Kind::Tree => tree::Tree::new(task).map(|worker| Box::new(worker) as _),
        Kind::Owned => owned::Owned::new(task, seed).map(|worker| Box::new(worker) as _),
    };
    let mut worker =
        made.map_err(|error| LabError::unusable(&task.dir.display().to_string(), error))?;
    let (mut report, rng, started) = (Report::default(), SplitMix64::new(seed), Instant::now());
    let mut done = 0;
    let goes_on = |done: u64| {
        task.limit.operations.is_none_or(|most| done < most)
            && task.limit.time.is_none_or(|most| started.elapsed() < most)
    };
    while goes_on(done) && report.violation.is_none() {
        let (name, outcome) = worker.step(&rng);
        done += 1;
        note(&mut report, &*worker, (name, done), outcome);
    }
    if report.violation.is_none() {
        let outcome = worker.end();
        note(&mut report, &*worker, ("end", done), outcome);
    }
    if let Some(what) = &mut report.violation {
        let Task { kind, number, seed, .. } = task;
        *what = format!("{} {number}, seed {seed}, {what}{}", kind.name(), worker.last());
    }
    Ok(report)
}

fn note(report: &mut Report, worker: &dyn Worker, (name, at): (&str, u64), outcome: Done) {
    match outcome {
        Ok(()) => report.count(name, "ok"),
        Err(Failed::Call(errno)) => {
            report.count(name, &errno_name(errno));
            if is_unhealthy(errno) || worker.forbids(errno) {
                report.violation = Some(format!("operation {at}, {name}: {errno}"));
            }
        }
        Err(Failed::Wrong(why)) => {
            report.count(name, "wrong");
            report.violation = Some(format!("operation {at}, {name}: {why}"));
        }
    }
}

/// The short text of an error, without its number.
fn errno_name(errno: rustix::io::Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// Performs each task in its own process, which `spawn` prepares, and adds up the results. Ends the
/// processes when `goes_on` returns false.
///
/// # Errors
/// [`LabError::Failed`] if a process cannot be started, or [`LabError::Interrupted`].
pub fn run_all(
    tasks: &[Task],
    spawn: impl Fn(&Task) -> Command,
    mut goes_on: impl FnMut() -> bool,
) -> Result<Report> {
    let mut running = Vec::new();
    for task in tasks {
        let mut command = spawn(task);
        let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let child = started.map_err(|error| LabError::unusable("stress", error))?;
        running.push(Running(child));
    }
    let mut all = Report::default();
    for (child, task) in running.iter_mut().zip(tasks) {
        while child.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            if !goes_on() {
                return Err(LabError::Interrupted);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        all.add(child.report(task));
    }
    Ok(all)
}

/// The process of a worker; killed when this value is dropped.
struct Running(Child);

impl Running {
    fn report(&mut self, task: &Task) -> Report {
        let mut text = String::new();
        let read = self.0.stdout.take().map(|mut out| out.read_to_string(&mut text));
        let status = self.0.wait();
        if let (Some(Ok(_)), Ok(report)) = (read, serde_json::from_str(&text)) {
            return report;
        }
        let ended = status.map_or_else(|e| e.to_string(), |status| status.to_string());
        let (kind, number) = (task.kind.name(), task.number);
        let violation = format!("{kind} {number}, seed {}: the worker died: {ended}", task.seed);
        Report { violation: Some(violation), ..Report::default() }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.0.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
}

/// Chooses by weight; excluded operations have no weight.
fn choose<T: Copy>(rng: &SplitMix64, among: &[(T, u32)]) -> Option<T> {
    let total: u64 = among.iter().map(|(_, weight)| u64::from(*weight)).sum();
    if total == 0 {
        return None;
    }
    let mut at = rng.below(total);
    among.iter().find_map(|(item, weight)| {
        let weight = u64::from(*weight);
        if at < weight {
            return Some(*item);
        }
        at -= weight;
        None
    })
}

/// Bytes that depend on `tag`, none of them zero.
fn pattern(tag: u64, len: usize) -> Vec<u8> {
    let rng = SplitMix64::new(tag);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend(rng.next_u64().to_le_bytes().map(|byte| byte | 1));
    }
    bytes.truncate(len);
    bytes
}

/// Makes a directory if it does not exist.
fn ensure_dir(path: &Path) -> std::io::Result<()> {
    match std::fs::create_dir(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
