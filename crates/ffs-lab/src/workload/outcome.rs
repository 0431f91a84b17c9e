//! What one run of a workload gives.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::systems::Usage;

/// One phase, measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseResult {
    /// The phase's id: `create`.
    pub phase: String,
    /// Time it took, seconds of the target's time.
    pub elapsed: f64,
    /// Processor time in it, seconds.
    pub cpu: f64,
    /// Work done, in the phase's unit.
    pub work: f64,
    /// What the target used for it.
    pub usage: Usage,
    /// Work counted meanwhile; counters that stood still are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
    /// What a reader has to know about the number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// How a metric is shown, and averaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MetricKind {
    /// Seconds: `elapsed`.
    Time,
    /// `work` per second; averaged as time per work.
    Rate,
    /// Processor time in percent of `elapsed`; `work` is the processor time, seconds.
    CpuPercent,
}

/// One number a benchmark reports.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Stable name: a key of tables and files.
    pub id: String,
    /// For people.
    pub title: String,
    /// How it is shown.
    pub kind: MetricKind,
    /// Seconds.
    pub elapsed: f64,
    /// Units of work in that time; see [`MetricKind`].
    pub work: f64,
}

/// All that one run gives.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Phases in the order they ran.
    pub phases: Vec<PhaseResult>,
    /// What the benchmark reports; by default each phase as a time.
    pub metrics: Vec<Metric>,
}

impl Metric {
    /// The number to show: seconds, work a second, percent. Infinite or no number if no time passed.
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
    pub fn metric(&self, id: &str) -> Option<&Metric> {
        self.metrics.iter().find(|metric| metric.id == id)
    }
}
