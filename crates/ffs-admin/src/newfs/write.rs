//! Writing a new volume (`spec/on-disk-format.md` §17.3).
//!
//! **Purpose.** The order of writes, and the bytes of everything except maps.
//!
//! **Invariants.**
//! 1. A first write probes the last sector. The next write marks the volume unfinished, and the
//!    last one makes it valid, with a flush after the former and before the latter. No system
//!    mounts the state in between.
//! 2. Memory is limited to a few blocks and [`PIECE`], for any number of groups.

use ffs_device::BlockDevice;
use ffs_ondisk::sbsearch::{FsRecovery, RECOVERY_OFFSET};
use ffs_ondisk::superblock::{FS_BAD_MAGIC, MAGIC_OFFSET, SBLOCKSIZE};
use ffs_ondisk::{CgNo, Csum, Dinode, Format, FragNo, Geometry, Ino, Superblock, dinode, wire};

use super::gennumbers::GenNumbers;
use super::groupwriter::{GroupWriter, PIECE, UnusedSpace};
use super::options::{NewfsOptions, Release};
use super::{group, rootdir, wipe};
use crate::AdminError;

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
    pub(super) unused_space: UnusedSpace,
    pub(super) groups: GroupBlocks,
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
        self,
        bytes: u64,
        numbers: GenNumbers<'_>,
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
        let backup = self.backup();
        let mut writer = GroupWriter::new(self.dev, self.g, &backup, numbers, self.unused_space);
        let mut first_inodes = Vec::new();
        for c in 0..self.g.ncg {
            writer.write_group(CgNo(c), &self.groups.of(&self.g, c).0)?;
            if c == 0 {
                first_inodes = writer.inode_blocks()[..self.g.bsize as usize].to_vec();
            }
            writer.write_remaining_inodes(CgNo(c))?;
            progress(c + 1, self.g.ncg);
        }
        self.write_directories(first_inodes, writer.inode_blocks())?;
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

    /// The superblock of the backups.
    fn backup(&self) -> Superblock {
        let mut backup = self.sb.clone();
        backup.set_cstotal(self.initial);
        backup
    }

    /// Writes the root and `.snap`: their directory blocks, and their inodes into `inodes`, the
    /// first inode block of group 0. `tail` is the last content of the buffer of inode blocks.
    fn write_directories(&self, mut inodes: Vec<u8>, tail: &[u8]) -> Result<(), AdminError> {
        let g = &self.g;
        let (root, snap) = self.groups.dirs;
        let before = match self.opts.release {
            Release::Freebsd10 => {
                let mut backup = self.backup();
                backup.location = g.frag_to_byte(g.cgsblock(CgNo(0)));
                let mut copy = backup.encode();
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
