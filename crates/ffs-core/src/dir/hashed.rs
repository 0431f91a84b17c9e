//! The index of a directory: building it, searching it instead of the directory, and updating it
//! with every change. [`crate::dirhash`] is the index itself, in memory; this module reads and
//! checks the directory for it.
//!
//! # Invariants
//! 1. A record that the index names is read and compared before it is the result. If the record is
//!    not what the index expects, the index is dropped and the linear code searches.
//! 2. A directory with a hole, a malformed record or two records of one name gets no index while it
//!    is in memory: the result is then defined by the order of the linear search.
//! 3. A function that changes entries or the size updates the index after the change succeeded. If
//!    the change may be half done, the index is dropped.
//!
//! Reference: `spec/directories-and-caches.md` §3.

use super::chunks::{CHUNK, chunk_of};
use super::slot::{Hit, Region, Slot, SlotKind, is_named};
use super::{Dir, DirMut, InChunk};
use crate::buf::BufRef;
use crate::counters::{Counters, add, bump};
use crate::dirhash::{DirHash, DropReason, Index, NameHasher, SearchCost};
use crate::error::{Error, Result};
use ffs_ondisk::dir::{self, DirFormat, HEADER, Header, dirsiz};
use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::{DirOff, Ino};
use std::sync::atomic::Ordering;

/// The result of searching an index for a name.
pub(super) enum IndexHit {
    /// The record of the name.
    Found(Hit),
    /// A whiteout of the name, at this offset.
    Whiteout(u32),
    /// There is no record of the name.
    Absent,
}

/// Why an index could not be searched or built.
enum IndexError {
    /// The index or the directory is inconsistent.
    Inconsistent,
    /// The device failed: the next search tries again.
    Device,
}

impl From<DropReason> for IndexError {
    fn from(_: DropReason) -> IndexError {
        IndexError::Inconsistent
    }
}

impl From<Error> for IndexError {
    fn from(e: Error) -> IndexError {
        if matches!(e, Error::Format(_)) { IndexError::Inconsistent } else { IndexError::Device }
    }
}

/// Reads single records, and keeps the block of the last one.
struct RecordReader<'a> {
    d: Dir<'a>,
    block: Option<(u32, BufRef)>,
    fetched: u64,
}

