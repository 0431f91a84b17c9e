//! Names: which directory records may be shown, and what follows when they are on the device.
//!
//! A record with something undecided has a chain, as a pointer has ([`super::claims`]): what it names
//! on the device (inode 0: nothing), and what it named since. A record removed while nothing speaks
//! against it has none: it is merged into its neighbour, and what follows waits for the block.
//!
//! # Invariants
//! 1. A name's node is among the `names` of its inode until it is anchored or removed.
//! 2. A record whose last value is "nothing" is reserved: the directory code keeps it in place, with
//!    its name, so that it can be shown again.
//! 3. No image shows a name twice in a directory (`spec/soft-updates.md` §6.3a): a name removed
//!    elsewhere in the directory is gone before it is entered again; a reserved record of the name
//!    is the one that is used.
//!
//! Reference: `spec/soft-updates.md` §4.6, §6.1 to §6.10.

use super::graph::{Cond, Id, Level, Name, Need, State, What};
use super::inodes::More;
use super::list::List;
use super::memory::take;
use super::{Engine, records};
use crate::buf::BufKey;
use crate::ordering::rules::{Rule, holds};
use crate::ordering::{DirPos, EntryKind, EntryTarget, ReservedMask};
use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::{DirOff, FileType, Ino, Lbn};
use smallvec::SmallVec;
use std::hash::BuildHasher;
use std::num::NonZeroU64;

/// What a record names.
pub(super) type Value = (Ino, u8);

/// The values of a record; small, as there are as many as changes.
#[derive(Debug)]
pub(super) struct Chain {
    base_ino: Ino,
    base_type: u8,
    /// Its place in the chunk.
    pub(super) within: u16,
    /// Since then, oldest first.
    pub(super) versions: List<Id>,
}

impl Chain {
    pub(super) fn new(base: Value, off: u32) -> Chain {
        let within = (off % DIRBLKSIZ as u32) as u16;
        Chain { base_ino: base.0, base_type: base.1, within, versions: List::default() }
    }

    /// What is on the device.
    pub(super) fn base(&self) -> Value {
        (self.base_ino, self.base_type)
    }
}

/// A name that is removed in memory and may be on the device.
#[derive(Clone, Copy, Debug)]
pub(super) enum Removed {
    /// It was taken out of the block at this reason to write it; the chunk it was in.
    Plain { seq: u64, chunk: u32 },
    /// Its record is reserved.
    Reserved(DirOff),
}

/// Nothing.
pub(super) const NOTHING: Value = (Ino(0), 0);

impl Engine {
    /// Buffer of the directory block with `at`.
    pub(super) fn dir_key(&self, at: DirPos) -> BufKey {
        let lbn = self.g.lblkno(at.off.0.into());
        BufKey::File(at.dir, i64::try_from(lbn.0).unwrap_or(i64::MAX))
    }

    pub(super) fn name_hash(&self, dir: Ino, name: &[u8]) -> u64 {
        self.hasher.hash_one((dir.0, name))
    }

    pub(super) fn record(&mut self, at: DirPos) -> Option<&mut Chain> {
        let key = self.dir_key(at);
        self.dirs.get_mut(&key)?.get_mut(at.off.0)
    }

    pub(super) fn drop_record(&mut self, at: DirPos) -> Option<Chain> {
        let key = self.dir_key(at);
        let all = self.dirs.get_mut(&key)?;
        let chain = all.remove(at.off.0);
        if all.is_empty() {
            self.dirs.remove(&key);
        }
        chain
    }

    /// The hash of the name in a reserved record.
    fn hash_of(&self, id: Id) -> Option<u64> {
        match &self.nodes.get(id)?.what {
            What::Name(n) => Some(n.hash),
            _ => None,
        }
    }

    pub(super) fn value(&self, id: Id) -> Option<Value> {
        match &self.nodes.get(id)?.what {
            What::Name(n) => Some(n.value()),
            _ => None,
        }
    }

