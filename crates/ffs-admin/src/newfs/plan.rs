//! Parameters of a new volume (`spec/on-disk-format.md` §17.1).
//!
//! **Purpose.** [`plan`] is the arithmetic of newfs; the same options and size yield the same plan.
//! `newfs -N` shows the plan, and a test compares it with FreeBSD's results.
//!
//! **Invariants.**
//! 1. The amount of work does not depend on the values of the options: see [`groupsize`].
//! 2. A plan may describe a volume that cannot exist (more fragments than UFS1 can address, a
//!    summary area larger than group 0), because FreeBSD computes those too. [`super::newfs`]
//!    refuses them before it writes.
//!
//! [`groupsize`]: super::groupsize

use ffs_ondisk::Format;
use ffs_ondisk::superblock::{SBLOCKSIZE, SbFields};

use super::basesizes::{BaseSizes, sblockloc};
use super::freebsd4;
use super::groupsize::{GroupSize, size_groups};
use super::options::{MAXBSIZE, MAXFRAG, MINFREE, NewfsOptions, Optim, Release, label_problem};
use crate::AdminError;

/// Parameters of a new volume.
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
    /// Notes for the user about options that were changed.
    pub notes: Vec<String>,
}

/// Plans a volume on a device of `device_bytes` bytes with sectors of `sector_size` bytes.
///
/// # Errors
/// An option out of range, or a size that holds no file system.
pub fn plan(opts: &NewfsOptions, device_bytes: u64, sector_size: u32) -> Result<Plan, AdminError> {
    check_options(opts)?;
    let sector_size = used_sector_size(opts, sector_size)?;
    let bytes = usable_bytes(opts, device_bytes)?;
    let mut notes = Vec::new();
    let (mut wanted_b, mut wanted_f) = wanted_sizes(opts, sector_size);
    loop {
        let frame = BaseSizes::new(opts, (wanted_b, wanted_f), bytes, sector_size, &mut notes)?;
        let groups = match opts.release {
            Release::Freebsd4 => Some(freebsd4::size_groups(&frame, opts)?),
            _ => size_groups(&frame, opts, wanted_f, &mut notes)?,
        };
        if let Some(groups) = groups {
            let plan = finish(&frame, &groups, opts, sector_size, notes);
            return Ok(Plan { bytes, provider_size: device_bytes / frame.fsize, ..plan });
        }
        // There are more fragments than inode numbers for them.
        wanted_b = wanted_b.saturating_mul(2);
        wanted_f = wanted_f.saturating_mul(2);
        if wanted_b > MAXBSIZE {
            let why = "too large: even with the largest blocks there are too few inode numbers";
            return Err(AdminError::Size(format!("{bytes} bytes: {why}")));
        }
        notes.push(format!("block size too small for a volume of this size: now {wanted_b}"));
    }
}

fn check_options(opts: &NewfsOptions) -> Result<(), AdminError> {
    let rule = |ok: bool, option, why: &str| {
        if ok { Ok(()) } else { Err(AdminError::option(option, why)) }
    };
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
        opts.release != Release::Freebsd4 || opts.format() == Format::Ufs1,
        "-O",
        "FreeBSD 4 knew UFS1 only",
    )?;
    match opts.label.as_deref().and_then(label_problem) {
        Some(why) => Err(AdminError::option("-L", why)),
        None => Ok(()),
    }
}

/// Bytes that the volume may use, in whole sectors.
fn usable_bytes(opts: &NewfsOptions, device_bytes: u64) -> Result<u64, AdminError> {
    let bytes = opts.size.unwrap_or(device_bytes);
    if bytes > device_bytes {
        let why = format!(
            "{bytes} bytes are wanted, the image has {device_bytes}: make it larger first \
             (truncate -s {bytes}), or leave -s away"
        );
        return Err(AdminError::option("-s", why));
    }
    if opts.reserved > 0 && opts.reserved >= device_bytes {
        let why = format!("{} bytes are all of the {device_bytes} there are", opts.reserved);
        return Err(AdminError::option("-r", format!("{why}: leave less at the end")));
    }
    let bytes = match opts.size {
        Some(_) => bytes.min(device_bytes.saturating_sub(opts.reserved)),
        None => bytes.saturating_sub(opts.reserved),
    };
    let sector = u64::from(opts.sector_size.unwrap_or(512));
    Ok(bytes / sector * sector)
}

