//! `ffs chflags`.

use ffs_core::SetAttr;

use super::change::{Links, Which, first};
use super::{Doc, EXIT};
use crate::fail::Outcome;
use bsdffs::flags::{FlagsChange, to_text};

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs chflags schg disk.img:/bin/init", "forbid any change of a file"),
        ("ffs chflags -R noschg,nouchg disk.img:/var/empty", "allow changes and removal again"),
        ("ffs chflags nodump disk.img:/var/cache", "exclude a directory from dump(8)"),
        ("ffs chflags 0 disk.img:/file", "clear all flags"),
    ],
    exit: EXIT,
    see_also: &["ffs-chmod(1)", "ffs-chown(8)", "ffs-ls(1)", "ffs-stat(1)"],
    section: "1",
    usage_code: 64,
};

/// Change BSD file flags in an image.
///
/// FLAGS is a list of names with commas between them, or all flags as an octal number. The names
/// are arch, schg, sappnd, sunlnk, uchg, uappnd, uunlnk, nodump, opaque, usystem, usparse,
/// uoffline, ureparse, uarch, urdonly and uhidden, or the longer names of BSD. A name sets its
/// flag; `no` before the name clears it, and dump clears nodump. The flag of a snapshot cannot be
/// changed.
///
/// A symbolic link among the arguments is followed to its file. Symbolic links in a tree (-R) are
/// not changed. With -h all of these links are changed themselves.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// The flags, such as uchg,nodump or noschg
    #[arg(value_name = "FLAGS", value_parser = flags)]
    flags: FlagsChange,
    #[command(flatten)]
    which: Which,
}

fn flags(text: &str) -> Result<FlagsChange, String> {
    first(text, "chflags FLAGS", FlagsChange::parse)
}

pub(crate) fn run(args: Args) -> Outcome {
    let change = args.flags;
    args.which.run(Links::Skip, |_| {
        Ok(Box::new(move |session, file, attr| {
            let flags = change.apply(attr.flags);
            if flags == attr.flags {
                return Ok(None);
            }
            let set = SetAttr { flags: Some(flags), ..SetAttr::default() };
            session.ffs.setattr(&session.cred, file, &set)?;
            Ok(Some((to_text(attr.flags), to_text(flags))))
        }))
    })
}
