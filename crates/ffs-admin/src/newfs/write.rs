//! Writing a new volume (`spec/on-disk-format.md` §17.3).
//!
//! **Purpose.** The order of writes, and the bytes of everything except maps.
//!
//! **Invariants.**
//! 1. A first write probes the last sector. The next write marks the volume unfinished, and the
//!    last one makes it valid, with a flush after the former and before the latter. No system
//!    mounts the state in between.
//! 2. Memory is limited to a few blocks and [`PIECE`], for any number of groups.
//! 3. Only what must be initialised is written: of each group the superblock copy, the group's
//!    block and two inode blocks; on UFS1 also the other inode blocks.

use ffs_device::BlockDevice;
use ffs_ondisk::sbsearch::{FsRecovery, RECOVERY_OFFSET};
use ffs_ondisk::superblock::{FS_BAD_MAGIC, MAGIC_OFFSET, SBLOCKSIZE};
use ffs_ondisk::{CgNo, Csum, Dinode, Format, FragNo, Geometry, Ino, Superblock, cg, dinode, wire};

use super::gennumbers::GenNumbers;
use super::options::{NewfsOptions, Release};
use super::{group, rootdir, wipe};
use crate::AdminError;

/// Most bytes in one transfer.
const PIECE: usize = 1 << 20;
/// Byte offset of the group's number in its block.
const CGX_OFFSET: usize = 12;
/// Byte offset of `fs_old_flags` in the superblock.
const OLD_FLAGS_OFFSET: usize = 211;

/// A volume that is ready to be written.
pub(super) struct VolumeWriter<'a> {
    pub(super) dev: &'a dyn BlockDevice,
    pub(super) opts: &'a NewfsOptions,
    pub(super) g: Geometry,
    /// The superblock with the totals of the finished volume.
    pub(super) sb: Superblock,
    /// Totals before the directories were made, for the backups.
    pub(super) initial: Csum,
    pub(super) now: i64,
    pub(super) numbers: GenNumbers<'a>,
    pub(super) unused_space: UnusedSpace,
    pub(super) groups: GroupBlocks,
}

/// Content of the bytes that no structure uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnusedSpace {
    /// Zeros.
    Zeros,
    /// What FreeBSD's buffers leave there, for volumes that equal FreeBSD's byte for byte.
    Residue,
}

/// Which form of the standard superblock to write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Primary {
    /// With the magic number of an unfinished newfs (`FS_BAD_MAGIC`).
    Unfinished,
    /// The final superblock.
    Final,
}

/// Blocks of the cylinder groups. All those between the first and the last are alike.
pub(super) struct GroupBlocks {
    pub(super) first: (Vec<u8>, Csum),
    pub(super) middle: (Vec<u8>, Csum),
    pub(super) last: (Vec<u8>, Csum),
    /// Fragments of the root and of `.snap`.
    pub(super) dirs: (u32, Option<u32>),
}

