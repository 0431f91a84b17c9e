//! Parsers of words and lines that users write, and of files that an image has.
//!
//! # Invariants
//! 1. They have no input or output, and use no module outside of this folder: the fuzz targets
//!    include it (`fuzz/src/lib.rs`).
//! 2. No text makes them panic, or slower than in proportion to its length; `pattern` has its own
//!    bound.

pub(crate) mod accounts;
pub(crate) mod acl;
pub(crate) mod find;
pub(crate) mod line;
pub(crate) mod mode;
pub(crate) mod number;
pub(crate) mod pattern;
pub(crate) mod printf;
pub(crate) mod quota;
