//! `ffs build`.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use ffs_admin::newfs::{NewfsOptions, newfs};
use ffs_admin::tunefs::{TunefsOptions, tunefs};
use ffs_core::{Env, Timespec};
use ffs_device::lock::LockMode;
use ffs_device::{
    BlockDevice, FileDevice, LockWait, ManualClock, OpenOptions, SplitMix64, Timestamp,
};
use ffs_ondisk::Format;
use serde::Serialize;

use super::newfs::{How, keep_partitions};
use super::{Doc, EXIT};
use crate::bsd;
use crate::copy::host_source::{HostOptions, HostSource};
use crate::copy::image_sink::ImageSink;
use crate::copy::{self, Emit, Entry, Policy, Said, Tally};
use crate::fail::{Failure, Outcome, show};
use crate::output::{self, human};
use crate::progress::Progress;
use crate::session::{Session, filling, open_with};
use crate::signals;
use crate::sizing::{self, Survey};
use crate::spec::names_partition;
use crate::tar::{self, Input};

/// Seed of everything that looks random in a built image.
const SEED: u64 = 1;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs build root.img rootfs/", "an image of a directory, sized to fit"),
        ("ffs build --free 512m root.img rootfs.tar.gz", "of an archive, with room to grow"),
        ("tar c etc usr | ffs build --size 2g root.img -", "of a stream, without a temporary file"),
        (
            "SOURCE_DATE_EPOCH=0 ffs build --owner 0:0 root.img src",
            "the same bytes from every checkout",
        ),
        ("ffs build -O 1 --endian big mac.img tree", "UFS1 for a big-endian machine"),
    ],
    exit: EXIT,
    see_also: &["ffs-newfs(8)", "ffs-cp(1)", "ffs-fsck(8)", "tar(1)"],
    section: "1",
    usage_code: 64,
};

/// Make an image of a directory or of a tar archive.
///
/// Keeps everything: owners, modes, times to the nanosecond, hard links, holes, devices, extended attributes
/// (of archives: pax SCHILY.xattr and LIBARCHIVE.xattr) and BSD file flags (SCHILY.fflags). POSIX access
/// lists (SCHILY.acl) are kept with --acls; without it a file that has one gets a mode that allows nobody
/// more than the list did, and a warning names it. The same
/// input makes the same bytes: names are taken in sorted order, everything random is seeded, inode-change
/// times and the volume's own are SOURCE_DATE_EPOCH, or else the latest modification in the tree.
/// With SOURCE_DATE_EPOCH no file is newer than that.
///
/// An archive is read twice, first to measure it; one from standard input is therefore kept in a
/// temporary file (in $TMPDIR), unless --size is given: then it is read as it comes. If anything cannot be
/// read, or does not fit, no image is left.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// The image to make: a new file, or a block device, or IMAGE@N
    #[arg(value_name = "IMAGE")]
    image: OsString,
    /// A directory, an archive (.tar, .tar.gz), or - for an archive on standard input
    #[arg(value_name = "TREE|ARCHIVE|-")]
    source: PathBuf,
    /// Size of the image: bytes with a suffix, or sectors; without it the image is made to fit
    #[arg(long, value_name = "SIZE", value_parser = bsd::sectors)]
    size: Option<u64>,
    /// Room to leave free when it is made to fit
    #[arg(long, value_name = "BYTES", value_parser = bsd::number, conflicts_with = "size")]
    free: Option<u64>,
    /// Owner of everything
    #[arg(long, value_name = "UID:GID", value_parser = bsd::owner)]
    owner: Option<(u32, u32)>,
    /// Switch POSIX access lists on and keep those of the source (UFS2)
    #[arg(long)]
    acls: bool,
    /// Replace an image that exists
    #[arg(long)]
    force: bool,
    /// For programs
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    how: How,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

#[derive(Serialize)]
struct Json {
    image: String,
    format: &'static str,
    size: u64,
    free: i64,
    inodes_free: u64,
    #[serde(flatten)]
    tally: Tally,
}

pub(crate) fn run(args: Args) -> Outcome {
    signals::listen();
    let started = Instant::now();
    let order = Order {
        source: Source::open(&args.source, args.size.is_some())?,
        options: args.how.options(),
        size: args.size,
        free: args.free.unwrap_or(0),
        owner: args.owner,
        acls: args.acls,
        epoch: epoch()?,
    };
    let name = show(args.image.as_bytes());
    let built = match in_place(&args)? {
        Some(device) => order.fill(&name, |_| Ok(Arc::clone(&device)))?,
        None => new_file(&args, order, &name)?,
    };
    tell(&args, &name, &built, started)?;
    Ok(0)
}

