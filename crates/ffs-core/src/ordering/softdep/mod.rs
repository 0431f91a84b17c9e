//! Soft updates: metadata is never written synchronously and never wrong on the device.
//!
//! Every change that must not be seen too early is a node of a graph ([`graph`]). When a block is
//! written, its image leaves out what is not ready; when the image is durable, what waited for it
//! becomes ready, and what had to be done is handed out as [`WorkItem`]. The buffers always hold the
//! newest state.
//!
//! | module | holds |
//! | --- | --- |
//! | `arena`, `list`, `set`, `memory` | memory for many small things; how much it is |
//! | `graph` | nodes, needs, what follows when a need is met |
//! | `blocks` | blocks written as they are: groups, data |
//! | `inodes` | inodes, link counts, freeing |
//! | `claims` | pointers, the image of an inode and of an indirect block |
//! | `bounds` | bounds on the size that an image may show |
//! | `attributes` | the place of extended attributes |
//! | `names`, `records` | directory records, names entered |
//! | `removals` | names removed and replaced, the last-name rule |
//! | `dirimage` | the image of a directory block |
//! | `images` | writing: what an image shows, what follows when it is durable |
//! | `goals` | what fsync needs |
//! | `audit` | checks of the invariants, in debug builds |
//!
//! # Invariants
//! 1. The three rules (`spec/soft-updates.md` §1.1): nothing points to what is not initialised on
//!    the device, nothing is used again while something on the device points to it, the last
//!    pointer to something alive is not removed before a new one is durable. [`super::rules::Rule`]
//!    names their cases.
//! 2. A change that was in no image and is taken back leaves no trace: create and remove within the
//!    write delay write nothing.
//! 3. The engine calls nobody. It holds one lock, for moments; buffer locks come before it.
//!
//! Reference: the paper's soft updates; `spec/soft-updates.md`, all of it.

mod arena;
mod attributes;
mod audit;
mod blocks;
mod bounds;
mod claims;
mod dirimage;
mod goals;
mod graph;
mod holes;
mod images;
mod inodes;
mod list;
mod memory;
mod names;
mod records;
mod removals;
mod set;

use super::{
    DirPos, Event, FreeWhen, OlderNames, Ordering, Pending, Readiness, ReservedMask, Response,
    SyncPoint, SyncTarget, WorkItem,
};
use crate::buf::{BufKey, BufKind, Image, WriteHooks};
use crate::sync::{Mutex, MutexGuard};
use arena::Arena;
use ffs_ondisk::dir::DirFormat;
use ffs_ondisk::{DirOff, FragNo, Geometry, Ino};
use foldhash::fast::FixedState;
use graph::{Id, Node};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ops::{Deref, DerefMut, Range, RangeInclusive};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// Needs that a record has at most where it counts as one ([`Pending::records`]).
const NEEDS_PER_RECORD: u64 = 4;

/// The tenant.
#[derive(Debug)]
pub(crate) struct SoftUpdates(Locked);

