//! Names removed or replaced: what has to be in place first, and what follows when they are gone.
//!
//! # Invariants
//! 1. Of a file whose last durable name goes while it has newer ones, one of those is anchored first
//!    (last-name rule); of a renamed file always the new one. Where the device never saw the name, what it
//!    shows in its place goes by the same rule, unless the new name waits for that.
//! 2. A name that the device never saw is removed without a trace, unless others count on it and
//!    cannot count on another.
//! 3. Every removal that the device may have to see has one node for the count: a [`What::Unlink`], or, of a
//!    reserved record that named a file, the value "nothing" itself.
//!
//! Reference: `spec/soft-updates.md` §6.3, §6.3b, §6.5, §6.7, §6.8.

use super::Engine;
use super::graph::{Cond, Id, Level, State, What};
use super::names::{Chain, NOTHING, Removed, chunk_of};
use crate::buf::BufKey;
use crate::ordering::rules::{Rule, holds};
use crate::ordering::{DirPos, EntryKind, EntryTarget, ParentLink, RemovedName};
use ffs_ondisk::{FileType, Ino};
use smallvec::SmallVec;
use std::num::NonZeroU64;

/// What hung on a name that was retracted: what was to be done when it had replaced another, and the
/// names it had to wait for because of that.
#[derive(Default)]
struct Left {
    actions: SmallVec<[Id; 2]>,
    guards: SmallVec<[Id; 2]>,
}

impl Engine {
    /// See [`crate::ordering::Event::EntryReplaced`].
    pub(super) fn name_replaced(
        &mut self,
        at: DirPos,
        old: EntryTarget,
        new: EntryTarget,
        kind: EntryKind,
        gone: RemovedName,
    ) {
        let key = self.dir_key(at);
        self.touch(key);
        let id = self.new_value(at, (new.ino, new.dtype));
        self.need_target(id, at, new, kind);
        if kind == EntryKind::DotDot {
            // A check keeps the name that `..` agrees with: not one in a directory that is lost itself.
            if let Some(anchor) = self.anchor_of(new.ino).filter(|&a| !self.reaches(a, id)) {
                self.need_node(id, anchor, Level::Anchored, false);
            }
            self.need_left(id, at.dir);
            self.enter(at, (old.ino, old.dtype), id);
            self.more(at.dir).dotdot = Some(id);
            self.need_dotdot(at.dir, id);
            return self.drain();
        }
        let own = self.pending_name(old.ino, at);
        let guardian = self.guardian(old.ino, own, gone);
        self.guard_inside(id, old.ino, gone);
        self.enter(at, (old.ino, old.dtype), id);
        match own.and_then(|own| self.retract(own, old.ino, at, id)) {
            Some(left) => {
                self.lower_dot(old.ino, gone);
                self.need_guardian(id, guardian, &left.actions);
                self.need_names(id, &left.guards);
                self.follow(&left.actions, id);
            }
            None => {
                self.need_guardian(id, guardian, &[]);
                self.lower(old, gone, Some(id), None);
            }
        }
        self.lower_parent(old.ino, gone, Some(id), None);
        self.list(id, at, new.ino, kind);
        self.drain();
    }

