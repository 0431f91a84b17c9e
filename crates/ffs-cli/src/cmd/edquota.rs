//! `ffs edquota`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use ffs_core::{Dqblk, Grace, QuotaType};

use super::{Doc, EXIT};
use crate::fail::{Failure, Outcome, show};
use crate::parse::quota::{grace, parse_edit};
use crate::quotas::{QuotaVolume, Use};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs edquota -e disk.img:500m:600m www", "600 MB for www; 500 MB after the grace period"),
        ("ffs edquota -e /mnt:0:0:1000:1100 1001", "at most 1100 inodes, no limit of space"),
        ("ffs edquota -f disk.img -p www 1001 1002", "the limits of www for two other users"),
        ("ffs edquota -f disk.img -t 7d:12h", "grace periods of blocks and of inodes"),
    ],
    exit: EXIT,
    see_also: &["ffs-quota(1)", "ffs-repquota(8)", "ffs-quotacheck(8)", "ffs-mount(8)"],
    section: "8",
    usage_code: 1,
};

/// Set the quotas of users or groups, and the grace periods.
///
/// Usage stays below a hard limit. From a soft limit on the grace period runs; after it, nothing
/// more may be allocated until usage is below the soft limit. 0 means no limit. Root is never
/// stopped.
///
/// -e takes what BSD's edquota takes: the volume, then the soft and the hard limit of space and the
/// soft and the hard limit of inodes, separated by colons. Missing ones are 0. Space is in
/// kilobytes, or has a suffix b (bytes), k, m, g or t; inodes may have a suffix k, m or g, powers
/// of 1000. No editor is started.
///
/// The volume is an image, or the directory of a mount with quotas on. It must have the quota file
/// (`ffs quotacheck` creates it). When the command ends with success, the limits are on the device.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Users or groups, by name or number
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Quotas of users (the default)
    #[arg(short, conflicts_with = "group")]
    user: bool,
    /// Quotas of groups
    #[arg(short)]
    group: bool,
    /// The volume and the limits; may be repeated
    #[arg(short = 'e', value_name = "VOLUME[:SOFT[:HARD[:ISOFT[:IHARD]]]]")]
    edit: Vec<OsString>,
    /// Give them the limits of this user or group
    #[arg(short, value_name = "NAME", requires = "volume", conflicts_with = "edit")]
    proto: Option<String>,
    /// The volume, for -p and -t
    #[arg(short = 'f', value_name = "VOLUME")]
    volume: Option<OsString>,
    /// Lengths of the grace periods: numbers with a suffix s, m, h or d; 0: seven days
    #[arg(
        short = 't',
        value_name = "BLOCKS:INODES",
        requires = "volume",
        conflicts_with_all = ["edit", "proto", "names"],
        value_parser = grace
    )]
    times: Option<Grace>,
}

pub(crate) fn run(args: Args) -> Outcome {
    let kind = if args.group { QuotaType::Group } else { QuotaType::User };
    let usage = |text: &str| Err(Failure::usage(text));
    if args.edit.is_empty() && args.proto.is_none() && args.times.is_none() {
        return usage("nothing to set: give -e, -p or -t, or see --help");
    }
    if args.names.is_empty() && args.times.is_none() {
        return usage("give the users or groups whose quotas are to be set");
    }
    for edit in &args.edit {
        let (volume, limits) = parse_edit(edit)
            .map_err(|text| Failure::usage(format!("{}: {text}", show(edit.as_bytes()))))?;
        change(volume, kind, |volume| set_all(volume, kind, &args.names, &limits))?;
    }
    let Some(volume) = &args.volume else { return Ok(0) };
    if let Some(proto) = &args.proto {
        change(volume, kind, |volume| {
            let limits = volume.get(kind, volume.id_of(kind, proto)?)?;
            set_all(volume, kind, &args.names, &limits)
        })?;
    }
    if let Some(grace) = args.times {
        change(volume, kind, |volume| volume.set_grace(kind, grace))?;
    }
    Ok(0)
}

fn change(
    name: &OsStr,
    kind: QuotaType,
    work: impl FnOnce(&QuotaVolume) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let volume = QuotaVolume::open(name, &[kind], Use::Change)?;
    // On a mount a write that fails later would not be reported to this command.
    let result = work(&volume).and_then(|()| volume.sync());
    volume.finish_with(result)
}

/// Sets the limits of all, after all names were found.
fn set_all(
    volume: &QuotaVolume,
    kind: QuotaType,
    names: &[String],
    limits: &Dqblk,
) -> Result<(), Failure> {
    let ids: Vec<u32> =
        names.iter().map(|name| volume.id_of(kind, name)).collect::<Result<_, _>>()?;
    ids.into_iter().try_for_each(|id| {
        let set = volume.set(kind, id, limits);
        set.map_err(|failure| failure.hint(format!("the limits of {kind} {id} are as they were")))
    })
}
