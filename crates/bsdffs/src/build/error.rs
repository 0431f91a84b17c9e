//! Why an image could not be built.

use std::fmt;
use std::io;

use ffs_admin::AdminError;
use ffs_device::{DeviceError, host_words};

use crate::copy::CopyError;
use crate::text::human_size;

/// Why an image could not be built.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// The path of the image does not end in a name.
    NoFileName,
    /// The file of the image cannot be created.
    Create(DeviceError),
    /// The file of the image cannot get its size.
    Resize(io::Error),
    /// The image cannot be opened.
    Device(DeviceError),
    /// The image cannot be locked.
    Lock(ffs_device::lock::LockError),
    /// The complete image cannot be synced or renamed.
    Install(io::Error),
    /// The archive cannot be opened a second time.
    Tree(io::Error),
    /// The tree can be read only once, and no size is given.
    SizeNeeded,
    /// The device is too small.
    DeviceTooSmall {
        /// Its size, bytes.
        has: u64,
        /// The size needed, bytes.
        needs: u64,
    },
    /// A file system of the given size has too little space for the tree.
    TooLittleSpace {
        /// Size of the file system, bytes.
        size: u64,
        /// Space in it, bytes.
        has: u64,
        /// Space that the tree needs, bytes.
        needs: u64,
        /// A size that is enough, bytes; `None` if none was found.
        enough: Option<u64>,
    },
    /// A file system of the given size has too few inodes for the tree.
    TooFewInodes {
        /// Size of the file system, bytes.
        size: u64,
        /// Inodes in it.
        has: u64,
        /// Inodes that the tree needs.
        needs: u64,
        /// A size that is enough, bytes; `None` if none was found.
        enough: Option<u64>,
    },
    /// No size fits the tree with the given options.
    NoSizeFits,
    /// The file system cannot be made.
    Newfs(AdminError),
    /// ACLs cannot be enabled.
    Tunefs(AdminError),
    /// The new file system cannot be mounted.
    Mount(ffs_core::Error),
    /// The copy ended early.
    Copy(CopyError),
    /// The tree lacks a file of the specification, which cannot create it.
    Missing {
        /// Its path, for messages.
        path: String,
        /// The number of its line.
        line: usize,
        /// The keyword that could create it.
        lacks: &'static str,
    },
    /// Files could not be copied; each was passed to the observer.
    Incomplete {
        /// Their number.
        files: u64,
    },
    /// The observer cancelled the build.
    Cancelled,
    /// The end of the image cannot be written.
    Unmount(ffs_core::Error),
}

impl BuildError {
    /// Whether the file system has no space or no inodes left.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, BuildError::Copy(error) if error.kind() == io::ErrorKind::StorageFull)
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BuildError::NoFileName => f.write_str("the path does not end in a name"),
            BuildError::Create(error) => {
                write!(f, "cannot be created: {}", host_words(&error.source))
            }
            BuildError::Resize(error) | BuildError::Install(error) | BuildError::Tree(error) => {
                f.write_str(&host_words(error))
            }
            BuildError::Device(error) => f.write_str(&host_words(error)),
            BuildError::Lock(error) => error.fmt(f),
            BuildError::Missing { path, line, lacks } => write!(
                f,
                "the tree has no {path}, which line {line} of the specification names without \
                 {lacks}="
            ),
            BuildError::Cancelled => f.write_str("interrupted"),
            BuildError::SizeNeeded => {
                f.write_str("the source can be read only once, so the size must be given")
            }
            BuildError::DeviceTooSmall { has, needs } => {
                let (has, needs) = (human_size(*has), human_size(*needs));
                write!(f, "has {has}, but the file system needs {needs}")
            }
            BuildError::TooLittleSpace { size, has, needs, .. } => {
                let [size, has, needs] = [size, has, needs].map(|&bytes| human_size(bytes));
                write!(f, "a file system of {size} holds {has} of data; the tree needs {needs}")
            }
            BuildError::TooFewInodes { size, has, needs, .. } => {
                let size = human_size(*size);
                write!(f, "a file system of {size} has {has} inodes; the tree needs {needs}")
            }
            BuildError::NoSizeFits => f.write_str("no size fits the tree with these options"),
            BuildError::Newfs(error) | BuildError::Tunefs(error) => error.fmt(f),
            BuildError::Mount(error) => error.fmt(f),
            BuildError::Copy(error) => error.fmt(f),
            BuildError::Incomplete { files: 1 } => f.write_str("one file could not be copied"),
            BuildError::Incomplete { files } => write!(f, "{files} files could not be copied"),
            BuildError::Unmount(error) => write!(f, "the image is not complete: {error}"),
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            BuildError::Resize(error) | BuildError::Install(error) | BuildError::Tree(error) => {
                Some(error)
            }
            BuildError::Create(error) | BuildError::Device(error) => Some(error),
            BuildError::Lock(error) => Some(error),
            BuildError::Newfs(error) | BuildError::Tunefs(error) => Some(error),
            BuildError::Mount(error) | BuildError::Unmount(error) => Some(error),
            BuildError::Copy(error) => Some(error),
            _ => None,
        }
    }
}

impl From<CopyError> for BuildError {
    fn from(error: CopyError) -> BuildError {
        BuildError::Copy(error)
    }
}

impl From<BuildError> for io::Error {
    fn from(error: BuildError) -> io::Error {
        let kind = match &error {
            BuildError::Resize(error) | BuildError::Install(error) | BuildError::Tree(error) => {
                error.kind()
            }
            BuildError::Create(error) | BuildError::Device(error) => error.source.kind(),
            BuildError::Mount(error) | BuildError::Unmount(error) => {
                io::Error::from_raw_os_error(error.errno()).kind()
            }
            BuildError::Copy(error) => error.kind(),
            BuildError::DeviceTooSmall { .. }
            | BuildError::TooLittleSpace { .. }
            | BuildError::TooFewInodes { .. } => io::ErrorKind::StorageFull,
            BuildError::Lock(_) => io::ErrorKind::ResourceBusy,
            BuildError::Incomplete { .. } => io::ErrorKind::Other,
            _ => io::ErrorKind::InvalidInput,
        };
        io::Error::new(kind, error)
    }
}
