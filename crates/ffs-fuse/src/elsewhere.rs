//! In place of a server on systems other than Linux: each function fails with the reason.

use crate::control::find_mount;
use crate::error::MountError;
use crate::options::Options;
use crate::params::{CheckFn, MountRequest, Mounted, Opener, UnmountRequest};
use ffs_device::BlockDevice;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

fn needs_linux() -> MountError {
    MountError::Unavailable("ffs mount needs Linux".to_owned())
}

/// Mounts on Linux.
///
/// # Errors
/// This system is another.
pub fn mount_daemon(_: &MountRequest) -> Result<Mounted, MountError> {
    Err(needs_linux())
}

/// Mounts on Linux.
///
/// # Errors
/// This system is another.
pub fn mount_foreground(_: &MountRequest, _: impl FnOnce(&Mounted)) -> Result<(), MountError> {
    Err(needs_linux())
}

/// Unmounts on Linux.
///
/// # Errors
/// No ffs file system is mounted there.
pub fn unmount_and_wait(request: &UnmountRequest) -> Result<(), MountError> {
    find_mount(&request.mount_point).and(Err(needs_linux()))
}

/// Changes a mount on Linux.
///
/// # Errors
/// No ffs file system is mounted there.
pub fn remount(mount_point: &Path, _: bool) -> Result<(), MountError> {
    find_mount(mount_point).and(Err(needs_linux()))
}

/// Serves the programs mount and umount of Linux. Other systems have no such helpers.
pub fn run_as_helper(
    _: impl IntoIterator<Item = OsString>,
    _: Option<(Opener, CheckFn)>,
    _: fn(&Options),
) -> Option<i32> {
    None
}

/// A device that Linux serves as a file.
pub enum Disk {}

impl Disk {
    /// Serves a device on Linux.
    ///
    /// # Errors
    /// This system is another.
    pub fn serve(_: Arc<dyn BlockDevice>, _: &Path) -> Result<Disk, MountError> {
        Err(needs_linux())
    }

    /// The path of the file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        match *self {}
    }
}
