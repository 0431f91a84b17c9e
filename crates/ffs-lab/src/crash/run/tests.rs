//! Whole runs.

use super::*;
use crate::crash::oracle::SoftUpdateOptions;
use crate::crash::shrink::shrink;
use crate::crash::tally::UNRUN;
use crate::crash::{geometry, text};
use crate::watch::Unwatched;
use ffs_admin::fsck::{Finding, Id};
use ffs_core::OrderingPolicy;

fn plan(ordering: OrderingPolicy, shapes: &[&str]) -> Plan {
    Plan {
        seed: 11,
        ordering,
        soft: SoftUpdateOptions::default(),
        shapes: shapes.iter().map(|name| geometry::find(name).unwrap()).collect(),
        length: 1,
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
        workload: None,
        max_states: 1500,
        effort: Effort { subsets: 20, sectors: 10, window: 200 },
        until_broken: false,
        rates: Rates { remount: 10, interrupt: 100, background: 50 },
        keeps_events: false,
        threads: 2,
    }
}

fn given(text: &str, ordering: OrderingPolicy) -> Plan {
    Plan {
        workload: Some(text::parse(text).unwrap()),
        max_states: 100_000,
        ..plan(ordering, &["ufs2-2m"])
    }
}

#[test]
fn the_same_seed_finds_the_same_with_any_number_of_threads() {
    let plan = plan(OrderingPolicy::Sync, &["ufs1-1m", "ufs2-2m"]);
    let one = run(&Plan { threads: 1, ..plan.clone() }, &mut Unwatched).unwrap();
    let two = run(&plan, &mut Unwatched).unwrap();
    assert_eq!(one, two);
    assert!(one.limited && one.rows.iter().all(|row| row.states > 100), "{:?}", one.rows);
    let other = run(&Plan { seed: 12, ..plan }, &mut Unwatched).unwrap();
    assert_ne!(one, other);
}

#[test]
fn the_weakness_of_ordered_synchronous_writes_is_found_shrunk_and_found_again() {
    let text = "standard-tree\nchmod /foo 600\ncreate /n\nappend /A/foo 9000\nfsync /A/foo\nmkdir \
                /m\nsync\n";
    let plan = given(text, OrderingPolicy::Sync);
    let tally = run(&plan, &mut Unwatched).unwrap();
    // Without ordering a pointer may be durable before its bitmap: that needs a full check.
    let broken = tally.rules.iter().find(|broken| broken.rule == "F3");
    let broken = broken.unwrap_or_else(|| panic!("{:#?}", tally.rules));
    let shrunk = shrink(&plan, broken.id, "F3", &mut Unwatched).unwrap().unwrap();
    assert!(shrunk.workload.ops.len() <= 2, "{}", text::print(&shrunk.workload));
    let small = Plan { workload: Some(shrunk.workload.clone()), ..plan };
    let again = only(&small, shrunk.id, 20).unwrap();
    assert!(again.rules.iter().any(|broken| broken.rule == "F3"), "{again:#?}");
    assert_eq!(again.rows[0].states, 1);
}

#[test]
fn a_workload_that_breaks_nothing_stays_silent() {
    let tally = run(&given("sync\n", OrderingPolicy::Sync), &mut Unwatched).unwrap();
    assert_eq!(tally.rules, []);
    assert!(tally.rows[0].states > 3 && !tally.limited);
    assert_eq!(tally.rows[0].workloads, 1);
}

/// The pointer of a block that hangs on an indirect block comes before the size, in a directory.
#[test]
fn a_directory_may_be_ahead_of_its_size_but_only_there() {
    use std::fmt::Write;
    // A name of 255 bytes fills a batch: thirteen blocks of eight, and one more.
    let names = |range: std::ops::Range<u32>| {
        range.fold(String::new(), |mut text, number| {
            let _ = writeln!(text, "link /foo /D/{number:-<255}");
            text
        })
    };
    let text =
        format!("create /foo\nmkdir /D\n{}begin\n{}fsync /D\n", names(0..104), names(104..105));
    let plan = Plan {
        rates: Rates { remount: 1, interrupt: 0, background: 0 },
        ..given(&text, OrderingPolicy::SoftUpdates)
    };
    let tally = run(&plan, &mut Unwatched).unwrap();
    assert_eq!(tally.rules, []);
    let ahead = |found: &Finding| found.id == Id::IndTrunc;
    let work = WorkloadId { shape: plan.shapes[0], source: Source::File };
    let ran =
        Volumes::new(&plan, &[work]).unwrap().run(&plan, work, &plan.find(work).unwrap()).unwrap();
    let mut buffers = ExaminerBuffers::default();
    let ChainLink { base, recording, .. } = &ran.links[0];
    let mut examiner = Examiner::new(base, recording, plan.setting(), plan.rates, &mut buffers);
    let mut seen = false;
    for window in &recording.windows {
        let window_states = WindowStates::new(window, examiner.overlay(), plan.seed);
        for (_, layout) in window_states.distinct(plan.effort) {
            seen |= examiner.preen(&window_states, &layout).findings.iter().any(ahead);
        }
        examiner.pass(window);
    }
    assert!(seen, "the pointer was never ahead");
}

struct Stops(u64);

impl Watch for Stops {
    fn done(&mut self, n: u64) -> bool {
        self.0 += n;
        self.0 < 300
    }
}

