//! The client of a running mount: quotas. `server::quota` describes the messages.

use crate::control::{Control, version_mismatch};
use crate::error::MountError;
use ffs_core::{Dqblk, Grace, QuotaType};

impl Control {
    /// The limits and the usage of one id.
    ///
    /// # Errors
    /// [`MountError::Server`]: these quotas are off. [`MountError::NotAllowed`]: the caller is
    /// neither root nor the user who mounted, and it is the quota of somebody else.
    pub fn quota(&self, kind: QuotaType, id: u32) -> Result<Dqblk, MountError> {
        let answer = self.command(&format!("quota get {kind} {id}"))?;
        record(&answer).map(|(_, record)| record).ok_or_else(version_mismatch)
    }

    /// The id on the volume of the user, or the group, that runs this program. Mount options may
    /// map it.
    ///
    /// # Errors
    /// As [`Control::quota`]; [`MountError::Server`]: the user has none.
    pub fn own_quota_id(&self, kind: QuotaType) -> Result<u32, MountError> {
        self.command(&format!("quota own {kind}"))?.parse().map_err(|_| version_mismatch())
    }

    /// The limits and the usage of all ids that have any, sorted by id.
    ///
    /// # Errors
    /// As [`Control::quota`].
    pub fn quotas(&self, kind: QuotaType) -> Result<Vec<(u32, Dqblk)>, MountError> {
        let (mut all, mut from) = (Vec::new(), 0);
        loop {
            let page = self.command(&format!("quota list {kind} {from}"))?;
            let (next, lines) = page.split_once('\n').unwrap_or((&page, ""));
            for line in lines.lines() {
                all.push(record(line).ok_or_else(version_mismatch)?);
            }
            match next.parse() {
                Ok(0) => return Ok(all),
                Ok(next) if next > from => from = next,
                _ => return Err(version_mismatch()),
            }
        }
    }

    /// The lengths of the grace periods.
    ///
    /// # Errors
    /// As [`Control::quota`].
    pub fn quota_grace(&self, kind: QuotaType) -> Result<Grace, MountError> {
        let answer = self.command(&format!("quota grace {kind}"))?;
        let numbers =
            answer.split_once('\t').and_then(|(b, i)| Some((b.parse().ok()?, i.parse().ok()?)));
        let (blocks, inodes) = numbers.ok_or_else(version_mismatch)?;
        Ok(Grace { blocks, inodes })
    }

    /// Sets the four limits of an id to those of `limits`.
    ///
    /// # Errors
    /// As [`Control::quota`].
    pub fn set_quota(&self, kind: QuotaType, id: u32, limits: &Dqblk) -> Result<(), MountError> {
        let Dqblk { bsoftlimit, bhardlimit, isoftlimit, ihardlimit, .. } = limits;
        let limits = format!("{bsoftlimit} {bhardlimit} {isoftlimit} {ihardlimit}");
        self.command(&format!("quota set {kind} {id} {limits}")).map(drop)
    }

    /// Sets the lengths of the grace periods.
    ///
    /// # Errors
    /// As [`Control::quota`].
    pub fn set_quota_grace(&self, kind: QuotaType, grace: Grace) -> Result<(), MountError> {
        let Grace { blocks, inodes } = grace;
        self.command(&format!("quota period {kind} {blocks} {inodes}")).map(drop)
    }

    /// Makes changes of quotas durable, and everything else that was changed before.
    ///
    /// # Errors
    /// As [`Control::quota`]; [`MountError::Server`]: not everything could be written.
    pub fn sync_quotas(&self) -> Result<(), MountError> {
        self.command("quota sync").map(drop)
    }

    /// Turns quotas on: those of one type, or with `None` those whose quota file exists.
    ///
    /// # Errors
    /// [`MountError::Server`]: they are on already, or the quota file is missing or damaged.
    pub fn quotaon(&self, kind: Option<QuotaType>) -> Result<(), MountError> {
        let which = kind.map_or("present".to_owned(), |kind| kind.to_string());
        self.command(&format!("quota on {which}")).map(drop)
    }

    /// Turns the quotas of one type off.
    ///
    /// # Errors
    /// As [`Control::quota`].
    pub fn quotaoff(&self, kind: QuotaType) -> Result<(), MountError> {
        self.command(&format!("quota off {kind}")).map(drop)
    }
}

fn record(line: &str) -> Option<(u32, Dqblk)> {
    let words: Vec<&str> = line.split('\t').collect();
    let [id, bsoft, bhard, blocks, isoft, ihard, inodes, btime, itime] = words[..] else {
        return None;
    };
    let record = Dqblk {
        bsoftlimit: bsoft.parse().ok()?,
        bhardlimit: bhard.parse().ok()?,
        curblocks: blocks.parse().ok()?,
        isoftlimit: isoft.parse().ok()?,
        ihardlimit: ihard.parse().ok()?,
        curinodes: inodes.parse().ok()?,
        btime: btime.parse().ok()?,
        itime: itime.parse().ok()?,
    };
    Some((id.parse().ok()?, record))
}