    /// The undecided name of `ino` in the record `at`.
    pub(super) fn pending_name(&self, ino: Ino, at: DirPos) -> Option<Id> {
        let names = &self.inodes.get(&ino)?.names;
        let is_at = |id: &&Id| {
            self.nodes.get(**id).is_some_and(|n| matches!(&n.what, What::Name(n) if n.at == at))
        };
        names.iter().find(is_at).copied()
    }

    pub(super) fn newest_name(&self, ino: Ino) -> Option<Id> {
        self.inodes.get(&ino)?.names.last().copied()
    }

    pub(super) fn unlist(&mut self, ino: Ino, id: Id) {
        if let Some(rec) = self.inodes.get_mut(&ino) {
            rec.names.retain(|n| *n != id);
        }
        self.tidy(ino);
    }

    /// A value for the record at `at`; its needs follow.
    pub(super) fn new_value(&mut self, at: DirPos, value: Value) -> Id {
        let ((ino, dtype), nothing) = (value, value == NOTHING);
        self.add(What::Name(Name { at, ino, dtype, nothing, hash: 0 }))
    }

    /// See [`crate::ordering::Event::EntryAdded`].
    pub(super) fn name_added(
        &mut self,
        at: DirPos,
        target: EntryTarget,
        kind: EntryKind,
        name: &[u8],
    ) {
        let key = self.dir_key(at);
        self.touch(key);
        let hash = self.name_hash(at.dir, name);
        let removed = self.gone.get(&hash).copied();
        if matches!(removed, Some(Removed::Reserved(_))) {
            take(&mut self.gone, &hash);
        }
        let back = self.record(at).map(|c| c.base() == (target.ino, target.dtype));
        if back == Some(true) && self.restore(at) {
            return self.drain();
        }
        let id = self.new_value(at, (target.ino, target.dtype));
        self.need_target(id, at, target, kind);
        if let Some(Removed::Plain { seq, chunk }) = removed
            && chunk != chunk_of(at.off)
            && holds(Rule::UniqueName)
        {
            let old = self.dir_key(DirPos { dir: at.dir, off: start_of(chunk) });
            self.need_block_at(id, old, seq);
            // Perhaps the chunk was cut off since.
            self.need_shorter(id, at.dir);
        }
        if back.is_some() {
            self.succeed_reserved(at, id);
        }
        self.enter(at, NOTHING, id);
        self.list(id, at, target.ino, kind);
        if kind == EntryKind::Mkdir {
            self.more(target.ino).anchor = Some(id);
        }
        self.drain();
    }

    /// The record was reserved, and names again what the device shows: then nothing happened.
    fn restore(&mut self, at: DirPos) -> bool {
        let Some(chain) = self.record(at) else { return false };
        let (base, last) = (chain.base(), chain.versions.first().copied());
        let Some(last) = last.filter(|_| chain.versions.len() == 1) else { return false };
        if self.state(last) != Some(State::Never) || self.value(last) != Some(NOTHING) {
            return false;
        }
        // Of a rename: what takes the record next must not come before the new name.
        if !self.guards_of(last).is_empty() {
            return false;
        }
        self.drop_record(at);
        self.unreserve(at.dir, 1);
        if let Some(ino) = self.take_link(last) {
            self.link_stays(last, ino, 1);
        }
        let deps = self.nodes.get(last).map(|n| n.dependents.clone()).unwrap_or_default();
        for dep in deps {
            // The count that would have been lowered is the name's again.
            if let Some(What::Unlink { ino, by, .. }) = self.nodes.get(dep).map(|n| &n.what)
                && *ino == base.0
            {
                let by = *by;
                self.fulfil(dep);
                self.link_stays(dep, base.0, by);
            }
        }
        self.fulfil(last);
        true
    }

    /// The name whose removal `id` stood for is there again, and so are its `by` links of `ino`.
    fn link_stays(&mut self, id: Id, ino: Ino, by: u16) {
        self.unlist_unlink(ino, id);
        self.totals.removals = self.totals.removals.saturating_sub(1);
        self.unlinked(ino, by);
    }

