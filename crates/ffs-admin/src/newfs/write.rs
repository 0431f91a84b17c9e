//! Puts a planned volume on a device (`spec/on-disk-format.md` §17.3).
//!
//! **Purpose.** The order of writes, and the bytes of everything that is not a map.
//!
//! **Invariants.**
//! 1. After a probe of the last sector the first write marks the volume as unfinished and the last one
//!    makes it valid; a flush stands after the one and before the other. Nobody takes what is between for
//!    a volume.
//! 2. Memory is bounded by a few blocks and [`PIECE`], whatever the number of groups.
//! 3. Only what must be initialised is written: per group its superblock copy, its own block and two inode
//!    blocks; on UFS1 the other inode blocks too.

use ffs_device::BlockDevice;
use ffs_ondisk::sbsearch::{FsRecovery, RECOVERY_OFFSET};
use ffs_ondisk::superblock::{FS_BAD_MAGIC, MAGIC_OFFSET, SBLOCKSIZE};
use ffs_ondisk::{CgNo, Csum, Dinode, Format, FragNo, Geometry, Ino, Superblock, cg, dinode, wire};

use super::numbers::Numbers;
use super::options::{Generation, NewfsOptions};
use super::{group, tree, wipe};
use crate::AdminError;

/// Most bytes in one transfer.
const PIECE: usize = 1 << 20;
/// Byte offset of the group's number in its block.
const CGX_OFFSET: usize = 12;
/// Byte offset of the byte that holds the flags of old volumes, in the superblock.
const OLD_FLAGS_OFFSET: usize = 211;

/// A volume ready to be written.
pub(super) struct Maker<'a> {
    pub(super) dev: &'a dyn BlockDevice,
    pub(super) opts: &'a NewfsOptions,
    pub(super) g: Geometry,
    /// The superblock with the totals of the finished volume.
    pub(super) sb: Superblock,
    /// Totals before the directories were made, for the backups.
    pub(super) initial: Csum,
    pub(super) now: i64,
    pub(super) numbers: Numbers<'a>,
    /// Also reproduce what FreeBSD's buffers happen to hold in bytes nobody reads.
    pub(super) residue: bool,
    pub(super) groups: Groups,
}

/// The distinct groups of the volume: all those between the first and the last are alike.
pub(super) struct Groups {
    pub(super) first: (Vec<u8>, Csum),
    pub(super) middle: (Vec<u8>, Csum),
    pub(super) last: (Vec<u8>, Csum),
    /// Fragments of the root and of `.snap`.
    pub(super) dirs: (u32, Option<u32>),
}

impl Groups {
    /// Builds the groups of a volume, directories included.
    ///
    /// # Errors
    /// If the first group has no room for the directories.
    pub(super) fn build(g: &Geometry, opts: &NewfsOptions, now: i64) -> Result<Groups, AdminError> {
        let full = || AdminError::Size("the first cylinder group has no free blocks".into());
        let mut first = group::fresh(g, CgNo(0), now);
        let root = group::take_for_directory(g, &mut first, Ino::ROOT.0).ok_or_else(full)?;
        let mut dirs = (root, None);
        if !no_snap(opts) {
            let snap = group::take_for_directory(g, &mut first, tree::SNAP_INO.0);
            dirs.1 = Some(snap.ok_or_else(full)?);
        }
        let counts = group::recount(g, &mut first, 1 + i64::from(dirs.1.is_some()));
        let plain = |c| {
            let mut block = group::fresh(g, CgNo(c), now);
            let counts = group::recount(g, &mut block, 0);
            (block, counts)
        };
        // Of these only those that exist are ever used.
        Ok(Groups {
            first: (first, counts),
            middle: plain(1.min(g.ncg - 1)),
            last: plain(g.ncg - 1),
            dirs,
        })
    }

    fn of(&self, g: &Geometry, c: u32) -> &(Vec<u8>, Csum) {
        match c {
            0 => &self.first,
            c if c + 1 == g.ncg => &self.last,
            _ => &self.middle,
        }
    }

    /// The sum over all groups.
    pub(super) fn totals(&self, g: &Geometry) -> Csum {
        let mut sum = self.first.1;
        let middle = self.middle.1;
        let times = i64::from(g.ncg.saturating_sub(2));
        sum.add(&Csum {
            ndir: 0,
            nbfree: middle.nbfree * times,
            nifree: middle.nifree * times,
            nffree: middle.nffree * times,
        });
        if g.ncg > 1 {
            sum.add(&self.last.1);
        }
        sum
    }
}

/// Whether there will be no `.snap`.
pub(super) fn no_snap(opts: &NewfsOptions) -> bool {
    opts.no_snap || opts.generation == Generation::Freebsd4
}

