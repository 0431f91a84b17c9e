//! `docs/promises.md` against the repository: every test, rule and script that a promise names
//! exists, and the page gives the right numbers of promises.
//!
//! Whether a test asserts the promise of its row is left to the reader.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at surprises")]

use ffs_testkit::repository::{self, read, try_read};
use std::collections::BTreeSet;

/// The head of a table of promises with tests, and of the table of promises without.
const WITH_TEST: &str = "| promise | test | not tested |";
const WITHOUT_TEST: &str = "| where | promise |";

fn page() -> String {
    read("docs/promises.md")
}

/// The rows below every head `head`: line number and cells.
fn rows(page: &str, head: &str) -> Vec<(usize, Vec<String>)> {
    let mut all = Vec::new();
    let mut inside = false;
    for (n, line) in (1..).zip(page.lines()) {
        inside = line == head || inside && line.starts_with('|');
        if inside && line != head && !line.starts_with("| ---") {
            let cells = line.trim_matches('|').split('|');
            all.push((n, cells.map(|cell| cell.trim().to_owned()).collect()));
        }
    }
    all
}

/// The texts in backquotes.
fn quoted(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

fn defines(source: &str, function: &str) -> bool {
    let after = |rest: &str| !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    source.split(&format!("fn {function}")).skip(1).any(after)
}

/// The rules of the oracle and its laboratory, as their sources list them.
fn rules() -> BTreeSet<String> {
    let lab = "crates/ffs-lab/src/crash";
    let mut all = BTreeSet::new();
    // Tables in the headers of the modules: `//! | X6, LINK | is broken when ...`.
    for table in ["oracle/mod.rs", "examine.rs"] {
        let text = read(&format!("{lab}/{table}"));
        for line in text.lines().filter_map(|line| line.strip_prefix("//! | ")) {
            let first = line.split(" |").next().unwrap_or("");
            all.extend(first.split(", ").map(str::to_owned));
        }
    }
    // The raw checker has its rules as literals where it finds violations.
    for path in repository::files_with(&format!("{lab}/raw"), &["rs"]) {
        let text = read(&path);
        let literals = text.split('"').skip(1).step_by(2).map(str::to_owned);
        all.extend(literals.filter(|rule| rule.starts_with('F')));
    }
    if read(&format!("{lab}/tally.rs")).contains("\"RUN\"") {
        all.insert("RUN".to_owned());
    }
    all
}

/// What is wrong with a reference.
fn wrong(reference: &str, rules: &BTreeSet<String>) -> Option<String> {
    if let Some((file, name)) = reference.split_once(".rs::") {
        let file = format!("crates/{file}.rs");
        return match try_read(&file) {
            None => Some(format!("there is no {file}")),
            Some(source) if defines(&source, name) => None,
            Some(_) => Some(format!("{file} has no function {name}")),
        };
    }
    if let Some(words) = reference.strip_prefix(".ci/run::") {
        let commands = read(".ci/run");
        let mut commands = commands.lines().filter(|line| !line.starts_with('#'));
        return (!commands.any(|line| line.contains(words)))
            .then(|| format!("no step of .ci/run has the words {words:?}"));
    }
    if reference.starts_with("bench/") {
        return (!repository::root().join(reference).is_file()).then(|| format!("no {reference}"));
    }
    // A finding of fsck that a check of the laboratory does not accept.
    let finding = reference.strip_prefix("C2:").map(|id| format!("\"{id}\""));
    let known = match finding {
        Some(id) => read("crates/ffs-admin/src/fsck/report.rs").contains(&id),
        None => rules.contains(reference),
    };
    (!known).then(|| format!("{reference} is neither a test nor a rule"))
}

#[test]
fn every_promise_names_tests_that_exist() {
    let (page, rules) = (page(), rules());
    assert!(rules.len() > 30, "{rules:?}");
    let mut bad = Vec::new();
    for (line, cells) in rows(&page, WITH_TEST) {
        let [promise, tests, _] = &cells[..] else {
            bad.push(format!("{line}: not three cells"));
            continue;
        };
        if promise.is_empty() || quoted(tests).next().is_none() {
            bad.push(format!("{line}: no promise, or no test: {promise}"));
        }
        let all = quoted(tests).filter_map(|test| wrong(test, &rules));
        bad.extend(all.map(|why| format!("{line}: {why}")));
    }
    assert!(bad.is_empty(), "docs/promises.md\n{}", bad.join("\n"));
}

#[test]
fn the_numbers_of_promises_are_right() {
    let page = page();
    let (with, without) = (rows(&page, WITH_TEST), rows(&page, WITHOUT_TEST));
    assert!(without.iter().all(|(_, cells)| cells.len() == 2), "{without:?}");
    let measures = |cells: &[String]| quoted(&cells[1]).all(|test| test.starts_with("bench/"));
    let scripts = with.iter().filter(|(_, cells)| measures(cells)).count();
    for line in [
        format!("{} promises have a test, {scripts} a script", with.len() - scripts),
        format!("\n{} promises have no test", without.len()),
    ] {
        assert!(page.contains(&line), "docs/promises.md lacks the line: {line}");
    }
}

#[test]
fn a_wrong_reference_is_seen() {
    let rules = rules();
    let here = "ffs-testkit/tests/promises.rs";
    for good in [&format!("{here}::a_wrong_reference_is_seen"), "X1", "F6", "C2:LINK-LOW", "RUN"] {
        assert_eq!(wrong(good, &rules), None);
    }
    for bad in [
        &format!("{here}::a_wrong_reference"),
        "ffs-testkit/tests/none.rs::rows",
        "X99",
        "C2:NONE",
        ".ci/run::no such step",
        "bench/none.sh",
        "none",
    ] {
        assert!(wrong(bad, &rules).is_some(), "{bad}");
    }
}
