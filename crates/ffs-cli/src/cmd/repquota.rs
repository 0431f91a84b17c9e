//! `ffs repquota`.

use std::ffi::OsString;
use std::io::Write;

use ffs_core::{Dqblk, QuotaType};

use super::{Doc, EXIT};
use crate::fail::{Failure, Outcome};
use crate::output;
use crate::quotas::{Column, JsonQuota, QuotaVolume, Use, kinds, period};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs repquota disk.img", "usage and limits of all users"),
        ("ffs repquota -g /mnt", "of all groups, on a mount"),
        ("ffs repquota -ug --json disk.img", "for programs"),
    ],
    exit: EXIT,
    see_also: &["ffs-quota(1)", "ffs-edquota(8)", "ffs-quotacheck(8)"],
    section: "8",
    usage_code: 1,
};

/// Show the usage and the quotas of all users or groups.
///
/// The volume must have the quota file (`ffs quotacheck` creates it). Of an image the usage is
/// counted. A mount must have its quotas on (`ffs mount -o quota`).
///
/// Blocks are of 1024 bytes. "+" marks a reached limit of blocks, then of inodes. "grace" is the
/// time left above a soft limit, "none" after its end.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// IMAGE[@N], or the directory of a mount
    #[arg(value_name = "IMAGE|MOUNT")]
    volume: OsString,
    /// Quotas of users (the default)
    #[arg(short)]
    user: bool,
    /// Quotas of groups
    #[arg(short)]
    group: bool,
    /// Numbers instead of names
    #[arg(short)]
    numbers: bool,
    /// Print a heading with the grace periods
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
    volume.finish_with(result)?;
    Ok(0)
}

fn report(args: &Args, kinds: &[QuotaType], volume: &QuotaVolume) -> Result<(), Failure> {
    let mut out = output::stdout();
    for &kind in kinds {
        let names = if args.numbers { Default::default() } else { volume.names(kind)? };
        let rows = volume.list(kind)?.into_iter().map(|(id, record)| {
            let name = names.get(&id).cloned();
            (id, name, record)
        });
        if args.json {
            for (id, name, record) in rows {
                output::json_line(&mut out, &JsonQuota::new(kind, id, name, &record))?;
            }
            continue;
        }
        if args.verbose {
            let grace = volume.grace(kind)?;
            writeln!(out, "*** Report for {kind} quotas on {}", volume.name())?;
            let (blocks, inodes) = (period(grace.blocks), period(grace.inodes));
            writeln!(out, "grace period of blocks: {blocks}; of inodes: {inodes}")?;
        }
        write!(out, "{}", table(kind, rows))?;
    }
    out.flush()?;
    Ok(())
}

fn table(kind: QuotaType, rows: impl Iterator<Item = (u32, Option<String>, Dqblk)>) -> String {
    let title = match kind {
        QuotaType::User => "User",
        QuotaType::Group => "Group",
    };
    let head = [title, "", "used", "soft", "hard", "grace", "used", "soft", "hard", "grace"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    for (id, name, record) in rows {
        let (blocks, inodes) = (Column::blocks(id, &record), Column::inodes(id, &record));
        let mark = |column: &Column| if column.is_over() { '+' } else { '-' };
        let mut line = vec![
            name.unwrap_or_else(|| id.to_string()),
            format!("{}{}", mark(&blocks), mark(&inodes)),
        ];
        for c in [blocks, inodes] {
            line.extend([c.used.to_string(), c.soft.to_string(), c.hard.to_string(), c.grace()]);
        }
        lines.push(line);
    }
    output::table(lines, &[2, 3, 4, 5, 6, 7, 8, 9])
}
