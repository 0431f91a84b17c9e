//! `ffs debug owner`.

use std::ffi::OsString;
use std::io::Write;

use ffs_admin::inspect::{Block, BlockKind, FragUse, Inspector, Owner};
use ffs_ondisk::FragNo;
use serde::Serialize;

use super::{Inspected, warn_of_problems};
use crate::fail::{Failure, Outcome};
use crate::output;
use crate::progress::Progress;

/// Show which structure or file has a fragment.
///
/// Every inode of the volume is read. A fragment without an owner is free, or a removed file had
/// it and a crash has left it marked.
#[derive(clap::Args)]
pub(super) struct Args {
    /// IMAGE[@N]
    #[arg(value_name = "IMAGE")]
    image: OsString,
    /// Fragments, counted from the start of the volume
    #[arg(required = true, value_name = "FRAGMENT")]
    fragments: Vec<u64>,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct JsonUse {
    fragment: u64,
    free: bool,
    owners: Vec<JsonOwner>,
}

#[derive(Serialize)]
struct JsonOwner {
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inode: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<u64>,
}

pub(super) fn run(args: &Args) -> Outcome {
    let volume = Inspected::open(&args.image)?;
    let failed = |error| volume.failed(&error);
    let inspector = Inspector::open(volume.device()).map_err(failed)?;
    let wanted: Vec<FragNo> = args.fragments.iter().map(|&frag| FragNo(frag)).collect();
    let total = inspector.geometry().inodes();
    let total = Some(u64::from(total));
    let mut bar = Progress::items("inodes", total);
    let uses = inspector.owners(&wanted, &mut |done| bar.set(done, total));
    drop(bar);
    let mut out = output::stdout();
    for found in uses.map_err(failed)? {
        print(args, &found, &mut out)?;
    }
    warn_of_problems(&volume, &inspector);
    out.flush()?;
    Ok(0)
}

fn print(args: &Args, found: &FragUse, out: &mut impl Write) -> Result<(), Failure> {
    if args.json {
        let owners = found.owners.iter().map(json).collect();
        let found = JsonUse { fragment: found.frag.0, free: found.is_free, owners };
        return output::json_line(out, &found);
    }
    let state = if found.is_free { "free" } else { "in use" };
    write!(out, "fragment {}: {state}", found.frag.0)?;
    for (n, owner) in found.owners.iter().enumerate() {
        write!(out, "{}{}", if n == 0 { ", " } else { "; and " }, words(owner))?;
    }
    if found.owners.is_empty() && !found.is_free {
        write!(out, ", without an owner (ffs fsck frees it)")?;
    }
    writeln!(out)?;
    Ok(())
}

fn words(owner: &Owner) -> String {
    match *owner {
        Owner::Start => "boot blocks and superblock".to_owned(),
        Owner::Superblock(c) => format!("backup superblock of group {}", c.0),
        Owner::Group(c) => format!("maps of group {}", c.0),
        Owner::Inodes(first) => format!("inodes from {} on", first.0),
        Owner::Summary => "summaries of the groups".to_owned(),
        Owner::File(ino, Block { kind, lbn, .. }) => match kind {
            BlockKind::Data => format!("inode {}, block {}", ino.0, lbn.0),
            BlockKind::Indirect(level) => {
                format!("inode {}, indirect block of level {level} for block {}", ino.0, lbn.0)
            }
            BlockKind::ExtAttr => format!("inode {}, extended attributes", ino.0),
        },
    }
}

fn json(owner: &Owner) -> JsonOwner {
    let of = |kind| JsonOwner { kind, group: None, inode: None, block: None };
    match *owner {
        Owner::Start => of("start"),
        Owner::Superblock(c) => JsonOwner { group: Some(c.0), ..of("superblock") },
        Owner::Group(c) => JsonOwner { group: Some(c.0), ..of("group") },
        Owner::Inodes(first) => JsonOwner { inode: Some(first.0), ..of("inodes") },
        Owner::Summary => of("summary"),
        Owner::File(ino, Block { kind, lbn, .. }) => {
            let kind = match kind {
                BlockKind::Data => "data",
                BlockKind::Indirect(_) => "indirect",
                BlockKind::ExtAttr => "extattr",
            };
            JsonOwner { inode: Some(ino.0), block: Some(lbn.0), ..of(kind) }
        }
    }
}
