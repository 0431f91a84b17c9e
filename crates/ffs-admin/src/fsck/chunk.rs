//! Phase 2, the records of one directory chunk: structure, `.` and `..`.
//!
//! **Invariants.**
//! 1. After a granted repair the records of a chunk fill it exactly and every live name is legal.
//! 2. A record with a sound length and a bad name costs only itself; a bad length costs the rest of the chunk.
//!
//! References: spec/fsck-and-crash.md §3.3; spec/directories-and-caches.md §1.

use ffs_ondisk::Ino;
use ffs_ondisk::dir::{self, Record};
use ffs_ondisk::wire::get;

use super::Checker;
use super::dirio::{Entry, rebuild_first_chunk, remove_record};
use super::judge::{Draft, Res};
use super::reader::Batch;
use super::report::Id;

/// A directory being scanned, and memory for the next ones.
#[derive(Default)]
pub(super) struct Scan {
    /// Its inode.
    pub(super) ino: Ino,
    /// Hashes of its names.
    pub(super) names: Vec<u64>,
    /// Entries that a repair displaced.
    pub(super) spilled: Vec<Entry>,
    /// Every record of the chunk at hand has been found good.
    pub(super) sound: bool,
    /// The block at hand.
    pub(super) buf: Vec<u8>,
    /// Directories read ahead.
    pub(super) batch: Batch,
}

impl Checker<'_> {
    /// Repairs the chain of records; `true` if the chunk was changed.
    pub(super) fn check_chain(
        &mut self,
        scan: &mut Scan,
        chunk: &mut [u8],
        offset: u64,
    ) -> Res<bool> {
        let fmt = self.dir_format();
        scan.sound = dir::is_sound(fmt, chunk);
        if scan.sound {
            return Ok(false);
        }
        let (mut at, mut prev, mut changed) = (0, None, false);
        while at < chunk.len() {
            let bad = match dir::read(fmt, chunk, at) {
                Ok(rec) => {
                    prev = Some(at);
                    at += rec.reclen;
                    continue;
                }
                Err(bad) => bad,
            };
            let chain = bad.field == "record length";
            let place = format!("offset {}", offset + at as u64);
            let message = format!("directory corrupted: {}", bad.field);
            let draft = Draft::fatal(Id::DirCorrupt, message).ino(scan.ino).place(place);
            let fix = self.ask(draft.before(bad.found).after(bad.expected))?;
            changed |= fix;
            let len = usize::from(get::<u16>(chunk, at + 4, fmt.endian));
            match (chain, fix) {
                (true, true) => {
                    match prev {
                        None => dir::clear_chunk(fmt, chunk),
                        Some(prev) => dir::set_reclen(fmt, chunk, prev, chunk.len() - prev),
                    }
                    break;
                }
                (true, false) => break,
                (false, true) => {
                    remove_record(fmt, chunk, prev, at);
                    prev = prev.or(Some(at));
                }
                (false, false) => prev = Some(at),
            }
            at += len;
        }
        if changed {
            self.restart();
        }
        Ok(changed)
    }

    /// Checks that the first chunk begins with `.` and `..`; `true` if it was changed.
    pub(super) fn check_dots(&mut self, scan: &mut Scan, chunk: &mut [u8]) -> Res<bool> {
        let fmt = self.dir_format();
        let mut changed = false;
        let first = dir::read(fmt, chunk, 0).ok().filter(Record::live);
        let in_order = |r: &Record<'_>| r.name == b"." && r.ino == scan.ino.0 && r.dtype == 4;
        match first.filter(|r| !in_order(r)).map(|r| Entry::of(&r)) {
            None if first.is_some() => {}
            Some(dot) if dot.name == b"." => changed |= self.check_dot(scan, chunk, &dot)?,
            _ => {
                let draft = Draft::fatal(Id::DotMissing, "the first entry is not `.`: enter it");
                if self.ask(draft.ino(scan.ino))? {
                    let dotdot = find_dotdot(fmt, chunk).unwrap_or(0);
                    let spilled = rebuild_first_chunk(fmt, chunk, scan.ino, Ino(dotdot));
                    scan.spilled.extend(spilled);
                    self.restart();
                    changed = true;
                    if dotdot == 0 {
                        // An entry of inode 0 is no entry: what is missing is reported below.
                        return Ok(true);
                    }
                }
            }
        }
        let second = dir::records(fmt, chunk).nth(1).and_then(Result::ok);
        if let Some(rec) = second.filter(|r| r.live() && r.name == b"..") {
            let (ino, off, dtype) = (Ino(rec.ino), rec.off, rec.dtype);
            let sane = ino.0 >= 2 && ino.0 < self.g.inodes();
            self.dirs.update(scan.ino, |d| {
                d.has_dotdot = true;
                d.dotdot = if sane { ino } else { Ino(0) };
            });
            if dtype != 4 && !fmt.old {
                let draft = Draft::fatal(Id::DotDotType, "`..` has the wrong type").ino(scan.ino);
                if self.ask(draft.before(dtype).after(4))? {
                    dir::set_type(fmt, chunk, off, 4);
                    changed = true;
                }
            }
        }
        Ok(changed)
    }

    fn check_dot(&mut self, scan: &Scan, chunk: &mut [u8], dot: &Entry) -> Res<bool> {
        let fmt = self.dir_format();
        let mut changed = false;
        if dot.ino != scan.ino.0 {
            let draft = Draft::fatal(Id::DotBad, "`.` names another inode").ino(scan.ino);
            if self.ask(draft.before(dot.ino).after(scan.ino))? {
                dir::set_ino(fmt, chunk, 0, scan.ino.0);
                changed = true;
            }
        }
        if dot.dtype != 4 && !fmt.old {
            let draft = Draft::fatal(Id::DotType, "`.` has the wrong type").ino(scan.ino);
            if self.ask(draft.before(dot.dtype).after(4))? {
                dir::set_type(fmt, chunk, 0, 4);
                changed = true;
            }
        }
        Ok(changed)
    }
}

/// What some `..` of a chunk says.
fn find_dotdot(fmt: dir::DirFormat, chunk: &[u8]) -> Option<u32> {
    let mut live = dir::records(fmt, chunk).filter_map(Result::ok).filter(Record::live);
    live.find(|r| r.name == b"..").map(|r| r.ino)
}

/// Zeros every byte of `chunk` that belongs to no name; `true` if there was one that was not zero.
pub(super) fn zero_unused(fmt: dir::DirFormat, chunk: &mut [u8]) -> bool {
    let mut spare: Vec<std::ops::Range<usize>> = Vec::new();
    for rec in dir::records(fmt, chunk) {
        let Ok(rec) = rec else { return false };
        let used = if rec.live() { dir::HEADER + rec.name.len() } else { dir::HEADER };
        spare.push(rec.off + used..rec.off + rec.reclen);
        if !rec.live() {
            spare.push(rec.off + 6..rec.off + dir::HEADER);
        }
    }
    let mut changed = false;
    for range in spare {
        let Some(bytes) = chunk.get_mut(range) else { continue };
        changed |= bytes.iter().any(|&b| b != 0);
        bytes.fill(0);
    }
    changed
}
