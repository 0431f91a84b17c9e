//! The undo log of growfs, and the mark of an unfinished one.
//!
//! **Invariants.**
//! 1. The log is durable before the mark is set. So a log that its mark locates is whole, unless
//!    the device damaged it; its check hash shows that.
//! 2. The mark is set, and removed, by the write of one 512-byte sector, with a flush on either
//!    side. The superblock with the mark has the old fields or the new ones, or a mixture: only
//!    the mark is read.
//! 3. Restoring writes the same bytes however often it is interrupted and repeated.

use ffs_device::BlockDevice;
use ffs_ondisk::growth::{self, GrowthRecord, MARK_SECTOR};
use ffs_ondisk::hash::check_hash_parts;
use ffs_ondisk::sbsearch::Source;
use ffs_ondisk::superblock::{SBLOCKSEARCH, SBLOCKSIZE, magic_of};
use ffs_ondisk::{CgNo, Csum, Endian, Error, FragNo, Geometry, Superblock, sbcheck};

use crate::rules::{Rule, flush_for};
use crate::{AdminError, Volume};

/// Bytes that growfs replaces, and their places. The superblock is the first entry.
pub(super) struct UndoLog {
    entries: Vec<(u64, Vec<u8>)>,
    endian: Endian,
}

impl UndoLog {
    /// The longest log of a volume, bytes.
    pub(super) fn most_bytes(g: &Geometry) -> u64 {
        growth::log_bytes(SBLOCKSIZE + 2 * (g.cgsize as usize + Csum::SIZE)) as u64
    }

    /// Reads the superblock of `old` and the bytes at `places`, each a byte offset and a length.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn read(old: &Volume<'_>, places: Vec<(u64, u64)>) -> Result<UndoLog, AdminError> {
        let superblock = (old.sb.location, u64::try_from(old.sb.f.sbsize).unwrap_or(0));
        let mut entries = Vec::new();
        for (at, len) in std::iter::once(superblock).chain(places) {
            let mut bytes = vec![0; len as usize];
            old.device().read_at(at, &mut bytes)?;
            entries.push((at, bytes));
        }
        debug_assert!(entries.len() <= growth::MOST_ENTRIES, "{} entries", entries.len());
        Ok(UndoLog { entries, endian: old.geo.endian })
    }

    /// Writes the log to byte `at` and returns the record that locates it.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn write(&self, dev: &dyn BlockDevice, at: u64) -> Result<GrowthRecord, AdminError> {
        let bytes = growth::encode_log(&self.entries, self.endian);
        dev.write_at(at, &bytes)?;
        let log_hash = check_hash_parts(&[&bytes]);
        Ok(GrowthRecord { log_at: at, log_len: bytes.len() as u32, log_hash })
    }
}

/// The superblock with and without the mark of an unfinished growfs.
pub(super) struct Mark {
    location: u64,
    /// The mark's sector with the fields of the superblock in force.
    marked_old: Vec<u8>,
    /// The new superblock.
    new: Vec<u8>,
    endian: Endian,
    record: GrowthRecord,
}

impl Mark {
    /// For the change from the superblock of `old` to `new`, with an undo log at `record`.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn new(
        old: &Volume<'_>,
        new: &Superblock,
        record: GrowthRecord,
    ) -> Result<Mark, AdminError> {
        let mut old_bytes = vec![0; MARK_SECTOR.end];
        old.device().read_at(old.sb.location, &mut old_bytes)?;
        Ok(Mark::between(old.sb.location, old_bytes, new.encode(), new.endian, record))
    }

    fn between(
        location: u64,
        mut old: Vec<u8>,
        new: Vec<u8>,
        endian: Endian,
        record: GrowthRecord,
    ) -> Mark {
        growth::set_mark(&mut old, endian, record);
        Mark { location, marked_old: old[MARK_SECTOR].to_vec(), new, endian, record }
    }

    /// Sets the mark.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn set(&self, dev: &dyn BlockDevice) -> Result<(), AdminError> {
        dev.write_at(self.location + MARK_SECTOR.start as u64, &self.marked_old)?;
        Ok(flush_for(Rule::MarkBeforeChange, dev)?)
    }

    /// Writes the new superblock, with the mark.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn write_marked(&self, dev: &dyn BlockDevice) -> Result<(), AdminError> {
        let mut bytes = self.new.clone();
        growth::set_mark(&mut bytes, self.endian, self.record);
        dev.write_at(self.location, &bytes)?;
        Ok(flush_for(Rule::ChangeBeforeUnmark, dev)?)
    }

    /// Removes the mark: the new superblock is in force.
    ///
    /// # Errors
    /// The device's.
    pub(super) fn remove(&self, dev: &dyn BlockDevice) -> Result<(), AdminError> {
        dev.write_at(self.location + MARK_SECTOR.start as u64, &self.new[MARK_SECTOR])?;
        Ok(dev.flush()?)
    }
}

