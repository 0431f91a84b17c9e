//! The errors of the laboratory.

use std::fmt::Display;

/// A result of the laboratory.
pub type Result<T> = std::result::Result<T, LabError>;

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The text of a target is invalid.
    #[error("target '{target}': {why}")]
    Spec {
        /// The text.
        target: String,
        /// The mistake, and what is expected.
        why: String,
    },
    /// A target or file cannot be used: it is not writable, too small, or exists already.
    #[error("{target}: {why}")]
    Unusable {
        /// The label of the target, or the name of the file.
        target: String,
        /// The reason, and what to do.
        why: String,
    },
    /// An operation of a target failed.
    #[error("{target}: {what}: {why}")]
    Failed {
        /// The target's label.
        target: String,
        /// The operation and its object.
        what: String,
        /// The reason.
        why: String,
        /// Whether the reason is a full volume.
        full: bool,
    },
    /// The user interrupted the measurement.
    #[error("interrupted")]
    Interrupted,
    /// The request or the plan is invalid.
    #[error("{0}")]
    Plan(String),
}

impl LabError {
    pub(crate) fn spec(target: &str, why: impl Display) -> LabError {
        LabError::Spec { target: target.to_owned(), why: why.to_string() }
    }

    pub(crate) fn unusable(target: &str, why: impl Display) -> LabError {
        LabError::Unusable { target: target.to_owned(), why: why.to_string() }
    }
}
