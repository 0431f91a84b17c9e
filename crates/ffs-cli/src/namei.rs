//! From a path inside an image to a file, symbolic links followed.
//!
//! Absolute links lead to the image's own root, never out of it. `.` and `..` are real entries.

use std::ffi::OsStr;

use ffs_core::{Cred, Error, Ffs, Vnode};
use ffs_ondisk::FileType;

use crate::fail::{Failure, show};
use crate::session::Session;
use crate::spec::ImagePath;

/// `MAXSYMLINKS` of BSD.
const MAX_LINKS: u32 = 32;

/// What is done with a symbolic link at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    /// It is followed.
    Follow,
    /// It is meant itself.
    Keep,
}

/// Why a path leads nowhere.
#[derive(Debug)]
pub(crate) enum PathError {
    /// An operation failed.
    Fs(Error),
    /// More links than anybody follows: `ELOOP`.
    Loop,
}

impl From<Error> for PathError {
    fn from(error: Error) -> PathError {
        PathError::Fs(error)
    }
}

impl std::fmt::Display for PathError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PathError::Fs(error) => error.fmt(f),
            PathError::Loop => f.write_str("too many levels of symbolic links"),
        }
    }
}

impl PathError {
    /// Whether nothing is there.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, PathError::Fs(Error::NotFound))
    }
}

/// The file at `path`.
pub(crate) fn namei(ffs: &Ffs, cred: &Cred, path: &[u8], last: Last) -> Result<Vnode, PathError> {
    namei_from(ffs, cred, ffs.root()?, path, last)
}

/// The file at `path`, which begins in the directory `at`.
pub(crate) fn namei_from(
    ffs: &Ffs,
    cred: &Cred,
    mut at: Vnode,
    path: &[u8],
    last: Last,
) -> Result<Vnode, PathError> {
    let mut links = 0;
    // Components still to go, the next one last.
    let mut todo: Vec<Vec<u8>> = components(path).rev().map(<[u8]>::to_vec).collect();
    // A trailing slash means a directory, so a link there is followed.
    let directory = path.ends_with(b"/") || path.ends_with(b"/.");
    while let Some(name) = todo.pop() {
        let next = ffs.lookup(cred, &at, &name)?;
        let follow = !todo.is_empty() || directory || last == Last::Follow;
        if !follow || ffs.getattr(&next).kind != FileType::Symlink {
            at = next;
            continue;
        }
        links += 1;
        if links > MAX_LINKS {
            return Err(PathError::Loop);
        }
        let target = ffs.readlink(&next)?;
        if target.is_empty() {
            return Err(Error::NotFound.into());
        }
        if target.starts_with(b"/") {
            at = ffs.root()?;
        }
        todo.extend(components(&target).rev().map(<[u8]>::to_vec));
    }
    if directory && ffs.getattr(&at).kind != FileType::Directory {
        return Err(Error::NotDirectory.into());
    }
    Ok(at)
}

/// The directory that `path` is or will be in, and the name there.
pub(crate) fn parent(ffs: &Ffs, cred: &Cred, path: &[u8]) -> Result<(Vnode, Vec<u8>), PathError> {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
    let start = path[..end].iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    let name = &path[start..end];
    if name.is_empty() || name == b"." || name == b".." {
        let root = components(path).next().is_none();
        let why =
            if root { "this is the root directory" } else { "the path does not end in a name" };
        return Err(Error::Invalid(why).into());
    }
    Ok((namei(ffs, cred, &path[..start], Last::Follow)?, name.to_vec()))
}

/// The components of a path; empty ones and `.` mean nothing.
pub(crate) fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && *name != b".")
}

/// The last name of a path, if it has one.
pub(crate) fn basename(path: &[u8]) -> Option<&[u8]> {
    components(path).next_back().filter(|name| *name != b"..")
}

/// `dir/name`.
pub(crate) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = dir.to_vec();
    if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
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

    /// A failure at `path` of this image.
    pub(crate) fn failed(&self, path: &[u8], error: impl Into<PathError>) -> Failure {
        let error = error.into();
        let failure = Failure::new(format!("{}:{}", self.image(), show(path)), &error);
        match error {
            PathError::Fs(Error::NotFound) => {
                failure.hint(format!("see what is there: ffs ls {}", self.image()))
            }
            PathError::Fs(Error::NoSpace | Error::NoInodes) => {
                failure.hint(format!("see how full it is: ffs df {}", self.image()))
            }
            PathError::Fs(Error::Format(_)) => {
                failure.hint(format!("check it: ffs fsck -n {}", self.image()))
            }
            PathError::Fs(Error::NotPermitted) => {
                failure.hint("a file flag such as schg forbids it (ffs ls -lo shows them)")
            }
            _ => failure,
        }
    }
}

/// Splits arguments that must all be in one image.
pub(crate) fn one_image(
    args: &[impl AsRef<OsStr>],
) -> Result<(std::ffi::OsString, Vec<Vec<u8>>), Failure> {
    let mut image = None;
    let mut paths = Vec::new();
    for arg in args {
        let ImagePath { image: this, path } = crate::spec::image_path(arg.as_ref())?;
        let first = image.get_or_insert_with(|| this.clone());
        if *first != this {
            let (first, this) = (first.display(), this.display());
            return Err(Failure::usage(format!(
                "{first} and {this} are different images; use `ffs cp -a` from one to the other"
            )));
        }
        paths.push(path);
    }
    Ok((image.unwrap_or_default(), paths))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_fall_into_names() {
        let names: Vec<&[u8]> = components(b"//a/./b//../c/").collect();
        assert_eq!(names, [&b"a"[..], b"b", b"..", b"c"]);
        assert_eq!(basename(b"/a/b/"), Some(&b"b"[..]));
        assert_eq!(basename(b"/"), None);
        assert_eq!(basename(b"a/.."), None);
        assert_eq!(join(b"", b"x"), b"x");
        assert_eq!(join(b"/", b"x"), b"/x");
        assert_eq!(join(b"a", b"x"), b"a/x");
    }
}
