//! The common part of chmod, chown, chflags and setfacl: the options and the messages.

use std::ffi::OsString;

use ffs_core::{Attr, Error, FileType, Vnode};

use crate::fail::{Failure, Outcome, show};
use crate::namei::{last, one_image};
use crate::output;
use crate::session::Session;
use crate::spec::{Place, is_not_new, place};
use crate::walk::{Next, Step, Visit, walk};

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
        let session = Session::write(&image).map_err(|failure| self.in_order(failure))?;
        let result = prepare(&session).and_then(|mut change| {
            paths.iter().try_for_each(|path| self.change(&session, path, links, &mut *change))
        });
        session.finish_with(result)?;
        Ok(u8::from(output::errors() > 0))
    }

    /// Adds a hint to the failure of the first path if that cannot be an image.
    fn in_order(&self, failure: Failure) -> Failure {
        let is_image = |path: &OsString| match place(path) {
            Place::Image(_) => true,
            Place::Host(path) => is_not_new(path.as_os_str()),
        };
        match self.paths.iter().any(is_image) {
            true => failure,
            false => failure.hint("the new value comes first, and the files follow it"),
        }
    }

    /// Changes the file at `path`, with `-R` the tree; fails only if it is interrupted.
    fn change(
        &self,
        session: &Session,
        path: &[u8],
        links: Links,
        change: &mut Change<'_>,
    ) -> Result<(), Failure> {
        let itself = self.no_follow || self.recursive && links == Links::Change;
        let root = match session.find(path, last(itself)) {
            Ok(root) => root,
            Err(failure) => {
                output::error(failure.text);
                return Ok(());
            }
        };
        walk(session, path, root, &mut |step| {
            let Step::Before(Visit { path, file, attr, depth }) = step else {
                return Ok(Next::Skip);
            };
            let skipped = depth > 0 && links == Links::Skip && !self.no_follow;
            if skipped && attr.kind == FileType::Symlink {
                return Ok(Next::Skip);
            }
            match change(session, file, attr) {
                Ok(Some((old, new))) if self.verbose => {
                    output::note(format!("{}: {old} -> {new}", show(path)));
                }
                Ok(_) => {}
                Err(error) => output::error(session.failed(path, error).text),
            }
            Ok(if self.recursive { Next::Enter } else { Next::Skip })
        })
    }
}
