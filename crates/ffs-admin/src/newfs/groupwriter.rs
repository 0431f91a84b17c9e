//! Writing the metadata of one new cylinder group: newfs and growfs share it.
//!
//! **Invariants.**
//! 1. Only what must be initialised is written: the superblock copy, the group's block and two
//!    inode blocks; on UFS1 also the other inode blocks.
//! 2. Memory is limited to a few blocks and [`PIECE`].

use ffs_device::BlockDevice;
use ffs_ondisk::superblock::SBLOCKSIZE;
use ffs_ondisk::{CgNo, Format, Geometry, Superblock, cg, wire};

use super::gennumbers::GenNumbers;
use crate::AdminError;

/// Most bytes in one transfer.
pub(crate) const PIECE: usize = 1 << 20;
/// Byte offset of the group's number in its block.
const CGX_OFFSET: usize = 12;

/// The unit in which the host's file systems leave holes, bytes.
const HOST_PAGE: usize = 4096;

/// Content of the bytes that no structure uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnusedSpace {
    /// Zeros.
    Zeros,
    /// As `Zeros`. What is a hole of a sparse file stays one where the group has zeros, and in the
    /// inode blocks of a UFS2 group: a free inode whose generation number is 0 gets one when it is
    /// allocated, here and on BSD.
    Holes,
    /// What FreeBSD's buffers leave there, for volumes that equal FreeBSD's byte for byte.
    Residue,
}

/// Writes new groups of a volume, one after the other.
pub(crate) struct GroupWriter<'a> {
    dev: &'a dyn BlockDevice,
    g: Geometry,
    /// The superblock of the copies; each gets its own location.
    backup: &'a Superblock,
    numbers: GenNumbers<'a>,
    unused_space: UnusedSpace,
    /// The bytes from a group's superblock copy to the end of its second inode block.
    buffer: Vec<u8>,
}

