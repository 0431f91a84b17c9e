//! The graph of changes: what waits for what.
//!
//! A [`Node`] is a change that may be left out of images (a name, a pointer, a size) or something
//! to be done once its needs are met. Needs are conditions: a block written from now on, an inode's
//! present state written, another node durable or anchored. Whoever meets a condition takes it off
//! the nodes that wait for it.
//!
//! # Invariants
//! 1. A node's needs name what is not met yet, and only that; no two of them have the same condition.
//! 2. `A` is among the dependents of `B` exactly while `A` needs `B`; it is among the waiters of a block
//!    or an inode exactly while it needs that.
//! 3. The graph has no circle: a node needs only nodes that were there before it, except where a
//!    node that goes away passes its dependents on, and then [`Engine::reaches`] was asked; and names,
//!    which come to need a size, as no size needs a name.
//!
//! [`Engine::audit`] checks them.
//!
//! Reference: `spec/soft-updates.md` §2, §3.2.

use super::Engine;
use super::claims::Claim;
use super::names::{NOTHING, Value};
use super::set::Set;
use crate::buf::BufKey;
use crate::ordering::{DirPos, FragRun};
use ffs_ondisk::Ino;
use smallvec::SmallVec;
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::num::NonZeroU64;

pub(super) use super::arena::Id;

/// How far another change must have come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Level {
    /// It is durable.
    Durable,
    /// It is a name, durable, and so is the way to it from the root.
    Anchored,
}

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Cond {
    /// An image of the block, begun after the condition was set.
    Block(BufKey),
    /// An image that shows the inode as it was then or later.
    Inode(Ino),
    /// Another change.
    Node(Id, Level),
}

/// A condition of a node, as small as can be: there are more of them than changes. Two needs are the same
/// if their conditions are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Need {
    Block(BufKey),
    Inode(Ino),
    /// Another change; only for being anchored, or also for being in an image.
    Node(Id, Level, bool),
}

impl Ord for Need {
    fn cmp(&self, other: &Need) -> Ordering {
        self.cond().cmp(&other.cond())
    }
}

impl PartialOrd for Need {
    fn partial_cmp(&self, other: &Need) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Need {
    fn eq(&self, other: &Need) -> bool {
        self.cond() == other.cond()
    }
}

impl Eq for Need {}

impl Need {
    pub(super) fn new(what: Cond, anchor: bool) -> Need {
        match what {
            Cond::Block(key) => Need::Block(key),
            Cond::Inode(ino) => Need::Inode(ino),
            Cond::Node(id, level) => Need::Node(id, level, anchor),
        }
    }

    pub(super) fn cond(&self) -> Cond {
        match *self {
            Need::Block(key) => Cond::Block(key),
            Need::Inode(ino) => Cond::Inode(ino),
            Need::Node(id, level, _) => Cond::Node(id, level),
        }
    }

    /// Whether it is only for being anchored, not for being in an image.
    pub(super) fn anchor(&self) -> bool {
        matches!(self, Need::Node(_, _, true))
    }
}

/// Whether a change may be on the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// It was in no image.
    Never,
    /// It was in an image that was written, or tried to be.
    Issued,
    /// It is on the device.
    Durable,
}

/// What a node is.
#[derive(Debug)]
pub(super) enum What {
    /// The value of a directory record.
    Name(Name),
    /// The value of a pointer.
    Claim(Box<Claim>),
    /// A directory's size may not be shown beyond `limit`, until the bytes up to `new` are there.
    Ceiling { ino: Ino, limit: u64, new: u64 },
    /// A file's size may not be shown below `size`, until pointers beyond it are gone from an indirect block.
    Floor(Box<Floor>),
    /// The place of an inode's extended attributes.
    Ext(Box<ExtClaim>),
    /// Nothing of its own: an operation that has not told all yet holds a name back with it.
    Gate,
    /// Nothing of its own: it needs older names that renames and links gave, and the barrier before it.
    Barrier,
    /// Nothing of its own: it needs the changes of names that an fsync waits for.
    SyncPoint,
    /// To do: lower a link count. The name that went, if it was taken out of a block at once.
    Unlink { ino: Ino, by: u16, name: Option<(u64, NonZeroU64)> },
    /// To do: free blocks that were the inode's.
    Free { ino: Ino, runs: Box<[FragRun]> },
    /// To do: free the inode's number.
    FreeInode { ino: Ino, was_dir: bool },
}

/// The value of a directory record.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) at: DirPos,
    /// What it names. If that is nothing: whose count drops by one when that is durable, if anybody's.
    pub(super) ino: Ino,
    pub(super) dtype: u8,
    /// It names nothing, the record is reserved.
    pub(super) nothing: bool,
    /// The hash of the name, of a reserved record.
    pub(super) hash: u64,
}

impl Name {
    pub(super) fn value(&self) -> Value {
        if self.nothing { NOTHING } else { (self.ino, self.dtype) }
    }
}

