//! Soft-updates journals: recognising one, and its segments and records (`spec/on-disk-format.md`
//! §14).
//!
//! The journal is the file `.sujournal` in the root directory. It is a ring of segments without a
//! head pointer. A segment is one or more device sectors, each with the segment's header and
//! records of 32 bytes. This module applies no record.
//!
//! # Invariants
//! 1. [`scan`] takes time and memory proportional to its input: every step advances by at least one
//!    sector.
//! 2. A [`Record`] that [`records`] returns refers to inodes and blocks that the volume has.
//! 3. [`scan`] and [`records`] return what [`segment`] has written.

use crate::bmap::{self, Path};
use crate::dinode::{Dinode, FileFlags};
pub use crate::error::BadRecord;
use crate::geometry::{DIRBLKSIZ, Geometry};
use crate::hash::check_hash;
use crate::layout;
use crate::superblock::{FsFlags, Superblock};
use crate::units::{FragNo, Ino, Lbn};
use crate::wire::{Endian, get, put};

/// Name of the journal in the root directory.
pub const NAME: &[u8] = b".sujournal";
/// Smallest journal, bytes (`SUJ_MIN`).
pub const MIN_BYTES: u64 = 4 << 20;
/// Largest journal that is made without an explicit size, bytes (`SUJ_MAX`).
pub const MAX_BYTES: u64 = 32 << 20;
/// Bytes of a segment header and of every record.
pub const RECORD: usize = 32;

/// A place that no directory entry has: no directory is as large. A record with this place is that
/// of an inode without a name.
pub const NOWHERE: (Ino, i64) = (Ino::ROOT, 0x7fff_fe00);

layout! {
    /// Header of every sector of a segment.
    pub struct SegHeader[32] {
        0 => seq: u64, "Sequence number.";
        8 => oldest: u64, "Oldest sequence number still needed.";
        16 => cnt: u16, "Records in the segment, headers not counted.";
        18 => blocks: u16, "Sectors of the segment.";
        20 => crc: u32, "Check hash of the segment; 0 if it has none.";
        24 => time: i64, "Time of the mount that wrote it.";
    }
}

/// Byte offset of the check hash in a header.
const CRC_OFFSET: usize = 20;

layout! {
    /// A directory entry was added or removed.
    pub struct Ref[32] {
        0 => op: u32, "1 added, 2 removed.";
        4 => ino: u32, "The inode referred to.";
        8 => parent: u32, "The directory.";
        12 => nlink: u16, "Link count before.";
        14 => mode: u16, "Mode of the inode.";
        16 => diroff: i64, "Byte offset of the entry in the directory.";
        24 => unused: u64, "Unused.";
    }
}

layout! {
    /// A directory entry was moved inside its directory.
    pub struct Move[32] {
        0 => op: u32, "5.";
        4 => ino: u32, "The inode referred to.";
        8 => parent: u32, "The directory.";
        12 => unused: u32, "Unused.";
        16 => oldoff: i64, "Byte offset before.";
        24 => newoff: i64, "Byte offset after.";
    }
}

layout! {
    /// A block was allocated or freed.
    pub struct Blk[32] {
        0 => op: u32, "3 allocated, 4 freed.";
        4 => ino: u32, "The file.";
        8 => blkno: i64, "First fragment.";
        16 => lbn: i64, "Logical block, or name of an indirect or attribute block.";
        24 => frags: u16, "Fragments.";
        26 => oldfrags: u16, "Fragments before a fragment run grew.";
        28 => unused: u32, "Unused.";
    }
}

layout! {
    /// A file was truncated, or must be written.
    pub struct Trunc[32] {
        0 => op: u32, "6 truncated, 7 written.";
        4 => ino: u32, "The file.";
        8 => size: i64, "New size, bytes.";
        16 => extsize: u32, "New size of the attributes, bytes.";
        20 => pad: [u32; 3], "Unused.";
    }
}

/// A record, by its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A directory entry was added.
    AddRef(Ref),
    /// A directory entry was removed.
    RemRef(Ref),
    /// A directory entry was moved.
    MoveRef(Move),
    /// A block was allocated; without fragments: the group with this block was changed.
    NewBlk(Blk),
    /// A block was freed.
    FreeBlk(Blk),
    /// A file was truncated.
    Trunc(Trunc),
    /// A file must be written.
    Sync(Trunc),
}

