//! Quotas on the control channel: the messages that begin with `quota`.
//!
//! | message | effect |
//! | --- | --- |
//! | `quota get TYPE ID` | returns the record of an id |
//! | `quota own TYPE` | returns the id that the caller, or its group, has on the volume |
//! | `quota list TYPE ID` | returns records from that id on |
//! | `quota grace TYPE` | returns the lengths of the grace periods, in seconds |
//! | `quota set TYPE ID BSOFT BHARD ISOFT IHARD` | sets limits |
//! | `quota period TYPE BLOCKS INODES` | sets the lengths of the grace periods |
//! | `quota sync` | makes changes durable |
//! | `quota on WHICH` | turns quotas on: `user`, `group`, or `present` for those with a file |
//! | `quota off TYPE` | turns quotas off |
//!
//! TYPE is `user` or `group`. The reply to `list` is `ok NEXT` and one line for each record, with
//! fields separated by tabs: the id, soft and hard limit and usage of blocks, the same of inodes,
//! and the ends of the two grace periods. If NEXT is not 0, the list continues at that id.
//!
//! *Owner* as in `control`. Other users may get their own record and that of their group.

use super::Server;
use super::control::done;
use crate::channel::MESSAGE;
use crate::owners::VolumeId;
use crate::wire::{Errno, Request};
use ffs_core::{Dqblk, Grace, QuotaOption, QuotaOptions, QuotaType};

/// Records in one reply: each is shorter than 200 bytes.
const PAGE: usize = MESSAGE / 200 - 1;

/// The reply to a caller whose id `-o uid=`, `gid=` or `idmap=` does not map to one of the volume.
const NO_ID: &str = "error the mount options give you no id of the volume; name one";

impl Server {
    /// The reply to a message without its first word `quota`.
    pub(super) fn quota(
        &self,
        r: &Request<'_>,
        message: &str,
        is_owner: bool,
    ) -> Result<String, Errno> {
        let words: Vec<&str> = message.split(' ').collect();
        let own = |kind| match kind {
            QuotaType::User => self.options.owners.users.on_volume(r.uid),
            QuotaType::Group => self.options.owners.groups.on_volume(r.gid),
        };
        if let ["own", kind] = words[..] {
            return Ok(match own(type_of(kind)?) {
                VolumeId::Id(id) => format!("ok {id}"),
                VolumeId::OfFile | VolumeId::Unmapped => NO_ID.to_owned(),
            });
        }
        if let ["get", kind, id] = words[..] {
            let (kind, id) = (type_of(kind)?, id_of(id)?);
            if !is_owner && own(kind) != VolumeId::Id(id) {
                return Err(Errno::PERM);
            }
            return Ok(self.get_quota(kind, id));
        }
        if !is_owner && !matches!(words[..], ["grace", _]) {
            return Err(Errno::PERM);
        }
        match words[..] {
            ["list", kind, from] => Ok(self.list_quotas(type_of(kind)?, id_of(from)?)),
            ["grace", kind] => Ok(match self.fs.quota_grace(type_of(kind)?) {
                Some(grace) => format!("ok {}\t{}", grace.blocks, grace.inodes),
                None => off(),
            }),
            ["set", kind, id, bsoft, bhard, isoft, ihard] => {
                let limits = Dqblk {
                    bsoftlimit: number(bsoft)?,
                    bhardlimit: number(bhard)?,
                    isoftlimit: number(isoft)?,
                    ihardlimit: number(ihard)?,
                    ..Dqblk::default()
                };
                Ok(done(&self.fs.set_quota(type_of(kind)?, id_of(id)?, &limits)))
            }
            ["period", kind, blocks, inodes] => {
                let seconds = |word: &str| word.parse().map_err(|_| Errno::INVAL);
                let grace = Grace { blocks: seconds(blocks)?, inodes: seconds(inodes)? };
                Ok(done(&self.fs.set_quota_grace(type_of(kind)?, grace)))
            }
            ["sync"] => Ok(done(&self.fs.sync())),
            ["on", which] => Ok(done(&self.fs.quotaon(options_of(which)?))),
            ["off", kind] => {
                let kind = type_of(kind)?;
                let was_on = self.fs.quota_grace(kind).is_some();
                self.fs.quotaoff(kind);
                Ok(if was_on { "ok".to_owned() } else { off() })
            }
            _ => Err(Errno::INVAL),
        }
    }

    fn get_quota(&self, kind: QuotaType, id: u32) -> String {
        match self.fs.quotas_from(kind, id, 1) {
            None => off(),
            Some(found) => {
                let record = found.into_iter().find(|(i, _)| *i == id);
                format!("ok {}", line(id, &record.map(|(_, r)| r).unwrap_or_default()))
            }
        }
    }

    fn list_quotas(&self, kind: QuotaType, from: u32) -> String {
        let Some(mut page) = self.fs.quotas_from(kind, from, PAGE + 1) else { return off() };
        let next = if page.len() > PAGE { page.pop().map_or(0, |(id, _)| id) } else { 0 };
        let lines: Vec<String> = page.iter().map(|(id, record)| line(*id, record)).collect();
        format!("ok {next}\n{}", lines.join("\n"))
    }
}

fn line(id: u32, r: &Dqblk) -> String {
    let fields = [
        r.bsoftlimit.to_string(),
        r.bhardlimit.to_string(),
        r.curblocks.to_string(),
        r.isoftlimit.to_string(),
        r.ihardlimit.to_string(),
        r.curinodes.to_string(),
        r.btime.to_string(),
        r.itime.to_string(),
    ];
    format!("{id}\t{}", fields.join("\t"))
}

fn off() -> String {
    "error these quotas are off; `ffs quotaon MOUNT` turns them on".to_owned()
}

fn type_of(word: &str) -> Result<QuotaType, Errno> {
    match word {
        "user" => Ok(QuotaType::User),
        "group" => Ok(QuotaType::Group),
        _ => Err(Errno::INVAL),
    }
}

fn options_of(word: &str) -> Result<QuotaOptions, Errno> {
    let (on, none) = (QuotaOption::On, QuotaOption::Off);
    match word {
        "user" => Ok(QuotaOptions { user: on, group: none }),
        "group" => Ok(QuotaOptions { user: none, group: on }),
        "present" => Ok(QuotaOptions::PRESENT),
        _ => Err(Errno::INVAL),
    }
}

fn id_of(word: &str) -> Result<u32, Errno> {
    word.parse().map_err(|_| Errno::INVAL)
}

fn number(word: &str) -> Result<u64, Errno> {
    word.parse().map_err(|_| Errno::INVAL)
}
