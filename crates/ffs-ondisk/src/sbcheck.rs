//! Validation of superblocks (`spec/on-disk-format.md` §18.1; `spec/known-failures.md` §2.1).
//!
//! [`problems`] lists all problems. [`geometry`] returns the [`Geometry`] if none of them is fatal.
//! fsck and dumpfs use the list, all other callers the geometry.
//!
//! # Invariants
//! 1. No check divides, shifts or multiplies by a field before it has checked the range of that
//!    field.
//! 2. A problem is fatal exactly if the arithmetic of [`Geometry`] relies on the field.
//! 3. Limits are those of the format, not of present tools: unusual but valid volumes pass.

use crate::cg::CgLayout;
use crate::error::Error;
use crate::geometry::{Format, Geometry};
use crate::superblock::{CkHash, SBLOCKSEARCH, SBLOCKSIZE, SbFields, Superblock};
use crate::units::{CgNo, FragNo};
use crate::variant::{Variant, has_old_groups};

/// A problem of a superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The field.
    pub field: &'static str,
    /// Its value.
    pub found: String,
    /// The expected value.
    pub expected: String,
    /// Whether the volume cannot be used.
    pub fatal: bool,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} is {}, expected {}", self.field, self.found, self.expected)
    }
}

/// Rotational positions of 4.2BSD.
const OLD_NRPOS: u32 = 8;

/// The field name under which [`problems`] reports a volume larger than its device.
pub const DEVICE_SIZE: &str = "size * fsize";

/// Collects problems.
struct Checker<'a> {
    f: &'a SbFields,
    out: Vec<Problem>,
}

impl Checker<'_> {
    fn rule(
        &mut self,
        ok: bool,
        field: &'static str,
        found: impl ToString,
        expected: impl ToString,
    ) {
        self.note(ok, field, found, expected, true);
    }

    fn warn(
        &mut self,
        ok: bool,
        field: &'static str,
        found: impl ToString,
        expected: impl ToString,
    ) {
        self.note(ok, field, found, expected, false);
    }

    fn note(
        &mut self,
        ok: bool,
        field: &'static str,
        found: impl ToString,
        expected: impl ToString,
        fatal: bool,
    ) {
        if !ok {
            let (found, expected) = (found.to_string(), expected.to_string());
            self.out.push(Problem { field, found, expected, fatal });
        }
    }

    fn equal(&mut self, field: &'static str, found: i64, want: i64) {
        self.rule(found == want, field, found, want);
    }

    fn fatal(&self) -> bool {
        self.out.iter().any(|p| p.fatal)
    }
}

/// All problems of `sb`. `device_bytes` is the length of the device, if known.
#[must_use]
pub fn problems(sb: &Superblock, device_bytes: Option<u64>) -> Vec<Problem> {
    let mut c = Checker { f: &sb.f, out: Vec::new() };
    check_sizes(&mut c, sb);
    if c.fatal() {
        // The checks below divide by the sizes.
        return c.out;
    }
    check_derived(&mut c, sb);
    check_groups(&mut c, sb);
    if c.fatal() {
        return c.out;
    }
    check_layout(&mut c, sb, device_bytes);
    check_totals(&mut c);
    check_soft(&mut c, sb);
    c.rule(sb.hash_ok(), "ckhash", format!("{:#010x}", sb.f.ckhash), "the check hash of the block");
    c.out
}

/// The geometry of `sb` and the problems that are not fatal, or the first fatal one.
///
/// # Errors
/// The first fatal problem; a wrong check hash comes last.
pub fn verdict(
    sb: &Superblock,
    device_bytes: Option<u64>,
) -> Result<(Geometry, Vec<Problem>), Problem> {
    let mut all = problems(sb, device_bytes);
    match all.iter().position(|p| p.fatal) {
        Some(n) => Err(all.swap_remove(n)),
        None => Ok((build(sb), all)),
    }
}

/// Like [`verdict`], but accepts a wrong check hash (a torn superblock write).
///
/// # Errors
/// The first fatal problem other than the check hash.
pub fn verdict_ignoring_hash(
    sb: &Superblock,
    device_bytes: Option<u64>,
) -> Result<(Geometry, Vec<Problem>), Problem> {
    let mut all = problems(sb, device_bytes);
    all.retain(|p| p.field != "ckhash");
    match all.iter().position(|p| p.fatal) {
        Some(n) => Err(all.swap_remove(n)),
        None => Ok((build(sb), all)),
    }
}

