//! Cylinder groups: header, bitmaps, cluster summary (`spec/on-disk-format.md` §5).
//!
//! [`Cg`] and [`CgMut`] are views of a group's block in memory. The offsets of the maps follow from
//! the geometry alone ([`CgLayout`]). [`validate`] (`cg/check.rs`) compares them with the stored
//! offsets when the block is read; after that the views use the geometry.
//!
//! # Invariants
//! 1. Views never use a stored offset, so a hostile header cannot cause out-of-range accesses.
//! 2. Map indexes out of range read as "used", and writes to them do nothing.
//! 3. Views do not update counts when maps change; the allocator and fsck do.

mod check;
mod layout;

pub use check::{hash_ok, rehash, validate, validate_header};
pub use layout::CgLayout;

use crate::csum::Csum;
use crate::geometry::{Format, Geometry};
use crate::layout;
use crate::units::CgNo;
use crate::wire::{get, put};

/// Magic number of a cylinder group.
pub const CG_MAGIC: u32 = 0x0009_0255;
/// Bytes of the header; the maps follow.
pub const CG_HEADER: usize = 168;

layout! {
    /// The header fields of a cylinder group.
    pub struct CgFields[168] {
        0 => firstfield: i32, "0.";
        4 => magic: u32, "CG_MAGIC.";
        8 => old_time: i32, "Last write, seconds (32 bit).";
        12 => cgx: u32, "Own number.";
        16 => old_ncyl: i16, "UFS1: cylinders in this group. UFS2: 0.";
        18 => old_niblk: i16, "UFS1: inodes in this group. UFS2: 0.";
        20 => ndblk: u32, "Fragments in this group.";
        24 => cs: [i32; 4], "Counts ndir, nbfree, nifree, nffree.";
        40 => rotor: u32, "Last used block, fragment offset in the group.";
        44 => frotor: u32, "Last used fragment.";
        48 => irotor: u32, "Last used inode index.";
        52 => frsum: [u32; 8], "Free runs of exactly n fragments inside partly used blocks.";
        84 => old_btotoff: i32, "UFS1: offset of the block totals.";
        88 => old_boff: i32, "UFS1: offset of the rotational positions.";
        92 => iusedoff: u32, "Offset of the used-inode map.";
        96 => freeoff: u32, "Offset of the free-fragment map.";
        100 => nextfreeoff: u32, "End of the maps.";
        104 => clustersumoff: u32, "Offset of the cluster summary.";
        108 => clusteroff: u32, "Offset of the free-cluster map.";
        112 => nclusterblks: u32, "Whole blocks in this group.";
        116 => niblk: u32, "UFS2: inodes in this group.";
        120 => initediblk: u32, "UFS2: initialised inodes.";
        124 => unrefs: u32, "gjournal: unreferenced inodes.";
        132 => ckhash: u32, "Check hash.";
        136 => time: i64, "UFS2: last write, seconds.";
    }
}

/// Read-only view of a group's block.
#[derive(Clone, Copy)]
pub struct Cg<'a> {
    b: &'a [u8],
    g: &'a Geometry,
    lay: CgLayout,
}

/// Writable view of a group's block.
///
/// ```
/// # include!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/common/small.rs"));
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let sb = superblock(ffs_ondisk::Format::Ufs2, 8192, 8, 4, 100);
/// # let g = ffs_ondisk::sbcheck::geometry(&sb, None)?;
/// use ffs_ondisk::CgMut;
///
/// let mut block = vec![0; g.bsize as usize];
/// let mut cg = CgMut::new(&g, &mut block);
/// cg.set_header(&ffs_ondisk::cg::CgFields { ndblk: g.fpg, ..Default::default() });
/// cg.set_block_free(7, true);
/// cg.set_frag_free(65, true);
/// assert!(cg.view().block_free(7));
/// assert_eq!(cg.view().block_pattern(8), 0b10);
/// assert_eq!(cg.view().recount().frsum[1], 1);
/// # Ok(())
/// # }
/// ```
pub struct CgMut<'a> {
    b: &'a mut [u8],
    g: &'a Geometry,
    lay: CgLayout,
}

