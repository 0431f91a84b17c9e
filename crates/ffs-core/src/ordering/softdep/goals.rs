//! What has to be written for something to be durable: for an fsync, or as `softdep_fsync` does in FreeBSD.
//!
//! An fsync waits for its file, and by default for every older change of names. These it notes in a *sync
//! point*: a node that needs all of them, and to which the graph passes on what takes their place.
//!
//! # Invariants
//! 1. [`Engine::blocks_to_write`] names every block that the goal needs, whichever of them can be written
//!    whole now: the flusher chooses. It names no content of other files unless a name waits for it.
//! 2. Nothing needs a sync point.
//!
//! Reference: `spec/soft-updates.md` §8.1, §8.3.

use super::Engine;
use super::graph::{Cond, Id, Level, Name, Need, Node, State, What};
use super::inodes::{InodeRec, More};
use crate::buf::BufKey;
use crate::ordering::rules::{Rule, holds};
use crate::ordering::{DirPos, OlderNames, PtrSlot, SyncPoint, SyncTarget};
use ffs_ondisk::Ino;
use smallvec::SmallVec;
use std::collections::BTreeSet;

/// What a walk has yet to look at.
enum Step {
    Need(Cond),
    /// All of a file.
    File(Ino),
}

/// A walk over what a goal needs.
#[derive(Default)]
struct Walk {
    blocks: BTreeSet<BufKey>,
    files: BTreeSet<Ino>,
    /// Files of which all pointers and sizes are looked at.
    pointers: BTreeSet<Ino>,
    nodes: BTreeSet<Id>,
    todo: Vec<Step>,
}

impl Walk {
    fn block(&mut self, key: BufKey) {
        self.todo.push(Step::Need(Cond::Block(key)));
    }

    fn node(&mut self, id: Id) {
        self.todo.push(Step::Need(Cond::Node(id, Level::Durable)));
    }
}

impl Engine {
    /// See [`crate::ordering::Ordering::blocks_to_write`].
    pub(super) fn blocks_to_write(&self, goal: SyncTarget) -> Vec<BufKey> {
        let mut w = Walk::default();
        match goal {
            SyncTarget::File(ino) => w.todo.push(Step::File(ino)),
            SyncTarget::Directory(dir) => {
                w.todo.push(Step::File(dir));
                let keys = Engine::content_of(dir);
                for (key, all) in self.dirs.range(keys.clone()) {
                    w.blocks.insert(*key);
                    let last = all.iter().filter_map(|(_, c)| c.versions.last());
                    last.for_each(|id| w.node(*id));
                }
                w.blocks.extend(self.blocks.range(keys).map(|(key, _)| *key));
            }
            SyncTarget::Names(point) => {
                self.sync_points.get(&point).into_iter().for_each(|id| w.node(*id));
            }
        }
        while let Some(step) = w.todo.pop() {
            match step {
                Step::File(ino) => self.walk_file(&mut w, ino),
                Step::Need(Cond::Block(key)) => self.walk_block(&mut w, key),
                Step::Need(Cond::Inode(ino)) => self.walk_inode(&mut w, ino),
                Step::Need(Cond::Node(id, _)) => self.walk_node(&mut w, id),
            }
        }
        self.count_steps(w.blocks.len() + w.files.len() + w.nodes.len());
        w.blocks.into_iter().collect()
    }

    fn walk_block(&self, w: &mut Walk, key: BufKey) {
        if !w.blocks.insert(key) {
            return;
        }
        let held_by = self.blocks.get(&key).map(|r| r.held_by.as_slice()).unwrap_or_default();
        held_by.iter().for_each(|key| w.block(*key));
        self.awaited_last(key).into_iter().for_each(|id| w.node(id));
    }

    /// What shows the inode as it is stored now, with or without its newest pointers.
    fn walk_inode(&self, w: &mut Walk, ino: Ino) {
        w.block(self.inode_key(ino));
        if self.inodes.get(&ino).is_some_and(InodeRec::is_hidden) {
            w.block(self.group_of_ino(ino));
        }
    }

