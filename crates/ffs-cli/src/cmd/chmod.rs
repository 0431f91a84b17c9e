//! `ffs chmod`.

use ffs_core::{FileType, SetAttr};

use super::change::{Links, Which};
use super::{Doc, EXIT};
use crate::fail::Outcome;
use crate::mode::{ModeChange, umask};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs chmod 600 disk.img:/etc/master.passwd", "for its owner alone"),
        ("ffs chmod -R u=rwX,go=rX disk.img:/usr/local/www", "a tree, for everybody to read"),
        ("ffs chmod u+s disk.img:/usr/bin/su", "set-user-ID"),
        ("ffs chmod +t disk.img:/tmp", "only owners remove files there"),
    ],
    exit: EXIT,
    see_also: &["ffs-chown(8)", "ffs-chflags(1)", "ffs-cp(1)", "ffs-ls(1)"],
    section: "1",
    usage_code: 64,
};

/// Change modes of files in an image.
///
/// MODE is octal, or a list of changes with commas between them: any of u, g, o and a for the
/// owner, the group, others and all; then +, - or = to add, remove or set; then any of r, w, x, X,
/// s and t, or one of u, g and o for the permissions that these have. X is x for directories, and
/// for files that somebody may execute. Where nobody is named, all are meant but for the bits of
/// the umask. Set-id bits of a directory stay, unless they are named or the number has five digits,
/// as with chmod of coreutils.
///
/// A symbolic link is followed to its file; those met in a tree with -R are left alone. With -h
/// both are changed themselves. On a file with an access list the bits of the group are its mask.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// The mode, such as 755 or go-w
    #[arg(value_name = "MODE", value_parser = ModeChange::parse, allow_hyphen_values = true)]
    mode: ModeChange,
    #[command(flatten)]
    which: Which,
}

pub(crate) fn run(args: Args) -> Outcome {
    let (mode, umask) = (args.mode, umask());
    args.which.run(Links::Skip, |_| {
        Ok(Box::new(move |session, file, attr| {
            let perm = mode.apply(attr.perm, attr.kind == FileType::Directory, umask);
            if perm == attr.perm {
                return Ok(None);
            }
            let set = SetAttr { perm: Some(perm), ..SetAttr::default() };
            session.ffs.setattr(&session.cred, file, &set)?;
            Ok(Some((format!("{:04o}", attr.perm), format!("{perm:04o}"))))
        }))
    })
}
