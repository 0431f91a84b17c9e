//! The common part of chmod, chown and chflags: the walk over the files, and the messages.

use std::collections::BTreeSet;
use std::ffi::OsString;

use bsdffs::sorted_entries;
use ffs_core::{Attr, Error, FileType, Ino, Vnode};

use crate::fail::{Failure, Outcome, show};
use crate::namei::{Last, join, one_image};
use crate::session::Session;
use crate::{output, signals};

/// The files to change.
#[derive(clap::Args)]
pub(crate) struct Which {
    /// IMAGE[@N]:/path, all in one image
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    /// Change directories and all files below them
    #[arg(short = 'R')]
    recursive: bool,
    /// Change symbolic links, not the files that they lead to
    #[arg(short = 'h')]
    no_follow: bool,
    /// Print the name of each changed file, with the old and the new value
    #[arg(short = 'v')]
    verbose: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

/// The treatment of symbolic links in trees, without `-h`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// They are not changed.
    Skip,
    /// They are changed themselves.
    Change,
}

/// Changes one file; returns the old and the new value, or `None` if they are equal.
pub(crate) type Change<'a> =
    dyn FnMut(&Session, &Vnode, &Attr) -> Result<Option<(String, String)>, Error> + 'a;

impl Which {
    /// Applies the change that `prepare` returns to each of the files.
    pub(crate) fn run<'a>(
        &self,
        links: Links,
        prepare: impl FnOnce(&Session) -> Result<Box<Change<'a>>, Failure>,
    ) -> Outcome {
        let (image, paths) = one_image(&self.paths)?;
        let session = Session::write(&image)?;
        let result = prepare(&session).and_then(|mut change| {
            let mut walk = Walk { session: &session, which: self, links, change: &mut *change };
            paths.iter().try_for_each(|path| walk.tree(path))
        });
        session.finish_with(result)?;
        Ok(u8::from(output::errors() > 0))
    }
}

struct Walk<'a, 'b> {
    session: &'a Session,
    which: &'a Which,
    links: Links,
    change: &'a mut Change<'b>,
}

/// The names of a directory that are not visited yet, the next one last.
struct Frame {
    path: Vec<u8>,
    todo: Vec<(Vec<u8>, Ino)>,
}

impl Walk<'_, '_> {
    /// Changes the file at `path`, with `-R` the tree; fails only if it is interrupted.
    fn tree(&mut self, path: &[u8]) -> Result<(), Failure> {
        let itself = self.which.no_follow || self.which.recursive && self.links == Links::Change;
        let last = if itself { Last::Keep } else { Last::Follow };
        let root = match self.session.find(path, last) {
            Ok(root) => root,
            Err(failure) => {
                output::error(failure.text);
                return Ok(());
            }
        };
        let mut walked = BTreeSet::new();
        let mut stack = Vec::new();
        stack.extend(self.file(&root, path.to_vec(), &mut walked));
        while let Some(frame) = stack.last_mut() {
            signals::check()?;
            let Some((name, ino)) = frame.todo.pop() else {
                stack.pop();
                continue;
            };
            let path = join(&frame.path, &name);
            match self.session.ffs.vget(ino, None) {
                Ok(file) => {
                    let link = self.session.ffs.getattr(&file).kind == FileType::Symlink;
                    if !link || self.which.no_follow || self.links == Links::Change {
                        stack.extend(self.file(&file, path, &mut walked));
                    }
                }
                Err(error) => output::error(self.session.failed(&path, error).text),
            }
        }
        Ok(())
    }

    /// Changes one file. Returns the names of a directory if they are visited next.
    fn file(&mut self, file: &Vnode, path: Vec<u8>, walked: &mut BTreeSet<Ino>) -> Option<Frame> {
        let attr = self.session.ffs.getattr(file);
        match (self.change)(self.session, file, &attr) {
            Ok(Some((old, new))) if self.which.verbose => {
                output::note(format!("{}: {old} -> {new}", show(&path)));
            }
            Ok(_) => {}
            Err(error) => output::error(self.session.failed(&path, error).text),
        }
        if attr.kind != FileType::Directory || !self.which.recursive {
            return None;
        }
        if !walked.insert(attr.ino) {
            let what = format!("{}:{}", self.session.image(), show(&path));
            let why = "a second name of a directory; the image is damaged";
            output::error(Failure::new(what, why).text);
            return None;
        }
        let (mut todo, error) = sorted_entries(&self.session.ffs, file);
        if let Some(error) = error {
            output::error(self.session.failed(&path, error).text);
        }
        todo.reverse();
        Some(Frame { path, todo })
    }
}
