//! Enlarges an unmounted volume: BSD's `growfs` (`docs/spec/on-disk-format.md` §17.4).
//!
//! **Purpose.** [`growfs`] adds fragments to the last cylinder group and new groups after it, as
//! far as the device reaches.
//!
//! | module | contents |
//! | --- | --- |
//! | `plan` | the superblock of the larger volume |
//! | `groups` | blocks of the new groups and of the old ones that change |
//! | `undo` | the undo log and the mark of an unfinished growfs |
//!
//! **Invariants.**
//! 1. Nothing is written before the whole plan has been validated by the checks of the format, and
//!    the end of the new volume could be read and written.
//! 2. The device has, at every moment, the old volume, the new one, or the mark of an unfinished
//!    growfs with an undo log that leads back to the old one. Each step ends with a flush:
//!    1. New groups, the new summary area and the undo log are written. They are beyond the end of
//!       the old volume.
//!    2. The mark is set.
//!    3. Structures of the old volume are changed: at most two group blocks, their summary
//!       records, the backup superblocks, the recovery record, and the fields of the superblock.
//!    4. The mark is removed: the new superblock is in force.
//! 3. A run that finds the mark first restores the old volume, then grows it anew. So it may be
//!    interrupted again, and may have another size as its target.
//! 4. The caller can interrupt step 1 only, which leaves the old volume.
//! 5. The content of files and directories is neither read nor written.

mod groups;
mod plan;
#[cfg(test)]
mod tests;
mod undo;

use std::ops::ControlFlow;

use ffs_device::{BlockDevice, Clock, Rng};
use ffs_ondisk::sbsearch::{FsRecovery, RECOVERY_OFFSET, Source};
use ffs_ondisk::superblock::{FsFlags, SBLOCKSEARCH};
use ffs_ondisk::upkeep::NotKept;
use ffs_ondisk::{CgNo, Csum, Format, FragNo, Geometry};

use crate::newfs::gennumbers::GenNumbers;
use crate::newfs::groupwriter::{GroupWriter, PIECE, UnusedSpace};
use crate::rules::{Rule, flush_for};
use crate::{AdminError, Volume};
use groups::GrownGroups;
use plan::GrowthPlan;

/// Called with the number of new groups done and the number of new groups; a break ends the growth.
pub type Progress<'p> = dyn FnMut(u32, u32) -> ControlFlow<()> + 'p;

/// Options of [`growfs`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GrowfsOptions {
    /// `-s`: the size of the volume afterwards, bytes; by default that of the device.
    pub size: Option<u64>,
    /// `-N`: only compute the result.
    pub dry_run: bool,
    /// Of a dry run: the length that the device would have, bytes, if it is made longer first.
    pub device_bytes: Option<u64>,
}

/// Result of [`growfs`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct GrowfsReport {
    /// Bytes of the volume before.
    pub old_bytes: u64,
    /// Bytes of the volume now.
    pub new_bytes: u64,
    /// Cylinder groups before.
    pub old_groups: u32,
    /// Cylinder groups now.
    pub new_groups: u32,
    /// Bytes of a fragment.
    pub fragment_size: u32,
    /// The new backup superblocks.
    pub new_backups: Backups,
    /// Whether the device had the mark of an unfinished growfs, so that the old volume was restored
    /// first.
    pub resumed: bool,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// The backup superblocks of the new groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backups {
    geo: Geometry,
    first: u32,
}

impl Backups {
    /// Their locations in 512-byte sectors, as for `fsck -b`.
    pub fn sectors(&self) -> impl ExactSizeIterator<Item = u64> + use<> {
        let Backups { geo, first } = *self;
        (first..geo.ncg).map(move |c| geo.frag_to_byte(geo.cgsblock(CgNo(c))) / 512)
    }
}

impl serde::Serialize for Backups {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.sectors())
    }
}

/// Whether the device has the mark of an unfinished growfs: the next run restores the old volume
/// first.
///
/// # Errors
/// The device's.
pub fn is_unfinished(dev: &dyn BlockDevice) -> Result<bool, AdminError> {
    Ok(undo::find(dev)?.is_some())
}

