//! Import circles between modules of a crate, against those that `docs/architecture.md` intends.
//!
//! A module and its submodules may use each other: together they are one module of the level
//! above. Below each module, its submodules must not use each other in a circle.

use std::collections::{BTreeMap, BTreeSet};

use ffs_testkit::repository;

use crate::findings::{self, Findings};
use crate::modules::{self, Crate, ModulePath};

const PAGE: &str = "docs/architecture.md";
/// The head of the table of intended circles.
const HEAD: &str = "| crate | modules | reason |";

/// Uses between submodules of one module: the first site of each pair.
type Edges = BTreeMap<(ModulePath, ModulePath), String>;

/// The uses between submodules of the same module.
fn edges(all: &Crate) -> Edges {
    let mut edges = Edges::new();
    for one in all.uses() {
        let common = one.from.iter().zip(&one.to).take_while(|(a, b)| a == b).count();
        if one.from.len() > common && one.to.len() > common {
            let (from, to) = (one.from[..=common].to_vec(), one.to[..=common].to_vec());
            edges.entry((from, to)).or_insert(one.site);
        }
    }
    edges
}

fn reachable(edges: &Edges, from: &ModulePath) -> BTreeSet<ModulePath> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from.clone()];
    while let Some(at) = open.pop() {
        for (_, to) in edges.keys().filter(|(from, _)| *from == at) {
            if seen.insert(to.clone()) {
                open.push(to.clone());
            }
        }
    }
    seen
}

/// The circles: sets of modules of which each can be reached from each.
fn circles(edges: &Edges) -> Vec<BTreeSet<ModulePath>> {
    let all: BTreeSet<&ModulePath> = edges.keys().map(|(from, _)| from).collect();
    let reach: BTreeMap<_, _> = all.iter().map(|from| (*from, reachable(edges, from))).collect();
    let mut found = BTreeSet::new();
    for from in all {
        let back = |to: &&ModulePath| reach.get(to).is_some_and(|there| there.contains(from));
        let circle: BTreeSet<ModulePath> = reach[from].iter().filter(back).cloned().collect();
        if circle.len() > 1 {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

/// The intended circles that a page lists: crate and modules.
fn intended(page: &str) -> Vec<(String, BTreeSet<String>)> {
    let rows = page.lines().skip_while(|line| *line != HEAD).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert!(cells.len() == 3 && !cells[2].is_empty(), "{PAGE}: {row}");
        let modules = cells[1].split('`').skip(1).step_by(2).map(str::to_owned).collect();
        (cells[0].trim_matches('`').to_owned(), modules)
    })
    .collect()
}

fn named(circle: &BTreeSet<ModulePath>) -> BTreeSet<String> {
    circle.iter().map(|path| path.join("::")).collect()
}

/// One finding for each module of a circle, with the uses between them.
fn describe(circle: &BTreeSet<ModulePath>, edges: &Edges) -> Vec<String> {
    let names: Vec<String> = named(circle).into_iter().collect();
    let mut findings: Vec<String> =
        names.iter().map(|name| format!("in a circle: {name}")).collect();
    let inside =
        edges.iter().filter(|((from, to), _)| circle.contains(from) && circle.contains(to));
    for ((from, to), site) in inside {
        findings[0] += &format!("\n    {} -> {}: {site}", from.join("::"), to.join("::"));
    }
    findings
}

#[test]
fn modules_use_each_other_in_no_circle() {
    let intended = intended(&repository::read(PAGE));
    let mut used = BTreeSet::new();
    let mut findings = Findings::new();
    for (name, root) in modules::roots() {
        let edges = edges(&Crate::read(&root));
        for circle in circles(&edges) {
            let names = named(&circle);
            let row = intended.iter().position(|(of, all)| *of == name && names.is_subset(all));
            match row {
                Some(row) => drop(used.insert(row)),
                None => findings.entry(name.clone()).or_default().extend(describe(&circle, &edges)),
            }
        }
    }
    let stale: Vec<_> = intended.iter().enumerate().filter(|(n, _)| !used.contains(n)).collect();
    assert!(stale.is_empty(), "{PAGE} intends circles that do not exist: {stale:?}");
    findings::check(&[("circles", &findings)]);
}

#[test]
fn every_module_is_read() {
    for (name, root) in modules::roots() {
        let all = Crate::read(&root);
        let edges = all.uses().len();
        assert!(all.names().count() > 2 && edges > 2, "{name}: {edges} uses");
    }
}

#[test]
fn circles_are_found_and_trees_are_not() {
    let found = |texts: &[(&str, &str)]| {
        let all = modules::from_texts(texts);
        let edges = edges(&all);
        circles(&edges)
            .iter()
            .map(|each| named(each).into_iter().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    let flat = [("", ""), ("a", "use crate::b::B; struct A;"), ("b", "struct B;"), ("c", "")];
    assert!(found(&flat).is_empty());
    let [root, a, _, c] = flat;
    // Through a path in code, a macro, or a re-export.
    for b in [
        "fn f() -> crate::a::A { todo!() }",
        "fn f() { assert_eq!(1, crate::a::ONE) }",
        "use super::{a::{A, self}};",
        "mod inner { use super::super::a; }",
    ] {
        assert_eq!(found(&[root, a, ("b", b), c]), ["a b"], "{b}");
    }
    let re_exported = [("", "pub use a::A;"), a, ("b", "use crate::A;")];
    assert_eq!(found(&re_exported), ["a b"]);
    // Tests may use everything, and so may a module and its submodules.
    assert!(found(&[root, a, ("b", "#[cfg(test)] mod tests { use crate::a::A; }")]).is_empty());
    assert!(found(&[root, ("a", "use self::x::X;"), ("a::x", "use super::A;")]).is_empty());
    assert_eq!(
        found(&[root, ("a", ""), ("a::x", "use super::y::Y;"), ("a::y", "use super::x;")]),
        ["a::x a::y"]
    );
}

#[test]
fn the_table_of_intended_circles_is_read() {
    let page = format!("text\n\n{HEAD}\n| --- | --- | --- |\n| `x` | `a`, `b::c` | why |\n\nend\n");
    let modules = ["a", "b::c"].map(str::to_owned).into();
    assert_eq!(intended(&page), [("x".to_owned(), modules)]);
}
