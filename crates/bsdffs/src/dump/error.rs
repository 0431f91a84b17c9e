//! Errors of writing a dump and of reading one.

use std::fmt;
use std::io;

use ffs_admin::AdminError;
use ffs_device::host_words;

/// Why a dump was not written.
#[derive(Debug)]
#[non_exhaustive]
pub enum DumpError {
    /// The volume cannot be read.
    Volume(AdminError),
    /// The root directory cannot be read.
    Root(ffs_core::Error),
    /// The stream cannot be written.
    Output(io::Error),
    /// The observer cancelled the dump.
    Cancelled,
}

impl fmt::Display for DumpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DumpError::Volume(error) => error.fmt(f),
            DumpError::Root(error) => write!(f, "the root directory: {error}"),
            DumpError::Output(error) => write!(f, "cannot write the dump: {}", host_words(error)),
            DumpError::Cancelled => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for DumpError {}

impl From<AdminError> for DumpError {
    fn from(error: AdminError) -> DumpError {
        DumpError::Volume(error)
    }
}

/// Why a dump cannot be read, with the number of the record.
#[derive(Debug)]
pub struct StreamError {
    record: u64,
    why: String,
    fatal: bool,
}

impl StreamError {
    /// The record is not the expected one; the records after it may be.
    pub(super) fn new(record: u64, why: impl fmt::Display) -> StreamError {
        StreamError { record, why: why.to_string(), fatal: false }
    }

    /// The stream cannot be read from here on.
    pub(super) fn fatal(record: u64, why: impl fmt::Display) -> StreamError {
        StreamError { record, why: why.to_string(), fatal: true }
    }

    pub(super) fn io(record: u64, error: &io::Error) -> StreamError {
        let why = match error.kind() {
            io::ErrorKind::UnexpectedEof => "the dump is truncated".to_owned(),
            _ => host_words(error),
        };
        StreamError { record, why, fatal: true }
    }

    /// The number of the record, from 0.
    #[must_use]
    pub fn record(&self) -> u64 {
        self.record
    }

    /// Whether no later record can be found: the stream ended early, cannot be read, or is not
    /// supported.
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        self.fatal
    }
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {}: {}", self.record, self.why)
    }
}

impl std::error::Error for StreamError {}
