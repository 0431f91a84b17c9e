//! The superblock on disk: the table of its fields, the flags, the constants
//! (`spec/on-disk-format.md` §3).
//!
//! Callers normally use [`crate::Superblock`], which contains these fields.

use crate::layout;
use bitflags::bitflags;

/// Bytes reserved for a superblock, `SBLOCKSIZE`.
pub const SBLOCKSIZE: usize = 8192;
/// Magic number of UFS1.
pub const FS_UFS1_MAGIC: u32 = 0x0001_1954;
/// Magic number of Solaris' multi-terabyte UFS, a variant of UFS1.
pub const MTB_UFS_MAGIC: u32 = 0x00de_cade;
/// Magic number of UFS2.
pub const FS_UFS2_MAGIC: u32 = 0x1954_0119;
/// Magic number while newfs is running.
pub const FS_BAD_MAGIC: u32 = 0x1996_0408;
/// Byte offset of the magic number in the superblock.
pub const MAGIC_OFFSET: usize = 1372;
/// Most snapshots a volume can have, `FSMAXSNAP`.
pub const FSMAXSNAP: usize = 20;
/// Byte 211: the flags in use are in `flags`, not here.
pub(crate) const FS_FLAGS_UPDATED: u8 = 0x80;

layout! {
    /// The superblock's fields on disk (`spec/on-disk-format.md` §3); see [`crate::Superblock`].
    pub struct SbFields[1376] {
        0 => firstfield: i32, "Historic in-core link; 0.";
        4 => unused_1: i32, "Historic in-core link; 0.";
        8 => sblkno: i32, "Fragment of the backup superblock in a group.";
        12 => cblkno: i32, "Fragment of the cylinder-group block in a group.";
        16 => iblkno: i32, "Fragment of the first inode block in a group.";
        20 => dblkno: i32, "Fragment of the first data block after the metadata of a group.";
        24 => old_cgoffset: i32, "UFS1: rotation step of the metadata, fragments.";
        28 => old_cgmask: i32, "UFS1: rotation mask.";
        32 => old_time: i32, "UFS1: last write, seconds.";
        36 => old_size: i32, "UFS1: total fragments.";
        40 => old_dsize: i32, "UFS1: data fragments.";
        44 => ncg: u32, "Number of cylinder groups.";
        48 => bsize: i32, "Block size, bytes.";
        52 => fsize: i32, "Fragment size, bytes.";
        56 => frag: i32, "Fragments per block.";
        60 => minfree: i32, "Percent of the data fragments kept for root.";
        64 => old_rotdelay: i32, "UFS1: rotational delay; 0.";
        68 => old_rps: i32, "UFS1: revolutions per second.";
        72 => bmask: i32, "`!(bsize - 1)`.";
        76 => fmask: i32, "`!(fsize - 1)`.";
        80 => bshift: i32, "log2 of bsize.";
        84 => fshift: i32, "log2 of fsize.";
        88 => maxcontig: i32, "Most blocks in one contiguous transfer.";
        92 => maxbpg: i32, "Most blocks one file takes from a group before moving on.";
        96 => fragshift: i32, "log2 of frag.";
        100 => fsbtodb: i32, "log2 of fsize / 512.";
        104 => sbsize: i32, "Bytes of a superblock that are written.";
        108 => spare1: [i32; 2], "Old csmask, csshift.";
        116 => nindir: i32, "Pointers per indirect block.";
        120 => inopb: u32, "Inodes per block.";
        124 => old_nspf: i32, "UFS1: sectors per fragment.";
        128 => optim: i32, "0 optimise for time, 1 for space.";
        132 => old_npsect: i32, "UFS1: sectors per track incl. spares.";
        136 => old_interleave: i32, "UFS1: 1.";
        140 => old_trackskew: i32, "UFS1: 0.";
        144 => id: [i32; 2], "Creation time and a random number: the file system's id.";
        152 => old_csaddr: i32, "UFS1: fragment of the summary area.";
        156 => cssize: i32, "Bytes of the summary area.";
        160 => cgsize: i32, "Bytes of a cylinder-group block.";
        164 => spare2: i32, "Old ntrak.";
        168 => old_nsect: i32, "UFS1: sectors per track.";
        172 => old_spc: i32, "UFS1: sectors per cylinder.";
        176 => old_ncyl: i32, "UFS1: cylinders.";
        180 => old_cpg: i32, "UFS1: cylinders per group.";
        184 => ipg: u32, "Inodes per group.";
        188 => fpg: i32, "Fragments per group.";
        192 => old_cstotal: [i32; 4], "UFS1: totals ndir, nbfree, nifree, nffree.";
        208 => fmod: i8, "Modified flag; 0 on disk.";
        209 => clean: i8, "1 = cleanly unmounted.";
        210 => ronly: i8, "Mounted read-only; 0 on disk.";
        211 => old_flags: u8, "Flags of old volumes, or 0x80.";
        724 => cgrotor: i32, "Last group searched; 0.";
        856 => old_cpc: i32, "UFS1: cylinders per cycle of rotational positions.";
        860 => maxbsize: i32, "Largest extent, bytes; differs from bsize on old UFS1 volumes.";
        864 => unrefs: i64, "gjournal: unreferenced inodes.";
        872 => providersize: i64, "Fragments of the device when made or grown.";
        880 => metaspace: i64, "Fragments at the head of each group's data kept for metadata.";
        992 => sblockactualloc: i64, "Byte offset of this copy.";
        1000 => sblockloc: i64, "Byte offset of the standard superblock.";
        1008 => cstotal: [i64; 5], "Totals ndir, nbfree, nifree, nffree, numclusters.";
        1072 => time: i64, "Last write, seconds.";
        1080 => size: i64, "Total fragments.";
        1088 => dsize: i64, "Data fragments.";
        1096 => csaddr: i64, "Fragment of the summary area.";
        1104 => pendingblocks: i64, "Deleted but not yet freed, 512-byte units.";
        1112 => pendinginodes: u32, "Deleted but not yet freed inodes.";
        1116 => snapinum: [u32; 20], "Inodes of active snapshots, oldest first.";
        1196 => avgfilesize: u32, "Expected average file size, bytes.";
        1200 => avgfpdir: u32, "Expected files per directory.";
        1204 => save_cgsize: i32, "0.";
        1208 => mtime: i64, "Last mount or full check; validates the journal.";
        1216 => sujfree: i32, "SU+J: head of the list of unlinked open inodes.";
        1304 => ckhash: u32, "Check hash of the superblock.";
        1308 => metackhash: u32, "Which check hashes are kept.";
        1312 => flags: u32, "FS_ flags.";
        1316 => contigsumsize: i32, "Entries of the cluster summary; 0 = no cluster maps.";
        1320 => maxsymlinklen: i32, "Size of the link text in the inode, bytes.";
        1324 => old_inodefmt: i32, "UFS1: 2 = 4.4BSD inodes.";
        1328 => maxfilesize: u64, "Largest file, bytes.";
        1336 => qbmask: i64, "bsize - 1.";
        1344 => qfmask: i64, "fsize - 1.";
        1352 => state: i32, "0.";
        1356 => old_postblformat: i32, "UFS1: format of the rotational tables.";
        1360 => old_nrpos: i32, "UFS1: rotational positions.";
        1364 => spare5: [i32; 2], "Old rotational table offsets.";
        1372 => magic: u32, "FS_UFS1_MAGIC or FS_UFS2_MAGIC.";
    }
}