impl<'a> RecordReader<'a> {
    fn new(d: Dir<'a>) -> RecordReader<'a> {
        RecordReader { d, block: None, fetched: 0 }
    }

    /// The record at `off`, if it has this name.
    fn record(
        &mut self,
        off: DirOff,
        name: &[u8],
    ) -> std::result::Result<Option<Header>, IndexError> {
        let (in_block, fmt) = (off.0 % self.d.g().bsize, self.d.fmt());
        let start = off.0 - in_block;
        let buf = match &self.block {
            Some((at, buf)) if *at == start => buf,
            _ => {
                self.fetched += 1;
                let buf = self.d.block(off.0)?;
                &self.block.insert((start, buf)).1
            }
        };
        let block = buf.read();
        let chunk = chunk_of(in_block) as usize;
        let bytes = block.bytes.get(chunk..chunk + DIRBLKSIZ).ok_or(IndexError::Inconsistent)?;
        let at = in_block as usize - chunk;
        let header = dir::header(fmt, bytes, at).map_err(|_| IndexError::Inconsistent)?;
        if !header.live() {
            return Err(IndexError::Inconsistent);
        }
        Ok(is_named(&header, bytes, at, name).then_some(header))
    }
}

/// Searches the index of `d` for `name`, and builds the index if the directory may have one and has
/// none. `None` means that the linear code must search.
///
/// `.` and `..` are found faster by the linear code.
#[inline]
pub(super) fn search(d: Dir<'_>, name: &[u8]) -> Option<IndexHit> {
    if matches!(name, b"." | b"..") || !may_have(d) {
        return None;
    }
    let hash = d.ip.dir.hash(&d.ump.dirhash);
    let mut index_guard = hash.read_index();
    if index_guard.is_none() {
        drop(index_guard);
        if !build(d, hash) {
            return None;
        }
        index_guard = hash.read_index();
    }
    // Another thread recycled the index meanwhile.
    let index = index_guard.as_deref()?;
    if index.size() != d.data.d.size {
        drop(index_guard);
        hash.drop_index(DropReason::Inconsistent);
        return None;
    }
    hash.touch();
    let (mut reader, mut cost, mut header) = (RecordReader::new(d), SearchCost::default(), None);
    let of = index.hasher().hash(name);
    let found = index.search(of, hash.predicted(), &mut cost, |off| {
        header = reader.record(off, name)?;
        Ok(header.is_some())
    });
    drop(index_guard);
    count(d.counters(), &cost, reader.fetched);
    conclude(d, hash, found, header)
}

/// Fetches the slot of `name`, which is about to be searched, into the processor's cache.
pub(crate) fn prefetch(d: Dir<'_>, name: &[u8]) {
    if let Some(index) = d.ip.dir.index().and_then(DirHash::try_read_index)
        && let Some(index) = index.as_deref()
    {
        index.prefetch(index.hasher().hash(name));
    }
}

/// Converts the result of [`Index::search`], and drops an index that is inconsistent.
#[inline]
fn conclude(
    d: Dir<'_>,
    hash: &DirHash,
    found: std::result::Result<Option<DirOff>, IndexError>,
    header: Option<Header>,
) -> Option<IndexHit> {
    match (found, header) {
        (Ok(Some(off)), Some(header)) => {
            hash.note_found(off, DirOff(off.0 + dirsiz(header.namlen) as u32));
            bump(&d.counters().dirhash_hits);
            Some(match header.ino {
                ino if ino == Ino::WHITEOUT.0 => IndexHit::Whiteout(off.0),
                _ => IndexHit::Found(Hit { off: off.0, header }),
            })
        }
        (Ok(_), _) => {
            hash.note_not_found();
            bump(&d.counters().dirhash_misses);
            Some(IndexHit::Absent)
        }
        (Err(IndexError::Inconsistent), _) => {
            hash.drop_index(DropReason::Inconsistent);
            None
        }
        (Err(IndexError::Device), _) => None,
    }
}

fn count(c: &Counters, cost: &SearchCost, fetched: u64) {
    let histogram = match cost.probes {
        0..=1 => &c.dirhash_probes_1,
        2 => &c.dirhash_probes_2,
        3..=4 => &c.dirhash_probes_4,
        5..=8 => &c.dirhash_probes_8,
        9..=16 => &c.dirhash_probes_16,
        _ => &c.dirhash_probes_more,
    };
    bump(histogram);
    add(&c.dirhash_probes, cost.probes);
    if cost.inspected > 0 {
        add(&c.dirhash_inspected, cost.inspected);
        add(&c.dirhash_blocks_read, fetched);
    }
    match cost.predicted {
        Some(true) => bump(&c.dirhash_seq_hits),
        Some(false) => bump(&c.dirhash_seq_misses),
        None => {}
    }
}

/// Whether the directory may have an index. If not, drops the index that it has.
#[inline]
fn may_have(d: Dir<'_>) -> bool {
    let pool = &d.ump.dirhash;
    let may = d.data.d.size >= pool.tunables().dirhash_minsize()
        && !d.fmt().old
        && d.data.d.nlink > 0
        && !d.ip.dir.unhashable.load(Ordering::Relaxed)
        && pool.is_usable();
    if !may {
        d.ip.dir.drop_index();
    }
    may
}

/// Unit of `di_blocks`, bytes.
const SECTOR: u64 = 512;

/// Builds the index. Returns false if there is none now.
fn build(d: Dir<'_>, hash: &DirHash) -> bool {
    d.ump.dirhash.set_time(d.ump.cache.clock.now().secs);
    // A directory with fewer sectors than bytes has holes, and may not be worth the memory that its
    // size requires.
    let mut unsuitable = d.data.d.blocks.saturating_mul(SECTOR) < d.data.d.size;
    let built = !unsuitable
        && hash
            .build(d.size(), |index| match fill(d, index) {
                Ok(entries) => Some(entries),
                Err(e) => {
                    unsuitable = matches!(e, IndexError::Inconsistent);
                    None
                }
            })
            .is_ok();
    if unsuitable {
        d.ip.dir.unhashable.store(true, Ordering::Relaxed);
        bump(&d.counters().dirhash_refused_damaged);
    }
    built
}

/// Enters every record of the directory; returns their number.
fn fill(d: Dir<'_>, index: &mut Index) -> std::result::Result<u64, IndexError> {
    let (size, bsize) = (d.size(), d.g().bsize);
    if size % CHUNK != 0 {
        return Err(IndexError::Inconsistent);
    }
    let (fmt, reader, found) = (d.fmt(), RecordReader::new(d), Vec::new());
    let mut builder = IndexBuilder { index, fmt, reader, found, entries: 0, compared: 0 };
    let (mut block, mut at) = (Vec::new(), 0);
    while at < size {
        let end = size.min(at + bsize);
        block.clear();
        // A copy, since comparing with another record locks the block of that record, which may be
        // this one.
        block.extend_from_slice(&d.block(at)?.read().bytes);
        let bytes = block.get(..(end - at) as usize).ok_or(IndexError::Inconsistent)?;
        for (n, chunk) in bytes.chunks_exact(DIRBLKSIZ).enumerate() {
            builder.chunk(at, n * DIRBLKSIZ, chunk)?;
        }
        builder.enter(at, bytes)?;
        at = end;
    }
    Ok(builder.entries)
}

/// An index being built.
struct IndexBuilder<'a> {
    index: &'a mut Index,
    fmt: DirFormat,
    reader: RecordReader<'a>,
    /// The records of the present block.
    found: Vec<BlockRecord>,
    entries: u64,
    /// Comparisons with a record whose name has the same hash.
    compared: u64,
}

