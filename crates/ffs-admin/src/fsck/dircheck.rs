//! Phase 2: the records of one directory block, `.` and `..`.
//!
//! **Invariants.**
//! 1. After a granted repair the records of a directory block fill it exactly and every live name
//!    is legal.
//! 2. A record with a valid length and an invalid name costs only itself; an invalid length costs
//!    the rest of the directory block.
//!
//! References: spec/fsck-and-crash.md §3.3; spec/directories-and-caches.md §1.

use ffs_ondisk::Ino;
use ffs_ondisk::dir::{self, Record};
use ffs_ondisk::wire::get;

use super::checker::Checker;
use super::dirblk::{Entry, find_dotdot, rebuild_first_dirblk, remove_record};
use super::readahead::ReadAhead;
use super::report::Id;
use super::resolve::{Draft, Res};

/// State of the scan of one directory, with buffers that serve all directories.
#[derive(Default)]
pub(super) struct DirScan {
    /// The directory.
    pub(super) ino: Ino,
    /// Hashes of its names.
    pub(super) names: Vec<u64>,
    /// Entries that a repair displaced.
    pub(super) spilled: Vec<Entry>,
    /// All records of the current directory block are valid.
    pub(super) all_valid: bool,
    /// The current block.
    pub(super) buf: Vec<u8>,
    /// Directories read ahead.
    pub(super) batch: ReadAhead,
}

impl Checker<'_> {
    /// Repairs the chain of records; `true` if the directory block changed.
    pub(super) fn check_chain(
        &mut self,
        scan: &mut DirScan,
        dirblk: &mut [u8],
        offset: u64,
    ) -> Res<bool> {
        let fmt = self.dir_format();
        scan.all_valid = dir::is_sound(fmt, dirblk);
        if scan.all_valid {
            return Ok(false);
        }
        let (mut at, mut prev, mut changed) = (0, None, false);
        while at < dirblk.len() {
            let bad = match dir::read(fmt, dirblk, at) {
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
            let fix = self.should_fix(draft.before(bad.found).after(bad.expected))?;
            changed |= fix;
            let len = usize::from(get::<u16>(dirblk, at + 4, fmt.endian));
            match (chain, fix) {
                (true, true) => {
                    match prev {
                        None => dir::clear_chunk(fmt, dirblk),
                        Some(prev) => dir::set_reclen(fmt, dirblk, prev, dirblk.len() - prev),
                    }
                    break;
                }
                (true, false) => break,
                (false, true) => {
                    remove_record(fmt, dirblk, prev, at);
                    prev = prev.or(Some(at));
                }
                (false, false) => prev = Some(at),
            }
            at += len;
        }
        if changed {
            self.restart_after_phase();
        }
        Ok(changed)
    }

    /// Checks that the first directory block begins with `.` and `..`; `true` if it changed.
    pub(super) fn check_dots(&mut self, scan: &mut DirScan, dirblk: &mut [u8]) -> Res<bool> {
        let fmt = self.dir_format();
        let mut changed = false;
        let first = dir::read(fmt, dirblk, 0).ok().filter(Record::live);
        let in_order = |r: &Record<'_>| r.name == b"." && r.ino == scan.ino.0 && r.dtype == 4;
        match first.filter(|r| !in_order(r)).map(|r| Entry::of(&r)) {
            None if first.is_some() => {}
            Some(dot) if dot.name == b"." => changed |= self.check_dot(scan, dirblk, &dot)?,
            _ => {
                let draft = Draft::fatal(Id::DotMissing, "the first entry is not `.`: enter it");
                if self.should_fix(draft.ino(scan.ino))? {
                    let dotdot = find_dotdot(fmt, dirblk).unwrap_or(0);
                    let spilled = rebuild_first_dirblk(fmt, dirblk, scan.ino, Ino(dotdot));
                    scan.spilled.extend(spilled);
                    self.restart_after_phase();
                    changed = true;
                    if dotdot == 0 {
                        // An entry with inode 0 does not count as `..`: `check_dotdots` reports it
                        // as missing.
                        return Ok(true);
                    }
                }
            }
        }
        let second = dir::records(fmt, dirblk).nth(1).and_then(Result::ok);
        if let Some(rec) = second.filter(|r| r.live() && r.name == b"..") {
            let (ino, off, dtype) = (Ino(rec.ino), rec.off, rec.dtype);
            let sane = ino.0 >= 2 && ino.0 < self.g.inodes();
            self.dirs.update(scan.ino, |d| {
                d.has_dotdot = true;
                d.dotdot = if sane { ino } else { Ino(0) };
            });
            if dtype != 4 && !fmt.old {
                let draft = Draft::fatal(Id::DotDotType, "`..` has the wrong type").ino(scan.ino);
                if self.should_fix(draft.before(dtype).after(4))? {
                    dir::set_type(fmt, dirblk, off, 4);
                    changed = true;
                }
            }
        }
        Ok(changed)
    }

    fn check_dot(&mut self, scan: &DirScan, dirblk: &mut [u8], dot: &Entry) -> Res<bool> {
        let fmt = self.dir_format();
        let mut changed = false;
        if dot.ino != scan.ino.0 {
            let draft = Draft::fatal(Id::DotBad, "`.` names another inode").ino(scan.ino);
            if self.should_fix(draft.before(dot.ino).after(scan.ino))? {
                dir::set_ino(fmt, dirblk, 0, scan.ino.0);
                changed = true;
            }
        }
        if dot.dtype != 4 && !fmt.old {
            let draft = Draft::fatal(Id::DotType, "`.` has the wrong type").ino(scan.ino);
            if self.should_fix(draft.before(dot.dtype).after(4))? {
                dir::set_type(fmt, dirblk, 0, 4);
                changed = true;
            }
        }
        Ok(changed)
    }
}
