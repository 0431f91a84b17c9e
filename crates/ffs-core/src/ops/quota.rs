//! Quotas for commands: turning them on, changing limits, and making, repairing and converting the
//! quota files in the root directory.
//!
//! # Invariants
//! 1. A file that others than root may have changed is no quota file: it belongs to another user,
//!    others may write it, or it has a second name.
//! 2. The name of a quota file leads to the old file or to the complete new one while it is
//!    converted, also after a crash. A conversion that ended early can be made again.
//!
//! Reference: `spec/on-disk-format.md` §15.

use super::Vnode;
use crate::cred::Cred;
use crate::error::{Error, Result};
use crate::mount::Ffs;
use crate::options::{QuotaOption, QuotaOptions};
use crate::quota::{Change, Grace};
use crate::types::{Attr, NodeKind, RenameMode, SetAttr, WriteMode};
use ffs_ondisk::GID_OPERATOR;
use ffs_ondisk::quota::{self, Dqblk, MODE, QuotaHeader, QuotaType, RecordFormat};
use ffs_ondisk::{FileType, Ino};
use std::collections::BTreeMap;

/// The permission bits of those who may change a quota file: the group's and the others'.
const WRITABLE: u16 = 0o022;

/// A defect of a quota file that [`Ffs::repair_quota_file`] corrected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QuotaRepair {
    /// The file ended within its header, so it had no records.
    Header,
    /// A part of a record, of this id, was at the end of the file.
    Record(u32),
}

impl Ffs {
    /// Turns quotas on, as the mount options do.
    ///
    /// # Errors
    /// [`Error::NoQuotaFile`]; [`Error::UnsafeQuotaFile`]; [`Error::Busy`] if they are on;
    /// [`Error::Format`] for a damaged quota file; the device's. Quotas stay as they were.
    pub fn quotaon(&self, wanted: QuotaOptions) -> Result<()> {
        if wanted == QuotaOptions::default() {
            return Ok(());
        }
        let (mut found, mut on) = ([None, None], Vec::new());
        let options = [(QuotaType::User, wanted.user), (QuotaType::Group, wanted.group)];
        for ((kind, option), place) in options.into_iter().zip(&mut found) {
            match (self.quota_file(kind), option) {
                (Ok(file), option) => {
                    on.extend((option != QuotaOption::Off).then_some(kind));
                    *place = Some(file);
                }
                (Err(Error::NotFound), QuotaOption::Off | QuotaOption::IfPresent) => {}
                (Err(Error::NotFound), QuotaOption::On) => {
                    return Err(Error::NoQuotaFile(kind.file_name()));
                }
                (Err(e), _) => return Err(e),
            }
        }
        if on.is_empty() {
            return Err(Error::NoQuotaFile("quota.user, quota.group"));
        }
        // Files of both types are exempt from quotas, so both must be root's.
        for (kind, file) in QuotaType::ALL.into_iter().zip(&found) {
            if let Some(file) = file {
                check_owner(kind, &self.getattr(file))?;
                self.check_names(kind, file)?;
            }
        }
        let files = found.each_ref().map(|file| file.as_ref().map(|file| file.ip.clone()));
        self.quotas_on(files, &on)
    }

    fn quota_file(&self, kind: QuotaType) -> Result<Vnode> {
        self.root_file(kind.file_name())
    }

    fn root_file(&self, name: &str) -> Result<Vnode> {
        self.lookup(&Cred::root(), &self.root()?, name.as_bytes())
    }

    /// Fails if a quota file has a second name, unless a conversion that did not end gave it.
    fn check_names(&self, kind: QuotaType, file: &Vnode) -> Result<()> {
        match self.getattr(file).nlink {
            1 => Ok(()),
            2 if self.kept_file(kind)? == Some(file.ino()) => Ok(()),
            names => {
                let why = format!("it has {names} names; remove all others (`find -samefile`)");
                Err(Error::UnsafeQuotaFile { name: kind.file_name(), why })
            }
        }
    }

