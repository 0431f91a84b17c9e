//! Edges of the graph: requirements are recorded, met, passed on and removed.
//!
//! Each function keeps invariants 1 and 2 of [`super`]: it changes the requirements of a dependency
//! and the dependents of the other side together. Waiters in the tables of blocks and inodes are
//! the caller's side.

use super::super::dep::{Condition, DepId, Holds, Level, Requirement, WriteState};
use super::super::heap::release;
use super::super::invariant::broken;
use super::{Dep, Graph};
use std::mem;

impl Graph {
    /// Records a condition on a block or an inode, whose table lists `id`; or on another
    /// dependency, of which `id` is a dependent. A requirement that holds writes back replaces a
    /// weaker one.
    pub(in super::super) fn record(&mut self, id: DepId, condition: Condition, holds: Holds) {
        let Some(dep) = self.deps.get_mut(id) else {
            return broken("a dependency that ended gets a requirement");
        };
        match dep.requirements.replace(Requirement::new(condition, holds)) {
            None => {
                self.edges += 1;
                self.count_steps(1);
            }
            Some(before) if holds == Holds::Reachable && before.holds_write() => {
                dep.requirements.replace(before);
            }
            Some(_) => {}
        }
    }

    /// `id` requires `on` to come as far as `level`. Does nothing if `on` came so far, or if `id`
    /// ended.
    pub(in super::super) fn require(&mut self, id: DepId, on: DepId, level: Level, holds: Holds) {
        if on == id || !self.contains(id) {
            return;
        }
        // `on` ended: it was durable and reachable, or no write will contain it.
        let Some(dep) = self.deps.get_mut(on) else { return };
        if level == Level::Durable && dep.state == WriteState::Durable {
            return;
        }
        dep.dependents.replace(id);
        self.record(id, Condition::Dep(on, level), holds);
    }

    /// The condition is met for `id`, which the caller has removed from the dependents or waiters.
    pub(in super::super) fn satisfy(&mut self, id: DepId, condition: Condition) {
        let Some(dep) = self.deps.get_mut(id) else {
            return broken("a condition is met for a dependency that ended");
        };
        if dep.requirements.remove(&Requirement::new(condition, Holds::Write)).is_some() {
            self.edges -= 1;
            if dep.requirements.is_empty() {
                self.satisfied.push(id);
            }
        }
    }

    /// The next dependency whose last requirement was met since the last call, if it still requires
    /// nothing.
    pub(in super::super) fn next_satisfied(&mut self) -> Option<DepId> {
        while let Some(id) = self.satisfied.pop() {
            if self.is_satisfied(id) {
                return Some(id);
            }
        }
        release(&mut self.satisfied);
        None
    }

    /// Whether `id` is waiting to be handed out by [`Graph::next_satisfied`].
    pub(in super::super) fn is_queued(&self, id: DepId) -> bool {
        self.satisfied.contains(&id)
    }

    /// Removes a dependency that has come as far as anything can require. The caller removes it
    /// from the waiters of the blocks and inodes that it still requires.
    pub(in super::super) fn complete(&mut self, id: DepId) -> Option<Dep> {
        let mut dep = self.deps.remove(id)?;
        for dependent in mem::take(&mut dep.dependents) {
            self.satisfy(dependent, Condition::Dep(id, Level::Durable));
            self.satisfy(dependent, Condition::Dep(id, Level::Reachable));
        }
        self.unlink(id, &dep);
        Some(dep)
    }

    /// Removes a dependency that no write will contain, and whose dependents were passed on. The
    /// caller removes it from waiters as after [`Graph::complete`].
    pub(in super::super) fn cancel(&mut self, id: DepId) -> Option<Dep> {
        let dep = self.deps.remove(id)?;
        debug_assert!(dep.dependents.is_empty(), "{:?} has dependents left", dep.kind);
        self.unlink(id, &dep);
        Some(dep)
    }

    /// Removes `id`, which ended, from the dependents of others.
    fn unlink(&mut self, id: DepId, dep: &Dep) {
        self.edges -= dep.requirements.len() as u64;
        for requirement in dep.requirements.iter() {
            if let Some(on) = requirement.dep().and_then(|on| self.deps.get_mut(on)) {
                on.dependents.remove(&id);
            }
        }
    }

    /// Meets the conditions of dependents that wait for `id` to come as far as `level`.
    pub(in super::super) fn announce(&mut self, id: DepId, level: Level) {
        let Some(dep) = self.deps.get_mut(id) else {
            return broken("a dependency that ended is announced");
        };
        let mut dependents = mem::take(&mut dep.dependents);
        dependents.retain(|&dependent| {
            self.satisfy(dependent, Condition::Dep(id, level));
            self.get(dependent).is_some_and(|dep| !dep.requirements_for(id).is_empty())
        });
        if let Some(dep) = self.deps.get_mut(id) {
            dep.dependents = dependents;
        }
    }

    /// The dependents of `id` require `on` instead, or nothing.
    pub(in super::super) fn pass(&mut self, id: DepId, on: Option<DepId>) {
        self.pass_where(id, on, |_, _| true);
    }

    /// As [`Graph::pass`], for the dependents for which `which` holds.
    pub(in super::super) fn pass_where(
        &mut self,
        id: DepId,
        on: Option<DepId>,
        which: impl Fn(&Graph, DepId) -> bool,
    ) {
        let Some(dep) = self.deps.get_mut(id) else {
            return broken("the dependents of a dependency that ended are passed on");
        };
        let all = mem::take(&mut dep.dependents);
        let (passed, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(|&dep| which(self, dep));
        if let Some(dep) = self.deps.get_mut(id) {
            kept.into_iter().for_each(|dependent| _ = dep.dependents.replace(dependent));
        }
        for dependent in passed {
            self.pass_one(id, on, dependent);
        }
    }

    /// `dependent`, which was removed from the dependents of `id`, requires `on` instead, or
    /// nothing.
    fn pass_one(&mut self, id: DepId, on: Option<DepId>, dependent: DepId) {
        let Some(dep) = self.get(dependent) else {
            return broken("a dependent ended and is still listed");
        };
        let requirements = dep.requirements_for(id);
        self.count_steps(1);
        for requirement in requirements {
            if let (Some(on), Requirement::Dep(_, level, holds)) = (on, requirement) {
                self.require(dependent, on, level, holds);
            }
            self.satisfy(dependent, requirement.condition());
        }
    }

    /// Removes the requirement of `id` for `on`. `id` is not handed out as satisfied because of it.
    pub(in super::super) fn detach(&mut self, id: DepId, on: DepId) {
        if let Some(dep) = self.deps.get_mut(id) {
            let requirements = dep.requirements_for(on);
            self.edges -= requirements.len() as u64;
            requirements.iter().for_each(|requirement| _ = dep.requirements.remove(requirement));
        }
        if let Some(dep) = self.deps.get_mut(on) {
            dep.dependents.remove(&id);
        }
    }
}
