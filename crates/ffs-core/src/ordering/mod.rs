//! Ordering modes: when a change of metadata may reach the disk.
//!
//! | mode | `mount -o` | promise |
//! | --- | --- | --- |
//! | [`SyncOrdered`] | `sync` | operations wait for writes, in an order that fsck can repair |
//! | [`SoftUpdates`] | `softdep` | no write is waited for; the device is consistent at all times |
//! | [`Unordered`] | `async` | none until `sync`, `fsync` or unmount |
//!
//! # Invariants
//! 1. Operations execute the same steps in memory, in the order of `docs/spec/soft-updates.md` §6,
//!    in every mode. After each step they send an [`Event`] and obey its [`Response`] with
//!    [`crate::buf::BufCache::apply`]. No operation queries which mode is in force.
//! 2. An ordering mode never calls the file system back.
//! 3. Other threads write buffers between any two steps. So a step is reported while its buffer is
//!    locked, or before it is dirty. A name that depends on a later step of its operation is
//!    entered behind a name barrier ([`Event::NameBarrierBegin`]).
//!
//! Reference: `docs/spec/soft-updates.md` §11.

mod event;
mod journal;
mod none;
pub(crate) mod rules;
mod softdep;
mod sync;

pub(crate) use event::{
    BlockContent, DirPos, EntryKind, EntryTarget, Event, FragRun, FreeWhen, FreedRuns, InodeChange,
    ParentLink, PtrSlot, RemovedName, ReservedMask, Response,
};
pub(crate) use journal::{JournalFile, Journaled};
pub(crate) use none::Unordered;
pub(crate) use softdep::SoftUpdates;
pub(crate) use sync::SyncOrdered;

use crate::buf::{BufKey, BufKind, WriteHooks};
use crate::error::Result;
use ffs_ondisk::{CgNo, DirOff, Ino};

/// An item of the worklist: work that has become safe. The caller does the items in order, with no
/// lock held.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum WorkItem {
    /// The second half of a `dirrem`: lower the link count stored in the inode's block, send
    /// [`Event::LinksDropped`] under the block's lock, and free the file if it has neither links
    /// nor users.
    DropLinks {
        /// The file.
        ino: Ino,
        /// By how much.
        by: u16,
    },
    /// A `freeblks` or `freefrag`: mark the first runs free. If there are others, send
    /// [`Event::LeavesFreed`] with them.
    FreeBlks(FreedRuns),
    /// A `freefile`: mark an inode free.
    FreeFile {
        /// The inode.
        ino: Ino,
        /// Whether it was a directory.
        was_dir: bool,
    },
}

/// How much of a block would be rolled back if it were written now.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Readiness {
    /// No change.
    Whole,
    /// Some changes.
    Partial,
    /// The write would show no new change; or a crash after it would need less repair if another
    /// block were written first.
    Held,
}

/// The changes that an fsync waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SyncTarget {
    /// The file, and every name and directory above it.
    File(Ino),
    /// As `File`, and the entries of the directory.
    Directory(Ino),
    /// Older changes of names.
    Names(SyncPoint),
}

/// Which older changes of names an fsync makes durable besides the path to its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OlderNames {
    /// All, as the commit of a journal does.
    All,
    /// New names of directories that were renamed: any of them may be above the file.
    MovedDirectories,
}

/// The changes of names that were outstanding at a moment ([`Ordering::begin_sync_point`]).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct SyncPoint(pub(crate) u64);

/// Changes that an ordering mode tracks until they are durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pending {
    /// Dependencies.
    pub(crate) deps: u64,
    /// Blocks and inodes with dependencies, and edges between dependencies.
    pub(crate) known: u64,
    /// Dependencies, edges and waiters visited since the mount: the cost of the bookkeeping.
    pub(crate) steps: u64,
    /// Removals among the dependencies.
    pub(crate) removals: u64,
    /// Fragments that will be free.
    pub(crate) frags: u64,
    /// Inodes that will be free.
    pub(crate) inodes: u64,
}

/// How much of the journal is free.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum JournalSpace {
    /// A third or more, or no journal is kept.
    Enough,
    /// Less than a third: everything is made durable soon.
    Low,
    /// Less than a tenth: operations wait.
    Full,
}

/// Counts of a journal since the mount.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct JournalStats {
    /// The journal is kept.
    pub kept: bool,
    /// Sectors for segments.
    pub sectors: u64,
    /// Sectors in use.
    pub used: u64,
    /// Records made durable.
    pub records: u64,
    /// Segments written.
    pub segments: u64,
    /// Bytes of segments written.
    pub bytes: u64,
    /// Device flushes for segments.
    pub flushes: u64,
    /// Times that the journal was emptied.
    pub checkpoints: u64,
    /// Times that it was given up because it was full.
    pub overflows: u64,
}