    /// See [`crate::ordering::Event::EntryRemoved`]; answers whether the record is reserved.
    pub(super) fn name_removed(
        &mut self,
        at: DirPos,
        old: EntryTarget,
        name: &[u8],
        gone: RemovedName,
    ) -> bool {
        let key = self.dir_key(at);
        let hash = self.name_hash(at.dir, name);
        let own = self.pending_name(old.ino, at);
        let guardian = self.guardian(old.ino, own, gone);
        let barrier = if gone.renamed { None } else { self.removal_barrier() };
        if own.is_none() && guardian.is_none() && barrier.is_none() && gone.drops < 2 {
            // On the device, and nothing speaks against its going: most names that are removed.
            let seq = self.touch(key);
            self.remove_plainly(at, (key, seq), hash);
            self.lower(old, gone, None, Some((hash, key, seq)));
            self.lower_parent(old.ino, gone, None, Some((key, seq)));
            self.drain();
            return false;
        }
        // A trial of what has to wait; it becomes the record's last value if anything does.
        let id = self.new_value(at, NOTHING);
        self.guard_inside(id, old.ino, gone);
        let bare =
            |c: &mut Chain| c.base() == NOTHING && c.versions.iter().all(|v| Some(*v) == own);
        let is_bare = self.record(at).is_some_and(bare);
        let retracted = own.and_then(|own| {
            let shown = !is_bare && !gone.renamed;
            self.remove_own(own, old.ino, (at, id), shown)
        });
        let seen = retracted.is_none();
        let left = retracted.unwrap_or_default();
        if !seen && is_bare {
            // The device never saw the name, nor another in its place.
            self.drop_record(at);
            self.fulfil(id);
            // What was to follow when the name had taken the place of another that the device never saw, either.
            for action in left.actions {
                self.act_if_free(action);
            }
            self.lower_dot(old.ino, gone);
            self.lower_parent(old.ino, gone, None, None);
            self.drain();
            return false;
        }
        if !seen {
            self.lower_dot(old.ino, gone);
        }
        self.need_guardian(id, guardian, &left.actions);
        self.need_names(id, &left.guards);
        self.need_barrier(id, barrier, &left.actions);
        let seq = self.touch(key);
        // What waits for it could not tell when its block has lost the name.
        if self.nodes.get(id).is_some_and(|n| n.needs.is_empty() && n.dependents.is_empty()) {
            self.fulfil(id);
            self.remove_plainly(at, (key, seq), hash);
            self.follow_block(&left.actions, (key, seq), hash);
            if seen {
                self.lower(old, gone, None, Some((hash, key, seq)));
            }
            self.lower_parent(old.ino, gone, None, Some((key, seq)));
            self.drain();
            return false;
        }
        self.enter(at, (old.ino, old.dtype), id);
        self.more(at.dir).reserved += 1;
        self.reserved = true;
        self.gone.insert(hash, Removed::Reserved(at.off));
        if let Some(What::Name(n)) = self.nodes.get_mut(id).map(|n| &mut n.what) {
            n.hash = hash;
        }
        self.follow(&left.actions, id);
        if seen {
            self.lower(old, gone, Some(id), None);
        }
        self.lower_parent(old.ino, gone, Some(id), None);
        self.drain();
        true
    }

    /// What hung on a name that is taken out of its block at once follows when the block is written.
    fn follow_block(&mut self, actions: &[Id], (key, seq): (BufKey, u64), hash: u64) {
        for &action in actions {
            // What the device shows under the name is another's: its count knows when that is gone.
            if let Some(What::Unlink { name: tag, .. }) =
                self.nodes.get_mut(action).map(|n| &mut n.what)
            {
                *tag = NonZeroU64::new(seq).map(|seq| (hash, seq));
            }
            self.need_block_at(action, key, seq);
            self.act_if_free(action);
        }
    }

    /// The name just entered for the directory `dir` waits for its `..`: of two names a check keeps the
    /// one that `..` agrees with, and that must not be the old one once the new one was fsynced, or took
    /// the place of another's.
    fn need_dotdot(&mut self, dir: Ino, dotdot: Id) {
        let Some(name) = self.newest_name(dir) else { return };
        if holds(Rule::DotDotBeforeName) && !self.reaches(dotdot, name) {
            self.need_node(name, dotdot, Level::Durable, false);
        }
    }