/// The geometry of `sb`.
///
/// # Errors
/// The first fatal problem.
pub fn geometry(sb: &Superblock, device_bytes: Option<u64>) -> Result<Geometry, Error> {
    match verdict(sb, device_bytes) {
        Ok((g, _)) => Ok(g),
        Err(p) => Err(sb.corrupt(p.field, p.found, p.expected)),
    }
}

/// The geometry of `sb`, whose check hash may be wrong (a torn superblock write).
///
/// # Errors
/// The first fatal problem other than the check hash.
pub fn geometry_ignoring_hash(
    sb: &Superblock,
    device_bytes: Option<u64>,
) -> Result<Geometry, Error> {
    match verdict_ignoring_hash(sb, device_bytes) {
        Ok((g, _)) => Ok(g),
        Err(p) => Err(sb.corrupt(p.field, p.found, p.expected)),
    }
}

/// The geometry of a superblock that was checked before.
pub(crate) fn geometry_unchecked(sb: &Superblock) -> Geometry {
    build(sb)
}

/// Whether the block and fragment sizes are valid: the inexpensive part of [`problems`].
#[must_use]
pub fn sizes_ok(sb: &Superblock) -> bool {
    let mut c = Checker { f: &sb.f, out: Vec::new() };
    check_sizes(&mut c, sb);
    !c.fatal()
}

/// Sizes that all other rules need: powers of two within their ranges.
fn check_sizes(c: &mut Checker<'_>, sb: &Superblock) {
    let f = c.f;
    let pow2 = |v: i32| v > 0 && (v & (v - 1)) == 0;
    c.rule(
        pow2(f.bsize) && (4096..=65536).contains(&f.bsize),
        "bsize",
        f.bsize,
        "a power of two from 4096 to 65536",
    );
    c.rule(pow2(f.fsize) && f.fsize >= 512, "fsize", f.fsize, "a power of two from 512");
    c.rule((1..=8).contains(&f.frag) && pow2(f.frag), "frag", f.frag, "1, 2, 4 or 8");
    let product = i64::from(f.fsize).saturating_mul(f.frag.into());
    c.rule(product == i64::from(f.bsize), "fsize * frag", product, f.bsize);
    c.rule(
        (SbFields::SIZE as i32..=SBLOCKSIZE as i32).contains(&f.sbsize) && f.sbsize % 512 == 0,
        "sbsize",
        f.sbsize,
        "a multiple of 512 from 1536 to 8192",
    );
    match sb.format {
        Format::Ufs2 => {
            let known = u64::try_from(f.sblockloc).is_ok_and(|at| SBLOCKSEARCH.contains(&at));
            c.rule(known, "sblockloc", f.sblockloc, "65536, 8192, 0 or 262144");
        }
        Format::Ufs1 => {
            let ok = (0..=8192).contains(&f.sblockloc);
            c.rule(ok, "sblockloc", f.sblockloc, "0 to 8192");
        }
    }
}

/// Fields that depend on the sizes only.
fn check_derived(c: &mut Checker<'_>, sb: &Superblock) {
    let f = c.f;
    let log2 = |v: i32| i64::from(v.trailing_zeros());
    c.equal("bmask", f.bmask.into(), (!(f.bsize - 1)).into());
    c.equal("fmask", f.fmask.into(), (!(f.fsize - 1)).into());
    c.equal("bshift", f.bshift.into(), log2(f.bsize));
    c.equal("fshift", f.fshift.into(), log2(f.fsize));
    c.equal("fragshift", f.fragshift.into(), log2(f.frag));
    let shift = log2(f.fsize) - 9;
    if sb.variant() == Variant::Bsd43 {
        // Some machines of 4.3BSD counted in sectors of 1024 bytes or more.
        let ok = (0..=shift).contains(&i64::from(f.fsbtodb));
        c.rule(ok, "fsbtodb", f.fsbtodb, format!("0 to {shift}"));
    } else {
        c.equal("fsbtodb", f.fsbtodb.into(), shift);
    }
    if f.old_inodefmt >= 2 || sb.format == Format::Ufs2 {
        c.equal("qbmask", f.qbmask, i64::from(f.bsize) - 1);
        c.equal("qfmask", f.qfmask, i64::from(f.fsize) - 1);
    }
    let pointer = sb.format.pointer_size() as i32;
    let dinode = sb.format.dinode_size() as i32;
    c.equal("nindir", f.nindir.into(), (f.bsize / pointer).into());
    c.equal("inopb", f.inopb.into(), (f.bsize / dinode).into());
    let capacity = sb.format.short_symlink_capacity() as i32;
    let old_fmt = sb.format == Format::Ufs1 && f.maxsymlinklen <= 0;
    c.rule(f.maxsymlinklen == capacity || old_fmt, "maxsymlinklen", f.maxsymlinklen, capacity);
    let extents = f.bsize..=f.bsize * 16;
    let max_ok = f.maxbsize == 0 || (f.maxbsize.count_ones() == 1 && extents.contains(&f.maxbsize));
    c.rule(max_ok, "maxbsize", f.maxbsize, "a power of two from bsize to 16 * bsize");
}

