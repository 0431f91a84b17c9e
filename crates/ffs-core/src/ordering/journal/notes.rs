//! From events to records.
//!
//! A record is made when the event is reported, before the buffer shows the change. The write path
//! makes all records durable before it writes a block of metadata, so a block never shows a change
//! without its record.
//!
//! Some steps of an operation have no record yet: an inode is taken before its name is entered, and
//! fragments before a pointer is set to them. If records are written between the two steps, a
//! record that names no place ([`NOWHERE`]), or a block of no file, covers the step.
//!
//! # Invariants
//! 1. The first record of an inode since the last checkpoint has the link count that the names on
//!    the device then accounted for.
//! 2. Each inode without a name that may be marked in use has a record since the last checkpoint,
//!    or [`Notes::take`] makes one.
//! 3. Each group whose counts were written since the last checkpoint, in its block or in the
//!    summary area, has a record: FreeBSD's recovery counts only groups with records of blocks.
//! 4. File data is written to an indirect block that was freed only when a later record names it
//!    ([`Notes::was_indirect`]).
//!
//! Reference: `docs/spec/soft-updates.md` §13.1.

use crate::ordering::rules::{Rule, holds};
use crate::ordering::{
    DirPos, EntryKind, EntryTarget, Event, FragRun, InodeChange, ParentLink, RemovedName,
};
use ffs_ondisk::journal::{Blk, Move, NOWHERE, Record, Ref};
use ffs_ondisk::{CgNo, Dinode, DirOff, FileType, FragNo, Geometry, Ino};
use foldhash::fast::FixedState;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// Byte offset of `..` in a directory.
const DOTDOT: u32 = 12;
/// The name of the first indirect block; those of the others are below.
const FIRST_INDIRECT: i64 = -12;
/// The least link count of a directory with a subdirectory.
const LEAST_PARENT: u16 = 3;

/// An inode without a name that a record since the last checkpoint names.
#[derive(Clone, Copy, Debug)]
struct Unnamed {
    /// File type, as in `di_mode`.
    mode: u16,
    /// The directory that the `..` of a removed directory counts for.
    parent: Option<Ino>,
}

/// Records that are not in a segment, and what further records depend on.
#[derive(Debug)]
pub(super) struct Notes {
    g: Geometry,
    records: Vec<Record>,
    /// Link counts of inodes with records since the last checkpoint: the count that the records
    /// lead to. The count in memory is higher while the name of a new link has no record.
    counts: HashMap<Ino, u16, FixedState>,
    /// Inodes without a name that no record covers, with their types as in `di_mode`.
    fresh: BTreeMap<Ino, u16>,
    /// Inodes without a name that a record covers.
    unnamed: HashMap<Ino, Unnamed, FixedState>,
    /// Fragments that were taken, and to which no pointer leads.
    unused: Vec<FragRun>,
    /// Groups that have a record since the last checkpoint.
    groups: BTreeSet<CgNo>,
    /// Indirect blocks that were freed since the last checkpoint. A recovery follows the content
    /// of one that no later record names.
    freed_indirect: BTreeSet<FragNo>,
}

/// The file type of an entry's type, as in `di_mode`.
fn mode_of(dtype: u8) -> u16 {
    u16::from(dtype) << 12
}

/// The mode of a directory.
fn directory() -> u16 {
    mode_of(FileType::Directory.dirent())
}

/// Whether records depend on the event.
pub(super) fn matters(event: &Event<'_>) -> bool {
    match event {
        Event::InodeUpdated { why, .. } => *why == InodeChange::NlinkInc,
        Event::InodeAllocated { .. }
        | Event::BlockAllocated { .. }
        | Event::PointerSet { .. }
        | Event::ExtAttrReplaced { .. }
        | Event::LinkCount { .. }
        | Event::DirectoryBegun { .. }
        | Event::PointersCleared { .. }
        | Event::RunShortened { .. }
        | Event::LeavesFreed { .. }
        | Event::EntryAdded { .. }
        | Event::EntryReplaced { .. }
        | Event::EntryRemoved { .. }
        | Event::EntryMoved { .. }
        | Event::InodeReleased { .. } => true,
        _ => false,
    }
}

