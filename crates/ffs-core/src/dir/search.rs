//! Finding a name, and room for a new one: one sweep with the sequential optimisation and the
//! three-way choice of a free slot.
//!
//! Reference: `spec/directories-and-caches.md` §2.1, §2.2.

use super::chunks::{CHUNK, chunk_of};
use super::glance::{Glance, Sound};
use super::{Dir, Entry, InChunk};
use crate::counters::{add, bump};
use crate::error::Result;
use crate::inode::RoomMap;
use ffs_ondisk::dir::{self, DirFormat, HEADER, Header, dirsiz};
use ffs_ondisk::{DirOff, Ino, Place, Structure};
use std::ops::{ControlFlow, Range};
use std::sync::atomic::Ordering;

/// Where a new name can go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub(super) place: Where,
    /// Where the chunks that hold a live record, the new one included, end: beyond it the directory
    /// may be cut off.
    pub(super) end_useful: u32,
}

/// The kinds of room, best first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Where {
    /// A whiteout of the same name.
    Whiteout(u32),
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
struct Hit {
    off: u32,
    prev: Option<u32>,
    header: Header,
}

/// The record of `name` in the chunk at `at`; whiteouts do not count.
fn search_chunk(fmt: DirFormat, at: u32, chunk: &[u8], name: &[u8]) -> InChunk<ControlFlow<Hit>> {
    let (mut off, mut prev) = (0, None);
    while off < chunk.len() {
        let header = dir::header(fmt, chunk, off)?;
        if names(&header, chunk, off, name) && header.ino != Ino::WHITEOUT.0 {
            return Ok(ControlFlow::Break(Hit { off: at + off as u32, prev, header }));
        }
        prev = Some(at + off as u32);
        off += header.reclen;
    }
    Ok(ControlFlow::Continue(()))
}

/// Whether the record at `off` is live and has this name.
///
/// The last byte first: the names of a large directory often differ in nothing else, and a call of
/// `memcmp` for every record would cost more than the rest of the walk.
#[inline]
fn names(header: &Header, chunk: &[u8], off: usize, name: &[u8]) -> bool {
    let end = off + HEADER + header.namlen;
    header.live()
        && header.namlen == name.len()
        && chunk.get(end - 1) == name.last()
        && chunk.get(off + HEADER..end) == Some(name)
}

impl Dir<'_> {
    fn sweep(&self, range: Range<u32>, name: &[u8]) -> Result<Option<Hit>> {
        let (fmt, start, mut end) = (self.fmt(), range.start, range.end);
        let (glance, mut sound) = (Glance::new(fmt, name), self.sound());
        let hit = self.walk(range, |at, chunk| {
            if sound.covers(at) && !glance.may_hold(chunk) {
                return Ok(ControlFlow::Continue(()));
            }
            let hit = search_chunk(fmt, at, chunk, name)?;
            if hit.is_continue() {
                sound.walked(at);
            }
            Ok(hit)
        });
        self.note_sound(&sound);
        if let Ok(Some(h)) = &hit {
            end = h.off + h.header.reclen as u32;
        }
        add(&self.counters().dir_bytes_scanned, u64::from(end.saturating_sub(start)));
        hit
    }

    fn sound(&self) -> Sound {
        Sound(self.ip.dir.sound_to.load(Ordering::Relaxed))
    }

    fn note_sound(&self, s: &Sound) {
        if self.ip.dir.sound_to.load(Ordering::Relaxed) < s.0 {
            self.ip.dir.sound_to.fetch_max(s.0, Ordering::Relaxed);
        }
    }

    fn counters(&self) -> &crate::counters::Counters {
        &self.table.alloc().cache.counters
    }

    fn entry(&self, hit: &Hit) -> Result<Entry> {
        let place = Place::Dir(self.ip.ino, DirOff(hit.off));
        let ino = self
            .g()
            .check_ino(hit.header.ino, Structure::Directory, place)
            .map_err(|e| self.damaged(e.into()))?;
        let prev = hit.prev.map(DirOff);
        Ok(Entry { off: DirOff(hit.off), prev, ino, dtype: hit.header.dtype })
    }
}

