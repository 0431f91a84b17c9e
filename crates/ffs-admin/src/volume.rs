//! An unmounted volume: its superblock, validated, and the few transfers every tool needs.
//!
//! **Invariants.**
//! 1. [`Volume::geo`] comes from a superblock that passed [`ffs_ondisk::sbcheck`], bounded by the
//!    device's size: every address computed from it lies on the device.
//! 2. The summary area is written before the superblock (`spec/on-disk-format.md` §3.4): if the
//!    former fails, the latter still says what it said.
//! 3. No allocation is sized by the number of groups: the summary area is passed over in pieces.

use ffs_device::{BlockDevice, DeviceError};
use ffs_ondisk::sbsearch::{self, Found, SearchError, Source, Warning};
use ffs_ondisk::{CgNo, Csum, FragNo, Geometry, Superblock};

use crate::AdminError;

/// An unmounted volume on a device.
pub struct Volume<'d> {
    dev: &'d dyn BlockDevice,
    /// The superblock as found; changed by the caller, written by [`Volume::write_superblock`].
    pub sb: Superblock,
    /// The constants that follow from it.
    pub geo: Geometry,
    /// Which copy of the superblock was read.
    pub source: Source,
    /// What was odd about it.
    pub warnings: Vec<Warning>,
}

impl<'d> Volume<'d> {
    /// Opens the volume on `dev`, by a backup superblock if need be: [`Volume::source`] tells.
    ///
    /// # Errors
    /// The device's, or what is wrong with the superblock.
    pub fn open(dev: &'d dyn BlockDevice) -> Result<Volume<'d>, AdminError> {
        let found = sbsearch::find(|at, len| read_bytes(dev, at, len), Some(dev.len_bytes()));
        Ok(Self::with_superblock(dev, found.map_err(search_error)?))
    }

    /// Opens the volume on `dev` by the superblock at byte `at`.
    ///
    /// # Errors
    /// The device's, or what is wrong with the superblock.
    pub fn open_at(dev: &'d dyn BlockDevice, at: u64) -> Result<Volume<'d>, AdminError> {
        let found = sbsearch::at(|at, len| read_bytes(dev, at, len), at, Some(dev.len_bytes()));
        Ok(Self::with_superblock(dev, found.map_err(search_error)?))
    }

    /// A volume whose superblock the caller found by other means.
    #[must_use]
    pub fn with_superblock(dev: &'d dyn BlockDevice, found: Found) -> Volume<'d> {
        let Found { sb, geometry, source, warnings, .. } = found;
        Volume { dev, sb, geo: geometry, source, warnings }
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &'d dyn BlockDevice {
        self.dev
    }

    /// Fills `buf` from fragment `at` on.
    ///
    /// # Errors
    /// The device's.
    pub fn read(&self, at: FragNo, buf: &mut [u8]) -> Result<(), AdminError> {
        Ok(self.dev.read_at(self.geo.frag_to_byte(at), buf)?)
    }

    /// Writes `buf` from fragment `at` on.
    ///
    /// # Errors
    /// The device's.
    pub fn write(&self, at: FragNo, buf: &[u8]) -> Result<(), AdminError> {
        Ok(self.dev.write_at(self.geo.frag_to_byte(at), buf)?)
    }

    /// The `cgsize` bytes of group `c`, not validated.
    ///
    /// # Errors
    /// The device's.
    pub fn read_cg(&self, c: CgNo) -> Result<Vec<u8>, AdminError> {
        let mut block = vec![0; self.geo.cgsize as usize];
        self.read(self.geo.cgtod(c), &mut block)?;
        Ok(block)
    }

    /// Calls `each` with the record of every group in the summary area.
    ///
    /// # Errors
    /// The device's, or what `each` returns.
    pub fn for_each_csum(
        &self,
        mut each: impl FnMut(CgNo, Csum) -> Result<(), AdminError>,
    ) -> Result<(), AdminError> {
        let mut piece = vec![0; self.geo.bsize as usize];
        let per_piece = piece.len() / Csum::SIZE;
        for first in (0..self.geo.ncg).step_by(per_piece) {
            let groups = (self.geo.ncg - first).min(per_piece as u32);
            let bytes = &mut piece[..groups as usize * Csum::SIZE];
            let place = u64::from(first) * Csum::SIZE as u64;
            self.dev.read_at(self.geo.frag_to_byte(self.geo.csaddr) + place, bytes)?;
            for i in 0..groups {
                let record = Csum::decode(bytes, i as usize * Csum::SIZE, self.geo.endian);
                each(CgNo(first + i), record)?;
            }
        }
        Ok(())
    }

    /// The record of group `c` in the summary area.
    ///
    /// # Errors
    /// The device's.
    pub fn read_csum(&self, c: CgNo) -> Result<Csum, AdminError> {
        let mut record = [0; Csum::SIZE];
        let place = u64::from(c.0) * Csum::SIZE as u64;
        self.dev.read_at(self.geo.frag_to_byte(self.geo.csaddr) + place, &mut record)?;
        Ok(Csum::decode(&record, 0, self.geo.endian))
    }

    /// Writes `records`, those of group `first` and the groups after it, to the summary area.
    ///
    /// # Errors
    /// The device's.
    pub fn write_csums(&self, first: CgNo, records: &[Csum]) -> Result<(), AdminError> {
        let mut bytes = vec![0; records.len() * Csum::SIZE];
        for (i, record) in records.iter().enumerate() {
            record.encode(&mut bytes, i * Csum::SIZE, self.geo.endian);
        }
        let place = u64::from(first.0) * Csum::SIZE as u64;
        Ok(self.dev.write_at(self.geo.frag_to_byte(self.geo.csaddr) + place, &bytes)?)
    }

    /// Writes the superblock to its standard place, check hash included.
    ///
    /// # Errors
    /// The device's.
    pub fn write_superblock(&self) -> Result<(), AdminError> {
        Ok(self.dev.write_at(self.sb.location, &self.sb.encode())?)
    }

    /// Writes the superblock as the backup copy of group `c`.
    ///
    /// # Errors
    /// The device's.
    pub fn write_backup(&self, c: CgNo) -> Result<(), AdminError> {
        let mut copy = self.sb.clone();
        copy.location = self.geo.frag_to_byte(self.geo.cgsblock(c));
        Ok(self.dev.write_at(copy.location, &copy.encode())?)
    }
}

/// The reader [`sbsearch`] wants.
fn read_bytes(dev: &dyn BlockDevice, at: u64, len: usize) -> Result<Vec<u8>, DeviceError> {
    let mut bytes = vec![0; len];
    dev.read_at(at, &mut bytes)?;
    Ok(bytes)
}

fn search_error(e: SearchError<DeviceError>) -> AdminError {
    match e {
        SearchError::Format(e) => e.into(),
        SearchError::Read { error, .. } => error.into(),
    }
}
