//! The graph against a model that has only a list of edges, and its invariants after every step.

use super::super::dep::{DepId, DepKind, Holds, Level};
use super::Graph;
use ffs_device::{Rng, SplitMix64};
use std::collections::BTreeSet;

fn barrier(graph: &mut Graph) -> DepId {
    graph.insert(DepKind::NameBarrier)
}

#[test]
fn completion_satisfies_dependents_once() {
    let mut graph = Graph::new();
    let (a, b, c) = (barrier(&mut graph), barrier(&mut graph), barrier(&mut graph));
    graph.require(c, a, Level::Durable, Holds::Write);
    graph.require(c, b, Level::Reachable, Holds::Write);
    assert_eq!((graph.edges(), graph.is_ready(c)), (2, false));
    graph.complete(a);
    assert_eq!(graph.next_satisfied(), None);
    graph.complete(b);
    assert_eq!((graph.next_satisfied(), graph.next_satisfied()), (Some(c), None));
    assert_eq!((graph.edges(), graph.is_ready(c)), (0, true));
    graph.audit().unwrap();
}

#[test]
fn announcement_meets_only_its_level() {
    let mut graph = Graph::new();
    let (name, durable, reachable) =
        (barrier(&mut graph), barrier(&mut graph), barrier(&mut graph));
    graph.require(durable, name, Level::Durable, Holds::Write);
    graph.require(reachable, name, Level::Reachable, Holds::Write);
    graph.announce(name, Level::Durable);
    assert_eq!(graph.next_satisfied(), Some(durable));
    assert!(!graph.is_satisfied(reachable));
    graph.audit().unwrap();
    graph.complete(name);
    assert_eq!(graph.next_satisfied(), Some(reachable));
}

#[test]
fn a_requirement_for_writes_replaces_a_weaker_one() {
    let mut graph = Graph::new();
    let (a, b) = (barrier(&mut graph), barrier(&mut graph));
    graph.require(a, b, Level::Reachable, Holds::Reachable);
    assert!(graph.is_ready(a) && !graph.is_satisfied(a));
    graph.require(a, b, Level::Reachable, Holds::Write);
    assert!(!graph.is_ready(a));
    graph.require(a, b, Level::Reachable, Holds::Reachable);
    assert!(!graph.is_ready(a), "a weaker requirement must not replace a stronger one");
    assert_eq!(graph.edges(), 1);
}

#[test]
fn a_durable_dependency_meets_requirements_at_once() {
    let mut graph = Graph::new();
    let (a, b) = (barrier(&mut graph), barrier(&mut graph));
    graph.mark_durable(b);
    graph.require(a, b, Level::Durable, Holds::Write);
    assert!(graph.is_satisfied(a));
    graph.require(a, b, Level::Reachable, Holds::Write);
    assert!(!graph.is_satisfied(a));
}

#[test]
fn the_audit_finds_a_cycle() {
    let mut graph = Graph::new();
    let (a, b) = (barrier(&mut graph), barrier(&mut graph));
    graph.require(a, b, Level::Durable, Holds::Write);
    graph.audit().unwrap();
    assert!(graph.depends_on(a, b) && !graph.depends_on(b, a));
    graph.require(b, a, Level::Durable, Holds::Write);
    assert!(graph.audit().unwrap_err().contains("cycle"));
}

/// Random edges and ends; dependents are passed on wherever that closes no cycle.
#[test]
fn behaves_like_a_list_of_edges() {
    for seed in 0..40 {
        let rng = SplitMix64::new(seed);
        let (mut graph, mut alive) = (Graph::new(), Vec::new());
        let mut edges: BTreeSet<(DepId, DepId)> = BTreeSet::new();
        for step in 0..400 {
            let pick = |n: usize| rng.below(n as u64) as usize;
            if alive.len() < 3 || rng.below(3) == 0 {
                alive.push(barrier(&mut graph));
            }
            let (a, b) = (alive[pick(alive.len())], alive[pick(alive.len())]);
            match rng.below(4) {
                0 | 1 if a != b && !graph.depends_on(b, a) => {
                    graph.require(a, b, Level::Durable, Holds::Write);
                    edges.insert((a, b));
                }
                2 => {
                    graph.complete(a);
                    edges.retain(|(from, to)| *from != a && *to != a);
                    alive.retain(|id| *id != a);
                }
                3 if a != b && graph.can_pass(a, b, |_, _| true) => {
                    graph.pass(a, Some(b));
                    graph.cancel(a);
                    let passed = edges.iter().filter(|(from, to)| *to == a && *from != b);
                    let passed: Vec<_> = passed.map(|(from, _)| (*from, b)).collect();
                    edges.retain(|(from, to)| *from != a && *to != a);
                    edges.extend(passed);
                    alive.retain(|id| *id != a);
                }
                _ => {}
            }
            while let Some(id) = graph.next_satisfied() {
                assert!(edges.iter().all(|(from, _)| *from != id), "seed {seed} step {step}");
            }
            assert_eq!(graph.edges(), edges.len() as u64, "seed {seed} step {step}");
            assert!(edges.iter().all(|(from, to)| graph.depends_on(*from, *to)));
            graph.audit().unwrap_or_else(|found| panic!("seed {seed} step {step}: {found}"));
        }
    }
}
