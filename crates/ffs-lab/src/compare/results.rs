//! Results of several comparisons: reading them from a file, and a page with figures.
//!
//! A *group* has the results of one workload in one setup. Its targets and results are in the order
//! of the file.
//!
//! # Invariants
//! A result that is in the file several times counts once: the last time.

use askama::Template;

use super::WorkloadRow;
use crate::error::{LabError, Result};
use crate::plot::dot_chart::{DotRow, draw};
use crate::plot::style;
use crate::report::format;

const CSS: &str = include_str!("../../templates/report.css");

/// The results of one workload in one setup.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultGroup {
    /// The workload, and the setup if there is one.
    pub title: String,
    /// The targets. Ratios are to the first.
    pub targets: Vec<String>,
    /// The names of the results.
    pub results: Vec<String>,
    /// The results on the targets.
    pub rows: Vec<WorkloadRow>,
}

impl ResultGroup {
    /// The result `result` on `target`.
    #[must_use]
    pub fn row(&self, target: &str, result: &str) -> Option<&WorkloadRow> {
        self.rows.iter().find(|row| row.target == target && row.result == result)
    }

    /// The heads and lines of a table: each target has its value, its spread and, from the second
    /// on, its ratio to the first.
    #[must_use]
    pub fn table(&self) -> Vec<Vec<String>> {
        let mut head = vec![String::new(), String::new()];
        for (at, target) in self.targets.iter().enumerate() {
            head.extend([target.clone(), "spread".to_owned()]);
            head.extend((at > 0).then(|| "ratio".to_owned()));
        }
        let mut lines = vec![head];
        lines.extend(self.results.iter().map(|result| self.line(result)));
        lines
    }

    fn line(&self, result: &str) -> Vec<String> {
        let any = self.rows.iter().find(|row| row.result == result);
        let title = any.map_or_else(String::new, |row| row.title.clone());
        let unit = any.map_or_else(String::new, |row| format::unit(row.kind, &row.unit));
        let mut line = vec![title, unit];
        for (at, target) in self.targets.iter().enumerate() {
            let row = self.row(target, result);
            let value = row.map(|row| format::plain(row.kind, &row.unit, row.value));
            line.push(value.unwrap_or_else(|| "-".to_owned()));
            let spread = row.and_then(WorkloadRow::spread);
            line.push(spread.map_or(String::new(), |percent| format!("{percent:.0} %")));
            if at > 0 {
                let ratio = row.and_then(|row| row.ratio);
                line.push(ratio.map_or(String::new(), |ratio| format!("x {ratio:.2}")));
            }
        }
        line
    }

    /// What the targets are, and what is durable on each when a call returns.
    #[must_use]
    pub fn facts(&self) -> Vec<String> {
        let of = |target: &String| self.rows.iter().find(|row| row.target == *target);
        let fact =
            |row: &WorkloadRow| format!("{}: {}; durable: {}", row.target, row.fs, row.durability);
        self.targets.iter().filter_map(of).map(fact).collect()
    }
}

/// Sorts rows into groups.
#[must_use]
pub fn groups(rows: Vec<WorkloadRow>) -> Vec<ResultGroup> {
    let mut all: Vec<ResultGroup> = Vec::new();
    for row in rows {
        let title = match row.setup.as_str() {
            "" => row.workload.clone(),
            setup => format!("{}, {setup}", row.workload),
        };
        let at = all.iter().position(|group| group.title == title).unwrap_or_else(|| {
            let (targets, results, rows) = (Vec::new(), Vec::new(), Vec::new());
            all.push(ResultGroup { title, targets, results, rows });
            all.len() - 1
        });
        let group = &mut all[at];
        if !group.targets.contains(&row.target) {
            group.targets.push(row.target.clone());
        }
        if !group.results.contains(&row.result) {
            group.results.push(row.result.clone());
        }
        group.rows.retain(|old| (&old.target, &old.result) != (&row.target, &row.result));
        group.rows.push(row);
    }
    all
}

/// Reads lines of `ffs lab compare --json`.
///
/// # Errors
/// A line is not a result.
pub fn parse(text: &str) -> Result<Vec<WorkloadRow>> {
    let line = |(at, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|e| {
            let at = at + 1;
            LabError::Plan(format!("line {at} is not a result of `ffs lab compare --json`: {e}"))
        })
    };
    text.lines().enumerate().filter(|(_, text)| !text.trim().is_empty()).map(line).collect()
}

