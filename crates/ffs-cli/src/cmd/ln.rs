//! `ffs ln`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use ffs_core::{Error, FileType};

use super::{Doc, EXIT};
use crate::fail::{Failure, Outcome, show};
use crate::namei::{Last, basename, join, namei, one_image};
use crate::session::Session;
use crate::spec::image_path;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs ln disk.img:/a disk.img:/b", "another name of the same file"),
        ("ffs ln -s ../lib/libc.so.7 disk.img:/usr/lib/libc.so", "a symbolic link with this text"),
    ],
    exit: EXIT,
    see_also: &["ffs-cp(1)", "ffs-mv(1)"],
    section: "1",
    usage_code: 1,
};

/// Make links in an image.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The file in the image; with -s the text of the link, which is not checked
    #[arg(value_name = "TARGET")]
    target: OsString,
    /// The new name, IMAGE[@N]:/path
    #[arg(value_name = "IMAGE:/PATH")]
    link: OsString,
    /// A symbolic link
    #[arg(short)]
    symbolic: bool,
    /// Replace an existing file of this name
    #[arg(short)]
    force: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let link = image_path(&args.link)?;
    let (target, text) = if args.symbolic {
        (None, args.target.as_bytes().to_vec())
    } else {
        let (_, paths) = one_image(&[&args.target, &args.link])?;
        (paths.first().cloned(), Vec::new())
    };
    let session = Session::write(&link.image)?;
    let result = make(&session, target.as_deref(), &text, link.path, args.force);
    session.finish_with(result)?;
    Ok(0)
}

/// A link at `link`: to the file `target`, or symbolic with `text`.
fn make(
    session: &Session,
    target: Option<&[u8]>,
    text: &[u8],
    mut link: Vec<u8>,
    force: bool,
) -> Result<(), Failure> {
    let (ffs, cred) = (&session.ffs, &session.cred);
    let file = match target {
        Some(target) => Some(session.find(target, Last::Keep)?),
        None => None,
    };
    if let Ok(dir) = namei(ffs, cred, &link, Last::Follow)
        && ffs.getattr(&dir).kind == FileType::Directory
        && let Some(name) = basename(target.unwrap_or(text))
    {
        link = join(&link, name);
    }
    if file.as_ref().is_some_and(|file| ffs.getattr(file).kind == FileType::Directory) {
        let place = format!("{}:{}", session.image(), show(target.unwrap_or_default()));
        return Err(Failure::new(place, "is a directory and can have one name only")
            .hint("-s makes a symbolic link to it"));
    }
    let (dir, name) = session.find_parent(&link)?;
    let failed = |error| session.failed(&link, error);
    if force {
        match ffs.unlink(cred, &dir, &name) {
            Ok(()) | Err(Error::NotFound) => {}
            Err(error) => return Err(failed(error)),
        }
    }
    match &file {
        Some(file) => ffs.link(cred, file, &dir, &name).map_err(failed),
        None => ffs.symlink(cred, &dir, &name, text).map(drop).map_err(failed),
    }
}
