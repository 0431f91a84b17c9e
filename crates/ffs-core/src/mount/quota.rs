//! Quota files: reading them, counting the usage, writing changed records (`quotaon`, `qsync`).
//!
//! # Invariants
//! 1. Turning quotas on counts the usage by the inodes of the volume, as quotacheck(8) does. The
//!    counts of the file are not trusted: a crash, or a mount without quotas, leaves old ones. So
//!    quotas are right from the first operation on, also after a crash.
//! 2. Records are written through the block map of the quota file, as file content. They are
//!    written before a sync and at least every 30 seconds. A record that cannot be written stays
//!    changed; this does not fail the sync, because the next mount counts again.
//! 3. A change of limits or grace periods is made in the quota file first. If that fails, nothing
//!    changes.
//! 4. With quotas on, the quota files of both types keep their inodes, also if their names are
//!    removed, so that no other file gets the inode of one that is not counted.
//!
//! Reference: `spec/on-disk-format.md` §15.

use super::{Ffs, Mount};
use crate::alloc::Reserve;
use crate::error::{Error, Result};
use crate::inode::{Inode, InodeView};
use crate::quota::{Active, Amount, Change, Grace, LOG, MAX_RECORDS};
use ffs_ondisk::quota::{self, Dqblk, ENDIAN, QuotaHeader, QuotaType, RecordFormat, counted_ids};
use ffs_ondisk::wire::get;
use ffs_ondisk::{Dinode, Ino, Place, Structure};
use std::collections::BTreeMap;
use std::sync::Arc;
use tracing::{info, warn};

/// Bytes of a quota file that are read at a time: whole records.
const CHUNK: u64 = 1 << 16;

/// The quota files that a volume has, by [`QuotaType::index`].
pub(crate) type QuotaFiles = [Option<Arc<Inode>>; 2];

/// The usage of users and of groups, by [`QuotaType::index`].
type Usage = [BTreeMap<u32, Amount>; 2];

/// The records of a quota file, except those of zeros.
fn read_records(file: InodeView<'_>) -> Result<BTreeMap<u32, Dqblk>> {
    let size = file.d.size;
    let mut start = [0; QuotaHeader::SIZE];
    let n = file.read_at(0, &mut start)?;
    let start = start.get(..n).unwrap_or(&[]);
    let partial = size % Dqblk::SIZE as u64;
    if quota::is_truncated_header(size, start) {
        let expected = "at least 64 (`ffs quotacheck` repairs it, without limits)".into();
        return Err(bad(file, "size", size.to_string(), expected));
    }
    if quota::examine(file.ip.ino, size, start)? == RecordFormat::Old {
        let advice = "64-bit ones (`ffs quotacheck -c 64` converts them)".into();
        return Err(bad(file, "format", "32-bit records".into(), advice));
    }
    if partial != 0 {
        let found = format!("{size}, with {partial} bytes of a record at its end");
        let expected = "whole records (`ffs quotacheck` removes the last one)".into();
        return Err(bad(file, "size", found, expected));
    }
    let mut records = BTreeMap::new();
    // No more than the volume has, even if pointers of a damaged image share blocks.
    let mut left = file.g().frag_to_byte(ffs_ondisk::FragNo(file.g().size));
    let mut at = QuotaHeader::SIZE as u64;
    let mut chunk = vec![0; CHUNK as usize];
    loop {
        at = match file.seek_data(at) {
            Ok(data) => data - data % Dqblk::SIZE as u64,
            Err(Error::NoData) => return Ok(records),
            Err(e) => return Err(e),
        };
        let Some(first) = quota::id_at(at) else { return Ok(records) };
        let n = file.read_at(at, &mut chunk)? / Dqblk::SIZE;
        let rows = chunk.chunks_exact(Dqblk::SIZE).take(n);
        for (id, row) in
            (first..=quota::MAX_ID).zip(rows).filter(|(_, r)| r.iter().any(|b| *b != 0))
        {
            records.insert(id, Dqblk::decode(row, ENDIAN));
        }
        let read = (n * Dqblk::SIZE) as u64;
        if read == 0 {
            return Ok(records);
        }
        if records.len() > MAX_RECORDS {
            let found = format!("at least {}", records.len());
            return Err(bad(file, "number of records", found, format!("at most {MAX_RECORDS}")));
        }
        if read > left {
            let found = "more than the volume has".into();
            return Err(bad(file, "number of blocks", found, "blocks of its own".into()));
        }
        (at, left) = (at + read, left - read);
    }
}

