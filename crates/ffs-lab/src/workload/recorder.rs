//! What a run says: phases measured, and results drawn from them.
//!
//! **Invariants.**
//! 1. A metric keeps what was measured, time and work; rates and percentages are made from them when they
//!    are shown, so that several runs are averaged as time per work.
//! 2. [`Outcome::metrics`] has one metric for each [`PhaseInfo`] of the workload, in their order; one that
//!    could not be measured is left out, with a note in a phase.

use std::collections::BTreeMap;

use super::outcome::{Metric, MetricKind, Outcome, PhaseResult};
use crate::error::Result;
use crate::systems::{Forgotten, Target, nanos};

/// What ends a phase, and what comes before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PhaseOptions {
    /// Every phase ends with a sync, which is part of its time: the same finish line for all targets.
    pub sync: bool,
    /// Names and inodes are forgotten before every phase, as far as the target can.
    pub cold: bool,
}

/// What a result is called and where it stands in the paper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PhaseInfo {
    /// Its name, unique within the workload; results that are a phase have the phase's.
    pub id: String,
    /// Its name for readers.
    pub title: String,
    /// How it is shown.
    pub kind: MetricKind,
    /// What is done: `files`, `transactions`, `bytes`.
    pub unit: &'static str,
    /// Its row in Figure 10, if it has one.
    pub row: Option<&'static str>,
}

impl PhaseInfo {
    /// A result in seconds.
    #[must_use]
    pub fn time(id: &str, title: &str, unit: &'static str) -> PhaseInfo {
        let (id, title) = (id.to_owned(), title.to_owned());
        PhaseInfo { id, title, kind: MetricKind::Time, unit, row: None }
    }

    /// A result in work a second.
    #[must_use]
    pub fn rate(id: &str, title: &str, unit: &'static str) -> PhaseInfo {
        PhaseInfo { kind: MetricKind::Rate, ..PhaseInfo::time(id, title, unit) }
    }

    /// A share of processor time.
    #[must_use]
    pub fn cpu(id: &str, title: &str) -> PhaseInfo {
        PhaseInfo { kind: MetricKind::CpuPercent, ..PhaseInfo::time(id, title, "%CPU") }
    }

    /// The same with its row in Figure 10.
    #[must_use]
    pub fn row(self, row: &'static str) -> PhaseInfo {
        PhaseInfo { row: Some(row), ..self }
    }

    /// Whether a larger number is better.
    #[must_use]
    pub fn higher_is_better(&self) -> bool {
        self.kind == MetricKind::Rate
    }

    /// The result itself.
    #[must_use]
    pub fn metric(&self, elapsed: f64, work: f64) -> Metric {
        let PhaseInfo { id, title, kind, .. } = self.clone();
        Metric { id, title, kind, elapsed, work }
    }
}

/// Measures phases.
#[derive(Debug, Default)]
pub struct PhaseRecorder {
    finish: PhaseOptions,
    phases: Vec<PhaseResult>,
    /// Results that are not a whole phase: name, seconds, work.
    results: BTreeMap<String, (f64, f64)>,
    notes: Vec<String>,
}

impl PhaseRecorder {
    /// Nothing measured yet.
    #[must_use]
    pub fn new(finish: PhaseOptions) -> PhaseRecorder {
        PhaseRecorder { finish, ..PhaseRecorder::default() }
    }

    /// Measures `work`, which answers how much it did; hands on what was measured.
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
        Ok(self.phases.push_mut(phase))
    }

    /// Adds a result that is not a whole phase, by its name in [`PhaseInfo::id`]; several of one name
    /// add up.
    pub fn result(&mut self, id: &str, elapsed: f64, work: f64) {
        let sum = self.results.entry(id.to_owned()).or_default();
        *sum = (sum.0 + elapsed, sum.1 + work);
    }

    /// Adds something to know about the next phase.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// What was measured; results that nobody added are the phases of their names.
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

/// What follows the name of a phase in that of its share of processor time.
pub(super) const CPU_SUFFIX: &str = "/cpu";

/// Nanoseconds as seconds.
pub(crate) fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}
