//! Link counts: they drop when the names are absent from the device (FreeBSD: the second half of
//! `dirrem`).
//!
//! # Invariants
//! 1. Every removal that the device may have to show has one dependency that drops the count: a
//!    [`DepKind::DropLinks`]; or, of the reserved entry of a file, the entry's own value
//!    ([`EntryChange::ClearAndDrop`]).
//!
//! Reference: `docs/spec/soft-updates.md` §6.5, §6.7, §6.12.

use super::dep::{DepId, DepKind, EntryChange, Holds, Level};
use super::engine::{BlockChange, Softdep};
use super::graph::DepIds;
use crate::ordering::rules::{Rule, holds};
use crate::ordering::{EntryTarget, ParentLink, RemovedName};
use ffs_ondisk::{FileType, Ino};
use std::num::NonZeroU64;

/// The change after which a removed name is absent from the device.
#[derive(Clone, Copy, Debug)]
pub(super) enum AbsentAfter {
    /// This value of its entry.
    Entry(DepId),
    /// This change of its block; `hash`: of the name.
    Change { block: BlockChange, hash: u64 },
    /// None: the device never had it.
    Nothing,
}

impl Softdep {
    /// The pending link drops of a directory.
    pub(super) fn link_drops(&self, dir: Ino) -> DepIds {
        self.inodedeps
            .extra(dir)
            .map(|e| e.link_drops.iter().copied().collect())
            .unwrap_or_default()
    }

    fn is_directory_or_unknown(target: EntryTarget) -> bool {
        target.dtype == 0 || target.dtype == FileType::Directory.dirent()
    }

    /// The links of `old` drop when its name is absent from the device.
    pub(super) fn drop_links_after(
        &mut self,
        old: EntryTarget,
        removed: RemovedName,
        absent: AbsentAfter,
    ) {
        if !holds(Rule::RemovalBeforeCount) {
            return;
        }
        let (ino, by) = (old.ino, removed.drops);
        self.worklist.expect_removal();
        self.inodedeps.raise_nlink_delta(ino, by);
        // The links of a directory have an order of their own.
        let is_file = !Self::is_directory_or_unknown(old) && by == 1;
        if is_file
            && let AbsentAfter::Entry(id) = absent
            && let Some(entry) = self.graph.entry_mut(id)
            && entry.change == EntryChange::Clear
        {
            entry.change = EntryChange::ClearAndDrop { ino };
            if removed.renamed {
                self.inodedeps.push_old_name(ino, id);
            }
            return;
        }
        let name = match absent {
            AbsentAfter::Change { block, hash } => Some(hash).zip(NonZeroU64::new(block.change)),
            AbsentAfter::Entry(_) | AbsentAfter::Nothing => None,
        };
        let work = self.graph.insert(DepKind::DropLinks { ino, by, name });
        if by >= 2 {
            // The link of `.` drops too: not while an older name may show the directory.
            self.require_link_drops(work, ino);
        }
        if !is_file {
            self.inodedeps.extra_or_default(ino).link_drops.push(work);
        }
        if removed.renamed {
            self.inodedeps.push_old_name(ino, work);
        }
        self.require_absent(work, absent);
        self.perform_if_satisfied(work);
    }

    fn require_absent(&mut self, work: DepId, absent: AbsentAfter) {
        match absent {
            AbsentAfter::Entry(id) => self.graph.require(work, id, Level::Durable, Holds::Write),
            AbsentAfter::Change { block, .. } => self.require_change(work, block),
            AbsentAfter::Nothing => {}
        }
    }

    /// The link that drops with the cleared entry `id` gets work of its own, which requires `id`.
    pub(super) fn split_link_drop(&mut self, id: DepId) {
        // No link drops with a value that is a name, or the removal of a directory's name.
        let Some(ino) = self.take_link_drop(id) else { return };
        let work = self.graph.insert(DepKind::DropLinks { ino, by: 1, name: None });
        self.graph.require(work, id, Level::Durable, Holds::Write);
        self.inodedeps.replace_old_name(ino, id, work);
    }

    /// The file whose link drops with the cleared entry `id`; it does not any more.
    pub(super) fn take_link_drop(&mut self, id: DepId) -> Option<Ino> {
        let entry = self.graph.entry_mut(id)?;
        // Other values have no link drop, or one with a dependency of its own.
        let EntryChange::ClearAndDrop { ino } = entry.change else { return None };
        entry.change = EntryChange::Clear;
        Some(ino)
    }

    /// The name whose removal is `id` was entered again: its links stay.
    pub(super) fn keep_links(&mut self, id: DepId, ino: Ino, by: u16) {
        self.worklist.settle_removal();
        self.inodedeps.unlist_drop(ino, id);
        self.inodedeps.lower_nlink_delta(ino, by);
    }

    /// A directory is removed whose newest name the device never had. If the device may show an
    /// older one, the link of `.` stays until that is absent.
    pub(super) fn drop_dot_after_older_names(&mut self, dir: Ino, removed: RemovedName) {
        let has_older = !self.link_drops(dir).is_empty();
        if removed.drops < 2 || !has_older || !holds(Rule::RemovalBeforeCount) {
            return;
        }
        self.inodedeps.raise_nlink_delta(dir, 1);
        self.worklist.expect_removal();
        let work = self.graph.insert(DepKind::DropLinks { ino: dir, by: 1, name: None });
        self.require_link_drops(work, dir);
        self.inodedeps.extra_or_default(dir).link_drops.push(work);
        self.perform_if_satisfied(work);
    }

    /// `work` requires every name of the directory that was removed before to be absent.
    fn require_link_drops(&mut self, work: DepId, dir: Ino) {
        for drop in self.link_drops(dir) {
            self.graph.require(work, drop, Level::Durable, Holds::Write);
        }
    }

    /// The parent's link of `..` drops when the directory `dir` is cleared, or when its old name is
    /// absent and its `..` names the new parent.
    pub(super) fn drop_parent_link_after(
        &mut self,
        dir: Ino,
        removed: RemovedName,
        absent: AbsentAfter,
    ) {
        let parent = match removed.parent {
            ParentLink::None => return,
            ParentLink::Removed(parent) => {
                self.inodedeps.raise_nlink_delta(parent, 1);
                self.inodedeps.extra_or_default(dir).removed_from = Some(parent);
                return;
            }
            ParentLink::Moved(parent) => parent,
        };
        if !holds(Rule::DotDotBeforeCount) {
            return;
        }
        self.inodedeps.raise_nlink_delta(parent, 1);
        self.worklist.expect_removal();
        let work = self.graph.insert(DepKind::DropLinks { ino: parent, by: 1, name: None });
        // If the device never had the name here, it may show an older one: fsck would make `..`
        // agree with that.
        let dotdot = self.inodedeps.extra(dir).and_then(|extra| extra.dotdot);
        let older = DepIds::from(self.inodedeps.old_names(dir));
        for on in dotdot.into_iter().chain(older) {
            self.graph.require(work, on, Level::Durable, Holds::Write);
        }
        self.require_absent(work, absent);
        self.perform_if_satisfied(work);
    }
}