/// An ordering mode.
///
/// The defaults are those of a mode without any order: every write is delayed, and every resource
/// is free at once.
pub(crate) trait Ordering: WriteHooks {
    /// The mode's name as mount options spell it.
    fn name(&self) -> &'static str;

    /// Records an event.
    fn notify(&self, _event: Event<'_>) -> Response {
        Response::DELAY
    }

    /// Whether the mode keeps a soft-updates journal if the volume has one.
    fn wants_journal(&self) -> bool {
        false
    }

    /// Whether a soft-updates journal is kept.
    fn keeps_journal(&self) -> bool {
        false
    }

    /// Begins to keep the journal `file`, which is empty: no segment has its time. Returns whether
    /// it is kept. Nothing is dirty.
    fn start_journal(&self, _file: JournalFile) -> bool {
        false
    }

    /// Stops keeping the journal. Everything is durable.
    fn stop_journal(&self) {}

    /// The counts of `groups` in the summary area are about to be written.
    ///
    /// # Errors
    /// The device's: the area must not be written.
    fn name_groups(&self, _groups: &[CgNo]) -> Result<()> {
        Ok(())
    }

    /// Everything is durable and no operation is in progress: the segments of the journal so far
    /// are not needed any more.
    ///
    /// # Errors
    /// The device's.
    fn checkpoint(&self) -> Result<()> {
        Ok(())
    }

    /// How much space the journal has.
    fn journal_space(&self) -> JournalSpace {
        JournalSpace::Enough
    }

    /// Counts of the journal.
    fn journal_stats(&self) -> JournalStats {
        JournalStats::default()
    }

    /// Links that the stored count of `ino` has more than the file ([`Response::nlink_delta`]).
    fn nlink_delta(&self, _ino: Ino) -> u16 {
        0
    }

    /// All inodes with such links, and their numbers.
    fn nlink_deltas(&self) -> Vec<(Ino, u16)> {
        Vec::new()
    }

    /// Whether any record of `dir` is reserved ([`Response::reserve`]), or was and has not been
    /// returned by [`Ordering::take_freed_entries`].
    fn has_reserved(&self, _dir: Ino) -> bool {
        false
    }

    /// The reserved records of the chunk at `base` of `dir`. A record is reserved until
    /// [`Ordering::take_freed_entries`] has returned it, or a name was entered there: so the set
    /// changes only under the directory's exclusive lock.
    fn reserved_in(&self, _dir: Ino, _base: DirOff) -> ReservedMask {
        0
    }

    /// The reserved record of `name` in `dir`, or of a name with the same hash: a new entry of that
    /// name must use it.
    fn reserved_for(&self, _dir: Ino, _name: &[u8]) -> Option<DirOff> {
        None
    }

    /// Records of `dir` that were reserved and are free space now. Each is returned once.
    fn take_freed_entries(&self, _dir: Ino) -> Vec<DirOff> {
        Vec::new()
    }

    /// Takes items of the worklist that can be done now, oldest first, at most `max`.
    fn take_work(&self, _max: usize) -> Vec<WorkItem> {
        Vec::new()
    }

    /// How much of the block would be rolled back if it were written now.
    fn readiness(&self, _key: BufKey, _kind: BufKind) -> Readiness {
        Readiness::Whole
    }

    /// The blocks that must be written before block `key` may be written at all
    /// ([`Readiness::Held`]).
    fn held_by(&self, _key: BufKey) -> Vec<BufKey> {
        Vec::new()
    }

    /// The blocks to be written next for `target`; none if it is durable, or if no write would
    /// bring it nearer.
    fn blocks_to_write(&self, _target: SyncTarget) -> Vec<BufKey> {
        Vec::new()
    }

    /// Whether everything that `target` names is durable, besides the file's own dirty blocks.
    fn is_durable(&self, _target: SyncTarget) -> bool {
        true
    }

    /// Whether an exchange gave the file a name that may not be on the device yet.
    fn is_exchanged(&self, _ino: Ino) -> bool {
        false
    }

    /// Whether the entry at `at` is on the device as it is in memory, and reachable.
    fn is_entry_durable(&self, _at: DirPos) -> bool {
        true
    }

    /// Starts to track the changes of names that are outstanding now, as [`SyncTarget::Names`];
    /// `None` if there are none. The caller ends it.
    fn begin_sync_point(&self, _which: OlderNames) -> Option<SyncPoint> {
        None
    }

    /// Stops tracking the sync point.
    fn end_sync_point(&self, _point: SyncPoint) {}

    /// The changes tracked now.
    fn pending(&self) -> Pending {
        Pending::default()
    }

    /// [`Pending::deps`] without a lock, for the limit that every operation checks.
    fn deps(&self) -> u64 {
        0
    }

    /// Bytes of memory that the tracked changes take.
    fn memory(&self) -> u64 {
        0
    }
}
