//! The list of the command's modules in `docs/architecture.md`.

use std::collections::BTreeSet;

use ffs_testkit::repository;

#[test]
fn the_list_has_every_module_of_the_command() {
    let read = |path: &str| repository::try_read(path).unwrap();
    let main = read("crates/ffs-cli/src/main.rs");
    let modules: BTreeSet<&str> =
        main.lines().filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';')).collect();
    assert!(modules.len() > 20, "{modules:?}");
    let text = read("docs/architecture.md");
    let section = text.split("\n### ").find(|section| section.starts_with("Inside the command"));
    let cells =
        section.unwrap().lines().filter_map(|line| line.strip_prefix("| `")?.split('|').next());
    let names = cells.flat_map(|cell| cell.split([',', ' ', '`']));
    // A module in another is in the list beside it.
    let listed: BTreeSet<&str> =
        names.filter(|name| !name.is_empty() && !name.contains("::")).collect();
    assert_eq!(listed, modules);
}
