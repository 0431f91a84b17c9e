//! Snapshot files: the meaning of their pointers and of their block list (`spec/on-disk-format.md`
//! §11; `spec/snapshots.md` §2, §3).
//!
//! The content of a snapshot is the whole volume at the time it was made: logical block `l` is
//! volume block `l`, that is, the fragments from `l * frag` on. After it follows the list of the
//! blocks that were copied when the snapshot was made. The pointers of a snapshot have special
//! meanings, so no other code may follow them.
//!
//! # Invariants
//! 1. [`classify`] never returns an address outside the volume's data areas or off a block
//!    boundary.
//! 2. [`list_words`] is bounded by the size of the file; [`check_list`] ensures that the list is
//!    ascending and within the file.

use crate::dinode::{Dinode, FileFlags, FileType};
use crate::error::{Corrupt, Error, Place, Structure};
use crate::geometry::Geometry;
use crate::superblock::Superblock;
use crate::units::{FragNo, Ino, Lbn};

mod upkeep;
pub use upkeep::{IndirectBlocks, ListedState, indirect_blocks, leaf_count, listed_state};

/// The directory in the root in which programs make snapshots.
pub const SNAP_DIR: &str = ".snap";

/// Pointer of a block that was free: reads as zeros and is never copied.
pub const BLK_NOCOPY: i64 = 1;
/// Pointer of a block of another snapshot: reads as zeros.
pub const BLK_SNAP: i64 = 2;
/// Bytes of a word of the block list.
pub const LIST_WORD: u64 = 8;

/// Whether pointer `raw` of a snapshot is a mark: [`BLK_NOCOPY`], [`BLK_SNAP`], or another value
/// that is too small for the address of a copy. Neither 0 nor an address is a mark.
#[must_use]
pub fn is_mark(g: &Geometry, raw: i64) -> bool {
    (1..=BLK_SNAP).contains(&raw) || (1..i64::from(g.frag)).contains(&raw)
}

/// The location of the content of a snapshot's block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Unchanged since: in the same block of the volume.
    Volume(FragNo),
    /// Zeros: the block was not in use.
    Zeros,
    /// In a private copy.
    Copy(FragNo),
    /// In the same block of the volume, which became the snapshot's when it was freed.
    TakenOver(FragNo),
}

/// Blocks of the image in a snapshot: all of the volume, the last one perhaps in part.
#[must_use]
pub fn image_blocks(g: &Geometry) -> u64 {
    g.size.div_ceil(g.frag.into())
}

/// Bytes of the image in a snapshot; the block list follows it.
#[must_use]
pub fn image_bytes(g: &Geometry) -> u64 {
    image_blocks(g).saturating_mul(g.bsize.into())
}

/// The number of fragments of volume block `l`: fewer at the end of the volume.
#[must_use]
pub fn block_frags(g: &Geometry, l: Lbn) -> u32 {
    let left = g.size.saturating_sub(g.blkstofrags(l).0);
    u32::try_from(left).unwrap_or(u32::MAX).min(g.frag)
}

/// Whether `d` has the snapshot flag, as fsck tests it; the superblock may not list it.
#[must_use]
pub fn is_snapshot(d: &Dinode) -> bool {
    d.file_type() == Some(FileType::Regular) && d.flags.contains(FileFlags::SF_SNAPSHOT)
}

/// The inodes that the superblock lists as active snapshots, oldest first.
#[must_use]
pub fn active(sb: &Superblock) -> Vec<Ino> {
    sb.f.snapinum.iter().copied().take_while(|&i| i != 0).map(Ino).collect()
}

/// The meaning of pointer `raw` of logical block `l` (below [`image_blocks`]) of snapshot `ino`.
///
/// # Errors
/// The pointer is not a valid address of a copy.
pub fn classify(g: &Geometry, ino: Ino, l: Lbn, raw: i64) -> Result<Content, Error> {
    let own = g.blkstofrags(l);
    match u64::try_from(raw) {
        Ok(0) => Ok(Content::Volume(own)),
        Ok(_) if is_mark(g, raw) => Ok(Content::Zeros),
        Ok(n) if n == own.0 && n < g.size => Ok(Content::TakenOver(own)),
        Ok(n) if g.run_problem(FragNo(n), g.frag).is_none() => Ok(Content::Copy(FragNo(n))),
        _ => {
            let found = format!("{raw} for block {l}");
            Err(bad(ino, "pointer", found, "0, 1, 2 or a whole block of a data area"))
        }
    }
}

/// Bytes of the block list of a snapshot of `size` bytes; 0 in an unfinished or old-format one,
/// which FreeBSD removes.
///
/// # Errors
/// A file too short for the image.
pub fn list_bytes(g: &Geometry, ino: Ino, size: u64) -> Result<u64, Error> {
    let image = image_bytes(g);
    match size.checked_sub(image) {
        Some(list) => Ok(list),
        None => Err(bad(ino, "size", size.to_string(), &format!("at least {image}"))),
    }
}

/// Words of the list, its own count included, by its first word.
///
/// # Errors
/// The count exceeds the size of the file.
pub fn list_words(g: &Geometry, ino: Ino, size: u64, first: i64) -> Result<u64, Error> {
    let most = list_bytes(g, ino, size)? / LIST_WORD;
    match u64::try_from(first) {
        Ok(n) if (1..=most).contains(&n) => Ok(n),
        _ => Err(bad(ino, "list length", first.to_string(), &format!("1 to {most}"))),
    }
}

/// The blocks of a list (without its count) of a snapshot of `size` bytes.
///
/// NetBSD also lists the blocks of the list itself, which follow the image.
///
/// # Errors
/// A block outside the file, or not above the one before.
pub fn check_list(g: &Geometry, ino: Ino, size: u64, blocks: &[i64]) -> Result<Vec<Lbn>, Error> {
    let end = size.div_ceil(g.bsize.into());
    let mut out: Vec<Lbn> = Vec::with_capacity(blocks.len());
    for &raw in blocks {
        let above = |n: &u64| out.last().is_none_or(|last| *n > last.0);
        let Some(n) = u64::try_from(raw).ok().filter(|&n| n < end).filter(above) else {
            let want = format!("ascending and below {end}");
            return Err(bad(ino, "list entry", raw.to_string(), &want));
        };
        out.push(Lbn(n));
    }
    Ok(out)
}

fn bad(ino: Ino, field: &'static str, found: String, want: &str) -> Error {
    Corrupt::new(Structure::Snapshot, Place::Inode(ino), field, found, want).into()
}
