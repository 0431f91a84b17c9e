//! The outcome of one run of a workload.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::systems::Usage;

/// A measured phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseResult {
    /// The phase's id: `create`.
    pub phase: String,
    /// Its duration in the target's time, seconds.
    pub elapsed: f64,
    /// Its processor time, seconds.
    pub cpu: f64,
    /// The work done, in the unit of the phase.
    pub work: f64,
    /// The resources that the target used.
    pub usage: Usage,
    /// The growth of the work counters, without those that did not grow.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
    /// Notes about the measurement, for the reader.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// The kind of a metric, which determines how it is shown and averaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetricKind {
    /// Seconds: `elapsed`.
    Time,
    /// `work` for each second, averaged as time for each unit of work.
    Rate,
    /// Processor time in percent of `elapsed`; `work` is the processor time, seconds.
    CpuPercent,
}

/// One number that a benchmark reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The stable name, a key in tables and files.
    pub id: String,
    /// The title, for people.
    pub title: String,
    /// The kind.
    pub kind: MetricKind,
    /// The time in seconds.
    pub elapsed: f64,
    /// Units of work in that time; see [`MetricKind`].
    pub work: f64,
}

/// The outcome of one run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The phases in the order of execution.
    pub phases: Vec<PhaseResult>,
    /// The metrics of the benchmark; by default the time of each phase.
    pub(crate) metrics: Vec<Metric>,
}

impl Metric {
    /// The value to show: seconds, units of work for each second, or percent. Infinite or NaN if no
    /// time passed.
    #[must_use]
    pub fn value(&self) -> f64 {
        match self.kind {
            MetricKind::Time => self.elapsed,
            MetricKind::Rate => self.work / self.elapsed,
            MetricKind::CpuPercent => self.work / self.elapsed * 100.0,
        }
    }
}

impl Outcome {
    /// A phase by name.
    #[must_use]
    pub fn phase(&self, id: &str) -> Option<&PhaseResult> {
        self.phases.iter().find(|phase| phase.phase == id)
    }

    /// A result by name.
    #[must_use]
    pub(crate) fn metric(&self, id: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.id == id)
    }
}
