//! Checks and repairs file systems.
