//! The counters behind a time: a table of them, and a sentence that sums them up.

use super::format;
use super::study_data::{ResourceUse, ResultSeries};
use crate::portable_math;
use crate::statistics::Combination;
use std::collections::BTreeSet;

/// The most counters in a table.
const MOST: usize = 9;
/// A counter with less than one count in this many units of work explains nothing.
const RARE: f64 = 200.0;

/// The use of resources, by combination.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct WorkTable {
    /// The combinations: none, each option alone, and all, unless options exclude each other.
    pub(crate) heads: Vec<String>,
    /// Name and values.
    pub rows: Vec<(String, Vec<String>)>,
    /// The counters of the file system that have rows.
    pub(super) counters: Vec<String>,
}

/// The combinations of the table: none, each option alone, all.
fn columns(series: &ResultSeries) -> Vec<Combination> {
    let options = series.cells.options();
    let mut columns = vec![Combination::NONE];
    columns.extend((0..options).map(Combination::only));
    if options > 1 {
        columns.extend(series.cells.design().all_on());
    }
    columns.retain(|at| series.spent.contains_key(at));
    columns
}

/// The use of resources, and the counters that differ most between combinations.
#[must_use]
pub(super) fn work(series: &ResultSeries, names: &[String]) -> Option<WorkTable> {
    let columns = columns(series);
    let spent: Vec<&ResourceUse> = columns.iter().filter_map(|at| series.spent.get(at)).collect();
    let first = spent.first()?;
    let mut rows = Vec::new();
    let mut row = |name: &str, value: &dyn Fn(&ResourceUse) -> f64, show: fn(f64) -> String| {
        let values: Vec<f64> = spent.iter().map(|spent| value(spent)).collect();
        if values.iter().any(|value| *value > 0.0) {
            rows.push((name.to_owned(), values.into_iter().map(show).collect()));
        }
    };
    row("time", &|s| s.time, format::time);
    row("processor", &|s| s.cpu, format::time);
    row("disk busy", &|s| s.disk, format::time);
    row("disk reads", &|s| s.reads, format::count);
    row("disk writes", &|s| s.writes, format::count);
    row("seeks", &|s| s.seeks, format::count);
    row("MB transferred", &|s| s.sectors * 512.0 / 1e6, format::count);
    let counters = significant_counters(&spent, first.units);
    for name in &counters {
        row(&words(name), &|s| s.counter(name), format::count);
    }
    let heads = columns.iter().map(|at| at.name(names, "+"));
    let all = series.cells.design().all_on().filter(|_| names.len() > 1);
    let heads = heads
        .zip(&columns)
        .map(|(name, at)| if Some(*at) == all { "all".to_owned() } else { name });
    Some(WorkTable { heads: heads.collect(), rows, counters })
}

/// The name of a counter in a table.
fn words(counter: &str) -> String {
    counter.replace('_', " ")
}

/// The counters in these tables and what they count, in the order of their names.
pub(super) fn meanings<'a>(
    tables: impl Iterator<Item = &'a WorkTable>,
) -> Vec<(String, &'static str)> {
    let shown: BTreeSet<&String> = tables.flat_map(|table| &table.counters).collect();
    let all = ffs_core::CounterValues::default().list();
    let meaning = |name: &&String| all.iter().find(|(counter, ..)| counter == *name).map(|c| c.2);
    shown.iter().filter_map(|name| Some((words(name), meaning(name)?))).collect()
}

/// The counters that differ most between combinations, of those that count often.
fn significant_counters(spent: &[&ResourceUse], units: f64) -> Vec<String> {
    let mut names: Vec<&String> = spent.iter().flat_map(|spent| spent.counters.keys()).collect();
    names.sort();
    names.dedup();
    let ends = |name: &str| {
        let values = spent.iter().map(|spent| spent.counter(name));
        values.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)))
    };
    let mut found: Vec<(f64, &String)> = Vec::new();
    for name in names {
        let (low, high) = ends(name);
        let often = high >= (units / RARE).max(1.0);
        if often {
            found.push((portable_math::ln((high + 1.0) / (low + 1.0)), name));
        }
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let mut names: Vec<String> = found
        .into_iter()
        .filter(|(score, _)| *score > 0.05)
        .take(MOST)
        .map(|f| f.1.clone())
        .collect();
    names.sort();
    names
}

/// Where the time of a combination went, for one unit of work. `None` if there is no time, no work
/// or no counter.
#[must_use]
pub(super) fn sentence(series: &ResultSeries, at: Combination, names: &[String]) -> Option<String> {
    let spent = series.spent.get(&at)?;
    if spent.units <= 0.0 || spent.time <= 0.0 {
        return None;
    }
    let each = |value: f64| value / spent.units;
    let mut parts = Vec::new();
    for (name, seconds) in [("processor", spent.cpu), ("disk busy", spent.disk)] {
        // A smaller value would be shown as 0.
        if each(seconds) >= 1e-8 {
            parts.push(format!("{name} {}", format::time(each(seconds))));
        }
    }
    for (name, value) in [("reads", spent.reads), ("writes", spent.writes), ("seeks", spent.seeks)]
    {
        if each(value) >= 0.005 {
            parts.push(format!("{} {name}", format::short(round(each(value)))));
        }
    }
    let counted = [
        ("writes_sync", "synchronous writes"),
        ("inodes_loaded", "inodes loaded"),
        ("dir_bytes_scanned", "bytes of directory searched"),
        ("dirhash_builds", "directory hashes built"),
    ];
    for (counter, name) in counted {
        let value = each(spent.counter(counter));
        if value >= 0.005 {
            parts.push(format!("{} {name}", format::short(round(value))));
        }
    }
    (!parts.is_empty()).then(|| {
        format!(
            "{}: {} each; counted in the phase: {}",
            at.name(names, "+"),
            format::time(each(spent.time)),
            parts.join(", ")
        )
    })
}

/// Rounds to two digits after the point, large values to none.
fn round(value: f64) -> f64 {
    if value >= 100.0 { value.round() } else { (value * 100.0).round() / 100.0 }
}
