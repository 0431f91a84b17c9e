//! Directory records in a block: UFS's and ext2's.
//!
//! Both have an inode number, the distance to the next record, a type, a length and the name. UFS
//! ends a name with a NUL and keeps records within 512 bytes; ext2 keeps them within a block and
//! has length and type in the other order.
//!
//! # Invariants
//! 1. Every function accepts any bytes. A malformed record is an error and never a panic.
//! 2. The records of a unit fill it exactly, before and after a change.
//!
//! Reference: `docs/spec/directories-and-caches.md` §1.2, §2.3, §8.2.

use ffs_ondisk::dir::{MAXNAMLEN, name_ok};

use super::bytes::{get, put};
use super::error::{IndexError, Result};
use crate::machine::SearchWork;

/// Bytes before a name.
pub(super) const HEADER: usize = 8;
/// The type of a regular file in UFS and in ext2.
const UFS_REGULAR: u8 = 8;
const EXT2_REGULAR: u8 = 1;

/// A record format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Records {
    /// UFS's, in chunks of 512 bytes.
    Ufs,
    /// ext2's, in whole blocks.
    Ext2,
}

/// A record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record<'a> {
    /// Byte in the unit.
    pub(super) off: usize,
    /// Inode number; 0 if the record is free.
    pub(super) ino: u32,
    /// Distance to the next record.
    pub(super) len: usize,
    /// The name; empty if the record is free.
    pub(super) name: &'a [u8],
}

/// The place of an entry in its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Byte of the record.
    pub(super) off: usize,
    /// Byte of the record before it, if it is not the first.
    pub(super) before: Option<usize>,
    /// Inode number.
    pub(super) ino: u32,
}

/// Checks a name for [`super::Index::insert`].
pub(super) fn check_name(name: &[u8]) -> Result<()> {
    if name_ok(name) && name.len() <= MAXNAMLEN { Ok(()) } else { Err(IndexError::BadName) }
}

impl Records {
    /// Bytes that a name of `len` bytes needs.
    pub(super) fn need(self, len: usize) -> usize {
        let nul = usize::from(self == Records::Ufs);
        (HEADER + len + nul + 3) & !3
    }

    fn slack(self, record: &Record<'_>) -> usize {
        let used = if record.ino == 0 { 0 } else { self.need(record.name.len()) };
        record.len.saturating_sub(used)
    }

    /// The record at `off`, or the rule that it breaks.
    fn read(self, unit: &[u8], off: usize) -> std::result::Result<Record<'_>, &'static str> {
        let head = unit.get(off..off + HEADER).ok_or("a record within its unit")?;
        let (ino, len) = (get::<u32>(head, 0), usize::from(get::<u16>(head, 4)));
        if len < HEADER || len % 4 != 0 || off + len > unit.len() {
            return Err("a record length that is a multiple of 4 within its unit");
        }
        if ino == 0 {
            return Ok(Record { off, ino, len, name: &[] });
        }
        let at = if self == Records::Ufs { 7 } else { 6 };
        let name_len = usize::from(head.get(at).copied().unwrap_or(0));
        if name_len == 0 || self.need(name_len) > len {
            return Err("a name within its record");
        }
        let name = unit.get(off + HEADER..off + HEADER + name_len).unwrap_or(&[]);
        if name.iter().any(|b| matches!(b, 0 | b'/')) {
            return Err("a name without NUL and '/'");
        }
        Ok(Record { off, ino, len, name })
    }