    fn walk_file(&self, w: &mut Walk, ino: Ino) {
        if !w.files.insert(ino) {
            return;
        }
        self.walk_inode(w, ino);
        let Some(rec) = self.inodes.get(&ino) else { return };
        rec.names.iter().chain(rec.leaving.iter()).for_each(|id| w.node(*id));
        rec.more.iter().flat_map(|m| &m.dotdot).for_each(|id| w.node(*id));
        self.walk_pointers(w, ino);
    }

    /// What the file's inode and indirect blocks do not show yet.
    fn walk_pointers(&self, w: &mut Walk, ino: Ino) {
        if !w.pointers.insert(ino) {
            return;
        }
        if let Some(m) = self.more_of(ino) {
            m.slots.iter().flat_map(|(_, c)| &c.versions).for_each(|id| w.node(*id));
            m.bounds().chain(&m.ext).for_each(|id| w.node(*id));
        }
        for (key, all) in self.indirects.range(Engine::maps_of(ino)) {
            w.blocks.insert(*key);
            all.values().flat_map(|c| &c.versions).for_each(|id| w.node(*id));
        }
    }

    fn walk_node(&self, w: &mut Walk, id: Id) {
        if !w.nodes.insert(id) {
            return;
        }
        let Some(n) = self.nodes.get(id) else { return };
        match &n.what {
            What::Name(name) => {
                w.block(self.dir_key(name.at));
                // The block may have moved since.
                if self.inodes.get(&name.at.dir).is_some_and(|r| r.more.is_some()) {
                    w.todo.push(Step::File(name.at.dir));
                }
            }
            What::Claim(c) => match c.slot {
                PtrSlot::Indirect { ino, block, .. } => {
                    w.block(BufKey::File(ino, block));
                    // The size has to cover the block first.
                    self.walk_inode(w, ino);
                }
                PtrSlot::Direct(ino, _)
                | PtrSlot::IndirectRoot(ino, _)
                | PtrSlot::ExtAttr(ino, _) => {
                    self.walk_inode(w, ino);
                    // Others of the file may hide it: a fragment before it that is to grow, no block behind a hole.
                    if n.ready() && n.state == State::Never {
                        self.walk_pointers(w, ino);
                    }
                }
            },
            What::Ceiling { ino, .. } => self.walk_inode(w, *ino),
            What::Floor(f) => self.walk_inode(w, f.ino),
            What::Ext(x) => self.walk_inode(w, x.ino),
            What::Unlink { .. }
            | What::Free { .. }
            | What::FreeInode { .. }
            | What::Gate
            | What::Barrier
            | What::SyncPoint => {}
        }
        w.todo.extend(n.needs.iter().map(Need::cond).map(Step::Need));
    }

    /// See [`crate::ordering::Ordering::is_durable`].
    pub(super) fn is_durable_target(&self, goal: SyncTarget) -> bool {
        match goal {
            SyncTarget::File(ino) => self.file_reached(ino),
            SyncTarget::Directory(dir) => {
                let keys = Engine::content_of(dir);
                self.file_reached(dir)
                    && self.dirs.range(keys.clone()).next().is_none()
                    && self.blocks.range(keys).all(|(_, rec)| rec.durable >= rec.seq)
            }
            SyncTarget::Names(point) => {
                let node = self.sync_points.get(&point).and_then(|id| self.nodes.get(*id));
                node.is_none_or(|n| n.needs.is_empty())
            }
        }
    }

    fn file_reached(&self, ino: Ino) -> bool {
        let none_left =
            |m: &More| m.slots.is_empty() && m.bounds().next().is_none() && m.ext.is_none();
        self.indirects.range(Engine::maps_of(ino)).next().is_none()
            && self.inodes.get(&ino).is_none_or(|rec| {
                rec.is_durable()
                    && rec.names.is_empty()
                    && rec.more.as_deref().is_none_or(none_left)
                    && !rec.leaving.iter().any(|&id| self.nodes.contains_key(id))
            })
    }

