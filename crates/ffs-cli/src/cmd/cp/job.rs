//! One copy: its sources one after the other.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use bsdffs::copy::{
    CopyOptions, CopyReport, DigestSink, Digests, FileId, HostSink, HostSource, HostTargets,
    ImageSink, ImageSource, ImageTargets, Select, Sink, Source, SparseSink, Targets,
    transfer_selected,
};
use ffs_core::{FileType, Vnode};

use super::choose::{AskSink, Choose, DrySink, Excludes, NoTargets};
use super::flags::Flags;
use super::images::{Images, parts, refuse};
use super::stream::StreamSink;
use super::survey::{Counted, Survey};
use super::target::Target;
use super::verify::{Copies, Origin, verify};
use super::watch::{Names, Watch};
use super::{STDIN, own_name};
use crate::fail::Failure;
use crate::parse::pattern;
use crate::session::Session;
use crate::session::snapshot::AtEnd;
use crate::signals;
use crate::spec::{ImagePath, Place};

/// The hint for a full image.
const FULL: &str = "files copied before stay; delete files there (ffs rm), or copy into a larger \
                    image (ffs newfs -s SIZE makes an empty one, ffs build --size SIZE one of a \
                    tree)";

/// The hints for a copy with `--continue` that ended early. A directory that the copy made is one
/// that the next copy would go into, unless -T is given.
const AGAIN: &str = "run the same command again to go on";
const AGAIN_AS_NAME: &str = "run the same command again with -T to go on";

pub(super) struct Job<'a> {
    pub flags: &'a Flags,
    pub options: CopyOptions,
    pub watch: Watch,
    /// One report for each source.
    pub done: Vec<CopyReport>,
    /// Files that were read again.
    pub verified: u64,
    /// The target is a name and no directory that existed.
    pub named: bool,
}

/// Where copies go.
struct To<'s> {
    target: Target,
    /// The target as its user named it.
    shown: Vec<u8>,
    targets: Arc<dyn Targets>,
    /// A file with the size and the time of its source has its content.
    trusted: bool,
    /// Where to read copies again; nothing for a pipe.
    copies: Option<Copies<'s>>,
}

/// A source that is ready to be copied.
struct From<'s> {
    /// The source as its user named it.
    shown: Vec<u8>,
    /// The path of its top below the directory of the sink.
    top: Vec<u8>,
    origin: Origin<'s>,
    counted: Option<Counted>,
}

