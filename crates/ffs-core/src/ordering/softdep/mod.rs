//! Soft updates: metadata is never written synchronously and never wrong on the device.
//!
//! Every change that must not be seen too early is a node of a graph ([`graph`]). When a block is
//! written, its image leaves out what is not ready; when the image is durable, what waited for it
//! becomes ready, and what had to be done is handed out as [`Work`]. The buffers always hold the
//! newest state.
//!
//! | module | holds |
//! | --- | --- |
//! | `graph` | nodes, needs, what follows when a need is met |
//! | `blocks` | blocks written as they are: groups, data |
//! | `inodes` | inodes, link counts, freeing |
//! | `claims` | pointers and sizes, the image of an inode and of an indirect block |
//! | `names` | directory records, names entered |
//! | `removals` | names removed and replaced, the last-name rule |
//! | `dirimage` | the image of a directory block |
//! | `images` | writing: what an image shows, what follows when it is durable |
//! | `goals` | what fsync needs |
//!
//! # Invariants
//! 1. The three rules (§1.1): nothing points to what is not initialised on the device, nothing is
//!    used again while something on the device points to it, the last pointer to something alive is
//!    not removed before a new one is durable. [`super::rules::Rule`] names their cases.
//! 2. A change that was in no image and is taken back leaves no trace: create and remove within the
//!    write delay write nothing.
//! 3. The engine calls nobody. It holds one lock, for moments; buffer locks come before it.
//!
//! Reference: the paper's soft updates; `spec/soft-updates.md`, all of it.

mod blocks;
mod claims;
mod dirimage;
mod goals;
mod graph;
mod images;
mod inodes;
mod names;
mod removals;

use super::{
    ClaimOf, DirPos, Disposition, FragRun, FreeNow, Goal, Gone, InodeAnswer, InodeChange, NameKind,
    NamedInode, Ordering, Pending, PtrSlot, Readiness, Removal, Work,
};
use crate::buf::{BufKey, BufKind, Image, WriteHooks};
use crate::sync::Mutex;
use ffs_ondisk::dir::DirFormat;
use ffs_ondisk::{Dinode, DirOff, FragNo, Geometry, Ino, Lbn};
use foldhash::fast::FixedState;
use graph::{Cond, Id, Node};
use slotmap::SlotMap;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::{Range, RangeInclusive};

/// The tenant.
#[derive(Debug)]
pub(crate) struct SoftUpdates(Mutex<Engine>);

/// Counts since the mount.
#[derive(Clone, Copy, Debug, Default)]
struct Stats {
    /// Images in which something was taken back.
    undone: u64,
    /// Flushes after which changes became durable.
    epochs: u64,
}

/// Everything the tenant knows.
#[derive(Debug)]
struct Engine {
    g: Geometry,
    fmt: DirFormat,
    hasher: FixedState,
    nodes: SlotMap<Id, Node>,
    blocks: BTreeMap<BufKey, blocks::BlockRec>,
    /// Reasons to write a block, so far.
    reasons: u64,
    inodes: HashMap<Ino, inodes::InodeRec, FixedState>,
    /// Undecided records, by block and offset in the directory.
    dirs: BTreeMap<BufKey, BTreeMap<u32, names::Chain>>,
    /// Undecided pointers, by indirect block and index.
    indirects: BTreeMap<BufKey, BTreeMap<u32, claims::Chain>>,
    /// Names removed in memory that the device may show, by directory and hash.
    gone: HashMap<(Ino, u64), names::Removed, FixedState>,
    /// Names that the next name of a directory waits for.
    before: HashMap<Ino, Vec<Id>, FixedState>,
    /// Names on the device, but not yet reachable.
    unanchored: HashMap<(Ino, DirOff), Id, FixedState>,
    /// Images being written.
    flying: HashMap<BufKey, images::Manifest, FixedState>,
    /// Images written and not flushed.
    landed: VecDeque<(u64, images::Manifest)>,
    /// Numbers what landed.
    stamp: u64,
    work: VecDeque<Work>,
    /// Conditions met, to be taken off.
    met: Vec<(Id, Cond)>,
    /// Written names whose claim is gone, to be looked at again.
    met_names: Vec<Id>,
    totals: Pending,
    stats: Stats,
}