impl Notes {
    pub(super) fn new(g: Geometry) -> Notes {
        Notes {
            g,
            records: Vec::new(),
            counts: HashMap::default(),
            fresh: BTreeMap::new(),
            unnamed: HashMap::default(),
            unused: Vec::new(),
            groups: BTreeSet::new(),
            freed_indirect: BTreeSet::new(),
        }
    }

    pub(super) fn geometry(&self) -> &Geometry {
        &self.g
    }

    /// Bytes of memory, about.
    pub(super) fn memory(&self) -> u64 {
        let entries = self.counts.len() * size_of::<(Ino, u16)>()
            + self.unnamed.len() * size_of::<(Ino, Unnamed)>();
        (self.records.capacity() * size_of::<Record>() + 2 * entries) as u64
    }

    /// Records that [`Notes::take`] would return now, at least.
    pub(super) fn len(&self) -> usize {
        self.records.len() + self.fresh.len() + self.unused.len()
    }

    /// Inodes without a name.
    pub(super) fn unnamed(&self) -> usize {
        self.unnamed.len()
    }

    /// Notes an event.
    pub(super) fn note(&mut self, event: &Event<'_>) {
        match *event {
            Event::InodeAllocated { ino, is_dir } => {
                let kind = if is_dir { FileType::Directory } else { FileType::Regular };
                let mode = mode_of(kind.dirent());
                self.counts.insert(ino, 0);
                self.fresh.insert(ino, mode);
            }
            // The name that the link is for has no record yet.
            Event::InodeUpdated { ino, dinode: Dinode { nlink, .. }, .. } => {
                self.counts.entry(ino).or_insert(nlink.saturating_sub(1));
            }
            Event::LinkCount { ino, nlink } => _ = self.counts.entry(ino).or_insert(nlink),
            Event::DirectoryBegun { dir, parent } => {
                self.add(dir, DirPos { dir, off: DirOff(0) }, directory());
                self.add(parent, DirPos { dir, off: DirOff(DOTDOT) }, directory());
            }
            Event::EntryAdded { at, target, .. } => self.entry_added(at, target),
            Event::EntryRemoved { at, old, removed, .. } => self.entry_removed(at, old, removed),
            Event::EntryReplaced { at, old, new, kind: EntryKind::DotDot, .. } => {
                self.remove(old.ino, at, directory(), LEAST_PARENT);
                self.add(new.ino, at, directory());
            }
            Event::EntryReplaced { at, old, new, removed, .. } => {
                self.entry_removed(at, old, removed);
                self.entry_added(at, new);
            }
            Event::EntryMoved { ino, from, to } => self.records.push(Record::MoveRef(Move {
                op: 0,
                ino: ino.0,
                parent: from.dir.0,
                unused: 0,
                oldoff: from.off.0.into(),
                newoff: to.off.0.into(),
            })),
            Event::InodeReleased { ino, .. } => {
                let counted = self.counts.remove(&ino).is_some_and(|links| links > 0);
                // A directory that gets no name has a record of its `.` only.
                if let Some(mode) = self.fresh.remove(&ino).filter(|_| counted) {
                    self.records.push(nowhere(ino, mode));
                }
                self.unnamed.remove(&ino);
            }
            ref other => self.note_blocks(other),
        }
    }

    /// Notes the inodes that a write may show in the entry that the event moves, besides the
    /// present one: each gets a record for the new place, and one that the name is not there any
    /// more.
    pub(super) fn note_older(&mut self, event: &Event<'_>, older: &[EntryTarget]) {
        let Event::EntryMoved { to, .. } = *event else { return };
        if !holds(Rule::RecordOfOlderValue) {
            return;
        }
        // Each has a record since the last checkpoint: that of the change that is not durable.
        for value in older {
            if self.counts.contains_key(&value.ino) {
                self.add(value.ino, to, mode_of(value.dtype));
                self.remove(value.ino, to, mode_of(value.dtype), 1);
            }
        }
    }

    /// Whether any of the fragments was in an indirect block that was freed since the last
    /// checkpoint.
    pub(super) fn was_indirect(&self, run: Range<u64>) -> bool {
        let first = FragNo(run.start - u64::from(self.g.fragnum(FragNo(run.start))));
        self.freed_indirect.range(first..FragNo(run.end)).next().is_some()
    }