/// Enlarges the volume on `dev`; calls `progress` with the number of new groups done and the number
/// of new groups. If it breaks, the volume stays as it was. The caller ensures that it is not
/// mounted.
///
/// # Errors
/// [`AdminError::Size`] for a size that the volume cannot have, [`AdminError::Refused`] for a
/// volume that must not be changed now, both before any write except the restoration of the old
/// volume after an unfinished growfs; [`AdminError::Interrupted`]; the problem of the volume; the
/// device's.
pub fn growfs(
    dev: &dyn BlockDevice,
    opts: &GrowfsOptions,
    clock: &dyn Clock,
    rng: &dyn Rng,
    progress: &mut Progress<'_>,
) -> Result<GrowfsReport, AdminError> {
    let unfinished = undo::find(dev)?;
    if let Some(unfinished) = &unfinished {
        if opts.dry_run {
            let why = "a growfs did not finish: run growfs without -N to restore the volume";
            return Err(AdminError::Refused(why.into()));
        }
        unfinished.restore(dev)?;
    }
    let old = Volume::open(dev)?;
    refuse(&old)?;
    let now = clock.now().secs;
    let longer = opts.device_bytes.filter(|_| opts.dry_run).unwrap_or(0);
    let device_bytes = dev.len_bytes().max(longer);
    let mut plan = GrowthPlan::new(&old, opts.size.unwrap_or(device_bytes), device_bytes, now)?;
    let groups = GrownGroups::new(&old, &plan, now)?;
    plan.sb.set_cstotal(groups.totals(old.sb.cstotal()));
    refuse_if_found_elsewhere(&old, &plan.geo)?;
    let report = GrowfsReport { resumed: unfinished.is_some(), ..plan.report(&old) };
    if opts.dry_run {
        return Ok(report);
    }
    tracing::info!(
        target: "ffs::growfs",
        from = report.old_bytes,
        to = report.new_bytes,
        groups = report.new_groups,
        "enlarging a volume"
    );
    probe_end(dev, report.new_bytes)?;
    Growth { old, plan, groups }.write(rng, progress)?;
    Ok(report)
}

/// Fails for a volume that must not be changed now.
fn refuse(old: &Volume<'_>) -> Result<(), AdminError> {
    let refused = |why: &str| Err(AdminError::Refused(why.into()));
    if old.source != Source::Primary {
        return refused("the superblock is damaged: run fsck first");
    }
    if !old.sb.is_clean() || old.sb.flags().contains(FsFlags::NEEDSFSCK) {
        return refused("the volume was not cleanly unmounted: run fsck first");
    }
    if old.sb.f.snapinum.iter().any(|&ino| ino != 0) {
        return refused("the volume has snapshots, which record its size: remove them first");
    }
    if let Some(not_kept) = NotKept::of(&old.sb, &old.geo) {
        return Err(AdminError::Refused(format!("the volume cannot grow: {not_kept}")));
    }
    if old.sb.f.sujfree != 0 {
        return refused("the volume has unlinked files in its journal's list: run fsck first");
    }
    let rotated = old.geo.cgoffset > 0 && old.geo.cgmask_not != 0;
    let cylinders = old.geo.format == Format::Ufs1 && old.geo.old_cpg != 1;
    if rotated || cylinders {
        return refused(
            "the volume was made before FreeBSD 5, and its groups are measured in cylinders: copy \
             its content to a new volume",
        );
    }
    Ok(())
}

/// Fails if another system would find a backup superblock where it searches for the standard one:
/// it would use the volume in spite of the mark. BSD accepts any UFS1 superblock there, such as the
/// backup of group 0 with blocks of 64 KiB.
fn refuse_if_found_elsewhere(old: &Volume<'_>, new: &Geometry) -> Result<(), AdminError> {
    let is_backup = |at: u64| {
        let c = new.dtog(FragNo(at / u64::from(new.fsize)));
        c.0 < new.ncg && new.frag_to_byte(new.cgsblock(c)) == at
    };
    let others = SBLOCKSEARCH.into_iter().filter(|&at| at != old.sb.location);
    match others.filter(|_| new.format == Format::Ufs1).find(|&at| is_backup(at)) {
        None => Ok(()),
        Some(at) => Err(AdminError::Refused(format!(
            "a backup superblock is at byte {at}, where BSD would find it if the growth were \
             interrupted: copy the content to a new volume"
        ))),
    }
}

/// Fails unless the last sector before byte `end`, beyond the old volume, can be read and written.
/// A size that a device reports is not always there.
fn probe_end(dev: &dyn BlockDevice, end: u64) -> Result<(), AdminError> {
    let mut sector = vec![0; dev.sector_size() as usize];
    let at = end.saturating_sub(sector.len() as u64);
    dev.read_at(at, &mut sector)?;
    dev.write_at(at, &sector)?;
    Ok(dev.flush()?)
}

/// An enlargement that is ready to be written.
struct Growth<'d> {
    old: Volume<'d>,
    plan: GrowthPlan,
    groups: GrownGroups,
}