impl<'a> GroupWriter<'a> {
    /// For a volume of geometry `g`; `numbers` are the generation numbers of its inodes.
    pub(crate) fn new(
        dev: &'a dyn BlockDevice,
        g: Geometry,
        backup: &'a Superblock,
        numbers: GenNumbers<'a>,
        unused_space: UnusedSpace,
    ) -> GroupWriter<'a> {
        let inode_area = ((g.iblkno - g.sblkno) * g.fsize) as usize;
        let buffer = vec![0; inode_area + 2 * g.bsize as usize];
        GroupWriter { dev, g, backup, numbers, unused_space, buffer }
    }

    /// The first two inode blocks of the group that was written last, or what FreeBSD's buffer
    /// has in their place ([`UnusedSpace::Residue`]).
    pub(crate) fn inode_blocks(&self) -> &[u8] {
        &self.buffer[self.inode_area()..]
    }

    /// Writes the superblock copy of group `c`, its block, and two inode blocks. `block` is the
    /// group's block, with any number and hash.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn write_group(&mut self, c: CgNo, block: &[u8]) -> Result<(), AdminError> {
        let g = self.g;
        let start = g.cgsblock(c);
        let inodes = self.inode_area();
        let own = inodes - g.bsize as usize;
        let mut backup = self.backup.clone();
        backup.location = g.frag_to_byte(start);
        let copy = backup.encode();
        self.buffer[..copy.len()].copy_from_slice(&copy);
        self.buffer[copy.len()..own].fill(0);
        let group = &mut self.buffer[own..inodes];
        group.copy_from_slice(block);
        wire::put(group, CGX_OFFSET, g.endian, c.0);
        cg::rehash(&g, group);
        let numbered = match g.format {
            Format::Ufs2 => g.ipg.min(2 * g.inopb),
            Format::Ufs1 if self.leaves_residue() => 0,
            Format::Ufs1 => g.ipg.min(2 * g.inopb),
        };
        number_inodes(&g, &mut self.numbers, &mut self.buffer[inodes..], numbered);
        let at = g.frag_to_byte(start);
        if self.keeps_holes() && self.dev.is_hole(at, self.buffer.len() as u64) {
            self.write_pages(at, &self.buffer[..SBLOCKSIZE])?;
            return self.write_pages(at + own as u64, &self.buffer[own..inodes]);
        }
        self.dev.write_at(at, &self.buffer[..SBLOCKSIZE])?;
        // A group of one inode block that ends with it has no space for the second.
        let space = u64::from(g.cg_frags(c) - g.sblkno) * u64::from(g.fsize);
        let len = usize::try_from(space).unwrap_or(usize::MAX).min(self.buffer.len());
        // With large blocks the superblock copy ends where the group's block begins.
        Ok(self.dev.write_at(at + own as u64, &self.buffer[own..len])?)
    }

    /// Writes the pages of `bytes` that are not zero to byte `at` on, in a hole.
    fn write_pages(&self, at: u64, bytes: &[u8]) -> Result<(), AdminError> {
        let is_zero = |page: &&[u8]| page.iter().all(|&b| b == 0);
        let mut pages = bytes.chunks(HOST_PAGE).enumerate().peekable();
        while let Some((first, page)) = pages.next() {
            if is_zero(&page) {
                continue;
            }
            let mut end = first * HOST_PAGE + page.len();
            while let Some((_, page)) = pages.next_if(|(_, page)| !is_zero(page)) {
                end += page.len();
            }
            let run = first * HOST_PAGE;
            self.dev.write_at(at + run as u64, &bytes[run..end])?;
        }
        Ok(())
    }

    /// Writes the inodes beyond the first two blocks of a UFS1 group; UFS1 has no uninitialised
    /// inodes.
    ///
    /// # Errors
    /// The device's.
    pub(crate) fn write_remaining_inodes(&mut self, c: CgNo) -> Result<(), AdminError> {
        let g = self.g;
        let blocks = g.ipg / g.inopb;
        if g.format == Format::Ufs2 || blocks <= 2 {
            return Ok(());
        }
        let bsize = g.bsize as usize;
        let per_piece = (PIECE / bsize) as u32;
        let mut piece = vec![0; per_piece.min(blocks - 2) as usize * bsize];
        for first in (2..blocks).step_by(per_piece as usize) {
            let count = per_piece.min(blocks - first);
            let bytes = &mut piece[..count as usize * bsize];
            number_inodes(&g, &mut self.numbers, bytes, count * g.inopb);
            let at = g.cgimin(c).plus(u64::from(first) * u64::from(g.frag));
            self.dev.write_at(g.frag_to_byte(at), bytes)?;
            if self.leaves_residue() {
                // FreeBSD fills its buffer's first inode block again and again; the next group
                // starts with its content.
                let from = bytes.len() - bsize;
                let to = self.inode_area();
                self.buffer[to..to + bsize].copy_from_slice(&bytes[from..]);
            }
        }
        Ok(())
    }

    /// Offset of the inode blocks in the buffer: after the superblock copy and the group's block.
    fn inode_area(&self) -> usize {
        ((self.g.iblkno - self.g.sblkno) * self.g.fsize) as usize
    }

    /// UFS1 initialises all inodes at once, so that it has no holes.
    fn keeps_holes(&self) -> bool {
        self.unused_space == UnusedSpace::Holes && self.g.format == Format::Ufs2
    }

    fn leaves_residue(&self) -> bool {
        self.unused_space == UnusedSpace::Residue
    }
}

/// Sets the generation numbers of the first `count` inodes in `area`.
fn number_inodes(g: &Geometry, numbers: &mut GenNumbers<'_>, area: &mut [u8], count: u32) {
    let (size, at) = match g.format {
        Format::Ufs1 => (128, 108),
        Format::Ufs2 => (256, 80),
    };
    for inode in area.chunks_exact_mut(size).take(count as usize) {
        wire::put(inode, at, g.endian, numbers.next());
    }
}