    /// `dotdot`, a new `..` of `dir`, needs the names gone that `dir` left before the one it leaves now: one of
    /// them may be in the new parent, and a check would keep that. Unless the one it leaves now was never
    /// seen: then one of those still stands for it.
    fn need_left(&mut self, dotdot: Id, dir: Ino) {
        let Some(rec) = self.inodes.get(&dir).filter(|_| holds(Rule::DotDotBeforeName)) else {
            return;
        };
        let left = rec.leaving.clone();
        let present = rec.names.len().checked_sub(2).and_then(|at| rec.names.get(at)).copied();
        if present.is_some_and(|name| self.state(name) == Some(State::Never)) {
            return;
        }
        for on in left {
            if !self.reaches(on, dotdot) {
                self.need_node(dotdot, on, Level::Durable, false);
            }
        }
    }

    /// The last-name rule: the name that must be anchored before a name of `ino` goes, `own` if that is
    /// undecided.
    fn guardian(&self, ino: Ino, own: Option<Id>, gone: RemovedName) -> Option<Id> {
        let names = &self.inodes.get(&ino)?.names;
        let others = || names.iter().copied().filter(|n| Some(*n) != own);
        let newest = others().next_back()?;
        let moved = gone.renamed && holds(Rule::NewNameFirst);
        let last = || {
            gone.names_left > 0
                && usize::from(gone.names_left) <= others().count()
                && holds(Rule::LastName)
        };
        (moved || last()).then_some(newest)
    }

    /// If `id` removes the directory `dir`, so it does the names its reserved records may still show:
    /// what those wait for, `id` waits for, and so do the removals of older names of the directory.
    fn guard_inside(&mut self, id: Id, dir: Ino, gone: RemovedName) {
        if gone.drops < 2 {
            return;
        }
        self.guard_contents(id, dir);
        for unlink in self.unlinks_of(dir) {
            let needs = self.nodes.get(unlink).map(|n| n.needs.clone());
            for need in needs.into_iter().flatten() {
                if let Cond::Node(older, _) = need.cond()
                    && self.value(older).is_some()
                {
                    self.inherit(id, older);
                }
            }
        }
    }

    fn guard_contents(&mut self, id: Id, dir: Ino) {
        if self.inodes.get(&dir).and_then(|r| r.more.as_ref()).is_none_or(|m| m.reserved == 0) {
            return;
        }
        let inside: Vec<Id> = (self.dirs.range(Engine::content_of(dir)))
            .flat_map(|(_, all)| all.iter())
            .filter_map(|(_, c)| c.versions.last().copied())
            .filter(|&v| self.value(v) == Some(NOTHING))
            .collect();
        for v in inside {
            self.inherit(v, id);
        }
    }

    /// The name `own` of `ino` goes, and its record gets the value `next`. If the device never saw the name, it is
    /// forgotten, and what hung on it is left to the caller; else others must not count on it any more. What
    /// waited for the name waits for another one of the file, or for the record to change.
    fn retract(&mut self, own: Id, ino: Ino, at: DirPos, next: Id) -> Option<Left> {
        let heir = self.succeed(own, ino);
        let in_chain = self.record(at).is_some_and(|c| c.versions.contains(&own));
        let can_pass = heir.is_none_or(|h| self.can_pass(own, h, |d| !self.is_action(d)));
        if !can_pass {
            // An image may skip it.
            let guards = self.guards_of(own);
            self.need_names(next, &guards);
            return None;
        }
        if !in_chain || self.state(own) != Some(State::Never) {
            self.pass_some(own, heir, |e, dep| !e.is_action(dep) && !e.is_point(dep));
            return None;
        }
        if let Some(c) = self.record(at) {
            c.versions.retain(|v| *v != own);
        }
        let left = Left { actions: self.actions_of(own), guards: self.guards_of(own) };
        for &action in &left.actions {
            self.detach(action, own);
        }
        let changed = || self.can_pass(own, next, |_| true).then_some(next);
        let to = heir.or_else(changed);
        let points = self.points_of(own);
        self.pass(own, to);
        self.cancel(own);
        // The device may show what the name had replaced: that has to be gone, too.
        for point in points {
            if !self.reaches(next, point) {
                self.need_node(point, next, Level::Anchored, false);
            }
        }
        Some(left)
    }

