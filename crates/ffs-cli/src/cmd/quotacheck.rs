//! `ffs quotacheck`.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use ffs_admin::Volume;
use ffs_admin::quotacheck::{self, Difference, QuotaFile, Usage};
use ffs_core::{Error, MountOptions, QuotaRepair, QuotaType};
use ffs_device::BlockDevice;
use ffs_ondisk::quota::RecordFormat;
use serde::Serialize;

use super::Doc;
use crate::fail::{Failure, Outcome, show};
use crate::output;
use crate::quotas::options_for;
use crate::session::{self, Session};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs quotacheck -ug disk.img", "create the quota files, or correct them"),
        ("ffs quotacheck -v disk.img", "correct those that exist, and show what was wrong"),
        ("ffs quotacheck -c 64 disk.img", "convert quota files from before FreeBSD 8"),
    ],
    exit: &[("0", "the quota files are right"), ("1", "they could not be checked or written")],
    see_also: &["ffs-edquota(8)", "ffs-repquota(8)", "ffs-fsck(8)", "ffs-mount(8)"],
    section: "8",
    usage_code: 1,
};

/// Count the usage of users and groups, and correct the quota files of an image.
///
/// -u and -g select the quota files, quota.user and quota.group in the root directory, and create
/// missing ones. With neither, the files that exist are checked. Limits stay as they are. A file
/// that was truncated is repaired: a part of a record at its end is removed, and a missing header
/// is written.
///
/// The image must not be mounted, and clean: run `ffs fsck` first after a crash. `ffs mount -o
/// quota` counts by itself, so quotacheck is needed only to create the files, and after changes
/// that were made without quotas, if the image goes to another system.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// IMAGE[@N]
    #[arg(required = true, value_name = "IMAGE")]
    images: Vec<OsString>,
    /// Quotas of users
    #[arg(short)]
    user: bool,
    /// Quotas of groups
    #[arg(short)]
    group: bool,
    /// Convert old files to 64-bit records; the old file stays as NAME_32.orig
    #[arg(short = 'c', value_name = "64", value_parser = ["64"])]
    convert: Option<String>,
    /// Show each record that was wrong
    #[arg(short)]
    verbose: bool,
    /// Print JSON, one object a line: each record that was wrong
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Line {
    image: String,
    #[serde(rename = "type")]
    kind: String,
    id: u32,
    before: Amounts,
    after: Amounts,
}

#[derive(Serialize)]
struct Amounts {
    blocks512: u64,
    inodes: u64,
}

