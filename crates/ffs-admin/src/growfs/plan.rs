//! The superblock of the larger volume, and the place of the undo log.
//!
//! **Invariants.**
//! 1. The superblock of a [`GrowthPlan`] passes the checks of the format for the device.
//! 2. The undo log is beyond the end of the old volume, in fragments that are free in the new one.
//!    Its content stays there afterwards.

use ffs_ondisk::{CgNo, Csum, Format, FragNo, Geometry, Superblock, sbcheck};

use super::undo::UndoLog;
use super::{Backups, GrowfsReport};
use crate::{AdminError, Volume};

/// The larger volume, without its totals.
pub(super) struct GrowthPlan {
    pub(super) sb: Superblock,
    pub(super) geo: Geometry,
    /// Byte offset of the undo log.
    pub(super) log_at: u64,
    notes: Vec<String>,
}

impl GrowthPlan {
    /// Plans the growth of `old` to `bytes` on a device of `device_bytes`; `now` in seconds.
    ///
    /// # Errors
    /// [`AdminError::Option`] or [`AdminError::Size`] if the volume cannot have that size.
    pub(super) fn new(
        old: &Volume<'_>,
        bytes: u64,
        device_bytes: u64,
        now: i64,
    ) -> Result<GrowthPlan, AdminError> {
        let mut notes = Vec::new();
        let size = new_size(old, bytes, device_bytes, &mut notes)?;
        let mut sb = old.sb.clone();
        set_size(&mut sb, &old.geo, size).ok_or_else(|| too_large(old, size))?;
        sb.f.providersize = i64::try_from(device_bytes / u64::from(old.geo.fsize)).unwrap_or(0);
        sb.f.time = now;
        let moved = sb.f.cssize != old.sb.f.cssize;
        if moved {
            place_csum(&mut sb, old, size)?;
        }
        let geo = sbcheck::geometry_ignoring_hash(&sb, Some(device_bytes)).map_err(refused)?;
        let mut plan = GrowthPlan { sb, geo, log_at: 0, notes };
        plan.log_at = plan.place_log(old)?;
        Ok(plan)
    }

    /// Whether the summary area has another place than in `old`.
    pub(super) fn moves_csum(&self, old: &Volume<'_>) -> bool {
        self.geo.csaddr != old.geo.csaddr
    }

    /// The summary area as fragments of its group.
    pub(super) fn csum_frags(&self) -> std::ops::Range<u32> {
        let first = self.geo.dtogd(self.geo.csaddr);
        first..first + self.geo.numfrags_up(self.geo.cssize.into())
    }

    /// Finds free space for the undo log: behind the old end in the last old group, or in the data
    /// area of a new one.
    fn place_log(&self, old: &Volume<'_>) -> Result<u64, AdminError> {
        let g = &self.geo;
        let need = u64::from(g.numfrags_up(UndoLog::most_bytes(g)));
        let end_of = |c| g.cgbase(c).0 + u64::from(g.cg_frags(c));
        let extension = (old.geo.size, end_of(CgNo(old.geo.ncg - 1)));
        let data = (old.geo.ncg..g.ncg).map(CgNo).map(|c| {
            let own = if g.dtog(g.csaddr) == c { self.csum_frags().end } else { g.dblkno };
            (g.cgbase(c).plus(own.into()).0, end_of(c))
        });
        let mut places = std::iter::once(extension).chain(data);
        match places.find(|(first, end)| first + need <= *end) {
            Some((first, _)) => Ok(g.frag_to_byte(FragNo(first))),
            None => Err(AdminError::Size(format!(
                "the device has {} bytes more than the file system; at least {} are needed",
                (g.size - old.geo.size) * u64::from(g.fsize),
                need * u64::from(g.fsize)
            ))),
        }
    }

    /// The report of this plan.
    pub(super) fn report(&self, old: &Volume<'_>) -> GrowfsReport {
        let (g, fsize) = (&self.geo, u64::from(self.geo.fsize));
        GrowfsReport {
            old_bytes: old.geo.size * fsize,
            new_bytes: g.size * fsize,
            old_groups: old.geo.ncg,
            new_groups: g.ncg,
            fragment_size: g.fsize,
            new_backups: Backups { geo: *g, first: old.geo.ncg },
            resumed: false,
            notes: self.notes.clone(),
        }
    }
}

