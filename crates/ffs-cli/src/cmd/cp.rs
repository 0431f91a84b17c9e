//! `ffs cp`.

mod stream;
mod target;

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use bsdffs::copy::{
    CopyOptions, CopyReport, Entry, Existing, FileId, HostSink, HostSource, HostSourceOptions,
    ImageSink, ImageSource, ImageSourceOptions, Observer, Sink, SkippedFile, Source, transfer,
};
use ffs_core::{FileType, Vnode};

use super::{Doc, EXIT};
use crate::bsd;
use crate::copying::{CopyProgress, warn_of_losses};
use crate::fail::{Failure, Outcome};
use crate::mode::umask;
use crate::namei::Last;
use crate::progress::Progress;
use crate::session::snapshot::AtEnd;
use crate::session::{Beside, Session};
use crate::spec::{ImagePath, Place, place};
use crate::{output, signals};
use stream::StreamSink;
use target::Target;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs cp disk.img:/etc/fstab .", "a file out"),
        ("ffs cp notes.txt disk.img:/root/", "a file in; a new one belongs to root there"),
        ("ffs cp passwd disk.img:/etc/passwd", "a new content; mode, owner and links stay"),
        ("ffs cp --atomic rc.conf disk.img:/etc/rc.conf", "the old file until the new is complete"),
        ("ffs cp -a disk.img@2:/home /backup", "a tree out, with everything"),
        ("ffs cp -a site/. disk.img:/usr/local/www", "what is in a directory, in"),
        ("ffs cp -a old.img:/. new.img:/", "from image to image"),
        ("ffs cp disk.img:/.snap/monday:/etc/rc.conf .", "a file out of a snapshot"),
        ("ffs cp disk.img:/boot/kernel.gz - | gunzip", "to a pipe"),
        ("date | ffs cp - disk.img:/root/date", "from a pipe"),
    ],
    exit: EXIT,
    see_also: &["ffs-build(1)", "ffs-cat(1)", "ffs-chmod(1)", "ffs-chown(8)", "ffs-ls(1)"],
    section: "1",
    usage_code: 64,
};

/// Copy files into, out of and between images.
///
/// -a keeps owners, modes, times to the nanosecond, hard links, holes, symbolic links, devices,
/// extended attributes, POSIX access lists and BSD file flags (on the host in the attribute
/// user.bsd.flags). A warning counts the attributes that cannot be kept, such as owners without
/// root, and names the first file. A file that loses its access list gets a mode that grants no
/// more than the list did. NFSv4 access lists are kept between images whose volumes have them.
/// Without -a or -p, new files in an image belong to root; their mode is that of the source without
/// the bits of the umask, or follows from the default access list of the directory.
///
/// An existing file gets the new content and keeps the rest, as with cp(1): mode, owner, access
/// list, file flags, extended attributes and hard links. A symbolic link in the place of the target
/// is followed to its file; a dangling link is an error, and so is a directory. If the copy fails
/// half way, for example for lack of space, the file keeps the part that was copied, and the
/// message gives its size. With -p or -a the file gets the attributes of the source, too. With -a
/// an existing file that has several names is replaced, so that its other names keep their content.
///
/// With --atomic an existing file stays as it is until the new one is complete and replaces it. The
/// new file has the mode, owner, access list, file flags and extended attributes of the one it
/// replaces, or with -p or -a those of the source; other names of the old file keep the old
/// content, and a symbolic link is replaced, not followed.
///
/// A new file that cannot be copied completely is removed. A full volume ends the copy; files that
/// were copied before stay. If the target on the host is a pipe, a terminal or a device, the copy
/// writes to it; /dev/stdout and /dev/fd/N are descriptors of the caller, and - is standard output.
/// Without -R and -a, a source on the host that is a pipe or a terminal is read to its end; - is
/// standard input.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Sources, then the target; a path in an image is IMAGE[@N]:/path
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    paths: Vec<OsString>,
    #[command(flatten)]
    flags: Flags,
}

