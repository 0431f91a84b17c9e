//! `ffs mv`.

use std::ffi::OsString;

use ffs_core::{Error, FileType, RenameMode};

use super::{Doc, EXIT};
use crate::changes::{Changes, Detail};
use crate::fail::{Failure, Outcome, show};
use crate::namei::{Last, basename, join, namei, names_in_one_image};
use crate::output;
use crate::session::Session;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs mv disk.img:/a disk.img:/b", "a new name"),
        ("ffs mv disk.img:/a disk.img:/b disk.img:/dir", "into a directory"),
    ],
    exit: EXIT,
    see_also: &["ffs-cp(1)", "ffs-ln(1)", "ffs-rm(1)"],
    section: "1",
    usage_code: 64,
};

/// Rename or move files within an image.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Files to move, then the target; all in one image
    #[arg(required = true, num_args = 2.., value_name = "IMAGE:/PATH")]
    paths: Vec<OsString>,
    /// Do not replace existing files
    #[arg(short = 'n', overrides_with = "force")]
    no_clobber: bool,
    /// Replace existing files (always so)
    #[arg(short = 'f', hide = true, overrides_with = "no_clobber")]
    force: bool,
    /// Treat the target as the new name, even if it is a directory
    #[arg(short = 'T')]
    no_target_directory: bool,
    /// Print the old and the new name of each file
    #[arg(short = 'v', long)]
    verbose: bool,
    /// Print JSON, one object a line: each file before and after
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let (image, mut paths) = names_in_one_image(&args.paths)?;
    let target = paths.pop().unwrap_or_default();
    let session = Session::write(&image)?;
    let into = match namei(&session.ffs, &session.cred, &target, Last::Follow) {
        Ok(file) => {
            session.ffs.getattr(&file).kind == FileType::Directory && !args.no_target_directory
        }
        Err(_) => false,
    };
    if paths.len() > 1 && !into {
        return Err(session.failed(&target, Error::NotDirectory));
    }
    let mut changes = Changes::new(args.json, args.verbose);
    let done = paths
        .iter()
        .try_for_each(|path| {
            output::report(rename(&session, path, &target, into, &args, &mut changes))
        })
        .and_then(|()| changes.flush());
    session.finish_with(done)?;
    Ok(u8::from(output::errors() > 0))
}

fn rename(
    session: &Session,
    path: &[u8],
    target: &[u8],
    into: bool,
    args: &Args,
    changes: &mut Changes,
) -> Result<(), Failure> {
    let (from, old) = session.find_parent(path)?;
    let to = match basename(path).filter(|_| into) {
        Some(name) => join(target, name),
        None => target.to_vec(),
    };
    let before = session.attr_of(path, Last::Keep);
    let (dir, new) = session.find_parent_of_new(&to)?;
    if to.ends_with(b"/") && before.is_some_and(|file| file.kind != FileType::Directory) {
        return Err(session.no_directory(&to));
    }
    let mode = if args.no_clobber { RenameMode::NoReplace } else { RenameMode::Replace };
    let replaced = session.attr_of(&to, Last::Keep);
    let same = before.zip(replaced).is_some_and(|(file, replaced)| file.ino == replaced.ino);
    match session.ffs.rename(&session.cred, (&from, &old), (&dir, &new), mode) {
        // rename(2) does nothing between two names of one file.
        Ok(()) if same => Ok(()),
        Ok(()) => {
            changes.line(|| format!("{} -> {}", show(path), show(&to)))?;
            let after = session.attr_of(&to, Last::Keep);
            changes.detailed(path, before.as_ref(), after.as_ref(), Some(Detail::to(&to)))
        }
        Err(Error::Exists) if args.no_clobber => Ok(()),
        Err(error @ Error::NotFound) => Err(session.failed(path, error)),
        Err(error) => Err(session.failed(&to, error)),
    }
}