    /// The file with the name of old quota files that were converted.
    fn kept_file(&self, kind: QuotaType) -> Result<Option<Ino>> {
        match self.root_file(&kept_name(kind)) {
            Ok(file) => Ok(Some(file.ino())),
            Err(Error::NotFound) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Creates an empty quota file, unless the root directory has one. Returns whether it did.
    ///
    /// # Errors
    /// As [`Ffs::create`] and [`Ffs::write`].
    pub fn create_quota_file(&self, kind: QuotaType) -> Result<bool> {
        match self.quota_file(kind) {
            Ok(_) => Ok(false),
            Err(Error::NotFound) => {
                let name = kind.file_name();
                self.new_quota_file(name, &BTreeMap::new())
                    .inspect_err(|_| self.remove_quietly(name))?;
                Ok(true)
            }
            Err(e) => Err(e),
        }
    }

    /// Creates a quota file with these records. On an error a part of it may stay.
    fn new_quota_file(&self, name: &str, records: &BTreeMap<u32, Dqblk>) -> Result<()> {
        let cred = Cred::root();
        let kind = NodeKind::Regular;
        let file = self.create(&cred, &self.root()?, name.as_bytes(), kind, MODE)?;
        let owner = SetAttr { uid: Some(0), gid: Some(GID_OPERATOR), ..SetAttr::default() };
        self.setattr(&cred, &file, &owner)?;
        self.write(&cred, &file, 0, &QuotaHeader::new_bytes(), WriteMode::default())?;
        for (id, record) in records {
            let at = quota::offset(*id).ok_or(Error::Invalid("ids above 2147483647"))?;
            self.write(&cred, &file, at, &record.to_bytes(), WriteMode::default())?;
        }
        self.fsync(&file)
    }

    /// Removes a name after a failure, whose error is reported.
    fn remove_quietly(&self, name: &str) {
        drop(self.root().and_then(|root| self.unlink(&Cred::root(), &root, name.as_bytes())));
    }

    /// Replaces a quota file with 32-bit records by one with 64-bit ones, `records`. The old file
    /// gets the name `quota.TYPE_32.orig`.
    ///
    /// # Errors
    /// [`Error::UnsafeQuotaFile`]; [`Error::Exists`] if another file has that name;
    /// [`Error::NoSpace`]; as [`Ffs::create`] and [`Ffs::write`]. The quota file is the old one.
    pub fn convert_quota_file(
        &self,
        kind: QuotaType,
        records: &BTreeMap<u32, Dqblk>,
    ) -> Result<()> {
        let (root, cred) = (self.root()?, Cred::root());
        let old = self.quota_file(kind)?;
        check_owner(kind, &self.getattr(&old))?;
        self.check_names(kind, &old)?;
        let (name, new, kept) = (kind.file_name(), new_name(kind), kept_name(kind));
        let is_kept = match self.kept_file(kind)? {
            Some(ino) if ino == old.ino() => true,
            Some(_) => return Err(Error::Exists),
            None => false,
        };
        // An earlier conversion that did not end may have left a part of the new file.
        match self.unlink(&cred, &root, new.as_bytes()) {
            Ok(()) | Err(Error::NotFound) => {}
            Err(e) => return Err(e),
        }
        let replace = || {
            self.new_quota_file(&new, records)?;
            // The old file keeps its name until the new one is durable.
            if !is_kept {
                self.link(&cred, &old, &root, kept.as_bytes())?;
            }
            let (from, to) = ((&root, new.as_bytes()), (&root, name.as_bytes()));
            self.rename(&cred, from, to, RenameMode::Replace).inspect_err(|_| {
                if !is_kept {
                    self.remove_quietly(&kept);
                }
            })
        };
        replace().inspect_err(|_| self.remove_quietly(&new))?;
        self.fsync(&root)
    }

    /// Repairs a quota file that was truncated: writes its header, or removes a part of a record at
    /// its end. `None`: it has neither defect, or it does not exist.
    ///
    /// # Errors
    /// [`Error::UnsafeQuotaFile`]; as [`Ffs::write`] and [`Ffs::setattr`].
    pub fn repair_quota_file(&self, kind: QuotaType) -> Result<Option<QuotaRepair>> {
        let file = match self.quota_file(kind) {
            Ok(file) => file,
            Err(Error::NotFound) => return Ok(None),
            Err(e) => return Err(e),
        };
        let attr = self.getattr(&file);
        check_owner(kind, &attr)?;
        let mut start = [0; QuotaHeader::SIZE];
        let n = self.read(&file, 0, &mut start)?;
        let (header, start) = (QuotaHeader::new_bytes(), start.get(..n).unwrap_or(&[]));
        if quota::is_truncated_header(attr.size, start) {
            self.write(&Cred::root(), &file, 0, &header, WriteMode::default())?;
            return Ok(Some(QuotaRepair::Header));
        }
        let partial = attr.size % Dqblk::SIZE as u64;
        let format = quota::examine(file.ino(), attr.size, start);
        if partial == 0 || !matches!(format, Ok(RecordFormat::Records64)) {
            return Ok(None);
        }
        let whole = attr.size - partial;
        let set = SetAttr { size: Some(whole), ..SetAttr::default() };
        self.setattr(&Cred::root(), &file, &set)?;
        Ok(quota::id_at(whole).map(QuotaRepair::Record))
    }

    /// Sets the four limits of an id to those of `limits`, in the quota file and in memory. Its
    /// usage and times are not read. [`Ffs::sync`] makes the record durable.
    ///
    /// # Errors
    /// [`Error::Invalid`] for an id that is not counted, if these quotas are off, or if the file
    /// has too many records; [`Error::ReadOnly`]; [`Error::TooBig`] and [`Error::NoSpace`] if the
    /// file cannot have the record; the device's. The limits are as they were.
    pub fn set_quota(&self, kind: QuotaType, id: u32, limits: &Dqblk) -> Result<()> {
        self.change_quota(kind, id, Change::Limits(limits))
    }

    /// Sets the lengths of the grace periods in seconds; 0 is the default of seven days.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a negative length; as [`Ffs::set_quota`].
    pub fn set_quota_grace(&self, kind: QuotaType, grace: Grace) -> Result<()> {
        if grace.blocks < 0 || grace.inodes < 0 {
            return Err(Error::Invalid("a grace period has no negative length"));
        }
        self.change_quota(kind, 0, Change::Grace(grace))
    }

    fn change_quota(&self, kind: QuotaType, id: u32, change: Change<'_>) -> Result<()> {
        self.retry_after_reclaim(|| {
            let _op = self.begin()?;
            self.0.change_quota(kind, id, change)
        })
    }
}

/// Fails if others than root may have changed a quota file.
fn check_owner(kind: QuotaType, attr: &Attr) -> Result<()> {
    let name = kind.file_name();
    let why = if attr.kind != FileType::Regular {
        "it is no regular file; remove it, and create one with `ffs quotacheck`".to_owned()
    } else if attr.uid != 0 {
        format!("user {} owns it; check its content, then `chown 0:5 {name}`", attr.uid)
    } else if attr.perm & WRITABLE != 0 {
        let mode = attr.perm;
        format!("its mode {mode:o} lets others write; check its content, then `chmod 640 {name}`")
    } else {
        return Ok(());
    };
    Err(Error::UnsafeQuotaFile { name, why })
}

/// The name of the new file while a quota file is converted.
fn new_name(kind: QuotaType) -> String {
    format!("{}_64.new", kind.file_name())
}

/// The name that an old quota file gets.
fn kept_name(kind: QuotaType) -> String {
    format!("{}_32.orig", kind.file_name())
}
