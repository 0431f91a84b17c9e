//! The names that a removal waits for.
//!
//! # Invariants
//! 1. If the last durable name of a file is removed while the file has newer names, one of these is
//!    reachable first ([`Rule::LastDurableName`]). The old name of a rename always waits for the
//!    new one.
//! 2. A removal waits for the older names that renames and links gave.
//! 3. A requirement that would close a cycle is left out: then the name that would wait is itself
//!    required by the one that it would wait for.
//!
//! Reference: `docs/spec/soft-updates.md` §6.3, §6.5, §6.7, §6.8.

use super::dep::{DepId, DepKind, Holds, Level, Requirement};
use super::engine::{Softdep, content_of};
use super::graph::{DepIds, Graph};
use crate::ordering::rules::{Rule, holds};
use crate::ordering::{EntryTarget, RemovedName};
use ffs_ondisk::Ino;

/// Whether it is a barrier of removals or a sync point.
pub(super) fn is_point(graph: &Graph, id: DepId) -> bool {
    matches!(graph.kind(id), Some(DepKind::PublishedNames | DepKind::SyncPoint))
}

pub(super) fn is_removal_barrier(graph: &Graph, id: DepId) -> bool {
    matches!(graph.kind(id), Some(DepKind::PublishedNames))
}

impl Softdep {
    /// The inode and type that the value `id` of an entry has; `None` if `id` is no such value.
    pub(super) fn value_of(&self, id: DepId) -> Option<EntryTarget> {
        self.graph.entry(id).map(|entry| entry.change.value())
    }

    /// Whether `id` is the value "no entry".
    pub(super) fn is_clear(&self, id: DepId) -> bool {
        self.graph.entry(id).is_some_and(|entry| entry.change.is_clear())
    }

    /// The guards of `id`: the names that must be reachable, and the barrier of removals, before a
    /// write contains it.
    pub(super) fn guards_of(&self, id: DepId) -> DepIds {
        let is_guard = |requirement: &Requirement| match *requirement {
            Requirement::Dep(on, Level::Reachable, Holds::Write) => Some(on),
            _ => requirement.dep().filter(|&on| is_removal_barrier(&self.graph, on)),
        };
        self.graph.requirements(id).iter().filter_map(is_guard).collect()
    }

    /// The work that waits for `id`.
    pub(super) fn work_after(&self, id: DepId) -> DepIds {
        self.graph.dependents_where(id, Graph::is_work)
    }

    /// The barriers of removals and sync points that wait for the name.
    pub(super) fn points_after(&self, id: DepId) -> DepIds {
        self.graph.dependents_where(id, is_point)
    }

    /// `id` requires `on` to be reachable, unless `on` requires it.
    pub(super) fn require_reachable(&mut self, id: DepId, on: DepId) {
        if !self.graph.depends_on(on, id) {
            self.graph.require(id, on, Level::Reachable, Holds::Write);
        }
    }

    /// `id` requires the guards of another value of its entry, except those that require it.
    pub(super) fn require_guards(&mut self, id: DepId, guards: &[DepId]) {
        for &on in guards {
            if is_removal_barrier(&self.graph, on) {
                self.require_removal_barrier(id, Some(on), &[]);
            } else {
                self.require_reachable(id, on);
            }
        }
    }

    /// `id` requires the guards of `from`, except `but` and those that require it.
    pub(super) fn inherit_guards(&mut self, from: DepId, id: DepId, but: Option<DepId>) {
        let mut guards = self.guards_of(from);
        guards.retain(|on| *on != id && !but.is_some_and(|own| self.graph.depends_on(*on, own)));
        self.require_guards(id, &guards);
    }

    /// The name that must be reachable before a name of `ino` is removed
    /// ([`Rule::LastDurableName`]). `own`: the removed name, if it is pending.
    pub(super) fn guardian(
        &self,
        ino: Ino,
        own: Option<DepId>,
        removed: RemovedName,
    ) -> Option<DepId> {
        let others = || self.inodedeps.names(ino).iter().copied().filter(|n| Some(*n) != own);
        let newest = others().next_back()?;
        let is_renamed = removed.renamed && holds(Rule::NewNameBeforeOld);
        let left = usize::from(removed.names_left);
        let is_last = || left > 0 && left <= others().count() && holds(Rule::LastDurableName);
        (is_renamed || is_last()).then_some(newest)
    }

    /// The new value `id` of an entry requires the guardian. Not if the guardian requires `id`, or
    /// `work`, which will require `id`.
    pub(super) fn require_guardian(&mut self, id: DepId, guardian: Option<DepId>, work: &[DepId]) {
        // Without a guardian no name has to be reachable first.
        let Some(on) = guardian else { return };
        if !self.is_required_by(on, id, work) {
            self.graph.require(id, on, Level::Reachable, Holds::Write);
        }
    }

