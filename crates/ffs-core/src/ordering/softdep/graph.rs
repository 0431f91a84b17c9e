//! The graph of changes: what waits for what.
//!
//! A [`Node`] is a change that may be left out of images (a name, a pointer, a size) or something
//! to be done once its needs are met. Needs are conditions: a block written from now on, an inode's
//! present state written, another node durable or anchored. Whoever meets a condition takes it off
//! the nodes that wait for it.
//!
//! # Invariants
//! 1. A node's needs name what is not met yet, and only that.
//! 2. `A` is among the dependents of `B` exactly while `A` needs `B`.
//! 3. The graph has no circle: a node needs only nodes that were there before it, except where a
//!    node that goes away passes its dependents on, and then [`Engine::reaches`] was asked; and names,
//!    which come to need a size, as no size needs a name.
//!
//! Reference: `spec/soft-updates.md` §2, §3.2.

use super::Engine;
use super::claims::Claim;
use super::list::List;
use super::names::{NOTHING, Value};
use crate::buf::BufKey;
use crate::ordering::{DirPos, FragRun};
use ffs_ondisk::Ino;
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::num::NonZeroU64;

pub(super) use super::arena::Id;

/// How far another change must have come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Level {
    /// It is durable.
    Durable,
    /// It is a name, durable, and so is the way to it from the root.
    Anchored,
}

/// What is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Cond {
    /// An image of the block, begun after the condition was set.
    Block(BufKey),
    /// An image that shows the inode as it was then or later.
    Inode(Ino),
    /// Another change.
    Node(Id, Level),
}

/// A condition of a node, as small as can be: there are more of them than changes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Need {
    Block(BufKey),
    Inode(Ino),
    /// Another change; only for being anchored, or also for being in an image.
    Node(Id, Level, bool),
}

impl Need {
    fn new(what: Cond, anchor: bool) -> Need {
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
    Hold { ino: Ino, limit: u64, new: u64 },
    /// A file's size may not be shown below `size`, until pointers beyond it are gone: from an indirect block,
    /// where pointer `last` is the last that stays.
    Keep { ino: Ino, size: u64, last: Option<u32> },
    /// The place of an inode's extended attributes.
    Ext(Box<ExtClaim>),
    /// Nothing of its own: an operation that has not told all yet holds a name back with it.
    Gate,
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
    pub(super) needs: List<Need>,
    pub(super) dependents: List<Id>,
}

impl Node {
    /// Whether an image may show it.
    pub(super) fn ready(&self) -> bool {
        self.needs.iter().all(Need::anchor)
    }
}

impl Engine {
    pub(super) fn add(&mut self, what: What) -> Id {
        let (needs, dependents) = (List::default(), List::default());
        self.nodes.insert(Node { what, state: State::Never, needs, dependents })
    }

    pub(super) fn state(&self, id: Id) -> Option<State> {
        self.nodes.get(id).map(|n| n.state)
    }

    /// Notes the condition in the node; whoever can meet it has to know the node.
    pub(super) fn note(&mut self, id: Id, cond: Cond, anchor: bool) {
        if let Some(n) = self.nodes.get_mut(id) {
            n.needs.push(Need::new(cond, anchor));
        }
    }

    /// `id` needs `on` to come as far as `level`. Nothing if it has.
    pub(super) fn need_node(&mut self, id: Id, on: Id, level: Level, anchor: bool) {
        let Some(n) = self.nodes.get_mut(on) else { return };
        if level == Level::Durable && n.state == State::Durable || on == id {
            return;
        }
        n.dependents.push(id);
        self.note(id, Cond::Node(on, level), anchor);
    }

    /// The condition is met for `id`.
    pub(super) fn meet(&mut self, id: Id, cond: Cond) {
        self.met.push((id, cond));
    }