impl Job<'_> {
    pub(super) fn copy_into_image(
        &mut self,
        from: &[Place],
        to: &ImagePath,
    ) -> Result<(), Failure> {
        signals::listen();
        let session = match self.flags.dry_run {
            true => Session::read(&to.image)?,
            false => Session::write(&to.image)?,
        };
        let result = self.each_into(from, to, &session);
        let result = self.hinted(result, FULL, "");
        session.finish_with(result)
    }

    /// Adds a hint to the error of a copy that ended early: `full` for a full volume, and with
    /// `--continue` how to go on after `first`.
    fn hinted(&self, result: Result<(), Failure>, full: &str, first: &str) -> Result<(), Failure> {
        let again = match self.named && self.flags.recursive() && !self.flags.no_target_directory {
            true => AGAIN_AS_NAME,
            false => AGAIN,
        };
        result.map_err(|failure| match self.flags.resume {
            true if signals::interrupted() => failure.hint(again),
            true => failure.hint_if_full(format!("{full}{first}; then {again}")),
            false => failure.hint_if_full(full),
        })
    }

    fn each_into(
        &mut self,
        from: &[Place],
        to: &ImagePath,
        session: &Session,
    ) -> Result<(), Failure> {
        let (dir, target) =
            Target::in_image(session, to, self.flags.no_target_directory, from.len() > 1)?;
        self.named = target.is_name();
        let ordered = session.ffs.ordering() == "softdep";
        self.options.safe_times = ordered && self.options.kept().timestamps;
        let targets = ImageTargets::new(&session.ffs, &session.cred, dir.clone());
        let to_files = To {
            target,
            shown: to.shown(),
            targets: Arc::new(targets),
            trusted: ordered,
            copies: Some(Copies::Image(session, &to.image, &dir)),
        };
        let mut sink = ImageSink::new(session.image_ref(), dir.clone(), self.options);
        let mut dry = DrySink::new(Arc::clone(&to_files.targets));
        let sink: &mut dyn Sink = if self.flags.dry_run { &mut dry } else { &mut sink };
        self.each_source(from, to, &to_files, &dir, session, sink)
    }

    fn each_source(
        &mut self,
        from: &[Place],
        to: &ImagePath,
        target: &To<'_>,
        dir: &Vnode,
        session: &Session,
        sink: &mut dyn Sink,
    ) -> Result<(), Failure> {
        for part in parts(from) {
            let images = Images::open(part, Some((session, &to.image)))?;
            if part.len() == from.len() {
                self.count_all(from, &images, Some(session));
            }
            let result = part.iter().try_for_each(|source| match source {
                Place::Host(path) => self.host(path, target, sink),
                Place::Image(path) => match images.of(path, Some(session)) {
                    Some((own, true)) => self.same_image(own, path, target, Some(dir), sink),
                    Some((other, false)) => self.same_image(other, path, target, None, sink),
                    None => Ok(()),
                },
            });
            self.watch.end_survey();
            images.finish_with(result)?;
        }
        Ok(())
    }

    pub(super) fn onto_host(&mut self, from: &[Place], to: &Path) -> Result<(), Failure> {
        let images = images_read(from)?;
        if let Ok(found) = fs::metadata(to)
            && images.iter().any(|image| same_volume(image, &found))
        {
            return Err(Failure::new(to.display(), "is the image that is read"));
        }
        if from.len() == 1
            && let Some(mut sink) = StreamSink::open(to)?
        {
            let (target, shown) = (Target::default(), to.as_os_str().as_bytes().to_vec());
            let targets = Arc::new(NoTargets);
            let to = To { target, shown, targets, trusted: false, copies: None };
            if self.flags.json {
                let why = "--json: standard output or a device is the target; name a file";
                return Err(Failure::usage(why));
            }
            self.watch.to_stderr = true;
            return self.each_onto(from, &to, &mut sink);
        }
        signals::listen();
        let (dir, target) = Target::on_host(to, self.flags.no_target_directory, from.len() > 1)?;
        self.named = target.is_name();
        let images = images.iter().map(FileId::from).collect();
        let mut sink = HostSink::new(&dir, self.options, images)?;
        let to = To {
            target,
            shown: to.as_os_str().as_bytes().to_vec(),
            targets: Arc::new(HostTargets::new(&dir)?),
            trusted: true,
            copies: Some(Copies::Host(&dir)),
        };
        let mut dry = DrySink::new(Arc::clone(&to.targets));
        let sink: &mut dyn Sink = if self.flags.dry_run { &mut dry } else { &mut sink };
        let copied = self.each_onto(from, &to, sink);
        self.hinted(copied, "complete files stay", "; make space")
    }

    fn each_onto(
        &mut self,
        from: &[Place],
        target: &To<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), Failure> {
        for part in parts(from) {
            let images = Images::open(part, None)?;
            if part.len() == from.len() {
                self.count_all(from, &images, None);
            }
            let result = part.iter().try_for_each(|source| {
                let Place::Image(path) = source else { return Ok(()) };
                let Some((session, _)) = images.of(path, None) else { return Ok(()) };
                self.same_image(session, path, target, None, sink)
            });
            self.watch.end_survey();
            images.finish_with(result)?;
        }
        Ok(())
    }

    /// Copies a tree of the image of `session`, or of a snapshot in it. `dir` is the target's
    /// directory if it is in the same image.
    fn same_image(
        &mut self,
        session: &Session,
        from: &ImagePath,
        target: &To<'_>,
        dir: Option<&Vnode>,
        sink: &mut dyn Sink,
    ) -> Result<(), Failure> {
        let snapshot = session.snapshot_at(from, AtEnd::File).and_then(|found| {
            found
                .map(|(device, rest)| Session::on(&rest.image, device)?.through(rest, AtEnd::File))
                .transpose()
        });
        match snapshot {
            Ok(Some((inside, from))) => self.from(inside, &from, target, sink),
            Ok(None) => self.image(session, from, target, dir, sink),
            Err(failure) => refuse(failure),
        }
    }

    /// Copies a tree of `session`, which is mounted for that alone.
    fn from(
        &mut self,
        session: Session,
        from: &ImagePath,
        target: &To<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), Failure> {
        let result = self.image(&session, from, target, None, sink);
        session.finish_with(result)
    }

    /// Whether the source can be copied to the target.
    fn fits(
        &self,
        source: impl std::fmt::Display,
        directory: bool,
        to: &To<'_>,
    ) -> Result<(), Failure> {
        to.target.takes(directory)?;
        if directory && !self.flags.recursive() {
            return Err(Failure::new(source, "is a directory").hint("copy it with -a or -R"));
        }
        Ok(())
    }

    /// Whether the top of a source is left out by its name.
    pub(super) fn is_excluded(&self, name: &[u8], directory: bool) -> bool {
        pattern::excludes_top(&self.flags.exclude, name, directory)
    }

    /// Copies a tree of the host.
    fn host(&mut self, path: &Path, to: &To<'_>, sink: &mut dyn Sink) -> Result<(), Failure> {
        let stdin = path == Path::new(STDIN);
        if stdin && to.target.path(None).is_empty() {
            let failure = Failure::new("standard input", "has no name for a file in a directory");
            return refuse(failure.hint("end the target in the name of the new file"));
        }
        let name = own_name(path.as_os_str().as_bytes());
        let follow = self.flags.follows_top() || stdin;
        let found = if follow { fs::metadata(path) } else { fs::symlink_metadata(path) };
        let fits = found.map_err(|error| Failure::new(path.display(), error)).and_then(|found| {
            self.fits(path.display(), found.is_dir(), to)?;
            Ok(found)
        });
        let found = match fits {
            Ok(found) => found,
            Err(failure) => return refuse(failure),
        };
        if name.as_ref().is_some_and(|name| self.is_excluded(name, found.is_dir())) {
            return Ok(());
        }
        let options = self.host_options(stdin);
        let top = to.target.path(name);
        let regular = found.is_file() || found.is_dir() || found.is_symlink();
        let from = From {
            shown: path.as_os_str().as_bytes().to_vec(),
            top: top.clone(),
            origin: if regular { Origin::Host(path.to_owned()) } else { Origin::Stream },
            counted: regular.then(|| Counted::Host(path.to_owned(), options.clone())),
        };
        self.watch.other_volume = false;
        self.transfer(HostSource::new(path, top, options), from, to, sink)
    }

    /// Copies a tree of an image. `within` is the target's directory if it is in the same image.
    fn image(
        &mut self,
        session: &Session,
        from: &ImagePath,
        to: &To<'_>,
        within: Option<&Vnode>,
        sink: &mut dyn Sink,
    ) -> Result<(), Failure> {
        let name = own_name(&from.path);
        let top = to.target.path(name.clone());
        let found = session.find(&from.path, self.last()).and_then(|root| {
            let directory = session.ffs.getattr(&root).kind == FileType::Directory;
            self.fits(from, directory, to)?;
            if let Some(dir) = within.filter(|_| directory) {
                not_below(session, &root, dir, from)?;
            }
            Ok(root)
        });
        let root = match found {
            Ok(root) => root,
            Err(failure) => return refuse(failure),
        };
        let directory = session.ffs.getattr(&root).kind == FileType::Directory;
        if name.as_ref().is_some_and(|name| self.is_excluded(name, directory)) {
            return Ok(());
        }
        let options = self.image_options();
        let (ffs, cred) = (session.ffs.clone(), session.cred.clone());
        let ready = From {
            shown: from.shown(),
            top: top.clone(),
            origin: Origin::Image(session.image_ref(), root.clone()),
            counted: Some(Counted::Image(ffs, cred, root.clone(), options)),
        };
        let source = ImageSource::new(session.image_ref(), root, &from.path, options).target(top);
        self.watch.other_volume = within.is_none();
        self.transfer(source, ready, to, sink)
    }

    /// Copies one source, and compares the copies.
    fn transfer(
        &mut self,
        source: impl Source,
        from: From<'_>,
        to: &To<'_>,
        sink: &mut dyn Sink,
    ) -> Result<(), Failure> {
        let flags = self.flags;
        let choose = Arc::new(Choose {
            targets: Arc::clone(&to.targets),
            exclude: flags.exclude.clone(),
            stay: flags.stay(),
            trust_times: flags.resume && to.trusted && !flags.checksum,
        });
        let names = Names {
            source: from.shown,
            target: to.shown.clone(),
            top: from.top,
            renamed: to.target.is_name(),
        };
        let wanted = from.counted.filter(|_| self.watch.wants_survey());
        let excludes = Excludes(flags.exclude.clone());
        let survey = wanted.map(|tree| Survey::new(vec![tree], Arc::new(excludes)));
        let select: Arc<dyn Select> = choose;
        self.watch.begin(names.clone(), survey);
        let mut digests = Digests::default();
        let mut sparse = SparseSink::new(sink, flags.sparse());
        let mut ask;
        let mut sink: &mut dyn Sink = &mut sparse;
        if flags.interactive {
            ask = AskSink { sink, targets: &*to.targets, names: &names };
            sink = &mut ask;
        }
        let mut hashed;
        if flags.checksum {
            hashed = DigestSink::new(sink, &mut digests);
            sink = &mut hashed;
        }
        let report = transfer_selected(source, Some(select), sink, &mut self.watch);
        self.watch.end()?;
        let mut report = report?;
        if let Some(copies) = to.copies.as_ref().filter(|_| flags.checksum) {
            report.failed += verify(&digests, copies, &from.origin, &names)?;
            self.verified += digests.files().len() as u64;
        }
        self.done.push(report);
        Ok(())
    }
}

