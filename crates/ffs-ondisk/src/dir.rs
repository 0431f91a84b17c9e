//! Directory blocks of `DIRBLKSIZ` bytes, here called chunks, and their records
//! (`spec/on-disk-format.md` §8; `spec/directories-and-caches.md` §1).
//!
//! A directory is a sequence of 512-byte chunks. The records of a chunk fill it exactly. All
//! functions of this module operate on one chunk.
//!
//! # Invariants
//! 1. [`records`] ends after at most 512 / 4 steps for any content: it stops at the first malformed
//!    record.
//! 2. A record that it returns is within the chunk. A live record's name has 1 to 255 bytes without
//!    NUL or `/` and is followed by a NUL.
//! 3. [`write()`] sets every byte of the record's name area: padding is zero (old kernels disclosed
//!    memory there, `spec/known-failures.md` §2.9).

pub use crate::error::BadRecord;
use crate::geometry::{DIRBLKSIZ, Geometry};
use crate::wire::{Endian, put};

/// Bytes before the name.
pub const HEADER: usize = 8;
/// Longest name, bytes.
pub const MAXNAMLEN: usize = 255;
/// `d_type` of a whiteout.
pub const DT_WHT: u8 = 14;

/// The encoding of records on a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirFormat {
    /// Byte order.
    pub endian: Endian,
    /// 4.2BSD records: a 16-bit name length and no type.
    pub old: bool,
}

impl DirFormat {
    /// The format of a volume's directories.
    #[must_use]
    pub fn of(g: &Geometry) -> DirFormat {
        DirFormat { endian: g.endian, old: g.maxsymlinklen == 0 }
    }
}

/// A record of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Byte offset in the chunk.
    pub off: usize,
    /// Inode number as stored: 0 = free record, 1 = whiteout.
    pub ino: u32,
    /// Distance to the next record, bytes.
    pub reclen: usize,
    /// `d_type`; 0 = unknown.
    pub dtype: u8,
    /// The name; empty if the record is free.
    pub name: &'a [u8],
}

impl Record<'_> {
    /// Whether the record is an entry.
    #[must_use]
    pub fn live(&self) -> bool {
        self.ino != 0
    }

    /// Bytes that a new entry could take from this record.
    #[must_use]
    pub fn slack(&self) -> usize {
        if self.live() { self.reclen.saturating_sub(dirsiz(self.name.len())) } else { self.reclen }
    }
}

/// Bytes that a record with a name of `namlen` bytes needs (`DIRSIZ`).
#[must_use]
#[inline]
pub fn dirsiz(namlen: usize) -> usize {
    (HEADER + namlen + 1 + 3) & !3
}

/// Whether `name` may be entered in a directory: 1 to 255 bytes, no NUL, no `/`.
#[must_use]
pub fn name_ok(name: &[u8]) -> bool {
    (1..=MAXNAMLEN).contains(&name.len()) && !name.iter().any(|&b| b == 0 || b == b'/')
}

/// The records of `chunk` in order, up to and including the first malformed one.
///
/// ```
/// use ffs_ondisk::dir::{DirFormat, Record, clear_chunk, records, write};
/// use ffs_ondisk::Endian;
///
/// let fmt = DirFormat { endian: Endian::Big, old: false };
/// let mut chunk = [0; 512];
/// clear_chunk(fmt, &mut chunk);
/// write(fmt, &mut chunk, &Record { off: 0, ino: 9, reclen: 512, dtype: 8, name: b"motd" });
/// let names: Vec<_> = records(fmt, &chunk).map(|r| r.map(|r| r.name)).collect();
/// assert_eq!(names, [Ok(&b"motd"[..])]);
/// ```
#[must_use]
pub fn records(fmt: DirFormat, chunk: &[u8]) -> Records<'_> {
    Records { fmt, chunk: chunk.get(..DIRBLKSIZ).unwrap_or(chunk), off: 0 }
}

/// Iterator of [`records`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    fmt: DirFormat,
    chunk: &'a [u8],
    off: usize,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, BadRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.off >= self.chunk.len() {
            return None;
        }
        let r = read(self.fmt, self.chunk, self.off);
        self.off = match &r {
            Ok(rec) => rec.off + rec.reclen,
            Err(_) => self.chunk.len(),
        };
        Some(r)
    }
}

/// The fixed part of a record, checked; the bytes of its name are unchecked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Inode number as stored: 0 = free record, 1 = whiteout.
    pub ino: u32,
    /// Distance to the next record, bytes.
    pub reclen: usize,
    /// `d_type`; 0 = unknown.
    pub dtype: u8,
    /// Length of the name, bytes; 0 if the record is free.
    pub namlen: usize,
}