fn bad(file: InodeView<'_>, field: &'static str, found: String, expected: String) -> Error {
    let place = Place::Inode(file.ip.ino);
    Error::corrupt(Structure::QuotaFile, place, field, found, expected)
}

impl Mount {
    /// Turns quotas of the types `on` on. `found` has the quota files that the volume has. No
    /// operation is in progress.
    fn quotas_on(&self, found: QuotaFiles, on: &[QuotaType]) -> Result<()> {
        let mut kept = self.quota_files.lock();
        // A type that is on keeps its file, also if another file has the name now.
        let pairs = QuotaType::ALL.into_iter().zip(found).zip(kept.iter());
        let files = pairs.map(|((kind, found), kept)| match kept {
            Some(kept) if self.ump.quotas.has(kind) => Some(Arc::clone(kept)),
            _ => found,
        });
        let files: Vec<Option<Arc<Inode>>> = files.collect();
        let mut records = [None, None];
        for ((kind, ip), records) in QuotaType::ALL.into_iter().zip(&files).zip(&mut records) {
            if let (Some(ip), true) = (ip, on.contains(&kind)) {
                *records = Some(read_records(self.view_of(ip, &ip.read()))?);
            }
        }
        let exempt: Vec<Ino> = files.iter().flatten().map(|ip| ip.ino).collect();
        let usage = self.count_usage(&exempt)?;
        let now = self.ump.now().secs;
        for ((kind, records), counted) in QuotaType::ALL.into_iter().zip(records).zip(&usage) {
            match records {
                Some(records) => {
                    info!(target: LOG, %kind, ids = counted.len(), "quotas on");
                    self.ump.quotas.set(kind, Some(Active::new(records, counted, now)));
                }
                None => self.ump.quotas.recount(kind, counted, now),
            }
        }
        self.ump.quotas.set_quota_files(exempt);
        for (place, new) in kept.iter_mut().zip(files) {
            new.iter().for_each(|ip| self.table.hold(ip));
            if let Some(old) = std::mem::replace(place, new) {
                drop(self.table.release(&old));
            }
        }
        Ok(())
    }

