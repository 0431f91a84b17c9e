//! `docs/glossary.md` against the sources: each name in backquotes in the columns that name code
//! must exist.

use crate::code::{self, Code};
use ffs_testkit::repository;

const PAGE: &str = "docs/glossary.md";
/// Columns of the tables that name code.
const COLUMNS: [&str; 3] = ["here", "file", "in the code"];
/// Where the paths of the page begin.
const FOLDERS: [&str; 3] = ["crates/ffs-core/src", "crates/ffs-core/src/ordering", ""];

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// The cells of the page that name code, with the numbers of their lines.
fn code_cells(page: &str) -> Vec<(usize, &str)> {
    let mut columns = Vec::new();
    let mut found = Vec::new();
    let mut in_table = false;
    for (number, line) in (1..).zip(page.lines()) {
        let is_row = line.starts_with('|');
        if is_row && !in_table {
            let head = cells(line).into_iter().enumerate();
            columns = head.filter(|(_, name)| COLUMNS.contains(name)).map(|(at, _)| at).collect();
        } else if is_row {
            let row = cells(line);
            found.extend(columns.iter().filter_map(|at| Some((number, *row.get(*at)?))));
        }
        in_table = is_row;
    }
    found
}

#[test]
fn every_name_of_the_glossary_exists() {
    let code = Code::new();
    let page = repository::read(PAGE);
    let mut bad = Vec::new();
    let mut seen = 0;
    for (line, cell) in code_cells(&page) {
        for word in code::quoted(cell) {
            seen += 1;
            let exists =
                if code::is_path(word) { code::is_file(word, &FOLDERS) } else { code.has(word) };
            if !exists {
                bad.push(format!("{PAGE}:{line}: the sources have no `{word}`"));
            }
        }
    }
    assert!(seen > 100, "only {seen} names");
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn only_columns_of_code_are_read() {
    let page = "| word | here | why | file |\n| --- | --- | --- | --- |\n\
        | `a` | `B` | `c` | `d.rs` |\n\n| `x` | other |\n| --- | --- |\n| `y` | `z` |\n";
    let found: Vec<&str> = code_cells(page).into_iter().map(|(_, cell)| cell).collect();
    assert_eq!(found, ["---", "---", "`B`", "`d.rs`"]);
}