/// A bound below which a file's size may not be shown.
#[derive(Debug)]
pub(super) struct Floor {
    pub(super) ino: Ino,
    /// In-core name of the indirect block that loses pointers, or `TAIL`.
    pub(super) block: i64,
    /// Tells it from others of that block: later ones have larger numbers.
    pub(super) number: u64,
    /// Bytes.
    pub(super) size: u64,
    /// The last pointer in the block that stays.
    pub(super) last: Option<u32>,
}

/// The place of an inode's extended attributes.
#[derive(Debug)]
pub(super) struct ExtClaim {
    pub(super) ino: Ino,
    pub(super) new: [i64; 2],
    /// What an image shows instead: on the device, or in an image that may be. `None`: what the inode
    /// has, which was not updated yet.
    pub(super) base: Option<([i64; 2], u32)>,
    /// The place before, if an image showed it that is not durable yet.
    pub(super) before: Option<Id>,
}

/// A node.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) what: What,
    pub(super) state: State,
    pub(super) needs: Set<Need>,
    pub(super) dependents: Set<Id>,
}

impl Node {
    /// Whether an image may show it.
    pub(super) fn ready(&self) -> bool {
        self.needs.iter().all(Need::anchor)
    }

    pub(super) fn needs(&self, cond: Cond) -> bool {
        self.needs.contains(&Need::new(cond, false))
    }

    /// Its needs for `on`, of either level.
    pub(super) fn needs_of(&self, on: Id) -> SmallVec<[Need; 2]> {
        let each = [Level::Durable, Level::Anchored].map(|level| Cond::Node(on, level));
        each.iter().filter_map(|c| self.needs.get(&Need::new(*c, false))).copied().collect()
    }
}

impl Engine {
    pub(super) fn add(&mut self, what: What) -> Id {
        let (needs, dependents) = (Set::default(), Set::default());
        self.nodes.insert(Node { what, state: State::Never, needs, dependents })
    }

    pub(super) fn state(&self, id: Id) -> Option<State> {
        self.nodes.get(id).map(|n| n.state)
    }

    /// Notes the condition in the node; whoever can meet it has to know the node. A need for being in an
    /// image is stronger than one for being anchored.
    pub(super) fn note(&mut self, id: Id, cond: Cond, anchor: bool) {
        let Some(n) = self.nodes.get_mut(id) else { return };
        match n.needs.replace(Need::new(cond, anchor)) {
            None => {
                self.edges += 1;
                self.count_steps(1);
            }
            Some(before) if anchor && !before.anchor() => _ = n.needs.replace(before),
            Some(_) => {}
        }
    }

    /// `id` needs `on` to come as far as `level`. Nothing if it has.
    pub(super) fn need_node(&mut self, id: Id, on: Id, level: Level, anchor: bool) {
        if on == id || !self.nodes.contains_key(id) {
            return;
        }
        let Some(n) = self.nodes.get_mut(on) else { return };
        if level == Level::Durable && n.state == State::Durable {
            return;
        }
        n.dependents.replace(id);
        self.note(id, Cond::Node(on, level), anchor);
    }

    /// The condition is met for `id`; who says so has taken `id` off its dependents or waiters.
    pub(super) fn meet(&mut self, id: Id, cond: Cond) {
        let Some(n) = self.nodes.get_mut(id) else { return };
        if n.needs.remove(&Need::new(cond, false)).is_some() {
            self.edges -= 1;
            if n.needs.is_empty() {
                self.met.push(id);
            }
        }
    }

    /// Does what follows from conditions that were met, until nothing follows any more.
    pub(super) fn drain(&mut self) {
        loop {
            while let Some(id) = self.met.pop() {
                if self.nodes.get(id).is_some_and(|n| n.needs.is_empty()) {
                    self.all_met(id);
                }
            }
            let Some(name) = self.met_names.pop() else { return };
            self.name_written(name);
        }
    }

    /// `id` has no needs left.
    pub(super) fn all_met(&mut self, id: Id) {
        let Some(n) = self.nodes.get(id) else { return };
        match (&n.what, n.state) {
            (What::Name(_), State::Durable) => self.anchored(id),
            (What::Unlink { .. } | What::Free { .. } | What::FreeInode { .. }, _) => self.act(id),
            (What::Barrier, _) => drop(self.fulfil(id)),
            _ => {}
        }
    }

    /// Takes a node out whose dependents, if any, have all they wanted of it.
    pub(super) fn fulfil(&mut self, id: Id) -> Option<Node> {
        let mut n = self.nodes.remove(id)?;
        if let What::Name(Name { ino, nothing: true, .. }) = n.what
            && ino.0 != 0
        {
            self.link_goes(id, ino, 1);
        }
        for dep in std::mem::take(&mut n.dependents) {
            self.meet(dep, Cond::Node(id, Level::Durable));
            self.meet(dep, Cond::Node(id, Level::Anchored));
        }
        self.forget_needs(id, &n);
        Some(n)
    }

