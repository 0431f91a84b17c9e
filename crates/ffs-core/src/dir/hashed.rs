//! Directories answered from their index: built at first use, asked instead of searching, kept up
//! with every change. The index is pure memory ([`crate::dirhash`]); what reads and checks the
//! directory is here.
//!
//! # Invariants
//! 1. A record that the index names is looked at before it is the answer. One that is not what the
//!    index says ends the index, and the linear code answers.
//! 2. A directory with a hole, a malformed record or two records of one name never gets an index
//!    while it is in memory: there the linear code's order of search is the answer.
//! 3. Whatever changes entries or size here tells the index afterwards, if the change was done; if
//!    it may have been half done the index goes.
//!
//! Reference: `spec/directories-and-caches.md` §3.

use super::chunks::{CHUNK, chunk_of};
use super::search::{Hit, Region, Slot, Where, names};
use super::{Dir, DirMut, InChunk};
use crate::buf::BufRef;
use crate::counters::{Counters, add, bump};
use crate::dirhash::{DirHash, Gone, Index, NameHasher, Work};
use crate::error::{Error, Result};
use ffs_ondisk::dir::{self, DirFormat, HEADER, Header, dirsiz};
use ffs_ondisk::geometry::DIRBLKSIZ;
use ffs_ondisk::{DirOff, Ino};
use std::sync::atomic::Ordering;

/// What the index says of a name.
pub(super) enum Sought {
    /// Its record.
    Here(Hit),
    /// A whiteout of it.
    Whiteout(u32),
    /// There is none.
    Absent,
}

/// Why the index could not be asked or built.
enum Fail {
    /// It or the directory is not sound.
    Doubt,
    /// The device's error: the next one to ask tries again.
    Device,
}

impl From<Gone> for Fail {
    fn from(_: Gone) -> Fail {
        Fail::Doubt
    }
}

impl From<Error> for Fail {
    fn from(e: Error) -> Fail {
        if matches!(e, Error::Format(_)) { Fail::Doubt } else { Fail::Device }
    }
}

/// Looks at single records, keeping the block of the last one.
struct Eye<'a> {
    d: Dir<'a>,
    block: Option<(u32, BufRef)>,
    fetched: u64,
}

