//! Unmounting from outside: the mount goes, and the caller learns when the last byte is durable.
//!
//! **Purpose.** The kernel's `umount` of an ordinary FUSE mount returns while the server still writes, and
//! cannot say that writing failed. [`unmount_and_wait`] has everything written first: a mount of which not
//! everything can be written stays, as BSD's does. It returns when the server has ended, and with it the lock on
//! the image.

use crate::control::{command, ours};
use crate::error::MountError;
use crate::kernel::{self, Force};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::path::{Path, PathBuf};

/// What to unmount and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnmountRequest {
    /// The directory.
    pub mount_point: PathBuf,
    /// Out of sight now; those who use it may go on. The call then waits for them.
    pub lazy: bool,
    /// Even if the server does not answer; nothing is waited for.
    pub force: bool,
}

/// Unmounts, and waits until the server has written everything and let the image go.
///
/// # Errors
/// Nothing of ours is mounted there, it is in use, or the caller may not.
pub fn unmount_and_wait(request: &UnmountRequest) -> Result<(), MountError> {
    let mount = ours(&request.mount_point)?;
    if !request.lazy && !request.force {
        write_all(&mount.mount_point)?;
    }
    // Ask before, hold it by its descriptor after: a number could pass to another process.
    let server = if request.force { None } else { server_of(&mount.mount_point) };
    kernel::unmount(&mount.mount_point, Force { lazy: request.lazy, force: request.force })?;
    if let Some(server) = server {
        let mut fds = [PollFd::new(&server, PollFlags::IN)];
        while let Err(rustix::io::Errno::INTR) = poll(&mut fds, None) {}
    }
    Ok(())
}

/// `mount -o remount,ro` and `remount,rw`: the kernel and the server change together.
///
/// # Errors
/// Nothing of ours is mounted there, files are open for writing, or the volume may not be written.
pub fn remount(mount_point: &Path, read_only: bool) -> Result<(), MountError> {
    let mount = ours(mount_point)?;
    if read_only {
        kernel::remount(&mount, true)?;
        return command(&mount.mount_point, "remount ro").map(drop);
    }
    command(&mount.mount_point, "remount rw")?;
    kernel::remount(&mount, false)
}

/// Has everything written that is in memory. A server that is dead or of another version cannot be asked.
fn write_all(mount_point: &Path) -> Result<(), MountError> {
    // What the kernel kept back (-o writeback) must reach the server, which tells what became of it.
    if let Ok(root) = std::fs::File::open(mount_point) {
        let _ = rustix::fs::syncfs(&root);
    }
    match command(mount_point, "sync") {
        Err(MountError::Server(words)) => {
            Err(MountError::NotWritten { path: mount_point.to_owned(), words })
        }
        // Root cannot look into another's private mount, but may end it.
        Err(MountError::Private { .. }) if rustix::process::geteuid().is_root() => Ok(()),
        Err(denied @ (MountError::NotAllowed { .. } | MountError::Private { .. })) => Err(denied),
        _ => Ok(()),
    }
}

/// The server's process; `None` if it cannot be told (it is dead, or of another namespace).
fn server_of(mount_point: &Path) -> Option<OwnedFd> {
    let pid: i32 = command(mount_point, "pid").ok()?.parse().ok()?;
    if pid == std::process::id() as i32 {
        return None;
    }
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}
