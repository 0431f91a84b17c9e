//! `ffs newfs`.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clap::ValueEnum;
use ffs_admin::counted;
use ffs_admin::newfs::{self, NewfsOptions, NewfsReport, Optim, Release};
use ffs_admin::tunefs::{TunefsOptions, tunefs};
use ffs_device::{BlockDevice, SplitMix64, SystemClock, partition};
use ffs_image::OpenOptions;
use ffs_ondisk::{Endian, Format};
use serde::Serialize;

use super::Doc;
use crate::bsd::{self, Amount};
use crate::fail::{Failure, Outcome, show};
use crate::new_image;
use crate::output;
use crate::progress::Progress;
use crate::session::{open_with, snapshot, warn_of_notes};
use crate::signals;
use crate::spec::{is_not_new, names_partition};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs newfs -s 1g new.img", "a new image of 1 GiB with an empty UFS2"),
        ("ffs newfs -L home disk.img@3", "with a label, in partition 3"),
        ("ffs newfs -u -s 1g scratch.img", "without soft updates, such as for -o async"),
        ("ffs newfs -j -s 1g new.img", "soft updates with a journal"),
        ("ffs newfs -O 1 -b 16384 -f 2048 -s 64m old.img", "UFS1 with smaller blocks"),
        ("ffs newfs -R -s 64m same.img", "byte for byte the same each time"),
        ("ffs newfs -N disk.img", "only show what would be made"),
    ],
    exit: &[
        ("0", "the file system was made"),
        ("1", "it was not; the reason is on standard error"),
    ],
    see_also: &["ffs-build(1)", "ffs-fsck(8)", "ffs-tunefs(8)", "ffs-dumpfs(8)"],
    section: "8",
    usage_code: 1,
};

/// Make a file system.
///
/// With -s an image that does not exist is created as a sparse file, which takes space on the host
/// as it is filled, or as a qcow2 image if its name ends in .qcow2. Sizes take the suffixes b
/// (512), k, m, g, t. The content of an existing image is lost: on a terminal newfs asks before it
/// overwrites a file system; in a script it prints a note and overwrites, as BSD's newfs does. A
/// disk with a partition table is never overwritten, also with --yes, unless IMAGE@0 names the
/// whole disk.
///
/// As with the newfs of FreeBSD 14 and later, a UFS2 file system has soft updates: a power failure
/// leaves it consistent. -u makes one without. UFS1, and the formulas of an older release
/// (--generation), have none unless -U or -j is given.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// IMAGE[@N]: a file or a block device
    #[arg(value_name = "IMAGE")]
    image: OsString,
    #[command(flatten)]
    how: How,
    /// Size of the file system: sectors (of 512 bytes without -S), or bytes with a suffix
    #[arg(short = 's', value_name = "SIZE", value_parser = bsd::amount)]
    size: Option<Amount>,
    /// Left alone at the end of the device: sectors, or bytes with a suffix
    #[arg(short = 'r', value_name = "SIZE", value_parser = bsd::amount, default_value = "0",
          hide_default_value = true)]
    reserved: Amount,
    /// Sector size, a power of two from 512 to 65536 [default: that of the device]
    #[arg(short = 'S', value_name = "BYTES", value_parser = bsd::sector_size)]
    sector_size: Option<u32>,
    /// Enable soft updates with a journal: a check after a crash takes less than a second
    #[arg(short = 'j')]
    journal: bool,
    /// No soft updates
    #[arg(short = 'u', conflicts_with_all = ["soft_updates", "journal"])]
    no_soft_updates: bool,
    /// Only show what would be made
    #[arg(short = 'N')]
    dry_run: bool,
    /// Reproducible: fixed times and numbers, byte for byte what FreeBSD's newfs -R writes
    #[arg(short = 'R')]
    reproducible: bool,
    /// Discard the content of the device first (TRIM)
    #[arg(short = 'E')]
    erase: bool,
    /// Letter of a partition; write IMAGE@N instead
    #[arg(short = 'p', hide = true, value_name = "LETTER")]
    partition: Option<String>,
    /// Disk type; of no use any more
    #[arg(short = 'T', hide = true, value_name = "TYPE")]
    disk_type: Option<String>,
    /// Do not prompt before overwriting a file system, and print no note of it
    #[arg(long)]
    yes: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// What kind of file system: newfs and build share these.