impl<'a> Eye<'a> {
    fn new(d: Dir<'a>) -> Eye<'a> {
        Eye { d, block: None, fetched: 0 }
    }

    /// The record at `off` if it has this name.
    fn record(&mut self, off: DirOff, name: &[u8]) -> std::result::Result<Option<Header>, Fail> {
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
        let bytes = block.bytes.get(chunk..chunk + DIRBLKSIZ).ok_or(Fail::Doubt)?;
        let at = in_block as usize - chunk;
        let header = dir::header(fmt, bytes, at).map_err(|_| Fail::Doubt)?;
        if !header.live() {
            return Err(Fail::Doubt);
        }
        Ok(names(&header, bytes, at, name).then_some(header))
    }
}

/// What the index of `d` says of `name`; `None`: the linear code must be asked. Builds the index if
/// the directory may have one and does not.
///
/// `.` and `..` are found faster without.
#[inline]
pub(super) fn search(d: Dir<'_>, name: &[u8]) -> Option<Sought> {
    if matches!(name, b"." | b"..") || !may_have(d) {
        return None;
    }
    let hash = d.ip.dir.hash(&d.ump.dirhash);
    let mut asked = hash.ask();
    if asked.is_none() {
        drop(asked);
        if !build(d, hash) {
            return None;
        }
        asked = hash.ask();
    }
    // Recycled meanwhile: the linear code is always there.
    let index = asked.as_deref()?;
    if index.size() != d.data.d.size {
        drop(asked);
        hash.drop_index(Gone::Doubt);
        return None;
    }
    hash.used();
    let (mut eye, mut work, mut header) = (Eye::new(d), Work::default(), None);
    let of = index.hasher().hash(name);
    let found = index.search(of, hash.expected(), &mut work, |off| {
        header = eye.record(off, name)?;
        Ok(header.is_some())
    });
    drop(asked);
    count(d.counters(), &work, eye.fetched);
    conclude(d, hash, found, header)
}

/// The index will be asked for `name`: where it will look is fetched from memory meanwhile.
pub(crate) fn prefetch(d: Dir<'_>, name: &[u8]) {
    if let Some(index) = d.ip.dir.index().and_then(DirHash::try_ask)
        && let Some(index) = index.as_deref()
    {
        index.prefetch(index.hasher().hash(name));
    }
}

/// Makes the answer of what the index found.
#[inline]
fn conclude(
    d: Dir<'_>,
    hash: &DirHash,
    found: std::result::Result<Option<DirOff>, Fail>,
    header: Option<Header>,
) -> Option<Sought> {
    match (found, header) {
        (Ok(Some(off)), Some(header)) => {
            hash.found(off, DirOff(off.0 + dirsiz(header.namlen) as u32));
            bump(&d.counters().dirhash_hits);
            Some(match header.ino {
                ino if ino == Ino::WHITEOUT.0 => Sought::Whiteout(off.0),
                _ => Sought::Here(Hit { off: off.0, header }),
            })
        }
        (Ok(_), _) => {
            hash.not_found();
            bump(&d.counters().dirhash_misses);
            Some(Sought::Absent)
        }
        (Err(Fail::Doubt), _) => {
            hash.drop_index(Gone::Doubt);
            None
        }
        (Err(Fail::Device), _) => None,
    }
}

fn count(c: &Counters, work: &Work, fetched: u64) {
    let histogram = match work.probes {
        0..=1 => &c.dirhash_probes_1,
        2 => &c.dirhash_probes_2,
        3..=4 => &c.dirhash_probes_4,
        5..=8 => &c.dirhash_probes_8,
        9..=16 => &c.dirhash_probes_16,
        _ => &c.dirhash_probes_more,
    };
    bump(histogram);
    add(&c.dirhash_probes, work.probes);
    if work.inspected > 0 {
        add(&c.dirhash_inspected, work.inspected);
        add(&c.dirhash_blocks_read, fetched);
    }
    match work.predicted {
        Some(true) => bump(&c.dirhash_seq_hits),
        Some(false) => bump(&c.dirhash_seq_misses),
        None => {}
    }
}

/// Whether the directory may have an index; one that may not any more loses it.
#[inline]
fn may_have(d: Dir<'_>) -> bool {
    let pool = &d.ump.dirhash;
    let may = d.data.d.size >= pool.tunables().dirhash_minsize()
        && !d.fmt().old
        && d.data.d.nlink > 0
        && !d.ip.dir.unhashable.load(Ordering::Relaxed)
        && pool.usable();
    if !may {
        d.ip.dir.drop_index();
    }
    may
}

/// Bytes that `di_blocks` counts by.
const SECTOR: u64 = 512;

/// Builds the index; false if there is none now.
fn build(d: Dir<'_>, hash: &DirHash) -> bool {
    d.ump.dirhash.set_time(d.ump.cache.clock.now().secs);
    // Fewer sectors than bytes: it has holes, and is perhaps not worth the memory its size asks
    // for.
    let mut unfit = d.data.d.blocks.saturating_mul(SECTOR) < d.data.d.size;
    let built = !unfit
        && hash
            .build(d.size(), |index| match fill(d, index) {
                Ok(entries) => Some(entries),
                Err(e) => {
                    unfit = matches!(e, Fail::Doubt);
                    None
                }
            })
            .is_ok();
    if unfit {
        d.ip.dir.unhashable.store(true, Ordering::Relaxed);
        bump(&d.counters().dirhash_refused_damaged);
    }
    built
}

/// Enters every record of the directory; answers how many.
fn fill(d: Dir<'_>, index: &mut Index) -> std::result::Result<u64, Fail> {
    let (size, bsize) = (d.size(), d.g().bsize);
    if size % CHUNK != 0 {
        return Err(Fail::Doubt);
    }
    let (fmt, eye, found) = (d.fmt(), Eye::new(d), Vec::new());
    let mut filling = Filling { index, fmt, eye, found, entries: 0, compared: 0 };
    let (mut block, mut at) = (Vec::new(), 0);
    while at < size {
        let end = size.min(at + bsize);
        block.clear();
        // A copy: comparing with other records locks their blocks, which may be this one.
        block.extend_from_slice(&d.block(at)?.read().bytes);
        let bytes = block.get(..(end - at) as usize).ok_or(Fail::Doubt)?;
        for (n, chunk) in bytes.chunks_exact(DIRBLKSIZ).enumerate() {
            filling.chunk(at, n * DIRBLKSIZ, chunk)?;
        }
        filling.enter(at, bytes)?;
        at = end;
    }
    Ok(filling.entries)
}

/// An index being built.
struct Filling<'a> {
    index: &'a mut Index,
    fmt: DirFormat,
    eye: Eye<'a>,
    /// The records of the block at hand.
    found: Vec<Found>,
    entries: u64,
    /// Records looked at again because of a name with the same hash.
    compared: u64,
}

/// A record in a block, to be entered.
struct Found {
    hash: u32,
    /// Where its name begins, bytes.
    name: usize,
    namlen: usize,
}

