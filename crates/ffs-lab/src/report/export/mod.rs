//! The results of a study as CSV files for other programs, with a dictionary of their columns.
//!
//! | file | one row for each |
//! | --- | --- |
//! | `runs.csv` | job and result |
//! | `phases.csv` | job and phase |
//! | `counters.csv` | job, phase and counter of the file system that grew |
//! | `published.csv` | number that others published |
//! | `dictionary.csv` | column of these files, and counter |
//!
//! # Invariants
//! 1. The files depend on the results only: same results, same bytes.
//! 2. Each table has the columns of `columns`, then for each factor a column: of 0 and 1, or of the
//!    number of the level, 0 for the first, if the factor has more than two levels.
//! 3. A file appears under its name, or replaces its predecessor, only when it is complete.

mod columns;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use super::published::Published;
use super::put;
use crate::error::{LabError, Result};
use crate::plot::svg::csv;
use crate::statistics::Combination;
use crate::study::{Factor, JobResult, Plan, Results};
use crate::workload;
use columns::{
    COUNTER, Column, CounterRow, JOB, JobRow, PHASE, PUBLISHED, PublishedRow, RUN, RunRow,
};

/// The prefix of the column of a factor of two levels.
const FACTOR: &str = "on_";
/// The prefix of the column of a factor of more levels.
const LEVEL: &str = "level_";
/// The heads of the dictionary.
const HEADS: [&str; 6] = ["table", "column", "value", "type", "unit", "meaning"];

/// A row of the dictionary, in the order of [`HEADS`].
type Entry = [String; 6];

/// Writes the tables and their dictionary to `dir`, and returns the paths of the files.
///
/// # Errors
/// [`LabError::Unusable`] if a file cannot be written.
pub fn export(results: &Results, dir: &Path) -> Result<Vec<PathBuf>> {
    let made = std::fs::create_dir_all(dir);
    made.map_err(|error| LabError::unusable(&dir.display().to_string(), error))?;
    let mut paths = Vec::new();
    for (name, text) in tables(results)? {
        let path = dir.join(name);
        put(&path, &text)?;
        paths.push(path);
    }
    Ok(paths)
}

/// The dictionary of an export as a table in Markdown, without the factors of a study.
#[must_use]
pub fn dictionary() -> String {
    let mut out = format!("| {} |\n|{}\n", HEADS.join(" | "), " --- |".repeat(HEADS.len()));
    for entry in entries(None) {
        out.push_str(&format!("| {} |\n", entry.join(" | ")));
    }
    out
}

/// The files by name.
fn tables(results: &Results) -> Result<Vec<(&'static str, String)>> {
    let published = Published::read()?;
    let entries = entries(Some(&results.plan)).into_iter().map(|entry| entry.to_vec());
    Ok(vec![
        ("runs.csv", runs(results)),
        ("phases.csv", phases(results)),
        ("counters.csv", counters(results)),
        ("published.csv", published_numbers(&published)?),
        ("dictionary.csv", csv(&HEADS.join(","), entries)),
    ])
}

/// The heads of a table: the columns of a job, the factors, the columns of the table.
fn heads<R>(plan: &Plan, own: &[Column<R>]) -> String {
    let factors = plan.factors.iter().map(factor_column);
    let job = JOB.iter().map(|column| column.name.to_owned());
    let own = own.iter().map(|column| column.name.to_owned());
    job.chain(factors).chain(own).collect::<Vec<String>>().join(",")
}

/// The column of a factor: letters, digits and `_`.
fn factor_column(factor: &Factor) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let prefix = if factor.is_two_level() { FACTOR } else { LEVEL };
    format!("{prefix}{}", factor.name.chars().map(plain).collect::<String>())
}

/// The fields of a job and its factors, which begin each of its rows.
fn job_fields(plan: &Plan, job: &JobResult) -> Vec<String> {
    let item = plan.workloads.iter().find(|item| item.workload == job.workload);
    let row = JobRow {
        workload: job.workload.clone(),
        scale: item.map(|item| item.scale),
        combination: plan.combination_name(job.combination),
        replicate: job.replicate,
        seed: job.seed,
    };
    let mut fields: Vec<String> = JOB.iter().map(|column| (column.value)(&row)).collect();
    let (design, at) = (plan.design(), Combination(job.combination));
    fields.extend((0..plan.factors.len()).map(|factor| design.level(at, factor).to_string()));
    fields
}

/// A row of a table: the fields of its job, then its own.
fn fields<R>(job: &[String], own: &[Column<R>], row: &R) -> Vec<String> {
    let own = own.iter().map(|column| (column.value)(row));
    job.iter().cloned().chain(own).collect()
}