#[derive(clap::Args, Clone)]
pub(crate) struct How {
    /// UFS1 or UFS2 [default: 2]
    #[arg(short = 'O', value_name = "1|2")]
    format: Option<FormatArg>,
    /// Block size, bytes [default: 32768]
    #[arg(short = 'b', value_name = "BYTES", value_parser = bsd::number32)]
    block_size: Option<u32>,
    /// Fragment size, bytes [default: 4096]
    #[arg(short = 'f', value_name = "BYTES", value_parser = bsd::number32)]
    fragment_size: Option<u32>,
    /// Bytes of data per inode [default: 2 fragments]
    #[arg(short = 'i', value_name = "BYTES", value_parser = bsd::number32)]
    density: Option<u32>,
    /// Percent of the space kept for root
    #[arg(short = 'm', value_name = "PERCENT", value_parser = bsd::number32,
          default_value_t = newfs::MINFREE)]
    minfree: u32,
    /// What to optimise: time or space
    #[arg(short = 'o', value_name = "time|space")]
    optim: Option<OptimArg>,
    /// Most blocks in one transfer
    #[arg(short = 'a', value_name = "BLOCKS", value_parser = bsd::number32)]
    maxcontig: Option<u32>,
    /// Most blocks of one file in a cylinder group before it moves on
    #[arg(short = 'e', value_name = "BLOCKS", value_parser = bsd::number32)]
    maxbpg: Option<u32>,
    /// Largest extent, bytes
    #[arg(short = 'd', value_name = "BYTES", value_parser = bsd::number32)]
    max_extent: Option<u32>,
    /// Most fragments in a cylinder group
    #[arg(short = 'c', value_name = "FRAGMENTS", value_parser = bsd::number32)]
    max_group: Option<u32>,
    /// Expected average size of files, bytes
    #[arg(short = 'g', value_name = "BYTES", value_parser = bsd::number32,
          default_value = "16384")]
    avgfilesize: u32,
    /// Expected files in a directory
    #[arg(short = 'h', value_name = "FILES", value_parser = bsd::number32, default_value = "64")]
    avgfpdir: u32,
    /// Fragments at the head of each group kept for metadata
    #[arg(short = 'k', value_name = "FRAGMENTS", value_parser = bsd::number32)]
    metaspace: Option<u32>,
    /// Label of the volume
    #[arg(short = 'L', value_name = "LABEL")]
    label: Option<String>,
    /// Enable soft updates: consistent after a power failure without synchronous writes. newfs
    /// enables them for UFS2; build and disk need this option
    #[arg(short = 'U')]
    soft_updates: bool,
    /// The device is a gjournal provider
    #[arg(short = 'J')]
    gjournal: bool,
    /// MAC labels per file
    #[arg(short = 'l')]
    multilabel: bool,
    /// Discard freed blocks
    #[arg(short = 't')]
    trim: bool,
    /// No .snap directory
    #[arg(short = 'n')]
    no_snap: bool,
    /// Byte order
    #[arg(long, value_name = "little|big", default_value = "little")]
    endian: EndianArg,
    /// Formulas of FreeBSD 4 (the release of the paper), FreeBSD 10, or today's FreeBSD
    #[arg(long, value_name = "freebsd4|freebsd10|today", default_value = "today")]
    generation: GenerationArg,
}

#[derive(Clone, Copy, ValueEnum)]
enum FormatArg {
    #[value(name = "1")]
    Ufs1,
    #[value(name = "2")]
    Ufs2,
}

#[derive(Clone, Copy, ValueEnum)]
enum OptimArg {
    Time,
    Space,
}

#[derive(Clone, Copy, ValueEnum)]
enum EndianArg {
    Little,
    Big,
}

#[derive(Clone, Copy, ValueEnum)]
enum GenerationArg {
    Freebsd4,
    Freebsd10,
    Today,
}

impl How {
    /// Whether newfs enables soft updates without an option, as that of FreeBSD 14 and later does.
    fn has_soft_updates_by_default(&self) -> bool {
        let ufs2 = self.options().format() == Format::Ufs2;
        ufs2 && matches!(self.generation, GenerationArg::Today)
    }

    /// The options of newfs these stand for.
    pub(crate) fn options(&self) -> NewfsOptions {
        NewfsOptions {
            release: match self.generation {
                GenerationArg::Freebsd4 => Release::Freebsd4,
                GenerationArg::Freebsd10 => Release::Freebsd10,
                GenerationArg::Today => Release::Current,
            },
            endian: match self.endian {
                EndianArg::Little => Endian::Little,
                EndianArg::Big => Endian::Big,
            },
            format: self.format.map(|format| match format {
                FormatArg::Ufs1 => Format::Ufs1,
                FormatArg::Ufs2 => Format::Ufs2,
            }),
            bsize: self.block_size,
            fsize: self.fragment_size,
            density: self.density,
            minfree: self.minfree,
            optim: self.optim.map(|optim| match optim {
                OptimArg::Time => Optim::Time,
                OptimArg::Space => Optim::Space,
            }),
            maxcontig: self.maxcontig,
            maxbpg: self.maxbpg,
            max_extent: self.max_extent,
            max_group: self.max_group,
            avgfilesize: self.avgfilesize,
            avgfpdir: self.avgfpdir,
            metaspace: self.metaspace,
            label: self.label.clone(),
            soft_updates: self.soft_updates,
            gjournal: self.gjournal,
            multilabel: self.multilabel,
            trim: self.trim,
            no_snap: self.no_snap,
            ..NewfsOptions::default()
        }
    }
}

