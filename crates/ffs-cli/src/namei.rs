//! Path lookup for commands: errors name the path and say what to do next.
//!
//! A path is absolute, or it begins with an inode number: `#1234`, `#1234/name`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub(crate) use bsdffs::namei::{Last, PathError, basename, components, join};
use bsdffs::namei::{namei_from, parent_from, target_from};
use ffs_core::{Attr, Cred, Error, Ffs, Ino, NodeKind, Vnode};

use crate::current;
use crate::fail::{Failure, shell_word, show};
use crate::session::Session;
use crate::spec::{ImagePath, Place, image_path, place};
use crate::umask::umask;

/// Looks up `path`.
///
/// # Errors
/// [`PathError`].
pub(crate) fn namei(ffs: &Ffs, cred: &Cred, path: &[u8], last: Last) -> Result<Vnode, PathError> {
    let (at, rest) = start(ffs, path)?;
    namei_from(ffs, cred, at, rest, last)
}

/// Looks up the directory of `path` and returns it with the last name, which need not exist.
///
/// # Errors
/// [`PathError`]; [`Error::Invalid`] if the path ends in no name.
pub(crate) fn parent(ffs: &Ffs, cred: &Cred, path: &[u8]) -> Result<(Vnode, Vec<u8>), PathError> {
    let (at, rest) = start_of_name(ffs, path)?;
    parent_from(ffs, cred, at, rest)
}

/// As [`start`], of a path that ends in a name.
fn start_of_name<'a>(ffs: &Ffs, path: &'a [u8]) -> Result<(Vnode, &'a [u8]), PathError> {
    let (at, rest) = start(ffs, path)?;
    if is_number(path) {
        return Err(Error::Invalid("a number names a file, not its name in a directory").into());
    }
    Ok((at, rest))
}

/// The number at the beginning of `#1234` or `#1234/name`, if it is one, and the rest.
pub(crate) fn split_number(path: &[u8]) -> Option<(Option<Ino>, &[u8])> {
    let rest = path.strip_prefix(b"#")?;
    let end = rest.iter().position(|&byte| byte == b'/').unwrap_or(rest.len());
    let (number, rest) = rest.split_at(end);
    let digits = std::str::from_utf8(number).ok().filter(|text| !text.starts_with('+'));
    Some((digits.and_then(|text| text.parse().ok()).map(Ino), rest))
}

/// Whether `path` is a number without a name behind it.
pub(crate) fn is_number(path: &[u8]) -> bool {
    split_number(path).is_some_and(|(_, rest)| components(rest).next().is_none())
}

/// The paths that lead to `path`: `/a`, `/a/b`, or `#1234`, `#1234/a`; the last one is `path`.
pub(crate) fn prefixes(path: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let mut so_far = if path.starts_with(b"#") { Vec::new() } else { b"/".to_vec() };
    components(path).map(move |name| {
        so_far = join(&so_far, name);
        so_far.clone()
    })
}

/// Where a lookup of `path` begins, and the path from there.
fn start<'a>(ffs: &Ffs, path: &'a [u8]) -> Result<(Vnode, &'a [u8]), PathError> {
    let Some((number, rest)) = split_number(path) else { return Ok((ffs.root()?, path)) };
    let Some(ino) = number else {
        return Err(Error::Invalid("an inode number is expected behind '#'").into());
    };
    match ffs.vget(ino, None) {
        Err(Error::Stale) => Err(Error::NotFound.into()),
        found => Ok((found?, rest)),
    }
}

impl Session {
    /// The file at `path`, or a message that names it.
    pub(crate) fn find(&self, path: &[u8], last: Last) -> Result<Vnode, Failure> {
        namei(&self.ffs, &self.cred, path, last).map_err(|error| self.failed(path, error))
    }

    /// The directory of `path` and its last name, or a message that names it.
    pub(crate) fn find_parent(&self, path: &[u8]) -> Result<(Vnode, Vec<u8>), Failure> {
        parent(&self.ffs, &self.cred, path).map_err(|error| self.failed(path, error))
    }

    /// The directory of a new file at `path`, and its name there, or a message that names it.
    pub(crate) fn find_parent_of_new(&self, path: &[u8]) -> Result<(Vnode, Vec<u8>), Failure> {
        parent(&self.ffs, &self.cred, path).map_err(|error| match error.is_not_found() {
            true => self.no_parent(path),
            false => self.failed(path, error),
        })
    }

