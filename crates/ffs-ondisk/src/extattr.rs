//! Extended attributes: the records of an inode's attribute area (`spec/on-disk-format.md` §10.1).
//!
//! A UFS2 inode has an area of `di_extsize` bytes in at most two blocks: a sequence of records
//! without gaps, which is always rewritten as a whole. So the functions of this module map area
//! bytes to area bytes. [`crate::acl`] interprets the values of access lists.
//!
//! # Invariants
//! 1. [`records`] ends after at most `area.len() / 8` steps and returns nothing after the first
//!    malformed record.
//! 2. A record that it returns is within the area; name and value are within the record.
//! 3. [`set`] and [`remove`] return an error for an area with a malformed record; the area that
//!    they return is well formed and no longer than the limit.
//!
//! ```
//! use ffs_ondisk::extattr::{Namespace, find, set};
//! use ffs_ondisk::Endian::Little;
//!
//! let area = set(Little, &[], Namespace::User, b"test", b"nine byte", 65536)?;
//! assert_eq!(area.len(), 32);
//! let attr = find(Little, &area, Namespace::User, b"test")?.ok_or("not there")?;
//! assert_eq!(attr.value, b"nine byte");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use crate::error::BadRecord;
use crate::geometry::{Format, Geometry};
use crate::wire::{Endian, get, put};

/// Bytes before the name.
const HEADER: usize = 7;
/// Alignment of records and of their parts, bytes.
const ALIGN: usize = 8;
/// Longest name, bytes.
pub const MAX_NAME: usize = 255;

/// The namespace of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Namespace {
    /// Accessible to users who may read or write the file.
    User,
    /// Accessible to root only.
    System,
    /// A number that FreeBSD does not define; such records are preserved but never found.
    Other(u8),
}

impl Namespace {
    /// The namespace of the number on disk.
    #[must_use]
    pub fn from_raw(n: u8) -> Namespace {
        match n {
            1 => Namespace::User,
            2 => Namespace::System,
            other => Namespace::Other(other),
        }
    }

    /// The number on disk.
    #[must_use]
    pub fn raw(self) -> u8 {
        match self {
            Namespace::User => 1,
            Namespace::System => 2,
            Namespace::Other(n) => n,
        }
    }
}

/// An attribute in an area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr<'a> {
    /// Byte offset of its record in the area.
    pub off: usize,
    /// Bytes of its record, padding included.
    pub len: usize,
    /// Namespace.
    pub namespace: Namespace,
    /// Name, without the namespace; 1 to 255 bytes, no NUL.
    pub name: &'a [u8],
    /// Value.
    pub value: &'a [u8],
}

/// Why an attribute cannot be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// The area is damaged.
    #[error("extended attributes: {0}")]
    Damaged(#[from] BadRecord),
    /// The name is empty, too long or has a NUL.
    #[error("an attribute name has 1 to 255 bytes and no NUL")]
    Name,
    /// The area would exceed its limit.
    #[error("the attributes would take {need} bytes, {limit} is the limit")]
    NoSpace {
        /// Bytes the area would have.
        need: usize,
        /// Bytes it may have.
        limit: usize,
    },
}

/// Most bytes of an area: two blocks; none on UFS1.
#[must_use]
pub fn area_limit(g: &Geometry) -> usize {
    match g.format {
        Format::Ufs1 => 0,
        Format::Ufs2 => 2 * g.bsize as usize,
    }
}

/// Bytes before the value of a record with a name of `namelen` bytes.
///
/// As in the kernel; the macros in FreeBSD's header differ by one byte (`spec/on-disk-format.md`
/// §10.1).
#[must_use]
pub fn header_len(namelen: usize) -> usize {
    (HEADER + namelen).next_multiple_of(ALIGN)
}

/// Bytes of a whole record.
#[must_use]
pub fn record_len(namelen: usize, value: usize) -> usize {
    header_len(namelen).saturating_add(value.checked_next_multiple_of(ALIGN).unwrap_or(usize::MAX))
}

/// Whether `name` is a valid attribute name.
#[must_use]
pub fn name_ok(name: &[u8]) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && !name.contains(&0)
}

/// The attributes of `area` (exactly `di_extsize` bytes), up to and including the first malformed
/// one.
#[must_use]
pub fn records(endian: Endian, area: &[u8]) -> Records<'_> {
    Records { endian, area, off: 0 }
}

/// Iterator of [`records`].
#[derive(Clone, Debug)]
pub struct Records<'a> {
    endian: Endian,
    area: &'a [u8],
    off: usize,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Attr<'a>, BadRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.off >= self.area.len() {
            return None;
        }
        let r = read(self.endian, self.area, self.off);
        self.off = match &r {
            Ok(a) => a.off + a.len,
            Err(_) => self.area.len(),
        };
        Some(r)
    }
}

