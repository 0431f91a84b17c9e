//! Changes parameters of an existing file system: BSD's `tunefs` (`spec/allocation.md` §7).
//!
//! **Purpose.** [`tunefs`] changes parameters of policy in the superblock, never the layout;
//! [`settings`] is the listing of `tunefs -p`.
//!
//! **Invariants.**
//! 1. All requested changes are checked before the first write: either all are made or none.
//! 2. Only the fields concerned and the check hash of the superblock change.
//! 3. No unsafe volume becomes mountable: after the journal of a dirty volume is disabled, the
//!    volume requires a check.
//!
//! References: `spec/allocation.md` §7, `spec/on-disk-format.md` §3 and §14.

mod enable;
mod journal;
#[cfg(test)]
mod tests;

use std::fmt;

use ffs_device::BlockDevice;
use ffs_ondisk::sbsearch::Source;
use ffs_ondisk::superblock::FsFlags;
use ffs_ondisk::{CgNo, Superblock};
use serde::Serialize;

use crate::newfs::{MINFREE, Optim, label_problem};
use crate::{AdminError, Volume};

/// Requested changes; `None` leaves a setting unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TunefsOptions {
    /// `-A`: write every backup superblock too.
    pub all_copies: bool,
    /// `-a`: POSIX.1e access-control lists.
    pub acls: Option<bool>,
    /// `-N`: NFSv4 access-control lists.
    pub nfs4acls: Option<bool>,
    /// `-e`: most blocks one file takes from a group before it moves on.
    pub maxbpg: Option<u32>,
    /// `-f`: expected average file size, bytes.
    pub avgfilesize: Option<u32>,
    /// `-s`: expected files per directory.
    pub avgfpdir: Option<u32>,
    /// `-j`: soft-updates journal.
    pub journal: Option<bool>,
    /// `-S`: bytes of a journal that is made; by default BSD's formula.
    pub journal_size: Option<u64>,
    /// Time of a journal that is made, seconds since 1970.
    pub now: i64,
    /// `-J`: gjournal.
    pub gjournal: Option<bool>,
    /// `-k`: fragments at the head of each group kept for metadata.
    pub metaspace: Option<u32>,
    /// `-L`: the volume's label.
    pub label: Option<String>,
    /// `-l`: MAC labels per file.
    pub multilabel: Option<bool>,
    /// `-m`: percent kept for root.
    pub minfree: Option<u32>,
    /// `-n`: soft updates.
    pub soft_updates: Option<bool>,
    /// `-o`: what to optimise.
    pub optim: Option<Optim>,
    /// `-t`: discard freed blocks.
    pub trim: Option<bool>,
}

/// One setting of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// The flag that changes it, such as `-m`.
    pub flag: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Setting { flag, name, value } = self;
        let line = format!("{:<52} {value}", format!("{name}: ({flag})"));
        f.write_str(line.trim_end())
    }
}

/// A requested change of a setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Change {
    /// The flag that changes it.
    pub flag: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Its value before.
    pub from: String,
    /// Its value now.
    pub to: String,
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Change { name, from, to, .. } = self;
        if from == to {
            write!(f, "{name} remains unchanged as {to}")
        } else {
            write!(f, "{name} changes from {from} to {to}")
        }
    }
}

/// Result of [`tunefs`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TunefsReport {
    /// Every requested setting, including those that had the value already.
    pub changes: Vec<Change>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

const ENABLED: &str = "enabled";
const DISABLED: &str = "disabled";

/// The settings that are one bit of the flags: letter, name, bit.
const FLAG_SETTINGS: [(&str, &str, FsFlags); 7] = [
    ("-a", "POSIX.1e ACLs", FsFlags::ACLS),
    ("-N", "NFSv4 ACLs", FsFlags::NFS4ACLS),
    ("-l", "MAC multilabel", FsFlags::MULTILABEL),
    ("-n", "soft updates", FsFlags::DOSOFTDEP),
    ("-j", "soft updates journaling", FsFlags::SUJ),
    ("-J", "gjournal", FsFlags::GJOURNAL),
    ("-t", "trim", FsFlags::TRIM),
];

/// The listing of `tunefs -p`.
#[must_use]
pub fn settings(sb: &Superblock) -> Vec<Setting> {
    let flags = FLAG_SETTINGS.into_iter().map(|(flag, name, bit)| Setting {
        flag,
        name,
        value: on_off(sb.flags().contains(bit)).to_owned(),
    });
    let values = VALUES.iter().map(|v| Setting {
        flag: v.flag,
        name: v.name,
        value: format!("{}{}", (v.get)(sb), v.unit),
    });
    let optim = Setting {
        flag: "-o",
        name: "optimization preference",
        value: optim_name(sb.f.optim).to_owned(),
    };
    let label = Setting {
        flag: "-L",
        name: "volume label",
        value: String::from_utf8_lossy(sb.volname()).into_owned(),
    };
    flags.chain(values).chain([optim, label]).collect()
}

