//! What the quota commands share: the volume with its quotas, names of users, and columns.
//!
//! # Invariants
//! 1. Of an image the usage is counted when it is opened, so it is right even if the quota files
//!    are old. A mount counts while it is used.
//! 2. Limits are shown in units of 1024 bytes and of inodes, as BSD's commands do.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use ffs_core::{Dqblk, Grace, MountOptions, QuotaOption, QuotaOptions, QuotaType};
use ffs_fuse::{Control, MountError};
use serde::Serialize;

use crate::fail::{Failure, show};
use crate::owner;
use crate::session::{self, Session};

/// A volume with quotas: an image, or a mount.
pub(crate) enum QuotaVolume {
    Image(Box<Session>),
    Mount(Control, String),
}

/// Whether the command changes quotas.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Show,
    Change,
}

/// The options that turn on quotas of the types `kinds`.
pub(crate) fn options_for(kinds: &[QuotaType]) -> QuotaOptions {
    let option = |kind| match kinds.contains(&kind) {
        true => QuotaOption::On,
        false => QuotaOption::Off,
    };
    QuotaOptions { user: option(QuotaType::User), group: option(QuotaType::Group) }
}

/// The types that `-u` and `-g` select; users if neither is given.
pub(crate) fn kinds(user: bool, group: bool) -> Vec<QuotaType> {
    match (user, group) {
        (_, false) => vec![QuotaType::User],
        (false, true) => vec![QuotaType::Group],
        (true, true) => QuotaType::ALL.to_vec(),
    }
}

impl QuotaVolume {
    /// Opens an image, or finds the mount on a directory.
    ///
    /// # Errors
    /// It cannot be opened, or has no such quota file.
    pub(crate) fn open(name: &OsStr, kinds: &[QuotaType], how: Use) -> Result<Self, Failure> {
        if Path::new(name).is_dir() {
            let control = Control::open(Path::new(name)).map_err(Failure::plain)?;
            return Ok(QuotaVolume::Mount(control, show(name.as_bytes())));
        }
        let quotas = options_for(kinds);
        let options = MountOptions { quotas, ..session::offline() };
        let session = match how {
            Use::Change => Session::write_with(name, &options)?,
            Use::Show => Session::read_with(name, &MountOptions { read_only: true, ..options })?,
        };
        Ok(QuotaVolume::Image(Box::new(session)))
    }

    /// The image or the mount as its user named it.
    pub(crate) fn name(&self) -> &str {
        match self {
            QuotaVolume::Image(session) => session.image(),
            QuotaVolume::Mount(_, name) => name,
        }
    }

    /// The records of all ids.
    pub(crate) fn list(&self, kind: QuotaType) -> Result<Vec<(u32, Dqblk)>, Failure> {
        match self {
            QuotaVolume::Image(session) => Ok(session.ffs.quotas(kind).unwrap_or_default()),
            QuotaVolume::Mount(control, _) => control.quotas(kind).map_err(|e| self.failed(&e)),
        }
    }

    /// The record of one id.
    pub(crate) fn get(&self, kind: QuotaType, id: u32) -> Result<Dqblk, Failure> {
        match self {
            QuotaVolume::Image(session) => {
                let found = session.ffs.quotas_from(kind, id, 1).unwrap_or_default();
                let own = found.into_iter().find(|(found, _)| *found == id);
                Ok(own.map(|(_, record)| record).unwrap_or_default())
            }
            QuotaVolume::Mount(control, _) => control.quota(kind, id).map_err(|e| self.failed(&e)),
        }
    }

    /// The lengths of the grace periods.
    pub(crate) fn grace(&self, kind: QuotaType) -> Result<Grace, Failure> {
        match self {
            QuotaVolume::Image(session) => {
                let why = "these quotas are off";
                session.ffs.quota_grace(kind).ok_or_else(|| Failure::new(self.name(), why))
            }
            QuotaVolume::Mount(control, _) => {
                control.quota_grace(kind).map_err(|e| self.failed(&e))
            }
        }
    }

    /// Sets the limits of an id.
    pub(crate) fn set(&self, kind: QuotaType, id: u32, limits: &Dqblk) -> Result<(), Failure> {
        match self {
            QuotaVolume::Image(session) => {
                let set = session.ffs.set_quota(kind, id, limits);
                set.map_err(|e| Failure::new(self.name(), e))
            }
            QuotaVolume::Mount(control, _) => {
                control.set_quota(kind, id, limits).map_err(|e| self.failed(&e))
            }
        }
    }

    /// Sets the lengths of the grace periods.
    pub(crate) fn set_grace(&self, kind: QuotaType, grace: Grace) -> Result<(), Failure> {
        match self {
            QuotaVolume::Image(session) => {
                let set = session.ffs.set_quota_grace(kind, grace);
                set.map_err(|e| Failure::new(self.name(), e))
            }
            QuotaVolume::Mount(control, _) => {
                control.set_quota_grace(kind, grace).map_err(|e| self.failed(&e))
            }
        }
    }

    /// Makes changes of a mount durable. Those of an image are when it is unmounted.
    pub(crate) fn sync(&self) -> Result<(), Failure> {
        match self {
            QuotaVolume::Image(_) => Ok(()),
            QuotaVolume::Mount(control, _) => control.sync_quotas().map_err(|e| self.failed(&e)),
        }
    }

    /// The id on the volume of the user or group that runs this program.
    pub(crate) fn own_id(&self, kind: QuotaType) -> Result<u32, Failure> {
        match (self, kind) {
            (QuotaVolume::Mount(control, _), _) => {
                control.own_quota_id(kind).map_err(|e| self.failed(&e))
            }
            (_, QuotaType::User) => Ok(rustix::process::getuid().as_raw()),
            (_, QuotaType::Group) => Ok(rustix::process::getgid().as_raw()),
        }
    }