fn runs(results: &Results) -> String {
    let plan = &results.plan;
    let mut rows = Vec::new();
    for job in &results.jobs {
        let head = job_fields(plan, job);
        let item = plan.workloads.iter().find(|item| item.workload == job.workload);
        let workload = workload::by_name(&job.workload, item.map_or(1.0, |item| item.scale));
        let phases = workload.map(|workload| workload.phases()).unwrap_or_default();
        for metric in &job.outcome.metrics {
            let info = phases.iter().find(|info| info.id == metric.id);
            let unit = info.map_or("units", |info| info.unit).to_owned();
            rows.push(fields(&head, RUN, &RunRow { metric: metric.clone(), unit }));
        }
    }
    csv(&heads(plan, RUN), rows)
}

fn phases(results: &Results) -> String {
    let mut rows = Vec::new();
    for job in &results.jobs {
        let head = job_fields(&results.plan, job);
        rows.extend(job.outcome.phases.iter().map(|phase| fields(&head, PHASE, phase)));
    }
    csv(&heads(&results.plan, PHASE), rows)
}

fn counters(results: &Results) -> String {
    let mut rows = Vec::new();
    for job in &results.jobs {
        let head = job_fields(&results.plan, job);
        for phase in &job.outcome.phases {
            for (counter, count) in &phase.counters {
                let (phase, counter) = (phase.phase.clone(), counter.clone());
                rows.push(fields(&head, COUNTER, &CounterRow { phase, counter, count: *count }));
            }
        }
    }
    csv(&heads(&results.plan, COUNTER), rows)
}

fn published_numbers(published: &Published) -> Result<String> {
    let mut rows = Vec::new();
    for section in &published.sections {
        let kind = serde_json::to_value(section.kind);
        let kind = kind.map_err(|error| LabError::Plan(error.to_string()))?;
        for number in &section.rows {
            let row = PublishedRow {
                section: section.title.clone(),
                source: section.source.clone(),
                kind: kind.as_str().unwrap_or_default().to_owned(),
                number: number.clone(),
            };
            rows.push(PUBLISHED.iter().map(|column| (column.value)(&row)).collect());
        }
    }
    let heads: Vec<&str> = PUBLISHED.iter().map(|column| column.name).collect();
    Ok(csv(&heads.join(","), rows))
}

/// The rows of the dictionary; with a plan, each factor by its name.
fn entries(plan: Option<&Plan>) -> Vec<Entry> {
    let mut out = Vec::new();
    of_table(&mut out, "runs", RUN, plan);
    of_table(&mut out, "phases", PHASE, plan);
    of_table(&mut out, "counters", COUNTER, plan);
    for (name, _, meaning) in ffs_core::CounterValues::default().list() {
        let texts = ["counters", "counter", name, "", "", meaning];
        out.push(texts.map(str::to_owned));
    }
    out.extend(PUBLISHED.iter().map(|column| entry("published", column)));
    out
}

/// The columns of a table, in the order of the table.
fn of_table<R>(out: &mut Vec<Entry>, table: &str, own: &[Column<R>], plan: Option<&Plan>) {
    out.extend(JOB.iter().map(|column| entry(table, column)));
    match plan {
        Some(plan) => out.extend(plan.factors.iter().flat_map(|of| factor_entries(table, of))),
        None => {
            let flag = columns::Type::Flag.name();
            let meaning = "a column for each factor of the study: 1 if it was on";
            out.push([table, "on_FACTOR", "", flag, "", meaning].map(str::to_owned));
            let integer = columns::Type::Integer.name();
            let meaning = "the same for a factor of more than two levels: its level, 0 for the \
                           first; the dictionary of the study has a row for each";
            out.push([table, "level_FACTOR", "", integer, "1", meaning].map(str::to_owned));
        }
    }
    out.extend(own.iter().map(|column| entry(table, column)));
}

/// The row of a factor's column, and a row for each of its levels if there are more than two.
fn factor_entries(table: &str, factor: &Factor) -> Vec<Entry> {
    let column = factor_column(factor);
    if let [off, on] = factor.levels.as_slice() {
        let meaning = format!("1: the target has '{on}'; 0: it has '{off}'");
        let flag = columns::Type::Flag.name();
        return vec![[table, &column, "", flag, "", &meaning].map(str::to_owned)];
    }
    let (integer, name) = (columns::Type::Integer.name(), &factor.name);
    let meaning = format!("level of {name}, 0 for the first, which is the base");
    let mut out = vec![[table, &column, "", integer, "1", &meaning].map(str::to_owned)];
    let names = factor.level_names();
    for (number, (words, level)) in factor.levels.iter().zip(names).enumerate() {
        let level = if number == 0 { "the base".to_owned() } else { format!("{name}={level}") };
        let meaning = format!("{level}: the target has '{words}'");
        out.push([table, &column, &number.to_string(), "", "", &meaning].map(str::to_owned));
    }
    out
}

fn entry<R>(table: &str, column: &Column<R>) -> Entry {
    let texts = [table, column.name, "", column.kind.name(), column.unit, column.meaning];
    texts.map(str::to_owned)
}