impl<'a> Cg<'a> {
    /// A view of `b`, which must be a whole block that [`validate`] accepted.
    #[must_use]
    pub fn new(g: &'a Geometry, b: &'a [u8]) -> Cg<'a> {
        Cg { b, g, lay: CgLayout::of(g) }
    }

    /// The header fields.
    #[must_use]
    pub fn header(&self) -> CgFields {
        CgFields::decode(self.b, self.g.endian)
    }

    /// The number of the group as stored in its header.
    #[must_use]
    pub fn cgx(&self) -> CgNo {
        CgNo(get(self.b, 12, self.g.endian))
    }

    /// Fragments in this group.
    #[must_use]
    pub fn ndblk(&self) -> u32 {
        get(self.b, 20, self.g.endian)
    }

    /// Whole blocks in this group.
    #[must_use]
    pub fn nblocks(&self) -> u32 {
        self.ndblk() / self.g.frag
    }

    /// The counts.
    #[must_use]
    pub fn cs(&self) -> Csum {
        Csum::decode(self.b, 24, self.g.endian)
    }

    /// Block rotor, limited to the group.
    #[must_use]
    pub fn rotor(&self) -> u32 {
        self.rotor_at(40, self.ndblk())
    }

    /// Fragment rotor, limited to the group.
    #[must_use]
    pub fn frotor(&self) -> u32 {
        self.rotor_at(44, self.ndblk())
    }

    /// Inode rotor, limited to the group.
    #[must_use]
    pub fn irotor(&self) -> u32 {
        self.rotor_at(48, self.g.ipg)
    }

    fn rotor_at(&self, off: usize, limit: u32) -> u32 {
        let r = get(self.b, off, self.g.endian);
        if r < limit { r } else { 0 }
    }

    /// Free runs of exactly `n` fragments in partly used blocks, `1 <= n < frag`.
    #[must_use]
    pub fn frsum(&self, n: u32) -> u32 {
        if n >= 8 { 0 } else { get(self.b, 52 + 4 * n as usize, self.g.endian) }
    }

    /// UFS2: number of initialised inodes; `ipg` on UFS1.
    #[must_use]
    pub fn initediblk(&self) -> u32 {
        match self.g.format {
            Format::Ufs1 => self.g.ipg,
            Format::Ufs2 => get::<u32>(self.b, 120, self.g.endian).min(self.g.ipg),
        }
    }

    /// The used-inode map (bit set = used).
    #[must_use]
    pub fn inosused(&self) -> &'a [u8] {
        slice(self.b, self.lay.iusedoff, self.g.ipg.div_ceil(8))
    }

    /// The free-fragment map (bit set = free).
    #[must_use]
    pub fn blksfree(&self) -> &'a [u8] {
        slice(self.b, self.lay.freeoff, self.g.fpg.div_ceil(8))
    }

    /// The free-block map (bit set = whole block free); empty without clusters.
    #[must_use]
    pub fn clustersfree(&self) -> &'a [u8] {
        if self.g.contigsumsize == 0 {
            return &[];
        }
        slice(self.b, self.lay.clusteroff, self.g.blocks_per_group().div_ceil(8))
    }

    /// Number of maximal runs of `k` free blocks, `1 <= k <= contigsumsize`.
    #[must_use]
    pub fn clustersum(&self, k: u32) -> i32 {
        if k > self.g.contigsumsize {
            return 0;
        }
        get(self.b, (self.lay.clustersumoff + 4 * k) as usize, self.g.endian)
    }

    /// Whether inode index `i` is used.
    #[must_use]
    pub fn inode_used(&self, i: u32) -> bool {
        bit(self.inosused(), i).unwrap_or(true)
    }

    /// Whether fragment `f` of the group is free.
    #[must_use]
    pub fn frag_free(&self, f: u32) -> bool {
        f < self.ndblk() && bit(self.blksfree(), f).unwrap_or(false)
    }

    /// The free bits of block `blk`, fragment 0 in bit 0; fragments beyond the group are not free.
    #[must_use]
    pub fn block_pattern(&self, blk: u32) -> u8 {
        let first = blk.saturating_mul(self.g.frag);
        let byte = self.blksfree().get(first as usize / 8).copied().unwrap_or(0);
        let inside = self.ndblk().saturating_sub(first).min(self.g.frag);
        (byte >> (first % 8)) & full_pattern(inside)
    }

    /// Whether every fragment of block `blk` is free.
    #[must_use]
    pub fn block_free(&self, blk: u32) -> bool {
        self.block_pattern(blk) == full_pattern(self.g.frag)
    }

    /// Recomputes from the maps the counts that the header and the cluster summary should have.
    #[must_use]
    pub fn recount(&self) -> Counts {
        let mut out = Counts::default();
        let ndblk = self.ndblk().min(self.g.fpg);
        let mut run = 0u32;
        for blk in 0..ndblk.div_ceil(self.g.frag) {
            let pattern = self.block_pattern(blk);
            if pattern == full_pattern(self.g.frag) {
                out.cs.nbfree += 1;
                run += 1;
                continue;
            }
            out.end_run(&mut run, self.g.contigsumsize);
            out.cs.nffree += i64::from(pattern.count_ones());
            for (sum, n) in out.frsum.iter_mut().zip(runs(pattern, self.g.frag)) {
                *sum += u32::from(n);
            }
        }
        out.end_run(&mut run, self.g.contigsumsize);
        let used: u32 = self.inosused().iter().map(|b| b.count_ones()).sum();
        out.cs.nifree = i64::from(self.g.ipg) - i64::from(used);
        out
    }

    /// The raw block.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.b
    }
}

