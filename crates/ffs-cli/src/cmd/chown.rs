//! `ffs chown`.

use ffs_core::{SetAttr, SetIdBits};

use super::change::{Links, Which, first};
use super::{Doc, EXIT};
use crate::fail::Outcome;
use crate::owner::OwnerChange;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs chown -R www:www disk.img:/usr/local/www", "a tree, by names of the image"),
        ("ffs chown 1001:1001 disk.img:/home/me", "by numbers"),
        ("ffs chown :wheel disk.img:/etc/rc.conf", "only the group"),
        ("ffs chown me: disk.img:/home/me/notes", "the owner, and the owner's login group"),
    ],
    exit: EXIT,
    see_also: &["ffs-chmod(1)", "ffs-chflags(1)", "ffs-cp(1)", "ffs-ls(1)", "chown(8)"],
    section: "8",
    usage_code: 64,
};

/// Change owners of files in an image.
///
/// Names are looked up in /etc/passwd and /etc/group of the image, or of the host if the image has
/// no such file. An argument that is not a known name is read as a number; +1001 is always a
/// number. OWNER: without a group means the login group of the owner.
///
/// A change of the owner or the group clears the set-user-ID and set-group-ID bits and the
/// capabilities of a file, as on Linux. A symbolic link is followed to its file; with -R or -h
/// links are changed themselves.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// OWNER, OWNER:GROUP, OWNER: or :GROUP; names or numbers
    #[arg(value_name = "OWNER[:GROUP]", value_parser = owner)]
    owner: OwnerChange,
    #[command(flatten)]
    which: Which,
}

fn owner(text: &str) -> Result<OwnerChange, String> {
    first(text, "chown OWNER:GROUP", |text| text.parse().map_err(|never| match never {}))
}

pub(crate) fn run(args: Args) -> Outcome {
    args.which.run(Links::Change, |session| {
        let (uid, gid) = args.owner.resolve(session)?;
        Ok(Box::new(move |session, file, attr| {
            let set = SetAttr { uid, gid, set_id: SetIdBits::Drop, ..SetAttr::default() };
            let new = session.ffs.setattr(&session.cred, file, &set)?;
            if (new.uid, new.gid) == (attr.uid, attr.gid) {
                return Ok(None);
            }
            let shown = |(uid, gid): (u32, u32)| format!("{uid}:{gid}");
            Ok(Some((shown((attr.uid, attr.gid)), shown((new.uid, new.gid)))))
        }))
    })
}