#[derive(Serialize)]
struct Json {
    image: String,
    made: bool,
    format: &'static str,
    soft_updates: bool,
    journal: bool,
    endian: &'static str,
    bytes: u64,
    block_size: u32,
    fragment_size: u32,
    groups: u64,
    fragments_per_group: u64,
    inodes_per_group: u64,
    inodes: u64,
    data_fragments: u64,
    superblock: u64,
    backups: Vec<u64>,
    notes: Vec<String>,
}

pub(crate) fn run(args: Args) -> Outcome {
    let name = show(args.image.as_bytes());
    if let Some(letter) = &args.partition {
        let hint = format!("name the partition behind the image: {name}@{letter}");
        return Err(Failure::plain("-p is not supported").hint(hint));
    }
    let options = options(&args)?;
    let created = create(&args, &options)?;
    let result = make(&args, &name, &options);
    if result.is_err() && created {
        // This command created the file, and it has no content.
        let _ = std::fs::remove_file(&args.image);
    }
    let report = result?;
    print_report(&args, &name, &options, &report)?;
    Ok(0)
}

/// The options of the library.
fn options(args: &Args) -> Result<NewfsOptions, Failure> {
    let how = args.how.options();
    let bytes = |option: &str, amount: Amount| {
        let failure = || Failure::usage(format!("{option}: too large"));
        amount.bytes(args.sector_size).ok_or_else(failure)
    };
    let size = args.size.map(|size| bytes("-s", size)).transpose()?;
    let reserved = bytes("-r", args.reserved)?;
    let all = size.unwrap_or(0).checked_add(reserved);
    if all.is_none_or(|all| i64::try_from(all).is_err()) {
        return Err(Failure::usage("-s and -r: together more than a device can have, 8191p"));
    }
    let by_default = args.how.has_soft_updates_by_default() && !args.no_soft_updates;
    Ok(NewfsOptions {
        soft_updates: how.soft_updates || args.journal || by_default,
        journal: args.journal,
        sector_size: args.sector_size,
        size: size.filter(|&size| size > 0),
        reserved,
        reproducible: args.reproducible,
        dry_run: args.dry_run,
        erase: args.erase,
        keep_holes: true,
        ..how
    })
}

/// Makes the file of an image that does not exist; whether it did.
fn create(args: &Args, options: &NewfsOptions) -> Result<bool, Failure> {
    if let Some(inside) = snapshot::inside(&args.image) {
        return Err(snapshot::refusal(&inside));
    }
    crate::stdin::refuse_new_image(&args.image)?;
    if is_not_new(&args.image) {
        return Ok(false);
    }
    let path = Path::new(&args.image);
    let format = new_image::format(path)?;
    if args.dry_run {
        return Ok(false);
    }
    let Some(size) = options.size else {
        let failure = Failure::new(path.display(), "no such file");
        return Err(failure.hint("create it with -s SIZE, such as -s 1g"));
    };
    let len = size.saturating_add(options.reserved);
    let made = new_image::create(path, format, len);
    made.map_err(|error| Failure::unmade(path.display(), &error))?;
    Ok(true)
}

fn make(args: &Args, name: &str, options: &NewfsOptions) -> Result<NewfsReport, Failure> {
    let fail = |error: ffs_admin::AdminError| Failure::new(name, error);
    if args.dry_run
        && !is_not_new(&args.image)
        && let Some(size) = options.size
    {
        let device = ffs_device::MemDevice::new(size.saturating_add(options.reserved));
        let (clock, rng) = (SystemClock, SplitMix64::from_system());
        return newfs::newfs(&device, options, &clock, &rng, &mut |_, _| {}).map_err(fail);
    }
    let write = !args.dry_run;
    let how = OpenOptions { write, whole_disk: true, ..OpenOptions::default() };
    let opened = open_with(&args.image, &how)?;
    let device = &*opened.device;
    let (clock, rng) = (SystemClock, SplitMix64::from_system());
    if write {
        if opened.partition.is_none() {
            keep_partitions(&args.image, name, device)?;
        }
        // A dry run finds wrong options before the note or the question about the old content.
        let dry_run = NewfsOptions { dry_run: true, ..options.clone() };
        newfs::newfs(device, &dry_run, &clock, &rng, &mut |_, _| {}).map_err(fail)?;
        confirm(args, name, device)?;
    }
    let mut progress = Progress::items("groups", None);
    let mut each = |done: u32, all: u32| progress.set(done.into(), Some(all.into()));
    let report = newfs::newfs(device, options, &clock, &rng, &mut each).map_err(fail)?;
    if write {
        device.flush().map_err(|error| Failure::new(name, error))?;
        if args.journal {
            make_journal(name, device, report.superblock.f.time)?;
        }
    }
    Ok(report)
}