    /// See [`crate::ordering::Ordering::begin_sync_point`].
    pub(super) fn begin_sync_point(&mut self, which: OlderNames) -> Option<SyncPoint> {
        let wanted = match which {
            OlderNames::All => self.changes_of_names(),
            OlderNames::MovedDirectories => self.names_of_moved_directories(),
        };
        if wanted.is_empty() || !holds(Rule::OlderNames) {
            return None;
        }
        let id = self.add(What::SyncPoint);
        for (on, level) in wanted {
            self.need_node(id, on, level, false);
        }
        let point = SyncPoint(self.sync_points.keys().next_back().map_or(1, |last| last.0 + 1));
        self.sync_points.insert(point, id);
        Some(point)
    }

    /// See [`crate::ordering::Ordering::end_sync_point`].
    pub(super) fn end_sync_point(&mut self, point: SyncPoint) {
        if let Some(id) = self.sync_points.remove(&point) {
            self.cancel(id);
        }
    }

    /// All that are outstanding: names entered, names to be taken out, and what follows when names are gone that
    /// were taken out of their blocks at once.
    fn changes_of_names(&self) -> Vec<(Id, Level)> {
        if self.dirs.is_empty() && self.unanchored.is_empty() && self.totals.removals == 0 {
            return Vec::new();
        }
        self.count_steps(self.nodes.len());
        let level = |n: &Node| match &n.what {
            // Of an operation that has not returned.
            What::Name(_) if self.is_gated(n) => None,
            What::Name(Name { nothing: true, .. }) | What::Unlink { name: Some(_), .. } => {
                Some(Level::Durable)
            }
            What::Name(_) => Some(Level::Anchored),
            _ => None,
        };
        self.nodes.iter().filter_map(|(id, n)| Some((id, level(n)?))).collect()
    }

    /// Whether an operation holds the name back that has not reported all yet.
    fn is_gated(&self, n: &Node) -> bool {
        let gate = |on: Id| matches!(self.nodes.get(on).map(|n| &n.what), Some(What::Gate));
        n.needs.iter().any(|need| matches!(need.cond(), Cond::Node(on, _) if gate(on)))
    }

    /// New names of directories, and what follows when the old ones are gone: of two names in one directory a
    /// check keeps the one that it finds first.
    fn names_of_moved_directories(&mut self) -> Vec<(Id, Level)> {
        let mut moved = std::mem::take(&mut self.moved_dirs);
        let mut wanted = Vec::new();
        moved.retain(|ino| {
            let Some(rec) = self.inodes.get(ino) else { return false };
            let left = rec.leaving.iter().map(|id| (*id, Level::Durable));
            let unlinks = rec.more.iter().flat_map(|m| &m.unlinks);
            let unlinks = unlinks.map(|id| (*id, Level::Durable));
            let names = rec.names.iter().map(|id| (*id, Level::Anchored));
            let all: SmallVec<[(Id, Level); 4]> = names.chain(left).chain(unlinks).collect();
            wanted.extend_from_slice(&all);
            !all.is_empty()
        });
        self.moved_dirs = moved;
        wanted
    }

    /// See [`crate::ordering::Event::EntriesExchanged`].
    pub(super) fn note_exchanged(&mut self, ino: Ino) {
        if self.inodes.get(&ino).is_some_and(|rec| !rec.names.is_empty()) {
            self.more(ino).exchanged = true;
        }
    }

    /// See [`crate::ordering::Ordering::is_exchanged`].
    pub(super) fn is_exchanged(&self, ino: Ino) -> bool {
        self.more_of(ino).is_some_and(|more| more.exchanged)
    }

    /// See [`crate::ordering::Ordering::is_entry_durable`].
    pub(super) fn name_is_settled(&self, at: DirPos) -> bool {
        let undecided =
            self.dirs.get(&self.dir_key(at)).and_then(|all| all.get(at.off.0)).is_some();
        !undecided && !self.unanchored.contains_key(&(at.dir, at.off))
    }

    /// A directory that is not new got a name.
    pub(super) fn note_moved(&mut self, dir: Ino) {
        self.moved_dirs.insert(dir);
    }
}
