//! The layers as a test: which crate, and which module of ffs-core, may use which.
//!
//! An edge that is not in the tables fails. Change a table only together with
//! `docs/architecture.md`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test panics on failure"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Each crate, and the crates its `[dependencies]` may name.
const CRATES: &[(&str, &[&str])] = &[
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
const CORE: &[&str] = &[
    "dirhash",
    "buf",
    "ordering",
    "alloc",
    "namecache",
    "ufsmount",
    "inode",
    "syncer",
    "dir",
    "mount",
    "ops",
];

/// Modules of ffs-core that every module may use; they use none of [`CORE`].
const COMMON: &[&str] = &[
    "counters", "cred", "error", "openhash", "options", "prefetch", "row", "sync", "tunables",
    "types",
];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The `ffs-*` packages in the `[dependencies]` section of a manifest.
fn crates_used(manifest: &str) -> BTreeSet<String> {
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
fn crates_depend_only_downwards() {
    let crates = workspace().join("crates");
    let mut seen = BTreeSet::new();
    for entry in fs::read_dir(&crates).unwrap() {
        let dir = entry.unwrap().path();
        let name = dir.file_name().unwrap().to_string_lossy().into_owned();
        let Some((_, allowed)) = CRATES.iter().find(|(of, _)| *of == name) else {
            panic!("{name} is not in the table of crates");
        };
        let manifest = fs::read_to_string(dir.join("Cargo.toml")).unwrap();
        for used in crates_used(&manifest) {
            assert!(allowed.contains(&used.as_str()), "{name} must not use {used}");
        }
        seen.insert(name);
    }
    assert_eq!(seen.len(), CRATES.len(), "a crate of the table does not exist");
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

/// The source files of a module of ffs-core.
fn files_of(module: &str) -> Vec<PathBuf> {
    let src = workspace().join("crates/ffs-core/src");
    let (dir, file) = (src.join(module), src.join(format!("{module}.rs")));
    let mut files: Vec<PathBuf> = file.exists().then_some(file).into_iter().collect();
    if dir.exists() {
        sources(&dir, &mut files);
    }
    assert!(!files.is_empty(), "{module} does not exist");
    files
}

/// Names directly after `crate::` in a line of code.
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

/// The uses of other modules in a file, with their line numbers. Tests may use every module.
fn uses(file: &Path) -> Vec<(usize, String)> {
    if file.components().any(|c| c.as_os_str().to_string_lossy().starts_with("tests")) {
        return Vec::new();
    }
    let text = fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or("");
    let lines = code.lines().enumerate();
    lines.flat_map(|(n, line)| modules_named(line).into_iter().map(move |m| (n + 1, m))).collect()
}

#[test]
fn core_modules_use_only_those_below() {
    for (level, module) in CORE.iter().enumerate() {
        for file in files_of(module) {
            for (line, used) in uses(&file) {
                let above = CORE.iter().position(|m| *m == used).is_some_and(|at| at > level);
                assert!(!above, "{}:{line}: {module} must not use {used}", file.display());
            }
        }
    }
    for module in COMMON {
        for file in files_of(module) {
            for (line, used) in uses(&file) {
                let up = CORE.contains(&used.as_str());
                assert!(!up, "{}:{line}: {module} must not use {used}", file.display());
            }
        }
    }
}

#[test]
fn every_core_module_is_in_a_table() {
    let lib = workspace().join("crates/ffs-core/src/lib.rs");
    let text = fs::read_to_string(lib).unwrap();
    let modules = text
        .lines()
        .filter_map(|l| l.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';'));
    for module in modules.filter(|m| *m != "linux_xattr") {
        assert!(CORE.contains(&module) || COMMON.contains(&module), "{module} has no layer");
    }
}
