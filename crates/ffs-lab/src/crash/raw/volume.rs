//! The superblock's constants, and the addresses that follow from them.
//!
//! # Invariants
//! 1. A volume that is read has all its fragments inside the image, groups that cover them, and
//!    inode numbers of 32 bits: loops over groups, inodes and fragments are bounded by the image's
//!    length.
//!
//! References: `spec/on-disk-format.md` §2 to §4.

use super::super::image::ImageBytes;
use super::order::Order;

/// Pointers in an inode.
pub(super) const NDADDR: usize = 12;
/// Indirect pointers in an inode.
pub(super) const NIADDR: usize = 3;
/// The root directory.
pub(super) const ROOT: u32 = 2;
/// Bytes of a directory chunk.
pub(super) const CHUNK: usize = 512;

/// The constants of a volume.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Volume {
    pub(super) order: Order,
    pub(super) ufs2: bool,
    /// Bytes of a block.
    pub(super) bsize: u64,
    /// Bytes of a fragment.
    pub(super) fsize: u64,
    /// Fragments of a block.
    pub(super) frag: u64,
    /// Groups.
    pub(super) ncg: u32,
    /// Inodes of a group.
    pub(super) ipg: u32,
    /// Fragments of a group.
    pub(super) fpg: u64,
    /// Fragments of the volume.
    pub(super) size: u64,
    sblkno: u64,
    cblkno: u64,
    iblkno: u64,
    dblkno: u64,
    cgoffset: u64,
    cgmask: u32,
    /// Inodes of a block.
    pub(super) inopb: u32,
    /// Pointers of an indirect block.
    pub(super) nindir: u64,
    /// The summary area: fragment and fragments.
    summary: (u64, u64),
    /// Bytes of a group's header and maps.
    pub(super) cgsize: usize,
    /// Symbolic links shorter than this have their text in the inode. 0: none, and entries have no
    /// type.
    pub(super) maxsymlinklen: u64,
    /// Largest file, bytes.
    pub(super) maxfilesize: u64,
    /// Cylinders of a group and rotational positions of a cylinder: UFS1 has tables of them.
    pub(super) cylinders: (u32, u32),
    /// Entries of a group's cluster summary; 0: no cluster maps.
    pub(super) contigsumsize: u32,
    /// Whether groups have check hashes.
    pub(super) cg_hashes: bool,
    /// The sums over all groups as the superblock has them: ndir, nbfree, nifree, nffree.
    pub(super) totals: [u64; 4],
    /// The inodes of snapshots that the superblock lists, up to the first 0.
    pub(super) snapshots: [u32; 20],
}

impl Volume {
    /// Finds the superblock of `image` and reads it.
    pub(super) fn read(image: &dyn ImageBytes) -> Result<Volume, String> {
        for at in [65536, 8192, 0] {
            let Some(bytes) = image.read(at, 1376) else { continue };
            for big in [false, true] {
                let order = Order { big };
                let ufs2 = match order.u32(&bytes, 1372) {
                    0x1954_0119 if order.u64(&bytes, 1000) == at => true,
                    // With blocks of 64 KiB, the first backup is at the place of UFS2's superblock.
                    0x0001_1954 if at <= 8192 => false,
                    _ => continue,
                };
                return Volume::decode(&bytes, order, ufs2).within(image.len());
            }
        }
        Err("no superblock".to_owned())
    }

    fn decode(sb: &[u8], order: Order, ufs2: bool) -> Volume {
        let word = |at| u64::from(order.u32(sb, at));
        let long = |at| order.u64(sb, at);
        let fsize = word(52);
        Volume {
            order,
            ufs2,
            bsize: word(48),
            fsize,
            frag: word(56),
            ncg: order.u32(sb, 44),
            ipg: order.u32(sb, 184),
            fpg: word(188),
            size: long(1080),
            sblkno: word(8),
            cblkno: word(12),
            iblkno: word(16),
            dblkno: word(20),
            cgoffset: if ufs2 { 0 } else { word(24) },
            cgmask: order.u32(sb, 28),
            inopb: order.u32(sb, 120),
            nindir: word(116),
            summary: (long(1096), word(156).div_ceil(fsize.max(1))),
            cgsize: order.u32(sb, 160) as usize,
            maxsymlinklen: u64::from(order.u32(sb, 1320).cast_signed().max(0).cast_unsigned()),
            maxfilesize: long(1328),
            cylinders: (order.u32(sb, 180), order.u32(sb, 1360)),
            contigsumsize: order.u32(sb, 1316),
            cg_hashes: ufs2 && order.u32(sb, 1312) & 0x200 != 0 && order.u32(sb, 1308) & 2 != 0,
            totals: [long(1008), long(1016), long(1024), long(1032)],
            snapshots: std::array::from_fn(|i| order.u32(sb, 1116 + 4 * i)),
        }
    }