    /// The name `own` of `ino` is removed, with value `id` of its record. What the device shows in its place (`shown`)
    /// must not go before the names that were given earlier: if `own` is one of those, it is there first. Else as
    /// [`Engine::retract`].
    fn remove_own(
        &mut self,
        own: Id,
        ino: Ino,
        (at, id): (DirPos, Id),
        shown: bool,
    ) -> Option<Left> {
        let barred = |e: &Engine| e.points_of(own).iter().any(|dep| e.is_barrier(*dep));
        if shown && barred(self) {
            self.succeed(own, ino);
            return None;
        }
        self.retract(own, ino, at, id)
    }

    /// `own` is no name of `ino` any more: answers the newest of its others, which makes it reachable.
    fn succeed(&mut self, own: Id, ino: Ino) -> Option<Id> {
        self.unlist(ino, own);
        let heir = self.newest_name(ino);
        if self.anchor_of(ino) == Some(own) {
            self.more(ino).anchor = heir;
        }
        heir
    }

    /// `id` needs these names to be anchored.
    fn need_names(&mut self, id: Id, names: &[Id]) {
        for &on in names {
            if !self.reaches(on, id) {
                self.need_node(id, on, Level::Anchored, false);
            }
        }
    }

    /// The new value `id` of a record waits for the name that stands for the file from then on; not if that waits
    /// for it, or for what will hang on it (`actions`).
    fn need_guardian(&mut self, id: Id, guardian: Option<Id>, actions: &[Id]) {
        let Some(guardian) = guardian else { return };
        if !self.reaches(guardian, id) && !actions.iter().any(|&a| self.reaches(guardian, a)) {
            self.need_node(id, guardian, Level::Anchored, false);
        }
    }

    /// A rename or link gave a name. A journal would commit it with, or before, the removals that come after it,
    /// and programs count on that: they remove what the new name has replaced.
    pub(super) fn note_published(&mut self, name: Id) {
        if !holds(Rule::PublishedBeforeRemoval) {
            return;
        }
        if self.published.len() == self.published.capacity() {
            let nodes = &self.nodes;
            self.published.retain(|id| nodes.contains_key(*id));
        }
        self.published.push(name);
    }

    /// The barrier that a removal waits for; none if all names that were given before are in place. Each needs
    /// the one before it, so that they cost no more than the names.
    fn removal_barrier(&mut self) -> Option<Id> {
        let before = self.barrier.filter(|id| self.nodes.contains_key(*id));
        let names = std::mem::take(&mut self.published);
        let names = names.into_iter().filter(|id| self.nodes.contains_key(*id));
        let names: Vec<Id> = names.collect();
        if !names.is_empty() {
            let id = self.add(What::Barrier);
            for on in names {
                self.need_node(id, on, Level::Anchored, false);
            }
            if let Some(before) = before {
                self.need_node(id, before, Level::Durable, false);
            }
            self.barrier = Some(id);
            return self.barrier;
        }
        self.barrier = before;
        before
    }

    /// The barriers and sync points that wait for the name.
    fn points_of(&self, name: Id) -> SmallVec<[Id; 2]> {
        let deps = self.nodes.get(name).map(|n| n.dependents.iter().copied());
        deps.into_iter().flatten().filter(|dep| self.is_point(*dep)).collect()
    }

    fn is_point(&self, id: Id) -> bool {
        let what = self.nodes.get(id).map(|n| &n.what);
        matches!(what, Some(What::Barrier | What::SyncPoint))
    }

    fn is_barrier(&self, id: Id) -> bool {
        matches!(self.nodes.get(id).map(|n| &n.what), Some(What::Barrier))
    }

