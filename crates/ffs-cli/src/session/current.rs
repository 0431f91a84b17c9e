//! The image that `ffs shell` holds open, and the current directory in it.
//!
//! # Invariants
//! 1. Without a shell there is no current image, and no function here changes what a command does.
//! 2. With a shell each argument that a command takes for a path in an image is in the current
//!    image: an absolute path, a path from the current directory, or an inode number (`#1234`). The
//!    empty argument is the current directory.
//! 3. The current image is opened and mounted once. Sessions on it share the mount, and only the
//!    shell unmounts.
//! 4. The path of the current directory has no symbolic link, so `..` at the beginning of a path
//!    removes its last name.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{self, Path};
use std::sync::Arc;

use bsdffs::namei::components;
use ffs_core::{Error, Ffs, FileType, Vnode};
use ffs_image::{Opened, is_uri};

use super::Session;
use super::snapshot::AtEnd;
use crate::fail::{Failure, show};
use crate::namei::{Last, join};
use crate::spec::ImagePath;

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
}

struct Current {
    /// The image as the shell opened it.
    session: Session,
    image: OsString,
    writable: bool,
    /// The snapshot of the current directory with a colon, `/.snap/NAME:`, or nothing.
    snapshot: Vec<u8>,
    /// The current directory in the volume or in the snapshot.
    dir: Vec<u8>,
}

fn with<T>(get: impl FnOnce(&mut Current) -> T) -> Option<T> {
    CURRENT.with_borrow_mut(|current| current.as_mut().map(get))
}

/// Makes the image of `session`, which is called `image`, the current one, and its root the current
/// directory.
pub(crate) fn hold(session: Session, image: OsString, writable: bool) {
    let (snapshot, dir) = (Vec::new(), b"/".to_vec());
    CURRENT.set(Some(Current { session, image, writable, snapshot, dir }));
}

/// Takes the session back. No image is the current one afterwards.
pub(crate) fn release() -> Option<Session> {
    CURRENT.take().map(|current| current.session)
}

/// A session on `image` if that is the current one.
///
/// # Errors
/// It is to be changed, and the shell opened it to be read.
pub(super) fn session(image: &OsStr, write: bool) -> Option<Result<Session, Failure>> {
    let of = |current: &mut Current| {
        let own = current.own(image, write)?;
        Some(own.map(|session| Session {
            ffs: session.ffs.clone(),
            cred: session.cred.clone(),
            image: show(image.as_bytes()),
            device: Arc::clone(&session.device),
            opened: session.opened.clone(),
            mounted: false,
        }))
    };
    with(of).flatten()
}

/// The open image if `image` is the current one. What commands have changed is on its device.
///
/// # Errors
/// It is to be changed, and the shell opened it to be read; or the changes cannot be written.
pub(super) fn opened(image: &OsStr, write: bool) -> Option<Result<Opened, Failure>> {
    let of = |current: &mut Current| {
        let session = match current.own(image, write)? {
            Ok(session) => session,
            Err(failure) => return Some(Err(failure)),
        };
        let opened = session.opened.clone()?;
        let synced = session.ffs.sync();
        Some(synced.map(|()| opened).map_err(|error| Failure::new(&session.image, error)))
    };
    with(of).flatten()
}

impl Current {
    /// The session if `image` is this image.
    fn own(&self, image: &OsStr, write: bool) -> Option<Result<&Session, Failure>> {
        if image != self.image {
            return None;
        }
        if write && !self.writable {
            let failure = Failure::new(&self.session.image, "opened to be read");
            return Some(Err(failure.hint("to change it, start the shell with -w")));
        }
        Some(Ok(&self.session))
    }