    /// The file at `path`, or none if it does not exist.
    pub(crate) fn find_opt(&self, path: &[u8], last: Last) -> Result<Option<Vnode>, Failure> {
        match namei(&self.ffs, &self.cred, path, last) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(self.failed(path, error)),
        }
    }

    /// The attributes of the file at `path`, if it exists.
    pub(crate) fn attr_of(&self, path: &[u8], last: Last) -> Option<Attr> {
        namei(&self.ffs, &self.cred, path, last).ok().map(|file| self.ffs.getattr(&file))
    }

    /// The file at `path`, behind symbolic links. If it does not exist, it is created if `create`
    /// is set, as open(2) with `O_CREAT` does, and otherwise there is none.
    pub(crate) fn find_or_create(
        &self,
        path: &[u8],
        create: bool,
    ) -> Result<Option<Vnode>, Failure> {
        let found = self.find_opt(path, Last::Follow)?;
        if found.is_some() || !create {
            return Ok(found);
        }
        self.create(path).map(|(file, _, _)| Some(file))
    }

    /// Creates the file at `path`, behind symbolic links, which does not exist. Returns it with its
    /// directory and its name there.
    pub(crate) fn create(&self, path: &[u8]) -> Result<(Vnode, Vnode, Vec<u8>), Failure> {
        let (dir, name) = self.find_target(path)?;
        let perm = 0o666 & !umask();
        let made = self.ffs.create(&self.cred, &dir, &name, NodeKind::Regular, perm);
        made.map(|file| (file, dir, name)).map_err(|error| self.failed(path, error))
    }

    /// Where the file at `path` is created, behind symbolic links: its directory and its name.
    pub(crate) fn find_target(&self, path: &[u8]) -> Result<(Vnode, Vec<u8>), Failure> {
        if path.ends_with(b"/") {
            return Err(self.no_directory(path));
        }
        start_of_name(&self.ffs, path)
            .and_then(|(at, rest)| target_from(&self.ffs, &self.cred, at, rest))
            .map_err(|error| {
                let link = self.find_opt(path, Last::Keep).ok().flatten();
                match link.and_then(|link| self.ffs.readlink(&link).ok()) {
                    Some(to) => {
                        let failure = self.failed(path, error);
                        failure.hint(format!("it is a symbolic link to {}", show(&to)))
                    }
                    None if error.is_not_found() => self.no_parent(path),
                    None => self.failed(path, error),
                }
            })
    }

    /// The failure for a path with a slash at its end that is the name of a new file.
    pub(crate) fn no_directory(&self, path: &[u8]) -> Failure {
        let failure = Failure::new(format!("{}:{}", self.image(), show(path)), "no such directory");
        failure.hint("a slash at the end is for a directory: leave it out")
    }

    /// The failure for a new file at `path` whose directory does not exist, with the command that
    /// makes it.
    fn no_parent(&self, path: &[u8]) -> Failure {
        if let Some(failure) = self.missed_snapshot(path) {
            return failure;
        }
        let what = format!("{}:{}", self.image(), show(path));
        let failure = Failure::new(what, "the parent directory does not exist");
        let mut prefixes: Vec<Vec<u8>> = prefixes(path).collect();
        prefixes.pop();
        // A link to a missing file is in the way.
        let dangling = prefixes.iter().find_map(|path| {
            let link = self.find_opt(path, Last::Keep).ok()??;
            let to = self.ffs.readlink(&link).ok()?;
            let found = self.find_opt(path, Last::Follow).ok()?;
            found.is_none().then(|| format!("{} is a symbolic link to {}", show(path), show(&to)))
        });
        if let Some(link) = dangling {
            return failure.hint(link);
        }
        // A number is no name.
        match prefixes.last().filter(|parent| !is_number(parent)) {
            Some(parent) => self.propose(failure, "make it", "mkdir -p", parent),
            None => failure,
        }
    }

    /// Adds the hint `what: command path` to `failure`, as the user types it here: with `ffs` and
    /// the image, or as a line of the shell. An empty path is the image itself.
    pub(crate) fn propose(
        &self,
        failure: Failure,
        what: &str,
        command: &str,
        path: &[u8],
    ) -> Failure {
        let (image, shown) = (self.image(), show(path));
        // A name with odd bytes is shown in another form.
        if shown.as_bytes() != path {
            return failure;
        }
        if !current::in_shell() {
            let place = if path.is_empty() { image.to_owned() } else { format!("{image}:{shown}") };
            return failure.hint(format!("{what}: ffs {command} {}", shell_word(&place)));
        }
        if path.is_empty() {
            return failure.hint(format!("{what}: {command}"));
        }
        // A snapshot has its path behind the image that the shell has.
        let own = show(current::image(OsStr::new("")).as_bytes());
        let snapshot = image.strip_prefix(&own).and_then(|rest| rest.strip_prefix(':'));
        let place = snapshot.map_or(shown.clone(), |snapshot| format!("{snapshot}:{shown}"));
        failure.hint(format!("{what}: {command} {}", shell_word(&place)))
    }

    /// A failure at `path` of this image.
    pub(crate) fn failed(&self, path: &[u8], error: impl Into<PathError>) -> Failure {
        let error = error.into();
        if error.is_not_found()
            && let Some(failure) = self.missed_snapshot(path)
        {
            return failure;
        }
        let failure = Failure::new(format!("{}:{}", self.image(), show(path)), &error);
        match error {
            PathError::Fs(Error::NotFound) => {
                // In a shell `ls` alone lists the current directory.
                let above = if current::in_shell() { current::above(path) } else { b"" };
                self.propose(failure, "see what is there", "ls", above)
            }
            PathError::Fs(Error::NoSpace | Error::NoInodes) => {
                self.propose(failure, "see how full it is", "df", b"")
            }
            PathError::Fs(Error::Format(_)) => {
                failure.hint(format!("check it: ffs fsck -n {}", self.word()))
            }
            PathError::Fs(Error::NotPermitted) => {
                failure.hint("a file flag such as schg forbids it (ffs ls -lo shows them)")
            }
            _ => failure,
        }
    }
}

