//! `ffs demo`.
