//! Makes file systems.