impl SoftUpdates {
    /// For a volume without anything pending.
    pub(crate) fn new(g: Geometry) -> SoftUpdates {
        SoftUpdates(Mutex::new(Engine {
            g,
            fmt: DirFormat::of(&g),
            hasher: FixedState::default(),
            nodes: SlotMap::with_key(),
            blocks: BTreeMap::new(),
            reasons: 0,
            inodes: HashMap::default(),
            dirs: BTreeMap::new(),
            indirects: BTreeMap::new(),
            gone: HashMap::default(),
            before: HashMap::default(),
            unanchored: HashMap::default(),
            flying: HashMap::default(),
            landed: VecDeque::new(),
            stamp: 0,
            work: VecDeque::new(),
            met: Vec::new(),
            met_names: Vec::new(),
            totals: Pending::default(),
            stats: Stats::default(),
        }))
    }
}

impl Engine {
    fn group_of(&self, at: FragNo) -> BufKey {
        BufKey::Meta(self.g.cgtod(self.g.dtog(at)))
    }

    fn group_of_ino(&self, ino: Ino) -> BufKey {
        BufKey::Meta(self.g.cgtod(self.g.ino_to_cg(ino)))
    }

    fn inode_key(&self, ino: Ino) -> BufKey {
        BufKey::Meta(self.g.ino_to_fsba(ino))
    }

    fn take_work(&mut self, max: usize) -> Vec<Work> {
        let n = max.min(self.work.len());
        let out: Vec<Work> = self.work.drain(..n).collect();
        for w in &out {
            match w {
                Work::FreeRuns(runs) => {
                    let frags = runs.iter().map(|r| u64::from(r.frags)).sum();
                    self.totals.frags = self.totals.frags.saturating_sub(frags);
                }
                Work::FreeInode { .. } => {
                    self.totals.inodes = self.totals.inodes.saturating_sub(1);
                }
                Work::Unlink { .. } => {}
            }
        }
        out
    }