    /// The removal `id` waits for the barrier; not if that waits for it, or for what will hang on it.
    fn need_barrier(&mut self, id: Id, barrier: Option<Id>, actions: &[Id]) {
        let Some(barrier) = barrier else { return };
        if !self.reaches(barrier, id) && !actions.iter().any(|&a| self.reaches(barrier, a)) {
            self.need_node(id, barrier, Level::Durable, false);
        }
    }

    /// What hung on a value of a record follows when its next one, `id`, is durable. If that waits for
    /// a `..` which waits for the record to lose the directory's name, the directory has come back to the
    /// record it left: its `..` goes first.
    fn follow(&mut self, actions: &[Id], id: Id) {
        for &action in actions {
            let waiting = self.nodes.get(action).map(|n| n.dependents.clone()).unwrap_or_default();
            for dep in waiting {
                if self.value(dep).is_some() && self.reaches(id, dep) {
                    self.detach(dep, action);
                }
            }
            self.need_node(action, id, Level::Durable, false);
        }
    }

    pub(super) fn anchor_of(&self, ino: Ino) -> Option<Id> {
        self.inodes.get(&ino)?.more.as_ref()?.anchor
    }

    fn is_action(&self, id: Id) -> bool {
        self.nodes.get(id).is_some_and(|n| {
            matches!(n.what, What::Unlink { .. } | What::Free { .. } | What::FreeInode { .. })
        })
    }

    pub(super) fn actions_of(&self, id: Id) -> SmallVec<[Id; 2]> {
        let deps = self.nodes.get(id).map(|n| n.dependents.iter().copied());
        deps.into_iter().flatten().filter(|&d| self.is_action(d)).collect()
    }

    pub(super) fn guards_of(&self, id: Id) -> SmallVec<[Id; 2]> {
        let needs = self.nodes.get(id).map(|n| n.needs.iter());
        needs
            .into_iter()
            .flatten()
            .filter_map(|n| match n.cond() {
                Cond::Node(on, Level::Anchored) if !n.anchor() => Some(on),
                _ => None,
            })
            .collect()
    }

    /// The record goes with its block's next image: nothing speaks against it.
    fn remove_plainly(&mut self, at: DirPos, (key, seq): (BufKey, u64), hash: u64) {
        let versions = self.drop_record(at).map(|c| c.versions).unwrap_or_default();
        for v in versions {
            self.split(v);
            for action in self.actions_of(v) {
                self.need_block_at(action, key, seq);
                self.detach(action, v);
            }
            let ino = self.value(v).map_or(Ino(0), |v| v.0);
            self.unlist(ino, v);
            let heir = self.newest_name(ino);
            let heir = heir.filter(|&h| self.can_pass(v, h, |d| !self.is_action(d)));
            self.pass(v, heir);
            self.cancel(v);
        }
        self.gone.insert(hash, Removed::Plain { seq, chunk: chunk_of(at.off) });
    }

    /// The count of `old` drops when its name is gone: with value `id`, or with the block. Of that: the
    /// hash of the name, and the reason to write it.
    fn lower(
        &mut self,
        old: EntryTarget,
        gone: RemovedName,
        id: Option<Id>,
        block: Option<(u64, BufKey, u64)>,
    ) {
        if !holds(Rule::NameBeforeCount) {
            return;
        }
        let (ino, by) = (old.ino, gone.drops);
        // A directory's links have an order of their own; a name without a type may be one's.
        let file = old.dtype != 0 && old.dtype != FileType::Directory.dirent() && by == 1;
        self.totals.removals += 1;
        let mut with_value = None;
        if let Some(id) = id.filter(|_| file)
            && let Some(What::Name(name)) = self.nodes.get_mut(id).map(|n| &mut n.what)
            && name.nothing
        {
            name.ino = ino;
            with_value = Some(id);
        }
        let rec = self.rec(ino);
        rec.pending = rec.pending.saturating_add(by);
        if let Some(id) = with_value {
            if gone.renamed {
                rec.leaving.push(id);
            }
            return;
        }
        let tag = block.and_then(|(hash, _, seq)| Some((hash, NonZeroU64::new(seq)?)));
        let action = self.add(What::Unlink { ino, by, name: tag });
        if gone.drops >= 2 {
            // Of a directory the link of `.` goes besides: not while an older name may show it.
            self.need_unlinks(action, ino);
        }
        if !file {
            self.more(ino).unlinks.push(action);
        }
        if gone.renamed {
            self.rec(ino).leaving.push(action);
        }
        if let Some(id) = id {
            self.need_node(action, id, Level::Durable, false);
        }
        if let Some((_, key, seq)) = block {
            self.need_block_at(action, key, seq);
        }
        self.act_if_free(action);
    }

