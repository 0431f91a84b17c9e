//! `ffs du`.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::io::Write;

use ffs_core::{FileType, Ino};
use ffs_ondisk::geometry::DEV_BSIZE;
use serde::Serialize;

use super::{Doc, EXIT};
use crate::fail::{Failure, Outcome};
use crate::namei::Last;
use crate::output::{self, JsonName, short_size};
use crate::session::Session;
use crate::session::snapshot::AtEnd;
use crate::walk::{Next, Step, Visit, walk};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs du -sh disk.img:/usr", "the space of one tree"),
        ("ffs du -h -d 1 disk.img:/", "each directory of the root, and the whole volume"),
        ("ffs du -A -s disk.img:/var/log", "the sizes of the files instead of their space"),
        ("ffs du --json -a disk.img:/home", "each file, one object a line"),
    ],
    exit: EXIT,
    see_also: &["ffs-df(1)", "ffs-ls(1)", "ffs-find(1)"],
    section: "1",
    usage_code: 64,
};

/// Show how much space files use.
///
/// The space includes indirect blocks and extended attributes. Without -h, -k, -m or -g it is
/// counted in blocks of 512 bytes, as on BSD. A file with several names counts once, at the name
/// that comes first, in all arguments with the same IMAGE. A symbolic link counts itself.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// IMAGE[@N][:/path]
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    /// A line for each file, not only for directories
    #[arg(short, conflicts_with_all = ["summary", "depth"])]
    all: bool,
    /// One line for each argument
    #[arg(short, conflicts_with = "depth")]
    summary: bool,
    /// Lines for directories at most this deep
    #[arg(short, long = "max-depth", value_name = "DEPTH")]
    depth: Option<usize>,
    /// A line with the sum of all arguments
    #[arg(short = 'c')]
    total: bool,
    /// The sizes of files, not the space that they use
    #[arg(short = 'A', long = "apparent-size")]
    apparent: bool,
    /// Count a file with several names at each of them
    #[arg(short = 'l')]
    links: bool,
    /// Stay on one file system (always so)
    #[arg(short = 'x', hide = true)]
    one_file_system: bool,
    /// Sizes in units
    #[arg(short = 'h', group = "unit")]
    human: bool,
    /// Sizes in KiB
    #[arg(short = 'k', group = "unit")]
    kib: bool,
    /// Sizes in MiB
    #[arg(short = 'm', group = "unit")]
    mib: bool,
    /// Sizes in GiB
    #[arg(short = 'g', group = "unit")]
    gib: bool,
    /// Print JSON, one object a line; sizes are in bytes
    #[arg(long)]
    json: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

#[derive(Serialize)]
struct JsonLine {
    path: JsonName,
    bytes: u64,
}

pub(crate) fn run(args: Args) -> Outcome {
    let mut out = output::stdout();
    let mut total: u64 = 0;
    let mut images: BTreeMap<OsString, Linked> = BTreeMap::new();
    Session::read_each(&args.paths, AtEnd::Root, |session, place| {
        // One image may have two names. A partition, URI or snapshot has only that of its argument.
        let image = fs::canonicalize(&place.image);
        let image = image.map_or_else(|_| place.image.clone(), OsString::from);
        let linked = images.entry(image).or_default();
        linked.here.clear();
        let bytes = usage(session, &place.path, &args, linked, &mut out)?;
        total = bytes.saturating_add(total);
        linked.before.append(&mut linked.here);
        Ok(())
    })?;
    if args.total {
        print(&mut out, &args, total, b"total")?;
    }
    out.flush()?;
    Ok(u8::from(output::errors() > 0))
}

/// The files of an image with several names that were counted.
#[derive(Default)]
struct Linked {
    /// In the arguments before, as far as they are part of the total.
    before: BTreeSet<Ino>,
    here: BTreeSet<Ino>,
}

/// Prints the lines of one argument; returns its bytes.
fn usage(
    session: &Session,
    path: &[u8],
    args: &Args,
    linked: &mut Linked,
    out: &mut impl Write,
) -> Result<u64, Failure> {
    let root = session.find(path, Last::Keep)?;
    let deepest = if args.summary { 0 } else { args.depth.unwrap_or(usize::MAX) };
    // The bytes of each directory that is being walked, the root first.
    let mut sums: Vec<u64> = Vec::new();
    let mut whole = 0;
    walk(session, path, root, &mut |step| {
        let (at, bytes, show) = match step {
            Step::Before(visit) => {
                let bytes = own(&visit, args, linked);
                if visit.attr.kind == FileType::Directory {
                    sums.push(bytes);
                    return Ok(Next::Enter);
                }
                let show = args.all || visit.depth == 0;
                (visit, bytes, show)
            }
            Step::After(visit) => {
                let show = visit.depth <= deepest;
                (visit, sums.pop().unwrap_or(0), show)
            }
        };
        match sums.last_mut() {
            Some(above) => *above = above.saturating_add(bytes),
            None => whole = bytes,
        }
        if show {
            print(out, args, bytes, at.path)?;
        }
        Ok(Next::Skip)
    })?;
    Ok(whole)
}

/// The bytes of a file itself; 0 if another name of it was counted.
fn own(visit: &Visit<'_>, args: &Args, linked: &mut Linked) -> u64 {
    let a = visit.attr;
    let several = a.kind != FileType::Directory && a.nlink > 1 && !args.links;
    if several && (linked.before.contains(&a.ino) || !linked.here.insert(a.ino)) {
        return 0;
    }
    if args.apparent { a.size } else { a.blocks.saturating_mul(DEV_BSIZE) }
}

fn print(out: &mut impl Write, args: &Args, bytes: u64, path: &[u8]) -> Result<(), Failure> {
    if args.json {
        return output::json_line(out, &JsonLine { path: JsonName::new(path), bytes });
    }
    let unit = match (args.kib, args.mib, args.gib) {
        (true, _, _) => 1 << 10,
        (_, true, _) => 1 << 20,
        (_, _, true) => 1 << 30,
        _ => DEV_BSIZE,
    };
    if args.human {
        write!(out, "{:>7}\t", short_size(bytes))?;
    } else {
        write!(out, "{}\t", bytes.div_ceil(unit))?;
    }
    output::name(out, path)?;
    writeln!(out)?;
    Ok(())
}