/// Everything the tenant knows.
#[derive(Debug)]
struct Engine {
    g: Geometry,
    fmt: DirFormat,
    hasher: FixedState,
    nodes: Arena<Node>,
    blocks: BTreeMap<BufKey, blocks::BlockRec>,
    /// Reasons to write a block, so far.
    reasons: u64,
    inodes: inodes::Inodes,
    /// States of inodes, so far.
    states: u64,
    /// Undecided records, by block and offset in the directory.
    dirs: BTreeMap<BufKey, records::Records>,
    /// Undecided pointers, by indirect block and index.
    indirects: BTreeMap<BufKey, BTreeMap<u32, claims::Chain>>,
    /// Names removed in memory that the device may show, by the hash of directory and name.
    gone: HashMap<u64, names::Removed, FixedState>,
    /// Whether a record was reserved since nothing was known of any inode.
    reserved: bool,
    /// Directories in which records are free that nobody was told.
    freed_in: u64,
    /// Names, and gates, that the next name of a file waits for.
    before: HashMap<Ino, Vec<Id>, FixedState>,
    /// Names that renames and links gave since the last barrier, some of them perhaps in place.
    published: Vec<Id>,
    /// What removals from now on wait for: older names that renames and links gave.
    barrier: Option<Id>,
    /// Nodes that stand for sync points.
    sync_points: BTreeMap<SyncPoint, Id>,
    /// Directories that got another name, and may have it pending.
    moved_dirs: BTreeSet<Ino>,
    /// Names on the device, but not yet reachable.
    unanchored: HashMap<(Ino, DirOff), Id, FixedState>,
    /// Images being written.
    flying: HashMap<BufKey, images::Manifest, FixedState>,
    /// Images written and not flushed.
    landed: VecDeque<(u64, images::Manifest)>,
    /// Numbers what landed.
    stamp: u64,
    work: VecDeque<WorkItem>,
    /// Needs of all nodes, and new inodes that wait for their group's map.
    edges: u64,
    /// Nodes, needs and waiters that anything looked at: what the bookkeeping costs.
    steps: Cell<u64>,
    /// Nodes that may have no needs left.
    met: Vec<Id>,
    /// Calls since the last audit.
    unaudited: u64,
    /// Written names whose claim is gone, to be looked at again.
    met_names: Vec<Id>,
    totals: Pending,
}

/// The engine, and what every operation asks of it, which is told without its lock.
#[derive(Debug)]
struct Locked {
    engine: Mutex<Engine>,
    records: AtomicU64,
    reserved: AtomicBool,
    freed: AtomicBool,
}

impl Locked {
    fn new(engine: Engine) -> Locked {
        let (reserved, freed) = (AtomicBool::new(false), AtomicBool::new(false));
        Locked { engine: Mutex::new(engine), records: AtomicU64::new(0), reserved, freed }
    }

    fn lock(&self) -> Guard<'_> {
        Guard { engine: self.engine.lock(), of: self }
    }
}

/// The engine locked. At the end it notes what is told without the lock: relaxed, as the number of records
/// is only a limit, and a reserved record is asked for under its directory's lock; one that is free may be told
/// later.
struct Guard<'a> {
    engine: MutexGuard<'a, Engine>,
    of: &'a Locked,
}

impl Deref for Guard<'_> {
    type Target = Engine;
    #[inline]
    fn deref(&self) -> &Engine {
        &self.engine
    }
}

impl DerefMut for Guard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        if cfg!(debug_assertions) && !std::thread::panicking() {
            self.engine.audit_sometimes();
        }
        self.engine.reserved &= self.engine.inodes.len() > 0;
        self.of.records.store(self.engine.records(), Relaxed);
        self.of.reserved.store(self.engine.reserved, Relaxed);
        self.of.freed.store(self.engine.freed_in > 0, Relaxed);
    }
}

impl SoftUpdates {
    /// For a volume without anything pending; `secret` keys the hashes of names.
    pub(crate) fn new(g: Geometry, secret: u64) -> SoftUpdates {
        SoftUpdates(Locked::new(Engine {
            g,
            fmt: DirFormat::of(&g),
            hasher: FixedState::with_seed(secret),
            nodes: Arena::new(),
            blocks: BTreeMap::new(),
            reasons: 0,
            inodes: inodes::Inodes::new(),
            states: 0,
            dirs: BTreeMap::new(),
            indirects: BTreeMap::new(),
            gone: HashMap::default(),
            reserved: false,
            freed_in: 0,
            before: HashMap::default(),
            published: Vec::new(),
            barrier: None,
            sync_points: BTreeMap::new(),
            moved_dirs: BTreeSet::new(),
            unanchored: HashMap::default(),
            flying: HashMap::default(),
            landed: VecDeque::new(),
            stamp: 0,
            work: VecDeque::new(),
            edges: 0,
            steps: Cell::new(0),
            met: Vec::new(),
            unaudited: 0,
            met_names: Vec::new(),
            totals: Pending::default(),
        }))
    }
}

impl Engine {
    fn count_steps(&self, n: usize) {
        self.steps.set(self.steps.get() + n as u64);
    }

    fn group_of(&self, at: FragNo) -> BufKey {
        BufKey::Meta(self.g.cgtod(self.g.dtog(at)))
    }

