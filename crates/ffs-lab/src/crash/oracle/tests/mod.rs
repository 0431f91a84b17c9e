//! Small histories, and trees that must be accepted or refused.

mod contents;
mod names;
mod policies;
pub(super) mod story;
