//! Every file of tests is compiled: a crate that lists its test programs lists them all.
//!
//! Cargo finds the programs of a crate in `tests/` by itself, but for crates with
//! `autotests = false`. There a file that is not listed would be left out, and no test would fail.

use ffs_testkit::repository::{self, read};

/// Those of the `files` of tests that are neither a program of the `manifest` nor a module of one.
/// `text` returns the text of a file of this crate.
fn left_out(manifest: &str, files: &[String], text: impl Fn(&str) -> String) -> Vec<String> {
    let programs: Vec<&str> = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("path = \"")?.strip_suffix('"'))
        .filter(|path| path.starts_with("tests/"))
        .collect();
    let texts: Vec<String> = programs.iter().map(|path| text(path)).collect();
    let is_module = |file: &str| {
        let declared = file.rsplit('/').next().and_then(|name| name.strip_suffix(".rs"));
        declared.is_some_and(|name| texts.iter().any(|t| t.contains(&format!("\nmod {name};"))))
    };
    let flat = |file: &&String| file.matches('/').count() == 1 || file.ends_with("/main.rs");
    let roots = files.iter().filter(flat).filter(|file| !programs.contains(&file.as_str()));
    roots.filter(|file| !is_module(file)).cloned().collect()
}

#[test]
fn every_file_of_tests_is_compiled() {
    let mut all = Vec::new();
    for name in repository::crates() {
        let folder = format!("crates/{name}");
        let manifest = read(&format!("{folder}/Cargo.toml"));
        if !manifest.contains("\nautotests = false\n") {
            continue;
        }
        let inside = |path: String| path[folder.len() + 1..].to_owned();
        let files = repository::files_with(&format!("{folder}/tests"), &["rs"]);
        let files: Vec<String> = files.into_iter().map(inside).collect();
        let found = left_out(&manifest, &files, |path| read(&format!("{folder}/{path}")));
        all.extend(found.into_iter().map(|file| format!("{folder}/{file}")));
    }
    assert!(all.is_empty(), "no test program has these files: {all:#?}");
}

#[test]
fn a_file_that_is_not_listed_is_found() {
    let manifest = "[[test]]\nname = \"volume\"\npath = \"tests/volume.rs\"\n";
    let files =
        ["tests/volume.rs", "tests/a.rs", "tests/b.rs", "tests/c/main.rs", "tests/d/mod.rs"];
    let files = files.map(str::to_owned);
    let found = left_out(manifest, &files, |_| "//! Tests.\n\nmod a;\n".to_owned());
    assert_eq!(found, ["tests/b.rs", "tests/c/main.rs"]);
}