    fn group_of_ino(&self, ino: Ino) -> BufKey {
        BufKey::Meta(self.g.cgtod(self.g.ino_to_cg(ino)))
    }

    fn inode_key(&self, ino: Ino) -> BufKey {
        BufKey::Meta(self.g.ino_to_fsba(ino))
    }

    /// Keys of the indirect blocks of a file (and of its attributes, which no map has).
    fn maps_of(ino: Ino) -> Range<BufKey> {
        BufKey::File(ino, i64::MIN)..BufKey::File(ino, 0)
    }

    /// Keys of the blocks of content of a file.
    fn content_of(ino: Ino) -> RangeInclusive<BufKey> {
        BufKey::File(ino, 0)..=BufKey::File(ino, i64::MAX)
    }

    fn take_work(&mut self, max: usize) -> Vec<WorkItem> {
        let n = max.min(self.work.len());
        let out: Vec<WorkItem> = self.work.drain(..n).collect();
        if self.work.is_empty() {
            self.work.shrink_to(max.min(64));
        }
        for w in &out {
            match w {
                WorkItem::FreeBlks(runs) => {
                    let frags = runs.iter().map(|r| u64::from(r.frags)).sum();
                    self.totals.frags = self.totals.frags.saturating_sub(frags);
                }
                WorkItem::FreeFile { .. } => {
                    self.totals.inodes = self.totals.inodes.saturating_sub(1);
                }
                WorkItem::DropLinks { .. } => {}
            }
        }
        out
    }

    fn pending(&self) -> Pending {
        let known = (self.inodes.len() + self.blocks.len()) as u64 + self.edges;
        Pending { deps: self.records(), known, steps: self.steps.get(), ..self.totals }
    }

    /// Changes kept track of; or, if these need more than a few things each, as many as have that many needs:
    /// it bounds the memory.
    fn records(&self) -> u64 {
        ((self.nodes.len() + self.work.len()) as u64).max(self.edges / NEEDS_PER_RECORD)
    }
}

impl WriteHooks for SoftUpdates {
    fn make_image(&self, key: BufKey, kind: BufKind, copy: Option<&mut [u8]>) -> Image {
        self.0.lock().make_image(key, kind, copy)
    }
    fn written(&self, key: BufKey, ok: bool, durable: bool) -> bool {
        self.0.lock().written(key, ok, durable)
    }
    fn flushing(&self) -> u64 {
        self.0.lock().stamp
    }
    fn flushed(&self, began: u64) {
        self.0.lock().flushed(began);
    }
}

impl Ordering for SoftUpdates {
    fn name(&self) -> &'static str {
        "softdep"
    }
    fn notify(&self, event: Event<'_>) -> Response {
        self.0.lock().notify(event)
    }
    fn nlink_delta(&self, ino: Ino) -> u16 {
        self.0.lock().inodes.get(&ino).map_or(0, |r| r.pending)
    }
    fn has_reserved(&self, dir: Ino) -> bool {
        self.0.reserved.load(Relaxed) && self.0.lock().any_reserved(dir)
    }
    fn reserved_in(&self, dir: Ino, base: DirOff) -> ReservedMask {
        if !self.0.reserved.load(Relaxed) {
            return 0;
        }
        self.0.lock().reserved_beside(DirPos { dir, off: base })
    }
    fn reserved_for(&self, dir: Ino, name: &[u8]) -> Option<DirOff> {
        if !self.0.reserved.load(Relaxed) {
            return None;
        }
        self.0.lock().reserved_for(dir, name)
    }
    fn take_freed_entries(&self, dir: Ino) -> Vec<DirOff> {
        if !self.0.freed.load(Relaxed) {
            return Vec::new();
        }
        self.0.lock().take_freed(dir)
    }
    fn take_work(&self, max: usize) -> Vec<WorkItem> {
        self.0.lock().take_work(max)
    }
    fn readiness(&self, key: BufKey, kind: BufKind) -> Readiness {
        self.0.lock().readiness(key, kind)
    }
    fn held_by(&self, key: BufKey) -> Vec<BufKey> {
        self.0.lock().blocks.get(&key).map(|rec| rec.held_by.clone()).unwrap_or_default()
    }
    fn blocks_to_write(&self, target: SyncTarget) -> Vec<BufKey> {
        self.0.lock().blocks_to_write(target)
    }
    fn is_durable(&self, target: SyncTarget) -> bool {
        self.0.lock().is_durable_target(target)
    }
    fn is_exchanged(&self, ino: Ino) -> bool {
        self.0.lock().is_exchanged(ino)
    }
    fn is_entry_durable(&self, at: DirPos) -> bool {
        self.0.lock().name_is_settled(at)
    }
    fn begin_sync_point(&self, which: OlderNames) -> Option<SyncPoint> {
        self.0.lock().begin_sync_point(which)
    }
    fn end_sync_point(&self, point: SyncPoint) {
        self.0.lock().end_sync_point(point);
    }
    fn pending(&self) -> Pending {
        self.0.lock().pending()
    }
    fn deps(&self) -> u64 {
        self.0.records.load(Relaxed)
    }
    fn memory(&self) -> u64 {
        self.0.lock().memory() as u64
    }
}

