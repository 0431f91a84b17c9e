//! What has to be written for something to be durable.
//!
//! # Invariants
//! 1. [`Engine::next_for`] names every block that the goal needs, whichever of them can be written
//!    whole now: the flusher chooses.
//!
//! Reference: `spec/soft-updates.md` §8.1, §8.3.

use super::Engine;
use super::graph::{Cond, Id, Level, Need, What};
use super::inodes::{Init, InodeRec, More};
use crate::buf::BufKey;
use crate::ordering::{Goal, PtrSlot};
use ffs_ondisk::Ino;
use std::collections::BTreeSet;

/// A walk over what a goal needs.
#[derive(Default)]
struct Walk {
    blocks: BTreeSet<BufKey>,
    inodes: BTreeSet<Ino>,
    nodes: BTreeSet<Id>,
    /// Yet to be looked at.
    todo: Vec<Cond>,
}

impl Engine {
    /// See [`crate::ordering::Ordering::next_for`].
    pub(super) fn next_for(&self, goal: Goal) -> Vec<BufKey> {
        let mut w = Walk::default();
        let (Goal::File(ino) | Goal::Directory(ino)) = goal;
        w.todo.push(Cond::Inode(ino));
        if let Goal::Directory(dir) = goal {
            let keys = Engine::content_of(dir);
            for (key, all) in self.dirs.range(keys.clone()) {
                w.blocks.insert(*key);
                let last = all.iter().filter_map(|(_, c)| c.versions.last());
                w.todo.extend(last.map(|id| Cond::Node(*id, Level::Durable)));
            }
            w.blocks.extend(self.blocks.range(keys).map(|(key, _)| *key));
        }
        while let Some(cond) = w.todo.pop() {
            match cond {
                Cond::Block(key) => self.walk_block(&mut w, key),
                Cond::Inode(ino) => self.walk_inode(&mut w, ino),
                Cond::Node(id, _) => self.walk_node(&mut w, id),
            }
        }
        self.count_steps(w.blocks.len() + w.inodes.len() + w.nodes.len());
        w.blocks.into_iter().collect()
    }

    fn walk_block(&self, w: &mut Walk, key: BufKey) {
        if !w.blocks.insert(key) {
            return;
        }
        let held_by = self.blocks.get(&key).map(|r| r.held_by.as_slice()).unwrap_or_default();
        w.todo.extend(held_by.iter().map(|k| Cond::Block(*k)));
    }

    fn walk_inode(&self, w: &mut Walk, ino: Ino) {
        if !w.inodes.insert(ino) {
            return;
        }
        let Some(rec) = self.inodes.get(&ino) else { return };
        w.todo.push(Cond::Block(self.inode_key(ino)));
        if rec.is_hidden() {
            w.todo.push(Cond::Block(self.group_of_ino(ino)));
        }
        let node = |id: &Id| Cond::Node(*id, Level::Durable);
        w.todo.extend(rec.names.iter().map(node));
        if let Some(m) = &rec.more {
            w.todo.extend(m.slots.iter().flat_map(|(_, c)| &c.versions).map(node));
            w.todo.extend(m.bounds().chain(&m.ext).chain(&m.dotdot).map(node));
        }
        w.todo.extend(rec.leaving.iter().map(node));
        // Pointers in its indirect blocks.
        for (key, all) in self.indirects.range(Engine::maps_of(ino)) {
            w.blocks.insert(*key);
            w.todo.extend(all.values().flat_map(|c| &c.versions).map(node));
        }
    }

    fn walk_node(&self, w: &mut Walk, id: Id) {
        if !w.nodes.insert(id) {
            return;
        }
        let Some(n) = self.nodes.get(id) else { return };
        match &n.what {
            What::Name(name) => {
                w.todo.push(Cond::Block(self.dir_key(name.at)));
                // The block may have moved since.
                if self.inodes.get(&name.at.dir).is_some_and(|r| r.more.is_some()) {
                    w.todo.push(Cond::Inode(name.at.dir));
                }
            }
            What::Claim(c) => match c.slot {
                PtrSlot::Indirect { ino, block, .. } => {
                    w.todo.push(Cond::Block(BufKey::File(ino, block)));
                }
                PtrSlot::Direct(ino, _)
                | PtrSlot::IndirectRoot(ino, _)
                | PtrSlot::ExtAttr(ino, _) => {
                    w.todo.push(Cond::Inode(ino));
                }
            },
            What::Ceiling { ino, .. } => w.todo.push(Cond::Inode(*ino)),
            What::Floor(f) => w.todo.push(Cond::Inode(f.ino)),
            What::Ext(x) => w.todo.push(Cond::Inode(x.ino)),
            What::Unlink { .. } | What::Free { .. } | What::FreeInode { .. } | What::Gate => {}
        }
        w.todo.extend(n.needs.iter().map(Need::cond));
    }

    /// See [`crate::ordering::Ordering::reached`].
    pub(super) fn reached(&self, goal: Goal) -> bool {
        let (Goal::File(ino) | Goal::Directory(ino)) = goal;
        let of_file = |rec: &InodeRec| {
            let more =
                |m: &More| m.slots.is_empty() && m.bounds().next().is_none() && m.ext.is_none();
            rec.init == Init::Done
                && rec.durable >= rec.version
                && rec.names.is_empty()
                && rec.more.as_deref().is_none_or(more)
                && !rec.leaving.iter().any(|&id| self.nodes.contains_key(id))
        };
        let maps = self.indirects.range(Engine::maps_of(ino)).next().is_none();
        let file = maps && self.inodes.get(&ino).is_none_or(of_file);
        let Goal::Directory(dir) = goal else { return file };
        let keys = Engine::content_of(dir);
        let clean = self.dirs.range(keys.clone()).next().is_none()
            && self.blocks.range(keys).all(|(_, rec)| rec.durable >= rec.seq);
        file && clean
    }
}
