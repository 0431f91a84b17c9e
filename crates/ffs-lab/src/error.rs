//! What can go wrong in the laboratory.

use std::fmt::Display;

/// A result of the laboratory.
pub type Result<T> = std::result::Result<T, LabError>;

/// Why an experiment could not be done.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A target that cannot be understood.
    #[error("target '{target}': {why}")]
    Spec {
        /// As it was given.
        target: String,
        /// What is wrong with it, and what would be right.
        why: String,
    },
    /// A target that cannot be used: not writable, too small, already there.
    #[error("{target}: {why}")]
    Unusable {
        /// The target's label.
        target: String,
        /// Why, and what to do.
        why: String,
    },
    /// An operation of a target failed.
    #[error("{target}: {what}: {why}")]
    Failed {
        /// The target's label.
        target: String,
        /// The operation and what it was for.
        what: String,
        /// The reason the target gives.
        why: String,
        /// Whether the reason is that there is no room left.
        full: bool,
    },
    /// Somebody asked to stop.
    #[error("interrupted")]
    Interrupted,
    /// An experiment that cannot be made with these numbers.
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