/// A segment of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Header of its first sector.
    pub header: SegHeader,
    /// Byte offset in the journal.
    pub offset: usize,
    /// Bytes, all sectors.
    pub len: usize,
    /// It has no check hash, or the right one.
    pub hash_ok: bool,
}

/// Flags that keep the journal's file from being changed or removed.
pub const FLAGS: FileFlags = FileFlags::SF_IMMUTABLE.union(FileFlags::SF_NOUNLINK);

/// Why `d` cannot be a journal of the volume; `None` if it can.
///
/// The caller checks that it has no holes.
#[must_use]
pub fn inode_problem(g: &Geometry, d: &Dinode) -> Option<&'static str> {
    let bsize = u64::from(g.bsize);
    if d.mode != 0o100_400 {
        Some("its mode is not 0100400")
    } else if d.nlink != 1 {
        Some("its link count is not 1")
    } else if !d.flags.contains(FLAGS) {
        Some("it lacks one of the flags schg and sunlnk")
    } else if d.size < MIN_BYTES || !d.size.is_multiple_of(bsize) || d.size > g.maxfilesize {
        Some("its size is not a number of whole blocks from 4 MiB")
    } else {
        None
    }
}

/// Whether the journal with inode `d` belongs to the last mount of the volume.
#[must_use]
pub fn journal_usable(sb: &Superblock, g: &Geometry, d: &Dinode) -> bool {
    let stamped = u64::try_from(sb.f.mtime) == Ok(d.modrev);
    sb.flags().contains(FsFlags::SUJ) && inode_problem(g, d).is_none() && stamped
}

/// Bytes of the journal that tunefs makes: 1/1024 of the volume, but at least 4 MiB and at most 32
/// MiB or one group.
#[must_use]
pub fn default_size(g: &Geometry) -> u64 {
    let volume = g.size.saturating_mul(g.fsize.into());
    let group = u64::from(g.fpg) * u64::from(g.fsize);
    let wanted = (volume / 1024).min(MAX_BYTES).min(group).max(MIN_BYTES);
    wanted - wanted % u64::from(g.bsize)
}

/// Blocks of a file of `bytes` bytes without holes, with its indirect blocks.
#[must_use]
pub fn blocks(g: &Geometry, bytes: u64) -> u64 {
    let data = bytes.div_ceil(g.bsize.into());
    // A block of pointers begins where all indexes below it are 0.
    let new_indirect = |l| match bmap::path(g, Lbn(l)) {
        Some(Path::Indirect { levels, index }) => {
            let zeros = index.iter().take(levels).rev().take_while(|i| **i == 0);
            zeros.count() as u64
        }
        _ => 0,
    };
    data + (0..data).map(new_indirect).sum::<u64>()
}

/// Why the segments of a journal cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SequenceError {
    /// The oldest segment that is still needed is absent.
    #[error("segment {0}, the oldest one needed, is absent")]
    Missing(u64),
    /// Two segments have one sequence number.
    #[error("two segments have the sequence number {0}")]
    Repeated(u64),
    /// A complete segment has a wrong check hash. No interrupted write leaves that, because a
    /// sector is written as a whole.
    #[error("segment {0} has a wrong check hash")]
    Damaged(u64),
    /// The segments do not follow each other in the ring.
    #[error("segment {0} is not behind the one before it")]
    Disordered(u64),
    /// A segment has more records than its sectors hold: the journal was written with sectors of
    /// another size.
    #[error("segment {0} was written with sectors of another size")]
    OtherSectors(u64),
}

/// The segments of the mount at `mtime` in the journal `content`, in order, from the oldest one
/// still needed to the last before a gap.
///
/// `sector` is the device's sector size in bytes. A gap ends the journal because the kernel writes
/// segments concurrently, and relies on a segment only when all older ones are durable.
///
/// # Errors
/// A [`SequenceError`] if no mount can have written these segments.
pub fn scan(
    endian: Endian,
    content: &[u8],
    sector: usize,
    mtime: i64,
) -> Result<Vec<Segment>, SequenceError> {
    let mut found = segments(endian, content, sector, mtime)?;
    let oldest = found.iter().map(|s| s.header.oldest).max().unwrap_or(0);
    if !found.is_empty() && !found.iter().any(|s| s.header.seq == oldest) {
        return Err(SequenceError::Missing(oldest));
    }
    found.retain(|s| s.header.seq >= oldest);
    found.sort_by_key(|s| s.header.seq);
    let mut neighbours = found.iter().zip(found.iter().skip(1));
    if let Some((s, _)) = neighbours.find(|(a, b)| a.header.seq == b.header.seq) {
        return Err(SequenceError::Repeated(s.header.seq));
    }
    let in_row = found.iter().zip(oldest..).take_while(|(s, seq)| s.header.seq == *seq).count();
    found.truncate(in_row);
    if let Some(s) = found.iter().find(|s| !s.hash_ok) {
        return Err(SequenceError::Damaged(s.header.seq));
    }
    // A ring that is read in order returns to its start at most once.
    let neighbours = found.iter().zip(found.iter().skip(1));
    let mut back = neighbours.filter(|(a, b)| b.offset < a.offset).map(|(_, b)| b);
    let wrapped = back.next();
    let lap = wrapped.and(found.first().zip(found.last()));
    let late = back.next().or(lap.and_then(|(a, z)| (z.offset >= a.offset).then_some(z)));
    match late {
        Some(s) => Err(SequenceError::Disordered(s.header.seq)),
        None => Ok(found),
    }
}

