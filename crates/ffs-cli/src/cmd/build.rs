//! `ffs build`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use bsdffs::build::{
    BuildError, BuiltImage, IdMap, ImageBuilder, ImageFormat, LeftOut, MtreeSpec, Tree, UserNames,
};
use bsdffs::copy::FileId;
use bsdffs::tar::Input;
use ffs_admin::AdminError;
use ffs_admin::newfs::NewfsOptions;
use ffs_device::BlockDevice;
use ffs_image::{OpenOptions, is_uri};
use ffs_ondisk::Format;
use serde::Serialize;

use super::newfs::{How, keep_partitions};
use super::{Doc, EXIT};
use crate::bsd::{self, Amount};
use crate::copying::{CopyProgress, JsonCounts, warn_of_losses};
use crate::fail::{Failure, Outcome, shell_word, show};
use crate::new_image;
use crate::output::{self, human};
use crate::progress::Progress;
use crate::session::open_with;
use crate::session::snapshot;
use crate::source_date::source_date_epoch;
use crate::spec::{self, names_partition};
use crate::{archive_file, signals, stdin};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs build root.img rootfs/", "an image of a directory, sized to fit"),
        (
            "ffs build --free 512m root.img base.txz kernel.txz overlay/",
            "of archives and a directory over them, with 512 MiB of free space",
        ),
        ("tar c etc usr | ffs build --size 2g root.img -", "of a stream, without a temporary file"),
        (
            "SOURCE_DATE_EPOCH=0 ffs build --owner 0:0 root.img src",
            "the same bytes from every checkout",
        ),
        ("ffs build --into disk.img@2 --fill rootfs", "in partition 2, as large as that"),
        (
            "ffs build --mtree dest/METALOG root.img dest",
            "of an installation without root (NO_ROOT)",
        ),
        ("ffs build root.qcow2 base.txz", "for a virtual machine: the name asks for qcow2"),
        ("ffs build -j root.img rootfs/", "with journaled soft updates, to be mounted for writing"),
        ("ffs build -O 1 --endian big mac.img tree", "UFS1 for a big-endian machine"),
    ],
    exit: EXIT,
    see_also: &["ffs-newfs(8)", "ffs-cp(1)", "ffs-fsck(8)", "tar(1)"],
    section: "1",
    usage_code: 64,
};

