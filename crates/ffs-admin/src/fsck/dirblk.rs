//! Records of one directory block.
//!
//! A directory block (`dirblk`) is `DIRBLKSIZ` = 512 bytes; no record crosses its end.
//!
//! References: spec/directories-and-caches.md §1.

use ffs_ondisk::Ino;
use ffs_ondisk::dir::{self, DirFormat, Record, dirsiz};
use ffs_ondisk::geometry::DIRBLKSIZ;

/// An entry, copied from its directory block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// Inode number as stored.
    pub(super) ino: u32,
    /// `d_type`.
    pub(super) dtype: u8,
    /// The name.
    pub(super) name: Vec<u8>,
}

impl Entry {
    pub(super) fn of(rec: &Record<'_>) -> Entry {
        Entry { ino: rec.ino, dtype: rec.dtype, name: rec.name.to_vec() }
    }

    pub(super) fn is_dot(&self) -> bool {
        self.name == b"." || self.name == b".."
    }
}

/// Offset and name of the second record, if it is live.
pub(super) fn second_record(fmt: DirFormat, dirblk: &[u8]) -> Option<(usize, &[u8])> {
    let rec = dir::records(fmt, dirblk).nth(1)?.ok()?;
    rec.live().then_some((rec.off, rec.name))
}

/// Removes the record at `off`; the record before it takes over its space.
pub(super) fn remove_record(fmt: DirFormat, dirblk: &mut [u8], prev: Option<usize>, off: usize) {
    let len = |dirblk: &[u8], at: usize| -> usize {
        ffs_ondisk::wire::get::<u16>(dirblk, at + 4, fmt.endian).into()
    };
    match prev {
        Some(prev) => {
            let both = off - prev + len(dirblk, off);
            dir::set_reclen(fmt, dirblk, prev, both);
        }
        None => dir::set_ino(fmt, dirblk, off, 0),
    }
}

/// Puts `entry` into the first record with enough slack; `false` if there is none.
pub(super) fn insert_record(fmt: DirFormat, dirblk: &mut [u8], entry: &Entry) -> bool {
    let need = dirsiz(entry.name.len());
    let spot = dir::records(fmt, dirblk).filter_map(Result::ok).find_map(|r| {
        let used = if r.live() { dirsiz(r.name.len()) } else { 0 };
        (r.slack() >= need).then_some((r.off, used, r.reclen))
    });
    let Some((off, used, reclen)) = spot else { return false };
    if used > 0 {
        dir::set_reclen(fmt, dirblk, off, used);
    }
    put(fmt, dirblk, off + used, reclen - used, entry);
    true
}

fn put(fmt: DirFormat, dirblk: &mut [u8], off: usize, reclen: usize, entry: &Entry) {
    let Entry { ino, dtype, name } = entry;
    dir::write(fmt, dirblk, &Record { off, ino: *ino, reclen, dtype: *dtype, name });
}

/// Makes `.` and `..` the first two entries of a directory's first block. Returns the entries that
/// no longer fit.
pub(super) fn rebuild_first_dirblk(
    fmt: DirFormat,
    dirblk: &mut [u8],
    own: Ino,
    parent: Ino,
) -> Vec<Entry> {
    let live = dir::records(fmt, dirblk).filter_map(Result::ok).filter(Record::live);
    let others: Vec<Entry> = live.map(|r| Entry::of(&r)).filter(|e| !e.is_dot()).collect();
    let dot = |name: &[u8], ino: Ino| Entry { ino: ino.0, dtype: 4, name: name.to_vec() };
    dir::clear_chunk(fmt, dirblk);
    put(fmt, dirblk, 0, 12, &dot(b".", own));
    let rest = dirblk.len() - 12;
    put(fmt, dirblk, 12, rest, &dot(b"..", parent));
    others.into_iter().filter(|e| !insert_record(fmt, dirblk, e)).collect()
}

/// The first block of a new directory.
pub(super) fn new_dirblk(fmt: DirFormat, own: Ino, parent: Ino) -> Vec<u8> {
    let mut dirblk = vec![0; DIRBLKSIZ];
    rebuild_first_dirblk(fmt, &mut dirblk, own, parent);
    dirblk
}

/// Clears every name but `.` and `..` in the directory blocks of `buf`; `true` if there was one.
pub(super) fn clear_names(fmt: DirFormat, buf: &mut [u8]) -> bool {
    let mut any = false;
    for dirblk in buf.chunks_exact_mut(DIRBLKSIZ) {
        let live = dir::records(fmt, dirblk).filter_map(Result::ok).filter(Record::live);
        let names: Vec<usize> =
            live.filter(|r| !matches!(r.name, b"." | b"..")).map(|r| r.off).collect();
        names.iter().for_each(|&off| dir::set_ino(fmt, dirblk, off, 0));
        any |= !names.is_empty();
    }
    any
}

/// The inode number of the first `..` in the block.
pub(super) fn find_dotdot(fmt: DirFormat, dirblk: &[u8]) -> Option<u32> {
    let mut live = dir::records(fmt, dirblk).filter_map(Result::ok).filter(Record::live);
    live.find(|r| r.name == b"..").map(|r| r.ino)
}

/// Zeros every byte that belongs to no name; `true` if one of them was not zero.
pub(super) fn zero_unused(fmt: DirFormat, dirblk: &mut [u8]) -> bool {
    let mut spare: Vec<std::ops::Range<usize>> = Vec::new();
    for rec in dir::records(fmt, dirblk) {
        let Ok(rec) = rec else { return false };
        let used = if rec.live() { dir::HEADER + rec.name.len() } else { dir::HEADER };
        spare.push(rec.off + used..rec.off + rec.reclen);
        if !rec.live() {
            spare.push(rec.off + 6..rec.off + dir::HEADER);
        }
    }
    let mut changed = false;
    for range in spare {
        let Some(bytes) = dirblk.get_mut(range) else { continue };
        changed |= bytes.iter().any(|&b| b != 0);
        bytes.fill(0);
    }
    changed
}

/// The number of leading records that are `.` and `..` in their places.
pub(super) fn leading_dots(fmt: DirFormat, dirblk: &[u8]) -> usize {
    let mut records = dir::records(fmt, dirblk);
    let mut is =
        |name: &[u8]| records.next().is_some_and(|r| r.is_ok_and(|r| r.live() && r.name == name));
    match (is(b"."), is(b"..")) {
        (true, true) => 2,
        (true, false) => 1,
        (false, _) => 0,
    }
}