    /// The removal `id` requires the barrier of removals, under the condition of
    /// [`Softdep::require_guardian`].
    pub(super) fn require_removal_barrier(
        &mut self,
        id: DepId,
        barrier: Option<DepId>,
        work: &[DepId],
    ) {
        // Without a barrier all published names are reachable.
        let Some(on) = barrier else { return };
        if !self.is_required_by(on, id, work) {
            self.graph.require(id, on, Level::Durable, Holds::Write);
        }
    }

    /// Whether `on` requires `id` or an item of `work`.
    fn is_required_by(&self, on: DepId, id: DepId, work: &[DepId]) -> bool {
        self.graph.depends_on(on, id) || work.iter().any(|&work| self.graph.depends_on(on, work))
    }

    /// The barrier that the next removal requires; `None` if all names that were published before
    /// are reachable.
    pub(super) fn removal_barrier(&mut self) -> Option<DepId> {
        self.collect_published();
        self.nameorder.close_barrier(&self.graph)
    }

    /// The open barrier requires the published names. Each barrier requires the one before it, so
    /// the number of edges is the number of names.
    pub(super) fn collect_published(&mut self) {
        let names = self.nameorder.take_published(&self.graph);
        if names.is_empty() {
            return;
        }
        let barrier = self.nameorder.open_barrier(&self.graph).unwrap_or_else(|| {
            let id = self.graph.insert(DepKind::PublishedNames);
            if let Some(before) = self.nameorder.last_barrier(&self.graph) {
                self.graph.require(id, before, Level::Durable, Holds::Write);
            }
            self.nameorder.set_open_barrier(id);
            id
        });
        for on in names {
            self.graph.require(barrier, on, Level::Reachable, Holds::Write);
        }
    }

    /// If `id` removes the directory `dir`, it removes the names that reserved entries of `dir` may
    /// show: `id` inherits their guards, and those of the removals of older names of `dir`. Not the
    /// name `own` of `dir`, which `id` removes, and no barrier with it: that requires `id` instead.
    pub(super) fn guard_removed_directory(
        &mut self,
        (id, own): (DepId, Option<DepId>),
        dir: Ino,
        removed: RemovedName,
    ) {
        if removed.drops < 2 {
            return;
        }
        let has_reserved = self.inodedeps.extra(dir).is_some_and(|extra| extra.reserved > 0);
        if has_reserved {
            let blocks = self.pagedeps.blocks(content_of(dir));
            let last = blocks.flat_map(|(_, all)| all.iter()).filter_map(|(_, e)| e.last());
            let reserved: Vec<DepId> = last.filter(|&id| self.is_clear(id)).collect();
            reserved.into_iter().for_each(|entry| self.inherit_guards(entry, id, own));
        }
        for drop in self.link_drops(dir) {
            for requirement in self.graph.requirements(drop) {
                if let Some(older) = requirement.dep().filter(|on| self.value_of(*on).is_some()) {
                    self.inherit_guards(older, id, own);
                }
            }
        }
    }

    /// The name just entered for the directory `dir` requires its `..`. Of two names fsck keeps the
    /// one that `..` agrees with: not the old one, if the new one was fsynced or replaced another.
    pub(super) fn require_dotdot(&mut self, dir: Ino, dotdot: DepId) {
        // The name is reachable already.
        let Some(name) = self.inodedeps.newest_name(dir) else { return };
        if holds(Rule::DotDotBeforeName) && !self.graph.depends_on(dotdot, name) {
            self.graph.require(name, dotdot, Level::Durable, Holds::Write);
        }
    }

    /// `dotdot`, a new `..` of `dir`, requires the older names of `dir` to be absent: one may be in
    /// the new parent, and fsck would keep it. If no write contained the present name, the device
    /// may show only an older name: then `dotdot` does not require that one to be absent.
    pub(super) fn require_old_names_absent(&mut self, dotdot: DepId, dir: Ino) {
        let names = self.inodedeps.names(dir);
        let present = names.len().checked_sub(2).and_then(|at| names.get(at));
        let is_unwritten = present.is_some_and(|&name| self.graph.is_unwritten(name));
        if is_unwritten || !holds(Rule::DotDotBeforeName) {
            return;
        }
        for on in DepIds::from(self.inodedeps.old_names(dir)) {
            if !self.graph.depends_on(on, dotdot) {
                self.graph.require(dotdot, on, Level::Durable, Holds::Write);
            }
        }
    }

    /// The work that required a former value of an entry requires its next one, `id`. If `id` waits
    /// for a `..` that waits for this work, the directory has come back to the entry that it left:
    /// its `..` goes first.
    pub(super) fn move_work(&mut self, work: &[DepId], id: DepId) {
        for &work in work {
            for dependent in self.graph.dependents(work) {
                if self.value_of(dependent).is_some() && self.graph.depends_on(id, dependent) {
                    self.graph.detach(dependent, work);
                }
            }
            self.graph.require(work, id, Level::Durable, Holds::Write);
        }
    }
}
