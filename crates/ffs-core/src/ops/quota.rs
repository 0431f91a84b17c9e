//! Turning quotas on: finding and creating the quota files in the root directory.
//!
//! Reference: `spec/on-disk-format.md` §15.

use super::Vnode;
use crate::cred::Cred;
use crate::error::{Error, Result};
use crate::mount::Ffs;
use crate::options::{QuotaOption, QuotaOptions};
use crate::types::{NodeKind, SetAttr, WriteMode};
use ffs_ondisk::GID_OPERATOR;
use ffs_ondisk::quota::{MODE, QuotaHeader, QuotaType};

impl Ffs {
    /// Turns quotas on, as the mount options do.
    ///
    /// # Errors
    /// [`Error::NoQuotaFile`]; [`Error::Busy`] if they are on; [`Error::Format`] for a damaged
    /// quota file; the device's. Quotas stay as they were.
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
        let files = found.each_ref().map(|file| file.as_ref().map(|file| file.ip.clone()));
        self.quotas_on(files, &on)
    }

    fn quota_file(&self, kind: QuotaType) -> Result<Vnode> {
        self.lookup(&Cred::root(), &self.root()?, kind.file_name().as_bytes())
    }

    /// Creates an empty quota file, unless the root directory has one. Returns whether it did.
    ///
    /// # Errors
    /// As [`Ffs::create`] and [`Ffs::write`].
    pub fn create_quota_file(&self, kind: QuotaType) -> Result<bool> {
        match self.quota_file(kind) {
            Ok(_) => return Ok(false),
            Err(Error::NotFound) => {}
            Err(e) => return Err(e),
        }
        let (root, name) = (self.root()?, kind.file_name().as_bytes());
        let cred = Cred::root();
        let file = self.create(&cred, &root, name, NodeKind::Regular, MODE)?;
        let owner = SetAttr { uid: Some(0), gid: Some(GID_OPERATOR), ..SetAttr::default() };
        let header = QuotaHeader::new_bytes();
        let filled = self
            .setattr(&cred, &file, &owner)
            .and_then(|_| self.write(&cred, &file, 0, &header, WriteMode::default()));
        if filled.is_err() {
            drop(self.unlink(&cred, &root, name));
        }
        filled.map(|_| true)
    }
}
