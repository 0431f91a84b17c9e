//! Soft updates: metadata is written late, and the device is consistent at every moment.
//!
//! Every change that the device must not show too early is a dependency ([`dep`]) in a graph
//! ([`graph`]). A write of a block rolls back the changes that are not ready, in the copy that goes
//! to the device; the buffer keeps the newest state. When the write is durable, dependencies on it
//! are satisfied, and work that has become safe goes to the worklist as [`WorkItem`]s.
//!
//! | file | concept | `ffs_softdep.c` |
//! | --- | --- | --- |
//! | `log` | the target of log events | |
//! | `heap`, `smalllist`, `smallset`, `arena`, `invariant` | memory for many small values | |
//! | `blocktable` | values of blocks | |
//! | `dep`, `graph` | dependencies and their edges | `struct worklist` |
//! | `writes` | changes and writes of blocks | `b_dep`, `DEPCOMPLETE` |
//! | `bmsafemap` | cylinder groups | `bmsafemap` |
//! | `pointer`, `inodedep` | pointers and inodes | `allocdirect`, `inodedep` |
//! | `indirdep` | indirect blocks | `indirdep`, `allocindir` |
//! | `direntries`, `pagedep` | directory blocks | `pagedep` |
//! | `nameorder` | order among changes of names | |
//! | `inflight`, `worklist` | writes in flight; work | `softdep_workitem_pending` |
//! | `engine` | the state, and steps that join tables | |
//! | `pointers` | pointers by place | |
//! | `freeblks` | work that becomes due | `freeblks`, `freefrag`, `freefile` |
//! | `sizes` | bounds on sizes | |
//! | `extattr` | extended attributes | `id_extupdt` |
//! | `allocs` | allocations | `newblk`, `softdep_setup_*` |
//! | `holes`, `truncate` | cleared pointers, truncation | `softdep_setup_freeblocks` |
//! | `links` | link counts | `dirrem`, `id_nlinkdelta` |
//! | `reachable`, `guards` | names that others wait for | `mkdir` |
//! | `reserved` | reserved entries | |
//! | `entries` | names entered | `diradd`, `mkdir` |
//! | `removals` | names removed | `dirrem` |
//! | `discard` | buffers discarded | `deallocate_dependencies` |
//! | `inodes` | inodes stored and freed | `softdep_update_inodeblock` |
//! | `process` | consequences of conditions met | `handle_written_*` |
//! | `rollback_inode`, `rollback_indir`, `rollback_dir` | rollback | `initiate_write_*` |
//! | `write` | writes and completion | `softdep_disk_io_initiation` |
//! | `fsync` | blocks that an fsync writes | `softdep_fsync` |
//! | `audit`, `memory` | checks, memory | `KASSERT` |
//!
//! # Invariants
//! 1. The three rules (`docs/spec/soft-updates.md` §1.1): never point to a structure before it is
//!    initialised on the device; never reuse a resource before the device has no pointer to it;
//!    never remove the last pointer to a live resource before a new one is durable.
//!    [`super::rules::Rule`] names their cases.
//! 2. A change that no write contained and that is taken back leaves no trace: a file that is
//!    created and removed within the write delay causes no write.
//! 3. The engine calls no other module. It holds one lock, briefly; buffer locks come before it.
//! 4. Each file calls only files above it in the table.
//!
//! Reference: the paper's section on soft updates; `docs/spec/soft-updates.md`.

mod allocs;
mod arena;
mod audit;
mod blocktable;
mod bmsafemap;
mod dep;
mod direntries;
mod discard;
mod engine;
mod entries;
mod extattr;
mod freeblks;
mod fsync;
mod graph;
mod guards;
mod heap;
mod holes;
mod indirdep;
mod inflight;
mod inodedep;
mod inodes;
mod invariant;
mod links;
mod log;
mod memory;
mod nameorder;
mod pagedep;
mod pointer;
mod pointers;
mod process;
mod reachable;
mod removals;
mod reserved;
mod rollback_dir;
mod rollback_indir;
mod rollback_inode;
mod sizes;
mod smalllist;
mod smallset;
#[cfg(test)]
mod tests;
mod truncate;
mod worklist;
mod write;
mod writes;

use super::{
    DirPos, EntryTarget, Event, FreeWhen, OlderNames, Ordering, Pending, Readiness, ReservedMask,
    Response, SyncPoint, SyncTarget, WorkItem,
};
use crate::buf::{BufKey, BufKind, WriteHooks, WriteResult, WriteStart};
use crate::sync::{Mutex, MutexGuard};
use engine::Softdep;
use ffs_ondisk::{DirOff, Geometry, Ino};
use log::LOG;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use tracing::{Level, enabled, trace};

