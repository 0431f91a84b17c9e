//! Errors of the tools.

use std::io;
use std::sync::Arc;

use ffs_device::DeviceError;

/// An error of a tool.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// A transfer to or from the device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The content of the device breaks a rule of the format.
    #[error(transparent)]
    Format(#[from] ffs_ondisk::Error),
    /// An option has an invalid value.
    #[error("{option}: {reason}")]
    Option {
        /// The option, such as `-b`.
        option: &'static str,
        /// The reason.
        reason: String,
    },
    /// The device or the requested size cannot hold a file system; the reason.
    #[error("{0}")]
    Size(String),
    /// The new size, in bytes, is not larger than the current one.
    #[error(
        "requested size {requested} is not larger than the current size of the file system, \
         {current}"
    )]
    NotLarger {
        /// The new size, bytes.
        requested: u64,
        /// The size of the file system, bytes.
        current: u64,
    },
    /// The output could not be written.
    #[error("cannot write the output: {}", ffs_device::host_words(.0))]
    Output(Arc<io::Error>),
    /// The caller interrupted the tool, which had changed nothing.
    #[error("interrupted; nothing was changed")]
    Interrupted,
    /// The state of the volume forbids the change; the reason.
    #[error("{0}")]
    Refused(String),
}

impl AdminError {
    /// An error of the writer of the output, for example a closed pipe or a full disk.
    pub(crate) fn output(error: io::Error) -> AdminError {
        AdminError::Output(Arc::new(error))
    }

    /// An invalid value of `option`.
    pub fn option(option: &'static str, reason: impl Into<String>) -> AdminError {
        AdminError::Option { option, reason: reason.into() }
    }
}
