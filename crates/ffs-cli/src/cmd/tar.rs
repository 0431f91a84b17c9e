//! `ffs tar`.

mod members;
mod words;

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bsdffs::copy::{
    CopyOptions, CopyReport, Entry, EntryKind, Existing, FileData, ImageSink, ImageSource,
    ImageSourceOptions, Observer, Select, SkippedFile, transfer, transfer_selected,
};
use bsdffs::tar::{BirthTimes, TarSink, TarSource};
use ffs_core::FileType;
use serde::Serialize;

use super::Doc;
use crate::archive_file::{self, ArchiveFile};
use crate::bsd;
use crate::copying::{CopyProgress, JsonCounts, warn_of_losses};
use crate::fail::{Failure, Outcome, show};
use crate::namei::{Last, basename};
use crate::output::{self, JsonName};
use crate::progress::Progress;
use crate::session::Session;
use crate::session::snapshot::AtEnd;
use crate::signals;
use crate::spec::{ImagePath, image_path};
use members::Members;
use words::{Action, Words};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs tar c disk.img:/etc | tar t", "a directory as an archive on a pipe"),
        ("ffs tar c -f home.tar disk.img@2:/home", "in a file"),
        ("ffs tar c disk.img | zstd > disk.tar.zst", "the whole volume, compressed"),
        ("ffs tar x -f base.tgz disk.img:/", "an archive into the root directory"),
        ("tar c -C rootfs . | ffs tar xv disk.img:/srv", "a tree of the host, with the names"),
        ("ffs tar c old.img:/usr | ffs tar x new.img:/usr", "from image to image"),
        ("ffs tar cf monday.tar disk.img:/.snap/monday", "the files of a snapshot"),
        ("ffs tar c --json -f a.tar disk.img", "one JSON object for each member"),
    ],
    exit: &[
        ("0", "everything was archived or extracted"),
        ("1", "something was not; standard error has a line for each"),
        ("130", "interrupted by a signal; the image was unmounted cleanly"),
    ],
    see_also: &["ffs-cp(1)", "ffs-build(1)", "ffs-dump(8)", "tar(1)"],
    section: "1",
    usage_code: 64,
};

