//! Helpers for the tests of all rooms: real images, references to compare with, deterministic streams of
//! numbers and bytes, and settings from the environment.
//!
//! **Purpose.** What several rooms' tests need and none of them should own. It depends on no room,
//! so that any room may use it without a cycle.
//!
//! **Invariants.**
//! 1. Everything random comes from a seed that the test prints.
//! 2. A fixture that is absent is reported as `skipped` on standard output and the test goes on
//!    without it; a fixture that is present but damaged stops the test.
#![allow(clippy::panic, reason = "a test helper stops the test it helps; callers are tests only")]

pub mod env;
pub mod fixtures;
pub mod killed;
pub mod model;
pub mod rng;
