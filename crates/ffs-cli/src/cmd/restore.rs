//! `ffs restore`.

mod target;

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use bsdffs::copy::{CopyOptions, CopyReport, Entry, Observer, Sink, SkippedFile, Source, transfer};
use bsdffs::dump::{Header, Incremental, ListedName, Restore, RestoreOptions, SymTable};
use serde::Serialize;

use super::Doc;
use super::dump::{Stream, ctime};
use crate::archive_file;
use crate::copying::{CopyProgress, warn_of_losses};
use crate::fail::{Failure, Outcome, show};
use crate::output::{self, JsonName};
use crate::progress::Progress;
use crate::signals;
use target::{Opened, Place};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs restore -t -f full.dump", "list the names"),
        (
            "ffs restore -x -f full.dump etc/fstab home",
            "a file and a tree, into the directory here",
        ),
        ("ffs restore -x -f full.dump -D disk.img:/old", "everything, into an image"),
        ("ffs restore -r -f full.dump new.img:/", "rebuild a file system ..."),
        ("ffs restore -r -f monday.dump new.img:/", "... and apply the changes of Monday"),
        ("ffs restore -C -f full.dump new.img:/", "compare it with the dump"),
    ],
    exit: &[
        ("0", "everything was restored, or is the same"),
        ("1", "something was not, or differs; standard error has a line for each"),
        ("130", "interrupted by a signal"),
    ],
    see_also: &["ffs-dump(8)", "ffs-cp(1)"],
    section: "8",
    usage_code: 1,
};

/// Restore files from a dump, or a whole file system.
///
/// Dumps of FreeBSD, NetBSD and OpenBSD for UFS1 and UFS2 in both byte orders can be read, and
/// those of Linux for ext2, ext3 and ext4, also compressed with gzip, xz, zstd or bzip2. The target
/// is a directory of the host or IMAGE:/path. Owners, modes, times, flags, holes, hard links,
/// devices, extended attributes and access lists are restored; a warning counts what the target
/// cannot keep. Existing files are replaced. The target directory itself gets the attributes of the
/// root of the dump, unless paths are given.
///
/// -r restores a dump of level 0 into an empty file system, and then dumps of higher levels, in
/// the order in which they were made. Files that were removed or renamed since are removed and
/// renamed in the target, too. The file restoresymtable in the target has what the next restore
/// needs to know; remove it after the last one.
///
/// Nothing is written outside the target, for any names in the dump, and symbolic links
/// there are not followed. At a damaged record the restore stops; with -y it continues at the next
/// file.
///
/// BSD's old form of options is accepted, too: xf FILE is -x -f FILE.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    #[command(flatten)]
    action: Action,
    #[command(flatten)]
    stream: Stream,
    /// The target: a directory, or IMAGE[@N]:/path [default: the current directory]
    #[arg(short = 'D', value_name = "TARGET")]
    target: Option<OsString>,
    /// With -t and -x: paths in the dump [default: all]; with -r and -C: the target
    #[arg(value_name = "PATH")]
    paths: Vec<OsString>,
    /// Print the name of each file
    #[arg(short = 'v')]
    verbose: bool,
    /// Skip damaged parts of the dump
    #[arg(short = 'y')]
    yes: bool,
    /// Write nothing: only read the dump, and with -v print what would be done
    #[arg(short = 'N')]
    dry_run: bool,
    /// Restore or list a directory itself, without the files below it
    #[arg(short = 'h')]
    flat: bool,
    /// Name each file by its inode number, and restore no directories
    #[arg(short = 'm')]
    by_inode: bool,
    /// Read this dump of a file with several, counted from 1
    #[arg(short = 's', value_name = "NUMBER", default_value_t = 1)]
    number: u32,
    /// Accepted: the size of a read needs no option
    #[arg(short = 'b', value_name = "KILOBYTES")]
    blocksize: Option<u32>,
    /// Accepted: existing files are always replaced
    #[arg(short = 'u')]
    unlink: bool,
    /// With -t: print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Action {
    /// List the names in the dump
    #[arg(short = 't')]
    list: bool,
    /// Restore the files with these paths
    #[arg(short = 'x')]
    extract: bool,
    /// Restore a whole file system
    #[arg(short = 'r')]
    rebuild: bool,
    /// Compare the files of the dump, but snapshots, with those of the target
    #[arg(short = 'C')]
    compare: bool,
    /// Refused: there is no interactive mode
    #[arg(short = 'i')]
    interactive: bool,
    #[arg(short = 'R', hide = true)]
    restart: bool,
}