    fn view_of<'a>(&'a self, ip: &'a Inode, data: &'a crate::inode::InodeData) -> InodeView<'a> {
        InodeView::new(&self.ump, ip, data)
    }

    /// Counts the usage of all owners by the inodes of the volume. No operation is in progress, so
    /// the buffers have the newest state of each.
    fn count_usage(&self, exempt: &[Ino]) -> Result<Usage> {
        let g = self.ump.g();
        let mut usage = Usage::default();
        let per_block = g.inopb.max(1);
        for c in 0..g.ncg {
            let first = c.saturating_mul(g.ipg);
            for i in (0..g.ipg).step_by(per_block as usize) {
                let ino = Ino(first.saturating_add(i));
                if !self.ump.alloc.inode_initialised(ino)? {
                    break;
                }
                let block = self.ump.inode_block(ino)?;
                let block = block.read();
                let slots = block.bytes.chunks_exact(g.format.dinode_size());
                for (n, slot) in (ino.0..).zip(slots) {
                    if Ino(n) >= Ino::ROOT && get::<u16>(slot, 0, g.endian) != 0 {
                        let d = Dinode::decode(g, slot);
                        if !exempt.contains(&Ino(n)) && !ffs_ondisk::snapshot::is_snapshot(&d) {
                            count(&mut usage, &d);
                        }
                    }
                }
            }
        }
        Ok(usage)
    }

    /// Writes the changed records to the quota files.
    pub(super) fn write_quotas(&self) {
        if !self.ump.quotas.is_on() {
            return;
        }
        let kept = self.quota_files.lock();
        for (kind, ip) in QuotaType::ALL.into_iter().zip(kept.iter()) {
            let (Some(ip), Some(dirty)) = (ip, self.ump.quotas.take_dirty(kind)) else {
                continue;
            };
            let mut file = ip.lock(&self.ump);
            if !file.alive() {
                continue;
            }
            for (id, record) in &dirty {
                let at = quota::offset(*id).unwrap_or_default();
                let written = file.write_at(at, &mut &record.to_bytes()[..], Reserve::Allowed);
                if let Err(error) = written {
                    warn!(target: LOG, %kind, id, %error, "a record was not written");
                    // Others may have their blocks already.
                    self.ump.quotas.set_dirty(kind, std::iter::once(*id));
                }
            }
        }
    }

    /// Changes a record in the quota file and in memory. The caller holds the mount lock.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an id that is not counted, if these quotas are off, or if the file
    /// has too many records; [`Error::TooBig`], [`Error::NoSpace`]; the device's. Nothing changed.
    pub(crate) fn change_quota(&self, kind: QuotaType, id: u32, change: Change<'_>) -> Result<()> {
        let beyond = Error::Invalid("ids above 2147483647 have no quota");
        let at = quota::offset(id).ok_or(beyond)?;
        let now = self.ump.now().secs;
        let kept = self.quota_files.lock();
        let record = self.ump.quotas.changed(kind, id, change, now)?;
        let ip = kept.get(kind.index()).and_then(Option::as_ref);
        let mut file = ip.ok_or(Error::Invalid("these quotas are off"))?.lock(&self.ump);
        if !file.alive() {
            return Err(Error::Stale);
        }
        if let Err(error) = file.write_at(at, &mut &record.to_bytes()[..], Reserve::Allowed) {
            if at < file.d.size {
                // A device that fails may leave the new record in the buffer.
                self.ump.quotas.set_dirty(kind, std::iter::once(id));
            }
            return Err(error);
        }
        self.ump.quotas.change(kind, id, change, now);
        Ok(())
    }

    /// Turns quotas of one type off, after its records were written.
    fn quotas_off(&self, kind: QuotaType) {
        if self.ump.quotas.has(kind) {
            info!(target: LOG, %kind, "quotas off");
            self.ump.quotas.set(kind, None);
        }
        if !self.ump.quotas.is_on() {
            self.ump.quotas.set_quota_files(Vec::new());
            for ip in self.quota_files.lock().iter_mut().filter_map(Option::take) {
                drop(self.table.release(&ip));
            }
        }
    }

    /// Releases the quota files at unmount.
    pub(super) fn release_quota_files(&self) {
        QuotaType::ALL.into_iter().for_each(|kind| self.quotas_off(kind));
    }
}

fn count(usage: &mut Usage, d: &Dinode) {
    for (id, counted) in counted_ids(d.uid, d.gid).into_iter().zip(usage) {
        if let Some(id) = id {
            let of = counted.entry(id).or_default();
            of.inodes += 1;
            of.blocks = of.blocks.saturating_add(d.blocks);
        }
    }
}

impl Ffs {
    /// Turns quotas of the types `on` on, after the usage was counted. `found` has the quota files
    /// of the volume, also of a type that stays off.
    ///
    /// # Errors
    /// [`Error::Busy`] if they are on; [`Error::Format`] for a damaged quota file; the device's.
    /// Quotas stay as they were.
    pub(crate) fn quotas_on(&self, found: QuotaFiles, on: &[QuotaType]) -> Result<()> {
        let _alone = self.0.mount_lock.write();
        if on.iter().any(|kind| self.0.ump.quotas.has(*kind)) {
            return Err(Error::Busy("these quotas are on already"));
        }
        self.0.quotas_on(found, on)
    }

    /// Writes the records of one type and turns its quotas off.
    pub fn quotaoff(&self, kind: QuotaType) {
        let _alone = self.0.mount_lock.write();
        if !self.is_read_only() {
            self.0.write_quotas();
        }
        self.0.quotas_off(kind);
    }

    /// The limits and the usage of all users or groups that have any, sorted by id. `None`: these
    /// quotas are off.
    #[must_use]
    pub fn quotas(&self, kind: QuotaType) -> Option<Vec<(u32, Dqblk)>> {
        self.quotas_from(kind, 0, usize::MAX)
    }

    /// As [`Ffs::quotas`], for at most `most` ids, from `from` on.
    #[must_use]
    pub fn quotas_from(
        &self,
        kind: QuotaType,
        from: u32,
        most: usize,
    ) -> Option<Vec<(u32, Dqblk)>> {
        self.0.ump.quotas.records(kind, from, most)
    }

    /// The lengths of the grace periods. `None`: these quotas are off.
    #[must_use]
    pub fn quota_grace(&self, kind: QuotaType) -> Option<Grace> {
        self.0.ump.quotas.grace(kind)
    }
}
