//! An unmounted volume: its validated superblock, and the transfers that all tools need.
//!
//! **Invariants.**
//! 1. [`Volume::geo`] comes from a superblock that passed [`ffs_ondisk::sbcheck`], which bounds it
//!    by the device's size. Every address computed from it is on the device.
//! 2. The summary area is written before the superblock (`spec/on-disk-format.md` §3.4). If the
//!    former fails, the latter is unchanged.
//! 3. No memory allocation depends on the number of groups: the summary area is read in pieces.

use ffs_device::{BlockDevice, DeviceError};
use ffs_ondisk::sbsearch::{self, Found, SearchError, Source, Warning};
use ffs_ondisk::{CgNo, Csum, FragNo, Geometry, Superblock};

use crate::AdminError;

/// An unmounted volume on a device.
pub struct Volume<'d> {
    dev: &'d dyn BlockDevice,
    /// The superblock as found. The caller changes it; [`Volume::write_superblock`] writes it.
    pub sb: Superblock,
    /// The geometry that follows from the superblock.
    pub geo: Geometry,
    /// The copy of the superblock that was read.
    pub source: Source,
    /// Problems of the superblock.
    pub warnings: Vec<Warning>,
}

impl<'d> Volume<'d> {
    /// Opens the volume on `dev`, if necessary by a backup superblock; see [`Volume::source`].
    ///
    /// # Errors
    /// The device's, or the problem of the superblock.
    pub fn open(dev: &'d dyn BlockDevice) -> Result<Volume<'d>, AdminError> {
        let found = sbsearch::find(|at, len| read_bytes(dev, at, len), Some(dev.len_bytes()));
        Ok(Self::with_superblock(dev, found.map_err(search_error)?))
    }

    /// Opens the volume on `dev` by the superblock at byte `at`.
    ///
    /// # Errors
    /// The device's, or the problem of the superblock.
    pub fn open_at(dev: &'d dyn BlockDevice, at: u64) -> Result<Volume<'d>, AdminError> {
        let found = sbsearch::at(|at, len| read_bytes(dev, at, len), at, Some(dev.len_bytes()));
        Ok(Self::with_superblock(dev, found.map_err(search_error)?))
    }

    /// A volume with a superblock that the caller has found.
    #[must_use]
    pub fn with_superblock(dev: &'d dyn BlockDevice, found: Found) -> Volume<'d> {
        let Found { sb, geometry, source, warnings, .. } = found;
        Volume { dev, sb, geo: geometry, source, warnings }
    }

    /// A volume with a valid superblock and the geometry that follows from it.
    pub(crate) fn from_parts(dev: &'d dyn BlockDevice, sb: Superblock, geo: Geometry) -> Self {
        Volume { dev, sb, geo, source: Source::Primary, warnings: Vec::new() }
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

    /// Writes the superblock to its standard location with its check hash.
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

/// The read function for [`sbsearch`].
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
