//! Errors of mounting, unmounting and controlling a mount.

use ffs_device::host_words;
use ffs_image::OpenError;
use std::io;
use std::path::PathBuf;

/// Failure to mount, unmount or remount.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The image cannot be opened, or another process has locked it.
    #[error("{}{}", .0, read_only_hint(.0))]
    Open(#[from] OpenError),
    /// The volume inside the image cannot be opened. The text names it and the reason.
    #[error("{0}")]
    Inside(String),
    /// The image holds no file system that can be mounted.
    #[error("cannot mount {image}: {source}{}", advice(.source, .image))]
    FileSystem {
        /// The image, as given by the user.
        image: String,
        /// The reason.
        source: ffs_core::Error,
    },
    /// The mount point cannot be used.
    #[error("cannot mount on {}: {}{}", .path.display(), host_words(.source), mkdir_hint(.source))]
    MountPoint {
        /// The directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A system call failed.
    #[error("{what}: {}", host_words(.source))]
    Kernel {
        /// The operation that was tried.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// This system or this user cannot mount with FUSE. The text names what is missing.
    #[error("{0}; ffs ls, ffs cp and the like work without a mount")]
    Unavailable(String),
    /// `fusermount3` failed. The text is its message.
    #[error("fusermount3: {0}")]
    Helper(String),
    /// No ffs file system is mounted there.
    #[error("{}: {found}", .path.display())]
    NotMounted {
        /// The directory.
        path: PathBuf,
        /// A description of what is there instead.
        found: String,
    },
    /// The mount is private to the user who mounted it. Root has no access either.
    #[error(
        "{} is private to user {owner}, who mounted it without -o allow_other: do it as that user",
        .path.display()
    )]
    Private {
        /// The directory.
        path: PathBuf,
        /// The user who mounted.
        owner: String,
    },
    /// The caller may read the switches, and may not change them.
    #[error("only root and user {owner}, who mounted {}, may do that", .path.display())]
    NotAllowed {
        /// The directory.
        path: PathBuf,
        /// The user who mounted.
        owner: String,
    },
    /// Data in memory cannot be written. The file system stays mounted, so that nothing is lost.
    #[error(
        "{} stays mounted, because not everything could be written: {words}; put that right and \
         unmount again (-f gives up the data that is not written)",
        .path.display()
    )]
    NotWritten {
        /// The directory.
        path: PathBuf,
        /// The server's message.
        words: String,
    },
    /// The mount is in use.
    #[error(
        "{} is in use: leave the directory and close its files (fuser -vm lists the processes), or \
         unmount lazily (-l)",
        .path.display()
    )]
    Busy {
        /// The directory.
        path: PathBuf,
    },
    /// The running server refused. The text is its message.
    #[error("{0}")]
    Server(String),
    /// The background server could not start. The text is its message.
    #[error("{0}")]
    Background(String),
    /// The mount was to use io_uring, and cannot.
    #[error("io_uring=on: {0}")]
    NoIoUring(#[from] NoIoUring),
    /// The session with the kernel ended with an error.
    #[error("the session with the kernel failed: {}", host_words(.0))]
    Session(io::Error),
}

/// Why requests cannot pass over io_uring.
#[derive(Debug, thiserror::Error)]
pub enum NoIoUring {
    /// The kernel does not offer it.
    #[error(
        "the kernel does not offer FUSE over io_uring, which Linux 6.14 and newer have: root \
         switches it on with echo Y > /sys/module/fuse/parameters/enable_uring"
    )]
    NotOffered,
    /// This process cannot make rings.
    #[error(
        "no ring can be made: {} (kernel.io_uring_disabled is set, or a container forbids it)",
        host_words(.0)
    )]
    Forbidden(io::Error),
    /// The kernel refused the rings.
    #[error("the kernel refused a ring: {}", host_words(.0))]
    Refused(io::Error),
}

fn advice(error: &ffs_core::Error, image: &str) -> String {
    let ffs_core::Error::Format(error) = error else { return String::new() };
    error.advice(image).map(|advice| format!("; {advice}")).unwrap_or_default()
}

fn mkdir_hint(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::NotFound { "; create it with mkdir" } else { "" }
}

fn read_only_hint(error: &OpenError) -> &'static str {
    if error.may_be_readable() { "; or mount it read-only (-o ro)" } else { "" }
}

impl MountError {
    pub(crate) fn kernel(what: &'static str, source: impl Into<io::Error>) -> MountError {
        MountError::Kernel { what, source: source.into() }
    }

    /// The exit code of mount(8) for a failed mount: 32.
    pub const EXIT_CODE: i32 = 32;
}
