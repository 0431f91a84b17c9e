//! Makes file systems: BSD's `newfs`.
//!
//! **Purpose.** [`plan()`] computes the parameters that FreeBSD's newfs would choose, [`newfs`]
//! writes the volume. With [`NewfsOptions::reproducible`] the result equals FreeBSD's byte for
//! byte.
//!
//! **Invariants.**
//! 1. Nothing is written before the whole plan has been validated by the checks of the format.
//! 2. Time and random numbers come from the caller.
//! 3. As in BSD, an existing file system is overwritten without a question; the caller may check
//!    first.
//!
//! References: `spec/on-disk-format.md` §17.

mod basesizes;
mod freebsd4;
pub(crate) mod gennumbers;
pub(crate) mod group;
mod groupsize;
pub(crate) mod groupwriter;
mod minsize;
mod options;
mod plan;
mod rootdir;
mod superblock;
mod wipe;
mod write;

use ffs_device::{BlockDevice, Clock, ManualClock, MemDevice, Rng, SplitMix64, Timestamp};
use ffs_ondisk::{CgNo, Endian, Format, Geometry, Superblock, journal, sbcheck};

pub use options::{MAXVOLLEN, MINFREE, NewfsOptions, Optim, Release, label_problem};
pub use plan::{Plan, plan};

use crate::AdminError;
use gennumbers::GenNumbers;
use groupwriter::UnusedSpace;
use write::{GroupBlocks, VolumeWriter};

/// The time of every reproducible volume, seconds.
const REPRODUCIBLE_TIME: i64 = 1_000_000_000;

/// The volume that was made, or with `-N` would have been.
#[derive(Clone, Debug)]
pub struct NewfsReport {
    /// Its parameters, and notes for the user.
    pub plan: Plan,
    /// The superblock.
    pub superblock: Superblock,
    /// Its geometry.
    pub geometry: Geometry,
}

impl NewfsReport {
    /// Locations of the backup superblocks in 512-byte sectors, as for `fsck -b`.
    pub fn backup_sectors(&self) -> impl Iterator<Item = u64> + '_ {
        let g = &self.geometry;
        (0..g.ncg).map(|c| g.frag_to_byte(g.cgsblock(CgNo(c))) / 512)
    }
}

/// Makes a file system on `dev`; calls `progress` with the number of groups done and the number of
/// groups.
///
/// # Errors
/// [`AdminError::Option`] and [`AdminError::Size`] before any write; [`AdminError::Device`] later,
/// in which case the device carries the mark of an unfinished newfs.
pub fn newfs(
    dev: &dyn BlockDevice,
    opts: &NewfsOptions,
    clock: &dyn Clock,
    rng: &dyn Rng,
    progress: &mut dyn FnMut(u32, u32),
) -> Result<NewfsReport, AdminError> {
    let inputs = if opts.reproducible {
        let numbers = GenNumbers::Counted(0);
        Inputs { now: REPRODUCIBLE_TIME, numbers, unused_space: UnusedSpace::Residue }
    } else {
        let numbers = GenNumbers::Random(rng);
        let unused_space = if opts.keep_holes { UnusedSpace::Holes } else { UnusedSpace::Zeros };
        Inputs { now: clock.now().secs, numbers, unused_space }
    };
    make(dev, opts, inputs, progress)
}

/// Inputs of newfs that are neither options nor the device.
struct Inputs<'a> {
    /// Time of the volume, seconds since 1970.
    now: i64,
    numbers: GenNumbers<'a>,
    unused_space: UnusedSpace,
}

/// Makes a file system from inputs that are all determined.
fn make(
    dev: &dyn BlockDevice,
    opts: &NewfsOptions,
    inputs: Inputs<'_>,
    progress: &mut dyn FnMut(u32, u32),
) -> Result<NewfsReport, AdminError> {
    let Inputs { now, mut numbers, unused_space } = inputs;
    let device = (dev.len_bytes(), dev.sector_size());
    let number = numbers.next();
    let designed = design(device, opts, now, number).map_err(|error| {
        minsize::explain(error, opts, device.0, |opts, bytes| {
            design((bytes, device.1), opts, now, number).is_ok()
        })
    });
    let (report, groups) = designed?;
    let (g, sb) = (report.geometry, report.superblock.clone());
    if opts.dry_run {
        return Ok(report);
    }
    let initial = superblock::initial_totals(&report.plan);
    tracing::info!(
        target: "ffs::newfs",
        format = ?g.format,
        byte_order = ?g.endian,
        block = g.bsize,
        fragment = g.fsize,
        fragments = g.size,
        groups = g.ncg,
        inodes = g.inodes(),
        "making a file system"
    );
    let maker = VolumeWriter { dev, opts, g, sb, initial, now, unused_space, groups };
    maker.write(report.plan.bytes, numbers, progress)?;
    Ok(report)
}

/// The volume without its bytes, for a device of so many bytes with so many bytes per sector.
fn design(
    device: (u64, u32),
    opts: &NewfsOptions,
    now: i64,
    number: u32,
) -> Result<(NewfsReport, GroupBlocks), AdminError> {
    let plan = plan(opts, device.0, device.1)?;
    let mut sb = superblock::superblock(&plan, opts, now, number)?;
    // The check hash is computed when a copy is encoded.
    let g = sbcheck::geometry_ignoring_hash(&sb, Some(device.0)).map_err(superblock::refused)?;
    let groups = GroupBlocks::build(&g, opts, now)?;
    sb.set_cstotal(groups.totals(&g));
    if opts.journal {
        check_journal(&sb, &g)?;
    }
    Ok((NewfsReport { superblock: sb, geometry: g, plan }, groups))
}

/// Fails if the new volume cannot have a journal of the default size.
fn check_journal(sb: &Superblock, g: &Geometry) -> Result<(), AdminError> {
    if sb.old_layout || g.maxsymlinklen == 0 || g.old_ids {
        return Err(AdminError::option("-j", "this format is older than the journal"));
    }
    let need = journal::blocks(g, journal::default_size(g));
    match u64::try_from(sb.cstotal().nbfree) {
        Ok(free) if free >= need => Ok(()),
        _ => Err(AdminError::Size(format!("a journal needs {need} free blocks"))),
    }
}

/// A small volume in memory for tests, made by the current rules with a fixed time and seed.
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
