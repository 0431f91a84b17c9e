//! The files of the repository, for tests that compare documents, manifests and sources.
//!
//! Paths are relative to the root of the repository, with `/` between their parts.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that are not part of the sources: build output, version control, inputs of fuzzing.
const SKIPPED: [&str; 5] = ["target", ".git", "corpus", "artifacts", "regressions"];

/// The root of the repository.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The text of a file, if it can be read.
#[must_use]
pub fn try_read(path: &str) -> Option<String> {
    fs::read_to_string(root().join(path)).ok()
}

/// The text of a file.
///
/// # Panics
/// If the file cannot be read.
#[must_use]
pub fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

/// All files below `folder` (of the repository if it is empty), sorted.
///
/// # Panics
/// If a folder cannot be read.
#[must_use]
pub fn files(folder: &str) -> Vec<String> {
    let mut found = Vec::new();
    walk(folder, &mut found);
    found.sort();
    found
}

/// The files below `folder` with one of the `extensions`, sorted.
///
/// # Panics
/// As [`files`].
#[must_use]
pub fn files_with(folder: &str, extensions: &[&str]) -> Vec<String> {
    let has = |path: &String| {
        Path::new(path).extension().is_some_and(|own| extensions.iter().any(|e| own == *e))
    };
    files(folder).into_iter().filter(has).collect()
}

/// The folders of the crates, by name, sorted.
///
/// # Panics
/// As [`files`].
#[must_use]
pub fn crates() -> Vec<String> {
    let mut names: Vec<String> = entries("crates").into_iter().map(|(name, _)| name).collect();
    names.sort();
    names
}

/// The names in a folder, and whether each is a folder.
fn entries(folder: &str) -> Vec<(String, bool)> {
    let failed = |why: std::io::Error| -> ! { panic!("{folder}: {why}") };
    let entries = fs::read_dir(root().join(folder)).unwrap_or_else(|why| failed(why));
    let entries = entries.map(|entry| entry.unwrap_or_else(|why| failed(why)));
    entries
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path().is_dir()))
        .collect()
}

fn walk(folder: &str, found: &mut Vec<String>) {
    for (name, is_folder) in entries(folder) {
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        if !is_folder {
            found.push(path);
        } else if !SKIPPED.contains(&name.as_str()) {
            walk(&path, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{crates, files, files_with, read, try_read};

    #[test]
    fn files_are_found_by_path_and_extension() {
        let this = "crates/ffs-testkit/src/repository.rs".to_owned();
        assert!(files("").contains(&this));
        assert!(files_with("crates", &["toml", "rs"]).contains(&this));
        assert!(!files_with("crates", &["md"]).contains(&this));
        assert!(crates().contains(&"ffs-testkit".to_owned()));
        assert!(read(&this).contains("files_are_found"));
        assert_eq!(try_read("no such file"), None);
    }
}