/// A record of a block, to be entered.
struct BlockRecord {
    hash: u32,
    /// Offset of its name in the block, bytes.
    name: usize,
    namlen: usize,
}

impl IndexBuilder<'_> {
    /// Finds the records of a chunk, at `off` in the block at `block`, and sets its free space.
    fn chunk(
        &mut self,
        block: u32,
        off: usize,
        chunk: &[u8],
    ) -> std::result::Result<(), IndexError> {
        let (hasher, base) = (self.index.hasher(), block + off as u32);
        let free = self.reader.d.reserved().in_chunk(base).free_space(self.fmt, chunk);
        let mut at = 0;
        while at < chunk.len() {
            let h = dir::header(self.fmt, chunk, at).map_err(|_| IndexError::Inconsistent)?;
            if h.live() {
                let (start, namlen) = (at + HEADER, h.namlen);
                let name = chunk.get(start..start + namlen).ok_or(IndexError::Inconsistent)?;
                self.found.push(BlockRecord { hash: hasher.hash(name), name: off + start, namlen });
            }
            at += h.reclen;
        }
        Ok(self.index.build_chunk(base / CHUNK, free)?)
    }

    /// Enters the records found in the block at `block`.
    fn enter(&mut self, block: u32, bytes: &[u8]) -> std::result::Result<(), IndexError> {
        // The slots are far apart in a large index: all are fetched before the first is used.
        self.found.iter().for_each(|found| self.index.prefetch(found.hash));
        for BlockRecord { hash, name, namlen } in self.found.drain(..) {
            let off = DirOff(block + (name - HEADER) as u32);
            let name = bytes.get(name..name + namlen).ok_or(IndexError::Inconsistent)?;
            let (reader, compared) = (&mut self.reader, &mut self.compared);
            // Bounds the time for names that were chosen to collide.
            let most = 1000 + 4 * self.entries;
            self.index.build_entry(hash, off, |other| {
                *compared += 1;
                if *compared > most {
                    return Err(IndexError::Inconsistent);
                }
                Ok(reader.record(other, name)?.is_some())
            })?;
            self.entries += 1;
        }
        Ok(())
    }
}

/// The slot for a name of `namlen` bytes for which the index has just returned no record. `None`
/// means that the linear code must search.
pub(super) fn find_space(d: Dir<'_>, namlen: usize) -> Option<Slot> {
    let hash = d.ip.dir.index()?;
    let base = hash.read_index().as_deref()?.find_free(namlen);
    bump(&d.counters().dirhash_findfree);
    let Some(base) = base else {
        bump(&d.counters().dirhash_findfree_new);
        let end = d.size().saturating_add(CHUNK);
        return Some(Slot { kind: SlotKind::Append(d.size()), end_useful: Some(end) });
    };
    let found = match d.block(base.0) {
        Ok(buf) => {
            let block = buf.read();
            let at = (base.0 % d.g().bsize) as usize;
            let chunk = block.bytes.get(at..at + DIRBLKSIZ).unwrap_or(&[]);
            region(d.fmt(), base.0, chunk, dirsiz(namlen)).unwrap_or(None)
        }
        Err(Error::Format(_)) => None,
        Err(_) => return None,
    };
    match found {
        Some(region) => Some(Slot { kind: SlotKind::Compact(region), end_useful: None }),
        None => {
            hash.drop_index(DropReason::Inconsistent);
            None
        }
    }
}

