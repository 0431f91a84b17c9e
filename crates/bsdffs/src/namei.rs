//! Path lookup: from a path in a volume to a file.
//!
//! # Invariants
//! 1. An absolute symbolic link leads to the root of the volume, never out of it.
//! 2. A lookup follows at most [`MAXSYMLINKS`] symbolic links, so it ends.
//!
//! Paths are bytes: UFS names may hold any byte but `/` and NUL.

use std::{fmt, io};

use ffs_core::{Cred, Error, Ffs, FileType, Vnode};

/// Symbolic links that one lookup follows, as in BSD.
pub const MAXSYMLINKS: u32 = 32;

/// What a lookup does with a symbolic link at the end of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Last {
    /// Follow it.
    Follow,
    /// Return the link itself.
    Keep,
}

/// Why a lookup failed.
#[derive(Debug)]
pub enum PathError {
    /// An operation of the file system failed.
    Fs(Error),
    /// The path holds more than [`MAXSYMLINKS`] symbolic links (`ELOOP`).
    Loop,
}

impl From<Error> for PathError {
    fn from(error: Error) -> PathError {
        PathError::Fs(error)
    }
}

impl From<PathError> for io::Error {
    fn from(error: PathError) -> io::Error {
        match error {
            PathError::Fs(error) => error.into(),
            PathError::Loop => {
                let kind = io::Error::from_raw_os_error(libc::ELOOP).kind();
                io::Error::new(kind, error)
            }
        }
    }
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathError::Fs(error) => error.fmt(f),
            PathError::Loop => f.write_str("too many levels of symbolic links"),
        }
    }
}

impl std::error::Error for PathError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PathError::Fs(error) => Some(error),
            PathError::Loop => None,
        }
    }
}

impl PathError {
    /// Whether the path names nothing.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(self, PathError::Fs(Error::NotFound))
    }
}

/// Looks up `path` from the root.
///
/// # Errors
/// [`PathError`].
pub fn namei(ffs: &Ffs, cred: &Cred, path: &[u8], last: Last) -> Result<Vnode, PathError> {
    namei_from(ffs, cred, ffs.root()?, path, last)
}

/// Looks up `path` from the directory `at`.
///
/// # Errors
/// [`PathError`].
pub fn namei_from(
    ffs: &Ffs,
    cred: &Cred,
    mut at: Vnode,
    path: &[u8],
    last: Last,
) -> Result<Vnode, PathError> {
    let mut links = 0;
    // Components that remain, the next one last.
    let mut todo: Vec<Vec<u8>> = components(path).rev().map(<[u8]>::to_vec).collect();
    // A trailing slash names a directory, so a symbolic link before it is followed.
    let directory = path.ends_with(b"/") || path.ends_with(b"/.");
    while let Some(name) = todo.pop() {
        let next = ffs.lookup(cred, &at, &name)?;
        let follow = !todo.is_empty() || directory || last == Last::Follow;
        if !follow || ffs.getattr(&next).kind != FileType::Symlink {
            at = next;
            continue;
        }
        links += 1;
        if links > MAXSYMLINKS {
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

/// Looks up the directory of `path` and returns it with the last name, which need not exist.
///
/// # Errors
/// [`PathError`]; [`Error::Invalid`] if the path ends in no name (`/`, `..`);
/// [`Error::NotDirectory`] if a slash follows the name of a file that is no directory.
pub fn parent(ffs: &Ffs, cred: &Cred, path: &[u8]) -> Result<(Vnode, Vec<u8>), PathError> {
    parent_from(ffs, cred, ffs.root()?, path)
}

/// As [`parent`], from the directory `at`.
///
/// # Errors
/// As [`parent`].
pub fn parent_from(
    ffs: &Ffs,
    cred: &Cred,
    at: Vnode,
    path: &[u8],
) -> Result<(Vnode, Vec<u8>), PathError> {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |at| at + 1);
    let start = path[..end].iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
    let name = &path[start..end];
    if name.is_empty() || name == b"." || name == b".." {
        let root = components(path).next().is_none();
        let why =
            if root { "this is the root directory" } else { "the path does not end in a name" };
        return Err(Error::Invalid(why).into());
    }
    let dir = namei_from(ffs, cred, at, &path[..start], Last::Follow)?;
    if end < path.len() {
        match ffs.lookup(cred, &dir, name) {
            Ok(file) if ffs.getattr(&file).kind == FileType::Directory => {}
            Ok(_) => return Err(Error::NotDirectory.into()),
            Err(Error::NotFound) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok((dir, name.to_vec()))
}

/// Where a file is created that `path` leads to: as [`parent`], with symbolic links at the end of
/// the path followed, also to a name that does not exist.
///
/// # Errors
/// As [`parent`]; [`Error::IsDirectory`] if the path or the text of a link ends in a slash.
pub fn target(ffs: &Ffs, cred: &Cred, path: &[u8]) -> Result<(Vnode, Vec<u8>), PathError> {
    target_from(ffs, cred, ffs.root()?, path)
}

/// As [`target`], from the directory `at`.
///
/// # Errors
/// As [`target`].
pub fn target_from(
    ffs: &Ffs,
    cred: &Cred,
    mut at: Vnode,
    path: &[u8],
) -> Result<(Vnode, Vec<u8>), PathError> {
    let mut path = path.to_vec();
    for _ in 0..=MAXSYMLINKS {
        if path.ends_with(b"/") {
            return Err(Error::IsDirectory.into());
        }
        let (dir, name) = parent_from(ffs, cred, at, &path)?;
        let found = match ffs.lookup(cred, &dir, &name) {
            Err(Error::NotFound) => return Ok((dir, name)),
            found => found?,
        };
        if ffs.getattr(&found).kind != FileType::Symlink {
            return Ok((dir, name));
        }
        path = ffs.readlink(&found)?;
        at = if path.starts_with(b"/") { ffs.root()? } else { dir };
    }
    Err(PathError::Loop)
}

/// The components of a path, without empty ones and `.`.
pub fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/').filter(|name| !name.is_empty() && *name != b".")
}

/// The last name of a path; none if it ends in `..` or is the root.
#[must_use]
pub fn basename(path: &[u8]) -> Option<&[u8]> {
    components(path).next_back().filter(|name| *name != b"..")
}

/// `dir/name`.
#[must_use]
pub fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = dir.to_vec();
    if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_split_into_names() {
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