/// The counts computed from the maps of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Free resources; `ndir` cannot be computed from the maps and is 0.
    pub cs: Csum,
    /// Free runs of n fragments inside partly used blocks.
    pub frsum: [u32; 8],
    /// Maximal runs of k free blocks, longer ones counted with the longest; `[0]` is unused.
    pub clustersum: Vec<u32>,
}

impl Counts {
    /// Counts a run of `run` free blocks and resets `run`.
    fn end_run(&mut self, run: &mut u32, contigsumsize: u32) {
        self.clustersum.resize(contigsumsize as usize + 1, 0);
        let k = (*run).min(contigsumsize) as usize;
        if k > 0
            && let Some(n) = self.clustersum.get_mut(k)
        {
            *n += 1;
        }
        *run = 0;
    }
}

impl<'a> CgMut<'a> {
    /// A writable view of `b`, which must be a whole block that [`validate`] accepted.
    #[must_use]
    pub fn new(g: &'a Geometry, b: &'a mut [u8]) -> CgMut<'a> {
        let lay = CgLayout::of(g);
        CgMut { b, g, lay }
    }

    /// The same block, read-only.
    #[must_use]
    pub fn view(&self) -> Cg<'_> {
        Cg { b: self.b, g: self.g, lay: self.lay }
    }

    /// Replaces the header fields.
    pub fn set_header(&mut self, h: &CgFields) {
        h.encode(self.b, self.g.endian);
    }

    /// Replaces the counts.
    pub fn set_cs(&mut self, cs: Csum) {
        cs.encode(self.b, 24, self.g.endian);
    }

    /// Sets the block rotor.
    pub fn set_rotor(&mut self, v: u32) {
        put(self.b, 40, self.g.endian, v);
    }

    /// Sets the fragment rotor.
    pub fn set_frotor(&mut self, v: u32) {
        put(self.b, 44, self.g.endian, v);
    }

    /// Sets the inode rotor.
    pub fn set_irotor(&mut self, v: u32) {
        put(self.b, 48, self.g.endian, v);
    }

    /// Adds `d` to the number of free runs of `n` fragments, not below 0.
    pub fn add_frsum(&mut self, n: u32, d: i32) {
        if (1..8).contains(&n) {
            self.set_frsum(n, self.view().frsum(n).saturating_add_signed(d));
        }
    }

    /// Sets the number of free runs of `n` fragments.
    pub fn set_frsum(&mut self, n: u32, v: u32) {
        if (1..8).contains(&n) {
            put(self.b, 52 + 4 * n as usize, self.g.endian, v);
        }
    }

    /// Sets the number of initialised inodes (UFS2).
    pub fn set_initediblk(&mut self, n: u32) {
        put(self.b, 120, self.g.endian, n);
    }

    /// Adds `d` to the number of maximal runs of `k` free blocks.
    pub fn add_clustersum(&mut self, k: u32, d: i32) {
        if (1..=self.g.contigsumsize).contains(&k) {
            self.set_clustersum(k, self.view().clustersum(k).saturating_add(d));
        }
    }

    /// Sets the number of maximal runs of `k` free blocks.
    pub fn set_clustersum(&mut self, k: u32, v: i32) {
        if (1..=self.g.contigsumsize).contains(&k) {
            put(self.b, (self.lay.clustersumoff + 4 * k) as usize, self.g.endian, v);
        }
    }

    /// Sets whether inode index `i` is used.
    pub fn set_inode_used(&mut self, i: u32, used: bool) {
        if i < self.g.ipg {
            set_bit(self.b, self.lay.iusedoff, i, used);
        }
    }

    /// Sets whether fragment `f` of the group is free.
    pub fn set_frag_free(&mut self, f: u32, free: bool) {
        if f < self.g.fpg {
            set_bit(self.b, self.lay.freeoff, f, free);
        }
    }

    /// Sets whether all fragments of block `blk` are free.
    pub fn set_block_free(&mut self, blk: u32, free: bool) {
        self.set_run_free(blk.saturating_mul(self.g.frag), self.g.frag, free);
    }

    /// Sets whether `n` fragments from fragment `first` of the group on are free, all in one block.
    pub fn set_run_free(&mut self, first: u32, n: u32, free: bool) {
        if first.checked_add(n).is_none_or(|end| end > self.g.fpg) {
            return;
        }
        // The bits of a block are in one byte.
        let mask = full_pattern(n) << (first % 8);
        if let Some(byte) = self.b.get_mut(self.lay.freeoff as usize + first as usize / 8) {
            *byte = if free { *byte | mask } else { *byte & !mask };
        }
    }

    /// Sets whether block `blk` is free in the cluster map.
    pub fn set_cluster_free(&mut self, blk: u32, free: bool) {
        if self.g.contigsumsize > 0 && blk < self.g.blocks_per_group() {
            set_bit(self.b, self.lay.clusteroff, blk, free);
        }
    }

    /// Sets the time of writing (in the fields of the format) and the check hash.
    ///
    /// Must be called last, on the bytes that are written to disk.
    pub fn seal(&mut self, now: i64) {
        put(self.b, 8, self.g.endian, now as i32);
        put(self.b, 136, self.g.endian, now);
        rehash(self.g, self.b);
    }
}

