//! The check in the background corrects everything that a crash left, while the volume is in use,
//! and loses nothing.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test")]

mod crash;
mod during;
#[path = "../../../ffs-testkit/shared/edit.rs"]
mod edit;
mod states;
mod summaries;
mod threads;
mod world;