impl Filling<'_> {
    /// Finds the records of the chunk at `off` in the block at `block`, and its room.
    fn chunk(&mut self, block: u32, off: usize, chunk: &[u8]) -> std::result::Result<(), Fail> {
        let (hasher, base) = (self.index.hasher(), block + off as u32);
        let free = self.eye.d.reserved().in_chunk(base).room(self.fmt, chunk);
        let mut at = 0;
        while at < chunk.len() {
            let h = dir::header(self.fmt, chunk, at).map_err(|_| Fail::Doubt)?;
            if h.live() {
                let (start, namlen) = (at + HEADER, h.namlen);
                let name = chunk.get(start..start + namlen).ok_or(Fail::Doubt)?;
                self.found.push(Found { hash: hasher.hash(name), name: off + start, namlen });
            }
            at += h.reclen;
        }
        Ok(self.index.build_chunk(base / CHUNK, free)?)
    }

    /// Enters the records found in the block at `block`.
    fn enter(&mut self, block: u32, bytes: &[u8]) -> std::result::Result<(), Fail> {
        // Their places lie anywhere in a large index: all are asked for before the first is waited
        // for.
        self.found.iter().for_each(|found| self.index.prefetch(found.hash));
        for Found { hash, name, namlen } in self.found.drain(..) {
            let off = DirOff(block + (name - HEADER) as u32);
            let name = bytes.get(name..name + namlen).ok_or(Fail::Doubt)?;
            let (eye, compared) = (&mut self.eye, &mut self.compared);
            // Names chosen to collide must not make this quadratic.
            let most = 1000 + 4 * self.entries;
            self.index.build_entry(hash, off, |other| {
                *compared += 1;
                if *compared > most {
                    return Err(Fail::Doubt);
                }
                Ok(eye.record(other, name)?.is_some())
            })?;
            self.entries += 1;
        }
        Ok(())
    }
}

/// Where a name of `namlen` bytes, which the index has just called absent, goes; `None`: the linear
/// code must be asked.
pub(super) fn room(d: Dir<'_>, namlen: usize) -> Option<Slot> {
    let hash = d.ip.dir.index()?;
    let base = hash.ask().as_deref()?.find_room(namlen);
    bump(&d.counters().dirhash_findfree);
    let Some(base) = base else {
        bump(&d.counters().dirhash_findfree_new);
        let end = d.size().saturating_add(CHUNK);
        return Some(Slot { place: Where::Append(d.size()), end_useful: Some(end) });
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
        Some(region) => Some(Slot { place: Where::Compact(region), end_useful: None }),
        None => {
            hash.drop_index(Gone::Doubt);
            None
        }
    }
}

/// The first records of the chunk at `at`, from one with room on, whose room together is enough.
/// None is reserved, as the index says that there is room.
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

/// Where the chunks in use end, if the index knows.
pub(super) fn end_useful(d: Dir<'_>) -> Option<u64> {
    d.ip.dir.index()?.ask().as_deref().map(Index::end_useful)
}

/// How the index hashes, if there is one: for records about to be changed.
pub(super) fn hasher(d: &DirMut<'_>) -> Option<NameHasher> {
    d.ip.dir.index()?.ask().as_deref().map(Index::hasher)
}

/// Lets the index follow a change of the chunk at `at`.
pub(super) fn follow(
    d: &DirMut<'_>,
    at: u32,
    change: impl FnOnce(&mut Index) -> std::result::Result<(), Gone>,
) {
    let Some(hash) = d.ip.dir.index() else { return };
    if hash.follow(change) && d.ump.dirhash.tunables().dirhash_docheck() {
        check(d.view(), hash, chunk_of(at));
    }
}

/// The directory grew by a chunk at `at` with `name`.
pub(super) fn appended(d: &DirMut<'_>, at: u32, name: &[u8]) {
    follow(d, at, |index| {
        index.grown()?;
        index.added(index.hasher().hash(name), name.len(), DirOff(at))
    });
}

/// The directory was cut, or its cutting failed half way.
pub(super) fn cut(d: &DirMut<'_>, done: &Result<()>) {
    let Some(hash) = d.ip.dir.index() else { return };
    let size = d.data.d.size;
    match done {
        Ok(()) => drop(hash.follow(|index| index.cut(size))),
        Err(_) => hash.drop_index(Gone::Doubt),
    }
}

/// `dirhash_docheck`: compares the chunk at `at` with the index, which goes if it is wrong. A chunk
/// that cannot be read says nothing about it.
pub(super) fn check(d: Dir<'_>, hash: &DirHash, at: u32) {
    let agrees = {
        let asked = hash.ask();
        let Some(index) = asked.as_deref() else { return };
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
        hash.drop_index(Gone::Doubt);
    }
}

fn chunk_agrees(d: Dir<'_>, index: &Index, at: u32) -> Result<bool> {
    let buf = d.block(at)?;
    let block = buf.read();
    let in_block = (at % d.g().bsize) as usize;
    let chunk = block.bytes.get(in_block..in_block + DIRBLKSIZ).unwrap_or(&[]);
    for r in dir::records(d.fmt(), chunk) {
        let Ok(r) = r else { return Ok(false) };
        if r.live() && !index.holds(index.hasher().hash(r.name), DirOff(at + r.off as u32)) {
            return Ok(false);
        }
    }
    let free = d.reserved().in_chunk(at).room(d.fmt(), chunk);
    Ok(index.notes_room(DirOff(at), free))
}

/// For tests: whether the index names exactly the records of the directory and notes its room; the
/// number of records, if there is an index.
#[cfg(test)]
pub(super) fn audit(d: Dir<'_>) -> Option<u32> {
    let hash = d.ip.dir.index()?;
    let asked = hash.ask();
    let index = asked.as_deref()?;
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