/// The pattern of a wholly free block: `frag` one bits.
#[must_use]
pub fn full_pattern(frag: u32) -> u8 {
    ((1u16 << frag.min(8)) - 1) as u8
}

/// Lengths of the maximal free runs in a block's `pattern`: `runs[n]` runs of `n` fragments.
///
/// A wholly free block counts as one run of `frag`, which is not part of `frsum`.
#[must_use]
pub fn runs(pattern: u8, frag: u32) -> [u8; 9] {
    let mut out = [0u8; 9];
    let mut len = 0usize;
    for bit in 0..=frag.min(8) {
        if bit < frag && (pattern >> bit) & 1 == 1 {
            len += 1;
        } else {
            if len > 0
                && let Some(n) = out.get_mut(len)
            {
                *n += 1;
            }
            len = 0;
        }
    }
    out
}

/// Bit `n` of a map; `None` beyond its end.
#[must_use]
pub fn bit(map: &[u8], n: u32) -> Option<bool> {
    map.get(n as usize / 8).map(|b| (b >> (n % 8)) & 1 == 1)
}

fn set_bit(b: &mut [u8], map: u32, n: u32, on: bool) {
    if let Some(byte) = b.get_mut(map as usize + n as usize / 8) {
        let mask = 1u8 << (n % 8);
        *byte = if on { *byte | mask } else { *byte & !mask };
    }
}

fn slice(b: &[u8], off: u32, len: u32) -> &[u8] {
    b.get(off as usize..off as usize + len as usize).unwrap_or(&[])
}