    /// `id` is gone: nobody has to tell it anything.
    fn forget_needs(&mut self, id: Id, n: &Node) {
        self.edges -= n.needs.len() as u64;
        for need in n.needs.iter() {
            match need.cond() {
                Cond::Node(on, _) => {
                    if let Some(on) = self.nodes.get_mut(on) {
                        on.dependents.remove(&id);
                    }
                }
                Cond::Block(key) => self.stop_waiting_for_block(id, key),
                Cond::Inode(ino) => self.stop_waiting_for_inode(id, ino),
            }
        }
    }

    /// Tells the dependents that `id` has come as far as `level`.
    pub(super) fn announce(&mut self, id: Id, level: Level) {
        let Some(n) = self.nodes.get_mut(id) else { return };
        let mut dependents = std::mem::take(&mut n.dependents);
        dependents.retain(|&dep| {
            self.meet(dep, Cond::Node(id, level));
            self.nodes.get(dep).is_some_and(|d| !d.needs_of(id).is_empty())
        });
        if let Some(n) = self.nodes.get_mut(id) {
            n.dependents = dependents;
        }
    }

    /// Whether `found` holds for `from` or for a node that it needs, directly or through others.
    fn reaches_any(&self, from: Id, found: impl Fn(Id) -> bool) -> bool {
        let (mut stack, mut seen) = (vec![from], BTreeSet::new());
        while let Some(id) = stack.pop() {
            self.count_steps(1);
            if found(id) {
                return true;
            }
            if !seen.insert(id) {
                continue;
            }
            let needs = self.nodes.get(id).map(|n| n.needs.iter());
            stack.extend(needs.into_iter().flatten().filter_map(|n| match n.cond() {
                Cond::Node(on, _) => Some(on),
                Cond::Block(_) | Cond::Inode(_) => None,
            }));
        }
        false
    }

    fn has_dependents(&self, id: Id) -> bool {
        self.nodes.get(id).is_some_and(|n| !n.dependents.is_empty())
    }

    /// Whether `from` needs `to`, directly or through others.
    pub(super) fn reaches(&self, from: Id, to: Id) -> bool {
        // Most often `to` was just made, and nobody needs it.
        from == to || self.has_dependents(to) && self.reaches_any(from, |id| id == to)
    }

    /// Whether those dependents of `id` for which `which` holds may as well depend on `on`.
    pub(super) fn can_pass(&self, id: Id, on: Id, which: impl Fn(Id) -> bool) -> bool {
        let Some(n) = self.nodes.get(id) else { return true };
        let passed = |dep: Id| n.dependents.contains(&dep) && which(dep);
        if passed(on) {
            return false;
        }
        let within = n.dependents.iter().any(|&dep| which(dep) && self.has_dependents(dep));
        !within || !self.reaches_any(on, passed)
    }

    /// The dependents of `id` need `on` instead, or nothing.
    pub(super) fn pass(&mut self, id: Id, on: Option<Id>) {
        let Some(n) = self.nodes.get_mut(id) else { return };
        for dep in std::mem::take(&mut n.dependents) {
            self.pass_one(id, on, dep);
        }
    }

    /// As [`Engine::pass`], of those dependents for which `which` holds.
    pub(super) fn pass_some(
        &mut self,
        id: Id,
        on: Option<Id>,
        which: impl Fn(&Engine, Id) -> bool,
    ) {
        let Some(n) = self.nodes.get_mut(id) else { return };
        let all = std::mem::take(&mut n.dependents);
        let (passed, kept): (Vec<Id>, Vec<Id>) = all.into_iter().partition(|&d| which(self, d));
        if let Some(n) = self.nodes.get_mut(id) {
            kept.into_iter().for_each(|dep| _ = n.dependents.replace(dep));
        }
        for dep in passed {
            self.pass_one(id, on, dep);
        }
    }

    /// `dep`, which is not among the dependents of `id` any more, needs `on` instead, or nothing.
    fn pass_one(&mut self, id: Id, on: Option<Id>, dep: Id) {
        let Some(d) = self.nodes.get(dep) else { return };
        self.count_steps(1);
        for need in d.needs_of(id) {
            if let (Some(on), Cond::Node(_, level)) = (on, need.cond()) {
                self.need_node(dep, on, level, need.anchor());
            }
            self.meet(dep, need.cond());
        }
    }

    /// Removes a node that will never be in an image; its dependents were passed on.
    pub(super) fn cancel(&mut self, id: Id) -> Option<Node> {
        let n = self.nodes.remove(id)?;
        self.forget_needs(id, &n);
        Some(n)
    }

    /// Takes the need for `on` off `id` without more.
    pub(super) fn detach(&mut self, id: Id, on: Id) {
        let needs = self.nodes.get(id).map(|n| n.needs_of(on)).unwrap_or_default();
        if let Some(n) = self.nodes.get_mut(id) {
            self.edges -= needs.len() as u64;
            needs.iter().for_each(|need| _ = n.needs.remove(need));
        }
        if let Some(n) = self.nodes.get_mut(on) {
            n.dependents.remove(&id);
        }
    }
}
