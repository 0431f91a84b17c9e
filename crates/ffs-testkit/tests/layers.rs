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

use ffs_testkit::repository::{self, read};
use std::collections::{BTreeMap, BTreeSet};

/// Each crate, and the crates its `[dependencies]` may name.
const CRATES: &[(&str, &[&str])] = &[
    ("ffs-ondisk", &[]),
    ("ffs-device", &[]),
    ("ffs-image", &["ffs-device"]),
    ("ffs-core", &["ffs-ondisk", "ffs-device"]),
    ("ffs-admin", &["ffs-ondisk", "ffs-device"]),
    ("ffs-fuse", &["ffs-core", "ffs-image", "ffs-device"]),
    ("ffs-lab", &["ffs-ondisk", "ffs-device", "ffs-core", "ffs-admin", "bsdffs"]),
    ("bsdffs", &["ffs-ondisk", "ffs-device", "ffs-image", "ffs-core", "ffs-admin"]),
    (
        "ffs-cli",
        &[
            "ffs-ondisk",
            "ffs-device",
            "ffs-image",
            "ffs-core",
            "ffs-admin",
            "ffs-fuse",
            "ffs-lab",
            "bsdffs",
        ],
    ),
    ("ffs-testkit", &[]),
];

/// Modules of ffs-core, lowest first: each may use those before it.
const CORE: &[&str] = &[
    "dirhash",
    "buf",
    "ordering",
    "alloc",
    "quota",
    "namecache",
    "snapshot",
    "ufsmount",
    "inode",
    "syncer",
    "dir",
    "mount",
    "ops",
];

/// Modules of ffs-core that every module may use; they use none of [`CORE`].
const COMMON: &[&str] = &[
    "counters",
    "cred",
    "error",
    "openhash",
    "options",
    "per_thread",
    "prefetch",
    "source",
    "sparse_array",
    "sync",
    "tunables",
    "types",
];

/// The packages of the workspace in the `[dependencies]` section of a manifest.
fn crates_used(manifest: &str) -> BTreeSet<String> {
    let mut inside = false;
    let mut out = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            inside = line.trim() == "[dependencies]";
        } else if inside && (line.starts_with("ffs-") || line.starts_with("bsdffs")) {
            out.extend(line.split(['.', ' ', '=']).next().map(str::to_owned));
        }
    }
    out
}

#[test]
fn crates_depend_only_downwards() {
    let names = repository::crates();
    for name in &names {
        let Some((_, allowed)) = CRATES.iter().find(|(of, _)| of == name) else {
            panic!("{name} is not in the table of crates");
        };
        for used in crates_used(&read(&format!("crates/{name}/Cargo.toml"))) {
            assert!(allowed.contains(&used.as_str()), "{name} must not use {used}");
        }
    }
    assert_eq!(names.len(), CRATES.len(), "a crate of the table does not exist");
}

/// The source files of a module of ffs-core.
fn files_of(module: &str) -> Vec<String> {
    let mut files = repository::files_with("crates/ffs-core/src", &["rs"]);
    let (file, folder) = (format!("{module}.rs"), format!("{module}/"));
    files.retain(|path| {
        let path = path.trim_start_matches("crates/ffs-core/src/");
        path == file || path.starts_with(&folder)
    });
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
fn uses(path: &str) -> Vec<(usize, String)> {
    if path.contains("/tests") {
        return Vec::new();
    }
    let text = read(path);
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or("");
    let lines = code.lines().enumerate();
    lines.flat_map(|(n, line)| modules_named(line).into_iter().map(move |m| (n + 1, m))).collect()
}

#[test]
fn core_modules_use_only_those_below() {
    for (level, module) in CORE.iter().enumerate() {
        for file in files_of(module) {
            for (line, used) in uses(&file) {
                let above = CORE.iter().position(|m| *m == used).is_some_and(|at| at > level);
                assert!(!above, "{}:{line}: {module} must not use {used}", file);
            }
        }
    }
    for module in COMMON {
        for file in files_of(module) {
            for (line, used) in uses(&file) {
                let up = CORE.contains(&used.as_str());
                assert!(!up, "{}:{line}: {module} must not use {used}", file);
            }
        }
    }
}

/// The lists `name --> other, other` of `docs/architecture.md`.
fn documented() -> BTreeMap<String, BTreeSet<String>> {
    let page = read("docs/architecture.md");
    let lists = page.lines().filter_map(|line| line.split_once(" -->"));
    let is_name =
        |name: &str| name.trim().bytes().all(|b| b"-_".contains(&b) || b.is_ascii_lowercase());
    let lists = lists.filter(|(name, used)| is_name(name) && used.split(", ").all(is_name));
    let names = |used: &str| {
        used.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
    };
    lists.map(|(name, used)| (name.trim().to_owned(), names(used))).collect()
}

#[test]
fn the_page_lists_the_uses_of_crates_and_modules() {
    let mut real = BTreeMap::new();
    for name in repository::crates() {
        let used = crates_used(&read(&format!("crates/{name}/Cargo.toml")));
        real.insert(name, used);
    }
    for module in CORE {
        let all = files_of(module).into_iter().flat_map(|file| uses(&file));
        let others = all.map(|(_, used)| used);
        let others = others.filter(|used| used != module && CORE.contains(&used.as_str()));
        real.insert((*module).to_owned(), others.collect());
    }
    let page = documented();
    for (name, used) in &real {
        assert_eq!(page.get(name), Some(used), "docs/architecture.md, {name} -->");
    }
    assert_eq!(page.len(), real.len(), "docs/architecture.md lists unknown names: {page:?}");
}

#[test]
fn every_core_module_is_in_a_table() {
    let text = read("crates/ffs-core/src/lib.rs");
    let modules = text
        .lines()
        .filter_map(|l| l.trim_start_matches("pub ").strip_prefix("mod ")?.strip_suffix(';'));
    for module in modules.filter(|m| *m != "linux_xattr") {
        assert!(CORE.contains(&module) || COMMON.contains(&module), "{module} has no layer");
    }
}
