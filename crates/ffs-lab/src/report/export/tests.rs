//! The tables, their dictionary, and the page that shows it.

use std::collections::BTreeMap;

use super::*;
use crate::report::tests::synthetic::{levels, study};

/// The records of a CSV text (RFC 4180), each with as many fields as the first.
fn records(text: &str) -> Vec<Vec<String>> {
    let (mut rows, mut row, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    assert!(field.is_empty() && row.is_empty() && !quoted, "the last line is complete");
    let width = rows.first().map_or(0, Vec::len);
    assert!(rows.iter().all(|row: &Vec<String>| row.len() == width), "all rows are as wide");
    rows
}

fn tables_of(results: &Results) -> BTreeMap<&'static str, Vec<Vec<String>>> {
    tables(results).unwrap().into_iter().map(|(name, text)| (name, records(&text))).collect()
}

#[test]
fn every_column_and_counter_is_in_the_dictionary() {
    let results = study(2);
    let tables = tables_of(&results);
    let dictionary = &tables["dictionary.csv"];
    for table in ["runs", "phases", "counters", "published"] {
        let found = dictionary.iter().filter(|row| row[0] == table && row[2].is_empty());
        let found: Vec<&str> = found.map(|row| row[1].as_str()).collect();
        assert_eq!(tables[&*format!("{table}.csv")][0], found, "{table}: in the order of the file");
    }
    for row in &dictionary[1..] {
        assert!(!row[5].is_empty(), "{row:?} has no meaning");
        assert!(row[3] != "number" || !row[4].is_empty(), "{row:?} has no unit");
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        assert!(row[1].chars().all(plain), "{row:?} is no name of a variable");
    }
}

#[test]
fn each_run_has_a_row_with_its_factors_and_value() {
    let results = study(2);
    let tables = tables_of(&results);
    let runs = &tables["runs.csv"];
    let metrics: usize = results.jobs.iter().map(|job| job.outcome.metrics.len()).sum();
    assert_eq!(runs.len(), 1 + metrics);
    let phases: usize = results.jobs.iter().map(|job| job.outcome.phases.len()).sum();
    assert_eq!(tables["phases.csv"].len(), 1 + phases);
    let at = |name: &str| runs[0].iter().position(|head| head == name).unwrap();
    let mut rows = runs[1..].iter();
    for job in &results.jobs {
        for metric in &job.outcome.metrics {
            let row = rows.next().unwrap();
            assert_eq!(row[at("workload")], job.workload);
            assert_eq!(row[at("combination")], results.plan.combination_name(job.combination));
            assert_eq!(row[at("replicate")], (job.replicate + 1).to_string());
            for (bit, factor) in results.plan.factors.iter().enumerate() {
                let on = job.combination >> bit & 1;
                assert_eq!(row[at(&format!("on_{}", factor.name))], on.to_string());
            }
            let value: f64 = row[at("value")].parse().unwrap();
            assert_eq!(value.to_bits(), metric.value().to_bits(), "no digit is lost");
        }
    }
}

#[test]
fn a_factor_of_three_levels_is_a_column_of_numbers_with_a_meaning() {
    let results = levels(1);
    let tables = tables_of(&results);
    let runs = &tables["runs.csv"];
    let at = |name: &str| runs[0].iter().position(|head| head == name).unwrap();
    let found: Vec<[&str; 3]> = runs[1..]
        .iter()
        .map(|row| ["combination", "on_su", "level_big"].map(|name| row[at(name)].as_str()))
        .collect();
    let expected = [
        ["none", "0", "0"],
        ["su", "1", "0"],
        ["big=20000", "0", "1"],
        ["su+big=20000", "1", "1"],
        ["big=90000", "0", "2"],
        ["su+big=90000", "1", "2"],
    ];
    assert_eq!(found, expected);
    let rows = tables["dictionary.csv"].iter().filter(|row| row[..2] == ["runs", "level_big"]);
    let rows: Vec<(&str, &str)> = rows.map(|row| (row[2].as_str(), row[5].as_str())).collect();
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[1], ("0", "the base: the target has 'maxvnodes=5000'"));
    assert_eq!(rows[3], ("2", "big=90000: the target has 'maxvnodes=90000'"));
}

#[test]
fn a_number_that_does_not_exist_is_an_empty_field() {
    let mut results = study(2);
    let metric = &mut results.jobs[0].outcome.metrics[0];
    (metric.kind, metric.elapsed, metric.work) = (crate::workload::MetricKind::Rate, 0.0, 1.0);
    let runs = &tables_of(&results)["runs.csv"];
    let at = runs[0].iter().position(|head| head == "value").unwrap();
    assert_eq!(runs[1][at], "");
}

#[test]
fn the_page_has_the_dictionary_of_the_code() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lab/data.md");
    let page = std::fs::read_to_string(page).unwrap();
    let counters = |line: &&str| {
        line.starts_with("| counters | counter | ") && {
            line.split(" | ").nth(2).is_some_and(|value| !value.is_empty())
        }
    };
    let text = dictionary();
    let columns: Vec<&str> = text.lines().filter(|line| !counters(line)).collect();
    assert!(
        page.contains(&columns.join("\n")),
        "docs/lab/data.md: expected\n{}",
        columns.join("\n")
    );
}
