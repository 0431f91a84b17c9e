//! `ffs quotaoff`.

use std::path::PathBuf;

use ffs_core::QuotaType;
use ffs_fuse::Control;

use super::Doc;
use super::quotaon::EXIT_MOUNT;
use crate::fail::{Failure, Outcome};
use crate::output;

pub(crate) const DOC: Doc = Doc {
    examples: &[("ffs quotaoff /mnt", "enforce no quotas"), ("ffs quotaoff -g /mnt", "of groups")],
    exit: EXIT_MOUNT,
    see_also: &["ffs-quotaon(8)", "ffs-mount(8)"],
    section: "8",
    usage_code: 1,
};

/// Turn quotas of a mount off.
///
/// The records are written to the quota files first. From then on nothing is counted; turning
/// quotas on counts anew. Only root and the user who mounted may do this.
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
    let all = !args.user && !args.group;
    let chosen = [(args.user, QuotaType::User), (args.group, QuotaType::Group)];
    for mount in &args.mounts {
        let name = mount.display();
        let control = Control::open(mount).map_err(Failure::plain)?;
        for (_, kind) in chosen.into_iter().filter(|(on, _)| *on || all) {
            match control.quotaoff(kind) {
                Ok(()) if args.verbose => println!("{name}: {kind} quotas turned off"),
                Ok(()) => {}
                // Without an option, those that are on are meant.
                Err(_) if all && control.quota_grace(kind).is_err() => {}
                Err(error) => output::error(format!("{name}: {error}")),
            }
        }
    }
    Ok(u8::from(output::errors() > 0))
}