/// The size of the new volume, fragments.
fn new_size(
    old: &Volume<'_>,
    bytes: u64,
    device_bytes: u64,
    notes: &mut Vec<String>,
) -> Result<u64, AdminError> {
    let g = &old.geo;
    if bytes > device_bytes {
        let why = format!(
            "{bytes} bytes are wanted, the device has {device_bytes}: make it larger first (a \
             partition by ffs disk grow), or leave -s away"
        );
        return Err(AdminError::option("-s", why));
    }
    let (fsize, fpg) = (u64::from(g.fsize), u64::from(g.fpg));
    let mut size = bytes / fsize;
    let last = size % fpg;
    let least = u64::from(g.dblkno) + u64::from(g.frag);
    if last > 0 && last < least && size > g.size && size / fpg >= u64::from(g.ncg) {
        size -= last;
        notes.push(format!(
            "the last {} bytes are not used: they are too few for a cylinder group",
            last * fsize
        ));
    }
    if size <= g.size {
        return Err(AdminError::NotLarger { requested: bytes, current: g.size * fsize });
    }
    Ok(size)
}

/// Sets the fields that follow from the new size; `None` if a number does not fit.
fn set_size(sb: &mut Superblock, g: &Geometry, size: u64) -> Option<()> {
    let ncg = size.div_ceil(g.fpg.into());
    let cssize = g.fragroundup(ncg.checked_mul(16)?);
    let frags = |bytes: u64| (bytes / u64::from(g.fsize)) as i64;
    let metadata = i64::from(g.dblkno - g.sblkno) * (ncg as i64 - i64::from(g.ncg));
    let csum = frags(cssize) - frags(u64::from(g.cssize));
    let f = &mut sb.f;
    f.dsize = f.dsize.checked_add(size as i64 - g.size as i64 - metadata - csum)?;
    f.size = i64::try_from(size).ok()?;
    f.ncg = u32::try_from(ncg).ok()?;
    f.cssize = i32::try_from(cssize).ok()?;
    if g.format == Format::Ufs1 {
        f.old_size = i32::try_from(size).ok()?;
        f.old_dsize = i32::try_from(f.dsize).ok()?;
        f.old_ncyl = i32::try_from(ncg).ok()?;
    }
    Some(())
}

/// Places a summary area that has become larger at the beginning of the first new group that has
/// the space. As in BSD, the old area becomes free.
fn place_csum(sb: &mut Superblock, old: &Volume<'_>, size: u64) -> Result<(), AdminError> {
    let g = &old.geo;
    let (fpg, need) = (u64::from(g.fpg), u64::from(g.numfrags_up(sb.f.cssize as u64)));
    let least = u64::from(g.dblkno) + need;
    let Some(c) = (g.ncg..sb.f.ncg).find(|&c| (size - u64::from(c) * fpg).min(fpg) >= least) else {
        return Err(AdminError::Size(no_place(old, sb.f.cssize as u64)));
    };
    let at = u64::from(c) * fpg + u64::from(g.dblkno);
    sb.f.csaddr = i64::try_from(at).map_err(|_| too_large(old, size))?;
    if g.format == Format::Ufs1 {
        sb.f.old_csaddr = i32::try_from(at).map_err(|_| too_large(old, size))?;
    }
    Ok(())
}

/// Why no new group has the space for a summary area of `bytes` bytes. A larger file system has
/// more groups, and so a larger summary area; the size of a group does not change.
fn no_place(old: &Volume<'_>, bytes: u64) -> String {
    let g = &old.geo;
    let most = u64::from(g.fpg - g.dblkno) * u64::from(g.fsize);
    if bytes > most {
        let per_group = Csum::SIZE as u64;
        let groups = most / per_group;
        let size = groups * u64::from(g.fpg) * u64::from(g.fsize);
        return format!(
            "the cylinder groups are too small: one of {} KiB has no space for the summary area \
             of so many; this file system can grow to about {} MiB, a new one to any size",
            (u64::from(g.fpg) * u64::from(g.fsize)) >> 10,
            size >> 20
        );
    }
    "no new cylinder group has the space for the larger summary area: grow the file system by more"
        .to_owned()
}

fn too_large(old: &Volume<'_>, size: u64) -> AdminError {
    AdminError::Size(format!(
        "{size} fragments of {} bytes are more than {} can address",
        old.geo.fsize, old.geo.format
    ))
}

/// The growfs error for a superblock that [`sbcheck`] refuses.
fn refused(e: ffs_ondisk::Error) -> AdminError {
    match e {
        ffs_ondisk::Error::Corrupt(c) => AdminError::Size(format!(
            "the file system cannot have this size: {} would be {}, but must be {}",
            c.field, c.found, c.expected
        )),
        other => other.into(),
    }
}