/// Shows progress, and with -v the names.
struct Watch {
    progress: CopyProgress,
    verbose: bool,
}

impl Observer for Watch {
    fn adjust(&mut self, entry: &mut Entry) {
        if self.verbose {
            output::note(format!("./{}", show(&entry.path)));
        }
    }

    fn progress(&mut self, bytes: u64) {
        self.progress.progress(bytes);
    }

    fn skipped(&mut self, file: &SkippedFile) {
        self.progress.skipped(file);
    }

    fn is_cancelled(&self) -> bool {
        self.progress.is_cancelled()
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    let action = &args.action;
    if action.interactive {
        return Err(Failure::plain(
            "-i: there is no interactive mode; list the names with -t and \
                                   give those to restore to -x",
        ));
    }
    if action.restart {
        return Err(Failure::plain(
            "-R: a dump has one volume; run -r again from the level 0 dump",
        ));
    }
    if args.json && !action.list {
        return Err(Failure::plain("--json: only with -t"));
    }
    signals::listen();
    let (mut restore, name) = open(&args)?;
    for note in restore.take_notes() {
        output::error(format!("{name}: {note}"));
    }
    if action.list {
        return list(&args, restore);
    }
    let place = Place::of(&args)?;
    if action.compare {
        return compare(&args, restore, &place);
    }
    let opened = Opened::open(&place)?;
    let result = if action.rebuild {
        rebuild(&args, restore, &opened)
    } else {
        extract(&args, restore, &opened)
    };
    let result = result.map_err(|failure| failure.hint_if_full("files restored before stay"));
    opened.finish_with(result)
}

/// Opens the dump; returns its name, too.
fn open(args: &Args) -> Result<(Restore, String), Failure> {
    let Some(file) = &args.stream.file else {
        return Err(Failure::plain("no dump").hint("give -f FILE, or -f - for standard input"));
    };
    let (input, name) = archive_file::open(file, "a dump")?;
    let options = RestoreOptions { number: args.number, skip_damage: args.yes };
    let restore = Restore::open(input, &name, options);
    let restore = restore.map_err(|error| {
        let failure = Failure::new(&name, &error);
        if args.yes || error.record() == 0 {
            failure
        } else {
            failure.hint("-y skips damaged parts")
        }
    })?;
    Ok((restore, name))
}

/// Selects the paths of the command line; whether all of them exist.
fn select(args: &Args, restore: &mut Restore) -> bool {
    let mut paths: Vec<Vec<u8>> = args.paths.iter().map(|path| path.as_bytes().to_vec()).collect();
    if paths.is_empty() {
        if !args.flat {
            return true;
        }
        paths.push(Vec::new());
    }
    let missing = restore.select(&paths, !args.flat);
    for path in &missing {
        output::error(format!("{}: not in the dump", show(path)));
    }
    missing.is_empty()
}

#[derive(Serialize)]
struct JsonDump {
    date: i64,
    base_date: i64,
    level: i32,
    file_system: String,
    device: String,
    host: String,
    label: String,
    files: Vec<JsonFile>,
}

#[derive(Serialize)]
struct JsonFile {
    inode: u32,
    directory: bool,
    #[serde(flatten)]
    path: JsonName,
}

fn list(args: &Args, mut restore: Restore) -> Outcome {
    let complete = select(args, &mut restore);
    if args.json {
        let header = restore.header().clone();
        let file = |name: ListedName| JsonFile {
            inode: name.ino,
            directory: name.directory,
            path: JsonName::new(&shown_path(&name.path)),
        };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        output::json(&JsonDump {
            date: header.date,
            base_date: header.ddate,
            level: header.level,
            file_system: text(&header.filesys),
            device: text(&header.dev),
            host: text(&header.host),
            label: text(&header.label),
            files: restore.names().map(file).collect(),
        })?;
        return Ok(u8::from(!complete));
    }
    let mut out = output::stdout();
    print_header(&mut out, restore.header())?;
    for name in restore.names() {
        let kind = match (args.verbose, name.directory) {
            (false, _) => "",
            (true, true) => "dir  ",
            (true, false) => "leaf ",
        };
        writeln!(out, "{kind}{:>10}\t{}", name.ino, show(shown_path(&name.path)))?;
    }
    out.flush()?;
    Ok(u8::from(!complete || output::errors() > 0))
}

/// What BSD's restore prints before a list.
fn print_header(out: &mut impl Write, header: &Header) -> Result<(), Failure> {
    let base = if header.ddate == 0 { "the epoch".to_owned() } else { ctime(header.ddate) };
    writeln!(out, "Dump   date: {}\nDumped from: {base}", ctime(header.date))?;
    let (host, dev) = (show(&header.host), show(&header.dev));
    let filesys = show(&header.filesys);
    writeln!(out, "Level {} dump of {filesys} on {host}:{dev}", header.level)?;
    writeln!(out, "Label: {}", show(&header.label))?;
    Ok(())
}

/// A path in the form of BSD's restore.
fn shown_path(path: &[u8]) -> Vec<u8> {
    if path.is_empty() { b".".to_vec() } else { [b"./", path].concat() }
}

fn copy(
    args: &Args,
    source: impl Source,
    sink: &mut dyn Sink,
    what: &str,
) -> Result<CopyReport, Failure> {
    let progress = CopyProgress(Progress::bytes(what, None));
    let mut watch = Watch { progress, verbose: args.verbose };
    Ok(transfer(source, sink, &mut watch)?)
}

/// The exit code after a copy.
fn outcome(report: &CopyReport, complete: bool) -> Outcome {
    warn_of_losses(report);
    if report.failed > 0 {
        output::note(format!("restored {}", report.summary()));
    }
    Ok(u8::from(!complete || report.failed > 0 || output::errors() > 0))
}

fn extract(args: &Args, mut restore: Restore, opened: &Opened) -> Outcome {
    let complete = select(args, &mut restore);
    if args.dry_run {
        let report = copy(args, restore.source(args.by_inode), &mut target::Nothing, "read")?;
        return outcome(&report, complete);
    }
    if !args.by_inode {
        let mut names = opened.names()?;
        for path in restore.parents() {
            names.mkdir(&path).map_err(Failure::plain)?;
        }
    }
    let mut sink = opened.sink(CopyOptions::archive())?;
    let report = copy(args, restore.source(args.by_inode), &mut *sink, "restore")?;
    outcome(&report, complete)
}

fn rebuild(args: &Args, restore: Restore, opened: &Opened) -> Outcome {
    let mut names = opened.names()?;
    let at_table = |why: String| Failure::new(opened.shown(SymTable::NAME), why);
    let table = names.read(SymTable::NAME).map_err(Failure::plain)?;
    let table = table.map(|bytes| SymTable::parse(&bytes)).transpose().map_err(at_table)?;
    let name = args.stream.file.as_deref().map(|file| show(file.as_os_str().as_bytes()));
    let name = name.unwrap_or_default();
    let mut incremental =
        Incremental::new(restore, table).map_err(|why| Failure::new(&name, why))?;
    if args.dry_run {
        names = Box::new(target::DryTarget(names));
    }
    let verbose = args.verbose;
    let mut log = |change: &str| {
        if verbose {
            output::note(change);
        }
    };
    for problem in incremental.change_names(&mut *names, &mut log) {
        output::error(problem);
    }
    let (source, table) = incremental.into_source();
    if args.dry_run {
        let report = copy(args, source, &mut target::Nothing, "read")?;
        return outcome(&report, true);
    }
    let mut sink = opened.sink(CopyOptions::archive())?;
    let report = copy(args, source, &mut *sink, "restore")?;
    let written = names.write(SymTable::NAME, &table.to_bytes());
    written.map_err(Failure::plain)?;
    outcome(&report, true)
}

fn compare(args: &Args, restore: Restore, place: &Place) -> Outcome {
    let source = restore.source(false);
    let report = place.compare(|sink| copy(args, source, sink, "compare"))?;
    if report.failed > 0 {
        let files = ffs_admin::counted(report.failed, "file");
        output::note(format!("differences in {files} of the dump"));
    }
    Ok(u8::from(report.failed > 0 || output::errors() > 0))
}
