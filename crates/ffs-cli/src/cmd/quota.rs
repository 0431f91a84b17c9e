//! `ffs quota`.

use std::ffi::OsString;
use std::io::Write;

use ffs_core::{Dqblk, QuotaType};

use super::Doc;
use crate::fail::{Failure, Outcome};
use crate::output;
use crate::quotas::{Column, JsonQuota, QuotaVolume, Use, kinds};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs quota /mnt", "your usage and limits on a mount"),
        ("ffs quota disk.img www 1001", "those of two users, in an image"),
        ("ffs quota -g -q /mnt staff", "one line if the group is over its quota"),
    ],
    exit: &[
        ("0", "no quota is exceeded"),
        ("1", "one is, or something failed; standard error has a line for each failure"),
    ],
    see_also: &["ffs-repquota(8)", "ffs-edquota(8)", "ffs-mount(8)"],
    section: "1",
    usage_code: 1,
};

/// Show the usage and the quotas of some users or groups.
///
/// Without a name: of yourself; on a mount with -o idmap, of the id that you have on the volume.
/// Blocks are of 1024 bytes; "*" marks a reached limit. On a mount everyone may see their own
/// quota, and root and the user who mounted those of all.
///
/// Of an image the usage is counted, and the volume must have the quota file (`ffs quotacheck`
/// creates it). A mount must have its quotas on (`ffs mount -o quota`).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// IMAGE[@N], or the directory of a mount
    #[arg(value_name = "IMAGE|MOUNT")]
    volume: OsString,
    /// Names or numbers
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Quotas of users (the default)
    #[arg(short)]
    user: bool,
    /// Quotas of groups
    #[arg(short)]
    group: bool,
    /// Only a line for each quota that is exceeded
    #[arg(short)]
    quiet: bool,
    /// Those without limits, too
    #[arg(short)]
    verbose: bool,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let kinds = kinds(args.user, args.group);
    let volume = QuotaVolume::open(&args.volume, &kinds, Use::Show)?;
    let result = report(&args, &kinds, &volume);
    let over = volume.finish_with(result)?;
    Ok(u8::from(over))
}

/// Prints the quotas; returns whether one is exceeded.
fn report(args: &Args, kinds: &[QuotaType], volume: &QuotaVolume) -> Result<bool, Failure> {
    let mut out = output::stdout();
    let mut over = false;
    for &kind in kinds {
        let names = volume.names(kind)?;
        let mut ids = Vec::new();
        for name in &args.names {
            ids.push(volume.id_of(kind, name)?);
        }
        if ids.is_empty() {
            ids.push(volume.own_id(kind)?);
        }
        for id in ids {
            let record = volume.get(kind, id)?;
            let exceeded = [Column::blocks(id, &record), Column::inodes(id, &record)];
            let exceeded = exceeded.iter().any(Column::is_over);
            over |= exceeded;
            let name = names.get(&id).cloned();
            if args.json {
                output::json_line(&mut out, &JsonQuota::new(kind, id, name, &record))?;
                continue;
            }
            let name = name.unwrap_or_else(|| id.to_string());
            match args.quiet {
                true if exceeded => {
                    writeln!(out, "{}: {kind} {name} is over a quota", volume.name())?;
                }
                true => {}
                false => {
                    let shown = args.verbose || record.has_limits();
                    show(&mut out, (kind, id, &name), volume.name(), shown.then_some(&record))?;
                }
            }
        }
    }
    out.flush()?;
    Ok(over)
}

fn show(
    out: &mut impl Write,
    (kind, id, name): (QuotaType, u32, &str),
    volume: &str,
    record: Option<&Dqblk>,
) -> Result<(), Failure> {
    let letter = match kind {
        QuotaType::User => 'u',
        QuotaType::Group => 'g',
    };
    write!(out, "Disk quotas for {kind} {name} ({letter}id {id}):")?;
    let Some(record) = record else {
        writeln!(out, " none")?;
        return Ok(());
    };
    writeln!(out)?;
    let head =
        ["Filesystem", "usage", "quota", "limit", "grace", "files", "quota", "limit", "grace"];
    let mut line = vec![volume.to_owned()];
    for c in [Column::blocks(id, record), Column::inodes(id, record)] {
        let mark = if c.is_over() { "*" } else { "" };
        let used = format!("{}{mark}", c.used);
        line.extend([used, c.soft.to_string(), c.hard.to_string(), c.grace()]);
    }
    let rows = vec![head.map(str::to_owned).to_vec(), line];
    write!(out, "{}", output::table(rows, &[1, 2, 3, 4, 5, 6, 7, 8]))?;
    Ok(())
}
