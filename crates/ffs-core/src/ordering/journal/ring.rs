//! The journal's file as a ring of segments.
//!
//! Segments follow each other without gaps, from the first sector of the file to the last but one,
//! and then again from the first. A segment ends at the end of a block of the file, so that it is
//! contiguous on the device.
//!
//! # Invariants
//! 1. A segment is overwritten only after a durable segment declared that the recovery does not
//!    need it ([`Ring::written`]).
//! 2. A segment declares that only segments from a durable one on are needed, or from itself on.
//! 3. Bytes that a failed write may have left on the device in part are written again unchanged,
//!    before anything else.
//! 4. The last sector is kept for the end mark ([`Ring::end_mark`]).
//! 5. The oldest segment that a durable one declares to be needed is durable. At first that is a
//!    segment that names nothing, and is durable before the ring is used
//!    ([`JournalFile::opening`]): of those of one commit, a loss of power may leave any.
//!
//! Reference: `docs/spec/on-disk-format.md` §14, `docs/spec/soft-updates.md` §13.1.

use crate::ordering::rules::{Rule, holds};
use ffs_ondisk::Endian;
use ffs_ondisk::Ino;
use ffs_ondisk::journal::{RECORD, Record, SegHeader, Trunc, segment};
use std::collections::VecDeque;

/// The sequence number of the first segment, which names no inode and no block.
const OPENING: u64 = 0;
/// A sequence number that no segment reaches.
const NEVER: u64 = 1 << 62;

/// The place of a journal, and what its segments depend on.
#[derive(Clone, Debug)]
pub(crate) struct JournalFile {
    /// Byte offsets of its blocks on the device, in the order of the file.
    pub(crate) blocks: Vec<u64>,
    /// Bytes of a block.
    pub(crate) bsize: usize,
    /// Bytes of a sector of the device.
    pub(crate) sector: usize,
    /// Byte order of the volume.
    pub(crate) endian: Endian,
    /// `fs_mtime` of this mount.
    pub(crate) time: i64,
}

/// A record without effect, for segments that need one: it revokes truncations that no record
/// names.
fn nothing() -> Record {
    Record::Sync(Trunc { op: 0, ino: Ino::ROOT.0, size: 0, extsize: 0, pad: [0; 3] })
}

impl JournalFile {
    /// Whether a ring can be kept in the file.
    fn is_sound(&self) -> bool {
        self.sector >= 2 * RECORD
            && self.bsize.is_multiple_of(self.sector)
            && self.bsize / self.sector * self.blocks.len() > 2
    }

    /// The first segment, which names nothing: its byte offset on the device, and its content.
    /// `None` if the file cannot be a journal.
    pub(crate) fn opening(&self) -> Option<(u64, Vec<u8>)> {
        let at = *self.blocks.first().filter(|_| self.is_sound())?;
        let header =
            SegHeader { seq: OPENING, oldest: OPENING, time: self.time, ..Default::default() };
        Some((at, segment(self.endian, self.sector, &header, &[nothing()])?))
    }
}

/// A segment on its way to the device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Placed {
    /// Byte offset on the device.
    pub(super) at: u64,
    pub(super) bytes: Vec<u8>,
}

/// A segment that may be needed.
#[derive(Clone, Copy, Debug)]
struct Live {
    seq: u64,
    sectors: usize,
}

/// The ring.
#[derive(Debug)]
pub(super) struct Ring {
    file: JournalFile,
    /// The sector of the next segment.
    head: usize,
    /// The sequence number of the next segment.
    seq: u64,
    /// The oldest sequence number that the recovery needs.
    oldest: u64,
    /// The oldest sequence number that a durable segment has declared to be needed.
    declared: u64,
    /// Segments that no durable segment has declared unnecessary, oldest first.
    live: VecDeque<Live>,
    /// Sectors of the live segments.
    used: usize,
    /// Records that are in no segment.
    waiting: Vec<Record>,
    /// Segments that are not known to be on the device.
    unwritten: Vec<Placed>,
}

impl Ring {
    /// A ring after the first segment, which is durable. `None` if the file cannot be a journal.
    pub(super) fn new(file: JournalFile) -> Option<Ring> {
        file.is_sound().then(|| Ring {
            file,
            head: 1,
            seq: OPENING + 1,
            oldest: OPENING,
            declared: OPENING,
            live: VecDeque::from([Live { seq: OPENING, sectors: 1 }]),
            used: 1,
            waiting: Vec::new(),
            unwritten: Vec::new(),
        })
    }

