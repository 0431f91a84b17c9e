//! The part of an inode that decides which blocks it holds, read without the rest.
//!
//! A check of a whole volume looks at every inode; most of them are files and directories of a few blocks, and
//! nothing else of them is asked for.
//!
//! # Invariants
//! 1. Each field is what [`Dinode::decode`](super::Dinode::decode) gives; `None` where that would take the pointers
//!    for something else.

use crate::geometry::{Format, Geometry, NDADDR};
use crate::wire::{Endian, get};

use super::{FileFlags, FileType};

/// A regular file or directory without indirect blocks and extended attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline {
    /// Regular or directory.
    pub kind: FileType,
    /// Links.
    pub nlink: u16,
    /// File flags.
    pub flags: FileFlags,
    /// Bytes.
    pub size: u64,
    /// 512-byte units held.
    pub blocks: u64,
    /// Direct pointers.
    pub db: [i64; NDADDR],
}

impl Outline {
    /// Reads the inode at the start of `b`; `None` unless it is a regular file or a directory without
    /// indirect blocks and extended attributes.
    #[must_use]
    pub fn read(g: &Geometry, b: &[u8]) -> Option<Outline> {
        match g.format {
            Format::Ufs1 => Self::from_ufs1(g.endian, b.first_chunk()?),
            Format::Ufs2 => Self::from_ufs2(g.endian, b.first_chunk()?),
        }
    }

    // The offsets are those of `Dinode1` and `Dinode2`; a test compares.

    fn from_ufs1(e: Endian, b: &[u8; 128]) -> Option<Outline> {
        let indirect = b[88..100].iter().any(|&x| x != 0);
        let kind = kind(get(b, 0, e))?;
        if indirect {
            return None;
        }
        Some(Outline {
            kind,
            nlink: get(b, 2, e),
            flags: FileFlags::from_bits_retain(get(b, 100, e)),
            size: get(b, 8, e),
            blocks: get::<u32>(b, 104, e).into(),
            db: std::array::from_fn(|i| get::<i32>(b, 40 + 4 * i, e).into()),
        })
    }

    fn from_ufs2(e: Endian, b: &[u8; 256]) -> Option<Outline> {
        // `extsize` and `extb`, then `ib`: zeros in either byte order.
        let extras = b[92..112].iter().any(|&x| x != 0) || b[208..232].iter().any(|&x| x != 0);
        let kind = kind(get(b, 0, e))?;
        if extras {
            return None;
        }
        Some(Outline {
            kind,
            nlink: get(b, 2, e),
            flags: FileFlags::from_bits_retain(get(b, 88, e)),
            size: get(b, 16, e),
            blocks: get(b, 24, e),
            db: std::array::from_fn(|i| get(b, 112 + 8 * i, e)),
        })
    }
}

fn kind(mode: u16) -> Option<FileType> {
    let kind = FileType::of_mode(mode)?;
    matches!(kind, FileType::Regular | FileType::Directory).then_some(kind)
}
