//! The fields of an inode that determine its blocks, read without the rest.
//!
//! A check of a whole volume reads every inode. Most of them are files and directories of a few
//! blocks, of which it needs no other fields.
//!
//! # Invariants
//! 1. Each value equals that of [`Dinode::decode`](super::Dinode::decode). The result is `None` if
//!    the pointer area does not hold pointers.

use crate::geometry::{Format, Geometry, NDADDR};
use crate::wire::get;

use super::{FileFlags, FileType};

/// Zeros to compare with: at least the size of the pointers and attribute fields.
const ZEROS: [u8; 128] = [0; 128];

/// A regular file or directory without indirect blocks and extended attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outline<'a> {
    /// Regular or directory.
    pub kind: FileType,
    /// Links.
    pub nlink: u16,
    /// File flags.
    pub flags: FileFlags,
    /// Bytes.
    pub size: u64,
    /// 512-byte units in use.
    pub blocks: u64,
    direct: &'a [u8],
}

impl<'a> Outline<'a> {
    /// Reads the inode at the start of `b`; `None` unless it is a regular file or a directory
    /// without indirect blocks and extended attributes.
    // The offsets are those of `Dinode1` and `Dinode2`; a test compares them.
    #[inline]
    #[must_use]
    pub fn read(g: &Geometry, b: &'a [u8]) -> Option<Outline<'a>> {
        let e = g.endian;
        let kind = FileType::of_mode(get(b, 0, e))?;
        if !matches!(kind, FileType::Regular | FileType::Directory) {
            return None;
        }
        let nlink = get(b, 2, e);
        match g.format {
            Format::Ufs1 => {
                let flags = FileFlags::from_bits_retain(get(b, 100, e));
                let (size, blocks) = (get(b, 8, e), get::<u32>(b, 104, e).into());
                let direct = b.get(40..88)?;
                let ordinary = is_zero(b.get(88..100)?);
                ordinary.then_some(Outline { kind, nlink, flags, size, blocks, direct })
            }
            Format::Ufs2 => {
                let flags = FileFlags::from_bits_retain(get(b, 88, e));
                let (size, blocks) = (get(b, 16, e), get(b, 24, e));
                let direct = b.get(112..208)?;
                // `extsize` and `extb`, then `ib`.
                let ordinary = is_zero(b.get(92..112)?) && is_zero(b.get(208..232)?);
                ordinary.then_some(Outline { kind, nlink, flags, size, blocks, direct })
            }
        }
    }

    /// Direct pointer `i`; 0 beyond the last.
    #[inline]
    #[must_use]
    pub fn pointer(&self, g: &Geometry, i: usize) -> i64 {
        crate::bmap::pointer(g, self.direct, i)
    }

    /// Whether the direct pointers from `i` on are all 0.
    #[inline]
    #[must_use]
    pub fn ends_at(&self, g: &Geometry, i: usize) -> bool {
        let from = i.min(NDADDR) * g.format.pointer_size();
        self.direct.get(from..).is_some_and(is_zero)
    }
}

/// Whether all bytes are 0. At most [`ZEROS`] many.
#[inline]
fn is_zero(bytes: &[u8]) -> bool {
    ZEROS.get(..bytes.len()) == Some(bytes)
}