/// Make an image of directories and tar archives.
///
/// Several sources are copied one after the other into the root of the image. A file replaces one
/// of the same path from a source before it, and directories are merged. An image that is made to
/// fit has space for both files.
///
/// The image keeps owners, modes, times to the nanosecond, hard links, holes, devices, extended
/// attributes (in archives: pax SCHILY.xattr and LIBARCHIVE.xattr) and BSD file flags
/// (SCHILY.fflags). With --acls it also keeps POSIX access lists (SCHILY.acl). Without --acls a
/// file with an access list gets a mode that grants no more rights than the list, and a warning
/// names the file.
///
/// With --mtree the image has the files that a specification lists, with its owners, modes, flags
/// and times; sizes and checksums are not compared. A file that it lacks is left out, with a
/// warning. A file that it lists and no source has is created from its line, as makefs -F does:
/// directories, links (link=), pipes, sockets and devices (device=native,MAJOR,MINOR or the
/// number), and regular files with contents=FILE; one without contents= is an error. A line with
/// `optional` creates nothing. Names of users and groups are looked up in etc/master.passwd (or
/// passwd) and etc/group of the first directory among the sources, or in --users.
///
/// The same input gives the same bytes. The names of a directory are sorted; the members of an
/// archive keep their order. Random numbers have a fixed seed. Inode-change times and the times of
/// the volume are SOURCE_DATE_EPOCH, or else the latest modification in the tree. With
/// SOURCE_DATE_EPOCH, seconds since 1970, no file is newer than that. Any other value, also an
/// empty one, is an error.
///
/// As an image of makefs, the file system has no soft updates unless -U or -j is given. Give one of
/// them if the image is to be mounted for writing; `ffs tunefs -n enable` enables them later.
///
/// An archive is read twice, the first time to measure it. An archive on standard input is
/// therefore stored in a temporary file in $TMPDIR, unless --size or --fill is given. If a file
/// cannot be read or does not fit, no image is left.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// The image to make: a new file (in the format qcow2 if its name ends in .qcow2), or a block
    /// device, or IMAGE@N
    #[arg(value_name = "IMAGE")]
    image: OsString,
    /// Directories, archives (.tar, also compressed with gzip, xz, zstd or bzip2), or - for an
    /// archive on standard input
    #[arg(value_name = "TREE|ARCHIVE|-", required = true)]
    sources: Vec<PathBuf>,
    /// Size of the image: a number with a suffix, or sectors (of 512 bytes without -S) [default:
    /// fits the tree]
    #[arg(long, value_name = "SIZE", value_parser = bsd::amount)]
    size: Option<Amount>,
    /// Space to leave free, without --size
    #[arg(long, value_name = "BYTES", value_parser = bsd::number, conflicts_with = "size")]
    free: Option<u64>,
    /// As large as the partition or device
    #[arg(long, conflicts_with_all = ["size", "free"])]
    fill: bool,
    /// IMAGE is a partition or device that exists; its content is replaced
    #[arg(long)]
    into: bool,
    /// Sector size, a power of two from 512 to 65536 [default: that of the device]
    #[arg(short = 'S', long, value_name = "BYTES", value_parser = bsd::sector_size)]
    sector_size: Option<u32>,
    /// Soft updates with a journal: a check after a crash takes less than a second
    #[arg(short = 'j', long)]
    journal: bool,
    #[command(flatten)]
    content: ContentArgs,
    /// Replace an existing image
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    how: How,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// What a volume gets from its sources: build and disk share these.
#[derive(clap::Args)]
pub(super) struct ContentArgs {
    /// Owner and group of all files
    #[arg(long, value_name = "UID:GID", value_parser = bsd::owner)]
    owner: Option<(u32, u32)>,
    /// Users to replace: lines `OLD NEW[:UID]` as for GNU tar; +UID is a number
    #[arg(long, value_name = "FILE", conflicts_with_all = ["owner", "mtree"])]
    owner_map: Option<PathBuf>,
    /// Groups to replace: lines `OLD NEW[:GID]`; +GID is a number
    #[arg(long, value_name = "FILE", conflicts_with_all = ["owner", "mtree"])]
    group_map: Option<PathBuf>,
    /// Take owners, modes, flags and times from a specification as of mtree(8), such as METALOG
    #[arg(long, value_name = "FILE", visible_alias = "metalog", conflicts_with = "owner")]
    mtree: Option<PathBuf>,
    /// Directory with the master.passwd (or passwd) and the group of the names in --mtree
    #[arg(long, value_name = "DIR", requires = "mtree")]
    users: Option<PathBuf>,
    /// Enable POSIX access lists and keep those of the source (UFS2)
    #[arg(long)]
    acls: bool,
}

impl ContentArgs {
    /// A builder with these options, for a volume of `sources`. `latest` is the value of
    /// `SOURCE_DATE_EPOCH`: a command reads it once, also for several volumes.
    pub(super) fn builder(
        &self,
        sources: &[PathBuf],
        latest: Option<i64>,
    ) -> Result<ImageBuilder, Failure> {
        // Names are those of this machine.
        let user = |name: &str| uzers::get_user_by_name(name).map(|user| user.uid());
        let group = |name: &str| uzers::get_group_by_name(name).map(|group| group.gid());
        let users = read_map(self.owner_map.as_deref(), user)?;
        let groups = read_map(self.group_map.as_deref(), group)?;
        Ok(ImageBuilder::new()
            .owner(self.owner)
            .id_maps(users, groups)
            .acls(self.acls)
            .mtree(self.read_mtree(sources)?)
            .source_date_epoch(latest))
    }

    /// Whether there is a specification.
    pub(super) fn has_mtree(&self) -> bool {
        self.mtree.is_some()
    }

