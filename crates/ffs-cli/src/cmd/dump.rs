//! `ffs dump`.

mod dumpdates;
mod live;

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bsdffs::dump::{DumpError, DumpObserver, DumpOptions, DumpReport, NTREC, TP_BSIZE};
use ffs_admin::counted;
use ffs_core::{Env, MountOptions};

use super::Doc;
use crate::archive_file::ArchiveFile;
use crate::bsd;
use crate::fail::{Failure, Outcome, show};
use crate::progress::Progress;
use crate::session::snapshot;
use crate::session::{self, Session};
use crate::source_date::source_date_epoch;
use crate::{output, signals};
use dumpdates::DumpDates;
pub(crate) use dumpdates::ctime;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs dump -0u -f full.dump disk.img@2", "everything; the date goes to /etc/dumpdates"),
        ("ffs dump -1u -f monday.dump disk.img@2", "what has changed since"),
        ("ffs dump -0 -L -f full.dump /mnt", "what is mounted on /mnt, while it is in use"),
        ("ffs dump -f - disk.img | ssh host 'cat > disk.dump'", "to standard output"),
        ("ffs dump -f - old.img | ffs restore -r -f - new.img:/", "to another file system"),
    ],
    exit: &[
        ("0", "the dump is complete"),
        ("1", "it was not begun; the reason is on standard error"),
        ("3", "it ended early, or files could not be read"),
        ("130", "interrupted by a signal"),
    ],
    see_also: &["ffs-restore(8)", "ffs-cp(1)", "ffs-build(1)"],
    section: "8",
    usage_code: 1,
};

/// Back up a file system in BSD's dump format.
///
/// The dump is one that FreeBSD writes: its restore and those of other systems read it. The file
/// system must not be mounted, or only for reading; or -L dumps a mounted one as it is when the
/// dump begins. -L makes the snapshot .snap/dump_snapshot in it, and the directory .snap must
/// exist. The snapshot loses its name at once, and is freed when the dump ends. One that a killed
/// dump left is removed first. A dump has snapshots as empty files.
///
/// A level above 0 dumps the files that have changed since the latest dump of a lower level, and
/// the directories that lead to them. With -u the date is recorded in a file of BSD's format, under
/// the absolute path of the image; spaces in it are written as \040. Without such a record
/// everything is dumped.
///
/// Files with the flag nodump are left out at the level of -h and above, and so is everything below
/// a directory with the flag. A regular FILE keeps its old content until the dump is complete. A
/// part of a file that cannot be read is zeros in the dump; it is reported, and then -u records
/// nothing.
///
/// BSD's old form of options is accepted, too: 0uf FILE IMAGE is -0 -u -f FILE IMAGE.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    #[command(flatten)]
    level: Level,
    /// IMAGE[@N]: a file or a block device; with -L the directory of a mount
    #[arg(value_name = "IMAGE")]
    image: OsString,
    #[command(flatten)]
    stream: Stream,
    /// Record the date of this dump
    #[arg(short = 'u')]
    update: bool,
    /// The file with the dates of dumps
    #[arg(short = 'D', value_name = "DUMPDATES", default_value = "/etc/dumpdates")]
    dumpdates: PathBuf,
    /// Dump what has changed since DATE, in the form of ctime(3) or as seconds since 1970
    #[arg(short = 'T', value_name = "DATE", value_parser = dumpdates::date,
          conflicts_with = "update")]
    since: Option<i64>,
    /// The lowest level at which the flag nodump is honoured
    #[arg(short = 'h', value_name = "LEVEL", default_value_t = 1)]
    honor_level: u8,
    /// Print the expected size in bytes, and dump nothing
    #[arg(short = 'S')]
    size_only: bool,
    /// Kilobytes in a write; the length of the dump is a multiple
    #[arg(short = 'b', value_name = "KILOBYTES", default_value_t = NTREC,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    blocksize: u32,
    /// Accepted: a dump always has one volume
    #[arg(short = 'a')]
    autosize: bool,
    /// Accepted: the dump has no questions for operators
    #[arg(short = 'n')]
    notify: bool,
    /// Accepted: the cache has a fixed size
    #[arg(short = 'C', value_name = "MEGABYTES", value_parser = bsd::number)]
    cache: Option<u64>,
    /// Dump what is mounted on the directory IMAGE, from a snapshot that is made for it
    #[arg(short = 'L')]
    live: bool,
    #[command(flatten)]
    tape: Tape,
}