/// Write a directory of an image as a tar archive, or extract one into it.
///
/// `ffs tar c` writes what is in IMAGE:/PATH, as `tar -C PATH -c .` does: the names begin with
/// `./`. The archive has the pax format with owners, modes, times to the nanosecond, hard links,
/// holes (GNU.sparse 1.0), devices, BSD file flags (SCHILY.fflags), POSIX access lists (SCHILY.acl)
/// and extended attributes (SCHILY.xattr). GNU tar and bsdtar read it. The same files give the same
/// bytes. Birth times are in comments, which `ffs tar x` reads, unless --birth-times is given.
/// Sockets and snapshots are left out, with a warning. A file that cannot be read to its end
/// has zeros in place of the rest, with an error.
///
/// `ffs tar x` extracts into the directory IMAGE:/PATH, which must exist. It reads archives of GNU
/// tar, bsdtar and others, plain or compressed with gzip, xz, zstd or bzip2. Everything is kept, as
/// with -p of tar(1); owners are the numbers in the archive. An existing file is replaced when the
/// new one is complete; -k leaves it alone.
///
/// After the directory MEMBERs may follow: then only these are extracted, and what is below them. A
/// MEMBER is a path in the archive, with or without `./` in front. One that the archive lacks is an
/// error after all others were extracted.
///
/// Nothing is written outside the directory: leading slashes are removed, a name with `..` is an
/// error, and no symbolic link is followed, neither one of the archive nor one in the image. If the
/// archive is truncated or damaged, or the volume full, the message names the member, and what was
/// extracted before stays.
#[derive(clap::Args)]
#[command(override_usage = "ffs tar c|x [OPTIONS] [-f FILE] IMAGE[@N][:/PATH] [MEMBER]...")]
pub(crate) struct Args {
    /// c (create) or x (extract), perhaps with v, f, k and p as in `xvf`; then IMAGE[@N][:/PATH];
    /// then, of x, the members to extract
    #[arg(required = true, num_args = 1.., value_name = "c|x IMAGE[:/PATH]")]
    words: Vec<OsString>,
    /// Create an archive; the same as the word c
    #[arg(short = 'c', conflicts_with = "extract")]
    create: bool,
    /// Extract an archive; the same as the word x
    #[arg(short = 'x')]
    extract: bool,
    /// The archive; - is standard output, or of x standard input [default: -]
    #[arg(short = 'f', long, value_name = "FILE|-")]
    file: Option<PathBuf>,
    /// Print the name of each member
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Extract: leave existing files alone
    #[arg(short = 'k', long)]
    keep_old_files: bool,
    /// Owner and group of all members
    #[arg(long, value_name = "UID:GID", value_parser = bsd::owner)]
    owner: Option<(u32, u32)>,
    /// Create: birth times where bsdtar restores them, too; GNU tar warns of each
    #[arg(long)]
    birth_times: bool,
    /// Extract: accepted, the compression is recognised. Create: refused, gzip(1) compresses
    #[arg(short = 'z', short_aliases = ['j', 'J'], hide = true)]
    compressed: bool,
    /// Accepted: modes, owners, flags and access lists are always kept
    #[arg(short = 'p', long, visible_alias = "same-permissions")]
    preserve_permissions: bool,
    /// Accepted: owners are always numbers
    #[arg(long)]
    numeric_owner: bool,
    /// Print JSON: an object for each member, and one for the total. With c it needs -f FILE
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let given = match (args.create, args.extract) {
        (true, _) => Some(Action::Create),
        (_, true) => Some(Action::Extract),
        _ => None,
    };
    let words = Words::parse(given, &args.words)?;
    let file = match (&args.file, words.file) {
        (Some(_), Some(_)) => return Err(Failure::usage("-f: given twice")),
        (file, other) => file.clone().or(other).unwrap_or_else(|| PathBuf::from("-")),
    };
    if words.action == Action::Create && args.json && file == Path::new("-") {
        return Err(Failure::usage("--json: standard output has the archive; give -f FILE"));
    }
    if words.action == Action::Create && (args.compressed || words.compressed) {
        let hint = "leave -z out, and give the archive to gzip: ffs tar c IMAGE:/PATH | gzip";
        return Err(Failure::usage("archives are made without compression").hint(hint));
    }
    signals::listen();
    let place = image_path(&words.image)?;
    let letter = if words.action == Action::Create { "a" } else { "x" };
    let mut watch = Watch {
        progress: CopyProgress(Progress::bytes("tar", None)),
        letter: (args.verbose || words.verbose).then_some(letter),
        owner: args.owner,
        json: args.json.then(output::stdout),
        error: None,
    };
    let report = match words.action {
        Action::Create => create(&file, &place, args.birth_times, &mut watch)?,
        Action::Extract => {
            let keep = args.keep_old_files || words.keep;
            let members = Arc::new(Members::new(words.members)?);
            let report = extract(&file, &place, (keep, &members), &mut watch)?;
            members.report_missing();
            report
        }
    };
    watch.finish(&report)?;
    warn_of_losses(&report);
    Ok(u8::from(report.failed > 0 || output::errors() > 0))
}

/// Shows progress, and with `-v` or `--json` the members.
struct Watch {
    progress: CopyProgress,
    /// The letter before each name.
    letter: Option<&'static str>,
    owner: Option<(u32, u32)>,
    json: Option<std::io::BufWriter<std::io::StdoutLock<'static>>>,
    /// Why JSON could not be printed.
    error: Option<Failure>,
}

#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Json {
    Member {
        path: JsonName,
        #[serde(rename = "type")]
        kind: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        size: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        target: Option<JsonName>,
    },
    Failed {
        name: String,
        reason: String,
    },
    Total(JsonCounts),
}

impl Watch {
    fn print(&mut self, value: &Json) {
        let Some(out) = &mut self.json else { return };
        if let Err(failure) = output::json_line(out, value) {
            self.error.get_or_insert(failure);
        }
    }

    /// Prints the total.
    fn finish(mut self, report: &CopyReport) -> Result<(), Failure> {
        self.print(&Json::Total(JsonCounts::from(report)));
        if let Some(mut out) = self.json {
            out.flush()?;
        }
        self.error.map_or(Ok(()), Err)
    }
}