/// The ordering mode: the engine under its lock, and the answers that every operation needs, which
/// are read without the lock.
#[derive(Debug)]
pub(crate) struct SoftUpdates {
    engine: Mutex<Softdep>,
    deps: AtomicU64,
    reserved: AtomicBool,
    freed: AtomicBool,
}

/// The engine locked. When it is dropped, it publishes the answers that are read without the lock.
/// They are relaxed: the number of dependencies is only a limit, a reservation is queried under its
/// directory's lock, and a freed entry may be reported later.
struct Guard<'a> {
    engine: MutexGuard<'a, Softdep>,
    mode: &'a SoftUpdates,
}

impl Deref for Guard<'_> {
    type Target = Softdep;
    #[inline]
    fn deref(&self) -> &Softdep {
        &self.engine
    }
}

impl DerefMut for Guard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Softdep {
        &mut self.engine
    }
}

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        if cfg!(debug_assertions) && !std::thread::panicking() {
            self.engine.audit_sometimes();
        }
        self.engine.reserved &= self.engine.inodedeps.len() > 0;
        self.mode.deps.store(self.engine.deps(), Relaxed);
        self.mode.reserved.store(self.engine.reserved, Relaxed);
        self.mode.freed.store(self.engine.freed_dirs > 0, Relaxed);
    }
}

impl SoftUpdates {
    /// For a volume without pending changes; `secret` keys the hashes of names.
    pub(crate) fn new(g: Geometry, secret: u64) -> SoftUpdates {
        SoftUpdates {
            engine: Mutex::new(Softdep::new(g, secret)),
            deps: AtomicU64::new(0),
            reserved: AtomicBool::new(false),
            freed: AtomicBool::new(false),
        }
    }

    /// The inodes that a write may show in the entry at `at`, besides the present one.
    pub(super) fn older_values(&self, at: DirPos) -> Vec<EntryTarget> {
        self.lock().older_values(at)
    }

    fn lock(&self) -> Guard<'_> {
        Guard { engine: self.engine.lock(), mode: self }
    }
}

impl WriteHooks for SoftUpdates {
    fn start_write(&self, key: BufKey, kind: BufKind, copy: Option<&mut [u8]>) -> WriteStart {
        self.lock().start_write(key, kind, copy)
    }
    fn write_completed(&self, key: BufKey, result: WriteResult) -> bool {
        self.lock().write_completed(key, result)
    }
    fn flush_started(&self) -> u64 {
        self.lock().inflight.last_completed()
    }
    fn flush_completed(&self, started: u64) {
        self.lock().flush_completed(started);
    }
}

impl Ordering for SoftUpdates {
    fn name(&self) -> &'static str {
        "softdep"
    }
    fn notify(&self, event: Event<'_>) -> Response {
        self.lock().notify(event)
    }
    fn nlink_delta(&self, ino: Ino) -> u16 {
        self.lock().inodedeps.nlink_delta(ino)
    }
    fn nlink_deltas(&self) -> Vec<(Ino, u16)> {
        self.lock().inodedeps.nlink_deltas()
    }
    fn has_reserved(&self, dir: Ino) -> bool {
        self.reserved.load(Relaxed) && self.lock().has_reserved(dir)
    }
    fn reserved_in(&self, dir: Ino, base: DirOff) -> ReservedMask {
        if !self.reserved.load(Relaxed) {
            return 0;
        }
        self.lock().reserved_beside(DirPos { dir, off: base })
    }
    fn reserved_for(&self, dir: Ino, name: &[u8]) -> Option<DirOff> {
        if !self.reserved.load(Relaxed) {
            return None;
        }
        self.lock().reserved_for(dir, name)
    }
    fn take_freed_entries(&self, dir: Ino) -> Vec<DirOff> {
        if !self.freed.load(Relaxed) {
            return Vec::new();
        }
        self.lock().take_freed_entries(dir)
    }
    fn take_work(&self, max: usize) -> Vec<WorkItem> {
        self.lock().worklist.take(max)
    }
    fn readiness(&self, key: BufKey, kind: BufKind) -> Readiness {
        self.lock().readiness(key, kind)
    }
    fn held_by(&self, key: BufKey) -> Vec<BufKey> {
        self.lock().bmsafemaps.blocks_before(key).to_vec()
    }
    fn blocks_to_write(&self, target: SyncTarget) -> Vec<BufKey> {
        self.lock().blocks_to_write(target)
    }
    fn is_durable(&self, target: SyncTarget) -> bool {
        self.lock().is_durable(target)
    }
    fn is_exchanged(&self, ino: Ino) -> bool {
        self.lock().is_exchanged(ino)
    }
    fn is_entry_durable(&self, at: DirPos) -> bool {
        self.lock().is_entry_durable(at)
    }
    fn begin_sync_point(&self, which: OlderNames) -> Option<SyncPoint> {
        self.lock().begin_sync_point(which)
    }
    fn end_sync_point(&self, point: SyncPoint) {
        self.lock().end_sync_point(point);
    }
    fn pending(&self) -> Pending {
        self.lock().pending()
    }
    fn deps(&self) -> u64 {
        self.deps.load(Relaxed)
    }
    fn memory(&self) -> u64 {
        self.lock().memory() as u64
    }
}