/// A setting that is a number.
struct Value {
    flag: &'static str,
    name: &'static str,
    unit: &'static str,
    range: std::ops::RangeInclusive<u32>,
    get: fn(&Superblock) -> i64,
    set: fn(&mut Superblock, u32),
    wanted: fn(&TunefsOptions) -> Option<u32>,
    /// Whether the superblocks from before FreeBSD 5 have it.
    old: bool,
}

const MAX: u32 = i32::MAX as u32;

const VALUES: [Value; 5] = [
    Value {
        flag: "-e",
        name: "maximum blocks per file in a cylinder group",
        unit: "",
        range: 1..=MAX,
        get: |sb| sb.f.maxbpg.into(),
        set: |sb, v| sb.f.maxbpg = v as i32,
        wanted: |o| o.maxbpg,
        old: true,
    },
    Value {
        flag: "-f",
        name: "average file size",
        unit: "",
        range: 1..=MAX,
        get: |sb| sb.f.avgfilesize.into(),
        set: |sb, v| sb.f.avgfilesize = v,
        wanted: |o| o.avgfilesize,
        old: false,
    },
    Value {
        flag: "-s",
        name: "average number of files in a directory",
        unit: "",
        range: 1..=MAX,
        get: |sb| sb.f.avgfpdir.into(),
        set: |sb, v| sb.f.avgfpdir = v,
        wanted: |o| o.avgfpdir,
        old: false,
    },
    Value {
        flag: "-m",
        name: "minimum percentage of free space",
        unit: "%",
        range: 0..=99,
        get: |sb| sb.f.minfree.into(),
        set: |sb, v| sb.f.minfree = v as i32,
        wanted: |o| o.minfree,
        old: true,
    },
    Value {
        flag: "-k",
        name: "space to hold for metadata blocks",
        unit: "",
        range: 0..=MAX,
        get: |sb| sb.f.metaspace,
        set: |sb, v| sb.f.metaspace = v.into(),
        wanted: |o| o.metaspace,
        old: false,
    },
];

fn on_off(on: bool) -> &'static str {
    if on { ENABLED } else { DISABLED }
}

fn optim_name(code: i32) -> &'static str {
    match code {
        0 => "time",
        1 => "space",
        _ => "unknown",
    }
}

/// Changes the volume on `dev` according to `opts`. The caller ensures that it is not mounted.
///
/// # Errors
/// [`AdminError::Option`] for a value out of range and [`AdminError::Refused`] for a change that
/// the volume does not allow, both before any write; the problem of the volume; the device's.
pub fn tunefs(dev: &dyn BlockDevice, opts: &TunefsOptions) -> Result<TunefsReport, AdminError> {
    let mut vol = Volume::open(dev)?;
    if vol.source != Source::Primary {
        return Err(AdminError::Refused("the superblock is damaged: run fsck first".into()));
    }
    let mut report = TunefsReport::default();
    let wanted = requested(opts);
    if wanted.is_empty() && !opts.all_copies {
        return Ok(report);
    }
    if !vol.geo.variant.is_writable() {
        return Err(AdminError::Refused(vol.geo.variant.read_only_reason().into()));
    }
    let before = settings(&vol.sb);
    let flags_before = vol.sb.flags();
    set_values(&mut vol, opts)?;
    set_label(&mut vol.sb, opts)?;
    if let Some(optim) = opts.optim {
        vol.sb.f.optim = optim.code();
    }
    set_flags(&mut vol.sb, opts)?;
    let had_journal = flags_before.contains(FsFlags::SUJ);
    let mut made = None;
    let journal = match opts.journal {
        Some(false) => journal::disable(&mut vol, had_journal, &mut report.notes)?,
        Some(true) if !had_journal => {
            made = Some(enable::plan(&mut vol, opts.journal_size, opts.now, &mut report.notes)?);
            None
        }
        _ => None,
    };
    for (old, new) in before.into_iter().zip(settings(&vol.sb)) {
        if wanted.contains(&old.flag) {
            let Setting { flag, name, value } = old;
            report.changes.push(Change { flag, name, from: value, to: new.value });
        }
    }
    for Change { flag, name, from, to } in &report.changes {
        tracing::info!(target: "ffs::tunefs", flag, name, %from, %to, "changing a setting");
    }
    advise(&vol.sb, opts, &mut report.notes);
    if let Some(plan) = made {
        plan.write(&vol, flags_before)?;
    }
    write(&vol, opts, journal)?;
    Ok(report)
}

/// The flags of all requested settings.
fn requested(opts: &TunefsOptions) -> Vec<&'static str> {
    let values = VALUES.iter().filter(|v| (v.wanted)(opts).is_some()).map(|v| v.flag);
    let flags = wanted_flags(opts).into_iter().filter(|(_, want)| want.is_some());
    let flags = flags.map(|((flag, _, _), _)| flag);
    let optim = opts.optim.map(|_| "-o");
    let label = opts.label.as_ref().map(|_| "-L");
    values.chain(flags).chain(optim).chain(label).collect()
}

