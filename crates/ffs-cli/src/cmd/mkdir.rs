//! `ffs mkdir`.

use std::ffi::OsString;

use ffs_core::{Error, FileType, SetAttr};

use super::{Doc, EXIT};
use crate::bsd;
use crate::changes::Changes;
use crate::fail::{Failure, Outcome, show};
use crate::namei::{Last, PathError, is_number, namei, names_in_one_image, prefixes};
use crate::output;
use crate::session::Session;
use crate::umask::umask;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs mkdir disk.img:/data", "a directory"),
        ("ffs mkdir -p -m 700 disk.img:/root/.ssh", "with its parents, only for its owner"),
    ],
    exit: EXIT,
    see_also: &["ffs-rm(1)", "ffs-cp(1)"],
    section: "1",
    usage_code: 64,
};

/// Make directories in an image.
///
/// New directories belong to root and to the group of their parent directory, as on BSD. Without -m
/// the mode follows from the umask, or from the default access list of the parent directory.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// IMAGE[@N]:/path, all in one image
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    /// Make missing parent directories, too; existing directories are no error
    #[arg(short)]
    parents: bool,
    /// Permissions, octal
    #[arg(short, value_name = "MODE", value_parser = bsd::mode)]
    mode: Option<u16>,
    /// Print the name of each directory that is made
    #[arg(short, long)]
    verbose: bool,
    /// Print JSON, one object a line: each file before and after
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let (image, paths) = names_in_one_image(&args.paths)?;
    let session = Session::write(&image)?;
    let mut changes = Changes::new(args.json, args.verbose);
    let done = paths
        .iter()
        .try_for_each(|path| output::report(make(&session, path, &args, &mut changes)))
        .and_then(|()| changes.flush());
    session.finish_with(done)?;
    Ok(u8::from(output::errors() > 0))
}

fn make(session: &Session, path: &[u8], args: &Args, changes: &mut Changes) -> Result<(), Failure> {
    if !args.parents {
        return one(session, path, args.mode, changes);
    }
    let mut prefixes = prefixes(path).peekable();
    while let Some(so_far) = prefixes.next() {
        let last = prefixes.peek().is_none();
        match namei(&session.ffs, &session.cred, &so_far, Last::Follow) {
            Ok(file) if session.ffs.getattr(&file).kind == FileType::Directory => {}
            Ok(_) => return Err(session.failed(&so_far, Error::NotDirectory)),
            Err(PathError::Fs(Error::NotFound)) if !is_number(&so_far) => {
                one(session, &so_far, args.mode.filter(|_| last), changes)?;
            }
            Err(error) => return Err(session.failed(&so_far, error)),
        }
    }
    Ok(())
}

fn one(
    session: &Session,
    path: &[u8],
    mode: Option<u16>,
    changes: &mut Changes,
) -> Result<(), Failure> {
    let (dir, name) = session.find_parent_of_new(path)?;
    let failed = |error| session.failed(path, error);
    // A default access list of the directory takes the place of the umask.
    let listed = session.ffs.acls() && session.ffs.default_acl(&dir).map_err(failed)?.is_some();
    let perm = mode.unwrap_or(if listed { 0o777 } else { 0o777 & !umask() });
    let made = session.ffs.mkdir(&session.cred, &dir, &name, perm).map_err(failed)?;
    if let Some(perm) = mode {
        let set = SetAttr { perm: Some(perm), ..SetAttr::default() };
        session.ffs.setattr(&session.cred, &made, &set).map_err(failed)?;
    }
    changes.line(|| show(path))?;
    changes.file(path, None, Some(&session.ffs.getattr(&made)))
}