impl Growth<'_> {
    fn write(&self, rng: &dyn Rng, progress: &mut Progress<'_>) -> Result<(), AdminError> {
        let dev = self.old.device();
        self.write_new_groups(rng, progress)?;
        self.write_new_csums()?;
        let log = undo::UndoLog::read(&self.old, self.replaced())?;
        let record = log.write(dev, self.plan.log_at)?;
        flush_for(Rule::LogBeforeMark, dev)?;
        let mark = undo::Mark::new(&self.old, &self.plan.sb, record)?;
        mark.set(dev)?;
        self.change_old_structures()?;
        mark.write_marked(dev)?;
        mark.remove(dev)
    }

    /// Places of the bytes that change and that the old superblock does not determine: byte offset
    /// and length.
    fn replaced(&self) -> Vec<(u64, u64)> {
        let g = &self.old.geo;
        let group = |c| (g.frag_to_byte(g.cgtod(c)), u64::from(g.cgsize));
        let record = |c: CgNo| {
            let before = u64::from(c.0) * Csum::SIZE as u64;
            (g.frag_to_byte(g.csaddr) + before, Csum::SIZE as u64)
        };
        self.groups.changed.iter().flat_map(|old| [group(old.c), record(old.c)]).collect()
    }

    fn write_new_groups(
        &self,
        rng: &dyn Rng,
        progress: &mut Progress<'_>,
    ) -> Result<(), AdminError> {
        let (dev, g, numbers) = (self.old.device(), self.plan.geo, GenNumbers::Random(rng));
        let mut writer = GroupWriter::new(dev, g, &self.plan.sb, numbers, UnusedSpace::Zeros);
        let new = self.groups.new_groups();
        let all = new.len() as u32;
        for (done, c) in (1..).zip(new) {
            writer.write_group(c, &self.groups.of(c).0)?;
            writer.write_remaining_inodes(c)?;
            if progress(done, all).is_break() {
                return Err(AdminError::Interrupted);
            }
        }
        Ok(())
    }

    /// Writes the summary records of the new groups; if the area moves, those of all groups.
    fn write_new_csums(&self) -> Result<(), AdminError> {
        let (old, g) = (&self.old, self.plan.geo);
        let new_records = self.groups.new_groups().map(|c| self.groups.of(c).1);
        if !self.plan.moves_csum(old) {
            // They are in the last fragment of the old area, behind the old records.
            return old.write_csums(CgNo(old.geo.ncg), &new_records.collect::<Vec<_>>());
        }
        let new = Volume::from_parts(old.device(), self.plan.sb.clone(), g);
        let mut first = CgNo(0);
        let mut piece = Vec::new();
        let mut put = |record, last| -> Result<(), AdminError> {
            piece.push(record);
            if last || piece.len() >= PIECE / Csum::SIZE {
                new.write_csums(first, &piece)?;
                first.0 += piece.len() as u32;
                piece.clear();
            }
            Ok(())
        };
        old.for_each_csum(|c, record| put(self.groups.csum_of(c).unwrap_or(record), false))?;
        let count = self.groups.new_groups().len();
        new_records.enumerate().try_for_each(|(i, record)| put(record, i + 1 == count))
    }

    /// Changes the structures of the old volume, except its superblock.
    fn change_old_structures(&self) -> Result<(), AdminError> {
        let old = &self.old;
        for groups::Changed { c, block, after, .. } in &self.groups.changed {
            old.write(old.geo.cgtod(*c), block)?;
            if !self.plan.moves_csum(old) {
                old.write_csums(*c, &[*after])?;
            }
        }
        let new = Volume::from_parts(old.device(), self.plan.sb.clone(), self.plan.geo);
        write_copies(&new, old.geo.ncg)
    }
}

/// Writes the superblock of `vol` to the backups of the first `groups` groups, and renews the
/// recovery record if there is one.
fn write_copies(vol: &Volume<'_>, groups: u32) -> Result<(), AdminError> {
    for c in 0..groups {
        vol.write_backup(CgNo(c))?;
    }
    if vol.geo.format == Format::Ufs1 {
        return Ok(());
    }
    let mut bytes = [0; FsRecovery::SIZE];
    vol.device().read_at(RECOVERY_OFFSET, &mut bytes)?;
    let record = FsRecovery::of(&vol.sb);
    if FsRecovery::decode(&bytes, vol.geo.endian).magic == record.magic {
        record.encode(&mut bytes, vol.geo.endian);
        vol.device().write_at(RECOVERY_OFFSET, &bytes)?;
    }
    Ok(())
}