/// What is to be built.
pub(crate) struct Order {
    /// From what.
    pub source: Source,
    /// What kind of file system.
    pub options: NewfsOptions,
    /// Its size, if given.
    pub size: Option<u64>,
    /// Bytes to leave free if it is not.
    pub free: u64,
    /// Owner of everything.
    pub owner: Option<(u32, u32)>,
    /// The volume has access lists.
    pub acls: bool,
    /// `SOURCE_DATE_EPOCH`.
    pub epoch: Option<i64>,
}

/// What was built.
pub(crate) struct Built {
    /// What is in it.
    pub tally: Tally,
    /// Bytes of the volume.
    pub size: u64,
    /// Its format.
    pub format: Format,
    /// Bytes free for everybody.
    pub free: i64,
    /// Inodes free.
    pub inodes_free: u64,
}

/// Where the files come from.
pub(crate) enum Source {
    /// A directory, and files to leave out.
    Tree(PathBuf, Vec<(u64, u64)>),
    /// An archive that can be read twice, and its name.
    Archive(File, String),
    /// An archive that is read once.
    Stream(Input),
}

impl Source {
    /// The tree or archive at `path`; `once` if it need be read only once.
    fn open(path: &Path, once: bool) -> Result<Source, Failure> {
        let name = show(path.as_os_str().as_bytes());
        if path == Path::new("-") {
            let fail = |error: io::Error| Failure::new("standard input", error);
            if once {
                return Ok(Source::Stream(Input::stdin().map_err(fail)?));
            }
            let mut file = tempfile::tempfile().map_err(fail)?;
            io::copy(&mut signals::Stdin, &mut file).map_err(|error| {
                if signals::interrupted() {
                    return Failure::interrupted();
                }
                fail(error).hint("--size does without the temporary file; or set TMPDIR")
            })?;
            return Ok(Source::Archive(file, "standard input".to_owned()));
        }
        let found = fs::metadata(path).map_err(|error| Failure::new(&name, error))?;
        if found.is_dir() {
            return Ok(Source::Tree(path.to_owned(), Vec::new()));
        }
        if !found.is_file() {
            let input = Input::open(path)?;
            return if once {
                Ok(Source::Stream(input))
            } else {
                let failure = Failure::new(&name, "can be read only once");
                Err(failure.hint("give --size, or the archive as -"))
            };
        }
        let file = File::open(path).map_err(|error| Failure::new(&name, error))?;
        Ok(Source::Archive(file, name))
    }

    fn tell(self, data: bool, xattrs: bool, emit: &mut Emit) -> Said {
        match self {
            Source::Tree(path, skip) => {
                let options =
                    HostOptions { xattrs, links: true, data, follow: true, stream: false, skip };
                HostSource::new(options, emit).walk(&path, b"")
            }
            Source::Archive(file, name) => match Input::from_file(file) {
                Ok(input) => tar::walk(input, &name, data, emit),
                Err(error) => emit.failed(name.as_bytes(), error),
            },
            Source::Stream(input) => tar::walk(input, "standard input", data, emit),
        }
    }

    /// The same again, if it can be read twice.
    fn again(&self) -> Result<Option<Source>, Failure> {
        match self {
            Source::Tree(path, skip) => Ok(Some(Source::Tree(path.clone(), skip.clone()))),
            Source::Archive(file, name) => {
                let file = file.try_clone().map_err(|error| Failure::new(name, error))?;
                Ok(Some(Source::Archive(file, name.clone())))
            }
            Source::Stream(_) => Ok(None),
        }
    }

    /// Leaves out this file, if it should be found in the tree.
    fn skip(&mut self, file: &fs::Metadata) {
        if let Source::Tree(_, skip) = self {
            skip.push((file.dev(), file.ino()));
        }
    }
}

impl Order {
    /// Makes the file system and fills it; `device` gives a place of the size it is told.
    pub(crate) fn fill(
        self,
        name: &str,
        device: impl Fn(u64) -> Result<Arc<dyn BlockDevice>, Failure>,
    ) -> Result<Built, Failure> {
        let again = self.source.again()?;
        let fits = self.size.is_none();
        let (options, owner, free) = (self.options.clone(), self.owner, self.free);
        let (size, epoch, acls) = (self.size, self.epoch, self.acls);
        let built = match self.attempt(name, &device, false) {
            Ok(built) if !fits || built.free >= 0 && built.free as u64 >= free => Ok(built),
            Err(failure) if !fits || !failure.full => Err(failure),
            // There are more extended attributes than the slack has room for: once more, counting them.
            first => match again {
                Some(source) => {
                    let order = Order { source, options, size, free, owner, acls, epoch };
                    order.attempt(name, &device, true)
                }
                None => first,
            },
        };
        built.map_err(|failure| failure.hint_if_full("no image was made; give a larger --size"))
    }

