//! The plan of the house as a test: which room may use which.
//!
//! The tables are the design's; an edge that is not in them fails. Change a table only together with
//! `docs/architecture.md`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests stop at surprises"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Crate, and the rooms its `[dependencies]` may name.
const ROOMS: &[(&str, &[&str])] = &[
    ("ffs-ondisk", &[]),
    ("ffs-device", &[]),
    ("ffs-core", &["ffs-ondisk", "ffs-device"]),
    ("ffs-admin", &["ffs-ondisk", "ffs-device"]),
    ("ffs-fuse", &["ffs-core", "ffs-device"]),
    ("ffs-lab", &["ffs-ondisk", "ffs-device", "ffs-core", "ffs-admin"]),
    ("bsdffs", &["ffs-ondisk", "ffs-device", "ffs-core", "ffs-admin"]),
    (
        "ffs-cli",
        &["ffs-ondisk", "ffs-device", "ffs-core", "ffs-admin", "ffs-fuse", "ffs-lab", "bsdffs"],
    ),
    ("ffs-testkit", &[]),
];

/// Modules of ffs-core, lowest first: each may use those before it.
const CORE: &[&str] =
    &["dirhash", "buf", "ordering", "alloc", "namecache", "inode", "dir", "ops", "mount"];

/// Modules of ffs-core that everybody may use.
const COMMON: &[&str] =
    &["counters", "cred", "error", "options", "prefetch", "sync", "tunables", "types"];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The `ffs-*` packages in the `[dependencies]` section of a manifest.
fn rooms_used(manifest: &str) -> BTreeSet<String> {
    let mut inside = false;
    let mut out = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.trim() == "[dependencies]";
        } else if inside && line.starts_with("ffs-") {
            out.extend(line.split(['.', ' ', '=']).next().map(str::to_owned));
        }
    }
    out
}

#[test]
fn rooms_depend_only_downwards() {
    let crates = workspace().join("crates");
    let mut seen = BTreeSet::new();
    for entry in fs::read_dir(&crates).unwrap() {
        let dir = entry.unwrap().path();
        let name = dir.file_name().unwrap().to_string_lossy().into_owned();
        let Some((_, allowed)) = ROOMS.iter().find(|(room, _)| *room == name) else {
            panic!("{name} is a room without a place in the plan");
        };
        let manifest = fs::read_to_string(dir.join("Cargo.toml")).unwrap();
        for used in rooms_used(&manifest) {
            assert!(allowed.contains(&used.as_str()), "{name} must not use {used}");
        }
        seen.insert(name);
    }
    assert_eq!(seen.len(), ROOMS.len(), "a room of the plan is missing");
}

fn sources(dir: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

/// Names directly behind `crate::` in a line of code.
fn modules_named(line: &str) -> Vec<String> {
    let code = line.split("//").next().unwrap_or("");
    code.match_indices("crate::")
        .filter(|(at, _)| !code[..*at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
        .map(|(at, m)| {
            let rest = &code[at + m.len()..];
            rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
        })
        .collect()
}

#[test]
fn core_modules_use_only_those_below() {
    let src = workspace().join("crates/ffs-core/src");
    for (place, module) in CORE.iter().enumerate() {
        let mut files = Vec::new();
        sources(&src.join(module), &mut files);
        assert!(!files.is_empty(), "{module} is missing");
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            // Tests build what they need from every room.
            let code = text.split("#[cfg(test)]").next().unwrap_or("");
            let is_test = file.file_name().is_some_and(|n| n.to_string_lossy().contains("test"));
            for (n, line) in code.lines().enumerate().filter(|_| !is_test) {
                for used in modules_named(line) {
                    let above = CORE.iter().position(|m| *m == used).is_some_and(|at| at > place);
                    // Operations are methods of the handle that `mount` defines.
                    let handle = *module == "ops" && used == "mount";
                    assert!(
                        !above || handle,
                        "{}:{}: {module} must not use {used}",
                        file.display(),
                        n + 1
                    );
                }
            }
        }
    }
    for module in COMMON {
        let text = fs::read_to_string(src.join(format!("{module}.rs"))).unwrap();
        for line in text.lines() {
            for used in modules_named(line) {
                assert!(!CORE.contains(&used.as_str()), "{module} must not use {used}");
            }
        }
    }
}

/// Longest file anyone should have to read, lines, tests included.
const LONGEST_FILE: usize = 800;
/// Longest line, characters.
const LONGEST_LINE: usize = 120;

#[test]
fn files_and_lines_stay_readable() {
    let mut files = Vec::new();
    sources(&workspace().join("crates"), &mut files);
    let mut bad = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let lines = text.lines().count();
        if lines > LONGEST_FILE {
            bad.push(format!("{}: {lines} lines", file.display()));
        }
        for (n, line) in text.lines().enumerate() {
            if line.chars().count() > LONGEST_LINE {
                bad.push(format!("{}:{}: longer than {LONGEST_LINE}", file.display(), n + 1));
            }
            if line.contains('\t') || line.ends_with(' ') {
                bad.push(format!("{}:{}: tab or trailing space", file.display(), n + 1));
            }
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}