struct Section {
    id: String,
    title: String,
    figure: String,
    heads: Vec<String>,
    lines: Vec<Vec<String>>,
    facts: Vec<String>,
}

#[derive(Template)]
#[template(path = "compare.html")]
struct Page {
    style: String,
    sections: Vec<Section>,
    version: &'static str,
}

/// The page of `groups`: a figure and a table for each.
///
/// # Errors
/// The template cannot be filled.
pub fn page(groups: &[ResultGroup]) -> Result<String> {
    let sections = groups.iter().enumerate().map(|(at, group)| section(at, group)).collect();
    let style = format!("{}{}{CSS}", style::COLOURS, style::SHAPES);
    let page = Page { style, sections, version: env!("CARGO_PKG_VERSION") };
    page.render().map_err(|e| LabError::Plan(format!("the page cannot be made: {e}")))
}

fn section(at: usize, group: &ResultGroup) -> Section {
    let id = format!("group{at}");
    let rows: Vec<DotRow> = group
        .results
        .iter()
        .map(|result| {
            let ratio = |target: &String| {
                let row = group.row(target, result)?;
                if Some(target) == group.targets.first() { Some(1.0) } else { row.ratio }
            };
            let title = group.rows.iter().find(|row| row.result == *result);
            DotRow {
                label: title.map_or_else(String::new, |row| row.title.clone()),
                ratios: group.targets.iter().map(ratio).collect(),
            }
        })
        .collect();
    let figure = draw(&format!("{id}-figure"), &group.title, &group.targets, &rows);
    let mut table = group.table().into_iter();
    Section {
        id,
        title: group.title.clone(),
        figure: figure.map_or_else(String::new, |figure| figure.inline()),
        heads: table.next().unwrap_or_default(),
        lines: table.collect(),
        facts: group.facts(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::MetricKind;

    fn row(setup: &str, target: &str, result: &str, value: f64, ratio: Option<f64>) -> WorkloadRow {
        WorkloadRow {
            setup: setup.to_owned(),
            workload: "mh".to_owned(),
            target: target.to_owned(),
            fs: "ext4".to_owned(),
            result: result.to_owned(),
            title: format!("the <{result}>"),
            kind: MetricKind::Time,
            unit: "s".to_owned(),
            value,
            best: value,
            worst: value * 1.1,
            rounds: 3,
            seconds_per_unit: value,
            ratio,
            finish: "return of the last call".to_owned(),
            durability: "nothing before sync".to_owned(),
            seed: 1,
        }
    }

    #[test]
    fn lines_of_json_become_groups_tables_and_a_page() {
        let rows = [
            row("one", "a", "rm", 2.0, None),
            row("one", "b", "rm", 9.0, Some(4.5)),
            row("all", "a", "rm", 1.0, None),
            row("one", "b", "rm", 3.0, Some(1.5)),
            row("one", "a", "create", 1.0, None),
        ];
        let lines = rows.map(|row| serde_json::to_string(&row).unwrap()).join("\n");
        let all = groups(parse(&lines).unwrap());
        let titles: Vec<&str> = all.iter().map(|group| group.title.as_str()).collect();
        assert_eq!(titles, ["mh, one", "mh, all"]);
        let table = all[0].table();
        assert_eq!(table[0], ["", "", "a", "spread", "b", "spread", "ratio"]);
        assert_eq!(table[1][4..], ["3", "10 %", "x 1.50"], "the last line counts");
        assert_eq!(table[2][4], "-", "a target without the result");
        let page = page(&all).unwrap();
        roxmltree::Document::parse(page.trim_start_matches("<!DOCTYPE html>")).unwrap();
        assert!(page.contains("the &#60;rm&#62;") || page.contains("the &lt;rm&gt;"));
        assert_eq!(page.matches("<svg").count(), 2);
    }

    #[test]
    fn other_lines_are_named() {
        let error = parse("\n{\"a\":1}").unwrap_err().to_string();
        assert!(error.starts_with("line 2 is not a result"), "{error}");
    }
}