    /// See [`crate::ordering::Event::DirectoryMoves`].
    pub(super) fn moves_below(&mut self, dir: Ino, above: &[Ino]) {
        let under_way: Vec<Id> = above.iter().filter_map(|a| self.newest_name(*a)).collect();
        self.before.remove(&dir);
        if !under_way.is_empty() && holds(Rule::NoCircle) {
            self.before.insert(dir, under_way);
        }
    }

    /// See [`crate::ordering::Event::NameBarrierBegin`].
    pub(super) fn name_held(&mut self, ino: Ino) {
        let gate = self.add(What::Gate);
        self.before.entry(ino).or_default().push(gate);
    }

    /// See [`crate::ordering::Event::NameBarrierEnd`].
    pub(super) fn name_let_go(&mut self, ino: Ino) {
        let Some(mut before) = self.before.remove(&ino) else { return };
        let nodes = &self.nodes;
        let is_gate = |id: &Id| matches!(nodes.get(*id).map(|n| &n.what), Some(What::Gate));
        let gates: SmallVec<[Id; 1]> = before.iter().copied().filter(is_gate).collect();
        before.retain(|id| !gates.contains(id));
        if !before.is_empty() {
            self.before.insert(ino, before);
        }
        for gate in gates {
            self.fulfil(gate);
        }
        self.drain();
    }

    /// What must be durable before a name of `target` may be seen.
    pub(super) fn need_target(&mut self, id: Id, at: DirPos, target: EntryTarget, kind: EntryKind) {
        if holds(Rule::InodeBeforeName) {
            self.need_inode(id, target.ino, false);
        }
        let is_dir = target.dtype == FileType::Directory.dirent();
        let is_link = target.dtype == FileType::Symlink.dirent();
        if kind == EntryKind::DotDot {
            return;
        }
        // An access list that restricts whom the mode lets in.
        if let Some(ext) = self.more_of(target.ino).and_then(|m| m.ext)
            && holds(Rule::AttributesBeforeName)
        {
            self.need_node(id, ext, Level::Durable, false);
        }
        if is_dir && kind == EntryKind::Existing {
            self.note_moved(target.ino);
        }
        if !self.before.is_empty()
            && let Some(mut before) = self.before.remove(&target.ino)
        {
            before.retain(|on| self.nodes.contains_key(*on));
            for &on in &before {
                self.need_node(id, on, Level::Anchored, false);
            }
            if !before.is_empty() {
                self.before.insert(target.ino, before);
            }
        }
        if is_dir && holds(Rule::ParentBeforeName) {
            self.need_inode(id, at.dir, false);
        }
        // Moved before, and the device may still show where from: see `need_dotdot`.
        if is_dir
            && holds(Rule::DotDotBeforeName)
            && let Some(dotdot) = self.more_of(target.ino).and_then(|m| m.dotdot)
        {
            self.need_node(id, dotdot, Level::Durable, false);
        }
        let first_block =
            is_dir && holds(Rule::BodyBeforeName) || is_link && holds(Rule::TextBeforeName);
        if first_block && self.inodes.get(&target.ino).is_some_and(|r| r.more.is_some()) {
            self.need_claims(id, target.ino, Lbn(0), true, false);
        }
    }

    /// The record at `at` gets `id` as its last value; `base` is what it named before, if nothing is
    /// known of it.
    pub(super) fn enter(&mut self, at: DirPos, base: Value, id: Id) {
        let (key, reserved) = (self.dir_key(at), self.value(id) == Some(NOTHING));
        let all = self.dirs.entry(key).or_default();
        all.enter(at.off.0, base, reserved).versions.push(id);
    }

    /// If the record is reserved by a removal that was in no image, `id` takes its place: it needs
    /// what that needed, and what waited for that waits for it.
    fn succeed_reserved(&mut self, at: DirPos, id: Id) {
        let Some(last) = self.record(at).and_then(|c| c.versions.last().copied()) else { return };
        if self.value(last) != Some(NOTHING) {
            return;
        }
        self.unreserve(at.dir, 1);
        if self.state(last) == Some(State::Never) && self.can_pass(last, id, |_| true) {
            if let Some(c) = self.record(at) {
                c.versions.pop();
            }
            self.supersede(last, id);
        }
    }