    fn attempt(
        mut self,
        name: &str,
        device: &impl Fn(u64) -> Result<Arc<dyn BlockDevice>, Failure>,
        xattrs: bool,
    ) -> Result<Built, Failure> {
        let survey = self.survey(xattrs)?;
        let mut options = self.options.clone();
        let size = match (self.size, &survey) {
            (Some(size), survey) => {
                if let Some(survey) = survey {
                    sizing::check(survey, &options, size)?;
                }
                size
            }
            (None, Some(survey)) => {
                options = sizing::fit(survey, &options, self.free)?;
                options.size.take().unwrap_or_default()
            }
            (None, None) => return Err(Failure::usage("--size is needed")),
        };
        let newest = survey.as_ref().and_then(|survey| survey.newest);
        let stamp = match (self.epoch, newest) {
            (Some(secs), _) => Timestamp::new(secs, 0),
            (None, Some(at)) => Timestamp::new(at.secs, u32::try_from(at.nsec).unwrap_or(0)),
            (None, None) => Timestamp::default(),
        };
        let device = device(size)?;
        if device.len_bytes() < size {
            let (has, wanted) = (human(device.len_bytes()), human(size));
            return Err(Failure::new(name, format!("has {has}, and {wanted} are wanted")).hint(
                "give a larger partition or disk, a smaller tree, or a smaller --size or --free",
            ));
        }
        options.size = Some(size);
        let clock = Arc::new(ManualClock::new(stamp));
        let report = newfs(&*device, &options, &*clock, &SplitMix64::new(SEED), &mut |_, _| {});
        let report = report.map_err(Failure::plain)?;
        if self.acls {
            let on = TunefsOptions { acls: Some(true), ..TunefsOptions::default() };
            tunefs(&*device, &on).map_err(|error| Failure::admin(name, &error))?;
        }
        let env = Env::seeded(clock.clone(), SEED);
        let session = Session::mount(name.to_owned(), device, &filling(), env)?;
        let total = survey.map(|survey| survey.bytes);
        let filled = self.copy(&session, &clock, total);
        let stat = session.ffs.statfs();
        let closed = session.close();
        let tally = filled?;
        closed.map_err(|error| {
            Failure::new(name, format!("not everything could be written: {error}"))
                .hint("it is no image yet: make room and build it again, or put it elsewhere")
        })?;
        Ok(Built {
            tally,
            size,
            format: report.plan.format,
            free: stat.frags_avail * i64::from(stat.fsize),
            inodes_free: stat.inodes_free,
        })
    }

    /// Looks at everything once, if the source allows it.
    fn survey(&mut self, xattrs: bool) -> Result<Option<Survey>, Failure> {
        let Some(source) = self.source.again()? else { return Ok(None) };
        let mut survey = Survey::new(&self.options, xattrs)?;
        let mut progress = Progress::items("measure", None);
        let source = |emit: &mut Emit| source.tell(false, xattrs, emit);
        let tally = copy::run(source, &mut survey, &mut |_| {}, &mut progress)?;
        whole(&tally)?;
        if let (Some(newest), Some(epoch)) = (survey.newest, self.epoch)
            && newest.secs >= epoch
        {
            survey.newest = Some(Timespec { secs: epoch, nsec: 0 });
        }
        Ok(Some(survey))
    }

    fn copy(
        self,
        session: &Session,
        clock: &ManualClock,
        total: Option<u64>,
    ) -> Result<Tally, Failure> {
        let root = session.ffs.root().map_err(|error| session.failed(b"/", error))?;
        let mut sink =
            ImageSink::new(&session.ffs, &session.cred, session.image(), root, Policy::exact());
        let mut progress = Progress::bytes("build", total);
        let (owner, epoch) = (self.owner, self.epoch);
        let measured = total.is_some() || epoch.is_some();
        let mut latest = Timespec::default();
        let mut adjust = |entry: &mut Entry| {
            let meta = &mut entry.meta;
            if let Some(secs) = epoch {
                let epoch = Timespec { secs, nsec: 0 };
                meta.mtime = meta.mtime.min(epoch);
                meta.birthtime = meta.birthtime.min(epoch);
            }
            // Reading a tree changes its access times: they would differ from run to run.
            meta.atime = meta.mtime;
            if let Some((uid, gid)) = owner {
                (meta.uid, meta.gid) = (uid, gid);
            }
            if !measured && meta.mtime > latest {
                // The volume's time is that of the newest file seen.
                latest = meta.mtime;
                let nanos = u32::try_from(latest.nsec).unwrap_or(0);
                clock.set(Timestamp::new(latest.secs, nanos));
            }
        };
        let source = |emit: &mut Emit| self.source.tell(true, true, emit);
        let tally = copy::run(source, &mut sink, &mut adjust, &mut progress)?;
        whole(&tally)?;
        tally.say_losses();
        Ok(tally)
    }
}