/// Group counts and sizes.
fn check_groups(c: &mut Checker<'_>, sb: &Superblock) {
    let f = c.f;
    let (frag, inopb) = (i64::from(f.frag), i64::from(f.bsize) / sb.format.dinode_size() as i64);
    let fpg = i64::from(f.fpg);
    c.rule((1..=i32::MAX as u32).contains(&f.ncg), "ncg", f.ncg, "at least 1");
    c.rule(
        fpg >= 3 * frag && fpg % frag == 0,
        "fpg",
        f.fpg,
        "a multiple of frag, at least 3 blocks",
    );
    let ipg = i64::from(f.ipg);
    c.rule(ipg >= inopb && ipg % inopb == 0, "ipg", f.ipg, format!("a multiple of {inopb}"));
    let inodes = u64::from(f.ipg) * u64::from(f.ncg);
    c.rule(inodes <= (1u64 << 32) - inopb as u64, "ipg * ncg", inodes, "below 2^32 - inopb");
    let ufs1 = sb.format == Format::Ufs1;
    c.rule(f.old_cgoffset >= 0 || !ufs1, "old_cgoffset", f.old_cgoffset, "not negative");
    if ufs1 && f.old_cgoffset > 0 {
        c.rule(!f.old_cgmask >= 0, "old_cgmask", f.old_cgmask, "a mask with the top bit set");
        let turn = i64::from(f.old_cgoffset).saturating_mul((!f.old_cgmask).into());
        c.rule(turn <= fpg, "old_cgoffset * !old_cgmask", turn, format!("at most {fpg}"));
    }
    if ufs1 {
        c.rule((1..=4096).contains(&f.old_cpg), "old_cpg", f.old_cpg, "1 to 4096");
        let old = has_old_groups(f);
        let nrpos = old || (1..=32).contains(&f.old_nrpos);
        c.rule(nrpos, "old_nrpos", f.old_nrpos, "1 to 32");
        if old {
            // The tables of these groups have a fixed size.
            c.rule(f.old_cpg <= 32, "old_cpg", f.old_cpg, "at most 32 with 4.2BSD's groups");
            c.rule(f.ipg <= 2048, "ipg", f.ipg, "at most 2048 with 4.2BSD's groups");
        }
        c.rule(f.ipg <= 32767, "ipg", f.ipg, "at most 32767 on UFS1");
    }
    // 16 even if a group has fewer blocks; four bytes each, and all must fit in the block.
    let most = (f.fpg / f.frag.max(1)).clamp(16, f.bsize / 4 - 1);
    let clusters = f.contigsumsize;
    // Before 4.4BSD the field was a spare or part of a table.
    let none = clusters < 0 && sb.variant() == Variant::Bsd43;
    c.rule(
        none || (0..=most).contains(&clusters),
        "contigsumsize",
        clusters,
        format!("0 to {most}"),
    );
}

/// The layout of a group, and the length of the volume.
fn check_layout(c: &mut Checker<'_>, sb: &Superblock, device_bytes: Option<u64>) {
    let f = c.f;
    let g = build(sb);
    let frag = i64::from(f.frag);
    let blocks_of = |bytes: i64| {
        let frags = (bytes + i64::from(f.fsize) - 1) / i64::from(f.fsize);
        (frags + frag - 1) / frag * frag
    };
    let sblkno = blocks_of(f.sblockloc + SBLOCKSIZE as i64);
    // Every UFS1 newfs reserves space for a superblock at 8192, for any block size.
    let usual = sb.format == Format::Ufs1 && i64::from(f.sblkno) == blocks_of(16384);
    c.rule(i64::from(f.sblkno) == sblkno || usual, "sblkno", f.sblkno, sblkno);
    let cblkno = i64::from(f.sblkno).saturating_add(blocks_of(SBLOCKSIZE as i64));
    c.equal("cblkno", f.cblkno.into(), cblkno);
    c.equal("iblkno", f.iblkno.into(), cblkno + frag);
    let inode_blocks = i64::from(f.ipg) / i64::from(f.inopb);
    c.equal("dblkno", f.dblkno.into(), i64::from(f.iblkno) + inode_blocks * frag);
    let turn = u64::from(g.cgoffset) * u64::from(g.cgmask_not.min(g.ncg - 1));
    let last_frag = u64::try_from(f.dblkno).unwrap_or(u64::MAX).saturating_add(turn);
    let in_group = last_frag <= u64::from(g.fpg);
    c.rule(in_group, "dblkno", f.dblkno, format!("at most fpg {} with rotation {turn}", f.fpg));
    if !c.fatal() {
        check_size(c, &g, device_bytes);
    }
    if !c.fatal() {
        check_summary_area(c, &g);
        check_cgsize(c, &g);
    }
}

