//! The findings, added up. The sums do not depend on which worker examined which part.

use std::collections::{BTreeMap, HashSet};

use foldhash::fast::FixedState;
use serde::Serialize;

use super::examine::Verdict;
use super::generate::Source;
use super::history::{Allowed, Violation};
use super::id::{StateId, WorkloadId};
use super::states::Choice;
use super::suj::Recovery;

/// The findings in one window.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WindowTally {
    /// The window, counted from 0.
    pub window: u32,
    /// States examined.
    pub states: u64,
    /// The hashes of their contents, comparable over all states of the volume.
    pub contents: Vec<u64>,
    /// In how many states each of A1 to A16 was seen.
    pub seen: [u64; Allowed::LAST as usize],
    /// States mounted without repair (C5).
    pub remounted: u64,
    /// Crashes inside fsck (C6).
    pub interrupted: u64,
    /// States recovered by the journal.
    pub by_journal: u64,
    /// States on which the journal could not be used, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// States with violations.
    pub broken: u64,
    /// For each rule: the states that break it, the first one, and how.
    pub rules: BTreeMap<String, (u64, Choice, String)>,
}

impl WindowTally {
    /// Adds the verdict on a state whose content has the hash `content`.
    pub(crate) fn add(&mut self, choice: Choice, content: u64, verdict: Verdict) {
        self.states += 1;
        self.contents.push(content);
        for number in verdict.seen.iter() {
            self.seen[usize::from(number) - 1] += 1;
        }
        self.remounted += u64::from(verdict.remounted);
        self.interrupted += verdict.interrupted;
        match verdict.recovery {
            Recovery::NoJournal | Recovery::Clean => {}
            Recovery::Journal => self.by_journal += 1,
            Recovery::Full(why) => *self.refused.entry(why).or_default() += 1,
        }
        self.broken += u64::from(!verdict.violations.is_empty());
        self.add_rules(choice, &verdict.violations);
    }

    /// Adds violations of the order of the journal's writes, of which `choice` has all.
    pub(crate) fn add_order(&mut self, choice: Choice, violations: &[Violation]) {
        self.broken += u64::from(!violations.is_empty());
        self.add_rules(choice, violations);
    }

    fn add_rules(&mut self, choice: Choice, violations: &[Violation]) {
        let mut counted: Vec<&str> = Vec::new();
        for violation in violations {
            if counted.contains(&violation.rule.as_str()) {
                continue;
            }
            counted.push(&violation.rule);
            let first = || (0, choice, violation.what.clone());
            self.rules.entry(violation.rule.clone()).or_insert_with(first).0 += 1;
        }
    }
}

/// A line of the table: one kind of volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its name.
    pub geometry: &'static str,
    /// Workloads run.
    pub workloads: u64,
    /// Operations that failed, as some must (no such file, no space).
    pub failed_operations: u64,
    /// Windows examined.
    pub windows: u64,
    /// States examined.
    pub states: u64,
    /// Different images among them.
    pub distinct: u64,
    /// States mounted without repair.
    pub remounted: u64,
    /// Crashes inside fsck.
    pub interrupted: u64,
    /// In how many states each of A1 to A16 was seen.
    pub seen: [u64; Allowed::LAST as usize],
    /// States recovered by the journal.
    #[serde(skip_serializing_if = "is_zero")]
    pub by_journal: u64,
    /// States on which the journal could not be used, by reason: a full check followed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<&'static str, u64>,
    /// States with violations.
    pub broken: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// A rule that was broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// The rule.
    pub rule: String,
    /// States that break it, by kind of volume.
    pub states: BTreeMap<&'static str, u64>,
    /// The first one.
    pub first: String,
    /// How the first one breaks it.
    pub what: String,
    /// The first one, for shrinking.
    #[serde(skip)]
    pub id: StateId,
}

