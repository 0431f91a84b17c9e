//! Changes parameters of an existing file system.