    fn pending(&self) -> Pending {
        // A node is known by a chain or a list, and by whatever tells it.
        let per_node = size_of::<Node>() + size_of::<names::Chain>() + 4 * size_of::<u64>();
        let per_inode = size_of::<inodes::InodeRec>() + size_of::<Ino>();
        let per_block = size_of::<blocks::BlockRec>() + size_of::<BufKey>();
        let bytes = self.nodes.len() * per_node
            + self.inodes.len() * per_inode
            + self.blocks.len() * per_block;
        let records = self.nodes.len() + self.work.len();
        Pending { records: records as u64, bytes: bytes as u64, ..self.totals }
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
    fn inode_allocated(&self, ino: Ino) -> Disposition {
        self.0.lock().inode_allocated(ino);
        Disposition::Delay
    }
    fn inode_block_initialised(&self, fresh: FragRun) -> Disposition {
        let mut e = self.0.lock();
        let group = e.group_of(fresh.at);
        e.hold_group(group, BufKey::Meta(fresh.at));
        Disposition::Delay
    }
    fn block_allocated(&self, run: FragRun) -> Disposition {
        let mut e = self.0.lock();
        let group = e.group_of(run.at);
        e.touch(group);
        Disposition::Delay
    }
    fn claim_set(
        &self,
        slot: PtrSlot,
        new: FragRun,
        old: Option<FragRun>,
        what: ClaimOf,
        block: BufKey,
    ) -> Disposition {
        self.0.lock().claim(slot, (new, old), what, block);
        Disposition::Delay
    }
    fn claim_dropped(&self, slot: PtrSlot, new: FragRun, old: Option<FragRun>) {
        self.0.lock().unclaim(slot, new, old);
    }
    fn run_replaced(&self, slot: PtrSlot, old: FragRun) -> FreeNow {
        self.0.lock().run_replaced(slot, old);
        FreeNow::Later
    }
    fn attributes_replaced(&self, ino: Ino, old: [i64; 2], old_size: u32) {
        self.0.lock().ext_replaced(ino, old, old_size);
    }
    fn indirect_changed(&self, _: Ino, _: ClaimOf) -> Disposition {
        Disposition::Delay
    }
    fn pointers_cleared(&self, ino: Ino, block: i64, entries: Range<usize>, size: u64) {
        self.0.lock().pointers_cleared(ino, block, entries, size);
    }
    fn inode_changed(&self, ino: Ino, why: InodeChange, d: &Dinode) -> InodeAnswer {
        let more_links = self.0.lock().inode_changed(ino, why, d);
        InodeAnswer { then: Disposition::Delay, more_links }
    }
    fn links_pending(&self, ino: Ino) -> u16 {
        self.0.lock().inodes.get(&ino).map_or(0, |r| r.pending)
    }
    fn unlinked(&self, ino: Ino, by: u16) -> u16 {
        self.0.lock().unlinked(ino, by)
    }
    fn moves_below(&self, dir: Ino, above: &[Ino]) {
        self.0.lock().moves_below(dir, above);
    }
    fn name_added(
        &self,
        at: DirPos,
        target: NamedInode,
        kind: NameKind,
        name: &[u8],
    ) -> Disposition {
        self.0.lock().name_added(at, target, kind, name);
        Disposition::Delay
    }
    fn name_replaced(
        &self,
        at: DirPos,
        old: NamedInode,
        new: NamedInode,
        kind: NameKind,
        gone: Gone,
    ) -> Disposition {
        self.0.lock().name_replaced(at, old, new, kind, gone);
        Disposition::Delay
    }
    fn name_removed(&self, at: DirPos, old: NamedInode, name: &[u8], gone: Gone) -> Removal {
        let reserve = self.0.lock().name_removed(at, old, name, gone);
        Removal { then: Disposition::Delay, reserve }
    }
    fn entry_moved(&self, from: DirPos, to: DirPos) {
        self.0.lock().entry_moved(from, to);
    }
    fn directory_grew(&self, dir: Ino, lbn: Lbn, old: u64, new: u64) {
        self.0.lock().directory_grew(dir, lbn, old, new);
    }
    fn has_reserved(&self, dir: Ino) -> bool {
        let e = self.0.lock();
        let more = e.inodes.get(&dir).and_then(|r| r.more.as_ref());
        more.is_some_and(|m| m.reserved > 0 || !m.freed.is_empty())
    }
    fn is_reserved(&self, at: DirPos) -> bool {
        self.0.lock().is_reserved(at)
    }
    fn reserved_for(&self, dir: Ino, name: &[u8]) -> Option<DirOff> {
        self.0.lock().reserved_for(dir, name)
    }
    fn take_freed_slots(&self, dir: Ino) -> Vec<DirOff> {
        let mut e = self.0.lock();
        let more = e.inodes.get_mut(&dir).and_then(|r| r.more.as_mut());
        let freed =
            more.map(|m| std::mem::take(&mut m.freed)).unwrap_or_default().into_iter().collect();
        e.tidy(dir);
        freed
    }
    fn blocks_released(&self, ino: Ino) -> FreeNow {
        self.0.lock().blocks_released(ino)
    }
    fn free_later(&self, ino: Ino, runs: Vec<FragRun>, partial: &[i64]) {
        self.0.lock().free_after(ino, runs, partial);
    }
    fn blocks_forgotten(&self, ino: Ino, blocks: RangeInclusive<i64>) {
        self.0.lock().blocks_forgotten(ino, blocks);
    }
    fn inode_released(&self, ino: Ino, was_dir: bool) -> FreeNow {
        self.0.lock().inode_released(ino, was_dir)
    }
    fn truncated_block(&self, _: Ino, _: BufKey) -> Disposition {
        Disposition::Delay
    }
    fn data_before_name(&self, ino: Ino, dirty: &[BufKey]) {
        let mut e = self.0.lock();
        let Some(id) = e.inodes.get(&ino).and_then(|r| r.names.last().copied()) else { return };
        for &key in dirty {
            e.touch(key);
            e.need_block(id, key);
        }
        e.rec(ino).version += 1;
        e.need_file(id, ino);
    }
    fn take_work(&self, max: usize) -> Vec<Work> {
        self.0.lock().take_work(max)
    }
    fn readiness(&self, key: BufKey, kind: BufKind) -> Readiness {
        self.0.lock().readiness(key, kind)
    }
    fn held_by(&self, key: BufKey) -> Vec<BufKey> {
        self.0.lock().blocks.get(&key).map(|rec| rec.held_by.clone()).unwrap_or_default()
    }
    fn next_for(&self, goal: Goal) -> Vec<BufKey> {
        self.0.lock().next_for(goal)
    }
    fn reached(&self, goal: Goal) -> bool {
        self.0.lock().reached(goal)
    }
    fn pending(&self) -> Pending {
        self.0.lock().pending()
    }
}
