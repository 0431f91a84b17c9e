//! Extended attributes: the blocks of them that writes of the inode show.
//!
//! # Invariants
//! 1. A write shows the newest blocks whose content and bitmap are durable, or the ones before
//!    them.

use super::dep::{DepId, DepKind, ExtAttrDep};
use super::engine::Softdep;
use super::inodedep::InodeExtra;
use super::invariant::broken;
use super::pointer::pointer_to;
use crate::buf::BufKey;
use crate::ordering::FragRun;
use ffs_ondisk::{Dinode, Ino};

impl Softdep {
    fn ext_attr(&self, ino: Ino) -> Option<DepId> {
        self.inodedeps.extra(ino)?.ext_attr
    }

    /// `extb[index]` will name `new`, with buffer `block`.
    pub(super) fn set_ext_attr(&mut self, ino: Ino, index: usize, new: FragRun, block: BufKey) {
        let before = self.ext_attr(ino);
        let id = match before.filter(|&id| self.graph.is_unwritten(id)) {
            Some(id) => id,
            None => {
                let dep = ExtAttrDep { ino, new: [0; 2], old: None, before };
                let id = self.graph.insert(DepKind::ExtAttr(Box::new(dep)));
                self.inodedeps.extra_or_default(ino).ext_attr = Some(id);
                id
            }
        };
        if let Some(dep) = self.graph.ext_attr_mut(id) {
            if index == 0 {
                // These replace the former new blocks, which no write contained.
                dep.new = [0; 2];
            }
            if let Some(pointer) = dep.new.get_mut(index) {
                *pointer = pointer_to(Some(new));
            }
        }
        self.require_allocated(id, block, new);
    }

    /// See [`crate::ordering::Event::ExtAttrReplaced`].
    pub(super) fn ext_attr_replaced(&mut self, ino: Ino, old: [i64; 2], old_size: u32) {
        // Attributes that shrink to nothing have no new blocks.
        let Some(id) = self.ext_attr(ino) else { return };
        if let Some(dep) = self.graph.ext_attr_mut(id) {
            dep.old.get_or_insert((old, old_size));
        }
    }

    /// The extended attributes of `ino` were removed: the dependents of their blocks now require
    /// the inode without attributes.
    pub(super) fn ext_attr_removed(&mut self, ino: Ino) {
        let extra = self.inodedeps.extra_mut(ino);
        let mut next = extra.and_then(|extra| extra.ext_attr.take());
        while let Some(id) = next {
            self.require_inode_instead(id, ino);
            next = self.end_ext_attr(id);
        }
    }

    /// The blocks are durable, and so are the ones before them.
    pub(super) fn ext_attr_durable(&mut self, id: DepId) {
        // A removal may have ended it while the write was in flight.
        let Some(DepKind::ExtAttr(dep)) = self.graph.kind(id) else { return };
        let ino = dep.ino;
        if let Some(extra) = self.inodedeps.extra_mut(ino) {
            extra.ext_attr.take_if(|ext_attr| *ext_attr == id);
        }
        let mut next = Some(id);
        while let Some(id) = next {
            next = self.end_ext_attr(id);
        }
        self.inodedeps.drop_idle(ino);
    }

    /// Ends one dependency, and returns the one before it.
    fn end_ext_attr(&mut self, id: DepId) -> Option<DepId> {
        match self.complete(id)? {
            DepKind::ExtAttr(dep) => dep.before,
            _ => None,
        }
    }

    /// Rolls the attributes of `d` back if they are not ready. Returns whether it did.
    pub(super) fn roll_back_ext_attr(
        &self,
        d: &mut Dinode,
        extra: &InodeExtra,
        contained: &mut Vec<DepId>,
    ) -> bool {
        // No attributes are pending.
        let Some(id) = extra.ext_attr else { return false };
        let Some(DepKind::ExtAttr(dep)) = self.graph.kind(id) else {
            broken("an inode lists attributes that are not pending");
            return false;
        };
        if self.graph.is_ready(id) && d.extb == dep.new {
            contained.push(id);
            return false;
        }
        // The inode is not updated yet: it has the old blocks.
        let Some(old) = dep.old else { return false };
        (d.extb, d.extsize) = old;
        true
    }
}