    /// Calls `each` with every record, free ones included, until it returns `false`.
    pub(super) fn each<'a>(
        self,
        unit: &'a [u8],
        mut each: impl FnMut(Record<'a>) -> bool,
    ) -> std::result::Result<(), &'static str> {
        let mut off = 0;
        while off < unit.len() {
            let record = self.read(unit, off)?;
            if !each(record) {
                return Ok(());
            }
            off += record.len;
        }
        Ok(())
    }

    /// The entry of `name`.
    pub(super) fn find(
        self,
        unit: &[u8],
        name: &[u8],
        work: &mut SearchWork,
    ) -> std::result::Result<Option<Place>, &'static str> {
        let (mut found, mut before) = (None, None);
        work.chunks += unit.len().div_ceil(512) as u64;
        self.each(unit, |record| {
            work.records += 1;
            if record.ino != 0 && record.name == name {
                found = Some(Place { off: record.off, before, ino: record.ino });
                return false;
            }
            before = Some(record.off);
            true
        })?;
        Ok(found)
    }

    /// The number of the entry at `off`, if its name is `name`.
    pub(super) fn matches(self, unit: &[u8], off: usize, name: &[u8]) -> Option<u32> {
        self.read(unit, off).ok().filter(|r| r.ino != 0 && r.name == name).map(|r| r.ino)
    }

    /// The entry at `off`, with the record before it.
    pub(super) fn place_of(
        self,
        unit: &[u8],
        off: usize,
    ) -> std::result::Result<Option<Place>, &'static str> {
        let (mut found, mut before) = (None, None);
        self.each(unit, |record| {
            if record.off == off && record.ino != 0 {
                found = Some(Place { off, before, ino: record.ino });
            }
            before = Some(record.off);
            record.off < off
        })?;
        Ok(found)
    }

    /// The most bytes that one record of the unit has to spare, and the sum.
    pub(super) fn free_bytes(
        self,
        unit: &[u8],
    ) -> std::result::Result<(usize, usize), &'static str> {
        let (mut most, mut sum) = (0, 0);
        self.each(unit, |record| {
            let slack = self.slack(&record);
            most = most.max(slack);
            sum += slack;
            true
        })?;
        Ok((most, sum))
    }

    /// Enters a name in the slack of one record. Returns its byte, or `None` without space.
    pub(super) fn insert(
        self,
        unit: &mut [u8],
        name: &[u8],
        ino: u32,
    ) -> std::result::Result<Option<usize>, &'static str> {
        let need = self.need(name.len());
        let mut place = None;
        self.each(unit, |record| {
            if self.slack(&record) < need {
                return true;
            }
            let used = if record.ino == 0 { 0 } else { self.need(record.name.len()) };
            place = Some((record.off, used, record.len));
            false
        })?;
        let Some((off, used, len)) = place else { return Ok(None) };
        if used > 0 {
            put::<u16>(unit, off + 4, used as u16);
        }
        self.write(unit, off + used, len - used, (name, ino));
        Ok(Some(off + used))
    }

    /// Writes a record of `len` bytes.
    pub(super) fn write(self, unit: &mut [u8], off: usize, len: usize, (name, ino): (&[u8], u32)) {
        put::<u32>(unit, off, ino);
        put::<u16>(unit, off + 4, len as u16);
        let (at, kind, type_at) = match self {
            Records::Ufs => (7, UFS_REGULAR, 6),
            Records::Ext2 => (6, EXT2_REGULAR, 7),
        };
        let end = (off + self.need(name.len())).min(unit.len());
        if let Some(rest) = unit.get_mut(off + 6..end) {
            rest.fill(0);
            if let Some(text) = rest.get_mut(2..2 + name.len()) {
                text.copy_from_slice(name);
            }
        }
        if !name.is_empty() {
            unit[off + at] = name.len() as u8;
            unit[off + type_at] = kind;
        }
    }

    /// Removes an entry: its bytes go to the record before it.
    pub(super) fn remove(self, unit: &mut [u8], place: &Place) {
        let len = get::<u16>(unit, place.off + 4);
        match place.before {
            Some(before) => {
                let sum = get::<u16>(unit, before + 4).saturating_add(len);
                put::<u16>(unit, before + 4, sum);
            }
            None => put::<u32>(unit, place.off, 0),
        }
    }

    /// Makes the unit one free record.
    pub(super) fn clear(self, unit: &mut [u8]) {
        let len = unit.len();
        unit.fill(0);
        self.write(unit, 0, len, (&[], 0));
    }

    /// Fills the unit with these entries, one after the other; the last record has the rest.
    pub(super) fn pack(self, unit: &mut [u8], entries: &[(Vec<u8>, u32)]) {
        self.clear(unit);
        let mut off = 0;
        for (at, (name, ino)) in entries.iter().enumerate() {
            let last = at + 1 == entries.len();
            let len = if last { unit.len() - off } else { self.need(name.len()) };
            self.write(unit, off, len, (name, *ino));
            off += len;
        }
    }

    /// The entries of the unit.
    pub(super) fn entries(
        self,
        unit: &[u8],
    ) -> std::result::Result<Vec<(Vec<u8>, u32)>, &'static str> {
        let mut all = Vec::new();
        self.each(unit, |record| {
            if record.ino != 0 {
                all.push((record.name.to_vec(), record.ino));
            }
            true
        })?;
        Ok(all)
    }
}
