//! `ffs umount`.

use std::path::PathBuf;

use ffs_fuse::{UnmountRequest, unmount_and_wait};

use super::Doc;
use crate::fail::Outcome;
use crate::output;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs umount /mnt", "unmount and wait until the last byte is durable"),
        ("ffs umount -l /mnt", "detach a mount that is in use"),
    ],
    exit: &[
        ("0", "unmounted, and everything is on the image; after a failed write check it"),
        ("1", "not unmounted; data that could not be written stays in memory"),
    ],
    see_also: &["ffs-mount(8)", "fusermount3(1)"],
    section: "8",
    usage_code: 1,
};

/// Unmount and wait until everything is on the image.
///
/// umount(8) may return while the server still writes; this command waits. If data cannot be
/// written, for example because the disk is full, the mount stays and no data is lost.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directories that images are mounted on
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Unmount even if the server does not answer or cannot write, and do not wait
    #[arg(short)]
    force: bool,
    /// Detach now; processes that use the mount continue, and the command waits for them
    #[arg(short)]
    lazy: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let Args { dirs, force, lazy } = args;
    for mount_point in dirs {
        if let Err(error) = unmount_and_wait(&UnmountRequest { mount_point, lazy, force }) {
            output::error(error.to_string());
        }
    }
    Ok(u8::from(output::errors() > 0))
}