/// The treatment of a symbolic link at the end of a path: `itself`, or the file it leads to.
pub(crate) fn last(itself: bool) -> Last {
    if itself { Last::Keep } else { Last::Follow }
}

/// Whether `arg` is an image or a file of the host, without a path in an image.
fn is_bare(arg: &OsStr) -> bool {
    matches!(place(arg), Place::Host(_)) && image_path(arg).is_ok_and(|spec| spec.image == arg)
}

/// Whether the file `arg` is an image with a volume.
fn has_volume(arg: &OsStr) -> bool {
    let opened = ffs_image::open(arg, &ffs_image::OpenOptions::default());
    opened.is_ok_and(|opened| ffs_admin::Volume::open(&*opened.device).is_ok())
}

/// As [`one_image`], for a command that cannot mean the root directory: each argument has a path.
pub(crate) fn names_in_one_image(
    args: &[impl AsRef<OsStr>],
) -> Result<(OsString, Vec<Vec<u8>>), Failure> {
    let split = one_image(args)?;
    match args.iter().map(AsRef::as_ref).find(|arg| is_bare(arg)) {
        Some(bare) => {
            Err(Failure::usage(format!("{}: no path in an image", show(bare.as_bytes())))
                .hint("write IMAGE:/PATH"))
        }
        None => Ok(split),
    }
}

/// Splits arguments that must all be in one image.
pub(crate) fn one_image(args: &[impl AsRef<OsStr>]) -> Result<(OsString, Vec<Vec<u8>>), Failure> {
    let mut image = None;
    let mut paths = Vec::new();
    for arg in args {
        let ImagePath { image: this, path } = image_path(arg.as_ref())?;
        let first = image.get_or_insert_with(|| this.clone());
        if *first != this {
            return Err(several_images(args, first, &this));
        }
        paths.push(path);
    }
    Ok((image.unwrap_or_default(), paths))
}

/// The failure for arguments that are not all in one image, of which `first` and `second` differ.
fn several_images(args: &[impl AsRef<OsStr>], first: &OsStr, second: &OsStr) -> Failure {
    let both = [first, second];
    if let Some(dir) = both.into_iter().find(|arg| Path::new(arg).is_dir()) {
        return Failure::usage(format!(
            "{} is a directory of this computer; `ffs cp -a` copies between it and an image",
            dir.display()
        ));
    }
    let is_host = |arg: &&OsStr| is_bare(arg) && Path::new(arg).is_file() && !has_volume(arg);
    if let Some(host) = args.iter().map(AsRef::as_ref).find(is_host) {
        return Failure::usage(format!(
            "{}: not in an image; all names must be in one, and `ffs cp` copies into it",
            host.display()
        ));
    }
    let [first, second] = both.map(OsStr::display);
    Failure::usage(format!(
        "{first} and {second} are different images; use `ffs cp -a` from one to the other"
    ))
}
