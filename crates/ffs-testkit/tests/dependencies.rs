//! `docs/dependencies.md` against the manifests: it names every dependency from others, and no
//! other crate; and every dependency of the workspace has a user.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at surprises")]

use ffs_testkit::repository::{self, read};
use std::collections::BTreeSet;

/// The head of the table of dependencies.
const HEAD: &str = "| crate | used for | why this one |";

/// The manifests of packages that are no members of the workspace.
const OTHERS: [&str; 4] = [
    "fuzz/Cargo.toml",
    "bindings/c/Cargo.toml",
    "bindings/header/Cargo.toml",
    "bindings/python/Cargo.toml",
];

/// The manifests of all packages.
fn manifests() -> Vec<String> {
    let of_crates =
        repository::crates().into_iter().map(|name| format!("crates/{name}/Cargo.toml"));
    OTHERS.into_iter().map(str::to_owned).chain(of_crates).collect()
}

/// The dependencies that a manifest lists in sections for which `wanted` holds.
fn dependencies(manifest: &str, wanted: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let mut inside = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            inside = wanted(section.trim_end_matches(']'));
        } else if inside && line.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            found.extend(line.split(['.', ' ', '=']).next().map(str::to_owned));
        }
    }
    found
}

/// Whether a section of a package's manifest lists dependencies: also those of tests, of build
/// scripts and of one target.
fn lists(section: &str) -> bool {
    let kind = section.rsplit('.').next().unwrap_or(section);
    ["dependencies", "dev-dependencies", "build-dependencies"].contains(&kind)
        && section != "workspace.dependencies"
}

fn used() -> BTreeSet<String> {
    manifests().iter().flat_map(|path| dependencies(&read(path), lists)).collect()
}

fn foreign(all: &BTreeSet<String>) -> BTreeSet<String> {
    let own = |name: &str| repository::root().join("crates").join(name).is_dir();
    all.iter().filter(|name| !own(name)).cloned().collect()
}

/// The crates that the tables of the page name: one a row, perhaps with a note in parentheses.
fn documented(page: &str) -> Vec<String> {
    let mut inside = false;
    let mut found = Vec::new();
    for line in page.lines() {
        inside = line == HEAD || inside && line.starts_with('|');
        if inside && line != HEAD && !line.starts_with("| ---") {
            let cell = line.trim_start_matches('|').split('|').next().unwrap_or("");
            found.push(cell.split('(').next().unwrap_or("").trim().to_owned());
        }
    }
    found
}

#[test]
fn the_page_names_every_dependency_and_no_other() {
    let rows = documented(&read("docs/dependencies.md"));
    let names: BTreeSet<String> = rows.iter().cloned().collect();
    assert_eq!(names.len(), rows.len(), "docs/dependencies.md has a crate twice: {rows:?}");
    let used = foreign(&used());
    assert!(used.len() > 20, "{used:?}");
    let missing: Vec<&String> = used.difference(&names).collect();
    assert!(missing.is_empty(), "docs/dependencies.md lacks {missing:?}");
    let unused: Vec<&String> = names.difference(&used).collect();
    assert!(unused.is_empty(), "docs/dependencies.md has {unused:?}, which no manifest lists");
}

#[test]
fn the_page_names_what_only_the_laboratory_needs() {
    let needed = |section: &str| lists(section) && !section.ends_with("dev-dependencies");
    let of = |name: &str| dependencies(&read(&format!("crates/{name}/Cargo.toml")), needed);
    let others = repository::crates().into_iter();
    let others = others.filter(|name| !["ffs-lab", "ffs-testkit"].contains(&name.as_str()));
    let others: BTreeSet<String> = others.flat_map(|name| of(&name)).collect();
    let page = read("docs/dependencies.md").replace('\n', " ");
    let (_, listed) = page.split_once("Only the laboratory needs ").unwrap();
    let (listed, _) = listed.split_once(';').unwrap();
    let listed: BTreeSet<String> =
        listed.replace(" and ", ", ").split(", ").map(str::to_owned).collect();
    assert_eq!(listed, of("ffs-lab").difference(&others).cloned().collect());
}

#[test]
fn every_dependency_of_the_workspace_has_a_user() {
    let offered = dependencies(&read("Cargo.toml"), |section| section == "workspace.dependencies");
    assert!(offered.contains("ffs-core"), "{offered:?}");
    let used = used();
    let unused: Vec<&String> = offered.difference(&used).collect();
    assert!(unused.is_empty(), "no package uses {unused:?} of Cargo.toml");
}

#[test]
fn manifests_and_tables_are_read_right() {
    let manifest = "[package]\nname = \"a\"\n\n[dependencies]\n# b = \"1\"\n\
        c.workspace = true\nd-e = { version = \"1\" }\n\
        [target.'cfg(target_arch = \"x86_64\")'.dependencies]\nf = \"2\"\n\
        [dev-dependencies]\ng=\"3\"\n[features]\nh = []\n";
    let names = |all: BTreeSet<String>| all.into_iter().collect::<Vec<_>>().join(" ");
    assert_eq!(names(dependencies(manifest, lists)), "c d-e f g");
    let root = "[workspace.dependencies]\ni = \"1\"\n[workspace.lints.rust]\nj = \"deny\"\n";
    assert_eq!(names(dependencies(root, lists)), "");
    let page =
        format!("{HEAD}\n| --- | --- | --- |\n| a | x | y |\n| b (tests) | x | y |\n\n| c |");
    assert_eq!(documented(&page), ["a", "b"]);
}