/// The first records of the chunk at `at`, from one with slack on, whose slack together is enough.
/// None of them is reserved, since the index then has no free space for the chunk.
fn region(fmt: DirFormat, at: u32, chunk: &[u8], need: usize) -> InChunk<Option<Region>> {
    let (mut off, mut start, mut sum) = (0, None, 0);
    while off < chunk.len() {
        let h = dir::header(fmt, chunk, off)?;
        if h.slack() > 0 {
            start.get_or_insert(off);
        }
        sum += h.slack();
        off += h.reclen;
        if let Some(start) = start.filter(|_| sum >= need) {
            return Ok(Some(Region { at: at + start as u32, len: (off - start) as u32 }));
        }
    }
    Ok(None)
}

/// End of the last chunk in use, bytes, if there is an index.
pub(super) fn end_useful(d: Dir<'_>) -> Option<u64> {
    d.ip.dir.index()?.read_index().as_deref().map(Index::end_useful)
}

/// The hash function of the index, if there is one: for records that are about to be changed.
pub(super) fn hasher(d: &DirMut<'_>) -> Option<NameHasher> {
    d.ip.dir.index()?.read_index().as_deref().map(Index::hasher)
}

/// Updates the index after a change of the chunk at `at`.
pub(super) fn update(
    d: &DirMut<'_>,
    at: u32,
    change: impl FnOnce(&mut Index) -> std::result::Result<(), DropReason>,
) {
    let Some(hash) = d.ip.dir.index() else { return };
    if hash.update(change) && d.ump.dirhash.tunables().dirhash_docheck() {
        check(d.view(), hash, chunk_of(at));
    }
}

/// Updates the index after the directory grew by a chunk at `at` with `name`.
pub(super) fn appended(d: &DirMut<'_>, at: u32, name: &[u8]) {
    update(d, at, |index| {
        index.add_chunk()?;
        index.add(index.hasher().hash(name), name.len(), DirOff(at))
    });
}

/// Updates the index after the directory was truncated, or drops it if that failed half way.
pub(super) fn truncated(d: &DirMut<'_>, done: &Result<()>) {
    let Some(hash) = d.ip.dir.index() else { return };
    let size = d.data.d.size;
    match done {
        Ok(()) => drop(hash.update(|index| index.truncate(size))),
        Err(_) => hash.drop_index(DropReason::Inconsistent),
    }
}

/// `dirhash_docheck`: compares the chunk at `at` with the index, and drops the index if it is
/// wrong. A chunk that cannot be read proves nothing.
pub(super) fn check(d: Dir<'_>, hash: &DirHash, at: u32) {
    let agrees = {
        let index_guard = hash.read_index();
        let Some(index) = index_guard.as_deref() else { return };
        if u64::from(at) >= index.size() {
            return;
        }
        match chunk_agrees(d, index, at) {
            Ok(agrees) => agrees,
            Err(Error::Format(_)) => false,
            Err(_) => return,
        }
    };
    if !agrees {
        bump(&d.counters().dirhash_check_failures);
        hash.drop_index(DropReason::Inconsistent);
    }
}

fn chunk_agrees(d: Dir<'_>, index: &Index, at: u32) -> Result<bool> {
    let buf = d.block(at)?;
    let block = buf.read();
    let in_block = (at % d.g().bsize) as usize;
    let chunk = block.bytes.get(in_block..in_block + DIRBLKSIZ).unwrap_or(&[]);
    for r in dir::records(d.fmt(), chunk) {
        let Ok(r) = r else { return Ok(false) };
        if r.live() && !index.contains(index.hasher().hash(r.name), DirOff(at + r.off as u32)) {
            return Ok(false);
        }
    }
    let free = d.reserved().in_chunk(at).free_space(d.fmt(), chunk);
    Ok(index.has_free(DirOff(at), free))
}

/// Checks that the index names exactly the records of the directory and has the free space of its
/// chunks. Returns the number of records, if there is an index.
#[cfg(test)]
pub(super) fn audit(d: Dir<'_>) -> Option<u32> {
    let hash = d.ip.dir.index()?;
    let index_guard = hash.read_index();
    let index = index_guard.as_deref()?;
    assert_eq!(index.size(), d.data.d.size);
    let mut live = 0;
    for at in (0..d.size()).step_by(DIRBLKSIZ) {
        assert!(chunk_agrees(d, index, at).unwrap(), "chunk at {at}");
        let buf = d.block(at).unwrap();
        let block = buf.read();
        let in_block = (at % d.g().bsize) as usize;
        let chunk = &block.bytes[in_block..in_block + DIRBLKSIZ];
        live += dir::records(d.fmt(), chunk).filter(|r| r.as_ref().unwrap().live()).count() as u32;
    }
    assert_eq!(index.audit(), live);
    Some(live)
}