/// A growfs that did not finish.
pub(super) struct Unfinished {
    location: u64,
    endian: Endian,
    record: GrowthRecord,
}

/// Finds the mark of an unfinished growfs: where the search for superblocks ends at one, and no
/// other place has a valid standard superblock. (A file may have the bytes of a mark.)
///
/// # Errors
/// The device's.
pub(super) fn find(dev: &dyn BlockDevice) -> Result<Option<Unfinished>, AdminError> {
    let Err(AdminError::Format(Error::GrowfsUnfinished(location))) = Volume::open(dev) else {
        return Ok(None);
    };
    let is_valid = |at: u64| Volume::open_at(dev, at).is_ok_and(|v| v.source == Source::Primary);
    if SBLOCKSEARCH.into_iter().any(|at| at != location && is_valid(at)) {
        return Ok(None);
    }
    let mut bytes = vec![0; MARK_SECTOR.end];
    dev.read_at(location, &mut bytes)?;
    let Some((endian, None)) = magic_of(&bytes) else { return Ok(None) };
    let record = GrowthRecord::decode(&bytes, endian);
    Ok(record.map(|record| Unfinished { location, endian, record }))
}

impl Unfinished {
    /// Restores the old volume and removes the mark.
    ///
    /// # Errors
    /// [`AdminError::Refused`] before any write if the undo log is damaged; the device's.
    pub(super) fn restore(&self, dev: &dyn BlockDevice) -> Result<(), AdminError> {
        let (log, old) = self.read_log(dev)?;
        tracing::info!(target: "ffs::growfs", "restoring the volume of an unfinished growfs");
        for (at, content) in log.entries.iter().skip(1) {
            dev.write_at(*at, content)?;
        }
        super::write_copies(&old, old.geo.ncg)?;
        dev.flush()?;
        let (_, superblock) = log.entries.into_iter().next().ok_or_else(damaged)?;
        let mark =
            Mark::between(self.location, superblock.clone(), superblock, log.endian, self.record);
        mark.write_marked(dev)?;
        mark.remove(dev)
    }

    /// The undo log, and the old volume that its first entry describes.
    fn read_log<'d>(&self, dev: &'d dyn BlockDevice) -> Result<(UndoLog, Volume<'d>), AdminError> {
        let GrowthRecord { log_at, log_len, log_hash } = self.record;
        let device_bytes = dev.len_bytes();
        if log_at.checked_add(log_len.into()).is_none_or(|end| end > device_bytes) {
            return Err(AdminError::Refused(format!(
                "growfs did not finish, and its undo log at byte {log_at} is beyond the end of \
                 the device ({device_bytes} bytes): enlarge the device to its size at that time"
            )));
        }
        let mut bytes = vec![0; log_len as usize];
        dev.read_at(log_at, &mut bytes)?;
        if check_hash_parts(&[&bytes]) != log_hash {
            return Err(damaged());
        }
        let entries = growth::decode_log(&bytes, self.endian, device_bytes).ok_or_else(damaged)?;
        let (at, superblock) = entries.first().ok_or_else(damaged)?;
        if *at != self.location || superblock.len() < MARK_SECTOR.end {
            return Err(damaged());
        }
        let sb = Superblock::decode(superblock, *at)?;
        let geo = sbcheck::geometry(&sb, Some(device_bytes))?;
        let own = sb.standard_location() == *at
            && u64::try_from(sb.f.sbsize) == Ok(superblock.len() as u64)
            && log_at >= geo.size * u64::from(geo.fsize)
            && entries.iter().skip(1).all(|(at, bytes)| is_replaced(&geo, *at, bytes.len()));
        if !own {
            return Err(damaged());
        }
        let log = UndoLog { entries, endian: self.endian };
        Ok((log, Volume::from_parts(dev, sb, geo)))
    }
}

/// Whether growfs replaces the `len` bytes at `at`: those of a group or of a summary record.
fn is_replaced(g: &Geometry, at: u64, len: usize) -> bool {
    let c = g.dtog(FragNo(at / u64::from(g.fsize)));
    let is_group =
        c.0 < g.ncg && len == g.cgsize as usize && at == g.frag_to_byte(g.cgtod(CgNo(c.0)));
    let record = at.checked_sub(g.frag_to_byte(g.csaddr));
    let size = Csum::SIZE as u64;
    let is_record = len == Csum::SIZE
        && record.is_some_and(|at| at.is_multiple_of(size) && at / size < u64::from(g.ncg));
    is_group || is_record
}

fn damaged() -> AdminError {
    AdminError::Refused(
        "growfs did not finish, and its undo log is damaged: run fsck with a backup superblock \
         (fsck -b)"
            .into(),
    )
}