    /// The block of group `c` is about to be written, or its counts in the summary area.
    pub(super) fn note_group(&mut self, c: CgNo) {
        if self.groups.insert(c) {
            let nothing = FragRun { at: self.g.cgtod(c), frags: 0 };
            self.records.push(Record::NewBlk(blk(Ino::ROOT, 0, nothing, 0)));
        }
    }

    fn note_blocks(&mut self, event: &Event<'_>) {
        match *event {
            Event::BlockAllocated { run } => self.unused.push(run),
            Event::PointerSet { slot, new, old, .. } => {
                let (ino, name) = slot.named(&self.g);
                self.set_used(new);
                let grown = old.filter(|old| old.at == new.at).map_or(0, |old| old.frags);
                self.records.push(Record::NewBlk(blk(ino, name, new, grown)));
                if let Some(old) = old.filter(|old| old.at != new.at) {
                    self.records.push(Record::FreeBlk(blk(ino, name, old, 0)));
                }
            }
            Event::ExtAttrReplaced { ino, old, old_size } => {
                for (i, raw) in old.into_iter().enumerate() {
                    let bsize = self.g.bsize;
                    let bytes = old_size.saturating_sub(bsize.saturating_mul(i as u32)).min(bsize);
                    let run = FragRun {
                        at: FragNo(u64::try_from(raw).unwrap_or(0)),
                        frags: bytes.div_ceil(self.g.fsize),
                    };
                    if raw > 0 && run.frags > 0 {
                        self.records.push(Record::FreeBlk(blk(ino, -1 - i as i64, run, 0)));
                    }
                }
            }
            Event::PointersCleared { ino, cleared } => {
                let indirect = cleared.iter().filter(|(name, _)| *name <= FIRST_INDIRECT);
                self.freed_indirect.extend(indirect.map(|(_, run)| run.at));
                let freed = cleared.iter().map(|&(name, run)| blk(ino, name, run, 0));
                self.records.extend(freed.map(Record::FreeBlk));
            }
            Event::LeavesFreed { ref runs, .. } => {
                self.freed_indirect.extend(runs.iter().map(|run| run.at));
            }
            // As if the run had just grown to its old length: the recovery frees its end if the
            // device shows the shorter one.
            Event::RunShortened { ino, lbn, old } => {
                self.records.push(Record::NewBlk(blk(ino, lbn, old, 0)));
            }
            _ => {}
        }
    }

    fn entry_added(&mut self, at: DirPos, target: EntryTarget) {
        if target.ino == Ino::WHITEOUT {
            return;
        }
        self.add(target.ino, at, mode_of(target.dtype));
        if self.fresh.remove(&target.ino).is_none() {
            self.unnamed.remove(&target.ino);
        }
    }

    fn entry_removed(&mut self, at: DirPos, old: EntryTarget, removed: RemovedName) {
        let ino = old.ino;
        if ino == Ino::WHITEOUT {
            return;
        }
        let mode = mode_of(old.dtype);
        self.remove(ino, at, mode, removed.names_left.saturating_add(removed.drops));
        match removed.parent {
            ParentLink::Removed(parent) => {
                self.remove(ino, DirPos { dir: ino, off: DirOff(0) }, mode, 1);
                let dotdot = DirPos { dir: ino, off: DirOff(DOTDOT) };
                self.remove(parent, dotdot, directory(), LEAST_PARENT);
                self.unnamed.insert(ino, Unnamed { mode, parent: Some(parent) });
            }
            ParentLink::None if removed.names_left == 0 => {
                self.unnamed.insert(ino, Unnamed { mode, parent: None });
            }
            ParentLink::None | ParentLink::Moved(_) => {}
        }
    }

    /// Records a new name of `ino`.
    fn add(&mut self, ino: Ino, at: DirPos, mode: u16) {
        let count = self.counts.entry(ino).or_insert(0);
        self.records.push(Record::AddRef(reference(ino, at, *count, mode)));
        *count = count.saturating_add(1);
    }

    /// Records the removal of a name of `ino`, which had `otherwise` links if that is not known
    /// better.
    fn remove(&mut self, ino: Ino, at: DirPos, mode: u16, otherwise: u16) {
        let count = self.counts.entry(ino).or_insert(otherwise);
        self.records.push(Record::RemRef(reference(ino, at, *count, mode)));
        *count = count.saturating_sub(1);
    }

