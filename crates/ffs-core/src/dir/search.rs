//! Finding a name, and the slot for a new one: by the index of the directory, or by the linear code
//! with its sequential optimisation and its three-way choice of a slot.
//!
//! Reference: `spec/directories-and-caches.md` §2.1, §2.2.

use super::chunks::{CHUNK, chunk_of};
use super::hashed::{self, IndexHit};
use super::reserved::Reserved;
use super::slot::{Hit, Region, Slot, SlotKind, SlotSearch, Sought, is_named};
use super::{Dir, Entry, InChunk};
use crate::counters::{add, bump};
use crate::error::Result;
use ffs_ondisk::dir::{self, DirFormat, dirsiz};
use ffs_ondisk::{DirOff, Ino, Place, Structure};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::Ordering;

/// Breaks with the record of `name` in the chunk at `at`. Whiteouts do not count.
fn search_chunk(
    fmt: DirFormat,
    at: u32,
    chunk: &[u8],
    sought: Sought<'_>,
    records: &mut u64,
) -> InChunk<ControlFlow<Hit>> {
    let mut off = 0;
    loop {
        let passed = sought.pass_over(fmt, chunk, off);
        *records += passed.records;
        off = passed.end;
        if off >= chunk.len() {
            return Ok(ControlFlow::Continue(()));
        }
        *records += 1;
        let header = dir::header(fmt, chunk, off)?;
        if is_named(&header, chunk, off, sought.name) && header.ino != Ino::WHITEOUT.0 {
            return Ok(ControlFlow::Break(Hit { off: at + off as u32, header }));
        }
        off += header.reclen;
    }
}

impl Dir<'_> {
    fn sweep(&self, range: Range<u32>, name: &[u8]) -> Result<Option<Hit>> {
        let (fmt, start, mut end) = (self.fmt(), range.start, range.end);
        let (sought, mut records) = (Sought::new(name), 0);
        let hit = self.walk(range, |at, chunk| search_chunk(fmt, at, chunk, sought, &mut records));
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

/// Searches the index; `None` means that the linear code must search.
#[inline]
fn indexed(d: Dir<'_>, name: &[u8]) -> Option<Result<Option<Entry>>> {
    match hashed::search(d, name)? {
        IndexHit::Found(hit) => Some(d.entry(&hit).map(Some)),
        IndexHit::Whiteout(_) | IndexHit::Absent => Some(Ok(None)),
    }
}

/// Looks up the last component of a path: by the index, or from where the last lookup ended.
///
/// # Errors
/// The device's; those of a malformed directory if the name was not found in its sound part.
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
        // Damage found by the first sweep matters only if the second does not find the name either.
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

/// Looks up a name that will be removed or redirected, or `..`: by the index, or in one sweep from
/// the start.
///
/// # Errors
/// As [`lookup`].
pub(crate) fn find(d: Dir<'_>, name: &[u8]) -> Result<Option<Entry>> {
    indexed(d, name).unwrap_or_else(|| find_linear(d, name))
}

/// Fetches the chunk of an entry, which is about to be changed, into the processor's cache. The
/// index reads one record of it, a change all.
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

/// State of the linear search for a slot.
struct SlotScan<'a> {
    fmt: DirFormat,
    sought: Sought<'a>,
    need: usize,
    reserved: Reserved<'a>,
    slack: Option<Region>,
    compact: Option<Region>,
    whiteout: Option<u32>,
    end_useful: u32,
    records: u64,
}

impl SlotScan<'_> {
    fn chunk(&mut self, at: u32, chunk: &[u8]) -> InChunk<ControlFlow<Hit>> {
        let (mut off, mut sum, mut sum_from) = (0, 0, None);
        let reserved = self.reserved.in_chunk(at);
        loop {
            let passed = self.sought.pass_over(self.fmt, chunk, off);
            self.records += passed.records;
            off = passed.end;
            if passed.records > 0 {
                self.end_useful = at + CHUNK;
            }
            if off >= chunk.len() {
                return Ok(ControlFlow::Continue(()));
            }
            self.records += 1;
            let h = dir::header(self.fmt, chunk, off)?;
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
            if is_named(&h, chunk, off, self.sought.name) {
                if h.ino != Ino::WHITEOUT.0 {
                    return Ok(ControlFlow::Break(Hit { off: here, header: h }));
                }
                self.whiteout = Some(here);
            }
            off += h.reclen;
        }
    }

    fn slot(self, size: u32) -> Slot {
        let kind = match (self.whiteout, self.slack, self.compact) {
            (Some(at), _, _) => SlotKind::Whiteout(at),
            (_, Some(r), _) => SlotKind::Slack(r),
            (_, _, Some(r)) => SlotKind::Compact(r),
            _ => SlotKind::Append(size),
        };
        let chosen_end = match kind {
            SlotKind::Whiteout(at) | SlotKind::Reserved(at) => chunk_of(at) + CHUNK,
            SlotKind::Slack(r) | SlotKind::Compact(r) => chunk_of(r.at) + CHUNK,
            SlotKind::Append(at) => at.saturating_add(CHUNK),
        };
        Slot { kind, end_useful: Some(self.end_useful.max(chosen_end)) }
    }
}

/// Finds the entry of `name`, or the slot for a new one.
///
/// # Errors
/// As [`lookup`].
pub(crate) fn find_slot(d: Dir<'_>, name: &[u8]) -> Result<SlotSearch> {
    let slot = match hashed::search(d, name) {
        Some(IndexHit::Found(hit)) => return d.entry(&hit).map(SlotSearch::Exists),
        Some(IndexHit::Whiteout(at)) => {
            Some(Slot { kind: SlotKind::Whiteout(at), end_useful: None })
        }
        Some(IndexHit::Absent) => match d.reserved_for(name) {
            Some(at) => Some(Slot { kind: SlotKind::Reserved(at), end_useful: None }),
            None => hashed::find_space(d, name.len()),
        },
        None => None,
    };
    slot.map_or_else(|| find_slot_linear(d, name), |slot| Ok(SlotSearch::Free(slot)))
}

pub(super) fn find_slot_linear(d: Dir<'_>, name: &[u8]) -> Result<SlotSearch> {
    let mut search = SlotScan {
        fmt: d.fmt(),
        sought: Sought::new(name),
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
        Some(hit) => d.entry(&hit).map(SlotSearch::Exists),
        None => {
            let mut slot = search.slot(size);
            if let Some(at) = d.reserved_for(name) {
                slot.kind = SlotKind::Reserved(at);
            }
            Ok(SlotSearch::Free(slot))
        }
    }
}
