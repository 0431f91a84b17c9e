//! Finding a name, and room for a new one: by the directory's index, or the linear code's one sweep
//! with the sequential optimisation and the three-way choice of a free slot.
//!
//! Reference: `spec/directories-and-caches.md` §2.1, §2.2.

use super::chunks::{CHUNK, chunk_of};
use super::hashed::{self, Sought};
use super::reserved::Reserved;
use super::{Dir, Entry, InChunk};
use crate::counters::{add, bump};
use crate::error::Result;
use ffs_ondisk::dir::{self, DirFormat, HEADER, Header, dirsiz};
use ffs_ondisk::{DirOff, Ino, Place, Structure};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::Ordering;

/// Where a new name can go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub(super) place: Where,
    /// Where the chunks that hold a live record, the new one included, end: beyond it the directory
    /// may be cut off. `None`: its index knows when the name is entered.
    pub(super) end_useful: Option<u32>,
}

impl Slot {
    /// Whether entering a name here leaves the record of `e` where it is.
    pub(crate) fn spares(&self, e: &Entry) -> bool {
        match self.place {
            Where::Compact(region) => chunk_of(region.at) != chunk_of(e.off.0),
            Where::Whiteout(_) | Where::Reserved(_) | Where::Slack(_) | Where::Append(_) => true,
        }
    }
}

/// The kinds of room, best first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Where {
    /// A whiteout of the same name.
    Whiteout(u32),
    /// A reserved record of the same name.
    Reserved(u32),
    /// One record whose own slack is enough.
    Slack(Region),
    /// Several records of one chunk whose slack together is enough.
    Compact(Region),
    /// A new chunk at the end.
    Append(u32),
}

/// A row of records of one chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Region {
    /// Where the first one starts.
    pub(super) at: u32,
    /// Bytes up to the end of the last one.
    pub(super) len: u32,
}

/// Answer of [`find_room`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Room {
    /// The name exists.
    Taken(Entry),
    /// It does not, and would go there.
    Free(Slot),
}

/// A matching record as it lies in a chunk.
pub(super) struct Hit {
    pub(super) off: u32,
    pub(super) header: Header,
}

/// The record of `name` in the chunk at `at`; whiteouts do not count.
fn search_chunk(
    fmt: DirFormat,
    at: u32,
    chunk: &[u8],
    name: &[u8],
    records: &mut u64,
) -> InChunk<ControlFlow<Hit>> {
    let mut off = 0;
    while off < chunk.len() {
        let header = dir::header(fmt, chunk, off)?;
        *records += 1;
        if names(&header, chunk, off, name) && header.ino != Ino::WHITEOUT.0 {
            return Ok(ControlFlow::Break(Hit { off: at + off as u32, header }));
        }
        off += header.reclen;
    }
    Ok(ControlFlow::Continue(()))
}

/// Whether the record at `off` is live and has this name.
///
/// The last byte first: the names of a large directory often differ in nothing else, and a call of
/// `memcmp` for every record would cost more than the rest of the walk.
#[inline]
pub(super) fn names(header: &Header, chunk: &[u8], off: usize, name: &[u8]) -> bool {
    let end = off + HEADER + header.namlen;
    header.live()
        && header.namlen == name.len()
        && chunk.get(end - 1) == name.last()
        && chunk.get(off + HEADER..end) == Some(name)
}

impl Dir<'_> {
    fn sweep(&self, range: Range<u32>, name: &[u8]) -> Result<Option<Hit>> {
        let (fmt, start, mut end) = (self.fmt(), range.start, range.end);
        let mut records = 0;
        let hit = self.walk(range, |at, chunk| search_chunk(fmt, at, chunk, name, &mut records));
        if let Ok(Some(h)) = &hit {
            end = h.off + h.header.reclen as u32;
        }
        add(&self.counters().dir_bytes_scanned, u64::from(end.saturating_sub(start)));
        add(&self.counters().dir_records_scanned, records);
        hit
    }

    pub(super) fn counters(&self) -> &crate::counters::Counters {
        &self.ump.cache.counters
    }

    fn entry(&self, hit: &Hit) -> Result<Entry> {
        let place = Place::Dir(self.ip.ino, DirOff(hit.off));
        let ino = self
            .g()
            .check_ino(hit.header.ino, Structure::Directory, place)
            .map_err(|e| self.damaged(e.into()))?;
        Ok(Entry { off: DirOff(hit.off), ino, dtype: hit.header.dtype })
    }
}

/// The index's answer, as an entry; `None` if it has none.
#[inline]
fn indexed(d: Dir<'_>, name: &[u8]) -> Option<Result<Option<Entry>>> {
    match hashed::search(d, name)? {
        Sought::Here(hit) => Some(d.entry(&hit).map(Some)),
        Sought::Whiteout(_) | Sought::Absent => Some(Ok(None)),
    }
}

/// A plain lookup of a last component: by the index, or from where the last one ended.
///
/// # Errors
/// The device's; a malformed directory's if the name was not found in its sound part.
pub(crate) fn lookup(d: Dir<'_>, name: &[u8]) -> Result<Option<Entry>> {
    indexed(d, name).unwrap_or_else(|| lookup_linear(d, name))
}

