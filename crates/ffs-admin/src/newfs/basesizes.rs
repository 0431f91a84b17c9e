//! Sizes of a new volume that do not depend on the cylinder groups
//! (`spec/on-disk-format.md` §17.1).

use ffs_ondisk::Format;
use ffs_ondisk::superblock::SBLOCKSIZE;

use super::options::{FS_MAXCONTIG, MAXBSIZE, MAXFRAG, MINBSIZE, NewfsOptions, Release};
use crate::AdminError;

/// Byte offset of a UFS1 superblock.
const SBLOCK_UFS1: u64 = 8192;
/// Byte offset of a UFS2 superblock.
const SBLOCK_UFS2: u64 = 65536;

/// Sizes that do not depend on the cylinder groups.
pub(super) struct BaseSizes {
    pub(super) format: Format,
    pub(super) bsize: u64,
    pub(super) fsize: u64,
    pub(super) frag: u64,
    pub(super) inopb: u64,
    pub(super) size: u64,
    pub(super) sblkno: u64,
    pub(super) cblkno: u64,
    pub(super) iblkno: u64,
    pub(super) maxbsize: u32,
    pub(super) maxcontig: u32,
    pub(super) contigsumsize: u64,
}

impl BaseSizes {
    pub(super) fn new(
        opts: &NewfsOptions,
        wanted: (u32, u32),
        bytes: u64,
        sector_size: u32,
        notes: &mut Vec<String>,
    ) -> Result<BaseSizes, AdminError> {
        let (bsize, fsize) = fit_sizes(wanted, sector_size, notes)?;
        let format = opts.format();
        let frag = bsize / fsize;
        let (maxbsize, maxcontig) = transfer_sizes(opts, bsize, notes);
        let contigsumsize = if maxcontig > 1 { maxcontig.min(FS_MAXCONTIG) } else { 0 };
        let (fsize, frag) = (u64::from(fsize), u64::from(frag));
        let blocks = |bytes: u64| bytes.div_ceil(fsize).next_multiple_of(frag);
        let sblkno = blocks(sblockloc(format) + SBLOCKSIZE as u64);
        let cblkno = sblkno + blocks(SBLOCKSIZE as u64);
        Ok(BaseSizes {
            format,
            bsize: bsize.into(),
            fsize,
            frag,
            inopb: u64::from(bsize) / format.dinode_size() as u64,
            size: bytes / fsize,
            sblkno,
            cblkno,
            iblkno: cblkno + frag,
            maxbsize,
            maxcontig,
            contigsumsize: contigsumsize.into(),
        })
    }

    /// Fragments that hold `ipg` inodes.
    pub(super) fn inode_frags(&self, ipg: u64) -> u64 {
        ipg / self.inopb * self.frag
    }

    /// Fragments of the metadata of a group.
    pub(super) fn metadata_frags(&self, ipg: u64) -> u64 {
        (self.iblkno + self.inode_frags(ipg)).next_multiple_of(self.frag)
    }

    /// Bytes of a group's block (`CGSIZE`), with `header` bytes before the maps.
    pub(super) fn cg_bytes(&self, header: u64, cylinders: u64, fpg: u64, ipg: u64) -> u64 {
        let clusters = match self.contigsumsize {
            0 => 0,
            n => 4 * n + (fpg / self.frag).div_ceil(8),
        };
        header + 4 + 6 * cylinders + ipg.div_ceil(8) + fpg.div_ceil(8) + clusters
    }

    /// Cylinders per group in the superblock.
    pub(super) fn cylinders(&self) -> u64 {
        match self.format {
            Format::Ufs1 => 1,
            Format::Ufs2 => 0,
        }
    }
}

/// Byte offset of the superblock.
pub(super) fn sblockloc(format: Format) -> u64 {
    match format {
        Format::Ufs1 => SBLOCK_UFS1,
        Format::Ufs2 => SBLOCK_UFS2,
    }
}

/// Moves the sizes into the ranges of the format.
fn fit_sizes(
    (mut bsize, mut fsize): (u32, u32),
    sector_size: u32,
    notes: &mut Vec<String>,
) -> Result<(u32, u32), AdminError> {
    // The default block size follows from the fragment size.
    for (option, value) in [("-f", fsize), ("-b", bsize)] {
        if !value.is_power_of_two() {
            return Err(AdminError::option(option, format!("{value} is not a power of two")));
        }
    }
    let mut set = |what: &str, value: &mut u32, to: u32, why: &str| {
        notes.push(format!("{what} size {value} changed to {to}, {why}"));
        *value = to;
    };
    let sector = sector_size.max(512);
    if fsize < sector {
        set("fragment", &mut fsize, sector, "the sector size");
    }
    if bsize > MAXBSIZE {
        set("block", &mut bsize, MAXBSIZE, "the largest there is");
    }
    if bsize < MINBSIZE {
        set("block", &mut bsize, MINBSIZE, "the smallest there is");
    }
    if fsize > MAXBSIZE {
        set("fragment", &mut fsize, MAXBSIZE, "the largest there is");
    }
    if bsize < fsize {
        set("block", &mut bsize, fsize, "the fragment size");
    }
    if fsize * MAXFRAG < bsize {
        set("fragment", &mut fsize, bsize / MAXFRAG, "an eighth of the block size");
    }
    Ok((bsize, fsize))
}

/// Largest extent in bytes, and most blocks in one transfer.
fn transfer_sizes(opts: &NewfsOptions, bsize: u32, notes: &mut Vec<String>) -> (u32, u32) {
    let maxbsize = match opts.max_extent {
        None => bsize,
        Some(n) if n != bsize && opts.format() == Format::Ufs1 => {
            // Any other size marks a UFS1 superblock without 64-bit fields
            // (`spec/on-disk-format.md` §3.4).
            notes.push(format!("extent size set to {bsize}: UFS1 has no larger extents"));
            bsize
        }
        Some(n) if n < bsize || !n.is_power_of_two() => {
            notes.push(format!("extent size set to {bsize}"));
            bsize
        }
        Some(n) if n > FS_MAXCONTIG * bsize => {
            notes.push(format!("extent size reduced to {}", FS_MAXCONTIG * bsize));
            FS_MAXCONTIG * bsize
        }
        Some(n) => n,
    };
    let by_default = match opts.release {
        Release::Freebsd4 => (128 * 1024 / bsize).saturating_sub(1),
        Release::Freebsd10 => 128 * 1024 / bsize,
        Release::Current => 1024 * 1024 / bsize,
    };
    let mut maxcontig = opts.maxcontig.unwrap_or(by_default.max(1));
    if maxcontig < maxbsize / bsize {
        maxcontig = maxbsize / bsize;
        notes.push(format!("maxcontig raised to {maxcontig}"));
    }
    (maxbsize, maxcontig)
}
