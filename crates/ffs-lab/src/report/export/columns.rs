//! The columns of an export: name, type, unit, meaning and value of each, in one place.
//!
//! # Invariants
//! 1. The dictionary and the tables come from the same constants, so they cannot differ.
//! 2. A name of a column is a valid name of a variable in formulas of statistics packages.
//! 3. A number that does not exist is an empty field, never 0.

use crate::report::published::PublishedNumber;
use crate::workload::{Metric, MetricKind, PhaseResult};

/// The type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Text,
    Integer,
    Number,
    /// 0 or 1.
    Flag,
}

impl Type {
    /// Its name in the dictionary.
    pub(super) fn name(self) -> &'static str {
        match self {
            Type::Text => "text",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Flag => "0 or 1",
        }
    }
}

/// A column of rows `R`.
pub(super) struct Column<R: ?Sized> {
    pub(super) name: &'static str,
    pub(super) kind: Type,
    /// Empty for text.
    pub(super) unit: &'static str,
    pub(super) meaning: &'static str,
    pub(super) value: fn(&R) -> String,
}

/// A job of the study.
pub(super) struct JobRow {
    pub(super) workload: String,
    /// `None` if the workload is not in the plan.
    pub(super) scale: Option<f64>,
    /// The names of the factors that are on.
    pub(super) combination: String,
    /// The number of the run, from 0.
    pub(super) replicate: u32,
    pub(super) seed: u64,
}

/// One result of a job.
pub(super) struct RunRow {
    pub(super) metric: Metric,
    /// The unit of work.
    pub(super) unit: String,
}

/// A counter of a phase.
pub(super) struct CounterRow {
    pub(super) phase: String,
    pub(super) counter: String,
    pub(super) count: u64,
}

/// A published number with its section.
pub(super) struct PublishedRow {
    pub(super) section: String,
    pub(super) source: String,
    pub(super) kind: String,
    pub(super) number: PublishedNumber,
}

/// A number with the shortest digits that give the same number; empty if it is infinite or NaN.
fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { String::new() }
}

fn seconds(nanoseconds: u64) -> String {
    number(nanoseconds as f64 / 1e9)
}

/// The columns that begin each row of `runs`, `phases` and `counters`.
pub(super) const JOB: &[Column<JobRow>] = &[
    Column {
        name: "workload",
        kind: Type::Text,
        unit: "",
        meaning: "the workload and its parameters, as ffs lab run takes it",
        value: |row| row.workload.clone(),
    },
    Column {
        name: "scale",
        kind: Type::Number,
        unit: "1",
        meaning: "factor by which the counts of the workload were multiplied",
        value: |row| row.scale.map(number).unwrap_or_default(),
    },
    Column {
        name: "combination",
        kind: Type::Text,
        unit: "",
        meaning: "the factors that were on, joined by +; none if all were off",
        value: |row| row.combination.clone(),
    },
    Column {
        name: "replicate",
        kind: Type::Integer,
        unit: "1",
        meaning: "number of the run, from 1; runs of the same number begin on the same volume",
        value: |row| (u64::from(row.replicate) + 1).to_string(),
    },
    Column {
        name: "seed",
        kind: Type::Integer,
        unit: "1",
        meaning: "seed of the replicate",
        value: |row| row.seed.to_string(),
    },
];

/// What follows the factors in `runs`.
pub(super) const RUN: &[Column<RunRow>] = &[
    Column {
        name: "result",
        kind: Type::Text,
        unit: "",
        meaning: "the result of the workload (ffs lab list)",
        value: |row| row.metric.id.clone(),
    },
    Column {
        name: "title",
        kind: Type::Text,
        unit: "",
        meaning: "the title of the result in the report",
        value: |row| row.metric.title.clone(),
    },
    Column {
        name: "kind",
        kind: Type::Text,
        unit: "",
        meaning: "time, rate, or cpu-percent (processor time in percent of the elapsed time)",
        value: |row| kind(row.metric.kind).to_owned(),
    },
    Column {
        name: "value",
        kind: Type::Number,
        unit: "column unit",
        meaning: "the result as the report shows it",
        value: |row| number(row.metric.value()),
    },
    Column {
        name: "unit",
        kind: Type::Text,
        unit: "",
        meaning: "unit of value",
        value: |row| match row.metric.kind {
            MetricKind::Time => "s".to_owned(),
            MetricKind::Rate => format!("{}/s", row.unit),
            MetricKind::CpuPercent => "%".to_owned(),
        },
    },
    Column {
        name: "cost",
        kind: Type::Number,
        unit: "s, s for a unit of work, or %",
        meaning: "the value that the report averages; less is better",
        value: |row| match row.metric.kind {
            MetricKind::Rate => number(row.metric.elapsed / row.metric.work),
            MetricKind::Time | MetricKind::CpuPercent => number(row.metric.value()),
        },
    },
    Column {
        name: "elapsed",
        kind: Type::Number,
        unit: "s",
        meaning: "elapsed time; on sim virtual time",
        value: |row| number(row.metric.elapsed),
    },
    Column {
        name: "work",
        kind: Type::Number,
        unit: "units of work; s for cpu-percent",
        meaning: "work done in that time; for cpu-percent the processor time",
        value: |row| number(row.metric.work),
    },
];