impl From<Usage> for Amounts {
    fn from(u: Usage) -> Amounts {
        Amounts { blocks512: u.blocks, inodes: u.inodes }
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    let mut lines = Vec::new();
    for image in &args.images {
        match check_image(image, &args) {
            Ok(found) => {
                let name = show(image.as_bytes());
                for (kind, difference) in found {
                    lines.push((name.clone(), kind, difference));
                }
            }
            Err(failure) => output::error(failure.text),
        }
    }
    let mut out = output::stdout();
    if args.json {
        for (image, kind, d) in lines {
            let (kind, before, after) = (kind.to_string(), d.found.into(), d.counted.into());
            output::json_line(&mut out, &Line { image, kind, id: d.id, before, after })?;
        }
    } else if args.verbose {
        for (image, kind, d) in lines {
            write!(out, "{image}: {:<8} fixed ({kind}):", d.id)?;
            if d.found.inodes != d.counted.inodes {
                write!(out, "\tinodes {} -> {}", d.found.inodes, d.counted.inodes)?;
            }
            if d.found.blocks != d.counted.blocks {
                write!(out, "\tblocks {} -> {}", d.found.blocks, d.counted.blocks)?;
            }
            writeln!(out)?;
        }
    }
    out.flush()?;
    Ok(u8::from(output::errors() > 0))
}

type Wrong = Vec<(QuotaType, Difference)>;

/// Checks and corrects one image. Returns the records that were wrong.
fn check_image(image: &OsString, args: &Args) -> Result<Wrong, Failure> {
    let all = !args.user && !args.group;
    let wanted = [args.user || all, args.group || all];
    let session = Session::write(image)?;
    let prepared = prepare(&session, wanted, args);
    session.finish_with(prepared)?;
    let before = read(image, wanted)?;
    let kinds: Vec<QuotaType> =
        QuotaType::ALL.into_iter().filter(|kind| before[kind.index()].is_some()).collect();
    if kinds.is_empty() {
        let why = "it has neither quota.user nor quota.group in its root directory";
        return Err(Failure::new(show(image.as_bytes()), why).hint("create them with -u or -g"));
    }
    let options = MountOptions { quotas: options_for(&kinds), ..session::offline() };
    Session::write_with(image, &options)?.finish()?;
    let after = read(image, wanted)?;
    if let Some(d) = wrong(&after).first() {
        let why = format!("the {} quota file was not corrected: {:?}", d.0, d.1);
        return Err(Failure::new(show(image.as_bytes()), why).hint("run ffs fsck"));
    }
    Ok(wrong(&before))
}

/// Creates missing files, repairs truncated ones, and converts old ones.
fn prepare(session: &Session, wanted: [bool; 2], args: &Args) -> Result<(), Failure> {
    let name = |kind: QuotaType| format!("{}:/{}", session.image(), kind.file_name());
    for kind in QuotaType::ALL.into_iter().filter(|kind| wanted[kind.index()]) {
        if args.user || args.group {
            let made = session.ffs.create_quota_file(kind);
            made.map_err(|error| Failure::new(name(kind), error))?;
        }
        let repaired = session.ffs.repair_quota_file(kind);
        if let Some(repair) = repaired.map_err(|error| Failure::new(name(kind), error))? {
            output::note(format!("{}: {}", name(kind), words(repair)));
        }
    }
    if args.convert.is_none() {
        return Ok(());
    }
    session.ffs.sync().map_err(|e| Failure::new(session.image(), e))?;
    let device = session.device();
    let files = device.map_or(Ok([None, None]), |device| check(session.image(), device, wanted))?;
    for (kind, file) in QuotaType::ALL.into_iter().zip(files) {
        if let Some(file) = file.filter(|file| file.format == RecordFormat::Old) {
            let converted = session.ffs.convert_quota_file(kind, &file.records);
            converted.map_err(|error| match error {
                Error::Exists => Failure::new(format!("{}_32.orig", name(kind)), error)
                    .hint("the old file would get this name: rename or remove that file"),
                error => Failure::new(name(kind), error),
            })?;
        }
    }
    Ok(())
}

fn words(repair: QuotaRepair) -> String {
    match repair {
        QuotaRepair::Record(id) => format!("a part of the record of {id} was removed"),
        _ => "the header was missing; all limits are to be set again".to_owned(),
    }
}

/// The quota files of an image and the usage that they should have.
fn read(image: &OsString, wanted: [bool; 2]) -> Result<[Option<QuotaFile>; 2], Failure> {
    let opened = session::open(image, false)?;
    check(&show(image.as_bytes()), &*opened.device, wanted)
}

fn check(
    name: &str,
    device: &dyn BlockDevice,
    wanted: [bool; 2],
) -> Result<[Option<QuotaFile>; 2], Failure> {
    let checked = Volume::open(device).and_then(|vol| quotacheck::check(&vol, wanted));
    checked.map_err(|error| Failure::admin(name, &error))
}

fn wrong(files: &[Option<QuotaFile>; 2]) -> Wrong {
    let of = |(kind, file): (QuotaType, &Option<QuotaFile>)| {
        let differences = file.as_ref().map(QuotaFile::differences).unwrap_or_default();
        differences.into_iter().map(move |d| (kind, d)).collect::<Vec<_>>()
    };
    QuotaType::ALL.into_iter().zip(files).flat_map(of).collect()
}
