//! A walk over a tree of an image, for commands that look at every file.
//!
//! # Invariants
//! 1. A directory is entered once, also if a damaged image has a second name for it. A walk that
//!    follows symbolic links enters it once on a path from the root of the walk, so that it ends.
//! 2. What cannot be read is reported, and the walk continues.
//! 3. The names of a directory are visited in the order of their bytes.

use std::collections::BTreeSet;

use bsdffs::namei::namei_from;
use bsdffs::sorted_entries;
use ffs_core::{Attr, Error, FileType, Ino, Vnode};

use crate::fail::{Failure, show};
use crate::namei::{Last, PathError, join};
use crate::output;
use crate::session::Session;
use crate::signals;

/// A file of the tree.
pub(crate) struct Visit<'a> {
    /// Its path.
    pub path: &'a [u8],
    /// The file.
    pub file: &'a Vnode,
    /// Its attributes.
    pub attr: &'a Attr,
    /// 0 for the root of the walk.
    pub depth: usize,
}

/// A moment of the walk.
pub(crate) enum Step<'a> {
    /// A file, or a directory before its entries.
    Before(Visit<'a>),
    /// A directory after its entries, if it was entered.
    After(Visit<'a>),
}

/// What follows a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// The entries of the directory. For another file, or after the entries, the same as `Skip`.
    Enter,
    /// What follows the file and everything below it.
    Skip,
    /// Nothing; the walk ends.
    Stop,
}

/// A directory that is being walked.
struct Frame {
    path: Vec<u8>,
    dir: Vnode,
    attr: Attr,
    /// Names to visit, the next one last.
    todo: Vec<(Vec<u8>, Ino)>,
}

/// Walks the tree of `root`, which is at `path`.
///
/// # Errors
/// `step` failed, or a signal arrived.
pub(crate) fn walk(
    session: &Session,
    path: &[u8],
    root: Vnode,
    step: &mut dyn FnMut(Step<'_>) -> Result<Next, Failure>,
) -> Result<(), Failure> {
    walk_with(session, path, root, false, step)
}

/// Walks the same tree. If `follow` is set, the file that a symbolic link leads to takes the place
/// of the link; a link that leads to nothing stays.
///
/// # Errors
/// Those of [`walk`].
pub(crate) fn walk_with(
    session: &Session,
    path: &[u8],
    root: Vnode,
    follow: bool,
    step: &mut dyn FnMut(Step<'_>) -> Result<Next, Failure>,
) -> Result<(), Failure> {
    let mut walk = Walk { session, follow, entered: BTreeSet::new(), stack: Vec::new() };
    walk.file(path.to_vec(), root, step)?;
    while let Some(frame) = walk.stack.last_mut() {
        signals::check()?;
        let Some((name, ino)) = frame.todo.pop() else {
            if let Some(Frame { path, dir, attr, .. }) = walk.stack.pop() {
                let depth = walk.stack.len();
                let visit = Visit { path: &path, file: &dir, attr: &attr, depth };
                if step(Step::After(visit))? == Next::Stop {
                    break;
                }
            }
            continue;
        };
        let path = join(&frame.path, &name);
        let found = session.ffs.vget(ino, None).map_err(|error| session.failed(&path, error));
        let found = found.and_then(|file| match follow {
            true => behind(session, &path, file, &frame.dir, &name),
            false => Ok(file),
        });
        match found {
            Ok(file) => walk.file(path, file, step)?,
            Err(failure) => output::error(failure.text),
        }
    }
    Ok(())
}

/// The file that `file` leads to, which is `name` in `dir`: itself, unless it is a symbolic link to
/// another.
fn behind(
    session: &Session,
    path: &[u8],
    file: Vnode,
    dir: &Vnode,
    name: &[u8],
) -> Result<Vnode, Failure> {
    if session.ffs.getattr(&file).kind != FileType::Symlink {
        return Ok(file);
    }
    match namei_from(&session.ffs, &session.cred, dir.clone(), name, Last::Follow) {
        Err(PathError::Fs(Error::NotFound | Error::NotDirectory)) => Ok(file),
        found => found.map_err(|error| session.failed(path, error)),
    }
}

struct Walk<'a> {
    session: &'a Session,
    /// Symbolic links are followed.
    follow: bool,
    entered: BTreeSet<Ino>,
    stack: Vec<Frame>,
}

impl Walk<'_> {
    /// Visits one file. If it is a directory that is to be entered, its names come next.
    fn file(
        &mut self,
        path: Vec<u8>,
        file: Vnode,
        step: &mut dyn FnMut(Step<'_>) -> Result<Next, Failure>,
    ) -> Result<(), Failure> {
        let attr = self.session.ffs.getattr(&file);
        let depth = self.stack.len();
        if self.follow && attr.kind == FileType::Directory {
            let above = self.stack.iter().find(|frame| frame.attr.ino == attr.ino);
            if let Some(above) = above {
                let what = format!("{}:{}", self.session.image(), show(&path));
                let above = show(&above.path);
                let why = format!("a loop: it leads to {above}, which it is in");
                output::error(Failure::new(what, why).text);
                return Ok(());
            }
        }
        match step(Step::Before(Visit { path: &path, file: &file, attr: &attr, depth }))? {
            Next::Enter if attr.kind == FileType::Directory => {}
            Next::Enter | Next::Skip => return Ok(()),
            Next::Stop => {
                self.stack.clear();
                return Ok(());
            }
        }
        if !self.follow && !self.entered.insert(attr.ino) {
            let what = format!("{}:{}", self.session.image(), show(&path));
            let why = "a second name of a directory; the image is damaged";
            output::error(Failure::new(what, why).text);
            return Ok(());
        }
        let (mut todo, error) = sorted_entries(&self.session.ffs, &file);
        if let Some(error) = error {
            output::error(self.session.failed(&path, error).text);
        }
        todo.reverse();
        self.stack.push(Frame { path, dir: file, attr, todo });
        Ok(())
    }
}
