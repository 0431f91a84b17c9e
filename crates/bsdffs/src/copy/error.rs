//! Errors: those of one file, after which the copy goes on, and those that end it.

use std::fmt;
use std::io;

use ffs_device::host_words;

use crate::text::human_size;

/// An existing file whose content a failed copy has replaced in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialFile {
    /// Bytes of the new content that the file has.
    pub written: u64,
    /// Bytes of the whole new content; less than `written` if the size is not known, as for a pipe.
    pub size: u64,
}

impl fmt::Display for PartialFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the file now has the first {}", human_size(self.written))?;
        if self.size >= self.written {
            write!(f, " of {}", human_size(self.size))?;
        }
        f.write_str(" of the new content, and its old content is lost")
    }
}

/// Why one file is not copied.
#[derive(Debug)]
#[non_exhaustive]
pub enum SkipReason {
    /// The source and the target are the same file.
    SameFile,
    /// The same copy created the target from another source.
    CreatedByThisCopy,
    /// The target is a symbolic link that the same copy created.
    LinkCreatedByThisCopy,
    /// The target is a symbolic link to a file that does not exist.
    DanglingLink,
    /// The existing file cannot be opened for writing.
    NotWritable(io::Error),
    /// A file flag such as `schg` forbids the change.
    FileFlag(ffs_core::Error),
    /// Another reason.
    Other(String),
}

impl SkipReason {
    /// A reason without a variant of its own.
    pub fn other(why: impl fmt::Display) -> SkipReason {
        SkipReason::Other(host_words(why))
    }
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SkipReason::SameFile => f.write_str("the source and the target are the same file"),
            SkipReason::CreatedByThisCopy => {
                f.write_str("this copy created it from another source; not overwritten")
            }
            SkipReason::LinkCreatedByThisCopy => {
                f.write_str("this copy created it as a symbolic link; not written through it")
            }
            SkipReason::DanglingLink => {
                f.write_str("is a symbolic link to a file that does not exist")
            }
            SkipReason::NotWritable(error) => f.write_str(&host_words(error)),
            SkipReason::FileFlag(error) => error.fmt(f),
            SkipReason::Other(why) => f.write_str(why),
        }
    }
}

/// One file that could not be copied.
#[derive(Debug)]
pub struct SkippedFile {
    /// The file, escaped for printing; empty if `reason` names it.
    pub name: String,
    /// Why.
    pub reason: SkipReason,
    /// An existing target that has part of the new content.
    pub partial: Option<PartialFile>,
}

impl fmt::Display for SkippedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.name.is_empty() {
            write!(f, "{}: ", self.name)?;
        }
        self.reason.fmt(f)?;
        match self.partial {
            Some(partial) => write!(f, "; {partial}"),
            None => Ok(()),
        }
    }
}

/// Why a copy ended early.
#[derive(Debug)]
pub struct CopyError {
    kind: io::ErrorKind,
    text: String,
    partial: Option<PartialFile>,
}

impl CopyError {
    /// An error of this kind. [`io::ErrorKind::Interrupted`] means that the caller cancelled the
    /// copy, [`io::ErrorKind::StorageFull`] that the target has no space or no inodes left.
    pub fn new(kind: io::ErrorKind, text: impl fmt::Display) -> CopyError {
        CopyError { kind, text: host_words(text), partial: None }
    }

    /// `error`, which concerns the file or image `name`.
    pub fn at(name: impl fmt::Display, error: impl Into<io::Error>) -> CopyError {
        let error = error.into();
        CopyError::new(error.kind(), format!("{name}: {error}"))
    }

    /// The copy was cancelled.
    #[must_use]
    pub fn cancelled() -> CopyError {
        CopyError::new(io::ErrorKind::Interrupted, "interrupted")
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> io::ErrorKind {
        self.kind
    }

    /// An existing target that has part of the new content.
    #[must_use]
    pub fn partial(&self) -> Option<PartialFile> {
        self.partial
    }

    /// The same error with the file `name` in front.
    #[must_use]
    pub(crate) fn in_file(mut self, name: impl fmt::Display) -> CopyError {
        self.text = format!("{name}: {}", self.text);
        self
    }

    pub(super) fn set_partial(&mut self, partial: Option<PartialFile>) {
        self.partial = partial;
    }
}

impl fmt::Display for CopyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match self.partial {
            Some(partial) => write!(f, "; {partial}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CopyError {}

impl From<CopyError> for io::Error {
    fn from(error: CopyError) -> io::Error {
        io::Error::new(error.kind, error)
    }
}

/// Why a sink could not create a file.
#[derive(Debug)]
pub enum SinkError {
    /// This file is not copied; the copy goes on.
    Skip(SkipReason),
    /// This file is not copied, as the options ask; the copy goes on.
    Ignore,
    /// The existing target stays, as the options or the user ask; the copy goes on.
    Keep,
    /// The copy ends.
    Stop(CopyError),
}

impl SinkError {
    /// Skips a file for a reason without a variant of its own.
    pub fn skip(why: impl fmt::Display) -> SinkError {
        SinkError::Skip(SkipReason::other(why))
    }
}

/// The result of creating a file, or of a step of it.
pub type SinkResult = Result<(), SinkError>;