    /// `arg` as a path of the image.
    fn path(&self, arg: &[u8]) -> Vec<u8> {
        if arg.starts_with(b"/") || arg.starts_with(b"#") {
            return arg.to_vec();
        }
        let (mut dir, mut rest) = (&self.dir[..], arg);
        loop {
            let (name, after) = match rest.iter().position(|&byte| byte == b'/') {
                Some(slash) => rest.split_at(slash),
                None => (rest, &b""[..]),
            };
            let next = &after[after.iter().take_while(|&&byte| byte == b'/').count()..];
            match name {
                b"." if !next.is_empty() => {}
                b".." => dir = above(dir),
                _ => break,
            }
            rest = next;
        }
        let mut path = self.snapshot.clone();
        match rest {
            b"" => path.extend_from_slice(dir),
            _ => path.extend_from_slice(&join(dir, rest)),
        }
        path
    }
}

/// The directory above `dir`, which has no symbolic link.
fn above(dir: &[u8]) -> &[u8] {
    match dir.iter().rposition(|&byte| byte == b'/') {
        Some(slash) if slash > 0 => &dir[..slash],
        _ => b"/",
    }
}

/// `arg` as a place in the current image; `None` without a shell.
pub(crate) fn inside(arg: &OsStr) -> Option<ImagePath> {
    with(|current| ImagePath { image: current.image.clone(), path: current.path(arg.as_bytes()) })
}

/// The current image; without a shell `arg`, which names an image.
pub(crate) fn image(arg: &OsStr) -> OsString {
    with(|current| current.image.clone()).unwrap_or_else(|| arg.to_owned())
}

/// Fails if `image` is the current one and was opened to be read.
///
/// # Errors
/// That.
pub(crate) fn check_may_change(image: &OsStr) -> Result<(), Failure> {
    match with(|current| current.own(image, true).map(|own| own.map(|_| ()))).flatten() {
        Some(Err(failure)) => Err(failure),
        _ => Ok(()),
    }
}

/// The current directory as a path of the image.
pub(crate) fn directory() -> Vec<u8> {
    with(|current| current.path(b"")).unwrap_or_default()
}

/// The mounted volume of the shell.
pub(crate) fn volume() -> Option<Ffs> {
    with(|current| current.session.ffs.clone())
}

/// Changes the current directory to `place`, which may be in a snapshot.
///
/// # Errors
/// `place` is no directory of the current image.
pub(crate) fn change_directory(place: &ImagePath) -> Result<(), Failure> {
    let (session, inner) = Session::read_at(place, AtEnd::Root)?;
    let file = session.find(&inner.path, Last::Follow)?;
    if session.ffs.getattr(&file).kind != FileType::Directory {
        return Err(session.failed(&inner.path, Error::NotDirectory));
    }
    let dir = physical(&session, &inner.path, &file)?;
    // A snapshot is called IMAGE:/.snap/NAME.
    let snapshot = inner.image.as_bytes().get(place.image.len() + 1..).unwrap_or_default();
    let colon: &[u8] = if snapshot.is_empty() { b"" } else { b":" };
    let snapshot = [snapshot, colon].concat();
    session.finish()?;
    with(|current| (current.snapshot, current.dir) = (snapshot, dir));
    Ok(())
}

/// The path of the directory `dir` at `path` without symbolic links and dots.
fn physical(session: &Session, path: &[u8], dir: &Vnode) -> Result<Vec<u8>, Failure> {
    if path.starts_with(b"#") {
        return by_parents(session, path, dir);
    }
    // The path that is done, and the components that remain, the next one last.
    let mut done = b"/".to_vec();
    let mut todo: Vec<Vec<u8>> = components(path).rev().map(<[u8]>::to_vec).collect();
    // namei has followed the links of this path, and would have refused too many of them.
    while let Some(name) = todo.pop() {
        if name == b".." {
            done = above(&done).to_vec();
            continue;
        }
        let next = join(&done, &name);
        let file = session.find(&next, Last::Keep)?;
        if session.ffs.getattr(&file).kind != FileType::Symlink {
            done = next;
            continue;
        }
        let text = session.ffs.readlink(&file).map_err(|error| session.failed(&next, error))?;
        if text.starts_with(b"/") {
            done = b"/".to_vec();
        }
        todo.extend(components(&text).rev().map(<[u8]>::to_vec));
    }
    Ok(done)
}

