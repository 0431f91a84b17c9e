//! Inodes: which of their states are on the device, what waits for them, and links not yet taken
//! off.
//!
//! # Invariants
//! 1. An inode without a record is on the device as its block's buffer has it, as far as anybody
//!    waits for it.
//! 2. A new inode is shown as free (but for generation and depth) until its group's map is durable.
//! 3. States are numbered, those of all inodes in one row: an image may be under way longer than the record
//!    of what it shows, and must not pass for one of a later state.
//! 4. The stored link count is the file's plus `pending`: one for every name or `..` that was removed
//!    in memory and that the device may still show.
//!
//! Reference: `spec/soft-updates.md` §4.3, §6.12.

use super::Engine;
use super::arena::Arena;
use super::blocks::{NewInode, Waiter};
use super::claims::Slots;
use super::graph::{Cond, Id, Level, What};
use super::list::List;
use super::memory::{heap, table_bytes, take, tree_bytes};
use super::set::Set;
use crate::buf::BufKey;
use crate::ordering::rules::{Rule, holds};
use crate::ordering::{FreeWhen, InodeChange, WorkItem};
use crate::row::Row;
use ffs_ondisk::{Dinode, DirOff, Ino};
use foldhash::fast::FixedState;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::num::NonZeroU32;

/// A new inode's way to the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Init {
    /// It was there before, or is there.
    Done,
    /// Not there. `mapped`: its group's map is. `issued`: it was in an image.
    New { mapped: bool, issued: bool },
}

/// What is known of an inode.
#[derive(Debug)]
pub(super) struct InodeRec {
    /// The last state stored in its block's buffer that somebody may wait for.
    pub(super) version: u64,
    /// The last of those on the device.
    pub(super) durable: u64,
    pub(super) init: Init,
    /// No state up to this one is the new inode's.
    since: u64,
    /// See the module's fourth invariant.
    pub(super) pending: u16,
    pub(super) waiters: Set<Waiter>,
    /// Its names that are not anchored, oldest first.
    pub(super) names: List<Id>,
    /// What lowers its count when the names are gone that it had before it was renamed.
    pub(super) leaving: List<Id>,
    /// What few inodes have.
    pub(super) more: Option<Box<More>>,
}

/// What few inodes have.
#[derive(Debug, Default)]
pub(super) struct More {
    pub(super) slots: Slots,
    /// Bounds on the size of a directory that an image may show, in the order of the sizes.
    pub(super) ceilings: VecDeque<Id>,
    /// Bounds below which an image must not show the size, by the in-core name of the indirect block that
    /// lost pointers (or `TAIL`), and in the order in which they were set.
    pub(super) floors: BTreeMap<(i64, u64), Id>,
    pub(super) ext: Option<Id>,
    /// An exchange gave the file one of its names that are not anchored.
    pub(super) exchanged: bool,
    /// The name that will make a new directory reachable.
    pub(super) anchor: Option<Id>,
    /// The `..` that names its new parent.
    pub(super) dotdot: Option<Id>,
    /// The directory whose count drops when this removed one is gone.
    pub(super) parent: Option<Ino>,
    /// Reserved records.
    pub(super) reserved: u32,
    /// Reserved records that are free now.
    pub(super) freed: BTreeSet<DirOff>,
    /// Frees that must come before its number's.
    pub(super) frees: Set<Id>,
    /// Of a directory: its links that will be taken off.
    pub(super) unlinks: SmallVec<[Id; 1]>,
    /// What is known of its size on the device, while pointers in indirect blocks wait for it.
    pub(super) reach: Option<Reach>,
}

/// A size on the device.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Reach {
    /// At least this.
    pub(super) durable: u64,
    /// In the newest image.
    pub(super) issued: u64,
}

impl More {
    fn bytes(&self) -> usize {
        let claims = self.slots.iter().map(|(_, c)| heap(&c.versions)).sum::<usize>();
        size_of::<More>()
            + heap(&self.slots)
            + claims
            + self.ceilings.capacity() * size_of::<Id>()
            + tree_bytes(&self.floors)
            + self.frees.bytes()
            + heap(&self.unlinks)
            + self.freed.len() * 2 * size_of::<DirOff>()
    }

    /// All bounds on the size.
    pub(super) fn bounds(&self) -> impl Iterator<Item = &Id> {
        self.ceilings.iter().chain(self.floors.values())
    }

