//! What can go wrong before a mount is there and after it has gone.

use ffs_device::OpenError;
use std::io;
use std::path::PathBuf;

/// Failure to mount, unmount or remount.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The image cannot be opened, or somebody else has it.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The image is no file system that can be mounted.
    #[error("cannot mount {image}: {source}")]
    FileSystem {
        /// The image as its user named it.
        image: String,
        /// What is wrong.
        source: ffs_core::Error,
    },
    /// The mount point cannot be used.
    #[error("cannot mount on {}: {source}", .path.display())]
    MountPoint {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// The kernel refused.
    #[error("{what}: {source}")]
    Kernel {
        /// What was tried.
        what: &'static str,
        /// The answer.
        source: io::Error,
    },
    /// `fusermount3` refused, with its own words.
    #[error("fusermount3: {0}")]
    Helper(String),
    /// Nothing of ours is mounted there.
    #[error("{}: {found}", .path.display())]
    NotMounted {
        /// The directory.
        path: PathBuf,
        /// What is there instead.
        found: &'static str,
    },
    /// The mount is in use.
    #[error(
        "{} is in use: leave the directory and close its files (fuser -m tells whose), or unmount lazily",
        .path.display()
    )]
    Busy {
        /// The directory.
        path: PathBuf,
    },
    /// The running server said no.
    #[error("{0}")]
    Server(String),
    /// The server in the background could not start; its own words.
    #[error("{0}")]
    Background(String),
    /// The session ended badly.
    #[error("the session with the kernel broke: {0}")]
    Session(io::Error),
}

impl MountError {
    pub(crate) fn kernel(what: &'static str, source: impl Into<io::Error>) -> MountError {
        MountError::Kernel { what, source: source.into() }
    }

    /// The exit code that mount(8) knows: 32, mount failure.
    pub const EXIT_CODE: i32 = 32;
}
