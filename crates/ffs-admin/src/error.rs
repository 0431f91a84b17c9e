//! Why a tool could not do what it was asked.

use std::io;
use std::sync::Arc;

use ffs_device::DeviceError;

/// An error of one of the tools.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// The device refused a transfer.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// What lies on the device breaks a rule of the format.
    #[error(transparent)]
    Format(#[from] ffs_ondisk::Error),
    /// An option has a value that cannot be honoured: which option and why.
    #[error("{option}: {reason}")]
    Option {
        /// The option as its user knows it, such as `-b`.
        option: &'static str,
        /// What is wrong with its value.
        reason: String,
    },
    /// The device or the size asked for cannot hold a file system: why.
    #[error("{0}")]
    Size(String),
    /// What was to be shown could not be written.
    #[error("cannot write the output: {}", ffs_device::host_words(.0))]
    Output(Arc<io::Error>),
    /// The state of the volume forbids the change.
    #[error("{0}")]
    Refused(String),
}

impl AdminError {
    /// An error of the writer of the output, for example a closed pipe or a full disk.
    pub(crate) fn output(error: io::Error) -> AdminError {
        AdminError::Output(Arc::new(error))
    }

    /// A bad value of `option`.
    pub fn option(option: &'static str, reason: impl Into<String>) -> AdminError {
        AdminError::Option { option, reason: reason.into() }
    }
}
