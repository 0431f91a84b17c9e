//! Volumes with the laboratory's own magic.
//!
//! A volume whose directories have a format of the laboratory must not be mounted or checked as
//! UFS. Its superblocks, backups included, have another magic on the disk. [`ForeignVolume`] shows
//! the usual magic to the laboratory's own mount.
//!
//! # Invariants
//! 1. The bytes on the disk never have UFS's magic after [`mark`].
//! 2. Requests to the disk are those of the mount: the same extents in the same order.

use std::io::IoSlice;
use std::ops::Range;

use ffs_device::{BlockDevice, DeviceError, Durability};
use ffs_ondisk::CgNo;
use ffs_ondisk::sbsearch;
use ffs_ondisk::superblock::MAGIC_OFFSET;

use super::disk::SimDisk;
use super::sparse_store::SparseStore;

/// The magic of a volume with directories of the laboratory.
pub(crate) const LAB_MAGIC: [u8; 4] = *b"LabX";

/// Where the standard superblock has its magic, and UFS's bytes there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    at: u64,
    usual: [u8; 4],
}

/// A disk whose superblocks are marked.
#[derive(Debug)]
pub(crate) struct ForeignVolume {
    disk: SimDisk,
    mark: Mark,
}

/// Replaces the magic of all superblocks of the volume.
///
/// # Errors
/// There is no valid superblock.
pub(crate) fn mark(store: &mut SparseStore) -> Result<Mark, String> {
    let len = store.len();
    let read = |at: u64, size: usize| {
        let mut bytes = vec![0; size];
        match at.checked_add(size as u64) {
            Some(end) if end <= len => {
                store.read(at, &mut bytes);
                Ok(bytes)
            }
            _ => Err(format!("byte {at} is beyond the end of the volume")),
        }
    };
    let found = sbsearch::find(read, Some(len)).map_err(|_| "no superblock".to_owned())?;
    let magic = MAGIC_OFFSET as u64;
    let g = found.geometry;
    let at = found.sb.standard_location() + magic;
    let mut usual = [0; 4];
    store.read(at, &mut usual);
    for c in 0..g.ncg {
        let backup = g.frag_to_byte(g.cgsblock(CgNo(c)));
        store.write(backup + magic, &LAB_MAGIC);
    }
    store.write(at, &LAB_MAGIC);
    Ok(Mark { at, usual })
}

impl ForeignVolume {
    /// The volume on `disk`, which has this mark.
    pub(crate) fn new(disk: SimDisk, mark: Mark) -> ForeignVolume {
        ForeignVolume { disk, mark }
    }

    /// The content as it is on the disk.
    #[cfg(test)]
    pub(crate) fn snapshot(&self) -> SparseStore {
        self.disk.snapshot()
    }

    /// The place of the magic within the bytes at `offset`, if all of it is there.
    fn place(&self, offset: u64, len: usize) -> Option<Range<usize>> {
        let at = usize::try_from(self.mark.at.checked_sub(offset)?).ok()?;
        (at + LAB_MAGIC.len() <= len).then_some(at..at + LAB_MAGIC.len())
    }

    /// The bytes to write, with the magic replaced; `None` if they do not contain it.
    fn marked(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Option<Vec<u8>> {
        let len = bufs.iter().map(|buf| buf.len()).sum();
        let place = self.place(offset, len)?;
        let mut bytes: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        bytes.get_mut(place)?.copy_from_slice(&LAB_MAGIC);
        Some(bytes)
    }
}

impl BlockDevice for ForeignVolume {
    fn len_bytes(&self) -> u64 {
        self.disk.len_bytes()
    }

    fn sector_size(&self) -> u32 {
        self.disk.sector_size()
    }

    fn durability(&self) -> Durability {
        self.disk.durability()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn delays_writes(&self) -> bool {
        self.disk.delays_writes()
    }

    fn wait_for_writes(&self, offset: u64, len: u64) {
        self.disk.wait_for_writes(offset, len);
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), DeviceError> {
        self.disk.read_at(offset, buf)?;
        if let Some(bytes) = self.place(offset, buf.len()).and_then(|place| buf.get_mut(place))
            && *bytes == LAB_MAGIC
        {
            bytes.copy_from_slice(&self.mark.usual);
        }
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), DeviceError> {
        self.write_vectored_at(offset, &[IoSlice::new(buf)])
    }

    fn write_vectored_at(&self, offset: u64, bufs: &[IoSlice<'_>]) -> Result<(), DeviceError> {
        match self.marked(offset, bufs) {
            Some(bytes) => self.disk.write_at(offset, &bytes),
            None => self.disk.write_vectored_at(offset, bufs),
        }
    }

    fn write_durable_vectored_at(
        &self,
        offset: u64,
        bufs: &[IoSlice<'_>],
    ) -> Result<(), DeviceError> {
        match self.marked(offset, bufs) {
            Some(bytes) => self.disk.write_durable_vectored_at(offset, &[IoSlice::new(&bytes)]),
            None => self.disk.write_durable_vectored_at(offset, bufs),
        }
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.disk.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ffs_core::{Cred, Env, Ffs, MountOptions, NodeKind};
    use ffs_device::{ManualClock, Timestamp};

    use super::super::{AgedVolumes, Preset};
    use super::*;

    fn mount(device: Arc<dyn BlockDevice>) -> ffs_core::Result<Ffs> {
        let clock = Arc::new(ManualClock::new(Timestamp::new(super::super::CLOCK_START, 0)));
        Ffs::mount(device, &MountOptions::default(), Env::seeded(clock, 1))
    }

    fn volume() -> SparseStore {
        let mut preset = Preset::paper().unwrap().volume;
        (preset.size_mb, preset.used_percent, preset.turnover) = (256, 0, 0.0);
        AgedVolumes::get(&preset, 1).unwrap()
    }

    #[test]
    fn only_the_laboratory_mounts_a_marked_volume() {
        let mut store = volume();
        mount(Arc::new(SimDisk::timeless(store.clone()))).unwrap();
        let mark = mark(&mut store).unwrap();
        let refused = mount(Arc::new(SimDisk::timeless(store.clone())));
        assert!(refused.is_err(), "a mount without the laboratory");

        let device = Arc::new(ForeignVolume::new(SimDisk::timeless(store), mark));
        let fs = mount(Arc::clone(&device) as _).unwrap();
        let (cred, root) = (Cred::root(), fs.root().unwrap());
        fs.create(&cred, &root, b"file", NodeKind::Regular, 0o644).unwrap();
        drop(root);
        fs.unmount().unwrap();
        let fs = mount(Arc::clone(&device) as _).unwrap();
        fs.lookup(&cred, &fs.root().unwrap(), b"file").unwrap();
        fs.unmount().unwrap();

        // The superblock was written, and the disk has no usual magic, not even in a backup.
        let after = device.snapshot();
        assert!(mount(Arc::new(SimDisk::timeless(after.clone()))).is_err());
        let read = |at: u64, size: usize| {
            let mut bytes = vec![0; size];
            if at + size as u64 <= after.len() {
                after.read(at, &mut bytes);
            }
            Ok::<_, String>(bytes)
        };
        let mut at = 0;
        while at < after.len() {
            assert!(sbsearch::at(read, at, Some(after.len())).is_err(), "a superblock at {at}");
            at += 8192;
        }
    }

    #[test]
    fn a_volume_without_a_superblock_is_refused() {
        assert!(mark(&mut SparseStore::new(1 << 20)).is_err());
    }
}
