//! Extended attributes: which place of them an inode may be shown with.
//!
//! # Invariants
//! 1. An image shows the newest area whose content and bitmap are durable, or the one before it.

use super::Engine;
use super::claims::pointer_to;
use super::graph::{ExtClaim, Id, State, What};
use super::inodes::More;
use crate::buf::BufKey;
use crate::ordering::FragRun;
use ffs_ondisk::{Dinode, Ino};

impl Engine {
    pub(super) fn claim_ext(&mut self, ino: Ino, i: usize, new: FragRun, block: BufKey) {
        let known = self.inodes.get(&ino).and_then(|r| r.more.as_ref()?.ext);
        let id = match known.filter(|&id| self.state(id) == Some(State::Never)) {
            Some(id) => id,
            None => {
                let (new, base, before) = ([0; 2], None, known);
                let id = self.add(What::Ext(Box::new(ExtClaim { ino, new, base, before })));
                self.more(ino).ext = Some(id);
                id
            }
        };
        if let Some(What::Ext(x)) = self.nodes.get_mut(id).map(|n| &mut n.what) {
            if i == 0 {
                // A new area: of the one before, which was in no image, nothing is left.
                x.new = [0; 2];
            }
            if let Some(p) = x.new.get_mut(i) {
                *p = pointer_to(Some(new));
            }
        }
        self.need_written(id, block, new);
    }

    /// See [`crate::ordering::Event::ExtAttrReplaced`].
    pub(super) fn ext_replaced(&mut self, ino: Ino, old: [i64; 2], old_size: u32) {
        let Some(id) = self.inodes.get(&ino).and_then(|r| r.more.as_ref()?.ext) else { return };
        if let Some(n) = self.nodes.get_mut(id)
            && let What::Ext(x) = &mut n.what
        {
            x.base.get_or_insert((old, old_size));
        }
    }

    /// The attributes whose last place is `id` are gone: what waited for a place of theirs waits for the
    /// inode without any.
    pub(super) fn ext_removed(&mut self, ino: Ino, id: Id) {
        let mut next = Some(id);
        while let Some(id) = next {
            self.need_successor(id, ino);
            next = self.ext_over(id);
        }
    }

    /// A place of attributes is durable.
    pub(super) fn ext_durable(&mut self, id: Id) {
        let Some(What::Ext(x)) = self.nodes.get(id).map(|n| &n.what) else { return };
        let ino = x.ino;
        if let Some(more) = self.inodes.get_mut(&ino).and_then(|r| r.more.as_mut()) {
            more.ext.take_if(|ext| *ext == id);
        }
        let mut next = Some(id);
        while let Some(id) = next {
            next = self.ext_over(id);
        }
    }

    /// Nothing waits for that place of attributes any more; the one before it.
    fn ext_over(&mut self, id: Id) -> Option<Id> {
        match self.fulfil(id)?.what {
            What::Ext(x) => x.before,
            _ => None,
        }
    }

    pub(super) fn compose_ext(&self, d: &mut Dinode, more: &More, seen: &mut Vec<Id>) -> bool {
        let Some((id, n)) = more.ext.and_then(|id| Some((id, self.nodes.get(id)?))) else {
            return false;
        };
        let What::Ext(x) = &n.what else { return false };
        if n.ready() && d.extb == x.new {
            seen.push(id);
            return false;
        }
        let Some(base) = x.base else { return false };
        (d.extb, d.extsize) = base;
        true
    }
}
