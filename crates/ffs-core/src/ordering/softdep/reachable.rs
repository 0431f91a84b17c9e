//! Reachability: a name counts as durable for others only if every name from the root down to it is
//! durable too.
//!
//! # Invariants
//! 1. A name is among the names of its inode until it is reachable or removed.
//! 2. Names come to require sizes only when they are durable; no size requires a name.
//!
//! Reference: `docs/spec/soft-updates.md` §4.6, §6.1.

use super::dep::{DepId, EntryChange, Holds, Level};
use super::engine::Softdep;
use super::invariant::broken;
use crate::ordering::rules::{Rule, holds};
use crate::ordering::{DirPos, EntryKind};
use ffs_ondisk::Ino;

impl Softdep {
    /// The name that makes a new directory reachable, if it is pending.
    pub(super) fn first_name(&self, dir: Ino) -> Option<DepId> {
        self.inodedeps.extra(dir)?.first_name
    }

    /// `id` is not the first name of a directory any more; `by` is, if it is given.
    pub(super) fn replace_first_name(&mut self, dir: Ino, id: DepId, by: Option<DepId>) {
        if let Some(extra) = self.inodedeps.extra_mut(dir)
            && extra.first_name == Some(id)
        {
            extra.first_name = by;
        }
    }

    /// The new name `id` in `dir` is reachable only when `dir` is. The size and the pointers on the
    /// way to it are required when it is durable.
    ///
    /// It has no dependents yet: those that it takes over, such as a barrier of removals, may be
    /// required by the name of the directory.
    pub(super) fn require_directory(&mut self, id: DepId, dir: Ino) {
        if let Some(on) = self.first_name(dir).filter(|_| holds(Rule::ReachableDirectory)) {
            self.graph.require(id, on, Level::Reachable, Holds::Reachable);
        }
    }

    /// Lists the new name `id` with its inode.
    pub(super) fn list_name(&mut self, id: DepId, ino: Ino, kind: EntryKind) {
        self.inodedeps.push_name(ino, id);
        // A journal would commit the name of a rename or a link with the removals after it, or
        // before them. Programs rely on that: they remove files that the new name replaced.
        if kind == EntryKind::Existing && holds(Rule::PublishedBeforeRemoval) {
            self.nameorder.publish(&self.graph, id);
        }
    }

    /// The durable name at `at` requires the size that covers it, to be reachable.
    pub(super) fn require_size(&mut self, id: DepId, at: DirPos) {
        if let Some(on) = self.ceiling_over(at).filter(|_| holds(Rule::ReachableDirectory)) {
            self.graph.require(id, on, Level::Durable, Holds::Reachable);
        }
    }

    /// The name is durable, and so is every name from the root down to it.
    pub(super) fn set_reachable(&mut self, id: DepId) {
        let Some(entry) = self.graph.entry(id) else {
            return broken("only a name becomes reachable");
        };
        let at = entry.at;
        self.pagedeps.take_unreachable(at);
        if let EntryChange::Set { ino, .. } = entry.change {
            self.replace_first_name(ino, id, None);
            self.inodedeps.unlist_name(ino, id);
        }
        self.complete(id);
    }
}