pub(super) fn lookup_linear(d: Dir<'_>, name: &[u8]) -> Result<Option<Entry>> {
    let (size, hint) = (d.size(), &d.ip.dir.diroff);
    let start = chunk_of(hint.load(Ordering::Relaxed));
    let hit = if start == 0 || start >= size {
        d.sweep(0..size, name)?
    } else {
        bump(&d.counters().lookup_two_pass);
        // Damage met by the first pass matters only if the second does not find the name either.
        match d.sweep(start..size, name) {
            Ok(Some(hit)) => {
                bump(&d.counters().lookup_pass_two);
                Some(hit)
            }
            Ok(None) => d.sweep(0..start, name)?,
            Err(e) => Some(d.sweep(0..start, name)?.ok_or(e)?),
        }
    };
    let Some(hit) = hit else { return Ok(None) };
    hint.store(chunk_of(hit.off), Ordering::Relaxed);
    d.entry(&hit).map(Some)
}

/// A lookup of a name that will be removed or redirected, or of `..`: by the index, or one pass, no
/// hint.
///
/// # Errors
/// As [`lookup`].
pub(crate) fn find(d: Dir<'_>, name: &[u8]) -> Result<Option<Entry>> {
    indexed(d, name).unwrap_or_else(|| find_linear(d, name))
}

/// The entry will be changed: has its chunk fetched from memory. The index looked at one record of
/// it, a change goes through all of it.
pub(crate) fn prefetch_chunk(d: Dir<'_>, e: &Entry) {
    let at = chunk_of(e.off.0);
    d.prefetch_block(d.g().lblkno(at.into()), at % d.g().bsize, CHUNK);
}

pub(super) fn find_linear(d: Dir<'_>, name: &[u8]) -> Result<Option<Entry>> {
    match d.sweep(0..d.size(), name)? {
        Some(hit) => d.entry(&hit).map(Some),
        None => Ok(None),
    }
}

/// What the sweep for a new name has seen so far.
struct RoomSearch<'a> {
    fmt: DirFormat,
    name: &'a [u8],
    need: usize,
    reserved: Reserved<'a>,
    slack: Option<Region>,
    compact: Option<Region>,
    whiteout: Option<u32>,
    end_useful: u32,
    records: u64,
}

impl RoomSearch<'_> {
    fn chunk(&mut self, at: u32, chunk: &[u8]) -> InChunk<ControlFlow<Hit>> {
        let (mut off, mut sum, mut sum_from) = (0, 0, None);
        let reserved = self.reserved.in_chunk(at);
        while off < chunk.len() {
            let h = dir::header(self.fmt, chunk, off)?;
            self.records += 1;
            let here = at + off as u32;
            if reserved.is(&h, off) {
                (sum, sum_from) = (0, None);
                self.end_useful = at + CHUNK;
                off += h.reclen;
                continue;
            }
            let slack = h.slack();
            if slack >= self.need && self.slack.is_none() {
                self.slack = Some(Region { at: here, len: h.reclen as u32 });
            }
            if slack > 0 && self.slack.is_none() && self.compact.is_none() {
                let from = *sum_from.get_or_insert(here);
                sum += slack;
                if sum >= self.need {
                    let len = here + h.reclen as u32 - from;
                    self.compact = Some(Region { at: from, len });
                }
            }
            if h.live() {
                self.end_useful = at + CHUNK;
            }
            if names(&h, chunk, off, self.name) {
                if h.ino != Ino::WHITEOUT.0 {
                    return Ok(ControlFlow::Break(Hit { off: here, header: h }));
                }
                self.whiteout = Some(here);
            }
            off += h.reclen;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn slot(self, size: u32) -> Slot {
        let place = match (self.whiteout, self.slack, self.compact) {
            (Some(at), _, _) => Where::Whiteout(at),
            (_, Some(r), _) => Where::Slack(r),
            (_, _, Some(r)) => Where::Compact(r),
            _ => Where::Append(size),
        };
        let chosen_end = match place {
            Where::Whiteout(at) | Where::Reserved(at) => chunk_of(at) + CHUNK,
            Where::Slack(r) | Where::Compact(r) => chunk_of(r.at) + CHUNK,
            Where::Append(at) => at.saturating_add(CHUNK),
        };
        Slot { place, end_useful: Some(self.end_useful.max(chosen_end)) }
    }
}

/// Whether `name` exists, and where it would go if not.
///
/// # Errors
/// As [`lookup`].
pub(crate) fn find_room(d: Dir<'_>, name: &[u8]) -> Result<Room> {
    let slot = match hashed::search(d, name) {
        Some(Sought::Here(hit)) => return d.entry(&hit).map(Room::Taken),
        Some(Sought::Whiteout(at)) => Some(Slot { place: Where::Whiteout(at), end_useful: None }),
        Some(Sought::Absent) if let Some(at) = d.reserved_for(name) => {
            Some(Slot { place: Where::Reserved(at), end_useful: None })
        }
        Some(Sought::Absent) => hashed::room(d, name.len()),
        None => None,
    };
    slot.map_or_else(|| find_room_linear(d, name), |slot| Ok(Room::Free(slot)))
}

pub(super) fn find_room_linear(d: Dir<'_>, name: &[u8]) -> Result<Room> {
    let mut search = RoomSearch {
        fmt: d.fmt(),
        name,
        need: dirsiz(name.len()),
        reserved: d.reserved(),
        slack: None,
        compact: None,
        whiteout: None,
        end_useful: 0,
        records: 0,
    };
    let size = d.size();
    let hit = d.walk(0..size, |at, chunk| search.chunk(at, chunk))?;
    let seen = hit.as_ref().map_or(size, |h| h.off + h.header.reclen as u32);
    add(&d.counters().dir_bytes_scanned, seen.into());
    add(&d.counters().dir_records_scanned, search.records);
    match hit {
        Some(hit) => d.entry(&hit).map(Room::Taken),
        None => {
            let mut slot = search.slot(size);
            if let Some(at) = d.reserved_for(name) {
                slot.place = Where::Reserved(at);
            }
            Ok(Room::Free(slot))
        }
    }
}