/// The sector size that the volume is made for, on a device with sectors of `device` bytes.
fn used_sector_size(opts: &NewfsOptions, device: u32) -> Result<u32, AdminError> {
    let Some(size) = opts.sector_size else { return Ok(device) };
    // A fragment has at least one sector.
    if !size.is_power_of_two() || !(512..=MAXBSIZE).contains(&size) {
        let why = format!("{size}: a power of two from 512 to {MAXBSIZE}");
        return Err(AdminError::option("-S", why));
    }
    if size < device {
        let why = format!("{size}: the device has sectors of {device} bytes");
        return Err(AdminError::option("-S", why));
    }
    Ok(size)
}

/// Block and fragment size from the options or by default.
fn wanted_sizes(opts: &NewfsOptions, sector_size: u32) -> (u32, u32) {
    let (bsize, fsize) = opts.default_sizes();
    let fsize = opts.fsize.unwrap_or(fsize.max(sector_size));
    (opts.bsize.unwrap_or(bsize.min(fsize.saturating_mul(MAXFRAG))), fsize)
}

/// The plan that follows from the groups.
fn finish(
    f: &BaseSizes,
    groups: &GroupSize,
    opts: &NewfsOptions,
    sector_size: u32,
    mut notes: Vec<String>,
) -> Plan {
    let up = |bytes: u64| bytes.next_multiple_of(f.fsize);
    let header = if opts.release == Release::Current { 168 } else { 176 };
    let ncg = groups.size.div_ceil(groups.fpg);
    let dblkno = f.iblkno + f.inode_frags(groups.ipg);
    let cssize = up(ncg * 16);
    let blknum = |frags: u64| frags - frags % f.frag;
    let metaspace = match opts.metaspace.map(u64::from) {
        _ if opts.release == Release::Freebsd4 => 0,
        Some(0) => 0,
        Some(n) if n < groups.fpg / 2 => blknum(n),
        _ => blknum(groups.fpg * u64::from(opts.minfree) / 200),
    };
    let optim = match opts.optim {
        Some(Optim::Time) | None if opts.minfree < MINFREE => {
            notes.push(format!("optimising for space because minfree is less than {MINFREE}%"));
            Optim::Space
        }
        other => other.unwrap_or_default(),
    };
    let share = if opts.release == Release::Freebsd4 { 4 } else { 8 };
    let mut sbsize = up(SbFields::SIZE as u64).min(SBLOCKSIZE as u64) as u32;
    if opts.release == Release::Current {
        sbsize = sbsize.max(sector_size).min(SBLOCKSIZE as u32);
    }
    let metadata = f.sblkno + ncg * (dblkno - f.sblkno) + cssize / f.fsize;
    Plan {
        format: f.format,
        bsize: f.bsize as u32,
        fsize: f.fsize as u32,
        frag: f.frag as u32,
        size: groups.size,
        bytes: groups.size * f.fsize,
        provider_size: f.size,
        density: groups.density,
        ncg,
        fpg: groups.fpg,
        ipg: groups.ipg,
        sblockloc: sblockloc(f.format),
        sblkno: f.sblkno,
        cblkno: f.cblkno,
        iblkno: f.iblkno,
        dblkno,
        cgsize: up(f.cg_bytes(header, f.cylinders(), groups.fpg, groups.ipg)),
        cssize,
        sbsize,
        metaspace,
        dsize: groups.size.saturating_sub(metadata),
        maxcontig: f.maxcontig,
        contigsumsize: f.contigsumsize as u32,
        maxbsize: f.maxbsize,
        maxbpg: opts.maxbpg.unwrap_or((f.bsize / share) as u32),
        minfree: opts.minfree,
        optim,
        notes,
    }
}