impl Maker<'_> {
    /// Writes the volume; `bytes` is what it was given of the device, `progress` hears groups done and in
    /// all.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn write(
        mut self,
        bytes: u64,
        progress: &mut dyn FnMut(u32, u32),
    ) -> Result<(), AdminError> {
        self.touch_last_sector(bytes)?;
        if self.opts.erase {
            let at = self.sb.location;
            self.dev.discard(at, (self.g.size * u64::from(self.g.fsize)).saturating_sub(at))?;
        }
        self.write_primary(true)?;
        self.dev.flush()?;
        wipe::old_superblocks(self.dev, self.sb.location, self.g.format)?;
        wipe::recovery_record(self.dev)?;
        let mut buffer = self.transfer_buffer();
        let mut first_inodes = Vec::new();
        for c in 0..self.g.ncg {
            self.write_group(c, &mut buffer)?;
            if c == 0 {
                first_inodes = buffer[self.inode_area()..][..self.g.bsize as usize].to_vec();
            }
            self.write_remaining_inodes(c, &mut buffer)?;
            progress(c + 1, self.g.ncg);
        }
        let tail = buffer.split_off(self.inode_area());
        self.write_directories(first_inodes, &tail)?;
        self.write_summaries()?;
        self.write_recovery_record()?;
        if self.g.format == Format::Ufs1 && self.g.bsize == 65536 {
            // Boot code finds this backup where UFS2 has its superblock, so its totals must be good.
            self.write_copy(self.g.frag_to_byte(self.g.cgsblock(CgNo(0))))?;
        }
        self.dev.flush()?;
        self.write_primary(false)?;
        self.dev.flush()?;
        Ok(())
    }

    /// Proves that the device is as long as it says, before anything of value is overwritten.
    fn touch_last_sector(&self, bytes: u64) -> Result<(), AdminError> {
        let mut sector = vec![0; self.dev.sector_size() as usize];
        if self.residue {
            sector[OLD_FLAGS_OFFSET] = self.sb.f.old_flags;
        }
        let whole = bytes / sector.len() as u64;
        let at = whole.saturating_sub(1) * sector.len() as u64;
        Ok(self.dev.write_at(at, &sector)?)
    }

    /// Writes the standard superblock, or the mark of an unfinished volume in its place.
    fn write_primary(&self, unfinished: bool) -> Result<(), AdminError> {
        let mut bytes = self.sb.encode();
        bytes.resize(SBLOCKSIZE, 0);
        if unfinished {
            wire::put(&mut bytes, MAGIC_OFFSET, self.g.endian, FS_BAD_MAGIC);
        }
        Ok(self.dev.write_at(self.sb.location, &bytes)?)
    }

    /// Writes the finished superblock as the copy at byte `at`.
    fn write_copy(&self, at: u64) -> Result<(), AdminError> {
        let mut copy = self.sb.clone();
        copy.location = at;
        Ok(self.dev.write_at(at, &copy.encode())?)
    }

    /// Where inode blocks begin in the transfer buffer: behind the superblock copy and the group's block.
    fn inode_area(&self) -> usize {
        ((self.g.iblkno - self.g.sblkno) * self.g.fsize) as usize
    }

    /// The bytes from a group's superblock copy to the end of its second inode block.
    fn transfer_buffer(&self) -> Vec<u8> {
        vec![0; self.inode_area() + 2 * self.g.bsize as usize]
    }

    fn write_group(&mut self, c: u32, buffer: &mut [u8]) -> Result<(), AdminError> {
        let g = self.g;
        let start = g.cgsblock(CgNo(c));
        let inodes = self.inode_area();
        let own = inodes - g.bsize as usize;
        let copy = self.backup(start);
        buffer[..copy.len()].copy_from_slice(&copy);
        buffer[copy.len()..own].fill(0);
        let block = &mut buffer[own..inodes];
        block.copy_from_slice(&self.groups.of(&g, c).0);
        wire::put(block, CGX_OFFSET, g.endian, c);
        cg::rehash(&g, block);
        let numbered = match g.format {
            Format::Ufs2 => g.ipg.min(2 * g.inopb),
            Format::Ufs1 if self.residue => 0,
            Format::Ufs1 => g.ipg.min(2 * g.inopb),
        };
        self.number_inodes(&mut buffer[inodes..], numbered);
        let at = g.frag_to_byte(start);
        self.dev.write_at(at, &buffer[..SBLOCKSIZE])?;
        // A group of one inode block that ends with it has no room for the second.
        let room = u64::from(g.cg_frags(CgNo(c)) - g.sblkno) * u64::from(g.fsize);
        let len = usize::try_from(room).unwrap_or(usize::MAX).min(buffer.len());
        // With large blocks nothing lies between the superblock's end and the group's block.
        Ok(self.dev.write_at(at + own as u64, &buffer[own..len])?)
    }

    /// The superblock copy that goes to fragment `at`.
    fn backup(&self, at: FragNo) -> Vec<u8> {
        let mut copy = self.sb.clone();
        copy.set_cstotal(self.initial);
        copy.location = self.g.frag_to_byte(at);
        copy.encode()
    }

    /// Gives the first `count` inodes in `area` their generation numbers.
    fn number_inodes(&mut self, area: &mut [u8], count: u32) {
        let (size, at) = match self.g.format {
            Format::Ufs1 => (128, 108),
            Format::Ufs2 => (256, 80),
        };
        for inode in area.chunks_exact_mut(size).take(count as usize) {
            wire::put(inode, at, self.g.endian, self.numbers.next());
        }
    }

    /// UFS1 knows no uninitialised inodes: writes those beyond the first two blocks.
    fn write_remaining_inodes(&mut self, c: u32, buffer: &mut [u8]) -> Result<(), AdminError> {
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
            self.number_inodes(bytes, count * g.inopb);
            let at = g.cgimin(CgNo(c)).plus(u64::from(first) * u64::from(g.frag));
            self.dev.write_at(g.frag_to_byte(at), bytes)?;
            if self.residue {
                // FreeBSD fills its buffer's first inode block again and again; the next group starts
                // with it.
                let from = bytes.len() - bsize;
                let to = self.inode_area();
                buffer[to..to + bsize].copy_from_slice(&bytes[from..]);
            }
        }
        Ok(())
    }

    /// Writes the root and `.snap`: their chunks, and their inodes into `inodes`, the first block of group 0.
    /// `tail` is what the buffer of inode blocks held last.
    fn write_directories(&self, mut inodes: Vec<u8>, tail: &[u8]) -> Result<(), AdminError> {
        let g = &self.g;
        let (root, snap) = self.groups.dirs;
        let before = match self.opts.generation {
            Generation::Freebsd10 => {
                let mut copy = self.backup(g.cgsblock(CgNo(0)));
                copy.resize(copy.len().max(g.fsize as usize), 0);
                copy
            }
            _ => tail.to_vec(),
        };
        self.write_chunk(root, &tree::root_chunk(g, snap.is_some()), &before)?;
        let opts = NewfsOptions { no_snap: snap.is_none(), ..self.opts.clone() };
        self.put_inode(&mut inodes, Ino::ROOT, &tree::root_inode(g, &opts, self.now, root));
        if let Some(snap) = snap {
            let before = match self.opts.generation {
                Generation::Freebsd10 => &inodes,
                _ => tail,
            };
            self.write_chunk(snap, &tree::snap_chunk(g), before)?;
            let inode = tree::snap_inode(g, self.opts, self.now, snap);
            self.put_inode(&mut inodes, tree::SNAP_INO, &inode);
        }
        Ok(self.dev.write_at(g.frag_to_byte(g.cgimin(CgNo(0))), &inodes)?)
    }

    /// Writes a directory of one chunk into fragment `at`; behind it `residue` of FreeBSD's buffer, or zeros.
    fn write_chunk(&self, at: u32, chunk: &[u8], residue: &[u8]) -> Result<(), AdminError> {
        let mut frag = vec![0; self.g.fsize as usize];
        if self.residue && self.opts.generation != Generation::Freebsd4 {
            frag.copy_from_slice(&residue[..self.g.fsize as usize]);
        }
        frag[..chunk.len()].copy_from_slice(chunk);
        Ok(self.dev.write_at(self.g.frag_to_byte(FragNo(at.into())), &frag)?)
    }

    fn put_inode(&self, block: &mut [u8], ino: Ino, inode: &Dinode) {
        let at = self.g.ino_to_fsbo(ino);
        let bytes = &mut block[at..at + self.g.format.dinode_size()];
        inode.encode(&self.g, bytes);
        dinode::rehash(&self.g, bytes);
    }

    /// Writes the summary area, in pieces.
    fn write_summaries(&self) -> Result<(), AdminError> {
        let g = &self.g;
        let start = g.frag_to_byte(g.csaddr);
        let whole = g.cssize as usize;
        let mut piece = vec![0; PIECE.min(whole)];
        for from in (0..whole).step_by(PIECE) {
            let bytes = &mut piece[..PIECE.min(whole - from)];
            bytes.fill(0);
            let first = (from / Csum::SIZE) as u32;
            let count = (bytes.len() / Csum::SIZE) as u32;
            for i in 0..count.min(g.ncg.saturating_sub(first)) {
                let (_, counts) = self.groups.of(g, first + i);
                counts.encode(bytes, i as usize * Csum::SIZE, g.endian);
            }
            self.dev.write_at(start + from as u64, bytes)?;
        }
        Ok(())
    }

    fn write_recovery_record(&self) -> Result<(), AdminError> {
        if self.g.format == Format::Ufs1 {
            return Ok(());
        }
        let mut bytes = [0; FsRecovery::SIZE];
        FsRecovery::of(&self.sb).encode(&mut bytes, self.g.endian);
        Ok(self.dev.write_at(RECOVERY_OFFSET, &bytes)?)
    }
}