bitflags! {
    /// `fs_flags` (`spec/on-disk-format.md` §3.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct FsFlags: u32 {
        /// Was dirty when mounted: unmounting leaves it dirty.
        const UNCLEAN = 0x1;
        /// Use soft updates.
        const DOSOFTDEP = 0x2;
        /// Needs a foreground fsck.
        const NEEDSFSCK = 0x4;
        /// Soft-updates journal.
        const SUJ = 0x8;
        /// POSIX.1e access-control lists.
        const ACLS = 0x10;
        /// MAC labels per file.
        const MULTILABEL = 0x20;
        /// On a gjournal provider.
        const GJOURNAL = 0x40;
        /// NFSv4 ACLs (NetBSD: WAPBL).
        const NFS4ACLS = 0x100;
        /// Check hashes are in use (NetBSD: quota2).
        const METACKHASH = 0x200;
        /// Discard freed blocks.
        const TRIM = 0x400;
        /// Private flag: a mount set `DOSOFTDEP` temporarily. FreeBSD does not use the bit and
        /// preserves it (it clears the bits from 0x01000000 on).
        const SOFTDEP_TEMPORARY = 0x0080_0000;
        const _ = !0;
    }
}

impl FsFlags {
    /// The flags without those that a mount set temporarily.
    #[must_use]
    pub fn permanent(self) -> FsFlags {
        if self.contains(FsFlags::SOFTDEP_TEMPORARY) {
            self - (FsFlags::DOSOFTDEP | FsFlags::SOFTDEP_TEMPORARY)
        } else {
            self
        }
    }
}

bitflags! {
    /// `fs_metackhash` (`spec/on-disk-format.md` §3.2): the structures with a check hash.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
    pub struct CkHash: u32 {
        /// Superblock.
        const SUPERBLOCK = 0x1;
        /// Cylinder groups.
        const CYLGRP = 0x2;
        /// UFS2 inodes.
        const INODE = 0x4;
    }
}
