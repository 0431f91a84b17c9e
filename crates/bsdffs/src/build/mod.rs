//! Building an image from a directory or an archive.
//!
//! [`ImageBuilder`] measures the tree, makes a file system that is large enough, and copies the
//! tree into it. The same tree gives the same bytes: names come in sorted order except those of an
//! archive, all random numbers have a fixed seed, and all times come from the tree or from
//! [`ImageBuilder::source_date_epoch`].
//!
//! | module | content |
//! | --- | --- |
//! | `survey` | [`Survey`]: how large the file system must be |
//! | `tree` | [`Tree`]: a directory or an archive |
//! | `mtree` | [`MtreeSpec`]: owners, modes and flags by path |
//! | `listed` | takes the files of a specification |
//! | `created` | creates the files of a specification that the tree lacks |
//! | `owner_map` | [`IdMap`]: other owners for those of the tree |
//! | `partial` | the file of an unfinished image, and the format of the finished one |
//! | `error` | [`BuildError`] |

mod created;
mod error;
mod listed;
mod mtree;
mod owner_map;
mod partial;
mod survey;
mod tree;

use std::path::Path;
use std::sync::Arc;

use ffs_admin::newfs::{NewfsOptions, NewfsReport, newfs};
use ffs_admin::tunefs::{TunefsOptions, tunefs};
use ffs_core::{Atime, Cred, Env, Ffs, MountOptions, OrderingPolicy, Timespec, TunableValues};
use ffs_device::{BlockDevice, Clock, ManualClock, SplitMix64, Timestamp};
use ffs_ondisk::Format;

use crate::copy::{
    CopyOptions, CopyReport, Entry, ImageRef, ImageSink, Observer, SkippedFile, transfer,
};
use crate::volume::Volume;

pub use error::BuildError;
pub use listed::LeftOut;
use listed::{Links, ListedSink};
pub use mtree::{MtreeError, MtreeSpec, UserNames};
pub use owner_map::{BadLine, IdMap};
pub(crate) use partial::PartialImage;
pub use partial::{ImageFormat, UnmadeFormat};
pub use survey::Survey;
pub use tree::Tree;
use tree::TreeSource;

/// Seed of all random numbers in a built image.
const SEED: u64 = 1;
/// Inodes in memory during the copy. Each is used once, so more do not help.
const VNODES: u64 = 8192;

/// A step of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuildPhase {
    /// Measuring the tree.
    Measure,
    /// Copying the tree.
    Copy {
        /// Bytes of data, if the tree was measured.
        bytes: Option<u64>,
    },
}

/// Watches a build.
pub trait BuildObserver: Observer {
    /// A phase begins.
    fn begin(&mut self, phase: BuildPhase) {
        let _ = phase;
    }
}

/// A built image.
#[derive(Clone, Debug)]
pub struct BuiltImage {
    /// What was copied.
    pub report: CopyReport,
    /// What the specification lacks.
    pub left_out: LeftOut,
    /// Size of the file system, bytes.
    pub size: u64,
    /// Format.
    pub format: Format,
    /// Free space without the reserve, bytes; negative if the tree needs part of the reserve.
    pub free: i64,
    /// Free inodes.
    pub inodes_free: u64,
}

/// Options of an image to build.
///
/// ```
/// use bsdffs::build::{ImageBuilder, Tree};
/// # use bsdffs::build::BuildObserver;
/// # use bsdffs::copy::{Observer, SkippedFile};
/// # fn main() -> std::io::Result<()> {
/// # let dir = tempfile::tempdir()?;
/// # let (tree, image) = (dir.path().join("tree"), dir.path().join("root.img"));
/// # std::fs::create_dir(&tree)?;
/// # std::fs::write(tree.join("motd"), "Welcome\n")?;
/// struct Print;
/// impl Observer for Print {
///     fn skipped(&mut self, file: &SkippedFile) {
///         eprintln!("{file}");
///     }
/// }
/// impl BuildObserver for Print {}
///
/// let tree = Tree::Directory { path: tree, skip: Vec::new() };
/// let built = ImageBuilder::new().free(1 << 20).build_file(tree, &image, &mut Print)?;
/// assert_eq!(built.report.files, 1);
/// assert_eq!(bsdffs::Volume::open(&image)?.read_to_string("motd")?, "Welcome\n");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
pub struct ImageBuilder {
    newfs: NewfsOptions,
    size: Option<u64>,
    free: u64,
    owner: Option<(u32, u32)>,
    id_maps: (IdMap, IdMap),
    acls: bool,
    mtree: Option<MtreeSpec>,
    source_date_epoch: Option<i64>,
    format: ImageFormat,
}

