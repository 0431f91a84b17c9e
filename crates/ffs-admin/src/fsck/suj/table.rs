//! The records of a journal, by inode and by block.
//!
//! **Invariants.**
//! 1. [`LinkRecs::initial`] are the places at which a name was when the first record was written,
//!    as far as records name it. [`LinkRecs::places`] are all places at which a name of the inode
//!    may be on the device.
//! 2. A name that is moved inside its directory may be at its old place or at its new one, so both
//!    are places.

use std::collections::{BTreeMap, BTreeSet};

use ffs_ondisk::journal::{Record, Ref};
use ffs_ondisk::{FileType, FragNo, Geometry, Ino};

use super::Step;

/// The place of a directory entry: directory, byte offset.
pub(super) type EntryPlace = (u32, u64);

/// The records of names of one inode.
#[derive(Debug, Default)]
pub(super) struct LinkRecs {
    /// Its link count before the first record.
    pub(super) start: Option<u16>,
    /// Its mode in the last record.
    pub(super) mode: u16,
    /// The number was that of a directory and of another file.
    pub(super) mixed: bool,
    /// Places of names that it had before the first record.
    pub(super) initial: BTreeSet<EntryPlace>,
    /// All places.
    pub(super) places: BTreeSet<EntryPlace>,
    /// Places of names after the last record.
    current: BTreeSet<EntryPlace>,
}

impl LinkRecs {
    fn note(&mut self, r: &Ref) -> EntryPlace {
        let is_dir = |mode| FileType::of_mode(mode) == Some(FileType::Directory);
        self.mixed |= self.start.is_some() && is_dir(self.mode) != is_dir(r.mode);
        self.start.get_or_insert(r.nlink);
        self.mode = r.mode;
        let place = (r.parent, r.diroff.unsigned_abs());
        self.places.insert(place);
        place
    }

    fn added(&mut self, r: &Ref) {
        let place = self.note(r);
        self.current.insert(place);
    }

    fn removed(&mut self, r: &Ref) {
        let place = self.note(r);
        if !self.current.remove(&place) {
            self.initial.insert(place);
        }
    }

    fn moved(&mut self, old: EntryPlace, new: EntryPlace) {
        if !self.current.remove(&old) {
            self.initial.insert(old);
        }
        self.current.insert(new);
        self.places.extend([old, new]);
    }
}

/// A record of the allocation or the freeing of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BlockRec {
    /// The file.
    pub(super) ino: Ino,
    /// The name of the block in the file.
    pub(super) lbn: i64,
    /// First fragment.
    pub(super) at: FragNo,
    /// Fragments.
    pub(super) frags: u32,
    /// It records a freeing.
    pub(super) freed: bool,
}

/// The records of a journal.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// Records of names by inode.
    pub(super) links: BTreeMap<u32, LinkRecs>,
    /// Records of blocks by block. Their order does not matter to what they name.
    pub(super) blocks: BTreeMap<u64, BTreeSet<BlockRec>>,
    /// Inodes to be truncated, with their sizes.
    pub(super) truncations: BTreeMap<u32, u64>,
    /// Number of records.
    pub(super) records: u64,
}

impl Tables {
    /// Memory of the tables, bytes: more than the records need.
    pub(super) fn memory(&self) -> u64 {
        self.records.saturating_mul(256)
    }

    /// Enters a record. Records are entered in the order of their sequence.
    pub(super) fn add(&mut self, g: &Geometry, record: Record) -> Step<()> {
        self.records += 1;
        match record {
            Record::AddRef(r) => {
                if r.nlink == 0 {
                    // A new file with this number: the truncation of the old one is complete.
                    self.truncations.remove(&r.ino);
                }
                self.links.entry(r.ino).or_default().added(&r);
            }
            Record::RemRef(r) => self.links.entry(r.ino).or_default().removed(&r),
            Record::MoveRef(r) => {
                let place = |off: i64| (r.parent, off.unsigned_abs());
                let links = self.links.entry(r.ino).or_default();
                links.moved(place(r.oldoff), place(r.newoff));
            }
            // A group was changed. The totals are counted from all groups anyway.
            Record::NewBlk(r) if r.frags == 0 => {}
            Record::NewBlk(r) => self.add_block(g, &r, false),
            Record::FreeBlk(r) => self.add_block(g, &r, true),
            Record::Trunc(r) => {
                let size = r.size.unsigned_abs();
                let least = self.truncations.entry(r.ino).or_insert(size);
                *least = (*least).min(size);
            }
            // The file was written after the truncation was complete.
            Record::Sync(r) => drop(self.truncations.remove(&r.ino)),
        }
        Ok(())
    }

    fn add_block(&mut self, g: &Geometry, r: &ffs_ondisk::journal::Blk, freed: bool) {
        let at = FragNo(r.blkno.unsigned_abs());
        let rec = BlockRec { ino: Ino(r.ino), lbn: r.lbn, at, frags: r.frags.into(), freed };
        self.blocks.entry(at.0 / u64::from(g.frag)).or_default().insert(rec);
    }
}
