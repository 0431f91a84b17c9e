//! Unmounting from outside: the mount goes, and the caller learns when the last byte is durable.
//!
//! **Purpose.** The kernel's `umount` of an ordinary FUSE mount returns while the server still writes.
//! [`unmount_and_wait`] returns when the server has ended, and with it the lock on the image.

use crate::error::MountError;
use crate::kernel::{self, Force};
use crate::mountinfo::{self, Mount};
use crate::server::{CONTROL, MESSAGE};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode};
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

/// The mount of ours on `path`.
fn ours(path: &Path) -> Result<Mount, MountError> {
    let not = |path: &Path, found| MountError::NotMounted { path: path.to_owned(), found };
    // A dead server's mount point cannot be resolved; its name must be meant as it is written.
    let real = path.canonicalize().or_else(|_| std::path::absolute(path));
    let real = real.map_err(|e| MountError::MountPoint { path: path.to_owned(), source: e })?;
    let found = mountinfo::find(&real).map_err(|e| MountError::kernel("mountinfo", e))?;
    match found {
        None => Err(not(path, "nothing is mounted there")),
        Some(m) if !m.is_ours() => Err(not(path, "another kind of file system is mounted there")),
        Some(m) => Ok(m),
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

/// Sends a message on the control channel; the words after `ok`.
fn command(mount_point: &Path, message: &str) -> Result<String, MountError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::open(mount_point, flags, Mode::empty())
        .map_err(|e| MountError::kernel("the mount's server does not answer", e))?;
    let mut text = [0; MESSAGE];
    text[..message.len()].copy_from_slice(message.as_bytes());
    ask(&dir, &mut text).map_err(|e| MountError::kernel("the mount's server refused", e))?;
    let end = text.iter().position(|b| *b == 0).unwrap_or(MESSAGE);
    let answer = String::from_utf8_lossy(&text[..end]);
    match answer.strip_prefix("ok") {
        Some(rest) => Ok(rest.trim_start().to_owned()),
        None => Err(MountError::Server(answer.trim_start_matches("error ").to_owned())),
    }
}

/// The control ioctl.
struct Control<'a>(&'a mut [u8; MESSAGE]);

#[allow(unsafe_code)]
// SAFETY: the command number says that the kernel copies `MESSAGE` bytes in and out, and the pointer is
// to as many bytes, borrowed for the call.
unsafe impl Ioctl for Control<'_> {
    type Output = ();
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        CONTROL
    }

    fn as_ptr(&mut self) -> *mut std::ffi::c_void {
        self.0.as_mut_ptr().cast()
    }

    unsafe fn output_from_ptr(
        _: IoctlOutput,
        _: *mut std::ffi::c_void,
    ) -> rustix::io::Result<Self::Output> {
        Ok(())
    }
}

#[allow(unsafe_code)]
fn ask(fd: &OwnedFd, text: &mut [u8; MESSAGE]) -> rustix::io::Result<()> {
    // SAFETY: see `Control`.
    unsafe { rustix::ioctl::ioctl(fd, Control(text)) }
}
