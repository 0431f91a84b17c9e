//! How a volume will be cut into cylinder groups (`spec/on-disk-format.md` §17.1).
//!
//! **Purpose.** [`plan`] is newfs' arithmetic and nothing else: same options and size, same plan. It is what
//! `newfs -N` shows and what the table of FreeBSD's own results is compared with.
//!
//! **Invariants.**
//! 1. The work is bounded by the format, not by the numbers asked for: see [`cut`].
//! 2. A plan may still describe a volume that cannot exist (more fragments than UFS1 can address, a
//!    summary area larger than group 0): FreeBSD computes those too. [`super::newfs`] refuses them before
//!    it writes.

use ffs_ondisk::Format;
use ffs_ondisk::superblock::{SBLOCKSIZE, SbFields};

use super::cut::{Cut, cut};
use super::options::{
    FS_MAXCONTIG, Generation, MAXBSIZE, MAXFRAG, MINBSIZE, MINFREE, NewfsOptions, Optim,
    label_problem,
};
use super::plan4;
use crate::AdminError;

/// Byte offset of a UFS1 superblock.
const SBLOCK_UFS1: u64 = 8192;
/// Byte offset of a UFS2 superblock.
const SBLOCK_UFS2: u64 = 65536;

/// The numbers of a volume to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Format.
    pub format: Format,
    /// Block size, bytes.
    pub bsize: u32,
    /// Fragment size, bytes.
    pub fsize: u32,
    /// Fragments per block.
    pub frag: u32,
    /// Total fragments.
    pub size: u64,
    /// Bytes the volume was given, a multiple of 512; the last few may be too few for a fragment.
    pub bytes: u64,
    /// Fragments of the whole device.
    pub provider_size: u64,
    /// Bytes of data per inode that were aimed at.
    pub density: u64,
    /// Cylinder groups.
    pub ncg: u64,
    /// Fragments per group.
    pub fpg: u64,
    /// Inodes per group.
    pub ipg: u64,
    /// Byte offset of the superblock.
    pub sblockloc: u64,
    /// Fragment of the backup superblock in a group.
    pub sblkno: u64,
    /// Fragment of the group's own block.
    pub cblkno: u64,
    /// Fragment of the first inode block.
    pub iblkno: u64,
    /// First data fragment after the metadata.
    pub dblkno: u64,
    /// Bytes of a group's block that are used.
    pub cgsize: u64,
    /// Bytes of the summary area.
    pub cssize: u64,
    /// Bytes of the superblock that are written.
    pub sbsize: u32,
    /// Fragments of a group kept for metadata.
    pub metaspace: u64,
    /// Data fragments.
    pub dsize: u64,
    /// Most blocks in one transfer.
    pub maxcontig: u32,
    /// Entries of the cluster summary.
    pub contigsumsize: u32,
    /// Largest extent, bytes.
    pub maxbsize: u32,
    /// Most blocks of one file per group.
    pub maxbpg: u32,
    /// Percent kept for root.
    pub minfree: u32,
    /// What is optimised.
    pub optim: Optim,
    /// What was not done as asked, in sentences for the user.
    pub notes: Vec<String>,
}

/// Cuts a device of `device_bytes` bytes with sectors of `sector_size` bytes into groups.
///
/// # Errors
/// An option out of range, or a size that holds no file system.
pub fn plan(opts: &NewfsOptions, device_bytes: u64, sector_size: u32) -> Result<Plan, AdminError> {
    check_options(opts)?;
    let bytes = usable_bytes(opts, device_bytes)?;
    let mut notes = Vec::new();
    let (mut wanted_b, mut wanted_f) = wanted_sizes(opts, sector_size);
    loop {
        let frame = Frame::new(opts, (wanted_b, wanted_f), bytes, sector_size, &mut notes)?;
        let cut = match opts.generation {
            Generation::Freebsd4 => Some(plan4::cut(&frame, opts)?),
            _ => cut(&frame, opts, wanted_f, &mut notes)?,
        };
        if let Some(cut) = cut {
            let plan = finish(&frame, &cut, opts, sector_size, notes);
            return Ok(Plan { bytes, provider_size: device_bytes / frame.fsize, ..plan });
        }
        // The volume has more fragments than there are inode numbers to go with them.
        wanted_b = wanted_b.saturating_mul(2);
        wanted_f = wanted_f.saturating_mul(2);
        if wanted_b > MAXBSIZE {
            let why = "too large: with the largest blocks there are still too few inode numbers";
            return Err(AdminError::Size(format!("{bytes} bytes: {why}")));
        }
        notes.push(format!("block size too small for a volume of this size: now {wanted_b}"));
    }
}

