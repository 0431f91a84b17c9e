//! The constants of a volume and every address computation (`spec/on-disk-format.md` §4).
//!
//! # Invariants
//! 1. Only [`crate::sbcheck`] creates a [`Geometry`], from a superblock without fatal problems. So
//!    sizes are powers of two, divisors are not zero and products fit in 64 bits.
//! 2. Functions on in-range numbers are exact. The `check_*` functions reject out-of-range numbers
//!    when they are read from disk.

use crate::error::{Corrupt, Error, Place, Structure};
use crate::sbfields::CkHash;
use crate::units::{CgNo, FragNo, Ino, Lbn};
use crate::variant::Variant;
use crate::wire::Endian;

/// Number of direct pointers in an inode, `NDADDR`.
pub const NDADDR: usize = 12;
/// Number of indirect pointers in an inode, `NIADDR`.
pub const NIADDR: usize = 3;
/// Bytes of a directory block, here called a chunk, `DIRBLKSIZ`.
pub const DIRBLKSIZ: usize = 512;
/// Unit of `di_blocks`, `DEV_BSIZE`.
pub const DEV_BSIZE: u64 = 512;

/// The two formats.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Format {
    /// 32-bit addresses, 128-byte inodes.
    Ufs1,
    /// 64-bit addresses, 256-byte inodes, extended attributes.
    Ufs2,
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Format::Ufs1 => "UFS1",
            Format::Ufs2 => "UFS2",
        })
    }
}

impl Format {
    /// Bytes of an inode on disk.
    #[must_use]
    pub fn dinode_size(self) -> usize {
        match self {
            Format::Ufs1 => 128,
            Format::Ufs2 => 256,
        }
    }

    /// Bytes of a block pointer on disk.
    #[must_use]
    pub fn pointer_size(self) -> usize {
        match self {
            Format::Ufs1 => 4,
            Format::Ufs2 => 8,
        }
    }

    /// Bytes of link text that fit in the inode.
    #[must_use]
    pub fn short_symlink_capacity(self) -> usize {
        match self {
            Format::Ufs1 => 60,
            Format::Ufs2 => 120,
        }
    }
}

/// Validated constants of a volume.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/small.rs"));
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let sb = superblock(ffs_ondisk::Format::Ufs2, 8192, 8, 4, 100);
/// # let g = ffs_ondisk::sbcheck::geometry(&sb, None)?;
/// use ffs_ondisk::{CgNo, FragNo, Ino};
///
/// assert_eq!(g.ino_to_cg(Ino(g.ipg)), CgNo(1));
/// assert_eq!(g.ino_to_fsba(Ino(g.ipg)), g.cgimin(CgNo(1)));
/// assert_eq!(g.dtog(g.cgdmin(CgNo(3))), CgNo(3));
/// assert_eq!(g.run_problem(g.cgtod(CgNo(2)), 1), Some("inside the metadata of its group"));
/// assert_eq!(g.blksize(10_000, ffs_ondisk::Lbn(1)), 2048); // two fragments
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Format.
    pub format: Format,
    /// Byte order.
    pub endian: Endian,
    /// Block size, bytes.
    pub bsize: u32,
    /// Fragment size, bytes.
    pub fsize: u32,
    /// Fragments per block: 1, 2, 4 or 8.
    pub frag: u32,
    /// Number of cylinder groups.
    pub ncg: u32,
    /// Fragments per group.
    pub fpg: u32,
    /// Inodes per group.
    pub ipg: u32,
    /// Total fragments.
    pub size: u64,
    /// Data fragments.
    pub dsize: u64,
    /// Pointers per indirect block.
    pub nindir: u32,
    /// Inodes per block.
    pub inopb: u32,
    /// Fragment of the backup superblock in a group.
    pub sblkno: u32,
    /// Fragment of the cylinder-group block in a group.
    pub cblkno: u32,
    /// Fragment of the first inode block in a group.
    pub iblkno: u32,
    /// First data fragment after the metadata in a group.
    pub dblkno: u32,
    /// UFS1 rotation step, fragments.
    pub cgoffset: u32,
    /// UFS1 rotation mask, already complemented.
    pub cgmask_not: u32,
    /// First fragment of the summary area.
    pub csaddr: FragNo,
    /// Bytes of the summary area.
    pub cssize: u32,
    /// Bytes of a cylinder-group block.
    pub cgsize: u32,
    /// Entries of the cluster summary; 0 = none.
    pub contigsumsize: u32,
    /// Old UFS1: cylinders per group (sizes the tables in the cylinder group).
    pub old_cpg: u32,
    /// Old UFS1: rotational positions.
    pub old_nrpos: u32,
    /// Fragments at the start of each group's data area that are reserved for metadata.
    pub metaspace: u32,
    /// Largest file, bytes.
    pub maxfilesize: u64,
    /// Link text shorter than this is stored in the inode; 0 on 4.2BSD volumes (old directories
    /// too).
    pub maxsymlinklen: u32,
    /// UFS1 inodes of 4.2BSD, with 16-bit owners.
    pub old_ids: bool,
    /// The structures with check hashes.
    pub ckhash: CkHash,
    /// Old UFS1 superblock without 64-bit fields.
    pub old_layout: bool,
    /// Variant of UFS1.
    pub variant: Variant,
    /// Cylinder groups in the layout of 4.2BSD.
    pub old_groups: bool,
}

