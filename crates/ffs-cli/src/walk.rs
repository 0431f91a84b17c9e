//! A walk over a tree of an image, for commands that look at every file.
//!
//! # Invariants
//! 1. A directory is entered once, also if a damaged image has a second name for it.
//! 2. What cannot be read is reported, and the walk continues.
//! 3. The names of a directory are visited in the order of their bytes.

use std::collections::BTreeSet;

use bsdffs::sorted_entries;
use ffs_core::{Attr, FileType, Ino, Vnode};

use crate::fail::{Failure, show};
use crate::namei::join;
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
    let mut walk = Walk { session, entered: BTreeSet::new(), stack: Vec::new() };
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
        match session.ffs.vget(ino, None) {
            Ok(file) => walk.file(path, file, step)?,
            Err(error) => output::error(session.failed(&path, error).text),
        }
    }
    Ok(())
}

struct Walk<'a> {
    session: &'a Session,
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
        match step(Step::Before(Visit { path: &path, file: &file, attr: &attr, depth }))? {
            Next::Enter if attr.kind == FileType::Directory => {}
            Next::Enter | Next::Skip => return Ok(()),
            Next::Stop => {
                self.stack.clear();
                return Ok(());
            }
        }
        if !self.entered.insert(attr.ino) {
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