impl Engine {
    fn notify(&mut self, event: Event<'_>) -> Response {
        let mut response = Response { free: FreeWhen::Later, ..Response::DELAY };
        match event {
            Event::InodeAllocated { ino } => self.inode_allocated(ino),
            Event::InodeBlockInitialized { block } => {
                let group = self.group_of(block.at);
                self.hold_group(group, BufKey::Meta(block.at));
            }
            Event::BlockAllocated { run } => _ = self.touch(self.group_of(run.at)),
            Event::PointerSet { slot, new, old, content, block } => {
                self.claim(slot, (new, old), content, block);
            }
            Event::PointerCancelled { slot, new } => self.unclaim(slot, new),
            Event::ExtAttrReplaced { ino, old, old_size } => self.ext_replaced(ino, old, old_size),
            Event::HolePunched { ino, index, old } => self.hole_made(ino, index, old),
            Event::InodeTruncated { ino, last, size, cleared } => {
                self.tail_cut(ino, last, size, cleared);
            }
            Event::IndirectTruncated { ino, block, entries, size } => {
                self.pointers_cleared(ino, block, entries, size);
            }
            Event::InodeUpdated { ino, why, dinode } => {
                response.nlink_delta = self.inode_changed(ino, why, dinode);
            }
            Event::LinksDropped { ino, by } => response.nlink_delta = self.unlinked(ino, by),
            Event::NameBarrierBegin { ino } => self.name_held(ino),
            Event::NameBarrierEnd { ino } => self.name_let_go(ino),
            Event::DirectoryMoves { dir, above } => self.moves_below(dir, above),
            Event::EntryAdded { at, target, kind, name } => {
                self.name_added(at, target, kind, name);
                response.reserved = self.reserved_beside(at);
            }
            Event::EntryReplaced { at, old, new, kind, removed } => {
                self.name_replaced(at, old, new, kind, removed);
            }
            Event::EntryRemoved { at, old, name, removed } => {
                response.reserve = self.name_removed(at, old, name, removed);
                response.reserved = self.reserved_beside(at);
            }
            Event::EntryMoved { from, to } => self.entry_moved(from, to),
            Event::DirectoryGrew { dir, lbn, old, new } => self.directory_grew(dir, lbn, old, new),
            Event::EntriesExchanged { ino } => self.note_exchanged(ino),
            Event::ContentBeforeName { ino, dirty } => self.data_before_name(ino, dirty),
            Event::BlocksReleased { ino } => response.free = self.blocks_released(ino),
            Event::BlocksFreed { ino, runs, partial } => self.free_after(ino, runs, partial),
            Event::BuffersDiscarded { ino, blocks } => self.blocks_forgotten(ino, blocks),
            Event::InodeReleased { ino, was_dir } => {
                response.free = self.inode_released(ino, was_dir);
            }
            Event::IndirectUpdated { .. } | Event::BlockTruncated { .. } | Event::BlockReplaced => {
            }
        }
        response
    }
}
