//! A rule of soft updates that is switched off is found, and the report shows the events before the
//! crash. In a process of its own: a rule is switched off for the whole process.
#![cfg(feature = "mutants")]
#![allow(clippy::unwrap_used, reason = "a test")]

use ffs_core::{OrderingPolicy, Rule, break_rule};
use ffs_lab::Unwatched;
use ffs_lab::crash::examine::Rates;
use ffs_lab::crash::oracle::SoftUpdateOptions;
use ffs_lab::crash::run::{Plan, ordering_events, run};
use ffs_lab::crash::states::Effort;
use ffs_lab::crash::{geometry, text};

fn plan(workload: &str) -> Plan {
    Plan {
        seed: 11,
        ordering: OrderingPolicy::SoftUpdates,
        soft: SoftUpdateOptions::default(),
        shapes: vec![geometry::find("ufs2-2m").unwrap()],
        length: 0,
        traces: 0,
        directories: 0,
        journals: 0,
        edges: 0,
        chains: 0,
        offline: 0,
        snapshots: 0,
        background: 0,
        commands: false,
        writers: 0,
        workload: Some(text::parse(workload).unwrap()),
        max_states: 100_000,
        effort: Effort { subsets: 20, sectors: 10, window: 200 },
        until_broken: false,
        rates: Rates { remount: 10, interrupt: 100, background: 0 },
        keeps_events: false,
        threads: 2,
    }
}

#[test]
fn the_report_of_a_broken_rule_has_the_events_before_the_crash() {
    let plan = plan("create /n\nsync\n");
    assert_eq!(run(&plan, &mut Unwatched).unwrap().rules, []);
    break_rule(Some(Rule::InodeBeforeName));
    let tally = run(&plan, &mut Unwatched).unwrap();
    let broken = tally.rules.first().unwrap();
    let events = ordering_events(&plan, broken.id, 20).unwrap();
    break_rule(None);
    let position = |what: &str| events.iter().position(|line| line.contains(what));
    let (entered, written) = (position("EntryAdded"), position("kind=Directory"));
    assert!(entered.is_some() && entered < written, "{events:#?}");
}