/// What follows the factors in `phases`.
pub(super) const PHASE: &[Column<PhaseResult>] = &[
    Column {
        name: "phase",
        kind: Type::Text,
        unit: "",
        meaning: "the phase of the workload, in the order of execution",
        value: |phase| phase.phase.clone(),
    },
    Column {
        name: "elapsed",
        kind: Type::Number,
        unit: "s",
        meaning: "duration of the phase; on sim virtual time",
        value: |phase| number(phase.elapsed),
    },
    Column {
        name: "cpu",
        kind: Type::Number,
        unit: "s",
        meaning: "processor time of the phase",
        value: |phase| number(phase.cpu),
    },
    Column {
        name: "search",
        kind: Type::Number,
        unit: "s",
        meaning: "processor time of searches of directories; 0 where the target does not count it",
        value: |phase| seconds(phase.usage.search_ns),
    },
    Column {
        name: "work",
        kind: Type::Number,
        unit: "units of work",
        meaning: "work done in the phase",
        value: |phase| number(phase.work),
    },
    Column {
        name: "disk_busy",
        kind: Type::Number,
        unit: "s",
        meaning: "time in which the disk was busy; 0 where the target does not count it",
        value: |phase| seconds(phase.usage.disk_busy_ns),
    },
    Column {
        name: "disk_reads",
        kind: Type::Integer,
        unit: "requests",
        meaning: "read requests to the disk",
        value: |phase| phase.usage.reads.to_string(),
    },
    Column {
        name: "disk_writes",
        kind: Type::Integer,
        unit: "requests",
        meaning: "write requests to the disk",
        value: |phase| phase.usage.writes.to_string(),
    },
    Column {
        name: "disk_sectors",
        kind: Type::Integer,
        unit: "512 bytes",
        meaning: "sectors read and written",
        value: |phase| phase.usage.sectors.to_string(),
    },
    Column {
        name: "disk_seeks",
        kind: Type::Integer,
        unit: "requests",
        meaning: "requests that do not begin where the one before ended",
        value: |phase| phase.usage.seeks.to_string(),
    },
    Column {
        name: "notes",
        kind: Type::Text,
        unit: "",
        meaning: "notes about the measurement",
        value: |phase| phase.notes.join("; "),
    },
];

/// What follows the factors in `counters`.
pub(super) const COUNTER: &[Column<CounterRow>] = &[
    Column {
        name: "phase",
        kind: Type::Text,
        unit: "",
        meaning: "the phase of the workload",
        value: |row| row.phase.clone(),
    },
    Column {
        name: "counter",
        kind: Type::Text,
        unit: "",
        meaning: "a counter of the file system; the dictionary has a row for each",
        value: |row| row.counter.clone(),
    },
    Column {
        name: "count",
        kind: Type::Integer,
        unit: "as the counter",
        meaning: "growth of the counter in the phase; a counter that did not grow has no row",
        value: |row| row.count.to_string(),
    },
];

/// The columns of `published`.
pub(super) const PUBLISHED: &[Column<PublishedRow>] = &[
    Column {
        name: "section",
        kind: Type::Text,
        unit: "",
        meaning: "the table or figure",
        value: |row| row.section.clone(),
    },
    Column {
        name: "source",
        kind: Type::Text,
        unit: "",
        meaning: "P paper, S slides, N mail on NetBSD, D derived (docs/spec/benchmarks.md)",
        value: |row| row.source.clone(),
    },
    Column {
        name: "kind",
        kind: Type::Text,
        unit: "",
        meaning: "seconds, each (microseconds), percent, error (sigma / root n, percent), factor, \
                  change (percent), term (percent), term-error (percent), rate, ...",
        value: |row| row.kind.clone(),
    },
    Column {
        name: "workload",
        kind: Type::Text,
        unit: "",
        meaning: "the workload, as in runs",
        value: |row| row.number.at.split_once('/').map_or("", |(words, _)| words).to_owned(),
    },
    Column {
        name: "result",
        kind: Type::Text,
        unit: "",
        meaning: "the result, as in runs",
        value: |row| row.number.at.split_once('/').map_or("", |(_, metric)| metric).to_owned(),
    },
    Column {
        name: "combination",
        kind: Type::Text,
        unit: "",
        meaning: "the factors that were on",
        value: |row| row.number.on.clone(),
    },
    Column {
        name: "combination_to",
        kind: Type::Text,
        unit: "",
        meaning: "the factors after a change; empty if the number is none of a change",
        value: |row| row.number.to.clone().unwrap_or_default(),
    },
    Column {
        name: "published",
        kind: Type::Number,
        unit: "as kind",
        meaning: "the number; the lower end of a range",
        value: |row| number(row.number.value),
    },
    Column {
        name: "published_high",
        kind: Type::Number,
        unit: "as kind",
        meaning: "the upper end of a range",
        value: |row| row.number.high.map(number).unwrap_or_default(),
    },
    Column {
        name: "unit",
        kind: Type::Text,
        unit: "",
        meaning: "unit of the number where the kind does not imply one",
        value: |row| row.number.unit.clone().unwrap_or_default(),
    },
    Column {
        name: "calibrated",
        kind: Type::Flag,
        unit: "",
        meaning: "1 if the simulated machine was calibrated with the number",
        value: |row| u8::from(row.number.calibrated).to_string(),
    },
];

/// The name of a kind of result.
fn kind(kind: MetricKind) -> &'static str {
    match kind {
        MetricKind::Time => "time",
        MetricKind::Rate => "rate",
        MetricKind::CpuPercent => "cpu-percent",
    }
}
