//! `ffs cp`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ffs_core::{FileFlags, FileType, Timespec, Vnode};
use ffs_device::Timestamp;

use super::{Doc, EXIT};
use crate::bsd;
use crate::copy::host_sink::HostSink;
use crate::copy::host_source::{HostOptions, HostSource};
use crate::copy::image_sink::ImageSink;
use crate::copy::image_source::ImageSource;
use crate::copy::{self, Entry, Sink, Tally};
use crate::fail::{Failure, Outcome};
use crate::namei::{Last, namei};
use crate::progress::Progress;
use crate::session::Session;
use crate::spec::{ImagePath, Place, place};
use crate::{output, signals};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs cp disk.img:/etc/fstab .", "a file out"),
        ("ffs cp notes.txt disk.img:/root/", "a file in; it belongs to root there"),
        ("ffs cp -a disk.img@2:/home /backup", "a tree out, with everything"),
        ("ffs cp -a site/. disk.img:/usr/local/www", "what is in a directory, in"),
        ("ffs cp -a old.img:/. new.img:/", "from image to image"),
    ],
    exit: EXIT,
    see_also: &["ffs-build(1)", "ffs-cat(1)", "ffs-ls(1)"],
    section: "1",
    usage_code: 64,
};

/// Copy files into, out of and between images.
///
/// -a keeps owners, modes, times to the nanosecond, hard links, holes, symbolic links, devices, extended
/// attributes and BSD file flags (on the host in the attribute user.bsd.flags). What cannot be kept,
/// such as owners without root, is counted and said. Without -a or -p, files copied into an image
/// belong to root. A file is complete or not there: what it replaces stays until then.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Sources, then the target; a path in an image is IMAGE[@N]:/path
    #[arg(required = true, num_args = 2.., value_name = "PATH")]
    paths: Vec<OsString>,
    /// Keep everything: -R -p, links as links
    #[arg(short)]
    archive: bool,
    /// Directories with what is in them
    #[arg(short = 'R', visible_short_alias = 'r')]
    recursive: bool,
    /// Keep owners, modes, times, flags and extended attributes
    #[arg(short)]
    preserve: bool,
    /// The target is the new name, even if it is a directory
    #[arg(short = 'T')]
    no_target_directory: bool,
    /// Say how much was copied
    #[arg(short)]
    verbose: bool,
    /// Owner of everything copied into an image
    #[arg(long, value_name = "UID:GID", value_parser = bsd::owner)]
    owner: Option<(u32, u32)>,
    /// Replace what exists (always so)
    #[arg(short, hide = true)]
    force: bool,
}

impl Args {
    fn keep(&self) -> bool {
        self.archive || self.preserve
    }

    fn recursive(&self) -> bool {
        self.archive || self.recursive
    }
}

pub(crate) fn run(args: Args) -> Outcome {
    signals::listen();
    let mut places: Vec<Place> = args.paths.iter().map(|arg| place(arg)).collect();
    let Some(target) = places.pop() else { return Err(Failure::usage("no target")) };
    if places.iter().chain([&target]).all(|place| matches!(place, Place::Host(_))) {
        let why = "none of these is in an image; write IMAGE:/path for what is";
        return Err(Failure::usage(why));
    }
    let job = Job { args: &args, progress: Progress::bytes("copy", None), done: Vec::new() };
    let done = match &target {
        Place::Image(to) => job.into_image(&places, to)?,
        Place::Host(to) => job.onto_host(&places, to)?,
    };
    let failed: u64 = done.iter().map(|tally| tally.failed).sum();
    for tally in &done {
        tally.say_losses();
        if args.verbose || tally.failed > 0 {
            output::note(format!("copied {}", tally.sentence()));
        }
    }
    Ok(u8::from(failed > 0 || output::errors() > 0))
}

struct Job<'a> {
    args: &'a Args,
    progress: Progress,
    done: Vec<Tally>,
}

/// Where copies go: the directory is open in a sink, `name` is the name there unless each keeps its
/// own.
struct Target {
    name: Option<Vec<u8>>,
}