    /// Floors for an indirect block, or of the end of the file ([`TAIL`](super::holes::TAIL)), oldest first.
    pub(super) fn floors_of(&self, block: i64) -> impl DoubleEndedIterator<Item = Id> {
        self.floors.range((block, 0)..=(block, u64::MAX)).map(|(_, id)| *id)
    }

    /// Whether any record is, or was and nobody was told.
    pub(super) fn any_reserved(&self) -> bool {
        self.reserved > 0 || !self.freed.is_empty()
    }

    fn is_empty(&self) -> bool {
        self.slots.is_empty()
            && self.ceilings.is_empty()
            && self.floors.is_empty()
            && self.frees.is_empty()
            && self.unlinks.is_empty()
            && self.freed.is_empty()
            && self.reserved == 0
            && !self.exchanged
            && self.reach.is_none()
            && (self.ext, self.anchor, self.dotdot, self.parent) == (None, None, None, None)
    }
}

impl InodeRec {
    /// Of an inode of which nothing is known.
    const NEW: InodeRec = InodeRec {
        version: 0,
        durable: 0,
        init: Init::Done,
        since: 0,
        pending: 0,
        waiters: Set::EMPTY,
        names: List::EMPTY,
        leaving: List::EMPTY,
        more: None,
    };

    /// Whether an image shows it as free because it must not be seen.
    pub(super) fn is_hidden(&self) -> bool {
        matches!(self.init, Init::New { mapped: false, .. })
    }

    /// Whether the device has its last state that somebody may wait for.
    pub(super) fn is_durable(&self) -> bool {
        self.init == Init::Done && self.durable >= self.version
    }

    fn never_seen(&self) -> bool {
        matches!(self.init, Init::New { issued: false, .. })
    }
}

/// Inodes in a row of the index: neighbours, as the files of a directory mostly are.
const ROW: usize = 16;

/// Number of the row of an inode, and its place in that.
fn row_of(ino: Ino) -> (u32, usize) {
    (ino.0 / ROW as u32, ino.0 as usize % ROW)
}

/// All that is known of inodes: the records lie together, and the index, which every step of every operation asks,
/// is small.
#[derive(Debug)]
pub(super) struct Inodes {
    /// Rows by their number.
    index: HashMap<u32, u32, FixedState>,
    /// Places of records, and one more: so that none takes no memory.
    rows: Arena<Row<NonZeroU32, ROW>>,
    recs: Arena<InodeRec>,
}

impl Inodes {
    pub(super) fn new() -> Inodes {
        Inodes { index: HashMap::default(), rows: Arena::new(), recs: Arena::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.recs.len()
    }

    /// Where the record of `ino` is.
    fn place(&self, ino: Ino) -> Option<u32> {
        let (number, at) = row_of(ino);
        let row = self.rows.at(*self.index.get(&number)?)?;
        row.get(at).map(|place| place.get() - 1)
    }

    pub(super) fn get(&self, ino: &Ino) -> Option<&InodeRec> {
        self.recs.at(self.place(*ino)?)
    }

    pub(super) fn get_mut(&mut self, ino: &Ino) -> Option<&mut InodeRec> {
        self.recs.at_mut(self.place(*ino)?)
    }

    /// The record of `ino`, made if there is none.
    fn entry(&mut self, ino: Ino) -> &mut InodeRec {
        let Inodes { index, rows, recs } = self;
        let (number, at) = row_of(ino);
        let row = *index.entry(number).or_insert_with(|| rows.insert(Row::default()).place());
        let row = rows.at_mut(row).unwrap_or_else(|| unreachable!("the index names rows"));
        let place = row.get_or_insert_with(at, || {
            NonZeroU32::MIN.saturating_add(recs.insert(InodeRec::NEW).place())
        });
        recs.at_mut(place.get() - 1).unwrap_or_else(|| unreachable!("a row names records"))
    }

    fn remove(&mut self, ino: &Ino) -> Option<InodeRec> {
        let (number, at) = row_of(*ino);
        let of_row = *self.index.get(&number)?;
        let row = self.rows.at_mut(of_row)?;
        let place = row.take(at)?;
        if row.is_empty() {
            self.rows.remove_at(of_row);
            take(&mut self.index, &number);
        }
        self.recs.remove_at(place.get() - 1)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Ino, &InodeRec)> {
        self.index.iter().flat_map(move |(number, row)| {
            (0..ROW).filter_map(move |at| {
                let place = self.rows.at(*row)?.get(at)?;
                Some((Ino(number * ROW as u32 + at as u32), self.recs.at(place.get() - 1)?))
            })
        })
    }

    /// Memory.
    pub(super) fn bytes(&self) -> usize {
        let lists = |r: &InodeRec| {
            r.waiters.bytes()
                + r.names.bytes()
                + r.leaving.bytes()
                + r.more.as_deref().map_or(0, More::bytes)
        };
        table_bytes::<(u32, u32)>(self.index.capacity())
            + self.rows.bytes()
            + self.recs.bytes()
            + self.recs.values().map(lists).sum::<usize>()
    }
}

impl Engine {
    pub(super) fn rec(&mut self, ino: Ino) -> &mut InodeRec {
        self.inodes.entry(ino)
    }