impl Geometry {
    /// First fragment of group `c`.
    #[must_use]
    pub fn cgbase(&self, c: CgNo) -> FragNo {
        FragNo(u64::from(self.fpg) * u64::from(c.0))
    }

    /// The start of the metadata of group `c`; rotated on old UFS1 volumes.
    #[must_use]
    pub fn cgstart(&self, c: CgNo) -> FragNo {
        let turn = u64::from(self.cgoffset) * u64::from(c.0 & self.cgmask_not);
        self.cgbase(c).plus(turn)
    }

    /// Backup superblock of group `c`.
    #[must_use]
    pub fn cgsblock(&self, c: CgNo) -> FragNo {
        self.cgstart(c).plus(self.sblkno.into())
    }

    /// Cylinder-group block of group `c`.
    #[must_use]
    pub fn cgtod(&self, c: CgNo) -> FragNo {
        self.cgstart(c).plus(self.cblkno.into())
    }

    /// First inode block of group `c`.
    #[must_use]
    pub fn cgimin(&self, c: CgNo) -> FragNo {
        self.cgstart(c).plus(self.iblkno.into())
    }

    /// First data fragment after the metadata of group `c`.
    #[must_use]
    pub fn cgdmin(&self, c: CgNo) -> FragNo {
        self.cgstart(c).plus(self.dblkno.into())
    }

    /// Start of the metadata zone of group `c`'s data area (FreeBSD ≥ 9.2).
    #[must_use]
    pub fn cgmeta(&self, c: CgNo) -> FragNo {
        self.cgdmin(c)
    }

    /// Start of the data zone after the metadata zone of group `c`.
    #[must_use]
    pub fn cgdata(&self, c: CgNo) -> FragNo {
        self.cgdmin(c).plus(self.metaspace.into())
    }

    /// Fragments in group `c`: `fpg`, fewer in the last.
    #[must_use]
    pub fn cg_frags(&self, c: CgNo) -> u32 {
        let left = self.size.saturating_sub(self.cgbase(c).0);
        u32::try_from(left).unwrap_or(u32::MAX).min(self.fpg)
    }

    /// Whole blocks in a full group.
    #[must_use]
    pub fn blocks_per_group(&self) -> u32 {
        self.fpg / self.frag
    }

    /// Group of fragment `d`.
    #[must_use]
    pub fn dtog(&self, d: FragNo) -> CgNo {
        CgNo(u32::try_from(d.0 / u64::from(self.fpg)).unwrap_or(u32::MAX))
    }