impl Target {
    /// The path below the sink for a source called `name`.
    fn path(&self, name: Option<Vec<u8>>) -> Vec<u8> {
        self.name.clone().or(name).unwrap_or_default()
    }
}

impl Job<'_> {
    fn into_image(mut self, from: &[Place], to: &ImagePath) -> Result<Vec<Tally>, Failure> {
        let session = Session::write(&to.image)?;
        let result = self.each_into(from, to, &session);
        session.finish_with(result)?;
        Ok(self.done)
    }

    fn each_into(
        &mut self,
        from: &[Place],
        to: &ImagePath,
        session: &Session,
    ) -> Result<(), Failure> {
        let (dir, target) = self.image_target(session, to, from.len() > 1)?;
        let umask = umask();
        let now = now();
        for source in from {
            let (ffs, cred) = (&session.ffs, &session.cred);
            let mut sink = ImageSink::new(ffs, cred, session.image(), dir.clone());
            let owner = self.args.owner;
            let keep = self.args.keep();
            let mut adjust = |entry: &mut Entry| {
                if !keep {
                    plain(entry, umask, now);
                }
                if let Some((uid, gid)) = owner.or((!keep).then_some((0, 0))) {
                    (entry.meta.uid, entry.meta.gid) = (uid, gid);
                }
            };
            match source {
                Place::Host(path) => self.host(path, &target, &mut sink, &mut adjust)?,
                Place::Image(path) if same_image(path, to) => {
                    let within = Some(&dir);
                    self.image(session, path, &target, within, &mut sink, &mut adjust)?;
                }
                Place::Image(path) => {
                    let other = Session::read(&path.image)?;
                    let result = self.image(&other, path, &target, None, &mut sink, &mut adjust);
                    other.finish_with(result)?;
                }
            }
        }
        Ok(())
    }

    fn onto_host(mut self, from: &[Place], to: &Path) -> Result<Vec<Tally>, Failure> {
        let (dir, target) = self.host_target(to, from.len() > 1)?;
        for source in from {
            let mut sink = HostSink::new(&dir, self.args.keep())?;
            let Place::Image(path) = source else {
                let Place::Host(path) = source else { continue };
                let why = "is on the host, as the target is; use cp for that";
                return Err(Failure::new(path.display(), why));
            };
            let session = Session::read(&path.image)?;
            let result = self.image(&session, path, &target, None, &mut sink, &mut |_| {});
            session.finish_with(result)?;
        }
        Ok(self.done)
    }

    /// Copies a tree of the host.
    fn host(
        &mut self,
        path: &Path,
        target: &Target,
        sink: &mut dyn Sink,
        adjust: &mut dyn FnMut(&mut Entry),
    ) -> Result<(), Failure> {
        let follow = !self.args.recursive();
        let found = if follow { fs::metadata(path) } else { fs::symlink_metadata(path) };
        let found = found.map_err(|error| Failure::new(path.display(), error))?;
        if found.is_dir() && !self.args.recursive() {
            return Err(
                Failure::new(path.display(), "is a directory").hint("copy it with -a or -R")
            );
        }
        let options = HostOptions {
            xattrs: self.args.keep(),
            links: self.args.archive,
            data: true,
            follow,
            skip: Vec::new(),
        };
        let to = target.path(own_name(path.as_os_str().as_bytes()));
        let source = |emit: &mut copy::Emit| HostSource::new(options, emit).walk(path, &to);
        self.done.push(copy::run(source, sink, adjust, &mut self.progress)?);
        Ok(())
    }

    /// Copies a tree of an image. `within` is the target's directory if it is in the same image.
    fn image(
        &mut self,
        session: &Session,
        from: &ImagePath,
        target: &Target,
        within: Option<&Vnode>,
        sink: &mut dyn Sink,
        adjust: &mut dyn FnMut(&mut Entry),
    ) -> Result<(), Failure> {
        let last = if self.args.recursive() { Last::Keep } else { Last::Follow };
        let root = session.find(&from.path, last)?;
        let to = target.path(own_name(&from.path));
        if session.ffs.getattr(&root).kind == FileType::Directory {
            if !self.args.recursive() {
                return Err(Failure::new(from, "is a directory").hint("copy it with -a or -R"));
            }
            if let Some(dir) = within {
                not_below(session, &root, dir, from)?;
            }
        } else if let Some(dir) = within
            && let Ok(there) = session.ffs.lookup(&session.cred, dir, &to)
            && session.ffs.getattr(&there).ino == session.ffs.getattr(&root).ino
        {
            return Err(Failure::new(from, "the source and the target are the same file"));
        }
        let all = self.args.keep();
        let source = |emit: &mut copy::Emit| {
            let mut source =
                ImageSource::new(&session.ffs, &session.cred, session.image(), all, emit);
            source.walk(&root, &from.path, &to)
        };
        self.done.push(copy::run(source, sink, adjust, &mut self.progress)?);
        Ok(())
    }

    fn image_target(
        &self,
        session: &Session,
        to: &ImagePath,
        several: bool,
    ) -> Result<(Vnode, Target), Failure> {
        if !self.args.no_target_directory || crate::namei::basename(&to.path).is_none() {
            match namei(&session.ffs, &session.cred, &to.path, Last::Follow) {
                Ok(dir) if session.ffs.getattr(&dir).kind == FileType::Directory => {
                    return Ok((dir, Target { name: None }));
                }
                Ok(_) if !several && !to.path.ends_with(b"/") => {}
                Ok(_) => return Err(session.failed(&to.path, ffs_core::Error::NotDirectory)),
                Err(error) if error.is_not_found() && !several => {}
                Err(error) => return Err(session.failed(&to.path, error)),
            }
        }
        let (dir, name) = session.find_parent(&to.path)?;
        Ok((dir, Target { name: Some(name) }))
    }

    fn host_target(&self, to: &Path, several: bool) -> Result<(PathBuf, Target), Failure> {
        let is_dir = to.is_dir();
        if is_dir && !self.args.no_target_directory {
            return Ok((to.to_owned(), Target { name: None }));
        }
        if several || (to.as_os_str().as_bytes().ends_with(b"/") && !self.args.recursive()) {
            return Err(Failure::new(to.display(), "is not a directory").hint("make it first"));
        }
        if fs::metadata(to).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
            let failure = Failure::new(to.display(), "is not a regular file");
            return Err(failure.hint("write to it with ffs cat"));
        }
        // A link to a file: the file is what is replaced.
        let to =
            if to.is_symlink() { to.canonicalize().unwrap_or(to.to_owned()) } else { to.into() };
        let Some(name) = to.file_name() else {
            return Err(Failure::new(to.display(), "does not end in a name"));
        };
        let parent = to.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.map_or_else(|| PathBuf::from("."), Path::to_owned);
        Ok((parent, Target { name: Some(name.as_bytes().to_vec()) }))
    }
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

/// Whether two arguments name the same file system.
fn same_image(a: &ImagePath, b: &ImagePath) -> bool {
    let real = |image: &OsString| fs::canonicalize(image).ok();
    a.image == b.image || real(&a.image).is_some_and(|real_a| Some(real_a) == real(&b.image))
}

/// The name a source has in a directory it is copied into; `None` if only what is in it is meant.
fn own_name(path: &[u8]) -> Option<Vec<u8>> {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
    let start = path[..end].iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    let name = &path[start..end];
    (!matches!(name, b"" | b"." | b"..")).then(|| name.to_vec())
}

/// What a copy without -a or -p is given.
fn plain(entry: &mut Entry, umask: u16, now: Timespec) {
    let meta = &mut entry.meta;
    meta.perm &= 0o777 & !umask;
    (meta.atime, meta.mtime, meta.birthtime) = (now, now, now);
    meta.flags = FileFlags::empty();
    meta.xattrs.clear();
}

fn now() -> Timespec {
    let now = Timestamp::from(SystemTime::now());
    Timespec { secs: now.secs, nsec: now.nanos as i32 }
}

fn umask() -> u16 {
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(umask);
    umask.bits() as u16
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