    /// `old`, which was in no image, is replaced by `id`.
    fn supersede(&mut self, old: Id, id: Id) {
        self.split(old);
        self.inherit(old, id);
        self.pass(old, Some(id));
        self.cancel(old);
    }

    /// `id` needs the names that `from` needs.
    pub(super) fn inherit(&mut self, from: Id, id: Id) {
        let needs: SmallVec<[Need; 2]> =
            self.nodes.get(from).map(|n| n.needs.iter().copied().collect()).unwrap_or_default();
        for need in needs.into_iter().filter(|n| !n.anchor()) {
            if let Cond::Node(on, Level::Anchored) = need.cond()
                && on != id
                && !self.reaches(on, id)
            {
                self.need_node(id, on, Level::Anchored, false);
            }
        }
    }

    /// Lists the name with its inode; to be anchored it needs its directory to be. The rest of the way is
    /// asked for when it is on the device: see [`Engine::name_written`], [`Engine::need_size`].
    pub(super) fn list(&mut self, id: Id, at: DirPos, ino: Ino, kind: EntryKind) {
        let anchor = self.anchor_of(at.dir).filter(|&a| a != id && holds(Rule::Anchored));
        if let Some(anchor) = anchor {
            self.need_node(id, anchor, Level::Anchored, true);
        }
        self.rec(ino).names.push(id);
        if kind == EntryKind::Existing {
            self.note_published(id);
        }
    }

    /// The size held back that covers the record.
    fn ceiling_over(&self, at: DirPos) -> Option<Id> {
        let more = self.more_of(at.dir)?;
        let off = u64::from(at.off.0);
        let span = |id: &Id| match self.nodes.get(*id).map(|n| &n.what) {
            Some(What::Ceiling { limit, new, .. }) => Some(*limit..*new),
            _ => None,
        };
        let covers = |id: &&Id| span(id).is_some_and(|s| s.contains(&off));
        // They are in the order of the sizes: what was cut off is not among them.
        let after = more.ceilings.partition_point(|id| span(id).is_some_and(|s| s.start <= off));
        more.ceilings.get(after.checked_sub(1)?).filter(covers).copied()
    }

    /// The name at `at`, which is on the device, can be is_durable_target only with the size that covers it. Nothing
    /// that this waits for waits for names.
    fn need_size(&mut self, id: Id, at: DirPos) {
        if let Some(hold) = self.ceiling_over(at).filter(|_| holds(Rule::Anchored)) {
            self.need_node(id, hold, Level::Durable, true);
        }
    }

    /// Whether the record can be is_durable_target from its directory once its block is on the device.
    pub(super) fn way_is_free(&self, at: DirPos) -> bool {
        let lbn = self.g.lblkno(at.off.0.into());
        self.ceiling_over(at).is_none() && self.claims_to(at.dir, lbn, true).is_empty()
    }

    /// The value is in its block, on the device. If the device does not show that block in its
    /// directory yet, it may still show an older one in its place: then the value counts later.
    pub(super) fn name_written(&mut self, id: Id) {
        let Some(What::Name(name)) = self.nodes.get(id).map(|n| &n.what) else { return };
        let at = name.at;
        let claim = self.claims_to(at.dir, self.g.lblkno(at.off.0.into()), true).pop();
        match claim.filter(|_| holds(Rule::MovedBlock)).and_then(|c| self.claim_mut(c)) {
            // Each image of the block says so again, of all the names in it.
            Some(claim) => {
                if let Err(at) = claim.names.binary_search(&id) {
                    claim.names.insert(at, id);
                }
            }
            None => self.name_durable(id),
        }
    }

