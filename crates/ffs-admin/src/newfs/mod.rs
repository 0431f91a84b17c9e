//! Makes file systems: BSD's `newfs`.
//!
//! **Purpose.** [`plan`] computes what FreeBSD's newfs would, [`newfs`] writes it. With
//! [`NewfsOptions::reproducible`] the result equals FreeBSD's own byte for byte.
//!
//! **Invariants.**
//! 1. Nothing is written before the whole plan, validated by the format's own checks, is known to be
//!    possible.
//! 2. Time and random numbers come from the caller.
//! 3. As in BSD an existing file system is not asked about: whoever calls may look first.
//!
//! References: `spec/on-disk-format.md` §17.

mod cut;
mod enough;
mod fields;
mod group;
mod numbers;
mod options;
mod plan;
mod plan4;
mod tree;
mod wipe;
mod write;

use ffs_device::{BlockDevice, Clock, ManualClock, MemDevice, Rng, SplitMix64, Timestamp};
use ffs_ondisk::{CgNo, Endian, Format, Geometry, Superblock, sbcheck};

pub use options::{Generation, MAXVOLLEN, MINFREE, NewfsOptions, Optim, label_problem};
pub use plan::{Plan, plan};

use crate::AdminError;
use numbers::Numbers;
use write::{Groups, Maker};

/// The time of every reproducible volume, seconds.
const REPRODUCIBLE_TIME: i64 = 1_000_000_000;

/// What was made, or with `-N` would have been.
#[derive(Clone, Debug)]
pub struct NewfsReport {
    /// The numbers it was made by, and notes for the user.
    pub plan: Plan,
    /// The superblock.
    pub superblock: Superblock,
    /// Its geometry.
    pub geometry: Geometry,
}

impl NewfsReport {
    /// Places of the backup superblocks in 512-byte sectors, as `fsck -b` wants them.
    pub fn backup_sectors(&self) -> impl Iterator<Item = u64> + '_ {
        let g = &self.geometry;
        (0..g.ncg).map(|c| g.frag_to_byte(g.cgsblock(CgNo(c))) / 512)
    }
}

/// Makes a file system on `dev`; `progress` hears the groups done and the groups in all.
///
/// # Errors [`AdminError::Option`] and [`AdminError::Size`] before anything is written,
/// [`AdminError::Device`] later: the device then carries the mark of an unfinished newfs.
pub fn newfs(
    dev: &dyn BlockDevice,
    opts: &NewfsOptions,
    clock: &dyn Clock,
    rng: &dyn Rng,
    progress: &mut dyn FnMut(u32, u32),
) -> Result<NewfsReport, AdminError> {
    let numbers = if opts.reproducible { Numbers::Counted(0) } else { Numbers::Drawn(rng) };
    let now = if opts.reproducible { REPRODUCIBLE_TIME } else { clock.now().secs };
    make(dev, opts, now, numbers, opts.reproducible, progress)
}

/// [`newfs`] with everything decided: time, numbers, and whether bytes nobody reads are as FreeBSD leaves
/// them.
fn make(
    dev: &dyn BlockDevice,
    opts: &NewfsOptions,
    now: i64,
    mut numbers: Numbers<'_>,
    residue: bool,
    progress: &mut dyn FnMut(u32, u32),
) -> Result<NewfsReport, AdminError> {
    let device = (dev.len_bytes(), dev.sector_size());
    let number = numbers.next();
    let designed = design(device, opts, now, number).map_err(|error| {
        enough::explain(error, opts, device.0, |opts, bytes| {
            design((bytes, device.1), opts, now, number).is_ok()
        })
    });
    let (report, groups) = designed?;
    let (g, sb) = (report.geometry, report.superblock.clone());
    if opts.dry_run {
        return Ok(report);
    }
    let initial = fields::initial_totals(&report.plan);
    let maker = Maker { dev, opts, g, sb, initial, now, numbers, residue, groups };
    maker.write(report.plan.bytes, progress)?;
    Ok(report)
}

/// Everything about the volume but its bytes, for a device of so many bytes and bytes a sector.
fn design(
    device: (u64, u32),
    opts: &NewfsOptions,
    now: i64,
    number: u32,
) -> Result<(NewfsReport, Groups), AdminError> {
    let plan = plan(opts, device.0, device.1)?;
    let mut sb = fields::superblock(&plan, opts, now, number)?;
    // The check hash is computed when a copy is encoded.
    let g = sbcheck::geometry_ignoring_hash(&sb, Some(device.0)).map_err(fields::refused)?;
    let groups = Groups::build(&g, opts, now)?;
    sb.set_cstotal(groups.totals(&g));
    Ok((NewfsReport { superblock: sb, geometry: g, plan }, groups))
}

/// A small volume in memory for tests: made by today's rules at a fixed time from a fixed seed.
///
/// # Errors
/// As [`newfs`].
pub fn quick(
    endian: Endian,
    format: Format,
    bsize: u32,
    fsize: u32,
    bytes: u64,
) -> Result<MemDevice, AdminError> {
    let dev = MemDevice::new(bytes);
    let opts = NewfsOptions {
        endian,
        format: Some(format),
        bsize: Some(bsize),
        fsize: Some(fsize),
        ..NewfsOptions::default()
    };
    let clock = ManualClock::new(Timestamp::new(REPRODUCIBLE_TIME, 0));
    newfs(&dev, &opts, &clock, &SplitMix64::new(1), &mut |_, _| {})?;
    Ok(dev)
}

#[cfg(test)]
mod tests;