fn check_options(opts: &NewfsOptions) -> Result<(), AdminError> {
    let rule = |ok: bool, option, why: &str| {
        if ok { Ok(()) } else { Err(AdminError::option(option, why)) }
    };
    rule(!opts.journal, "-j", "not supported: soft-updates journals cannot be made")?;
    rule(opts.minfree <= 99, "-m", "a percentage from 0 to 99")?;
    rule(opts.avgfilesize >= 1, "-g", "at least 1")?;
    rule(opts.avgfpdir >= 1, "-h", "at least 1")?;
    rule(opts.density != Some(0), "-i", "at least 1")?;
    rule((1..=256).contains(&opts.maxcontig.unwrap_or(1)), "-a", "from 1 to 256")?;
    rule(opts.maxbpg != Some(0), "-e", "at least 1")?;
    rule(opts.max_group != Some(0), "-c", "at least 1")?;
    let wide = [opts.avgfilesize, opts.avgfpdir, opts.density.unwrap_or(1)];
    let counts = [opts.maxcontig, opts.maxbpg, opts.max_group, opts.metaspace];
    let all = wide.into_iter().chain(counts.into_iter().flatten());
    for value in all {
        rule(value <= i32::MAX as u32, "-a, -c, -e, -g, -h, -i, -k", "at most 2147483647")?;
    }
    rule(
        opts.generation != Generation::Freebsd4 || opts.format() == Format::Ufs1,
        "-O",
        "FreeBSD 4 knew UFS1 only",
    )?;
    match opts.label.as_deref().and_then(label_problem) {
        Some(why) => Err(AdminError::option("-L", why)),
        None => Ok(()),
    }
}

/// Bytes the volume may take, whole sectors.
fn usable_bytes(opts: &NewfsOptions, device_bytes: u64) -> Result<u64, AdminError> {
    let bytes = opts.size.unwrap_or(device_bytes);
    if bytes > device_bytes {
        let why = format!(
            "{bytes} bytes are wanted, the image has {device_bytes}: make it larger first (truncate -s {bytes}), or \
             leave -s away"
        );
        return Err(AdminError::option("-s", why));
    }
    let bytes = match opts.size {
        Some(_) => bytes.min(device_bytes.saturating_sub(opts.reserved)),
        None => bytes.saturating_sub(opts.reserved),
    };
    Ok(bytes / 512 * 512)
}

/// Block and fragment size as asked for or by default.
fn wanted_sizes(opts: &NewfsOptions, sector_size: u32) -> (u32, u32) {
    let (bsize, fsize) = opts.default_sizes();
    let fsize = opts.fsize.unwrap_or(fsize.max(sector_size));
    (opts.bsize.unwrap_or(bsize.min(fsize.saturating_mul(MAXFRAG))), fsize)
}

/// What follows from the sizes, before groups are cut.
pub(super) struct Frame {
    pub(super) format: Format,
    pub(super) bsize: u64,
    pub(super) fsize: u64,
    pub(super) frag: u64,
    pub(super) inopb: u64,
    pub(super) size: u64,
    pub(super) sblkno: u64,
    pub(super) cblkno: u64,
    pub(super) iblkno: u64,
    maxbsize: u32,
    maxcontig: u32,
    pub(super) contigsumsize: u64,
}

