//! `ffs ln`.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use bsdffs::copy::create_under_temporary_name;
use ffs_core::{FileType, RenameMode, Vnode};

use super::{Doc, EXIT};
use crate::changes::Changes;
use crate::fail::{Failure, Outcome, shell_word, show};
use crate::namei::{Last, basename, join, namei, one_image};
use crate::session::Session;
use crate::spec::{Place, image_path, is_not_new, outside, place};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs ln disk.img:/a disk.img:/b", "another name of the same file"),
        ("ffs ln -s ../lib/libc.so.7 disk.img:/usr/lib/libc.so", "a symbolic link with this text"),
    ],
    exit: EXIT,
    see_also: &["ffs-cp(1)", "ffs-mv(1)"],
    section: "1",
    usage_code: 64,
};

/// Make links in an image.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
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
    /// Treat a new name that leads to a directory by a symbolic link as the name of that link
    #[arg(short = 'h', short_alias = 'n')]
    no_follow: bool,
    /// Make the link under this very name, and not in a directory of this name
    #[arg(short = 'T')]
    no_target_directory: bool,
    /// Print the name of the link, and what it leads to
    #[arg(short, long)]
    verbose: bool,
    /// Print JSON, one object a line: each file before and after
    #[arg(long)]
    json: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

pub(crate) fn run(args: Args) -> Outcome {
    check_order(&args)?;
    let link = image_path(&args.link)?;
    let (target, text) = if args.symbolic {
        (None, args.target.as_bytes().to_vec())
    } else {
        let (_, paths) = one_image(&[&args.target, &args.link])?;
        (paths.first().cloned(), Vec::new())
    };
    let session = Session::write(&link.image)?;
    let result = make(&session, target.as_deref(), &text, link.path, &args);
    session.finish_with(result)?;
    Ok(0)
}

/// Refuses a link that is not in an image after a target that is.
fn check_order(args: &Args) -> Result<(), Failure> {
    let (target, link) = match (outside(&args.target), place(&args.link)) {
        (Place::Image(target), Place::Host(link)) => (target, link),
        (Place::Image(target), Place::Image(link))
            if args.symbolic && target.image == link.image =>
        {
            let failure = Failure::usage("the text of a link is a path, without the image");
            let (text, link) = (show(&target.path), link.to_string());
            let form = format!("-s {} {}", shell_word(&text), shell_word(&link));
            return Err(failure.hint(format!("write: ffs ln {form}")));
        }
        _ => return Ok(()),
    };
    if is_not_new(&args.link) {
        return Ok(());
    }
    let (shown, link) = (show(target.shown()), show(link.as_os_str().as_bytes()));
    let (why, form) = match args.symbolic {
        true => ("the text of the link comes first", format!("-s {link} {shown}")),
        false => (
            "both names are in the image",
            format!("{shown} {}:/{}", show(target.image.as_bytes()), link.trim_start_matches('/')),
        ),
    };
    let failure = Failure::usage(format!("{link}: not in an image; {why}"));
    Err(failure.hint(format!("write: ffs ln {form}")))
}

/// A link at `link`: to the file `target`, or symbolic with `text`.
fn make(
    session: &Session,
    target: Option<&[u8]>,
    text: &[u8],
    mut link: Vec<u8>,
    args: &Args,
) -> Result<(), Failure> {
    let (ffs, cred) = (&session.ffs, &session.cred);
    let file = match target {
        Some(target) => Some(session.find(target, Last::Keep)?),
        None => None,
    };
    let last = if args.no_follow { Last::Keep } else { Last::Follow };
    if !args.no_target_directory
        && let Ok(dir) = namei(ffs, cred, &link, last)
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
    if link.ends_with(b"/") {
        return Err(session.no_directory(&link));
    }
    let (dir, name) = session.find_parent_of_new(&link)?;
    let failed = |error| session.failed(&link, error);
    let mut changes = Changes::new(args.json, args.verbose);
    let before = session.attr_of(&link, Last::Keep).filter(|_| args.force);
    let make = |name: &[u8]| match &file {
        Some(file) => ffs.link(cred, file, &dir, name),
        None => ffs.symlink(cred, &dir, name, text).map(drop),
    };
    if let Some(old) = &before {
        if file.as_ref().is_some_and(|file| ffs.getattr(file).ino == old.ino) {
            let place = format!("{}:{}", session.image(), show(&link));
            return Err(Failure::new(place, "is the same file"));
        }
        replace(session, &dir, &name, make).map_err(failed)?;
    } else {
        make(&name).map_err(failed)?;
    }
    let after = session.attr_of(&link, Last::Keep);
    changes.line(|| format!("{} -> {}", show(&link), show(target.unwrap_or(text))))?;
    changes.file(&link, before.as_ref(), after.as_ref())?;
    changes.flush()
}

/// Makes a link under another name first, so that the file `name` stays if it cannot be made.
fn replace(
    session: &Session,
    dir: &Vnode,
    name: &[u8],
    make: impl Fn(&[u8]) -> ffs_core::Result<()>,
) -> ffs_core::Result<()> {
    let (ffs, cred) = (&session.ffs, &session.cred);
    let (new, ()) = create_under_temporary_name(&mut 0, make)?;
    let replaced = ffs.rename(cred, (dir, &new), (dir, name), RenameMode::Replace);
    if replaced.is_err() {
        ffs.unlink(cred, dir, &new)?;
    }
    replaced
}