    pub(super) fn more(&mut self, ino: Ino) -> &mut More {
        self.rec(ino).more.get_or_insert_default()
    }

    /// The inode has a state that somebody may wait for.
    pub(super) fn new_state(&mut self, ino: Ino) -> u64 {
        self.states += 1;
        let state = self.states;
        self.rec(ino).version = state;
        state
    }

    /// Links of the directory's names that will be taken off.
    pub(super) fn unlinks_of(&self, ino: Ino) -> SmallVec<[Id; 1]> {
        self.more_of(ino).map(|m| m.unlinks.clone()).unwrap_or_default()
    }

    pub(super) fn unlist_unlink(&mut self, ino: Ino, id: Id) {
        let Some(rec) = self.inodes.get_mut(&ino) else { return };
        rec.leaving.retain(|u| *u != id);
        if let Some(more) = &mut rec.more {
            more.unlinks.retain(|u| *u != id);
        }
    }

    /// The name that `id` stood for is gone from the device, and `by` links of `ino` with it.
    pub(super) fn link_goes(&mut self, id: Id, ino: Ino, by: u16) {
        self.totals.removals = self.totals.removals.saturating_sub(1);
        self.unlist_unlink(ino, id);
        self.tidy(ino);
        if by > 0 {
            self.work.push_back(WorkItem::DropLinks { ino, by });
        }
    }

    /// Drops the record if it says nothing.
    pub(super) fn tidy(&mut self, ino: Ino) {
        let Some(rec) = self.inodes.get_mut(&ino) else { return };
        if let Some(more) = rec.more.as_mut().filter(|_| rec.names.is_empty()) {
            more.exchanged = false;
        }
        if rec.more.as_ref().is_some_and(|m| m.is_empty()) {
            rec.more = None;
        }
        let idle = rec.init == Init::Done
            && rec.durable >= rec.version
            && rec.pending == 0
            && rec.waiters.is_empty()
            && rec.names.is_empty()
            && rec.leaving.is_empty()
            && rec.more.is_none();
        if idle {
            self.inodes.remove(&ino);
        }
    }

    /// See [`crate::ordering::Event::InodeAllocated`].
    pub(super) fn inode_allocated(&mut self, ino: Ino) {
        let group = self.group_of_ino(ino);
        self.states += 1;
        let since = self.states;
        let mapped = !holds(Rule::MapBeforeInode);
        let block = self.touched(group);
        if !mapped {
            let (seq, taken) = (block.seq, since as u32);
            block.new_inodes.push_back(NewInode { seq, ino, taken });
            self.edges += 1;
        }
        let rec = self.rec(ino);
        (rec.init, rec.since) = (Init::New { mapped, issued: false }, since);
        rec.version = since;
    }

    /// The map that has the new inode is durable.
    pub(super) fn map_durable(&mut self, ino: Ino, taken: u32) {
        if let Some(rec) = self.inodes.get_mut(&ino)
            && rec.since as u32 == taken
            && let Init::New { mapped, .. } = &mut rec.init
        {
            *mapped = true;
        }
    }