impl Observer for Watch {
    fn adjust(&mut self, entry: &mut Entry) {
        // Source and target are different volumes.
        entry.meta.source = None;
        if let Some((uid, gid)) = self.owner {
            (entry.meta.uid, entry.meta.gid) = (uid, gid);
        }
        if let Some(letter) = self.letter {
            output::note(format!("{letter} ./{}", show(&entry.path)));
        }
        if self.json.is_some() {
            let (kind, size, target) = kind(&entry.kind);
            let path = JsonName::new(&entry.path);
            self.print(&Json::Member { path, kind, size, target: target.map(JsonName::new) });
        }
    }

    fn progress(&mut self, bytes: u64) {
        self.progress.progress(bytes);
    }

    fn skipped(&mut self, file: &SkippedFile) {
        self.print(&Json::Failed { name: file.name.clone(), reason: file.reason.to_string() });
        self.progress.skipped(file);
    }

    fn is_cancelled(&self) -> bool {
        self.progress.is_cancelled() || self.error.is_some()
    }
}

/// The name of a kind in JSON, the size of a file, and the target of a link.
fn kind(kind: &EntryKind) -> (&'static str, Option<u64>, Option<&[u8]>) {
    let name = |kind| output::kind_name(kind);
    match kind {
        EntryKind::Directory => (name(FileType::Directory), None, None),
        EntryKind::File(size) => (name(FileType::Regular), Some(*size), None),
        EntryKind::Symlink(text) => (name(FileType::Symlink), None, Some(text)),
        EntryKind::Fifo => (name(FileType::Fifo), None, None),
        EntryKind::Socket => (name(FileType::Socket), None, None),
        EntryKind::Char(_) => (name(FileType::Char), None, None),
        EntryKind::Block(_) => (name(FileType::Block), None, None),
        EntryKind::Link(first) => ("link", None, Some(first)),
    }
}

/// Writes the tree at `place` to the archive `file`, with `libarchive` for the birth times of
/// bsdtar.
fn create(
    file: &Path,
    place: &ImagePath,
    libarchive: bool,
    watch: &mut Watch,
) -> Result<CopyReport, Failure> {
    let (session, place) = Session::read_at(place, AtEnd::Root)?;
    let result = session.find(&place.path, Last::Follow).and_then(|top| {
        let mut out = ArchiveFile::create(file, &place.image, "an archive")?;
        let directory = session.ffs.getattr(&top).kind == FileType::Directory;
        // A file that is no directory is a member of its own name.
        let name = basename(&place.path).filter(|_| !directory).unwrap_or_default().to_vec();
        let options = ImageSourceOptions {
            hard_links: true,
            xattrs: true,
            skip_snapshots: directory,
            data: FileData::MapAndBytes,
            ..ImageSourceOptions::default()
        };
        let source = ImageSource::new(session.image_ref(), top, &place.path, options).target(name);
        let shown = match file.to_str() {
            Some("-") => "standard output".to_owned(),
            _ => file.display().to_string(),
        };
        let prefix = if directory { "./" } else { "" };
        let birth = if libarchive { BirthTimes::Libarchive } else { BirthTimes::Comment };
        let mut sink = TarSink::new(out.writer(), shown, prefix).birth_times(birth);
        let report = transfer(source, &mut sink, watch)?;
        out.keep(file)?;
        Ok(report)
    });
    session.finish_with(result)
}

/// Extracts the archive `file` into the directory at `place`.
fn extract(
    file: &Path,
    place: &ImagePath,
    (keep, members): (bool, &Arc<Members>),
    watch: &mut Watch,
) -> Result<CopyReport, Failure> {
    let (input, name) = archive_file::open(file, "an archive")?;
    let session = Session::write(&place.image)?;
    let result = session.find(&place.path, Last::Follow).and_then(|dir| {
        if session.ffs.getattr(&dir).kind != FileType::Directory {
            return Err(Failure::new(place, "not a directory"));
        }
        let existing = if keep { Existing::Keep } else { Existing::Replace };
        let options = CopyOptions { existing, ..CopyOptions::archive() };
        let mut sink = ImageSink::new(session.image_ref(), dir, options);
        let source = TarSource::new(input, name).require_end();
        let select = Some(Arc::clone(members) as Arc<dyn Select>);
        transfer_selected(source, select, &mut sink, watch).map_err(|error| {
            let stay = "what was extracted before stays; make space there (ffs rm), or extract \
                        into a larger image (ffs build --size SIZE makes one of an archive)";
            Failure::from(error).hint_if_full(stay)
        })
    });
    session.finish_with(result)
}
