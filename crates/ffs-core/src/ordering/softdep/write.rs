//! Writes of blocks: rollback in the copy that is written, and completion.
//!
//! # Invariants
//! 1. A write that completed counts as durable after the next flush.
//! 2. A dependency counts as durable only after a write that contained it, if no later write of its
//!    block rolled it back before that. Debug builds check it when the later write is issued. A
//!    size counts as durable only as far as all later writes of the inode cover it.
//!
//! Reference: `docs/spec/soft-updates.md` §5, §10, §12.2.

use super::dep::{Condition, DepId, DepKind, WriteState};
use super::engine::Softdep;
use super::graph::DepIds;
use super::inflight::BlockContents;
use super::inodedep::ShownInode;
use super::log::LOG;
use super::pointer::PointerVersions;
use super::pointers::Way;
use crate::buf::{BufKey, BufKind, WriteResult, WriteStart};
use crate::ordering::Readiness;
use crate::ordering::rules::{Rule, holds};
use ffs_ondisk::Lbn;
use tracing::{debug, trace};

impl Softdep {
    /// See [`crate::buf::WriteHooks::start_write`].
    pub(super) fn start_write(
        &mut self,
        key: BufKey,
        kind: BufKind,
        copy: Option<&mut [u8]>,
    ) -> WriteStart {
        if kind == BufKind::CylinderGroup && self.is_group_held(key) {
            debug!(target: LOG, %key, "write held: new inode blocks are not durable");
            return WriteStart::Held;
        }
        let change = self.writes.issue(key).unwrap_or(0);
        let mut contents = BlockContents { change, ..BlockContents::default() };
        let mut reverted = DepIds::new();
        let rolled_back = match (kind, copy) {
            (BufKind::Inodes, Some(bytes)) => {
                self.roll_back_inodes(key, bytes, &mut contents, &mut reverted)
            }
            (BufKind::Directory, Some(bytes)) => {
                self.roll_back_directory(key, bytes, &mut contents.deps, &mut reverted)
            }
            (BufKind::Indirect, Some(bytes)) => {
                self.roll_back_indirect(key, bytes, &mut contents.deps, &mut reverted)
            }
            _ => false,
        };
        for &id in &contents.deps {
            self.graph.mark_issued(id);
        }
        self.revert(key, &reverted);
        if cfg!(debug_assertions) {
            let missing = self.missing_in_write(key, &contents.deps);
            assert!(missing.is_none(), "soft updates: a write of {key:?} lacks {missing:?}");
        }
        let changes = contents.deps.len();
        if rolled_back {
            debug!(target: LOG, %key, ?kind, changes, "write issued, partly rolled back");
        } else if !contents.is_empty() {
            trace!(target: LOG, %key, ?kind, changes, "write issued");
        }
        if !contents.is_empty() {
            self.inflight.issue(key, contents);
        }
        if rolled_back { WriteStart::RolledBack } else { WriteStart::Whole }
    }

    /// A write of the block rolls back the dependencies `reverted`, which earlier writes may have
    /// shown. At the present address of the block it overwrites what they showed. A directory block
    /// may have moved: then it takes their place when the pointer to it is durable. So only a later
    /// write makes the dependencies durable.
    fn revert(&mut self, key: BufKey, reverted: &[DepId]) {
        if reverted.is_empty() {
            return;
        }
        self.inflight.revert(key, reverted);
        // Only directory blocks have entries.
        let BufKey::File(dir, lbn @ 0..) = key else { return };
        for pointer in self.all_allocs_to(dir, Lbn(lbn.unsigned_abs())) {
            if let Some(alloc) = self.graph.alloc_mut(pointer) {
                alloc.entries.retain(|id| !reverted.contains(id));
            }
        }
    }

    /// A pending dependency that an earlier write of the block will make durable with a flush,
    /// although the write that contains `shown` shows neither it nor a later value in its place.
    fn missing_in_write(&self, key: BufKey, shown: &[DepId]) -> Option<&DepKind> {
        let is_missing = |id: DepId| {
            let dep = self.graph.get(id).filter(|dep| dep.state() != WriteState::Durable)?;
            let values = match dep.kind() {
                DepKind::Alloc(alloc) => self.pointer(alloc.place).map(PointerVersions::pending),
                DepKind::Entry(entry) => {
                    self.pagedeps.entry(key, entry.at.off).map(|versions| versions.pending())
                }
                // A write that does not contain the last attributes shows the ones before.
                DepKind::ExtAttr(_) => return None,
                _ => None,
            };
            let values = values.unwrap_or(std::slice::from_ref(&id));
            let at = values.iter().position(|value| *value == id);
            let later = at.and_then(|at| values.get(at..)).unwrap_or_default();
            (!later.iter().any(|value| shown.contains(value))).then_some(dep.kind())
        };
        self.inflight.shown_before(key).find_map(is_missing)
    }