/// All complete segments of the mount at `mtime`, in the order of their offsets.
///
/// # Errors
/// [`SequenceError::OtherSectors`].
fn segments(
    endian: Endian,
    content: &[u8],
    sector: usize,
    mtime: i64,
) -> Result<Vec<Segment>, SequenceError> {
    let mut out = Vec::new();
    let mut offset = 0usize;
    if sector < 2 * RECORD {
        return Ok(out);
    }
    while let Some(first) = content.get(offset..offset.saturating_add(sector)) {
        let header = SegHeader::decode(first, endian);
        let len = sector * usize::from(header.blocks);
        let whole = content.get(offset..offset + len).unwrap_or(&[]);
        let most = (sector / RECORD - 1) * usize::from(header.blocks);
        let ours = header.time == mtime && header.blocks > 0;
        if ours && usize::from(header.cnt) > most {
            return Err(SequenceError::OtherSectors(header.seq));
        }
        let sound = header.time == mtime
            && (1..=most).contains(&usize::from(header.cnt))
            && !whole.is_empty()
            && whole.chunks(sector).all(|s| same_segment(endian, s, &header));
        if sound {
            let hash_ok = header.crc == 0 || header.crc == segment_hash(whole, sector);
            out.push(Segment { header, offset, len, hash_ok });
            offset += len;
        } else {
            offset += sector;
        }
    }
    Ok(out)
}

fn same_segment(endian: Endian, sector: &[u8], first: &SegHeader) -> bool {
    let h = SegHeader::decode(sector, endian);
    h.seq == first.seq && h.time == first.time
}

/// The check hash of a segment, in which the field of the hash counts as zero in every sector.
fn segment_hash(whole: &[u8], sector: usize) -> u32 {
    let sectors = whole.chunks(sector.max(RECORD)).map(|s| check_hash(s, CRC_OFFSET));
    let hashes: Vec<u8> = sectors.flat_map(u32::to_le_bytes).collect();
    // 0 is for a segment without a hash.
    check_hash(&hashes, usize::MAX).max(1)
}

/// A segment that holds `records`: as many whole sectors as they need, at least one.
///
/// The fields `cnt`, `blocks` and `crc` of `header` are computed. FreeBSD's recovery does not read
/// the check hash. `None` if the records do not fit in one segment.
#[must_use]
pub fn segment(
    endian: Endian,
    sector: usize,
    header: &SegHeader,
    records: &[Record],
) -> Option<Vec<u8>> {
    let per_sector = (sector / RECORD).checked_sub(1).filter(|&n| n > 0)?;
    let blocks = records.len().div_ceil(per_sector).max(1);
    let header = SegHeader {
        cnt: u16::try_from(records.len()).ok()?,
        blocks: u16::try_from(blocks).ok()?,
        crc: 0,
        ..*header
    };
    let mut out = vec![0; blocks * sector];
    let mut left = records.iter();
    for bytes in out.chunks_exact_mut(sector) {
        header.encode(bytes, endian);
        for (slot, r) in bytes.chunks_exact_mut(RECORD).skip(1).zip(left.by_ref().take(per_sector))
        {
            r.encode(slot, endian);
        }
    }
    let crc = segment_hash(&out, sector);
    for bytes in out.chunks_exact_mut(sector) {
        put(bytes, CRC_OFFSET, endian, crc);
    }
    Some(out)
}