    /// Offset of fragment `d` in its group.
    #[must_use]
    pub fn dtogd(&self, d: FragNo) -> u32 {
        (d.0 % u64::from(self.fpg)) as u32
    }

    /// Group of inode `i`.
    #[must_use]
    pub fn ino_to_cg(&self, i: Ino) -> CgNo {
        CgNo(i.0 / self.ipg)
    }

    /// Index of inode `i` in its group.
    #[must_use]
    pub fn ino_to_cgi(&self, i: Ino) -> u32 {
        i.0 % self.ipg
    }

    /// First fragment of the block that contains inode `i`.
    #[must_use]
    pub fn ino_to_fsba(&self, i: Ino) -> FragNo {
        let block = self.ino_to_cgi(i) / self.inopb;
        self.cgimin(self.ino_to_cg(i)).plus(u64::from(block) * u64::from(self.frag))
    }

    /// Byte offset of inode `i` in its block.
    #[must_use]
    pub fn ino_to_fsbo(&self, i: Ino) -> usize {
        (i.0 % self.inopb) as usize * self.format.dinode_size()
    }

    /// Number of inodes, used and free: valid numbers are `2..inodes()`.
    #[must_use]
    pub fn inodes(&self) -> u32 {
        self.ncg.saturating_mul(self.ipg)
    }

    /// Byte offset of fragment `d` in the partition.
    #[must_use]
    pub fn frag_to_byte(&self, d: FragNo) -> u64 {
        d.0.saturating_mul(self.fsize.into())
    }

    /// Logical block of file offset `off` (bytes).
    #[must_use]
    pub fn lblkno(&self, off: u64) -> Lbn {
        Lbn(off / u64::from(self.bsize))
    }

    /// Offset of file offset `off` in its block.
    #[must_use]
    pub fn blkoff(&self, off: u64) -> u32 {
        (off % u64::from(self.bsize)) as u32
    }

    /// File offset of logical block `l`.
    #[must_use]
    pub fn lblktosize(&self, l: Lbn) -> u64 {
        l.0.saturating_mul(self.bsize.into())
    }

    /// `n` bytes rounded up to whole fragments, bytes.
    ///
    /// Saturates at the largest multiple that fits in 64 bits.
    #[must_use]
    pub fn fragroundup(&self, n: u64) -> u64 {
        let fsize = u64::from(self.fsize);
        n.checked_next_multiple_of(fsize).unwrap_or(u64::MAX - (fsize - 1))
    }

    /// Fragments that `n` bytes need.
    #[must_use]
    pub fn numfrags_up(&self, n: u64) -> u32 {
        u32::try_from(n.div_ceil(self.fsize.into())).unwrap_or(u32::MAX)
    }

    /// Offset of fragment `d` in its block, in fragments.
    #[must_use]
    pub fn fragnum(&self, d: FragNo) -> u32 {
        (d.0 % u64::from(self.frag)) as u32
    }

    /// First fragment of the block that contains `d`.
    #[must_use]
    pub fn blknum(&self, d: FragNo) -> FragNo {
        FragNo(d.0 - d.0 % u64::from(self.frag))
    }

    /// The block of the volume that contains `d`. In a snapshot, it is the logical block that shows
    /// the content of `d`.
    #[must_use]
    pub fn fragstoblks(&self, d: FragNo) -> Lbn {
        Lbn(d.0 / u64::from(self.frag))
    }

    /// First fragment of block `l` of the volume.
    #[must_use]
    pub fn blkstofrags(&self, l: Lbn) -> FragNo {
        FragNo(l.0.saturating_mul(self.frag.into()))
    }

    /// Bytes that logical block `l` of a file of `size` bytes occupies on disk
    /// (`spec/on-disk-format.md` §4.1, §7.7).
    #[must_use]
    pub fn blksize(&self, size: u64, l: Lbn) -> u32 {
        let end = self.lblktosize(l.plus(1));
        if l.0 >= NDADDR as u64 || size >= end {
            return self.bsize;
        }
        self.fragroundup(size.saturating_sub(self.lblktosize(l))) as u32
    }

