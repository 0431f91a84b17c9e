//! Tables of documents against the sources: each name in backquotes in the columns that name code
//! must exist.

use crate::code::{self, Code};
use ffs_testkit::repository;

/// The documents with such tables, their columns, and the fewest names that each has.
const PAGES: [(&str, &[&str], usize); 3] = [
    ("docs/architecture.md", &["in the code", "file"], 60),
    ("docs/glossary.md", &["here", "file", "in the code"], 150),
    ("docs/spec/soft-updates.md", &["enforced in", "file", "in the code"], 100),
];
/// Where the paths of the documents begin.
const FOLDERS: [&str; 5] = [
    "crates",
    "crates/ffs-core/src",
    "crates/ffs-core/src/ordering",
    "crates/ffs-core/src/ordering/softdep",
    "",
];

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// The cells of the `named` columns, with the numbers of their lines.
fn code_cells<'a>(page: &'a str, named: &[&str]) -> Vec<(usize, &'a str)> {
    let mut columns = Vec::new();
    let mut found = Vec::new();
    let mut in_table = false;
    for (number, line) in (1..).zip(page.lines()) {
        let is_row = line.starts_with('|');
        if is_row && !in_table {
            let head = cells(line).into_iter().enumerate();
            columns = head.filter(|(_, name)| named.contains(name)).map(|(at, _)| at).collect();
        } else if is_row {
            let row = cells(line);
            found.extend(columns.iter().filter_map(|at| Some((number, *row.get(*at)?))));
        }
        in_table = is_row;
    }
    found
}

#[test]
fn every_name_in_a_column_of_code_exists() {
    let code = Code::new();
    let mut bad = Vec::new();
    for (path, columns, least) in PAGES {
        let page = repository::read(path);
        let mut seen = 0;
        for (line, cell) in code_cells(&page, columns) {
            for word in code::quoted(cell) {
                seen += 1;
                if !code.cites(word, &FOLDERS) {
                    bad.push(format!("{path}:{line}: the sources have no `{word}`"));
                }
            }
        }
        assert!(seen >= least, "only {seen} names in {path}");
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

#[test]
fn only_columns_of_code_are_read() {
    let page = "| word | here | why | file |\n| --- | --- | --- | --- |\n\
        | `a` | `B` | `c` | `d.rs` |\n\n| `x` | other |\n| --- | --- |\n| `y` | `z` |\n";
    let found: Vec<&str> =
        code_cells(page, &["here", "file"]).into_iter().map(|(_, cell)| cell).collect();
    assert_eq!(found, ["---", "---", "`B`", "`d.rs`"]);
}