impl Frame {
    pub(super) fn new(
        opts: &NewfsOptions,
        wanted: (u32, u32),
        bytes: u64,
        sector_size: u32,
        notes: &mut Vec<String>,
    ) -> Result<Frame, AdminError> {
        let (bsize, fsize) = fit_sizes(wanted, sector_size, notes)?;
        let format = opts.format();
        let frag = bsize / fsize;
        let (maxbsize, maxcontig) = transfer_sizes(opts, bsize, notes);
        let contigsumsize = if maxcontig > 1 { maxcontig.min(FS_MAXCONTIG) } else { 0 };
        let (fsize, frag) = (u64::from(fsize), u64::from(frag));
        let blocks = |bytes: u64| bytes.div_ceil(fsize).next_multiple_of(frag);
        let sblkno = blocks(sblockloc(format) + SBLOCKSIZE as u64);
        let cblkno = sblkno + blocks(SBLOCKSIZE as u64);
        Ok(Frame {
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

    /// Inodes per fragment times `frag`: fragments that hold `ipg` inodes.
    pub(super) fn inode_frags(&self, ipg: u64) -> u64 {
        ipg / self.inopb * self.frag
    }

    /// Fragments below which a group cannot exist: its metadata.
    pub(super) fn metadata_frags(&self, ipg: u64) -> u64 {
        (self.iblkno + self.inode_frags(ipg)).next_multiple_of(self.frag)
    }

    /// Bytes of a group's block, `CGSIZE`, with `header` bytes before the maps.
    pub(super) fn cg_bytes(&self, header: u64, cylinders: u64, fpg: u64, ipg: u64) -> u64 {
        let clusters = match self.contigsumsize {
            0 => 0,
            n => 4 * n + (fpg / self.frag).div_ceil(8),
        };
        header + 4 + 6 * cylinders + ipg.div_ceil(8) + fpg.div_ceil(8) + clusters
    }

    /// Cylinders per group as the superblock will count them.
    pub(super) fn cylinders(&self) -> u64 {
        match self.format {
            Format::Ufs1 => 1,
            Format::Ufs2 => 0,
        }
    }
}

/// Byte offset of the superblock.
fn sblockloc(format: Format) -> u64 {
    match format {
        Format::Ufs1 => SBLOCK_UFS1,
        Format::Ufs2 => SBLOCK_UFS2,
    }
}

/// Moves the sizes into the ranges the format has.
fn fit_sizes(
    (mut bsize, mut fsize): (u32, u32),
    sector_size: u32,
    notes: &mut Vec<String>,
) -> Result<(u32, u32), AdminError> {
    for (option, value) in [("-b", bsize), ("-f", fsize)] {
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

/// Largest extent in bytes and most blocks in one transfer.
fn transfer_sizes(opts: &NewfsOptions, bsize: u32, notes: &mut Vec<String>) -> (u32, u32) {
    let maxbsize = match opts.max_extent {
        None => bsize,
        Some(n) if n != bsize && opts.format() == Format::Ufs1 => {
            // A different size is the mark of a UFS1 superblock without 64-bit fields
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
    let by_default = match opts.generation {
        Generation::Freebsd4 => (128 * 1024 / bsize).saturating_sub(1),
        Generation::Freebsd10 => 128 * 1024 / bsize,
        Generation::Today => 1024 * 1024 / bsize,
    };
    let mut maxcontig = opts.maxcontig.unwrap_or(by_default.max(1));
    if maxcontig < maxbsize / bsize {
        maxcontig = maxbsize / bsize;
        notes.push(format!("maxcontig raised to {maxcontig}"));
    }
    (maxbsize, maxcontig)
}

/// Everything that follows from the groups.
fn finish(
    f: &Frame,
    cut: &Cut,
    opts: &NewfsOptions,
    sector_size: u32,
    mut notes: Vec<String>,
) -> Plan {
    let up = |bytes: u64| bytes.next_multiple_of(f.fsize);
    let header = if opts.generation == Generation::Today { 168 } else { 176 };
    let ncg = cut.size.div_ceil(cut.fpg);
    let dblkno = f.iblkno + f.inode_frags(cut.ipg);
    let cssize = up(ncg * 16);
    let blknum = |frags: u64| frags - frags % f.frag;
    let metaspace = match opts.metaspace.map(u64::from) {
        _ if opts.generation == Generation::Freebsd4 => 0,
        Some(0) => 0,
        Some(n) if n < cut.fpg / 2 => blknum(n),
        _ => blknum(cut.fpg * u64::from(opts.minfree) / 200),
    };
    let optim = match opts.optim {
        Some(Optim::Time) | None if opts.minfree < MINFREE => {
            notes.push(format!("optimising for space because minfree is less than {MINFREE}%"));
            Optim::Space
        }
        other => other.unwrap_or_default(),
    };
    let share = if opts.generation == Generation::Freebsd4 { 4 } else { 8 };
    let mut sbsize = up(SbFields::SIZE as u64).min(SBLOCKSIZE as u64) as u32;
    if opts.generation == Generation::Today {
        sbsize = sbsize.max(sector_size).min(SBLOCKSIZE as u32);
    }
    let metadata = f.sblkno + ncg * (dblkno - f.sblkno) + cssize / f.fsize;
    Plan {
        format: f.format,
        bsize: f.bsize as u32,
        fsize: f.fsize as u32,
        frag: f.frag as u32,
        size: cut.size,
        bytes: cut.size * f.fsize,
        provider_size: f.size,
        density: cut.density,
        ncg,
        fpg: cut.fpg,
        ipg: cut.ipg,
        sblockloc: sblockloc(f.format),
        sblkno: f.sblkno,
        cblkno: f.cblkno,
        iblkno: f.iblkno,
        dblkno,
        cgsize: up(f.cg_bytes(header, f.cylinders(), cut.fpg, cut.ipg)),
        cssize,
        sbsize,
        metaspace,
        dsize: cut.size.saturating_sub(metadata),
        maxcontig: f.maxcontig,
        contigsumsize: f.contigsumsize as u32,
        maxbsize: f.maxbsize,
        maxbpg: opts.maxbpg.unwrap_or((f.bsize / share) as u32),
        minfree: opts.minfree,
        optim,
        notes,
    }
}
