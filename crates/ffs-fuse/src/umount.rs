//! Unmounting from another process, which returns when everything is durable.
//!
//! **Purpose.** The kernel's `umount` of an ordinary FUSE mount returns while the server still
//! writes, and cannot report that a write failed. [`unmount_and_wait`] makes the server write
//! everything first. If that fails the file system stays mounted, as on BSD. The function returns
//! when the server has ended and has released its lock on the image.

use crate::control::{command, find_mount};
use crate::error::MountError;
use crate::kernel::{self, Force};
use crate::params::UnmountRequest;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::path::Path;

/// Unmounts, and waits until the server has written everything and closed the image.
///
/// # Errors
/// No ffs file system is mounted there, it is in use, or the caller lacks the permission.
pub fn unmount_and_wait(request: &UnmountRequest) -> Result<(), MountError> {
    let mount = find_mount(&request.mount_point)?;
    if !request.lazy && !request.force {
        write_all(&mount.mount_point)?;
    }
    // Open the process before the unmount: later its number could belong to another process.
    let server = if request.force { None } else { server_of(&mount.mount_point) };
    kernel::unmount(&mount.mount_point, Force { lazy: request.lazy, force: request.force })?;
    if let Some(server) = server {
        let mut fds = [PollFd::new(&server, PollFlags::IN)];
        while let Err(rustix::io::Errno::INTR) = poll(&mut fds, None) {}
    }
    Ok(())
}

/// `mount -o remount,ro` and `remount,rw`: changes the kernel's mount and the server together.
///
/// # Errors
/// No ffs file system is mounted there, files are open for writing, or the volume is read-only.
pub fn remount(mount_point: &Path, read_only: bool) -> Result<(), MountError> {
    let mount = find_mount(mount_point)?;
    if read_only {
        kernel::remount(&mount, true)?;
        return command(&mount.mount_point, "remount ro").map(drop);
    }
    command(&mount.mount_point, "remount rw")?;
    kernel::remount(&mount, false)
}

/// Makes the server write everything. Ignores a server that is dead or of another version.
fn write_all(mount_point: &Path) -> Result<(), MountError> {
    // Writes in the kernel's cache (-o writeback) must reach the server, which reports failures.
    if let Ok(root) = std::fs::File::open(mount_point) {
        let _ = rustix::fs::syncfs(&root);
    }
    match command(mount_point, "sync") {
        Err(MountError::Server(words)) => {
            Err(MountError::NotWritten { path: mount_point.to_owned(), words })
        }
        // Root has no access to another user's private mount, but may unmount it.
        Err(MountError::Private { .. }) if rustix::process::geteuid().is_root() => Ok(()),
        Err(denied @ (MountError::NotAllowed { .. } | MountError::Private { .. })) => Err(denied),
        _ => Ok(()),
    }
}

/// The server's process. `None` if it is dead or in another namespace.
fn server_of(mount_point: &Path) -> Option<OwnedFd> {
    let pid: i32 = command(mount_point, "pid").ok()?.parse().ok()?;
    if pid == std::process::id() as i32 {
        return None;
    }
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}