/// How files are copied.
#[derive(clap::Args)]
pub(crate) struct Flags {
    /// Keep everything: -R and -p, and keep hard links
    #[arg(short)]
    archive: bool,
    /// Copy directories and all files below them
    #[arg(short = 'R', visible_short_alias = 'r')]
    recursive: bool,
    /// Keep owners, modes, times, flags, access lists and extended attributes
    #[arg(short)]
    preserve: bool,
    /// Replace existing files by complete new ones instead of writing over them
    #[arg(long)]
    atomic: bool,
    /// Leave existing files alone
    #[arg(short, overrides_with = "force")]
    no_clobber: bool,
    /// Replace an existing file of the host that cannot be opened for writing
    #[arg(short, overrides_with = "no_clobber")]
    force: bool,
    /// The target is the new name, even if it is a directory
    #[arg(short = 'T')]
    no_target_directory: bool,
    /// Print the number of copied files and bytes
    #[arg(short)]
    verbose: bool,
    /// Owner of everything copied into an image
    #[arg(long, value_name = "UID:GID", value_parser = bsd::owner)]
    owner: Option<(u32, u32)>,
}

impl Flags {
    /// The same with `-a`.
    pub(crate) fn archive(self) -> Flags {
        Flags { archive: true, ..self }
    }

    fn recursive(&self) -> bool {
        self.archive || self.recursive
    }

    fn options(&self, sources: usize) -> CopyOptions {
        let existing = match (self.no_clobber, self.atomic) {
            (true, _) => Existing::Keep,
            (_, true) => Existing::Replace,
            _ => Existing::Overwrite,
        };
        CopyOptions {
            preserve: self.archive || self.preserve,
            hard_links: self.archive,
            existing,
            force: self.force,
            owner: self.owner,
            umask: umask(),
            protect_created: sources > 1,
            late_flags: false,
        }
    }
}

/// The file that `-` is as a source, and as the target.
const STDIN: &str = "/dev/fd/0";
const STDOUT: &str = "/dev/stdout";

pub(crate) fn run(args: Args) -> Outcome {
    let last = args.paths.len() - 1;
    let stream = |n: usize| Place::Host(if n == last { STDOUT } else { STDIN }.into());
    let places = args.paths.iter().enumerate();
    copy(
        &args.flags,
        places.map(|(n, arg)| if arg == "-" { stream(n) } else { place(arg) }).collect(),
    )
}

/// Copies all but the last of `places` to the last one.
///
/// # Errors
/// None of them is in an image, or the copy failed.
pub(crate) fn copy(flags: &Flags, mut places: Vec<Place>) -> Outcome {
    let Some(target) = places.pop() else { return Err(Failure::usage("no target")) };
    if places.iter().chain([&target]).all(|place| matches!(place, Place::Host(_))) {
        let why = "no argument is in an image; write IMAGE:/path for a file in an image";
        return Err(Failure::usage(why));
    }
    let options = flags.options(places.len());
    let progress = CopyProgress(Progress::bytes("copy", None));
    let job = Job { flags, options, progress, done: Vec::new() };
    let done = match &target {
        Place::Image(to) => job.into_image(&places, to)?,
        Place::Host(to) => job.onto_host(&places, to)?,
    };
    let failed: u64 = done.iter().map(|report| report.failed).sum();
    for report in &done {
        warn_of_losses(report);
        if flags.verbose || report.failed > 0 {
            output::note(format!("copied {}", report.summary()));
        }
    }
    Ok(u8::from(failed > 0 || output::errors() > 0))
}

/// The hint for a full image.
const FULL: &str = "files copied before stay; delete files there (ffs rm), or copy into a larger \
                    image (ffs newfs -s SIZE makes an empty one, ffs build --size SIZE one of a \
                    tree)";

struct Job<'a> {
    flags: &'a Flags,
    options: CopyOptions,
    progress: CopyProgress,
    /// One report for each source.
    done: Vec<CopyReport>,
}