    /// The count that drops with `id`, which names nothing, waits for it from now on.
    pub(super) fn split(&mut self, id: Id) {
        let Some(ino) = self.take_link(id) else { return };
        let action = self.add(What::Unlink { ino, by: 1, name: None });
        self.need_node(action, id, Level::Durable, false);
        if let Some(rec) = self.inodes.get_mut(&ino) {
            rec.leaving.iter_mut().filter(|l| **l == id).for_each(|l| *l = action);
        }
    }

    /// Whose count drops with `id`, if it names nothing; not any more.
    pub(super) fn take_link(&mut self, id: Id) -> Option<Ino> {
        match &mut self.nodes.get_mut(id)?.what {
            What::Name(name) if name.nothing && name.ino.0 != 0 => {
                Some(std::mem::replace(&mut name.ino, Ino(0)))
            }
            _ => None,
        }
    }

    /// A directory is removed whose newest name the device never saw. If it may still show an older
    /// one, the link of `.` stays until that is gone too.
    fn lower_dot(&mut self, ino: Ino, gone: RemovedName) {
        let older = !self.unlinks_of(ino).is_empty();
        if gone.drops < 2 || !older || !holds(Rule::NameBeforeCount) {
            return;
        }
        self.add_pending(ino, 1);
        self.totals.removals += 1;
        let action = self.add(What::Unlink { ino, by: 1, name: None });
        self.need_unlinks(action, ino);
        self.more(ino).unlinks.push(action);
        self.act_if_free(action);
    }

    /// `action` needs every name of `ino` that was removed before to be gone.
    fn need_unlinks(&mut self, action: Id, ino: Ino) {
        let older = self.unlinks_of(ino);
        for unlink in older {
            self.need_node(action, unlink, Level::Durable, false);
        }
    }

    /// The count of a parent that loses a `..` drops when that is gone.
    fn lower_parent(
        &mut self,
        ino: Ino,
        gone: RemovedName,
        id: Option<Id>,
        block: Option<(BufKey, u64)>,
    ) {
        let parent = match gone.parent {
            ParentLink::None => return,
            ParentLink::Removed(parent) => {
                self.add_pending(parent, 1);
                self.more(ino).parent = Some(parent);
                return;
            }
            ParentLink::Moved(parent) => parent,
        };
        if !holds(Rule::DotDotBeforeCount) {
            return;
        }
        self.add_pending(parent, 1);
        self.totals.removals += 1;
        let action = self.add(What::Unlink { ino: parent, by: 1, name: None });
        let more = self.inodes.get(&ino).and_then(|r| r.more.as_ref());
        let dotdot = more.and_then(|m| m.dotdot);
        // If the name here was never seen, an older one may be: a check would have `..` agree with that.
        let older = self.inodes.get(&ino).map(|r| r.leaving.clone()).unwrap_or_default();
        for on in dotdot.into_iter().chain(older) {
            self.need_node(action, on, Level::Durable, false);
        }
        if let Some(id) = id {
            self.need_node(action, id, Level::Durable, false);
        }
        if let Some((key, seq)) = block {
            self.need_block_at(action, key, seq);
        }
        self.act_if_free(action);
    }
}