impl Softdep {
    /// Records an event, and processes the dependencies that it satisfies.
    fn notify(&mut self, event: Event<'_>) -> Response {
        let entry = match &event {
            Event::EntryAdded { at, .. } | Event::EntryRemoved { at, .. } => Some(*at),
            _ => None,
        };
        let mut response = if enabled!(target: LOG, Level::TRACE) {
            self.handle_logged(event)
        } else {
            self.handle(event)
        };
        self.process_satisfied();
        response.reserved = entry.map_or(0, |at| self.reserved_beside(at));
        response
    }

    #[cold]
    fn handle_logged(&mut self, event: Event<'_>) -> Response {
        let text = event.to_string();
        let response = self.handle(event);
        let Response { free, nlink_delta, reserve, .. } = response;
        trace!(target: LOG, ?free, nlink_delta, reserve, "{text}");
        response
    }

    #[inline]
    fn handle(&mut self, event: Event<'_>) -> Response {
        let mut response = Response { free: FreeWhen::Later, ..Response::DELAY };
        match event {
            Event::InodeAllocated { ino, .. } => self.inode_allocated(ino),
            Event::InodeBlockInitialized { block } => self.inode_block_initialized(block),
            Event::BlockAllocated { run } => _ = self.writes.note_change(self.group_of(run.at)),
            Event::PointerSet { slot, new, old, content, block } => {
                self.pointer_set(slot, (new, old), content, block);
            }
            Event::PointerCancelled { slot, new } => self.pointer_cancelled(slot, new),
            Event::ExtAttrReplaced { ino, old, old_size } => {
                self.ext_attr_replaced(ino, old, old_size);
            }
            Event::HolePunched { ino, index, old, size } => {
                self.hole_punched(ino, index, old, size);
            }
            Event::InodeTruncated { ino, last, size, cleared } => {
                self.inode_truncated(ino, last, size, cleared);
            }
            Event::IndirectTruncated { ino, block, entries, size } => {
                self.indirect_truncated(ino, block, entries, size);
            }
            Event::InodeUpdated { ino, why, dinode } => {
                response.nlink_delta = self.inode_updated(ino, why, dinode);
            }
            Event::LinksDropped { ino, by } => {
                response.nlink_delta = self.inodedeps.lower_nlink_delta(ino, by);
            }
            Event::NameBarrierBegin { ino } => self.begin_name_barrier(ino),
            Event::NameBarrierEnd { ino } => self.end_name_barrier(ino),
            Event::DirectoryMoves { dir, above } => self.directory_moves(dir, above),
            Event::EntryAdded { at, target, kind, name } => {
                self.entry_added(at, target, kind, name);
            }
            Event::EntryReplaced { at, old, new, kind, removed } => {
                self.entry_replaced(at, old, new, kind, removed);
            }
            Event::EntryRemoved { at, old, name, removed } => {
                response.reserve = self.entry_removed(at, old, name, removed);
            }
            Event::EntryMoved { from, to, .. } => self.entry_moved(from, to),
            Event::DirectoryGrew { dir, lbn, old, new } => self.directory_grew(dir, lbn, old, new),
            Event::EntriesExchanged { ino } => self.entries_exchanged(ino),
            Event::ContentBeforeName { ino, dirty } => self.content_before_name(ino, dirty),
            Event::BlocksReleased { ino } => response.free = self.blocks_released(ino),
            Event::BlocksFreed { ino, runs, partial } => self.free_after(ino, runs, partial),
            Event::LeavesFreed { groups, runs } => self.leaves_freed(groups, runs),
            Event::BuffersDiscarded { ino, blocks } => self.buffers_discarded(ino, blocks),
            Event::InodeReleased { ino, was_dir } => {
                response.free = self.inode_released(ino, was_dir);
            }
            Event::IndirectUpdated { .. }
            | Event::BlockTruncated { .. }
            | Event::BlockReplaced
            | Event::LinkCount { .. }
            | Event::DirectoryBegun { .. }
            | Event::PointersCleared { .. }
            | Event::RunShortened { .. } => {}
        }
        response
    }
}