    /// The specification of `--mtree`, with the names in `--users`, or in those of the `sources`.
    fn read_mtree(&self, sources: &[PathBuf]) -> Result<Option<MtreeSpec>, Failure> {
        let Some(path) = &self.mtree else { return Ok(None) };
        let tree = || sources.iter().find(|source| source.is_dir()).map(|tree| tree.join("etc"));
        let users = match self.users.clone().or_else(tree) {
            Some(dir) => UserNames::read(&dir)
                .map_err(|error| Failure::new(show(dir.as_os_str().as_bytes()), error))?,
            None => UserNames::default(),
        };
        let name = show(path.as_os_str().as_bytes());
        let text = stdin::read_text(path)?;
        let spec = MtreeSpec::parse(&text, &users).map_err(|error| {
            let failure = Failure::new(&name, &error);
            let hint = "--users DIR names a directory with the master.passwd and group to look it \
                        up in";
            if error.is_unknown_name() { failure.hint(hint) } else { failure }
        })?;
        Ok(Some(spec))
    }
}

fn read_map(path: Option<&Path>, id_of: impl Fn(&str) -> Option<u32>) -> Result<IdMap, Failure> {
    let Some(path) = path else { return Ok(IdMap::default()) };
    let name = show(path.as_os_str().as_bytes());
    let text = String::from_utf8(stdin::read_text(path)?)
        .map_err(|_| Failure::new(&name, "is not UTF-8 text"))?;
    IdMap::parse(&text, id_of).map_err(|error| Failure::new(&name, error))
}

#[derive(Serialize)]
struct Json {
    image: String,
    format: &'static str,
    size: u64,
    free: i64,
    inodes_free: u64,
    #[serde(flatten)]
    counts: JsonCounts,
}

pub(crate) fn run(args: Args) -> Outcome {
    signals::listen();
    let started = Instant::now();
    let (name, path) = (show(args.image.as_bytes()), Path::new(&args.image));
    stdin::refuse_new_image(&args.image)?;
    check_order(&args)?;
    let device = device_to_fill(&args)?;
    if device.is_none() && (args.fill || args.into) {
        return Err(Failure::new(name, "neither a partition nor a device")
            .hint("--into and --fill need one, such as disk.img@1"));
    }
    let size = device.as_ref().filter(|_| args.fill).map(|device| device.len_bytes());
    let size = given_size(&args)?.or(size);
    let (old, format) = match &device {
        None => (check_replaceable(path, args.force)?, new_image::format(path)?),
        Some(_) => (None, ImageFormat::Raw),
    };
    let mut tree = open_trees(&args.sources, size)?;
    let builder = args
        .content
        .builder(&args.sources, source_date_epoch()?)?
        .newfs_options(newfs_options(&args))
        .size(size)
        .free(args.free.unwrap_or(0))
        .format(format);
    old.into_iter().for_each(|id| tree.skip(id));
    let mut progress = CopyProgress(Progress::items("measure", None));
    let built = match device {
        Some(device) => builder.build_on(tree, path, &device, &mut progress),
        None => builder.build_file(tree, path, &mut progress),
    };
    drop(progress);
    let built = built.map_err(|error| build_failure(&name, &error))?;
    warn_of_losses(&built.report);
    warn_of_left_out(&built.left_out);
    print_result(&args, &name, &built, started)?;
    Ok(0)
}

/// Fails if the tree or archive comes first, and the image behind it.
fn check_order(args: &Args) -> Result<(), Failure> {
    let Some((last, others)) = args.sources.split_last() else { return Ok(()) };
    let image = Path::new(&args.image);
    let is_tree = image.is_dir() || is_archive(image) && !last.exists();
    if names_partition(&args.image) || !is_tree || last.is_dir() || last == Path::new("-") {
        return Ok(());
    }
    let word = |path: &Path| shell_word(&show(path.as_os_str().as_bytes())).into_owned();
    let words: Vec<String> = [last.as_path(), image]
        .into_iter()
        .chain(others.iter().map(PathBuf::as_path))
        .map(word)
        .collect();
    let what = if image.is_dir() { "a directory" } else { "an archive" };
    let failure = Failure::usage(format!("{}: {what}; the image comes first", word(image)));
    Err(failure.hint(format!("write: ffs build {}", words.join(" "))))
}