    /// See [`crate::ordering::Event::InodeUpdated`]; answers the links to add.
    pub(super) fn inode_changed(&mut self, ino: Ino, why: InodeChange, d: &Dinode) -> u16 {
        let awaited = match why {
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
        };
        let rec = if awaited {
            self.states += 1;
            let rec = self.inodes.entry(ino);
            rec.version = self.states;
            rec
        } else {
            let Some(rec) = self.inodes.get_mut(&ino) else { return 0 };
            rec
        };
        let pending = rec.pending;
        if rec.more.is_some() {
            self.reconcile(ino, d);
            self.drain();
        }
        if why == InodeChange::Truncate && d.is_dir() {
            self.directory_cut(ino, d.size);
        }
        pending
    }

    /// `id` needs the inode as it is stored now.
    pub(super) fn need_inode(&mut self, id: Id, ino: Ino, anchor: bool) {
        let Some(rec) = self.inodes.get_mut(&ino) else { return };
        let version = match rec.init {
            Init::New { .. } => rec.version.max(rec.since + 1),
            Init::Done => rec.version,
        };
        if rec.durable < version && self.nodes.contains_key(id) {
            rec.waiters.wait(id, version);
            self.note(id, Cond::Inode(ino), anchor);
        }
    }

    /// The node is gone.
    pub(super) fn stop_waiting_for_inode(&mut self, id: Id, ino: Ino) {
        if let Some(rec) = self.inodes.get_mut(&ino) {
            rec.waiters.stop(id);
        }
    }

    /// An image that shows the inode's state `version` is durable.
    pub(super) fn inode_durable(&mut self, ino: Ino, version: u64, size: u64) {
        let Some(rec) = self.inodes.get_mut(&ino) else { return };
        if let Some(reach) = rec.more.as_mut().and_then(|m| m.reach.as_mut()) {
            reach.durable = size.min(reach.issued);
        }
        rec.durable = rec.durable.max(version);
        if version > rec.since {
            rec.init = Init::Done;
        }
        self.steps.set(self.steps.get() + rec.waiters.len() as u64);
        let due = rec.waiters.due(version);
        self.end_reach(ino);
        for id in due {
            self.meet(id, Cond::Inode(ino));
        }
        self.drain();
        self.tidy(ino);
    }

    /// Nothing waits for the inode's size any more.
    pub(super) fn end_reach(&mut self, ino: Ino) {
        if self.indirects.range(Engine::maps_of(ino)).next().is_none()
            && let Some(more) = self.inodes.get_mut(&ino).and_then(|r| r.more.as_mut())
        {
            more.reach = None;
        }
    }

    /// Adds to the links that the device may show besides those there are.
    pub(super) fn add_pending(&mut self, ino: Ino, by: u16) {
        let rec = self.rec(ino);
        rec.pending = rec.pending.saturating_add(by);
    }

    /// See [`crate::ordering::Event::LinksDropped`].
    pub(super) fn unlinked(&mut self, ino: Ino, by: u16) -> u16 {
        let Some(rec) = self.inodes.get_mut(&ino) else { return 0 };
        rec.pending = rec.pending.saturating_sub(by);
        let left = rec.pending;
        self.tidy(ino);
        left
    }

    /// Something that needed nothing more is done.
    pub(super) fn act(&mut self, id: Id) {
        let Some(n) = self.fulfil(id) else { return };
        match n.what {
            What::Unlink { ino, by, name } => {
                if let Some((key, seq)) = name {
                    self.forget_gone(key, seq);
                }
                self.link_goes(id, ino, by);
            }
            What::Free { ino, runs } => {
                if let Some(more) = self.inodes.get_mut(&ino).and_then(|r| r.more.as_mut()) {
                    more.frees.remove(&id);
                }
                self.work.push_back(WorkItem::FreeBlks(runs.into_vec()));
                self.tidy(ino);
            }
            What::FreeInode { ino, was_dir } => {
                self.work.push_back(WorkItem::FreeFile { ino, was_dir });
            }
            What::Name(_)
            | What::Claim(_)
            | What::Ceiling { .. }
            | What::Floor(_)
            | What::Ext(_)
            | What::Gate
            | What::Barrier
            | What::SyncPoint => {}
        }
    }

    /// See [`crate::ordering::Event::BlocksReleased`].
    pub(super) fn blocks_released(&self, ino: Ino) -> FreeWhen {
        let never = self.inodes.get(&ino).is_some_and(InodeRec::never_seen);
        if never { FreeWhen::Now } else { FreeWhen::Later }
    }