    /// The value is on the device.
    fn name_durable(&mut self, id: Id) {
        let Some(n) = self.nodes.get(id) else { return };
        let What::Name(name) = &n.what else { return };
        let (at, value) = (name.at, name.value());
        let mut older = List::default();
        let mut done = false;
        if let Some(chain) = self.record(at)
            && chain.versions.contains(&id)
        {
            while let Some(v) = chain.versions.remove(0).filter(|v| *v != id) {
                older.push(v);
            }
            (chain.base_ino, chain.base_type) = value;
            done = chain.versions.is_empty();
        }
        if done {
            self.drop_record(at);
        }
        for v in older {
            // What it promised the newer value keeps.
            let ino = self.value(v).map_or(Ino(0), |v| v.0);
            self.unlist(ino, v);
            self.fulfil(v);
        }
        if value == NOTHING {
            self.reserved_gone(id, at, done);
            return;
        }
        if let Some(n) = self.nodes.get_mut(id) {
            n.state = State::Durable;
        }
        self.need_size(id, at);
        self.announce(id, Level::Durable);
        if self.more_of(at.dir).is_some_and(|m| m.dotdot == Some(id)) {
            self.more(at.dir).dotdot = None;
            self.fulfil(id);
            self.tidy(at.dir);
        } else if self.nodes.get(id).is_some_and(|n| n.needs.is_empty()) {
            self.anchored(id);
        } else {
            self.unanchored.insert((at.dir, at.off), id);
        }
    }

    pub(super) fn more_of(&self, ino: Ino) -> Option<&More> {
        self.inodes.get(&ino)?.more.as_deref()
    }

    /// A reserved record is gone from the device: it is free, unless it was taken again.
    fn reserved_gone(&mut self, id: Id, at: DirPos, free: bool) {
        if free {
            if let Some(hash) = self.hash_of(id)
                && matches!(self.gone.get(&hash), Some(Removed::Reserved(off)) if *off == at.off)
            {
                take(&mut self.gone, &hash);
            }
            self.unreserve(at.dir, 1);
            let more = self.more(at.dir);
            let first = more.freed.is_empty();
            more.freed.insert(at.off);
            self.freed_in += u64::from(first);
        }
        self.fulfil(id);
    }

    /// See [`crate::ordering::Ordering::take_freed_entries`].
    pub(super) fn take_freed(&mut self, dir: Ino) -> Vec<DirOff> {
        let more = self.inodes.get_mut(&dir).and_then(|r| r.more.as_mut());
        let freed = more.map(|m| std::mem::take(&mut m.freed)).unwrap_or_default();
        if !freed.is_empty() {
            self.freed_in = self.freed_in.saturating_sub(1);
            self.tidy(dir);
        }
        freed.into_iter().collect()
    }

    pub(super) fn unreserve(&mut self, dir: Ino, by: u32) {
        if let Some(more) = self.inodes.get_mut(&dir).and_then(|r| r.more.as_mut()) {
            more.reserved = more.reserved.saturating_sub(by);
        }
    }

    /// The name is durable and so is the way to it.
    pub(super) fn anchored(&mut self, id: Id) {
        let Some(What::Name(name)) = self.nodes.get(id).map(|n| &n.what) else { return };
        let (ino, at) = (name.ino, name.at);
        take(&mut self.unanchored, &(at.dir, at.off));
        if self.anchor_of(ino) == Some(id) {
            self.more(ino).anchor = None;
        }
        self.unlist(ino, id);
        self.fulfil(id);
    }

    /// The entry of a plainly removed name is out of date.
    pub(super) fn forget_gone(&mut self, key: u64, seq: NonZeroU64) {
        if matches!(self.gone.get(&key), Some(Removed::Plain { seq: s, .. }) if *s == seq.get()) {
            take(&mut self.gone, &key);
        }
    }

    /// See [`crate::ordering::Event::EntryMoved`].
    pub(super) fn entry_moved(&mut self, from: DirPos, to: DirPos) {
        let Some(chain) = self.drop_record(from) else {
            return self.move_unanchored(from, to);
        };
        for v in chain.versions.iter() {
            if let Some(n) = self.nodes.get_mut(*v)
                && let What::Name(n) = &mut n.what
            {
                n.at = to;
            }
        }
        let key = self.dir_key(to);
        self.dirs.entry(key).or_default().insert(to.off.0, chain);
    }