/// Reads and checks the record at byte `off` of `area`.
///
/// # Errors
/// The first rule that the record violates.
pub fn read(endian: Endian, area: &[u8], off: usize) -> Result<Attr<'_>, BadRecord> {
    let bad = |field, found, expected| BadRecord { off, field, found, expected };
    let raw_len: u32 = get(area, off, endian);
    let available = area.len().saturating_sub(off);
    let rec = usize::try_from(raw_len)
        .ok()
        .filter(|&len| len >= ALIGN && len.is_multiple_of(ALIGN) && len <= available)
        .and_then(|len| area.get(off..off + len));
    let Some(rec) = rec else {
        return Err(bad("record length", raw_len, "a multiple of 8 up to the end of the area"));
    };
    let (pad, namelen) = (get::<u8>(rec, 5, endian), get::<u8>(rec, 6, endian));
    let Some(name) = rec.get(HEADER..HEADER + usize::from(namelen)).filter(|n| !n.is_empty())
    else {
        return Err(bad("name length", namelen.into(), "1 to 255 and within the record"));
    };
    if name.contains(&0) {
        return Err(bad("name byte", 0, "not NUL"));
    }
    let start = header_len(name.len());
    let end = rec.len().checked_sub(usize::from(pad));
    let value = end.filter(|_| usize::from(pad) < ALIGN).and_then(|end| rec.get(start..end));
    let Some(value) = value else {
        return Err(bad("padding", pad.into(), "0 to 7, behind the name"));
    };
    let namespace = Namespace::from_raw(get(rec, 4, endian));
    Ok(Attr { off, len: rec.len(), namespace, name, value })
}

/// The attribute `name` of `area`, if it exists.
///
/// # Errors
/// The first malformed record up to there.
pub fn find<'a>(
    endian: Endian,
    area: &'a [u8],
    namespace: Namespace,
    name: &[u8],
) -> Result<Option<Attr<'a>>, BadRecord> {
    for attr in records(endian, area) {
        let attr = attr?;
        if attr.namespace == namespace && attr.name == name {
            return Ok(Some(attr));
        }
    }
    Ok(None)
}

/// The area with `name` set to `value`: in place of the old record, else appended.
///
/// `limit` is [`area_limit`] of the volume.
///
/// # Errors
/// A damaged area, an invalid name, no space.
pub fn set(
    endian: Endian,
    area: &[u8],
    namespace: Namespace,
    name: &[u8],
    value: &[u8],
    limit: usize,
) -> Result<Vec<u8>, SetError> {
    if !name_ok(name) {
        return Err(SetError::Name);
    }
    let (before, after) = split(endian, area, namespace, name)?.unwrap_or((area, &[]));
    let len = record_len(name.len(), value.len());
    let need = len.saturating_add(before.len() + after.len());
    let too_big = SetError::NoSpace { need, limit };
    let raw_len = u32::try_from(len).map_err(|_| too_big)?;
    if need > limit {
        return Err(too_big);
    }
    let mut out = Vec::with_capacity(need);
    out.extend_from_slice(before);
    let start = out.len();
    out.resize(start + len, 0);
    if let Some(rec) = out.get_mut(start..) {
        write(endian, rec, raw_len, namespace, name, value);
    }
    out.extend_from_slice(after);
    Ok(out)
}

/// The area without `name`; `None` if there is no such attribute.
///
/// # Errors
/// A malformed record anywhere.
pub fn remove(
    endian: Endian,
    area: &[u8],
    namespace: Namespace,
    name: &[u8],
) -> Result<Option<Vec<u8>>, BadRecord> {
    let parts = split(endian, area, namespace, name)?;
    Ok(parts.map(|(before, after)| [before, after].concat()))
}

/// The bytes before and after the record of `name`, after a check of the whole area.
#[expect(clippy::type_complexity, reason = "a pair of slices needs no name of its own")]
fn split<'a>(
    endian: Endian,
    area: &'a [u8],
    namespace: Namespace,
    name: &[u8],
) -> Result<Option<(&'a [u8], &'a [u8])>, BadRecord> {
    let mut parts = None;
    for attr in records(endian, area) {
        let attr = attr?;
        if parts.is_none() && attr.namespace == namespace && attr.name == name {
            let after = area.get(attr.off + attr.len..).unwrap_or(&[]);
            parts = Some((area.get(..attr.off).unwrap_or(&[]), after));
        }
    }
    Ok(parts)
}

/// Fills the zeroed record `rec`.
fn write(
    endian: Endian,
    rec: &mut [u8],
    len: u32,
    namespace: Namespace,
    name: &[u8],
    value: &[u8],
) {
    put(rec, 0, endian, len);
    let pad = value.len().next_multiple_of(ALIGN) - value.len();
    let head = [namespace.raw(), pad as u8, name.len() as u8];
    put(rec, 4, endian, head);
    for (at, bytes) in [(HEADER, name), (header_len(name.len()), value)] {
        if let Some(dst) = rec.get_mut(at..at + bytes.len()) {
            dst.copy_from_slice(bytes);
        }
    }
}