/// Arguments that dump and restore share.
#[derive(clap::Args)]
pub(super) struct Stream {
    /// The dump: a file, a device, or - for standard output (of restore: standard input)
    #[arg(short = 'f', value_name = "FILE|-")]
    pub(super) file: Option<PathBuf>,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// The levels, as BSD's options.
#[derive(clap::Args)]
#[group(multiple = false)]
struct Level {
    /// Level 0 (the default): everything
    #[arg(short = '0')]
    level0: bool,
    /// Levels 1 to 9: what has changed since the latest dump of a lower level
    #[arg(short = '1')]
    level1: bool,
    #[arg(short = '2', hide = true)]
    level2: bool,
    #[arg(short = '3', hide = true)]
    level3: bool,
    #[arg(short = '4', hide = true)]
    level4: bool,
    #[arg(short = '5', hide = true)]
    level5: bool,
    #[arg(short = '6', hide = true)]
    level6: bool,
    #[arg(short = '7', hide = true)]
    level7: bool,
    #[arg(short = '8', hide = true)]
    level8: bool,
    #[arg(short = '9', hide = true)]
    level9: bool,
}

impl Level {
    fn number(&self) -> u8 {
        let all = [
            self.level0,
            self.level1,
            self.level2,
            self.level3,
            self.level4,
            self.level5,
            self.level6,
            self.level7,
            self.level8,
            self.level9,
        ];
        all.iter().position(|given| *given).unwrap_or(0) as u8
    }
}

/// BSD's options for tapes, which are refused with a reason.
#[derive(clap::Args)]
struct Tape {
    #[arg(short = 'B', hide = true)]
    records: Option<String>,
    #[arg(short = 'd', hide = true)]
    density: Option<String>,
    #[arg(short = 's', hide = true)]
    feet: Option<String>,
    #[arg(short = 'c', hide = true)]
    cartridge: bool,
    #[arg(short = 'P', hide = true)]
    pipe: Option<String>,
    #[arg(short = 'W', hide = true)]
    which: bool,
    #[arg(short = 'w', hide = true)]
    which_needed: bool,
}

impl Args {
    fn refuse(&self) -> Result<(), Failure> {
        let tape = &self.tape;
        let sizes = "a dump has one volume; split(1) divides it";
        let refused = [
            (tape.records.is_some(), "-B: "),
            (tape.density.is_some(), "-d: "),
            (tape.feet.is_some(), "-s: "),
            (tape.cartridge, "-c: "),
            (tape.pipe.is_some(), "-P: not supported; use -f - and a pipe"),
            (tape.which || tape.which_needed, "-W, -w: not supported; read the dumpdates file"),
        ];
        match refused.into_iter().find(|(given, _)| *given) {
            Some((_, why)) if why.ends_with(": ") => {
                Err(Failure::plain(format!("{why}not supported: {sizes}")))
            }
            Some((_, why)) => Err(Failure::plain(why)),
            None => Ok(()),
        }
    }
}

/// Draws progress and prints problems.
struct Watch(Progress);

impl DumpObserver for Watch {
    fn progress(&mut self, records: u64, estimate: u64) {
        let bytes = |records: u64| records.saturating_mul(TP_BSIZE as u64);
        self.0.set(bytes(records), Some(bytes(estimate.max(records))));
    }

    fn problem(&mut self, text: &str) {
        output::error(text);
    }