    /// See [`crate::buf::WriteHooks::write_completed`].
    pub(super) fn write_completed(&mut self, key: BufKey, result: WriteResult) -> bool {
        // Writes that show no pending change are not listed.
        let Some(contents) = self.inflight.complete(key) else { return false };
        trace!(target: LOG, %key, ?result, "write completed");
        if result == WriteResult::Failed {
            return true;
        }
        let changed_since =
            self.writes.last_change(key).is_some_and(|change| change > contents.change);
        if result == WriteResult::Durable || !holds(Rule::FlushBeforeDurable) {
            self.write_durable(key, contents);
        } else {
            self.inflight.await_flush(key, contents);
        }
        changed_since
    }

    /// See [`crate::buf::WriteHooks::flush_completed`].
    pub(super) fn flush_completed(&mut self, until: u64) {
        while let Some((key, contents)) = self.inflight.take_flushed(until) {
            self.write_durable(key, contents);
        }
    }

    /// The device has the block as the write showed it.
    fn write_durable(&mut self, key: BufKey, contents: BlockContents) {
        let (changes, inodes) = (contents.deps.len(), contents.inodes.len());
        trace!(target: LOG, %key, changes, inodes, "write durable");
        self.block_durable(key, contents.change);
        for id in contents.deps {
            match self.graph.kind(id) {
                Some(DepKind::Entry(_)) => self.entry_written(id),
                Some(DepKind::Alloc(_)) => self.alloc_durable(id),
                Some(DepKind::SizeCeiling { .. } | DepKind::SizeFloor(_)) => self.end_bound(id),
                Some(DepKind::ExtAttr(_)) => self.ext_attr_durable(id),
                // A later change ended it while the write was in flight.
                _ => {}
            }
        }
        self.process_satisfied();
        for inode in contents.inodes {
            self.inode_durable(inode);
        }
    }

    fn block_durable(&mut self, key: BufKey, change: u64) {
        let (due, waiting) = self.writes.set_durable(key, change);
        self.graph.count_steps(waiting);
        for inode in self.bmsafemaps.group_durable(key, change) {
            self.inodedeps.bitmap_durable(inode.ino, inode.allocation);
        }
        self.bmsafemaps.inode_block_durable(key, change);
        for id in due {
            self.require_block_shown(id, key);
            self.graph.satisfy(id, Condition::Block(key));
        }
    }

    /// A dependency that waits for a directory block to lose a name also waits for the directory to
    /// show this block: while the device shows an older one, it shows the name.
    fn require_block_shown(&mut self, id: DepId, key: BufKey) {
        // Blocks of metadata, indirect blocks and attributes have no names.
        let BufKey::File(ino, lbn @ 0..) = key else { return };
        if self.awaits_removal(id) && holds(Rule::PointerBeforeEntry) {
            self.require_pointers(id, ino, Lbn(lbn.unsigned_abs()), Way::FromInode);
        }
    }

    fn inode_durable(&mut self, inode: ShownInode) {
        let ino = inode.ino;
        let (due, waiting) = self.inodedeps.set_durable(inode);
        self.graph.count_steps(waiting);
        self.stop_tracking_size(ino);
        for id in due {
            self.graph.satisfy(id, Condition::Inode(ino));
        }
        self.process_satisfied();
        self.inodedeps.drop_idle(ino);
    }

    /// See [`crate::ordering::Ordering::readiness`].
    pub(super) fn readiness(&self, key: BufKey, kind: BufKind) -> Readiness {
        let is_held = match kind {
            BufKind::CylinderGroup if self.is_group_held(key) => return Readiness::Held,
            BufKind::Indirect if self.last_pointer_held(key).is_some() => return Readiness::Held,
            BufKind::Inodes => self.are_inodes_held(key),
            BufKind::Directory => self.is_directory_block_held(key),
            BufKind::Indirect => self.is_indirect_block_held(key),
            BufKind::CylinderGroup | BufKind::Data => false,
        };
        if is_held { Readiness::Partial } else { Readiness::Whole }
    }
}
