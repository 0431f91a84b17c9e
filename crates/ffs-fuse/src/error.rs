//! What can go wrong before a mount is there and after it has gone.

use ffs_device::{OpenError, host_words};
use std::io;
use std::path::PathBuf;

/// Failure to mount, unmount or remount.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The image cannot be opened, or somebody else has it.
    #[error("{}{}", .0, read_only_hint(.0))]
    Open(#[from] OpenError),
    /// The image is no file system that can be mounted.
    #[error("cannot mount {image}: {source}{}", advice(.source, .image))]
    FileSystem {
        /// The image as its user named it.
        image: String,
        /// What is wrong.
        source: ffs_core::Error,
    },
    /// The mount point cannot be used.
    #[error("cannot mount on {}: {}{}", .path.display(), host_words(.source), mkdir_hint(.source))]
    MountPoint {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        source: io::Error,
    },
    /// The kernel refused.
    #[error("{what}: {}", host_words(.source))]
    Kernel {
        /// What was tried.
        what: &'static str,
        /// The answer.
        source: io::Error,
    },
    /// This system or this user cannot mount by FUSE: what is missing.
    #[error("{0}; ffs ls, ffs cp and the like work without a mount")]
    Unavailable(String),
    /// `fusermount3` refused, with its own words.
    #[error("fusermount3: {0}")]
    Helper(String),
    /// Nothing of ours is mounted there.
    #[error("{}: {found}", .path.display())]
    NotMounted {
        /// The directory.
        path: PathBuf,
        /// What is there instead.
        found: String,
    },
    /// Who mounted keeps it private, also from root.
    #[error(
        "{} is private to user {owner}, who mounted it without -o allow_other: do it as that user",
        .path.display()
    )]
    Private {
        /// The directory.
        path: PathBuf,
        /// Who mounted.
        owner: String,
    },
    /// The caller may look, no more.
    #[error("only root and user {owner}, who mounted {}, may do that", .path.display())]
    NotAllowed {
        /// The directory.
        path: PathBuf,
        /// Who mounted.
        owner: String,
    },
    /// What is in memory cannot be written: the mount stays, so that nothing is lost.
    #[error(
        "{} stays mounted, because not everything could be written: {words}; put that right and unmount again (-f \
         gives up what is not written)",
        .path.display()
    )]
    NotWritten {
        /// The directory.
        path: PathBuf,
        /// The server's own words.
        words: String,
    },
    /// The mount is in use.
    #[error(
        "{} is in use: leave the directory and close its files (fuser -m tells whose), or unmount lazily (-l)",
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
    #[error("the session with the kernel broke: {}", host_words(.0))]
    Session(io::Error),
}

fn advice(error: &ffs_core::Error, image: &str) -> String {
    let ffs_core::Error::Format(error) = error else { return String::new() };
    error.advice(image).map(|advice| format!("; {advice}")).unwrap_or_default()
}

fn mkdir_hint(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::NotFound { "; mkdir makes it" } else { "" }
}

fn read_only_hint(error: &OpenError) -> &'static str {
    if error.may_be_readable() { "; or mount it read-only (-o ro)" } else { "" }
}

impl MountError {
    pub(crate) fn kernel(what: &'static str, source: impl Into<io::Error>) -> MountError {
        MountError::Kernel { what, source: source.into() }
    }

    /// The exit code that mount(8) knows: 32, mount failure.
    pub const EXIT_CODE: i32 = 32;
}
