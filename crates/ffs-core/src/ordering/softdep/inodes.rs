//! Inodes that are stored, renamed over, or freed.
//!
//! Reference: `docs/spec/soft-updates.md` §4.3, §6.12.

use super::dep::{Condition, DepId, DepKind, Holds, Level};
use super::engine::Softdep;
use crate::buf::BufKey;
use crate::ordering::rules::{Rule, holds};
use crate::ordering::{FreeWhen, InodeChange};
use ffs_ondisk::{Dinode, Ino};

/// Whether anything may wait for the state that this change makes.
fn is_awaited(why: InodeChange) -> bool {
    match why {
        InodeChange::Init
        | InodeChange::InitDirectory
        | InodeChange::NlinkInc
        | InodeChange::Truncate
        | InodeChange::ExtAttr
        | InodeChange::Free => true,
        InodeChange::NlinkDec
        | InodeChange::Attr
        | InodeChange::Grow
        | InodeChange::DirectoryGrow
        | InodeChange::TruncateExtend => false,
    }
}

impl Softdep {
    /// See [`crate::ordering::Event::InodeUpdated`]. Returns the links to add to the stored count.
    pub(super) fn inode_updated(&mut self, ino: Ino, why: InodeChange, d: &Dinode) -> u16 {
        if is_awaited(why) {
            self.inodedeps.note_state(ino);
        } else if self.inodedeps.get(ino).is_none() {
            return 0;
        }
        let delta = self.inodedeps.nlink_delta(ino);
        self.reconcile(ino, d);
        if why == InodeChange::Truncate && d.is_dir() {
            self.directory_truncated(ino, d.size);
        }
        delta
    }

    /// See [`crate::ordering::Event::InodeReleased`].
    pub(super) fn inode_released(&mut self, ino: Ino, was_dir: bool) -> FreeWhen {
        self.take_freed_entries(ino);
        if self.inodedeps.get(ino).is_none() {
            // The device has it cleared: another thread wrote its block since.
            return FreeWhen::Now;
        }
        let extra = self.inodedeps.extra_mut(ino);
        let parent = extra.and_then(|extra| extra.removed_from.take());
        if self.inodedeps.is_unwritten(ino) || !holds(Rule::ZeroBeforeFree) {
            for waiter in self.inodedeps.forget_new(ino) {
                self.graph.satisfy(waiter, Condition::Inode(ino));
            }
            if let Some(parent) = parent {
                self.worklist.drop_links(parent, 1);
            }
            return FreeWhen::Now;
        }
        if let Some(parent) = parent {
            let id = self.graph.insert(DepKind::DropLinks { ino: parent, by: 1, name: None });
            self.worklist.expect_removal();
            self.require_inode(id, ino);
            self.perform_if_satisfied(id);
        }
        let freeblks = self.inodedeps.extra(ino).map(|extra| extra.freeblks.clone());
        let id = self.graph.insert(DepKind::FreeFile { ino, was_dir });
        self.worklist.expect_inode();
        self.require_inode(id, ino);
        for on in freeblks.unwrap_or_default() {
            self.graph.require(id, on, Level::Durable, Holds::Write);
        }
        self.perform_if_satisfied(id);
        self.inodedeps.drop_idle(ino);
        FreeWhen::Later
    }

    /// See [`crate::ordering::Event::ContentBeforeName`].
    pub(super) fn content_before_name(&mut self, ino: Ino, dirty: &[BufKey]) {
        let newest = self.inodedeps.newest_name(ino);
        // Without a pending name no dependency has to wait for the content.
        let Some(id) = newest.filter(|_| holds(Rule::ContentBeforeName)) else { return };
        for &key in dirty {
            self.writes.note_change(key);
            self.require_block(id, key);
        }
        self.inodedeps.note_state(ino);
        self.require_file(id, ino);
    }

    /// `id` requires the file as it is stored now: the inode, its pointers, and its size.
    fn require_file(&mut self, id: DepId, ino: Ino) {
        self.require_inode(id, ino);
        let mut deps: Vec<DepId> = Vec::new();
        if let Some(extra) = self.inodedeps.extra(ino) {
            deps.extend(extra.pointers().filter_map(|(_, versions)| versions.last()));
            deps.extend(extra.bounds());
        }
        let indirects = self.indirdeps.of_file(ino).flat_map(|(_, dep)| dep.values());
        deps.extend(indirects.filter_map(|versions| versions.last()));
        for on in deps {
            self.graph.require(id, on, Level::Durable, Holds::Write);
        }
    }

    /// See [`crate::ordering::Event::EntriesExchanged`].
    pub(super) fn entries_exchanged(&mut self, ino: Ino) {
        if !self.inodedeps.names(ino).is_empty() {
            self.inodedeps.extra_or_default(ino).exchanged = true;
        }
    }
}