/// Adds a journal to the new file system, as FreeBSD's newfs does with tunefs.
fn make_journal(name: &str, device: &dyn BlockDevice, now: i64) -> Result<(), Failure> {
    let options = TunefsOptions { journal: Some(true), now, ..TunefsOptions::default() };
    let made = tunefs(device, &options).and_then(|_| Ok(device.flush()?));
    made.map_err(|error| {
        let failure = Failure::new(name, format!("no journal was made: {error}"));
        failure.hint("make the file system larger, or without -j")
    })
}

/// Fails if a disk that is not named as a whole, `IMAGE@0`, has a partition table.
pub(super) fn keep_partitions(
    image: &OsStr,
    name: &str,
    disk: &dyn BlockDevice,
) -> Result<(), Failure> {
    if names_partition(image) {
        return Ok(());
    }
    let table = partition::scan(disk).map_err(|error| Failure::new(name, error))?;
    if table.partitions.is_empty() {
        warn_of_notes(name, &table.notes);
        return Ok(());
    }
    let parts: Vec<String> = table.partitions.iter().map(|p| format!("  {p}")).collect();
    let hint = format!("name a partition, {name}@N, or the whole disk, {name}@0");
    let why = format!("has a partition table; {hint}:\n{}", parts.join("\n"));
    Err(Failure::new(name, why))
}

/// Makes sure that no file system is overwritten by mistake.
fn confirm(args: &Args, name: &str, device: &dyn BlockDevice) -> Result<(), Failure> {
    if args.yes {
        return Ok(());
    }
    let Some(what) = bsd::content(device) else { return Ok(()) };
    // Without a terminal newfs does not ask, as BSD's newfs never does.
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        output::note(format!("{name} held {what}, which is overwritten"));
        return Ok(());
    }
    // If the prompt cannot be written, the answer counts as no.
    let _ = write!(io::stderr(), "{name} holds {what}. Overwrite it? [y/N] ");
    let answer = signals::read_line();
    if matches!(answer.as_deref().map(str::trim), Some("y" | "Y" | "yes")) {
        return Ok(());
    }
    Err(Failure::new(name, "left as it is"))
}

fn print_report(
    args: &Args,
    name: &str,
    options: &NewfsOptions,
    report: &NewfsReport,
) -> Result<(), Failure> {
    let NewfsReport { plan, superblock, .. } = report;
    let format = if plan.format == Format::Ufs1 { "UFS1" } else { "UFS2" };
    if args.json {
        return output::json(&Json {
            image: name.to_owned(),
            made: !args.dry_run,
            format,
            soft_updates: options.soft_updates,
            journal: options.journal,
            endian: if superblock.endian == Endian::Little { "little" } else { "big" },
            bytes: plan.bytes,
            block_size: plan.bsize,
            fragment_size: plan.fsize,
            groups: plan.ncg,
            fragments_per_group: plan.fpg,
            inodes_per_group: plan.ipg,
            inodes: plan.ncg * plan.ipg,
            data_fragments: plan.dsize,
            superblock: plan.sblockloc,
            backups: report.backup_sectors().collect(),
            notes: plan.notes.clone(),
        });
    }
    let mut out = output::stdout();
    for note in &plan.notes {
        output::note(note);
    }
    let (mib, sectors) = (plan.bytes as f64 / f64::from(1 << 20), plan.bytes / 512);
    let (bsize, fsize) = (plan.bsize, plan.fsize);
    writeln!(
        out,
        "{name}: {mib:.1}MB ({sectors} sectors) {format} block size {bsize}, fragment size {fsize}"
    )?;
    let group = plan.fpg as f64 * f64::from(plan.fsize) / f64::from(1 << 20);
    let (groups, ipg) = (counted(plan.ncg, "cylinder group"), plan.ipg);
    let blocks = plan.fpg / u64::from(plan.frag);
    writeln!(out, "\tusing {groups} of {group:.2}MB, {blocks} blks, {ipg} inodes.")?;
    match (options.journal, options.soft_updates) {
        (true, _) => writeln!(out, "\twith journaled soft updates")?,
        (false, true) => writeln!(out, "\twith soft updates")?,
        (false, false) => {}
    }
    bsd::write_backups(&mut out, report.backup_sectors())?;
    out.flush()?;
    Ok(())
}
