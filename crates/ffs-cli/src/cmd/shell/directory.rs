//! Changing the current directory.

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;

use ffs_core::{Error, FileType, Vnode};

use crate::current;
use crate::fail::Failure;
use crate::namei::{Last, components, join};
use crate::session::Session;
use crate::session::snapshot::AtEnd;
use crate::spec::ImagePath;

/// Changes the current directory to `place`, which may be in a snapshot.
///
/// # Errors
/// `place` is no directory of the current image.
pub(super) fn change(place: &ImagePath) -> Result<(), Failure> {
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
    current::set_directory(snapshot, dir);
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
            done = current::above(&done).to_vec();
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
