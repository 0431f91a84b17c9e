//! The errors of the directory indexes.

use crate::error::LabError;

/// A result of an index.
pub(crate) type Result<T> = std::result::Result<T, IndexError>;

/// Why an operation of an index failed.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// A structure on the volume is damaged.
    #[error("{structure} {place}: {found}: expected {expected}")]
    Damaged {
        /// The kind of structure.
        structure: &'static str,
        /// Its block, and the byte in it where that matters.
        place: String,
        /// The value that was found.
        found: String,
        /// The rule that it breaks.
        expected: &'static str,
    },
    /// The name exists.
    #[error("the name exists")]
    Exists,
    /// The name cannot be entered: it is empty, too long, or has a slash or a NUL.
    #[error("a name has 1 to 255 bytes without NUL and '/'")]
    BadName,
    /// The format has no space for another name.
    #[error("the directory is full: {0}")]
    Full(&'static str),
    /// The blocks cannot be read or written.
    #[error("{0}")]
    Store(String),
}

impl IndexError {
    /// Damage in block `block`.
    pub(super) fn damaged(
        structure: &'static str,
        block: u32,
        found: impl ToString,
        expected: &'static str,
    ) -> IndexError {
        let place = format!("in block {block}");
        IndexError::Damaged { structure, place, found: found.to_string(), expected }
    }
}

impl From<IndexError> for LabError {
    fn from(error: IndexError) -> LabError {
        LabError::Failed {
            target: "index".to_owned(),
            what: "directory".to_owned(),
            why: error.to_string(),
            full: matches!(error, IndexError::Full(_)),
        }
    }
}