    /// See [`crate::ordering::Event::InodeReleased`].
    pub(super) fn inode_released(&mut self, ino: Ino, was_dir: bool) -> FreeWhen {
        self.take_freed(ino);
        // Without a record the device has it cleared already: another thread wrote its block just now.
        let Some(rec) = self.inodes.get_mut(&ino) else { return FreeWhen::Now };
        let parent = rec.more.as_mut().and_then(|m| m.parent.take());
        if rec.never_seen() || !holds(Rule::ZeroBeforeFree) {
            self.leave(ino);
            if let Some(parent) = parent {
                self.work.push_back(WorkItem::DropLinks { ino: parent, by: 1 });
            }
            return FreeWhen::Now;
        }
        if let Some(parent) = parent {
            let id = self.add(What::Unlink { ino: parent, by: 1, name: None });
            self.totals.removals += 1;
            self.need_inode(id, ino, false);
            self.act_if_free(id);
        }
        let frees = self.inodes.get(&ino).and_then(|r| r.more.as_ref()).map(|m| m.frees.clone());
        let id = self.add(What::FreeInode { ino, was_dir });
        self.totals.inodes += 1;
        self.need_inode(id, ino, false);
        for free in frees.unwrap_or_default() {
            self.need_node(id, free, Level::Durable, false);
        }
        self.act_if_free(id);
        FreeWhen::Later
    }

    pub(super) fn act_if_free(&mut self, id: Id) {
        if self.nodes.get(id).is_some_and(|n| n.needs.is_empty()) {
            self.act(id);
        }
    }

    /// An inode that the device never saw is gone: what waited for it has nothing to wait for.
    fn leave(&mut self, ino: Ino) {
        let Some(mut rec) = self.inodes.remove(&ino) else { return };
        for waiter in std::mem::take(&mut rec.waiters) {
            self.meet(waiter.id, Cond::Inode(ino));
        }
        self.drain();
        let (pending, freed) = (rec.pending, rec.names.is_empty());
        if pending > 0 || !freed {
            let kept = self.rec(ino);
            kept.pending = pending;
            kept.names = rec.names;
        }
    }

    /// See [`crate::ordering::Event::ContentBeforeName`].
    pub(super) fn data_before_name(&mut self, ino: Ino, dirty: &[BufKey]) {
        let newest = self.newest_name(ino).filter(|_| holds(Rule::ContentBeforeName));
        let Some(id) = newest else { return };
        for &key in dirty {
            self.touch(key);
            self.need_block(id, key);
        }
        self.new_state(ino);
        self.need_file(id, ino);
    }

    /// `id` needs what is stored of the file now: every pointer of it, and the size, if that is held back.
    pub(super) fn need_file(&mut self, id: Id, ino: Ino) {
        self.need_inode(id, ino, false);
        let own = self.inodes.get(&ino).and_then(|r| r.more.as_ref());
        let mut claims: Vec<Id> = own
            .map(|m| {
                let pointers = m.slots.iter().filter_map(|(_, c)| c.versions.last());
                pointers.chain(m.bounds()).copied().collect()
            })
            .unwrap_or_default();
        let maps = self.indirects.range(Engine::maps_of(ino)).flat_map(|(_, all)| all.values());
        claims.extend(maps.filter_map(|c| c.versions.last().copied()));
        for claim in claims {
            self.need_node(id, claim, Level::Durable, false);
        }
    }

    /// See [`crate::ordering::Event::BuffersDiscarded`].
    pub(super) fn blocks_forgotten(&mut self, ino: Ino, range: std::ops::RangeInclusive<i64>) {
        let keys = BufKey::File(ino, *range.start())..=BufKey::File(ino, *range.end());
        let blocks: Vec<BufKey> = self.blocks.range(keys.clone()).map(|(k, _)| *k).collect();
        let dirs: Vec<BufKey> = self.dirs.range(keys.clone()).map(|(k, _)| *k).collect();
        let maps: Vec<BufKey> = self.indirects.range(keys).map(|(k, _)| *k).collect();
        for key in dirs {
            self.forget_names(ino, key);
        }
        for key in maps {
            self.forget_indirect(ino, key);
        }
        for key in blocks {
            self.forget_block(ino, key);
        }
        self.drain();
        self.tidy(ino);
    }
}