impl Header {
    /// Whether the record is an entry.
    #[must_use]
    #[inline]
    pub fn live(&self) -> bool {
        self.ino != 0
    }

    /// Bytes that a new entry could take from this record.
    #[must_use]
    #[inline]
    pub fn slack(&self) -> usize {
        let used = if self.live() { dirsiz(self.namlen) } else { 0 };
        self.reclen.saturating_sub(used)
    }
}

/// Reads and checks the fixed part of the record at byte `off` of `chunk`. That suffices to walk
/// the chunk and to compare names, without reading every name.
///
/// # Errors
/// The first rule that the record violates.
#[inline]
pub fn header(fmt: DirFormat, chunk: &[u8], off: usize) -> Result<Header, BadRecord> {
    let bad = |field, found, expected| Err(BadRecord { off, field, found, expected });
    let Some(bytes) = chunk.get(off..).and_then(<[u8]>::first_chunk) else {
        return bad("record length", 0, "at least the size of a header");
    };
    // One load: walks spend most of their time here.
    let (ino, reclen, b6, b7) = match fmt.endian {
        Endian::Little => {
            let word = u64::from_le_bytes(*bytes);
            (word as u32, (word >> 32) as u16, (word >> 48) as u8, (word >> 56) as u8)
        }
        Endian::Big => {
            let word = u64::from_be_bytes(*bytes);
            ((word >> 32) as u32, (word >> 16) as u16, (word >> 8) as u8, word as u8)
        }
    };
    let reclen = usize::from(reclen);
    if reclen < HEADER || reclen % 4 != 0 || reclen > chunk.len() - off {
        let want = "a multiple of 4 from 8 to the end of the chunk";
        return bad("record length", reclen as u32, want);
    }
    let (dtype, namlen) = match (fmt.old, fmt.endian) {
        (false, _) => (b6, usize::from(b7)),
        (true, Endian::Little) => (0, usize::from(u16::from_le_bytes([b6, b7]))),
        (true, Endian::Big) => (0, usize::from(u16::from_be_bytes([b6, b7]))),
    };
    // Without a branch on whether it is live: a mix of live and free records cannot be predicted.
    let live = ino != 0;
    let (dtype, namlen) = if live { (dtype, namlen) } else { (0, 0) };
    let named = (namlen != 0) & (namlen <= MAXNAMLEN) & (dirsiz(namlen) <= reclen);
    if live & !((dtype <= 15) & named) {
        return if dtype > 15 {
            bad("type", dtype.into(), "at most 15")
        } else {
            bad("name length", namlen as u32, "1 to 255 and within the record")
        };
    }
    Ok(Header { ino, reclen, dtype, namlen })
}

/// A type of more than 15, in the first word of a record.
const DTYPE_OVER_15: u64 = 0xf0 << 48;

/// The lengths of a live, sound record without slack, as most records of a large directory are.
/// Exists only for the little-endian format with types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packed {
    reclen: usize,
    namlen: usize,
}

impl Packed {
    /// Length of the record, bytes.
    #[inline]
    #[must_use]
    pub fn reclen(self) -> usize {
        self.reclen
    }

    /// Length of the name, bytes.
    #[inline]
    #[must_use]
    pub fn namlen(self) -> usize {
        self.namlen
    }

    /// Whether [`packed`] would return the same lengths for the record at byte `off` of `chunk`, a
    /// chunk of the same directory.
    #[inline]
    #[must_use]
    pub fn is_also_at(self, chunk: &[u8], off: usize) -> bool {
        const LENGTHS: u64 = (0xff << 56) | (0xffff << 32);
        let Some(word) = first_word(chunk, off) else { return false };
        let lengths = ((self.namlen as u64) << 56) | ((self.reclen as u64) << 32);
        let fits = off + self.reclen <= chunk.len();
        (word & (LENGTHS | DTYPE_OVER_15) == lengths) & (word as u32 != 0) & fits
    }
}