/// The length of the volume.
fn check_size(c: &mut Checker<'_>, g: &Geometry, device_bytes: Option<u64>) {
    let (fpg, ncg) = (u64::from(g.fpg), u64::from(g.ncg));
    let (low, high) = ((ncg - 1) * fpg, ncg * fpg);
    let size = g.size;
    let low = low + 1;
    let least = 8 * u64::from(g.frag);
    c.rule(size >= least, "size", c.f.size, format!("at least {least}"));
    c.rule((low..=high).contains(&size), "size", c.f.size, format!("{low} to {high}"));
    let addresses = match g.format {
        Format::Ufs1 => i32::MAX as u64,
        Format::Ufs2 => i64::MAX as u64 / u64::from(g.fsize),
    };
    c.rule(size <= addresses, "size", c.f.size, format!("at most {addresses}"));
    let metadata_end = g.cgdmin(CgNo(g.ncg - 1)).0;
    c.rule(metadata_end <= size, "size", c.f.size, format!("at least {metadata_end}"));
    if let Some(dev) = device_bytes {
        let bytes = size.saturating_mul(g.fsize.into());
        let want = format!("at most the {dev} bytes of the device");
        c.rule(bytes <= dev, DEVICE_SIZE, bytes, want);
    }
}

/// The group's block is large enough for its header and maps.
fn check_cgsize(c: &mut Checker<'_>, g: &Geometry) {
    let (fsize, bsize) = (g.fsize, g.bsize);
    let ok = (fsize..=bsize).contains(&g.cgsize) && g.cgsize.is_multiple_of(fsize);
    c.rule(ok, "cgsize", c.f.cgsize, format!("a multiple of {fsize} up to {bsize}"));
    let maps = CgLayout::of(g).nextfreeoff;
    c.rule(maps <= g.cgsize, "cgsize", c.f.cgsize, format!("at least {maps}"));
}

/// The summary area: large enough, in one group, within the volume.
fn check_summary_area(c: &mut Checker<'_>, g: &Geometry) {
    let f = c.f;
    let need = g.fragroundup(u64::from(f.ncg) * 16);
    c.rule(f.cssize > 0 && need == f.cssize as u64, "cssize", f.cssize, need);
    let Ok(at) = u64::try_from(f.csaddr) else {
        c.rule(false, "csaddr", f.csaddr, "not negative");
        return;
    };
    let cg = g.dtog(FragNo(at));
    let end = at.saturating_add(need / u64::from(g.fsize));
    let ok = cg.0 < f.ncg && FragNo(at) >= g.cgdmin(cg) && end <= g.size;
    c.rule(ok, "csaddr", f.csaddr, format!("the data area of a group, ending by {}", g.size));
    let one_group = end > at && g.dtog(FragNo(end.saturating_sub(1))) == cg;
    c.rule(one_group, "csaddr", f.csaddr, "a summary area inside one group");
}

/// Totals that are summed later.
fn check_totals(c: &mut Checker<'_>) {
    let f = c.f;
    let inodes = i64::from(f.ipg) * i64::from(f.ncg);
    let [ndir, nbfree, nifree, nffree, _] = f.cstotal;
    c.warn((0..=inodes).contains(&nifree), "cstotal.nifree", nifree, format!("0 to {inodes}"));
    let dirs = inodes.saturating_sub(nifree.clamp(0, inodes));
    c.warn((0..=dirs).contains(&ndir), "cstotal.ndir", ndir, format!("0 to {dirs}"));
    let blocks = f.size / i64::from(f.frag);
    c.warn((0..=blocks).contains(&nbfree), "cstotal.nbfree", nbfree, format!("0 to {blocks}"));
    c.warn((0..=f.size).contains(&nffree), "cstotal.nffree", nffree, format!("0 to {}", f.size));
}

