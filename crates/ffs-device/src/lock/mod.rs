//! The lock on an image: one writer or several readers.
//!
//! Two programs that change one image destroy it. So every opener locks the image file itself,
//! readers shared, writers exclusively; the error of a second opener names the first. The lock
//! belongs to the open file, not to the process: it survives a fork into the background, and is
//! released when the last copy of the descriptor is closed, even if the holder crashed. So a tool
//! that gets the lock sees all writes of the previous holder.
//!
//! **Invariants.**
//! 1. There is no lock file, so no stale lock can remain.
//! 2. An image that the kernel has mounted counts as locked: from the device, a partition of it, or
//!    a loop device on the file.
//! 3. A failure to find the holder of a lock fails no operation; the holder is then unknown.

mod holder;
mod kernel;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::error::host_words;

pub use holder::Holder;
pub use kernel::KernelMount;

/// The access that the opener needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// Read: others may read too.
    Shared,
    /// Change: all other access is excluded.
    Exclusive,
}

/// How long to wait for a lock that another opener holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LockWait {
    /// Not at all.
    #[default]
    No,
    /// At most this long.
    UpTo(Duration),
}

/// Why the image could not be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another opener has locked it.
    #[error("{image} is in use by {}: {}", holder::list(.holders), advice(*.waited))]
    Held {
        /// The name of the image as the user gave it.
        image: String,
        /// The mode that was requested.
        mode: LockMode,
        /// The holders, as far as they are known.
        holders: Vec<Holder>,
        /// The time waited.
        waited: Duration,
    },
    /// The kernel has mounted it.
    #[error("{image} is mounted by the kernel: {mount}; unmount it first")]
    Mounted {
        /// The name of the image as the user gave it.
        image: String,
        /// The mount.
        mount: KernelMount,
    },
    /// The kernel uses the block device in another way.
    #[error(
        "{image} is in use by the kernel (as swap, or below a RAID, a volume manager or a mount \
         elsewhere): see lsblk, and release it first"
    )]
    UsedByKernel {
        /// The name of the device as the user gave it.
        image: String,
    },
    /// The system cannot lock it.
    #[error(
        "{image}: cannot lock: {}; copy the image to a local file system and work on the copy",
        host_words(.source)
    )]
    Io {
        /// The name of the image as the user gave it.
        image: String,
        /// The cause.
        source: io::Error,
    },
}

impl LockError {
    /// The error number for a system-call interface.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            LockError::Io { source, .. } => {
                source.raw_os_error().unwrap_or(Errno::IO.raw_os_error())
            }
            _ => Errno::BUSY.raw_os_error(),
        }
    }
}

fn advice(waited: Duration) -> String {
    let waited = match waited.as_secs() {
        0 => String::new(),
        secs => format!(" (waited {secs} s)"),
    };
    format!("unmount it or let that finish, then try again{waited}")
}

/// Udev inspects a block device, under a lock of its own, after a writer closed it.
const UDEV_GRACE: Duration = Duration::from_millis(500);
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Locks the open image `file`, whose name for messages is `path`. The lock lasts as long as `file`
/// or a copy of its descriptor is open.
///
/// # Errors
/// Another opener has locked it, with the holders if they can be found; or the system cannot lock
/// it. The latter is an error only for writers: a reader on a file system without locks does no
/// harm.
pub fn lock(file: &File, path: &Path, mode: LockMode, wait: LockWait) -> Result<(), LockError> {
    let image = path.display().to_string();
    let start = Instant::now();
    let patience = match wait {
        LockWait::UpTo(patience) => patience,
        LockWait::No if is_block_device(file) => UDEV_GRACE,
        LockWait::No => Duration::ZERO,
    };
    let operation = match mode {
        LockMode::Shared => FlockOperation::NonBlockingLockShared,
        LockMode::Exclusive => FlockOperation::NonBlockingLockExclusive,
    };
    let mut pause = FIRST_PAUSE;
    let mut last_attempt = false;
    loop {
        match flock(file, operation) {
            Ok(()) => break,
            Err(Errno::INTR) => {}
            Err(Errno::WOULDBLOCK) => {
                let waited = start.elapsed();
                let Some(left) = patience.checked_sub(waited).filter(|left| !left.is_zero()) else {
                    let holders = holder::find(file);
                    // The holder may have released the lock before the search reached it.
                    if holders.is_empty() && !last_attempt {
                        last_attempt = true;
                        continue;
                    }
                    return Err(LockError::Held { image, mode, holders, waited });
                };
                std::thread::sleep(pause.min(left));
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            Err(Errno::OPNOTSUPP | Errno::NOLCK | Errno::NOSYS) if mode == LockMode::Shared => {
                break;
            }
            Err(errno) => return Err(LockError::Io { image, source: errno.into() }),
        }
    }
    match kernel::mount_of(file) {
        Some(mount) if mode == LockMode::Exclusive || mount.writable => {
            Err(LockError::Mounted { image, mount })
        }
        _ => Ok(()),
    }
}

/// Opens the block device `path` exclusively: while the result is open, the kernel does not mount
/// it or build a device on it. `None` for other files.
///
/// # Errors
/// The kernel already uses it.
pub fn open_exclusive(file: &File, path: &Path) -> Result<Option<File>, LockError> {
    if !is_block_device(file) || !cfg!(target_os = "linux") {
        return Ok(None);
    }
    let image = path.display().to_string();
    // O_EXCL without O_CREAT: on Linux, fails with EBUSY if the kernel uses the device.
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::EXCL | rustix::fs::OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, rustix::fs::Mode::empty()) {
        Ok(fd) => Ok(Some(fd.into())),
        Err(Errno::BUSY) => Err(match kernel::mount_of(file) {
            Some(mount) => LockError::Mounted { image, mount },
            None => LockError::UsedByKernel { image },
        }),
        Err(errno) => Err(LockError::Io { image, source: errno.into() }),
    }
}

/// Major and minor number of a device, from the number that attributes of files have.
#[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
fn device_number(dev: u64) -> (u32, u32) {
    let dev = dev as rustix::fs::Dev;
    (rustix::fs::major(dev), rustix::fs::minor(dev))
}

fn is_block_device(file: &File) -> bool {
    file.metadata().is_ok_and(|metadata| metadata.file_type().is_block_device())
}

#[cfg(test)]
mod tests;