type FlagSetting = (&'static str, &'static str, FsFlags);

fn wanted_flags(opts: &TunefsOptions) -> [(FlagSetting, Option<bool>); 7] {
    let wanted = [
        opts.acls,
        opts.nfs4acls,
        opts.multilabel,
        opts.soft_updates,
        opts.journal,
        opts.gjournal,
        opts.trim,
    ];
    std::array::from_fn(|i| (FLAG_SETTINGS[i], wanted[i]))
}

fn set_values(vol: &mut Volume<'_>, opts: &TunefsOptions) -> Result<(), AdminError> {
    for value in &VALUES {
        let Some(mut wanted) = (value.wanted)(opts) else { continue };
        if !value.range.contains(&wanted) {
            let (low, high) = (value.range.start(), value.range.end());
            return Err(AdminError::option(value.flag, format!("from {low} to {high}")));
        }
        if !value.old {
            require_new_superblock(&vol.sb, value.flag)?;
        }
        if value.flag == "-k" {
            // Whole blocks, and at most half a group.
            wanted = wanted.min(vol.geo.fpg / 2);
            wanted -= wanted % vol.geo.frag;
        }
        (value.set)(&mut vol.sb, wanted);
    }
    Ok(())
}

/// Refuses a setting that superblocks from before FreeBSD 5 lack (`spec/on-disk-format.md` §3.4).
fn require_new_superblock(sb: &Superblock, flag: &str) -> Result<(), AdminError> {
    if !sb.old_layout {
        return Ok(());
    }
    let why = "the superblock of this volume is older than this setting";
    Err(AdminError::Refused(format!("{flag}: {why}")))
}

fn set_label(sb: &mut Superblock, opts: &TunefsOptions) -> Result<(), AdminError> {
    let Some(label) = &opts.label else { return Ok(()) };
    if let Some(why) = label_problem(label) {
        return Err(AdminError::option("-L", why));
    }
    require_new_superblock(sb, "-L")?;
    sb.set_volname(label.as_bytes());
    Ok(())
}

fn set_flags(sb: &mut Superblock, opts: &TunefsOptions) -> Result<(), AdminError> {
    let refuse = |why: &str| Err(AdminError::Refused(why.into()));
    let was = sb.flags();
    let mut flags = was;
    for ((flag, _, bit), want) in wanted_flags(opts) {
        let Some(want) = want else { continue };
        if want && bit.bits() >= 0x80 {
            require_new_superblock(sb, flag)?;
        }
        flags.set(bit, want);
        if bit == FsFlags::DOSOFTDEP {
            // A mount that ended by a crash leaves this mark in order to restore the flag; an
            // explicit setting overrides it.
            flags.remove(FsFlags::SOFTDEP_TEMPORARY);
        }
    }
    if flags.contains(FsFlags::ACLS | FsFlags::NFS4ACLS) {
        return refuse("POSIX.1e ACLs and NFSv4 ACLs are mutually exclusive");
    }
    let newly = flags.difference(was);
    if newly.contains(FsFlags::DOSOFTDEP) && !sb.is_clean() {
        return refuse("soft updates cannot be enabled until fsck is run");
    }
    let contradiction = opts.soft_updates == Some(false) || opts.journal.is_none();
    if flags.contains(FsFlags::SUJ) && !flags.contains(FsFlags::DOSOFTDEP) && contradiction {
        return refuse("the journal needs soft updates: disable it too (-j)");
    }
    sb.set_flags(flags);
    Ok(())
}

/// Adds a note if `minfree` and the optimisation preference contradict each other.
fn advise(sb: &Superblock, opts: &TunefsOptions, notes: &mut Vec<String>) {
    if opts.minfree.is_none() && opts.optim.is_none() {
        return;
    }
    let plenty = sb.f.minfree >= MINFREE as i32;
    let advice = match (plenty, sb.f.optim) {
        (true, 1) => Some(("time", ">=")),
        (false, 0) => Some(("space", "<")),
        _ => None,
    };
    if let Some((what, sign)) = advice {
        notes.push(format!("should optimize for {what} with minfree {sign} {MINFREE}%"));
    }
}

/// Writes the superblock, then its copies, then the journal's inode. Every system handles each
/// state in between.
fn write(
    vol: &Volume<'_>,
    opts: &TunefsOptions,
    journal: Option<journal::Edit>,
) -> Result<(), AdminError> {
    vol.write_superblock()?;
    vol.device().flush()?;
    if opts.all_copies {
        for c in 0..vol.geo.ncg {
            vol.write_backup(CgNo(c))?;
        }
    }
    if let Some(edit) = journal {
        edit.write(vol)?;
    }
    Ok(vol.device().flush()?)
}