    /// The id of a user or group, by name or number.
    pub(crate) fn id_of(&self, kind: QuotaType, name: &str) -> Result<u32, Failure> {
        owner::id_of(self.session(), kind, name)
    }

    /// The names of users or groups, by id.
    pub(crate) fn names(&self, kind: QuotaType) -> Result<BTreeMap<u32, String>, Failure> {
        owner::names(self.session(), kind)
    }

    fn session(&self) -> Option<&Session> {
        match self {
            QuotaVolume::Image(session) => Some(session),
            QuotaVolume::Mount(..) => None,
        }
    }

    fn failed(&self, error: &MountError) -> Failure {
        Failure::new(self.name(), error)
    }

    /// Unmounts an image. An error in `result` has precedence.
    pub(crate) fn finish_with<T>(self, result: Result<T, Failure>) -> Result<T, Failure> {
        match self {
            QuotaVolume::Image(session) => session.finish_with(result),
            QuotaVolume::Mount(..) => result,
        }
    }
}

/// A record as `--json` has it.
#[derive(Serialize)]
pub(crate) struct JsonQuota {
    #[serde(rename = "type")]
    kind: String,
    id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    blocks512: JsonLimits,
    inodes: JsonLimits,
}

#[derive(Serialize)]
struct JsonLimits {
    used: u64,
    soft: u64,
    hard: u64,
    over: bool,
    /// Seconds since 1970; above the soft limit only.
    #[serde(skip_serializing_if = "Option::is_none")]
    grace_ends: Option<i64>,
}

impl JsonQuota {
    pub(crate) fn new(kind: QuotaType, id: u32, name: Option<String>, r: &Dqblk) -> JsonQuota {
        let (blocks, inodes) = (Column::blocks(id, r), Column::inodes(id, r));
        let part = |c: &Column, scale| JsonLimits {
            used: c.used * scale,
            soft: c.soft * scale,
            hard: c.hard * scale,
            over: c.is_over(),
            grace_ends: c.expires(),
        };
        JsonQuota {
            kind: kind.to_string(),
            id,
            name,
            blocks512: JsonLimits {
                used: r.curblocks,
                soft: r.bsoftlimit,
                hard: r.bhardlimit,
                ..part(&blocks, 1)
            },
            inodes: part(&inodes, 1),
        }
    }
}

/// Usage and limits of one resource, in the units of the output.
pub(crate) struct Column {
    pub(crate) used: u64,
    pub(crate) soft: u64,
    pub(crate) hard: u64,
    /// The end of the grace period. The record of id 0 has the lengths of the periods instead.
    ends: Option<i64>,
    over: bool,
}

impl Column {
    /// Blocks, in units of 1024 bytes.
    pub(crate) fn blocks(id: u32, r: &Dqblk) -> Column {
        let over = r.bsoftlimit > 0 && r.curblocks >= r.bsoftlimit
            || r.bhardlimit > 0 && r.curblocks >= r.bhardlimit;
        let kilobytes = |blocks: u64| blocks.div_ceil(2);
        let (used, soft) = (kilobytes(r.curblocks), kilobytes(r.bsoftlimit));
        Column { used, soft, hard: kilobytes(r.bhardlimit), ends: ends(id, r.btime), over }
    }

    /// Inodes.
    pub(crate) fn inodes(id: u32, r: &Dqblk) -> Column {
        let over = r.isoftlimit > 0 && r.curinodes >= r.isoftlimit
            || r.ihardlimit > 0 && r.curinodes >= r.ihardlimit;
        let (used, soft) = (r.curinodes, r.isoftlimit);
        Column { used, soft, hard: r.ihardlimit, ends: ends(id, r.itime), over }
    }

    /// Whether a limit is reached.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// The end of the grace period, if it runs.
    fn expires(&self) -> Option<i64> {
        self.ends.filter(|_| self.over && self.soft > 0 && self.used >= self.soft)
    }

    /// The column "grace": the rest of the period, or nothing.
    pub(crate) fn grace(&self) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs() as i64);
        match self.expires().map(|end| end.saturating_sub(now)) {
            None => String::new(),
            Some(left) if left <= 0 => "none".to_owned(),
            Some(left) => period(left),
        }
    }
}

fn ends(id: u32, time: i64) -> Option<i64> {
    (id != 0).then_some(time)
}

/// A period, rounded to the unit that BSD's commands show.
pub(crate) fn period(seconds: i64) -> String {
    let after = |more| seconds.saturating_add(more);
    let (minutes, hours) = (after(30) / 60, after(1800) / 3600);
    match () {
        () if hours >= 36 => format!("{}days", (hours + 12) / 24),
        () if minutes >= 60 => format!("{}:{:02}", minutes / 60, minutes % 60),
        () => format!("{minutes}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_look_as_bsd_prints_them() {
        assert_eq!(period(7 * 86400), "7days");
        assert_eq!(period(36 * 3600), "2days");
        assert_eq!(period(90 * 60), "1:30");
        assert_eq!(period(59 * 60), "59");
    }

    #[test]
    fn columns_are_in_kilobytes_and_id_0_shows_no_grace_period() {
        let r = Dqblk { bsoftlimit: 7, curblocks: 8, btime: 3, ..Dqblk::default() };
        let c = Column::blocks(10, &r);
        assert_eq!((c.used, c.soft, c.hard, c.is_over()), (4, 4, 0, true));
        assert_eq!(c.grace(), "none");
        let c = Column::blocks(0, &r);
        assert_eq!((c.is_over(), c.grace()), (true, String::new()));
        assert!(!Column::inodes(10, &r).is_over());
    }
}
