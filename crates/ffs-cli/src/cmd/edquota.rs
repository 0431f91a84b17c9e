//! `ffs edquota`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use ffs_core::{Dqblk, Grace, QuotaType};

use super::{Doc, EXIT};
use crate::fail::{Failure, Outcome, show};
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
    let usage = |text: &str| Err(Failure::usage(text).code(DOC.usage_code));
    if args.edit.is_empty() && args.proto.is_none() && args.times.is_none() {
        return usage("nothing to set: give -e, -p or -t, or see --help");
    }
    if args.names.is_empty() && args.times.is_none() {
        return usage("give the users or groups whose quotas are to be set");
    }
    for edit in &args.edit {
        let (volume, limits) = parse_edit(edit).map_err(|text| {
            Failure::usage(format!("{}: {text}", show(edit.as_bytes()))).code(DOC.usage_code)
        })?;
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

/// `VOLUME[:SOFT[:HARD[:ISOFT[:IHARD]]]]`. The limits are the words at the end that begin with a
/// digit, at most four, so the name of the volume may contain colons.
fn parse_edit(edit: &OsStr) -> Result<(&OsStr, Dqblk), String> {
    let bytes = edit.as_bytes();
    let mut words: Vec<&str> = Vec::new();
    let mut end = bytes.len();
    while words.len() < 4 {
        let Some(at) = bytes[..end].iter().rposition(|&b| b == b':').filter(|&at| at > 0) else {
            break;
        };
        let word = std::str::from_utf8(&bytes[at + 1..end]).unwrap_or_default();
        if !word.starts_with(|c: char| c.is_ascii_digit()) {
            break;
        }
        words.insert(0, word);
        end = at;
    }
    let space = |n: usize| words.get(n).map_or(Ok(0), |word| blocks(word));
    let inodes = |n: usize| words.get(n).map_or(Ok(0), |word| count(word));
    let limits = Dqblk {
        bsoftlimit: space(0)?,
        bhardlimit: space(1)?,
        isoftlimit: inodes(2)?,
        ihardlimit: inodes(3)?,
        ..Dqblk::default()
    };
    Ok((OsStr::from_bytes(&bytes[..end]), limits))
}

/// A limit of space, in blocks of 512 bytes, rounded up.
fn blocks(text: &str) -> Result<u64, String> {
    let (value, suffix) = split(text)?;
    let unit: u64 = match suffix.as_str() {
        "b" => 1,
        "" | "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        _ => return Err(format!("{text:?} is not a size such as 4096, 64k or 2g")),
    };
    let bytes = value.checked_mul(unit).ok_or_else(|| format!("{text} is too large"))?;
    Ok(bytes.div_ceil(512))
}

/// A limit of inodes.
fn count(text: &str) -> Result<u64, String> {
    let (value, suffix) = split(text)?;
    let unit: u64 = match suffix.as_str() {
        "" => 1,
        "k" => 1000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        _ => return Err(format!("{text:?} is not a number of inodes such as 1000 or 5k")),
    };
    value.checked_mul(unit).ok_or_else(|| format!("{text} is too large"))
}

fn split(text: &str) -> Result<(u64, String), String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, suffix) = text.split_at(end);
    let value = digits.parse().map_err(|_| format!("{text:?} is not a number"))?;
    Ok((value, suffix.to_ascii_lowercase()))
}

/// `BLOCKS:INODES`; one period is that of both.
fn grace(text: &str) -> Result<Grace, String> {
    let (blocks, inodes) = text.split_once(':').unwrap_or((text, text));
    Ok(Grace { blocks: seconds(blocks)?, inodes: seconds(inodes)? })
}

fn seconds(text: &str) -> Result<i64, String> {
    let (value, suffix) = split(text)?;
    let unit: u64 = match suffix.as_str() {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86400,
        _ => return Err(format!("{text:?} is not a period such as 12h or 7d")),
    };
    let seconds = value.checked_mul(unit).and_then(|s| i64::try_from(s).ok());
    seconds.ok_or_else(|| format!("{text} is too long"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, [u64; 4]) {
        let (name, r) = parse_edit(OsStr::new(text)).unwrap();
        let all = [r.bsoftlimit, r.bhardlimit, r.isoftlimit, r.ihardlimit];
        (name.to_str().unwrap().to_owned(), all)
    }

    #[test]
    fn limits_are_read_as_bsd_reads_them() {
        let of = |text: &str, all| assert_eq!(parsed(text), ("a.img".to_owned(), all), "{text}");
        of("a.img", [0; 4]);
        of("a.img:10", [20, 0, 0, 0]);
        of("a.img:1m:2g:3:4k", [2048, 4 << 20, 3, 4000]);
        of("a.img:1000b:0:0:0", [2, 0, 0, 0]);
        assert_eq!(parsed("x:y.img:1").0, "x:y.img");
        assert_eq!(parsed("d@1:1:2:3:4").0, "d@1");
        assert!(parse_edit(OsStr::new("a.img:1x")).is_err());
        assert!(parse_edit(OsStr::new("a.img:99999999999999t")).is_err());
    }

    #[test]
    fn periods_are_read() {
        assert_eq!(grace("7d:12h"), Ok(Grace { blocks: 604_800, inodes: 43_200 }));
        assert_eq!(grace("90"), Ok(Grace { blocks: 90, inodes: 90 }));
        assert!(grace("7w").is_err() && grace("").is_err());
    }
}