/// The fixed part of the record at byte `off` of a little-endian `chunk`.
#[inline]
fn first_word(chunk: &[u8], off: usize) -> Option<u64> {
    chunk.get(off..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// The lengths of the record at byte `off` of `chunk` if it is live, sound and without slack.
/// `None` if [`header`] has to decide, and for the formats of other byte orders and of 4.3BSD.
#[inline]
#[must_use]
pub fn packed(fmt: DirFormat, chunk: &[u8], off: usize) -> Option<Packed> {
    if fmt.old || fmt.endian != Endian::Little {
        return None;
    }
    let word = first_word(chunk, off)?;
    let (ino, reclen) = (word as u32, usize::from((word >> 32) as u16));
    let namlen = (word >> 56) as usize;
    let is_live = (ino != 0) & (word & DTYPE_OVER_15 == 0) & (namlen != 0);
    let fits = (dirsiz(namlen) == reclen) & (off + reclen <= chunk.len());
    (is_live & fits).then_some(Packed { reclen, namlen })
}

/// Reads and checks the record at byte `off` of `chunk`.
///
/// # Errors
/// The first rule that the record violates.
pub fn read(fmt: DirFormat, chunk: &[u8], off: usize) -> Result<Record<'_>, BadRecord> {
    let bad = |field, found, expected| BadRecord { off, field, found, expected };
    let Header { ino, reclen, dtype, namlen } = header(fmt, chunk, off)?;
    if ino == 0 {
        return Ok(Record { off, ino, reclen, dtype, name: &[] });
    }
    let name = chunk.get(off + HEADER..off + HEADER + namlen).unwrap_or(&[]);
    if let Some(c) = bad_name_byte(name) {
        return Err(bad("name byte", c.into(), "neither NUL nor '/'"));
    }
    match chunk.get(off + HEADER + namlen) {
        Some(0) => Ok(Record { off, ino, reclen, dtype, name }),
        other => Err(bad("byte after the name", other.copied().unwrap_or(0).into(), "NUL")),
    }
}

/// Reads the record at byte `off` of `chunk` after [`read`] has accepted it: its name is not
/// checked again.
///
/// # Errors
/// As [`header`].
#[inline]
pub fn read_again(fmt: DirFormat, chunk: &[u8], off: usize) -> Result<Record<'_>, BadRecord> {
    let Header { ino, reclen, dtype, namlen } = header(fmt, chunk, off)?;
    let name = chunk.get(off + HEADER..off + HEADER + namlen).unwrap_or(&[]);
    Ok(Record { off, ino, reclen, dtype, name })
}

/// Whether [`read`] accepts every record of `chunk`.
#[must_use]
pub fn is_sound(fmt: DirFormat, chunk: &[u8]) -> bool {
    let mut off = 0;
    while off < chunk.len() {
        let Ok(rec) = header(fmt, chunk, off) else { return false };
        let name = chunk.get(off + HEADER..off + HEADER + rec.namlen).unwrap_or(&[]);
        let ended = chunk.get(off + HEADER + rec.namlen) == Some(&0);
        if rec.live() && (bad_name_byte(name).is_some() || !ended) {
            return false;
        }
        off += rec.reclen;
    }
    true
}

/// The first byte of a name that is not allowed in names.
fn bad_name_byte(name: &[u8]) -> Option<u8> {
    // Names are short and nearly always valid: a loop without an early exit is faster.
    let bad = name.iter().fold(false, |bad, &c| bad | (c == 0) | (c == b'/'));
    if bad { name.iter().copied().find(|&c| c == 0 || c == b'/') } else { None }
}

/// Writes a whole record at byte `off` of `chunk`, with its name area padded with zeros.
///
/// The caller ensures that `reclen` is at least `dirsiz(name.len())` and ends within the chunk.
pub fn write(fmt: DirFormat, chunk: &mut [u8], rec: &Record<'_>) {
    let off = rec.off;
    put(chunk, off, fmt.endian, rec.ino);
    set_reclen(fmt, chunk, off, rec.reclen);
    if fmt.old {
        put(chunk, off + 6, fmt.endian, rec.name.len() as u16);
    } else {
        put(chunk, off + 6, fmt.endian, rec.dtype);
        put(chunk, off + 7, fmt.endian, rec.name.len() as u8);
    }
    let end = (off + dirsiz(rec.name.len())).min(off + rec.reclen);
    if let Some(area) = chunk.get_mut(off + HEADER..end) {
        area.fill(0);
        for (d, s) in area.iter_mut().zip(rec.name) {
            *d = *s;
        }
    }
}

/// Changes the inode number of the record at `off`; 0 frees it.
pub fn set_ino(fmt: DirFormat, chunk: &mut [u8], off: usize, ino: u32) {
    put(chunk, off, fmt.endian, ino);
}

/// Changes the type of the record at `off`.
pub fn set_type(fmt: DirFormat, chunk: &mut [u8], off: usize, dtype: u8) {
    if !fmt.old {
        put(chunk, off + 6, fmt.endian, dtype);
    }
}

/// Changes the length of the record at `off`, bytes.
pub fn set_reclen(fmt: DirFormat, chunk: &mut [u8], off: usize, reclen: usize) {
    put(chunk, off + 4, fmt.endian, reclen as u16);
}

/// Makes `chunk` one free record; all other bytes become zero.
pub fn clear_chunk(fmt: DirFormat, chunk: &mut [u8]) {
    chunk.fill(0);
    set_reclen(fmt, chunk, 0, chunk.len().min(DIRBLKSIZ));
}