impl ImageBuilder {
    /// The defaults: those of [`NewfsOptions`], so no soft updates, and a size that fits the tree.
    #[must_use]
    pub fn new() -> ImageBuilder {
        ImageBuilder::default()
    }

    /// Options of the file system. Its size is that of [`ImageBuilder::size`]. With a `journal` the
    /// image gets one of the default size.
    #[must_use]
    pub fn newfs_options(mut self, options: NewfsOptions) -> ImageBuilder {
        self.newfs = options;
        self
    }

    /// Size of the file system, bytes; `None` to fit the tree.
    #[must_use]
    pub fn size(mut self, size: Option<u64>) -> ImageBuilder {
        self.size = size;
        self
    }

    /// Space to leave free in a file system that is made to fit, bytes.
    #[must_use]
    pub fn free(mut self, free: u64) -> ImageBuilder {
        self.free = free;
        self
    }

    /// Owner and group of all files; `None` to keep those of the tree.
    #[must_use]
    pub fn owner(mut self, owner: Option<(u32, u32)>) -> ImageBuilder {
        self.owner = owner;
        self
    }

    /// Other users and groups for those of the tree. [`ImageBuilder::owner`] goes before them.
    #[must_use]
    pub fn id_maps(mut self, users: IdMap, groups: IdMap) -> ImageBuilder {
        self.id_maps = (users, groups);
        self
    }

    /// Enables POSIX ACLs on the volume and keeps those of the tree. Only UFS2 has ACLs.
    #[must_use]
    pub fn acls(mut self, on: bool) -> ImageBuilder {
        self.acls = on;
        self
    }

    /// The files to take from the tree, and their attributes; `None` for all.
    #[must_use]
    pub fn mtree(mut self, spec: Option<MtreeSpec>) -> ImageBuilder {
        self.mtree = spec;
        self
    }

    /// The time of the volume and the latest time of files, seconds since 1970, as in the
    /// environment variable `SOURCE_DATE_EPOCH`; `None` for the latest modification in the tree.
    #[must_use]
    pub fn source_date_epoch(mut self, seconds: Option<i64>) -> ImageBuilder {
        self.source_date_epoch = seconds;
        self
    }

    /// The format of the file that [`ImageBuilder::build_file`] makes.
    #[must_use]
    pub fn format(mut self, format: ImageFormat) -> ImageBuilder {
        self.format = format;
        self
    }

    /// Builds the image in the file `path`, which is replaced when the new image is complete.
    ///
    /// # Errors
    /// [`BuildError`]. The old file stays, or no file is left.
    pub fn build_file(
        &self,
        mut tree: Tree,
        path: &Path,
        observer: &mut dyn BuildObserver,
    ) -> Result<BuiltImage, BuildError> {
        let partial = PartialImage::create(path)?;
        // The tree may contain the file.
        partial.id().into_iter().for_each(|id| tree.skip(id));
        let built = self.build_at(tree, path, &|size| partial.device(0..size), observer)?;
        partial.install(path, self.format, &|| observer.is_cancelled())?;
        Ok(built)
    }

    /// Builds the image on `device`, which has `name` in messages. Its content is lost.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn build_on(
        &self,
        tree: Tree,
        name: &Path,
        device: &Arc<dyn BlockDevice>,
        observer: &mut dyn BuildObserver,
    ) -> Result<BuiltImage, BuildError> {
        self.build_at(tree, name, &|_| Ok(Arc::clone(device)), observer)
    }

    /// Builds the image on the device that `device` returns for a size in bytes. It is called once
    /// for each attempt.
    pub(crate) fn build_at(
        &self,
        tree: Tree,
        name: &Path,
        device: &dyn Fn(u64) -> Result<Arc<dyn BlockDevice>, BuildError>,
        observer: &mut dyn BuildObserver,
    ) -> Result<BuiltImage, BuildError> {
        let again = tree.try_clone()?;
        let mut attempt = Attempt { builder: self, name, device, observer };
        let first = attempt.run(tree, SurveyXattrs::No);
        let retry = match &first {
            Ok(built) => u64::try_from(built.free).unwrap_or(0) < self.free || built.free < 0,
            Err(error) => error.is_full(),
        };
        match again {
            // The extended attributes need more than the slack: measure them, too.
            Some(tree) if retry && self.size.is_none() => attempt.run(tree, SurveyXattrs::Yes),
            _ => first,
        }
    }
}