/// Fails if anything was left out: an image that lacks files is none.
fn whole(tally: &Tally) -> Result<(), Failure> {
    match tally.failed {
        0 => Ok(()),
        1 => Err(Failure::plain("one thing could not be copied: no image was made")),
        n => Err(Failure::plain(format!("{n} things could not be copied: no image was made"))),
    }
}

/// The device to be filled, if the image is one or is a partition.
fn in_place(args: &Args) -> Result<Option<Arc<dyn BlockDevice>>, Failure> {
    let name = show(args.image.as_bytes());
    let found = fs::metadata(&args.image);
    let device = found.as_ref().is_ok_and(|found| found.file_type().is_block_device());
    let partition = names_partition(&args.image);
    if !device && !partition {
        return Ok(None);
    }
    if !args.force {
        return Err(Failure::new(name, "would be overwritten").hint("--force does it"));
    }
    let how = OpenOptions { write: true, whole_disk: true, ..OpenOptions::default() };
    let device = open_with(&args.image, &how)?.device;
    keep_partitions(&args.image, &name, &*device)?;
    Ok(Some(device))
}

/// Builds in a file of its own, if nothing would be lost by it.
fn new_file(args: &Args, mut order: Order, name: &str) -> Result<Built, Failure> {
    let path = Path::new(&args.image);
    if let Ok(found) = fs::symlink_metadata(path) {
        if !found.is_file() {
            return Err(Failure::new(name, "exists and is not a regular file"));
        }
        if !args.force {
            return Err(Failure::new(name, "exists").hint("--force replaces it"));
        }
        // Nobody may be using it.
        let how = OpenOptions { write: true, whole_disk: true, ..OpenOptions::default() };
        drop(open_with(&args.image, &how)?);
        order.source.skip(&found);
    }
    into_file(order, path, name)
}

/// Builds in a file beside `path`, which becomes `path` when it is complete.
pub(crate) fn into_file(mut order: Order, path: &Path, name: &str) -> Result<Built, Failure> {
    let Some(file_name) = path.file_name() else {
        return Err(Failure::new(name, "does not end in a name"));
    };
    let mut partial = OsString::from(".");
    partial.push(file_name);
    partial.push(format!(".ffs-build.{}", std::process::id()));
    let partial = Partial(path.with_file_name(partial));
    let source = &mut order.source;
    // Made before the tree is walked, so that it can be told apart.
    let created =
        FileDevice::create_sparse(&partial.0, 0).map_err(|error| Failure::unmade(name, &error))?;
    if let Ok(found) = fs::symlink_metadata(&partial.0) {
        source.skip(&found);
    }
    drop(created);
    let built = order.fill(name, |size| {
        let grown = File::options().write(true).open(&partial.0);
        grown.and_then(|file| file.set_len(0).and_then(|()| file.set_len(size))).map_err(
            |error| {
                Failure::new(name, error).hint("is there room for it, and may files be that large?")
            },
        )?;
        let device = FileDevice::open(&partial.0, true).map_err(Failure::plain)?;
        let mut device = device.scratch();
        device.lock(&partial.0, LockMode::Exclusive, LockWait::No, true).map_err(Failure::plain)?;
        Ok(Arc::new(device) as Arc<dyn BlockDevice>)
    })?;
    let failed = |error| Failure::new(name, error);
    if path.exists() {
        // A power cut leaves the old image or the new one.
        File::open(&partial.0).and_then(|file| file.sync_all()).map_err(failed)?;
    }
    fs::rename(&partial.0, path).map_err(failed)?;
    Ok(built)
}

/// A file that goes away unless it was renamed.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        // It is not there any more if all went well.
        let _ = fs::remove_file(&self.0);
    }
}

/// `SOURCE_DATE_EPOCH`.
pub(crate) fn epoch() -> Result<Option<i64>, Failure> {
    let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH") else { return Ok(None) };
    let seconds = text.to_str().and_then(|text| text.parse().ok());
    match seconds {
        Some(seconds) => Ok(Some(seconds)),
        None => Err(Failure::usage("SOURCE_DATE_EPOCH is not a number of seconds")),
    }
}

fn tell(args: &Args, name: &str, built: &Built, started: Instant) -> Result<(), Failure> {
    let format = if built.format == Format::Ufs1 { "UFS1" } else { "UFS2" };
    if args.json {
        return output::json(&Json {
            image: name.to_owned(),
            format,
            size: built.size,
            free: built.free,
            inodes_free: built.inodes_free,
            tally: built.tally.clone(),
        });
    }
    let (size, free) = (human(built.size), human(u64::try_from(built.free).unwrap_or(0)));
    let seconds = started.elapsed().as_secs_f64();
    let what = built.tally.sentence();
    output::note(format!("{name}: {format}, {size} ({free} free): {what}, {seconds:.1} s"));
    Ok(())
}