/// Whether there is a file with a name of an archive.
fn is_archive(path: &Path) -> bool {
    const ENDINGS: [&str; 5] = [".tar", ".tgz", ".txz", ".tzst", ".tbz"];
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let named = ENDINGS.iter().any(|ending| name.ends_with(ending)) || name.contains(".tar.");
    named && path.is_file()
}

/// The size that `--size` gives, in bytes.
fn given_size(args: &Args) -> Result<Option<u64>, Failure> {
    let Some(size) = args.size else { return Ok(None) };
    let failure = || Failure::usage("--size: too large");
    size.bytes(args.sector_size).map(Some).ok_or_else(failure)
}

/// The options of the file system.
fn newfs_options(args: &Args) -> NewfsOptions {
    let how = args.how.options();
    let soft_updates = how.soft_updates || args.journal;
    let (journal, sector_size) = (args.journal, args.sector_size);
    NewfsOptions { soft_updates, journal, sector_size, ..how }
}

/// Warns of files that the specification lacks.
pub(super) fn warn_of_left_out(left_out: &LeftOut) {
    let (count, first) = (left_out.count, &left_out.first);
    match count {
        0 => {}
        1 => output::warn(format!("{first} is not in the specification and was left out")),
        _ => output::warn(format!(
            "{count} files are not in the specification and were left out; the first is {first}"
        )),
    }
}

/// The message for an image that could not be built, with a hint.
pub(crate) fn build_failure(name: &str, error: &BuildError) -> Failure {
    let failure = Failure::new(name, error);
    match error {
        BuildError::Create(error) => Failure::unmade(name, error),
        BuildError::Resize(_) => {
            failure.hint("is there enough space, and does the file system allow files that large?")
        }
        BuildError::DeviceTooSmall { .. } => failure
            .hint("use a larger partition or disk, a smaller tree, or a smaller --size or --free"),
        BuildError::TooLittleSpace { enough, .. } | BuildError::TooFewInodes { enough, .. } => {
            let enough = enough.map_or_else(String::new, |enough| {
                format!("a size of {}m is enough; or ", enough.div_ceil(1 << 20))
            });
            failure.hint(format!("{enough}omit --size to make it fit"))
        }
        BuildError::NoSizeFits => failure.hint("give a size with --size, or a smaller --free"),
        BuildError::SizeNeeded => failure.hint("give --size"),
        BuildError::Missing { .. } => {
            failure.hint("add the file to the tree, complete its line, or mark the line optional")
        }
        BuildError::Cancelled => Failure::interrupted(),
        BuildError::Tunefs(error) => Failure::admin(name, error),
        BuildError::Newfs(AdminError::Option { .. }) => Failure::usage(failure.text),
        BuildError::Mount(ffs_core::Error::Format(error)) => failure.advised(error, name),
        BuildError::Copy(error) => {
            let failure = match error.kind() {
                io::ErrorKind::Interrupted => return Failure::interrupted(),
                _ => Failure {
                    full: error.kind() == io::ErrorKind::StorageFull,
                    ..Failure::plain(error)
                },
            };
            failure.hint_if_full("no image was made; give a larger --size")
        }
        BuildError::Incomplete { .. } => Failure::plain(format!("{error}: no image was made")),
        BuildError::Unmount(_) => failure.hint("free some space, and build the image again"),
        _ => failure,
    }
}

/// Opens the sources. One of them may be standard input.
pub(super) fn open_trees(paths: &[PathBuf], size: Option<u64>) -> Result<Tree, Failure> {
    let mut trees: Vec<Tree> =
        paths.iter().map(|path| open_tree(path, size)).collect::<Result<_, _>>()?;
    Ok(if trees.len() == 1 { trees.remove(0) } else { Tree::Layers(trees) })
}

