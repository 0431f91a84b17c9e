//! Reduces a workload that shows a violation.
//!
//! Operations are left out, first many at a time, then fewer, as long as some state of the rest
//! breaks the same rule. No single operation of the result can be left out.

use super::geometry::Shape;
use super::op::{Op, Workload};
use super::run::{Plan, StateId, first_to_break};
use crate::error::{LabError, Result};
use crate::watch::Watch;

/// Most states that one attempt examines.
const MOST_STATES: u64 = 60_000;
/// Most states of one window.
const MOST_OF_WINDOW: u32 = 100;

/// The result of shrinking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shrunk {
    /// The reduced workload.
    pub workload: Workload,
    /// A state of the workload that breaks the rule.
    pub id: StateId,
    /// Workloads tried.
    pub tried: u32,
}

struct Search<'a> {
    plan: Plan,
    shape: &'static Shape,
    rule: &'a str,
    best: Option<StateId>,
    tried: u32,
}

impl Search<'_> {
    /// Whether `workload` still breaks the rule.
    fn breaks(&mut self, workload: &Workload) -> Result<bool> {
        self.tried += 1;
        self.plan.workload = Some(workload.clone());
        match first_to_break(&self.plan, self.shape, self.rule, MOST_STATES) {
            Ok(found) => {
                self.best = found.or(self.best);
                Ok(found.is_some())
            }
            // A workload that cannot be run does not show the violation.
            Err(LabError::Failed { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Shrinks the workload of `id`, a state that breaks `rule`. Returns `None` if no state within the
/// limit breaks it.
///
/// # Errors
/// [`LabError::Interrupted`], and those of finding and running the workload.
pub fn shrink(
    plan: &Plan,
    id: StateId,
    rule: &str,
    watch: &mut dyn Watch,
) -> Result<Option<Shrunk>> {
    let mut workload = plan.find(id.work)?;
    let mut plan = plan.clone();
    plan.effort.window = plan.effort.window.min(MOST_OF_WINDOW);
    let mut search = Search { plan, shape: id.work.shape, rule, best: None, tried: 0 };
    if !search.breaks(&workload)? {
        return Ok(None);
    }
    let mut size = workload.ops.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        let mut smaller = false;
        while at < workload.ops.len() {
            if !watch.done(0) {
                return Err(LabError::Interrupted);
            }
            let end = (at + size).min(workload.ops.len());
            let kept = |range: std::ops::Range<usize>| workload.ops[range].iter().cloned();
            let ops: Vec<Op> = kept(0..at).chain(kept(end..workload.ops.len())).collect();
            let attempt = Workload { ops, ..workload.clone() };
            let best = search.best;
            if search.breaks(&attempt)? {
                workload = attempt;
                smaller = true;
            } else {
                search.best = best;
                at = end;
            }
        }
        size = if smaller && size == 1 { 1 } else { size / 2 };
    }
    Ok(search.best.map(|id| Shrunk { workload, id, tried: search.tried }))
}