/// Whether to measure extended attributes. Few trees have any, and it means opening every file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SurveyXattrs {
    Yes,
    No,
}

/// One attempt to build an image.
struct Attempt<'a> {
    builder: &'a ImageBuilder,
    name: &'a Path,
    device: &'a dyn Fn(u64) -> Result<Arc<dyn BlockDevice>, BuildError>,
    observer: &'a mut dyn BuildObserver,
}

impl Attempt<'_> {
    fn run(&mut self, tree: Tree, xattrs: SurveyXattrs) -> Result<BuiltImage, BuildError> {
        let (survey, links) = self.survey(&tree, xattrs)?.unzip();
        let mut options = self.options(survey.as_ref())?;
        let size = options.size.ok_or(BuildError::SizeNeeded)?;
        let clock = Arc::new(ManualClock::new(self.volume_time(survey.as_ref())));
        let device = (self.device)(size)?;
        if device.len_bytes() < size {
            return Err(BuildError::DeviceTooSmall { has: device.len_bytes(), needs: size });
        }
        options.size = Some(size);
        let made = self.newfs(&device, &options, &clock)?;
        let env = Env::seeded(clock.clone(), SEED);
        let mounted = Arc::clone(&device);
        let ffs = Ffs::mount(mounted, &mount_options(), env).map_err(BuildError::Mount)?;
        let volume = Volume::from_mounted(ffs, Cred::root());
        let bytes = survey.map(|survey| survey.bytes());
        let links = links.unwrap_or_default();
        let (report, left_out) = self.copy(&volume, (tree, links), &clock, bytes)?;
        let stat = volume.statfs();
        volume.fs().unmount().map_err(BuildError::Unmount)?;
        if options.journal {
            make_journal(&*device, clock.now().secs)?;
        }
        let journal = survey::journal_frags(&options, &made).cast_signed();
        Ok(BuiltImage {
            report,
            left_out,
            size,
            format: made.plan.format,
            free: (stat.frags_avail - journal) * i64::from(stat.fsize),
            inodes_free: stat.inodes_free,
        })
    }

    /// Measures the tree, and finds files with several names; `None` if it can be read only once.
    fn survey(
        &mut self,
        tree: &Tree,
        xattrs: SurveyXattrs,
    ) -> Result<Option<(Survey, Links)>, BuildError> {
        let Some(tree) = tree.try_clone()? else { return Ok(None) };
        let mut survey = Survey::new(&self.builder.newfs)?;
        let with_xattrs = xattrs == SurveyXattrs::Yes;
        if with_xattrs {
            survey = survey.with_xattrs();
        }
        self.observer.begin(BuildPhase::Measure);
        let source = TreeSource { tree, with_data: false, with_xattrs };
        let ImageBuilder { mtree, source_date_epoch, .. } = self.builder;
        let mut listed =
            ListedSink::new(&mut survey, mtree.as_ref(), *source_date_epoch, Links::new())
                .without_data();
        let report = transfer(source, &mut listed, self.observer)?;
        check_complete(&report)?;
        let (_, links) = listed.finished()?;
        Ok(Some((survey, links)))
    }

    /// The options of the file system, with its size.
    fn options(&self, survey: Option<&Survey>) -> Result<NewfsOptions, BuildError> {
        let ImageBuilder { newfs, size, free, .. } = self.builder;
        match (*size, survey) {
            (Some(_), None) => {}
            (Some(size), Some(survey)) => survey.check_fits(newfs, size)?,
            (None, Some(survey)) => return survey.fit(newfs, *free),
            (None, None) => return Err(BuildError::SizeNeeded),
        }
        Ok(NewfsOptions { size: *size, ..newfs.clone() })
    }

    /// The time of the volume: that of `SOURCE_DATE_EPOCH`, or the latest modification in the tree.
    fn volume_time(&self, survey: Option<&Survey>) -> Timestamp {
        let newest = survey.and_then(Survey::newest);
        match (self.builder.source_date_epoch, newest) {
            (Some(secs), _) => Timestamp::new(secs, 0),
            (None, Some(at)) => timestamp(at),
            (None, None) => Timestamp::default(),
        }
    }

    fn newfs(
        &self,
        device: &Arc<dyn BlockDevice>,
        options: &NewfsOptions,
        clock: &ManualClock,
    ) -> Result<NewfsReport, BuildError> {
        let random = SplitMix64::new(SEED);
        let made = newfs(&**device, options, clock, &random, &mut |_, _| {});
        let made = made.map_err(BuildError::Newfs)?;
        if self.builder.acls {
            let on = TunefsOptions { acls: Some(true), ..TunefsOptions::default() };
            tunefs(&**device, &on).map_err(BuildError::Tunefs)?;
        }
        Ok(made)
    }

    fn copy(
        &mut self,
        volume: &Volume,
        (tree, links): (Tree, Links),
        clock: &ManualClock,
        bytes: Option<u64>,
    ) -> Result<(CopyReport, LeftOut), BuildError> {
        let root = volume.fs().root().map_err(BuildError::Mount)?;
        let name = self.name.display().to_string();
        let image = ImageRef { ffs: volume.fs(), cred: volume.cred(), name: &name };
        let options = CopyOptions { late_flags: true, ..CopyOptions::archive() };
        let mut sink = ImageSink::new(image, root, options);
        self.observer.begin(BuildPhase::Copy { bytes });
        let spec = self.builder.mtree.as_ref();
        let follow_tree = bytes.is_none() && self.builder.source_date_epoch.is_none();
        let mut observer = CopyObserver {
            observer: self.observer,
            builder: self.builder,
            clock: follow_tree.then_some(clock),
            latest: Timespec::default(),
        };
        let source = TreeSource { tree, with_data: true, with_xattrs: true };
        let mut listed = ListedSink::new(&mut sink, spec, self.builder.source_date_epoch, links);
        let report = transfer(source, &mut listed, &mut observer)?;
        check_complete(&report)?;
        Ok((report, listed.finished()?.0))
    }
}