/// All findings.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize)]
pub struct Tally {
    /// By kind of volume, in the order of the plan.
    pub rows: Vec<Row>,
    /// By rule, in the order of the alphabet.
    pub rules: Vec<Broken>,
    /// Operations of a given workload that failed: number, counted from 0, and reason.
    pub failed: Vec<(usize, String)>,
    /// The description of the state, if it was examined alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub explained: Vec<String>,
    /// Workloads planned.
    pub planned: u64,
    /// Whether the run ended at the limit of states.
    pub limited: bool,
    /// Whether the run was interrupted; the tally covers the part before.
    pub interrupted: bool,
}

/// The rule that a workload breaks if it cannot be run to its end: if the volume cannot be mounted
/// or unmounted.
pub const UNRUN: &str = "RUN";

/// Adds windows up.
#[derive(Debug, Default)]
pub(super) struct TallyBuilder {
    pub(super) tally: Tally,
    known: BTreeMap<&'static str, HashSet<u64, FixedState>>,
}

impl TallyBuilder {
    pub(super) fn new(
        geometries: impl Iterator<Item = &'static str>,
        planned: u64,
    ) -> TallyBuilder {
        let row = |geometry| Row {
            geometry,
            workloads: 0,
            failed_operations: 0,
            windows: 0,
            states: 0,
            distinct: 0,
            remounted: 0,
            interrupted: 0,
            seen: Default::default(),
            by_journal: 0,
            refused: BTreeMap::new(),
            broken: 0,
        };
        let tally = Tally { rows: geometries.map(row).collect(), planned, ..Tally::default() };
        TallyBuilder { tally, known: BTreeMap::new() }
    }

    fn row(&mut self, geometry: &'static str) -> Option<&mut Row> {
        self.tally.rows.iter_mut().find(|row| row.geometry == geometry)
    }

    /// Different images so far.
    pub(super) fn distinct(&self) -> u64 {
        self.tally.rows.iter().map(|row| row.distinct).sum()
    }

    pub(super) fn workload(&mut self, work: WorkloadId, failed: Vec<(usize, String)>) {
        if let Some(row) = self.row(work.shape.name) {
            row.workloads += 1;
            row.failed_operations += failed.len() as u64;
        }
        if work.source == Source::File && self.tally.failed.is_empty() {
            self.tally.failed = failed;
        }
    }

    pub(super) fn window(&mut self, id: StateId, window: WindowTally) {
        let geometry = id.work.shape.name;
        let known = self.known.entry(geometry).or_default();
        let distinct = window.contents.iter().filter(|content| known.insert(**content)).count();
        if let Some(row) = self.row(geometry) {
            row.windows += 1;
            row.states += window.states;
            row.distinct += distinct as u64;
            row.remounted += window.remounted;
            row.interrupted += window.interrupted;
            row.broken += window.broken;
            row.by_journal += window.by_journal;
            for (why, states) in window.refused {
                *row.refused.entry(why).or_default() += states;
            }
            row.seen.iter_mut().zip(window.seen).for_each(|(all, some)| *all += some);
        }
        for (rule, (states, choice, what)) in window.rules {
            self.broken(StateId { window: window.window, choice, ..id }, rule, what, states);
        }
    }

    /// The workload could not be run.
    pub(super) fn unrun(&mut self, work: WorkloadId, why: String) {
        if let Some(row) = self.row(work.shape.name) {
            row.workloads += 1;
            row.broken += 1;
        }
        let id = StateId { work, window: 0, choice: Choice::Prefix(0) };
        self.broken(id, UNRUN.to_owned(), why, 1);
    }

    fn broken(&mut self, id: StateId, rule: String, what: String, states: u64) {
        let at = self.tally.rules.binary_search_by(|broken| broken.rule.cmp(&rule));
        let at = at.unwrap_or_else(|at| {
            let (first, states) = (id.to_string(), BTreeMap::new());
            self.tally.rules.insert(at, Broken { rule, states, first, what, id });
            at
        });
        if let Some(broken) = self.tally.rules.get_mut(at) {
            *broken.states.entry(id.work.shape.name).or_default() += states;
        }
    }
}
