//! Shows the parameters of a volume: BSD's `dumpfs`.
//!
//! **Purpose.** The superblock, the summaries and every cylinder group, as data
//! ([`SuperblockDump`], [`GroupDump`]) and as text. It also shows damaged volumes: everything that
//! can be decoded, together with its problems. It never writes.
//!
//! **Invariants.**
//! 1. Groups are read and shown one by one, so memory does not grow with the volume.
//! 2. An invalid group is shown with its problem; only errors of the device end the listing.

mod data;
mod recreate;
#[cfg(test)]
mod tests;
mod text;

use std::io::Write;

use ffs_device::BlockDevice;
use ffs_ondisk::sbsearch::SBLOCKSEARCH;
use ffs_ondisk::superblock::SBLOCKSIZE;
use ffs_ondisk::{CgNo, Superblock, sbcheck};

pub use data::{CgHeader, Counts, GroupDump, Span, SuperblockDump, SuperblockFields};
pub use recreate::Recreate;

use crate::{AdminError, Volume};

/// The part of a volume to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The superblock alone.
    Superblock,
    /// The superblock, the summaries and the cylinder groups.
    All,
}

/// A volume to show.
pub struct Dump<'d> {
    /// Its superblock.
    pub superblock: SuperblockDump,
    sb: Superblock,
    /// `None` if the superblock is too damaged to find the groups.
    volume: Option<Volume<'d>>,
}

impl<'d> Dump<'d> {
    /// Opens the volume on `dev`, if necessary by a backup superblock. Of a damaged superblock it
    /// shows what can be decoded.
    ///
    /// # Errors
    /// If there is no superblock; the device's.
    pub fn open(dev: &'d dyn BlockDevice) -> Result<Dump<'d>, AdminError> {
        match Volume::open(dev) {
            Ok(vol) => Ok(Self::of(vol)),
            Err(e @ AdminError::Format(_)) => Self::damaged(dev).ok_or(e),
            Err(e) => Err(e),
        }
    }

    /// Opens the volume on `dev` by the superblock at byte `at`.
    ///
    /// # Errors
    /// The problem of the superblock, or the device's.
    pub fn open_at(dev: &'d dyn BlockDevice, at: u64) -> Result<Dump<'d>, AdminError> {
        Ok(Self::of(Volume::open_at(dev, at)?))
    }

    /// Shows a volume that is already open.
    #[must_use]
    pub fn of(vol: Volume<'d>) -> Dump<'d> {
        let mut superblock = SuperblockDump::of(&vol.sb);
        superblock.source = data::source_name(vol.source);
        superblock.problems = vol.warnings.iter().map(ToString::to_string).collect();
        Dump { superblock, sb: vol.sb.clone(), volume: Some(vol) }
    }

    /// Shows the fields of the first superblock with a magic number, even if its other fields are
    /// damaged.
    fn damaged(dev: &'d dyn BlockDevice) -> Option<Dump<'d>> {
        let sb = SBLOCKSEARCH.into_iter().find_map(|at| {
            let mut bytes = vec![0; SBLOCKSIZE];
            dev.read_at(at, &mut bytes).ok()?;
            Superblock::decode(&bytes, at).ok()
        })?;
        let mut superblock = SuperblockDump::of(&sb);
        superblock.source = "damaged".into();
        let problems = sbcheck::problems(&sb, Some(dev.len_bytes()));
        superblock.problems = problems.iter().map(ToString::to_string).collect();
        Some(Dump { superblock, sb, volume: None })
    }

    /// Every cylinder group, read one at a time; none if the superblock is too damaged.
    pub fn groups(&self) -> impl Iterator<Item = Result<GroupDump, AdminError>> + '_ {
        let all = self.volume.iter().flat_map(|vol| (0..vol.geo.ncg).map(move |c| (vol, CgNo(c))));
        all.map(|(vol, c)| GroupDump::read(vol, c))
    }

    /// The newfs command that makes such a volume.
    #[must_use]
    pub fn recreate(&self) -> Recreate {
        recreate::recreate(&self.sb)
    }

    /// Writes the volume as text.
    ///
    /// # Errors
    /// The device's, or `out`'s.
    pub fn write_text(&self, out: &mut dyn Write, scope: Scope) -> Result<(), AdminError> {
        text::superblock(out, &self.superblock).map_err(AdminError::output)?;
        let Some(vol) = self.volume.as_ref().filter(|_| scope == Scope::All) else {
            return Ok(());
        };
        text::summaries(out, vol)?;
        for group in self.groups() {
            text::group(out, &group?).map_err(AdminError::output)?;
        }
        Ok(())
    }

    /// Writes the free fragments, one run per line, numbered from the start of the volume.
    ///
    /// # Errors
    /// The device's, or `out`'s.
    pub fn write_free(&self, out: &mut dyn Write) -> Result<(), AdminError> {
        for group in self.groups() {
            let group = group?;
            let base = u64::from(group.number) * self.superblock.fields.fpg as u64;
            for Span { first, last } in group.free {
                let run = Span { first: base + first, last: base + last };
                writeln!(out, "{run}").map_err(AdminError::output)?;
            }
        }
        Ok(())
    }

    /// Writes the volume as one JSON object.
    ///
    /// # Errors
    /// The device's, or `out`'s.
    pub fn write_json(&self, out: &mut dyn Write, scope: Scope) -> Result<(), AdminError> {
        let json = |e: serde_json::Error| AdminError::output(e.into());
        write!(out, "{{\"superblock\":").map_err(AdminError::output)?;
        serde_json::to_writer(&mut *out, &self.superblock).map_err(json)?;
        if scope == Scope::All {
            write!(out, ",\"groups\":[").map_err(AdminError::output)?;
            for (n, group) in self.groups().enumerate() {
                let comma = if n > 0 { "," } else { "" };
                writeln!(out, "{comma}").map_err(AdminError::output)?;
                serde_json::to_writer(&mut *out, &group?).map_err(json)?;
            }
            write!(out, "]").map_err(AdminError::output)?;
        }
        writeln!(out, "}}").map_err(AdminError::output)
    }
}