/// Opens the tree or archive at `path`. With a `size` an archive is read only once.
fn open_tree(path: &Path, size: Option<u64>) -> Result<Tree, Failure> {
    let name = show(path.as_os_str().as_bytes());
    if path == Path::new("-") {
        return standard_input(size);
    }
    let found = fs::metadata(path).map_err(|error| Failure::new(&name, error))?;
    if found.is_dir() {
        return Ok(Tree::Directory { path: path.to_owned(), skip: Vec::new() });
    }
    if found.is_file() {
        let file = File::open(path).map_err(|error| Failure::new(&name, error))?;
        return Ok(Tree::Archive { file, name });
    }
    if size.is_none() {
        let failure = Failure::new(&name, "can be read only once, but is measured first");
        return Err(failure.hint("give --size, or pass the archive on standard input (-)"));
    }
    let input = archive_file::input(path)
        .map_err(|error| signals::or_interrupted(Failure::new(&name, error)))?;
    Ok(Tree::Stream { input, name })
}

/// The archive on standard input, in a temporary file if it must be measured first.
fn standard_input(size: Option<u64>) -> Result<Tree, Failure> {
    let name = "standard input".to_owned();
    let fail = |error: io::Error| Failure::new("standard input", error);
    if size.is_some() {
        stdin::take()?;
        let input = Input::from_stream(signals::Stdin).map_err(fail)?;
        return Ok(Tree::Stream { input, name });
    }
    let file = stdin::temporary().map_err(|failure| match failure.code {
        1 => failure.hint("with --size no temporary file is needed"),
        _ => failure,
    })?;
    Ok(Tree::Archive { file, name })
}

/// The device to fill, if the image is a block device or a partition.
fn device_to_fill(args: &Args) -> Result<Option<Arc<dyn BlockDevice>>, Failure> {
    if let Some(inside) = snapshot::inside(&args.image) {
        return Err(snapshot::refusal(&inside));
    }
    let name = show(args.image.as_bytes());
    let found = fs::metadata(&args.image);
    let device = found.as_ref().is_ok_and(|found| found.file_type().is_block_device());
    let disk = is_uri(&args.image) || args.into && spec::is_container(&args.image);
    if !device && !disk && !names_partition(&args.image) {
        return Ok(None);
    }
    if !args.force && !args.into {
        return Err(
            Failure::new(name, "would be overwritten").hint("--into or --force allows that")
        );
    }
    let how = OpenOptions { write: true, whole_disk: true, ..OpenOptions::default() };
    let device = open_with(&args.image, &how)?.device;
    keep_partitions(&args.image, &name, &*device)?;
    Ok(Some(device))
}

/// Fails if the image exists and must not be replaced. Returns its identity, if it exists.
pub(super) fn check_replaceable(image: &Path, force: bool) -> Result<Option<FileId>, Failure> {
    let name = show(image.as_os_str().as_bytes());
    let Ok(found) = fs::symlink_metadata(image) else { return Ok(None) };
    if !found.is_file() {
        return Err(Failure::new(name, "exists and is not a regular file"));
    }
    if !force {
        return Err(Failure::new(name, "exists").hint("--force replaces it"));
    }
    // Fails if another program uses the image.
    let how = OpenOptions { write: true, whole_disk: true, ..OpenOptions::default() };
    drop(open_with(image.as_os_str(), &how)?);
    Ok(Some(FileId::from(&found)))
}

/// Prints what was built.
fn print_result(
    args: &Args,
    name: &str,
    built: &BuiltImage,
    started: Instant,
) -> Result<(), Failure> {
    let format = if built.format == Format::Ufs1 { "UFS1" } else { "UFS2" };
    let report = &built.report;
    if args.json {
        return output::json(&Json {
            image: name.to_owned(),
            format,
            size: built.size,
            free: built.free,
            inodes_free: built.inodes_free,
            counts: JsonCounts::from(report),
        });
    }
    let (size, free) = (human(built.size), human(u64::try_from(built.free).unwrap_or(0)));
    let seconds = started.elapsed().as_secs_f64();
    let what = report.summary();
    output::note(format!("{name}: {format}, {size} ({free} free): {what}, {seconds:.1} s"));
    Ok(())
}
