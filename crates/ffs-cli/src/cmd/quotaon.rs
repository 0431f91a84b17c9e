//! `ffs quotaon`.

use std::path::PathBuf;

use ffs_core::QuotaType;
use ffs_fuse::Control;

use super::Doc;
use crate::fail::{Failure, Outcome};
use crate::output;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs quotaon /mnt", "enforce the quotas whose files the volume has"),
        ("ffs quotaon -u /mnt", "only those of users"),
    ],
    exit: EXIT_MOUNT,
    see_also: &["ffs-quotaoff(8)", "ffs-quotacheck(8)", "ffs-edquota(8)", "ffs-mount(8)"],
    section: "8",
    usage_code: 1,
};

/// Exit codes of quotaon and quotaoff.
pub(super) const EXIT_MOUNT: &[(&str, &str)] =
    &[("0", "the quotas are on, or off"), ("1", "they are as before")];

/// Turn quotas of a mount on.
///
/// The usage of all users is counted first; changes of the volume wait until that is done. `ffs
/// mount -o quota` does the same when it mounts. Only root and the user who mounted may do this.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directories that images are mounted on
    #[arg(required = true, value_name = "MOUNT")]
    mounts: Vec<PathBuf>,
    /// Quotas of users
    #[arg(short)]
    user: bool,
    /// Quotas of groups
    #[arg(short)]
    group: bool,
    /// Print what was done
    #[arg(short)]
    verbose: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let chosen = [(args.user, QuotaType::User), (args.group, QuotaType::Group)];
    let mut wanted: Vec<Option<QuotaType>> =
        chosen.into_iter().filter(|(on, _)| *on).map(|(_, kind)| Some(kind)).collect();
    if wanted.is_empty() {
        wanted.push(None);
    }
    for mount in &args.mounts {
        let name = mount.display();
        let control = Control::open(mount).map_err(Failure::plain)?;
        for kind in &wanted {
            match control.quotaon(*kind) {
                Ok(()) if args.verbose => println!("{name}: quotas turned on"),
                Ok(()) => {}
                Err(error) => output::error(format!("{name}: {error}")),
            }
        }
    }
    Ok(u8::from(output::errors() > 0))
}
