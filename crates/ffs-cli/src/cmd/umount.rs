//! `ffs umount`.

use std::path::PathBuf;

use ffs_fuse::{UnmountRequest, unmount_and_wait};

use super::Doc;
use crate::fail::Outcome;
use crate::output;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs umount /mnt", "unmount and wait until the last byte is durable"),
        ("ffs umount -l /mnt", "out of sight now, although it is in use"),
    ],
    exit: &[
        (
            "0",
            "unmounted, and everything is on the image; marked for a check if a write had failed before",
        ),
        ("1", "not unmounted; what could not be written is still there"),
    ],
    see_also: &["ffs-mount(8)", "fusermount3(1)"],
    section: "8",
    usage_code: 1,
};

/// Unmount and wait until everything is on the image.
///
/// The system's umount returns while the server may still write; this one does not. If something
/// cannot be written, because the disk is full for instance, the mount stays and nothing is lost.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directories that images are mounted on
    #[arg(required = true, value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Even if the server does not answer or cannot write; nothing is waited for
    #[arg(short)]
    force: bool,
    /// Out of sight now; those who use it may go on, and the command waits for them
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
