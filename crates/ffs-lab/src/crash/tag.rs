//! Tagged contents: each part of a file names its object, version and sector.
//!
//! Every 16 bytes that a workload writes are a tag: the object, the version, and the sector of the
//! file. A tag found anywhere else is foreign data. Bytes that are neither a tag nor zero were
//! never written by the workload; [`POISON`] was never written at all.
//!
//! # Invariants
//! 1. The byte at an offset of a file follows from (object, version, offset) alone. A write that
//!    begins or ends inside a tag leaves parts of two versions in it, each at its offset.
//!
//! Reference: `spec/fsck-and-crash.md` §11.5.

use super::history::{ObjId, SECTOR};

/// Bytes of an encoded tag.
pub(crate) const TAG_BYTES: usize = 16;
/// The content of a device before newfs.
pub(crate) const POISON: u8 = 0xdb;
/// The first two bytes of every tag.
const MAGIC: [u8; 2] = [0xf5, 0x7a];

/// The object, version and sector of some content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tag {
    /// The object.
    pub obj: ObjId,
    /// The version: the number of the write, counted from 1 over the whole workload.
    pub version: u32,
    /// Sector of the file, counted from 0 in units of [`SECTOR`] bytes.
    pub sector: u32,
}

/// Encodes a tag; all tags of a sector are equal.
#[must_use]
pub(crate) fn encode(tag: Tag) -> [u8; TAG_BYTES] {
    let mut bytes = [0; TAG_BYTES];
    bytes[..2].copy_from_slice(&MAGIC);
    bytes[2..6].copy_from_slice(&tag.obj.0.to_le_bytes());
    bytes[6..10].copy_from_slice(&tag.version.to_le_bytes());
    bytes[10..14].copy_from_slice(&tag.sector.to_le_bytes());
    let check = check(&bytes);
    bytes[14..].copy_from_slice(&check);
    bytes
}

/// Decodes a tag; `None` if the bytes are not a tag.
#[must_use]
pub(crate) fn decode(bytes: &[u8]) -> Option<Tag> {
    let bytes: &[u8; TAG_BYTES] = bytes.get(..TAG_BYTES)?.try_into().ok()?;
    if bytes[..2] != MAGIC || bytes[14..] != check(bytes) {
        return None;
    }
    let number =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    Some(Tag { obj: ObjId(number(2)), version: number(6), sector: number(10) })
}

fn check(bytes: &[u8; TAG_BYTES]) -> [u8; 2] {
    let sum = bytes[2..14]
        .iter()
        .fold(0x2b17u16, |sum, &byte| sum.rotate_left(3).wrapping_mul(5) ^ u16::from(byte));
    sum.to_le_bytes()
}

/// The content of sector `index` of `obj` after all of it was written in `version`.
#[must_use]
pub(crate) fn sector(obj: ObjId, version: u32, index: u32) -> [u8; SECTOR] {
    let tag = encode(Tag { obj, version, sector: index });
    let mut bytes = [0; SECTOR];
    for part in bytes.chunks_exact_mut(TAG_BYTES) {
        part.copy_from_slice(&tag);
    }
    bytes
}

/// Fills `buf` with the content of `obj` in `version`, from byte `offset` of the file on.
pub(crate) fn fill(obj: ObjId, version: u32, offset: u64, buf: &mut [u8]) {
    let mut done = 0;
    while done < buf.len() {
        let at = offset + done as u64;
        // Files of the laboratory are far smaller than 2 TiB.
        let whole = sector(obj, version, (at / SECTOR as u64) as u32);
        let within = (at % SECTOR as u64) as usize;
        let take = (SECTOR - within).min(buf.len() - done);
        buf[done..done + take].copy_from_slice(&whole[within..within + take]);
        done += take;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_name_their_object() {
        let tag = Tag { obj: ObjId(7), version: 300, sector: 9 };
        assert_eq!(decode(&encode(tag)), Some(tag));
        for byte in 0..TAG_BYTES {
            let mut damaged = encode(tag);
            damaged[byte] ^= 0x10;
            assert_eq!(decode(&damaged), None, "byte {byte}");
        }
        assert_eq!(decode(&[POISON; TAG_BYTES]), None);
        assert_eq!(decode(&[0; TAG_BYTES]), None);
    }

    #[test]
    fn any_range_holds_the_same_bytes_in_its_place() {
        let mut whole = [0; 2048];
        fill(ObjId(3), 4, 0, &mut whole);
        assert_eq!(whole[512..1024], sector(ObjId(3), 4, 1));
        let mut part = [0; 700];
        fill(ObjId(3), 4, 333, &mut part);
        assert_eq!(part[..], whole[333..1033]);
    }
}
