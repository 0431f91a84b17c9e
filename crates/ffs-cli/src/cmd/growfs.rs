//! `ffs growfs`.

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;

use ffs_admin::growfs::{self, GrowfsOptions, GrowfsReport};
use ffs_admin::{AdminError, Volume, counted};
use ffs_device::{BlockDevice, SplitMix64, SystemClock, host_words};
use ffs_image::Opened;

use super::Doc;
use crate::bsd;
use crate::fail::{Failure, INTERRUPTED, Outcome, show};
use crate::progress::Progress;
use crate::{output, session, signals};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs growfs disk.img@3", "as large as partition 3, after the partition was enlarged"),
        ("ffs growfs -s 4g root.img", "an image file of 4 GiB; the file becomes longer"),
        ("ffs growfs -N -s 4g root.img", "only show the result"),
    ],
    exit: &[
        ("0", "the file system is larger, or -N showed the result"),
        ("1", "it is not; the reason is on standard error"),
        ("130", "interrupted by a signal; the file system is as it was"),
    ],
    see_also: &["ffs-newfs(8)", "ffs-tunefs(8)", "ffs-fsck(8)", "ffs-dumpfs(8)"],
    section: "8",
    usage_code: 1,
};

/// Enlarge a file system that is not mounted.
///
/// The file system grows to the size of its partition, device or image, or to that of -s. With -s a
/// plain image file is made longer first. Files are not touched. SIGINT while new groups are
/// written leaves the volume as it was. After another interruption run growfs again: the size is
/// one of the two, or the next run restores the old volume and enlarges it again. The volume must
/// be clean, and must not have snapshots.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// IMAGE[@N]: a file or a block device
    #[arg(value_name = "IMAGE")]
    image: OsString,
    /// Size of the file system afterwards: sectors of 512 bytes, or bytes with a suffix
    #[arg(short = 's', value_name = "SIZE", value_parser = bsd::sectors)]
    size: Option<u64>,
    /// Only show the result
    #[arg(short = 'N')]
    dry_run: bool,
    /// Do not prompt
    #[arg(short = 'y')]
    yes: bool,
    /// Without effect, as in BSD's growfs
    #[arg(short = 'v', hide = true)]
    verbose: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let name = show(args.image.as_bytes());
    let report = if args.dry_run { show_result(&args, &name) } else { grow(&args, &name) }?;
    print_report(&args, &name, &report)?;
    Ok(0)
}

/// The result of a growth, without a write.
fn show_result(args: &Args, name: &str) -> Result<GrowfsReport, Failure> {
    let opened = session::open(&args.image, false)?;
    dry_run(args, &opened, name)
}

fn dry_run(args: &Args, opened: &Opened, name: &str) -> Result<GrowfsReport, Failure> {
    let device_bytes = args.size.filter(|_| opened.can_resize());
    let options = GrowfsOptions { size: args.size, dry_run: true, device_bytes };
    call(&*opened.device, options, name)
}

/// Enlarges the volume. The image stays locked from the first look to the last write.
fn grow(args: &Args, name: &str) -> Result<GrowfsReport, Failure> {
    signals::listen();
    let opened = session::open(&args.image, true)?;
    // An unfinished growfs is completed without a question: the volume cannot be used before.
    let unfinished = growfs::is_unfinished(&*opened.device);
    if !unfinished.map_err(|error| Failure::admin(name, &error))? {
        confirm(args, name, &dry_run(args, &opened, name)?)?;
    }
    let old_len = opened.device.len_bytes();
    let longer = args.size.filter(|&size| size > old_len && opened.can_resize());
    if let Some(size) = longer {
        opened.set_len(size).map_err(|error| {
            Failure::new(name, format!("cannot be made longer: {}", host_words(&error.source)))
        })?;
    }
    let options = GrowfsOptions { size: args.size, ..GrowfsOptions::default() };
    let result = call(&*opened.device, options, name);
    if result.is_err() && longer.is_some() {
        shorten(&opened, old_len);
    }
    result
}

fn call(
    device: &dyn BlockDevice,
    options: GrowfsOptions,
    name: &str,
) -> Result<GrowfsReport, Failure> {
    let mut progress = Progress::items("groups", None);
    let mut each = |done: u32, all: u32| {
        progress.set(done.into(), Some(all.into()));
        if signals::interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let (clock, rng) = (SystemClock, SplitMix64::from_system());
    let no_size = options.size.is_none();
    let report = growfs::growfs(device, &options, &clock, &rng, &mut each);
    report.map_err(|error| match error {
        AdminError::Interrupted => Failure::new(name, error).code(INTERRUPTED),
        AdminError::NotLarger { current, .. } if no_size => {
            let why = format!("the file system already fills its {current} bytes");
            let hint = "enlarge its partition first (ffs disk grow), or give the new size of an \
                        image file with -s SIZE";
            Failure::new(name, why).hint(hint)
        }
        error => Failure::admin(name, &error),
    })
}

/// Gives the image file its old length again, if the volume still ends before that.
fn shorten(opened: &Opened, old_len: u64) {
    let volume = Volume::open(&*opened.device);
    if volume.is_ok_and(|v| v.geo.size * u64::from(v.geo.fsize) <= old_len) {
        // The image stays valid if this fails.
        let _ = opened.set_len(old_len);
    }
}

/// Prompts on a terminal, as BSD's growfs does.
fn confirm(args: &Args, name: &str, report: &GrowfsReport) -> Result<(), Failure> {
    if args.yes || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(());
    }
    let (old, new) = (size_text(report.old_bytes), size_text(report.new_bytes));
    // If the prompt cannot be written, the answer counts as no.
    let _ = write!(io::stderr(), "OK to grow {name} from {old} to {new}? [yes/no] ");
    match signals::read_line().as_deref().map(str::trim) {
        Some("yes" | "y") => Ok(()),
        _ => Err(Failure::new(name, "not changed")),
    }
}

fn size_text(bytes: u64) -> String {
    format!("{:.1}MB", bytes as f64 / f64::from(1 << 20))
}

fn print_report(args: &Args, name: &str, report: &GrowfsReport) -> Result<(), Failure> {
    if args.json {
        return output::json(report);
    }
    let mut out = output::stdout();
    if report.resumed {
        output::note("an earlier growfs did not finish; the old volume was restored first");
    }
    for note in &report.notes {
        output::note(note);
    }
    let GrowfsReport { old_bytes, new_bytes, old_groups, new_groups, .. } = report;
    let (old, new) = (size_text(*old_bytes), size_text(*new_bytes));
    let groups = counted(u64::from(*new_groups), "cylinder group");
    writeln!(out, "{name}: {old} -> {new}, {old_groups} -> {groups}")?;
    let backups = report.new_backups.sectors();
    if backups.len() > 0 {
        bsd::write_backups(&mut out, backups)?;
    }
    out.flush()?;
    Ok(())
}
