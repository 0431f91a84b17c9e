//! Dependencies on directory blocks (FreeBSD: `pagedep`): the entries with pending values, and the
//! names whose removal or addition is not settled.
//!
//! An entry with a pending value has versions, as a pointer has ([`super::pointer`]). If an entry
//! is removed and the removal requires nothing, it has no versions: its record is merged into its
//! neighbour, and its work waits for the block.
//!
//! # Invariants
//! 1. A block is listed exactly while an entry of it has pending values.
//! 2. A name is a removed name until the device cannot show it any more.
//! 3. `unreachable` has exactly the entries that are durable, and not reachable.

use super::blocktable::BlockTable;
use super::dep::DepId;
use super::direntries::{DirEntries, EntryVersions, chunk_of};
use super::heap::{table_bytes, take};
use crate::buf::BufKey;
use crate::ordering::{DirPos, EntryTarget, ReservedMask};
use ffs_ondisk::{DirOff, Geometry, Ino, Lbn};
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::ops::RangeInclusive;

/// A name that is removed in memory, and that the device may show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RemovedEntry {
    /// It was merged into its neighbour in `chunk`; `change` is the number of the block's change.
    Merged { change: u64, chunk: u32 },
    /// Its record is reserved.
    Reserved(DirOff),
}

/// Dependencies on all directory blocks.
#[derive(Debug)]
pub(super) struct PageDeps {
    hasher: FixedState,
    /// By buffer.
    blocks: BlockTable<DirEntries>,
    /// By the hash of directory and name.
    removed: HashMap<u64, RemovedEntry, FixedState>,
    unreachable: HashMap<(Ino, DirOff), DepId, FixedState>,
}

/// The buffer of a block of a directory.
pub(super) fn block_key(dir: Ino, lbn: Lbn) -> BufKey {
    BufKey::File(dir, i64::try_from(lbn.0).unwrap_or(i64::MAX))
}

/// The block of a directory with an entry.
pub(super) fn lbn_of(g: &Geometry, at: DirPos) -> Lbn {
    g.lblkno(at.off.0.into())
}

/// The buffer of the block with an entry.
pub(super) fn key_of(g: &Geometry, at: DirPos) -> BufKey {
    block_key(at.dir, lbn_of(g, at))
}

impl PageDeps {
    /// `secret` keys the hashes of names.
    pub(super) fn new(secret: u64) -> PageDeps {
        PageDeps {
            hasher: FixedState::with_seed(secret),
            blocks: BlockTable::default(),
            removed: HashMap::default(),
            unreachable: HashMap::default(),
        }
    }

    pub(super) fn hash(&self, dir: Ino, name: &[u8]) -> u64 {
        self.hasher.hash_one((dir.0, name))
    }

    pub(super) fn block(&self, key: BufKey) -> Option<&DirEntries> {
        self.blocks.get(key)
    }

    pub(super) fn entry(&self, key: BufKey, off: DirOff) -> Option<&EntryVersions> {
        self.blocks.get(key)?.get(off.0)
    }

    pub(super) fn entry_mut(&mut self, key: BufKey, off: DirOff) -> Option<&mut EntryVersions> {
        self.blocks.get_mut(key)?.get_mut(off.0)
    }

    /// The entry gets the value `id`. `durable`: its value on the device, if it has no versions
    /// yet; `reserved`: whether `id` is "no entry".
    pub(super) fn push_version(
        &mut self,
        key: BufKey,
        off: DirOff,
        durable: EntryTarget,
        id: DepId,
        reserved: bool,
    ) {
        self.blocks.get_or_insert(key, DirEntries::default).push(off.0, durable, id, reserved);
    }

    /// The versions of an entry that is not reserved, moved here from another place.
    pub(super) fn insert(&mut self, key: BufKey, off: DirOff, versions: EntryVersions) {
        self.blocks.get_or_insert(key, DirEntries::default).insert(off.0, versions);
    }

    /// The entry has no pending value any more.
    pub(super) fn remove_entry(&mut self, key: BufKey, off: DirOff) -> Option<EntryVersions> {
        let block = self.blocks.get_mut(key)?;
        let versions = block.remove(off.0);
        if block.is_empty() {
            self.blocks.remove(key);
        }
        versions
    }

    pub(super) fn remove_block(&mut self, key: BufKey) -> Option<DirEntries> {
        self.blocks.remove(key)
    }

    /// The blocks of a range of buffers.
    pub(super) fn blocks(
        &self,
        range: RangeInclusive<BufKey>,
    ) -> impl Iterator<Item = (BufKey, &DirEntries)> {
        self.blocks.range(range)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (BufKey, &DirEntries)> {
        self.blocks.iter()
    }

    /// The reserved entries of the chunk with `off`.
    pub(super) fn reserved_in(&self, key: BufKey, off: DirOff) -> ReservedMask {
        self.blocks.get(key).map_or(0, |entries| entries.reserved_in(off.0))
    }

    /// Whether no change of a name is pending, except removed names.
    pub(super) fn is_settled(&self) -> bool {
        self.blocks.is_empty() && self.unreachable.is_empty()
    }

    pub(super) fn removed(&self, hash: u64) -> Option<RemovedEntry> {
        self.removed.get(&hash).copied()
    }

    /// The record of the name is reserved.
    pub(super) fn note_reserved(&mut self, hash: u64, off: DirOff) {
        self.removed.insert(hash, RemovedEntry::Reserved(off));
    }

    /// The record of the name was merged into its neighbour by the block's `change`.
    pub(super) fn note_merged(&mut self, hash: u64, change: u64, off: DirOff) {
        self.removed.insert(hash, RemovedEntry::Merged { change, chunk: chunk_of(off) });
    }

    /// The removed name is settled.
    pub(super) fn forget_removed(&mut self, hash: u64) {
        take(&mut self.removed, &hash);
    }

    /// As [`PageDeps::forget_removed`], if it is the name whose record is reserved at `off`.
    pub(super) fn forget_reserved(&mut self, hash: u64, off: DirOff) {
        if self.removed(hash) == Some(RemovedEntry::Reserved(off)) {
            self.forget_removed(hash);
        }
    }

    /// As [`PageDeps::forget_removed`], if it is the name that `change` removed.
    pub(super) fn forget_merged(&mut self, hash: u64, change: u64) {
        if matches!(self.removed(hash), Some(RemovedEntry::Merged { change: c, .. }) if c == change)
        {
            self.forget_removed(hash);
        }
    }

    /// The entry is durable, but not reachable yet.
    pub(super) fn insert_unreachable(&mut self, at: DirPos, id: DepId) {
        self.unreachable.insert((at.dir, at.off), id);
    }

    pub(super) fn take_unreachable(&mut self, at: DirPos) -> Option<DepId> {
        take(&mut self.unreachable, &(at.dir, at.off))
    }

    pub(super) fn unreachable(&self) -> impl Iterator<Item = (DirPos, DepId)> {
        self.unreachable.iter().map(|(&(dir, off), id)| (DirPos { dir, off }, *id))
    }

    pub(super) fn is_unreachable(&self, at: DirPos) -> bool {
        self.unreachable.contains_key(&(at.dir, at.off))
    }

    pub(super) fn bytes(&self) -> usize {
        self.blocks.bytes()
            + self.blocks.iter().map(|(_, entries)| entries.heap_bytes()).sum::<usize>()
            + table_bytes::<(u64, RemovedEntry)>(self.removed.capacity())
            + table_bytes::<((Ino, DirOff), DepId)>(self.unreachable.capacity())
    }
}
