//! Guards over the sources: retired words, layout, import circles, tests that no program has.
//!
//! A guard fails if it finds anything, and lists its findings by area: a crate, or a top-level
//! folder.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at surprises")]

mod circles;
mod files;
mod findings;
mod layout;
mod modules;
mod programs;
mod softdep_order;
mod vocabulary;
