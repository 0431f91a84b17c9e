//! `ffs umount`.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use ffs_fuse::{UnmountRequest, mounts_of_user, unmount_and_wait};

use super::Doc;
use crate::fail::{Failure, Outcome, show};
use crate::output;

pub(crate) const DOC: Doc = Doc {
    examples: &[
        ("ffs umount /mnt", "unmount and wait until the last byte is durable"),
        ("ffs umount -l /mnt", "detach a mount that is in use"),
        ("ffs umount --all", "every mount that you made with ffs"),
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
    #[arg(required_unless_present = "all", value_name = "DIR")]
    dirs: Vec<PathBuf>,
    /// Unmount every ffs mount of the calling user, the last one first, and print each directory
    #[arg(short, long, conflicts_with = "dirs")]
    all: bool,
    /// Unmount even if the server does not answer or cannot write, and do not wait
    #[arg(short)]
    force: bool,
    /// Detach now; processes that use the mount continue, and the command waits for them
    #[arg(short)]
    lazy: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let Args { mut dirs, all, force, lazy } = args;
    if all {
        let found = mounts_of_user(rustix::process::getuid().as_raw());
        dirs = found.map_err(|error| Failure::host(Path::new("/proc/self/mountinfo"), &error))?;
    }
    for mount_point in dirs {
        let name = show(mount_point.as_os_str().as_bytes());
        match unmount_and_wait(&UnmountRequest { mount_point, lazy, force }) {
            Ok(()) if all => output::note(format!("{name} is unmounted")),
            Ok(()) => {}
            Err(error) => output::error(error.to_string()),
        }
    }
    Ok(u8::from(output::errors() > 0))
}