    /// The volume, if its numbers fit each other and an image of `len` bytes.
    fn within(self, len: u64) -> Result<Volume, String> {
        let power = |n: u64, low, high| n.is_power_of_two() && (low..=high).contains(&n);
        let sound = power(self.bsize, 4096, 65536)
            && power(self.fsize, 512, 65536)
            && self.frag <= 8
            && self.bsize == self.fsize * self.frag
            && self.size <= len / self.fsize
            && self.fpg > 0
            && self.fpg.is_multiple_of(self.frag)
            && u64::from(self.ncg) == self.size.div_ceil(self.fpg)
            && u64::from(self.inopb) == self.bsize / self.isize()
            && self.nindir == self.bsize / self.pointer()
            && self.ipg.is_multiple_of(self.inopb)
            && u128::from(self.ncg) * u128::from(self.ipg) * u128::from(self.isize()) <= len.into()
            && self.cgoffset * u64::from(!self.cgmask) <= self.fpg
            && u64::from(self.ipg / 8) + self.fpg / 8 <= self.bsize
            && self.sblkno < self.cblkno
            && self.cblkno < self.iblkno
            && self.iblkno < self.dblkno
            && self.dblkno < self.fpg
            && self.cgsize as u64 <= self.bsize
            && self.cgsize > 168
            && (self.ufs2 || self.cylinders.0 <= 4096 && self.cylinders.1 <= 64)
            && self.contigsumsize <= 4096;
        if sound { Ok(self) } else { Err("impossible superblock".to_owned()) }
    }

    /// Bytes of an inode.
    pub(super) fn isize(&self) -> u64 {
        if self.ufs2 { 256 } else { 128 }
    }

    /// Bytes of a pointer.
    pub(super) fn pointer(&self) -> u64 {
        if self.ufs2 { 8 } else { 4 }
    }

    /// One more than the highest inode number.
    pub(super) fn inodes(&self) -> u32 {
        self.ncg * self.ipg
    }

    /// The first fragment of the metadata of group `cg`.
    fn start(&self, cg: u32) -> u64 {
        u64::from(cg) * self.fpg + self.cgoffset * u64::from(cg & !self.cgmask)
    }

    /// Byte of the header of group `cg`.
    pub(super) fn header(&self, cg: u32) -> u64 {
        (self.start(cg) + self.cblkno) * self.fsize
    }

    /// Byte of the first inode of group `cg`.
    pub(super) fn first_inode(&self, cg: u32) -> u64 {
        (self.start(cg) + self.iblkno) * self.fsize
    }

    /// Fragments of group `cg`.
    pub(super) fn fragments(&self, cg: u32) -> u64 {
        (self.size - u64::from(cg) * self.fpg).min(self.fpg)
    }

    /// Fragments of group `cg` that belong to no file: the two ends of the metadata.
    pub(super) fn metadata(&self, cg: u32) -> std::ops::Range<u64> {
        let start = self.start(cg);
        let from = if cg == 0 { 0 } else { start + self.sblkno };
        from..start + self.dblkno
    }

    /// The parts of the metadata of group `cg`: superblock, header and maps, inodes. Fragments.
    pub(super) fn parts(&self, cg: u32) -> [std::ops::Range<u64>; 3] {
        let (start, whole) = (self.start(cg), self.metadata(cg));
        [
            whole.start..start + self.cblkno,
            start + self.cblkno..start + self.iblkno,
            start + self.iblkno..whole.end,
        ]
    }

    /// The summary area, fragments.
    pub(super) fn summary(&self) -> std::ops::Range<u64> {
        self.summary.0..self.summary.0.saturating_add(self.summary.1)
    }

    /// Whether a run of fragments is in the volume, inside one block, and not in metadata.
    pub(super) fn holds_data(&self, at: u64, frags: u64) -> bool {
        if at >= self.size || frags > self.size - at || at % self.frag + frags > self.frag {
            return false;
        }
        let metadata = self.metadata((at / self.fpg) as u32);
        let summary = self.summary();
        let apart = |range: &std::ops::Range<u64>| at + frags <= range.start || range.end <= at;
        apart(&metadata) && apart(&summary)
    }

    /// Fragments of block `lbn` of a file of `size` bytes.
    pub(super) fn fragments_of(&self, lbn: u64, size: u64) -> u64 {
        if lbn >= NDADDR as u64 || size >= (lbn + 1) * self.bsize {
            return self.frag;
        }
        (size % self.bsize).div_ceil(self.fsize)
    }
}