impl Job<'_> {
    fn into_image(mut self, from: &[Place], to: &ImagePath) -> Result<Vec<CopyReport>, Failure> {
        signals::listen();
        let session = Session::write(&to.image)?;
        let result = self.each_into(from, to, &session);
        let result = result.map_err(|failure| failure.hint_if_full(FULL));
        session.finish_with(result)?;
        Ok(self.done)
    }

    fn each_into(
        &mut self,
        from: &[Place],
        to: &ImagePath,
        session: &Session,
    ) -> Result<(), Failure> {
        let (dir, target) =
            Target::in_image(session, to, self.flags.no_target_directory, from.len() > 1)?;
        let mut sink = ImageSink::new(session.image_ref(), dir.clone(), self.options);
        for source in from {
            match source {
                Place::Host(path) => self.host(path, &target, &mut sink)?,
                Place::Image(path) if path.image == to.image => {
                    self.same_image(session, path, &target, &dir, &mut sink)?;
                }
                Place::Image(path) => match session.beside(&path.image) {
                    Ok(Beside::Same) => {
                        self.same_image(session, path, &target, &dir, &mut sink)?;
                    }
                    Ok(Beside::Partition(other)) => {
                        match other.through(path.clone(), AtEnd::File) {
                            Ok((other, path)) => self.from(other, &path, &target, &mut sink)?,
                            Err(failure) => refuse(failure)?,
                        }
                    }
                    Ok(Beside::No) => self.other_image(path, &target, &mut sink)?,
                    Err(failure) => refuse(failure)?,
                },
            }
        }
        Ok(())
    }

    fn onto_host(mut self, from: &[Place], to: &Path) -> Result<Vec<CopyReport>, Failure> {
        let images = images_read(from)?;
        if let Ok(found) = fs::metadata(to)
            && images.iter().any(|image| same_volume(image, &found))
        {
            return Err(Failure::new(to.display(), "is the image that is read"));
        }
        if from.len() == 1
            && let Some(mut sink) = StreamSink::open(to)?
        {
            self.each_onto(from, &Target::default(), &mut sink)?;
            return Ok(self.done);
        }
        signals::listen();
        let (dir, target) = Target::on_host(to, self.flags.no_target_directory, from.len() > 1)?;
        let images = images.iter().map(FileId::from).collect();
        let mut sink = HostSink::new(&dir, self.options, images)?;
        let copied = self.each_onto(from, &target, &mut sink);
        copied.map_err(|failure| failure.hint_if_full("complete files stay"))?;
        Ok(self.done)
    }

    fn each_onto(
        &mut self,
        from: &[Place],
        target: &Target,
        sink: &mut dyn Sink,
    ) -> Result<(), Failure> {
        for source in from {
            let Place::Image(path) = source else { continue };
            self.other_image(path, target, sink)?;
        }
        Ok(())
    }

    /// Copies a tree of an image that is not copied to.
    fn other_image(
        &mut self,
        from: &ImagePath,
        target: &Target,
        sink: &mut dyn Sink,
    ) -> Result<(), Failure> {
        match Session::read_at(from, AtEnd::File) {
            Ok((session, from)) => self.from(session, &from, target, sink),
            Err(failure) => refuse(failure),
        }
    }

    /// Copies a tree of the image that is copied to, or of a snapshot in it.
    fn same_image(
        &mut self,
        session: &Session,
        from: &ImagePath,
        target: &Target,
        dir: &Vnode,
        sink: &mut dyn Sink,
    ) -> Result<(), Failure> {
        let snapshot = session.snapshot_at(from, AtEnd::File).and_then(|found| {
            found
                .map(|(device, rest)| Session::on(&rest.image, device)?.through(rest, AtEnd::File))
                .transpose()
        });
        match snapshot {
            Ok(Some((inside, from))) => self.from(inside, &from, target, sink),
            Ok(None) => self.image(session, from, target, Some(dir), sink),
            Err(failure) => refuse(failure),
        }
    }

    /// Copies a tree of `session`, which is mounted for that alone.
    fn from(
        &mut self,
        session: Session,
        from: &ImagePath,
        target: &Target,
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
        target: &Target,
    ) -> Result<(), Failure> {
        target.takes(directory)?;
        if directory && !self.flags.recursive() {
            return Err(Failure::new(source, "is a directory").hint("copy it with -a or -R"));
        }
        Ok(())
    }

    /// Copies a tree of the host.
    fn host(&mut self, path: &Path, target: &Target, sink: &mut dyn Sink) -> Result<(), Failure> {
        let stdin = path == Path::new(STDIN);
        if stdin && target.path(None).is_empty() {
            let failure = Failure::new("standard input", "has no name for a file in a directory");
            return refuse(failure.hint("end the target in the name of the new file"));
        }
        let recursive = self.flags.recursive() && !stdin;
        let found = if recursive { fs::symlink_metadata(path) } else { fs::metadata(path) };
        let fits = found
            .map_err(|error| Failure::new(path.display(), error))
            .and_then(|found| self.fits(path.display(), found.is_dir(), target));
        if let Err(failure) = fits {
            return refuse(failure);
        }
        let options = HostSourceOptions {
            xattrs: self.options.preserve,
            hard_links: self.options.hard_links,
            identities: false,
            data: true,
            follow: !recursive,
            stream: !recursive,
            skip: Vec::new(),
        };
        let to = target.path(own_name(path.as_os_str().as_bytes()));
        self.transfer(HostSource::new(path, to, options), sink)
    }

    /// Copies a tree of an image. `within` is the target's directory if it is in the same image.
    fn image(
        &mut self,
        session: &Session,
        from: &ImagePath,
        target: &Target,
        within: Option<&Vnode>,
        sink: &mut dyn Sink,
    ) -> Result<(), Failure> {
        let last = if self.flags.recursive() { Last::Keep } else { Last::Follow };
        let to = target.path(own_name(&from.path));
        let found = session.find(&from.path, last).and_then(|root| {
            let directory = session.ffs.getattr(&root).kind == FileType::Directory;
            self.fits(from, directory, target)?;
            if let Some(dir) = within.filter(|_| directory) {
                not_below(session, &root, dir, from)?;
            }
            Ok(root)
        });
        let root = match found {
            Ok(root) => root,
            Err(failure) => return refuse(failure),
        };
        let (hard_links, xattrs) = (self.options.hard_links, self.options.preserve);
        let options = ImageSourceOptions { hard_links, xattrs, ..Default::default() };
        let source = ImageSource::new(session.image_ref(), root, &from.path, options).target(to);
        if within.is_some() {
            return self.transfer(source, sink);
        }
        let mut observer = OtherVolume(&mut self.progress);
        self.done.push(transfer(source, sink, &mut observer)?);
        Ok(())
    }

    fn transfer(&mut self, source: impl Source, sink: &mut dyn Sink) -> Result<(), Failure> {
        self.done.push(transfer(source, sink, &mut self.progress)?);
        Ok(())
    }
}