    /// A pointer leads to the run.
    fn set_used(&mut self, run: FragRun) {
        let Some(at) = self.unused.iter().position(|taken| overlap(*taken, run)) else {
            return;
        };
        let taken = self.unused.swap_remove(at);
        let (begin, end) = (taken.at.0, taken.at.0 + u64::from(taken.frags));
        let after = run.at.0 + u64::from(run.frags);
        for (from, to) in [(begin, run.at.0), (after, end)] {
            if from < to {
                let frags = u32::try_from(to - from).unwrap_or(u32::MAX);
                self.unused.push(FragRun { at: FragNo(from), frags });
            }
        }
    }

    /// Takes all records for a segment, with those for steps that have none of their own.
    pub(super) fn take(&mut self) -> Vec<Record> {
        if !holds(Rule::RecordOfTaken) {
            return std::mem::take(&mut self.records);
        }
        for (ino, mode) in std::mem::take(&mut self.fresh) {
            self.records.push(nowhere(ino, mode));
            self.unnamed.insert(ino, Unnamed { mode, parent: None });
        }
        for run in std::mem::take(&mut self.unused) {
            let (mut at, mut left) = (run.at, run.frags);
            while left > 0 {
                let frags = (self.g.frag - self.g.fragnum(at)).min(left);
                let part = FragRun { at, frags };
                self.records.push(Record::NewBlk(blk(Ino::ROOT, 0, part, 0)));
                (at, left) = (at.plus(frags.into()), left - frags);
            }
        }
        std::mem::take(&mut self.records)
    }

    /// Everything that was reported is durable, and no operation is in progress. The records so far
    /// are not needed any more, and inodes without names get new ones.
    pub(super) fn checkpoint(&mut self) {
        self.records.clear();
        self.unused.clear();
        self.groups.clear();
        self.freed_indirect.clear();
        for (ino, mode) in std::mem::take(&mut self.fresh) {
            self.unnamed.insert(ino, Unnamed { mode, parent: None });
        }
        let mut unnamed: Vec<(Ino, Unnamed)> = self.unnamed.iter().map(|(&i, &u)| (i, u)).collect();
        unnamed.sort_unstable_by_key(|(ino, _)| *ino);
        let parents: Vec<(Ino, Ino)> =
            unnamed.iter().filter_map(|&(ino, u)| Some((ino, u.parent?))).collect();
        let needed: BTreeSet<Ino> = parents.iter().map(|&(_, parent)| parent).collect();
        self.counts.retain(|ino, _| needed.contains(ino));
        if !holds(Rule::UnnamedAfterCheckpoint) {
            return;
        }
        self.records.extend(unnamed.into_iter().map(|(ino, u)| nowhere(ino, u.mode)));
        for (k, &(dir, parent)) in parents.iter().enumerate() {
            // The device still counts the `..` of this directory and of those that follow.
            let more = parents.iter().skip(k).filter(|(_, p)| *p == parent).count();
            let left = self.counts.get(&parent).copied().unwrap_or(LEAST_PARENT - 1);
            let links = left.saturating_add(u16::try_from(more).unwrap_or(u16::MAX));
            let dotdot = DirPos { dir, off: DirOff(DOTDOT) };
            self.records.push(Record::RemRef(reference(parent, dotdot, links, directory())));
        }
    }
}

/// The record of an inode without a name.
fn nowhere(ino: Ino, mode: u16) -> Record {
    let (parent, diroff) = NOWHERE;
    let at = DirPos { dir: parent, off: DirOff(0) };
    Record::AddRef(Ref { diroff, ..reference(ino, at, 0, mode) })
}

fn reference(ino: Ino, at: DirPos, nlink: u16, mode: u16) -> Ref {
    let diroff = at.off.0.into();
    Ref { op: 0, ino: ino.0, parent: at.dir.0, nlink, mode, diroff, unused: 0 }
}

fn blk(ino: Ino, lbn: i64, run: FragRun, oldfrags: u32) -> Blk {
    let small = |n: u32| u16::try_from(n).unwrap_or(u16::MAX);
    let (frags, oldfrags) = (small(run.frags), small(oldfrags));
    Blk { op: 0, ino: ino.0, blkno: run.at.pointer(), lbn, frags, oldfrags, unused: 0 }
}

fn overlap(a: FragRun, b: FragRun) -> bool {
    a.at.0 < b.at.0 + u64::from(b.frags) && b.at.0 < a.at.0 + u64::from(a.frags)
}
