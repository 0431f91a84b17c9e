//! `ffs chmod`.

use ffs_core::{FileType, SetAttr};

use super::change::{Links, Which, first};
use super::{Doc, EXIT};
use crate::fail::Outcome;
use crate::parse::mode::ModeChange;
use crate::umask::umask;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs chmod 600 disk.img:/etc/master.passwd", "only the owner reads and writes"),
        ("ffs chmod -R u=rwX,go=rX disk.img:/usr/local/www", "all users read a tree"),
        ("ffs chmod u+s disk.img:/usr/bin/su", "set the set-user-ID bit"),
        ("ffs chmod +t disk.img:/tmp", "only the owner of a file removes it there"),
    ],
    exit: EXIT,
    see_also: &["ffs-chown(8)", "ffs-chflags(1)", "ffs-cp(1)", "ffs-ls(1)"],
    section: "1",
    usage_code: 64,
};

/// Change modes of files in an image.
///
/// MODE is an octal number, or a list of changes with commas between them. A change has three
/// parts: any of u, g, o and a for the owner, the group, others and all; then +, - or = to add,
/// remove or set; then any of r, w, x, X, s and t, or one of u, g and o to copy the permissions of
/// that class. X is x for directories and for files that have an execute bit. Without u, g, o or a,
/// the change applies to all three, but bits of the umask do not change. Set-ID bits of a directory
/// do not change, unless they are named or the number has five digits, as with chmod of coreutils.
///
/// A symbolic link among the arguments is followed to its file. Symbolic links in a tree (-R) are
/// not changed. With -h all of these links are changed themselves. On a file with an access list
/// the bits of the group are the mask of the list.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// The mode, such as 755 or go-w
    #[arg(value_name = "MODE", value_parser = mode, allow_hyphen_values = true)]
    mode: ModeChange,
    #[command(flatten)]
    which: Which,
}

fn mode(text: &str) -> Result<ModeChange, String> {
    first(text, "chmod MODE", ModeChange::parse)
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
