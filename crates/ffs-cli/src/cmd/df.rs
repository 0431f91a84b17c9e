//! `ffs df`.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use ffs_ondisk::Format;
use serde::Serialize;

use super::{Doc, EXIT};
use crate::fail::{Outcome, show};
use crate::output::{self, human};
use crate::session::Session;
use crate::session::snapshot::AtEnd;

pub(crate) const DOC: Doc = Doc {
    examples: &[("ffs df disk.img", "how full it is"), ("ffs df --json *.img", "for programs")],
    exit: EXIT,
    see_also: &["ffs-dumpfs(8)", "ffs-ls(1)"],
    section: "1",
    usage_code: 64,
};

/// Show how full images are.
///
/// "avail" is the space for users other than root: it does not include the reserve (newfs -m).
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// IMAGE[@N]
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<OsString>,
    /// Sizes in units (always so)
    #[arg(short = 'h', hide = true, overrides_with = "kib")]
    human: bool,
    /// Numbers of inodes (always so)
    #[arg(short = 'i', hide = true)]
    inodes: bool,
    /// Sizes in KiB
    #[arg(short = 'k', overrides_with = "human")]
    kib: bool,
    /// Print JSON, one object a line
    #[arg(long)]
    json: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

#[derive(Serialize)]
struct Line {
    image: String,
    format: &'static str,
    block_size: u32,
    fragment_size: u32,
    bytes: u64,
    used: u64,
    free: u64,
    available: i64,
    inodes: u64,
    inodes_free: u64,
}

pub(crate) fn run(args: Args) -> Outcome {
    let mut lines = Vec::new();
    Session::read_each(&args.images, AtEnd::Root, |session, place| {
        let (s, g) = (session.ffs.statfs(), session.ffs.geometry());
        let unit = u64::from(s.fsize);
        lines.push(Line {
            image: show(place.image.as_bytes()),
            format: if g.format == Format::Ufs1 { "UFS1" } else { "UFS2" },
            block_size: s.bsize,
            fragment_size: s.fsize,
            bytes: s.frags * unit,
            used: s.frags.saturating_sub(s.frags_free) * unit,
            free: s.frags_free * unit,
            available: s.frags_avail * i64::from(s.fsize),
            inodes: s.inodes,
            inodes_free: s.inodes_free,
        });
        Ok(())
    })?;
    let mut out = output::stdout();
    match args.json {
        true => lines.iter().try_for_each(|line| output::json_line(&mut out, line))?,
        false if lines.is_empty() => {}
        false => write!(out, "{}", table(&lines, args.kib))?,
    }
    out.flush()?;
    Ok(u8::from(output::errors() > 0))
}

fn table(lines: &[Line], kib: bool) -> String {
    let size = |bytes: u64| if kib { (bytes / 1024).to_string() } else { human(bytes) };
    let head =
        ["image", "format", "block/frag", "size", "used", "avail", "capacity", "inodes", "ifree"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for line in lines {
        let usable = line.used as f64 + line.available.max(0) as f64;
        let percent = if usable > 0.0 { line.used as f64 * 100.0 / usable } else { 100.0 };
        let sign = if line.available < 0 { "-" } else { "" };
        rows.push(vec![
            line.image.clone(),
            line.format.to_owned(),
            format!("{}/{}", line.block_size, line.fragment_size),
            size(line.bytes),
            size(line.used),
            format!("{sign}{}", size(line.available.unsigned_abs())),
            format!("{percent:.0}%"),
            line.inodes.to_string(),
            line.inodes_free.to_string(),
        ]);
    }
    output::table(rows, &[3, 4, 5, 6, 7, 8])
}
