//! Paths in the graph: before an edge is added that could close a cycle, and for the audit.

use super::super::invariant::broken;
use super::{Dep, DepId, Graph};
use std::collections::{BTreeMap, BTreeSet};

impl Graph {
    fn has_dependents(&self, id: DepId) -> bool {
        self.get(id).is_some_and(|dep| !dep.dependents.is_empty())
    }

    /// Whether `found` holds for `from` or for a dependency that it requires, directly or not.
    fn any_required(&self, from: DepId, found: impl Fn(DepId) -> bool) -> bool {
        let (mut stack, mut visited) = (vec![from], BTreeSet::new());
        while let Some(id) = stack.pop() {
            self.count_steps(1);
            if found(id) {
                return true;
            }
            if visited.insert(id) {
                let required = self.get(id).map(Dep::requirements);
                stack.extend(required.into_iter().flatten().filter_map(|r| r.dep()));
            }
        }
        false
    }

    /// Whether `from` requires `to`, directly or not.
    pub(in super::super) fn depends_on(&self, from: DepId, to: DepId) -> bool {
        // Mostly `to` is new, and nothing requires it.
        from == to || self.has_dependents(to) && self.any_required(from, |id| id == to)
    }

    /// Whether the dependents of `id` for which `which` holds can require `on` instead without a
    /// cycle.
    pub(in super::super) fn can_pass(
        &self,
        id: DepId,
        on: DepId,
        which: impl Fn(&Graph, DepId) -> bool,
    ) -> bool {
        let Some(dep) = self.get(id) else {
            broken("the dependents of a dependency that ended are to be passed on");
            return true;
        };
        let is_passed = |id: DepId| dep.dependents.contains(&id) && which(self, id);
        if is_passed(on) {
            return false;
        }
        let have_dependents = dep.dependents().any(|id| which(self, id) && self.has_dependents(id));
        !have_dependents || !self.any_required(on, is_passed)
    }

    /// Checks the invariants of the graph.
    ///
    /// # Errors
    /// The first one that does not hold, in words.
    pub(in super::super) fn audit(&self) -> Result<(), String> {
        let mut edges = 0;
        for (id, dep) in self.iter() {
            edges += dep.requirements.len() as u64;
            for on in dep.requirements().filter_map(|r| r.dep()) {
                if !self.get(on).is_some_and(|on| on.dependents.contains(&id)) {
                    return Err(format!("{id:?} {:?} requires {on:?} unlisted", dep.kind));
                }
            }
            for dependent in dep.dependents() {
                let requirements = self.get(dependent).map(|dep| dep.requirements_for(id));
                if requirements.is_none_or(|requirements| requirements.is_empty()) {
                    return Err(format!("{dependent:?} does not require {id:?} {:?}", dep.kind));
                }
            }
            if dep.kind.is_work() && dep.is_satisfied() && !self.is_queued(id) {
                return Err(format!("{id:?} {:?} requires nothing and is not done", dep.kind));
            }
        }
        if edges != self.edges {
            return Err(format!("{edges} requirements, counted {}", self.edges));
        }
        self.audit_cycles()
    }

    /// The dependencies have an order in which each follows the ones that it requires.
    fn audit_cycles(&self) -> Result<(), String> {
        let required = |dep: &Dep| dep.requirements().filter_map(|r| r.dep()).count();
        let mut open: BTreeMap<DepId, usize> =
            self.iter().map(|(id, dep)| (id, required(dep))).collect();
        let mut free: Vec<DepId> =
            open.iter().filter(|(_, n)| **n == 0).map(|(id, _)| *id).collect();
        while let Some(id) = free.pop() {
            open.remove(&id);
            for dependent in self.dependents(id) {
                let by = self.get(dependent).map_or(0, |dep| dep.requirements_for(id).len());
                if let Some(left) = open.get_mut(&dependent) {
                    *left = left.saturating_sub(by);
                    if *left == 0 {
                        free.push(dependent);
                    }
                }
            }
        }
        match open.keys().next() {
            Some(id) => {
                let cycle = self.cycle_in(&open, *id);
                Err(format!("{} dependencies are in or after a cycle: {cycle}", open.len()))
            }
            None => Ok(()),
        }
    }

    /// The members of a cycle, each of which requires the next one. Each member of `open` requires
    /// another one.
    fn cycle_in(&self, open: &BTreeMap<DepId, usize>, start: DepId) -> String {
        let (mut path, mut at) = (Vec::new(), start);
        while !path.contains(&at) {
            path.push(at);
            let required = self.get(at).map(Dep::requirements).into_iter().flatten();
            let next = required.filter_map(|r| r.dep()).find(|on| open.contains_key(on));
            let Some(next) = next else { break };
            at = next;
        }
        let members = path.iter().skip_while(|id| **id != at);
        let shown = members.map(|id| format!("{id:?} {:?}", self.get(*id)));
        shown.collect::<Vec<_>>().join(" requires ")
    }
}
