//! Reading and writing inodes.
//!
//! **Invariants.**
//! 1. A symbolic link shorter than the limit is inline for any block count, as in the kernel.
//! 2. Clearing keeps the generation number, so that file handles of the old file stay stale.

use ffs_ondisk::dinode::{self, MAXDIRSIZE};
use ffs_ondisk::geometry::Format;
use ffs_ondisk::wire::{get, put};
use ffs_ondisk::{Dinode, FileFlags, FileType, FragNo, Geometry, Ino};

use super::buffered::Class;
use super::checker::Checker;
use super::corrections::FileId;
use super::resolve::Res;

/// An allocated inode.
pub(super) struct Inode {
    /// Its number.
    pub(super) ino: Ino,
    /// Its fields.
    pub(super) d: Dinode,
    /// The pointer area holds link text.
    pub(super) inline: bool,
    /// `di_blocks` as stored.
    pub(super) stored_blocks: u64,
    /// The fields differ from those on disk.
    pub(super) changed: bool,
    raw: Vec<u8>,
}

impl Inode {
    /// Decodes the inode at the start of `raw`.
    pub(super) fn decode(g: &Geometry, ino: Ino, raw: &[u8]) -> Inode {
        let raw = raw[..g.format.dinode_size().min(raw.len())].to_vec();
        let d = Dinode::decode(g, &raw);
        let (inline, blocks) = (d.is_short_symlink(g), d.blocks);
        Inode { ino, d, inline, stored_blocks: blocks, changed: false, raw }
    }

    /// Its identity.
    pub(super) fn id(&self) -> FileId {
        FileId { ino: self.ino, generation: self.d.generation }
    }

    /// The bytes it was read from.
    pub(super) fn raw(&self) -> &[u8] {
        &self.raw
    }

    pub(super) fn is_dir(&self) -> bool {
        self.d.is_dir()
    }

    /// Whether it is a snapshot, in which the block pointers 1 and 2 have a special meaning.
    pub(super) fn is_snapshot(&self) -> bool {
        self.d.flags.contains(FileFlags::SF_SNAPSHOT)
            && self.d.file_type() == Some(FileType::Regular)
    }

    /// Whether the pointer area holds block pointers.
    pub(super) fn has_pointers(&self) -> bool {
        let kind = self.d.file_type();
        !self.inline
            && matches!(kind, Some(FileType::Regular | FileType::Directory | FileType::Symlink))
    }

    /// The largest size its type allows, bytes.
    pub(super) fn size_limit(&self, g: &Geometry) -> u64 {
        match self.d.file_type() {
            Some(FileType::Directory) => MAXDIRSIZE.min(g.maxfilesize),
            Some(FileType::Symlink) => g.bsize.into(),
            _ => g.maxfilesize,
        }
    }

    /// Logical blocks below the size.
    pub(super) fn nblocks(&self, g: &Geometry) -> u64 {
        if self.has_pointers() { self.d.size.div_ceil(g.bsize.into()) } else { 0 }
    }
}

/// Byte offset of `di_gen` in an inode.
fn generation_offset(g: &Geometry) -> usize {
    match g.format {
        Format::Ufs1 => 108,
        Format::Ufs2 => 80,
    }
}

impl Checker<'_> {
    /// The fragment that contains inode `ino`, and the byte offset in it.
    fn inode_location(&self, ino: Ino) -> (FragNo, usize) {
        let off = self.g.ino_to_fsbo(ino);
        let fsize = self.g.fsize as usize;
        (self.g.ino_to_fsba(ino).plus((off / fsize) as u64), off % fsize)
    }

    /// Reads inode `ino`, which must be in range.
    pub(super) fn read_inode(&mut self, ino: Ino) -> Res<Inode> {
        let (frag, off) = self.inode_location(ino);
        let buf = self.disk.read(frag, self.g.fsize as usize)?;
        Ok(Inode::decode(&self.g, ino, buf.get(off..).unwrap_or(&[])))
    }

    /// Writes an inode with a correct check hash.
    pub(super) fn write_inode(&mut self, node: &mut Inode) -> Res<()> {
        node.d.encode(&self.g, &mut node.raw);
        node.stored_blocks = node.d.blocks;
        node.changed = false;
        if node.is_dir() {
            let (first, size) = (u64::try_from(node.d.db[0]).unwrap_or(0), node.d.size);
            self.dirs.update(node.ino, |d| d.place(first, size));
        }
        self.put_inode(node.ino, &node.raw)
    }

    /// Corrects the check hash of an inode and writes it otherwise unchanged.
    pub(super) fn rehash_inode(&mut self, node: &mut Inode) -> Res<()> {
        dinode::rehash(&self.g, &mut node.raw);
        self.put_inode(node.ino, &node.raw)
    }

    fn put_inode(&mut self, ino: Ino, raw: &[u8]) -> Res<()> {
        let (frag, off) = self.inode_location(ino);
        self.disk.patch(frag, off, raw, Class::Inode)
    }

    /// Zeros the inode except for its generation.
    pub(super) fn clear_inode(&mut self, ino: Ino) -> Res<()> {
        let (frag, off) = self.inode_location(ino);
        let mut raw = vec![0; self.g.format.dinode_size()];
        let at = generation_offset(&self.g);
        let buf = self.disk.read(frag, self.g.fsize as usize)?;
        let old: u32 = get(&buf, off + at, self.g.endian);
        put(&mut raw, at, self.g.endian, old);
        self.snapshots.retain(|&s| s != ino);
        self.disk.patch(frag, off, &raw, Class::Inode)
    }
}