/// Adds a journal to the finished image, as newfs does with tunefs. The copy needs none.
fn make_journal(device: &dyn BlockDevice, now: i64) -> Result<(), BuildError> {
    let options = TunefsOptions { journal: Some(true), now, ..TunefsOptions::default() };
    let made = tunefs(device, &options).and_then(|_| Ok(device.flush()?));
    made.map_err(BuildError::Tunefs)
}

/// Sets times and owners of files as the builder asks.
struct CopyObserver<'a> {
    observer: &'a mut dyn BuildObserver,
    builder: &'a ImageBuilder,
    /// The clock of the volume, to be set to the latest modification so far.
    clock: Option<&'a ManualClock>,
    latest: Timespec,
}

impl Observer for CopyObserver<'_> {
    fn adjust(&mut self, entry: &mut Entry) {
        let meta = &mut entry.meta;
        if let Some(secs) = self.builder.source_date_epoch {
            let latest = Timespec { secs, nsec: 0 };
            meta.mtime = meta.mtime.min(latest);
            meta.birthtime = meta.birthtime.min(latest);
        }
        // Reading a tree changes its access times, so they would differ between builds.
        meta.atime = meta.mtime;
        let ImageBuilder { owner, id_maps: (users, groups), .. } = self.builder;
        let mapped = (users.get(meta.uid), groups.get(meta.gid));
        (meta.uid, meta.gid) = owner.unwrap_or(mapped);
        if let Some(clock) = self.clock.filter(|_| meta.mtime > self.latest) {
            self.latest = meta.mtime;
            clock.set(timestamp(self.latest));
        }
        self.observer.adjust(entry);
    }

    fn progress(&mut self, bytes: u64) {
        self.observer.progress(bytes);
    }

    fn skipped(&mut self, file: &SkippedFile) {
        self.observer.skipped(file);
    }

    fn is_cancelled(&self) -> bool {
        self.observer.is_cancelled()
    }
}

/// How the new file system is mounted. An unfinished image has no use, so writes are not ordered.
fn mount_options() -> MountOptions {
    MountOptions {
        ordering: OrderingPolicy::None,
        atime: Atime::Never,
        bsdgroups: true,
        tunables: TunableValues { maxvnodes: VNODES, ..TunableValues::default() },
        ..MountOptions::default()
    }
}

fn timestamp(at: Timespec) -> Timestamp {
    Timestamp::new(at.secs, u32::try_from(at.nsec).unwrap_or(0))
}

/// Fails if a file was left out.
fn check_complete(report: &CopyReport) -> Result<(), BuildError> {
    match report.failed {
        0 => Ok(()),
        files => Err(BuildError::Incomplete { files }),
    }
}