/// The path of `dir`, which `path` names by its number: by the names in the directories above it.
fn by_parents(session: &Session, path: &[u8], dir: &Vnode) -> Result<Vec<u8>, Failure> {
    let (ffs, failed) = (&session.ffs, |error| session.failed(path, error));
    let root = ffs.getattr(&ffs.root().map_err(failed)?).ino;
    let (mut at, mut names, mut seen) = (dir.clone(), Vec::new(), BTreeSet::new());
    loop {
        let ino = ffs.getattr(&at).ino;
        if ino == root {
            let mut path = b"/".to_vec();
            names.iter().rev().for_each(|name: &Vec<u8>| path = join(&path, name));
            return Ok(path);
        }
        if !seen.insert(ino) {
            return Err(failed(Error::Invalid("the directories above it form a circle")));
        }
        at = ffs.lookup(&session.cred, &at, b"..").map_err(failed)?;
        let (entries, error) = bsdffs::sorted_entries(ffs, &at);
        match (entries.into_iter().find(|(_, other)| *other == ino), error) {
            (Some((name, _)), _) => names.push(name),
            (None, Some(error)) => return Err(failed(error)),
            (None, None) => return Err(failed(Error::NotFound)),
        }
    }
}

/// Makes the name of the current image independent of the working directory of the process.
///
/// # Errors
/// The working directory has no path.
pub(crate) fn make_name_absolute() -> Result<(), Failure> {
    let Some(image) = with(|current| current.image.clone()).filter(|image| !is_uri(image)) else {
        return Ok(());
    };
    let absolute = path::absolute(&image).map_err(|e| Failure::host(Path::new(&image), &e))?;
    with(|current| {
        current.image = absolute.into_os_string();
        current.session.image = show(current.image.as_bytes());
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use ffs_core::{Env, MountOptions};
    use ffs_ondisk::{Endian, Format};

    #[test]
    fn arguments_are_paths_from_the_current_directory() {
        let image = ffs_admin::newfs::quick(Endian::Little, Format::Ufs2, 16384, 2048, 8 << 20);
        let options = MountOptions { read_only: true, ..super::super::offline() };
        let device = Arc::new(image.unwrap());
        let session = Session::mount("a.img".into(), device, &options, Env::system()).unwrap();
        assert_eq!(inside(OsStr::new("x")), None);
        hold(session, "a.img".into(), false);
        with(|current| current.dir = b"/usr/local".to_vec());
        let path = |arg: &str| String::from_utf8(inside(OsStr::new(arg)).unwrap().path).unwrap();
        for (arg, expected) in [
            ("", "/usr/local"),
            ("etc", "/usr/local/etc"),
            ("etc/", "/usr/local/etc/"),
            ("./etc//rc", "/usr/local/etc//rc"),
            (".", "/usr/local/."),
            ("etc/../x", "/usr/local/etc/../x"),
            ("..", "/usr"),
            ("../", "/usr"),
            ("../..//bin", "/bin"),
            ("../../../../bin", "/bin"),
            ("...", "/usr/local/..."),
            ("..x", "/usr/local/..x"),
            ("/etc", "/etc"),
            ("#12", "#12"),
            ("./#12", "/usr/local/#12"),
            ("a b:/c", "/usr/local/a b:/c"),
        ] {
            assert_eq!(path(arg), expected, "{arg}");
        }
        with(|current| current.snapshot = b"/.snap/monday:".to_vec());
        assert_eq!(path("../../../etc"), "/.snap/monday:/etc");
        assert_eq!(path("/etc"), "/etc");
        assert!(check_may_change(OsStr::new("a.img")).is_err());
        assert!(check_may_change(OsStr::new("b.img")).is_ok());
        drop(release());
        assert_eq!(inside(OsStr::new("x")), None);
    }
}