impl GroupBlocks {
    /// Builds the groups of a volume with its directories.
    ///
    /// # Errors
    /// If the first group has no space for the directories.
    pub(super) fn build(
        g: &Geometry,
        opts: &NewfsOptions,
        now: i64,
    ) -> Result<GroupBlocks, AdminError> {
        let full = || AdminError::Size("the first cylinder group has no free blocks".into());
        let mut first = group::fresh(g, CgNo(0), now);
        let root = group::take_for_directory(g, &mut first, Ino::ROOT.0).ok_or_else(full)?;
        let mut dirs = (root, None);
        if !no_snap(opts) {
            let snap = group::take_for_directory(g, &mut first, rootdir::SNAP_INO.0);
            dirs.1 = Some(snap.ok_or_else(full)?);
        }
        let counts = group::recount(g, &mut first, 1 + i64::from(dirs.1.is_some()));
        let plain = |c| {
            let mut block = group::fresh(g, CgNo(c), now);
            let counts = group::recount(g, &mut block, 0);
            (block, counts)
        };
        // A small volume uses only some of these.
        Ok(GroupBlocks {
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

    /// The totals of all groups.
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

/// Whether the volume has no `.snap`.
pub(super) fn no_snap(opts: &NewfsOptions) -> bool {
    opts.no_snap || opts.release == Release::Freebsd4
}

impl VolumeWriter<'_> {
    /// Writes the volume to the first `bytes` bytes of the device; calls `progress` with the number
    /// of groups done and the number of groups.
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
        self.write_primary(Primary::Unfinished)?;
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
            // Boot code finds this backup where UFS2 has its superblock, so its totals must be
            // right.
            self.write_copy(self.g.frag_to_byte(self.g.cgsblock(CgNo(0))))?;
        }
        self.dev.flush()?;
        self.write_primary(Primary::Final)?;
        self.dev.flush()?;
        Ok(())
    }

    fn leaves_residue(&self) -> bool {
        self.unused_space == UnusedSpace::Residue
    }

    /// Writes the last sector: an error shows that the device is shorter than it reports, before
    /// anything is overwritten.
    fn touch_last_sector(&self, bytes: u64) -> Result<(), AdminError> {
        let mut sector = vec![0; self.dev.sector_size() as usize];
        if self.leaves_residue() {
            sector[OLD_FLAGS_OFFSET] = self.sb.f.old_flags;
        }
        let whole = bytes / sector.len() as u64;
        let at = whole.saturating_sub(1) * sector.len() as u64;
        Ok(self.dev.write_at(at, &sector)?)
    }

    /// Writes the standard superblock, or in its place the mark of an unfinished volume.
    fn write_primary(&self, form: Primary) -> Result<(), AdminError> {
        let mut bytes = self.sb.encode();
        bytes.resize(SBLOCKSIZE, 0);
        if form == Primary::Unfinished {
            wire::put(&mut bytes, MAGIC_OFFSET, self.g.endian, FS_BAD_MAGIC);
        }
        Ok(self.dev.write_at(self.sb.location, &bytes)?)
    }

    /// Writes the final superblock as the copy at byte `at`.
    fn write_copy(&self, at: u64) -> Result<(), AdminError> {
        let mut copy = self.sb.clone();
        copy.location = at;
        Ok(self.dev.write_at(at, &copy.encode())?)
    }

    /// Offset of the inode blocks in the transfer buffer: after the superblock copy and the group's
    /// block.
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
            Format::Ufs1 if self.leaves_residue() => 0,
            Format::Ufs1 => g.ipg.min(2 * g.inopb),
        };
        self.number_inodes(&mut buffer[inodes..], numbered);
        let at = g.frag_to_byte(start);
        self.dev.write_at(at, &buffer[..SBLOCKSIZE])?;
        // A group of one inode block that ends with it has no space for the second.
        let space = u64::from(g.cg_frags(CgNo(c)) - g.sblkno) * u64::from(g.fsize);
        let len = usize::try_from(space).unwrap_or(usize::MAX).min(buffer.len());
        // With large blocks the superblock copy ends where the group's block begins.
        Ok(self.dev.write_at(at + own as u64, &buffer[own..len])?)
    }

    /// The superblock copy for fragment `at`.
    fn backup(&self, at: FragNo) -> Vec<u8> {
        let mut copy = self.sb.clone();
        copy.set_cstotal(self.initial);
        copy.location = self.g.frag_to_byte(at);
        copy.encode()
    }

    /// Sets the generation numbers of the first `count` inodes in `area`.
    fn number_inodes(&mut self, area: &mut [u8], count: u32) {
        let (size, at) = match self.g.format {
            Format::Ufs1 => (128, 108),
            Format::Ufs2 => (256, 80),
        };
        for inode in area.chunks_exact_mut(size).take(count as usize) {
            wire::put(inode, at, self.g.endian, self.numbers.next());
        }
    }

    /// Writes the inodes beyond the first two blocks of a UFS1 group; UFS1 has no uninitialised
    /// inodes.
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
            if self.leaves_residue() {
                // FreeBSD fills its buffer's first inode block again and again; the next group
                // starts with its content.
                let from = bytes.len() - bsize;
                let to = self.inode_area();
                buffer[to..to + bsize].copy_from_slice(&bytes[from..]);
            }
        }
        Ok(())
    }

    /// Writes the root and `.snap`: their directory blocks, and their inodes into `inodes`, the
    /// first inode block of group 0. `tail` is the last content of the buffer of inode blocks.
    fn write_directories(&self, mut inodes: Vec<u8>, tail: &[u8]) -> Result<(), AdminError> {
        let g = &self.g;
        let (root, snap) = self.groups.dirs;
        let before = match self.opts.release {
            Release::Freebsd10 => {
                let mut copy = self.backup(g.cgsblock(CgNo(0)));
                copy.resize(copy.len().max(g.fsize as usize), 0);
                copy
            }
            _ => tail.to_vec(),
        };
        self.write_dirblk(root, &rootdir::root_dirblk(g, snap.is_some()), &before)?;
        let opts = NewfsOptions { no_snap: snap.is_none(), ..self.opts.clone() };
        self.put_inode(&mut inodes, Ino::ROOT, &rootdir::root_inode(g, &opts, self.now, root));
        if let Some(snap) = snap {
            let before = match self.opts.release {
                Release::Freebsd10 => &inodes,
                _ => tail,
            };
            self.write_dirblk(snap, &rootdir::snap_dirblk(g), before)?;
            let inode = rootdir::snap_inode(g, self.opts, self.now, snap);
            self.put_inode(&mut inodes, rootdir::SNAP_INO, &inode);
        }
        Ok(self.dev.write_at(g.frag_to_byte(g.cgimin(CgNo(0))), &inodes)?)
    }

    /// Writes a directory of one directory block to fragment `at`, followed by `residue` of
    /// FreeBSD's buffer or by zeros.
    fn write_dirblk(&self, at: u32, dirblk: &[u8], residue: &[u8]) -> Result<(), AdminError> {
        let mut frag = vec![0; self.g.fsize as usize];
        if self.leaves_residue() && self.opts.release != Release::Freebsd4 {
            frag.copy_from_slice(&residue[..self.g.fsize as usize]);
        }
        frag[..dirblk.len()].copy_from_slice(dirblk);
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