/// A plain lookup of a last component: starts where the last one ended.
///
/// # Errors
/// The device's; a malformed directory's if the name was not found in its sound part.
pub(crate) fn lookup(d: Dir<'_>, name: &[u8]) -> Result<Option<Entry>> {
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

/// A lookup of a name that will be removed or redirected, or of `..`: one pass, no hint.
///
/// # Errors
/// As [`lookup`].
pub(crate) fn find(d: Dir<'_>, name: &[u8]) -> Result<Option<Entry>> {
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
    slack: Option<Region>,
    compact: Option<Region>,
    whiteout: Option<u32>,
    end_useful: u32,
    /// What is known of the chunks' room.
    map: RoomMap,
}

impl RoomSearch<'_> {
    fn chunk(&mut self, at: u32, chunk: &[u8]) -> InChunk<ControlFlow<Hit>> {
        let (mut off, mut prev) = (0, None);
        let (mut sum, mut sum_from) = (0, None);
        let mut all_slack = 0;
        while off < chunk.len() {
            let h = dir::header(self.fmt, chunk, off)?;
            let here = at + off as u32;
            let slack = h.slack();
            all_slack += slack;
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
                    return Ok(ControlFlow::Break(Hit { off: here, prev, header: h }));
                }
                self.whiteout = Some(here);
            }
            prev = Some(here);
            off += h.reclen;
        }
        self.map.set(at / CHUNK, all_slack);
        Ok(ControlFlow::Continue(()))
    }

    /// Whether the chunk at `at`, which does not hold the name, tells nothing new about room.
    fn knows_room(&self, at: u32) -> bool {
        self.slack.is_some() || self.map.slack(at / CHUNK).is_some_and(|s| s < self.need)
    }

    /// Passes over the chunk at `at`. An empty chunk is one free record.
    fn pass_over(&mut self, at: u32, chunk: &[u8]) {
        let empty =
            dir::header(self.fmt, chunk, 0).is_ok_and(|h| !h.live() && h.reclen == chunk.len());
        if !empty {
            self.end_useful = at + CHUNK;
        }
    }

    fn slot(self, size: u32) -> Slot {
        let place = match (self.whiteout, self.slack, self.compact) {
            (Some(at), _, _) => Where::Whiteout(at),
            (_, Some(r), _) => Where::Slack(r),
            (_, _, Some(r)) => Where::Compact(r),
            _ => Where::Append(size),
        };
        let chosen_end = match place {
            Where::Whiteout(at) => chunk_of(at) + CHUNK,
            Where::Slack(r) | Where::Compact(r) => chunk_of(r.at) + CHUNK,
            Where::Append(at) => at.saturating_add(CHUNK),
        };
        Slot { place, end_useful: self.end_useful.max(chosen_end) }
    }
}

/// Whether `name` exists, and where it would go if not.
///
/// # Errors
/// As [`lookup`].
pub(crate) fn find_room(d: Dir<'_>, name: &[u8]) -> Result<Room> {
    let mut search = RoomSearch {
        fmt: d.fmt(),
        name,
        need: dirsiz(name.len()),
        slack: None,
        compact: None,
        whiteout: None,
        end_useful: 0,
        map: d.ip.dir.take_room(),
    };
    let size = d.size();
    let (glance, mut sound) = (Glance::new(search.fmt, name), d.sound());
    let hit = d.walk(0..size, |at, chunk| {
        if search.knows_room(at) && sound.covers(at) && !glance.may_hold(chunk) {
            search.pass_over(at, chunk);
            return Ok(ControlFlow::Continue(()));
        }
        let hit = search.chunk(at, chunk)?;
        if hit.is_continue() {
            sound.walked(at);
        }
        Ok(hit)
    });
    d.note_sound(&sound);
    d.ip.dir.put_room(std::mem::take(&mut search.map));
    let hit = hit?;
    let seen = hit.as_ref().map_or(size, |h| h.off + h.header.reclen as u32);
    add(&d.counters().dir_bytes_scanned, seen.into());
    match hit {
        Some(hit) => d.entry(&hit).map(Room::Taken),
        None => Ok(Room::Free(search.slot(size))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cred, Env, Ffs, MountOptions, NodeKind, OrderingPolicy};
    use ffs_device::{Rng, SplitMix64};
    use ffs_ondisk::Format;
    use std::sync::Arc;

    /// What a directory remembers makes searches faster, never different.
    #[test]
    fn memory_does_not_change_answers() {
        const SEED: u64 = 0x5eed_d1f5;
        println!("seed {SEED:#x}");
        let rng = SplitMix64::new(SEED);
        let dev =
            ffs_admin::newfs::quick(ffs_ondisk::Endian::Big, Format::Ufs1, 8192, 1024, 8 << 20);
        let opts = MountOptions { ordering: OrderingPolicy::None, ..MountOptions::default() };
        let fs = Ffs::mount(Arc::new(dev.unwrap()), &opts, Env::system()).unwrap();
        let (root, cred) = (fs.root().unwrap(), Cred::root());
        let parent = fs.mkdir(&cred, &root, b"d", 0o755).unwrap();
        let ip = fs.0.table.get(fs.getattr(&parent).ino).unwrap();
        let name = |i: u64| format!("{:x<1$}", i, (i * 7 % 60) as usize);
        for _ in 0..4000 {
            let n = name(rng.below(500));
            if rng.below(5) < 2 {
                drop(fs.unlink(&cred, &parent, n.as_bytes()));
            } else {
                drop(fs.create(&cred, &parent, n.as_bytes(), NodeKind::Regular, 0o644));
            }
            let (data, sought) = (ip.read(), name(rng.below(500)));
            let d = Dir { table: &fs.0.table, ip: &ip, data: &data };
            let ask =
                || (find(d, sought.as_bytes()).unwrap(), find_room(d, sought.as_bytes()).unwrap());
            let remembered = ask();
            let (sound, room) = (ip.dir.sound_to.swap(0, Ordering::Relaxed), ip.dir.take_room());
            assert_eq!(remembered, ask(), "{sought}");
            ip.dir.sound_to.store(sound, Ordering::Relaxed);
            ip.dir.put_room(room);
        }
        assert!(fs.getattr(&parent).size > 4096);
    }
}