/// Observes a copy from another volume, whose inode numbers mean nothing in the target.
struct OtherVolume<'a>(&'a mut CopyProgress);

impl Observer for OtherVolume<'_> {
    fn adjust(&mut self, entry: &mut Entry) {
        entry.meta.source = None;
    }

    fn progress(&mut self, bytes: u64) {
        self.0.progress(bytes);
    }

    fn skipped(&mut self, file: &SkippedFile) {
        self.0.skipped(file);
    }

    fn is_cancelled(&self) -> bool {
        self.0.is_cancelled()
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

/// Reports that one source cannot be copied, and goes on with the others.
fn refuse(failure: Failure) -> Result<(), Failure> {
    output::error(failure.text);
    Ok(())
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

/// The name a source has in a directory it is copied into; `None` if only what is in it is meant.
fn own_name(path: &[u8]) -> Option<Vec<u8>> {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
    let start = path[..end].iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    let name = &path[start..end];
    (!matches!(name, b"" | b"." | b"..")).then(|| name.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dot_means_what_is_in_a_directory() {
        assert_eq!(own_name(b"a/b"), Some(b"b".to_vec()));
        assert_eq!(own_name(b"a/b//"), Some(b"b".to_vec()));
        for contents in [&b"a/."[..], b".", b"/", b"..", b"a/../"] {
            assert_eq!(own_name(contents), None, "{}", contents.escape_ascii());
        }
    }
}