    fn per_block(&self) -> usize {
        self.file.bsize / self.file.sector
    }

    /// Sectors for segments.
    pub(super) fn capacity(&self) -> usize {
        (self.per_block() * self.file.blocks.len()).saturating_sub(1)
    }

    /// Records in a sector.
    pub(super) fn per_sector(&self) -> usize {
        self.file.sector / RECORD - 1
    }

    /// Sectors that the next segments can take.
    pub(super) fn free(&self) -> usize {
        self.capacity().saturating_sub(self.used)
    }

    /// Sectors of the segments that the recovery needs.
    pub(super) fn needed(&self) -> usize {
        let needed = self.live.iter().filter(|segment| segment.seq >= self.oldest);
        needed.map(|segment| segment.sectors).sum()
    }

    /// Segments with records so far.
    pub(super) fn segments(&self) -> u64 {
        self.seq - OPENING - 1
    }

    /// Sectors from `head` to the end of its block or of the ring.
    fn sectors_left(&self) -> usize {
        let in_block = self.per_block() - self.head % self.per_block();
        in_block.min(self.capacity() - self.head)
    }

    /// Byte offset on the device of a sector.
    fn address(&self, sector: usize) -> u64 {
        let block = self.file.blocks.get(sector / self.per_block()).copied().unwrap_or(0);
        block + (sector % self.per_block() * self.file.sector) as u64
    }

    /// Takes records for the next segments.
    pub(super) fn add(&mut self, records: Vec<Record>) {
        match self.waiting.is_empty() {
            true => self.waiting = records,
            false => self.waiting.extend(records),
        }
    }

    /// Whether records are in no segment, because there was no space.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Puts records into segments, as many as there is space for. [`Ring::to_write`] returns the
    /// segments.
    pub(super) fn place(&mut self) {
        let per_sector = self.per_sector();
        let fit = self.waiting.len().min(self.free() * per_sector);
        let records: Vec<Record> = self.waiting.drain(..fit).collect();
        let mut left = records.as_slice();
        while !left.is_empty() {
            let sectors = left.len().div_ceil(per_sector).min(self.sectors_left());
            let (now, later) = left.split_at(left.len().min(sectors * per_sector));
            // Until the first segment that the recovery needs is durable, it needs the older ones.
            let first = self.seq == self.oldest;
            let header = SegHeader {
                seq: self.seq,
                oldest: if first { self.oldest } else { self.declared },
                time: self.file.time,
                ..SegHeader::default()
            };
            // A segment is at most a block, so its counts have space.
            let bytes = segment(self.file.endian, self.file.sector, &header, now);
            let bytes = bytes.unwrap_or_default();
            self.unwritten.push(Placed { at: self.address(self.head), bytes });
            self.live.push_back(Live { seq: self.seq, sectors });
            self.used += sectors;
            self.head = (self.head + sectors) % self.capacity();
            self.seq += 1;
            left = later;
        }
    }

    /// The segments that are to be written, oldest first.
    pub(super) fn to_write(&self) -> &[Placed] {
        &self.unwritten
    }

    /// All segments are durable: those that they declare unnecessary can be overwritten.
    pub(super) fn written(&mut self) {
        if self.unwritten.is_empty() {
            return;
        }
        self.unwritten.clear();
        if self.seq > self.oldest {
            self.declared = self.oldest;
        }
        while let Some(first) = self.live.front().filter(|first| first.seq < self.declared) {
            self.used -= first.sectors;
            self.live.pop_front();
        }
    }

    /// The recovery needs none of the segments so far. The next segment declares it.
    pub(super) fn retire(&mut self) {
        self.oldest = self.seq;
        if !holds(Rule::DeclaredBeforeReuse) {
            self.live.clear();
            self.used = 0;
        }
    }

    /// A segment after which no recovery uses the journal: it requires an older one that does not
    /// exist.
    pub(super) fn end_mark(&self) -> Placed {
        let (seq, oldest, time) = (NEVER + 1, NEVER, self.file.time);
        let header = SegHeader { seq, oldest, time, ..SegHeader::default() };
        let bytes = segment(self.file.endian, self.file.sector, &header, &[nothing()]);
        Placed { at: self.address(self.capacity()), bytes: bytes.unwrap_or_default() }
    }
}