    /// A name that is durable but not anchored has no chain; it moves all the same.
    fn move_unanchored(&mut self, from: DirPos, to: DirPos) {
        let Some(id) = take(&mut self.unanchored, &(from.dir, from.off)) else { return };
        if let Some(n) = self.nodes.get_mut(id)
            && let What::Name(n) = &mut n.what
        {
            n.at = to;
            self.unanchored.insert((to.dir, to.off), id);
        }
    }

    /// See [`crate::ordering::Event::DirectoryGrew`].
    pub(super) fn directory_grew(&mut self, dir: Ino, lbn: Lbn, old: u64, new: u64) {
        if !holds(Rule::SizeBehindContent) {
            return;
        }
        let key = BufKey::File(dir, i64::try_from(lbn.0).unwrap_or(i64::MAX));
        self.touch(key);
        let id = self.add(What::Ceiling { ino: dir, limit: old, new });
        self.more(dir).ceilings.push_back(id);
        self.need_block(id, key);
        self.need_claims(id, dir, lbn, false, false);
    }

    /// A directory block is gone with its directory, or was cut off: what was undecided in it waits
    /// for the directory's inode.
    pub(super) fn forget_names(&mut self, dir: Ino, key: BufKey) {
        let Some(all) = self.dirs.remove(&key) else { return };
        for chain in all.into_chains() {
            let last = chain.versions.last().copied();
            for v in chain.versions {
                self.split(v);
                for action in self.actions_of(v) {
                    self.need_shorter(action, dir);
                    self.detach(action, v);
                    self.act_if_free(action);
                }
                match self.value(v) {
                    // Others were given up when a name took their record.
                    Some(NOTHING) if Some(v) == last => {
                        self.unreserve(dir, 1);
                        if let Some(hash) = self.hash_of(v) {
                            take(&mut self.gone, &hash);
                        }
                    }
                    Some(NOTHING) => {}
                    Some((ino, _)) => {
                        self.unlist(ino, v);
                        if self.anchor_of(ino) == Some(v) {
                            self.more(ino).anchor = None;
                        }
                    }
                    None => {}
                }
                if self.more_of(dir).is_some_and(|m| m.dotdot == Some(v)) {
                    self.more(dir).dotdot = None;
                }
                self.fulfil(v);
            }
        }
    }

    /// The reserved record of a name, if no other one has its hash.
    pub(super) fn reserved_for(&self, dir: Ino, name: &[u8]) -> Option<DirOff> {
        let hash = self.name_hash(dir, name);
        match self.gone.get(&hash) {
            Some(Removed::Reserved(off)) => {
                let key = self.dir_key(DirPos { dir, off: *off });
                let last = self.dirs.get(&key)?.get(off.0)?.versions.last()?;
                (self.value(*last) == Some(NOTHING) && self.hash_of(*last) == Some(hash))
                    .then_some(*off)
            }
            _ => None,
        }
    }

    /// See [`crate::ordering::Ordering::has_reserved`].
    pub(super) fn any_reserved(&self, dir: Ino) -> bool {
        self.more_of(dir).is_some_and(More::any_reserved)
    }

    /// See [`crate::ordering::Ordering::reserved_in`]; of the chunk with `at`.
    pub(super) fn reserved_beside(&self, at: DirPos) -> ReservedMask {
        let any = |more: &&More| self.reserved && more.any_reserved();
        let Some(more) = self.more_of(at.dir).filter(any) else { return 0 };
        let of_block = if more.reserved > 0 { self.dirs.get(&self.dir_key(at)) } else { None };
        let held = of_block.map_or(0, |all| all.reserved_in(at.off.0));
        if more.freed.is_empty() {
            return held;
        }
        let base = start_of(chunk_of(at.off));
        let end = DirOff(base.0.saturating_add(DIRBLKSIZ as u32));
        more.freed.range(base..end).fold(held, |all, off| all | records::bit(off.0))
    }
}

/// Where a chunk starts.
fn start_of(chunk: u32) -> DirOff {
    DirOff(chunk.saturating_mul(DIRBLKSIZ as u32))
}

/// Which chunk, that is which sector, of a directory.
pub(super) fn chunk_of(off: DirOff) -> u32 {
    off.0 / DIRBLKSIZ as u32
}