    /// Takes met conditions off, and does what follows, until nothing follows any more.
    pub(super) fn drain(&mut self) {
        loop {
            while let Some((id, cond)) = self.met.pop() {
                let Some(n) = self.nodes.get_mut(id) else { continue };
                if let Some(i) = n.needs.iter().position(|need| need.cond() == cond) {
                    n.needs.remove(i);
                }
                if n.needs.is_empty() {
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
        for need in n.needs.iter() {
            if let Cond::Node(on, _) = need.cond()
                && let Some(on) = self.nodes.get_mut(on)
                // Each need is there once. A directory not yet on the device has a dependent for each
                // name in it, and those that go are mostly the oldest: the search is short.
                && let Some(at) = on.dependents.iter().position(|d| *d == id)
            {
                on.dependents.remove(at);
            }
        }
    }

    /// Tells the dependents that `id` has come as far as `level`.
    pub(super) fn announce(&mut self, id: Id, level: Level) {
        let Some(n) = self.nodes.get_mut(id) else { return };
        let mut dependents = std::mem::take(&mut n.dependents);
        dependents.retain(|&dep| {
            self.met.push((dep, Cond::Node(id, level)));
            let other =
                |need: &Need| matches!(need.cond(), Cond::Node(on, l) if on == id && l != level);
            self.nodes.get(dep).is_some_and(|d| d.needs.iter().any(other))
        });
        if let Some(n) = self.nodes.get_mut(id) {
            n.dependents = dependents;
        }
    }

    /// Whether `from` needs `to`, directly or through others.
    pub(super) fn reaches(&self, from: Id, to: Id) -> bool {
        // Most often `to` was just made, and nobody needs it.
        if from == to || self.nodes.get(to).is_none_or(|n| n.dependents.is_empty()) {
            return from == to;
        }
        let (mut stack, mut seen) = (vec![from], BTreeSet::new());
        while let Some(id) = stack.pop() {
            if id == to {
                return true;
            }
            if !seen.insert(id) {
                continue;
            }
            let needs = self.nodes.get(id).map(|n| &*n.needs).unwrap_or_default();
            stack.extend(needs.iter().filter_map(|n| match n.cond() {
                Cond::Node(on, _) => Some(on),
                Cond::Block(_) | Cond::Inode(_) => None,
            }));
        }
        false
    }

    /// Whether every dependent of `id` may as well depend on `on`.
    pub(super) fn can_pass(&self, id: Id, on: Id) -> bool {
        let deps = self.nodes.get(id).map(|n| &*n.dependents).unwrap_or_default();
        deps.iter().all(|&dep| dep != on && !self.reaches(on, dep))
    }

    /// The dependents of `id` need `on` instead, or nothing.
    pub(super) fn pass(&mut self, id: Id, on: Option<Id>) {
        let Some(n) = self.nodes.get_mut(id) else { return };
        let dependents = std::mem::take(&mut n.dependents);
        if let Some(on) = on
            && self.nodes.get(on).is_some_and(|n| n.state != State::Durable)
            && !dependents.contains(&on)
        {
            return self.redirect(id, on, dependents);
        }
        for dep in dependents {
            let of_id = |need: &Need| matches!(need.cond(), Cond::Node(x, _) if x == id);
            let Some(d) = self.nodes.get_mut(dep) else { continue };
            let moved: SmallVec<[Need; 2]> = d.needs.iter().filter(|n| of_id(n)).copied().collect();
            match on {
                Some(on) => {
                    d.needs.retain(|n| !of_id(n));
                    for need in moved {
                        if let Cond::Node(_, level) = need.cond() {
                            self.need_node(dep, on, level, need.anchor());
                        }
                    }
                    if self.nodes.get(dep).is_some_and(|d| d.needs.is_empty()) {
                        self.all_met(dep);
                    }
                }
                None => {
                    for need in moved {
                        self.met.push((dep, need.cond()));
                    }
                }
            }
        }
    }

    /// Each need of `id` becomes one of `on`, which is not durable and not among those who have it.
    fn redirect(&mut self, id: Id, on: Id, dependents: List<Id>) {
        for dep in dependents.iter() {
            let needs = self.nodes.get_mut(*dep).map(|d| &mut d.needs);
            for need in needs.into_iter().flat_map(|needs| needs.iter_mut()) {
                if let Need::Node(of, ..) = need
                    && *of == id
                {
                    *of = on;
                }
            }
        }
        if let Some(n) = self.nodes.get_mut(on) {
            n.dependents.extend(dependents);
        }
    }

    /// Removes a node that will never be in an image; its dependents were passed on.
    pub(super) fn cancel(&mut self, id: Id) -> Option<Node> {
        let n = self.nodes.remove(id)?;
        self.forget_needs(id, &n);
        Some(n)
    }
}
