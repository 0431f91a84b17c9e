//! Measures the phases of a run and makes the metrics.
//!
//! # Invariants
//! 1. A metric has time and work. Rates and percentages are computed when they are shown, so that
//!    several runs are averaged as time for each unit of work.
//! 2. [`Outcome::metrics`] has one metric for each [`PhaseInfo`] of the workload, in the same
//!    order. A metric that could not be measured is omitted, and a phase has a note about it.

use std::collections::BTreeMap;

use super::outcome::{Metric, MetricKind, Outcome, PhaseResult};
use crate::error::Result;
use crate::systems::{Forgotten, Target, nanos};

/// The actions before and after each phase.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PhaseOptions {
    /// Each phase ends with a sync, which its time includes. Then all targets are equally durable.
    pub sync: bool,
    /// The target drops its names and inodes before each phase, if it can.
    pub cold: bool,
}

/// The description of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseInfo {
    /// Its name, unique in the workload. A result that is a phase has the name of the phase.
    pub id: String,
    /// Its title, for people.
    pub title: String,
    /// Its kind.
    pub kind: MetricKind,
    /// The unit of work: `files`, `transactions`, `bytes`.
    pub unit: &'static str,
    /// The row of Figure 10, if it has one.
    pub row: Option<&'static str>,
}

impl PhaseInfo {
    /// A result in seconds.
    #[must_use]
    pub fn time(id: &str, title: &str, unit: &'static str) -> PhaseInfo {
        let (id, title) = (id.to_owned(), title.to_owned());
        PhaseInfo { id, title, kind: MetricKind::Time, unit, row: None }
    }

    /// A result in units of work for each second.
    #[must_use]
    pub fn rate(id: &str, title: &str, unit: &'static str) -> PhaseInfo {
        PhaseInfo { kind: MetricKind::Rate, ..PhaseInfo::time(id, title, unit) }
    }

    /// A share of processor time.
    #[must_use]
    pub fn cpu(id: &str, title: &str) -> PhaseInfo {
        PhaseInfo { kind: MetricKind::CpuPercent, ..PhaseInfo::time(id, title, "%CPU") }
    }

    /// Sets the row of Figure 10.
    #[must_use]
    pub fn row(self, row: &'static str) -> PhaseInfo {
        PhaseInfo { row: Some(row), ..self }
    }

    /// The metric of a time and work.
    #[must_use]
    pub(crate) fn metric(&self, elapsed: f64, work: f64) -> Metric {
        let PhaseInfo { id, title, kind, .. } = self.clone();
        Metric { id, title, kind, elapsed, work }
    }
}

/// Measures phases.
#[derive(Debug, Default)]
pub struct PhaseRecorder {
    finish: PhaseOptions,
    phases: Vec<PhaseResult>,
    /// Results that are not a phase: name, seconds, work.
    results: BTreeMap<String, (f64, f64)>,
    notes: Vec<String>,
}

impl PhaseRecorder {
    /// A recorder without phases.
    #[must_use]
    pub fn new(finish: PhaseOptions) -> PhaseRecorder {
        PhaseRecorder { finish, ..PhaseRecorder::default() }
    }

    /// Measures `work`, which returns its units of work. Returns the phase.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn phase(
        &mut self,
        target: &mut dyn Target,
        id: &str,
        work: impl FnOnce(&mut dyn Target) -> Result<f64>,
    ) -> Result<&PhaseResult> {
        let mut notes = std::mem::take(&mut self.notes);
        if self.finish.cold {
            target.sync()?;
            if let Forgotten::Impossible(why) = target.forget()? {
                notes.push(format!("not cold: {why}"));
            }
        }
        let counters: BTreeMap<&str, u64> = target.counters().into_iter().collect();
        let (usage, before) = (target.usage(), target.now());
        let done = work(target)?;
        if self.finish.sync {
            target.sync()?;
        }
        let elapsed = target.now().saturating_sub(before);
        let usage = target.usage().since(&usage);
        let moved = target.counters().into_iter().filter_map(|(name, value)| {
            let moved = value.saturating_sub(counters.get(name).copied().unwrap_or(0));
            (moved > 0).then(|| (name.to_owned(), moved))
        });
        let counters = moved.collect();
        let phase = PhaseResult {
            phase: id.to_owned(),
            elapsed: seconds(nanos(elapsed)),
            cpu: seconds(usage.cpu_ns),
            work: done,
            usage,
            counters,
            notes,
        };
        let index = self.phases.len();
        self.phases.push(phase);
        Ok(&self.phases[index])
    }

    /// Adds to a result that is not a phase. `id` is that of its [`PhaseInfo`].
    pub fn result(&mut self, id: &str, elapsed: f64, work: f64) {
        let sum = self.results.entry(id.to_owned()).or_default();
        *sum = (sum.0 + elapsed, sum.1 + work);
    }

    /// Adds a note to the next phase.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Adds a note to the last phase.
    pub(crate) fn note_last(&mut self, note: String) {
        if let Some(phase) = self.phases.last_mut() {
            phase.notes.push(note);
        }
    }

    /// The outcome. A result that was not added is the phase of its name.
    #[must_use]
    pub fn finish(self, infos: &[PhaseInfo]) -> Outcome {
        let metrics = infos.iter().filter_map(|info| {
            if let Some((elapsed, work)) = self.results.get(&info.id) {
                return Some(info.metric(*elapsed, *work));
            }
            let id = info.id.strip_suffix(CPU_SUFFIX).unwrap_or(&info.id);
            let phase = self.phases.iter().find(|phase| phase.phase == id)?;
            let cpu = info.kind == MetricKind::CpuPercent;
            Some(info.metric(phase.elapsed, if cpu { phase.cpu } else { phase.work }))
        });
        let metrics = metrics.collect();
        Outcome { phases: self.phases, metrics }
    }
}

/// The suffix of a result that is the share of processor time of a phase.
pub(super) const CPU_SUFFIX: &str = "/cpu";

/// Converts nanoseconds to seconds.
pub(crate) fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