/// Metadata of the images that are read; fails for a source on the host.
fn images_read(from: &[Place]) -> Result<Vec<fs::Metadata>, Failure> {
    let mut images = Vec::new();
    for source in from {
        match source {
            Place::Image(path) => images.extend(crate::spec::file_of(&path.image)),
            Place::Host(path) => {
                let why = "is on the host, as the target is; use cp for that";
                return Err(Failure::new(path.display(), why));
            }
        }
    }
    Ok(images)
}

/// Whether both are the same file or the same block device.
fn same_volume(a: &fs::Metadata, b: &fs::Metadata) -> bool {
    let block = |file: &fs::Metadata| file.file_type().is_block_device();
    (a.dev(), a.ino()) == (b.dev(), b.ino()) || block(a) && block(b) && a.rdev() == b.rdev()
}

/// Fails if `dir` is `root` or below it: the copy would never end.
fn not_below(
    session: &Session,
    root: &Vnode,
    dir: &Vnode,
    from: &ImagePath,
) -> Result<(), Failure> {
    let root = session.ffs.getattr(root).ino;
    let mut at = dir.clone();
    loop {
        let ino = session.ffs.getattr(&at).ino;
        if ino == root {
            return Err(Failure::new(from, "cannot be copied into itself"));
        }
        let above = session.ffs.lookup(&session.cred, &at, b"..");
        at = above.map_err(|error| session.failed(&from.path, error))?;
        if session.ffs.getattr(&at).ino == ino {
            return Ok(());
        }
    }
}