#[test]
fn who_stops_a_run_has_what_was_examined_before() {
    let plan = plan(OrderingPolicy::SoftUpdates, &["ufs2-2m"]);
    let whole = run(&plan, &mut Unwatched).unwrap();
    let part = run(&plan, &mut Stops(0)).unwrap();
    assert!(part.interrupted && !part.limited && !whole.interrupted);
    assert!(part.rows[0].states < whole.rows[0].states, "{:?}", part.rows);
}

#[test]
fn a_workload_that_cannot_be_run_is_reported_and_the_others_are_examined() {
    let plan = plan(OrderingPolicy::SoftUpdates, &["ufs2-2m"]);
    let shape = plan.shapes[0];
    let workloads = [0, 1].map(|n| WorkloadId { shape, source: Source::Pattern(n) });
    let (sender, receiver) = channel();
    let window = WindowTally { states: 7, contents: (0..7).collect(), ..WindowTally::default() };
    sender.send(Message::Examined { number: 1, batch: 0, windows: vec![window] }).unwrap();
    sender.send(Message::Ran { number: 1, batches: 1, failed: Vec::new() }).unwrap();
    let error = LabError::Plan("it stays mounted".to_owned());
    sender.send(Message::Failed { number: 0, error }).unwrap();
    drop(sender);
    let mut builder = TallyBuilder::new([shape.name].into_iter(), 2);
    collect(&plan, &workloads, &receiver, &mut builder, &mut Unwatched).unwrap();
    let tally = builder.tally;
    assert_eq!((tally.rows[0].workloads, tally.rows[0].distinct), (2, 7));
    assert_eq!(tally.rules.len(), 1);
    assert_eq!((tally.rules[0].rule.as_str(), &*tally.rules[0].first), (UNRUN, "ufs2-2m/g0:0:p0"));
    assert!(tally.rules[0].what.contains("it stays mounted"));
}

#[test]
fn names_of_states_are_checked() {
    let plan = plan(OrderingPolicy::Sync, &["ufs2-2m"]);
    let state = |text: &str| text.parse::<StateId>().and_then(|id| only(&plan, id, 20));
    assert!(state("ufs2-2m/1.0:0:p1").is_ok());
    for wrong in
        ["", "ufs2-2m", "ufs2-2m/1.0", "ufs2-2m/1.0:0", "ufs2-2m/1.0:x:p1", "ufs2-2m/1.0:0:z"]
    {
        let why = state(wrong).unwrap_err().to_string();
        assert!(why.contains("names no state"), "{wrong}: {why}");
    }
    for missing in
        ["ufs2-2m/1.99999:0:p0", "ufs2-2m/1.0:999:p0", "ufs2-2m/1.0:0:p99", "ufs2-2m/file:0:p0"]
    {
        let why = state(missing).unwrap_err().to_string();
        assert!(why.contains("there is no"), "{missing}: {why}");
    }
    let why = state("ufs2-2n/1.0:0:p0").unwrap_err().to_string();
    assert!(why.contains("did you mean"), "{why}");
    let id: StateId = "ufs1-1m/3.7:12:t1.2a".parse().unwrap();
    assert_eq!(id.to_string(), "ufs1-1m/3.7:12:t1.2a");
}

#[test]
fn the_report_of_a_state_has_the_ordering_events_before_the_crash() {
    let text = "create /n\nmkdir /m\nfsync /n\nunlink /n\nsync\n";
    let plan = given(text, OrderingPolicy::SoftUpdates);
    // The first windows are those of the mount.
    let (id, all) = (0..20)
        .find_map(|window| {
            let id: StateId = format!("ufs2-2m/file:{window}:p1").parse().unwrap();
            let all = ordering_events(&plan, id, usize::MAX).ok()?;
            all.iter().any(|line| line.contains("write issued")).then_some((id, all))
        })
        .expect("a write of the workload");
    let has = |what: &str| all.iter().any(|line| line.contains(what));
    assert!(has("EntryAdded") && has("name: \"n\""), "{all:#?}");
    assert!(!has("EntryRemoved"), "the crash comes before the removal: {all:#?}");
    let last = ordering_events(&plan, id, 3).unwrap();
    assert!(last[0].contains(&format!("{} before them", all.len() - 4)), "{last:#?}");
    assert_eq!(last[1..], all[all.len() - 3..]);
    // The report of the state has the same lines.
    let explained = only(&plan, id, 3).unwrap().explained;
    assert!(explained.windows(last.len()).any(|lines| lines == last), "{explained:#?}");
    let unordered = Plan { ordering: OrderingPolicy::Sync, ..plan };
    assert_eq!(ordering_events(&unordered, id, 3).unwrap(), Vec::<String>::new());
}

#[test]
fn states_of_a_journal_are_recovered_by_it() {
    let text = "standard-tree\njournal 4096\ncreate /n\nappend /n 9000\nrename /n /foo\n\
                fsync /foo\nappend /A/foo 450000\nfsync /A/foo\nunlink /A/foo\nwait 31\n";
    let tally = run(&given(text, OrderingPolicy::Journaled), &mut Unwatched).unwrap();
    assert_eq!(tally.rules, []);
    let row = &tally.rows[0];
    assert!(row.by_journal > 100, "{row:?}");
    assert!(row.refused.contains_key("the journal was given up"), "{row:?}");
    // Without the flag there is no journal.
    let unflagged = format!("unflagged\n{text}");
    let tally = run(&given(&unflagged, OrderingPolicy::Journaled), &mut Unwatched).unwrap();
    assert_eq!((tally.rules, tally.rows[0].by_journal), (Vec::new(), 0));
}
