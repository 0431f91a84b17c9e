//! Helpers for the tests of all crates: real images, reference models, deterministic random numbers
//! and bytes, settings from the environment, and the files of the repository.
//!
//! **Purpose.** Test helpers that several crates need. This crate depends on no other crate of the
//! workspace, so that each of them can use it without a cycle.
//!
//! **Invariants.**
//! 1. All random values come from a seed that the test prints.
//! 2. A test whose fixture is absent prints `skipped` and continues without it. A fixture that is
//!    present but damaged stops the test.
//!
//! ```
//! use ffs_testkit::rng::SplitMix64;
//!
//! let mut rng = SplitMix64::new(7);
//! assert!(rng.between(1, 6) <= 6);
//! ```
#![allow(clippy::panic, reason = "a test helper stops the test it helps; callers are tests only")]

pub mod envvar;
pub mod fixtures;
pub mod killtest;
pub mod model;
pub mod repository;
pub mod rng;
pub mod tools;
