//! `ffs tunefs`.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use clap::ValueEnum;
use ffs_admin::newfs::Optim;
use ffs_admin::tunefs::{self, TunefsOptions};
use ffs_admin::{AdminError, Volume};
use ffs_device::{Clock, SystemClock};

use super::Doc;
use crate::bsd;
use crate::fail::{Failure, Outcome, show};
use crate::{output, session};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs tunefs -p disk.img", "show the settings"),
        ("ffs tunefs -n enable disk.img", "soft updates on"),
        ("ffs tunefs -m 5 -o space disk.img", "keep less for root, save space"),
        ("ffs tunefs -j enable disk.img", "make a soft-updates journal"),
        ("ffs tunefs -j disable disk.img", "give it up"),
    ],
    exit: &[
        ("0", "every change was made"),
        ("1", "none was; the reason is on standard error"),
        ("10", "none was: a value is wrong or out of range"),
    ],
    see_also: &["ffs-newfs(8)", "ffs-dumpfs(8)", "ffs-fsck(8)"],
    section: "8",
    usage_code: 2,
};

/// The exit code of tunefs(8) for a wrong value.
pub(crate) const BAD_VALUE: u8 = 10;

/// Change the settings of a file system that is not mounted.
///
/// All changes are made or none. Switches take `enable` or `disable`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// IMAGE[@N]
    image: OsString,
    /// Show the settings
    #[arg(short = 'p')]
    print: bool,
    /// Write every backup superblock too
    #[arg(short = 'A')]
    all_copies: bool,
    /// POSIX.1e access-control lists
    #[arg(short = 'a', value_name = "SWITCH", value_parser = bsd::switch)]
    acls: Option<bool>,
    /// Most blocks of one file in a cylinder group before it moves on
    #[arg(short = 'e', value_name = "BLOCKS", value_parser = number32,
          allow_negative_numbers = true)]
    maxbpg: Option<u32>,
    /// Expected average size of files, bytes
    #[arg(short = 'f', value_name = "BYTES", value_parser = number32,
          allow_negative_numbers = true)]
    avgfilesize: Option<u32>,
    /// gjournal
    #[arg(short = 'J', value_name = "SWITCH", value_parser = bsd::switch)]
    gjournal: Option<bool>,
    /// Soft-updates journal: makes the file .sujournal, and enables soft updates
    #[arg(short = 'j', value_name = "SWITCH", value_parser = bsd::switch)]
    journal: Option<bool>,
    /// Fragments at the head of each group kept for metadata
    #[arg(short = 'k', value_name = "FRAGMENTS", value_parser = number32,
          allow_negative_numbers = true)]
    metaspace: Option<u32>,
    /// Label of the volume
    #[arg(short = 'L', value_name = "LABEL")]
    label: Option<String>,
    /// MAC labels per file
    #[arg(short = 'l', value_name = "SWITCH", value_parser = bsd::switch)]
    multilabel: Option<bool>,
    /// Percent of the space kept for root
    #[arg(short = 'm', value_name = "PERCENT", value_parser = number32,
          allow_negative_numbers = true)]
    minfree: Option<u32>,
    /// NFSv4 access-control lists
    #[arg(short = 'N', value_name = "SWITCH", value_parser = bsd::switch)]
    nfs4acls: Option<bool>,
    /// Soft updates, for mounts from now on
    #[arg(short = 'n', value_name = "SWITCH", value_parser = bsd::switch)]
    soft_updates: Option<bool>,
    /// What to optimise
    #[arg(short = 'o', value_name = "time|space")]
    optim: Option<OptimArg>,
    /// With -j enable: size of the journal [default: 1/1024 of the volume, 4 MiB to 32 MiB]
    #[arg(short = 'S', value_name = "BYTES", value_parser = bsd::number)]
    journal_size: Option<u64>,
    /// Expected files in a directory
    #[arg(short = 's', value_name = "FILES", value_parser = number32,
          allow_negative_numbers = true)]
    avgfpdir: Option<u32>,
    /// Discard freed blocks
    #[arg(short = 't', value_name = "SWITCH", value_parser = bsd::switch)]
    trim: Option<bool>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum OptimArg {
    Time,
    Space,
}

/// A number. One that does not fit is larger than every setting may be, as `u32::MAX` is.
fn number32(text: &str) -> Result<u32, String> {
    bsd::number(text).map(|number| u32::try_from(number).unwrap_or(u32::MAX))
}

pub(crate) fn run(args: Args) -> Outcome {
    let name = show(args.image.as_bytes());
    let options = TunefsOptions {
        all_copies: args.all_copies,
        acls: args.acls,
        nfs4acls: args.nfs4acls,
        maxbpg: args.maxbpg,
        avgfilesize: args.avgfilesize,
        avgfpdir: args.avgfpdir,
        journal: args.journal,
        journal_size: args.journal_size,
        now: if args.journal == Some(true) { SystemClock.now().secs } else { 0 },
        gjournal: args.gjournal,
        metaspace: args.metaspace,
        label: args.label,
        multilabel: args.multilabel,
        minfree: args.minfree,
        soft_updates: args.soft_updates,
        optim: args.optim.map(|optim| match optim {
            OptimArg::Time => Optim::Time,
            OptimArg::Space => Optim::Space,
        }),
        trim: args.trim,
    };
    let changes = options != TunefsOptions::default();
    if !changes && !args.print {
        let text = "nothing to change: show the settings with -p, or see --help";
        return Err(Failure::usage(text));
    }
    let fail = |error: AdminError| match error {
        AdminError::Option { .. } => Failure::admin(&name, &error).code(BAD_VALUE),
        _ => Failure::admin(&name, &error),
    };
    let mut out = output::stdout();
    if args.print {
        let opened = session::open(&args.image, false)?;
        let volume = Volume::open(&*opened.device).map_err(fail)?;
        let settings = tunefs::settings(&volume.sb);
        if args.json && !changes {
            output::json_to(&mut out, &settings)?;
        } else {
            for setting in settings {
                writeln!(out, "tunefs: {setting}")?;
            }
        }
    }
    if changes {
        let opened = session::open(&args.image, true)?;
        let report = tunefs::tunefs(&*opened.device, &options).map_err(fail)?;
        opened.device.flush().map_err(|error| Failure::new(&name, error))?;
        if args.json {
            output::json_to(&mut out, &report)?;
        } else {
            for change in &report.changes {
                writeln!(out, "tunefs: {change}")?;
            }
        }
        for note in &report.notes {
            output::note(note);
        }
    }
    out.flush()?;
    Ok(0)
}