    fn is_cancelled(&self) -> bool {
        signals::interrupted()
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    args.refuse()?;
    signals::listen();
    let name = show(args.image.as_bytes());
    let (opened, source) = if args.live && Path::new(&args.image).is_dir() {
        let (opened, image) = live::open(&args.image)?;
        (opened, Source { image, snapshot: true })
    } else {
        if let Some(failure) = live::refuse_mount(&args.image) {
            return Err(failure);
        }
        if args.live {
            output::note(format!("{name}: it is not mounted, so -L has no effect"));
        }
        let snapshot = snapshot::inside(&args.image).is_some();
        (session::open(&args.image, false)?, Source { image: args.image.clone(), snapshot })
    };
    let mount = MountOptions { read_only: true, ..session::offline() };
    let device = Arc::clone(&opened.device);
    let session = Session::mount(name.clone(), device, &mount, Env::system())?;
    let result = dump(&args, &source, &*opened.device, &session);
    session.finish_with(result)
}

/// What is dumped.
struct Source {
    /// The image, under which dates are recorded.
    image: OsString,
    /// A snapshot is dumped.
    snapshot: bool,
}

fn dump(
    args: &Args,
    source: &Source,
    device: &dyn ffs_device::BlockDevice,
    session: &Session,
) -> Outcome {
    let name = session.image();
    let key = dumpdates::key(&source.image)?;
    let level = args.level.number();
    let base = match args.since {
        Some(date) => Some((date, None)),
        None if level == 0 => None,
        None => {
            let dates = DumpDates::read(&args.dumpdates, true)?;
            dates.base(&key, level).map(|(date, level)| (date, Some(level)))
        }
    };
    let options = DumpOptions {
        level,
        date: date(source, name, device)?,
        ddate: base.map_or(0, |(date, _)| date),
        honor_level: args.honor_level,
        ntrec: args.blocksize,
        filesys: b"an unlisted file system".to_vec(),
        dev: key.clone(),
        host: rustix::system::uname().nodename().to_bytes().to_vec(),
        ..DumpOptions::default()
    };
    let mut watch = Watch(Progress::bytes("dump", None));
    if args.size_only {
        let records = bsdffs::dump::estimate(device, &session.ffs, &options, &mut watch);
        let records = records.map_err(|error| failed(name, &error))?;
        writeln!(output::stdout(), "{}", records.saturating_mul(TP_BSIZE as u64))?;
        return Ok(0);
    }
    let Some(file) = &args.stream.file else {
        let failure = Failure::plain("no file for the dump");
        return Err(failure.hint("give -f FILE, or -f - for standard output"));
    };
    output::note(format!("date of this level {level} dump: {}", ctime(options.date)));
    output::note(match base {
        Some((date, Some(level))) => {
            format!("date of the last level {level} dump: {}", ctime(date))
        }
        Some((date, None)) => format!("files that have changed since {}", ctime(date)),
        None => "no dump of a lower level: everything".to_owned(),
    });
    let mut target = ArchiveFile::create(file, &source.image, "a dump")?;
    let report = bsdffs::dump::dump(device, &session.ffs, &options, target.writer(), &mut watch);
    drop(watch);
    let report = report.map_err(|error| failed(name, &error))?;
    target.keep(file).map_err(|failure| failure.code(3))?;
    finish(args, name, &report)?;
    if report.problems > 0 {
        return Ok(3);
    }
    if args.update {
        DumpDates::update(&args.dumpdates, &key, level, options.date)?;
    }
    Ok(0)
}

fn finish(args: &Args, name: &str, report: &DumpReport) -> Result<(), Failure> {
    let (directories, files) = (report.directories, report.files);
    let directories = match directories {
        1 => "1 directory".to_owned(),
        n => format!("{n} directories"),
    };
    let bytes = output::human(report.records.saturating_mul(TP_BSIZE as u64));
    let files = counted(files, "other file");
    output::note(format!("{name}: {directories}, {files}, {bytes}"));
    if report.problems > 0 {
        let record = if args.update { "; the date is not recorded" } else { "" };
        let problems = counted(report.problems, "problem");
        output::note(format!("the dump is not complete: {problems}{record}"));
    }
    Ok(())
}

/// The date of the dump: what changes from then on is for the next level. For a snapshot it is the
/// moment that the snapshot shows.
fn date(source: &Source, name: &str, device: &dyn ffs_device::BlockDevice) -> Result<i64, Failure> {
    let fixed = source_date_epoch()?;
    let date = fixed.unwrap_or_else(now);
    if !source.snapshot {
        return Ok(date);
    }
    let volume = ffs_admin::Volume::open(device).map_err(|error| Failure::admin(name, &error))?;
    Ok(date.min(volume.sb.f.time))
}

fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}

/// The failure after a dump ended early.
fn failed(name: &str, error: &DumpError) -> Failure {
    match error {
        DumpError::Cancelled => Failure::interrupted(),
        DumpError::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => {
            Failure::pipe_closed()
        }
        error => Failure::new(name, error).code(3),
    }
}