/// Fields with a safe substitute.
fn check_soft(c: &mut Checker<'_>, sb: &Superblock) {
    let f = c.f;
    c.warn((0..=99).contains(&f.minfree), "minfree", f.minfree, "0 to 99");
    c.warn((0..=1).contains(&f.optim), "optim", f.optim, "0 or 1");
    let half = i64::from(f.fpg / 2);
    let meta = sb.netbsd.wapbl || (0..=half).contains(&f.metaspace);
    c.warn(meta, "metaspace", f.metaspace, format!("0 to {half}"));
    c.warn((0..=f.size).contains(&f.dsize), "dsize", f.dsize, format!("0 to {}", f.size));
    let most = max_file_size(f.bsize as u64, f.nindir as u64);
    let exact = f.maxfilesize == most || !sb.variant().is_writable();
    c.warn(exact, "maxfilesize", f.maxfilesize, most);
    c.warn((0..=256).contains(&f.maxcontig), "maxcontig", f.maxcontig, "0 to 256");
    c.warn(f.maxbpg > 0, "maxbpg", f.maxbpg, "at least 1");
}

/// The largest file that the block map can address: 12 + n + n² + n³ blocks, less one byte
/// (`spec/on-disk-format.md` §3).
#[must_use]
pub fn max_file_size(bsize: u64, nindir: u64) -> u64 {
    let (b, n) = (u128::from(bsize), u128::from(nindir));
    let size = 12 * b - 1 + b * (n + n * n + n * n * n);
    u64::try_from(size).unwrap_or(u64::MAX).min(i64::MAX as u64)
}

/// Copies the fields into a geometry. The sizes must have been checked.
fn build(sb: &Superblock) -> Geometry {
    let f = &sb.f;
    let u = |v: i32| u32::try_from(v).unwrap_or(0);
    let u64_ = |v: i64| u64::try_from(v).unwrap_or(0);
    let ufs1 = sb.format == Format::Ufs1;
    let addressable = max_file_size(f.bsize as u64, f.nindir as u64);
    let limit = if ufs1 {
        // UFS1 addresses blocks with 31 bits (`spec/on-disk-format.md` §3.4).
        addressable.min(0x8000_0000 * u64_(f.bsize.into()) - 1)
    } else {
        addressable
    };
    let variant = sb.variant();
    // The stored value follows from the block size except on volumes of 4.4BSD from before
    // FreeBSD 5: a wrong one is only a warning. Earlier systems did not store it.
    let maxfilesize = match variant {
        Variant::Bsd43 if f.old_inodefmt < 2 => limit.min(i32::MAX as u64),
        Variant::Bsd44 if sb.old_layout => f.maxfilesize.min(limit).max(u64_(f.bsize.into())),
        _ => limit,
    };
    let old_groups = ufs1 && has_old_groups(f);
    let half = i64::from(f.fpg / 2);
    let metaspace = if sb.netbsd.wapbl { 0 } else { f.metaspace.clamp(0, half) };
    let metaspace = u(i32::try_from(metaspace).unwrap_or(0));
    let metaspace = metaspace - metaspace % u(f.frag).max(1);
    Geometry {
        format: sb.format,
        endian: sb.endian,
        bsize: u(f.bsize),
        fsize: u(f.fsize),
        frag: u(f.frag),
        ncg: f.ncg,
        fpg: u(f.fpg),
        ipg: f.ipg,
        size: u64_(f.size),
        dsize: u64_(f.dsize).min(u64_(f.size)),
        nindir: u(f.nindir),
        inopb: f.inopb,
        sblkno: u(f.sblkno),
        cblkno: u(f.cblkno),
        iblkno: u(f.iblkno),
        dblkno: u(f.dblkno),
        cgoffset: if ufs1 { u(f.old_cgoffset) } else { 0 },
        cgmask_not: if ufs1 { !f.old_cgmask as u32 } else { 0 },
        csaddr: FragNo(u64_(f.csaddr)),
        cssize: u(f.cssize),
        cgsize: u(f.cgsize),
        contigsumsize: if old_groups { 0 } else { u(f.contigsumsize) },
        old_cpg: if ufs1 { u(f.old_cpg) } else { 0 },
        old_nrpos: if old_groups {
            OLD_NRPOS
        } else if ufs1 {
            u(f.old_nrpos)
        } else {
            0
        },
        metaspace,
        maxfilesize,
        maxsymlinklen: u(f.maxsymlinklen),
        old_ids: ufs1 && f.old_inodefmt < 2,
        ckhash: sb.ckhashes() & CkHash::all(),
        old_layout: sb.old_layout,
        variant,
        old_groups,
    }
}
