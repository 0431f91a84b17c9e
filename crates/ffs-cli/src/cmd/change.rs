//! The common part of chmod, chown, chflags and setfacl: the options and the messages.

use std::ffi::OsString;

use ffs_core::{Attr, Error, FileType, Vnode};

use crate::changes::{Changes, Detail};
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
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Print JSON, one object a line: each file before and after
    #[arg(long)]
    json: bool,
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

/// How a command changes files.
struct How<'a> {
    links: Links,
    /// The values are access lists, which are no attributes.
    lists: bool,
    change: Box<Change<'a>>,
    changes: Changes,
}

/// Reads the value that precedes the files, and refuses one that is a file in an image.
///
/// # Errors
/// `parse` fails, or the value is IMAGE:/path.
pub(crate) fn first<T>(
    text: &str,
    form: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, String> {
    match text.contains(":/") || text.contains(":#") {
        true => Err(format!("the new value comes first; write: ffs {form} {text}")),
        false => parse(text),
    }
}

impl Which {
    /// Applies the change that `prepare` returns to each of the files.
    pub(crate) fn run<'a>(
        &self,
        links: Links,
        prepare: impl FnOnce(&Session) -> Result<Box<Change<'a>>, Failure>,
    ) -> Outcome {
        self.run_on(links, false, prepare)
    }

    /// Applies the change of access lists that `prepare` returns to each of the files.
    pub(crate) fn run_on_lists<'a>(
        &self,
        prepare: impl FnOnce(&Session) -> Result<Box<Change<'a>>, Failure>,
    ) -> Outcome {
        self.run_on(Links::Skip, true, prepare)
    }

    fn run_on<'a>(
        &self,
        links: Links,
        lists: bool,
        prepare: impl FnOnce(&Session) -> Result<Box<Change<'a>>, Failure>,
    ) -> Outcome {
        let (image, paths) = one_image(&self.paths)?;
        let session = Session::write(&image).map_err(|failure| self.in_order(failure))?;
        let result = prepare(&session).and_then(|change| {
            let mut how =
                How { links, lists, change, changes: Changes::new(self.json, self.verbose) };
            paths.iter().try_for_each(|path| self.change(&session, path, &mut how))?;
            how.changes.flush()
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

    /// Changes the file at `path`, with `-R` the tree; fails only if it is interrupted, or if
    /// standard output cannot be written.
    fn change(&self, session: &Session, path: &[u8], how: &mut How<'_>) -> Result<(), Failure> {
        let itself = self.no_follow || self.recursive && how.links == Links::Change;
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
            let skipped = depth > 0 && how.links == Links::Skip && !self.no_follow;
            if skipped && attr.kind == FileType::Symlink {
                return Ok(Next::Skip);
            }
            match (how.change)(session, file, attr) {
                Ok(values) => {
                    if let Some((old, new)) = &values {
                        how.changes.line(|| format!("{}: {old} -> {new}", show(path)))?;
                    }
                    let values = values.filter(|_| how.lists);
                    let detail = values.map(|(before, after)| Detail::Acl { before, after });
                    let after = session.ffs.getattr(file);
                    how.changes.detailed(path, Some(attr), Some(&after), detail)?;
                }
                Err(error) => output::error(session.failed(path, error).text),
            }
            Ok(if self.recursive { Next::Enter } else { Next::Skip })
        })
    }
}
