//! Contents that say whose they are.
//!
//! Every 16 bytes of what a workload writes are a cell: which object it was written to, in which
//! version, and which sector of the file it belongs to. A cell found anywhere else is foreign data;
//! bytes that are no cell and not zero were never written by the workload ([`POISON`]: never by
//! anybody).
//!
//! # Invariants
//! 1. The byte at an offset of a file follows from (object, version, offset) alone: a write that begins
//!    or ends inside a cell leaves parts of two versions in it, each in its place.
//!
//! Reference: `spec/fsck-and-crash.md` §11.5.

use super::history::ObjId;

/// Bytes of a cell.
pub const CELL: usize = 16;
/// Bytes of a sector, the unit in which a device is torn.
pub const SECTOR: usize = 512;
/// What a device holds before it gets a file system.
pub const POISON: u8 = 0xdb;
/// The first two bytes of every cell.
const MAGIC: [u8; 2] = [0xf5, 0x7a];

/// What a cell says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag {
    /// The object it was written to.
    pub obj: ObjId,
    /// The write that wrote it: counted from 1 over the whole workload.
    pub version: u32,
    /// Sector of the file, counted from 0 in units of [`SECTOR`] bytes.
    pub sector: u32,
}

/// The cell of `tag`; all cells of a sector are alike.
#[must_use]
pub fn cell(tag: Tag) -> [u8; CELL] {
    let mut cell = [0; CELL];
    cell[..2].copy_from_slice(&MAGIC);
    cell[2..6].copy_from_slice(&tag.obj.0.to_le_bytes());
    cell[6..10].copy_from_slice(&tag.version.to_le_bytes());
    cell[10..14].copy_from_slice(&tag.sector.to_le_bytes());
    let check = check(&cell);
    cell[14..].copy_from_slice(&check);
    cell
}

/// What the cell says; `None` if it is none.
#[must_use]
pub fn parse(cell: &[u8]) -> Option<Tag> {
    let cell: &[u8; CELL] = cell.get(..CELL)?.try_into().ok()?;
    if cell[..2] != MAGIC || cell[14..] != check(cell) {
        return None;
    }
    let number =
        |at: usize| u32::from_le_bytes([cell[at], cell[at + 1], cell[at + 2], cell[at + 3]]);
    Some(Tag { obj: ObjId(number(2)), version: number(6), sector: number(10) })
}

fn check(cell: &[u8; CELL]) -> [u8; 2] {
    let sum = cell[2..14]
        .iter()
        .fold(0x2b17u16, |sum, &byte| sum.rotate_left(3).wrapping_mul(5) ^ u16::from(byte));
    sum.to_le_bytes()
}

/// What sector `index` of `obj` holds when all of it was written in `version`.
#[must_use]
pub fn sector(obj: ObjId, version: u32, index: u32) -> [u8; SECTOR] {
    let cell = cell(Tag { obj, version, sector: index });
    let mut bytes = [0; SECTOR];
    for part in bytes.chunks_exact_mut(CELL) {
        part.copy_from_slice(&cell);
    }
    bytes
}

/// Fills `buf` with what version `version` of `obj` holds from byte `offset` of the file on.
pub fn fill(obj: ObjId, version: u32, offset: u64, buf: &mut [u8]) {
    let mut done = 0;
    while done < buf.len() {
        let at = offset + done as u64;
        // Files of the laboratory are far below 2 TiB.
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
    fn cells_tell_whose_they_are() {
        let tag = Tag { obj: ObjId(7), version: 300, sector: 9 };
        assert_eq!(parse(&cell(tag)), Some(tag));
        for byte in 0..CELL {
            let mut damaged = cell(tag);
            damaged[byte] ^= 0x10;
            assert_eq!(parse(&damaged), None, "byte {byte}");
        }
        assert_eq!(parse(&[POISON; CELL]), None);
        assert_eq!(parse(&[0; CELL]), None);
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