    /// 512-byte units in `frags` fragments (the unit of `di_blocks`).
    #[must_use]
    pub fn frags_to_sectors(&self, frags: u64) -> u64 {
        frags.saturating_mul(u64::from(self.fsize) / DEV_BSIZE)
    }

    /// Free fragments beyond a reserve of `percent` of the data area.
    #[must_use]
    pub fn freespace(&self, total: &crate::csum::Csum, percent: u32) -> i64 {
        let free = total.nbfree.saturating_mul(self.frag.into()).saturating_add(total.nffree);
        let kept = i128::from(self.dsize) * i128::from(percent) / 100;
        free.saturating_sub(i64::try_from(kept).unwrap_or(i64::MAX))
    }

    /// Checks an inode number read from disk.
    ///
    /// # Errors
    /// [`Error::Corrupt`] unless `2 <= ino < inodes()`.
    pub fn check_ino(&self, raw: u32, s: Structure, p: Place) -> Result<Ino, Error> {
        if raw < 2 || raw >= self.inodes() {
            let want = format!("2..{}", self.inodes());
            return Err(Corrupt::new(s, p, "inode number", raw, want).into());
        }
        Ok(Ino(raw))
    }

    /// Why a run of `n` fragments at `d` cannot belong to a file; `None` if it can.
    ///
    /// The run must be within the volume, within one block and outside the metadata of every group
    /// (`spec/on-disk-format.md` §18.3).
    #[must_use]
    pub fn run_problem(&self, d: FragNo, n: u32) -> Option<&'static str> {
        let end = d.0.checked_add(n.into());
        if d.is_hole() || n == 0 || n > self.frag || end.is_none_or(|e| e > self.size) {
            return Some("outside the volume");
        }
        if self.fragnum(d) + n > self.frag {
            return Some("crossing a block boundary");
        }
        // Not only its ends are tested: a summary area of one fragment may be between them.
        let end = d.plus(n.into());
        let overlaps = |(from, to): (FragNo, FragNo)| d < to && from < end;
        let metadata = self.metadata(self.dtog(d)).into_iter().any(overlaps);
        metadata.then_some("inside the metadata of its group")
    }

    /// Whether fragment `d` of group `c` is metadata: backup superblock, group block, inodes,
    /// and in group 0 the boot area and the summary area too.
    #[must_use]
    pub fn in_metadata(&self, c: CgNo, d: FragNo) -> bool {
        self.metadata(c).into_iter().any(|(from, to)| from <= d && d < to)
    }

    /// The ranges that may contain metadata in group `c` (first fragment, and the one after the
    /// last): the summary area, which may be in another group, and the group's own metadata.
    fn metadata(&self, c: CgNo) -> [(FragNo, FragNo); 2] {
        let cs_end = self.csaddr.plus(u64::from(self.cssize).div_ceil(self.fsize.into()));
        let from = if c.0 == 0 { FragNo(0) } else { self.cgsblock(c) };
        [(self.csaddr, cs_end), (from, self.cgdmin(c))]
    }

    /// Checks a pointer to `n` fragments read from disk; `None` is a hole.
    ///
    /// # Errors
    /// [`Error::Corrupt`] if the run cannot belong to a file.
    pub fn check_run(
        &self,
        raw: i64,
        n: u32,
        s: Structure,
        p: Place,
    ) -> Result<Option<FragNo>, Error> {
        if raw == 0 {
            return Ok(None);
        }
        let d = FragNo(u64::try_from(raw).unwrap_or(0));
        match self.run_problem(d, n) {
            None => Ok(Some(d)),
            Some(why) => {
                let found = format!("{raw} ({n} fragments, {why})");
                Err(Corrupt::new(s, p, "block pointer", found, "a run in the data area").into())
            }
        }
    }
}