impl Record {
    /// Writes the record to the start of `b`, with the operation of its kind.
    pub fn encode(&self, b: &mut [u8], e: Endian) {
        match self {
            Record::AddRef(r) => Ref { op: 1, ..r.clone() }.encode(b, e),
            Record::RemRef(r) => Ref { op: 2, ..r.clone() }.encode(b, e),
            Record::NewBlk(r) => Blk { op: 3, ..r.clone() }.encode(b, e),
            Record::FreeBlk(r) => Blk { op: 4, ..r.clone() }.encode(b, e),
            Record::MoveRef(r) => Move { op: 5, ..r.clone() }.encode(b, e),
            Record::Trunc(r) => Trunc { op: 6, ..r.clone() }.encode(b, e),
            Record::Sync(r) => Trunc { op: 7, ..r.clone() }.encode(b, e),
        }
    }
}

/// The records of a segment of `content`, each checked against the geometry of the volume.
///
/// # Errors
/// An error for each record that no mount of the volume can have written.
pub fn records<'a>(
    g: &'a Geometry,
    content: &'a [u8],
    segment: &Segment,
    sector: usize,
) -> impl Iterator<Item = Result<Record, BadRecord>> + 'a {
    let end = segment.offset.saturating_add(segment.len).min(content.len());
    let bytes = content.get(segment.offset..end).unwrap_or(&[]);
    // The first 32 bytes of each sector are the header.
    let slots = bytes.chunks(sector.max(RECORD)).flat_map(|s| s.chunks_exact(RECORD).skip(1));
    let offsets = slots.map(move |r| (r.as_ptr() as usize - bytes.as_ptr() as usize, r));
    offsets.take(segment.header.cnt.into()).map(move |(off, r)| record(g, off, r))
}

/// Reads and checks the record at byte `off` of its segment.
fn record(g: &Geometry, off: usize, b: &[u8]) -> Result<Record, BadRecord> {
    let e = g.endian;
    let bad = |field, found, expected| Err(BadRecord { off, field, found, expected });
    let ino: u32 = get(b, 4, e);
    let valid = |i: u32| i >= Ino::ROOT.0 && i < g.inodes();
    if !valid(ino) {
        return bad("inode number", ino, "an inode of the volume");
    }
    let entry = |at: i64| at >= 0 && at <= i64::from(i32::MAX) && at % 4 == 0;
    match get::<u32>(b, 0, e) {
        op @ (1 | 2) => {
            let r = Ref::decode(b, e);
            if !valid(r.parent) {
                return bad("directory", r.parent, "an inode of the volume");
            }
            if !entry(r.diroff) {
                return bad("entry offset", r.diroff as u32, "a multiple of 4 below 2^31");
            }
            Ok(if op == 1 { Record::AddRef(r) } else { Record::RemRef(r) })
        }
        5 => {
            let r = Move::decode(b, e);
            if !valid(r.parent) {
                return bad("directory", r.parent, "an inode of the volume");
            }
            // An entry moves only within its chunk, when the chunk is compacted.
            let chunk = DIRBLKSIZ as i64;
            let near = r.oldoff / chunk == r.newoff / chunk;
            if !entry(r.oldoff) || !entry(r.newoff) || !near {
                return bad("entry offset", r.newoff as u32, "in the chunk of the old one");
            }
            Ok(Record::MoveRef(r))
        }
        op @ (3 | 4) => {
            let r = Blk::decode(b, e);
            let run = u64::try_from(r.blkno).ok().map(FragNo);
            let sound = run.is_some_and(|d| match r.frags {
                0 => op == 3 && d.0 < g.size && g.cgtod(g.dtog(d)) == d,
                frags => g.run_problem(d, frags.into()).is_none(),
            });
            if !sound || u32::from(r.oldfrags) > g.frag {
                return bad("block", r.blkno as u32, "a run of fragments in a data area");
            }
            if !bmap::name_ok(g, r.lbn) {
                return bad("logical block", r.lbn as u32, "the name of a block of a file");
            }
            Ok(if op == 3 { Record::NewBlk(r) } else { Record::FreeBlk(r) })
        }
        op @ (6 | 7) => {
            let r = Trunc::decode(b, e);
            let small = u64::try_from(r.size).is_ok_and(|s| s <= g.maxfilesize);
            if !small || u64::from(r.extsize) > 2 * u64::from(g.bsize) {
                return bad("size", r.size as u32, "at most the largest file");
            }
            Ok(if op == 6 { Record::Trunc(r) } else { Record::Sync(r) })
        }
        op => bad("operation", op, "1 to 7"),
    }
}
